"""An agent meddles with its workspace: with the base, with what git obeys, with kinds of files. Nobody is misled or hangs."""

import os
import socket
import time

import pytest
from diffs import LIB, Bundle, Session, make_repository, write

from support import scaled

LIMIT_S = 20.0  # far above what a comparison takes, far below any limit on time in it


def timed(session, *words, **more):
    begun = time.monotonic()
    found = session.bundle(*words, **more)
    assert time.monotonic() - begun < LIMIT_S
    return found


# --- the base (H21)


def forge(session, oid, kind, content):
    """Write an object of other content under an id into the workspace's own repository."""
    import zlib

    path = os.path.join(session.path, ".git/objects", oid[:2], oid[2:])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    write(path, zlib.compress(b"%s %d\0" % (kind, len(content)) + content))


TAMPER = {
    "base-branch-moved": """git commit -qam change; git update-ref refs/heads/main HEAD; git tag base HEAD
        git update-ref refs/remotes/origin/main HEAD; git update-ref refs/remotes/origin/HEAD HEAD""",
    "replace-ref": """git commit -qam change; git replace $BASE HEAD; git replace $BASE^{tree} HEAD^{tree}
        git replace $BASE:README HEAD:README""",
    "grafts": """git commit -qam change; mkdir -p .git/info
        git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD > .git/shallow""",
    "history-rewritten": "git checkout -q --orphan x; git commit -qam 'all new'; git branch -q -D @{-1}",
    "objects-removed": "git commit -qam change; rm -rf .git/objects/pack .git/objects/??",
    "index-flags": "git update-index --assume-unchanged README; git update-index --skip-worktree README",
    "time-set-back": "touch -r .git/HEAD README; git commit -qam change; git reset -q --soft HEAD~1",
    "index-removed": "rm .git/index",
    "index-is-garbage": "echo garbage > .git/index",
    "config-is-garbage": "echo '[' > .git/config",
    "unknown-extension": "git config core.repositoryformatversion 1; git config extensions.what now",
    "other-work-tree": "git config core.worktree /; git config core.bare true",
    "head-is-garbage": "echo garbage > .git/HEAD",
    "commondir": "echo /tmp > .git/commondir",
}


@pytest.mark.parametrize("name", TAMPER)
def test_a_change_cannot_be_hidden_by(shared, name):
    session = Session(shared)
    session.agent("echo sneaked in >> README")
    session.agent("BASE=" + session.base + "\n" + TAMPER[name])
    found = timed(session)
    assert "+sneaked in" in found.diff
    assert found.diff.count("diff --git") == 1
    assert dict(found.keys)["git_base"] == session.base


def test_what_git_is_misled_by_is_told(shared):
    session = Session(shared)
    session.agent("echo x >> README; git commit -qam change")
    session.agent(
        "BASE=" + session.base + "\n" + TAMPER["replace-ref"].partition(";")[2] + "\n" + TAMPER["grafts"].partition(";")[2]
    )
    session.agent("echo /somewhere > .git/objects/info/alternates; mkdir .git/hooks; echo x > .git/hooks/pre-commit")
    notes = "\n".join(session.bundle().notes)
    for name in ("info/grafts", "shallow", "objects/info/alternates", "refs/replace/" + session.base, "hooks/pre-commit"):
        assert f".git/{name}" in notes


@pytest.mark.parametrize("kind", ["blob", "tree", "commit"])
def test_a_forged_object_under_an_id_of_the_base_is_passed_over(shared, kind):
    session = Session(shared)
    session.agent(
        "echo sneaked in >> README; git commit -qam change; git gc -q; mv .git/objects/pack .git/old; mkdir .git/objects/pack"
    )
    session.agent("for pack in .git/old/*.pack; do git unpack-objects -q < $pack; done; rm -rf .git/old")
    ids = {"blob": f"{session.base}:README", "tree": f"{session.base}^{{tree}}", "commit": session.base}
    forged = session.agent(f"git rev-parse {ids[kind]}").decode().strip()
    new = session.agent("git rev-parse HEAD" + {"blob": ":README", "tree": "^{tree}", "commit": ""}[kind]).decode().strip()
    content = session.agent(f"git cat-file {kind} {new}")
    forge(session, forged, kind.encode(), content)
    if kind == "blob":  # of the other kinds git checks more
        assert "sneaked" not in session.agent(f"git diff {session.base} -- README").decode(), "git itself is not misled"
    assert "+sneaked in" in timed(session).diff


def test_a_forged_base_is_passed_over_where_only_the_workspace_has_it(place):
    # A direct session of another writer: there is no copy, so the objects come from the workspace, checked by their ids.
    make_repository(place)
    session = Session(place, True, None, "no-copy")
    session.agent("echo sneaked in >> README")
    assert "+sneaked in" in session.bundle().diff
    blob = session.agent(f"git rev-parse {session.base}:README").decode().strip()
    forge(session, blob, b"blob", b"hello\nsneaked in\n")
    found = session.bundle(exit_status=1)
    assert found.status == " M README"
    assert "Binary files a/README and b/README differ" in found.diff
    assert any(blob in note and "other content" in note for note in found.notes)
    assert any(note.startswith("this is not all") for note in found.notes)


