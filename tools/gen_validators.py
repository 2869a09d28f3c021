#!/usr/bin/env python3
"""Compile schema/*.json into lib/workcell/validators.py.

Usage: gen_validators.py [--check] [--schema DIR] [--output FILE]

One public function for each schema but defs.json: session-record.json becomes session_record(value), which returns
None for a value that fits, else 'FIELD: why' for the first rule, in the schema's order, that is broken. The verdict is
that of JSON Schema draft-07 as the Python package jsonschema understands it, for every value that JSON can hold. Only
the keywords that our schemas use are known; any other is refused, since a rule silently left out is worse than none.

A function has up to two layers. The exact one follows the schema keyword by keyword. A flat object of texts gets a fast
one before it, which says yes to every ordinary value at once; what it does not say yes to, the exact one decides.

Exit status: 0 written, or fresh; 1 a schema that cannot be compiled, or --check and the file is stale; 2 usage
"""

import argparse
import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 120

# What Go's unicode.IsSpace calls space, as the records' other readers have it. Python's str.strip() without an argument
# takes these and U+001C to U+001F besides.
BLANKS = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
FILLED = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
LINE_BREAK = r"[\r\n]"

# Patterns that need no regular expression: a condition on a str that is true exactly where the pattern is found, and
# one that is quicker, but may miss it now and then. All others are compiled by re when first needed.
EXACT = {
    FILLED: "{0}.strip(_BLANKS)",
    LINE_BREAK: r'"\n" in {0} or "\r" in {0}',
    r"\u0000": r'"\0" in {0}',
    "^/": '{0}.startswith("/")',
    r"^[0-9a-f]{64}$(?!\n)": 'len({0}) == 64 and not {0}.strip("0123456789abcdef")',
    r"^[0-9a-f]{32}$(?!\n)": 'len({0}) == 32 and not {0}.strip("0123456789abcdef")',
    r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)": "{0}.isascii() and {0}.isidentifier()",
    r"^[^=\r\n\u0000]+$(?!\n)": '{0} and not any(c in {0} for c in "=\\r\\n\\0")',
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$(?!\n)": '{0}.translate(_ZEROS) == "0000-00-00T00:00:00Z"',
    r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}$(?!\n)": (
        '{0}[:17].translate(_ZEROS) == "00000000T000000Z-" and len({0}) == 25 and not {0}[17:].strip("0123456789abcdef")'
    ),
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)": (
        '0 < len({0}) <= 64 and {0}[0] in _LETTERS and not {0}.strip(_LETTERS + "._-")'
    ),
    r"^[a-z0-9][a-z0-9_-]{0,31}$(?!\n)": (
        '0 < len({0}) <= 32 and {0}[0] in _LETTERS and not {0}.strip(_LETTERS + "_-") and {0} == {0}.lower()'
    ),
    r"^workcell-[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)": (
        '{0}.startswith("workcell-") and {0}[9:10] not in ("", ".", "_", "-") and not {0}[9:].strip(_LETTERS + "._-")'
    ),
}
QUICK = {
    FILLED: "{0}.strip()",
    r"^\+?0*[1-9][0-9]{0,17}$(?!\n)": '{0}.isdecimal() and {0}.isascii() and {0}[0] != "0" and len({0}) < 19',
}

ANNOTATIONS = ("$schema", "$comment", "title", "description", "definitions")
KEYWORDS = (
    "$ref", "type", "const", "enum", "not", "pattern", "minLength", "maxLength", "minimum", "minItems", "uniqueItems",
    "items", "properties", "additionalProperties", "propertyNames", "required", "allOf", "if", "then", "else",
)  # fmt: skip
TYPES = {
    "string": ("a string", "isinstance(value, str)"),
    "integer": ("an integer", "_is_integer(value)"),
    "boolean": ("true or false", "isinstance(value, bool)"),
    "array": ("an array", "isinstance(value, list)"),
    "object": ("an object", "isinstance(value, dict)"),
}
# The one type that a keyword says something about; a value of another type passes it, as draft-07 has it.
GUARDS = {
    "pattern": "string", "minLength": "string", "maxLength": "string", "minItems": "array", "uniqueItems": "array",
    "items": "array", "properties": "object", "additionalProperties": "object", "propertyNames": "object",
    "required": "object",
}  # fmt: skip

