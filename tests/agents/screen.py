"""Terminals for tests: what one shows after some output, and one that a command runs on and that answers its questions.

pyte does the drawing; what it does not understand of real programs is taken out before.
"""

import json
import os
import re
import select
import termios
import time

import pexpect
import pyte

from support import wait_until
from workcell import console

# Device control, application and privacy strings, private and intermediate-byte sequences that pyte would print or stumble on.
_STRINGS = re.compile(rb"\x1b[P_X^].*?(?:\x1b\\|\x07)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", re.DOTALL)
_PRIVATE = re.compile(rb"\x1b\[[<=>?][0-9;:]*[ -/]*[mucnqst]|\x1b\[[0-9;:]*[ -/]+[@-~]|\x1b\[[<=>][0-9;:]*[@-~]")
_COLONS = re.compile(rb"\x1b\[[0-9;:]*:[0-9;:]*m")
# The beginning of a sequence that the next piece of output goes on with.
_CUT = re.compile(rb"(?:\x1b[PX^_\]](?:(?!\x07|\x1b\\).)*|\x1b\[[0-?]*[ -/]*|\x1b[ -/]*)\Z", re.DOTALL)


class Screen(pyte.Screen):
    """A screen with an alternate one, which pyte lacks, and no scroll-back to clear."""

    _main = None

    def set_mode(self, *modes, private=False, **more):
        """Switch modes on; 47, 1047 and 1049 begin an empty screen."""
        if private and {47, 1047, 1049} & set(modes) and self._main is None:
            self._main = ([dict(self.buffer[row]) for row in range(self.lines)], self.cursor.y, self.cursor.x)
            self.erase_in_display(2)
        super().set_mode(*modes, private=private, **more)

    def reset_mode(self, *modes, private=False, **more):
        """Switch modes off; the screen that was there before comes back."""
        if private and {47, 1047, 1049} & set(modes) and self._main is not None:
            self.erase_in_display(2)
            lines, self.cursor.y, self.cursor.x = self._main
            self._main = None
            for row, line in enumerate(lines[: self.lines]):
                self.buffer[row].update(line)
        super().reset_mode(*modes, private=private, **more)

    def select_graphic_rendition(self, *attributes, private=False):
        """Set colours; the private form sets something else."""
        if not private:
            super().select_graphic_rendition(*attributes)

    def erase_in_display(self, how=0, *args, **more):
        """Clear, but for scroll-back."""
        if how != 3:
            super().erase_in_display(how)


class Emulator:
    """A terminal's screen that is fed output piece by piece."""

    def __init__(self, rows=24, columns=80):
        self.screen = Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._carry = b""

    def feed(self, data):
        """Draw a piece of output (bytes), which may end anywhere."""
        data = self._carry + data
        cut = _CUT.search(data)
        data, self._carry = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
        data = _COLONS.sub(lambda found: found[0].replace(b":", b";"), _PRIVATE.sub(b"", _STRINGS.sub(b"", data)))
        self._stream.feed(data)

    def resize(self, rows, columns):
        """Change the size."""
        self.screen.resize(rows, columns)

    def lines(self):
        """Return the lines without blanks at their ends."""
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        """Return all lines as one text, without blank ones at its end."""
        return "\n".join(self.lines()).rstrip()


class Detached:
    """What a live session's own screen shows, read from its console log, at the size that it was started with."""

    def __init__(self, world, session_id):
        self.world, self.session_id = world, session_id
        self._folder = os.path.join(world.show(session_id)["session_audit_dir"], "console")
        self._emulator = Emulator()
        self._seen = 0

    def text(self):
        """Return what is on the screen now."""
        data = b""
        try:
            for name in sorted(os.listdir(self._folder)):
                if name.endswith(".out"):
                    with open(os.path.join(self._folder, name), "rb") as stream:
                        data += stream.read()
        except FileNotFoundError:
            pass  # it has ended
        self._emulator.feed(data[self._seen :])
        self._seen = len(data)
        return self._emulator.text()

    def wait_for(self, pattern, timeout_s=40):
        """Wait until a regular expression matches somewhere on the screen."""
        _wait_for(self.text, pattern, timeout_s)

    def agrees_with_the_command(self):
        """Wait until workcell-session-screen prints the same."""

        def agrees():
            done = self.world.session("screen", "--id", self.session_id)
            return done.exit_status == 0 and done.stdout.rstrip() == self.text()

        wait_until(agrees, what=f"the same from workcell-session-screen as\n{self.text()}\n")


def _wait_for(text, pattern, timeout_s):
    try:
        wait_until(lambda: re.search(pattern, text()), timeout_s, pattern)
    except AssertionError as error:
        raise AssertionError(f"{error}; the screen shows:\n{text()}") from None


