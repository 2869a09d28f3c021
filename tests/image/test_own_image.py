"""The image of the toolkit itself, built by tools/make_image.py: it reads a host's state and holds sessions of its own."""

import fcntl
import glob
import os
import subprocess
import sys

import engines
import pytest

from support import ROOT, World


class Own:
    """The image; run() runs a container of it to its end and returns what subprocess.run does."""

    def __init__(self, env, name, said):
        self.env, self.name, self.said = env, name, said

    def run(self, *words, options=(), entrypoint=""):
        words = ["podman", "run", "--rm", "--read-only", "--network", "none", *options, self.name, *words]
        if entrypoint:
            words[2:2] = ["--entrypoint", entrypoint]
        return subprocess.run(words, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=90)


def build(name, *words):
    env = engines.podman_env()
    with open(os.path.join(engines.CACHE, "own.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [sys.executable, os.path.join(ROOT, "tools/make_image.py"), "--name", name, *words]
        return Own(env, name, engines.run(words, env, 120))


@pytest.fixture(scope="module")
def own():
    return build("localhost/workcell-test-own:1")


@pytest.fixture(scope="module")
def without_shell():
    return build("localhost/workcell-test-own-bare:1", "--without-shell")


ALL = """
import os, sys
folder, bad = "/usr/local/bin/", []
assert not any(os.path.exists(path) for path in ("/bin/sh", "/bin/bash", "/usr/bin/env")), "a shell"
names = [name for name in sorted(os.listdir(folder)) if name != "workcell"]
for name in names:
    pid = os.posix_spawn(folder + name, [name, "--help"], os.environ)
    bad += [name] if os.waitpid(pid, 0)[1] else []
print("all", len(names), bad)
"""


def test_read_commands_work_on_a_mounted_state_also_without_a_shell(own, without_shell, world):
    world.make_repo()
    ended = world.start("--network", "none", "--", "sh", "-c", "exit 5")
    assert world.session("wait", "--id", ended, "--timeout", "20").exit_status == 5
    live = world.start("--network", "none", "--", "sleep", "30")  # ends by itself where this test fails
    user = ["--user", f"{os.geteuid()}:{os.getegid()}"]
    options = [*user, "-v", f"{world.state}:/var/lib/workcell:ro"]
    same_place = [*user, "-v", f"{world.state}:{world.state}:ro", "--env", f"WORKCELL_STATE_ROOT={world.state}"]
    # Whether one lives can be seen by its lock alone, and that is looked for where the record has it.
    for place, of_live in ((options, "unknown"), (same_place, "running")):
        listed = own.run("session", "list", options=place)
        assert listed.returncode == 0, listed
        statuses = {line.split("\t")[0]: line.split("\t")[2] for line in listed.stdout.splitlines()[1:]}
        assert statuses == {ended: "stopped", live: of_live}

    # The record of a log that lies elsewhere is no evidence.
    for verb, said in (("verify", "verified"), ("show", '"exit_status": "5"')):
        path = f"/usr/local/bin/workcell-session-{verb}"
        done = without_shell.run("--id", ended, options=same_place, entrypoint=path)
        assert done.returncode == 0 and said in done.stdout, done
    done = without_shell.run("-I", "-c", ALL, entrypoint="python3")
    assert done.returncode == 0, done
    world.session("stop", "--id", live, "--force")
    assert done.stdout.splitlines()[-1] == f"all {len(glob.glob(os.path.join(ROOT, 'bin', 'workcell-*')))} []"


INSIDE = """
id -u; touch /usr/x 2>&1
id=$(workcell session start --agent command --target bubblewrap --network none -- sh -c 'id -u; cat README; exit 5' |
    sed -n s/^session_id=//p)
[ -n "$id" ] || exit 3
workcell session wait --id "$id"; echo "waited $?"
workcell session verify --id "$id"
workcell session logs --kind transcript --text --id "$id"
"""


def test_a_session_in_the_sandbox_inside_where_the_engine_allows_it_and_else_what_to_allow(own, world):
    world.make_repo()
    for folder, _, names in os.walk(world.repo):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, 1000, 1000)
    options = ["-v", f"{world.repo}:/workspace"]
    allowed = [*options, "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"]
    done = own.run("-c", INSIDE, options=allowed, entrypoint="sh")
    lines = done.stdout.splitlines()
    assert lines[0] == "1000" and "Read-only file system" in lines[1], done
    assert "waited 5" in lines and "session_verify=verified" in lines and "hello" in lines, done

    refused = own.run("-c", INSIDE, options=options, entrypoint="sh")
    assert refused.returncode == 3
    assert "cannot run here: bwrap: " in refused.stderr and "--security-opt unmask=ALL" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_session_of_a_host_runs_in_the_image_and_it_is_small(own, tmp_path):
    assert own.said.startswith(own.name + ": ") and int(own.said.split()[1]) < 100
    world = World(tmp_path)
    world.env |= own.env | {"WORKCELL_IMAGE": own.name}
    world.make_repo()
    try:
        program = "git log --oneline | wc -l; command -v workcell"
        session_id = world.start("--network", "none", "--", "bash", "-c", program, target="podman")
        assert world.session("wait", "--id", session_id, "--timeout", "20").exit_status == 0
        assert world.transcript(session_id).split() == ["1", "/usr/local/bin/workcell"]
    finally:
        world.close()
