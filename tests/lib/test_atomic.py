"""Files are replaced whole, with their mode from birth."""

import os
import stat

import pytest

from evidence_support import Children, content
from workcell import atomic


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_file_has_its_mode_whatever_the_umask(tmp_path, umask):
    atomic.replace_file(str(tmp_path / "a"), b"data")
    atomic.replace_file(str(tmp_path / "b"), b"data", 0o644)
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o600, 0o644)


def test_folders_have_their_mode_whatever_the_umask(tmp_path, umask):
    atomic.make_dir(str(tmp_path / "a" / "b" / "c"))
    assert [mode(tmp_path / p) for p in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    atomic.make_dir(str(tmp_path / "a"))
    assert mode(tmp_path / "a") == 0o755


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError):
        atomic.make_dir(str(tmp_path / "a" / "b"))


@pytest.mark.parametrize("step", ["write", "fsync", "fchmod", "rename"])
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):  # G05
    path = tmp_path / "a"
    atomic.replace_file(str(path), b"old")

    def fail(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        atomic.replace_file(str(path), b"new")
    monkeypatch.undo()
    assert content(path) == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_short_writes_are_carried_on(tmp_path, monkeypatch):
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:3]))
    atomic.replace_file(str(tmp_path / "a"), b"0123456789")
    monkeypatch.undo()
    assert content(tmp_path / "a") == b"0123456789"


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"keep")
    (tmp_path / "a").symlink_to("victim")
    atomic.replace_file(str(tmp_path / "a"), b"new")
    assert content(tmp_path / "victim") == b"keep"
    assert not (tmp_path / "a").is_symlink()


def test_ten_writers_at_once_leave_one_whole_file_and_no_temporary(tmp_path):  # G04
    path = str(tmp_path / "a")
    children = Children()
    for letter in "abcdefghij":
        children.start(
            "from workcell import atomic\nfor _ in range(20): atomic.replace_file(sys.argv[1], sys.argv[2].encode() * 5000)",
            path,
            letter,
        )
    assert children.join() == [0] * 10
    assert os.listdir(tmp_path) == ["a"]
    data = content(path)
    assert len(data) == 5000 and len(set(data)) == 1
