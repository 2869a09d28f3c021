"""What the tests of images share: podman with a storage of its own, and a world that uses it."""

import os
import subprocess

import engines
import images
import pytest

import support


class Images:
    """podman and its images in a world; `env` are the variables for podman."""

    def __init__(self, world, env):
        self.world, self.env, self.names = world, env, []

    def make(self, name, files, links=None, changes=()):
        """Make an image of a few files of this test's own, busybox among them; return its name."""
        _, content = images.busybox_program()
        links = {f"bin/{applet}": "busybox" for applet in images.APPLETS.split()} if links is None else links
        name = images.import_image(self.env, name, {"bin/busybox": content, **files}, links, (*changes, f"ENV FOR={name}"))
        self.names.append(name)
        return name

    def containers(self):
        """Return the ids of containers of the images that were made."""
        return "".join(
            engines.run(["podman", "ps", "-aq", "--filter", f"ancestor={name}"], self.env) for name in self.names
        ).split()


@pytest.fixture
def podman(tmp_path):
    """podman in a world; neither a container nor a process may be left of either."""
    env = engines.podman_env()
    world = support.World(tmp_path)
    world.make_repo()
    world.env |= {**env, "TMPDIR": world.folder}
    made = Images(world, env)
    yield made
    left = made.containers()
    for container in left:
        subprocess.run(["podman", "rm", "-f", container], env={**os.environ, **env}, capture_output=True, timeout=60)
    world.close()
    assert not left, "containers were left behind"
