"""`ag.engine.OpenTelemetryInstrumentor`: a span for each backward, nested as the backward passes are."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine.observation import observe_process
from asyncgrad.core.settings.observers import BackwardObserver
from asyncgrad.errors import ArgumentTypeError
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import one_turn, settle

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

PROVIDER = TracerProvider()
EXPORTER = InMemorySpanExporter()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TRACER = PROVIDER.get_tracer("tests")


@pytest.fixture(autouse=True)
def instrumentor() -> Iterator[Any]:
    EXPORTER.clear()
    with ag.engine.OpenTelemetryInstrumentor().instrument(tracer_provider=PROVIDER) as instrumentor:
        yield instrumentor


def spans() -> list[Any]:
    """The spans that have ended, in the order in which they began."""
    return sorted(EXPORTER.get_finished_spans(), key=lambda span: span.start_time)


def is_child(span: Any, of: Any) -> bool:
    return span.parent is not None and span.parent.span_id == of.context.span_id


def test_a_backward_is_a_span_with_its_id_depth_root_and_nodes():
    ids: list[int] = []
    y = calling(leaf(1.0), lambda grad: ids.append(ag.engine.current_graph_task_id())).sum()
    sync.backward(y)

    (span,) = spans()
    assert span.name == "asyncgrad.backward"
    assert dict(span.attributes) == {
        "asyncgrad.backward.id": ids[0],
        "asyncgrad.backward.depth": 0,
        "asyncgrad.backward.root": "SumBackward",
        "asyncgrad.backward.nodes": 3,
    }
    assert span.status.is_ok
    assert span.parent is None


async def test_spans_nest_as_callers_backward_passes_and_bodies_do():
    nested = awaiting(leaf(1.0), one_turn).sum()

    async def body(grad):
        with TRACER.start_as_current_span("body"):
            await nested.backward()

    with TRACER.start_as_current_span("caller"):
        await awaiting(leaf(1.0), body).sum().backward()
    caller, outer, body, inner = spans()
    assert [span.name for span in (caller, outer, body, inner)] == [
        "caller",
        "asyncgrad.backward",
        "body",
        "asyncgrad.backward",
    ]
    assert is_child(outer, caller)
    assert is_child(body, outer)
    assert is_child(inner, body)


async def test_backward_passes_at_once_have_a_span_each_under_their_own_caller():
    async def step(name):
        with TRACER.start_as_current_span(name):
            await awaiting(leaf(1.0), one_turn).sum().backward()

    await asyncio.gather(step("first"), step("second"))
    first, second = (next(span for span in spans() if span.name == name) for name in ("first", "second"))
    backwards = [span for span in spans() if span.name == "asyncgrad.backward"]
    assert [[is_child(span, caller) for span in backwards].count(True) for caller in (first, second)] == [1, 1]


async def test_an_error_is_recorded_and_a_cancellation_sets_the_status():
    def body(grad):
        raise Trouble("in the middle")

    with pytest.raises(Trouble):
        await calling(leaf(1.0), body).sum().backward()
    task = asyncio.create_task(awaiting(leaf(1.0), lambda grad: asyncio.Event().wait()).sum().backward())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    failed, cancelled = spans()
    assert [event.name for event in failed.events] == ["exception"]
    assert failed.status.description == "Trouble: in the middle"
    assert cancelled.events == ()
    assert cancelled.status.description.startswith("CancelledError")


async def test_async_bodies_have_spans_if_asked(instrumentor):
    async def body(grad):
        with TRACER.start_as_current_span("inside"):
            await asyncio.sleep(0)

    async def main():
        y = awaiting(leaf(1.0), body)
        await (y + np.sin(y)).sum().backward()
        return y.grad_fn.sequence_nr

    await main()
    assert [span.name for span in spans()] == ["asyncgrad.backward", "inside"]
    EXPORTER.clear()
    instrumentor.instrument(tracer_provider=PROVIDER, node_spans=True)
    number = await main()
    backward, node, inside = spans()
    assert (node.name, node.attributes["asyncgrad.node.sequence_nr"]) == ("AwaitingBackward", number)
    assert is_child(node, backward)
    assert is_child(inside, node)


def test_after_its_end_nothing_is_traced(instrumentor):
    assert instrumentor.is_instrumented
    instrumentor.uninstrument()
    sync.backward(np.sin(leaf(1.0)).sum())

    assert spans() == []
    assert not instrumentor.is_instrumented


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'asyncgrad\[opentelemetry\]'"):
        ag.engine.OpenTelemetryInstrumentor().instrument()


def test_a_bad_argument_is_refused():
    with pytest.raises(ArgumentTypeError, match="node_spans must be True or False"):
        ag.engine.OpenTelemetryInstrumentor().instrument(node_spans="yes")


def test_an_observer_that_fails_does_not_break_the_backward(caplog):
    class Failing(BackwardObserver):
        def begin(self, graph_task):
            raise Trouble("in an observer")

        end = begin

    observer, x = Failing(), leaf(1.0)
    observe_process(observer, True)
    try:
        sync.backward((x * 2).sum())
    finally:
        observe_process(observer, False)

    assert x.grad.tolist() == [2.0]
    assert [record.getMessage().partition(" at ")[0] for record in caplog.records] == ["Failing failed"]
