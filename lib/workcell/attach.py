"""Join a terminal to a session: show the console log as it grows, type into the monitor's FIFO, leave no trace behind.

The client only reads files and writes FIFOs. It can be stopped or killed at any point without the agent noticing.
"""

import ctypes
import errno
import json
import os
import re
import select
import struct

from workcell import clock, console, host, live, record, replay, scratch, terminal
from workcell.errors import UsageError, WorkcellError
from workcell.signals import signal

REPLAY_BYTES = 64 << 10
POLL_MS = 1000  # only in case that a notice was missed: what is printed, and the end, wake us
POLL_WITHOUT_NOTICES_MS = 5
NEAR_END_S = 2.0  # what the monitor may still have to do once its log goes
# Answers of the terminal to what was shown on entry would be typed into the session.
QUIET_S = 0.15
SPLIT_S = 0.05
CHORD_S = 1.0
LAST_INPUT_S = 0.5

_IN_MODIFY, _IN_CREATE, _IN_MOVED_TO, _IN_DELETE = 0x2, 0x100, 0x80, 0x200
_IN_NONBLOCK, _IN_CLOEXEC = 0o4000, 0o2000000


def parse_keys(text: str) -> list[int]:
    """Return the bytes of a detach sequence such as `ctrl-\\`, `ctrl-p,ctrl-q` or `ctrl-a,d`; raise UsageError."""
    keys = []
    for word in text.split(","):
        name = word.strip()
        if re.fullmatch(r"ctrl-[a-zA-Z@\[\\\]^_]", name):
            keys.append(ord(name[5].upper()) & 0x1F)
        elif len(name) == 1 and name.isascii() and name.isprintable():
            keys.append(ord(name))
        else:
            raise UsageError(
                f"--detach-keys {text!r}", f"{name!r} is no key", "use one character, or ctrl- and a letter, joined by ','"
            )
    return keys


