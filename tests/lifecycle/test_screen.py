"""screen: what an agent's terminal shows, as text, without attaching."""

import pytest

from life import assert_nothing_left, fits, wait_for_output
from workcell import screen


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


def lines_of(world, session_id):
    done = world.session("screen", "--id", session_id)
    assert done.exit_status == 0, done
    return done.stdout.splitlines()


PAINTER = r"""
printf '\033[?1049h\033[2J\033[3;5H\033[1;31mred\033[0m and \033[38:2:1:2:3mdeep\033[m\033[5;1Hlast\033[?25l'
printf '\033P+q544e\033\\\033]0;a title\007\033[c\033[>c\033[?u\033[6n'; echo ' is up'; read line
printf '\033[?25h\033[?1049l'; echo over; exit 4
"""


def test_screen_shows_what_a_program_has_drawn_and_after_it_what_was_there_before(world, target):
    session_id = world.start("--", "sh", "-c", "echo before;" + PAINTER, target=target)
    wait_for_output(world, session_id)
    assert lines_of(world, session_id) == ["", "", "    red and deep", "", "last is up"]
    done = world.session("screen", "--id", session_id, "--json")
    shown = fits("session-screen", done.stdout)
    assert (shown["rows"], shown["columns"], len(shown["lines"])) == (24, 80, 24)
    assert shown["cursor"] == {"row": 5, "column": 0, "hidden": True} and shown["alternate"] is True
    world.session("send", "--id", session_id, "--message", "x")
    assert world.session("wait", "--id", session_id).exit_status == 4
    # Of a session that is over the recording has it.
    assert lines_of(world, session_id)[0] == "before" and lines_of(world, session_id)[-1] == "over"
    assert_nothing_left(world)


def test_screen_prints_nothing_that_could_drive_a_terminal_and_survives_whatever_was_printed(world):
    junk = "import os\nos.write(1, bytes(range(256)) * 40 + b'\\x1b[99999999999999b\\x1b[9999;9999H')\n"
    junk += "os.write(1, b'\\x1b[999999999@\\x1b[?1049' + b'h\\x1b[;;;;;;r\\x1b[5;2r\\xc2\\x9b31mhello\\x1b]52;c;AAAA')\n"
    junk += "print('is up')\ninput()"
    session_id = world.start("--", "python3", "-c", junk)
    wait_for_output(world, session_id)
    done = world.session("screen", "--id", session_id)
    assert done.exit_status == 0 and not done.stderr, done
    assert all(character == "\n" or character.isprintable() for character in done.stdout)
    world.session("stop", "--id", session_id, "--force")


def test_screen_says_what_it_needs_and_what_is_not_kept(world, tmp_path):
    session_id = world.start("--no-transcript", "--", "true")
    world.session("wait", "--id", session_id)
    done = world.session("screen", "--id", session_id)
    assert done.exit_status == 1 and "no recording of it was kept" in done.stderr
    (tmp_path / "pyte.py").write_text("raise ImportError")
    session_id = world.start("--", "true")
    world.session("wait", "--id", session_id)
    done = world.session("screen", "--id", session_id, env={"PYTHONPATH": str(tmp_path)})
    assert done.exit_status == 2 and "install the Python package pyte" in done.stderr, done
    assert world.session("screen", "--id", "nobody").exit_status == 1
    assert world.session("screen").exit_status == 2


@pytest.mark.parametrize(
    "data, wanted",
    [
        (b"a\x1b[3bz", ["aaaaz"]),
        (b"1\r\n2\r\n3\x1b[2S", ["3"]),
        (b"1\r\n2\x1b[T", ["", "1", "2"]),
        (b"\x1b[2;3r\x1b[2;1Hx\r\ny\r\nz\x1b[r\x1b[1;1Htop", ["top", "y", "z"]),
        (b"main\x1b[?1049halt\x1b[?1049l!", ["main!"]),
        (b"\x1b[?47hone\x1b[?47l\x1b[?47h\x1b[Htwo", ["two"]),
        (b"lost\x1b[?1049l kept", [" kept"]),  # the beginning is of the alternate screen
        ("é漢x".encode(), ["é漢x"]),
        (b"keep\x1b[3J", ["keep"]),
        (b"\xff\xfeok", ["\ufffd\ufffdok"]),
    ],
)
def test_the_sequences_of_real_programs_are_drawn_as_terminals_draw_them(data, wanted):
    assert screen.draw(data, (4, 20), False).text().splitlines() == wanted
