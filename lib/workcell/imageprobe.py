"""The adapter's self test in a container image: throwaway sessions of adapter/self_test.py, in a state root of their own.

The sessions are started, typed into and stopped by the same executables as any other's. All of it lies in one folder,
which is removed at the end.
"""

import fcntl
import os
import struct
import sys
import termios

from workcell import atomic, clock, layout, run, runtimes
from workcell.errors import PreconditionError, UsageError, WorkcellError
from workcell.runtimes import _python
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENGINES = ("podman", "docker", "colima", "docker-desktop")
CHECKS = ("terminal-size", "split-utf-8", "orphans", "large-paste", "signals", "exit-0", "exit-7", "exit-by-signal")
SIZE = (41, 117)  # no terminal has that by chance
WAIT_S = 60.0


class Probe:
    """A probe of one image that was found; `python` is the image's own `python3`, or `mounted`.

    Raises PreconditionError where engine or image are missing, UsageError for a target without images.
    """

    def __init__(self, options: "Any", bin_dir: str) -> None:
        self._options, self._bin_dir = options, bin_dir
        self.runtime = _choose(options.target)
        self.target, self.image = self.runtime.TARGET.name, options.image
        from types import SimpleNamespace

        asked = {"image": options.image, "pull": options.pull, "docker_context": options.docker_context}
        asked |= {"container_mutability": "", "container_cpu": "", "container_memory": ""}
        spec = self.runtime.choose(SimpleNamespace(**asked), options.profile)
        self.python = "mounted" if "adapter_python" in spec else "image"
        self._words = _python.words(_python.PLACE) if "adapter_python" in spec else ["python3"]
        self._source = _self_test()

    def try_all(self) -> "dict[str, str]":
        """Return {name of a check: why it failed, "" where it passed}, in the order of CHECKS; raise where start refuses."""
        import shutil
        import tempfile

        # A virtual machine sees the home, if anything.
        folder = tempfile.mkdtemp(prefix="workcell-probe-", dir=None if self.runtime.shared else layout.home_dir())
        self._env = {**os.environ, "WORKCELL_STATE_ROOT": os.path.join(folder, "state")}
        self._folder = folder

        def give_up(*_: object) -> None:
            raise KeyboardInterrupt

        try:
            for signum in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(signum, give_up)
            return self._judge()
        finally:
            # Also those of a start that was interrupted before it could name one.
            for session_id in self._run("list", "--ids").text().split():
                self._call("stop", "--id", session_id, "--force")
            shutil.rmtree(folder)

    def _judge(self) -> "dict[str, str]":
        found = dict.fromkeys(CHECKS, "was not reached")
        first = ""
        try:
            first = self._start("terminal")
        except WorkcellError as error:
            if error.exit_status == 2:
                raise
            return dict.fromkeys(CHECKS, str(error))
        for name, mode, expected in (("exit-0", "succeed", 0), ("exit-by-signal", "killed", 137)):
            try:
                found[name] = self._ends(self._start(mode), expected)
            except WorkcellError as error:
                found[name] = str(error)
        told = self._told(first, "waiting=paste")
        found["terminal-size"] = _differs(told.get("size"), f"{SIZE[0]} {SIZE[1]}")
        found["split-utf-8"] = _differs(told.get("split"), str(self._source["SPLIT"]))
        found["orphans"] = _differs(told.get("orphans"), "0", "of them are left")
        if told.get("waiting") != "paste":
            return found
        sent = self._call("send", "--id", first, "--raw", "--file", "-", stdin=bytes(self._source["paste"]()))
        told = self._told(first, "waiting=term")
        found["large-paste"] = sent or _differs(told.get("paste"), "identical")
        stopped = self._call("stop", "--id", first)
        found["exit-7"] = self._ends(first, 7)
        told = self._told(first, "term=")
        found["signals"] = stopped or _differs(told.get("term"), "received")
        return found

    # --- the executables

    def _run(self, verb: str, *words: str, stdin: bytes = b"", in_fd: int = -1) -> run.Finished:
        command = [sys.executable, "-I", os.path.join(self._bin_dir, f"workcell-session-{verb}"), *words]
        return run.capture(command, self._env, WAIT_S * 2, stdin=stdin, in_fd=in_fd)

    def _call(self, verb: str, *words: str, stdin: bytes = b"") -> str:
        """Run a command and return why it failed, "" where it did not."""
        done = self._run(verb, *words, stdin=stdin)
        return "" if done.exit_status == 0 else _own_words(done)

    def _start(self, mode: str) -> str:
        """Start a session of the self test and return its id; raise in start's own words."""
        workspace = os.path.join(self._folder, mode)
        os.mkdir(workspace, 0o755)
        os.chmod(workspace, 0o755)
        atomic.replace_file(os.path.join(workspace, "AGENTS.md"), b"A throwaway session.\n", 0o644)
        words = ["--agent", "command", "--target", self.target, "--image", self.image, "--network", "none"]
        words += ["--workspace", workspace, "--session-workspace", "direct", "--allow-nongit-workspace"]
        for option, value in (("--profile", self._options.profile), ("--docker-context", self._options.docker_context)):
            words += [option, value] if value else []
        words += ["--", *self._words, "-I", "-S", "-c", self._source["text"], mode]
        master, slave = os.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", *SIZE, 0, 0))
            done = self._run("start", *words, in_fd=slave)
        finally:
            os.close(master)
            os.close(slave)
        if done.exit_status != 0:
            raise (PreconditionError if done.exit_status == 2 else WorkcellError)(_own_words(done))
        return done.text().partition("session_id=")[2].partition("\n")[0]

    def _ends(self, session_id: str, expected: int) -> str:
        done = self._run("wait", "--id", session_id, "--timeout", f"{WAIT_S:.0f}")
        return "" if done.exit_status == expected else f"exit status {done.exit_status} in place of {expected}"

    def _told(self, session_id: str, mark: str) -> "dict[str, str]":
        """Return what the self test has told, once it has told a certain line, or else when the time is up."""
        import time

        deadline = clock.monotonic_s() + WAIT_S
        while True:
            done = self._run("logs", "--id", session_id, "--kind", "transcript", "--text")
            lines = done.stdout.decode("utf-8", "replace").splitlines()
            over = self._run("show", "--id", session_id, "--field", "status").text() not in ("starting", "running")
            if over or any(line.startswith(mark) for line in lines) or clock.monotonic_s() > deadline:
                return {name: what for name, _, what in (line.partition("=") for line in lines)}
            time.sleep(0.05)


