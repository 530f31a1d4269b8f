"""Helpers of the transforms: checks of functions and arguments, and gradients with undefined entries."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import CreationMeta
from ..core.arrays.values import is_device_array, wrap, zeros_like
from ..core.backward import capture
from ..core.engine.joint_commit import JointCommit
from ..core.function.function import Function
from ..core.graph.leaf import gradient_edge
from ..core.rows import run_rows
from ..core.settings.arguments import check_function, describe, truth
from ..core.settings.context import GRAD_MODE, IN_TRANSFORM, set_grad_mode
from ..core.tensor import Tensor, asarray
from ..core.tree.registry import container_type
from ..core.tree.structure import leaves
from ..core.value import Value
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientTypeError,
    InvalidGradientError,
    InvalidRootError,
    RequiresGradError,
    UnusedInputError,
)

__all__ = [
    "FOR_VALUES",
    "argument_positions",
    "as_inputs",
    "as_outputs",
    "as_scalar",
    "as_tensor",
    "as_vector",
    "check_argnums",
    "check_call",
    "conjugates",
    "fill_missing",
    "gradient_rows",
    "gradients",
    "new_input",
    "new_inputs",
    "pack_results",
    "require_complex",
    "require_history",
    "require_output_history",
    "require_tensor",
    "transform_scope",
    "zeros_like_tensor",
]

#: What to write, in errors of transforms that take no values.
FOR_VALUES = "differentiate with ag.func.grad or ag.func.vjp, which take values, or with await ag.backward(...)"

_ARRAYS = (Tensor, np.ndarray, np.generic, float, complex, int)


@final
class transform_scope:
    """Inside, operations are recorded for a transform; a context manager.

    It yields whether the transform's results keep their history. If the caller does not choose, they keep it where they
    may be differentiated again: inside another transform, or if an argument requires grad. So transforms nest, and none
    treats the result of another as a constant.

    Args:
        create_graph: the caller's choice, or None.
        *given: the caller's arguments, which are trees.
    """

    __slots__ = ("_create_graph", "_in_transform", "_was_enabled")

    def __init__(self, create_graph: bool | None, *given: Any) -> None:
        self._was_enabled = bool(GRAD_MODE.get())
        if create_graph is None:
            create_graph = self._was_enabled and (IN_TRANSFORM.get() or _any_requires_grad(given))
        self._create_graph: bool = create_graph

    def __enter__(self) -> bool:
        self._in_transform = IN_TRANSFORM.set(True)
        if not self._was_enabled:
            set_grad_mode(True)
        return self._create_graph

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            IN_TRANSFORM.reset(self._in_transform)
        except ValueError:
            # The coroutine of the transform was closed in another context, whose modes must not change.
            return
        if bool(GRAD_MODE.get()) is not self._was_enabled:
            set_grad_mode(self._was_enabled)


def _any_requires_grad(tree: Any) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves(tree))


def check_call(where: str, fn: Any, inputs: Any, create_graph: Any, strict: Any) -> tuple[bool | None, bool]:
    """Check the function and the options of a transform; return `create_graph` (a bool or None) and `strict` (a bool).

    Raises:
        ArgumentTypeError: the function or an option is of a wrong type.
    """
    check_function(fn, where, inputs)
    return None if create_graph is None else truth(create_graph, "create_graph"), truth(strict, "strict")


def as_tensor(given: Any, what: str) -> Tensor:
    """Return a tensor or an array as a tensor; `what` is its name in errors.

    Raises:
        GradientTypeError: it is neither.
    """
    if not (isinstance(given, _ARRAYS) or is_device_array(given)):
        hint = "" if container_type(type(given)) is None else ": the transforms of asyncgrad.func take trees of arrays"
        if isinstance(given, Value):
            hint = f": {FOR_VALUES}"
        raise GradientTypeError(f"{what} must be a tensor or an array, not {_kind(given)}{hint}")
    return asarray(given)


def as_inputs(given: Any, where: str, what: str = "inputs") -> tuple[tuple[Tensor, ...], bool]:
    """Return tensors or arrays, one or a tuple of them, as a tuple of tensors; and whether it was a tuple.

    Raises:
        GradientTypeError: an entry is neither a tensor nor an array.
    """
    is_tuple = isinstance(given, tuple)
    entries = given if is_tuple else (given,)
    if not entries:
        raise GradientTypeError(f"{where}: {what} must have at least one tensor, not an empty tuple")
    if isinstance(given, list):
        raise GradientTypeError(
            f"{where}: {what} must be a tensor, an array or a tuple of them, not a list: write a tuple, or use "
            "asyncgrad.func, whose transforms take trees"
        )
    names = [f"{where}: {what}[{index}]" for index in range(len(entries))] if is_tuple else [f"{where}: {what}"]
    return tuple(map(as_tensor, entries, names)), is_tuple


def as_outputs(returned: Any, where: str) -> tuple[tuple[Tensor, ...], bool]:
    """Return the result of a user's function, a tensor or a tuple of them, as a tuple; and whether it was a tuple.

    Raises:
        GradientTypeError: it is anything else, for example an array, which has no history.
    """
    is_tuple = isinstance(returned, tuple)
    entries = returned if is_tuple else (returned,)
    for index, entry in enumerate(entries):
        if not isinstance(entry, Tensor):
            name = f"output {index} of the function" if is_tuple else "the function's output"
            raise GradientTypeError(f"{where}: {name} must be a Tensor, not {_kind(entry)}{_without_history(entry)}")
    if not entries:
        raise GradientTypeError(f"{where}: the function must return at least one Tensor, not an empty tuple")
    return entries, is_tuple


def as_scalar(returned: Any, where: str, may_be_complex: bool = False) -> Tensor:
    """Return the result of a user's function, which must be one tensor with one element, real unless told otherwise.

    Raises:
        GradientTypeError: it is not a tensor, or it is complex.
        InvalidRootError: it has no element, or several.
    """
    if not isinstance(returned, Tensor):
        raise GradientTypeError(
            f"{where}: the function must return one number as a Tensor, not {_kind(returned)}"
            f"{_without_history(returned)}"
        )
    data = returned._data
    if data.size != 1:
        raise InvalidRootError(
            f"{where}: the function must return one number, not a tensor of shape {returned.shape}: "
            "take its .sum() or .mean()"
        )
    if data.dtype.kind == "c" and not may_be_complex:
        raise GradientTypeError(
            f"{where}: the function must return a real number, not one of dtype {returned.dtype}: "
            "take its .real or .imag"
        )
    return returned


def as_vector(v: Any, like: Sequence[Tensor], like_what: str, where: str) -> tuple[Tensor, ...] | None:
    """Return the vector of a product as a tuple with the shapes of `like`, or None if it was omitted.

    Raises:
        InvalidGradientError: the shapes differ, or `v` was omitted although `like` is not one number.
    """
    if v is None:
        if len(like) != 1 or like[0].size != 1:
            shapes = ", ".join(str(tensor.shape) for tensor in like)
            raise InvalidGradientError(
                f"{where}: v may be omitted only if the {like_what} is one tensor with one element, not of shape "
                f"{shapes}: pass v of that shape"
            )
        return None
    vector, _ = as_inputs(v, where, "v")
    given = v if isinstance(v, tuple) else (v,)
    if len(vector) != len(like):
        raise InvalidGradientError(f"{where}: v has {len(vector)} tensors, but the {like_what} has {len(like)}")
    for index, (part, tensor) in enumerate(zip(vector, like, strict=True)):
        if part.shape != tensor.shape:
            raise InvalidGradientError(
                f"{where}: v[{index}] must have the shape {tensor.shape} of {like_what} {index}, not {part.shape}"
            )
    # An array has no device: move it to the device of the tensor that it multiplies.
    return tuple(
        part if isinstance(one, Tensor) else asarray(part._data, device=tensor.device)
        for one, part, tensor in zip(given, vector, like, strict=False)
    )


@final
class Alias(Function):
    """A value as another value of the same object."""

    @staticmethod
    def forward(ctx: Any, value: Value) -> Value:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any]:
        return (gradient,)


def new_input(tensor: Any, create_graph: bool, what: str) -> Any:
    """Return a new tensor, or value, that shares the data of `tensor` and requires grad; `what` is its name in errors.

    It is new so that the gradient of an argument excludes uses of the same tensor that the function has captured. With
    `create_graph` it keeps the history of `tensor`, and in-place writes into it raise an error.

    Raises:
        RequiresGradError: its dtype cannot require grad.
    """
    if isinstance(tensor, Value):
        return Alias.apply(tensor) if create_graph and tensor.requires_grad else tensor.detach().requires_grad_()
    if create_graph and tensor.requires_grad:
        alias = tensor.reshape(tensor.shape)
        view = alias._view_meta()
        assert view is not None
        # A write would give it another node, and the gradient for this one would be undefined.
        view.creation = CreationMeta.IN_TRANSFORM
        return alias
    if tensor.dtype.kind not in "fc":
        raise RequiresGradError(
            f"{what} has dtype {tensor.dtype}, but only floating and complex tensors can require grad: "
            "convert it first, for example x.astype(float)"
        )
    return tensor.detach().requires_grad_()


def new_inputs(inputs: Any, create_graph: bool, where: str) -> tuple[tuple[Tensor, ...], bool]:
    """Return the inputs of a transform as a tuple of new tensors; and whether they were given as a tuple."""
    given, is_tuple = as_inputs(inputs, where)
    return tuple(
        new_input(tensor, create_graph, f"{where}: input {index}") for index, tensor in enumerate(given)
    ), is_tuple


def zeros_like_tensor(tensor: Any) -> Any:
    """Return zeros with the shape, dtype and device of `tensor`; for a value, what its type says."""
    if isinstance(tensor, Value):
        return tensor._value_metadata.zero()
    return asarray(zeros_like(tensor._data, tensor.shape), device=tensor.device)


async def gradients(
    outputs: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] | None = None,
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients for `inputs`, with None for undefined ones; ignore outputs that do not require grad."""
    grad_outputs = grad_outputs or (None,) * len(outputs)
    roots: list[Tensor] = []
    given: list[Tensor | None] = []
    for output, grad_output in zip(outputs, grad_outputs, strict=True):
        if output is not None and (output._grad_fn is not None or output._requires_grad()):
            roots.append(output)
            given.append(grad_output)
    if not roots:
        return (None,) * len(inputs)
    keep_graph = create_graph if retain_graph is None else retain_graph
    return tuple(await capture(roots, given, inputs, keep_graph, create_graph))


