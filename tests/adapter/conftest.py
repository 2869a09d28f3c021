"""The `run` fixture: start the adapter with a fake agent. `everywhere` tests do so on several interpreters and as PID 1."""

import functools
import os

import pytest

import harness

PYTHONS = harness.newest_and_oldest()
PLACES = [(name, path, False) for name, path in PYTHONS.items()] + [("pid1", PYTHONS["current"], True)]


def pytest_generate_tests(metafunc):
    if "place" in metafunc.fixturenames:
        everywhere = metafunc.definition.get_closest_marker("everywhere") is not None
        places = PLACES if everywhere else PLACES[:1]
        metafunc.parametrize("place", places, ids=[name for name, _, _ in places], indirect=True)


@functools.lru_cache(maxsize=None)
def sandbox_works():
    path = harness.bubblewrap()
    return (
        path is not None
        and os.system("'{}' --unshare-all --dev-bind / / --proc /proc --dev /dev true 2>/dev/null".format(path)) == 0
    )


@pytest.fixture
def place(request):
    name, python, as_pid_1 = request.param
    if as_pid_1 and not sandbox_works():
        pytest.skip("no working bwrap here")
    return name, python, as_pid_1


@pytest.fixture
def run(tmp_path, place):
    """A function: run(PROGRAM, **options of harness.Session) -> Session, not yet entered."""
    _, python, as_pid_1 = place

    def start(program, **options):
        if isinstance(program, str):
            program = harness.python_program(program)
        options.setdefault("python", python)
        options.setdefault("as_pid_1", as_pid_1)
        return harness.Session(tmp_path, program, **options)

    start.tmp_path = tmp_path
    return start
