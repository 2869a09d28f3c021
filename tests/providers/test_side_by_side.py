"""All targets in one state root: what an operator sees who uses several."""

import json
import os

import engines
import providers
from programs import SLEEPER

import support


def test_sessions_on_all_targets_are_listed_side_by_side_and_each_one_verifies(dockerd, tmp_path):
    world, env = support.World(tmp_path), engines.podman_env()
    world.make_repo()
    world.env |= env | {"WORKCELL_IMAGE": engines.IMAGE, "XDG_CACHE_HOME": os.path.join(engines.CACHE, "cache")}
    service = engines.Service(str(tmp_path), env)
    os.makedirs(os.path.join(world.home, ".colima/work"))
    os.symlink(service.socket, os.path.join(world.home, ".colima/work/docker.sock"))
    engines.write_context(os.path.join(world.home, ".docker"), "desktop-linux", service.socket)
    engines.write_context(os.path.join(world.home, ".docker"), "own", dockerd.socket)
    options = {
        "bubblewrap": ["--network", "none"],
        "process": ["--share-state"],
        "docker": ["--network", "none", "--docker-context", "own"],
        "colima": ["--network", "none", "--colima-profile", "work"],
    }
    started = {}
    try:
        for target in providers.TARGETS:
            words = options.get(target, ["--network", "none"])
            started[target] = world.start(*words, "--", *SLEEPER, target=target, agent="command")
            world.wait_for_output(started[target], "is up")
        rows = [line.split("\t") for line in world.session("list", "--verbose").stdout.splitlines()[1:]]
        assert {row[0]: (row[2], row[7].rpartition("/")[0]) for row in rows} == {
            started["bubblewrap"]: ("running", "local_sandbox/bubblewrap"),
            started["process"]: ("running", "local_process/host"),
            started["podman"]: ("running", "local_container/podman"),
            started["docker"]: ("running", "local_container/docker"),
            started["colima"]: ("running", "local_vm/colima"),
            started["docker-desktop"]: ("running", "local_compat/docker-desktop"),
        }
        probed = json.loads(world.session("list", "--json", "--probe").stdout)
        assert {one["live_status"] for one in probed} == {"running"} and len(probed) == len(started)
        for session_id in started.values():
            assert world.session("stop", "--id", session_id, "--force").exit_status == 0
        verified = world.session("verify", "--all")
        assert verified.exit_status == 0
        assert all(session_id in verified.stdout for session_id in started.values())
    finally:
        for session_id in started.values():
            world.session("stop", "--id", session_id, "--force")
        service.close()
        world.close()
