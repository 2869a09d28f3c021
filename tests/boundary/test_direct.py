"""An agent that works in the operator's own tree cannot make the operator's git run something."""

import json
import os

import pytest

import worlds
from support import wait_until

# name: (the attack, how to undo it, so that the next one finds the repository as it was)
ATTACKS = {
    "append to the configuration": ("echo '[x]' >> .git/config", "true"),
    "put another file in place of the configuration": ("cp .git/config .git/c && mv -f .git/c .git/config", "true"),
    "move the configuration away": ("mv .git/config .git/away", "mv .git/away .git/config"),
    "exchange the configuration": ("cp .git/config .git/c && exchange .git/c .git/config", "rm -f .git/c"),
    "remove the configuration": ("cp .git/config /tmp/c && rm -f .git/config", "cp /tmp/c .git/config"),
    "change the mode of the configuration": ("chmod 600 .git/config", "chmod 644 .git/config"),
    "link the configuration": ("ln .git/config .git/linked && echo '[x]' >> .git/linked", "rm -f .git/linked"),
    "configure by git": ("git config core.fsmonitor ./evil", "git config --unset core.fsmonitor"),
    "configure one worktree": ("echo '[x]' >> .git/config.worktree", "true"),
    "name another folder for the shared part": ("rm -f .git/commondir; echo ../evil > .git/commondir", "rm -f .git/commondir"),
    "plant a hook": ("echo '#!/bin/sh' > .git/hooks/pre-commit", "rm .git/hooks/pre-commit"),
    "move the hooks away": ("mv .git/hooks .git/away", "mv .git/away .git/hooks"),
    "put a link in place of the hooks": (
        "mv .git/hooks .git/h && ln -s ../evil .git/hooks",
        "rm .git/hooks; mv .git/h .git/hooks",
    ),
    "set attributes": ("echo '* filter=evil' > .git/info/attributes", "rm .git/info/attributes"),
    "graft a history": ("echo x > .git/info/grafts", "rm .git/info/grafts"),
    "change the repository of a submodule": ("mkdir -p .git/modules/sub", "rmdir .git/modules/sub"),
    "change the repository of a linked worktree": (
        "cd .git/worktrees/linked && echo ../../evil > commondir",
        "cd .git/worktrees/linked && echo ../.. > commondir",
    ),
    "append to the list of submodules": ("echo '[x]' >> .gitmodules", "true"),
    "move the list of submodules away": ("mv .gitmodules away", "mv away .gitmodules"),
    "move the repository away": ("mv .git away", "mv away .git"),
    "exchange the repository": ("mkdir fake && exchange fake .git", "exchange fake .git; rmdir fake"),
    "change a hook where the configuration has them": ("echo x >> .tools/hooks/pre-push", "true"),
    "move the folder above the hooks away": ("mv .tools away", "mv away .tools"),
    "change a file that the configuration includes": ("echo '[x]' >> .tools/shared.gitconfig", "true"),
    "see the clone of another session": ("ls .git/workcell-sessions/*/repo/README", "true"),
    "make a clone of another session": ("mkdir .git/workcell-sessions/x", "rmdir .git/workcell-sessions/x"),
}

EXCHANGE = """\
import ctypes, os, sys
if ctypes.CDLL(None).renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2):
    sys.exit(1)
"""
SCRIPT = """\
exchange() { /usr/bin/python3 .tools/exchange.py "$1" "$2"; }
"""


def make_repo(world):
    """Make a repository with all that git obeys, and a clone of another session in it."""
    repo = world.repo
    for name in (".tools/exchange.py", ".tools/hooks/pre-push", ".tools/shared.gitconfig", ".gitmodules"):
        worlds.plant(world, os.path.join(repo, name), EXCHANGE if name.endswith("exchange.py") else "")
    git("-C", repo, "add", "-A", world=world)
    git("-C", repo, "commit", "-q", "-m", "two", world=world)
    git("-C", repo, "config", "core.hooksPath", ".tools/hooks", world=world)
    git("-C", repo, "config", "include.path", "../.tools/shared.gitconfig", world=world)
    git("-C", repo, "worktree", "add", "-q", "-b", "linked", os.path.join(world.home, "linked"), world=world)
    worlds.hand_over(world, repo)


def git(*words, world):
    trust = ["-c", "safe.directory=*", "-c", "user.name=Op", "-c", "user.email=op@example.org"]
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    done = world.run("git", *trust, *words, env=env)
    assert done.exit_status == 0, done
    return done.stdout


