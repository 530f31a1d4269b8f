"""A recomputation draws the random numbers that the forward drew, and leaves the streams as it found them."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.memory.checkpoint import rng
from tests.memory.checkpoint.models import maybe_async
from tests.support.leaves import leaf_of

each_kind = pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "recomputed"])
each_function = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])


def global_mask(shape):
    # An odd number of normal numbers leaves one in the global stream for the next call.
    return (np.random.random(shape) < 0.5) * np.random.standard_normal()  # noqa: NPY002


def dropped(x, draw):
    return np.tanh(x * draw(x.shape)) * draw(x.shape)


@each_kind
@each_function
@pytest.mark.parametrize("source", ["global", "argument", "nested argument", "named", "state", "bits", "two layers"])
async def test_the_same_numbers_are_drawn_again(use_reentrant, is_async, source):
    def streams():
        np.random.seed(3)  # noqa: NPY002
        return np.random.default_rng(4), np.random.RandomState(5), np.random.PCG64(6)

    async def main(checkpoint):
        generator, state, bits = streams()
        state.standard_normal()
        fns: dict[str, Any] = {
            "global": (lambda x: dropped(x, global_mask), (), {}),
            "argument": (lambda x, g: dropped(x, g.random), (generator,), {}),
            "nested argument": (lambda x, g: dropped(x, g["g"][0].random), ({"g": [generator]},), {}),
            "named": (lambda x: dropped(x, generator.random), (), {"generators": [generator]}),
            "state": (lambda x, s: dropped(x, lambda shape: s.standard_normal(shape[0] + 1)[1:]), (state,), {}),
            "bits": (lambda x, b: dropped(x, np.random.Generator(b).random), (bits,), {}),
            "two layers": (lambda x, g: dropped(dropped(x, g.random), global_mask), (generator,), {}),
        }
        fn, args, options = fns[source]
        x = leaf_of(np.linspace(-1, 1, 7))
        y = x
        for _ in range(2):
            if checkpoint:
                y = ag.checkpoint(maybe_async(fn, is_async), y, *args, use_reentrant=use_reentrant, **options)
                y = await y if is_async else y
            else:
                y = fn(y, *args)
        after_forward = generator.random(), state.standard_normal(), np.random.standard_normal()  # noqa: NPY002
        await ag.backward(y.sum())
        after = generator.random(), state.standard_normal(), np.random.standard_normal()  # noqa: NPY002
        return x.grad.tolist(), after_forward, after, bits.state

    assert await main(True) == await main(False)


@each_kind
def test_streams_are_left_alone_where_that_is_asked_for(use_reentrant):
    generator, drawn = np.random.default_rng(0), []

    def fn(x, generator):
        drawn.append(generator.random())
        return np.tanh(x) * drawn[-1]

    sync.backward(ag.checkpoint(fn, leaf_of([1.0]), generator, preserve_rng=False, use_reentrant=use_reentrant).sum())
    assert drawn[0] != drawn[1]
    assert generator.random() == np.random.default_rng(0).random(3)[2]


@each_kind
def test_a_failing_recomputation_puts_the_streams_back(use_reentrant):
    generator, calls = np.random.default_rng(0), []

    def fn(x, generator):
        y = np.exp(np.tanh(x * generator.random()))
        calls.append(1)
        if len(calls) > 1:
            raise KeyError("second time")
        return y

    y = ag.checkpoint(
        fn, leaf_of([1.0]), generator, use_reentrant=use_reentrant, **({} if use_reentrant else {"early_stop": False})
    )
    with pytest.raises(KeyError, match="second time"):
        sync.backward(y.sum())
    assert generator.random() == np.random.default_rng(0).random(2)[1]


@each_kind
async def test_tasks_that_draw_while_an_async_recomputation_waits_do_not_disturb_it_nor_it_them(use_reentrant):
    first, second, third, fourth = np.random.default_rng(0).random(4)
    generator, waits, goes_on = np.random.default_rng(0), asyncio.Event(), asyncio.Event()
    drawn = []

    async def fn(x, generator):
        first = generator.random()
        if len(drawn):
            waits.set()
            await goes_on.wait()
        drawn.append((first, generator.random()))
        return np.exp(np.tanh(x * first) * drawn[-1][1])

    y = await ag.checkpoint(fn, leaf_of([1.0]), generator, use_reentrant=use_reentrant)
    task = asyncio.ensure_future(ag.backward(y.sum()))
    await waits.wait()
    outside = generator.random()
    goes_on.set()
    await task

    assert (drawn, outside, generator.random()) == ([(first, second)] * 2, third, fourth)


def test_steps_of_a_chain_draw_again_what_they_drew():
    def found(chain):
        np.random.seed(1)  # noqa: NPY002
        generator = np.random.default_rng(2)

        def step(x):
            return dropped(x, global_mask) + dropped(x, generator.random)

        x = leaf_of(np.linspace(-1, 1, 5))
        if chain is None:
            y = x
            for _ in range(9):
                y = step(y)
        else:
            y = ag.checkpoint_chain([step] * 9, x, generators=[generator], **chain)
        sync.backward(y.sum())
        return x.grad.tolist(), generator.random(), np.random.standard_normal()  # noqa: NPY002

    for chain in ({"snapshots": 1}, {"snapshots": 3}, {"memory_budget": 2000}):
        assert found(chain) == found(None)


#: Ways to run two layers: without checkpoints, and with each kind.
TWO_LAYERS: dict[str, Any] = {
    "reentrant": lambda fn, x: ag.checkpoint(fn, ag.checkpoint(fn, x)),
    "recomputed": lambda fn, x: ag.checkpoint(fn, ag.checkpoint(fn, x, use_reentrant=False), use_reentrant=False),
    "nested": lambda fn, x: ag.checkpoint(
        lambda x: fn(ag.checkpoint(fn, x, use_reentrant=False)), x, use_reentrant=False
    ),
    "sequential": lambda fn, x: ag.checkpoint_sequential([fn, fn], 2, x),
    "chain": lambda fn, x: ag.checkpoint_chain([fn, fn], x, snapshots=1),
}


@pytest.mark.parametrize("kind", TWO_LAYERS)
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("drawn", [1, 2, 3])
def test_a_state_that_differs_by_a_kept_normal_number_alone_is_replayed(kind, before, drawn):
    """The global stream draws normal numbers in pairs, and keeps the second one for the next call."""

    def fn(x):
        return np.tanh(x * np.random.normal(size=drawn).sum())  # noqa: NPY002

    def found(layers):
        x, numbers = leaf_of([1.0, 2.0]), []
        np.random.set_state(state)  # noqa: NPY002
        numbers += [np.random.normal() for _ in range(before)]  # noqa: NPY002
        y = layers(fn, x)
        numbers.append(np.random.normal())  # noqa: NPY002
        sync.backward(y.sum())
        numbers += [np.random.normal() for _ in range(5)]  # noqa: NPY002
        return x.grad.tolist(), numbers

    np.random.seed(4)  # noqa: NPY002
    kept: list[Any] = []
    for _ in range(2):
        state = np.random.get_state()  # noqa: NPY002
        kept.append([found(lambda fn, x: fn(fn(x))), *(found(TWO_LAYERS[kind]) for _ in range(3))])
        np.random.set_state(state)  # noqa: NPY002
        # Now with a number that is kept.
        np.random.normal()  # noqa: NPY002

    for plain, *checkpointed in kept:
        assert checkpointed == [plain] * 3


@pytest.mark.parametrize("gauss", [None, 0.25])
def test_to_look_at_the_global_stream_changes_nothing_in_it(gauss):
    stream = rng.GlobalStream()
    np.random.seed(3)  # noqa: NPY002
    for position in range(0, 1300, 7):
        state = np.random.get_state(legacy=False)  # noqa: NPY002
        state = {**state, "has_gauss": int(gauss is not None), "gauss": gauss or 0.0}
        np.random.set_state(state)  # noqa: NPY002
        seen = [stream.state() for _ in range(3)]
        after = np.random.get_state(legacy=False)  # noqa: NPY002
        for one in (*seen, after):
            assert (one["has_gauss"], one["gauss"]) == (state["has_gauss"], state["gauss"]), position
            assert one["state"]["pos"] == state["state"]["pos"]
            assert one["state"]["key"].tolist() == state["state"]["key"].tolist()
        np.random.random(7)  # noqa: NPY002
