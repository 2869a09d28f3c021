"""Programs are found and run wherever they are installed, and bring nothing but their installation into the sandbox."""

import os
import sys

import pytest

import worlds


@pytest.fixture
def home(anyone):
    """A world with a repository and some things in its home that are nobody's business."""
    return furnish(anyone)


@pytest.fixture
def home_of_user():
    """The same for an ordinary user only, or whoever runs the suite."""
    world = worlds.make_world(worlds.CALLERS[-1])
    yield furnish(world)
    worlds.close_world(world)


def furnish(anyone):
    worlds.make_repo(anyone)
    for name in (
        ".ssh/id_canary",
        ".bashrc-canary",
        ".local/share/keyrings/canary",
        ".config/gh/hosts.yml",
        "other/project/file",
    ):
        worlds.plant(anyone, os.path.join(anyone.home, name), "CANARY-CONTENT")
    anyone.env["PATH"] = ":".join(
        [*(os.path.join(anyone.home, name) for name in (".local/bin", "tools/bin", "bin", "links")), anyone.env["PATH"]]
    )
    return anyone


LIST = (
    'for f in "$1" "$1"/.* "$1"/*; do [ -e "$f" ] && echo "seen:$f"; done; grep -rs CANARY-CONTEN[T] "$1" | head; echo listed'
)


def install(world, name, text, mode=0o755):
    return worlds.plant(world, os.path.join(world.home, name), text, mode)


def link(world, name, target):
    path = os.path.join(world.home, name)
    if not os.path.isdir(os.path.dirname(path)):
        worlds.plant(world, path, "")
        os.unlink(path)
    os.symlink(target, path)
    if world.user:
        os.lchown(path, *world.user)
    return path


def run(world, *words, options=()):
    """Run a program in a session and return what it printed."""
    session_id = world.start(*options, "--", *words)
    world.session("wait", "--id", session_id)
    return world.transcript(session_id)


def seen(world, text):
    """Return the entries of the home that a program has listed, without the canaries' own content."""
    assert "listed" in text and "CANARY-CONTENT" not in text, text
    names = {line.strip()[5:] for line in text.splitlines() if line.startswith("seen:")}
    return {os.path.relpath(name, world.home) for name in names if os.path.basename(name) not in (".", "..")} - {"."}


def test_a_script_in_the_local_bin_folder_that_links_to_its_own_folder_is_run(home):
    install(home, ".local/share/tool/bin/tool", f'#!/bin/sh\n. "$(dirname "$(readlink -f "$0")")/../lib/part"\n{LIST}\n')
    install(home, ".local/share/tool/lib/part", "echo part found\n", 0o644)
    link(home, ".local/bin/tool", "../share/tool/bin/tool")
    text = run(home, "tool", home.home)
    assert "part found" in text
    assert seen(home, text) == {".local"}


def test_a_program_that_is_a_single_file_is_shown_alone(home):
    install(home, ".local/bin/single", f"#!/bin/sh\n{LIST}\nls -A {home.home}/.local/bin\n")
    install(home, ".local/bin/neighbour", "CANARY-CONTENT")
    text = run(home, "single", home.home)
    assert seen(home, text) == {".local"}
    assert "neighbour" not in text


@pytest.mark.parametrize(
    "place",
    ["bin", ".ssh/bin", ".docker/bin", ".config/workcell/bin", ".cargo/bin", ".local/state/workcell/bin", ".gnupg/libexec"],
)
def test_a_program_in_a_folder_of_credentials_brings_none_of_them(home_of_user, place):
    home = home_of_user
    home.state = home.env["WORKCELL_STATE_ROOT"] = os.path.join(home.home, ".local/state/workcell")
    install(home, f"{place}/deep", f"#!/bin/sh\n{LIST}\n")
    install(home, f"{os.path.dirname(place) or '.'}/token", "CANARY-CONTENT", 0o644)
    text = run(home, os.path.join(home.home, place, "deep"), os.path.join(home.home, os.path.dirname(place)))
    assert seen(home, text) == {place, os.path.dirname(place)} - {""}


def test_a_script_for_env_is_run_by_the_interpreter_on_the_path_of_the_caller(home):
    install(home, "tools/bin/script", "#!/usr/bin/env -S myinterpreter -x\nanything\n")
    install(home, "apps/interpreter/bin/real", f"#!/bin/sh\necho interpreted $1 $2\nset -- {home.home}\n{LIST}\n")
    link(home, "links/middle", os.path.join(home.home, "apps/interpreter/bin/real"))
    link(home, "tools/bin/myinterpreter", "../../links/middle")
    text = run(home, "script")
    assert f"interpreted -x {home.home}/tools/bin/script" in text
    assert seen(home, text) == {"tools", "apps", "links"}


def test_a_python_script_of_the_caller_is_run_by_the_callers_python(home):
    install(
        home,
        "tools/bin/script.py",
        "#!/usr/bin/env python3\nimport sys, json\nprint('python', sys.version_info[0], json.dumps(1))\n",
    )
    assert "python 3 1" in run(home, "script.py")


