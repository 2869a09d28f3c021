"""self_test - what a program sees of the adapter, told line by line on its terminal

Usage: python3 -I -S -c SOURCE terminal|succeed|killed

`terminal` tells NAME=WHAT for each thing that it tried, waits for a paste of paste() and then for TERM, and ends with 7.
`succeed` ends with 0, `killed` by SIGKILL. workcell-session-probe-image(1) runs it in an image and judges what it says. As
little as the adapter needs: Python 3.8, its modules, no program of the image.
"""

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
import tty

PASTE_BYTES = 1 << 20
ORPHANS = 20
SPLIT = "split \u00e9 \u20ac \U0001f600 text"
PATIENCE_S = 30.0


def paste():
    """Return the bytes that have to arrive: lines of all lengths, with characters of one to four bytes."""
    parts, size_bytes, number = [], 0, 0
    while size_bytes < PASTE_BYTES:
        part = ("%d \u00e9\u20ac\U0001f600 " % number + "x" * (number * 37 % 211) + "\n").encode()
        parts.append(part)
        size_bytes += len(part)
        number += 1
    return b"".join(parts)[:PASTE_BYTES]


def tell(name, what):
    """Print one line."""
    os.write(1, ("%s=%s\r\n" % (name, what)).encode())


def tell_in_pieces(name, what):
    """Print one line, a byte at a time."""
    for byte in ("%s=%s\r\n" % (name, what)).encode():
        os.write(1, bytes([byte]))
        time.sleep(0.002)


def orphans_left():
    """Make processes whose parent ends before they do, and return how many are still there a while after their end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for _ in range(ORPHANS):
            pid = os.fork()
            if pid == 0:
                time.sleep(0.05)
                os._exit(0)
            os.write(writing, struct.pack("=i", pid))
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    pids = [pid for (pid,) in struct.iter_unpack("=i", os.read(reading, ORPHANS * 4))]
    deadline = time.monotonic() + 5
    while pids and time.monotonic() < deadline:
        time.sleep(0.01)
        pids = [pid for pid in pids if os.path.exists("/proc/%d" % pid)]
    return len(pids)


def paste_arrives():
    """Read a paste from the terminal and return what is wrong with it, "" for nothing."""
    expected, found = paste(), []
    left, deadline = len(expected), time.monotonic() + PATIENCE_S
    while left > 0:
        if not select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return "%d of %d bytes came" % (len(expected) - left, len(expected))
        data = os.read(0, 65536)
        left -= len(data)
        found.append(data)
    data = b"".join(found)
    if data == expected:
        return ""
    at = next((at for at in range(len(expected)) if data[at : at + 1] != expected[at : at + 1]), len(expected))
    return "byte %d of %d is another one" % (at, len(expected))


def terminal():
    """Try all that one session can show."""
    ended = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    tty.setraw(0)
    rows, columns = struct.unpack("4H", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2]
    tell("size", "%d %d" % (rows, columns))
    tell_in_pieces("split", SPLIT)
    tell("orphans", orphans_left())
    tell("waiting", "paste")
    tell("paste", paste_arrives() or "identical")
    tell("waiting", "term")
    deadline = time.monotonic() + PATIENCE_S
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    tell("term", "received" if ended else "none came")
    os._exit(7 if ended else 3)


if __name__ == "__main__":
    if sys.argv[1] == "terminal":
        terminal()
    elif sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
