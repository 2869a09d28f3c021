"""Shut abstract unix sockets off from a process and its children (landlock(7), scopes, ABI 6).

With the host's network a sandbox shares the host's abstract sockets; this is what takes them away where the kernel can.
"""

import ctypes
import os

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same numbers on every architecture
_VERSION = 1
_SCOPE_ABSTRACT_UNIX_SOCKET = 1
_PR_SET_NO_NEW_PRIVS = 38
_ABI_WITH_SCOPES = 6


def can_scope() -> bool:
    """Say whether this kernel can shut off abstract sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))) >= _ABI_WITH_SCOPES


def scope_abstract_sockets() -> None:
    """Shut them off for this process from now on; OSError where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    # struct landlock_ruleset_attr: handled_access_fs, handled_access_net, scoped
    attributes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_UNIX_SOCKET)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(24), ctypes.c_uint(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)) < 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)
