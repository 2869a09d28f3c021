"""A home that outlives its session: whose it is, what stays in it, and what it may hold."""

import os

import pytest

from life import assert_nothing_left, kill_monitor, transcript, wait_for_output

AGENT = '[mine]\ncommand = ["sh", "-c"]\nhome = [".mine.json", ".mine"]\n'


@pytest.fixture
def mine(world):
    """A function that starts an agent of the operator's own, whose settings are copied into its persistent home."""
    world.make_repo()
    folder = os.path.join(world.home, ".config/workcell")
    os.makedirs(folder, mode=0o700)
    with open(os.path.join(folder, "agents.toml"), "w") as stream:
        stream.write(AGENT)
    os.chmod(stream.name, 0o600)
    os.makedirs(os.path.join(world.home, ".mine"))
    for name in (".mine.json", ".mine/settings"):
        with open(os.path.join(world.home, name), "w") as stream:
            stream.write("the operator's\n")

    def start(script, **more):
        return world.start("--home", "persistent", "--", f"{script}; echo is up; exec sleep 1000", agent="mine", **more)

    return start


def ended(world, session_id):
    wait_for_output(world, session_id)
    assert world.session("stop", "--id", session_id, "--force").exit_status == 0
    return transcript(world, session_id)


def test_settings_are_copied_in_once_and_what_the_agent_made_of_them_stays(world, mine):
    assert ended(world, mine('cat ~/.mine.json ~/.mine/settings; echo "the agent\'s" > ~/.mine.json')).count("operator's") == 2
    found = ended(world, mine("cat ~/.mine.json ~/.mine/settings"))
    assert "the agent's" in found and found.count("operator's") == 1
    with open(os.path.join(world.home, ".mine.json")) as stream:
        assert stream.read() == "the operator's\n"


@pytest.mark.parametrize(
    "plant", ["rm -r ~/.mine; ln -s /workspace ~/.mine", "rm -r ~/.mine; echo > ~/.mine", "chmod 0 ~/.mine"]
)
def test_whatever_an_agent_left_in_its_home_the_next_session_starts_and_nothing_leaves_it(world, mine, plant):
    ended(world, mine(f"{plant}; ln -s {world.home} ~/out; ln ~/.mine.json ~/twice"))
    before = os.lstat(world.home)
    session_id = mine("ls -la ~")
    assert "twice" in ended(world, session_id)
    after = os.lstat(world.home)
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert_nothing_left(world)


def test_an_agent_without_its_monitor_still_has_its_home(world, mine):
    session_id = mine("trap '' HUP")
    wait_for_output(world, session_id)
    kill_monitor(world, session_id)
    done = world.session("start", "--agent", "mine", "--home", "persistent", "--", "true")
    assert done.exit_status == 2 and f"is used by session {session_id}" in done.stderr, done
    assert world.session("stop", "--id", session_id, "--force").exit_status == 0
    ended(world, mine("true"))


def test_of_two_starts_at_once_one_gets_the_home_and_the_other_says_who_has_it(world, mine):
    words = ("workcell-session-start", "--agent", "mine", "--home", "persistent", "--", "echo is up; exec sleep 1000")
    children = [world.popen(*words, stdout=-1, stderr=-1) for _ in range(4)]
    ends = [(child.communicate(timeout=60), child.returncode) for child in children]
    assert sorted(code for _, code in ends).count(0) == 1, ends
    assert all(b"is used by session" in said[1] for said, code in ends if code), ends
    [session_id] = world.session("list", "--ids").stdout.split()
    ended(world, session_id)
    assert_nothing_left(world)
