"""start: what it prints, what the session then is, and that it goes on without whoever started it."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios

import pytest

from life import (
    PYTHON,
    SLEEPER,
    START_KEYS,
    agents_left,
    assert_nothing_left,
    console,
    events,
    fits,
    found_status,
    give_to_agent,
    is_gone,
    keys,
    monitor_pid,
    record_of,
    transcript,
    tree,
    verdict,
    wait_for_output,
)
from support import wait_until
from workcell import layout


@pytest.fixture(autouse=True)
def repository(world):
    world.make_repo()


def stop(world, session_id):
    done = world.session("stop", "--id", session_id)
    assert done.exit_status == 0, done
    assert_nothing_left(world)


def test_the_summary_has_the_documented_keys_in_their_order_and_agrees_with_show(world, target):
    done = world.session("start", "--agent", "command", "--target", target, "--", *SLEEPER)
    assert done.exit_status == 0, done
    assert keys(done.stdout) == START_KEYS
    values, record = done.values, world.show(done.values["session_id"])
    assert values["status"] == values["live_status"] == "running"
    assert values["control_mode"] == "detached"
    for key in ("workspace", "workspace_origin", "worktree_path", "git_branch", "monitor_pid", "audit_log_path", "runtime_api"):
        assert values[key] == record[key]
    assert values["assurance"] == record["current_assurance"]
    assert values["debug_log_path"] == values["file_trace_log_path"] == "none"
    assert values["transcript_log_path"] == record["transcript_log_path"]
    stop(world, values["session_id"])


def test_what_json_prints_fits_its_schema(world, target):
    done = world.session("start", "--agent", "command", "--target", target, "--json", "--", *SLEEPER)
    answer = fits("session-start", done.stdout)
    session_id = answer["session_id"]
    assert set(answer) - {"warnings"} == set(START_KEYS)
    [row] = fits("session-list", world.session("list", "--json").stdout)
    assert row["session_id"] == session_id and row["live_status"] == "running"
    fits("session-record", world.session("show", "--id", session_id).stdout)
    sent = fits("session-send", world.session("send", "--id", session_id, "--message", "hello", "--json").stdout)
    assert sent["sent_bytes"] == 6
    stopped = fits("session-stop", world.session("stop", "--id", session_id, "--json").stdout)
    assert (stopped["status"], stopped["exit_status"]) == ("exited", "143")
    waited = fits("session-wait", world.session("wait", "--id", session_id, "--json").stdout)
    assert waited == {"session_id": session_id, "status": "exited", "exit_status": "143", "reason": "stopped"}
    [row] = fits("session-list", world.session("list", "--json").stdout)
    assert row["status"] == "exited"
    assert_nothing_left(world)


def test_isolated_is_the_default_and_leaves_the_source_byte_for_byte_as_it_was(world, target):
    head = world.git("rev-parse", "HEAD").strip()
    world.git("branch", "other")
    before = tree(world.repo)
    work = "echo more >>README; echo new >new; git -c user.name=x -c user.email=x@y commit -qam work; git branch mine"
    session_id = world.start("--", "sh", "-c", work, target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    record = record_of(world, session_id)
    clone = os.path.join(world.repo, ".git/workcell-sessions", session_id, "repo")
    assert record["workspace"] == record["worktree_path"] == clone
    assert record["workspace_origin"] == record["workspace_root"] == world.repo
    assert record["workspace_transport"] == "isolated-worktree-mount"
    assert record["git_branch"] == f"workcell/session-{session_id}"
    assert record["git_head"] == record["git_base"] == head
    after = {path: entry for path, entry in tree(world.repo).items() if not path.startswith(".git/workcell-sessions")}
    assert after == before
    # The work is in the clone, and its branch began at the base.
    trusted = ("-c", f"safe.directory={clone}")
    assert world.git(*trusted, "-C", clone, "rev-parse", "HEAD^").strip() == head
    assert world.git(*trusted, "-C", clone, "symbolic-ref", "--short", "HEAD").strip() == record["git_branch"]
    assert os.path.exists(os.path.join(clone, "new"))
    assert_nothing_left(world)


def test_direct_works_on_the_workspace_itself(world, target):
    head = world.git("rev-parse", "HEAD").strip()
    give_to_agent(world.repo)
    done = world.session(
        "start", "--agent", "command", "--target", target, "--session-workspace", "direct", "--", "sh", "-c", "echo mine >new"
    )
    assert done.exit_status == 0 and "cannot write" not in done.stderr, done
    session_id = done.values["session_id"]
    assert world.session("wait", "--id", session_id).exit_status == 0
    record = record_of(world, session_id)
    assert record["workspace"] == record["workspace_origin"] == record["worktree_path"] == world.repo
    assert record["workspace_transport"] == "workspace-mount"
    assert record["git_branch"] == "main"
    assert record["git_base"] == record["git_head"] == head
    with open(os.path.join(world.repo, "new")) as stream:
        assert stream.read() == "mine\n"
    clones = os.path.join(world.repo, ".git/workcell-sessions")
    assert not os.path.exists(clones) or not os.listdir(clones)


if os.geteuid() == 0:  # only root's agents run as somebody else

    def test_start_says_beforehand_that_the_agent_cannot_write_or_read_roots_own_workspace(world):
        # I06
        words = ("--agent", "command", "--target", "bubblewrap", "--session-workspace", "direct")
        done = world.session("start", *words, "--", "true")
        assert done.exit_status == 0 and "cannot write" in done.stderr, done
        assert world.session("wait", "--id", done.values["session_id"]).exit_status == 0
        os.chmod(world.repo, 0o700)
        done = world.session("start", *words, "--", "true")
        assert done.exit_status == 2 and "cannot read" in done.stderr, done


def test_a_dirty_workspace_is_no_base_in_direct_mode(world):
    with open(os.path.join(world.repo, "untracked"), "w") as stream:
        stream.write("x\n")
    session_id = world.start("--session-workspace", "direct", "--", "true")
    assert world.session("wait", "--id", session_id).exit_status == 0
    record = record_of(world, session_id)
    assert "git_base" not in record
    assert record["git_head"] == world.git("rev-parse", "HEAD").strip()


def test_a_folder_without_git_is_taken_only_when_told_and_when_it_has_a_file_for_agents(world):
    folder = os.path.join(world.home, "notes")
    os.mkdir(folder)
    words = ("--agent", "command", "--target", "bubblewrap", "--workspace", folder, "--session-workspace", "direct")
    refused = world.session("start", *words, "--", "true")
    assert refused.exit_status == 2 and "not a git work tree" in refused.stderr
    refused = world.session("start", *words, "--allow-nongit-workspace", "--", "true")
    assert refused.exit_status == 2 and "AGENTS.md" in refused.stderr
    with open(os.path.join(folder, "AGENTS.md"), "w") as stream:
        stream.write("be nice\n")
    done = world.session("start", *words, "--allow-nongit-workspace", "--", "true")
    assert done.exit_status == 0, done
    assert world.session("wait", "--id", done.values["session_id"]).exit_status == 0
    record = record_of(world, done.values["session_id"])
    assert not {"git_branch", "git_head", "git_base"} & set(record)
    assert done.values["git_branch"] == "none"


def environment_of(world, target, *options, env=None):
    """Start a session that prints its environment, and return (session id, the environment)."""
    code = "import json, os, sys; sys.stdout.write(json.dumps(dict(os.environ)))"
    session_id = world.start(*options, "--", PYTHON, "-c", code, target=target, env=env)
    assert world.session("wait", "--id", session_id).exit_status == 0
    return session_id, json.loads(transcript(world, session_id))


def test_a_variable_is_passed_by_name_and_its_value_is_written_nowhere(world, target):
    # K03
    canary = "canary-9f3c1b"
    log = os.path.join(world.home, "debug.log")
    session_id, inside = environment_of(world, target, "--env", "MY_KEY", "--debug-log", log, env={"MY_KEY": canary})
    assert inside["MY_KEY"] == canary
    os.unlink(record_of(world, session_id)["transcript_log_path"])  # the agent printed it, and that is kept
    for path, (_, content) in {**tree(world.state), **tree(world.home)}.items():
        assert canary.encode() not in content, path
    [launch] = events(world, session_id, "launch")
    assert launch["injection_credential_keys"] == "MY_KEY"


def test_a_value_is_in_no_command_line_and_no_file_of_a_running_session(world, target):
    # K03, while it runs
    canary = "canary-72e0aa"
    session_id = world.start("--env", "MY_KEY", "--", *SLEEPER, target=target, env={"MY_KEY": canary})
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                assert canary.encode() not in stream.read()
        except OSError:
            continue
    for path, (_, content) in tree(world.state).items():
        assert canary.encode() not in content, path
    folder = record_of(world, session_id)["session_audit_dir"]
    with open(os.path.join(folder, "launch-spec.json")) as stream:
        assert json.load(stream)["env_names"] == ["MY_KEY"]
    stop(world, session_id)


def test_a_value_given_on_the_command_line_arrives_with_a_warning(world):
    done = world.session(
        "start", "--agent", "command", "--target", "bubblewrap", "--env", "A=b=c\nd", "--", "sh", "-c", 'echo "[$A]"'
    )
    assert done.exit_status == 0, done
    assert "visible in process listings" in done.stderr and "b=c" not in done.stderr
    assert world.session("wait", "--id", done.values["session_id"]).exit_status == 0
    assert transcript(world, done.values["session_id"]).split() == ["[b=c", "d]"]


def test_the_environment_inside_is_clean_but_for_what_was_named(world):
    _, inside = environment_of(world, "bubblewrap", env={"STRAY": "1", "AWS_SECRET_ACCESS_KEY": "x", "LANG": "de_DE.UTF-8"})
    assert not {"STRAY", "AWS_SECRET_ACCESS_KEY", "WORKCELL_STATE_ROOT", "WORLD_OF_TEST"} & set(inside)
    assert inside["LANG"] == "de_DE.UTF-8" and inside["HOME"] == "/state/agent-home" and inside["PWD"] == "/workspace"


def test_commits_of_the_agent_are_the_operators(world, target):
    world.git("config", "user.name", "Ada Ünal")
    world.git("config", "user.email", "ada@example.org")
    _, inside = environment_of(world, target)
    for role in ("AUTHOR", "COMMITTER"):
        assert (inside[f"GIT_{role}_NAME"], inside[f"GIT_{role}_EMAIL"]) == ("Ada Ünal", "ada@example.org")


def test_commits_of_the_agent_have_a_name_where_the_operator_has_none(world, target):
    work = "echo x >x; git add x; git commit -qm x && git --no-pager log -1 --format=%an:%ae:%ce"
    session_id = world.start("--", "sh", "-c", work, target=target)
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert transcript(world, session_id).strip() == "workcell agent:agent@localhost:agent@localhost"


def test_the_agent_has_no_descriptor_but_its_terminal_and_start_holds_no_pipe(world, target):
    # E14, F03: World.run reads both pipes to their end, which comes only when nobody holds them any more
    code = (
        "import os, time\n"
        "fds = sorted(int(n) for n in os.listdir('/proc/self/fd'))\n"
        "print([n for n in fds if os.path.exists(f'/proc/self/fd/{n}')], 'is up', flush=True)\n"
        "time.sleep(1000)\n"
    )
    with open(os.path.join(world.home, "held"), "w") as held:
        os.set_inheritable(held.fileno(), True)
        child = world.popen(
            "workcell-session-start", "--agent", "command", "--target", target, "--", PYTHON, "-c", code,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[held.fileno()],
        )  # fmt: skip
        out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    session_id = out.decode().splitlines()[0].partition("=")[2]
    wait_for_output(world, session_id, "[0, 1, 2] is up")
    for pid in (monitor_pid(world, session_id), *(pid for pid, _ in agents_left(world))):
        targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert not any(name.endswith("/held") for name in targets)
    stop(world, session_id)


def test_start_in_a_pipeline_ends_at_once_though_the_session_goes_on(world, target):
    # E14
    line = f"workcell session start --agent command --target {target} -- sleep 1000 2>&1 | cat"
    done = world.run("sh", "-c", line, timeout=30)
    session_id = done.values["session_id"]
    assert found_status(world, session_id) == "running"
    stop(world, session_id)


def test_start_without_standard_descriptors_still_starts(world, target):
    line = f"workcell-session-start --agent command --target {target} -- sleep 1000 <&- >&- 2>&-"
    assert world.run("sh", "-c", line).exit_status == 0
    [row] = world.session("list").stdout.splitlines()[1:]
    session_id = row.split("\t")[0]
    stop(world, session_id)
    # No file of ours got the number of a closed descriptor, and our own messages with it.
    assert verdict(world, session_id) == "verified"


def test_the_session_survives_its_terminal(world, target):
    # F01: the terminal is hung up, and everything in its process session gets HUP
    pid, pty_fd = pty.fork()
    if pid == 0:
        os.chdir(world.repo)
        start = f"workcell session start --agent command --target {target} -- sleep 1000"
        os.execvpe("sh", ["sh", "-c", f"{start}; echo started; exec sleep 1000"], world.env)
    fcntl.ioctl(pty_fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    text = b""

    def started():
        nonlocal text
        text += os.read(pty_fd, 4096)
        return b"started" in text

    wait_until(started, what="the start")
    os.close(pty_fd)
    os.waitpid(pid, 0)
    [row] = world.session("list").stdout.splitlines()[1:]
    session_id, status, live, *_ = row.split("\t")
    assert (status, live) == ("running", "running")
    assert found_status(world, session_id) == "running"
    assert world.session("send", "--id", session_id, "--message", "hello").exit_status == 0
    stop(world, session_id)


def test_the_session_survives_the_process_group_and_session_that_started_it(world, target):
    # F01: a login that kills all of its processes at its end
    line = f"workcell session start --agent command --target {target} -- sleep 1000; exec sleep 1000"
    shell = world.popen("sh", "-c", line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    session_id = shell.stdout.readline().decode().strip().partition("=")[2]
    wait_until(lambda: found_status(world, session_id) == "running", what="the start")
    assert os.getsid(monitor_pid(world, session_id)) != shell.pid
    assert all(os.getsid(pid) != shell.pid for pid, _ in agents_left(world))
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    shell.stdout.close()
    assert found_status(world, session_id) == "running"
    assert not is_gone(monitor_pid(world, session_id))
    stop(world, session_id)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_what_is_written_is_the_operators_alone_from_birth_whatever_the_umask(world, target, umask):
    # K02
    done = world.run(
        "sh", "-c", f"umask {umask:03o}; exec workcell-session-start --agent command --target {target} -- sh -c "
        "'umask; echo is up; exec sleep 1000'"
    )  # fmt: skip
    assert done.exit_status == 0, done
    session_id = done.values["session_id"]
    wait_for_output(world, session_id)
    assert f"{umask:04o}" in console(record_of(world, session_id)["session_audit_dir"])  # the agent has the operator's own
    assert_closed(world.state)
    stop(world, session_id)
    assert_closed(world.state)
    assert verdict(world, session_id) == "verified"


def assert_closed(root):
    for path, (mode, _) in tree(root).items():
        if path.endswith(".pub"):
            assert mode & 0o777 == 0o644, path  # a public key
        else:
            assert mode & 0o777 == (0o700 if os.path.isdir(os.path.join(root, path)) else 0o600), (path, oct(mode))


def test_the_debug_log_is_appended_to_and_recorded(world):
    log = os.path.join(world.home, "debug.log")
    with open(log, "w") as stream:
        stream.write("mine\n")
    os.chmod(log, 0o600)
    session_id = world.start("--debug-log", "~/debug.log", "--", "true")
    assert world.session("wait", "--id", session_id).exit_status == 0
    assert record_of(world, session_id)["debug_log_path"] == log
    with open(log) as stream:
        assert stream.read().startswith("mine\n")


def test_a_dry_run_prints_the_command_and_makes_nothing(world, target):
    before = tree(world.home)
    done = world.session("start", "--agent", "command", "--target", target, "--dry-run", "--", "sh", "-c", "exit 3")
    assert done.exit_status == 0, done
    assert "pty_adapter." in done.stdout and done.stdout.endswith("-- /usr/bin/sh -c 'exit 3'\n")
    assert tree(world.home) == before
    assert not os.path.exists(world.state)


def test_the_profile_is_made_from_the_workspace_and_its_name_can_be_given(world):
    first = world.start("--", "true")
    assert record_of(world, first)["profile"] == layout.derived_profile(world.repo)
    second = world.start("--profile", "mine.1", "--", "true")
    assert record_of(world, second)["profile"] == "mine.1"
    for session_id in (first, second):
        assert world.session("wait", "--id", session_id).exit_status == 0
    assert record_of(world, first)["audit_log_path"] != record_of(world, second)["audit_log_path"]
    rows = world.session("list", "--profile", "mine.1").stdout.splitlines()[1:]
    assert [row.split("\t")[0] for row in rows] == [second]


def test_auto_says_what_it_chose_and_the_launch_event_keeps_it(world):
    done = world.session("start", "--agent", "command", "--", "true")
    assert done.exit_status == 0, done
    assert done.values["target_provider"] == "bubblewrap"
    assert "chosen by auto" in done.stderr
    [launch] = events(world, done.values["session_id"], "launch")
    assert "target auto" in launch["reason"]
    assert world.session("wait", "--id", done.values["session_id"]).exit_status == 0
