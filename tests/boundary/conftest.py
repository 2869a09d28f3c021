"""Fixtures of the boundary: who starts the sessions, a world for each, and what runs inside of them."""

import os
import shutil
import stat
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "probes"))
sys.path.insert(0, os.path.dirname(__file__))

import inside as inside_  # noqa: E402
import support  # noqa: E402

# root: root on its own repository; root-for-user: root on a repository of somebody else; user: an ordinary user without an
# account. Who runs the suite as an ordinary user has only the last.
CALLERS = ["root", "root-for-user", "user"] if os.geteuid() == 0 else ["user"]


def make_world(caller):
    """Return a World in a folder that every user can pass through, which pytest's own is not."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="workcell-boundary-"))
    os.chmod(folder, 0o755)
    ordinary = support.unused_user() if os.geteuid() == 0 else None
    world = support.World(folder, user=ordinary if caller == "user" else None)
    world.caller = caller
    world.owner = ordinary if caller == "root-for-user" else world.user  # of the repository; None: the caller
    return world


def close_world(world):
    try:
        world.close()
    finally:
        shutil.rmtree(world.folder)


@pytest.fixture(params=CALLERS)
def anyone(request):
    """A world of each caller in turn."""
    world = make_world(request.param)
    yield world
    close_world(world)


@pytest.fixture(params=[caller for caller in CALLERS if caller != "root"])
def direct(request):
    """A world of each caller that can have an agent work in the repository itself, with the repository made."""
    world = make_world(request.param)
    inside_.make_repo(world)
    yield world
    close_world(world)


@pytest.fixture(scope="session", params=CALLERS)
def inside(request):
    """What came of every try of probes/boundary_probe.py, for each caller; see inside.Inside."""
    world = make_world(request.param)
    made = inside_.Inside(world)
    try:
        made.run()
        yield made
    finally:
        made.close()
        close_world(world)


@pytest.fixture
def snapshot():
    """Return a function that says of each entry below a folder what it is: mode, owner, size, times, content."""
    return take_snapshot


def take_snapshot(folder, leave_out=()):
    found = {}
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if os.path.join(path, name) not in leave_out]
        for name in (*folders, *names):
            full = os.path.join(path, name)
            state = os.lstat(full)
            content = b""
            if stat.S_ISREG(state.st_mode):
                with open(full, "rb") as stream:
                    content = stream.read()
            elif stat.S_ISLNK(state.st_mode):
                content = os.fsencode(os.readlink(full))
            # A folder's own times change with what is left out.
            times = state.st_mtime_ns if not stat.S_ISDIR(state.st_mode) else 0
            found[os.path.relpath(full, folder)] = (state.st_mode, state.st_uid, state.st_ino, times, content)
    return found
