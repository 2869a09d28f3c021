"""The retained files of one session: what a record names is only opened where it is the session's own to show."""

import os
import time

from workcell import audit, cli, layout, record, safe_open
from workcell.errors import NotFoundError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

KINDS = {
    "audit": "audit_log_path",
    "debug": "debug_log_path",
    "file-trace": "file_trace_log_path",
    "transcript": "transcript_log_path",
}
BLOCK_BYTES = 1 << 16
POLL_S = 0.2


# --- which file


def open_kind(fields: "dict[str, Any]", path: str, kind: str) -> int:
    """Return a checked descriptor of a session's log.

    path: the record's file. The audit log is opened where it belongs, never where a record says. Raises NotFoundError where
    there is none, UnreadableError where it is blocked.
    """
    named = fields[KINDS[kind]]
    try:
        if not named:
            raise FileNotFoundError
        if kind == "audit":
            return audit.open_log(audit.canonical_log(path, fields))
        real = _checked_place(fields, path, named)
        dir_fd = safe_open.open_dir(os.path.dirname(real))
        try:
            return safe_open.open_file(dir_fd, os.path.basename(real), real)
        finally:
            os.close(dir_fd)
    except FileNotFoundError:
        raise _missing(fields, kind) from None


def _missing(fields: "dict[str, Any]", kind: str) -> NotFoundError:
    return NotFoundError(fields["session_id"], f"no {kind} log recorded", "see workcell-session-show for the paths that are")


def _checked_place(fields: "dict[str, Any]", path: str, named: str) -> str:
    """Return where a recorded path leads, links on the way to the state root resolved.

    Raises UnreadableError where it is not clean, goes through another link, or leads to state that is no log of this
    session. What lies outside of all state is for the checks of the file itself.
    """
    blocked = f"{fields['session_id']}: blocked"
    if any(character in named for character in "\0\r\n") or os.path.normpath(named) != named or named[:1] != "/":
        raise UnreadableError(blocked, f"{named!r} is no absolute path in its clean form")
    real = safe_open.anchored(named)
    if safe_open.check_output(real) != real:
        raise UnreadableError(blocked, f"{named!r} is no absolute path in its clean form")
    roots = [safe_open.resolve_own_links(root) for root in (layout.state_root(), layout.legacy_root())]
    if any(_is_below(real, folder) for folder in (_profile_of(path), *roots)) and not is_own_place(
        named, path, fields["session_id"], fields["session_audit_dir"]
    ):
        raise UnreadableError(blocked, f"{named} is no log of this session")
    return real


def _profile_of(path: str) -> str:
    return safe_open.anchored(os.path.dirname(os.path.dirname(os.path.abspath(path))))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def is_own_place(named: str, path: str, session_id: str, scratch_dir: str = "") -> bool:
    """Say whether a path lies in the folder of a session's profile, and is no state of another kind or session.

    path: the record's file; scratch_dir: the session's scratch folder, whose files then count as its own.
    """
    profile, real = _profile_of(path), safe_open.anchored(named)
    if not _is_below(real, profile):
        return False
    first, _, rest = real[len(profile) + 1 :].partition("/")
    if first == "transcripts":
        return real == layout.transcript_path(profile, session_id)
    if first.startswith("session-audit."):
        return bool(rest and scratch_dir) and f"{profile}/{first}" == safe_open.anchored(scratch_dir)
    # Records and seals; keys and more, should the state root be taken for a profile; homes, which agents write to; the audit
    # log, its torn lines and pointers, which are of several sessions.
    return first not in ("sessions", "signing", "locks", "targets", "home") and not first.startswith((".", "workcell."))


# --- what is in it


