"""The two commands of the README, on a clone of this project, as the caller and as an ordinary user; and what they say when
something is missing."""

import os
import pwd
import shutil
import subprocess
import sys

import pytest

from support import ROOT, processes_with

VENV = os.path.dirname(os.path.dirname(sys.executable))


@pytest.fixture(scope="module")
def ordinary_user():
    """An account made for these tests: (name, uid, gid, home). Without root, the caller is one already."""
    if os.geteuid() != 0:
        entry = pwd.getpwuid(os.geteuid())
        yield entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir
        return
    name = f"workcell-test-{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
    entry = pwd.getpwnam(name)
    yield name, entry.pw_uid, entry.pw_gid, entry.pw_dir
    subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


def clone(folder):
    target = os.path.join(folder, "project")
    subprocess.run(["git", "clone", "--quiet", ROOT, target], check=True)
    return target


def make(project, *words, env=None, user=None):
    drop = {"user": user[1], "group": user[2], "extra_groups": []} if user else {}
    home = user[3] if user else os.path.join(project, "..")
    # How pip reaches its index is the machine's business, not this test's.
    network = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_")) or "PROXY" in name.upper()
    }
    whole = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": home,
        "LC_ALL": "C.UTF-8",
        **network,
        **(env or {}),
    }
    return subprocess.run(
        ["make", *words], cwd=project, env=whole, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, **drop
    )


def demo(project, user=None):
    # The packages are there already: what the demo needs of them is what the tests run with.
    return make(project, "demo", f"VENV={VENV}", "-o", f"{VENV}/.run", user=user)


def check_demo(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "session_verify=verified" in done.stdout
    for command in ("start", "send", "list", "show", "stop", "wait", "timeline", "verify"):
        assert f"$ workcell session {command} " in done.stdout or f"$ workcell session {command}\n" in done.stdout


def test_make_demo_runs_the_main_job_twice_and_leaves_no_process(tmp_path):
    project = clone(tmp_path)
    for _ in range(2):
        check_demo(demo(project))
    assert processes_with(project) == []


def test_make_demo_sets_itself_up_and_works_for_an_ordinary_user(ordinary_user):
    project = clone(ordinary_user[3])
    try:
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{ordinary_user[1]}:{ordinary_user[2]}", project], check=True)
        # All of it, from the virtual environment on: the packages of root's may lie where others cannot go.
        done = make(project, "demo", user=ordinary_user)
        check_demo(done)
        assert "target_provider=bubblewrap" in done.stdout
        assert processes_with(project) == []
    finally:
        shutil.rmtree(project)


def test_make_demo_shows_the_same_without_confinement_where_no_sandbox_can_be_had_and_says_why(tmp_path):
    project = clone(tmp_path)
    fake = tmp_path / "bin"
    fake.mkdir()
    # What bwrap says where the host forbids namespaces, as the default profile of a container does.
    (fake / "bwrap").write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed: Operation not permitted' >&2\nexit 1\n")
    (fake / "bwrap").chmod(0o755)
    path = f"{fake}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    done = make(project, "demo", f"VENV={VENV}", "-o", f"{VENV}/.run", env={"PATH": path})
    check_demo(done)
    assert "Creating new namespace failed" in done.stderr and "lower-assurance-unconfined" in done.stdout
    assert processes_with(project) == []


def without(folder, *missing):
    """Return a PATH on which everything is found but some programs."""
    bin_dir = os.path.join(folder, "some-bin")
    os.mkdir(bin_dir)
    for source in ("/bin", "/usr/bin"):
        for name in os.listdir(source):
            if not any(name.startswith(gone) for gone in missing) and not os.path.lexists(os.path.join(bin_dir, name)):
                os.symlink(os.path.join(source, name), os.path.join(bin_dir, name))
    return bin_dir


@pytest.mark.parametrize(
    ("missing", "words"),
    [("git", "git: not found on PATH; install git"), ("python3", "none of version 3.11 or newer was found")],
)
def test_a_missing_tool_gets_one_line_with_the_next_step(tmp_path, missing, words):
    project = clone(tmp_path)
    done = make(project, "demo", env={"PATH": without(tmp_path, missing)})
    assert done.returncode != 0 and words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_old_python_and_one_without_venv_get_one_line_with_the_next_step(tmp_path):
    project = clone(tmp_path)
    path = without(tmp_path, "python3")
    for answer, words in (
        ("case $2 in *version_info*) exit 1;; esac", "none of version 3.11 or newer"),
        ("case $2 in *ensurepip*) exit 1;; *) exit 0;; esac", "has no modules venv and ensurepip"),
    ):
        fake = os.path.join(path, "python3")
        with open(fake, "w", encoding="utf-8") as stream:
            stream.write(f"#!/bin/sh\n{answer}\n")
        os.chmod(fake, 0o755)
        done = make(project, "demo", env={"PATH": path})
        assert done.returncode != 0 and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
