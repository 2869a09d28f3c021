"""Line ends, `$Id$`, encodings, large files elsewhere, sparse trees: nothing differs before anybody worked, then what did."""

import hashlib
import os
import subprocess

import pytest
from diffs import Session, commit, make_repository, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workcell import conversion, objects

ATTRIBUTES = """\
* text=auto
*.bat text eol=crlf
*.crlf eol=crlf
*.lf text eol=lf
*.raw -text
*.bin binary
*.id ident
*.u16 text working-tree-encoding=UTF-16
*.u16le working-tree-encoding=UTF-16LE-BOM
*.latin working-tree-encoding=ISO-8859-1
*.lfs filter=lfs diff=lfs merge=lfs -text
*.sealed filter=seal
"""
POINTER = conversion.pointer(hashlib.sha256(b"large\n").hexdigest(), 6)
CONTENTS = {
    "a.txt": "one\ntwo\n",
    "a.bat": "one\ntwo\n",
    "a.crlf": "one\n",
    "a.lf": "one\n",
    "a.raw": "one\r\ntwo\n",
    "a.bin": b"\0\r\n\1",
    "a.id": "$Id$ and $Id: old $\n",
    "a.u16": "gr\u00fcn\n".encode("utf-16"),
    "a.u16le": "\ufeffx\n".encode("utf-16-le"),
    "a.latin": "gr\u00fcn\n".encode("latin-1"),
    "a.lfs": POINTER,
    "a.sealed": "sealed\n",
    "folder/.gitattributes": "*.txt eol=crlf\n",
    "folder/x.txt": "x\ny\n",
    "empty": "",
}


@pytest.mark.parametrize("config", ["", "core.autocrlf=true", "core.autocrlf=input", "core.eol=crlf"])
@pytest.mark.parametrize("direct", [False, True], ids=["isolated", "direct"])
def test_nothing_differs_before_anybody_worked_whatever_the_attributes_say(place, direct, config):
    # H15
    make_repository(place, CONTENTS, attributes=ATTRIBUTES)
    if config:
        place.git("-C", place.repo, "config", *config.split("="))
        # As if it had been cloned with that setting.
        place.git("-C", place.repo, "rm", "-q", "-r", "--cached", ".")
        place.git("-C", place.repo, "reset", "-q", "--hard")
    session = Session(place, direct)
    if config and direct:
        with open(os.path.join(session.path, "keep"), "rb") as stream:
            assert (b"\r\n" in stream.read()) == (config != "core.autocrlf=input")
    found = session.bundle()
    assert found.is_clean, found.text
    assert found.notes == []


