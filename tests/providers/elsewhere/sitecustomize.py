"""Take from every Python that is started what only Linux has, so that it finds itself on something like macOS."""

import builtins
import ctypes
import os
import signal

for name in ("memfd_create", "pidfd_open", "pipe2", "sched_getaffinity", "O_PATH", "posix_fallocate", "fdatasync", "eventfd"):
    if hasattr(os, name):
        delattr(os, name)
del signal.pidfd_send_signal


def without_proc(function):
    """Return a function that finds nothing below /proc."""

    def found(path=".", *more, **named):
        if isinstance(path, (str, bytes)) and os.fsdecode(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *more, **named)

    return found


for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access"):
    setattr(os, name, without_proc(getattr(os, name)))
builtins.open = without_proc(open)


class Library(ctypes.CDLL):
    """A C library without Linux's own functions."""

    def __getattr__(self, name):
        if name == "prctl" or name.startswith("inotify_"):
            raise AttributeError(name)
        return super().__getattr__(name)


ctypes.CDLL = Library
