"""The program's terminal has the size of the container's, from its first byte on (B01, A13)."""

import select
import time

import pytest

import harness

TELL_SIZE = """
import fcntl, os, signal, struct, termios
def tell(*_):
    rows, columns = struct.unpack("HHHH", fcntl.ioctl(1, termios.TIOCGWINSZ, b"0" * 8))[:2]
    os.write(1, b"%d by %d;" % (rows, columns))
    if rows == 9: os._exit(0)
signal.signal(signal.SIGWINCH, tell)
tell()
while True: signal.pause()
"""


@pytest.mark.everywhere
def test_first_output_already_has_the_size(run, place):
    for columns in range(100, 120 if place[0] == "current" else 103):
        with run(["stty", "size"], size=(33, columns)) as session:
            assert session.wait() == 0
            assert session.output == b"33 %d\r\n" % columns


@pytest.mark.everywhere
def test_changed_size_is_passed_on(run):
    with run(TELL_SIZE) as session:
        session.wait_output(b"24 by 80;")
        session.resize(40, 100)
        session.wait_output(b"40 by 100;")
        session.resize(9, 9)
        assert session.wait() == 0
        assert session.output == b"24 by 80;40 by 100;9 by 9;"


@pytest.mark.parametrize("size", [None, (0, 80), (50, 0)])
def test_terminal_without_a_size_counts_as_24_by_80(run, size):
    with run(["stty", "size"], size=size) as session:
        assert session.wait() == 0
        assert session.output == b"24 80\r\n"


def test_no_terminal_at_all_counts_as_24_by_80(run, tmp_path):
    with open(str(tmp_path / "out"), "wb") as stdout, run(["stty", "size"], terminal=False, stdout=stdout) as session:
        assert session.wait() == 0
    assert (tmp_path / "out").read_bytes() == b"24 80\r\n"


def test_size_that_becomes_known_later_is_applied_and_zero_never(run):
    """A13, B04: zero and half-zero sizes are passed over."""
    with run(TELL_SIZE, size=None) as session:
        session.wait_output(b"24 by 80;")
        for rows, columns in ((50, 0), (0, 0), (0, 50)):
            session.resize(rows, columns)
        session.resize(31, 91)
        session.wait_output(b"31 by 91;")
        session.resize(0, 0)
        session.resize(9, 9)
        assert session.wait() == 0
        assert session.output == b"24 by 80;31 by 91;9 by 9;"


def test_unchanged_size_is_not_told_again(run):
    with run(TELL_SIZE) as session:
        session.wait_output(b"24 by 80;")
        for _ in range(5):
            session.resize(30, 80)
            session.resize(24, 80)
        session.resize(9, 9)
        assert session.wait() == 0
        assert session.output.count(b"24 by 80;") <= 2 and session.output.endswith(b";9 by 9;")


def test_200_resizes_in_a_row_are_coalesced_and_the_last_one_stays(run):
    with run(TELL_SIZE) as session:
        session.wait_output(b"24 by 80;")
        begun = time.monotonic()
        for columns in range(200):
            session.resize(40, 100 + columns)
            select.select([], [], [], 0.001)  # the pace at which a window is dragged
        session.wait_output(b"40 by 299;")
        assert session.output.count(b";") <= 2 + (time.monotonic() - begun) / 0.02
        session.resize(9, 9)
        assert session.wait() == 0
        assert session.output.endswith(b"40 by 299;9 by 9;")


def test_size_set_while_the_adapter_starts_is_not_lost(run):
    """B01: whichever comes first, the claim of the terminal or the new size, the program ends up with the new one."""
    for columns in range(100, 110):
        with run(TELL_SIZE, size=None) as session:
            session.resize(35, columns)
            session.wait_output(b"35 by %d;" % columns)
            session.resize(9, 9)
            assert session.wait() == 0


def test_size_reaches_a_program_that_was_started_by_another_one(run):
    with run(["bash", "-c", "trap 'stty size; exit 3' WINCH; echo here; while :; do read -t 0.05; done"]) as session:
        session.wait_output(b"here")
        session.resize(44, 77)
        assert session.wait() == 3
        assert b"44 77" in session.output
        assert harness.wait_until(lambda: session.process.poll() == 3)
