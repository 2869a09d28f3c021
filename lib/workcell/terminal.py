"""The operator's own terminal: its size, raw mode, and back, whatever happens."""

import fcntl
import os
import struct
import termios

from workcell.console import DEFAULT_SIZE


def size_of(fd: int) -> tuple[int, int] | None:
    """Return (rows, columns) of a terminal, None where it has no size or is none (ioctl_tty(2), TIOCGWINSZ)."""
    try:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8))
    except OSError:
        return None
    return (rows, columns) if rows > 0 and columns > 0 else None


def size_or_default() -> tuple[int, int]:
    """Return the size of the terminal on standard input, output or error, else 24 rows and 80 columns."""
    for fd in (0, 1, 2):
        size = size_of(fd)
        if size:
            return size
    return DEFAULT_SIZE


class Raw:
    """Raw mode for a block: each key as it comes, nothing echoed; the attributes are as before afterwards (termios(3))."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._before = termios.tcgetattr(fd)

    def __enter__(self) -> "Raw":
        raw = termios.tcgetattr(self.fd)
        raw[0] &= ~(
            termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON | termios.INLCR | termios.IGNCR
        )
        raw[1] &= ~termios.OPOST
        raw[2] = (raw[2] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
        raw[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.fd, termios.TCSADRAIN, raw)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # TCSADRAIN, not TCSAFLUSH: what the operator typed ahead is his shell's.
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)
        except termios.error:
            pass  # the terminal is gone


def is_terminal(fd: int) -> bool:
    """Say whether a descriptor is a terminal."""
    return os.isatty(fd)
