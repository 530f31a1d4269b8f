"""What type checkers know of functions of arrays: that they return a tensor for a tensor.

Rules never name the class of a tensor, which is above them. Nothing here changes what happens at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from .tensor_base import TensorBase

__all__ = ["LikeFirst", "like_first"]

P = ParamSpec("P")
T = TypeVar("T", bound=TensorBase)


class LikeFirst(Protocol[P]):
    """Abstract: a function of arrays that returns a tensor where the first of them is one.

    The others may be tensors too; then it also returns one. `P` are the parameters after the first.
    """

    @overload
    def __call__(self, first: T, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    def __call__(self, first: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...


def like_first(function: Callable[Concatenate[Any, P], Any]) -> LikeFirst[P]:
    """Return the function itself, of which type checkers then know that it returns a tensor for a tensor."""
    return function
