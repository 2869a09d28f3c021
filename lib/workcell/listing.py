"""What workcell-session-list prints: which sessions are chosen, and the forms that they are printed in.

A listing may be of a hundred thousand sessions, so of each one only its place in the order and its finished line are kept.
"""

import os
import sys
from operator import itemgetter

from workcell import output, record, safe_open
from workcell.canonical import BLANKS
from workcell.errors import NotFoundError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from workcell.errors import WorkcellError

    Choose = Callable[[dict[str, Any], str], dict[str, Any] | None]

TABLE = ("session_id", "status", "live_status", "control", "agent", "mode", "profile", "started_at", "assurance", "workspace")
WIDE = (*TABLE[:7], "target", "target_assurance", "workspace_transport", "git_branch", "worktree", *TABLE[7:])
MEMBER = ("session_id", "live_status", "control", "agent", "mode", "git_branch", "worktree", "container_name")
COMPUTED: "dict[str, Callable[[dict[str, Any]], str]]" = {
    "live_status": record.display_live_status,
    "control": record.control,
    "assurance": record.assurance,
    "workspace": record.display_workspace,
    "worktree": record.display_worktree,
    "git_branch": record.display_git_branch,
    "target": record.target_summary,
    "target_assurance": itemgetter("target_assurance_class"),
}
# What asking can find beside what is recorded, and `stopped`, which is recorded of each session that is over.
STATUSES = (*record.ACTIVE, *record.TERMINAL, "stopped", "lost", "unmonitored", "unknown")

MANY = 2000  # records from which on a second process is worth its start

_PIECE = 512
_OPEN_FOLDERS = 64


def as_found(fields: "dict[str, Any]", path: str, ask: bool = False) -> "dict[str, Any]":
    """Return a record with the live status that it has now; ask: also of an engine, where only that could say."""
    if fields["status"] in record.TERMINAL:
        return fields
    from workcell import liveness

    return record.with_live_status(*liveness.look(fields, path, ask))


class Wanted:
    """What the sessions of a listing have in common; an empty value asks for nothing.

    workspace: a path; targets: names as --target of start takes them, providers, kinds, or KIND/PROVIDER[/ID]; since, until:
    `YYYY-MM-DDTHH:MM:SSZ`, both included.
    """

    def __init__(self) -> None:
        self.workspace = self.profile = self.since = self.until = ""
        self.probe = False  # ask engines as well
        self.statuses: list[str] = []
        self.agents: list[str] = []
        self.targets: list[str] = []

    @property
    def choose(self) -> "Choose":
        """A function that says of a record, given with its path, what it is like now, None where it is not wanted."""
        asks = any((self.probe, self.workspace, self.profile, self.since, self.until, self.statuses, self.agents, self.targets))
        return self._choose if asks else as_found

    def _choose(self, fields: "dict[str, Any]", path: str) -> "dict[str, Any] | None":
        """Return a record with the live status that it has now, None where it is not wanted."""
        if not self._is_wanted(fields):
            return None
        fields = as_found(fields, path, self.probe)
        if self.statuses:
            live = record.display_live_status(fields)
            # One that is lost is only recorded as running.
            recorded = "lost" if live == "lost" else fields["status"]
            if live not in self.statuses and recorded not in self.statuses:
                return None
        return fields

    def _is_wanted(self, fields: "dict[str, Any]") -> bool:
        if self.profile and fields["profile"] != self.profile:
            return False
        if self.workspace:
            paths = (fields["workspace"].strip(BLANKS), fields["workspace_origin"].strip(BLANKS))
            if self.workspace not in paths:
                return False
        if self.agents and fields["agent"] not in self.agents:
            return False
        if self.targets and not any(_is_target(fields, name) for name in self.targets):
            return False
        if self.since or self.until:
            started_at = fields["started_at"]
            if len(started_at) != 20 or started_at[10] != "T" or started_at[19] != "Z":
                from workcell import clock

                started_at = clock.in_utc(started_at)
            return bool(started_at) and self.since <= started_at and (not self.until or started_at <= self.until)
        return True


def _is_target(fields: "dict[str, Any]", name: str) -> bool:
    kind, provider = fields["target_kind"], fields["target_provider"]
    if name == "process":
        name = "host"
    return name in (provider, kind, f"{kind}/{provider}", record.target_summary(fields))


def _collect(problems: "list[WorkcellError]", choose: "Choose", make: "Callable[[dict[str, Any], str], Any]") -> "list[Any]":
    """Return (started_at, session_id, what `make` made of it) of each chosen session, newest start first.

    make: must return texts, tuples of texts or None. Many records are read by two processes where there are two processors.
    """

    def read(listed: "Sequence[record.Listed]", problems: "list[WorkcellError]") -> "list[Any]":
        found = []
        for fields, path in record.walk(listed, problems, choose, whole=False):
            try:
                made = make(fields, path)
            except KeyError:
                made = make(record.filled_in(fields), path)
            found.append((fields["started_at"], fields["session_id"], made))
        return found

    listed = record.listed(problems)
    one_root = len({number for number, _, _ in listed}) == 1  # of two, each record of the second depends on the first
    if one_root and sum(len(names) for _, _, names in listed) >= MANY and _has_two_processors():
        found = _read_by_two(listed, problems, read)
    else:
        found = read(listed, problems)
    record.newest_first(found, itemgetter(0), itemgetter(1))
    return found


def _has_two_processors() -> bool:
    from workcell import host

    return host.processors() > 1


