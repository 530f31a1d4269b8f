"""Saved-tensor hooks: what stores the tensors that a block's nodes save, and where that is forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from ..arguments import whole_number
from ..context import SAVED_TENSORS_HOOKS, Mode
from ..errors import ArgumentError, ArgumentTypeError, HookError
from .background import background
from .creation import observe_nodes
from .packed import PackHooks
from .values import describe

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["disable_saved_tensors_hooks", "saved_tensors_hooks"]


class SavedTensorsMode(Mode):
    """Abstract base of what decides who keeps the tensors that new nodes save."""

    __slots__ = ()

    def _get(self) -> Any:
        return SAVED_TENSORS_HOOKS.get()

    def _set(self, value: Any, /) -> None:
        SAVED_TENSORS_HOOKS.set(value)
        observe_nodes()

    def _check_allowed(self) -> None:
        """Raise where entering hooks is forbidden."""
        message = SAVED_TENSORS_HOOKS.get()
        if isinstance(message, str):
            raise HookError(message)


@final
class saved_tensors_hooks(SavedTensorsMode):
    """Inside, each tensor that a node saves for its backward is given to `pack`, and comes back from `unpack`.

    The node keeps what `pack` returned in place of the tensor: a path, a compressed copy, a handle. Each backward
    through the node calls `unpack` on it when the node's turn has come: nodes unpack in the order in which they run,
    newest first, and what no gradient that is asked for needs is not unpacked; those of one node in the order of
    `node.saved_tensors`. A tensor that is saved twice is packed twice. A context manager, and a decorator of functions,
    generators and their async kinds; it holds for the current context only, and of nested ones the innermost alone is
    used.

    Hooks that copy or store a tensor keep its value, whatever is written into the tensor later. What `unpack` returns
    in the memory that was packed, the tensor itself or a view of its array, raises ChangedTensorError in the backward
    if that was written into since. (PyTorch's has no such check.)

    `pack` runs with recording off; it is given an input of the operation as it is, and its output as a detached alias.

    Either may be an `async def`. An `unpack` suspends its node alone, while others run; where a node needs several
    tensors they are waited for together. A `pack` is run to its first suspension in the forward, which then goes on;
    the rest runs in the background of the event loop, and unpacking waits for it. Until it has ended the tensor may
    not be written into. What it raises, the backward raises. Let `async with` wait for the packs of its block, and
    raise what the first of them raised: then none is left behind. After a plain `with`, a pack whose graph is dropped
    is cancelled. Where no event loop runs, the forward waits for its end.

    A `prefetch` is called with what `pack` returned before that is unpacked, in the order in which a backward will
    unpack, from the first tensor on that it does unpack: for `ahead` tensors beyond that one. What it returns is kept
    until the tensor has been unpacked or passed by, or the backward has ended; the same object for several tensors
    counts once, and None, for what needs no fetching, not at all. It should start something and not wait for it.

    In a Function, `ctx.saved_tensors` unpacks, and an async `backward` writes `await ctx.load_saved()`; for a plain
    `backward`, what has to be waited for is loaded ahead.

    Args:
        pack: takes the tensor, and returns anything; it may not write into it.
        unpack: takes that, and returns a tensor or an array of the same shape and dtype.
        prefetch: takes the same; a plain function.
        ahead: how many tensors are prefetched and not unpacked, at most.

    Raises:
        HookTypeError: one of them cannot be called, or `prefetch` is an `async def`.
        ArgumentError: `ahead` is less than 1.
        HookError: on entering, where `disable_saved_tensors_hooks` forbids it, with the message given there.

    Source: torch.autograd.graph.saved_tensors_hooks.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> stored = []
        >>> def pack(tensor):
        ...     stored.append(tensor.numpy().astype(np.float16))
        ...     return len(stored) - 1
        >>> async def unpack(number):
        ...     return stored[number].astype(np.float64)
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     with ag.graph.saved_tensors_hooks(pack, unpack):
        ...         loss = (x * x).sum()
        ...     await loss.backward()
        ...     return len(stored), x.grad.tolist()
        >>> ag.run(main())
        (2, [2.0, 4.0])
    """

    __slots__ = ("_ahead", "_pack", "_prefetch", "_unpack")

    def __init__(
        self,
        pack: Callable[[Any], Any],
        unpack: Callable[[Any], Any],
        *,
        prefetch: Callable[[Any], Any] | None = None,
        ahead: int = 4,
    ) -> None:
        ahead = whole_number(ahead, "the ahead of saved_tensors_hooks")
        if ahead < 1:
            raise ArgumentError(f"saved_tensors_hooks prefetches at least 1 tensor ahead, not {ahead}")
        self._pack = pack
        self._unpack = unpack
        self._prefetch = prefetch
        self._ahead = ahead
        self._value()

    def _before(self) -> Any:
        self._check_allowed()
        return self._get()

    def _value(self) -> Any:
        return PackHooks(self._pack, self._unpack, prefetch=self._prefetch, ahead=self._ahead)

    def _clone(self) -> Mode:
        return saved_tensors_hooks(self._pack, self._unpack, prefetch=self._prefetch, ahead=self._ahead)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the packs of the block, in tasks that it started too; cancel them where the block has failed."""
        hooks = SAVED_TENSORS_HOOKS.get()
        self.__exit__(kind, error, trace)
        await background().end_all(hooks.running if isinstance(hooks, PackHooks) else (), error)


@final
class disable_saved_tensors_hooks(SavedTensorsMode):
    """Inside, entering `saved_tensors_hooks` raises: for code that would be wrong under hooks.

    A context manager, and a decorator of functions, generators and their async kinds, which holds for the current
    context only. Hooks of one node's SavedTensor are not concerned.

    Args:
        message: what the error says.

    Raises:
        HookError: with `message`, on entering inside of hooks.

    Source: torch.autograd.graph.disable_saved_tensors_hooks.

    Example:
        >>> import asyncgrad as ag
        >>> with ag.graph.disable_saved_tensors_hooks("this layer keeps its own"):
        ...     with ag.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        ...         pass
        Traceback (most recent call last):
        asyncgrad.errors.HookError: this layer keeps its own
    """

    __slots__ = ("_message",)

    def __init__(self, message: str) -> None:
        if not isinstance(message, str):
            raise ArgumentTypeError(f"the message of disable_saved_tensors_hooks is a str, not {describe(message)}")
        self._message = message

    def _before(self) -> Any:
        before = self._get()
        if isinstance(before, PackHooks):
            raise HookError(self._message)
        return before

    def _value(self) -> Any:
        return self._message

    def _clone(self) -> Mode:
        return disable_saved_tensors_hooks(self._message)
