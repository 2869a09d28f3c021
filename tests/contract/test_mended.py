"""What this toolkit answers where a shared vector is left out on purpose: each case with the better answer that it gets.

The tag says which fault of the first implementation is mended; `lax` and `superset` are what a stricter reader refuses and what
is an extension here.
"""

import importlib.util
import json
import os
import sys

import pytest
from test_vectors import BIN, MENDED, VECTORS, cases, ready, vectors  # noqa: F401

ONE, TWO = "20260302T081500Z-1f3a9c20", "20260302T093000Z-27b04e11"


def lists(*ids, complaints=1, json_form=False):
    """The good sessions are listed, each bad file costs one line and the exit status."""

    def check(code, out, err):
        rows = (
            [row["session_id"] for row in json.loads(out)]
            if json_form
            else [row.split("\t")[0] for row in out.splitlines()[1:]]
        )
        assert (code, rows) == (1 if complaints else 0, list(ids))
        assert len(err.splitlines()) == complaints

    return check


def shows(session_id):
    def check(code, out, err):
        assert (code, json.loads(out)["session_id"], err) == (0, session_id, "")

    return check


def refuses(status, words):
    def check(code, out, err):
        assert (code, out) == (status, "") and words in err and len(err.splitlines()) == 1

    return check


def says(*pairs):
    def check(code, out, err):
        assert code == 0 and all(f"{key}={value}\n" in out for key, value in pairs)

    return check


def check_home(code, out, err):
    event = json.loads(out.splitlines()[0])
    assert code == 0 and not any("~" in value and not value.startswith("~") for value in event["unmapped"].values())


def check_audit(code, out, err):
    assert code == 0 and out and all(f" session_id={ONE} " in line for line in out.splitlines())


def check_timeline(code, out, err):
    assert code == 0 and all(f" session_id={TWO} " in line for line in out.splitlines())


def check_twice(code, out, err):
    assert (code, json.loads(out)["session_id"]) == (1, ONE) and "nope: no such session" in err


ANSWERS = {
    "export/ocsf-home-inside": check_home,
    "invalid_record/filtered-out-still-fails": lists(ONE),
    "invalid_record/legacy-root-broken": lists(TWO, ONE),
    "invalid_record/list-group-readable": lists(ONE),
    "invalid_record/list-not-json": lists(ONE, json_form=True),
    "invalid_record/list-unknown-field": lists(ONE),
    "invalid_record/null-string-ok": lists(ONE, json_form=True),
    "invalid_record/show-of-a-good-one": shows(ONE),
    "logs/whole-audit-log": check_audit,
    "stop/finished-aborted": says(("session_id", TWO), ("status", "aborted"), ("live_status", "stopped")),
    "stop/finished-exited": says(("session_id", TWO), ("status", "exited"), ("live_status", "stopped")),
    "stop/finished-failed": says(("session_id", TWO), ("status", "failed"), ("live_status", "stopped")),
    "timeline/id-inside-a-message": check_timeline,
    "usage/send-message-newline": refuses(1, "cannot send: its monitor is dead"),
    "usage/send-message-return": refuses(1, "cannot send: its monitor is dead"),
    "usage/show-id-equals": shows(ONE),
    "usage/show-id-twice": check_twice,
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_mended_case_gets_the_better_answer(case, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("run_vectors", os.path.join(VECTORS, "run_vectors.py"))
    vectors_runner = importlib.util.module_from_spec(spec)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(vectors_runner)
    finally:
        sys.dont_write_bytecode = writes_bytecode
    folder = os.path.join(VECTORS, case)
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as stream:
        what = json.load(stream)
    if not ready(what["command"][0]):
        pytest.skip("this command is not there yet")
    box = vectors_runner.lay_out(folder, what, str(tmp_path / "box"))
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":" + os.environ.get("PATH", "/usr/bin:/bin"))
    runner = vectors_runner.Runner([os.path.join(BIN, "workcell")], None, 60, False)

    def tree():  # but for what a lock is taken on: stop asks once more for a seal
        return {name: found for name, found in box.snapshot().items() if not name.endswith(".lock.guard")}

    before = tree()
    code, out, err = runner.session(box, what["command"], what.get("env"))
    ANSWERS[case](code, out.decode(), err.decode())
    assert tree() == before


def test_each_case_that_is_left_out_has_its_answer_here():
    left_out = set()
    for case in cases():
        path = os.path.join(VECTORS, case, "case.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                if set(json.load(stream).get("tags") or ()) & set(MENDED.split(",")):
                    left_out.add(case)
    assert left_out == set(ANSWERS)
