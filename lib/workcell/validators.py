# GENERATED from schema/*.json by tools/gen_validators.py: change those and run `make validators`.
"""Check values against the schemas.

For each schema there is a function of its name, session_record(value) for session-record.json. It returns None for a
value that fits, else one line, 'FIELD: why', about the first rule that is broken.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], "str | None"]

_found: "dict[str, Callable[[str], object]]" = {}


def _search(pattern: str, text: str) -> bool:
    search = _found.get(pattern)
    if search is None:
        import re

        search = _found[pattern] = re.compile(pattern).search
    return search(text) is not None


def _is_integer(value: "Any") -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _below(where: str, name: "Any") -> str:
    # The name may be anybody's: nothing of it may reach a terminal as it is.
    if not isinstance(name, str) or len(name) > 64 or not name.isascii() or not name.isidentifier():
        name = ascii(name[:64]) if isinstance(name, str) else "?"
    return f"{where}.{name}" if where else name


def _never(value: "Any", where: str) -> "str | None":
    return f"{where}: must not be there"


def _named(why: "str | None") -> "str | None":
    return f"document{why}" if why is not None and why.startswith(":") else why


KINDS = (
    "audit-event", "audit-seal", "launch-spec", "session-delete", "session-diff", "session-export", "session-extra",
    "session-list", "session-probe-image", "session-reconcile", "session-record", "session-screen", "session-send",
    "session-start", "session-stop", "session-verify", "session-wait",
)
_BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ZEROS = str.maketrans("123456789", "000000000")


def _line(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if "\n" in value or "\r" in value:
        return f"{where}: must not have a line break"
    return None


def _filled(value: "Any", where: str) -> "str | None":
    if isinstance(value, str):
        if not value.strip(_BLANKS):
            return f"{where}: must be a text that is not blank"
    return None


def _filled_line(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    why = _line(value, where)
    if why is not None:
        return why
    why = _filled(value, where)
    if why is not None:
        return why
    return None


def _timestamp(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not value.translate(_ZEROS) == "0000-00-00T00:00:00Z":
        return f"{where}: must be a UTC time such as 2026-01-02T03:04:05Z"
    return None


def _digest(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (len(value) == 64 and not value.strip("0123456789abcdef")):
        return f"{where}: must be 64 lower-case hex digits"
    return None


def _text(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    return None


def _audit_event_propertynames(value: "Any", where: str) -> "str | None":
    if isinstance(value, str):
        if not (value and not any(c in value for c in "=\r\n\0")):
            return f"{where}: must be a key: not empty, without '=', line break or NUL"
    return None


def _audit_event_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("timestamp",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
    return None


def _audit_event_else_v(value: "Any", where: str) -> "str | None":
    if value != "1":
        return f"{where}: must be 1"
    return None


def _audit_event_else(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("ts", "target_kind", "target_provider", "target_id", "v"):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _AUDIT_EVENT_ELSE_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _audit_event(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _AUDIT_EVENT_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _AUDIT_EVENT_FIELDS:
            why = _text(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        why = _audit_event_propertynames(field, _below(where, field))
        if why is not None:
            return why
    for field in ("event", "session_id"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    if _audit_event_if(value, where) is not None:
        why = _audit_event_else(value, where)
        if why is not None:
            return why + " in a line without timestamp"
    return None


def _version_1(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if isinstance(value, bool) or value != 1:
        return f"{where}: must be 1"
    return None


def _key_id(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (len(value) == 32 and not value.strip("0123456789abcdef")):
        return f"{where}: must be 32 lower-case hex digits"
    return None


def _audit_seal_algorithm(value: "Any", where: str) -> "str | None":
    if value != "ecdsa-p256-sha256":
        return f"{where}: must be ecdsa-p256-sha256"
    return None


def _audit_seal_signature(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not _search(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$(?!\n)", value):
        return f"{where}: must be padded base64"
    return None


def _audit_seal(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _AUDIT_SEAL_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _AUDIT_SEAL_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("version", "session_id", "head_digest", "key_id", "algorithm", "signature"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _new_session_id(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (value[:17].translate(_ZEROS) == "00000000T000000Z-" and len(value) == 25 and not value[17:].strip("0123456789abcdef")):
        return f"{where}: must be a session id such as 20260102T030405Z-0a1b2c3d"
    return None


def _profile(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (0 < len(value) <= 64 and value[0] in _LETTERS and not value.strip(_LETTERS + "._-")):
        return f"{where}: must be 1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit"
    return None


def _path_word(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (0 < len(value) <= 32 and value[0] in _LETTERS and not value.strip(_LETTERS + "_-") and value == value.lower()):
        return (
            f"{where}: must be 1 to 32 lower-case letters, digits, hyphens and "
            "underscores, the first a letter or digit"
        )
    return None


def _argument(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if "\0" in value:
        return f"{where}: must not have a NUL"
    return None


def _absolute_path(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    why = _line(value, where)
    if why is not None:
        return why
    why = _argument(value, where)
    if why is not None:
        return why
    if not value.startswith("/"):
        return f"{where}: must be an absolute path in one line"
    return None


def _launch_spec_workspace_mode(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"isolated", "direct"}:
        return f"{where}: must be isolated or direct"
    return None


def _launch_spec_agent_autonomy(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"yolo", "prompt"}:
        return f"{where}: must be yolo or prompt"
    return None


def _launch_spec_mode(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"strict", "development", "build", "breakglass"}:
        return f"{where}: must be strict, development, build or breakglass"
    return None


def _launch_spec_argv(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    if len(value) < 1:
        return f"{where}: must have 1 or more items"
    for index, item in enumerate(value):
        why = _argument(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _env_name(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (value.isascii() and value.isidentifier()):
        return f"{where}: must be the name of an environment variable"
    return None


def _launch_spec_env_names(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    texts = [item for item in value if isinstance(item, str)]
    if len(set(texts)) != len(texts):
        return f"{where}: must not have an item twice"
    for index, item in enumerate(value):
        why = _env_name(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _launch_spec_network(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"host", "none", "bridge"}:
        return f"{where}: must be host, none or bridge"
    return None


def _count(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _launch_spec_seccomp(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _launch_spec_transcript(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _container_name(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not (value.startswith("workcell-") and value[9:10] not in ("", ".", "_", "-") and not value[9:].strip(_LETTERS + "._-")):
        return f"{where}: must be a container name that begins with workcell-"
    return None


def _launch_spec_engine_env(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _line(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _launch_spec_container_mutability(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"readonly", "ephemeral"}:
        return f"{where}: must be readonly or ephemeral"
    return None


def _launch_spec_own_filter(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _launch_spec(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _LAUNCH_SPEC_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _LAUNCH_SPEC_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in (
        "version", "session_id", "boot_id", "profile", "target_kind", "target_provider", "target_id", "profile_dir",
        "record_path", "scratch_dir", "workspace", "workspace_origin", "workspace_mode", "git_branch", "git_base",
        "agent", "agent_autonomy", "mode", "argv", "env_names", "network", "uid", "gid", "seccomp", "transcript",
        "container_name", "stop_signal", "started_at",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_delete_deleted(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_delete_record_only(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_delete_dry_run(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_delete_labels_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not isinstance(value, str) or value not in {
        "record", "container", "session_audit_dir", "debug_log", "file_trace_log", "transcript_log", "audit_seal",
        "workspace",
    }:
        return (
            f"{where}: must be record, container, session_audit_dir, debug_log, "
            "file_trace_log, transcript_log, audit_seal or workspace"
        )
    return None


def _session_delete_labels(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    texts = [item for item in value if isinstance(item, str)]
    if len(set(texts)) != len(texts):
        return f"{where}: must not have an item twice"
    for index, item in enumerate(value):
        why = _session_delete_labels_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_delete_work_commits(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_tags(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_stashes(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_staged(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_unstaged(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_untracked(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_submodules(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_work_more_commits(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_delete_work(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DELETE_WORK_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DELETE_WORK_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("commits", "tags", "stashes", "staged", "unstaged", "untracked", "submodules", "more_commits"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_delete_rescue_bytes(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_rescue_files_bytes(value: "Any", where: str) -> "str | None":
    if not _is_integer(value):
        return f"{where}: must be an integer"
    if value < 0:
        return f"{where}: must be 0 or more"
    return None


def _session_delete_if_dry_run(value: "Any", where: str) -> "str | None":
    if value is not True:
        return f"{where}: must be true"
    return None


def _session_delete_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("dry_run",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_DELETE_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_delete_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("would_remove", "would_keep"):
            if field not in value:
                return f"{_below(where, field)}: is missing"
    return None


def _session_delete_else(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("removed", "kept"):
            if field not in value:
                return f"{_below(where, field)}: is missing"
    return None


def _session_delete(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DELETE_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DELETE_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session_id", "deleted", "record_only", "dry_run", "missing", "unavailable"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    if _session_delete_if(value, where) is None:
        why = _session_delete_then(value, where)
        if why is not None:
            return why + " in a dry run"
    if _session_delete_if(value, where) is not None:
        why = _session_delete_else(value, where)
        if why is not None:
            return why + " when something was deleted"
    return None


def _session_diff_object_id(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not _search(r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)", value):
        return f"{where}: must be 40 or 64 lower-case hex digits"
    return None


def _session_diff_complete(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_diff_commits_known(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_diff_refs(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _filled_line(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_commits_items_checked_out(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_diff_commits_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_COMMITS_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_COMMITS_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("id", "refs", "checked_out", "subject"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_commits(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_commits_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_letter(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not _search(r"^[ MTADRCUm?]$(?!\n)", value):
        return f"{where}: must be a letter of git status --short, or a blank"
    return None


def _session_diff_status_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_STATUS_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_STATUS_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("index", "worktree", "path", "quoted"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_status(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_status_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_untracked_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_UNTRACKED_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_UNTRACKED_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("path", "quoted"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_untracked(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_untracked_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_changes_items_kind(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"added", "deleted", "modified"}:
        return f"{where}: must be added, deleted or modified"
    return None


def _session_diff_mode(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"100644", "100755", "120000", "160000"}:
        return f"{where}: must be 100644, 100755, 120000 or 160000"
    return None


def _session_diff_changes_items_binary(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_diff_changes_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_CHANGES_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_CHANGES_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("path", "quoted", "kind"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_changes(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_changes_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_submodules_items_kinds(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _filled_line(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_submodules_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_SUBMODULES_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_SUBMODULES_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("path", "quoted", "recorded", "checked_out", "kinds"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_submodules(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_submodules_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_notes(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _text(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff_other_refs_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_OTHER_REFS_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_OTHER_REFS_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("refs", "id", "diff"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_diff_other_refs(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_diff_other_refs_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_diff(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_DIFF_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_DIFF_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in (
        "session_id", "workspace", "git_branch", "git_head", "git_base", "complete", "commits_known", "commits",
        "status", "untracked", "ignored", "changes", "submodules", "notes", "diff", "other_refs",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _status(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not isinstance(value, str) or value not in {"starting", "running", "stopping", "exited", "failed", "aborted"}:
        return f"{where}: must be starting, running, stopping, exited, failed or aborted"
    return None


def _session_record_allof_0_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("monitor_pid",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_RECORD_ALLOF_0_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _pid(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str):
        return f"{where}: must be a string"
    if not _search(r"^\+?0*[1-9][0-9]{0,17}$(?!\n)", value):
        return f"{where}: must be a process id"
    return None


def _session_record_allof_0_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("session_audit_dir",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_RECORD_ALLOF_0_THEN_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_record_allof_0(value: "Any", where: str) -> "str | None":
    if _session_record_allof_0_if(value, where) is None:
        why = _session_record_allof_0_then(value, where)
        if why is not None:
            return why + " for a detached session"
    return None


def _session_record_allof_1_if_status(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"starting", "running", "stopping"}:
        return f"{where}: must be starting, running or stopping"
    return None


def _session_record_allof_1_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("status",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_RECORD_ALLOF_1_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _empty(value: "Any", where: str) -> "str | None":
    if isinstance(value, str):
        if len(value) > 0:
            return f"{where}: must be empty"
    return None


def _session_record_allof_1_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field, check in _SESSION_RECORD_ALLOF_1_THEN_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_record_allof_1(value: "Any", where: str) -> "str | None":
    if _session_record_allof_1_if(value, where) is None:
        why = _session_record_allof_1_then(value, where)
        if why is not None:
            return why + " while the session is active"
    return None


def _session_record_allof_2_if_status(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"exited", "failed", "aborted"}:
        return f"{where}: must be exited, failed or aborted"
    return None


def _session_record_allof_2_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("status",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_RECORD_ALLOF_2_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_record_allof_2_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("finished_at", "exit_status", "final_assurance"):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_RECORD_ALLOF_2_THEN_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_record_allof_2(value: "Any", where: str) -> "str | None":
    if _session_record_allof_2_if(value, where) is None:
        why = _session_record_allof_2_then(value, where)
        if why is not None:
            return why + " once the session is over"
    return None


def _session_record(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field in (
        "version", "session_id", "profile", "target_kind", "target_provider", "target_id", "target_assurance_class",
        "runtime_api", "workspace_transport", "agent", "mode", "status", "workspace", "started_at",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    for field, check in _SESSION_RECORD_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_RECORD_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    why = _session_record_allof_0(value, where)
    if why is not None:
        return why
    why = _session_record_allof_1(value, where)
    if why is not None:
        return why
    why = _session_record_allof_2(value, where)
    if why is not None:
        return why
    return None


def _session_export_audit_records(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    if len(value) < 1:
        return f"{where}: must have 1 or more items"
    for index, item in enumerate(value):
        why = _text(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_export(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_EXPORT_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_EXPORT_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session",):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_extra(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_EXTRA_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_EXTRA_FIELDS:
            why = _text(value[field], _below(where, field))
            if why is not None:
                return why
    for field in ("version",):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_list(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        if session_record(item) is not None:
            return _session_record(item, f"{where}[{index}]")
    return None


def _session_probe_image_python(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"image", "mounted"}:
        return f"{where}: must be image or mounted"
    return None


def _session_probe_image_checks_items_result(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"pass", "fail"}:
        return f"{where}: must be pass or fail"
    return None


def _session_probe_image_checks_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_PROBE_IMAGE_CHECKS_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_PROBE_IMAGE_CHECKS_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("name", "result", "why"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_probe_image_checks(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    if len(value) < 1:
        return f"{where}: must have 1 or more items"
    for index, item in enumerate(value):
        why = _session_probe_image_checks_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_probe_image(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_PROBE_IMAGE_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_PROBE_IMAGE_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("image", "target", "python", "checks"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_reconcile_items_outcome(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {
        "finished", "lost", "sealed", "removed", "alive", "unknown", "foreign", "final",
    }:
        return f"{where}: must be finished, lost, sealed, removed, alive, unknown, foreign or final"
    return None


def _session_reconcile_items_dry_run(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_reconcile_items(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_RECONCILE_ITEMS_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_RECONCILE_ITEMS_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session_id", "outcome", "dry_run"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_reconcile(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _session_reconcile_items(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_screen_cursor_hidden(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_screen_cursor(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_SCREEN_CURSOR_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_SCREEN_CURSOR_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("row", "column", "hidden"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_screen_alternate(value: "Any", where: str) -> "str | None":
    if not isinstance(value, bool):
        return f"{where}: must be true or false"
    return None


def _session_screen_lines(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _line(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_screen(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_SCREEN_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_SCREEN_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session_id", "rows", "columns", "cursor", "alternate", "lines"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_send_control_mode(value: "Any", where: str) -> "str | None":
    if value != "detached":
        return f"{where}: must be detached"
    return None


def _session_send(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_SEND_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_SEND_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in (
        "session_id", "sent_bytes", "status", "live_status", "control_mode", "target_kind", "target_provider",
        "target_id", "target_summary", "target_assurance_class", "runtime_api", "workspace_transport", "workspace",
        "display_workspace", "workspace_origin", "display_worktree", "worktree_path", "display_git_branch",
        "git_branch", "assurance",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_start_control_mode(value: "Any", where: str) -> "str | None":
    if value != "detached":
        return f"{where}: must be detached"
    return None


def _session_start_warnings(value: "Any", where: str) -> "str | None":
    if not isinstance(value, list):
        return f"{where}: must be an array"
    for index, item in enumerate(value):
        why = _filled_line(item, f"{where}[{index}]")
        if why is not None:
            return why
    return None


def _session_start(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_START_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_START_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in (
        "session_id", "status", "live_status", "control_mode", "workspace", "workspace_origin", "workspace_root",
        "worktree_path", "target_kind", "target_provider", "target_id", "target_summary", "target_assurance_class",
        "runtime_api", "workspace_transport", "display_workspace", "display_worktree", "display_git_branch",
        "git_branch", "assurance", "monitor_pid", "audit_log_path", "debug_log_path", "file_trace_log_path",
        "transcript_log_path",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_stop_stop_requested(value: "Any", where: str) -> "str | None":
    if value is not True:
        return f"{where}: must be true"
    return None


def _session_stop_control_mode(value: "Any", where: str) -> "str | None":
    if value != "detached":
        return f"{where}: must be detached"
    return None


def _session_stop(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_STOP_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_STOP_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in (
        "session_id", "stop_requested", "status", "live_status", "control_mode", "target_kind", "target_provider",
        "target_id", "target_summary", "target_assurance_class", "runtime_api", "workspace_transport", "workspace",
        "display_workspace", "workspace_origin", "display_worktree", "worktree_path", "display_git_branch",
        "git_branch", "assurance",
    ):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    return None


def _session_verify_verdict(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {
        "verified", "unsealed", "torn", "broken-chain", "cut", "wrong-key", "bad-seal", "path-mismatch", "unreadable",
        "unsupported",
    }:
        return (
            f"{where}: must be verified, unsealed, torn, broken-chain, cut, "
            "wrong-key, bad-seal, path-mismatch, unreadable or unsupported"
        )
    return None


def _session_verify_if_verdict(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"verified"}:
        return f"{where}: must be verified"
    return None


def _session_verify_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("verdict",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_VERIFY_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_verify_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("key_id", "head_digest"):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_VERIFY_THEN_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_verify(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_VERIFY_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_VERIFY_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session_id", "verdict"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    if _session_verify_if(value, where) is None:
        why = _session_verify_then(value, where)
        if why is not None:
            return why + " when the verdict is verified"
    return None


def _session_wait_reason(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"exited", "signal", "stopped", "lost", "unknown"}:
        return f"{where}: must be exited, signal, stopped, lost or unknown"
    return None


def _session_wait_if_reason(value: "Any", where: str) -> "str | None":
    if not isinstance(value, str) or value not in {"lost", "unknown"}:
        return f"{where}: must be lost or unknown"
    return None


def _session_wait_if(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field in ("reason",):
            if field not in value:
                return f"{_below(where, field)}: is missing"
        for field, check in _SESSION_WAIT_IF_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_wait_then(value: "Any", where: str) -> "str | None":
    if isinstance(value, dict):
        for field, check in _SESSION_WAIT_THEN_FIELDS.items():
            if field in value:
                why = check(value[field], _below(where, field))
                if why is not None:
                    return why
    return None


def _session_wait(value: "Any", where: str) -> "str | None":
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    for field, check in _SESSION_WAIT_FIELDS.items():
        if field in value:
            why = check(value[field], _below(where, field))
            if why is not None:
                return why
    for field in value:
        if field not in _SESSION_WAIT_FIELDS:
            return f"{_below(where, field)}: is not a known field"
    for field in ("session_id", "status", "reason"):
        if field not in value:
            return f"{_below(where, field)}: is missing"
    if _session_wait_if(value, where) is None:
        why = _session_wait_then(value, where)
        if why is not None:
            return why + " when the reason is lost or unknown"
    return None


_AUDIT_EVENT_FIELDS: "dict[str, Check]" = {
    "event": _filled_line,
    "session_id": _filled_line,
    "timestamp": _timestamp,
    "ts": _filled_line,
    "prev_digest": _digest,
    "record_digest": _digest,
}

_AUDIT_EVENT_ELSE_FIELDS: "dict[str, Check]" = {
    "v": _audit_event_else_v,
    "prev_digest": _never,
    "record_digest": _never,
}

_AUDIT_SEAL_FIELDS: "dict[str, Check]" = {
    "version": _version_1,
    "session_id": _filled_line,
    "head_digest": _digest,
    "key_id": _key_id,
    "algorithm": _audit_seal_algorithm,
    "signature": _audit_seal_signature,
    "signed_at": _timestamp,
}

_LAUNCH_SPEC_FIELDS: "dict[str, Check]" = {
    "version": _version_1,
    "session_id": _new_session_id,
    "boot_id": _filled_line,
    "profile": _profile,
    "target_kind": _path_word,
    "target_provider": _path_word,
    "target_id": _filled_line,
    "profile_dir": _absolute_path,
    "record_path": _absolute_path,
    "scratch_dir": _absolute_path,
    "workspace": _absolute_path,
    "workspace_origin": _absolute_path,
    "workspace_mode": _launch_spec_workspace_mode,
    "clone_path": _absolute_path,
    "git_branch": _line,
    "git_base": _line,
    "agent": _path_word,
    "agent_autonomy": _launch_spec_agent_autonomy,
    "mode": _launch_spec_mode,
    "argv": _launch_spec_argv,
    "env_names": _launch_spec_env_names,
    "network": _launch_spec_network,
    "uid": _count,
    "gid": _count,
    "seccomp": _launch_spec_seccomp,
    "transcript": _launch_spec_transcript,
    "transcript_log_path": _absolute_path,
    "transcript_limit_bytes": _count,
    "debug_log_path": _absolute_path,
    "file_trace_log_path": _absolute_path,
    "home_path": _absolute_path,
    "container_name": _container_name,
    "stop_signal": _filled_line,
    "image_ref": _filled_line,
    "engine_env": _launch_spec_engine_env,
    "adapter_python": _absolute_path,
    "container_mutability": _launch_spec_container_mutability,
    "own_filter": _launch_spec_own_filter,
    "container_cpu": _line,
    "container_memory": _line,
    "started_at": _timestamp,
}

_SESSION_DELETE_WORK_FIELDS: "dict[str, Check]" = {
    "commits": _session_delete_work_commits,
    "tags": _session_delete_work_tags,
    "stashes": _session_delete_work_stashes,
    "staged": _session_delete_work_staged,
    "unstaged": _session_delete_work_unstaged,
    "untracked": _session_delete_work_untracked,
    "submodules": _session_delete_work_submodules,
    "more_commits": _session_delete_work_more_commits,
}

_SESSION_DELETE_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "deleted": _session_delete_deleted,
    "record_only": _session_delete_record_only,
    "dry_run": _session_delete_dry_run,
    "removed": _session_delete_labels,
    "would_remove": _session_delete_labels,
    "kept": _session_delete_labels,
    "would_keep": _session_delete_labels,
    "missing": _session_delete_labels,
    "unavailable": _session_delete_labels,
    "workspace": _filled_line,
    "work": _session_delete_work,
    "work_unknown": _filled_line,
    "rescue": _filled_line,
    "rescue_files": _filled_line,
    "rescue_bytes": _session_delete_rescue_bytes,
    "rescue_files_bytes": _session_delete_rescue_files_bytes,
}

_SESSION_DELETE_IF_FIELDS: "dict[str, Check]" = {
    "dry_run": _session_delete_if_dry_run,
}

_SESSION_DIFF_COMMITS_ITEMS_FIELDS: "dict[str, Check]" = {
    "id": _session_diff_object_id,
    "refs": _session_diff_refs,
    "checked_out": _session_diff_commits_items_checked_out,
    "subject": _text,
}

_SESSION_DIFF_STATUS_ITEMS_FIELDS: "dict[str, Check]" = {
    "index": _session_diff_letter,
    "worktree": _session_diff_letter,
    "path": _text,
    "quoted": _line,
    "renamed_from": _line,
}

_SESSION_DIFF_UNTRACKED_ITEMS_FIELDS: "dict[str, Check]" = {
    "path": _text,
    "quoted": _line,
}

_SESSION_DIFF_CHANGES_ITEMS_FIELDS: "dict[str, Check]" = {
    "path": _text,
    "quoted": _line,
    "kind": _session_diff_changes_items_kind,
    "old_mode": _session_diff_mode,
    "old_id": _session_diff_object_id,
    "new_mode": _session_diff_mode,
    "new_id": _session_diff_object_id,
    "binary": _session_diff_changes_items_binary,
    "lines_added": _count,
    "lines_deleted": _count,
    "not_shown": _text,
}

_SESSION_DIFF_SUBMODULES_ITEMS_FIELDS: "dict[str, Check]" = {
    "path": _text,
    "quoted": _line,
    "recorded": _session_diff_object_id,
    "checked_out": _line,
    "kinds": _session_diff_submodules_items_kinds,
}

_SESSION_DIFF_OTHER_REFS_ITEMS_FIELDS: "dict[str, Check]" = {
    "refs": _session_diff_refs,
    "id": _session_diff_object_id,
    "diff": _text,
}

_SESSION_DIFF_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "workspace": _filled_line,
    "git_branch": _line,
    "git_head": _line,
    "git_base": _session_diff_object_id,
    "complete": _session_diff_complete,
    "commits_known": _session_diff_commits_known,
    "commits": _session_diff_commits,
    "status": _session_diff_status,
    "untracked": _session_diff_untracked,
    "ignored": _count,
    "changes": _session_diff_changes,
    "submodules": _session_diff_submodules,
    "notes": _session_diff_notes,
    "diff": _text,
    "other_refs": _session_diff_other_refs,
}

_SESSION_RECORD_FIELDS: "dict[str, Check]" = {
    "version": _version_1,
    "session_id": _filled_line,
    "profile": _filled_line,
    "target_kind": _filled_line,
    "target_provider": _filled_line,
    "target_id": _filled_line,
    "target_assurance_class": _filled_line,
    "runtime_api": _filled_line,
    "workspace_transport": _filled_line,
    "agent": _filled_line,
    "mode": _filled_line,
    "status": _status,
    "ui": _line,
    "execution_path": _line,
    "workspace": _filled_line,
    "workspace_origin": _line,
    "workspace_root": _line,
    "worktree_path": _line,
    "git_branch": _line,
    "git_head": _line,
    "git_base": _line,
    "container_name": _line,
    "monitor_pid": _line,
    "live_status": _line,
    "session_audit_dir": _line,
    "audit_log_path": _line,
    "debug_log_path": _line,
    "file_trace_log_path": _line,
    "transcript_log_path": _line,
    "started_at": _filled_line,
    "observed_at": _line,
    "finished_at": _line,
    "exit_status": _line,
    "initial_assurance": _line,
    "current_assurance": _line,
    "final_assurance": _line,
    "workspace_control_plane": _line,
    "workspace_repo_mcp": _line,
    "bootstrap_id": _line,
    "image_ref": _line,
}

_SESSION_RECORD_ALLOF_0_IF_FIELDS: "dict[str, Check]" = {
    "monitor_pid": _filled,
}

_SESSION_RECORD_ALLOF_0_THEN_FIELDS: "dict[str, Check]" = {
    "monitor_pid": _pid,
    "session_audit_dir": _filled,
}

_SESSION_RECORD_ALLOF_1_IF_FIELDS: "dict[str, Check]" = {
    "status": _session_record_allof_1_if_status,
}

_SESSION_RECORD_ALLOF_1_THEN_FIELDS: "dict[str, Check]" = {
    "finished_at": _empty,
    "exit_status": _empty,
    "final_assurance": _empty,
}

_SESSION_RECORD_ALLOF_2_IF_FIELDS: "dict[str, Check]" = {
    "status": _session_record_allof_2_if_status,
}

_SESSION_RECORD_ALLOF_2_THEN_FIELDS: "dict[str, Check]" = {
    "finished_at": _filled,
    "exit_status": _filled,
    "final_assurance": _filled,
}

_SESSION_RECORD_NAMES = frozenset(_SESSION_RECORD_FIELDS)

_SESSION_EXPORT_FIELDS: "dict[str, Check]" = {
    "session": _session_record,
    "audit_records": _session_export_audit_records,
}

_SESSION_EXTRA_FIELDS: "dict[str, Check]" = {
    "version": _version_1,
}

_SESSION_PROBE_IMAGE_CHECKS_ITEMS_FIELDS: "dict[str, Check]" = {
    "name": _path_word,
    "result": _session_probe_image_checks_items_result,
    "why": _line,
}

_SESSION_PROBE_IMAGE_FIELDS: "dict[str, Check]" = {
    "image": _filled_line,
    "target": _path_word,
    "python": _session_probe_image_python,
    "checks": _session_probe_image_checks,
}

_SESSION_RECONCILE_ITEMS_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "outcome": _session_reconcile_items_outcome,
    "dry_run": _session_reconcile_items_dry_run,
    "status": _status,
    "exit_status": _filled_line,
    "why": _filled_line,
}

_SESSION_SCREEN_CURSOR_FIELDS: "dict[str, Check]" = {
    "row": _count,
    "column": _count,
    "hidden": _session_screen_cursor_hidden,
}

_SESSION_SCREEN_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "rows": _count,
    "columns": _count,
    "cursor": _session_screen_cursor,
    "alternate": _session_screen_alternate,
    "lines": _session_screen_lines,
}

_SESSION_SEND_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "sent_bytes": _count,
    "status": _status,
    "live_status": _filled_line,
    "control_mode": _session_send_control_mode,
    "target_kind": _filled_line,
    "target_provider": _filled_line,
    "target_id": _filled_line,
    "target_summary": _filled_line,
    "target_assurance_class": _filled_line,
    "runtime_api": _filled_line,
    "workspace_transport": _filled_line,
    "workspace": _filled_line,
    "display_workspace": _filled_line,
    "workspace_origin": _line,
    "display_worktree": _filled_line,
    "worktree_path": _line,
    "display_git_branch": _filled_line,
    "git_branch": _line,
    "assurance": _line,
}

_SESSION_SEND_NAMES = frozenset(_SESSION_SEND_FIELDS)

_SESSION_START_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "status": _status,
    "live_status": _filled_line,
    "control_mode": _session_start_control_mode,
    "workspace": _filled_line,
    "workspace_origin": _line,
    "workspace_root": _line,
    "worktree_path": _line,
    "target_kind": _filled_line,
    "target_provider": _filled_line,
    "target_id": _filled_line,
    "target_summary": _filled_line,
    "target_assurance_class": _filled_line,
    "runtime_api": _filled_line,
    "workspace_transport": _filled_line,
    "display_workspace": _filled_line,
    "display_worktree": _filled_line,
    "display_git_branch": _filled_line,
    "git_branch": _line,
    "assurance": _line,
    "monitor_pid": _line,
    "audit_log_path": _line,
    "debug_log_path": _line,
    "file_trace_log_path": _line,
    "transcript_log_path": _line,
    "warnings": _session_start_warnings,
}

_SESSION_STOP_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "stop_requested": _session_stop_stop_requested,
    "status": _status,
    "live_status": _filled_line,
    "exit_status": _line,
    "control_mode": _session_stop_control_mode,
    "target_kind": _filled_line,
    "target_provider": _filled_line,
    "target_id": _filled_line,
    "target_summary": _filled_line,
    "target_assurance_class": _filled_line,
    "runtime_api": _filled_line,
    "workspace_transport": _filled_line,
    "workspace": _filled_line,
    "display_workspace": _filled_line,
    "workspace_origin": _line,
    "display_worktree": _filled_line,
    "worktree_path": _line,
    "display_git_branch": _filled_line,
    "git_branch": _line,
    "assurance": _line,
}

_SESSION_STOP_NAMES = frozenset(_SESSION_STOP_FIELDS)

_SESSION_VERIFY_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "verdict": _session_verify_verdict,
    "key_id": _line,
    "head_digest": _line,
    "reason": _text,
}

_SESSION_VERIFY_IF_FIELDS: "dict[str, Check]" = {
    "verdict": _session_verify_if_verdict,
}

_SESSION_VERIFY_THEN_FIELDS: "dict[str, Check]" = {
    "key_id": _key_id,
    "head_digest": _digest,
}

_SESSION_VERIFY_NAMES = frozenset(_SESSION_VERIFY_FIELDS)

_SESSION_WAIT_FIELDS: "dict[str, Check]" = {
    "session_id": _filled_line,
    "status": _status,
    "exit_status": _filled_line,
    "reason": _session_wait_reason,
}

_SESSION_WAIT_IF_FIELDS: "dict[str, Check]" = {
    "reason": _session_wait_if_reason,
}

_SESSION_WAIT_THEN_FIELDS: "dict[str, Check]" = {
    "exit_status": _never,
}


def audit_event(value: "Any") -> "str | None":
    """Check one line of the audit log, decoded: None if the value fits, else 'FIELD: why'."""
    return _named(_audit_event(value, ""))


def audit_seal(value: "Any") -> "str | None":
    """Check the seal beside a session record: None if the value fits, else 'FIELD: why'."""
    return _named(_audit_seal(value, ""))


def launch_spec(value: "Any") -> "str | None":
    """Check what start hands to the monitor and the runtime: None if the value fits, else 'FIELD: why'."""
    return _named(_launch_spec(value, ""))


def session_delete(value: "Any") -> "str | None":
    """Check what delete prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_delete(value, ""))


