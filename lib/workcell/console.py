"""The console log of a live session: what the agent printed, when, at which size, and the terminal modes now in force.

`console/` in the scratch folder holds numbered pairs of segments, `NNNNNN.out` with the raw bytes and `NNNNNN.time` with one
line for each piece: `o MILLISECONDS BYTES` for output, `r MILLISECONDS ROWS COLUMNS` for a size, `d MILLISECONDS BYTES` for
output that could not be kept. The monitor is the only writer; readers follow by name and number, and never lock.
"""

import codecs
import os
import time

from workcell import clock, fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match
    from typing import IO, Any

DEFAULT_LIMIT_BYTES = 16 << 20
SEGMENTS = 4
DEFAULT_SIZE = (24, 80)


class Modes:
    """The terminal modes that the program has switched away from their defaults, followed in its output.

    private: DEC private modes (number to on or off), kept where they differ from a fresh terminal; keyboard: flags pushed in
    the kitty protocol; other_keys: xterm's modifyOtherKeys; keypad: application keypad. See xterm's ctlseqs document.
    """

    ON_BY_DEFAULT = frozenset({7, 25})
    # What an attached terminal must have as the program has it; others (132 columns, origin) would only disturb it.
    FOLLOWED = frozenset({1, 7, 9, 25, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1049, 2004, 2031})
    ALTERNATE = (1049, 1047, 47)

    _SEQUENCE = (
        rb"\x1b(?:\[\?(?P<dec>[0-9;]{1,64})(?P<set>[hl])|\[(?P<kitty>[>=<])(?P<flags>[0-9;]{0,16})u"
        rb"|\[>4(?:;(?P<other>[0-9]))?m|(?P<keypad>[=>])|(?P<reset>c|\[!p))"
    )

    def __init__(self) -> None:
        self.private: dict[int, bool] = {}
        self.keyboard: list[int] = []
        self.other_keys = 0
        self.keypad = False
        self._carry = b""

    def feed(self, data: bytes) -> bool:
        """Follow a piece of output, which may end anywhere; say whether anything changed."""
        if self._carry:
            data = self._carry + data
        elif b"\x1b" not in data:
            return False
        import re  # kept by re itself, and not loaded for a program that switches nothing

        last = data.rfind(b"\x1b")
        before = self.as_dict()
        end = 0
        for found in re.finditer(self._SEQUENCE, data):
            self._apply(found)
            end = found.end()
        # A sequence that was cut: kept for the next piece, unless it is too long to be one of ours.
        self._carry = data[last:] if last >= end and len(data) - last < 80 else b""
        return self.as_dict() != before

    def _apply(self, found: "Match[bytes]") -> None:
        if found["dec"]:
            on = found["set"] == b"h"
            for number in (int(n) for n in found["dec"].split(b";") if n):
                if number not in self.FOLLOWED:
                    continue
                if on == (number in self.ON_BY_DEFAULT):
                    self.private.pop(number, None)
                else:
                    self.private[number] = on
        elif found["kitty"]:
            self._keyboard(found["kitty"], [int(n) for n in found["flags"].split(b";") if n])
        elif found["keypad"]:
            self.keypad = found["keypad"] == b"="
        elif found["reset"]:
            self.private, self.keyboard, self.other_keys, self.keypad = {}, [], 0, False
        else:
            self.other_keys = int(found["other"] or b"0")

    def _keyboard(self, kind: bytes, numbers: list[int]) -> None:
        if kind == b">":
            self.keyboard = [*self.keyboard[-15:], (numbers or [0])[0]]
        elif kind == b"<":
            self.keyboard = self.keyboard[: -max(1, (numbers or [1])[0])]
        elif self.keyboard:
            self.keyboard[-1] = (numbers or [0])[0]

    def as_dict(self) -> "dict[str, object]":
        """Return the modes as a JSON object."""
        private = {str(number): on for number, on in self.private.items()}
        return {"private": private, "keyboard": self.keyboard[:], "other_keys": self.other_keys, "keypad": self.keypad}

    @classmethod
    def from_dict(cls, value: "dict[str, object]") -> "Modes":
        """Return the modes of a JSON object; what is not understood counts as a default."""
        modes = cls()
        private, keyboard = value.get("private"), value.get("keyboard")
        if isinstance(private, dict):
            modes.private = {int(n): bool(on) for n, on in private.items() if str(n).isdigit()}
        if isinstance(keyboard, list):
            modes.keyboard = [n for n in keyboard if type(n) is int]
        modes.other_keys = value["other_keys"] if type(value.get("other_keys")) is int else 0  # type: ignore[assignment]
        modes.keypad = value.get("keypad") is True
        return modes

    def bracketed_paste(self) -> bool:
        """Say whether the program asked for pasted text to be marked."""
        return self.private.get(2004, False)

    def enter(self) -> bytes:
        """Return what puts a fresh terminal into these modes."""
        order = sorted(self.private, key=lambda n: (n not in self.ALTERNATE, n))
        parts = [b"\x1b[?%d%c" % (n, b"h" if self.private[n] else b"l") for n in order]
        parts += [b"\x1b[>%du" % flags for flags in self.keyboard]
        if self.other_keys:
            parts.append(b"\x1b[>4;%dm" % self.other_keys)
        if self.keypad:
            parts.append(b"\x1b=")
        return b"".join(parts)

    def leave(self) -> bytes:
        """Return what switches exactly these modes back to a fresh terminal's."""
        parts = []
        if self.keypad:
            parts.append(b"\x1b>")
        if self.other_keys:
            parts.append(b"\x1b[>4;0m")
        if self.keyboard:
            parts.append(b"\x1b[<%du" % len(self.keyboard))
        order = sorted(self.private, key=lambda n: (n in self.ALTERNATE, n))
        parts += [b"\x1b[?%d%c" % (n, b"l" if self.private[n] else b"h") for n in order]
        return b"".join(parts)


