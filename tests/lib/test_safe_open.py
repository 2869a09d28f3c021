"""Files and folders are trusted only where nobody else could have arranged them."""

import os
import threading

import pytest

from workcell import errors, safe_open

ROOT = os.geteuid() == 0


@pytest.fixture
def top(tmp_path):
    folder = tmp_path / "top"
    folder.mkdir(mode=0o700)
    return folder


def read(path, **more):
    dir_fd = safe_open.open_dir(os.path.dirname(path))
    try:
        return safe_open.read_file(dir_fd, os.path.basename(path), str(path), **more)
    finally:
        os.close(dir_fd)


def plain_file(path, data=b"x", mode=0o600):
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_file_of_ours_is_read_whole(top):
    assert read(plain_file(top / "a", b"one\ntwo\n")) == b"one\ntwo\n"


def test_a_missing_file_and_a_missing_folder_are_file_not_found(top):
    with pytest.raises(FileNotFoundError):
        read(top / "none")
    with pytest.raises(FileNotFoundError):
        safe_open.open_dir(str(top / "no" / "such"))


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_below_the_anchor_that_others_may_write_to_is_refused(top, mode):
    (top / "open").mkdir()
    (top / "open").chmod(mode)
    with pytest.raises(errors.UnreadableError, match="others may change"):
        safe_open.open_dir(str(top / "open"))


def test_a_link_on_the_way_is_refused(top):
    (top / "real").mkdir(mode=0o700)
    (top / "link").symlink_to("real")
    with pytest.raises(errors.UnreadableError, match="link"):
        safe_open.open_dir(str(top / "link"))


def test_a_state_root_behind_a_link_is_resolved_once(top, monkeypatch):  # D35
    (top / "real" / "state" / "deep").mkdir(parents=True, mode=0o700)
    (top / "home").symlink_to("real")
    root = str(top / "home" / "state")
    monkeypatch.setenv("WORKCELL_STATE_ROOT", root)
    os.close(safe_open.open_dir(root + "/deep"))
    (top / "real" / "state" / "bad").symlink_to("deep")
    with pytest.raises(errors.UnreadableError, match="link"):
        safe_open.open_dir(root + "/bad")


@pytest.mark.skipif(not ROOT, reason="needs root, to make a link of another user")
def test_a_link_of_another_user_is_not_followed_even_to_the_state_root(top, monkeypatch):
    (top / "state").mkdir(mode=0o700)
    (top / "link").symlink_to("state")
    os.lchown(top / "link", 12345, 12345)
    monkeypatch.setenv("WORKCELL_STATE_ROOT", str(top / "link"))
    with pytest.raises(errors.UnreadableError, match="link"):
        safe_open.open_dir(str(top / "link"))


def test_links_in_a_circle_end(top):
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    assert safe_open.resolve_own_links(str(top / "a"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606])
def test_a_file_open_to_others_is_refused(top, mode):
    with pytest.raises(errors.UnreadableError, match=f"open to others \\(mode {mode:04o}\\)"):
        read(plain_file(top / "a", mode=mode))


def test_a_file_with_a_second_link_is_refused(top):
    plain_file(top / "a")
    os.link(top / "a", top / "b")
    with pytest.raises(errors.UnreadableError, match="2 links"):
        read(top / "a")


def test_a_linked_file_is_refused(top):
    plain_file(top / "a")
    (top / "b").symlink_to("a")
    with pytest.raises(errors.UnreadableError, match="is a link"):
        read(top / "b")


def test_a_fifo_in_the_place_of_a_file_is_refused_without_waiting(top):
    os.mkfifo(top / "fifo", 0o600)
    found = []

    def attempt():
        with pytest.raises(errors.UnreadableError, match="no regular file"):
            read(top / "fifo")
        found.append(True)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(10)
    assert found, "the open of a FIFO without a writer blocked"


def test_a_file_above_the_limit_is_refused_and_one_at_the_limit_is_read(top):
    plain_file(top / "a", b"x" * 100)
    assert len(read(top / "a", limit_bytes=100)) == 100
    with pytest.raises(errors.UnreadableError, match="100 bytes, more than 99"):
        read(top / "a", limit_bytes=99)


@pytest.mark.skipif(not ROOT, reason="needs root, to make a file of another user")
def test_a_file_of_another_user_is_refused(top):
    os.chown(plain_file(top / "a"), 12345, 12345)
    with pytest.raises(errors.UnreadableError, match="belongs to uid 12345"):
        read(top / "a")


def test_a_file_that_never_stops_growing_is_refused(top, monkeypatch):
    path = plain_file(top / "a", b"x")
    real_read = os.read

    def read_and_grow(fd, size):
        data = real_read(fd, size)
        with open(path, "ab") as file:
            file.write(b"y")
        return data

    monkeypatch.setattr(os, "read", read_and_grow)
    with pytest.raises(errors.UnreadableError, match="changes while it is read"):
        read(path)


def test_a_file_that_changes_once_is_read_again(top, monkeypatch):
    path = plain_file(top / "a", b"old")
    real_read, done = os.read, []

    def read_and_change_once(fd, size):
        data = real_read(fd, size)
        if not done:
            done.append(True)
            path.write_bytes(b"newer")
        return data

    monkeypatch.setattr(os, "read", read_and_change_once)
    assert read(path) == b"newer"


def test_no_descriptor_is_left_by_refusals(top):
    plain_file(top / "a", mode=0o644)
    (top / "open").mkdir()
    (top / "open").chmod(0o777)
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        with pytest.raises(errors.UnreadableError):
            read(top / "a")
        with pytest.raises(errors.UnreadableError):
            safe_open.open_dir(str(top / "open"))
        with pytest.raises(FileNotFoundError):
            safe_open.open_dir(str(top / "none"))
    assert os.listdir("/proc/self/fd") == before


def test_an_output_path_is_made_absolute_and_clean(top, monkeypatch):
    monkeypatch.chdir(top)
    monkeypatch.setenv("HOME", str(top))
    assert safe_open.check_output("a/../b//c") == str(top / "b" / "c")
    assert safe_open.check_output("~/x") == str(top / "x")
    assert safe_open.check_output(str(plain_file(top / "there"))) == str(top / "there")


def test_an_output_path_through_a_link_or_onto_something_else_is_refused(top):
    (top / "folder").mkdir()
    (top / "link").symlink_to("folder")
    for path in ("", str(top / "link" / "x"), str(top / "link"), str(top / "folder"), "a\nb"):
        with pytest.raises(errors.UnreadableError):
            safe_open.check_output(path)
    assert safe_open.check_output(str(top / "folder"), folder=True)
    with pytest.raises(errors.UnreadableError, match="no folder"):
        safe_open.check_output(str(plain_file(top / "file")), folder=True)
