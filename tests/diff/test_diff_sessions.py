"""session diff on sessions that ran: each kind of caller, isolated and direct, while the agent lives and after it."""

import os

import diffs
import pytest
from diffs import Bundle, make_repository, write

import support

WORK = """echo more >> README; git add README; git commit -qm 'by the agent'; echo again >> keep; echo n > new; git add new
echo u > untracked; rm folder/a; chmod -x run; git checkout -q -b side; git commit -qm aside; git checkout -q -; echo working"""
CALLERS = ["root", "user"] if os.geteuid() == 0 else ["user"]


@pytest.fixture(params=CALLERS)
def caller(request):
    """A world whose commands are run by root, or by an ordinary user."""
    user = support.unused_user() if os.geteuid() == 0 and request.param == "user" else None
    world = diffs.make_world(user)
    make_repository(world)
    yield world
    diffs.close_world(world)


def bundle(world, session_id):
    done = world.session("diff", "--id", session_id)
    assert done.exit_status == 0, done
    return Bundle(done.stdout)


def give_to_agent(world):
    """Root's own tree cannot be written by the sandbox's user; somebody else's can."""
    for folder, _, names in os.walk(world.repo) if world.user is None and os.geteuid() == 0 else ():
        for name in (".", *names):
            os.chown(os.path.join(folder, name), *world.agent, follow_symlinks=False)


def copies(world):
    return [
        os.path.join(folder, "bases", name)
        for folder in world.profile_dirs()
        if os.path.isdir(os.path.join(folder, "bases"))
        for name in os.listdir(os.path.join(folder, "bases"))
    ]


def test_an_isolated_session_is_compared_before_while_and_after_its_agent_works(caller):
    # H15, H23
    idle = caller.start("--", "sh", "-c", "echo idle; exec sleep 60")
    caller.wait_for_output(idle, "idle")
    assert bundle(caller, idle).is_clean
    session_id = caller.start("--", "sh", "-c", WORK + "; exec sleep 60")
    caller.wait_for_output(session_id, "working")
    found = bundle(caller, session_id)
    assert found.status.split("\n") == [" D folder/a", " M keep", " M run", "?? untracked"]
    assert "+more" in found.diff and "+again" in found.diff and "deleted file" in found.diff and "old mode 100755" in found.diff
    assert "+n" in found.others["refs/heads/side"] and "+n" not in found.diff
    assert [line.partition(") ")[2] for line in found.commits] == ["aside", "by the agent"]
    for one in (idle, session_id):
        assert caller.session("stop", "--force", "--id", one).exit_status == 0
    assert bundle(caller, session_id).text == found.text
    assert copies(caller) == []


def test_a_direct_session_is_compared_with_the_copy_that_start_made(caller):
    give_to_agent(caller)
    session_id = caller.start(
        "--session-workspace", "direct", "--", "sh", "-c", WORK.replace("; git checkout -q -;", ";") + "; exec sleep 60"
    )
    caller.wait_for_output(session_id, "working")
    found = bundle(caller, session_id)
    assert "+more" in found.diff and "b/new" in found.diff and " D folder/a" in found.status
    assert [os.path.basename(path) for path in copies(caller)] == [f"{session_id}.git"]
    assert caller.session("stop", "--force", "--id", session_id).exit_status == 0
    assert bundle(caller, session_id).diff == found.diff


def test_a_session_without_a_sandbox_is_compared_all_the_same(caller):
    session_id = caller.start("--", "sh", "-c", WORK, target="process")
    assert caller.session("wait", "--id", session_id).exit_status == 0
    found = bundle(caller, session_id)
    assert "+more" in found.diff and "?? untracked" in found.status
    assert not any(note.startswith("cannot tell") for note in found.notes)


def test_a_dirty_start_has_no_base_and_no_copy(caller):
    give_to_agent(caller)
    write(os.path.join(caller.repo, "dirt"), "x")
    session_id = caller.start("--session-workspace", "direct", "--", "true")
    assert caller.session("wait", "--id", session_id).exit_status == 0
    done = caller.session("diff", "--id", session_id)
    assert done.exit_status == 1 and "had changes when it was started" in done.stderr
    assert copies(caller) == []


# A program that fails at one of the things it is called for.
FAKE = """#!/bin/sh
case " $* " in *' {word} '*) echo '{name}: out of luck' >&2; exit 1 ;; esac
exec /usr/bin/{name} "$@"
"""
FAKES = {"git": "pack-objects", "bwrap": "--json-status-fd"}


@pytest.mark.parametrize("what", FAKES)
def test_a_start_that_fails_leaves_no_copy(caller, what):
    if not os.path.exists(f"/usr/bin/{what}"):
        pytest.skip(f"{what} is not in /usr/bin")
    tools = os.path.join(caller.folder, "tools")
    write(os.path.join(tools, what), FAKE.format(name=what, word=FAKES[what]), 0o755)
    env = {"PATH": tools + os.pathsep + caller.env["PATH"]}
    words = ("--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct", "--", "true")
    done = caller.session("start", *words, env=env)
    assert done.exit_status == 1, done
    assert "out of luck" in done.stderr
    assert copies(caller) == [] and caller.scratch_folders() == []
