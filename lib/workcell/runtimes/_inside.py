"""What goes into a container, and what comes out of it: the seed, programs that run there for a moment, the agent's word."""

import os

from workcell import layout, trace
from workcell.runtimes import Launch, _local, _python, bubblewrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = "/run/workcell/session-seed"
ADAPTERS = "/run/workcell/adapter"
ENTRY, ADAPTER, TRACER = (f"{ADAPTERS}/{name}.py" for name in ("container_entry", "pty_adapter", "file_trace"))
# Where the host's files cannot be shared, these are made inside.
OWN_FOLDER = "/state/tmp"
OWN_ADAPTER, OWN_TRACER = OWN_FOLDER + "/.workcell/pty_adapter.py", OWN_FOLDER + "/.workcell/file_trace.py"
OWN_TRACE = OWN_FOLDER + "/.workcell-file-trace"
OWN_SEED = OWN_FOLDER + "/.workcell-seed"

TRACE = "/run/workcell/file-trace"

# Below /var: where a package manager's wrapper in an image says that packages were changed.
WORD = "lib/workcell/session-assurance"
_LONGEST_WORD_BYTES = 200

# Inside a machine that shares no files with this one: fill the seed, then wait for the reader of the agent's input.
FEED = """
import os, sys, time
seed, fifo = sys.argv[1:]
def wait(flags, path):
    for _ in range(6000):
        try: return os.open(path, flags)
        except OSError: time.sleep(0.01)
    sys.exit("no reader")
fd = wait(os.O_WRONLY, seed)
while True:
    data = sys.stdin.buffer.read(65536)
    if not data: break
    while data: data = data[os.write(fd, data):]
os.close(fd)
print("seeded", flush=True)
wait(os.O_WRONLY | os.O_NONBLOCK, fifo)
"""
# The tracer's lines, until it lets go of its FIFO: what was read is written before that is seen. It outlives the signals that
# all are told to end by.
READ = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
for _ in range(6000):
    try: fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NOFOLLOW); break
    except OSError: time.sleep(0.01)
else: sys.exit("no tracer")
while True:
    data = os.read(fd, 65536)
    if not data: break
    while data: data = data[os.write(1, data):]
"""
# As send does it on this side: a FIFO by type, through no link, and never waiting for a reader.
TYPE = """
import os, stat, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
if not stat.S_ISFIFO(os.fstat(fd).st_mode): sys.exit("its input is no FIFO")
os.set_blocking(fd, True)
while True:
    data = os.read(0, 4096)
    if not data: break
    while data: data = data[os.write(fd, data):]
"""


def first_program(shared: bool) -> list[str]:
    """Return what a container's interpreter starts with, before the agent's words; its source where it cannot be mounted."""
    if shared:
        return [ENTRY, SEED, ADAPTER]
    with open(os.path.join(layout.data_dir("adapter"), "container_entry.py"), encoding="utf-8") as stream:
        return ["-c", stream.read(), OWN_SEED, OWN_ADAPTER]


def seed(launch: Launch, size: tuple[int, int], shared: bool) -> "Iterator[bytes]":
    """Yield the records that container_entry.py reads."""

    def record(kind: bytes, name: "str | bytes", content: "str | bytes") -> bytes:
        parts = [os.fsencode(part) for part in (name, content)]
        return kind + b"".join(len(part).to_bytes(4, "big") + part for part in parts)

    for name, value in launch.environment.items():
        yield record(b"E", name, value)
    files = {OWN_ADAPTER: _local.adapter_path()}
    settings = {"umask": f"{launch.umask:o}", "rows": str(size[0]), "columns": str(size[1]), "workspace": bubblewrap.WORKSPACE}
    if "adapter_python" in launch.spec:
        settings["python"] = "\0".join(_python.words(_python.PLACE))
    if "file_trace_log_path" in launch.spec:
        settings["interval"] = str(trace.INTERVAL_S)
        files[OWN_TRACER] = _local.tracer_path()
        yield record(b"T", TRACER, TRACE) if shared else record(b"T", OWN_TRACER, OWN_TRACE)
    for name, value in settings.items():
        yield record(b"S", name, value)
    for name, source in () if shared else files.items():
        with open(source, "rb") as stream:
            yield record(b"A", name, stream.read())
    if launch.home_seed:
        import io
        import tarfile

        with tarfile.open(fileobj=io.BytesIO(launch.home_seed)) as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() else None
                yield record(b"F", entry.name, content.read()) if content else record(b"D", entry.name, b"")
    yield b"."


def word_archive(uid: int, gid: int) -> bytes:
    """Return a tar archive, to be unpacked in /var, of an empty file that is the agent's to write."""
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        found = tarfile.TarInfo(WORD)
        found.mode, found.uid, found.gid = 0o600, uid, gid
        archive.addfile(found)
    return buffer.getvalue()


def first_line(archive: bytes) -> bytes:
    """Return the first line of the regular file that a tar archive begins with, b"" for anything else."""
    import io
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as entries:
            first = entries.next()
            content = entries.extractfile(first) if first is not None and first.isreg() else None
            return content.readline(_LONGEST_WORD_BYTES).rstrip(b"\n") if content is not None else b""
    except (tarfile.TarError, ValueError, OSError):
        return b""
