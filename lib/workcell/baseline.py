"""The commit that a session's workspace is compared with, and where it is kept out of the agent's reach.

An isolated session's base is in the repository that was cloned. A direct session's workspace is the agent's to change, with
all its objects, so start puts a copy of the base beside the records: `bases/<session id>.git` in the folder of the profile, a
bare repository with that one commit, and `workcell.json` in it with what of the operator's settings decides whether a file
has changed.
"""

import os

from workcell import atomic, fastjson, inquiry, objects, run, safe_open, workspace, worktree
from workcell.errors import UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMEOUT_S = 120.0
_ANSWER_LIMIT_BYTES = 1 << 29
_SETTINGS = ("core.autocrlf", "core.eol", "core.filemode", "core.symlinks")
_NOTES = "workcell.json"
_NOTES_LIMIT_BYTES = 256 << 20
_COPIED = ("info/attributes", "info/exclude")


class Baseline:
    """What a workspace is compared with.

    commit, form (object format); objects_dir: where the operator's objects are, "" for nowhere; settings: those of the operator
    that count; absent: paths that a sparse work tree did not have; known: commits that are none of the agent's; watched: files
    of a direct session's git directory as they were (name to SHA-256), None where nobody looked; rules: the git directory that
    has the operator's own attributes and exclude, "" for none; direct.
    """

    def __init__(self, commit: str) -> None:
        self.commit, self.form = commit, objects.format_of(commit)
        self.objects_dir = self.rules = ""
        self.settings: dict[str, str] = {}
        self.absent: frozenset[bytes] = frozenset()
        self.known: list[str] = [commit]
        self.watched: dict[str, str] | None = None
        self.direct = False


def path_of(profile_dir: str, session_id: str) -> str:
    """Return where the copy of a direct session's base is kept."""
    return os.path.join(profile_dir, "bases", session_id + ".git")


def keep(git: workspace.Git, source: workspace.Source, profile_dir: str, session_id: str) -> None:
    """Copy the base of a direct session before its agent runs; raise WorkcellError, leaving nothing, where that fails."""
    path = path_of(profile_dir, session_id)
    atomic.make_dir(os.path.dirname(path))
    os.mkdir(path, 0o700)
    try:
        _write_bare(path, objects.format_of(source.head), source.head)
        # No history, no search for differences: what is packed already is copied, all else is compressed once.
        # What a partial clone lacks is not fetched.
        words = ["pack-objects", "-q", "--revs", "--window=0", "--missing=allow-any", os.path.join(path, "objects/pack/pack")]
        wanted = f"--shallow {source.head}\n{source.head}\n".encode()
        done = run.capture(["git", *git.neutral, "-C", source.path, *words], git.env, stdin=wanted)
        if done.exit_status != 0:
            raise WorkcellError(source.path, f"its base cannot be copied: {done.reason()}", "see git fsck")
        for name in _COPIED:
            _copy_plain(os.path.join(source.path, ".git", name), os.path.join(path, name))
        notes = {
            "version": 1,
            "base": source.head,
            "settings": {key: source.settings[key] for key in _SETTINGS if key in source.settings},
            "absent": _absent(git, source),
            "known": git(source.path, "for-each-ref", "--format=%(objectname)").text().split("\n"),
            "watched": _watched(source.path),
        }
        atomic.replace_file(os.path.join(path, _NOTES), fastjson.dumps(notes).encode() + b"\n")
    except BaseException:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
        raise


def discard(profile_dir: str, session_id: str) -> None:
    """Remove the copy of a session's base; nothing happens where there is none."""
    path = path_of(profile_dir, session_id)
    if os.path.basename(path) == session_id + ".git":
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def of_session(fields: "dict[str, Any]", profile_dir: str) -> Baseline:
    """Return the baseline of a session's record."""
    found = Baseline(fields["git_base"])
    origin = fields["workspace_origin"] or fields["workspace"]
    found.direct = fields["workspace"] == origin
    copy = path_of(profile_dir, fields["session_id"])
    if found.direct:
        if os.path.isdir(copy):
            _read_copy(found, copy)
        return found
    source = os.path.join(origin, ".git")
    if os.path.isdir(os.path.join(source, "objects")):
        found.objects_dir = os.path.join(source, "objects")
        git = workspace.Git([origin, source])
        # The clone lies on the source's own file system, and git asked that when it made the source.
        values = {key: value for _, key, value in workspace.configuration(origin)}
        found.settings = {key: values[key] for key in ("core.filemode", "core.symlinks") if key in values}
        known = git(origin, "for-each-ref", "--format=%(objectname)").text().split("\n")
        found.known += [oid for oid in known if objects.is_id(oid)]
    return found


