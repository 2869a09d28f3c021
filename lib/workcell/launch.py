"""What start puts together before anything runs: the target, the workspace, the environment, the launch spec, the record.

Everything here either checks, or makes something that the monitor removes again when the start does not come about.
"""

import io
import os
import stat

from workcell import agents, clock, events, homes, host, ids, layout, record, runtimes, scratch, workspace
from workcell.errors import PreconditionError, UsageError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOME_SEED_LIMIT_BYTES = 16 << 20
_ENV_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
# What the toolkit itself sets or relies on inside, and what would load code into the programs that build the sandbox.
_RESERVED = frozenset(("HOME", "TMPDIR", "WORKSPACE", "BASH_ENV", "ENV", "IFS"))
_RESERVED_PREFIXES = ("WORKCELL_", "LD_", "GIT_CONFIG_")
_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_TIME", "LC_NUMERIC", "TZ", "COLORTERM")


def look_ahead(options: "Any", profile: str) -> None:
    """Begin asking what `choose_target` will want to know, so that it runs beside the checks before that."""
    if options.target in ("auto", "bubblewrap"):
        runtimes.by_name("bubblewrap").look_ahead()
    elif options.target in runtimes.names() and runtimes.is_engine(runtimes.by_name(options.target)):
        try:
            runtimes.by_name(options.target).look_ahead(options, profile)
        except WorkcellError:
            pass  # choose_target will say it


def choose_target(options: "Any", profile: str) -> "tuple[Any, str, dict[str, Any], str]":
    """Return (runtime, why it was chosen, "" when named; what the launch spec says of its container, {} for none; the network).

    Raises PreconditionError with the host's own words where it cannot run here.
    """
    name = options.target
    if name != "auto":
        if name not in runtimes.names():
            raise UsageError(f"--target {name!r}", "is not known", f"known are auto, {', '.join(runtimes.names())}")
        runtime = runtimes.by_name(name)
        why_not = "" if runtimes.is_engine(runtime) else runtime.probe()  # an engine is asked for its image anyway
        if why_not:
            raise PreconditionError(f"target {name}", f"cannot run here: {why_not}", _instead())
        return runtime, "", *container_options(runtime, options, profile)
    reasons: list[str] = []
    for candidate in runtimes.AUTO:
        runtime = runtimes.by_name(candidate)
        why_not = runtime.probe()
        if not why_not and not runtimes.is_engine(runtime):
            return runtime, "; ".join([*reasons, "its probe passes"]), *container_options(runtime, options, profile)
        if not why_not:
            try:
                return runtime, "; ".join([*reasons, "it has the image"]), *container_options(runtime, options, profile)
            except PreconditionError as error:
                why_not = f"{error.what} {error.why}; {error.next_step}"
        reasons.append(f"{candidate}: {why_not}")
    raise PreconditionError("target auto", f"no sandbox can be had here: {'; '.join(reasons)}", _instead())


def _instead() -> str:
    """Return the next step where no sandbox can be had: in a container its own engine can allow one."""
    unconfined = (
        "--target process runs the agent without any confinement, as you: only for a place that is the boundary already, "
        "such as a CI job or a development container"
    )
    # podman and systemd-nspawn set the one, docker makes the other.
    if not (os.environ.get("container") or os.path.exists("/.dockerenv")):  # noqa: SIM112
        return unconfined
    return (
        "this is a container: start it with --privileged, or as an ordinary user with --security-opt seccomp=unconfined "
        f"--security-opt unmask=ALL (for docker systempaths=unconfined); {unconfined}"
    )


_OF_CONTAINERS = ("image", "pull", "container_mutability", "container_cpu", "container_memory", "docker_context")


