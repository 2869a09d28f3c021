"""A session's transient folder: `session-audit.XXXXXX` in the folder of its profile, mode 0700.

It holds the launch spec, the monitor's lock, the FIFOs, the console log and what the sandbox says of itself. It is made by
start, kept by the monitor and gone when the session's record is final.
"""

import errno
import fcntl
import os
import stat

from workcell import atomic, fastjson, schema
from workcell.errors import UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "session-audit."
LAUNCH_SPEC = "launch-spec.json"
MONITOR_LOCK = "monitor.lock"
READY_FLAG = "session-monitor.ready"
STOP_MARKER = ".workcell-stop-requested"
EXIT_FILE = "exit.json"
STATUS_FILE = "sandbox-status.json"
AGENT_INPUT = "agent-input"
TERMINAL_INPUT = "input"
CONTROL = "control"
CONSOLE = "console"
TRACE = "file-trace"

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def make(profile_dir: str) -> str:
    """Make a new scratch folder in a profile's folder and return its path."""
    atomic.make_dir(profile_dir)
    for _ in range(100):
        path = os.path.join(profile_dir, PREFIX + "".join(_LETTERS[byte % 62] for byte in os.urandom(6)))
        try:
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # whatever the umask took away
            return path
        except FileExistsError:
            continue
    raise WorkcellError(profile_dir, "no free name for a scratch folder", "remove old session-audit folders")


def write_spec(path: str, spec: "dict[str, Any]") -> None:
    """Write the launch spec, the intent of a start, into a scratch folder."""
    schema.check("launch-spec", spec)
    atomic.replace_file(os.path.join(path, LAUNCH_SPEC), fastjson.dumps(spec).encode() + b"\n")


def read_spec(path: str) -> "dict[str, Any]":
    """Return the launch spec of a scratch folder; raise UnreadableError where there is none that can be trusted."""
    spec = _read_json(os.path.join(path, LAUNCH_SPEC))
    if not isinstance(spec, dict):
        raise UnreadableError(os.path.join(path, LAUNCH_SPEC), "there is no launch spec", "")
    schema.check("launch-spec", spec)
    return spec


def read_exit(path: str) -> int | None:
    """Return the exit status that the monitor wrote down before it did anything else, None where it did not."""
    value = _read_json(os.path.join(path, EXIT_FILE))
    status = value.get("exit_status") if isinstance(value, dict) else None
    return status if type(status) is int and 0 <= status <= 255 else None


def write_exit(path: str, exit_status: int, observed_at: str) -> None:
    """Write the exit status down, so that a crash of the monitor from here on loses nothing."""
    value = {"exit_status": exit_status, "observed_at": observed_at}
    atomic.replace_file(os.path.join(path, EXIT_FILE), fastjson.dumps(value).encode() + b"\n")


def _read_json(path: str) -> "Any":
    """Return the JSON value of a small file of ours, None where it is missing or broken."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > 1 << 20:
            return None
        return fastjson.loads(os.read(fd, 1 << 20))
    except ValueError:
        return None
    finally:
        os.close(fd)


def is_ours(path: str) -> bool:
    """Say whether a path is a scratch folder of this user: the right name, a real folder, ours, closed to others."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return (
        os.path.basename(path).startswith(PREFIX)
        and stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & 0o077
    )


def create_lock(path: str) -> int:
    """Make monitor.lock, hold it exclusively (flock(2)) and return the descriptor; whoever inherits it holds the lock too."""
    fd = os.open(os.path.join(path, MONITOR_LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def open_lock(path: str) -> int | None:
    """Return a descriptor of monitor.lock for probing and waiting, None where there is none."""
    try:
        return os.open(os.path.join(path, MONITOR_LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def open_folder(path: str) -> int:
    """Return a descriptor of a scratch folder. start holds a shared lock on it while it works, and so does its git."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def lock_is_held(fd: int) -> bool:
    """Say whether somebody holds monitor.lock; the probe lets go at once."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def mark_stop(path: str) -> None:
    """Leave the mark that the end of this session was asked for; its final status is then `exited`."""
    try:
        os.close(os.open(os.path.join(path, STOP_MARKER), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        pass  # the session ended meanwhile, and its folder with it


def stop_requested(path: str) -> bool:
    """Say whether the mark of mark_stop is there."""
    return os.path.lexists(os.path.join(path, STOP_MARKER))


def remove(path: str) -> None:
    """Remove a scratch folder and all in it, following no link; one that is gone or not ours is left alone."""
    if not is_ours(path):
        return
    import shutil

    # The launch spec goes last: while it is there, whoever finds the folder after a crash knows what it was for.
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return
    for name in names:
        if name != LAUNCH_SPEC:
            entry = os.path.join(path, name)
            try:
                if stat.S_ISDIR(os.lstat(entry).st_mode):
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    os.unlink(entry)
            except FileNotFoundError:
                continue  # somebody else finishes the same session
    shutil.rmtree(path, ignore_errors=True)
