"""A small Python for the adapter in images that have none: a copy of this machine's, mounted read-only into the container.

It is the interpreter, the loader and libraries that the kernel maps for it, and the modules of the standard library that the
adapter's files import: `ld.so --library-path lib python -I -S FILE` needs nothing of the image. Made once for an interpreter
and kept in the cache folder, complete or not at all; it may be removed whenever no session runs on it.
"""

import os
import stat
import sys

from workcell import atomic, fastjson, layout, lock, run
from workcell.errors import PreconditionError
from workcell.runtimes import _local

# Where it is mounted; the paths below are the same under the folder that is mounted there.
PLACE = "/run/workcell/python"
FORMAT = "1"  # another one for another way to make it
BUILD_S = 120.0
NEXT = "use an image that has python3 (3.8 or newer)"
# What is asked of an image's own python3, and what can be known of it.
PRESENT, OLD, MISSING = ANSWERS = ("present", "old", "missing")
QUESTION = "import sys, fcntl, select, termios; sys.exit(64 if sys.version_info >= (3, 8) else 65)"
BY_STATUS = {"64": PRESENT, "65": OLD}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}

# Said by the interpreter that is to be copied: which files it has mapped and loaded once all is imported that we need.
_LOOK = """
import importlib.machinery, json, os, sys
for name in sys.argv[1].split(): __import__(name)
sys.stdout.flush()
stdlib = os.path.dirname(os.path.realpath(os.__file__ or ""))
modules = {}
for name in list(sys.modules):
    path, found = None, None
    for part in name.split("."):
        if part == "__main__": break
        found = importlib.machinery.PathFinder.find_spec(part if path is None else found.name + "." + part, path)
        if found is None: break
        path = found.submodule_search_locations
    if found is not None and found.origin: modules[name] = [found.origin, bool(path)]
with open("/proc/self/maps") as stream:
    mapped = sorted({line.split(None, 5)[5].rstrip("\\n") for line in stream if " /" in line and "x" in line.split()[1]})
json.dump({"version": list(sys.version_info[:2]), "program": os.path.realpath(sys.executable), "modules": modules,
    "mapped": mapped, "tag": sys.implementation.cache_tag}, sys.stdout)
"""
# Beside what those files import: what the interpreter looks for by itself, and the encodings that they name.
_MORE = "encodings.utf_8 encodings.ascii encodings.latin_1 encodings.utf_16_be encodings.aliases os site"
_TRY = "import sys, %s; print('works', sys.version_info[0])"


def words(place: str) -> list[str]:
    """Return the command that runs the interpreter of a folder, without its arguments."""
    return [place + "/ld.so", "--library-path", place + "/lib", place + "/python"]


def provide() -> str:
    """Return the folder of an interpreter that can be mounted, made where it is missing; PreconditionError."""
    source, _ = _local.interpreter()
    cache = layout.cache_dir()
    folder = os.path.join(cache, "python-" + _key(source))
    try:
        if _is_ours(folder):
            return folder
        atomic.make_dir(cache)
        with lock.exclusive(cache, BUILD_S):
            if not _is_ours(folder):
                _build(source, folder)
        return folder
    except OSError as error:
        raise PreconditionError(error.filename or cache, error.strerror or str(error), "see that it can be written") from None


def fits(platform: str) -> bool:
    """Say whether this machine's programs run in an image for a platform, `linux/amd64` as engines name it."""
    return platform == "linux/" + _ARCHITECTURES.get(os.uname().machine, os.uname().machine)


def recall(path: str) -> str:
    """Return what `remember` kept of an image, "" for nothing."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            return stream.read(200).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def remember(path: str, answer: str) -> None:
    """Keep what is known of an image; without harm where it cannot be kept."""
    try:
        atomic.make_dir(os.path.dirname(path))
        atomic.replace_file(path, answer.encode())
    except OSError:
        pass


def _sources() -> list[bytes]:
    """Return the files that run in a container."""
    found = []
    for name in ("pty_adapter.py", "container_entry.py", "file_trace.py", "self_test.py"):
        with open(os.path.join(layout.data_dir("adapter"), name), "rb") as stream:
            found.append(stream.read())
    return found


def _modules() -> list[str]:
    """Return the names that those files import."""
    import ast

    found: set[str] = set()
    for source in _sources():
        for node in ast.parse(source).body:  # what a function imports is for other places
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    return sorted(found)


def _key(source: str) -> str:
    """Return a name for all that the copy depends on: interpreter, what it has to run, and how it is made."""
    import hashlib

    found = os.stat(source)
    parts = [FORMAT, _MORE, source, str(found.st_size), str(found.st_mtime_ns), str(found.st_ino)]
    return hashlib.sha256(b"\0".join([os.fsencode("\0".join(parts)), *_sources()])).hexdigest()[:16]


def _is_ours(folder: str) -> bool:
    """Say whether a folder is there that nobody else could have put there or changed."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PreconditionError(folder, "is no folder of yours that only you can write", "remove it")
    return True


