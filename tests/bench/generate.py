#!/usr/bin/env python3
"""Make a synthetic state root: many finished sessions, and one audit log with a sound chain.

Usage: generate.py [--records N] [--profiles N] [--events N] [--active N] STATE_ROOT

  --records N   sessions, spread evenly over the profiles (default 10000)
  --profiles N  profiles (default 1)
  --events N    lines in the audit log of the first profile (default: 2 for each of its sessions)
  --active N    sessions of the first profile that are recorded as running by another writer (default 0)

The first session of the first profile is ONE, in the middle of its log and sealed when cryptography is installed. Nothing is
synced: this is made to be read at once and thrown away.
"""

import argparse
import os
import sys
from hashlib import sha256

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

from workcell import audit, layout, record

ONE = "20260302T081500Z-1f3a9c20"
KIND, PROVIDER = "local_sandbox", "bubblewrap"


def session_id(number):
    """Return the id of a session, ONE for the first; ids sort otherwise than their sessions started."""
    if number == 0:
        return ONE
    clock = f"{number // 3600 % 24:02d}{number // 60 % 60:02d}{number % 60:02d}"
    return f"202603{1 + number % 28:02d}T{clock}Z-{number * 2654435761 % (1 << 32):08x}"


def profile_name(number):
    return f"wcl-bench-{number:08x}"


def fields_of(number, profile, folder, active):
    """Return a record as start and monitor leave it: 33 of the 40 fields are set."""
    clone = f"/home/someone/src/project/.git/workcell-sessions/{session_id(number)}/repo"
    fields = {
        "version": 1,
        "session_id": session_id(number),
        "profile": profile,
        "target_kind": KIND,
        "target_provider": PROVIDER,
        "target_id": profile,
        "target_assurance_class": "sandbox",
        "runtime_api": "bubblewrap",
        "workspace_transport": "isolated-worktree-mount",
        "agent": ("codex", "claude", "gemini")[number % 3],
        "mode": "strict",
        "status": "exited",
        "ui": "cli",
        "execution_path": "managed-tier1",
        "workspace": clone,
        "workspace_origin": "/home/someone/src/project",
        "workspace_root": "/home/someone/src/project",
        "worktree_path": clone,
        "git_branch": f"workcell/session-{session_id(number)}",
        "git_head": "0123456789abcdef0123456789abcdef01234567",
        "git_base": "0123456789abcdef0123456789abcdef01234567",
        "container_name": f"workcell-codex-strict-project-{number:08x}",
        "monitor_pid": str(1000 + number),
        "live_status": "stopped",
        "session_audit_dir": f"{folder}/session-audit.{number % (62**6):06d}",
        "audit_log_path": f"{folder}/workcell.audit.log",
        "transcript_log_path": f"{folder}/transcripts/{session_id(number)}.cast",
        "started_at": f"2026-03-{1 + number % 28:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "observed_at": "2026-03-30T10:00:00Z",
        "finished_at": "2026-03-30T10:00:00Z",
        "exit_status": "0",
        "initial_assurance": "managed-readonly",
        "current_assurance": "managed-readonly",
        "final_assurance": "managed-readonly",
        "workspace_control_plane": "unmasked",
        "workspace_repo_mcp": "unmasked",
    }
    if active:
        fields |= {"status": "running", "live_status": "running", "target_provider": "colima"}
        for name in ("finished_at", "exit_status", "final_assurance"):
            del fields[name]
    return fields


def write(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def records(root, count, profiles=1, active=0):
    """Write records below a state root and return the folders of the profiles."""
    made = []
    for number in range(profiles):
        folder = os.path.join(root, "targets", KIND, PROVIDER, profile_name(number))
        os.makedirs(os.path.join(folder, "sessions"), mode=0o700, exist_ok=True)
        for part in range(folder.count("/")):
            below = folder.rsplit("/", part)[0]
            if below.startswith(root):
                os.chmod(below, 0o700)
        os.chmod(os.path.join(folder, "sessions"), 0o700)
        made.append(folder)
    for number in range(count):
        at = number % profiles
        fields = fields_of(number, profile_name(at), made[at], active=0 < number <= active * profiles and at == 0)
        write(layout.record_path(made[at], fields["session_id"]), record.encode(fields))
    return made


def chain(count, sessions, one_at):
    """Yield the lines of a log, pieces of some hundred at a time; those of ONE lie around the place `one_at`."""
    previous, piece = "", []
    for at in range(count):
        owner = ONE if one_at <= at < one_at + 4 else session_id(1 + at % max(1, sessions - 1))
        args = [
            b"event=command",
            b"session_id=" + owner.encode(),
            b"source=host-cli",
            b"command=session-send",
            b"argv=fix the failing test number %d, then say what it was" % at,
        ]
        line = audit.format_line(previous, "2026-03-02T08:15:00Z", args)
        previous = line[-66:-2].decode()
        piece.append(line)
        if len(piece) == 512:
            yield b"".join(piece)
            piece = []
    yield b"".join(piece)


def log(path, count, sessions, one_at=None):
    """Write an audit log with a chain of `count` lines."""
    one_at = count // 2 if one_at is None else one_at
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        for piece in chain(count, sessions, one_at):
            stream.write(piece)


def seal(root, folder, owner):
    """Seal a session; say whether that was possible here."""
    from workcell import seal as seals

    try:
        made = seals.seal_session(layout.record_path(folder, owner), owner, PROVIDER, signing_dir=os.path.join(root, "signing"))
        return made is not None
    except ImportError:
        return False


def make(root, count, profiles=1, events=None, active=0):
    """Make it all and return the folder of the first profile."""
    root = os.path.abspath(root)
    os.makedirs(root, mode=0o700, exist_ok=True)
    folders = records(root, count, profiles, active)
    mine = -(-count // profiles)
    log(os.path.join(folders[0], "workcell.audit.log"), 2 * mine if events is None else events, mine)
    seal(root, folders[0], ONE)
    return folders[0]


def split_floor(data):
    """Return how many digests were taken: what no check of a chain can do without."""
    return len([sha256(line).digest() for line in data.split(b"\n")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--profiles", type=int, default=1)
    parser.add_argument("--events", type=int, default=None)
    parser.add_argument("--active", type=int, default=0)
    parser.add_argument("root")
    options = parser.parse_args()
    print(make(options.root, options.records, options.profiles, options.events, options.active))


if __name__ == "__main__":
    main()
