"""A graph that is built, watched, run, failed and cancelled at random has the gradients that the naive oracle has."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import asyncgrad as ag
from asyncgrad import sync
from tests.core.engine.states import graph_state, state_of
from tests.core.engine.stepwise import RULES, Steps, doubled
from tests.core.engine.watched import Watched
from tests.support.failing import Trouble, raise_trouble
from tests.support.functions import awaiting, calling
from tests.support.graphs import nodes_below
from tests.support.sampling import cases
from tests.support.settings import loop_budget
from tests.support.strategies import FUNCTIONS, ORACLE, UFUNCS, GraphStep, _apply

#: Values and gradients stay far below what a float64 holds exactly.
LARGEST_FACTOR, LARGEST_GRADIENT = 30.0, 2.0**40

Picks = tuple[int, ...]
picks = st.integers(0, 100)
#: What happens at a step of a backward, and at which.
stops = st.none() | st.tuples(st.sampled_from(["fail", "cancel", "cancel from outside"]), st.integers(0, 12))


class Backwards(RuleBasedStateMachine):
    """All values are of shape (2,), so that everything goes with everything.

    Bodies and hooks report to `steps`, where a rule may have one of them raise, or cancel the backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watched = Watched({**ORACLE, **RULES})
        self.steps = Steps()
        #: The values that nothing has released.
        self.alive: list[int] = []
        #: The handles of hooks, each with the list in the model that its factor is in.
        self.handles: list[tuple[Any, list[float], float]] = []

    # Building.

    @initialize(first=st.tuples(picks, picks), second=st.tuples(picks, picks), waits=st.booleans())
    def something_to_begin_with(self, first: Picks, second: Picks, waits: bool) -> None:
        self.add_leaf(first, has_grad=False)
        self.add_leaf(second, has_grad=True)
        self.add_operation("async body", None, first=1, second=0)
        self.add_operation("multiply", None, first=0, second=5)
        self.add_hook(0, "tensor", doubles=True, waits=waits)
        self.add_operation("product_and_first", 1, first=0, second=5)

    @precondition(lambda self: len(self.watched.data) < 4)
    @rule(data=st.tuples(picks, picks), has_grad=st.booleans())
    def add_leaf(self, data: Picks, has_grad: bool) -> None:
        leaf = ag.tensor(np.array([number % 7 - 3.0 for number in data]), requires_grad=True)
        if has_grad:
            leaf.grad = ag.tensor([-0.0, 1.0])
        self.alive.append(self.watched.add_leaf(leaf))

    @precondition(lambda self: len(self.watched.tensors) < 24)
    @rule(
        name=st.sampled_from([*UFUNCS, *FUNCTIONS, "body", "async body", "async body"]),
        turns=st.sampled_from([None, 0, 1, 2]),
        first=picks,
        second=picks,
    )
    def add_operation(self, name: str, turns: int | None, first: int, second: int) -> None:
        operands = [self.pick(first), self.pick(second)][: 1 if name in ("blind", "body", "async body") else 2]
        tensors = [self.watched.tensors[operand] for operand in operands]
        if np.prod([np.max(np.abs(tensor.numpy())) for tensor in tensors]) > LARGEST_FACTOR and len(operands) == 2:
            name = "subtract"
        where = f"{name} {len(self.watched.operations)}"
        if name == "body":
            results = [calling(tensors[0], lambda grad: self.steps(where))]
        elif name == "async body":
            results = [awaiting(tensors[0], lambda grad: self.steps.wait(where))]
        else:
            results = _apply(GraphStep(name, tuple(operands), turns, False), tensors)
        self.alive.extend(self.watched.add(name, operands, results))

    def pick(self, number: int) -> int:
        """Return one of the values, recent ones more often."""
        return self.alive[-1 - number % min(len(self.alive), 1 + number // 5)]

    def pick_made(self, number: int) -> int | None:
        """Return one that is no leaf, if there is one."""
        made = [index for index in self.alive if index not in self.watched.data]
        return made[-1 - number % len(made)] if made else None

    # Watching.

    @rule(
        which=picks,
        kind=st.sampled_from(["tensor", "before the node", "after the node"]),
        doubles=st.booleans(),
        waits=st.booleans(),
    )
    def add_hook(self, which: int, kind: str, doubles: bool, waits: bool) -> None:
        watched, factor = self.watched, 2.0 if doubles else 1.0
        hook = self.hook(f"{kind} hook {len(self.handles)}", doubles, waits)
        index = self.pick(which) if kind == "tensor" else self.pick_made(which)
        if index is None:
            return
        tensor = watched.tensors[index]
        if kind == "tensor":
            handle = tensor.register_hook(hook)
            factors = watched.tensor_hooks.setdefault(index, [])
        else:
            node, maker = tensor.grad_fn, watched.maker(index)
            assert node is not None
            assert maker is not None
            before = kind == "before the node"
            handle = node.register_prehook(hook) if before else node.register_hook(hook)
            factors = (watched.pre_hooks if before else watched.post_hooks).setdefault(maker, [])
        factors.append(factor)
        self.handles.append((handle, factors, factor))

    @rule(which=picks, waits=st.booleans(), overlap=st.booleans())
    def add_post_accumulate_hook(self, which: int, waits: bool, overlap: bool) -> None:
        leaf = self.watched.tensors[sorted(self.watched.data)[which % len(self.watched.data)]]
        handle = leaf.register_post_accumulate_grad_hook(self.hook("post-accumulate", False, waits), overlap=overlap)
        self.handles.append((handle, [1.0], 1.0))

    @rule(which=st.lists(picks, min_size=1, max_size=3), waits=st.booleans())
    def add_multi_grad_hook(self, which: list[int], waits: bool) -> None:
        tensors = [self.watched.tensors[self.pick(number)] for number in which]
        handle = ag.graph.register_multi_grad_hook(tensors, self.hook("multi-grad", False, waits), mode="any")
        self.handles.append((handle, [1.0], 1.0))

    def hook(self, where: str, doubles: bool, waits: bool) -> Any:
        def hook(*arguments: Any) -> Any:
            self.steps(where)
            return doubled(arguments[0]) if doubles else None

        async def async_hook(*arguments: Any) -> Any:
            await self.steps.wait(where)
            return doubled(arguments[0]) if doubles else None

        return async_hook if waits else hook

    @precondition(lambda self: self.handles)
    @rule(which=picks)
    def remove_hook(self, which: int) -> None:
        handle, factors, factor = self.handles.pop(which % len(self.handles))
        handle.remove()
        factors.remove(factor)

    @rule(which=picks)
    def retain_grad(self, which: int) -> None:
        index = self.pick_made(which)
        if index is not None:
            self.watched.tensors[index].retain_grad()
            self.watched.retained.add(index)

    @rule(which=picks)
    def zero_grad(self, which: int) -> None:
        index = which % len(self.watched.tensors)
        self.watched.tensors[index].grad = None
        self.watched.grads.pop(index, None)

    # Running.

    @precondition(lambda self: self.pick_made(0) is not None)
    @rule(
        which=st.lists(picks, min_size=1, max_size=3),
        inputs=st.none() | st.lists(picks, min_size=1, max_size=3),
        keep=st.booleans(),
        create_graph=st.booleans(),
        breathes=st.booleans(),
        stop=stops,
    )
    def backward(
        self, which: list[int], inputs: list[int] | None, keep: bool, create_graph: bool, breathes: bool, stop: Any
    ) -> None:
        roots, grads = self.roots(which)
        limits = None if inputs is None else [self.pick(number) for number in inputs]
        if self.is_too_large(roots, grads):
            return
        for index in limits or ():
            # As the backward itself does before it begins; in PyTorch, too, that outlives one that fails.
            self.watched.tensors[index].retain_grad()
            self.watched.retained.update({index} - self.watched.data.keys())
        before = self.state()
        backward = self.start(roots, grads, keep=keep, create_graph=create_graph, inputs=limits)
        (ended,) = self.run([backward], stop, breathes)
        if ended is None:
            self.watched.expect_backward(roots, grads, limits)
        else:
            assert self.state() == before
        if not keep:
            self.forget_the_graph()

    @precondition(lambda self: self.pick_made(0) is not None)
    @rule(which=st.lists(picks, min_size=1, max_size=3), keep=st.booleans(), stop_at=st.none() | st.integers(0, 12))
    def blocking_backward(self, which: list[int], keep: bool, stop_at: int | None) -> None:
        roots, grads = self.roots(which)
        if self.is_too_large(roots, grads):
            return
        before = self.state()
        self.steps.arm(stop_at, raise_trouble)
        try:
            sync.backward([self.watched.tensors[root] for root in roots], grads, retain_graph=keep)
        except Trouble:
            assert self.state() == before
        else:
            self.watched.expect_backward(roots, grads)
        if not keep:
            self.forget_the_graph()

    @precondition(lambda self: self.pick_made(0) is not None)
    @rule(
        which=st.lists(picks, min_size=1, max_size=2),
        inputs=st.lists(picks, min_size=1, max_size=3),
        keep=st.booleans(),
        create_graph=st.booleans(),
        stop=stops,
    )
    def grad(self, which: list[int], inputs: list[int], keep: bool, create_graph: bool, stop: Any) -> None:
        roots, grads = self.roots(which)
        wanted = [self.pick(number) for number in inputs]
        if self.is_too_large(roots, grads):
            return
        before = self.state()
        tensors = self.watched.tensors
        backward = ag.grad(
            [tensors[root] for root in roots],
            [tensors[index] for index in wanted],
            grads,
            retain_graph=keep,
            create_graph=create_graph,
            allow_unused=True,
        )
        captured: list[Any] = []
        (ended,) = self.run([self.caught(backward, captured)], stop, False)
        if ended is None:
            expected = self.watched.expect_grad(roots, grads, wanted)
            assert [None if each is None else each.tolist() for each in captured] == [
                None if each is None else each.tolist() for each in expected
            ]
        else:
            assert self.state() == before
        if not keep:
            self.forget_the_graph()

    @precondition(lambda self: self.pick_made(0) is not None)
    @rule(
        first=st.lists(picks, min_size=1, max_size=2),
        second=st.lists(picks, min_size=1, max_size=2),
        breathes=st.booleans(),
        stop=stops,
    )
    def two_at_once(self, first: list[int], second: list[int], breathes: bool, stop: Any) -> None:
        both = [self.roots(first), self.roots(second)]
        if any(self.is_too_large(*each) for each in both):
            return
        ended = self.run([self.start(*each, keep=True) for each in both], stop, breathes)
        for each, error in zip(both, ended, strict=True):
            if error is None:
                self.watched.expect_backward(*each)

    def roots(self, which: Sequence[int]) -> tuple[list[int], list[np.ndarray]]:
        roots = [index for number in which if (index := self.pick_made(number)) is not None]
        return roots, [np.array([1.0, number % 3 - 1.0]) for number in which]

    def is_too_large(self, roots: Sequence[int], grads: Sequence[np.ndarray]) -> bool:
        found = [grad for part in self.watched.found(roots, grads) for grad in part]
        sums = [*found, *self.watched.grads.values()]
        return any(grad is not None and np.max(np.abs(grad)) > LARGEST_GRADIENT for grad in sums)

    def start(
        self, roots: Sequence[int], grads: Any, *, keep: bool, create_graph: bool = False, inputs: Any = None
    ) -> Any:
        tensors = self.watched.tensors
        return ag.backward(
            [tensors[root] for root in roots],
            grads,
            retain_graph=keep,
            create_graph=create_graph,
            inputs=None if inputs is None else [tensors[index] for index in inputs],
        )

    async def caught(self, backward: Any, captured: list[Any]) -> None:
        captured.extend(await backward)

    def run(self, backwards: Sequence[Any], stop: Any, breathes: bool) -> list[BaseException | None]:
        """Run backward passes at once, one of them stopped at a step; return how each of them ended."""
        tasks: list[Any] = []

        def stop_it(name: str) -> None:
            if stop[0] == "fail":
                raise Trouble(name)
            if stop[0] == "cancel":
                tasks[0].cancel()
            else:
                asyncio.get_running_loop().call_soon(tasks[0].cancel)

        async def main() -> list[BaseException | None]:
            with loop_budget(-1.0 if breathes else 10.0), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                tasks.extend(asyncio.ensure_future(backward) for backward in backwards)
                await asyncio.wait(tasks)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return [asyncio.CancelledError() if task.cancelled() else task.exception() for task in tasks]

        self.steps.arm(*((None, stop_it) if stop is None else (stop[1], stop_it)))
        ended = asyncio.run(main())
        for error in ended:
            assert error is None or isinstance(error, (Trouble, asyncio.CancelledError)), error
        return ended

    def forget_the_graph(self) -> None:
        """Only leaves are of any use once their graph has been released."""
        self.alive = sorted(self.watched.data)

    def state(self) -> list[Any]:
        tensors = self.watched.tensors
        return [state_of(*tensors), graph_state(nodes_below(*tensors))]

    @invariant()
    def all_gradients_are_those_of_the_model(self) -> None:
        assert self.watched.actual() == self.watched.expected()

    @invariant()
    def nothing_is_left_open(self) -> None:
        for state in state_of(*self.watched.tensors):
            # Neither a change that might be taken back, nor a lock.
            assert state[3:5] == [0, False]
        for node_state in graph_state(nodes_below(*self.watched.tensors)):
            assert node_state is None or node_state[2:] == [False, None]


TestBackwards = Backwards.TestCase
TestBackwards.settings = settings(
    max_examples=cases(300),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
