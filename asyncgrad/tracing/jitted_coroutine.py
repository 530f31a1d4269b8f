"""A compiled `async def`: it runs as it is, and the statements between its awaits run as programs."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, final

from ..observing.visualize.picture import Picture
from .bound import Bound
from .jitted import Jitted, picture_of_functions
from .segments import cut
from .trace import Untraceable

__all__ = ["JittedCoroutine"]


@final
class JittedCoroutine:
    """What `ag.jit` returns for an `async def`.

    Args:
        function: the `async def`.
        backend: as for `ag.jit`.
        verify: as for `ag.jit`.
        bound: the arguments that it is bound to: the object of a method, those of a partial.

    Attributes:
        function: the `async def`.
        bound: the arguments that it is bound to.
        segments: the compiled functions of its segments, in their order.
        reason: why there are none.
    """

    #: As a whole. That it says so tells `unbound` that it has a `function` and `bound`.
    is_compiled = False

    def __init__(self, function: Callable[..., Any], backend: str, verify: int, bound: Bound | None = None) -> None:
        functools.update_wrapper(self, function)
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        self.segments: list[Jitted] = []
        self.reason: str | None = None
        self.bound = bound
        self.function = function
        self._function = function

        def compiled(segment: types.FunctionType) -> Jitted:
            self.segments.append(Jitted(segment, (), backend, verify))
            return self.segments[-1]

        try:
            if not isinstance(function, types.FunctionType):
                raise Untraceable("its source is not known")
            self._function = cut(function, compiled)
        except Untraceable as error:
            self.reason = str(error)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the function as a method of an instance."""
        return self if instance is None or self.bound is not None else types.MethodType(self, instance)

    def __copy__(self) -> JittedCoroutine:
        return self

    def __deepcopy__(self, memo: object) -> JittedCoroutine:
        return self

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)  # where it is found, as a function is

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", repr(self._function))
        if self.reason is not None:
            return f"<ag.jit of {name}: eager, {self.reason}>"
        calls = sum(one.counts["calls"] for one in self.segments)
        replayed = sum(one.counts["replayed"] for one in self.segments)
        count = f"{len(self.segments)} segment" + "s" * (len(self.segments) != 1)
        return f"<ag.jit of {name}: {count}, {replayed} of {calls} calls replayed>"

    def _picture(self, *, folded: bool, most: int) -> Picture:
        """Return the picture of the programs of its segments."""
        name = str(self._function.__qualname__)
        return picture_of_functions(self.segments, name, folded, most)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns; suspends where that does."""
        if self.bound is not None:
            args, kwargs = self.bound.with_others(args, kwargs)
        return await self._function(*args, **kwargs)
