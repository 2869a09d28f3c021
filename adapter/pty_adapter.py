#!/usr/bin/env python3
"""pty_adapter - keep one program on a terminal of its own and outlive everything it starts

Usage: python3 -I -S pty_adapter.py [--] PROGRAM [ARG...]

Descriptors 0, 1 and 2 are the container's terminal, or anything else. README.md beside this file has the duties, the
table of signals, the limits and the environment.

Exit status: the program's own, 128+N if signal N ended it; 126 it cannot be run; 127 it is not found; 1 no terminal or
no input FIFO could be made; 2 usage
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import struct
import sys
import termios
import time
import tty

TYPE_CHECKING = False  # typing itself is slow to load
if TYPE_CHECKING:
    import signal
    from typing import Any, Callable
else:
    try:
        import _signal as signal  # what `signal` adds to it, enumerations, takes longer to load than all the rest
    except ImportError:
        import signal

DEFAULT_FIFO_PATH = "/state/tmp/workcell/session-stdin"
DEFAULT_SIZE = (24, 80, 0, 0)  # rows, columns, and the same in pixels
READ_BYTES = 65536
INPUT_LIMIT_BYTES = 256 * 1024
OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
UNREAD_LIMIT_BYTES = 4000  # the kernel keeps 4095 of a line and drops the rest of it without a word
CUT_SEARCH_BYTES = 64  # 4000 and this stay below 4095
CUT_PATIENCE_S = 0.25
RETRY_S = (0.001, 0.05)  # first and longest pause between two looks at how much the program has read
RESIZE_SETTLE_S = 0.02
GRACE_S = 2.0
KILL_REPEAT_S = 0.05
KILL_PATIENCE_S = 10.0
DRAIN_S = 0.5
FLUSH_STALL_S = 120.0
PR_SET_CHILD_SUBREAPER = 36

TO_FOREGROUND = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)  # what a key would do
TO_PROVIDER = (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
ENDS_AN_EARLY_START = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
HANDLED = TO_FOREGROUND + TO_PROVIDER + (signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD)
IGNORED = (signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE)


class SetupError(Exception):
    """Something that the adapter needs could not be had; the text is what the user reads."""


def printable(text: str) -> str:
    """Return `text` with every character that could steer a terminal replaced."""
    return "".join(character if character.isprintable() else "?" for character in text)


def attempt(function: Callable[..., Any], *arguments: Any) -> bool:
    """Call `function` and return whether the system let it, rather than raise."""
    try:
        function(*arguments)
    except (OSError, termios.error):
        return False
    return True


def read_some(fd: int, size_bytes: int = READ_BYTES) -> bytes | None:
    """Read what is there; None when that is nothing yet, b"" at the end or when the other side has hung up."""
    try:
        return os.read(fd, size_bytes)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def grace_s() -> float:
    """Seconds between TERM and KILL for what the program leaves behind; WORKCELL_ADAPTER_GRACE_S, 0 to 60."""
    try:
        value = float(os.environ.get("WORKCELL_ADAPTER_GRACE_S", ""))
    except ValueError:
        return GRACE_S
    return value if 0 <= value <= 60 else GRACE_S


def environment() -> dict[bytes, bytes]:
    """Return the environment as it was handed to us: in the C locale Python sets LC_CTYPE at start (PEP 538)."""
    result = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            before = [entry for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
    except OSError:
        return result
    result.pop(b"LC_CTYPE", None)
    if before:
        result[b"LC_CTYPE"] = before[0].partition(b"=")[2]
    return result


def own_standard_descriptors() -> None:
    """Hold 0, 1 and 2 and nothing else: what was leaked to us must end with whoever leaked it."""
    while os.open(os.devnull, os.O_RDWR) <= 2:
        pass
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        descriptors = list(range(1024))
    for fd in descriptors:
        if fd > 2:
            attempt(os.close, fd)


def open_fifo(path: str) -> tuple[int, tuple[int, int] | None]:
    """Open the input FIFO for both reading and writing, so that it never ends; make it unless there is one.

    Returns the descriptor, and device and inode if the FIFO is ours to remove. Raises OSError.
    """
    made = False
    os.makedirs(os.path.dirname(path) or ".", 0o700, exist_ok=True)
    try:
        present = os.lstat(path)
        if not stat.S_ISFIFO(present.st_mode):
            (os.rmdir if stat.S_ISDIR(present.st_mode) else os.unlink)(path)
            raise FileNotFoundError
    except FileNotFoundError:
        os.mkfifo(path, 0o600)
        made = True
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    found = os.fstat(fd)
    if not stat.S_ISFIFO(found.st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a FIFO")
    attempt(os.utime, fd, (0, 0))  # whoever comes too late to see the reader sees that there was one
    return fd, (found.st_dev, found.st_ino) if made else None


def descendants() -> dict[int, str] | None:
    """Return pid and name of every living process below this one, None where /proc does not show our namespace."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    for name in pids:
        try:
            with open("/proc/" + name + "/stat", "rb") as file:
                head, _, tail = file.read().rpartition(b")")
            state, parent = tail.split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
            names[int(name)] = head.partition(b"(")[2].decode("utf-8", "replace")
    found: dict[int, str] = {}
    todo = [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found[pid] = names[pid]
                todo.append(pid)
    return found


class Outer:
    """The container's terminal, or whatever stands on descriptors 0 to 2 in its place."""

    def __init__(self) -> None:
        self.tty_fd = next((fd for fd in (0, 1, 2) if os.isatty(fd)), -1)
        self.flags: dict[int, int] = {}
        self.attributes: list[Any] | None = None

    def take(self) -> None:
        """Become the terminal's session if it has none, make it raw, and let no read or write block."""
        self.flags = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (0, 1)}
        for fd, flags in self.flags.items():
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        if self.tty_fd < 0:
            return
        attempt(fcntl.ioctl, self.tty_fd, termios.TIOCSCTTY, 0)  # refused unless we lead a session without a terminal
        try:
            self.attributes = termios.tcgetattr(self.tty_fd)
            tty.setraw(self.tty_fd, termios.TCSANOW)  # by default it would flush what was typed before
        except termios.error:
            pass  # hung up already: goes on as without a terminal

    def restore(self) -> None:
        """Put terminal attributes and descriptor flags back as they were found."""
        if self.attributes is not None:
            attempt(termios.tcsetattr, self.tty_fd, termios.TCSANOW, self.attributes)
        for fd, flags in self.flags.items():
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)

    def size(self) -> tuple[int, ...] | None:
        """Return (rows, columns, width and height in pixels), None without a size that a program could use."""
        try:
            size = struct.unpack("HHHH", fcntl.ioctl(self.tty_fd, termios.TIOCGWINSZ, b"\0" * 8))
        except (OSError, ValueError):
            return None
        return size if size[0] and size[1] else None


