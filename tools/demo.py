"""The tour: a real session on a real repository, each command printed before it is run.

`make demo` runs it. State and repository lie in .demo/ in the checkout; a second run works too. It ends with 0 only when
everything that it shows is as it should be.
"""

import os
import re
import shutil
import sys
import time

from plumbum import CommandNotFound, local
from plumbum.commands.processes import ProcessExecutionError

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
DEMO = os.path.join(ROOT, ".demo")
REPO = os.path.join(DEMO, "repo")
DEADLINE_S = 20.0

sys.path.insert(0, os.path.join(ROOT, "lib"))
from workcell.output import printable  # noqa: E402
from workcell.replay import presentable  # noqa: E402


def say(text):
    """Print a remark of the tour."""
    print(f"\n# {text}", flush=True)


def run(*words, good=(0,), show=True, timeout=60):
    """Print a command, run it, print what it printed; end the demo when its exit status is not one of `good`."""
    print("\n$ " + " ".join(quoted(word) for word in words), flush=True)
    status, out, err = local[words[0]][list(words[1:])].run(retcode=None, timeout=timeout, stdin=None)
    if err:
        print(printable(err), end="", file=sys.stderr, flush=True)
    if show:
        print(printable(out), end="", flush=True)
    if status not in good:
        give_up(f"{' '.join(words[:3])}: ended with {status}, not with {' or '.join(map(str, good))}")
    return status, out, err


def quoted(word):
    """Return a word as one would type it."""
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def give_up(why):
    """End the demo with one line."""
    print(f"demo: {printable(why)}", file=sys.stderr)
    raise SystemExit(1)


def check(true, why):
    """End the demo unless something is as it should be."""
    if not true:
        give_up(why)


def make_repository():
    """Clone this project to .demo/repo; where it is no clone itself, make a small repository."""
    shutil.rmtree(REPO, ignore_errors=True)
    os.makedirs(DEMO, exist_ok=True)
    if os.path.isdir(os.path.join(ROOT, ".git")):
        run("git", "clone", "--quiet", ROOT, REPO)
    else:
        run("git", "init", "--quiet", REPO)
    with open(os.path.join(REPO, "DEMO.md"), "w", encoding="utf-8") as stream:
        stream.write("A file of the operator's.\n")
    identity = ["-c", "user.name=Operator", "-c", "user.email=operator@localhost"]
    run("git", "-C", REPO, "add", "DEMO.md")
    run("git", "-C", REPO, *identity, "commit", "--quiet", "--message", "demo: a file to work on")


def start():
    """Start the session in the sandbox; where the machine allows none, say why and start it without one."""
    words = ["workcell", "session", "start", "--agent", "shell", "--workspace", REPO]
    status, out, err = run(*words, good=(0, 2))
    if status == 2:
        check("no sandbox can be had here" in err, err.strip())
        say("This machine allows no sandbox (the reason stands above), so the tour goes on with an unconfined process.")
        local.env["WORKCELL_STATE_ROOT"] = os.path.join(DEMO, "state-process")
        _, out, _ = run(*words, "--target", "process")
    return re.search(r"^session_id=(.*)$", out, re.M)[1], re.search(r"^worktree_path=(.*)$", out, re.M)[1]


def screen(session_id, wanted):
    """Watch the session's output, without typing, until a text shows up in it."""
    words = ["workcell-session-attach", "--id", session_id, "--no-stdin"]
    print("\n$ " + " ".join(words), flush=True)
    watching = local[words[0]][words[1:]].popen(stdin=None)
    os.set_blocking(watching.stdout.fileno(), False)
    seen, deadline = b"", time.monotonic() + DEADLINE_S
    while wanted not in seen and time.monotonic() < deadline:
        time.sleep(0.02)
        seen += watching.stdout.read() or b""
    watching.terminate()
    watching.wait()
    text = presentable(seen).decode("utf-8", "replace")
    print(printable(re.sub("\x1b\\[[0-9;:]*[A-Za-z@`]", "", text).replace("\r", "").replace("\b", "")), flush=True)
    check(wanted in seen, f"the session did not print {wanted.decode()!r} within {DEADLINE_S:.0f} s")


def main():
    """Run the tour."""
    local.env["WORKCELL_STATE_ROOT"] = os.path.join(DEMO, "state")
    local.env.path.insert(0, os.path.join(ROOT, "bin"))
    local.env.path.insert(0, os.path.dirname(os.path.abspath(sys.executable)))
    local.env.pop("PYTHONPATH", None)
    print(f"# The tour of workcell. Its state root is {os.path.relpath(local.env['WORKCELL_STATE_ROOT'], ROOT)}.")

    say("A real git repository to work on: a clone of this project.")
    make_repository()
    before = source_state()

    say("Start an agent, here a shell, in a clone of its own and in a sandbox. It stays when this terminal closes.")
    session_id, clone = start()

    say("Type work into it.")
    work = (
        "echo 'A line of the agent.' >> DEMO.md && git commit --all --quiet --message 'agent: add a line' && echo commi''tted"
    )
    run("workcell", "session", "send", "--id", session_id, "--message", work, show=False)

    say("What is there, and what is known of it.")
    _, out, _ = run("workcell", "session", "list")
    check(re.search(rf"^{session_id}\trunning\trunning\t", out, re.M), "the session is not listed as running")
    run("workcell", "session", "show", "--id", session_id, "--text")

    say("Its screen so far: watch it without typing.")
    screen(session_id, b"committed")

    say("What changed in the clone. git is asked inside the sandbox: the host runs nothing on what an agent can write.")
    ask = "git --no-pager log --oneline --stat --max-count=1 && git --no-pager show --format= && echo sho''wn"
    run("workcell", "session", "send", "--id", session_id, "--message", ask, show=False)
    screen(session_id, b"shown")
    with open(os.path.join(clone, "DEMO.md"), encoding="utf-8") as stream:
        check("A line of the agent." in stream.read(), "the clone does not have the agent's line")

    say("End it, and see how it ended.")
    run("workcell", "session", "stop", "--id", session_id)
    run("workcell", "session", "wait", "--id", session_id, good=(129,))

    say("Everything that happened, one audit event a line.")
    _, out, _ = run("workcell", "session", "timeline", "--id", session_id)
    for event in ("launch", "command", "stop-request", "exit"):
        check(f"event={event} " in out, f"the timeline has no {event} event")

    say("The repository that it was started from is as it was.")
    run("git", "-C", REPO, "status", "--short", "--branch")
    check(source_state() == before, "the source repository has changed")

    say("And the proof: the events are whole, in order, and sealed by this host's key.")
    _, out, _ = run("workcell", "session", "verify", "--id", session_id)
    check("session_verify=verified\n" in out, "the session does not verify")


def source_state():
    """Return what the source repository has: its head, and what of it has changed."""
    head = local["git"]["-C", REPO, "rev-parse", "HEAD"]()
    return head + local["git"]["-C", REPO, "status", "--porcelain"]()


if __name__ == "__main__":
    try:
        main()
    except (ProcessExecutionError, CommandNotFound, OSError) as error:
        give_up(str(error))
