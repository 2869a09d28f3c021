"""The newest output of a session, made fit to be shown on a terminal once more.

A terminal answers queries (device attributes, cursor position, colours, ...), and its answers would be typed into the session:
real agents took them for a yes. So only text, colours, cursor movement and erasing pass; every other sequence is dropped.
"""

import re

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<csi>[0-9;:]*[A-HJKLMPSTXZ@`abdefm])"  # movement, erasing, inserting, colours
    rb"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence
    rb"|\x1b[PX^_\]][^\x1b\x07]*(?:\x07|\x1b\\)?"  # strings: DCS, SOS, PM, APC, OSC
    rb"|\x1b[ -/]*[0-~]"  # short escapes
    rb"|\x1b\[?[0-?]*$"  # cut at the end
    rb"|[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]"  # controls but BEL BS HT LF VT FF CR
)


def presentable(data: bytes) -> bytes:
    """Return output without what a terminal would answer, or remember after it; a cut character at the start is dropped."""
    start = 0
    while start < len(data) and start < 3 and 0x80 <= data[start] < 0xC0:
        start += 1
    return _SEQUENCE.sub(lambda found: found[0] if found["csi"] else b"", data[start:]).replace(b"\x07", b"")


_ANY_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


def plain(data: bytes) -> str:
    """Return output as readable text: no control sequence, lines that a carriage return wrote over only as they ended up."""
    text = _ANY_CSI.sub(b"", presentable(data)).decode("utf-8", "replace")
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown: list[str] = []
        for part in line.split("\r"):
            shown[: len(part)] = _erased(part)
        lines.append("".join(shown).rstrip())
    return "\n".join(lines)


def _erased(text: str) -> list[str]:
    """Return the characters that stay when backspaces have done their work."""
    kept: list[str] = []
    at = 0
    for character in text:
        if character == "\b":
            at = max(0, at - 1)
        elif character == "\t" or character >= " ":
            kept[at : at + 1] = [character]
            at += 1
    return kept
