"""The end of a session, written down: transcript, `exit` event, final record, seal, and only then the clean-up.

The monitor does it when the sandbox ended; whoever finds a session whose monitor is dead does it in its place. Each step may be
repeated without harm, so a crash in between leaves nothing that the next command cannot carry on with.
"""

import os

from workcell import audit, cli, clock, console, events, layout, liveness, lock, record, runtimes, safe_open, scratch, seal
from workcell.errors import WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FALLBACK_EXIT_STATUS = 1


def write_down(
    path: str,
    folder: str,
    spec: "dict[str, Any] | None",
    exit_status: int,
    *,
    status: str = "",
    source: str = "",
    reason: str = "",
    again: bool = False,
) -> "dict[str, Any]":
    """Finish a session and return its final record.

    path: the record; folder: its scratch folder ("" when gone); status: the final word, chosen by the rules of
    workcell-session-record(5) when not given; source: who writes the end in place of the monitor; again: a first try failed
    somewhere. A record that is final already keeps what it says, and only what is missing after it is done.
    """
    fields = record.read(path)
    log = layout.audit_log_path(path)
    session_id = fields["session_id"]
    if not record.is_terminal(fields):
        if spec is not None:
            _keep_transcript(fields, spec, folder)
        provider, again = fields["target_provider"], again or bool(source)

        def is_written(event: str) -> bool:
            # Only who comes after another can find it, or after a first try of its own.
            return again and audit.has_event(log, session_id, event, provider)

        change = _mutation(spec, folder) if spec is not None else ""
        final = events.PACKAGE_MUTATION if change else fields["current_assurance"] or events.MANAGED_MUTABLE
        if spec is not None and change and not is_written("assurance-change"):
            changed = events.assurance_change(spec, final, change)
            audit.append_event(log, "assurance-change", session_id, changed, record_path=path)
        if not is_written("exit"):
            if spec is not None and not source:
                pairs = events.exit_full(spec, fields, exit_status, reason, final)
            else:
                pairs = events.exit_short(source, exit_status, reason, final)
            audit.append_event(log, "exit", session_id, pairs, record_path=path)
        stopping = fields["status"] == "stopping" or bool(folder and scratch.stop_requested(folder))
        now = clock.utc_now()
        fields = record.update(
            path,
            {
                "status": status or ("exited" if stopping or exit_status == 0 else "failed"),
                "live_status": "stopped",
                "current_assurance": final,
                "observed_at": now,
                "finished_at": now,
                "exit_status": str(exit_status),
                "final_assurance": final,
            },
            unless_final=True,
        )
    try:
        seal.seal_session(path, session_id, fields["target_provider"])
    except (WorkcellError, OSError) as error:
        # The session has ended all the same; verify says `unsealed`, and the next stop tries again.
        cli.complain(f"{session_id}: not sealed: {error}")
    if source:
        # Whoever did it before us may have died at any point.
        for written in (path, layout.seal_path(path), fields["transcript_log_path"]):
            if written:
                record.sweep(written)
    if folder:
        runtime = runtimes.by_provider(fields["target_provider"])
        if runtime is not None:
            runtime.delete(folder, session_id)
        scratch.remove(folder)
    return fields


def _mutation(spec: "dict[str, Any]", folder: str) -> str:
    """Return why a session's end is worth less than its start: its agent may have changed the programs that it ran. "" else.

    What cannot be told is not taken for unchanged.
    """
    if spec.get("container_mutability") != "ephemeral" or not os.path.lexists(os.path.join(folder, scratch.READY_FLAG)):
        return ""
    try:
        return "package-mutation" if runtimes.of_spec(spec).has_changed_programs(folder) else ""
    except WorkcellError as error:
        cli.complain(f"{spec['session_id']}: what was changed in its container is not known: {error}")
        return "package-mutation-unconfirmed"


def _keep_transcript(fields: "dict[str, Any]", spec: "dict[str, Any]", folder: str) -> None:
    """Write the recording of a session; a full disk costs the recording, not the end of the session."""
    target = fields["transcript_log_path"]
    if not spec["transcript"] or not target or not folder:
        return
    import calendar
    import time

    from workcell import atomic

    try:
        started = calendar.timegm(time.strptime(fields["started_at"], "%Y-%m-%dT%H:%M:%SZ"))
        if "transcript_log_path" in spec:
            parent = safe_open.open_output_dir(os.path.dirname(target))
        else:
            atomic.make_dir(os.path.dirname(target))
            parent = safe_open.open_dir(os.path.dirname(target))
        name = os.path.basename(target)
        temporary = f"{name}.{os.urandom(8).hex()}.tmp"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600, dir_fd=parent), "w", encoding="utf-8") as stream:
                stream.writelines(console.asciicast(os.path.join(folder, scratch.CONSOLE), started))
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)
        except OSError:
            try:
                os.unlink(temporary, dir_fd=parent)
            except OSError:
                pass
        finally:
            os.close(parent)
    except (OSError, WorkcellError) as error:
        cli.complain(f"{fields['session_id']}: no transcript: {error}")


