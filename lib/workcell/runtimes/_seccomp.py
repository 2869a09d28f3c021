"""A system call filter for the sandbox, assembled here as classic BPF (seccomp(2)).

It refuses what an agent has no use for and the kernel has had holes in: namespaces, mounts, tracing, keys, modules, and the
ioctls that type into a terminal. It is a second wall: nothing else relies on it. Known for x86-64 and arm64.
"""

import errno
import os
import struct

from workcell import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_X86_64 = {
    "ptrace": 101, "syslog": 103, "pivot_root": 155, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "init_module": 175, "delete_module": 176, "quotactl": 179,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
    "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "iopl": 172, "ioperm": 173,
    "clone": 56, "ioctl": 16, "socket": 41,
}  # fmt: skip
_ARM64 = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104,
    "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142,
    "settimeofday": 170, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225,
    "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    "clone": 220, "ioctl": 29, "socket": 198,
}  # fmt: skip
# The same numbers on every architecture.
_COMMON = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "quotactl_fd": 443,
}  # fmt: skip
# Answered as if the kernel had no such call: what uses them then goes the ordinary way. The flags of clone3 lie in memory, out
# of the filter's sight, and io_uring makes calls that no filter sees.
_ABSENT = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
_INSPECTED = ("clone", "ioctl", "socket")  # refused for some arguments only
_ARCHITECTURES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _ARM64)}

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_TERMINAL_IOCTLS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
# AF_VSOCK reaches the hypervisor past every network namespace; AF_ALG is a part of the kernel that has had holes.
_SOCKET_FAMILIES = (40, 38)
_X32_BIT = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24  # offsets in struct seccomp_data; the low half comes first on both


def known() -> bool:
    """Say whether a filter can be assembled for this machine."""
    return os.uname().machine in _ARCHITECTURES


def number(name: str) -> int | None:
    """Return the number of a refused system call here, None where it is not known."""
    return _ARCHITECTURES[os.uname().machine][1].get(name) if known() else None


def program() -> bytes:
    """Return the filter as an array of struct sock_filter, as bwrap's --seccomp takes it."""
    audit_arch, calls = _ARCHITECTURES[os.uname().machine]
    refused = [number for name, number in {**calls, **_COMMON}.items() if name not in _INSPECTED]
    # (code, value, label if true, label if false); None falls through.
    code: list[tuple[int, int, str | None, str | None]] = [
        (_LOAD, _ARCH, None, None),
        (_EQUAL, audit_arch, None, "absent"),
        (_LOAD, _NUMBER, None, None),
        (_AT_LEAST, _X32_BIT, "absent", None),
        *((_EQUAL, number, "refuse", None) for number in refused),
        *((_EQUAL, number, "absent", None) for number in _ABSENT.values()),
        (_EQUAL, calls["clone"], "clone", None),
        (_EQUAL, calls["socket"], "socket", None),
        (_EQUAL, calls["ioctl"], "ioctl", "allow"),
    ]
    labels = {"clone": len(code)}
    code += [(_LOAD, _ARGUMENT_0, None, None), (_ANY_BIT, _NEW_NAMESPACES, "refuse", "allow")]
    labels["socket"] = len(code)
    code += [(_LOAD, _ARGUMENT_0, None, None)]
    code += [(_EQUAL, family, "refuse", None) for family in _SOCKET_FAMILIES[:-1]]
    code += [(_EQUAL, _SOCKET_FAMILIES[-1], "refuse", "allow")]
    labels["ioctl"] = len(code)
    code += [(_LOAD, _ARGUMENT_1, None, None)]
    code += [(_EQUAL, request, "refuse", None) for request in _TERMINAL_IOCTLS]
    for label, answer in (("allow", _ALLOW), ("refuse", _ERRNO | errno.EPERM), ("absent", _ERRNO | errno.ENOSYS)):
        labels[label] = len(code)
        code.append((_RETURN, answer, None, None))

    def offset(label: str | None, at: int) -> int:
        return 0 if label is None else labels[label] - at - 1

    return b"".join(
        struct.pack("=HBBI", op, offset(yes, at), offset(no, at), value) for at, (op, value, yes, no) in enumerate(code)
    )


_PROFILE_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_LOW_HALF = 0xFFFFFFFF  # all that the kernel looks at of these arguments


def profile() -> bytes:
    """Return the same filter as an engine takes it: a seccomp profile in JSON (the linux section of the OCI runtime spec)."""
    calls = _ARCHITECTURES[os.uname().machine][1]

    def rule(names: "Iterable[str]", number: int, *compared: int) -> "dict[str, Any]":
        found: dict[str, Any] = {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number}
        if compared:
            index, mask, value = compared
            found["args"] = [{"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}]
        return found

    rules = [rule([name for name in {**calls, **_COMMON} if name not in _INSPECTED], errno.EPERM), rule(_ABSENT, errno.ENOSYS)]
    for bit in (1 << at for at in range(32) if _NEW_NAMESPACES >> at & 1):
        rules.append(rule(["clone"], errno.EPERM, 0, bit, bit))
    rules += [rule(["socket"], errno.EPERM, 0, _LOW_HALF, family) for family in _SOCKET_FAMILIES]
    rules += [rule(["ioctl"], errno.EPERM, 1, _LOW_HALF, request) for request in _TERMINAL_IOCTLS]
    value = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [_PROFILE_ARCHITECTURES[os.uname().machine]],
        "syscalls": rules,
    }
    return fastjson.dumps(value).encode()
