"""Type a message into a session: straight into the adapter's FIFO, one sender at a time, never blocking for ever."""

import errno
import fcntl
import os
import re
import select
import stat
import time

from workcell import agents, cli, clock, console, live, liveness, record, replay, runtimes, scratch
from workcell.digests import sha256
from workcell.errors import BusyError, UnreadableError, WorkcellError
from workcell.signals import signal

LIMIT_BYTES = 64 << 20
PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"
ENTER = b"\r"
DEFAULT_PAUSE_MS = 300
# A busy agent takes a paste late and the Enter after it at once, and then for a part of the paste. So Enter waits until the
# paste is on the screen and nothing more was printed for as long as the pause. But not for ever: some never show it or rest.
DRAWN_WITHIN_S = 5.0
RESTS_WITHIN_S = 2.0
KEPT_BYTES = 16 << 10
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*m")
ATOMIC_BYTES = 4096  # PIPE_BUF
AUDITED_BYTES = 128 << 10  # quoted it may become four times as long, and a line holds 1 MiB


def read_message(path: str) -> bytes:
    """Return the message in a file, or on standard input for `-`; raise WorkcellError when it is empty or too large."""
    if path == "-":
        with open(0, "rb", closefd=False) as stream:
            data = stream.read(LIMIT_BYTES + 1)
    else:
        with open(path, "rb") as stream:
            data = stream.read(LIMIT_BYTES + 1)
    if not data or len(data) > LIMIT_BYTES:
        raise WorkcellError(path, "is empty" if not data else f"has more than {LIMIT_BYTES} bytes", "send something else")
    return data