class Terminal:
    """A terminal that a command runs on; it answers what programs ask a terminal, as xterm would."""

    ANSWERS = (
        (re.compile(rb"\x1b\[0?c"), b"\x1b[?64;1;2;6;9;15;18;21;22c"),
        (re.compile(rb"\x1b\[>0?c"), b"\x1b[>41;390;0c"),
        (re.compile(rb"\x1b\[>0?q"), b"\x1bP>|XTerm(390)\x1b\\"),
        (re.compile(rb"\x1b\[5n"), b"\x1b[0n"),
        (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),
        (re.compile(rb"\x1b\[\?u"), b"\x1b[?0u"),
        (re.compile(rb"\x1b\]10;\?(?:\x07|\x1b\\)"), b"\x1b]10;rgb:dddd/dddd/dddd\x1b\\"),
        (re.compile(rb"\x1b\]11;\?(?:\x07|\x1b\\)"), b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    )

    def __init__(self, words, env, folder, rows, columns):
        self.child = pexpect.spawn(words[0], words[1:], env=env, cwd=folder, dimensions=(rows, columns), timeout=20)
        self.child.delaybeforesend = None
        self.attributes_before = termios.tcgetattr(self.child.child_fd)
        self.emulator = Emulator(rows, columns)
        self.modes = console.Modes()
        self.ended = False
        self._printed = 0
        wait_until(lambda: self.pump() or self.ended or not self._canonical(), what="a raw terminal")
        self.settle()

    def _canonical(self):
        return termios.tcgetattr(self.child.child_fd)[3] & termios.ICANON

    def settle(self):
        """Wait until the program seems to have drawn its screen: nothing was printed for a while, or it never stops."""
        give_up_at, printed = time.monotonic() + 2, -1
        while self._printed != printed and time.monotonic() < give_up_at:
            printed = self._printed
            self._pump_for(0.2)

    def _pump_for(self, seconds):
        until = time.monotonic() + seconds
        while not self.ended and (left := until - time.monotonic()) > 0:
            select.select([self.child.child_fd], [], [], left)
            self.pump()

    def pump(self):
        """Take what was printed, draw it and answer it."""
        while not self.ended:
            try:
                data = self.child.read_nonblocking(1 << 16, 0)
            except pexpect.TIMEOUT:
                return
            except pexpect.EOF:
                self.ended = True
                return
            self._printed += len(data)
            self.emulator.feed(data)
            self.modes.feed(data)
            for question, answer in self.ANSWERS:
                for _ in question.findall(data):
                    self.child.send(answer)

    def text(self):
        """Return what is on the screen now."""
        self.pump()
        return self.emulator.text()

    def wait_for(self, pattern, timeout_s=20):
        """Wait until a regular expression matches somewhere on the screen."""
        _wait_for(self.text, pattern, timeout_s)

    def type(self, text):
        """Press keys, as a person does: programs take what comes at once for a paste, and an Enter in it for a new line."""
        for key in text:
            self._pump_for(0.1 if key == "\r" else 0.02)
            self.child.send(key)

    def resize(self, rows, columns, repaints=True):
        """Change the size of the window; a program that repaints does so."""
        self.pump()
        self.emulator.resize(rows, columns)
        self._printed = 0
        self.child.setwinsize(rows, columns)
        if repaints:
            wait_until(lambda: self.pump() or self._printed, what="a repaint")

    def widest(self):
        """Return the length of the longest line on the screen."""
        self.pump()
        return max(len(line) for line in self.emulator.lines())

    def wait_for_end(self):
        """Return the exit status of the command, when all that it printed is drawn."""
        wait_until(lambda: self.pump() or self.ended, what="the end of the command")
        self.child.wait()
        return self.child.exitstatus if self.child.exitstatus is not None else 128 + self.child.signalstatus

    def detach(self):
        """Leave with the detach key; the terminal is then as it was before."""
        self.child.send("\x1c")
        assert self.wait_for_end() == 0, self.text()
        assert termios.tcgetattr(self.child.child_fd) == self.attributes_before
        assert self.modes.as_dict() == console.Modes().as_dict(), "modes that are still on"

    def close(self):
        """End the command, if it has not ended."""
        self.child.close(force=True)


def replay(path):
    """Play a recording (asciicast v2) and return its screen after every piece of output; raise where it is not valid."""
    with open(path, encoding="utf-8") as stream:
        header, *events = [json.loads(line) for line in stream]
    assert header["version"] == 2
    emulator = Emulator(header["height"], header["width"])
    screens, last_s = [], 0.0
    for at_s, kind, data in events:
        assert kind in ("o", "r", "m") and at_s >= last_s, (at_s, kind)
        last_s = at_s
        if kind == "r":
            columns, _, rows = data.partition("x")
            emulator.resize(int(rows), int(columns))
        elif kind == "o":
            emulator.feed(data.encode("utf-8", "surrogateescape"))
            screens.append(emulator.text())
    return screens
