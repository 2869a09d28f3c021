"""What happens when the disk of the state root is full: run by test_lifecycle_places.py in a mount namespace of its own."""

import os
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), part) for part in ("..", "../../lib", ".")]

from life import (  # noqa: E402
    HEX_READER,
    assert_nothing_left,
    assert_one_chain,
    found_status,
    record_of,
    verdict,
    wait_for_output,
)
from support import World, wait_until  # noqa: E402


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def on_a_small_disk(folder, target):
    """Fill the disk of the state root at start, at send, at stop; what was there stays, and later commands recover."""

    world = World(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", world.state], check=True)
    filler = os.path.join(world.state, "filler")

    def fill():
        with open(filler, "wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(b"x" * 4096)
            except OSError:
                pass

    def free():
        os.unlink(filler)

    fill()
    done = world.session("start", "--agent", "command", "--target", target, "--", "true")
    assert done.exit_status == 1 and "No space left" in done.stderr, done
    clones = os.path.join(world.repo, ".git/workcell-sessions")
    assert not os.path.exists(clones)
    free()
    assert_nothing_left(world)

    first = world.start("--", "true", target=target)
    assert world.session("wait", "--id", first).exit_status == 0
    session_id = world.start("--", *HEX_READER, "plain", target=target)
    wait_for_output(world, session_id)
    before = record_of(world, session_id)
    fill()
    done = world.session("send", "--id", session_id, "--message", "hi")
    assert done.exit_status == 0 and "delivered, but not recorded" in done.stderr, done
    assert record_of(world, session_id) == before and found_status(world, session_id) == "running"
    done = world.session("stop", "--id", session_id)
    assert done.exit_status == 1 and done.stderr.count("\n") == 1, done
    assert found_status(world, session_id) in ("running", "lost", "unmonitored")
    assert record_of(world, session_id) == before
    free()
    assert world.session("stop", "--id", session_id).exit_status == 0
    record = record_of(world, session_id)
    assert (record["status"], record["exit_status"]) == ("exited", "143"), record
    assert_nothing_left(world)
    for each in (first, session_id):
        assert verdict(world, each) == "verified"
    assert_one_chain(record["audit_log_path"])

    # An agent that ends meanwhile: its end is written down as soon as there is room again.
    log = os.path.join(world.home, "debug.log")
    third = world.start("--debug-log", log, "--", "sh", "-c", "echo is up; read line; exit 5", target=target)
    wait_for_output(world, third)
    fill()
    assert world.session("send", "--id", third, "--message", "x").exit_status == 0
    wait_until(lambda: "the end could not be written" in read(log), what="the monitor's complaint")
    free()
    assert world.session("wait", "--id", third).exit_status == 5
    assert record_of(world, third)["status"] == "failed"
    assert_nothing_left(world)
    assert verdict(world, third) == "verified"
    print("all of it")


if __name__ == "__main__":
    on_a_small_disk(*sys.argv[1:])