def send(session: live.Session, message: bytes, enter: bool, raw: bool, secret: bool, timeout_s: float) -> tuple[int, str]:
    """Deliver a message, audit it and touch the record; return (bytes taken, live status).

    The count is that of the message and of its Enter, not of paste marks. Raises WorkcellError with the number of bytes taken
    when the session cannot be written to in time.
    """
    if live.is_foreign(session):
        from workcell import foreign

        foreign.send(session, message + b"\n" * enter, timeout_s)
        return _note(session, message, enter, secret)
    live.require_live(session, "send")
    deadline = clock.monotonic_s() + timeout_s
    runtime = runtimes.by_provider(session.fields["target_provider"])
    carrier = 0
    if runtimes.is_engine(runtime) and not runtime.shared:
        fd, carrier = runtime.open_input(session.folder)
    else:
        fd = _open_input(session)
    try:
        guard = os.open(os.path.join(session.folder, scratch.LAUNCH_SPEC), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _take_turn(guard, deadline, session.id)
            _deliver(session, fd, message, enter, raw, deadline)
            os.close(fd)
            fd = -1
            if carrier:
                pid, carrier = carrier, 0
                _await_carrier(session.id, pid, deadline)
        finally:
            os.close(guard)
    except FileNotFoundError:
        raise WorkcellError(session.id, "cannot send: it has just ended", "see workcell-session-show") from None
    finally:
        if fd >= 0:
            os.close(fd)
        if carrier:  # what it still holds is not to arrive any more
            os.kill(carrier, signal.SIGKILL)
            os.waitpid(carrier, 0)
    return _note(session, message, enter, secret)


def _note(session: live.Session, message: bytes, enter: bool, secret: bool) -> tuple[int, str]:
    """Audit what was delivered and touch the record; return (bytes taken, live status)."""
    pairs = [("source", "host-cli"), ("command", "session-send"), ("argv", _shown(message, secret))]
    if secret:
        pairs.append(("status", f"{len(message)} bytes"))
    try:
        session.append("command", pairs)
        session.fields = record.update(session.path, {"observed_at": clock.utc_now()}, unless_final=True)
    except (WorkcellError, OSError) as error:
        # It was delivered: an exit status of 1 would make the caller send it again.
        cli.complain(f"{session.id}: delivered, but not recorded: {error}")
    return len(message) + enter, liveness.look(session.fields, session.path)[1]


def _await_carrier(session_id: str, pid: int, deadline: float) -> None:
    """Wait for the engine's client that carries a message; raise WorkcellError where it does not say that all was written."""
    from workcell.monitor import wait_for_end

    expired = not wait_for_end(pid, max(0.05, deadline - clock.monotonic_s()))
    if expired:
        os.kill(pid, signal.SIGKILL)
    _, wait_status = os.waitpid(pid, 0)
    if expired or wait_status != 0:
        why = "the agent did not read in time" if expired else "its input is not there any more"
        raise WorkcellError(session_id, f"not all of the message was taken: {why}", "see workcell-session-list")


def _shown(message: bytes, secret: bool) -> str:
    """Return what the audit log keeps of a message: the text, or for what no line could hold its size and digest."""
    if secret:
        return "[secret]"
    if len(message) > AUDITED_BYTES:
        return f"[{len(message)} bytes, sha256 {sha256(message).hexdigest()}]"
    return message.decode("utf-8", "surrogateescape")


def _open_input(session: live.Session) -> int:
    """Open the adapter's FIFO for writing: a FIFO by type, of the session's user, followed through no link, with a reader."""
    path = os.path.join(session.folder, scratch.AGENT_INPUT)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = {
            errno.ENXIO: "no reader: its adapter is gone or not ready yet",
            errno.ELOOP: "its input is a link, not a FIFO",
            errno.ENOENT: "its input is gone",
        }.get(error.errno or 0, error.strerror or str(error))
        raise WorkcellError(session.id, f"cannot send: {why}", "see workcell-session-list") from None
    found = os.fstat(fd)
    if not stat.S_ISFIFO(found.st_mode) or found.st_uid != scratch.read_spec(session.folder)["uid"]:
        os.close(fd)
        raise UnreadableError(path, "is no FIFO of this session's user", "nothing was written")
    return fd


def _take_turn(guard: int, deadline: float, session_id: str) -> None:
    while True:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if clock.monotonic_s() >= deadline:
                raise BusyError(session_id, "another sender is busy; nothing was sent", "try again") from None
            time.sleep(0.01)


def _deliver(session: live.Session, fd: int, message: bytes, enter: bool, raw: bool, deadline: float) -> None:
    if raw:
        _write(session, fd, message, deadline, 0, len(message))
        return
    modes, _ = console.read_modes(os.path.join(session.folder, scratch.CONSOLE))
    pause_ms = _pause_ms(str(session.fields["agent"]))
    text = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    total = len(message) + enter
    if modes.bracketed_paste():
        # A paste that ends itself could press keys: the marks are ours alone.
        while PASTE_END in text or PASTE_START in text:
            text = text.replace(PASTE_END, b"").replace(PASTE_START, b"")
        output = console.Reader(os.path.join(session.folder, scratch.CONSOLE), from_end=True)
        try:
            _write(session, fd, PASTE_START + text + PASTE_END, deadline, len(PASTE_START), total)
            if enter and pause_ms:
                _wait_until_drawn(output, text, pause_ms / 1000, deadline)
        finally:
            output.close()
        pause_ms = 0 if pause_ms else 20
    else:
        text = text.replace(b"\n", ENTER)
        if enter and not pause_ms:
            _write(session, fd, text + ENTER, deadline, 0, total)
            return
        _write(session, fd, text, deadline, 0, total)
    if enter:
        time.sleep(pause_ms / 1000)
        _write(session, fd, ENTER, deadline, -len(message), total)


def _wait_until_drawn(output: console.Reader, text: bytes, pause_s: float, deadline: float) -> None:
    """Wait until a pasted text is on the screen and then nothing is printed for pause_s, as long as the limits above allow."""
    give_up_at = min(clock.monotonic_s() + max(DRAWN_WITHIN_S, pause_s), deadline)
    seen, rests_at, drawn, marks = b"", give_up_at, False, _marks(text)
    while clock.monotonic_s() < min(rests_at, give_up_at):
        time.sleep(0.005)
        data = output.read()
        if not data:
            continue
        seen = (seen + data)[-KEPT_BYTES:]
        if not drawn and _shows(seen, marks):
            drawn, give_up_at = True, min(give_up_at, clock.monotonic_s() + max(RESTS_WITHIN_S, pause_s))
        if drawn:
            rests_at = clock.monotonic_s() + pause_s


def _marks(text: bytes) -> list[bytes]:
    """Return what shows that a text is on the screen: its beginning, its end, or what agents show instead of a long one."""
    words = [*text[:200].split()[:1], *text[-200:].split()[-1:]]
    return [b"[pasted", *(word for whole in words for word in (whole.lower()[:8], whole.lower()[-8:]))]


def _shows(output: bytes, marks: list[bytes]) -> bool:
    shown = _COLOURS.sub(b"", replay.presentable(output)).lower()
    return any(mark in shown for mark in marks)


def _pause_ms(agent: str) -> int:
    try:
        return agents.find(agent).pause_ms
    except WorkcellError:
        return DEFAULT_PAUSE_MS


def _write(session: live.Session, fd: int, data: bytes, deadline: float, extra: int, total: int) -> None:
    """Write all of data; on failure say how many bytes of the message were taken (extra: how many of data are not of it)."""
    done = 0
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    while done < len(data):
        left_s = deadline - clock.monotonic_s()
        happened = poller.poll(max(0.0, left_s) * 1000)
        taken = min(max(0, done - extra), total)
        if not happened:
            raise WorkcellError(
                session.id, f"the agent did not read in time: {taken} of {total} bytes were taken", "try again later"
            )
        try:
            done += os.write(fd, data[done : done + ATOMIC_BYTES])
        except BlockingIOError:
            time.sleep(0.002)  # room for some, but not for a whole atomic piece
        except BrokenPipeError:
            raise WorkcellError(
                session.id, f"the session ended: {taken} of {total} bytes were taken", "see workcell-session-show"
            ) from None
