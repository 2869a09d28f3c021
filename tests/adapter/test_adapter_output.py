"""Output reaches the container's terminal whole, to the last byte (D01, D02, D05, D11)."""

import os
import signal
import subprocess

import pytest

import harness


@pytest.mark.everywhere
def test_last_bytes_before_the_end_are_never_lost(run, place):
    """64 KiB and exit at once, 20 times."""
    for round_number in range(20 if place[0] == "current" else 3):
        with run(
            "import os\nleft = b'0123456789abcdef' * 4096\nwhile left: left = left[os.write(1, left):]\nos._exit({})".format(
                round_number
            )
        ) as session:
            assert session.wait() == round_number
            assert session.output == b"0123456789abcdef" * 4096


@pytest.mark.everywhere
def test_bytes_are_passed_on_unchanged(run):
    """D01: every byte value, and a character written one byte at a time."""
    with run("""
import os, tty
tty.setraw(1)
os.write(1, bytes(range(256)))
for byte in "\\U0001f600\\u2588".encode(): os.write(1, bytes([byte]))
""") as session:
        assert session.wait() == 0
        assert session.output == bytes(range(256)) + "\U0001f600\u2588".encode()


def test_line_end_is_translated_once(run):
    """The outer terminal is raw: it must not add a second carriage return."""
    with run(["printf", "a\\nb\\n"]) as session:
        assert session.wait() == 0
        assert session.output == b"a\r\nb\r\n"


def test_nothing_is_added_to_the_output(run):
    """D11: a program that echoes everything from its first byte on shows no byte of ours."""
    with run("""
import os, signal, tty
tty.setraw(0)
signal.signal(10, lambda *_: os._exit(0))
os.write(1, b"<")
while True: os.write(1, os.read(0, 100))
""") as session:
        session.wait_output(b"<")
        session.resize(50, 50)
        session.send(b">")
        session.wait_output(b"<>")
        session.signal(signal.SIGUSR1)
        assert session.wait() == 0
        assert session.output == b"<>"


@pytest.mark.everywhere
def test_large_output_is_whole(run):
    with run(["seq", "1", "300000"]) as session:
        assert session.wait() == 0
        assert session.output == b"".join(b"%d\r\n" % number for number in range(1, 300001))


def test_slow_terminal_holds_the_program_up_in_bounded_memory_and_loses_nothing(run):
    """Nobody reads: 8 MiB are taken, then the program waits; a later reader gets every byte of 12 MiB."""
    with run(
        """
import os
block = bytes(range(32, 127)) * 690
for number in range(192): os.write(1, block)
os._exit(7)
""",
        reading=False,
    ) as session:

        def memory():
            with open("/proc/{}/status".format(session.adapter_pid)) as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

        harness.wait_until(lambda: memory() > 8 * 1024 and session.is_idle(), "memory in use and all at rest")
        assert memory() < 40 * 1024
        assert session.process.poll() is None
        session.start_reading()
        assert session.wait() == 7
        assert session.output == bytes(range(32, 127)) * 690 * 192


def test_input_still_flows_while_output_is_held_up(run):
    with run(
        """
import os, signal, tty
tty.setraw(0)
os.write(1, b"x" * 100)
if os.fork() == 0:
    while True: os.write(1, b"x" * 65536)
while True:
    if os.read(0, 100) == b"q": os._exit(3)
""",
        reading=False,
        environment={"WORKCELL_ADAPTER_GRACE_S": "0.2"},
    ) as session:
        session.wait_idle()
        session.send(b"q")
        session.start_reading()
        assert session.wait() == 3


def test_output_of_what_is_left_behind_is_shown_until_it_is_gone(run):
    with run(
        [
            "sh",
            "-c",
            "(trap 'echo leaving; exit' TERM; trap '' HUP; echo ready; while :; do sleep 0.02; done) &read line; exit 2",
        ]
    ) as session:
        session.wait_output(b"ready")
        session.send(b"\n")
        assert session.wait() == 2
        assert b"leaving" in session.output


def test_standard_output_that_is_a_pipe_gets_the_output_and_its_end_is_survived(run):
    read_fd, write_fd = os.pipe()
    with run(["sh", "-c", "echo first; read x; echo second; echo third; exit 4"], stdout=write_fd) as session:
        os.close(write_fd)
        assert os.read(read_fd, 100) == b"first\r\n"
        os.close(read_fd)
        session.send(b"\n")
        assert session.wait() == 4


def test_terminal_that_someone_outside_keeps_writing_to_delays_the_end_by_half_a_second_at_most(run):
    """A stranger has it open through its path, and is not of our tree."""
    with run(["sh", "-c", "tty; read line; exit 6"]) as session:
        path = session.wait_output(b"\r\n").split(b"\r\n")[0].decode()
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        strangers = [subprocess.Popen(["yes"], stdout=fd, stderr=subprocess.DEVNULL) for _ in range(2)]
        os.close(fd)
        try:
            session.wait_output(b"y\r\n" * 1000)
            session.send(b"\n")
            assert session.wait_for_end(10)
        finally:
            for stranger in strangers:
                stranger.kill()
                stranger.wait()
        assert session.wait() == 6
