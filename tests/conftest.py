"""What holds for every test: event loops of each kind, and hypothesis with the same examples in every run."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import signal
import sys
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest
from hypothesis import settings

import asyncgrad as ag
from asyncgrad.core.settings.context import GRAD_MODE, RECORDING
from tests.support.backwards import BackwardRecord
from tests.support.few_reports import leave_reports_out
from tests.support.libraries import OURS, theirs
from tests.support.loops import LOOP_FACTORIES, NEW_LOOPS
from tests.support.sampling import cases, sampled
from tests.support.stacks import plugin_of

settings.register_profile(
    "asyncgrad", max_examples=cases(100), derandomize=True, deadline=None, database=None, print_blob=False
)
settings.load_profile("asyncgrad")

#: Doctests are looked for in every module, and this one cannot be imported without PyTorch.
collect_ignore = [] if importlib.util.find_spec("torch") else ["nn/programs_in_pytorch.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C interrupt: a shell that starts the tests in the background has them ignore it, and some send it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    record = BackwardRecord.of_environment()
    if record is not None:
        config.pluginmanager.register(record)
    config.pluginmanager.register(plugin_of(config))
    leave_reports_out(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """The garbage collector looks through what a test has made, and not through what collecting the tests has.

    That is a million objects and more, which stay to the end: without them, a full collection, which many tests ask
    for, takes a hundredth of the time. Nor does one find anything while they are made.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that are for `make test-all`, of those that the command line has chosen."""
    items[:], left_out = sampled(_each_example_once(items))
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _each_example_once(items: list[pytest.Item]) -> list[pytest.Item]:
    """Leave out the doctests that a facade has from the functions of its modules: a wrapper has their docstrings."""
    written = {_examples(item) for item in items if item.path.name != "__init__.py"}
    return [item for item in items if item.path.name != "__init__.py" or _examples(item) not in written]


def _examples(item: pytest.Item) -> Hashable:
    """Return the text of a doctest; a test of another kind is the only one of its kind."""
    return item.dtest.docstring if isinstance(item, pytest.DoctestItem) else item


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test that is an `async def` on every kind of loop."""
    return LOOP_FACTORIES


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """A test fails that leaves tasks behind, or an error that nobody fetched."""
    NEW_LOOPS.begin()
    result = yield
    NEW_LOOPS.check_tasks()
    NEW_LOOPS.check_problems()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What the end of a loop brings to light is a failure of its test too, and what is left plays no part in the next.

    What its bodies took, on a machine that may be busy, does not decide where those of the next test run. The garbage
    collector does not look again through what the tests of a file have left, and which lasts. As fixtures, these would
    take a fifth of what it takes to begin and to end a test, of which there are forty thousand.
    """
    try:
        result = yield
    finally:
        NEW_LOOPS.forget()
        ag.device("cpu")._costs._means.clear()  # type: ignore[attr-defined]
    NEW_LOOPS.check_problems()
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[object]:
    """The service and the benchmarks freeze what there is, and at their end would unfreeze all that collecting made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        return (yield)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the garbage collector: it frees nothing, and takes no time.

    For modules whose tests show that what is dropped is gone at once, and those whose graphs it would go through.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(params=["asyncgrad", "torch"])
def library(request: pytest.FixtureRequest) -> Any:
    """One of two libraries; a law that asks for this is one of PyTorch's, which is asked too where it is installed."""
    return OURS if request.param == "asyncgrad" else theirs()


@pytest.fixture
def only_the_loop_keeps(no_collector: None) -> Iterator[None]:
    """For modules whose tests show that what is dropped is gone at once: no collector, and no workers.

    A worker lets go of what it has run a moment later, and on a busy machine a body may seem to be one for a worker.
    """
    with ag.workers(0):
        yield


@pytest.fixture
def recording_is_left_on() -> Iterator[None]:
    """The test begins and ends with recording on, and nobody looking."""
    assert GRAD_MODE.get() is RECORDING.get() is True
    yield
    assert GRAD_MODE.get() is RECORDING.get() is True


@pytest.fixture
def threads_switch_often() -> Iterator[None]:
    """Threads take turns every microsecond, so that what one of them does in steps is often interrupted."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
