"""What every target has to do, whatever holds the agent: one set of tests, run for each of them."""

import os
import sys

import engines
import pexpect
import providers
import pytest
from programs import IGNORES_TERM, PROBE, facts, give_to_agent

from support import BIN


@pytest.mark.parametrize("provider", providers.TARGETS, indirect=True)
def test_a_session_starts_takes_a_message_and_ends_with_the_status_of_its_program(provider):
    world = provider.world
    session_id = provider.start("--", "sh", "-c", f"{PROBE}; read line; echo got $line; exit 7")
    world.wait_for_output(session_id, "is up")
    listed = world.session("list", "--verbose").stdout.splitlines()[1].split("\t")
    fields = world.show(session_id)
    assert listed[2] == "running"
    assert listed[7] == f"{fields['target_kind']}/{fields['target_provider']}/{fields['target_id']}"
    assert fields["container_name"].startswith("workcell-command-strict-repo-")
    assert fields.get("image_ref", "") == (world.env["WORKCELL_IMAGE"] if provider.has_engine else "")
    assert world.session("send", "--id", session_id, "--message", "good day").exit_status == 0
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 7

    found = facts(world.transcript(session_id))
    assert found["size"] == "24 80"
    assert "got good day" in world.transcript(session_id)
    if provider.confines:
        assert found["uid"] != "0"
        assert set(found["CapEff"] + found["CapBnd"]) == {"0"}
        assert found["NoNewPrivs"] == "1"
        assert found["pwd"] == "/workspace"
        assert found["root"] == "readonly"
    fields = world.show(session_id)
    assert (fields["status"], fields["live_status"], fields["exit_status"]) == ("failed", "stopped", "7")
    assert world.session("verify", "--id", session_id).exit_status == 0
    assert not provider.containers() and not world.scratch_folders()


def test_the_end_by_success_and_by_a_signal_is_told_apart(provider):
    world = provider.world
    for program, expected in (("exit 0", ("exited", "0")), ("kill -9 $$", ("failed", "137"))):
        session_id = provider.start("--", "sh", "-c", program)
        assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == int(expected[1])
        fields = world.show(session_id)
        assert (fields["status"], fields["exit_status"]) == expected


@pytest.mark.parametrize("provider", providers.TARGETS, indirect=True)
def test_stop_asks_and_insists_and_delete_leaves_nothing(provider):
    world = provider.world
    polite = provider.start("--", "sh", "-c", "trap 'exit 3' TERM; echo is up; while :; do sleep 0.05; done")
    world.wait_for_output(polite, "is up")
    stubborn = provider.start("--", *IGNORES_TERM)
    world.wait_for_output(stubborn, "is up")
    for session_id, words, status in ((polite, (), "3"), (stubborn, ("--force",), "137")):
        assert world.session("stop", "--id", session_id, *words).exit_status == 0
        fields = world.show(session_id)
        assert (fields["status"], fields["exit_status"]) == ("exited", status)
        assert world.session("delete", "--id", session_id).exit_status == 0
        assert world.session("show", "--id", session_id).exit_status == 1
    assert not provider.containers() and not world.scratch_folders()


def test_a_terminal_that_joins_sees_types_and_sets_the_size(provider):
    world = provider.world
    session_id = provider.start("--", "sh", "-c", "echo is up; while read line; do echo [$line]; stty size; done; exit 4")
    world.wait_for_output(session_id, "is up")
    words = [os.path.join(BIN, "workcell-session-attach"), "--id", session_id]
    child = pexpect.spawn(sys.executable, words, env=world.env, dimensions=(31, 97), timeout=20, encoding="utf-8")
    try:
        child.expect("is up")
        for rows, columns in ((31, 97), (33, 101)):
            child.setwinsize(rows, columns)
            for _ in range(100):  # it is jiggled for a moment, so that programs redraw
                child.send("key\r")
                child.expect(r"\[key\]\s+(\d+ \d+)")
                if child.match[1] == f"{rows} {columns}":
                    break
            assert child.match[1] == f"{rows} {columns}"
        child.send("\x1c")  # detach
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert world.show(session_id)["live_status"] == "running"
        world.session("send", "--id", session_id, "--message", "three")
        world.wait_for_output(session_id, "33 101")
        world.session("send", "--id", session_id, "--raw", "--message", "\x04")
        assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 4
    finally:
        child.close(force=True)


def test_a_direct_session_works_in_the_workspace_and_an_isolated_one_beside_it(provider):
    world = provider.world
    give_to_agent(world.repo)
    writing = "echo new > made; echo evil > .git/hooks/post-checkout; echo '[core]' >> .git/config; cat README"
    isolated = provider.start("--", "sh", "-c", writing)
    assert world.session("wait", "--id", isolated, "--timeout", "20").exit_status == 0
    clone = world.show(isolated)["workspace"]
    assert os.path.exists(os.path.join(clone, "made")) and not os.path.exists(os.path.join(world.repo, "made"))
    direct = provider.start("--session-workspace", "direct", "--", "sh", "-c", writing)
    assert world.session("wait", "--id", direct, "--timeout", "20").exit_status == 0
    assert os.path.exists(os.path.join(world.repo, "made"))
    if provider.confines:
        assert not os.path.exists(os.path.join(world.repo, ".git/hooks/post-checkout"))
        assert world.show(direct)["workspace_control_plane"] == "readonly-vcs"
        assert "hello" in world.transcript(direct)