def test_the_objects_of_another_folder_of_the_host_are_not_reached_through_alternates(shared):
    # The clone borrows from a folder of the host that has what it lacks; the sandbox does not show that folder.
    session = Session(shared)
    session.agent("git checkout -q -b other; echo o > o; git add o; git commit -qm other; git checkout -q -; git gc -q")
    hidden = os.path.join(shared.folder, "hidden")
    os.makedirs(hidden)
    os.rename(os.path.join(session.path, ".git/objects/pack"), os.path.join(hidden, "pack"))
    os.makedirs(os.path.join(session.path, ".git/objects/info"), exist_ok=True)
    write(os.path.join(session.path, ".git/objects/info/alternates"), hidden + "\n")
    found = timed(session)
    assert found.others == {}
    assert any("objects/info/alternates" in note for note in found.notes)


# --- kinds of files that hang who opens them


PLACES = (
    "HEAD config index packed-refs objects/info/alternates objects/pack/pack-1.idx objects/pack/pack-1.pack info/attributes "
    "info/exclude info/grafts shallow refs/heads/x commondir config.worktree"
)


@pytest.mark.parametrize("name", PLACES.split())
def test_a_fifo_in_the_git_directory_holds_nothing_up(shared, name):
    session = Session(shared)
    session.agent(f"echo x >> README; cd .git; mkdir -p objects/info info; rm -f {name}; mkfifo {name}")
    found = timed(session)
    assert (found.status, "+x" in found.diff) == (" M README", True)
    assert any(note.startswith("cannot tell") and f".git/{name} is a FIFO" in note for note in found.notes)


def test_a_link_in_the_git_directory_is_not_followed(shared):
    session = Session(shared)
    session.agent(
        "echo x >> README; ln -sf /dev/zero .git/packed-refs; mkdir .git/hooks; ln -s ../../run .git/hooks/pre-commit"
    )
    found = timed(session)
    assert found.status == " M README"
    assert any(".git/packed-refs is a link" in note for note in found.notes)


def test_special_files_in_the_work_tree_are_named_and_not_opened(shared):
    session = Session(shared)
    session.agent("rm README .gitignore; mkfifo README .gitignore .gitattributes .gitmodules new folder/fifo")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(session.path)
    try:
        server.bind("socket")
    finally:
        os.chdir(here)
        server.close()
    if os.geteuid() == 0:
        os.mknod(os.path.join(session.path, "device"), 0o20666, os.makedev(1, 5))
    found = timed(session, "--untracked")
    assert found.status.split("\n") == [" D .gitignore", " D README"]
    note = next(note for note in found.notes if note.startswith("special files"))
    for name in (".gitattributes", ".gitignore", ".gitmodules", "README", "folder/fifo", "new"):
        assert f"{name} (a FIFO)" in note
    assert "socket (a socket)" in note and (os.geteuid() != 0 or "device (a device)" in note)


def test_a_link_out_of_the_workspace_is_compared_as_a_link(shared):
    session = Session(shared)
    write(os.path.join(shared.folder, "secret"), "secret\n")
    session.agent(f"rm README; ln -s {shared.folder}/secret README; rm -r folder; ln -s / folder; ln -s {shared.folder} away")
    found = timed(session, "--untracked")
    assert f"+{shared.folder}/secret" in found.diff and "+secret" not in found.diff
    assert found.status.split("\n") == [" T README", " D folder/a", " D folder/b", "?? away", "?? folder"]


def test_folders_deeper_than_any_path_may_be_long_end_somewhere(shared):
    session = Session(shared)
    depth = 400
    session.agent("mkdir -p deep")
    fd = os.open(os.path.join(session.path, "deep"), os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 20, dir_fd=fd)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    try:
        found = timed(session, exit_status=1)
        assert any("folders deep" in note for note in found.notes)
    finally:
        import shutil
        import sys

        sys.setrecursionlimit(5000)
        shutil.rmtree(os.path.join(session.path, "deep"))


def test_a_file_nobody_can_read_makes_it_incomplete_and_not_deleted(ordinary):
    make_repository(ordinary)
    session = Session(ordinary)
    session.agent("echo x >> README; chmod 0 keep folder")
    found = session.bundle(exit_status=1)
    assert found.status == " M README"
    assert any(note.startswith("this is not all") for note in found.notes)
    session.agent("chmod 755 folder")


# --- repositories inside