class Attacked:
    """What came of each attack, and what the repository was before and after."""

    def __init__(self, world, mode):
        self.world, self.mode = world, mode

    def run(self):
        world = self.world
        make_repo(world)
        other = world.start("--", "true")
        world.session("wait", "--id", other)
        self.clone = world.show(other)["worktree_path"]
        self.before = self._obeyed()
        script = SCRIPT + "".join(
            f"if ( {attack} ) >/dev/null 2>&1; then echo '{name}: done' >> /tmp/results; ( {undo} ) >/dev/null 2>&1; "
            f"else echo '{name}: refused' >> /tmp/results; fi\n"
            for name, (attack, undo) in ATTACKS.items()
        )
        script += "cp /tmp/results results.part; mv results.part results; "
        script += "rm -f results.part; echo work > work; git add work; git commit -q -m work; echo ended $?; read line"
        self.session = world.start("--session-workspace", "direct", "--mode", self.mode, "--", "sh", "-c", script)
        world.wait_for_output(self.session, "ended")
        self.commit = world.console(self.session)
        self.record = world.show(self.session)
        with open(os.path.join(world.repo, "results")) as stream:
            self.results = dict(line.strip().split(": ") for line in stream)
        world.session("stop", "--force", "--id", self.session)
        self.after = self._obeyed()

    def _obeyed(self):
        """Return what there is below everything that git obeys, to the time of the last change."""
        names = (
            ".git/config",
            ".git/commondir",
            ".git/hooks",
            ".git/info",
            ".git/modules",
            ".git/worktrees",
            ".gitmodules",
            ".tools",
        )
        entries = worlds.take_snapshot(self.world.repo)
        return {path: state for path, state in entries.items() if path.startswith(names)}


@pytest.fixture(scope="session", params=worlds.in_one_place(worlds.WHO_CAN_WORK_DIRECTLY))
def caller(request):
    return request.param


def _attacked(caller, mode):
    world = worlds.make_world(caller)
    try:
        worlds.make_repo(world)
        made = Attacked(world, mode)
        made.run()
        yield made
    finally:
        worlds.close_world(world)


@pytest.fixture(scope="session")
def strict(caller):
    yield from _attacked(caller, "strict")


@pytest.fixture(scope="session")
def breakglass(caller):
    yield from _attacked(caller, "breakglass")


@pytest.mark.parametrize("name", ATTACKS)
def test_what_git_obeys_cannot_be_changed_in_a_direct_workspace(strict, name):
    assert strict.results[name] == "refused"


def test_after_all_attacks_what_git_obeys_is_byte_for_byte_as_it_was(strict):
    made = {".git/config.worktree", ".git/commondir", ".git/modules"}  # to be protected: they say what git assumes anyway
    assert {path: state for path, state in strict.after.items() if path not in made} == strict.before
    assert strict.after[".git/config.worktree"][-1] == b"" and strict.after[".git/commondir"][-1] == b".\n"
    assert len(strict.before) > 10


@pytest.mark.parametrize("name", [name for name in ATTACKS if "another session" not in name])
def test_breakglass_lets_the_same_attack_through(breakglass, name):
    """The control: without the mounts each of them succeeds."""
    assert breakglass.results[name] == "done"


@pytest.mark.parametrize("name", [name for name in ATTACKS if "another session" in name])
def test_clones_of_other_sessions_are_hidden_also_in_breakglass(breakglass, name):
    assert os.path.isfile(os.path.join(breakglass.clone, "README"))
    assert breakglass.results[name] == "refused"


def test_an_agent_can_still_commit_in_a_direct_workspace(strict, breakglass):
    for made in (strict, breakglass):
        assert "ended 0" in made.commit, made.commit
        assert "work" in git("-C", made.world.repo, "log", "-1", "--format=%s", world=made.world)
        owner = made.world.owner[0] if made.world.owner else os.geteuid()
        assert os.stat(os.path.join(made.world.repo, "work")).st_uid == owner


def test_the_record_says_what_was_protected(strict, breakglass):
    assert (strict.record["workspace_control_plane"], strict.record["mode"]) == ("readonly-vcs", "strict")
    assert (breakglass.record["workspace_control_plane"], breakglass.record["mode"]) == ("unmasked", "breakglass")
    for made in (strict, breakglass):
        log = made.world.session("timeline", "--id", made.session).stdout.splitlines()
        word = f"workspace_control_plane={made.record['workspace_control_plane']}"
        assert [word in line for line in log if "event=launch" in line or "event=exit" in line] == [True, True]
        final = made.world.show(made.session)
        assert final["workspace_control_plane"] == made.record["workspace_control_plane"]
        assert final["workspace"] == made.world.repo and final["git_branch"] == "main"


def test_a_clone_that_is_made_later_is_hidden_from_a_direct_session(direct):
    """The folder of the clones does not exist when the direct session starts."""
    look = "ls -A .git/workcell-sessions; touch .git/workcell-sessions/x && echo made"
    script = f"echo begun; read line; {look}; echo listed; read line"
    session_id = direct.start("--session-workspace", "direct", "--", "sh", "-c", script)
    direct.wait_for_output(session_id, "begun")
    other = direct.start("--", "sleep", "1000")
    assert os.listdir(os.path.join(direct.repo, ".git/workcell-sessions")) == [other]
    direct.session("send", "--id", session_id, "--message", "go")
    direct.wait_for_output(session_id, "listed")
    direct.session("stop", "--force", "--id", session_id)
    direct.session("stop", "--force", "--id", other)
    assert other not in direct.transcript(session_id)
    assert "made" not in direct.transcript(session_id)


