"""What the tests of session diff share: sessions without an agent, somebody who plays one, and what git itself would say.

A session is made as start makes it (clone or base copy, record), but nothing runs in it: what an agent could have done is done
by the test, as the user who owns the workspace.
"""

import os
import shutil
import subprocess
import tempfile

import support

LIB = os.path.join(support.ROOT, "lib")

MAKE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from workcell import baseline, ids, layout, record, workspace
repo, direct, uid, gid = sys.argv[2], sys.argv[3] == "direct", int(sys.argv[4]), int(sys.argv[5])
git = workspace.Git([repo, repo + "/.git"])
source = workspace.inspect(git, repo)
assert not source.dirty or "dirty-is-fine" in sys.argv, "the source is not clean"
session_id = ids.new_session_id()
profile = layout.profile_dir("local_sandbox", "bubblewrap", "diffs")
if direct:
    path, branch = repo, source.branch
    if "no-copy" not in sys.argv:
        baseline.keep(git, source, profile, session_id)
else:
    path = workspace.clone_path(source, session_id)
    workspace.make_clone_folder(path)
    branch = workspace.clone(git, source, path, session_id, uid, gid)
record.create(layout.record_path(profile, session_id), {
    "session_id": session_id, "profile": "diffs", "target_kind": "local_sandbox", "target_provider": "bubblewrap",
    "target_assurance_class": "sandbox", "runtime_api": "bubblewrap", "agent": "command", "mode": "strict", "status": "exited",
    "live_status": "stopped", "exit_status": "0", "final_assurance": "managed-readonly", "workspace": path,
    "workspace_origin": repo, "workspace_root": repo, "worktree_path": path, "git_branch": branch, "git_head": source.head,
    "git_base": source.head, "started_at": "2026-03-02T08:15:00Z", "finished_at": "2026-03-02T10:00:00Z",
    "audit_log_path": profile + "/workcell.audit.log",
})
print(session_id, path, source.head, sep="\\n")
"""


def make_world(user=None):
    """Return a World in a folder that every user can pass through, which pytest's own is not."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="workcell-diffs-"))
    os.chmod(folder, 0o755)
    world = support.World(folder, user=user)
    # Root's sandboxes run as somebody who owns nothing; an ordinary user's as the user.
    world.agent = world.user or (support.unused_user() if os.geteuid() == 0 else (os.geteuid(), os.getegid()))
    world.env["GIT_CONFIG_NOSYSTEM"] = "1"
    world.env["TMPDIR"] = os.path.join(world.folder, "tmp")
    os.mkdir(world.env["TMPDIR"])
    write(os.path.join(folder, "agent.gitconfig"), '[safe]\n\tdirectory = *\n[protocol "file"]\n\tallow = always\n', 0o644)
    os.chmod(world.env["TMPDIR"], 0o1777)
    return world


def close_world(world):
    """Remove a world; fail where a process or a temporary folder of it is left."""
    try:
        world.close()
        assert os.listdir(world.env["TMPDIR"]) == []
    finally:
        shutil.rmtree(world.folder)


def write(path, content="", mode=None):
    """Write a file and the folders above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())
    if mode is not None:
        os.chmod(path, mode)


# What the repository of most tests has in its one commit.
FILES = {
    "README": "hello\n",
    "keep": "".join(f"line {number}\n" for number in range(40)),
    "folder/a": "a\n",
    "folder/b": "b\n",
    "other/deep/c": "c\n",
    ".gitignore": "*.log\nbuild/\n",
}


def make_repository(world, files=None, path=None, attributes="", prepare=None):
    """Make a repository with one commit of some files, one program and one link; prepare(path) comes before the commit."""
    path = path or world.repo
    os.makedirs(path)
    for name, content in {**FILES, **(files or {})}.items():
        write(os.path.join(path, name), content)
    write(os.path.join(path, "run"), "#!/bin/sh\n", 0o755)
    os.symlink("README", os.path.join(path, "link"))
    if attributes:
        write(os.path.join(path, ".gitattributes"), attributes)
    hand_over(world, path)
    world.git("-C", path, "init", "-q", "-b", "main")
    if prepare:
        prepare(path)
        hand_over(world, path)
    commit(world, path, "one")
    return path


def hand_over(world, path):
    """Give a folder with all in it to the world's user."""
    if world.user:
        for folder, _, names in os.walk(path):
            for name in (".", *names):
                os.chown(os.path.join(folder, name), *world.user, follow_symlinks=False)


