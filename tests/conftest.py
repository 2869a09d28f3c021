"""Fixtures for all tests: the library on the path, a private world for each test, and no process left behind."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))

import support


@pytest.fixture
def world(tmp_path):
    """A home, a state root and a git repository of the test's own; at its end no process of a session may be left."""
    made = support.World(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["bubblewrap", "process"])
def target(request):
    """Each target that runs without an engine; the sandbox has to run wherever the suite runs."""
    return request.param