async def gradient_rows(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    *,
    create_graph: bool,
    units: Sequence[complex] | None = None,
    concurrency: int | None = None,
) -> list[list[tuple[Tensor | None, ...]]]:
    """Return for each output, and for each of its elements in C order, the gradients for `inputs`.

    The graph is retained. The rows of all outputs run together, as far as they wait.

    Args:
        outputs: tensors of any shapes.
        inputs: the tensors to differentiate with respect to.
        create_graph: record how the gradients are computed.
        units: for each output, the gradient of the element itself; None for 1.
        concurrency: how many rows at once; None for all where the graph waits, and one where it only computes.
    """
    starts = [
        (output, element, unit)
        for output, unit in zip(outputs, units or [1] * len(outputs), strict=True)
        if output.requires_grad
        for element in range(output.size)
    ]

    def row(index: int) -> Coroutine[object, None, list[Tensor | None]]:
        output, element, unit = starts[index]
        one_hot = np.zeros(output.size, output.dtype)
        one_hot[element] = unit
        # Not by `gradients`: each coroutine between a row and what it waits for is entered at each wait.
        grad = wrap(one_hot.reshape(output.shape), output._device)
        return capture((output,), (grad,), inputs, True, create_graph, commit)

    commit = JointCommit()
    edges = [gradient_edge(output) for output in outputs]
    roots = [None if edge is None else edge.node for edge in edges]
    rows = iter(await commit.after(run_rows(row, len(starts), roots, concurrency=concurrency)))
    return [
        [tuple(next(rows)) if output.requires_grad else (None,) * len(inputs) for _ in range(output.size)]
        for output in outputs
    ]