class DetachKeys:
    """Find the detach sequence in what is typed: as control bytes or in the extended form of keyboards, split anywhere.

    A byte that may begin the sequence is held back until the next shows whether it does.
    """

    def __init__(self, keys: list[int]) -> None:
        self.keys = keys
        # kitty's `CSI code ; modifiers u` and xterm's `CSI 27 ; modifiers ; code ~`, both with ctrl (5) alone.
        self._forms = [[bytes([key]), *self._extended(key)] for key in keys]
        self._held = b""
        self._flush_at = float("inf")

    @staticmethod
    def _extended(key: int) -> list[bytes]:
        if key >= 0x20:
            return []
        plain = (key | 0x60) if 1 <= key <= 26 else (key | 0x40)
        return [b"\x1b[%d;5u" % plain, b"\x1b[27;5;%d~" % plain, b"\x1b[%d;5:1u" % plain]

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return (what to pass on, whether the sequence is complete; what follows it is dropped)."""
        data = self._held + data
        self._held, self._flush_at = b"", float("inf")
        out, at = bytearray(), 0
        while at < len(data):
            length, whole = self._match(data, at)
            if whole:
                return bytes(out), True
            if length:
                self._held = data[at:]
                # Half a sequence of bytes comes whole within moments; the next key of several is pressed by a person.
                whole_keys = any(self._held.endswith(form) for forms in self._forms[:-1] for form in forms)
                self._flush_at = clock.monotonic_s() + (CHORD_S if whole_keys else SPLIT_S)
                break
            out.append(data[at])
            at += 1
        return bytes(out), False

    def held_for_ms(self) -> float:
        """Return how long what is held back may still wait; endless where nothing is."""
        return max(0.0, (self._flush_at - clock.monotonic_s()) * 1000)

    def flush(self) -> bytes:
        """Return what was held back, once nothing followed it in time."""
        if clock.monotonic_s() < self._flush_at:
            return b""
        held, self._held, self._flush_at = self._held, b"", float("inf")
        return held

    def _match(self, data: bytes, start: int) -> tuple[int, bool]:
        """Return (length of a beginning of the sequence that reaches the end of data, or 0; whether it is whole)."""
        at = start
        for forms in self._forms:
            rest = data[at:]
            whole = next((form for form in forms if rest.startswith(form)), None)
            if whole is None:
                return (len(data) - start, False) if any(form.startswith(rest) for form in forms) else (0, False)
            at += len(whole)
        return at - start, True


class Watcher:
    """Wake up when the console log grows: inotify(7), or every few milliseconds where there is none left."""

    def __init__(self, folder: str) -> None:
        self.fd = -1
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            fd = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        except AttributeError:
            return
        if fd < 0:
            return
        # Not IN_DELETE_SELF: the folder stays as long as we have a file of it open.
        mask = _IN_MODIFY | _IN_CREATE | _IN_MOVED_TO | _IN_DELETE
        if libc.inotify_add_watch(fd, os.fsencode(folder), mask) < 0:
            os.close(fd)
            return
        self.fd = fd

    def clear(self) -> bool:
        """Take the notices; say whether a file was removed, as all are at the end. What else they say is looked up."""
        removed = False
        try:
            while True:
                data = os.read(self.fd, 1 << 16)
                at = 0
                while at < len(data):
                    _, mask, _, length = struct.unpack_from("iIII", data, at)
                    removed = removed or bool(mask & _IN_DELETE)
                    at += 16 + length
        except BlockingIOError:
            return removed


class _Hangup(Exception):
    """The terminal is gone, or we are asked to end."""


class Client:
    """One attached client."""

    def __init__(self, session: live.Session, keys: list[int], interactive: bool) -> None:
        self.session, self.folder = session, session.folder
        self.console_dir = os.path.join(session.folder, scratch.CONSOLE)
        self.tty_fd = 0 if os.isatty(0) else -1
        self.interactive = interactive and self.tty_fd >= 0
        self.on_terminal = os.isatty(1)
        self.keys = DetachKeys(keys)
        self.lock_fd = scratch.open_lock(session.folder)
        self.reader = console.Reader(self.console_dir, from_end=self.on_terminal)
        self.watcher = Watcher(self.console_dir)
        self.modes = console.Modes()
        self.input_fd = self.control_fd = -1
        self._pending = bytearray()
        self._size: tuple[int, int] | None = None
        self._quiet_until = 0.0
        self._resized = False

    def open_fifos(self) -> None:
        """Open the monitor's FIFOs; a reader is there as long as the monitor is."""
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        self.control_fd = os.open(os.path.join(self.folder, scratch.CONTROL), flags)
        if self.interactive:
            self.input_fd = os.open(os.path.join(self.folder, scratch.TERMINAL_INPUT), flags)

    # --- the terminal's side

    def enter(self) -> None:
        """Show what is on the screen: modes, the newest output without queries, then a repaint by the program itself."""
        self.modes, _ = console.read_modes(self.console_dir)
        self._out(self.modes.enter() + replay.presentable(self.reader.before(REPLAY_BYTES)))
        if self.interactive:
            self._quiet_until = clock.monotonic_s() + QUIET_S
            self._send_size()
            self._control("repaint")

    def leave(self) -> None:
        """Take the terminal back to what a fresh one is: exactly the modes that the program had switched."""
        if self.on_terminal:
            try:
                self._out(self.modes.leave() + (b"\x1b[0m\r\n" if self.interactive else b""))
            except OSError:
                pass
        self._control("leave")

    def _out(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(1, view) :]
            except BlockingIOError:
                select.select([], [1], [], 1)

    def _control(self, operation: str, **more: int) -> None:
        if self.control_fd < 0 or not self.interactive:
            return
        message = json.dumps({"op": operation, "pid": os.getpid(), **more}).encode() + b"\n"
        try:
            os.write(self.control_fd, message)  # below PIPE_BUF: whole or not at all
        except OSError:
            pass

    def _send_size(self) -> None:
        size = terminal.size_of(self.tty_fd)
        if size and size != self._size:
            self._size = size
            self._control("size", rows=size[0], columns=size[1])

    # --- the loop

    def run(self) -> str:
        """Relay until the detach sequence (`detached`), the end of the session (`ended`) or of the terminal (`hangup`)."""
        near_end_until = 0.0
        wake_read, wake_write = host.pipe()
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(wake_read, select.POLLIN)
        if self.watcher.fd >= 0:
            poller.register(self.watcher.fd, select.POLLIN)
        if self.interactive:
            poller.register(self.tty_fd, select.POLLIN)
        while True:
            if self.input_fd >= 0:
                if self._pending:
                    poller.register(self.input_fd, select.POLLOUT)
                else:
                    try:
                        poller.unregister(self.input_fd)
                    except KeyError:
                        pass
            noticing = self.watcher.fd >= 0 and clock.monotonic_s() >= near_end_until
            wait_ms = POLL_MS if noticing else POLL_WITHOUT_NOTICES_MS
            happened = dict(poller.poll(min(wait_ms, self.keys.held_for_ms() + 1)))
            if wake_read in happened:
                os.read(wake_read, 4096)
            if self._resized:
                self._resized = False
                self._send_size()
            if self.watcher.fd in happened:
                if self.watcher.clear():
                    near_end_until = clock.monotonic_s() + NEAR_END_S
            if self.interactive and self.tty_fd in happened:
                if self._typed():
                    self._write_the_rest()
                    return "detached"
            self._pending += self.keys.flush()
            self._write_input()
            # Ask for the lock before the last look: what was printed before the end is then in the log.
            ended = (not happened or self.watcher.fd in happened) and not self._monitored()
            self._show()
            if ended:
                self._show()
                return "ended"

    def _monitored(self) -> bool:
        """Say whether more may be printed: the monitor lives, and has not yet removed its log at the end."""
        return self.lock_fd is not None and scratch.lock_is_held(self.lock_fd) and os.path.isdir(self.console_dir)

    def _typed(self) -> bool:
        try:
            data = os.read(self.tty_fd, 4096)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            raise _Hangup
        # Each attached terminal answers what the program asks; one answer is enough.
        if b"\x1b" in data and (clock.monotonic_s() < self._quiet_until or self._somebody_else_types()):
            data = _ANSWER.sub(b"", data)
        data, detach = self.keys.feed(data)
        self._pending += data
        if data:
            self._claim_size()
        return detach

    def _somebody_else_types(self) -> bool:
        return console.read_writer(self.console_dir) not in (0, os.getpid())

    def _claim_size(self) -> None:
        """Whoever types is the one whose size counts."""
        if self._size:
            self._control("size", rows=self._size[0], columns=self._size[1])

    def _write_input(self) -> None:
        while self._pending:
            try:
                del self._pending[: os.write(self.input_fd, self._pending[:4096])]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._pending.clear()

    def _write_the_rest(self) -> None:
        """Write what was typed before the detach sequence, the keys among it that were held back; for a moment at most."""
        give_up_at = clock.monotonic_s() + LAST_INPUT_S
        while self._pending and clock.monotonic_s() < give_up_at:
            select.select([], [self.input_fd], [], LAST_INPUT_S)
            self._write_input()

    def _show(self) -> None:
        self.reader.notice()
        while True:
            data = self.reader.read()
            if not data:
                return
            if self.reader.skipped:
                self.reader.skipped = 0
                self._out(b"\r\n[workcell: output was skipped here]\r\n")
            self.modes.feed(data)
            self._out(data)

    def on_signal(self, signum: int, _frame: object) -> None:
        """Note a change of size; end on everything else."""
        if signum == signal.SIGWINCH:
            self._resized = True
        else:
            raise _Hangup


