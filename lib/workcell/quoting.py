"""One word of an audit line: quote it, and take a line apart again.

The form is what `printf %q` of bash prints in the C locale, so that a line can be read by a shell; see
workcell-audit-log(5). All is bytes.
"""

from workcell.canonical import BLANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_ASCII_BLANKS = b"\t\n\v\f\r "

# Compiled when first needed: many a line has no quotes, and re takes as long to import as all else that a reader needs.
_SHAPES = {
    "plain": rb"[A-Za-z0-9%+./:=@_-]*\Z",
    "needs ansi": rb"[\x00-\x1f\x7f-\xff]",
    "needs backslash": rb"[^A-Za-z0-9#%+./:=@_~-]|\A[#~]|(?<=[=:])~",
    "ansi special": rb"[\x00-\x1f\x7f-\xff\\']",
    "piece": rb"(?P<gap>[ \t]+)|(?P<plain>[^ \t\\$']+)|\\(?P<escaped>.)|(?P<nothing>'')"
    rb"|\$'(?P<ansi>[^'\\]*(?:\\.[^'\\]*)*)'|(?P<unclosed>\$')|(?P<literal>[\\$'])",
    "ansi escape": rb"\\([0-7]{3}|.)",
    "percent": rb"%([0-9A-Fa-f]{2})",
}
_compiled: "dict[str, re.Pattern[bytes]]" = {}


def _pattern(name: str) -> "re.Pattern[bytes]":
    if not _compiled:
        import re

        _compiled.update({name: re.compile(shape, re.DOTALL) for name, shape in _SHAPES.items()})
    return _compiled[name]


_ANSI_NAMES = {
    b"\a": rb"\a", b"\b": rb"\b", b"\t": rb"\t", b"\n": rb"\n", b"\v": rb"\v", b"\f": rb"\f", b"\r": rb"\r",
    b"\x1b": rb"\E", b"\\": rb"\\", b"'": rb"\'",
}  # fmt: skip


class QuotingError(Exception):
    """A `$'` that never closes; `tokens` are those that were complete before it."""

    def __init__(self, tokens: list[bytes]) -> None:
        super().__init__("quoting that never closes")
        self.tokens = tokens


def quote(word: bytes) -> bytes:
    """Return a word so that a line holds it as one."""
    if _pattern("plain").match(word):
        return word or b"''"
    if _pattern("needs ansi").search(word):
        return b"$'" + _pattern("ansi special").sub(_ansi_escape, word) + b"'"
    return _pattern("needs backslash").sub(rb"\\\g<0>", word)


def _ansi_escape(match: "re.Match[bytes]") -> bytes:
    byte = match.group()
    return _ANSI_NAMES.get(byte) or b"\\%03o" % byte[0]


_ANSI_VALUES = {
    b"a": b"\a", b"b": b"\b", b"e": b"\x1b", b"E": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t",
    b"v": b"\v",
}  # fmt: skip


def tokenize(line: bytes) -> list[bytes]:
    """Return the words of a line, unquoted; raise QuotingError where a `$'` never closes.

    Only blank and TAB part words. A backslash takes the next byte as it is; `$'...'` knows the escapes of bash and
    three octal digits; `''` is an empty word or nothing; all else, a lone quote too, stands for itself.
    """
    if b"\\" not in line and b"'" not in line:
        return [word for word in line.replace(b"\t", b" ").split(b" ") if word]
    if b"'" not in line and b"\0" not in line and b"\1" not in line and b"\t" not in line:
        # Nothing but backslashes, the usual case of a message: two bytes that no line has stand in for what they protect.
        hidden = line.replace(b"\\\\", b"\0").replace(b"\\ ", b"\1")
        last = b"\\" if hidden.endswith(b"\\") else b""
        plain = hidden.replace(b"\\", b"") + last
        if b"\0" in plain or b"\1" in plain:
            return [word.replace(b"\1", b" ").replace(b"\0", b"\\") for word in plain.split(b" ") if word]
        return [word for word in plain.split(b" ") if word]
    tokens: list[bytes] = []
    parts: list[bytes] | None = None
    for piece in _pattern("piece").finditer(line):
        kind = piece.lastgroup
        if kind == "gap":
            if parts is not None:
                tokens.append(b"".join(parts))
                parts = None
            continue
        if kind == "unclosed":
            raise QuotingError(tokens)
        if parts is None:
            parts = []
        if kind == "ansi":
            parts.append(_pattern("ansi escape").sub(_ansi_value, piece.group("ansi")))
        elif kind != "nothing":
            parts.append(piece.group(str(kind)))
    if parts is not None:
        tokens.append(b"".join(parts))
    return tokens


def _ansi_value(match: "re.Match[bytes]") -> bytes:
    what = match.group(1)
    if len(what) == 3:
        return bytes([int(what, 8) % 256])
    return _ANSI_VALUES.get(what, what)


def tokenize_percent(line: bytes) -> list[bytes]:
    """Return the words of a line of the other encoding: parted by any blanks, two paths percent-encoded."""
    words = line.decode("utf-8", "surrogateescape").translate(_BLANKS_TO_SPACE).split(" ")
    tokens = [word.encode("utf-8", "surrogateescape") for word in words if word]
    for at, token in enumerate(tokens):
        key, equals, value = token.partition(b"=")
        if key in (b"workspace", b"workspace_origin") and b"%" in value:
            tokens[at] = key + equals + _pattern("percent").sub(lambda m: bytes([int(m.group(1), 16)]), value)
    return tokens


_BLANKS_TO_SPACE = {ord(c): " " for c in BLANKS}


def tokenizer(provider: str) -> "Callable[[bytes], list[bytes]]":
    """Return what takes apart the lines of a provider's sessions: one has a writer and an encoding of its own."""
    return tokenize_percent if provider.strip(BLANKS) == "apple-container" else tokenize


def trim(line: bytes) -> bytes:
    """Return a line without the blanks at both ends, those outside ASCII too."""
    line = line.strip(_ASCII_BLANKS)
    if line and (line[0] >= 0x80 or line[-1] >= 0x80):
        line = line.decode("utf-8", "surrogateescape").strip(BLANKS).encode("utf-8", "surrogateescape")
    return line