def _choose(name: str) -> "Any":
    if name != "auto":
        if name not in ENGINES:
            raise UsageError(f"--target {name!r}", "has no images", f"known are auto, {', '.join(ENGINES)}")
        return runtimes.by_name(name)
    reasons = []
    for candidate in ENGINES[:2]:
        runtime = runtimes.by_name(candidate)
        why_not = runtime.probe()
        if not why_not:
            return runtime
        reasons.append(f"{candidate}: {why_not}")
    raise PreconditionError("target auto", f"no container engine answers: {'; '.join(reasons)}", "name one with --target")


def _self_test() -> "dict[str, Any]":
    """Return the names of adapter/self_test.py, and its `text`."""
    with open(os.path.join(layout.data_dir("adapter"), "self_test.py"), encoding="utf-8") as stream:
        text = stream.read()
    names: dict[str, Any] = {"__name__": "self_test"}
    exec(compile(text, "self_test.py", "exec"), names)
    return {**names, "text": text}


def _own_words(done: run.Finished) -> str:
    """Return the last line that a command of ours complained in, without its name."""
    return done.reason().partition(": ")[2] or done.reason()


def _differs(found: "str | None", expected: str, more: str = "") -> str:
    if found == expected:
        return ""
    if found is None:
        return "the program did not come so far"
    return f"{found} {more}" if more else f"{found} in place of {expected}"