HEADER = '''\
# GENERATED from schema/*.json by tools/gen_validators.py: change those and run `make validators`.
"""Check values against the schemas.

For each schema there is a function of its name, session_record(value) for session-record.json. It returns None for a
value that fits, else one line, 'FIELD: why', about the first rule that is broken.
"""
'''
PRELUDE = """
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], "str | None"]

_found: "dict[str, Callable[[str], object]]" = {}


def _search(pattern: str, text: str) -> bool:
    search = _found.get(pattern)
    if search is None:
        import re

        search = _found[pattern] = re.compile(pattern).search
    return search(text) is not None


def _is_integer(value: "Any") -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _below(where: str, name: "Any") -> str:
    # The name may be anybody's: nothing of it may reach a terminal as it is.
    if not isinstance(name, str) or len(name) > 64 or not name.isascii() or not name.isidentifier():
        name = ascii(name[:64]) if isinstance(name, str) else "?"
    return f"{where}.{name}" if where else name


def _never(value: "Any", where: str) -> "str | None":
    return f"{where}: must not be there"


def _named(why: "str | None") -> "str | None":
    return f"document{why}" if why is not None and why.startswith(":") else why
"""


class SchemaError(Exception):
    """A schema that cannot be compiled: the message says where and why."""


class NoFastLayer(Exception):
    """A schema has a rule that the fast layer does not know; the exact one does it alone."""


