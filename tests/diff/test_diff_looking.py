"""Looking changes nothing; every form of output; what is refused, in which order; terminals; other writers' sessions."""

import json
import os
import subprocess

import pytest
from diffs import LIB, Session, commit, make_repository, write

from workcell import objects, schema, worktree


def snapshot(folder):
    """Return all that can be seen of a tree: modes, owners, sizes, times (of reading too, but of links), contents."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in (".", *folders, *names):
            full = os.path.join(path, name)
            state = os.lstat(full)
            atime = 0 if os.path.islink(full) else state.st_atime_ns
            found[os.path.normpath(full)] = (
                state.st_mode,
                state.st_uid,
                state.st_size,
                state.st_mtime_ns,
                state.st_ctime_ns,
                atime,
            )
    return found


@pytest.mark.parametrize("direct", [False, True], ids=["isolated", "direct"])
def test_looking_changes_nothing_not_even_times(place, direct):
    # H18
    make_repository(place)
    session = Session(place, direct)
    session.agent(
        "echo more >> README; git add README; echo again >> README; echo n > new; touch -d '2020-01-01' keep folder/a"
    )
    session.agent("find . -exec touch -h -a -d '2020-01-01' {} +")  # read long ago, so that reading again would be noted down
    before = snapshot(place.home)
    for words in ((), ("--untracked",), ("--json",), ("--stat",), ("--name-only",)):
        session.bundle() if not words else session.diff(*words)
    place.session("show", "--id", session.id)
    after = snapshot(place.home)
    assert {path: (before.get(path), state) for path, state in after.items() if before.get(path) != state} == {}


def test_forms_of_output_agree(place):
    make_repository(place)
    session = Session(place)
    session.agent(
        "echo more >> README; git commit -qam 'a change'; git branch same; git checkout -q -b side; echo s > s; git add s"
    )
    session.agent(
        "git commit -qm aside; git checkout -q -; git mv keep kept; echo n > 'new file'; chmod +x folder/a; rm folder/b"
    )
    session.agent("printf '\\0' > bin; git add bin")
    value = json.loads(session.diff("--json").stdout)
    schema.check("session-diff", value)
    found = session.bundle()
    assert value["diff"].rstrip("\n") == found.diff
    rows = [row["index"] + row["worktree"] + " " + row["quoted"] for row in value["status"]]
    assert rows == ["A  bin", " M folder/a", " D folder/b", "R  kept"] and value["status"][3]["renamed_from"] == "keep"
    assert value["untracked"] == [{"path": "new file", "quoted": "new file"}]
    assert {row["path"]: row["kind"] for row in value["changes"]} == {
        "README": "modified",
        "bin": "added",
        "folder/a": "modified",
        "folder/b": "deleted",
        "keep": "deleted",
        "kept": "added",
    }
    by_path = {row["path"]: row for row in value["changes"]}
    assert (by_path["README"]["lines_added"], by_path["bin"]["binary"]) == (1, True)
    assert [(row["subject"], row["checked_out"]) for row in value["commits"]] == [("aside", False), ("a change", True)]
    assert value["other_refs"][0]["refs"] == ["refs/heads/side"] and "+s" in value["other_refs"][0]["diff"]
    assert found.others["refs/heads/side"] == value["other_refs"][0]["diff"].rstrip("\n")
    assert [line.split(" ", 1)[1] for line in found.commits] == [
        "(refs/heads/side) aside",
        f"(HEAD, refs/heads/same, refs/heads/workcell/session-{session.id}) a change",
    ]
    names = session.diff("--name-only").stdout.split("\n")[:-1]
    assert names == ["README", "bin", "folder/a", "folder/b", "keep", "kept", "new file"]
    assert session.diff("--name-only", "--null").stdout.split("\0")[:-1] == names
    stat = session.diff("--stat").stdout
    assert " README " in stat and "keep => kept" in stat and "6 files changed" not in stat and " new file | untracked\n" in stat
    shown = session.bundle("--untracked")
    assert "+n" in shown.diff and "+n" not in found.diff and shown.status == found.status


def test_untracked_files_are_shown_when_asked_for_text_links_and_binary_ones_named(place):
    # H17
    make_repository(place)
    session = Session(place)
    session.agent("echo text > t; : > empty; printf '\\0\\1' > b; ln -s nowhere l; echo x > x; chmod +x x; echo l > l.log")
    session.agent("git init -q r; echo r > r/r")
    found = session.bundle("--untracked")
    for part in (
        "+text",
        "b/empty\nnew file mode 100644",
        "Binary files /dev/null and b/b differ",
        "mode 120000",
        "+nowhere",
        "mode 100755",
    ):
        assert part in found.diff, found.diff
    assert "l.log" not in found.text and "r/r" not in found.text
    assert found.status.split("\n") == ["?? b", "?? empty", "?? l", "?? r/", "?? t", "?? x"]
    value = json.loads(session.diff("--untracked", "--json").stdout)
    schema.check("session-diff", value)
    assert value["ignored"] == 1


NAMES = [
    b"a\nb",
    b"a\tb",
    b'q"uote',
    b"back\\slash",
    b"\x1b]52;c;x\x07",
    b"caf\xe9",
    b"-rf",
    b" blank ",
    b"[diff]",
    "\u202ex".encode(),
    b"\x7f",
]


def test_odd_names_are_whole_and_can_be_had_back(place):
    make_repository(place)
    session = Session(place)
    for name in NAMES:
        session.put(name, "x")
    assert session.diff("--name-only", "--null").stdout.encode("utf-8", "surrogateescape").split(b"\0")[:-1] == sorted(NAMES)
    listed = session.diff("--name-only").stdout
    assert listed.isascii() and "\x1b" not in listed
    assert [unquoted(line) for line in listed.split("\n")[:-1]] == sorted(NAMES)
    assert [unquoted(line[3:]) for line in session.bundle().status.split("\n")] == sorted(NAMES)
    value = json.loads(session.diff("--json").stdout)
    assert [unquoted(row["quoted"]) for row in value["untracked"]] == sorted(NAMES)
    assert {row["path"] for row in value["untracked"]} >= {name.decode() for name in NAMES if name != b"caf\xe9"}
    stat = session.diff("--stat", "--untracked").stdout
    assert all(worktree.quoted(name) in stat for name in NAMES)


def unquoted(text):
    if not text.startswith('"'):
        return text.encode()
    done = subprocess.run(
        ["bash", "-c", f"printf %s $'{text[1:-1].replace(chr(39), chr(92) + chr(39))}'"], capture_output=True, check=True
    )
    return done.stdout


def test_a_terminal_gets_no_control_character_of_what_was_compared(place):
    # D10
    make_repository(place)
    session = Session(place)
    session.put("README", b"hello\nevil \x1b]52;c;x\x07 \xc2\x9b \x9b \xe2\x80\xae\n")
    session.agent("git commit -qam \"$(printf 'subject \\033[2J')\"; echo x > \"$(printf 'n\\033[2J')\"")
    program = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    words = place.words("workcell-session-diff", "--id", session.id)
    shown = place.run(place.python, "-c", program, *words).stdout
    assert r"evil \x1b]52;c;x\x07 \x9b \x9b " + "\\u202e" in shown and "\x1b" not in shown
    piped = session.diff().stdout
    assert "evil \x1b]52;c;x\x07 \u009b \udc9b \u202e" in piped and "\\033" in piped


def test_output_goes_to_a_file_that_is_replaced_whole(place):
    make_repository(place)
    session = Session(place)
    session.agent("echo more >> README")
    target = os.path.join(place.folder, "new", "bundle")
    done = session.diff("--output", target)
    assert (done.exit_status, done.stdout) == (0, f"session_diff={target}\n")
    with open(target) as stream:
        assert stream.read() == session.diff().stdout
    assert os.stat(target).st_mode & 0o777 == 0o600 and os.listdir(os.path.dirname(target)) == ["bundle"]
    os.symlink(target, os.path.join(place.folder, "link"))
    refused = session.diff("--output", os.path.join(place.folder, "link"))
    assert refused.exit_status == 1 and "is a link" in refused.stderr and refused.stdout == ""


@pytest.mark.parametrize(
    "words, why",
    [
        (("--json", "--stat"), "exclude each other"),
        (("--null",), "is for --name-only"),
        (("--output",), "needs a value"),
        (("--frobnicate",), "unsupported option"),
    ],
)
def test_options_that_make_no_sense_are_refused(shared, words, why):
    done = shared.session("diff", "--id", "x", *words)
    assert done.exit_status == 2 and why in done.stderr


# --- refusals


def change_record(world, session_id, **updates):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from workcell import record;"
        "fields, path = record.load(sys.argv[2]);"
        "fields.update(pair.split('=', 1) for pair in sys.argv[3:]);"
        "open(path, 'wb').write(record.encode(fields))"
    )
    done = world.run(world.python, "-c", program, LIB, session_id, *(f"{key}={value}" for key, value in updates.items()))
    assert done.exit_status == 0, done


def test_what_cannot_be_compared_is_refused_with_the_first_reason(place):
    make_repository(place)
    session = Session(place)
    steps = [
        # Each is put before those that were there already, and has to be named instead of them.
        (lambda: change_record(place, session.id, git_base="0" * 40), "base commit is not in the repository"),
        (lambda: os.rename(session.path + "/.git", session.path + "/../git"), "no git work tree any more"),
        (lambda: os.symlink("../git", session.path + "/.git"), "leads elsewhere"),
        (lambda: change_record(place, session.id, git_base="", git_head=""), "no git metadata"),
        (lambda: change_record(place, session.id, git_base="", git_head=session.base), "had changes when it was started"),
        (lambda: os.rename(session.path, session.path + "-away"), "workspace is not there"),
        (lambda: os.symlink(session.path + "-away", session.path), "workspace is not there"),
    ]
    for step, why in steps:
        step()
        done = session.diff()
        assert done.exit_status == 1 and why in done.stderr and done.stdout == "", (why, done)
    unknown = place.session("diff", "--id", "nope")
    assert unknown.exit_status == 1 and "no such session" in unknown.stderr


def test_a_git_file_in_the_place_of_the_git_directory_is_not_followed(place):
    make_repository(place)
    session = Session(place)
    os.rename(session.path + "/.git", place.folder + "/elsewhere")
    write(session.path + "/.git", f"gitdir: {place.folder}/elsewhere\n")
    done = session.diff()
    assert done.exit_status == 1 and "leads elsewhere" in done.stderr


# --- where the base comes from


def test_the_base_outlives_rewriting_and_cleaning_of_the_source(place):
    # H08
    make_repository(place)
    session = Session(place)
    session.agent("echo more >> README")
    before = session.bundle()
    place.git("-C", place.repo, "checkout", "-q", "--orphan", "fresh")
    commit(place, place.repo, "all new")
    place.git("-C", place.repo, "branch", "-q", "-D", "main")
    place.git("-C", place.repo, "reflog", "expire", "--expire=now", "--all")
    place.git("-C", place.repo, "gc", "-q", "--prune=now")
    assert place.run("git", "-C", place.repo, "cat-file", "-e", session.base).exit_status != 0
    # The clone has it too; what comes from there is checked.
    assert session.bundle().diff == before.diff
    session.agent("rm -rf .git/objects/pack .git/objects/??")
    gone = session.diff()
    assert gone.exit_status == 1 and "base commit is not in the repository any more" in gone.stderr


def test_missing_files_of_the_base_are_told(place):
    # H05: a partial clone, whose remote is gone, and that was not refused
    make_repository(place)
    session = Session(place)
    session.agent("rm README; echo x >> folder/a; echo y >> folder/b")
    gone = [place.git("-C", place.repo, "rev-parse", f"HEAD:{name}").strip() for name in ("README", "folder/a")]
    for oid in gone:
        for folder in (place.repo, session.path):
            os.unlink(f"{folder}/.git/objects/{oid[:2]}/{oid[2:]}")
    found = session.bundle(exit_status=1)
    assert found.status.split("\n") == [" D README", " M folder/a", " M folder/b"]
    assert "+y" in found.diff and "Binary files a/folder/a and b/folder/a differ" in found.diff
    assert "deleted file mode 100644\nBinary files a/README and /dev/null differ" in found.diff
    note = next(note for note in found.notes if note.startswith("not shown"))
    assert all(oid in note for oid in gone)


def test_a_direct_session_in_a_partial_clone_tells_what_its_base_lacks(place):
    # H05: the remote is gone, and what was never fetched cannot be
    make_repository(place, path=os.path.join(place.home, "remote"))
    place.git("-C", place.home + "/remote", "config", "uploadpack.allowFilter", "true")
    url = f"file://{place.home}/remote"
    place.git("clone", "-q", "--filter=blob:none", "--no-checkout", url, place.repo)
    place.git("-C", place.repo, "sparse-checkout", "set", "folder")
    place.git("-C", place.repo, "checkout", "-q", "main")
    os.rename(place.home + "/remote", place.home + "/gone")
    session = Session(place, True)
    assert session.bundle().is_clean
    session.agent("echo x >> folder/a; mkdir -p other/deep; echo mine > other/deep/c")
    found = session.bundle(exit_status=1)
    assert found.status.split("\n") == [" M folder/a", " M other/deep/c"]
    assert "+x" in found.diff and "Binary files a/other/deep/c and b/other/deep/c differ" in found.diff
    assert any(note.startswith("this is not all: other/deep/c: the base's file") for note in found.notes)


def test_a_direct_session_keeps_its_base_out_of_reach(place):
    make_repository(place)
    session = Session(place, True)
    session.agent(
        "echo more >> README; git commit -qam change; git checkout -q --orphan x; git commit -qm fresh; git branch -qD main"
    )
    session.agent(
        "git reflog expire --expire=now --all; git gc -q --prune=now; git cat-file -e " + session.base + " && exit 1 || :"
    )
    found = session.bundle()
    assert "+more" in found.diff and found.status == "clean"
    assert [line.rpartition(" ")[2] for line in found.commits] == ["fresh"]
    copies = [os.path.join(folder, "bases", session.id + ".git") for folder in place.profile_dirs()]
    assert len(copies) == 1 and os.stat(copies[0]).st_mode & 0o777 == 0o700
    assert place.git("-C", copies[0], "log", "--format=%H").split() == [session.base]
    assert place.git("-C", copies[0], "fsck", "--strict") == ""


def test_without_a_sandbox_it_says_what_it_cannot_tell_and_shows_the_rest(place):
    make_repository(place)
    session = Session(place)
    session.agent("echo more >> README; git commit -qam change; echo n > new; git add new; git commit -qm new")
    tools = os.path.join(place.folder, "tools")
    write(os.path.join(tools, "bwrap"), "#!/bin/sh\necho 'bwrap: no permission for a new namespace' >&2\nexit 1\n", 0o755)
    env = {"PATH": tools + os.pathsep + place.env["PATH"]}
    done = session.diff(env=env)
    assert done.exit_status == 0, done
    why = "the sandbox for asking git does not start: bwrap: no permission for a new namespace"
    assert f"note=cannot tell what was staged, committed or tracked: {why}; every new file" in done.stdout
    assert " M README\n?? new\n" in done.stdout and "+more" in done.stdout
    value = json.loads(session.diff("--json", env=env).stdout)
    schema.check("session-diff", value)
    assert (value["commits_known"], value["commits"]) == (False, [])


def test_a_copy_of_the_base_that_was_meddled_with_is_refused(place):
    make_repository(place)
    session = Session(place, True)
    copy = os.path.join(place.profile_dirs()[0], "bases", session.id + ".git")
    write(os.path.join(copy, "workcell.json"), "{}")
    assert "is damaged" in session.diff().stderr
    os.chmod(os.path.join(copy, "workcell.json"), 0o666)
    done = session.diff()
    assert done.exit_status == 1 and "is open to others" in done.stderr


# --- submodules


@pytest.fixture
def with_module(place):
    library = make_repository(
        place, {".gitattributes": "*.crlf eol=crlf\n", "x.crlf": "x\n"}, os.path.join(place.home, "library")
    )
    make_repository(
        place,
        prepare=lambda path: place.git(
            "-C", path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "lib"
        ),
    )
    return place


CHANGES = {
    "nothing": ("", "clean", []),
    "edited": ("echo x >> README", " m lib", ["modified content"]),
    "deleted": ("rm README", " m lib", ["modified content"]),
    "staged": ("echo x >> README; git add README", " m lib", ["modified content"]),
    "untracked": ("echo x > new", " ? lib", ["untracked content"]),
    "ignored": ("echo x > new.log", "clean", []),
    "committed": ("echo x >> README; git commit -qam c", " M lib", ["its commit moved"]),
    "all": ("echo x >> README; git commit -qam c; echo x >> keep; echo x > new", " M lib", ["moved", "modified", "untracked"]),
    "its-git-is-gone": ("rm -rf .git", "?? lib", []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_inside_a_submodule_are_told_by_kind(with_module, name):
    # H20: in a direct session, which has its submodules
    script, status, kinds = CHANGES[name]
    session = Session(with_module, True)
    session.agent(f"cd lib; {script}")
    found = session.bundle()
    if name == "its-git-is-gone":
        assert found.status.startswith("?? lib/")  # its files are files of the workspace now
        return
    assert found.status == status
    notes = " ".join(note for note in found.notes if note.startswith("submodule lib"))
    assert all(kind in notes for kind in kinds) and bool(notes) == bool(kinds)
    git_status, git_diff = session.git_says()
    assert found.status == git_status
    assert found.diff.replace("diff --git a/lib b/lib\n", "") == git_diff.replace("diff --git a/lib b/lib\n", "")
    value = json.loads(session.diff("--json").stdout)
    schema.check("session-diff", value)
    assert value["submodules"][0]["path"] == "lib"


def test_an_isolated_session_has_its_submodules_empty_and_may_fill_or_add_them(with_module):
    session = Session(with_module)
    assert session.bundle().is_clean
    session.agent("git submodule --quiet update --init")
    assert session.bundle().is_clean
    session.agent("git submodule --quiet add $PWD/lib extra; cd lib; git commit -q --allow-empty -m c")
    found = session.bundle()
    assert (found.status, found.diff) == session.git_says()
    session.agent("git submodule --quiet deinit -f lib; echo x > lib/hidden")
    assert "?? lib/hidden" in session.bundle().status
    session.agent("rm -r lib")
    assert " D lib" in session.bundle().status


def test_what_a_submodules_repository_lies_about_is_not_believed(with_module):
    session = Session(with_module, True)
    blob = session.agent("cd lib; git rev-parse HEAD:README").decode().strip()
    session.agent("cd lib; echo x >> README; git update-index --assume-unchanged README; echo '*' > .gitignore; echo n > new")
    assert objects.is_id(blob)
    assert session.bundle().status == " m lib"
