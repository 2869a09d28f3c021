"""Fixtures of the tests of session diff: a world, and one that the tests of a module share."""

import os

import diffs
import pytest

import support


@pytest.fixture
def place():
    """A world of the test's own, in a folder that the sandbox's user can pass through."""
    world = diffs.make_world()
    yield world
    diffs.close_world(world)


@pytest.fixture
def ordinary():
    """The world of an ordinary user, who may be the one that runs the tests."""
    world = diffs.make_world(support.unused_user() if os.geteuid() == 0 else None)
    yield world
    diffs.close_world(world)


@pytest.fixture(scope="module")
def shared():
    """A world with a repository that several tests start sessions from and none changes."""
    world = diffs.make_world()
    diffs.make_repository(world)
    yield world
    diffs.close_world(world)
