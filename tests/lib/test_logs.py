"""Which logs a session has, and following one while its writer does what writers do."""

import json
import os

import pytest

from evidence_support import FINAL, OTHER, SESSION, add_events, make_record, path_of, profile_folder, write
from workcell import audit, console, layout, logs, record
from workcell.errors import NotFoundError, UnreadableError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("COLIMA_STATE_ROOT", raising=False)
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setattr(logs, "POLL_S", 0.001)
    monkeypatch.setattr(console, "POLL_S", 0.001)


class Writer:
    """Does one thing each time that a follower asks whether the session is over, and then says that it is."""

    def __init__(self, monkeypatch, *steps):
        self.steps = list(steps)
        monkeypatch.setattr(logs, "is_over", self)

    def __call__(self, path):
        if self.steps:
            self.steps.pop(0)()
            return False
        return True


def debug_log(text=b""):
    path = write(os.path.join(profile_folder(), "debug.log"), text)
    make_record(debug_log_path=path)
    return path


def followed(kind="debug", tail=None, as_text=False):
    fields, path = record.load(SESSION)
    return b"".join(logs.read(fields, path, kind, tail, True, False, as_text))


def appender(path, data):
    def append():
        with open(path, "ab") as stream:
            stream.write(data)

    return append


def test_a_follower_prints_what_is_appended(monkeypatch):
    path = debug_log(b"one\n")
    Writer(monkeypatch, appender(path, b"tw"), appender(path, b"o\n"), lambda: None, appender(path, b"three"))
    assert followed() == b"one\ntwo\nthree"


def test_tail_and_follow_begin_with_the_last_lines(monkeypatch):
    path = debug_log(b"one\ntwo\nthree\n")
    Writer(monkeypatch, lambda: None, appender(path, b"four\n"))
    assert followed(tail=1) == b"three\nfour\n"


def test_a_log_that_was_cut_is_begun_anew_with_a_notice_and_without_a_run_of_zeros(monkeypatch, capfd):  # G08
    path = debug_log(b"x" * 10_000)
    writer = os.open(path, os.O_WRONLY)
    os.lseek(writer, 0, os.SEEK_END)

    def goes_on_as_if_nothing_had_happened():
        os.write(writer, b"after the hole\n")

    Writer(
        monkeypatch,
        lambda: None,
        lambda: os.truncate(path, 0),
        goes_on_as_if_nothing_had_happened,
        appender(path, b"\0 is data\n"),
    )
    try:
        assert followed() == b"x" * 10_000 + b"after the hole\n\0 is data\n"
    finally:
        os.close(writer)
    assert "became shorter; going on from its start" in capfd.readouterr().err


def test_a_log_that_was_replaced_is_read_to_its_end_and_then_the_new_one(monkeypatch, capfd):  # G07, G08
    path = debug_log(b"old\n")

    def rotate():
        os.rename(path, path + ".1")
        appender(path + ".1", b"last of the old\n")()

    Writer(
        monkeypatch, lambda: None, rotate, lambda: None, lambda: write(path, b"new\n"), lambda: None, appender(path, b"more\n")
    )
    assert followed() == b"old\nlast of the old\nnew\nmore\n"
    assert "was replaced" in capfd.readouterr().err


def test_a_log_that_was_replaced_by_something_else_is_not_followed_there(monkeypatch, tmp_path):  # K08
    path = debug_log(b"old\n")
    write(str(tmp_path / "secret"), b"secret\n")

    def plant():
        os.unlink(path)
        os.symlink(tmp_path / "secret", path)

    Writer(monkeypatch, lambda: None, plant, lambda: None)
    with pytest.raises(UnreadableError, match="is a link"):
        followed()


def test_events_that_are_being_written_are_printed_once_they_are_whole(monkeypatch):
    make_record()
    add_events("launch")
    log = os.path.join(profile_folder(), "workcell.audit.log")
    line = b"event=x session_id=" + SESSION.encode() + b" argv=half"
    Writer(
        monkeypatch,
        appender(log, line[:40]),
        lambda: None,
        appender(log, line[40:] + b" \n"),
        lambda: add_events("exit", session_id=OTHER),
    )
    lines = followed("audit").splitlines()
    assert len(lines) == 2 and lines[1] == line + b" "


def test_a_torn_line_that_a_writer_moves_away_is_no_line_of_the_log(monkeypatch):  # J05
    make_record()
    add_events("launch")
    log = os.path.join(profile_folder(), "workcell.audit.log")
    Writer(monkeypatch, appender(log, b"event=x session_id=" + SESSION.encode()), lambda: None, lambda: add_events("exit"))
    names = [audit.decode(line)[1][1] for line in followed("audit").splitlines()]
    assert names == [b"launch", b"audit-tail-recovered", b"exit"]


