"""`ag.checkpoint_chain`: steps one after the other, whose states and recorded steps stay within a budget.

The chain is one reentrant node. A schedule says in which order steps are run, states kept and steps reversed; a
ScheduleRun carries it out, its first part in the forward and the rest in the backward.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from ...core.arrays.values import counted, wrap
from ...core.graph.leaf import gradient_edge
from ...core.graph.node import Edge, next_order
from ...core.graph.saved import version_of
from ...core.settings.arguments import must_be, truth
from ...core.settings.context import is_grad_enabled, set_grad_mode
from ...errors import ArgumentError, ArgumentTypeError, CheckpointError
from .call import (
    CheckpointedCall,
    CheckpointOptions,
    ForwardContext,
    call_directly,
    call_function,
    check_result,
    is_async,
    name_of,
)
from .checkpoint import check_functions, compose
from .models import ModelVersions
from .nested import NestedBackward, detach_as_leaves
from .pytree import TreeTemplate, flatten, unflatten
from .reentrant import ReentrantCall, apply_reentrant
from .rng import RandomStreams, StreamReplay, check_streams
from .rotor import ChainCosts, ChainProfile, SavedBytesMeter, bytes_of, profile_of
from .schedule import Action, ActionKind, binomial_schedule, logarithmic_snapshots
from .steps import ContextAwaitable, Steps, run_steps, run_steps_async

__all__ = ["checkpoint_chain"]


def checkpoint_chain(
    functions: Iterable[Callable[..., object]],
    x: object,
    *,
    memory_budget: int | None = None,
    snapshots: int | str | None = None,
    preserve_rng: bool = True,
    generators: Iterable[object] = (),
) -> Any:
    """Return `functions[-1](...functions[1](functions[0](x)))`, keeping no more of it than a budget.

    The backward runs steps again from the states that were kept, in the order that needs the fewest runs, and reverses
    each step by a backward of its own. Each step must do the same every time, as the function of `ag.checkpoint`.
    Gradients are bitwise the same as without checkpoints. The result is an awaitable if any function is an `async def`.
    See docs/memory.md.

    With `snapshots`, that many states are kept at a time, `x` among them, and steps are run again as few times as
    possible: r·n - C(s + r, r - 1) times for n steps and s states, with the smallest r for which C(s + r, s) >= n. By
    default, and with "log", s grows as the logarithm of n.

    With `memory_budget`, dynamic programming finds the order that takes the least time, for steps of unequal cost and
    size. They are measured when these functions first run on an `x` of these shapes, and the backward of that run runs
    the chain once more than later ones: pass the same function objects each time. Counted are states, what recorded
    steps save, and an estimate of what a step needs while it runs; not the gradients of weights.

    The result requires grad. A backward limited to some inputs cannot run the chain.

    Args:
        functions: a sequence of functions of one argument, each plain or async.
        x: the argument of the first function: a tensor, or a tree of tensors (`ag.tree`); so for the others.
        memory_budget: bytes.
        snapshots: how many states may be kept; or "log".
        preserve_rng: replay random streams; see `ag.checkpoint`.
        generators: streams that the steps draw from.

    Raises:
        ArgumentError: both budgets are given, or one that is too small; the error names the least.

    Source: Griewank and Walther's Revolve, and Beaumont et al.; see `binomial_schedule` and `rotor_schedule`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([0.5, 1.0], requires_grad=True)
        >>> y = ag.checkpoint_chain([np.sin] * 100, x, snapshots=3)
        >>> ag.sync.backward(y.sum())
    """
    chain = check_functions(functions, "checkpoint_chain")
    preserve_rng = truth(preserve_rng, "preserve_rng")
    count = _check_budget(snapshots, memory_budget, len(chain))
    options = CheckpointOptions(preserve_rng=preserve_rng, generators=check_streams(generators))
    steps = _record(chain, x, options, count, memory_budget) if is_grad_enabled() else compose(chain, x)
    return run_steps_async(steps) if any(map(is_async, chain)) else run_steps(steps)


def _record(
    chain: tuple[Callable[[Any], Any], ...],
    x: Any,
    options: CheckpointOptions,
    snapshots: int,
    memory_budget: int | None,
) -> Steps:
    """Return the Steps of a chain that is recorded as one node."""
    call = CheckpointedCall(functools.partial(_run_plainly, chain), (x,), {}, options)
    tensors, call.tensors = call.tensors, []
    profile = None if memory_budget is None else profile_of(chain, tensors)
    computation = ReentrantChain(chain, call, flatten(x, []), snapshots, profile, memory_budget)
    # Steps may refer to leaves while x requires no grad. A leaf that gets no gradient has the node recorded even then.
    anchor = wrap(np.zeros(()), tensors[0]._device if tensors else None).requires_grad_()
    return apply_reentrant(computation, [*tensors, anchor])


def _run_plainly(chain: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return run_steps(compose(chain, x))


def _check_budget(snapshots: Any, memory_budget: Any, steps: int) -> int:
    """Return how many states may be kept; 0 where the budget is in bytes.

    Raises:
        ArgumentTypeError: a budget is not a number.
        ArgumentError: both are given, or one is too small.
    """
    if memory_budget is not None:
        if snapshots is not None:
            raise ArgumentError("a chain has one budget: pass memory_budget (bytes) or snapshots (states), not both")
        if isinstance(memory_budget, bool) or not isinstance(memory_budget, (int, np.integer)):
            raise ArgumentTypeError(must_be("memory_budget", "a number of bytes, an int", memory_budget))
        if memory_budget < 1:
            raise ArgumentError(f"memory_budget is a number of bytes from 1 up, not {memory_budget}")
        return 0
    if snapshots is None or (isinstance(snapshots, str) and snapshots == "log"):
        return logarithmic_snapshots(steps)
    if isinstance(snapshots, bool) or not isinstance(snapshots, (int, np.integer)):
        raise ArgumentTypeError(must_be("snapshots", "a number of states, an int, or 'log'", snapshots))
    if snapshots < 1:
        raise ArgumentError(f"snapshots is at least 1, not {snapshots}: the first state of the chain is one of them")
    return int(snapshots)


@final
class ReentrantChain:
    """A ReentrantComputation: the steps of a chain, run by a schedule.

    Args:
        functions: the steps.
        call: a call of all of them one after the other.
        template: of the argument of the first.
        snapshots: how many states may be kept, without a budget in bytes.
        profile: of the chain, with a budget in bytes.
        budget: in bytes, or None.
    """

    __slots__ = (
        "_budget",
        "_call",
        "_chain",
        "_profile",
        "_run",
        "_snapshots",
        "_template",
        "functions",
        "is_async",
        "models",
    )

    name = "the chain of ag.checkpoint_chain"
    instead = "checkpoint parts of it by ag.checkpoint(..., use_reentrant=False)"

    def __init__(
        self,
        functions: tuple[Callable[[Any], Any], ...],
        call: CheckpointedCall,
        template: TreeTemplate,
        snapshots: int,
        profile: ChainProfile | None,
        budget: int | None,
    ) -> None:
        self._call = call
        self._template = template
        self._snapshots = snapshots
        self._profile = profile
        self._budget = budget
        self.functions = functions
        self.models: ModelVersions = ModelVersions(functions)
        self._chain = Chain(functions, call.context, call.streams, self.models)
        #: What the forward has run of the schedule, for the first backward to go on with.
        self._run: ScheduleRun | None = None
        self.is_async: bool = any(map(is_async, functions))

    def forward(self, tensors: Sequence[Any]) -> Steps:
        """Run the steps, and keep the states that the schedule says."""
        run = self._new_run(tensors[:-1], replays=False)
        profile = self._profile
        if profile is not None and profile.costs is None:
            profile.costs, last = yield from run.measure()
            # Raises now, and not in the backward, if the budget is too small.
            self._schedule()
        else:
            last = yield from run.forward(self._schedule())
            self._run = run
        self.models.end_forward()
        return unflatten(last.template, last.tensors)

    def backward(self, tensors: Sequence[Any], grads: Sequence[Any]) -> Steps:
        """Reverse the steps."""
        if is_grad_enabled():
            return [
                *(yield from ReentrantCall(self._call, models=self.models).backward(tensors[:-1], grads)),
                None,
            ]
        run, self._run = self._run, None
        if run is None:
            run = self._new_run(tensors[:-1], replays=True)
            yield from run.forward(self._schedule())
        return [*(yield from run.backward(grads)), None]

    def _schedule(self) -> Iterator[Action]:
        if self._profile is None or self._budget is None:
            return binomial_schedule(len(self._chain.functions), self._snapshots)
        return iter(self._profile.schedule(self._budget))

    def _new_run(self, tensors: Sequence[Any], *, replays: bool) -> ScheduleRun:
        requires = [tensor._requires_grad() for tensor in tensors]
        state = ChainState(self._template, [tensor.detach() for tensor in tensors], requires)
        return ScheduleRun(self._chain, state, replays=replays)


class Chain(NamedTuple):
    """What all runs of one call of a chain share."""

    functions: tuple[Callable[[Any], Any], ...]
    context: ForwardContext
    streams: RandomStreams | None
    #: Of the modules that the functions refer to, before the forward.
    models: ModelVersions


class ChainState(NamedTuple):
    """What one step passes to the next; its tensors have no history."""

    template: TreeTemplate
    tensors: list[Any]
    #: For each tensor, whether its gradient is needed.
    requires: list[bool]

    @classmethod
    def of(cls, value: Any) -> ChainState:
        """Return the state that a step has returned."""
        tensors: list[Any] = []
        template = flatten(value, tensors)
        return cls(template, [tensor.detach() for tensor in tensors], [_is_differentiable(one) for one in tensors])

    def leaves(self) -> list[Any]:
        """Return leaves that share the memory of the tensors."""
        return detach_as_leaves(self.tensors, self.requires)


def _is_differentiable(tensor: Any) -> bool:
    return tensor._value_metadata is not None or tensor.dtype.kind in "fc"


def _arrays_of(tensors: Iterable[Any]) -> Iterator[Any]:
    """Yield the arrays of tensors; a value that is no array counts for nothing in a budget."""
    return (tensor._data for tensor in tensors if tensor._value_metadata is None)


class RecordedStep(NamedTuple):
    """A step that has been run recorded."""

    inputs: list[Any]
    #: Where the gradients of its outputs flow.
    edges: list[Edge | None]
    #: `next_order()` right before it ran; see NestedBackward.
    begin: int


@final
class ScheduleRun:
    """One run through a schedule: how far it has come, and the states and recorded steps it holds.

    Args:
        chain: the chain.
        state: its first state.
        replays: whether the random streams are replayed from the first step on, as in a backward.
    """

    __slots__ = ("_actions", "_chain", "_current", "_kept", "_next_action", "_recorded", "_replay")

    def __init__(self, chain: Chain, state: ChainState, *, replays: bool) -> None:
        self._chain = chain
        self._actions: Iterator[Action] = iter(())
        self._current: ChainState | None = state
        #: The kept states, each with the states of the random streams there.
        self._kept: dict[int, tuple[ChainState, Any]] = {}
        self._recorded: dict[int, RecordedStep] = {}
        streams = chain.streams
        self._replay = StreamReplay(streams, streams.start) if replays and streams is not None else None
        #: The action that the backward begins with.
        self._next_action: Action | None = None

    def forward(self, schedule: Iterator[Action]) -> Steps:
        """Carry out the schedule up to the first step to be reversed; return the last state."""
        self._actions = schedule
        for action in self._actions:
            if action.kind is ActionKind.REVERSE:
                self._next_action = action
                break
            yield from self._carry_out(action)
        return self._take_current()

    def backward(self, grads: Sequence[Any]) -> Steps:
        """Carry out the rest of the schedule; return the gradients of the tensors of the first state.

        Args:
            grads: of the tensors of the last state; None where there is none.
        """
        streams = self._chain.streams
        if self._replay is None and streams is not None:
            self._replay = StreamReplay(streams, streams.start)
        action = self._next_action
        while action is not None:
            if action.kind is ActionKind.REVERSE:
                grads = yield from self._reverse(action.step, grads)
            else:
                yield from self._carry_out(action)
            action = next(self._actions, None)
        return grads

    def measure(self) -> Steps:
        """Run all steps, each recorded, to measure its costs; return the ChainCosts and the last state."""
        states: list[int] = []
        records: list[int] = []
        largest: list[int] = []
        seconds: list[float] = []
        for step in range(len(self._chain.functions)):
            state = self._take_current()
            states.append(bytes_of(_arrays_of(state.tensors)))
            meter = SavedBytesMeter(_arrays_of(state.tensors))
            begin = perf_counter()
            value = yield self._call(step, state.template, state.leaves(), meter=meter)
            seconds.append(perf_counter() - begin)
            self._current = ChainState.of(value)
            largest.append(meter.largest)
            records.append(meter.take_bytes(_arrays_of(self._current.tensors)))
            del value, state
        last = self._take_current()
        states.append(bytes_of(_arrays_of(last.tensors)))
        # An estimate: gradients of the states before and after the step, and two temporary arrays of an operation.
        working = [states[step] + states[step + 1] + 2 * size for step, size in enumerate(largest)]
        return ChainCosts(tuple(states), tuple(records), tuple(working), tuple(seconds)), last

    def _carry_out(self, action: Action) -> Steps:
        """Carry out any action but REVERSE."""
        kind, step = action
        if kind is ActionKind.KEEP:
            assert self._current is not None
            streams = self._chain.streams
            drawn = None if streams is None else streams.states() if self._replay is None else self._replay.states
            self._kept[step] = (self._current, drawn)
        elif kind is ActionKind.RESTORE:
            self._current, drawn = self._kept[step]
            if self._replay is not None:
                self._replay.states = drawn
        elif kind is ActionKind.DROP:
            del self._kept[step]
        elif kind is ActionKind.ADVANCE:
            state = self._take_current()
            self._current = ChainState.of((yield self._call(step, state.template, state.tensors)))
        else:
            self._current = yield from self._record(step)

    def _take_current(self) -> ChainState:
        state, self._current = self._current, None
        assert state is not None
        return state

    def _record(self, step: int) -> Steps:
        """Run a step recorded; return the state after it."""
        state = self._take_current()
        inputs = state.leaves()
        begin = next_order()
        value = yield self._call(step, state.template, inputs, recorded=True)
        outputs: list[Any] = []
        flatten(value, outputs)
        self._recorded[step] = RecordedStep(inputs, [gradient_edge(output) for output in outputs], begin)
        return ChainState.of(value)

    def _reverse(self, step: int, grads: Sequence[Any]) -> Steps:
        """Run backward through a recorded step; return the gradients of its inputs."""
        self._current = None
        inputs, edges, begin = self._recorded.pop(step)
        if len(edges) != len(grads):
            raise CheckpointError(
                f"step {step} of a chain, {name_of(self._chain.functions[step])}, returned "
                f"{counted(len(grads), 'tensor')} before and {counted(len(edges), 'tensor')} when it was called again: "
                "a step must do the same each time"
            )
        roots = [(edge, grad) for edge, grad in zip(edges, grads, strict=True) if edge is not None and grad is not None]
        del edges, grads
        if not roots:
            return [None] * len(inputs)
        root_edges, root_grads = [edge for edge, _ in roots], [grad for _, grad in roots]
        del roots
        self._chain.models.check(root_edges)
        return (yield from NestedBackward(root_edges, root_grads, begin, inputs).run())

    def _call(
        self,
        step: int,
        template: TreeTemplate,
        tensors: list[Any],
        *,
        recorded: bool = False,
        meter: SavedBytesMeter | None = None,
    ) -> Any:
        """Return the result of one step, or an awaitable of it.

        Args:
            step: its number.
            template: of the state before it.
            tensors: of that state.
            recorded: whether grad mode is on.
            meter: measures what a recorded step saves.
        """
        chain = self._chain
        context = chain.context.for_recomputation(meter)
        if not recorded and meter is None:
            context.run(set_grad_mode, False)
        around = call_directly if self._replay is None else self._replay.run
        function = chain.functions[step]
        versions = list(map(version_of, tensors))
        result = context.run(around, call_function, function, (unflatten(template, tensors),), {})
        if inspect.isawaitable(result):
            return _check_later(function, ContextAwaitable(result, context, around), versions, tensors)
        check_result(name_of(function), result, versions, tensors)
        return result


async def _check_later(function: Any, result: Any, versions: list[int], tensors: list[Any]) -> Any:
    value = await result
    check_result(name_of(function), value, versions, tensors)
    return value
