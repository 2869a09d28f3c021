"""What a hostile process inside a container gets from each way out that we know: the probe of tests/boundary, in an image."""

import json
import os
import shutil
import sys

import engines
import pytest

from support import ROOT

sys.path[:0] = [os.path.join(ROOT, "tests/boundary"), os.path.join(ROOT, "tests/probes")]

import boundary_probe  # noqa: E402

import inside  # noqa: E402
import worlds  # noqa: E402

# Guarded by who owns them and not by the kind of mount: no capability, no setuid, and files of root's.
GUARDED_BY_OWNER = {"find-a-mount-that-can-be-written", "find-a-mount-where-setuid-programs-work"}
# Of the engine's own, and no secret: container and HOSTNAME. What lies on the host at the program's place is not shown at all.
OTHERWISE = {"find-a-variable-of-the-caller", "may-see-the-install-prefix"}
# The filter ends who makes calls of another kind.
ENDED = {"make-a-32-bit-system-call", "make-a-system-call-of-the-x32-kind"}


class InContainer(inside.Inside):
    """The tries of one session on a container engine, without network, with the filter."""

    target = ""

    def _plan(self):
        plan = super()._plan()
        shutil.copy(inside.PROBE, os.path.join(self.world.repo, "probe.py"))
        self.world.git("-C", self.world.repo, "add", "-A")
        self.world.git("-C", self.world.repo, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-qm", "probe")
        return plan

    def _inside(self, plan, *options, leave_out=()):
        if "host" in options:
            return "", {}
        world = self.world
        words = world.words("workcell-session-start", "--agent", "command", "--target", self.target, "--network", "none")
        program = ["--env", "BOUNDARY_SECRET", "--", "python3", "/workspace/probe.py", "/workspace"]
        done = world.run(*self.with_key, *words, *program)
        assert done.exit_status == 0, done
        session_id = done.values["session_id"]
        self.sessions.append(session_id)
        fields = world.show(session_id)
        folder, scratch = fields["worktree_path"], fields["session_audit_dir"]
        own = {"own-scratch-folder": scratch, "own-launch-spec": os.path.join(scratch, "launch-spec.json")}
        tries = [*boundary_probe.TRIES, *boundary_probe.WORKS]
        plan = {**plan, "own_folder": "/tmp/own", "shown": self.tools, "tries": tries, "read": {**plan["read"], **own}}
        path, owner = os.path.join(folder, "plan.json"), os.stat(folder)
        with open(path + ".part", "w") as stream:
            json.dump(plan, stream)
        os.chown(path + ".part", owner.st_uid, owner.st_gid)
        os.rename(path + ".part", path)
        return session_id, self._results(folder, lambda: world.console(session_id))

    def _outside(self, plan):
        return {}


@pytest.mark.parametrize("target", ["podman", "docker"])
def test_no_attack_from_inside_a_container_succeeds_and_what_an_agent_needs_works(target, request):
    env = engines.podman_env()
    world = worlds.make_world("root")
    world.env |= env | {"WORKCELL_IMAGE": engines.IMAGE}
    if target == "docker":
        world.env["DOCKER_HOST"] = f"unix://{request.getfixturevalue('dockerd').socket}"
    tried = InContainer(world)
    tried.target = target
    try:
        tried.run()
    finally:
        tried.close()
        worlds.close_world(world)
    assert len(tried.none) > 150
    for name, (outcome, detail) in tried.none.items():
        if name in GUARDED_BY_OWNER | OTHERWISE:
            continue
        if name in ENDED and outcome == "broken":
            assert detail == "ended with -31", name
            continue
        assert outcome == ("succeeded" if name in boundary_probe.WORKS else "refused"), (name, detail)


def test_an_ordinary_user_who_may_talk_to_docker_runs_agents_as_that_user(dockerd):
    world = worlds.make_world("user")
    socket = os.path.join(world.folder, "d.sock")
    os.link(dockerd.socket, socket)  # where that user can reach it
    os.chmod(socket, 0o666)
    world.env |= {"WORKCELL_IMAGE": engines.IMAGE, "DOCKER_HOST": f"unix://{socket}"}
    try:
        world.make_repo()
        program = "echo uid=$(id -u); echo new > f; git add f; git commit -qm x; echo is up; while :; do sleep 0.1; done"
        session_id = world.start("--network", "none", "--", "sh", "-c", program, target="docker")
        world.wait_for_output(session_id, "is up")
        assert f"uid={world.user[0]}" in world.console(session_id)
        os.kill(int(world.show(session_id)["monitor_pid"]), 9)
        assert world.session("list").stdout.splitlines()[1].split("\t")[2] == "unmonitored"
        assert world.session("stop", "--id", session_id).exit_status == 0
        fields = world.show(session_id)
        assert (fields["status"], fields["exit_status"]) == ("exited", "143")
        assert world.session("verify", "--id", session_id).exit_status == 0
        label = f"label=workcell.session-id={session_id}"
        assert not engines.run(["docker", "ps", "-aq", "--filter", label], {"DOCKER_HOST": f"unix://{socket}"}).strip()
    finally:
        worlds.close_world(world)
