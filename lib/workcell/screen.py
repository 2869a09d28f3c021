"""What is on an agent's screen: the newest output of its terminal, drawn once more by pyte.

pyte knows less than the programs that agents are: what it would take for text, or fail at, is filtered out before; the
alternate screen is two screens of ours. Everything shown came from the sandbox, so nothing but printable text is returned.
"""

import os
import re

from workcell import console, logs, output, record, scratch
from workcell.errors import PreconditionError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TAIL_BYTES = 128 << 10  # pyte draws about a third of a megabyte in a second
LARGEST = (500, 1000)

_TOKEN = re.compile(
    r"\x1b\[\?(?P<modes>[0-9;]{1,64})(?P<set>[hl])"
    r"|(?P<colours>\x1b\[[0-9;:]*m)"  # they do not show in text, and pyte does not know all of them
    r"|(?P<repeat>(?P<what>[^\x00-\x1f\x7f])\x1b\[(?P<times>[0-9]{1,4})b)"
    r"|(?P<known>\x1b\[[0-9;]*[A-HJKLMPSTX@`adefgr]|\x1b[78DEHMc])"
    r"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]|\x1b[PX^_\]][^\x1b\x07]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x1b.?)"
    r"|(?P<text>[^\x1b]+)",
    re.DOTALL,
)
_ALTERNATE = {"1049", "1047", "47"}
_PASSED_ON = {"6", "7", "25"}


class Screen:
    """A drawn screen: lines without blanks at their ends, as many as it has rows; row and column of the cursor from 0."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.lines: list[str] = []
        self.row = self.column = 0
        self.hidden = self.alternate = False

    def text(self) -> str:
        """Return the lines down to the last that is not empty, one LF after each."""
        lines = self.lines[:]
        while lines and not lines[-1]:
            lines.pop()
        return "".join([line + "\n" for line in lines])

    def as_dict(self, session_id: str) -> "dict[str, Any]":
        """Return what --json prints."""
        return {
            "session_id": session_id,
            "rows": self.rows,
            "columns": self.columns,
            "cursor": {"row": self.row, "column": self.column, "hidden": self.hidden},
            "alternate": self.alternate,
            "lines": self.lines,
        }


def of_session(fields: "dict[str, Any]", path: str) -> Screen:
    """Return the screen of a session as it is, or as it was at the end.

    Raises PreconditionError where pyte is missing, WorkcellError where no output of the session is kept.
    """
    folder = os.path.join(str(fields["session_audit_dir"]), scratch.CONSOLE)
    if not record.is_terminal(fields) and scratch.is_ours(str(fields["session_audit_dir"])) and os.path.isdir(folder):
        modes, size = console.read_modes(folder)
        data = console.Reader(folder, from_end=True).before(TAIL_BYTES)
        return draw(data, size, any(modes.private.get(number) for number in modes.ALTERNATE))
    if not fields["transcript_log_path"]:
        raise WorkcellError(
            str(fields["session_id"]), "it is over, and no recording of it was kept", "see workcell-session-show"
        )
    data, size = logs.recorded_tail(fields, path, TAIL_BYTES)
    return draw(data, size, False)


def draw(data: bytes, size: tuple[int, int], alternate: bool) -> Screen:
    """Draw the newest output of a terminal of that many rows and columns.

    alternate: is it on its alternate screen now; only asked where data does not tell.
    """
    try:
        import pyte
    except ImportError:
        raise PreconditionError(
            "pyte", "is not installed, and it is what draws a screen", "install the Python package pyte"
        ) from None
    rows, columns = min(size[0], LARGEST[0]), min(size[1], LARGEST[1])
    text = data.decode("utf-8", "replace")
    if len(data) >= TAIL_BYTES:
        text = text[max(0, text.find("\n")) :]  # the beginning may be half a sequence
    painter = _painter(pyte, rows, columns)
    screens = [painter(), painter()]  # the main and the alternate one
    first = next((found for found in _TOKEN.finditer(text) if _switches(found)), None)
    at = int(alternate if first is None else first["set"] == "l")
    for kind, piece in _pieces(text):
        if kind == "switch":
            at = int(piece == "h")
            if at:
                screens[1] = painter()
            continue
        screens[at].feed(piece)
    drawn: Screen = screens[at].result(rows, columns, bool(at))
    return drawn


def _switches(found: "re.Match[str]") -> bool:
    return bool(found["modes"]) and not _ALTERNATE.isdisjoint(found["modes"].split(";"))


def _pieces(text: str) -> "list[tuple[str, str]]":
    """Return ("feed", what pyte understands) and ("switch", `h` or `l`) in order."""
    pieces: list[tuple[str, str]] = []
    parts: list[str] = []

    def flush() -> None:
        if parts:
            pieces.append(("feed", "".join(parts)))
            parts.clear()

    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if _switches(found):
            flush()
            pieces.append(("switch", found["set"]))
        elif found["modes"]:
            numbers = [number for number in found["modes"].split(";") if number in _PASSED_ON]
            if numbers:
                parts.append(f"\x1b[?{';'.join(numbers)}{found['set']}")
        elif found["repeat"]:
            parts.append(found["what"] * (1 + min(int(found["times"]), LARGEST[1])))
        elif kind in ("known", "text"):
            parts.append(found[0])
    flush()
    return pieces


def _painter(pyte: "Any", rows: int, columns: int) -> "Any":
    """Return the class of one screen: pyte's, with scrolling added and its faults kept from us."""

    class Stream(pyte.Stream):  # type: ignore[misc]
        csi = {**pyte.Stream.csi, "S": "scroll_up", "T": "scroll_down"}
        events = pyte.Stream.events | {"scroll_up", "scroll_down"}

    class Surface(pyte.Screen):  # type: ignore[misc]
        def scroll_up(self, count: int = 1, **_: object) -> None:
            self._scroll(count, self.index, lambda region: region[1])

        def scroll_down(self, count: int = 1, **_: object) -> None:
            self._scroll(count, self.reverse_index, lambda region: region[0])

        def _scroll(self, count: int, step: "Any", edge: "Any") -> None:
            region = self.margins or (0, self.lines - 1)
            before, self.cursor.y = self.cursor.y, edge(region)
            for _ in range(min(count or 1, self.lines)):
                step()
            self.cursor.y = before

        def erase_in_display(self, how: int = 0, *args: object, **_: object) -> None:
            if how != 3:  # the lines that were scrolled away, not the screen
                super().erase_in_display(how)

    class Painter:
        def __init__(self) -> None:
            self._surface = Surface(columns, rows)
            self._stream = Stream(self._surface)

        def feed(self, text: str) -> None:
            try:
                self._stream.feed(text)
            except Exception:  # a sequence that pyte cannot take costs that sequence, not the screen
                self._stream = Stream(self._surface)

        def result(self, rows: int, columns: int, alternate: bool) -> Screen:
            drawn = Screen(rows, columns)
            drawn.lines = [output.printable(line.rstrip()).replace("\t", " ") for line in self._surface.display]
            cursor = self._surface.cursor
            drawn.row, drawn.column = min(cursor.y, rows - 1), min(cursor.x, columns - 1)
            drawn.hidden, drawn.alternate = bool(cursor.hidden), alternate
            return drawn

    return Painter
