"""Input from keyboard and FIFO arrives whole, in order and key by key (C01, C02, C08, C11, D02)."""

import hashlib
import os
import random
import select
import signal

import pytest

import harness

MIB = 1024 * 1024

RAW = """
import hashlib, os, select, signal, sys, termios, time, tty
def raw(when=termios.TCSANOW): tty.setraw(0, when)
def say(text): os.write(1, text.encode() + b"\\r\\n")
def read_all(size):
    data = b""
    while len(data) < size: data += os.read(0, 65536)
    return data
def digest(data): say("digest " + hashlib.sha256(data).hexdigest())
go = lambda: signal.sigwait([signal.SIGUSR1])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
"""


def digest(data):
    return b"digest " + hashlib.sha256(data).hexdigest().encode()


def feed(session, way, data):
    (session.send if way == "fifo" else session.type)(data)


@pytest.mark.everywhere
@pytest.mark.parametrize("way", ["fifo", "keyboard"])
def test_each_key_arrives_by_itself_and_unchanged(run, way):
    with run(
        RAW
        + """
raw()
say("ready")
while True:
    key = os.read(0, 100)
    say("key %r" % key)
    if key == b"q": os._exit(0)
"""
    ) as session:
        session.wait_output(b"ready")
        for key in (b"a", b"\r", b"\n", b"\x03", b"\x04", b"\x1a", b"\x00", b"\xff", b"\x1b[A", "ü".encode(), b"\x11\x13"):
            feed(session, way, key)
            session.wait_output(b"key " + repr(key).encode() + b"\r\n")
        feed(session, way, b"q")
        assert session.wait() == 0


def test_keyboard_and_fifo_share_one_stream_in_order_of_arrival(run):
    with run(
        RAW
        + """
raw()
say("ready")
data = b""
while not data.endswith(b"!"):
    data += os.read(0, 100)
    say("have %d" % len(data))
say("all " + data.decode())
"""
    ) as session:
        session.wait_output(b"ready")
        for number in range(20):
            feed(session, "fifo" if number % 3 else "keyboard", bytes([ord("a") + number]))
            session.wait_output(b"have %d\r\n" % (number + 1))
        session.type(b"!")
        assert session.wait() == 0
        assert b"all abcdefghijklmnopqrst!" in session.output


@pytest.mark.everywhere
def test_writer_leaving_is_no_end_of_input(run):
    """C11."""
    with run(["cat"]) as session:
        for number in range(5):
            session.send(b"line %d\n" % number)
            session.wait_output(b"line %d\r\nline %d\r\n" % (number, number))  # echo, then cat
        session.wait_idle()
        assert session.process.poll() is None
        session.send(b"\x04")
        assert session.wait() == 0


@pytest.mark.everywhere
@pytest.mark.parametrize("way", ["fifo", "keyboard"])
def test_mebibyte_in_raw_mode_waits_for_a_program_that_reads_nothing_while_its_output_goes_on(run, way):
    """C02, C08: byte-identical; the program tells when it has written for a second without reading."""
    data = random.Random(1).randbytes(MIB) if hasattr(random.Random, "randbytes") else os.urandom(MIB)
    with run(
        RAW
        + """
raw()
say("ready")
until = time.monotonic() + 1
while time.monotonic() < until: os.write(1, b"x" * 1000)
say("reading")
digest(read_all(1024 * 1024))
"""
    ) as session:
        session.wait_output(b"ready")
        feed(session, way, data)
        assert session.wait() == 0
        assert session.output.rstrip().endswith(digest(data))
        assert session.output.count(b"x") >= 100000


def test_long_raw_run_without_any_end_of_line_arrives_whole(run):
    data = bytes(range(14, 250)) * 4000
    with run(RAW + "raw(); say('ready'); digest(read_all({}))".format(len(data))) as session:
        session.wait_output(b"ready")
        session.send(data)
        session.wait_output(digest(data))
        assert session.wait() == 0


