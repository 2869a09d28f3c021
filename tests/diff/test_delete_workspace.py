"""session delete --workspace: no work that is nowhere else is lost unasked, and what is saved is all there."""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import time

import pytest
from diffs import Session, commit, make_repository, write

from support import BIN, python_for, wait_until

NONE = dict.fromkeys(("commits", "tags", "stashes", "staged", "unstaged", "untracked", "submodules"), 0)


@pytest.fixture(params=["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"])
def either(request):
    """A world of root, whose clones belong to the sandbox's user, and one of an ordinary user."""
    world = request.getfixturevalue("place" if request.param == "root" else "ordinary")
    make_repository(world)
    return world


def delete(session, *words, **more):
    return session.world.session("delete", "--id", session.id, "--workspace", *words, **more)


def work(session):
    """Return the exit status and what is counted, kinds without any left out."""
    done = delete(session, "--dry-run", "--json")
    assert "Traceback" not in done.stderr
    counts = json.loads(done.stdout)["work"]
    assert counts.pop("more_commits") is False
    assert bool(done.exit_status) == any(counts.values()) and set(counts) == set(NONE), done
    return {kind: count for kind, count in counts.items() if count}


def tree(path):
    """Return what a folder holds: path to (mode, content), links as links."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            entry = os.path.join(folder, name)
            mode = os.lstat(entry).st_mode
            content = ""
            if stat.S_ISLNK(mode):
                content = os.readlink(entry)
            elif stat.S_ISREG(mode):
                with open(entry, "rb") as stream:
                    content = hashlib.sha256(stream.read()).hexdigest()
            found[os.path.relpath(entry, path)] = (mode, content)
    return found


def gone(session):
    """Say whether neither the clone nor the record is there."""
    shown = session.world.session("show", "--id", session.id)
    return not os.path.lexists(os.path.dirname(session.path)) and shown.exit_status == 1


# --- what is work


def test_a_clone_without_work_goes_without_questions_and_the_source_stays_as_it_is(either):
    other, session = Session(either), Session(either)
    session.agent("mkdir build; echo x > build/out; echo y > a.log; touch README; mkfifo pipe")
    before = tree(either.repo)
    done = delete(session)
    assert done.exit_status == 0 and done.values["removed"] == "record,workspace" and done.values["rescue"] == "none", done
    assert all(done.values[f"work_{kind}"] == "0" for kind in NONE)
    assert gone(session)
    mine = os.path.relpath(os.path.dirname(session.path), either.repo)
    assert tree(either.repo) == {path: found for path, found in before.items() if not (path + "/").startswith(mine + "/")}
    assert os.path.isdir(other.path)


REFS = """
git commit -qm here --allow-empty
git checkout -q -b side; git commit -qm one --allow-empty; git commit -qm two --allow-empty; git checkout -q -
git commit -qm odd --allow-empty; git update-ref refs/odd/place HEAD; git reset -q --hard HEAD~1
git worktree add -q --detach build/w; git -C build/w commit -qm linked --allow-empty; rm -r build
git tag -a v1 -m 'a message'
git checkout -q --detach; git commit -qm detached --allow-empty
rm -r .git/logs
"""
WORK_TREE = """
echo s > s; git add s; git rm -q folder/a; chmod 755 run keep; git add keep
git update-index --skip-worktree README; echo hidden >> README
rm folder/b; ln -sf keep link
mkdir d .git/info; ln -s /etc d/l; echo u > u; echo '*' > .git/info/exclude; echo u >> .gitignore
git init -q nested; echo n > nested/n
"""
KINDS = {
    REFS: {"commits": 6, "tags": 1},
    WORK_TREE: {"staged": 3, "unstaged": 4, "untracked": 3},
    "for n in 1 2; do echo $n >> README; git stash -q; done": {"stashes": 2},
    "echo x >> README; git stash -q; rm -r .git/logs": {"stashes": 1},
    "echo u > u": {"untracked": 1},
}


def test_each_kind_of_work_is_counted(shared):
    for script, expected in KINDS.items():
        session = Session(shared)
        session.agent(script)
        assert work(session) == expected, script
    done = delete(session)
    assert done.exit_status == 1 and "1 untracked file" in done.stderr and done.stderr.count("\n") == 1, done
    assert "--rescue" in done.stderr and "--discard-work" in done.stderr
    assert os.path.isdir(session.path) and shared.show(session.id)["session_id"] == session.id


def test_what_the_source_has_taken_over_is_no_work(place):
    make_repository(place)
    session = Session(place)
    session.agent(
        "for n in 1 2 3; do echo $n > $n; git add $n; git commit -qm $n; done; git bundle create -q .git/b HEAD HEAD~1"
    )
    place.git("-C", place.repo, "fetch", "-q", os.path.join(session.path, ".git/b"), "HEAD")
    place.git("-C", place.repo, "checkout", "-q", "-b", "taken", "FETCH_HEAD~1")
    write(os.path.join(place.repo, "more"), "more")
    commit(place, place.repo, "on top")  # the clone has no object of this one
    assert work(session) == {"commits": 1}
    place.git("-C", place.repo, "merge", "-q", "--ff-only", "FETCH_HEAD", check=False)
    place.git("-C", place.repo, "branch", "all", "FETCH_HEAD")
    assert delete(session).exit_status == 0 and gone(session)


def with_module(world):
    """Make a repository with a submodule, and return a session that has it checked out."""
    library = make_repository(world, path=os.path.join(world.home, "library"))
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "module")
    make_repository(world, prepare=lambda path: world.git("-C", path, *add))
    session = Session(world)
    session.agent("git submodule --quiet update --init; cd module; git checkout -q main")
    return session


def test_work_in_a_submodule_is_counted_and_saved(place):
    session = with_module(place)
    assert work(session) == {}
    session.agent("cd module; echo w > w")
    assert work(session) == {"submodules": 1}
    session.agent("cd module; echo s > s; git add s; echo t >> README; git stash -qu; echo s > s; git add s")
    session.agent("cd module; echo c > c; git add c; git commit -qm c -- c; git reset -q --soft HEAD~1; git branch c HEAD@{1}")
    session.agent(
        "cd module; git reset -q; echo s > s; git add s; printf 'dirt' > keep; git submodule --quiet deinit -f . || :"
    )
    assert work(session) == {"submodules": 1}
    saved = os.path.join(place.home, "saved")
    done = delete(session, "--rescue", saved)
    assert done.exit_status == 0 and gone(session), done
    place.run("tar", "-xf", saved + ".tar", "-C", place.home)
    with open(os.path.join(place.home, "worktree/module/keep")) as stream:
        assert stream.read() == "dirt"
    restored = os.path.join(place.home, "restored")
    place.git("init", "-q", restored)
    place.git("-C", restored, "fetch", "-q", os.path.join(place.home, "repositories/module.bundle"), "refs/*:refs/saved/*")
    assert place.git("-C", restored, "show", "refs/saved/heads/c:c") == "c\n"
    assert place.git("-C", restored, "show", "refs/saved/workcell/staged:s") == "s\n"
    assert place.git("-C", restored, "show", "refs/saved/stash:README") == "hello\nt\n"


def test_commits_of_a_submodule_that_is_not_checked_out_any_more_are_work(place):
    session = with_module(place)
    session.agent(
        "cd module; git commit -qm c --allow-empty; git checkout -q HEAD~1; cd ..; git submodule --quiet deinit -f module"
    )
    assert work(session) == {"submodules": 1}


# --- saved


def test_all_kinds_of_work_are_saved_and_come_back_byte_for_byte(either):
    session = Session(either)
    content = os.urandom(5000) + b"\r\n\0"
    session.put("random", content)
    session.agent(
        "git add random; git commit -qm random; git tag -a v1 -m msg; for n in 1 2; do echo $n >> README; git stash -q; done"
    )
    session.agent("git checkout -qb side; git commit -qm side --allow-empty; git checkout -q -; git checkout -q --detach")
    session.agent(
        "git commit -qm detached --allow-empty; git worktree add -q --detach build/w; git -C build/w commit -qm w --allow-empty"
    )
    session.put("keep", content[::-1])
    session.agent(
        "git add keep; git rm -q folder/b; echo later >> keep; echo u >> folder/a; ln -s /etc/passwd outside; chmod +x keep"
    )
    session.put(b"odd \xff\n name", content)
    session.agent("git init -q nested; cd nested; echo n > n; git add n; git commit -qm nested; echo nn > n")
    ids = {
        name: session.agent(f"git rev-parse '{name}'").decode().strip()
        for name in ("HEAD", "refs/heads/side", "refs/tags/v1", "stash@{0}", "stash@{1}", "worktrees/w/HEAD")
    }
    worktree = {name: tree(session.path)[name][1] for name in ("keep", "folder/a", "outside", "odd \udcff\n name", "nested/n")}
    saved = os.path.join(either.home, "pack")
    done = delete(session, "--rescue", saved, "--json")
    assert done.exit_status == 0 and gone(session), done
    answer = json.loads(done.stdout)
    assert (answer["rescue"], answer["rescue_files"]) == (saved, saved + ".tar")
    for path, size in ((saved, answer["rescue_bytes"]), (saved + ".tar", answer["rescue_files_bytes"])):
        found = os.lstat(path)
        assert (found.st_size, stat.S_IMODE(found.st_mode)) == (size, 0o600)
    assert sorted(os.listdir(either.home)) == ["pack", "pack.tar", "repo"]

    either.git("clone", "-q", saved, os.path.join(either.home, "cloned"))
    assert either.git("-C", os.path.join(either.home, "cloned"), "rev-parse", "HEAD").strip() == ids["HEAD"]
    either.git("-C", either.repo, "fetch", "-q", saved, "HEAD:refs/rescued/HEAD", "refs/*:refs/rescued/*")
    either.git("-C", either.repo, "fsck", "--strict")
    names = ("HEAD", "heads/side", "tags/v1", "stash", "workcell/stash/1", "workcell/worktree/1")
    for name, oid in zip(names, ids.values(), strict=True):
        assert either.git("-C", either.repo, "rev-parse", "refs/rescued/" + name).strip() == oid, name
    blob = either.popen(
        "git", "-C", either.repo, "cat-file", "blob", "refs/rescued/workcell/staged:keep", stdout=subprocess.PIPE
    )
    assert blob.communicate()[0] == content[::-1]
    assert "folder/b" not in either.git("-C", either.repo, "ls-tree", "-r", "--name-only", "refs/rescued/workcell/staged")

    out = os.path.join(either.home, "out")
    os.mkdir(out)
    either.run("chmod", "777", out)
    assert shutil.which("tar") and subprocess.run(["tar", "-xf", saved + ".tar", "-C", out]).returncode == 0
    restored = tree(os.path.join(out, "worktree"))
    assert {name: found[1] for name, found in restored.items() if not stat.S_ISDIR(found[0])} == worktree
    assert restored["keep"][0] & 0o100
    status = open(os.path.join(out, "status")).read().splitlines()
    assert {"MM keep", "D  folder/b", " M folder/a", "?? nested/", "?? outside"} <= set(status), status
    nested = os.path.join(out, "repositories/nested.bundle")
    assert subprocess.run(["git", "clone", "-q", nested, os.path.join(out, "nested")]).returncode == 0
    assert open(os.path.join(out, "nested/n")).read() == "n\n"


def test_a_clone_that_cannot_be_saved_whole_stays(shared):
    saved = os.path.join(shared.home, "not-saved")
    damaged = Session(shared)
    damaged.agent("echo x > x; git add x; git commit -qm x; rm -f .git/objects/$(git rev-parse HEAD:x | sed 's,..,&/,')")
    forged = Session(shared)
    forged.agent(
        "echo x > x; git add x; git commit -qm x; object=.git/objects/$(git rev-parse HEAD:x | sed 's,..,&/,');"
        "other=.git/objects/$(echo other | git hash-object -w --stdin | sed 's,..,&/,'); cp -f $other $object"
    )
    nested = Session(shared)
    nested.agent("git init -q nested; rm nested/.git/HEAD; mkfifo nested/.git/HEAD")
    for session in (damaged, forged, nested):
        done = delete(session, "--rescue", saved)
        assert done.exit_status == 1 and "cannot be rescued" in done.stderr and done.stderr.count("\n") == 1, done
        assert os.path.isdir(session.path) and shared.show(session.id)
    assert not [name for name in os.listdir(shared.home) if name.startswith("not-saved")]


def test_a_rescue_goes_where_it_is_safe_and_replaces_nothing(shared):
    session = Session(shared)
    session.agent("echo u > u; git commit -qm c --allow-empty")
    taken, link = os.path.join(shared.home, "taken"), os.path.join(shared.home, "link")
    write(taken + ".tar", "precious")
    if not os.path.islink(link):
        os.symlink(taken, link)
    inside = os.path.join(session.path, "saved")
    cases = {taken: (2, "is there already"), link: (1, "is a link"), inside: (2, "lies in what is to be removed")}
    for path, (status, why) in cases.items():
        done = delete(session, "--rescue", path)
        assert done.exit_status == status and why in done.stderr, done
    assert open(taken + ".tar").read() == "precious" and not os.path.exists(taken) and os.path.isdir(session.path)
    assert delete(session, "--discard-work").exit_status == 0 and gone(session)


def test_the_history_of_a_shallow_source_is_saved_for_that_source(place):
    make_repository(place, path=os.path.join(place.home, "deep"))
    write(os.path.join(place.home, "deep/second"), "2")
    commit(place, os.path.join(place.home, "deep"), "two")
    place.git("clone", "-q", "--depth", "1", "file://" + os.path.join(place.home, "deep"), place.repo)
    session = Session(place)
    session.agent("echo c > c; git add c; git commit -qm c")
    saved = os.path.join(place.home, "saved")
    assert delete(session, "--rescue", saved).exit_status == 0 and gone(session)
    place.git("-C", place.repo, "fetch", "-q", saved, "HEAD:rescued")
    assert place.git("-C", place.repo, "show", "rescued:c") == "c\n"


# --- hostile, damaged, broken off


def test_nothing_that_the_clone_names_runs_while_it_is_counted_and_saved(place):
    from test_diff_canaries import Trap

    trap = Trap(place)
    done = delete(trap.session, "--dry-run", cwd=trap.session.path)
    assert done.exit_status == 1 and int(done.values["work_commits"]) == 2 and done.values["work_submodules"] == "1", done
    saved = os.path.join(place.home, "saved")
    done = delete(trap.session, "--rescue", saved)
    assert done.exit_status == 0 and gone(trap.session), done
    place.git("clone", "-q", saved, os.path.join(place.home, "cloned"))
    assert trap.fired() == []


@pytest.mark.parametrize("path", [".git/HEAD", ".git/index", ".git/packed-refs", ".git/refs/heads/fifo", "fifo"])
def test_a_fifo_holds_up_nothing(shared, path):
    session = Session(shared)
    session.agent(f"rm -f {path}; mkfifo {path}")
    started = time.monotonic()
    done = delete(session)
    if path == "fifo":  # which is nothing that could be kept
        assert done.exit_status == 0, done
        return
    assert done.exit_status == 1 and "cannot tell" in done.stderr and "a FIFO" in done.stderr, done
    assert time.monotonic() - started < 20 and os.path.isdir(session.path)
    assert delete(session, "--discard-work").exit_status == 0 and gone(session)


def test_no_link_is_followed_and_nothing_is_too_deep_or_closed_to_be_removed(either):
    session = Session(either)
    precious = os.path.join(either.home, "precious")
    os.makedirs(os.path.join(precious, "folder"))
    write(os.path.join(precious, "folder/file"), "precious")
    session.agent(f"ln -sfn {precious} link; ln -s {precious}/folder build; ln -s {precious}/folder/file folder/file")
    deep = "import os\nfor n in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nopen('file', 'w').close()"
    session.agent(f'mkdir deep; cd deep; {python_for(session.owner)} -c "{deep}"')
    session.agent("mkdir -p closed/below; echo x > closed/below/x; chmod 0 closed/below closed; chmod 500 folder")
    done = delete(session)
    assert done.exit_status == 1 and "cannot tell" in done.stderr and os.path.isdir(session.path), done
    done = delete(session, "--discard-work")
    assert done.exit_status == 0 and gone(session), done
    assert open(os.path.join(precious, "folder/file")).read() == "precious"


def test_a_delete_that_was_killed_goes_on_when_it_is_given_again(place):
    make_repository(place)
    session = Session(place)
    session.agent("echo c > c; git add c; git commit -qm c; mkdir build; cd build; seq 20000 | xargs touch")
    profile = os.path.dirname(place.show(session.id)["audit_log_path"])
    extra = os.path.join(profile, "sessions", session.id + ".extra")
    saved = os.path.join(place.home, "saved")
    words = (os.path.join(BIN, "workcell-session-delete"), "--id", session.id, "--workspace", "--rescue", saved)
    child = place.popen(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: os.path.exists(extra) and "workspace_removal" in open(extra).read(), what="the decision")
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert os.path.isdir(session.path) and place.show(session.id)
    # As bad as it can be: git's own files are gone, and what is left looks like a clone in which nothing was ever done.
    shutil.rmtree(os.path.join(session.path, ".git"), ignore_errors=True)
    before = os.lstat(saved)
    done = delete(session, "--rescue", saved)
    assert done.exit_status == 0 and gone(session) and done.values["rescue"] == saved, done
    assert os.lstat(saved) == before or os.lstat(saved).st_mtime_ns == before.st_mtime_ns
    place.git("-C", place.repo, "fetch", "-q", saved, "HEAD")
    assert os.listdir(os.path.dirname(extra)) == []


def test_half_a_clone_without_a_decision_is_not_taken_for_one_without_work(shared):
    session = Session(shared)
    session.agent("git commit -qm c --allow-empty")
    shutil.rmtree(os.path.join(session.path, ".git/refs"))
    done = delete(session)
    assert done.exit_status == 1 and "cannot tell" in done.stderr and "--discard-work" in done.stderr, done
    assert os.path.isdir(session.path)


def test_a_rescue_that_was_killed_is_made_again_under_the_same_name(shared):
    session = Session(shared)
    session.agent("head -c 8000000 /dev/urandom > u; git add u; git commit -qm u")
    saved = os.path.join(shared.home, "again")
    words = (os.path.join(BIN, "workcell-session-delete"), "--id", session.id, "--workspace", "--rescue", saved)
    child = shared.popen(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    left = lambda: [name for name in os.listdir(shared.home) if name.startswith("again")]  # noqa: E731
    wait_until(left, what="a folder for the rescue")
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert os.path.isdir(session.path) and not os.path.exists(saved)
    wait_until(lambda: not shared.left_over(), what="its sandbox is gone")
    done = delete(session, "--rescue", saved)
    assert done.exit_status == 0 and gone(session) and left() == ["again"], done


def test_without_a_sandbox_nobody_can_tell_and_nothing_is_removed(place):
    make_repository(place)
    session = Session(place)
    write(os.path.join(place.folder, "bin/bwrap"), "#!/bin/sh\necho 'bwrap: no permission' >&2\nexit 1\n", 0o755)
    env = {"PATH": os.path.join(place.folder, "bin") + ":" + place.env["PATH"]}
    for words in ((), ("--rescue", os.path.join(place.home, "saved"))):
        done = delete(session, *words, env=env)
        assert done.exit_status == 1 and "cannot tell" in done.stderr and "no permission" in done.stderr, done
    assert os.path.isdir(session.path) and place.show(session.id)
    done = delete(session, "--dry-run", "--json", env=env)
    assert done.exit_status == 1 and "work" not in json.loads(done.stdout), done
    assert "no permission" in json.loads(done.stdout)["work_unknown"]
    assert delete(session, "--discard-work", env=env).exit_status == 0 and gone(session)


# --- what is refused from the start


def test_options_that_do_not_go_together_and_workspaces_that_are_no_clone_are_refused(place):
    make_repository(place)
    session, direct = Session(place), Session(place, direct=True)
    id = ("--id", session.id)
    for words in (
        (*id, "--rescue", "x"),
        (*id, "--discard-work"),
        (*id, "--workspace", "--record-only"),
        (*id, "--workspace", "--rescue", "x", "--discard-work"),
        ("--id", direct.id, "--workspace"),
        ("--id", direct.id, "--workspace", "--discard-work"),
    ):
        done = place.session("delete", *words)
        assert done.exit_status == 2 and done.stderr.count("\n") == 1, done
    assert os.path.isdir(session.path) and os.path.isdir(direct.path) and place.show(direct.id)
    # A record that was tampered with names nothing that can be removed with it.
    path = os.path.join(os.path.dirname(place.show(session.id)["audit_log_path"]), "sessions", session.id + ".json")
    with open(path) as stream:
        fields = json.load(stream)
    precious = os.path.join(place.home, "precious/.git/workcell-sessions/other/repo")
    os.makedirs(precious)
    with open(path, "w") as stream:
        json.dump({**fields, "workspace": precious, "workspace_origin": os.path.join(place.home, "precious")}, stream)
    done = delete(session, "--discard-work")
    assert done.exit_status == 2 and os.path.isdir(precious), done


def test_a_clone_is_missing_only_where_its_source_is_there(shared):
    session = Session(shared)
    os.rename(shared.repo, shared.repo + ".away")
    done = delete(session, "--discard-work")
    os.rename(shared.repo + ".away", shared.repo)
    assert done.exit_status == 1 and "cannot be reached" in done.stderr, done
    shutil.rmtree(os.path.dirname(session.path))
    done = delete(session)
    assert done.exit_status == 0 and done.values["missing"] == "workspace" and done.values["removed"] == "record", done
    assert gone(session)
