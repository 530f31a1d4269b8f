"""Progress: how far a chain has come in its schedule, and the states and recorded steps that it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

from ..context import set_grad_mode
from ..errors import CheckpointError
from ..graph.leaf import gradient_edge
from ..graph.node import Edge, next_order
from ..graph.saved import version_of
from ..graph.values import counted
from .call import SavedContext, name_of, plainly
from .deep_calls import called
from .driving import Guided, Steps
from .measured import Meter, bytes_of
from .nested import Nested, detached
from .node import check_result
from .random_streams import Replay, Streams
from .schedule import Action, Kind
from .structure import filled, taken_apart
from .unequal import Sizes

__all__ = ["Chain", "Progress", "State"]


class State(NamedTuple):
    """What goes from one step to the next; its tensors have no history."""

    template: Any
    tensors: list[Any]
    #: For each tensor, whether its gradient is wanted.
    requires: list[bool]

    @classmethod
    def of(cls, value: Any) -> State:
        """Return what a step has returned as a state."""
        tensors: list[Any] = []
        template = taken_apart(value, tensors)
        return cls(template, [tensor.detach() for tensor in tensors], [one.dtype.kind in "fc" for one in tensors])

    def leaves(self) -> list[Any]:
        """Return leaves on the same memory, which require grad where that is wanted."""
        return detached(self.tensors, self.requires)


class Record(NamedTuple):
    """A recorded step: its inputs, where the gradients of its outputs flow, and the order of what came before it."""

    inputs: list[Any]
    edges: list[Edge | None]
    begin: int


class Chain(NamedTuple):
    """What all runs of one call of a chain share."""

    functions: tuple[Callable[[Any], Any], ...]
    context: SavedContext
    streams: Streams | None


@final
class Progress:
    """One run through the schedule.

    Args:
        chain: the chain.
        state: the state that it begins with.
        again: whether this is in a backward, where the random streams are to be replayed.
    """

    __slots__ = ("_actions", "_chain", "_current", "_kept", "_records", "_replay", "_reversing")

    def __init__(self, chain: Chain, state: State, *, again: bool) -> None:
        self._chain = chain
        self._actions: Iterator[Action] = iter(())
        self._current: State | None = state
        #: Kept states, each with the random streams as they were there.
        self._kept: dict[int, tuple[State, Any]] = {}
        self._records: dict[int, Record] = {}
        streams = chain.streams
        self._replay = Replay(streams, streams.start) if again and streams is not None else None
        #: The action with which the backward begins.
        self._reversing: Action | None = None

    def forward(self, schedule: Iterator[Action]) -> Steps:
        """Run the part of the schedule that comes before any step is reversed; return the last state."""
        self._actions = schedule
        for action in self._actions:
            if action.kind is Kind.REVERSE:
                self._reversing = action
                break
            yield from self._do(action)
        return self._taken()

    def backward(self, grads: Sequence[Any]) -> Steps:
        """Run the rest; return the gradients of the tensors of the first state.

        Args:
            grads: of the tensors of the last state; None where there is none.
        """
        streams = self._chain.streams
        if self._replay is None and streams is not None:
            self._replay = Replay(streams, streams.start)
        action = self._reversing
        while action is not None:
            if action.kind is Kind.REVERSE:
                grads = yield from self._reverse(action.step, grads)
            else:
                yield from self._do(action)
            action = next(self._actions, None)
        return grads

    def measure(self) -> Steps:
        """Run all steps, each recorded to see what it costs; return the Sizes, and the last state."""
        states: list[int] = []
        records: list[int] = []
        largest: list[int] = []
        seconds: list[float] = []
        for step in range(len(self._chain.functions)):
            state = self._taken()
            states.append(bytes_of(tensor._data for tensor in state.tensors))
            meter = Meter(tensor._data for tensor in state.tensors)
            begin = perf_counter()
            value = yield self._call(step, state.template, state.leaves(), keeper=meter)
            seconds.append(perf_counter() - begin)
            self._current = State.of(value)
            largest.append(meter.largest)
            records.append(meter.bytes_besides(tensor._data for tensor in self._current.tensors))
            del value, state
        last = self._taken()
        states.append(bytes_of(tensor._data for tensor in last.tensors))
        # A gradient before and after the step, and two of the largest arrays for what an operation makes on its way.
        working = [states[step] + states[step + 1] + 2 * size for step, size in enumerate(largest)]
        return Sizes(tuple(states), tuple(records), tuple(working), tuple(seconds)), last

    def _do(self, action: Action) -> Steps:
        kind, step = action
        if kind is Kind.KEEP:
            assert self._current is not None
            streams = self._chain.streams
            drawn = None if streams is None else streams.now() if self._replay is None else self._replay.inside
            self._kept[step] = (self._current, drawn)
        elif kind is Kind.RESTORE:
            self._current, drawn = self._kept[step]
            if self._replay is not None:
                self._replay.inside = drawn
        elif kind is Kind.DROP:
            del self._kept[step]
        elif kind is Kind.ADVANCE:
            state = self._taken()
            self._current = State.of((yield self._call(step, state.template, state.tensors)))
        else:
            self._current = yield from self._record(step)

    def _taken(self) -> State:
        state, self._current = self._current, None
        assert state is not None
        return state

    def _record(self, step: int) -> Steps:
        state = self._taken()
        inputs = state.leaves()
        begin = next_order()
        value = yield self._call(step, state.template, inputs, recorded=True)
        outputs: list[Any] = []
        taken_apart(value, outputs)
        self._records[step] = Record(inputs, [gradient_edge(output) for output in outputs], begin)
        return State.of(value)

    def _reverse(self, step: int, grads: Sequence[Any]) -> Steps:
        """Run backward through a recorded step; return the gradients of its inputs."""
        self._current = None
        inputs, edges, begin = self._records.pop(step)
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
        starts, given = [edge for edge, _ in roots], [grad for _, grad in roots]
        del roots
        return (yield from Nested(starts, given, begin, inputs).run())

    def _call(self, step: int, template: Any, tensors: list[Any], *, recorded: bool = False, keeper: Any = None) -> Any:
        """Run one step; return what it returns, or an awaitable of that."""
        chain = self._chain
        context = chain.context.for_recomputation(keeper)
        if not recorded and keeper is None:
            context.run(set_grad_mode, False)
        around = plainly if self._replay is None else self._replay.run
        function = chain.functions[step]
        versions = list(map(version_of, tensors))
        result = context.run(around, called, function, (filled(template, tensors),), {})
        if inspect.isawaitable(result):
            return _checked_later(function, Guided(result, context, around), versions, tensors)
        check_result(name_of(function), result, versions, tensors)
        return result


async def _checked_later(function: Any, result: Any, versions: list[int], tensors: list[Any]) -> Any:
    value = await result
    check_result(name_of(function), value, versions, tensors)
    return value
