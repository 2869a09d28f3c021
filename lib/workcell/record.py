"""Session records: load, list, write; and what a record says when it is looked at.

In code a record is a dict of all 40 fields in the order of FIELDS: `version` is the int 1, every other value a string,
empty where it is not set. Defaults are filled in. See workcell-session-record(5).
"""

import os
import stat

from workcell import fastjson, ids, layout, safe_open, validators
from workcell.canonical import BLANKS
from workcell.errors import NotFoundError, UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Listed = tuple[int, str, list[str]]

FIELDS = (
    "version", "session_id", "profile", "target_kind", "target_provider", "target_id", "target_assurance_class",
    "runtime_api", "workspace_transport", "agent", "mode", "status", "ui", "execution_path", "workspace",
    "workspace_origin", "workspace_root", "worktree_path", "git_branch", "git_head", "git_base", "container_name",
    "monitor_pid", "live_status", "session_audit_dir", "audit_log_path", "debug_log_path", "file_trace_log_path",
    "transcript_log_path", "started_at", "observed_at", "finished_at", "exit_status", "initial_assurance",
    "current_assurance", "final_assurance", "workspace_control_plane", "workspace_repo_mcp", "bootstrap_id",
    "image_ref",
)  # fmt: skip
KEPT_WHEN_EMPTY = frozenset(("session_id", "profile", "agent", "mode", "status", "workspace", "started_at"))
FINAL_FIELDS = ("status", "finished_at", "exit_status", "final_assurance")
ACTIVE = ("starting", "running", "stopping")
TERMINAL = ("exited", "failed", "aborted")
STOPPED_LIKE = ("stopped", *TERMINAL)

LIMIT_BYTES = safe_open.RECORD_LIMIT_BYTES

_EMPTY: "dict[str, Any]" = {"version": 1, **{name: "" for name in FIELDS[1:]}}


class FinalRecordError(WorkcellError):
    """The record is final already: the first end that was written down stays."""


# --- bytes and fields


