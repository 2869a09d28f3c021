"""git objects without trust in who keeps them: every id is computed here, from the bytes that came.

git does not hash again what it reads, so whoever can write into a repository can put other content under an id. What is read
here is checked, whether it comes from a repository of the operator or out of a sandbox. Formats: gitformat-pack(5), git(1).
"""

import os

from workcell.errors import UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

FILE, PROGRAM, LINK, FOLDER, COMMIT = "100644", "100755", "120000", "40000", "160000"
ENTRIES_LIMIT = 1_000_000
DEPTH_LIMIT = 256
ANSWER_LIMIT_BYTES = 1 << 28
PART_BYTES = 16 << 20  # so much content is asked for at a time
_FORMATS = {40: "sha1", 64: "sha256"}
_PACK_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_STUMBLES = 20


class TooLargeError(WorkcellError):
    """There is more of it than is looked at."""


def format_of(oid: str) -> str:
    """Return the object format that an id is of, `sha1` or `sha256`; raise UnreadableError where it is no object id."""
    if is_id(oid):
        return _FORMATS[len(oid)]
    raise UnreadableError(f"object id {oid!r}", "is none")


def is_id(text: str) -> bool:
    """Say whether a text is a whole object id in lower-case hex digits."""
    return len(text) in _FORMATS and not text.strip("0123456789abcdef")


