"""reconcile: what crashes left is settled once, what lives is left alone; and waiting for several sessions at a time."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from life import (
    SLEEPER,
    assert_nothing_left,
    event_names,
    events,
    fits,
    found_status,
    kill_monitor,
    record_names,
    record_of,
    session_pids,
    tree,
    verdict,
    wait_for_output,
)
from support import processes_with, wait_until

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


def reconcile(world, *words, status=0):
    """Return what reconcile found: a dict of session id to its object, checked against the schema."""
    done = world.session("reconcile", *words, "--json")
    assert done.exit_status == status, done
    return {one["session_id"]: one for one in fits("session-reconcile", done.stdout)}


def kill_all_of(world, session_id):
    """Kill the monitor and everything in the sandbox, as a power cut would."""
    # The monitor first, then what started the sandbox, then what is in it: nobody is left to note how it ended.
    for pid in [int(record_of(world, session_id)["monitor_pid"]), *sorted(session_pids(world, session_id))]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_until(lambda: not session_pids(world, session_id), what="the end of the sandbox")


def test_reconcile_ends_each_lost_session_once_and_leaves_alone_what_lives(world, target):  # F10
    alive = world.start("--", *SLEEPER, target=target)
    lost = world.start("--", *SLEEPER, target=target)
    over = world.start("--", "true", target=target)
    world.session("wait", "--id", over)
    kill_all_of(world, lost)
    assert found_status(world, lost) == "lost"
    before = tree(world.state)
    would = reconcile(world, "--all", "--dry-run")
    assert {key: one["outcome"] for key, one in would.items()} == {alive: "alive", lost: "lost"}
    assert tree(world.state) == before
    found = reconcile(world, "--all")
    assert {key: one["outcome"] for key, one in found.items()} == {alive: "alive", lost: "lost"}
    assert found[lost] == {"session_id": lost, "outcome": "lost", "dry_run": False, "status": "aborted"}
    kept = record_of(world, lost)
    assert (kept["status"], kept["exit_status"], kept["live_status"]) == ("aborted", "1", "stopped")
    [ended] = events(world, lost, "exit")
    assert (ended["reason"], ended["source"]) == ("lost", "host-reconcile")
    assert verdict(world, lost) == "verified"
    # Once is enough: the second time nothing is written.
    before = tree(world.state)
    assert set(reconcile(world, "--all")) == {alive}
    assert reconcile(world, "--id", lost, "--id", over)[lost]["outcome"] == "final"
    assert tree(world.state) == before
    assert record_of(world, alive)["status"] == "running"
    assert world.session("stop", "--id", alive).exit_status == 0


def test_a_session_that_outlived_its_monitor_ends_with_the_exit_status_that_its_sandbox_noted(world):
    agent = ("sh", "-c", "trap '' HUP; echo is up; while [ ! -e go ]; do sleep 0.05; done; exit 9")
    session_id = world.start("--", *agent)
    wait_for_output(world, session_id)
    kill_monitor(world, session_id)
    assert reconcile(world, "--all")[session_id]["outcome"] == "alive"
    fields = record_of(world, session_id)
    with open(os.path.join(fields["worktree_path"], "go"), "w", encoding="utf-8"):
        pass
    wait_until(lambda: found_status(world, session_id) == "lost", what="the agent's end")
    done = world.session("reconcile", "--id", session_id)
    assert done.stdout == f"session_id={session_id} outcome=finished dry_run=0 status=failed exit_status=9\n", done
    assert verdict(world, session_id) == "verified"
    assert world.session("wait", "--id", session_id).exit_status == 9
    assert_nothing_left(world)


def test_what_a_dead_monitor_left_of_the_end_is_done_by_reconcile(world):
    session_id = world.start("--", "sh", "-c", "exit 7")
    world.session("wait", "--id", session_id)
    [folder] = world.profile_dirs()
    seal = os.path.join(folder, "sessions", session_id + ".audit-sig")
    scratch = record_of(world, session_id)["session_audit_dir"]
    os.unlink(seal)
    assert reconcile(world, "--all")[session_id] == {
        "session_id": session_id, "outcome": "sealed", "dry_run": False, "status": "failed", "exit_status": "7",
    }  # fmt: skip
    assert verdict(world, session_id) == "verified"
    for with_lock in (True, False):
        os.mkdir(scratch, 0o700)
        if with_lock:
            os.close(os.open(os.path.join(scratch, "monitor.lock"), os.O_CREAT, 0o600))
        assert reconcile(world, "--all")[session_id]["outcome"] == "sealed"
        assert not os.path.exists(scratch)
    assert event_names(world, session_id) == ["launch", "exit"]


def test_a_start_that_was_killed_before_its_record_leaves_nothing_once_its_git_is_done(world, tmp_path):
    git = shutil.which("git", path=world.env["PATH"])
    (tmp_path / "slow").mkdir()
    slow, cloning, go = tmp_path / "slow" / "git", tmp_path / "cloning", tmp_path / "go"
    script = f'case " $* " in *" clone "*) : >"{cloning}"; while [ ! -e "{go}" ]; do sleep 0.02; done ;; esac'
    slow.write_text(f'#!/bin/sh\n{script}\nexec {git} "$@"\n')
    slow.chmod(0o755)
    env = {"PATH": f"{slow.parent}:{world.env['PATH']}"}
    child = world.popen("workcell-session-start", "--agent", "command", "--", "true", env=env, **QUIET)
    wait_until(cloning.exists, what="the clone")
    for pid, words in processes_with(world.mark):
        if "workcell-session-start" in words:  # start and its monitor
            os.kill(pid, signal.SIGKILL)
    child.wait()
    [one] = reconcile(world, "--all").values()
    assert (one["outcome"], one["why"]) == ("alive", "its start is still at work")
    go.write_text("")
    wait_until(lambda: not processes_with(world.mark), what="the end of git")
    clones = os.path.join(world.repo, ".git/workcell-sessions")
    assert os.listdir(clones)

    def would_remove():
        # A process that ends is not to be seen any more a moment before its descriptors, and the lock, are let go.
        [one] = reconcile(world, "--all", "--dry-run").values()
        return one["outcome"] == "removed"

    wait_until(would_remove, what="the end of its lock")
    assert os.listdir(clones)
    [one] = reconcile(world, "--all").values()
    assert one["outcome"] == "removed"
    assert os.listdir(clones) == [] and record_names(world) == []
    assert_nothing_left(world)
    assert reconcile(world, "--all") == {}


def test_what_cannot_be_told_is_left_alone_and_said(world):  # F07
    session_id = world.start("--", "true")
    world.session("wait", "--id", session_id)
    [folder] = world.profile_dirs()
    path = os.path.join(folder, "sessions", session_id + ".json")
    final = record_of(world, session_id)
    for provider, outcome, status in (("bubblewrap", "unknown", 1), ("colima", "foreign", 0)):
        fields = {key: value for key, value in final.items() if key not in ("finished_at", "exit_status", "final_assurance")}
        fields |= {"status": "running", "live_status": "running", "target_provider": provider}
        fields |= {"monitor_pid": str(os.getpid()), "session_audit_dir": world.home}  # no folder of ours
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(fields, stream)
        before = tree(world.state)
        assert reconcile(world, "--all", status=status)[session_id]["outcome"] == outcome
        assert tree(world.state) == before


def test_a_bad_record_hides_no_other_and_bad_words_change_nothing(world):
    session_id = world.start("--", *SLEEPER)
    kill_all_of(world, session_id)
    [folder] = world.profile_dirs()
    with open(os.path.join(folder, "sessions", "broken.json"), "w", encoding="utf-8") as stream:
        os.chmod(stream.fileno(), 0o600)
        stream.write("{")
    done = world.session("reconcile", "--all")
    assert done.exit_status == 1 and "broken.json" in done.stderr
    assert f"session_id={session_id} outcome=lost" in done.stdout
    for words in ((), ("--all", "--id", session_id), ("--all", "--force")):
        assert world.session("reconcile", *words).exit_status == 2
    assert world.session("reconcile", "--id", "nobody").exit_status == 1


# --- wait for several


def test_wait_for_several_tells_each_end_as_it_comes_and_ends_as_the_first_that_failed(world, target):
    first = world.start("--", "sh", "-c", "read line; exit 5", target=target)
    second = world.start("--", "sh", "-c", "exit 0", target=target)
    third = world.start("--", *SLEEPER, target=target)
    child = world.popen(
        "workcell-session-wait", "--id", first, "--id", second, "--id", third, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == f"{second}\texited\t0\n"
    world.session("stop", "--id", third, "--force")
    assert child.stdout.readline() == f"{third}\tstopped\t137\n"
    world.session("send", "--id", first, "--message", "x")
    assert child.stdout.readline() == f"{first}\texited\t5\n"
    child.stdout.close()
    assert child.wait(timeout=20) == 5
    ids = world.session("list", "--ids").stdout
    done = world.session("wait", "--id", "-", "--json", stdin=ids.encode())
    assert done.exit_status == (137 if ids.index(third) < ids.index(first) else 5)
    assert {done.stdout.count(f'"reason": "{word}"') for word in ("stopped", "exited")} == {1, 2}


def test_wait_for_any_ends_with_the_first_and_with_the_time(world, target):
    slow = world.start("--", *SLEEPER, target=target)
    done = world.session("wait", "--id", slow, "--id", slow, "--timeout", "0.2")  # one session named twice
    assert done.exit_status == 124
    quick = world.start("--", "sh", "-c", "kill -KILL $$", target=target)
    done = world.session("wait", "--any", "--id", slow, "--id", quick)
    assert (done.exit_status, done.stdout) == (137, f"{quick}\tsignal\t137\n")
    done = world.session("wait", "--id", slow, "--id", quick, "--timeout", "0.3")
    assert done.exit_status == 124 and f"{slow}: still running after 0.3 s" in done.stderr
    kill_all_of(world, slow)
    done = world.session("wait", "--id", slow, "--id", quick)
    assert (done.exit_status, done.stdout) == (1, f"{slow}\tlost\tnone\n{quick}\tsignal\t137\n") or (
        done.exit_status, done.stdout) == (1, f"{quick}\tsignal\t137\n{slow}\tlost\tnone\n")  # fmt: skip
    assert "lost" in done.stderr
    assert_nothing_left(world)
