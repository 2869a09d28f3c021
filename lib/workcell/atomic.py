"""Replace a file whole and make folders, so that a crash at any point leaves the old or the new, never a part.

Everything has its final mode from birth, whatever the umask, and is on disk (fsync(2)) before the call returns.
"""

import os


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file beside `path` and rename it over that; the file and its folder are synced. Raises OSError."""
    parent, name = os.path.split(path)
    dir_fd = os.open(parent or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        replace_at(dir_fd, name, data, mode)
    finally:
        os.close(dir_fd)


def replace_at(dir_fd: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Do what replace_file does, in an open folder."""
    temporary = write_temporary(dir_fd, name, data, mode)
    try:
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        os.unlink(temporary, dir_fd=dir_fd)
        raise
    os.fsync(dir_fd)


def write_temporary(dir_fd: int, name: str, data: bytes, mode: int) -> str:
    """Write and sync `<name>.<random>.tmp` in an open folder and return its name; nothing is left of it on failure."""
    temporary = f"{name}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        try:
            os.fchmod(fd, mode)  # the umask may have taken bits away
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        os.unlink(temporary, dir_fd=dir_fd)
        raise
    return temporary


def write_all(fd: int, data: bytes) -> None:
    """Write all of data to a descriptor (write(2) may take less)."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def make_dir(path: str, mode: int = 0o700) -> None:
    """Make a folder and the missing ones above it, all with this mode whatever the umask; one that is there stays."""
    path = os.path.abspath(path)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, mode)
        except FileExistsError:
            if os.path.isdir(folder):
                continue  # another process was faster
            raise
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        sync_dir(os.path.dirname(folder))


def sync_dir(path: str) -> None:
    """Make the names in a folder survive a crash (fsync(2)); a folder that may not be opened is left alone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
