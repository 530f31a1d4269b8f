"""On random graphs a compiled backward gives the bits of the engine, hooks, failures and cancellations included."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.settings.scheduling import LOOP_BUDGET
from tests.core.engine.hooking import as_kind, register
from tests.support.arrays import bits, bits_of_grads
from tests.support.failing import Trouble
from tests.support.loops import on_each_loop
from tests.support.sampling import cases
from tests.support.settings import compiled_after, loop_budget
from tests.support.strategies import GraphProgram, programs

pytestmark = pytest.mark.usefixtures("cache", "all_arrays_are_large")


def roots_of(program: GraphProgram, values: list[Any]) -> tuple[list[Any], list[Any]]:
    return [values[root] for root in program.roots], list(program.root_grads)


@settings(max_examples=cases(150))
@given(programs(), st.sampled_from([0, 1]))
def test_a_random_graph_gets_the_bits_of_the_engine(program, after):
    program = program.with_fractions()
    found = []
    for mode_after in (None, after, after):
        values = program.tensors()
        with compiled_after(mode_after):
            sync.backward(*roots_of(program, values))
        found.append(bits_of_grads(values[: len(program.leaves)]))

    assert found[0] == found[1] == found[2]


@settings(max_examples=cases(100))
@given(programs(functions=False), st.data())
def test_inputs_and_captures_of_a_random_graph_get_the_bits_of_the_engine(program, data):
    program = program.with_fractions()
    wanted = data.draw(st.lists(st.sampled_from(program.tracked), min_size=1, max_size=3))
    found = []
    for after in (None, 0, 0):
        values = program.tensors()
        inputs = [values[index] for index in wanted]
        with compiled_after(after):
            grads = sync.grad(*roots_of(program, values)[:1], inputs, roots_of(program, values)[1], allow_unused=True)
        found.append([None if grad is None else (grad.shape, grad.numpy().tobytes()) for grad in grads])

    assert found[0] == found[1] == found[2]


@settings(max_examples=cases(60))
@given(programs(), st.integers(0, 12))
async def test_a_random_graph_cancelled_at_any_turn_has_happened_or_not(program, turns):
    program = program.with_fractions()

    async def stopped(after: int | None, count: int) -> tuple[Any, Any, Any]:
        values = program.tensors()
        leaves = values[: len(program.leaves)]
        with compiled_after(after):
            budget = LOOP_BUDGET.set(-1.0)
            try:
                task = asyncio.ensure_future(ag.backward(*roots_of(program, values)))
                for _ in range(count):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            finally:
                LOOP_BUDGET.reset(budget)
        return task.cancelled(), bits_of_grads(leaves), [None] * len(leaves)

    async def main() -> None:
        with compiled_after(0):
            values = program.tensors()
            await ag.backward(*roots_of(program, values))
        whole = bits_of_grads(values[: len(program.leaves)])
        cancelled, found, nothing = await stopped(0, turns)
        assert found == (nothing if cancelled else whole)

    await main()


@settings(max_examples=cases(60))
@given(programs(functions=False), st.integers(0, 5))
def test_a_random_graph_with_a_failing_hook_leaves_every_gradient(program, which):
    program = program.with_fractions()

    def fail(grad: Any) -> None:
        raise ArithmeticError("on the way")

    with compiled_after(0):
        values = program.tensors()
        leaves = values[: len(program.leaves)]
        sync.backward(*roots_of(program, values))
        before = bits_of_grads(leaves)
        again = program.tensors(leaves)
        hooked = again[program.tracked[which % len(program.tracked)]]
        handle = hooked.register_hook(fail)
        failed = False
        try:
            sync.backward(*roots_of(program, again))
        except ArithmeticError:
            failed = True
        handle.remove()

    assert not failed or bits_of_grads(leaves) == before


class HookedProgram:
    """A random program with hooks of all sorts, and the journal that they keep."""

    def __init__(self, program: GraphProgram, hooks: list[tuple[str, int, str, bool]], fails_at: int) -> None:
        self.program = program
        self.hooks = hooks
        #: Which call raises, counted from 0.
        self.fails_at = fails_at
        self.journal: list[Any] = []
        self.leaves: list[Any] = []
        self.handles: list[Any] = []

    def values(self) -> list[Any]:
        """Evaluate the program, on the same leaves each time, and put the hooks on."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        values = self.program.tensors(self.leaves or None)
        self.leaves = values[: len(self.program.leaves)]
        for where, index, kind, changes in self.hooks:
            self._watch(where, values[index], index, kind, changes)
        return values

    def _watch(self, where: str, tensor: Any, index: int, kind: str, changes: bool) -> None:
        if where == "kept gradient":
            tensor.retain_grad()
        elif where != "post-accumulate hook" or tensor.is_leaf:
            hook = self._hook(f"{where} {index}", kind, changes and where != "post-accumulate hook")
            self.handles.append(register(where, tensor, hook))

    def _hook(self, name: str, kind: str, changes: bool) -> Any:
        def noted(*seen: Any) -> Any:
            given = [
                bits(each) if each is not None else None
                for one in seen
                for each in (one if isinstance(one, tuple) else (one,))
            ]
            self.journal.append((name, given, bits_of_grads(self.leaves)))
            if len(self.journal) == self.fails_at + 1:
                raise Trouble(name)
            first = seen[0]
            if not changes or first is None:
                return None
            if isinstance(first, tuple):
                return tuple(None if one is None else one * 1.5 for one in first)
            return first * 1.5

        return as_kind(kind, noted)


