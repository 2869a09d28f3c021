"""How the agents of the table are called. The agents themselves are run by `make test-agents`."""

import os

import pytest

from support import wait_until

STUB = '#!/bin/sh\nprintf "<%s>" "$@" "$COPILOT_ALLOW_ALL"\n'
# What each is told in a sandbox, so that it does not ask whether it may trust a folder that it has never seen.
TRUST = {
    "claude": "<--settings>",
    "codex": '<-c><projects={"/workspace"={trust_level="trusted"}}>',
    "copilot": "<true>",
    "gemini": "<--skip-trust>",
}


@pytest.fixture
def called(world):
    """A function that starts an agent, a script that prints what it was given, and returns that."""
    world.make_repo()
    tools = os.path.join(world.home, "tools", "bin")
    os.makedirs(tools)
    for name in TRUST:
        with open(os.path.join(tools, name), "w") as stream:
            stream.write(STUB)
        os.chmod(os.path.join(tools, name), 0o755)
    world.env["PATH"] = tools + os.pathsep + world.env["PATH"]

    def called(agent, *options, target):
        session_id = world.start(*options, "--", "a task", agent=agent, target=target)
        wait_until(lambda: world.show(session_id)["status"] == "exited", what="the end")
        return world.transcript(session_id)

    return called


@pytest.mark.parametrize("agent", TRUST)
def test_an_agent_is_told_to_trust_the_workspace_with_yolo_in_a_sandbox_only(called, agent):
    told = called(agent, target="bubblewrap")
    assert TRUST[agent] in told and "<a task>" in told
    assert TRUST[agent] not in called(agent, "--agent-autonomy", "prompt", target="bubblewrap")
    assert TRUST[agent] not in called(agent, "--share-state", target="process")
