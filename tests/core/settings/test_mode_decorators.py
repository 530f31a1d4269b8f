"""Grad mode decorates functions, coroutines, generators and async generators: their bodies, and nothing else."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

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


# Decorators.


@managers
@outer
def test_a_decorated_function_runs_in_the_mode_and_its_caller_does_not(manager, inside, before):
    @manager()
    def decorated():
        return ag.is_grad_enabled()

    with ag.set_grad_enabled(before):
        during, after = decorated(), ag.is_grad_enabled()

    assert (inside, before) == (during, after)


@managers
def test_decorating_leaves_the_mode_alone(manager, inside):
    manager()(lambda: None)

    assert ag.is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @ag.no_grad()
    def down(n):
        return [ag.is_grad_enabled(), *(down(n - 1) if n else [])]

    assert down(3) == [False] * 4


@pytest.mark.parametrize("manager", [ag.no_grad, ag.enable_grad])
def test_decorators_need_no_parentheses(manager):
    @manager
    def decorated(value, *, scale):
        return value * scale, ag.is_grad_enabled()

    assert (6, manager is ag.enable_grad) == decorated(2, scale=3)


def test_a_decorated_function_keeps_its_name_kind_and_signature():
    def plain(a, b=1):
        """Document."""

    async def coroutine(a, b=1): ...

    def generator(a, b=1):
        yield

    async def async_generator(a, b=1):
        yield

    kinds: dict[Any, Any] = {
        plain: inspect.isfunction,
        coroutine: inspect.iscoroutinefunction,
        generator: inspect.isgeneratorfunction,
        async_generator: inspect.isasyncgenfunction,
    }
    for function, is_kind in kinds.items():
        decorated = ag.no_grad()(function)

        assert is_kind(decorated)
        assert (function.__name__, function.__doc__) == (decorated.__name__, decorated.__doc__)
        assert inspect.signature(function) == inspect.signature(decorated)


def test_methods_of_all_kinds_can_be_decorated():
    class Model:
        @ag.no_grad()
        def method(self):
            return ag.is_grad_enabled()

        @ag.no_grad()
        @staticmethod
        def static():
            return ag.is_grad_enabled()

        @ag.no_grad()
        @classmethod
        def of_class(cls):
            return cls, ag.is_grad_enabled()

    model = Model()

    assert [False, False, (Model, False)] == [model.method(), model.static(), model.of_class()]


async def test_a_callable_object_runs_in_the_mode_also_where_its_call_is_async():
    class Model:
        async def __call__(self):
            await asyncio.sleep(0)
            return ag.is_grad_enabled()

    decorated: list[Any] = [ag.no_grad()(Model()), ag.no_grad()(functools.partial(Model()))]

    assert [await one() for one in decorated] == [False, False]


@pytest.mark.parametrize("thing", [int, 3], ids=["class", "number"])
def test_decorating_what_is_no_function_raises_and_names_it(thing):
    with pytest.raises(TypeError, match="decorates functions, not"):
        ag.no_grad()(thing)


async def test_a_decorated_coroutine_runs_in_the_mode_across_its_awaits_and_others_do_not():
    suspended, looked = asyncio.Event(), asyncio.Event()

    @ag.no_grad()
    async def decorated():
        before = ag.is_grad_enabled()
        suspended.set()
        await looked.wait()
        return before, ag.is_grad_enabled()

    async def beside():
        await suspended.wait()
        looked.set()
        return ag.is_grad_enabled()

    results = await asyncio.gather(decorated(), beside())
    awaited_here = await asyncio.wait_for(decorated(), 10)

    assert [*results, awaited_here, ag.is_grad_enabled()] == [(False, False), True, (False, False), True]


async def test_a_decorated_coroutine_that_raises_gives_back_the_mode_before_it():
    @ag.no_grad()
    async def decorated():
        raise KeyError

    with pytest.raises(KeyError):
        await decorated()

    assert ag.is_grad_enabled() is True


# Generators: the mode holds within each step, the caller's between them.


@ag.no_grad()
def conversation(log):
    """Yield and log what arrives: sent values, exceptions, and the end."""
    received = None
    try:
        while received != "stop":
            try:
                received = yield ag.is_grad_enabled(), received
            except KeyError as error:
                received = error
            log.append(("received", received, ag.is_grad_enabled()))
    finally:
        log.append(("end", ag.is_grad_enabled()))
    return "result"


def test_a_generator_runs_in_the_mode_and_its_caller_does_not():
    seen = []
    for inside, _ in conversation([]):
        seen.append((inside, ag.is_grad_enabled()))
        if len(seen) == 3:
            break

    assert seen == [(False, True)] * 3


def test_a_generator_receives_what_is_sent_and_returns_its_result():
    log: list[Any] = []
    generator = conversation(log)
    next(generator)
    answer = generator.send("hello")
    with pytest.raises(StopIteration) as end:
        generator.send("stop")

    assert (answer, end.value.value) == ((False, "hello"), "result")
    assert log == [("received", "hello", False), ("received", "stop", False), ("end", False)]
    assert ag.is_grad_enabled()


def test_a_generator_receives_what_is_thrown_and_may_go_on():
    log: list[Any] = []
    error = KeyError("thrown")
    generator = conversation(log)
    next(generator)

    assert (False, error) == generator.throw(error)
    assert ag.is_grad_enabled()
    assert next(generator) == (False, None)


def test_what_a_generator_does_not_catch_ends_it_and_reaches_the_caller():
    log: list[Any] = []
    generator = conversation(log)
    next(generator)
    with pytest.raises(ZeroDivisionError):
        generator.throw(ZeroDivisionError())

    assert log == [("end", False)]
    assert list(generator) == []
    assert ag.is_grad_enabled()


def test_a_generator_closed_early_cleans_up_in_the_mode():
    log: list[Any] = []
    generator = conversation(log)
    next(generator)
    generator.close()

    assert log == [("end", False)]
    assert ag.is_grad_enabled()


def test_a_generator_dropped_early_cleans_up_in_the_mode():
    log: list[Any] = []
    generator = conversation(log)
    next(generator)
    del generator

    assert log == [("end", False)]
    assert ag.is_grad_enabled()


def test_two_generators_can_be_stepped_in_turn():
    @ag.enable_grad()
    def other():
        while True:
            yield ag.is_grad_enabled()

    with ag.no_grad():
        one, another = conversation([]), other()
        seen = [(next(one)[0], next(another), ag.is_grad_enabled()) for _ in range(3)]

    assert seen == [(False, True, False)] * 3


@ag.no_grad()
async def async_conversation(log):
    """The same, with a suspension in each step."""
    received = None
    try:
        while received != "stop":
            await asyncio.sleep(0)
            try:
                received = yield ag.is_grad_enabled(), received
            except KeyError as error:
                received = error
            log.append(("received", received, ag.is_grad_enabled()))
    finally:
        await asyncio.sleep(0)
        log.append(("end", ag.is_grad_enabled()))


async def test_an_async_generator_runs_in_the_mode_and_its_caller_does_not():
    seen = []
    generator = async_conversation([])
    async for inside, _ in generator:
        seen.append((inside, ag.is_grad_enabled()))
        if len(seen) == 3:
            break
    await generator.aclose()

    assert seen == [(False, True)] * 3


async def test_an_async_generator_receives_what_is_sent():
    async def main():
        log: list[Any] = []
        generator = async_conversation(log)
        await anext(generator)
        answer = await generator.asend("hello")
        with pytest.raises(StopAsyncIteration):
            await generator.asend("stop")
        return answer, log, ag.is_grad_enabled()

    log = [("received", "hello", False), ("received", "stop", False), ("end", False)]
    assert ((False, "hello"), log, True) == await main()


async def test_an_async_generator_receives_what_is_thrown_and_may_go_on():
    error = KeyError("thrown")

    generator = async_conversation([])
    await anext(generator)
    answers = [await generator.athrow(error), await anext(generator)]
    await generator.aclose()

    assert ([(False, error), (False, None)], True) == (answers, ag.is_grad_enabled())


async def test_what_an_async_generator_does_not_catch_ends_it_and_reaches_the_caller():
    log: list[Any] = []
    generator = async_conversation(log)
    await anext(generator)
    with pytest.raises(ZeroDivisionError):
        await generator.athrow(ZeroDivisionError())

    assert (log, [item async for item in generator], ag.is_grad_enabled()) == ([("end", False)], [], True)


async def test_an_async_generator_closed_early_cleans_up_in_the_mode():
    log: list[Any] = []
    generator = async_conversation(log)
    await anext(generator)
    await generator.aclose()

    assert (log, ag.is_grad_enabled()) == ([("end", False)], True)


async def test_an_async_generator_dropped_early_cleans_up_in_the_mode():
    seen, ended = [], asyncio.Event()

    @ag.no_grad()
    async def generator():
        try:
            yield
        finally:
            seen.append(ag.is_grad_enabled())
            ended.set()

    dropped = generator()
    await anext(dropped)
    del dropped
    await ended.wait()

    assert seen == [False]


async def test_others_do_not_see_the_mode_of_a_suspended_async_generator():
    suspended, looked = asyncio.Event(), asyncio.Event()

    @ag.no_grad()
    async def generator():
        suspended.set()
        await looked.wait()
        yield ag.is_grad_enabled()

    async def consumer():
        return [item async for item in generator()]

    async def beside():
        await suspended.wait()
        looked.set()
        return ag.is_grad_enabled()

    assert (await asyncio.gather(consumer(), beside())) == [[False], True]
