"""ValueType: what the engine needs to know of gradients that are no arrays; and ValueGradient, which holds one."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Sequence
from typing import Any, final

from ...errors import ArgumentTypeError, InvalidRootError

__all__ = ["VALUES", "ValueGradient", "ValueType"]

#: By class, what makes a value of its objects: see `register_value`.
VALUES: dict[type, functools.partial[Any]] = {}

#: The methods of a type that nothing waits for.
_PLAIN = ("describe", "seed", "zero", "add", "convert", "is_missing", "nbytes", "check")


class ValueType:
    """Abstract: a kind of values that are no arrays, and of the gradients that flow back to them.

    A value is any Python object: a prompt, a program, a tree of settings. A gradient is what a backward returns for it:
    a critique, a patch, a count. A subclass says how gradients are added, and may say more. Gradients are passed on as
    they are, without copies, so no method, rule or hook may change one in place. Where a gradient is a tuple or a list,
    a `backward` returns it within a tuple, which has one for each argument.

    Each value keeps what `describe` returns of it, and the graph keeps that, not the value.

    Example:
        >>> import asyncgrad as ag
        >>> class Notes(ag.extend.ValueType):
        ...     def seed(self, description):
        ...         return ("good",)
        ...     def add(self, first, second):
        ...         return first + second
        >>> class Ask(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, question):
        ...         return ag.Value(question.value + "!", question.type)
        ...     @staticmethod
        ...     async def backward(ctx, notes):
        ...         return (tuple(f"asked: {note}" for note in notes),)
        >>> question = ag.leaf("why", type=Notes())
        >>> ag.sync.backward(Ask.apply(question))
        >>> question.grad
        ('asked: good',)
    """

    __slots__ = ()

    #: Whether what `merge` returns is kept under `retain_graph="until_success"`, since a call is dear: see
    #: `Function.is_memoized`. It may depend only on the gradients.
    is_memoized = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Check, where a type is defined, that `merge` alone is an `async def`.

        Raises:
            ArgumentTypeError: another method is one, whose coroutine would become the gradient.
        """
        super().__init_subclass__(**options)
        for name in _PLAIN:
            if inspect.iscoroutinefunction(getattr(cls, name)):
                raise ArgumentTypeError(
                    f"{cls.__name__}.{name} is an async def, and nothing waits for it: write a plain def. What has to "
                    "wait stands in merge, which may be an async def"
                )

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return type(self).__name__

    def describe(self, value: Any) -> object:
        """Return what `seed`, `zero` and `check` are told of a value; by default None, nothing.

        Raise TypeError or ValueError if it cannot be a value of this type.
        """
        return None

    def seed(self, description: Any) -> object:
        """Return the gradient that a backward from a value starts with, where the caller gives none.

        Raises:
            InvalidRootError: there is no such gradient, which is the default.
        """
        raise InvalidRootError(
            f"a backward from a value of type {self.name} has no gradient to start from: pass one, await "
            f"v.backward(gradient), or give {self.name} a method seed(description)"
        )

    def zero(self, description: Any) -> object:
        """Return the gradient that a backward gets for an output to which none has come; by default None."""
        return None

    def add(self, first: Any, second: Any) -> Any:
        """Return the sum of two gradients, a new object; `first` came earlier.

        `.grad` is added to by it, from backward to backward, and gradients that meet, unless there is a `merge`.
        """
        raise NotImplementedError(f"{self.name} must implement add(first, second)")

    def merge(self, gradients: Sequence[Any]) -> Any:
        """Return one gradient of the two or more that have met at a node, or an awaitable of it; by default their sum.

        It is called once for each run of the node, before its hooks, with the gradients in the order of the graph.
        It may be an `async def`.
        """
        return functools.reduce(self.add, gradients)

    def convert(self, gradient: Any) -> Any:
        """Return a gradient that a rule, a hook or a caller gives in the form in which it is kept; by default as it is.

        Raise TypeError or ValueError if it has none.
        """
        return gradient

    def is_missing(self, gradient: Any) -> bool:
        """Tell whether a gradient counts as none, as None does: an empty list of notes, say."""
        return False

    def nbytes(self, value: Any) -> int:
        """Return how many bytes a value or a gradient takes, for profiles and summaries."""
        return sys.getsizeof(value)

    def check(self, gradient: Any, description: Any) -> None:
        """Raise TypeError or ValueError if this cannot be a gradient for a value; by default anything can."""

    def __repr__(self) -> str:
        return f"{self.name}()"


@final
class ValueGradient:
    """Gradients on their way to one input of a node, which are merged when it runs.

    What is no array is held in here wherever the engine holds arrays, so that nothing of arrays is done to it.

    Args:
        metadata: what they must look like, the ValueMetadata of the input.
        gradients: what has arrived, in the order of the graph.
    """

    __slots__ = ("gradients", "metadata")

    def __init__(self, metadata: Any, gradients: tuple[Any, ...]) -> None:
        self.metadata: Any = metadata
        self.gradients: tuple[Any, ...] = gradients

    @property
    def gradient(self) -> Any:
        """The only one."""
        (gradient,) = self.gradients
        return gradient

    def __add__(self, other: ValueGradient) -> ValueGradient:
        return ValueGradient(self.metadata, self.gradients + other.gradients)
