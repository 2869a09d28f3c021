"""What the clone of a session holds that is nowhere else: commits, stashes, what is staged, changed or new, also in submodules.

The work tree is compared with the base by this program, as session diff does it; refs and commits are git's word from inside
the sandbox, set against what the operator's repository has. Whatever cannot be looked at makes the answer "cannot tell".
"""

import os
import re

from workcell import baseline, clock, output, worktree
from workcell.compare import REPOSITORIES_LIMIT, TIME_LIMIT_S, Comparison
from workcell.errors import CannotTellError, WorkcellError
from workcell.inquiry import Holdings, odd_in_git_dir
from workcell.worktree import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from workcell.inquiry import Inquiry

KINDS = ("commits", "tags", "stashes", "staged", "unstaged", "untracked", "submodules")
_WORDS = {
    "commits": ("commit", "commits"),
    "tags": ("tag", "tags"),
    "stashes": ("stash", "stashes"),
    "staged": ("staged change", "staged changes"),
    "unstaged": ("unstaged change", "unstaged changes"),
    "untracked": ("untracked file", "untracked files"),
    "submodules": ("submodule with work", "submodules with work"),
}
_CONFLICTS = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_OF_OURS = b"refs/workcell/"
# git-check-ref-format(1), and nothing that could be more than a name in a list of names.
_REF = re.compile(rb"refs(/(?!\.)(?:(?!\.\.|@\{|\.lock(?:/|$))[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.))+")


class Repository:
    """A repository in the clone, as far as it is to be saved.

    git_dir: below the clone; name: what it is called in a rescue, "" for the clone's own; tips: (name of a ref, id); staged:
    whether its index has something of its own.
    """

    __slots__ = ("git_dir", "name", "tips", "staged")

    def __init__(self, git_dir: bytes, name: bytes, tips: "list[tuple[bytes, str]]", staged: bool) -> None:
        self.git_dir, self.name, self.tips, self.staged = git_dir, name, tips, staged


class Work:
    """What was found.

    counts: how many of each of KINDS; more: there are more commits than were counted; status: the state of the work tree in
    words, as `git status --short` has it; repositories: the clone's own first; files, folders: paths whose content as it
    stands is in no commit, folders with all that is in them; inquiry: whom to ask for the objects.
    """

    def __init__(self, inquiry: "Inquiry") -> None:
        self.inquiry = inquiry
        self.counts = dict.fromkeys(KINDS, 0)
        self.more = False
        self.status = ""
        self.repositories: list[Repository] = []
        self.files: list[bytes] = []
        self.folders: list[bytes] = []
        self.obstacles: list[str] = []  # why not all of it could be saved

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def in_words(self) -> str:
        """Return the counts that are not 0, for a message."""
        parts = []
        for kind, count in self.counts.items():
            if count:
                least = "more than " if kind == "commits" and self.more else ""
                parts.append(f"{least}{count} {_WORDS[kind][count != 1]}")
        return ", ".join(parts)


def examine(fields: "dict[str, Any]", profile_dir: str) -> Work:
    """Return what the clone of a session holds that is nowhere else; raise CannotTellError where that cannot be told."""
    try:
        with Comparison(fields, profile_dir) as found:
            return _Examination(found).work
    except CannotTellError:
        raise
    except WorkcellError as error:
        raise _cannot_tell(fields["session_id"], f"{error.what}: {error.why}" if error.why else error.what) from None
    except OSError as error:
        raise _cannot_tell(fields["session_id"], error.strerror or str(error)) from None


def _cannot_tell(session_id: str, why: str) -> CannotTellError:
    return CannotTellError(
        session_id,
        f"cannot tell what its clone holds: {output.printable(why)}",
        "mend that and delete again, or give --discard-work to do without what is in it",
    )


