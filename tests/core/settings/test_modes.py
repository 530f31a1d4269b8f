"""Grad mode belongs to one context: its managers give back what they found, and tasks never see each other's."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

import asyncgrad as ag

pytestmark = pytest.mark.usefixtures("recording_is_left_on")

MANAGERS = {
    "no_grad": (ag.no_grad, False),
    "enable_grad": (ag.enable_grad, True),
    "set_grad_enabled(False)": (lambda: ag.set_grad_enabled(False), False),
    "set_grad_enabled(True)": (lambda: ag.set_grad_enabled(True), True),
}
managers = pytest.mark.parametrize(("manager", "inside"), MANAGERS.values(), ids=MANAGERS)
outer = pytest.mark.parametrize("before", [True, False], ids=["recording", "not-recording"])


def records() -> bool:
    return bool((ag.tensor([1.0], requires_grad=True) * 2).requires_grad)


# Managers.


@managers
@outer
def test_a_block_sets_the_mode_and_gives_back_the_one_before(manager, inside, before):
    with ag.set_grad_enabled(before):
        with manager():
            during = (ag.is_grad_enabled(), records())
        after = ag.is_grad_enabled()

    assert ((inside, inside), before) == (during, after)


@managers
@outer
def test_a_block_that_raises_gives_back_the_mode_before_it(manager, inside, before):
    with ag.set_grad_enabled(before):
        with pytest.raises(KeyError), manager():
            raise KeyError

        assert before == ag.is_grad_enabled()


def test_blocks_nest():
    seen = []
    with ag.no_grad():
        with ag.enable_grad():
            with ag.no_grad():
                seen.append(ag.is_grad_enabled())
            seen.append(ag.is_grad_enabled())
        seen.append(ag.is_grad_enabled())

    assert seen == [False, True, False]


def test_leaves_made_under_no_grad_may_require_grad():
    with ag.no_grad():
        leaf = ag.tensor([1.0], requires_grad=True)

    assert leaf.requires_grad


@managers
def test_one_manager_serves_several_blocks_one_inside_the_other_too(manager, inside):
    one = manager()
    seen = []
    with one:
        with ag.set_grad_enabled(not inside):
            with one:
                seen.append(ag.is_grad_enabled())
            seen.append(ag.is_grad_enabled())
        seen.append(ag.is_grad_enabled())
    with ag.set_grad_enabled(not inside):
        with one:
            seen.append(ag.is_grad_enabled())
        seen.append(ag.is_grad_enabled())

    assert [inside, not inside, inside, inside, not inside] == seen


def test_set_grad_enabled_switches_without_a_block():
    ag.set_grad_enabled(False)
    off = ag.is_grad_enabled()
    ag.set_grad_enabled(True)

    assert (off, ag.is_grad_enabled()) == (False, True)


# Tasks and threads.


async def test_a_task_does_not_see_the_mode_of_its_sibling():
    entered, looked = asyncio.Event(), asyncio.Event()

    async def inside():
        with ag.no_grad():
            entered.set()
            await looked.wait()
            return ag.is_grad_enabled()

    async def beside():
        await entered.wait()
        seen = ag.is_grad_enabled()
        looked.set()
        return seen

    assert (await asyncio.gather(inside(), beside())) == [False, True]


async def test_one_manager_gives_each_task_its_own_mode_back():
    one = ag.no_grad()

    first_in, second_in, first_out = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first():
        with ag.set_grad_enabled(False):
            with one:
                first_in.set()
                await second_in.wait()
            first_out.set()
            return ag.is_grad_enabled()

    async def second():
        await first_in.wait()
        with one:
            second_in.set()
            await first_out.wait()
        return ag.is_grad_enabled()

    assert (await asyncio.gather(first(), second())) == [False, True]


async def test_a_task_starts_with_the_mode_it_was_made_in_and_keeps_it():
    async def later():
        return ag.is_grad_enabled()

    with ag.no_grad():
        task = asyncio.create_task(later())

    assert (await task, ag.is_grad_enabled()) == (False, True)


async def test_a_cancelled_block_gives_back_the_mode_before_it():
    async def waits():
        try:
            with ag.no_grad():
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ag.is_grad_enabled()

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()

    assert (await task) is True


def test_a_thread_starts_out_recording():
    seen = []
    with ag.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
        thread.start()
        thread.join()

    assert seen == [True]


def test_a_block_closed_in_another_context_leaves_the_mode_of_that_one_alone():
    def generator():
        with ag.no_grad():
            yield ag.is_grad_enabled()

    started = generator()
    first = contextvars.copy_context().run(next, started)
    with ag.enable_grad():
        with ag.no_grad():
            started.close()
            inside = ag.is_grad_enabled()
        after = ag.is_grad_enabled()

    assert (first, inside, after) == (False, False, True)


def test_a_block_that_outlives_an_inner_one_does_not_bring_its_mode_back_too_late():
    def generator():
        with ag.no_grad():
            yield

    started = generator()
    next(started)
    with ag.no_grad():
        started.close()

    # The inner block gives back what it found when it began: the mode of the generator's block.
    assert not ag.is_grad_enabled()
    ag.set_grad_enabled(True)