def container_options(runtime: "Any", options: "Any", profile: str) -> "tuple[dict[str, Any], str]":
    """Return (what the launch spec says of the container, {} where there is none; the network); raise for what does not fit."""
    if runtimes.is_engine(runtime):
        # The engine's own network is the default of its containers: the host's loopback is out of reach there.
        return runtime.choose(options, profile), options.network or "bridge"
    for name in _OF_CONTAINERS:
        if getattr(options, name):
            option = "--" + name.replace("_", "-")
            raise UsageError(f"option {option}", f"is not for target {runtime.TARGET.name}", "name a container engine's target")
    if options.network == "bridge":
        raise UsageError("--network 'bridge'", f"is not for target {runtime.TARGET.name}", "give host or none")
    confined = runtime.TARGET.kind != "local_process"
    return {}, (options.network or "host") if confined else "host"


def check_state_for(runtime: "Any", share_state: bool, warnings: list[str]) -> None:
    """Raise PreconditionError where an unconfined agent would sit beside the evidence of confined ones; warn of the reverse."""
    try:
        kinds = os.listdir(layout.target_root())
    except OSError:
        return
    if runtime.TARGET.kind != "local_process":
        if "local_process" in kinds:
            warnings.append(f"{layout.state_root()}: has had unconfined sessions, whose agents could read its signing key")
        return
    if not share_state and set(kinds) - {"local_process"}:
        raise PreconditionError(
            layout.state_root(),
            "holds sessions of a confining target, and an unconfined agent could read the signing key and rewrite their log",
            "give WORKCELL_STATE_ROOT another folder, or --share-state if that is meant",
        )


def environment(given: list[str], agent: agents.Agent, warnings: list[str]) -> dict[str, str]:
    """Return the variables that the operator passes on, with values; raise for a name without one.

    given: NAME (the caller's value) or NAME=VALUE (which stood in the process list, and is warned of).
    """
    passed = {name: os.environ[name] for name in agent.env if name in os.environ}
    for word in given:
        name, joined, value = word.partition("=")
        if not name or not _ENV_NAME.issuperset(name) or name[0].isdigit():
            raise UsageError(f"--env {name!r}", "is no name of a variable", "use letters, digits and '_'")
        if name in _RESERVED or name.startswith(_RESERVED_PREFIXES):
            raise UsageError(f"--env {name}", "is set by the sandbox itself", "leave it out")
        if joined:
            warnings.append(
                f"--env {name}=...: its value is visible in process listings; --env {name} takes it from your environment"
            )
        elif name not in os.environ:
            raise PreconditionError(f"--env {name}", "is not set in your environment", f"set it, or give --env {name}=VALUE")
        passed[name] = value if joined else os.environ[name]
    return passed


