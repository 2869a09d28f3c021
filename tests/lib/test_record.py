"""Records: read with suspicion, written whole, never back from their end."""

import json
import os
import random
import stat
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_support import FINAL, OTHER, SESSION, Children, content, fields_of, make_record, path_of, write
from support import scaled
from workcell import errors, layout, record

ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(root))
    monkeypatch.delenv("COLIMA_STATE_ROOT", raising=False)
    return root


@pytest.fixture
def children():
    running = Children()
    yield running
    running.close()


def raw(session_id=SESSION, **more):
    return {"version": 1, **fields_of(session_id, **more)}


def ids_of(found):
    return [fields["session_id"] for fields, _ in found]


# --- decoding


def test_a_record_has_all_forty_fields_in_order_and_defaults_filled_in():
    old = {
        "started_at": "2026-03-02T08:15:00Z", "version": 1, "session_id": "x", "profile": "p", "agent": "codex",
        "mode": "strict", "status": "running", "workspace": "/w", "worktree_path": "/clone",
    }  # fmt: skip
    fields = record.decode(json.dumps(old).encode())
    assert tuple(fields) == record.FIELDS and len(fields) == 40
    assert (fields["target_kind"], fields["target_provider"], fields["target_id"]) == ("local_vm", "colima", "p")
    assert fields["workspace_transport"] == "isolated-worktree-mount"
    assert record.decode(record.encode(fields)) == fields
    assert record.encode(record.decode(record.encode(fields))) == record.encode(fields)


@pytest.mark.parametrize(
    "text,why",
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"sid", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "object"),
        (b"null", "object"),
        (b"\xff", "no UTF-8"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b"[" * 100000, "no JSON"),
        (b"{" * 100000, "no JSON"),
        (b'{"a":' * 100000, "no JSON"),
        (b'{"version": ' + b"9" * 10000 + b"}", "no JSON|version"),
        (b"\0" * 4096, "no JSON"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_what_is_no_record_is_refused_with_the_reason(text, why):
    with pytest.raises(errors.UnreadableError, match=why):
        record.decode(text)


@pytest.mark.parametrize("version", ["1.0", "1e0", "true", "2", '"1"', "null", "NaN"])
def test_the_version_must_be_the_integer_one(version):
    text = json.dumps(raw()).replace('"version": 1', f'"version": {version}')
    with pytest.raises(errors.UnreadableError, match="version"):
        record.decode(text.encode())


@pytest.mark.parametrize("spelling", ['"status": "exited"', '"status" : "exited"', '"stat\\u0075s": "exited"', '"status": 5'])
def test_a_field_that_is_there_twice_is_refused(spelling):
    text = json.dumps(raw())
    for doubled in (text[:-1] + ", " + spelling + "}", "{" + spelling + ", " + text[1:]):
        with pytest.raises(errors.UnreadableError, match="twice"):
            record.decode(doubled.encode())


def test_content_after_the_record_is_refused_and_blanks_are_not():
    data = json.dumps(raw()).encode()
    assert record.decode(data + b" \r\n\t")["session_id"] == SESSION
    for more in (b"x", b"{}", b"\0", b"\xc2\x85"):
        with pytest.raises(errors.UnreadableError):
            record.decode(data + more)


def test_escapes_are_undone_and_half_a_surrogate_pair_is_no_character():
    data = json.dumps(raw()).replace("/srv/work/repo", "/srv/\\ud83d\\ude00/\\ud800\\u0022").encode()
    assert record.decode(data)["workspace"] == '/srv/\U0001f600/\ufffd"'


def test_an_unknown_field_is_refused_by_name():
    with pytest.raises(errors.UnreadableError, match="surprise"):
        record.decode(json.dumps(raw(surprise="x")).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(data):
    with pytest.raises(errors.UnreadableError):
        record.decode(data)


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner))


@given(st.dictionaries(st.sampled_from(record.FIELDS) | st.text(max_size=5), json_values | st.text()))
def test_any_values_in_any_field_are_a_record_or_refused(changes):
    try:
        fields = record.decode(json.dumps({**raw(), **changes}).encode())
    except errors.UnreadableError:
        return
    assert record.decode(record.encode(fields)) == fields


@given(st.dictionaries(st.sampled_from(record.FIELDS[1:]), st.text(st.characters(exclude_categories=()))))
def test_what_was_written_is_read_back_the_same(changes):
    try:
        data = record.encode({**raw(), **changes})
    except errors.UnreadableError:
        return
    fields = record.decode(data)
    assert record.encode(fields) == data
    assert data.endswith(b"\n}\n") or data.endswith(b"}\n")


