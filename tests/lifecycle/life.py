"""What the tests of a session's life share: agents that behave in known ways, their evidence, what must not be left."""

import json
import os
import re
import signal
import stat

from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from support import ROOT, processes_with, wait_until
from workcell import audit, record, seal

# The system's own interpreter starts twice as fast as one that a version manager stands before.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"

SLEEPER = ("sh", "-c", "echo is up; exec sleep 1000")
IGNORES_TERM = ("sh", "-c", "trap '' TERM; echo is up; while :; do sleep 1000; done")
IGNORES_TERM_AND_HUP = ("sh", "-c", "trap '' TERM HUP; echo is up; while :; do sleep 1000; done")

# Puts its terminal into raw mode, asks for bracketed paste where its argument says so, and prints what it reads as hex.
HEX_READER = (
    PYTHON,
    "-c",
    "import os, sys, tty\n"
    "tty.setraw(0)\n"
    "os.write(1, b'\\x1b[?2004h' if sys.argv[1] == 'paste' else b'')\n"
    "os.write(1, b'is up\\r\\n')\n"
    "while True:\n"
    "    os.write(1, os.read(0, 65536).hex().encode() + b'\\r\\n')\n",
)

SUMMARY_BLOCK = """
    target_kind target_provider target_id target_summary target_assurance_class runtime_api workspace_transport workspace
    display_workspace workspace_origin display_worktree worktree_path display_git_branch git_branch assurance
"""
START_KEYS = f"""
    session_id status live_status control_mode workspace workspace_origin workspace_root worktree_path {SUMMARY_BLOCK}
    monitor_pid audit_log_path debug_log_path file_trace_log_path transcript_log_path
""".split()
SEND_KEYS = f"session_id sent_bytes status live_status control_mode {SUMMARY_BLOCK}".split()
STOP_KEYS = f"session_id stop_requested status live_status control_mode {SUMMARY_BLOCK}".split()


def give_to_agent(path):
    """Give a workspace to an ordinary user where root runs the tests: root's own files are nothing an agent could write."""
    if os.geteuid() == 0:
        for folder, _, names in os.walk(path):
            for entry in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(entry, 61001, 61001, follow_symlinks=False)


def keys(text):
    """Return the keys of key=value lines in their order, those that come twice twice."""
    return [line.partition("=")[0] for line in text.splitlines()]


def fits(kind, text):
    """Return the value of a JSON text after a check against schema/KIND.json by the package jsonschema."""
    schemas = {}
    for name in os.listdir(os.path.join(ROOT, "schema")):
        if name.endswith(".json"):
            with open(os.path.join(ROOT, "schema", name), encoding="utf-8") as stream:
                schemas[name] = json.load(stream)
    registry = Registry().with_resources((name, DRAFT7.create_resource(schema)) for name, schema in schemas.items())
    value = json.loads(text)
    errors = [error.message for error in Draft7Validator(schemas[f"{kind}.json"], registry=registry).iter_errors(value)]
    assert not errors, errors
    return value


def log_lines(path):
    """Return the lines of an audit log, each as a dict."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return [
            {key.decode(): value.decode("utf-8", "surrogateescape") for key, value in audit.decode(line)}
            for _, line, _ in audit.lines(fd, os.fstat(fd).st_size, path)
        ]
    finally:
        os.close(fd)


def record_of(world, session_id):
    """Return the record of a session as it is stored: no command runs."""
    for folder in world.profile_dirs():
        path = os.path.join(folder, "sessions", session_id + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                return json.load(stream)
    raise AssertionError(f"no record of {session_id}")


def console(folder):
    """Return what a live session has printed so far, of its scratch folder."""
    text, folder = b"", os.path.join(folder, "console")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(".out"):
            with open(os.path.join(folder, name), "rb") as stream:
                text += stream.read()
    return text.decode("utf-8", "replace")


def wait_for_output(world, session_id, text="is up", timeout_s=20.0):
    """Wait until a session has printed a text."""
    folder = record_of(world, session_id)["session_audit_dir"]
    wait_until(lambda: text in console(folder), timeout_s, f"output {text!r}")


def transcript(world, session_id):
    """Return the text of a finished session's recording."""
    with open(record_of(world, session_id)["transcript_log_path"], encoding="utf-8") as stream:
        recorded = [json.loads(line) for line in stream]
    return "".join(event[2] for event in recorded[1:] if event[1] == "o")


def events(world, session_id, name=""):
    """Return the audit events of a session, or only those of one name."""
    lines = log_lines(record_of(world, session_id)["audit_log_path"])
    return [line for line in lines if line["session_id"] == session_id and name in ("", line["event"])]


def event_names(world, session_id):
    """Return the names of the audit events of a session, oldest first."""
    return [event["event"] for event in events(world, session_id)]


def assert_one_chain(path):
    """Check that an audit log is one line of succession: each record names the digest of the one before."""
    previous = None
    for line in log_lines(path):
        assert line.get("prev_digest") == previous
        previous = line["record_digest"]


