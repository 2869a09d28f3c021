"""What can go wrong, each kind with the exit status that it ends a command with.

The message of every error is `what: why; next step`, one line, for people: `cli.run` puts the program's name before it.
"""


class WorkcellError(Exception):
    """The command failed, or the answer is no: exit status 1."""

    exit_status = 1

    def __init__(self, what: str, why: str = "", next_step: str = "") -> None:
        self.what, self.why, self.next_step = what, why, next_step
        message = f"{what}: {why}" if why else what
        super().__init__(f"{message}; {next_step}" if next_step else message)


class UsageError(WorkcellError):
    """The command line itself is wrong: exit status 2."""

    exit_status = 2


class PreconditionError(WorkcellError):
    """Refused before anything was changed: exit status 2."""

    exit_status = 2


class NotFoundError(WorkcellError):
    """No such session, or no such file of a session."""


class UnreadableError(WorkcellError):
    """Something on disk is not what it must be: wrong owner, mode, kind, size or content."""


class BusyError(WorkcellError):
    """Somebody else holds what is needed, and waiting for it took too long."""


class CannotTellError(WorkcellError):
    """The truth could not be found out; nothing was changed."""
