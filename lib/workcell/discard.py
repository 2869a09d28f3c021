"""Give up the clone of a session: only what is the session's own, only when its work is saved or nobody wants it.

That it may go is written down before the first file of it does, in the `.extra` file beside the record, so that a command that
was broken off can be given again: half a clone says nothing of what was in it.
"""

import json
import os

from workcell import atomic, clock, layout, lock, record, removal, rescue, safe_open, schema, worktree
from workcell.errors import CannotTellError, PreconditionError, UnreadableError, WorkcellError
from workcell.workspace import CLONES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from workcell.holdings import Work

DECISION = "workspace_removal"  # in the .extra file: when it was decided
RESCUE = "workspace_rescue"  # in the .extra file: where its work is saved, or about to be
_EXTRA_LIMIT_BYTES = 1 << 20
_BUSY_S = 2.0


class Clone:
    """The clone of one session, with the right to remove it; a context manager, since it holds a lock.

    present: whether it is there; work: what it holds, None where nobody looked; unknown: why that cannot be told; decided:
    whether it was decided already that it goes; rescued: path to size in bytes, of what is saved.
    """

    def __init__(self, fields: "dict[str, Any]", record_path: str) -> None:
        self._fields, self._record_path = fields, record_path
        self._id: str = fields["session_id"]
        self.path: str = fields["workspace"]
        self.work: Work | None = None
        self.unknown: CannotTellError | None = None
        self.rescued: dict[str, int] = {}
        self._parent_fd = self._fd = -1
        _check_place(fields)
        notes = self._notes()
        self.decided = DECISION in notes
        self._intended = notes.get(RESCUE, "")
        try:
            self._parent_fd = safe_open.open_output_dir(os.path.dirname(self.folder))
            self._fd = worktree.open_folder(self._id, self._parent_fd)
        except (OSError, UnreadableError) as error:
            self.__exit__()
            # What cannot be reached counts as gone only where the repository is that it would lie in.
            if os.path.lexists(self.folder) or not os.path.isdir(os.path.dirname(os.path.dirname(self.folder))):
                why = error.why if isinstance(error, UnreadableError) else error.strerror
                raise CannotTellError(
                    self.folder, f"cannot be reached: {why}", "bring the source repository back, or leave out --workspace"
                ) from None
        if self._fd >= 0:
            try:
                if os.fstat(self._fd).st_uid != os.geteuid():
                    raise UnreadableError(self.folder, "belongs to somebody else", "see who made it")
                lock.take(self._fd, _BUSY_S, self.folder)
            except BaseException:
                self.__exit__()
                raise

    @property
    def folder(self) -> str:
        """The folder that holds the clone and nothing else."""
        return os.path.dirname(self.path)

    @property
    def present(self) -> bool:
        return self._fd >= 0

    def __enter__(self) -> "Clone":
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (self._fd, self._parent_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._parent_fd = -1

    # --- what may become of it

    def look(self) -> None:
        """Find out what it holds, unless that does not matter any more."""
        from workcell import holdings

        if not self.present or self.decided:
            return
        names = os.listdir(self._fd)
        if not names:
            return
        others = [name for name in names if name != "repo"]
        if others:
            self.unknown = CannotTellError(
                self.folder, "has more in it than the clone", "see what that is and take it out, or give --discard-work"
            )
            return
        try:
            self.work = holdings.examine(self._fields, os.path.dirname(os.path.dirname(self._record_path)))
        except CannotTellError as error:
            self.unknown = error

    def refusal(self) -> WorkcellError | None:
        """Return why it stays as long as nothing is saved or given up, None when it may go."""
        if self.unknown is not None:
            return self.unknown
        if self.work:
            return WorkcellError(
                self._id,
                f"its clone holds work that is nowhere else: {self.work.in_words()}",
                "save it with --rescue FILE, or give --discard-work to do without it",
            )
        return None

    def check_rescue(self, path: str, forbidden: "list[str]") -> str:
        """Return where what it holds would be saved, "" where there is nothing to save; raise WorkcellError.

        forbidden: files and folders that are about to be removed.
        """
        resolved = rescue.check_path(path, [self.folder, *forbidden])
        if not self.present or self.decided:
            self.rescued = self._saved_before()
            return ""
        if self.unknown is not None:
            raise self.unknown
        if not self.work:
            return ""
        for name in (resolved, resolved + ".tar"):
            if os.path.lexists(name) and self._intended != resolved:
                raise PreconditionError(name, "is there already", "name a new file with --rescue")
        return resolved

    def save(self, resolved: str) -> None:
        """Write what it holds to a file, and what is in no commit to another beside it; raise WorkcellError."""
        if not resolved or self.work is None:
            return
        # A name that is taken is ours to take again only where this was written down before.
        again = self._intended == resolved
        self._note({RESCUE: resolved})
        self._intended = resolved
        with rescue.Rescue(resolved, self.work, self.path, self._fields["workspace_origin"], again) as saved:
            saved.publish()
            self.rescued = saved.sizes

    def _saved_before(self) -> dict[str, int]:
        names = (self._intended, self._intended + ".tar") if self._intended else ()
        return {name: os.lstat(name).st_size for name in names if os.path.lexists(name)}

    def remove(self) -> None:
        """Remove it and the folder that holds it; raise WorkcellError where something of it cannot be removed."""
        if not self.present:
            return
        if not self.decided:
            self._note({DECISION: clock.utc_now()})
        try:
            removal.remove_tree(self._fd, "repo")
            removal.remove_tree(self._parent_fd, self._id)
            os.fsync(self._parent_fd)
        except OSError as error:
            raise WorkcellError(
                self.path, f"cannot be removed: {error.strerror or error}", "mend that and delete again"
            ) from None

    def facts(self, rescue_path: str) -> "dict[str, Any]":
        """Return what is to be said of it, in the keys of session-delete; rescue_path: where it would be saved."""
        found: dict[str, Any] = {"workspace": self.path}
        if self.work is not None:
            found["work"] = {**self.work.counts, "more_commits": self.work.more}
        if self.unknown is not None:
            found["work_unknown"] = self.unknown.why
        if rescue_path and not self.rescued:
            found["rescue"] = rescue_path
        for path, size in self.rescued.items():
            key = "rescue" if path == self._intended else "rescue_files"
            found.update({key: path, key + "_bytes": size})
        return found

    # --- what is remembered of it

    def _notes(self) -> "dict[str, str]":
        path = layout.extra_path(self._record_path)
        try:
            dir_fd = safe_open.open_dir(os.path.dirname(path))
            try:
                value = json.loads(safe_open.read_file(dir_fd, os.path.basename(path), path, _EXTRA_LIMIT_BYTES))
            finally:
                os.close(dir_fd)
            schema.check("session-extra", value)
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            raise UnreadableError(path, "is damaged", "see what became of it") from None
        return dict(value)

    def _note(self, notes: "dict[str, str]") -> None:
        path = layout.extra_path(self._record_path)
        record.sweep(path)
        value = {"version": 1, **self._notes(), **notes}
        schema.check("session-extra", value)
        dir_fd = safe_open.open_dir(os.path.dirname(path))
        try:
            atomic.replace_at(dir_fd, os.path.basename(path), json.dumps(value).encode() + b"\n")
        finally:
            os.close(dir_fd)


def _check_place(fields: "dict[str, Any]") -> None:
    """Raise PreconditionError unless the workspace of a record is a clone, and lies where clones of its session do."""
    path, origin = fields["workspace"], fields["workspace_origin"] or fields["workspace"]
    if path == origin:
        raise PreconditionError(
            fields["session_id"], "works in the operator's own tree, which is not removed", "leave out --workspace"
        )
    expected = os.path.join(origin, ".git", CLONES, fields["session_id"], "repo")
    if path != expected or os.path.normpath(path) != path or not os.path.isabs(path):
        raise PreconditionError(path, "is not where the clone of a session lies", "remove it by hand, without --workspace")