def test_a_virtual_environment_outside_of_the_workspace_is_run(home):
    home.run("/usr/bin/python3", "-m", "venv", "--without-pip", os.path.join(home.home, "tools/venv"))
    install(
        home,
        "tools/venv/lib/python{}.{}/site-packages/mine.py".format(*_system_python(home)),
        "word = 'from my package'\n",
        0o644,
    )
    install(home, "tools/venv/bin/command", f"#!{home.home}/tools/venv/bin/python3\nimport mine\nprint(mine.word)\n")
    assert "from my package" in run(home, os.path.join(home.home, "tools/venv/bin/command"))


def _system_python(world):
    return world.run("/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])").stdout.split()


def commit(world, name, text, mode=0o755):
    """Add a file to the repository; a repository of somebody else is handed over again."""
    path = worlds.plant(world, os.path.join(world.repo, name), text, mode)
    trust = ["-c", "safe.directory=*", "-c", "user.name=Op", "-c", "user.email=op@example.org"]
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    for words in (("add", "-A"), ("commit", "-q", "-m", name)):
        done = world.run("git", *trust, "-C", world.repo, *words, env=env)
        assert done.exit_status == 0, done
    worlds.hand_over(world, world.repo)
    return path


def test_a_program_of_the_repository_is_run_from_the_clone(home):
    commit(home, "run.sh", f"#!/bin/sh\npwd\necho $0\nset -- {home.home}\n{LIST}\n")
    for name in ("./run.sh", os.path.join(home.repo, "run.sh")):
        text = run(home, name)
        assert text.splitlines()[0] == "/workspace"
        assert text.splitlines()[1] in ("./run.sh", "/workspace/run.sh")
        assert seen(home, text) == set()


def test_a_script_of_the_repository_finds_an_interpreter_that_the_caller_has_installed(home):
    install(home, "tools/bin/special", "#!/bin/sh\necho special runs $1\n")
    commit(home, "run.special", "#!/usr/bin/env special\n")
    assert "special runs ./run.special" in run(home, "./run.special")


@pytest.mark.parametrize(
    "line", ["{home}/.ssh/id_canary", "/usr/bin/env {home}/.ssh/id_canary", "/usr/bin/env ../.ssh/id_canary"]
)
def test_a_script_of_the_repository_cannot_have_a_file_of_the_home_shown(home, line):
    """Its first line is hostile: whatever it names is not the operator's choice."""
    os.chmod(os.path.join(home.home, ".ssh/id_canary"), 0o755)
    commit(home, "run.sh", f"#!{line.format(home=home.home)}\n")
    done = home.session("start", "--agent", "command", "--target", "bubblewrap", "--dry-run", "--", "./run.sh")
    assert done.exit_status == 0, done
    assert "id_canary" not in done.stdout


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_a_program_that_is_not_found_refuses_the_session_and_says_where_it_looked(home, name):
    done = home.session("start", "--agent", "command", "--target", "bubblewrap", "--", name)
    assert done.exit_status == 2
    where = {"n": home.env["PATH"], ".": home.repo, "/": name}[name[0]]
    assert f"program '{name}': not found in {where}" in done.stderr
    assert home.profile_dirs() == [] and not os.path.exists(os.path.join(home.repo, ".git/workcell-sessions"))


def test_a_script_whose_interpreter_is_missing_refuses_the_session_by_its_name(home):
    install(home, "tools/bin/script", "#!/usr/bin/env no-such-interpreter\n")
    done = home.session("start", "--agent", "command", "--target", "bubblewrap", "--", "script")
    assert done.exit_status == 2 and "no-such-interpreter" in done.stderr


def test_an_install_prefix_that_holds_a_repository_hides_the_clones_of_its_sessions(home):
    """The folder that is shown for a tool is a repository with sessions of its own."""
    tools = os.path.join(home.home, "tools")
    install(
        home, "tools/bin/look", "#!/bin/sh\nls $1/.git/workcell-sessions | wc -l\ngrep -rsc hello $1/.git/workcell-sessions\n"
    )
    home.git("init", "-q", tools)
    home.git("-C", tools, "add", "-A")
    home.git("-C", tools, "-c", "user.name=Op", "-c", "user.email=op@example.org", "commit", "-q", "-m", "tools")
    other = home.start("--workspace", tools, "--", "true")
    home.session("wait", "--id", other)
    assert os.listdir(os.path.join(tools, ".git/workcell-sessions")) == [other]
    assert run(home, "look", tools).split() == ["0"]


def test_the_adapter_runs_when_the_only_python_lies_in_a_hidden_folder(home):
    """In the tests its interpreter may be one from a version manager in root's home."""
    assert os.path.exists(sys.executable)
    assert "ran" in run(home, "sh", "-c", "echo ran")
