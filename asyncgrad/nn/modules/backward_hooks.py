"""The gradients of what a module is called with and returns, for its backward hooks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, final

from ...core.function.function import Function
from ...core.settings.awaiting import run_steps
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor
from ...errors import HookError

if TYPE_CHECKING:
    from ...core.arrays.hooks import HookList
    from ...core.function.function_context import FunctionContext


__all__ = ["Passage"]


@final
class ModuleHook(Function):
    """Returns its arguments: a node that all gradients pass through together."""

    @staticmethod
    def forward(ctx: FunctionContext, *tensors: Any) -> Any:
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: FunctionContext, *grads: Any) -> Any:
        return grads


def _pass(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """Return values whose tensors with gradients have passed through a node; the places of these; the node or None."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places or not is_grad_enabled():
        return values, places, None
    passed = ModuleHook.apply(*[values[place] for place in places])
    changed = list(values)
    for place, value in zip(places, passed, strict=True):
        changed[place] = value
    return tuple(changed), places, passed[0].grad_fn


def _spread(grads: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    """Return gradients in the places of their tensors, and None in the others."""
    found: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=True):
        found[place] = grad
    return tuple(found)


def _chosen(hook: Any, changed: Any, places: list[int], count: int) -> tuple[Any, ...]:
    """Return what a hook has returned for the tensors."""
    each = changed if isinstance(changed, tuple) else (changed,)
    if len(each) != count:
        raise HookError(f"a backward hook returns None or {count} gradients, and {hook!r} has returned {len(each)}")
    return tuple([each[place] for place in places])


def _hook_of(steps: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
    """Return a hook of a node that takes steps, each of which yields what is awaited if it can be."""

    def run(*grads: tuple[Any, ...]) -> Any:
        return run_steps(steps(*grads))

    return run


@final
class Passage:
    """One call of a module that has backward hooks.

    Args:
        module: the module.
        before: the hooks that see the gradients of the outputs first.
        after: the hooks that see those of the arguments, too.
    """

    __slots__ = ("_after", "_before", "_grad_output", "_lone_arguments", "_module")

    def __init__(self, module: Any, before: HookList | None, after: HookList | None) -> None:
        self._module = module
        self._before = before.snapshot() if before else ()
        self._after = after.snapshot() if after else ()
        #: How many arguments there are, none of which requires grad; None where one does.
        self._lone_arguments: int | None = None
        self._grad_output: tuple[Any, ...] = ()

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of the module, with a node behind them that calls the hooks."""
        if not self._after:
            return args
        passed, places, node = _pass(args)
        if node is None:
            self._lone_arguments = len(args)
        else:
            for hook in self._after:
                node.register_hook(self._after_hook(hook, places, len(args)))
        return passed

    def leave(self, output: Any) -> Any:
        """Return the output of the module, with a node before it that calls the hooks."""
        is_tuple = isinstance(output, tuple)
        passed, places, node = _pass(tuple(output) if is_tuple else (output,))
        if node is None:
            return output
        for hook in self._before:
            node.register_prehook(self._before_hook(hook, places, len(passed)))
        node.register_prehook(self._keep(places, len(passed)))
        if self._lone_arguments is not None:
            for hook in self._after:
                node.register_hook(self._lone_hook(hook, self._lone_arguments))
        if not is_tuple:
            return passed[0]
        return type(output)(*passed) if hasattr(output, "_fields") else passed

    def _before_hook(self, hook: Callable[..., Any], places: list[int], count: int) -> Callable[..., Any]:
        def steps(grads: tuple[Any, ...]) -> Generator[Any, Any, Any]:
            changed = yield hook(self._module, _spread(grads, places, count))
            return None if changed is None else _chosen(hook, changed, places, count)

        return _hook_of(steps)

    def _keep(self, places: list[int], count: int) -> Callable[..., Any]:
        def run(grads: tuple[Any, ...]) -> None:
            self._grad_output = _spread(grads, places, count)

        return run

    def _after_hook(self, hook: Callable[..., Any], places: list[int], count: int) -> Callable[..., Any]:
        def steps(outputs: tuple[Any, ...], grads: tuple[Any, ...]) -> Generator[Any, Any, Any]:
            changed = yield hook(self._module, _spread(outputs, places, count), self._grad_output)
            return None if changed is None else _chosen(hook, changed, places, count)

        return _hook_of(steps)

    def _lone_hook(self, hook: Callable[..., Any], count: int) -> Callable[..., Any]:
        """Return a hook for a call none of whose arguments, of which there are so many, requires grad."""

        def steps(outputs: tuple[Any, ...], grads: tuple[Any, ...]) -> Generator[Any, Any, Any]:
            changed = yield hook(self._module, (None,) * count, self._grad_output)
            if changed is not None:
                raise HookError(f"{hook!r} has returned gradients of arguments none of which requires grad")

        return _hook_of(steps)
