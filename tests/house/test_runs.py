"""What processes of tests tell the one that started them: results, and which tests run no backward."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.backwards import BackwardRecord
from tests.support.few_reports import is_worth_telling, leave_reports_out

ROOT = Path(__file__).parents[2]


def report(when: str, outcome: str = "passed", duration: float = 0.0, **said: Any) -> dict[str, Any]:
    """Return what a message has of a report."""
    return {"when": when, "outcome": outcome, "duration": duration, "sections": [], "user_properties": [], **said}


def test_a_test_that_passes_in_no_time_is_told_of_once() -> None:
    reports = [("testreport", report(when)) for when in ("setup", "call", "teardown")]
    messages: list[tuple[str, dict[str, Any]]] = [("logstart", {}), *reports, ("logfinish", {})]

    assert [message for message in messages if is_worth_telling(*message)] == reports[1:2]


@pytest.mark.parametrize("when", ["setup", "teardown"])
@pytest.mark.parametrize(
    "said",
    [
        {"outcome": "failed"},
        {"outcome": "skipped"},
        {"duration": 0.25},
        {"sections": [("Captured stdout", "...")]},
        {"user_properties": [("note", 1)]},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_a_set_up_or_a_clean_up_has_to_say_is_told(when: str, said: dict[str, Any]) -> None:
    assert is_worth_telling("testreport", report(when, **said))


@pytest.mark.parametrize("name", ["runtest_protocol_complete", "warning_recorded", "workerfinished"])
def test_messages_of_other_things_than_reports_are_sent(name: str) -> None:
    assert is_worth_telling(name, {})


@pytest.mark.parametrize("xmlpath", [None, "results.xml"])
@pytest.mark.parametrize("role", [{}, {"workerinput": {}}], ids=["starts-others", "started"])
def test_reports_are_left_out_by_processes_for_another_that_writes_no_file_of_all(
    xmlpath: str | None, role: dict[str, Any]
) -> None:
    sent: list[str] = []
    sender = SimpleNamespace(sendevent=lambda name, **said: sent.append(name))
    plugins = SimpleNamespace(get_plugins=lambda: [object(), sender] if role else [object()])
    config: Any = SimpleNamespace(getoption=lambda name, default: xmlpath, pluginmanager=plugins, **role)

    leave_reports_out(config)
    sender.sendevent("logstart", nodeid="a")

    assert (sent == []) is (xmlpath is None and bool(role))


FEW_REPORTS = """
from tests.support.few_reports import leave_reports_out

def pytest_configure(config):
    leave_reports_out(config)
"""
ENDS_ITS_PROCESS = """
import os, pytest

@pytest.fixture
def ends_its_process():
    yield
    os._exit(3)

def test_that_fails_first(ends_its_process):
    assert False, "this is the failure"
"""
FAILS_AT_THE_END = """
import pytest

@pytest.fixture(scope="module")
def fails_at_the_end():
    yield
    raise RuntimeError("cleaning up")

def test_that_fails_first(fails_at_the_end):
    assert False, "this is the failure"

def test_that_is_not_run():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "said"),
    [(ENDS_ITS_PROCESS, "crashed while running"), (FAILS_AT_THE_END, "RuntimeError: cleaning up")],
    ids=["ends-its-process", "fails-at-the-end"],
)
def test_a_failure_and_that_of_its_clean_up_are_told_of(tests: str, said: str, tmp_path: Path) -> None:
    for name, text in {"conftest.py": FEW_REPORTS, "pytest.ini": "[pytest]", "test_ends.py": tests}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-n1", "-x", "-p", "no:cacheprovider", "-p", "no:asyncio", "-c"]
    told = subprocess.run(
        [*command, tmp_path / "pytest.ini", tmp_path], check=False, cwd=ROOT, capture_output=True, text=True
    ).stdout

    assert "this is the failure" in told
    assert said in told


def run(record: BackwardRecord, name: str, body: Callable[[], object]) -> None:
    """Run the body of a test of that name, which is recorded."""
    item: Any = SimpleNamespace(nodeid=name)
    protocol = record.pytest_runtest_protocol(item)
    next(protocol)
    body()
    with contextlib.suppress(StopIteration):
        protocol.send(True)


def test_the_record_names_the_tests_of_every_process_that_ran_no_backward(tmp_path: Path) -> None:
    path = tmp_path / "record"
    starter, session = BackwardRecord(path, is_compiled=False), SimpleNamespace(config=SimpleNamespace())
    for number in range(2):
        process = BackwardRecord(path, is_compiled=False)
        run(process, f"plain {number}", lambda: None)
        run(process, f"backward {number}", lambda: sync.backward(ag.tensor(np.ones(2), requires_grad=True).sum()))
        of_process: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
        process.pytest_sessionfinish(of_process)
        starter.pytest_testnodedown(SimpleNamespace(workeroutput=of_process.config.workeroutput))
    starter.pytest_testnodedown(SimpleNamespace())

    starter.pytest_sessionfinish(session)  # type: ignore[arg-type]

    assert path.read_text() == "'plain 0'\n'plain 1'\n"
