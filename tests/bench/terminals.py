"""Ways from a terminal to a program, to be compared: a bare pseudo-terminal, dtach, tmux, and a session of ours.

Each is a class with the program's terminal on the other side of `fd`, and `close`, which ends all that it started.
"""

import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
import time

ROWS, COLUMNS = 24, 80
# Raw, so that each byte comes back by the program's own write.
ECHO = ("sh", "-c", "stty raw -echo; printf ready; exec cat")
# The mark is made of two pieces, so that no echo of the command line is taken for it.
FLOOD = ("sh", "-c", "stty raw -echo; printf ready; head -c 1 >/dev/null; seq 1 {lines}; printf '%s%s' all over; exec cat")


class Way:
    """A program on a terminal of ours that runs `words`."""

    name = "bare"

    def __init__(self, words, folder, env):
        self.folder, self.env = folder, env
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(words[0], list(words), env)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.seen = b""

    def read(self, timeout_s=30):
        """Return what came next; fail when nothing comes."""
        import select

        if not select.select([self.fd], [], [], timeout_s)[0]:
            raise SystemExit(f"bench.py: {self.name}: nothing came for {timeout_s} s; so far {self.seen[-200:]!r}")
        return os.read(self.fd, 1 << 16)

    def wait_for(self, mark):
        """Read until a mark has come; return how many bytes that took."""
        count = 0
        while mark not in self.seen:
            data = self.read()
            count += len(data)
            self.seen = (self.seen + data)[-4096:]
        self.seen = b""
        return count

    def settle(self):
        """Read until the program and all between are quiet: a screen that is still being drawn would be taken for an echo."""
        import select

        while select.select([self.fd], [], [], 0.4)[0]:
            os.read(self.fd, 1 << 16)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Dtach(Way):
    name = "dtach"

    def __init__(self, words, folder, env):
        self.socket = os.path.join(folder, f"dtach-{time.monotonic_ns()}")
        super().__init__(["dtach", "-A", self.socket, "-E", "-z", "-r", "none", *words], folder, env)

    def close(self):
        super().close()
        os.system(f"pkill -KILL -f {self.socket}")


class Tmux(Way):
    name = "tmux"

    def __init__(self, words, folder, env):
        self.socket = os.path.join(folder, f"tmux-{time.monotonic_ns()}")
        options = ["-f", os.devnull, "-S", self.socket]
        super().__init__(["tmux", *options, "new-session", *words], folder, {**env, "TERM": "xterm-256color"})

    def close(self):
        os.system(f"tmux -S {self.socket} kill-server 2>/dev/null")
        super().close()


class Session(Way):
    """A session of ours on the world's repository, attached."""

    name = "ours"

    def __init__(self, words, world, target="bubblewrap"):
        self.world, self.id = world, world.start("--network", "none", "--", *words, target=target)
        super().__init__(world.words("workcell-session-attach", "--id", self.id), world.folder, world.env)

    def close(self):
        super().close()
        self.world.session("stop", "--id", self.id, "--force")


def ways(words, world):
    """Yield a running way of each kind that this machine has, ours last."""
    env = {**world.env, "HOME": world.folder}
    for kind in (Way, Dtach, Tmux):
        if kind is Way or shutil.which(kind.name):
            yield kind(words, world.folder, env)
    yield Session(words, world)


def echo_ms(way, count):
    """Return (median, 99th percentile) of the milliseconds from a key to its echo."""
    took = []
    for number in range(count):
        key = b"abcdefghijklmnopqrstuvwxyz"[number % 26 :][:1]
        begin = time.perf_counter()
        os.write(way.fd, key)
        while key not in way.read():
            pass
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.002)  # a person types no faster, and what else a key sets off is over by then
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


def flood_s(way):
    """Return the seconds that a program's whole output took."""
    begin = time.perf_counter()
    os.write(way.fd, b"x")
    way.wait_for(b"allover")
    return time.perf_counter() - begin


def idle_cpu_s(mark, seconds):
    """Return the processor time in seconds that the processes with a mark in their environment used while nothing happened."""
    from support import processes_with

    tick = os.sysconf("SC_CLK_TCK")

    def used():
        total = 0
        for pid, _ in processes_with(mark):
            with open(f"/proc/{pid}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total

    begin = used()
    time.sleep(seconds)
    return (used() - begin) / tick