class LineRules:
    """What the provider's terminal does to input at this moment, as far as it matters for cutting a long line."""

    def __init__(self, pty_fd: int) -> None:
        iflag, _, _, lflag, _, _, cc = termios.tcgetattr(pty_fd)
        self.canonical = bool(lflag & termios.ICANON)
        self.ends = {ord("\n")}  # bytes that end a line
        self.special: set[int] = set()  # bytes that may not end up in the line as they are
        self.quote = self.push = 0  # the VLNEXT and VEOF characters, 0 = switched off
        self.limit_bytes = UNREAD_LIMIT_BYTES // 3 if iflag & termios.PARMRK else UNREAD_LIMIT_BYTES
        if not self.canonical:
            return
        extended = lflag & termios.IEXTEN
        if iflag & termios.INLCR:
            self.ends.clear()
        if iflag & termios.ICRNL and not iflag & termios.IGNCR:
            self.ends.add(ord("\r"))
        self.push = cc[termios.VEOF][0]
        self.ends |= {self.push, cc[termios.VEOL][0], cc[termios.VEOL2][0] if extended else 0} - {0}
        self.quote = cc[termios.VLNEXT][0] if extended else 0
        self.special = {value[0] for value in cc if isinstance(value, bytes)} - {0} | {ord("\n"), ord("\r")}