def fill_missing(
    grads: Sequence[Tensor | None],
    like: Sequence[Tensor],
    *,
    strict: bool,
    create_graph: bool,
    missing: str,
    constant: str,
) -> tuple[Tensor, ...]:
    """Return gradients with zeros for undefined ones.

    Args:
        grads: the gradients; None if undefined.
        like: tensors with the shapes, dtypes and devices of the zeros.
        strict: raise instead; with `create_graph` also for a gradient that does not require grad.
        create_graph: whether the caller has asked for gradients with a history.
        missing: the error message for an undefined gradient; `{}` is its index.
        constant: the error message for a gradient that does not require grad.

    Raises:
        UnusedInputError: with `strict`, a gradient is undefined, or one does not require grad under `create_graph`.
    """
    if strict:
        for index, gradient in enumerate(grads):
            if gradient is None:
                raise UnusedInputError(
                    f"{missing.format(index)}, which strict=True does not allow: write strict=False for zeros"
                )
            if create_graph and not gradient.requires_grad:
                raise UnusedInputError(
                    f"{constant.format(index)}, which strict=True with create_graph=True does not allow"
                )
    return tuple(
        [
            zeros_like_tensor(tensor) if gradient is None else gradient
            for gradient, tensor in zip(grads, like, strict=True)
        ]
    )


