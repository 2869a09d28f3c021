#!/usr/bin/env python3
"""Measure what the commands cost, as ratios within one run, and print a table.

Usage: bench.py [--records N] [--events N] [--rounds N] [--strict] [PART...]

  --records N  records of the large state (default 100000 x WORKCELL_SCALE, and that is 0.1)
  --events N   lines of the large log (default as many as records, but not below 100000)
  --rounds N   how often each thing is done; the least counts (default 5)
  --strict     end with 1 where a ratio is above its limit
  PART         only these: start-up, one, list, verify, append, launch, live, containers

Times are processor time of the whole command, which other work on the machine disturbs least; where two processes share the
work it is the time on the clock. What a ratio is of stands in its row.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import generate
import terminals

from support import BIN, World
from workcell import audit

PYTHON = sys.executable
SCALE = float(os.environ.get("WORKCELL_SCALE", "0.1"))
PARTS = ("start-up", "one", "list", "verify", "append", "launch", "live", "containers")

# What cannot be done without: find, open, read and close each file.
FLOOR_OF_LIST = """
import os, sys, time
def once():
    begin = time.process_time()
    for folder in sys.argv[1:]:
        with os.scandir(folder) as found:
            for entry in found:
                fd = os.open(entry.path, os.O_RDONLY)
                os.read(fd, 16384)
                os.close(fd)
    return time.process_time() - begin
once()
print(min(once(), once()))
"""
# Part the log into lines and take a digest of each.
FLOOR_OF_VERIFY = """
import sys, time
from hashlib import sha256
with open(sys.argv[1], "rb") as stream:
    data = stream.read()
def once():
    begin = time.process_time()
    for line in data.split(b"\\n"):
        sha256(line).digest()
    return time.process_time() - begin
print(min(once(), once()))
"""
APPENDS = 50
APPEND = f"""
import os, sys, time
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(audit.__file__)))!r})
from workcell import audit
audit.append_event(sys.argv[1], "command", "bench", [("argv", "x")])
os.fsync = lambda fd: None  # what the disk takes is no matter of the length of the log
begin = time.process_time()
for _ in range({APPENDS}):
    audit.append_event(sys.argv[1], "command", "bench", [("argv", "x")])
