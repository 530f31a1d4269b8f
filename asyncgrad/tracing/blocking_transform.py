"""What a transform has made of a compiled function, as a function that is traced: made of another one, and blocking."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..core.settings.context import is_kind
from ..sync.driving import make_blocking, run_blocking
from ..transforms.recipes import made_again
from .bound import Bound

__all__ = ["blocking_transform"]


def blocking_transform(
    made: Callable[..., Any], bound: Bound | None, name: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes of another innermost function what was made of it, and blocks.

    Args:
        made: what one or several transforms have made.
        bound: what that function is bound to, whose arguments come first.
        name: that of the transform in errors.
    """
    count = 0 if bound is None else len(bound.args)

    def transform(inner: Callable[..., Any]) -> Callable[..., Any]:
        def transformed(*args: Any, **kwargs: Any) -> Any:
            first, rest = args[:count], args[count:]

            def method(*others: Any, **names: Any) -> Any:
                return inner(*first, *others, **names)

            again = made_again(made, make_blocking(method if count else inner, name))
            if is_kind(inspect.iscoroutinefunction, again):
                return run_blocking(again(*rest, **kwargs), name)
            return again(*rest, **kwargs)

        return transformed

    return transform
