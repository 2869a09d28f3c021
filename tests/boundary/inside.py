"""Sessions that try to get out: what is planted on the host for them, the probe inside, and the same probe outside."""

import base64
import json
import os
import secrets
import selectors
import shutil
import socket
import struct
import tempfile
import threading

import boundary_probe

import support
from worlds import give, make_repo, plant

PROBE = boundary_probe.__file__
WITH_KEY = os.path.join(os.path.dirname(PROBE), "with_key.py")
NETWORK = [name for name in boundary_probe.TRIES if "connect-to-loopback" in name or "network-interface" in name]
ABSTRACT = [name for name in boundary_probe.TRIES if "abstract" in name]
# What the system call filter refuses and nothing else does, since it reaches nothing beyond the sandbox.
BY_FILTER = {
    "no-system-call-filter",
    "unshare-user-namespace",
    "unshare-user-and-mount-namespace",
    "clone-into-a-user-namespace",
    "clone3-into-a-user-namespace",
    "trace-another-process",
    "be-traced",
    "read-the-memory-of-another-process",
    "make-system-calls-past-the-filter-with-io-uring",
    "make-a-32-bit-system-call",
    "type-into-a-terminal",
    "type-into-a-terminal-with-a-number-that-is-cut-by-the-kernel",
    "type-into-the-terminal-of-the-session",
    "reach-the-hypervisor-by-its-own-sockets",
}


