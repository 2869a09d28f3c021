"""The file trace of a session: what its tracer tells through a pipe, checked, quoted and written to the operator's file.

The tracer runs beside the agent, as the agent's user: whatever it says may be the agent's own words. So a line is taken only if
it has one of the known shapes, the time is ours, and each text is quoted. See workcell-file-trace(5).
"""

import os
import stat

from workcell import clock, fastjson
from workcell.quoting import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

INTERVAL_S = 1
LONGEST_LINE_BYTES = 64 << 10
LIMIT_BYTES = 64 << 20

_KINDS = ("file", "dir", "symlink", "other", "missing")
_PHASES = ("watch", "final")
_STATES = {"create": ("current",), "modify": ("previous", "current"), "delete": ("previous",)}


def open_log(path: str) -> int:
    """Return a descriptor of the operator's file, emptied, 0600; raises OSError where it is a link or no plain file of ours."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
        os.close(fd)
        raise OSError(0, "is not a plain file of yours", path)
    os.ftruncate(fd, 0)
    os.fchmod(fd, 0o600)
    return fd


class Collector:
    """Write the trace of one session to an open file; a full disk or a flood costs lines, never the session."""

    def __init__(self, fd: int) -> None:
        self._fd, self._rest, self._skipping = fd, b"", False
        self._written = 0
        self._lost = 0

    def launched(self, agent: str, ui: str, mode: str) -> None:
        """Note that the agent is started."""
        self._write("provider-launch", [("agent", agent), ("ui", ui), ("mode", mode)])

    def ended(self, agent: str, exit_status: int) -> None:
        """Note the end of the agent, and close the file."""
        if self._lost:
            self._write("trace-lost", [("lines", str(self._lost))], beyond=True)
        self._write("provider-exit", [("agent", agent), ("status", str(exit_status))], beyond=True)
        os.close(self._fd)

    def feed(self, data: bytes) -> None:
        """Take a piece of what the tracer writes, which may end anywhere."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
                self._lost += 1
            else:
                self._take(line)
        if len(rest) > LONGEST_LINE_BYTES:
            rest, self._skipping = b"", True
        self._rest = rest

    def _take(self, line: bytes) -> None:
        try:
            event, *values = fastjson.loads(line)
            if event == "start" and len(values) == 1:
                self._write("watch-start", [("root", _text(values[0])), ("interval_sec", str(INTERVAL_S))])
            elif event == "stop" and len(values) == 1:
                self._write("watch-stop", [("root", _text(values[0]))])
            elif event == "limit" and len(values) == 2:
                self._write("watch-limit", [("root", _text(values[0])), ("entries", str(_number(values[1])))])
            else:
                names = _STATES[event]
                phase, path, *states = values
                if phase not in _PHASES or len(states) != len(names):
                    raise ValueError
                pairs = [("phase", phase), ("path", _text(path))]
                self._write(event, pairs, [(name, _state(state)) for name, state in zip(names, states, strict=True)])
        except (ValueError, KeyError, TypeError, RecursionError):
            self._lost += 1

    def _write(
        self, event: str, pairs: list[tuple[str, str]], states: "Sequence[tuple[str, bytes]]" = (), beyond: bool = False
    ) -> None:
        fields = [clock.utc_now().encode(), b"event=" + event.encode()]
        fields += [name.encode() + b"=" + quote(value.encode("utf-8", "surrogateescape")) for name, value in pairs]
        fields += [name.encode() + b"=" + state for name, state in states]
        line = b"\t".join(fields) + b"\n"
        if self._written + len(line) > LIMIT_BYTES and not beyond:
            self._lost += 1
            return
        try:
            self._written += os.write(self._fd, line)
        except OSError:
            self._lost += 1


def _text(value: "Any") -> str:
    if type(value) is not str or not value or "\0" in value:
        raise ValueError
    value.encode("utf-8", "surrogateescape")
    return value


def _number(value: "Any") -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _state(value: "Any") -> bytes:
    """Return a state as the line has it: kind, mode, size, time of change and target, parted by TABs."""
    kind, mode, size, changed, target = value
    if kind not in _KINDS or type(mode) is not str or not mode.isdigit() or len(mode) > 6:
        raise ValueError
    shown = target if target in ("-", "?") else quote(_text(target).encode("utf-8", "surrogateescape")).decode("ascii")
    return "\t".join([kind, mode, str(_number(size)), str(_number(max(0, changed))), shown]).encode()
