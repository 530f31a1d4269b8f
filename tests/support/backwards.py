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

_OUTPUT = "tests that run no backward"


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

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        began = _work_so_far()
        result = yield
        if _work_so_far() == began:
            self._found.append(item.nodeid)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a process of tests has found; of one that ended in the midst, nothing is known."""
        self._found += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand what has been found to the process that started this one; that one writes the record."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_OUTPUT] = self._found
        elif not self._is_compiled:
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
    graph_task = sys.modules.get("asyncgrad.core.engine.graph_task")
    # "count(12)": asking the counter itself would count.
    counted = 0 if graph_task is None else int(repr(graph_task.next_id.__self__)[len("count(") : -1])
    times = os.times()
    return counted, times.children_user + times.children_system
