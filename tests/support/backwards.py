"""Which tests run no backward: with every backward compiled, they have nothing to show that they have not shown before.

`make test-all` runs tests twice. In the first run, the environment variable ASYNCGRAD_BACKWARD_RECORD names a file
to which the tests are written that ran no backward, and no process of their own that might have. In the second run, in
which ASYNCGRAD_COMPILED_AFTER is set, those are left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import pytest

__all__ = ["BackwardRecord"]

_BEGAN = pytest.StashKey[tuple[int, float]]()
_PROPERTY = "runs no backward"


@final
class BackwardRecord:
    """A plugin of pytest's that writes the record, or leaves out what is in it."""

    def __init__(self, path: Path, is_compiled: bool) -> None:
        self._path, self._is_compiled = path, is_compiled
        self._found: list[str] = []

    @classmethod
    def of_environment(cls) -> BackwardRecord | None:
        """Return the plugin that the environment asks for."""
        path = os.environ.get("ASYNCGRAD_BACKWARD_RECORD")
        return cls(Path(path), "ASYNCGRAD_COMPILED_AFTER" in os.environ) if path else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[_BEGAN] = _work_so_far()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
        report = yield
        if call.when == "teardown" and item.stash.get(_BEGAN, None) == _work_so_far():
            # The process that has run the test sends its properties to the one that writes the record.
            report.user_properties.append((_PROPERTY, True))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (_PROPERTY, True) in map(tuple, report.user_properties):
            self._found.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._is_compiled and not hasattr(session.config, "workerinput"):
            self._path.write_text("".join(f"{each!r}\n" for each in self._found))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not self._is_compiled or not self._path.exists():
            return
        left_out = set(self._path.read_text().splitlines())
        gone = [item for item in items if repr(item.nodeid) in left_out]
        items[:] = [item for item in items if repr(item.nodeid) not in left_out]
        config.hook.pytest_deselected(items=gone)


def _work_so_far() -> tuple[int, float]:
    """Return the number of backward passes of this process, and the processor time of processes that it has started."""
    engine = sys.modules.get("asyncgrad.core.engine.engine")
    # "count(12)": asking the counter itself would count.
    counted = 0 if engine is None else int(repr(engine._next_id.__self__)[len("count(") : -1])
    times = os.times()
    return counted, times.children_user + times.children_system
