"""The colima target: a container in the virtual machine of a colima profile, reached by its socket."""

from workcell.runtimes import Target, _docker

TARGET = Target("colima", "local_vm", "colima", "strict", "docker")
RUNTIME = _docker.Colima(TARGET, "docker", shared=False)
