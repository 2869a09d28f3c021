"""The audit log of a profile: append events, go through them, check their chain.

One event is one line, and each line has the digest of the one before: workcell-audit-log(5). Several sessions, and
other writers, share a log, so every append is one write(2) under the lock of lock.audit_log. Readers never lock.
"""

import os
import stat

from workcell import canonical, clock, layout, quoting, record, safe_open
from workcell.errors import NotFoundError, UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LINE_LIMIT_BYTES = 1 << 20
# Other readers refuse a log above 64 MiB; a session of ours that ends up in a longer one still verifies here.
LARGE_LOG_BYTES = 56 << 20

_BLOCK_BYTES = 1 << 16  # the allocator keeps pieces of this size, larger ones cost a page fault for each page
_DIGITS = frozenset(b"0123456789abcdef")


# --- lines


def canonical_log(record_path: str, fields: "dict[str, Any]") -> str:
    """Return the log that belongs to a record; raise UnreadableError where the record names another one."""
    log_path = layout.audit_log_path(record_path)
    named = fields["audit_log_path"]
    if named.strip(canonical.BLANKS) and not is_canonical(named, log_path):
        raise UnreadableError(
            fields["session_id"],
            "audit log path in its record does not match its canonical location",
            f"it should be {log_path}",
        )
    return log_path


def is_canonical(named: str, log_path: str) -> bool:
    """Say whether the path in a record is that of the log that belongs to it, however it is spelt."""
    clean = os.path.normpath(named)
    if clean.startswith("//"):
        clean = clean[1:]
    return clean == log_path or safe_open.anchored(clean) == log_path


def open_log(log_path: str) -> int:
    """Return a checked descriptor of a log for reading; raise FileNotFoundError or UnreadableError."""
    dir_fd = safe_open.open_dir(os.path.dirname(log_path))
    try:
        return safe_open.open_file(dir_fd, os.path.basename(log_path), log_path)
    finally:
        os.close(dir_fd)


def snapshot_size(fd: int, patience_s: float = 0.25) -> int:
    """Return how many bytes of a log to read, so that a line that is just being written is seen whole or not at all.

    A last line without its LF may be such a line: it gets a moment to become whole.
    """
    deadline = clock.monotonic_s() + patience_s
    while True:
        size = os.fstat(fd).st_size
        if not size or os.pread(fd, 1, size - 1) in (b"\n", b"") or clock.monotonic_s() >= deadline:
            return size
        import time

        time.sleep(0.005)


def lines(fd: int, size: int, path: str, start: int = 0) -> "Iterator[tuple[int, bytes, bool]]":
    """Yield (offset, line without its LF, whether it had one) of the bytes of a log from `start` to `size`.

    Raises UnreadableError for a line above 1 MiB, its LF counted, and where the log is shorter now.
    """
    offset, number, at, rest = start, 0, start, b""
    while at < size:
        block = os.pread(fd, min(_BLOCK_BYTES, size - at), at)
        if not block:
            raise ShrankError(path, "became shorter while it was read", "try again")
        at += len(block)
        whole = (rest + block).split(b"\n")
        rest = whole.pop()
        for line in whole:
            number += 1
            if len(line) >= LINE_LIMIT_BYTES:
                raise _too_long(path, number)
            yield offset, line, True
            offset += len(line) + 1
        if len(rest) > LINE_LIMIT_BYTES:
            raise _too_long(path, number + 1)
    if rest:
        yield offset, rest, False


def _too_long(path: str, number: int) -> UnreadableError:
    return UnreadableError(path, f"line {number} has more than {LINE_LIMIT_BYTES} bytes")


def select(
    fd: int, size: int, path: str, session_id: str, provider: str, start: int = 0
) -> "Iterator[tuple[int, bytes, bool]]":
    """Yield (offset, line without its LF, whether it had one) of the lines that claims says are a session's.

    A log has many sessions, so the id is looked for in the raw bytes first and only lines that could be it are taken apart.
    Raises UnreadableError as lines does.
    """
    wanted = _bytes(session_id)
    tokenize = quoting.tokenizer(provider)
    if tokenize is quoting.tokenize and wanted.translate(None, _WRITTEN_AS_IT_IS):
        found = lines(fd, size, path, start)
    else:
        found = _lines_with(fd, size, path, wanted, tokenize is quoting.tokenize, start)
    for offset, line, whole in found:
        if claims(line, session_id, tokenize):
            yield offset, line, whole


