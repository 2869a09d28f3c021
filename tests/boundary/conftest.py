"""Fixtures of the boundary: a world for each kind of caller, and what runs inside of it."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "probes"))
sys.path.insert(0, os.path.dirname(__file__))

import worlds
from inside import Inside


@pytest.fixture(params=worlds.CALLERS)
def anyone(request):
    """A world of each caller in turn."""
    world = worlds.make_world(request.param)
    yield world
    worlds.close_world(world)


@pytest.fixture(params=worlds.WHO_CAN_WORK_DIRECTLY)
def direct(request):
    """A world of each caller that can have an agent work in the repository itself, with the repository made."""
    world = worlds.make_world(request.param)
    worlds.make_repo(world)
    yield world
    worlds.close_world(world)


@pytest.fixture(scope="session", params=worlds.in_one_place(worlds.CALLERS))
def inside(request):
    """What came of every try of probes/boundary_probe.py, for each caller; see inside.Inside."""
    world = worlds.make_world(request.param)
    made = Inside(world)
    try:
        made.run()
        yield made
    finally:
        made.close()
        worlds.close_world(world)
