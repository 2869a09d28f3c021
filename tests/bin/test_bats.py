"""Each file of bats tests as one test, so that they run, spread and fail with the others."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

from support import processes_with, wait_until

HERE = os.path.dirname(os.path.realpath(__file__))
FILES = sorted(os.path.relpath(path, HERE) for path in glob.glob(os.path.join(HERE, "**/*.bats"), recursive=True))


def find_bats():
    """Return the path of bats: that of the environment which runs pytest, else the one on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "bats")
    return beside if os.access(beside, os.X_OK) else shutil.which("bats")


def test_there_are_tests_for_bats_and_bats_for_them():
    assert FILES
    assert find_bats(), "bats is neither in the environment of pytest nor on PATH: install bats-core"


@pytest.mark.parametrize("name", FILES)
def test_the_executable_behaves_as_its_bats_file_says(name, tmp_path):
    mark = f"WORLD_OF_TEST={tmp_path}"
    env = {
        **os.environ,
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
        "TMPDIR": str(tmp_path),
        "WORLD_OF_TEST": str(tmp_path),
    }
    done = subprocess.run(
        [find_bats() or "bats", "--print-output-on-failure", os.path.join(HERE, name)],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    wait_until(lambda: not processes_with(mark), 10, "the end of all processes")
