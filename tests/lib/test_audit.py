"""The audit log: whole lines, one chain, each session's events and no other's."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_support import (
    FINAL,
    LIB,
    OTHER,
    SESSION,
    Children,
    add_events,
    content,
    log_of,
    make_record,
    path_of,
    profile_folder,
    write,
)
from support import scaled
from workcell import audit, errors, layout, lock, record


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


def chain_of(session_id=SESSION, log=None, provider="bubblewrap"):
    log = log or log_of()
    fd = audit.open_log(log)
    try:
        return audit.check_chain(fd, os.fstat(fd).st_size, log, session_id, provider)
    finally:
        os.close(fd)


def events_of(session_id=SESSION):
    return [dict(audit.decode(line))[b"event"].decode() for line in audit.session_lines(path_of(), fields_for(session_id))]


def fields_for(session_id):
    return {"session_id": session_id, "audit_log_path": "", "target_provider": "bubblewrap"}


def torn_files():
    return sorted(name for name in os.listdir(profile_folder()) if ".torn-" in name)


# --- appending


def test_each_event_links_to_the_one_before():
    digests = add_events("launch", "attach", "exit")
    lines = content(log_of()).splitlines(keepends=True)
    assert len(lines) == 3 and all(line.endswith(b" \n") for line in lines)
    assert b"prev_digest" not in lines[0]
    assert b"prev_digest=" + digests[0].encode() in lines[1]
    assert lines[2].endswith(b"record_digest=" + digests[2].encode() + b" \n")
    chain = chain_of()
    assert (chain.problem, chain.head, chain.lines) == ("", digests[2], 3)


def test_the_log_is_private_from_birth_whatever_the_umask():  # K02
    before = os.umask(0)
    try:
        add_events("launch")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(log_of()).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(profile_folder()).st_mode) == 0o700
    os.chmod(log_of(), 0o644)
    add_events("exit")
    assert stat.S_IMODE(os.stat(log_of()).st_mode) == 0o600


@pytest.mark.parametrize("make", ["symlink", "hardlink", "fifo", "folder"])
def test_only_the_log_itself_is_written_to(make, tmp_path):  # D14
    victim = write(str(tmp_path / "victim"), b"keep")
    os.makedirs(profile_folder(), mode=0o700)
    {
        "symlink": lambda: os.symlink(victim, log_of()),
        "hardlink": lambda: os.link(victim, log_of()),
        "fifo": lambda: os.mkfifo(log_of(), 0o600),
        "folder": lambda: os.mkdir(log_of(), 0o700),
    }[make]()
    with pytest.raises(errors.UnreadableError):
        add_events("launch")
    assert content(victim) == b"keep"


hostile = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "a b",
        "session_id=other",
        "x record_digest=" + "0" * 64,
        "\n",
        "a\nevent=exit",
        "'",
        "$'",
        "\\",
        "=",
        "\x00",
        "\udcff",
        "é",
    ]
)


@given(st.dictionaries(st.sampled_from(["argv", "source", "reason", "workspace", "command"]), hostile))
def test_values_come_back_as_they_were_and_forge_no_field(values):  # J09
    line = audit._event_line("", "2026-03-02T08:15:00Z", "command", SESSION, list(values.items()))
    assert line.count(b"\n") == 1
    pairs = dict(audit.decode(line))
    assert set(pairs) == {b"timestamp", b"event", b"session_id", b"record_digest", *(k.encode() for k in values)}
    for key, value in values.items():
        if value.isprintable() or not any("\ud800" <= character <= "\udfff" for character in value):
            assert pairs[key.encode()].decode() == value.replace("\0", "\u2400")


def test_bytes_that_are_no_text_are_kept_as_bytes():
    audit.append_event(log_of(), "command", SESSION, [("argv", os.fsdecode(b"a\xff\n"))])
    assert dict(audit.decode(content(log_of())))[b"argv"] == b"a\xff\n"
    assert chain_of().problem == ""


def test_a_key_that_is_there_twice_is_a_mistake_of_ours():
    with pytest.raises(ValueError):
        audit.append_event(log_of(), "command", SESSION, [("event", "x")])
    assert content(log_of()) == b""


def test_a_message_too_long_for_a_line_is_cut_and_its_digest_kept():
    message = "é" * (1 << 20)
    audit.append_event(log_of(), "command", SESSION, [("source", "host-cli"), ("argv", message)])
    line = content(log_of())
    assert len(line) <= audit.LINE_LIMIT_BYTES
    argv = dict(audit.decode(line))[b"argv"].decode()
    import hashlib

    digest = hashlib.sha256(message.encode()).hexdigest()
    assert argv.endswith(f"... [cut: {2 << 20} bytes, sha256 {digest}]")
    assert chain_of().problem == ""


@pytest.mark.parametrize("over", ["sealed", "final", "gone"])
def test_a_session_that_is_over_gets_no_more_events(over):  # D26
    path = make_record()
    add_events("launch")
    before = content(log_of())
    if over == "sealed":
        write(layout.seal_path(path), b"{}")
    elif over == "final":
        record.update(path, FINAL)
    else:
        os.unlink(path)
    assert audit.append_event(log_of(), "attach", SESSION, [], record_path=path) is None
    assert content(log_of()) == before
    make_record(OTHER)
    assert audit.append_event(log_of(), "attach", OTHER, [], record_path=path_of(OTHER))


def test_a_broken_record_does_not_keep_its_events_out():
    path = write(path_of(), b"broken")
    assert audit.append_event(log_of(), "exit", SESSION, [], record_path=path)


def test_many_writers_make_one_line_of_succession(children):  # J02
    source = """
