"""`backward` and `grad`, which users call to run a backward."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from ..errors import ArgumentError, ArgumentTypeError, GraphError, UnusedInputError
from .arrays import values
from .arrays.ownership import hand_over
from .arrays.tensor_base import TensorBase
from .backward_arguments import (
    Root,
    as_gradients,
    as_inputs,
    as_sequence,
    as_some_inputs,
    check_root,
    input_edges,
    input_name,
    label_of,
    like_inputs,
    start_of,
    start_of_roots,
)
from .engine.completion import warn
from .engine.engine import Engine
from .engine.until_success import UNTIL_SUCCESS
from .gradient_batches import execute_batched
from .graph.leaf import gradient_edge
from .graph.node import Edge, GradientEdge, Node
from .graph.value_metadata import ValueMetadata
from .rows import check_concurrency
from .settings.arguments import must_be, truth
from .settings.context import TRAINING_STEPS, TrainingStepLike

if TYPE_CHECKING:
    from .arrays.array_like import TensorLike
    from .arrays.value_type import ValueType
    from .engine.joint_commit import JointCommit
    from .tree.structure import Tree, TreeStructure

__all__ = ["BackwardOptions", "GradOptions", "ValueRoot", "backward", "begin_backward", "capture", "grad"]

#: Bound once: a method of an imported name is looked up and bound anew at each call.
_training_steps = TRAINING_STEPS.get

P = ParamSpec("P")
T = TypeVar("T")

_CYCLE_WARNING = (
    "backward() with create_graph=True makes each leaf and its gradient refer to each other, which only the garbage "
    "collector frees: prefer await ag.grad(...), or set .grad to None afterwards"
)


class ValueRoot(Protocol):
    """Abstract: a root that is no array, of which its type says what its gradients are."""

    @property
    def type(self) -> ValueType:
        """What its gradients are."""

    @property
    def value(self) -> object:
        """The object."""


class BackwardOptions(TypedDict, total=False):
    """The options of `backward`, for type checkers."""

    retain_graph: bool | Literal["until_success"] | None
    create_graph: bool
    inputs: Tree


class GradOptions(TypedDict, total=False):
    """The options of `grad`, for type checkers."""

    retain_graph: bool | Literal["until_success"] | None
    create_graph: bool
    allow_unused: bool | None
    materialize_grads: bool
    is_grads_batched: bool
    concurrency: int | None


@overload
async def backward(
    tensors: ValueRoot | GradientEdge,
    grad_tensors: object = None,
    **options: Unpack[BackwardOptions],
) -> None: ...


@overload
async def backward(
    tensors: Sequence[Root],
    grad_tensors: TensorLike | Sequence[object] | None = None,
    **options: Unpack[BackwardOptions],
) -> None: ...


@overload
async def backward(
    tensors: TensorBase,
    grad_tensors: TensorLike | Sequence[TensorLike | None] | None = None,
    **options: Unpack[BackwardOptions],
) -> None: ...


async def backward(
    tensors: ValueRoot | Root | Sequence[Root],
    grad_tensors: object = None,
    *,
    retain_graph: bool | Literal["until_success"] | None = None,
    create_graph: bool = False,
    inputs: Tree = None,
) -> None:
    """Add the gradients of `tensors` with respect to the leaves of their graph to the leaves' `.grad`.

    Suspends where a node does and when the loop's time budget is spent, so that the event loop never stalls. A
    backward that raises, or is cancelled, leaves every `.grad` as it was.

    Args:
        tensors: a tensor or GradientEdge that requires grad, or a sequence of them.
        grad_tensors: for each of `tensors`, the starting gradient, of its shape; None (ones) if it has one element.
        retain_graph: keep the saved tensors, so that the graph can be run again; or keep them "until_success", so that
            after a failure or a cancellation the same call can be made again; None means `create_graph`.
        create_graph: record the backward itself, so that the gradients can be differentiated.
        inputs: accumulate into these tensors only, one, a sequence or a tree (`ag.tree`); None means all leaves.

    Raises:
        InvalidRootError: a root does not require grad, or is not a scalar and has no gradient to start from.
        InvalidGradientError: a starting gradient does not fit its root.
        ReleasedGraphError: the graph was run before without `retain_graph`.

    Source: torch.autograd.backward, whose `retain_graph` is a bool.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     await ag.backward((x * x).sum())
        ...     return x.grad
        >>> ag.run(main())
        tensor([2., 4.], dtype=float64, device='cpu')
    """
    await begin_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def begin_backward(
    tensors: ValueRoot | Root | Sequence[Root],
    grad_tensors: object,
    retain_graph: bool | Literal["until_success"] | None,
    create_graph: bool,
    inputs: object,
) -> Coroutine[object, None, object]:
    """Check the arguments of `backward`; return the coroutine that runs it."""
    if create_graph is not False or retain_graph is not None:
        retain_graph, create_graph = _check_flags(retain_graph, create_graph)
    wanted, structure = (None, None) if inputs is None else as_inputs(inputs)
    if wanted is not None and not wanted:
        raise GraphError("inputs is empty: name the tensors to differentiate with respect to, or leave it out")
    edges, grads = start_of(tensors, grad_tensors, create_graph)
    if wanted is not None:
        _retain_grads(wanted)
    if create_graph:
        warn(_CYCLE_WARNING)
    run = Engine.execute(
        edges,
        grads,
        keep_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        accumulate=True,
        inputs=() if wanted is None else input_edges(wanted, structure),
    )
    training_steps = _training_steps()
    return _in_training_steps(training_steps, run) if training_steps else run


def _retain_grads(wanted: Sequence[Root]) -> None:
    for tensor in wanted:
        if isinstance(tensor, TensorBase) and tensor._history() is not None:
            tensor.retain_grad()


async def _in_training_steps(steps: Sequence[TrainingStepLike], run: Coroutine[object, None, Any]) -> None:
    """Run a backward that belongs to training steps, and tell them of its begin and its end."""
    for step in steps:
        step.backward_begins()
    has_gradients = False
    try:
        await run
        has_gradients = True
    finally:
        for step in steps:
            step.backward_ends(has_gradients)


def _refuse_functions(grad: Callable[P, Coroutine[object, None, T]]) -> Callable[P, Coroutine[object, None, T]]:
    """Have the first argument looked at by the call, and not by the await: `ag.grad(f)` lacks the others.

    Raises:
        GradientTypeError: it is a function.
    """

    @functools.wraps(grad)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, T]:
        first = args[0] if args else kwargs.get("outputs")
        if callable(first) and not isinstance(first, (Node, TensorBase)):
            check_root("ag.grad: outputs", first)
        return grad(*args, **kwargs)

    # It still is a coroutine function to those who ask: before Python 3.12, to asyncio alone.
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(checked)
    else:
        coroutines: Any = asyncio.coroutines
        vars(checked)["_is_coroutine"] = coroutines._is_coroutine
    return checked


@overload
async def grad(
    outputs: ValueRoot | GradientEdge,
    inputs: Tree,
    grad_outputs: object = None,
    **options: Unpack[GradOptions],
) -> Any: ...


@overload
async def grad(
    outputs: Sequence[Root],
    inputs: Tree,
    grad_outputs: TensorLike | Sequence[object] | None = None,
    **options: Unpack[GradOptions],
) -> Any: ...


@overload
async def grad(
    outputs: TensorBase,
    inputs: Tree,
    grad_outputs: TensorLike | Sequence[TensorLike | None] | None = None,
    **options: Unpack[GradOptions],
) -> Any: ...


@_refuse_functions
async def grad(
    outputs: ValueRoot | Root | Sequence[Root],
    inputs: Tree,
    grad_outputs: object = None,
    *,
    retain_graph: bool | Literal["until_success"] | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
    is_grads_batched: bool = False,
    concurrency: int | None = None,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`; change no `.grad`, and suspend as `backward` does.

    Args:
        outputs: a tensor or GradientEdge, or a sequence of them.
        inputs: the same; or a tree (`ag.tree`) of them, and then the result is such a tree.
        grad_outputs: for each output, the starting gradient; None (ones) if the output has one element.
        retain_graph: keep the saved tensors, or "until_success", as in `backward`; None means `create_graph`.
        create_graph: record the backward itself.
        allow_unused: give None for an input that the outputs do not depend on, rather than raise.
        materialize_grads: give zeros, rather than None, for such an input.
        is_grads_batched: each of `grad_outputs` is a batch, of shape `(rows, *output.shape)`. One backward runs for
            each row, hooks included, and the results have the batch first: `(rows, *input.shape)`.
        concurrency: how many rows run at once: None for all where the graph waits, as far as their gradients fit into
            256 MiB.

    Returns:
        A tuple with a tensor for each input, or a tree like `inputs`. They are the caller's, who may write into them.

    Raises:
        UnusedInputError: the outputs do not depend on an input; all else as in `backward`.

    Source: torch.autograd.grad.

    Example:
        >>> import asyncgrad as ag
        >>> async def main():
        ...     x = ag.tensor(3.0, requires_grad=True)
        ...     (g,) = await ag.grad(x * x, [x], create_graph=True)
        ...     return await ag.grad(g, [x])
        >>> ag.run(main())
        (tensor(2., dtype=float64, device='cpu'),)
    """
    keep_graph, create_graph = _check_flags(retain_graph, create_graph)
    allow_unused, materialize_grads = _check_unused_options(allow_unused, materialize_grads)
    roots = as_sequence(outputs, "root")
    wanted, structure = as_some_inputs(inputs)
    given = as_gradients(outputs, roots, grad_outputs)
    batch: tuple[int, ...] = ()
    at_once, is_batch = _check_rows_at_once(concurrency, is_grads_batched)
    if is_batch:
        batch, captured = await _capture_rows(roots, given, wanted, structure, keep_graph, create_graph, at_once)
    else:
        captured = hand_over(await _capture(roots, given, wanted, structure, keep_graph, create_graph))
    results = tuple(
        _make_result(index, tensor, value, structure, allow_unused, materialize_grads, create_graph, batch)
        for index, (tensor, value) in enumerate(zip(wanted, captured, strict=True))
    )
    return like_inputs(results, structure)


