"""Make one call of those that remove, move or sync files fail, as on a disk with errors: number FAULT_AT; tell if it came."""

import os

count = 0


def failing(function):
    """Return a function that fails when its turn comes."""

    def found(*words, **named):
        global count
        count += 1
        if count == int(os.environ["FAULT_AT"]):
            with open(os.environ["FAULT_MARK"], "w"):
                pass
            raise OSError(5, "Input/output error", words[0])
        return function(*words, **named)

    return found


if "FAULT_AT" in os.environ:
    for name in ("unlink", "rmdir", "rename", "replace", "fsync"):
        setattr(os, name, failing(getattr(os, name)))