def hooked_programs() -> Any:
    """Draw a program, hooks, and a call that fails; hooks are put on values that require grad."""

    def with_hooks(program: GraphProgram) -> Any:
        places = ["tensor hook", "pre-hook", "post-hook", "kept gradient", "post-accumulate hook"]
        hook = st.tuples(
            st.sampled_from(places),
            st.sampled_from(program.tracked),
            st.sampled_from(["function", "function", "async def", "suspending"]),
            st.booleans(),
        )
        return st.tuples(st.just(program.with_fractions()), st.lists(hook, min_size=1, max_size=5))

    return st.tuples(programs().flatmap(with_hooks), st.one_of(st.just(10**9), st.integers(0, 4)))


def end_and_sights(run: Any, made: HookedProgram, after: int | None, drive: str, turns: int | None = None) -> Any:
    """Run a backward; return how it ended, and all that could be seen by then."""
    values = made.values()

    async def awaited() -> str:
        task = asyncio.ensure_future(ag.backward(*roots_of(made.program, values)))
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        if turns is not None:
            task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            return "cancelled"
        error = task.exception()
        if error is not None and not isinstance(error, Trouble):
            raise error
        return "done" if error is None else f"{error} {[without_numbers(note) for note in error.__notes__]}"

    def blocking() -> str:
        try:
            sync.backward(*roots_of(made.program, values))
        except Trouble as error:
            return f"{error} {[without_numbers(note) for note in error.__notes__]}"
        return "done"

    before = bits_of_grads(made.leaves)
    begin = len(made.journal)
    # No pause for the loop, at which what waits could get on, and which depends on how busy the machine is.
    with compiled_after(after), loop_budget(3600.0):
        end = run(awaited()) if drive == "awaited" else blocking()
    if end != "done":
        assert bits_of_grads(made.leaves) == before
    kept = [bits(value.grad) for value in values if value.requires_grad and value.retains_grad]
    return end, made.journal[begin:], bits_of_grads(made.leaves), kept


def without_numbers(note: str) -> str:
    """Return a note without the numbers of nodes, which count up over the process."""
    return re.sub(r"#\d+", "", note)


@pytest.mark.slow
@on_each_loop
@pytest.mark.parametrize("drive", ["awaited", "blocking"])
@settings(max_examples=cases(120))
@given(hooked_programs())
def test_hooks_of_a_random_graph_see_what_they_see_of_the_engine(run, drive, drawn):
    (program, hooks), fails_at = drawn
    found = []
    for after in (None, 0):
        made = HookedProgram(program, hooks, 10**9)
        first = end_and_sights(run, made, after, drive)
        made.fails_at = len(made.journal) + fails_at
        found.append([first, end_and_sights(run, made, after, drive), end_and_sights(run, made, after, drive)])

    assert found[0] == found[1]


@on_each_loop
@settings(max_examples=cases(100))
@given(hooked_programs(), st.integers(0, 8))
def test_a_random_graph_with_hooks_that_is_cancelled_has_happened_or_not(run, drawn, turns):
    (program, hooks), _ = drawn
    found = []
    for after in (None, 0):
        made = HookedProgram(program, hooks, 10**9)
        end_and_sights(run, made, after, "awaited")
        found.append([end_and_sights(run, made, after, "awaited", turns), end_and_sights(run, made, after, "awaited")])

    assert found[0] == found[1]
