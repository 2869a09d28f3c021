"""stop: the session ends, whatever the agent thinks of it, and its end is written down when the command returns."""

import json
import os
import signal
import subprocess
import time

import pytest

from life import (
    IGNORES_TERM,
    SLEEPER,
    STOP_KEYS,
    agents_left,
    assert_nothing_left,
    event_names,
    events,
    found_status,
    keys,
    record_names,
    record_of,
    seal_bytes,
    session_pids,
    tree,
    verdict,
    wait_for_output,
)
from support import scaled, wait_until


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


def stop(world, session_id, *words):
    done = world.session("stop", "--id", session_id, *words)
    assert done.exit_status == 0, done
    return done


def assert_over(world, session_id, *codes, events_seen=("launch", "stop-request", "exit")):
    """Check that a stopped session left one whole and true record, and nothing else."""
    assert_nothing_left(world)
    record = record_of(world, session_id)
    assert (record["status"], record["live_status"]) == ("exited", "stopped")
    assert int(record["exit_status"]) in codes
    assert tuple(event_names(world, session_id)) == events_seen
    assert verdict(world, session_id) == "verified"


def test_stop_prints_its_summary_and_leaves_a_final_record(world, target):
    session_id = world.start("--", *SLEEPER, target=target)
    wait_for_output(world, session_id)
    done = stop(world, session_id)
    assert keys(done.stdout) == STOP_KEYS
    assert (done.values["stop_requested"], done.values["status"], done.values["live_status"]) == ("1", "exited", "stopped")
    assert_over(world, session_id, 143)
    [asked] = events(world, session_id, "stop-request")
    assert (asked["source"], asked["force"]) == ("host-cli", "0")
    assert asked["container_name"] == record_of(world, session_id)["container_name"]
    assert world.session("wait", "--id", session_id).exit_status == 143


def test_stop_right_after_start_is_honoured_with_the_status_of_a_stop(world, target):
    # E06
    session_id = world.start("--", *SLEEPER, target=target)
    stop(world, session_id)
    assert_over(world, session_id, 143)


def test_stop_again_and_again_changes_nothing(world, target):
    session_id = world.start("--", *SLEEPER, target=target)
    first = stop(world, session_id)
    before = tree(world.state)
    assert seal_bytes(world, session_id)
    for words in ((), ("--force",), ("--json",)):
        again = stop(world, session_id, *words)
        if not words or words == ("--force",):
            assert again.stdout == first.stdout
    assert tree(world.state) == before
    assert_over(world, session_id, 143)


def test_stops_in_parallel_agree_on_one_end(world, target):
    session_id = world.start("--", *SLEEPER, target=target)
    children = [world.popen("workcell-session-stop", "--id", session_id, stdout=subprocess.PIPE) for _ in range(4)]
    answers = {child.communicate(timeout=30)[0] for child in children}
    assert [child.returncode for child in children] == [0] * 4
    assert len(answers) == 1
    assert len(events(world, session_id, "exit")) == 1
    assert 1 <= len(events(world, session_id, "stop-request")) <= 4
    assert record_of(world, session_id)["exit_status"] == "143"
    assert verdict(world, session_id) == "verified"