@pytest.mark.parametrize("name", ["hooks", "config", "info"])
def test_a_link_among_what_git_obeys_refuses_a_direct_session(direct, name):
    """A link is no mount point: the agent could put something else in its place."""
    path = os.path.join(direct.repo, ".git", name)
    os.rename(path, os.path.join(direct.home, name))
    os.symlink(os.path.join(direct.home, name), path)
    done = direct.session(
        "start", "--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--", "true"
    )
    assert done.exit_status == 2
    assert f".git/{name}" in done.stderr and "symbolic link" in done.stderr
    assert direct.profile_dirs() == []


def test_hooks_and_includes_that_no_mount_could_keep_refuse_a_direct_session(direct):
    words = ["--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--", "true"]
    for key, value, why in (("core.hooksPath", ".", "core.hooksPath"), ("include.path", "../missing", "is not there")):
        git("-C", direct.repo, "config", key, value, world=direct)
        done = direct.session("start", *words)
        assert done.exit_status == 2 and why in done.stderr, done
        git("-C", direct.repo, "config", "--unset", key, world=direct)
    assert not os.path.exists(os.path.join(direct.repo, "missing"))


def test_a_folder_for_hooks_that_is_not_there_yet_cannot_be_made_by_the_agent(direct):
    git("-C", direct.repo, "config", "core.hooksPath", ".husky/_", world=direct)
    script = "echo '#!/bin/sh' > .husky/_/pre-commit; mv .husky x; mkdir -p .husky/_ && echo x > .husky/_/pre-commit"
    session_id = direct.start("--session-workspace", "direct", "--", "sh", "-c", script)
    direct.session("wait", "--id", session_id)
    assert os.listdir(os.path.join(direct.repo, ".husky/_")) == []
    assert direct.git("-c", f"safe.directory={direct.repo}", "-C", direct.repo, "status", "--short", check=False) == ""


def test_state_that_lies_in_or_around_a_direct_workspace_is_refused(direct):
    words = ["--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--", "true"]
    inner = os.path.join(direct.repo, "state")
    for name, value in (
        ("WORKCELL_STATE_ROOT", inner),
        ("WORKCELL_STATE_ROOT", direct.home),
        ("WORKCELL_STATE_ROOT", direct.repo),
        ("XDG_STATE_HOME", direct.repo),
        ("XDG_CONFIG_HOME", direct.repo),
    ):
        env = {name: value} if name != "XDG_STATE_HOME" else {name: value, "WORKCELL_STATE_ROOT": ""}
        done = direct.session("start", *words, env=env)
        assert done.exit_status == 2, (name, value, done)
        assert "contains or lies in" in done.stderr
        assert not os.path.exists(os.path.join(direct.repo, "workcell")) and not os.path.exists(inner)


def test_a_state_root_behind_a_link_into_the_workspace_is_refused(direct):
    link = os.path.join(direct.home, "state-link")
    os.makedirs(os.path.join(direct.repo, "state"))
    os.symlink(os.path.join(direct.repo, "state"), link)
    words = ["--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--", "true"]
    done = direct.session("start", *words, env={"WORKCELL_STATE_ROOT": link})
    assert done.exit_status == 2 and "contains or lies in" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes run as somebody else")
def test_i06_root_is_told_that_its_own_tree_cannot_be_written_by_an_agent_that_is_not_root():
    world = worlds.make_world("root")
    try:
        world.make_repo()
        words = ["--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--json", "--"]
        done = world.session("start", *words, "sh", "-c", "touch x; echo $?")
        assert done.exit_status == 0
        assert "cannot write it" in done.stderr
        assert any("cannot write it" in line for line in json.loads(done.stdout)["warnings"])
        session_id = json.loads(done.stdout)["session_id"]
        world.session("wait", "--id", session_id)
        assert not os.path.exists(os.path.join(world.repo, "x"))
        os.chmod(world.repo, 0o700)
        refused = world.session("start", *words, "true")
        assert refused.exit_status == 2 and "cannot read it" in refused.stderr
    finally:
        worlds.close_world(world)


def test_a_direct_workspace_without_git_is_only_taken_when_asked_for(direct):
    folder = os.path.join(direct.home, "plain")
    worlds.plant(direct, os.path.join(folder, "notes"))
    if direct.owner:
        os.chown(folder, *direct.owner)
    words = ["--agent", "command", "--target", "bubblewrap", "--workspace", folder]
    for options, why in (
        ([], "not a git work tree"),
        (["--session-workspace", "direct"], "not a git work tree"),
        (["--session-workspace", "direct", "--allow-nongit-workspace"], "AGENTS.md"),
    ):
        done = direct.session("start", *words, *options, "--", "true")
        assert done.exit_status == 2 and why in done.stderr
    worlds.plant(direct, os.path.join(folder, "AGENTS.md"))
    done = direct.session("start", *words, "--session-workspace", "direct", "--allow-nongit-workspace", "--", "touch", "made")
    assert done.exit_status == 0, done
    direct.session("wait", "--id", done.values["session_id"])
    wait_until(lambda: os.path.exists(os.path.join(folder, "made")))
    assert direct.show(done.values["session_id"]).get("git_branch", "") == ""
