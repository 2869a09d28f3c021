"""What a comparison looks like: the bundle of workcell-session-diff(5), a table, names, or a document."""

import os

from workcell import output
from workcell.compare import Comparison, Tip
from workcell.errors import WorkcellError
from workcell.objects import COMMIT
from workcell.worktree import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DIFF = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"]
_COMMITS_SHOWN = 100


def bundle(found: Comparison) -> str:
    """Return the whole comparison as text: what session it is, [status], [diff], and a [diff REF] for each that has more."""
    fields = found.fields
    pairs = [
        ("session_id", fields["session_id"]),
        ("workspace", fields["workspace"]),
        ("git_branch", fields["git_branch"] or "none"),
        ("git_head", fields["git_head"] or "none"),
        ("git_base", fields["git_base"]),
        *(("commit", line) for line in commit_lines(found)),
        *(("note", note) for note in found.notes),
    ]
    parts = [output.key_values(pairs), "\n[status]\n", status(found) or "clean\n", "\n[diff]\n", changes(found) or "clean\n"]
    for tip in found.tips:
        parts += [f"\n[diff {_names(tip)}]\n", _printed(found, tip.old_tree, tip.new_tree) or "clean\n"]
    return "".join(parts)


def commit_lines(found: Comparison) -> list[str]:
    """Return a line for each commit that the workspace has and its source has not: id, names, subject."""
    names = _names_of_commits(found)
    lines = []
    for commit in found.commits[:_COMMITS_SHOWN]:
        refs = f"({', '.join(names[commit.oid])}) " if commit.oid in names else ""
        lines.append(f"{commit.oid} {refs}{os.fsdecode(commit.subject)}")
    if len(found.commits) > _COMMITS_SHOWN:
        lines.append(f"and {len(found.commits) - _COMMITS_SHOWN} more")
    return lines


def _names_of_commits(found: Comparison) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    if found.answers is not None:
        if found.answers.head:
            names[found.answers.head] = ["HEAD"]
        for ref, oid in sorted(found.answers.refs.items()):
            names.setdefault(oid, []).append(quoted(ref))
    return names


def _names(tip: Tip) -> str:
    return " ".join(quoted(name) for name in tip.names)


def status(found: Comparison) -> str:
    """Return the lines of `git status --short --untracked-files=all`."""
    lines = []
    for letters, path, before in found.status:
        renamed = f"{quoted(before, blanks=True)} -> " if before else ""
        lines.append(f"{letters} {renamed}{quoted(path, blanks=True)}\n")
    return "".join([*lines, *(f"?? {quoted(path, blanks=True)}\n" for path in found.untracked)])


def changes(found: Comparison) -> str:
    """Return the difference as `git diff` prints it; what has no text of its own is named all the same."""
    parts = [_printed(found, found.old_tree, found.new_tree)]
    for path in sorted(found.unshown):
        change = found.changes[path]
        old, new = quoted(b"a/" + path), quoted(b"b/" + path)
        created = "" if change.old else f"new file mode {change.new[0]}\n" if change.new else ""
        deleted = "" if change.new else f"deleted file mode {change.old[0]}\n" if change.old else ""
        names = f"{old if change.old else '/dev/null'} and {new if change.new else '/dev/null'}"
        parts.append(f"diff --git {old} {new}\n{created}{deleted}Binary files {names} differ\n")
    for path, module in sorted(found.modules.items()):
        if module.modified:
            old, new = quoted(b"a/" + path), quoted(b"b/" + path)
            head = module.head or module.recorded
            index = f"index {module.recorded[:7]}..{head[:7]} {COMMIT}\n" if head != module.recorded else ""
            parts.append(
                f"diff --git {old} {new}\n{index}--- {old}\n+++ {new}\n@@ -1 +1 @@\n"
                f"-Subproject commit {module.recorded}\n+Subproject commit {head}-dirty\n"
            )
    return "".join(parts)


def _printed(found: Comparison, old: str, new: str) -> str:
    text = _git(found, _DIFF, old, new).decode("utf-8", "surrogateescape").rstrip("\n")
    return text + "\n" if text else ""


