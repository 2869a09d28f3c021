"""delete removes what a session that is over left, and nothing else."""

import json
import os
import signal

import pytest

from support import SCALE, wait_until


@pytest.fixture
def ended(world, target):
    """A session that has ended, with a transcript and a seal, and its id."""
    world.make_repo()
    session_id = world.start("--", "sh", "-c", "echo words", target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    return session_id


def record_file(world, session_id):
    return os.path.join(os.path.dirname(world.show(session_id)["audit_log_path"]), "sessions", session_id + ".json")


def change(path, **fields):
    """Tamper with a record."""
    with open(path, encoding="utf-8") as stream:
        value = json.load(stream)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({**value, **fields}, stream)


def test_delete_removes_record_seal_and_transcript_and_keeps_clone_and_audit_log(world, ended):
    record = world.show(ended)
    path = record_file(world, ended)
    done = world.session("delete", "--id", ended)
    assert done.exit_status == 0, done
    assert done.values["removed"] == "record,transcript_log,audit_seal" and done.values["missing"] == "session_audit_dir"
    assert not os.path.exists(path) and not os.path.exists(path[:-5] + ".audit-sig")
    assert not os.path.exists(record["transcript_log_path"])
    assert os.path.isdir(record["workspace"]) and os.path.exists(record["audit_log_path"])
    assert world.session("show", "--id", ended).exit_status == 1
    assert world.session("delete", "--id", ended).exit_status == 1


def test_a_dry_run_says_the_same_and_changes_nothing(world, ended):
    done = world.session("delete", "--id", ended, "--dry-run", "--json")
    answer = json.loads(done.stdout)
    assert answer["would_remove"] == ["record", "transcript_log", "audit_seal"] and answer["deleted"] is False
    assert world.session("verify", "--id", ended).exit_status == 0


def test_a_running_session_is_refused(world, target):
    world.make_repo()
    session_id = world.start(agent="shell", target=target)
    done = world.session("delete", "--id", session_id)
    assert done.exit_status == 1 and "still running" in done.stderr
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert world.session("delete", "--id", session_id).exit_status == 0


def test_a_session_of_which_everything_is_gone_can_be_deleted_without_a_stop(world, target):  # D37
    world.make_repo()
    session_id = world.start("--", "sleep", "600", target=target)
    os.kill(int(world.show(session_id)["monitor_pid"]), signal.SIGKILL)
    wait_until(lambda: world.show(session_id)["live_status"] == "lost", what="lost")
    done = world.session("delete", "--id", session_id)
    assert done.exit_status == 0, done
    assert world.scratch_folders() == []


def test_a_log_outside_of_the_profile_is_kept(world, tmp_path):
    world.make_repo()
    log = tmp_path / "debug.log"
    session_id = world.start("--debug-log", str(log), "--", "true")
    world.session("wait", "--id", session_id)
    done = world.session("delete", "--id", session_id)
    assert done.values["kept"] == "debug_log" and log.exists()


@pytest.mark.parametrize("kind", ["home", "other-record", "signing-key", "other-scratch"])
def test_a_record_that_points_elsewhere_removes_nothing_there(world, kind):  # I04
    world.make_repo()
    session_id = world.start("--", "true")
    other = world.start("--", "sleep", "600")
    world.session("wait", "--id", session_id)
    path = record_file(world, session_id)
    victims = {
        "home": {"session_audit_dir": world.home},
        "other-record": {"debug_log_path": record_file(world, other)},
        "signing-key": {"debug_log_path": os.path.join(world.state, "signing/signing.key")},
        "other-scratch": {"debug_log_path": world.show(other)["session_audit_dir"] + "/launch-spec.json"},
    }
    (victim,) = victims[kind].values()
    change(path, **victims[kind])
    done = world.session("delete", "--id", session_id)
    assert done.exit_status == 0 and done.values["kept"] in ("debug_log", "session_audit_dir"), done
    assert os.path.exists(victim)
    assert world.session("stop", "--id", other, "--force").exit_status == 0


def test_links_are_never_followed(world, tmp_path):  # I03
    world.make_repo()
    session_id = world.start("--", "true")
    world.session("wait", "--id", session_id)
    record = world.show(session_id)
    victim = tmp_path / "precious"
    victim.mkdir()
    (victim / f"{session_id}.cast").write_text("precious")
    transcripts = os.path.dirname(record["transcript_log_path"])
    os.rename(transcripts, transcripts + ".old")
    os.symlink(victim, transcripts)
    done = world.session("delete", "--id", session_id)
    assert done.exit_status == 0 and "left alone" in done.stderr
    assert (victim / f"{session_id}.cast").read_text() == "precious"


def test_record_only_keeps_everything_else(world, ended):
    record = world.show(ended)
    done = world.session("delete", "--id", ended, "--record-only")
    assert (done.values["removed"], done.values["kept"]) == ("record", "transcript_log,audit_seal")
    assert os.path.exists(record["transcript_log_path"])


def test_the_clone_of_a_session_on_each_target_goes_when_its_work_is_saved(world, target):
    world.make_repo()
    script = "echo c > c; git add c; git -c user.name=a -c user.email=a@localhost commit -qm c; echo u > u"
    session_id = world.start("--", "sh", "-ec", script, target=target)
    words = ("--id", session_id, "--workspace")
    assert world.session("wait", "--id", session_id).exit_status == 0
    clone, saved = world.show(session_id)["workspace"], os.path.join(world.home, "saved")
    done = world.session("delete", *words)
    assert done.exit_status == 1 and "1 commit, 1 untracked file" in done.stderr, done
    done = world.session("delete", *words, "--rescue", saved)
    assert done.exit_status == 0 and done.values["removed"] == "record,transcript_log,audit_seal,workspace", done
    assert not os.path.lexists(os.path.dirname(clone))
    world.git("-C", world.repo, "fetch", "-q", saved, "HEAD")
    assert world.git("-C", world.repo, "show", "FETCH_HEAD:c") == "c\n"
    running = world.start("--", "sleep", "600", target=target)
    for more in ((), ("--discard-work",)):
        done = world.session("delete", "--id", running, "--workspace", *more)
        assert done.exit_status == 1 and "still running" in done.stderr, done
    assert world.session("stop", "--id", running, "--force").exit_status == 0
    assert world.session("delete", "--id", running, "--workspace").exit_status == 0


@pytest.mark.parametrize("words", [(), ("--workspace", "--discard-work")], ids=["the session", "with its clone"])
def test_whichever_step_of_a_delete_fails_the_next_one_does_the_rest(world, tmp_path, words):  # F09
    world.make_repo()
    faulty = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faulty")
    for at in range(1, 100, 1 if not words or SCALE >= 1 else 7):
        session_id = world.start("--", "sh", "-c", "mkdir one; echo words > one/two")
        assert world.session("wait", "--id", session_id).exit_status == 0
        record = world.show(session_id)
        mark = tmp_path / f"mark-{at}"
        env = {"PYTHONPATH": faulty, "FAULT_AT": str(at), "FAULT_MARK": str(mark)}
        done = world.session("delete", "--id", session_id, *words, env=env)
        assert "Traceback" not in done.stderr and done.exit_status in (0, 1), (at, done)
        if done.exit_status == 1:
            assert mark.exists(), (at, done)
            again = world.session("delete", "--id", session_id, *words)
            # Where the very last step failed, to see the removal on the disk, there is nothing left to be deleted.
            assert again.exit_status == 0 or "no such session" in again.stderr, (at, done, again)
        assert world.session("show", "--id", session_id).exit_status == 1
        assert not os.path.exists(record["transcript_log_path"])
        assert os.path.exists(record["workspace"]) == (not words)
        if not mark.exists():
            break
    assert 3 < at < 99
    assert world.session("verify", "--all").exit_status == 0
