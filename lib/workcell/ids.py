"""Session ids: make one, and refuse what could not be one before any file is opened."""

import os
import time

from workcell.errors import NotFoundError


def new_session_id() -> str:
    """Return a fresh id, `YYYYMMDDTHHMMSSZ-` and eight random hex digits."""
    return time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime()) + os.urandom(4).hex()


def usable_as_file_name(session_id: str) -> bool:
    """Say whether `<id>.json` is one plain file name; other writers may use ids that are not."""
    return bool(session_id) and len(session_id) <= 200 and not any(c in session_id for c in "/\0\r\n")


def check_session_id(session_id: str) -> str:
    """Return the id, or raise NotFoundError where no record could have it (contains CR, LF or NUL, or is blank)."""
    if not session_id.strip() or any(c in session_id for c in "\0\r\n"):
        raise NotFoundError(repr(session_id), "file does not exist", "ids are listed by workcell-session-list")
    return session_id
