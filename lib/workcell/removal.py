"""Remove a tree of files that somebody hostile has made: however deep, closed or full it is, and never by way of a link.

Every name is removed in an open folder (unlinkat(2)), every folder is opened from the one above it (openat(2), O_NOFOLLOW).
"""

import os
import stat

from workcell.errors import WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH = 64  # of descriptors that are open together
_AT_ONCE = 4096
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(dir_fd: int, name: str) -> None:
    """Remove a name in an open folder with all that is in it; nothing happens where it is not there.

    What lies too deep is moved up first, so that the depth costs nothing. Raises OSError, and WorkcellError where something
    else is mounted in it.
    """
    try:
        os.unlink(name, dir_fd=dir_fd)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # what unlink(2) says of a folder: Linux the one, POSIX the other
        pass
    try:
        top = _enter(name, dir_fd)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(name, dir_fd=dir_fd)  # its own reason, now
        return
    try:
        _clear(top, top, os.fstat(top).st_dev, 0)
    finally:
        os.close(top)
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except FileNotFoundError:
        pass


def _clear(fd: int, top: int, device: int, depth: int) -> None:
    while names := list(_names(fd)):
        for name, is_folder in names:
            try:
                if not is_folder:
                    os.unlink(name, dir_fd=fd)
                    continue
                below = _enter(name, fd)
            except FileNotFoundError:
                continue  # somebody else finishes the same
            try:
                if os.fstat(below).st_dev != device:
                    raise WorkcellError(os.fsdecode(name), "something is mounted there", "unmount it and delete again")
                if depth >= _DEPTH:
                    os.rename(name, b".workcell-" + os.urandom(8).hex().encode(), src_dir_fd=fd, dst_dir_fd=top)
                    continue
                _clear(below, top, device, depth + 1)
            finally:
                os.close(below)
            try:
                os.rmdir(name, dir_fd=fd)
            except FileNotFoundError:
                continue


def _names(fd: int) -> "Iterator[tuple[bytes, bool]]":
    """Yield (name, whether it is a folder) of the first that a folder has."""
    with os.scandir(fd) as entries:
        for count, entry in enumerate(entries):
            if count == _AT_ONCE:
                return
            yield os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)


def _enter(name: "str | bytes", dir_fd: int) -> int:
    """Return a descriptor of a folder that can be emptied: one of ours that is closed to us is opened first."""
    if not hasattr(os, "O_PATH"):
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=dir_fd)
    found = os.open(name, os.O_PATH | _FOLDER, dir_fd=dir_fd)
    try:
        mode = stat.S_IMODE(os.fstat(found).st_mode)
        if mode & 0o700 != 0o700 and os.geteuid() != 0:
            os.chmod(f"/proc/self/fd/{found}", mode | 0o700)  # fchmod(2) takes no descriptor of this kind
        return os.open(".", os.O_RDONLY | _FOLDER, dir_fd=found)
    finally:
        os.close(found)