def test_the_bytes_are_those_of_the_format():
    data = record.encode(raw(git_branch="a<b>&\u2028\x01\x7f\té\udcff"))
    assert b'"git_branch": "a\\u003cb\\u003e\\u0026\\u2028\\u0001\x7f\\t\xc3\xa9\xef\xbf\xbd"' in data
    assert data.startswith(b'{\n  "version": 1,\n  "session_id"') and data.endswith(b"\n}\n")
    assert b'"ui"' not in data


# --- reading


@pytest.mark.parametrize("damage", ["group", "link", "symlink", "fifo", "large", "folder"])
def test_a_record_that_others_could_have_changed_is_refused(damage, tmp_path):
    path = make_record()
    if damage == "group":
        os.chmod(path, 0o640)
    elif damage == "link":
        os.link(path, tmp_path / "second")
    elif damage == "symlink":
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
    elif damage == "fifo":
        os.unlink(path)
        os.mkfifo(path, 0o600)
    elif damage == "large":
        write(path, content(path) + b" " * record.LIMIT_BYTES)
    else:
        os.chmod(os.path.dirname(path), 0o777)
    with pytest.raises(errors.UnreadableError):
        record.read(path)


def test_a_missing_record_is_not_found():
    with pytest.raises(errors.NotFoundError, match="does not exist"):
        record.read(path_of())


def test_a_record_that_is_being_replaced_is_always_read_whole(children):  # G01
    path = make_record()
    source = """
from workcell import record
for n in range(300):
    record.update(sys.argv[1], {"observed_at": str(n % 7) * 500})
"""
    writer = children.start(source, path)
    seen = 0
    while writer.poll() is None:
        assert len(set(record.read(path)["observed_at"])) <= 1
        seen += 1
    assert seen and children.join() == [0]


# --- writing


def test_create_makes_the_folders_and_the_file_private_whatever_the_umask(state):
    before = os.umask(0o002)  # D34
    try:
        path = make_record()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    folder = os.path.dirname(path)
    while folder != str(state):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        folder = os.path.dirname(folder)
    assert record.read(path)["session_id"] == SESSION
    assert os.listdir(os.path.dirname(path)) == [f"{SESSION}.json"]


def test_create_refuses_an_id_that_is_taken_and_leaves_the_first_alone():  # G13
    before = content(make_record())
    with pytest.raises(errors.WorkcellError, match="there is a record already"):
        make_record(agent="claude")
    assert content(path_of()) == before


def test_update_sets_clears_and_returns_the_whole_record():
    path = make_record(debug_log_path="/x")
    fields = record.update(path, {"debug_log_path": "", "git_branch": "main"})
    assert fields == record.read(path)
    assert (fields["debug_log_path"], fields["git_branch"]) == ("", "main")
    before = content(path)
    record.update(path, {})
    assert content(path) == before


@pytest.mark.parametrize(
    "updates", [{"colour": "blue"}, {"version": "2"}, {"status": "stopped"}, {"git_branch": "a\nb"}, {"": "x"}]
)
def test_an_update_that_no_record_may_have_changes_nothing(updates):
    before = content(make_record())
    with pytest.raises(errors.UnreadableError):
        record.update(path_of(), updates)
    assert content(path_of()) == before


def test_an_update_of_a_broken_record_changes_nothing():  # G02
    path = make_record()
    for damaged in (b"", content(path) + b"tail", b"\0" * 4096):
        write(path, damaged)
        with pytest.raises(errors.UnreadableError, match=path):
            record.update(path, {"status": "running"})
        assert content(path) == damaged


def test_a_final_record_never_runs_again():  # D5
    path = make_record()
    record.update(path, FINAL)
    for status in record.ACTIVE:
        with pytest.raises(record.FinalRecordError, match="refusing to overwrite terminal session status 'exited'"):
            record.update(path, {"status": status, "finished_at": "", "exit_status": "", "final_assurance": ""})


@pytest.mark.parametrize("field,value", [("status", "aborted"), ("exit_status", "3"), ("finished_at", "2027-01-01T00:00:00Z")])
def test_the_first_end_that_was_written_stays(field, value):  # D4, D26
    path = make_record()
    record.update(path, FINAL)
    before = content(path)
    with pytest.raises(record.FinalRecordError):
        record.update(path, {field: value})
    record.update(path, {**FINAL, field: value}, unless_final=True)
    assert content(path) == before
    record.update(path, FINAL)
    assert content(path) == before
    assert record.update(path, {field: value}, repair=True)[field] == value


def test_a_final_record_still_takes_other_fields():
    path = make_record()
    record.update(path, FINAL)
    assert record.update(path, {"image_ref": "x"})["image_ref"] == "x"


