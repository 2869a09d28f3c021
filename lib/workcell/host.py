"""What only Linux has, and what stands in for it elsewhere: an engine in a virtual machine is used from macOS too.

Each function looks for the means that it needs, not for the name of the system.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36


def pipe() -> tuple[int, int]:
    """Return both ends of a pipe that blocks nobody; no program inherits it."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    return reading, writing


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def become_subreaper() -> None:
    """Take in whatever our descendants leave behind (prctl(2)), where that can be had."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def boot_id() -> str:
    """Return the system's id of this boot, "unknown" where there is none (proc(5), random/boot_id; sysctl(8) elsewhere)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as stream:
            return stream.read().strip() or "unknown"
    except OSError:
        return _ask("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid") or "unknown"


def is_there(pid: int) -> bool:
    """Say whether a process has this pid, a zombie too (kill(2) with signal 0)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def processes() -> list[int]:
    """Return the pids of all processes that proc(5) shows, none where there is no such folder."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def start_mark(pid: int) -> int | None:
    """Return when a process started, None where it is gone or a zombie: a number to be compared with a later answer.

    Clock ticks since boot (proc_pid_stat(5), field 22), elsewhere seconds since 1970 as ps(1) has them.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return None if os.path.isdir("/proc/self") else _start_by_ps(pid)
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else int(fields[19])


def _start_by_ps(pid: int) -> int | None:
    import time

    state, _, began = _ask("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).strip().partition(" ")
    try:
        return None if state.startswith("Z") else int(time.mktime(time.strptime(began.strip(), "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def command_line(pid: int) -> bytes:
    """Return the words of a process, each with a NUL after it (elsewhere a blank), b"" where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read()
    except OSError:
        return b"" if os.path.isdir("/proc/self") else os.fsencode(_ask("/bin/ps", "-ww", "-o", "command=", "-p", str(pid)))


def pidfd(pid: int) -> int:
    """Return a descriptor that is readable once a process has ended (pidfd_open(2)), -1 where there is no such thing.

    Raises ProcessLookupError where it is gone.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    os.kill(pid, 0)
    return -1


def send_signal(pid: int, signum: int, proof: "Callable[[], bool]") -> bool:
    """Send a signal to a process that `proof` recognises; say whether it was delivered.

    pidfd_open(2) pins the process first, so that another which got its pid meanwhile cannot be hit; elsewhere it can, between
    two calls.
    """
    try:
        pinned = pidfd(pid)
    except ProcessLookupError:
        return False
    try:
        if not proof():
            return False
        if pinned < 0:
            os.kill(pid, signum)
        else:
            import signal

            signal.pidfd_send_signal(pinned, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        if pinned >= 0:
            os.close(pinned)


def _ask(*words: str) -> str:
    """Return what a program of the system prints, "" where there is none or it fails."""
    from workcell import run
    from workcell.errors import WorkcellError

    try:
        done = run.capture(list(words), {"PATH": run.SYSTEM_PATH, "LC_ALL": "C"}, 5)
    except WorkcellError:
        return ""
    return done.text() if done.exit_status == 0 else ""
