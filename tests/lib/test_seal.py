"""Seals: made once, over what was checked; and each way in which a log or a seal may be wrong has its own word."""

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_support import FINAL, OTHER, SESSION, Children, add_events, content, log_of, make_record, path_of, write
from workcell import audit, errors, keys, layout, record, seal


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(root))
    monkeypatch.delenv("COLIMA_STATE_ROOT", raising=False)
    return root


@pytest.fixture
def sealed():
    """Two sessions that took turns in one log, both over and sealed; returns the path of the first one's seal."""
    for session_id in (SESSION, OTHER):
        make_record(session_id)
    add_events("launch")
    add_events("launch", session_id=OTHER)
    add_events("command", "exit")
    add_events("command", "exit", session_id=OTHER)
    for session_id in (SESSION, OTHER):
        record.update(path_of(session_id), FINAL)
        assert seal.seal_session(path_of(session_id), session_id, "bubblewrap")
    return layout.seal_path(path_of())


def verdict(session_id=SESSION):
    return verify(session_id).verdict


def verify(session_id=SESSION):
    return seal.verify_session(path_of(session_id), record.read(path_of(session_id)))


def change_lines(change):
    lines = content(log_of()).splitlines(keepends=True)
    write(log_of(), b"".join(change(lines)))


def change_seal(path, **changes):
    write(path, json.dumps({**json.loads(content(path)), **changes}).encode())


# --- sealing


def test_a_seal_is_private_and_verifies(sealed):
    result = verify()
    assert (result.verdict, result.records) == ("verified", 3)
    assert stat.S_IMODE(os.stat(sealed).st_mode) == 0o600
    assert list(json.loads(content(sealed))) == list(seal.FIELDS)
    assert verdict(OTHER) == "verified"


def test_sealing_again_keeps_the_seal_that_is_there(sealed):  # D26
    before = content(sealed)
    assert seal.seal_session(path_of(), SESSION, "bubblewrap", "2030-01-01T00:00:00Z")["signed_at"] != "2030-01-01T00:00:00Z"
    assert content(sealed) == before


def test_a_log_that_changed_after_sealing_is_not_sealed_again(sealed):  # J08
    before = content(sealed)
    add_events("command")
    with pytest.raises(errors.WorkcellError, match="has a seal that does not fit"):
        seal.seal_session(path_of(), SESSION, "bubblewrap")
    assert content(sealed) == before


def test_a_new_key_does_not_replace_a_seal_that_no_longer_fits(sealed):  # J08
    for name in os.listdir(layout.signing_dir()):
        os.unlink(os.path.join(layout.signing_dir(), name))
    with pytest.raises(errors.WorkcellError, match="does not fit"):
        seal.seal_session(path_of(), SESSION, "bubblewrap")


@pytest.mark.parametrize("trouble", ["open key", "folder in the way", "broken key"])
def test_a_session_that_could_not_be_sealed_can_be_sealed_later(trouble):  # J06
    path = make_record()
    add_events("launch", "exit")
    record.update(path, FINAL)
    signing = layout.signing_dir()
    key = write(signing + "/signing.key", b"x", 0o644 if trouble == "open key" else 0o600)
    os.chmod(signing, 0o700)
    if trouble == "folder in the way":
        os.unlink(key)
        os.mkdir(key)
    with pytest.raises(errors.WorkcellError):
        seal.seal_session(path, SESSION, "bubblewrap")
    assert (verdict(), os.path.lexists(layout.seal_path(path))) == ("unsealed", False)
    os.rmdir(key) if os.path.isdir(key) else os.unlink(key)
    assert seal.seal_session(path, SESSION, "bubblewrap")
    assert verdict() == "verified"


