"""Operators on sparse arrays whose elements are a Tensor: the values, dtypes and refusals of SciPy's, and gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync

scipy_sparse = pytest.importorskip("scipy.sparse")

from scipy.sparse import linalg as scipy_linalg  # noqa: E402

from asyncgrad.scipy import sparse  # noqa: E402
from asyncgrad.scipy.sparse import linalg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_MATRIX = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, -1.0], [0.0, 4.0, 0.0, 0.0]])
_OTHER = np.array([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, -3.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
_NUMBERS = [0, 2, 2.5, -1, 1j, np.float32(3.0), np.array(3.0)]
_DENSE = [_OTHER, _OTHER.astype(int), np.abs(_OTHER).astype(np.uint8), _OTHER[:1], _OTHER[0], _OTHER[:, :1]]
_UNFIT = [np.ones((5, 7)), np.ones(3), _OTHER.tolist(), None]
_SPARSE = [_OTHER, _OTHER[:1], _OTHER[:, 1:2], np.array([[2.0]]), np.eye(4), np.ones((5, 7)), _OTHER.astype(int)]
_OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.pow),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
]


def _outcome(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """Return whether a result is sparse, and it as an array; None for a refusal."""
    try:
        found = function(*operands, **options)
    except (TypeError, ValueError, NotImplementedError, ArithmeticError):
        return None
    is_sparse = hasattr(found, "toarray")
    dense = found.toarray() if is_sparse else found
    array = np.asarray(dense.detach().numpy() if isinstance(dense, ag.Tensor) else dense)
    return None if array.dtype == object else (is_sparse, array)


def _check(expected: Any, found: Any, case: Any) -> None:
    assert (found is None) is (expected is None), case
    if expected is not None:
        assert (found[0], found[1].dtype, found[1].shape) == (expected[0], expected[1].dtype, expected[1].shape), case
        np.testing.assert_allclose(found[1], expected[1], err_msg=str(case))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array"])
@pytest.mark.parametrize("function", _OPERATORS, ids=lambda function: function.__name__)
def test_an_operator_is_scipys(function: Any, kind: str, dtype: Any) -> None:
    theirs = getattr(scipy_sparse, kind)(_MATRIX.astype(dtype))
    mine = getattr(sparse, kind)(_MATRIX.astype(dtype))
    for other in [*_NUMBERS, *_DENSE, *_UNFIT]:
        case = (function.__name__, kind, dtype, other)
        _check(_outcome(function, theirs, other), _outcome(function, mine, other), case)
        _check(_outcome(function, other, theirs), _outcome(function, other, mine), case)
    for other in _SPARSE:
        case = (function.__name__, kind, dtype, other)
        expected = _outcome(function, theirs, scipy_sparse.csr_array(other))
        _check(expected, _outcome(function, mine, sparse.csr_array(other)), case)
        if function is not operator.pow:
            _check(expected, _outcome(function, mine, scipy_sparse.csr_array(other)), case)


@pytest.mark.parametrize("function", _OPERATORS, ids=lambda function: function.__name__)
def test_an_operator_on_a_vector_is_scipys(function: Any) -> None:
    theirs, mine = scipy_sparse.coo_array(_MATRIX[0]), sparse.coo_array(_MATRIX[0])
    for other in [*_NUMBERS, *_DENSE, *_UNFIT, 0.0]:
        case = (function.__name__, other)
        _check(_outcome(function, theirs, other), _outcome(function, mine, other), case)
        _check(_outcome(function, other, theirs), _outcome(function, other, mine), case)
    for other in [*_SPARSE[:3], *_SPARSE[4:], _OTHER[0]]:
        case = (function.__name__, other)
        expected = _outcome(function, theirs, scipy_sparse.csr_array(other))
        _check(expected, _outcome(function, mine, sparse.csr_array(other)), case)
        expected = _outcome(function, scipy_sparse.csr_array(other), theirs)
        _check(expected, _outcome(function, sparse.csr_array(other), mine), case)


@pytest.mark.parametrize(
    "function",
    [
        lambda module, v, a: a[0],
        lambda module, v, a: a[:, -1],
        lambda module, v, a: a[[0, 1], [0, 1]],
        lambda module, v, a: a[a > 0],
        lambda module, v, a: v[1:],
        lambda module, v, a: v[[2, 0]],
        lambda module, v, a: v[2],
        lambda module, v, a: v[None],
        lambda module, v, a: v.T,
        lambda module, v, a: v.reshape(2, 2),
        lambda module, v, a: a.reshape((-1,)),
        lambda module, v, a: v.sum(0) + v.mean() + v.max() - v.min(),
        lambda module, v, a: v.sum(1),
        lambda module, v, a: v.tan().conj(),
        lambda module, v, a: v.tocsc(),
        lambda module, v, a: module.hstack([v, v]),
        lambda module, v, a: module.vstack([v, v, a]),
        lambda module, v, a: module.kron(v, v),
        lambda module, v, a: module.kron(a, v),
        lambda module, v, a: module.block_diag([v, a]),
        lambda module, v, a: module.tril(v),
        lambda module, v, a: module.csc_array(_MATRIX[0]),
        lambda module, v, a: module.coo_array((_MATRIX[0, :3], ([0, 2, 2],)), shape=(5,)),
        lambda module, v, a: module.csr_array((_MATRIX[0, :2], [0, 2], [0, 2]), shape=(5,)),
        lambda module, v, a: module.csr_array((4,)),
    ],
)
def test_parts_and_arrangements_of_vectors_are_those_of_scipy(function: Any) -> None:
    expected = _outcome(function, scipy_sparse, scipy_sparse.csr_array(_MATRIX[0]), scipy_sparse.csr_array(_MATRIX))

    _check(expected, _outcome(function, sparse, sparse.csr_array(_MATRIX[0]), sparse.csr_array(_MATRIX)), function)


@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.mul, operator.truediv, operator.eq])
def test_an_operator_on_a_constant_beside_a_tensor_is_scipys(function: Any) -> None:
    matrix = scipy_sparse.csr_array(_MATRIX)
    for other in [*_DENSE, np.ones((2, 3, 4)), np.array(3.0), np.array(0.0)]:
        expected = _outcome(function, matrix, other)
        found = _outcome(function, matrix, ag.tensor(other))
        assert (found is None) is (expected is None), other
        if expected is not None:
            np.testing.assert_allclose(found[1], expected[1], err_msg=str(other))


def test_a_quotient_has_no_gradient_where_the_constant_has_no_element() -> None:
    tensor = ag.tensor(_OTHER + 1.0 * (_MATRIX != 0), requires_grad=True)
    ag.sync.backward((scipy_sparse.csr_array(_MATRIX) / tensor).sum())

    quotient = np.zeros_like(_MATRIX)
    np.divide(-_MATRIX, tensor.numpy() ** 2, out=quotient, where=_MATRIX != 0)
    np.testing.assert_allclose(tensor.grad.numpy(), quotient)


@pytest.mark.parametrize(
    "name",
    [
        *("__abs__", "__neg__", "arcsinh", "arctan", "ceil", "conjugate", "deg2rad", "expm1", "floor", "max", "min"),
        *("rad2deg", "rint", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "tocsc", "tocsr", "todense"),
        *("arcsin", "arctanh", "log1p", "count_nonzero", "nonzero"),
    ],
)
def test_a_method_is_scipys_where_elements_repeat(name: str) -> None:
    places = (np.array([0.1, 0.2, 0.3, -0.4]), np.int32([[0, 0, 1, 2], [1, 1, 0, 2]]))
    theirs, mine = scipy_sparse.coo_array(places, (3, 4)).tocsr(), sparse.coo_array(places, (3, 4))
    _check(_outcome(getattr(theirs, name)), _outcome(getattr(mine, name)), name)


def _reductions() -> list[tuple[str, dict[str, Any]]]:
    axes = (None, 0, 1, -1, (0, 1), (1,), (1, 1), (), 2, 1.5)
    extremes = ("max", "min", "nanmax", "nanmin", "argmax", "argmin")
    return [
        *((name, {"axis": axis, "explicit": explicit}) for name in extremes for axis in axes for explicit in (0, 1)),
        *((name, {"axis": axis, "dtype": kind}) for name in ("sum", "mean") for axis in axes for kind in (None, "f")),
        *(("count_nonzero", {"axis": axis}) for axis in (None, 0, -1)),
        ("power", {"n": 2, "dtype": "f"}),
        *(("transpose", {"axes": axes, "copy": True}) for axes in ((1, 0), (0, 1), (1, 1))),
        *(("reshape", {"shape": (2, 6), "order": order, "copy": True}) for order in "CF"),
        *(("toarray", {"order": "F", "out": out}) for out in (None, np.zeros((3, 4)))),
        *(("astype", {"dtype": "b", "casting": casting, "copy": False}) for casting in ("safe", "unsafe")),
        *((name, {"copy": True}) for name in ("tocsr", "tocsc", "tocoo", "conj")),
        ("__bool__", {}),
    ]


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_a_method_takes_and_refuses_the_parameters_of_scipys(dtype: str) -> None:
    matrix = _MATRIX.copy()
    matrix[0, 2] = np.nan if dtype == "float64" else 100
    matrix[1, :2] = 100, 100
    theirs, mine = (made(matrix.astype(dtype)) for made in (scipy_sparse.coo_array, sparse.coo_array))
    for name, options in _reductions():
        case = (name, options)
        _check(_outcome(getattr(theirs, name), **options), _outcome(getattr(mine, name), **options), case)


def test_larger_elements_and_arrangements_of_dense_blocks_are_scipys() -> None:
    blocks = (scipy_sparse.csr_array(_MATRIX), sparse.csr_array(_MATRIX))
    for function in [
        *(lambda module, a, other=other: a.maximum(other) for other in (_OTHER, 0, 2, scipy_sparse.csr_array(_OTHER))),
        *(
            lambda module, a, other=other: a.minimum(other)
            for other in (_OTHER, 0, -1, scipy_sparse.csr_array(_OTHER[:1]))
        ),
        lambda module, a: a.dot(2.5),
        lambda module, a: a.astype(bool) - scipy_sparse.csr_array(_OTHER.astype(bool)),
        lambda module, a: module.hstack([a, _OTHER], format="csr"),
        lambda module, a: module.vstack([a, _OTHER], dtype="f"),
        lambda module, a: module.block_diag([a, 3.0, [1, 2]], format="csc"),
        lambda module, a: module.block_array([[a, None], [None, _OTHER]], dtype="f"),
        lambda module, a: module.tril(_OTHER, format="csr"),
        lambda module, a: module.kron(_OTHER, a, format="csr"),
    ]:
        expected, found = (
            _outcome(function, module, block) for module, block in zip((scipy_sparse, sparse), blocks, strict=True)
        )
        _check(expected, found, function)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * b[:1],
        lambda a, b: b[:, 1:2] * a,
        lambda a, b: a.maximum(b) * a + a.minimum(b) * b,
        lambda a, b: a.max(axis=0) * b + (a.min(axis=1) @ b) * a + a.sum(axis=0) * b,
        lambda a, b: sparse.hstack([a.maximum(2), b.mean(axis=1)[:, None]])[:, 1:],
        lambda a, b: a[:1] * b,
        lambda a, b: a - b,
        lambda a, b: a / (b + np.full((3, 4), 9.0)),
        lambda a, b: (b + np.full((3, 4), 9.0)) - a,
        lambda a, b: abs(a) * 2,
        lambda a, b: a.sin() * a.expm1(),
        lambda a, b: a**3,
        lambda a, b: a.max() * a + a.min() * b,
        lambda a, b: a * b.toarray()[0],
        lambda a, b: a[0] * b,
        lambda a, b: a * (b[0] @ a[0]) + b * (a @ b[0])[1],
        lambda a, b: (b[:, 1] @ a)[None] * b,
        lambda a, b: a.reshape(-1)[3:6].reshape(3, 1) * b,
    ],
)
def test_derivatives_are_those_of_the_dense_matrix(function: Any) -> None:
    weights = np.cos(np.arange(12.0)).reshape(3, 4)

    def loss(x: Any, y: Any) -> Any:
        found = function(sparse.csr_array(x), sparse.csr_array(y))
        dense = found.toarray() if isinstance(found, sparse.SparseArray) else found
        return (dense * weights).sum()

    tensors = [ag.tensor(one, requires_grad=True) for one in (_MATRIX, _OTHER)]
    found = ag.sync.grad(loss(*tensors), tensors, materialize_grads=True)
    for number, matrix in enumerate((_MATRIX, _OTHER)):
        for place in zip(*np.nonzero(matrix), strict=True):
            step = np.zeros_like(matrix)
            step[place] = 1e-6
            both = [[_MATRIX, _OTHER], [_MATRIX, _OTHER]]
            both[0][number], both[1][number] = matrix + step, matrix - step
            slope = (loss(*both[0]).item() - loss(*both[1]).item()) / 2e-6
            assert found[number][place].item() == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("matrix", [np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([2.0, 2.0])])
def test_a_series_that_ends_has_the_derivatives_of_its_terms(matrix: Any) -> None:
    # Of a nilpotent matrix and of a multiple of the identity most terms are 0, and their derivatives are not.
    leaf = ag.tensor(matrix, requires_grad=True)

    assert sync.gradcheck(lambda a: linalg.expm_multiply(a, [1.0, 0.5]), [leaf])
    assert sync.gradgradcheck(lambda a: linalg.expm_multiply(a, [1.0, 0.5]), [leaf])


def test_the_exponential_function_of_an_operator_is_that_of_its_matrix() -> None:
    matrix = np.array([[0.5, -1.25, 0.0], [0.75, 2.0, 0.25], [-0.5, 0.0, 1.0]])
    operator = scipy_linalg.aslinearoperator(matrix)
    b = ag.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)

    for times in ({}, {"start": -0.5, "stop": 1.0, "num": 3}):
        found = linalg.expm_multiply(operator, b, **times)
        np.testing.assert_allclose(found.detach(), linalg.expm_multiply(matrix, b.detach(), **times), rtol=1e-12)
    assert sync.gradcheck(lambda b: linalg.expm_multiply(operator, b, traceA=3.5), [b])