def test_program_that_reads_only_full_blocks_gets_the_next_one(run):
    """A block (VMIN) that 4000 is no multiple of must not wait for ever for its rest (newer kernels: 64 at most)."""
    data = bytes(range(256)) * 60
    with run(
        RAW
        + """
raw()
attributes = termios.tcgetattr(0)
attributes[6][termios.VMIN] = 60
termios.tcsetattr(0, termios.TCSANOW, attributes)
say("ready")
data = b""
while len(data) < 256 * 60:
    select.select([0], [], [])
    data += os.read(0, 60)
    assert len(data) % 60 == 0
digest(data)
"""
    ) as session:
        session.wait_output(b"ready")
        session.send(data)
        session.wait_output(digest(data))
        assert session.wait() == 0


READERS = {
    "cat": ["sh", "-c", 'stty -echo; echo ready; cat > "$RESULT"'],
    "python": harness.python_program(
        """
import os, readline
print("ready", flush=True)
line = input()
open(os.environ["RESULT"], "w").write(line + "\\n")
""".replace("import os, readline", "import os")
    ),
    "readline": [
        harness.sys.executable,
        "-I",
        "-c",
        """
import os, readline
line = input("ready")
open(os.environ["RESULT"], "w").write(line + "\\n")
""",
    ],
    "bash": ["bash", "-c", 'stty -echo; echo ready; IFS= read -r line; printf \'%s\\n\' "$line" > "$RESULT"'],
}