def session_diff(value: "Any") -> "str | None":
    """Check what workcell-session-diff --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_diff(value, ""))


def session_export(value: "Any") -> "str | None":
    """Check what workcell-session-export prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_export(value, ""))


def session_extra(value: "Any") -> "str | None":
    """Check facts of ours that the record has no field for: None if the value fits, else 'FIELD: why'."""
    return _named(_session_extra(value, ""))


def session_list(value: "Any") -> "str | None":
    """Check what workcell-session-list --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_list(value, ""))


def session_probe_image(value: "Any") -> "str | None":
    """Check what workcell-session-probe-image --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_probe_image(value, ""))


def session_reconcile(value: "Any") -> "str | None":
    """Check what workcell-session-reconcile --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_reconcile(value, ""))


def session_record(value: "Any") -> "str | None":
    """Check the durable record of a session: None if the value fits, else 'FIELD: why'."""
    if type(value) is dict and _SESSION_RECORD_NAMES.issuperset(value):
        try:
            values = [*value.values()]
            other_0 = value["version"]
            values.remove(other_0)
            texts = "".join(values)
            if (
                "\n" not in texts
                and "\r" not in texts
                and type(other_0) is int
                and other_0 == 1
                and value["session_id"].strip()
                and value["profile"].strip()
                and value["target_kind"].strip()
                and value["target_provider"].strip()
                and value["target_id"].strip()
                and value["target_assurance_class"].strip()
                and value["runtime_api"].strip()
                and value["workspace_transport"].strip()
                and value["agent"].strip()
                and value["mode"].strip()
                and value["status"] in {"starting", "running", "stopping", "exited", "failed", "aborted"}
                and value["workspace"].strip()
                and value["started_at"].strip()
                and (
                    "monitor_pid" not in value
                    or (
                        value["monitor_pid"].isdecimal()
                        and value["monitor_pid"].isascii()
                        and value["monitor_pid"][0] != "0"
                        and len(value["monitor_pid"]) < 19
                        and value["session_audit_dir"].strip()
                    )
                )
                and (
                    value["status"] not in {"starting", "running", "stopping"}
                    or (
                        not value.get("finished_at")
                        and not value.get("exit_status")
                        and not value.get("final_assurance")
                    )
                )
                and (
                    value["status"] not in {"exited", "failed", "aborted"}
                    or (
                        value["finished_at"].strip()
                        and value["exit_status"].strip()
                        and value["final_assurance"].strip()
                    )
                )
            ):
                return None
        except (KeyError, TypeError):
            pass  # a field is missing, or is no text: the exact check says which
    return _named(_session_record(value, ""))


def session_screen(value: "Any") -> "str | None":
    """Check what workcell-session-screen --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_screen(value, ""))


