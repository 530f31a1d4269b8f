"""What the transforms share: HIPS autograd's convention for complex gradients, and functions of one argument."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.settings.arguments import must_be
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import leaves
from ..core.tree.structure import map as map_tree
from ..errors import ArgumentTypeError, GradientTypeError

__all__ = ["Argnum", "argnums_of", "conjugated", "named", "of_one_argument", "recorded", "returning_one_number"]

Argnum = int | Sequence[int]


def argnums_of(argnum: Argnum) -> int | tuple[int, ...]:
    """Return what the transforms of asyncgrad take for `argnum`: HIPS autograd also takes a list."""
    if isinstance(argnum, (list, tuple)):
        return tuple(argnum)
    if not isinstance(argnum, int):
        raise ArgumentTypeError(must_be("argnum", "an int, a tuple or a list of them", argnum, "write argnum=0"))
    return argnum


def conjugated(tree: Any) -> Any:
    """Return a tree with its complex leaves conjugated, which leads from one convention to the other."""
    return map_tree(lambda leaf: np.conj(leaf) if np.iscomplexobj(leaf) else leaf, tree)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results that depend on no argument are constant tensors, as for HIPS autograd."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _as_tensors(function(*args, **kwargs))

    return call


def returning_one_number(function: Callable[..., Any], name: str, *, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that raises where the given one does not return one real number.

    Args:
        function: a function of the user.
        name: the name of the transform, for errors.
        has_aux: it returns a pair, that number and something else.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        output, *aux = tuple(result) if has_aux else (result,)
        output = _as_tensors(output)
        if isinstance(output, Tensor) and (output.size != 1 or output.dtype.kind == "c"):
            raise GradientTypeError(
                f"{name}: the function must return one real number, not an array of shape {output.shape} and dtype "
                f"{output.dtype}: use jacobian, elementwise_grad or holomorphic_grad"
            )
        return (output, *aux) if has_aux else output

    return call


def _as_tensors(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result
    if not any(isinstance(leaf, Tensor) for leaf in leaves(result)):
        warnings.warn("the result does not depend on the argument: its derivative is zero", UserWarning, stacklevel=3)
    return map_tree(_as_tensor, result)


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, Tensor) or not isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)):
        return leaf
    array = np.asarray(leaf)
    return asarray(array.astype(float) if array.dtype.kind in "biu" else array)


def of_one_argument(
    function: Callable[..., Any], argnum: Argnum, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[Any], Any], Any]:
    """Return a function of the chosen argument alone, or of a tuple of them, and that argument."""
    argnums = argnums_of(argnum)

    def call(x: Any) -> Any:
        changed = list(args)
        for position, value in [(argnums, x)] if isinstance(argnums, int) else zip(argnums, x, strict=True):
            changed[position] = value
        return function(*changed, **kwargs)

    return call, args[argnums] if isinstance(argnums, int) else tuple([args[position] for position in argnums])


def named(
    name: str, function: Callable[..., Any], argnum: Argnum
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give the function that a transform returns the name that HIPS autograd gives it."""

    def decorate(made: Callable[..., Any]) -> Callable[..., Any]:
        made.__name__ = f"{name}_of_{getattr(function, '__name__', '[unknown name]')}_wrt_argnum_{argnum}"
        made.__doc__ = f"Return the {name} of the function, with its arguments."
        return made

    return decorate
