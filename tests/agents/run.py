"""Run the tests of this folder where nothing leaves the machine: in a network namespace that has only its loopback.

Usage: python run.py [ARGUMENT OF PYTEST...]

The agents are installed first, into $WORKCELL_TEST_AGENTS (default: .venv/agents); `-k claude` runs the tests of one.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

import install

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
ROOT = os.path.realpath(os.path.join(install.HERE, "../.."))


def go_offline():
    """Leave the host's network for good (unshare(2)); return "" or why that cannot be done.

    Somebody who is not root needs a user namespace for it, with the same ids inside; its powers end with the next program.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET | (CLONE_NEWUSER if uid else 0)) < 0:
        return os.strerror(ctypes.get_errno())
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as stream:
                stream.write(text)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return ""


def main():
    folder = os.path.abspath(os.environ.get("WORKCELL_TEST_AGENTS") or os.path.join(ROOT, ".venv", "agents"))
    install.install(folder)
    os.environ["WORKCELL_TEST_AGENTS"] = folder
    why_not = go_offline()
    if why_not:
        print(f"run.py: no network namespace of our own: {why_not}; the agents run on the host's network", file=sys.stderr)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations", "0", "--durations-min", "1"]
    os.execv(sys.executable, [*words, install.HERE, *sys.argv[1:]])


if __name__ == "__main__":
    main()