def test_a_full_disk_at_sealing_leaves_no_half_of_a_seal(monkeypatch):  # G05, J06
    path = make_record()
    add_events("launch", "exit")
    keys.load_or_make(layout.signing_dir())

    def fail(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        seal.seal_session(path, SESSION, "bubblewrap")
    monkeypatch.undo()
    assert os.listdir(os.path.dirname(path)) == [f"{SESSION}.json"]
    assert seal.seal_session(path, SESSION, "bubblewrap")


def test_a_session_without_a_chain_gets_no_seal_and_no_error():
    path = make_record(target_provider="apple-container")
    write(log_of(), f"ts=2026-03-02T08:15:00Z session_id={SESSION} event=session_started v=1\n".encode())
    assert seal.seal_session(path, SESSION, "apple-container") is None
    assert verdict() == "unsupported"


@pytest.mark.parametrize("damage", ["broken", "empty", "missing"])
def test_what_cannot_be_vouched_for_is_not_sealed(damage):
    path = make_record()
    add_events("launch", "exit")
    if damage == "broken":
        change_lines(lambda lines: [lines[0].replace(b"launch", b"lunch"), lines[1]])
    elif damage == "empty":
        write(log_of(), b"")
    else:
        os.unlink(log_of())
    with pytest.raises(errors.WorkcellError, match="cannot be sealed"):
        seal.seal_session(path, SESSION, "bubblewrap")
    assert not os.path.lexists(layout.seal_path(path))


@pytest.mark.parametrize("tail", [b"garbage", b"$'open", b"timestamp=x event=exit session_id=" + SESSION.encode()])
def test_a_torn_line_after_a_session_does_not_keep_it_from_being_sealed(tail):  # J05
    path = make_record()
    add_events("launch", "exit")
    write(log_of(), content(log_of()) + tail)
    made = seal.seal_session(path, SESSION, "bubblewrap")
    make_record(OTHER)
    add_events("launch", session_id=OTHER)
    assert made and verdict() == "verified", "once the torn line is out of the way"


def test_a_last_line_that_lacks_only_its_end_is_sealed():
    path = make_record()
    add_events("launch", "exit")
    write(log_of(), content(log_of())[:-1])
    record.update(path, FINAL)
    assert seal.seal_session(path, SESSION, "bubblewrap")
    assert verify().records == 2 and verdict() == "verified"


def test_sealers_at_once_agree_on_one_seal():
    path = make_record()
    add_events("launch", "exit")
    children = Children()
    for _ in range(4):
        children.start("from workcell import seal\nseal.seal_session(sys.argv[1], sys.argv[2], 'bubblewrap')", path, SESSION)
    assert children.join() == [0] * 4
    assert verdict() == "verified"
    assert sorted(os.listdir(os.path.dirname(path))) == [f"{SESSION}.audit-sig", f"{SESSION}.json"]


# --- verdicts on the log


def test_a_session_without_a_seal_is_unsealed_and_the_reason_says_whether_it_still_runs():  # J06, J12
    path = make_record()
    add_events("launch")
    assert verdict() == "unsealed" and "recorded as running" in verify().why
    record.update(path, FINAL)
    assert verify().why == "it has no audit seal"


@pytest.mark.parametrize(
    "change,expected",
    [
        (lambda lines: [], "cut"),
        (lambda lines: lines[:3], "cut"),
        (lambda lines: lines[:2], "cut"),
        (lambda lines: lines[:1], "cut"),
        (lambda lines: lines[1:], "broken-chain"),
        (lambda lines: lines[:1] + lines[2:], "broken-chain"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "broken-chain"),
        (lambda lines: [lines[0].replace(b"launch", b"lunch"), *lines[1:]], "broken-chain"),
        (lambda lines: [*lines[:3], lines[3].replace(b"event=exit", b"event=exiT"), *lines[4:]], "broken-chain"),
        (lambda lines: [lines[0], b"a line\n", *lines[1:]], "broken-chain"),
        (lambda lines: [lines[0], b"$'open\n", *lines[1:]], "broken-chain"),
        (lambda lines: [*lines, b"$'open\n"], "broken-chain"),
        # What is hashed has a NUL between two words: one in the place of a blank must not pass for it.
        (lambda lines: [lines[0].replace(b" event=", b"\0event="), *lines[1:]], "broken-chain"),
        (
            lambda lines: [lines[0].replace(b"event=launch session_id=", b"$'event=launch\\000session_id='"), *lines[1:]],
            "broken-chain",
        ),
        (lambda lines: [*lines, b"$'open"], "torn"),
        (lambda lines: [*lines, b"session_id=" + SESSION.encode() + b" half"], "torn"),
        (lambda lines: [*lines[:3], lines[3][:-10]], "torn"),
        (lambda lines: [*lines[:3], lines[3][:20]], "torn"),
        (lambda lines: [*lines, b"event=x session_id=" + SESSION.encode() + b"\n"], "broken-chain"),
        (lambda lines: [line.partition(b"record_digest")[0] + b"\n" for line in lines], "broken-chain"),
    ],
)
def test_each_kind_of_damage_to_the_log_has_its_word(sealed, change, expected):  # J03, J05
    change_lines(change)
    assert verdict() == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:4],
        lambda lines: [*lines[:4], lines[4].replace(b"command", b"kommand"), *lines[5:]],
        lambda lines: [*lines, b"later garbage\n"],
        lambda lines: [*lines, b"torn but of nobody"],
        lambda lines: [line.replace(b" \n", b"\r\n") for line in lines],
        lambda lines: [b"\n", lines[0], b" \t\n", *lines[1:]],
    ],
)
def test_what_comes_after_a_session_does_not_matter_to_it(sealed, change):  # J11
    change_lines(change)
    assert verdict() == "verified"


def test_an_event_after_the_seal_is_told_from_lost_ones(sealed):  # D26
    add_events("attach")
    assert verify().verdict == "broken-chain" and "come after the one that was sealed" in verify().why


