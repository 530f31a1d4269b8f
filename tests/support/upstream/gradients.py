"""Gradients of a call, compared with differences of the library's own function."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import Tensor

from .arguments import Arguments, copied, is_differentiable, leaves, replaced
from .comparison import Difference


def _outputs(result: Any) -> list[Any]:
    """Return the numbers of a result that may have gradients."""
    if isinstance(result, dict) and type(result) is not dict:
        return [result[key] for key in ("x", "fun") if key in result]
    return list(leaves(tuple(result) if isinstance(result, tuple) else result))


def _weighted(result: Any) -> float:
    """Return a sum of a result's numbers with weights that depend on their place alone."""
    total = 0.0
    for index, one in enumerate(_outputs(result)):
        array = np.asarray(one)
        if array.dtype.kind in "fc" and np.isfinite(array).all():
            total += float(np.sum(np.conj(_weights(array.shape, array.dtype, index)) * array).real)
    return total


def _weights(shape: tuple[int, ...], dtype: Any, index: int) -> Any:
    rng = np.random.default_rng(zlib.crc32(repr((shape, index)).encode()))
    weights = rng.uniform(0.5, 1.5, shape)
    return weights + 1j * rng.uniform(0.5, 1.5, shape) if np.dtype(dtype).kind == "c" else weights


def _slope(function: Callable[[float], float], size: float) -> tuple[float, float]:
    """Return the derivative at 0 by differences, and how far from right it may be."""
    found = [(function(step) - function(-step)) / (2 * step) for step in (size, size / 2, size / 4)]
    better = [(4 * found[1] - found[0]) / 3, (4 * found[2] - found[1]) / 3]
    return better[1], abs(better[1] - better[0])


def compared_gradients(
    original: Callable[..., Any], arguments: Arguments, tensors: Arguments, result: Any
) -> Iterator[Difference]:
    """Yield how the gradients of a result differ from finite differences along a direction for each argument.

    Args:
        original: the library's function.
        arguments: of the call.
        tensors: the same with tensors that require grad.
        result: of asyncgrad, with a history.
    """
    parts = []
    for index, one in enumerate(_outputs(result)):
        if isinstance(one, Tensor) and one.dtype.kind in "fc" and np.isfinite(one.detach().numpy()).all():
            weights = _weights(one.shape, one.dtype, index)
            parts.append(np.sum(np.real(np.conj(weights) * one)))
    sources = [one for one in leaves(tensors) if isinstance(one, Tensor) and one.requires_grad]
    places = [one for one in leaves(arguments) if is_differentiable(one)]
    if not parts or len(sources) != len(places) or len(set(map(id, sources))) != len(sources):
        return
    loss = sum(parts[1:], parts[0])
    if not isinstance(loss, Tensor) or not loss.requires_grad:
        grads: Any = [None] * len(sources)
    else:
        try:
            grads = ag.sync.grad(loss, sources, allow_unused=True)
        except Exception as error:
            yield "gradient-raised", f"{type(error).__name__}: {error}"[:300]
            return
    for number, (value, grad) in enumerate(zip(places, grads, strict=True)):
        yield from _compared_one(original, arguments, number, np.array(value), grad)


def _compared_one(
    original: Callable[..., Any], arguments: Arguments, number: int, value: Any, grad: Any
) -> Iterator[Difference]:
    if not value.size or value.size > 4000 or value.dtype.char in "fF":
        return
    rng = np.random.default_rng(zlib.crc32(repr(value.shape).encode()))
    direction = rng.uniform(0.5, 1.0, value.shape) * rng.choice([-1.0, 1.0], value.shape)
    if value.dtype.kind == "c":
        direction = direction + 1j * rng.uniform(-1.0, 1.0, value.shape)

    def along(step: float) -> float:
        moved = copied(replaced(arguments, number, value + step * direction))
        return _weighted(original(*moved[0], **moved[1]))

    size = 1e-3 * max(float(np.median(np.abs(value))), 1e-2)
    try:
        with np.errstate(all="ignore"):
            slope, error = _slope(along, size)
            finer, other = _slope(along, size / 16)
    except Exception:
        # ComparedObject the arguments the function may have no value, as a matrix that is no longer symmetric.
        return
    if not (np.isfinite(slope) and np.isfinite(finer)):
        return
    error = max(error, other, abs(slope - finer))
    if error > 1e-3 * (abs(slope) + 1e-3):
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