def _git(found: Comparison, words: list[str], old: str, new: str) -> bytes:
    if old == new:
        return b""
    done = found.scratch.git([*words, old, new, "--"])
    if done.exit_status != 0:
        raise WorkcellError("git diff", done.reason(), "see the names alone with --name-only")
    return done.stdout


def table(found: Comparison) -> str:
    """Return how many lines each file gained and lost, names whole, with what has no lines to count after it."""
    wide = ["--stat=4096,4000,40", "--stat-graph-width=40"]
    text = _git(found, [*_DIFF, *wide], found.old_tree, found.new_tree).decode("utf-8", "surrogateescape")
    more = [f" {quoted(path)} | not shown: {why}\n" for path, why in sorted(found.unshown.items())]
    modules = [(path, module.kinds()) for path, module in sorted(found.modules.items()) if module.kinds()]
    more += [f" {quoted(path)} | {', '.join(kinds)}\n" for path, kinds in modules]
    more += [f" {quoted(path)} | untracked\n" for path in found.untracked if path not in found.changes]
    return text + "".join(more)


def names(found: Comparison, null: bool) -> str:
    """Return each path that differs, untracked ones too: one a line as git quotes it, or raw and ended by NUL."""
    paths = sorted({*found.changes, *found.untracked, *(path for path, module in found.modules.items() if module.kinds())})
    return "".join([os.fsdecode(path) + "\0" if null else quoted(path) + "\n" for path in paths])


def document(found: Comparison) -> "dict[str, Any]":
    """Return the comparison as a value that fits session-diff. A name that is no UTF-8 is whole only in its quoted form."""
    fields = found.fields
    counts = _line_counts(found)
    here = found.answers.reached_by_head() if found.answers else set()
    refs = _names_of_commits(found)
    return {
        "session_id": fields["session_id"],
        "workspace": fields["workspace"],
        "git_branch": fields["git_branch"],
        "git_head": fields["git_head"],
        "git_base": fields["git_base"],
        "complete": not found.incomplete,
        "commits_known": found.answers is not None,
        "commits": [
            {
                "id": commit.oid,
                "refs": refs.get(commit.oid, []),
                "checked_out": commit.oid in here,
                "subject": os.fsdecode(commit.subject),
            }
            for commit in found.commits
        ],
        "status": [
            {"index": letters[0], "worktree": letters[1], **_path(path), **({"renamed_from": quoted(before)} if before else {})}
            for letters, path, before in found.status
        ],
        "untracked": [_path(path) for path in found.untracked],
        "ignored": found.ignored,
        "changes": [
            {
                **_path(path),
                "kind": "added" if not change.old else "deleted" if not change.new else "modified",
                **_end("old", change.old),
                **_end("new", change.new),
                **counts.get(path, {}),
                **({"not_shown": found.unshown[path]} if path in found.unshown else {}),
            }
            for path, change in sorted(found.changes.items())
        ],
        "submodules": [
            {**_path(path), "recorded": module.recorded, "checked_out": module.head, "kinds": module.kinds()}
            for path, module in sorted(found.modules.items())
        ],
        "notes": found.notes,
        "diff": changes(found),
        "other_refs": [
            {
                "refs": [quoted(name) for name in tip.names],
                "id": tip.commit,
                "diff": _printed(found, tip.old_tree, tip.new_tree),
            }
            for tip in found.tips
        ],
    }


def _end(which: str, end: "tuple[str, str] | None") -> dict[str, str]:
    if end is None:
        return {}
    return {f"{which}_mode": end[0], **({f"{which}_id": end[1]} if end[1] else {})}


def _path(path: bytes) -> dict[str, str]:
    return {"path": os.fsdecode(path), "quoted": quoted(path)}


def _line_counts(found: Comparison) -> "dict[bytes, dict[str, Any]]":
    """Return for each shown path the lines that it gained and lost, or that it is binary."""
    words = [*_DIFF, "--no-renames", "--numstat", "-z"]
    rows = _git(found, words, found.old_tree, found.new_tree).split(b"\0")[:-1]
    counts: dict[bytes, dict[str, Any]] = {}
    for row in rows:
        added, deleted, path = row.split(b"\t", 2)
        if added == b"-":
            counts[path] = {"binary": True}
        else:
            counts[path] = {"binary": False, "lines_added": int(added), "lines_deleted": int(deleted)}
    return counts
