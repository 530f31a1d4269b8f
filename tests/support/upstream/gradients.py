"""Gradients of a call, compared with differences of the library's own function."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import Tensor

from .arguments import Arguments, as_tensors, copied, is_differentiable, leaves, replaced
from .comparison import Difference


def _outputs(result: Any) -> list[Any]:
    """Return the numbers of a result that may have gradients."""
    if isinstance(result, dict) and type(result) is not dict:
        return [result[key] for key in ("x", "fun") if key in result]
    if isinstance(result, (tuple, list)):
        return [one for part in result for one in _outputs(part)]
    return [result]


#: Of the outputs that a loss is made of, by number: the shape, and whether it is complex.
Parts = dict[int, tuple[tuple[int, ...], bool]]


def _weighted(result: Any, parts: Parts) -> float:
    """Return a sum of a result's numbers with weights that depend on their place alone; NaN of one with other parts."""
    total, outputs = 0.0, _outputs(result)
    for index, (shape, is_complex) in parts.items():
        array = np.asarray(outputs[index]) if index < len(outputs) else np.asarray(None)
        if array.shape != shape or (array.dtype.kind == "c") != is_complex or array.dtype.kind not in "fc":
            return float("nan")
        total += float(np.sum(np.conj(_weights(array.shape, array.dtype, index)) * array).real)
    return total


def _weights(shape: tuple[int, ...], dtype: Any, index: int) -> Any:
    rng = np.random.default_rng(zlib.crc32(repr((shape, index)).encode()))
    weights = rng.uniform(0.5, 1.5, shape)
    return weights + 1j * rng.uniform(0.5, 1.5, shape) if np.dtype(dtype).kind == "c" else weights


def _slope(function: Callable[[float], float], size: float) -> tuple[float, float, float]:
    """Return the derivative at 0 by differences, how far from right it may be, and how much it differs by side."""
    values = [(function(step), function(-step), step) for step in (size, size / 2, size / 4)]
    found = [(after - before) / (2 * step) for after, before, step in values]
    better = [(4 * found[1] - found[0]) / 3, (4 * found[2] - found[1]) / 3]
    return better[1], abs(better[1] - better[0]), abs(values[0][0] - 2 * function(0.0) + values[0][1]) / size


def compared_gradients(
    original: Callable[..., Any], arguments: Arguments, tensors: Arguments, result: Any, ours: Any = None
) -> Iterator[Difference]:
    """Yield how the gradients of a result differ from finite differences along a direction for each argument.

    Args:
        original: the library's function.
        arguments: of the call.
        tensors: the same with tensors that require grad.
        result: of asyncgrad, with a history.
        ours: asyncgrad's function, where second derivatives are compared too, with differences of its gradients.
    """
    terms, parts = [], {}
    for index, one in enumerate(_outputs(result)):
        if isinstance(one, Tensor) and one.dtype.kind in "fc" and np.isfinite(one.detach().numpy()).all():
            weights = _weights(one.shape, one.dtype, index)
            terms.append(np.sum(np.real(np.conj(weights) * one)))
            parts[index] = one.shape, one.dtype.kind == "c"
    given = [one for one in leaves(tensors) if isinstance(one, Tensor) and one.dtype.kind in "fc"]
    places = [one for one in leaves(arguments) if is_differentiable(one)]
    if not terms or len(given) != len(places) or len(set(map(id, given))) != len(given):
        return
    # What a result is written into is no leaf by now.
    numbers = [number for number, one in enumerate(given) if one.requires_grad and one.is_leaf]
    sources = [given[number] for number in numbers]
    loss = sum(terms[1:], terms[0])
    if not isinstance(loss, Tensor) or not loss.requires_grad:
        grads: Any = [None] * len(sources)
    else:
        try:
            grads = ag.sync.grad(loss, sources, allow_unused=True)
        except Exception as error:
            yield "gradient-raised", f"{type(error).__name__}: {error}"[:300]
            return
    are_right = True
    for number, grad in zip(numbers, grads, strict=True):
        for difference in _compared_one(original, arguments, parts, number, np.array(places[number]), grad):
            are_right = False
            yield difference
    if ours is not None and are_right:
        for number, grad in zip(numbers, grads, strict=True):
            if grad is not None and places[number].dtype.char in "dD":
                yield from _compared_second(ours, arguments, parts, number, np.array(places[number]))


