"""What docker's targets share: which engine a client talks to, without the operator's configuration.

A client of ours gets a socket and nothing else: the operator's configuration could set proxies, keys and plugins.
"""

import json
import os

from workcell import layout
from workcell.errors import PreconditionError
from workcell.runtimes import _engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
LIMIT_BYTES = 1 << 20
_NO_CONFIGURATION = "/nonexistent/docker"


class Docker(_engine.Engine):
    """An engine by docker's command line, in the context that the operator names or uses."""

    def find_engine(self, profile: str, context: str = "") -> list[str]:
        """Return DOCKER_HOST=... of a context's engine, and where docker reads its own configuration: nowhere."""
        return _variables(self.TARGET.name, _host_of(context))

    def takes_filter(self, spec: "dict[str, Any]") -> bool:
        """Say whether it is docker's own engine: podman's takes the filter's text, which the client sends, for a path."""
        done = self.ask(spec, "version", "--format", "{{range .Server.Components}}{{.Name}} {{end}}")
        return done.exit_status == 0 and b"podman" not in done.stdout.lower()

    @staticmethod
    def of_host(host: str) -> list[str]:
        """Return the variables for a client of one engine."""
        return [f"DOCKER_HOST={host}", f"DOCKER_CONFIG={_NO_CONFIGURATION}"]


class Colima(Docker):
    """The engine in the virtual machine of a colima profile."""

    def find_engine(self, profile: str, context: str = "") -> list[str]:
        """Return the variables for the socket of the profile's machine; raise PreconditionError where it does not run."""
        path = os.path.join(layout.legacy_root(), profile, "docker.sock")
        if not profile:
            return self.of_host("unix://" + path)
        if not os.path.exists(path):
            raise PreconditionError(
                path, f"profile {profile} has no engine", f"start it with `colima start --profile {profile}`"
            )
        return _variables(self.TARGET.name, "unix://" + path)


class DockerDesktop(Docker):
    """The engine in Docker Desktop's virtual machine."""

    CONTEXT = "desktop-linux"

    def find_engine(self, profile: str, context: str = "") -> list[str]:
        """Return the variables for Docker Desktop's own context; raise PreconditionError where there is none."""
        return _variables(self.TARGET.name, _host_of(context or self.CONTEXT))

    def context_of(self, target_id: str) -> str:
        """Return the context that a record's target_id names: itself."""
        return target_id

    def target_id(self, profile: str) -> str:
        """Return the context's name: what is needed to find the engine again."""
        return self.CONTEXT


def _variables(target: str, host: str) -> list[str]:
    if not host.startswith("unix://"):
        raise PreconditionError(f"target {target}", f"{host} is no socket of this machine", "name a local context")
    return Docker.of_host(host)


def _config_dir() -> str:
    return os.environ.get("DOCKER_CONFIG") or os.path.join(layout.home_dir(), ".docker")


def _read(path: str) -> "Any":
    """Return the JSON value of a file of docker's, None where there is none."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read(LIMIT_BYTES))
    except (OSError, ValueError):
        return None


def _host_of(context: str) -> str:
    """Return the endpoint of a context, in docker's own order: named, DOCKER_HOST, DOCKER_CONTEXT, current."""
    if not context:
        if os.environ.get("DOCKER_HOST"):
            return os.environ["DOCKER_HOST"]
        settings = _read(os.path.join(_config_dir(), "config.json"))
        current = settings.get("currentContext") if isinstance(settings, dict) else None
        context = os.environ.get("DOCKER_CONTEXT") or (current if isinstance(current, str) else "") or "default"
    if context == "default":
        return os.environ.get("DOCKER_HOST") or DEFAULT_SOCKET
    import hashlib

    folder = hashlib.sha256(os.fsencode(context)).hexdigest()
    found = _read(os.path.join(_config_dir(), "contexts", "meta", folder, "meta.json"))
    try:
        host = found["Endpoints"]["docker"]["Host"]
    except (TypeError, KeyError):
        host = None
    if not isinstance(host, str) or not host:
        raise PreconditionError(f"docker context {context!r}", "is not there", "see `docker context ls`")
    return host
