"""What must be the same for a program to be right: the arguments without their numbers, and the context."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.graph.creation import RecordingOnly
from ..core.settings.arguments import must_be
from ..core.settings.context import (
    ANOMALY,
    DEFAULT_DEVICE,
    DEFAULT_DTYPE,
    GRAD_MODE,
    IN_TRANSFORM,
    RECOMPUTING,
    SAVED_TENSORS_HOOKS,
)
from ..core.tensor import Tensor
from ..errors import ArgumentTypeError
from .error_ways import told_before
from .object_key import has_arrays, is_array, key_of

__all__ = [
    "CONTEXT",
    "Static",
    "has_grad",
    "in_context",
    "is_profiled",
    "key_of_context",
    "key_of_leaf",
    "key_of_static",
    "needs_eager",
    "places_of",
    "whole_context",
    "without_mark",
]


#: What of the context is looked at. Under a profile of programs, GRAD_MODE counts as it is without it.
CONTEXT: tuple[ContextVar[Any], ...] = (
    GRAD_MODE,
    DEFAULT_DTYPE,
    IN_TRANSFORM,
    RECOMPUTING,
    ANOMALY,
    SAVED_TENSORS_HOOKS,
    DEFAULT_DEVICE,
)


#: How errors call a static argument, and what to write where something cannot be one.
_STATIC = "a static argument of a compiled function"
_NO_STATIC = "leave it out of static=, since a tree is compared leaf by leaf"


@final
class Static:
    """A static argument, marked as such.

    Args:
        value: the argument.
        key: what is part of the key in its place; None for itself.
    """

    __slots__ = ("key", "value")

    def __init__(self, value: Any, key: Hashable = None) -> None:
        self.value = value
        self.key: Hashable = value if key is None else key

    def __repr__(self) -> str:
        return f"static {self.value!r}"


def without_mark(argument: Any) -> Any:
    """Return an argument as the function gets it."""
    return argument.value if type(argument) is Static else argument


def has_grad(tensor: TensorBase) -> bool:
    """Tell whether a tensor has a `.grad`."""
    return tensor._meta is not None and tensor._meta.grad is not None


def places_of(leaves: Sequence[object]) -> tuple[int | None, ...]:
    """Return for each leaf which of the arrays and tensors it is, each counted once; None for any other leaf."""
    numbers: dict[int, int] = {}
    return tuple([numbers.setdefault(id(leaf), len(numbers)) if is_array(leaf) else None for leaf in leaves])


def needs_eager(leaves: Sequence[object], *, is_told: bool = False) -> str | None:
    """Return why a call runs as if it were not compiled; None if nothing speaks for it.

    Args:
        leaves: those of its arguments.
        is_told: whether a profile is told of the programs that run.
    """
    if ANOMALY.get() is not None:
        return "anomaly mode"
    if (_grad_mode() if is_told else GRAD_MODE.get()) not in (True, False):
        return "somebody looks at what is recorded"
    if SAVED_TENSORS_HOOKS.get() is not None:
        return "hooks of saved tensors"
    if DEFAULT_DEVICE.get() is not None:
        return "a default device"
    for leaf in leaves:
        reason = _why_not(leaf)
        if reason is not None:
            return reason
    return None


def _grad_mode() -> Any:
    """Return the grad mode; that under a profile, which sees programs too, is that without it."""
    mode = GRAD_MODE.get()
    return True if mode.__class__ is RecordingOnly else mode


def is_profiled() -> bool:
    """Tell whether a profile of this context sees each node, so that nothing is to run twice."""
    return GRAD_MODE.get().__class__ is RecordingOnly


def _why_not(leaf: object) -> str | None:
    array = leaf
    if isinstance(leaf, TensorBase):
        if type(leaf) is not Tensor:
            return f"a tensor of class {type(leaf).__name__}"
        if leaf._device is not None and str(leaf._device) != "cpu":
            return f"device '{leaf._device}'"
        array = leaf._data
    if isinstance(array, np.ndarray):
        if type(array) is not np.ndarray:
            return f"an array of class {type(array).__name__}"
        if array.dtype.kind not in "biufc" or not array.dtype.isnative:
            return f"dtype {array.dtype}"
    return None


def whole_context() -> tuple[Any, ...]:
    """Return all of the context that is looked at: the values of CONTEXT, and how errors are treated."""
    return _grad_mode(), *[variable.get() for variable in CONTEXT[1:]], np.geterr()


def key_of_context() -> tuple[Hashable, ...]:
    """Return the settings on which the program of a function depends."""
    modes = _grad_mode(), DEFAULT_DTYPE.get(), IN_TRANSFORM.get(), RECOMPUTING.get()
    return *modes, *np.geterr().values()


@contextmanager
def in_context(key: tuple[Any, ...]) -> Iterator[None]:
    """Have the settings of which a key was made, so that what runs in the block does what it did under them."""
    mode, dtype, is_in_transform, is_recomputing, *ways = key
    settings: list[tuple[ContextVar[Any], Any]] = [
        *((GRAD_MODE, mode), (DEFAULT_DTYPE, dtype), (IN_TRANSFORM, is_in_transform), (RECOMPUTING, is_recomputing)),
        *((SAVED_TENSORS_HOOKS, None), (DEFAULT_DEVICE, None)),
    ]
    tokens = [(variable, variable.set(value)) for variable, value in settings]
    try:
        with told_before(dict(zip(np.geterr(), ways, strict=True))):
            yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


def key_of_leaf(leaf: object) -> Hashable:
    """Return what must be equal for two leaves to run the same program: all but the numbers of an array."""
    if isinstance(leaf, TensorBase):
        array = leaf._data
        flags = array.flags
        place = leaf._requires_grad(), leaf._grad_fn is None, has_grad(leaf), flags.writeable
        return type(leaf), place, array.shape, array.dtype, array.strides, flags.aligned, array.base is None
    if isinstance(leaf, np.ndarray):
        flags = leaf.flags
        return type(leaf), leaf.shape, leaf.dtype, leaf.strides, flags.aligned, flags.writeable, leaf.base is None
    if type(leaf) is Static:
        return Static, leaf.key
    return key_of(leaf)


def key_of_static(value: Any) -> Hashable:
    """Return what is equal for two static arguments that are the same: by their own `==`, but for numbers.

    Numbers that are equal and not the same, as 0.0 and -0.0 or 1 and True are, have other keys, also in tuples.

    Raises:
        ArgumentTypeError: it cannot be hashed, or has arrays, whose numbers `==` does not compare.
    """
    kind = type(value)
    if kind is float or kind is complex or isinstance(value, np.inexact):
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(key_of_static, value))
    if has_arrays(value):
        raise ArgumentTypeError(must_be(_STATIC, "no array, no model, and no tree with one", value, _NO_STATIC))
    try:
        hash(value)
    except TypeError:
        hint = _NO_STATIC if isinstance(value, (list, dict)) else "give its class __eq__ and __hash__"
        raise ArgumentTypeError(must_be(_STATIC, "hashable", value, hint)) from None
    return kind, value
