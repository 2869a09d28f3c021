"""The start of a session: all checks first, then what has to be made, in an order that survives a crash at any point.

monitor -> its scratch folder with the lock and the intent -> clone -> record -> `launch` event -> go -> ready.
"""

import fcntl
import os

from workcell import (
    agents,
    audit,
    cli,
    clock,
    events,
    finish,
    homes,
    launch,
    layout,
    monitor,
    record,
    run,
    runtimes,
    safe_open,
    scratch,
    terminal,
    workspace,
)
from workcell.errors import PreconditionError, UnreadableError, UsageError, WorkcellError
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# An agent that cannot even begin ends within this time of being ready, and start can say so.
ENDS_AT_ONCE_S = 0.025
LEAST_TRANSCRIPT_BYTES = 1 << 16


class Plan:
    """A start that passed all checks; nothing was changed yet."""

    def __init__(self, runtime: "ModuleType", agent: agents.Agent, source: workspace.Source, git: workspace.Git) -> None:
        self.runtime, self.agent, self.source, self.git = runtime, agent, source, git
        self.spec: dict[str, Any] = {}
        self.passed: dict[str, str] = {}
        self.trust_env: dict[str, str] = {}
        self.program = agents.Program([], [], [])
        self.home_seed = b""
        self.warnings: list[str] = []
        self.reason = ""

    def launch(self, umask: int) -> runtimes.Launch:
        """Return what the runtime needs."""
        passed = self.trust_env | self.passed
        env = launch.base_environment(self.spec, passed, self.source.settings, self.program.path)
        program = self.program
        return runtimes.Launch(
            self.spec, self.spec["scratch_dir"], env, program.argv, program.prefixes, program.path, self.home_seed, umask
        )

    def command_line(self) -> str:
        """Return the command that would be run, quoted for a shell."""
        self.spec["scratch_dir"] = os.path.join(self.spec["profile_dir"], scratch.PREFIX + "XXXXXX")
        import shlex

        return shlex.join(self.runtime.plan(self.launch(0o077))[0])


def prepare(options: "Any", git: workspace.Git) -> Plan:
    """Check everything that the options name; raise UsageError or PreconditionError, with nothing changed.

    git: as ahead.begin gave it, for the workspace that they name.
    """
    try:
        return _prepare(options, git)
    finally:
        run.forget_ahead()