def _check_rows_at_once(concurrency: Any, is_batch: Any) -> tuple[int | None, bool]:
    """Return both options, checked."""
    at_once, is_batch = check_concurrency(concurrency), truth(is_batch, "is_grads_batched")
    if at_once is not None and not is_batch:
        raise ArgumentError("concurrency says how many rows run at once, and there is one: pass is_grads_batched=True")
    return at_once, is_batch


async def capture(
    outputs: Sequence[TensorBase],
    grad_outputs: Sequence[Any],
    inputs: Sequence[TensorBase],
    keep_graph: bool | Literal["until_success"],
    create_graph: bool,
    commit: JointCommit | None = None,
) -> list[Any]:
    """Return the gradients of `outputs` with respect to `inputs`, None for an input that they do not depend on.

    The same as `grad`, for tensors that are known to be tensors.
    """
    root = outputs[0]
    data: Any = None if root._value_metadata is not None else root._data
    # One real number.
    if len(outputs) == 1 and grad_outputs[0] is None and data is not None and not data.shape and data.dtype.kind == "f":
        ones = values.ones_like(data, ())
        node = root._grad_fn
        edge = gradient_edge(root) if node is None or root._view is not None else Edge(node, root._output_nr)
        assert edge is not None
        edges, grads = [edge], [values.wrap(ones, root._device) if create_graph else ones]
    else:
        edges, grads = start_of_roots(outputs, grad_outputs, create_graph)
    captured = await Engine.execute(
        edges,
        grads,
        keep_graph=keep_graph,
        create_graph=create_graph,
        accumulate=False,
        inputs=input_edges(inputs, None),
        commit=commit,
    )
    return [
        None if value is None else _gradient_of(tensor, value)
        for tensor, value in zip(inputs, hand_over(captured), strict=True)
    ]


