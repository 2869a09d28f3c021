"""The podman target: a container of podman(1) on this machine, with no daemon between the monitor and it."""

from workcell.runtimes import Target, _engine

TARGET = Target("podman", "local_container", "podman", "container", "podman")
RUNTIME = _engine.Engine(TARGET, "podman", shared=True)
