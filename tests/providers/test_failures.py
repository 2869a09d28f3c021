"""What dies, hangs or lies around a container: each ends in the state that is true, and what cannot be told is not guessed."""

import json
import os
import shutil
import signal
import stat
import subprocess

import engines
import pytest
from programs import SLEEPER

from support import processes_with, wait_until

POLITE = ("sh", "-c", "trap 'exit 6' TERM HUP; echo is up; while :; do sleep 0.05; done")


def start(provider, *program):
    session_id = provider.start("--", *(program or SLEEPER))
    provider.world.wait_for_output(session_id, "is up")
    return session_id


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def client_of(provider, session_id):
    """Return the pid of the engine's client that the monitor keeps."""
    with open(os.path.join(provider.world.show(session_id)["session_audit_dir"], "sandbox-status.json")) as stream:
        return [note["client-pid"] for note in map(json.loads, stream) if "client-pid" in note][-1]


def first_process(provider, session_id):
    words = [*provider.client, "inspect", "--format", "{{.State.Pid}}", provider.containers()[0]]
    return int(engines.run(words, provider.env))


def conmon_of(provider, session_id):
    return [pid for pid, words in processes_with(provider.containers()[0]) if "conmon" in words.split()[0]][0]


def ends(provider, session_id, status, exit_status, wait_s="30"):
    """Wait for the end and check what the record says of it, that it is sealed and that nothing is left."""
    world = provider.world
    world.session("wait", "--id", session_id, "--timeout", wait_s)
    fields = world.show(session_id)
    assert (fields["status"], fields["live_status"], fields["exit_status"]) == (status, "stopped", exit_status)
    assert world.session("verify", "--id", session_id).exit_status == 0
    assert not provider.containers() and not world.scratch_folders()


def test_a_session_outlives_the_client_of_its_engine(engine):
    session_id = start(engine, "sh", "-c", "echo is up; while read line; do echo said $line; done")
    before = client_of(engine, session_id)
    kill(before)
    wait_until(lambda: client_of(engine, session_id) != before, what="another client")

    # The size and the output go through the new one.
    def heard():
        engine.world.session("send", "--id", session_id, "--message", "hello")
        return "said hello" in engine.world.console(session_id)

    wait_until(heard, what="output")
    assert engine.world.session("stop", "--id", session_id, "--force").exit_status == 0
    ends(engine, session_id, "exited", "137")


def test_the_end_of_the_containers_first_process_is_the_end_of_the_session(engine):
    session_id = start(engine)
    kill(first_process(engine, session_id))
    ends(engine, session_id, "failed", "137")


def test_when_conmon_is_killed_the_exit_status_is_still_learned_and_no_word_of_podman_is_believed(podman):
    session_id = start(podman, *POLITE)
    kill(conmon_of(podman, session_id))  # its end of the terminal hangs up
    ends(podman, session_id, "failed", "6")


def test_when_monitor_and_conmon_are_killed_the_session_is_lost_and_said_so(podman):
    world = podman.world
    session_id = start(podman)
    first = first_process(podman, session_id)
    kill(int(world.show(session_id)["monitor_pid"]))
    kill(conmon_of(podman, session_id))
    wait_until(lambda: not os.path.exists(f"/proc/{first}"), what="the hang-up")
    assert "running" in engines.run(["podman", "inspect", podman.containers()[0]], podman.env)  # which is a lie
    listed = world.session("list").stdout.splitlines()[1].split("\t")
    assert listed[2] == "lost"
    assert world.session("stop", "--id", session_id).exit_status == 0
    ends(podman, session_id, "aborted", "1")


def test_when_the_monitor_is_killed_its_container_runs_until_stop_ends_both(engine):
    world = engine.world
    session_id = start(engine, "sh", "-c", "trap '' HUP; trap 'exit 6' TERM; echo is up; while :; do sleep 0.05; done")
    kill(int(world.show(session_id)["monitor_pid"]))
    wait_until(lambda: world.session("list").stdout.splitlines()[1].split("\t")[2] != "running", what="the loss")
    shown = world.session("list").stdout.splitlines()[1].split("\t")[2]
    assert shown == ("unmonitored" if engine.target in ("podman", "docker") else "unknown")
    assert world.session("send", "--id", session_id, "--message", "x").exit_status == 1
    assert world.session("stop", "--id", session_id).exit_status == 0
    ends(engine, session_id, "exited", "6")


