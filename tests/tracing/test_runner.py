"""The runner makes the calls that NumPy makes: each inner loop and each record is held to NumPy's own functions."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError
from asyncgrad.tracing import runner as runner_module
from asyncgrad.tracing.inner_loops import are_loops_found, inner_loop
from asyncgrad.tracing.loop_trials import call_loop
from asyncgrad.tracing.runner import MOST_OPERANDS, runner
from tests.support.sampling import cases, some
from tests.tracing.running import bits, compiled, same

pytest.importorskip("llvmlite")

UFUNCS = {
    name: ufunc
    for name in sorted(dir(np))
    if isinstance(ufunc := getattr(np, name), np.ufunc) and ufunc.nout == 1 and ufunc.signature is None
}


def test_there_is_a_runner():
    assert are_loops_found()
    assert runner() is runner() is not None


def numbers(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if kind in "fdFD":
        return (rng.standard_normal(size) * 3).astype(kind)
    return rng.integers(0, 2 if kind == "?" else 20, size).astype(kind)


def operands(ufunc: np.ufunc, kind: str, size: int, layout: int, rng: np.random.Generator) -> list[np.ndarray]:
    found = []
    for place in range(ufunc.nin):
        array = numbers(kind, 2 * size, rng)
        if layout == 1:
            found.append(array[::2])
        elif layout == 2 and place:
            found.append(np.broadcast_to(array[:1].copy(), (size,)))
        else:
            found.append(array[:size].copy())
    return found


@pytest.mark.parametrize("name", UFUNCS)
def test_an_inner_loop_has_the_bits_of_its_ufunc(name):
    ufunc = UFUNCS[name]
    rng = np.random.default_rng(0)
    for kind in "fdFDl?":
        loop = next((one for one in ufunc.types if one.startswith(kind * ufunc.nin + "->")), None)
        if loop is None or loop[-1] == "O":
            continue
        found = inner_loop(ufunc, loop)
        assert found is not None
        for size in (1, 3, 8, 17, 64, 200):
            for layout in range(3):
                given = operands(ufunc, kind, size, layout, rng)
                with np.errstate(all="ignore"):
                    try:
                        expected = ufunc(*given)
                    except TypeError:
                        continue
                if expected.dtype.char != loop[-1]:
                    continue
                result = np.empty(size, expected.dtype)
                arrays = [*given, result]
                call_loop(
                    found,
                    [one.__array_interface__["data"][0] for one in arrays],
                    [size],
                    [one.strides[0] for one in arrays],
                )
                # The result may be a NaN of another sign where the operands are NaN.
                assert np.array_equal(result, expected, equal_nan=kind in "fdFD"), (kind, size, layout)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 37])
def test_the_runner_converts_and_copies_as_numpy_does(size):
    rng = np.random.default_rng(0)
    found = runner()
    assert found is not None
    for pair, loop in found.casts.items():
        source = numbers(pair[0], 2 * size + 1, rng)
        for step, into in itertools.product(range(3), range(1, 3)):
            result = numbers(pair[1], 2 * size + 1, rng)
            expected = result.copy()
            expected[: into * size : into] = source[: step * size : step] if step else source[0]
            places = [one.__array_interface__["data"][0] for one in (source, result)]
            call_loop(loop, places, [size], [step * source.itemsize, into * result.itemsize])
            assert result.tobytes() == expected.tobytes(), (pair, step, into)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 9), (8, 16), (17, 30)])
def test_the_runner_copies_rows_and_turned_arrays_as_numpy_does(rows, columns):
    found = runner()
    assert found is not None
    rng = np.random.default_rng(0)
    for kind, loop in found.row_copies.items():
        whole = numbers(kind, 4 * rows * columns, rng)
        sources = {
            "rows": whole.reshape(rows, -1)[:, :columns],
            "turned": whole[: rows * columns].reshape(columns, rows).T,
            "spread": whole.reshape(2 * rows, 2 * columns)[::2, ::2],
            "one row": np.broadcast_to(whole[:columns], (rows, columns)),
            "one column": np.broadcast_to(whole[:rows, None], (rows, columns)),
            "reversed": whole[: rows * columns].reshape(rows, columns)[::-1, ::-1],
        }
        targets = {
            "packed": numbers(kind, rows * columns, rng).reshape(rows, columns),
            "turned": numbers(kind, 2 * rows * columns, rng).reshape(columns, -1)[:, :rows].T,
            "spread": numbers(kind, 3 * rows * columns, rng).reshape(rows, columns, 3)[..., 0],
        }
        for (name, source), (into, target) in itertools.product(sources.items(), targets.items()):
            places = [one.__array_interface__["data"][0] for one in (source, target)]
            steps = [[one.strides[axis] for one in (source, target)] + [0] * (MOST_OPERANDS - 2) for axis in range(2)]
            call_loop(loop, places, [rows, columns], [*steps[0], *steps[1]])
            assert target.tobytes() == source.tobytes(), (kind, name, into)


def in_lockstep(function: Any, *args: np.ndarray) -> list[str]:
    """Return the names of the functions of a program's forward that were called by Python."""
    jitted = compiled(function, *args)
    (variant,) = next(iter(jitted._families.values())).variants
    table = variant.take_table()
    return [
        getattr(step.function, "__name__", "") for step in table._records.opaque() if step in variant.program.forward
    ]


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "columns": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
}


