"""The exact bytes that get hashed or signed; see workcell-audit-log(5) and workcell-audit-seal(5)."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Blank characters as the formats count them; without U+001C to U+001F, which str.strip would take too.
BLANKS = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def event_digest(previous: bytes, timestamp: bytes, args: "Iterable[bytes]") -> str:
    """Return the digest of an event: SHA-256 over its parts with one NUL between them, as 64 lower-case hex digits.

    `previous` is the digest of the event before, empty for the first; each arg is a whole `key=value` before any
    quoting.
    """
    from workcell.digests import sha256

    return sha256(b"\0".join((previous, timestamp, *args))).hexdigest()


def seal_message(session_id: str, head: str) -> bytes:
    """Return what a seal signs: four lines, each ended by one LF."""
    return b"workcell-session-audit-seal\nv1\n%s\n%s\n" % (
        session_id.encode("utf-8", "surrogateescape"),
        head.encode("ascii"),
    )
