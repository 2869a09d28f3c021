"""The program's exit status is the adapter's own, whatever happens on the way (E08, E12)."""

import signal

import pytest


@pytest.mark.everywhere
@pytest.mark.parametrize("status", [0, 7, 126, 127, 255])
def test_exit_status_is_passed_on(run, status):
    with run(["sh", "-c", "exit {}".format(status)]) as session:
        assert session.wait() == status


@pytest.mark.everywhere
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name
)
def test_death_by_a_signal_is_128_and_its_number(run, number):
    with run(
        "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {})".format(int(number))
    ) as session:
        assert session.wait() == 128 + number


def test_status_survives_a_program_that_closes_its_terminal(run):
    """E12: the end of the terminal is not the end of the program, and costs no processor time."""
    with run("""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("closing", flush=True)
for fd in (0, 1, 2): os.close(fd)
signal.sigwait([signal.SIGUSR1])
os._exit(5)
""") as session:
        session.wait_output(b"closing")
        session.wait_idle()
        assert session.process.poll() is None
        session.signal(signal.SIGUSR1)
        assert session.wait() == 5


def test_terminal_that_is_hung_up_and_opened_again_is_served_again(run):
    """E12, the hard way: vhangup(2) closes it for everybody, the adapter too; needs a capability."""
    with run("""
import ctypes, os, signal, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
name = os.ttyname(0)
os.write(1, b"before\\r\\n")
os.read(0, 100)
if ctypes.CDLL(None).vhangup(): os._exit(77)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
fd = os.open(name, os.O_RDWR)
os.write(fd, b"after\\r\\n")
line = b""
while not line.endswith(b"\\n"): line += os.read(fd, 65536)
os.write(fd, b"got %d\\r\\n" % len(line))
os._exit(5)
""") as session:
        session.wait_output(b"before")
        session.send(b"\n")
        if session.wait_for_end(0.5):
            assert session.wait() == 77
            pytest.skip("vhangup(2) is not allowed here")
        session.wait_idle()
        assert session.process.poll() is None
        session.signal(signal.SIGUSR1)
        session.wait_output(b"after")
        session.send(b"x" * 5000 + b"\n")
        session.wait_output(b"got 5001")
        assert session.wait() == 5


@pytest.mark.everywhere
def test_program_that_is_not_found_ends_with_127_and_a_reason(run):
    with run(["no-such-program-anywhere"]) as session:
        assert session.wait() == 127
        assert session.output == b"pty_adapter: no-such-program-anywhere: No such file or directory\r\n"


@pytest.mark.everywhere
def test_program_that_cannot_be_run_ends_with_126_and_a_reason(run, tmp_path):
    (tmp_path / "data").write_text("no program")
    with run([str(tmp_path / "data")]) as session:
        assert session.wait() == 126
        assert session.output == "pty_adapter: {}/data: Permission denied\r\n".format(tmp_path).encode()


def test_script_without_its_interpreter_is_there_but_cannot_be_run(run, tmp_path):
    (tmp_path / "script").write_text("#!/nowhere/at/all\n")
    (tmp_path / "script").chmod(0o755)
    with run([str(tmp_path / "script")]) as session:
        assert session.wait() == 126
        assert b"interpreter" in session.output and session.output.count(b"\n") == 1


def test_a_folder_cannot_be_run(run, tmp_path):
    with run([str(tmp_path)]) as session:
        assert session.wait() == 126
        assert b"Permission denied" in session.output


def test_reason_cannot_steer_the_terminal(run):
    with run(["no\x1b]0;evil\x07such"]) as session:
        assert session.wait() == 127
        assert b"\x1b" not in session.output and b"\x07" not in session.output
