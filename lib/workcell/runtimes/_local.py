"""What the runtimes without an engine share: the adapter, its interpreter, the status file, processes by their session."""

import os
import stat
import sys

from workcell import fastjson, host, layout
from workcell.errors import PreconditionError
from workcell.runtimes import State
from workcell.scratch import AGENT_INPUT, STATUS_FILE
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

OLDEST_ADAPTER_PYTHON = (3, 8)


def adapter_path() -> str:
    """Return the adapter's file."""
    return os.path.join(layout.data_dir("adapter"), "pty_adapter.py")


def tracer_path() -> str:
    """Return the file of the tracer, which runs beside the adapter where a file trace is asked for."""
    return os.path.join(layout.data_dir("adapter"), "file_trace.py")


def is_tracer(pid: int) -> bool:
    """Say whether a process is a tracer, by its command line; a liar only gets a TERM."""
    return os.fsencode(tracer_path()) in host.command_line(pid).split(b"\0")


def adapter_for(python: str) -> str:
    """Return the adapter as an interpreter starts it soonest: compiled, where that is of our own version, else the source.

    A script is compiled anew each time that it is run, which for the adapter is an eighth of a start.
    """
    if os.path.basename(python) != f"python{sys.version_info[0]}.{sys.version_info[1]}":
        return adapter_path()
    return compiled_adapter() or adapter_path()


def compiled_adapter() -> str:
    """Return the adapter's bytecode, which lies where Python keeps that of modules, and is made when it is first missed.

    Returns "" where it cannot be made.
    """
    source = adapter_path()
    folder, name = os.path.split(source)
    compiled = os.path.join(folder, "__pycache__", f"{name[:-3]}.{sys.implementation.cache_tag}.pyc")
    try:
        if _is_of(compiled, source):
            return compiled
        if not sys.dont_write_bytecode:
            import py_compile

            py_compile.compile(source, compiled, doraise=True)
            os.chmod(compiled, 0o644)  # whoever the agent runs as has to read it
            os.chmod(os.path.dirname(compiled), 0o755)
            if _is_of(compiled, source):
                return compiled
    except Exception:  # a read-only installation, a full disk: the source does as well
        return ""
    return ""


def _is_of(compiled: str, source: str) -> bool:
    """Say whether bytecode is of a source as it is now, by the header that PEP 552 defines, and may be read by all."""
    from _frozen_importlib_external import MAGIC_NUMBER

    try:
        with open(compiled, "rb") as stream:
            header, mode = stream.read(16), os.fstat(stream.fileno()).st_mode
    except FileNotFoundError:
        return False
    found = os.stat(source)
    stamp = [number & 0xFFFFFFFF for number in (0, int(found.st_mtime), found.st_size)]
    return bool(mode & 0o004) and header == MAGIC_NUMBER + b"".join(number.to_bytes(4, "little") for number in stamp)


def interpreter() -> tuple[str, str]:
    """Return (path, prefix to be shown, "" where it lies in the system's folders) of a Python 3.8+ for the adapter.

    The system's own is preferred: it is visible in every sandbox and no version manager stands before it.
    """
    real = os.path.realpath("/usr/bin/python3")
    name = os.path.basename(real)
    if name.startswith("python3.") and name[8:].isdigit() and (3, int(name[8:])) >= OLDEST_ADAPTER_PYTHON:
        return real, ""
    base = os.path.realpath(sys.base_prefix)
    ours = os.path.realpath(getattr(sys, "_base_executable", sys.executable) or sys.executable)
    if not os.path.isfile(ours):
        raise PreconditionError("adapter", "no Python 3.8 or newer was found for it", "install python3")
    from workcell.agents import in_system

    return ours, "" if in_system(ours) else base


def fork_on_terminal(tty_fd: int, keep: dict[int, int], umask: int, run: "Callable[[], NoReturn]") -> int:
    """Fork a child in a process session of its own with a terminal on 0, 1, 2 and no other descriptor but `keep`.

    keep maps the child's descriptor numbers (3 and up) to ours. The terminal does not become its controlling one: the adapter
    claims it, so that signals of the terminal reach the adapter and nobody before it.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.umask(umask)
        high = max([64, *keep, *keep.values(), tty_fd]) + 1
        moved = {target: _dup_to(source, high + at) for at, (target, source) in enumerate(keep.items())}
        for fd in (0, 1, 2):
            os.dup2(tty_fd, fd)
        for target, source in moved.items():
            os.dup2(source, target, inheritable=True)
        _close_all_but({0, 1, 2, *moved})
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        run()
    except BaseException as error:
        os.write(2, f"workcell: the sandbox cannot be started: {error}\r\n".encode("utf-8", "replace"))
    finally:
        os._exit(125)


def _dup_to(source: int, target: int) -> int:
    os.dup2(source, target, inheritable=False)
    return target


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(1024)):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass


def open_status(scratch_dir: str) -> int:
    """Open the status file for appending: what is written there survives us."""
    path = os.path.join(scratch_dir, STATUS_FILE)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def note(scratch_dir: str, value: "dict[str, Any]") -> None:
    """Append a document to the status file, as bubblewrap does for its own sandboxes."""
    fd = open_status(scratch_dir)
    os.write(fd, fastjson.dumps(value).encode() + b"\n")
    os.close(fd)


def has_reader(scratch_dir: str) -> bool:
    """Say whether the adapter has opened the FIFO that we made for it: the last thing before it is ready (fifo(7))."""
    try:
        path = os.path.join(scratch_dir, AGENT_INPUT)
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def had_reader(scratch_dir: str) -> bool:
    """Say whether the adapter has opened that FIFO at some time, and may be gone again: it sets the time of it to 1970."""
    try:
        return os.lstat(os.path.join(scratch_dir, AGENT_INPUT)).st_mtime == 0
    except OSError:
        return False


def read_status(scratch_dir: str) -> "dict[str, Any] | None":
    """Return all documents of the status file merged into one, None where there is no such file."""
    try:
        fd = os.open(os.path.join(scratch_dir, STATUS_FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        text = os.read(fd, 1 << 16).decode("utf-8", "replace")
    finally:
        os.close(fd)
    merged: dict[str, Any] = {}
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        try:
            value, at = fastjson.scan_once(text, at)
        except fastjson.FAULTS:
            return merged  # the rest is not whole yet
        if isinstance(value, dict):
            merged.update(value)


def session_processes(session_id: str) -> list[int]:
    """Return the processes whose environment names this session; those of other users cannot be seen unless we are root."""
    mark = b"WORKCELL_SESSION_ID=" + os.fsencode(session_id)
    found = []
    for pid in host.processes():
        if pid != os.getpid():
            try:
                with open(f"/proc/{pid}/environ", "rb") as stream:
                    environment = stream.read()
            except OSError:
                continue
            if mark in environment.split(b"\0") and host.start_mark(pid) is not None:
                found.append(pid)
    return found


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below one, as the kernel's parent links have them now."""
    children: dict[int, list[int]] = {}
    for process in host.processes():
        try:
            with open(f"/proc/{process}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), []).append(process)
        except (OSError, IndexError, ValueError):
            continue
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def ended(status: "dict[str, Any]") -> State:
    """Return the State of a sandbox that is gone, with the exit status that its status file has."""
    code = status.get("exit-code")
    return State(False, code if type(code) is int and 0 <= code <= 255 else None)