class Writer:
    """The writing side, for the monitor alone. A full disk drops output and says so; it never ends the session."""

    def __init__(self, folder: str, limit_bytes: int = DEFAULT_LIMIT_BYTES, size: tuple[int, int] = DEFAULT_SIZE) -> None:
        self.folder = folder
        self.segment_bytes = max(limit_bytes // SEGMENTS, 4096)
        self.size = size
        self.modes = Modes()
        self.dropped_bytes = 0
        self._dropped_now = 0
        self._started_s = clock.monotonic_s()
        self._out = self._time = -1
        self._used = 0
        self._unnoted = 0  # bytes in the segment that its timing file had no room for yet
        self._torn = False
        self._number = 0
        self._writer = 0
        os.mkdir(folder, 0o700)
        self._next_segment()
        self._write_modes()

    def _open(self, suffix: str) -> int:
        path = os.path.join(self.folder, f"{self._number:06d}.{suffix}")
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _next_segment(self) -> None:
        self._number += 1
        try:
            out = self._open("out")
            timing = self._open("time")
        except OSError:
            self._number -= 1
            return
        self.close()
        self._out, self._time, self._used = out, timing, 0
        self._unnoted, self._torn = 0, False
        self._note(b"r", *self.size)
        oldest = self._number - SEGMENTS - 1
        for suffix in ("out", "time"):
            try:
                os.unlink(os.path.join(self.folder, f"{oldest:06d}.{suffix}"))
            except OSError:
                pass

    def _note(self, kind: bytes, *numbers: int) -> bool:
        """Append a line of timing; say whether it is there whole. A torn one is ended first, and readers pass over it."""
        milliseconds = int((clock.monotonic_s() - self._started_s) * 1000)
        line = b" ".join([kind, b"%d" % milliseconds, *(b"%d" % n for n in numbers)]) + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._time, line)
        except OSError:
            return False
        self._torn = written < len(line) and (self._torn or written > 0)
        return written == len(line)

    def write(self, data: bytes) -> None:
        """Append output."""
        if self._used >= self.segment_bytes:
            self._next_segment()
        try:
            kept = os.write(self._out, data)
        except OSError:
            kept = 0
        if kept:
            self._used += kept
            if self._dropped_now and self._note(b"d", self._dropped_now):
                self._dropped_now = 0
            # What could not be timed is timed with the next piece: else all that follows would be a piece too early.
            self._unnoted = 0 if self._note(b"o", self._unnoted + kept) else self._unnoted + kept
        if kept < len(data):
            self.dropped_bytes += len(data) - kept
            self._dropped_now += len(data) - kept
        if self.modes.feed(data):
            self._write_modes()

    def resize(self, rows: int, columns: int) -> None:
        """Note a new size."""
        self.size = (rows, columns)
        self._note(b"r", rows, columns)
        self._write_modes()

    def name_writer(self, pid: int) -> None:
        """Let the attached clients know which of them types: only its terminal may answer what the program asks."""
        if pid != self._writer:
            self._writer = pid
            self._write_modes()

    def _write_modes(self) -> None:
        value = {
            "modes": self.modes.as_dict(),
            "rows": self.size[0],
            "columns": self.size[1],
            "dropped": self.dropped_bytes,
            "writer": self._writer,
        }
        temporary = os.path.join(self.folder, "modes.tmp")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, fastjson.dumps(value).encode())
            finally:
                os.close(fd)
            os.rename(temporary, os.path.join(self.folder, "modes"))
        except OSError:
            pass

    def close(self) -> None:
        """Close the segments."""
        for fd in (self._out, self._time):
            if fd >= 0:
                os.close(fd)
        self._out = self._time = -1


