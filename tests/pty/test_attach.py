"""attach on real terminals: what is typed arrives, what is shown is the session's, and the terminal is as it was afterwards."""

import hashlib
import os
import re
import signal
import sys
import termios

import pexpect
import pytest

from support import BIN, scaled, wait_until

# Prints what it reads, byte for byte, as hexadecimal digits.
ECHO = """import sys,tty;tty.setraw(0);sys.stdout.write('ready');sys.stdout.flush()
while 1:
 d=sys.stdin.buffer.raw.read(100);print(d.hex(),end=' ',flush=True)"""

PROMPT = r"[$#] "


@pytest.fixture
def shell(world, target):
    """A session of an interactive shell, and its id."""
    world.make_repo()
    session_id = world.start(agent="shell", target=target)
    yield session_id
    world.session("stop", "--id", session_id, "--force")


@pytest.fixture
def attach(world):
    """A function that attaches on a terminal of its own and returns the pexpect child; all are ended at last."""
    children = []

    def attach(session_id, *words, size=(24, 80)):
        child = pexpect.spawn(
            sys.executable,
            [os.path.join(BIN, "workcell-session-attach"), "--id", session_id, *words],
            env=world.env,
            cwd=world.home,
            dimensions=size,
            timeout=20,
            encoding="utf-8",
            codec_errors="replace",
        )
        child.delaybeforesend = None
        child.before_attributes = termios.tcgetattr(child.child_fd)
        children.append(child)
        return child

    yield attach
    for child in children:
        child.close(force=True)


def is_raw(child):
    return not termios.tcgetattr(child.child_fd)[3] & termios.ICANON


def wait_raw(child):
    wait_until(lambda: is_raw(child), what="raw mode")


def attributes(child):
    return termios.tcgetattr(child.child_fd)


def expect_size(child, rows, columns):
    """Ask the session's shell for its size until it has this one: a new size takes moments to arrive."""

    def has_it():
        child.send("stty size\r")
        child.expect(r"[\r\n](\d+) (\d+)\r")
        return (int(child.match[1]), int(child.match[2])) == (rows, columns)

    wait_until(has_it, what=f"size {rows} {columns}")


def end_of(child):
    child.expect(pexpect.EOF)
    child.wait()
    return child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus


def test_attach_types_into_the_session_and_shows_what_it_prints(shell, attach):
    child = attach(shell)
    child.expect(PROMPT)
    child.send("echo $((6*7))\r")
    child.expect("[\r\n]42\r")
    child.send("\x1c")
    assert end_of(child) == 0


def test_detach_leaves_the_agent_running_and_the_terminal_as_it_was(world, shell, attach):
    child = attach(shell)
    wait_raw(child)
    child.send("\x1c")
    assert end_of(child) == 0
    assert attributes(child) == child.before_attributes
    assert world.show(shell)["live_status"] == "running"


@pytest.mark.parametrize("form", ["\x1c", "\x1b[92;5u", "\x1b[27;5;92~"], ids=["control-byte", "kitty", "xterm"])
def test_the_detach_key_is_known_in_every_form_a_keyboard_sends_it_in_and_split_anywhere(shell, attach, form):  # A04
    for cut in range(1, len(form) + 1):
        child = attach(shell)
        wait_raw(child)
        child.send(form[:cut])
        if form[cut:]:
            child.send(form[cut:])
        assert end_of(child) == 0


def test_other_detach_keys_can_be_chosen_and_their_beginnings_are_not_lost(world, attach):
    world.make_repo()
    session_id = world.start("--", "python3", "-c", ECHO)
    child = attach(session_id, "--detach-keys", "ctrl-p,ctrl-q")
    child.expect("ready")
    child.send("\x1c")
    child.expect("1c")
    child.send("\x10")
    child.expect("10")  # alone, it is passed on
    child.send("\x10\x11")
    assert end_of(child) == 0
    world.session("stop", "--id", session_id, "--force")