def _read_by_two(
    listed: "list[record.Listed]", problems: "list[WorkcellError]", read: "Callable[..., list[Any]]"
) -> "list[Any]":
    """Return what `read` makes of the records, every second of them read by a child that sends it here."""
    import marshal

    mine, childs = ([(number, folder, names[at::2]) for number, folder, names in listed] for at in (0, 1))
    for _, _, names in listed:
        names.clear()
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:  # no more processes for this user: one can do it too
        os.close(reading)
        os.close(writing)
        return read(mine, problems) + read(childs, problems)
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            faults: list[WorkcellError] = []
            with open(writing, "wb") as stream:
                for piece in pieces(read(childs, faults)):
                    marshal.dump(piece, stream)
                marshal.dump([(fault.what, fault.why, fault.next_step) for fault in faults], stream)
                marshal.dump(None, stream)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    more: list[Any] = []
    try:
        found = read(mine, problems)
        with open(reading, "rb", closefd=False) as stream:
            try:
                while (piece := marshal.load(stream)) is not None:
                    more.append(piece)
            except (EOFError, ValueError, TypeError):
                more = []  # it died
    finally:
        os.close(reading)  # a child that still writes ends by that
        os.waitpid(pid, 0)
    if not more:
        return found + read(childs, problems)
    problems += [UnreadableError(*words) for words in more.pop()]
    for piece in more:
        found += piece
    return found


def rows(
    problems: "list[WorkcellError]", choose: "Choose", columns: "tuple[str, ...]", limit: "int | None", human: bool, cells: bool
) -> "Iterator[str]":
    """Yield the table in pieces, nothing where there is no session.

    human: starts as a local time or how long ago; cells: columns of one width instead of parted by one TAB, with whatever
    could drive a terminal made visible.
    """
    readers: list[Callable[[dict[str, Any]], str]] = [COMPUTED.get(name) or itemgetter(name) for name in columns]
    if human:
        import time

        from workcell import clock

        now_s = time.time()
        readers[columns.index("started_at")] = lambda fields: clock.for_people(fields["started_at"], now_s)

    # Most columns are fields: those are taken in one go, and the others put in their places.
    stored = itemgetter(*[name if name not in COMPUTED else "session_id" for name in columns])
    others = [
        (at, read) for at, read in enumerate(readers) if columns[at] in COMPUTED or (human and columns[at] == "started_at")
    ]

    def line(fields: "dict[str, Any]", path: str) -> str:
        values = [*stored(fields)]
        for at, read in others:
            values[at] = read(fields)
        return "\t".join(values)

    def visible(fields: "dict[str, Any]", path: str) -> str:
        texts = [output.printable(read(fields)).replace("\t", "\\x09").replace("\n", "\\x0a") for read in readers]
        return "\t".join(texts)

    found = _collect(problems, choose, visible if cells else line)[:limit]
    if not found:
        return
    found.insert(0, ("", "", "\t".join(columns)))
    if cells:
        widths = [max(map(output.width, column)) for column in zip(*[text.split("\t") for _, _, text in found], strict=True)]
    for piece in pieces(text for _, _, text in found):
        if cells:
            piece = [output.padded(text.split("\t"), widths) for text in piece]
        yield "\n".join(piece) + "\n"


def bare_ids(problems: "list[WorkcellError]", choose: "Choose", limit: "int | None") -> "Iterator[str]":
    """Yield the ids, one a line."""
    for piece in pieces(found[1] for found in _collect(problems, choose, lambda fields, path: None)[:limit]):
        yield "\n".join(piece) + "\n"


def pieces(texts: "Iterable[Any]") -> "Iterator[list[Any]]":
    """Yield texts, or other things, some hundred at a time: a write for each line would cost more than the line."""
    piece: list[Any] = []
    for text in texts:
        piece.append(text)
        if len(piece) == _PIECE:
            yield piece
            piece = []
    if piece:
        yield piece


def groups(problems: "list[WorkcellError]", choose: "Choose", limit: "int | None") -> "Iterator[str]":
    """Yield key=value lines of the sessions, grouped by the workspace that they were started from."""

    def member(fields: "dict[str, Any]", path: str) -> "tuple[str, str]":
        pairs = [(name, COMPUTED[name](fields) if name in COMPUTED else fields[name]) for name in MEMBER]
        return sys.intern(record.origin_key(fields)), output.key_values(pairs)

    grouped: dict[str, list[str]] = {}
    for _, _, (origin, text) in _collect(problems, choose, member)[:limit]:
        grouped.setdefault(origin, []).append(text)
    for origin in sorted(grouped):  # by code points, which is by the bytes of their UTF-8
        yield output.key_values([("origin", origin), ("sessions", str(len(grouped[origin])))])
        yield from grouped[origin]


def records(problems: "list[WorkcellError]", choose: "Choose", limit: "int | None") -> "Iterator[dict[str, Any]]":
    """Yield the chosen records themselves.

    Only their paths are kept meanwhile, and each file is read again when it is due; one that is gone or not wanted any more
    by then is left out.
    """
    paths = [path for _, _, path in _collect(problems, choose, lambda fields, path: path)[:limit]]
    folders: dict[str, int] = {}
    try:
        for path in paths:
            folder, _, name = path.rpartition("/")
            try:
                if folder not in folders:
                    if len(folders) >= _OPEN_FOLDERS:
                        _close(folders)
                    folders[folder] = safe_open.open_dir(folder)
                fields = record.read_at(folders[folder], name, path)
            except (FileNotFoundError, NotFoundError):
                continue
            except UnreadableError as error:
                problems.append(error)
                continue
            chosen = choose(fields, path)
            if chosen is not None:
                yield chosen
    finally:
        _close(folders)


def _close(folders: dict[str, int]) -> None:
    while folders:
        os.close(folders.popitem()[1])
