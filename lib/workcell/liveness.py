"""Is a session alive? Asked of locks and processes, never of a stored word and never of a container engine.

Three answers: present, absent, cannot tell. The last changes nothing and is said. Nothing is written here, and the only lock
that is touched is the monitor's, by a probe that lets go at once.
"""

import os

from workcell import scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ACTIVE = ("starting", "running", "stopping")
MONITORED = "monitored"  # the monitor holds its lock: what the record says is true
UNMONITORED = "unmonitored"  # the monitor is dead, the sandbox lives
LOST = "lost"  # all of it is proven gone, and no final record was written
UNKNOWN = "unknown"  # only an engine, or nobody, could say
FOREIGN = "foreign"  # written by another implementation, nothing of ours can be asked

# Providers whose sessions are always ours, also when the scratch folder is gone.
LOCAL_PROVIDERS = ("bubblewrap", "host")


def presence(fields: "dict[str, Any]", ask: bool = False) -> str:
    """Return MONITORED, UNMONITORED, LOST, UNKNOWN or FOREIGN for a record with an active status.

    ask: also ask a container engine, where it is the only one that could say.
    """
    folder = str(fields["session_audit_dir"])
    local = fields["target_provider"] in LOCAL_PROVIDERS
    if not folder or not scratch.is_ours(folder):
        if not local:
            return FOREIGN
        if folder and not os.path.lexists(os.path.dirname(folder)):
            return UNKNOWN  # the state lies elsewhere than it did, as in a container: its processes are not ours to see either
        return LOST if _gone_without_folder(fields, folder) else UNKNOWN
    lock = scratch.open_lock(folder)
    if lock is None:
        return (LOST if os.path.exists(os.path.join(folder, scratch.LAUNCH_SPEC)) else UNKNOWN) if local else FOREIGN
    try:
        if scratch.lock_is_held(lock):
            return MONITORED
    finally:
        os.close(lock)
    if other_boot(folder):
        return LOST
    from workcell import runtimes

    runtime = runtimes.by_provider(str(fields["target_provider"]))
    if runtime is None:
        return UNKNOWN
    running = runtime.state(folder, str(fields["session_id"]), ask=ask).running
    return UNKNOWN if running is None else UNMONITORED if running else LOST


def look(fields: "dict[str, Any]", path: str, ask: bool = False) -> "tuple[dict[str, Any], str]":
    """Return (fields, live status found now) of a record, for list and show; ask as for `presence`.

    The fields are read again where the session ended between reading them and looking: a record that is final by now is shown
    as it is, and not as lost.
    """
    recorded = str(fields["live_status"] or fields["status"])
    if fields["status"] not in ACTIVE:
        return fields, recorded
    found = presence(fields, ask)
    if found in (MONITORED, FOREIGN):
        return fields, recorded
    from workcell import record
    from workcell.errors import WorkcellError

    try:
        again = record.read(path)
    except WorkcellError:
        return fields, found
    if again["status"] not in ACTIVE:
        return again, str(again["live_status"] or again["status"])
    return fields, found


def other_boot(folder: str) -> bool:
    """Say whether a scratch folder was made before this boot: nothing that it names can still run."""
    from workcell import host
    from workcell.errors import WorkcellError

    try:
        recorded = scratch.read_spec(folder)["boot_id"]
    except WorkcellError:
        return False
    return bool(recorded) and recorded != host.boot_id()


def _gone_without_folder(fields: "dict[str, Any]", folder: str) -> bool:
    """Say whether a session without its folder is proven gone: its monitor's pid is free, or belongs to a later process."""
    if folder and os.path.lexists(folder):
        return False  # something stands there that is not ours: no proof of anything
    pid = str(fields["monitor_pid"])
    if not pid.isdigit() or int(pid) < 2:
        return True
    from workcell import host
    from workcell.runtimes import _local

    if _local.session_processes(str(fields["session_id"])):
        return False
    ticks = host.start_mark(int(pid))
    if ticks is None:
        return True
    import calendar
    import time

    try:
        recorded = calendar.timegm(time.strptime(str(fields["started_at"]), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return False
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    # A minute of slack for a clock that was set meanwhile: a process born at another time than the session is not its monitor.
    return abs(booted + ticks / os.sysconf("SC_CLK_TCK") - recorded) > 60


def found_status(fields: "dict[str, Any]") -> str:
    """Return only the live status of `look`, for a record whose file is not at hand."""
    return look(fields, "")[1]
