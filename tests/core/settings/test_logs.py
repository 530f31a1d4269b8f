"""What is logged under `asyncgrad`: backward passes, compilations, workers, and nodes that block the event loop."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import engine
from asyncgrad.core.engine.engine import Engine
from asyncgrad.core.engine.workers import WORKER_POOL
from tests.core.engine.heavy import always, heavy_calling, large
from tests.support.clocks import TickingClock, hand_in
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.settings import node_by_node
from tests.support.threads import PATIENCE
from tests.support.turns import settle


@pytest.fixture
def debug(caplog: pytest.LogCaptureFixture) -> Any:
    """Log everything; give a function that returns what was logged, without the ids of backward passes."""
    caplog.set_level(logging.DEBUG, "asyncgrad")

    def messages(name: str = "asyncgrad.engine") -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == name]

    return messages


def raising(grad: Any) -> None:
    raise Trouble("in the middle")


def test_a_backward_logs_its_begin_with_its_nodes_and_its_end(debug):
    y = np.sin(leaf(1.0)).sum()
    # Compiling logs lines of its own.
    with node_by_node():
        sync.backward(y)

    begin, end = debug()
    assert begin.partition(" begins")[2] == f": 3 nodes from SumBackward (node #{y.grad_fn.sequence_nr})"
    assert "ended after 0." in end


def test_a_failure_is_logged_with_its_error(debug):
    with pytest.raises(Trouble):
        sync.backward(calling(leaf(1.0), raising).sum())

    assert "failed after 0." in debug()[-1]
    assert debug()[-1].endswith("Trouble('in the middle')")


async def test_a_cancellation_and_a_nested_backward_are_logged(debug):
    async def main():
        nested = awaiting(leaf(1.0), lambda grad: asyncio.Event().wait()).sum()

        async def body(grad):
            await nested.backward()

        task = asyncio.create_task(awaiting(leaf(1.0), body).sum().backward())
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # Compiling logs lines of its own.
    with node_by_node():
        await main()
    outer, inner, *ends = debug()
    assert inner.endswith(f", inside of {outer.partition(' begins')[0]}")
    assert [" was cancelled after " in end for end in ends] == [True, True]


def test_a_compilation_and_a_deoptimisation_are_logged_with_the_reason(debug):
    def run_backward(x: Any, size: int) -> None:
        y = np.sin(x)
        for _ in range(size):
            y = np.cos(y)
        sync.backward(y.sum())

    with ag.compiled_autograd(after=1):
        for size in (9, 9, 9, 8):
            run_backward(leaf(1.0), size)

    assert [text for text in debug() if text.startswith("compiled a backward of ")] == [
        "compiled a backward of 10 operations from SumBackward"
    ]
    assert "a compiled backward from SumBackward goes on uncompiled: another structure, shape or dtype" in debug()


async def test_a_worker_logs_its_start(debug):
    WORKER_POOL.close()

    with always(), ag.workers(1):
        await heavy_calling(large(), lambda grad: None).sum().backward()
    assert any(text.startswith("asyncgrad worker") and text.endswith("started") for text in debug())


async def test_a_thread_device_logs_start_and_end_of_its_worker(debug):
    device = ag.device("thread:61")
    await device.call(int)
    device.close()
    for thread in threading.enumerate():
        if thread.name == "asyncgrad thread:61":
            thread.join(PATIENCE)
    assert debug("asyncgrad.devices") == ["asyncgrad thread:61 started", "asyncgrad thread:61 ended"]


def test_a_store_of_saved_tensors_logs_its_folder(debug, tmp_path):
    x = leaf(*[1.0] * 2000)
    with ag.graph.save_to_disk(tmp_path):
        y = (np.sin(x) * x).sum()
        sync.backward(y)

    assert [str(tmp_path) in text for text in debug("asyncgrad.memory.offload")] == [True]


async def test_a_node_that_blocks_the_loop_is_logged_with_its_line(caplog):
    now = [0.0]

    def body(grad):
        now[0] += 0.5

    asyncio.get_running_loop().slow_callback_duration = 0.1
    with hand_in(lambda: now[0]):
        await calling(leaf(1.0), body).sum().backward()
    (record,) = (record for record in caplog.records if record.name == "asyncgrad.engine")
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("CallingBackward (node #")
    assert "functions.py:" in record.getMessage()
    assert record.getMessage().endswith("blocked the event loop for 0.499 s")


async def test_a_plain_node_that_blocks_the_loop_is_logged(caplog):
    now = [0.0]

    def body(grad):
        now[0] += 0.5

    async def main():
        asyncio.get_running_loop().slow_callback_duration = 0.1
        with hand_in(lambda: now[0]), ag.workers(0):
            await heavy_calling(leaf(1.0), body).sum().backward()

    with node_by_node():
        await main()
    assert [
        record.getMessage().partition(" (")[0] for record in caplog.records if record.name == "asyncgrad.engine"
    ] == ["WatchedBackward"]


async def test_a_compiled_function_that_blocks_the_loop_until_its_end_is_logged(caplog):
    asyncio.get_running_loop().slow_callback_duration = 0.1
    with ag.compiled_autograd(after=1):
        for _ in range(2):
            await np.sin(ag.tensor(1.0, requires_grad=True)).backward()
        caplog.clear()
        # It is read as the driver begins, and after the function.
        with hand_in(TickingClock(0.5)):
            await np.sin(ag.tensor(1.0, requires_grad=True)).backward()
    (record,) = (record for record in caplog.records if record.name == "asyncgrad.engine")
    assert record.getMessage().startswith("a compiled function of backward ")
    assert record.getMessage().endswith("blocked the event loop for 0.499 s")


def test_the_log_is_asked_once_after_levels_are_set_and_nothing_is_observed_when_it_is_off(monkeypatch):
    asked: list[int] = []
    log = logging.getLogger("asyncgrad.engine")
    ask, here = logging.Logger.isEnabledFor, threading.get_ident()

    def note(self: logging.Logger, level: int) -> bool:
        # A worker that starts or ends asks, too.
        if self is log and threading.get_ident() == here:
            asked.append(level)
        return ask(self, level)

    monkeypatch.setattr(logging.Logger, "isEnabledFor", note)
    # A process that has had an observer looks for observers ever after, and asks the log each time.
    monkeypatch.setattr(engine, "observers_in_use", [False])
    seen: list[Any] = []
    log.setLevel(log.level)
    for _ in range(2):
        y = np.sin(leaf(1.0)).sum()
        y.register_hook(lambda grad: seen.append(ag.engine.current_graph_task().observation))
        with node_by_node():
            sync.backward(y)

    assert asked == [logging.DEBUG]
    assert seen == [None, None]
    assert Engine.__slots__ == ()


def test_a_program_that_configures_no_logging_sees_nothing():
    program = (
        "import asyncgrad as ag, logging; ag.tensor(1.0); "
        "logging.getLogger('asyncgrad.engine').warning('unseen'); print(logging.getLogger('asyncgrad').handlers)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "NullHandler" in done.stdout
