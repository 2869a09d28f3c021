"""Run the tests of this folder; as root where nothing leaves the machine, in a network namespace with only its loopback.

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

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
ROOT = os.path.realpath(os.path.join(install.HERE, "../.."))


def go_offline():
    """Leave the host's network for good (unshare(2)); return "" or why that cannot be done.

    Root only: in a user namespace, which others would need, / belongs to nobody, and the toolkit trusts no such machine.
    """
    if os.geteuid():
        return "you are not root"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) < 0:
        return os.strerror(ctypes.get_errno())
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