def test_updates_at_once_lose_nothing(children):  # D5
    path = make_record()
    source = """
from workcell import record
for n in range(25):
    record.update(sys.argv[1], {sys.argv[2]: str(n)}, timeout_s=60)
"""
    names = ["git_branch", "git_head", "git_base", "observed_at", "image_ref", "bootstrap_id"]
    for name in names:
        children.start(source, path, name)
    assert children.join(120) == [0] * len(names)
    fields = record.read(path)
    assert [fields[name] for name in names] == ["24"] * len(names)
    assert os.listdir(os.path.dirname(path)) == [f"{SESSION}.json"]


def test_a_writer_that_is_killed_leaves_the_old_record_or_the_new(children):  # G01
    path = make_record()
    make_record(OTHER)
    source = """
from workcell import record
print("go", flush=True)
n = 0
while True:
    n += 1
    record.update(sys.argv[1], {"observed_at": str(n % 10) * 4000})
"""
    chance = random.Random(1)
    for _ in range(scaled(500, 25)):
        child = children.start(source, path)
        assert child.stdout.readline() == "go\n"
        end = time.monotonic() + chance.random() * 0.03
        while time.monotonic() < end:
            pass
        child.kill()
        child.wait(10)
        assert len(set(record.read(path)["observed_at"])) <= 1
        assert record.read(path_of(OTHER))["session_id"] == OTHER
    children.join()
    record.update(path, FINAL)
    left = [name for name in os.listdir(os.path.dirname(path)) if not name.endswith(".json")]
    assert left == [], "the last writer sweeps what the killed ones left"


def test_a_full_disk_leaves_the_old_record(monkeypatch):  # G05
    path = make_record()
    before = content(path)

    def fail(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        record.update(path, {"git_branch": "x"})
    monkeypatch.undo()
    assert content(path) == before


def test_a_record_that_would_be_too_large_is_not_written():
    path = make_record()
    before = content(path)
    with pytest.raises(errors.UnreadableError, match="more than 1048576"):
        record.update(path, {"git_branch": "x" * record.LIMIT_BYTES})
    assert content(path) == before


# --- finding


def test_load_opens_the_named_file_and_no_other(monkeypatch):  # D10
    path = make_record()
    for number in range(50):
        write(path_of(f"bad-{number}"), b"not json")
    opened = []
    real_open = os.open
    monkeypatch.setattr(os, "open", lambda name, *args, **more: opened.append(name) or real_open(name, *args, **more))
    fields, found = record.load(SESSION)
    assert (fields["session_id"], found) == (SESSION, path)
    assert [name for name in opened if str(name).endswith(".json")] == [f"{SESSION}.json"]


def test_load_finds_a_file_that_is_named_otherwise():
    os.rename(make_record(), path_of("renamed"))
    assert record.load(SESSION)[1] == path_of("renamed")
    with pytest.raises(errors.NotFoundError):
        record.load("renamed")


@pytest.mark.parametrize(
    "session_id",
    [
        "",
        " ",
        "../" + SESSION,
        "/etc/passwd",
        "a\0b",
        "a\nb",
        "x" * 300,
        SESSION[:-1],
        SESSION + "0",
        "..",
        ".",
        "-x",
        "%2e%2e",
    ],
)
def test_an_id_is_exact_and_never_a_path(session_id):  # F13, F15
    make_record()
    with pytest.raises(errors.NotFoundError, match="file does not exist"):
        record.load(session_id)


def test_a_broken_record_is_named_by_its_own_id_and_by_no_other():
    make_record()
    write(path_of(OTHER), b"{}")
    assert record.load(SESSION)[0]["session_id"] == SESSION
    with pytest.raises(errors.UnreadableError, match=OTHER):
        record.load(OTHER)
    with pytest.raises(errors.NotFoundError, match="1 records or folders could not be read"):
        record.load("another")


def test_two_records_with_one_id_are_an_error_that_names_both():
    paths = [make_record(), make_record(profile="wcl-borealis")]
    with pytest.raises(errors.UnreadableError, match="multiple") as caught:
        record.load(SESSION)
    assert all(path in str(caught.value) for path in paths)


def test_the_state_root_comes_before_the_legacy_root(tmp_path):
    legacy = tmp_path / ".colima" / "old" / "sessions" / f"{SESSION}.json"
    write(str(legacy), record.encode(fields_of(profile="old")))
    for folder in (tmp_path / ".colima", legacy.parent.parent, legacy.parent):
        folder.chmod(0o700)
    assert record.load(SESSION)[1] == str(legacy)
    path = make_record()
    assert record.load(SESSION)[1] == path
    assert [found for _, found in record.entries([])] == [path]


def test_entries_show_all_that_is_good_and_say_what_is_not():  # D10, G02
    make_record()
    make_record(OTHER)
    write(path_of("torn"), content(path_of())[:100])
    write(path_of("empty"), b"")
    os.mkfifo(path_of("fifo"), 0o600)
    write(path_of("open"), content(path_of()), 0o644)
    problems = []
    assert ids_of(record.entries(problems)) == [OTHER, SESSION]
    assert sorted(os.path.basename(problem.what) for problem in problems) == [
        "empty.json",
        "fifo.json",
        "open.json",
        "torn.json",
    ]


def test_a_folder_of_records_that_cannot_be_trusted_hides_no_other():
    make_record()
    os.chmod(os.path.dirname(make_record(OTHER, profile="wcl-open")), 0o777)
    problems = []
    assert ids_of(record.entries(problems)) == [SESSION]
    assert len(problems) == 1 and "others may change" in problems[0].why


def test_a_record_that_goes_while_they_are_listed_is_no_error(monkeypatch):  # D10
    make_record()
    path = make_record(OTHER)
    real_names = record._record_names

    def names_then_delete(dir_fd):
        found = real_names(dir_fd)
        os.unlink(path)
        return found

    monkeypatch.setattr(record, "_record_names", names_then_delete)
    problems = []
    assert (ids_of(record.entries(problems)), problems) == ([SESSION], [])


def test_a_linked_state_root_and_home_are_read(tmp_path, monkeypatch):  # D35
    make_record()
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "link").symlink_to(tmp_path / "state")
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(tmp_path / "other" / "link"))
    problems = []
    assert (ids_of(record.entries(problems)), problems) == ([SESSION], [])
    assert record.load(SESSION)[0]["session_id"] == SESSION
    record.update(layout.record_path(layout.profile_dir("local_sandbox", "bubblewrap", "wcl-atlas"), SESSION), {"ui": "cli"})
    assert record.load(SESSION)[0]["ui"] == "cli"


