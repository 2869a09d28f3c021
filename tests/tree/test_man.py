"""The manual pages: made from the headers and fresh, clean to groff, and complete as far as a program can tell."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from support import ROOT
from tree_support import LIB, executables, modules, project_files, read
from workcell import agents, events, record, seal

PAGES = sorted(
    f"docs/{folder}/{name}" for folder in ("man1", "man5", "man7") for name in os.listdir(os.path.join(ROOT, "docs", folder))
)
GENERATOR = os.path.join(ROOT, "tools", "gen_man.py")


def text_of(page):
    """Return a page with its escapes for hyphens, backslashes and blanks undone."""
    return read("docs", page).replace(r"\-", "-").replace(r"\(ti", "~").replace(r"\(aq", "'").replace(r"\e", "\\")


def run(*words):
    return subprocess.run([sys.executable, GENERATOR, *words], capture_output=True, text=True)


def test_the_pages_of_section_1_are_those_that_the_headers_give():
    done = run("--check")
    assert done.returncode == 0, done.stderr
    assert {os.path.basename(page) for page in PAGES if page.endswith(".1")} == {f"{name}.1" for name in executables()}


def test_a_page_that_is_changed_missing_or_left_over_is_told(tmp_path):
    assert run("--output", str(tmp_path)).returncode == 0
    assert run("--check", "--output", str(tmp_path)).returncode == 0
    (tmp_path / "workcell-help.1").write_text("something else\n")
    (tmp_path / "workcell.1").unlink()
    (tmp_path / "workcell-gone.1").write_text("")
    done = run("--check", "--output", str(tmp_path))
    assert done.returncode == 1
    assert all(name in done.stderr for name in ("workcell-help.1", "workcell.1", "workcell-gone.1"))
    assert run("--output", str(tmp_path)).returncode == 0
    assert set(os.listdir(tmp_path)) == {f"{name}.1" for name in executables()}


HEADER = '''#!/usr/bin/env python3
"""workcell-odd - print \\\\n and more

Usage: workcell-odd [--it WHAT] [FILE...]

.TH is no request here, nor is
'this, and C:\\\\DIR stays.

  --it WHAT  takes `--its` WHAT; see workcell(7)
             and goes on here

