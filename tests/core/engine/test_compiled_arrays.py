"""Laws of arrays in a compiled backward: it writes into sums of its own, and into nothing that others may hold."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays import values
from asyncgrad.core.engine.compiled import codegen
from asyncgrad.errors import ReleasedGraphError
from tests.support.arrays import bits, bits_of_grads
from tests.support.leaves import random_leaf
from tests.support.sampling import cases
from tests.support.settings import compiled_after, loop_budget

pytestmark = pytest.mark.usefixtures("cache", "all_arrays_are_large")


def multiply_add_chain(x: Any, length: int = 4) -> Any:
    y = x
    for _ in range(length):
        y = y * x + x
    return y


def bits_after_backward(model: Callable[..., Any], leaves: list[Any], after: int | None, grad: Any) -> list[Any]:
    for one in leaves:
        one.grad = None
    with compiled_after(after):
        sync.backward(model(*leaves), grad)
    return bits_of_grads(leaves)


def agrees(model: Callable[..., Any], leaves: list[Any], grad: Any = None) -> None:
    """Compare two compiled runs with the engine, bit by bit."""
    expected = bits_after_backward(model, leaves, None, grad)
    assert bits_after_backward(model, leaves, 0, grad) == expected
    assert bits_after_backward(model, leaves, 0, grad) == expected


ELEMENTWISE = [np.tanh, np.sin, np.cos, np.exp, np.sqrt, np.square, np.reciprocal, np.log1p, np.arctan, np.negative]
LAYOUTS = ["rows", "columns", "swapped", "reversed", "strided"]


def laid_out(array: Any, how: str) -> Any:
    """Return the array with its elements in memory in some order."""
    if how == "columns":
        return np.asfortranarray(array)
    if how == "swapped":
        return np.ascontiguousarray(array.swapaxes(0, -1)).swapaxes(0, -1)
    if how == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    return np.repeat(array, 2, axis=-1)[..., ::2] if how == "strided" else array


# Arrays that several hold.


def test_a_gradient_that_two_steps_get_is_not_written_into_by_the_first():
    def model(x: Any, y: Any) -> Any:
        z = x * y
        return np.exp(x) * 1.5 + (np.sin(z) + np.cos(y)) * y

    agrees(model, [random_leaf(3), random_leaf(3, seed=2)], np.array([0.3, 0.7, 1.9]))


def shared(x: Any, y: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], again: bool = False) -> Any:
    """A sum whose gradient, made by the function, goes to `first(x)` and to `second(y)`; that of `y` runs last."""
    q = second(y)
    h = first(x)
    more = h * 1.5 if again else None
    total = (h + q) * 0.7
    return total if more is None else total + more


def test_a_view_of_a_gradient_stays_as_it_was_where_another_step_gets_the_gradient():
    def model(x: Any, y: Any) -> Any:
        c = np.exp(y)
        b = x * x
        # The step of c runs last, on a view of what the step of b gets.
        return (np.transpose(c) + b) * 0.7

    agrees(model, [random_leaf(3, 3), random_leaf(3, 3, seed=2)], np.linspace(0.3, 1.9, 9).reshape(3, 3))


def test_a_sum_is_not_written_into_a_term_that_another_step_gets():
    agrees(
        lambda x, y: shared(x, y, np.exp, np.tanh, True),
        [random_leaf(3), random_leaf(3, seed=2)],
        np.array([0.3, 0.7, 1.9]),
    )


def test_a_gradient_that_a_hook_has_kept_is_not_written_into_by_another_step():
    kept: list[Any] = []

    def first(x: Any) -> Any:
        h = np.exp(x)
        h.register_hook(lambda grad: kept.append((grad._data, grad._data.copy())))
        return h

    agrees(
        lambda x, y: shared(x, y, first, lambda y: y * y),
        [random_leaf(3), random_leaf(3, seed=2)],
        np.array([0.3, 0.7, 1.9]),
    )
    assert len(kept) == 3
    assert all(np.array_equal(array, copy) for array, copy in kept)


def test_a_gradient_that_a_leaf_has_taken_over_is_not_written_into_by_the_next_backward():
    x = random_leaf(3)

    def backward(factor: float) -> Any:
        x.grad = None
        with compiled_after(0):
            sync.backward(np.tanh(x) * np.exp(x), np.full(3, factor))
        return x.grad

    first = backward(1.0)
    before = bits(first)
    assert bits(backward(7.0)) != before
    assert bits(first) == before


def test_a_leaf_takes_over_an_array_that_was_computed_for_it_alone(monkeypatch):
    copied: list[Any] = []
    clone = values.clone_like

    def noted(value: Any, like: Any) -> Any:
        copied.append(value)
        return clone(value, like)

    monkeypatch.setattr(values, "clone_like", noted)
    first, second = random_leaf(4), random_leaf(4, seed=2)
    with compiled_after(0):
        sync.backward(np.tanh(first * second) * 2.0, np.ones(4))

    assert first.grad is not None
    assert second.grad is not None
    assert copied == []


def test_a_released_graph_is_refused_as_ever(monkeypatch):
    out = np.divide(2.0, np.exp(random_leaf(3)))
    sync.backward(out, np.ones(3))
    with compiled_after(0), pytest.raises(ReleasedGraphError):
        sync.backward(out, np.ones(3))


# Bits.


@st.composite
def models(draw: Any) -> Any:
    """Draw what is done to two leaves, step by step, and how these and the first gradient lie in memory."""
    step = st.one_of(
        st.tuples(st.just("function"), st.sampled_from(range(len(ELEMENTWISE))), st.integers(0, 5)),
        st.tuples(st.sampled_from(["*", "+", "-", "/"]), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.sampled_from(["number", "row", "column", "sum", "transposed", "again"]), st.integers(0, 5)),
    )
    chosen = draw(st.lists(step, min_size=2, max_size=12))
    layouts = draw(st.tuples(*[st.sampled_from(LAYOUTS)] * 3))
    dtypes = draw(st.tuples(*[st.sampled_from([np.float64, np.float32])] * 2))
    return chosen, layouts, dtypes, draw(st.sampled_from([(3, 3), (2, 2, 2), (7,)]))


def result_of_steps(chosen: list[Any], leaves: list[Any]) -> Any:
    made = list(leaves)
    for name, *places in chosen:
        first = made[places[-1] % len(made)]
        if name == "function":
            value = ELEMENTWISE[places[0]](first)
        elif name in "*+-/":
            second = made[places[0] % len(made)]
            value = {"*": np.multiply, "+": np.add, "-": np.subtract, "/": np.divide}[name](first, second)
        elif name == "number":
            value = 1.5 * first * 2
        elif name == "row":
            value = first * first[..., :1]
        elif name == "column":
            value = first + first[:1]
        elif name == "sum":
            value = first * np.sum(first, axis=0)
        elif name == "transposed":
            value = np.swapaxes(first, 0, -1)
        else:
            value = first + first
        made.append(value)
    out = made[-1]
    for value in made[2:-1]:
        out = out + value
    return out


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=cases(150), deadline=None)
@given(models(), st.booleans())
def test_arrays_of_every_layout_get_the_bits_of_the_engine_and_none_is_written_into(drawn, retain):
    chosen, layouts, dtypes, shape = drawn
    random = np.random.default_rng(3)
    data = [
        laid_out(random.uniform(0.2, 1.4, shape).astype(dtype), how)
        for dtype, how in zip(dtypes, layouts[1:], strict=True)
    ]
    found = []
    for after in (None, 0, 0):
        leaves = [ag.tensor(array.copy(order="K"), requires_grad=True) for array in data]
        out = result_of_steps(chosen, leaves)
        grad = laid_out(random.uniform(0.5, 1.0, out.shape).astype(out.dtype) * 0 + 0.7, layouts[0])
        for array in [grad, *(one._data for one in leaves)]:
            array.flags.writeable = False
        with compiled_after(after):
            sync.backward(out, grad, retain_graph=retain)
            if retain:
                sync.backward(out, grad)
        found.append([None if one.grad is None else (bits(one.grad), one.grad.numpy().strides) for one in leaves])

    assert found[0] == found[1] == found[2]


def test_saved_tensors_are_never_written_into(monkeypatch):
    """All that the forward computes is read-only."""
    x, y = random_leaf(4, 3), random_leaf(4, 3, seed=2)

    def model(x: Any, y: Any) -> Any:
        values = [x, y]
        for function in (np.tanh, np.sin, np.sqrt, np.reciprocal, np.exp):
            values.append(function(values[-1]) * values[-2] / values[-1])
            values[-1]._data.flags.writeable = False
        return values[-1] * values[-2]

    agrees(model, [x, y], np.ones((4, 3)))


def test_saved_tensors_are_freed_as_soon_as_their_node_has_run(cache):
    """As in the engine; the variables of a compiled function do not keep them until a later step takes those."""
    freed = []

    class Watch(ag.Function):
        is_traceable = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.copy()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            freed.append([array() is None for array in watched])
            return grad

    def model(x: Any) -> Any:
        y = Watch.apply(np.tanh(x))
        factors = np.exp(y), np.sin(y)
        watched[:] = [weakref.ref(factor._data) for factor in factors]
        return np.exp(np.multiply(*factors)).sum()

    x, watched = random_leaf(3), []
    with compiled_after(0):
        for _ in range(3):
            sync.backward(model(x))
            x.grad = None

    assert freed == [[True, True]] * 3
    assert cache.stats().hits == 3


@pytest.mark.parametrize(
    "number",
    [2.5, 3, np.float64(2.5), np.float32(1.25), True, np.float32([1.5, 2.5, 3.5]), np.full((2, 1, 3), 2.0)],
)
def test_a_function_compiled_for_a_number_computes_with_what_comes_in_its_place(number):
    def model(x: Any, factor: Any) -> Any:
        return np.exp(np.tanh(x) * factor + x)

    x = random_leaf(3, dtype=np.float32)
    bits_after_backward(lambda x: model(x, 0.5), [x], 0, np.ones(3, np.float32))
    out = model(x, number)
    agrees(lambda x: model(x, number), [x], np.full(out.shape, 0.7, out.dtype))


def test_the_bits_stay_where_a_function_is_cut_into_pieces(monkeypatch):
    monkeypatch.setattr(codegen, "MAX_OPS_PER_SEGMENT", 4)
    agrees(lambda x: multiply_add_chain(np.tanh(x), 20), [random_leaf(5)], np.linspace(0.1, 0.9, 5))


# Others who hold what is on its way.


def test_what_a_hook_has_kept_stays_as_it_was():
    x = random_leaf(3)
    kept: list[Any] = []

    def run(after: int | None) -> list[Any]:
        kept.clear()
        x.grad = None
        h = np.tanh(x) * x
        z = np.exp(h)
        h.register_hook(lambda grad: kept.append((grad.numpy(), grad.numpy().copy())))
        z.retain_grad()
        with compiled_after(after):
            sync.backward(np.sin(z) * z * x, np.ones(3))
        assert all(np.array_equal(array, copy) for array, copy in kept)
        return [bits(x.grad), bits(z.grad), *(copy.tobytes() for _, copy in kept)]

    assert run(None) == run(0) == run(0)


def test_captured_gradients_stay_as_they_were():
    def run(after: int | None) -> list[Any]:
        x = random_leaf(3)
        h = np.tanh(x) * x
        out = np.sin(h) * h * x
        with compiled_after(after):
            return [bits(one) for one in sync.grad(out, [h, x], np.ones(3))]

    assert run(None) == run(0) == run(0)


def test_a_users_body_may_keep_what_it_gets_and_what_it_returns():
    kept: list[Any] = []

    class Keeping(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            returned = grad * 2.0
            kept.extend((one.numpy(), one.numpy().copy()) for one in (grad, returned))
            return returned

    agrees(lambda x: np.exp(Keeping.apply(np.tanh(x) * x)) * x, [random_leaf(3)], np.ones(3))
    assert all(np.array_equal(array, copy) for array, copy in kept)


def test_gradients_are_on_hand_where_the_engine_goes_on(cache):
    def model(x: Any, function: Any) -> Any:
        h = function(np.sin(x) * x)
        return np.tanh(h) * h / x * np.exp(h * x)

    x = random_leaf(4)
    grad = np.linspace(0.3, 0.9, 4)
    bits_after_backward(lambda x: model(x, np.exp), [x], 0, grad)
    before = cache.stats().misses
    expected = bits_after_backward(lambda x: model(x, np.sqrt), [x], None, grad)
    assert bits_after_backward(lambda x: model(x, np.sqrt), [x], 0, grad) == expected
    assert cache.stats().reasons["another structure, shape or dtype"] == cache.stats().misses - before == 1


@pytest.mark.parametrize("turns", range(12))
async def test_a_backward_that_is_cancelled_between_two_steps_leaves_every_gradient(turns):
    x = random_leaf(4)

    with compiled_after(0):
        await multiply_add_chain(x, 3).backward(np.ones(4))
        whole, held = bits(x.grad), x.grad.numpy()
        with loop_budget(-1.0):
            task = asyncio.ensure_future(multiply_add_chain(x, 3).backward(np.ones(4)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert held.tobytes() == whole[2]
        assert not task.cancelled() or bits(x.grad) == whole


def test_an_error_in_a_formula_names_its_node_and_leaves_every_gradient():
    x, y = random_leaf(3), random_leaf(3, seed=2)

    def model() -> Any:
        return np.log(x) * y * y

    with compiled_after(0):
        sync.backward(model(), np.ones(3))
        before = bits(x.grad), bits(y.grad)
        x._data[0] = 1e-310
        out = model()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError) as caught:
            sync.backward(out, np.full(3, 1e300))
    assert any("LogBackward" in note for note in caught.value.__notes__)
    assert (bits(x.grad), bits(y.grad)) == before