@pytest.mark.everywhere
@pytest.mark.parametrize("reader", sorted(READERS))
def test_line_of_a_mebibyte_arrives_whole(run, reader, place):
    """C01: the kernel would keep 4095 bytes of it and drop the rest; readline's editing gets a shorter one: it is slow."""
    size = 100_000 if reader == "readline" else MIB if place[0] == "current" or reader == "cat" else MIB // 8
    line = (b"abcdefghijklmnopqrstuvwxyz 0123456789 " * (size // 38 + 1))[:size] + b"\n"
    result = run.tmp_path / "result"
    with run(READERS[reader], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        session.send(line, deadline_s=60)
        if reader == "cat":
            session.send(b"\x04")
        assert session.wait(60) == 0
        assert result.read_bytes() == line


@pytest.mark.parametrize("size", [3999, 4000, 4001, 4094, 4095, 4096, 8000, 8001, 10000])
@pytest.mark.parametrize("way", ["fifo", "keyboard"])
def test_line_around_the_limits_arrives_whole(run, size, way):
    """C01: without an end first, then with one."""
    result = run.tmp_path / "result"
    with run(READERS["cat"], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        feed(session, way, b"x" * size)
        feed(session, way, b"y" * size + b"\n")
        feed(session, way, b"\x04")
        assert session.wait() == 0
        assert result.read_bytes() == b"x" * size + b"y" * size + b"\n"


def test_key_by_key_typing_past_the_limit_arrives_whole(run):
    result = run.tmp_path / "result"
    with run(READERS["cat"], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        for _ in range(450):
            session.send(b"0123456789")
        session.send(b"\n\x04")
        assert session.wait() == 0
        assert result.read_bytes() == b"0123456789" * 450 + b"\n"


@pytest.mark.everywhere
def test_long_line_waits_for_a_program_that_reads_nothing(run):
    """C01 and C02 at once: canonical mode, nothing read for a second, output flowing all the time."""
    line = b"0123456789abcdef" * (MIB // 16) + b"\n"
    with run(
        RAW
        + """
attributes = termios.tcgetattr(0)
attributes[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, attributes)
say("ready")
until = time.monotonic() + 1
while time.monotonic() < until: os.write(1, b"x" * 1000)
digest(read_all(1024 * 1024 + 1))
"""
    ) as session:
        session.wait_output(b"ready")
        session.send(line)
        assert session.wait() == 0
        assert session.output.rstrip().endswith(digest(line))


def test_many_short_lines_wait_for_a_program_that_reads_nothing(run):
    lines = b"".join(b"line %d\n" % number for number in range(20000))
    result = run.tmp_path / "result"
    with run(
        ["sh", "-c", 'stty -echo; echo ready; sleep 0.5; cat > "$RESULT"'], environment={"RESULT": str(result)}
    ) as session:
        session.wait_output(b"ready")
        session.send(lines + b"\x04")
        assert session.wait() == 0
        assert result.read_bytes() == lines


@pytest.mark.parametrize("seed", range(6))
def test_random_text_in_canonical_mode_arrives_whole(run, seed):
    chance = random.Random(seed)
    text = "".join(chance.choice(["x", "ü€😀", "line\n", "\n", "y" * 1000, "z" * 5000, "日本" * 700]) for _ in range(150))
    result = run.tmp_path / "result"
    with run(READERS["cat"], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        data = text.encode()
        while data:
            size = chance.choice([1, 100, 4000, 4001, 30000])
            feed(session, chance.choice(["fifo", "fifo"]), data[:size])
            data = data[size:]
        session.send(b"\n\x04")
        assert session.wait() == 0
        assert result.read_bytes() == text.encode() + b"\n"


def test_switch_from_raw_to_lines_loses_nothing(run):
    """As when a shell's editor, raw, has taken a command and the command reads the rest of the paste as lines."""
    line = b"0123456789" * 3000 + b"\n"
    with run(
        RAW
        + """
attributes = termios.tcgetattr(0)
attributes[3] &= ~termios.ECHO
raw()
say("ready")
command = b""
while not command.endswith(b"\\n"): command += os.read(0, 1)
go()
termios.tcsetattr(0, termios.TCSANOW, attributes)
digest(read_all(30001))
"""
    ) as session:
        session.wait_output(b"ready")
        session.send(b"command\n" + line)
        harness.wait_until(lambda: pipe_is_empty(session), "all taken in")
        session.signal(signal.SIGUSR1)
        session.wait_output(digest(line))
        assert session.wait() == 0


def pipe_is_empty(session):
    """Tell whether the adapter has taken in all that was sent."""
    fd = os.open(session.fifo_path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return not select.select([fd], [], [], 0)[0]
    finally:
        os.close(fd)


def test_bash_hands_the_rest_of_a_paste_to_the_command_that_reads_it(run):
    line = b"0123456789" * 2000
    with run(["bash", "--norc", "--noprofile", "-i"], environment={"PS1": "ready> ", "HISTFILE": ""}) as session:
        session.wait_output(b"ready> ")
        session.send(b'stty -echo; read -r x; echo "size ${#x}"\r' + line + b"\rexit 5\r")
        session.wait_output(b"size 20000")
        assert session.wait() == 5


def test_program_that_turns_raw_soon_finds_no_trace_of_a_cut(run):
    """A long prompt sent before the program has set up its terminal: no NUL in it, nothing missing."""
    data = b"0123456789" * 1000
    with run(
        RAW
        + """
say("ready")
go()
raw()
digest(read_all(10000))
"""
    ) as session:
        session.wait_output(b"ready")
        session.send(data)
        session.signal(signal.SIGUSR1)
        session.wait_output(digest(data))
        assert session.wait() == 0


def test_cut_is_never_an_end_of_input(run):
    """What the program flushes (a password prompt does) empties the line; the cut must not turn that into its end."""
    with run(
        RAW
        + """
attributes = termios.tcgetattr(0)
attributes[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, attributes)
say("ready")
for _ in range(200):
    time.sleep(0.005)
    termios.tcflush(0, termios.TCIFLUSH)
say("flushed")
data = b""
while not data.endswith(b"end\\n"):
    part = os.read(0, 65536)
    if not part: os._exit(3)
    data += part
"""
    ) as session:
        session.wait_output(b"ready")
        session.send(b"x" * 300000)
        session.wait_output(b"flushed")
        session.send(b"\nend\n")
        assert session.wait() == 0


def test_erased_line_and_erase_key_at_the_limit_are_no_end_of_input(run):
    with run(["sh", "-c", "stty -echo; echo ready; cat; exit 4"]) as session:
        session.wait_output(b"ready")
        session.send(b"x" * 2000 + b"\x7f" * 2000)
        session.send(b"\x7f")
        session.send(b"\x15\x17")
        harness.wait_until(lambda: pipe_is_empty(session))
        session.send(b"still here\n")
        session.wait_output(b"still here\r\n")
        session.send(b"\x04")
        assert session.wait() == 4


def test_end_of_input_key_stays_the_senders_business(run):
    result = run.tmp_path / "result"
    with run(
        ["sh", "-c", 'stty -echo; echo ready; cat > "$RESULT"; read rest; echo "rest $rest"'],
        environment={"RESULT": str(result)},
    ) as session:
        session.wait_output(b"ready")
        session.send(b"a" * 5000 + b"\x04\x04after\n")
        session.wait_output(b"rest after")
        assert session.wait() == 0
        assert result.read_bytes() == b"a" * 5000


def test_quoted_control_characters_in_a_long_line_stay_data(run):
    """VLNEXT makes the next byte data: no end of line, and no place for a cut in between."""
    result = run.tmp_path / "result"
    with run(READERS["cat"], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        session.send(b"\x16\x04" * 6000 + b"\x16\x16" * 3000 + b"\n\x04")
        assert session.wait() == 0
        assert result.read_bytes() == b"\x04" * 6000 + b"\x16" * 3000 + b"\n"


def test_other_end_of_input_character_is_used_for_the_cut(run):
    result = run.tmp_path / "result"
    with run(["sh", "-c", 'stty -echo eof ^B; echo ready; cat > "$RESULT"'], environment={"RESULT": str(result)}) as session:
        session.wait_output(b"ready")
        session.send(b"a\x04" * 5000 + b"\n\x02")
        assert session.wait() == 0
        assert result.read_bytes() == b"a\x04" * 5000 + b"\n"


def test_without_an_end_of_input_character_a_long_line_is_cut_as_on_any_terminal(run):
    with run(
        ["bash", "-c", 'stty -echo eof undef; echo ready; read -r x; echo "size ${#x}"; read -r x; echo "$x"'],
    ) as session:
        session.wait_output(b"ready")
        session.send(b"a" * 10000 + b"\nnext\n")
        session.wait_output(b"size 409")
        session.wait_output(b"next")
        assert session.wait() == 0


def test_sender_is_held_up_and_memory_bounded_while_nothing_is_read(run):
    """C08: 256 KiB, the kernel's pipe, and what the terminal holds; then the sender waits. Nothing is lost."""
    with run(RAW + "raw(); say('ready'); go(); digest(read_all(2000000))") as session:
        session.wait_output(b"ready")
        fd = os.open(session.fifo_path, os.O_WRONLY | os.O_NONBLOCK)
        data = os.urandom(2000000)
        taken = 0
        while taken < len(data) and select.select([], [fd], [], 0.5)[1]:
            taken += os.write(fd, data[taken : taken + 4096])
        assert 256 * 1024 <= taken <= 256 * 1024 + 65536 + 65536 + 8192
        session.signal(signal.SIGUSR1)
        harness.write_all(fd, data[taken:])
        os.close(fd)
        session.wait_output(digest(data))
        assert session.wait() == 0


def test_interrupt_key_works_and_what_was_typed_before_it_is_flushed_as_on_any_terminal(run):
    with run(["bash", "-c", "trap 'echo caught' INT; stty -echo; echo ready; read line; echo \"line $line\""]) as session:
        session.wait_output(b"ready")
        session.send(b"abc\x03")
        session.wait_output(b"caught")
        session.send(b"def\n")
        session.wait_output(b"line def")
        assert session.wait() == 0


def test_input_before_the_program_reads_is_kept(run):
    with run(["sh", "-c", 'read line; echo "got $line"']) as session:
        session.send(b"early\n")
        session.wait_output(b"got early")
        assert session.wait() == 0


def test_typed_before_the_adapter_took_the_terminal_is_kept(run):
    with run(["sh", "-c", 'read line; echo "got $line"']) as session:
        session.type(b"early\n")
        session.wait_output(b"got early")
        assert session.wait() == 0


def test_end_of_standard_input_is_no_end_of_input(run, tmp_path):
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"piped\n")
    with open(str(tmp_path / "out"), "wb") as stdout, run(["cat"], terminal=False, stdin=read_fd, stdout=stdout) as session:
        os.close(read_fd)
        os.close(write_fd)
        harness.wait_until(lambda: (tmp_path / "out").read_bytes().count(b"piped\r\n") == 2, "echo and cat")
        session.wait_idle()
        assert session.process.poll() is None
        session.send(b"sent\n\x04")
        assert session.wait() == 0
    assert (tmp_path / "out").read_bytes().count(b"sent\r\n") == 2
