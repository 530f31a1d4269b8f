"""An independent checker of derivative rules: central differences, and nothing of the library's own gradcheck.

First order: the differences of `sum(v * f(x))`, with NumPy alone, against the gradient at x. Second order: the
differences of `sum(w * gradient(x, v))` in x and in v against the gradient of that gradient. The first check
makes the gradient a function to be trusted; the second asks whether the graph it recorded is right. Where the result is
complex so is v, and both parts count, each times that of v.

`make test-all` takes the differences in each element of an array. A part of its cases takes them along two directions
of the array, in which each element has its part: what is wrong anywhere is wrong along almost every direction. Where
these do not agree to nearly all the digits that differences have, each element decides there too: a sum hides what is
wrong with a small part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag
from tests.support.sampling import SHARE

#: Step, relative to the size of each element. The differences are then good to about ten digits.
STEP = 1e-5
RTOL = 1e-5
ATOL = 1e-7
#: Slopes along directions that agree so well leave nothing to find in an element. Few arrays have others.
CLOSE = 1e-9
#: Along how many directions of a large array differences are taken; None for each element.
DIRECTIONS = 2 if SHARE < 1 else None


class Case(NamedTuple):
    """One call of a NumPy function at a point where it can be differentiated."""

    #: Positional arguments: float64 arrays, away from kinks; lists or tuples of them; anything else as it is.
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = MappingProxyType({})
    #: Which arguments to differentiate with respect to: positions, or names of keyword arguments. All floating
    #: arrays in them, also inside lists and tuples, are.
    differentiate: tuple[int | str, ...] = (0,)
    #: False where there is a kink at the point, or a derivative of infinity: values and dtypes are still
    #: checked, differences would say nothing.
    smooth: bool = True


def leaves_of(case: Case) -> list[np.ndarray]:
    """Return the arrays that the case is to be differentiated with respect to, in order."""
    found: list[np.ndarray] = []
    _substitute(case, lambda leaf: found.append(leaf))
    return found


def call(function: Callable[..., Any], case: Case, leaves: Sequence[Any]) -> list[Any]:
    """Call the function with `leaves` in the place of the case's own; return its outputs as a flat list."""
    remaining = iter(leaves)
    args, kwargs = _substitute(case, lambda leaf: next(remaining))
    return flat(function(*args, **kwargs))


def flat(outputs: Any) -> list[Any]:
    """Return the outputs of a function, one or many, as a list."""
    if isinstance(outputs, (tuple, list)):
        return [output for part in outputs for output in flat(part)]
    return [outputs]


def map_arrays(value: Any, change: Callable[[np.ndarray], Any]) -> Any:
    """Return `value` with every floating array in it, also in nested lists and tuples, changed."""
    if isinstance(value, np.ndarray):
        return change(value) if value.dtype.kind == "f" else value
    if type(value) in (list, tuple):
        return type(value)(map_arrays(item, change) for item in value)
    return value


def in_dtype(case: Case, dtype: Any) -> Case:
    """Return the case with its floating arrays in another dtype, those that are not differentiated too."""
    kwargs = {name: map_arrays(value, lambda array: array.astype(dtype)) for name, value in case.kwargs.items()}
    return case._replace(args=map_arrays(case.args, lambda array: array.astype(dtype)), kwargs=kwargs)


