"""What git says of a workspace that an agent had: asked inside a sandbox that can only read it, and still not to be believed.

A repository can make git run programs, read any file and wait for ever, so no git of the host is let near it. What comes out of
the sandbox is taken apart with care: it can say what was staged and committed, but never what a file holds.
"""

import os
import stat

from workcell import objects, run, worktree
from workcell.digests import sha256
from workcell.errors import WorkcellError
from workcell.workspace import CLONES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TIMEOUT_S = 60.0
PACK_TIMEOUT_S = 3600.0
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
    "core.splitIndex=false", "pack.packSizeLimit=0",
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

# What the next three have in common; $dir: the git directory, below the workspace.
_PRELUDE = r"""
ulimit -c 0; ulimit -v __MEMORY__; ulimit -t __SECONDS__
mark=$1 dir=$2; shift 2
part() { "$@"; printf '\0%s%s\0' "$mark" "$?"; }
git() { command git --git-dir="$dir" --work-tree=/tmp "$@"; }
head=$(git "$@" rev-parse -q --verify 'HEAD^{commit}')
"""
# A ref can hide from its log, and what was stashed before the last time is in a log alone; so both are asked for.
_HOLDINGS = (
    _PRELUDE
    + r"""
stashed() { ! git "$@" rev-parse -q --verify refs/stash > /dev/null || git "$@" rev-list --walk-reflogs refs/stash; }
heads() {
    for path in "$dir"/worktrees/*/HEAD; do
        name=${path%/HEAD} name=${name##*/}
        oid=$(git "$@" rev-parse -q --verify "worktrees/$name/HEAD^{commit}") && printf '%s %s\n' "$oid" "$name"
    done
    true
}
# What came from elsewhere is there still; but the workspace's own elsewhere is asked by the caller.
pushed() { [ "$dir" = .git ] || git "$@" for-each-ref --format='^%(objectname)' refs/remotes; }
commits() {
    { git "$@" for-each-ref --format='%(objectname)'; stashed "$@"; heads "$@"; echo "$head"; } |
        sed 's/ .*//' | git "$@" cat-file --batch-check | sed -n 's/ commit [0-9]*$//p; s/ tag [0-9]*$//p' |
        { cat - /dev/fd/3; pushed "$@"; } |
        git "$@" rev-list --ignore-missing --parents --max-count=__MOST__ --stdin
} 3<&0
part printf %s "$head"
part git "$@" symbolic-ref -q HEAD
part git "$@" for-each-ref --format='%(objecttype) %(objectname) %(*objectname) %(refname)'
part stashed "$@"
part heads "$@"
part git "$@" diff-index --cached --raw -z "${head:-__EMPTY__}" --
part commits "$@"
"""
)
# The index as a commit: made again the same each time it is asked for, in memory, and never in the workspace.
_STAGED = r"""
staged() {
    mkdir -p /tmp/objects/info && cp "$dir/index" /tmp/index && ln -s "$PWD/$dir/objects" /tmp/lower || return
    export GIT_OBJECT_DIRECTORY=/tmp/objects GIT_ALTERNATE_OBJECT_DIRECTORIES=/tmp/lower GIT_INDEX_FILE=/tmp/index
    export GIT_AUTHOR_NAME=workcell GIT_AUTHOR_EMAIL=workcell@localhost GIT_AUTHOR_DATE='@0 +0000'
    export GIT_COMMITTER_NAME=workcell GIT_COMMITTER_EMAIL=workcell@localhost GIT_COMMITTER_DATE='@0 +0000'
    git "$@" ls-files --unmerged -z | sed -z 's/^[^\t]*\t//' | git "$@" update-index --force-remove -z --stdin || return
    tree=$(git "$@" write-tree) || return
    echo 'what was staged' | git "$@" commit-tree "$tree" ${head:+-p "$head"}
}
"""
_STAGED_ID = _PRELUDE + _STAGED + 'part staged "$@" < /dev/null\n'
_PACK = (
    _PRELUDE
    + _STAGED
    + r"""
[ "$mark" = plain ] || staged "$@" < /dev/null > /dev/null || exit
git "$@" pack-objects -q --revs --stdout
"""
)
# A repository with nothing in it but one pack: does that have all that its ends lead to?
_PROOF = r"""
ulimit -c 0; ulimit -v __MEMORY__; ulimit -t __SECONDS__
mkdir -p /tmp/r/objects/pack /tmp/r/refs && echo 'ref: refs/heads/none' > /tmp/r/HEAD && printf "$1" > /tmp/r/config || exit
[ -z "$3" ] || printf "$3" > /tmp/r/shallow || exit
ln -s "$PWD/$2" /tmp/r/objects/pack/pack-0.pack || exit
git --git-dir=/tmp/r index-pack /tmp/r/objects/pack/pack-0.pack > /dev/null &&
    git --git-dir=/tmp/r rev-list --objects --quiet --stdin
"""


