"""The command line of every executable: options, help, ids from standard input, errors as one line and a status.

argparse costs a quarter of the time that a read command may take, so the options are parsed here, by a table: a value
follows its option or is joined to it by `=`, no abbreviations, everything after the first free `--` is left alone. The
header of the executable is its help, and its man page.
"""

import os
import sys

from workcell.errors import UsageError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any


class Options:
    """The parsed options as attributes: a string, a list of strings where it may be repeated, or a bool."""

    rest: "list[str] | None"

    def __init__(self, values: "dict[str, Any]") -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> "Any":
        raise AttributeError(name)


class Option:
    """One row of the table."""

    __slots__ = ("names", "dest", "takes_value", "raw", "repeat", "required", "choices", "metavar", "help", "default")

    def __init__(self, names: "tuple[str, ...]", takes_value: bool, **more: "Any") -> None:
        self.names = names
        self.dest: str = more.get("dest") or names[0].lstrip("-").replace("-", "_")
        self.takes_value = takes_value
        self.raw: bool = more.get("raw", False)
        self.repeat: bool = more.get("repeat", False)
        self.required: bool = more.get("required", False)
        self.choices: tuple[str, ...] = more.get("choices", ())
        self.metavar: str = more.get("metavar") or self.dest.upper()
        self.help: str = more.get("help", "")
        self.default: Any = more.get("default", [] if self.repeat else "" if takes_value else False)


class Parser:
    """The options of one executable, made by `parser`."""

    def __init__(self, doc: str) -> None:
        self.doc = doc
        self.options: list[Option] = []
        self.rest_metavar = ""

    def option(self, *names: str, **more: "Any") -> None:
        """Add an option with a value: dest, default, required, repeat, choices, metavar, help.

        raw=True lets the value begin with `--`.
        """
        self.options.append(Option(names, True, **more))

    def flag(self, *names: str, **more: "Any") -> None:
        """Add an option without a value."""
        self.options.append(Option(names, False, **more))

    def rest(self, metavar: str) -> None:
        """Accept `-- WORD...`; the words are the attribute `rest`, None where no `--` was given."""
        self.rest_metavar = metavar

    def parse(self, argv: "list[str]") -> Options:
        """Return the options of argv (without the program's name); raise UsageError; print help and end with 0 when asked."""
        table = {name: option for option in self.options for name in option.names}
        values: dict[str, Any] = {o.dest: list(o.default) if o.repeat else o.default for o in self.options}
        values["rest"] = None
        at, end = 0, len(argv)
        while at < end:
            word = argv[at]
            at += 1
            if word == "--" and self.rest_metavar:
                values["rest"] = argv[at:]
                break
            if word in ("-h", "--help"):
                sys.stdout.write(self.doc.strip("\n") + "\n")
                raise SystemExit(0)
            name, joined, value = word.partition("=")
            option = table.get(name) if name.startswith("-") else None
            if option is None or (joined and not option.takes_value):
                raise UsageError(f"unsupported option {word!r}", "this command has no such option", "see --help")
            if not option.takes_value:
                values[option.dest] = True
                continue
            if not joined:
                value = argv[at] if at < end else ""
                at += 1
            if not value or (not joined and not option.raw and value.startswith("--")):
                raise UsageError(f"option {name}", "needs a value", "see --help")
            if option.choices and value not in option.choices:
                raise UsageError(f"{name} {value!r}", f"must be one of {', '.join(option.choices)}", "see --help")
            if option.repeat:
                values[option.dest].append(value)
            else:
                values[option.dest] = value
        for option in self.options:
            if option.required and not values[option.dest]:
                raise UsageError(f"option {option.names[0]}", "is required", "see --help")
        return Options(values)


def parser(doc: "str | None") -> Parser:
    """Return an empty Parser whose help is an executable's header."""
    return Parser(doc or "")


def ids(given: "list[str]", stream: "IO[str]") -> "Iterator[str]":
    """Yield the ids of the command line; `-` stands for those in the first column of a stream, a header line skipped."""
    for word in given:
        if word != "-":
            yield word
            continue
        for line in stream:
            first = line.split("\t", 1)[0].strip()
            if first and first != "session_id" and first != "No recorded sessions.":
                yield first


def reject_newlines(name: str, value: str) -> str:
    """Return the value of an option, or raise UsageError where it has a CR or LF."""
    if "\n" in value or "\r" in value:
        raise UsageError(f"option {name}", "must not contain a newline or a carriage return", "see --help")
    return value


def number(name: str, value: str, least: int = 0) -> int | None:
    """Return an option's value as a number, None where it was not given; raise UsageError."""
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 19 and int(value) >= least):
        raise UsageError(f"{name} {value!r}", "is no such number", f"give {least} or more")
    return int(value)


def size(name: str, value: str, least: int) -> int | None:
    """Return an option's value in bytes, None where it was not given: a number, or one with K, M or G (of 1024); UsageError."""
    if not value:
        return None
    digits, unit = (value[:-1], value[-1].upper()) if value[-1].isalpha() else (value, "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12) or unit not in ("", "K", "M", "G"):
        raise UsageError(f"{name} {value!r}", "is no size", "give a number of bytes, or one with K, M or G")
    found = int(digits) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
    if found < least:
        raise UsageError(f"{name} {value!r}", f"is less than {least} bytes", "give more")
    return found


def whole_seconds(name: str, value: str) -> float:
    """Return an option's value as seconds, 0 or more; raise UsageError."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(f"{name} {value!r}", "is not a number of seconds", "give 0 or more")
    return seconds


def program_name() -> str:
    """Return the name this program was called by."""
    return os.path.basename(sys.argv[0]) or "workcell"


def complain(message: str) -> None:
    """Print one line of ours on standard error; what it quotes cannot drive a terminal."""
    from workcell.output import printable

    line = printable(" ".join(f"{program_name()}: {message}".split("\n")))
    try:
        os.write(2, line.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass


def run(main: "Callable[[list[str]], int | None]") -> "Any":
    """Run an executable's main and end the process with its status.

    WorkcellError ends with its own status and one line; a reader that went away ends it quietly as SIGPIPE would (141);
    Ctrl-C with 130; anything else is a fault of ours, and 70 (EX_SOFTWARE, sysexits.h), so that it never looks like an answer.
    """
    status: int | None
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _hold_standard_descriptors()
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except WorkcellError as error:
        complain(str(error))
        status = error.exit_status
    except BrokenPipeError:
        status = 141
    except KeyboardInterrupt:
        status = 130
    except OSError as error:
        complain(f"{error.filename or 'system call'}: {error.strerror or error}")
        status = 1
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException as error:  # a traceback would end with 1 and look like "the answer is no"
        if os.environ.get("WORKCELL_TRACEBACK"):
            raise
        complain(f"internal error: {type(error).__name__}: {error}; set WORKCELL_TRACEBACK=1 and report what it prints")
        status = 70
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        # The interpreter flushes once more at its end and would print a second complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not status and isinstance(error, BrokenPipeError):
            status = 141
        elif not status and isinstance(error, OSError):
            complain(f"standard output: {error.strerror or error}")
            status = 1
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            pass
    # Without the interpreter's farewell to each object: after a long listing that is a tenth of the whole time.
    os._exit(status or 0)


def _hold_standard_descriptors() -> None:
    """Put /dev/null where the caller closed 0, 1 or 2: else a file of ours would get that number, and our messages with it."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null == fd:
                setattr(sys, name, open(fd, mode, encoding="utf-8"))
            else:
                os.close(null)
