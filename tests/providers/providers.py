"""A target in a world of its own, with its engine, real each time; at the end nothing of it may be left."""

import os
import subprocess

import engines

import support

# docker's client is tried on its own daemon; in place of a virtual machine's engine stands podman behind the same API.
TARGETS = ("bubblewrap", "process", "podman", "docker", "colima", "docker-desktop")


class Provider:
    """A target in a world: start sessions on it, look at what its engine holds."""

    def __init__(self, world, target, env, options):
        self.world, self.target, self.env, self.options = world, target, env, options
        self.confines, self.has_engine = target != "process", bool(env)
        self.ids = []
        self.client = ["podman"]

    def start(self, *words, agent="command", **more):
        """Start a session and return its id; words after `--` are the program."""
        session_id = self.world.start(*self.options, *words, target=self.target, agent=agent, **more)
        self.ids.append(session_id)
        return session_id

    def containers(self):
        """Return the ids of the containers that the sessions of this world still have."""
        if not self.has_engine:
            return []
        found = []
        for session_id in self.ids:
            words = [*self.client, "ps", "-aq", "--filter", f"label=workcell.session-id={session_id}"]
            found += engines.run(words, self.env).split()
        return found

    def remove_containers(self):
        """Remove what a failed test left."""
        left = self.containers()
        for container in left:
            subprocess.run(
                [*self.client, "rm", "-f", container], env={**os.environ, **self.env}, capture_output=True, timeout=60
            )
        return left


def make(world, target, tmp_path, request):
    """Return (a Provider, the function that ends what it needs)."""
    world.env["XDG_CACHE_HOME"] = os.path.join(engines.CACHE, "cache")  # what is known of the image need be found out only once
    if target == "docker":
        daemon = request.getfixturevalue("dockerd")
        world.env |= {"WORKCELL_IMAGE": engines.IMAGE, "DOCKER_HOST": f"unix://{daemon.socket}"}
        provider = Provider(world, "docker", {"DOCKER_HOST": f"unix://{daemon.socket}"}, ["--network", "none"])
        provider.client = ["docker"]
        return provider, lambda: None
    if target in ("bubblewrap", "process"):
        return Provider(world, target, {}, ["--network", "none"] if target == "bubblewrap" else []), lambda: None
    env = engines.podman_env()
    world.env |= env | {"WORKCELL_IMAGE": engines.IMAGE}
    options = ["--network", "none"]
    if target == "podman":
        return Provider(world, target, env, options), lambda: None
    engines.need("docker")
    service = engines.Service(str(tmp_path), env)
    if target == "colima":
        os.makedirs(os.path.join(world.home, ".colima/work"))
        os.symlink(service.socket, os.path.join(world.home, ".colima/work/docker.sock"))
        options += ["--colima-profile", "work"]
    else:
        engines.write_context(os.path.join(world.home, ".docker"), "desktop-linux", service.socket)
    return Provider(world, target, env, options), service.close


def serve(target, tmp_path, request):
    """Yield a provider, then prove that nothing of it is left."""
    world = support.World(tmp_path)
    world.make_repo()
    provider, close = make(world, target, tmp_path, request)
    try:
        yield provider
    finally:
        left = provider.remove_containers()
        close()
        world.close()
    assert not left, "containers were left behind"
