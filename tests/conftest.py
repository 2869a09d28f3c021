"""Fixtures for all tests: the library on the path, a private world for each test, and no process left behind."""

import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))

import support

# What a script runs in the background ignores these two, and nohup's the third; the operators of the tests do not.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def world(tmp_path):
    """A home, a state root and a git repository of the test's own; at its end no process of a session may be left."""
    made = support.World(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["bubblewrap", "process"])
def target(request):
    """Each target that runs without an engine; the sandbox has to run wherever the suite runs."""
    return request.param


def pytest_terminal_summary(terminalreporter):
    """Show what the contract of the targets came to: a row for each case, a column for each target and its engine."""
    from contract_table import lines_of

    found = {}
    for word, reports in terminalreporter.stats.items():
        for report in reports if word in ("passed", "failed", "error", "skipped") else ():
            place, _, case = report.nodeid.rstrip("]").partition("providers/test_contract.py::")
            if case and place in ("", "tests/"):
                name, _, target = case.partition("[")
                found.setdefault(name, {})[target] = word if word != "error" else "failed"
    for line in lines_of(found):
        terminalreporter.write_line(line)
