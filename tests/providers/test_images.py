"""Images that hold no Python: the adapter runs on a copy of this machine's there, or start says that it cannot."""

import os
import shutil
import stat
import sys
import time

import engines
import images
import pexpect
import providers
import pytest

from support import BIN


@pytest.fixture
def bare(podman):
    """podman in a world, with an image that holds nothing but busybox."""
    env, name = images.busybox()
    podman.world.env |= {**env, "WORKCELL_IMAGE": name}
    del podman.world.env["XDG_CACHE_HOME"]
    return podman


def test_a_session_in_an_image_without_python_starts_is_typed_into_joined_and_stopped(bare):
    world = bare.world
    program = "echo is up; stty size; read line; echo got $line; trap 'exit 9' TERM; while :; do sleep 0.1; done"
    session_id = bare.start("--", "sh", "-c", program)
    world.wait_for_output(session_id, "is up")
    assert world.session("send", "--id", session_id, "--message", "good day").exit_status == 0
    words = [os.path.join(BIN, "workcell-session-attach"), "--id", session_id]
    child = pexpect.spawn(sys.executable, words, env=world.env, dimensions=(31, 97), timeout=20, encoding="utf-8")
    try:
        child.expect("got good day")
        child.send("\x1c")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    finally:
        child.close(force=True)
    assert world.session("stop", "--id", session_id).exit_status == 0
    assert world.show(session_id)["exit_status"] == "9"
    assert world.session("verify", "--id", session_id).exit_status == 0

    # What was made for it is kept, closed to others' writing and open to any user of a container.
    cache = os.path.join(world.home, ".cache/workcell")
    kept = [name for name in os.listdir(cache) if name.startswith("python-")]
    assert len(kept) == 1
    top = os.path.join(cache, kept[0])
    for folder, _, names in os.walk(top):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o755, folder
        for name in names:
            assert os.stat(os.path.join(folder, name)).st_mode & 0o044 == 0o044
    before = os.stat(top).st_ino
    traced = os.path.join(world.folder, "trace")
    for words, program, expected in ((["--file-trace-log", traced], "echo x > made", 0), ([], "kill -9 $$", 137)):
        session_id = bare.start(*words, "--", "sh", "-c", program)
        assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == expected
    with open(traced) as stream:
        assert "/workspace/made" in stream.read()
    assert os.listdir(cache).count(kept[0]) == 1 and os.stat(top).st_ino == before


def test_the_copy_is_made_once_by_starts_at_the_same_time_and_nothing_is_left_of_one_that_died(bare):
    world = bare.world
    cache = os.path.join(world.home, ".cache/workcell")
    os.makedirs(os.path.join(cache, ".making-dead/lib"), mode=0o700)
    words = [
        "workcell-session-start",
        "--agent",
        "command",
        "--target",
        "podman",
        "--network",
        "none",
        "--",
        "sh",
        "-c",
        "exit 5",
    ]
    children = [world.popen(*words, stdout=-1, stderr=-1, stdin=-3) for _ in range(2)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        bare.ids.append(out.decode().partition("session_id=")[2].partition("\n")[0])
    for session_id in bare.ids:
        assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 5
    assert sorted(name.partition("-")[0] for name in os.listdir(cache)) == ["images", "python"]

    # One that somebody else could write is not run.
    kept = next(os.path.join(cache, name) for name in os.listdir(cache) if name.startswith("python-"))
    os.chmod(kept, 0o777)
    refused = world.run(*words)
    assert refused.exit_status == 2 and "only you can write" in refused.stderr


def test_podman_is_asked_for_an_image_once_and_again_when_images_change(podman):
    world = podman.world
    asked, client = os.path.join(world.folder, "asked"), shutil.which("podman", path=world.env["PATH"])
    folder = os.path.join(world.folder, "counted")
    os.mkdir(folder)
    with open(os.path.join(folder, "podman"), "w") as stream:
        stream.write(f'#!/bin/sh\n[ "$1 $2" != "image inspect" ] || echo >> {asked}\nexec {client} "$@"\n')
    os.chmod(stream.name, 0o755)
    world.env["PATH"] = f"{folder}:{world.env['PATH']}"

    def questions(image):
        """Run a session in an image; return how often the image was asked for, and what start said where it failed."""
        done = world.session(
            "start", "--agent", "command", "--target", "podman", *podman.options, "--image", image, "--", "true"
        )
        if done.exit_status == 0:
            session_id = done.values["session_id"]
            assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 0
        with open(asked, "a+") as stream:
            stream.seek(0)
            count = len(stream.readlines())
        os.unlink(asked)
        return count, done.stderr if done.exit_status == 2 else ""

    with engines.own_storage() as (storage, env):
        world.env |= env
        images_json = os.path.join(storage, "graph/overlay-images/images.json")
        _, image = images.busybox(env)
        other = image + "-other"
        assert [questions(image) for _ in range(2)] == [(1, "")] * 2, "what was just changed may have changed behind the answer"
        an_hour_ago = time.time() - 3600
        os.utime(images_json, (an_hour_ago, an_hour_ago))
        assert [questions(image) for _ in range(2)] == [(1, ""), (0, "")]
        count, why = questions(other)
        assert count == 1 and f"podman pull {other}" in why
        engines.run(["podman", "tag", image, other], env)
        assert questions(image) == questions(other) == (1, "")
        engines.run(["podman", "untag", other], env)
        assert f"podman pull {other}" in questions(other)[1]


def test_start_refuses_an_image_without_python_where_none_can_be_mounted(request, tmp_path):
    for provider in providers.serve("colima", tmp_path, request):
        _, name = images.busybox()
        provider.world.env["WORKCELL_IMAGE"] = name
        words = ["--agent", "command", "--target", "colima", *provider.options, "--", "sh"]
        refused = provider.world.session("start", *words)
        assert refused.exit_status == 2 and len(refused.stderr.splitlines()) == 1
        assert "has no python3" in refused.stderr and "use an image that has python3" in refused.stderr
        assert not provider.world.scratch_folders()
        provider.world.env["WORKCELL_IMAGE"] = engines.IMAGE