def unique_keys(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def read_schemas(folder: str) -> "dict[str, Any]":
    """Read every schema of a folder: file name to content. Raises SchemaError, OSError."""
    schemas = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                try:
                    schemas[name] = json.load(file, object_pairs_hook=unique_keys)
                except ValueError as error:
                    raise SchemaError(f"{name}: no JSON: {error}") from None
    return schemas


def check_pattern(pattern: "Any", at: str) -> None:
    """Refuse a pattern that Python and ECMA 262 read differently, or that is none. Raises SchemaError."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise SchemaError(f"{at}: no pattern: {error}") from None
    if '"' in pattern or not pattern.isascii() or not pattern.isprintable():
        raise SchemaError(f"{at}: {pattern!r}: only printable ASCII without double quotes; write \\u2028 and the like")
    if re.search(r"\\[dDwWsSbBAZpP]", pattern):
        raise SchemaError(f"{at}: {pattern!r}: classes such as \\d differ between languages; write the characters")
    rest = pattern[: -len(r"$(?!\n)")] if pattern.endswith(r"$(?!\n)") else pattern
    rest = re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.", "x", rest)  # what stands in a class, or after a backslash, is harmless
    if "$" in rest:
        raise SchemaError(f"{at}: {pattern!r}: '$' alone lets a last line break pass in Python; end it in '$(?!\\n)'")
    if "." in rest or re.search(r"\(\?(?!:)", rest):
        raise SchemaError(f"{at}: {pattern!r}: '.' and '(?...)' differ between languages")


def quoted(text: str) -> str:
    """A Python literal in ASCII with double quotes."""
    return json.dumps(text)


def answer(text: str, indent: int, where: str = "{where}") -> "list[str]":
    """A statement that returns 'where: text', in two lines if one is too long."""
    start, text = f'return f"{where}: ', text.replace("{", "{{").replace("}", "}}")
    if indent + len(start) + len(quoted(text)) <= WIDTH:
        return [" " * indent + start + quoted(text)[1:]]
    cut = text.rindex(" ", 0, 60) + 1
    lines = ["return (", f'    f"{where}: {quoted(text[:cut])[1:]}', f"    {quoted(text[cut:])}", ")"]
    return [" " * indent + line for line in lines]


def bracketed(before: str, items: "list[str]", after: str, indent: int, width: int = WIDTH) -> "list[str]":
    """Lines for a tuple or set of items: in one line if it fits, else in filled lines with a comma at the end."""
    comma = "," if len(items) == 1 and before.endswith("(") else ""
    one = " " * indent + before + ", ".join(items) + comma + after
    if len(one) <= width:
        return [one]
    lines, line = [" " * indent + before], " " * (indent + 3)
    for item in items:
        if len(line) + len(item) + 2 > width:
            lines.append(line)
            line = " " * (indent + 3)
        line += f" {item},"
    return [*lines, line, " " * indent + after]


def conjunction(conditions: "list[list[str]]", indent: int) -> "list[str]":
    """Lines for 'a and b and ...', each condition being one or more lines."""
    lines = []
    for index, condition in enumerate(conditions):
        lines += ["and " + condition[0] if index else condition[0], *condition[1:]]
    return [" " * indent + line for line in lines]


class Node:
    """A subschema and its place."""

    def __init__(self, file: str, pointer: str, schema: "Any", name: str = "") -> None:
        self.file, self.pointer, self.schema, self.name = file, pointer, schema, name
        self.at = f"{file}#{pointer}"  # for messages

    @property
    def table(self) -> str:
        """Name of the table of its properties."""
        return f"{self.name}_fields".upper()

    def child(self, key: str, schema: "Any") -> "Node":
        return Node(self.file, f"{self.pointer}/{key}", schema)


class Compiler:
    """Turns schemas into functions; each subschema becomes one, named for its place."""

    def __init__(self, schemas: "dict[str, Any]") -> None:
        self.schemas = schemas
        self.names: dict[tuple[str, str], str] = {}  # (file, pointer) to function name
        self.functions: list[str] = []
        self.tables: list[str] = []
        self.fast: dict[str, list[str]] = {}  # name of a schema's exact function to the lines of its fast layer

    def compile(self) -> str:
        """The whole module. Raises SchemaError."""
        kinds = [file for file in self.schemas if file != "defs.json"]
        public = []
        for file in kinds:
            name = self.function(Node(file, "", self.schemas[file]))
            lines = [
                f'def {name[1:]}(value: "Any") -> "str | None":',
                f'    """Check {self.schemas[file]["title"]}: None if the value fits, else \'FIELD: why\'."""',
                *self.fast.get(name, []),
                f'    return _named({name}(value, ""))',
            ]
            public.append("\n".join(lines))
        for file, schema in self.schemas.items():
            for name in schema.get("definitions", {}):
                if (file, f"/definitions/{name}") not in self.names:
                    raise SchemaError(f"{file}#/definitions/{name}: used by no schema")
        constants = [
            *bracketed("KINDS = (", [quoted(file[: -len(".json")]) for file in kinds], ")", 0),
            "_BLANKS = (",
            *(f'    "{ascii(part)[1:-1]}"' for part in (BLANKS[:9], BLANKS[9:])),
            ")",
            '_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"',
            '_ZEROS = str.maketrans("123456789", "000000000")',
        ]
        parts = [HEADER + PRELUDE.rstrip(), "\n".join(constants), *self.functions, "\n\n".join(self.tables), *public]
        return "\n\n\n".join(parts) + "\n"

    def resolve(self, node: "Node") -> "Node":
        """What a $ref names, another file or a definition in this or another; the node itself if it is none."""
        seen = set()
        while isinstance(node.schema, dict) and "$ref" in node.schema:
            self.check_keywords(node)
            seen.add(node.at)
            ref = node.schema["$ref"]
            match = re.match(r"([a-z0-9.-]*)(?:#/definitions/([A-Za-z0-9_]+))?\Z", ref if isinstance(ref, str) else "?")
            file, definition = (match.group(1) or node.file, match.group(2)) if match else ("", None)
            schema = self.schemas.get(file)
            if definition and schema is not None:
                schema = schema.get("definitions", {}).get(definition)
            found = Node(file, f"/definitions/{definition}" if definition else "", schema)
            if schema is None or found.at in seen:
                raise SchemaError(f"{node.at}: $ref {ref!r} leads nowhere")
            node = found
        return node

    def check_keywords(self, node: "Node") -> None:
        schema = node.schema
        if not isinstance(schema, dict):
            raise SchemaError(f"{node.at}: must be an object; of the boolean schemas only false is supported")
        for key in schema:
            if key not in KEYWORDS and key not in ANNOTATIONS:
                raise SchemaError(f"{node.at}: keyword {key!r} is not supported by gen_validators.py")
        if "$ref" in schema and any(key in KEYWORDS and key != "$ref" for key in schema):
            raise SchemaError(f"{node.at}: draft-07 ignores what stands beside $ref; put it into an allOf")
        if ("then" in schema or "else" in schema) and "if" not in schema:
            raise SchemaError(f"{node.at}: then and else mean nothing without if")

    def function(self, node: "Node") -> str:
        """Name of the exact check of a subschema, made if need be."""
        if node.schema is False:
            return "_never"
        node = self.resolve(node)
        self.check_keywords(node)
        place = (node.file, node.pointer)
        if place in self.names:
            if not self.names[place]:
                raise SchemaError(f"{node.at}: refers to itself")
            return self.names[place]
        parts = [part for part in node.pointer.split("/") if part not in ("", "definitions", "properties")]
        if node.file != "defs.json":
            parts.insert(0, node.file[: -len(".json")])
        node.name = re.sub(r"\W", "_", "_" + "_".join(parts)).lower()
        if node.name in self.names.values() or f"def {node.name}(" in PRELUDE:
            raise SchemaError(f"{node.at}: a second function {node.name}")
        self.names[place] = ""
        lines = [f'def {node.name}(value: "Any", where: str) -> "str | None":', *self.body(node), "    return None"]
        self.functions.append("\n".join(lines))
        self.names[place] = node.name
        if not node.pointer:
            fast = self.fast_layer(node)
            if fast is not None:
                self.fast[node.name] = fast
        return node.name

    def body(self, node: "Node") -> "list[str]":
        lines, known, inside = [], "", None
        if "type" in node.schema:
            known = node.schema["type"]
            if not isinstance(known, str) or known not in TYPES:
                raise SchemaError(f"{node.at}: type {known!r} is not supported by gen_validators.py")
            words, test = TYPES[known]
            lines += [f"    if not {test}:", *answer(f"must be {words}", 8)]
        for key, operand in node.schema.items():
            if key in ANNOTATIONS or key in ("type", "then", "else"):
                continue
            emit = getattr(self, "emit_" + re.sub("[A-Z]", lambda found: "_" + found.group().lower(), key))
            part = emit(operand, node)
            guard = GUARDS.get(key)
            if guard in (None, known):
                lines, inside = lines + part, None
            else:
                lines += [f"    if {TYPES[guard][1]}:"] if guard != inside else []
                lines, inside = lines + ["    " + line for line in part], guard
        return lines

    def call(self, node: "Node", value: str, where: str, indent: int) -> "list[str]":
        """Lines that run the check of a subschema and return its answer if it is one."""
        name = self.function(node)
        lines = [f"why = {name}({value}, {where})", "if why is not None:", "    return why"]
        if name in self.fast:
            lines = [f"if {name[1:]}({value}) is not None:", f"    return {name}({value}, {where})"]
        return [" " * indent + line for line in lines]

    # One method for each keyword: lines that return an answer if the value breaks it.

    def emit_const(self, operand: "Any", node: "Node") -> "list[str]":
        if operand is True:
            test, text = "value is not True", "true"
        elif isinstance(operand, str):
            test, text = f"value != {quoted(operand)}", operand
        elif type(operand) is int:
            test, text = f"isinstance(value, bool) or value != {operand}", str(operand)
        else:
            raise SchemaError(f"{node.at}: const {operand!r} is not supported by gen_validators.py")
        return [f"    if {test}:", *answer(f"must be {text}", 8)]

    def emit_enum(self, operand: "Any", node: "Node") -> "list[str]":
        if not isinstance(operand, list) or not all(isinstance(word, str) for word in operand) or not operand:
            raise SchemaError(f"{node.at}: enum must be a list of strings")
        if not all(re.match(r"[a-z0-9_-]+\Z", word) for word in operand):
            raise SchemaError(
                f"{node.at}: enum is supported for words of lower-case letters, digits, hyphens and underscores only"
            )
        words = operand[0] if len(operand) == 1 else ", ".join(operand[:-1]) + " or " + operand[-1]
        test = bracketed("if not isinstance(value, str) or value not in {", list(map(quoted, operand)), "}:", 4)
        return [*test, *answer(f"must be {words}", 8)]

    def emit_not(self, operand: "Any", node: "Node") -> "list[str]":
        if node.schema.get("type") != "string" or not isinstance(operand, dict) or set(operand) != {"title", "pattern"}:
            raise SchemaError(f"{node.at}: not is supported beside type string, for a pattern with a title only")
        test = self.found(operand["pattern"], node)
        return [f"    if {test}:", *answer(f"must not have {operand['title']}", 8)]

    def emit_pattern(self, operand: "Any", node: "Node") -> "list[str]":
        if not node.schema.get("title"):
            raise SchemaError(f"{node.at}: a pattern needs a title, for the message 'must be TITLE'")
        test = self.found(operand, node)
        negated = f"not ({test})" if " and " in test or " or " in test else f"not {test}"
        return [f"    if {negated}:", *answer(f"must be {node.schema['title']}", 8)]

    @staticmethod
    def found(pattern: "Any", node: "Node") -> str:
        """A condition on the str `value`: the pattern is found in it."""
        check_pattern(pattern, node.at)
        return EXACT.get(pattern, f'_search(r"{pattern}", {{0}})').replace("{0}", "value")

    def emit_min_length(self, operand: "Any", node: "Node") -> "list[str]":
        return self.limit(f"len(value) < {operand}", f"have {operand} characters or more", operand, node)

    def emit_max_length(self, operand: "Any", node: "Node") -> "list[str]":
        words = f"have at most {operand} characters" if operand else "be empty"
        return self.limit(f"len(value) > {operand}", words, operand, node)

    def emit_minimum(self, operand: "Any", node: "Node") -> "list[str]":
        if node.schema.get("type") != "integer":
            raise SchemaError(f"{node.at}: minimum is supported beside type integer only")
        return self.limit(f"value < {operand}", f"be {operand} or more", operand, node)

    def emit_min_items(self, operand: "Any", node: "Node") -> "list[str]":
        return self.limit(f"len(value) < {operand}", f"have {operand} or more items", operand, node)

    @staticmethod
    def limit(test: str, words: str, operand: "Any", node: "Node") -> "list[str]":
        if type(operand) is not int or operand < 0:
            raise SchemaError(f"{node.at}: a limit must be an integer of 0 or more")
        return [f"    if {test}:", *answer(f"must {words}", 8)]

    def emit_items(self, operand: "Any", node: "Node") -> "list[str]":
        call = self.call(node.child("items", operand), "item", 'f"{where}[{index}]"', 8)
        return ["    for index, item in enumerate(value):", *call]

    def emit_unique_items(self, operand: "Any", node: "Node") -> "list[str]":
        items = self.resolve(node.child("items", node.schema.get("items", {}))).schema
        if operand is not True or items.get("type") != "string":
            raise SchemaError(f"{node.at}: uniqueItems is supported as true, for items of type string only")
        # An item that is no string breaks the schema in any case, and the check of the items says so better.
        return [
            "    texts = [item for item in value if isinstance(item, str)]",
            "    if len(set(texts)) != len(texts):",
            *answer("must not have an item twice", 8),
        ]

    def emit_properties(self, operand: "Any", node: "Node") -> "list[str]":
        lines = [f'{node.table}: "dict[str, Check]" = {{']
        for key, schema in operand.items():
            lines.append(f"    {quoted(key)}: {self.function(node.child(f'properties/{key}', schema))},")
        self.tables.append("\n".join([*lines, "}"]))
        return [
            f"    for field, check in {node.table}.items():",
            "        if field in value:",
            "            why = check(value[field], _below(where, field))",
            "            if why is not None:",
            "                return why",
        ]

    def emit_additional_properties(self, operand: "Any", node: "Node") -> "list[str]":
        if "properties" not in node.schema:
            raise SchemaError(f"{node.at}: additionalProperties is supported beside properties only")
        lines = ["    for field in value:", f"        if field not in {node.table}:"]
        if operand is False:
            return [*lines, *answer("is not a known field", 12, "{_below(where, field)}")]
        inner = node.child("additionalProperties", operand)
        return [*lines, *self.call(inner, "value[field]", "_below(where, field)", 12)]

    def emit_property_names(self, operand: "Any", node: "Node") -> "list[str]":
        call = self.call(node.child("propertyNames", operand), "field", "_below(where, field)", 8)
        return ["    for field in value:", *call]

    def emit_required(self, operand: "Any", node: "Node") -> "list[str]":
        if not isinstance(operand, list) or not all(isinstance(word, str) for word in operand) or not operand:
            raise SchemaError(f"{node.at}: required must be a list of strings")
        return [
            *bracketed("for field in (", list(map(quoted, operand)), "):", 4),
            "        if field not in value:",
            *answer("is missing", 12, "{_below(where, field)}"),
        ]

    def emit_all_of(self, operand: "Any", node: "Node") -> "list[str]":
        lines = []
        for index, part in enumerate(operand):
            lines += self.call(node.child(f"allOf/{index}", part), "value", "where", 4)
        return lines

    def emit_if(self, operand: "Any", node: "Node") -> "list[str]":
        lines = []
        condition = self.function(node.child("if", operand))
        for key, test in (("then", "is None"), ("else", "is not None")):
            if key in node.schema:
                check = self.function(node.child(key, node.schema[key]))
                title = node.schema[key].get("title")
                if not title:
                    raise SchemaError(f"{node.at}/{key}: needs a title, for the message 'FIELD: must … TITLE'")
                lines += [
                    f"    if {condition}(value, where) {test}:",
                    f"        why = {check}(value, where)",
                    "        if why is not None:",
                    f"            return why + {quoted(' ' + title)}",
                ]
        return lines

    # The fast layer, for flat objects of texts. Its parts raise NoFastLayer for what they do not know. A condition is a
    # list of lines, and is never true where the rule that it stands for is broken.

    def fast_layer(self, node: "Node") -> "list[str] | None":
        """Lines that return None for nearly every good value and go on for all else; None: not for this schema."""
        try:
            takes, tests = self.fast_fields(node)
            tests += self.fast_rules(node)
        except NoFastLayer:
            return None
        names = node.table.replace("_FIELDS", "_NAMES")
        self.tables.append(f"{names} = frozenset({node.table})")
        return [
            f"    if type(value) is dict and {names}.issuperset(value):",
            "        try:",
            "            values = [*value.values()]",
            *takes,
            '            texts = "".join(values)',
            "            if (",
            *conjunction([[r'"\n" not in texts'], [r'"\r" not in texts'], *tests], 16),
            "            ):",
            "                return None",
            "        except (KeyError, TypeError):",
            "            pass  # a field is missing, or is no text: the exact check says which",
        ]

    def fast_fields(self, node: "Node") -> "tuple[list[str], list[list[str]]]":
        """Statements that take out what is no text, so that str.join may judge the rest; and conditions."""
        schema = node.schema
        known = ("type", "properties", "additionalProperties", "required", "allOf", "if", "then", *ANNOTATIONS)
        if schema.get("type") != "object" or schema.get("additionalProperties") is not False or set(schema) - set(known):
            raise NoFastLayer
        takes: list[str] = []
        tests: list[list[str]] = []
        for field, part in schema["properties"].items():
            inner = self.resolve(node.child(f"properties/{field}", part)).schema
            must = field in schema.get("required", [])
            if not isinstance(inner, dict):
                raise NoFastLayer
            if isinstance(inner.get("const"), str) or "enum" in inner or inner.get("type") == "string":
                more = self.text_tests(node.child("", part), f"value[{quoted(field)}]")
                tests += more or ([[f"{quoted(field)} in value"]] if must else [])
            else:
                name = f"other_{len(takes) // 2}"
                # Taken out by its value: if another is equal to it, one of the two is left, and join refuses it.
                takes += [f"            {name} = value[{quoted(field)}]", f"            values.remove({name})"]
                more = self.other_tests(inner, name)
                tests += more
            if more and not must:
                raise NoFastLayer
        return takes, tests

    def fast_rules(self, node: "Node") -> "list[list[str]]":
        """Conditions for the ifs of an object: the if certainly fails, or the then certainly holds."""
        schema, must = node.schema, node.schema.get("required", [])
        rules = [*schema.get("allOf", [])]
        if "if" in schema:
            rules.append({"if": schema["if"], "then": schema.get("then")})
        tests = []
        for rule in rules:
            if set(rule) != {"if", "then"} or set(rule["if"]) != {"required", "properties"}:
                raise NoFastLayer
            fields = rule["if"]["properties"]
            if rule["if"]["required"] != list(fields) or len(fields) != 1:
                raise NoFastLayer
            [(field, part)] = fields.items()
            fails = [f"{quoted(field)} not in value"]
            if list(part) == ["enum"] and field in must:
                words = list(map(quoted, part["enum"]))
                fails = bracketed(f"value[{quoted(field)}] not in {{", words, "}", 0, WIDTH - 32)
            holds = conjunction(self.then_tests(node, rule["then"], [*must, field]), 8)
            tests.append(["(", *("    " + line for line in fails), "    or (", *holds, "    )", ")"])
        return tests

    def then_tests(self, node: "Node", then: "Any", must: "list[str]") -> "list[list[str]]":
        if not isinstance(then, dict) or not set(then) <= {"title", "required", "properties"}:
            raise NoFastLayer
        needed, tests = then.get("required", []), []
        properties = then.get("properties", {})
        for field, part in properties.items():
            more = self.text_tests(node.child("", part), f"value[{quoted(field)}]")
            if more == [[f"not value[{quoted(field)}]"]]:
                more = [[f"not value.get({quoted(field)})"]]
            elif field not in must and field not in needed:
                raise NoFastLayer
            tests += more
        return tests + [[f"{quoted(field)} in value"] for field in needed if field not in properties]

    def text_tests(self, node: "Node", value: str) -> "list[list[str]]":
        """Conditions on a str without line breaks."""
        node = self.resolve(node)
        if not isinstance(node.schema, dict):
            raise NoFastLayer
        tests: list[list[str]] = []
        for key, operand in node.schema.items():
            if key in ANNOTATIONS or key == "type" and operand == "string":
                continue
            if key == "pattern" and (operand in QUICK or operand in EXACT):
                test = (QUICK.get(operand) or EXACT[operand]).replace("{0}", value)
                tests += [[f"({part})" if " or " in part else part] for part in test.split(" and ")]
            elif key == "enum":
                tests.append(bracketed(f"{value} in {{", list(map(quoted, operand)), "}", 0, WIDTH - 32))
            elif key == "const":
                tests.append([f"{value} == {quoted(operand)}"])
            elif key == "maxLength" and operand == 0:
                tests.append([f"not {value}"])
            elif key == "allOf":
                for part in operand:
                    tests += self.text_tests(node.child("allOf", part), value)
            elif key != "not" or operand.get("pattern") != LINE_BREAK:
                raise NoFastLayer
        return tests

    @staticmethod
    def other_tests(schema: "Any", value: str) -> "list[list[str]]":
        """Conditions on a value that is no text."""
        rules = {key: operand for key, operand in schema.items() if key not in ANNOTATIONS}
        if rules == {"const": True}:
            return [[f"{value} is True"]]
        if rules == {"type": "integer", "const": rules.get("const")} and type(rules["const"]) is int:
            return [[f"type({value}) is int"], [f"{value} == {rules['const']}"]]
        if rules == {"type": "integer", "minimum": rules.get("minimum")}:
            return [[f"type({value}) is int"], [f"{value} >= {rules['minimum']}"]]
        raise NoFastLayer