def test_a_start_in_the_future_is_listed_first_and_harms_nothing():  # L03
    make_record(started_at="2999-01-01T00:00:00Z")
    make_record(OTHER, started_at="nonsense")
    assert ids_of(record.entries([])) == [OTHER, SESSION]


# --- views


@pytest.mark.parametrize(
    "changes,expected",
    [
        ({"monitor_pid": "7"}, "detached"),
        ({"monitor_pid": " "}, "attached"),
        ({"workspace_origin": "/w", "workspace": "/w"}, "attached"),
        ({"workspace_origin": "/w", "workspace": "/c", "container_name": "n"}, "detached"),
        ({"workspace_origin": "/w", "workspace": "/w", "worktree_path": "/c", "container_name": "n"}, "detached"),
        ({"container_name": "n"}, "detached"),
        ({"live_status": "stopped", "container_name": "n"}, "attached"),
        ({"live_status": " running ", "container_name": "n"}, "detached"),
    ],
)
def test_control_tells_who_holds_the_terminal(changes, expected):
    assert record.control({**record.decode(record.encode(raw())), **changes}) == expected


def test_the_text_form_has_forty_three_keys_and_computed_ones_among_them():
    fields = record.decode(record.encode(raw(workspace_origin="/o", current_assurance=" ", initial_assurance="i")))
    pairs = dict(record.text_pairs(fields))
    assert len(pairs) == 43 and list(pairs)[:2] == ["session_id", "profile"]
    assert (pairs["display_workspace"], pairs["display_git_branch"], pairs["assurance"]) == ("/o", "none", "i")
    assert pairs["target_summary"] == "local_sandbox/bubblewrap/wcl-atlas"


def test_a_found_live_status_is_shown_and_a_recorded_one_left_as_it_is():
    fields = record.decode(record.encode(raw(live_status="")))
    assert record.with_live_status(fields, "running") is fields
    assert record.with_live_status(fields, "lost")["live_status"] == "lost"
    assert fields["live_status"] == ""


@given(st.data())
def test_the_short_way_of_decoding_changes_no_answer(data):
    good = record.encode({**raw(), "monitor_pid": "12", "session_audit_dir": "/srv/x", "git_branch": "wörk"})
    at = data.draw(st.integers(0, len(good)))
    piece = data.draw(
        st.sampled_from([b"", b'"', b"\\", b",", b" ", b"\n", b"\t", b"\0", b'"ui": "cli", ', b"\\u0041", b"\xff", b"1"])
    )
    changed = good[:at] + piece + good[at + data.draw(st.integers(0, 3)) :]

    def outcome():
        try:
            return record.decode(changed)
        except errors.UnreadableError as error:
            return str(error)

    quickly = outcome()
    short_way = record._quick
    record._quick = lambda data: None
    try:
        assert outcome() == quickly
    finally:
        record._quick = short_way