def read(
    fields: "dict[str, Any]", path: str, kind: str, tail: int | None, follow: bool, whole_log: bool, as_text: bool
) -> "Iterator[bytes]":
    """Yield the content of a session's log in pieces.

    path: the record's file; tail: only so many last lines; follow: go on until the session is over; whole_log: of the audit
    log, the lines of other sessions too; as_text: of a transcript, readable text.
    """
    if kind == "transcript":
        return _last(_transcript(fields, path, follow, as_text, None if as_text else tail), tail)
    if kind == "audit" and not whole_log:
        open_log(fields, path)
        return _last((line and line + b"\n" for line in audit_lines(fields, path, follow)), tail)
    return _only(_copied(Source(fields, path, kind), path, follow, tail))


def open_log(fields: "dict[str, Any]", path: str) -> None:
    """Raise what open_kind raises where the audit log cannot be opened."""
    os.close(open_kind(fields, path, "audit"))


def _only(pieces: "Iterable[bytes | None]") -> "Iterator[bytes]":
    return (piece for piece in pieces if piece is not None)


def _last(lines: "Iterator[bytes | None]", count: int | None) -> "Iterator[bytes]":
    """Yield lines, of those before the first None only so many last ones."""
    if count is not None:
        from collections import deque

        kept: deque[bytes] = deque(maxlen=count)
        for line in lines:
            if line is None:
                break
            kept.append(line)
        yield from kept
    yield from _only(lines)


def is_over(path: str) -> bool:
    """Say whether nothing more will come of a session: its end is written down, or it is proven gone without one."""
    try:
        fields = record.read(path)
    except (NotFoundError, UnreadableError):
        return True
    if record.is_terminal(fields):
        return True
    from workcell import liveness

    if liveness.presence(fields) != liveness.LOST:
        return False
    try:  # it may have ended while we looked
        fields = record.read(path)
    except (NotFoundError, UnreadableError):
        return True
    if not record.is_terminal(fields):
        cli.complain(f"{fields['session_id']}: lost, nothing more will come of it")
    return True


class Source:
    """A log that others write: `fd`, and `start`, up to which it has been read. It may be cut short or replaced meanwhile."""

    def __init__(self, fields: "dict[str, Any]", path: str, kind: str) -> None:
        self._fields, self._path, self._kind = fields, path, kind
        self._place = layout.audit_log_path(path) if kind == "audit" else safe_open.anchored(fields[KINDS[kind]])
        self.fd = open_kind(fields, path, kind)
        self.start = 0
        self.after_a_cut = False

    def look(self) -> int:
        """Return up to where the log can be read now; where it was cut short or replaced that is said, and it begins anew."""
        size = os.fstat(self.fd).st_size
        if size < self.start:
            self._begin_anew("became shorter")
        elif size == self.start and self._is_replaced():
            try:
                new = open_kind(self._fields, self._path, self._kind)
            except NotFoundError:
                return size
            os.close(self.fd)
            self.fd = new
            self._begin_anew("was replaced")
            size = os.fstat(new).st_size
        return size

    def _is_replaced(self) -> bool:
        try:
            there, ours = os.lstat(self._place), os.fstat(self.fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _begin_anew(self, what: str) -> None:
        cli.complain(f"{self._fields['session_id']}: the {self._kind} log {what}; going on from its start")
        self.start, self.after_a_cut = 0, True

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)


def _copied(source: Source, path: str, follow: bool, tail: int | None) -> "Iterator[bytes | None]":
    """Yield the bytes of a log, None each time that all of it was read."""
    try:
        if tail is not None:
            source.start = _tail_offset(source.fd, tail)
        while True:
            # Asked before the reading: what was written before the end is then in the file.
            last = not follow or is_over(path)
            size = source.look()
            while source.start < size:
                if source.after_a_cut:
                    source.start = min(size, _data_offset(source.fd, source.start))
                data = os.pread(source.fd, min(BLOCK_BYTES, size - source.start), source.start)
                if not data:
                    break
                source.start += len(data)
                if source.after_a_cut:
                    # A writer that did not notice the cut leaves a hole before what it writes next.
                    data = data.lstrip(b"\0")
                    source.after_a_cut = not data
                if data:
                    yield data
            if last:
                return
            yield None
            time.sleep(POLL_S)
    finally:
        source.close()