def test_a_log_that_is_not_there_yet_is_waited_for(monkeypatch):
    make_record()
    fields, path = record.load(SESSION)
    Writer(monkeypatch, lambda: None, lambda: add_events("launch"))
    lines = [line for line in logs.audit_lines(fields, path, follow=True) if line is not None]
    assert len(lines) == 1 and b"event=launch" in lines[0]


# --- the console log of a session that runs


@pytest.fixture
def running(monkeypatch):
    """The writer of a console log, and the record of its session."""
    folder = os.path.join(profile_folder(), "session-audit.abc123")
    os.makedirs(folder, mode=0o700)
    make_record(session_audit_dir=folder, transcript_log_path=layout.transcript_path(profile_folder(), SESSION))
    writer = console.Writer(os.path.join(folder, "console"), limit_bytes=16384)
    yield writer
    writer.close()


def keep(writer):
    """Do what the end of a session does: keep the recording, finish the record, remove the scratch folder."""
    fields, path = record.load(SESSION)
    lines = console.asciicast(writer.folder, logs._started(fields))
    write(fields["transcript_log_path"], "".join(lines).encode())
    record.update(path, FINAL)
    for name in os.listdir(writer.folder):
        os.unlink(os.path.join(writer.folder, name))
    os.rmdir(writer.folder)


def test_every_cut_of_a_text_gives_the_same_text(monkeypatch, running):  # D01, D02
    text = "a€😀\r\n\x1b[1mé\x1b[0m漢".encode()
    for cut in range(len(text)):
        running.write(text[:cut])
        running.write(text[cut:] + b"\r\n")
    events = [event for event in console.events(running.folder) if event and event[1] == "o"]
    assert "".join(value for _, _, value in events).encode() == (text + b"\r\n") * len(text)


def test_what_was_printed_after_the_last_look_is_taken_from_the_kept_recording(monkeypatch, running):
    running.write(b"seen\n")

    def ends():
        for number in range(5):  # more segments than were there at the last look
            running.write(b"%d" % number * 5000 + b"\n")
        keep(running)

    Writer(monkeypatch, lambda: None, ends)
    printed = followed("transcript")
    with open(layout.transcript_path(profile_folder(), SESSION), "rb") as stream:
        assert printed.splitlines()[-1] == stream.readlines()[-1].rstrip(b"\n")
    text = "".join(json.loads(line)[2] for line in printed.splitlines()[1:] if json.loads(line)[1] == "o")
    assert text == "seen\n" + "".join(f"{number}" * 5000 + "\n" for number in range(5))


def test_output_that_was_dropped_before_it_could_be_seen_is_a_remark(monkeypatch, running):
    running.write(b"seen\n")
    over = iter([False, True])

    def is_over():
        answer = next(over)
        if answer:
            for _ in range(12):
                running.write(b"y" * 5000)
        return answer

    events = [event for event in console.events(running.folder, is_over) if event]
    assert [value for _, kind, value in events if kind == "m"] == ["older output is not kept"]
    assert events[1][2] == "seen\n" and events[-1][2] == "y" * 5000


def test_a_console_log_that_was_cut_says_how_much_is_missing(running):  # G08
    running.write(b"first\n")
    os.truncate(os.path.join(running.folder, "000001.out"), 2)
    running.write(b"second\n")
    values = [value for _, kind, value in console.events(running.folder) if kind != "r"]
    assert values == ["fiseco", "nd\n", "4 bytes are missing"]


def test_a_session_without_console_log_and_recording_has_no_transcript(monkeypatch):
    make_record(session_audit_dir=os.path.join(profile_folder(), "session-audit.gone42"))
    Writer(monkeypatch)
    for follow in (True, False):
        fields, path = record.load(SESSION)
        with pytest.raises(NotFoundError, match="no transcript log recorded"):
            list(logs.read(fields, path, "transcript", None, follow, False, False))


def test_a_place_is_judged_the_same_through_a_linked_state_root(tmp_path, monkeypatch):  # D35
    os.makedirs(profile_folder(), mode=0o700)
    real = os.path.join(profile_folder(), "transcripts", SESSION + ".cast")
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(tmp_path / "link"))
    os.symlink(tmp_path / "state", tmp_path / "link")
    through = os.path.join(profile_folder(), "transcripts", SESSION + ".cast")
    assert through != real
    for path in (path_of(), str(tmp_path / "state") + path_of().removeprefix(str(tmp_path / "link"))):
        for named in (real, through):
            assert logs.is_own_place(named, path, SESSION)
            assert not logs.is_own_place(named, path, OTHER)
            assert not logs.is_own_place(os.path.join(os.path.dirname(named), "..", "sessions", "x"), path, SESSION)
