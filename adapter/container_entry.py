"""container_entry - the first program of a container: take what the engine must not know, then become the adapter

Usage: python3 -I -S container_entry.py SEED_FIFO ADAPTER PROGRAM [ARG...]

An engine writes a container's environment to its disk and shows it to whoever asks. So the values come through a FIFO, and
the home's files with them. SEED_FIFO is made here where the monitor could not share one with this machine, and so is ADAPTER,
a file of the name pty_adapter.py, beside which no other module lies that the adapter imports.

Records on the FIFO, to its end: one byte of kind, then name and content, each with its length before it in four bytes, the
highest first.
T: the tracer to be started beside the adapter, its file as the name and the FIFO that it writes to as the content, which is
made here where it is missing; E: a variable of the environment; D: a folder, named from the home; F: a file there; A: a file of
ours, the adapter or the tracer, where none could be mounted;
S: a setting: umask (octal), rows, columns, workspace, and python: the words that start this interpreter again, parted by NUL,
where sys.executable alone does not. The values are decimal or text.
The standard library of the smallest python3 there is (3.8, no json, no tarfile). It becomes the adapter by importing it: a
second start of the interpreter, and the compiling of a script, would take longer than all the rest.
"""

import fcntl
import os
import struct
import sys
import termios

try:
    import _signal as signal  # see pty_adapter.py
except ImportError:
    import signal

WAITS_FOR_READER = "WORKCELL_TRACE_FIFO"
PATIENCE_S = 1800  # the longest that a start may take to copy a repository, and a little


def records(stream):
    """Yield (kind, name, content) until the end; raise EOFError where it comes inside of one."""

    def exactly(size_bytes):
        data = stream.read(size_bytes)
        if len(data) != size_bytes:
            raise EOFError("the monitor ended before everything had come")
        return data

    while True:
        kind = exactly(1)
        if kind == b".":
            return
        name = exactly(int.from_bytes(exactly(4), "big"))
        yield kind, name, exactly(int.from_bytes(exactly(4), "big"))


def write(path, content, mode):
    """Write a new file."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as stream:
        stream.write(content)


def trace(words, fifo, environment):
    """Start the tracer and wait until it has taken its first snapshot and gone into the background."""
    if not os.path.exists(fifo):
        os.mkfifo(fifo, 0o600)
        environment = dict(environment, **{WAITS_FOR_READER: fifo})  # who reads it runs in here, and ends with us
    pid = os.fork()
    if pid == 0:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for source, fd in ((null, 0), (os.open(fifo, os.O_WRONLY | os.O_NOFOLLOW), 1), (null, 2)):
                os.dup2(source, fd)
            os.execve(words[0], words, environment)
        finally:
            os._exit(127)
    os.waitpid(pid, 0)


def main(seed, adapter, *program):
    """Set the container up from inside and become the adapter."""
    if sys.version_info < (3, 8):
        sys.exit("workcell: the image's python3 is older than 3.8")
    if not os.path.exists(seed):
        os.mkfifo(seed, 0o600)
    # The first process of a container hears no signal that it has no handler for.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    signal.alarm(PATIENCE_S)
    given, settings, home, traces = {}, {}, [], []
    with open(seed, "rb") as stream:
        for kind, name, content in records(stream):
            if kind == b"E":
                given[name] = content
            elif kind == b"S":
                settings[name] = content
            elif kind == b"T":
                traces.append((name, content))
            elif kind == b"A":
                os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
                write(name, content, 0o400)
            else:
                home.append((kind, name, content))
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(adapter))
    import pty_adapter

    environment = pty_adapter.environment()
    environment.update(given)
    for variable in (b"HOME", b"TMPDIR"):
        os.makedirs(environment[variable], 0o700, exist_ok=True)
    for kind, name, content in home:
        path = os.path.join(environment[b"HOME"], name)
        try:
            os.makedirs(path if kind == b"D" else os.path.dirname(path), 0o700, exist_ok=True)
            if kind == b"F":
                write(path, content, 0o600)
        except (FileExistsError, NotADirectoryError):
            pass  # a home that was there before: what is in it stays
    rows, columns = int(settings[b"rows"]), int(settings[b"columns"])
    try:
        # Its client tells a container's terminal the size only once it runs; the program must not see another one first.
        if struct.unpack("4H", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2] != (rows, columns):
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    except OSError:
        pass  # no terminal: the adapter says so
    os.umask(int(settings[b"umask"], 8))
    os.chdir(settings[b"workspace"])
    python = settings[b"python"].split(b"\0") if b"python" in settings else [os.fsencode(sys.executable)]
    for tracer, fifo in traces:
        trace(
            [*python, b"-I", b"-S", tracer, settings[b"interval"], environment[b"HOME"], settings[b"workspace"]],
            fifo,
            environment,
        )
    os.environb.update(environment)  # for what the adapter looks up itself
    sys.exit(pty_adapter.main([adapter, "--", *program], environment))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit("workcell: the container cannot be set up: %s: %s" % (type(error).__name__, error))
