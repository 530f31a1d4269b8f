"""A long backward lets the loop breathe each time its budget is spent; a short one never suspends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.engine import driver, task_group
from tests.support.clocks import TickingClock, hand_in
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.settings import loop_budget, node_by_node
from tests.support.turns import at_once, turns_given


@pytest.fixture(autouse=True)
def clock() -> Iterator[TickingClock]:
    """A clock of which a node, a body, a turn of the driver take a tick or two."""
    made = TickingClock()
    with hand_in(made), node_by_node():
        yield made


@pytest.fixture(params=[10.0])
def budget(request: pytest.FixtureRequest) -> Iterator[float]:
    with loop_budget(request.param):
        yield request.param


def chain_of_links(length: int, link: Callable[[ag.Tensor], Any]) -> ag.Tensor:
    out: Any = leaf(1.0)
    for _ in range(length):
        out = link(out)
    return out


def hooked_link(x: ag.Tensor) -> ag.Tensor:
    made = np.multiply(x, 1.0)
    made.register_hook(lambda grad: None)
    return made


LINKS: dict[str, Callable[[ag.Tensor], Any]] = {
    "plain nodes": lambda x: np.multiply(x, 1.0),
    "bodies": lambda x: calling(x, lambda grad: None),
    "async bodies that do not suspend": lambda x: awaiting(x, at_once),
    "hooked nodes": hooked_link,
}
each_link = pytest.mark.parametrize("link", LINKS)


@pytest.mark.slow
@each_link
async def test_the_loop_gets_turns_in_proportion_to_the_length_of_a_backward(budget, link):
    short = await turns_given(chain_of_links(200, LINKS[link]).backward())
    long = await turns_given(chain_of_links(400, LINKS[link]).backward())
    # Each node reads the clock at least once, and a budget is ten ticks.
    assert short >= 200 / budget
    assert 1.8 * short <= long <= 2.2 * short


@each_link
async def test_a_backward_within_its_budget_never_suspends(budget, link):
    step = chain_of_links(2, LINKS[link]).backward()
    with pytest.raises(StopIteration):
        step.send(None)


@each_link
def test_a_blocking_backward_has_no_budget(link):
    out = chain_of_links(200, LINKS[link])
    with loop_budget(-1.0):
        sync.backward(out)


async def test_the_wait_for_a_body_does_not_count_against_the_budget(budget, clock, monkeypatch):
    async def waits(grad):
        clock.now += 1000.0
        await asyncio.sleep(0)

    breaths = 0

    async def next_turn(*arguments):
        nonlocal breaths
        breaths += 1

    monkeypatch.setattr(driver, "next_turn", next_turn)
    monkeypatch.setattr(task_group, "next_turn", next_turn)
    await awaiting(np.multiply(leaf(1.0), 2.0), waits).backward()
    # The body's first step took long, but its wait has let the loop turn; and that is no time of the next node's.
    assert breaths == 0


async def test_a_graph_that_is_left_while_the_loop_breathes_gives_the_same():
    x, y = leaf(2.0), leaf(3.0)
    out = np.multiply(x, y)
    for _ in range(20):
        out = np.add(np.multiply(out, 1.0), np.multiply(x, y))
    with loop_budget(-1.0):
        await out.backward()
    assert (x.grad.item(), y.grad.item()) == (63.0, 42.0)