Exit status: 0 done; 1 not; 2 usage
"""
'''


def test_what_roff_would_take_for_its_own_is_printed_as_it_stands(tmp_path):
    needs_groff()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "workcell-odd").write_text(HEADER)
    done = run("--bin", str(tmp_path / "bin"), "--output", str(tmp_path / "man"))
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou", str(tmp_path / "man" / "workcell-odd.1")], capture_output=True, text=True
    )
    assert shown.stderr == ""
    text = " ".join(shown.stdout.split())
    for part in (
        "workcell-odd - print \\n and more",
        "workcell-odd [--it WHAT] [FILE...]",
        ".TH is no request here, nor is 'this, and C:\\DIR stays.",
        "--it WHAT takes --its WHAT; see workcell(7) and goes on here",
        "0 done 1 not 2 usage",
    ):
        assert part in text, text


@pytest.mark.parametrize(
    "change, word",
    [
        (("workcell-odd - ", "odd - "), "does not begin with"),
        (("Exit status:", "Ends with"), "has no 'Exit status:'"),
        (("Usage:", "Use:"), "has no 'Usage:'"),
        (("2 usage", "2\nusage Files: workcell-agents(5)"), "does not begin a line"),
        (("2 usage", "2 usage\nFiles: workcell-nothing(5)"), "is missing"),
    ],
    ids=["summary", "exit-status", "usage", "files-inside-a-line", "page-that-is-not-there"],
)
def test_a_header_in_another_form_is_refused(tmp_path, change, word):
    (tmp_path / "workcell-odd").write_text(HEADER.replace(*change))
    done = run("--bin", str(tmp_path), "--output", str(tmp_path / "man"))
    assert done.returncode == 1 and word in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def needs_groff():
    if shutil.which("groff") is None:
        pytest.fail("groff is not on PATH, and the pages are looked through with it; install it (Debian: groff-base)")


@pytest.mark.parametrize("page", PAGES)
def test_groff_has_no_warning_for_a_page(page):
    needs_groff()
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-K", "utf8", "-Tutf8", os.path.join(ROOT, page)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_its_name_and_section_first_and_has_no_date(page):
    name, _, section = os.path.basename(page).rpartition(".")
    text = text_of(page.removeprefix("docs/"))
    assert re.search(rf'^\.TH {re.escape(name.upper())} {section} "" ', text, re.M)
    assert re.search(rf"^\.SH NAME\n{re.escape(name)} - \S", text, re.M)
    assert "\n.SH SEE ALSO\n" in text
    assert not re.search(r"[ \t]$", text, re.M), "blanks at the end of a line"


def test_each_page_that_a_file_refers_to_is_there():
    missing = []
    for name in project_files():
        if not name.startswith(("bin/", "lib/", "docs/", "schema/", "adapter/", "README", "CONTRIBUTING", "CHANGELOG")):
            continue
        text = read(name).replace(r"\-", "-").replace(r"\fR", "").replace(r"\fP", "")
        for page, section in set(re.findall(r"\b(workcell(?:-[a-z]+)*)[*_`]* ?\(([1-8])\)", text)):
            if not os.path.isfile(os.path.join(ROOT, "docs", f"man{section}", f"{page}.{section}")):
                missing.append(f"{name}: {page}({section})")
    assert missing == []


# --- every field is there


def named(words, page):
    """Return the words that a page does not have as a whole."""
    text = text_of(page)
    return [word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]


def test_the_page_of_records_has_each_field_status_and_computed_key():
    words = [*record.FIELDS, *record.ACTIVE, *record.TERMINAL, *record.TEXT_KEYS]
    assert named(words, "man5/workcell-session-record.5") == []


def test_the_page_of_records_names_each_live_status():
    from workcell import liveness

    words = [liveness.UNMONITORED, liveness.LOST, liveness.UNKNOWN, "stopped"]
    assert named(words, "man5/workcell-session-record.5") == []


def test_the_page_of_the_audit_log_has_each_key_and_each_event_that_is_written():
    assert named([*events.LAUNCH_KEYS, *events.EXIT_KEYS, *events.CHANGE_KEYS], "man5/workcell-audit-log.5") == []
    written = set()
    for name in project_files():
        if not name.startswith(("bin/", "lib/")):
            continue
        text = read(name)
        written |= set(re.findall(r'\.append(?:_event)?\(\s*(?:\w+, )?"([a-z]+(?:-[a-z]+)*)",', text))
        written |= set(re.findall(r'_event_line\([^"\n]*"([a-z-]+)"', text))
        written |= set(re.findall(r'"(host-[a-z-]+)"', text))
    assert {"launch", "command", "stop-request", "exit", "audit-tail-recovered", "host-cli"} <= written, "found too few"
    assert named(sorted(written), "man5/workcell-audit-log.5") == []


def test_the_page_of_seals_has_each_field_and_each_verdict():
    with open(os.path.join(ROOT, "schema", "session-verify.json"), encoding="utf-8") as stream:
        verdicts = json.load(stream)["properties"]["verdict"]["enum"]
    assert named([*seal.FIELDS, *verdicts], "man5/workcell-audit-seal.5") == []


def test_the_page_of_agents_has_each_agent_with_its_variables_files_and_arguments():
    for agent in agents.BUILT_IN:
        words = [agent.name, *agent.env, *agent.home, *agent.autonomy["yolo"], *agent.autonomy["prompt"]]
        assert named(words, "man5/workcell-agents.5") == []
    with open(os.path.join(LIB, "agents.py"), encoding="utf-8") as stream:
        keys = re.search(r'for key in \(("command".*?)\)\}', stream.read())[1]
    assert named([*re.findall(r'"(\w+)"', keys), "pause_ms", "stop_signal"], "man5/workcell-agents.5") == []


def test_the_page_of_the_launch_spec_has_each_field_and_each_file_of_the_scratch_folder():
    from workcell import scratch

    with open(os.path.join(ROOT, "schema", "launch-spec.json"), encoding="utf-8") as stream:
        fields = list(json.load(stream)["properties"])
    files = [value for name, value in vars(scratch).items() if name.isupper() and isinstance(value, str) and name != "PREFIX"]
    files = [name for name in files if not name.startswith("ABC")]
    assert len(files) > 8
    assert named([*fields, *files], "man5/workcell-launch-spec.5") == []


def test_the_page_of_the_design_has_each_variable_that_the_toolkit_reads():
    read_by_us = set()
    for path in modules().values():
        with open(path, encoding="utf-8") as stream:
            read_by_us |= set(re.findall(r'environ(?:\.get)?[([]"((?:WORKCELL|XDG|COLIMA)_[A-Z_]+)"', stream.read()))
    assert "WORKCELL_STATE_ROOT" in read_by_us
    assert named(sorted(read_by_us), "man7/workcell.7") == []


def test_the_example_of_the_audit_log_has_the_digests_that_its_text_asks_for():
    from workcell import canonical, quoting

    text = text_of("man5/workcell-audit-log.5").partition("\n.EX\n")[2].partition("\n.EE\n")[0]
    lines = text.replace("\n  ", " ").split("\n")
    assert len(lines) == 2
    previous = None
    for line in lines:
        pairs = [word.partition(b"=") for word in quoting.tokenize(line.encode())]
        values = {key.decode(): value.decode() for key, _, value in pairs}
        args = [b"%s=%s" % (key, value) for key, _, value in pairs if key.decode() not in CHAIN]
        assert previous in (None, values["prev_digest"])
        previous = canonical.event_digest(values["prev_digest"].encode(), values["timestamp"].encode(), args)
        assert values["record_digest"] == previous


CHAIN = ("timestamp", "prev_digest", "record_digest")


def test_the_examples_of_records_seals_and_launch_specs_fit_their_schemas():
    from workcell import schema

    for page, kind in (
        ("man5/workcell-session-record.5", "session-record"),
        ("man5/workcell-launch-spec.5", "launch-spec"),
        ("man5/workcell-audit-seal.5", "audit-seal"),
    ):
        example = next(part for part in re.findall(r"\n\.EX\n(.*?)\n\.EE\n", text_of(page), re.S) if part.startswith("{\n"))
        schema.check(kind, json.loads(example))


# --- completion

COMPLETE = r"""
source "$1"; shift
compopt() { echo "$2"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_workcell "$1"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    "words, wanted",
    [
        (["workcell", ""], {"session", "help", "--help", "--version"}),
        (["workcell", "session", "st"], {"start", "stop"}),
        (["workcell", "session", "start", "--ne"], {"--network"}),
        (["workcell", "session", "start", "--target", "b"], {"bubblewrap"}),
        (["workcell-session-logs", "--kind", "t"], {"transcript"}),
        (["/usr/bin/workcell-session-start", "--debug-log", "x"], {"default"}),
        (["workcell-session-start", "--", "--he"], {"default"}),
    ],
)
def test_bash_completes_commands_options_and_values(words, wanted):
    path = os.path.join(ROOT, "docs", "completion", "workcell.bash")
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", path, *words], capture_output=True, text=True, timeout=20)
    assert not done.stderr and set(done.stdout.split()) == wanted, done


def test_bash_completes_the_ids_of_sessions(world):
    world.make_repo()
    session_id = world.start("--", "true")
    world.session("wait", "--id", session_id)
    path = os.path.join(ROOT, "docs", "completion", "workcell.bash")
    done = world.run("bash", "-c", COMPLETE, "bash", path, "workcell", "session", "show", "--id", session_id[:4])
    assert done.stdout.split() == [session_id]
