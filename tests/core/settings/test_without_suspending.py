"""A coroutine that must not suspend is run by one function, whoever must not suspend."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asyncgrad.core.settings.context import BLOCKING
from asyncgrad.core.settings.without_suspending import run_without_suspending
from asyncgrad.errors import BlockingError


def error(name: str) -> BlockingError:
    return BlockingError(f"{name} suspended")


async def returns(result: Any) -> Any:
    return result


async def raises(error: BaseException) -> Any:
    raise error


async def suspends() -> None:
    await asyncio.sleep(0)


def test_the_result_is_that_of_the_coroutine():
    assert run_without_suspending(returns(3), error, "f") == 3


def test_the_coroutine_sees_that_its_caller_blocks():
    async def look() -> bool:
        return BLOCKING.get()

    assert run_without_suspending(look(), error, "f") is True


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("end", ["returns", "raises", "suspends"])
def test_afterwards_the_context_blocks_if_it_did_before(before: bool, end: str):
    coroutine = {"returns": lambda: returns(1), "raises": lambda: raises(ValueError()), "suspends": suspends}[end]()
    token = BLOCKING.set(before)
    try:
        if end == "returns":
            run_without_suspending(coroutine, error, "f")
        else:
            with pytest.raises((ValueError, BlockingError)):
                run_without_suspending(coroutine, error, "f")
        after = BLOCKING.get()
    finally:
        BLOCKING.reset(token)

    assert after is before


def test_one_that_suspends_is_closed_and_raises_what_its_caller_says():
    closed = []

    async def waits() -> None:
        try:
            await suspends()
        finally:
            closed.append(True)

    with pytest.raises(BlockingError, match="f suspended"):
        run_without_suspending(waits(), error, "f")

    assert closed == [True]


def test_what_a_coroutine_waited_for_is_cancelled():
    async def main() -> bool:
        future = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            await future

        with pytest.raises(BlockingError):
            run_without_suspending(waits(), error, "f")
        return future.cancelled()

    assert asyncio.run(main())
