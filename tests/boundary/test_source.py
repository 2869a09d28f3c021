"""Starting a session runs no program that a repository or a configuration names, and leaves the source as it was."""

import os

import pytest

import worlds

# Canaries are named for the place that names them; each leaves a file when it runs.
PROGRAM_KEYS = (
    "core.fsmonitor", "core.sshCommand", "core.askPass", "core.pager", "core.editor", "core.gitProxy",
    "core.alternateRefsCommand", "credential.helper", "diff.external", "diff.evil.textconv", "diff.evil.command",
    "merge.evil.driver", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.lfs.clean",
    "filter.lfs.smudge", "filter.lfs.process", "gpg.program", "uploadpack.packObjectsHook", "sequence.editor",
    "interactive.diffFilter", "difftool.evil.cmd", "remote.origin.uploadpack", "receive.fsckObjectsHook",
    "trailer.evil.command", "uploadArchive.evil.command", "protocol.ext.allow",
)  # fmt: skip
ALIASES = ("status", "clone", "rev-parse", "checkout", "config", "ls-files", "log")
HOOKS = (
    "post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-merge", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "update", "post-update", "pre-receive", "post-receive", "pre-rebase",
    "fsmonitor-watchman",
)  # fmt: skip
ATTRIBUTES = "*.txt filter=evil diff=evil merge=evil\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.dat filter=own\n"


def configuration(settings):
    """Return settings as the text of a git configuration file."""
    lines = []
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        lines.append(f'[{section} "{subsection}"]' if subsection else f"[{section}]")
        lines.append(f'\t{name} = "{value}"')
    return "\n".join([*lines, ""])


class Trap:
    """A world whose repository and whose operator's configuration name programs wherever git can be told to run one."""

    def __init__(self, world):
        self.world = world
        self.fired_dir = os.path.join(world.home, "fired")
        os.makedirs(self.fired_dir)
        os.chmod(self.fired_dir, 0o777)
        worlds.give(world, self.fired_dir)
        world.make_repo()
        self.plant()

    def canary(self, name):
        path = os.path.join(self.world.home, "canaries", name)
        worlds.plant(self.world, path, f"#!/bin/sh\n: > {self.fired_dir}/{name}\n[ -t 0 ] || cat\nexit 0\n", 0o755)
        return path

    def plant(self):
        world, repo = self.world, self.world.repo
        for name, text in ((".gitattributes", ATTRIBUTES), ("a.txt", "text\n"), ("b.bin", "binary\n"), ("c.dat", "data\n")):
            worlds.plant(world, os.path.join(repo, name), text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "two")
        template = os.path.join(world.home, "template")
        for where in ("operator", "source", "template"):
            settings = [(key, self.canary(f"{where}-{key}")) for key in PROGRAM_KEYS if where != "template"]
            settings += [
                (f"alias.{name}", "!" + self.canary(f"{where}-alias-{name}")) for name in ALIASES if where != "template"
            ]
            hooks = os.path.join(repo, ".git/hooks")
            if where == "operator":
                hooks = os.path.join(world.home, "hooks")
                settings += [("filter.evil.required", "true"), ("init.templateDir", template), ("core.hooksPath", hooks)]
                settings += [("core.attributesFile", os.path.join(world.home, "attributes"))]
                settings += [("trace2.normalTarget", os.path.join(self.fired_dir, "operator-trace2"))]
                worlds.plant(world, os.path.join(world.home, ".gitconfig"), configuration(settings))
            elif where == "source":
                settings += [(f"filter.own.{name}", self.canary(f"source-filter.own.{name}")) for name in ("clean", "process")]
                with open(os.path.join(repo, ".git/config"), "a") as stream:
                    stream.write(configuration(settings))
            else:
                hooks = os.path.join(template, "hooks")
            for name in HOOKS:
                path = self.canary(f"{where}-hook-{name}")
                worlds.plant(world, os.path.join(hooks, name), f'#!/bin/sh\nexec {path} "$@"\n', 0o755)
        worlds.plant(world, os.path.join(world.home, "attributes"), ATTRIBUTES)
        worlds.plant(world, os.path.join(repo, ".git/info/attributes"), ATTRIBUTES)
        self.submodule()
        self.borrower = os.path.join(world.home, "borrower")
        self.git("clone", "-q", "--shared", "--template=", repo, self.borrower)
        keys = ("uploadpack.packObjectsHook", "core.alternateRefsCommand", "core.fsmonitor")
        with open(os.path.join(self.borrower, ".git/config"), "a") as stream:
            stream.write(configuration([(key, self.canary(f"borrower-{key}")) for key in keys]))
        worlds.hand_over(world, repo)
        worlds.hand_over(world, self.borrower)
        # A changed time makes git look at the content again, through the filters.
        for name in ("a.txt", "b.bin", "c.dat", "sub/c.txt"):
            os.utime(os.path.join(repo, name), (1, 1))
        self.clear()

    def submodule(self):
        """A repository in the repository, with programs in a configuration of its own."""
        sub = os.path.join(self.world.repo, "sub")
        self.world.make_repo(sub)
        for name, text in ((".gitattributes", "*.txt filter=inner\n"), ("c.txt", "text\n")):
            worlds.plant(self.world, os.path.join(sub, name), text)
        self.git("add", "-A", folder=sub)
        self.git("commit", "-q", "-m", "inner", folder=sub)
        keys = ("core.fsmonitor", "filter.inner.clean", "filter.inner.smudge", "filter.inner.process")
        with open(os.path.join(sub, ".git/config"), "a") as stream:
            stream.write(configuration([(key, self.canary(f"submodule-{key}")) for key in keys]))
        worlds.plant(
            self.world, os.path.join(self.world.repo, ".gitmodules"), '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n'
        )
        self.git("add", ".gitmodules", "sub")
        self.git("commit", "-q", "-m", "three")

    def git(self, *words, folder=None, env=None):
        """Run git on the trap while it is being built, with what is planted switched off."""
        quiet = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"]
        quiet += [
            w
            for name in ("evil", "lfs", "own", "inner")
            for kind in ("clean", "smudge", "process")
            for w in ("-c", f"filter.{name}.{kind}=")
        ]
        quiet += [w for name in ("evil", "lfs") for w in ("-c", f"filter.{name}.required=false")]
        quiet += ["-c", "user.name=Op", "-c", "user.email=op@example.org", "-c", "advice.addEmbeddedRepo=false"]
        env = {"GIT_TRACE2": "0", **(env or {})}
        done = self.world.run("git", *quiet, "-C", folder or self.world.repo, *words, env=env)
        assert done.exit_status == 0, done
        return done.stdout

    def fired(self):
        return sorted(os.listdir(self.fired_dir))

    def clear(self):
        for name in self.fired():
            os.unlink(os.path.join(self.fired_dir, name))


