"""Which image a container is made of, and which Python the adapter has in it: found out before anything is changed."""

import os

from workcell import layout
from workcell.errors import CannotTellError, PreconditionError, UsageError
from workcell.runtimes import _image, _known, _python, _seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from workcell import run
    from workcell.runtimes._engine import Engine

PULL_S = 1800.0
TRIAL_S = 120.0
REMOVE_S = 30.0


def choose(engine: "Engine", options: "Any", profile: str) -> "dict[str, Any]":
    """Return what the launch spec says of the container beyond what every target's does; raise where it cannot be had."""
    image = _image.image_of(options)
    if image.startswith("-") or not image.isprintable() or " " in image:
        raise UsageError(f"--image {image!r}", "is no name of an image", "see the engine's `images`")
    spec = {
        "image_ref": image,
        "engine_env": engine.find_engine(profile, options.docker_context or ""),
        "container_mutability": options.container_mutability or "readonly",
        "container_cpu": options.container_cpu or "",
        "container_memory": options.container_memory or "",
    }
    runtime = _python_for(engine, spec, _need_image(engine, spec, image, options))
    return {**spec, "adapter_python": runtime} if runtime else spec


def _need_image(engine: "Engine", spec: "dict[str, Any]", image: str, options: "Any") -> str:
    """Return `ID OS/ARCHITECTURE` of an image, fetched where it is missing and that is wanted; raise PreconditionError."""
    client = engine.client()
    spec["own_filter"] = _seccomp.known() and engine.takes_filter(spec)
    known = _known.recall(client, image, spec["engine_env"]) if engine.is_podman else ""
    if known:
        return known
    try:
        present = engine.ask(spec, *_image.question(engine.program, image))
    except CannotTellError as error:
        raise PreconditionError(f"target {engine.TARGET.name}", f"{error.what}: {error.why}", error.next_step) from None
    if present.exit_status == 0:
        return _answer(engine, spec, image, present.text())
    if not _says_missing(present):
        raise PreconditionError(f"target {engine.TARGET.name}", f"cannot run here: {present.reason()}", "start its engine")
    fetch = f"{engine.program} pull {image}"
    if not options.pull:
        name_it = "" if options.image else "name one with --image or WORKCELL_IMAGE, or "
        raise PreconditionError(f"image {image}", "is not there", f"{name_it}fetch it with `{fetch}` or give --pull")
    try:
        done = engine.ask(spec, "pull", "--quiet", image, timeout_s=PULL_S)
    except CannotTellError as error:
        raise PreconditionError(f"image {image}", f"cannot be fetched: {error.why}", f"try `{fetch}`") from None
    if done.exit_status != 0:
        raise PreconditionError(f"image {image}", f"cannot be fetched: {done.reason()}", f"try `{fetch}`")
    return _answer(engine, spec, image, engine.ask(spec, *_image.question(engine.program, image)).text())


def _answer(engine: "Engine", spec: "dict[str, Any]", image: str, text: str) -> str:
    """Return the first two words of an engine's answer; podman's is kept."""
    words = text.split(" ", 2)
    answer = " ".join(words[:2])
    if engine.is_podman and len(words) == 3:
        _known.remember(engine.client(), image, spec["engine_env"], answer, words[2])
    return answer


def _python_for(engine: "Engine", spec: "dict[str, Any]", looked: str) -> str:
    """Return the folder of a Python to be mounted for the adapter, "" where the image has one; PreconditionError.

    looked: the image's `ID OS/ARCHITECTURE`. What it holds is found out once, by running its python3, and kept by the id.
    """
    image = spec["image_ref"]
    identity, _, platform = looked.removeprefix("sha256:").partition(" ")
    note = os.path.join(layout.cache_dir(), "images", identity)
    answer = _python.recall(note) if _is_digest(identity) else ""
    if answer not in _python.ANSWERS:
        answer = _try_python(engine, spec)
        if answer in _python.ANSWERS and _is_digest(identity):
            _python.remember(note, answer)
    if answer not in (_python.OLD, _python.MISSING):
        return ""  # where nobody could say, the launch will
    why = "has no python3" if answer == _python.MISSING else "has a python3 older than 3.8"
    if not engine.shared:
        raise PreconditionError(
            f"image {image}", f"{why}, and target {engine.TARGET.name} can mount none of this machine's", _python.NEXT
        )
    if not _python.fits(platform):
        raise PreconditionError(
            f"image {image}", f"{why}, and is made for {platform}, where this machine's does not run", _python.NEXT
        )
    return _python.provide()


def _try_python(engine: "Engine", spec: "dict[str, Any]") -> str:
    """Return one of _python.ANSWERS by running the image's python3 in a container that can do nothing; "" cannot tell."""
    name = "workcell-probe-" + os.urandom(8).hex()
    words = ["run", "--detach", "--pull=never", "--name", name, "--network", "none", "--read-only", "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges", "--pids-limit", "16", "--log-driver", "none"]
    words += ["--entrypoint", "python3", spec["image_ref"], "-I", "-S", "-c", _python.QUESTION]
    try:
        done = engine.ask(spec, *words, timeout_s=TRIAL_S)
        if done.exit_status != 0:
            return _python.MISSING if names_no_python(done.stderr.decode("utf-8", "replace")) else ""
        # What it prints is lost where it is too fast for an attached client; its exit status never is.
        return _python.BY_STATUS.get(engine.ask(spec, "wait", name, timeout_s=TRIAL_S).text(), "")
    except CannotTellError as error:
        raise PreconditionError(f"image {spec['image_ref']}", f"its python3 cannot be tried: {error.why}", "") from None
    finally:
        engine.ask(spec, "rm", "--force", name, timeout_s=REMOVE_S)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def _says_missing(done: "run.Finished") -> bool:
    return any(word in done.stderr.lower() for word in (b"no such", b"image not known", b"not found"))


def names_no_python(text: str) -> bool:
    """Say whether an engine complains that there is no python3."""
    return "python3" in text and ("not found" in text or "no such file" in text.lower())