_WRITTEN_AS_IT_IS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ID_CHARACTERS = _WRITTEN_AS_IT_IS + b"="


def _lines_with(fd: int, size: int, path: str, wanted: bytes, quoted: bool, start: int) -> "Iterator[tuple[int, bytes, bool]]":
    """Yield what lines does, but only lines that have the wanted bytes, as they are or, where quoted, perhaps in quotes.

    In quotes means that there is `$'`, `''` or a backslash before a character of the kind that ids are made of.
    """
    at, rest = start, b""
    while at < size:
        block = os.pread(fd, min(_BLOCK_BYTES, size - at), at)
        if not block:
            raise ShrankError(path, "became shorter while it was read", "try again")
        data = rest + block if rest else block
        offset = at - len(rest)
        at += len(block)
        end = data.rfind(b"\n") + 1
        if len(data) > LINE_LIMIT_BYTES and max(map(len, data.split(b"\n"))) >= LINE_LIMIT_BYTES:
            for _ in lines(fd, at, path, start):  # it knows the number of a line that is too long
                pass
        for first, last in _places(data, end, wanted, quoted):
            yield offset + first, data[first:last], True
        rest = data[end:]
    if rest and any(True for _ in _places(rest + b"\n", len(rest) + 1, wanted, quoted)):
        yield at - len(rest), rest, False


def _places(data: bytes, end: int, wanted: bytes, quoted: bool) -> "Iterator[tuple[int, int]]":
    """Yield (start, end) of the lines before `end` that _lines_with is about."""

    def quote(start: int) -> int:
        at = data.find(b"'", start, end)
        while at > 0 and data[at - 1] not in b"$'":
            at = data.find(b"'", at + 1, end)
        return at

    finders: list[Callable[[int], int]] = [lambda start: data.find(wanted, start, end)]
    if quoted:
        finders += [quote, _escape_finder(data, end)]
    nearest = [(find(0), find) for find in finders]
    while True:
        nearest = [(found, find) for found, find in nearest if found >= 0]
        if not nearest:
            return
        hit = min(found for found, _ in nearest)
        first = data.rfind(b"\n", 0, hit) + 1
        last = data.find(b"\n", hit)
        yield first, last
        nearest = [(found if found > last else find(last + 1), find) for found, find in nearest]


def _escape_finder(data: bytes, end: int) -> "Callable[[int], int]":
    """Return what finds the next backslash before a character of ids, -1 where there is none."""
    if len(data) > _WORTH_A_PATTERN_BYTES:
        import re

        pattern = re.compile(rb"\\[0-9A-Za-z_=-]")

        def search(start: int) -> int:
            found = pattern.search(data, start, end)
            return found.start() if found else -1

        return search

    def step(start: int) -> int:
        at = data.find(b"\\", start, end)
        while at >= 0 and data[at + 1] not in _ID_CHARACTERS:
            at = data.find(b"\\", at + 1, end)
        return at

    return step


_WORTH_A_PATTERN_BYTES = 1 << 15  # re takes longer to import than a shorter log to look through without it


def session_lines(record_path: str, fields: "dict[str, Any]") -> "Iterator[bytes]":
    """Yield the lines of a session, oldest first, once the whole log was found to be readable; none without a log.

    Only where they stand is kept in memory. Raises UnreadableError for a log, or a record's idea of it, that is not to
    be trusted.
    """
    log_path = canonical_log(record_path, fields)
    try:
        fd = open_log(log_path)
    except FileNotFoundError:
        return
    try:
        found = select(fd, snapshot_size(fd), log_path, fields["session_id"], fields["target_provider"])
        places = [(offset, len(line)) for offset, line, _ in found]
        for offset, length in places:
            yield quoting.trim(os.pread(fd, length, offset))
    finally:
        os.close(fd)


def has_event(log_path: str, session_id: str, event: str, provider: str = "") -> bool:
    """Say whether the log has an event of that name of a session; a missing log has none."""
    try:
        fd = open_log(log_path)
    except FileNotFoundError:
        return False
    word = b"event=" + event.encode()
    tokenize = quoting.tokenizer(provider)
    try:
        for _, line, _ in select(fd, os.fstat(fd).st_size, log_path, session_id, provider):
            try:
                if word in tokenize(quoting.trim(line)):
                    return True
            except quoting.QuotingError:
                continue
        return False
    finally:
        os.close(fd)