def _compared_second(
    ours: Callable[..., Any], arguments: Arguments, parts: Parts, number: int, value: Any
) -> Iterator[Difference]:
    """Yield how the second derivative along a direction differs from differences of the first."""
    direction = np.random.default_rng(1).uniform(0.5, 1.0, value.shape)
    if not value.size or value.size > 50:
        return

    def slope(step: float, create_graph: bool = False) -> Any:
        given = copied(replaced(arguments, number, value + step * direction))
        given = as_tensors(given, requires_grad=False)
        source = [one for one in leaves(given) if isinstance(one, Tensor) and one.dtype.kind in "fc"][number]
        source.requires_grad_()
        outputs = _outputs(ours(*given[0], **given[1]))
        terms = []
        for index, (shape, _) in parts.items():
            if isinstance(outputs[index], Tensor) and outputs[index].requires_grad:
                weights = _weights(shape, outputs[index].dtype, index)
                terms.append(np.sum(np.real(np.conj(weights) * outputs[index] ** 2)))
        if not terms:
            return None
        (grad,) = ag.sync.grad(sum(terms[1:], terms[0]), [source], create_graph=create_graph)
        along = np.sum(np.real(np.conj(direction) * grad))
        if not create_graph:
            return float(along.item())
        if not along.requires_grad:
            return 0.0
        (second,) = ag.sync.grad(along, [source], allow_unused=True)
        return 0.0 if second is None else float(np.sum(np.conj(direction) * second.numpy()).real)

    size = 1e-3 * max(float(np.median(np.abs(value))), 1e-2)
    try:
        expected, error, jump = _slope(slope, size)
        finer, other, finer_jump = _slope(slope, size / 8)
    except Exception:
        return
    error = max(error, other, abs(expected - finer))
    if not np.isfinite(finer) or error > 1e-3 * (abs(expected) + 1e-3):
        return
    if finer_jump > 1e-3 * (abs(expected) + 1e-3) and finer_jump > jump / 4:
        # It differs by side.
        return
    try:
        found = slope(0.0, create_graph=True)
    except Exception as raised:
        yield "second-raised", f"{type(raised).__name__}: {raised}"[:300]
        return
    if not np.isfinite(found):
        yield "nan-second", f"argument {number}: {found}, expected {expected:.6g}"
    elif abs(found - expected) > 1e-4 * (abs(expected) + 1e-3) + 20 * error:
        yield "wrong-second", f"argument {number}: {found:.6g}, expected {expected:.6g}"


def _compared_one(
    original: Callable[..., Any], arguments: Arguments, parts: Parts, number: int, value: Any, grad: Any
) -> Iterator[Difference]:
    if not value.size or value.size > 4000 or value.dtype.char in "fF":
        return
    rng = np.random.default_rng(zlib.crc32(repr(value.shape).encode()))
    direction = rng.uniform(0.5, 1.0, value.shape) * rng.choice([-1.0, 1.0], value.shape)
    if value.dtype.kind == "c":
        direction = direction + 1j * rng.uniform(-1.0, 1.0, value.shape)

    def along(step: float) -> float:
        moved = copied(replaced(arguments, number, value + step * direction))
        return _weighted(original(*moved[0], **moved[1]), parts)

    size = 1e-3 * max(float(np.median(np.abs(value))), 1e-2)
    try:
        with np.errstate(all="ignore"):
            slope, error, jump = _slope(along, size)
            finer, other, finer_jump = _slope(along, size / 16)
    except Exception:
        # Beside the arguments the function may have no value, as a matrix that is no longer symmetric.
        return
    if not (np.isfinite(slope) and np.isfinite(finer)):
        return
    # What is lost to rounding in the sum, where some of its terms are large.
    rounding = 1e-15 * abs(along(0.0)) / size
    error = max(error, other, abs(slope - finer), rounding)
    if error > 1e-3 * (abs(slope) + 1e-3):
        return
    if finer_jump > 1e-3 * (abs(slope) + 1e-3) and finer_jump > jump / 4:
        # The slopes on both sides do not come closer: there is no derivative, only a convention.
        return
    if grad is None:
        if abs(slope) > 1e-6 + 10 * error:
            yield "missing-gradient", f"argument {number}: none, expected {slope:.6g}"
        return
    found = float(np.sum(np.conj(grad.numpy()) * direction).real)
    if not np.isfinite(found):
        yield "nan-gradient", f"argument {number}: {found}, expected {slope:.6g}"
    elif abs(found - slope) > 1e-5 * (abs(slope) + 1e-3) + 20 * error:
        yield "wrong-gradient", f"argument {number}: {found:.6g}, expected {slope:.6g}"
