"""Persistent homes: a folder for each agent of a profile, `homes/AGENT` in the profile's, for one session at a time.

What is in one came from inside of sandboxes, and goes into the next. Nothing here looks at it, but to give it to the user
that the next one has.
"""

import os

from workcell import atomic, liveness, lock, runtimes, scratch, workspace
from workcell.errors import PreconditionError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

FOLDER = "homes"
WAIT_S = 30.0


def path_of(profile_dir: str, agent: str) -> str:
    """Return where the home of an agent is kept."""
    return os.path.join(profile_dir, FOLDER, agent)


def require_free(path: str) -> None:
    """Raise PreconditionError where a session has this home; one of which nobody can tell whether it lives has it, too."""
    profile_dir = os.path.dirname(os.path.dirname(path))
    try:
        names = os.listdir(profile_dir)
    except FileNotFoundError:
        return
    for name in names:
        folder = os.path.join(profile_dir, name)
        if not name.startswith(scratch.PREFIX) or not scratch.is_ours(folder):
            continue
        try:
            spec = scratch.read_spec(folder)
        except UnreadableError:
            continue  # on its way in or out: the one has not come to a home, the other is over
        if spec.get("home_path") == path and _may_live(folder, spec["session_id"]):
            raise PreconditionError(
                f"the persistent home of {spec['agent']}",
                f"is used by session {spec['session_id']}",
                "stop that one first, give another --profile, or leave out --home persistent",
            )


def _may_live(folder: str, session_id: str) -> bool:
    monitor = scratch.open_lock(folder)
    if monitor is None:
        return False
    try:
        if scratch.lock_is_held(monitor):
            return True
    finally:
        os.close(monitor)
    if liveness.other_boot(folder):
        return False
    return runtimes.of_spec(scratch.read_spec(folder)).state(folder, session_id).running is not False


def turn(path: str) -> "AbstractContextManager[int]":
    """Make a home where it is missing, and hold the right to take one of this profile: nobody else looks meanwhile."""
    atomic.make_dir(os.path.dirname(path))
    atomic.make_dir(path)
    return lock.exclusive(os.path.dirname(path), WAIT_S)


def give(path: str, uid: int, gid: int) -> None:
    """Give a home and all in it to the user of the next sandbox; the folder itself last, so that a half-done gift shows."""
    if os.lstat(path).st_uid != uid:
        workspace.give_away(path, uid, gid)