def written(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made = np.empty_like(a)
    made.fill(2)
    made[...] = b
    made[1:] = a[1:] * 2
    made[:1] = 3
    return made * 1


#: All of what these call has records, for arrays in C order.
AS_RECORDS: list[Callable[[np.ndarray, np.ndarray], Any]] = [
    written,
    lambda a, b: np.exp(np.maximum((a[:, None] * b).transpose(2, 0, 1) * 1, (b[:, None] * a).transpose(2, 0, 1) * 1)),
    lambda a, b: np.maximum((a > 0) * np.uint8(3), (b > 0)[::-1] * np.uint8(2)),
    lambda a, b: ((a * 1) @ (b[0] * 1)) + (a.T[0] * 1) * 2,
    lambda a, b: (a[0] * 1) @ (b.T * 1) * 2,
    lambda a, b: ((a * 1).sum() * 0.5 - 1) / 3 + b,
]


#: What the runner calls, for arrays in any layout.
CALLED: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b * 2 - b / 3,
    lambda a, b: a[0] + b,
    lambda a, b: np.sqrt(np.abs(a)) * b[:, :1],
    lambda a, b: np.exp(a) + np.tanh(b),
    lambda a, b: np.maximum(a, b) > 0.5,
    lambda a, b: a.sum() + b.sum(0),
    lambda a, b: a.max(-1) + b.min(axis=1),
    lambda a, b: (a * b).sum(axis=1, keepdims=True) + np.sum(a * 1, axis=0),
    lambda a, b: a.T @ b,
    lambda a, b: np.dot(a.T, b),
    lambda a, b: np.dot(a[0], b.T),
    lambda a, b: np.dot(b, a[-1]) + np.dot(a[0], b[0]),
    lambda a, b: np.concatenate([a, b]) * 2,
    lambda a, b: np.stack([a, b], axis=1) * 2,
    lambda a, b: np.where(a > b, a, b).astype(np.float32) + np.float32(1),
    lambda a, b: (a > 0) & (b > 0) | ~(a == b),
    lambda a, b: a**2 + np.square(b) - np.add(a, b, out=np.empty_like(a)),
    lambda a, b: a * (b > 0) + (a > b) * b[0],
    lambda a, b: np.float64(2) * a + b.astype(np.float32) * np.float64(3) + (b * 3).astype(np.int32) * 1.5,
    lambda a, b: (a.T * 2).reshape(-1) + (b * 1).ravel(),
    *AS_RECORDS,
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", CALLED, ids=range(len(CALLED)))
def test_a_call_of_the_runner_has_the_bits_of_numpys(function, layout):
    rng = np.random.default_rng(1)
    kinds = itertools.product([(5, 7), (1, 4), (33, 3), (2, 129)], [np.float64, np.float32])
    for shape, kind in some(kinds, of=f"{CALLED.index(function)} {layout}"):
        points = [[LAYOUTS[layout](rng.standard_normal(shape).astype(kind)) for _ in range(2)] for _ in range(3)]
        jitted = compiled(function, *points[0])
        for point in points:
            assert bits(jitted(*point)) == bits(function(*point))


def test_elementwise_calls_products_reductions_and_joins_are_made_by_the_runner():
    def function(a, b):
        a = np.concatenate([a, a * 2 + 1])
        h = np.tanh(a @ b) - np.dot(a, b)
        return (h * h).sum(0) + h.max(axis=0)

    rng = np.random.default_rng(0)

    assert in_lockstep(function, rng.standard_normal((4, 5)), rng.standard_normal((5, 6))) == []


@pytest.mark.parametrize("length", [3, 8, 11, 29, 130])
def test_sums_of_a_column_have_numpys_bits(length):
    """A few numbers, added up in two orders, often give the same sum: one trial would take a wrong order for right."""
    rng = np.random.default_rng(0)
    points = [rng.standard_normal((length, 1)).astype(np.float32) for _ in range(30)]
    jitted = compiled(sum_of_column, points[0])

    assert in_lockstep(sum_of_column, points[0]) == []
    assert [bits(jitted(point)) for point in points] == [bits(sum_of_column(point)) for point in points]


def sum_of_column(x):
    return (x * 1).sum(0) + np.dot((x * 1)[:, 0], x[:, 0])


@pytest.mark.parametrize("function", AS_RECORDS, ids=range(len(AS_RECORDS)))
def test_writes_numbers_vectors_and_other_orders_of_axes_have_records(function):
    rng = np.random.default_rng(0)

    assert in_lockstep(function, rng.standard_normal((5, 8)), rng.standard_normal((5, 8))) == []


@pytest.mark.parametrize("kind", ["divide", "over", "invalid"])
def test_numpys_warnings_and_errors_come_from_the_calls_that_numpy_would_make(kind):
    function = {
        "divide": lambda x: (1 / (x * 1)).sum() + 1,
        "over": lambda x: np.square(np.exp(x * 700) * 1e100).sum(),
        "invalid": lambda x: np.sqrt(x - 5).sum(),
    }[kind]
    jitted = compiled(function, np.full(3, 6.0) if kind == "invalid" else np.full(3, 1e-5))
    bad = np.zeros(3) if kind != "over" else np.ones(3)
    counts = []
    for one in (function, jitted):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one(bad)
        counts.append([str(warning.message) for warning in caught])

    assert counts[0] == counts[1] != []
    with np.errstate(all="raise"):
        for _ in range(4):
            with pytest.raises(FloatingPointError):
                jitted(bad)
    with np.errstate(all="ignore"):
        for _ in range(4):
            assert bits(jitted(bad)) == bits(function(bad))


def test_after_a_call_that_numpys_functions_made_the_runner_goes_on_and_keeps_no_arguments_of_it():
    def function(a):
        return 1.0 / a + a

    jitted = compiled(function, np.ones(2))
    zeros = np.zeros(2)
    reference = weakref.ref(zeros)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        jitted(zeros)
    del zeros

    assert bits(jitted(np.array([4.0, 5.0]))) == bits(function(np.array([4.0, 5.0])))
    assert reference() is None


def test_an_error_that_is_cleared_by_a_later_loop_is_told_of():
    def function(x):
        return (1 / x) > 2

    jitted = compiled(function, np.ones(3))

    with pytest.warns(RuntimeWarning, match="divide by zero"):
        jitted(np.zeros(3))


def test_a_backward_warns_as_that_of_the_function():
    def function(x):
        return np.log(x).sum()

    jitted = ag.jit(function, verify=0)
    for _ in range(3):
        ag.sync.backward(jitted(ag.tensor([1.0, 2.0], requires_grad=True)))
    x = ag.tensor([1.0, 5e-324], requires_grad=True)
    value = jitted(x)

    with pytest.warns(RuntimeWarning, match="overflow"):
        ag.sync.backward(value)
    assert x.grad.tolist() == [1.0, np.inf]


def test_numbers_that_decide_are_compared_by_the_runner():
    def function(x):
        return x * 2 if x.sum() > 0 else x * 3

    jitted = compiled(function, np.ones(3))

    for number in (1.0, -1.0, 1.0, -1.0, 2.0):
        assert bits(jitted(np.full(3, number))) == bits(function(np.full(3, number)))
    assert jitted.counts["failed checks"] > 0
    assert in_lockstep(function, np.ones(3)) == []


@pytest.mark.parametrize("seed", range(cases(20)))
def test_gradients_have_the_same_bits_by_each_backend(seed):
    rng = np.random.default_rng(seed)
    w, x = rng.standard_normal((4, 4)), rng.standard_normal((6, 4))

    def function(w, x):
        h = np.tanh(x @ w)
        h = np.maximum(h @ w, 0) * x
        return (np.exp(-h) / (1 + h * h)).mean()

    for backend in ("table", "runner"):
        jitted = compiled(function, ag.tensor(w, requires_grad=True), ag.tensor(x, requires_grad=True), backend=backend)
        assert same(function, jitted, [w * 1.5, x + 1])


def test_without_llvmlite_a_program_is_a_table(monkeypatch):
    monkeypatch.setattr(runner_module, "missing_extra", lambda: "llvmlite is not installed: pip install asyncgrad[jit]")
    monkeypatch.setattr("asyncgrad.tracing.jit.missing_extra", runner_module.missing_extra)
    runner_module.runner.cache_clear()
    try:
        jitted = compiled(lambda x: x * 2 + 1, np.ones(3))

        assert next(iter(jitted._families.values())).variants[0].runner is None
        with pytest.raises(
            ArgumentError, match=r"no backend 'runner': llvmlite is not installed: pip install asyncgrad"
        ):
            ag.jit(lambda x: x, backend="runner")
    finally:
        runner_module.runner.cache_clear()


def warned(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """Return the bits of what a function returns, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = bits(function(*args))
    return found, [str(one.message) for one in caught]


def onto_the_next(x):
    y = x * 1
    np.copyto(y[1:], y[:-1])
    return y


def onto_the_transposed(x):
    y = (x * 1).reshape(2, 2)
    np.copyto(y, y.T)
    return y


LARGE = np.array([1e300, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("function", "traced", "others"),
    [
        (onto_the_next, np.ones(4), [np.arange(4.0)]),
        (onto_the_transposed, np.ones(4), [np.arange(4.0)]),
        (lambda x: -(x * x), np.ones(4), [LARGE]),
        (lambda x: np.dot(x.reshape(-1, 1), x.reshape(1, -1)), np.ones(4), [np.array([np.inf, 2.0, 3.0, 0.0])]),
        (lambda x: x * 1e300, np.ones(3, np.float32), [np.full(3, 2.0, np.float32)] * 2),
        (lambda x: x.sum(initial=1e300), np.ones(3, np.float32), [np.full(3, 2.0, np.float32)] * 2),
        (lambda x: x.sum() + x.sum(), np.array([1, 2]), [np.array([2**62, 0])]),
        (lambda x: x.prod(axis=0), np.ones((4, 1), complex), [np.array([[1.1 + 2j], [0.3 - 1j], [2.0], [1j]])]),
        (lambda x: np.dot(x, x.T), np.ones((5, 1), complex), [np.array([[1.1 + 2j], [0.3 - 1j], [2.0], [1j], [3.3]])]),
    ],
    ids=range(9),
)
def test_overlaps_errors_casts_and_complex_numbers_are_numpys(function, traced, others):
    for backend in ("table", "runner"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jitted = compiled(function, traced, backend=backend)
        for other in others:
            assert warned(jitted, other) == warned(function, other)


@pytest.mark.parametrize("name", ["exp", "log10", "tan", "cbrt", "exp2"])
def test_one_element_with_an_odd_step_has_the_bits_of_numpys(name):
    rng = np.random.default_rng(0)
    given = [np.array([7.0, value])[::-1][:1] for value in rng.random(60) * 3]
    jitted = compiled(getattr(np, name), given[0])

    assert [bits(jitted(one)) for one in given] == [bits(getattr(np, name)(one)) for one in given]


def test_an_array_that_is_not_aligned():
    memory = np.zeros(8 * 2001 + 1, np.uint8)
    array = memory[1:].view(np.float64)
    array[:] = np.random.default_rng(0).standard_normal(2001)
    jitted = compiled(lambda x: x.sum(), array)

    assert jitted(array) == array.sum()


def test_a_backward_under_another_errstate_raises_as_that_of_the_function():
    x = ag.tensor([0.0, 2.0], requires_grad=True)
    jitted = ag.jit(lambda x: np.sqrt(x).sum(), verify=0)
    for _ in range(3):
        with np.errstate(all="ignore"):
            value = jitted(x)

    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        ag.sync.backward(value)


@pytest.mark.parametrize("backend", ["table", "runner"])
def test_backward_passes_of_one_graph_in_several_threads(backend):
    w, x = ag.tensor(np.eye(8) / 2, requires_grad=True), np.ones((16, 8))

    def function(w, x):
        for _ in range(20):
            x = np.tanh(x @ w)
        return x

    jitted = ag.jit(function, backend=backend, verify=0)
    for _ in range(3):
        y = jitted(w, x)
    expected = ag.sync.grad(function(w, x), [w], [np.ones(y.shape)])[0].tolist()
    found: list[Any] = []

    def differentiate() -> None:
        for _ in range(30):
            found.append(ag.sync.grad(y, [w], [np.ones(y.shape)], retain_graph=True)[0].tolist())  # noqa: PERF401

    threads = [threading.Thread(target=differentiate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 120


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, order: np.ravel(x * 2, order),
        lambda x, order: (x * 2).ravel(order),
        lambda x, order: (x * 2).flatten(order=order),
        lambda x, order: np.reshape((x * 2).T, (-1,), order if order != "K" else "C"),
        lambda x, order: (x * 2).T.reshape(6, order=order if order != "K" else "C"),
    ],
    ids=["np.ravel", "ravel", "flatten", "np.reshape", "reshape"],
)
def test_an_array_in_another_shape_is_read_in_the_order_that_is_asked_for(function, order):
    x = np.arange(6.0).reshape(2, 3)

    for given in (x + 0, np.asfortranarray(x) + 0):
        jitted = compiled(lambda x: function(x, order) + 0, given)
        assert bits(jitted(given + 1)) == bits(function(given + 1, order) + 0)
        assert jitted.counts["replayed"] == 2


def test_a_product_with_a_number_is_numpys():
    jitted = compiled(lambda x: np.dot(2.0, x * 1), np.ones(3))

    assert jitted(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]


def test_booleans_and_copies_in_another_shape_are_the_runners():
    def function(a, b):
        return a * (b > 0) + (a * 2).T.reshape(a.shape)

    rng = np.random.default_rng(0)

    assert in_lockstep(function, rng.standard_normal((4, 5)), rng.standard_normal((4, 5))) == []


def test_any_byte_but_zero_is_true():
    flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
    jitted = compiled(lambda x, flags: x * flags, np.ones(4), flags)

    assert jitted(np.ones(4), flags).tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("function", [np.copy, lambda x: np.concatenate([x, x]), lambda x: x.reshape(2, 2).T.copy()])
def test_a_copy_of_booleans_has_their_bytes(function):
    flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
    jitted = compiled(function, flags, backend="runner")

    assert bits(jitted(flags)) == bits(function(flags))


@pytest.mark.parametrize("function", [lambda x: x**3, lambda x: x[np.array([1, 0, 1])] * 1, lambda x: np.sort(x)])
def test_a_backward_reads_the_arguments_of_a_forward_that_has_no_record(function):
    def gradient(called: Callable[..., Any], numbers: list[float]) -> Any:
        x = ag.tensor(numbers, requires_grad=True)
        return bits(ag.sync.grad(called(x), [x], [np.array([1.0, 2.0, 3.0])])[0])

    jitted = compiled(function, ag.tensor([1.0, 2.0, 3.0], requires_grad=True), backend="runner")
    for numbers in ([1.5, 2.5, 3.5], [4.0, 5.0, 6.0]):
        assert gradient(jitted, numbers) == gradient(function, numbers)


@pytest.mark.parametrize("backend", ["runner", "fused"])
def test_a_gradient_is_written_at_once_into_memory_of_the_callers(backend):
    def function(w, v, x):
        return np.tanh(x @ w).sum() + (np.roll(v, 1) * np.arange(3)).sum()

    w, v = ag.tensor(np.eye(3) / 2, requires_grad=True), ag.tensor([0.5, 0.25, 1.0], requires_grad=True)
    x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    jitted = compiled(function, w, v, x, backend=backend)
    value = jitted(w, v, x)
    table = value.grad_fn._lease.table
    inside = [table.array(one) for one in table.program.gradients]
    for array in inside:
        array.fill(np.nan)
    of_w, of_v = ag.sync.grad(value, [w, v], retain_graph=True)
    again = ag.sync.grad(value, [w, v])

    assert np.isnan(inside[0]).all(), "the table has a copy"
    assert not np.isnan(inside[1]).any(), "where Python computes a part, all lies in the table"
    expected = ag.sync.grad(function(w, v, x), [w, v])
    assert [bits(of_w), bits(of_v)] == [bits(one) for one in expected] == [bits(one) for one in again]
    assert not np.shares_memory(of_w.numpy(), again[0].numpy())


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,)])
@pytest.mark.parametrize("function", [np.multiply, np.divide, np.add])
def test_a_write_into_an_operand_has_its_bits_also_of_one_complex_number(function, shape):
    def called(x, y):
        square, product = np.copy(x), np.copy(x)
        function(square, square, out=square)
        function(product, y, out=product)
        return square, product

    rng = np.random.default_rng(0)

    def numbers() -> np.ndarray:
        return np.array(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    jitted = compiled(called, numbers(), numbers(), backend="runner")
    for _ in range(50):
        x, y = numbers(), numbers()
        assert [bits(one) for one in jitted(x, y)] == [bits(one) for one in called(x, y)]


def test_what_copyto_is_told_by_position():
    def function(x):
        y = x * 1
        np.copyto(y, x > 0, "unsafe")
        return y * 2

    jitted = compiled(function, np.ones(3), backend="runner")

    assert jitted(np.array([1.0, -1.0, 2.0])).tolist() == [2.0, 0.0, 2.0]


def test_a_product_into_a_larger_array_is_there_several_times():
    def function(a, b):
        made = np.zeros_like(a)
        np.matmul(a * 1, b * 1, out=made)
        return made

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    jitted = compiled(function, a, b, backend="runner")
    assert bits(jitted(a + 1, b)) == bits(function(a + 1, b))
