"""The reading commands on real sessions, while they run and after."""

import json
import os
import signal
import subprocess

import pytest
from official_ocsf import problems

from life import fits
from support import wait_until

# One byte of a character at a time, then a line that no reader may cut.
PRINTER = """
    printf '\\360'; sleep 0.1; printf '\\237\\230'; sleep 0.1; printf '\\200 é漢\\r\\n'
    head -c 200000 /dev/zero | tr '\\0' x; echo
"""


@pytest.fixture
def readers(world):
    """Start a reading command beside the test: it must end by itself, and what it printed is its value."""
    world.make_repo()
    running = []

    class Reader:
        def __init__(self, verb, *words):
            self.path = os.path.join(world.folder, f"reader-{len(running)}")
            with open(self.path, "wb") as out:
                self.child = world.popen(
                    f"workcell-session-{verb}", *words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE
                )
            running.append(self)

        def so_far(self):
            with open(self.path, "rb") as out:
                return out.read()

        def end(self, status=0):
            _, stderr = self.child.communicate(timeout=30)
            assert self.child.returncode == status, stderr
            return self.so_far(), stderr.decode()

    yield Reader
    for reader in running:
        if reader.child.poll() is None:
            reader.child.kill()
        reader.child.wait(10)
        reader.child.stderr.close()


def test_each_document_about_a_session_fits_its_schema(world):
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "read line; exit 3")
    running = world.session("show", "--id", session_id)
    assert fits("session-record", running.stdout)["status"] == "running"
    world.session("send", "--id", session_id, "--message", "it's \x1b[1mgo\x1b[0m ünd \u202e<&>")
    assert world.session("wait", "--id", session_id).exit_status == 3
    shown = fits("session-record", world.session("show", "--id", session_id).stdout)
    assert [shown] == fits("session-list", world.session("list", "--json").stdout)
    assert shown == fits("session-record", world.session("list", "--jsonl").stdout)
    events = [fits("audit-event", line) for line in world.session("timeline", "--json", "--id", session_id).stdout.splitlines()]
    assert [event["event"] for event in events] == ["launch", "command", "exit"]
    assert events[1]["argv"] == "it's \x1b[1mgo\x1b[0m ünd \u202e<&>"
    exported = fits("session-export", world.session("export", "--id", session_id).stdout)
    assert exported["session"] == shown and len(exported["audit_records"]) == 3
    for words in (("--id", session_id), ("--all",)):
        assert fits("session-verify", world.session("verify", "--json", *words).stdout)["verdict"] == "verified"
    (profile,) = world.profile_dirs()
    with open(os.path.join(profile, "sessions", session_id + ".audit-sig"), encoding="utf-8") as stream:
        assert fits("audit-seal", stream.read())["head_digest"] == events[-1]["record_digest"]


def test_what_is_exported_as_ocsf_fits_the_official_schema_and_holds_no_message(world):
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "read line; exec sleep 1000")
    world.session("send", "--id", session_id, "--message", "password is swordfish")
    world.session("stop", "--id", session_id)
    done = world.session("export", "--format", "ocsf", "--id", session_id)
    assert done.exit_status == 0, done
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(events) >= 5
    assert [problem for event in events for problem in problems(event)] == []
    assert "swordfish" not in done.stdout and world.home not in done.stdout


def test_a_transcript_that_is_followed_is_the_one_that_is_kept_and_ends_with_the_session(world, readers):  # D01, D07
    session_id = world.start("--", "sh", "-c", PRINTER + "read line; echo got $line")
    recording = readers("logs", "--id", session_id, "--kind", "transcript", "--follow")
    text = readers("logs", "--id", session_id, "--kind", "transcript", "--follow", "--text")
    wait_until(lambda: b"xxx" in recording.so_far() and b"xxx" in text.so_far(), what="the followers")
    assert recording.child.poll() is None and text.child.poll() is None
    world.session("send", "--id", session_id, "--message", "the word")
    printed, remarks = recording.end()
    assert remarks == ""
    kept = world.session("logs", "--id", session_id, "--kind", "transcript")
    assert printed.decode() == kept.stdout
    assert len(printed.splitlines()) > 3 and json.loads(printed.splitlines()[0])["version"] == 2
    readable, remarks = text.end()
    lines = readable.decode().splitlines()
    assert lines[0] == "\U0001f600 é漢" and lines[1] == "x" * 200_000 and lines[-1] == "got the word"
    assert readable.decode() == world.session("logs", "--id", session_id, "--kind", "transcript", "--text").stdout


def test_the_transcript_of_a_session_that_runs_is_what_it_has_printed_so_far(world, readers):
    session_id = world.start("--", "sh", "-c", "echo one; echo two; read line")
    world.wait_for_output(session_id, "two")
    done = world.session("logs", "--id", session_id, "--kind", "transcript", "--text")
    assert (done.exit_status, done.stdout) == (0, "one\ntwo\n")
    done = world.session("logs", "--id", session_id, "--kind", "transcript")
    assert "".join(json.loads(line)[2] for line in done.stdout.splitlines()[1:]) == "one\r\ntwo\r\n"
    last = readers("logs", "--id", session_id, "--kind", "transcript", "--text", "--follow", "--tail", "1")
    wait_until(lambda: last.so_far() == b"two\n", what="the last line")
    world.session("stop", "--id", session_id)
    assert last.end()[0].startswith(b"two\n")


