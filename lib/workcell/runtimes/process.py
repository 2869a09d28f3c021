"""The process target: the adapter and the agent run as plain processes of the operator. It confines nothing.

For places that are the boundary already: a CI job, a development container, a machine of its own. Every process of the session
ends with it: the adapter is their subreaper (prctl(2)), and a kill goes to all of them by their parents and their environment.
"""

import os

from workcell import clock, host, trace
from workcell.runtimes import Launch, State, Target, _local
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

TARGET = Target("process", "local_process", "host", "unconfined", "process")

TRACE_FD = 4


def probe() -> str:
    """Return "": a process can always be started."""
    return ""


def plan(launch: Launch) -> tuple[list[str], dict[int, bytes]]:
    """Return (the whole command, no descriptors); nothing is started."""
    python, _ = _local.interpreter()
    words = [python, "-I", "-S", _local.adapter_for(python), "--", *launch.argv]
    if "file_trace_log_path" in launch.spec:
        tracer = f'"$1" -I -S "$0" {trace.INTERVAL_S} - "$WORKSPACE" >&{TRACE_FD} 2>/dev/null </dev/null; '
        words = ["/bin/sh", "-c", tracer + f'exec {TRACE_FD}>&-; exec "$@"', _local.tracer_path(), *words]
    return words, {}


def start(launch: Launch, tty_fd: int) -> int:
    """Start the adapter on a terminal; the pid to wait for is the adapter's own."""
    words, _ = plan(launch)

    def execute() -> "NoReturn":
        os.chdir(launch.spec["workspace"])
        os.execve(words[0], words, launch.environment)

    keep = {TRACE_FD: launch.trace_fd} if launch.trace_fd >= 0 else {}
    pid = _local.fork_on_terminal(tty_fd, keep, launch.umask, execute)
    _local.note(launch.scratch_dir, {"child-pid": pid, "start-ticks": host.start_mark(pid)})
    return pid


def ended(scratch_dir: str, exit_status: int) -> None:
    """Note the exit status that the caller of start has learned by waiting."""
    _local.note(scratch_dir, {"exit-code": exit_status})


def _adapter_lives(pid: int, ticks: object) -> bool:
    return pid > 1 and host.start_mark(pid) == ticks and ticks is not None


def state(scratch_dir: str, session_id: str, ask: bool = True) -> State:
    """Return what is known: the adapter by pid and start time, what it left behind by the session's mark."""
    status = _local.read_status(scratch_dir) or {}
    pid = status.get("child-pid", 0)
    if type(pid) is int and _adapter_lives(pid, status.get("start-ticks")):
        return State(True, None, pid)
    if _local.session_processes(session_id):
        return State(True)
    return _local.ended(status)


def kill(scratch_dir: str, session_id: str, signum: int) -> None:
    """Send a signal to the adapter; SIGKILL goes to every process of the session until none is left, for at most 5 s."""
    status = _local.read_status(scratch_dir) or {}
    pid, ticks = status.get("child-pid", 0), status.get("start-ticks")
    if signum != signal.SIGKILL:
        host.send_signal(pid, signum, lambda: _adapter_lives(pid, ticks))
        return
    deadline = clock.monotonic_s() + 5
    # The agent's before the adapter: while it lives, it is the parent of all that was orphaned.
    while clock.monotonic_s() < deadline:
        below = _local.descendants(pid) if _adapter_lives(pid, ticks) else []
        targets = {*below, *_local.session_processes(session_id)} - {os.getpid(), pid}
        for target in targets:
            try:
                os.kill(target, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if not targets:
            break
    host.send_signal(pid, signal.SIGKILL, lambda: _adapter_lives(pid, ticks))


def delete(scratch_dir: str, session_id: str) -> None:
    """End whatever still names this session."""
    if _local.session_processes(session_id):
        kill(scratch_dir, session_id, signal.SIGKILL)