def test_what_is_typed_just_before_the_detach_key_arrives(world, attach):
    world.make_repo()
    session_id = world.start("--", "python3", "-c", ECHO)
    child = attach(session_id)
    child.expect("ready")
    child.send("ab\x1b\x1c")  # Escape may begin an extended form of the detach key, and is held back
    assert end_of(child) == 0
    wait_until(lambda: "".join(world.console(session_id).split("ready")[1].split()) == "61621b", what="61 62 1b")
    world.session("stop", "--id", session_id, "--force")


def test_bad_detach_keys_are_a_usage_error(world):
    done = world.session("attach", "--id", "x", "--detach-keys", "ctrl-ctrl")
    assert done.exit_status == 2 and "is no key" in done.stderr


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT"])
def test_the_terminal_is_restored_whatever_signal_ends_the_client(world, shell, attach, name):  # A01
    child = attach(shell)
    wait_raw(child)
    child.kill(getattr(signal, "SIG" + name))
    assert end_of(child) == 0
    assert attributes(child) == child.before_attributes
    assert world.show(shell)["live_status"] == "running"


def test_after_a_kill_the_session_lives_and_the_next_client_restores_the_terminal_to_what_it_found(world, shell, attach):
    child = attach(shell)
    wait_raw(child)
    child.kill(signal.SIGKILL)
    assert end_of(child) == 128 + signal.SIGKILL
    again = attach(shell)
    again.expect(PROMPT)
    again.send("\x1c")
    assert end_of(again) == 0 and attributes(again) == again.before_attributes


@pytest.mark.parametrize("status", [0, 7, 130])
def test_attach_ends_with_the_agents_exit_status(world, target, attach, status):
    world.make_repo()
    session_id = world.start("--", "sh", "-c", f"read line; echo got $line; exit {status}", target=target)
    child = attach(session_id)
    wait_raw(child)
    child.send("go\r")
    child.expect("got go")
    assert end_of(child) == status
    assert attributes(child) == child.before_attributes
    assert world.session("verify", "--id", session_id).exit_status == 0


def test_exactly_the_modes_that_the_program_turned_on_are_turned_off_on_detach(world, attach):  # A02
    world.make_repo()
    modes = r"\x1b[?1000h\x1b[?1004h\x1b[?2004h\x1b[?25l\x1b[?1006h\x1b[?1006l"
    program = f"import sys,time;sys.stdout.write('{modes}ready');sys.stdout.flush();time.sleep(60)"
    session_id = world.start("--", "python3", "-c", program)
    world.wait_for_output(session_id, "ready")
    child = attach(session_id)
    child.expect("ready")
    child.send("\x1c")
    assert end_of(child) == 0
    assert set(re.findall(r"\x1b\[\?(\d+)l", child.before)) == {"1000", "1004", "2004"}
    assert re.findall(r"\x1b\[\?(\d+)h", child.before)[-1] == "25"
    world.session("stop", "--id", session_id, "--force")


def test_the_screen_is_there_on_entry_and_no_question_to_the_terminal_is_asked_again(world, attach):  # A07, D11
    world.make_repo()
    program = (
        "import sys,tty;tty.setraw(0)\n"
        "sys.stdout.write('\\x1b[c\\x1b[6n\\x1b[>q\\x1b]11;?\\x07\\x1b[?2004h\\x1b[31mred words');sys.stdout.flush()\n"
        + "\n".join(ECHO.split("\n")[1:])
    )
    session_id = world.start("--", "python3", "-c", program)
    world.wait_for_output(session_id, "red words")
    child = attach(session_id)
    child.expect("red words")
    shown = child.before + child.after
    assert "\x1b[?2004h" in shown and "\x1b[31m" in shown
    for query in ("\x1b[c", "\x1b[6n", "\x1b[>q", "\x1b]11"):
        assert query not in shown
    child.send("x")
    child.expect(" ")
    assert world.console(session_id).split("red words")[1].split() == ["78"]  # what was typed and nothing else
    child.send("\x1c")
    end_of(child)
    world.session("stop", "--id", session_id, "--force")


