"""The docker target: a container of a docker engine on this machine, in the current context or the one that is named."""

from workcell.runtimes import Target, _docker

TARGET = Target("docker", "local_container", "docker", "container", "docker")
RUNTIME = _docker.Docker(TARGET, "docker", shared=True)
