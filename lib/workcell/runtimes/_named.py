"""A container that another implementation has made, known by its name alone."""

import os
import re

from workcell.errors import CannotTellError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from workcell.runtimes._engine import Engine

REMOVE_S = 30.0
_NAME = re.compile(r"workcell-[A-Za-z0-9][A-Za-z0-9_.-]*")
_LISTED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")


def state(engine: "Engine", spec: "dict[str, Any]") -> str:
    """Return `running`, `stopped` or, where a list of all containers proves it, `missing`; raise CannotTellError."""
    name = str(spec["container_name"]).removeprefix("/")
    if not _NAME.fullmatch(name):
        raise CannotTellError(repr(name), "is no name of a session's container", "see workcell-session-show")
    words = (
        "inspect",
        "--type",
        "container",
        "--format",
        "{{json .State.Status}} {{json .State.Running}} {{json .State.Pid}}",
    )
    done = engine.ask(spec, *words, name)
    if done.exit_status == 0:
        status, _, rest = done.text().partition(" ")
        running, _, pid = rest.partition(" ")
        if status == '"running"' and engine.is_podman and not os.path.exists(f"/proc/{pid}"):
            return "stopped"  # what watched it for podman was killed, and podman has not noticed its end
        if running == "true":
            return "running"
        if running == "false" and status.strip('"').isalpha():
            return "stopped"
        raise CannotTellError(name, f"{engine.program} says what cannot be understood", "try again")
    listed = engine.ask(spec, "ps", "--all", "--format", "{{.Names}}")
    names = listed.stdout.decode("utf-8", "replace").replace("\r\n", "\n").splitlines()
    if listed.exit_status != 0 or not all(_LISTED.fullmatch(word) for word in names) or name in names:
        why = done.reason() if listed.exit_status == 0 else listed.reason()
        raise CannotTellError(name, f"could not confirm whether it runs: {why}", "see that the engine answers")
    return "missing"


def exit_status(engine: "Engine", spec: "dict[str, Any]") -> int | None:
    """Return the exit status of a stopped container, None where the engine has none."""
    done = engine.ask(spec, "inspect", "--type", "container", "--format", "{{.State.ExitCode}}", str(spec["container_name"]))
    text = done.text().strip()
    return int(text) if done.exit_status == 0 and text.isdigit() and int(text) < 256 else None


def remove(engine: "Engine", spec: "dict[str, Any]") -> None:
    """Remove a stopped container by its name; raise WorkcellError where it is not proven gone."""
    words = ["rm", "--force", "--volumes", str(spec["container_name"]).removeprefix("/")]
    done = engine.ask(spec, *words, timeout_s=REMOVE_S)
    if state(engine, spec) != "missing":
        raise WorkcellError(str(spec["container_name"]), f"cannot be removed: {done.reason()}", "try again")