def _data_offset(fd: int, start: int) -> int:
    """Return where the next bytes are that are no hole (lseek(2), SEEK_DATA)."""
    try:
        return os.lseek(fd, start, os.SEEK_DATA)
    except OSError:
        return start


def audit_lines(fields: "dict[str, Any]", path: str, follow: bool) -> "Iterator[bytes | None]":
    """Yield the lines of a session's audit log, without their LF, None each time that all were read.

    A log that is not there has none; it is waited for where there is more to come.
    """
    log_path = audit.canonical_log(path, fields)
    there = {**fields, "audit_log_path": log_path}
    source: Source | None = None
    try:
        while True:
            last = not follow or is_over(path)
            try:
                source = source or Source(there, path, "audit")
            except NotFoundError:
                if last:
                    return
            if source is not None:
                size = source.look() if follow else audit.snapshot_size(source.fd)
                end = size if last else audit.whole_end(source.fd, size)  # a line that is being written is no line yet
                try:
                    for offset, line, whole in audit.select(
                        source.fd, end, log_path, fields["session_id"], fields["target_provider"], source.start
                    ):
                        yield line
                        source.start = offset + len(line) + whole
                    source.start = max(source.start, end)
                except audit.ShrankError:
                    if last:
                        raise
            if last:
                return
            yield None
            time.sleep(POLL_S)
    finally:
        if source is not None:
            source.close()


def _tail_offset(fd: int, count: int) -> int:
    """Return the offset at which the last `count` lines of a file begin."""
    at = end = os.fstat(fd).st_size
    if count == 0:
        return end
    if at and os.pread(fd, 1, at - 1) == b"\n":
        at -= 1  # the newline at the end ends the last line, it begins none
    found = 0
    while at > 0:
        start = max(0, at - BLOCK_BYTES)
        block = os.pread(fd, at - start, start)
        cut = len(block)
        while (cut := block.rfind(b"\n", 0, cut)) >= 0:
            found += 1
            if found == count:
                return start + cut + 1
        at = start
    return 0


# --- transcripts


def _transcript(fields: "dict[str, Any]", path: str, follow: bool, as_text: bool, tail: int | None) -> "Iterator[bytes | None]":
    """Yield a recording: of a session that runs, what its console log has; else the kept one."""
    console_dir = "" if record.is_terminal(fields) else _console_of(fields)
    lines: Iterator[bytes | None]
    if console_dir:
        lines = _live(fields, path, console_dir, follow)
    elif follow and not record.is_terminal(fields) and not fields["transcript_log_path"]:
        raise _missing(fields, "transcript")
    else:
        source = Source(fields, path, "transcript")
        if not as_text:
            return _copied(source, path, follow, tail)
        lines = _lines_of(_copied(source, path, follow, None))
    return _as_text(lines) if as_text else lines


def _console_of(fields: "dict[str, Any]") -> str:
    """Return the folder of a session's console log, "" where there is none of ours."""
    from workcell import scratch

    folder = fields["session_audit_dir"]
    console_dir = os.path.join(folder, scratch.CONSOLE)
    return console_dir if folder and scratch.is_ours(folder) and os.path.isdir(console_dir) else ""


