"""Container engines by their command line, podman or docker: what their targets share.

The monitor is the only client: one `run` in the foreground on the outer terminal, which makes the container, starts it and
stays attached to it, without passing signals on. The container outlives that client; another one is attached in its place.
What an engine says is checked against the process that it names before it is believed.

What the agent's environment holds never reaches the engine, which would keep it on disk and show it; it comes through
adapter/container_entry.py.
"""

import os
import termios
import tty

from workcell import clock, events, fastjson, host, run, scratch
from workcell.errors import CannotTellError, PreconditionError, WorkcellError
from workcell.runtimes import Launch, State, Target, _choice, _image, _inside, _local, _python, _seccomp, bubblewrap
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

WORKSPACE = bubblewrap.WORKSPACE
SEED_FILE, ID_FILE, PID_FILE = "seed", "container-id", "container-pid"
ERRORS_FILE, READY_FILE, EMPTY_FOLDER = "engine-errors", "adapter-ready", "empty"
FILTER_FILE = "seccomp.json"

ANSWER_S = 10.0  # an engine that takes longer is not there
REMOVE_S = 30.0
SETTLE_S = 3.0  # an engine may learn of an end a little after the kernel
START_S = 120.0
PIDS_LIMIT = "4096"

# Where an image's programs are, and what its package managers write down of them.
_PROGRAMS = tuple(
    b"/" + folder + b"/"
    for folder in b"usr bin sbin lib lib32 lib64 opt nix var/lib/dpkg var/lib/rpm var/lib/pacman var/lib/apk".split()
)


