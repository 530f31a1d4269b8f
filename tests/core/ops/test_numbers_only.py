"""A tensor holds numbers: no array of objects, texts, dates or records ever becomes the data of one."""

from __future__ import annotations

import decimal
import fractions
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentTypeError
from asyncgrad.extend import derivative, primitive

OBJECTS = np.array([[1, 2], [3, 4]], object)
HALF = fractions.Fraction(1, 2)
OPERANDS: dict[str, Any] = {
    "array of objects": OBJECTS,
    "Fraction": HALF,
    "Decimal": decimal.Decimal("0.5"),
    "list of Fractions": [HALF, HALF],
    "None": None,
    "text": "a",
    "array of texts": np.array(["a", "b"]),
    "array of bytes": np.array([b"a", b"b"]),
    "array of dates": np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    "array of durations": np.array([1, 2], "m8[D]"),
    "array of records": np.zeros(2, [("a", float)]),
    "array of records with attributes": np.rec.array([(1.0,), (2.0,)], [("a", float)]),
}
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "iadd", "imul", "ipow", "imatmul")
DTYPES = (object, "U3", "S2", "M8[D]", "m8[s]", [("a", float)], (np.record, [("a", float)]), "V8")


def tensors() -> list[ag.Tensor]:
    """Return a leaf that requires grad, what was computed of one, and a tensor that requires none."""
    data = [[1.0, 2.0], [3.0, 4.0]]
    return [ag.tensor(data, requires_grad=True), ag.tensor(data, requires_grad=True) * 1, ag.tensor(data)]


def holds_numbers(function: Callable[..., Any], *args: Any) -> bool:
    """Tell whether a call gives a tensor of numbers, or is refused: NumPy's errors for objects are of many types."""
    try:
        result = function(*args)
    except Exception:
        return True
    return not isinstance(result, ag.Tensor) or result.dtype.kind in "biufc"


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=OPERANDS)
def test_no_operator_gives_a_tensor_of_anything_but_numbers(operand: Any) -> None:
    for tensor in tensors():
        for name in OPERATORS:
            function = getattr(operator, name)
            assert holds_numbers(function, tensor, operand)
            assert holds_numbers(function, operand, tensor)
        with ag.no_grad():
            assert holds_numbers(operator.mul, tensor, operand)


def _set(tensor: Any, index: Any, value: Any) -> Any:
    tensor = tensor * 1
    tensor[index] = value
    return tensor


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        function.__name__: function
        for function in (
            *(np.add, np.multiply, np.divide, np.power, np.maximum, np.fmin, np.copysign, np.hypot, np.matmul),
            *(np.logical_and, np.floor_divide, np.greater, np.bitwise_or, np.gcd, np.ldexp, np.append, np.outer),
            *(np.dot, np.inner, np.vdot, np.kron, np.tensordot, np.trapezoid, np.clip, np.full_like, np.cross),
        )
    },
    "where": lambda t, other: np.where(t > 2, t, other),
    "stack": lambda t, other: np.stack([t[0], other]),
    "concatenate": lambda t, other: np.concatenate([np.ravel(t), np.ravel(other)]),
    "block": lambda t, other: np.block([t, other]),
    "select": lambda t, other: np.select([t > 2], [t], other),
    "choose": lambda t, other: np.choose(np.array([0, 1]), [t[0], other]),
    "einsum": lambda t, other: np.einsum("ij,jk", t, other),
    "pad": lambda t, other: np.pad(t, 1, constant_values=other),
    "sum initial": lambda t, other: np.sum(t, initial=other),
    "average": lambda t, other: np.average(t, weights=other),
    "diff": lambda t, other: np.diff(t, prepend=other),
    "add.outer": np.add.outer,
    "setitem": lambda t, other: _set(t, 0, other),
    "setitem by a list": lambda t, other: _set(t, [0], other),
    "copyto": lambda t, other: np.copyto(t * 1, other),
    "put": lambda t, other: np.put(t * 1, [0], other),
    "add.at": lambda t, other: np.add.at(t * 1, [0], other),
    "tensor": lambda t, other: ag.tensor(other),
    "asarray": lambda t, other: ag.asarray(other),
}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_no_function_gives_a_tensor_of_anything_but_numbers(function: Any) -> None:
    for name, operand in OPERANDS.items():
        for tensor in tensors():
            assert holds_numbers(function, tensor, operand), name
            with ag.no_grad():
                assert holds_numbers(function, operand, tensor), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_dtype_of_anything_but_numbers_can_be_asked_for(dtype: Any) -> None:
    for tensor in tensors():
        for function in (
            lambda t: t.astype(dtype),
            lambda t: ag.asarray(t, dtype=dtype),
            lambda t: ag.tensor(t.numpy(), dtype=dtype),
            lambda t: np.zeros_like(t, dtype=dtype),
            lambda t: np.full_like(t, 1, dtype=dtype),
            lambda t: np.add(t, t, dtype=dtype),
            lambda t: np.stack([t, t], dtype=dtype, casting="unsafe"),
        ):
            with pytest.raises((TypeError, ValueError)):
                function(tensor)
        # NumPy makes a float of a sum of objects.
        assert holds_numbers(lambda t: np.sum(t, dtype=dtype), tensor)
        assert holds_numbers(lambda t: np.cumsum(t, dtype=dtype), tensor)


