#!/usr/bin/python3
"""boundary_probe - try to get out of a sandbox in every way that is known to us, and say what came of each

Usage: boundary_probe.py FOLDER

Waits for FOLDER/plan.json: a JSON object of what was planted on the host, and of the tries to make (tests/boundary/inside.py).
Each try runs in a process of its own, and leaves one JSON line in FOLDER/results.jsonl:
{"try": NAME, "outcome": "succeeded" | "refused" | "skipped" | "broken", "detail": TEXT}.
The same file is run outside of any sandbox as the control: there the tries marked so have to succeed.
Standard library only: it runs under whatever python3 the sandbox shows.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import pty
import select
import signal
import socket
import stat
import struct
import sys
import termios
import time

TRIES = {}
# For whom the same try has to succeed outside of the sandbox, so that it is known to be a real attack: "" nobody (it would do
# harm, or needs the sandbox), "root", "any" for everybody.
CONTROLS = {}
LIBC = ctypes.CDLL(None, use_errno=True)
PLAN = {}

X86 = platform.machine() == "x86_64"
# x86-64 and arm64 (unistd.h); the rest is the same on both.
NUMBERS = {
    name: (x86 if X86 else arm)
    for name, x86, arm in (
        ("ptrace", 101, 117), ("syslog", 103, 116), ("pivot_root", 155, 41), ("keyctl", 250, 219), ("add_key", 248, 217),
        ("bpf", 321, 280), ("perf_event_open", 298, 241), ("userfaultfd", 323, 282), ("process_vm_readv", 310, 270),
        ("clone", 56, 220), ("ioctl", 16, 29), ("open_by_handle_at", 304, 265), ("name_to_handle_at", 303, 264),
        ("mount", 165, 40), ("init_module", 175, 105),
    )
}  # fmt: skip
NUMBERS.update(clone3=435, fsopen=430, open_tree=428, mount_setattr=442, io_uring_setup=425)

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
CLONE_NEWCGROUP, CLONE_NEWTIME = 0x2000000, 0x80
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2


class Refused(Exception):
    """The attack did not get what it wanted, though no call failed."""


class Skipped(Exception):
    """The attack cannot be made here at all."""


def attempt(control=""):
    """Register a try. It returns what it got, or raises OSError or Refused."""

    def register(function):
        name = function.__name__.replace("_", "-")
        TRIES[name] = function
        CONTROLS[name] = control
        return function

    return register


def named(name, control, function):
    TRIES[name] = function
    CONTROLS[name] = control


def call(function, *arguments):
    """Call a function of the C library; OSError where it answers -1."""
    ctypes.set_errno(0)
    result = function(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(name, *arguments):
    """Make a system call by its number, as a program without the C library would."""
    return call(LIBC.syscall, ctypes.c_long(NUMBERS[name]), *arguments)


def long(value):
    return ctypes.c_ulong(value)


def status_field(name, pid="self"):
    with open(f"/proc/{pid}/status") as stream:
        for line in stream:
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
    raise Skipped(f"no {name} in /proc/PID/status")


# --- who we are


@attempt("root")
def a_user_id_is_0():
    ids = [*os.getresuid(), *os.getresgid(), *os.getgroups()]
    if 0 not in ids:
        raise Refused(str(ids))
    return str(ids)


@attempt()
def become_user_0():
    os.setresuid(0, 0, 0)


@attempt()
def become_group_0():
    os.setresgid(0, 0, 0)


@attempt("root")
def join_other_groups():
    os.setgroups([0, 5, 6])


def capability(which):
    def read():
        value = status_field(which)
        if int(value, 16) == 0:
            raise Refused(value)
        return value

    return read


for _set in ("CapPrm", "CapEff", "CapBnd"):
    named(f"have-a-capability-in-{_set}", "root", capability(_set))
for _set in ("CapInh", "CapAmb"):
    named(f"have-a-capability-in-{_set}", "", capability(_set))


@attempt()
def raise_an_ambient_capability():
    call(LIBC.prctl, 47, long(2), long(21), long(0), long(0))


@attempt("any")
def new_privileges_are_possible():
    if status_field("NoNewPrivs") == "1":
        raise Refused("NoNewPrivs 1")


@attempt("any")
def no_system_call_filter():
    if status_field("Seccomp") == "2":
        raise Refused("Seccomp 2")


# --- the kernel's switches


def open_for_writing(path):
    def write():
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return path

    return write


for _path, _control in (
    ("/proc/sys/kernel/core_pattern", "root"),
    ("/proc/sys/kernel/modprobe", ""),
    ("/proc/sys/vm/drop_caches", ""),
    ("/proc/sys/net/ipv4/ip_forward", ""),
    ("/proc/sysrq-trigger", ""),
    ("/proc/sys/kernel/ns_last_pid", ""),
):
    named(f"write{_path.replace('/', '-')}", _control, open_for_writing(_path))


@attempt("root")
def write_any_file_of_proc_sys():
    found = []
    for folder, _, names in os.walk("/proc/sys"):
        for name in names:
            try:
                os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
                found.append(os.path.join(folder, name))
            except OSError:
                continue
    if not found:
        raise Refused("none can be opened")
    return str(found[:5])


@attempt("root")
def read_the_memory_of_the_kernel():
    if PLAN.get("outside") and not os.path.exists("/proc/kcore"):
        raise Skipped("this kernel has none")
    fd = os.open("/proc/kcore", os.O_RDONLY)
    return str(len(os.read(fd, 64)))


@attempt("root")
def read_the_log_of_the_kernel():
    buffer = ctypes.create_string_buffer(64)
    return str(syscall("syslog", 3, buffer, 64))


@attempt("root")
def make_a_character_device():
    _node(stat.S_IFCHR | 0o666, os.makedev(1, 1))


@attempt("root")
def make_a_block_device():
    _node(stat.S_IFBLK | 0o666, os.makedev(254, 0))


def _node(mode, device):
    path = os.path.join(PLAN["own_folder"], f"device-{os.getpid()}")
    os.mknod(path, mode, device)
    os.unlink(path)


# --- mounts and namespaces


def mount(source, target, kind, flags, data=None):
    encode = lambda text: None if text is None else os.fsencode(text)  # noqa: E731
    return call(LIBC.mount, encode(source), encode(target), encode(kind), long(flags), encode(data))


def remounting(path):
    def remount():
        mount(None, path, None, MS_REMOUNT | MS_BIND)
        return path

    return remount


# The control runs in a mount namespace of its own.
for _path in ("/", "/usr", "/etc/hosts", "/proc/sys", "/workspace"):
    named(
        f"remount{_path.replace('/', '-').rstrip('-') or '-root'}-writable", "root" if _path == "/" else "", remounting(_path)
    )


# What an agent writes to: its workspace, its own memory file systems, devices that every program has, and its input.
OWN_MOUNTS = (
    "/workspace", "/tmp", "/var/tmp", "/state", "/state/tmp/workcell/session-stdin", "/dev/shm", "/dev/pts", "/dev/console",
    "/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
)  # fmt: skip


def mounts():
    """Yield (place, set of options) of each mount that we see (proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo") as stream:
        for line in stream:
            words = line.split(" ")
            yield words[4], set(words[5].split(","))


@attempt("any")
def find_a_mount_that_can_be_written():
    """Whoever the owner of a file is: what is shown of the host is shown read-only."""
    found = [place for place, options in mounts() if "rw" in options and place not in OWN_MOUNTS]
    if not found:
        raise Refused("none")
    return str(found)


@attempt("any")
def find_a_mount_where_setuid_programs_work():
    found = [place for place, options in mounts() if "nosuid" not in options]
    if not found:
        raise Refused("none")
    return str(found)


@attempt("root")
def mount_a_file_system():
    mount("none", PLAN["own_folder"], "tmpfs", 0)
    call(LIBC.umount2, os.fsencode(PLAN["own_folder"]), MNT_DETACH)


@attempt("root")
def mount_with_the_new_calls():
    return str(syscall("fsopen", b"tmpfs", 0))


@attempt("root")
def clone_a_mount():
    return str(syscall("open_tree", -100, b"/", 1))


@attempt()
def change_the_flags_of_a_mount():
    attributes = struct.pack("QQQQ", 0, MS_RDONLY, 0, 0)
    syscall("mount_setattr", -100, b"/usr", 0, attributes, long(len(attributes)))


@attempt("root")
def bind_over_a_file_of_the_system():
    mount("/dev/null", "/etc/hosts", None, MS_BIND)
    call(LIBC.umount2, b"/etc/hosts", MNT_DETACH)


@attempt()
def unmount_what_hides_the_host():
    for path in ("/run", "/state", "/proc/sys", "/workspace", "/tmp"):
        try:
            call(LIBC.umount2, os.fsencode(path), MNT_DETACH)
            return path
        except OSError as error:
            last = error
    raise last


@attempt()
def pivot_the_root():
    syscall("pivot_root", os.fsencode(PLAN["own_folder"]), os.fsencode(PLAN["own_folder"]))


@attempt("root")
def change_the_root():
    os.chroot(PLAN["own_folder"])


def unsharing(flag):
    def unshare():
        call(LIBC.unshare, flag)

    return unshare


named("unshare-user-namespace", "any", unsharing(CLONE_NEWUSER))
named("unshare-mount-namespace", "root", unsharing(CLONE_NEWNS))
named("unshare-user-and-mount-namespace", "any", unsharing(CLONE_NEWUSER | CLONE_NEWNS))
named("unshare-pid-namespace", "root", unsharing(CLONE_NEWPID))
named("unshare-network-namespace", "root", unsharing(CLONE_NEWNET))
named("unshare-cgroup-namespace", "root", unsharing(CLONE_NEWCGROUP))
named("unshare-time-namespace", "", unsharing(CLONE_NEWTIME))


@attempt("any")
def clone_into_a_user_namespace():
    zero = ctypes.c_void_p(0)
    pid = syscall("clone", long(CLONE_NEWUSER | signal.SIGCHLD), zero, zero, zero, zero)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attempt("any")
def clone3_into_a_user_namespace():
    arguments = struct.pack("8Q", CLONE_NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = syscall("clone3", arguments, long(len(arguments)))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def first_process():
    """Return the first process of the namespace; outside one that is known to be within reach."""
    return PLAN["victim"] if PLAN.get("outside") else 1


def entering(kind):
    def enter():
        fd = os.open(f"/proc/{first_process()}/ns/{kind}", os.O_RDONLY)
        call(LIBC.setns, fd, 0)

    return enter


for _kind in ("mnt", "net", "user", "pid"):
    named(f"enter-the-{_kind}-namespace-of-process-1", "root" if _kind in ("mnt", "net") else "", entering(_kind))


def _in_user_namespace(flags):
    """Become root of a user namespace of our own, where the kernel lets us (user_namespaces(7))."""
    uid, gid = os.geteuid(), os.getegid()
    call(LIBC.unshare, CLONE_NEWUSER | flags)
    with open("/proc/self/setgroups", "w") as stream:
        stream.write("deny")
    with open("/proc/self/uid_map", "w") as stream:
        stream.write(f"0 {uid} 1")
    with open("/proc/self/gid_map", "w") as stream:
        stream.write(f"0 {gid} 1")


@attempt()
def remount_the_system_from_a_user_namespace():
    _in_user_namespace(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    for path in ("/usr", "/", "/proc/sys", "/etc/hosts"):
        try:
            mount(None, path, None, MS_REMOUNT | MS_BIND)
            return path
        except OSError as error:
            last = error
    raise last


@attempt()
def lift_a_mask_from_a_user_namespace():
    _in_user_namespace(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    for path in (*PLAN["masks"], "/run", "/proc/sys", "/state"):
        try:
            call(LIBC.umount2, os.fsencode(path), MNT_DETACH)
            return path
        except OSError as error:
            last = error
    raise last


@attempt()
def look_below_a_mask_by_a_bind_that_takes_no_mounts_along():
    _in_user_namespace(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    # Without MS_REC the mounts below the source stay behind, and what they hide would come to light.
    mount(PLAN["masked_prefix"], PLAN["own_folder"], None, MS_BIND)
    found = os.listdir(os.path.join(PLAN["own_folder"], "hidden-state"))
    if not found:
        raise Refused("still empty")
    return str(found)


# --- other processes


@attempt("any")
def trace_another_process():
    target = 1
    if PLAN.get("outside"):
        target = os.fork()
        if target == 0:
            signal.pause()
    try:
        syscall("ptrace", long(16), long(target), long(0), long(0))  # PTRACE_ATTACH
    finally:
        if target != 1:
            os.kill(target, signal.SIGKILL)


@attempt("any")
def be_traced():
    syscall("ptrace", long(0), long(0), long(0), long(0))  # PTRACE_TRACEME


@attempt("any")
def read_the_memory_of_another_process():
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        target = ctypes.create_string_buffer(8)
        buffer = ctypes.create_string_buffer(8)
        local = struct.pack("PL", ctypes.addressof(buffer), 8)
        remote = struct.pack("PL", ctypes.addressof(target), 8)
        return str(syscall("process_vm_readv", long(child), local, long(1), remote, long(1), long(0)))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _is_inside(pid):
    """Say whether a number names a process of our own namespace, which is not the one that was meant."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return os.fsencode(PLAN["victim_mark"]) not in stream.read()
    except OSError:
        return False


@attempt("any")
def signal_a_process_of_the_host():
    os.kill(PLAN["victim"], 0)
    if _is_inside(PLAN["victim"]):
        raise Refused("that number is one of ours")


@attempt("any")
def pin_a_process_of_the_host():
    fd = call(LIBC.syscall, 434, PLAN["victim"], 0)
    if _is_inside(PLAN["victim"]):
        raise Refused("that number is one of ours")
    os.close(fd)


@attempt("any")
def see_a_process_of_the_host():
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    if os.fsencode(PLAN["victim_mark"]) in stream.read():
                        return name
            except OSError:
                continue
    raise Refused("not in /proc")


@attempt()
def see_more_processes_than_our_own():
    count = sum(name.isdigit() for name in os.listdir("/proc"))
    if count < 12:
        raise Refused(f"{count} processes")
    return str(count)


# --- doors that an ordinary program has no use for


@attempt("root")
def load_a_program_into_the_kernel():
    attributes = struct.pack("IIIII", 2, 4, 4, 1, 0) + b"\0" * 100  # BPF_MAP_CREATE of an array
    os.close(syscall("bpf", 0, attributes, long(72)))


@attempt("root")
def watch_the_kernel_with_perf():
    attributes = struct.pack("IIQ", 1, 120, 0) + b"\0" * 104  # PERF_TYPE_SOFTWARE, CPU clock
    os.close(syscall("perf_event_open", attributes, 0, -1, -1, long(0)))


@attempt("any")
def read_a_key_of_the_caller():
    key = syscall("keyctl", 10, -3, b"user", os.fsencode(PLAN["canary_key"]), 0)  # KEYCTL_SEARCH in the session keyring
    buffer = ctypes.create_string_buffer(64)
    return repr(buffer.raw[: syscall("keyctl", 11, key, buffer, long(64))])  # KEYCTL_READ


@attempt("root")
def stop_the_kernel_in_page_faults():
    os.close(syscall("userfaultfd", 0))


@attempt("any")
def make_system_calls_past_the_filter_with_io_uring():
    parameters = ctypes.create_string_buffer(120)
    os.close(syscall("io_uring_setup", 1, parameters))


@attempt("root")
def open_a_file_by_its_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    mount_id = ctypes.c_int()
    call(LIBC.syscall, NUMBERS["name_to_handle_at"], -100, b"/usr/bin", handle, ctypes.byref(mount_id), 0)
    fd = os.open("/usr", os.O_RDONLY)
    os.close(syscall("open_by_handle_at", fd, handle, os.O_RDONLY))


@attempt()
def load_a_kernel_module():
    try:
        syscall("init_module", b"no module", long(9), b"")
    except OSError as error:
        if error.errno in (errno.ENOEXEC, errno.EINVAL):
            return "got as far as its content"
        raise


@attempt("any")
def make_a_32_bit_system_call():
    """The filter reads numbers of one architecture; int 0x80 has others."""
    if not X86:
        raise Skipped("x86 only")
    import mmap

    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")  # push rbx; mov eax, getpid; int 0x80; pop rbx; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result != os.getpid():
        raise OSError(-result if -200 < result < 0 else errno.ENOSYS, "int 0x80")


@attempt()
def make_a_system_call_of_the_x32_kind():
    if not X86:
        raise Skipped("x86 only")
    call(LIBC.syscall, long(0x40000000 | NUMBERS["mount"]), b"none", os.fsencode(PLAN["own_folder"]), b"tmpfs", long(0), None)


def _on_new_terminal(act):
    """Run act(fd) in a session of its own on a terminal of its own."""
    master, slave = pty.openpty()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            act(slave)
            number = 0
        except OSError as error:
            number = error.errno
        os.write(writing, struct.pack("i", number))
        os._exit(0)
    os.waitpid(child, 0)
    number = struct.unpack("i", os.read(reading, 4))[0]
    if number:
        raise OSError(number, os.strerror(number))


def _typing_allowed():
    if PLAN.get("outside"):
        try:
            with open("/proc/sys/dev/tty/legacy_tiocsti") as stream:
                if stream.read().strip() == "0":
                    raise Skipped("this kernel refuses TIOCSTI to everybody")
        except FileNotFoundError:
            pass


@attempt("any")
def type_into_a_terminal():
    _typing_allowed()
    _on_new_terminal(lambda fd: fcntl.ioctl(fd, termios.TIOCSTI, b"x"))


@attempt("any")
def type_into_a_terminal_with_a_number_that_is_cut_by_the_kernel():
    """The kernel looks at 32 bits of an ioctl's number; a filter that looks at 64 lets this pass."""
    _typing_allowed()
    number, high = NUMBERS["ioctl"], 1 << 32
    _on_new_terminal(lambda fd: call(LIBC.syscall, long(number), long(fd), long(high | termios.TIOCSTI), b"x"))


@attempt()
def type_into_the_terminal_of_the_session():
    fcntl.ioctl(0, termios.TIOCSTI, b"x")


# --- files


def reading(name):
    def read():
        path = PLAN["read"].get(name)
        if path is None:
            raise Skipped("not planted")
        if os.path.isdir(path):
            found = [entry for entry in os.listdir(path) if os.path.join(path, entry) != PLAN.get("shown")]
            if not found:
                raise Refused("nothing in it")
            return str(found[:3])
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return repr(os.read(fd, 20))

    return read


def overwriting(name):
    def write():
        path = PLAN["read"].get(name)
        if path is None:
            raise Skipped("not planted")
        if os.path.isdir(path):
            creating(path)()
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))

    return write


READ = {
    "shadow": "root", "state-root": "any", "signing-key": "any", "audit-log": "any", "record": "any", "seal": "any",
    "transcript": "any", "own-scratch-folder": "any", "own-launch-spec": "any", "configuration": "any", "home": "any",
    "ssh-key": "any", "shell-start-file": "any", "source-repository": "any", "clone-of-another-session": "any",
    "scratch-folder-of-another-session": "any", "tests-folder": "any", "temporary-file": "any",
}  # fmt: skip
for _name, _control in READ.items():
    named(f"read-{_name}", _control, reading(_name))
    named(f"write-{_name}", "root" if _name == "tests-folder" else _control, overwriting(_name))


def through(prefix):
    def read():
        path = prefix.replace("/1/", f"/{first_process()}/") + PLAN["read"]["ssh-key"]
        return repr(os.read(os.open(path, os.O_RDONLY), 20))

    return read


for _number, _prefix in enumerate(
    (
        "/proc/1/root",
        "/proc/self/root/..",
        "/workspace/../../..",
        "/proc/1/cwd/../..",
        "/oldroot",
        "/newroot",
        "/proc/self/cwd/../../..",
    )
):
    named(f"read-the-ssh-key-through{_prefix.replace('/', '-')}", "root" if _number == 0 else "", through(_prefix))


@attempt()
def read_the_ssh_key_through_a_link_in_the_workspace():
    link = os.path.join(PLAN["own_folder"], "link")
    os.symlink(PLAN["read"]["ssh-key"], link)
    try:
        return repr(os.read(os.open(link, os.O_RDONLY), 20))
    finally:
        os.unlink(link)


def creating(folder):
    def create():
        path = os.path.join(folder, PLAN["canary"])
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if PLAN.get("outside"):
            os.unlink(path)
        return path

    return create


PLACES = (
    "/", "/usr", "/usr/bin", "/usr/local/bin", "/usr/lib", "/etc", "/etc/profile.d", "/etc/ssl", "/bin", "/lib", "/sbin",
    "/var", "/home", "/root", "/opt", "/srv", "/mnt", "/boot", "/sys", "/proc", "/run", "/run/workcell", "/workspace/..",
    "/dev", "/dev/pts",
)  # fmt: skip
for _place in PLACES:
    named(f"make-a-file-in{_place.replace('/', '-')}", "root" if _place in ("/", "/usr/bin", "/etc") else "", creating(_place))


@attempt()
def make_a_file_in_the_install_prefix():
    return creating(PLAN["masked_prefix"])()


for _path in (
    "/etc/passwd",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/ld.so.cache",
    "/usr/bin/env",
    "/run/workcell/pty_adapter.py",
):
    named(f"overwrite{_path.replace('/', '-')}", "root" if _path == "/etc/hosts" else "", open_for_writing(_path))


@attempt()
def move_the_input_fifo_away():
    os.rename("/state/tmp/workcell/session-stdin", "/state/tmp/workcell/away")


@attempt()
def remove_the_input_fifo():
    os.unlink("/state/tmp/workcell/session-stdin")


@attempt()
def move_the_workspace_away():
    os.rename("/workspace", "/tmp/away")


@attempt()
def link_a_file_of_the_system_into_the_workspace():
    os.link("/usr/bin/env", os.path.join(PLAN["own_folder"], "env"))


# --- sockets


def connecting(name):
    def connect():
        path = PLAN["sockets"].get(name)
        if path is None:
            raise Skipped("not planted")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            client.connect(path)
            return repr(client.recv(20))

    return connect


SOCKETS = ("home", "tmp", "run", "shm", "state")
for _name in SOCKETS:
    named(f"connect-to-a-socket-in-{_name}", "any", connecting(_name))


@attempt("any")
def connect_to_an_abstract_socket():
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        client.connect("\0" + PLAN["abstract"])
        return repr(client.recv(20))


@attempt("any")
def send_to_an_abstract_datagram_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", "\0" + PLAN["abstract_datagram"])


@attempt("any")
def connect_to_loopback():
    with socket.create_connection(("127.0.0.1", PLAN["tcp"]), timeout=2) as client:
        return repr(client.recv(20))


@attempt("any")
def connect_to_loopback_by_ipv6_mapping():
    with socket.create_connection(("::ffff:127.0.0.1", PLAN["tcp"]), timeout=2) as client:
        return repr(client.recv(20))


@attempt("any")
def have_a_network_interface_beside_loopback():
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not names:
        raise Refused("lo only")
    return str(names)


@attempt("any")
def reach_the_hypervisor_by_its_own_sockets():
    """AF_VSOCK knows no network namespace."""
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT and PLAN.get("outside"):
            raise Skipped("no such sockets in this kernel") from None
        raise


# --- what came along from the caller


@attempt()
def have_a_descriptor_beside_the_terminal():
    found = [fd for fd in PLAN["descriptors"] if fd > 2]
    if not found:
        raise Refused("0, 1, 2")
    return str(found)


@attempt()
def find_a_file_of_the_host_among_the_descriptors_of_process_1():
    allowed = ("/dev/pts/", "/dev/console", "pipe:", "anon_inode:", "/state/tmp/workcell/session-stdin", "/dev/ptmx")
    foreign = []
    for name in os.listdir("/proc/1/fd"):
        target = os.readlink(f"/proc/1/fd/{name}")
        if not target.startswith(allowed):
            foreign.append(target)
    if not foreign:
        raise Refused("terminals, pipes and the FIFO")
    return str(foreign)


ENVIRONMENT = {
    "PATH", "HOME", "TMPDIR", "SHELL", "TERM", "AGENT_NAME", "AGENT_UI", "WORKCELL_MODE", "WORKCELL_SESSION_ID",
    "WORKSPACE", "WORKCELL_DETACHED_STDIN_PATH", "WORKCELL_SESSION_ASSURANCE_INITIAL", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "USER", "LOGNAME", "LC_ALL", "LANG", "TZ", "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE",
}  # fmt: skip


@attempt("any")
def find_a_variable_of_the_caller():
    names = set(os.environ) - ENVIRONMENT - set(PLAN["passed"])
    if not PLAN.get("outside"):
        with open("/proc/1/environ", "rb") as stream:
            of_first = {os.fsdecode(entry).partition("=")[0] for entry in stream.read().split(b"\0") if entry}
        names |= of_first - ENVIRONMENT - set(PLAN["passed"])
    if not names:
        raise Refused("none")
    return str(sorted(names))


@attempt()
def find_the_name_of_the_host():
    """Not a secret; but the name of the sandbox is what a program is to see."""
    if os.uname().nodename != PLAN["hostname"]:
        raise Refused(os.uname().nodename)


# --- programs that lend their owner's powers


def _output(*words):
    reading_fd, writing_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writing_fd, 1)
        os.dup2(writing_fd, 2)
        try:
            os.execvp(words[0], words)
        except OSError as error:
            os.write(1, str(error).encode())
        os._exit(127)
    os.close(writing_fd)
    text = b""
    while True:
        data = os.read(reading_fd, 4096)
        if not data:
            break
        text += data
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, text.decode("utf-8", "replace")


@attempt("root")
def run_su():
    status, text = _output("su", "-s", "/bin/sh", "-c", "id -u", "root")
    if status or text.strip() != "0":
        raise Refused(text.strip())


@attempt("root")
def run_mount():
    status, text = _output("mount", "-t", "tmpfs", "none", PLAN["own_folder"])
    if status:
        raise Refused(text.strip())
    _output("umount", PLAN["own_folder"])


@attempt("any")
def run_a_setuid_program_of_root():
    if not PLAN.get("setuid"):
        raise Skipped("only root can plant one")
    status, text = _output(PLAN["setuid"], "-u")
    if status or text.strip() != "0":
        raise Refused(text.strip())


@attempt("any")
def run_a_program_with_file_capabilities():
    if not PLAN.get("capable"):
        raise Skipped("only root can plant one")
    status, text = _output(PLAN["capable"], "/proc/self/status")
    effective = [line.split()[1] for line in text.splitlines() if line.startswith("CapEff")]
    if status or not effective or int(effective[0], 16) == 0:
        raise Refused(text.strip()[-80:])


# --- what has to work, so that a refusal means something


def _make(folder):
    path = os.path.join(folder, PLAN["canary"])
    with open(path, "w") as stream:
        stream.write("x")
    os.unlink(path)


WORKS = {
    "may-write-the-workspace": lambda: _make("/workspace"),
    "may-write-the-home": lambda: _make(os.environ["HOME"]),
    "may-write-the-temporary-folder": lambda: _make(os.environ["TMPDIR"]),
    "may-write-tmp": lambda: _make("/tmp"),
    "may-signal-a-child": lambda: _signal_a_child(),
    "may-see-the-install-prefix": lambda: os.listdir(PLAN["masked_prefix"]),
    "may-read-a-variable-that-was-named": lambda: _variable(),
}


def _signal_a_child():
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _variable():
    for name, value in PLAN["passed"].items():
        if os.environ.get(name) != value:
            raise Refused(f"{name} is {os.environ.get(name)!r}")


def run(name, function):
    """Run one try in a process of its own and return its line."""
    reading_fd, writing_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading_fd)
        signal.alarm(5)
        try:
            outcome, detail = "succeeded", str(function())
        except Skipped as error:
            outcome, detail = "skipped", str(error)
        except Refused as error:
            outcome, detail = "refused", str(error)
        except OSError as error:
            outcome, detail = "refused", errno.errorcode.get(error.errno, str(error))
        except BaseException as error:
            outcome, detail = "broken", f"{type(error).__name__}: {error}"
        os.write(writing_fd, json.dumps([outcome, detail]).encode())
        os._exit(0)
    os.close(writing_fd)
    answer = b""
    while select.select([reading_fd], [], [], 8)[0]:
        data = os.read(reading_fd, 65536)
        if not data:
            break
        answer += data
    os.close(reading_fd)
    try:
        os.kill(child, signal.SIGKILL)
    except OSError:
        pass
    _, status = os.waitpid(child, 0)
    outcome, detail = json.loads(answer) if answer else ("broken", f"ended with {os.waitstatus_to_exitcode(status)}")
    return {"try": name, "outcome": outcome, "detail": detail}


def read_plan(path):
    """Return the plan as soon as it is there: it names what is only known when the session runs."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with open(path) as stream:
                return json.load(stream)
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise
        select.select([], [], [], 0.01)


def main(argv):
    descriptors = sorted(map(int, os.listdir("/proc/self/fd")))
    try:
        os.fstat(descriptors[-1])
    except OSError:
        del descriptors[-1]  # it was the listing's own
    folder = argv[1]
    PLAN.update(read_plan(os.path.join(folder, "plan.json")), descriptors=descriptors)
    os.makedirs(PLAN["own_folder"], exist_ok=True)
    results = os.path.join(folder, "results.jsonl")
    every = {**TRIES, **WORKS}
    with open(results + ".part", "w") as stream:
        for name in PLAN["tries"]:
            stream.write(json.dumps(run(name, every[name])) + "\n")
    os.rename(results + ".part", results)
    if not PLAN.get("outside"):
        sys.stdin.readline()  # the test looks at us from outside meanwhile


if __name__ == "__main__":
    main(sys.argv)