def session_send(value: "Any") -> "str | None":
    """Check what workcell-session-send --json prints: None if the value fits, else 'FIELD: why'."""
    if type(value) is dict and _SESSION_SEND_NAMES.issuperset(value):
        try:
            values = [*value.values()]
            other_0 = value["sent_bytes"]
            values.remove(other_0)
            texts = "".join(values)
            if (
                "\n" not in texts
                and "\r" not in texts
                and value["session_id"].strip()
                and type(other_0) is int
                and other_0 >= 0
                and value["status"] in {"starting", "running", "stopping", "exited", "failed", "aborted"}
                and value["live_status"].strip()
                and value["control_mode"] == "detached"
                and value["target_kind"].strip()
                and value["target_provider"].strip()
                and value["target_id"].strip()
                and value["target_summary"].strip()
                and value["target_assurance_class"].strip()
                and value["runtime_api"].strip()
                and value["workspace_transport"].strip()
                and value["workspace"].strip()
                and value["display_workspace"].strip()
                and "workspace_origin" in value
                and value["display_worktree"].strip()
                and "worktree_path" in value
                and value["display_git_branch"].strip()
                and "git_branch" in value
                and "assurance" in value
            ):
                return None
        except (KeyError, TypeError):
            pass  # a field is missing, or is no text: the exact check says which
    return _named(_session_send(value, ""))


