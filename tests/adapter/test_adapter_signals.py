"""Signals to the adapter reach the process group that the table in adapter/README.md names (E02, E05, E06)."""

import signal

import pytest

import harness

LISTENER = """
import os, signal, sys
def tell(number, frame):
    os.write(1, b"got %d\\n" % number)
    if number == signal.SIGUSR2: os._exit(9)
for number in (1, 2, 3, 10, 12, 15, 18, 20): signal.signal(number, tell)
os.write(1, b"listening\\n")
while True: signal.pause()
"""


@pytest.mark.everywhere
def test_each_signal_of_the_table_reaches_the_program(run):
    with run(LISTENER) as session:
        session.wait_output(b"listening")
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1):
            session.signal(number)
            session.wait_output(b"got %d\r\n" % number)
        assert session.output.count(b"got 18") == 1
        for times, number in enumerate((signal.SIGHUP, signal.SIGTERM, signal.SIGTERM), 2):
            session.signal(number)
            session.wait_output(lambda output, times=times: output.count(b"got 18") == times)
        assert session.output.count(b"got 1\r\n") == 1 and session.output.count(b"got 15\r\n") == 2
        session.signal(signal.SIGUSR2)
        assert session.wait() == 9


@pytest.mark.everywhere
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1], ids=lambda number: number.name
)
def test_program_without_handlers_dies_of_the_signal(run, number):
    with run(
        "import os; os.write(1, b'here'); import resource; resource.setrlimit(4, (0, 0))\nwhile True: os.read(0, 9)",
        environment={"PYTHONDONTWRITEBYTECODE": "1"},
    ) as session:
        session.wait_output(b"here")
        session.signal(number)
        assert session.wait() == (128 + number if number != signal.SIGINT else 130)


def test_stopped_program_can_act_on_term(run):
    with run("""
import os, signal
signal.signal(15, lambda *_: os._exit(6))
os.write(1, b"stopping")
os.kill(os.getpid(), signal.SIGSTOP)
while True: signal.pause()
""") as session:
        session.wait_output(b"stopping")
        harness.wait_until(lambda: "T" in session.left().values(), "a stopped process")
        session.signal(signal.SIGTERM)
        assert session.wait() == 6


def test_stop_key_signals_leave_the_adapter_running(run):
    with run(LISTENER) as session:
        session.wait_output(b"listening")
        session.signal(signal.SIGTSTP)
        session.wait_output(b"got 20")
        assert "T" not in session.left().values()
        session.signal(signal.SIGUSR2)
        assert session.wait() == 9


def test_adapter_in_a_job_of_a_shell_is_not_stopped(run):
    """Only a group that is not orphaned can be stopped by these signals at all."""
    before = harness.python_program("""
import os, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.execv(sys.argv[1], sys.argv[1:])
status = os.waitpid(child, 0)[1]
os._exit(os.WEXITSTATUS(status))
""")
    with run(LISTENER, before=before) as session:
        session.wait_output(b"listening")
        session.adapter_pid = session.child_of(session.process.pid)
        for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGUSR1):
            session.signal(number)
        session.wait_output(b"got 10")
        assert "T" not in session.left().values()
        session.signal(signal.SIGUSR2)
        assert session.wait() == 9


FOREGROUND_CHILD = """
import os, signal
def listen(name):
    def tell(number, frame):
        os.write(1, b"%s got %d\\n" % (name, number))
        if number == signal.SIGUSR2: os._exit(3)
    for number in (1, 2, 3, 10, 12, 15, 18, 20): signal.signal(number, tell)
    os.write(1, name + b" listening\\n")
    while True: signal.pause()
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
if os.fork() == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    listen(b"front")
if os.fork() == 0: listen(b"member")
listen(b"leader")
"""


def test_key_signals_hit_the_foreground_group_and_others_the_program_with_its_group(run):
    with run(FOREGROUND_CHILD) as session:
        for name in (b"front", b"member", b"leader"):
            session.wait_output(name + b" listening")
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
            session.signal(number)
            session.wait_output(b"front got %d\r\n" % number)
        for number in (signal.SIGUSR1, signal.SIGTERM):
            session.signal(number)
            session.wait_output(b"leader got %d\r\n" % number)
            session.wait_output(b"member got %d\r\n" % number)
        session.signal(signal.SIGCONT)
        session.wait_output(b"front got 18")
        for number in (2, 3, 20):
            assert b"leader got %d\r\n" % number not in session.output
            assert b"member got %d\r\n" % number not in session.output
        for number in (10, 15):
            assert b"front got %d\r\n" % number not in session.output
        session.signal(signal.SIGUSR2)
        assert session.wait() == 3


def test_key_signal_falls_back_to_the_program_when_the_foreground_group_is_gone(run):
    with run("""
import os, signal
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(2, lambda *_: os._exit(4))
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    os._exit(0)
os.waitpid(child, 0)
os.write(1, b"gone")
while True: signal.pause()
""") as session:
        session.wait_output(b"gone")
        session.signal(signal.SIGINT)
        assert session.wait() == 4


@pytest.mark.everywhere
def test_term_right_after_ready_is_honoured(run, place):
    """E06: 50 starts, each with a TERM as soon as there is a reader; the program gets it or never starts."""
    for _ in range(50 if place[0] == "current" else 5):
        with run(["sleep", "1000"]) as session:
            session.wait_ready()
            session.signal(signal.SIGTERM)
            assert session.wait() == 143


def test_resize_right_after_ready_never_ends_the_program(run):
    """E06: never a status of 129 that nobody asked for."""
    for _ in range(20):
        with run(["sh", "-c", "read line; exit 3"]) as session:
            session.wait_ready()
            session.resize(30, 90)
            session.signal(signal.SIGWINCH)
            session.send(b"\n")
            assert session.wait() == 3


def test_ignored_and_blocked_signals_are_not_inherited(run):
    """A launcher with INT ignored (nohup, background shells) must not make the program deaf."""
    before = harness.python_program("""
import os, signal, sys
for number in (1, 2, 3, 13, 15, 17, 20): signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
os.execv(sys.argv[1], sys.argv[1:])
""")
    with run(["grep", "^Sig\\(Blk\\|Ign\\)", "/proc/self/status"], before=before) as session:
        assert session.wait() == 0
        names, masks = session.output.split()[::2], session.output.split()[1::2]
        assert [bytes(name) for name in names] == [b"SigBlk:", b"SigIgn:"]
        # 32 and 33 are the C library's own: nobody can reset them, and who started the tests may have them ignored.
        assert [int(mask, 16) & ~(3 << 31) for mask in masks] == [0, 0]


def test_terminal_hang_up_is_forwarded_and_survived_by_a_program_that_ignores_it(run):
    with run(
        """
import os, signal
signal.signal(1, lambda *_: os.write(fd, b"hup "))
signal.signal(10, lambda *_: (os.write(fd, b"usr1 "), os._exit(8)))
fd = os.open(os.environ["RESULT"], os.O_WRONLY | os.O_CREAT, 0o600)
os.write(1, b"here")
while True:
    signal.pause()
    os.write(1, b"nobody reads this")
""",
        environment={"RESULT": "{}/result".format(run.tmp_path)},
    ) as session:
        session.wait_output(b"here")
        session.hang_up()
        harness.wait_until(lambda: (run.tmp_path / "result").read_text() == "hup ", "HUP")
        session.wait_idle()
        assert session.process.poll() is None
        session.signal(signal.SIGUSR1)
        harness.wait_until(lambda: session.process.poll() is not None, "the end")
        assert session.process.returncode == 8
        assert (run.tmp_path / "result").read_text() == "hup usr1 "
