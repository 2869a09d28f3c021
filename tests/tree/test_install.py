"""What users get: an installed prefix and a wheel in a fresh environment run the same tests of bin as the checkout."""

import glob
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from support import ROOT, World

BATS = sorted(os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "tests/bin/*.bats")))


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_of_the_project(folder):
    """Copy what git tracks or would track: a build must not leave its traces in the checkout."""
    target = os.path.join(folder, "project")
    ignore = shutil.ignore_patterns(".git", ".venv", ".demo", "build", "dist", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, target, ignore=ignore)
    return target


def install_prefix(folder):
    prefix = os.path.join(folder, "prefix")
    run("make", "install", f"PREFIX={prefix}", f"PYTHON={sys.executable}", cwd=copy_of_the_project(folder))
    return os.path.join(prefix, "bin")


def install_wheel(folder):
    """Build the wheel, install it into an environment that has our dependencies but no workcell."""
    project = copy_of_the_project(folder)
    dist = os.path.join(folder, "dist")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", dist, project)
    venv = os.path.join(folder, "venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    site = os.path.join(venv, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    with open(os.path.join(site, "dependencies.pth"), "w") as stream:
        stream.write(sysconfig.get_path("purelib") + "\n")
    python = os.path.join(venv, "bin", "python")
    run(*pip[:2], "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", *glob.glob(dist + "/*.whl"))
    return os.path.join(venv, "bin")


# One worker makes each of them once.
KINDS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ("prefix", "wheel")]


@pytest.fixture(scope="module", params=KINDS)
def installed(request, tmp_path_factory):
    """The folder of the installed executables."""
    folder = str(tmp_path_factory.mktemp(request.param))
    return {"prefix": install_prefix, "wheel": install_wheel}[request.param](folder)


# The executables are the same wherever they lie, and each file was run in the checkout: each is run once more, in turns.
TURNS = [
    pytest.param(kind, name, marks=pytest.mark.xdist_group(kind))
    for number, name in enumerate(sorted(BATS))
    for kind in (("prefix", "wheel")[number % 2],)
]


@pytest.mark.parametrize("installed, name", TURNS, indirect=["installed"])
def test_the_installed_executables_pass_the_tests_of_bin(installed, name):
    bats = shutil.which("bats", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    assert bats, "bats is missing; install requirements-test.txt"
    env = {**os.environ, "WORKCELL_BIN": installed}
    done = subprocess.run([bats, os.path.join(ROOT, "tests/bin", name)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_workcell_runs_a_session_from_start_to_seal(installed, tmp_path):
    world = World(tmp_path)
    world.env["PATH"] = installed + ":/usr/bin:/bin:/usr/sbin:/sbin"
    world.make_repo()
    done = world.run("workcell", "session", "start", "--agent", "command", "--", "sh", "-c", "git log --oneline; exit 3")
    assert done.exit_status == 0, done
    session_id = done.values["session_id"]
    assert world.run("workcell", "session", "wait", "--id", session_id).exit_status == 3
    assert "session_verify=verified" in world.run("workcell", "session", "verify", "--id", session_id).stdout
    assert "one" in world.transcript(session_id)
    world.close()


def test_the_first_line_of_each_installed_executable_names_the_interpreter_itself(installed):
    for name in os.listdir(installed):
        if name.startswith("workcell-"):
            with open(os.path.join(installed, name), encoding="utf-8") as stream:
                first = stream.readline()
            assert first.startswith("#!/") and "env" not in first.split("/")[-1], (name, first)


def test_uninstall_leaves_nothing(tmp_path):
    project, prefix = copy_of_the_project(str(tmp_path)), str(tmp_path / "prefix")
    run("make", "install", f"PREFIX={prefix}", f"PYTHON={sys.executable}", cwd=project)
    assert os.path.exists(os.path.join(prefix, "bin/workcell-session-start"))
    run("make", "uninstall", f"PREFIX={prefix}", f"PYTHON={sys.executable}", cwd=project)
    left = [os.path.join(folder, name) for folder, _, names in os.walk(prefix) for name in names]
    assert left == []
