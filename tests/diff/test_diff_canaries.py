"""No program that a workspace names is run by any command that looks at its session; a plain git would run each of them.

Canaries are planted wherever git can be told to run something: in the clone, in a repository inside it, and in a submodule.
"""

import os
import subprocess

import pytest
from diffs import Session, make_repository, write

KEYS = (
    "core.fsmonitor", "core.sshCommand", "core.askPass", "core.pager", "core.editor", "core.gitProxy",
    "core.alternateRefsCommand", "credential.helper", "diff.external", "diff.evil.textconv", "diff.evil.command",
    "merge.evil.driver", "filter.evil.clean", "filter.evil.smudge", "filter.two.process", "gpg.program",
    "uploadpack.packObjectsHook", "sequence.editor", "interactive.diffFilter", "remote.origin.uploadpack", "pager.diff",
    "pager.status", "pager.log", "pager.show",
)  # fmt: skip
ALIASES = ("st", "diff", "status", "cat-file", "ls-files", "rev-list", "check-attr")
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit", "fsmonitor-watchman")
ATTRIBUTES = "*.txt filter=evil diff=evil merge=evil\n*.bin filter=two diff=evil\n"


class Trap:
    """A session whose workspace is full of canaries, each of which leaves a file of its name where it was planted."""

    def __init__(self, world):
        self.world = world
        self.fired_dir = os.path.join(world.folder, "fired")
        os.mkdir(self.fired_dir)
        os.chmod(self.fired_dir, 0o777)
        self.canaries = os.path.join(world.folder, "canaries")
        os.mkdir(self.canaries)
        self.library = make_repository(world, {"s.txt": "s\n", "s.bin": "b\n"}, os.path.join(world.home, "library"))

        def add_submodule(path):
            world.git("-C", path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", self.library, "module")

        make_repository(world, {"a.txt": "text\n", "a.bin": "bin\n"}, prepare=add_submodule)
        self.session = session = Session(world)
        session.agent("git submodule --quiet update --init")
        session.agent("git init -q nested; cp a.txt a.bin nested; cd nested; git add -A; git commit -qm nested")
        session.agent(
            "echo more >> a.txt; echo more >> a.bin; echo new > new.txt; git add new.txt; git commit -qm change -- a.bin"
        )
        session.agent("git checkout -q -b side; echo s > side.txt; git add side.txt; git commit -qm side; git checkout -q -")
        session.agent("echo more >> module/s.txt; echo more >> nested/a.txt")
        for folder in (".", "nested", "module"):
            self.plant(folder)

    def canary(self, name):
        path = os.path.join(self.canaries, name)
        write(path, f"#!/bin/sh\n: > {self.fired_dir}/{name}\n{'cat' if 'filter.evil' in name else ''}\nexit 0\n", 0o755)
        return path

    def plant(self, folder):
        where = {".": "clone"}.get(folder, folder)
        commands = [f"cd {folder}"]
        for key in KEYS:
            commands.append(f"git config {key} {self.canary(where + '-' + key)}")
        for name in ALIASES:
            commands.append(f"git config alias.{name} '!{self.canary(where + '-alias-' + name)}'")
        included = os.path.join(self.canaries, where + "-included-file")
        write(included, f"[alias]\n\tincluded = !{self.canary(where + '-included')}\n")
        os.chmod(included, 0o644)
        git_dir = self.session.agent(f"cd {folder}; git rev-parse --absolute-git-dir").decode().strip()
        commands += [
            "git config filter.evil.required true",
            f"git config include.path {included}",
            f"mkdir -p {git_dir}/info {git_dir}/hooks",
            f"printf '{ATTRIBUTES}' | tee .gitattributes > {git_dir}/info/attributes",
        ]
        for name in HOOKS:
            write(
                os.path.join(self.canaries, where + "-run-" + name),
                f"#!/bin/sh\nexec {self.canary(where + '-hook-' + name)}\n",
                0o755,
            )
            commands.append(f"cp {self.canaries}/{where}-run-{name} {git_dir}/hooks/{name}")
        # A changed time makes git look at the content again, through the filters.
        commands.append("touch -d @1 $(git ls-files '*.txt' '*.bin')")
        commands.append(f"git config core.fsmonitor {self.canary(where + '-core.fsmonitor')}")
        self.session.agent("\n".join(commands))
        self.clear()

    def clear(self):
        for name in os.listdir(self.fired_dir):
            os.unlink(os.path.join(self.fired_dir, name))

    def fired(self):
        return sorted(os.listdir(self.fired_dir))


@pytest.fixture(scope="module")
def trap():
    import diffs

    world = diffs.make_world()
    yield Trap(world)
    diffs.close_world(world)


COMMANDS = {
    "diff": ("diff", "--id"),
    "diff --untracked": ("diff", "--untracked", "--id"),
    "diff --stat": ("diff", "--stat", "--id"),
    "diff --json": ("diff", "--json", "--id"),
    "list": ("list", "--verbose"),
    "show": ("show", "--id"),
    "export": ("export", "--id"),
    "verify": ("verify", "--id"),
    "timeline": ("timeline", "--id"),
    "logs": ("logs", "--kind", "audit", "--id"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_canary_runs_when_somebody_looks_by(trap, command):
    # H11, also where the agent's own environment would name programs
    trap.clear()
    words = COMMANDS[command]
    named = {
        name: trap.canary("environment-" + name)
        for name in ("GIT_PAGER", "PAGER", "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_EDITOR")
    }
    # git of the operator runs where he stands, and he may well stand in the workspace.
    done = trap.world.session(*words, *([trap.session.id] if words[-1] == "--id" else []), cwd=trap.session.path, env=named)
    assert trap.fired() == [], done
    if command.startswith("diff"):
        assert done.exit_status == 0 and "a.txt" in done.stdout and "module" in done.stdout, done
    else:
        assert "Traceback" not in done.stderr


def test_no_canary_runs_in_the_sandbox_either(place):
    # In there it could not leave a file, but it can end the git that runs it, and the answers would be missing.
    make_repository(place, {"a.txt": "text\n"})
    session = Session(place)
    session.agent(
        "echo more >> a.txt; git commit -qam change; echo more >> a.txt; git checkout -q -b side; git branch other HEAD~1"
    )
    session.put(".git/end", "#!/bin/sh\nkill -9 $PPID\n", 0o755)
    session.agent("mkdir .git/hooks; for hook in " + " ".join(HOOKS) + "; do cp .git/end .git/hooks/$hook; done")
    end = "/workspace/.git/end"
    keys = [f"git config {key} {end}" for key in KEYS] + [f"git config alias.{name} '!{end}'" for name in ALIASES]
    more = [
        "log.showSignature true",
        "core.hooksPath /workspace/.git/hooks",
        "extensions.partialClone origin",
        "core.attributesFile .a",
    ]
    keys += [f"git config {words}" for words in more] + ["echo '* filter=evil diff=evil' > .gitattributes", "touch -d @1 a.txt"]
    session.agent("\n".join([*keys[1:], keys[0]]))
    found = session.bundle()
    assert len(found.commits) == 1 and "+more" in found.diff
    assert not any(note.startswith("cannot tell") for note in found.notes), found.notes

    from workcell.runtimes import bubblewrap

    words = ["/bin/sh", "-c", "git -c safe.directory='*' status; echo ended with $?"]
    command = bubblewrap.inspection(session.path, place.repo, words, whole=True, seccomp_fd=-1)
    control = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "ended with 137" in control.stdout, control

    saved = os.path.join(place.home, "saved")
    done = place.session("delete", "--id", session.id, "--workspace", "--rescue", saved)
    assert done.exit_status == 0 and done.values["work_commits"] == "1" and done.values["rescue"] == saved, done


HOST = r"protocol=https\nhost=nowhere.invalid\n\n"
CONTROL = {
    "core.fsmonitor": "git status",
    "diff.external": "echo p > plain; git add -N plain; git diff -- plain",
    "diff.evil.textconv": "git diff --no-ext-diff -- {txt}",
    "diff.evil.command": "git diff -- {txt}",
    "filter.evil.clean": "git diff --no-ext-diff --no-textconv -- {txt}",
    "filter.two.process": "git diff --no-ext-diff --no-textconv || :",
    "filter.evil.smudge": "rm -f {txt}; git checkout -- {txt} || :",
    "core.pager": "script -qec 'git tag -l' /dev/null",
    "pager.diff": "script -qec 'git diff --no-ext-diff' /dev/null",
    "pager.status": "script -qec 'git status' /dev/null",
    "core.sshCommand": "git ls-remote ssh://nowhere.invalid/x || :",
    "core.gitProxy": "git ls-remote git://nowhere.invalid/x || :",
    "credential.helper": f"printf '{HOST}' | timeout 5 git credential fill || :",
    "core.askPass": f"printf '{HOST}' | timeout 5 git -c credential.helper= credential fill || :",
    "core.editor": "git tag -a control || :",
    "alias-st": "git st",
    "included": "git included",
    "hook-post-index-change": "git add --renormalize . || :",
    "hook-reference-transaction": "git branch control-$$",
}


def test_a_plain_git_runs_each_kind_of_canary_in_each_place(trap):
    trap.clear()
    for folder, txt in ((".", "a.txt"), ("nested", "a.txt"), ("module", "s.txt")):
        for command in CONTROL.values():
            trap.session.agent(f"cd {folder}; touch -d @2 {txt}; {command.format(txt=txt)}", check=False)
    fired = trap.fired()
    for where in ("clone", "nested", "module"):
        missing = [name for name in CONTROL if f"{where}-{name}" not in fired]
        assert missing == [], (where, missing)