def _prepare(options: "Any", git: workspace.Git) -> Plan:
    from workcell.runtimes import bubblewrap

    if not options.agent:
        raise UsageError("option --agent", "is required", "see --help")
    agent = agents.find(options.agent)
    if not agent.command and not options.rest:
        raise UsageError("agent command", "no program was given", "add -- PROGRAM [ARG...]")
    if any(
        "\n" in word or "\r" in word
        for word in (options.profile, options.debug_log, options.transcript, options.file_trace_log)
    ):
        raise UsageError("option value", "must not contain a newline or a carriage return", "see --help")
    isolated = options.session_workspace == "isolated"
    path = workspace.check_folder(options.workspace)
    for name in (path, layout.state_root(), options.debug_log, options.transcript, options.file_trace_log):
        if not name.isprintable() and any("\udc80" <= c <= "\udcff" for c in name):
            raise PreconditionError(repr(name), "is no UTF-8, and no record could name it", "rename it")
    profile = layout.check_profile(options.profile) if options.profile else layout.derived_profile(path)
    launch.look_ahead(options, profile)
    source = workspace.inspect(git, path)
    if isolated:
        workspace.check_isolated(source)
    else:
        workspace.check_direct(source, options.allow_nongit_workspace)
    debug_log = check_log_path(options.debug_log) if options.debug_log else ""
    transcript_log = check_log_path(options.transcript) if options.transcript else ""
    if transcript_log and options.no_transcript:
        raise UsageError("options --transcript and --no-transcript", "exclude each other", "give one of them")
    file_trace_log = check_log_path(options.file_trace_log) if options.file_trace_log else ""
    named = [path for path in (debug_log, transcript_log, file_trace_log) if path]
    if len(set(named)) < len(named):
        raise UsageError(max(named, key=named.count), "is named for two logs", "name two files")
    transcript_limit = cli.size("--transcript-limit", options.transcript_limit, LEAST_TRANSCRIPT_BYTES)
    runtime, why, container, network = launch.choose_target(options, profile)
    plan = Plan(runtime, agent, source, git)
    launch.check_state_for(runtime, options.share_state, plan.warnings)
    target, confined = runtime.TARGET.name, runtime.TARGET.kind != "local_process"
    trusts = confined and options.agent_autonomy == "yolo"
    argv = [*agent.command, *agent.autonomy[options.agent_autonomy], *(agent.trust if trusts else []), *(options.rest or [])]
    if why:
        plan.warnings.append(f"target {target}: chosen by auto: {why}")
        plan.reason = f"target auto: {why}"
    plan.trust_env = agent.trust_env if trusts else {}
    plan.passed = launch.environment(options.env, agent, plan.warnings)
    if confined:
        if not isolated:
            bubblewrap.check_direct(path, options.mode)
        # What an image holds, only the image knows.
        plan.program = agents.Program(argv, [], []) if container else agents.locate(argv, path, bubblewrap.WORKSPACE)
        plan.home_seed = launch.home_seed(agent.home)
        if network == "host" and not runtime.shuts_abstract_sockets("host"):
            plan.warnings.append("network host: the agent can reach loopback and abstract sockets of this host")
            plan.reason = "; ".join(filter(None, [plan.reason, "abstract sockets of the host are reachable"]))
    else:
        plan.program = agents.locate(argv, path, path)
        plan.warnings.append("target process: the agent runs without any confinement, as you")
    if options.home == "persistent" and not confined:
        raise UsageError("--home persistent", f"is not for target {target}", "the agent has your own home there")
    plan.spec = launch.new_spec(
        runtime=runtime,
        profile=profile,
        agent=agent,
        autonomy=options.agent_autonomy,
        mode=options.mode,
        source=source,
        isolated=isolated,
        argv=argv,
        env_names=list(plan.passed),
        network=network,
        seccomp=options.seccomp == "on",
        transcript=not options.no_transcript,
        transcript_log=transcript_log,
        transcript_limit=transcript_limit,
        debug_log=debug_log,
        file_trace_log=file_trace_log,
        persistent_home=options.home == "persistent",
        container=container,
    )
    if "home_path" in plan.spec:
        homes.require_free(plan.spec["home_path"])
    if confined and not isolated:
        _check_access(plan)
    return plan


def _check_access(plan: Plan) -> None:
    """Warn where the agent could not write the workspace itself, and refuse where it could not even read it.

    Only root's sandboxes run as somebody else, and only when root owns the workspace as somebody who owns nothing.
    """
    uid, gid = plan.spec["uid"], plan.spec["gid"]
    if uid == os.geteuid():
        return
    found = os.stat(plan.source.path)
    allowed = found.st_mode >> (6 if found.st_uid == uid else 3 if found.st_gid == gid else 0)
    why = f"belongs to uid {found.st_uid}, and the agent runs as uid {uid}"
    next_step = "give it to an ordinary user with chown, or leave out --session-workspace direct"
    if allowed & 5 != 5:
        raise PreconditionError(plan.source.path, f"{why}, which cannot read it", next_step)
    if not allowed & 2:
        plan.warnings.append(f"{plan.source.path}: {why}, which cannot write it; {next_step}")


def check_log_path(path: str) -> str:
    """Return the absolute path of a log that may be appended to: no link on the way, a plain file of ours or nothing there."""
    try:
        full = safe_open.check_output(path)
    except UnreadableError as error:
        raise PreconditionError(error.what, error.why, error.next_step or "name another file") from None
    if not os.path.isdir(os.path.dirname(full)):
        raise PreconditionError(path, "its folder does not exist", "make it first")
    if os.path.lexists(full):
        found = os.lstat(full)
        if found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise PreconditionError(path, "is not a plain file of yours", "name another file")
    return full


