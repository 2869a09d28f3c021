"""start refuses what it cannot do before it changes anything: exit status 2, one line, not a byte anywhere."""

import os

import pytest

from life import tree

GOOD = ("--agent", "command")
RUN = ("--", "true")


@pytest.fixture
def refuse(world):
    """A function that runs a start which must be refused, and checks that nothing of it is left; returns its message."""
    world.make_repo()

    def refuse(*words, **more):
        before = tree(world.folder)
        done = world.session("start", *words, **more)
        assert done.exit_status == 2, done
        assert done.stdout == ""
        *warnings, line = done.stderr.splitlines()
        assert line.startswith("workcell-session-start: "), done
        assert "Traceback" not in done.stderr
        assert tree(world.folder) == before
        assert not os.path.exists(world.state)
        assert not os.path.exists(os.path.join(world.repo, ".git/workcell-sessions"))
        assert not world.left_over()
        return line

    return refuse


COMMAND_LINES = {
    "no agent": (RUN, "--agent: is required"),
    "no words at all": ((), "--agent: is required"),
    "unknown agent": (("--agent", "nobody", *RUN), "agent 'nobody': is not known; known are codex, claude"),
    "agent as a path": (("--agent", "../codex", *RUN), "is not known"),
    "agent with a newline": (("--agent", "codex\nx", *RUN), "is not known"),
    "command without a program": (GOOD, "no program was given"),
    "command with nothing after the dashes": ((*GOOD, "--"), "no program was given"),
    "unknown target": ((*GOOD, "--target", "moon", *RUN), "--target 'moon': is not known; known are auto, bubblewrap"),
    "target as a module path": ((*GOOD, "--target", "_local", *RUN), "is not known"),
    "empty profile": ((*GOOD, "--profile", "", *RUN), "--profile: needs a value"),
    "profile as a path": ((*GOOD, "--profile", "../x", *RUN), "is no profile name"),
    "profile with a leading dash": ((*GOOD, "--profile", "-x", *RUN), "is no profile name"),
    "long profile": ((*GOOD, "--profile", "x" * 65, *RUN), "is no profile name"),
    "profile with a newline": ((*GOOD, "--profile", "a\nb", *RUN), "must not contain a newline"),
    "unknown mode": ((*GOOD, "--mode", "lax", *RUN), "--mode 'lax': must be one of strict"),
    "unknown workspace mode": ((*GOOD, "--session-workspace", "shared", *RUN), "must be one of isolated, direct"),
    "unknown network": ((*GOOD, "--network", "some", *RUN), "must be one of host, none"),
    "unknown option": ((*GOOD, "--fast", *RUN), "unsupported option '--fast'"),
    "abbreviated option": ((*GOOD, "--work", ".", *RUN), "unsupported option '--work'"),
    "flag with a value": ((*GOOD, "--json=1", *RUN), "unsupported option '--json=1'"),
    "free word": ((*GOOD, "true"), "unsupported option 'true'"),
    "value missing at the end": ((*GOOD, "--workspace"), "--workspace: needs a value"),
    "option as the value": ((*GOOD, "--workspace", "--json", *RUN), "--workspace: needs a value"),
    "workspace that is not there": ((*GOOD, "--workspace", "nowhere", *RUN), "is not a folder"),
    "workspace that is a file": ((*GOOD, "--workspace", "README", *RUN), "is not a folder"),
    "the root": ((*GOOD, "--workspace", "/", *RUN), "too broad"),
    "the home": ((*GOOD, "--workspace", "~", *RUN), "too broad"),
    "above the home": ((*GOOD, "--workspace", "~/..", *RUN), "too broad"),
    "env without a value": ((*GOOD, "--env", "NOT_SET", *RUN), "--env NOT_SET: is not set in your environment"),
    "env of the toolkit": ((*GOOD, "--env", "WORKCELL_SESSION_ID=x", *RUN), "is set by the sandbox itself"),
    "env of the loader": ((*GOOD, "--env", "LD_PRELOAD=/x.so", *RUN), "is set by the sandbox itself"),
    "env of the home": ((*GOOD, "--env", "HOME", *RUN), "is set by the sandbox itself"),
    "env that is no name": ((*GOOD, "--env", "A-B=1", *RUN), "is no name of a variable"),
    "env without a name": ((*GOOD, "--env", "=1", *RUN), "is no name of a variable"),
    "env with a newline in its name": ((*GOOD, "--env", "A\nB=1", *RUN), "is no name of a variable"),
    "program that is not there": ((*GOOD, "--", "no-such-program-here"), "program 'no-such-program-here': not found in /"),
    "program by a path that is not there": ((*GOOD, "--", "/no/such/program"), "not found in /no/such/program"),
    "program without permission": ((*GOOD, "--", "/etc/passwd"), "not found in /etc/passwd"),
    "agent that is not installed": (("--agent", "gemini"), "program 'gemini': not found in /"),
    "debug log in a missing folder": ((*GOOD, "--debug-log", "no/debug.log", *RUN), "its folder does not exist"),
    "debug log that is a folder": ((*GOOD, "--debug-log", ".git", *RUN), "is there and is no regular file"),
    "debug log with a newline": ((*GOOD, "--debug-log", "a\nb", *RUN), "must not contain a newline"),
}


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_a_command_line_that_cannot_be_followed_is_refused_and_leaves_nothing(refuse, case):
    words, message = COMMAND_LINES[case]
    assert message in refuse(*words)


@pytest.mark.parametrize("name", [".ssh", ".config/tool", ".aws", ".claude"])
def test_a_folder_with_credentials_is_no_workspace(world, refuse, name):
    os.makedirs(os.path.join(world.home, name))
    assert "holds credentials or tools" in refuse(*GOOD, "--workspace", os.path.join(world.home, name), *RUN)