@pytest.fixture
def trap(anyone):
    return Trap(anyone)


@pytest.fixture
def trap_of_user():
    """The same for an ordinary user only, or whoever runs the suite."""
    world = worlds.make_world(worlds.CALLERS[-1])
    yield Trap(world)
    worlds.close_world(world)


def every_verb(world, session_id):
    """Run each command that looks at a session."""
    for verb, *words in (
        ("list", "--json"), ("list", "--verbose"), ("show", "--id", session_id), ("timeline", "--id", session_id),
        ("wait", "--id", session_id), ("verify", "--id", session_id), ("stop", "--id", session_id),
    ):  # fmt: skip
        done = world.session(verb, *words)
        assert done.exit_status == 0, (verb, done)


def test_h11_no_program_that_the_source_or_the_operator_names_is_run(trap):
    world = trap.world
    before = worlds.take_snapshot(world.repo)
    session_id = world.start("--", "sh", "-c", "git status --short; git log --oneline; cat a.txt b.bin")
    every_verb(world, session_id)
    assert trap.fired() == []
    assert "text" in world.transcript(session_id) and "binary" in world.transcript(session_id)

    after = worlds.take_snapshot(world.repo, leave_out=[os.path.join(world.repo, ".git/workcell-sessions")])
    assert after == before

    # The control: plain git on the same repository runs into the trap.
    for name in ("a.txt", "b.bin", "c.dat", "sub/c.txt"):
        os.utime(os.path.join(world.repo, name), (2, 2))
    trap.git("config", "--global", "safe.directory", "*")
    world.run("git", "-C", world.repo, "status")
    # What is planted in the outer repository fails too early for the inner one to be asked.
    outer = [word for name in ("evil", "lfs") for kind in ("clean", "process") for word in ("-c", f"filter.{name}.{kind}=")]
    outer += ["-c", "core.fsmonitor=false", "-c", "filter.evil.required=false"]
    world.run("git", "-C", world.repo, *outer, "status", "--ignore-submodules=none")
    world.run("git", "clone", "-q", "--no-hardlinks", world.repo, os.path.join(world.home, "control"))
    for name in (
        "source-core.fsmonitor", "source-filter.own.process", "source-filter.evil.process", "operator-filter.evil.process",
        "submodule-filter.inner.process", "operator-hook-reference-transaction", "operator-trace2",
    ):  # fmt: skip
        assert name in trap.fired(), trap.fired()