def _check_flags(retain_graph: Any, create_graph: Any) -> tuple[bool | Literal["until_success"], bool]:
    """Return whether to keep the graph, or UNTIL_SUCCESS, and whether to record, as a bool."""
    create_graph = truth(create_graph, "create_graph")
    if retain_graph is None:
        return create_graph, create_graph
    if not isinstance(retain_graph, str):
        return truth(retain_graph, "retain_graph"), create_graph
    if retain_graph != UNTIL_SUCCESS:
        raise ArgumentTypeError(
            must_be(
                "retain_graph",
                "True or False",
                retain_graph,
                f'or write retain_graph="{UNTIL_SUCCESS}", to keep the graph until a backward has succeeded',
            )
        )
    return UNTIL_SUCCESS, create_graph


def _check_unused_options(allow_unused: bool | None, materialize: bool) -> tuple[bool, bool]:
    """Return both options as bools; raise if they contradict each other."""
    materialize = truth(materialize, "materialize_grads")
    if allow_unused is None:
        return materialize, materialize
    allowed = truth(allow_unused, "allow_unused")
    if materialize and not allowed:
        raise ValueError("materialize_grads=True gives zeros for unused inputs: leave out allow_unused=False")
    return allowed, materialize


def _capture(
    roots: Sequence[Root],
    given: Any,
    wanted: Sequence[Root],
    structure: TreeStructure | None,
    keep_graph: bool | Literal["until_success"],
    create_graph: bool,
) -> Coroutine[object, None, list[Any]]:
    """Return the coroutine of one backward that captures the gradients of `wanted`."""
    edges, grads = start_of_roots(roots, given, create_graph)
    return Engine.execute(
        edges,
        grads,
        keep_graph=keep_graph,
        create_graph=create_graph,
        accumulate=False,
        inputs=input_edges(wanted, structure),
    )