class Engine:
    """One target that is reached by an engine's command line; its methods are the functions of a runtime.

    shared: the engine's containers run on this machine's kernel and see its files. A docker client may also talk to an engine
    in a virtual machine: that one shares the workspace, but no FIFO, and its process ids mean nothing here.
    """

    def __init__(self, target: Target, program: str, *, shared: bool) -> None:
        self.TARGET, self.program, self.shared = target, program, shared
        self.is_podman = program == "podman"

    # --- the client

    def client(self) -> str:
        """Return the client's path; raise PreconditionError where there is none."""
        found = run.which(self.program)
        if found is None:
            raise PreconditionError(f"target {self.TARGET.name}", f"{self.program} is not on PATH", f"install {self.program}")
        return found

    def client_env(self, spec: "dict[str, Any]") -> dict[str, str]:
        """Return the whole environment of a client: clean, but for what names the engine it was started with."""
        return _image.client_env(spec.get("engine_env", []))

    def ask(self, spec: "dict[str, Any]", *words: str, timeout_s: float = ANSWER_S, stdin: bytes = b"") -> run.Finished:
        """Run the client with a time limit; raise CannotTellError where there is no answer."""
        program = run.which(self.program)
        if program is None:
            raise CannotTellError(self.program, "is not on PATH", f"install {self.program}")
        try:
            return run.capture([program, *words], self.client_env(spec), timeout_s, 1 << 24, stdin=stdin)
        except WorkcellError as error:
            raise CannotTellError(error.what, error.why, "see that the engine answers") from None

    # --- before the start

    def probe(self) -> str:
        """Return "" where the engine answers, else why it does not, in its own words."""
        if run.which(self.program) is None:
            return f"{self.program} is not on PATH"
        if self.is_podman and os.geteuid() != 0:
            # The first question already leaves a process of podman's behind, and it has not been tried.
            return "podman without root is taken by name only"
        try:
            env = self.find_engine("")
            done = self.ask({"engine_env": env}, "version", "--format", "{{.Client.Version}} {{json .Server}}")
        except WorkcellError as error:
            return f"{error.what}: {error.why}"
        return "" if done.exit_status == 0 else done.reason()

    def look_ahead(self, options: "Any", profile: str) -> None:
        """Begin what `choose` will need: a client takes as long to answer as all of git's checks."""
        _image.ask_ahead(self.program, _image.image_of(options), self.find_engine(profile, options.docker_context or ""))

    def find_engine(self, profile: str, context: str = "") -> list[str]:
        """Return NAME=VALUE of what tells a client which engine to talk to; raise PreconditionError where there is none."""
        return _image.variables()

    def target_id(self, profile: str) -> str:
        """Return what a record calls the target."""
        return profile

    def choose(self, options: "Any", profile: str) -> "dict[str, Any]":
        """Return what the launch spec says of the container beyond what every target's does; raise where it cannot be had."""
        return _choice.choose(self, options, profile)

    def takes_filter(self, spec: "dict[str, Any]") -> bool:
        """Say whether a system call filter of ours can be given to the engine."""
        return True

    def shuts_abstract_sockets(self, network: str) -> bool:
        """Say whether a container on this network cannot reach the host's abstract sockets."""
        return network != "host" or not self.shared

    # --- the start

    def _label(self, session_id: str) -> str:
        return f"workcell.session-id={session_id}"

    def plan(self, launch: Launch) -> tuple[list[str], dict[int, bytes]]:
        """Return (the whole command, no descriptors); nothing is made or started."""
        spec = launch.spec
        words = [self.client(), "run", "--interactive", "--tty", "--sig-proxy=false", *self._detach_keys(), "--pull=never"]
        words += ["--name", spec["container_name"], "--hostname", spec["container_name"][:63]]
        words += ["--cidfile", os.path.join(launch.scratch_dir, ID_FILE)]
        words += ["--env", "WORKCELL_SESSION_ID=" + spec["session_id"]]
        words += ["--label", self._label(spec["session_id"]), "--label", f"workcell.boot-id={spec['boot_id']}"]
        words += ["--user", f"{spec['uid']}:{spec['gid']}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        words += ["--pids-limit", PIDS_LIMIT, "--log-driver", "none", "--restart", "no", "--network", spec["network"]]
        if not spec["seccomp"]:
            words += ["--security-opt", "seccomp=unconfined"]
        elif spec["own_filter"]:
            # The same for all: an engine's default lets user namespaces, tracing and typing into terminals through.
            words += ["--security-opt", f"seccomp={os.path.join(launch.scratch_dir, FILTER_FILE)}"]
        if spec["container_mutability"] == "readonly":
            words += ["--read-only"]
        for option, key in (("--cpus", "container_cpu"), ("--memory", "container_memory")):
            if spec[key]:
                words += [option, spec[key]]
        if self.is_podman:
            words += ["--pidfile", os.path.join(launch.scratch_dir, PID_FILE), "--http-proxy=false", "--systemd=false"]
            words += ["--read-only-tmpfs=false"] if spec["container_mutability"] == "readonly" else []
            if os.geteuid() != 0:
                words += ["--userns", "keep-id"]
        else:
            words += ["--ipc", "private"]
        copy_up = ",notmpcopyup" if self.is_podman else ""
        # Where the image has such a folder, runc gives its mode to ours, whatever is said here. podman can give it an owner.
        own = ",U" if self.is_podman else ""
        for folder, mode, more in (
            ("/tmp", "1777", own),
            ("/var/tmp", "1777", own),
            ("/run", "0755", ",size=16m"),
            ("/state", "1777", own + ",exec"),
            (_inside.OWN_FOLDER, "1777", own + ",exec"),
        ):
            words += ["--tmpfs", f"{folder}:rw,nosuid,nodev,mode={mode}{more}{copy_up}"]
        for mount in self._mounts(launch):
            words += ["--mount", mount]
        python = _python.words(_python.PLACE) if "adapter_python" in spec else ["python3"]
        words += ["--workdir", "/", "--entrypoint", python[0], spec["image_ref"], *python[1:], "-I", "-S"]
        words += _inside.first_program(self.shared)
        return [*words, *launch.argv], {}

    def _detach_keys(self) -> list[str]:
        # For docker nothing at all means its default; four keys in this order nobody presses by chance.
        return ["--detach-keys=" if self.is_podman else "--detach-keys=ctrl-^,ctrl-@,ctrl-^,ctrl-@"]

    def _mounts(self, launch: Launch) -> "Iterator[str]":
        spec = launch.spec
        yield _bind(spec["workspace"], WORKSPACE)
        if "home_path" in spec:
            yield _bind(spec["home_path"], bubblewrap.HOME)
        if spec["workspace_mode"] == "direct" and spec["mode"] != "breakglass":
            for source, place, read_only in bubblewrap.protected(spec["workspace"]):
                yield _bind(source, place, read_only)
        for place in bubblewrap.masks([(spec["workspace"], WORKSPACE)], spec["workspace_origin"]):
            # No tmpfs: some engines fill one with a copy of what it hides.
            yield _bind(os.path.join(launch.scratch_dir, EMPTY_FOLDER), place, True)
        if self.shared:
            # With the bytecode beside them: a python3 of the same version starts an eighth of a second sooner.
            yield _bind(os.path.dirname(_local.adapter_path()), _inside.ADAPTERS, True)
            yield _bind(os.path.join(launch.scratch_dir, SEED_FILE), _inside.SEED, True)
            yield _bind(os.path.join(launch.scratch_dir, scratch.AGENT_INPUT), bubblewrap.INPUT)
            if "file_trace_log_path" in spec:
                yield _bind(os.path.join(launch.scratch_dir, scratch.TRACE), _inside.TRACE)
        if "adapter_python" in spec:
            yield _bind(spec["adapter_python"], _python.PLACE, True)

    def start(self, launch: Launch, tty_fd: int) -> int:
        """Start the container on a terminal, in which nothing runs before `release`; the pid to wait for is its client's.

        The end of that one says nothing of the container.
        """
        spec = launch.spec
        words, _ = self.plan(launch)
        os.close(_local.open_status(launch.scratch_dir))
        os.mkdir(os.path.join(launch.scratch_dir, EMPTY_FOLDER), 0o555)
        if spec["seccomp"] and spec["own_filter"]:
            with open(os.path.join(launch.scratch_dir, FILTER_FILE), "wb") as stream:
                stream.write(_seccomp.profile())
        if self.shared:
            path = os.path.join(launch.scratch_dir, SEED_FILE)
            os.mkfifo(path, 0o600)
            os.chmod(path, 0o600)
            if spec["uid"] != os.geteuid():
                os.chown(path, spec["uid"], spec["gid"])
        client = self._fork_client(launch.scratch_dir, spec, words, tty_fd)
        if self.shared:
            _local.compiled_adapter()  # long before its interpreter is there
        return client

    def release(self, launch: Launch, size: tuple[int, int]) -> None:
        """Let the program run, which the container's first process waits for, on a terminal of a size (rows, columns)."""
        self._feed(launch, b"".join(_inside.seed(launch, size, self.shared)))

    def attach(self, scratch_dir: str, session_id: str, tty_fd: int) -> int:
        """Attach another client to the running container, in place of one that ended; the pid to wait for is its own."""
        spec = scratch.read_spec(scratch_dir)
        words = [self.client(), "attach", "--sig-proxy=false", *self._detach_keys(), self._name(scratch_dir, spec)]
        return self._fork_client(scratch_dir, spec, words, tty_fd)

    def _fork_client(self, scratch_dir: str, spec: "dict[str, Any]", words: list[str], tty_fd: int) -> int:
        tty.setraw(tty_fd)  # what comes before the client does so itself is input, not a signal for it
        env = self.client_env(spec)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        errors = os.open(os.path.join(scratch_dir, ERRORS_FILE), flags, 0o600)

        def execute() -> "NoReturn":
            import fcntl

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # a client learns of a new size by SIGWINCH
            os.dup2(3, 2)
            os.close(3)
            os.chdir("/")
            os.execve(words[0], words, env)

        try:
            pid = _local.fork_on_terminal(tty_fd, {3: errors}, 0o077, execute)
        finally:
            os.close(errors)
        _local.note(scratch_dir, {"client-pid": pid, "client-ticks": host.start_mark(pid)})
        return pid

    def _feed(self, launch: Launch, seed: bytes) -> None:
        """Hand the seed over from a process of its own: it has to wait for a reader that may never come."""
        pid = os.fork()
        if pid:
            return
        try:
            os.setsid()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(START_S))
            if self.shared:
                _local._close_all_but({0, 1, 2})
                fd = os.open(os.path.join(launch.scratch_dir, SEED_FILE), os.O_WRONLY | os.O_NOFOLLOW)
                self._offer_word(launch)
                view = memoryview(seed)
                while view:
                    view = view[os.write(fd, view) :]
            else:
                self._feed_by_exec(launch, seed)
        except BaseException:
            os._exit(1)
        finally:
            os._exit(0)

    def _feed_by_exec(self, launch: Launch, seed: bytes) -> None:
        spec = launch.spec
        while not (self._inspect(launch.scratch_dir, spec) or {}).get("Running"):
            if not _client_lives(_local.read_status(launch.scratch_dir) or {}):
                return
            _pause(0.02)
        run_inside = [*self._exec(launch.scratch_dir, spec), "python3", "-I", "-S", "-c"]
        self._offer_word(launch)
        if launch.trace_fd >= 0:
            words = [self.client(), *run_inside, _inside.READ, _inside.OWN_TRACE]
            actions = [(os.POSIX_SPAWN_DUP2, launch.trace_fd, 1)]
            os.posix_spawn(words[0], words, self.client_env(spec), file_actions=actions)
            os.close(launch.trace_fd)
        command = [*run_inside, _inside.FEED, _inside.OWN_SEED, bubblewrap.INPUT]
        # The program may end before its adapter was seen to listen; from the seed on, it was started.
        if b"seeded" in self.ask(spec, *command, timeout_s=START_S, stdin=seed).stdout:
            os.close(os.open(os.path.join(launch.scratch_dir, READY_FILE), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))

    def _offer_word(self, launch: Launch) -> None:
        """Put an empty file of the agent's into a container that may be changed: see _inside.WORD."""
        if launch.spec["container_mutability"] != "ephemeral":
            return
        try:
            name = self._name(launch.scratch_dir, launch.spec)
            archive = _inside.word_archive(launch.spec["uid"], launch.spec["gid"])
            self.ask(launch.spec, "cp", "-", f"{name}:/var", stdin=archive)
        except WorkcellError:
            return  # then a wrapper has nowhere to say it, and the engine's own list is what there is

    def _exec(self, scratch_dir: str, spec: "dict[str, Any]") -> list[str]:
        return ["exec", "--interactive", "--user", f"{spec['uid']}:{spec['gid']}", self._name(scratch_dir, spec)]

    def ready(self, scratch_dir: str) -> bool:
        """Say whether the adapter has opened its input, the last thing that it does before it is ready, be it over by now."""
        if not self.shared:
            return os.path.lexists(os.path.join(scratch_dir, READY_FILE))
        return _local.has_reader(scratch_dir) or _local.had_reader(scratch_dir)

    def was_started(self, scratch_dir: str) -> bool:
        """Say of a container that ended before it was seen to be ready whether the program was started in it."""
        if self.shared:
            return _local.had_reader(scratch_dir)
        deadline = clock.monotonic_s() + SETTLE_S
        while not os.path.lexists(os.path.join(scratch_dir, READY_FILE)):
            if clock.monotonic_s() > deadline:
                return False
            _pause(0.01)
        return True

    def began(self, scratch_dir: str, session_id: str) -> None:
        """Note which process the container's first one is: from now on that one is asked before the engine is."""
        spec = scratch.read_spec(scratch_dir)
        identity, pid = _read_small(os.path.join(scratch_dir, ID_FILE)), _read_small(os.path.join(scratch_dir, PID_FILE))
        found: dict[str, Any] | None = None
        if not pid.isdigit():
            found = self._inspect(scratch_dir, spec) or {}
            pid = str(found.get("Pid", ""))
        note: dict[str, Any] = {"container-id": identity}
        if self.shared and pid.isdigit() and _is_first(int(pid), identity, session_id):
            note["child-pid"] = int(pid)
        elif found:
            note["started-at"] = str(found.get("StartedAt", ""))
        _local.note(scratch_dir, note)

    def last_words(self, scratch_dir: str) -> str:
        """Return why the engine could not start the container, in its words; "" where it said nothing."""
        text = _read_small(os.path.join(scratch_dir, ERRORS_FILE), 1 << 14)
        lines = [line.strip() for line in text.splitlines() if line.strip() and "level=warning" not in line]
        lines = [line for line in lines if not line.startswith("Run '") and not line.startswith("See '")]
        if not lines:
            return ""
        last = lines[-1].removeprefix("Error: ").removeprefix("docker: ")
        if _choice.names_no_python(last):
            return "the image has no python3, which the adapter needs (3.8 or newer)"
        return last

    # --- what can be known

    def _name(self, scratch_dir: str, spec: "dict[str, Any]") -> str:
        return _read_small(os.path.join(scratch_dir, ID_FILE)) or str(spec["container_name"])

    def _inspect(self, scratch_dir: str, spec: "dict[str, Any]") -> "dict[str, Any] | None":
        """Return the engine's state of the session's container, {} where it is proven to have none, None: cannot tell."""
        try:
            words = ("inspect", "--type", "container", "--format", "{{json .State}}\n{{json .Config.Labels}}")
            done = self.ask(spec, *words, self._name(scratch_dir, spec))
            if done.exit_status == 0:
                state, _, labels = done.text().partition("\n")
                found, owner = fastjson.loads(state), fastjson.loads(labels) or {}
                if owner.get("workcell.session-id") == spec["session_id"]:
                    return found if isinstance(found, dict) and isinstance(found.get("Status"), str) else None
            return None if self._containers(spec) else {}
        except (CannotTellError, ValueError, AttributeError):
            return None

    def _containers(self, spec: "dict[str, Any]") -> list[str]:
        """Return the ids of all containers of a session; raise CannotTellError where the engine does not say."""
        words = ("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={self._label(spec['session_id'])}")
        done = self.ask(spec, *words)
        found = done.text().split()
        if done.exit_status != 0 or not all(len(word) == 64 and word.isalnum() for word in found):
            raise CannotTellError(self.program, done.reason(), "see that the engine answers")
        return found

    def _first_process(self, scratch_dir: str, status: "dict[str, Any]", session_id: str) -> int:
        """Return the pid of the container's first process where it is one of this machine and lives, else 0."""
        pid = status.get("child-pid")
        if type(pid) is not int:
            text = _read_small(os.path.join(scratch_dir, PID_FILE))
            pid = int(text) if text.isdigit() else 0
        identity = status.get("container-id") or _read_small(os.path.join(scratch_dir, ID_FILE))
        return pid if pid > 1 and identity and _is_first(pid, str(identity), session_id) else 0

    def state(self, scratch_dir: str, session_id: str, ask: bool = True) -> State:
        """Return what the container's first process says; the engine is asked when that one is gone or unknown, and `ask`."""
        status = _local.read_status(scratch_dir)
        if status is None:
            return State(False)  # never launched: the file is made before the client is
        if "exit-code" in status:
            return _local.ended(status)
        pid = self._first_process(scratch_dir, status, session_id)
        if pid:
            return State(True, None, pid)
        gone = "child-pid" in status
        if not ask:
            return State(False if gone else None)
        try:
            spec = scratch.read_spec(scratch_dir)
        except WorkcellError:
            return State(None)
        deadline = clock.monotonic_s() + SETTLE_S
        while True:
            found = self._inspect(scratch_dir, spec)
            if found is None:
                return State(None)
            state = self._judge(scratch_dir, status, found, gone)
            if state is not None:
                return state
            if clock.monotonic_s() > deadline or (self.is_podman and not _has_watcher(self._name(scratch_dir, spec))):
                return State(False)  # says that it runs, and its process is gone: whoever watched it for the engine is dead
            _pause(0.05)

    def _judge(self, scratch_dir: str, status: "dict[str, Any]", found: "dict[str, Any]", gone: bool) -> State | None:
        """Return the State behind an engine's answer, None where it has not noticed an end yet."""
        word, code, pid = found.get("Status"), found.get("ExitCode"), found.get("Pid")
        if not found or word in ("created", "configured", "initialized"):
            return State(True) if _client_lives(status) and not gone else State(False)
        if word in ("exited", "dead", "stopped", "removing"):
            return State(False, code if type(code) is int and 0 <= code <= 255 else None)
        if word not in ("running", "paused", "restarting", "stopping"):
            return State(None)
        if not gone:
            began = status.get("started-at")
            # One that was started again is another container: what ran in the session's is gone.
            return State(False) if began and found.get("StartedAt") != began else State(True)
        return None if pid == status.get("child-pid") else State(False)

    def has_changed_programs(self, scratch_dir: str) -> bool:
        """Say of a container that has ended whether the programs of its image were changed: the engine lists what was, and a
        package manager's wrapper inside may have left its word. Raises CannotTellError.

        Names are the agent's own, and may hold anything; but none of them makes a line less.
        """
        spec = scratch.read_spec(scratch_dir)
        name = self._name(scratch_dir, spec)
        listed = self.ask(spec, "diff", name, timeout_s=REMOVE_S)
        if listed.exit_status != 0:
            raise CannotTellError(self.program, listed.reason(), "see that the engine answers")
        if any(line[2:].startswith(_PROGRAMS) for line in listed.stdout.splitlines()):
            return True
        word = _inside.first_line(self.ask(spec, "cp", f"{name}:/var/{_inside.WORD}", "-").stdout)
        return word == events.PACKAGE_MUTATION.encode()

    # --- a container that another implementation has made: see _named.py

    def context_of(self, target_id: str) -> str:
        """Return the context that a record's target_id names."""
        return ""

    def run_client(self, spec: "dict[str, Any]", words: list[str]) -> int:
        """Run a client on our own terminal to its end and return its exit status."""
        program = self.client()
        pid = os.posix_spawn(program, [program, *words], self.client_env(spec), setsigdef=[signal.SIGINT, signal.SIGQUIT])
        return run.exit_status_of(os.waitpid(pid, 0)[1])

    # --- the end

    def kill(self, scratch_dir: str, session_id: str, signum: int) -> None:
        """Send a signal to the container's first process: straight where it is one of this machine, else through the engine."""
        status = _local.read_status(scratch_dir) or {}
        pid = self._first_process(scratch_dir, status, session_id)
        if pid:
            identity = str(status.get("container-id") or _read_small(os.path.join(scratch_dir, ID_FILE)))
            try:
                host.send_signal(pid, signum, lambda: _is_first(pid, identity, session_id))
                return
            except PermissionError:
                pass
        if "child-pid" in status and not pid:
            return
        from signal import Signals  # by name: a virtual machine's engine has numbers of its own

        try:
            spec = scratch.read_spec(scratch_dir)
            done = self.ask(spec, "kill", "--signal", Signals(signum).name[3:], self._name(scratch_dir, spec))
        except WorkcellError:
            done = None
        if signum == signal.SIGKILL and (done is None or done.exit_status != 0):
            _end_client(status)  # it may just be making the container

    def delete(self, scratch_dir: str, session_id: str) -> None:
        """Remove the container; raise CannotTellError where it is not known whether it is gone."""
        status = _local.read_status(scratch_dir)
        if status is None:
            return
        _end_client(status)
        _let_go(os.path.join(scratch_dir, SEED_FILE))
        spec = scratch.read_spec(scratch_dir)
        words = ["rm", "--force", "--volumes", *(["--time", "0"] if self.is_podman else [])]
        identity = _read_small(os.path.join(scratch_dir, ID_FILE))
        if identity and self.ask(spec, *words, identity, timeout_s=REMOVE_S).exit_status == 0:
            return
        for left in self._containers(spec):
            self.ask(spec, *words, left, timeout_s=REMOVE_S)
        if self._containers(spec):
            raise CannotTellError(session_id, f"its container could not be removed by {self.program}", "try again")

    # --- input

    def open_input(self, scratch_dir: str) -> "tuple[int, int]":
        """Return (a descriptor that leads to the agent's input inside, the pid of the client that carries it)."""
        spec = scratch.read_spec(scratch_dir)
        words = [self.client(), *self._exec(scratch_dir, spec), "python3", "-I", "-S", "-c", _inside.TYPE, bubblewrap.INPUT]
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
            pid = os.posix_spawn(words[0], words, self.client_env(spec), file_actions=actions, setsigdef=[signal.SIGPIPE])
        finally:
            os.close(reading)
            os.close(null)
        return writing, pid


