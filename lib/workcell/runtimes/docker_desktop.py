"""The docker-desktop target: a container in the virtual machine of Docker Desktop, reached by its context."""

from workcell.runtimes import Target, _docker

TARGET = Target("docker-desktop", "local_compat", "docker-desktop", "compat", "docker")
RUNTIME = _docker.DockerDesktop(TARGET, "docker", shared=False)
