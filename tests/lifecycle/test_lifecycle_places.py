"""Odd places: long paths, blanks, letters of all the world, a read-only and a full disk."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from life import (
    HEX_READER,
    assert_nothing_left,
    event_names,
    found_status,
    kill_monitor,
    received,
    record_of,
    verdict,
    wait_for_output,
)
from support import World, unused_user


def life_of(world, target):
    """Lead one session from start to seal, with everything that an operator does in between."""
    session_id = world.start("--", *HEX_READER, "plain", target=target)
    wait_for_output(world, session_id)
    assert found_status(world, session_id) == "running"
    assert world.session("send", "--id", session_id, "--message", "hi").exit_status == 0
    assert received(world, session_id, 3) == b"hi\r"
    rows = world.session("list", "--workspace", world.repo).stdout.splitlines()
    assert [row.split("\t")[0] for row in rows[1:]] == [session_id] and rows[1].endswith("\t" + world.repo)
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert world.session("wait", "--id", session_id).exit_status == 143
    assert verdict(world, session_id) == "verified"
    assert event_names(world, session_id) == ["launch", "command", "stop-request", "exit"]
    record = record_of(world, session_id)
    assert record["workspace_origin"] == world.repo
    assert os.path.exists(os.path.join(record["workspace"], "README"))
    assert_nothing_left(world)
    return session_id


NAMES = (
    "-rf",
    'it\'s "a" $(touch x) `y` ; & | < > * ? [z] \\ ~ # !',
    "проект 日本語 עברית \U0001f600",
    "a=b,c:d%20",
    "Ordner für Sitzungen, " + "ein sehr langer Name mit Leerzeichen und Ümläuten, " * 3 + "Ende",
)


def test_a_session_lives_in_any_place_that_a_path_can_name(world, target):
    # F16
    place = os.path.join(*NAMES)
    world.state = world.env["WORKCELL_STATE_ROOT"] = os.path.join(world.folder, "state", place)
    world.repo = os.path.join(world.home, place)
    world.make_repo()
    life_of(world, target)
    assert not any("x" in names for _, _, names in os.walk(world.home))


def test_a_long_path_of_many_folders_works_or_is_refused_at_start(world, target):
    # F16: deeper than the 108 bytes that the name of a socket may have, and far below the 4096 of a path
    deep = os.path.join(*["dreißig Zeichen lang ist das"] * 20)
    world.state = world.env["WORKCELL_STATE_ROOT"] = os.path.join(world.folder, "s", deep)
    world.repo = os.path.join(world.home, deep)
    world.make_repo()
    life_of(world, target)


def test_the_state_root_may_be_reached_through_a_link_of_ones_own(world):
    world.make_repo()
    real = os.path.join(world.folder, "real state")
    os.mkdir(real, 0o700)
    os.symlink(real, world.state)
    session_id = world.start("--", "true")
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert world.session("verify", "--id", session_id).values["session_verify"] == "verified"


def test_the_state_root_is_found_as_any_program_would(world):
    world.make_repo()
    del world.env["WORKCELL_STATE_ROOT"]
    for env, place in (
        ({}, os.path.join(world.home, ".local/state/workcell")),
        ({"XDG_STATE_HOME": os.path.join(world.folder, "xdg")}, os.path.join(world.folder, "xdg/workcell")),
    ):
        world.env.update(env)
        world.state = place
        session_id = world.start("--", "true")
        assert world.session("wait", "--id", session_id).exit_status == 0
        assert record_of(world, session_id)["audit_log_path"].startswith(place)


def test_a_state_root_that_cannot_be_written_is_one_clear_line(world):
    world.make_repo()
    with open(world.state, "w"):
        pass
    done = world.session("start", "--agent", "command", "--target", "bubblewrap", "--", "true")
    assert done.exit_status == 1 and world.state in done.stderr, done
    assert not os.path.exists(os.path.join(world.repo, ".git/workcell-sessions"))
    assert not world.left_over()


if os.geteuid() == 0:  # who else could become another user, or have a file system of one's own

    @pytest.fixture
    def ordinary():
        """A world of a user without privileges and without an account, in a folder that it can pass through."""
        folder = tempfile.mkdtemp(prefix="workcell-life-")
        os.chmod(folder, 0o755)
        made = World(folder, user=unused_user())
        made.make_repo()
        yield made
        try:
            made.close()
        finally:
            shutil.rmtree(folder)

    def test_an_ordinary_user_leads_the_same_life(ordinary, target):
        life_of(ordinary, target)

    def test_a_log_that_cannot_be_written_for_a_while_fails_an_attachment_cleanly_and_not_the_next(ordinary):  # G14
        session_id = ordinary.start("--", "sh", "-c", "echo is up; read line; exit 3")
        wait_for_output(ordinary, session_id)
        log = record_of(ordinary, session_id)["audit_log_path"]
        os.chmod(log, 0o400)
        done = ordinary.session("attach", "--id", session_id)
        assert done.exit_status == 1 and len(done.stderr.splitlines()) == 1, done
        assert found_status(ordinary, session_id) == "running"
        os.chmod(log, 0o600)
        child = ordinary.popen("workcell-session-attach", "--id", session_id, stdin=-3, stdout=subprocess.PIPE)
        assert ordinary.session("send", "--id", session_id, "--message", "x").exit_status == 0
        assert b"is up" in child.communicate(timeout=30)[0] and child.returncode == 3
        assert_nothing_left(ordinary)

    def test_an_ordinary_user_finds_and_ends_what_lost_its_monitor(ordinary, target):
        session_id = ordinary.start("--", "sh", "-c", "trap '' HUP; echo is up; while :; do sleep 1000; done", target=target)
        wait_for_output(ordinary, session_id)
        kill_monitor(ordinary, session_id)
        assert found_status(ordinary, session_id) == "unmonitored"
        assert ordinary.session("stop", "--id", session_id).exit_status == 0
        assert_nothing_left(ordinary)
        code = "143" if target == "bubblewrap" else "1"
        assert record_of(ordinary, session_id)["exit_status"] == code
        assert verdict(ordinary, session_id) == "verified"

    def test_a_full_disk_costs_what_does_not_fit_and_nothing_else(world, target):
        # G05
        world.make_repo()
        os.mkdir(world.state, 0o700)
        script = os.path.join(os.path.dirname(os.path.realpath(__file__)), "full_disk.py")
        done = world.run("unshare", "-m", sys.executable, script, world.folder, target, timeout=120)
        assert (done.exit_status, done.stdout) == (0, "all of it\n"), done
