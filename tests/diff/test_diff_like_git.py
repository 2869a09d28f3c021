"""In a workspace that nobody meddled with, the bundle is what git itself says: status, and difference to the base."""

import pytest
from diffs import Session

SCRIPTS = {
    "nothing": "",
    "unstaged": "echo more >> README; echo x >> folder/a",
    "staged": "echo more >> README; git add README",
    "staged-and-changed-again": "echo more >> README; git add README; echo again >> README; echo n > new; git add new; rm new",
    "untracked": "echo n > new; mkdir fresh; echo f > fresh/f; : > empty; mkdir nothing; ln -s nowhere dangling",
    "ignored": "echo n > x.log; mkdir build; echo o > build/o; echo u > build-not",
    "committed": "echo more >> README; git commit -qam change; echo n > new; git add new; git commit -qm 'new file'",
    "amended": "echo more >> README; git commit -qam change; echo again >> README; git commit -q --amend -am 'both changes'",
    "rebased": """git checkout -q -b side; echo s > side; git add side; git commit -qm side
        git checkout -q -; echo more >> README; git commit -qam change; git checkout -q side; git rebase -q -""",
    "another-branch": "git checkout -q -b feature; echo more >> README; git commit -qam change",
    "detached": "git checkout -q --detach; echo more >> README; git commit -qam change; echo again >> keep",
    "orphan": "git checkout -q --orphan fresh; git rm -q --cached folder/a; echo n > new",
    "mode": "chmod -x run; chmod +x README; git update-index --chmod=+x keep",
    "links": "rm link; ln -s folder link; ln -s /etc/passwd absolute; git add absolute",
    "file-to-link": "rm README; ln -s keep README",
    "link-to-file": "rm link; echo README > link",
    "folder-to-link": "rm -r folder; ln -s other folder",
    "folder-to-file": "rm -r folder; echo f > folder",
    "file-to-folder": "rm README; mkdir README; echo r > README/r; git add README/r",
    "binary": "printf 'a\\0b' > README; printf '\\0\\1\\2' > new; git add new; printf '\\0' > untracked.bin",
    "deleted": "rm README; git rm -q keep; git rm -q -r other; git commit -qm gone",
    "renamed": "git mv keep kept; git mv folder/a 'new place'; echo more >> kept",
    "without-last-newline": "printf 'hello' > README; printf 'a\\r\\n' > folder/a",
    "conflict": """git checkout -q -b side; echo side > README; git rm -q folder/a; git commit -qam side
        git checkout -q -; echo main > README; echo more >> folder/a; git commit -qam change; git merge -q side || :""",
    "added-by-both": """git checkout -q -b side; echo side > new; git add new; git commit -qm side
        git checkout -q -; echo main > new; git add new; git commit -qm change; git merge -q side || :""",
    "odd-names": r"""
        for name in ' a b' 'a"b' "a'b" 'a\b' '-rf' '--' ':(top)x' '*' 'a[b]' "$(printf 'a\nb')" \
            "$(printf 'a\tb\rc')" "$(printf '\033]52;c;x\007')" "$(printf 'caf\351')" "$(printf 'caf\303\251')" \
            "$(printf '\342\200\256x')" '#x' '~' '$x'
        do printf 'x\n' > "./$name"; mkdir "./d$name"; printf 'y\n' > "./d$name/$name"; git add -- ":(literal)d$name"
        done""",
    "taken-out-of-the-index": """git rm -q --cached README; git rm -q -r --cached folder; git commit -qm out
        git rm -q --cached keep""",
    "flags": "git update-index --assume-unchanged README; git update-index --skip-worktree keep",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_bundle_says_what_git_says_of(shared, name):
    # H15, H17
    session = Session(shared)
    session.agent(SCRIPTS[name])
    status, diff = session.git_says()
    found = session.bundle()
    assert found.status == status
    assert found.diff == diff
    assert found.keys[:5] == [
        ("session_id", session.id),
        ("workspace", session.path),
        ("git_branch", f"workcell/session-{session.id}"),
        ("git_head", session.base),
        ("git_base", session.base),
    ]
    assert found.is_clean == (name in ("nothing", "flags"))