def claims(line: bytes, session_id: str, tokenize: "Callable[[bytes], list[bytes]]" = quoting.tokenize) -> bool:
    """Say whether a line has the word `session_id=<id>` once its quoting is undone: a message cannot pass for one."""
    try:
        tokens = tokenize(quoting.trim(line))
    except quoting.QuotingError as error:
        tokens = error.tokens
    return b"session_id=" + _bytes(session_id) in tokens


def decode(line: bytes, provider: str = "") -> list[tuple[bytes, bytes]]:
    """Return the (key, value) pairs of a line in their order.

    Raises UnreadableError for quoting that never closes, a word without `=` or with a NUL, or a key that is there twice.
    """
    try:
        tokens = quoting.tokenizer(provider)(quoting.trim(line))
    except quoting.QuotingError as error:
        raise UnreadableError("audit record", str(error)) from None
    why, pairs = _split(tokens)
    if why:
        raise UnreadableError("audit record", why)
    return pairs


def _split(tokens: list[bytes]) -> tuple[str, list[tuple[bytes, bytes]]]:
    pairs, seen = [], set()
    for token in tokens:
        key, equals, value = token.partition(b"=")
        if not equals:
            return f"has a bare word {_shown(token)}", []
        if b"\0" in token:
            return f"has a NUL in a word {_shown(token)}", []
        if key in seen:
            return f"has the key {_shown(key)} twice", []
        seen.add(key)
        pairs.append((key, value))
    return "", pairs


def _shown(word: bytes) -> str:
    text = word[:60].decode("utf-8", "backslashreplace")
    return repr(text + "..." if len(word) > 60 else text)


# --- the chain


class ShrankError(UnreadableError):
    """The log became shorter while it was read: a writer cut a torn line away, or somebody cut more."""


class Chain:
    """What one pass over a log found for one session.

    `problem` is '' where the chain is sound up to the session's last line, else one of `torn`, `broken-chain`, `cut`
    (there is no line of the session), `unsupported` (its lines have no digests); `why` says it in words. `head` is the
    digest of the session's last line.
    """

    def __init__(self) -> None:
        self.head = ""
        self.problem = "cut"
        self.why = "the log has no record of the session"
        self.lines = 0
        self.large_bytes = 0
        self.torn_tail = False
        self.steps_back: list[str] = []
        self.holds_wanted = False
        self._last_time = b""

    def add(self, stamp: bytes, problem: str, why: str, head: bytes) -> None:
        """Count a line of the session; problem, why and head are those of the log up to it."""
        self.lines += 1
        if stamp and stamp < self._last_time:
            before = self._last_time.decode("ascii", "replace")
            self.steps_back.append(f"{before} to {stamp.decode('ascii', 'replace')}")
        self._last_time = stamp or self._last_time
        self.problem, self.why, self.head = problem, why, head.decode("ascii", "replace")


def check_chain(fd: int, size: int, path: str, session_id: str, provider: str, wanted: str = "") -> Chain:
    """Go once through the first `size` bytes of a log and return what it says of a session.

    `wanted` is a digest to look for (Chain.holds_wanted). Raises UnreadableError for a line that is too long.
    """
    return check_chains(fd, size, path, {session_id: wanted}, provider)[session_id]