class _Examination:
    def __init__(self, found: Comparison) -> None:
        self._found, self._id = found, found.fields["session_id"]
        self._deadline = clock.monotonic_s() + TIME_LIMIT_S
        self.work = Work(found.inquiry)
        if found.answers is None:
            self._give_up(found.inquiry.why_not)
        if found.incomplete:
            self._give_up(found.incomplete)
        self._look_at_refs()
        self._look_at_status()
        self._look_at_modules()
        self._look_at_untracked()
        self.work.status = self._status()

    def _give_up(self, why: str) -> None:
        raise _cannot_tell(self._id, why)

    def _ask(self, git_dir: bytes, known: "Iterable[str]") -> Holdings:
        if clock.monotonic_s() > self._deadline:
            self._give_up("it takes too long")
        held = self._found.inquiry.holdings(git_dir, known)
        if held is None:
            where = "" if git_dir == b".git" else f"{quoted(git_dir)}: "
            raise _cannot_tell(self._id, where + self._found.inquiry.why_not)
        return held

    # --- the clone's own repository

    def _look_at_refs(self) -> None:
        found, counts = self._found, self.work.counts
        origin = found.fields["workspace_origin"]
        held = self._ask(b".git", found.base.known)
        had = baseline.had_by_source(origin, held.tips().union(held.commits))
        if had.intersection(held.commits):
            # The source may have taken over commits, and what it made of them is not in the clone.
            held = self._ask(b".git", {*found.base.known, *had})
            had |= baseline.had_by_source(origin, held.tips().union(held.commits))
        stashed = [oid for oid in held.stashed if oid not in had]
        if "refs/stash" in map(os.fsdecode, held.refs) and not stashed:
            stashed = [oid for oid in held.refs[b"refs/stash"][1:2] if oid not in had]
        named = {ref[2] for name, ref in held.refs.items() if name != b"refs/stash"}
        others = held.reached_from({*named, held.head, *held.heads.values()})
        commits = {oid for oid in held.commits if oid not in had and (oid in others or not stashed)}
        counts["commits"], self.work.more = len(commits), held.more
        if held.more and not commits:
            self._give_up("it has more commits than can be counted")
        counts["stashes"] = len(stashed)
        new = {name for name, ref in held.refs.items() if ref[1] not in had or ref[2] not in had}
        counts["tags"] = len({held.refs[name][1] for name in new if held.refs[name][0] != "commit"} - had)
        tips = _tips(held, {*new, os.fsencode(held.branch)}, stashed)
        staged = any(letters[0] not in " ?" and letters not in _CONFLICTS for letters, _, _ in found.status)
        self.work.repositories.append(Repository(b".git", b"", tips, staged))

    # --- the work tree

    def _look_at_status(self) -> None:
        counts = self.work.counts
        for letters, path, _ in self._found.status:
            if letters in _CONFLICTS:
                counts["unstaged"] += 1
            else:
                counts["staged"] += letters[0] not in " ?"
                counts["unstaged"] += letters[1] not in " m?"
            if letters in _CONFLICTS or letters[1] not in " Dm?":
                self._save_file(path)

    def _save_file(self, path: bytes) -> None:
        if path not in self._found.modules:
            self.work.files.append(path)

    def _look_at_untracked(self) -> None:
        self.work.counts["untracked"] = len(self._found.untracked)
        for path in self._found.untracked:
            if not path.endswith(b"/"):
                self._save_file(path)
                continue
            self.work.folders.append(path[:-1])
            inside = [other for other in self._found.repositories if (other + b"/").startswith(path)]
            for other in inside[:REPOSITORIES_LIMIT]:
                self._save_nested(other)
            if len(inside) > REPOSITORIES_LIMIT:
                self.work.obstacles.append(f"{quoted(path)}: there are more than {REPOSITORIES_LIMIT} repositories in it")

    def _save_nested(self, path: bytes) -> None:
        """Take a repository that nothing names for work as a whole; what cannot be asked cannot be saved."""
        git_dir = path + b"/.git"
        odd = self._odd(path)
        if odd is None:
            return  # a file or link, which leads to what is looked at elsewhere, or to nothing of the clone
        late = clock.monotonic_s() > self._deadline
        held = None if odd or late else self._found.inquiry.holdings(git_dir, ())
        if held is None:
            self.work.obstacles.append(f"{quoted(git_dir)}: {odd or self._found.inquiry.why_not or 'it takes too long'}")
            self._found.inquiry.why_not = ""
            return
        tips = _tips(held, held.refs, held.stashed)
        self.work.repositories.append(Repository(git_dir, path, tips, bool(held.staged)))

    def _odd(self, path: bytes) -> "str | None":
        """Return what is odd in a nested repository's git directory, "" for nothing, None where it is no folder."""
        try:
            parent_fd, name = worktree.find(self._found.root_fd, path)
            try:
                fd = worktree.open_folder(name, parent_fd)
            finally:
                os.close(parent_fd)
            try:
                odd = odd_in_git_dir(fd, self._deadline)
            finally:
                os.close(fd)
        except NotADirectoryError:
            return None
        except OSError as error:
            return error.strerror or str(error)
        return f"{quoted(odd[0][0])} is {odd[0][1]}" if odd else ""

    # --- submodules

    def _look_at_modules(self) -> None:
        found = self._found
        dirty, unknown, places = set(), [], {}
        for path, module in sorted(found.modules.items()):
            if module.unknown:
                unknown.append(path)
            if module.modified or module.untracked:
                dirty.add(path)
            if found.repositories.get(path):
                places[self._git_dir_of(path)] = path
        if unknown:
            self._give_up(f"submodule {quoted(unknown[0])} cannot be looked into")
        git_dirs = sorted({*self._module_git_dirs(), *places})
        if len(git_dirs) > REPOSITORIES_LIMIT:
            self._give_up(f"there are more than {REPOSITORIES_LIMIT} submodules")
        known = {*found.pinned, *(module.recorded for module in found.modules.values())}
        for git_dir in git_dirs:
            where = places.get(git_dir)
            if where is not None and not git_dir.startswith(b".git/"):
                odd = self._odd(where)
                if odd:
                    self._give_up(f"{quoted(git_dir)}: {odd}")
            held = self._ask(git_dir, known)
            if held.commits or held.stashed or held.staged:
                dirty.add(where if where is not None else git_dir)
            if held.commits or held.stashed or held.staged or where in dirty:
                name = where if where is not None else git_dir.removeprefix(b".git/")
                tips = _tips(held, [name for name in held.refs if not name.startswith(b"refs/remotes/")], held.stashed)
                self.work.repositories.append(Repository(git_dir, name, tips, bool(held.staged)))
        self.work.counts["submodules"] = len(dirty)
        self.work.folders += sorted(path for path in dirty if path in found.modules)

    def _module_git_dirs(self) -> list[bytes]:
        """Return the git directories of submodules that the clone's own has, in use or not."""
        try:
            parent_fd, name = worktree.find(self._found.root_fd, b".git/modules")
        except OSError:
            return []
        try:
            fd = worktree.open_folder(name, parent_fd)
        except FileNotFoundError:
            return []
        finally:
            os.close(parent_fd)
        try:
            walk = worktree.Walk(fd, self._deadline)
            heads, stores = set(), set()
            for path, _, name, kind in walk.entries():
                if name == b"HEAD" and kind == worktree.FILE:
                    heads.add(path[:-5])
                elif name == b"objects" and kind == worktree.FOLDER:
                    stores.add(path[:-8])
            if walk.stopped or walk.problems:
                self._give_up(walk.stopped or walk.problems[0][1])
            return [b".git/modules/" + path for path in heads & stores if path]
        finally:
            os.close(fd)

    def _git_dir_of(self, path: bytes) -> bytes:
        """Return where a submodule's `.git` leads, below the clone; where that is nowhere in it, its own name."""
        own = path + b"/.git"
        try:
            dir_fd, name = worktree.find(self._found.root_fd, own)
            try:
                fd = worktree.open_file(name, dir_fd)
            finally:
                os.close(dir_fd)
            try:
                text = os.read(fd, 4096)
            finally:
                os.close(fd)
        except OSError:
            return own
        if not text.startswith(b"gitdir: "):
            return own
        there = os.path.normpath(os.path.join(path, text[8:].rstrip(b"\n")))
        return there if there.startswith(b".git/modules/") else own

    def _status(self) -> str:
        lines = []
        for letters, path, before in self._found.status:
            renamed = f"{quoted(before, blanks=True)} -> " if before else ""
            lines.append(f"{letters} {renamed}{quoted(path, blanks=True)}\n")
        lines += [f"?? {quoted(path, blanks=True)}\n" for path in self._found.untracked]
        for path, module in sorted(self._found.modules.items()):
            lines += [f"## submodule {quoted(path, blanks=True)}: {kind}\n" for kind in module.kinds()]
        return "".join(lines)


def _tips(held: Holdings, names: "Iterable[bytes]", stashed: "Iterable[str]") -> list[tuple[bytes, str]]:
    """Return (name, id) of what is to be saved; names that git would not take, or that are ours, get another one."""
    tips = [(b"HEAD", held.head)] if held.head else []
    odd = 0
    for name in sorted(set(names)):
        if name not in held.refs or name == b"refs/stash":
            continue
        oid = held.refs[name][1]
        if name.startswith(_OF_OURS) or len(name) > 1000 or not _REF.fullmatch(name):
            odd += 1
            name = _OF_OURS + b"odd/%d" % odd
        tips.append((name, oid))
    for number, oid in enumerate(stashed):
        tips.append((_OF_OURS + b"stash/%d" % number if number else b"refs/stash", oid))
    for number, (_, oid) in enumerate(sorted(held.heads.items()), 1):
        tips.append((_OF_OURS + b"worktree/%d" % number, oid))
    return tips
