"""vmap by a program of one row: the bits of a loop, whatever decides how a row is computed."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import func as async_func
from asyncgrad import nn, sync
from asyncgrad.sync import func
from asyncgrad.tracing.jitted import ALL
from tests.support.programs import worlds
from tests.support.programs.check import NAMES
from tests.support.programs.generate import draw
from tests.support.sampling import cases
from tests.tracing.running import bits

ROWS = np.random.default_rng(0).standard_normal((12, 4, 3))
WEIGHT = np.random.default_rng(1).standard_normal((3, 2))
#: How many random programs are drawn.
PROGRAMS = cases(100)


@pytest.fixture(autouse=True)
def _traced_at_once(monkeypatch):
    monkeypatch.setattr("asyncgrad.transforms.vmap._ROWS_BEFORE_TRACE", 1)


@pytest.fixture(params=["table", "runner"])
def backend(request):
    if request.param == "runner":
        pytest.importorskip("llvmlite")
    return request.param


def loss(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).mean()


def stacked(function: Callable[..., Any], axes: tuple[int | None, ...], *args: Any) -> Any:
    """Return what a loop over rows returns, stacked."""
    count = next(arg.shape[axis] for arg, axis in zip(args, axes, strict=True) if axis is not None)
    rows = [
        function(
            *[
                arg if axis is None else np.moveaxis(arg, axis, 0)[index, ...]
                for arg, axis in zip(args, axes, strict=True)
            ]
        )
        for index in range(count)
    ]
    return ag.tree.map(lambda *leaves: np.stack(leaves), *rows)


def replayed(mapped: Callable[..., Any], *args: Any) -> int:
    """Return how many rows of a call are replayed."""

    def count() -> int:
        return sum(one.counts["replayed"] for one in list(ALL))

    before = count()
    mapped(*args)
    return count() - before


def agrees(function: Callable[..., Any], axes: tuple[int | None, ...], *args: Any, rows: int | None = None) -> bool:
    """Tell whether calls of the map have the bits of a loop, and so many rows of the last one are replayed."""
    mapped = func.vmap(function, in_axes=axes)
    expected = stacked(function, axes, *args)
    for _ in range(3):
        found = mapped(*args)
        if ag.tree.map(bits, found) != ag.tree.map(bits, expected):
            return False
    return replayed(mapped, *args) == (len(ROWS) if rows is None else rows)


def test_all_rows_are_replayed_once_the_program_is_compared():
    mapped = func.vmap(loss, in_axes=(None, 0))

    # One by the function, one that is traced, and two that are compared.
    assert [replayed(mapped, WEIGHT, ROWS) for _ in range(2)] == [len(ROWS) - 4, len(ROWS)]


def test_a_function_is_traced_after_many_rows(monkeypatch):
    monkeypatch.setattr("asyncgrad.transforms.vmap._ROWS_BEFORE_TRACE", 20)
    mapped = func.vmap(loss, in_axes=(None, 0))

    assert [replayed(mapped, WEIGHT, ROWS) for _ in range(3)] == [0, 1, len(ROWS)]


def test_a_compiled_function_is_traced_at_once(monkeypatch):
    monkeypatch.setattr("asyncgrad.transforms.vmap._ROWS_BEFORE_TRACE", 1000)
    assert agrees(ag.jit(loss), (None, 0), WEIGHT, ROWS)
    assert agrees(func.grad(ag.jit(loss)), (None, 0), WEIGHT, ROWS)


def test_results_are_those_of_a_loop(backend):
    def everything(w, x):
        return {
            "number": x.sum(),
            "shape": x.shape[0],
            "row": x,
            "same": w,
            "twice": [np.exp(x)] * 2,
            "moved": (x @ w).T,
            "bool": x > 0,
            "array": np.sort(x, axis=0),
            "constant": np.float32(2.0),
        }

    assert agrees(ag.jit(everything, backend=backend), (None, 0), WEIGHT, ROWS)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_may_lie_spread_out(backend, axis):
    jitted = ag.jit(lambda w, x: np.tanh(w * x).sum(axis=-1) @ x[:, 0], backend=backend)

    assert agrees(jitted, (None, axis), 0.5 * np.ones(()), np.moveaxis(ROWS, 0, axis))
    assert agrees(jitted, (None, axis), 0.5 * np.ones(()), np.moveaxis(ROWS, 0, axis).copy())


def test_gradients_per_example_are_those_of_a_loop(backend):
    def of(function):
        return function(ag.jit(loss, backend=backend))

    assert agrees(of(func.grad), (None, 0), WEIGHT, ROWS)
    assert agrees(of(lambda f: func.value_and_grad(f, (0, 1))), (None, 0), WEIGHT, ROWS)
    assert agrees(of(lambda f: func.jacrev(func.grad(f))), (None, 0), WEIGHT, ROWS)
    assert agrees(of(func.hessian), (None, 0), WEIGHT, ROWS)
    assert agrees(of(sync.value_and_grad), (None, 0), WEIGHT, ROWS)


def test_gradients_of_a_perceptron_per_example(backend):
    rng = np.random.default_rng(0)
    layers = [
        (rng.standard_normal((out, into)).astype(np.float32), np.zeros(out, np.float32))
        for into, out in ((6, 8), (8, 8), (8, 3))
    ]
    x, labels = rng.standard_normal((12, 6)).astype(np.float32), rng.integers(0, 3, 12)
    # BLAS has ways of its own for zeros.
    x[3], x[5], x[7] = 0.0, -0.0, 1e-30

    def cost(layers, x, label):
        for weight, bias in layers[:-1]:
            x = nn.relu(nn.linear(x, weight, bias))
        return nn.cross_entropy(nn.linear(x, *layers[-1]), label)

    with np.errstate(all="ignore"):
        mapped = func.vmap(func.grad(ag.jit(cost, backend=backend)), in_axes=(None, 0, 0))
        for _ in range(3):
            found = mapped(layers, x, labels)
        rows = [func.grad(cost)(layers, *pair) for pair in zip(x, labels.reshape(12, 1)[:, 0, ...], strict=True)]

        assert ag.tree.map(bits, found) == ag.tree.map(lambda *one: bits(np.stack(one)), *rows)


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("columns", [2, 7, 64, 71])
def test_products_of_a_column_and_a_row(backend, kind, columns):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((130, columns)).astype(kind), rng.standard_normal((12, 1, 130)).astype(kind)
    # BLAS has ways of its own for zeros, and for products that vanish.
    x[1], x[2, 0, ::2], w[3], w[5] = 0.0, -0.0, 1e-30, -0.0

    def cost(w, x):
        return (x @ w).sum()

    for shape in ((1, 130), (130,)):
        function = func.grad(ag.jit(cost, backend=backend), (0, 1))
        assert agrees(function, (None, 0), w, x.reshape(12, *shape))


@pytest.mark.parametrize("kind", ["f", "d"])
def test_products_by_one_number(backend, kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 1, 70)).astype(kind)
    x[1], x[2, 0, ::2], x[3] = 0.0, -0.0, 1e-30
    factors = np.array([0.0, -0.0, 1e-30, 2.0, *rng.standard_normal(8)], kind).reshape(12, 1)

    def scaled(factor, x):
        return np.dot(factor, x), np.dot(x.T, factor.reshape(1, 1))

    with np.errstate(all="ignore"):
        assert agrees(ag.jit(scaled, backend=backend), (0, 0), factors, x)


def test_operators_of_numbers_have_the_bits_of_each_row(backend):
    def of_numbers(x):
        total = x.sum()
        return (total - 2.0) / x[0, 0] * -total + 3

    assert agrees(ag.jit(of_numbers, backend=backend), (0,), ROWS)
    assert agrees(ag.jit(of_numbers, backend=backend), (0,), ROWS.astype(np.float32))


async def test_the_map_of_an_awaited_gradient_is_replayed():
    mapped = async_func.vmap(async_func.grad(loss), in_axes=(None, 0))
    for _ in range(2):
        found = await mapped(WEIGHT, ROWS)

    assert bits(found) == bits(stacked(func.grad(loss), (None, 0), WEIGHT, ROWS))
    assert ag.jit.stats()["ag.func.vmap(loss)"]["replayed"] == 2 * len(ROWS) - 4


def test_tensors_come_back_as_tensors():
    mapped = func.vmap(loss, in_axes=(None, 0))
    w, x = ag.tensor(WEIGHT), ag.tensor(ROWS)
    for _ in range(2):
        found = mapped(w, x)

    assert isinstance(found, ag.Tensor)
    assert bits(found) == bits(stacked(loss, (None, 0), WEIGHT, ROWS))


def test_what_requires_grad_gets_its_gradients():
    mapped = func.vmap(loss, in_axes=(None, 0))
    mapped(WEIGHT, ROWS)
    w, x = ag.tensor(WEIGHT, requires_grad=True), ag.tensor(ROWS, requires_grad=True)

    found = sync.grad(mapped(w, x).sum(), [w, x])

    expected = sync.grad(np.stack([loss(w, row) for row in x]).sum(), [w, x])
    assert list(map(bits, found)) == list(map(bits, expected))


def test_a_gradient_has_no_graph_for_what_its_function_captures():
    w = ag.tensor(WEIGHT, requires_grad=True)
    gradient = func.grad(lambda x: loss(w, x))

    assert agrees(gradient, (0,), ROWS)


def test_what_has_a_graph_runs_in_a_loop():
    w = ag.tensor(WEIGHT, requires_grad=True)

    assert agrees(lambda x: loss(w, x), (0,), ROWS, rows=0)
    assert agrees(loss, (None, 0), w, ROWS, rows=0)
    assert agrees(func.grad(loss), (None, 0), w, ROWS, rows=0)
    with ag.no_grad():
        assert agrees(lambda x: loss(w, x), (0,), ROWS)
        assert agrees(loss, (None, 0), w, ROWS)
        assert agrees(func.grad(loss), (None, 0), w, ROWS)


def test_a_compiled_function_runs_itself_where_there_is_a_graph_for_each_row():
    jitted = ag.jit(loss)
    mapped = func.vmap(jitted, in_axes=(None, 0))
    w = ag.tensor(WEIGHT, requires_grad=True)
    for _ in range(3):
        (found,) = sync.grad(mapped(w, ROWS).sum(), [w])

    (expected,) = sync.grad(np.stack([loss(w, row) for row in ROWS]).sum(), [w])
    assert bits(found) == bits(expected)
    assert not jitted.counts["replayed"]


def test_rows_that_are_not_aligned_run_in_a_loop():
    rows = np.ndarray((12, 3), np.float64, bytes(12 * 28), 4, (28, 8))
    mapped = func.vmap(np.cos)
    for _ in range(3):
        assert bits(mapped(rows)) == bits(np.ones((12, 3)))
    assert replayed(mapped, rows) == 0


def test_what_a_function_captures_may_change():
    shift = ag.tensor(np.ones(2))
    gradient = func.grad(lambda x: (np.tanh(x @ WEIGHT) * shift).sum())
    mapped = func.vmap(gradient)
    mapped(ROWS)

    for number in (1.0, 2.0):
        shift = ag.tensor(np.full(2, number))
        assert bits(mapped(ROWS)) == bits(stacked(gradient, (0,), ROWS))
    assert replayed(mapped, ROWS) == len(ROWS)


def test_numbers_decide_for_each_row(backend):
    def branching(x):
        return x.sum() if x[0, 0] > 0 else np.exp(x).mean() * np.ones(())

    assert agrees(ag.jit(branching, backend=backend), (0,), ROWS)
    assert agrees(func.grad(ag.jit(lambda x: x.sum() if x[0, 0] > 0 else np.exp(x).mean())), (0,), ROWS)


def test_rows_may_have_dtypes_of_their_own():
    def either(x):
        return x.sum() if x[0, 0] > 0 else np.float32(1.0)

    assert agrees(either, (0,), ROWS)


def test_a_floating_point_error_is_told_of(backend):
    rows = np.array([1.0, 4.0, 0.0, 2.0, 0.0, 8.0])
    mapped = func.vmap(ag.jit(lambda x: np.log(x) + 1.0, backend=backend))
    with np.errstate(divide="ignore"):
        expected = np.log(rows) + 1.0
        for _ in range(2):
            mapped(rows)
    with np.errstate(divide="warn"):
        for _ in range(2):
            with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
                assert bits(mapped(rows)) == bits(expected)
    with np.errstate(divide="raise"):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="log"):
                mapped(rows)
        assert bits(mapped(rows[[0, 1, 3, 5]])) == bits(expected[[0, 1, 3, 5]])


def test_random_numbers_are_drawn_row_by_row(backend):
    def noisy(x):
        return nn.dropout(x, 0.5) + ag.random.generator().normal(size=x.shape)

    mapped = func.vmap(ag.jit(noisy, backend=backend))
    for _ in range(3):
        ag.random.seed(3)
        found = mapped(ROWS)
        after = ag.random.generator().normal(size=3)
        ag.random.seed(3)

        assert bits(found) == bits(stacked(noisy, (0,), ROWS))
        assert bits(after) == bits(ag.random.generator().normal(size=3))
    assert replayed(mapped, ROWS) == len(ROWS)


def test_what_cannot_be_traced_runs_in_a_loop():
    calls = []

    def noted(x):
        calls.append(x)
        return bytes(np.asarray(x))[0] * x

    assert agrees(noted, (0,), ROWS, rows=0)

    def writing(x):
        x[0] = 0.0
        return x.sum()

    mapped = func.vmap(writing)
    for _ in range(3):
        batch = ROWS.copy()
        assert bits(mapped(batch)) == bits(np.stack([row[1:].sum() for row in ROWS]).reshape(12) + 0.0) or batch.any()
        assert not batch[:, 0].any()


def test_an_error_comes_from_the_row_that_has_it():
    def careful(x):
        if x[0, 0] == ROWS[7, 0, 0]:
            raise ZeroDivisionError("the eighth")
        return x.sum()

    mapped = func.vmap(careful)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="the eighth"):
            mapped(ROWS)
    assert bits(mapped(ROWS[:7])) == bits(np.stack([row.sum() for row in ROWS[:7]]))


def test_a_method_is_compiled_with_its_object():
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def cost(self, x: Any) -> Any:
            return (x * self.scale).sum()

    model = Model(2.0)
    assert agrees(func.grad(model.cost), (0,), ROWS)
    assert agrees(model.cost, (0,), ROWS)


def test_maps_nest_within_each_other_and_in_compiled_functions():
    inner = func.vmap(lambda x: (x * x).sum())
    assert agrees(lambda rows: inner(rows), (0,), ROWS)

    outer = func.vmap(inner)
    for _ in range(3):
        assert bits(outer(ROWS)) == bits(stacked(lambda rows: (rows * rows).sum(axis=-1), (0,), ROWS))

    jitted = ag.jit(lambda x: inner(x).sum())
    for _ in range(5):
        assert bits(jitted(ROWS)) == bits(inner(ROWS).sum())
    assert jitted.counts["replayed"]


def test_a_map_of_many_rows_keeps_a_compiled_function_eager():
    inner = func.vmap(lambda x: (x * x).sum())
    jitted = ag.jit(lambda x: inner(x).sum())
    many = np.ones((1000, 2))
    for _ in range(3):
        assert bits(jitted(many)) == bits(np.float64(2000.0))

    assert not jitted.counts["replayed"]
    assert any("maps 1000 rows" in reason for reason in jitted.counts)


def test_results_are_arrays_of_their_own():
    many = np.ones((20_000, 4))
    mapped = func.vmap(lambda x: x * 2)
    for _ in range(2):
        mapped(many)

    whole, part = mapped(many), mapped(many * 2)[:2]
    tensor = func.vmap(lambda x: x * 2)(ag.tensor(many))
    place = mapped(many * 3).ctypes.data
    again = mapped(many * 4)

    assert again.ctypes.data == place
    assert (whole == 2).all()
    assert (part == 4).all()
    assert bool((tensor == 2).all())
    assert (again == 8).all()
    assert whole.flags.owndata


def test_a_random_program_has_the_bits_of_a_loop(monkeypatch):
    points = worlds.leaves_of
    # Arrays of their own in each call, and no hooks: both would be refused.
    monkeypatch.setattr(worlds, "leaves_of", lambda case: [np.array(one) for one in points(case)])
    counts = Counter[str]()
    for seed in range(PROGRAMS):
        program = draw(seed)
        scope = {**NAMES, "observe": lambda *_: None}
        exec(compile(program.source, f"<program of seed {seed}>", "exec"), scope)  # noqa: S102  # it is its source
        function = scope.pop("program")
        rng = np.random.default_rng(seed)
        leaves = [
            (leaf + 1e-3 * rng.standard_normal((8, *leaf.shape))).astype(leaf.dtype) for leaf in program.leaves.values()
        ]
        gradient = func.value_and_grad(lambda *rows, function=function: function(*rows)[0].sum())
        mapped = func.vmap(gradient)
        before = sum(one.counts["replayed"] for one in list(ALL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = outcome(functools.partial(stacked, gradient, (0,) * len(leaves)), leaves)
            for _ in range(3):
                if outcome(mapped, leaves) != expected:
                    pytest.fail(f"the program of seed {seed} differs\n{program}")
        after = sum(one.counts["replayed"] for one in list(ALL))
        counts["replayed" if after > before else "eager"] += 1

    assert counts["replayed"] >= 0.4 * PROGRAMS, "too few programs are compiled to say anything"


def outcome(function: Callable[..., Any], leaves: list[np.ndarray]) -> Any:
    """Return what a function makes of copies of arrays, which it may write into, and what becomes of those."""
    copies = [leaf.copy() for leaf in leaves]
    try:
        return ag.tree.map(bits, function(*copies)), list(map(bits, copies))
    except Exception as error:
        return type(error)
