"""Sums at indices on a GPU are added in a fixed order, whose bits the kernels have, compiled by the host's compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.engine.device import Device
from asyncgrad.devices.cuda import index_sums
from asyncgrad.devices.cuda.index_sums import index_sum_functions, piece_for
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.devices.host_device import host_device
from tests.devices.host_kernels import (
    COMPILER,
    CPLUSPLUS_COMPILER,
    WARP_MACROS,
    HostArray,
    HostCupy,
    WarpModule,
    on_host,
)
from tests.support.settings import compiled_after

needs_compilers = pytest.mark.skipif(
    COMPILER is None or CPLUSPLUS_COMPILER is None or sys.platform != "linux",
    reason="the C++ of kernels, whose threads take turns, is checked by Linux's compilers",
)

#: The kernels of many indices, without the ends of their names.
MANY = ["index_keys", "add_pieces", "join_pieces"]


@pytest.fixture(scope="module")
def functions() -> dict[Any, Callable[..., Any]]:
    cupy = SimpleNamespace(ndarray=HostArray, RawModule=WarpModule, cuda=HostCupy.cuda)
    return index_sum_functions(cupy, WARP_MACROS)


@pytest.fixture
def device(functions: dict[Any, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """Return a device that has the kernels, none of which has run, and whose library cannot add at indices."""
    compute = HostArray.__array_ufunc__

    def without_at(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        assert method != "at"
        return compute(self, ufunc, method, *inputs, **kwargs)

    monkeypatch.setattr(HostArray, "__array_ufunc__", without_at)
    with host_device(functions=functions) as made:
        WarpModule.launched.clear()
        yield made


@pytest.fixture(params=["few", "many"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have all indices compared with each other, or all sorted."""
    if request.param == "many":
        monkeypatch.setattr(index_sums, "FEW", 0)
    return str(request.param)


def launched() -> list[str]:
    """Return the kernels that have run since the last call, without what they were compiled for."""
    names = [name.rpartition("_")[0] for name in WarpModule.launched]
    WarpModule.launched.clear()
    return names


def drawn(shape: tuple[int, ...], dtype: str = "d", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed + sum(shape))
    array = 3 * rng.standard_normal(shape)
    return (array + 1j * rng.standard_normal(shape) if dtype in "FD" else array).astype(dtype)