def commit(world, path, message):
    """Commit all that is in a repository, as the operator."""
    world.git("-C", path, "add", "-A")
    world.git("-C", path, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-q", "-m", message)


class Session:
    """A session whose agent is the test: id, path (its workspace), base (commit), world."""

    def __init__(self, world, direct=False, repo=None, *more):
        words = ["direct" if direct else "isolated", *map(str, world.agent), *more]
        made = world.run(world.python, "-c", MAKE, LIB, repo or world.repo, *words)
        assert made.exit_status == 0, made
        self.world = world
        self.id, self.path, self.base = made.stdout.splitlines()
        self.owner = os.stat(self.path).st_uid, os.stat(self.path).st_gid

    def agent(self, script, check=True, **env):
        """Run a shell script in the workspace as the agent would, without a sandbox around it; return its output as bytes."""
        user = {"user": self.owner[0], "group": self.owner[1], "extra_groups": []} if os.geteuid() == 0 else {}
        environment = {
            "PATH": self.world.env["PATH"],
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "WORLD_OF_TEST": self.world.folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_GLOBAL": os.path.join(self.world.folder, "agent.gitconfig"),
            **{f"GIT_{who}_{what}": f"agent@{what}".lower() for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **env,
        }
        done = subprocess.run(["sh", "-ec", script], cwd=self.path, env=environment, capture_output=True, timeout=60, **user)
        assert not check or done.returncode == 0, done
        return done.stdout

    def put(self, name, content="", mode=None):
        """Write a file into the workspace as its owner's."""
        path = os.path.join(self.path, name) if isinstance(name, str) else os.path.join(os.fsencode(self.path), name)
        with open(path, "wb") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())
        if mode is not None:
            os.chmod(path, mode)
        if os.geteuid() == 0:
            os.chown(path, *self.owner)

    def diff(self, *words, **more):
        """Run session diff for it."""
        return self.world.session("diff", "--id", self.id, *words, **more)

    def bundle(self, *words, exit_status=0):
        """Return the Bundle that session diff prints."""
        done = self.diff(*words)
        assert done.exit_status == exit_status, done
        return Bundle(done.stdout)

    def git_says(self):
        """Return (status, diff) as git in the workspace prints them, in the form of the bundle."""
        status = self.agent("git status --short --untracked-files=all")
        diff = self.agent(f"git diff --no-ext-diff --no-textconv --submodule=short {self.base} --")
        return tuple(text.decode("utf-8", "surrogateescape").rstrip("\n") or "clean" for text in (status, diff))


class Bundle:
    """What session diff printed, taken apart: keys (list of pairs), status, diff, others ({ref: diff})."""

    def __init__(self, text):
        assert text.endswith("\n") and not text.endswith("\n\n")
        self.text = text
        head, _, rest = text.partition("\n\n[status]\n")
        self.keys = [tuple(line.split("=", 1)) for line in head.split("\n")]
        self.status, _, rest = rest.partition("\n\n[diff]\n")
        self.diff, *others = rest[:-1].split("\n\n[diff refs/")
        self.others = {}
        for other in others:
            refs, _, diff = other.partition("]\n")
            self.others["refs/" + refs] = diff

    @property
    def notes(self):
        return [value for key, value in self.keys if key == "note"]

    @property
    def commits(self):
        return [value for key, value in self.keys if key == "commit"]

    @property
    def is_clean(self):
        return self.status == "clean" and self.diff == "clean"