def verdict(world, session_id):
    """Return the verdict on a session's evidence, as workcell-session-verify has it, with its reason where it is a bad one."""
    if world.user:  # what is somebody else's is not to be trusted here
        return world.session("verify", "--id", session_id).values.get("session_verify", "none")
    [path] = [path for path in record_paths(world) if path.endswith(f"/{session_id}.json")]
    found = seal.verify_session(path, record.read(path), signing_dir=os.path.join(world.state, "signing"))
    return found.verdict if found.verdict == "verified" else f"{found.verdict}: {found.why}"


def seal_bytes(world, session_id):
    """Return the bytes of a session's seal."""
    for folder in world.profile_dirs():
        path = os.path.join(folder, "sessions", session_id + ".audit-sig")
        if os.path.exists(path):
            with open(path, "rb") as stream:
                return stream.read()
    return b""


def record_paths(world):
    """Return the files of all records that there are."""
    folders = [os.path.join(folder, "sessions") for folder in world.profile_dirs()]
    return [os.path.join(folder, name) for folder in folders for name in os.listdir(folder) if name.endswith(".json")]


def record_names(world):
    """Return the ids of all records that there are."""
    return [os.path.basename(path).removesuffix(".json") for path in record_paths(world)]


def agents_left(world):
    """Return the processes of all sandboxes of a world: inside nothing but the session's own mark can be seen from here."""
    ids = record_names(world)
    return [(pid, words) for pid, words in processes_with("WORKCELL_SESSION_ID=") if session_of(pid) in ids]


def session_of(pid):
    """Return the session that a process belongs to, "" for none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            entries = stream.read().split(b"\0")
    except OSError:
        return ""
    return next((e.partition(b"=")[2].decode() for e in entries if e.startswith(b"WORKCELL_SESSION_ID=")), "")


def scratch_folders(world):
    """Return the scratch folders that there are, also those of a profile without any record."""
    found = []
    for folder, folders, _ in os.walk(world.state):
        found += [os.path.join(folder, name) for name in folders if name.startswith("session-audit.")]
    return found


def strays(world):
    """Return what a session that is over must not leave: scratch folders, FIFOs, half-written files, processes."""
    found = [*scratch_folders(world), *(f"{pid} {words}" for pid, words in [*world.left_over(), *agents_left(world)])]
    for folder, _, names in os.walk(world.state):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".tmp") or ".torn" in name or os.path.exists(path) and not os.path.isfile(path):
                found.append(path)
    return found


def assert_nothing_left(world):
    """Check that there is nothing of `strays`; processes that were just killed get a moment."""

    def calm():
        return not world.left_over() and not agents_left(world)

    # Twice: one that is being forked during the first look is seen by the second.
    wait_until(lambda: calm() and calm(), 10, "the end of all processes")
    found = strays(world)
    assert not found, found


def tree(path):
    """Return every file and folder below a path with its kind, mode and content: what `unchanged` means byte for byte."""
    found = {}
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            content = b""
            if stat.S_ISREG(mode):
                with open(full, "rb") as stream:
                    content = stream.read()
            elif stat.S_ISLNK(mode):
                content = os.fsencode(os.readlink(full))
            found[os.path.relpath(full, path)] = (mode, content)
    return found


def monitor_pid(world, session_id):
    """Return the pid of a session's monitor."""
    return int(record_of(world, session_id)["monitor_pid"])


def session_pids(world, session_id):
    """Return the processes of the sandbox of a session, by its mark in their environment."""
    mark = f"WORKCELL_SESSION_ID={session_id}"
    return [pid for pid, _ in processes_with(mark)]


def kill_monitor(world, session_id):
    """Kill a session's monitor and wait until it is gone."""
    pid = monitor_pid(world, session_id)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_gone(pid), what="the end of the monitor")


def is_gone(pid):
    """Say whether a process is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def found_status(world, session_id):
    """Return the live status that list gives; show must agree, unless it has changed by then."""

    def listed():
        rows = [line.split("\t") for line in world.session("list").stdout.splitlines()]
        return {row[0]: row[2] for row in rows}.get(session_id)

    before, shown = listed(), world.show(session_id)["live_status"]
    assert shown == before or shown == listed()
    return before


def received(world, session_id, length, timeout_s=20.0):
    """Return the bytes that a HEX_READER got, once there are so many."""
    folder = record_of(world, session_id)["session_audit_dir"]

    def digits():
        return re.sub("[^0-9a-f]", "", console(folder).partition("is up")[2])

    wait_until(lambda: len(digits()) >= 2 * length, timeout_s, f"{length} bytes of input")
    return bytes.fromhex(digits())


def adapter_pid(session_id, world):
    """Return the pid of the adapter of a session, as seen from here."""
    for pid in session_pids(world, session_id):
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
        if any(word.endswith((b"pty_adapter.py", b".pyc")) for word in words[1:5]):
            return pid
    raise AssertionError("no adapter")


def holds_open(pid, name):
    """Say whether a process has a file of that name open."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith("/" + name) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False