def test_twenty_attachments_and_then_one_key_are_one_byte(world, attach):  # A11
    world.make_repo()
    session_id = world.start("--", "python3", "-c", ECHO)
    for _ in range(scaled(20, 5)):
        child = attach(session_id)
        wait_raw(child)
        child.send("\x1c")
        assert end_of(child) == 0
    child = attach(session_id)
    child.expect("ready")
    child.send("k")
    child.expect("6b")
    assert world.console(session_id).split("ready")[1].split() == ["6b"]
    child.send("\x1c")
    end_of(child)
    world.session("stop", "--id", session_id, "--force")


def test_the_session_has_the_size_of_the_terminal_and_follows_it(shell, attach):
    child = attach(shell, size=(31, 97))
    child.expect(PROMPT)
    expect_size(child, 31, 97)
    child.setwinsize(40, 111)
    expect_size(child, 40, 111)
    child.send("\x1c")
    assert end_of(child) == 0


def test_an_observer_types_nothing_and_never_resizes(world, shell, attach):  # B03
    writer = attach(shell, size=(33, 99))
    writer.expect(PROMPT)
    observer = attach(shell, "--no-stdin", size=(10, 20))
    observer.expect(PROMPT)
    observer.send("exit 9\r")
    expect_size(writer, 33, 99)
    observer.expect("33 99")
    observer.kill(signal.SIGTERM)
    assert end_of(observer) == 0
    writer.send("\x1c")
    assert end_of(writer) == 0
    assert world.show(shell)["live_status"] == "running"


def test_the_size_goes_back_to_the_writer_that_stays(shell, attach):  # B03
    first = attach(shell, size=(30, 90))
    first.expect(PROMPT)
    second = attach(shell, size=(20, 60))
    second.expect(PROMPT)
    expect_size(second, 20, 60)
    second.send("\x1c")
    assert end_of(second) == 0
    expect_size(first, 30, 90)
    first.send("\x1c")
    assert end_of(first) == 0


def test_a_terminal_without_a_size_changes_nothing_and_its_hang_up_is_a_detach(world, shell, attach):  # A13
    child = attach(shell, size=(0, 0))
    wait_raw(child)
    expect_size(child, 24, 80)
    child.close()
    assert world.show(shell)["live_status"] == "running"


def test_without_a_terminal_the_output_is_copied_until_the_session_ends(world, target):  # A05
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "echo first; read line; echo second; exit 3", target=target)
    child = world.popen("workcell-session-attach", "--id", session_id, stdin=-3, stdout=-1, stderr=-1)
    assert world.session("send", "--id", session_id, "--message", "go").exit_status == 0
    out, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (3, b""), (out, err)
    assert b"first" in out and b"second" in out


def test_a_viewer_that_stops_reading_does_not_slow_the_agent(world):  # D05
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "read line; seq 1 400000; exit 5")
    child = world.popen("workcell-session-attach", "--id", session_id, "--no-stdin", stdout=-1)
    try:
        wait_until(lambda: "event=attach " in world.session("timeline", "--id", session_id).stdout, what="attach event")
        child.send_signal(signal.SIGSTOP)
        assert world.session("send", "--id", session_id, "--message", "go").exit_status == 0
        assert world.session("wait", "--id", session_id, "--timeout", "30").exit_status == 5
        assert world.transcript(session_id).endswith("400000\r\n")
    finally:
        child.kill()
        child.communicate()


def test_attach_to_a_session_whose_monitor_was_killed_says_so_at_once(world, shell, attach):  # A08
    os.kill(int(world.show(shell)["monitor_pid"]), signal.SIGKILL)
    child = attach(shell)
    child.expect("(its monitor is dead|its monitor and its sandbox are gone|has just ended)")
    assert end_of(child) == 1


def test_attach_to_what_has_ended_or_never_was_fails_with_a_reason(world):
    world.make_repo()
    session_id = world.start("--", "true")
    world.session("wait", "--id", session_id)
    done = world.session("attach", "--id", session_id)
    assert done.exit_status == 1 and "not running any more" in done.stderr
    done = world.session("attach", "--id", "20260101T000000Z-00000000")
    assert done.exit_status == 1 and "does not exist" in done.stderr


