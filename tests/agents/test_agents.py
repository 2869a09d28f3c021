"""Coding agents as they are published, each in the sandbox, against a model on loopback that writes down what it is asked."""

import re

import pytest

import seeds
from ending import stop
from install import AGENTS
from screen import Detached, replay
from support import wait_until

SHORT = "say hello"
LONG = "The quick brown fox jumps over the lazy dog, and then some more. " * 23 + "end"
LINES = "the first line\n  the second, indented\nthe third"
TYPED = "typed by hand"


@pytest.fixture(params=AGENTS)
def agent(request):
    """Each agent by name."""
    return request.param


def wait_for_prompts(api, wanted, screen):
    """Wait until the model was asked as often as wanted; it must have been asked exactly that."""
    try:
        wait_until(lambda: screen.text() and len(api.prompts()) >= len(wanted), 20, f"prompt {wanted[-1][:40]!r}")
    except AssertionError as error:
        raise AssertionError(f"{error}; the screen shows:\n{screen.text()}") from None
    assert api.prompts() == wanted


def test_an_agent_takes_prompts_from_send_and_from_a_terminal_and_ends_when_it_is_asked_to(world, api, terminal, agent):
    seed, options = seeds.plant(world, agent, api.url)
    session_id = world.start(*options, agent=agent)
    screen = Detached(world, session_id)
    screen.wait_for(seed.ready)

    # Each message of send is one prompt, with nothing added and nothing lost.
    messages = (SHORT, LONG, LINES)
    for number, message in enumerate(messages, 1):
        done = world.session("send", "--id", session_id, "--message", message)
        assert done.exit_status == 0, done
        wait_for_prompts(api, list(messages[:number]), screen)
        screen.wait_for(rf"fake-reply-{number}\.")
    screen.agrees_with_the_command()

    # A terminal shows the screen at its own size, and its answers to the agent's questions do not become a prompt.
    client = terminal(session_id, 30, 100)
    client.wait_for(r"fake-reply-3\.")
    client.type(TYPED)
    client.wait_for(TYPED)
    client.type("\r")
    wait_for_prompts(api, [*messages, TYPED], client)
    client.wait_for(r"fake-reply-4\.")
    client.resize(40, 120)
    wait_until(lambda: client.widest() > 100, what="a screen of the new width")
    client.detach()
    assert world.show(session_id)["live_status"] == "running"

    fields = stop(world, session_id, seed.exit_status)
    assert api.prompts() == [*messages, TYPED]
    screens = replay(fields["transcript_log_path"])
    for number in range(1, 5):
        assert any(f"fake-reply-{number}." in shown for shown in screens), f"reply {number} is not in the recording"


def test_a_task_on_the_command_line_is_begun_without_a_question(world, api, agent):
    seed, options = seeds.plant(world, agent, api.url)
    task = ["-i", SHORT] if agent in ("copilot", "gemini") else [SHORT]
    session_id = world.start(*options, "--", *task, agent=agent)
    screen = Detached(world, session_id)
    wait_for_prompts(api, [SHORT], screen)
    screen.wait_for(r"fake-reply-1\.")
    stop(world, session_id, seed.exit_status)


def test_with_autonomy_prompt_the_agent_asks_about_the_folder_itself(world, api, agent):
    seed, options = seeds.plant(world, agent, api.url)
    session_id = world.start(*options, "--agent-autonomy", "prompt", agent=agent)
    Detached(world, session_id).wait_for(re.escape(seed.asks))
    assert api.prompts() == []
    done = world.session("stop", "--id", session_id, "--force")
    assert done.exit_status == 0, done
