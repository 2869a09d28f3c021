"""The end of a session, and that nothing is left of it but evidence."""

import time

from support import processes_with

GRACE_S = 10


def ended(world, session_id, exit_status):
    """Return the record of a session that has ended in this way, with nothing left of it and its evidence whole."""
    fields = world.show(session_id)
    assert fields["exit_status"] == str(exit_status), fields
    assert processes_with(session_id) == [] and world.scratch_folders() == []
    verified = world.session("verify", "--id", session_id)
    assert verified.exit_status == 0 and "verified" in verified.stdout, verified
    return fields


def stop(world, session_id, exit_status):
    """Ask a session to end; it does so by itself and in time. Returns its record."""
    begun_s = time.monotonic()
    done = world.session("stop", "--id", session_id, "--grace", str(GRACE_S))
    assert done.exit_status == 0 and time.monotonic() - begun_s < GRACE_S, done
    return ended(world, session_id, exit_status)