def check_chains(fd: int, size: int, path: str, wanted: "dict[str, str]", provider: str) -> "dict[str, Chain]":
    """Do for several sessions, which one pass over a log answers, what check_chain does for one; `wanted`: id to digest."""
    from hashlib import sha256  # many lines: the machine's own instructions are worth their loading

    chains = {session_id: Chain() for session_id in wanted}
    claims = {b"session_id=" + _bytes(session_id): chain for session_id, chain in chains.items()}
    looked_for: dict[bytes, list[Chain]] = {}
    for session_id, digest_text in wanted.items():
        looked_for.setdefault(digest_text.encode("ascii", "replace"), []).append(chains[session_id])
    tokenize = quoting.tokenizer(provider)
    percent = tokenize is quoting.tokenize_percent
    expected, started, index, torn_tail = b"", False, -1, False
    fault: tuple[str, str] | None = None
    shapes: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
    for _, raw, whole in lines(fd, size, path):
        if started and fault is None and whole and not percent:
            good = _good_line(raw, expected, shapes, sha256)
            if good is not None:
                expected, stamp, tokens = good
                index += 1
                for chain in looked_for.get(expected, ()):
                    chain.holds_wanted = True
                if not claims.keys().isdisjoint(tokens):
                    for chain in _claimed(claims, tokens):
                        chain.add(stamp, "", "", expected)
                continue
        line = raw.strip(b"\t\n\v\f\r ")
        if line and (line[0] >= 0x80 or line[-1] >= 0x80):
            line = quoting.trim(line)
        if not line:
            continue
        index += 1
        broken = "broken-chain" if whole else "torn"
        torn_tail = not whole
        if percent:
            tokens = tokenize(line)
        elif b"\\" in line or b"'" in line or b"\t" in line:
            try:
                tokens = quoting.tokenize(line)
            except quoting.QuotingError:
                for chain in claims.values():
                    chain.problem, chain.why = broken, f"line {index + 1} has quoting that never closes"
                claims = {}
                break
        else:
            tokens = line.split(b" ")
            if b"" in tokens:
                tokens = [token for token in tokens if token]
        try:
            fields = dict([token.split(b"=", 1) for token in tokens])
            sound = len(fields) == len(tokens)
        except ValueError:  # a word without "="
            sound = False
        if not sound:
            why = f"record {index} {_split(tokens)[0]}"
            for token in tokens:
                ended = claims.pop(token, None)
                if ended is not None:
                    ended.problem, ended.why = broken, why
            if not claims:
                break
            fault = fault or (broken, why)
            continue
        if fault is None and (started or b"record_digest" in fields):
            started = True
            digest = fields.get(b"record_digest")
            previous = fields.get(b"prev_digest", b"")
            args = [token for token in tokens if not token.startswith(_NO_ARGS)]
            hashed = b"\0".join((previous, fields.get(b"timestamp", b""), *args))
            if not digest:
                fault = (broken, f"record {index} has no record_digest")
            elif hashed.count(b"\0") != len(args) + 1:
                # NUL parts the words in what is hashed: with one inside a word, two words have the digest of one.
                fault = (broken, f"record {index} has a NUL in a word")
            elif sha256(hashed).hexdigest().encode() != digest:
                fault = (broken, f"record {index} does not match its record_digest")
            elif previous != expected:
                fault = (broken, f"record {index} does not link to the record before it")
            else:
                expected = digest
                for chain in looked_for.get(expected, ()):
                    chain.holds_wanted = True
        for chain in _claimed(claims, tokens):
            if fault is not None:
                chain.add(fields.get(b"timestamp", b""), *fault, b"")
            elif not started:
                chain.add(fields.get(b"timestamp", b""), "unsupported", "its records have no digests", b"")
            else:
                chain.add(fields.get(b"timestamp", b""), "", "", expected)
    for chain in chains.values():
        chain.torn_tail = torn_tail
        if fault is not None and not chain.lines and chain.problem == "cut":
            # Nothing of the session is left where the chain is damaged as well: the damage is the better answer.
            chain.why += f" ({fault[1]})"
    return chains


def _claimed(claims: "dict[bytes, Chain]", tokens: "list[bytes]") -> "list[Chain]":
    return [claims[token] for token in tokens if token in claims]


_NO_ARGS = (b"timestamp=", b"prev_digest=", b"record_digest=")


def _good_line(
    line: bytes, expected: bytes, shapes: "dict[tuple[bytes, int], tuple[bytes, ...]]", sha256: "Callable[[bytes], Any]"
) -> "tuple[bytes, bytes, list[bytes]] | None":
    """Return (digest, timestamp, the other words) of a line that has the form of format_line and chains.

    None for any other, good or not: the long way decides about it. Most lines of a log take this short way, a third of the
    long one. shapes: the keys of lines seen before, by first word and count.
    """
    first = line.find(b" ")
    stamp = line[10:first]
    if line[:10] != b"timestamp=" or not stamp or b"\\" in stamp or b"\t" in line or b"\0" in line:
        return None
    if b"'" in line and line.count(b"'") != line.count(b"\\'"):
        return None
    body = line[first + 1 : -157]
    if b"\\" in body:
        if b"\\\\" in body or b"\1" in body or body.endswith(b"\\"):
            return None
        # An escaped blank is part of its word, any other backslash only stands before its character.
        args = body.replace(b"\\ ", b"\1").replace(b"\\", b"").replace(b" ", b"\0").replace(b"\1", b" ")
    else:
        args = body.replace(b" ", b"\0")
    words = args.split(b"\0")
    kind = (words[0], len(words))
    keys = shapes.get(kind)
    if keys is None:
        keys = tuple([word[: word.find(b"=") + 1] for word in words])
        if b"" in keys or len(set(keys)) != len(keys) or not set(keys).isdisjoint(_NO_ARGS):
            return None
        if len(shapes) > 1000:
            shapes.clear()
        shapes[kind] = keys
    elif not all(map(bytes.startswith, words, keys)):
        return None
    digest = sha256(b"\0".join((expected, stamp, args))).hexdigest().encode()
    if line[-157:] != b"".join((b" prev_digest=", expected, b" record_digest=", digest, b" ")):
        return None
    return digest, stamp, words


