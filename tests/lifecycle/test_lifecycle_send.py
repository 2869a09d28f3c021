"""send: what is typed arrives byte for byte, submitted like a person would, or the command says how much of it did not."""

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import sys
import termios
import time

import pytest

from life import (
    HEX_READER,
    PYTHON,
    SEND_KEYS,
    SLEEPER,
    adapter_pid,
    assert_nothing_left,
    assert_one_chain,
    console,
    event_names,
    events,
    fits,
    found_status,
    holds_open,
    is_gone,
    keys,
    received,
    record_of,
    transcript,
    tree,
    wait_for_output,
)
from support import scaled, wait_until

PASTED = (b"\x1b[200~", b"\x1b[201~")


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


@pytest.fixture
def reader(world, target):
    """A function that starts an agent which shows as hex what it reads, `plain` or with bracketed paste on (`paste`)."""
    started = []

    def reader(kind, *options, **more):
        started.append(world.start(*options, "--", *HEX_READER, kind, target=target, **more))
        wait_for_output(world, started[-1])
        return started[-1]

    yield reader
    for session_id in started:
        assert world.session("stop", "--id", session_id, "--force").exit_status == 0
    assert_nothing_left(world)


def send(world, session_id, *words, **more):
    done = world.session("send", "--id", session_id, *words, **more)
    assert done.exit_status == 0, done
    return done


def test_a_message_is_typed_with_an_enter_and_said_to_be_taken(world, reader):
    session_id = reader("plain")
    done = send(world, session_id, "--message", "Grüße")
    assert keys(done.stdout) == SEND_KEYS
    assert (done.values["sent_bytes"], done.values["status"], done.values["live_status"]) == ("8", "running", "running")
    assert received(world, session_id, 8) == "Grüße\r".encode()
    [event] = events(world, session_id, "command")
    wanted = {"source": "host-cli", "command": "session-send", "argv": "Grüße"}
    assert {key: event[key] for key in wanted} == wanted
    record = record_of(world, session_id)
    assert record["observed_at"] >= record["started_at"]
    fits("session-send", world.session("send", "--id", session_id, "--message", "x", "--json").stdout)


# message, options, what the agent reads without and with bracketed paste, what is counted
MESSAGES = {
    "one line": (b"hello", (), b"hello\r", b"<hello>\r", 6),
    "three lines": (b"a\nb\nc", (), b"a\rb\rc\r", b"<a\nb\nc>\r", 6),
    "line ends of all kinds": (b"a\r\nb\rc\n", (), b"a\rb\rc\r\r", b"<a\nb\nc\n>\r", 8),
    "no enter": (b"a\nb", ("--no-newline",), b"a\rb", b"<a\nb>", 3),
    "raw": (b"\x00\x03a\r\n\x1b[A\xff\x7f", ("--raw",), b"\x00\x03a\r\n\x1b[A\xff\x7f", b"\x00\x03a\r\n\x1b[A\xff\x7f", 10),
    "paste end inside": (b"a\x1b[201~rm\n", (), b"a\x1b[201~rm\r\r", b"<arm\n>\r", 11),
    "paste end that appears": (b"a\x1b[20\x1b[201~1~b", (), b"a\x1b[20\x1b[201~1~b\r", b"<ab>\r", 15),
    "paste start inside": (b"\x1b[200~a", (), b"\x1b[200~a\r", b"<a>\r", 8),
}


@pytest.mark.parametrize("kind", ["plain", "paste"])
def test_each_message_arrives_as_documented(world, reader, kind):
    # C04, C07
    session_id = reader(kind)
    arrived = b""
    for name, (message, options, plain, pasted, counted) in MESSAGES.items():
        done = send(world, session_id, "--file", "-", *options, stdin=message)
        assert done.values["sent_bytes"] == str(counted), name
        arrived += plain
        if kind == "paste":
            arrived = arrived[: -len(plain)] + pasted.replace(b"<", PASTED[0]).replace(b">", PASTED[1])
        assert received(world, session_id, len(arrived)) == arrived, name
    taken = [event["argv"].encode("utf-8", "surrogateescape") for event in events(world, session_id, "command")]
    assert taken == [message.replace(b"\0", "\u2400".encode()) for message, *_ in MESSAGES.values()]
    assert_one_chain(record_of(world, session_id)["audit_log_path"])


