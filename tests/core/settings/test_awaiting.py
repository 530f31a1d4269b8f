"""A function of the user may be plain or async, or return any awaitable: who calls it awaits what `await` would."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from typing import Any

import pytest

import asyncgrad as ag
from asyncgrad.core.engine.measured_calls import MeasuredCalls
from asyncgrad.core.settings.awaiting import call, pass_through, run_steps
from asyncgrad.learn.http import run_for_client


async def square(x: Any) -> Any:
    return x * x


@types.coroutine
def square_of_a_generator(x: Any) -> Generator[Any, Any, Any]:
    yield
    return x * x


class Square:
    def __init__(self, x: Any) -> None:
        self._x = x

    def __await__(self) -> Generator[Any, Any, Any]:
        yield
        return self._x * self._x


class _Request:
    async def receive(self) -> Any:
        await asyncio.Event().wait()


async def by_gradient(function: Callable[[Any], Any], x: Any) -> Any:
    value, _ = await ag.value_and_grad(function)(x)
    return value


async def by_learner(function: Callable[[Any], Any], x: Any) -> Any:
    return await MeasuredCalls().call(function, x)


async def by_client(function: Callable[[Any], Any], x: Any) -> Any:
    return await run_for_client(_Request(), function(x))


@pytest.mark.parametrize("function", [square, square_of_a_generator, Square])
@pytest.mark.parametrize("caller", [call, by_gradient, by_learner, by_client])
def test_every_kind_of_awaitable_is_awaited(caller: Callable[..., Any], function: Callable[[Any], Any]):
    x = ag.tensor(3.0, requires_grad=True)

    assert ag.run(caller(function, x)).item() == 9.0


@pytest.mark.parametrize("result", [None, 1.0, ag.tensor(2.0), (x for x in "ab")])
def test_what_is_no_awaitable_is_returned_as_it_is(result: Any):
    assert ag.run(call(lambda: result)) is result


def by_passing_through(functions: list[Callable[[Any], Any]], x: Any) -> Any:
    return pass_through(functions, x)


def by_steps(functions: list[Callable[[Any], Any]], x: Any) -> Any:
    def steps() -> Generator[Any, Any, Any]:
        value = x
        for function in functions:
            value = yield function(value)
        return value

    return run_steps(steps())


@pytest.mark.parametrize("function", [square, square_of_a_generator, Square])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("run", [by_passing_through, by_steps])
def test_a_chain_is_awaited_from_its_first_awaitable_on(run: Callable[..., Any], function: Any, place: int):
    functions: list[Any] = [abs, abs, abs]
    functions[place] = function

    async def main() -> Any:
        return await run([*functions, square], 3)

    assert ag.run(main()) == 81


@pytest.mark.parametrize("run", [by_passing_through, by_steps])
def test_a_chain_without_an_awaitable_returns_its_result_at_once(run: Callable[..., Any]):
    assert (run([abs, float], -3), run([], -3)) == (3.0, -3)
