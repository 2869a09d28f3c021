"""What start asks other programs before it has loaded itself: the answers take longer than the loading, and come beside it."""

import os

from workcell.runtimes import _image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from workcell.workspace import Git


def begin(options: "Any") -> "Git":
    """Ask what every start has to know, and return the git that was asked; nothing is judged here."""
    if options.target == "podman":  # other engines take the loading of more to be found
        _image.ask_ahead("podman", _image.image_of(options), _image.variables())
    from workcell import workspace  # the engine is what takes longest

    path = os.path.realpath(os.path.expanduser(options.workspace))
    git = workspace.Git([path, os.path.join(path, ".git")])
    workspace.ask_ahead(git, path)
    return git
