"""The work tree that a session gets: an isolated clone on a branch of its own, or the operator's own tree.

git runs here on what the operator owns; still no hook, filter, monitor or driver that some configuration names is run, and
nothing of the source is written (git(1), GIT_OPTIONAL_LOCKS).
"""

import os
import stat

from workcell import atomic, layout, run
from workcell.errors import PreconditionError, WorkcellError

BRANCH_PREFIX = "workcell/session-"
CLONES = "workcell-sessions"
AGENT_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")

# Folders of a home that hold credentials or tools.
SENSITIVE = (
    ".aws", ".azure", ".cache", ".claude", ".codex", ".colima", ".config", ".copilot", ".docker", ".gemini", ".gnupg",
    ".kube", ".local", ".mozilla", ".netrc", ".npm", ".password-store", ".ssh", ".terraform.d", "Library",
)  # fmt: skip


def check_folder(path: str) -> str:
    """Return the real path of a folder that may be a workspace.

    Raises PreconditionError for a missing one, for the root or the home, for folders that hold credentials or tools, and for
    one that contains the toolkit's own state or lies in it.
    """
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise PreconditionError(f"workspace {path!r}", "is not a folder", "name an existing folder with --workspace")
    if any(c in real for c in "\r\n"):
        raise PreconditionError(f"workspace {path!r}", "has a newline in its path", "rename it")
    home = os.path.realpath(layout.home_dir())
    if real == "/" or real == home or home.startswith(real + "/"):
        raise PreconditionError(f"workspace {path!r}", "is too broad: it holds the home folder", "name one project's folder")
    for name in SENSITIVE:
        if _inside(real, os.path.join(home, name)):
            raise PreconditionError(f"workspace {path!r}", f"lies in ~/{name}, which holds credentials or tools", "move it")
    for secret in (layout.state_root(), layout.config_dir()):
        if _inside(real, os.path.realpath(secret)) or _inside(os.path.realpath(secret), real):
            raise PreconditionError(f"workspace {path!r}", f"contains or lies in {secret}", "name another folder")
    return real


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Source:
    """What is known of a source workspace: path (real), git_dir (absolute, empty when it is no git work tree), branch (empty
    when detached), head (full commit id, empty before the first commit), dirty (untracked files count), settings (git's)."""

    __slots__ = ("path", "git_dir", "branch", "head", "dirty", "settings")

    def __init__(
        self,
        path: str,
        git_dir: str = "",
        branch: str = "",
        head: str = "",
        dirty: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.path, self.git_dir, self.branch, self.head, self.dirty = path, git_dir, branch, head, dirty
        self.settings = settings or {}


class Git:
    """git as this toolkit runs it: an environment of our own, one configuration of ours, no program of anybody's.

    `safe.directory` has to come from a file, since `-c` does not reach the second process of a clone. The file has no name: it
    is read through our own descriptor (memfd_create(2)), so that a check leaves nothing behind.
    """

    def __init__(self, folders: "list[str]") -> None:
        lines = ["[safe]\n", *(f"\tdirectory = {_quoted(folder)}\n" for folder in folders)]
        self._config, place = _readable_by_others(os.fsencode("".join(lines)))
        self.env = _fixed_environment() | {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": place,
        }
        self.pass_fds: list[int] = []  # descriptors that each git inherits
        self.neutral = [
            "-c", "core.hooksPath=/dev/null",
            "-c", "core.fsmonitor=false",
            "-c", "core.untrackedCache=false",
            "-c", "core.attributesFile=/dev/null",
            "-c", "diff.external=",
            "-c", "color.ui=false",
            "-c", "core.quotePath=true",
            "-c", "core.sshCommand=false",
            "-c", "core.askPass=false",
            "-c", "credential.helper=",
            "-c", "submodule.recurse=false",
            "-c", "gc.auto=0",
            "-c", "maintenance.auto=false",
            "-c", "advice.detachedHead=false",
        ]  # fmt: skip

    def __call__(self, folder: str, *words: str, timeout_s: float = 600.0) -> run.Finished:
        return run.capture(self.command(folder, *words), self.env, timeout_s=timeout_s, pass_fds=self.pass_fds)

    def command(self, folder: str, *words: str) -> list[str]:
        """Return the whole command line of a git for a folder."""
        return ["git", *self.neutral, "-C", folder, *words]

    def settings(self, folder: str) -> dict[str, str]:
        """Return the whole configuration that the operator has for a folder, last values.

        Each content filter that it names is emptied for all further calls.
        """
        values = {key: value for _, key, value in configuration(folder)}
        for key in values:
            if key.startswith("filter.") and key.endswith((".clean", ".smudge", ".process", ".required")):
                # Through the environment: a filter's name may hold '=', which -c would split at.
                self._add(key, "false" if key.endswith(".required") else "")
        return values

    def _add(self, key: str, value: str) -> None:
        count = int(self.env.get("GIT_CONFIG_COUNT", "0"))
        self.env.update(
            {"GIT_CONFIG_COUNT": str(count + 1), f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        )


_configurations: dict[str, list[tuple[str, str, str]]] = {}


def configuration(folder: str) -> list[tuple[str, str, str]]:
    """Return (origin, key, value) of all that the operator has configured for a folder; reading it runs nothing.

    origin: `file:` and a path, relative to the folder or absolute, or another word of git-config(1), --show-origin. A process
    asks once: a start goes by what it found first.
    """
    if folder not in _configurations:
        found = run.capture(*_configuration_command(folder), timeout_s=60)
        words = os.fsdecode(found.stdout).split("\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        _configurations[folder] = [(origin, *entry.partition("\n")[::2]) for origin, entry in pairs]
    return _configurations[folder]


def _configuration_command(folder: str) -> tuple[list[str], dict[str, str]]:
    env = _fixed_environment()
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        if name in os.environ:
            env[name] = os.environ[name]
    # A git directory that is named is read whoever owns it; one that is found is passed over when it is somebody else's.
    git_dir = os.path.join(folder, ".git")
    return ["git", "-C", folder, "--git-dir", git_dir, "config", "--null", "--show-origin", "--list"], env


def _fixed_environment() -> dict[str, str]:
    """Return what every git of ours has in its environment."""
    return {
        "PATH": os.environ.get("PATH", run.SYSTEM_PATH),
        "HOME": layout.home_dir(),
        "LC_ALL": "C",
        "LANG": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_TRACE2": "0",
        "GIT_TRACE2_EVENT": "0",
        "GIT_TRACE2_PERF": "0",
    }


def _readable_by_others(content: bytes) -> tuple[int, str]:
    """Return (a descriptor to be kept, the path by which a git reads what it has)."""
    fd = run.memory_file(content)
    place = f"/proc/{os.getpid()}/fd/{fd}"
    if not os.path.exists(place):
        import hashlib

        # By its content, so that it can stay: whoever needs the same finds it.
        folder = layout.cache_dir()
        place = os.path.join(folder, "gitconfig-" + hashlib.sha256(content).hexdigest()[:16])
        atomic.make_dir(folder)
        atomic.replace_file(place, content)
    return fd, place


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{escaped}"'


_WHERE = ("rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--show-toplevel")


def ask_ahead(git: Git, path: str) -> None:
    """Begin to ask what `inspect` wants to know first of a folder."""
    run.ahead(git.command(path, *_WHERE), git.env)
    run.ahead(*_configuration_command(path))


def inspect(git: Git, path: str) -> Source:
    """Return what git says of a folder; one that is no git work tree gives a Source without a git_dir.

    Raises PreconditionError where the git administration lies outside of the folder.
    """
    asked = git(path, *_WHERE)
    answers = asked.text().split("\n")
    if asked.exit_status != 0 or answers[0] != "true" or len(answers) < 3:
        if os.path.lexists(os.path.join(path, ".git")):
            raise PreconditionError(path, f"git refuses it: {asked.reason()}", "repair the repository first")
        return Source(path)
    git_dir, top = answers[1], answers[2]
    if not _inside(os.path.realpath(git_dir), os.path.join(path, ".git")):
        if os.path.realpath(top) != path:
            raise PreconditionError(path, f"is a folder inside the git work tree {top}", f"start with --workspace {top}")
        raise PreconditionError(
            path,
            f"its git administration lies outside of it, in {git_dir} (a linked worktree or a submodule)",
            "use a standard clone: git clone that repository to a folder of its own",
        )
    settings = git.settings(path)
    status = git(
        path, "status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames"
    )
    if status.exit_status != 0:
        raise PreconditionError(path, f"git status fails: {status.reason()}", "repair the repository first")
    branch = head = ""
    dirty = False
    for line in os.fsdecode(status.stdout).split("\n"):
        if line.startswith("# branch.oid "):
            head = line[13:].replace("(initial)", "")
        elif line.startswith("# branch.head "):
            branch = line[14:].replace("(detached)", "")
        elif line and not line.startswith("#"):
            dirty = True
    dirty = dirty or submodule_has_changes(git, path)
    return Source(path, git_dir, branch, head, dirty, settings)


def submodule_has_changes(git: Git, path: str) -> bool:
    """Say whether a submodule that is checked out below path has changes of its own.

    `git status` of the outer repository would ask it, too, but with the filters of its configuration, which are programs; so
    each is asked by itself, with its own filters emptied.
    """
    if not os.path.lexists(os.path.join(path, ".gitmodules")):
        return False
    for entry in os.fsdecode(git(path, "ls-files", "--stage", "-z").stdout).split("\0"):
        mode, _, name = entry.partition(" ")[0], *entry.partition("\t")[1:]
        inner = os.path.join(path, name)
        if mode != "160000" or not os.path.lexists(os.path.join(inner, ".git")):
            continue
        inner_git = Git([inner])
        inner_git.settings(inner)
        words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
        status = inner_git(inner, *words)
        if status.exit_status != 0 or status.stdout or submodule_has_changes(inner_git, inner):
            return True
    return False


def check_isolated(source: Source) -> None:
    """Raise PreconditionError unless a clean clone of the source can be made."""
    if not source.git_dir:
        raise PreconditionError(
            source.path, "is not a git work tree, and an isolated session needs one", "use --session-workspace direct"
        )
    if not source.head:
        raise PreconditionError(source.path, "has no commit yet", "commit something first, or use --session-workspace direct")
    if source.dirty:
        raise PreconditionError(
            source.path,
            "has uncommitted or untracked changes, and an isolated session starts from a clean source",
            "commit or stash them, or use --session-workspace direct",
        )
    promisor = any(
        key == "extensions.partialclone" or (key.startswith("remote.") and key.endswith(".promisor")) for key in source.settings
    )
    if promisor:
        raise PreconditionError(
            source.path,
            "is a partial clone: objects may be missing that only its remote has",
            "fetch them all first (git fetch --refetch --no-filter), or use --session-workspace direct",
        )


def check_direct(source: Source, allow_nongit: bool) -> None:
    """Raise PreconditionError unless the folder may be given to an agent as it is."""
    if source.git_dir:
        return
    if not allow_nongit:
        raise PreconditionError(source.path, "is not a git work tree", "add --allow-nongit-workspace if that is meant")
    if not any(os.path.isfile(os.path.join(source.path, name)) for name in AGENT_FILES):
        raise PreconditionError(source.path, f"has none of {', '.join(AGENT_FILES)}", "add one, so that the choice is clear")


def clone_path(source: Source, session_id: str) -> str:
    """Return where the isolated clone of a session goes; raise PreconditionError where a link or an old folder stands."""
    parent = os.path.join(source.git_dir, CLONES)
    for path in (parent, os.path.join(parent, session_id)):
        if os.path.islink(path):
            raise PreconditionError(path, "is a symbolic link", "remove it")
    path = os.path.join(parent, session_id, "repo")
    if os.path.lexists(os.path.dirname(path)):
        raise PreconditionError(os.path.dirname(path), "exists already", "start again; a new session gets a new id")
    return path


def make_clone_folder(path: str) -> None:
    """Make the empty folder of an isolated clone; a container may be given it before there is anything in it.

    The folders above it stay the caller's and can be passed through but not listed by others (0711).
    """
    parent = os.path.dirname(path)
    for attempt in range(100):
        try:
            for folder in (os.path.dirname(parent), parent):
                _make_passage(folder)
            break
        except FileNotFoundError:
            # A start that was given up just took the empty folder above away.
            if attempt == 99:
                raise
    os.mkdir(path, 0o700)


def clone(git: Git, source: Source, path: str, session_id: str, uid: int, gid: int) -> str:
    """Fill the folder of the isolated clone, on its own branch at the source's head, owned by uid:gid; return that branch."""
    branch = BRANCH_PREFIX + session_id
    # Objects are copied file by file, which is quickest. That cannot be where the store borrows from another one, nor while
    # git moves objects into packs, as it does by itself after many commits: a copy of it could miss some. Then they go
    # through the pack protocol.
    before = _packs(source)
    copies = before is not None and not os.path.exists(os.path.join(source.git_dir, "objects/info/alternates"))
    made = _clone(git, source, path, copies)
    if copies and (made.exit_status != 0 or _packs(source) != before):
        _empty(path)
        made = _clone(git, source, path, False)
    if made.exit_status != 0:
        raise WorkcellError(path, f"git clone failed: {made.reason()}", "repair the source repository and start again")
    # A bare id would be looked up among the tags first, where one of that very name may lead elsewhere.
    # With a worker for each processor, from a hundred files on.
    words = ["-c", "checkout.workers=0", "checkout", "--quiet", "--force", "--no-track", "-B", branch, source.head + "^0"]
    checked_out = git(path, *words)
    if checked_out.exit_status != 0:
        raise WorkcellError(
            path, f"git checkout failed: {checked_out.reason()}", "repair the source repository and start again"
        )
    if uid != os.geteuid():
        give_away(path, uid, gid)
    return branch


def _clone(git: Git, source: Source, path: str, copies: bool) -> run.Finished:
    words = ["clone", "--quiet", "--no-checkout", "--no-hardlinks", "--template="]
    return git(source.path, *words, *([] if copies else ["--no-local"]), "--", source.path, path)


def _empty(folder: str) -> None:
    """Remove all that is in a folder, and keep the folder itself: a container may have it already."""
    import shutil

    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _packs(source: Source) -> list[str] | None:
    """Return the names of the packs of a repository's own store, None while git collects garbage in it."""
    if os.path.exists(os.path.join(source.git_dir, "gc.pid")):
        return None
    try:
        return sorted(os.listdir(os.path.join(source.git_dir, "objects/pack")))
    except OSError:
        return []


def _make_passage(folder: str) -> None:
    """Make a folder that others can pass through but not list, or find it there."""
    try:
        os.mkdir(folder, 0o711)
        os.chmod(folder, 0o711)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise PreconditionError(folder, "is not a folder", "remove it") from None


def give_away(path: str, uid: int, gid: int) -> None:
    """Give a folder and all in it to the sandbox's user while nothing of the agent runs; no link is followed all the same."""
    for _, folders, files, folder_fd in os.fwalk(path, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=folder_fd, follow_symlinks=False)
    os.chown(path, uid, gid, follow_symlinks=False)


def discard_clone(path: str) -> None:
    """Remove the clone of a start that did not come about: no agent ever ran in it."""
    import shutil

    parent = os.path.dirname(path)
    if os.path.basename(path) != "repo" or os.path.basename(os.path.dirname(parent)) != CLONES:
        raise WorkcellError(path, "is not the path of an isolated clone", "remove it by hand")
    # The folder of all clones stays, even when it is empty: sandboxes of direct sessions have a mount on it that hides it.
    shutil.rmtree(parent, ignore_errors=True)