def carry_out(plan: Plan) -> list[tuple[str, str]]:
    """Start the session and return the lines of the summary; raise WorkcellError when it did not come about."""
    spec = plan.spec
    umask = os.umask(0o077)
    os.umask(umask)
    stderr_fd = _open_debug_log(spec.get("debug_log_path", ""))
    try:
        channel = monitor.fork(lambda: _make_scratch(plan, umask), terminal.size_or_default(), stderr_fd)
    except WorkcellError:
        _remove_scratch_of(spec)
        raise
    if stderr_fd >= 0:
        os.close(stderr_fd)
    spec["scratch_dir"] = channel.folder
    lock_fd = scratch.open_lock(channel.folder)
    told = False
    folder_fd = scratch.open_folder(channel.folder)
    try:
        fcntl.flock(folder_fd, fcntl.LOCK_SH)  # reconcile takes what no record names, but not from under us or our git
        plan.git.pass_fds = [folder_fd]
        _make_workspace(plan, channel)
        if lock_fd is not None and not scratch.lock_is_held(lock_fd):
            raise WorkcellError(spec["session_id"], "the session could not be started: its monitor ended", "try again")
        _write_down(plan, channel.pid)
        os.close(folder_fd)
        told = True
        channel.go()
        _await_ready(plan, channel)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it runs: from here on the caller has to learn its id
        # What has to come by way of an engine does not come that soon.
        ended = channel.read_line(0 if runtimes.is_engine(plan.runtime) else ENDS_AT_ONCE_S) == "ended"
    except BaseException:
        # The monitor cleans up, also after a Ctrl-C; when its lock is free, nothing is left.
        if told and lock_fd is not None and scratch.lock_is_held(lock_fd):
            os.kill(channel.pid, signal.SIGTERM)
        channel.close()
        if lock_fd is not None:
            fcntl.flock(lock_fd, fcntl.LOCK_SH)
            fcntl.flock(lock_fd, fcntl.LOCK_UN)
        _clean_up_after_monitor(spec)
        raise
    channel.close()
    fields = record.read(spec["record_path"])
    if lock_fd is not None:
        if ended or record.is_terminal(fields):
            fcntl.flock(lock_fd, fcntl.LOCK_SH)
            fields = record.read(spec["record_path"])
        os.close(lock_fd)
    return _summary(fields)


def _remove_scratch_of(spec: "dict[str, Any]") -> None:
    """Remove the scratch folder of a monitor that was killed before it could tell where it is."""
    try:
        names = os.listdir(spec["profile_dir"])
    except OSError:
        return
    for name in names:
        folder = os.path.join(spec["profile_dir"], name)
        try:
            if name.startswith(scratch.PREFIX) and scratch.read_spec(folder)["session_id"] == spec["session_id"]:
                scratch.remove(folder)
        except WorkcellError:
            continue


def _clean_up_after_monitor(spec: "dict[str, Any]") -> None:
    """Do what a monitor that was killed could not: end the session that was begun, or remove what there is of it."""
    if not scratch.is_ours(spec["scratch_dir"]):
        return
    try:
        if os.path.lexists(spec["record_path"]):
            runtime, give_up_at = runtimes.of_spec(spec), clock.monotonic_s() + 10
            while finish.reconcile(spec["record_path"], "host-start").word == "alive" and clock.monotonic_s() < give_up_at:
                runtime.kill(spec["scratch_dir"], spec["session_id"], signal.SIGKILL)
                monitor.wait_for_end(runtime.state(spec["scratch_dir"], spec["session_id"]).pid, 0.1)
            return
        finish.remove_unborn(spec, spec["scratch_dir"])
    except (WorkcellError, OSError) as error:
        cli.complain(f"{spec['session_id']}: not cleaned up: {error}")