def test_repositories_inside_are_named_and_hide_nothing(shared):
    session = Session(shared)
    session.agent("""git init -q nested; echo n > nested/n; git init -q folder; echo x >> folder/a; echo new > folder/new
        mkdir -p fake/.git; echo f > fake/f; echo hidden > fake/.git/payload
        git init -q outer; git init -q outer/inner; echo i > outer/inner/i
        git init -q empty; git init -q build/ignored
        mkdir -p gitfile; echo 'gitdir: /etc' > gitfile/.git; echo g > gitfile/g""")
    found = session.bundle()
    status = [" M folder/a", "?? empty/", "?? fake/f", "?? folder/new", "?? gitfile/", "?? nested/", "?? outer/"]
    assert found.status.split("\n") == status
    assert "+x" in found.diff
    inside = next(note for note in found.notes if note.startswith("repositories inside"))
    assert "nested/ (1 files)" in inside and "gitfile/ (1 files)" in inside and "folder" not in inside and "inner" not in inside
    assert "not looked into: fake/.git" in found.notes


# --- much


def test_a_file_too_large_to_show_is_named_and_its_size_told(shared):
    session = Session(shared)
    for name in ("README", "new", "untracked"):
        with open(os.path.join(session.path, name), "wb") as stream:
            stream.truncate(1 << 40)
        os.chown(os.path.join(session.path, name), *session.owner) if os.geteuid() == 0 else None
    session.agent(": > small; git add -N new small")
    found = timed(session, "--untracked")
    assert "Binary files a/README and b/README differ" in found.diff
    assert "new file mode 100644\nBinary files /dev/null and b/new differ" in found.diff
    note = next(note for note in found.notes if note.startswith("not shown"))
    assert f"README (it has {1 << 40} bytes" in note and "untracked" in note


LIMITED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from workcell import cli, compare, diff, record, worktree
worktree.ENTRIES_LIMIT = int(sys.argv[3])
compare.TIME_LIMIT_S = float(sys.argv[4])
fields, path = record.load(sys.argv[2])
with compare.Comparison(fields, os.path.dirname(os.path.dirname(path))) as found:
    print(diff.bundle(found), end="")
"""


@pytest.mark.parametrize("entries, seconds", [(3, 600), (1000, 0)], ids=["entries", "time"])
def test_what_was_not_looked_at_any_more_is_not_called_deleted(shared, entries, seconds):
    session = Session(shared)
    session.agent("echo x >> README; for i in $(seq 400); do : > new$i; done")
    done = shared.run(shared.python, "-c", LIMITED, LIB, session.id, str(entries), str(seconds))
    assert done.exit_status == 0, done
    found = Bundle(done.stdout)
    assert "deleted" not in found.diff and " D " not in found.status
    assert found.notes[-1].startswith("this is not all: ")


def test_refs_to_nothing_do_not_keep_the_others_from_being_listed(shared):
    session = Session(shared)
    session.agent("""echo x >> README; git commit -qam change; git tag -a -m t tagged
        git checkout -q -b side; git commit -q --allow-empty -m s; git checkout -q -
        echo garbage > .git/refs/heads/bad; printf '%040d refs/heads/nothing\\n' 1 >> .git/packed-refs""")
    found = session.bundle()
    assert [line.rpartition(" ")[2] for line in found.commits] == ["s", "change"]
    assert "refs/heads/side" in found.others


def test_a_tree_that_holds_itself_many_times_over_ends_somewhere(shared):
    session = Session(shared)
    session.agent("""rows() { for i in 0 1 2 3 4 5 6 7 8 9; do printf "$1\\t$i\\n"; done; }
        blob=$(echo x | git hash-object -w --stdin); tree=$(rows "100644 blob $blob" | git mktree)
        for level in 1 2 3 4 5 6 7 8 9; do tree=$(rows "040000 tree $tree" | git mktree); done
        git update-ref refs/heads/bomb $(git commit-tree $tree -m bomb)""")
    found = timed(session)
    assert found.is_clean and any(note.startswith("refs/heads/bomb: cannot be shown") for note in found.notes)


def test_many_files_are_compared_in_a_time_near_to_that_of_git(place):
    count = scaled(20000, least=2000)
    files = {f"d{number % 100}/e{number % 7}/f{number}": f"{number}\n" for number in range(count)}
    make_repository(place, files)
    session = Session(place)
    session.agent("echo x >> d1/e1/f1; git status")
    begun = time.monotonic()
    session.agent("git status --short")
    git_s = time.monotonic() - begun
    begun = time.monotonic()
    found = session.bundle()
    ours_s = time.monotonic() - begun
    assert found.status == " M d1/e1/f1"
    print(f"{count} files: session diff {ours_s:.2f} s, {ours_s / git_s:.1f} x git status")
    assert ours_s < 60


def test_a_hundred_thousand_untracked_files_are_listed(shared):
    session = Session(shared)
    count = scaled(100_000, least=2000)
    os.mkdir(os.path.join(session.path, "many"))
    fd = os.open(os.path.join(session.path, "many"), os.O_RDONLY)
    for number in range(count):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)
    assert len(session.bundle().status.split("\n")) == count