from workcell import audit
for n in range(int(sys.argv[3])):
    assert audit.append_event(sys.argv[1], "command", sys.argv[2], [("argv", "x y" * n)], timeout_s=120)
"""
    writers, events = scaled(50, 6), scaled(200, 20)
    for number in range(writers):
        children.start(source, log_of(), f"session-{number}", str(events))
    assert children.join(500) == [0] * writers
    assert len(content(log_of()).splitlines()) == writers * events
    for number in range(writers):
        chain = chain_of(f"session-{number}")
        assert (chain.problem, chain.lines) == ("", events)
    assert sorted(os.listdir(profile_folder())) == ["workcell.audit.log", "workcell.audit.log.lock.guard"]


def test_an_append_waits_for_a_living_writer_of_the_other_kind():
    add_events("launch")
    folder = log_of() + ".lock"
    os.mkdir(folder, 0o700)
    write(folder + "/owner.json", f'{{"pid":{os.getpid()},"started":"{lock.generation(os.getpid())}"}}\n'.encode())
    with pytest.raises(errors.BusyError):
        audit.append_event(log_of(), "exit", SESSION, [], timeout_s=0.1)
    write(folder + "/owner.json", f'{{"pid":{os.getpid()},"started":"linux:5"}}\n'.encode())
    assert audit.append_event(log_of(), "exit", SESSION, [], timeout_s=0.1)
    assert not os.path.exists(folder)


def test_the_cost_of_an_append_does_not_grow_with_the_log(monkeypatch):  # D11
    add_events("launch")
    line = content(log_of())
    write(log_of(), line * (8_000_000 // len(line)))
    got = []
    real_pread = os.pread

    def counting_pread(fd, size, offset):
        data = real_pread(fd, size, offset)
        got.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting_pread)
    add_events("exit")
    assert sum(got) < 20_000


def test_the_tail_is_found_in_lines_of_any_length():
    for length in (10, 4000, 4096, 5000, 70_000, 400_000):
        audit.append_event(log_of(), "command", SESSION, [("argv", "x" * length)])
    assert (chain_of().problem, chain_of().lines) == ("", 6)


def test_a_full_disk_leaves_the_log_as_it_was(children):  # G05
    add_events("launch")
    before = content(log_of())
    source = """
import resource, signal
from workcell import audit
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    audit.append_event(sys.argv[1], "command", sys.argv[2], [("argv", "x" * 5000)])
except OSError as error:
    print(error.errno)