def _make_scratch(plan: Plan, umask: int) -> "tuple[runtimes.Launch, int]":
    """Make the scratch folder with the intent in it; return what the runtime needs and the descriptor that holds the lock."""
    home = plan.spec.get("home_path")
    if home is None:
        return _make_own_scratch(plan, umask)
    with homes.turn(home):
        homes.require_free(home)
        return _make_own_scratch(plan, umask)


def _make_own_scratch(plan: Plan, umask: int) -> "tuple[runtimes.Launch, int]":
    folder = scratch.make(plan.spec["profile_dir"])
    plan.spec["scratch_dir"] = folder
    try:
        lock_fd = scratch.create_lock(folder)
        scratch.write_spec(folder, plan.spec)
        return plan.launch(umask), lock_fd
    except BaseException:
        scratch.remove(folder)
        raise


def _open_debug_log(path: str) -> int:
    if not path:
        return -1
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _make_workspace(plan: Plan, channel: monitor.Channel) -> None:
    """Make the clone, or the copy of the base; an engine makes the container meanwhile."""
    spec = plan.spec
    if spec.get("clone_path"):
        workspace.make_clone_folder(spec["clone_path"])
    elif events.confined(spec):
        from workcell.runtimes import bubblewrap

        bubblewrap.make_missing(spec["workspace"], spec["mode"] != "breakglass")
    if "home_path" in spec:
        homes.give(spec["home_path"], spec["uid"], spec["gid"])
    if runtimes.is_engine(plan.runtime):
        channel.prepare()
    if spec.get("clone_path"):
        # git holds our end of the channel too: where we are killed, the monitor waits for git before it removes the clone.
        plan.git.pass_fds.append(channel.writing)
        workspace.clone(plan.git, plan.source, spec["clone_path"], spec["session_id"], spec["uid"], spec["gid"])
    elif spec["git_base"]:
        from workcell import baseline

        baseline.keep(plan.git, plan.source, spec["profile_dir"], spec["session_id"])


def _write_down(plan: Plan, monitor_pid: int) -> None:
    """Make the record and the `launch` event."""
    spec = plan.spec
    fields = record.create(spec["record_path"], launch.first_record(spec, plan.agent, plan.source, monitor_pid))
    pairs = events.launch(spec, fields)
    if plan.reason:
        pairs.append(("reason", plan.reason))
    log = layout.audit_log_path(spec["record_path"])
    audit.append_event(log, "launch", spec["session_id"], pairs)
    if os.path.getsize(log) > audit.LARGE_LOG_BYTES:
        plan.warnings.append(f"{log}: has more than 56 MiB; other readers of this format stop at 64")


def _await_ready(plan: Plan, channel: monitor.Channel) -> None:
    line = channel.read_line(monitor.READY_TIMEOUT_S + 10)
    if line == "ready":
        return
    if line is None:
        why = "the sandbox gave no sign of life"
    elif line.startswith("failed"):
        why = line[7:] or "the sandbox could not be started"
    else:
        why = "its monitor ended"
    raise WorkcellError(
        plan.spec["session_id"], f"the session could not be started: {why}", "workcell-session-show has its record"
    )


def _summary(fields: "dict[str, Any]") -> list[tuple[str, str]]:
    def shown(name: str) -> str:
        return str(fields[name]) or "none"

    block = [(key, value or ("none" if key == "git_branch" else "")) for key, value in launch.summary(fields)]
    return [
        ("session_id", fields["session_id"]),
        ("status", fields["status"]),
        ("live_status", record.live_value(fields)),
        ("control_mode", "detached"),
        ("workspace", fields["workspace"]),
        ("workspace_origin", fields["workspace_origin"]),
        ("workspace_root", fields["workspace_root"]),
        ("worktree_path", fields["worktree_path"]),
        *block,
        ("monitor_pid", fields["monitor_pid"]),
        ("audit_log_path", fields["audit_log_path"]),
        ("debug_log_path", shown("debug_log_path")),
        ("file_trace_log_path", shown("file_trace_log_path")),
        ("transcript_log_path", shown("transcript_log_path")),
    ]
