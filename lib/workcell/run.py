"""The one door to other programs.

git is on the way of every start, so it is run by posix_spawn(3): importing subprocess costs more than a call of git.
"""

import errno
import os
import select

from workcell import clock
from workcell.errors import PreconditionError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGKILL, _SIGPIPE = 9, 13  # signal(7), the same everywhere; the module costs more than all others that start needs at first
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


class _Running:
    """A program that was started, and the pipes that its output comes through."""

    def __init__(
        self, argv: list[str], env: "Mapping[str, str]", in_fd: int, pass_fds: "Sequence[int]" = (), out_fd: int = -1
    ) -> None:
        """Start a program; in_fd is closed. Raises PreconditionError where there is none, WorkcellError where it cannot run."""
        self._name, self._out_fd, self._pid = argv[0], out_fd, 0
        program = which(argv[0])
        if program is None:
            os.close(in_fd)
            raise PreconditionError(argv[0], "not found on PATH", f"install {os.path.basename(argv[0])}")
        self._out, out_write = os.pipe()
        self._err, err_write = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, in_fd, 0),
            (os.POSIX_SPAWN_DUP2, out_write, 1),
            (os.POSIX_SPAWN_DUP2, err_write, 2),
            *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in pass_fds),  # dup2 onto itself clears close-on-exec here
        ]
        try:
            self._pid = os.posix_spawn(program, argv, dict(env), file_actions=actions, setsigmask=[], setsigdef=[_SIGPIPE])
        except OSError as error:
            self.close()
            raise WorkcellError(argv[0], error.strerror or str(error), "see that it can be run") from None
        finally:
            for fd in (in_fd, out_write, err_write):
                os.close(fd)

    def finish(self, timeout_s: float, limit_bytes: int) -> Finished:
        """Return what it left; past a limit it is killed and WorkcellError raised."""
        try:
            chunks = _read_all(self._name, self._out, self._err, timeout_s, limit_bytes, self._out_fd)
            _, wait_status = os.waitpid(self._pid, 0)
            self._pid = 0
            return Finished(exit_status_of(wait_status), chunks[self._out], chunks[self._err])
        finally:
            self.close()

    def close(self) -> None:
        """Close its pipes, and kill it where it has not ended."""
        os.close(self._out)
        os.close(self._err)
        if self._pid:
            os.kill(self._pid, _SIGKILL)
            os.waitpid(self._pid, 0)


_ahead: "dict[tuple[object, ...], _Running]" = {}


def ahead(argv: list[str], env: "Mapping[str, str]") -> None:
    """Start a short program whose answer `capture` will be asked for soon, so that it runs beside what comes before."""
    if _key(argv, env) in _ahead:
        return
    try:
        _ahead[_key(argv, env)] = _Running(argv, env, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except WorkcellError:
        pass  # capture will meet the same and say so


def forget_ahead() -> None:
    """End what was started ahead and never asked for."""
    while _ahead:
        _ahead.popitem()[1].close()


def _key(argv: list[str], env: "Mapping[str, str]") -> "tuple[object, ...]":
    return (*argv, *sorted(env.items()))


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
    running = _ahead.pop(_key(argv, env), None) if _ahead else None
    if running is None:
        if in_fd >= 0:
            in_fd = os.dup(in_fd)
        else:
            in_fd = memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        running = _Running(argv, env, in_fd, pass_fds, out_fd)
    return running.finish(timeout_s, limit_bytes)


def memory_file(content: bytes) -> int:
    """Return a descriptor to read some bytes from, of a file without a name (memfd_create(2), or one that was removed)."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("workcell", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
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
