"""What git says of a workspace that an agent had: asked inside a sandbox that can only read it, and still not to be believed.

A repository can make git run programs, read any file and wait for ever, so no git of the host is let near it. What comes out of
the sandbox is taken apart with care: it can say what was staged and committed, but never what a file holds.
"""

import hashlib
import os
import stat

from workcell import objects, run, worktree
from workcell.errors import WorkcellError
from workcell.workspace import CLONES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TIMEOUT_S = 60.0
COMMITS_LIMIT = 1000
_OUTPUT_LIMIT_BYTES = 256 << 20
_MEMORY_LIMIT_KIB = 8 << 20
# Files of a git directory that change what git does or shows, and that a fresh clone does not have.
WATCHED = ("config.worktree", "info/attributes", "info/exclude", "info/grafts", "objects/info/alternates", "shallow")
_WATCHED_LIMIT_BYTES = 1 << 20
# What is in the configuration of a clone, and what an agent may well set without changing what git does.
_HARMLESS = frozenset(
    (
        "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.symlinks",
        "core.ignorecase", "core.precomposeunicode", "extensions.objectformat", "user.name", "user.email",
        "remote.origin.url", "remote.origin.fetch",
    )
)  # fmt: skip

_ENVIRONMENT = {
    "PATH": run.SYSTEM_PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
_NEUTRAL = [
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.attributesFile=/dev/null",
    "core.pager=cat", "core.sshCommand=false", "core.askPass=false", "core.alternateRefsCommand=false", "core.gitProxy=",
    "core.editor=false", "credential.helper=", "diff.external=", "color.ui=false", "submodule.recurse=false", "gc.auto=0",
    "maintenance.auto=false", "log.showSignature=false", "gpg.program=false", "index.threads=1", "pack.threads=1",
]  # fmt: skip

# $1: what parts the answers, and nobody in there can know before; $2: the empty tree; $3: how many commits; then words for git.
_QUESTIONS = r"""
ulimit -c 0; ulimit -v __MEMORY__; ulimit -t __SECONDS__
mark=$1 empty=$2 most=$3; shift 3
part() { "$@"; printf '\0%s%s\0' "$mark" "$?"; }
git() { command git --git-dir=.git --work-tree=. "$@"; }
head=$(git "$@" rev-parse -q --verify 'HEAD^{commit}')
part printf %s "$head"
part git "$@" symbolic-ref -q HEAD
part git "$@" ls-files --stage -z
part git "$@" diff-index --cached --raw -z -M -l1000 "${head:-$empty}" --
# A ref to what is not there would end the listing of all.
refs() {
    git "$@" for-each-ref --format='%(objectname) %(*objectname) %(refname)' ||
        git "$@" for-each-ref --format='%(objectname)  %(refname)'
}
part refs "$@"
commits() {
    { git "$@" for-each-ref --format='%(objectname)'; echo "$head"; } | git "$@" cat-file --batch-check |
        sed -n 's/ commit [0-9]*$//p; s/ tag [0-9]*$//p' | cat - /dev/fd/3 |
        git "$@" rev-list --date-order --ignore-missing --max-count="$most" --stdin --format='%x00%H%x00%T%x00%P%x00%s%x00'
} 3<&0
part commits "$@"
part git "$@" config --file .git/config --no-includes --null --name-only --list
"""
_PLACE = r"""
ulimit -c 0; ulimit -v __MEMORY__; ulimit -t __SECONDS__
cd "./$1" || exit
shift
exec git -c core.fsmonitor=false "$@"
"""
_HEADS = r"""
ulimit -c 0; ulimit -v __MEMORY__; ulimit -t __SECONDS__
mark=$1; shift
for path in "$@"; do
    ( cd "./$path" && git -c core.fsmonitor=false rev-parse -q --verify 'HEAD^{commit}' )
    printf '\0%s%s\0' "$mark" "$?"
done
"""


class Commit:
    """A commit that the workspace has: id, tree, parents (ids), subject (bytes)."""

    __slots__ = ("oid", "tree", "parents", "subject")

    def __init__(self, oid: str, tree: str, parents: list[str], subject: bytes) -> None:
        self.oid, self.tree, self.parents, self.subject = oid, tree, parents, subject


class Answers:
    """What git said.

    head: the commit checked out, "" for none; branch: its ref, "" when detached; index: path to (mode, id); unmerged: path to
    the stages that it has; staged: (letter, path, path before a rename or b""); refs: name to id, tags to what they are of;
    commits: those that the source does not have, newest first; keys: of the configuration; problems: in words.
    """

    def __init__(self) -> None:
        self.head = self.branch = ""
        self.index: dict[bytes, tuple[str, str]] = {}
        self.unmerged: dict[bytes, set[int]] = {}
        self.staged: list[tuple[str, bytes, bytes]] = []
        self.refs: dict[bytes, str] = {}
        self.commits: list[Commit] = []
        self.keys: list[bytes] = []
        self.problems: list[str] = []

    def reached_by_head(self) -> set[str]:
        """Return the ids of the commits that are part of what is checked out."""
        parents = {commit.oid: commit.parents for commit in self.commits}
        found: set[str] = set()
        queue = [self.head]
        while queue:
            oid = queue.pop()
            if oid in parents and oid not in found:
                found.add(oid)
                queue += parents[oid]
        return found


class Inquiry:
    """Asks about one workspace; each question is a sandbox of its own, gone when it is answered."""

    def __init__(self, workspace: str, origin: str, form: str) -> None:
        self.workspace, self.origin, self.form = workspace, origin, form
        self.why_not = ""  # why nothing can be asked
        self._last_words = ""

    def ask(self, known: "Iterable[str]") -> "Answers | None":
        """Return git's answers, None where there are none (see why_not); known: commits that are none of the agent's."""
        empty = objects.object_id(self.form, "tree", b"")
        neutral = [word for setting in _NEUTRAL for word in ("-c", setting)]
        stdin = "".join([f"^{oid}\n" for oid in known]).encode()
        parts = self._parts(_QUESTIONS, [empty, str(COMMITS_LIMIT + 1), *neutral], stdin, whole=False)
        if parts is None:
            return None
        try:
            return self._taken_apart(parts)
        except (ValueError, IndexError, KeyError, UnicodeDecodeError):
            self.why_not = "what git said of it makes no sense"
            return None

    def heads(self, folders: "Iterable[bytes]") -> dict[bytes, str]:
        """Return the commit that is checked out in each repository inside the workspace, "" where there is none."""
        paths = list(folders)
        parts = self._parts(_HEADS, [os.fsdecode(path) for path in paths], b"", whole=True)
        if parts is None or len(parts) != len(paths):
            return {}
        found = (output.decode("ascii", "replace").strip() for _, output in parts)
        return {path: oid if objects.is_id(oid) else "" for path, oid in zip(paths, found, strict=True)}

    def place(self, folder: bytes = b"") -> "_Place":
        """Return a place of objects.Store: the repository of the workspace, or one inside it."""
        return _Place(self, folder)

    def run(self, script: str, words: list[str], stdin: bytes, whole: bool) -> run.Finished:
        """Run a script in the sandbox; raise WorkcellError where there is no sandbox, or it takes too long or says too much."""
        from workcell.runtimes import _seccomp, bubblewrap

        seccomp_fd = run.memory_file(_seccomp.program()) if _seccomp.known() else -1
        try:
            limits = script.replace("__MEMORY__", str(_MEMORY_LIMIT_KIB)).replace("__SECONDS__", str(int(TIMEOUT_S)))
            command = bubblewrap.inspection(
                self.workspace, self.origin, ["/bin/sh", "-c", limits, "sh", *words], whole=whole, seccomp_fd=seccomp_fd
            )
            fds = [seccomp_fd] if seccomp_fd >= 0 else []
            return run.capture(command, _ENVIRONMENT, TIMEOUT_S, _OUTPUT_LIMIT_BYTES, fds, stdin)
        finally:
            if seccomp_fd >= 0:
                os.close(seccomp_fd)

    def _parts(self, script: str, words: list[str], stdin: bytes, whole: bool) -> "list[tuple[int, bytes]] | None":
        """Return (exit status, output) of each command of a script, None where it could not be run."""
        if self.why_not:
            return None
        mark = os.urandom(16).hex()
        try:
            done = self.run(script, [mark, *words], stdin, whole)
        except (WorkcellError, OSError) as error:
            self.why_not = _reason(error)
            return None
        pieces = done.stdout.split(b"\0" + mark.encode())
        if len(pieces) < 2:
            self.why_not = f"the sandbox for asking git does not start: {done.reason()}"
            return None
        parts: list[tuple[int, bytes]] = []
        for output, after in zip(pieces, pieces[1:], strict=False):
            status = after.partition(b"\0")[0]
            parts.append((int(status) if status.isdigit() else 255, output.partition(b"\0")[2] if parts else output))
        self._last_words = done.reason()
        return parts

    def _taken_apart(self, parts: "list[tuple[int, bytes]]") -> "Answers | None":
        (_, head), (_, branch), (listed, index), (_, staged), (_, refs), (walked, commits), (_, keys) = parts
        answers = Answers()
        if listed != 0:
            self.why_not = f"git cannot read it: {self._last_words}"
            return None
        answers.head = _checked(head) if head else ""
        answers.branch = os.fsdecode(branch.rstrip(b"\n"))
        for row in index.split(b"\0")[:-1]:
            fields, _, path = row.partition(b"\t")
            mode, oid, stage = fields.decode("ascii").split(" ")
            if stage == "0":
                answers.index[path] = (mode.removeprefix("0"), _checked(oid.encode()))
            else:
                answers.unmerged.setdefault(path, set()).add(int(stage))
        words = iter(staged.split(b"\0")[:-1])
        for fields in words:
            letter = fields.rpartition(b" ")[2][:1].decode("ascii")
            path = next(words, b"")
            before = b""
            if letter in ("R", "C"):
                before, path = path, next(words, b"")
            if letter not in ("U", "X"):
                answers.staged.append((letter, path, before))
        for line in refs.split(b"\n")[:-1]:
            direct, peeled, name = line.split(b" ", 2)
            answers.refs[name] = _checked(peeled or direct)
        found = commits.split(b"\0")
        for at in range(0, len(found) - 4, 5):
            commit, tree, parents, subject = found[at + 1 : at + 5]
            ids = [_checked(parent) for parent in parents.split()]
            answers.commits.append(Commit(_checked(commit), _checked(tree), ids, subject))
        if walked != 0:
            answers.problems.append("git could not list all commits")
        if len(answers.commits) > COMMITS_LIMIT:
            del answers.commits[COMMITS_LIMIT:]
            answers.problems.append(f"there are more than {COMMITS_LIMIT} commits; the newest are listed")
        answers.keys = sorted(set(keys.split(b"\0")[:-1]))
        return answers


class _Place:
    """A repository as a place of objects; what cannot be asked has nothing."""

    def __init__(self, inquiry: Inquiry, folder: bytes) -> None:
        self._inquiry, self._folder = inquiry, folder

    def __call__(self, words: list[str], stdin: bytes) -> bytes:
        inquiry = self._inquiry
        if inquiry.why_not:
            return b""
        if not self._folder:
            words = ["--git-dir=.git", *words]
        try:
            return inquiry.run(_PLACE, [os.fsdecode(self._folder) or ".", *words], stdin, whole=bool(self._folder)).stdout
        except (WorkcellError, OSError) as error:
            inquiry.why_not = _reason(error)
            return b""


def _checked(oid: bytes) -> str:
    text = oid.decode("ascii")
    if not objects.is_id(text):
        raise ValueError(text)
    return text


def _reason(error: Exception) -> str:
    if isinstance(error, WorkcellError):
        return f"{error.what}: {error.why}" if error.why else error.what
    return str(error)


# --- the git directory, looked at by ourselves


def odd_in_git_dir(folder_fd: int, deadline: float) -> list[tuple[bytes, str]]:
    """Return (path, what) of all in a work tree's git directory that would hold up git, or lead it elsewhere; raise OSError.

    Hooks may be links, since no git is told to look for them; the clones of other sessions are none of this one's.
    """
    root = worktree.open_folder(b".git", folder_fd)
    try:
        walk = worktree.Walk(root, deadline, frozenset((b"hooks", CLONES.encode())))
        found = []
        for path, dir_fd, name, kind in walk.entries():
            if kind == worktree.SPECIAL:
                found.append((path, worktree.special_kind(dir_fd, name)))
            elif kind == worktree.LINK:
                found.append((path, "a link"))
        found += [(path, f"which cannot be looked at ({why})") for path, why in walk.problems]
        if walk.stopped:
            found.append((b"", f"too much: {walk.stopped}"))
        return found
    finally:
        os.close(root)


def watched_files(folder_fd: int) -> dict[str, str]:
    """Return those files of a git directory that change what git does (name to SHA-256), "" for what is no plain file."""
    root = worktree.open_folder(b".git", folder_fd)
    try:
        names = [name.encode() for name in ("config", *WATCHED)]
        for folder in (b"hooks", b"refs/replace"):
            names += [folder + b"/" + name for name in _names(root, folder) if not name.endswith(b".sample")]
        found = ((os.fsdecode(name), _digest(root, name)) for name in names)
        return {name: digest for name, digest in found if digest is not None}
    finally:
        os.close(root)


def _names(root: int, folder: bytes) -> list[bytes]:
    try:
        dir_fd, name = worktree.find(root, folder)
    except OSError:
        return []
    try:
        fd = worktree.open_folder(name, dir_fd)
    except OSError:
        return []
    finally:
        os.close(dir_fd)
    try:
        return sorted(os.fsencode(entry) for entry in os.listdir(fd))[:1000]
    finally:
        os.close(fd)


def _digest(root: int, path: bytes) -> str | None:
    """Return the SHA-256 of a small file, None where there is none, "" where there is something else."""
    try:
        dir_fd, name = worktree.find(root, path)
    except OSError:
        return None
    try:
        fd = worktree.open_file(name, dir_fd)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    finally:
        os.close(dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return hashlib.sha256(worktree.read(fd, _WATCHED_LIMIT_BYTES)).hexdigest()
    finally:
        os.close(fd)


def odd_keys(keys: "Iterable[bytes]") -> list[bytes]:
    """Return those keys of a clone's configuration that it did not get from being cloned and that change what git does."""

    def harmless(key: bytes) -> bool:
        text = key.decode("utf-8", "replace")
        branch = text.startswith("branch.") and text.rpartition(".")[2] in ("remote", "merge", "rebase")
        return text in _HARMLESS or branch

    return [key for key in keys if not harmless(key)]
