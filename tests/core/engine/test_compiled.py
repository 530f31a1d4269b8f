"""Laws of compiled autograd: what repeats runs as one function, with the engine's bits, errors and endings."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.arrays import values
from asyncgrad.core.engine.compiled import codegen
from asyncgrad.core.engine.compiled.cache import MAX_PROGRAMS
from asyncgrad.core.settings.scheduling import LOOP_BUDGET
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError, GraphError, ReleasedGraphError
from tests.core.engine.heavy import always, heavy_calling, large
from tests.support.functions import Cubed
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop, one_loop
from tests.support.settings import compiled_after, node_by_node

pytestmark = pytest.mark.usefixtures("cache", "compiled_where_asked")


def params() -> list[ag.Tensor]:
    random = np.random.default_rng(3)
    return [ag.tensor(random.standard_normal(shape), requires_grad=True) for shape in ((4, 3), (4,), (3,))]


def network(weight: Any, bias: Any, scale: Any) -> Any:
    """Sums, broadcasting, a shared value, a split and a join."""
    x = np.linspace(-1.0, 1.0, 15).reshape(5, 3) * scale
    hidden = np.tanh(nn.linear(x, weight, bias))
    left, right = np.split(hidden, 2, axis=1)
    joined = np.concatenate([left * right, nn.sigmoid(hidden)], axis=1)
    return (joined * joined).sum() + (hidden * bias).mean()


def copies_of_grads(leaves: list[ag.Tensor]) -> list[np.ndarray]:
    return [tensor.grad.numpy().copy() for tensor in leaves]


def clear(leaves: list[ag.Tensor]) -> None:
    for tensor in leaves:
        tensor.grad = None


def engine_gradients(leaves: list[ag.Tensor], model: Callable[..., Any]) -> list[np.ndarray]:
    clear(leaves)
    with node_by_node():
        sync.backward(model(*leaves))
    found = copies_of_grads(leaves)
    clear(leaves)
    return found


def same_bits(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all(
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        for one, other in zip(found, expected, strict=True)
    )


def test_a_graph_seen_often_enough_runs_compiled_from_then_on(cache):
    x = leaf(2.0)
    hits = []
    with ag.compiled_autograd(after=3):
        for _ in range(6):
            sync.backward(np.multiply(x, x))
            hits.append(cache.stats().hits)

    assert hits == [0, 0, 0, 1, 2, 3]
    assert cache.stats().compilations == 1
    assert cache.stats().misses == 3


@on_each_loop
@pytest.mark.parametrize("how", ["awaited", "blocking"])
def test_a_compiled_backward_has_the_bits_of_the_engine(run, cache, how):
    leaves = params()
    expected = engine_gradients(leaves, network)
    found = []

    async def main():
        with ag.compiled_autograd(after=1):
            for _ in range(3):
                clear(leaves)
                loss = network(*leaves)
                if how == "awaited":
                    await loss.backward()
                else:
                    sync.backward(loss)
                found.append(copies_of_grads(leaves))

    run(main())

    assert all(same_bits(one, expected) for one in found)
    assert cache.stats().hits == 2


def test_gradients_add_up_over_compiled_backward_passes_as_over_others():
    leaves = params()
    results = []
    for after in (10**9, 0):
        clear(leaves)
        with compiled_after(after):
            for _ in range(3):
                sync.backward(network(*leaves))
        results.append(copies_of_grads(leaves))

    assert same_bits(*results)


def test_grad_and_inputs_are_compiled_too(cache):
    leaves = params()
    (expected,) = sync.grad(network(*leaves), [leaves[1]])
    with ag.compiled_autograd(after=1):
        for _ in range(3):
            (found,) = sync.grad(network(*leaves), [leaves[1]])
            clear(leaves)
            sync.backward(network(*leaves), inputs=[leaves[1]])

    assert found.numpy().tobytes() == expected.numpy().tobytes() == leaves[1].grad.numpy().tobytes()
    assert leaves[0].grad is None
    assert cache.stats().hits == 4


def test_a_grad_of_what_the_root_does_not_lead_to_is_another_graph():
    x = leaf(2.0)

    def grad(reachable: bool) -> Any:
        other, out = np.add(x, x), np.add(x, x)
        (found,) = sync.grad(out, [x if reachable else other], allow_unused=True)
        return None if found is None else found.item()

    with compiled_after(0):
        found = [grad(reachable) for reachable in (False, True, True, False)]

    assert found == [None, 2.0, 2.0, None]


def test_backward_from_several_roots_is_compiled_too(cache):
    leaves = params()

    def roots() -> list[Any]:
        hidden = np.tanh(leaves[0])
        return [hidden.sum(), (hidden * leaves[2]).sum(), (leaves[1] * 2).sum()]

    sync.backward(roots())
    expected = copies_of_grads(leaves)
    with compiled_after(0):
        for _ in range(2):
            clear(leaves)
            sync.backward(roots())

    assert same_bits(copies_of_grads(leaves), expected)
    assert cache.stats().hits == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: (x * y) * y,
        lambda x, y: (x * y) + y,
        lambda x, y: (x * x) * y,
        lambda x, y: ((x * y) * x)[:1],
        lambda x, y: (x * np.multiply(y, np.ones((2, 1)))) * x,
        lambda x, y: (x * y.astype(np.float32)) * x,
        lambda x, y: (x * 2.0) * x,
    ],
)
def test_another_graph_is_never_run_by_a_function_that_does_not_fit(cache, change):
    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)

    def backward(model: Callable[..., Any]) -> list[Any]:
        clear([x, y])
        out = model(x, y)
        sync.backward(out, np.ones(out.shape, out.dtype))
        return [tensor.grad if tensor.grad is None else tensor.grad.tolist() for tensor in (x, y)]

    expected = backward(change)
    with compiled_after(0):
        backward(lambda x, y: (x * y) * x)
        found = [backward(change) for _ in range(4)]

    assert found == [expected] * 4


def test_a_leaf_in_the_place_of_two_is_another_graph():
    x, y = leaf(0.1, 0.7), leaf(0.3, 0.9)

    def backward(*leaves: Any) -> list[Any]:
        clear([x, y])
        first, second, third = leaves
        sync.backward(first * 0.1 + second * 0.2 + third * 0.3 + first * 0.4, np.ones(2))
        return [tensor.grad if tensor.grad is None else tensor.grad.tolist() for tensor in (x, y)]

    with ag.compiled_autograd(after=10**9):
        expected = backward(x, y, x)
    with compiled_after(0):
        backward(x, y, leaf(1.0, 1.0))
        found = backward(x, y, x)

    assert found == expected


def test_branches_recorded_in_another_order_are_another_graph():
    x = leaf(1.0)
    # (1 + 1e16) - 1e16 is 0, and (1e16 - 1e16) + 1 is 1.
    factors = [1.0, 1e16, -1e16]

    def backward(order: tuple[int, ...]) -> float:
        x.grad = None
        made = {index: x * factors[index] for index in order}
        sync.backward(made[0] + made[1] + made[2])
        return x.grad.item()

    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)]
    with node_by_node():
        expected = [backward(order) for order in orders]
    with compiled_after(0):
        found = [backward(order) for order in orders]

    assert found == expected
    assert len(set(expected)) == 2


def test_shapes_within_a_graph_are_part_of_it():
    x, weight = (ag.tensor(data, requires_grad=True) for data in ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 9.0], [50.0, 70.0]]))

    def backward(axis: int) -> Any:
        x.grad = None
        out = (np.sum(x, axis=axis, keepdims=True) * 3.0) * weight
        # Too deep for what is looked at before the run.
        for _ in range(8):
            out = np.multiply(out, 1.0)
        sync.backward(out.sum())
        return x.grad.tolist()

    with node_by_node():
        expected = [backward(axis) for axis in (0, 1)]
    with compiled_after(0):
        found = [backward(axis) for axis in (0, 1)]

    assert found == expected


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_a_hook_on_a_graph_like_a_compiled_one_is_called(cache, where):
    x = leaf(2.0)

    def graph() -> list[Any]:
        values = [x]
        for _ in range(3):
            values.append(np.multiply(values[-1], 3.0))
        return values

    seen = []
    with compiled_after(0):
        sync.backward(np.exp(graph()[-1] * 0.0))
        watched = graph()
        watched[where].register_hook(lambda grad: seen.append(grad.item()) or grad * 2)
        x.grad = None
        sync.backward(np.exp(watched[-1] * 0.0))

    assert len(seen) == 1
    # Where the hook is seen before the run, a function of its own is compiled.
    assert cache.stats().misses + cache.stats().hits == 2


def test_a_miss_in_mid_graph_does_nothing_twice(cache):
    x = leaf(3.0)
    with compiled_after(0):
        for _ in range(2):
            x.grad = None
            sync.backward(np.exp(np.sin(np.multiply(x, 2.0)) * 0.5))
        x.grad = None
        sync.backward(np.exp(np.sin(np.add(x, 2.0)) * 0.5))
        found = x.grad.item()
    x.grad = None
    sync.backward(np.exp(np.sin(np.add(x, 2.0)) * 0.5))

    assert found == x.grad.item()
    assert sum(cache.stats().reasons.values()) == cache.stats().misses


def test_an_error_after_a_miss_has_no_other_context_than_in_the_engine():
    x, by = leaf(1.0), Failing()

    def model(function: Callable[..., Any]) -> Any:
        out = function(doubled_by(np.multiply(x, 3.0), by))
        for _ in range(8):
            out = np.multiply(out, 1.0)
        return out

    with compiled_after(0):
        sync.backward(model(np.sin))
        by.left = 1
        with pytest.raises(ArithmeticError) as caught:
            sync.backward(model(np.cos))

    assert caught.value.__context__ is None


def test_after_a_miss_a_leaf_takes_over_its_gradient_as_in_the_engine(monkeypatch):
    x = leaf(*range(5000))
    copied = []
    monkeypatch.setattr(values, "clone_like", lambda value, like: copied.append(like.shape) or value.copy())

    def model(function: Callable[..., Any]) -> Any:
        out = function(np.multiply(x, 3.0))
        for _ in range(8):
            out = np.multiply(out, 1.0)
        return np.add(np.multiply(x, 2.0), out)

    with compiled_after(0):
        for function in (np.sin, np.cos):
            x.grad = None
            sync.backward(model(function).sum())

    assert copied == []


def test_graphs_that_take_turns_are_each_compiled(cache):
    x = leaf(2.0)
    models = [lambda: np.multiply(np.sin(x), 3.0), lambda: np.multiply(np.cos(x), 3.0)]
    with ag.compiled_autograd(after=2):
        for turn in range(20):
            sync.backward(models[turn % 2]())
    before = cache.stats()
    with ag.compiled_autograd(after=2):
        for turn in range(10):
            sync.backward(models[turn % 2]())

    assert cache.stats().compilations == 2
    assert cache.stats().hits - before.hits == 10


def test_what_is_released_stays_released(cache):
    x = leaf(2.0)
    with compiled_after(0):
        for _ in range(2):
            out = np.exp(x)
            sync.backward(out)
            with pytest.raises(ReleasedGraphError):
                sync.backward(out)


def test_a_kept_graph_runs_compiled_again_and_again(cache):
    x = leaf(2.0)
    out = np.exp(np.multiply(x, x))
    found = []
    with compiled_after(0):
        for _ in range(4):
            x.grad = None
            sync.backward(out, retain_graph=True)
            found.append(x.grad.item())

    assert len(set(found)) == 1
    assert cache.stats().hits == 4


def test_a_write_into_a_saved_tensor_is_seen_and_names_the_node(cache):
    x = leaf(1.0, 2.0)
    with compiled_after(0):
        for _ in range(2):
            sync.backward(np.exp(np.multiply(x, 1.0)).sum())
        before = x.grad.tolist()
        out = np.exp(np.multiply(x, 1.0))
        loss = out.sum()
        out += 1
        with pytest.raises(ChangedTensorError, match="ExpBackward"):
            sync.backward(loss)

    assert x.grad.tolist() == before


class Failing:
    """An array-like factor that fails when it is multiplied for the second time."""

    __array_ufunc__ = None

    def __init__(self) -> None:
        self.left = 10**9

    def __rmul__(self, other: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise ArithmeticError("no more")
        return other * 2.0


@ag.extend.primitive()
def doubled_by(x, by):
    return np.multiply(x, 2.0)


@ag.extend.derivative(doubled_by, "x")
def _(g, by):
    return g * by


@on_each_loop
@pytest.mark.parametrize("how", ["awaited", "blocking"])
def test_a_failing_body_is_named_in_a_note_and_leaves_every_gradient(run, how, monkeypatch):
    monkeypatch.setenv("ASYNCGRAD_TRACEBACKS", "full")
    x, by = leaf(1.0), Failing()

    def model() -> Any:
        return np.multiply(doubled_by(np.multiply(x, 3.0), by), 5.0)

    async def main():
        with compiled_after(0):
            for _ in range(2):
                sync.backward(model())
            before = x.grad, x.grad.item()
            by.left = 1
            out = model()
            with pytest.raises(ArithmeticError) as caught:
                await (out.backward() if how == "awaited" else asyncio.sleep(0, sync.backward(out)))
            return before, caught.value

    (grad, value), error = run(main())

    assert (x.grad, x.grad.item()) == (grad, value)
    assert any("DoubledByBackward" in note for note in error.__notes__)
    # The line of the compiled function is shown, where all frames are asked for.
    assert "$" not in (shown := "".join(traceback.format_exception(error)))
    assert "compiled backward" in shown


def long_chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = nn.sigmoid(x * 1.5)
    return x


async def test_a_compiled_backward_lets_the_loop_breathe_and_can_be_cancelled_there(cache):
    x = leaf(0.5)
    turns = []

    with compiled_after(0):
        await long_chain(x, 50).backward()
        before = x.grad, x.grad.item()
        token = LOOP_BUDGET.set(0.0)
        try:
            task = asyncio.ensure_future(long_chain(x, 50).backward())
            for _ in range(10):
                await asyncio.sleep(0)
            turns.append(task.done())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            after = x.grad, x.grad.item()
            x.grad = None
            await long_chain(x, 50).backward()
        finally:
            LOOP_BUDGET.reset(token)
        found = before, after, x.grad.item()
    before, after, whole = found

    assert turns == [False]
    assert after == before
    assert whole == before[1]


async def test_a_hook_added_while_a_compiled_backward_breathes_is_called():
    x = leaf(0.5)
    seen: list[float] = []

    with compiled_after(0):
        await long_chain(x, 30).backward()
        expected = x.grad.item()
        x.grad = None
        token = LOOP_BUDGET.set(0.0)
        try:
            first = np.multiply(x, 1.0)
            task = asyncio.ensure_future(long_chain(first, 30).backward())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            first.register_hook(lambda grad: seen.append(grad.item()))
            await task
        finally:
            LOOP_BUDGET.reset(token)

    assert seen == [expected]
    assert x.grad.item() == expected


def sequence_number_by_hand(x: ag.Tensor) -> Any:
    y = np.multiply(x, 3.0)
    out = np.exp(y)
    y.grad_fn.sequence_nr = out.grad_fn.sequence_nr + 1
    return out


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (sequence_number_by_hand, "an edge leads to a newer node"),
        (lambda x: x, "a leaf as the root"),
    ],
)
def test_what_a_function_cannot_carry_is_run_by_the_engine_with_a_reason(cache, model, reason):
    x = leaf(1.0)
    found = []
    for after in (10**9, 0):
        x.grad = None
        with compiled_after(after):
            sync.backward(model(x))
        found.append(x.grad.item())

    assert found[0] == found[1]
    assert cache.stats().reasons[reason] >= 1
    assert cache.stats().compilations == 0


def test_nothing_is_compiled_under_create_graph_and_anomaly_mode(cache):
    x = leaf(2.0)
    with compiled_after(0):
        (slope,) = sync.grad(np.power(x, 3.0), [x], create_graph=True)
        (bend,) = sync.grad(slope, [x])
        with ag.detect_anomaly():
            sync.backward(np.exp(x))

    assert bend.item() == 12.0
    assert cache.stats().reasons["create_graph"] == 1
    assert cache.stats().reasons["anomaly mode"] == 1


def test_a_gradient_that_was_handed_out_never_changes():
    x = leaf(1.0, 2.0)
    with compiled_after(0):
        for _ in range(2):
            x.grad = None
            sync.backward((x * x).sum())
            kept = x.grad.numpy()
            copy = kept.copy()
            sync.backward((x * x).sum())

    assert kept.tolist() == copy.tolist()
    assert x.grad.tolist() == [4.0, 8.0]


def test_the_source_of_a_compiled_backward_can_be_read(cache):
    x = leaf(2.0)
    out = np.exp(x * 3.0)
    with pytest.raises(GraphError, match="compiled_autograd"):
        ag.engine.compiled_source(out)
    with compiled_after(0):
        sync.backward(out)
    source = ag.engine.compiled_source(out)

    assert "ExpBackward" in source
    compile(source, "source", "exec")


@pytest.mark.parametrize("given", [3, None, [], "x"])
def test_the_source_of_no_tensor_is_refused(given):
    with pytest.raises(ArgumentTypeError, match="pass a tensor or GradientEdge"):
        ag.engine.compiled_source(given)


def test_graphs_of_many_nodes_are_compiled_in_pieces(cache):
    x = leaf(1.0)
    y = x
    for _ in range(4 * codegen.MAX_OPS_PER_SEGMENT + 10):
        y = np.multiply(y, 1.0)
    with compiled_after(0):
        for _ in range(2):
            x.grad = None
            sync.backward(y, retain_graph=True)

    assert x.grad.item() == 1.0
    assert cache.stats().hits == 2
    assert ag.engine.compiled_source(y).count("async def segment") in (2, 3)


@pytest.mark.parametrize("layers", range(3, 8))
def test_one_node_may_lead_to_several_leaves_however_many_have_been_met_before(cache, layers):
    random = np.random.default_rng(5)
    leaves = [ag.tensor(random.standard_normal(shape), requires_grad=True) for shape in ((3, 3), (3,)) * layers]

    def model(*leaves: Any) -> Any:
        x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
        for weight, bias in zip(leaves[::2], leaves[1::2], strict=True):
            x = nn.linear(x, weight, bias)
        return x.sum()

    expected = engine_gradients(leaves, model)
    with compiled_after(0):
        sync.backward(model(*leaves))

    assert same_bits(copies_of_grads(leaves), expected)
    assert cache.stats().hits == 1


@pytest.mark.parametrize("before", [0, 6, 7, 8, 9, 12])
def test_two_edges_to_one_leaf_are_not_taken_for_edges_to_two(cache, before):
    first, second, *others = (leaf(float(number + 2)) for number in range(before + 2))

    def run(left: ag.Tensor, right: ag.Tensor) -> None:
        out = left * right
        for other in others:
            out = out * other
        sync.backward(out)

    with compiled_after(0):
        run(first, second)
        clear([first, second])
        run(first, first)

    factor = float(np.prod([other.item() for other in others]))
    assert first.grad.item() == 4.0 * factor
    assert second.grad is None
    assert (cache.stats().hits, sum(cache.stats().reasons.values())) == (1, 1)


def test_sequences_of_several_lengths_are_each_compiled(cache):
    x = leaf(0.5)

    def run(length: int) -> None:
        y = x
        for _ in range(length):
            y = np.tanh(y * x)
        sync.backward(y)

    with ag.compiled_autograd(after=1):
        for _ in range(6):
            for length in (100, 120):
                run(length)
        before = cache.stats()
        for length in (100, 120, 100, 100, 120):
            run(length)

    assert cache.stats().hits == before.hits + 5
    assert cache.stats().compilations == 2


@one_loop
async def test_a_heavy_body_is_left_to_a_worker_and_run_within_the_function_where_there_is_none(cache):
    threads: list[int] = []
    x = large()

    for workers in (0, 1):
        with compiled_after(0), always(), ag.workers(workers):
            for _ in range(2):
                await heavy_calling(x * 2.0, lambda grad: threads.append(threading.get_ident())).sum().backward()

    assert [thread == threading.get_ident() for thread in threads] == [True, True, False, False]
    assert cache.stats().hits == 2
    assert cache.stats().reasons == {"a heavy body": 2}


@pytest.mark.parametrize(("size", "is_measured"), [(4, False), (512, True)])
def test_a_body_on_an_array_that_no_graph_leads_to_is_measured_where_that_is_large(
    cache, monkeypatch, size, is_measured
):
    measured: list[str] = []
    cpu = type(ag.device("cpu"))
    run_body = cpu.run_body

    def noted(self: Any, body: Any) -> Any:
        measured.append(body.node.name)
        return run_body(self, body)

    monkeypatch.setattr(cpu, "run_body", noted)
    x = np.ones((size, size), np.float32)
    weight = ag.tensor(np.ones((size, size), np.float32), requires_grad=True)
    with compiled_after(0), ag.workers(0):
        for _ in range(2):
            sync.backward(ag.nn.linear(x, weight).sum())

    assert weight.grad.numpy().tolist() == np.full((size, size), 2.0 * size).tolist()
    assert cache.stats().hits == 2
    assert measured == ["LinearBackward"] * 2 * is_measured


def test_streams_that_are_not_current_keep_no_backward_from_being_compiled(cache):
    stream = ag.device("cpu").stream()
    x = leaf(2.0)
    with compiled_after(0):
        sync.backward(x * x)
        with stream:
            sync.backward(x * x)

    assert cache.stats().hits == 1
    assert cache.stats().reasons == {"streams": 1}


def test_the_cache_is_bounded(cache):
    x = leaf(1.0)
    with compiled_after(0):
        for length in range(1, MAX_PROGRAMS + 20):
            y = np.multiply(np.ones((length, 1)), x)
            sync.backward(y.sum())

    assert cache.stats().compilations == MAX_PROGRAMS + 19
    assert len(cache._programs) == MAX_PROGRAMS


@on_each_loop
def test_the_mode_belongs_to_its_context_and_decorates_functions(run, cache):
    x = leaf(1.0)

    @ag.compiled_autograd(after=1)
    async def awaited():
        await np.multiply(x, x).backward()

    @ag.compiled_autograd(after=1)
    def blocking():
        sync.backward(np.multiply(x, x))

    async def main():
        await awaited()
        await awaited()
        blocking()
        await np.multiply(x, x).backward()

    run(main())

    assert cache.stats().hits == 2


@pytest.mark.parametrize(
    ("after", "error"), [(0, ArgumentError), (-1, ArgumentError), (1.5, ArgumentTypeError), (True, ArgumentTypeError)]
)
def test_after_is_a_number_of_sightings(after, error):
    with pytest.raises(error, match=r"after.*seen.*ag\.compiled_autograd\(after=1\)"):
        ag.compiled_autograd(after=after)


def test_statistics_are_a_frozen_record():
    stats = ag.engine.compiled_stats()

    with pytest.raises(AttributeError):
        stats.hits = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        stats.reasons["x"] = 1  # type: ignore[index]


class TracedCube(Cubed):
    """The same, and says that it is traceable."""

    is_traceable = True


def test_traceable_functions_are_called_from_within(cache):
    x, y = leaf(0.3, 0.7), leaf(0.9, 1.1)

    def backward() -> list[Any]:
        clear([x, y])
        out = np.sin(TracedCube.apply(np.multiply(x, y)) * 0.1) + y
        sync.backward(out.sum())
        with pytest.raises(ReleasedGraphError):
            sync.backward(out.sum())
        return copies_of_grads([x, y])

    with node_by_node():
        expected = backward()
    with compiled_after(0):
        found = [backward() for _ in range(3)]

    assert all(same_bits(one, expected) for one in found)
    assert cache.stats().hits == 3
    assert cache.stats().reasons == {"a graph that was released": 3}


def test_a_hook_on_a_traceable_function_is_called(cache):
    x = leaf(0.3, 0.7)
    seen = []
    with compiled_after(0):
        for watched in (False, True, False):
            made = TracedCube.apply(np.multiply(x, 2.0))
            if watched:
                made.register_hook(lambda grad: seen.append(grad.tolist()))
            sync.backward(np.multiply(made, 5.0).sum())

    assert seen == [[5.0, 5.0]]
    assert cache.stats().hits == 2
    assert cache.stats().misses == 1


def test_threads_share_the_cache(cache):
    expected = engine_gradients(leaves := params(), network)
    data = [tensor.numpy() for tensor in leaves]
    found: list[Any] = []
    together = threading.Barrier(4)

    def train() -> None:
        own = [ag.tensor(array, requires_grad=True) for array in data]
        with ag.compiled_autograd(after=1):
            for _ in range(20):
                clear(own)
                together.wait()
                sync.backward(network(*own))
                found.append(copies_of_grads(own))

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 80
    assert all(same_bits(one, expected) for one in found)
    assert cache.stats().hits + cache.stats().misses == 80