def test_a_log_that_is_gone_is_cut_and_one_that_others_may_read_unreadable(sealed):
    os.chmod(log_of(), 0o644)
    assert verdict() == "unreadable"
    os.unlink(log_of())
    assert verdict() == "cut"


def test_a_rewritten_log_that_chains_well_does_not_fit_the_seal(sealed):
    os.unlink(log_of())
    add_events("launch", "command", "exit")
    assert verify().verdict == "cut" and "rewritten" in verify().why


def test_a_clock_that_went_back_is_noted_and_no_damage():  # L01
    path = make_record()
    for event, time in (("launch", "2026-03-02T09:00:00Z"), ("exit", "2026-03-02T08:00:00Z")):
        audit.append_event(log_of(), event, SESSION, [], timestamp=time)
    seal.seal_session(path, SESSION, "bubblewrap")
    result = verify()
    assert result.verdict == "verified"
    assert result.notes == ["the clock went back between two records, 2026-03-02T09:00:00Z to 2026-03-02T08:00:00Z"]


def test_a_large_log_is_verified_with_a_remark(sealed, monkeypatch):  # D11
    monkeypatch.setattr(audit, "LARGE_LOG_BYTES", 100)
    assert verdict() == "verified" and "other readers refuse" in verify().notes[0]


def test_a_log_that_shrinks_while_it_is_read_is_read_again(sealed, monkeypatch):
    real, sizes = audit.snapshot_size, []

    def too_large_once(fd, patience_s=0.25):
        sizes.append(1)
        return real(fd, patience_s) + (50 if len(sizes) == 1 else 0)

    monkeypatch.setattr(audit, "snapshot_size", too_large_once)
    assert (verdict(), len(sizes)) == ("verified", 2)


def test_verifying_while_others_append_always_gives_the_right_answer(sealed):
    source = """
from workcell import audit
for n in range(100):
    audit.append_event(sys.argv[1], "command", "someone-else", [("argv", "x" * 30000)])
"""
    children = Children()
    writer = children.start(source, log_of())
    verdicts = set()
    while writer.poll() is None:
        verdicts.add(verdict())
    assert children.join() == [0] and verdicts == {"verified"}


# --- verdicts on the seal


@pytest.mark.parametrize(
    "changes,expected",
    [
        ({"version": 2}, "bad-seal"),
        ({"version": 1.0}, "bad-seal"),
        ({"version": True}, "bad-seal"),
        ({"algorithm": "ed25519"}, "bad-seal"),
        ({"session_id": OTHER}, "bad-seal"),
        ({"signature": "%%%"}, "bad-seal"),
        ({"signature": "AAAA"}, "bad-seal"),
        ({"signature": ""}, "bad-seal"),
        ({"key_id": ""}, "bad-seal"),
        ({"key_id": "../" + "0" * 29}, "bad-seal"),
        ({"key_id": "0" * 32}, "wrong-key"),
        ({"note": "x"}, "bad-seal"),
        ({"head_digest": "0" * 64}, "verified"),
        ({"signed_at": "2031-01-01T00:00:00Z"}, "verified"),
    ],
)
def test_each_kind_of_damage_to_the_seal_has_its_word(sealed, changes, expected):
    change_seal(sealed, **changes)
    assert verdict() == expected


@pytest.mark.parametrize("text", [b"", b"x", b"[]", b"{}", b"null", b"[" * 50_000, b"\xff"])
def test_a_seal_that_is_no_seal_is_bad(sealed, text):
    write(sealed, text)
    assert verdict() == "bad-seal"


def test_content_after_a_seal_and_a_name_twice_are_bad(sealed):
    good = content(sealed)
    for text in (good + b"x", good.replace(b"{", b'{"version": 1, ', 1)):
        write(sealed, text)
        assert verdict() == "bad-seal"


@pytest.mark.parametrize("damage", ["open", "symlink", "hardlink", "fifo", "large"])
def test_a_seal_file_that_others_could_have_put_there_is_bad(sealed, damage, tmp_path):  # D27
    if damage == "open":
        os.chmod(sealed, 0o644)
    elif damage == "hardlink":
        os.link(sealed, tmp_path / "second")
    elif damage == "large":
        write(sealed, content(sealed) + b" " * 100_000)
    else:
        os.rename(sealed, tmp_path / "real")
        os.symlink(tmp_path / "real", sealed) if damage == "symlink" else os.mkfifo(sealed, 0o600)
    assert verdict() == "bad-seal"


def test_a_seal_of_another_session_does_not_fit(sealed):  # J08
    write(sealed, content(layout.seal_path(path_of(OTHER))))
    assert verdict() == "bad-seal"
    change_seal(sealed, session_id=SESSION)
    assert verdict() == "bad-seal"