def test_stop_of_a_finished_session_reports_it_and_asks_for_nothing(world, target):
    session_id = world.start("--", "sh", "-c", "exit 3", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 3
    before = tree(world.state)
    done = stop(world, session_id)
    assert done.values["status"] == "failed"
    assert tree(world.state) == before
    assert event_names(world, session_id) == ["launch", "exit"]


def test_force_kills_at_once(world, target):
    session_id = world.start("--", *IGNORES_TERM, target=target)
    wait_for_output(world, session_id)
    begun = time.monotonic()
    stop(world, session_id, "--force")
    assert time.monotonic() - begun < 5
    assert_over(world, session_id, 137)
    assert [event["force"] for event in events(world, session_id, "stop-request")] == ["1"]


def test_an_agent_that_ignores_the_signal_is_killed_when_the_grace_is_over(world, target):
    session_id = world.start("--", *IGNORES_TERM, target=target)
    wait_for_output(world, session_id)
    begun = time.monotonic()
    stop(world, session_id, "--grace", "0.5")
    assert 0.5 <= time.monotonic() - begun < 6
    assert_over(world, session_id, 137)


def test_an_agent_that_ends_within_the_grace_keeps_its_own_status(world, target):
    work = "trap 'sleep 0.3; exit 9' TERM; echo is up; while :; do sleep 0.1; done"
    session_id = world.start("--", "sh", "-c", work, target=target)
    wait_for_output(world, session_id)
    stop(world, session_id)
    assert_over(world, session_id, 9)


def test_an_interactive_shell_that_ignores_term_is_hung_up(world, target):
    session_id = world.start(agent="shell", target=target)
    begun = time.monotonic()
    stop(world, session_id)
    assert time.monotonic() - begun < 5
    assert_over(world, session_id, 129)


def test_a_stopped_agent_is_woken_to_end(world, target):
    session_id = world.start("--", "sh", "-c", "echo is up; kill -STOP $$; exec sleep 1000", target=target)
    wait_for_output(world, session_id)
    stop(world, session_id)
    assert_over(world, session_id, 143)


def test_nothing_that_the_agent_started_survives_the_stop(world, target):
    # E02: in sessions of their own, orphaned, deaf
    work = (
        "setsid sleep 1000 & "
        "(setsid sh -c 'sleep 1000 & exit' &) ; "
        "(setsid setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' &) ; "
        "sleep 0.2; echo is up; exec sleep 1000"
    )
    session_id = world.start("--", "sh", "-c", work, target=target)
    wait_for_output(world, session_id)
    assert len(agents_left(world)) >= 5
    stop(world, session_id)
    assert_over(world, session_id, 143)


def test_a_stop_of_one_session_does_not_touch_another(world, target):
    first, second = (world.start("--", *SLEEPER, target=target) for _ in range(2))
    stop(world, first)
    assert found_status(world, second) == "running"
    assert session_pids(world, second) and not session_pids(world, first)
    stop(world, second, "--force")
    assert_over(world, first, 143)


# --- while it starts


@pytest.mark.parametrize("force", [False, True])
def test_many_stops_while_the_session_is_starting_never_give_a_spurious_status(world, target, force):
    # E06
    rounds = scaled(20)
    for number in range(rounds):
        before = set(record_names(world))
        start = world.popen(
            *("workcell-session-start", "--agent", "command", "--target", target, "--", *SLEEPER),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        [session_id] = wait_until(lambda seen=before: set(record_names(world)) - seen, what="the record")
        # Each round lets it get a bit further.
        time.sleep(0.1 * number / rounds)
        stop(world, session_id, *(["--force"] if force else []))
        out, err = start.communicate(timeout=30)
        record = record_of(world, session_id)
        assert_nothing_left(world)
        assert verdict(world, session_id) == "verified"
        assert len(events(world, session_id, "exit")) == 1
        if record["status"] == "exited":
            assert start.returncode == 0, err
            assert record["exit_status"] in (("137", "143") if force else ("143",))
        else:
            # Killed before the agent ran at all.
            assert (force, record["status"]) == (True, "aborted"), record
            assert start.returncode == 1 and b"could not be started" in err
            assert not os.path.exists(record["worktree_path"])


def test_an_interrupted_start_ends_what_it_began(world, target):
    # Ctrl-C: the whole foreground group of the terminal gets INT, git too; the moments are parts of a whole start
    begun = time.monotonic()
    first = world.start("--", "true", target=target)
    whole_s = time.monotonic() - begun
    assert world.session("wait", "--id", first).exit_status == 0
    for moment in (0.0, 0.3, 0.6, 0.8, 0.9):
        before = set(record_names(world))
        child = world.popen(
            *("workcell-session-start", "--agent", "command", "--target", target, "--", *SLEEPER),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        time.sleep(whole_s * moment)
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=30)
        new = set(record_names(world)) - before
        if child.returncode == 0:  # it ran before the signal came: then its id is told
            [session_id] = new
            assert out.decode().startswith(f"session_id={session_id}\n")
            stop(world, session_id)
        else:
            assert child.returncode in (130, -signal.SIGINT) and out == b""
        for session_id in new:
            assert record_of(world, session_id)["status"] in ("exited", "aborted")
            assert verdict(world, session_id) == "verified"
        assert_nothing_left(world)


# --- what cannot be stopped

STRANGE_IDS = {
    "path": "../sessions/{id}",
    "slash": "sessions/{id}",
    "absolute": "{folder}/sessions/{id}",
    "file name": "{id}.json",
    "percent": "{id}%00",
    "prefix": "{prefix}",
    "dots": "..",
    "dash": "-{id}",
    "lower case": "{lower}",
    "blank at its end": "{id} ",
    "tab": "{id}\t",
    "long": "x" * 300,
    "longer than any path": "x" * 5000,
    "glob": "*",
}


def test_an_id_is_an_exact_name_and_never_a_path(world):
    # F15, F13
    session_id = world.start("--", "true")
    assert world.session("wait", "--id", session_id).exit_status == 0
    [folder] = world.profile_dirs()
    before = tree(world.folder)
    fill = {"id": session_id, "folder": folder, "prefix": session_id[:-1], "lower": session_id.lower()}
    for name, pattern in STRANGE_IDS.items():
        strange = pattern.format(**fill)
        done = world.session("stop", f"--id={strange}")
        assert done.exit_status == 1 and "file does not exist" in done.stderr, (name, done)
        assert len(done.stderr.splitlines()) == 1
    for verb in ("wait", "show", "send", "verify"):
        more = ("--message", "x") if verb == "send" else ()
        done = world.session(verb, "--id", f"../sessions/{session_id}", *more)
        assert done.exit_status == 1 and "file does not exist" in done.stderr, done
    for broken in (f"{session_id}\n", f"a\r{session_id}"):
        for verb in ("stop", "wait", "send"):
            more = ("--message", "x") if verb == "send" else ()
            done = world.session(verb, "--id", broken, *more)
            assert done.exit_status == 2 and "newline" in done.stderr, done
    assert tree(world.folder) == before


def test_an_unknown_session_is_no_success(world):
    for state in ("nothing yet", "one other"):
        done = world.session("stop", "--id", "20260102T030405Z-0a1b2c3d")
        assert done.exit_status == 1, state
        assert done.stderr.startswith("workcell-session-stop: 20260102T030405Z-0a1b2c3d: no such session")
        if state == "nothing yet":
            assert not os.path.exists(world.state)
            assert world.session("wait", "--id", world.start("--", "true")).exit_status == 0


def test_wrong_words_are_refused_before_anything_happens(world):
    session_id = world.start("--", *SLEEPER)
    for words, message in (
        ((), "--id: is required"),
        (("--id",), "--id: needs a value"),
        (("--id", session_id, "--id", "other"), "more than one session"),
        (("--id", session_id, "--grace", "soon"), "is not a number of seconds"),
        (("--id", session_id, "--grace", "-1"), "is not a number of seconds"),
        (("--id", session_id, "--grace", "nan"), "is not a number of seconds"),
        (("--id", session_id, "--hard"), "unsupported option '--hard'"),
    ):
        done = world.session("stop", *words)
        assert done.exit_status == 2 and message in done.stderr, done
    assert found_status(world, session_id) == "running"
    stop(world, session_id)
    assert_over(world, session_id, 143)


def test_a_session_of_another_implementation_is_neither_stopped_nor_changed(world):
    folder = os.path.join(world.state, "targets/local_vm/colima/wcl-x-00000000/sessions")
    os.makedirs(folder, 0o700)
    session_id = "20260102T030405Z-0a1b2c3d"
    record = {
        "version": 1, "session_id": session_id, "profile": "wcl-x-00000000", "target_kind": "local_vm",
        "target_provider": "colima", "target_id": "wcl-x-00000000", "target_assurance_class": "strict", "runtime_api": "docker",
        "workspace_transport": "workspace-mount", "agent": "codex", "mode": "strict", "status": "running",
        "workspace": "/work", "container_name": "workcell-codex-x", "monitor_pid": str(os.getpid()), "live_status": "running",
        "session_audit_dir": os.path.join(world.home, "session-audit.AAAAAA"), "started_at": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    path = os.path.join(folder, session_id + ".json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as stream:
        json.dump(record, stream)
    before = tree(world.state)
    for words in (("stop",), ("stop", "--force"), ("send", "--message", "x"), ("wait", "--timeout", "1")):
        done = world.session(words[0], "--id", session_id, *words[1:])
        assert done.exit_status == 1 and done.stderr.count("\n") == 1, done
    assert found_status(world, session_id) == "running"
    assert tree(world.state) == before
