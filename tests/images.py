"""Images for tests beside the one of engines.py: made of files of this machine, kept by their content."""

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile

import engines
import pytest

BUSYBOX = "localhost/workcell-test-busybox:1"
APPLETS = "sh cat echo id kill ls mkdir sleep stty test true wc"


def busybox_program():
    """Return (path, content) of a busybox that needs no library; skip where there is none."""
    program = shutil.which("busybox")
    linked = subprocess.run(["ldd", program], capture_output=True).returncode == 0 if program else True
    if linked:
        (pytest.fail if os.environ.get("WORKCELL_CI") else pytest.skip)("not installed: a busybox without libraries")
    with open(program, "rb") as stream:
        return program, stream.read()


def busybox(env=None):
    """Return (variables for podman, the name of an image that holds nothing but busybox)."""
    env = env or engines.podman_env()
    links = {f"bin/{name}": "busybox" for name in APPLETS.split()}
    return env, import_image(env, BUSYBOX, {"bin/busybox": busybox_program()[1]}, links)


def import_image(env, name, files, links, changes=()):
    """Make an image of files (path: content) and links (path: target) unless it is there; return its name."""
    digest = hashlib.sha256(repr((2, sorted(files.items()), sorted(links.items()), changes)).encode()).hexdigest()
    with open(os.path.join(engines.CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if label(env, name) != digest:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                for path in ("bin", "dev", "etc", "proc", "run", "state", "sys", "tmp", "var"):
                    info = tarfile.TarInfo(path)
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(info)
                for path, content in files.items():
                    info = tarfile.TarInfo(path)
                    info.size, info.mode = len(content), 0o755
                    archive.addfile(info, io.BytesIO(content))
                for path, target in links.items():
                    info = tarfile.TarInfo(path)
                    info.type, info.linkname = tarfile.SYMTYPE, target
                    archive.addfile(info)
            words = ["podman", "import", "--quiet", "--change", f"LABEL content={digest}"]
            words += [word for change in changes for word in ("--change", change)]
            path = os.path.join(engines.CACHE, "small.tar")
            with open(path, "wb") as stream:
                stream.write(packed.getvalue())
            engines.run([*words, path, name], env)
            os.unlink(path)
    return name


def label(env, name):
    """Return the digest that an image carries, "" where there is no such image."""
    words = ["podman", "image", "inspect", "--format", '{{index .Labels "content"}}', name]
    return subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=60).stdout.strip()
