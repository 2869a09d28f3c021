"""Programs that tests run inside of targets, which know the same few commands everywhere."""

import os
import re

SLEEPER = ("sh", "-c", "echo is up; exec sleep 1000")
IGNORES_TERM = ("sh", "-c", "trap '' TERM; echo is up; while :; do sleep 0.2; done")
PROBE = (
    'echo "size=$(stty size)"; echo "uid=$(id -u)"; echo "pwd=$(pwd)"; grep -E \'^(CapEff|CapBnd|NoNewPrivs)\' '
    "/proc/self/status | sed 's/:[[:space:]]*/=/'; if grep -qE '^[0-9]+ [0-9]+ [0-9:]+ [^ ]+ / ro[ ,]' /proc/self/mountinfo; "
    "then echo root=readonly; else echo root=writable; fi; echo is up"
)


def facts(text):
    """Return the key=value lines of a program's output."""
    return dict(re.findall(r"^(\w+)=(.*?)\r?$", text, re.MULTILINE))


def give_to_agent(path):
    """Give a workspace to an ordinary user where root runs the tests: root's own files are nothing an agent could write."""
    if os.geteuid() == 0:
        for folder, _, names in os.walk(path):
            for entry in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(entry, 61001, 61001, follow_symlinks=False)