def test_output_of_a_session_without_transcript_can_be_followed_and_is_gone_afterwards(world, readers):
    session_id = world.start("--no-transcript", "--", "sh", "-c", "echo one; read line; echo two")
    text = readers("logs", "--id", session_id, "--kind", "transcript", "--text", "--follow")
    wait_until(lambda: b"one" in text.so_far(), what="the first line")
    assert world.session("send", "--id", session_id, "--message", "go").exit_status == 0
    world.session("wait", "--id", session_id)
    assert b"one\n" in text.end()[0]
    done = world.session("logs", "--id", session_id, "--kind", "transcript")
    assert done.exit_status == 1 and "no transcript log recorded" in done.stderr


def test_events_that_are_followed_are_those_of_the_session_until_its_end(world, readers):
    session_id = world.start("--", "sh", "-c", "read line")
    other = world.start("--", "sh", "-c", "read line")
    lines = readers("timeline", "--id", session_id, "--follow")
    events = readers("timeline", "--id", session_id, "--follow", "--json")
    raw = readers("logs", "--id", session_id, "--kind", "audit", "--follow", "--tail", "0")
    wait_until(lambda: b"event=launch" in lines.so_far() and b'"launch"' in events.so_far(), what="the launch event")
    for one in (other, session_id):
        world.session("send", "--id", one, "--message", "go")
        world.session("wait", "--id", one)
    printed, _ = lines.end()
    assert printed.decode() == world.session("timeline", "--id", session_id).stdout
    assert [fits("audit-event", line)["event"] for line in events.end()[0].splitlines()] == ["launch", "command", "exit"]
    assert other.encode() not in printed
    # It may have begun to look after the first event, and then has no more than the others.
    assert printed.endswith(raw.end()[0].replace(b" \n", b"\n"))


def test_a_follower_ends_when_its_session_is_lost(world, readers):
    session_id = world.start("--", "sh", "-c", "echo up; exec sleep 1000")
    world.wait_for_output(session_id, "up")
    text = readers("logs", "--id", session_id, "--kind", "transcript", "--text", "--follow")
    wait_until(lambda: b"up" in text.so_far(), what="the follower")
    os.kill(int(world.show(session_id)["monitor_pid"]), signal.SIGKILL)
    printed, remarks = text.end()
    assert printed == b"up\n" and f"{session_id}: lost" in remarks
    assert world.show(session_id)["live_status"] == "lost"
    assert world.session("list", "--status", "lost", "--ids").stdout == session_id + "\n"
    assert world.session("list", "--status", "running", "--ids").stdout == ""


def test_the_debug_log_of_a_session_is_followed_to_its_end(world, readers):
    path = os.path.join(world.home, "debug.log")
    session_id = world.start("--debug-log", path, "--", "sh", "-c", "read line")
    log = readers("logs", "--id", session_id, "--kind", "debug", "--follow")
    with open(path, "ab") as stream:
        stream.write(b"a line of the monitor's\n")
    wait_until(lambda: b"monitor's" in log.so_far(), what="the line")
    world.session("stop", "--id", session_id)
    printed, _ = log.end()
    with open(path, "rb") as stream:
        assert printed == stream.read()


# --- the recording


def test_the_recording_can_have_a_place_and_a_limit_of_its_own(world, target):
    world.make_repo()
    place = os.path.join(world.home, "casts")
    os.mkdir(place)
    path = os.path.join(place, "x.cast")
    printer = "import sys\nfor n in range(20000): sys.stdout.write(f'line {n}\\n')"
    words = ("--transcript", path, "--transcript-limit", "64K", "--", "python3", "-c", printer)
    session_id = world.start(*words, target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert world.show(session_id)["transcript_log_path"] == path and os.stat(path).st_mode & 0o777 == 0o600
    with open(path, encoding="utf-8") as stream:
        header, *lines = [json.loads(line) for line in stream]
    assert header["version"] == 2 and [line[1] for line in lines].count("m") == 1  # the gap is marked
    text = "".join(line[2] for line in lines if line[1] == "o")
    assert 64 << 10 <= len(text) <= 5 * (16 << 10) + (64 << 10) and text.endswith("line 19999\r\n")
    done = world.session("logs", "--id", session_id, "--kind", "transcript", "--text", "--tail", "1")
    assert done.stdout == "line 19999\n"
    # It is the operator's: delete leaves it where it is.
    assert world.session("delete", "--id", session_id).values["kept"] == "transcript_log"
    assert os.path.exists(path)


def test_a_place_for_the_recording_that_cannot_be_is_refused(world):
    world.make_repo()
    link = os.path.join(world.home, "link")
    os.symlink("/etc/hostname", link)
    for words, message in (
        (("--transcript", link), "is a link"),
        (("--transcript", os.path.join(world.home, "none", "x")), "does not exist"),
        (("--transcript", world.home), "is no regular file"),
        (("--transcript", "x", "--no-transcript"), "exclude each other"),
        (("--transcript", "x", "--debug-log", "x"), "is named for two logs"),
        (("--transcript-limit", "1K"), "is less than 65536 bytes"),
        (("--transcript-limit", "much"), "is no size"),
    ):
        done = world.session("start", "--agent", "command", *words, "--", "true")
        assert done.exit_status == 2 and message in done.stderr, done
    assert world.scratch_folders() == []
