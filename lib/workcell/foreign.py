"""Sessions that another implementation of the same records has started: worked with through their container's engine.

Nothing of ours stands beside them: no lock, no console log, no FIFO. What can be asked is the engine, and whether the process
that the record calls its monitor is one. The record and the audit log are written as that implementation writes them.
"""

import os

from workcell import clock, finish, host, live, record, runtimes, scratch
from workcell.errors import CannotTellError, WorkcellError
from workcell.runtimes import _named
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What their container is given on its standard input goes into the FIFO of the adapter, whose path its environment names.
_TYPE = 'f=${WORKCELL_DETACHED_STDIN_PATH:-/state/tmp/workcell/session-stdin}; [ -p "$f" ] && [ -w "$f" ] && exec cat > "$f"'
MONITOR_WRITES_S = 60.0


class Container:
    """The container of a record, by the engine that its target names."""

    def __init__(self, fields: "dict[str, Any]") -> None:
        self.fields, self.name = fields, str(fields["container_name"])
        self.engine = runtimes.by_provider(str(fields["target_provider"]))
        if not runtimes.is_engine(self.engine):
            raise WorkcellError(
                str(fields["session_id"]), f"its target {fields['target_provider']} is not supported", "use what started it"
            )
        try:
            env = self.engine.find_engine(str(fields["profile"]), self.engine.context_of(str(fields["target_id"])))
        except WorkcellError as error:
            raise CannotTellError(error.what, error.why, error.next_step) from None
        self.spec = {"session_id": fields["session_id"], "container_name": self.name, "engine_env": env}

    def state(self) -> str:
        """Return `running`, `stopped` or, where that is proven, `missing`; raise CannotTellError."""
        return str(_named.state(self.engine, self.spec))

    def exit_status(self) -> int:
        """Return the exit status that the engine has, 1 where it has none."""
        code = _named.exit_status(self.engine, self.spec)
        return finish.FALLBACK_EXIT_STATUS if code is None else int(code)


def monitor_lives(fields: "dict[str, Any]") -> bool:
    """Say whether the record's monitor is alive: its pid is one, and its command line names this session's state file."""
    pid, folder = str(fields["monitor_pid"]), str(fields["session_audit_dir"])
    if not pid.isdigit() or pid.startswith("0") or not folder:
        return False
    words = host.command_line(int(pid)).replace(b"\0", b" ")
    _, found, rest = words.partition(b" session monitor --state-file ")
    return bool(found) and os.fsencode(os.path.join(folder, "session-monitor.env")) in rest


def require_live(session: live.Session, verb: str) -> Container:
    """Return the container of a session that can be worked with now; raise otherwise."""
    live.require_detached(session, verb)
    if record.live_value(session.fields) not in live.LIVE:
        raise WorkcellError(session.id, f"cannot {verb}: it is not running any more", "see workcell-session-show")
    if not monitor_lives(session.fields):
        raise WorkcellError(session.id, f"cannot {verb}: its monitor is dead", "end it with workcell-session-stop")
    container = Container(session.fields)
    if container.state() != "running":
        raise WorkcellError(session.id, f"cannot {verb}: its container does not run", "see workcell-session-show")
    return container


def attach(session: live.Session, keys: list[int], interactive: bool) -> int:
    """Give this terminal to the engine's own client; return 0 after a detach, else what the client or the agent ended with."""
    container = require_live(session, "attach")
    mode = "interactive" if interactive else "disabled"
    pairs = [("source", "host-cli"), ("stdin_mode", mode), ("container_name", container.name)]
    session.append("attach-attempt", pairs)
    names = ",".join(f"ctrl-{chr(key | 0x40).lower()}" if key < 0x20 else chr(key) for key in keys)
    words = ["attach", "--sig-proxy=false", f"--detach-keys={names}", *([] if interactive else ["--no-stdin"]), container.name]
    for signum in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)  # they are the client's
    exit_status = container.engine.run_client(container.spec, words)
    detached = False
    try:
        detached = container.state() == "running"
    except CannotTellError:
        pass
    if exit_status == 0 or detached:  # after its detach keys a client may end with 1
        session.append("attach", pairs)
        return 0
    return int(exit_status)


