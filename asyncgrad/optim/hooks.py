"""The hooks of an optimizer: of its steps, and of its state dicts."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

from ..core.arrays.hooks import HookList
from ..core.settings.arguments import describe
from ..errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OptimizerHooks", "StepCall", "call_plain"]

#: The arguments of a step, as hooks see them: the optimizer with what was given by position, and the others by name.
StepCall = tuple[tuple[Any, ...], dict[str, Any]]


@final
class OptimizerHooks:
    """The hooks of one optimizer, by when they are called."""

    __slots__ = ("after_load", "after_state", "after_step", "before_load", "before_state", "before_step")

    def __init__(self) -> None:
        self.before_step = HookList()
        self.after_step = HookList()
        self.before_state = HookList()
        self.after_state = HookList()
        self.before_load = HookList()
        self.after_load = HookList()

    def __reduce__(self) -> Any:
        # A copy of an optimizer has no hooks, as that of a module has none.
        return OptimizerHooks, ()

    @property
    def of_steps(self) -> bool:
        """Whether a step calls any."""
        return bool(self.before_step or self.after_step)


def call_plain(hook: Callable[..., Any], what: str, *args: Any) -> Any:
    """Return the result of a hook that must not be awaited.

    Raises:
        ArgumentTypeError: it returned an awaitable.
    """
    result = hook(*args)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise ArgumentTypeError(
            f"a hook of {what} returned {describe(result)}, which nobody awaits: make it a plain def"
        )
    return result
