"""What the tests of this folder share: the files of the project, and the generator of the manual pages as a module."""

import functools
import importlib.util
import os
import subprocess

from support import ROOT

BIN = os.path.join(ROOT, "bin")  # the checkout's own, whatever the other tests run
LIB = os.path.join(ROOT, "lib", "workcell")
NOT_OURS = (".git", ".venv", ".demo", "build", "dist", "__pycache__")


def read(*parts):
    """Return the text of a file of the project."""
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as stream:
        return stream.read()


def executables():
    """Return the names of the executables."""
    return sorted(name for name in os.listdir(BIN) if os.path.isfile(os.path.join(BIN, name)))


def python_executables():
    """Return the names of those that are written in Python."""
    return [name for name in executables() if "python3" in read("bin", name).partition("\n")[0]]


def modules():
    """Return {dotted name below workcell: path} of the library; a package by its own name."""
    found = {}
    for folder, folders, files in os.walk(LIB):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                dotted = os.path.relpath(path, LIB)[:-3].replace(os.sep, ".")
                found[dotted.removesuffix(".__init__")] = path
    return found


@functools.cache
def project_files():
    """Return the paths, from the top, of all files that are in git or could be added, or of all where there is no git."""
    listing = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True) if os.path.lexists(os.path.join(ROOT, ".git")) else None
    if listed is not None and listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return [name for name in names if os.path.isfile(os.path.join(ROOT, name))]
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith(("_cache", ".egg-info"))]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return found


@functools.cache
def gen_man():
    """Return tools/gen_man.py as a module."""
    spec = importlib.util.spec_from_file_location("gen_man", os.path.join(ROOT, "tools", "gen_man.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def header(name):
    """Return the header of an executable, taken apart."""
    return gen_man().Header(name, gen_man().header(os.path.join(BIN, name)))
