"""Nothing that the program starts outlives the adapter, and nothing stays a zombie (E02, E03, E14)."""

import os
import signal
import time

import pytest

import harness

IGNORING_DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.write(1, b"daemon\\n")
        while True: signal.pause()
    os._exit(0)
os.wait()
os.read(0, 100)
os._exit(0)
"""


@pytest.mark.everywhere
def test_daemon_that_ignores_term_is_killed_after_the_grace(run):
    """E03: status 0, a note, no hang."""
    with run(IGNORING_DAEMON, environment={"WORKCELL_ADAPTER_GRACE_S": "0.3"}) as session:
        session.wait_output(b"daemon")
        session.send(b"\n")
        begun = time.monotonic()
        assert session.wait() == 0
        assert 0.2 < time.monotonic() - begun < 15
        assert session.output.count(b"pty_adapter: left behind and killed: ") == 1
        assert session.output.endswith(b")\r\n")


def test_grace_is_two_seconds_unless_set_to_something_sensible(run):
    with run(IGNORING_DAEMON, environment={"WORKCELL_ADAPTER_GRACE_S": "-1"}) as session:
        session.wait_output(b"daemon")
        session.send(b"\n")
        begun = time.monotonic()
        assert session.wait() == 0
        assert 1.8 < time.monotonic() - begun < 15


@pytest.mark.everywhere
def test_sleeper_in_a_session_of_its_own_ends_with_the_program(run):
    """E02: no grace is spent on what ends when it is told, and no note written."""
    with run(
        ["bash", "-c", "setsid sleep 1000 & setsid -f sleep 1001; echo ready; read line; exit 3"],
        environment={"WORKCELL_ADAPTER_GRACE_S": "60"},
    ) as session:
        session.wait_output(b"ready")
        begun = time.monotonic()
        session.signal(signal.SIGTERM)
        assert session.wait() == 143
        assert time.monotonic() - begun < 15
        assert b"pty_adapter" not in session.output


@pytest.mark.everywhere
def test_stopped_descendant_is_ended_too(run):
    with run(
        """
import os, signal
if os.fork() == 0:
    os.setsid()
    os.write(1, b"stopping\\n")
    os.kill(os.getpid(), signal.SIGSTOP)
    os.write(1, b"went on\\n")
    os._exit(0)
os.read(0, 100)
os._exit(4)
""",
        environment={"WORKCELL_ADAPTER_GRACE_S": "60"},
    ) as session:
        session.wait_output(b"stopping")
        harness.wait_until(lambda: "T" in session.left().values(), "a stopped process")
        begun = time.monotonic()
        session.send(b"\n")
        assert session.wait() == 4
        assert time.monotonic() - begun < 15, "it was never continued"


@pytest.mark.everywhere
def test_hundred_orphans_are_reaped_while_the_program_runs(run):
    with run("""
import os, signal
for _ in range(100):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            signal.alarm(0)
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
os.write(1, b"forked\\n")
os.read(0, 100)
os._exit(0)
""") as session:
        session.wait_output(b"forked")
        expected = 3 if session.adapter_pid != session.process.pid else 2  # bwrap itself, adapter, program
        harness.wait_until(lambda: len(session.left()) == expected, "no zombie and no orphan", 10)
        assert "Z" not in session.left().values()
        session.send(b"\n")
        assert session.wait() == 0


def test_fork_storm_is_ended(run):
    """Processes that fork at every TERM, as a supervisor restarts its workers, do not get away."""
    with run(
        """
import os, signal
def again(*_):
    if os.fork() == 0: os.setsid()
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for _ in range(5):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, again)
        os.setsid()
        os.write(1, b"+")
        while True: signal.pause()
os.read(0, 100)
os._exit(1)
""",
        environment={"WORKCELL_ADAPTER_GRACE_S": "0.2"},
    ) as session:
        session.wait_output(b"+++++")
        session.send(b"\n")
        assert session.wait() == 1


@pytest.mark.everywhere
def test_program_has_descriptors_0_1_2_and_no_other(run):
    """E14, also when the adapter was given more."""
    extra, other = os.pipe()
    os.set_inheritable(other, True)
    try:
        with run(["sh", "-c", "ls /proc/$$/fd; ls -l /proc/$$/fd | grep -c pts"], close_fds=False) as session:
            assert session.wait() == 0
            assert session.output.split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(extra)
        os.close(other)


def test_adapter_holds_no_descriptor_that_was_leaked_to_it(run):
    """E14: whoever waits for the end of a pipe that start had open is not kept waiting by the session."""
    read_fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, True)
    with run(["sh", "-c", "read line; exit 0"], close_fds=False) as session:
        os.close(write_fd)
        assert os.read(read_fd, 1) == b""
        os.close(read_fd)
        session.send(b"\n")
        assert session.wait() == 0


def test_child_that_the_adapter_inherited_is_reaped(run):
    before = harness.python_program("""
import os, sys
if os.fork() == 0: os._exit(9)
os.execv(sys.argv[1], sys.argv[1:])
""")
    with run(["sh", "-c", "read line; exit 7"], before=before) as session:
        session.wait_ready()
        session.send(b"\n")
        assert session.wait() == 7