async def _capture_rows(
    roots: Sequence[Root],
    given: Any,
    wanted: Sequence[Root],
    structure: TreeStructure | None,
    keep_graph: bool | Literal["until_success"],
    create_graph: bool,
    concurrency: int | None,
) -> tuple[tuple[int], list[Any]]:
    """Run one backward for each row of the batches `given`; return the batch's shape and the captured gradients.

    Raises:
        GraphError: an input is no array, so that there is no array of its gradients.
    """
    for index, tensor in enumerate(wanted):
        metadata = _metadata_of(tensor)
        if isinstance(metadata, ValueMetadata):
            raise GraphError(
                f"{input_name(index, structure)} is a value of type {metadata.type.name}, and is_grads_batched=True "
                "takes tensors alone: call ag.grad once for each row, with retain_graph=True"
            )
    size, captured = await execute_batched(
        roots,
        given,
        functools.partial(start_of_roots, roots, create_graph=create_graph),
        functools.partial(input_edges, wanted, structure),
        keep_graph=keep_graph,
        create_graph=create_graph,
        concurrency=concurrency,
    )
    return (size,), captured


def _metadata_of(root: Root) -> object:
    """Return what the gradient of a value must look like; for a tensor None, or an InputMetadata."""
    if isinstance(root, GradientEdge):
        return root.node.input_metadata[root.output_nr]
    return root._value_metadata


def _make_result(
    index: int,
    tensor: Root,
    value: Any,
    structure: TreeStructure | None,
    allow_unused: bool,
    materialize: bool,
    create_graph: bool,
    batch: tuple[int, ...],
) -> Any:
    if value is not None:
        if isinstance(tensor, GradientEdge):
            return values.wrap(value, tensor.node.device)
        return _gradient_of(tensor, value)
    if not allow_unused:
        raise UnusedInputError(
            f"{input_name(index, structure)} ({label_of(tensor)}) was not used to compute the outputs, or no gradient "
            "flows to it: pass allow_unused=True to get None for it, or materialize_grads=True to get zeros"
        )
    if not materialize:
        return None
    if isinstance(tensor, TensorBase) and tensor._value_metadata is not None:
        return tensor._value_metadata.zero()
    if isinstance(tensor, GradientEdge):
        raise GraphError(
            f"materialize_grads cannot make zeros for {input_name(index, structure)}: a GradientEdge has no array"
        )
    zeros = values.wrap(values.zeros(batch + tensor._data.shape, tensor._data.dtype, tensor._device), tensor._device)
    if create_graph:
        zeros.requires_grad_()
    return zeros


def _gradient_of(tensor: TensorBase, value: Any) -> Any:
    """Return a captured gradient as a tensor like the one that it is for; that of a value as it is."""
    if tensor._value_metadata is not None:
        return values.wrap(value, None)
    result, dtype = values.wrap(value, tensor._device), tensor._data.dtype
    # A sum has the byte order of the machine, which the input need not have.
    return result if result._data.dtype is dtype else result.astype(dtype, copy=False)
