"""Holds a rule to its complex derivatives: they are right, or it refuses complex numbers, or its result is constant.

Right means that gradcheck and gradgradcheck pass in complex128, with all arguments complex and with each of them alone.
gradcheck leaves out an output that does not require grad where another one does; here that may not change either.
"""

from __future__ import annotations

import asyncio
import enum
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.recording.primitive import Primitive
from asyncgrad.core.recording.primitive_node import PrimitiveNode
from asyncgrad.errors import AsyncgradError
from asyncgrad.transforms.jacobian_check import JacobianCheck, Tolerance
from tests.core.ops.finite_differences import Case, flat

__all__ = ["Verdict", "all_primitives", "complex_points", "in_complex_dtypes", "primitives_in", "verdict"]


class Verdict(enum.Enum):
    """What a rule does with complex numbers."""

    RIGHT = "its derivatives are those of differences, to second order"
    CONSTANT = "its result has no history, and does not change with its arguments"
    REFUSES = "it raises a TypeError: NumPy's own, or one that names the function"


def complex_points(points: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Yield arguments with imaginary parts: all have them, then each one alone. What is 0 stays 0."""
    for chosen in dict.fromkeys([tuple(range(len(points))), *((index,) for index in range(len(points)))]):
        rng = np.random.default_rng(chosen)
        yield [
            np.asarray(point + 0.7j * rng.normal(size=point.shape) * (point != 0)) if index in chosen else point
            for index, point in enumerate(points)
        ]


def in_complex_dtypes(case: Case) -> Case:
    """Return a case in which a dtype that is asked for is complex."""

    def changed(value: Any) -> Any:
        return complex if value is float or value is np.float64 else value

    kwargs = {name: changed(value) for name, value in case.kwargs.items()}
    return case._replace(args=tuple(map(changed, case.args)), kwargs=kwargs)


def verdict(name: str, function: Callable[..., Any], points: Sequence[np.ndarray]) -> Verdict:
    """Say what a function does with complex numbers.

    Args:
        name: of what is checked, as an error has to name it.
        function: of tensors or arrays, one for each point; it returns one or several.
        points: its arguments.

    Raises:
        AssertionError: it is neither right nor constant, nor does it refuse them by name.
    """
    leaves = [ag.tensor(point, requires_grad=True) for point in points]
    try:
        outputs = [output for output in flat(function(*leaves)) if isinstance(output, ag.Tensor)]
    except TypeError as error:
        if _is_clear(name, error, function, points):
            return Verdict.REFUSES
        raise AssertionError(f"{name} refuses complex numbers unclearly: {error!r}") from error
    expected = flat(function(*(point.copy() for point in points)))
    for output, value in zip(outputs, expected, strict=bool(outputs)):
        assert output.dtype == np.asarray(value).dtype, f"{name} gives {output.dtype} for {np.asarray(value).dtype}"
        np.testing.assert_allclose(output.numpy(), value, rtol=1e-12, atol=1e-12, err_msg=name)

    def of_tensors(*tensors: Any) -> tuple[Any, ...]:
        return tuple(output for output in flat(function(*tensors)) if isinstance(output, ag.Tensor))

    asyncio.run(JacobianCheck(of_tensors, tuple(leaves), TOLERANCE, every_output=True).verdict(True, True))
    if not any(output.requires_grad for output in outputs):
        return Verdict.CONSTANT
    _check_second_order(name, of_tensors, points)
    return Verdict.RIGHT


def _check_second_order(name: str, function: Callable[..., Sequence[Any]], points: Sequence[np.ndarray]) -> None:
    """Hold the derivative of the gradient, along a line and weighted at random, to a finite difference.

    A second derivative that is wrong anywhere is wrong along almost every line, and one line takes no time to speak of.
    """
    rng = np.random.default_rng(0)

    def drawn(like: Any) -> np.ndarray:
        real: np.ndarray = rng.standard_normal(np.shape(like))
        return real + 1j * rng.standard_normal(np.shape(like)) if like.dtype.kind == "c" else real

    outputs = function(*(ag.tensor(point, requires_grad=True) for point in points))
    grads = [drawn(output) if output.requires_grad else None for output in outputs]
    values = [*points, *(grad for grad in grads if grad is not None)]
    weights = [drawn(point) for point in points]

    def weighted(at: Sequence[np.ndarray]) -> tuple[list[ag.Tensor], ag.Tensor]:
        given = [ag.tensor(value, requires_grad=True) for value in at]
        leaves, seeds = given[: len(points)], given[len(points) :]
        found = [output for output, grad in zip(function(*leaves), grads, strict=True) if grad is not None]
        first = sync.grad(found, leaves, seeds, create_graph=True, materialize_grads=True)
        total = sum(np.real(np.conj(weight) * grad).sum() for weight, grad in zip(weights, first, strict=True))
        return given, total

    given, total = weighted(values)
    if not total.requires_grad:
        return
    line = [drawn(value) for value in values]
    second = sync.grad(total, given, materialize_grads=True)
    actual = sum(np.sum(np.real(np.conj(grad.numpy()) * way)) for grad, way in zip(second, line, strict=True))
    step = 1e-6
    before, after = (
        weighted([value + sign * step * way for value, way in zip(values, line, strict=True)])[1].item()
        for sign in (-1, 1)
    )
    np.testing.assert_allclose(actual, (after - before) / (2 * step), rtol=1e-3, atol=1e-4, err_msg=name)


TOLERANCE = Tolerance(eps=1e-6, atol=1e-5, rtol=1e-3, nondeterminism=0.0)


def _is_clear(name: str, error: TypeError, function: Callable[..., Any], points: Sequence[np.ndarray]) -> bool:
    """Tell whether an error is one of ours that names the function, or NumPy refuses the same call."""
    if isinstance(error, AsyncgradError):
        return name in str(error)
    try:
        function(*(point.copy() for point in points))
    except TypeError as numpys:
        return not isinstance(numpys, AsyncgradError)
    return False


# Which primitives take part.


def all_primitives() -> set[Primitive]:
    """Return every primitive of the package, without those of SciPy's functions, whose tests lie in tests/scipy.

    Other frameworks' nodes have none, and need these frameworks.
    """
    names = [found.name for found in pkgutil.walk_packages(ag.__path__, "asyncgrad.")]
    others = ("asyncgrad.scipy.", "asyncgrad.interop.")
    modules = [importlib.import_module(name) for name in names if not name.startswith(others)]
    return {value for module in modules for value in vars(module).values() if isinstance(value, Primitive)}


def primitives_in(function: Callable[..., Any], points: Sequence[np.ndarray], kinds: str) -> set[Primitive]:
    """Return the primitives that a call and its first two derivatives are made of.

    Args:
        function: of tensors, one for each point.
        points: its arguments.
        kinds: of dtype that one of them has, as its result or an argument: "c", or "fc" for all.
    """
    inputs = [ag.tensor(point, requires_grad=True) for point in points]
    results = [output for output in flat(function(*inputs)) if getattr(output, "requires_grad", False)]
    found = _primitives_behind(results, kinds)
    for _ in range(2):
        if not results:
            break
        starts = [ag.tensor(np.ones(one.shape, one.dtype), requires_grad=True) for one in results]
        grads = sync.grad(results, inputs, starts, create_graph=True, allow_unused=True)
        results = [one for one in grads if one is not None and one.requires_grad]
        inputs = [*inputs, *starts]
        found |= _primitives_behind(results, kinds)
    return found


def _primitives_behind(outputs: Iterable[Any], kinds: str) -> set[Primitive]:
    pending = [output.grad_fn for output in outputs]
    seen: dict[int, Any] = {}
    while pending:
        node = pending.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            pending += [edge.node for edge in node.next_edges if edge.node is not None]
    return {node.plan.primitive for node in seen.values() if isinstance(node, PrimitiveNode) and _meets(node, kinds)}


def _meets(node: Any, kinds: str) -> bool:
    arguments = [edge.node.input_metadata[edge.input_nr] for edge in node.next_edges if edge.node is not None]
    return any(metadata.dtype.kind in kinds for metadata in (*node.input_metadata, *arguments))
