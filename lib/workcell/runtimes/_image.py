"""The image of a container, and the question whether it is there: the first that an engine is asked, as soon as may be."""

import os

from workcell import layout, run
from workcell.runtimes import _known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_IMAGE = "workcell:local"
# What tells a client which engine to talk to; none of it is secret.
ENGINE_VARIABLES = (
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
)


def image_of(options: "Any") -> str:
    """Return the image that the options of a start name, or the default."""
    return str(options.image or os.environ.get("WORKCELL_IMAGE") or DEFAULT_IMAGE)


def variables() -> list[str]:
    """Return NAME=VALUE of what tells podman where its storage is."""
    return [f"{name}={os.environ[name]}" for name in ENGINE_VARIABLES if name in os.environ]


def client_env(engine_env: list[str]) -> dict[str, str]:
    """Return the whole environment of a client: clean, but for what names the engine."""
    # GOGC: a client is a Go program, and what little memory it uses is not worth a collection while it begins.
    own = {"PATH": run.SYSTEM_PATH, "HOME": layout.home_dir(), "LC_ALL": "C.UTF-8", "GOGC": "400"}
    return own | dict(word.partition("=")[::2] for word in engine_env)


def question(program: str, image: str) -> tuple[str, ...]:
    """Return the words for a client that answers with an image's `ID OS/ARCHITECTURE`, podman with its last layer's folder."""
    layer = " {{.GraphDriver.Data.UpperDir}}" if program == "podman" else ""
    return ("image", "inspect", "--format", "{{.Id}} {{.Os}}/{{.Architecture}}" + layer, image)


def ask_ahead(program: str, image: str, engine_env: list[str]) -> None:
    """Begin to ask for an image that is not known."""
    client = run.which(program)
    if client is not None and not (program == "podman" and _known.recall(client, image, engine_env)):
        run.ahead([client, *question(program, image)], client_env(engine_env))
