"""What the tests of records, logs and seals share: a state root of their own, records in it, and processes that must end."""

import os
import signal
import subprocess
import sys
import time

import hypothesis

from workcell import audit, layout, record

# On a busy machine the first example of a test may take long; none of these tests is about time.
hypothesis.settings.register_profile("evidence", deadline=None)
hypothesis.settings.load_profile("evidence")

LIB = os.path.dirname(os.path.dirname(os.path.abspath(record.__file__)))
SESSION = "20260302T081500Z-1f3a9c20"
OTHER = "20260302T093000Z-27b04e11"
STARTED = "2026-03-02T08:15:00Z"
FINAL = {
    "status": "exited",
    "live_status": "stopped",
    "finished_at": "2026-03-02T09:00:00Z",
    "exit_status": "0",
    "final_assurance": "managed-readonly",
}


def profile_folder(profile="wcl-atlas"):
    return layout.profile_dir("local_sandbox", "bubblewrap", profile)


def path_of(session_id=SESSION, profile="wcl-atlas"):
    return layout.record_path(profile_folder(profile), session_id)


def log_of(profile="wcl-atlas"):
    return os.path.join(profile_folder(profile), "workcell.audit.log")


def fields_of(session_id=SESSION, profile="wcl-atlas", **more):
    return {
        "session_id": session_id,
        "profile": profile,
        "target_kind": "local_sandbox",
        "target_provider": "bubblewrap",
        "agent": "codex",
        "mode": "strict",
        "status": "running",
        "live_status": "running",
        "workspace": "/srv/work/repo",
        "audit_log_path": log_of(profile),
        "started_at": STARTED,
        **more,
    }


def make_record(session_id=SESSION, profile="wcl-atlas", **more):
    path = path_of(session_id, profile)
    record.create(path, fields_of(session_id, profile, **more))
    return path


def add_events(*events, session_id=SESSION, profile="wcl-atlas"):
    return [audit.append_event(log_of(profile), event, session_id, [("source", "host-cli")]) for event in events]


def write(path, data, mode=0o600):
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    return path


def content(path):
    with open(path, "rb") as file:
        return file.read()


def wait_until(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition did not come true in time"
        time.sleep(0.005)


class Children:
    """Python programs run beside the test; at the end every one of them has been waited for."""

    def __init__(self):
        self.running = []

    def start(self, source, *args, **more):
        program = f"import sys; sys.path.insert(0, {LIB!r})\n{source}"
        child = subprocess.Popen([sys.executable, "-c", program, *args], stdout=subprocess.PIPE, text=True, **more)
        self.running.append(child)
        return child

    def join(self, timeout_s=60):
        statuses = [child.wait(timeout_s) for child in self.running]
        self.close()
        return statuses

    def close(self):
        for child in self.running:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.wait(10)
            child.stdout.close()
        assert all(child.returncode is not None for child in self.running)
        self.running = []
