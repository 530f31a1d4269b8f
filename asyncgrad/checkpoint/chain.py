"""`ag.checkpoint_chain`: steps one after the other, of which no more is kept than a budget allows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np

from ..arguments import describe, truth
from ..context import is_grad_enabled
from ..errors import ArgumentError, ArgumentTypeError
from ..graph.values import wrap
from .call import Call, Options, is_async
from .driving import Steps, driven, driven_later
from .measured import Measured, measured
from .node import applied
from .progress import Chain, Progress, State
from .random_streams import checked_streams
from .reentrant import ReentrantCall
from .schedule import Action, binomial_schedule, logarithmic_snapshots
from .sequential import checked_functions, composed
from .structure import filled

__all__ = ["checkpoint_chain"]


def checkpoint_chain(
    functions: Iterable[Callable[[Any], Any]],
    x: Any,
    *,
    memory_budget: int | None = None,
    snapshots: int | str | None = None,
    preserve_rng: bool = True,
    generators: Iterable[Any] = (),
) -> Any:
    """Return `functions[-1](...functions[1](functions[0](x)))`, and keep of it no more than a stated budget.

    The backward runs steps again from the states that were kept, in the order that needs the fewest runs, and reverses
    each by a backward of its own; what holds for the function of `ag.checkpoint` holds for each step. Gradients have
    the bits that they have without it. An awaitable where any function is an `async def`. See docs/memory.md.

    With `snapshots`, so many states are kept at a time, `x` among them, and steps are run again as few times as
    possible: r·n - C(s + r, r - 1) times for n steps and s states, with the smallest r for which C(s + r, s) >= n. By
    default, and with "log", s grows as the logarithm of n. With `memory_budget`, a dynamic programme finds what takes
    least time, for steps of unequal cost and size. Those are measured in the first run of these functions on an `x` of
    these shapes, whose backward runs the chain once more than later ones do: pass the same functions each time.
    Counted are states, what recorded steps save, and what one step is reckoned to need while it runs; not the
    gradients of weights.

    The result requires grad. No backward that is limited to some inputs can run it.

    Args:
        functions: a sequence of functions of one argument, each plain or async.
        x: the argument of the first: a tensor, or a structure such as a tuple, as for the functions after it.
        memory_budget: bytes.
        snapshots: how many states may be kept; or "log".
        preserve_rng: replay random streams; see `ag.checkpoint`.
        generators: streams that the steps draw from.

    Raises:
        ArgumentError: both budgets are given, or one that is too small; it names the least.

    Source: Griewank and Walther's Revolve, and Beaumont et al.; see `binomial_schedule` and `unequal_schedule`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([0.5, 1.0], requires_grad=True)
        >>> y = ag.checkpoint_chain([np.sin] * 100, x, snapshots=3)
        >>> ag.sync.backward(y.sum())
    """
    chain = checked_functions(functions, "checkpoint_chain")
    preserve_rng = truth(preserve_rng, "preserve_rng")
    count = _checked_snapshots(snapshots, memory_budget, len(chain))
    streams = checked_streams(generators)
    awaits = any(map(is_async, chain))
    if not is_grad_enabled():
        steps = composed(chain, x)
        return driven_later(steps) if awaits else driven(steps)
    call = Call(functools.partial(_run, chain), (x,), {}, Options(preserve_rng=preserve_rng, generators=streams))
    tensors, call.tensors = call.tensors, []
    work = ChainWork(chain, call, count, None if memory_budget is None else measured(chain, tensors), memory_budget)
    # Steps may refer to leaves while x requires no grad: a leaf that gets no gradient keeps the node in the graph.
    anchor = wrap(np.zeros(()), tensors[0]._device if tensors else None).requires_grad_()
    steps = applied(work, [*tensors, anchor])
    return driven_later(steps) if awaits else driven(steps)


def _run(chain: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return driven(composed(chain, x))


def _checked_snapshots(snapshots: Any, memory_budget: Any, steps: int) -> int:
    """Return how many states to keep, where that is what counts.

    Raises:
        ArgumentTypeError: a budget is no number.
        ArgumentError: there are two, or one is too small.
    """
    if memory_budget is not None:
        if snapshots is not None:
            raise ArgumentError("a chain has one budget: pass memory_budget (bytes) or snapshots (states), not both")
        if isinstance(memory_budget, bool) or not isinstance(memory_budget, (int, np.integer)):
            raise ArgumentTypeError(f"memory_budget is a number of bytes, an int, not {describe(memory_budget)}")
        if memory_budget < 1:
            raise ArgumentError(f"memory_budget is a number of bytes from 1 up, not {memory_budget}")
        return 0
    if snapshots is None or (isinstance(snapshots, str) and snapshots == "log"):
        return logarithmic_snapshots(steps)
    if isinstance(snapshots, bool) or not isinstance(snapshots, (int, np.integer)):
        raise ArgumentTypeError(f"snapshots is a number of states, an int, or 'log', not {describe(snapshots)}")
    if snapshots < 1:
        raise ArgumentError(
            f"snapshots is at least 1, not {snapshots}: the state that the chain begins with is one of them"
        )
    return int(snapshots)


@final
class ChainWork:
    """A chain that is one node.

    Args:
        functions: the steps.
        call: the call of all of them one after the other.
        snapshots: how many states to keep, where nothing is known of the steps.
        known: what is known of them, where a number of bytes is the budget.
        budget: that number.
    """

    __slots__ = ("_budget", "_call", "_chain", "_known", "_progress", "_snapshots", "is_async")

    name = "the chain of ag.checkpoint_chain"
    #: See Work.
    instead = "checkpoint parts of it by ag.checkpoint(..., use_reentrant=False)"

    def __init__(
        self,
        functions: tuple[Callable[[Any], Any], ...],
        call: Call,
        snapshots: int,
        known: Measured | None,
        budget: int | None,
    ) -> None:
        self._call = call
        self._snapshots = snapshots
        self._known = known
        self._budget = budget
        self._chain = Chain(functions, call.context, call.streams)
        #: What the forward has left for the first backward.
        self._progress: Progress | None = None
        self.is_async = any(map(is_async, functions))

    def _schedule(self) -> Iterator[Action]:
        if self._known is None or self._budget is None:
            return binomial_schedule(len(self._chain.functions), self._snapshots)
        return iter(self._known.schedule(self._budget))

    def _begun(self, tensors: Sequence[Any], *, again: bool) -> Progress:
        requires = [tensor._requires_grad() for tensor in tensors]
        state = State(self._call.args[0], [tensor.detach() for tensor in tensors], requires)
        return Progress(self._chain, state, again=again)

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Run the steps, and keep what the schedule says."""
        progress = self._begun(tensors[:-1], again=False)
        known = self._known
        if known is not None and known.sizes is None:
            known.sizes, last = yield from progress.measure()
            # A budget that is too small is refused at once.
            self._schedule()
        else:
            last = yield from progress.forward(self._schedule())
            self._progress = progress
        return filled(last.template, last.tensors)

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Reverse the steps."""
        if is_grad_enabled():
            return [*(yield from ReentrantCall(self._call).backward(tensors[:-1], grads)), None]
        progress, self._progress = self._progress, None
        if progress is None:
            progress = self._begun(tensors[:-1], again=True)
            yield from progress.forward(self._schedule())
        return [*(yield from progress.backward(grads)), None]
