"""What podman said of an image, kept for as long as its list of images stays as it is: asking takes a quarter of a start.

The list is `images.json` of the storage that holds the image (containers-storage.conf(5)); each change makes it anew. Nothing
but that file's identity is looked at, and where it cannot be found nothing is kept.
"""

import os
import time

from workcell import atomic, fastjson, layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A list that was changed this shortly before may have been changed after the answer was given.
SETTLED_S = 60
_LIMIT_BYTES = 1 << 14
_CONFIGURATION = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")


def recall(client: str, image: str, engine_env: list[str]) -> str:
    """Return the answer that `remember` kept for an image, "" where there is none or something has changed since."""
    try:
        with open(os.open(_place(image), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            note = fastjson.loads(stream.read(_LIMIT_BYTES))
        if note["asked"] == [*engine_env, client, image] and note["files"] == [_identity(path) for path, *_ in note["files"]]:
            return str(note["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return ""


def remember(client: str, image: str, engine_env: list[str], answer: str, upper_dir: str) -> None:
    """Keep a client's answer; upper_dir: the folder of the image's last layer, `<storage>/overlay/<layer>/diff`."""
    storage, _, layer = upper_dir.partition("/overlay/")
    configuration = [*_CONFIGURATION, os.path.join(layout.home_dir(), ".config/containers/storage.conf")]
    configuration += [word.partition("=")[2] for word in engine_env if word.startswith("CONTAINERS_")]
    try:
        listed = _identity(os.path.join(storage, "overlay-images", "images.json"))
        if not os.path.isabs(storage) or not layer or len(listed) < 2 or listed[1] > time.time_ns() - SETTLED_S * 10**9:
            return
        files = [listed, *map(_identity, [client, *configuration])]
        note = {"asked": [*engine_env, client, image], "answer": answer, "files": files}
        atomic.make_dir(os.path.dirname(_place(image)))
        atomic.replace_file(_place(image), fastjson.dumps(note).encode())
    except OSError:
        pass  # asked again, then


def _place(image: str) -> str:
    return os.path.join(layout.cache_dir(), "images", "named-" + layout.slug(image)[:100])


def _identity(path: str) -> "list[Any]":
    """Return [path, time of the last change in ns, inode, bytes] of a file, only the path where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return [path]
    return [path, found.st_mtime_ns, found.st_ino, found.st_size]
