"""Sessions that another implementation started: a record, a process that is its monitor, a real container, nothing of ours."""

import json
import os
import subprocess
import sys

import engines
import pexpect
import providers
import pytest

from support import BIN

AGENT = (
    "mkdir -p /state/tmp/workcell; mkfifo -m 666 /state/tmp/workcell/session-stdin; exec 3<>/state/tmp/workcell/session-stdin; "
    "trap 'exit 5' TERM; while :; do if read -r -t 1 line <&3; then echo \"said=$line\"; fi; done"
)


class Foreign:
    """One such session in the world of an engine."""

    def __init__(self, provider):
        self.provider, self.world = provider, provider.world
        self.name = f"workcell-codex-strict-repo-{os.urandom(4).hex()}"
        self.id = "20260102T030405Z-0a1b2c3d"
        kind = {"docker": "local_container", "colima": "local_vm", "docker-desktop": "local_compat"}[provider.target]
        profile = "work"
        self.profile_dir = os.path.join(self.world.state, "targets", kind, provider.target, profile)
        self.folder = os.path.join(self.profile_dir, "session-audit.Ab12Cd")
        for folder in (self.world.state, os.path.join(self.profile_dir, "sessions"), self.folder):
            os.makedirs(folder, 0o700, exist_ok=True)
        words = [
            "run",
            "-dit",
            "--name",
            self.name,
            "--network",
            "none",
            "--tmpfs",
            "/state:mode=1777",
            engines.IMAGE,
            "bash",
            "-c",
        ]
        engines.run([*provider.client, *words, AGENT], provider.env)
        state_file = os.path.join(self.folder, "session-monitor.env")
        script = "import sys, time; time.sleep(1000)"
        self.monitor = subprocess.Popen([sys.executable, "-c", script, "session", "monitor", "--state-file", state_file])
        self.path = os.path.join(self.profile_dir, "sessions", self.id + ".json")
        fields = {
            "version": 1, "session_id": self.id, "profile": profile, "target_kind": kind, "target_provider": provider.target,
            "target_id": "desktop-linux" if provider.target == "docker-desktop" else profile, "agent": "codex",
            "target_assurance_class": "strict", "runtime_api": "docker", "workspace_transport": "workspace-mount",
            "mode": "strict", "status": "running", "live_status": "running", "ui": "cli", "execution_path": "managed-tier1",
            "workspace": self.world.repo, "workspace_origin": self.world.repo, "container_name": self.name,
            "monitor_pid": str(self.monitor.pid), "session_audit_dir": self.folder, "started_at": "2026-01-02T03:04:05Z",
            "audit_log_path": os.path.join(self.profile_dir, "workcell.audit.log"), "initial_assurance": "managed-mutable",
            "current_assurance": "managed-mutable", "observed_at": "2026-01-02T03:04:05Z",
        }  # fmt: skip
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as stream:
            json.dump(fields, stream, indent=2)

    def end_monitor(self):
        """End the process that stands for the monitor."""
        self.monitor.kill()
        self.monitor.wait()

    def exists(self):
        """Say whether the container is there."""
        words = [*self.provider.client, "ps", "-aq", "--filter", f"name={self.name}"]
        return bool(engines.run(words, self.provider.env).strip())

    def close(self):
        """Remove all of it."""
        self.end_monitor()
        subprocess.run(
            [*self.provider.client, "rm", "-f", self.name],
            env={**os.environ, **self.provider.env},
            capture_output=True,
            timeout=60,
        )


@pytest.fixture(params=["docker", "colima", "docker-desktop"])
def foreign(request, tmp_path):
    """A running session of another implementation."""
    for provider in providers.serve(request.param, tmp_path, request):
        session = Foreign(provider)
        yield session
        session.close()


def test_it_is_listed_typed_to_joined_stopped_and_deleted_through_its_engine(foreign):
    world = foreign.world
    assert world.session("list").stdout.splitlines()[1].split("\t")[2] == "running"
    words = [os.path.join(BIN, "workcell-session-attach"), "--id", foreign.id]
    child = pexpect.spawn(sys.executable, words, env=world.env, timeout=20, encoding="utf-8")
    try:
        for _ in range(20):  # what was printed before an engine's client was there it does not show
            done = world.session("send", "--id", foreign.id, "--message", "good day")
            assert (done.exit_status, done.values["sent_bytes"]) == (0, "9"), done
            if child.expect(["said=good day", pexpect.TIMEOUT], timeout=1) == 0:
                break
        child.send("\x1c")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    finally:
        child.close(force=True)
    foreign.end_monitor()
    assert "monitor is dead" in world.session("send", "--id", foreign.id, "--message", "x").stderr
    assert world.session("delete", "--id", foreign.id).exit_status == 1
    assert world.session("stop", "--id", foreign.id).exit_status == 0
    fields = world.show(foreign.id)
    assert (fields["status"], fields["live_status"], fields["exit_status"]) == ("exited", "stopped", "5")
    assert world.session("verify", "--id", foreign.id).exit_status == 0
    events = world.session("timeline", "--id", foreign.id).stdout
    names = [word.removeprefix("event=") for word in events.split() if word.startswith("event=")]
    assert [name for name in names if name != "command"] == ["attach-attempt", "attach", "stop-request", "exit"]
    assert "command" in names
    assert foreign.exists(), "stop does not remove it"
    planned = world.session("delete", "--id", foreign.id, "--dry-run")
    assert planned.values["would_remove"] == "record,container,session_audit_dir,audit_seal" and foreign.exists()
    assert world.session("delete", "--id", foreign.id).exit_status == 0
    assert not foreign.exists() and not os.path.exists(foreign.path) and not os.path.exists(foreign.folder)


def test_one_whose_container_has_ended_or_is_gone_is_finished_and_one_whose_engine_is_silent_is_not(foreign):
    world = foreign.world
    foreign.end_monitor()
    silent = {"DOCKER_HOST": "unix:///nonexistent/d.sock", "COLIMA_STATE_ROOT": "/nonexistent", "DOCKER_CONFIG": "/nonexistent"}
    done = world.session("stop", "--id", foreign.id, env=silent)
    assert done.exit_status == 1 and world.show(foreign.id)["status"] == "running", done
    engines.run([*foreign.provider.client, "rm", "-f", foreign.name], foreign.provider.env)
    assert world.session("stop", "--id", foreign.id).exit_status == 0
    fields = world.show(foreign.id)
    assert (fields["status"], fields["exit_status"]) == ("aborted", "1")
    done = world.session("delete", "--id", foreign.id)
    assert done.exit_status == 0 and done.values["missing"] == "container", done
