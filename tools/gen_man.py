#!/usr/bin/env python3
"""Write a manual page for each executable, from its header.

Usage: gen_man.py [--check] [--bin DIR] [--output DIR]

The header is the docstring of a Python executable, or the comment at the top of a script. It is also what --help prints, so
there is one text to keep true. Its blocks are parted by empty lines:

  NAME - summary          the first line
  Usage: ...              one line for each way to call it
  --option VALUE  text    indented, two columns: the options; a longer text goes on below itself
  Exit status: ...        parts joined by '; ', each a number and what it means
  Files: page(5), ...     pages of docs/man5 that describe what it reads and writes

All else is the description. A page depends on nothing but the header, the pages that it names and the version: no date.

Exit status: 0 written, or fresh; 1 a header that is not in this form, or --check and a page is stale; 2 usage
"""

import argparse
import ast
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAN5 = os.path.join(ROOT, "docs", "man5")

INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?P<page>\bworkcell[a-z-]*|\b[a-z][a-z0-9_.-]*)\((?P<section>[1-8])\)"
    r"|(?P<option>(?<![\w'-])--[a-z][a-z-]*)"
    r"|(?P<command>\bworkcell(?:-[a-z]+)+\b)"
    r"|(?P<word>\b[A-Z]{2,}\b|\b[A-Z]{2,}(?=s\b))"
)
# No word is broken and no line stretched: names of commands and files stay whole.
LAYOUT = (".nr HY 0", ".nh", ".ad l")
# What stands for itself in a page, whatever the device makes of it (groff_char(7)).
SPECIAL = {"\\": r"\e", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}


def fail(message: str) -> "NoReturn":
    """End with one line on standard error."""
    print(f"gen_man.py: {message}", file=sys.stderr)
    raise SystemExit(1)


def version() -> str:
    """Return the version, from the one place that has it."""
    with open(os.path.join(ROOT, "lib", "workcell", "__init__.py"), encoding="utf-8") as stream:
        found = re.search(r'^__version__ = "([^"]+)"$', stream.read(), re.M)
    return found[1] if found else fail("lib/workcell/__init__.py: has no __version__")


def header(path: str) -> str:
    """Return the header of an executable."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    first, _, rest = text.partition("\n")
    if "python" in first:
        return (ast.get_docstring(ast.parse(text)) or "").strip()
    lines = []
    for line in rest.split("\n"):
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" ").rstrip())
    return "\n".join(lines).strip()


class Header:
    """A header taken apart: summary, usage (lines), body (blocks of lines), options (term, text), exits and pages."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.usage: list[str] = []
        self.body: list[list[str]] = []
        self.options: list[tuple[str, str]] = []
        self.exits: list[str] = []
        self.pages: list[str] = []
        blocks = [block.split("\n") for block in re.split(r"\n(?:[ \t]*\n)+", text)]
        title, dash, self.summary = blocks[0][0].partition(" - ")
        if title != name or not dash or len(blocks[0]) > 1:
            fail(f"bin/{name}: its header does not begin with '{name} - summary'")
        for block in blocks[1:]:
            self._take(block)
        for part, found in (("Usage", self.usage), ("Exit status", self.exits)):
            if not found:
                fail(f"bin/{name}: its header has no '{part}:'")
        words = re.findall(r"\b[A-Z]{2,}\b", " ".join([*self.usage, *(term for term, _ in self.options)]))
        self.metavars = frozenset(words)

    def _take(self, block: list[str]) -> None:
        if block[0].startswith("Usage:"):
            block = [block[0].removeprefix("Usage:"), *block[1:]]
            for line in map(str.strip, block):
                if line.startswith("workcell"):
                    self.usage.append(line)
                else:
                    self.usage[-1] += " " + line
        elif block[0].startswith("Exit status:"):
            ends = [at for at, line in enumerate(block) if line.startswith("Files:")]
            status, files = (block[: ends[0]], block[ends[0] :]) if ends else (block, [])
            text = joined(status).removeprefix("Exit status:").strip()
            self.exits = re.split(r"; (?=[0-9]+ |the agent's)", text)
            self.pages = re.findall(r"([a-z-]+)\(5\)", joined(files))
            if "Files:" in text:
                fail(f"bin/{self.name}: 'Files:' does not begin a line of its header")
        elif block[0].startswith("  -"):
            self.options += columns(block)
        else:
            self.body.append(block)


def joined(lines: list[str]) -> str:
    """Return lines as one, single blanks between their words."""
    return " ".join(" ".join(lines).split())


def columns(block: list[str]) -> list[tuple[str, str]]:
    """Return (term, text) of a block in two columns, whose texts go on in deeper lines."""
    rows: list[tuple[str, str]] = []
    for line in block:
        indent = len(line) - len(line.lstrip())
        if indent == 2:
            term, _, text = line.strip().partition("  ")
            rows.append((term, text.strip()))
        elif rows and indent > 2:
            rows[-1] = (rows[-1][0], joined([rows[-1][1], line]))
        else:
            fail(f"not in two columns: {line!r}")
    return rows


def escape(text: str, literal: bool = False) -> str:
    """Return text for the inside of a line; `literal` also keeps hyphens as the character that one types."""
    apostrophe = text if literal else re.sub(r"(?<=[A-Za-z])'(?=[a-z])", "\0", text)
    out = "".join(SPECIAL.get(character, character) for character in apostrophe).replace("\0", "'")
    return out.replace("-", r"\-") if literal else out


