"""Input FIFO, terminal attributes, environment and the adapter's own failures (C13, C14, E11)."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import termios

import pytest

import harness

WAIT = ["sh", "-c", "read line; exit 3"]


@pytest.mark.everywhere
def test_fifo_and_its_folder_are_private_and_gone_at_the_end(run):
    with run(WAIT) as session:
        session.wait_ready()
        assert stat.S_IMODE(os.stat(session.fifo_path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(session.fifo_path)).st_mode) == 0o700
        session.send(b"\n")
        assert session.wait() == 3
        assert not os.path.lexists(session.fifo_path)


@pytest.mark.everywhere
def test_existing_fifo_is_used_as_it_is_and_stays(run, tmp_path):
    path = str(tmp_path / "fifo")
    os.mkfifo(path, 0o622)
    os.chmod(path, 0o622)
    before = os.stat(path)
    with run(WAIT, fifo_path=path) as session:
        session.send(b"\n")
        assert session.wait() == 3
    after = os.stat(path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("kind", ["file", "link to a file", "link to a fifo", "dangling link", "socket", "empty folder"])
def test_anything_else_in_its_place_is_replaced_and_links_are_not_followed(run, tmp_path, kind):
    path, target = tmp_path / "place", tmp_path / "target"
    if kind == "file":
        path.write_text("old")
    elif kind == "link to a fifo":
        os.mkfifo(str(target))
        path.symlink_to(target)
    elif kind == "link to a file":
        target.write_text("precious")
        path.symlink_to(target)
    elif kind == "dangling link":
        path.symlink_to(target)
    elif kind == "socket":
        os.mknod(str(path), stat.S_IFSOCK | 0o600)
    else:
        path.mkdir()
    with run(WAIT, fifo_path=str(path)) as session:
        harness.wait_until(lambda: path.is_fifo() and not path.is_symlink(), "a FIFO")
        session.send(b"\n")
        assert session.wait() == 3
    assert kind != "link to a file" or target.read_text() == "precious"
    assert kind != "dangling link" or not target.exists()


def test_fifo_that_cannot_be_made_is_one_line_and_status_1(run, tmp_path):
    (tmp_path / "file").write_text("")
    with run(WAIT, fifo_path=str(tmp_path / "file" / "fifo")) as session:
        assert session.wait() == 1
        assert session.output.startswith(b"pty_adapter: ") and session.output.count(b"\n") == 1
        assert termios.tcgetattr(session.tty_fd) == session.attributes


def test_fifo_that_somebody_else_put_there_meanwhile_is_not_removed(run):
    with run(WAIT) as session:
        session.wait_ready()
        os.rename(session.fifo_path, session.fifo_path + ".moved")
        os.mkfifo(session.fifo_path)
        fd = os.open(session.fifo_path + ".moved", os.O_WRONLY)
        os.write(fd, b"\n")
        os.close(fd)
        assert session.wait() == 3
        assert os.path.lexists(session.fifo_path)


def test_fifo_without_the_adapter_has_no_reader(run):
    """C13: a sender is told at once."""
    with run(WAIT) as session:
        session.wait_ready()
        session.signal(signal.SIGKILL)
        harness.wait_until(lambda: session.process.poll() is not None)
        harness.wait_until(lambda: not session.has_reader(), "ENXIO")  # at once, but for a program that is being started
        harness.wait_until(lambda: session.left() == {}, "the program to end by the hang-up of its terminal")


@pytest.mark.everywhere
def test_terminal_is_raw_when_ready_and_restored_at_the_end(run):
    with run(WAIT) as session:
        session.wait_ready()
        iflag, oflag, _, lflag = termios.tcgetattr(session.tty_fd)[:4]
        assert not lflag & (termios.ICANON | termios.ECHO | termios.ISIG) and not oflag & termios.OPOST
        assert not iflag & (termios.ICRNL | termios.IXON)
        session.send(b"\n")
        assert session.wait() == 3
        assert termios.tcgetattr(session.tty_fd) == session.attributes
        assert not fcntl.fcntl(session.tty_fd, fcntl.F_GETFL) & os.O_NONBLOCK


@pytest.mark.parametrize("end", ["TERM", "early TERM", "not found", "KILL of the program"])
def test_terminal_is_restored_whatever_the_end(run, end):
    with run(["no-such-program"] if end == "not found" else ["sh", "-c", "echo $$; read line"]) as session:
        if end == "early TERM":
            session.wait_ready()
        elif end != "not found":
            pid = int(session.wait_output(b"\n").split()[0])
        if end == "KILL of the program":
            os.kill(pid, signal.SIGKILL)
        elif end != "not found":
            session.signal(signal.SIGTERM)
        session.wait()
        assert termios.tcgetattr(session.tty_fd) == session.attributes


def test_outer_terminal_becomes_the_controlling_terminal(run):
    """Else no window size would ever change: the kernel tells only the terminal's session."""
    with run(WAIT) as session:
        session.wait_ready()
        assert os.tcgetpgrp(session.pty_fd) == session.adapter_pid
        session.send(b"\n")
        assert session.wait() == 3