def test_a_change_in_a_converted_file_is_just_that_change(place):
    make_repository(place, CONTENTS, attributes=ATTRIBUTES)
    session = Session(place)
    session.agent("""printf 'three\\r\\n' >> a.bat; printf 'three\\r\\n' >> folder/x.txt
        printf '$Id: 1234 $ and $Id$\\n+\\n' > a.id
        printf 'gr\\374n\\nblau\\n' > a.latin; iconv -t UTF-16 > a.u16 <<E
grün
rot
E
        printf 'one\\r\\ntwo\\r\\n' > a.txt""")
    found = session.bundle()
    assert found.status.split("\n") == [" M a.bat", " M a.id", " M a.latin", " M a.u16", " M folder/x.txt"]
    lines = found.diff.split("\n")
    changed = [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    assert changed == ["+three", "++", "+blau", "+rot", "+three"]


def test_line_ends_that_the_base_does_not_convert_are_a_change(place):
    make_repository(place)
    session = Session(place)
    session.agent("printf 'hello\\r\\n' > README")
    assert session.bundle().status == " M README"


def test_the_base_decides_and_not_what_the_workspace_says_now(place):
    # H21: attributes and ignore rules that the agent writes hide nothing.
    make_repository(place)
    session = Session(place)
    session.agent("""printf '* -diff\\nREADME text eol=crlf\\n*.py binary\\n' > .gitattributes; printf '*\\n' >> .gitignore
        mkdir .git/info; printf '* -diff\\n' > .git/info/attributes; printf '*\\n' > .git/info/exclude
        git config core.autocrlf true; printf 'hello\\r\\n' > README; echo secret > new.py; git add -f .gitattributes""")
    found = session.bundle()
    assert " M README" in found.status and "?? new.py" in found.status
    assert "+hello\r" in found.diff
    notes = "\n".join(found.notes)
    assert ".gitattributes, .gitignore" in notes and ".git/info/attributes" in notes and ".git/info/exclude" in notes
    assert "core.autocrlf" in notes


def test_ignored_files_are_counted_but_what_is_tracked_is_shown_all_the_same(place):
    # H17
    make_repository(place)
    session = Session(place)
    session.agent("""echo l > a.log; mkdir -p build/deep; echo o > build/o; echo o > build/deep/o; echo f > build/forced
        echo e > build/executable; chmod +x build/executable; git add -f build/forced; git commit -qm forced""")
    found = session.bundle()
    assert found.status == "clean"
    assert "b/build/forced" in found.diff and "+f" in found.diff and "build/o" not in found.diff
    assert found.notes == ["ignored by the rules of the base: 4 files"]


def test_a_large_file_that_git_lfs_keeps_elsewhere_is_the_same_until_it_changes(place):
    # H15, in a direct session: the work tree has the file, the commit its pointer.
    make_repository(place, {"a.lfs": POINTER}, attributes=ATTRIBUTES)
    write(os.path.join(place.repo, "a.lfs"), "large\n")
    session = Session(place, True, None, "dirty-is-fine")
    assert session.bundle().is_clean
    session.put("a.lfs", "larger\n")
    found = session.bundle()
    assert found.status == " M a.lfs"
    assert f"+oid sha256:{hashlib.sha256(b'larger' + bytes([10])).hexdigest()}" in found.diff
    assert any("content filters are not run" in note and "a.lfs" in note for note in found.notes)


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_what_a_sparse_work_tree_leaves_out_is_not_deleted(place, cone):
    # H06: an isolated clone is whole, a direct one keeps what it had.
    make_repository(place)
    place.git("-C", place.repo, "sparse-checkout", "set", cone, "folder")
    assert not os.path.exists(os.path.join(place.repo, "other"))
    direct = Session(place, True)
    assert direct.bundle().is_clean
    direct.agent("rm folder/a")
    assert direct.bundle().status == " D folder/a"
    place.git("-C", place.repo, "checkout", "-q", "folder/a")
    isolated = Session(place)
    assert os.path.exists(os.path.join(isolated.path, "other/deep/c"))
    assert isolated.bundle().is_clean


def test_settings_of_the_operator_that_keep_modes_and_links_apart_count(place):
    make_repository(place)
    for key in ("core.filemode", "core.symlinks"):
        place.git("-C", place.repo, "config", key, "false")
    os.unlink(os.path.join(place.repo, "link"))
    write(os.path.join(place.repo, "link"), "README")
    os.chmod(os.path.join(place.repo, "run"), 0o644)
    session = Session(place, True)
    assert session.bundle().is_clean
    session.put("link", "keep")
    assert session.bundle().status == " M link"


def test_files_that_the_operator_has_excluded_for_himself_are_ignored_in_a_direct_session(place):
    make_repository(place)
    write(os.path.join(place.repo, ".git/info/exclude"), "mine\n")
    write(os.path.join(place.repo, "mine"), "x")
    session = Session(place, True)
    assert session.bundle().is_clean
    session.put("theirs", "x")
    assert session.bundle().status == "?? theirs"


def test_a_repository_of_sha256_is_compared_too(place):
    os.makedirs(place.repo)
    write(os.path.join(place.repo, "README"), "hello\n")
    place.git("-C", place.repo, "init", "-q", "-b", "main", "--object-format=sha256")
    commit(place, place.repo, "one")
    for session in (Session(place), Session(place, True)):
        assert len(session.base) == 64 and session.bundle().is_clean
        session.agent("echo more >> README; echo n > new; git add new")
        assert (session.bundle().status, session.bundle().diff) == session.git_says()
        session.agent("git reset -q --hard")


# --- the conversion itself, against git's own


LINES = st.sampled_from(
    ["a", "\r\n", "\n", "\r", "\0", "\x1a", "\x7f", "\x01", "$Id: x $", "$Id$", "$Id: \n$", "\u00e9", "x" * 200]
)
BINARY = st.lists(LINES, max_size=12).map(lambda parts: "".join(parts).encode())
CASES = {
    "plain": ("", {}),
    "auto": ("* text=auto", {"text": "auto"}),
    "auto-crlf": ("* text=auto eol=crlf", {"text": "auto", "eol": "crlf"}),
    "text": ("* text", {"text": "set"}),
    "no-text-but-eol": ("* -text eol=lf", {"text": "unset", "eol": "lf"}),
    "eol": ("* eol=lf", {"eol": "lf"}),
    "old-word": ("* crlf=input", {"crlf": "input"}),
    "other-word": ("* text=what crlf", {"text": "what", "crlf": "set"}),
    "ident": ("* ident", {"ident": "set"}),
    "ident-and-text": ("* ident text", {"ident": "set", "text": "set"}),
}


@pytest.fixture(scope="module")
def plain_repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain")
    subprocess.run(["git", "init", "-q", path], check=True)
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=BINARY, case=st.sampled_from(sorted(CASES)), autocrlf=st.sampled_from(["false", "true", "input"]))
def test_a_content_is_taken_in_as_git_would(plain_repository, content, case, autocrlf):
    text, attributes = CASES[case]
    (plain_repository / ".gitattributes").write_text(text + "\n")
    words = ["git", "-c", f"core.autocrlf={autocrlf}", "-c", "core.safecrlf=false", "hash-object", "--stdin", "--path=file"]
    git = subprocess.run(words, input=content, cwd=plain_repository, capture_output=True, check=True).stdout.decode().strip()
    ours = conversion.to_git(content, attributes, {"core.autocrlf": autocrlf}, None)
    assert objects.object_id("sha1", "blob", ours) == git


@pytest.mark.parametrize("base", [b"a\n", b"a\r\n", b"a\r\n\0", b"a\r"])
@pytest.mark.parametrize("content", [b"b\r\n", b"b\r\nc\n", b"b\r\n\0"])
def test_what_the_commit_has_with_carriage_returns_keeps_them_where_git_only_guesses(plain_repository, base, content):
    def git(*words, **more):
        return (
            subprocess.run(["git", *words], cwd=plain_repository, capture_output=True, check=True, **more)
            .stdout.decode()
            .strip()
        )

    (plain_repository / ".gitattributes").write_text("* text=auto\n")
    git("update-index", "--add", "--cacheinfo", "100644", git("hash-object", "-w", "--stdin", input=base), "f")
    (plain_repository / "f").write_bytes(content)
    git("add", "f")
    ours = conversion.to_git(content, {"text": "auto"}, {}, base)
    assert objects.object_id("sha1", "blob", ours) == git("ls-files", "-s", "f").split()[1]
