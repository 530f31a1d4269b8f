"""Functions of matrices that are called for each matrix of a stack."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor import Tensor, asarray

__all__ = ["over_stacks"]


def over_stacks(*axes: int, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for functions of matrices and vectors: of stacks they give stacks of their results.

    The stacks are broadcast against one another, as in SciPy.

    Args:
        *axes: of each of the first parameters: 2 for a matrix, 1 for a vector, 0 for a vector or a matrix.
        name: of the function in errors; None for its own.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        names = list(signature.parameters)[: len(axes)]
        called = f"scipy.linalg.{name or function.__name__}"

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(names, args, strict=False)), **{one: kwargs[one] for one in names if one in kwargs}}
            arrays = {
                one: value if hasattr(value, "ndim") else asarray(value)
                for one, value in given.items()
                if value is not None
            }
            cores = {one: axes[names.index(one)] or min(max(array.ndim, 1), 2) for one, array in arrays.items()}
            if all(array.ndim <= cores[one] for one, array in arrays.items()):
                return function(*args, **kwargs)
            arguments = signature.bind(*args, **kwargs).arguments
            return _called_on_each(called, function, arrays, cores, arguments)

        return wrapper

    return decorate


def _called_on_each(
    name: str, function: Callable[..., Any], arrays: dict[str, Any], cores: dict[str, int], arguments: dict[str, Any]
) -> Any:
    """Return the results for the matrices of stacks, in stacks."""
    shapes = [array.shape for array in arrays.values()]
    try:
        stack = np.broadcast_shapes(*(array.shape[: -cores[one]] for one, array in arrays.items()))
    except ValueError:
        raise ValueError(f"{name} takes stacks that are broadcast, not arrays of shapes {shapes}") from None
    if not math.prod(stack):
        raise ValueError(f"{name} takes stacks of at least one matrix, not arrays of shapes {shapes}")
    flat = {}
    for one, array in arrays.items():
        core = array.shape[-cores[one] :]
        flat[one] = np.broadcast_to(array, stack + core).reshape((math.prod(stack), *core))
    results = []
    for index in range(math.prod(stack)):
        result = function(**{**arguments, **{one: array[index] for one, array in flat.items()}})
        results.append(result if isinstance(result, tuple) else (result,))
    stacked = tuple(_stacked(parts, stack) for parts in zip(*results, strict=True))
    return stacked if len(stacked) > 1 else stacked[0]


def _stacked(parts: tuple[Any, ...], stack: tuple[int, ...]) -> Any:
    whole: Any = np.stack(parts) if isinstance(parts[0], Tensor) else np.array(parts)
    return whole.reshape(stack + whole.shape[1:])