def object_id(form: str, kind: str, data: bytes) -> str:
    """Return the id of an object's content; kind is `blob`, `tree` or `commit`."""
    import hashlib  # here: start needs the rest of this file only

    digest = hashlib.new(form, b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def entries(form: str, tree: bytes) -> "Iterator[tuple[str, bytes, str]]":
    """Yield (mode, name, id) of a tree's content, modes as git understands them; what is no name of a file is left out."""
    size = 20 if form == "sha1" else 32
    at = 0
    while at < len(tree):
        blank = tree.find(b" ", at, at + 8)
        end = tree.find(b"\0", blank)
        if blank < 0 or end < 0 or len(tree) < end + 1 + size:
            raise UnreadableError("tree", "is no tree")
        mode, name = tree[at:blank], tree[blank + 1 : end]
        at = end + 1 + size
        if name not in (b"", b".", b"..") and b"/" not in name:
            yield _known_mode(mode), name, tree[end + 1 : at].hex()


def _known_mode(mode: bytes) -> str:
    if mode in (b"100644", b"40000"):
        return mode.decode()
    try:
        number = int(mode, 8)
    except ValueError:
        raise UnreadableError("tree", "is no tree") from None
    kind = number & 0o170000
    if kind == 0o100000:
        return PROGRAM if number & 0o100 else FILE
    return {0o120000: LINK, 0o040000: FOLDER}.get(kind, COMMIT)


class Listing:
    """What a tree holds: files (path to (mode, id); links and submodules too), trees (path to id), skipped (folders)."""

    __slots__ = ("files", "trees", "skipped")

    def __init__(self) -> None:
        self.files: dict[bytes, tuple[str, str]] = {}
        self.trees: dict[bytes, str] = {}
        self.skipped: list[bytes] = []


class Store:
    """Reads objects from several places in turn.

    Each place is a function that gets the words of a git command and its standard input and returns what it printed: bytes that
    nobody has to believe.
    """

    def __init__(self, form: str, places: "list[Callable[[list[str], bytes], bytes]]") -> None:
        self.form, self._places = form, places
        self.forged: set[str] = set()  # ids under which a place had something else

    def sizes(self, ids: "Iterable[str]") -> dict[str, int]:
        """Return the sizes of those objects that are there, as the places tell them."""
        found: dict[str, int] = {}
        for place in self._places:
            wanted = [oid for oid in dict.fromkeys(ids) if oid not in found]
            for line in (place(["cat-file", "--batch-check"], _lines(wanted)) if wanted else b"").split(b"\n"):
                words = line.decode("ascii", "replace").split(" ")
                if len(words) == 3 and words[2].isdecimal():
                    found[words[0]] = int(words[2][:18])
        return found

    def read(self, ids: "Iterable[str]", kind: str) -> dict[str, bytes]:
        """Return those objects that are there, are of this kind and have the content that their id says.

        Raises TooLargeError where they are more than ANSWER_LIMIT_BYTES together.
        """
        found: dict[str, bytes] = {}
        for place in self._places:
            wanted = [oid for oid in dict.fromkeys(ids) if oid not in found]
            for _ in range(_STUMBLES):
                if not wanted:
                    break
                answered = 0
                for oid, what, data in _answers(place(["cat-file", "--batch"], _lines(wanted))):
                    if answered == len(wanted) or oid != wanted[answered]:
                        break
                    answered += 1
                    if data is not None and what == kind and object_id(self.form, kind, data) == oid:
                        found[oid] = data
                    elif data is not None:
                        self.forged.add(oid)
                # Where git stumbles over one, it says nothing of those that follow.
                wanted = wanted[answered + 1 :]
        return found

    def blobs(self, ids: "Iterable[str]", limit_bytes: int) -> "Iterator[tuple[str, bytes]]":
        """Yield (id, content) of the files that are there and not larger than a limit, some megabytes at a time."""
        part: list[str] = []
        together = 0
        for oid, size in self.sizes(ids).items():
            if size > limit_bytes:
                continue
            if part and together + size > PART_BYTES:
                yield from self.read(part, "blob").items()
                part, together = [], 0
            part.append(oid)
            together += size
        yield from self.read(part, "blob").items()

    def commit_tree(self, commit: str) -> str:
        """Return the id of a commit's tree, "" where the commit is not there."""
        data = self.read([commit], "commit").get(commit, b"")
        first = data.partition(b"\n")[0].decode("ascii", "replace")
        return first[5:] if first.startswith("tree ") and is_id(first[5:]) else ""

    def listing(self, tree: str, same: "Mapping[bytes, str] | None" = None, limit: int = ENTRIES_LIMIT) -> Listing:
        """Return all that a tree holds, but for the folders that `same` (path to id) has with the same id.

        Raises UnreadableError where a part of it is missing, TooLargeError where it has more entries than the limit.
        """
        listing = Listing()
        level = [(b"", tree)]
        while level:
            contents = self.read([oid for _, oid in level], "tree")
            following = []
            for path, oid in level:
                data = contents.get(oid)
                if data is None:
                    raise UnreadableError(f"tree {oid}", "is missing or damaged", "")
                listing.trees[path] = oid
                for mode, name, entry in entries(self.form, data):
                    full = path + b"/" + name if path else name
                    if mode != FOLDER:
                        listing.files[full] = (mode, entry)
                    elif same is not None and same.get(full) == entry:
                        listing.skipped.append(full)
                    else:
                        following.append((full, entry))
                if len(listing.files) + len(following) > limit:
                    raise TooLargeError(f"tree {tree}", f"has more than {limit} entries", "")
            if following and following[0][0].count(b"/") >= DEPTH_LIMIT:
                raise TooLargeError(f"tree {tree}", f"is more than {DEPTH_LIMIT} folders deep", "")
            level = following
        return listing


def _lines(ids: list[str]) -> bytes:
    return "".join([oid + "\n" for oid in ids]).encode()


def _answers(output: bytes) -> "Iterator[tuple[str, str, bytes | None]]":
    """Yield (id, kind, content) of what `git cat-file --batch` printed; content is None for a missing one."""
    at = 0
    while at < len(output):
        end = output.find(b"\n", at)
        words = output[at:end].decode("ascii", "replace").split(" ") if end >= 0 else []
        if len(words) == 2:
            yield words[0], "", None
            at = end + 1
            continue
        if len(words) != 3 or not words[2].isdecimal():
            return
        start, size = end + 1, int(words[2][:18])
        if len(output) < start + size + 1:
            return
        yield words[0], words[1], output[start : start + size]
        at = start + size + 1


class Pack:
    """A pack file in the making, whose objects are whole, none a difference to another."""

    def __init__(self, path: str, form: str) -> None:
        self.path, self.form = path, form
        self._stream = open(path, "w+b")
        self._stream.write(b"PACK" + (2).to_bytes(4, "big") + bytes(4))
        self._ids: set[str] = set()

    def add(self, kind: str, data: bytes) -> str:
        """Add an object and return its id; one that is there already is not added again."""
        oid = object_id(self.form, kind, data)
        if oid not in self._ids:
            self._ids.add(oid)
            size = len(data)
            byte, size = _PACK_KINDS[kind] << 4 | size & 15, size >> 4
            head = bytearray()
            while size:
                head.append(byte | 0x80)
                byte, size = size & 0x7F, size >> 7
            head.append(byte)
            import zlib

            self._stream.write(bytes(head) + zlib.compress(data, 1))
        return oid

    def add_tree(self, files: "Mapping[bytes, tuple[str, str]]") -> str:
        """Add the tree of some files (path to (mode, id)) with those of its folders, and return its id.

        A file whose path leads through another file is left out.
        """
        root: dict[bytes, Any] = {}
        for path in sorted(files):
            *folders, name = path.split(b"/")
            at = root
            for folder in folders:
                below = at.setdefault(folder, {})
                if not isinstance(below, dict):
                    break
                at = below
            else:
                at.setdefault(name, files[path])
        return self._add_folder(root)

    def _add_folder(self, folder: "dict[bytes, Any]") -> str:
        rows: list[tuple[bytes, str, bytes, str]] = []
        for name, value in folder.items():
            if isinstance(value, dict):
                rows.append((name + b"/", FOLDER, name, self._add_folder(value)))
            else:
                mode, oid = value
                rows.append((name, mode, name, oid))
        rows.sort()
        parts = [b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for _, mode, name, oid in rows]
        return self.add("tree", b"".join(parts))

    def close(self) -> bool:
        """Write the end of the file; say whether there is anything in it."""
        stream = self._stream
        stream.seek(8)
        stream.write(len(self._ids).to_bytes(4, "big"))
        stream.seek(0)
        import hashlib

        digest = hashlib.new(self.form, usedforsecurity=False)
        while part := stream.read(1 << 20):
            digest.update(part)
        stream.seek(0, os.SEEK_END)
        stream.write(digest.digest())
        stream.close()
        return bool(self._ids)