def test_attach_leaves_its_events_and_only_while_the_session_lives(world, shell, attach):
    child = attach(shell)
    wait_raw(child)
    child.expect(PROMPT)
    child.send("\x1c")
    end_of(child)
    world.session("stop", "--id", shell)
    events = re.findall(r"event=(\S+)", world.session("timeline", "--id", shell).stdout)
    assert events == ["launch", "attach-attempt", "attach", "stop-request", "exit"]


def test_only_the_terminal_that_types_answers_what_the_program_asks(world, attach):
    world.make_repo()
    asks = ECHO.replace("d=sys.stdin", "sys.stdout.write('\\x1b[c')\n d=sys.stdin")
    session_id = world.start("--", "python3", "-c", asks)
    first, second = attach(session_id), attach(session_id)
    for child in (first, second):
        child.expect("ready")
    first.send("k")
    second.expect("6b")
    wait_until(lambda: "6b" in world.console(session_id), what="the key")

    def answered(digits):
        # Both terminals see the question, and both answer; right after the entry no answer counts.
        second.send("\x1b[?62;9c")
        first.send("\x1b[?1;2c")
        return digits in world.console(session_id)

    wait_until(lambda: answered("1b5b3f313b3263"), what="the answer of the first")
    assert "36323b39" not in world.console(session_id)
    second.send("y")  # a person is always heard, and then it is that terminal's turn
    second.expect("79")
    wait_until(lambda: answered("1b5b3f36323b3963"), what="the answer of the second")
    for child in (first, second):
        child.send("\x1c")
        assert end_of(child) == 0
    world.session("stop", "--id", session_id, "--force")


def test_a_client_that_hangs_holds_up_neither_the_next_nor_its_size(world, shell, attach):  # A10
    first = attach(shell, size=(30, 90))
    first.expect(PROMPT)
    # Not while it writes its event: a lock that a stopped process holds is held.
    wait_until(lambda: "event=attach " in world.session("timeline", "--id", shell).stdout, what="attach event")
    first.kill(signal.SIGSTOP)
    second = attach(shell, size=(25, 70))
    second.expect(PROMPT)
    expect_size(second, 25, 70)
    second.setwinsize(26, 71)
    expect_size(second, 26, 71)
    first.kill(signal.SIGKILL)
    assert end_of(first) == 128 + signal.SIGKILL
    expect_size(second, 26, 71)
    third = attach(shell, size=(40, 100))
    third.expect(PROMPT)
    third.send("\x1c")
    assert end_of(third) == 0
    expect_size(second, 26, 71)  # and not that of the dead one
    second.send("\x1c")
    assert end_of(second) == 0


def test_what_is_typed_while_the_session_ends_is_neither_shown_twice_nor_given_to_anybody_else(world, attach):  # D04
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "stty -echo; printf 'line 1\\nline 2\\n'; read line; echo \"got $line\"; exit 6")
    child = attach(session_id)
    child.expect("line 2")
    child.send("one\rtwo\rthree\r")
    assert end_of(child) == 6
    shown = child.before.replace("\r", "")
    assert shown.count("got one") == 1 and "two" not in shown and "three" not in shown
    with open(world.show(session_id)["transcript_log_path"], encoding="utf-8") as stream:
        text = stream.read()
    assert text.count("line 1") == text.count("got one") == 1 and "three" not in text


@pytest.mark.parametrize("mode", ["raw", "canonical"])
def test_a_megabyte_that_is_pasted_arrives_byte_for_byte(world, attach, mode):  # C01, C02
    world.make_repo()
    size = 1 << 20
    text = (bytes(range(0x20, 0x7F)) * (size // 95 + 1))[: size - 1].replace(b"\\", b"/") + b"\n"
    settings = {"raw": "raw -echo", "canonical": "-echo"}[mode]
    session_id = world.start("--", "sh", "-c", f"stty {settings}; printf ready; head -c {size} | sha256sum; printf done")
    child = attach(session_id)
    child.expect("ready")
    child.send(text.decode())
    child.expect(hashlib.sha256(text).hexdigest(), timeout=60)
    assert end_of(child) == 0
