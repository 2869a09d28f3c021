"""check() turns what a validator finds into an error for people."""

import json
import os
import subprocess
import sys

import pytest

from workcell import errors, schema

RECORDS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "records")


def example(kind, side, name):
    with open(os.path.join(RECORDS, kind, side, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def test_a_value_that_fits_passes_without_a_word():
    assert schema.check("session-record", example("session-record", "good", "detached-running")) is None
    assert schema.check("session-list", []) is None


def test_the_error_names_the_field_and_why():
    with pytest.raises(errors.UnreadableError) as caught:
        schema.check("session-record", example("session-record", "bad", "exited-without-exit-status"))
    assert str(caught.value) == "session-record: exit_status: is missing once the session is over"
    assert caught.value.exit_status == 1


def test_the_error_names_the_file_instead_of_the_kind_if_told_so():
    with pytest.raises(errors.UnreadableError) as caught:
        schema.check("audit-seal", [], "/state/sessions/x.audit-sig")
    assert str(caught.value) == "/state/sessions/x.audit-sig: document: must be an object"


FRACTIONS = [
    ("session-record", "detached-running", "version"),
    ("launch-spec", "isolated", "uid"),
    ("session-send", "summary", "sent_bytes"),
]


@pytest.mark.parametrize("kind,name,field", FRACTIONS)
def test_an_integer_with_a_decimal_point_is_refused_though_json_schema_takes_it(kind, name, field):
    value = example(kind, "good", name)
    value[field] = float(value[field])
    with pytest.raises(errors.UnreadableError, match=f"{field}: must be an integer"):
        schema.check(kind, value)


def test_a_kind_without_schema_is_a_fault_of_the_caller():
    with pytest.raises(ValueError, match="no schema 'defs'"):
        schema.check("defs", {})


def test_the_validators_are_loaded_only_when_something_is_checked():
    code = "import sys; from workcell import schema; sys.exit('workcell.validators' in sys.modules)"
    lib = os.path.dirname(os.path.dirname(schema.__file__))
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": lib}).returncode == 0
