"""Where each file of the toolkit lives: plain functions from ids to paths; nothing is opened or made here.

The tree under the state root is described in workcell-session-record(5).
"""

import os

from workcell.errors import PreconditionError, UnreadableError

PROFILE_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def home_dir() -> str:
    """Return the operator's home: $HOME where it is an absolute path, else the account database's entry."""
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        import pwd

        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            raise PreconditionError("home folder", "HOME is not set and this user has no account", "set HOME") from None
    return _checked_root(os.path.normpath(home), "HOME")


def _checked_root(path: str, name: str) -> str:
    if any(c in path for c in "\r\n\0"):
        raise UnreadableError(name, "contains a newline, a carriage return or a NUL", "name another folder")
    return os.path.abspath(path)


def state_root() -> str:
    """Return the folder of all durable state: $WORKCELL_STATE_ROOT, $XDG_STATE_HOME/workcell, ~/.local/state/workcell."""
    root = os.environ.get("WORKCELL_STATE_ROOT", "")
    if root:
        return _checked_root(root, "WORKCELL_STATE_ROOT")
    xdg = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(xdg):
        return _checked_root(os.path.join(xdg, "workcell"), "XDG_STATE_HOME")
    return os.path.join(home_dir(), ".local/state/workcell")


def legacy_root() -> str:
    """Return the folder where older records lie, one folder a profile: $COLIMA_STATE_ROOT, else ~/.colima."""
    root = os.environ.get("COLIMA_STATE_ROOT", "")
    return _checked_root(root, "COLIMA_STATE_ROOT") if root else os.path.join(home_dir(), ".colima")


def config_dir() -> str:
    """Return the operator's configuration folder: $XDG_CONFIG_HOME/workcell, else ~/.config/workcell."""
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    base = xdg if os.path.isabs(xdg) else os.path.join(home_dir(), ".config")
    return _checked_root(os.path.join(base, "workcell"), "XDG_CONFIG_HOME")


def cache_dir() -> str:
    """Return the folder of what can be made again: $XDG_CACHE_HOME/workcell, else ~/.cache/workcell."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = xdg if os.path.isabs(xdg) else os.path.join(home_dir(), ".cache")
    return _checked_root(os.path.join(base, "workcell"), "XDG_CACHE_HOME")


def target_root() -> str:
    """Return the folder of the targets, `<state root>/targets`."""
    return os.path.join(state_root(), "targets")


def profile_dir(kind: str, provider: str, profile: str) -> str:
    """Return the folder of one profile of one target."""
    return os.path.join(target_root(), kind, provider, profile)


def sessions_dir(profile: str) -> str:
    """Return the folder of the records in a profile's folder."""
    return os.path.join(profile, "sessions")


def record_path(profile: str, session_id: str) -> str:
    """Return where the record of a session goes in a profile's folder."""
    return os.path.join(profile, "sessions", session_id + ".json")


def audit_log_path(record: str) -> str:
    """Return the one audit log that belongs to a record file: two folders up from it."""
    return os.path.join(os.path.dirname(os.path.dirname(record)), "workcell.audit.log")


def seal_path(record: str) -> str:
    """Return the seal's path for a record file."""
    return record.removesuffix(".json") + ".audit-sig"


def extra_path(record: str) -> str:
    """Return the path of what is remembered beside a record but not sealed."""
    return record.removesuffix(".json") + ".extra"


def transcript_path(profile: str, session_id: str) -> str:
    """Return where the transcript of a session goes in a profile's folder."""
    return os.path.join(profile, "transcripts", session_id + ".cast")


def signing_dir() -> str:
    """Return the folder of the host's keys."""
    return os.path.join(state_root(), "signing")


def check_profile(name: str) -> str:
    """Return a profile's name, or raise PreconditionError: 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first."""
    good = 0 < len(name) <= 64 and PROFILE_CHARACTERS.issuperset(name) and name[0] not in "._-"
    if not good:
        raise PreconditionError(
            f"profile {name!r}", "is no profile name", "use up to 64 letters, digits, '.', '_' or '-', a letter or digit first"
        )
    return name


def slug(text: str) -> str:
    """Return text in lower case with each run of other characters than a-z and 0-9 as one '-', none at the ends."""
    kept = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789" else " " for c in text.lower())
    return "-".join(kept.split())


def derived_profile(workspace: str) -> str:
    """Return the profile name of a source workspace: `wcl-<slug>-<first 8 hex digits of SHA-256 of its real path>`."""
    from workcell.digests import sha256

    real = os.path.realpath(workspace)
    name = slug(os.path.basename(real))[:10].strip("-") or "workspace"
    return f"wcl-{name}-{sha256(os.fsencode(real)).hexdigest()[:8]}"


def data_dir(name: str) -> str:
    """Return the folder `schema` or `adapter` that came with this library: checkout, installed prefix or wheel."""
    here = os.path.dirname(os.path.abspath(__file__))
    for base in (here, os.path.dirname(here), os.path.dirname(os.path.dirname(here))):
        path = os.path.join(base, name)
        if os.path.isdir(path):
            return path
    raise UnreadableError(name, "this folder of the toolkit is missing", "install workcell again")
