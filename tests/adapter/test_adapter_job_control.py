"""A shell on the program's terminal has job control (E05)."""

import signal

import pytest

import harness

SHELL = ["bash", "--norc", "--noprofile", "-i"]


@pytest.fixture
def shell(run):
    with run(SHELL, environment={"PS1": "$ ", "HISTFILE": "", "TERM": "dumb"}) as session:
        session.wait_output(b"$ ")
        yield session
        assert session.wait() == 5
        assert b"no job control" not in session.output and b"cannot set terminal" not in session.output


def run_line(session, line, wanted):
    session.send(line + b"\r")
    session.wait_output(wanted)


@pytest.mark.everywhere
def test_interrupt_and_stop_keys_hit_the_foreground_job_only(shell):
    run_line(shell, b"sleep 1001 &", b"[1] ")
    run_line(shell, b"echo go; sleep 1002", b"\ngo")
    wait_for_job(shell, 2)
    shell.type(b"\x03")
    shell.wait_output(b"^C\r\n$ ")  # the key flushes what is typed after it too early
    run_line(shell, b"echo status $?", b"status 130")
    run_line(shell, b"echo go again; sleep 1003", b"\ngo again")
    wait_for_job(shell, 2)
    shell.type(b"\x1a")
    shell.wait_output(b"Stopped")
    run_line(shell, b"jobs", b"Running")
    run_line(shell, b"fg", b"\nsleep 1003")
    harness.wait_until(lambda: "T" not in shell.left().values(), "the job to go on")
    shell.type(b"\x03")
    shell.wait_output(b"sleep 1003\r\n^C\r\n$ ")
    run_line(shell, b"echo back $?", b"back 130")
    run_line(shell, b"kill %1; wait; echo done", b"\ndone")
    shell.send(b"exit 5\r")


def wait_for_job(session, count):
    """Wait until `count` sleeps are there: a key typed before would hit the shell instead."""

    def sleeps():
        found = 0
        for pid in session.left():
            try:
                with open("/proc/{}/comm".format(pid)) as file:
                    found += file.read() == "sleep\n"
            except OSError:
                pass
        return found == count

    harness.wait_until(sleeps, "{} sleeps".format(count))


def test_interrupt_signal_to_the_adapter_does_what_the_key_does(shell):
    run_line(shell, b"echo go; sleep 1004", b"\ngo")
    wait_for_job(shell, 1)
    shell.signal(signal.SIGINT)
    shell.wait_output(b"sleep 1004\r\ngo\r\n\r\n$ ")
    run_line(shell, b"echo status $?", b"status 130")
    run_line(shell, b"echo go again; sleep 1005", b"\ngo again")
    wait_for_job(shell, 1)
    shell.signal(signal.SIGTSTP)
    shell.wait_output(b"Stopped")
    shell.send(b"exit 5\rexit 5\r")


def test_background_and_stopped_jobs_do_not_outlive_the_shell(run):
    with run(SHELL, environment={"PS1": "$ ", "HISTFILE": "", "TERM": "dumb"}) as session:
        session.wait_output(b"$ ")
        run_line(session, b"sleep 1006 & nohup sleep 1007 >/dev/null 2>&1 & setsid sleep 1008 &", b"$ ")
        wait_for_job(session, 3)
        run_line(session, b"echo go; sleep 1009", b"\ngo")
        wait_for_job(session, 4)
        session.type(b"\x1a")
        session.wait_output(b"Stopped")
        session.send(b"exit 5\rexit 5\r")
        assert session.wait() == 5


def test_controlling_terminal_is_the_programs_own(run):
    with run(["sh", "-c", "tty; ps -o tty= -p $$; ps -o sid=,pgid=,tpgid=,pid= -p $$; echo via-dev-tty > /dev/tty"]) as session:
        assert session.wait() == 0
        lines = session.output.decode().split("\r\n")
        assert lines[0] == "/dev/" + lines[1].strip()
        assert len(set(lines[2].split())) == 1
        assert lines[3] == "via-dev-tty"
