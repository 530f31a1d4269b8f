"""What processes of tests tell the one that started them: results, and which tests run no backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.backwards import BackwardRecord
from tests.support.few_reports import FewReports, worth_telling

Phase = Literal["setup", "call", "teardown"]
Outcome = Literal["passed", "failed", "skipped"]


def report(when: Phase, outcome: Outcome = "passed", duration: float = 0.0, **said: Any) -> pytest.TestReport:
    return pytest.TestReport(
        "test.py::test", ("test.py", 1, "test"), {}, outcome, None, when, duration=duration, **said
    )


def test_a_test_that_passes_in_no_time_is_told_of_once() -> None:
    reports = [report("setup"), report("call"), report("teardown")]

    assert worth_telling(reports) == reports[1:2]


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
def test_what_a_set_up_or_a_clean_up_has_to_say_is_told(when: Phase, said: dict[str, Any]) -> None:
    told = report(when, **said)

    assert worth_telling([told]) == [told]


@pytest.mark.parametrize("xmlpath", [None, "results.xml"])
@pytest.mark.parametrize("role", [{}, {"workerinput": {}}], ids=["starts-others", "started"])
def test_reports_are_left_out_by_processes_for_another_that_writes_no_file_of_all(
    xmlpath: str | None, role: dict[str, Any]
) -> None:
    config: Any = SimpleNamespace(getoption=lambda name, default: xmlpath, **role)

    assert (FewReports.of(config) is not None) is (xmlpath is None and bool(role))


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
