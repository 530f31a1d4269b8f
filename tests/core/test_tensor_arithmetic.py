"""Tensor arithmetic is NumPy's: values, dtypes and errors, with arrays and scalars on either side."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError
from tests.support.leaves import leaf_of

ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "divmod": divmod,
}
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
BITWISE = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
}


def outcome_of_call(function: Any, *arguments: Any) -> Any:
    """What a call gives, values and dtypes, or the type of what it raises."""
    with np.errstate(all="ignore"):
        try:
            result = function(*arguments)
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)
    parts = result if isinstance(result, tuple) else (result,)
    arrays = [part.numpy() if isinstance(part, ag.Tensor) else np.asarray(part) for part in parts]
    # As text, in which a NaN equals itself.
    return [(array.dtype, array.shape, str(array.tolist())) for array in arrays]


def is_tensor(result: Any) -> bool:
    return all(isinstance(part, ag.Tensor) for part in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("operate", [*ARITHMETIC.values(), *COMPARISONS.values()], ids=[*ARITHMETIC, *COMPARISONS])
def test_an_operator_takes_arrays_and_scalars_on_either_side(operate):
    array = np.array([1.5, -2.0])
    t = ag.tensor(array, requires_grad=True)

    for other in (np.array([2.0, 0.5]), np.float64(2), np.float32(2), np.int64(2), 2, 2.0, True, np.array(2.0)):
        assert outcome_of_call(operate, array, other) == outcome_of_call(operate, t, other), repr(other)
        assert outcome_of_call(operate, other, array) == outcome_of_call(operate, other, t), repr(other)
        with np.errstate(all="ignore"):
            assert is_tensor(operate(t, other)), repr(other)
            assert is_tensor(operate(other, t)), repr(other)


@pytest.mark.parametrize("operate", BITWISE.values(), ids=BITWISE)
@pytest.mark.parametrize("other", [np.array([2, 1]), np.int8(2), 2, True], ids=repr)
def test_a_bitwise_operator_takes_arrays_and_scalars_on_either_side(operate, other):
    array = np.array([5, 6])
    t = ag.tensor(array)

    assert outcome_of_call(operate, array, other) == outcome_of_call(operate, t, other)
    assert outcome_of_call(operate, other, array) == outcome_of_call(operate, other, t)
    assert is_tensor(operate(t, other))
    assert is_tensor(operate(other, t))


def test_matmul_takes_arrays_on_either_side():
    matrix, vector = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])

    assert (ag.tensor(matrix) @ vector).tolist() == [17.0, 39.0]
    assert (matrix @ ag.tensor(vector)).tolist() == [17.0, 39.0]
    assert is_tensor(matrix @ ag.tensor(vector))


@pytest.mark.parametrize("operate", [operator.neg, operator.pos, abs, operator.invert], ids=["-", "+", "abs", "~"])
@pytest.mark.parametrize("array", [np.array([1, -2]), np.array([True, False]), np.array([1.0, -2.0])], ids=repr)
def test_a_unary_operator_gives_what_numpys_gives(operate, array):
    assert outcome_of_call(operate, array) == outcome_of_call(operate, ag.tensor(array))


@pytest.mark.parametrize("left_is_tensor", [True, False])
@pytest.mark.parametrize("operate", IN_PLACE.values(), ids=IN_PLACE)
def test_an_operator_in_place_writes_into_its_left_side(operate, left_is_tensor):
    expected = operate(np.array([5.0, 6.0]), np.array([2.0, 3.0]))
    array, other = np.array([5.0, 6.0]), np.array([2.0, 3.0])
    left: Any = ag.asarray(array) if left_is_tensor else array

    result = operate(left, ag.asarray(other))
    assert result is left
    assert expected.tolist() == array.tolist()


def test_an_array_never_takes_in_place_what_has_a_history():
    array = np.ones(2)

    with pytest.raises(InPlaceError):
        array += ag.tensor([1.0, 2.0], requires_grad=True)
    assert array.tolist() == [1.0, 1.0]


def test_an_operator_in_place_keeps_numpys_casting_rule():
    t = ag.tensor([1, 2])

    with pytest.raises(TypeError, match="cast"):
        t += 0.5
    assert (t.tolist(), t._version) == ([1, 2], 0)


def test_an_operator_leaves_other_types_to_decide():
    class Other:
        def __radd__(self, left: Any) -> str:
            return "radd"

        def __eq__(self, left: object) -> Any:
            return "eq"

        __hash__ = None  # type: ignore[assignment]
        __array_ufunc__ = None

    assert ag.tensor([1.0]) + Other() == "radd"
    assert (ag.tensor([1.0]) == Other()) == "eq"


def test_an_operator_is_left_to_a_class_of_higher_priority_and_to_ufuncs_of_its_own():
    class First:
        __array_priority__ = 2000.0

        def __radd__(self, left: Any) -> str:
            return "radd"

        def __rpow__(self, left: Any) -> str:
            return "rpow"

        def __rdivmod__(self, left: Any) -> str:
            return "rdivmod"

    class Computing:
        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
            return NotImplemented if ufunc is np.multiply else f"{ufunc.__name__} {method}"

    left: list[Any] = [np.ones(2), ag.tensor([1.0, 1.0]), ag.tensor([1.0, 1.0], requires_grad=True)]
    for x in left:
        assert (x + First(), x ** First(), divmod(x, First())) == ("radd", "rpow", "rdivmod")
        assert (x + Computing(), x @ Computing(), np.add(x, Computing())) == (
            "add __call__",
            "matmul __call__",
            "add __call__",
        )
        with pytest.raises(TypeError):
            x * Computing()


DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64, np.complex64]
SCALARS = [True, 2, 300, -1, 2.5, 1j, np.float32(2.5), np.float64(2.5), np.int8(2), np.int64(2), np.uint8(2)]


@pytest.mark.parametrize("operate", [operator.add, operator.mul, operator.truediv, operator.pow, operator.lt])
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion_with_scalars_is_numpys(dtype, operate):
    array = np.array([1, 0], dtype)
    t = ag.tensor(array)

    for scalar in SCALARS:
        assert outcome_of_call(operate, array, scalar) == outcome_of_call(operate, t, scalar), scalar
        assert outcome_of_call(operate, scalar, array) == outcome_of_call(operate, scalar, t), scalar


@pytest.mark.parametrize("operate", [operator.add, operator.mul, operator.truediv, operator.pow, operator.lt])
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion_with_arrays_and_tensors_is_numpys(dtype, operate):
    array = np.array([1, 0], dtype)
    t = ag.tensor(array)

    for other_dtype in DTYPES:
        other: Any = np.array([[1], [2]], other_dtype)
        expected = outcome_of_call(operate, array, other)
        assert expected == outcome_of_call(operate, t, ag.tensor(other)), other_dtype
        assert expected == outcome_of_call(operate, t, other), other_dtype
        assert expected == outcome_of_call(operate, array, ag.tensor(other)), other_dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_python_scalars_and_their_gradients_keep_the_dtype(dtype):
    x = leaf_of([1.0, 2.0], dtype)
    y = ((2 * x + 1.5) / 3 - 0.5) ** 2
    sync.backward(y, np.ones(2, dtype))

    assert (dtype, dtype) == (y.dtype, x.grad.dtype)


def test_a_gradient_has_the_dtype_and_shape_of_its_own_tensor_whatever_it_met():
    x = leaf_of([1.0, 2.0], np.float32)
    w = leaf_of([[2.0], [3.0]])
    y = x * w
    sync.backward(y.sum())

    assert (np.float64, (2, 2)) == (y.dtype, y.shape)
    assert (np.float32, [5.0, 5.0]) == (x.grad.dtype, x.grad.tolist())
    assert (np.float64, [[3.0], [3.0]]) == (w.grad.dtype, w.grad.tolist())


@pytest.mark.parametrize("name", sorted(COMPARISONS))
def test_a_comparison_has_no_history(name):
    result = COMPARISONS[name](ag.tensor([1.0, 2.0], requires_grad=True), 1.5)

    assert (False, True, np.bool_) == (result.requires_grad, result.is_leaf, result.dtype)