"""
    child = children.start(source, log_of(), SESSION, str(len(before) + 1000))
    assert child.stdout.read().strip() == "27", "the write was cut short and then refused (EFBIG)"
    assert children.join() == [0]
    assert content(log_of()) == before
    add_events("exit")
    assert (chain_of().problem, chain_of().lines) == ("", 2)


def test_a_failed_sync_is_a_failed_append(monkeypatch):
    add_events("launch")
    before = content(log_of())
    real_fsync, failed = os.fsync, []

    def fail_once(fd):
        if not failed:
            failed.append(fd)
            raise OSError(5, "Input/output error")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(OSError, match="Input/output"):
        add_events("exit")
    assert content(log_of()) == before


# --- torn tails


@pytest.mark.parametrize(
    "tail",
    [
        b"x",
        b"timestamp=2026-03-02T08:15:00Z event=ex",
        b"\0" * 4096,
        b"\xff\xfe garbage",
        b"$'never closed",
        b"a=1 b=2 " * 40_000,
    ],
    ids=lambda tail: repr(tail[:16]),
)
def test_a_torn_line_is_kept_elsewhere_and_the_chain_goes_on(tail):  # J05, D12
    first = add_events("launch")[0]
    whole = content(log_of())
    write(log_of(), whole + tail)
    add_events("exit", session_id=OTHER)
    assert content(log_of()).startswith(whole + b"timestamp=")
    lines = [dict(audit.decode(line)) for line in content(log_of()).splitlines()]
    assert [line[b"event"] for line in lines] == [b"launch", b"audit-tail-recovered", b"exit"]
    assert (lines[1][b"reason"], lines[1][b"session_id"]) == (b"torn-tail", OTHER.encode())
    assert lines[1][b"prev_digest"] == first.encode()
    (name,) = torn_files()
    kept = os.path.join(profile_folder(), name)
    assert content(kept) == tail
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert (chain_of().problem, chain_of(OTHER).problem) == ("", "")


def test_two_torn_lines_in_one_second_are_both_kept():
    for tail in (b"one", b"two"):
        add_events("launch")
        write(log_of(), content(log_of()) + tail)
        audit.append_event(log_of(), "attach", SESSION, [], timestamp="2026-03-02T08:15:00Z")
    assert sorted(content(os.path.join(profile_folder(), name)) for name in torn_files()) == [b"one", b"two"]


@pytest.mark.parametrize("cut", [1, 2])
def test_a_line_that_lacks_only_its_end_just_gets_it(cut):  # J05
    add_events("launch", "attach")
    write(log_of(), content(log_of())[:-cut])
    add_events("exit")
    assert torn_files() == []
    assert (chain_of().problem, chain_of().lines) == ("", 3)


def test_a_line_that_is_whole_but_has_the_wrong_digest_is_torn():  # J05
    add_events("launch", "attach")
    text = content(log_of())
    write(log_of(), text[:-1].replace(b"event=attach", b"event=detach"))
    add_events("exit")
    assert len(torn_files()) == 1
    assert events_of() == ["launch", "audit-tail-recovered", "exit"]
    assert chain_of().problem == ""


def test_a_last_line_that_has_its_end_is_never_moved():  # J05
    add_events("launch")
    damaged = content(log_of()).replace(b"event=launch", b"event=lunch")
    write(log_of(), damaged)
    add_events("exit")
    assert content(log_of()).startswith(damaged) and torn_files() == []
    assert chain_of().problem == "broken-chain"


def test_garbage_with_an_end_is_passed_over_when_linking():
    digest = add_events("launch")[0]
    write(log_of(), content(log_of()) + b"garbage\n\n$'record_digest=zz\n")
    add_events("exit")
    assert b"prev_digest=" + digest.encode() in content(log_of()).splitlines()[-1]


def test_a_refused_event_does_not_touch_a_torn_line():
    path = make_record()
    add_events("launch")
    record.update(path, FINAL)
    torn = content(log_of()) + b"half"
    write(log_of(), torn)
    assert audit.append_event(log_of(), "attach", SESSION, [], record_path=path) is None
    assert content(log_of()) == torn


# --- reading


def test_the_lines_of_a_session_are_its_own():
    add_events("launch", "exit")
    add_events("launch", session_id=OTHER)
    audit.append_event(log_of(), "command", OTHER, [("argv", f"x session_id={SESSION}")])  # D13
    audit.append_event(log_of(), "command", OTHER, [("argv", f"x\n session_id={SESSION}")])
    assert events_of() == ["launch", "exit"]
    assert events_of(OTHER) == ["launch", "command", "command"]
    assert events_of(SESSION[:-1]) == []


def test_an_id_that_is_written_with_escapes_is_still_the_sessions():
    escaped = b"timestamp=t event=x $'session_id=2026\\0603\\0602T081500Z-1f3a9c20' "
    add_events("launch")
    write(log_of(), content(log_of()) + escaped + b"\n")
    assert len(list(audit.session_lines(path_of(), fields_for(SESSION)))) == 2


def test_an_event_is_looked_for_by_its_name():
    assert not audit.has_event(log_of(), SESSION, "exit")
    add_events("launch")
    audit.append_event(log_of(), "command", SESSION, [("argv", "event=exit")])
    add_events("exit", session_id=OTHER)
    assert not audit.has_event(log_of(), SESSION, "exit")
    assert audit.has_event(log_of(), SESSION, "command")


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_of_just_the_limit_is_read_and_a_longer_one_refused(ends):
    for extra, good in ((0, True), (1, False)):
        line = b"x" * (audit.LINE_LIMIT_BYTES - ends + extra) + b"\n" * ends
        write(log_of(), b"a=1\n" + line)
        fd = audit.open_log(log_of())
        try:
            if good:
                assert len(list(audit.lines(fd, len(line) + 4, log_of()))) == 2
            else:
                with pytest.raises(errors.UnreadableError, match="line 2 has more than 1048576 bytes"):
                    list(audit.lines(fd, len(line) + 4, log_of()))
        finally:
            os.close(fd)


@pytest.mark.parametrize("damage", ["open", "link", "symlink"])
def test_a_log_that_others_could_have_changed_is_refused(damage, tmp_path):
    add_events("launch")
    if damage == "open":
        os.chmod(log_of(), 0o640)
    elif damage == "link":
        os.link(log_of(), tmp_path / "second")
    else:
        os.rename(log_of(), tmp_path / "real")
        os.symlink(tmp_path / "real", log_of())
    with pytest.raises(errors.UnreadableError):
        events_of()


def test_a_record_that_names_another_log_is_refused_and_another_spelling_is_not():
    path = make_record()
    fields = record.read(path)
    assert audit.canonical_log(path, fields) == log_of()
    fields["audit_log_path"] = os.path.dirname(log_of()) + "/.//sessions/../workcell.audit.log"
    assert audit.canonical_log(path, fields) == log_of()
    fields["audit_log_path"] = "/etc/passwd"
    with pytest.raises(errors.UnreadableError, match="canonical location"):
        audit.canonical_log(path, fields)


def test_the_path_through_a_linked_state_root_is_the_same_log(tmp_path, monkeypatch):  # D35
    path = make_record()
    (tmp_path / "link").symlink_to("state")
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(tmp_path / "link"))
    named = str(tmp_path / "link") + log_of()[len(str(tmp_path / "link")) :]
    assert audit.canonical_log(path, {**fields_for(SESSION), "audit_log_path": named}) == audit.layout.audit_log_path(path)


@given(st.binary(max_size=300))
def test_any_bytes_in_a_log_give_an_answer(data):
    path = write(os.path.join(profile_folder("wcl-bytes"), "workcell.audit.log"), data)
    chain = chain_of(log=path)
    assert chain.problem in ("cut", "torn", "broken-chain", "unsupported")
    assert chain_of(log=path, provider="apple-container").problem
    audit.append_event(path, "exit", SESSION, [])
    os.unlink(path)


def test_a_reader_never_sees_half_of_an_append(children):
    add_events("launch")
    source = """