def test_adapter_with_a_controlling_terminal_already_works_as_well(run):
    with run(WAIT, controlling=True) as session:
        session.wait_ready()
        session.type(b"\n")
        assert session.wait() == 3


@pytest.mark.everywhere
def test_environment_and_umask_are_the_launchers(run):
    """Also in the C locale, where Python sets LC_CTYPE for itself at start."""
    before = [
        "sh",
        "-c",
        'umask 027; exec env -i A=b LC_CTYPE=C "MARK=$WORKCELL_TEST_MARK" '
        '"WORKCELL_DETACHED_STDIN_PATH=$WORKCELL_DETACHED_STDIN_PATH" "PATH=$PATH" "$@"',
        "sh",
    ]
    with run(["sh", "-c", "umask; tr '\\0' '\\n' < /proc/$$/environ | grep -v ^PATH="], before=before) as session:
        assert session.wait() == 0
        lines = session.output.decode().split("\r\n")
        assert lines[0] == "0027"
        assert sorted(lines[1:-1]) == sorted(
            ["A=b", "LC_CTYPE=C", "MARK=" + session.mark, "WORKCELL_DETACHED_STDIN_PATH=" + session.fifo_path]
        )


def test_empty_environment_stays_empty(run, tmp_path):
    path = tmp_path / "fifo"
    before = ["env", "-i", "WORKCELL_DETACHED_STDIN_PATH={}".format(path)]
    with run(["/usr/bin/env"], before=before, fifo_path=str(path)) as session:
        assert session.wait() == 0
        assert session.output.decode() == "WORKCELL_DETACHED_STDIN_PATH={}\r\n".format(path)


@pytest.mark.everywhere
def test_arguments_are_transported_exactly(run):
    """Every byte but NUL, empty ones, ones that look like options of ours."""
    arguments = [bytes(range(1, 128)), bytes(range(128, 256)), b"", b"--", b"-x", b"a  b", b"\n"]
    source = "import os, sys; os.write(1, repr([os.fsencode(a) for a in sys.argv[1:]]).encode())"
    with run(harness.python_program(source) + [os.fsdecode(argument) for argument in arguments]) as session:
        assert session.wait() == 0
        assert session.output.decode() == repr(arguments)


def test_current_folder_is_the_launchers(run, tmp_path):
    with run(["pwd"], before=["env", "-C", str(tmp_path)]) as session:
        assert session.wait() == 0
        assert session.output.decode() == "{}\r\n".format(tmp_path)


@pytest.mark.parametrize("arguments", [[], ["--"]])
def test_no_program_is_a_usage_error(arguments):
    done = subprocess.run(
        [sys.executable, "-I", "-S", harness.ADAPTER] + arguments, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"pty_adapter: no program given") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_are_survived(tmp_path, closed):
    path, result = tmp_path / "fifo", tmp_path / "result"
    command = 'exec "$0" -I -S "$1" sh -c "stty size > {}; exit 4" {}'.format(result, closed)
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, harness.ADAPTER],
        env=dict(os.environ, WORKCELL_DETACHED_STDIN_PATH=str(path)),
        timeout=30,
    )
    assert done.returncode == 4
    assert result.read_text() == "24 80\n"


def test_internal_error_is_one_line_and_leaves_nothing_running(run, tmp_path):
    """A fault put into a copy of the adapter: in the middle of a run it kills everything and restores the terminal."""
    with open(harness.ADAPTER) as file:
        source = file.read()
    broken = source.replace("    def _resize(self) -> None:\n", "    def _resize(self) -> None:\n        1 / 0\n")
    assert broken != source
    copy = tmp_path / "broken.py"
    copy.write_text(broken)
    with run(["sh", "-c", "trap '' HUP TERM; setsid sleep 1000 & echo ready; read line"], adapter=str(copy)) as session:
        session.wait_output(b"ready")
        session.resize(30, 30)
        assert session.wait() == 1
        assert session.output == b"ready\r\npty_adapter: internal error: ZeroDivisionError: division by zero\r\n"
        assert termios.tcgetattr(session.tty_fd) == session.attributes


def test_adapter_needs_nothing_but_the_standard_library_and_python_3_8():
    """It is mounted into images: its imports are few, and ctypes, slow to load, comes only where it is needed."""
    source = open(harness.ADAPTER).read()
    names = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert names <= {
        "__future__",
        "errno",
        "fcntl",
        "os",
        "select",
        "signal",
        "stat",
        "struct",
        "sys",
        "termios",
        "time",
        "tty",
    }
    for missing in ("waitstatus_to_exitcode", "pidfd_open", "login_tty", "tcgetwinsize"):
        assert missing not in source
    assert os.stat(harness.ADAPTER).st_mode & 0o777 == 0o755
