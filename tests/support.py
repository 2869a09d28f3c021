"""What tests share: a private world to run the executables in, waiting with a deadline, looking for processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
BIN = os.environ.get("WORKCELL_BIN", os.path.join(ROOT, "bin"))
# Large counts of the soak run, scaled down: WORKCELL_SCALE=1 is all of them.
SCALE = float(os.environ.get("WORKCELL_SCALE", "0.1"))


def scaled(count, least=2):
    """Return a count of the soak run, scaled down for the everyday suite."""
    return max(least, int(count * SCALE))


def wait_until(true, timeout_s=20.0, what="condition"):
    """Return the first true value of a function; fail the test when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout_s} s"
        time.sleep(0.01)


def processes_with(mark):
    """Return (pid, command line) of the processes whose environment or command line holds a text."""
    found = []
    wanted = os.fsencode(mark)
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                if stream.read().rpartition(b")")[2].split()[0] == b"Z":
                    continue
            with open(f"/proc/{name}/environ", "rb") as stream:
                environment = stream.read()
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                command = stream.read()
        except OSError:
            continue
        if wanted in environment or wanted in command:
            found.append((int(name), command.replace(b"\0", b" ").decode("utf-8", "replace")))
    return found


def unused_user():
    """Return a (uid, gid) that no account and no process has; an ordinary user needs no account to run sessions."""
    import pwd

    taken = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                taken.add(os.stat(f"/proc/{name}").st_uid)
            except OSError:
                continue
    for uid in range(60100, 60900):
        if uid not in taken:
            try:
                pwd.getpwuid(uid)
            except KeyError:
                return uid, uid
    raise AssertionError("no free user id")


def python_for(user):
    """Return a python3 that a user can run: ours may lie in a home that is closed to others."""
    if user is None or os.geteuid() == user[0]:
        return sys.executable
    path = os.path.dirname(os.path.realpath(sys.executable))
    while os.stat(path).st_mode & 0o001:
        if path == "/":
            return sys.executable
        path = os.path.dirname(path)
    return "/usr/bin/python3"


def printed(scratch_dir):
    """Return what the console log in a live session's scratch folder holds."""
    folder = os.path.join(scratch_dir, "console")
    text = b""
    try:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".out"):
                with open(os.path.join(folder, name), "rb") as stream:
                    text += stream.read()
    except FileNotFoundError:
        pass  # the session has ended, or a segment was dropped
    return text.decode("utf-8", "replace")


