"""The monitor: one process per session that outlives start, owns the outer terminal and the console log, and writes the end.

start forks it before anything of the session exists; it takes part in nothing until it is told to go, and cleans up after a
start that died. From then on it is the only client of the sandbox and the only writer of the console log.
"""

import errno
import fcntl
import os
import select
import struct
import termios
import time

from workcell import clock, console, fastjson, finish, host, layout, record, runtimes, scratch, trace
from workcell.errors import WorkcellError
from workcell.run import exit_status_of
from workcell.runtimes import _local
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

READY_TIMEOUT_S = 60.0
KILL_AFTER_S = 10.0
ATTACH_PAUSE_S = 5.0
CLIENT_ENDS_S = 2.0
INPUT_LIMIT_BYTES = 1 << 16
TOUCH_EVERY_S = 3600.0
REPAINT_S = 0.06
LAST_COMPARISON_S = 2.0
LARGEST_SIDE = 10_000


class Channel:
    """start's end of the pipe to its monitor: one short line each way at a time.

    pid: the monitor's; folder: the scratch folder that it made.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.pid, self.folder = 0, ""
        self._reading, self.writing, self._rest = reading, writing, b""

    def prepare(self) -> None:
        """Tell the monitor that the workspace's folder is there: a container may be made, in which nothing runs yet."""
        self._tell(b"prepare\n")

    def go(self) -> None:
        """Tell the monitor that record and event are written: the agent may run."""
        self._tell(b"go\n")

    def _tell(self, word: bytes) -> None:
        try:
            os.write(self.writing, word)
        except BrokenPipeError:
            pass  # it is dead, as read_line will say

    def read_line(self, timeout_s: float | None = None) -> str | None:
        """Return the next line of the other side, "" at its end, None when the time is up."""
        deadline = None if timeout_s is None else clock.monotonic_s() + timeout_s
        while b"\n" not in self._rest:
            poller = select.poll()
            poller.register(self._reading, select.POLLIN)
            if not poller.poll(None if deadline is None else max(0.0, deadline - clock.monotonic_s()) * 1000):
                return None
            data = os.read(self._reading, 4096)
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of the monitor; before `go` this means that the start is given up."""
        for fd in (self._reading, self.writing):
            if fd >= 0:
                os.close(fd)
        self._reading = self.writing = -1


def fork(prepare: "Callable[[], tuple[runtimes.Launch, int]]", size: tuple[int, int], stderr_fd: int) -> Channel:
    """Fork the monitor off, twice, into a process session of its own; return the channel to it.

    prepare: run by the monitor: makes the scratch folder and returns (launch, descriptor that holds monitor.lock). Whoever
    makes it has to outlive start, or a start that is killed would leave it behind. Returns once the monitor has named its pid.
    """
    to_us, from_monitor = os.pipe()
    to_monitor, from_us = os.pipe()
    first = os.fork()
    if first == 0:
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _become_monitor(prepare, to_monitor, from_monitor, size, stderr_fd)
        finally:
            os._exit(70)
    os.waitpid(first, 0)
    os.close(from_monitor)
    os.close(to_monitor)
    channel = Channel(to_us, from_us)
    try:
        word, _, rest = (channel.read_line(READY_TIMEOUT_S) or "").partition(" ")
        if word == "refused":
            raise WorkcellError(rest)
        if not word:
            raise WorkcellError("monitor", "did not start", "try again")
        channel.pid, channel.folder = int(word), rest
    except BaseException:
        channel.close()
        raise
    return channel


def _become_monitor(
    prepare: "Callable[[], tuple[runtimes.Launch, int]]", reading: int, writing: int, size: tuple[int, int], stderr_fd: int
) -> "NoReturn":
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.dup2(stderr_fd if stderr_fd >= 0 else null, 2)
    _local._close_all_but({0, 1, 2, reading, writing})
    os.chdir("/")
    os.umask(0o077)
    for signum in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGPIPE,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
    ):
        signal.signal(signum, signal.SIG_IGN)
    status = 0
    try:
        try:
            launch, lock_fd = prepare()
        except (WorkcellError, OSError) as error:
            what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
            _say(writing, f"refused {what}")
            os._exit(1)
        Monitor(launch, lock_fd, reading, writing, size).run()
    except BaseException as error:
        _log(f"monitor failed: {type(error).__name__}: {error}")
        status = 70
    os._exit(status)


def _say(fd: int, line: str) -> None:
    try:
        os.write(fd, line.encode("utf-8", "backslashreplace").replace(b"\n", b" ") + b"\n")
    except OSError:
        pass  # start has gone its way


def _log(text: str) -> None:
    line = f"{clock.utc_now()} workcell-session-monitor[{os.getpid()}]: {text}\n"
    try:
        os.write(2, line.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


class Monitor:
    """One session's monitor, from before its record to after its seal."""

    def __init__(self, launch: runtimes.Launch, lock_fd: int, reading: int, writing: int, size: tuple[int, int]) -> None:
        self.launch, self.spec, self.folder = launch, launch.spec, launch.scratch_dir
        self.session_id, self.record_path = launch.spec["session_id"], launch.spec["record_path"]
        self.runtime = runtimes.of_spec(launch.spec)
        self._engine = runtimes.is_engine(self.runtime)
        self._shares_trace = self._engine and self.runtime.shared  # a FIFO that both sides see; else a pipe that is inherited
        self._words, self._writing = Channel(reading, writing), writing
        self._sizes: dict[int, tuple[int, int]] = {}
        self._base_size = self._size = size
        self._pending = bytearray()
        self._control_rest = b""
        self._ready = False
        self._readable = True
        self._master = -1
        self._child = 0
        self._exit_status: int | None = None
        self._kill_at = self._repaint_at = self._attach_at = float("inf")
        self._attach_pause_s = 0.0
        self._client_due = float("inf")
        self._first_fd = -1
        self._touch_at = clock.monotonic_s() + TOUCH_EVERY_S
        self._reason = ""
        self._terminated = self._lost = False
        self._lock_fd = lock_fd
        self._trace: trace.Collector | None = None
        self._trace_fd = -1
        self._poller = select.poll()

    # --- the whole way

    def run(self) -> None:
        """Wait for the word to go, launch, keep the session, and write its end down."""
        signal.signal(signal.SIGTERM, self._on_terminate)
        self._say(f"{os.getpid()} {self.folder}")
        word, problem = self._words.read_line(), None
        if word == "prepare":
            # An engine takes longer than all that start still has to do; its container waits until it is let go.
            try:
                self._make_fifos()
                self._start()
                self._prepare()
            except (OSError, WorkcellError) as error:
                problem = error
            word = self._words.read_line()
        if word != "go":
            self._abandon()
            return
        try:
            if problem:
                raise problem
            self._launch()
            self._loop()
        except (OSError, WorkcellError) as error:
            _log(f"{error}")
            self._reason = "monitor-failed" if self._ready else "launch-failed"
            self._say(f"failed {error.strerror or error if isinstance(error, OSError) else error}")
            self._end_sandbox()
            self._exit_status = self._exit_status if self._exit_status is not None else finish.FALLBACK_EXIT_STATUS
        self._finish()

    def _say(self, line: str) -> None:
        _say(self._writing, line)

    def _abandon(self) -> None:
        """Clean up after a start that ended before it said go: an agent has not run."""
        self._end_sandbox()
        if os.path.lexists(self.record_path):
            self._discard_workspace()
            self._reason = "launch-aborted"
            self._write_down(finish.FALLBACK_EXIT_STATUS, "aborted")
            return
        try:
            finish.remove_unborn(self.spec, self.folder)
        except (OSError, WorkcellError) as error:
            _log(f"not cleaned up: {error}")  # the scratch folder stays, for reconcile

    def _discard_workspace(self) -> None:
        try:
            finish.discard_workspace(self.spec)
        except WorkcellError as error:
            _log(str(error))

    def _make_fifos(self) -> None:
        self._make_fifo(scratch.AGENT_INPUT, inside=True)
        if self._shares_trace and "file_trace_log_path" in self.spec:
            self._make_fifo(scratch.TRACE, inside=True)

    def _prepare(self) -> None:
        host.become_subreaper()
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        self._input_fd = os.open(self._make_fifo(scratch.TERMINAL_INPUT), flags)
        self._control_fd = os.open(self._make_fifo(scratch.CONTROL), flags)
        limit = self.spec.get("transcript_limit_bytes", console.DEFAULT_LIMIT_BYTES)
        self._console = console.Writer(os.path.join(self.folder, scratch.CONSOLE), limit, self._size)
        self._wake_read, wake_write = host.pipe()
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _make_fifo(self, name: str, inside: bool = False) -> str:
        """Make a FIFO in the scratch folder and return its path; inside: for what runs as the agent's user."""
        path = os.path.join(self.folder, name)
        os.mkfifo(path, 0o600)
        os.chmod(path, 0o600)
        if inside and self.spec["uid"] != os.geteuid():
            os.chown(path, self.spec["uid"], self.spec["gid"])
        return path

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True

    def _launch(self) -> None:
        """Let the agent run."""
        if not self._engine:
            self._make_fifos()
            self._prepare()
        self._begin_trace()
        try:
            if self._engine:
                self.runtime.release(self.launch, self._size)
            else:
                self._start()
        finally:
            if self.launch.trace_fd >= 0:
                os.close(self.launch.trace_fd)

    def _start(self) -> None:
        self._open_terminal(lambda slave: self.runtime.start(self.launch, slave))

    def _open_terminal(self, start: "Callable[[int], int]") -> None:
        """Make the outer terminal and start what owns its other side; the pid to wait for is kept."""
        self._master, slave = os.openpty()
        os.set_blocking(self._master, False)
        self._apply_size(self._size)
        try:
            self._child = start(slave)
        finally:
            os.close(slave)
        self._readable = True
        self._poller.register(self._master, select.POLLIN)

    def _begin_trace(self) -> None:
        if "file_trace_log_path" not in self.spec:
            return
        self._trace = trace.Collector(trace.open_log(self.spec["file_trace_log_path"]))
        self._trace.launched(self.spec["agent"], "cli", self.spec["mode"])
        if self._shares_trace:
            path = os.path.join(self.folder, scratch.TRACE)
            self._trace_fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            return
        self._trace_fd, self.launch.trace_fd = os.pipe()
        os.set_blocking(self._trace_fd, False)

    def _read_trace(self) -> bool:
        """Move what the tracer has told to the trace log; say whether there may be more."""
        try:
            data = os.read(self._trace_fd, 1 << 16)
        except BlockingIOError:
            return True
        if data and self._trace:
            self._trace.feed(data)
        return bool(data)

    def _end_trace(self, exit_status: int) -> None:
        if self._trace is None:
            return
        if self._trace_fd >= 0:
            # In a sandbox it is over by now: its adapter has waited for it. Of a plain process we are who has to ask.
            for pid in _local.session_processes(self.session_id):
                if _local.is_tracer(pid):
                    os.kill(pid, signal.SIGTERM)
            # Of a FIFO we hold both ends: what is not in it now will never be.
            deadline = clock.monotonic_s() + (0 if self._shares_trace else LAST_COMPARISON_S)
            poller = select.poll()
            poller.register(self._trace_fd, select.POLLIN)
            while poller.poll(max(0.0, deadline - clock.monotonic_s()) * 1000) and self._read_trace():
                pass
            os.close(self._trace_fd)
        self._trace.ended(self.spec["agent"], exit_status)
        self._trace, self._trace_fd = None, -1

    # --- the loop

    def _loop(self) -> None:
        poller = self._poller
        for fd in (self._input_fd, self._control_fd, self._wake_read):
            poller.register(fd, select.POLLIN)
        if self._trace_fd >= 0:
            poller.register(self._trace_fd, select.POLLIN)
        ready_by = clock.monotonic_s() + READY_TIMEOUT_S
        while self._exit_status is None:
            accepts = select.POLLIN | (select.POLLOUT if self._pending else 0)
            if self._master >= 0 and self._readable:
                poller.modify(self._master, accepts)
            elif not self._engine:
                self._pending.clear()  # nobody can ever read it
            poller.modify(self._input_fd, select.POLLIN if len(self._pending) < INPUT_LIMIT_BYTES else 0)
            for fd, happened in poller.poll(self._timeout_ms()):
                if fd == self._master:
                    if happened & select.POLLOUT:
                        self._write_input()
                    if happened & ~select.POLLOUT and not self._read_output():
                        self._readable = False
                        poller.unregister(fd)
                elif fd == self._input_fd:
                    self._pending += self._read(fd)
                elif fd == self._trace_fd:
                    if not self._read_trace():
                        poller.unregister(fd)
                elif fd == self._first_fd:
                    self._first_ended()
                elif fd == self._control_fd:
                    self._control(self._read(fd))
                else:
                    self._read(fd)
            self._reap()
            self._tick(ready_by)
        self._drain()

    def _timeout_ms(self) -> float:
        if not self._ready:
            return 2
        due = min(self._kill_at, self._repaint_at, self._touch_at, self._attach_at, self._client_due)
        return max(0.0, (due - clock.monotonic_s()) * 1000) + 1

    def _tick(self, ready_by: float) -> None:
        now = clock.monotonic_s()
        if not self._ready and self._exit_status is None:
            if self.runtime.ready(self.folder) if self._engine else _local.has_reader(self.folder):
                self._became_ready()
            elif now > ready_by:
                raise OSError(errno.ETIMEDOUT, f"the adapter was not ready within {READY_TIMEOUT_S:.0f} s")
        if self._terminated:
            self._terminated = False
            self._reason = "monitor-terminated"
            scratch.mark_stop(self.folder)
            self._ask_to_end()
            if not self._ready:
                self._kill_at = now  # there is nothing yet that could end by itself
        if now >= self._kill_at:
            self._kill_at = float("inf")
            self.runtime.kill(self.folder, self.session_id, signal.SIGKILL)
        if now >= self._repaint_at:
            self._repaint_at = float("inf")
            self._apply_size(self._size)
        if now >= self._client_due:
            self._client_due = float("inf")
            if self._child:
                os.kill(self._child, signal.SIGKILL)  # it has shown all that there was
        if now >= self._attach_at:
            self._attach_at = float("inf")
            self._client_ended()
        if now >= self._touch_at:
            self._touch_at = now + TOUCH_EVERY_S
            try:
                os.utime(self.folder)
            except OSError as error:
                _log(f"{self.folder}: {error}")

    def _became_ready(self) -> None:
        self._ready = True
        os.close(os.open(os.path.join(self.folder, scratch.READY_FLAG), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        if scratch.stop_requested(self.folder):
            self._ask_to_end()
        else:
            now = clock.utc_now()
            fields = {"status": "running", "live_status": "running", "observed_at": now}
            try:
                record.update(self.record_path, fields, unless_final=True)
            except (WorkcellError, OSError) as error:
                _log(f"record: {error}")
        self._say("ready")
        if self._engine:
            self.runtime.began(self.folder, self.session_id)
            self._watch(self.runtime.state(self.folder, self.session_id, ask=False).pid)

    def _ask_to_end(self) -> None:
        signum = getattr(signal, "SIG" + self.spec["stop_signal"])
        self.runtime.kill(self.folder, self.session_id, signum)
        self._kill_at = clock.monotonic_s() + KILL_AFTER_S

    @staticmethod
    def _read(fd: int) -> bytes:
        try:
            return os.read(fd, 1 << 16)
        except BlockingIOError:
            return b""

    def _read_output(self) -> bool:
        """Move output to the console log; say whether there may be more."""
        try:
            data = os.read(self._master, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""  # EIO: nobody has the other side open any more
        if data:
            self._console.write(data)
            return True
        return False

    def _write_input(self) -> None:
        try:
            del self._pending[: os.write(self._master, self._pending[:4096])]
        except BlockingIOError:
            pass
        except OSError:
            self._pending.clear()

    def _drain(self) -> None:
        """Read what was printed last: it is in the terminal's buffer until it is taken."""
        deadline = clock.monotonic_s() + 0.5
        if self._master < 0:
            return
        poller = select.poll()
        poller.register(self._master, select.POLLIN)
        while clock.monotonic_s() < deadline and poller.poll(0):
            if not self._read_output():
                break
        os.close(self._master)
        self._master = -1

    def _reap(self) -> None:
        """Collect every dead child; the session has ended when its sandbox has."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid, wait_status = 0, 0
                if self._exit_status is None and self._child == 0 and not self._engine:
                    known = self._status_known()
                    self._exit_status = finish.FALLBACK_EXIT_STATUS if known is None else known
            if pid == 0:
                return
            if pid == self._child:
                self._child = 0
                if self._engine:
                    self._client_ended()
                else:
                    self._sandbox_ended(wait_status)
            elif self._engine:
                # Its first process comes to us when whoever watched it for the engine was killed.
                if pid == (_local.read_status(self.folder) or {}).get("child-pid"):
                    self._exit_status = exit_status_of(wait_status)
            elif self._child == 0 and self._exit_status is None:
                # The launcher was killed and its sandbox came to us: its first process tells how it ended.
                self._exit_status = exit_status_of(wait_status)

    def _sandbox_ended(self, wait_status: int) -> None:
        state = self.runtime.state(self.folder, self.session_id)
        if state.exit_status is not None:
            self._exit_status = state.exit_status
        elif os.WIFEXITED(wait_status) or not (state.running and state.pid):
            self._exit_status = exit_status_of(wait_status)

    def _client_ended(self) -> None:
        """Find out whether the container ended with its client; where it did not, attach another one, less and less often.

        What cannot be told stays as it is: an engine that gives no answer may come back, and its container with it.
        """
        if self._exit_status is not None or self._child:
            return
        state = self.runtime.state(self.folder, self.session_id)
        if state.running is False:
            if not self._ready and self.runtime.was_started(self.folder):
                self._became_ready()
            self._exit_status = state.exit_status
            if self._exit_status is None:
                self._exit_status, self._lost = finish.FALLBACK_EXIT_STATUS, self._ready
            return
        if self._ready and state.running and self._attach_pause_s:
            self._close_master()
            self._open_terminal(lambda slave: self.runtime.attach(self.folder, self.session_id, slave))
        self._attach_pause_s = min(max(0.05, self._attach_pause_s * 2), ATTACH_PAUSE_S)
        if not self._child:
            self._attach_at = clock.monotonic_s() + self._attach_pause_s

    def _watch(self, pid: int) -> None:
        """Look after the container's first process itself: a client may wait on for one that was started again."""
        try:
            self._first_fd = host.pidfd(pid) if pid > 1 else -1
        except OSError:
            pid = 0
        if self._first_fd >= 0:
            self._poller.register(self._first_fd, select.POLLIN)
        elif pid < 2 and self.runtime.shared:
            self._client_due = clock.monotonic_s() + CLIENT_ENDS_S  # it was over before we looked

    def _first_ended(self) -> None:
        self._poller.unregister(self._first_fd)
        os.close(self._first_fd)
        self._first_fd = -1
        self._client_due = clock.monotonic_s() + CLIENT_ENDS_S

    def _close_master(self) -> None:
        if self._master >= 0:
            try:
                self._poller.unregister(self._master)
            except KeyError:
                pass
            os.close(self._master)
            self._master = -1

    def _status_known(self) -> int | None:
        state = self.runtime.state(self.folder, self.session_id)
        return None if state.running else state.exit_status

    # --- sizes

    def _control(self, data: bytes) -> None:
        """Act on the messages of attached clients: JSON objects, one a line; what is not understood is dropped."""
        *lines, self._control_rest = (self._control_rest + data)[-(1 << 16) :].split(b"\n")
        for line in lines:
            try:
                message = fastjson.loads(line)
                operation, pid = message["op"], int(message["pid"])
                if operation == "size":
                    self._note_size(pid, int(message["rows"]), int(message["columns"]))
                elif operation == "leave":
                    self._sizes.pop(pid, None)
                    self._choose_size()
                elif operation == "repaint":
                    self._repaint()
            except (ValueError, KeyError, TypeError):
                continue

    def _note_size(self, pid: int, rows: int, columns: int) -> None:
        if not (0 < rows <= LARGEST_SIDE and 0 < columns <= LARGEST_SIDE):
            return
        self._sizes.pop(pid, None)
        self._sizes[pid] = (rows, columns)  # the last in order is the one that counts
        self._choose_size()

    def _choose_size(self) -> None:
        for pid in [pid for pid in self._sizes if not host.is_there(pid)]:
            del self._sizes[pid]
        writer, size = next(reversed(self._sizes.items())) if self._sizes else (0, self._base_size)
        self._console.name_writer(writer)
        if self._sizes:
            self._base_size = size  # stays when the last one leaves: the program was drawn for it
        if size != self._size:
            self._size = size
            self._apply_size(size)
            self._console.resize(*size)

    def _repaint(self) -> None:
        """Make the program draw its screen anew: a column less for a moment, since some look only at the width."""
        rows, columns = self._size
        if columns > 1:
            self._apply_size((rows, columns - 1))
            self._repaint_at = clock.monotonic_s() + REPAINT_S

    def _apply_size(self, size: tuple[int, int]) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    # --- the end

    def _end_sandbox(self) -> None:
        """End whatever runs, for a launch that failed half-way."""
        if not self._child:
            return
        self.runtime.kill(self.folder, self.session_id, signal.SIGKILL)
        try:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def _finish(self) -> None:
        exit_status = self._exit_status if self._exit_status is not None else finish.FALLBACK_EXIT_STATUS
        if not self._ready and not self._engine and _local.had_reader(self.folder):
            self._became_ready()  # a short life, which was over before we looked
        self._end_trace(exit_status)
        if not self._shares_trace:  # what a local engine has started here looks after its containers
            self._end_orphans()
        status = ""
        if self._lost:
            self._reason, status = self._reason or "lost", "aborted"
        if not self._ready:
            # The agent never ran: an aborted launch, not an end of its own.
            self._reason = self._reason or "launch-failed"
            status = "aborted"
            self._say("failed " + self._last_words())
        else:
            self._say("ended")  # a start that still listens then waits for what follows
        try:
            scratch.write_exit(self.folder, exit_status, clock.utc_now())
        except OSError as error:
            _log(f"{self.folder}: {error}")  # gone, or no room: only a crash from here on would miss it
        if hasattr(self, "_console"):
            self._console.close()
        if not self._ready:
            self._discard_workspace()
        self._write_down(exit_status, status)

    def _write_down(self, exit_status: int, status: str) -> None:
        """Write the end, trying again while the log or the disk does not let us; what stays undone, reconcile does."""
        again = False
        for pause_s in (0.1, 1, 5, 20, 0):
            try:
                finish.write_down(
                    self.record_path, self.folder, self.spec, exit_status, status=status, reason=self._reason, again=again
                )
                return
            except (WorkcellError, OSError) as error:
                again = True
                _log(f"the end could not be written: {error}")
                time.sleep(pause_s)

    def _end_orphans(self) -> None:
        """End what was left to us as the subreaper, which only sandboxes without a pid namespace can do."""
        deadline = clock.monotonic_s() + 5
        while clock.monotonic_s() < deadline:
            for pid in _local.descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            time.sleep(0.005)

    def _last_words(self) -> str:
        if not hasattr(self, "_console"):
            return "the sandbox could not be prepared"
        from workcell.replay import presentable

        words = self.runtime.last_words(self.folder) if self._engine else ""
        if words:
            return str(words)
        reader = console.Reader(os.path.join(self.folder, scratch.CONSOLE), from_end=True)
        text = presentable(reader.before(2000)).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "the sandbox ended before the agent started"


def adopt(state_file: str) -> int:
    """Take over a session whose monitor died: wait for its sandbox to end and write the end down. Returns 0.

    Raises PreconditionError where the session has a monitor, BusyError where another process is just finishing it,
    CannotTellError where it is not known whether it ended.
    """
    from workcell.errors import CannotTellError, PreconditionError

    folder = os.path.dirname(os.path.abspath(state_file))
    spec = scratch.read_spec(folder)
    lock_fd = scratch.open_lock(folder)
    if lock_fd is None:
        raise PreconditionError(folder, "has no lock of a monitor", "see workcell-session-show")
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PreconditionError(spec["session_id"], "has a monitor already", "see workcell-session-list") from None
    runtime = runtimes.of_spec(spec)
    state = runtime.state(folder, spec["session_id"])
    while state.running:
        wait_for_end(state.pid, 5.0)
        state = runtime.state(folder, spec["session_id"])
    fcntl.flock(lock_fd, fcntl.LOCK_UN)
    outcome = finish.reconcile(layout.record_path(spec["profile_dir"], spec["session_id"]), "host-monitor")
    os.close(lock_fd)
    if outcome.word in ("alive", "unknown", "foreign"):
        raise CannotTellError(spec["session_id"], "its end could not be confirmed", "try again")
    return 0


def wait_for_end(pid: int, timeout_s: float) -> bool:
    """Wait until a process is gone (pidfd_open(2)), at most so long; say whether it is."""
    if pid < 2:
        time.sleep(min(timeout_s, 0.05))
        return False
    try:
        pidfd = host.pidfd(pid)
    except ProcessLookupError:
        return True
    if pidfd < 0:
        deadline = clock.monotonic_s() + timeout_s
        while host.start_mark(pid) is not None:
            if clock.monotonic_s() > deadline:
                return False
            time.sleep(0.02)
        return True
    try:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))
    finally:
        os.close(pidfd)