def decode(data: bytes, path: str = "record") -> "dict[str, Any]":
    """Return the fields of a record's bytes; raise UnreadableError, which says what is wrong with which field."""
    quickly = _quick(data)
    if quickly is not None:
        return quickly
    import json

    try:
        text = data.decode()
        fields = json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise UnreadableError(path, f"byte {error.start} is no UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, f"is no JSON record: {error}" if data.strip() else "is empty") from None
    version = fields.get("version") if type(fields) is dict else None
    if type(version) is int and version > 1:
        raise UnreadableError(path, f"version: must be 1, and this is {version}", "use the newer tool that wrote it")
    why = validators.session_record(fields)
    if why and type(fields) is dict:
        why = validators.session_record(with_defaults(fields))
    if why:
        raise UnreadableError(path, why)
    if type(fields["version"]) is not int:
        raise UnreadableError(path, "version: must be the integer 1")
    return {**_EMPTY, **fields}


def _quick(data: bytes, whole: bool = True) -> "dict[str, Any] | None":
    """Return the fields of a good record without escapes, None for anything else: a listing calls this for each session.

    It is what json.loads does, without the three layers in front of its scanner. Not whole: only the fields that are there.
    """
    try:
        text = data.decode()
        fields, end = fastjson.scan_once(text, 0)
    except fastjson.FAULTS:
        return None
    if type(fields) is not dict or text[end:] != "\n" or b"\\" in data:
        return None
    # Each member has two quotes for its name and two for its value, but for the version: so nothing was written twice.
    if data.count(b'"') != 4 * len(fields) - 2:
        return None
    if not whole:
        return fields if validators.session_record(fields) is None and type(fields["version"]) is int else None
    filled = filled_in(fields)
    # Names that are one object with those that are looked for are found twice as fast; but the quick rule for a pid has no
    # word for an empty one.
    if validators.session_record(filled if filled["monitor_pid"] else fields) is None and type(filled["version"]) is int:
        return filled
    return None


def filled_in(fields: "dict[str, Any]") -> "dict[str, Any]":
    """Return a record with all of its fields, those that are not there empty."""
    return _EMPTY | fields


def _unique(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{name!r} is there twice")
        # An escape such as \ud800 on its own is no character, and could not be printed.
        fields[name] = _text(value) if type(value) is str else value
    return fields


def _text(value: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair, which is also what stands for a byte that is no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join(["\ufffd" if "\ud800" <= character <= "\udfff" else character for character in value])
    return value


def with_defaults(fields: "dict[str, Any]") -> "dict[str, Any]":
    """Fill in what older writers left out, in place; doing it again changes nothing, and what is no text stays."""

    def blank(name: str) -> bool:
        value = fields.get(name, "")
        return type(value) is str and not value.strip(BLANKS)

    def trimmed(name: str) -> str:
        return str(fields.get(name, "")).strip(BLANKS)

    for name, default in _DEFAULTS:
        if blank(name):
            fields[name] = default or trimmed("profile")
    if blank("workspace_transport"):
        workspace = trimmed("workspace")
        isolated = any(path not in ("", workspace) for path in (trimmed("workspace_origin"), trimmed("worktree_path")))
        transport = "isolated-worktree-mount" if isolated else "workspace-mount"
        fields["workspace_transport"] = transport if workspace else ""
    return fields


_DEFAULTS = (
    ("target_kind", "local_vm"),
    ("target_provider", "colima"),
    ("target_id", ""),  # the profile's name
    ("target_assurance_class", "strict"),
    ("runtime_api", "docker"),
)


def encode(fields: "dict[str, Any]", path: str = "record") -> bytes:
    """Return the bytes of a record; raise UnreadableError for what no record may say, or where it is too large."""
    whole = with_defaults({**_EMPTY, **fields})
    for name, value in whole.items():
        if name != "version" and type(value) is not str:
            raise UnreadableError(path, f"{name}: must be text")
        if name != "version" and not value.isascii():
            whole[name] = _text(value)
    written = {name: value for name, value in whole.items() if value or name in KEPT_WHEN_EMPTY}
    why = validators.session_record(written)
    if why:
        raise UnreadableError(path, why)
    data = (json_text(whole) + "\n").encode()
    if len(data) > LIMIT_BYTES:
        raise UnreadableError(path, f"would have {len(data)} bytes, more than {LIMIT_BYTES}")
    return data


def json_text(fields: "dict[str, Any]", indent: str = "") -> str:
    """Return a record as a JSON object, no newline at its end, members in the order of FIELDS, empty ones left out."""
    return _escaped(indent + "{\n" + ",\n".join([f"{indent}  {member}" for member in _members(fields, ": ")]) + f"\n{indent}}}")


def json_line(fields: "dict[str, Any]") -> str:
    """Return the same object in one line, without a blank between its parts."""
    return _escaped("{" + ",".join(_members(fields, ":")) + "}")


def _members(fields: "dict[str, Any]", colon: str) -> list[str]:
    quoted = fastjson.quoted
    members = [f'"version"{colon}{fields["version"]}']
    for name in FIELDS[1:]:
        value = fields[name]
        if value or name in KEPT_WHEN_EMPTY:
            members.append(f'"{name}"{colon}{quoted(value)}')
    return members


def _escaped(text: str) -> str:
    for character, escape in _JSON_ESCAPES:
        if character in text:
            text = text.replace(character, escape)
    return text


_JSON_ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))


# --- reading


def read(path: str) -> "dict[str, Any]":
    """Return the fields of a record file; raise NotFoundError or UnreadableError."""
    try:
        dir_fd = safe_open.open_dir(os.path.dirname(path))
        try:
            return read_at(dir_fd, os.path.basename(path), path)
        finally:
            os.close(dir_fd)
    except FileNotFoundError:
        raise NotFoundError(path, "file does not exist") from None


def read_at(dir_fd: int, name: str, path: str, whole: bool = True) -> "dict[str, Any]":
    """Return the fields of a record in a folder that was opened by safe_open.open_dir; `path` is for messages.

    Not whole: fields that are empty may be missing. Raises FileNotFoundError where there is no record, UnreadableError where
    it cannot be trusted or understood.
    """
    # What safe_open.read_file does, for the case that all is well: a listing of thousands of sessions is this function.
    # One read(2) that got the whole of a small file needs no look at it before.
    try:
        fd = os.open(name, safe_open.FILE_FLAGS, dir_fd=dir_fd)
        try:
            data = os.read(fd, _SMALL_BYTES)
            found = os.fstat(fd)
        finally:
            os.close(fd)
    except OSError:
        pass
    else:
        if (
            found.st_mode & _KIND_AND_OTHERS == stat.S_IFREG
            and found.st_nlink == 1
            and found.st_uid == os.geteuid()
            and found.st_size == len(data) < _SMALL_BYTES
        ):
            return _quick(data, whole) or decode(data, path)
    return decode(safe_open.read_file(dir_fd, name, path, LIMIT_BYTES), path)


_SMALL_BYTES = 1 << 14
_KIND_AND_OTHERS = 0o170077


def roots() -> list[str]:
    """Return the folders that are searched, the one that comes first where both have a session."""
    return [safe_open.resolve_own_links(root) for root in (layout.state_root(), layout.legacy_root())]


def profile_dirs(root: str, problems: "list[WorkcellError]") -> list[str]:
    """Return the folders of profiles below a root; what is no folder goes to `problems`."""
    if not os.path.isdir(root):
        if os.path.lexists(root):
            problems.append(UnreadableError(root, "is not a directory"))
        return []
    targets = os.path.join(root, "targets")
    try:
        found = os.lstat(targets)
    except OSError:
        found = None
    if found is not None and not stat.S_ISDIR(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        problems.append(UnreadableError(targets, "is not a directory"))
    profiles = []
    if found is not None and stat.S_ISDIR(found.st_mode):
        profiles = [targets]
        for _ in range(3):
            profiles = [below for folder in profiles for below in _real_dirs(folder, problems)]
    return profiles + _real_dirs(root, problems)


def sessions_dirs(root: str, problems: "list[WorkcellError]") -> "Iterator[str]":
    """Yield the folders of records below a root that are real folders; what is no folder goes to `problems`."""
    for profile in profile_dirs(root, problems):
        sessions = profile + "/sessions"
        try:
            if not stat.S_ISLNK(os.lstat(sessions).st_mode):
                yield sessions
        except OSError:
            continue


def _real_dirs(folder: str, problems: "list[WorkcellError]") -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(f"{folder}/{entry.name}" for entry in found if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(UnreadableError(folder, error.strerror or str(error)))
        return []


def listed(problems: "list[WorkcellError]") -> "list[Listed]":
    """Return (number of the root, folder, file names) of all records that there are; nothing is read yet."""
    found: list[Listed] = []
    for number, root in enumerate(roots()):
        for folder in sessions_dirs(root, problems):
            try:
                dir_fd = safe_open.open_dir(folder)
            except FileNotFoundError:
                continue
            except UnreadableError as error:
                problems.append(error)
                continue
            try:
                found.append((number, folder, _record_names(dir_fd)))
            finally:
                os.close(dir_fd)
    return found


def walk(
    found: "Sequence[Listed]",
    problems: "list[WorkcellError]",
    choose: "Callable[[dict[str, Any], str], dict[str, Any] | None] | None" = None,
    whole: bool = True,
) -> "Iterator[tuple[dict[str, Any], str]]":
    """Yield (fields, path) of the records that `listed` found, in no order, one in memory at a time.

    The names are taken out of `found` as it goes, for there may be as many as would take more memory than all else.
    A record that cannot be read hides no other: what is wrong with it goes to `problems`. `choose` is given each record
    and its path and returns what to yield as its fields, None to leave it out. whole: as for `read_at`; `choose` is called once
    more, with all fields, where it misses one. Of a session that both roots have, that
    of the first is yielded, if it was chosen.
    """
    owners: dict[str, int] = {}
    several_roots = len({number for number, _, _ in found}) > 1
    for number, folder, names in found:
        try:
            dir_fd = safe_open.open_dir(folder)
        except FileNotFoundError:
            continue
        except UnreadableError as error:
            problems.append(error)
            continue
        try:
            names.reverse()
            while names:
                name = names.pop()
                path = f"{folder}/{name}"
                try:
                    fields = read_at(dir_fd, name, path, whole)
                except FileNotFoundError:
                    continue  # deleted since the folder was listed
                except UnreadableError as error:
                    problems.append(error)
                    continue
                try:
                    chosen = fields if choose is None else choose(fields, path)
                except KeyError:
                    chosen = choose(filled_in(fields), path)  # type: ignore[misc]
                if chosen is None or (several_roots and owners.setdefault(fields["session_id"], number) != number):
                    continue
                yield chosen, path
        finally:
            os.close(dir_fd)


def newest_first(found: "list[Any]", started_at: "Callable[[Any], str]", session_id: "Callable[[Any], str]") -> None:
    """Sort in place: newest start first, then by id downwards; the functions get both out of an item."""
    # Two stable sorts, because the second key counts only among equals of the first.
    found.sort(key=session_id, reverse=True)
    found.sort(key=started_at, reverse=True)


def entries(problems: "list[WorkcellError]") -> "list[tuple[dict[str, Any], str]]":
    """Return (fields, path) of every session, newest start first, then by id downwards."""
    records = list(walk(listed(problems), problems))
    newest_first(records, lambda one: str(one[0]["started_at"]), lambda one: str(one[0]["session_id"]))
    return records


def _record_names(dir_fd: int) -> list[str]:
    with os.scandir(dir_fd) as listed:
        return sorted(
            entry.name
            for entry in listed
            if entry.name.endswith(".json") and not entry.is_symlink() and not entry.is_dir(follow_symlinks=False)
        )


def load(session_id: str) -> "tuple[dict[str, Any], str]":
    """Return (fields, path) of one session.

    `<id>.json` is looked for in each folder of records, the state root first; only where there is none are the records
    read one by one, for files that are named otherwise. Raises NotFoundError, or UnreadableError where the record is
    broken or there are two.
    """
    if not session_id.strip(BLANKS) or "\n" in session_id or "\r" in session_id or "\0" in session_id:
        raise _not_found(session_id)
    if ids.usable_as_file_name(session_id):
        for root in roots():
            found = list(_named(root, session_id))
            if found:
                return _only(found, session_id)
    problems: list[WorkcellError] = []
    found = list(walk(listed(problems), problems, lambda fields, path: fields if fields["session_id"] == session_id else None))
    if found:
        return _only(found, session_id)
    raise _not_found(session_id, problems)


def _not_found(session_id: str, problems: "Sequence[WorkcellError]" = ()) -> NotFoundError:
    why = "no such session, file does not exist"
    if problems:
        why += f" ({len(problems)} records or folders could not be read, such as {problems[0].what}: {problems[0].why})"
    return NotFoundError(session_id, why, "see workcell-session-list")


def _only(found: "list[tuple[dict[str, Any], str]]", session_id: str) -> "tuple[dict[str, Any], str]":
    if len(found) > 1:
        paths = " and ".join(path for _, path in found)
        raise UnreadableError(session_id, f"multiple records have this id: {paths}", "move all but one of them away")
    return found[0]


def _named(root: str, session_id: str) -> "Iterator[tuple[dict[str, Any], str]]":
    name = session_id + ".json"
    for folder in sessions_dirs(root, []):
        path = f"{folder}/{name}"
        try:
            if stat.S_IFMT(os.lstat(path).st_mode) in (stat.S_IFLNK, stat.S_IFDIR):
                continue
            fields = read(path)
        except (OSError, NotFoundError):
            continue
        if fields["session_id"] == session_id:
            yield fields, path


# --- writing


def create(path: str, fields: "dict[str, Any]") -> "dict[str, Any]":
    """Write the first record of a session and return it; raise WorkcellError where the file is there already."""
    return _write(path, dict(fields), must_be_new=True)


def update(
    path: str, updates: "dict[str, str]", *, unless_final: bool = False, repair: bool = False, timeout_s: float = 30.0
) -> "dict[str, Any]":
    """Set fields of a record, an empty value clears one, and return the whole; a missing file is made.

    The folder is locked from the reading to the writing (flock(2) on the folder itself: no lock file is left). What was
    written as the end of a session stays: changing the status, finished_at, exit_status or final_assurance of a final
    record raises FinalRecordError, or with unless_final returns the record as it is. repair allows one final status for
    another.
    """
    return _write(path, dict(updates), unless_final=unless_final, repair=repair, timeout_s=timeout_s)


def _write(
    path: str,
    updates: "dict[str, Any]",
    must_be_new: bool = False,
    unless_final: bool = False,
    repair: bool = False,
    timeout_s: float = 30.0,
) -> "dict[str, Any]":
    from workcell import atomic, lock

    if must_be_new:
        updates.pop("version", None)
    for name in updates:
        if name not in _EMPTY or name == "version":
            raise UnreadableError(path, f"unsupported session record field {name!r}")
    folder, name = os.path.split(path)
    atomic.make_dir(folder)
    dir_fd = safe_open.open_dir(folder)
    try:
        with lock.exclusive(dir_fd, timeout_s, folder):
            try:
                before = read_at(dir_fd, name, path)
            except FileNotFoundError:
                before = None
            if before is not None:
                if must_be_new:
                    raise WorkcellError(path, "there is a record already", "start under another id")
                if is_terminal(before):
                    if unless_final:
                        return before
                    _guard_final(path, before, updates, repair)
            after = {**(before or _EMPTY), **updates}
            data = encode(after, path)
            if before is not None and is_terminal(after):
                _sweep(dir_fd, name)
            atomic.replace_at(dir_fd, name, data)
            return decode(data, path)
    finally:
        os.close(dir_fd)


def _guard_final(path: str, before: "dict[str, Any]", updates: "dict[str, Any]", repair: bool) -> None:
    status = updates.get("status", before["status"])
    if status not in TERMINAL:
        raise FinalRecordError(path, f"refusing to overwrite terminal session status {before['status']!r} with {status!r}")
    for name in FINAL_FIELDS:
        if not repair and updates.get(name, before[name]) != before[name]:
            raise FinalRecordError(path, f"the session is {before['status']} already, {name} stays {before[name]!r}")


def sweep(path: str) -> None:
    """Remove what crashed writers of a file left beside it; a missing folder has nothing."""
    from workcell import lock

    folder, name = os.path.split(path)
    try:
        dir_fd = safe_open.open_dir(folder)
    except (FileNotFoundError, UnreadableError):
        return
    try:
        with lock.exclusive(dir_fd, 30, folder):
            _sweep(dir_fd, name)
    finally:
        os.close(dir_fd)


def _sweep(dir_fd: int, name: str) -> None:
    """Remove what crashed writers of this record left; nobody else writes it while the folder is locked."""
    for found in os.listdir(dir_fd):
        middle = found[len(name) + 1 : -4]
        if found == f"{name}.{middle}.tmp" and len(middle) == 16 and set(middle) <= set("0123456789abcdef"):
            os.unlink(found, dir_fd=dir_fd)


# --- what a record says


def is_terminal(fields: "dict[str, Any]") -> bool:
    """Say whether the session's end is written down."""
    return fields["status"] in TERMINAL


def is_detached(fields: "dict[str, Any]") -> bool:
    """Say whether a monitor was recorded."""
    return bool(fields["monitor_pid"].strip(BLANKS))


def live_value(fields: "dict[str, Any]") -> str:
    """Return live_status, or status where it is empty."""
    live: str = fields["live_status"] or fields["status"]
    return live


def display_live_status(fields: "dict[str, Any]") -> str:
    """Return live_status, or status where it is blank, without blanks around it."""
    live: str = fields["live_status"].strip(BLANKS) or fields["status"].strip(BLANKS)
    return live


def with_live_status(fields: "dict[str, Any]", found: str) -> "dict[str, Any]":
    """Return the record as it is shown where asking found another live status than the recorded one."""
    if not found or found == live_value(fields):
        return fields
    return {**fields, "live_status": found}


def control(fields: "dict[str, Any]") -> str:
    """Return `detached` or `attached`: who holds the session's terminal."""
    if fields["monitor_pid"].strip(BLANKS):
        return "detached"
    if display_live_status(fields) in ACTIVE:
        workspace, worktree = fields["workspace"], fields["worktree_path"]
        if (
            workspace.strip(BLANKS)
            and workspace == fields["workspace_origin"]
            and (not worktree.strip(BLANKS) or worktree == workspace)
        ):
            return "attached"
        if fields["profile"].strip(BLANKS) and fields["container_name"].strip(BLANKS):
            return "detached"
    return "attached"


def assurance(fields: "dict[str, Any]") -> str:
    """Return the assurance that counts: current, else final, else initial."""
    return _first(fields, "current_assurance", "final_assurance", "initial_assurance")


def display_workspace(fields: "dict[str, Any]") -> str:
    """Return the workspace that the operator chose."""
    return _first(fields, "workspace_origin", "workspace")


def display_worktree(fields: "dict[str, Any]") -> str:
    """Return the folder that the agent works in."""
    return _first(fields, "worktree_path", "workspace")


def display_git_branch(fields: "dict[str, Any]") -> str:
    """Return the branch, or `none`."""
    return _first(fields, "git_branch") or "none"


def target_summary(fields: "dict[str, Any]") -> str:
    """Return kind, provider and id of the target, joined with `/`."""
    parts = (fields["target_kind"], fields["target_provider"], fields["target_id"])
    return "/".join([part for part in parts if part.strip(BLANKS)])


def origin_key(fields: "dict[str, Any]") -> str:
    """Return what the grouped listing groups by: the workspace that the session was started from."""
    return _first(fields, "workspace_origin", "workspace").strip(BLANKS)


def _first(fields: "dict[str, Any]", *names: str) -> str:
    for name in names:
        value: str = fields[name]
        if value.strip() or value.strip(BLANKS):  # the first is quicker, and knows more blanks
            return value
    return ""


def text_pairs(fields: "dict[str, Any]") -> "list[tuple[str, str]]":
    """Return the 43 (key, value) lines of the text form, in their order."""
    computed = {
        "target_summary": target_summary,
        "control": control,
        "live_status": display_live_status,
        "assurance": assurance,
        "display_workspace": display_workspace,
        "display_worktree": display_worktree,
        "display_git_branch": display_git_branch,
    }
    return [(key, computed[key](fields) if key in computed else fields[key]) for key in TEXT_KEYS]


TEXT_KEYS = (
    "session_id", "profile", "target_kind", "target_provider", "target_id", "target_summary", "target_assurance_class",
    "runtime_api", "control", "agent", "mode", "ui", "execution_path", "status", "live_status", "assurance",
    "workspace_transport", "workspace", "display_workspace", "display_worktree", "display_git_branch",
    "workspace_origin", "workspace_root", "worktree_path", "git_branch", "git_head", "git_base", "container_name",
    "monitor_pid", "started_at", "observed_at", "finished_at", "exit_status", "initial_assurance", "current_assurance",
    "final_assurance", "session_audit_dir", "audit_log_path", "debug_log_path", "file_trace_log_path",
    "transcript_log_path", "workspace_control_plane", "workspace_repo_mcp",
)  # fmt: skip