class Holdings:
    """What a repository has, wherever it is: git's word, not to be believed.

    head: the commit checked out, "" for none; branch: its ref, "" when detached; refs: name to (kind of object, id, id of what
    a tag is of); stashed: ids, newest first; heads: ids of what linked work trees have checked out, by their names; staged:
    paths; commits: id to parents, of those that are not known to be elsewhere, at most COMMITS_LIMIT; more: there are more.
    """

    def __init__(self) -> None:
        self.head = self.branch = ""
        self.refs: dict[bytes, tuple[str, str, str]] = {}
        self.stashed: list[str] = []
        self.heads: dict[bytes, str] = {}
        self.staged: list[bytes] = []
        self.commits: dict[str, list[str]] = {}
        self.more = False

    def tips(self) -> set[str]:
        """Return the ids of all that has a name, and of what tags are of."""
        found = {oid for ref in self.refs.values() for oid in ref[1:]}
        return found.union(self.stashed, self.heads.values(), [self.head] if self.head else [])

    def reached_from(self, tips: "Iterable[str]") -> set[str]:
        """Return those of the commits that some of them lead to."""
        found: set[str] = set()
        queue = [oid for oid in tips if oid in self.commits]
        while queue:
            oid = queue.pop()
            if oid not in found:
                found.add(oid)
                queue += [parent for parent in self.commits[oid] if parent in self.commits]
        return found


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
        stdin = "".join([f"^{oid}\n" for oid in known]).encode()
        parts = self._parts(_QUESTIONS, [empty, str(COMMITS_LIMIT + 1), *_neutral_words()], stdin, whole=False)
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

    def holdings(self, git_dir: bytes, known: "Iterable[str]") -> "Holdings | None":
        """Return what a repository has, None where that cannot be told (see why_not).

        git_dir: its git directory, a path below the workspace; known: commits that are elsewhere, too, with all before them.
        """
        empty = objects.object_id(self.form, "tree", b"")
        script = _HOLDINGS.replace("__EMPTY__", empty).replace("__MOST__", str(COMMITS_LIMIT + 1))
        stdin = "".join([f"^{oid}\n" for oid in known]).encode()
        parts = self._parts(script, [os.fsdecode(git_dir), *_neutral_words()], stdin, whole=not _is_within(git_dir))
        if parts is None:
            return None
        try:
            names = ("", "", "refs", "stash", "work trees", "index", "commits")
            for (status, _), name in zip(parts, names, strict=True):
                if name and status != 0:
                    self.why_not = f"git cannot read its {name}: {self._last_words}"
                    return None
            return _held([output for _, output in parts])
        except (ValueError, IndexError, UnicodeDecodeError):
            self.why_not = "what git said of it makes no sense"
            return None

    def staged_commit(self, git_dir: bytes) -> str:
        """Return the id of the commit that what a repository has staged makes; raise WorkcellError where it makes none."""
        parts = self._parts(_STAGED_ID, [os.fsdecode(git_dir), *_neutral_words()], b"", whole=not _is_within(git_dir))
        if not parts or parts[0][0] != 0 or not objects.is_id(parts[0][1].decode("ascii", "replace").strip()):
            raise WorkcellError(
                f"what {worktree.quoted(git_dir)} has staged", f"cannot be read: {self.why_not or self._last_words}", ""
            )
        return parts[0][1].decode("ascii").strip()

    def pack(self, git_dir: bytes, tips: "Iterable[str]", staged: bool, out_fd: int, limit_bytes: int) -> None:
        """Write a pack of some commits and tags, with all that they lead to, into a file; raise WorkcellError.

        staged: the commit of staged_commit is there to be packed, too.
        """
        words = ["staged" if staged else "plain", os.fsdecode(git_dir), *_neutral_words()]
        stdin = "".join([f"{oid}\n" for oid in tips]).encode()
        whole = not _is_within(git_dir)
        done = self.run(_PACK, words, stdin, whole, timeout_s=PACK_TIMEOUT_S, out_fd=out_fd, limit_bytes=limit_bytes)
        if done.exit_status != 0:
            raise WorkcellError(f"the objects of {worktree.quoted(git_dir)}", f"cannot be read: {done.reason()}", "")

    def run(
        self,
        script: str,
        words: list[str],
        stdin: bytes,
        whole: bool,
        timeout_s: float = TIMEOUT_S,
        out_fd: int = -1,
        limit_bytes: int = _OUTPUT_LIMIT_BYTES,
    ) -> run.Finished:
        """Run a script in the sandbox; raise WorkcellError where there is no sandbox, or it takes too long or says too much."""
        from workcell.runtimes import _seccomp, bubblewrap

        seccomp_fd = run.memory_file(_seccomp.program()) if _seccomp.known() else -1
        try:
            limits = script.replace("__MEMORY__", str(_MEMORY_LIMIT_KIB)).replace("__SECONDS__", str(int(timeout_s)))
            command = bubblewrap.inspection(
                self.workspace, self.origin, ["/bin/sh", "-c", limits, "sh", *words], whole=whole, seccomp_fd=seccomp_fd
            )
            fds = [seccomp_fd] if seccomp_fd >= 0 else []
            return run.capture(command, _ENVIRONMENT, timeout_s, limit_bytes, fds, stdin, out_fd)
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


