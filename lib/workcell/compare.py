"""A session's workspace against its base: every difference there is, and no git of the host near what the agent could write.

The base comes from where the agent cannot reach, and is checked by its ids. The work tree is walked, read and hashed here.
Which line ends, encodings and ignored names count is up to the base's own rules, never to those that stand in the workspace
now. Only what was staged, committed and tracked is asked of the workspace's own repository, inside a sandbox, and it decides
about nothing but how a difference is called. See workcell-session-diff(5).
"""

import hashlib
import os
import stat

from workcell import baseline, clock, conversion, objects, output, worktree
from workcell.errors import UnreadableError, WorkcellError
from workcell.inquiry import Answers, Commit, Inquiry, odd_in_git_dir, odd_keys, watched_files
from workcell.objects import COMMIT, FILE, LINK, PROGRAM
from workcell.worktree import OutOfTime, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

TIME_LIMIT_S = 600.0
FILE_LIMIT_BYTES = 32 << 20  # of one file that is shown
TOTAL_LIMIT_BYTES = 128 << 20  # of all that is shown
REPOSITORIES_LIMIT = 100
TIPS_LIMIT = 20
TIP_ENTRIES_LIMIT = 100_000
_NOTES_OF_A_KIND = 20

_RULES = (b".gitattributes", b".gitignore", b".gitmodules")
_UNMERGED = {1: "DD", 2: "AU", 3: "UD", 4: "UA", 5: "DU", 6: "AA", 7: "UU"}


class Entry:
    """What a path of the workspace is now.

    mode: as in a tree; oid: the id that git would give it; raw: the id of the content as it stands; size: in bytes. An id is ""
    where the file was not read.
    """

    __slots__ = ("mode", "oid", "raw", "size")

    def __init__(self, mode: str, oid: str, raw: str, size: int) -> None:
        self.mode, self.oid, self.raw, self.size = mode, oid, raw, size


class Change:
    """One path that differs: old and new are (mode, id), None where it is not there."""

    __slots__ = ("old", "new")

    def __init__(self, old: "tuple[str, str] | None", new: "tuple[str, str] | None") -> None:
        self.old, self.new = old, new


class Module:
    """A repository inside the workspace that a commit names (a submodule).

    recorded: the commit that belongs there; head: the one that is checked out, "" where that is not known; modified, untracked:
    whether files of it are; unknown: whether that could not be told.
    """

    __slots__ = ("recorded", "head", "modified", "untracked", "unknown")

    def __init__(self, recorded: str, head: str) -> None:
        self.recorded, self.head = recorded, head
        self.modified = self.untracked = self.unknown = False

    def letter(self, indexed: str) -> str:
        """Return how `git status --short` marks it; indexed: the commit that the index has for it."""
        if self.head not in ("", indexed):
            return "M"
        return "m" if self.modified else "?" if self.untracked else " "

    def kinds(self) -> list[str]:
        """Return what is to be said of it, in words."""
        moved = [f"its commit moved from {self.recorded} to {self.head}"] if self.head not in ("", self.recorded) else []
        return [*moved, *(["modified content"] * self.modified), *(["untracked content"] * self.untracked)]


class Tip:
    """What a ref has that is not in the work tree: its names, commit, and changes since the base."""

    __slots__ = ("names", "commit", "changes", "old_tree", "new_tree")

    def __init__(self, names: list[bytes], commit: str) -> None:
        self.names, self.commit = names, commit
        self.changes: dict[bytes, Change] = {}
        self.old_tree = self.new_tree = ""


def check(fields: "dict[str, Any]") -> None:
    """Raise WorkcellError, with the first reason, where a session has nothing that a difference could be shown of."""
    session_id, path = fields["session_id"], fields["workspace"]
    if not path:
        raise WorkcellError(session_id, "its record names no workspace", "see workcell-session-show")
    if os.path.islink(path) or not os.path.isdir(path):
        raise WorkcellError(path, "the recorded workspace is not there", "see workcell-session-show")
    if not fields["git_base"]:
        if fields["git_head"]:
            raise WorkcellError(
                session_id, "the workspace had changes when it was started, so there is no base", "start from a clean workspace"
            )
        raise WorkcellError(session_id, "its record has no git metadata", "start it from a git work tree")
    git_dir = os.path.join(path, ".git")
    if os.path.islink(git_dir) or os.path.isfile(git_dir):
        raise WorkcellError(
            path, "its .git leads elsewhere, so it does not hold its repository itself", "see what it leads to before using it"
        )
    if not os.path.lexists(os.path.join(git_dir, "HEAD")) or not os.path.isdir(os.path.join(git_dir, "objects")):
        raise WorkcellError(path, "the recorded workspace is no git work tree any more", "see what became of it")


