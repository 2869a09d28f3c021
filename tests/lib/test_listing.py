"""Listings: the same whether one process reads or two, in little memory, and true to what is there at the end."""

import json
import os
import resource
import subprocess
import sys

import pytest

from evidence_support import FINAL, OTHER, SESSION, fields_of, make_record, path_of, profile_folder, write
from workcell import clock, errors, layout, listing, record

BIN = os.environ.get("WORKCELL_BIN", os.path.join(os.path.dirname(__file__), "../../bin"))


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.delenv("COLIMA_STATE_ROOT", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


def everything(fields, path):
    return fields


def rows(problems=None, choose=everything, columns=listing.TABLE, limit=None, human=False, cells=False):
    return "".join(listing.rows([] if problems is None else problems, choose, columns, limit, human, cells))


def make_many(count, profiles=1):
    for number in range(count):
        profile = f"wcl-{number % profiles}"
        session_id = f"20260302T{number:06d}Z-0a1b2c3d"
        started_at = f"2026-03-02T08:{number * 7 % 60:02d}:00Z"
        fields = {**fields_of(session_id, profile), **FINAL, "started_at": started_at}
        write(path_of(session_id, profile), record.encode(fields))


@pytest.fixture
def two_processes(monkeypatch):
    """Make every listing one of two processes, also where there is one processor; count the children."""
    children = []
    real = os.fork

    def fork():
        pid = real()
        if pid:
            children.append(pid)
        return pid

    monkeypatch.setattr(listing, "MANY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(os, "fork", fork)
    yield children
    for pid in children:  # each was waited for
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize("count", [0, 1, 2, 31])
def test_two_processes_list_what_one_lists(count, monkeypatch, two_processes):
    make_many(count, profiles=3)
    choose = listing.Wanted().choose

    def all_forms():
        return (
            rows(choose=choose),
            rows(choose=choose, columns=listing.WIDE, cells=True),
            rows(choose=choose, limit=5, human=True),
            list(listing.bare_ids([], choose, 7)),
            list(listing.groups([], choose, None)),
            list(listing.records([], choose, None)),
        )

    by_two = all_forms()
    assert len(two_processes) == (6 if count else 0)
    monkeypatch.setattr(listing, "MANY", 1000)
    assert all_forms() == by_two
    assert by_two[0].count("\n") == (count + 1 if count else 0)


def test_what_the_second_process_could_not_read_is_said_too(two_processes):  # D10
    make_many(4)
    for number in range(4):
        write(os.path.join(profile_folder("wcl-0"), "sessions", f"bad-{number}.json"), b"{")
    problems = []
    assert rows(problems).count("\n") == 5
    assert len(two_processes) == 1
    assert sorted(os.path.basename(problem.what) for problem in problems) == [f"bad-{number}.json" for number in range(4)]
    assert all("is no JSON record" in problem.why for problem in problems)


def test_a_second_process_that_dies_is_made_up_for(monkeypatch, two_processes):
    make_many(9)
    parent = os.getpid()
    real = record.read_at

    def dies_in_the_child(*words):
        if os.getpid() != parent:
            os._exit(9)
        return real(*words)

    monkeypatch.setattr(record, "read_at", dies_in_the_child)
    assert rows().count("\n") == 10
    assert len(two_processes) == 1


def test_where_there_can_be_no_second_process_one_lists_all(monkeypatch):
    def fork():
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(listing, "MANY", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(os, "fork", fork)
    make_many(5)
    before = len(os.listdir("/proc/self/fd"))
    assert rows().count("\n") == 6
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_second_process_ends_with_a_first_that_fails(monkeypatch, two_processes):
    make_many(9)
    parent = os.getpid()
    real = record.read_at

    def fails_in_the_parent(*words):
        if os.getpid() == parent:
            raise KeyboardInterrupt
        return real(*words)

    monkeypatch.setattr(record, "read_at", fails_in_the_parent)
    with pytest.raises(KeyboardInterrupt):
        rows()
    assert len(two_processes) == 1


def test_of_two_roots_the_first_has_a_session_also_among_many(tmp_path, monkeypatch, two_processes):
    monkeypatch.setenv("COLIMA_STATE_ROOT", str(tmp_path / "old"))
    make_many(3)
    old = os.path.join(tmp_path, "old", "wcl-9")
    for session_id in ("20260302T000001Z-0a1b2c3d", "only-there"):
        fields = {**fields_of(session_id, "wcl-9"), **FINAL}
        write(layout.record_path(old, session_id), record.encode(fields))
    for path in (os.path.dirname(old), old):
        os.chmod(path, 0o700)
    found = rows().splitlines()[1:]
    assert len(found) == 4 and sum("only-there" in row for row in found) == 1
    assert all("wcl-9" not in row or "only-there" in row for row in found)


def test_records_are_read_again_when_they_are_printed(monkeypatch):
    make_many(3)
    choose = listing.Wanted()
    choose.statuses = ["exited"]
    problems = []
    found = listing.records(problems, choose.choose, None)
    assert next(found)["session_id"].startswith("20260302T000002Z")
    write(path_of("20260302T000001Z-0a1b2c3d", "wcl-0"), b"{")
    os.unlink(path_of("20260302T000000Z-0a1b2c3d", "wcl-0"))
    assert list(found) == []
    assert len(problems) == 1 and "000001Z" in problems[0].what


def test_many_folders_of_records_do_not_run_out_of_descriptors():
    make_many(listing._OPEN_FOLDERS + 20, profiles=listing._OPEN_FOLDERS + 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + listing._OPEN_FOLDERS + 10, hard))
    try:
        assert len(list(listing.records([], everything, None))) == listing._OPEN_FOLDERS + 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before


MEMORY = """
import os, resource, runpy, sys
me, os._exit = os.getpid(), sys.exit
sys.argv[0] = sys.argv.pop(1)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    if os.getpid() == me:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def test_a_listing_keeps_less_than_a_kilobyte_of_each_session():  # 100 MiB for 100,000 of them
    def peak_kb(*words):
        command = [sys.executable, "-I", "-c", MEMORY, os.path.join(BIN, "workcell-session-list"), *words]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stderr)

    make_many(200)
    forms = ((), ("--verbose",), ("--parallel",), ("--ids",))
    few = [peak_kb(*words) for words in forms]
    make_many(3200)
    for words, before in zip(forms, few, strict=True):
        assert peak_kb(*words) - before < 3000, words


# --- what people mean by a time


@pytest.mark.parametrize(
    "text,first,last",
    [
        ("2026-03-02", "2026-03-02T00:00:00Z", "2026-03-02T23:59:59Z"),
        ("20260302", "2026-03-02T00:00:00Z", "2026-03-02T23:59:59Z"),
        ("2026-03-02T08:15:00Z", "2026-03-02T08:15:00Z", "2026-03-02T08:15:00Z"),
        ("2026-03-02 08:15", "2026-03-02T08:15:00Z", "2026-03-02T08:15:00Z"),
        ("2026-03-02T08:15:00.9+05:30", "2026-03-02T02:45:00Z", "2026-03-02T02:45:00Z"),
    ],
)
def test_a_date_has_a_first_and_a_last_second_and_a_time_has_one(text, first, last):
    assert (clock.bound(text), clock.bound(text, last=True)) == (first, last)


def test_a_span_is_that_long_ago(monkeypatch):
    monkeypatch.setattr(clock.time, "time", lambda: 1_772_439_300.0)  # 2026-03-02T08:15:00Z
    spans = {"0s": "08:15:00", "90s": "08:13:30", "15m": "08:00:00", "8h": "00:15:00"}
    assert {text: clock.bound(text) for text in spans} == {text: f"2026-03-02T{time}Z" for text, time in spans.items()}
    assert (clock.bound("1d"), clock.bound("1w")) == ("2026-03-01T08:15:00Z", "2026-02-23T08:15:00Z")
    assert clock.bound("9" * 30 + "w") == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text", ["", "x", "2026", "2026-02-30", "12", "h", "-1h", "1.5h", "٣h", "10:00", "9999-99-99", "0000-01-01"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError):
        clock.bound(text)


def test_people_are_told_how_long_ago_something_was(monkeypatch):
    now_s = 1_772_439_300.0
    monkeypatch.setenv("TZ", "UTC")
    clock.time.tzset()
    told = {
        0: "0 seconds ago", 1: "1 second ago", 59: "59 seconds ago", 60: "1 minute ago", 3599: "59 minutes ago",
        3600: "1 hour ago",
        86399: "23 hours ago", 86400: "1 day ago", 604799: "6 days ago", 604800: "2026-02-23 08:15", -90: "in 1 minute",
    }  # fmt: skip
    for ago, words in told.items():
        assert clock.for_people(clock._utc(now_s - ago), now_s) == words
    assert clock.for_people("at noon", now_s) == "at noon"


def test_a_start_that_is_written_otherwise_is_compared_as_the_time_it_is():
    make_record(SESSION, started_at="2026-03-02T10:00:00+02:00")
    make_record(OTHER, started_at="no time")
    wanted = listing.Wanted()
    wanted.since = wanted.until = "2026-03-02T08:00:00Z"
    assert "".join(listing.bare_ids([], wanted.choose, None)) == SESSION + "\n"


def test_one_line_of_json_is_the_same_object():
    fields = {**fields_of(), "git_branch": 'a<b>&"\\\u2028\x01é', "version": 1}
    whole = record.decode(record.encode(fields))
    assert json.loads(record.json_line(whole)) == json.loads(record.json_text(whole))
    assert "\n" not in record.json_line(whole) and "\u2028" not in record.json_line(whole)


def test_a_folder_that_is_gone_when_its_records_are_due_is_passed_over():
    make_many(2, profiles=2)
    listed = record.listed([])
    os.unlink(path_of("20260302T000000Z-0a1b2c3d", "wcl-0"))
    os.rmdir(os.path.join(profile_folder("wcl-0"), "sessions"))
    problems: list[errors.WorkcellError] = []
    assert [fields["profile"] for fields, _ in record.walk(listed, problems)] == ["wcl-1"]
    assert problems == []