def test_a_message_comes_from_a_file_as_well_and_may_look_like_an_option(world, reader):
    session_id = reader("plain")
    with open(os.path.join(world.home, "message"), "wb") as stream:
        stream.write(b"from a file")
    send(world, session_id, "--file", os.path.join(world.home, "message"))
    send(world, session_id, "--message", "--force")
    send(world, session_id, "--message=--id")
    assert received(world, session_id, 25) == b"from a file\r--force\r--id\r"


def test_a_secret_is_in_no_file_of_ours(world, reader):
    canary = "canary-8c1f"
    session_id = reader("plain")
    send(world, session_id, "--file", "-", "--secret", stdin=canary)
    assert received(world, session_id, 12) == canary.encode() + b"\r"
    [event] = events(world, session_id, "command")
    assert (event["argv"], event["status"]) == ("[secret]", "11 bytes")
    for path, (_, content) in tree(world.state).items():
        assert canary.encode() not in content, path


def test_enter_comes_after_a_pause_where_the_agent_needs_one(world, target):
    # C05; the entry of agents.toml sets the pause
    config = os.path.join(world.home, ".config/workcell")
    os.makedirs(config)
    code = (
        "import os, time, tty\\n"
        "tty.setraw(0); os.write(1, b'\\\\x1b[?2004his up\\\\r\\\\n'); last = 0\\n"
        "while True:\\n"
        "    data = os.read(0, 999); now = time.monotonic()\\n"
        "    os.write(1, data + b'%s after %d.' % (data.hex().encode(), (now - last) * 1000)); last = now\\n"
    )
    with open(os.path.join(config, "agents.toml"), "w") as stream:
        stream.write(f'[slow]\ncommand = ["{PYTHON}", "-c", "{code}"]\npause_ms = 150\n')
    os.chmod(os.path.join(config, "agents.toml"), 0o600)
    session_id = world.start(agent="slow", target=target)
    wait_for_output(world, session_id)
    send(world, session_id, "--message", "hi")
    folder = record_of(world, session_id)["session_audit_dir"]
    wait_until(lambda: "0d after " in console(folder) and console(folder).endswith("."), what="the Enter")
    text, _, after = console(folder).partition("is up")[2].strip().rpartition("0d after ")
    assert (PASTED[0] + b"hi" + PASTED[1]).hex() in text and int(after.rstrip(".")) >= 140
    assert world.session("stop", "--id", session_id).exit_status == 0


def test_enter_waits_for_an_agent_that_is_slow_to_show_what_was_pasted(world):
    # C05: a busy agent that takes both at once would count Enter as a part of the paste
    config = os.path.join(world.home, ".config/workcell")
    os.makedirs(config)
    code = (
        "import os, time, tty\\n"
        "tty.setraw(0); os.write(1, b'\\\\x1b[?2004his up\\\\r\\\\n')\\n"
        "time.sleep(1); first = os.read(0, 999); os.write(1, b'> ' + first); second = os.read(0, 999)\\n"
        "os.write(1, first.hex().encode() + b' and ' + second.hex().encode() + b'.'); os.read(0, 1)\\n"
    )
    with open(os.path.join(config, "agents.toml"), "w") as stream:
        stream.write(f'[busy]\ncommand = ["{PYTHON}", "-c", "{code}"]\npause_ms = 100\n')
    os.chmod(os.path.join(config, "agents.toml"), 0o600)
    session_id = world.start(agent="busy", target="bubblewrap")
    wait_for_output(world, session_id)
    send(world, session_id, "--message", "hi")
    wait_for_output(world, session_id, f"{(PASTED[0] + b'hi' + PASTED[1]).hex()} and 0d.")
    assert world.session("stop", "--id", session_id).exit_status == 0


