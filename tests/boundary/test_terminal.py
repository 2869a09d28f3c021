"""What hostile names hold cannot drive the terminal of whoever looks at a session."""

import os
import pty
import select

import pytest

import worlds

pytestmark = pytest.mark.xdist_group("boundary-terminal")

ESCAPE = "\x1b]52;c;ZWNobyBvd25lZAo=\x07\x1b[2J\x1b[31m"
# C1 controls, DEL, and the marks that reorder text: some terminals obey them in UTF-8 as well.
ODD = "\x9b31m\x7f\u202e\u2066"
HOSTILE = f"evil{ESCAPE}{ODD}end"
FORBIDDEN = ["\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\u2066", "\x08", "\x00"]


def on_terminal(world, *words, allowed=(0,)):
    """Run a command with all its descriptors on a terminal, and return what the terminal got."""
    master, slave = pty.openpty()
    child = world.popen(*words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    text = b""
    while select.select([master], [], [], 20)[0]:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        text += data
    os.close(master)
    assert child.wait(20) in allowed, text
    return text.decode("utf-8")


@pytest.fixture(scope="module")
def hostile():
    """A finished session in a folder, on a branch, with arguments, a file and a message of hostile names."""
    world = worlds.make_world(worlds.CALLERS[-1])
    try:
        repo = world.make_repo(os.path.join(world.home, HOSTILE))
        # git takes no control characters of ASCII in a name, but all others.
        branch = "branch-\x9b31m\u202e-end"
        world.git("-C", repo, "checkout", "-q", "-b", branch)
        world.repo = repo
        script = f'printf "{ESCAPE}" > "$1"; printf "%s" "$1"; read line; exit 3'
        options = ["--workspace", repo, "--session-workspace", "direct"]
        world.hostile = world.start(*options, "--", "sh", "-c", script, "sh", HOSTILE)
        world.session("send", "--id", world.hostile, "--message", HOSTILE)
        world.session("wait", "--id", world.hostile)
        assert os.path.exists(os.path.join(repo, HOSTILE))
        record = world.show(world.hostile)
        assert record["workspace"] == repo and record["git_branch"] == branch
        yield world
    finally:
        worlds.close_world(world)


def check_harmless(text, *shown):
    assert [character for character in FORBIDDEN if character in text] == []
    assert "\r\r" not in text
    for word in shown:
        assert word in text, text


VERBS = {
    "list": ["list"],
    "list, all columns": ["list", "--verbose"],
    "list, grouped": ["list", "--parallel"],
    "list, as JSON": ["list", "--json"],
    "show": ["show", "--id", "{id}"],
    "show, as text": ["show", "--text", "--id", "{id}"],
    "timeline": ["timeline", "--id", "{id}"],
    "logs, audit": ["logs", "--kind", "audit", "--id", "{id}"],
    "logs, recording": ["logs", "--kind", "transcript", "--id", "{id}"],
    "logs, recording as text": ["logs", "--kind", "transcript", "--text", "--id", "{id}"],
    "export": ["export", "--id", "{id}"],
}


@pytest.mark.parametrize("name", VERBS)
def test_d10_hostile_names_are_shown_harmlessly_on_a_terminal(hostile, name):
    verb, *words = (word.format(id=hostile.hostile) for word in VERBS[name])
    text = on_terminal(hostile, f"workcell-session-{verb}", *words)
    check_harmless(text, "evil", "end")


@pytest.mark.parametrize("verb", ["verify", "stop", "wait"])
def test_d10_commands_that_only_answer_print_nothing_that_drives_a_terminal(hostile, verb):
    text = on_terminal(hostile, f"workcell-session-{verb}", "--id", hostile.hostile, allowed=(0, 3))
    check_harmless(text)


def test_d10_what_start_prints_is_harmless_on_a_terminal(hostile):
    words = ["--agent", "command", "--target", "bubblewrap", "--workspace", hostile.repo, "--session-workspace", "direct"]
    text = on_terminal(hostile, "workcell-session-start", *words, "--", "true")
    check_harmless(text, "workspace=", "evil")
    text = on_terminal(hostile, "workcell-session-start", *words, "--dry-run", "--", "echo", HOSTILE)
    check_harmless(text, "evil")


def test_d10_what_is_refused_is_quoted_harmlessly_on_a_terminal(hostile):
    for words in (
        ["start", "--agent", HOSTILE],
        ["start", "--agent", "command", "--workspace", HOSTILE, "--", "true"],
        ["start", "--agent", "command", "--workspace", hostile.repo, "--session-workspace", "direct", "--", HOSTILE],
        ["start", f"--{HOSTILE}"],
        ["show", "--id", HOSTILE],
        ["timeline", "--id", HOSTILE],
        ["verify", "--id", HOSTILE],
        ["stop", "--id", HOSTILE],
        ["list", "--profile", HOSTILE],
    ):
        text = on_terminal(hostile, f"workcell-session-{words[0]}", *words[1:], allowed=(1, 2))
        check_harmless(text, f"workcell-session-{words[0]}: ")


def test_a_pipe_gets_the_names_as_they_are(hostile):
    """The control: the hostile bytes are really there."""
    done = hostile.session("list")
    assert HOSTILE in done.stdout
    assert "\\u001b]52" in hostile.session("show", "--id", hostile.hostile).stdout
