"""Full-screen and line programs in sessions: keys from send and from a terminal, a window that changes, and the end."""

import os
import re

import pytest

from ending import ended, stop
from screen import Detached, replay
from support import wait_until

LINES = 500


@pytest.fixture
def start(world):
    """A function that starts a program at 24 rows and 80 columns and returns (session id, its screen)."""
    with open(os.path.join(world.repo, "numbers"), "w") as stream:
        stream.writelines(f"number {number}\n" for number in range(1, LINES + 1))
    world.git("-C", world.repo, "add", "-A")
    world.git("-C", world.repo, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-q", "-m", "numbers")

    def start(*words, agent="command"):
        session_id = world.start(*(("--", *words) if words else ()), agent=agent)
        return session_id, Detached(world, session_id)

    return start


def keys(world, session_id, text):
    """Press keys by send."""
    done = world.session("send", "--id", session_id, "--message", text, "--raw")
    assert done.exit_status == 0, done


def message(world, session_id, text):
    """Type a line by send."""
    done = world.session("send", "--id", session_id, "--message", text)
    assert done.exit_status == 0, done


def recorded(fields, pattern):
    """Say whether the recording shows something at any time."""
    return any(re.search(pattern, shown) for shown in replay(fields["transcript_log_path"]))


def test_vim_is_written_into_from_both_sides_and_saves(world, start, terminal):
    session_id, screen = start("vim", "-N", "-u", "NONE", "note")
    screen.wait_for(r'"note" \[New')
    keys(world, session_id, "ifrom send\x1b")
    screen.wait_for("^from send")
    screen.agrees_with_the_command()

    client = terminal(session_id, 30, 100)
    client.wait_for(r"^from send\n(~\n){28}")
    client.type("oby hand\x1b")
    client.wait_for("^from send\nby hand")
    client.resize(40, 120)
    client.wait_for(r"^from send\nby hand\n(~\n){37}")
    client.detach()

    keys(world, session_id, ":wq\r")
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 0
    fields = ended(world, session_id, 0)
    with open(os.path.join(fields["worktree_path"], "note")) as stream:
        assert stream.read() == "from send\nby hand\n"
    assert recorded(fields, "by hand")


def test_less_shows_as_many_lines_as_the_terminal_has(world, start, terminal):
    session_id, screen = start("less", "numbers")
    screen.wait_for(r"number 23\nnumbers")
    keys(world, session_id, "G")
    screen.wait_for(rf"number {LINES}\n\(END\)")
    screen.agrees_with_the_command()

    client = terminal(session_id, 30, 100)
    client.wait_for(r"\n(.*\n){28}\(END\)$")
    client.type("100g")
    client.wait_for(r"^number 100\n[\s\S]*number 128\n:")
    client.resize(40, 120)
    client.wait_for(r"^number 100\n[\s\S]*number 138\n:")
    client.detach()
    assert recorded(stop(world, session_id, 15), r"^number 100\n")


def test_htop_draws_the_sandbox_at_every_size(world, start, terminal):
    session_id, screen = start("htop")
    screen.wait_for(r"F1Help[\s\S]*F10Quit")
    screen.agrees_with_the_command()

    client = terminal(session_id, 30, 100)
    client.wait_for(r"(\n.*){29}F1Help")
    client.type("t")  # as a tree
    client.wait_for("F5List")
    client.resize(40, 120)
    client.wait_for(r"(\n.*){39}F1Help")
    wait_until(lambda: client.widest() > 100, what="a screen of the new width")
    client.detach()

    keys(world, session_id, "q")
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 0
    assert recorded(ended(world, session_id, 0), "F5List")


def test_the_python_prompt_takes_lines_blocks_and_an_interrupt(world, start, terminal):
    session_id, screen = start("/usr/bin/python3", "-q")
    screen.wait_for(r"(^|\n)>>>$")
    message(world, session_id, "for n in range(3):\n    print('squared', n * n)\n")
    screen.wait_for(r"squared 0\s+squared 1\s+squared 4\s+>>>$")

    client = terminal(session_id, 30, 100)
    client.type("import os; 6 * 7\r")
    client.wait_for(r"\n42\n>>>$")
    client.type("while True: pass\r\r")
    client.wait_for(r"\.\.\.$")
    client.type("\x03")
    client.wait_for("KeyboardInterrupt\n>>>$")
    client.resize(40, 120, repaints=False)
    client.type("tuple(os.get_terminal_size())\r")
    client.wait_for(r"\(120, 40\)\n>>>$")
    client.detach()

    message(world, session_id, "raise SystemExit(5)")
    assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 5
    assert recorded(ended(world, session_id, 5), r"squared 4")


def test_a_shell_has_job_control_from_both_sides(world, start, terminal):  # E05
    session_id, screen = start(agent="shell")
    screen.wait_for(r"\$$")
    message(world, session_id, "sleep 1000")
    screen.wait_for(r"sleep 1000$")
    keys(world, session_id, "\x1a")
    screen.wait_for(r"\[1\]\+\s+Stopped\s+sleep 1000")
    message(world, session_id, "fg")
    screen.wait_for(r"fg\nsleep 1000$")

    client = terminal(session_id, 30, 100)
    client.wait_for("sleep 1000")
    client.type("\x03")
    client.wait_for(r"\^C\n.*\$$")
    client.type("echo status $?\r")
    client.wait_for(r"\nstatus 130\n")
    client.resize(40, 120, repaints=False)
    client.type("stty size\r")
    client.wait_for(r"\n40 120\n")
    client.detach()
    assert recorded(stop(world, session_id, 129), "status 130")
