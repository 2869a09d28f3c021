"""What git makes of a file's content when it takes it in, by the attributes of its path: line ends, `$Id$`, encoding.

The same as `git add` would do (gitattributes(5)), but for content filters, which are programs: none is run. The one of git-lfs
is known here, since what it makes of a file can be computed.
"""

import hashlib
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ATTRIBUTES = ("text", "crlf", "eol", "ident", "working-tree-encoding", "filter")

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n\Z"
)
_IDENT = re.compile(rb"\$Id:[^$\n]*\$")
_NOT_PRINTABLE = bytes(c for c in range(32) if c not in b"\b\t\n\r\x0c\x1b") + b"\x7f"
_TRUE = ("true", "yes", "on", "1", "")


def to_git(content: bytes, attributes: "Mapping[str, str]", settings: "Mapping[str, str]", base: bytes | None) -> bytes:
    """Return what git would store of a file's content.

    attributes: of its path, values as git-check-attr(1) prints them; settings: `core.autocrlf` and `core.eol`, where they are
    set; base: what is stored of the same file now, None for a new one.
    """
    if attributes.get("filter") == "lfs" and base is not None and _POINTER.match(base) and not _POINTER.match(content):
        return pointer(hashlib.sha256(content).hexdigest(), len(content))
    content = _decoded(content, attributes.get("working-tree-encoding", "unspecified"))
    action = _line_ends(attributes, settings)
    if action != "binary" and b"\r\n" in content:
        if action == "text" or not (_is_binary(content) or (base is not None and b"\r\n" in base and not _is_binary(base))):
            content = content.replace(b"\r\n", b"\n")
    if attributes.get("ident") == "set":
        content = _IDENT.sub(b"$Id$", content)
    return content


def may_change(attributes: "Mapping[str, str]", settings: "Mapping[str, str]") -> bool:
    """Say whether to_git could return anything but the content itself for a path with these attributes."""
    others = (attributes.get(name, "unspecified") for name in ("ident", "working-tree-encoding", "filter"))
    return _line_ends(attributes, settings) != "binary" or any(value not in ("unspecified", "unset") for value in others)


def pointer(sha256: str, size: int) -> bytes:
    """Return the text that git-lfs stores in a large file's place."""
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (sha256.encode(), size)


def pointed_at(content: bytes) -> tuple[str, int] | None:
    """Return (SHA-256, size) of the large file that a text of git-lfs stands for, None where it is no such text."""
    match = _POINTER.match(content)
    return (match.group(1).decode(), int(match.group(2))) if match else None


def _line_ends(attributes: "Mapping[str, str]", settings: "Mapping[str, str]") -> str:
    """Return `text`, `auto` or `binary`: what is done about line ends on the way in."""
    text = attributes.get("text", "unspecified")
    if text in ("unspecified", "") or text not in ("set", "unset", "auto", "input"):
        text = attributes.get("crlf", "unspecified")
    if text in ("set", "input"):
        return "text"
    if text == "unset":
        return "binary"
    if text == "auto":
        return "auto"
    if attributes.get("eol") in ("lf", "crlf"):
        return "text"
    wanted = settings.get("core.autocrlf", "false").lower()
    return "auto" if wanted == "input" or wanted in _TRUE else "binary"


def _is_binary(content: bytes) -> bool:
    """Say whether git takes a content for binary when it guesses (gather_stats and convert_is_binary of git's convert.c)."""
    if b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return True
    plain = content.translate(None, _NOT_PRINTABLE)
    odd = len(content) - len(plain)
    printable = len(plain) - plain.count(b"\n") - plain.count(b"\r")
    if content.endswith(b"\x1a"):
        odd -= 1
    return printable >> 7 < odd


def _decoded(content: bytes, encoding: str) -> bytes:
    """Return content in UTF-8, or as it is where it cannot be read in its encoding."""
    if encoding in ("unspecified", "unset", "set") or encoding.upper() in ("UTF-8", "UTF8"):
        return content
    name = {"UTF-16LE-BOM": "utf-16", "UTF-16BE-BOM": "utf-16", "UTF-32LE-BOM": "utf-32", "UTF-32BE-BOM": "utf-32"}
    try:
        return content.decode(name.get(encoding.upper(), encoding)).encode()
    except (LookupError, UnicodeError, ValueError):
        return content