# --- writing


def format_line(previous: str, timestamp: str, args: "list[bytes]") -> bytes:
    """Return a whole line, its LF included; every word of it, the last one too, is followed by one blank."""
    digest = canonical.event_digest(previous.encode(), timestamp.encode(), args)
    words = [b"timestamp=" + timestamp.encode(), *map(quoting.quote, args)]
    if previous:
        words.append(b"prev_digest=" + previous.encode())
    words.append(b"record_digest=" + digest.encode())
    return b" ".join(words) + b" \n"


def append_event(
    log_path: str,
    event: str,
    session_id: str,
    pairs: "list[tuple[str, str]]",
    record_path: "str | None" = None,
    timestamp: "str | None" = None,
    timeout_s: float = 30.0,
) -> "str | None":
    """Append one event and return its digest.

    With record_path the event is refused, and None returned, where the session is over: its record is final or gone, or
    it has a seal; that is looked at under the log's lock. A line that a crash left torn is moved to a file of its own
    beside the log first, and an event `audit-tail-recovered` says so. Raises BusyError when the log stays locked,
    UnreadableError where it cannot be trusted, OSError where it cannot be written: the log is then as it was.
    """
    from workcell import atomic, lock

    folder, name = os.path.split(log_path)
    atomic.make_dir(folder)
    dir_fd = safe_open.open_dir(folder)
    try:
        with lock.audit_log(dir_fd, name, log_path, timeout_s):
            if record_path is not None and _is_over(record_path):
                return None
            fd = _open_for_append(dir_fd, name, log_path)
            try:
                return _append(fd, dir_fd, name, log_path, event, session_id, pairs, timestamp or clock.utc_now())
            finally:
                os.close(fd)
    finally:
        os.close(dir_fd)


def _append(
    fd: int,
    dir_fd: int,
    name: str,
    path: str,
    event: str,
    session_id: str,
    pairs: "list[tuple[str, str]]",
    timestamp: str,
) -> str:
    from workcell import atomic

    size = os.fstat(fd).st_size
    end = whole_end(fd, size)
    previous = tail_digest(fd, end)
    data = b""
    if end < size:
        torn_digest = _complete(os.pread(fd, LINE_LIMIT_BYTES, end), previous) if size - end < LINE_LIMIT_BYTES else ""
        if torn_digest:
            data, previous, end = b"\n", torn_digest, size
        else:
            _keep_torn(fd, dir_fd, name, end, size, timestamp)
            os.ftruncate(fd, end)
            os.fsync(fd)
            line = _event_line(previous, timestamp, "audit-tail-recovered", session_id, [("reason", "torn-tail")])
            data, previous = line, _digest_of(line)
    line = _event_line(previous, timestamp, event, session_id, pairs)
    try:
        atomic.write_all(fd, data + line)
        os.fsync(fd)
    except BaseException:
        os.ftruncate(fd, end)
        os.fsync(fd)
        raise
    return _digest_of(line)


def _digest_of(line: bytes) -> str:
    return line[-66:-2].decode()