def remove_unborn(spec: "dict[str, Any]", folder: str) -> None:
    """Remove all that a start has made which never came to a record: the sandbox first, its scratch folder last.

    Raises WorkcellError, and keeps the scratch folder, where something may be left.
    """
    runtime = runtimes.by_provider(spec["target_provider"])
    if runtime is not None:
        runtime.delete(folder, spec["session_id"])
    discard_workspace(spec)
    if os.path.isdir(os.path.dirname(spec["record_path"])):
        record.sweep(spec["record_path"])
    scratch.remove(folder)


def discard_workspace(spec: "dict[str, Any]") -> None:
    """Remove the clone, or the copy of the base, of a session whose agent never ran."""
    if spec.get("clone_path"):
        from workcell import workspace

        workspace.discard_clone(spec["clone_path"])
    elif spec["git_base"]:
        from workcell import baseline

        baseline.discard(spec["profile_dir"], spec["session_id"])


class Outcome:
    """What was found of a session whose monitor does not hold its lock.

    word: `final` (the record says all), `finished` (done now, the exit status is known), `lost` (done now, it is not),
    `alive` (the sandbox runs without a monitor), `unknown` (cannot tell), `foreign` (another implementation's).
    """

    __slots__ = ("word", "fields")

    def __init__(self, word: str, fields: "dict[str, Any]") -> None:
        self.word, self.fields = word, fields


def reconcile(path: str, source: str, timeout_s: float = 30.0) -> Outcome:
    """Finish a session that is proven gone, once; leave alone what is alive or cannot be told, and say which.

    Only one process does it at a time: it takes the monitor's own lock.
    """
    fields = record.read(path)
    folder = fields["session_audit_dir"]
    guard = scratch.open_lock(folder) if folder and scratch.is_ours(folder) else None
    try:
        if guard is None:
            outcome = _reconcile(path, source, "")
            if outcome.word == "final" and folder and runtimes.by_provider(fields["target_provider"]) is not None:
                scratch.remove(folder)  # its monitor died while it did so
            return outcome
        with lock.exclusive(guard, timeout_s, folder):
            return _reconcile(path, source, folder)
    finally:
        if guard is not None:
            os.close(guard)


def _reconcile(path: str, source: str, folder: str) -> Outcome:
    fields = record.read(path)
    if record.is_terminal(fields):
        # The monitor may have died between its last steps.
        if folder or not os.path.lexists(layout.seal_path(path)):
            fields = write_down(path, folder, None, int(fields["exit_status"] or FALLBACK_EXIT_STATUS), source=source)
        return Outcome("final", fields)
    word, exit_status = _judge(fields, folder)
    if word not in ("finished", "lost"):
        return Outcome(word, fields)
    try:
        spec = scratch.read_spec(folder) if folder else None
    except WorkcellError:
        spec = None
    never_ran = fields["status"] == "starting" and folder and not os.path.lexists(os.path.join(folder, scratch.READY_FLAG))
    done = write_down(
        path,
        folder,
        spec,
        exit_status,
        status="aborted" if word == "lost" else "",
        source=source,
        reason="launch-aborted" if never_ran else "lost",
    )
    return Outcome(word, done)


def would_be(fields: "dict[str, Any]") -> str:
    """Return the word that reconcile would find for a session whose record is not final; nothing is changed."""
    folder = fields["session_audit_dir"]
    return _judge(fields, folder if folder and scratch.is_ours(folder) else "")[0]


def _judge(fields: "dict[str, Any]", folder: str) -> "tuple[str, int]":
    """Return (word of an Outcome, exit status) of a session whose monitor is dead and whose record is not final."""
    if not folder:
        presence = liveness.presence(fields, ask=True)
        if presence == liveness.LOST:
            return "lost", FALLBACK_EXIT_STATUS
        return {liveness.FOREIGN: "foreign", liveness.UNMONITORED: "alive"}.get(presence, "unknown"), FALLBACK_EXIT_STATUS
    runtime = runtimes.by_provider(fields["target_provider"])
    if runtime is None:
        return "unknown", FALLBACK_EXIT_STATUS
    state = runtimes.State(False) if liveness.other_boot(folder) else runtime.state(folder, fields["session_id"])
    if state.running or state.running is None:
        return "alive" if state.running else "unknown", FALLBACK_EXIT_STATUS
    known = scratch.read_exit(folder)
    if known is None:
        known = state.exit_status
    return ("lost", FALLBACK_EXIT_STATUS) if known is None else ("finished", known)
