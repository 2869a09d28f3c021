"""The agents that start knows by name: a small table, built in and the operator's own.

An entry says what to run, how it is told to work alone, which variables and home files it is given, how it takes a prompt
and which signal ends it. Those built in were run with the versions that tests/agents/package.json names.
The operator's entries stand in `agents.toml` in the configuration folder; workcell-agents(5).
"""

import os
import stat

from workcell import layout
from workcell.errors import PreconditionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


class Agent:
    """One entry of the table."""

    __slots__ = ("name", "command", "autonomy", "trust", "trust_env", "env", "home", "pause_ms", "stop_signal", "debug")

    def __init__(
        self,
        name: str,
        command: "list[str]",
        yolo: "list[str] | None" = None,
        prompt: "list[str] | None" = None,
        env: "list[str] | None" = None,
        home: "list[str] | None" = None,
        pause_ms: int = 300,
        stop_signal: str = "TERM",
        debug: bool = False,
        trust: "list[str] | None" = None,
        trust_env: "dict[str, str] | None" = None,
    ) -> None:
        self.name = name
        self.command = command
        self.autonomy = {"yolo": yolo or [], "prompt": prompt or []}
        # What goes with yolo inside a sandbox, and only there: each agent has a question of its own about a folder that it has
        # not seen before, and in a sandbox it has seen none. It would stand there until somebody attached.
        self.trust = trust or []
        self.trust_env = trust_env or {}
        self.env = env or []  # names of variables that are passed on when they are set
        self.home = home or []  # files and folders of the home that are copied in
        self.pause_ms = pause_ms  # between a prompt and its Enter; 0: written in one go
        self.stop_signal = stop_signal
        self.debug = debug  # a shell or a bare command: no managed agent, and recorded so


