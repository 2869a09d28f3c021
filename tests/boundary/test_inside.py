"""What a hostile process inside a sandbox gets from each way out that we know: nothing."""

import os

import boundary_probe
import pytest

import inside as inside_

# Folders above the install prefix exist inside, some of them in the sandbox's own /tmp: what counts is the host's home.
ALWAYS_REFUSED = [name for name in boundary_probe.TRIES if name not in (*inside_.NETWORK, *inside_.ABSTRACT, "write-home")]


def check_refused(results, name):
    outcome, detail = results[name]
    if outcome == "skipped":
        pytest.skip(detail)
    assert outcome == "refused", detail
    kind, _, what = name.partition("-")
    if kind in ("read", "write") and what in boundary_probe.READ:
        # Not only guarded by its mode: it is not there, or an empty folder that cannot be written stands in its place.
        assert detail in ("ENOENT", "EROFS", "nothing in it"), detail


@pytest.mark.parametrize("name", ALWAYS_REFUSED)
def test_an_attack_from_inside_is_refused(inside, name):
    check_refused(inside.host, name)


@pytest.mark.parametrize("name", [name for name in ALWAYS_REFUSED if name not in inside_.BY_FILTER])
def test_an_attack_is_refused_also_without_the_system_call_filter(inside, name):
    check_refused(inside.none, name)


@pytest.mark.parametrize("name", inside_.NETWORK + inside_.ABSTRACT)
def test_without_network_no_socket_of_the_host_is_reached(inside, name):
    check_refused(inside.none, name)


@pytest.mark.parametrize("name", inside_.NETWORK)
def test_the_network_of_the_host_can_be_used_where_it_was_given(inside, name):
    assert inside.host[name][0] == "succeeded", inside.host[name]


@pytest.mark.parametrize("name", inside_.ABSTRACT)
def test_abstract_sockets_are_shut_on_the_network_of_the_host_where_the_kernel_can(inside, name):
    from workcell.runtimes import _landlock

    if not _landlock.can_scope():
        pytest.skip("this kernel's landlock has no scopes")
    assert inside.host[name] == ("refused", "EPERM")


@pytest.mark.parametrize("name", boundary_probe.WORKS)
def test_what_an_agent_needs_works_inside(inside, name):
    for results in (inside.host, inside.none):
        assert results[name][0] == "succeeded", results[name]


@pytest.mark.parametrize("name", [name for name, control in boundary_probe.CONTROLS.items() if control])
def test_the_same_attack_succeeds_outside(inside, name):
    if name not in inside.outside:
        pytest.skip("only root can do this anywhere")
    outcome, detail = inside.outside[name]
    if outcome == "skipped":
        pytest.skip(detail)
    assert outcome == "succeeded", detail


def test_every_try_was_made(inside):
    assert set(inside.host) == {*boundary_probe.TRIES, *boundary_probe.WORKS}
    assert set(inside.none) == set(inside.host) - inside_.BY_FILTER


def test_nothing_that_was_tried_left_a_trace_on_the_host(inside):
    places = [place for place in boundary_probe.PLACES if place != "/workspace/.."]
    places += [inside.world.home, inside.world.state, os.path.dirname(inside.world.show(inside.host_session)["worktree_path"])]
    assert [place for place in places if os.path.lexists(os.path.join(place, inside.canary))] == []


def test_the_kernel_sees_no_root_and_no_capability_in_the_sandbox(inside):
    """Seen from outside: what a user namespace shows inside proves nothing."""
    processes = inside.processes()
    assert len(processes) >= 2
    for pid in processes:
        uids = boundary_probe.status_field("Uid", pid).split()
        assert len(uids) == 4 and "0" not in uids
        assert "0" not in boundary_probe.status_field("Gid", pid).split()
        assert boundary_probe.status_field("NoNewPrivs", pid) == "1"
        assert boundary_probe.status_field("Seccomp", pid) == "2"
        for which in ("CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb"):
            assert int(boundary_probe.status_field(which, pid), 16) == 0, which


def test_root_runs_the_agent_as_the_owner_of_the_workspace_or_as_nobody_else(inside):
    uids = {int(boundary_probe.status_field("Uid", pid).split()[0]) for pid in inside.processes()}
    assert len(uids) == 1
    (uid,) = uids
    if inside.world.owner:
        assert uid == inside.world.owner[0]
    else:
        assert uid == os.geteuid() if os.geteuid() else 61184 <= uid <= 65519


def test_k03_the_value_of_a_variable_stands_in_no_argument_and_in_no_file(inside):
    arguments = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    arguments.append(stream.read())
            except OSError:
                continue
    assert any(b"boundary-probe" in words for words in arguments)
    assert not [words for words in arguments if inside.secret.encode() in words]
    searched = 0
    for folder, _, names in os.walk(inside.world.state):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as stream:
                    content = stream.read()
                searched += 1
                assert not any(spelling in content for spelling in inside.spellings_of_the_secret()), path
    assert searched > 10
    with open(inside.world.show(inside.host_session)["audit_log_path"]) as stream:
        assert "injection_credential_keys=BOUNDARY_SECRET" in stream.read()
