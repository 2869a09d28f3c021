"""Real container engines for tests: their own storage, configuration and image, nothing of the operator's.

The image is made of this machine's own packages, so that nothing has to be fetched; it is kept by its content. An engine that
is not installed skips a test with the reason, except where WORKCELL_CI is set: there it fails.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile

import pytest

from support import wait_until

CACHE = os.path.join(tempfile.gettempdir(), f"workcell-test-engines-{os.geteuid()}")
IMAGE = "localhost/workcell-test:1"
PACKAGES = "bash coreutils dash git python3-minimal libpython3-stdlib procps tar sed grep findutils".split()
NOT_NEEDED = {"dpkg", "mawk", "base-files", "media-types", "debianutils"}
LINKS = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("tmp", "proc", "sys", "dev", "run", "etc", "var", "root", "home", "usr")
# Without the limits runc fails where this user may not raise its own; the hybrid layout of control groups is beyond crun.
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = """[storage]
driver = "overlay"
graphroot = "{0}/graph"
runroot = "{0}/run"
"""


def need(*programs):
    """Skip the test where a program is missing, or fail where it must be there."""
    missing = [name for name in programs if shutil.which(name) is None]
    reason = f"not installed: {', '.join(missing)}"
    if missing and os.environ.get("WORKCELL_CI"):
        pytest.fail(reason)
    if missing:
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("engines are tried as root only: rootless podman needs newuidmap and a delegated control group")


def run(words, env, timeout_s=60, **more):
    """Run an engine's client and return its output; fail the test where it fails."""
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout_s, **more)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def podman_env():
    """Return the variables for a podman with storage and configuration of its own, the test image in it."""
    need("podman", "runc", "conmon")
    return dict(_podman_env())


