"""OpenTelemetryInstrumentor: a span of OpenTelemetry for each backward, and for each async body if asked."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from importlib import import_module
from types import TracebackType
from typing import Any, Self, final

from ..core.engine.exec_info import count_reachable
from ..core.engine.graph_task import GraphTask
from ..core.engine.observation import observe_process
from ..core.graph.node import Node
from ..core.settings.arguments import truth
from ..core.settings.extras import missing_extra
from ..core.settings.observers import BackwardObserver

__all__ = ["OpenTelemetryInstrumentor"]


@final
class _Tracer(BackwardObserver):
    """Starts and ends the spans.

    Args:
        trace: the module `opentelemetry.trace`.
        context: the module `opentelemetry.context`.
        tracer: what starts spans.
        has_node_spans: whether async bodies have spans, too.
    """

    __slots__ = ("_context", "_has_node_spans", "_spans", "_trace", "_tracer")

    def __init__(self, trace: Any, context: Any, tracer: Any, has_node_spans: bool) -> None:
        self._trace, self._context, self._tracer = trace, context, tracer
        self._has_node_spans = has_node_spans
        self._spans: weakref.WeakKeyDictionary[GraphTask, Any] = weakref.WeakKeyDictionary()

    def begin(self, graph_task: GraphTask) -> None:
        """Start the span of a backward, a child of the caller's current one, and make it current in the backward."""
        attributes = {
            "asyncgrad.backward.id": graph_task.id,
            "asyncgrad.backward.depth": graph_task.reentrant_depth,
            "asyncgrad.backward.root": graph_task.root.name,
        }
        span = self._tracer.start_span("asyncgrad.backward", attributes=attributes)
        if span.is_recording() and (nodes := count_reachable([graph_task.root], graph_task.limits)) is not None:
            span.set_attribute("asyncgrad.backward.nodes", nodes)
        self._spans[graph_task] = span
        graph_task.context.run(self._context.attach, self._trace.set_span_in_context(span))

    def run_node(
        self, graph_task: GraphTask, node: Node, run: Callable[[], Coroutine[object, None, Any]]
    ) -> Coroutine[object, None, Any]:
        """Return a coroutine that runs an async node in a span of its own, current in its body and hooks."""
        return self._run_in_span(node, run) if self._has_node_spans and node.is_async else run()

    async def _run_in_span(self, node: Node, run: Callable[[], Coroutine[object, None, Any]]) -> Any:
        attributes = {"asyncgrad.node.sequence_nr": node.sequence_nr, "asyncgrad.node.device": str(node.device)}
        with self._tracer.start_as_current_span(node.name, attributes=attributes):
            return await run()

    def end(self, graph_task: GraphTask, error: BaseException | None) -> None:
        """End the span of a backward; record its error."""
        span = self._spans.pop(graph_task, None)
        if span is None:
            return
        if error is not None:
            if not isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                span.record_exception(error)
            description = f"{type(error).__name__}: {error}"
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, description))
        span.end()


@final
class OpenTelemetryInstrumentor:
    """Traces backward passes with OpenTelemetry: `OpenTelemetryInstrumentor().instrument()`, as for other libraries.

    Each backward of the process has a span `asyncgrad.backward`, a child of the span that is current where it is
    called; nested backward passes are children of the one whose body called them. Attributes are its id, reentrant
    depth, root and number of nodes. An error is recorded, and a cancellation sets the status. Spans that a body starts
    are children of that of its backward. It needs the extra `asyncgrad[opentelemetry]`.

    Example:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> import asyncgrad as ag
        >>> exporter, provider = InMemorySpanExporter(), TracerProvider()
        >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
        >>> x = ag.tensor(2.0, requires_grad=True)
        >>> with ag.engine.OpenTelemetryInstrumentor().instrument(tracer_provider=provider):
        ...     ag.sync.backward(x * x)
        >>> [(span.name, span.attributes["asyncgrad.backward.nodes"]) for span in exporter.get_finished_spans()]
        [('asyncgrad.backward', 2)]
    """

    __slots__ = ("_tracer",)

    def __init__(self) -> None:
        self._tracer: _Tracer | None = None

    @property
    def is_instrumented(self) -> bool:
        """Whether it traces."""
        return self._tracer is not None

    def instrument(self, *, tracer_provider: object = None, node_spans: bool = False) -> Self:
        """Trace the backward passes that begin from now on; return this object, a context manager that ends it.

        A second call replaces the first.

        Args:
            tracer_provider: where spans go; None for OpenTelemetry's global one.
            node_spans: whether each async body has a span, too, with its hooks.

        Raises:
            ModuleNotFoundError: opentelemetry-api is not installed.
        """
        has_node_spans = truth(node_spans, "node_spans")
        try:
            trace, context = import_module("opentelemetry.trace"), import_module("opentelemetry.context")
        except ImportError as error:
            what = "OpenTelemetryInstrumentor needs opentelemetry-api"
            raise missing_extra(what, "opentelemetry", error=error) from error
        self.uninstrument()
        tracer = trace.get_tracer("asyncgrad", tracer_provider=tracer_provider)
        self._tracer = _Tracer(trace, context, tracer, has_node_spans)
        observe_process(self._tracer, True)
        return self

    def uninstrument(self) -> None:
        """Trace no backward that begins from now on; those that run are traced to their end."""
        if self._tracer is not None:
            observe_process(self._tracer, False)
            self._tracer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstrument()
