"""workcell-session-probe-image on images of the test's own."""

import json
import os
import signal

from support import wait_until

CHECKS = "terminal-size split-utf-8 orphans large-paste signals exit-0 exit-7 exit-by-signal".split()


def folders_of(world):
    return [name for name in os.listdir(world.folder) if name.startswith("workcell-probe-")]


def test_all_that_is_tried_in_an_image_without_python_passes_and_nothing_is_left_of_it(podman):
    world = podman.world
    name = podman.make("localhost/workcell-test-probed:1", {})
    done = world.session("probe-image", "--image", name)
    assert done.exit_status == 0, done
    assert [line.split("\t") for line in done.stdout.splitlines()] == [["python", "mounted"], *([c, "pass"] for c in CHECKS)]
    assert not done.stderr
    assert not folders_of(world) and not podman.containers() and not os.path.exists(world.state)


def test_what_fails_in_an_image_is_said_with_its_reason(podman):
    world = podman.world
    liar = podman.make("localhost/workcell-test-liar:1", {"bin/python3": b"#!/bin/sh\nexit 64\n"})
    done = world.session("probe-image", "--target", "podman", "--image", liar, "--json")
    assert done.exit_status == 1, done
    found = json.loads(done.stdout)
    assert (found["image"], found["target"], found["python"]) == (liar, "podman", "image")
    assert [check["name"] for check in found["checks"]] == CHECKS
    assert all(check["result"] == "fail" and "could not be started" in check["why"] for check in found["checks"])
    assert not folders_of(world) and not podman.containers()


def test_a_probe_that_is_told_to_end_takes_its_sessions_along(podman):
    world = podman.world
    name = podman.make("localhost/workcell-test-ended:1", {})
    child = world.popen("workcell-session-probe-image", "--image", name, stdout=-1, stderr=-1, stdin=-3)
    wait_until(lambda: folders_of(world) and podman.containers(), 30, "a session of the probe")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert not folders_of(world) and not podman.containers()


def test_a_missing_image_and_a_target_without_images_are_refused(podman):
    for words, said in (
        (["--image", "localhost/workcell-test-none:1"], "is not there"),
        (["--image", "-x"], "is no name of an image"),
        (["--image", "x", "--target", "bubblewrap"], "has no images"),
        ([], "--image"),
    ):
        done = podman.world.session("probe-image", *words)
        assert (done.exit_status, done.stdout) == (2, "") and said in done.stderr and len(done.stderr.splitlines()) == 1