def _live(fields: "dict[str, Any]", path: str, console_dir: str, follow: bool) -> "Iterator[bytes | None]":
    """Yield the lines of the recording of a session that runs, until it is over where followed.

    What its last moments printed may be gone with its scratch folder before it was seen; the kept recording has it.
    """
    from workcell import console

    over: Callable[[], bool] | None = (lambda: is_over(path)) if follow else None
    count, last = 0, b""
    for text in console.live_asciicast(console_dir, _started(fields), over):
        if text is None:
            yield None
            continue
        count, last = count + 1, text.encode()
        yield last
    if not follow:
        return
    try:
        fd = open_kind(record.read(path), path, "transcript")
    except (NotFoundError, UnreadableError):
        return  # nothing is recorded, and what there was has been printed
    with open(fd, "rb") as kept:
        lines = kept.readlines()
    if lines[count - 1 : count] != [last]:  # older output was dropped meanwhile: look for the place
        places = [number for number, line in enumerate(lines, 1) if line == last]
        count = places[-1] if places else len(lines)
    yield from lines[count:]


def _lines_of(pieces: "Iterator[bytes | None]") -> "Iterator[bytes | None]":
    """Yield whole lines, their LF included, and what is left at the end; None as it comes."""
    rest: list[bytes] = []
    for piece in pieces:
        if piece is None:
            yield None
            continue
        first, newline, more = piece.partition(b"\n")
        rest.append(first + newline)
        if newline:
            yield b"".join(rest)
            *whole, last = more.split(b"\n")
            for line in whole:
                yield line + b"\n"
            rest = [last]
    if any(rest):
        yield b"".join(rest)


def _as_text(lines: "Iterator[bytes | None]") -> "Iterator[bytes | None]":
    """Yield the lines of readable text that a recording shows.

    What is no asciicast, as other programs record, is taken as the output itself.
    """
    import re

    from workcell import replay

    unclosed = re.compile(rb"\x1b[PX^_\]][^\x1b\x07]*\Z")
    is_cast: bool | None = None
    rest = b""
    for line in lines:
        if line is None:
            yield None
            continue
        if is_cast is None:
            is_cast = _is_header(line)
            if is_cast:
                continue
        rest += _output_in(line) if is_cast else line
        end = rest.rfind(b"\n") + 1
        string = unclosed.search(rest, max(0, end - BLOCK_BYTES), end)
        if string:  # a control string may go on in the next line, and none of it is text
            end = rest.rfind(b"\n", 0, string.start()) + 1
        if end:
            for text in replay.plain(rest[: end - 1]).split("\n"):
                yield text.encode() + b"\n"
            rest = rest[end:]
    if rest:
        yield replay.plain(rest).encode() + b"\n"


def recorded_tail(fields: "dict[str, Any]", path: str, limit_bytes: int) -> "tuple[bytes, tuple[int, int]]":
    """Return (the newest output in the kept recording of a session, size of its terminal as (rows, columns) at the end)."""
    import json

    from workcell import console

    data, rows, columns = b"", *console.DEFAULT_SIZE
    is_cast = False
    for line in _lines_of(_copied(Source(fields, path, "transcript"), path, False, None)):
        if line is None:
            continue
        if is_cast:
            data += _output_in(line)
        elif not data and _is_header(line):
            is_cast = True
        else:
            data += line
        if len(data) > 4 * limit_bytes:
            data = data[-limit_bytes:]
        if is_cast and b'"r"' in line or b'"width"' in line:
            try:
                event = json.loads(line)
                width, height = event[2].split("x") if isinstance(event, list) else (event["width"], event["height"])
                rows, columns = max(1, int(height)), max(1, int(width))
            except (ValueError, KeyError, IndexError, TypeError, AttributeError):
                continue
    return data[-limit_bytes:], (rows, columns)


def _is_header(line: bytes) -> bool:
    import json

    try:
        header = json.loads(line)
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("version") == 2


def _output_in(line: bytes) -> bytes:
    import json

    try:
        event = json.loads(line)
    except ValueError:
        return b""
    is_output = isinstance(event, list) and len(event) == 3 and event[1] == "o" and isinstance(event[2], str)
    return event[2].encode("utf-8", "surrogatepass") if is_output else b""


def _started(fields: "dict[str, Any]") -> int:
    import calendar

    try:
        return calendar.timegm(time.strptime(fields["started_at"], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0
