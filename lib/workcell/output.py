"""What goes to standard output: JSON, key=value lines, tab-separated columns."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import IO, Any

_JSON_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(value: "Any") -> str:
    """Return a value as JSON text: two-space indent, keys in their own order, one LF at the end.

    `<`, `>`, `&`, U+2028 and U+2029 are escaped as well, other characters outside ASCII are written as they are, and what
    was no UTF-8 becomes U+FFFD: the form of workcell-session-record(5).
    """
    import json

    return _escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def json_line(value: "Any") -> str:
    """Return a value as JSON in one line, without a blank between its parts, escaped as json_text does."""
    import json

    return _escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + "\n"


def _escaped(text: str) -> str:
    for character, escape in _JSON_ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    if not text.isascii():
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text


def key_values(pairs: "Sequence[tuple[str, str]]") -> str:
    """Return `key=value` lines; a newline in a value would forge a key, so it is written as a blank."""
    text = "".join([f"{key}={value}\n" for key, value in pairs])
    if "\r" in text or "\0" in text or text.count("\n") != len(pairs):
        text = "".join([f"{key}={value.translate(NO_NEWLINES)}\n" for key, value in pairs])
    return text


NO_NEWLINES = {0x0A: " ", 0x0D: " ", 0x00: " "}

# C0 and C1 controls, DEL, and the marks that reorder text: all that could drive or deceive a terminal.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
# Bytes that are no UTF-8 are there as surrogates; alone, such as 0x9b, some terminals take them for controls too.
_BYTES = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}
_VISIBLE = _BYTES | {c: f"\\x{c:02x}" if c < 0x100 else f"\\u{c:04x}" for c in _CONTROLS if c not in (0x09, 0x0A)}


def printable(text: str) -> str:
    """Return text with each character that could drive a terminal written as `\\xNN` or `\\uNNNN`; TAB and LF stay."""
    return text.translate(_VISIBLE)


def width(text: str) -> int:
    """Return how many columns a text takes on a terminal: two for a wide character, none for a mark on the one before."""
    if text.isascii():
        return len(text)
    import unicodedata

    columns = 0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            columns += 2
        elif unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            columns += 1
    return columns


def padded(texts: "Sequence[str]", widths: "Sequence[int]") -> str:
    """Return texts in columns of these widths, two blanks between them, none at the end."""
    cells = [text + " " * (size - width(text)) for text, size in zip(texts, widths, strict=True)]
    return "  ".join(cells).rstrip(" ")


def write(text: str, stream: "IO[str] | None" = None) -> None:
    """Write text to standard output (or another stream) as UTF-8; a terminal gets no control character of the content."""
    out: Any = sys.stdout if stream is None else stream
    if out.isatty():
        text = printable(text)
    out.flush()
    out.buffer.write(text.encode("utf-8", "surrogateescape"))
    out.buffer.flush()


def progress(text: str) -> None:
    """Show what is being done in the current line of a terminal behind standard error, "" to take it away; else nothing."""
    global _shown
    if (text or _shown) and sys.stderr.isatty():
        columns = os.get_terminal_size(2).columns or 80
        # Back to the margin and erase to the end of the line (ECMA-48, CR and EL).
        sys.stderr.write("\r\x1b[K" + printable(text)[: columns - 1])
        sys.stderr.flush()
        _shown = bool(text)


_shown = False


def write_pieces(pieces: "Iterable[bytes]") -> None:
    """Write bytes to standard output as they come and as they are; a terminal gets no control character of them.

    A piece may end anywhere, in a character too. None is held back, for whoever follows wants it now.
    """
    if not sys.stdout.isatty():
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        return
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for piece in pieces:
        write(decoder.decode(piece))
    write(decoder.decode(b"", True))


def deliver(text: str, path: str, name: str) -> None:
    """Print a document, or where a path is given replace that file whole (0600) and print `name=<resolved path>`.

    The path is followed through no link; missing folders above it are made. Raises UnreadableError, OSError.
    """
    if not path:
        write(text)
        return
    from workcell import atomic, safe_open

    resolved = safe_open.check_output(path)
    folder, _, base = resolved.rpartition("/")
    atomic.make_dir(folder or "/")
    dir_fd = safe_open.open_output_dir(folder)
    try:
        atomic.replace_at(dir_fd, base, text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(dir_fd)
    write(key_values([(name, resolved)]))
