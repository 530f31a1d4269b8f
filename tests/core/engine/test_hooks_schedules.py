"""The laws of hooks that concern overlap, over a thousand schedules each."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.testing import explore
from tests.core.engine.hooking import register
from tests.support.functions import awaiting
from tests.support.graphs import node_of
from tests.support.leaves import leaf
from tests.support.sampling import cases

SORTS = ["tensor hook", "pre-hook", "post-accumulate hook", "post-hook"]


class HookedSum:
    """Three leaves that meet in a sum, with two async hooks of each sort on each; it logs when each begins and ends."""

    def __init__(self, turns: int = 1, **options: Any) -> None:
        self.log: list[tuple[int, str, str]] = []
        self.leaves = [leaf(0.1), leaf(0.2), leaf(0.3)]
        self.nodes = [node_of(x) for x in self.leaves]
        self.out: Any = np.zeros(1)
        self.turns = turns
        #: What to do before which entry of the log.
        self.at_step: tuple[int, Any] = (-1, None)
        for index, x in enumerate(self.leaves):
            self.out = np.add(self.out, awaiting(np.multiply(x, 0.7), self.noting(index, "body")))
            for sort in SORTS:
                for place in (1, 2):
                    hook = self.noting(index, f"{sort} {place}")
                    if sort == "post-accumulate hook":
                        x.register_post_accumulate_grad_hook(hook, **options)
                    else:
                        register(sort, x, hook)

    def noting(self, index: int, name: str) -> Any:
        def note(what: str) -> None:
            if len(self.log) == self.at_step[0]:
                self.at_step[1]()
            self.log.append((index, name, what))

        async def hook(*args: Any) -> None:
            note("begins")
            try:
                for _ in range(self.turns):
                    await asyncio.sleep(0)
            finally:
                note("ends")

        return hook

    def of(self, index: int) -> list[str]:
        """What began at one leaf, in order."""
        return [name for place, name, what in self.log if place == index and what == "begins"]


ORDER = ["body", *[f"{sort} {place}" for sort in SORTS for place in (1, 2)]]


def test_hooks_of_a_node_keep_their_order_and_never_overlap_on_any_schedule():
    overlapped = []

    async def main() -> None:
        graph = HookedSum()
        await graph.out.backward()
        assert [graph.of(index) for index in range(3)] == [ORDER] * 3
        for index in range(3):
            steps = [(name, what) for place, name, what in graph.log if place == index]
            assert steps == [(name, what) for name in ORDER for what in ("begins", "ends")]
        assert [x.grad.item() for x in graph.leaves] == [0.7] * 3
        overlapped.append(any(one[2:] == two[2:] for one, two in zip(graph.log, graph.log[1:], strict=False)))

    assert explore(main, seeds=cases(1000)).distinct > 1
    assert any(overlapped)


def test_nothing_starts_while_a_hook_holds_others_up_on_any_schedule():
    async def main() -> None:
        graph = HookedSum(overlap=False)
        await graph.out.backward()
        held_by: list[int] = []
        for index, name, what in graph.log:
            if name.startswith("post-accumulate") and what == "begins":
                held_by.append(index)
            elif name.startswith("post-accumulate"):
                held_by.remove(index)
            elif name in ("body", "tensor hook 1") and what == "begins":
                assert held_by == [], graph.log
        assert [graph.of(index) for index in range(3)] == [ORDER] * 3

    assert explore(main, seeds=cases(1000)).distinct > 1


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [True, False])
def test_a_hook_that_fails_leaves_no_hook_running_and_every_gradient_as_it_was_on_any_schedule(overlap):
    async def main() -> None:
        graph = HookedSum(turns=2, overlap=overlap)

        async def fails(x: Any) -> None:
            await asyncio.sleep(0)
            raise ZeroDivisionError

        graph.leaves[0].grad = before = ag.tensor([5.0])
        graph.leaves[1].register_post_accumulate_grad_hook(fails, overlap=overlap)
        with pytest.raises(ZeroDivisionError):
            await graph.out.backward()
        begun = [entry[:2] for entry in graph.log if entry[2] == "begins"]
        assert sorted(begun) == sorted(entry[:2] for entry in graph.log if entry[2] == "ends")
        assert graph.leaves[0].grad is before
        assert (before.item(), graph.leaves[1].grad, graph.leaves[2].grad) == (5.0, None, None)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    explore(main, seeds=cases(1000))


@pytest.mark.sampled
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("step", range(0, 54, 3))
def test_a_backward_may_be_cancelled_at_any_step_of_its_hooks_on_any_schedule(overlap, step):
    async def main() -> None:
        graph = HookedSum(overlap=overlap)
        backward = asyncio.ensure_future(graph.out.backward())
        graph.at_step = step, backward.cancel
        with pytest.raises(asyncio.CancelledError):
            await backward
        begun = [entry[:2] for entry in graph.log if entry[2] == "begins"]
        assert sorted(begun) == sorted(entry[:2] for entry in graph.log if entry[2] == "ends")
        assert [x.grad for x in graph.leaves] == [None] * 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    explore(main, seeds=cases(60))