def added(total: np.ndarray, indices: np.ndarray, values: np.ndarray, piece: int) -> np.ndarray:
    """Return an array with sums of values added to its rows, which are formed piece by piece of the sorted indices."""
    total, keys = total.copy(), indices % len(total)
    order = np.argsort(keys, kind="stable")
    for key in np.unique(keys):
        places = np.flatnonzero(keys[order] == key)
        sums = []
        for number in np.unique(places // piece):
            part = np.zeros_like(total[key])
            for place in order[places[places // piece == number]]:
                part = part + values[place]
            sums.append(part)
        total[key] += sum(sums[1:], sums[0])
    return total


SIZES = [
    pytest.param(1, 5, 3, 100, id="few rows"),
    pytest.param(2, 1, 33, 70, id="one row"),
    pytest.param(1, 70000, 2, 90, id="many rows"),
    pytest.param(3, 4, 65, 33, id="wide"),
    pytest.param(1, 7, 300, 40, id="wider than a block"),
    pytest.param(1, 3, 1, 1, id="one index"),
    pytest.param(1, 2, 1, 700, id="long runs"),
]


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled
@pytest.mark.parametrize("dtype", "efdFDiq")
@pytest.mark.parametrize("is_zero", [True, False], ids=["to zeros", "to numbers"])
@pytest.mark.parametrize(("outer", "rows", "length", "count"), SIZES)
def test_rows_are_added_in_the_order_of_their_indices(
    functions: dict[Any, Callable[..., Any]],
    size: str,
    dtype: str,
    is_zero: bool,
    outer: int,
    rows: int,
    length: int,
    count: int,
) -> None:
    # Indices beyond the rows begin again at 0.
    indices = np.random.default_rng(count).integers(-2 * rows, 2 * rows, count)
    values = drawn((outer, count, length), dtype)
    total = np.zeros((outer, rows, length), dtype) if is_zero else drawn((outer, rows, length), dtype)
    piece = count if size == "few" else piece_for(count)
    # float16 is summed in float32, and rounded then.
    zeros = np.zeros((rows, length), "f" if dtype == "e" else dtype)
    expected = [
        one + added(zeros, indices, given, piece).astype(dtype) for one, given in zip(total, values, strict=True)
    ]
    found = on_host(total)

    assert functions["add_rows_at"](found, on_host(indices), on_host(values), outer, rows, is_zero) is found

    np.testing.assert_array_equal(found.host, np.asarray(expected), strict=True)


@needs_compilers
@pytest.mark.parametrize("rows", [1, 1 << 16, (1 << 16) + 1, 1 << 32, (1 << 32) + 1, 1 << 40])
def test_keys_hold_the_numbers_of_all_rows(rows: int) -> None:
    name, char = index_sums._key_of(rows)
    module = WarpModule(WARP_MACROS + index_sums._SOURCE, ("-std=c++17",))
    indices = np.array([0, -1, rows, rows - 1, 2 * rows + 3, -5 * rows])
    keys = on_host(np.zeros(6, char))

    module.get_function(f"index_keys_{name}").kernel.linear_launch(256, (on_host(indices), keys, 6, rows), 0, 256)

    assert keys.host.tolist() == (indices % rows).tolist()


@pytest.mark.parametrize("count", [3073, 5000, 100_000, 10_000_000])
def test_neither_a_piece_nor_the_number_of_pieces_is_long(count: int) -> None:
    assert 32 <= piece_for(count) <= count**0.5
    assert count / piece_for(count) <= 4 * count**0.5


# Everything that adds at indices.

INDICES = np.array([[3, 0, 3], [-1, 3, 0]])
ROWS = np.array([4, 0, 4, 2, 4])
PROGRAMS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "embedding": lambda put, x: nn.embedding(put(INDICES % 5), x),
    "embedding with padding": lambda put, x: nn.embedding(put(ROWS), x, padding_idx=4),
    "embedding by frequency": lambda put, x: nn.embedding(put(ROWS), x, scale_grad_by_freq=True),
    "take": lambda put, x: np.take(x, put(INDICES), axis=0),
    "take along the last axis": lambda put, x: np.take(x, put(ROWS), axis=1, mode="wrap"),
    "take in one row": lambda put, x: np.take(x, put(INDICES)),
    "index": lambda put, x: x[put(INDICES)],
    "index of int32": lambda put, x: x[put(INDICES.astype(np.int32))],
    "index of the last axis": lambda put, x: x[:, put(ROWS)],
    "index after an ellipsis": lambda put, x: x[..., put(INDICES)],
    "index of the middle axis": lambda put, x: np.reshape(x, (2, 5, 3))[:, put(ROWS)],
    "index before an ellipsis": lambda put, x: np.reshape(x, (5, 2, 3))[put(ROWS), ...],
    "two indices": lambda put, x: x[put(ROWS), put(ROWS[::-1].copy())],
    "two indices of uint8": lambda put, x: np.reshape(x, (1, 30))[put(np.zeros(5, np.uint8)), put(ROWS.astype("B"))],
    "index beside a number": lambda put, x: x[put(ROWS), 1],
    "two indices apart": lambda put, x: np.reshape(x, (5, 2, 3))[put(ROWS), :, put(ROWS % 3)],
    "index and a new axis": lambda put, x: x[np.newaxis, put(ROWS)],
    "index on the host": lambda put, x: x[[4, 4, 0]],
    "take_along_axis": lambda put, x: np.take_along_axis(x, put(INDICES[:, :1] * np.ones((1, 6), int)), axis=0),
    "add.at": lambda put, x: _with_sums(x, put(ROWS), ufunc=np.add),
    "subtract.at": lambda put, x: _with_sums(x, put(ROWS), ufunc=np.subtract),
    "add.at of one row": lambda put, x: _with_sums(x, 3, ufunc=np.add),
    "columns of a transpose": lambda put, x: _with_sums(x.T, (slice(None), put(ROWS)), ufunc=np.add),
    "write at an index": lambda put, x: _with_rows(x, put(np.array([3, 1]))),
    "bincount": lambda put, x: np.bincount(put(np.tile(ROWS, 6)), np.reshape(x, -1), 7),
    "histogram": lambda put, x: np.histogram(put(np.arange(30.0) % 7), np.arange(5.0), weights=np.reshape(x, -1))[0],
    "histogram of points": lambda put, x: np.histogram2d(put(ROWS * 1.0), put(ROWS % 3.0), 2, weights=x[:, 0])[0],
    "empty index": lambda put, x: x[put(ROWS[:0])],
    "empty bincount": lambda put, x: np.bincount(put(ROWS[:0]), x[0, :0], 3) * np.sum(x),
}
#: Into numbers NumPy adds one value after the other, and a GPU their sum; a histogram of NumPy's is cumulative.
CLOSE = {"add.at", "subtract.at", "columns of a transpose", "histogram"}


def _with_sums(x: Any, index: Any, ufunc: np.ufunc) -> Any:
    total = x * 3
    ufunc.at(total, index, x[index] * 2)
    return total


def _with_rows(x: Any, index: Any) -> Any:
    total = x * 3
    total[index] = total[index][::-1]
    return total


def results(program: Callable[[Callable[[Any], Any], Any], Any], place: Any, dtype: str) -> list[np.ndarray]:
    """Return what a program of a leaf gives on a device, and its gradient, twice in each of two backward passes."""
    found = []
    for _ in range(2):
        leaf = ag.tensor(drawn((5, 6), dtype), device=place, requires_grad=True)
        result = program(lambda array: ag.tensor(array, device=place), leaf)
        sync.backward((result * np.conj(result)).real.sum())
        found += [result.detach(), leaf.grad]
    return [one.to("cpu").numpy() for one in found]


@pytest.mark.slow
@needs_compilers
@pytest.mark.sampled("program")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", "fD")
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_at_indices_have_the_bits_of_numpy(device: Device, program: str, dtype: str, compiled: bool) -> None:
    # The weights of bincount are real.
    dtype = "d" if "bincount" in program or "histogram of" in program else dtype
    expected = results(PROGRAMS[program], "cpu", dtype)
    with compiled_after(1 if compiled else None):
        found = results(PROGRAMS[program], device, dtype)

    for ours, right in zip(found, expected, strict=True):
        tolerance = 1e-6 if program in CLOSE else 0
        np.testing.assert_allclose(ours, right, rtol=tolerance, atol=tolerance, strict=True)
    assert set(launched()) <= {"add_few"}


@needs_compilers
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_gradient_of_many_rows_has_the_same_bits_again_though_one_row_is_named_most_often(
    device: Device, compiled: bool
) -> None:
    indices = np.random.default_rng(0).integers(0, 4000, 5000) % 50
    indices[1000:4000] = 7
    g = drawn((5000, 3), "f")

    def gradient() -> Any:
        table = ag.tensor(np.zeros((50, 3), "f"), device=device, requires_grad=True)
        sync.backward(nn.embedding(ag.tensor(indices, device=device), table), ag.tensor(g, device=device))
        return table.grad.to("cpu").numpy()

    with compiled_after(1 if compiled else None):
        found = [gradient() for _ in range(3)]

    right = added(np.zeros((50, 3), "f"), indices, g, piece_for(5000))
    for one in found:
        np.testing.assert_array_equal(one, right, strict=True)
    assert launched() == MANY * 3


@needs_compilers
def test_the_weights_of_a_histogram_are_one_for_each_element_and_real_where_there_are_several_axes(
    device: Device,
) -> None:
    x, weights = (ag.tensor(drawn((4,), dtype), device=device, requires_grad=True) for dtype in "dD")
    with pytest.raises(ArgumentError, match="a weight for each element: 3 for 4"):
        np.histogram(x, np.arange(3.0), weights=weights[:3])
    with pytest.raises(ArgumentTypeError, match="complex128 to float64"):
        np.histogram2d(x, x, 2, weights=weights)


@needs_compilers
def test_arrays_without_a_kernel_are_left_to_the_library(functions: dict[Any, Callable[..., Any]]) -> None:
    add, total, indices = functions["add_rows_at"], on_host(np.zeros((3, 2))), on_host(np.array([0, 2]))
    others = [
        (on_host(np.zeros((3, 2), np.int8)), indices, on_host(np.ones((2, 2), np.int8))),
        (on_host(np.zeros((2, 3)).T), indices, on_host(np.ones((2, 2)))),
        (total, indices, on_host(np.ones((2, 2), "f"))),
        (total, on_host(np.zeros(0, int)), on_host(np.ones((0, 2)))),
        (total, np.array([0, 2]), on_host(np.ones((2, 2)))),
        (np.zeros((3, 2)), indices, on_host(np.ones((2, 2)))),
        (total, indices, np.ones((2, 2))),
    ]

    assert [add(*other, 1, 3, False) for other in others] == [None] * len(others)


@needs_compilers
def test_indices_and_values_may_lie_in_any_order(functions: dict[Any, Callable[..., Any]]) -> None:
    indices, values = np.array([2, 9, 0, 9, 2, 9])[::2], drawn((2, 3)).T
    total = on_host(np.zeros((3, 2)))

    functions["add_rows_at"](total, on_host(indices), on_host(values), 1, 3, True)

    np.testing.assert_array_equal(total.host, added(np.zeros((3, 2)), indices, values, 3))


def _tied(put: Callable[[Any], Any], table: Any) -> Any:
    """Use a table both for rows at indices and for scores of these."""
    hidden = nn.embedding(put(INDICES % 5), table, padding_idx=3)
    more = np.tanh(table[put(ROWS)])
    return np.sum(nn.linear(np.concatenate([np.reshape(hidden, (-1, 6)), more]), table)) + np.sum(
        table[put(np.array([True, False, False, True, False]))]
    )


@needs_compilers
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_rows_are_added_to_a_sum_of_gradients_that_there_is_with_the_same_bits(
    functions: dict[Any, Callable[..., Any]], compiled: bool
) -> None:
    to_zeros: list[bool] = []

    def add(*arguments: Any) -> Any:
        to_zeros.append(arguments[-1])
        return functions["add_rows_at"](*arguments)

    with host_device(functions={"add_rows_at": add}) as device, compiled_after(1 if compiled else None):
        put = lambda array: ag.tensor(array, device=device)
        table = ag.tensor(drawn((5, 6)), device=device, requires_grad=True)
        # A step callback has each gradient computed by itself.
        with ag.engine.add_step_callback(lambda step: None):
            (right,) = sync.grad(_tied(put, table), table)
        assert to_zeros == [True, True]
        found = [sync.grad(_tied(put, table), table) for _ in range(3)]
        assert to_zeros == [True, True, *[False, False] * 3]

    for (one,) in found:
        np.testing.assert_array_equal(one._data.host, right._data.host)
    leaf = ag.tensor(drawn((5, 6)), requires_grad=True)
    (expected,) = sync.grad(_tied(ag.tensor, leaf), leaf)
    np.testing.assert_allclose(right._data.host, expected.numpy(), rtol=1e-13)
