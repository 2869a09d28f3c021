"""Wait for sessions to end: in a blocking lock for one of them, for several in one poll(2) on their monitors.

A monitor's process ends right after its lock is free, and then its session is as far as it gets without help.
"""

import os
import select

from workcell import clock, host, live, scratch
from workcell.errors import WorkcellError
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "host-wait"
LOOK_AGAIN_S = 0.5


class End:
    """How a session ended.

    reason: `exited`, `signal`, `stopped`, `lost` or `unknown`; exit_status: None for the last two, and then `why` in words.
    """

    __slots__ = ("session", "reason", "exit_status", "why")

    def __init__(self, session: live.Session, found: str) -> None:
        self.session, self.why = session, ""
        self.exit_status: int | None = None
        fields = session.fields
        if found != "final":
            self.reason = found
            self.why = f"{found}: it has no exit status of its own"
            return
        if fields["status"] == "aborted":
            self.reason, self.why = "lost", "aborted, or lost before: it has no exit status of its own"
            return
        try:
            self.exit_status = live.exit_status(fields)
        except WorkcellError as error:
            self.reason, self.why = "unknown", error.why
            return
        if live.was_stopped(fields):
            self.reason = "stopped"
        else:
            self.reason = "signal" if 128 < self.exit_status < 128 + signal.NSIG else "exited"


def one(session: live.Session, timeout_s: float | None) -> End | None:
    """Return how a session ended, None when the time was up first."""
    found = live.wait_until_written(session, timeout_s, SOURCE)
    return None if found == "expired" else End(session, found)


def several(sessions: list[live.Session], timeout_s: float | None) -> "Iterator[End]":
    """Yield the ends of sessions as they come; stop early when the time is up."""
    deadline = None if timeout_s is None else clock.monotonic_s() + timeout_s
    waiting = list(sessions)
    while waiting:
        monitors = {}
        for session in waiting[:]:
            pidfd = _monitor(session)
            if pidfd is not None:
                monitors[pidfd] = session
                continue
            found = live.wait_until_written(session, 0.0, SOURCE)
            if found != "expired":
                waiting.remove(session)
                yield End(session, found)
        if not waiting:
            return
        left_s = LOOK_AGAIN_S if deadline is None else min(LOOK_AGAIN_S, deadline - clock.monotonic_s())
        if left_s <= 0:
            return
        poller = select.poll()
        for pidfd in monitors:
            poller.register(pidfd, select.POLLIN)
        poller.poll(left_s * 1000)
        for pidfd in monitors:
            os.close(pidfd)


def _monitor(session: live.Session) -> int | None:
    """Return a descriptor that is readable when the monitor of a session ends (pidfd_open(2)), None where it has none."""
    lock = scratch.open_lock(session.folder) if session.folder else None
    if lock is None:
        return None
    try:
        pid = str(session.fields["monitor_pid"])
        if not scratch.lock_is_held(lock) or not pid.isdigit():
            return None
        pidfd = host.pidfd(int(pid))
        return pidfd if pidfd >= 0 else None
    except OSError:
        return None
    finally:
        os.close(lock)