def send(session: live.Session, message: bytes, timeout_s: float) -> None:
    """Write bytes into the adapter's FIFO inside the container; raise WorkcellError where they were not taken."""
    container = require_live(session, "send")
    user = f"{os.getuid()}:{os.getgid()}"
    words = ["exec", "--interactive", "--user", user, container.name, "/bin/sh", "-c", _TYPE]
    done = container.engine.ask(container.spec, *words, timeout_s=timeout_s, stdin=message)
    if done.exit_status != 0:
        raise WorkcellError(session.id, "cannot send: its input is unavailable", "see workcell-session-show")


def stop(session: live.Session, grace_s: float, force: bool) -> "dict[str, Any]":
    """End a session and return its record; one whose container has ended already only gets its end written down."""
    container = Container(session.fields)
    state = container.state()
    folder, alive = session.folder, monitor_lives(session.fields)
    if state != "running":
        if alive:
            return _await_monitor(session)
        _request(session, container, force, folder)
        return _write_down(session, container, state)
    if record.live_value(session.fields) not in (*live.LIVE, "stopping"):
        raise WorkcellError(session.id, "its container runs, and its record says otherwise", "see workcell-session-show")
    _request(session, container, force, folder)
    words = ["kill", container.name] if force else ["stop", "-t", str(int(grace_s)), container.name]
    done = container.engine.ask(container.spec, *words, timeout_s=grace_s + 30)
    if done.exit_status != 0 and container.state() == "running":
        if folder:
            _unlink(os.path.join(folder, scratch.STOP_MARKER))
        failed = [("source", "host-cli"), ("force", "1" if force else "0"), ("container_name", container.name)]
        session.append("stop-failed", [*failed, ("transport_status", str(done.exit_status))])
        raise WorkcellError(session.id, f"it could not be stopped: {done.reason()}", "try again, with --force")
    if alive:
        record.update(
            session.path,
            {"status": "stopping", "live_status": "stopping", "observed_at": clock.utc_now()},
            unless_final=True,
        )
        return _await_monitor(session)
    return _write_down(session, container, container.state())


def _request(session: live.Session, container: Container, force: bool, folder: str) -> None:
    if folder:
        scratch.mark_stop(folder)
    pairs = [("source", "host-cli"), ("force", "1" if force else "0"), ("container_name", container.name)]
    session.append("stop-request", pairs)


def _await_monitor(session: live.Session) -> "dict[str, Any]":
    """Wait until the other implementation's monitor has written the end, or is gone."""
    from workcell.monitor import wait_for_end

    deadline = clock.monotonic_s() + MONITOR_WRITES_S
    while monitor_lives(session.reload()) and clock.monotonic_s() < deadline:
        wait_for_end(int(session.fields["monitor_pid"]), 0.25)
    if not record.is_terminal(session.reload()) and not monitor_lives(session.fields):
        container = Container(session.fields)
        return _write_down(session, container, container.state())
    return session.fields


def _write_down(session: live.Session, container: Container, state: str) -> "dict[str, Any]":
    if state == "running":
        raise CannotTellError(session.id, "its container runs again", "try again")
    fields = record.read(session.path)
    if not record.is_terminal(fields):
        known = state == "stopped"
        fields = finish.write_down(
            session.path,
            "",
            None,
            container.exit_status() if known else finish.FALLBACK_EXIT_STATUS,
            status="exited" if known else "aborted",
            source="host-stop-fallback",
            reason="" if known else "lost",
        )
    if session.folder:
        _unlink(os.path.join(session.folder, scratch.STOP_MARKER))
    session.fields = fields
    return fields


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
