"""Arrays of another library: writes by an index, a mask or an axis, what stands beside them, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.array_operators import defer_or_raise
from asyncgrad.core.arrays.device_arrays import add_at, as_dtype, clipped, explain_refusal, named, placed, taken
from asyncgrad.errors import ArgumentTypeError, DeviceError
from asyncgrad.testing import SimulatedAccelerator, SimulatedArray
from tests.support.device_arrays import DEVICES

#: Makes an array a tensor on the device under test.
Put = Callable[[Any], Any]

POINTS = np.linspace(-2.0, 2.0, 12).reshape(3, 4) + 0.05
VALUES = np.array([5.0, 6.0, 7.0])
MASK = POINTS > 0.3
ROWS = np.array([0, 0, 2])
COLUMNS = np.array([1, 1, 3])


def _negated_at(x: Any, v: Any, put: Put) -> None:
    np.subtract.at(x, put(ROWS), v.reshape(3, 1))


WRITES: dict[str, Callable[[Any, Any, Put], Any]] = {
    "a number at a mask": lambda x, v, put: x.__setitem__(put(MASK), 9.0),
    "a number at a mask of the host": lambda x, v, put: x.__setitem__(MASK, 9.0),
    "rows at indices": lambda x, v, put: x.__setitem__(put(np.array([0, 2])), v[:2].reshape(2, 1)),
    "a list at indices": lambda x, v, put: x.__setitem__([0, 2], [1.0, 2.0, 3.0, 4.0]),
    "elements at indices": lambda x, v, put: x.__setitem__((put(np.array([0, 2])), put(COLUMNS[:2])), v[:2]),
    "a matrix product": lambda x, v, put: x[:, :3].__imatmul__(put(np.eye(3)) * v),
    "add.at, rows": lambda x, v, put: np.add.at(x, put(ROWS), v.reshape(3, 1)),
    "add.at, a list": lambda x, v, put: np.add.at(x, ROWS.tolist(), v.reshape(3, 1)),
    "add.at, elements": lambda x, v, put: np.add.at(x, (put(ROWS), put(COLUMNS)), v),
    "add.at, columns": lambda x, v, put: np.add.at(x, (slice(None), put(COLUMNS)), v),
    "add.at, a number": lambda x, v, put: np.add.at(x, (slice(None), [1, 1, 3]), 2.0),
    "add.at, a view": lambda x, v, put: np.add.at(x.T, put(ROWS), v),
    "subtract.at": _negated_at,
    "put": lambda x, v, put: np.put(x, put(np.array([0, 5, -1])), v),
    "put, a list over and over": lambda x, v, put: np.put(x, [0, 5, 11], [1.0, 2.0]),
    "put, indices clipped": lambda x, v, put: np.put(x, [0, 5, 99], v, mode="clip"),
    "place": lambda x, v, put: np.place(x, put(MASK), v),
    "place, a list": lambda x, v, put: np.place(x, put(MASK), [1.0, 2.0]),
    "putmask": lambda x, v, put: np.putmask(x, put(MASK), v),
    "putmask, a list": lambda x, v, put: np.putmask(x, put(MASK), [1.0, 2.0]),
    "put_along_axis": lambda x, v, put: np.put_along_axis(x, put(ROWS.reshape(3, 1)), v.reshape(3, 1), 1),
    "put_along_axis, a number": lambda x, v, put: np.put_along_axis(x, put(ROWS.reshape(3, 1)), 2.0, 1),
    "fill_diagonal": lambda x, v, put: np.fill_diagonal(x, v),
    "fill_diagonal, a number": lambda x, v, put: np.fill_diagonal(x, 3.0),
    "copyto at a mask": lambda x, v, put: np.copyto(x, v.reshape(3, 1), where=put(MASK)),
    "a ufunc at a mask": lambda x, v, put: np.log(v.reshape(3, 1) * put(POINTS), out=x, where=put(MASK)),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_gives_what_it_gives_on_the_host(write: Callable[[Any, Any, Put], Any], requires_grad: bool) -> None:
    device = SimulatedAccelerator()

    def written(put: Put) -> list[ag.Tensor]:
        points, values = put(POINTS).requires_grad_(requires_grad), put(VALUES).requires_grad_(requires_grad)
        x = points * 1
        with np.errstate(invalid="ignore"):
            write(x, values, put)
        if not requires_grad:
            return [x]
        grads = ag.sync.grad((x * x).sum(), [points, values], create_graph=True, allow_unused=True)
        found = [grad for grad in grads if grad is not None]
        twice = ag.sync.grad((found[0] * found[0]).sum(), [points], allow_unused=True)
        return [x, *found, *(grad for grad in twice if grad is not None)]

    expected = written(ag.tensor)
    actual = written(lambda array: ag.tensor(array, device=device))
    assert len(actual) == len(expected)
    for here, there in zip(expected, actual, strict=True):
        assert type(there._data) is SimulatedArray
        np.testing.assert_allclose(device.to_host(there._data), here.numpy(), rtol=1e-12, strict=True)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_ufunc_without_a_method_at_is_refused_by_name(requires_grad: bool) -> None:
    x = ag.tensor(POINTS, device=SimulatedAccelerator()).requires_grad_(requires_grad) * 1
    with pytest.raises(ArgumentTypeError, match=r"numpy\.multiply\.at is not available on simulated:\d+: write"):
        np.multiply.at(x, [0, 0], 2.0)


def test_a_view_by_strides_is_refused_by_name() -> None:
    x = ag.tensor(POINTS, device=SimulatedAccelerator())
    with pytest.raises(ArgumentTypeError, match=r"as_strided is not available on simulated:\d+: make the view by"):
        x.as_strided((2, 2), (8, 8))


def test_a_function_that_a_library_lacks_is_refused_by_name() -> None:
    x = ag.tensor(POINTS, device=SimulatedAccelerator())
    lacking = TypeError("no implementation found for 'numpy.spacing' on types that implement __array_function__")
    with pytest.raises(ArgumentTypeError, match=r"numpy\.spacing is not available on simulated:\d+") as caught:
        explain_refusal("numpy.spacing", ([x],), lacking)
    assert caught.value.__cause__ is lacking
    explain_refusal("numpy.spacing", (x,), TypeError("something else"))
    explain_refusal("numpy.spacing", (ag.tensor(POINTS),), lacking)


def test_an_array_of_numpys_beside_another_librarys_is_refused_as_another_device_is() -> None:
    x = ag.tensor(POINTS, device=SimulatedAccelerator())
    refused = TypeError("Unsupported type <class 'numpy.ndarray'>")
    with pytest.raises(DeviceError, match=r"numpy\.add got a tensor on 'simulated:\d+' and a NumPy array of"):
        explain_refusal("numpy.add", (x, [VALUES]), refused)
    with pytest.raises(DeviceError, match=r"and a NumPy array of shape \(3,\)"):
        defer_or_raise(VALUES, refused, "add", x)
    with pytest.raises(DeviceError, match="and a list: write"):
        explain_refusal("numpy.add", (x, [1.0, 2.0]), refused)
    for compute in (operator.add, operator.lt, operator.eq, operator.iadd, np.maximum):
        for other in (VALUES, VALUES.tolist(), ag.tensor(VALUES)):
            with pytest.raises(DeviceError, match=r"got (a tensor|tensors) on 'simulated:\d+' and "):
                compute(x, other)
    assert np.where([[True], [False], [True]], x, 0).device is x.device
    explain_refusal("numpy.add", (x, VALUES), ValueError(str(refused)))


@pytest.mark.parametrize("device", DEVICES)
def test_methods_without_options_are_those_that_the_library_has(device: str) -> None:
    with DEVICES[device]() as opened:
        x = ag.tensor(POINTS, device=opened)

        assert [bool((x > limit).any()) for limit in (0, 9)] == [True, False]
        assert [bool((x < limit).all(axis=None)) for limit in (0, 9)] == [False, True]
        assert x.argsort().tolist() == np.argsort(POINTS).tolist()
        assert np.argsort(x, stable=True).tolist() == np.argsort(POINTS).tolist()
        assert x.argpartition(1).shape == np.argpartition(x, np.array([1])).shape == x.shape


def test_what_is_no_number_is_named_and_equal_to_no_element() -> None:
    x = ag.tensor(POINTS, device=SimulatedAccelerator())
    for other in (None, "a word"):
        with pytest.raises(ArgumentTypeError, match=f"takes tensors and numbers, not .*{other}"):
            x + other
        assert not (x == other).any()
        assert (x != other).all()


def test_lists_and_numbers_stand_beside_and_arrays_of_numpys_do_not() -> None:
    device = SimulatedAccelerator()
    x = ag.tensor(POINTS, device=device)
    row, number, same, array = placed([1, 2], 3.0, x, VALUES)
    assert same is x
    assert array is VALUES
    assert isinstance(row, ag.Tensor)
    assert row.device is device
    assert number.dtype == np.float64
    assert all(type(one) is np.ndarray for one in placed([1, 2], 3.0, VALUES))


def test_arrays_are_cast_under_the_rule_that_is_given() -> None:
    array = SimulatedAccelerator().from_host(POINTS)
    assert as_dtype(array, np.float32, "same_kind").dtype == np.float32
    assert as_dtype(array, np.float64, "safe", copy=False) is array
    with pytest.raises(ArgumentTypeError, match="of dtype float64 to int64 according to the rule 'safe'"):
        as_dtype(array, np.int64, "safe")


@pytest.mark.parametrize("bounds", [(None, 1.0), (-1.0, None), (-1.0, 1.0), (1.0, -1.0), (None, None)])
def test_values_are_kept_between_bounds(bounds: tuple[Any, Any]) -> None:
    device = SimulatedAccelerator()
    array = device.from_host(POINTS)
    result = clipped(array, *bounds, np.float32)
    assert result is not array
    np.testing.assert_array_equal(device.to_host(result), np.clip(POINTS, *bounds, dtype=np.float32), strict=True)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_indices_beyond_the_end_are_clipped_or_wrapped(mode: Any) -> None:
    device = SimulatedAccelerator()
    result = taken(device.from_host(POINTS), np.array([-9, 0, 9]), 1, mode)
    np.testing.assert_array_equal(device.to_host(result), np.take(POINTS, [-9, 0, 9], 1, mode=mode))


@pytest.mark.parametrize("index", [ROWS, (slice(None), COLUMNS), (ROWS, COLUMNS), (Ellipsis, COLUMNS), (None, ROWS)])
def test_a_sum_into_an_array_counts_each_time_an_element_is_named(index: Any) -> None:
    device = SimulatedAccelerator()
    expected = POINTS.copy()
    np.add.at(expected, index, 2.0)
    array = device.from_host(POINTS)
    add_at(array, index, 2.0)
    np.testing.assert_allclose(device.to_host(array), expected, rtol=1e-15)


def test_a_plain_tuple_gets_numpys_names() -> None:
    kind = type(np.linalg.eigh(np.eye(2)))
    found = named((1, 2), kind)
    assert found.eigenvectors == 2
    assert named(found, kind) is found
