"""A session in a virtual machine, from a system that has nothing of what only Linux has: no /proc, no pidfd, no inotify.

The real thing, macOS, is not to be had here: the Python that runs the commands has lost all of it (elsewhere/sitecustomize.py).
"""

import os

import pexpect
import providers
import pytest

TALKER = ("sh", "-c", "echo is up; while read line; do echo said $line; [ $line = end ] && exit 5; done")


@pytest.fixture
def elsewhere(request, tmp_path):
    """colima, in a world whose commands find no Linux."""
    for provider in providers.serve("colima", tmp_path, request):
        provider.world.env["PYTHONPATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "elsewhere")
        yield provider
        provider.world.env.pop("PYTHONPATH")


def test_a_session_is_started_joined_typed_to_and_ended_without_anything_of_linux(elsewhere):
    world = elsewhere.world
    assert world.run("python3", "-c", "import os; print(os.path.exists('/proc'))").stdout == "False\n"
    session_id = elsewhere.start("--", *TALKER)
    world.wait_for_output(session_id, "is up")
    assert world.session("list").stdout.splitlines()[1].split("\t")[2] == "running"
    assert world.session("send", "--id", session_id, "--message", "hello").exit_status == 0
    world.wait_for_output(session_id, "said hello")
    for verb in ("show", "diff", "timeline", "export"):
        assert world.session(verb, "--id", session_id).exit_status == 0, verb
    assert world.session("list", "--probe").exit_status == 0 == world.session("reconcile", "--all").exit_status
    words = world.words("workcell-session-attach", "--id", session_id)
    terminal = pexpect.spawn(words[0], words[1:], env=world.env, cwd=world.repo, timeout=20, dimensions=(30, 90))
    terminal.expect("said hello")
    terminal.send("typed\r")
    terminal.expect("said typed")
    terminal.send("\x1c")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert world.session("send", "--id", session_id, "--message", "end").exit_status == 0
    assert world.session("wait", "--id", session_id, "--timeout", "30").exit_status == 5
    fields = world.show(session_id)
    assert (fields["status"], fields["exit_status"]) == ("failed", "5")
    assert world.session("verify", "--id", session_id).exit_status == 0
    assert "said typed" in world.session("logs", "--id", session_id, "--kind", "transcript", "--text").stdout
    assert world.session("delete", "--id", session_id).exit_status == 0


def test_stop_reconcile_and_the_loss_of_a_monitor_without_anything_of_linux(elsewhere):
    world = elsewhere.world
    stopped = elsewhere.start("--session-workspace", "direct", "--", *TALKER)
    world.wait_for_output(stopped, "is up")
    assert world.session("stop", "--id", stopped, "--force").exit_status == 0
    assert world.show(stopped)["exit_status"] == "137"
    lost = elsewhere.start("--", *TALKER)
    world.wait_for_output(lost, "is up")
    os.kill(int(world.show(lost)["monitor_pid"]), 9)
    assert world.session("stop", "--id", lost, "--force").exit_status == 0
    assert world.show(lost)["status"] == "exited"
    assert world.session("verify", "--all").exit_status == 0
    assert not world.scratch_folders()