def test_a_container_that_is_removed_behind_our_back_ends_its_session(podman):
    session_id = start(podman)
    monitor = int(podman.world.show(session_id)["monitor_pid"])
    # Held for the time of the removal: else it may see the killed container before that is gone, and learn its status.
    os.kill(monitor, signal.SIGSTOP)
    try:
        engines.run(["podman", "rm", "-f", "-t", "0", podman.containers()[0]], podman.env)
    finally:
        os.kill(monitor, signal.SIGCONT)
    ends(podman, session_id, "aborted", "1")


def test_a_container_that_is_started_again_behind_our_back_is_not_the_session(engine):
    session_id = start(engine)
    engines.run([*engine.client, "restart", "-t", "0", engine.containers()[0]], engine.env)
    wait_until(lambda: engine.world.show(session_id)["live_status"] == "stopped", 30, "the end")
    assert engine.world.show(session_id)["status"] in ("aborted", "failed")
    wait_until(lambda: not engine.containers(), what="its removal")


def fake(world, text, name="podman"):
    """Put a program before the real one on PATH; return the variables for a command that meets it."""
    folder = os.path.join(world.folder, "fake")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w") as stream:
        stream.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)
    return {"PATH": folder + ":" + world.env["PATH"]}


def test_a_client_that_does_not_notice_the_end_does_not_hold_it_up_however_short_the_agents_life(podman):
    real = shutil.which("podman", path=podman.world.env["PATH"])
    podman.world.env |= fake(
        podman.world, f'{real} "$@"\nended=$?\n[ "$1 $2" != "run --interactive" ] || exec sleep 1000\nexit $ended\n'
    )
    for program in (("true",), ("sleep", "0.2")):
        session_id = podman.start("--", *program)
        ends(podman, session_id, "exited", "0", wait_s="20")


ANSWERS = {
    "garbage": "echo '{{{'; exit 0",
    "half an answer": 'printf \'{"Status":"exi\'; exit 0',
    "failure": "echo 'Error: cannot connect' >&2; exit 125",
    "silence": "exec sleep 1000",
}


def test_an_engine_that_hangs_or_talks_nonsense_is_never_taken_to_say_that_a_session_is_gone(podman):
    world = podman.world
    session_id = start(podman, *POLITE)
    first = first_process(podman, session_id)
    kill(int(world.show(session_id)["monitor_pid"]))
    kill(first)
    wait_until(lambda: not os.path.exists(f"/proc/{first}"), what="its end")
    for text in ANSWERS.values():
        before = world.show(session_id)
        done = world.session("stop", "--id", session_id, env=fake(world, text), timeout=40)
        assert done.exit_status == 1 and "could not" in done.stderr, done
        assert world.show(session_id)["status"] == before["status"] == "running"
    assert podman.containers()
    assert world.session("stop", "--id", session_id).exit_status == 0
    ends(podman, session_id, "failed", "137")


def test_what_cannot_be_started_is_refused_before_anything_is_changed(engine):
    world = engine.world
    few = os.path.join(world.folder, "few")
    os.mkdir(few)
    for name in ("git", "python3"):
        os.symlink(f"/usr/bin/{name}", os.path.join(few, name))
    asked = ("start", "--target", engine.target, *engine.options, "--agent", "command")
    for words, env, says in (
        (("--image", "localhost/none:1"), {}, "pull localhost/none:1"),
        (("--image", "-v"), {}, "no name of an image"),
        ((), {"PATH": few}, "not on PATH"),
    ):
        done = world.session(*asked, *words, "--", "true", env=env)
        assert done.exit_status == 2 and says in done.stderr, done
    assert not os.path.exists(world.state)
    done = world.session(*asked, "--", "/no/such/program")
    assert done.exit_status == 0
    session_id = done.values["session_id"]
    ends(engine, session_id, "failed", "127")


