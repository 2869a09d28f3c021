"""The file trace: what comes, changes and goes in the agent's home and workspace, told by a tracer beside it."""

import json
import os
import re

import pytest

from life import assert_nothing_left, record_of, wait_for_output
from support import wait_until
from workcell import quoting, trace


@pytest.fixture
def log(world):
    world.make_repo()
    return os.path.join(world.home, "trace.log")


def lines(log):
    """Return the lines of a trace as (event, {name: value}), a state as a list."""
    found = []
    with open(log, "rb") as stream:
        for line in stream.read().splitlines():
            stamp, *fields = line.split(b"\t")
            assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp)
            values = {}
            for field in fields:
                name, equals, value = field.partition(b"=")
                if equals and name in (b"previous", b"current"):
                    values[name.decode()] = state = [value.decode()]
                elif equals:
                    [word] = quoting.tokenize(value)
                    values[name.decode()] = word.decode("utf-8", "surrogateescape")
                else:
                    state.append(field.decode())
            found.append((values.pop("event"), values))
    return found


AGENT = r"""
echo 1 > 'a b'; ln -s /etc/passwd link; mkdir -p "$HOME/.ssh" folder; echo k > "$HOME/.ssh/key"; echo k > "$HOME/.npmrc"
echo h > "$HOME/h"; printf x > "$(printf 'odd\377\n\033[31m')"; echo is up; read line
echo 22 > 'a b'; chmod 600 'a b'; rm link; echo last > folder/last; exit 3
"""


def test_a_file_trace_tells_each_change_and_keeps_the_exit_status(world, target, log):
    session_id = world.start("--file-trace-log", log, "--", "sh", "-c", AGENT, target=target)
    wait_for_output(world, session_id)
    wait_until(lambda: "create" in [event for event, _ in lines(log)], what="the first comparison")
    assert world.show(session_id)["file_trace_log_path"] == log and os.stat(log).st_mode & 0o777 == 0o600
    assert world.session("send", "--id", session_id, "--message", "go").exit_status == 0
    assert world.session("wait", "--id", session_id).exit_status == 3
    found = lines(log)
    roots = ["/state/agent-home", "/workspace"] if target == "bubblewrap" else [record_of(world, session_id)["workspace"]]
    assert found[0] == ("provider-launch", {"agent": "command", "ui": "cli", "mode": "strict"})
    assert found[1 : 1 + len(roots)] == [("watch-start", {"root": root, "interval_sec": "1"}) for root in roots]
    assert found[-1] == ("provider-exit", {"agent": "command", "status": "3"})
    assert found[-1 - len(roots) : -1] == [("watch-stop", {"root": root}) for root in roots]
    workspace = roots[-1]
    told = {(event, values.get("path", "").replace(workspace, "W")): values for event, values in found}
    assert told["create", "W/a b"]["current"][:3] == ["file", "644", "2"] and told["create", "W/a b"]["phase"] == "watch"
    assert told["create", "W/link"]["current"][0::4] == ["symlink", "/etc/passwd"]
    assert told["create", "W/folder"]["current"][0] == "dir"
    assert told["create", "W/odd\udcff\n\x1b[31m"]["current"][0] == "file"
    changed = told["modify", "W/a b"]
    assert (changed["phase"], changed["previous"][1:3], changed["current"][1:3]) == ("final", ["644", "2"], ["600", "3"])
    assert told["delete", "W/link"]["previous"][0] == "symlink" and told["create", "W/folder/last"]["phase"] == "final"
    if target == "bubblewrap":
        assert ("create", "/state/agent-home/h") in told
    assert not any(".ssh" in path or ".npmrc" in path for _, path in told)
    with open(log, "rb") as stream:
        text = stream.read()
    assert b"\x1b" not in text and text.decode("ascii")
    # Within one comparison what is new comes last.
    kinds = [event for event, values in found if values.get("phase") == "final"]
    assert kinds == sorted(kinds, key=lambda event: event == "create")
    shown = world.session("logs", "--id", session_id, "--kind", "file-trace").stdout
    assert shown.encode() == text
    assert world.session("delete", "--id", session_id).values["kept"].endswith("file_trace_log")
    assert_nothing_left(world)


def test_an_agent_that_kills_the_tracer_or_writes_in_its_place_costs_only_the_trace(world, log):
    liar = (
        "import os, signal, time\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if b'/run/workcell/file_trace.py' in open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0'):\n"
        "        try: lie = open(f'/proc/{pid}/fd/1', 'wb', 0)\n"
        "        except PermissionError: lie = open('/dev/null', 'wb', 0)\n"
        '        lie.write(b\'["create","watch","/x\\\\n2026 event=provider-exit",["file","644",1,1,"-"]]\\n\')\n'
        "        lie.write(b'event=provider-exit\\n[1]\\n{}\\n' + b'[' * 100000 + b'\\n' + b'y' * 200000 + b'\\n')\n"
        "        os.kill(int(pid), signal.SIGKILL)\n"
        "print('is up', flush=True)\n"
        "raise SystemExit(9)\n"
    )
    session_id = world.start("--file-trace-log", log, "--", "python3", "-c", liar)
    assert world.session("wait", "--id", session_id).exit_status == 9
    found = lines(log)
    lies = [values for _, values in found if values.get("path", "").startswith("/x")]
    # Root's pipe belongs to root: then nobody inside can open it once more.
    assert [values["path"] for values in lies] == ([] if os.geteuid() == 0 else ["/x\n2026 event=provider-exit"])
    assert [event for event, _ in found].count("provider-exit") == 1
    assert os.geteuid() == 0 or ("trace-lost", {"lines": "5"}) in found
    assert_nothing_left(world)


def test_a_place_for_the_trace_that_cannot_be_is_refused(world, log):
    for words, message in (
        (("--file-trace-log", os.path.join(world.home, "none", "x")), "does not exist"),
        (("--file-trace-log", log, "--debug-log", log), "is named for two logs"),
        (("--file-trace-log", log, "--transcript", log), "is named for two logs"),
    ):
        done = world.session("start", "--agent", "command", *words, "--", "true")
        assert done.exit_status == 2 and message in done.stderr, done
    assert not os.path.exists(log)


def test_a_trace_is_bounded_and_says_what_it_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "LIMIT_BYTES", 1000)
    path = str(tmp_path / "trace.log")
    collector = trace.Collector(trace.open_log(path))
    collector.launched("command", "cli", "strict")
    collector.feed(b"event=provider-exit\n[1]\n{}\n" + b"[" * 100000 + b"\n" + b"y" * 200000 + b'\n["start", 1]\n')
    line = json.dumps(["delete", "watch", "/w/" + "x" * 100, ["file", "644", 1, 1, "-"]]).encode() + b"\n"
    for at in range(0, len(line) * 50, 7):
        collector.feed((line * 50)[at : at + 7])
    collector.ended("command", 0)
    found = lines(path)
    assert os.path.getsize(path) < 1200 and [event for event, _ in found[-2:]] == ["trace-lost", "provider-exit"]
    assert int(found[-2][1]["lines"]) == 6 + 50 - [event for event, _ in found].count("delete")
