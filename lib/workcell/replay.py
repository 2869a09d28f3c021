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
