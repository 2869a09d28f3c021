"""Many sessions, one after the other and at once: each record whole, one chain, nothing left."""

import os
import subprocess

import pytest

from life import SLEEPER, assert_nothing_left, assert_one_chain, event_names, events, fits, scratch_folders
from support import scaled


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


def command(target, *words, workspace=()):
    return ("workcell-session-start", "--agent", "command", "--target", target, *workspace, "--", *words)


def check_all(world, ended):
    """Check that the sessions in {id: exit status}, and no other, left whole records on one sealed chain, and nothing else."""
    assert_nothing_left(world)
    done = world.session("list", "--json")
    assert done.exit_status == 0, done
    records = {record["session_id"]: record for record in fits("session-list", done.stdout)}
    assert set(records) == set(ended)
    for session_id, code in ended.items():
        kept = records[session_id]
        assert (kept["live_status"], kept["exit_status"]) == ("stopped", str(code)), kept
        assert event_names(world, session_id)[0] == "launch"
        assert event_names(world, session_id)[-1] == "exit"
    for log in {kept["audit_log_path"] for kept in records.values()}:
        assert_one_chain(log)
    done = world.run("sh", "-c", "workcell session list | workcell session verify --id -", timeout=300)
    assert done.exit_status == 0, done
    assert done.stdout.count("session_verify=verified") == len(ended)
    assert len({kept["container_name"] for kept in records.values()}) == len(records)


def test_many_starts_in_a_row_leave_whole_records_and_nothing_else(world, target):
    ended = {}
    for number in range(scaled(100, 4)):
        done = world.run(*command(target, "sh", "-c", f"exit {number % 4}"))
        assert done.exit_status == 0, done
        session_id = done.values["session_id"]
        ended[session_id] = number % 4
        assert world.session("wait", "--id", session_id).exit_status == number % 4
        assert not scratch_folders(world) and not world.left_over()
    check_all(world, ended)


def test_starts_in_parallel_leave_whole_records_and_nothing_else(world, target):
    # F12
    starts = [
        world.popen(*command(target, "sh", "-c", f"exit {number % 4}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(scaled(20, 5))
    ]
    ended = {}
    for number, child in enumerate(starts):
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        ended[out.decode().splitlines()[0].partition("=")[2]] = number % 4
    assert len(ended) == len(starts)
    waits = {name: world.popen("workcell-session-wait", "--id", name, stdin=subprocess.DEVNULL) for name in ended}
    assert {name: child.wait(timeout=60) for name, child in waits.items()} == ended
    check_all(world, ended)


def test_starts_sends_and_stops_in_parallel_keep_one_chain(world, target):
    sessions = [world.start("--", *SLEEPER, target=target) for _ in range(scaled(10, 3))]
    children = [
        world.popen(f"workcell-session-{verb}", "--id", session_id, *more, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for session_id in sessions
        for verb, *more in (("send", "--message", "one"), ("send", "--message", "two"), ("send", "--message", "three"))
    ]
    more = [world.popen(*command(target, "true"), stdout=subprocess.PIPE) for _ in range(2)]
    for child in children:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
    stops = [world.popen("workcell-session-stop", "--id", name, stdout=subprocess.DEVNULL) for name in sessions]
    assert [child.wait(timeout=60) for child in stops] == [0] * len(sessions)
    ended = dict.fromkeys(sessions, 143)
    for child in more:
        session_id = child.communicate(timeout=60)[0].decode().splitlines()[0].partition("=")[2]
        assert world.session("wait", "--id", session_id).exit_status == 0
        ended[session_id] = 0
    check_all(world, ended)
    for session_id in sessions:
        assert sorted(event["argv"] for event in events(world, session_id, "command")) == ["one", "three", "two"]


def test_sessions_of_several_repositories_and_profiles_do_not_mix(world, target):
    other = world.make_repo(os.path.join(world.home, "other"))
    ended = {}
    for path, code in ((world.repo, 1), (other, 2)):
        done = world.run(*command(target, "sh", "-c", f"exit {code}", workspace=("--workspace", path)))
        assert done.exit_status == 0, done
        ended[done.values["session_id"]] = code
        assert world.session("wait", "--id", done.values["session_id"]).exit_status == code
    assert len(world.profile_dirs()) == 2
    check_all(world, ended)
    rows = world.session("list", "--workspace", other).stdout.splitlines()[1:]
    assert [ended[row.split("\t")[0]] for row in rows] == [2]
