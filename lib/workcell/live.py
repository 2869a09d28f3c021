"""What the commands that touch a live session share: find it, see that it lives, wait until its end is written down."""

import os

from workcell import audit, cli, clock, finish, launch, layout, liveness, record, runtimes, scratch
from workcell.errors import CannotTellError, WorkcellError
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIVE = ("starting", "running")


class Session:
    """A detached session's record, as it was when it was looked up: fields, path, scratch folder ("" when there is none)."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.fields, self.path = record.load(session_id)
        self.folder = str(self.fields["session_audit_dir"])
        if self.folder and not scratch.is_ours(self.folder):
            self.folder = ""

    def reload(self) -> "dict[str, Any]":
        """Read the record again."""
        self.fields = record.read(self.path)
        return self.fields

    def presence(self) -> str:
        """Return what liveness says of it now; the record is read again where it says gone."""
        found = liveness.presence(self.fields, ask=True)
        if found not in (liveness.MONITORED, liveness.FOREIGN):
            self.reload()
        return found

    def append(self, event: str, pairs: list[tuple[str, str]]) -> bool:
        """Append an event of a client; say whether it was taken, which it is not once the session is over."""
        done = audit.append_event(layout.audit_log_path(self.path), event, self.id, pairs, record_path=self.path)
        return done is not None


def require_detached(session: Session, verb: str) -> None:
    """Raise WorkcellError unless a monitor was recorded and a sandbox named."""
    if not record.is_detached(session.fields):
        raise WorkcellError(
            session.id, f"cannot {verb}: it is attached to the terminal that started it", "see the control column of list"
        )
    if not session.fields["container_name"]:
        raise WorkcellError(session.id, f"cannot {verb}: its record names no sandbox", "see workcell-session-show")


def is_foreign(session: Session) -> bool:
    """Say whether another implementation runs a session and its engine is one that can be asked here."""
    if record.is_terminal(session.fields) or session.presence() != liveness.FOREIGN:
        return False
    return runtimes.is_engine(runtimes.by_provider(str(session.fields["target_provider"])))


def require_live(session: Session, verb: str) -> None:
    """Raise unless the session can be worked with now: detached, not ended, its monitor alive."""
    require_detached(session, verb)
    if record.is_terminal(session.fields) or record.live_value(session.fields) not in LIVE:
        raise WorkcellError(session.id, f"cannot {verb}: it is not running any more", "see workcell-session-show")
    found = session.presence()
    if record.is_terminal(session.fields):
        raise WorkcellError(session.id, f"cannot {verb}: it has just ended", "see workcell-session-show")
    if found == liveness.LOST:
        raise WorkcellError(
            session.id,
            f"cannot {verb}: it is lost: its monitor and its sandbox are gone",
            "finish it with workcell-session-stop",
        )
    if found == liveness.UNMONITORED:
        raise WorkcellError(
            session.id, f"cannot {verb}: its monitor is dead, though its sandbox runs", "end it with workcell-session-stop"
        )
    if found != liveness.MONITORED:
        raise CannotTellError(session.id, f"cannot {verb}: could not confirm that it is running", "try again")


class Expired(Exception):
    """The time is up."""


class Alarm:
    """Raise Expired in a blocking call after so many seconds (setitimer(2)); None: never."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s

    def __enter__(self) -> "Alarm":
        if self.timeout_s is not None:
            self._before = signal.signal(signal.SIGALRM, self._ring)
            # Again and again: one that rings just before the blocking call would be lost.
            signal.setitimer(signal.ITIMER_REAL, max(self.timeout_s, 0.001), 0.05)
        return self

    @staticmethod
    def _ring(*_: object) -> None:
        raise Expired

    def __exit__(self, *_: object) -> None:
        if self.timeout_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)


def wait_until_written(session: Session, timeout_s: float | None, source: str) -> str:
    """Wait until the end of a session is written down; return how it was found.

    `final`: the record says all; `lost`: it was gone without a trace of its exit status, and was finished here; `unknown`:
    it cannot be told; `expired`: the time is up. While the monitor lives this is a blocking lock, no polling.
    """
    deadline = None if timeout_s is None else clock.monotonic_s() + timeout_s
    while True:
        lock = scratch.open_lock(session.folder) if session.folder else None
        if lock is not None:
            import fcntl

            try:
                with Alarm(None if deadline is None else deadline - clock.monotonic_s()):
                    fcntl.flock(lock, fcntl.LOCK_SH)
            except Expired:
                return "expired"
            finally:
                os.close(lock)
        final = record.is_terminal(session.reload()) and os.path.lexists(layout.seal_path(session.path))
        if final and not (session.folder and scratch.is_ours(session.folder)):
            return "final"
        outcome = finish.reconcile(session.path, source)
        session.fields = outcome.fields
        if outcome.word in ("final", "finished"):
            return "final"
        if outcome.word == "lost":
            return "lost"
        if outcome.word != "alive":
            return "unknown"
        # The sandbox lives without a monitor: its first process is what can be waited for.
        left_s = 30.0 if deadline is None else deadline - clock.monotonic_s()
        if left_s <= 0:
            return "expired"
        from workcell.monitor import wait_for_end

        runtime = runtimes.by_provider(session.fields["target_provider"])
        if runtime is not None and session.folder:
            wait_for_end(runtime.state(session.folder, session.id).pid, min(left_s, 30.0))


def exit_status(fields: "dict[str, Any]") -> int:
    """Return the exit status of a final record; raise WorkcellError where it says none that a process could have."""
    text = str(fields["exit_status"])
    if not text.isdigit() or int(text) > 255:
        raise WorkcellError(str(fields["session_id"]), f"its exit status {text!r} is unknown", "see workcell-session-show")
    return int(text)


def print_summary(
    fields: "dict[str, Any]",
    first: "list[tuple[str, Any]]",
    live_status: str,
    as_json: bool,
    more: "dict[str, Any] | None" = None,
) -> None:
    """Print what send and stop print: their own lines, then the control summary block."""
    from workcell import output

    pairs = [
        ("session_id", fields["session_id"]),
        *first,
        ("status", fields["status"]),
        ("live_status", live_status),
        ("control_mode", "detached"),
        *launch.summary(fields),
    ]
    if as_json:
        output.write(output.json_text({**dict(pairs), **(more or {})}))
    else:
        output.write(output.key_values([(key, "1" if value is True else str(value)) for key, value in pairs]))


def one_id(options: "Any") -> str:
    """Return the one --id of a command that acts on one session; raise UsageError."""
    from workcell.errors import UsageError

    found = list(dict.fromkeys(options.id))
    if len(found) != 1:
        raise UsageError("option --id", "names more than one session", "act on them one by one")
    return cli.reject_newlines("--id", found[0])


def was_stopped(fields: "dict[str, Any]") -> bool:
    """Say whether a final record tells of an end that was asked for: `exited` with an exit status other than 0."""
    return bool(fields["status"] == "exited" and fields["exit_status"] not in ("", "0"))