def test_a_link_to_a_folder_with_credentials_is_no_workspace_either(world, refuse):
    os.makedirs(os.path.join(world.home, ".ssh"))
    os.symlink(os.path.join(world.home, ".ssh"), os.path.join(world.home, "harmless"))
    assert "holds credentials or tools" in refuse(*GOOD, "--workspace", "~/harmless", *RUN)


def test_a_workspace_around_the_state_is_refused(world, refuse):
    world.env["WORKCELL_STATE_ROOT"] = world.state = os.path.join(world.repo, "state")
    assert "contains or lies in" in refuse(*GOOD, "--session-workspace", "direct", *RUN)


@pytest.mark.parametrize("dirt", ["changed", "staged", "untracked"])
def test_isolated_needs_a_clean_source_and_says_what_to_do(world, refuse, dirt):
    with open(os.path.join(world.repo, "new" if dirt == "untracked" else "README"), "a") as stream:
        stream.write("more\n")
    if dirt == "staged":
        world.git("-C", world.repo, "add", "-A")
    message = refuse(*GOOD, *RUN)
    assert "uncommitted or untracked changes" in message and "--session-workspace direct" in message


def test_isolated_needs_git_and_says_what_to_do(world, refuse):
    os.mkdir(os.path.join(world.home, "plain"))
    message = refuse(*GOOD, "--workspace", os.path.join(world.home, "plain"), *RUN)
    assert "is not a git work tree" in message and "--session-workspace direct" in message


def test_a_subdirectory_of_a_repository_is_no_workspace(world, refuse):
    # H02
    os.mkdir(os.path.join(world.repo, "below"))
    for mode in ("isolated", "direct"):
        assert world.repo in refuse(*GOOD, "--workspace", "below", "--session-workspace", mode, *RUN)


def test_a_linked_worktree_a_submodule_and_a_bare_repository_are_no_workspaces(world, refuse):
    # H02
    tree_path, bare = os.path.join(world.home, "tree"), os.path.join(world.home, "bare")
    world.git("-C", world.repo, "worktree", "add", "-q", "-b", "side", tree_path)
    world.git("clone", "-q", "--bare", world.repo, bare)
    for path in (tree_path, bare):
        assert path in refuse(*GOOD, "--workspace", path, *RUN)
    super_path = world.make_repo(os.path.join(world.home, "super"))
    world.git("-C", super_path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", bare, "part")
    assert "part" in refuse(*GOOD, "--workspace", os.path.join(super_path, "part"), *RUN)


def test_a_repository_without_a_commit_is_refused_in_one_line(world, refuse):
    # H12
    path = os.path.join(world.home, "fresh")
    world.git("init", "-q", "-b", "trunk", path)
    assert "has no commit yet" in refuse(*GOOD, "--workspace", path, *RUN)


def test_a_debug_log_through_a_link_is_refused(world, refuse):
    victim = os.path.join(world.home, "victim")
    os.mkdir(victim)
    os.symlink(victim, os.path.join(world.home, "logs"))
    os.symlink(os.path.join(victim, "file"), os.path.join(world.home, "debug.log"))
    for path in ("~/logs/debug.log", "~/debug.log"):
        assert "is a link" in refuse(*GOOD, "--debug-log", path, *RUN)


def test_a_debug_log_with_a_second_name_is_refused(world, refuse):
    first = os.path.join(world.home, "first")
    with open(first, "w") as stream:
        stream.write("mine\n")
    os.link(first, os.path.join(world.home, "second"))
    assert "is not a plain file of yours" in refuse(*GOOD, "--debug-log", "~/second", *RUN)


def test_a_path_that_is_no_utf8_is_refused_because_no_record_could_name_it(world, refuse):
    path = os.fsencode(world.home) + b"/r\xe4po"
    world.make_repo(os.fsdecode(path))
    assert "UTF-8" in refuse(*GOOD, "--workspace", os.fsdecode(path), *RUN)


def test_a_link_where_the_clones_go_is_refused(world, refuse):
    victim = os.path.join(world.home, "victim")
    os.mkdir(victim)
    place = os.path.join(world.repo, ".git/workcell-sessions")
    os.symlink(victim, place)
    before = tree(world.folder)
    done = world.session("start", *GOOD, *RUN)
    assert done.exit_status == 2 and "is a symbolic link" in done.stderr, done
    assert tree(world.folder) == before


def test_the_unconfined_target_does_not_sit_beside_evidence_of_confined_sessions(world):
    world.make_repo()
    first = world.start("--", "true")
    assert world.session("wait", "--id", first).exit_status == 0
    before = tree(world.folder)
    done = world.session("start", *GOOD, "--target", "process", *RUN)
    assert done.exit_status == 2 and "--share-state" in done.stderr, done
    assert tree(world.folder) == before
    done = world.session("start", *GOOD, "--target", "process", "--share-state", *RUN)
    assert done.exit_status == 0, done
    assert world.session("wait", "--id", done.values["session_id"]).exit_status == 0


def test_the_unconfined_target_is_never_chosen_by_itself(world, tmp_path):
    # without bwrap there is nothing that auto could fall back to
    world.make_repo()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no namespaces here' >&2; exit 1\n")
    (folder / "bwrap").chmod(0o755)
    env = {"PATH": f"{folder}:{world.env['PATH']}"}
    before = tree(world.folder)
    for words in ((), ("--target", "auto"), ("--target", "bubblewrap")):
        done = world.session("start", *GOOD, *words, "--", "/bin/true", env=env)
        assert done.exit_status == 2, done
        assert "bwrap: no namespaces here" in done.stderr and "--target process runs the agent without any" in done.stderr
    assert tree(world.folder) == before
