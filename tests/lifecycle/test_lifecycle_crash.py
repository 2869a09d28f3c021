"""What dies by SIGKILL at any point: what is then said is true, stop still ends it, and the record is finished once."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from life import (
    IGNORES_TERM_AND_HUP,
    SLEEPER,
    adapter_pid,
    agents_left,
    assert_nothing_left,
    assert_one_chain,
    event_names,
    events,
    fits,
    found_status,
    holds_open,
    is_gone,
    kill_monitor,
    monitor_pid,
    record_names,
    record_of,
    scratch_folders,
    session_pids,
    tree,
    verdict,
    wait_for_output,
)
from support import processes_with, scaled, wait_until


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


DEAF = ("sh", "-c", "trap '' HUP; echo is up; while :; do sleep 1000; done")


def start(world, target, words):
    session_id = world.start("--", *words, target=target)
    wait_for_output(world, session_id)
    return session_id


def stop(world, session_id, *words):
    done = world.session("stop", "--id", session_id, *words)
    assert done.exit_status == 0, done
    return done


def last_word(world, session_id):
    """Return (status, exit status, reason of the exit event) of a session that is over, once all else was found right."""
    assert_nothing_left(world)
    assert verdict(world, session_id) == "verified"
    [ended] = events(world, session_id, "exit")
    kept = record_of(world, session_id)
    assert kept["live_status"] == "stopped" and kept["exit_status"] == ended["exit_status"]
    assert_one_chain(kept["audit_log_path"])
    return kept["status"], kept["exit_status"], ended.get("reason", "")


# --- the monitor


def test_an_agent_without_its_monitor_is_shown_as_such_at_once_and_stop_ends_it(world, target):
    session_id = start(world, target, DEAF)
    before = tree(world.state)
    kill_monitor(world, session_id)
    begun = time.monotonic()
    assert found_status(world, session_id) == "unmonitored"
    assert time.monotonic() - begun < 2
    for words in (("send", "--message", "x"), ("send", "--raw", "--file", "-")):
        done = world.session(words[0], "--id", session_id, *words[1:], stdin=b"x")
        assert done.exit_status == 1 and "its monitor is dead, though its sandbox runs" in done.stderr, done
    done = world.session("wait", "--id", session_id, "--timeout", "0.3")
    assert done.exit_status == 124, done
    assert tree(world.state) == before  # nobody wrote anything: it lives
    done = stop(world, session_id)
    status, exit_status, reason = last_word(world, session_id)
    assert reason == "lost"
    if target == "bubblewrap":  # bwrap has noted how it ended
        assert (status, exit_status) == ("exited", "143")
        assert world.session("wait", "--id", session_id).exit_status == 143
    else:
        assert (status, exit_status) == ("aborted", "1")
        done = world.session("wait", "--id", session_id)
        assert done.exit_status == 1 and "lost" in done.stderr
    assert event_names(world, session_id) == ["launch", "stop-request", "exit"]
    [ended] = events(world, session_id, "exit")
    assert ended["source"] == "host-stop-fallback"


@pytest.mark.parametrize("words", [("--grace", "0.3"), ("--force",)])
def test_stop_without_a_monitor_insists_as_well(world, target, words):
    session_id = start(world, target, IGNORES_TERM_AND_HUP)
    kill_monitor(world, session_id)
    stop(world, session_id, *words)
    wanted = ("exited", "137", "lost") if target == "bubblewrap" else ("aborted", "1", "lost")
    assert last_word(world, session_id) == wanted


def test_an_agent_that_died_with_its_monitor_is_lost_and_wait_says_what_can_be_known(world, target):
    session_id = start(world, target, SLEEPER)
    kill_monitor(world, session_id)
    wait_until(lambda: found_status(world, session_id) == "lost", what="lost")  # the terminal was hung up
    assert record_of(world, session_id)["status"] == "running"
    done = world.session("send", "--id", session_id, "--message", "x")
    assert done.exit_status == 1 and "it is lost" in done.stderr
    for _ in range(2):
        done = world.session("wait", "--id", session_id)
        if target == "bubblewrap":
            assert (done.exit_status, done.stderr) == (129, "")
        else:
            assert done.exit_status == 1 and "lost" in done.stderr, done
    answer = fits("session-wait", world.session("wait", "--id", session_id, "--json").stdout)
    if target == "bubblewrap":
        assert (answer["reason"], answer["exit_status"]) == ("signal", "129")
        assert last_word(world, session_id) == ("failed", "129", "lost")
    else:
        assert answer["reason"] == "lost"
        assert last_word(world, session_id) == ("aborted", "1", "lost")
    # What was written once is not written again.
    before = tree(world.state)
    stop(world, session_id)
    assert tree(world.state) == before


def test_a_lost_session_is_finished_once_by_stops_and_waits_in_parallel(world, target):
    session_id = start(world, target, SLEEPER)
    kill_monitor(world, session_id)
    verbs = ("stop", "wait", "stop", "wait")
    children = [world.popen(f"workcell-session-{verb}", "--id", session_id, **QUIET) for verb in verbs]
    code = 129 if target == "bubblewrap" else 1
    assert [child.wait(timeout=30) for child in children] == [0, code, 0, code]
    status, _, reason = last_word(world, session_id)
    assert reason == "lost"
    assert status in (("failed", "exited") if target == "bubblewrap" else ("aborted",))


QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def test_wait_outlives_the_death_of_the_monitor(world, target):
    session_id = start(world, target, DEAF)
    waiter = world.popen("workcell-session-wait", "--id", session_id, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: holds_open(waiter.pid, "monitor.lock"), what="a wait that waits")
    kill_monitor(world, session_id)
    assert found_status(world, session_id) == "unmonitored"
    assert waiter.poll() is None
    os.kill(adapter_pid(session_id, world), signal.SIGTERM)
    _, err = waiter.communicate(timeout=20)
    assert waiter.returncode == (143 if target == "bubblewrap" else 1), err
    assert target == "bubblewrap" or b"lost" in err
    assert last_word(world, session_id)[2] == "lost"


def test_another_monitor_takes_over_and_writes_the_end(world, target):
    session_id = start(world, target, DEAF)
    spec = os.path.join(record_of(world, session_id)["session_audit_dir"], "launch-spec.json")
    done = world.session("monitor", "--state-file", spec)
    assert done.exit_status == 2 and "has a monitor already" in done.stderr
    kill_monitor(world, session_id)
    second = world.popen("workcell-session-monitor", "--state-file", spec, **QUIET)
    wait_until(lambda: found_status(world, session_id) == "running", what="the second monitor")
    os.kill(adapter_pid(session_id, world), signal.SIGTERM)
    done = world.session("wait", "--id", session_id)
    assert second.wait(timeout=20) == 0
    if target == "bubblewrap":
        assert done.exit_status == 143
        assert last_word(world, session_id) == ("failed", "143", "lost")
    else:
        assert done.exit_status == 1 and "lost" in done.stderr
        assert last_word(world, session_id) == ("aborted", "1", "lost")


def test_a_session_that_was_taken_over_can_be_stopped(world, target):
    session_id = start(world, target, DEAF)
    spec = os.path.join(record_of(world, session_id)["session_audit_dir"], "launch-spec.json")
    kill_monitor(world, session_id)
    second = world.popen("workcell-session-monitor", "--state-file", spec, **QUIET)
    wait_until(lambda: found_status(world, session_id) == "running", what="the second monitor")
    stop(world, session_id)
    assert second.wait(timeout=20) == 0
    assert last_word(world, session_id)[0] == ("exited" if target == "bubblewrap" else "aborted")


def test_a_monitor_refuses_what_is_no_session(world):
    for words, message in (
        ((), "--state-file: is required"),
        (("--state-file", "not-there"), "is no file"),
        (("--state-file", "/tmp"), "is no file"),
        (("--state-file", "a\nb"), "newline"),
        (("--state-file",), "needs a value"),
    ):
        done = world.session("monitor", *words)
        assert done.exit_status == 2 and message in done.stderr, done


def test_a_monitor_that_is_told_to_end_ends_its_session_first(world, target):
    session_id = start(world, target, SLEEPER)
    os.kill(int(record_of(world, session_id)["monitor_pid"]), signal.SIGTERM)
    assert world.session("wait", "--id", session_id).exit_status == 143
    assert last_word(world, session_id) == ("exited", "143", "monitor-terminated")


def test_many_deaths_of_the_monitor_around_the_end_leave_a_whole_record(world, target):
    # G01: at each point of writing the end down
    rounds = scaled(60, 6)
    for number in range(rounds):
        session_id = start(world, target, ("sh", "-c", "echo is up; read line; exit 7"))
        monitor = int(record_of(world, session_id)["monitor_pid"])
        assert world.session("send", "--id", session_id, "--message", "x").exit_status == 0
        time.sleep(0.12 * number / rounds)
        kill_if_there(monitor)
        done = world.session("wait", "--id", session_id)
        status, exit_status, _ = last_word(world, session_id)
        if status == "aborted":
            assert target == "process" and done.exit_status == 1 and "lost" in done.stderr
        else:
            # The hang-up may have come before the agent's own end.
            assert (status, exit_status) in (("failed", "7"), ("failed", "129"))
            assert done.exit_status == int(exit_status)


LAST_STEPS = {
    "exit.json": {"active", "unsealed", "no event"},
    "the exit event": {"active", "unsealed"},
    "the record": {"unsealed"},
    "the seal": set(),
    "the lock": {"no lock"},
}


def test_whatever_step_was_the_last_of_a_dead_monitor_the_next_command_makes_the_rest(world, target):
    # G01
    verb = {"bubblewrap": "wait", "process": "stop"}[target]
    session_id = world.start("--", "sh", "-c", "exit 7", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 7
    [folder] = world.profile_dirs()
    final, log = record_of(world, session_id), os.path.join(folder, "workcell.audit.log")
    path, scratch = os.path.join(folder, "sessions", session_id), final["session_audit_dir"]
    for missing in LAST_STEPS.values():
        if "active" in missing:
            write(path + ".json", as_if_running(final))
        if "unsealed" in missing:
            os.unlink(path + ".audit-sig")
        if "no event" in missing:
            with open(log, "rb+") as stream:
                stream.truncate(stream.read().rindex(b"\n", 0, -1) + 1)
        os.mkdir(scratch, 0o700)
        write(os.path.join(scratch, "exit.json"), '{"exit_status": 7, "observed_at": "2026-01-02T03:04:05Z"}')
        if "no lock" not in missing:
            write(os.path.join(scratch, "monitor.lock"), "")
        done = world.session(verb, "--id", session_id)
        assert done.exit_status == (7 if verb == "wait" else 0), done
        assert last_word(world, session_id)[:2] == ("failed", "7")


def as_if_running(final, **changed):
    """Return the text of the record of a finished session as it was before its end."""
    fields = {key: value for key, value in final.items() if key not in ("finished_at", "exit_status", "final_assurance")}
    return json.dumps({**fields, "status": "running", "live_status": "running", **changed})


# --- the sandbox


def bwrap_pid(world, session_id):
    for pid in session_pids(world, session_id):
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
        with open(f"/proc/{pid}/stat", "rb") as stream:
            parent = int(stream.read().rpartition(b")")[2].split()[1])
        if words[0].endswith(b"bwrap") and parent == monitor_pid(world, session_id):
            return pid
    raise AssertionError("no bwrap")


def test_the_death_of_bwrap_itself_costs_neither_the_session_nor_its_exit_status(world):
    session_id = start(world, "bubblewrap", ("sh", "-c", "echo is up; read line; exit $line"))
    os.kill(bwrap_pid(world, session_id), signal.SIGKILL)
    assert found_status(world, session_id) == "running"
    assert world.session("send", "--id", session_id, "--message", "42").exit_status == 0
    assert world.session("wait", "--id", session_id).exit_status == 42
    assert last_word(world, session_id) == ("failed", "42", "")


def test_the_death_of_bwrap_and_monitor_is_followed_by_a_stop_all_the_same(world):
    session_id = start(world, "bubblewrap", DEAF)
    bwrap = bwrap_pid(world, session_id)
    kill_monitor(world, session_id)
    os.kill(bwrap, signal.SIGKILL)
    wait_until(lambda: is_gone(bwrap), what="the end of bwrap")
    assert found_status(world, session_id) == "unmonitored"
    stop(world, session_id)
    assert last_word(world, session_id) == ("aborted", "1", "lost")


def test_the_death_of_everything_is_found_and_finished(world, target):
    # F10
    session_id = start(world, target, DEAF)
    pids = session_pids(world, session_id)
    kill_monitor(world, session_id)
    for pid in pids:
        kill_if_there(pid)
    wait_until(lambda: found_status(world, session_id) == "lost", what="lost")
    done = world.session("wait", "--id", session_id)
    assert done.exit_status == 1 and "lost" in done.stderr
    assert last_word(world, session_id) == ("aborted", "1", "lost")


def test_a_session_whose_scratch_folder_was_taken_away_ends_with_a_whole_record(world, target):
    session_id = start(world, target, ("sh", "-c", "echo is up; sleep 0.5; exit 6"))
    monitor = monitor_pid(world, session_id)
    shutil.rmtree(record_of(world, session_id)["session_audit_dir"])
    assert found_status(world, session_id) in ("unknown", "stopped")
    wait_until(lambda: is_gone(monitor), what="the end of the monitor")
    assert world.session("wait", "--id", session_id).exit_status == 6
    assert last_word(world, session_id) == ("failed", "6", "")


# --- start


@pytest.mark.parametrize("victim", ["start", "monitor"])
def test_many_deaths_while_starting_leave_nothing_or_a_whole_record(world, target, victim):
    rounds = scaled(20, 4)
    begun = time.monotonic()
    world.session("wait", "--id", world.start("--", "true", target=target))
    whole_s = time.monotonic() - begun
    clones = os.path.join(world.repo, ".git/workcell-sessions")
    for number in range(rounds):
        seen = set(record_names(world))
        child = world.popen(
            "workcell-session-start", "--agent", "command", "--target", target, "--", "sleep", "0.05",
            start_new_session=True, **QUIET,
        )  # fmt: skip
        pause_s = whole_s * number / rounds
        if victim == "start":
            time.sleep(pause_s)
            os.kill(child.pid, signal.SIGKILL)
        else:
            kill_if_there(monitor_of(world, child, pause_s))
        child.wait(timeout=30)
        new = set(record_names(world)) - seen
        assert len(new) <= 1
        for session_id in new:
            world.session("wait", "--id", session_id)
            assert last_word(world, session_id)[0] in ("exited", "failed", "aborted")
        assert_nothing_left(world)
        # No clone without a record; and what a start has given up goes with its clone.
        assert not set(os.listdir(clones)) - set(record_names(world))
        for session_id in new if victim == "start" else ():
            record_there = record_of(world, session_id)
            assert (record_there["status"] == "aborted") != os.path.exists(record_there["workspace"])


def monitor_of(world, child, pause_s):
    """Return the pid of the monitor that a start has forked, after a pause; 0 when start is over."""

    def find():
        if child.poll() is not None:
            return -1
        for pid, words in processes_with(world.mark):
            if pid != child.pid and "workcell-session-start" in words and session_leader(pid) not in (0, child.pid):
                # What a monitor makes before it has said its pid, nobody else knows of.
                return pid if any("launch-spec.json" in os.listdir(folder) for folder in scratch_folders(world)) else 0
        return 0

    pid = wait_until(find, what="the monitor")
    time.sleep(pause_s / 2)
    return max(pid, 0)


def session_leader(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def kill_if_there(pid):
    try:
        os.kill(pid or 1 << 30, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_git_that_outlives_a_killed_start_leaves_no_clone_behind(world, target, tmp_path):
    git = shutil.which("git", path=world.env["PATH"])
    (tmp_path / "slow").mkdir()
    slow = tmp_path / "slow" / "git"
    slow.write_text(f'#!/bin/sh\ncase " $* " in *" clone "*) : >"{tmp_path}/cloning"; sleep 0.5 ;; esac\nexec {git} "$@"\n')
    slow.chmod(0o755)
    env = {"PATH": f"{slow.parent}:{world.env['PATH']}"}
    child = world.popen("workcell-session-start", "--agent", "command", "--target", target, "--", "true", env=env, **QUIET)
    wait_until((tmp_path / "cloning").exists, what="the clone")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert world.left_over()
    assert_nothing_left(world)
    assert os.listdir(os.path.join(world.repo, ".git/workcell-sessions")) == []


@pytest.fixture
def false_bwrap(world, tmp_path):
    """A function that puts a bwrap on PATH which passes the probe and then does something else."""

    def false_bwrap(then):
        folder = tmp_path / "false"
        folder.mkdir()
        (folder / "bwrap").write_text(f'#!/bin/sh\ncase "$*" in *"exit 0") exit 0 ;; esac\n{then}\n')
        (folder / "bwrap").chmod(0o755)
        world.env["PATH"] = f"{folder}:{world.env['PATH']}"

    return false_bwrap


def assert_aborted(world, reason):
    [session_id] = record_names(world)
    status, _, found = last_word(world, session_id)
    assert (status, found) == ("aborted", reason)
    assert os.listdir(os.path.join(world.repo, ".git/workcell-sessions")) == []
    done = world.session("wait", "--id", session_id)
    assert done.exit_status == 1 and "aborted" in done.stderr
    return session_id


def test_a_sandbox_that_cannot_be_made_is_told_in_its_own_words_and_leaves_an_aborted_record(world, false_bwrap):
    false_bwrap("echo 'bwrap: no room here' >&2; exit 1")
    done = world.session("start", "--agent", "command", "--target", "bubblewrap", "--", "true")
    assert done.exit_status == 1 and "could not be started: bwrap: no room here" in done.stderr, done
    assert_aborted(world, "launch-failed")


def test_a_sandbox_that_never_gets_ready_can_be_stopped(world, false_bwrap):
    false_bwrap("exec sleep 1000")
    child = world.popen("workcell-session-start", "--agent", "command", "--", "true", **QUIET)
    [session_id] = wait_until(lambda: record_names(world), what="the record")
    assert found_status(world, session_id) == "starting"
    done = world.session("send", "--id", session_id, "--message", "x")
    assert done.exit_status == 1 and ("no reader" in done.stderr or "its input is gone" in done.stderr), done
    stop(world, session_id, "--grace", "0.2")
    assert child.wait(timeout=20) == 1
    assert_aborted(world, "launch-failed")


def test_a_start_whose_monitor_dies_ends_what_was_begun(world, false_bwrap):
    false_bwrap("exec sleep 1000")
    child = world.popen("workcell-session-start", "--agent", "command", "--", "true", stderr=subprocess.PIPE)
    [session_id] = wait_until(lambda: record_names(world), what="the record")
    wait_until(lambda: any("sleep" in words for _, words in agents_left(world)), what="the sandbox")
    kill_monitor(world, session_id)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 1 and b"its monitor ended" in err, err
    assert last_word(world, session_id) == ("aborted", "1", "launch-aborted")


def test_a_start_that_is_interrupted_while_it_waits_for_its_sandbox_ends_it(world, false_bwrap):
    false_bwrap("exec sleep 1000")
    child = world.popen("workcell-session-start", "--agent", "command", "--", "true", start_new_session=True, **QUIET)
    [session_id] = wait_until(lambda: record_names(world), what="the record")
    wait_until(lambda: any("sleep" in words for _, words in agents_left(world)), what="the sandbox")
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(timeout=20) == 130
    assert_aborted(world, "monitor-terminated")


# --- records that name processes which are not theirs


@pytest.fixture
def bystander(world):
    """A process that no command may touch."""
    child = subprocess.Popen(["sleep", "1000"])
    yield child
    assert child.poll() is None, "an unrelated process was signalled"
    child.kill()
    child.wait()


@pytest.fixture
def craft(world, target):
    """A function that turns a finished session into one that is recorded as running, and returns its id.

    pid: of its monitor; status: what the status file of its sandbox says, None for a session without a scratch folder.
    """
    session_id = world.start("--", "true", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    [folder] = world.profile_dirs()
    final = record_of(world, session_id)
    path = os.path.join(folder, "sessions", session_id)

    def craft(pid, started_at="2026-01-02T03:04:05Z", status=None):
        write(path + ".json", as_if_running(final, monitor_pid=pid, started_at=started_at))
        for evidence in (path + ".audit-sig", final["audit_log_path"]):
            if os.path.exists(evidence):
                os.unlink(evidence)
        if status is not None:
            os.mkdir(final["session_audit_dir"], 0o700)
            write(os.path.join(final["session_audit_dir"], "monitor.lock"), "")
            write(os.path.join(final["session_audit_dir"], "sandbox-status.json"), json.dumps(status))
        return session_id

    return craft


def write(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text)


def assert_lost_and_finished(world, session_id):
    assert found_status(world, session_id) == "lost"
    stop(world, session_id, "--force")
    assert last_word(world, session_id) == ("aborted", "1", "lost")


def test_the_pid_of_another_process_is_never_signalled_and_the_session_shown_as_lost(world, craft, bystander):
    # G11
    for pid in (1, bystander.pid, free_pid()):
        assert_lost_and_finished(world, craft(str(pid), "2020-01-01T00:00:00Z"))
    assert_lost_and_finished(world, craft(str(bystander.pid), "2099-01-01T00:00:00Z"))


def free_pid():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_a_status_file_that_names_another_process_is_not_believed(world, craft, bystander):
    # G11: the pid is used again, by something that started at another time and in another namespace
    for pid in (bystander.pid, 1, -1, "7"):
        status = {"child-pid": pid, "start-ticks": 1, "pid-namespace": 1, "cgroup-namespace": 1}
        assert_lost_and_finished(world, craft(str(bystander.pid), status=status))


def test_a_record_with_an_impossible_pid_is_named_and_signals_nobody(world, craft, bystander):
    # G11
    for pid in ("0", "-1", "1e3", "١", "99999999999999999999"):
        session_id = craft(pid)
        before = tree(world.state)
        for words in (("list",), ("stop", "--force", "--id", session_id)):
            done = world.session(*words)
            assert done.exit_status == 1 and "monitor_pid" in done.stderr, done
        assert tree(world.state) == before