def test_the_agent_never_sees_the_end_of_a_writer(world, target):
    # C11
    session_id = world.start("--", "sh", "-c", "echo is up; while read line; do echo got $line; done; exit 9", target=target)
    wait_for_output(world, session_id)
    for word in ("one", "two", "three"):
        send(world, session_id, "--message", word)
        wait_for_output(world, session_id, f"got {word}")
    assert found_status(world, session_id) == "running"
    send(world, session_id, "--raw", "--file", "-", stdin=b"\x04")
    assert world.session("wait", "--id", session_id).exit_status == 9


def test_a_large_message_arrives_whole_with_its_digest_in_the_log(world, target):
    # C02: byte for byte, though the agent starts to read late
    data = os.urandom(1 << 16).replace(b"\r", b"x") * 4
    code = (
        "import hashlib, os, time, tty\n"
        "tty.setraw(0); os.write(1, b'is up'); time.sleep(0.3); seen = b''\n"
        f"while len(seen) < {len(data)}: seen += os.read(0, 65536)\n"
        "os.write(1, hashlib.sha256(seen).hexdigest().encode())\n"
    )
    session_id = world.start("--", PYTHON, "-c", code, target=target)
    wait_for_output(world, session_id)
    done = send(world, session_id, "--raw", "--file", "-", stdin=data)
    assert done.values["sent_bytes"] == str(len(data))
    assert world.session("wait", "--id", session_id).exit_status == 0
    digest = hashlib.sha256(data).hexdigest()
    assert transcript(world, session_id).endswith(digest)
    [event] = events(world, session_id, "command")
    assert event["argv"] == f"[{len(data)} bytes, sha256 {digest}]"


def test_an_agent_that_does_not_read_makes_send_fail_with_the_count(world, target):
    # C02, C08
    session_id = world.start("--", "sh", "-c", "stty raw; echo is up; exec sleep 1000", target=target)
    wait_for_output(world, session_id)
    begun = time.monotonic()
    done = world.session("send", "--id", session_id, "--raw", "--file", "-", "--timeout", "0.5", stdin=b"x" * (1 << 20))
    assert time.monotonic() - begun < 10
    assert done.exit_status == 1 and done.stdout == "", done
    counted = done.stderr.partition("did not read in time: ")[2].split(" bytes")[0].split(" of ")
    assert 4096 < int(counted[0]) < 1 << 20 and counted[1] == str(1 << 20)
    assert events(world, session_id, "command") == []
    # The next one does not hang either, and the session can be ended.
    done = world.session("send", "--id", session_id, "--message", "x", "--timeout", "0.2")
    assert done.exit_status == 1 and "0 of 2 bytes were taken" in done.stderr
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert_nothing_left(world)


