"""The system call filter, run here as the kernel would run it, for each architecture that it is known for."""

import errno
import os
import struct
from types import SimpleNamespace

import pytest

from workcell.runtimes import _seccomp

ALLOWED, REFUSED, ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# read, write, openat, execve, fork or vfork where there are any, futex, getrandom, memfd_create, statx, pidfd_open
ORDINARY = {"x86_64": (0, 1, 257, 59, 57, 58, 202, 318, 319, 332, 434), "aarch64": (63, 64, 56, 221, 98, 278, 279, 291, 434)}
CLONE_NEWUSER, CLONE_VM, CLONE_THREAD, SIGCHLD = 0x10000000, 0x100, 0x10000, 17


@pytest.fixture(params=ARCHITECTURES)
def machine(request, monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=request.param))
    return request.param


def verdict(program, arch, number, *arguments):
    """Run a classic BPF program on one system call (seccomp(2)) and return what it answers."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        op, yes, no, value = code[at]
        at += 1
        if op == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif op == 0x06:
            return value
        else:
            true = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[op]
            at += yes if true else no


def test_the_filter_answers_each_call_as_it_is_meant(machine):
    program, arch = _seccomp.program(), ARCHITECTURES[machine]
    _, calls = _seccomp._ARCHITECTURES[machine]
    ask = lambda number, *arguments: verdict(program, arch, number, *arguments)  # noqa: E731
    assert {ask(number) for number in ORDINARY[machine]} == {ALLOWED}
    refused = [number for name, number in {**calls, **_seccomp._COMMON}.items() if name not in _seccomp._INSPECTED]
    assert len(refused) > 30
    assert {ask(number) for number in refused} == {REFUSED}
    assert {ask(number) for number in _seccomp._ABSENT.values()} == {ABSENT}

    # A thread and a child, but no namespace; the upper half of the flags is not looked at by the kernel either.
    assert ask(calls["clone"], SIGCHLD) == ask(calls["clone"], CLONE_VM | CLONE_THREAD) == ALLOWED
    assert ask(calls["clone"], CLONE_NEWUSER | SIGCHLD) == ask(calls["clone"], 1 << 40 | CLONE_NEWUSER) == REFUSED

    # unix, internet, netlink, packet sockets; not those of the hypervisor and of the kernel's ciphers.
    assert [ask(calls["socket"], family) for family in (1, 2, 10, 16, 17)] == [ALLOWED] * 5
    assert [ask(calls["socket"], family) for family in (38, 40, 1 << 32 | 40)] == [REFUSED] * 3

    # TCGETS, TIOCGWINSZ; not TIOCSTI and TIOCLINUX, however the number is spelt.
    assert [ask(calls["ioctl"], 0, request) for request in (0x5401, 0x5413)] == [ALLOWED] * 2
    assert [ask(calls["ioctl"], 0, request) for request in (0x5412, 0x541C, 1 << 32 | 0x5412)] == [REFUSED] * 3


def test_calls_of_another_architecture_are_not_there_at_all(machine):
    program = _seccomp.program()
    for arch in (*(arch for name, arch in ARCHITECTURES.items() if name != machine), 0x40000003, 0x40000028, 0):
        assert {verdict(program, arch, number) for number in range(500)} == {ABSENT}
    for number in (0, 1, 59, 165):
        assert verdict(program, ARCHITECTURES[machine], 0x40000000 | number) == ABSENT
    assert verdict(program, ARCHITECTURES[machine], -1) == ABSENT


def test_a_machine_that_the_filter_does_not_know_gets_none(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="s390x"))
    assert not _seccomp.known()
    assert _seccomp.number("keyctl") is None