def test_a_seal_of_another_host_is_told_from_a_damaged_one(sealed, tmp_path):  # J12
    key = keys.load_or_make(str(tmp_path / "other-store"))
    foreign = seal._make(key, SESSION, json.loads(content(sealed))["head_digest"], "2026-03-02T09:00:00Z")
    write(sealed, json.dumps(foreign).encode())
    assert verdict() == "wrong-key"
    change_seal(sealed, key_id=json.loads(content(layout.seal_path(path_of(OTHER))))["key_id"])
    assert verdict() == "bad-seal"


def test_an_open_key_store_is_unreadable(sealed):
    os.chmod(layout.signing_dir(), 0o755)
    assert verdict() == "unreadable"


def test_a_record_that_names_no_log_or_another_one_is_a_mismatch(sealed):
    record.update(path_of(), {"audit_log_path": ""})
    assert verdict() == "path-mismatch"
    record.update(path_of(), {"audit_log_path": "/srv/other.log"})
    assert verdict() == "path-mismatch"


@given(st.data())
def test_no_change_of_a_byte_in_the_sessions_part_verifies(data):
    if not os.path.exists(path_of()):
        make_record()
        add_events("launch", "exit")
        seal.seal_session(path_of(), SESSION, "bubblewrap")
    good = content(log_of())
    at = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.integers(0, 255))
    changed = good[:at] + bytes([byte]) + good[at + 1 :]
    write(log_of(), changed)
    try:
        # What counts is what the lines say: bytes that only part words or lines may be other ones of that kind.
        same = [sorted(audit.decode(line)) for line in changed.split(b"\n")] == [
            sorted(audit.decode(line)) for line in good.split(b"\n")
        ]
    except errors.UnreadableError:
        same = False
    result = verdict()
    write(log_of(), good)
    assert (result == "verified") == same or (result == "verified" and changed.split() == good.split())


@given(st.data())
def test_any_flipped_bit_or_dropped_doubled_or_swapped_line_up_to_the_head_is_caught(data):  # J03, J05
    if not os.path.exists(path_of()):
        make_record()
        for number in range(4):
            add_events("launch", session_id=OTHER)
            audit.append_event(log_of(), "command", SESSION, [("argv", f"it's message {number}, ünd a long one")])
        seal.seal_session(path_of(), SESSION, "bubblewrap")
        add_events("exit", session_id=OTHER)
    good = content(log_of())
    lines = good.splitlines(keepends=True)
    head = len(lines) - 2  # the last line of the session; what comes after it is no matter of its
    at = data.draw(st.integers(0, head))
    edit = data.draw(st.sampled_from(["flip", "drop", "double", "swap"]))
    if edit == "flip":
        place, bit = data.draw(st.integers(0, len(lines[at]) - 1)), data.draw(st.integers(0, 7))
        lines[at] = lines[at][:place] + bytes([lines[at][place] ^ 1 << bit]) + lines[at][place + 1 :]
    elif edit == "drop":
        del lines[at]
    elif edit == "double":
        lines.insert(at, lines[at])
    else:
        other = data.draw(st.integers(0, head).filter(lambda number: number != at))
        lines[at], lines[other] = lines[other], lines[at]
    write(log_of(), b"".join(lines))
    try:
        assert verdict() in ("broken-chain", "cut", "torn")
    finally:
        write(log_of(), good)
    assert verdict() == "verified"


def test_sessions_of_one_log_are_verified_in_one_pass_with_the_verdicts_that_each_has_alone(monkeypatch):
    sessions = []
    for number in range(6):
        session_id = f"{SESSION[:-1]}{number}"
        path = make_record(session_id, **FINAL)
        add_events("launch", "exit", session_id=session_id)
        if number != 4:
            seal.seal_session(path, session_id, "bubblewrap")
        sessions.append((record.load(session_id)[0], path))
    record.update(sessions[3][1], {"audit_log_path": "/srv/other.log"})
    sessions[3] = (record.read(sessions[3][1]), sessions[3][1])
    os.unlink(layout.seal_path(sessions[1][1]))
    write(layout.seal_path(sessions[1][1]), content(layout.seal_path(sessions[0][1])))
    lines = content(log_of()).splitlines(keepends=True)
    write(log_of(), b"".join(lines[:11]))  # the end of the last one is gone
    opened = []
    real = audit.open_log
    monkeypatch.setattr(audit, "open_log", lambda path: opened.append(path) or real(path))
    together = [result.verdict for _, _, result in seal.verify_sessions(sessions)]
    assert opened == [log_of()]
    assert together == [seal.verify_session(path, fields).verdict for fields, path in sessions]
    assert together == ["verified", "bad-seal", "verified", "path-mismatch", "unsealed", "cut"]
