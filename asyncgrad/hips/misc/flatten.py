"""Nested containers as one vector, by the names of `autograd.misc.flatten`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tree.vector import ravel

__all__ = ["flatten", "flatten_func"]


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return all numbers of a nested container as one vector, and the function that leads back.

    The entries of a dict come in the order of its sorted keys, unlike those of `ag.tree.ravel`.

    Args:
        value: dicts, lists and tuples of arrays and numbers.

    Source: autograd.misc.flatten.

    Example:
        >>> from asyncgrad.hips.misc import flatten
        >>> vector, unflatten = flatten({"b": 2.0, "a": [0.0, 1.0]})
        >>> vector
        array([0., 1., 2.])
    """
    vector, unravel = ravel(_in_order(value))
    return vector, lambda x: _like(value, unravel(x))


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Return a function of vectors in place of one of nested containers, and what `flatten(example)` returns.

    Args:
        func: a function whose first argument and whose result are nested containers.
        example: what its first argument looks like.

    Returns:
        `(function, unflatten, vector)`.

    Source: autograd.misc.flatten.flatten_func.

    Example:
        >>> from asyncgrad.hips.misc.flatten import flatten_func
        >>> function, _, vector = flatten_func(lambda p: {"a": 2 * p["a"]}, {"a": 1.0})
        >>> function(vector)
        array([2.])
    """
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    if type(value) in (list, tuple):
        return type(value)(map(_in_order, value))
    return value


def _like(value: Any, other: Any) -> Any:
    """Return the other container with the entries of its dicts in the order of the first one."""
    if isinstance(value, dict):
        return {key: _like(value[key], other[key]) for key in value}
    if type(value) in (list, tuple):
        return type(value)(map(_like, value, other))
    return other
