"""The switch of compiled autograd, what it finds for a backward, and what can be seen of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

from ...arguments import describe
from ...context import Mode
from ...errors import ArgumentError, ArgumentTypeError, GraphError
from ...graph.leaf import GraphRoot, gradient_edge
from ...graph.node import LEAF_ORDER, Edge, GradientEdge
from ...graph.tensor_base import TensorBase
from ..device import needs_care
from ..exec_info import init_to_execute
from .cache import CACHE, CompiledStats
from .trace import Unsupported, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph.node import Node
    from ..executor import Executor
    from ..graph_task import GraphTask
    from .executor import CompiledExecutor, CompilingExecutor

__all__ = ["COMPILED_AFTER", "compiled_autograd", "compiled_source", "compiled_stats", "find_compiled"]


def _from_environment() -> int | None:
    name = "ASYNCGRAD_COMPILED_AFTER"
    value = os.environ.get(name)
    if not value:
        return None
    if not value.isdecimal() or not int(value):
        raise ArgumentError(
            f"the environment variable {name} is {value!r}: give a whole number from 1 up, how often a graph is to "
            "have been seen, or leave it empty to compile none"
        )
    return int(value)


#: How often a backward's graph is to have been seen before it is compiled; None where nothing is compiled.
COMPILED_AFTER: ContextVar[int | None] = ContextVar(
    "asyncgrad_compiled_after",
    default=_from_environment(),  # noqa: B039 - a number
)


@final
class compiled_autograd(Mode):
    """Inside, a backward whose graph has been seen before runs as one compiled function.

    The graph is to have the same structure, shapes and dtypes as one seen `after` times. Gradients have the same bits,
    and everything that a compiled function cannot carry is run by the engine. A context manager and a decorator of
    functions and `async def`s, which holds for the current context only. What was seen and compiled outlives it, in a
    bounded cache that all contexts share.

    Args:
        after: how often a graph is to have been seen; 1 compiles it when it comes for the second time.

    Raises:
        ArgumentError: `after` is 0 or negative.
        ArgumentTypeError: it is no int.

    Source: compiled autograd of PyTorch.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.compiled_autograd(after=3):
        ...     for _ in range(5):
        ...         ag.sync.backward((np.sin(x) * x).sum())
        >>> ag.engine.compiled_stats().hits > 0
        True
    """

    __slots__ = ("_after",)

    def __init__(self, after: int = 3) -> None:
        if type(after) is not int:
            raise ArgumentTypeError(
                f"after is how often a graph is to have been seen, an int, not {describe(after)}: write "
                "ag.compiled_autograd(after=1)"
            )
        if after < 1:
            raise ArgumentError(
                f"after is how often a graph is to have been seen, 1 or more, not {after}: write "
                "ag.compiled_autograd(after=1), or no such block where nothing is to be compiled"
            )
        self._after = after

    def _get(self) -> Any:
        return COMPILED_AFTER.get()

    def _set(self, value: Any, /) -> None:
        COMPILED_AFTER.set(value)

    def _value(self) -> int:
        return self._after

    def _clone(self) -> Mode:
        return compiled_autograd(self._after)


def compiled_stats() -> CompiledStats:
    """Return what compiled autograd has done in this process so far.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.compiled_stats().misses >= 0
        True
    """
    return CACHE.stats()


def find_compiled(
    task: GraphTask, after: int, grad: Any, input_nr: int, otherwise: Callable[[GraphTask, Any], Executor]
) -> CompiledExecutor | CompilingExecutor | None:
    """Return the executor of a compiled function for a backward that is about to begin.

    None, with a reason counted, where there is none.

    Args:
        task: the backward.
        after: how often one like it is to have been seen.
        grad: what arrives at its root.
        input_nr: at which of its inputs.
        otherwise: makes the executor where it turns out that no function is to be had.
    """
    root = task.root
    if task.create_graph:
        CACHE.miss("create_graph")
    elif task.streams is not None and task.streams.has_caller_streams:
        # Otherwise streams make a difference to nodes that have one alone, and those have a NodeMeta.
        CACHE.miss("streams")
    elif task.sums is not None:
        CACHE.miss("sums that go on")
    elif task.anomaly is not None:
        CACHE.miss("anomaly mode")
    elif isinstance(root, GraphRoot):
        return CACHE.find(task, after, None, 0, otherwise)
    elif needs_care(root.device):
        CACHE.miss(reason_of(root))
    elif root.order == LEAF_ORDER:
        CACHE.miss("a leaf as the root")
    elif not _fits(grad, root, input_nr):
        CACHE.miss("a gradient that is no array")
    else:
        return CACHE.find(task, after, grad, input_nr, otherwise)
    return None


def _fits(grad: Any, root: Node, input_nr: int) -> bool:
    """Tell whether this is a gradient as the root takes it."""
    shape, dtype = root.shape, root.dtype
    if shape is None:
        metadata = root.input_metadata[input_nr]
        if metadata is None:
            return hasattr(grad, "shape")
        shape, dtype = metadata.shape, metadata.dtype
    return getattr(grad, "shape", None) == shape and grad.dtype is dtype


def compiled_source(tensors: Any, *, inputs: Any = None) -> str:
    """Return the source of the function compiled for backward passes like one from these tensors.

    Args:
        tensors: what the backward starts from: a tensor or GradientEdge, or a sequence of them. Their graph need not
            be the one that was compiled, and may have been released.
        inputs: what was given as `inputs` of `ag.backward` or `ag.grad`, if that was.

    Raises:
        GraphError: no such backward has been compiled, or a tensor has no graph.
        ArgumentTypeError: what is given is no tensor, or an empty sequence.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> with ag.compiled_autograd(after=1):
        ...     for _ in range(2):
        ...         y = np.square(x).sum()
        ...         ag.sync.backward(y)
        >>> print(ag.engine.compiled_source(y).splitlines()[0])
        async def backward(task, clock, deadline, n0, g0):
    """
    edges = [_edge_of(tensor) for tensor in _listed(tensors)]
    root = edges[0].node if len(edges) == 1 else GraphRoot(edges, [None] * len(edges))
    assert root is not None
    input_nr = edges[0].input_nr if len(edges) == 1 else 0
    wanted = None if inputs is None else [_edge_of(tensor) for tensor in _listed(inputs)]
    try:
        for accumulate in (True,) if wanted is None else (False, True):
            limits = None if wanted is None else init_to_execute(root, wanted, accumulate)
            found = CACHE.sources(root, limits, 0 if accumulate or wanted is None else len(wanted), input_nr)
            if found:
                return found[0]
    except Unsupported as cannot:
        raise GraphError(f"a backward from {root.name} is left to the engine, because of {cannot}") from None
    raise GraphError(
        f"no backward like one from {root.name} has been compiled so far: run it, on graphs of the same structure, "
        "under ag.compiled_autograd(), once more than its `after` says"
    )


def _listed(tensors: Any) -> list[Any]:
    if isinstance(tensors, (TensorBase, GradientEdge)):
        return [tensors]
    if not isinstance(tensors, Sequence) or isinstance(tensors, str) or not tensors:
        raise ArgumentTypeError(f"give a tensor or GradientEdge, or a sequence of them, not {describe(tensors)}")
    return list(tensors)


def _edge_of(tensor: Any) -> Edge:
    if isinstance(tensor, GradientEdge):
        return Edge(*tensor)
    edge = gradient_edge(tensor) if isinstance(tensor, TensorBase) else None
    if edge is None:
        raise GraphError(f"{describe(tensor)} has no graph: pass a tensor that requires grad")
    return edge