def had_by_source(origin: str, ids: "set[str]") -> set[str]:
    """Return those of some objects that a repository of the operator has: of commits those that a ref leads to.

    Raises WorkcellError where git cannot tell.
    """
    wanted = "".join([oid + "\n" for oid in sorted(ids) if objects.is_id(oid)]).encode()
    if not wanted:
        return set()
    there = {line.split(" ")[0] for line in _ask_source(origin, wanted, "cat-file", "--batch-check") if " missing" not in line}
    stdin = "".join([oid + "\n" for oid in sorted(there)]).encode()
    return there.difference(_ask_source(origin, stdin, "rev-list", "--stdin", "--not", "--all")) if there else there


def shallow_in_source(origin: str) -> list[str]:
    """Return the commits at which the history of a repository of the operator is cut off."""
    try:
        with open(os.path.join(origin, ".git", "shallow"), encoding="ascii", errors="replace") as stream:
            return [oid for oid in stream.read(_NOTES_LIMIT_BYTES).split() if objects.is_id(oid)]
    except FileNotFoundError:
        return []


def _ask_source(origin: str, stdin: bytes, *words: str) -> list[str]:
    git = workspace.Git([origin, os.path.join(origin, ".git")])
    done = run.capture(["git", *git.neutral, "-C", origin, *words], git.env, TIMEOUT_S, _ANSWER_LIMIT_BYTES, stdin=stdin)
    if done.exit_status != 0:
        raise WorkcellError(origin, f"git cannot say what it has: {done.reason()}", "see git fsck")
    return done.text().split("\n")


def _read_copy(found: Baseline, copy: str) -> None:
    path = os.path.join(copy, _NOTES)
    try:
        dir_fd = safe_open.open_dir(copy)
        try:
            notes = fastjson.loads(safe_open.read_file(dir_fd, _NOTES, path, _NOTES_LIMIT_BYTES))
        finally:
            os.close(dir_fd)
        found.settings = {str(key): str(value) for key, value in notes["settings"].items()}
        found.absent = frozenset(os.fsencode(name) for name in notes["absent"])
        found.known += [oid for oid in notes["known"] if objects.is_id(oid)]
        found.watched = dict(notes["watched"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(path, f"is damaged: {error}") from None
    found.objects_dir, found.rules = os.path.join(copy, "objects"), copy


def _write_bare(path: str, form: str, head: str = "") -> None:
    """Fill a folder with what makes it a bare repository, with one commit and no parents of it where a head is given."""
    for folder in ("objects", "objects/pack", "refs", "refs/heads", "info"):
        os.mkdir(os.path.join(path, folder), 0o700)
    version, extension = (1, "[extensions]\n\tobjectformat = sha256\n") if form == "sha256" else (0, "")
    _write(os.path.join(path, "HEAD"), b"ref: refs/heads/base\n")
    core = f"[core]\n\trepositoryformatversion = {version}\n\tbare = {'true' if head else 'false'}\n"
    _write(os.path.join(path, "config"), (core + extension).encode())
    if head:
        _write(os.path.join(path, "refs/heads/base"), head.encode() + b"\n")
        _write(os.path.join(path, "shallow"), head.encode() + b"\n")


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as stream:
        stream.write(content)


def _copy_plain(source: str, target: str) -> None:
    if os.path.isfile(source):
        with open(source, "rb") as stream:
            _write(target, stream.read())


def _absent(git: workspace.Git, source: workspace.Source) -> list[str]:
    """Return the tracked paths that a sparse work tree leaves out on purpose."""
    if source.settings.get("core.sparsecheckout", "false").lower() not in ("true", "yes", "on", "1", ""):
        return []
    rows = os.fsdecode(git(source.path, "ls-files", "-t", "-z").stdout).split("\0")
    return [row[2:] for row in rows if row.startswith("S ")]


def _watched(path: str) -> dict[str, str]:
    fd = worktree.open_folder(path)
    try:
        return inquiry.watched_files(fd)
    finally:
        os.close(fd)


class Scratch:
    """A git directory of ours with nothing in it but what we put there, and a work tree with the base's rules; gone at the end.

    git_dir, rules_dir: absolute paths in a new folder that is closed to others.
    """

    def __init__(self, form: str) -> None:
        import tempfile

        self.folder = tempfile.mkdtemp(prefix="workcell-diff-")
        self.git_dir, self.rules_dir = os.path.join(self.folder, "git"), os.path.join(self.folder, "rules")
        os.mkdir(self.rules_dir, 0o700)
        os.mkdir(self.git_dir, 0o700)
        _write_bare(self.git_dir, form)
        self._git = workspace.Git([])

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)

    def git(self, words: list[str], stdin: bytes = b"", objects_dir: str = "") -> run.Finished:
        """Run git on our own git directory, with the rules as its work tree; objects_dir: a store to read from as well."""
        env = {**self._git.env, "GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.rules_dir}
        if objects_dir:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = worktree.quoted(os.fsencode(objects_dir), always=True)
        command = ["git", *self._git.neutral, "-C", self.rules_dir, *words]
        return run.capture(command, env, TIMEOUT_S, _ANSWER_LIMIT_BYTES, stdin=stdin)
