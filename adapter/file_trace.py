#!/usr/bin/env python3
"""file_trace - tell which files below some folders come, change and go, by comparing snapshots

Usage: python3 -I -S file_trace.py INTERVAL_S HOME [FOLDER...]

Takes a first snapshot of HOME and of each FOLDER, goes into the background, and from then on writes a line of JSON to
standard output for each difference. TERM asks for a last comparison and the end. Of HOME, what holds credentials is passed
over; give - for HOME to watch none. No link is followed and no other file system entered. With WORKCELL_TRACE_FIFO, the path
of the FIFO that standard output is, the end comes once its reader has taken all and gone, 2 s later at most.

A line is a list: ["start", ROOT], ["create", PHASE, PATH, STATE], ["modify", PHASE, PATH, STATE, STATE],
["delete", PHASE, PATH, STATE], ["limit", ROOT, COUNT], ["stop", ROOT]; PHASE is `watch` or `final`, a STATE is
[KIND, MODE, SIZE, MTIME, TARGET].

Exit status: 0 asked to end, or nobody reads any more; 2 usage
"""

from __future__ import annotations

import os
import stat
import sys
import time

try:
    import _signal as signal  # see pty_adapter.py
except ImportError:
    import signal

LIMIT_ENTRIES = 200_000  # of one root; what is beyond is not watched
READER_S = 1.5  # the adapter waits a little longer
LARGEST_SHARE = 10  # a comparison takes at most one part of so many of the time

# Whole folders and files of a home whose very names say something about logins.
SENSITIVE = frozenset(
    (
        ".aws .azure .codex .claude .copilot .cache/github-copilot .config/aws .config/azure .config/claude-code "
        ".config/github-copilot .config/docker .gemini .config/gcloud .config/gh .docker .gnupg .kube .npm .ssh "
        ".terraform.d .claude.json .mcp.json .npmrc .pypirc"
    ).split()
)


class Root:
    """One watched folder and what was in it when it was last looked at."""

    def __init__(self, path, skipped):
        self.path, self.skipped = path, frozenset(os.path.join(path, name) for name in skipped)
        self.entries = {}
        self.is_cut = False

    def snapshot(self):
        """Return {path: (what a change shows in, STATE)} of all that is there now."""
        found = {}
        self.is_cut = False
        try:
            device = os.lstat(self.path).st_dev
        except OSError:
            return found
        folders = [self.path]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as listed:
                    for entry in listed:
                        if entry.path in self.skipped:
                            continue
                        if len(found) >= LIMIT_ENTRIES:
                            self.is_cut = True
                            return found
                        below = _look(entry.path, device, found)
                        if below:
                            folders.append(entry.path)
            except OSError:
                continue  # gone since, or not ours to read
        return found


def _look(path, device, found):
    """Put what is at a path into `found`; say whether it is a folder to go into."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    kind, target = "other", "-"
    if stat.S_ISREG(state.st_mode):
        kind = "file"
    elif stat.S_ISDIR(state.st_mode):
        kind = "dir"
    elif stat.S_ISLNK(state.st_mode):
        kind = "symlink"
        try:
            target = os.readlink(path)
        except OSError:
            target = "?"
    mark = (state.st_mode, state.st_ino, target)
    if kind != "dir":  # a folder's own size and time change with each file in it, and those are told themselves
        mark += (state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    shown = [kind, "%o" % stat.S_IMODE(state.st_mode), state.st_size, int(state.st_mtime), target]
    found[path] = (mark, shown)
    return kind == "dir" and state.st_dev == device


def as_json(value):
    """Return a text, a number or a list of them as JSON; the smallest Python there is has no module for it."""
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if isinstance(value, int):
        return str(value)
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return '"' + "".join(chr(code) if 32 <= code < 127 and code not in (34, 92) else "\\u%04x" % code for code in codes) + '"'


def tell(*line):
    """Write one line; end where nobody reads any more."""
    data = ("[" + ", ".join(map(as_json, line)) + "]\n").encode("ascii")
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        os._exit(0)


def await_reader(fifo):
    """Let go of a FIFO and wait until nobody has it open for reading: open(2) then fails with ENXIO."""
    deadline = time.monotonic() + READER_S
    os.close(1)
    while fifo and time.monotonic() < deadline:
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        except OSError:
            return
        time.sleep(0.005)


def compare(root, phase):
    """Tell what has changed since the last look: first what is gone or different, then what is new."""
    before, was_cut = root.entries, root.is_cut
    now = root.entries = root.snapshot()
    for path, (mark, shown) in before.items():
        if path not in now:
            if not root.is_cut:  # else it may only have fallen off the end
                tell("delete", phase, path, shown)
        elif now[path][0] != mark:
            tell("modify", phase, path, shown, now[path][1])
    for path, (_, shown) in now.items():
        if path not in before and not was_cut:
            tell("create", phase, path, shown)
    if root.is_cut and not was_cut:
        tell("limit", root.path, LIMIT_ENTRIES)


def main(argv):
    if len(argv) < 2:
        os.write(2, b"file_trace: no folder given; see its header\n")
        return 2
    interval_s = float(argv[0])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    roots = [Root(argv[1], SENSITIVE)] if argv[1] != "-" else []
    roots += [Root(path, ()) for path in argv[2:]]
    for root in roots:
        tell("start", root.path)
        root.entries = root.snapshot()
        if root.is_cut:
            tell("limit", root.path, LIMIT_ENTRIES)
    if os.fork():
        os._exit(0)  # whoever waits for us can go on: from here on nothing is missed
    os.setsid()
    try:
        os.nice(19)
    except OSError:
        pass
    pause_s = interval_s
    while signal.sigtimedwait([signal.SIGTERM], pause_s) is None:
        begin = time.monotonic()
        for root in roots:
            compare(root, "watch")
        pause_s = max(interval_s, (time.monotonic() - begin) * (LARGEST_SHARE - 1))
    for root in roots:
        compare(root, "final")
    for root in roots:
        tell("stop", root.path)
    await_reader(os.environ.get("WORKCELL_TRACE_FIFO"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