def _substitute(case: Case, change: Callable[[np.ndarray], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = tuple(
        map_arrays(value, change) if index in case.differentiate else value for index, value in enumerate(case.args)
    )
    kwargs = {
        name: map_arrays(value, change) if name in case.differentiate else value for name, value in case.kwargs.items()
    }
    return args, kwargs


def check_derivatives(
    function: Callable[..., Any], case: Case, *, order: int = 2, seed: int = 0, step: float = STEP, rtol: float = RTOL
) -> None:
    """Compare the derivatives of `function` with central differences, to first or second order.

    Of a function that is only as exact as its tolerance says, a longer step finds derivatives to fewer digits.

    Raises:
        AssertionError: names the function, the order and the array whose derivative is wrong.
    """
    asyncio.run(_check(function, case, order, np.random.default_rng(seed), step, rtol))


async def _check(
    function: Callable[..., Any], case: Case, order: int, generator: np.random.Generator, step: float, rtol: float
) -> None:
    name = getattr(function, "__name__", repr(function))
    points = leaves_of(case)
    assert points, f"{name}: there is no floating array in the arguments {case.differentiate} of the case"
    tensors = [ag.tensor(point, requires_grad=True) for point in points]
    outputs = call(function, case, tensors)
    chosen = [index for index, output in enumerate(outputs) if getattr(output, "requires_grad", False)]
    assert chosen, f"{name}: no output requires grad"
    weights = [_drawn(generator, outputs[index]) for index in chosen]

    async def weighted_sum(values: Sequence[np.ndarray]) -> float:
        results = call(function, case, values)
        return _inner((results[index] for index in chosen), weights)

    async def gradient(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        inputs = [ag.tensor(value, requires_grad=True) for value in values[: len(points)]]
        results = call(function, case, inputs)
        grads = await ag.grad([results[i] for i in chosen], inputs, list(values[len(points) :]), allow_unused=True)
        return _arrays(grads, points)

    first = await gradient([*points, *weights])
    await _compare_slopes(f"{name}, first order", first, weighted_sum, points, step, rtol)
    if order < 2:
        return

    cotangents = [ag.tensor(weight, requires_grad=True) for weight in weights]
    grads = await ag.grad([outputs[i] for i in chosen], tensors, cotangents, create_graph=True, allow_unused=True)
    for index, (recorded_one, one) in enumerate(zip(_arrays(grads, points), first, strict=True)):
        _compare(f"{name}, first order, recorded, array {index}", recorded_one, one)
    second_weights = [_drawn(generator, point) for point in points]
    recorded = [
        (grad, weight)
        for grad, weight in zip(grads, second_weights, strict=True)
        if grad is not None and grad.requires_grad
    ]
    second: Sequence[Any] = [None] * (len(points) + len(weights))
    if recorded:
        roots, root_grads = zip(*recorded, strict=True)
        second = await ag.grad(roots, [*tensors, *cotangents], root_grads, allow_unused=True)

    async def weighted_gradient(values: Sequence[np.ndarray]) -> float:
        return _inner(await gradient(values), second_weights)

    everything = [*points, *weights]
    slopes = _arrays(second, everything)
    await _compare_slopes(f"{name}, second order", slopes, weighted_gradient, everything, step, rtol)


def _drawn(generator: np.random.Generator, like: Any) -> np.ndarray:
    """Draw weights for the elements of an array, complex ones for complex numbers."""
    drawn = generator.uniform(0.5, 1.5, like.shape)
    return drawn + 1j * generator.uniform(0.5, 1.5, like.shape) if like.dtype.kind == "c" else np.asarray(drawn)


def _inner(values: Any, weights: Sequence[np.ndarray]) -> float:
    """Return the sum of products, of real parts with real parts and of imaginary parts with imaginary parts."""
    total = sum(np.sum(value * np.conjugate(weight)) for value, weight in zip(values, weights, strict=True))
    return float(np.real(total))


def _arrays(grads: Sequence[Any], like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return gradients as arrays; zeros where an input was not used."""
    return [np.zeros_like(point) if grad is None else grad.numpy() for grad, point in zip(grads, like, strict=True)]


async def _compare_slopes(
    what: str,
    actual: Sequence[np.ndarray],
    function: Callable[[Sequence[np.ndarray]], Awaitable[float]],
    points: Sequence[np.ndarray],
    step: float,
    rtol: float,
) -> None:
    """Compare the gradient of a function of arrays with its central differences, in directions or each element."""
    for index, (point, gradient) in enumerate(zip(points, actual, strict=True)):

        async def along(direction: np.ndarray, index: int = index, point: np.ndarray = point) -> float:
            moved = list(points)
            moved[index] = point + step * direction
            above = await function(moved)
            moved[index] = point - step * direction
            return (above - await function(moved)) / (2 * step)

        if DIRECTIONS is not None and point.size > DIRECTIONS:
            agree = [_is_close(gradient, way, await along(way)) for way in _directions(point, DIRECTIONS)]
            if all(agree):
                continue
        have, want = [], []
        for direction in _elements(point):
            length = np.max(np.abs(direction))
            have.append(_inner([gradient], [direction]) / length)
            want.append(await along(direction) / length)
        _compare(f"{what}, array {index}", np.array(have), np.array(want), rtol)


def _is_close(gradient: np.ndarray, direction: np.ndarray, slope: float) -> bool:
    """Whether a slope is that of the gradient along the direction, to the digits that differences have."""
    parts = np.abs(gradient * direction)
    # What slopes of either sign leave is as exact as they are.
    size = np.hypot.reduce(parts, axis=None) + np.max(np.abs(direction))
    return bool(abs(_inner([gradient], [direction]) - slope) <= CLOSE * size)


def _elements(point: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the directions of each element of an array, in the measure of the element."""
    sizes = np.maximum(1.0, np.abs(point))
    for index in np.ndindex(point.shape):
        for part in (1, 1j) if point.dtype.kind == "c" else (1,):
            direction = np.zeros_like(point)
            direction[index] = part * sizes[index]
            yield direction


def _directions(point: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield directions of an array at random, in each of which every element has a part, in its measure."""
    sizes = np.maximum(1.0, np.abs(point))
    generator = np.random.default_rng(point.size)
    for _ in range(count):
        real, imaginary = generator.uniform(0.5, 1, (2, *point.shape)) * generator.choice([-1, 1], (2, *point.shape))
        yield sizes * (real + 1j * imaginary if point.dtype.kind == "c" else real)


def _compare(what: str, actual: np.ndarray, expected: np.ndarray, rtol: float = RTOL) -> None:
    # Differences of large sums are good to a share of the largest slope, not of each.
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(
        actual, expected, rtol=rtol, atol=ATOL * scale, err_msg=f"{what}: derivative and differences"
    )
