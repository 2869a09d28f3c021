"""Locks exclude, end with their holder, and get on with the lock folders of other writers."""

import json
import os
import signal
import stat
import threading

import pytest

from evidence_support import Children, content, wait_until
from support import scaled
from workcell import errors, lock

HOLD = """
from workcell import lock
with lock.exclusive(sys.argv[1], 5):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def children():
    running = Children()
    yield running
    running.close()


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield tmp_path, fd
    os.close(fd)


def hold(children, path):
    child = children.start(HOLD, str(path), stdin=-1)
    assert child.stdout.readline() == "held\n"
    return child


def audit_lock(folder, timeout_s=0.3):
    path, fd = folder
    return lock.audit_log(fd, "x.log", str(path / "x.log"), timeout_s)


def lock_folder(path, pid, started):
    (path / "x.log.lock").mkdir(mode=0o700)
    (path / "x.log.lock" / "owner.json").write_text(json.dumps({"pid": pid, "started": started}) + "\n")


def test_a_held_lock_is_busy_and_the_error_says_what_to_do(tmp_path, children):
    holder = hold(children, tmp_path)
    busy = pytest.raises(errors.BusyError, match="another process has held it for 0.1 s; try again")
    with busy, lock.exclusive(str(tmp_path), 0.1):
        pass
    holder.stdin.close()
    with lock.exclusive(str(tmp_path), 10):
        pass


def test_a_lock_ends_with_its_holder_however_that_ends(tmp_path, children):  # G10
    holder = hold(children, tmp_path)
    holder.send_signal(signal.SIGKILL)
    with lock.exclusive(str(tmp_path), 10):
        pass
    holder.stdin.close()


def test_a_descriptor_that_was_given_stays_open(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    with lock.exclusive(fd, 1):
        pass
    os.fstat(fd)
    os.close(fd)


def test_the_guard_is_private_and_stays(folder):
    with audit_lock(folder):
        pass
    guard = folder[0] / "x.log.lock.guard"
    assert stat.S_IMODE(guard.stat().st_mode) == 0o600
    guard.chmod(0o644)
    with audit_lock(folder):
        assert stat.S_IMODE(guard.stat().st_mode) == 0o600
    assert sorted(os.listdir(folder[0])) == ["x.log.lock.guard"], "no lock folder of ours"


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/dev/null"), lambda p: p.mkdir(), lambda p: os.mkfifo(p)])
def test_a_guard_that_is_no_plain_file_is_refused(folder, make):
    make(folder[0] / "x.log.lock.guard")
    with pytest.raises(errors.UnreadableError, match="regular file"), audit_lock(folder):
        pass


def test_a_living_lock_folder_is_waited_for_and_then_busy(folder):
    lock_folder(folder[0], os.getpid(), lock.generation(os.getpid()))
    with pytest.raises(errors.BusyError, match="another writer has held it"), audit_lock(folder, 0.1):
        pass
    assert (folder[0] / "x.log.lock").is_dir(), "it is not ours to remove"


def test_the_guard_is_free_while_a_lock_folder_is_waited_for(folder):
    """Its holder needs the guard to remove the folder: holding it would be a deadlock."""
    lock_folder(folder[0], os.getpid(), lock.generation(os.getpid()))
    entered = threading.Event()

    def wait():
        with audit_lock(folder, 20):
            entered.set()

    thread = threading.Thread(target=wait)
    thread.start()
    guard = folder[0] / "x.log.lock.guard"
    wait_until(guard.exists)
    with lock.exclusive(str(guard), 10):
        assert not entered.is_set()
        (folder[0] / "x.log.lock" / "owner.json").unlink()
        (folder[0] / "x.log.lock").rmdir()
    thread.join(20)
    assert entered.is_set()


@pytest.mark.parametrize(
    "pid,started", [("dead", "linux:1"), ("alive", "linux:1"), ("dead", "Mon Jan  1 00:00:00 2024"), (None, None)]
)
def test_a_lock_folder_without_a_living_owner_is_removed(folder, children, pid, started):  # G11
    if pid == "dead":
        child = children.start("pass")
        child.wait(10)
        lock_folder(folder[0], child.pid, started)
    elif pid == "alive":
        lock_folder(folder[0], os.getpid(), started)  # a later process with the pid of the owner
    else:
        (folder[0] / "x.log.lock").mkdir()
    with audit_lock(folder):
        assert not (folder[0] / "x.log.lock").exists()


def test_a_living_owner_with_an_old_kind_of_start_time_counts(folder):
    lock_folder(folder[0], os.getpid(), "Mon Jan  1 00:00:00 2024")
    with pytest.raises(errors.BusyError), audit_lock(folder, 0.05):
        pass


NO_OWNER = [
    "", "x", "[]", "null", '{"pid": 5}', "[" * 4000, '{"pid": 0, "started": "linux:1"}', '{"pid": -1, "started": "x"}',
    '{"pid": true, "started": "x"}', '{"pid": 99999999999999999999, "started": "x"}', '{"pid": 1, "started": 5}',
]  # fmt: skip


@pytest.mark.parametrize("text", NO_OWNER)
def test_a_lock_folder_that_says_nothing_is_an_error_and_no_signal_goes_anywhere(folder, text):
    (folder[0] / "x.log.lock").mkdir()
    (folder[0] / "x.log.lock" / "owner.json").write_text(text)
    with pytest.raises(errors.UnreadableError, match="does not say who holds the lock"), audit_lock(folder):
        pass


def test_a_stale_lock_folder_with_something_else_in_it_is_an_error(folder):
    (folder[0] / "x.log.lock" / "deep").mkdir(parents=True)
    with pytest.raises(errors.UnreadableError, match="cannot be removed"), audit_lock(folder):
        pass


def test_never_two_inside_and_none_is_forgotten(tmp_path, children):  # G10
    """Each of 8 processes adds to one number under the lock; stale folders are thrown in between, some adders die."""
    (tmp_path / "count").write_text("0")
    source = """
import os
from workcell import lock
fd = os.open(sys.argv[1], os.O_RDONLY)
for round in range(int(sys.argv[3])):
    with lock.audit_log(fd, "x.log", sys.argv[1] + "/x.log", 60):
        n = int(open(sys.argv[1] + "/count").read())
        with open(sys.argv[1] + "/count", "w") as f:
            f.write(str(n + 1))
        if round == 20:
            os.mkdir(sys.argv[1] + "/x.log.lock")  # what a writer leaves that died at a bad moment
    if round == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
"""
    rounds = scaled(400, 40)
    for number in range(8):
        children.start(source, str(tmp_path), "30" if number % 4 == 0 else "-1", str(rounds))
    assert sorted(children.join(500)) == [-9, -9, 0, 0, 0, 0, 0, 0]
    assert content(tmp_path / "count") == str(6 * rounds + 2 * 31).encode()