def _event_line(previous: str, timestamp: str, event: str, session_id: str, pairs: "list[tuple[str, str]]") -> bytes:
    values = [("event", event), ("session_id", session_id), *pairs]
    if len({key for key, _ in values}) != len(values) or not all(key and "=" not in key for key, _ in values):
        raise ValueError(f"keys of an event: {[key for key, _ in values]}")
    # NUL parts the words in what is hashed, so no word may hold one.
    words = [_bytes(f"{key}={value}".replace("\0", "\u2400")) for key, value in values]
    line = format_line(previous, timestamp, words)
    while len(line) > LINE_LIMIT_BYTES:
        # One line too long would make the log unreadable for every session: the longest value is cut, its digest kept.
        longest = max(range(len(words)), key=lambda at: len(words[at]))
        word = words[longest]
        key, _, value = word.partition(b"=")
        if len(value) <= 1024:
            raise WorkcellError(f"audit event {event}", "has too many long values")
        from workcell.digests import sha256

        kept = min(65536, len(value) // 2)
        mark = b"... [cut: %d bytes, sha256 %s]" % (len(value), sha256(value).hexdigest().encode())
        words[longest] = key + b"=" + value[:kept] + mark
        line = format_line(previous, timestamp, words)
    return line


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves of surrogate pairs that stand for no byte
        return text.encode("utf-8", "surrogatepass")


def _is_over(record_path: str) -> bool:
    if os.path.lexists(layout.seal_path(record_path)):
        return True
    try:
        return record.is_terminal(record.read(record_path))
    except NotFoundError:
        return True
    except UnreadableError:
        return False  # what a broken record says is unknown; the evidence is worth more


def _open_for_append(dir_fd: int, name: str, path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        # Bits that let others in are taken away below: this writer, unlike a reader, may mend them.
        fd = safe_open.open_file(dir_fd, name, path, flags, closed=0)
    except FileNotFoundError:
        fd = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd)
        os.fsync(dir_fd)
    if stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def whole_end(fd: int, size: int) -> int:
    """Return where the last whole line ends: after the last LF of the file."""
    at = size
    while at > 0:
        start = max(0, at - 4096)
        found = os.pread(fd, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def tail_digest(fd: int, end: int) -> str:
    """Return the digest that the next line links to, that of the last line with one before `end`; '' without any.

    The file is read from its end, so the cost does not grow with the log.
    """
    at, later, block_bytes = end, b"", 4096
    while at > 0:
        start = max(0, at - block_bytes)
        block = os.pread(fd, at - start, start) + later
        at, block_bytes = start, min(block_bytes * 4, 1 << 20)
        first, newline, rest = block.partition(b"\n")
        # What stands before the first LF is the end of a line that begins further up.
        whole = rest if start and newline else block
        if start and not newline:
            later = block[-LINE_LIMIT_BYTES:]  # no reader takes a longer line; its digest stands at its end
            continue
        for line in reversed(whole.split(b"\n")):
            digest = _digest_in(line)
            if digest:
                return digest
        later = first + newline if start else b""
    return ""


def _digest_in(line: bytes) -> str:
    if b"record_digest=" not in line:
        return ""
    try:
        values = [token[14:] for token in quoting.tokenize(quoting.trim(line)) if token.startswith(b"record_digest=")]
    except quoting.QuotingError:
        values = []
    # A damaged line may only look like one to the cruder way in which other writers find their link.
    value = values[-1] if values else line.rpartition(b"record_digest=")[2].split(b" ", 1)[0]
    return value.decode() if len(value) == 64 and _DIGITS.issuperset(value) else ""


def _complete(line: bytes, previous: str) -> str:
    """Return the digest of a line that lacks only its LF, '' where it is torn."""
    try:
        pairs = decode(line)
    except UnreadableError:
        return ""
    named = dict(pairs)
    digest = named.get(b"record_digest", b"")
    args = [key + b"=" + value for key, value in pairs if key not in (b"timestamp", b"prev_digest", b"record_digest")]
    right = canonical.event_digest(previous.encode(), named.get(b"timestamp", b""), args)
    good = digest == right.encode() and named.get(b"prev_digest", b"").decode("ascii", "replace") == previous
    return right if good else ""


def _keep_torn(fd: int, dir_fd: int, name: str, start: int, end: int, timestamp: str) -> None:
    """Copy the bytes after the last whole line to `<log>.torn-<time>` and sync it."""
    from workcell import atomic

    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    base = f"{name}.torn-{timestamp}"
    kept = base
    while True:
        try:
            copy = os.open(kept, flags, 0o600, dir_fd=dir_fd)
            break
        except FileExistsError:
            kept = f"{base}-{os.urandom(4).hex()}"
    try:
        os.fchmod(copy, 0o600)
        while start < end:
            block = os.pread(fd, min(_BLOCK_BYTES, end - start), start)
            if not block:
                break
            atomic.write_all(copy, block)
            start += len(block)
        os.fsync(copy)
    except BaseException:
        os.unlink(kept, dir_fd=dir_fd)
        raise
    finally:
        os.close(copy)
    os.fsync(dir_fd)
