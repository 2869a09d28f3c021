"""The shared session vectors, run against the executables and the library.

They lie outside the project: in the folder that WORKCELL_VECTORS names, else beside the checkout. A vector that asks for what
this toolkit does better on purpose is left out by its tag; the better answer has a test of its own elsewhere.
"""

import fnmatch
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("WORKCELL_BIN") or os.path.join(CHECKOUT, "bin")
VECTORS = os.environ.get("WORKCELL_VECTORS") or os.path.join(CHECKOUT, "../shared/vectors")
MENDED = "D10,D11,D13,D15,D16,D26,D35,D43,D50,lax,superset"

COMMANDS = ("attach", "send", "stop", "list", "show", "delete", "logs", "timeline", "diff", "export", "verify")
# Kinds with many cases are cut by their first letter, so that several workers share them.
LARGE = ("verify", "list", "invalid_record", "usage")
CUTS = ("[a-c]*", "[d-k]*", "[l-m]*", "[n-r]*", "[s-z]*")


def ready(command):
    return os.path.exists(os.path.join(BIN, f"workcell-session-{command}"))


def groups():
    kinds = ["record_write", "audit_digest", "audit_line", "sign_head", "invalid_record"]
    kinds += [command for command in COMMANDS if ready(command)]
    found = [f"{kind}/{cut}" for kind in kinds for cut in (CUTS if kind in LARGE else ("*",))]
    usage = [command for command in COMMANDS if ready(command)]
    if os.path.exists(os.path.join(BIN, "workcell-help")):
        usage += ["help", "no-subcommand", "subcommand", "unknown-subcommand"]
    return found + [f"usage/{word}*" for word in usage]


def cases():
    return sorted(
        f"{kind}/{name}"
        for kind in os.listdir(VECTORS)
        if os.path.isdir(os.path.join(VECTORS, kind))
        for name in os.listdir(os.path.join(VECTORS, kind))
    )


@pytest.fixture(autouse=True)
def vectors():
    if not os.path.isdir(VECTORS):
        if os.environ.get("WORKCELL_VECTORS"):
            pytest.fail(f"WORKCELL_VECTORS names no folder: {VECTORS}")
        pytest.skip("no shared vectors beside the checkout; name their folder in WORKCELL_VECTORS")


@pytest.mark.parametrize("group", groups())
def test_the_answers_are_those_of_the_vectors(group):
    if not [case for case in cases() if fnmatch.fnmatch(case, group)]:
        pytest.skip("no case has such a name")
    environment = {
        **os.environ,
        "PATH": os.path.dirname(sys.executable) + ":" + os.environ.get("PATH", "/usr/bin:/bin"),
    }
    command = [
        sys.executable, os.path.join(VECTORS, "run_vectors.py"), "--bin", os.path.join(BIN, "workcell"),
        "--helper", os.path.join(CHECKOUT, "tests/vectors_helper"), "--skip", MENDED, "--only", group,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, stdout=-1, text=True, timeout=300)
    summary = re.fullmatch(r"(\d+) passed, (\d+) failed", done.stdout.strip().splitlines()[-1])
    assert summary, done.stdout
    # A group whose cases are all left out by their tags ends with status 1 as well, and with nothing that failed.
    assert summary.group(2) == "0", done.stdout


def test_every_case_of_a_command_that_is_there_is_in_a_group():
    names = [case for case in cases() if case.partition("/")[0] != "usage"]
    names = [case for case in names if case.partition("/")[0] not in COMMANDS or ready(case.partition("/")[0])]
    missed = [case for case in names if not any(fnmatch.fnmatch(case, group) for group in groups())]
    assert missed == []
