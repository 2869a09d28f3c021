"""Save what a session's clone holds: FILE, a git bundle, and FILE.tar with what is in no commit.

git packs the objects inside the sandbox; a second sandbox, which has that pack and nothing else, has to find everything in it
that the names lead to. The list of names, and thus the bundle, is written here (gitformat-bundle(5)). Both files are read again
before they get their names. See workcell-session-delete(1).
"""

import errno
import hashlib
import os
import stat

from workcell import atomic, baseline, holdings, inquiry, objects, removal, safe_open, worktree
from workcell.errors import PreconditionError, UnreadableError, WorkcellError
from workcell.worktree import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import IO

_PIECE = 1 << 20
_STAGED = b"refs/workcell/staged"


def check_path(path: str, forbidden: "list[str]") -> str:
    """Return where a rescue is written; raise PreconditionError where that would be removed, UnreadableError for a link.

    forbidden: files and folders that are about to be removed.
    """
    resolved = safe_open.check_output(path)
    for name in (resolved, resolved + ".tar"):
        safe_open.check_output(name)
        for folder in forbidden:
            if name == folder or name.startswith(folder.rstrip("/") + "/"):
                raise PreconditionError(name, "lies in what is to be removed", "name a file elsewhere with --rescue")
    return resolved


class Rescue:
    """The two files in the making, in a folder beside where they go; a context manager, which removes that folder.

    again: the same was begun before, and may have left its folder. sizes: path to bytes, of the files that there is anything
    for.
    """

    def __init__(self, path: str, work: holdings.Work, workspace: str, origin: str, again: bool) -> None:
        self._work, self._workspace = work, workspace
        self._shallow = baseline.shallow_in_source(origin)
        self._folder, _, self._base = path.rpartition("/")
        self._path = path
        self.sizes: dict[str, int] = {}
        atomic.make_dir(self._folder or "/")
        self._dir_fd = safe_open.open_output_dir(self._folder)
        if again:
            self._sweep()
        self._temporary = f"{self._base}.{os.urandom(8).hex()}.tmp"
        os.mkdir(self._temporary, 0o700, dir_fd=self._dir_fd)
        self._at = f"{self._folder}/{self._temporary}"

    def __enter__(self) -> "Rescue":
        try:
            self._write()
        except WorkcellError as error:
            self.__exit__()
            raise WorkcellError(
                "the clone", f"cannot be rescued: {error.what}{': ' if error.why else ''}{error.why}", _NEXT_STEP
            ) from None
        except OSError as error:
            self.__exit__()
            raise WorkcellError(
                self._path, f"cannot be written: {error.strerror or error}", "nothing was removed; give another file"
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            removal.remove_tree(self._dir_fd, self._temporary)
        finally:
            os.close(self._dir_fd)

    def _sweep(self) -> None:
        for name in os.listdir(self._dir_fd):
            middle = name[len(self._base) + 1 : -4]
            if name == f"{self._base}.{middle}.tmp" and len(middle) == 16 and set(middle) <= set("0123456789abcdef"):
                removal.remove_tree(self._dir_fd, name)

    def publish(self) -> None:
        """Give the files their names, on disk before this returns."""
        for path in sorted(self.sizes, reverse=True):  # the bundle last
            name = os.path.basename(path)
            made = "bundle" if name == self._base else "archive"
            os.rename(f"{self._temporary}/{made}", name, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
        os.fsync(self._dir_fd)

    # --- the whole

    def _write(self) -> None:
        if self._work.obstacles:
            raise WorkcellError(self._work.obstacles[0])
        own, *nested = self._work.repositories
        bundle, files = os.path.join(self._at, "bundle"), os.path.join(self._at, "archive")
        if self._write_bundle(own, bundle):
            self.sizes[self._path] = os.stat(bundle).st_size
        if nested or self._work.status:
            archive = _Archive(files, self._workspace)
            try:
                self._fill(archive, nested)
                archive.close()
            finally:
                archive.release()
            self.sizes[self._path + ".tar"] = os.stat(files).st_size

    def _fill(self, archive: "_Archive", nested: "list[holdings.Repository]") -> None:
        archive.add_bytes("status", self._work.status.encode("utf-8", "surrogateescape"))
        for path in self._work.files:
            archive.add_path(path)
        for folder in self._work.folders:
            archive.add_folder(folder)
        for number, repository in enumerate(nested):
            bundle = os.path.join(self._at, f"nested-{number}")
            if self._write_bundle(repository, bundle):
                archive.add_file(b"repositories/" + repository.name + b".bundle", bundle)
                os.unlink(bundle)

    # --- one bundle

    def _write_bundle(self, repository: holdings.Repository, path: str) -> bool:
        """Write the bundle of a repository; say whether there was anything for it."""
        tips = list(repository.tips)
        asked = self._work.inquiry
        if repository.staged:
            tips.append((_STAGED, asked.staged_commit(repository.git_dir)))
        if not tips:
            return False
        ids = sorted({oid for _, oid in tips})
        form = objects.format_of(ids[0])
        # The folder above is closed; of what is in it the sandbox's user gets to see the one with the pack.
        place = os.path.join(self._at, "pack")
        os.mkdir(place, 0o755)
        os.chmod(place, 0o755)
        pack = os.path.join(place, "0.pack")
        with open(pack, "w+b") as stream:
            os.fchmod(stream.fileno(), 0o644)
            disk = os.fstatvfs(stream.fileno())
            free = disk.f_bavail * disk.f_frsize
            try:
                asked.pack(repository.git_dir, ids, repository.staged, stream.fileno(), free)
            except WorkcellError:
                if os.fstat(stream.fileno()).st_size + _PIECE > free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
                raise
            shallow = () if repository.name else self._shallow
            why = inquiry.prove(place, "0.pack", form, ids, shallow)
            if why:
                raise WorkcellError(f"the objects of {quoted(repository.git_dir)}", f"are not all there: {why}")
            header = b"# v2 git bundle\n" if form == "sha1" else b"# v3 git bundle\n@object-format=sha256\n"
            header += b"".join([b"%s %s\n" % (oid.encode(), name) for name, oid in tips]) + b"\n"
            _join(header, stream, path, form)
        removal.remove_tree(self._dir_fd, f"{self._temporary}/pack")
        return True


_NEXT_STEP = "nothing was removed; give --discard-work to do without what is in it"


def _join(header: bytes, pack: "IO[bytes]", path: str, form: str) -> None:
    """Write a header and a pack into one file, and read that again: the pack ends with its own digest."""
    with open(_create(path), "w+b") as bundle:
        bundle.write(header)
        pack.seek(0)
        while part := pack.read(_PIECE):
            bundle.write(part)
        bundle.flush()
        os.fsync(bundle.fileno())
        size = 20 if form == "sha1" else 32
        left = os.fstat(bundle.fileno()).st_size - len(header) - size
        bundle.seek(0)
        digest = hashlib.new(form, usedforsecurity=False)
        good = bundle.read(len(header)) == header
        while left > 0 and (part := bundle.read(min(left, _PIECE))):
            digest.update(part)
            left -= len(part)
        if not good or left or bundle.read() != digest.digest():
            raise UnreadableError(path, "does not hold what was written to it")


def _create(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


class _Archive:
    """A tar archive of what stands in a clone, read by descriptors, no link followed; read again when it is closed."""

    def __init__(self, path: str, workspace: str) -> None:
        import tarfile

        self._tar = tarfile
        self._stream = open(_create(path), "w+b")
        self._root = worktree.open_folder(workspace)
        self._archive = tarfile.open(
            fileobj=self._stream, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        )
        self._written: dict[str, str] = {}  # name to a digest of its content

    def add_bytes(self, name: str, content: bytes) -> None:
        import io

        self._add(self._entry(name, len(content)), io.BytesIO(content))

    def add_file(self, name: bytes, path: str) -> None:
        """Add a file of ours."""
        with open(path, "rb") as stream:
            self._add(self._entry(os.fsdecode(name), os.fstat(stream.fileno()).st_size), stream)

    def add_path(self, path: bytes) -> None:
        """Add a file or link of the clone as it stands; one that is gone, or is neither, has nothing to be saved."""
        name = "worktree/" + os.fsdecode(path)
        if name in self._written:
            return
        try:
            dir_fd, last = worktree.find(self._root, path)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            found = os.stat(last, dir_fd=dir_fd, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                entry = self._entry(name, 0, found)
                entry.type, entry.linkname = self._tar.SYMTYPE, os.fsdecode(os.readlink(last, dir_fd=dir_fd))
                self._add(entry, None)
            elif stat.S_ISREG(found.st_mode):
                with open(worktree.open_file(last, dir_fd), "rb") as stream:
                    now = os.fstat(stream.fileno())
                    if not stat.S_ISREG(now.st_mode):
                        raise UnreadableError(quoted(path), "changes while it is read")
                    self._add(self._entry(name, now.st_size, now), stream)
        except FileNotFoundError:
            return
        finally:
            os.close(dir_fd)

    def add_folder(self, folder: bytes) -> None:
        """Add all files and links in a folder of the clone, but for git directories."""
        parent_fd, name = worktree.find(self._root, folder)
        try:
            fd = worktree.open_folder(name, parent_fd)
        finally:
            os.close(parent_fd)
        try:
            walk = worktree.Walk(fd, float("inf"))
            for path, _, _, kind in walk.entries():
                if kind in (worktree.FILE, worktree.LINK):
                    self.add_path(folder + b"/" + path)
            if walk.stopped or walk.problems:
                path, why = walk.problems[0] if walk.problems else (b"", walk.stopped)
                raise WorkcellError(quoted(folder + b"/" + path), why)
        finally:
            os.close(fd)

    def close(self) -> None:
        """End the archive, and read all of it again; raise UnreadableError where it is not what was written."""
        self._archive.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.seek(0)
        found = {}
        with self._tar.open(fileobj=self._stream, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() else None
                found[entry.name] = _digest(content) if content else "link " + entry.linkname
        if found != self._written:
            raise UnreadableError("the archive", "does not hold what was written to it")

    def release(self) -> None:
        self._stream.close()
        os.close(self._root)

    def _entry(self, name: str, size: int, found: "os.stat_result | None" = None) -> "tarfile.TarInfo":
        entry = self._tar.TarInfo(name)
        entry.size = size
        entry.mode = 0o755 if found is not None and found.st_mode & 0o100 else 0o644
        entry.mtime = int(found.st_mtime) if found is not None and found.st_mtime > 0 else 0
        return entry

    def _add(self, entry: "tarfile.TarInfo", stream: "IO[bytes] | None") -> None:
        if stream is None:
            self._archive.addfile(entry)
            self._written[entry.name] = "link " + entry.linkname
            return
        reader = _Reader(stream)
        self._archive.addfile(entry, reader)  # type: ignore[arg-type]
        self._written[entry.name] = reader.digest.hexdigest()


class _Reader:
    """A file that is hashed as it is read."""

    def __init__(self, stream: "IO[bytes]") -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


def _digest(stream: "IO[bytes]") -> str:
    digest = hashlib.sha256()
    while part := stream.read(_PIECE):
        digest.update(part)
    return digest.hexdigest()