def _build(source: str, folder: str) -> None:
    import shutil
    import tempfile

    parent, name = os.path.split(folder)
    for left in os.listdir(parent):
        if left.startswith(".making-"):
            shutil.rmtree(os.path.join(parent, left), ignore_errors=True)  # of one that died; we hold the lock
    looked = run.capture([source, "-I", "-S", "-c", _LOOK, " ".join([*_modules(), *_MORE.split()])], {}, BUILD_S)
    if looked.exit_status != 0:
        raise PreconditionError(source, f"cannot be copied for an image without Python: {looked.reason()}", NEXT)
    made = tempfile.mkdtemp(prefix=".making-", dir=parent)
    try:
        _copy(fastjson.loads(looked.stdout), made)
        _settle(made)
        tried = run.capture([*words(made), "-I", "-S", "-c", _TRY % ", ".join(_modules())], {}, BUILD_S)
        if tried.stdout != b"works 3\n":
            raise PreconditionError(source, f"its copy for an image without Python does not run: {tried.reason()}", NEXT)
        os.rename(made, folder)
        atomic.sync_dir(parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _copy(looked: "dict[str, object]", made: str) -> None:
    import py_compile
    import shutil

    version, modules, mapped = looked["version"], looked["modules"], looked["mapped"]
    assert isinstance(version, list) and isinstance(modules, dict) and isinstance(mapped, list)
    program = str(looked["program"])
    library = os.path.join(made, "lib")
    stdlib = os.path.join(library, f"python{version[0]}.{version[1]}")
    os.makedirs(os.path.join(stdlib, "lib-dynload"))
    shutil.copyfile(program, os.path.join(made, "python"))
    loader = _loader(program)
    shutil.copyfile(loader, os.path.join(made, "ld.so"))
    extensions = {origin for origin, _ in modules.values() if origin.endswith(".so")}
    for path in mapped:
        if path not in extensions and path not in (program, loader) and ".so" in os.path.basename(path):
            shutil.copyfile(path, os.path.join(library, _soname(path)))
    for name, (origin, is_package) in modules.items():
        if origin in extensions:
            shutil.copyfile(origin, os.path.join(stdlib, "lib-dynload", os.path.basename(origin)))
        elif origin.endswith(".py"):
            parts = name.split(".") + (["__init__"] if is_package else [])
            target = os.path.join(stdlib, *parts) + ".py"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(origin, target)
    # Its own interpreter compiles, where that is not ours: bytecode is of one version.
    if looked["tag"] == sys.implementation.cache_tag:
        for where, _, names in os.walk(stdlib):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(where, name)
                    py_compile.compile(
                        path, dfile=name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
                    )


def _loader(program: str) -> str:
    """Return the real path of the loader that a program names in its ELF header (elf(5), PT_INTERP)."""
    import struct

    with open(program, "rb") as stream:
        head = stream.read(64)
        if head[:4] != b"\x7fELF" or head[4] != 2 or head[5] != (1 if sys.byteorder == "little" else 2):
            raise PreconditionError(program, "is no ELF program of 64 bits", NEXT)
        (table,) = struct.unpack_from("=Q", head, 32)
        size, count = struct.unpack_from("=HH", head, 54)
        for number in range(count):
            stream.seek(table + number * size)
            kind, _, offset, _, _, length = struct.unpack("=IIQQQQ", stream.read(40))
            if kind == 3:
                stream.seek(offset)
                return os.path.realpath(os.fsdecode(stream.read(length).rstrip(b"\0")))
    raise PreconditionError(program, "is linked without a loader", NEXT)


def _soname(path: str) -> str:
    """Return the name by which a mapped library is asked for: the kernel shows the file behind the links to it."""
    folder, base = os.path.split(path)
    short = base.partition(".so.")[0] + ".so." + base.partition(".so.")[2].partition(".")[0] if ".so." in base else base
    return short if os.path.realpath(os.path.join(folder, short)) == os.path.realpath(path) else base


def _settle(made: str) -> None:
    """Give all of a folder the modes that any user in a container needs, and see it on the disk before it gets its name."""
    for where, folders, names in os.walk(made, topdown=False):
        for name in names:
            path = os.path.join(where, name)
            os.chmod(path, 0o755 if where == made or ".so" in name else 0o644)
            _sync(path)
        for name in folders:
            os.chmod(os.path.join(where, name), 0o755)
        _sync(where)
    os.chmod(made, 0o755)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
