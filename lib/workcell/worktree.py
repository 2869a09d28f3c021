"""Walk and read a tree of files that somebody hostile may change while we look.

Nothing is opened by more than one name below an open folder, no link is followed (openat(2), O_NOFOLLOW), nothing but regular
files and folders is opened at all, and how much is looked at has an end. Looking changes nothing, not even the time of the last
access where the kernel lets us (O_NOATIME).
"""

import errno
import os
import stat

from workcell import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRIES_LIMIT = 1_000_000
DEPTH_LIMIT = 256

FILE, LINK, FOLDER, SPECIAL, REPOSITORY = "file", "link", "folder", "special", "repository"

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOATIME = getattr(os, "O_NOATIME", 0)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class OutOfTime(Exception):
    """The time for looking is over."""


def open_folder(name: "str | bytes", dir_fd: int | None = None) -> int:
    """Return a descriptor of a folder, never of what a link leads to. Raises OSError."""
    return _open(name, _FOLDER_FLAGS, dir_fd)


def open_file(name: "str | bytes", dir_fd: int) -> int:
    """Return a descriptor of whatever is no link; opening blocks on nothing. Raises OSError."""
    return _open(name, _FILE_FLAGS, dir_fd)


def _open(name: "str | bytes", flags: int, dir_fd: int | None) -> int:
    try:
        return os.open(name, flags | _NOATIME, dir_fd=dir_fd)
    except PermissionError:  # O_NOATIME is for the owner and root
        return os.open(name, flags, dir_fd=dir_fd)


class Walk:
    """One walk through a tree, from an open folder down.

    problems: (path, why) of what could not be looked at; stopped: why the walk ended before its end, "" when it did not.
    """

    def __init__(self, root_fd: int, deadline: float, leave_out: "frozenset[bytes]" = frozenset()) -> None:
        self._root_fd, self._deadline, self._leave_out = root_fd, deadline, leave_out
        self.problems: list[tuple[bytes, str]] = []
        self.stopped = ""

    def entries(self) -> "Iterator[tuple[bytes, int, bytes, str]]":
        """Yield (path, descriptor of its folder, name, kind) of everything; the descriptor is good until the next is asked for.

        kind: FILE, LINK, FOLDER (before what is in it), SPECIAL (a FIFO, socket or device) or REPOSITORY: a `.git` of any kind
        below the root, which is not entered. What `leave_out` names (paths) is passed over.
        """
        count = 0
        stack: list[tuple[int, bytes, Iterator[tuple[bytes, str]]]] = []
        try:
            stack.append((self._root_fd, b"", iter(self._names(self._root_fd, b""))))
            while stack:
                fd, prefix, names = stack[-1]
                entry = next(names, None)
                if entry is None:
                    stack.pop()
                    if stack:
                        os.close(fd)
                    continue
                name, kind = entry
                path = prefix + name
                if path in self._leave_out:
                    continue
                count += 1
                if count > ENTRIES_LIMIT:
                    self.stopped = f"there are more than {ENTRIES_LIMIT} files and folders"
                    return
                if not count & 0xFF and clock.monotonic_s() > self._deadline:
                    self.stopped = "it takes too long"
                    return
                if name == b".git":
                    yield path, fd, name, REPOSITORY
                    continue
                yield path, fd, name, kind
                if kind == FOLDER:
                    if len(stack) > DEPTH_LIMIT:
                        self.problems.append((path, f"is more than {DEPTH_LIMIT} folders deep"))
                        continue
                    try:
                        below = open_folder(name, fd)
                    except OSError as error:
                        if error.errno not in _GONE:
                            self.problems.append((path, error.strerror or str(error)))
                        continue
                    stack.append((below, path + b"/", iter(self._names(below, path))))
        except OutOfTime:
            self.stopped = "it takes too long"
        finally:
            for fd, _, _ in stack[1:]:
                os.close(fd)

    def _names(self, fd: int, path: bytes) -> "list[tuple[bytes, str]]":
        found = []
        try:
            with os.scandir(fd) as listed:
                for entry in listed:
                    if entry.is_file(follow_symlinks=False):
                        kind = FILE
                    elif entry.is_dir(follow_symlinks=False):
                        kind = FOLDER
                    elif entry.is_symlink():
                        kind = LINK
                    else:
                        kind = SPECIAL
                    found.append((os.fsencode(entry.name), kind))
                    if len(found) > ENTRIES_LIMIT:
                        break
                    if not len(found) & 0xFFF and clock.monotonic_s() > self._deadline:
                        raise OutOfTime
        except OSError as error:
            self.problems.append((path or b".", error.strerror or str(error)))
        return found


def special_kind(dir_fd: int, name: bytes) -> str:
    """Return the word for what is neither file nor folder nor link."""
    try:
        mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except OSError:
        return "something that is gone"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def read(fd: int, size: int) -> bytes:
    """Return what a regular file holds, of which `size` bytes are expected; one that grows meanwhile is cut there."""
    data = os.read(fd, size) if size else b""
    while len(data) < size:
        part = os.read(fd, size - len(data))
        if not part:
            break
        data += part
    return data


def chunks(fd: int, size: int, deadline: float) -> "Iterator[bytes]":
    """Yield what a regular file holds up to `size` bytes; raise OutOfTime."""
    left = size
    while left > 0:
        if clock.monotonic_s() > deadline:
            raise OutOfTime
        part = os.read(fd, min(left, 1 << 20))
        if not part:
            return
        left -= len(part)
        yield part


def find(root_fd: int, path: bytes) -> "tuple[int, bytes]":
    """Return (a new descriptor of its folder, its name) of a path below an open folder; raise OSError, for a link in it too."""
    *folders, name = path.split(b"/")
    fd = os.dup(root_fd)
    try:
        for folder in folders:
            below = open_folder(folder, fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd, name


_ESCAPES = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 34: r"\"", 92: r"\\"}


def quoted(path: bytes, blanks: bool = False, always: bool = False) -> str:
    """Return a path as git prints it: whole, in ASCII, and in quotes with C's escapes where it has anything odd.

    blanks: a blank is odd, too, as it is to `git status --short`; always: use quotes in any case.
    """
    plain = path.isascii() and path.decode().isprintable() and b'"' not in path and b"\\" not in path
    if plain and not always and not (blanks and b" " in path):
        return path.decode()
    characters = (_ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in path)
    return '"' + "".join(characters) + '"'
