"""What an operator's home and environment hold for each agent, so that it talks to the model on loopback; found by trying."""

import json
import os

from fake_api import MODEL

KEY = "sk-ant-fake-0123456789abcdef0123456789abcdef"


class Seed:
    """One agent: its variables, the files of its home, what its screen shows when it takes a prompt.

    asks: what it shows about a folder that it does not know; exit_status: what it ends with when it is asked to end.
    """

    def __init__(self, env, files, ready, asks, exit_status):
        self.env, self.files, self.ready, self.asks, self.exit_status = env, files, ready, asks, exit_status


def claude(url):
    approved = {"approved": [KEY[-20:]], "rejected": []}
    settings = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": approved}
    env = {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Seed(env, {".claude.json": json.dumps(settings)}, r"❯[\s\S]*bypass permissions on", "Yes, I trust this folder", 143)


def codex(url):
    config = f"""
model = "{MODEL}"
model_provider = "fake"
check_for_update_on_startup = false
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
"""
    ready = r"YOLO mode[\s\S]*› Ask Codex[\s\S]*" + MODEL
    return Seed({"OPENAI_API_KEY": KEY}, {".codex/config.toml": config}, ready, "Trust this folder", 143)


def copilot(url):
    env = {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": url, "COPILOT_MODEL": MODEL}
    return Seed(env, {}, rf"❯[\s\S]*/ commands +{MODEL}", "Confirm folder trust", 143)


def gemini(url):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}
    return Seed(env, {".gemini/settings.json": json.dumps(settings)}, "Type your message", "Do you trust the files", 0)


def plant(world, name, url):
    """Put what an agent needs into the operator's home and environment; return (its Seed, options of start)."""
    seed = {"claude": claude, "codex": codex, "copilot": copilot, "gemini": gemini}[name](url)
    for path, text in seed.files.items():
        full = os.path.join(world.home, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as stream:
            stream.write(text)
    world.env.update(seed.env)
    return seed, [word for variable in seed.env for word in ("--env", variable)]