# Device attributes, cursor and status reports, mode reports, colours, version: what terminals answer, never what people type.
_ANSWER = re.compile(
    rb"\x1b\[[?>=]?[0-9;]*[cRn]|\x1b\[\?[0-9;]*(?:\$y|u)|\x1b\][0-9;]*;?[^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\"
)


def attach(session: live.Session, keys: list[int], interactive: bool) -> int:
    """Attach to a session and return the exit status of the command: 0 after a detach, else the agent's own."""
    if live.is_foreign(session):
        from workcell import foreign

        return foreign.attach(session, keys, interactive)
    live.require_live(session, "attach")
    mode = "interactive" if interactive else "disabled"
    pairs = [("source", "host-cli"), ("stdin_mode", mode), ("container_name", session.fields["container_name"])]
    session.append("attach-attempt", pairs)
    client = Client(session, keys, interactive)
    try:
        client.open_fifos()
    except OSError as error:
        raise WorkcellError(session.id, f"cannot attach: its monitor does not listen: {error.strerror}", "try again") from None
    for signum in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH):
        signal.signal(signum, client.on_signal)
    how = "hangup"
    try:
        if client.interactive:
            with terminal.Raw(client.tty_fd):
                how = _relay(client, pairs)
        else:
            how = _relay(client, pairs)
    except _Hangup:
        pass
    if how != "ended":
        return 0
    found = live.wait_until_written(session, 60.0, "host-attach")
    if found != "final" or not record.is_terminal(session.fields):
        raise WorkcellError(session.id, f"it ended, but its exit status is {found}", "see workcell-session-show")
    return live.exit_status(session.fields)


def _relay(client: Client, pairs: list[tuple[str, str]]) -> str:
    try:
        if client.on_terminal:
            client.enter()
        client.session.append("attach", pairs)
        return client.run()
    except _Hangup:
        return "hangup"
    finally:
        client.leave()
