"""Real agents and real programs in sessions. Only for `make test-agents`, which sets WORKCELL_TEST_AGENTS to where they are."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import install
from fake_api import FakeApi
from screen import Terminal

FOLDER = os.environ.get("WORKCELL_TEST_AGENTS", "")

if not FOLDER:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def agents_are_there():
    """No test of an agent is skipped: where one is missing, all fail."""
    assert not install.missing(FOLDER), f"{FOLDER} has no {install.missing(FOLDER)}; run make test-agents"


@pytest.fixture
def world(world):
    """A world with a repository, and the agents on the operator's PATH."""
    world.make_repo()
    world.env["PATH"] = os.pathsep.join([*install.paths(FOLDER), world.env["PATH"]])
    return world


@pytest.fixture
def api(tmp_path):
    """The model that every agent talks to."""
    served = FakeApi(tmp_path / "requests.jsonl")
    yield served
    served.close()


@pytest.fixture
def terminal(world):
    """A function that attaches to a session on a terminal of its own; all are closed at last."""
    made = []

    def attach(session_id, rows=30, columns=100):
        made.append(Terminal(world.words("workcell-session-attach", "--id", session_id), world.env, world.home, rows, columns))
        return made[-1]

    yield attach
    for one in made:
        one.close()