def test_h11_no_program_is_run_for_a_direct_session_or_a_dry_run(trap):
    world = trap.world
    words = ["--agent", "command", "--target", "bubblewrap"]
    for options in (["--dry-run"], ["--session-workspace", "direct", "--dry-run"]):
        done = world.session("start", *words, *options, "--", "true")
        assert done.exit_status == 0, done
    session_id = world.start("--session-workspace", "direct", "--", "true")
    every_verb(world, session_id)
    assert trap.fired() == []


def test_h11_a_source_whose_objects_lie_elsewhere_is_cloned_without_running_anything(trap_of_user):
    """Such a source goes through git's own transport, which has hooks of its own."""
    world = trap_of_user.world
    session_id = world.start("--workspace", trap_of_user.borrower, "--", "sh", "-c", "git fsck && cat a.txt")
    every_verb(world, session_id)
    assert trap_of_user.fired() == []
    assert "text" in world.transcript(session_id)
    assert not os.path.exists(os.path.join(world.show(session_id)["worktree_path"], ".git/objects/info/alternates"))


def test_the_environment_of_the_caller_does_not_lead_git_elsewhere(trap_of_user):
    """Variables that a hook or an alias leaves behind when start is called from one."""
    trap = trap_of_user
    world = trap.world
    elsewhere = os.path.join(world.home, "elsewhere")
    env = {
        "GIT_DIR": elsewhere, "GIT_WORK_TREE": elsewhere, "GIT_INDEX_FILE": elsewhere, "GIT_OBJECT_DIRECTORY": elsewhere,
        "GIT_EXTERNAL_DIFF": trap.canary("variable-external-diff"), "GIT_SSH_COMMAND": trap.canary("variable-ssh"),
        "GIT_TRACE": os.path.join(trap.fired_dir, "variable-trace"), "GIT_TEMPLATE_DIR": os.path.join(world.home, "template"),
        "GIT_EXEC_PATH": os.path.join(world.home, "canaries"), "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=false'",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": trap.canary("variable-fsmonitor"),
        "TMPDIR": "/nonexistent",
    }  # fmt: skip
    session_id = world.start("--", "git", "log", "--oneline", env=env)
    every_verb(world, session_id)
    assert trap.fired() == []
    assert not os.path.exists(elsewhere)
    assert "three" in world.transcript(session_id)


def test_k08_links_at_names_that_can_be_guessed_lead_no_write_astray(anyone):
    """Somebody else has planted links in the folder of temporary files; start makes its own names, in its own folders."""
    world = anyone
    worlds.make_repo(world)
    temporary = os.path.join(world.home, "tmp")
    victim = worlds.plant(world, os.path.join(world.home, "victim"), "precious")
    os.makedirs(temporary)
    os.chmod(temporary, 0o1777)
    for name in ("gitconfig", "workcell", "workcell.gitconfig", "seed.tar", "launch-spec.json", "seccomp", "session-stdin"):
        os.symlink(victim, os.path.join(temporary, name))
    before = sorted(os.listdir(temporary))
    session_id = world.start("--", "true", env={"TMPDIR": temporary})
    world.session("wait", "--id", session_id)
    assert sorted(os.listdir(temporary)) == before
    with open(victim) as stream:
        assert stream.read() == "precious"


def test_a_clone_is_the_agents_alone_and_its_parents_cannot_be_listed(anyone):
    world = anyone
    worlds.make_repo(world)
    session_id = world.start("--", "sh", "-c", "git config core.hooksPath; ls .git/hooks; git remote -v; echo end")
    world.session("wait", "--id", session_id)
    clone = world.show(session_id)["worktree_path"]
    parents = [os.path.dirname(clone), os.path.dirname(os.path.dirname(clone))]
    assert oct(os.stat(clone).st_mode) == "0o40700"
    assert [oct(os.stat(path).st_mode) for path in parents] == ["0o40711", "0o40711"]
    caller = world.user[0] if world.user else os.geteuid()
    assert {os.stat(path).st_uid for path in parents} == {caller}
    if caller == 0:
        assert os.stat(clone).st_uid != 0
    assert not os.path.exists(os.path.join(clone, ".git/hooks"))
