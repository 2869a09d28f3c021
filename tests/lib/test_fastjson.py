"""What stands in for the package json is what that package does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workcell import fastjson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_a_value_is_written_as_json_writes_it_and_read_as_it_was(value):
    text = fastjson.dumps(value)
    assert text == json.dumps(value)
    assert fastjson.loads(text) == fastjson.loads(text.encode()) == value


@given(
    st.text('[]{}",:01.eE+-\\\n truefalsnNIiy', max_size=12) | st.builds(json.dumps, VALUES).flatmap(lambda t: st.just(t[:-1]))
)
def test_what_json_reads_is_read_alike_and_nothing_else(text):
    def no_constant(name):
        raise ValueError(name)

    try:
        expected = json.loads(text, parse_constant=no_constant)
    except ValueError:
        with pytest.raises(ValueError):
            fastjson.loads(text)
    else:
        assert fastjson.loads(text) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_what_no_json_can_hold_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        fastjson.dumps(value)


def test_a_text_that_is_nested_too_deep_is_no_json():
    with pytest.raises(ValueError):
        fastjson.loads("[" * 100_000)
