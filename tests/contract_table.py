"""The table of the contract that every target keeps, with the version of each engine that it was tried on."""

import shutil
import subprocess

# What a target runs on in these tests; a virtual machine's engine is podman behind docker's API.
ENGINES = {
    "bubblewrap": (("bwrap", "--version"),),
    "process": (),
    "podman": (("podman", "--version"), ("runc", "--version")),
    "docker": (("dockerd", "--version"), ("docker", "--version")),
    "colima": (("docker", "--version"), ("podman", "--version")),
    "docker-desktop": (("docker", "--version"), ("podman", "--version")),
}


def version_of(words):
    """Return the name of a program and the number that it says of itself."""
    if shutil.which(words[0]) is None:
        return f"no {words[0]}"
    said = subprocess.run(words, capture_output=True, text=True, timeout=20).stdout
    numbers = [word.strip(",") for word in said.split() if word[:1].isdigit()]
    return f"{words[0]} {numbers[0] if numbers else '?'}"


def lines_of(found):
    """Yield the lines of a table for {case: {target: outcome}}; none where nothing was found."""
    if not found:
        return
    targets = [name for name in ENGINES if any(name in row for row in found.values())]
    yield ""
    yield "the contract of the targets:"
    for target in targets:
        yield f"  {target}: {', '.join(map(version_of, ENGINES[target])) or 'this machine'}"
    yield "  ".join(["", *targets])
    for name, row in found.items():
        cells = [row.get(target, "-").center(len(target)) for target in targets]
        yield "  ".join(["", *cells, name.removeprefix("test_").replace("_", " ")])