from workcell import audit
for n in range(150):
    audit.append_event(sys.argv[1], "command", sys.argv[2], [("argv", "x" * 50000)])
"""
    writer = children.start(source, log_of(), OTHER)
    checked = 0
    while writer.poll() is None:
        fd = audit.open_log(log_of())
        try:
            size = audit.snapshot_size(fd, patience_s=5)
            chain = audit.check_chain(fd, size, log_of(), SESSION, "bubblewrap")
        finally:
            os.close(fd)
        assert (chain.problem, chain.torn_tail) == ("", False)
        checked += 1
    assert checked and children.join() == [0]


def test_a_log_of_any_size_is_checked_in_little_memory(children):  # D11
    add_events("launch")
    line = content(log_of())
    with open(log_of(), "ab") as file:
        for _ in range(64):
            file.write(b"".join([b"timestamp=x event=y session_id=z\n"] * 32768))
    assert os.path.getsize(log_of()) > 64 << 20 and line
    source = """
import os
from workcell import audit
fd = audit.open_log(sys.argv[1])
for line in audit.select(fd, os.fstat(fd).st_size, sys.argv[1], sys.argv[2], ""): pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    child = children.start(source, log_of(), SESSION)
    assert int(child.stdout.read()) < 60_000, "kilobytes at most"
    assert children.join() == [0]


def test_nothing_on_the_reading_side_needs_hashing():
    import subprocess
    import sys

    program = f"import sys; sys.path.insert(0, {LIB!r}); from workcell import audit, record; print(' '.join(sys.modules))"
    loaded = set(subprocess.run([sys.executable, "-I", "-S", "-c", program], stdout=-1, text=True, check=True).stdout.split())
    unwanted = {
        "hashlib",
        "_hashlib",
        "cryptography",
        "subprocess",
        "plumbum",
        "jsonschema",
        "typing",
        "pathlib",
        "tempfile",
    }
    assert not loaded & unwanted
    assert "workcell.quoting" in loaded


# --- the short ways give what the long ways give


