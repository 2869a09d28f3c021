"""Remove what a finished session left: only what is its own, below the folder of its profile, following no link.

The record goes last: whatever a crash leaves, the record still names it, and the same command finishes the work.
"""

import os
import shutil
import stat

from workcell import baseline, cli, discard, finish, ids, layout, liveness, logs, record, runtimes, safe_open, scratch
from workcell.errors import BusyError, CannotTellError, UnreadableError, WorkcellError
from workcell.runtimes import _named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOGS = (
    ("debug_log", "debug_log_path"),
    ("file_trace_log", "file_trace_log_path"),
    ("transcript_log", "transcript_log_path"),
)


class Plan:
    """What a delete would do: labels to remove, to keep, missing, and the files and folders behind them in removal order."""

    def __init__(self, fields: "dict[str, Any]", path: str) -> None:
        self.fields, self.path = fields, path
        self.remove = ["record"]
        self.keep: list[str] = []
        self.missing: list[str] = []
        self.unavailable: list[str] = []
        self.remove_base = False  # the copy of a direct session's base, which no field of the record names
        self.container: "Any" = None  # a foreign.Container that is there and does not run
        self.files: list[str] = []
        self.folders: list[str] = []


def prepare(session_id: str, record_only: bool) -> Plan:
    """Find out what there is to delete.

    Raises WorkcellError for a session that is not over, CannotTellError for one that may not be. A session whose end was
    never written down and that is proven gone is finished first.
    """
    fields, path = record.load(session_id)
    fields = _over(fields, path)
    plan = Plan(fields, path)
    plan.remove_base = not record_only and ids.usable_as_file_name(fields["session_id"])
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise UnreadableError(path, "is no regular file")
    _plan_container(plan, record_only)
    _plan_scratch(plan, record_only)
    for label, name in LOGS:
        _plan_log(plan, label, fields[name], record_only)
    seal = layout.seal_path(path)
    if os.path.lexists(seal):
        _take(plan, "audit_seal", seal, record_only)
    extra = layout.extra_path(path)
    if not record_only:
        plan.files.append(extra)  # also when it is not there yet
    return plan


def _over(fields: "dict[str, Any]", path: str) -> "dict[str, Any]":
    """Return the record of a session that is over; raise where it is not."""
    session_id = fields["session_id"]
    if not record.is_terminal(fields) and liveness.presence(fields, ask=True) == liveness.LOST:
        fields = finish.reconcile(path, "host-delete").fields
    if record.live_value(fields).strip() not in record.STOPPED_LIKE:
        next_step = "end it first with workcell-session-stop" if record.is_detached(fields) else "end it first"
        raise WorkcellError(session_id, "still running", next_step)
    folder = fields["session_audit_dir"]
    lock = scratch.open_lock(folder) if folder and scratch.is_ours(folder) else None
    if lock is not None:
        try:
            if scratch.lock_is_held(lock):
                raise BusyError(session_id, "its monitor is still writing its end", "try again in a moment")
        finally:
            os.close(lock)
    return fields


def _plan_container(plan: Plan, record_only: bool) -> None:
    fields = plan.fields
    if not fields["container_name"]:
        return
    runtime = runtimes.by_provider(fields["target_provider"])
    if runtime is None:
        if record_only:
            plan.keep.append("container")
            return
        raise CannotTellError(
            fields["session_id"],
            "could not confirm that its container is gone: its engine cannot be asked",
            "try again where it can, or give --record-only",
        )
    folder = fields["session_audit_dir"]
    if folder and scratch.is_ours(folder) and runtime.state(folder, fields["session_id"]).running:
        raise WorkcellError(fields["session_id"], "its sandbox still runs", "end it with workcell-session-stop")
    if not runtimes.is_engine(runtime):
        return
    if record_only:
        plan.keep.append("container")
        return
    from workcell import foreign

    container = foreign.Container(fields)
    state = container.state()
    if state == "running":
        raise WorkcellError(fields["session_id"], "its container still runs", "end it with workcell-session-stop")
    if state == "missing":
        plan.missing.append("container")
    else:
        plan.remove.append("container")
        plan.container = container


def _plan_scratch(plan: Plan, record_only: bool) -> None:
    folder = plan.fields["session_audit_dir"]
    if not folder:
        return
    if not os.path.lexists(folder):
        plan.missing.append("session_audit_dir")
        return
    profile = os.path.dirname(os.path.dirname(plan.path))
    try:
        if safe_open.check_output(folder, folder=True) != folder:
            raise UnreadableError(folder, "is no absolute path in its clean form")
    except UnreadableError as error:
        cli.complain(f"{plan.fields['session_id']}: left alone: {error}")
        return
    own = os.path.dirname(folder) in (profile, safe_open.anchored(profile)) and scratch.is_ours(folder)
    if not own or record_only:
        plan.keep.append("session_audit_dir")
        return
    plan.remove.append("session_audit_dir")
    plan.folders.append(folder)


def _plan_log(plan: Plan, label: str, named: str, record_only: bool) -> None:
    if not named:
        return
    if not os.path.lexists(named):
        plan.missing.append(label)
        return
    try:
        if safe_open.check_output(named) != named:
            raise UnreadableError(named, "is no absolute path in its clean form")
    except UnreadableError as error:
        cli.complain(f"{plan.fields['session_id']}: left alone: {error}")
        return
    if record_only or not logs.is_own_place(named, plan.path, plan.fields["session_id"]):
        plan.keep.append(label)
        return
    _take(plan, label, named, record_only)


def _take(plan: Plan, label: str, path: str, record_only: bool) -> None:
    if record_only:
        plan.keep.append(label)
    else:
        plan.remove.append(label)
        plan.files.append(path)


def plan_clone(plan: Plan, clone: discard.Clone) -> None:
    """Add the clone of a session to what is to be removed."""
    (plan.remove if clone.present else plan.missing).append("workspace")


def carry_out(plan: Plan, clone: "discard.Clone | None" = None) -> None:
    """Remove what was planned, a clone first, the record last; raise WorkcellError where something cannot be removed."""
    if clone is not None:
        clone.remove()
    if plan.container is not None:
        _named.remove(plan.container.engine, plan.container.spec)
    for path in plan.files:
        _remove(path, os.unlink)
    for folder in plan.folders:
        _remove(folder, shutil.rmtree)
    if plan.remove_base:
        baseline.discard(os.path.dirname(os.path.dirname(plan.path)), plan.fields["session_id"])
    _remove(plan.path, os.unlink)


def _remove(path: str, how: "Callable[..., None]") -> None:
    """Remove one name in a folder that is walked to without following a link; what is gone already is fine."""
    try:
        dir_fd = safe_open.open_dir(os.path.dirname(path))
    except FileNotFoundError:
        return
    try:
        how(os.path.basename(path), dir_fd=dir_fd)
        os.fsync(dir_fd)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise WorkcellError(path, f"cannot be removed: {error.strerror}", "mend that and delete again") from None
    finally:
        os.close(dir_fd)