class Comparison:
    """All that differs between a session's workspace and its base; a context manager, since it has a folder of its own.

    changes: path to Change, of what is tracked (and of all where untracked files are asked for); status: (two letters, path,
    path before a rename or b""), as `git status --short` has them; untracked: paths, those of repositories with a slash at the
    end; ignored: how many files; modules: path to Module; repositories: folders with a `.git` of their own, and whether it is
    one to git; answers: what the workspace's repository says, None where it cannot be told; tips: what refs have beyond the
    work tree; unshown: changed paths whose content is not shown, with the reason; base, inquiry: what it is compared with, and
    who is asked; root_fd: the open workspace;
    notes: in words; incomplete: why this is not all, "" when it is.
    """

    def __init__(self, fields: "dict[str, Any]", profile_dir: str, show_untracked: bool = False) -> None:
        check(fields)
        self.fields, self._show_untracked = fields, show_untracked
        self.changes: dict[bytes, Change] = {}
        self.status: list[tuple[str, bytes, bytes]] = []
        self.untracked: list[bytes] = []
        self.ignored = 0
        self.modules: dict[bytes, Module] = {}
        self.answers: Answers | None = None
        self.tips: list[Tip] = []
        self.unshown: dict[bytes, str] = {}
        self.notes: list[str] = []
        self.incomplete = ""
        self.old_tree = self.new_tree = ""
        self._deadline = clock.monotonic_s() + TIME_LIMIT_S
        self._left_bytes = TOTAL_LIMIT_BYTES
        self._now: dict[bytes, Entry] = {}
        self._others: dict[bytes, str] = {}
        self._folders: set[bytes] = set()
        self.repositories: dict[bytes, bool] = {}
        self._hidden: set[bytes] = set()  # what could not be looked at, folders with all in them
        self._dropped: set[bytes] = set()  # what the base has and the index has no more
        self._stopped = self._has_attributes = False
        self._attributes: dict[bytes, dict[str, str]] = {}
        self.base = baseline.of_session(fields, profile_dir)
        self._workspace = fields["workspace"]
        self.inquiry = Inquiry(self._workspace, fields["workspace_origin"] or self._workspace, self.base.form)
        self.scratch = baseline.Scratch(self.base.form)
        try:
            self.root_fd = worktree.open_folder(self._workspace)
        except OSError as error:
            self.scratch.__exit__()
            raise WorkcellError(self._workspace, f"the recorded workspace cannot be opened: {error.strerror}", "") from None

    def __enter__(self) -> "Comparison":
        try:
            self._compare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.root_fd)
        self.scratch.__exit__()

    @property
    def pinned(self) -> set[str]:
        """The commits of submodules that the base names."""
        return {oid for mode, oid in self._files.values() if mode == COMMIT}

    @property
    def commits(self) -> list[Commit]:
        """The commits that the source does not have, newest first."""
        return self.answers.commits if self.answers else []

    # --- the whole way

    def _compare(self) -> None:
        base = self.base
        odd = odd_in_git_dir(self.root_fd, self._deadline)
        if odd:
            path, what = odd[0]
            self.inquiry.why_not = f"its {quoted(b'.git/' + path)} is {what}"
        host = [self._host_place] if base.objects_dir else []
        self._store = objects.Store(base.form, [*host, self.inquiry.place()])
        tree = self._store.commit_tree(base.commit)
        if not tree:
            raise WorkcellError(
                base.commit,
                "the base commit is not in the repository any more",
                self.inquiry.why_not or "the objects of the base were removed",
            )
        listing = self._store.listing(tree)
        self._files, self._trees = listing.files, listing.trees
        self._pack = objects.Pack(os.path.join(self.scratch.git_dir, "objects/pack/pack-0.pack"), base.form)
        self._write_rules(self._files, b"")
        self._ask()
        self._walk()
        self._settle_modules()
        self._sort_others()
        if self.answers is not None:
            tracked = {*self.answers.index, *self.answers.unmerged}
            self._dropped = {path for path in self._now if path in self._files and path not in tracked}
        self._look_closer()
        self._find_deleted()
        self._letter()
        self._look_at_tips()
        self._finish_pack()
        self._note_all(odd)

    def _host_place(self, words: list[str], stdin: bytes) -> bytes:
        return self.scratch.git(words, stdin, self.base.objects_dir).stdout

    def _ask(self) -> None:
        self.answers = self.inquiry.ask(self.base.known)
        if self.answers is not None:
            if self._files and not self.answers.index and not self.answers.unmerged:
                self.notes.append("its index is empty; what the base has is taken for tracked")
                self.answers.index, self.answers.staged = dict(self._files), []
            return
        self.notes.append(
            f"cannot tell what was staged, committed or tracked: {self.inquiry.why_not}; every new file is listed as untracked"
        )

    # --- the base's rules

    def _write_rules(self, files: "dict[bytes, tuple[str, str]]", prefix: bytes, store: "objects.Store | None" = None) -> None:
        """Put the attributes and ignore files of a commit where our git finds them, and nothing else."""
        wanted: dict[str, list[bytes]] = {}
        for path, (mode, oid) in files.items():
            if path.rpartition(b"/")[2] in _RULES[:2] and mode in (FILE, PROGRAM):
                wanted.setdefault(oid, []).append(prefix + path)
        for oid, content in (store or self._store).blobs(wanted, 1 << 20):
            for path in wanted[oid]:
                target = os.path.join(os.fsencode(self.scratch.rules_dir), path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as stream:
                    stream.write(content)
        self._has_attributes = self._has_attributes or bool(wanted) or bool(self.base.settings.get("core.autocrlf"))
        if self.base.rules and not prefix:
            for name in ("attributes", "exclude"):
                source = os.path.join(self.base.rules, "info", name)
                if os.path.isfile(source):
                    self._has_attributes = True
                    with open(source, "rb") as original, open(os.path.join(self.scratch.git_dir, "info", name), "wb") as copy:
                        copy.write(original.read())

    def _learn_attributes(self, paths: "Collection[bytes]") -> None:
        if not paths or not self._has_attributes:
            return
        done = self.scratch.git(["check-attr", "-z", "--stdin", *conversion.ATTRIBUTES], b"\0".join(paths) + b"\0")
        words = done.stdout.split(b"\0")
        for at in range(0, len(words) - 2, 3):
            self._attributes.setdefault(words[at], {})[words[at + 1].decode()] = words[at + 2].decode("utf-8", "replace")

    def _of(self, path: bytes) -> dict[str, str]:
        return self._attributes.get(path, {})

    def _ignored_of(self, paths: "Collection[bytes]") -> set[bytes]:
        """Return those of some paths that the base's rules ignore."""
        if not paths:
            return set()
        # A name that begins with a colon would be taken for more than a name.
        asked = b"".join([b"./" + path + b"\0" for path in paths])
        done = self.scratch.git(["check-ignore", "-z", "--stdin", "--no-index"], asked)
        if done.exit_status > 1:
            self.notes.append(f"cannot tell what is ignored: {output.printable(done.reason())}")
            return set()
        return {path[2:] for path in done.stdout.split(b"\0")[:-1]}

    # --- the walk

    def _walk(self) -> None:
        walk = worktree.Walk(self.root_fd, self._deadline, frozenset((b".git",)))
        index = self.answers.index if self.answers else {}
        unmerged = self.answers.unmerged if self.answers else {}
        self._closer: list[bytes] = []
        self._large: list[bytes] = []
        self._specials: list[tuple[bytes, str]] = []
        for path, dir_fd, name, kind in walk.entries():
            if kind == worktree.FOLDER:
                self._folders.add(path)
            elif kind == worktree.SPECIAL:
                self._specials.append((path, worktree.special_kind(dir_fd, name)))
            elif kind == worktree.REPOSITORY:
                self.repositories[path[:-5]] = _is_repository(dir_fd)
            elif path in self._files or path in index or path in unmerged:
                try:
                    self._look(path, dir_fd, name, kind)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._unreadable(path, error.strerror or str(error))
            else:
                self._others[path] = kind
        for path, why in walk.problems:
            self._unreadable(path, why)
        if walk.stopped:
            self._stop(walk.stopped)

    def _stop(self, why: str) -> None:
        self._stopped = True
        self.incomplete = why

    def _unreadable(self, path: bytes, why: str) -> None:
        self._hidden.add(path)
        self.incomplete = self.incomplete or f"{quoted(path)}: {why}"

    def _look(self, path: bytes, dir_fd: int, name: bytes, kind: str) -> None:
        """Compare one path that is known with the base; where it is not plainly the same, it is looked at again later."""
        old = self._files.get(path)
        if kind == worktree.LINK:
            target = os.readlink(name, dir_fd=dir_fd)
            oid = objects.object_id(self.base.form, "blob", target)
            self._now[path] = Entry(LINK, oid, oid, len(target))
            if old != (LINK, oid):
                self._closer.append(path)
            return
        fd = worktree.open_file(name, dir_fd)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return
            entry = self._now[path] = Entry(self._mode(found.st_mode, old), "", "", found.st_size)
            if found.st_size > FILE_LIMIT_BYTES:
                self._large.append(path)
            elif old is None:
                self._closer.append(path)
            else:
                entry.oid = entry.raw = objects.object_id(self.base.form, "blob", worktree.read(fd, found.st_size))
                if (entry.mode, entry.oid) != old:
                    self._closer.append(path)
        finally:
            os.close(fd)

    def _mode(self, bits: int, old: "tuple[str, str] | None") -> str:
        mode = PROGRAM if bits & 0o100 else FILE
        if old is not None and old[0] in (FILE, PROGRAM) and _is_off(self.base.settings.get("core.filemode")):
            return old[0]
        if old is not None and old[0] == LINK and _is_off(self.base.settings.get("core.symlinks")):
            return LINK
        return mode

    # --- repositories inside

    def _settle_modules(self) -> None:
        index = self.answers.index if self.answers else {}
        recorded = {path: oid for path, (mode, oid) in {**index, **self._files}.items() if mode == COMMIT}
        present = [path for path in sorted(recorded) if self.repositories.get(path)]
        asked = present[:REPOSITORIES_LIMIT]
        heads = self.inquiry.heads(asked) if asked else {}
        others = sorted(self._others) if present else []
        for path, oid in recorded.items():
            if path in self._folders and path not in self._now:
                module = self.modules[path] = Module(oid, heads.get(path, ""))
                self._now[path] = Entry(COMMIT, module.head or oid, module.head or oid, 0)
                if path in present and not module.head:
                    module.unknown = True
                    why = self.inquiry.why_not if path in asked else f"there are more than {REPOSITORIES_LIMIT} of them"
                    self.notes.append(f"submodule {quoted(path)}: cannot tell what is in it{': ' if why else ''}{why}")
                if path in present:
                    self._settle_module(path, module, _below(path, others))

    def _settle_module(self, path: bytes, module: Module, inside: list[bytes]) -> None:
        """Compare the files of a submodule with the commit that it has checked out, and say what kind of changes there are."""
        prefix = path + b"/"
        form = self.base.form
        files: dict[bytes, tuple[str, str]] | None = None
        if module.head:
            form = objects.format_of(module.head)
            store = objects.Store(form, [self.inquiry.place(path)])
            try:
                tree = store.commit_tree(module.head)
                files = store.listing(tree).files if tree else None
                # Rules count only from a commit that the base names.
                pinned = store.commit_tree(module.recorded) if path in self._files else ""
                if pinned:
                    self._write_rules(store.listing(pinned).files, prefix, store)
            except (WorkcellError, OSError):
                files = None
            if files is None:
                module.unknown = True
                self.notes.append(f"submodule {quoted(path)}: cannot tell what is in it: commit {module.head} is incomplete")
        for other in inside:
            kind = self._others.pop(other, worktree.FILE)
            old = None if files is None else files.pop(other[len(prefix) :], None)
            if files is not None and old is None:
                self._others[other] = kind  # untracked, unless it is ignored
            elif old is not None and not self._is_same(other, old, form):
                module.modified = True
        if files and any(mode != COMMIT for mode, _ in files.values()):
            module.modified = True

    def _is_same(self, path: bytes, old: tuple[str, str], form: str) -> bool:
        content = self._content(path)
        if content is None:
            return False
        mode, data = content
        same = objects.object_id(form, "blob", data) == old[1]
        if not same and b"\r\n" in data:
            same = objects.object_id(form, "blob", data.replace(b"\r\n", b"\n")) == old[1]
        return same and mode == old[0]

    def _sort_others(self) -> None:
        """Part what no commit and no index knows into untracked, ignored, and the inside of other repositories."""
        paths = [*self._others]
        known = {*self._trees, *_folders_of(self.answers.index if self.answers else ())}
        foreign = [
            path for path, real in sorted(self.repositories.items()) if real and path not in self.modules and path not in known
        ]
        ignored = self._ignored_of([*paths, *(path + b"/_" for path in foreign)])
        groups: dict[bytes, int] = {path: 0 for path in foreign if path + b"/_" not in ignored}
        found = []
        for path in paths:
            if path in ignored:
                self.ignored += 1
                del self._others[path]
                continue
            owner = _owner(path, groups)
            module = _owner(path, self.modules) if owner is None else None
            if owner is not None:
                groups[owner] += 1
                del self._others[path]
            elif module is not None and self.repositories.get(module):
                self.modules[module].untracked = True
                del self._others[path]
            else:
                found.append(path)
        outer = [path for path in groups if _owner(path, groups) is None]
        self.untracked = sorted([*found, *(path + b"/" for path in outer)])
        self._foreign = [(path, groups[path]) for path in outer]

    # --- what differs

    def _content(self, path: bytes) -> "tuple[str, bytes] | None":
        """Return (mode, content) of a path as it is now, None where it is gone, no file, or too large."""
        try:
            dir_fd, name = worktree.find(self.root_fd, path)
        except OSError:
            return None
        try:
            try:
                return LINK, os.readlink(name, dir_fd=dir_fd)
            except OSError:
                fd = worktree.open_file(name, dir_fd)
        except OSError:
            return None
        finally:
            os.close(dir_fd)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_LIMIT_BYTES:
                return None
            return self._mode(found.st_mode, self._files.get(path)), worktree.read(fd, found.st_size)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _look_closer(self) -> None:
        """Find out about each path that is not plainly the same: read it again, as git would take it in."""
        if self._show_untracked:
            new = [path for path in self.untracked if not path.endswith(b"/")]
        else:
            new = []
        paths = [*self._closer, *new]
        self._learn_attributes([*paths, *self._large])
        sizes = self._store.sizes({self._files[path][1] for path in [*paths, *self._large] if path in self._files})
        part: list[bytes] = []
        together = 0
        for path in sorted(paths):
            size = sizes.get(self._files[path][1], 0) if path in self._files else 0
            if part and together + size > objects.PART_BYTES:
                self._take_in(part, sizes)
                part, together = [], 0
            part.append(path)
            together += min(size, FILE_LIMIT_BYTES)
        self._take_in(part, sizes)
        for path in self._large:
            self._look_at_large(path, sizes.get(self._files[path][1], -1) if path in self._files else -1)

    def _take_in(self, paths: list[bytes], sizes: dict[str, int]) -> None:
        old = {path: self._files[path] for path in paths if path in self._files}
        wanted = {oid for mode, oid in old.values() if mode != COMMIT}
        stored = dict(self._store.blobs(wanted, FILE_LIMIT_BYTES))
        for path in paths:
            if self._stopped or clock.monotonic_s() > self._deadline:
                self._stop("it takes too long")
                self._hidden.add(path)
                continue
            content = self._content(path)
            if content is None:
                self._gone_or_large(path)
                continue
            mode, data = content
            mode_of_old, old_id = old.get(path, ("", ""))
            before = stored.get(old_id)
            raw = objects.object_id(self.base.form, "blob", data)
            entry = self._now[path] = Entry(mode, raw, raw, len(data))
            if mode != LINK and raw != old_id:
                of_base = before if mode_of_old in (FILE, PROGRAM) else None
                data = conversion.to_git(data, self._of(path), self.base.settings, of_base)
                entry.oid = objects.object_id(self.base.form, "blob", data)
            if (mode, entry.oid) == (mode_of_old, old_id):
                continue
            self.changes[path] = Change(old.get(path), (mode, entry.oid))
            if mode_of_old not in ("", COMMIT) and before is None:
                self._hide_old(path, sizes)
                continue
            self._show(path, [blob for blob in (before, data) if blob is not None])

    def _show(self, path: bytes, blobs: list[bytes]) -> None:
        self._left_bytes -= sum(map(len, blobs))
        if self._left_bytes < 0:
            self._hide(path, f"there is more than {TOTAL_LIMIT_BYTES} bytes to show")
            return
        for blob in blobs:
            self._pack.add("blob", blob)

    def _hide(self, path: bytes, why: str) -> None:
        self.unshown[path] = why

    def _hide_old(self, path: bytes, sizes: dict[str, int]) -> None:
        """Do without the difference to a file of the base that is too large, or cannot be had."""
        oid = self._files[path][1]
        if sizes.get(oid, 0) > FILE_LIMIT_BYTES:
            self._hide(path, f"the base's file has {sizes[oid]} bytes, more than {FILE_LIMIT_BYTES}")
            return
        self._hide(path, f"the base's file {oid} is missing or damaged")
        self.incomplete = self.incomplete or f"{quoted(path)}: {self.unshown[path]}"

    def _gone_or_large(self, path: bytes) -> None:
        """Deal with a path that was a file of ordinary size when the walk passed, or is untracked and large."""
        entry = self._now.pop(path, None)
        try:
            dir_fd, name = worktree.find(self.root_fd, path)
        except OSError:
            return
        try:
            found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return
        finally:
            os.close(dir_fd)
        if not stat.S_ISREG(found.st_mode):
            return
        self._now[path] = Entry(entry.mode if entry else self._mode(found.st_mode, None), "", "", found.st_size)
        if found.st_size > FILE_LIMIT_BYTES:
            self._large.append(path)
        else:
            self._unreadable(path, "cannot be read")

    def _look_at_large(self, path: bytes, base_size: int) -> None:
        """Compare a file that is too large to be shown: by its size, and where that is the base's by its digest."""
        entry = self._now.get(path)
        if entry is None:
            return
        old = self._files.get(path)
        if old is not None and old[0] in (FILE, PROGRAM):
            if entry.size == base_size:
                header = b"blob %d\0" % entry.size
                if self._digest(path, entry.size, self.base.form, header) == old[1]:
                    entry.oid = entry.raw = old[1]
            elif 0 <= base_size < 4096 and self._of(path).get("filter") == "lfs":
                pointed = conversion.pointed_at(dict(self._store.blobs([old[1]], 4096)).get(old[1], b""))
                if pointed is not None and pointed[1] == entry.size:
                    if self._digest(path, entry.size, "sha256", b"") == pointed[0]:
                        entry.oid = entry.raw = old[1]
            if (entry.mode, entry.oid) == old:
                return
        if path in self._files or path not in self._others or self._show_untracked:
            self.changes[path] = Change(old, (entry.mode, entry.oid))
            self._hide(path, f"it has {entry.size} bytes, more than {FILE_LIMIT_BYTES}")

    def _digest(self, path: bytes, size: int, algorithm: str, header: bytes) -> str:
        digest = hashlib.new(algorithm, header, usedforsecurity=False)
        try:
            dir_fd, name = worktree.find(self.root_fd, path)
            try:
                fd = worktree.open_file(name, dir_fd)
            finally:
                os.close(dir_fd)
            try:
                for part in worktree.chunks(fd, size, self._deadline):
                    digest.update(part)
            finally:
                os.close(fd)
        except OutOfTime:
            self._stop("it takes too long")
            return ""
        except OSError as error:
            self._unreadable(path, error.strerror or str(error))
            return ""
        return digest.hexdigest()

    def _find_deleted(self) -> None:
        for path, old in self._files.items():
            entry = self._now.get(path)
            if entry is None:
                if not self._may_be_there(path):
                    self.changes[path] = Change(old, None)
            elif path in self._dropped and path not in self.changes and not self._show_untracked:
                # Taken out of the index, though it is still there: for git it is deleted, and an untracked file. Where it
                # is changed as well, that is what has to be seen.
                self.changes[path] = Change(old, None)
            elif path in self.modules and (COMMIT, entry.oid) != old:
                self.changes[path] = Change(old, (COMMIT, entry.oid))
        for path in self.modules:
            if path not in self._files:
                self.changes[path] = Change(None, (COMMIT, self._now[path].oid))

    def _may_be_there(self, path: bytes) -> bool:
        """Say whether a path that was not found is missing by intention, or only was not looked for."""
        hidden = path in self._hidden or b"." in self._hidden or _owner(path, self._hidden) is not None
        return self._stopped or hidden or path in self.base.absent

    # --- status

    def _letter(self) -> None:
        """Put together what `git status --short` would say, were it not misled."""
        rows: dict[bytes, list[Any]] = {}
        index: dict[bytes, tuple[str, str]] = self._files
        unmerged: dict[bytes, set[int]] = {}
        if self.answers is not None:
            index, unmerged = self.answers.index, self.answers.unmerged
            for letter, path, before in self.answers.staged:
                rows[path] = [letter, " ", before]
        for path, (mode, oid) in index.items():
            letter = self._letter_of(path, mode, oid)
            if letter != " ":
                rows.setdefault(path, [" ", " ", b""])[1] = letter
        for path, stages in unmerged.items():
            both = _UNMERGED.get(sum(1 << stage - 1 for stage in stages), "UU")
            rows[path] = [both[0], both[1], b""]
        self.status = [(row[0] + row[1], path, row[2]) for path, row in sorted(rows.items())]
        self.untracked = sorted([*self.untracked, *(path for path in self._dropped if path not in self.modules)])

    def _letter_of(self, path: bytes, mode: str, oid: str) -> str:
        entry = self._now.get(path)
        if entry is None:
            return " " if self._may_be_there(path) else "D"
        if path in self.modules:
            return self.modules[path].letter(oid) if mode == COMMIT else "T"
        if mode[:2] != entry.mode[:2]:
            return "T"
        return " " if mode == entry.mode and oid in (entry.oid, entry.raw) else "M"

    # --- other branches

    def _look_at_tips(self) -> None:
        """Find what branches, tags and the stash have that is not part of what is checked out."""
        if self.answers is None or not self.answers.commits:
            return
        here = self.answers.reached_by_head()
        elsewhere = {commit.oid: commit for commit in self.answers.commits if commit.oid not in here}
        names: dict[str, list[bytes]] = {}
        for name, oid in sorted(self.answers.refs.items()):
            if oid in elsewhere and not name.startswith(b"refs/replace/"):
                names.setdefault(oid, []).append(name)
        if len(names) > TIPS_LIMIT:
            self.notes.append(f"{len(names)} refs have commits of their own; {TIPS_LIMIT} of them are shown")
        for oid in list(names)[:TIPS_LIMIT]:
            tip = Tip(names[oid], oid)
            try:
                self._look_at_tip(tip)
            except WorkcellError as error:
                self.notes.append(f"{quoted(names[oid][0])}: cannot be shown: {error}")
                continue
            self.tips.append(tip)

    def _look_at_tip(self, tip: Tip) -> None:
        tree = self._store.commit_tree(tip.commit)
        if not tree:
            raise UnreadableError(f"commit {tip.commit}", "is missing or damaged")
        listing = self._store.listing(tree, self._trees, TIP_ENTRIES_LIMIT)
        skipped = {*listing.skipped}
        for path, new in listing.files.items():
            if self._files.get(path) != new:
                tip.changes[path] = Change(self._files.get(path), new)
        if tree != self._trees[b""]:
            for path, old in self._files.items():
                if path not in listing.files and not _within(path, skipped):
                    tip.changes[path] = Change(old, None)
        ends = [end for change in tip.changes.values() for end in (change.old, change.new) if end and end[0] != COMMIT]
        sizes = self._store.sizes({oid for _, oid in ends})
        if sum(sizes.values()) > self._left_bytes or any(size > FILE_LIMIT_BYTES for size in sizes.values()):
            raise objects.TooLargeError(f"commit {tip.commit}", "has more than can be shown")
        self._left_bytes -= sum(sizes.values())
        found = {oid: self._pack.add("blob", content) for oid, content in self._store.blobs(sizes, FILE_LIMIT_BYTES)}
        if any(oid not in found for _, oid in ends):
            raise UnreadableError(f"commit {tip.commit}", "lacks files")
        tip.old_tree, tip.new_tree = self._add_trees(tip.changes, ())

    # --- for git to print

    def _add_trees(self, changes: dict[bytes, Change], leave_out: "Collection[bytes]") -> tuple[str, str]:
        """Add two trees that hold just what differs; return their ids."""
        shown = {path: change for path, change in changes.items() if path not in leave_out}
        old = self._pack.add_tree({path: change.old for path, change in shown.items() if change.old})
        new = self._pack.add_tree({path: change.new for path, change in shown.items() if change.new})
        return old, new

    def _finish_pack(self) -> None:
        gone = [path for path, change in self.changes.items() if change.new is None and change.old and change.old[0] != COMMIT]
        wanted = {self._files[path][1] for path in gone}
        sizes = self._store.sizes(wanted)
        kept = set()
        for _, content in self._store.blobs([oid for oid in sizes if sizes[oid] <= self._left_bytes], FILE_LIMIT_BYTES):
            self._left_bytes -= len(content)
            if self._left_bytes >= 0:
                kept.add(self._pack.add("blob", content))
        for path in gone:
            oid = self._files[path][1]
            if oid not in kept and 0 <= sizes.get(oid, -1) <= FILE_LIMIT_BYTES and self._left_bytes < sizes[oid]:
                self._hide(path, f"there is more than {TOTAL_LIMIT_BYTES} bytes to show")
            elif oid not in kept:
                self._hide_old(path, sizes)
        dirty = [path for path, module in self.modules.items() if module.modified]
        self.old_tree, self.new_tree = self._add_trees(self.changes, {*self.unshown, *dirty})
        self._pack.close()
        done = self.scratch.git(["index-pack", self._pack.path])
        if done.exit_status != 0:
            raise WorkcellError("git index-pack", done.reason(), "report this")

    # --- what is to be said besides

    def _note_all(self, odd: "list[tuple[bytes, str]]") -> None:
        self._note("special files are not read", [f"{quoted(path)} ({what})" for path, what in self._specials])
        self._note("git could be held up or led away by", [f"{quoted(b'.git/' + path)} ({what})" for path, what in odd])
        self._note(
            "changed, and taken out of the index", [quoted(path) for path in sorted(self._dropped & self.changes.keys())]
        )
        rules = [path for path in sorted(self.changes) if path.rpartition(b"/")[2] in _RULES]
        rules += [path for path in self.untracked if path.rpartition(b"/")[2] in _RULES]
        self._note("rules for git that were changed, and those of the base are used", [quoted(path) for path in rules])
        self._note("files of the git directory that were changed, and are not used", self._changed_in_git_dir())
        self._note(
            "repositories inside, which are not looked into",
            [f"{quoted(path + b'/')} ({count} files)" for path, count in self._foreign],
        )
        fakes = [path + b"/.git" for path, real in sorted(self.repositories.items()) if not real]
        self._note("not looked into", [quoted(path) for path in fakes])
        for path, module in sorted(self.modules.items()):
            if module.kinds():
                self.notes.append(f"submodule {quoted(path)}: {', '.join(module.kinds())}")
        self._note("not shown", [f"{quoted(path)} ({why})" for path, why in sorted(self.unshown.items())])
        filtered = [
            path for path in sorted(self.changes) if self._of(path).get("filter", "unset") not in ("unspecified", "unset")
        ]
        self._note("content filters are not run, these are as they stand", [quoted(path) for path in filtered])
        if self._store.forged:
            self._note("objects with other content than their id says were passed over", sorted(self._store.forged))
        if self.answers is not None:
            self.notes += self.answers.problems
            if not self.answers.head:
                self.notes.append("no commit is checked out, or none that git finds")
            branch = self.fields["git_branch"]
            if branch and self.answers.branch != "refs/heads/" + branch:
                what = quoted(os.fsencode(self.answers.branch)) if self.answers.branch else "no branch"
                self.notes.append(f"checked out is {what}, not the branch that the session started on")
        if self.ignored:
            self.notes.append(f"ignored by the rules of the base: {self.ignored} files")
        if self.incomplete:
            self.notes.append(f"this is not all: {self.incomplete}")

    def _changed_in_git_dir(self) -> list[str]:
        try:
            now = watched_files(self.root_fd)
        except OSError:
            return []
        before = self.base.watched
        if self.base.direct:
            if before is None:
                return []
            names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            return sorted(quoted(os.fsencode(".git/" + name)) for name in names)
        found = sorted(quoted(os.fsencode(".git/" + name)) for name in now if name != "config")
        keys = odd_keys(self.answers.keys) if self.answers is not None else []
        if keys:
            shown = ", ".join(quoted(key) for key in keys[:_NOTES_OF_A_KIND])
            found.append(f".git/config (sets {shown}{' and more' if len(keys) > _NOTES_OF_A_KIND else ''})")
        return found

    def _note(self, what: str, found: "list[str]") -> None:
        if found:
            more = f" and {len(found) - _NOTES_OF_A_KIND} more" if len(found) > _NOTES_OF_A_KIND else ""
            self.notes.append(f"{what}: {', '.join(found[:_NOTES_OF_A_KIND])}{more}")


def _is_off(value: str | None) -> bool:
    return value is not None and value.lower() in ("false", "no", "off", "0")


def _is_repository(dir_fd: int) -> bool:
    """Say whether the `.git` of a folder makes it a repository to git, as far as its kind tells."""
    try:
        mode = os.stat(b".git", dir_fd=dir_fd, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            os.stat(b".git/HEAD", dir_fd=dir_fd, follow_symlinks=False)
            return True
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
    except OSError:
        return False


def _owner(path: bytes, folders: "Collection[bytes]") -> bytes | None:
    """Return the outermost of some folders that a path lies in."""
    at = path.find(b"/")
    while at >= 0:
        if path[:at] in folders:
            return path[:at]
        at = path.find(b"/", at + 1)
    return None


def _within(path: bytes, folders: "Collection[bytes]") -> bool:
    return _owner(path, folders) is not None


def _folders_of(paths: "Iterable[bytes]") -> set[bytes]:
    """Return all folders that some paths lie in."""
    found: set[bytes] = set()
    for path in paths:
        folder = path.rpartition(b"/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition(b"/")[0]
    return found


def _below(folder: bytes, ordered: list[bytes]) -> list[bytes]:
    """Return those of some paths in order that lie in a folder."""
    import bisect

    return ordered[bisect.bisect_left(ordered, folder + b"/") : bisect.bisect_left(ordered, folder + b"0")]