def inline(text: str, metavars: frozenset[str]) -> str:
    """Return a paragraph's text as roff: literal words bold, what stands for something italic, a line for each sentence."""
    out, at = [], 0
    for found in INLINE.finditer(text):
        word = found["word"]
        if word and word not in metavars:
            continue
        out.append(escape(text[at : found.start()]))
        at = found.end()
        if word:
            out.append(rf"\fI{escape(word, True)}\fR")
        elif found["page"]:
            out.append(rf"\fB{escape(found['page'], True)}\fR({found['section']})")
        else:
            out.append(rf"\fB{escape(found['code'] or found['option'] or found['command'], True)}\fR")
    out.append(escape(text[at:]))
    return guarded("".join(out))


def guarded(text: str) -> str:
    """Return text with a line for each sentence, none of which roff would take for a request."""
    lines = re.sub(r"(?<=[a-z)R]\.) (?=[A-Z\\])", "\n", text).split("\n")
    return "\n".join(r"\&" + line if line.startswith((".", "'")) else line for line in lines)


def term(text: str, metavars: frozenset[str]) -> str:
    """Return the first column of an option: all literal but for what stands for a value."""
    parts = re.split(r"([A-Z]{2,}\b)", text)
    shown = [rf"\fI{escape(part, True)}\fR" if part in metavars else bold(part) for part in parts if part]
    return guarded("".join(shown))


def bold(text: str) -> str:
    """Return text with each literal word bold, brackets and bars as they are."""
    words = re.split(r"([\[\] |()]+|\.\.\.)", text)
    plain = re.compile(r"[\[\] |().]*\Z")
    return "".join(escape(word) if plain.match(word) else rf"\fB{escape(word, True)}\fR" for word in words if word)


def page_summary(name: str) -> str:
    """Return what the NAME line of a page of section 5 says of it."""
    path = os.path.join(MAN5, name + ".5")
    try:
        with open(path, encoding="utf-8") as stream:
            found = re.search(r"^\.SH NAME\n.* \\- (.*)$", stream.read(), re.M)
    except FileNotFoundError:
        fail(f"docs/man5/{name}.5: is missing, and a header in bin/ names it")
    return found[1] if found else fail(f"docs/man5/{name}.5: has no NAME line")


def page(found: Header, others: list[str], of_version: str) -> str:
    """Return the page of one executable; others: the names of all, which workcell(1) refers to."""
    out = [
        rf".\" Made by tools/gen_man.py from the header of bin/{found.name}: change that.",
        f'.TH {escape(found.name.upper(), True)} 1 "" "workcell {of_version}" "User Commands"',
        *LAYOUT,
        ".SH NAME",
        rf"{escape(found.name, True)} \- {inline(found.summary, frozenset())}",
        ".SH SYNOPSIS",
    ]
    for line in found.usage:
        command, _, rest = line.partition(" ")
        out += [f".SY {escape(command, True)}", term(rest, found.metavars), ".YS"]
    if found.body:
        out.append(".SH DESCRIPTION")
    for block in found.body:
        if block[0].startswith("  "):
            for left, text in columns(block):
                out += [".TP", bold(left), inline(text, found.metavars)]
        else:
            out += [".PP", inline(joined(block), found.metavars)]
    if found.options:
        out.append(".SH OPTIONS")
        for left, text in found.options:
            out += [".TP", term(left, found.metavars), inline(text, found.metavars)]
        out += [".TP", r"\fB\-h\fR, \fB\-\-help\fR", "print the text of this page"]
    out.append(".SH EXIT STATUS")
    for part in sorted(found.exits, key=lambda part: not part[0].isdigit()):
        number, _, text = part.partition(" ")
        tag = rf"\fB{number}\fR" if number.isdigit() else r"any other"
        out += [".TP", tag, inline(text if number.isdigit() else part, found.metavars)]
    if found.pages:
        out.append(".SH FILES")
        for name in found.pages:
            out += [".TP", f".BR {escape(name, True)} (5)", page_summary(name)]
    refs = [(name, 1) for name in others] if found.name == "workcell" else [("workcell", 1)]
    refs = [*refs, *((name, 5) for name in found.pages), ("workcell", 7)]
    out.append(".SH SEE ALSO")
    for at, (name, section) in enumerate(refs):
        out.append(f".BR {escape(name, True)} ({section}){',' if at < len(refs) - 1 else ''}")
    return "\n".join(line for line in out if line) + "\n"


def main(argv: list[str]) -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is not what it should be")
    parser.add_argument("--bin", default=os.path.join(ROOT, "bin"), help="folder of the executables")
    parser.add_argument("--output", default=os.path.join(ROOT, "docs", "man1"), help="folder of the pages")
    options = parser.parse_args(argv)
    names = sorted(name for name in os.listdir(options.bin) if os.path.isfile(os.path.join(options.bin, name)))
    of_version = version()
    others = [name for name in names if name != "workcell"]
    pages = {}
    for name in names:
        pages[name + ".1"] = page(Header(name, header(os.path.join(options.bin, name))), others, of_version)
    there = set(os.listdir(options.output)) if os.path.isdir(options.output) else set()
    stale = sorted(there - set(pages))
    if not options.check:
        os.makedirs(options.output, exist_ok=True)
    for name, text in pages.items():
        path = os.path.join(options.output, name)
        current = ""
        if name in there:
            with open(path, encoding="utf-8") as stream:
                current = stream.read()
        if current == text:
            continue
        if options.check:
            stale.append(name)
            continue
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    if options.check and stale:
        fail(f"docs/man1: not fresh: {', '.join(stale)}; run make man, and remove pages without an executable")
    if not options.check:
        for name in stale:
            os.unlink(os.path.join(options.output, name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