def session_start(value: "Any") -> "str | None":
    """Check what workcell-session-start --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_start(value, ""))


def session_stop(value: "Any") -> "str | None":
    """Check what workcell-session-stop --json prints: None if the value fits, else 'FIELD: why'."""
    if type(value) is dict and _SESSION_STOP_NAMES.issuperset(value):
        try:
            values = [*value.values()]
            other_0 = value["stop_requested"]
            values.remove(other_0)
            texts = "".join(values)
            if (
                "\n" not in texts
                and "\r" not in texts
                and value["session_id"].strip()
                and other_0 is True
                and value["status"] in {"starting", "running", "stopping", "exited", "failed", "aborted"}
                and value["live_status"].strip()
                and value["control_mode"] == "detached"
                and value["target_kind"].strip()
                and value["target_provider"].strip()
                and value["target_id"].strip()
                and value["target_summary"].strip()
                and value["target_assurance_class"].strip()
                and value["runtime_api"].strip()
                and value["workspace_transport"].strip()
                and value["workspace"].strip()
                and value["display_workspace"].strip()
                and "workspace_origin" in value
                and value["display_worktree"].strip()
                and "worktree_path" in value
                and value["display_git_branch"].strip()
                and "git_branch" in value
                and "assurance" in value
            ):
                return None
        except (KeyError, TypeError):
            pass  # a field is missing, or is no text: the exact check says which
    return _named(_session_stop(value, ""))


def session_verify(value: "Any") -> "str | None":
    """Check what workcell-session-verify --json prints: None if the value fits, else 'FIELD: why'."""
    if type(value) is dict and _SESSION_VERIFY_NAMES.issuperset(value):
        try:
            values = [*value.values()]
            texts = "".join(values)
            if (
                "\n" not in texts
                and "\r" not in texts
                and value["session_id"].strip()
                and value["verdict"] in {
                    "verified", "unsealed", "torn", "broken-chain", "cut", "wrong-key", "bad-seal",
                    "path-mismatch", "unreadable", "unsupported",
                }
                and (
                    value["verdict"] not in {"verified"}
                    or (
                        len(value["key_id"]) == 32
                        and not value["key_id"].strip("0123456789abcdef")
                        and len(value["head_digest"]) == 64
                        and not value["head_digest"].strip("0123456789abcdef")
                    )
                )
            ):
                return None
        except (KeyError, TypeError):
            pass  # a field is missing, or is no text: the exact check says which
    return _named(_session_verify(value, ""))


def session_wait(value: "Any") -> "str | None":
    """Check what workcell-session-wait --json prints: None if the value fits, else 'FIELD: why'."""
    return _named(_session_wait(value, ""))