def waiting_bytes(fd):
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_messages_of_many_senders_in_parallel_stay_whole(world, reader):
    # C10; the FIFO holds half of a message, and nobody reads before all are there
    session_id = reader("plain")
    senders, size = scaled(20, 4), 8000
    letters = [chr(ord("a") + number) for number in range(senders)]
    fifo = os.open(os.path.join(record_of(world, session_id)["session_audit_dir"], "agent-input"), os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(fifo, fcntl.F_SETPIPE_SZ, 4096)
    os.close(fifo)
    adapter = adapter_pid(session_id, world)
    os.kill(adapter, signal.SIGSTOP)
    children = [
        world.popen("workcell-session-send", "--id", session_id, "--message", letter * size, stdout=subprocess.DEVNULL)
        for letter in letters
    ]
    wait_until(lambda: all(holds_open(child.pid, "agent-input") for child in children), what="all senders")
    os.kill(adapter, signal.SIGCONT)
    assert [child.wait(timeout=60) for child in children] == [0] * senders
    runs = received(world, session_id, senders * (size + 1), 60).decode().split("\r")
    assert sorted(runs) == ["", *(letter * size for letter in letters)]
    log = [event["argv"] for event in events(world, session_id, "command")]
    assert sorted(log) == sorted(letter * size for letter in letters)
    assert_one_chain(record_of(world, session_id)["audit_log_path"])


def test_a_stopped_adapter_is_not_gone_and_a_dead_one_fails_at_once(world, target):
    # C13
    session_id = world.start("--", *HEX_READER, "plain", target=target)
    wait_for_output(world, session_id)
    adapter = adapter_pid(session_id, world)
    os.kill(adapter, signal.SIGSTOP)
    send(world, session_id, "--message", "kept")
    os.kill(adapter, signal.SIGCONT)
    assert received(world, session_id, 5) == b"kept\r"
    monitor = int(record_of(world, session_id)["monitor_pid"])
    os.kill(monitor, signal.SIGSTOP)  # it can't notice the end
    os.kill(adapter, signal.SIGKILL)
    wait_until(lambda: is_gone(adapter), what="the end of the adapter")
    begun = time.monotonic()
    done = world.session("send", "--id", session_id, "--message", "x")
    assert done.exit_status == 1 and "no reader" in done.stderr, done
    assert time.monotonic() - begun < 5
    os.kill(monitor, signal.SIGCONT)
    assert world.session("wait", "--id", session_id).exit_status == 137
    assert_nothing_left(world)


def replace_by_file(path):
    with open(path, "w"):
        pass


def replace_by_link(path):
    os.symlink("/dev/null", path)


def replace_by_foreign_fifo(path):
    os.mkfifo(path)
    if os.geteuid() == 0:
        os.chown(path, 4242, 4242)
    os.chmod(path, 0o666)


def replace_by_folder(path):
    os.mkdir(path)


def replace_by_socket(path):
    # The path of a socket has to be short.
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(os.path.dirname(path), os.O_RDONLY)
        made.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
        os.close(here)


REPLACEMENTS = (replace_by_file, replace_by_link, replace_by_foreign_fifo, replace_by_folder, replace_by_socket)


def test_what_took_the_place_of_the_input_is_refused_and_not_written(world, reader):
    # C14
    session_id = reader("plain")
    path = os.path.join(record_of(world, session_id)["session_audit_dir"], "agent-input")
    os.rename(path, path + ".away")
    for replace in REPLACEMENTS:
        replace(path)
        is_fifo = replace is replace_by_foreign_fifo
        holder = os.open(path, os.O_RDWR | os.O_NONBLOCK) if is_fifo else -1
        done = world.session("send", "--id", session_id, "--message", "x")
        if is_fifo:
            taken = waiting_bytes(holder)
            os.close(holder)
        else:
            taken = os.path.getsize(path) if replace is replace_by_file else 0
        if os.geteuid() == 0 or not is_fifo:  # only root can make one that is somebody else's
            assert (done.exit_status, taken) == (1, 0) and done.stderr.count("\n") == 1, (replace, done)
            assert "agent-input" in done.stderr or "cannot send" in done.stderr
        (os.rmdir if replace is replace_by_folder else os.unlink)(path)
    if os.geteuid() == 0:
        assert events(world, session_id, "command") == []
    os.rename(path + ".away", path)
    send(world, session_id, "--message", "x")
    assert received(world, session_id, 2) == b"x\r"


def test_nothing_can_be_sent_after_the_end(world, target):
    session_id = world.start("--", "true", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    before = tree(world.state)
    done = world.session("send", "--id", session_id, "--message", "x")
    assert done.exit_status == 1 and "it is not running any more" in done.stderr, done
    assert tree(world.state) == before


def test_wrong_words_are_refused_before_anything_is_sent(world):
    session_id = world.start("--", *SLEEPER)
    empty = os.path.join(world.home, "empty")
    with open(empty, "w"):
        pass
    for words, status, message in (
        ((), 2, "exactly one of --message and --file"),
        (("--message", ""), 2, "--message: needs a value"),
        (("--message", "x", "--file", "-"), 2, "exactly one of --message and --file"),
        (("--message", "x", "--secret"), 2, "--secret: goes with --file"),
        (("--message", "x", "--timeout", "-1"), 2, "is not a number of seconds"),
        (("--message", "x", "--enter"), 2, "unsupported option '--enter'"),
        (("--file", empty), 1, "is empty"),
        (("--file", "-"), 1, "is empty"),
        (("--file", "not-there"), 1, "not-there: No such file"),
    ):
        done = world.session("send", "--id", session_id, *words)
        assert (done.exit_status, done.stdout) == (status, "") and message in done.stderr, done
    assert event_names(world, session_id) == ["launch"]
    assert world.session("stop", "--id", session_id).exit_status == 0