class Input:
    """Bytes on their way into the provider's terminal; never more unread ones in the kernel than fit in one line.

    Whatever mode the program switches to, and whenever it does, what the kernel holds is then still whole: it drops
    bytes only from a line that outgrows its buffer (termios(3), canonical mode).
    """

    def __init__(self, pty_fd: int, tty_fd: int) -> None:
        self.pty_fd, self.tty_fd = pty_fd, tty_fd
        self.pending = bytearray()
        self.retry_at: float | None = None
        self._pause_s = RETRY_S[0]
        self._unread = 0  # at most so many bytes are unread in the kernel,
        self._line = 0  # at most so many of them belong to a line that has no end yet
        self._quoted = False  # the last byte was VLNEXT: the next one is only data
        self._cut_at: float | None = None

    def room(self) -> int:
        """How many more bytes may be taken in."""
        return INPUT_LIMIT_BYTES - len(self.pending)

    def feed(self, now: float) -> None:
        """Write what may be written at this time; while something is left, `retry_at` says when to call again."""
        while self.pending:
            rules = LineRules(self.pty_fd)
            data, push = self._portion(rules, now)
            written = 0
            if data:
                try:
                    written = os.write(self.pty_fd, data + push)
                except OSError:  # full, or hung up: both may pass
                    pass
            if not written:
                self.retry_at = now + self._pause_s
                self._pause_s = min(2 * self._pause_s, RETRY_S[1])
                return
            self._pause_s = RETRY_S[0]
            self._count(data[:written], rules)
            del self.pending[: min(written, len(data))]
            if written > len(data):
                self._unread += 1
                self._line = 0
        self.retry_at = None

    def _portion(self, rules: LineRules, now: float) -> tuple[bytes, bytes]:
        """Choose what to write next: data, and the VEOF character if it shall be handed over without an end of line."""
        if not rules.canonical:
            self._cut_at = None
        left = self._left_unread()
        if left is not None:
            self._line = self._line if rules.canonical else min(self._line, left)
            self._unread = self._line if rules.canonical else left
            if rules.canonical and self._line >= rules.limit_bytes:
                return self._cut(rules, now)
        return bytes(self.pending[: max(0, rules.limit_bytes - self._unread)]), b""

    def _cut(self, rules: LineRules, now: float) -> tuple[bytes, bytes]:
        """Choose how to hand over the part of a long line that fills the window.

        A VEOF on an empty line would be the end of input, so it always follows, in the same write, a byte that is
        certain to be in the line. The patience, once in each stay in canonical mode, is for a program about to leave
        it: that would find a NUL in place of the VEOF.
        """
        if not rules.push:
            return bytes(self.pending[:UNREAD_LIMIT_BYTES]), b""  # no means to save the line: as on any terminal
        if self._cut_at is None:
            self._cut_at = now + CUT_PATIENCE_S
        if now < self._cut_at:
            return b"", b""
        quoted = self._quoted
        for length, byte in enumerate(self.pending[:CUT_SEARCH_BYTES], 1):
            if quoted or byte not in rules.special:
                return bytes(self.pending[:length]), bytes((rules.push,))
            if byte in rules.ends:
                return bytes(self.pending[:length]), b""
            quoted = byte == rules.quote
        return bytes(self.pending[:CUT_SEARCH_BYTES]), b""  # editing keys only, which take no room

    def _count(self, data: bytes, rules: LineRules) -> None:
        self._unread += len(data)
        for byte in data:
            if self._quoted:
                self._quoted = False
                self._line += 1
            elif byte in rules.ends:
                self._line = 0
            elif byte == rules.quote and byte:
                self._quoted = True
            else:
                self._line += 1

    def _left_unread(self) -> int | None:
        """Count what the program has not read; None while a read(2) would give it something, which makes it inexact.

        Of a line without an end nothing is counted in canonical mode.
        """
        poller = select.poll()
        poller.register(self.tty_fd, select.POLLIN)
        try:
            # with nothing to read this waits until the kernel has passed on all that was written
            for _, events in poller.poll(0):
                return 0 if events & select.POLLHUP else None  # hung up: unknown for ever, do not wait for it
            return int.from_bytes(fcntl.ioctl(self.tty_fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
        except OSError:
            return 0


class Provider:
    """The program, and every process that it leaves to us."""

    def __init__(self, argv: list[str], env: dict[bytes, bytes], umask: int) -> None:
        self.argv, self.env, self.umask = argv, env, umask
        self.pid = 0
        self.exit_status: int | None = None
        if os.getpid() != 1:
            try:
                import ctypes  # not needed, and slow to load, as PID 1

                ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            except (ImportError, OSError, AttributeError):
                pass  # then orphans go to somebody else: README.md, limits

    def start(self, tty_fd: int) -> int:
        """Run the program with `tty_fd` as its controlling terminal; return 0, or the error number of exec."""
        report_fd, child_report_fd = os.pipe()
        signals = signal.valid_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self.pid = os.fork()
        if self.pid == 0:
            self._become(tty_fd, child_report_fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(child_report_fd)
        report = os.read(report_fd, 16)
        os.close(report_fd)
        if report:
            os.waitpid(self.pid, 0)
        return int(report or b"0")

    def _become(self, tty_fd: int, report_fd: int) -> None:
        number = errno.EINVAL
        try:
            for known in signal.valid_signals():
                if known not in (signal.SIGKILL, signal.SIGSTOP):
                    signal.signal(known, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(tty_fd, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(tty_fd, fd)
            os.umask(self.umask)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvpe(self.argv[0], self.argv, self.env)
        except OSError as error:
            number = error.errno or number
        finally:
            os.write(report_fd, str(number).encode())
            os._exit(127)

    def reap(self) -> bool:
        """Collect every child that has ended; return whether there is any child left."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                died = os.WIFSIGNALED(wait_status)
                self.exit_status = 128 + os.WTERMSIG(wait_status) if died else os.WEXITSTATUS(wait_status)

    def forward(self, number: int, pty_fd: int) -> None:
        """Pass a signal on to the group that README.md names for it."""
        groups = [self.pid]
        if number in TO_FOREGROUND or number == signal.SIGCONT:
            try:
                foreground = os.tcgetpgrp(pty_fd)
            except OSError:
                foreground = 0
            if foreground > 1 and foreground != self.pid:
                groups.insert(0, foreground)
        for group in groups:
            reached = attempt(os.killpg, group, number)
            if not reached and group == self.pid:
                attempt(os.kill, group, number)
            if reached and number in TO_FOREGROUND:
                break
        if number in (signal.SIGTERM, signal.SIGHUP):
            self.forward(signal.SIGCONT, pty_fd)  # one that is stopped could not act

    def signal_rest(self, *numbers: int) -> dict[int, str]:
        """Send each signal to every process there is but ourselves; return what was found, as descendants()."""
        found = descendants()
        everybody = [-1] if os.getpid() == 1 else [-self.pid] if found is None else list(found)
        for pid in everybody:
            for number in numbers:
                attempt(os.kill, pid, number)
        return found or {}


class Adapter:
    """The event loop: poll(2), with signals noted by their handler and acted on here."""

    def __init__(self, argv: list[str], env: dict[bytes, bytes]) -> None:
        self.received: list[int] = []
        self.wake_fd, wake_write_fd = os.pipe()
        for fd in (self.wake_fd, wake_write_fd):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write_fd, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, lambda number, _frame: self.received.append(number))
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self.outer = Outer()
        self.provider = Provider(argv, env, os.umask(0o077))
        self.fifo_path = os.environ.get("WORKCELL_DETACHED_STDIN_PATH") or DEFAULT_FIFO_PATH
        self.fifo_identity: tuple[int, int] | None = None
        self.output = bytearray()
        self.typed_open = self.output_open = True
        self.resize_at: float | None = None
        self.kill_at: float | None = None
        self.give_up_at: float | None = None

    def run(self) -> int:
        """Do all of it; return the exit status. Raises SetupError."""
        try:
            self.outer.take()
            self.pty_fd, self.tty_fd = os.openpty()
            os.set_blocking(self.pty_fd, False)
            self.size = self.outer.size() or DEFAULT_SIZE
            fcntl.ioctl(self.pty_fd, termios.TIOCSWINSZ, struct.pack("HHHH", *self.size))
        except OSError as error:
            raise SetupError("no terminal for the program: " + str(error.strerror)) from error
        self.input = Input(self.pty_fd, self.tty_fd)
        try:
            self.fifo_fd, self.fifo_identity = open_fifo(self.fifo_path)  # from here on others take us for ready
        except OSError as error:
            raise SetupError(self.fifo_path + ": no input FIFO: " + str(error.strerror)) from error
        for number in self.received:
            if number in ENDS_AN_EARLY_START:
                return 128 + number
        failure = self.provider.start(self.tty_fd)
        status = self._explain(failure) if failure else self._relay()
        self._drain()
        return status

    def restore(self) -> None:
        """Leave terminal and FIFO as they were before us."""
        self.outer.restore()
        if self.fifo_identity:
            try:
                found = os.lstat(self.fifo_path)
            except OSError:
                return
            if (found.st_dev, found.st_ino) == self.fifo_identity:
                attempt(os.unlink, self.fifo_path)

    def kill(self) -> None:
        """End everything at once, after an error of our own."""
        deadline = time.monotonic() + GRACE_S
        while self.provider.pid and self.provider.reap() and time.monotonic() < deadline:
            self.provider.signal_rest(signal.SIGKILL)
            select.select([], [], [], 0.01)

    def _explain(self, number: int) -> int:
        """Tell why the program could not be run; return 127 if there is none of that name, else 126."""
        program = self.provider.argv[0]
        there = "/" in program and os.path.lexists(program)
        missing = number in (errno.ENOENT, errno.ENOTDIR) and not there
        reason = os.strerror(number)
        if there and number == errno.ENOENT:
            reason = "the interpreter or loader that it names is missing"
        self._note(program + ": " + reason)
        return 127 if missing else 126

    def _note_processes(self, what: str, found: dict[int, str]) -> None:
        names = [f"{pid} ({name})" for pid, name in found.items()]
        if names:
            self._note(what + ": " + ", ".join(names[:8]) + (", ..." if len(names) > 8 else ""))

    def _note(self, text: str) -> None:
        end = "\r\n" if os.isatty(1) else "\n"
        self.output += ("pty_adapter: " + printable(text) + end).encode("utf-8", "replace")

    def _relay(self) -> int:
        """Relay until the program and all that it started are gone; return its exit status."""
        while True:
            now = time.monotonic()
            while self.received:
                self._act_on(self.received.pop(0), now)
            if self.provider.exit_status is not None and self._all_gone(now):
                return self.provider.exit_status
            if self.resize_at is not None and now >= self.resize_at:
                self._resize()
            if self.input.retry_at is not None and now >= self.input.retry_at:
                self.input.feed(now)
            self._wait(now)

    def _act_on(self, number: int, now: float) -> None:
        if number == signal.SIGCHLD:
            self.provider.reap()
        elif number == signal.SIGWINCH:
            self.resize_at = self.resize_at or now + RESIZE_SETTLE_S
        elif self.provider.exit_status is None:  # later its pid may be somebody else's
            self.provider.forward(number, self.pty_fd)

    def _all_gone(self, now: float) -> bool:
        """End what the program left behind, a step a call; return whether nothing is left."""
        if not self.provider.reap():
            return True
        if self.kill_at is None:
            self.kill_at = now + grace_s()
            self.provider.signal_rest(signal.SIGHUP, signal.SIGTERM, signal.SIGCONT)
        elif now >= self.kill_at:
            found = self.provider.signal_rest(signal.SIGKILL)
            if self.give_up_at is None:
                self.give_up_at = now + KILL_PATIENCE_S
                self._note_processes("left behind and killed", found)
            elif now >= self.give_up_at:
                self._note_processes("left behind and out of reach", found)
                return True
            self.kill_at = now + KILL_REPEAT_S
        return False

    def _resize(self) -> None:
        self.resize_at = None
        size = self.outer.size()
        if size and size != self.size:
            self.size = size
            fcntl.ioctl(self.pty_fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size))

    def _wait(self, now: float) -> None:
        """Wait for the next event or deadline, and move bytes."""
        deadlines = [at for at in (self.resize_at, self.input.retry_at, self.kill_at) if at is not None]
        poller = select.poll()
        poller.register(self.wake_fd, select.POLLIN)
        if self.input.room() > 0:
            poller.register(self.fifo_fd, select.POLLIN)
            if self.typed_open:
                poller.register(0, select.POLLIN)
        if len(self.output) < OUTPUT_LIMIT_BYTES:
            poller.register(self.pty_fd, select.POLLIN)
        if self.output:
            poller.register(1, select.POLLOUT)
        timeout_ms = max(0.0, min(deadlines) - now) * 1000 if deadlines else None
        for fd, _ in poller.poll(timeout_ms):
            if fd == self.wake_fd:
                read_some(fd)
            elif fd == self.pty_fd:
                self._read_output()
            elif fd == 1:
                self._write_output()
            else:
                self._read_input(fd)

    def _read_input(self, fd: int) -> None:
        data = read_some(fd, min(READ_BYTES, max(1, self.input.room())))
        if data:
            self.input.pending += data
            self.input.feed(time.monotonic())
        elif data == b"" and fd == 0:
            self.typed_open = False

    def _read_output(self) -> bool:
        """Take what the program has written; return whether there may be more at once."""
        for _ in range(16):
            data = read_some(self.pty_fd)
            if not data:  # never the end: we hold the program's side open, too
                break
            self.output += data
        self._write_output()
        return bool(data)

    def _write_output(self) -> bool:
        """Write what the container's terminal takes; return whether that was anything."""
        try:
            written = os.write(1, self.output[:READ_BYTES]) if self.output and self.output_open else 0
        except BlockingIOError:
            return False
        except OSError:
            self.output_open = False  # hung up: nobody will ever read this
            written = 0
        del self.output[: written if self.output_open else None]
        return written > 0

    def _drain(self) -> None:
        """After the end: take the last output, which something outside our reach may still prolong, and write it."""
        deadline = time.monotonic() + DRAIN_S
        while self._read_output() and time.monotonic() < deadline:
            pass
        deadline = time.monotonic() + FLUSH_STALL_S
        while self.output and time.monotonic() < deadline:
            poller = select.poll()
            poller.register(1, select.POLLOUT)
            poller.poll(1000)
            if self._write_output():
                deadline = time.monotonic() + FLUSH_STALL_S


def complain(text: str) -> None:
    """Print one line on standard error."""
    attempt(os.write, 2, ("pty_adapter: " + printable(text) + "\n").encode("utf-8", "replace"))


def main(argv: list[str], env: dict[bytes, bytes] | None = None) -> int:
    """Run the command in `argv`, with our own environment unless another is given; return the exit status."""
    command = argv[2:] if argv[1:2] == ["--"] else argv[1:]
    if not command:
        complain("no program given: usage: pty_adapter.py [--] PROGRAM [ARG...]")
        return 2
    adapter = None
    try:
        own_standard_descriptors()
        adapter = Adapter(command, environment() if env is None else env)
        status, complaint = adapter.run(), ""
    except SetupError as error:
        status, complaint = 1, str(error)
    except Exception as error:  # never a traceback on the terminal, never a program without its adapter
        status, complaint = 1, f"internal error: {type(error).__name__}: {error}"
        if adapter:
            adapter.kill()
    if adapter:
        adapter.restore()
    if complaint:
        complain(complaint)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))
