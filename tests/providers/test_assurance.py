"""What the record says of a container whose root may be written: the worth of its end, in the host's words."""

import os

import engines
import pytest

WORD = 'echo lower-assurance-package-mutation > "$WORKCELL_PERSISTED_ASSURANCE_FILE"'


def assurance_of(engine, session_id):
    """Return (initial, final, the log's events of the session as dicts) of a session that has ended."""
    world = engine.world
    world.session("wait", "--id", session_id, "--timeout", "30")
    fields = world.show(session_id)
    assert fields["current_assurance"] == fields["final_assurance"]
    assert world.session("verify", "--id", session_id).exit_status == 0
    with open(fields["audit_log_path"]) as stream:
        lines = [line for line in stream if f"session_id={session_id}" in line]
    events = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return fields["initial_assurance"], fields["final_assurance"], events


def test_a_read_only_container_ends_as_it_began_and_has_nowhere_to_say_otherwise(podman):
    session_id = podman.start("--", "sh", "-c", f'[ -z "$WORKCELL_PERSISTED_ASSURANCE_FILE" ] && ! {WORD}')
    initial, final, events = assurance_of(podman, session_id)
    assert (initial, final) == ("managed-readonly", "managed-readonly")
    assert [event["event"] for event in events] == ["launch", "exit"]


def test_a_writable_container_in_which_nothing_was_changed_ends_as_it_began(podman):
    session_id = podman.start("--container-mutability", "ephemeral", "--", "sh", "-c", "echo x > /tmp/x; echo x > one")
    initial, final, events = assurance_of(podman, session_id)
    assert (initial, final) == ("managed-mutable", "managed-mutable")
    assert [event["event"] for event in events] == ["launch", "exit"]
    assert events[-1]["package_mutation_downgraded"] == "0"


@pytest.mark.parametrize("how", ["by the word of a wrapper", "by a program that is new"])
def test_a_container_whose_packages_were_changed_is_worth_less_at_its_end(engine, tmp_path, how):
    program = ("sh", "-c", f"echo is up; read line; {WORD if 'word' in how else 'true'}; exit 3")
    session_id = engine.start("--container-mutability", "ephemeral", "--", *program)
    world = engine.world
    world.wait_for_output(session_id, "is up")
    if "new" in how:
        (tmp_path / "new").write_text("#!/bin/sh\n")
        engines.run([*engine.client, "cp", str(tmp_path / "new"), f"{engine.containers()[0]}:/usr/bin/new"], engine.env)
    assert world.session("send", "--id", session_id, "--message", "go on").exit_status == 0
    initial, final, events = assurance_of(engine, session_id)
    assert (initial, final) == ("managed-mutable", "lower-assurance-package-mutation")
    assert [event["event"] for event in events if event["event"] != "command"] == ["launch", "assurance-change", "exit"]
    change, end = events[-2:]
    assert (change["reason"], change["session_assurance_final"]) == ("package-mutation", final)
    assert (end["session_assurance_final"], end["package_mutation_downgraded"], end["exit_status"]) == (final, "1", "3")


def test_what_was_changed_in_a_container_that_somebody_removed_is_not_taken_for_nothing(podman):
    session_id = podman.start("--container-mutability", "ephemeral", "--", "sleep", "1000")
    engines.run(["podman", "rm", "-f", "-t", "0", podman.containers()[0]], podman.env)
    _, final, events = assurance_of(podman, session_id)
    assert final == "lower-assurance-package-mutation"
    assert events[-2]["reason"] == "package-mutation-unconfirmed"


def test_whoever_ends_a_session_in_its_monitors_place_says_it_as_well_and_once(podman):
    world = podman.world
    session_id = podman.start("--container-mutability", "ephemeral", "--", "sh", "-c", f"{WORD}; echo is up; exec sleep 1000")
    world.wait_for_output(session_id, "is up")
    os.kill(int(world.show(session_id)["monitor_pid"]), 9)
    assert world.session("stop", "--id", session_id, "--force").exit_status == 0
    _, final, events = assurance_of(podman, session_id)
    names = [event["event"] for event in events]
    assert final == "lower-assurance-package-mutation" and names.count("assurance-change") == names.count("exit") == 1
    assert events[-1]["final_assurance"] == final