def prove(folder: str, name: str, form: str, tips: "Iterable[str]", shallow: "Iterable[str]") -> str:
    """Return "" when a pack in a folder of ours has all that its ends lead to, else why not; asked in a sandbox, too.

    shallow: commits whose parents may be missing. The sandbox's user has to be able to pass through the folder and to read
    the file.
    """
    extension = "\\n[extensions]\\nobjectformat=sha256" if form == "sha256" else ""
    config = f"[core]\\nbare=true\\nrepositoryformatversion={1 if extension else 0}{extension}\\n"
    stdin = "".join([f"{oid}\n" for oid in tips]).encode()
    try:
        words = [config, name, "".join([oid + "\\n" for oid in shallow])]
        done = Inquiry(folder, folder, form).run(_PROOF, words, stdin, True, timeout_s=PACK_TIMEOUT_S)
    except (WorkcellError, OSError) as error:
        return _reason(error)
    return "" if done.exit_status == 0 else done.reason()


def _neutral_words() -> list[str]:
    return [word for setting in _NEUTRAL for word in ("-c", setting)]


def _is_within(git_dir: bytes) -> bool:
    """Say whether a git directory lies in the workspace's own one, which can be shown alone."""
    return git_dir == b".git" or git_dir.startswith(b".git/")


def _held(outputs: list[bytes]) -> Holdings:
    head, branch, refs, stashed, heads, staged, commits = outputs
    found = Holdings()
    found.head = _checked(head) if head else ""
    found.branch = os.fsdecode(branch.rstrip(b"\n"))
    for line in refs.split(b"\n")[:-1]:
        kind, oid, peeled, name = line.split(b" ", 3)
        found.refs[name] = (kind.decode("ascii"), _checked(oid), _checked(peeled or oid))
    found.stashed = list(dict.fromkeys(_checked(line) for line in stashed.split()))
    for line in heads.split(b"\n")[:-1]:
        tip, _, name = line.partition(b" ")
        found.heads[name] = _checked(tip)
    words = iter(staged.split(b"\0")[:-1])
    found.staged = [path for _, path in zip(words, words, strict=True)]
    for line in commits.split(b"\n")[:-1]:
        commit, *parents = [_checked(word) for word in line.split()]
        found.commits[commit] = parents
    if len(found.commits) > COMMITS_LIMIT:
        found.commits.popitem()
        found.more = True
    return found


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
        return sha256(worktree.read(fd, _WATCHED_LIMIT_BYTES)).hexdigest()
    finally:
        os.close(fd)


def odd_keys(keys: "Iterable[bytes]") -> list[bytes]:
    """Return those keys of a clone's configuration that it did not get from being cloned and that change what git does."""

    def harmless(key: bytes) -> bool:
        text = key.decode("utf-8", "replace")
        branch = text.startswith("branch.") and text.rpartition(".")[2] in ("remote", "merge", "rebase")
        return text in _HARMLESS or branch

    return [key for key in keys if not harmless(key)]
