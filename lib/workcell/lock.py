"""Kernel locks (flock(2)) with a time limit: they end with the process that held them, however it ended.

The audit log is shared with writers that show a lock folder, `workcell.audit.log.lock` with `owner.json` in it, and
change that folder only while they hold a flock on `workcell.audit.log.lock.guard`. We hold the guard for the whole of a
write and make no folder; a live folder is waited for, one whose owner is gone is removed.
"""

import errno
import fcntl
import os
import stat

from workcell import clock, fastjson
from workcell.errors import BusyError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class exclusive:
    """Hold an exclusive flock for a block; raises BusyError when the time is up.

    Takes a descriptor, which stays open, or the path of a file or folder that is there.
    """

    def __init__(self, path_or_fd: "str | int", timeout_s: float = 30.0, name: str = "") -> None:
        self._given, self._timeout_s = path_or_fd, timeout_s
        self._name = name or (path_or_fd if isinstance(path_or_fd, str) else "lock")
        self._fd = -1

    def __enter__(self) -> int:
        if isinstance(self._given, int):
            fd = self._given
        else:
            fd = os.open(self._given, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            take(fd, self._timeout_s, self._name)
        except BaseException:
            if not isinstance(self._given, int):
                os.close(fd)
            raise
        self._fd = fd
        return fd

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if isinstance(self._given, int):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        else:
            os.close(self._fd)


def take(fd: int, timeout_s: float, name: str) -> None:
    """Take an exclusive flock on a descriptor, waiting at most so long; raises BusyError."""
    if _try(fd):
        return
    deadline = clock.monotonic_s() + timeout_s
    pause = _Pause()
    while not _try(fd):
        if clock.monotonic_s() >= deadline:
            raise BusyError(
                name, f"another process has held it for {timeout_s:g} s", "try again, or see who holds it with lsof"
            )
        pause.wait()


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Pause:
    """Pauses of 1 to 20 ms with some chance in them, so that many waiters do not step in time."""

    def __init__(self) -> None:
        self._next_s = 0.001

    def wait(self) -> None:
        import time

        time.sleep(self._next_s * (0.5 + os.urandom(1)[0] / 255))
        self._next_s = min(self._next_s * 1.5, 0.02)


class audit_log:
    """Hold the right to write an audit log for a block: its guard, with no other writer's live lock folder beside it.

    Takes a descriptor of the log's folder, the log's name and, for messages, its path. Raises BusyError.
    """

    def __init__(self, dir_fd: int, name: str, path: str, timeout_s: float = 30.0) -> None:
        self._dir_fd, self._name, self._path, self._timeout_s = dir_fd, name, path, timeout_s
        self._fd = -1

    def __enter__(self) -> None:
        deadline = clock.monotonic_s() + self._timeout_s
        guard = self._path + ".lock.guard"
        fd = _open_guard(self._dir_fd, self._name + ".lock.guard", guard)
        pause = _Pause()
        try:
            while True:
                take(fd, max(0.0, deadline - clock.monotonic_s()), guard)
                if not dir_lock_is_live(self._dir_fd, self._name + ".lock", self._path + ".lock"):
                    break
                # Its holder needs the guard to let go.
                fcntl.flock(fd, fcntl.LOCK_UN)
                if clock.monotonic_s() >= deadline:
                    raise BusyError(self._path + ".lock", f"another writer has held it for {self._timeout_s:g} s", "try again")
                pause.wait()
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        os.close(self._fd)


def _open_guard(dir_fd: int, name: str, path: str) -> int:
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK):
            raise UnreadableError(path, "is no regular file", "remove it") from None
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(fd)
        raise UnreadableError(path, "is no regular file of yours", "remove it")
    if stat.S_IMODE(found.st_mode) != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def dir_lock_is_live(dir_fd: int, name: str, path: str) -> bool:
    """Say whether a lock folder has a living owner; remove it where it has none. The caller holds the guard.

    Raises UnreadableError where `owner.json` says nothing we understand: then nobody can tell whose it is.
    """
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return False
    except OSError:
        raise UnreadableError(path, "is no folder", "remove it") from None
    try:
        owner = _read_owner(fd, path)
        if owner is not None and _is_alive(*owner):
            return True
        try:
            os.unlink("owner.json", dir_fd=fd)
        except FileNotFoundError:
            pass
    finally:
        os.close(fd)
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UnreadableError(path, f"its owner is gone, but it cannot be removed: {error.strerror}", "remove it") from None
    return False


def _read_owner(fd: int, path: str) -> "tuple[int, str] | None":
    try:
        file_fd = os.open("owner.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"{path}/owner.json", error.strerror or str(error), f"remove {path} if nobody writes") from None
    try:
        owner = fastjson.loads(os.read(file_fd, 4096))
        pid, started = owner["pid"], owner["started"]
        if type(pid) is not int or not 0 < pid < 1 << 31 or type(started) is not str:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        raise UnreadableError(
            f"{path}/owner.json", "does not say who holds the lock", f"remove {path} if nobody writes"
        ) from None
    finally:
        os.close(file_fd)
    return pid, started


def _is_alive(pid: int, started: str) -> bool:
    from workcell import host

    if not host.is_there(pid):
        return False
    # Other tags are start times that only other systems could compare: a living pid counts.
    return not started.startswith("linux:") or generation(pid) in ("", started)


def generation(pid: int) -> str:
    """Return `linux:` and a process's start time in clock ticks since boot (proc(5), field 22), or ''."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b") ")[2].split()
    except OSError:
        return ""
    return f"linux:{words[19].decode()}" if len(words) > 19 else ""
