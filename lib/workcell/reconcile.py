"""Settle what crashes left behind: sessions whose end nobody wrote down, and starts that never came to a session.

What is proven gone ends once in a final, sealed record. What lives, or cannot be told, is left alone and said.
"""

import fcntl
import os

from workcell import finish, layout, liveness, record, scratch
from workcell.errors import UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SOURCE = "host-reconcile"


class Found:
    """What was found of one session.

    word: `finished` (it had ended, with a status that is known), `lost` (with none), `sealed` (its record was final, and the
    rest of the end was missing), `removed` (a start that never came to a record), `alive`, `unknown`, `foreign`, `final`
    (nothing to do); why: in words, where there is more to say; fields: its record as it is now, None where there is none.
    """

    __slots__ = ("session_id", "word", "why", "fields")

    def __init__(self, session_id: str, word: str, why: str = "", fields: "dict[str, Any] | None" = None) -> None:
        self.session_id, self.word, self.why, self.fields = session_id, word, why, fields


def one(session_id: str, dry_run: bool) -> Found:
    """Settle one session; raise WorkcellError where there is none of that id."""
    fields, path = record.load(session_id)
    return _settle(fields, path, dry_run)


def everything(dry_run: bool, problems: "list[WorkcellError]") -> "Iterator[Found]":
    """Settle whatever there is to settle, and yield that; sessions that are over and whole are passed over."""
    for fields, path in record.walk(record.listed(problems), problems):
        try:
            found = _settle(fields, path, dry_run)
        except (WorkcellError, OSError) as error:
            found = Found(fields["session_id"], "unknown", _words(error), fields)
        if found.word != "final":
            yield found
    yield from _unborn(dry_run, problems)


def _words(error: "WorkcellError | OSError") -> str:
    return str(error) if isinstance(error, WorkcellError) else f"{error.filename or 'system call'}: {error.strerror}"


def _settle(fields: "dict[str, Any]", path: str, dry_run: bool) -> Found:
    session_id = fields["session_id"]
    if record.is_terminal(fields):
        if not _end_is_unfinished(fields, path):
            return Found(session_id, "final", fields=fields)
        if not dry_run:
            fields = finish.reconcile(path, SOURCE).fields
        return Found(session_id, "sealed", fields=fields)
    presence = liveness.presence(fields, ask=True)
    if presence in (liveness.MONITORED, liveness.UNMONITORED):
        return Found(session_id, "alive", fields=fields)
    if presence == liveness.FOREIGN:
        return Found(session_id, "foreign", "it was not started by this tool", fields)
    if presence == liveness.UNKNOWN:
        return Found(session_id, "unknown", "it cannot be told whether it still runs", fields)
    if dry_run:
        return Found(session_id, finish.would_be(fields), fields=fields)
    outcome = finish.reconcile(path, SOURCE)
    return Found(session_id, outcome.word, fields=outcome.fields)


def _end_is_unfinished(fields: "dict[str, Any]", path: str) -> bool:
    """Say whether a final record still waits for its seal, or for the scratch folder to be removed."""
    folder = fields["session_audit_dir"]
    if folder and scratch.is_ours(folder):
        lock = scratch.open_lock(folder)
        if lock is None:  # what is left of one whose removal was cut short, or a folder of another implementation
            return fields["target_provider"] in liveness.LOCAL_PROVIDERS
        try:
            return not scratch.lock_is_held(lock)
        finally:
            os.close(lock)
    return fields["target_provider"] in liveness.LOCAL_PROVIDERS and not os.path.lexists(layout.seal_path(path))


# --- starts that were killed before they wrote a record


def _unborn(dry_run: bool, problems: "list[WorkcellError]") -> "Iterator[Found]":
    """Remove scratch folders, clones and base copies of starts that died before there was a record."""
    for root in record.roots():
        for profile in record.profile_dirs(root, []):  # what is no folder was said by the walk through the records
            try:
                names = sorted(os.listdir(profile))
            except OSError as error:
                problems.append(UnreadableError(profile, error.strerror or str(error)))
                continue
            for name in names:
                folder = os.path.join(profile, name)
                if name.startswith(scratch.PREFIX) and scratch.is_ours(folder):
                    try:
                        found = _settle_folder(folder, profile, dry_run)
                    except (WorkcellError, OSError) as error:
                        found = Found(name, "unknown", _words(error))
                    if found is not None:
                        yield found


def _settle_folder(folder: str, profile: str, dry_run: bool) -> Found | None:
    """Remove one folder that no record names, once neither its monitor nor its start is at work any more."""
    lock = scratch.open_lock(folder)
    held = [lock] if lock is not None else []
    try:
        if lock is not None and scratch.lock_is_held(lock):
            return None  # it is the record's turn to tell of it
        try:
            spec = scratch.read_spec(folder)
        except UnreadableError:
            if lock is None:
                return None  # of another implementation, or born a moment ago
            raise
        if os.path.lexists(spec["record_path"]):
            return None
        if os.path.dirname(spec["record_path"]) != os.path.join(profile, "sessions"):
            raise UnreadableError(folder, "its launch spec belongs to another profile")
        held.append(scratch.open_folder(folder))
        try:
            for fd in held:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Found(spec["session_id"], "alive", "its start is still at work")
        if os.path.lexists(spec["record_path"]):
            return None
        if not dry_run:
            finish.remove_unborn(spec, folder)
        return Found(spec["session_id"], "removed", "its start died before there was a record")
    finally:
        for fd in held:
            os.close(fd)
