"""The work tree that a session gets, tried through the executable: each kind of source is cloned, or refused as it is."""

import json
import os

import pytest

START = ["--agent", "command", "--target", "bubblewrap"]


def git(world, *words, folder=None):
    return world.git("-c", "user.name=Op", "-c", "user.email=op@example.org", "-C", folder or world.repo, *words)


def write(world, name, text, folder=None):
    path = os.path.join(folder or world.repo, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
    return path


def commit(world, name, text, folder=None):
    write(world, name, text, folder)
    git(world, "add", "-A", folder=folder)
    git(world, "commit", "-q", "-m", name, folder=folder)


def run(world, *words, options=()):
    """Run a session to its end; return its record and what it printed."""
    session_id = world.start(*options, "--env", "GIT_PAGER=cat", "--", *words)
    world.session("wait", "--id", session_id)
    return world.show(session_id), world.transcript(session_id).replace("\r\n", "\n")


def check_refused(world, why, *options, status=2):
    """Check that start refuses with one line that has a reason, and leaves nothing behind anywhere."""
    before = {path: files for path, _, files in os.walk(world.home)}
    done = world.session("start", *START, *options, "--", "true")
    assert done.exit_status == status, done
    assert why in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert world.profile_dirs() == []
    assert {path: files for path, _, files in os.walk(world.home)} == before
    return done.stderr


@pytest.fixture
def repo(world):
    world.make_repo()
    return world


# --- H02: what the workspace is


def test_h02_a_submodule_is_refused_with_what_to_do_instead(repo):
    outer = repo.make_repo(os.path.join(repo.home, "outer"))
    repo.git("-c", "protocol.file.allow=always", "-C", outer, "submodule", "--quiet", "add", repo.repo, "sub")
    git(repo, "commit", "-q", "-m", "sub", folder=outer)
    for mode in ("isolated", "direct"):
        line = check_refused(repo, "submodule", "--workspace", os.path.join(outer, "sub"), "--session-workspace", mode)
        assert "standard clone" in line


def test_h02_h09_a_linked_worktree_is_refused_and_its_administration_left_alone(repo):
    linked = os.path.join(repo.home, "linked")
    git(repo, "worktree", "add", "-q", "-b", "other", linked)
    for mode in ("isolated", "direct"):
        check_refused(repo, "linked worktree", "--workspace", linked, "--session-workspace", mode)
    # The repository that it is linked to can be used: its clone has nothing of the link in it.
    record, text = run(repo, "git", "worktree", "list")
    assert text.strip().count("\n") == 0 and "/workspace" in text
    assert not os.path.exists(os.path.join(record["worktree_path"], ".git/worktrees"))


def test_h02_a_folder_inside_a_work_tree_is_refused_and_the_top_named(repo):
    commit(repo, "deep/er/file", "x")
    for mode in ("isolated", "direct"):
        line = check_refused(
            repo, "is a folder inside the git work tree", "--workspace", repo.repo + "/deep/er", "--session-workspace", mode
        )
        assert f"--workspace {repo.repo}\n" in line


def test_h02_a_bare_repository_is_refused(repo):
    bare = os.path.join(repo.home, "bare.git")
    repo.git("clone", "-q", "--bare", repo.repo, bare)
    check_refused(repo, "is not a git work tree", "--workspace", bare)
    check_refused(repo, "is not a git work tree", "--workspace", bare, "--session-workspace", "direct")


def test_h02_a_folder_without_a_repository_is_refused_and_never_used_unasked(world):
    plain = os.path.join(world.home, "plain")
    write(world, "file", "x", plain)
    line = check_refused(world, "is not a git work tree", "--workspace", plain)
    assert "--session-workspace direct" in line
    check_refused(world, "is not a git work tree", "--workspace", plain, "--session-workspace", "direct")
    check_refused(world, "is not a git work tree", "--workspace", plain, "--allow-nongit-workspace")


def test_h02_a_broken_repository_is_refused_in_the_words_of_git(repo):
    with open(os.path.join(repo.repo, ".git/HEAD"), "w") as stream:
        stream.write("nonsense\n")
    check_refused(repo, "git refuses it: not a git repository")


@pytest.mark.parametrize("mode", ["isolated", "direct"])
def test_a_workspace_that_is_too_broad_or_sensitive_is_refused(repo, mode):
    for folder, why in (
        ("/", "too broad"),
        (repo.home, "too broad"),
        (os.path.dirname(repo.home), "too broad"),
        (os.path.join(repo.home, ".ssh"), "credentials"),
        (os.path.join(repo.home, ".config/deep/folder"), "credentials"),
        (os.path.join(repo.home, "missing"), "is not a folder"),
        (os.path.join(repo.repo, "README"), "is not a folder"),
    ):
        if why == "credentials":
            os.makedirs(folder, exist_ok=True)
        check_refused(repo, why, "--workspace", folder, "--session-workspace", mode, "--allow-nongit-workspace")


def test_a_workspace_behind_a_link_is_the_folder_that_the_link_leads_to(repo):
    link = os.path.join(repo.home, "link")
    os.symlink(repo.repo, link)
    record, _ = run(repo, "true", options=["--workspace", link])
    assert record["workspace_origin"] == repo.repo
    os.makedirs(os.path.join(repo.home, ".ssh"))
    os.symlink(os.path.join(repo.home, ".ssh"), os.path.join(repo.home, "innocent"))
    check = repo.session("start", *START, "--workspace", os.path.join(repo.home, "innocent"), "--", "true")
    assert check.exit_status == 2 and "credentials" in check.stderr


def test_a_workspace_of_odd_characters_is_cloned_and_named_exactly(repo):
    odd = repo.make_repo(os.path.join(repo.home, 'a "b" \\ \t # $(x) é 日本 -f'))
    record, text = run(repo, "cat", "README", options=["--workspace", odd])
    assert text == "hello\n"
    assert record["workspace_origin"] == odd
    assert record["worktree_path"].startswith(odd + "/.git/workcell-sessions/")


def test_a_workspace_with_a_newline_in_its_path_is_refused(repo):
    folder = repo.make_repo(os.path.join(repo.home, "new\nline"))
    check_refused(repo, "newline", "--workspace", folder)


# --- what the source has to be


@pytest.mark.parametrize("what", ["changed", "untracked", "staged", "deleted", "mode", "submodule"])
def test_a_source_with_changes_is_refused_for_an_isolated_session_only(repo, what):
    if what == "submodule":
        inner = repo.make_repo(os.path.join(repo.home, "inner"))
        repo.git("-c", "protocol.file.allow=always", "-C", repo.repo, "submodule", "--quiet", "add", inner, "sub")
        git(repo, "commit", "-q", "-m", "sub")
        run(repo, "true")
        write(repo, "sub/README", "changed inside")
        done = repo.session("start", *START, "--", "true")
        assert done.exit_status == 2 and "uncommitted or untracked changes" in done.stderr
        return
    path = os.path.join(repo.repo, "README")
    if what == "changed":
        write(repo, "README", "changed")
    elif what == "untracked":
        write(repo, "deep/new", "new")
    elif what == "staged":
        write(repo, "README", "changed")
        git(repo, "add", "-A")
    elif what == "deleted":
        os.unlink(path)
    else:
        os.chmod(path, 0o755)
    line = check_refused(repo, "uncommitted or untracked changes")
    assert "commit or stash" in line and "--session-workspace direct" in line


def test_ignored_files_and_settings_of_the_user_do_not_hide_changes(repo):
    commit(repo, ".gitignore", "ignored\n")
    write(repo, "ignored", "x")
    record, text = run(repo, "sh", "-c", "ls -A; git status --short")
    assert text.split() == [".git", ".gitignore", "README"]
    git(repo, "config", "status.showUntrackedFiles", "no")
    write(repo, "untracked", "x")
    done = repo.session("start", *START, "--", "true")
    assert done.exit_status == 2 and "uncommitted or untracked changes" in done.stderr


def test_h12_an_unborn_head_is_refused_with_one_line(repo):
    fresh = os.path.join(repo.home, "fresh")
    repo.git("init", "-q", "-b", "trunk", fresh)
    line = check_refused(repo, "has no commit yet", "--workspace", fresh)
    assert "commit something first" in line


def test_h12_an_unborn_branch_of_a_repository_with_commits_is_refused(repo):
    git(repo, "checkout", "-q", "--orphan", "empty")
    git(repo, "rm", "-q", "-rf", ".")
    check_refused(repo, "has no commit yet")


def test_h05_a_partial_clone_is_refused_with_the_cause(repo):
    git(repo, "config", "uploadpack.allowFilter", "true")
    partial = os.path.join(repo.home, "partial")
    repo.git("clone", "-q", "--filter=blob:none", f"file://{repo.repo}", partial)
    os.rename(repo.repo, repo.repo + ".gone")
    line = check_refused(repo, "is a partial clone", "--workspace", partial)
    assert "git fetch --refetch" in line


def test_h05_a_shallow_source_is_cloned_with_the_history_it_has(repo):
    commit(repo, "two", "2")
    shallow = os.path.join(repo.home, "shallow")
    repo.git("clone", "-q", "--depth=1", f"file://{repo.repo}", shallow)
    record, text = run(repo, "sh", "-c", "git log --format=%s && git fsck", options=["--workspace", shallow])
    assert text.splitlines()[0] == "two"
    assert record["exit_status"] == "0"


@pytest.mark.parametrize("cone", [True, False])
def test_h06_a_sparse_source_gives_a_whole_tree_and_no_change(repo, cone):
    """The rule: a clone is never sparse, whatever its source is; the commit is what counts."""
    commit(repo, "in/file", "in")
    commit(repo, "out/file", "out")
    git(repo, "sparse-checkout", "set", *([] if cone else ["--no-cone"]), "in" if cone else "/in/")
    assert not os.path.exists(os.path.join(repo.repo, "out"))
    record, text = run(repo, "sh", "-c", "cat in/file out/file; git status --short; git diff HEAD --stat")
    assert text == "inout"
    assert record["git_base"] == git(repo, "rev-parse", "HEAD").strip()


def test_h03_pointers_of_a_large_file_store_stay_pointers_and_nothing_is_fetched(repo):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    write(repo, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    commit(repo, "large.bin", pointer)
    git(repo, "config", "filter.lfs.smudge", "false")
    git(repo, "config", "filter.lfs.process", "false")
    git(repo, "config", "filter.lfs.required", "true")
    record, text = run(repo, "sh", "-c", "cat large.bin; git status --short")
    assert text == pointer


def test_a_detached_head_is_cloned_at_its_commit(repo):
    commit(repo, "two", "2")
    git(repo, "checkout", "-q", "--detach", "HEAD~1")
    record, text = run(repo, "sh", "-c", "git log --format=%s; git rev-parse --abbrev-ref HEAD")
    assert text.splitlines() == ["one", f"workcell/session-{record['session_id']}"]


def test_h15_the_base_is_the_commit_that_is_checked_out_and_nothing_has_changed_against_it(repo):
    git(repo, "checkout", "-q", "-b", "dev")
    for number in range(3):
        commit(repo, f"dev{number}", str(number))
    git(repo, "checkout", "-q", "main")
    commit(repo, "far", "away")
    git(repo, "checkout", "-q", "dev")
    script = "git status --short; git diff --stat HEAD; git rev-parse HEAD; git log --format=%s -1; ls"
    record, text = run(repo, "sh", "-c", script)
    head = git(repo, "rev-parse", "dev").strip()
    assert record["git_base"] == record["git_head"] == head
    assert text.split() == [head, "dev2", "README", "dev0", "dev1", "dev2"]
    assert record["git_branch"] == f"workcell/session-{record['session_id']}"


def test_a_branch_and_a_tag_of_one_name_do_not_confuse_the_base(repo):
    commit(repo, "two", "2")
    head = git(repo, "rev-parse", "HEAD").strip()
    for name in ("main", "HEAD", head, f"workcell/session-{head}"):
        git(repo, "update-ref", f"refs/tags/{name}", "HEAD~1")
    record, text = run(repo, "sh", "-c", "git rev-parse HEAD 2>/dev/null")
    assert record["git_base"] == head and text.strip() == head


def test_h21_a_replaced_object_of_the_source_is_not_what_is_cloned(repo):
    commit(repo, "README", "the real content\n")
    blob = git(repo, "rev-parse", "HEAD:README").strip()
    fake = repo.run("git", "-C", repo.repo, "hash-object", "-w", "--stdin", stdin="the fake content\n").stdout.strip()
    git(repo, "update-ref", f"refs/replace/{blob}", fake)
    record, text = run(repo, "cat", "README")
    assert text == "the real content\n"


# --- where the clone goes


def test_h14_a_folder_or_a_link_in_the_place_of_the_clones_is_never_used(repo):
    clones = os.path.join(repo.repo, ".git/workcell-sessions")
    elsewhere = os.path.join(repo.home, "elsewhere")
    os.makedirs(elsewhere)
    os.symlink(elsewhere, clones)
    check_refused(repo, "is a symbolic link")
    os.unlink(clones)
    with open(clones, "w") as stream:
        stream.write("a file")
    before = os.listdir(elsewhere)
    done = repo.session("start", *START, "--", "true")
    assert done.exit_status == 2 and "is not a folder" in done.stderr
    assert os.listdir(elsewhere) == before and repo.scratch_folders() == []
    with open(clones) as stream:
        assert stream.read() == "a file"


def test_h14_a_clone_that_an_earlier_session_left_is_kept_and_not_used_again(repo):
    first, _ = run(repo, "sh", "-c", "echo work > work")
    second, text = run(repo, "ls")
    assert first["worktree_path"] != second["worktree_path"]
    assert text == "README\n"
    with open(os.path.join(first["worktree_path"], "work")) as stream:
        assert stream.read() == "work\n"


def test_h14_a_stale_folder_at_the_next_clone_path_is_not_reused(repo, monkeypatch):
    from workcell import workspace
    from workcell.errors import PreconditionError

    monkeypatch.setenv("HOME", repo.home)
    source = workspace.Source(repo.repo, os.path.join(repo.repo, ".git"), "main", "0" * 40)
    path = workspace.clone_path(source, "20260102T030405Z-0a1b2c3d")
    os.makedirs(os.path.dirname(path))
    with pytest.raises(PreconditionError, match="exists already"):
        workspace.clone_path(source, "20260102T030405Z-0a1b2c3d")


def test_a_clone_has_nothing_of_the_source_but_its_commits(repo):
    commit(repo, "two", "2")
    git(repo, "config", "user.signingKey", "secret")
    write(repo, "stashed", "x")
    git(repo, "stash", "-q", "-u")
    script = "git config --list --local; git stash list; git remote -v; ls .git; git log --all --format=%s"
    record, text = run(repo, "sh", "-c", script)
    assert "secret" not in text and "stash" not in text
    assert f"{repo.repo} (fetch)" in text
    clone = record["worktree_path"]
    assert not os.path.exists(os.path.join(clone, ".git/objects/info/alternates"))
    for folder, _, names in os.walk(os.path.join(clone, ".git/objects")):
        assert {os.stat(os.path.join(folder, name)).st_nlink for name in names} <= {1}


def test_h08_a_clone_is_whole_when_the_source_is_collected_and_gone(repo):
    record, _ = run(repo, "true")
    clone = record["worktree_path"]
    moved = os.path.join(repo.home, "moved")
    os.rename(clone, moved)
    git(repo, "gc", "-q", "--prune=now")
    assert repo.run("git", "-c", f"safe.directory={moved}", "--git-dir", moved + "/.git", "fsck", "--full").exit_status == 0


def test_a_dry_run_makes_nothing(repo):
    before = sorted(os.listdir(os.path.join(repo.repo, ".git")))
    done = repo.session("start", *START, "--dry-run", "--", "true")
    assert done.exit_status == 0 and "bwrap" in done.stdout
    assert sorted(os.listdir(os.path.join(repo.repo, ".git"))) == before
    assert not os.path.exists(os.path.join(repo.state, "targets"))


def test_i06_a_clone_can_be_written_by_the_agent_whoever_that_is(repo):
    record, text = run(
        repo, "sh", "-c", "echo x >> README && mkdir new && git add -A && git commit -q -m work && git log --format=%an%n%s -1"
    )
    assert text.splitlines() == ["workcell agent", "work"]
    assert record["exit_status"] == "0"


def test_the_name_of_the_operator_stands_in_the_agents_commits_when_git_knows_it(repo):
    with open(os.path.join(repo.home, ".gitconfig"), "w") as stream:
        stream.write("[user]\n\tname = Ada L\n\temail = ada@example.org\n")
    record, text = run(repo, "sh", "-c", "git commit -q --allow-empty -m work && git log --format='%an <%ae> %cn' -1")
    assert text.strip() == "Ada L <ada@example.org> Ada L"


def test_i07_a_clone_that_is_gone_is_no_reason_to_run_elsewhere(repo):
    """The commands go on, and none of them falls back to another folder."""
    session_id = repo.start("--", "sh", "-c", "echo up; read line; pwd; ls; touch here && echo made")
    repo.wait_for_output(session_id, "up")
    clone = repo.show(session_id)["worktree_path"]
    for folder, folders, names in os.walk(clone, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            os.rmdir(os.path.join(folder, name))
    os.rmdir(clone)
    repo.session("send", "--id", session_id, "--message", "go")
    repo.session("wait", "--id", session_id)
    assert "made" not in repo.transcript(session_id)
    assert not os.path.exists(os.path.join(repo.repo, "here"))
    for words in (["list", "--json"], ["show", "--id", session_id], ["stop", "--id", session_id]):
        assert repo.session(*words).exit_status == 0
    assert json.loads(repo.session("list", "--json").stdout)[0]["worktree_path"] == clone
