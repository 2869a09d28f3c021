"""The README: what it names is there, and its first session works as it is printed."""

import os
import re

import pytest

from support import ROOT
from tree_support import executables, read

README = read("README.md")


def section(title):
    """Return the text of a section."""
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)[1]


def commands_in(text):
    """Return the lines of the shell blocks of a text."""
    return [line for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S) for line in block.splitlines()]


def test_each_command_that_the_readme_names_exists():
    named = set(re.findall(r"\bworkcell[ -]session[ -]([a-z]+(?:-[a-z]+)*)\b(?!\()", README))
    assert {"start", "verify"} <= named
    assert {f"workcell-session-{verb}" for verb in named} <= set(executables())


def test_the_readme_lists_each_command_but_the_internal_ones():
    listed = set(re.findall(r"^\| `(workcell session [a-z-]+)` \|", section("Commands"), re.M))
    there = {name.replace("-", " ", 2) for name in executables() if name.startswith("workcell-session-")}
    assert listed == there - {"workcell session monitor"}


def test_what_the_readme_says_is_not_done_is_not_there():
    promised = re.findall(r"`([a-z]+)`", section("Not done yet").partition(";")[0])
    assert not {f"workcell-session-{verb}" for verb in promised} & set(executables()), "move it to the commands"


def test_each_make_target_and_file_that_the_readme_names_exists():
    makefile = read("Makefile")
    for target in re.findall(r"^    make ([a-z]+)|&& make ([a-z]+)|`make ([a-z]+)`", README, re.M):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.M), f"make {name}"
    for path in re.findall(r"\]\(([A-Za-z./]+)\)|`((?:docs|schema)/[a-z0-9/]*)`", README):
        assert os.path.exists(os.path.join(ROOT, "".join(path))), path


def test_the_readme_has_each_target_and_each_agent():
    from workcell import agents, runtimes

    targets = re.findall(r"^\| `([a-z][a-z-]*)` \|", section("Targets"), re.M)
    assert sorted(targets) == sorted(["auto", *runtimes.names()])
    rows = dict(re.findall(r"^\| `([a-z]+)` \| .* \| (.*?) ?\|$", section("Agents"), re.M))
    assert rows == {agent.name: "".join(f"`{word}`" for word in agent.autonomy["yolo"]) for agent in agents.BUILT_IN}


def test_the_readme_stays_short():
    assert len(README.splitlines()) < 220


def test_the_first_session_of_the_readme_works_as_it_is_printed(world):
    world.make_repo()
    lines = commands_in(section("A first session"))
    assert len(lines) > 10
    # Without a terminal attach copies the output until the session ends; tests/pty has the detaching.
    script = "\n".join(["set -eu", *(line for line in lines if "session attach" not in line)])
    done = world.run("bash", "-c", script, timeout=120)
    assert done.exit_status == 0, done
    assert "add a note" in done.stdout
    assert "session_verify=verified" in done.stdout
    assert world.git("status", "--short") == ""


@pytest.mark.parametrize("line", [line for line in section("Commands").splitlines() if line.startswith("    workcell ")])
def test_the_pipelines_of_the_readme_are_accepted_by_each_command(world, line):
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "exit 3")
    assert world.session("wait", "--id", session_id).exit_status == 3
    if "jq" in line:
        assert world.run("sh", "-c", "command -v jq").exit_status == 0, "jq is not on PATH; install it"
    line = line.replace("--status running", "--status failed")  # a session that runs would have to be ended too
    done = world.run("bash", "-c", "set -euo pipefail\n" + line)
    assert done.exit_status == 0, done
    assert session_id in done.stdout
