"""The retained files of one session: what a record names is only opened where it is the session's own to show."""

import codecs
import json
import os
import time
from collections import deque

from workcell import audit, cli, layout, quoting, record, safe_open
from workcell.errors import NotFoundError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

KINDS = {
    "audit": "audit_log_path",
    "debug": "debug_log_path",
    "file-trace": "file_trace_log_path",
    "transcript": "transcript_log_path",
}
BLOCK_BYTES = 1 << 16
POLL_S = 0.2


def open_kind(fields: "dict[str, Any]", path: str, kind: str) -> int:
    """Return a checked descriptor of a session's log; raise NotFoundError where there is none, UnreadableError where it is blocked.

    path: the record's file. The audit log is opened where it belongs, never where a record says.
    """
    session_id, named = fields["session_id"], fields[KINDS[kind]]
    missing = NotFoundError(session_id, f"no {kind} log recorded", "see workcell-session-show for the paths that are")
    if not named:
        raise missing
    try:
        if kind == "audit":
            return audit.open_log(audit.canonical_log(path, fields))
        _check_place(named, path, session_id)
        dir_fd = safe_open.open_dir(os.path.dirname(named))
        try:
            return safe_open.open_file(dir_fd, os.path.basename(named), named)
        finally:
            os.close(dir_fd)
    except FileNotFoundError:
        raise missing from None


def _check_place(named: str, path: str, session_id: str) -> None:
    """Refuse a path that is not clean, goes through a link, or leads to state that is not this session's log."""
    blocked = f"{session_id}: blocked"
    if safe_open.check_output(named) != named:
        raise UnreadableError(blocked, f"{named!r} is no absolute path in its clean form")
    profile = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if is_own_place(named, path, session_id):
        return
    for folder in (profile, layout.state_root(), layout.legacy_root()):
        if named.startswith((folder + "/", safe_open.anchored(folder) + "/")):
            raise UnreadableError(blocked, f"{named} is no log of this session")


def is_own_place(named: str, path: str, session_id: str) -> bool:
    """Say whether a path lies where the logs of a session lie in the folder of its profile, and is no state of other kinds."""
    profile = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    for folder in {profile, safe_open.anchored(profile)}:
        below = named.removeprefix(folder + "/")
        if below == named:
            continue
        plain = "/" not in below and not below.startswith((".", "workcell.", "session-audit."))
        if plain or below.startswith("logs/") or named == layout.transcript_path(folder, session_id):
            return True
    return False


def read(
    fields: "dict[str, Any]", path: str, kind: str, tail: int | None, follow: bool, whole_log: bool, as_text: bool
) -> "Iterator[bytes]":
    """Yield the content of a session's log in pieces; tail: only so many last lines; follow: until the session is over.

    whole_log: of the audit log, the lines of other sessions too. as_text: of a transcript, readable text.
    """
    if kind == "transcript":
        yield from _transcript(fields, path, tail, follow, as_text)
        return
    fd = open_kind(fields, path, kind)
    try:
        chosen = fields if kind == "audit" and not whole_log else None
        start = 0
        if tail is not None and chosen is None:
            start, tail = _tail_offset(fd, tail), None
        while True:
            # Asked before the reading: what was written before the end is then in the file.
            over = not follow or _is_over(path)
            size = os.fstat(fd).st_size
            if size < start:
                cli.complain(f"{fields['session_id']}: the {kind} log became shorter; going on from its start")
                start = 0
            start = yield from _piece(fd, path, start, size, chosen, tail)
            tail = None
            if over:
                return
            time.sleep(POLL_S)
    finally:
        os.close(fd)


def _piece(
    fd: int, path: str, start: int, size: int, chosen: "dict[str, Any] | None", tail: int | None
) -> "Generator[bytes, None, int]":
    """Yield bytes start to size, or of those the lines of one session; return where the next piece begins."""
    if chosen is None:
        while start < size:
            data = os.pread(fd, min(BLOCK_BYTES, size - start), start)
            if not data:
                break
            start += len(data)
            yield data
        return start
    tokenize = quoting.tokenizer(chosen["target_provider"])
    last: deque[bytes] | None = None if tail is None else deque(maxlen=tail)
    for offset, line, whole in audit.lines(fd, size, layout.audit_log_path(path), start):
        start = offset + len(line) + whole
        if audit.claims(line, chosen["session_id"], tokenize):
            if last is None:
                yield line + b"\n"
            else:
                last.append(line + b"\n")
    yield from last or ()
    return start


def _transcript(
    fields: "dict[str, Any]", path: str, tail: int | None, follow: bool, as_text: bool
) -> "Iterator[bytes]":
    """Yield a recording: the kept one of a session that is over, else what the console log has so far."""
    if follow and not _is_over(path):
        yield from _live_output(fields, path, as_text)
        return
    if record.is_terminal(fields):
        fd = open_kind(fields, path, "transcript")
        with open(fd, "rb") as stream:
            lines = stream.read().splitlines(keepends=True)
    else:
        from workcell import console

        lines = [line.encode() for line in console.asciicast(_console_of(fields), _started(fields))]
    if as_text:
        from workcell import replay

        events = [json.loads(line) for line in lines[1:]]
        text = replay.plain("".join(event[2] for event in events if event[1] == "o").encode())
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        if lines and not lines[-1].endswith(b"\n"):
            lines[-1] += b"\n"
    yield from lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]


def _live_output(fields: "dict[str, Any]", path: str, as_text: bool) -> "Iterator[bytes]":
    """Yield what a running session prints, as it comes, until it is over: text, or the bytes themselves as asciicast events."""
    from workcell import console, replay

    reader = console.Reader(_console_of(fields))
    started = time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = b""
    if not as_text:
        _, size = console.read_modes(_console_of(fields))
        yield console.header(size, _started(fields)).encode()
    try:
        while True:
            over = _is_over(path)
            reader.notice()
            while data := reader.read():
                if as_text:
                    *whole, rest = (rest + data).split(b"\n")
                    for line in whole:
                        yield replay.plain(line).encode() + b"\n"
                else:
                    event = [round(time.monotonic() - started, 3), "o", decoder.decode(data)]
                    yield json.dumps(event, ensure_ascii=False).encode() + b"\n"
            if over:
                break
            time.sleep(POLL_S)
        if rest:
            yield replay.plain(rest).encode() + b"\n"
    finally:
        reader.close()


def _console_of(fields: "dict[str, Any]") -> str:
    from workcell import scratch

    folder = fields["session_audit_dir"]
    if not folder or not scratch.is_ours(folder):
        raise NotFoundError(fields["session_id"], "no transcript log recorded", "its console log is gone")
    return os.path.join(folder, scratch.CONSOLE)


def _started(fields: "dict[str, Any]") -> int:
    import calendar

    try:
        return calendar.timegm(time.strptime(fields["started_at"], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0


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


def _is_over(path: str) -> bool:
    """Say whether the end of a session is written down, as far as its record can be read."""
    try:
        return record.is_terminal(record.read(path))
    except (NotFoundError, UnreadableError):
        return True
