"""Events for a SIEM: they fit the official schema whatever they are made of, and keep back what nobody should see."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from official_ocsf import problems

from evidence_support import FINAL, OTHER, SESSION, fields_of
from workcell import audit, errors, events, ocsf, record

LOGGED_MS = 1_772_439_300_000
# What the line of an event always has is not there for a test to choose.
KEYS = sorted(ocsf.KNOWN_KEYS - {"event", "session_id", "timestamp", "prev_digest", "record_digest"})
# The schema has forms for host names and times; a record that is odd in these goes out as it is.
FORMED = ("status", "container_name", "started_at", "finished_at")
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


def whole(**changes):
    return record.decode(record.encode({**fields_of(), **changes}))


def line_of(event, *pairs, session_id=SESSION, timestamp="2026-03-02T08:15:00Z"):
    words = [f"event={event}", f"session_id={session_id}", *(f"{key}={value}" for key, value in pairs)]
    return audit.format_line("", timestamp, [word.encode("utf-8", "surrogateescape") for word in words]).strip()


def exported(fields, *lines):
    return [json.loads(text) for text in ocsf.Exporter(fields, "/home/op", LOGGED_MS).lines(lines)]


@pytest.mark.parametrize(
    "changes", [{}, FINAL, {**FINAL, "status": "failed", "exit_status": "137"}, {**FINAL, "status": "aborted"}]
)
def test_the_event_of_a_session_fits_the_schema_that_it_names(changes):
    (event,) = exported(whole(container_name="workcell-codex-strict-atlas-0a1b2c3d", **changes))
    assert problems(event) == []
    assert event["activity_name"] == ("Stop" if changes else "Start")
    assert event["metadata"]["version"] == ocsf.SCHEMA_VERSION


def test_each_kind_of_event_with_all_its_keys_fits_the_schema():
    names = [*sorted(ocsf.EVENTS), "audit-tail-recovered", "something-new", ""]
    pairs = [(key, "1") for key in sorted({*KEYS, *events.LAUNCH_KEYS, *events.EXIT_KEYS})]
    found = exported(whole(), *(line_of(name, *pairs) for name in names))
    assert len(found) == len(names) + 1
    assert [problem for event in found for problem in problems(event)] == []
    assert {event["activity_id"] for event in found} == {0, 3, 4, 99}


def test_the_check_against_the_schema_finds_what_does_not_fit():
    (event,) = exported(whole())
    assert problems({**event, "activity_id": 17}) and problems({**event, "severity_id": "1"}) and problems({**event, "x": 1})
    assert problems({key: value for key, value in event.items() if key != "app"})
    assert problems({**event, "metadata": {**event["metadata"], "x": 1}}) == [("metadata", problems_of_x())]


def problems_of_x():
    return "Additional properties are not allowed ('mapping_version', 'x' were unexpected)"


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from([name for name in record.FIELDS[1:] if name not in FORMED]), TEXT),
    st.dictionaries(st.sampled_from(KEYS), TEXT, max_size=6),
)
def test_any_text_in_a_record_or_an_event_makes_events_that_fit(changes, pairs):
    try:
        fields = whole(**changes)
    except errors.UnreadableError:
        return
    texts = [(key, value.encode("utf-8", "replace").decode().replace("\0", "")) for key, value in pairs.items()]
    found = exported(fields, line_of("exit", *texts, session_id=fields["session_id"]))
    assert [problem for event in found for problem in problems(event)] == []


def test_a_time_with_an_offset_is_the_moment_and_one_that_is_none_is_zero():
    assert ocsf.milliseconds("2026-03-02T10:15:00.25+02:00") == ocsf.milliseconds("2026-03-02T08:15:00Z") + 250
    for text in (
        "",
        "yesterday",
        "2026-02-30T08:15:00Z",
        "2026-03-02T24:00:00Z",
        "2026-03-02T08:15:00",
        "2026-03-02T08:15:00+24:00",
    ):
        assert ocsf.milliseconds(text) == 0


def test_lines_of_other_sessions_are_left_out_and_an_ambiguous_one_of_its_own_is_refused():  # D50
    mine, other = line_of("launch"), line_of("command", ("argv", f"x session_id={SESSION}"), session_id=OTHER)
    assert len(exported(whole(), mine, other)) == 2
    with pytest.raises(errors.UnreadableError, match="twice"):
        exported(whole(), mine + b" event=exit")


def test_a_key_or_an_event_that_is_not_known_is_not_even_named():
    (_, event) = exported(whole(), line_of("my-secret-plan", ("codename", "x"), ("argv", "attack at dawn")))
    text = json.dumps(event)
    assert not any(word in text for word in ("my-secret-plan", "codename", "dawn"))
    marks = "[REDACTED-FREEFORM]=[REDACTED-FREEFORM] event=[REDACTED-FREEFORM]"
    assert event["unmapped"]["audit.unexpected_fields"] == marks and event["unmapped"]["audit.argv"] == "[REDACTED-FREEFORM]"
