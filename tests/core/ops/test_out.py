"""Results written into `out`, by the shapes, dtypes and orders in memory that NumPy takes, and no others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.support.versions import is_numpy

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")

_SHAPES = [(3,), (4, 3), (1, 3), (3, 1), (), (2, 3)]
_DTYPES = [np.float64, np.float32, np.int64, np.complex128, np.bool_]
_ROWS = np.linspace(-1.0, 2.0, 12).reshape(4, 3) ** 2
_REDUCTIONS: list[Any] = [
    *(np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.ptp, np.median, np.all, np.any),
    *(np.nansum, np.nanprod, np.nanmean, np.nanstd, np.nanvar, np.nanmax, np.nanmin, np.nanmedian),
    *(np.cumsum, np.cumprod, np.nancumsum, np.nancumprod, np.argmax, np.argmin),
    *(np.add.reduce, np.multiply.accumulate, np.maximum.reduce),
]


def _outcome(function: Any, given: Any, out: Any, *args: Any, **options: Any) -> Any:
    """Return what is in `out` afterwards; None for a refusal."""
    try:
        function(given, *args, out=out, **options)
    except (TypeError, ValueError):
        return None
    return np.asarray(out.detach().numpy() if isinstance(out, ag.Tensor) else out)


def _check(function: Any, given: Any, shape: Any, dtype: Any, *args: Any, **options: Any) -> None:
    expected = _outcome(function, given, np.zeros(shape, dtype), *args, **options)
    tensor = ag.tensor(given, requires_grad=given.dtype.kind == "f")
    found = _outcome(function, tensor, ag.tensor(np.zeros(shape, dtype)), *args, **options)
    case = (function.__name__, shape, dtype.__name__)
    assert (found is None) is (expected is None), case
    if expected is not None:
        assert found.dtype == expected.dtype, case
        np.testing.assert_allclose(found, expected, err_msg=str(case), atol=1e-12, rtol=1e-6)


@pytest.mark.parametrize("function", _REDUCTIONS, ids=lambda function: function.__name__)
def test_reductions_take_the_out_that_numpy_takes(function: Any) -> None:
    for shape, dtype, given in itertools.product(_SHAPES, _DTYPES, (_ROWS, np.arange(12).reshape(4, 3))):
        _check(function, given, shape, dtype, axis=0)


@pytest.mark.parametrize("shape", [(2,), (3,), (1, 2)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_choices_and_products_take_the_out_that_numpy_takes(shape: Any, dtype: Any) -> None:
    line = np.array([1.0, 2.0, 3.0])
    # Since NumPy 2.5 its take advises against an out of another kind.
    if np.dtype(dtype).kind == "f" or not is_numpy("2.5"):
        _check(np.take, line, shape, dtype, [0, 1])
    _check(np.dot, _ROWS, (4, *shape), dtype, np.ones((3, 2)))
    _check(np.trace, np.eye(3), shape[1:], dtype)
    _check(np.clip, line, shape, dtype, 1.5, 2.5)


def test_a_product_takes_no_out_in_another_order_or_dtype() -> None:
    left, right = ag.tensor(_ROWS, requires_grad=True), np.ones((3, 2))
    for out in (np.empty((4, 2), order="F"), np.empty((4, 2), np.float32), np.empty((4, 3))):
        with pytest.raises(ValueError, match=r"out"):
            np.dot(left, right, out=out)  # type: ignore[call-overload]


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("dtype", [None, np.float64, np.float32, np.complex128, np.int64])
def test_einsum_casts_as_numpy_does(casting: Any, dtype: Any) -> None:
    def contract(given: Any, out: Any = None) -> Any:
        return np.einsum("ij,jk->ik", given, np.ones((3, 2)), dtype=dtype, casting=casting, out=out)

    for kind, shape in itertools.product(_DTYPES[:4], [(4, 2), (4, 1), (2,)]):
        _check(contract, _ROWS, shape, kind)


def test_joining_and_ufuncs_cast_by_their_rule() -> None:
    whole: Any = ag.tensor([1, 2, 3])
    floats: Any = ag.tensor([1.5, 2.5, 3.5], requires_grad=True)
    out: Any = ag.tensor([0, 0, 0])
    np.add(whole, 1.1, out=out, casting="unsafe")
    assert out.tolist() == [2, 3, 4]
    np.concatenate([floats[:1], floats[1:]], out=out, casting="unsafe")
    assert out.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="may not be cast"):
        np.add(floats, 1.1, out=np.zeros(3, np.float32), casting="safe")
    with pytest.raises(TypeError, match="not both"):
        np.stack([whole, whole], out=np.zeros((2, 3), int), dtype="i8")  # type: ignore[call-overload]


def test_spreads_that_ignore_nans_have_the_dtype_asked_for_and_no_value_of_too_few() -> None:
    rows = np.array([[1.0, np.nan, 3.0, 4.0], [np.nan, np.nan, np.nan, 2.0], [1.0, 5.0, np.nan, 0.0]])
    tensor = ag.tensor(rows, requires_grad=True)
    for function, ddof in itertools.product((np.nanstd, np.nanvar), range(4)):
        np.testing.assert_allclose(function(tensor, 1, ddof=ddof).detach(), function(rows, 1, ddof=ddof))
    for function, dtype in itertools.product((np.nanmean, np.nanstd, np.nanvar), ("float16", "float32", "complex64")):
        assert function(tensor, axis=1, dtype=dtype).dtype == function(rows, axis=1, dtype=dtype).dtype
        with pytest.raises(TypeError, match="no nan"):
            function(tensor, axis=1, dtype=int)


def test_transpose_takes_the_axes_that_argsort_returns() -> None:
    t = ag.tensor(np.zeros((2, 3, 4)), requires_grad=True)
    order = np.array([2, 0, 1])
    assert t.transpose(np.argsort(order)).shape == np.zeros((2, 3, 4)).transpose(np.argsort(order)).shape
    assert t.transpose(ag.tensor(order)).shape == (4, 2, 3)


def test_interpolation_beside_infinite_points_and_steps_of_unsigned_numbers() -> None:
    x, points = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.inf]), np.array([0.0, 1.0, np.inf])
    for values in ([0.0, np.inf, 5.0], [0.0, 3.0, 5.0], [7.0, 7.0, 7.0]):
        found = np.interp(ag.tensor(x, requires_grad=True), points, np.array(values))
        np.testing.assert_allclose(found.detach(), np.interp(x, points, np.array(values)))  # type: ignore[attr-defined]
    unsigned = np.array([5, 2, 9], np.uint8)
    values = np.array([1.0, 4.0, 2.0])
    found = np.gradient(ag.tensor(values, requires_grad=True), unsigned)
    np.testing.assert_allclose(found.detach(), np.gradient(values, unsigned))  # type: ignore[attr-defined]


def test_quantiles_at_whole_shares_of_whole_numbers_are_whole() -> None:
    functions: tuple[Any, ...] = (np.quantile, np.nanquantile, np.percentile)
    for function, q in itertools.product(functions, (0, 1)):
        given = np.array([3, 1, 2], np.uint32)
        found: Any = function(ag.tensor(given), q)
        assert (found.dtype, found.item()) == (function(given, q).dtype, function(given, q))


def test_conjugates_are_written_into_an_array_given_by_its_place() -> None:
    t, out = ag.tensor([1 - 1j, 2.0]), np.empty(2, complex)

    assert t.conj(out) is t.conjugate(out) is out
    assert out.tolist() == [1 + 1j, 2 - 0j]


def test_a_number_of_many_digits_is_infinite_in_single_precision() -> None:
    found = np.add(ag.tensor(np.ones(2, np.float32)), 2**129, dtype=np.float32)

    assert found.tolist() == [np.inf, np.inf]