MESSAGES = (
    b"plain", b"two words", b"it's; $HOME \\ `x`", b"a\\\\ b", b"caf\xc3\xa9\n\x1b[1m", b"", b"=",
    b"session_id=" + OTHER.encode(), b"\x01", b"'", b"$'", b"\\", b" ", b"  x ", b"\t", b"prev_digest=" + b"0" * 64,
)  # fmt: skip


def chained(messages):
    previous, made = "", []
    for at, message in enumerate(messages):
        args = [b"event=command", b"session_id=" + (SESSION, OTHER)[at % 2].encode(), b"argv=" + message]
        made.append(audit.format_line(previous, "2026-03-02T08:15:00Z", args))
        previous = made[-1][-66:-2].decode()
    return made


edits = st.sampled_from(["flip", "drop", "double", "swap", "insert", "none"])


@st.composite
def edited_logs(draw):
    made = chained(draw(st.lists(st.sampled_from(MESSAGES), min_size=2, max_size=8)))
    at = draw(st.integers(0, len(made) - 1))
    edit = draw(edits)
    if edit == "flip":
        place, bit = draw(st.integers(0, len(made[at]) - 1)), draw(st.integers(0, 7))
        made[at] = made[at][:place] + bytes([made[at][place] ^ 1 << bit]) + made[at][place + 1 :]
    elif edit == "insert":
        place = draw(st.integers(0, len(made[at])))
        piece = draw(st.sampled_from([b" ", b"\\", b"'", b"$'", b"''", b"\t", b"\0", b"\1", b"\n", b"=", b"x=y ", b"event=z "]))
        made[at] = made[at][:place] + piece + made[at][place:]
    elif edit == "drop":
        del made[at]
    elif edit == "double":
        made.insert(at, made[at])
    elif edit == "swap":
        made[at], made[at - 1] = made[at - 1], made[at]
    return b"".join(made)


def outcome(chain):
    return chain.problem, chain.why, chain.head, chain.lines, chain.torn_tail, chain.steps_back, chain.holds_wanted


@given(edited_logs(), st.sampled_from(["bubblewrap", "apple-container"]))
def test_the_short_way_of_a_check_and_one_pass_for_several_sessions_change_no_answer(data, provider):
    path = write(os.path.join(profile_folder("wcl-ways"), "workcell.audit.log"), data)
    heads = {SESSION: data[-66:-2].decode("ascii", "replace"), OTHER: "", "nobody": "x"}
    fd = audit.open_log(path)
    short_way = audit._good_line
    try:
        together = audit.check_chains(fd, len(data), path, heads, provider)
        alone = {one: audit.check_chain(fd, len(data), path, one, provider, head) for one, head in heads.items()}
        audit._good_line = lambda *words: None
        long_way = {one: audit.check_chain(fd, len(data), path, one, provider, head) for one, head in heads.items()}
    finally:
        audit._good_line = short_way
        os.close(fd)
    for one in heads:
        assert outcome(alone[one]) == outcome(long_way[one])
        if alone[one].problem not in ("torn", "broken-chain"):  # a check for one alone ends with its answer
            assert outcome(together[one]) == outcome(alone[one])
        assert outcome(together[one])[:4] == outcome(alone[one])[:4]


ID_PIECES = (
    SESSION.encode(), SESSION[:9].encode(), SESSION[9:].encode(), b"session_id=", b"session", b"_id=", b" ", b"\\", b"'",
    b"''", b"$'", b"\t", b"\n", b"x", b"argv=", b"\\062", b"2",
)  # fmt: skip


@given(st.lists(st.sampled_from(ID_PIECES), max_size=25).map(b"".join), st.integers(1, 40), st.booleans())
def test_looking_for_the_id_first_finds_the_lines_that_taking_all_apart_finds(data, block_bytes, escaped):
    if escaped:  # a line that no search for the id as it is would find
        data += b"\nsession_id=$'" + b"".join(b"\\%03o" % byte for byte in SESSION.encode()) + b"' x=y"
    path = write(os.path.join(profile_folder("wcl-find"), "workcell.audit.log"), data)
    fd = audit.open_log(path)
    usual = audit._BLOCK_BYTES
    try:
        audit._BLOCK_BYTES = block_bytes
        for provider in ("bubblewrap", "apple-container"):
            tokenize = audit.quoting.tokenizer(provider)
            all_lines = audit.lines(fd, len(data), path)
            expected = [one for one in all_lines if audit.claims(one[1], SESSION, tokenize)]
            assert list(audit.select(fd, len(data), path, SESSION, provider)) == expected
    finally:
        audit._BLOCK_BYTES = usual
        os.close(fd)