def compile_schemas(schemas: "dict[str, Any]") -> str:
    """Text of validators.py for schemas (file name to content). Raises SchemaError."""
    for file, schema in schemas.items():
        if not re.match(r"[a-z][a-z0-9-]*\.json\Z", file):
            raise SchemaError(f"{file}: the name must be of lower-case letters, digits and hyphens")
        if not isinstance(schema, dict) or schema.get("$schema") != "http://json-schema.org/draft-07/schema#":
            raise SchemaError(f"{file}: must be an object whose $schema is http://json-schema.org/draft-07/schema#")
        if not isinstance(schema.get("title"), str):
            raise SchemaError(f"{file}: has no title")
    return Compiler(schemas).compile()


def main() -> int:
    parser = argparse.ArgumentParser(description="compile the schemas into validators.py", allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is stale")
    parser.add_argument("--schema", metavar="DIR", default=os.path.join(ROOT, "schema"), help="folder of the schemas")
    parser.add_argument(
        "--output", metavar="FILE", default=os.path.join(ROOT, "lib", "workcell", "validators.py"), help="file to write"
    )
    options = parser.parse_args()
    try:
        text = compile_schemas(read_schemas(options.schema))
    except SchemaError as error:
        print(f"gen_validators.py: {error}", file=sys.stderr)
        return 1
    if options.check:
        try:
            with open(options.output, encoding="ascii") as file:
                fresh = file.read() == text
        except FileNotFoundError:
            fresh = False
        if not fresh:
            print(f"gen_validators.py: {options.output}: stale; run `make validators`", file=sys.stderr)
        return 0 if fresh else 1
    with open(options.output, "w", encoding="ascii") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
