"""The runtimes: where an agent runs. One file each, behind the same few functions; only the one asked for is imported.

A runtime is a module with a `TARGET` and these functions, or has an object like that as its `RUNTIME`. It takes plain values
and knows no records.

    probe() -> str                          "" when it can run here, else why not, in the host's own words
    plan(launch) -> (words, contents)       the command that start would run, and what its descriptors hold
    start(launch, tty_fd) -> int            start the sandbox on a terminal; the pid that the caller has to wait for
    state(scratch_dir, session_id, ask=True) -> State
                                            what can be known of the sandbox from outside, also without the caller of start;
                                            ask=False: without a container engine, which may take its time
    kill(scratch_dir, session_id, signum)   send a signal to the adapter; SIGKILL ends every process of the session
    delete(scratch_dir, session_id)         remove what is left of the sandbox; without harm when there is nothing

One that is reached by a container engine (`is_engine`) is an `_engine.Engine`, and has more:

    choose(options, profile) -> dict        what the launch spec says of the container, after the image was looked for
    release(launch, size)                   let the program run: their `start` makes a container in which nothing runs yet
    attach(scratch_dir, session_id, tty_fd) -> int
                                            start another client on a terminal, in place of one that ended; its pid
    ready(scratch_dir) -> bool              whether the adapter listens
    was_started(scratch_dir) -> bool        whether the program was started in a container that ended before that could be seen
    began(scratch_dir, session_id)          note which process the container's first one is, once it is ready
    last_words(scratch_dir) -> str          why the engine could not start the container
    has_changed_programs(scratch_dir)       whether those of the image were changed in a container that has ended
    open_input(scratch_dir)                 the way to the agent's input where no FIFO can be shared (`shared` is False)

The pid that their start returns is that of the engine's client, whose end and exit status say nothing of the container.

Adding a provider means adding a file, a row in `_MODULES` and a word in TARGETS of tests/providers/providers.py.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MODULES = {
    "bubblewrap": "bubblewrap",
    "podman": "podman",
    "docker": "docker",
    "colima": "colima",
    "docker-desktop": "docker_desktop",
    "process": "process",
}
_PROVIDERS = {**{name: name for name in _MODULES if name != "process"}, "host": "process"}  # a record's word for it
AUTO = ("bubblewrap", "podman", "docker")


class Target:
    """What a record says of a target: the four labels, and `default_id` (target_id; "" means the profile's name)."""

    __slots__ = ("name", "kind", "provider", "assurance_class", "runtime_api")

    def __init__(self, name: str, kind: str, provider: str, assurance_class: str, runtime_api: str) -> None:
        self.name, self.kind, self.provider = name, kind, provider
        self.assurance_class, self.runtime_api = assurance_class, runtime_api


class State:
    """running: True, False, or None where it cannot be told; exit_status: 0 to 255, None where it is not known."""

    __slots__ = ("running", "exit_status", "pid")

    def __init__(self, running: bool | None, exit_status: int | None = None, pid: int = 0) -> None:
        self.running, self.exit_status, self.pid = running, exit_status, pid


class Launch:
    """What start hands to a runtime by memory, beside the launch spec: nothing of it is ever written to disk.

    environment: the variables of the agent with their values; prefixes and path: of the program (agents.Program);
    home_seed: a tar archive of the home entries, empty for none; trace_fd: where the file tracer writes, -1 for none.
    """

    __slots__ = ("spec", "scratch_dir", "environment", "argv", "prefixes", "path", "home_seed", "umask", "trace_fd")

    def __init__(
        self,
        spec: "dict[str, Any]",
        scratch_dir: str,
        environment: dict[str, str],
        argv: list[str],
        prefixes: list[str],
        path: list[str],
        home_seed: bytes,
        umask: int,
    ) -> None:
        self.spec, self.scratch_dir, self.environment, self.argv = spec, scratch_dir, environment, argv
        self.prefixes, self.path, self.home_seed, self.umask = prefixes, path, home_seed, umask
        self.trace_fd = -1


def is_engine(runtime: "Any") -> bool:
    """Say whether a runtime is reached by a container engine's command line."""
    return hasattr(runtime, "attach")


def names() -> tuple[str, ...]:
    """Return the names of the targets."""
    return tuple(_MODULES)


def by_name(name: str) -> "Any":
    """Return the runtime of a target's name; KeyError for an unknown one."""
    from importlib import import_module

    return _of_module(import_module("workcell.runtimes." + _MODULES[name]))


def by_provider(provider: str) -> "Any":
    """Return the runtime that serves a record's target_provider, None where it is not one of ours."""
    from importlib import import_module

    module = _MODULES.get(_PROVIDERS.get(provider, ""))
    return _of_module(import_module("workcell.runtimes." + module)) if module else None


def _of_module(module: "Any") -> "Any":
    return getattr(module, "RUNTIME", module)


def of_spec(spec: "dict[str, Any]") -> "Any":
    """Return the runtime of a launch spec."""
    runtime = by_provider(spec["target_provider"])
    if runtime is None:
        raise KeyError(spec["target_provider"])
    return runtime