def read_modes(folder: str) -> tuple[Modes, tuple[int, int]]:
    """Return the modes now in force and the size (rows, columns); defaults where nothing is known yet."""
    value = _read_state(folder)
    try:
        return Modes.from_dict(value["modes"]), (int(value["rows"]), int(value["columns"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Modes(), DEFAULT_SIZE


def read_writer(folder: str) -> int:
    """Return the pid of the attached client that types, 0 where there is none."""
    pid = _read_state(folder).get("writer")
    return pid if type(pid) is int else 0


def _read_state(folder: str) -> "dict[str, Any]":
    try:
        fd = os.open(os.path.join(folder, "modes"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            value = fastjson.loads(stream.read())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def segments(folder: str) -> list[int]:
    """Return the numbers of the segments that are kept, oldest first; an empty list where the folder is gone."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(int(name[:-4]) for name in names if name.endswith(".out") and name[:-4].isdigit())


class Reader:
    """The reading side: raw output in order, from the oldest kept byte or from the end, also while it is written."""

    def __init__(self, folder: str, from_end: bool = False) -> None:
        self.folder = folder
        self.skipped = 0  # segments that were dropped before they could be read
        self._open: dict[int, int] = {}
        self._current = 0
        self.notice()
        if self._open:
            self._current = max(self._open) if from_end else min(self._open)
            if from_end:
                os.lseek(self._open[self._current], 0, os.SEEK_END)

    def notice(self) -> None:
        """Open each new segment at once: opened, it can still be read after the session and its folder are gone."""
        for number in segments(self.folder):
            if number >= self._current and number not in self._open:
                try:
                    path = os.path.join(self.folder, f"{number:06d}.out")
                    self._open[number] = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                except OSError:
                    continue

    def read(self, size: int = 1 << 16) -> bytes:
        """Return the next bytes, b"" where there is nothing more now."""
        while True:
            if self._current not in self._open:
                later = [number for number in self._open if number > self._current]
                if not later:
                    return b""
                if self._current:
                    self.skipped += min(later) - self._current
                self._current = min(later)
            data = os.read(self._open[self._current], size)
            if data:
                return data
            self.notice()
            later = [number for number in self._open if number > self._current]
            if not later:
                return b""
            # The old segment once more: it may have grown between the read above and the birth of the next.
            data = os.read(self._open[self._current], size)
            if data:
                return data
            os.close(self._open.pop(self._current))
            self.skipped += min(later) - self._current - 1
            self._current = min(later)

    def before(self, size: int) -> bytes:
        """Return at most the last size bytes that come before what `read` returns next."""
        parts: list[bytes] = []
        left = size
        for number in reversed([number for number in segments(self.folder) if number <= self._current]):
            fd = self._open.get(number, -1)
            try:
                if number == self._current and fd >= 0:
                    end = os.lseek(fd, 0, os.SEEK_CUR)
                    parts.append(os.pread(fd, min(end, left), max(0, end - left)))
                else:
                    fd = os.open(os.path.join(self.folder, f"{number:06d}.out"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    with open(fd, "rb") as stream:
                        stream.seek(max(0, os.fstat(fd).st_size - left))
                        parts.append(stream.read())
            except OSError:
                continue
            left -= len(parts[-1])
            if left <= 0:
                break
        return b"".join(reversed(parts))

    def close(self) -> None:
        """Close all segments."""
        for fd in self._open.values():
            os.close(fd)
        self._open = {}


POLL_S = 0.2


def events(folder: str, over: "Callable[[], bool] | None" = None) -> "Iterator[tuple[float, str, Any] | None]":
    """Yield (seconds, kind, value) of what is kept of a console log: "r" (rows, columns), "o" text, "m" a remark.

    Text is valid UTF-8 whatever was cut; what was dropped is a remark. over: None to end with what is there now, else a
    function that says whether the session is over: until it does, more is waited for, and None is yielded before each wait.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    opened: dict[int, tuple[IO[bytes], IO[bytes]]] = {}
    done, seconds = 0, 0.0
    size: tuple[int, int] | None = None
    try:
        while True:
            last = over is None or over()  # asked before the look: what was printed before the end is then there
            for number in segments(folder):
                if number > done and number not in opened:
                    try:
                        timing = _open_segment(folder, number, "time")
                    except OSError:
                        continue
                    try:
                        opened[number] = (timing, _open_segment(folder, number, "out"))
                    except OSError:
                        timing.close()
            for number in sorted(opened):
                timing, out = opened[number]
                gap = number > done + 1 and timing.tell() == 0
                for kind, seconds, numbers in _timing(timing):
                    if kind == "r":
                        if numbers != size:
                            size = (numbers[0], numbers[1])
                            yield seconds, "r", size
                    elif kind == "d":
                        yield seconds, "m", f"{numbers[0]} bytes could not be kept"
                    elif kind == "o":
                        data = out.read(numbers[0])
                        text = decoder.decode(data)
                        if text:
                            yield seconds, "o", text
                        if len(data) < numbers[0]:
                            yield seconds, "m", f"{numbers[0] - len(data)} bytes are missing"
                    if gap:
                        yield seconds, "m", "older output is not kept"
                        gap = False
                if number < max(opened):  # it was so when the look began: the writer has done with this one
                    timing.close()
                    out.close()
                    del opened[number]
                    done = number
            if last:
                break
            yield None
            time.sleep(POLL_S)
    finally:
        for pair in opened.values():
            for stream in pair:
                stream.close()
    rest = decoder.decode(b"", True)
    if rest:
        yield seconds, "o", rest


def _open_segment(folder: str, number: int, suffix: str) -> "IO[bytes]":
    path = os.path.join(folder, f"{number:06d}.{suffix}")
    return open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def _timing(stream: "IO[bytes]") -> "Iterator[tuple[str, float, tuple[int, ...]]]":
    """Yield (kind, seconds, numbers) of the whole lines that a timing file has now; what is no such line is passed over."""
    while True:
        line = stream.readline()
        if not line.endswith(b"\n"):
            stream.seek(-len(line), os.SEEK_CUR)  # the rest of it is still to come
            return
        kind, *words = line.decode("ascii", "replace").split() or [""]
        if words and all(word.isdigit() for word in words) and len(words) == {"r": 3, "o": 2, "d": 2}.get(kind):
            yield kind, int(words[0]) / 1000, tuple(map(int, words[1:]))


def asciicast(folder: str, started_at_epoch: int) -> "Iterator[str]":
    """Yield the lines of an asciicast v2 recording (asciinema's documented format) of what is kept of a console log."""
    return (line for line in live_asciicast(folder, started_at_epoch) if line is not None)


def live_asciicast(folder: str, started_at_epoch: int, over: "Callable[[], bool] | None" = None) -> "Iterator[str | None]":
    """Yield the lines of a recording: output and sizes, never input; over, and None among the lines, as for `events`."""
    header_done = False
    for event in events(folder, over):
        if event is None:
            yield None
            continue
        seconds, kind, value = event
        if not header_done:
            header_done = True
            yield header(value if kind == "r" else DEFAULT_SIZE, started_at_epoch)
            if kind == "r":
                continue
        if kind == "r":
            value = f"{value[1]}x{value[0]}"
        yield f"[{seconds}, {fastjson.quoted(kind)}, {fastjson.quoted(value)}]" + "\n"
    if not header_done:
        yield header(DEFAULT_SIZE, started_at_epoch)


def header(size: tuple[int, int], started_at_epoch: int) -> str:
    """Return the first line of a recording."""
    return fastjson.dumps({"version": 2, "width": size[1], "height": size[0], "timestamp": started_at_epoch}) + "\n"
