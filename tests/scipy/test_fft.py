"""asyncgrad.scipy.fft: SciPy's values, and derivatives to second order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.fft

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import fft
from tests.core.ops.finite_differences import Case, check_derivatives
from tests.scipy.functions import check, check_values

_RNG = np.random.default_rng(5)
_X = _RNG.normal(size=(3, 4))
_COMPLEX = _X + 1j * _RNG.normal(size=(3, 4))
_NORMS: tuple[str | None, ...] = (None, "ortho", "forward")

CASES: dict[str, list[Case]] = {
    **{
        name: [
            *(Case((_X,), {"type": kind, "norm": norm}) for kind in (1, 2, 3, 4) for norm in _NORMS),
            Case((_X,), {"n": 5, "axis": 0, "type": 3}),
            Case((_X,), {"n": 2, "norm": "ortho", "orthogonalize": False}),
            Case((_X,), {"norm": "backward", "orthogonalize": True}),
            Case((_COMPLEX,), {"norm": "forward"}),
        ]
        for name in ("dct", "idct", "dst", "idst")
    },
    **{
        name: [Case((_X,)), Case((_X,), {"type": 4, "s": (2, 5), "norm": "ortho"}), Case((_X,), {"axes": 0})]
        for name in ("dctn", "idctn", "dstn", "idstn")
    },
    **{name: [Case((_COMPLEX,), {"norm": "ortho"})] for name in ("fft", "ifft", "hfft", "irfft", "fftn", "ifftn")},
    **{name: [Case((_COMPLEX,), {"s": (2, 4)})] for name in ("fft2", "ifft2", "irfft2", "irfftn", "hfft2")},
    **{name: [Case((_X,), {"norm": "forward"})] for name in ("rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn")},
    "hfftn": [Case((_COMPLEX,), {"norm": "ortho"}), Case((_COMPLEX,), {"norm": None})],
    "fftshift": [Case((_X,), {"axes": 1})],
    "ifftshift": [Case((_X,))],
}
CALLS = [(name, case) for name, many in CASES.items() for case in many]


def test_every_function_has_a_case() -> None:
    assert set(fft.__all__) == {*CASES, "fftfreq", "rfftfreq", "next_fast_len", "fht", "fhtoffset", "ifht"}


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "case"), CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str, case: Case) -> None:
    function, (x,) = getattr(fft, name), case.args
    if x.dtype.kind == "c":
        parts = Case((x.real.copy(), x.imag.copy()), case.kwargs)
        check(lambda real, imag, **kwargs: function(real + 1j * imag, **kwargs), parts)
    else:
        check(function, case)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "case"), CALLS)
def test_values_are_those_of_scipy(name: str, case: Case, dtype: Any) -> None:
    check_values(getattr(fft, name), getattr(scipy.fft, name), case, dtype)


def test_a_cosine_transform_of_float16_is_computed_in_single_precision() -> None:
    x = np.linspace(-1.0, 1.0, 7).astype(np.float16)

    np.testing.assert_allclose(fft.dct(x, 3, norm="forward").numpy(), scipy.fft.dct(x, 3, norm="forward"), atol=1e-6)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "dst"])
def test_an_inverse_undoes_a_transform(name: str, kind: int) -> None:
    there = getattr(fft, name)(_X, kind, norm="forward")

    np.testing.assert_allclose(getattr(fft, f"i{name}")(there, kind, norm="forward").numpy(), _X, rtol=1e-12)


@pytest.mark.parametrize("axes", [-1, np.int64(1)])
@pytest.mark.parametrize("s", [None, 4, (4,)])
@pytest.mark.parametrize("name", ["fftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fft2", "dctn", "idstn"])
def test_one_axis_may_be_an_int(name: str, s: Any, axes: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    given = {"s": s, "axes": axes}
    result = getattr(fft, name)(ag.tensor(x), **given)

    np.testing.assert_allclose(result.numpy(), getattr(scipy.fft, name)(x, **given), atol=1e-12)


def test_frequencies_and_lengths_are_those_of_scipy() -> None:
    np.testing.assert_array_equal(fft.fftfreq(5, 0.5).numpy(), scipy.fft.fftfreq(5, 0.5))
    np.testing.assert_array_equal(fft.rfftfreq(5, xp=np, device="cpu").numpy(), scipy.fft.rfftfreq(5))
    assert fft.next_fast_len(7 * 11 * 13) == scipy.fft.next_fast_len(7 * 11 * 13)


def test_the_gradient_of_the_energy_of_an_orthogonal_transform_is_twice_the_data() -> None:
    x = ag.tensor(_X, requires_grad=True)

    sync.backward(np.sum(fft.dct(x, norm="ortho") ** 2))

    np.testing.assert_allclose(x.grad.numpy(), 2 * _X, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fft.dct(_X, 5), "has the types 1 to 4, not 5"),
        (lambda: fft.dct(_X, norm="half"), "'forward', not 'half'"),
        (lambda: fft.dct(1.0), "at least one axis"),
        (lambda: fft.dct(_X[:, :1], 1), "of type 1 takes more than 1 elements along axis 1"),
        (lambda: fft.dct(_X, n=0), "takes n > 0, not 0"),
        (lambda: fft.dctn(_X, s=(2,), axes=(0, 1)), "as many lengths s as axes"),
        (lambda: fft.fft(_X, plan=1), "fft takes no plan but None"),
        (lambda: fft.ifht(_X, 0.0, 1.0), "ifht takes a spacing dln of the logarithms that is not 0"),
        (lambda: fft.fhtoffset(0, 1.0), "fhtoffset takes a spacing dln of the logarithms that is not 0"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError, ZeroDivisionError), match=message):
        call()


@pytest.mark.parametrize(("mu", "bias"), [(2.0, 0.0), (-1.5, -0.4), (-3.0, 2.0), (-0.5, 0.5), (-0.5, -0.5)])
@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_a_hankel_transform_is_scipys_also_where_it_is_singular(name: str, mu: float, bias: float) -> None:
    for x in (_X, np.float32(_X[:, :-1])):
        with warnings.catch_warnings(record=True) as expected_warnings:
            warnings.simplefilter("always")
            expected = getattr(scipy.fft, name)(x, 0.3, mu, 0.1, bias)
        with warnings.catch_warnings(record=True) as found_warnings:
            warnings.simplefilter("always")
            found = getattr(fft, name)(x, 0.3, mu, 0.1, bias)

        assert [str(one.message) for one in found_warnings] == [str(one.message) for one in expected_warnings]
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5 if x.dtype == np.float32 else 1e-9)


def test_a_hankel_transform_is_differentiable_by_all_that_it_takes() -> None:
    numbers = [np.array(one) for one in (0.3, 1.2, 0.1, 0.4)]
    for function in (fft.fht, fft.ifht):
        check_derivatives(function, Case((_X[0], *numbers), {}, (0, 1, 2, 3, 4)))
    check_derivatives(fft.fhtoffset, Case(tuple(numbers), {}, (0, 1, 2, 3)))
    np.testing.assert_allclose(fft.fhtoffset(*numbers), scipy.fft.fhtoffset(*numbers), rtol=1e-14)
