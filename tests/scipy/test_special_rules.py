"""Every ufunc of scipy.special with a rule: its values, its dtypes, its derivatives."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
import asyncgrad.scipy.special as ours
import tests.scipy
from asyncgrad.core.ops import RULES
from tests.core.ops.finite_differences import Case, call, check_derivatives, in_dtype, leaves_of


def _all_cases() -> dict[Callable[..., Any], list[Case]]:
    """Return the cases of all modules of this folder that are named cases_special_*, by function."""
    cases: dict[Callable[..., Any], list[Case]] = {}
    for module in pkgutil.iter_modules(tests.scipy.__path__):
        if module.name.startswith("cases_special"):
            found = importlib.import_module(f"tests.scipy.{module.name}").CASES
            assert not cases.keys() & found.keys(), module.name
            cases |= found
    return cases


CASES = _all_cases()
EACH_CASE, SMOOTH = (
    [
        pytest.param(function, case, id=f"{function.__name__}-{index}")
        for function, cases in CASES.items()
        for index, case in enumerate(cases)
        if case.smooth or not only_smooth
    ]
    for only_smooth in (False, True)
)
UFUNCS = {name: found for name, found in vars(scipy.special).items() if isinstance(found, np.ufunc)}


def test_every_ufunc_with_a_rule_has_a_case() -> None:
    differentiable = [name for name, ufunc in UFUNCS.items() if isinstance(RULES.get(ufunc), types.FunctionType)]

    assert [name for name in differentiable if UFUNCS[name] not in CASES] == []


@pytest.mark.slow
@pytest.mark.sampled("function")
@pytest.mark.parametrize(("function", "case"), SMOOTH)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(
    function: Callable[..., Any], case: Case
) -> None:
    check_derivatives(function, case)


@pytest.mark.slow
@pytest.mark.sampled("function")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("function", "case"), EACH_CASE)
def test_values_and_dtypes_are_those_of_scipy(function: Callable[..., Any], case: Case, dtype: Any) -> None:
    case = in_dtype(case, dtype)
    leaves = leaves_of(case)

    expected = call(function, case, leaves)
    results = call(function, case, [ag.tensor(leaf, requires_grad=True) for leaf in leaves])

    for result, value in zip(results, expected, strict=True):
        assert isinstance(result, ag.Tensor)
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result.numpy(), value)


@pytest.mark.slow
def test_the_namespace_has_each_function_and_gives_tensors() -> None:
    for name in [name for name, ufunc in UFUNCS.items() if ufunc in CASES]:
        case = CASES[UFUNCS[name]][0]

        results = call(getattr(ours, name), case, leaves_of(case))

        assert all(isinstance(result, ag.Tensor) for result in results), name


_MASK = np.array([[False, True, True], [True, False, False], [False, False, True]])


@pytest.mark.parametrize("name", ["gammaln", "jv", "beta", "ellipj"])
def test_where_writes_what_scipy_gives_where_a_mask_holds_and_leaves_the_rest(name: str) -> None:
    # SciPy's own where= reads and writes beside its arrays.
    ufunc = getattr(scipy.special, name)
    points = [np.array([[0.5], [1.25], [0.75]]), np.array([0.25, 0.5, 0.75])][2 - ufunc.nin :]
    tensors = [ag.tensor(point, requires_grad=True) for point in points]
    shape = np.broadcast_shapes(*(point.shape for point in points))
    mask = _MASK if len(shape) == 2 else _MASK[0]
    outs = tuple(ag.tensor(np.full(shape, 7.0)) for _ in range(ufunc.nout))

    ufunc(*tensors, out=outs, where=mask)

    whole = ufunc(*tensors)
    whole = whole if isinstance(whole, tuple) else (whole,)
    for out, one in zip(outs, whole, strict=True):
        np.testing.assert_array_equal(out.numpy(), np.where(mask, one.numpy(), 7.0))
    grads = ag.sync.grad([out.sum() for out in outs], tensors)
    expected = ag.sync.grad([np.sum(np.where(mask, one, 0.0)) for one in whole], tensors)
    for grad, other in zip(grads, expected, strict=True):
        np.testing.assert_allclose(grad.numpy(), other.numpy(), rtol=1e-12)
    plain = tuple(np.full(shape, 7.0) for _ in outs)
    ufunc(*(tensor.detach() for tensor in tensors), out=plain, where=mask)
    assert all(np.array_equal(one, out.numpy()) for one, out in zip(plain, outs, strict=True))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", ["jv", "hyp2f1", "kelvin", "wofz", "gammaln", "xlogy"])
def test_a_dtype_of_the_results_picks_the_loop_that_scipy_picks(name: str, dtype: Any) -> None:
    ufunc = getattr(scipy.special, name)
    points = (0.5, np.array([0.25, 0.5]), 1.5, np.array([0.25, 0.75]))[-ufunc.nin :]
    x = ag.tensor(points[-1], requires_grad=True)
    try:
        expected = ufunc(*points, dtype=dtype)
    except TypeError:
        with pytest.raises(TypeError, match="No loop matching"):
            ufunc(*points[:-1], x, dtype=dtype)
        return

    results = ufunc(*points[:-1], x, dtype=dtype)

    for one, value in zip(*(one if isinstance(one, tuple) else (one,) for one in (results, expected)), strict=True):
        assert one.dtype == value.dtype
        np.testing.assert_array_equal(one.numpy(), value)
    first = results[0] if isinstance(results, tuple) else results
    assert ag.sync.grad(np.real(first).sum(), [x])[0].dtype == np.float64


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.uint64])
@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("eval_jacobi", (100, 0.5, 1.0, None)),
        ("eval_legendre", (100, None)),
        ("eval_chebyu", (0, None)),
        ("eval_sh_jacobi", (100, 2.5, 1.0, None)),
        ("hyp2f1", (None, 1, 2, 0.25)),
        ("hyp2f1", (0.5, 1.5, None, 1)),
        ("stdtr", (100, None)),
        ("tklmbda", (1, None)),
        ("smirnov", (100, None)),
        ("binom", (100, None)),
    ],
)
def test_a_narrow_dtype_beside_a_tensor_gives_the_gradient_of_a_wide_one(
    name: str, points: tuple[Any, ...], dtype: Any
) -> None:
    ufunc, grads = getattr(scipy.special, name), []
    for wide in (False, True):
        x = ag.tensor([0.5], requires_grad=True)
        given = [
            x
            if one is None
            else np.asarray(one).astype(dtype).astype(np.int64 if wide else dtype)
            if isinstance(one, int)
            else one
            for one in points
        ]
        grads.append(ag.sync.grad(ufunc(*given).sum(), [x])[0].numpy())

    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)


def test_numbers_of_half_precision_have_finite_derivatives() -> None:
    df = ag.tensor(np.array([1.5, 7.5]), dtype=np.float16, requires_grad=True)

    (grad,) = ag.sync.grad(scipy.special.stdtr(df, np.array([-2.0, 0.5], np.float16)).sum(), [df])

    assert grad.dtype == np.float16
    assert np.all(np.isfinite(grad.numpy()))
