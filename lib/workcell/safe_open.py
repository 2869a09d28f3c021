"""Open what we trust: every folder on the way and the file itself are checked for kind, owner, mode and links.

A path is walked from `/` one name at a time and no link is followed (open(2), O_NOFOLLOW). The first folder that only
this user can have arranged is the anchor: from there down everything must be this user's and closed to others' writing.
"""

import errno
import os
import stat

from workcell import layout
from workcell.errors import UnreadableError

RECORD_LIMIT_BYTES = 1 << 20

# O_PATH needs only search permission, which is all that /home or / may give.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK, or a FIFO in the place of a file would hold us for ever.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


def open_dir(path: str) -> int:
    """Return a descriptor of a folder after checking every folder from `/` down to it.

    Raises FileNotFoundError where one is missing, UnreadableError where one is not to be trusted. The state root and
    the legacy root may be reached through links of this user or of root: those are resolved once, before the walk.
    """
    path = os.path.abspath(path)
    try:
        return _walk(path)
    except OSError as error:
        if error.errno not in _NOT_PLAIN:
            if error.errno == errno.ENOENT:
                raise
            raise UnreadableError(path, error.strerror or str(error)) from None
    resolved = anchored(path)
    try:
        return _walk(resolved)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "a folder on its path is a link or no folder" if error.errno in _NOT_PLAIN else error.strerror
        raise UnreadableError(path, why or str(error)) from None


def _walk(path: str) -> int:
    euid = os.geteuid()
    names = [name for name in path.split("/") if name]
    fd = os.open("/", _STEP if names else _LAST)
    try:
        anchor = _check_dir(os.fstat(fd), euid, False, "/")
        for depth, name in enumerate(names, 1):
            below = os.open(name, _STEP if depth < len(names) else _LAST, dir_fd=fd)
            os.close(fd)
            fd = below
            found = os.fstat(fd)
            # The common case costs two comparisons; the rest is for the message.
            if not anchor or found.st_uid != euid or found.st_mode & 0o022:
                anchor = _check_dir(found, euid, anchor, "/" + "/".join(names[:depth]))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_dir(found: os.stat_result, euid: int, anchor: bool, path: str) -> bool:
    """Return whether the folder is the anchor or lies below it; raise UnreadableError where it is not to be trusted."""
    others_write = bool(found.st_mode & 0o022)
    if found.st_uid == euid and not others_write:
        # For root every folder of the system is its own: only one that is closed to all others is an anchor.
        return anchor or euid != 0 or not found.st_mode & (0o077 | stat.S_ISVTX)
    if not anchor and found.st_uid == 0 and (not others_write or found.st_mode & stat.S_ISVTX):
        return False
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    raise UnreadableError(
        path, f"folder of uid {found.st_uid} with mode {mode}, others may change what is in it", f"chmod go-w {path}"
    )


def anchored(path: str) -> str:
    """Return a path with links resolved where they lie on the way to the state root, the legacy root, /tmp or /var.

    A link of another user is not followed.
    """
    for root in (layout.state_root(), layout.legacy_root(), "/tmp", "/var"):
        if path == root or path.startswith(root + "/"):
            resolved = resolve_own_links(root)
            if resolved != root:
                return resolved + path[len(root) :]
    return path


def resolve_own_links(path: str) -> str:
    """Return a folder's real path; a link of anybody but this user and root stays, and the walk refuses it."""
    euid = os.geteuid()
    done, todo, followed = "", [name for name in reversed(path.split("/")) if name], 0
    while todo:
        name = todo.pop()
        if name == ".":
            continue
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{name}"
        try:
            found = os.lstat(here)
        except OSError:
            return "/".join([here, *reversed(todo)])
        if not stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, euid) or followed >= 40:
            done = here
            continue
        followed += 1
        target = os.readlink(here)
        if target.startswith("/"):
            done = ""
        todo.extend(name for name in reversed(target.split("/")) if name)
    return done or "/"