print(time.process_time() - begin)
"""


# The most memory of a command in KiB. A child begins with its parent's, so its parent must be small.
MEMORY = """
import os, sys
null = os.open(os.devnull, os.O_RDWR)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)])
print(os.wait4(pid, 0)[2].ru_maxrss)
"""


class Cost:
    """What a command took: cpu_s of its processes, wall_s on the clock."""

    def __init__(self, cpu_s, wall_s):
        self.cpu_s, self.wall_s = cpu_s, wall_s


def run(words, env):
    """Run a command with its output thrown away and return its Cost."""
    import time

    null = os.open(os.devnull, os.O_RDWR)
    begin = time.perf_counter()
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    pid = os.posix_spawn(words[0], words, env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    wall_s = time.perf_counter() - begin
    os.close(null)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"bench.py: {words}: ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(used.ru_utime + used.ru_stime, wall_s)


def printed(source, *words, env=None):
    """Return the number that a small program prints."""
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)]
    pid = os.posix_spawn(PYTHON, [PYTHON, "-I", "-c", source, *words], env or dict(os.environ), file_actions=actions)
    os.close(write)
    with open(read) as stream:
        text = stream.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise SystemExit(f"bench.py: a floor failed: {text}")
    return float(text)


class Bench:
    """The rows of the table, and how they come about."""

    def __init__(self, folder, records, events, rounds):
        self.folder, self.records, self.events, self.rounds = folder, records, events, rounds
        self.over = 0
        self._states = {}

    def row(self, what, ours, base, ratio, limit):
        over = ratio > limit
        self.over += over
        print(f"{what:<58} {ours:>11} {base:>22} {ratio:>7.2f} {limit:>6.4g} {'OVER' if over else ''}".rstrip(), flush=True)

    def state(self, count, events=None, profiles=1):
        """Return (state root, folder of the first profile) of a synthetic state, made once."""
        key = (count, events, profiles)
        if key not in self._states:
            root = os.path.join(self.folder, f"state-{len(self._states)}")
            self._states[key] = (root, generate.make(root, count, profiles, events))
        return self._states[key]

    def environment(self, root):
        return {"HOME": self.folder, "WORKCELL_STATE_ROOT": root, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def command(self, root, verb, *words, flags=("-I",)):
        return lambda: run([PYTHON, *flags, os.path.join(BIN, f"workcell-session-{verb}"), *words], self.environment(root))

    def memory_mib(self, root, verb, *words):
        program = os.path.join(BIN, f"workcell-session-{verb}")
        return printed(MEMORY, PYTHON, "-I", program, *words, env=self.environment(root)) / 1024

    def least(self, *things):
        """Do things in turn, some rounds, and return the least cost of each."""
        for thing in things:
            thing()
        costs = [[thing() for thing in things] for _ in range(self.rounds)]
        return [
            Cost(min(cost.cpu_s for cost in column), min(cost.wall_s for cost in column)) for column in zip(*costs, strict=True)
        ]

    # one part each

    def start_up(self):
        root, _ = self.state(1, events=4)
        one = ("--id", generate.ONE)
        verbs = (
            ("list",),
            ("show", *one),
            ("timeline", *one),
            ("logs", "--kind", "audit", *one),
            ("verify", *one),
            ("export", *one),
        )
        for flags, limit in ((("-I",), 2.2), (("-I", "-S"), 1.8)):
            for words in verbs:
                slow = words[0] in ("verify", "export")
                if slow and len(flags) > 1:
                    continue  # verify needs the site-packages
                # -S itself takes a third off the base: both are held against the plain interpreter.
                ours, base = self.least(self.command(root, *words, flags=flags), lambda: run([PYTHON, "-I", "-c", "pass"], {}))
                self.row(
                    f"{words[0]} of one record, python3 {' '.join(flags)}",
                    f"{ours.cpu_s * 1e3:.1f} ms",
                    f"{base.cpu_s * 1e3:.1f} ms -I -c pass",
                    ours.cpu_s / base.cpu_s,
                    5 if slow else limit,
                )

    def one(self):
        (large, _), (small, _) = self.state(self.records, events=1000), self.state(10, events=1000)
        one = ("--id", generate.ONE)
        for words in (("show", *one), ("timeline", *one), ("logs", "--kind", "audit", *one)):
            ours, base = self.least(self.command(large, *words), self.command(small, *words))
            self.row(
                f"{words[0]} of one among {self.records:,} records",
                f"{ours.cpu_s * 1e3:.1f} ms",
                f"{base.cpu_s * 1e3:.1f} ms among 10",
                ours.cpu_s / base.cpu_s,
                1.5,
            )

    def list(self):
        for count in sorted({min(10_000, self.records), self.records}):
            root, folder = self.state(count, events=1000)
            sessions = os.path.join(folder, "sessions")

            def floor(sessions=sessions):
                seconds = printed(FLOOR_OF_LIST, sessions)
                return Cost(seconds, seconds)

            ours, least = self.least(self.command(root, "list"), floor)
            available = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {min(available)})
            try:
                alone, least_alone = self.least(self.command(root, "list"), floor)
            finally:
                os.sched_setaffinity(0, available)
            base = least_alone.cpu_s
            name = f"list of {count:,} records"
            shown = f"{base / count * 1e6:.1f} us the floor"
            self.row(f"{name}, one process", f"{alone.cpu_s / count * 1e6:.1f} us", shown, alone.cpu_s / base, 4)
            if len(available) > 1:
                base = least.wall_s
                shown = f"{base / count * 1e6:.1f} us the floor"
                self.row(
                    f"{name}, two processes, by the clock", f"{ours.wall_s / count * 1e6:.1f} us", shown, ours.wall_s / base, 3
                )
            for form in ((), ("--verbose",), ("--parallel",), ("--ids",), ("--json",), ("--jsonl",)):
                peak = self.memory_mib(root, "list", *form)
                limit = 100 if count <= 100_000 else 100 * count / 100_000
                self.row(" ".join([name, *form, "memory"]), f"{peak:.0f} MiB", "of 1 MiB", peak, limit)

    def verify(self):
        root, folder = self.state(3, events=self.events)
        log = os.path.join(folder, "workcell.audit.log")
        size_mib = os.path.getsize(log) / (1 << 20)
        one = ("--id", generate.ONE)

        def floor():
            seconds = printed(FLOOR_OF_VERIFY, log)
            return Cost(seconds, seconds)

        whole, part, base = self.least(self.command(root, "verify", *one), self.command(root, "timeline", *one), floor)
        name = f"of a log of {self.events:,} lines"
        each = whole.cpu_s / self.events * 1e6
        self.row(
            f"verify {name}",
            f"{each:.1f} us",
            f"{base.cpu_s / self.events * 1e6:.1f} us split, sha256",
            whole.cpu_s / base.cpu_s,
            10,
        )
        shown = f"{each:.1f} us verify"
        self.row(f"timeline {name}", f"{part.cpu_s / self.events * 1e6:.2f} us", shown, part.cpu_s / whole.cpu_s, 0.1)
        little = self.memory_mib(self.state(3, events=1000)[0], "verify", *one)
        peak = self.memory_mib(root, "verify", *one)
        shown = f"{little:.1f} MiB at 1,000 lines"
        self.row(f"verify of {size_mib:.0f} MiB, memory", f"{peak:.1f} MiB", shown, peak / little, 1.25)

    def append(self):
        large_count = self.records * 10
        logs = []
        for count in (1000, large_count):
            folder = os.path.join(self.folder, f"log-{count}")
            os.mkdir(folder, 0o700)
            logs.append(os.path.join(folder, "workcell.audit.log"))
            generate.log(logs[-1], count, 100)

        def thing(path):
            def append():
                seconds = printed(APPEND, path) / APPENDS
                return Cost(seconds, seconds)

            return append

        small, large = self.least(*map(thing, logs))
        self.row(
            f"append of an event to a log of {large_count:,} lines",
            f"{large.cpu_s * 1e6:.0f} us",
            f"{small.cpu_s * 1e6:.0f} us to 1,000",
            large.cpu_s / small.cpu_s,
            1.5,
        )
        shutil.rmtree(os.path.dirname(logs[-1]))

    def launch(self):
        world = World(os.path.join(self.folder, "world"))
        world.make_repo()
        clones = iter(range(1000))

        def clone():
            target = os.path.join(world.folder, f"clone-{next(clones)}")
            return run(["/usr/bin/env", "git", "clone", "--quiet", "--no-hardlinks", world.repo, target], world.env)

        def start():
            os.chdir(world.repo)
            words = world.words("workcell-session-start", "--agent", "command", "--target", "bubblewrap", "--", "sleep", "600")
            # As installed: isolated from the caller's environment.
            return run([shutil.which(words[0], path=world.env["PATH"]), "-I", *words[1:]], world.env)

        ours, base = self.least(start, clone)
        os.chdir(self.folder)
        for session_id in world.session("list", "--ids").stdout.split():
            world.session("stop", "--id", session_id, "--force")
        world.close()
        extra_ms = (ours.wall_s - base.wall_s) * 1e3
        self.row(
            "start on bubblewrap, ready, by the clock",
            f"{ours.wall_s * 1e3:.0f} ms",
            f"{base.wall_s * 1e3:.0f} ms git clone, ms more",
            extra_ms,
            150,
        )

    def containers(self):
        """Sessions on podman, against containers that are just started."""
        if shutil.which("podman") is None or os.geteuid() != 0:
            print("containers: left out: podman, and root", flush=True)
            return
        import engines

        world = World(os.path.join(self.folder, "containers"))
        world.make_repo()
        env = engines.podman_env()
        world.env |= env | {"WORKCELL_IMAGE": engines.IMAGE}
        polite = ("--", "sh", "-c", "trap 'exit 0' TERM; echo is up; while :; do sleep 0.01; done")
        os.chdir(world.repo)

        def bare():
            words = ["podman", "run", "-dit", "--pull=never", "--network=none", engines.IMAGE, "sleep", "1000"]
            began = time.perf_counter()
            container = engines.run(words, env).strip()
            wall_s = time.perf_counter() - began
            engines.run(["podman", "rm", "-f", "-t", "0", container], env)
            return Cost(0, wall_s)

        stops = []

        def start(*options):
            words = [
                "workcell-session-start",
                "--agent",
                "command",
                "--target",
                "podman",
                "--network",
                "none",
                *options,
                *polite,
            ]
            words = world.words(*words)
            cost = run([shutil.which(words[0], path=world.env["PATH"]), "-I", *words[1:]], world.env)
            session_id = world.session("list", "--status", "running", "--ids").stdout.split()[0]
            world.wait_for_output(session_id, "is up")
            began = time.perf_counter()
            world.session("stop", "--id", session_id)
            stops.append(time.perf_counter() - began)
            return Cost(0, cost.wall_s)

        direct, run_d = self.least(lambda: start("--session-workspace", "direct"), bare)
        rows = [("direct", direct, run_d, "podman run -d", 2)]
        for count, limit in ((1, 2), (1000, 1.8), (20_000, 1.15))[: 3 if SCALE >= 1 else 2]:
            self._add_files(world, count)
            rows.append(
                (f"{count} files more", *self.least(start, lambda: self._cloned(world, bare)), "git clone, run -d", limit)
            )
        client = ["podman", "run", "--rm", "-it", "--pull=never", "--network=none", engines.IMAGE, *terminals.ECHO]
        echoes = []
        for make in (
            lambda: terminals.Way(client, world.folder, world.env),
            lambda: terminals.Session(terminals.ECHO, world, "podman"),
        ):
            way = make()
            way.wait_for(b"ready")
            way.settle()
            echoes.append(terminals.echo_ms(way, 500))
            way.close()
        engines.run(["podman", "rm", "--all", "--force", "--time", "0"], env)
        os.chdir(self.folder)
        world.close()
        (_, bare_ms), (_, ours_ms) = echoes
        self.row("echo on podman, p99, ms more", f"{ours_ms:.2f} ms", f"{bare_ms:.2f} ms podman's client", ours_ms - bare_ms, 5)
        for what, ours, base, of, limit in rows:
            shown = f"{base.wall_s * 1e3:.0f} ms {of}"
            self.row(f"start on podman, {what}", f"{ours.wall_s * 1e3:.0f} ms", shown, ours.wall_s / base.wall_s, limit)
        stop_ms = min(stops) * 1e3
        self.row("stop of a willing agent on podman, sealed and removed", f"{stop_ms:.0f} ms", "ms", stop_ms, 1000)

    @staticmethod
    def _add_files(world, count):
        """Commit that many small files more; nothing is packed meanwhile, which would cost one of two that are compared."""
        for number in range(count):
            folder = os.path.join(world.repo, f"{count}-{number % 100}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, str(number)), "w") as stream:
                stream.write(f"{number}\n" * 20)
        world.git("-C", world.repo, "-c", "gc.auto=0", "add", "-A")
        words = ("-c", "gc.auto=0", "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-qm", "more")
        world.git("-C", world.repo, *words)

    @staticmethod
    def _cloned(world, bare):
        """Return the cost of what a start does as two bare commands: a clone, which is removed again, and a container."""
        target = os.path.join(world.folder, "clone")
        cost = run(["/usr/bin/env", "git", "clone", "--quiet", "--no-hardlinks", world.repo, target], world.env)
        shutil.rmtree(target)
        return Cost(0, cost.wall_s + bare().wall_s)

    def live(self):
        """A terminal on a session, against bare ones and other keepers of terminals; and what a quiet session costs."""
        world = World(os.path.join(self.folder, "live"))
        world.make_repo()
        try:
            self._echo(world)
            self._flood(world)
            session_id = world.start("--", "sleep", "1000")
            seconds = 10
            used_s = terminals.idle_cpu_s(world.mark, seconds)
            world.session("stop", "--id", session_id, "--force")
            shown = f"{used_s * 1000:.0f} ms"
            self.row("a quiet session, processor time in 10 s", shown, "of 10 s, in per cent", used_s / seconds * 100, 0.1)
        finally:
            world.close()

    def _echo(self, world):
        found = {}
        for way in terminals.ways(terminals.ECHO, world):
            way.wait_for(b"ready")
            way.settle()
            found[way.name] = terminals.echo_ms(way, 500 if SCALE < 1 else 5000)
            way.close()
        ours, bare = found.pop("ours"), found["bare"]
        shown = f"p50 {bare[0]:.2f} p99 {bare[1]:.2f} bare"
        self.row("echo of a key, p50, ms more", f"{ours[0]:.2f} ms", shown, ours[0] - bare[0], 3)
        self.row("echo of a key, p99, ms more", f"{ours[1]:.2f} ms", shown, ours[1] - bare[1], 3)
        for name in ("dtach", "tmux"):
            if name in found:
                shown = f"p50 {found[name][0]:.2f} p99 {found[name][1]:.2f} {name}"
                self.row(f"echo of a key, p99, ratio to {name}", f"{ours[1]:.2f} ms", shown, ours[1] / found[name][1], 99)

    def _flood(self, world):
        lines = 5_000_000 if SCALE >= 1 else 500_000
        size = sum(len(str(number)) + 1 for number in range(1, lines + 1))
        words = [word.replace("{lines}", str(lines)) for word in terminals.FLOOD]
        found = {}
        for way in terminals.ways(words, world):
            way.wait_for(b"ready")
            way.settle()
            found[way.name] = size / terminals.flood_s(way) / 1e6
            way.close()
        ours = found.pop("ours")
        self.row(f"output of seq {lines}, 10 MB/s to ours", f"{ours:.1f} MB/s", "10 MB/s", 10 / ours, 1)
        for name, rate in found.items():
            limit = 1 if name == "tmux" else 99
            self.row(
                f"output of seq {lines}, {name} to ours", f"{ours:.1f} MB/s", f"{rate:.1f} MB/s {name}", rate / ours, limit
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--records", type=int, default=max(1000, int(100_000 * SCALE)))
    parser.add_argument("--events", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="workcell-bench-")
    try:
        bench = Bench(folder, options.records, options.events or max(100_000, options.records), options.rounds)
        print(f"{'what':<58} {'ours':>11} {'against':>22} {'ratio':>7} {'limit':>6}")
        for part in options.part or PARTS:
            getattr(bench, part.replace("-", "_"))()
        print(f"python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
        return 1 if bench.over and options.strict else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
