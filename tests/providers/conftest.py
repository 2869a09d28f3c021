"""One fixture for every target."""

import engines
import providers
import pytest


@pytest.fixture(scope="session")
def dockerd(tmp_path_factory):
    """A docker daemon for all tests of this process."""
    daemon = engines.Dockerd(str(tmp_path_factory.mktemp("dockerd")), engines.podman_env())
    yield daemon
    daemon.close()


@pytest.fixture(params=providers.TARGETS[:-1])
def provider(request, tmp_path):
    """Every target with a world; docker-desktop, which differs from colima by its socket alone, where it is asked for."""
    yield from providers.serve(request.param, tmp_path, request)


@pytest.fixture(params=("podman", "docker", "colima"))
def engine(request, tmp_path):
    """Every kind of target with a container engine: none between, a daemon, a virtual machine."""
    yield from providers.serve(request.param, tmp_path, request)


@pytest.fixture
def podman(request, tmp_path):
    """podman alone, for what is the same code for all."""
    yield from providers.serve("podman", tmp_path, request)


@pytest.fixture
def docker(request, tmp_path):
    """docker alone, on the daemon of the fixture dockerd."""
    yield from providers.serve("docker", tmp_path, request)