@pytest.mark.parametrize("dies", ["start", "monitor"])
def test_a_container_that_waits_for_its_clone_goes_with_the_one_of_start_and_monitor_that_dies(podman, dies):
    die_while_git_copies(podman, dies)


def test_a_container_that_waits_for_its_clone_is_removed_by_reconcile_where_both_died(engine):
    die_while_git_copies(engine, "both")


def die_while_git_copies(engine, dies):
    """The container is made while git still copies, and nothing of the agent has run in it."""
    world = engine.world
    clones = os.path.join(world.repo, ".git/workcell-sessions")
    git, go = shutil.which("git", path=world.env["PATH"]), os.path.join(world.folder, "go")
    text = f'case " $* " in *" clone "*) while [ ! -e "{go}" ]; do sleep 0.02; done ;; esac\nexec {git} "$@"\n'
    env = fake(world, text, "git")
    words = ["--target", engine.target, *engine.options, "--agent", "command", "--", "touch", "ran"]
    child = world.popen("workcell-session-start", *words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def container():
        engine.ids[:] = os.listdir(clones) if os.path.isdir(clones) else []
        listed = [*engine.client, "ps", "-q", "--filter", "status=running", "--filter"]
        return engine.ids and engines.run([*listed, f"label=workcell.session-id={engine.ids[0]}"], engine.env).strip()

    wait_until(container, 30, what="the container")
    [monitor] = {pid for pid, words in processes_with(world.mark) if "workcell-session-start" in words} - {child.pid}
    for pid in {"start": [child.pid], "monitor": [monitor], "both": [child.pid, monitor]}[dies]:
        kill(pid)
    open(go, "w").close()
    said = child.communicate(timeout=60)[1]
    if dies == "both":
        wait_until(lambda: not processes_with(world.mark), what="the end of git")
        wait_until(lambda: "outcome=removed" in world.session("reconcile", "--all", "--dry-run").stdout, what="its lock")
        assert world.session("reconcile", "--all").exit_status == 0
    if dies == "monitor":
        assert child.returncode == 1 and b"its monitor ended" in said, said
    assert world.session("list", "--ids").stdout == ""
    wait_until(lambda: not engine.containers(), 30, what="the removal of the container")
    wait_until(lambda: not world.scratch_folders(), what="the end of the clean-up")
    assert os.listdir(clones) == []


def test_a_session_outlives_its_docker_daemon_and_ends_when_that_comes_back(docker, dockerd):
    world = docker.world
    session_id = start(docker)
    kill(dockerd.child.pid)
    dockerd.child.wait()
    shown = world.session("list").stdout.splitlines()[1].split("\t")[2]
    assert shown == "running"
    assert world.show(session_id)["status"] == "running"
    dockerd.start()  # and with it ends what it finds of its containers
    ends(docker, session_id, "failed", "143", "60")


def test_a_message_that_nobody_reads_fails_in_time_and_says_so(engine):
    world = engine.world
    session_id = start(engine, "sh", "-c", "stty raw -echo; echo is up; exec sleep 1000")
    path = os.path.join(world.home, "long")
    with open(path, "w") as stream:
        stream.write("x" * (4 << 20))
    done = world.session("send", "--id", session_id, "--raw", "--file", path, "--timeout", "2")
    assert done.exit_status == 1 and "taken" in done.stderr, done
    assert world.session("stop", "--id", session_id, "--force").exit_status == 0


def test_auto_takes_podman_where_no_sandbox_can_be_had_and_the_image_is_there(podman):
    world = podman.world
    env = fake(world, "exit 9")
    os.rename(os.path.join(world.folder, "fake/podman"), os.path.join(world.folder, "fake/bwrap"))
    asked = ("start", *podman.options, "--agent", "command", "--json")
    done = world.session(*asked, "--", "true", env=env)
    assert done.exit_status == 0 and "bubblewrap: exit status 9; it has the image" in done.stderr, done
    session_id = json.loads(done.stdout)["session_id"]
    podman.ids.append(session_id)
    world.session("wait", "--id", session_id)
    assert world.show(session_id)["target_provider"] == "podman"
    done = world.session(*asked, "--image", "localhost/none:1", "--", "true", env=env)
    assert done.exit_status == 2 and "image localhost/none:1 is not there" in done.stderr, done
