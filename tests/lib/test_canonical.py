"""The bytes that are hashed and signed, against published values."""

from hashlib import sha256

from workcell import audit, canonical

SESSION = "20260102T030405Z-0a1b2c3d"
FIRST = "d0ec7c7273ef27e9e38917a6ffa019b1bb8ebcb333ed40e1b017ace8ea81bc26"
HEAD = "9c0c94adca64da1af7a34dea6beb1dcf7d810ae2a8105e4dc8149e0f97b96380"


def test_the_digest_of_the_first_event_has_an_empty_predecessor():
    args = [
        b"event=launch", b"session_id=" + SESSION.encode(), b"profile=wcl-demo-12345678",
        b"endpoints=a.example:443 b.example:443", b"bootstrap_endpoints=",
    ]  # fmt: skip
    assert canonical.event_digest(b"", b"2026-01-02T03:04:05Z", args) == FIRST


def test_a_line_has_the_digest_of_what_it_says_before_quoting():
    args = [
        b"event=command", b"session_id=" + SESSION.encode(), b"source=host-cli", b"command=session-send",
        "argv=café, it's ~/x".encode(),
    ]  # fmt: skip
    line = audit.format_line(FIRST, "2026-01-02T03:04:06Z", args)
    assert line == (
        b"timestamp=2026-01-02T03:04:06Z event=command session_id=20260102T030405Z-0a1b2c3d source=host-cli"
        b" command=session-send $'argv=caf\\303\\251, it\\'s ~/x'"
        b" prev_digest=d0ec7c7273ef27e9e38917a6ffa019b1bb8ebcb333ed40e1b017ace8ea81bc26"
        b" record_digest=818302deafd27e36f08e9a745dfcaf79824c75bef91d46dbe8099a3a95d32b03 \n"
    )


def test_the_message_of_a_seal_is_four_lines():
    message = canonical.seal_message(SESSION, HEAD)
    assert len(message) == 122
    assert sha256(message).hexdigest() == "7beb857d4f20da78da9a20a041f88f124df61a2dae214889a613b63871052e8a"


def test_moving_a_byte_between_two_parts_changes_the_digest():
    assert canonical.event_digest(b"", b"t", [b"a=1", b"b=2"]) != canonical.event_digest(b"", b"t", [b"a=1b=2"])
    assert canonical.event_digest(b"", b"t", [b"a=", b"b=2"]) != canonical.event_digest(b"", b"t", [b"a=b=2"])