def check_file(found: os.stat_result, path: str, limit_bytes: int = 0, closed: int = 0o077) -> None:
    """Raise UnreadableError unless a file is regular, ours, closed to others, of one link and not too large."""
    why = next_step = ""
    if not stat.S_ISREG(found.st_mode):
        why = "is no regular file"
    elif found.st_uid != os.geteuid():
        why = f"belongs to uid {found.st_uid}, not to you"
    elif found.st_mode & closed:
        why = f"is open to others (mode {stat.S_IMODE(found.st_mode):04o})"
        next_step = f"chmod go-rwx {path}, if you trust what is in it"
    elif found.st_nlink != 1:
        why = f"has {found.st_nlink} links, one was expected"
    elif limit_bytes and found.st_size > limit_bytes:
        why = f"has {found.st_size} bytes, more than {limit_bytes}"
    if why:
        raise UnreadableError(path, why, next_step)


def open_file(dir_fd: int, name: str, path: str, flags: int = FILE_FLAGS, limit_bytes: int = 0, closed: int = 0o077) -> int:
    """Return a checked descriptor of a file in a checked folder; `path` is for messages.

    Raises FileNotFoundError where it is missing, UnreadableError where it is not to be trusted.
    """
    for _ in range(100):
        try:
            fd = os.open(name, flags, dir_fd=dir_fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            why = "is a link" if error.errno in (errno.ELOOP, errno.EMLINK) else error.strerror
            raise UnreadableError(path, why or str(error)) from None
        try:
            found = os.fstat(fd)
            if found.st_nlink == 0:  # replaced between open and here: the new file has the name now
                os.close(fd)
                continue
            check_file(found, path, limit_bytes, closed)
        except UnreadableError:
            os.close(fd)
            raise
        return fd
    raise UnreadableError(path, "is replaced again and again", "try again")


def read_file(dir_fd: int, name: str, path: str, limit_bytes: int = RECORD_LIMIT_BYTES, closed: int = 0o077) -> bytes:
    """Return the content of a file in a checked folder, whole and unchanged while it was read.

    Raises FileNotFoundError where it is missing, UnreadableError where it is not to be trusted or keeps changing.
    """
    for _ in range(10):
        fd = open_file(dir_fd, name, path, limit_bytes=limit_bytes, closed=closed)
        try:
            before = os.fstat(fd)
            data = b""
            while len(data) <= before.st_size:
                part = os.read(fd, before.st_size + 1 - len(data))
                if not part:
                    break
                data += part
            after = os.fstat(fd)
        except OSError as error:
            raise UnreadableError(path, error.strerror or str(error)) from None
        finally:
            os.close(fd)
        if len(data) == before.st_size == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
            return data
    raise UnreadableError(path, "changes while it is read", "try again")


def check_output(path: str, folder: bool = False) -> str:
    """Return where a file (or folder) may be written: absolute, clean, no link on the way, if there a regular file.

    `~` is expanded, a relative path starts at the current folder. Raises UnreadableError.
    """
    if not path:
        raise UnreadableError("output path", "is empty", "name a file")
    if any(c in path for c in "\0\r\n"):
        raise UnreadableError(repr(path), "contains a newline, a carriage return or a NUL", "name another file")
    resolved = os.path.normpath(os.path.abspath(os.path.expanduser(path)))
    if resolved.startswith("//"):
        resolved = resolved[1:]
    at = resolved
    while at != "/":
        if os.path.islink(at):
            raise UnreadableError(resolved, f"{at} is a link", "name the real path")
        at = os.path.dirname(at)
    try:
        found = os.lstat(resolved)
    except FileNotFoundError:
        return resolved
    except OSError as error:
        raise UnreadableError(resolved, error.strerror or str(error)) from None
    if folder and not stat.S_ISDIR(found.st_mode):
        raise UnreadableError(resolved, "is there and is no folder")
    if not folder and not stat.S_ISREG(found.st_mode):
        raise UnreadableError(resolved, "is there and is no regular file")
    return resolved


def open_output_dir(path: str) -> int:
    """Return a descriptor of the folder that an output goes to, walked to without following a link.

    Nothing is asked of owners and modes: where the operator's own output goes is the operator's choice. Raises
    UnreadableError.
    """
    fd = os.open("/", _LAST)
    for name in [name for name in path.split("/") if name]:
        try:
            below = os.open(name, _STEP, dir_fd=fd)
        except OSError as error:
            why = "a folder on its path is a link or no folder" if error.errno in _NOT_PLAIN else error.strerror
            raise UnreadableError(path, why or str(error)) from None
        finally:
            os.close(fd)
        fd = below
    try:
        return os.open(".", _LAST, dir_fd=fd)  # from a descriptor that can only be walked through to one that can be synced
    finally:
        os.close(fd)