BUILT_IN = (
    Agent(
        "codex",
        ["codex"],
        yolo=["--dangerously-bypass-approvals-and-sandbox"],
        trust=["-c", 'projects={"/workspace"={trust_level="trusted"}}'],
        env=["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"],
        home=[".codex/auth.json", ".codex/config.toml", ".codex/AGENTS.md"],
    ),
    Agent(
        "claude",
        ["claude"],
        yolo=["--dangerously-skip-permissions"],
        trust=["--settings", '{"env":{"CLAUDE_CODE_SANDBOXED":"1"},"skipDangerousModePermissionPrompt":true}'],
        env=[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "DISABLE_AUTOUPDATER",
        ],
        home=[".claude.json", ".claude/.credentials.json", ".claude/settings.json", ".claude/CLAUDE.md"],
    ),
    Agent(
        "copilot",
        ["copilot"],
        yolo=["--allow-all-tools"],
        trust_env={"COPILOT_ALLOW_ALL": "true"},
        env=["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
        home=[".copilot/config.json", ".copilot/mcp-config.json"],
    ),
    Agent(
        "gemini",
        ["gemini"],
        yolo=["--yolo"],
        trust=["--skip-trust"],
        env=["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL"],
        home=[".gemini/settings.json", ".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/GEMINI.md"],
        # It takes an Enter that comes soon after a paste for a new line, and while it starts, it stands still for long moments.
        pause_ms=1000,
    ),
    # An interactive shell ignores TERM; a hang-up is what ends it.
    Agent("shell", ["bash"], pause_ms=0, stop_signal="HUP", debug=True),
    Agent("command", [], pause_ms=0, debug=True),
)


def find(name: str) -> Agent:
    """Return the entry of an agent; raise PreconditionError naming the known ones, or what is wrong with agents.toml."""
    table = {agent.name: agent for agent in BUILT_IN}
    table.update(_operators_own())
    if name not in table:
        raise PreconditionError(f"agent {name!r}", "is not known", f"known are {', '.join(table)}")
    return table[name]


def _operators_own() -> dict[str, Agent]:
    path = os.path.join(layout.config_dir(), "agents.toml")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PreconditionError(path, error.strerror or "cannot be opened", "make it a plain file of your own") from None
    with open(fd, "rb") as stream:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PreconditionError(path, "is not a plain file that only you can write", "chmod go-w it, and own it")
        import tomllib

        try:
            entries = tomllib.load(stream)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PreconditionError(path, f"is no TOML: {error}", "see workcell-agents(5)") from None
    return {name: _entry(path, name, value) for name, value in entries.items()}


def _entry(path: str, name: str, value: "Any") -> Agent:
    def bad(why: str) -> PreconditionError:
        return PreconditionError(f"{path}: agent {name!r}", why, "see workcell-agents(5)")

    if not 0 < len(name) <= 32 or not NAME_CHARACTERS.issuperset(name) or name[0] in "_-":
        raise bad("is no agent name (up to 32 of a-z 0-9 _ -, a letter or digit first)")
    if not isinstance(value, dict):
        raise bad("is not a table")
    lists = {key: value.get(key, []) for key in ("command", "yolo", "prompt", "env", "home")}
    for key, words in lists.items():
        if not isinstance(words, list) or not all(isinstance(w, str) and w and "\0" not in w for w in words):
            raise bad(f"{key} is not a list of words")
    if not lists["command"]:
        raise bad("has no command")
    unknown = set(value) - set(lists) - {"pause_ms", "stop_signal"}
    if unknown:
        raise bad(f"has the unknown key {sorted(unknown)[0]!r}")
    pause_ms, stop_signal = value.get("pause_ms", 300), value.get("stop_signal", "TERM")
    if type(pause_ms) is not int or not 0 <= pause_ms <= 10_000:
        raise bad("pause_ms is not a number of milliseconds up to 10000")
    if stop_signal not in ("TERM", "HUP", "INT", "QUIT"):
        raise bad("stop_signal is none of TERM, HUP, INT, QUIT")
    for entry in lists["home"]:
        if os.path.isabs(entry) or ".." in entry.split("/"):
            raise bad(f"home entry {entry!r} is not below the home")
    return Agent(name, pause_ms=pause_ms, stop_signal=stop_signal, **lists)


class Program:
    """A program that was found on the host and can be shown inside a sandbox.

    argv: the words to run; prefixes: folders or files outside the system's own that must be visible at their own path;
    path: folders to put on PATH inside.
    """

    __slots__ = ("argv", "prefixes", "path")

    def __init__(self, argv: "list[str]", prefixes: "list[str]", path: "list[str]") -> None:
        self.argv, self.prefixes, self.path = argv, prefixes, path


SYSTEM_PREFIXES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")


# Debian's choices among programs: each sandbox shows them as well, as one of the folders of /etc.
_ALTERNATIVES = "/etc/alternatives"


def in_system(path: str) -> bool:
    """Say whether a path lies in the folders that every sandbox shows."""
    return any(path == top or path.startswith(top + "/") for top in (*SYSTEM_PREFIXES, _ALTERNATIVES))


def locate(argv: "list[str]", workspace: str, inside_workspace: str) -> Program:
    """Find the program of argv on the host, through its links and `#!` lines; raise PreconditionError where it is not.

    A program of the workspace is named by its path inside; one outside of the system's folders brings its install prefix.
    """
    from workcell import run

    name = argv[0]
    if "/" in name and not os.path.isabs(name):
        # Relative to the workspace, where the agent starts.
        found = os.path.join(workspace, name)
        if not os.path.isfile(found) or not os.access(found, os.X_OK):
            why = "cannot be run" if os.path.exists(found) else "not found"
            raise PreconditionError(f"program {name!r}", f"{why} in {workspace}", "name it by its path in the workspace")
        return _of_workspace(found, Program(argv, [], []))
    found = run.which(name) or ""
    if not found:
        where = name if "/" in name else os.environ.get("PATH", run.SYSTEM_PATH)
        raise PreconditionError(f"program {name!r}", f"not found in {where}", "install it, or name it by its path")
    if found.startswith(workspace + "/"):
        return _of_workspace(found, Program([inside_workspace + found[len(workspace) :], *argv[1:]], [], []))
    program = Program([found, *argv[1:]], [], [])
    _show(found, program, 0)
    return program


def _of_workspace(found: str, program: Program) -> Program:
    """Add the interpreter that a script of the workspace asks `env` for.

    Only one that the operator has on PATH: a path that a repository names may be any file of the operator's.
    """
    from workcell import run

    words = (_shebang(found) or "").split()
    named = _named_by_env(words)
    resolved = run.which(named) if named and "/" not in named else None
    if resolved is not None:
        _show(resolved, program, 1)
    return program


def _show(found: str, program: Program, depth: int) -> None:
    """Add what must be visible for a program: each link on the way to it, its prefix, its interpreter."""
    from workcell import run

    real = os.path.realpath(found)
    for path in (*_links(found), real):
        if not in_system(path):
            prefix, folder = install_prefix(path), os.path.dirname(path)
            if prefix not in program.prefixes:
                program.prefixes.append(prefix)
            if folder not in program.path:
                program.path.append(folder)
    words = ((_shebang(real) if depth < 3 else None) or "").split()
    if not words:
        return
    named = _named_by_env(words)
    if named is not None:
        resolved = run.which(named) if named else None
        if resolved is None:
            raise PreconditionError(real, f"needs {named or 'a program'}, which is not found on PATH", f"install {named}")
        _show(resolved, program, depth + 1)
    elif os.path.exists(words[0]):
        _show(words[0], program, depth + 1)


def _links(path: str) -> "list[str]":
    """Return a path and each one that it leads to as a link, in order; a ring of links ends it."""
    found = [path]
    while os.path.islink(found[-1]) and len(found) < 40:
        found.append(os.path.normpath(os.path.join(os.path.dirname(found[-1]), os.readlink(found[-1]))))
    return found


def _named_by_env(words: "list[str]") -> str | None:
    """Return the program that the words of a `#!` line have env(1) look for, None where they do not."""
    if not words or os.path.basename(words[0]) != "env":
        return None
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")


def _shebang(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            head = stream.read(256)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    return os.fsdecode(head[2:].split(b"\n", 1)[0]).strip() or None


def install_prefix(path: str) -> str:
    """Return what must be visible for a program at path: the folder above its bin/, or the node_modules it lies in.

    Where that folder would show more than an installation, the file alone.
    """
    parts = path.split("/")
    folders = parts[:-1]
    if "node_modules" in folders:
        return "/".join(folders[: folders.index("node_modules") + 1])
    marks = [at for at, part in enumerate(folders) if part in ("bin", "sbin", "libexec")]
    prefix = "/".join(folders[: marks[-1]]) if marks else ""
    return path if _shows_too_much(os.path.realpath(prefix or "/")) else prefix


_MARKS_OF_A_HOME = (".ssh", ".gnupg", ".bashrc", ".profile", ".bash_history", ".netrc")


def _shows_too_much(folder: str) -> bool:
    """Say whether a folder is the root, a home or what holds one, a folder of credentials in the home, or the toolkit's own."""
    from workcell.workspace import SENSITIVE

    home = os.path.realpath(layout.home_dir())
    own = [os.path.realpath(path) for path in (layout.state_root(), layout.config_dir(), layout.legacy_root())]
    parent, name = os.path.split(folder)
    return (
        folder.count("/") < 2
        or (home + "/").startswith(folder + "/")
        or (parent == home and name in (*SENSITIVE, ".cargo"))
        or any(folder == path or folder.startswith(path + "/") for path in own)
        or any(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS_OF_A_HOME)
    )
