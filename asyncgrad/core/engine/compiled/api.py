"""The public side of compiled autograd: its context manager, its statistics, and the source of compiled functions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

from ....errors import ArgumentError, ArgumentTypeError, GraphError
from ...arrays.current_devices import several_devices
from ...arrays.tensor_base import TensorBase
from ...graph.leaf import GraphRoot, gradient_edge
from ...graph.node import LEAF_ORDER, Edge, GradientEdge
from ...settings.arguments import describe, must_be, shorten
from ...settings.context import Mode
from ..device import needs_node_task
from ..exec_info import init_to_execute
from .cache import CACHE, CompiledStats
from .trace import SEVERAL_DEVICES, Unsupported, unsupported_reason

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
            f"the environment variable {name} is {value!r}: set it to an int of 1 or more, the number of times that a "
            "graph has to be seen before it is compiled, or leave it empty to compile none"
        )
    return int(value)


#: How many times a backward's graph has to be seen before it is compiled; None if nothing is compiled.
COMPILED_AFTER: ContextVar[int | None] = ContextVar(
    "asyncgrad_compiled_after",
    default=_from_environment(),  # noqa: B039 - a number
)


@final
class compiled_autograd(Mode):
    """Runs a backward whose graph has been seen before as one compiled function.

    A graph is compiled once graphs of the same structure, shapes and dtypes have been seen `after` times. Gradients
    have the same bits as without compilation, and the engine runs everything that a compiled function does not support.

    This is a context manager, and a decorator of functions and `async def`s, for the current context only. The graphs
    seen and the functions compiled are kept after the block, in a bounded cache that all contexts share.

    Args:
        after: how many times a graph has to be seen before it is compiled; with 1 the second backward is compiled.

    Raises:
        ArgumentError: `after` is 0 or negative.
        ArgumentTypeError: `after` is not an int.

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
                must_be(
                    "after, the number of times that a graph has to be seen before it is compiled,",
                    "an int",
                    after,
                    "write ag.compiled_autograd(after=1)",
                )
            )
        if after < 1:
            raise ArgumentError(
                "after, the number of times that a graph has to be seen before it is compiled, must be 1 or more, not "
                f"{shorten(after)}: write ag.compiled_autograd(after=1), or no such block to compile nothing"
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
    """Return the statistics of compiled autograd in this process so far.

    Example:
        >>> import asyncgrad as ag
        >>> ag.engine.compiled_stats().misses >= 0
        True
    """
    return CACHE.stats()


def find_compiled(
    task: GraphTask, after: int, grad: Any, input_nr: int, make_fallback: Callable[[GraphTask, Any], Executor]
) -> CompiledExecutor | CompilingExecutor | None:
    """Return an executor that runs a backward by a compiled function; None, with the reason counted, if none may.

    Args:
        task: the backward, which has not begun.
        after: how many times its graph has to be seen before it is compiled.
        grad: the gradient that arrives at its root.
        input_nr: the input of the root at which it arrives.
        make_fallback: makes the executor to use if the search or the compilation gives no function.
    """
    root = task.root
    if task.create_graph:
        CACHE.miss("create_graph")
    elif task.streams is not None and task.streams.has_caller_streams:
        # Without streams of the caller, streams only affect nodes that have one; those have a NodeMeta.
        CACHE.miss("streams")
    elif task.sums is not None:
        CACHE.miss("a sum continued in .grad")
    elif task.anomaly is not None:
        CACHE.miss("anomaly mode")
    elif task.observed_steps is not None:
        CACHE.miss("a profile or a step callback")
    elif isinstance(root, GraphRoot) and several_devices[0] and len({_device_of(one) for one in root.next_nodes}) > 1:
        CACHE.miss(SEVERAL_DEVICES)
    elif isinstance(root, GraphRoot):
        return CACHE.find(task, after, None, 0, make_fallback)
    elif needs_node_task(root.device):
        CACHE.miss(unsupported_reason(root))
    elif root.order == LEAF_ORDER:
        CACHE.miss("a leaf as the root")
    elif not _fits(grad, root, input_nr):
        CACHE.miss("a gradient that is not an array")
    else:
        return CACHE.find(task, after, grad, input_nr, make_fallback)
    return None


def _device_of(node: Node | None) -> Any:
    return None if node is None else node.device


def _fits(grad: Any, root: Node, input_nr: int) -> bool:
    """Tell whether a gradient is an array of the shape and dtype that the root's input expects."""
    shape, dtype = root.shape, root.dtype
    if shape is None:
        metadata = root.input_metadata[input_nr]
        if metadata is None:
            return hasattr(grad, "shape")
        shape, dtype = metadata.shape, metadata.dtype
    return getattr(grad, "shape", None) == shape and grad.dtype is dtype


def compiled_source(
    tensors: TensorBase | GradientEdge | Sequence[TensorBase | GradientEdge], *, inputs: object = None
) -> str:
    """Return the source of the function that is compiled for a backward from these tensors.

    Args:
        tensors: a tensor or GradientEdge, or a sequence of them, that the backward starts from. Their graph may be
            another one than the graph that was compiled, if both are alike, and it may have been released.
        inputs: the `inputs` of `ag.backward` or `ag.grad`; None if none were given.

    Raises:
        GraphError: no such backward has been compiled, or a tensor has no graph.
        ArgumentTypeError: an argument is not a tensor or GradientEdge, nor a sequence of them, or is empty.

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
    except Unsupported as unsupported:
        raise GraphError(f"a backward from {root.name} is not compiled, because of {unsupported}") from None
    raise GraphError(
        f"no backward from a graph like that of {root.name} has been compiled so far: under "
        "ag.compiled_autograd(after=n), run n + 1 backward passes on graphs of the same structure"
    )


def _listed(tensors: Any) -> list[Any]:
    if isinstance(tensors, (TensorBase, GradientEdge)):
        return [tensors]
    if not isinstance(tensors, Sequence) or isinstance(tensors, str) or not tensors:
        raise ArgumentTypeError(f"pass a tensor or GradientEdge, or a sequence of them, not {describe(tensors)}")
    return list(tensors)


def _edge_of(tensor: Any) -> Edge:
    if isinstance(tensor, GradientEdge):
        return Edge(*tensor)
    edge = gradient_edge(tensor) if isinstance(tensor, TensorBase) else None
    if edge is None:
        raise GraphError(f"{describe(tensor)} has no graph: pass a tensor that requires grad")
    return edge