def test_values_of_the_environment_and_files_of_the_home_come_in_by_no_list_of_processes(provider):
    world = provider.world
    if provider.confines:
        os.makedirs(os.path.join(world.home, ".config/workcell"))
        with open(os.path.join(world.home, ".config/workcell/agents.toml"), "w") as stream:
            stream.write('[mine]\ncommand = ["sh", "-c"]\nhome = [".mine"]\n')
        os.makedirs(os.path.join(world.home, ".mine/deep"))
        with open(os.path.join(world.home, ".mine/deep/file"), "w") as stream:
            stream.write("from home\n" * 20000)
    program = 'echo "$TOKEN" | rev; wc -l < ~/.mine/deep/file; ls -l ~/.mine; echo is up; exec sleep 1000'
    session_id = provider.start(
        "--env", "TOKEN", "--", *(() if provider.confines else ("sh", "-c")), program.replace("| rev", "| sed s/t/T/"),
        agent="mine" if provider.confines else "command", env={"TOKEN": "secret-value"},
    )  # fmt: skip
    world.wait_for_output(session_id, "is up")
    shown = world.console(session_id)
    assert "secreT-value" in shown
    if provider.confines:
        assert "20000" in shown
    if provider.has_engine:
        for container in provider.containers():
            assert "secret-value" not in engines.run([*provider.client, "inspect", container], provider.env)
    assert world.session("stop", "--id", session_id).exit_status == 0
    for folder, _, names in os.walk(world.state):
        for name in names:
            if not name.endswith(".cast"):
                with open(os.path.join(folder, name), "rb") as stream:
                    assert b"secret-value" not in stream.read(), name


def test_a_file_trace_tells_what_the_agent_changes_until_its_very_end(provider):
    world, log = provider.world, os.path.join(provider.world.home, "trace.log")
    agent = 'echo 1 > one; echo h > "$HOME/h"; ln -s one "$(printf "odd\\n\\351")"; exit 4'
    words = ("--file-trace-log", log, "--", "sh", "-c", agent)
    session_id = provider.start(*words)
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 4
    with open(log, encoding="ascii") as stream:
        lines = [line.split("\t") for line in stream.read().splitlines()]
    events = [line[1].removeprefix("event=") for line in lines]
    roots = 1 if provider.target == "process" else 2
    assert events[: 1 + roots] == ["provider-launch"] + ["watch-start"] * roots
    assert events[-1 - roots :] == ["watch-stop"] * roots + ["provider-exit"] and lines[-1][-1] == "status=4"
    created = {line[3].rpartition("/")[2] for line in lines if line[1] == "event=create"}
    assert {"one", "odd\\n\\351'"} | ({"h"} if provider.confines else set()) <= created


def test_a_persistent_home_is_kept_for_the_agents_next_session_and_for_one_at_a_time(provider):
    world = provider.world
    asked = ("start", "--agent", "command", "--target", provider.target, *provider.options, "--home", "persistent")
    if not provider.confines:
        done = world.session(*asked, "--", "true")
        assert done.exit_status == 2 and "--home persistent" in done.stderr, done
        return
    first = provider.start("--home", "persistent", "--", "sh", "-c", 'echo kept > "$HOME/note"; echo is up; exec sleep 1000')
    world.wait_for_output(first, "is up")
    done = world.session(*asked, "--", "true")
    assert done.exit_status == 2 and f"is used by session {first}" in done.stderr, done
    other = provider.start("--", "sh", "-c", '[ ! -e "$HOME/note" ]')  # a home of its own
    assert world.session("wait", "--id", other, "--timeout", "20").exit_status == 0
    assert world.session("stop", "--id", first, "--force").exit_status == 0
    second = provider.start(
        "--home", "persistent", "--", "sh", "-c", 'cat "$HOME/note"; echo more >> "$HOME/note"; ls -ld "$HOME"'
    )
    assert world.session("wait", "--id", second, "--timeout", "20").exit_status == 0
    assert "kept" in world.transcript(second) and "drwx------" in world.transcript(second)
    fields = world.show(second)
    assert fields["initial_assurance"] == fields["final_assurance"] == "lower-assurance-persistent-cache"
    with open(fields["audit_log_path"]) as stream:
        launch = next(line for line in stream if "event=launch" in line and second in line)
    assert "cache_profile=standard cache_assurance=lower-assurance-persistent-cache" in launch
    assert "container_assurance=managed-readonly" in launch
    assert world.session("delete", "--id", second).exit_status == 0
    homes = os.path.join(os.path.dirname(fields["audit_log_path"]), "homes")
    assert os.stat(homes).st_mode & 0o777 == 0o700 and os.listdir(homes) == ["command"]