@functools.cache
def _podman_env():
    os.makedirs(CACHE, mode=0o700, exist_ok=True)
    assert os.stat(CACHE).st_uid == os.geteuid(), CACHE
    env = {}
    for name, text in (("CONTAINERS_CONF", CONTAINERS_CONF), ("CONTAINERS_STORAGE_CONF", STORAGE_CONF.format(CACHE))):
        env[name] = os.path.join(CACHE, name.lower())
        with open(f"{env[name]}.{os.getpid()}", "w") as stream:
            stream.write(text)
        os.rename(stream.name, env[name])
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest, packages = _content()
        present = subprocess.run(
            ["podman", "image", "inspect", "--format", '{{index .Labels "content"}}', IMAGE],
            env={**os.environ, **env}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if present.stdout.strip() != digest:
            archive = os.path.join(CACHE, "image.tar")
            _pack(archive, packages)
            run(["podman", "import", "--change", f"LABEL content={digest}", archive, IMAGE], env, 120)
            os.unlink(archive)
            run(["podman", "image", "prune", "--force"], env)
    return env


@contextlib.contextmanager
def own_storage():
    """Give (a folder, variables for a podman with an empty storage there), whose images a test may change while others run.

    Its path is short: with a long one podman's client does not notice that its container ended.
    """
    env, folder = podman_env(), tempfile.mkdtemp(dir=CACHE)
    env["CONTAINERS_STORAGE_CONF"] = os.path.join(folder, "storage.conf")
    with open(env["CONTAINERS_STORAGE_CONF"], "w") as stream:
        stream.write(STORAGE_CONF.format(folder))
    try:
        yield folder, env
    finally:
        # podman keeps it mounted on itself
        subprocess.run(["umount", os.path.join(folder, "graph/overlay")], capture_output=True)
        shutil.rmtree(folder)


def _content():
    """Return (digest of the image's content, its packages): the wanted ones and all that they need, with their versions."""
    words = ["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks"]
    words += ["--no-replaces", "--no-enhances", *PACKAGES]
    names = {line for line in run(words, {}).splitlines() if line and line[0].isalnum()}
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n", *sorted(names)],
        capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    found = [line.split() for line in shown.splitlines()]
    packages = [
        (name, version) for name, version, state in (f for f in found if len(f) == 3)
        if state == "ii" and name not in NOT_NEEDED and "perl" not in name
    ]  # fmt: skip
    with open(__file__, "rb") as stream:
        return hashlib.sha256(stream.read() + repr(packages).encode()).hexdigest(), [name for name, _ in packages]


def _pack(path, packages):
    listed = run(["dpkg", "-L", *packages], {}).splitlines()
    with tarfile.open(path, "w") as archive:
        for name in LINKS:
            archive.add("/" + name, arcname=name, recursive=False)
        for name in FOLDERS:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(info)
        account = b"root:x:0:0:root:/root:/bin/sh\n"
        info = tarfile.TarInfo("etc/passwd")
        info.size = len(account)
        archive.addfile(info, io.BytesIO(account))
        done = {"/" + name for name in (*LINKS, *FOLDERS)}
        for name in listed:
            if name.split("/")[1:2] and name.split("/")[1] in LINKS:
                name = "/usr" + name  # a package may still say where it was before the folders were merged
            if name in done or name.startswith("/usr/share") or not name.startswith("/usr/") or not os.path.lexists(name):
                continue
            done.add(name)
            archive.add(name, arcname=name[1:], recursive=False)


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


class Service:
    """podman's API on a socket of its own: what a docker client takes for an engine."""

    def __init__(self, folder, env):
        self.socket = os.path.join(folder, "engine.sock")
        words = ["podman", "system", "service", "--time=0", f"unix://{self.socket}"]
        with open(os.path.join(folder, "service.log"), "w") as log:
            self.child = subprocess.Popen(
                words, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(lambda: os.path.exists(self.socket), what="podman's socket")

    def close(self):
        """End the service."""
        self.child.terminate()
        self.child.wait(20)


def write_context(config_dir, name, socket):
    """Write a context of docker's client, as `docker context create` does."""
    folder = os.path.join(config_dir, "contexts", "meta", hashlib.sha256(name.encode()).hexdigest())
    os.makedirs(folder)
    value = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": f"unix://{socket}", "SkipTLSVerify": False}}}
    with open(os.path.join(folder, "meta.json"), "w") as stream:
        json.dump(value, stream)


class Dockerd:
    """A docker daemon on paths of its own, with the test image and without a network: it touches no rule and no bridge."""

    def __init__(self, folder, env):
        need("dockerd", "containerd", "docker")
        self.socket = os.path.join(folder, "d.sock")
        # A daemon has its data for itself.
        self.data = os.path.join(CACHE, f"dockerd-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
        below, state = os.path.join(folder, "containerd.sock"), os.path.join(folder, "containerd")
        # What dockerd starts itself it takes along when it is killed.
        words = ["containerd", "--address", below, "--root", self.data + "-containerd", "--state", state]
        self.words = ["dockerd", "-H", f"unix://{self.socket}", "--containerd", below, "--data-root", self.data]
        self.words += ["--pidfile", os.path.join(folder, "pid"), "--exec-root", os.path.join(folder, "exec")]
        self.words += ["--iptables=false", "--bridge=none"]
        self.log = os.path.join(folder, "dockerd.log")
        self.children = []
        try:
            self.children.append(self._spawn(words))
            wait_until(lambda: os.path.exists(below), 30, "containerd")
            self.start()
            self._load(folder, env)
        except BaseException:
            self.close()
            raise

    def _load(self, folder, env):
        client = ["docker", "-H", f"unix://{self.socket}"]
        digest = _content()[0]
        shown = subprocess.run(
            [*client, "image", "inspect", "--format", '{{index .Config.Labels "content"}}', IMAGE],
            capture_output=True,
            text=True,
        )
        if shown.stdout.strip() != digest:
            archive = os.path.join(folder, "image.tar")
            run(["podman", "save", "--quiet", "-o", archive, IMAGE], env, 120)
            run([*client, "load", "-i", archive], {}, 120)
            os.unlink(archive)

    def start(self):
        """Start the daemon and wait until it answers."""
        self.child = self._spawn(self.words)
        self.children = [*self.children[:1], self.child]
        words = ["docker", "-H", f"unix://{self.socket}", "version"]
        wait_until(lambda: subprocess.run(words, capture_output=True).returncode == 0, 30, "dockerd")

    def _spawn(self, words):
        with open(self.log, "a") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            # Not even a killed test run leaves them behind: the next one could not use their data.
            return subprocess.Popen(
                words, **streams, start_new_session=True, env={"PATH": os.environ["PATH"]}, preexec_fn=_end_with_parent
            )

    def close(self):
        """End the daemon, and its containers with it."""
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        subprocess.run(["umount", self.data], capture_output=True)  # the daemon leaves its folder mounted over itself