def test_an_error_names_the_function_the_operand_and_what_to_write() -> None:
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)

    with pytest.raises(ArgumentTypeError, match=r"add of a tensor and ndarray .* dtype object.*astype\(float\)"):
        np.add(x, OBJECTS)
    with pytest.raises(ArgumentTypeError, match=r"multiply of a tensor and Fraction.*float\(\.\.\.\)"):
        x * HALF
    with pytest.raises(ArgumentTypeError, match=r"astype .* dtype object.*t\.numpy\(\)"):
        x.astype(object)


def test_comparisons_with_objects_tell_of_each_element() -> None:
    x = ag.tensor([0.5, 2.0], requires_grad=True)

    assert (x == None).tolist() == (x == "a").tolist() == [False, False]  # noqa: E711
    assert (x == HALF).tolist() == [True, False]
    assert (x < decimal.Decimal(1)).tolist() == [True, False]


def test_a_write_of_an_object_that_is_a_number_writes_its_value() -> None:
    assert _set(ag.tensor([1.0, 2.0], requires_grad=True), 0, HALF).tolist() == [0.5, 2.0]


class Objects(ag.Function):
    """Returns what cannot be a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.array([HALF, HALF])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@primitive()
def objects(x: Any) -> Any:
    return np.array([HALF, HALF])


@derivative(objects, "x")
def _(g: Any) -> Any:
    return g


@pytest.mark.parametrize("function", [Objects.apply, objects], ids=["Function", "primitive"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_function_of_ones_own_gives_numbers(function: Any, requires_grad: bool) -> None:
    with pytest.raises(ArgumentTypeError, match=r"(Objects\.forward|objects) of a tensor.*dtype object"):
        function(ag.tensor([1.0, 2.0], requires_grad=requires_grad))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_array", "coo_array", "coo_matrix"])
def test_a_sparse_matrix_beside_a_tensor_is_refused_by_name(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = getattr(sparse, kind)(np.eye(2))
    for tensor in tensors():
        for name in set(OPERATORS) - {"add", "sub", "mul", "matmul"}:
            with pytest.raises(ArgumentTypeError, match=rf"{kind}.*\.toarray\(\)"):
                getattr(operator, name)(tensor * 1, matrix)
        for function in (np.multiply, np.add, np.matmul, np.dot, np.outer, lambda *both: np.stack(both)):
            for both in ((tensor, matrix), (matrix, tensor)):
                with pytest.raises(ArgumentTypeError, match=rf"{kind}.*\.toarray\(\)"):
                    function(*both)


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array"])
@pytest.mark.parametrize("name", ["floordiv", "mod", "lt", "eq"])
def test_a_sparse_matrix_on_the_left_of_a_tensor_that_requires_grad_is_refused(kind: str, name: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = getattr(sparse, kind)(np.eye(2))
    for tensor in tensors()[:2]:
        with pytest.raises((TypeError, ag.errors.RequiresGradError)):
            getattr(operator, name)(matrix, tensor)
