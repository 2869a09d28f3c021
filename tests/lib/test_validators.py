"""The generated validators against the package jsonschema, which reads the same schemas at run time."""

import copy
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from workcell import validators

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMAS = os.path.join(ROOT, "schema")
RECORDS = os.path.join(ROOT, "tests", "records")
GENERATOR = os.path.join(ROOT, "tools", "gen_validators.py")
DRAFT = "http://json-schema.org/draft-07/schema#"


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def load_generator():
    spec = importlib.util.spec_from_file_location("gen_validators", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gen = load_generator()
CONTENTS = gen.read_schemas(SCHEMAS)


def oracles(schemas):
    """For each schema what jsonschema makes of it."""
    registry = Registry().with_resources((name, DRAFT7.create_resource(schema)) for name, schema in schemas.items())
    return {name: Draft7Validator(schema, registry=registry) for name, schema in schemas.items()}


ORACLES = oracles(CONTENTS)


def examples():
    for kind in sorted(os.listdir(RECORDS)):
        for side in ("good", "bad"):
            for name in sorted(os.listdir(os.path.join(RECORDS, kind, side))):
                yield kind, side, name[: -len(".json")]


def example(kind, side, name):
    return load(os.path.join(RECORDS, kind, side, name + ".json"))


EXAMPLES = list(examples())
GOOD = {kind: [example(*place) for place in EXAMPLES if place[:2] == (kind, "good")] for kind in validators.KINDS}


def verdict(kind, value):
    """What our validator says; the value must be untouched by it."""
    before = copy.deepcopy(value)
    why = getattr(validators, kind.replace("-", "_"))(value)
    assert repr(value) == repr(before)
    return why


def assert_agreement(kind, value):
    why = verdict(kind, value)
    assert (why is None) == ORACLES[kind + ".json"].is_valid(value), why


def fields_in_error(error):
    """Names of the fields that an error of jsonschema is about, written as ours are."""
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    if error.validator == "required":
        names = error.validator_value
    elif error.validator == "additionalProperties":
        names = [name for name in error.instance if name not in error.schema["properties"]]
    elif error.validator == "pattern" and error.parent is None and "propertyNames" in error.absolute_schema_path:
        names = [error.instance]
    else:
        return {path or "document"}
    names = [name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else ascii(name) for name in names]
    return {f"{path}.{name}" if path else name for name in names}


@pytest.mark.parametrize("kind,side,name", EXAMPLES)
def test_an_example_is_judged_as_its_folder_says_and_as_jsonschema_does(kind, side, name):
    value = example(kind, side, name)
    errors = list(ORACLES[kind + ".json"].iter_errors(value))
    why = verdict(kind, value)
    assert (why is None, not errors) == ((True, True) if side == "good" else (False, False)), why
    if why is not None:
        field, _, reason = why.partition(": ")
        if "must not be there" not in reason:  # of those jsonschema does not tell the place
            assert field in set().union(*map(fields_in_error, errors)), (why, errors)
        assert reason and reason.isprintable() and why.isascii(), why


def test_every_kind_has_good_and_bad_examples_and_every_schema_is_sound():
    assert list(validators.KINDS) == sorted(name[: -len(".json")] for name in CONTENTS if name != "defs.json")
    assert {(kind, side) for kind, side, _ in EXAMPLES} == {(k, s) for k in validators.KINDS for s in ("good", "bad")}
    for schema in CONTENTS.values():
        Draft7Validator.check_schema(schema)


def test_the_generated_file_is_fresh():
    done = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_generator_writes_the_same_bytes_again_and_check_tells_a_stale_file(tmp_path):
    output = tmp_path / "validators.py"
    run = [sys.executable, GENERATOR, "--output", str(output)]
    missing = subprocess.run([*run, "--check"], capture_output=True, text=True)
    assert missing.returncode == 1 and "stale" in missing.stderr and not output.exists()
    assert subprocess.run(run).returncode == 0
    with open(os.path.join(ROOT, "lib", "workcell", "validators.py"), "rb") as file:
        assert output.read_bytes() == file.read()
    output.write_text(output.read_text() + "# touched by hand\n")
    stale = subprocess.run([*run, "--check"], capture_output=True, text=True)
    assert stale.returncode == 1 and "make validators" in stale.stderr
    assert output.read_text().endswith("# touched by hand\n")


# What JSON can hold, with a liking for what once went wrong somewhere.

BLANKS = "\t\n\v\f\r\x1c\x1f \x85\xa0\u1680\u180e\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
WORDS = [
    *("", "1", "0", "-7", "+5", "007", "9" * 18, "9" * 19, "\u0661", "1\n", "A=1", "..", "/srv/a", "/srv/a\n"),
    *("running", "exited", "lost", "verified", "unsealed", "detached", "isolated", "host", "none", "command"),
    *("a" * 64, "a" * 65, "0" * 64, "0" * 32, "YQ==", "YWE=", "YWFh", "YQ", "workcell-a"),
    *("2026-01-02T03:04:05Z", "20260102T030405Z-0a1b2c3d"),
]
ANY_TEXT = st.one_of(
    st.sampled_from(WORDS),
    st.text(alphabet=BLANKS, max_size=4),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=8),
    st.builds("{}{}{}".format, st.text(alphabet=BLANKS, max_size=2), st.sampled_from(WORDS), st.text(BLANKS, max_size=2)),
)
ANY_NUMBER = st.one_of(
    st.sampled_from([0, 1, 2, -1, 1.0, 0.0, -0.0, 1.5, 1e300, 10**30, float("nan"), float("inf")]),
    st.integers(),
    st.floats(),
)


