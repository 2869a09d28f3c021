"""Worlds of the boundary: who starts the sessions, what is planted on the host, what a tree of files looks like."""

import os
import shutil
import stat
import tempfile

import pytest

import support

# root: root on its own repository; root-for-user: root on a repository of somebody else; user: an ordinary user without an
# account. Who runs the suite as an ordinary user has only the last.
CALLERS = ["root", "root-for-user", "user"] if os.geteuid() == 0 else ["user"]
WHO_CAN_WORK_DIRECTLY = [caller for caller in CALLERS if caller != "root"]


def in_one_place(callers):
    """Return callers as parameters of a fixture that is made once: all tests of one caller go to one worker of xdist."""
    return [pytest.param(caller, marks=pytest.mark.xdist_group(f"boundary-{caller}")) for caller in callers]


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


def give(world, path):
    """Give a path that the test made to the world's user."""
    if world.user:
        os.chown(path, *world.user)


def plant(world, path, content="canary", mode=0o644):
    """Write a file on the host, everybody's to read: what hides it must be the sandbox, not its mode."""
    missing = path
    made = []
    while not os.path.isdir(os.path.dirname(missing)):
        missing = os.path.dirname(missing)
        made.append(missing)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "wb" if isinstance(content, bytes) else "w") as stream:
        stream.write(content)
    os.chmod(path, mode)
    for each in (*made, path):
        give(world, each)
    return path


def make_repo(world, path=None):
    """Make the world's repository, owned by whom its caller asks for; return its path."""
    path = world.make_repo(path)
    hand_over(world, path)
    return path


def hand_over(world, path):
    """Give a folder and all in it to the owner that the world's repository is to have."""
    if world.owner and world.owner != world.user:
        for folder, _, names in os.walk(path):
            for name in (".", *names):
                os.chown(os.path.join(folder, name), *world.owner, follow_symlinks=False)


def take_snapshot(folder, leave_out=()):
    """Return what each entry below a folder is: mode, owner, inode, time of change, content; folders of some paths left out."""
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
