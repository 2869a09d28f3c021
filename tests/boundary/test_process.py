"""The target that confines nothing says so everywhere, is never chosen by itself, and leaves no process behind."""

import json
import os
import secrets
import signal

import pytest

import worlds
from support import wait_until

UNCONFINED = "lower-assurance-unconfined"

# Three that want to stay: one in a process session of its own, one that is nobody's child any more, one that in addition has
# nothing of the session in its environment and no terminal. None of them minds being asked to end.
ESCAPES = """\
trap '' TERM HUP INT
setsid sh -c "exec sleep 1000 $MARK" &
( setsid sh -c "sleep 1000 $MARK & exit 0" & )
( setsid sh -c "exec env -i sleep 1000 $MARK </dev/null >/dev/null 2>&1" & )
echo escaped
"""


class Escape:
    """A session whose agent has started three processes that do not want to end with it."""

    def __init__(self, world, then):
        self.world = world
        self.mark = "0." + "".join(secrets.choice("123456789") for _ in range(12))
        worlds.make_repo(world)
        script = ESCAPES.replace("$MARK", self.mark) + then
        self.id = world.start("--", "sh", "-c", script, target="process")
        wait_until(lambda: len(self.escaped()) == 3, what="three escaped processes")
        self.record = world.show(self.id)
        self.folder = self.record["session_audit_dir"]

    def escaped(self):
        """Return the escaped processes that still run."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as stream:
                        command = stream.read()
                except OSError:
                    continue
                # A zombie has no command line any more.
                if command.startswith(b"sleep\0") and self.mark.encode() in command:
                    found.append(int(name))
        return found

    def adapter(self):
        with open(os.path.join(self.folder, "sandbox-status.json")) as stream:
            return json.JSONDecoder().raw_decode(stream.read())[0]["child-pid"]

    def check_ended(self, *statuses):
        record = self.world.show(self.id)
        assert record["status"] in statuses, record
        assert self.escaped() == []
        assert record["final_assurance"] == UNCONFINED
        assert self.world.session("verify", "--id", self.id).exit_status == 0


def test_e03_processes_that_escape_end_when_the_agent_exits(anyone):
    # The agent waits for a line, so that the escaped ones are seen alive first.
    made = Escape(anyone, "read line; exit 5")
    assert len(made.escaped()) == 3
    anyone.session("send", "--id", made.id, "--message", "go")
    assert anyone.session("wait", "--id", made.id).exit_status == 5
    made.check_ended("failed")


@pytest.mark.parametrize("options", [["--grace", "1"], ["--force"]], ids=["asked", "forced"])
def test_e02_processes_that_escape_end_with_a_stop(anyone, options):
    made = Escape(anyone, "while :; do sleep 0.1; done")
    done = anyone.session("stop", *options, "--id", made.id)
    assert done.exit_status == 0, done
    made.check_ended("exited")


def test_processes_that_escape_end_when_the_adapter_is_killed(anyone):
    made = Escape(anyone, "sleep 1000")
    os.kill(made.adapter(), signal.SIGKILL)
    assert anyone.session("wait", "--id", made.id).exit_status == 137
    made.check_ended("failed")


@pytest.mark.parametrize("options", [["--grace", "1"], ["--force"]], ids=["asked", "forced"])
def test_processes_that_escape_end_with_a_stop_after_the_monitor_was_killed(anyone, options):
    made = Escape(anyone, "sleep 1000")
    os.kill(int(made.record["monitor_pid"]), signal.SIGKILL)
    done = anyone.session("stop", *options, "--id", made.id)
    assert done.exit_status == 0, done
    made.check_ended("exited", "aborted")


def test_processes_that_name_their_session_end_with_a_stop_after_monitor_and_adapter_were_killed(anyone):
    """Without both, what has cleared its environment as well cannot be told from any other process; the rest is found."""
    made = Escape(anyone, "sleep 1000")
    adapter = made.adapter()
    os.kill(int(made.record["monitor_pid"]), signal.SIGKILL)
    os.kill(adapter, signal.SIGKILL)
    done = anyone.session("stop", "--force", "--id", made.id)
    assert done.exit_status in (0, 1), done
    left = made.escaped()
    assert len(left) <= 1
    for pid in left:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            assert stream.read() == b""
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: made.escaped() == [])
    assert anyone.show(made.id)["status"] in ("exited", "aborted")


def test_a_stop_of_one_unconfined_session_leaves_another_alone(anyone):
    made = Escape(anyone, "sleep 1000")
    other = anyone.start("--share-state", "--", "sh", "-c", "echo up; sleep 1000", target="process")
    anyone.wait_for_output(other, "up")
    assert anyone.session("stop", "--force", "--id", made.id).exit_status == 0
    made.check_ended("exited")
    assert anyone.show(other)["live_status"] == "running"
    assert anyone.session("stop", "--force", "--id", other).exit_status == 0


def test_the_record_the_log_and_the_operator_are_told_that_nothing_is_confined(anyone):
    worlds.make_repo(anyone)
    done = anyone.session(
        "start", "--agent", "command", "--target", "process", "--", "sh", "-c", "echo $WORKCELL_SESSION_ASSURANCE_INITIAL"
    )
    assert done.exit_status == 0
    assert "without any confinement" in done.stderr
    assert done.values["assurance"] == UNCONFINED and done.values["target_assurance_class"] == "unconfined"
    session_id = done.values["session_id"]
    anyone.session("wait", "--id", session_id)
    record = anyone.show(session_id)
    labels = {key: value for key, value in record.items() if "assurance" in key or key in ("execution_path", "mode")}
    assert labels == {
        "target_assurance_class": "unconfined",
        "execution_path": UNCONFINED,
        "initial_assurance": UNCONFINED,
        "current_assurance": UNCONFINED,
        "final_assurance": UNCONFINED,
        "mode": "strict",
    }
    assert (record["target_kind"], record["target_provider"], record["runtime_api"]) == ("local_process", "host", "process")
    events = [
        dict(word.partition("=")[::2] for word in line.split())
        for line in anyone.session("timeline", "--id", session_id).stdout.splitlines()
    ]
    by_name = {event["event"]: event for event in events}
    assert by_name["launch"]["execution_path"] == by_name["exit"]["execution_path"] == UNCONFINED
    assert by_name["launch"]["session_assurance_initial"] == by_name["exit"]["session_assurance_final"] == UNCONFINED
    assert by_name["launch"]["container_assurance"] == UNCONFINED
    assert by_name["launch"]["network_policy"] == "unrestricted"
    assert UNCONFINED in anyone.transcript(session_id)
    assert UNCONFINED in anyone.session("list").stdout


def test_an_unconfined_session_is_kept_away_from_the_evidence_of_confined_ones(anyone):
    """It runs as the operator, and could read the signing key and rewrite the log."""
    worlds.make_repo(anyone)
    confined = anyone.start("--", "true")
    anyone.session("wait", "--id", confined)
    words = ["--agent", "command", "--target", "process", "--", "true"]
    done = anyone.session("start", *words)
    assert done.exit_status == 2
    assert "signing key" in done.stderr and "--share-state" in done.stderr
    assert [name for name in os.listdir(os.path.join(anyone.state, "targets"))] == ["local_sandbox"]
    shared = anyone.session("start", *words[:4], "--share-state", *words[4:])
    assert shared.exit_status == 0
    anyone.session("wait", "--id", shared.values["session_id"])