@st.composite
def spoiled(draw, good):
    """A text, or one that has a character more, less or another one somewhere."""
    text = draw(good)
    at = draw(st.integers(0, len(text)))
    odd = draw(st.sampled_from(["", "\n", " ", "0", "a", "A", "-", ".", "_", "\u0660", "\u212a"]))
    return draw(st.sampled_from([text, text[:at] + odd + text[at + draw(st.integers(0, 1)) :]]))


SCALAR = st.one_of(st.none(), st.booleans(), ANY_NUMBER, ANY_TEXT)
NAMES = sorted({name for schema in CONTENTS.values() for name in schema.get("properties", {})})
ANY_NAME = st.one_of(st.sampled_from(NAMES), ANY_TEXT)
ANY_JSON = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(ANY_NAME, inner, max_size=6)),
    max_leaves=12,
)


def places(value, at=()):
    """Paths to every place in a value."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def changed(draw, value):
    """A copy of a value with something replaced, taken away, added or doubled."""
    value = copy.deepcopy(value)
    *way, last = draw(st.sampled_from(list(places(value))[1:] or [(None,)]))
    if last is None:
        return draw(ANY_JSON)
    inner = value
    for step in way:
        inner = inner[step]
    what = draw(st.sampled_from(["replace", "replace", "text", "text", "remove", "add", "swap"]))
    if what == "remove":
        del inner[last]
    elif what == "add" and isinstance(inner, dict):
        inner[draw(ANY_NAME)] = draw(ANY_JSON)
    elif what == "add":
        inner.insert(last, draw(ANY_JSON))
    elif what == "swap":
        inner[last] = copy.deepcopy(inner[draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))])
    else:
        inner[last] = draw(ANY_TEXT if what == "text" else ANY_JSON)
    return value


@st.composite
def nearly_good(draw, kind):
    value = draw(st.sampled_from(GOOD[kind]))
    for _ in range(draw(st.integers(1, 3))):
        value = changed(draw, value)
    return value


FEW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@pytest.mark.parametrize("kind", validators.KINDS)
@FEW
@given(data=st.data())
def test_nearly_good_values_are_judged_as_jsonschema_does(kind, data):
    assert_agreement(kind, data.draw(nearly_good(kind)))


@settings(FEW, max_examples=400)
@given(record=nearly_good("session-record"))
def test_nearly_good_session_records_are_judged_as_jsonschema_does(record):
    assert_agreement("session-record", record)


@settings(FEW, max_examples=200)
@given(value=ANY_JSON)
def test_arbitrary_json_is_judged_as_jsonschema_does(value):
    for kind in validators.KINDS:
        assert_agreement(kind, value)


RECORD = CONTENTS["session-record.json"]
WITH_RULES = [*RECORD["required"], "monitor_pid", "session_audit_dir", "finished_at", "exit_status", "final_assurance"]


@settings(FEW, max_examples=600)
@given(
    name=st.one_of(st.sampled_from(WITH_RULES), st.sampled_from(list(RECORD["properties"]))),
    value=st.one_of(ANY_TEXT, SCALAR, st.text(alphabet=BLANKS, max_size=2)),
    base=st.sampled_from(GOOD["session-record"]),
)
def test_each_field_of_a_session_record_takes_what_jsonschema_lets_it_take(name, value, base):
    assert_agreement("session-record", {**base, name: value})


@settings(FEW, max_examples=500)
@given(pattern=st.sampled_from(sorted({*gen.EXACT, *gen.QUICK})), data=st.data())
def test_conditions_that_stand_for_a_pattern_are_never_true_where_it_is_not_found(pattern, data):
    text = data.draw(st.one_of(ANY_TEXT, spoiled(st.from_regex(pattern))))
    found = re.search(pattern, text) is not None
    scope = {**vars(validators), "x": text}
    if pattern in gen.EXACT:
        assert bool(eval(gen.EXACT[pattern].replace("{0}", "x"), scope)) == found
    if pattern in gen.QUICK:
        assert found or not eval(gen.QUICK[pattern].replace("{0}", "x"), scope)


def test_blank_is_the_same_for_the_pattern_and_for_the_set_of_characters_over_all_of_unicode():
    blank = {chr(code) for code in range(0x110000) if re.search(gen.FILLED, chr(code)) is None}
    assert blank == set(gen.BLANKS) and len(blank) == len(gen.BLANKS)
    assert blank == {chr(code) for code in range(0x110000) if chr(code).isspace()} - set("\x1c\x1d\x1e\x1f")


@pytest.mark.parametrize("name", [name for kind, side, name in EXAMPLES if (kind, side) == ("session-record", "good")])
def test_ordinary_session_records_never_reach_the_exact_check(name, monkeypatch):
    record = example("session-record", "good", name)
    monkeypatch.setattr(validators, "_session_record", lambda value, where: "reached: the exact check")
    odd = ("version-1.0", "separator-u001c", "monitor-pid-blank", "monitor-pid-with", "optional-fields-empty")
    assert (validators.session_record(record) is None) != name.startswith(odd)


def test_a_value_of_a_list_is_named_by_its_place():
    bad = {**GOOD["session-record"][0], "status": "paused"}
    why = validators.session_list([GOOD["session-record"][0], bad])
    assert why == "[1].status: must be starting, running, stopping, exited, failed or aborted"


def test_an_unknown_field_is_named_without_passing_its_control_characters_on():
    why = validators.session_record({**GOOD["session-record"][0], "a\x1b]0;x\x07" + "y" * 5000: "x"})
    assert why.isprintable() and why.isascii() and len(why) < 200 and why.endswith("is not a known field")


def test_importing_the_validators_needs_no_regular_expressions():
    code = "import sys; from workcell import validators; sys.exit('re' in sys.modules)"
    lib = os.path.dirname(os.path.dirname(validators.__file__))
    done = subprocess.run([sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONPATH": lib})
    assert done.returncode == 0


# The generator.


def schema(**keywords):
    return {"thing.json": {"$schema": DRAFT, "title": "a thing", **keywords}}


def compiled(schemas):
    scope = {}
    exec(gen.compile_schemas(schemas), scope)
    return scope["thing"]


@pytest.mark.parametrize(
    "keywords,word",
    [
        ({"format": "uri"}, "format"),
        ({"anyOf": [{}]}, "anyOf"),
        ({"oneOf": [{}]}, "oneOf"),
        ({"patternProperties": {}}, "patternProperties"),
        ({"dependencies": {}}, "dependencies"),
        ({"maximum": 1}, "maximum"),
        ({"contains": {}}, "contains"),
        ({"default": 1}, "default"),
        ({"requird": ["a"]}, "requird"),
        ({"properties": {"a": {"items": {"multipleOf": 2}}}}, "multipleOf"),
        ({"if": {"exclusiveMinimum": 0}, "then": {"title": "x"}}, "exclusiveMinimum"),
        ({"type": "null"}, "null"),
        ({"type": "number"}, "number"),
        ({"type": ["string", "integer"]}, "type"),
        ({"const": None}, "const"),
        ({"const": False}, "const"),
        ({"const": 1.5}, "const"),
        ({"enum": [1, 2]}, "enum"),
        ({"items": [{"type": "string"}]}, "must be an object"),
        ({"properties": {"a": True}}, "boolean"),
        ({"not": {"required": ["a"]}}, "not is supported"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, "uniqueItems"),
        ({"minimum": 1}, "minimum"),
        ({"minLength": 1.0}, "limit"),
        ({"additionalProperties": False}, "additionalProperties"),
        ({"then": {"title": "x"}}, "without if"),
        ({"if": {}, "then": {}}, "title"),
        ({"items": {"pattern": "^a"}}, "title"),
        ({"allOf": [{"$ref": "nowhere.json"}]}, "nowhere"),
        ({"allOf": [{"$ref": "#/definitions/a"}]}, "nowhere"),
        ({"allOf": [{"$ref": "#"}]}, "$ref"),
        ({"allOf": [{"$ref": "thing.json"}]}, "itself"),
        ({"definitions": {"a": {"$ref": "#/definitions/a"}}, "allOf": [{"$ref": "#/definitions/a"}]}, "nowhere"),
        ({"definitions": {"a": {"type": "string"}}}, "used by no schema"),
        ({"definitions": {"a": {}}, "items": {"$ref": "#/definitions/a", "type": "string"}}, "beside $ref"),
    ],
)
def test_the_generator_refuses_what_it_does_not_know_and_says_where(keywords, word):
    with pytest.raises(gen.SchemaError) as refused:
        gen.compile_schemas(schema(**keywords))
    assert str(refused.value).startswith("thing.json#") and word in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[0-9]+$",
        r"^\d+",
        r"\w",
        r"a\b",
        r"^a\Z",
        "a.c",
        "(?i)a",
        "(?=a)",
        "(",
        "\u00e4",
        'a"',
        "a\nb",
        r"[a-z]$|b$(?!\n)",
        5,
    ],
)
def test_the_generator_refuses_patterns_that_python_and_ecma_262_read_differently(pattern):
    with pytest.raises(gen.SchemaError):
        gen.compile_schemas(schema(type="string", title="x", pattern=pattern))


def test_an_unknown_keyword_ends_the_generator_with_1_and_leaves_the_output_alone(tmp_path):
    (tmp_path / "thing.json").write_text(json.dumps(schema(format="uri")["thing.json"]))
    output = tmp_path / "validators.py"
    output.write_text("as before")
    command = [sys.executable, GENERATOR, "--schema", str(tmp_path), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "gen_validators.py: thing.json#: keyword 'format' is not supported by gen_validators.py\n"
    assert output.read_text() == "as before"


def test_a_key_that_occurs_twice_in_a_schema_is_refused(tmp_path):
    (tmp_path / "thing.json").write_text('{"title": "a", "title": "b"}')
    with pytest.raises(gen.SchemaError, match="twice"):
        gen.read_schemas(str(tmp_path))


LINE = {"type": "string", "not": {"title": "a line break", "pattern": "[\\r\\n]"}}


def flat(fields=(), **keywords):
    """A schema of the kind that gets a fast layer, but for what is changed in it."""
    mine = {"a": LINE, "b": {"enum": ["x", "y"]}, "n": {"type": "integer", "minimum": 0}, "c": LINE, "d": LINE}
    basis = {"type": "object", "properties": {**mine, **dict(fields)}, "required": ["b", "n", "d"]}
    return {**basis, "additionalProperties": False, **keywords}


def rule(field, schema, then):
    return {"if": {"required": [field], "properties": {field: schema}}, "then": {"title": "t", **then}}


EMPTY = {"maxLength": 0}
ODD = [
    flat(),
    flat({"a": {"type": "string", "title": "t", "pattern": "[\\r\\n]"}}, required=["a", "b", "n"]),
    flat({"a": {"type": "string"}, "d": {"const": "x"}}),
    flat({"c": False}),
    flat({"n": {"const": 1}}),
    flat({"n": {"const": 0}}),
    flat({"n": {"const": True}}),
    flat({"n": {"type": "boolean"}}),
    flat({"n": {"type": "integer", "const": 0}}),
    flat({"n": {"type": "integer", "const": True}}),
    flat({"c": {"type": "string", "minLength": 2, "maxLength": 3}}),
    flat({"d": EMPTY}),
    flat(**rule("a", EMPTY, {"required": ["c"]})),
    flat(**rule("a", EMPTY, {"required": ["c"], "properties": {"c": {"const": "x"}}})),
    flat(**rule("b", {"enum": ["x"]}, {"properties": {"a": EMPTY}})),
    flat(**rule("b", {"enum": ["x"]}, {"properties": {"a": {"enum": ["x"]}}})),
    flat(**rule("b", {"enum": ["x"]}, {"properties": {"a": False}})),
    flat(**rule("b", {"enum": ["x"]}, {"properties": {"n": {"const": 1}}})),
    flat(**rule("c", {"enum": ["x"]}, {"properties": {"c": {"const": "x"}}})),
    flat(**rule("n", {"const": 1}, {"required": ["a"]})),
    flat(**{"if": {"required": ["b"], "properties": {"b": EMPTY}}, "else": {"title": "t", "required": ["a"]}}),
    flat(**{"if": {"required": ["a", "c"]}, "then": {"title": "t", "properties": {"d": {"const": "1"}}}}),
    flat(allOf=[{"required": ["a"]}, {"properties": {"a": {"const": "1"}}}]),
    flat(propertyNames={"title": "t", "pattern": "^[ab]", "minLength": 1}),
    flat(additionalProperties={"type": "integer", "minimum": 1}, required=["a"]),
    {"properties": {"a": {}}, "required": ["a"], "minItems": 1, "minLength": 1, "items": {"type": "boolean"}},
    {"type": "array", "minItems": 2, "items": LINE, "uniqueItems": True},
    {"type": "array", "properties": {"a": LINE}, "additionalProperties": False},
    {"type": "integer"},
    {"type": "boolean"},
    {"const": "x"},
    {"enum": ["x"]},
    {"const": 1},
    {},
]


@pytest.mark.parametrize("keywords", ODD, ids=range(len(ODD)))
@settings(FEW, max_examples=100)
@given(data=st.data())
def test_schemas_that_are_not_ours_yet_are_compiled_to_what_jsonschema_says(keywords, data):
    schemas = schema(**keywords)
    check, oracle = compiled_once(json.dumps(schemas))
    texts = st.sampled_from(["", "x", "y", "1", "\n", "x\r", "xyz"])
    odd = st.one_of(texts, st.sampled_from([0, 1, -1, True, False, None, 1.0, 0.0, 1.5, [], {}, ["x"]]))
    value = data.draw(
        st.one_of(
            st.dictionaries(st.sampled_from("abcdne"), odd, max_size=6),
            st.fixed_dictionaries({"b": texts, "n": odd, "d": texts}, optional={"a": texts, "c": texts}),
            st.lists(odd, max_size=3),
            odd,
        )
    )
    why = check(value)
    assert (why is None) == oracle.is_valid(value), why
    assert why is None or re.match(r"[^:]+: .", why)


COMPILED = {}


def compiled_once(text):
    if text not in COMPILED:
        schemas = json.loads(text)
        COMPILED[text] = compiled(schemas), oracles(schemas)["thing.json"]
    return COMPILED[text]