def _bind(source: str, place: str, read_only: bool = False) -> str:
    words = ["type=bind", _field("source=" + source), _field("destination=" + place)]
    return ",".join([*words, "readonly"] if read_only else words)


def _field(text: str) -> str:
    """Return one field of a --mount option, quoted as its CSV has it."""
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"') else text


def _read_small(path: str, limit_bytes: int = 200) -> str:
    """Return the text of a small file of ours, "" where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, limit_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def _let_go(fifo: str) -> None:
    """End whoever still waits for the reader of a FIFO, by being one for a moment: the write after that fails."""
    try:
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        pass


def _is_first(pid: int, identity: str, session_id: str) -> bool:
    """Say whether a process lives and is of the container with this id: its control group says so, or its environment."""
    if host.start_mark(pid) is None:
        return False
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as stream:
            if len(identity) == 64 and identity in stream.read():
                return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"WORKCELL_SESSION_ID=" + os.fsencode(session_id) in file.read().split(b"\0")
    except OSError:
        return False


def _has_watcher(identity: str) -> bool:
    """Say whether a conmon(8) of a container lives: it tells podman of the end."""
    lines = (host.command_line(pid).split(b"\0") for pid in host.processes())
    return any(os.path.basename(words[0]) == b"conmon" and os.fsencode(identity) in words for words in lines)


def _client_lives(status: "dict[str, Any]") -> bool:
    pid, ticks = status.get("client-pid"), status.get("client-ticks")
    return type(pid) is int and ticks is not None and host.start_mark(pid) == ticks


def _end_client(status: "dict[str, Any]") -> None:
    if _client_lives(status):
        try:
            host.send_signal(status["client-pid"], signal.SIGKILL, lambda: _client_lives(status))
        except PermissionError as error:
            raise CannotTellError("engine client", error.strerror or "", "try again") from None
        deadline = clock.monotonic_s() + 5
        while _client_lives(status) and clock.monotonic_s() < deadline:
            _pause()


def _pause(time_s: float = 0.005) -> None:
    import time

    time.sleep(time_s)
