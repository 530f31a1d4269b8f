"""`backward` and `grad`, which users call to run a backward."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

import numpy as np

from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientTypeError,
    GraphError,
    InvalidGradientError,
    InvalidRootError,
    RequiresGradError,
    UnusedInputError,
)
from .arrays import values
from .arrays.ownership import hand_over, private_copy
from .arrays.tensor_base import TensorBase
from .batched import execute_batched
from .engine.completion import warn
from .engine.engine import Engine
from .engine.until_success import UNTIL_SUCCESS
from .graph.leaf import Identity, gradient_edge, make_edge
from .graph.metadata import InputMetadata, fit
from .graph.node import Edge, GradientEdge, Node
from .graph.value_metadata import ValueMetadata
from .rows import check_concurrency
from .settings.arguments import describe, must_be, truth
from .settings.context import TRAINING_STEPS, TrainingStepLike
from .tree.registry import container_type
from .tree.structure import TreeStructure, flatten, paths, unflatten

if TYPE_CHECKING:
    from .arrays.array_like import TensorLike
    from .arrays.value_type import ValueType
    from .tree.structure import Tree


__all__ = ["BackwardOptions", "GradOptions", "Root", "ValueRoot", "backward", "capture", "grad"]

Root = TensorBase | GradientEdge
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
    if create_graph is not False or retain_graph is not None:
        retain_graph, create_graph = _check_flags(retain_graph, create_graph)
    wanted, structure = (None, None) if inputs is None else _as_inputs(inputs)
    if wanted is not None and not wanted:
        raise GraphError("inputs is empty: name the tensors to differentiate with respect to, or leave it out")
    edges, grads = _start(tensors, grad_tensors, create_graph)
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
        inputs=() if wanted is None else _input_edges(wanted, structure),
    )
    # So that the node of a root has the only reference to its gradient, which a user's body else gets a copy of.
    del grads
    training_steps = TRAINING_STEPS.get()
    await (_in_training_steps(training_steps, run) if training_steps else run)


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
            _check_root("ag.grad: outputs", first)
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
    roots = _as_sequence(outputs, "root")
    wanted, structure = _as_some_inputs(inputs)
    given = _as_gradients(outputs, roots, grad_outputs)
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
    return _like_inputs(results, structure)


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
        edges, grads = _check_roots(outputs, grad_outputs, create_graph)
    captured = await Engine.execute(
        edges,
        grads,
        keep_graph=keep_graph,
        create_graph=create_graph,
        accumulate=False,
        inputs=_input_edges(inputs, None),
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
    edges, grads = _check_roots(roots, given, create_graph)
    return Engine.execute(
        edges,
        grads,
        keep_graph=keep_graph,
        create_graph=create_graph,
        accumulate=False,
        inputs=_input_edges(wanted, structure),
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
                f"{_input_name(index, structure)} is a value of type {metadata.type.name}, and is_grads_batched=True "
                "takes tensors alone: call ag.grad once for each row, with retain_graph=True"
            )
    size, captured = await execute_batched(
        roots,
        given,
        functools.partial(_check_roots, roots, create_graph=create_graph),
        functools.partial(_input_edges, wanted, structure),
        keep_graph=keep_graph,
        create_graph=create_graph,
        concurrency=concurrency,
    )
    return (size,), captured


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
            f"{_input_name(index, structure)} ({_label(tensor)}) was not used to compute the outputs, or no gradient "
            "flows to it: pass allow_unused=True to get None for it, or materialize_grads=True to get zeros"
        )
    if not materialize:
        return None
    if isinstance(tensor, TensorBase) and tensor._value_metadata is not None:
        return tensor._value_metadata.zero()
    if isinstance(tensor, GradientEdge):
        raise GraphError(
            f"materialize_grads cannot make zeros for {_input_name(index, structure)}: a GradientEdge has no array"
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


def _as_sequence(tensors: Any, role: str) -> tuple[Root, ...]:
    """Return one tensor or several as a tuple; `role` names them in errors."""
    if isinstance(tensors, TensorBase):
        return (tensors,)
    alone = isinstance(tensors, (GradientEdge, Edge, np.ndarray, str)) or not isinstance(tensors, Iterable)
    roots = (tensors,) if alone else tuple(tensors)
    for index, root in enumerate(roots):
        if not isinstance(root, TensorBase):
            _check_root(f"{role} {index}", root)
    return roots


def _check_root(where: str, root: Any) -> None:
    """Raise unless something that is no tensor is a GradientEdge that leads to an input of a node."""
    if not isinstance(root, GradientEdge):
        raise GradientTypeError(must_be(where, "a Tensor or a GradientEdge", root, _tensor_instead(where, root)))
    _check_edge(where, root)


def _tensor_instead(where: str, root: Any) -> str:
    """Return what to write in place of what is no tensor."""
    if inspect.isawaitable(root):
        if inspect.iscoroutine(root):
            # Nobody will await it any more.
            root.close()
        return "await it first"
    if isinstance(root, Node):
        return "write ag.graph.GradientEdge(node, 0)"
    if callable(root) and not where.startswith("input"):
        return "call it, and pass the tensor that it returns; or write ag.func.grad(f) for the gradient of a function"
    return "gradients flow through tensors, made by ag.tensor(..., requires_grad=True)"


def _check_edge(where: str, edge: GradientEdge) -> None:
    """Raise unless an edge leads to an input of a node."""
    node, output_nr = edge
    hint = "take it from ag.graph.get_gradient_edge(t)"
    if node is None:
        raise GraphError(f"{where} is a GradientEdge that leads to no node: {hint}")
    if not isinstance(node, Node):
        raise GradientTypeError(f"{where} is a GradientEdge to {describe(node)}, and not to a Node: {hint}")
    if not hasattr(output_nr, "__index__") or isinstance(output_nr, bool):
        raise GradientTypeError(
            f"{where} is a GradientEdge of {node.name} whose output_nr is {describe(output_nr)}, and not an int: {hint}"
        )
    if not 0 <= output_nr < node.num_inputs:
        raise GraphError(
            f"{where} is edge {output_nr} of {node.name}, which made {values.counted(node.num_inputs, 'output')}: "
            f"{hint}"
        )


def _as_inputs(inputs: Any) -> tuple[tuple[Root, ...], TreeStructure | None]:
    """Return the inputs as a tuple, and their structure, if they are a tree and not only a sequence."""
    if isinstance(inputs, (list, tuple)) and not isinstance(inputs, (GradientEdge, Edge)):
        is_tree = hasattr(inputs, "_fields") or any(
            not isinstance(value, TensorBase) and _is_container(value) for value in inputs
        )
    else:
        is_tree = _is_container(inputs)
    if not is_tree:
        if isinstance(inputs, Mapping):
            raise TypeError(
                f"inputs may be a dict, and not another mapping such as {type(inputs).__name__}: write dict(inputs)"
            )
        return _as_sequence(inputs, "input"), None
    leaves, structure = flatten(inputs, _is_edge)
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, TensorBase):
            _check_root(_input_name(index, structure), leaf)
    return tuple(leaves), structure


def _as_some_inputs(inputs: Any) -> tuple[tuple[Root, ...], TreeStructure | None]:
    """Return what `_as_inputs` does; raise if there is none."""
    wanted, structure = _as_inputs(inputs)
    if not wanted:
        raise GraphError("inputs is empty: name the tensors to differentiate with respect to")
    return wanted, structure


def _like_inputs(results: tuple[Any, ...], structure: TreeStructure | None) -> Any:
    """Return gradients in the structure of the inputs; for a list of them as a tuple."""
    if structure is None:
        return results
    tree = unflatten(structure, results)
    return tuple(tree) if structure.cls is list else tree


def _is_container(value: Any) -> bool:
    """Tell whether this is a container of inputs."""
    return (
        not isinstance(value, (TensorBase, GradientEdge, Edge))
        and value is not None
        and container_type(type(value)) is not None
    )


def _is_edge(value: Any) -> bool:
    return isinstance(value, (GradientEdge, Edge))


def _input_name(index: int, structure: TreeStructure | None) -> str:
    """Return the name of an input in errors."""
    path = "" if structure is None else f", {next(islice(paths(structure, 'inputs'), index, None))}"
    return f"input {index}{path}"


def _metadata_of(root: Root) -> object:
    """Return what the gradient of a value must look like; for a tensor None, or an InputMetadata."""
    if isinstance(root, GradientEdge):
        return root.node.input_metadata[root.output_nr]
    return root._value_metadata


def _label(root: Root) -> str:
    if isinstance(root, GradientEdge):
        return f"edge {root.output_nr} of {root.node.name}"
    made_by = f", made by {root._grad_fn.name}" if root._grad_fn is not None else ""
    if root._value_metadata is not None:
        return f"value of type {root._value_metadata.type.name}{made_by}"
    return f"tensor of shape {root._data.shape} and dtype {root._data.dtype}{made_by}"


def _as_gradients(tensors: Any, roots: Sequence[Root], given: Any) -> Sequence[Any]:
    """Return the starting gradients as a sequence, whose length is yet to be checked.

    Args:
        tensors: the roots as the user wrote them.
        roots: the roots.
        given: the gradients as the user wrote them. A list or a tuple has one for each root, and so has any other
            sequence, except strings and arrays. But for a single root, another sequence that holds no tensor or array
            is the gradient itself; and so is anything for a single value that is no array.
    """
    if given is None:
        return (None,) * len(roots)
    if isinstance(given, (TensorBase, np.ndarray)) or not isinstance(given, Sequence):
        return (given,)
    if isinstance(tensors, TensorBase) and tensors._value_metadata is not None:
        # The gradient of a value may be a list itself.
        return (given,)
    if given.__class__ in (list, tuple):
        return given
    is_one = isinstance(given, (str, bytes, bytearray)) or values.is_device_array(given)
    if not is_one and isinstance(tensors, (TensorBase, GradientEdge)):
        is_one = not any(isinstance(item, (TensorBase, np.ndarray)) or values.is_device_array(item) for item in given)
    return (given,) if is_one else given


def _check_roots(roots: Sequence[Root], given: Sequence[Any], create_graph: bool) -> tuple[list[Edge], list[Any]]:
    """Return the edges of the roots and the starting gradients; raise if one of them is invalid."""
    if not roots:
        raise InvalidRootError("there is nothing to run backward from: pass at least one tensor")
    if len(given) != len(roots):
        raise InvalidGradientError(
            f"a backward from {values.counted(len(roots), 'root')} starts from as many gradients, and was given "
            f"{len(given)}: a tensor or an array is one gradient, a list has one for each root"
        )
    edges: list[Edge] = []
    grads: list[Any] = []
    for index, root in enumerate(roots):
        gradient = given[index]
        edge = Edge(*root) if isinstance(root, GradientEdge) else gradient_edge(root)
        if edge is None or edge.node is None:
            raise InvalidRootError(
                f"root {index} ({_label(root)}) does not require grad and has no grad_fn: "
                "compute it from a tensor made with requires_grad=True, outside of no_grad()"
            )
        if gradient is not None and _clearly_fits(gradient, edge):
            grads.append(_own_gradient(gradient, edge.node.device, create_graph))
            edges.append(edge)
            continue
        metadata = edge.node.input_metadata[edge.input_nr]
        if isinstance(metadata, ValueMetadata):
            grads.append(_value_gradient(index, gradient, metadata))
            edges.append(edge)
            continue
        if metadata is None:
            if gradient is None:
                raise InvalidRootError(f"root {index} ({_label(root)}) has no known shape: pass a gradient for it")
            edges.append(edge)
            grads.append(private_copy(gradient if create_graph else values.raw(gradient)))
            continue
        if metadata.was_default_constructed:
            raise InvalidRootError(f"root {index} ({_label(root)}) is an output that has no gradient: take another")
        if gradient is None:
            value = _make_implicit_gradient(index, root, metadata)
            grads.append(values.wrap(value, edge.node.device) if create_graph else value)
        else:
            value = _check_gradient(index, root, gradient, metadata)
            grads.append(_own_gradient(value, edge.node.device, create_graph))
        edges.append(edge)
    return edges, grads


def _start(tensors: Any, gradients: Any, create_graph: bool) -> tuple[list[Edge], list[Any]]:
    """Return the edges and the gradients that a backward starts from; raise if one of them is invalid."""
    if isinstance(tensors, TensorBase) and not create_graph:
        plain = _plain_start(tensors, gradients)
        if plain is not None:
            return plain
    roots = _as_sequence(tensors, "root")
    return _check_roots(roots, _as_gradients(tensors, roots, gradients), create_graph)


def _plain_start(root: TensorBase, gradient: Any) -> tuple[list[Edge], list[Any]] | None:
    """Return what `_check_roots` does for a root that most often is one; None for what it looks at closer.

    That is a result whose node has no hooks, and starts from an array that fits, or from 1 where it is one real number.
    """
    node = root._grad_fn
    # What a Value has is no array: it is asked for none.
    if node is None or root._view is not None or node.meta is not None or root._value_metadata is not None:
        return None
    if root._data.__class__ is not np.ndarray:
        return None
    if gradient is None:
        if node.shape != () or node.dtype.kind != "f":
            return None
        # As `values.ones_like`.
        start = np.empty((), node.dtype)
        start.fill(1)
    else:
        array = gradient
        if isinstance(gradient, TensorBase):
            if gradient._device is not node.device:
                return None
            array = gradient._data
        if array.__class__ is not np.ndarray or array.shape != node.shape or array.dtype is not node.dtype:
            return None
        # The caller may write into theirs meanwhile.
        start = array.copy("K")
    if node.device is not None and not node.device.has_host_arrays:
        return None
    return [make_edge((node, root._output_nr))], [start]


def _value_gradient(index: int, gradient: Any, metadata: ValueMetadata) -> Any:
    """Return the starting gradient of a root that is no array."""
    given = metadata.type.seed(metadata.description) if gradient is None else gradient
    return metadata.take(given, lambda it: f"the gradient of root {index}, a {metadata.type.name}, is {it}")


def _own_gradient(gradient: Any, device: Any, create_graph: bool) -> Any:
    """Return a starting gradient in memory of the engine's own: the caller may write into theirs meanwhile.

    An array of a device is taken as it is: a copy is a launch there, which nearly all would pay for nothing.
    """
    array = gradient._data if isinstance(gradient, TensorBase) else gradient
    if create_graph:
        return values.wrap(private_copy(gradient) if isinstance(array, np.ndarray) else gradient, device)
    return private_copy(array) if isinstance(array, np.ndarray) else array


def _clearly_fits(gradient: Any, edge: Edge) -> bool:
    """Tell whether a gradient certainly fits, as nearly all do; False means that it must be checked."""
    node: Any = edge.node
    # What a plain node says of itself, a user's says of each of its outputs.
    slot = node if node.meta is None else node.input_metadata[edge.input_nr]
    if slot.__class__ is not InputMetadata and slot is not node:
        return False
    device = slot.device
    if isinstance(gradient, TensorBase):
        array, is_there = gradient._data, device is gradient._device
    else:
        array, is_there = gradient, gradient.__class__ is np.ndarray and (device is None or device.has_host_arrays)
    return is_there and array.shape == slot.shape and array.dtype is slot.dtype


def _make_implicit_gradient(index: int, root: Root, metadata: InputMetadata) -> Any:
    if math.prod(metadata.shape) != 1:
        raise InvalidRootError(
            f"root {index} ({_label(root)}) is not a scalar, so there is no one gradient to start from: "
            "pass one of its shape (gradient= or grad_outputs=), or run backward on .sum()"
        )
    if metadata.dtype.kind == "c":
        raise InvalidRootError(
            f"root {index} ({_label(root)}) is complex: pass a gradient to start from, or take its real part"
        )
    device = metadata.device
    if device is not None and not device.has_host_arrays and isinstance(root, TensorBase):
        return values.ones_like(root._data, metadata.shape)
    # The same as np.ones, in a third of the time.
    ones = np.empty(metadata.shape, metadata.dtype)
    ones.fill(1)
    return values.on_device(ones, device)


def _check_gradient(index: int, root: Root, gradient: Any, metadata: InputMetadata) -> Any:
    if not isinstance(gradient, TensorBase):
        values.refuse_masked(gradient)
        is_device_array = values.is_device_array(gradient)
        if not (is_device_array or isinstance(gradient, (np.ndarray, np.generic, int, float, complex))):
            raise GradientTypeError(
                must_be(
                    f"the gradient of root {index} ({_label(root)})",
                    "a tensor or an array",
                    gradient,
                    "write np.asarray(...)",
                )
            )
        if not is_device_array:
            gradient = values.on_device(np.asarray(gradient), metadata.device)
    elif metadata.device not in (None, gradient._device):
        raise InvalidGradientError(
            f"the gradient of root {index} is on '{gradient._device}', and the root ({_label(root)}) is on "
            f"'{metadata.device}': write gradient.to('{metadata.device}')"
        )
    if gradient.shape != metadata.shape:
        raise InvalidGradientError(
            f"the gradient of root {index} has shape {gradient.shape}, and the root ({_label(root)}) has shape "
            f"{metadata.shape}: pass one of that shape"
        )
    if (gradient.dtype.kind == "c") != (metadata.dtype.kind == "c"):
        raise InvalidGradientError(
            f"the gradient of root {index} has dtype {gradient.dtype}, and the root has dtype {metadata.dtype}: "
            "either both are complex or neither is"
        )
    fitted = fit(gradient, metadata)
    if isinstance(fitted, str):
        raise InvalidGradientError(
            f"the gradient of root {index} has dtype {gradient.dtype}, and the root ({_label(root)}) has dtype "
            f"{metadata.dtype}: pass numbers, for example gradient.astype({metadata.dtype})"
        )
    return fitted


def _input_edges(inputs: Sequence[Root], structure: TreeStructure | None) -> list[Edge]:
    edges = []
    for index, tensor in enumerate(inputs):
        if isinstance(tensor, GradientEdge):
            edges.append(Edge(*tensor))
            continue
        node = tensor._grad_fn if tensor._view is None else tensor._history()
        if node is not None:
            edges.append(Edge(node, tensor._output_nr))
            continue
        meta = tensor._meta
        if meta is None or not meta.requires_grad:
            raise RequiresGradError(
                f"{_input_name(index, structure)} ({_label(tensor)}) does not require grad: call .requires_grad_() on "
                "it before use"
            )
        accumulate = None if meta.accumulator is None else meta.accumulator()
        # Where no graph holds this leaf, a new accumulator would be freed at once, and a later call would make another.
        edges.append(Edge(Identity() if accumulate is None else accumulate, 0))
    return edges
