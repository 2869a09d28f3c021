"""The one door to other programs.

git is on the way of every start, so it is run by posix_spawn(3): importing subprocess costs more than a call of git.
"""

import errno
import os
import select
import signal

from workcell import clock
from workcell.errors import PreconditionError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Finished:
    """What a program left: exit_status (128+N for signal N, as in sh), stdout and stderr as bytes."""

    __slots__ = ("exit_status", "stdout", "stderr")

    def __init__(self, exit_status: int, stdout: bytes, stderr: bytes) -> None:
        self.exit_status, self.stdout, self.stderr = exit_status, stdout, stderr

    def text(self) -> str:
        """Return standard output as text without the newlines at its end; bytes that are no UTF-8 survive as surrogates."""
        return os.fsdecode(self.stdout).rstrip("\n")

    def reason(self) -> str:
        """Return the last line of standard error, for a message."""
        lines = self.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
        return lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else f"exit status {self.exit_status}"


def exit_status_of(wait_status: int) -> int:
    """Return 0 to 255 for a raw status of waitpid(2): 128+N for a death by signal N."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def which(name: str, path: str | None = None) -> str | None:
    """Return the absolute path of a program, as the shell would find it on PATH."""
    if "/" in name:
        return os.path.abspath(name) if os.path.isfile(name) and os.access(name, os.X_OK) else None
    for folder in (os.environ.get("PATH", SYSTEM_PATH) if path is None else path).split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return os.path.abspath(candidate)
    return None


def capture(
    argv: list[str],
    env: "Mapping[str, str]",
    timeout_s: float = 600.0,
    limit_bytes: int = 64 << 20,
    pass_fds: "Sequence[int]" = (),
    stdin: bytes = b"",
    out_fd: int = -1,
    in_fd: int = -1,
) -> Finished:
    """Run a program with an empty standard input, one that holds some bytes, or an in_fd, and return what it left.

    Past the time or output limit it is killed and WorkcellError raised, so that nothing of it is taken for an answer. With an
    out_fd its standard output goes there as it comes, and what is returned has none.
    """
    program = which(argv[0])
    if program is None:
        raise PreconditionError(argv[0], "not found on PATH", f"install {os.path.basename(argv[0])}")
    if in_fd >= 0:
        in_fd = os.dup(in_fd)
    else:
        in_fd = memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, in_fd, 0),
        (os.POSIX_SPAWN_DUP2, out_write, 1),
        (os.POSIX_SPAWN_DUP2, err_write, 2),
        *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in pass_fds),  # dup2 of a descriptor onto itself clears close-on-exec here
    ]
    pid = 0
    try:
        try:
            pid = os.posix_spawn(program, argv, dict(env), file_actions=actions, setsigmask=[], setsigdef=[signal.SIGPIPE])
        except OSError as error:
            raise WorkcellError(argv[0], error.strerror or str(error), "see that it can be run") from None
        finally:
            os.close(in_fd)
            os.close(out_write)
            os.close(err_write)
        chunks = _read_all(argv[0], out_read, err_read, timeout_s, limit_bytes, out_fd)
        _, wait_status = os.waitpid(pid, 0)
        pid = 0
        return Finished(exit_status_of(wait_status), chunks[out_read], chunks[err_read])
    finally:
        os.close(out_read)
        os.close(err_read)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def memory_file(content: bytes) -> int:
    """Return a descriptor to read some bytes from, of a file without a name (memfd_create(2))."""
    fd = os.memfd_create("workcell", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read_all(name: str, out_read: int, err_read: int, timeout_s: float, limit_bytes: int, out_fd: int) -> dict[int, bytes]:
    deadline = clock.monotonic_s() + timeout_s
    parts: dict[int, list[bytes]] = {out_read: [], err_read: []}
    poller, open_fds, total = select.poll(), {out_read, err_read}, 0
    for fd in open_fds:
        poller.register(fd, select.POLLIN)
    while open_fds:
        left_s = deadline - clock.monotonic_s()
        if left_s <= 0:
            raise WorkcellError(name, f"gave no answer within {timeout_s:.0f} s", "try again")
        for fd, _ in poller.poll(left_s * 1000):
            data = os.read(fd, 1 << 16)
            total += len(data)
            if total > limit_bytes:
                raise WorkcellError(name, f"printed more than {limit_bytes} bytes", "")
            if data and fd == out_read and out_fd >= 0:
                while data:
                    data = data[os.write(out_fd, data) :]
            elif data:
                parts[fd].append(data)
            else:
                poller.unregister(fd)
                open_fds.discard(fd)
    return {fd: b"".join(chunks) for fd, chunks in parts.items()}


def child_died(pid: int) -> bool:
    """Say whether no process has this pid (kill(2) with signal 0)."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False