def conjugates(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the complex derivatives that gradients of a holomorphic function stand for."""
    return tuple([np.conjugate(tensor) for tensor in tensors])  # type: ignore[misc]


def require_complex(tensors: Sequence[Any], what: str) -> None:
    """Raise unless all tensors are complex; `what` names them in errors.

    Raises:
        GradientTypeError: one is real.
    """
    for tensor in tensors:
        if isinstance(tensor, Value):
            raise GradientTypeError(f"{what} must be complex, and not {describe(tensor)}: leave out holomorphic")
        if tensor.dtype.kind != "c":
            raise GradientTypeError(f"{what} must be complex, not of dtype {tensor.dtype}: write x.astype(complex)")


def require_history(tensors: Sequence[Tensor | None], message: str) -> None:
    """Raise unless all tensors require grad; `{}` in the message is the index of the first that does not.

    Raises:
        UnusedInputError: a tensor is None or does not require grad.
    """
    for index, tensor in enumerate(tensors):
        if tensor is None or not tensor.requires_grad:
            raise UnusedInputError(
                f"{message.format(index)}, which strict=True does not allow: write strict=False for zeros"
            )


def require_output_history(outputs: Sequence[Tensor], output_name: str) -> None:
    """Raise unless all outputs require grad; in errors, `output_name` names one, with `{}` for its index.

    Raises:
        UnusedInputError: an output does not require grad.
    """
    require_history(outputs, f"{output_name} is not computed from the inputs by differentiable operations")


def pack_results(tensors: Sequence[Tensor], as_tuple: bool, create_graph: bool) -> Any:
    """Return results as a tuple or as a single tensor, detached unless `create_graph`; what is no tensor as it is."""
    results = tuple(tensors if create_graph else [one.detach() if isinstance(one, Tensor) else one for one in tensors])
    return results if as_tuple else results[0]


def check_argnums(argnums: Any) -> None:
    """Raise unless `argnums` is an int or a non-empty tuple of distinct ints."""
    entries = argnums if isinstance(argnums, tuple) else (argnums,)
    if not entries or not all(
        isinstance(entry, (int, np.integer)) and not isinstance(entry, bool) for entry in entries
    ):
        instead = f": write {tuple(argnums)!r}" if isinstance(argnums, list) and argnums else ""
        if hasattr(argnums, "dtype") or isinstance(argnums, (float, dict)):
            instead = ": what the function takes is passed to what the transform returns, as in ag.func.grad(f)(x)"
        raise ArgumentTypeError(
            f"argnums must be an int or a tuple of ints, the positions of arguments, not {argnums!r}{instead}"
        )
    if len(set(entries)) != len(entries):
        raise ArgumentError(f"argnums {argnums!r} names an argument twice")


def argument_positions(argnums: int | tuple[int, ...], count: int) -> list[int]:
    """Return `argnums` as non-negative positions, for a call with `count` positional arguments."""
    if isinstance(argnums, int) and 0 <= argnums < count:
        return [argnums]
    entries = argnums if isinstance(argnums, tuple) else (argnums,)
    for entry in entries:
        if not -count <= entry < count:
            raise ArgumentTypeError(
                f"argnums names argument {entry}, but the function was called with {count} positional arguments: "
                "pass the arguments to differentiate by position"
            )
    positions = [entry % count for entry in entries]
    if len(set(positions)) != len(positions):
        raise ArgumentError(f"argnums {argnums!r} names an argument twice in a call with {count} positional arguments")
    return positions


def require_tensor(returned: Any, where: str) -> None:
    """Raise if there is no tensor in what a user's function has returned: then no gradient can flow through it.

    Args:
        returned: a tree.
        where: the name of the transform, or of the function.

    Raises:
        GradientTypeError: there is none.
    """
    found = [returned] if isinstance(returned, Tensor) else leaves(returned)
    if any(isinstance(leaf, Tensor) for leaf in found):
        return
    raise GradientTypeError(
        f"{where} returned {describe(returned)}, and no Tensor{_without_history(found[0] if found else None)}. For a "
        "constant return a tensor, ag.asarray(...)"
    )


def _without_history(value: Any) -> str:
    """Return why no gradient flows through what a function has returned, and what to return instead."""
    if isinstance(value, (bool, int, float, complex)):
        return (
            ": it has no history, so no gradient would flow. Return the tensor itself, without float(t), t.item(), "
            "t.tolist() or the functions of math"
        )
    if isinstance(value, (np.ndarray, np.generic)) or is_device_array(value):
        return (
            ": it has no history, so no gradient would flow. Compute it from the arguments by NumPy's functions, "
            "without t.numpy() or t.item()"
        )
    return ": return what was computed from the arguments"


def _kind(value: Any) -> str:
    return describe(value) if hasattr(value, "dtype") else type(value).__name__