class Result:
    """What a command left: exit_status, stdout, stderr, and the key=value lines of stdout."""

    def __init__(self, exit_status, stdout, stderr):
        self.exit_status, self.stdout, self.stderr = exit_status, stdout, stderr

    @property
    def values(self):
        pairs = (line.partition("=") for line in self.stdout.splitlines() if "=" in line)
        values = {}
        for key, _, value in pairs:
            values.setdefault(key, value)
        return values

    def __repr__(self):
        return f"exit {self.exit_status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class World:
    """A home, a state root and a repository that nobody else uses.

    folder: where it lies; env: the whole environment that commands get; repo: a git repository with one commit.
    """

    def __init__(self, folder, user=None):
        self.folder = str(folder)
        self.user = user  # (uid, gid) to run as, instead of the caller
        self.home = os.path.join(self.folder, "home")
        self.state = os.path.join(self.folder, "state")
        self.repo = os.path.join(self.home, "repo")
        self.mark = f"WORLD_OF_TEST={self.folder}"
        self.python = python_for(user)
        os.makedirs(self.home, mode=0o755, exist_ok=True)
        self.env = {
            "HOME": self.home,
            "WORKCELL_STATE_ROOT": self.state,
            "PATH": os.pathsep.join([BIN, os.path.dirname(self.python), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "WORLD_OF_TEST": self.folder,
            "WORKCELL_TRACEBACK": "1",
        }
        if user:
            os.chown(self.home, *user)
            os.chown(self.folder, *user)

    def make_repo(self, path=None):
        """Make the repository with one commit, and return its path."""
        path = path or self.repo
        os.makedirs(path, exist_ok=True)
        if self.user:
            os.chown(path, *self.user)
        self.git("init", "-q", "-b", "main", path)
        with open(os.path.join(path, "README"), "w") as stream:
            stream.write("hello\n")
        if self.user:
            os.chown(os.path.join(path, "README"), *self.user)
        self.git("-C", path, "add", "-A")
        self.git("-C", path, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-q", "-m", "one")
        return path

    def git(self, *words, check=True):
        """Run git as the operator and return its output."""
        done = self.run("git", *words)
        assert not check or done.exit_status == 0, done
        return done.stdout

    def words(self, *words):
        """Return a command as it is run: its program by path, behind the interpreter that the tests have chosen."""
        words = [shutil.which(words[0], path=self.env["PATH"]) or words[0], *words[1:]]
        if os.path.dirname(words[0]) == BIN and not os.environ.get("WORKCELL_BIN"):
            # A checkout's executables ask PATH for python3; the tests name theirs.
            with open(words[0], "rb") as stream:
                if b"python3" in stream.readline():
                    words.insert(0, self.python)
        return words

    def popen(self, *words, cwd=None, env=None, **more):
        """Start a command in this world."""
        drop = {"user": self.user[0], "group": self.user[1], "extra_groups": []} if self.user else {}
        words = self.words(*words)
        cwd = cwd or (self.repo if os.path.isdir(self.repo) else self.home)
        return subprocess.Popen(words, cwd=cwd, env={**self.env, **(env or {})}, **drop, **more)

    def run(self, *words, stdin=b"", timeout=60, **more):
        """Run a command to its end and return a Result."""
        if isinstance(stdin, str):
            stdin = stdin.encode()
        child = self.popen(
            *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more
        )
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            raise AssertionError(f"{words} gave no answer within {timeout} s: {out!r} {err!r}") from None
        return Result(child.returncode, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape"))

    def session(self, verb, *words, **more):
        """Run workcell-session-VERB and return a Result."""
        return self.run(f"workcell-session-{verb}", *words, **more)

    def start(self, *words, target="bubblewrap", agent="command", **more):
        """Start a session and return its id; words after `--` are the program."""
        done = self.session("start", "--agent", agent, "--target", target, *words, **more)
        assert done.exit_status == 0, done
        return done.values["session_id"]

    def show(self, session_id):
        """Return the record of a session."""
        done = self.session("show", "--id", session_id)
        assert done.exit_status == 0, done
        return json.loads(done.stdout)

    def console(self, session_id):
        """Return what a live session has printed so far."""
        return printed(self.show(session_id)["session_audit_dir"])

    def wait_for_output(self, session_id, text, timeout_s=20.0):
        """Wait until a session has printed a text."""
        folder = self.show(session_id)["session_audit_dir"]
        wait_until(lambda: text in printed(folder), timeout_s, f"output {text!r}")

    def transcript(self, session_id):
        """Return the text of a finished session's recording."""
        with open(self.show(session_id)["transcript_log_path"], encoding="utf-8") as stream:
            events = [json.loads(line) for line in stream]
        return "".join(event[2] for event in events[1:] if event[1] == "o")

    def profile_dirs(self):
        """Return the folders of all profiles of this state root."""
        found = []
        for folder, folders, _ in os.walk(os.path.join(self.state, "targets")):
            if "sessions" in folders:
                found.append(folder)
        return found

    def scratch_folders(self):
        """Return the scratch folders that there are."""
        return [
            os.path.join(folder, name)
            for folder, names, _ in os.walk(os.path.join(self.state, "targets"))
            for name in names
            if name.startswith("session-audit.")
        ]

    def left_over(self):
        """Return the processes of this world that still run."""
        return processes_with(self.folder)

    def close(self):
        """End what a failed test left, then fail if there was anything."""
        left = self.left_over()
        if left:
            # What has just been told to end gets a moment.
            deadline = time.monotonic() + 5
            while left and time.monotonic() < deadline:
                time.sleep(0.02)
                left = self.left_over()
        for pid, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert not left, f"processes were left behind: {left}"
