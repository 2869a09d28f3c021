"""Things that happen to sessions: a stopped monitor, a newer tool's files, a very short life."""

import os
import shutil
import signal

from life import found_status, record_of, tree, verdict, wait_for_output
from support import scaled, wait_until


def test_a_monitor_that_was_stopped_for_a_while_loses_no_output_and_ends_nothing(world, target):  # L04
    world.make_repo()
    agent = "echo is up; while read line; do seq 1 2000; echo got $line; done; exit 8"
    session_id = world.start("--", "sh", "-c", agent, target=target)
    wait_for_output(world, session_id)
    monitor = int(record_of(world, session_id)["monitor_pid"])
    os.kill(monitor, signal.SIGSTOP)
    assert found_status(world, session_id) == "running"
    assert world.session("send", "--id", session_id, "--message", "one").exit_status == 0
    done = world.session("wait", "--id", session_id, "--timeout", "0.3")
    assert done.exit_status == 124
    os.kill(monitor, signal.SIGCONT)
    wait_for_output(world, session_id, "got one")
    assert world.session("send", "--id", session_id, "--no-newline", "--message", "\x04").exit_status == 0
    assert world.session("wait", "--id", session_id).exit_status == 8
    assert world.transcript(session_id).count("\r\n2000\r\n") == 1
    assert verdict(world, session_id) == "verified"


def test_files_of_a_newer_tool_are_kept_named_as_such_and_hide_nothing(world):  # F19
    world.make_repo()
    ids = [world.start("--", "true") for _ in range(2)]
    for session_id in ids:
        world.session("wait", "--id", session_id)
    [folder] = world.profile_dirs()
    sessions = os.path.join(folder, "sessions")
    newer = os.path.join(sessions, ids[0] + ".json")
    with open(newer, encoding="utf-8") as stream:
        text = stream.read()
    with open(newer, "w", encoding="utf-8") as stream:
        stream.write(text.replace('"version": 1,', '"version": 2,\n  "novel": "x",'))
    for name in (os.path.join(sessions, "unknown.v2"), os.path.join(folder, "unknown.v2")):
        with open(name, "w", encoding="utf-8") as stream:
            stream.write("x")
    before = tree(world.state)
    for verb in ("list", "show", "delete", "stop", "reconcile", "wait"):
        words = () if verb == "list" else ("--id", ids[0])
        done = world.session(verb, *words)
        assert done.exit_status == 1 and "must be 1, and this is 2; use the newer tool" in done.stderr, done
        assert verb != "list" or ids[1] in done.stdout
    assert world.session("reconcile", "--all").exit_status == 1
    assert tree(world.state) == before
    assert world.session("delete", "--id", ids[1]).exit_status == 0
    after = tree(world.state)
    assert set(after) < set(before) and os.path.relpath(newer, world.state) in after


def test_everything_a_session_prints_at_its_end_is_kept_however_short_its_life(world, target):
    world.make_repo()
    printer = "import os; os.write(1, b'x' * 65536 + b'end')"
    ids = [world.start("--", "python3", "-c", printer, target=target) for _ in range(scaled(500) // 5)]
    for session_id in ids:
        world.session("wait", "--id", session_id)
        assert world.transcript(session_id) == "x" * 65536 + "end"
    wait_until(lambda: not world.left_over(), what="the end of all")


def test_a_source_that_git_repacks_while_it_is_cloned_gives_a_whole_clone_all_the_same(world, tmp_path):  # H08
    world.make_repo()
    for number in range(3):
        with open(os.path.join(world.repo, "README"), "a", encoding="utf-8") as stream:
            stream.write(f"{number}\n")
        world.git("-C", world.repo, "-c", "user.name=Op", "-c", "user.email=op@x", "commit", "-qam", str(number))
    git, calls = shutil.which("git", path=world.env["PATH"]), tmp_path / "calls"
    (tmp_path / "busy").mkdir()
    busy = tmp_path / "busy" / "git"
    # It ends just before the copy, which is too late for whoever has looked at the store already.
    repack = f'case " $* " in *" clone "*) echo "$*" >>"{calls}"; {git} -C "{world.repo}" gc -q --prune=now ;; esac'
    busy.write_text(f'#!/bin/sh\n{repack}\nexec {git} "$@"\n')
    busy.chmod(0o755)
    env = {"PATH": f"{busy.parent}:{world.env['PATH']}"}
    done = world.session("start", "--agent", "command", "--", "sh", "-c", "git fsck --strict && git log --oneline", env=env)
    assert done.exit_status == 0, done
    session_id = done.values["session_id"]
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert len(world.transcript(session_id).split("\n")) > 4
    first, second = calls.read_text().splitlines()
    assert "--no-local" not in first and "--no-local" in second