class Listener:
    """Sockets of the host, which greet whoever connects."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.stopping = False
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def unix(self, path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        if not path.startswith("\0"):
            os.chmod(path, 0o777)
        self._add(listener)
        return path

    def datagram(self, name):
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind("\0" + name)
        self.selector.register(receiver, selectors.EVENT_READ, "datagram")
        return name

    def tcp(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self._add(listener)
        return listener.getsockname()[1]

    def _add(self, listener):
        listener.listen(64)
        listener.settimeout(1)
        self.selector.register(listener, selectors.EVENT_READ, "stream")

    def _serve(self):
        while not self.stopping:
            for key, _ in self.selector.select(0.1):
                if key.data == "datagram":
                    key.fileobj.recv(100)
                    continue
                client, _ = key.fileobj.accept()
                with client:
                    client.sendall(b"hello from the host")

    def close(self):
        self.stopping = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


class Inside:
    """Every try, made in two sessions and outside of any.

    host: results of a session on the host's network; none: of one without network and without system call filter; outside:
    of the same probe run as a plain process of the caller.
    """

    def __init__(self, world):
        self.world = world
        self.mark = "0." + "".join(secrets.choice("123456789") for _ in range(12))
        self.canary = f"workcell-canary-{secrets.token_hex(6)}"
        self.with_key = ["/usr/bin/python3", WITH_KEY, self.canary]  # the caller's login may have keys
        self.secret = f"secret-{secrets.token_hex(12)}"
        self.folders = []
        self.listener = Listener()
        self.victim = None
        self.sessions = []

    def run(self):
        world = self.world
        self.tools = os.path.join(world.home, "tools")
        os.makedirs(self.tools, mode=0o755)
        give(world, self.tools)
        # The hardest place for what has to stay hidden: inside a folder that the sandbox shows.
        world.state = os.path.join(self.tools, "hidden-state")
        world.env["WORKCELL_STATE_ROOT"] = world.state
        world.env["XDG_CONFIG_HOME"] = os.path.join(self.tools, "hidden-config")
        world.env["PATH"] = os.path.join(self.tools, "bin") + ":" + world.env["PATH"]
        world.env["BOUNDARY_SECRET"] = self.secret
        world.env["BOUNDARY_NOT_PASSED"] = "nobody's business"
        with open(PROBE) as stream:
            plant(world, os.path.join(self.tools, "bin/boundary-probe"), stream.read(), 0o755)
        plan = self._plan()
        victim = world.popen("sleep", "1000", self.mark)
        self.victim = victim
        plan["victim"] = victim.pid
        self.listener.thread.start()

        self.host_session, self.host = self._inside(plan, "--network", "host")
        _, self.none = self._inside(plan, "--network", "none", "--seccomp", "off", leave_out=BY_FILTER)
        self.outside = self._outside(plan)

    def _plan(self):
        world = self.world
        make_repo(world)
        plant(world, os.path.join(world.env["XDG_CONFIG_HOME"], "workcell/agents.toml"), '[canary]\ncommand = ["true"]\n')
        finished = world.start("--", "true")
        world.session("wait", "--id", finished)
        other = world.start("--", "sleep", "1000")
        self.sessions.append(other)
        record = world.show(finished)
        other_record = world.show(other)
        profile = os.path.dirname(record["audit_log_path"])
        signing = os.path.join(world.state, "signing")
        key = next(os.path.join(folder, name) for folder, _, names in os.walk(signing) for name in names if "pub" not in name)
        places = {"home": world.home, "state": world.state, "tmp": "/tmp", "shm": "/dev/shm", "run": "/run"}
        sockets = {}
        for name, parent in places.items():
            if not os.access(parent, os.W_OK):
                continue
            if name in ("tmp", "shm", "run"):
                parent = tempfile.mkdtemp(prefix="workcell-boundary-", dir=parent)
                os.chmod(parent, 0o755)
                self.folders.append(parent)
            sockets[name] = self.listener.unix(os.path.join(parent, "s"))
        temporary = next(folder for folder in self.folders if folder.startswith("/tmp"))
        plan = {
            "canary": self.canary,
            "canary_key": self.canary,
            "victim_mark": self.mark,
            "masked_prefix": self.tools,
            "masks": [world.state, os.path.join(world.env["XDG_CONFIG_HOME"], "workcell")],
            "passed": {"BOUNDARY_SECRET": self.secret},
            "hostname": os.uname().nodename,
            "sockets": sockets,
            "abstract": self.canary,
            "abstract_datagram": self.listener.datagram(self.canary + "-datagram"),
            "tcp": self.listener.tcp(),
            "read": {
                "shadow": "/etc/shadow",
                "state-root": world.state,
                "signing-key": key,
                "audit-log": record["audit_log_path"],
                "record": os.path.join(profile, "sessions", finished + ".json"),
                "seal": os.path.join(profile, "sessions", finished + ".audit-sig"),
                "transcript": record["transcript_log_path"],
                "configuration": os.path.join(world.env["XDG_CONFIG_HOME"], "workcell/agents.toml"),
                "home": world.home,
                "ssh-key": plant(world, os.path.join(world.home, ".ssh/id_canary")),
                "shell-start-file": plant(world, os.path.join(world.home, ".bashrc")),
                "source-repository": os.path.join(world.repo, "README"),
                "clone-of-another-session": os.path.join(other_record["worktree_path"], "README"),
                "scratch-folder-of-another-session": other_record["session_audit_dir"],
                "tests-folder": os.path.join(support.ROOT, "tests/support.py"),
                "temporary-file": plant(world, os.path.join(temporary, "file")),
            },
        }
        self.listener.unix("\0" + self.canary)
        if os.geteuid() == 0:
            plan["setuid"] = self._copy("id", 0o4755)
            plan["capable"] = self._copy("cat", 0o755)
            # cap_dac_read_search, effective: struct vfs_cap_data of linux/capability.h
            os.setxattr(plan["capable"], "security.capability", struct.pack("<5I", 0x02000001, 1 << 2, 0, 0, 0))
        return plan

    def _copy(self, program, mode):
        path = os.path.join(self.tools, "bin", f"canary-{program}")
        shutil.copy(shutil.which(program), path)
        os.chown(path, 0, 0)
        os.chmod(path, mode)
        return path

    def _inside(self, plan, *options, leave_out=()):
        world = self.world
        words = ["workcell-session-start", "--agent", "command", "--target", "bubblewrap", *options]
        words = [*self.with_key, *world.words(*words), "--env", "BOUNDARY_SECRET", "--", "boundary-probe", "/workspace"]
        done = world.run(*words)
        assert done.exit_status == 0, done
        session_id = done.values["session_id"]
        self.sessions.append(session_id)
        record = world.show(session_id)
        folder = record["worktree_path"]
        scratch = record["session_audit_dir"]
        own = {"own-scratch-folder": scratch, "own-launch-spec": os.path.join(scratch, "launch-spec.json")}
        names = [name for name in (*boundary_probe.TRIES, *boundary_probe.WORKS) if name not in leave_out]
        plan = {**plan, "own_folder": "/tmp/own", "shown": self.tools, "tries": names, "read": {**plan["read"], **own}}
        self.own = own
        found = os.stat(folder)
        path = os.path.join(folder, "plan.json")
        with open(path + ".part", "w") as stream:
            json.dump(plan, stream)
        os.chown(path + ".part", found.st_uid, found.st_gid)
        os.rename(path + ".part", path)
        return session_id, self._results(folder, lambda: world.console(session_id))

    def _outside(self, plan):
        world = self.world
        kinds = ("any",) if world.user or os.geteuid() else ("any", "root")
        names = [name for name, control in boundary_probe.CONTROLS.items() if control in kinds]
        folder = os.path.join(world.home, "outside")
        own = os.path.join(folder, "own")
        plan = {**plan, "outside": True, "own_folder": own, "tries": names, "read": {**plan["read"], **self.own}}
        plant(world, os.path.join(folder, "plan.json"), json.dumps(plan))
        private = [] if "root" not in kinds else ["unshare", "--mount", "--propagation", "private"]
        done = world.run(*private, *self.with_key, "/usr/bin/python3", PROBE, folder)
        return self._results(folder, lambda: done)

    @staticmethod
    def _results(folder, explain):
        path = os.path.join(folder, "results.jsonl")
        try:
            support.wait_until(lambda: os.path.exists(path), 60, "the end of the probe")
        except AssertionError as error:
            raise AssertionError(f"{error}: {explain()}") from None
        with open(path) as stream:
            lines = [json.loads(line) for line in stream]
        return {line["try"]: (line["outcome"], line["detail"]) for line in lines}

    def processes(self):
        """Return the host's pids of what is in the sandbox of the first session."""
        with open(os.path.join(self.world.show(self.host_session)["session_audit_dir"], "sandbox-status.json")) as stream:
            status, _ = json.JSONDecoder().raw_decode(stream.read().lstrip())
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.stat(f"/proc/{name}/ns/pid").st_ino == status["pid-namespace"]:
                        found.append(int(name))
                except OSError:
                    continue
        return found

    def spellings_of_the_secret(self):
        """Return the secret as it could stand in a file."""
        plain = self.secret.encode()
        return [plain, base64.b64encode(plain)[:24], plain.hex().encode()]

    def close(self):
        for session_id in self.sessions:
            self.world.session("stop", "--force", "--id", session_id)
        if self.victim:
            self.victim.kill()
            self.victim.wait()
        if self.listener.thread.is_alive():
            self.listener.close()
        for folder in self.folders:
            shutil.rmtree(folder)
