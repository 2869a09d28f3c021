"""End a session: leave the mark, ask, insist when the time is up, and wait until the end is written down."""

import os

from workcell import clock, finish, layout, live, liveness, record, runtimes, scratch
from workcell.errors import BusyError, CannotTellError, WorkcellError
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# After a kill the kernel needs moments; the monitor then writes transcript, record and seal.
WRITING_S = 60.0


def stop(session: live.Session, grace_s: float, force: bool) -> "dict[str, Any]":
    """End a session and return its final record; one that has ended already is left as it is, and sealed if it is not.

    Raises CannotTellError where it is not known whether it runs, WorkcellError where it does not end.
    """
    live.require_detached(session, "stop")
    if record.is_terminal(session.fields):
        return _as_it_is(session)
    found = session.presence()
    if record.is_terminal(session.fields):
        return _as_it_is(session)
    if found == liveness.FOREIGN and live.is_foreign(session):
        from workcell import foreign

        return foreign.stop(session, grace_s, force)
    if found in (liveness.UNKNOWN, liveness.FOREIGN):
        raise CannotTellError(session.id, "could not confirm whether it runs", "try again, or see workcell-session-show")
    if found in (liveness.MONITORED, liveness.UNMONITORED):
        _ask(session, force)
        _end(session, grace_s, force)
    outcome = live.wait_until_written(session, WRITING_S, "host-stop-fallback")
    if outcome == "unknown":
        raise CannotTellError(session.id, "its end could not be confirmed", "try again")
    if outcome == "expired":
        raise WorkcellError(session.id, "it ended, but its record is not final yet", "try again; workcell-session-show tells")
    return session.fields


def _as_it_is(session: live.Session) -> "dict[str, Any]":
    """Return a final record; what its monitor may have left undone after it is done now."""
    if session.folder:
        live.wait_until_written(session, WRITING_S, "host-stop-fallback")
    elif not os.path.lexists(layout.seal_path(session.path)):
        finish.reconcile(session.path, "host-stop-fallback")
    return session.reload()


def _ask(session: live.Session, force: bool) -> None:
    """Leave the mark, say so in the log, and mark the record; a session that ends meanwhile refuses, which is no error."""
    scratch.mark_stop(session.folder)
    session.append(
        "stop-request",
        [("source", "host-cli"), ("force", "1" if force else "0"), ("container_name", session.fields["container_name"])],
    )
    now = clock.utc_now()
    try:
        record.update(session.path, {"status": "stopping", "live_status": "stopping", "observed_at": now}, unless_final=True)
    except BusyError:
        pass  # only a word for onlookers


def _end(session: live.Session, grace_s: float, force: bool) -> None:
    runtime = runtimes.by_provider(session.fields["target_provider"])
    if runtime is None:
        raise CannotTellError(session.id, "its target is not known here", "use the tool that started it")
    deadline = clock.monotonic_s() + grace_s
    if not force:
        _signal_when_ready(session, runtime)
        if _ended_by(session, runtime, deadline):
            return
    kill_until = clock.monotonic_s() + 10
    while True:
        # As long as the sandbox starts there may be nothing to kill yet.
        runtime.kill(session.folder, session.id, signal.SIGKILL)
        if _ended_by(session, runtime, clock.monotonic_s() + 0.25):
            return
        if clock.monotonic_s() > kill_until:
            pairs = [
                ("source", "host-cli"),
                ("force", "1" if force else "0"),
                ("container_name", session.fields["container_name"]),
                ("transport_status", "1"),
            ]
            session.append("stop-failed", pairs)
            raise WorkcellError(session.id, "it does not end, not even when killed", "see its processes with ps")


def _signal_when_ready(session: live.Session, runtime: "ModuleType") -> None:
    """Send the agent's stop signal, unless its adapter is not ready: then the monitor does it, because of the mark."""
    try:
        signum = getattr(signal, "SIG" + scratch.read_spec(session.folder)["stop_signal"])
    except WorkcellError:
        signum = signal.SIGTERM
    if os.path.lexists(os.path.join(session.folder, scratch.READY_FLAG)):
        runtime.kill(session.folder, session.id, signum)


def _ended_by(session: live.Session, runtime: "ModuleType", deadline: float) -> bool:
    """Wait for the end of the sandbox until the deadline; say whether it came."""
    from workcell.monitor import wait_for_end

    lock_fd = scratch.open_lock(session.folder) if session.folder else None
    if lock_fd is None:
        return True  # the folder goes last
    os.close(lock_fd)
    while True:
        state = runtime.state(session.folder, session.id)
        if state.running is False and not _starts(session):
            return True
        left_s = deadline - clock.monotonic_s()
        if left_s <= 0:
            return False
        wait_for_end(state.pid, min(left_s, 0.25))


def _starts(session: live.Session) -> bool:
    """Say whether the monitor lives and has not launched the sandbox yet: what is not there now may come."""
    if not scratch.is_ours(session.folder):
        return False
    return not os.path.lexists(os.path.join(session.folder, scratch.STATUS_FILE)) and session.presence() == liveness.MONITORED
