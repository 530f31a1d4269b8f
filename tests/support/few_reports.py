"""What a process of tests tells the one that started it of a test that passes: its result, once.

pytest-xdist would send it five messages of each test, which take as much time as the most tests themselves: that it
begins and ends, and a report of its set-up, of its body and of what cleans up. Of these only one says something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["FewReports", "worth_telling"]

#: What took so many seconds is in the list of `--durations`.
LONG = 0.005


@final
class FewReports:
    """A plugin of a process of tests: it runs each as pytest does, and sends the reports that say something."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and tell of it when it has ended."""
        for report in worth_telling(runtestprotocol(item, log=False, nextitem=nextitem)):
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    @staticmethod
    def of(config: pytest.Config) -> FewReports | None:
        """Return the plugin for this process; none where another does not run it, or a file is to have each report."""
        is_for_another = hasattr(config, "workerinput")
        return FewReports() if is_for_another and not config.getoption("xmlpath", None) else None


def worth_telling(reports: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
    """Leave out the reports of a set-up and of a clean-up that passed in no time, and printed and noted nothing."""
    return [
        report
        for report in reports
        if report.when == "call"
        or not report.passed
        or report.user_properties
        or report.sections
        or report.duration >= LONG
    ]
