"""The end of a session: its exit status is the agent's own wherever it is read, and everything is written when wait returns."""

import json
import os
import signal
import stat
import subprocess
import time

import pytest

from life import (
    SLEEPER,
    adapter_pid,
    assert_nothing_left,
    event_names,
    events,
    fits,
    found_status,
    is_gone,
    record_of,
    seal_bytes,
    strays,
    transcript,
    tree,
    verdict,
    wait_for_output,
)
from support import wait_until
from workcell.runtimes import bubblewrap


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


ENDS = {
    ("true",): (0, "exited"),
    ("sh", "-c", "exit 7"): (7, "exited"),
    ("sh", "-c", "exit 255"): (255, "exited"),
    ("sh", "-c", "kill -TERM $$"): (143, "signal"),
    ("sh", "-c", "kill -KILL $$"): (137, "signal"),
    ("sh", "-c", "kill -SEGV $$"): (139, "signal"),
    ("./broken",): (126, "exited"),  # what it says after `#!` is not there
    ("./ignored",): (127, "exited"),  # it is in the workspace, but no part of the clone
}


def test_the_exit_status_is_the_agents_own_wherever_it_is_read(world, target):
    # E08
    for name in ("broken", "ignored"):
        with open(os.path.join(world.repo, name), "w") as stream:
            stream.write("#!/no/such/interpreter\n")
        os.chmod(os.path.join(world.repo, name), 0o755)
    with open(os.path.join(world.repo, ".gitignore"), "w") as stream:
        stream.write("ignored\n")
    world.git("-C", world.repo, "add", "-A")
    world.git("-C", world.repo, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-q", "-m", "two")
    ended = {}
    for words, (code, reason) in ENDS.items():
        session_id = world.start("--", *words, target=target)
        ended[session_id] = words, code, reason
        waited = world.session("wait", "--id", session_id, "--json")
        # All of it is there as soon as wait returns.
        assert not strays(world)
        assert waited.exit_status == code
        word = "exited" if code == 0 else "failed"
        answer = {"session_id": session_id, "status": word, "exit_status": str(code), "reason": reason}
        assert fits("session-wait", waited.stdout) == answer
        assert [event["exit_status"] for event in events(world, session_id, "exit")] == [str(code)]
        assert event_names(world, session_id) == ["launch", "exit"]
        done = world.session("verify", "--id", session_id)
        assert (done.exit_status, done.values["session_verify"]) == (0, "verified"), done
        if code in (126, 127):
            assert words[0] in transcript(world, session_id)
    records = fits("session-list", world.session("list", "--json").stdout)
    assert {record["session_id"] for record in records} == set(ended)
    for record in records:
        code = ended[record["session_id"]][1]
        assert record["status"] == ("exited" if code == 0 else "failed")
        assert (record["live_status"], record["exit_status"]) == ("stopped", str(code))
        assert record["started_at"] <= record["finished_at"]
        assert record["final_assurance"] == record["initial_assurance"]


def test_reading_changes_nothing_and_the_status_can_be_read_again_and_again(world, target):
    # E09
    session_id = world.start("--", "sh", "-c", "echo hello; exit 4", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 4
    before = tree(world.state)
    for _ in range(2):
        assert world.session("wait", "--id", session_id, "--timeout", "0").exit_status == 4
        for verb in ("show", "timeline", "verify"):
            assert world.session(verb, "--id", session_id).exit_status == 0
        assert world.session("list").exit_status == 0
    assert tree(world.state) == before


def test_an_agent_that_ends_at_once_is_a_start_that_succeeded(world, target):
    # E11
    done = world.session("start", "--agent", "command", "--target", target, "--", "sh", "-c", "exit 3")
    assert done.exit_status == 0, done
    session_id = done.values["session_id"]
    assert done.values["status"] in ("running", "failed")  # it may still be ending when start has its last look
    if done.values["status"] == "failed":
        assert not strays(world)
    assert world.session("wait", "--id", session_id).exit_status == 3
    assert_nothing_left(world)
    assert verdict(world, session_id) == "verified"


def test_closing_its_terminal_is_not_the_end_of_the_agent(world, target):
    # E12
    session_id = world.start("--", "sh", "-c", "exec <&- >&- 2>&-; sleep 0.3; exit 5", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 5


def test_what_the_agent_leaves_running_ends_with_the_session(world, target):
    # E03: it ignores everything that can be ignored, and the exit status is still the agent's
    daemon = "trap '' TERM HUP INT; echo is up; while :; do sleep 1000; done"
    work = f"""setsid sh -c "{daemon}" </dev/null & sleep 0.2; exit 0"""
    session_id = world.start("--", "sh", "-c", work, target=target)
    assert world.session("wait", "--id", session_id, "--timeout", "30").exit_status == 0
    assert_nothing_left(world)
    assert "left behind and killed" in transcript(world, session_id)


def test_wait_sleeps_until_the_end_and_ends_with_the_status(world, target):
    # F18
    session_id = world.start("--", "sh", "-c", "echo is up; read line; exit $line", target=target)
    wait_for_output(world, session_id)
    waiters = [
        world.popen("workcell-session-wait", "--id", session_id, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    # One lock that it sleeps in, no looking again and again.
    for waiter in waiters:
        wait_until(lambda pid=waiter.pid: in_call(pid, "flock"), what="a wait that sleeps")
    assert found_status(world, session_id) == "running"
    assert world.session("send", "--id", session_id, "--message", "42").exit_status == 0
    for waiter in waiters:
        _, err = waiter.communicate(timeout=20)
        assert (waiter.returncode, err) == (42, b"")
    assert_nothing_left(world)


def in_call(pid, name):
    """Say whether a process sleeps in the kernel in a function of that name; true where the kernel does not tell."""
    with open(f"/proc/{pid}/wchan") as stream:
        where = stream.read()
    return name in where or where in ("", "0")


def test_wait_gives_up_when_the_time_is_up_and_the_session_goes_on(world, target):
    session_id = world.start("--", *SLEEPER, target=target)
    for words in (("--timeout", "0"), ("--timeout", "0.2")):
        done = world.session("wait", "--id", session_id, *words)
        assert done.exit_status == 124 and "still running" in done.stderr
    assert found_status(world, session_id) == "running"
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert_nothing_left(world)


def test_the_recording_is_what_the_agent_printed_and_nobody_elses(world, target):
    session_id = world.start("--", "sh", "-c", "printf 'caf\\303\\251 \\033[1mbold\\033[0m'", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert transcript(world, session_id) == "café \x1b[1mbold\x1b[0m"
    path = record_of(world, session_id)["transcript_log_path"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path) as stream:
        assert json.loads(stream.readline())["version"] == 2


def test_no_recording_is_kept_where_none_is_wanted(world):
    session_id = world.start("--no-transcript", "--", "sh", "-c", "echo canary-5521")
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert "transcript_log_path" not in record_of(world, session_id)
    assert not any(b"canary-5521\r" in content for _, content in tree(world.state).values())
    assert [event["transcript_logging"] for event in events(world, session_id)] == ["off", "off"]


def test_killing_the_sandbox_from_outside_is_seen_at_once(world, target):
    # F18
    session_id = world.start("--", *SLEEPER, target=target)
    wait_for_output(world, session_id)
    waiter = world.popen("workcell-session-wait", "--id", session_id, stdin=subprocess.DEVNULL)
    os.kill(adapter_pid(session_id, world), signal.SIGKILL)
    assert waiter.wait(timeout=20) == 137
    assert (record_of(world, session_id)["status"], record_of(world, session_id)["exit_status"]) == ("failed", "137")
    assert verdict(world, session_id) == "verified"
    assert_nothing_left(world)


def test_the_agent_dies_with_everything_it_started_when_its_adapter_is_killed(world, target):
    work = "setsid sh -c 'trap \"\" TERM HUP; echo is up; while :; do sleep 1000; done' & exec sleep 1000"
    session_id = world.start("--", "sh", "-c", work, target=target)
    wait_for_output(world, session_id)
    os.kill(adapter_pid(session_id, world), signal.SIGKILL)
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 137
    assert_nothing_left(world)


# --- seals


def test_the_key_is_made_at_first_use_and_is_the_operators_alone(world):
    # J12
    signing = os.path.join(world.state, "signing")
    session_id = world.start("--", *SLEEPER)
    assert not os.path.exists(signing)
    done = world.session("verify", "--id", session_id)
    assert done.exit_status == 1 and "unsealed" in done.stdout + done.stderr
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert verdict(world, session_id) == "verified"
    assert stat.S_IMODE(os.stat(signing).st_mode) == 0o700
    modes = {name: stat.S_IMODE(os.stat(os.path.join(signing, name)).st_mode) for name in os.listdir(signing)}
    assert sorted(modes.values()) == [0o600, 0o644] and modes["signing.key"] == 0o600
    os.unlink(
        os.path.join(os.path.dirname(record_of(world, session_id)["audit_log_path"]), "sessions", session_id + ".audit-sig")
    )
    done = world.session("verify", "--id", session_id)
    assert done.exit_status == 1 and "unsealed" in done.stdout + done.stderr


def spoil_group_read(path):
    os.chmod(path, 0o640)


def spoil_content(path):
    with open(path, "rb") as stream:
        before = stream.read()
    with open(path, "wb") as stream:
        stream.write(b"nothing of a key\n")
    return before


def spoil_kind(path):
    os.rename(path, path + ".away")
    os.mkdir(path)


def repair(path, kept):
    if os.path.isdir(path):
        os.rmdir(path)
        os.rename(path + ".away", path)
    if kept:
        with open(path, "wb") as stream:
            stream.write(kept)
    os.chmod(path, 0o600)


def test_a_key_that_cannot_be_used_costs_the_seal_and_not_the_end_and_can_be_made_good(world):
    # J06
    first = world.start("--", "true")
    assert world.session("wait", "--id", first).exit_status == 0
    key = os.path.join(world.state, "signing", "signing.key")
    for spoil in (spoil_group_read, spoil_content, spoil_kind):
        session_id = world.start("--", *SLEEPER)
        kept = spoil(key)
        done = world.session("stop", "--id", session_id)
        assert done.exit_status == 0 and "not sealed" in done.stderr, done
        assert done.values["status"] == "exited"
        assert record_of(world, session_id)["exit_status"] == "143"
        assert_nothing_left(world)
        done = world.session("verify", "--id", session_id)
        assert done.exit_status == 1 and "unsealed" in done.stdout + done.stderr
        assert world.session("wait", "--id", session_id).exit_status == 143
        repair(key, kept)
        done = world.session("stop", "--id", session_id)
        assert done.exit_status == 0 and "not sealed" not in done.stderr, done
        assert verdict(world, session_id) == "verified"
        assert event_names(world, session_id) == ["launch", "stop-request", "exit"]
    assert verdict(world, first) == "verified"


def test_a_new_key_takes_over_where_the_old_one_is_gone_and_old_seals_still_hold(world):
    # J06, J08
    first = world.start("--", "true")
    assert world.session("wait", "--id", first).exit_status == 0
    before = seal_bytes(world, first)
    os.unlink(os.path.join(world.state, "signing", "signing.key"))
    second = world.start("--", "true")
    assert world.session("wait", "--id", second).exit_status == 0
    assert verdict(world, first) == verdict(world, second) == "verified"
    assert json.loads(before)["key_id"] != json.loads(seal_bytes(world, second))["key_id"]
    assert seal_bytes(world, first) == before


def test_a_session_from_the_future_neither_hides_nor_moves_another(world):
    # L03
    first, second = (world.start("--", *SLEEPER) for _ in range(2))
    folder = os.path.dirname(record_of(world, first)["audit_log_path"])
    path = os.path.join(folder, "sessions", first + ".json")
    with open(path) as stream:
        text = stream.read()
    with open(path, "w") as stream:
        stream.write(text.replace(json.loads(text)["started_at"], "2099-01-01T00:00:00Z"))
    rows = [line.split("\t")[0] for line in world.session("list").stdout.splitlines()[1:]]
    assert rows == [first, second]
    assert found_status(world, first) == found_status(world, second) == "running"
    assert world.session("stop", "--id", second).exit_status == 0
    assert found_status(world, first) == "running"
    assert world.session("stop", "--id", first).exit_status == 0
    assert verdict(world, first) == verdict(world, second) == "verified"
    assert_nothing_left(world)


def test_a_stopped_monitor_is_neither_dead_nor_lost(world, target):
    session_id = world.start("--", "sh", "-c", "echo is up; read line; exit 6", target=target)
    wait_for_output(world, session_id)
    pid = int(record_of(world, session_id)["monitor_pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        assert found_status(world, session_id) == "running"
        assert world.session("send", "--id", session_id, "--message", "go").exit_status == 0
        begun = time.monotonic()
        done = world.session("wait", "--id", session_id, "--timeout", "0.3")
        assert done.exit_status == 124 and time.monotonic() - begun < 5
        assert not is_gone(pid)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert world.session("wait", "--id", session_id).exit_status == 6
    assert verdict(world, session_id) == "verified"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a folder to root")
def test_an_end_that_could_not_be_recorded_at_first_is_told_once(world, target, tmp_path):
    program = "echo is up; while [ ! -e go ]; do sleep 0.01; done"
    debug = tmp_path / "debug.log"
    words = ("--session-workspace", "direct", "--debug-log", str(debug), "--", "sh", "-c", program)
    session_id = world.start(*words, target=target)
    wait_for_output(world, session_id)
    sessions = os.path.join(os.path.dirname(record_of(world, session_id)["audit_log_path"]), "sessions")
    subprocess.run(["mount", "--bind", sessions, sessions], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", sessions], check=True)
        open(os.path.join(world.repo, "go"), "w").close()
        wait_until(lambda: debug.read_text().count("the end could not be written") == 2, what="a second try")
    finally:
        subprocess.run(["umount", sessions], check=True)
    assert world.session("wait", "--id", session_id, "--timeout", "30").exit_status == 0
    assert event_names(world, session_id) == ["launch", "exit"]
    assert verdict(world, session_id) == "verified"
    assert_nothing_left(world)


def test_an_agent_that_is_over_before_its_monitor_looks_has_run_all_the_same(world, tmp_path):
    """The monitor is stopped from before the sandbox starts until it has ended, as on a machine with too much to do."""
    bwrap = bubblewrap.program()
    (tmp_path / "slow").mkdir()
    lines = ["kill -STOP $PPID", f'{bwrap} "$@"', "code=$?", "kill -CONT $PPID", "exit $code"]
    script = "\n".join([f'case "$*" in *"exit 0") exec {bwrap} "$@" ;; esac', *lines, ""])
    (tmp_path / "slow/bwrap").write_text("#!/bin/bash\n" + script)
    (tmp_path / "slow/bwrap").chmod(0o755)
    world.env["PATH"] = f"{tmp_path}/slow:{world.env['PATH']}"
    session_id = world.start("--", "sh", "-c", "echo words; exit 3", target="bubblewrap")
    assert world.session("wait", "--id", session_id).exit_status == 3
    fields = record_of(world, session_id)
    assert (fields["status"], fields["exit_status"]) == ("failed", "3")
    assert "words" in transcript(world, session_id)
    assert_nothing_left(world)