def base_environment(
    spec: "dict[str, Any]", passed: dict[str, str], settings: dict[str, str], path: list[str]
) -> dict[str, str]:
    """Return the whole environment of the agent: clean, but for what is named here and what the operator passes."""
    from workcell.runtimes import _inside, bubblewrap

    confined, has_image = events.confined(spec), bool(spec.get("image_ref"))
    inside = bubblewrap.WORKSPACE if confined else spec["workspace"]
    system_path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    env = {
        "PATH": ":".join([*path, system_path]) if confined else os.environ.get("PATH", system_path),
        "HOME": bubblewrap.HOME if confined else layout.home_dir(),
        "TMPDIR": bubblewrap.TEMPORARY if confined else os.environ.get("TMPDIR", "/tmp"),
        "SHELL": "/bin/bash",
        "TERM": os.environ.get("TERM", "") if os.environ.get("TERM") not in (None, "", "dumb", "unknown") else "xterm-256color",
        "AGENT_NAME": spec["agent"],
        "AGENT_UI": "cli",
        "WORKCELL_MODE": spec["mode"],
        "WORKCELL_SESSION_ID": spec["session_id"],
        "WORKSPACE": inside,
        "WORKCELL_DETACHED_STDIN_PATH": (
            bubblewrap.INPUT if confined else os.path.join(spec["scratch_dir"], scratch.AGENT_INPUT)
        ),
        "WORKCELL_SESSION_ASSURANCE_INITIAL": events.labels(spec, False)["initial_assurance"],
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": inside,
    }
    if confined:
        env |= {"USER": "agent", "LOGNAME": "agent"}
    else:
        env |= {name: os.environ[name] for name in ("USER", "LOGNAME") if name in os.environ}
    if has_image:
        del env["PATH"]  # the image's own, and its own programs and locales
        if spec["container_mutability"] == "ephemeral":
            env["WORKCELL_PERSISTED_ASSURANCE_FILE"] = "/var/" + _inside.WORD
        env["SHELL"] = "/bin/sh"
    env |= {name: os.environ[name] for name in (("TZ", "COLORTERM") if has_image else _LOCALE) if name in os.environ}
    if not any(name in env for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        env["LANG"] = "C.UTF-8"
    for role in ("AUTHOR", "COMMITTER"):
        env[f"GIT_{role}_NAME"] = os.environ.get(f"GIT_{role}_NAME") or settings.get("user.name") or "workcell agent"
        env[f"GIT_{role}_EMAIL"] = os.environ.get(f"GIT_{role}_EMAIL") or settings.get("user.email") or "agent@localhost"
    return env | passed


def home_seed(entries: list[str]) -> bytes:
    """Return a tar archive of entries of the operator's home, b"" where there is none of them.

    Regular files and folders only, no link is followed; raises PreconditionError where they are too large to be meant.
    """
    home = layout.home_dir()
    present = [entry for entry in entries if os.path.lexists(os.path.join(home, entry))]
    if not present:
        return b""
    import tarfile

    buffer = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in present:
            for path in _walk(os.path.join(home, entry)):
                content = _content(path)
                info = tarfile.TarInfo(os.path.relpath(path, home))
                if content is None:
                    info.type, info.mode = tarfile.DIRTYPE, 0o700
                    archive.addfile(info)
                    continue
                total += len(content)
                if total > HOME_SEED_LIMIT_BYTES:
                    raise PreconditionError(f"~/{entry}", "is too large to be copied into the sandbox", "name fewer files")
                info.size, info.mode = len(content), 0o600
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _walk(path: str) -> list[str]:
    mode = os.lstat(path).st_mode
    if stat.S_ISREG(mode):
        return [path]
    if not stat.S_ISDIR(mode):
        return []
    return [path, *(below for name in sorted(os.listdir(path)) for below in _walk(os.path.join(path, name)))]


def _content(path: str) -> bytes | None:
    """Return the content of a regular file, None for a folder."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(fd, HOME_SEED_LIMIT_BYTES + 1, 0) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def container_name(agent: str, mode: str, folder: str) -> str:
    """Return a name for the sandbox: `workcell-<agent>-<mode>-<folder>-<8 hex digits>`."""
    return f"workcell-{layout.slug(f'{agent}-{mode}-{folder}')}-{os.urandom(4).hex()}"


def first_record(spec: "dict[str, Any]", agent: agents.Agent, source: workspace.Source, monitor_pid: int) -> "dict[str, Any]":
    """Return the record of a session that is about to start."""
    isolated = spec["workspace_mode"] == "isolated"
    own_place = layout.transcript_path(spec["profile_dir"], spec["session_id"])
    transcript = spec.get("transcript_log_path", own_place) if spec["transcript"] else ""
    return {
        "session_id": spec["session_id"],
        "profile": spec["profile"],
        "target_kind": spec["target_kind"],
        "target_provider": spec["target_provider"],
        "target_id": spec["target_id"],
        "target_assurance_class": runtimes.of_spec(spec).TARGET.assurance_class,
        "runtime_api": runtimes.of_spec(spec).TARGET.runtime_api,
        "workspace_transport": "isolated-worktree-mount" if isolated else "workspace-mount",
        "agent": spec["agent"],
        "mode": spec["mode"],
        "status": "starting",
        "ui": "cli",
        "workspace": spec["workspace"],
        "workspace_origin": spec["workspace_origin"],
        "workspace_root": spec["workspace_origin"],
        "worktree_path": spec["workspace"],
        "git_branch": spec["git_branch"],
        "git_head": source.head,
        "git_base": spec["git_base"],
        "container_name": spec["container_name"],
        "monitor_pid": str(monitor_pid),
        "live_status": "starting",
        "session_audit_dir": spec["scratch_dir"],
        "audit_log_path": os.path.join(spec["profile_dir"], "workcell.audit.log"),
        "debug_log_path": spec.get("debug_log_path", ""),
        "file_trace_log_path": spec.get("file_trace_log_path", ""),
        "transcript_log_path": transcript,
        "image_ref": spec.get("image_ref", ""),
        "started_at": spec["started_at"],
        "observed_at": clock.utc_now(),
        **events.labels(spec, agent.debug),
    }


def new_spec(
    *,
    runtime: "Any",
    profile: str,
    agent: agents.Agent,
    autonomy: str,
    mode: str,
    source: workspace.Source,
    isolated: bool,
    argv: list[str],
    env_names: list[str],
    network: str,
    seccomp: bool,
    transcript: bool,
    transcript_log: str,
    transcript_limit: int | None,
    debug_log: str,
    file_trace_log: str,
    persistent_home: bool,
    container: "dict[str, Any]",
) -> "dict[str, Any]":
    """Return a launch spec without its scratch folder; raise PreconditionError where its paths are taken."""
    from workcell.runtimes import bubblewrap

    session_id = ids.new_session_id()
    target = runtime.TARGET
    profile_dir = layout.profile_dir(target.kind, target.provider, profile)
    path = workspace.clone_path(source, session_id) if isolated else source.path
    confined = target.kind != "local_process"
    uid, gid = bubblewrap.sandbox_user(source.path) if confined else (os.geteuid(), os.getegid())
    spec = {
        "version": 1,
        "session_id": session_id,
        "boot_id": host.boot_id(),
        "profile": profile,
        "target_kind": target.kind,
        "target_provider": target.provider,
        "target_id": runtime.target_id(profile) if container else profile,
        "profile_dir": profile_dir,
        "record_path": layout.record_path(profile_dir, session_id),
        "scratch_dir": "",
        "workspace": path,
        "workspace_origin": source.path,
        "workspace_mode": "isolated" if isolated else "direct",
        "git_branch": workspace.BRANCH_PREFIX + session_id if isolated else source.branch,
        "git_base": "" if source.dirty else source.head,
        "agent": agent.name,
        "agent_autonomy": autonomy,
        "mode": mode,
        "argv": argv,
        "env_names": sorted(env_names),
        "network": network,
        "uid": uid,
        "gid": gid,
        "seccomp": seccomp,
        "transcript": transcript,
        "container_name": container_name(agent.name, mode, os.path.basename(path)),
        "stop_signal": agent.stop_signal,
        "started_at": clock.utc_now(),
        **container,
    }
    if isolated:
        spec["clone_path"] = path
    if persistent_home:
        spec["home_path"] = homes.path_of(profile_dir, agent.name)
    if file_trace_log:
        spec["file_trace_log_path"] = file_trace_log
    if transcript_log:
        spec["transcript_log_path"] = transcript_log
    if transcript_limit:
        spec["transcript_limit_bytes"] = transcript_limit
    if debug_log:
        spec["debug_log_path"] = debug_log
    return spec


def summary(fields: "dict[str, Any]") -> list[tuple[str, str]]:
    """Return the control summary block that start, send and stop print."""
    branch = fields["git_branch"]
    return [
        ("target_kind", fields["target_kind"]),
        ("target_provider", fields["target_provider"]),
        ("target_id", fields["target_id"]),
        ("target_summary", record.target_summary(fields)),
        ("target_assurance_class", fields["target_assurance_class"]),
        ("runtime_api", fields["runtime_api"]),
        ("workspace_transport", fields["workspace_transport"]),
        ("workspace", fields["workspace"]),
        ("display_workspace", record.display_workspace(fields)),
        ("workspace_origin", fields["workspace_origin"]),
        ("display_worktree", record.display_worktree(fields)),
        ("worktree_path", fields["worktree_path"]),
        ("display_git_branch", record.display_git_branch(fields)),
        ("git_branch", branch),
        ("assurance", fields["current_assurance"]),
    ]
