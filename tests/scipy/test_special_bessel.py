"""Bessel functions and those of the zeta family that are no ufuncs, complex numbers, and values far out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import special
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_POSITIVE = np.array([0.375, 1.0, 6.0])
_WHOLE = np.array([[0], [1], [4]])
_SPHERICAL = [
    Case((_WHOLE, _POSITIVE), {}, (1,)),
    Case((3, np.array([-2.0, 0.5])), {"derivative": True}, (1,)),
]
_DERIVED = [Case((np.array([[0.5], [2.0]]), _POSITIVE, 3), {}, (0, 1)), Case((1, np.array([2.0])), {}, (1,))]

CASES: dict[str, list[Case]] = {
    "spherical_jn": [*_SPHERICAL, Case((_WHOLE, np.array([0.0])), {}, (1,))],
    "spherical_yn": _SPHERICAL,
    "spherical_in": [*_SPHERICAL, Case((_WHOLE, np.array([0.0])), {}, (1,))],
    "spherical_kn": _SPHERICAL,
    "jvp": _DERIVED,
    "yvp": _DERIVED,
    "ivp": _DERIVED,
    "kvp": _DERIVED,
    "h1vp": _DERIVED,
    "h2vp": _DERIVED,
    "zeta": [
        Case((np.array([-2.5, 0.5, 1.25, 3.0, 12.0]),)),
        Case((np.array([[1.125], [3.5]]), np.array([0.25, 1.0, 40.0])), {}, (0, 1)),
    ],
    "lambertw": [Case((np.array([-0.25, 0.0, 1.0, 30.0]),)), Case((np.array([-0.25, 2.0]), np.array([[-1], [2]])))],
}
CALLS = named_calls(special, scipy.special, CASES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_scipy(name: str) -> None:
    check_values(*CALLS[name])


_COMPLEX: dict[str, Callable[[Any], Any]] = {
    **{
        name: functools.partial(getattr(scipy.special, name), 1.5)
        for name in ("hankel1e", "iv", "ive", "jv", "jve", "kve", "yve")
    },
    "airy": lambda z: scipy.special.airy(z)[1],
    "airye": lambda z: sum(scipy.special.airye(z)),
    "lambertw": lambda z: scipy.special.lambertw(z, -1),
    "spence": scipy.special.spence,
    "spherical_jn": lambda z: special.spherical_jn(2, z),
    "wrightomega": scipy.special.wrightomega,
    "zeta": scipy.special.zeta,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _COMPLEX)
def test_complex_derivatives_are_right(name: str) -> None:
    z = ag.tensor(np.array([0.75 + 0.5j, -1.25 + 0.25j, 2.0 - 1.5j]), requires_grad=True)

    assert sync.gradcheck(_COMPLEX[name], (z,))
    assert sync.gradgradcheck(_COMPLEX[name], (z,))


@pytest.mark.parametrize(
    ("name", "order", "z", "expected"),
    [
        # By mpmath with forty digits.
        ("jv", 0.0, 1e-08, -18.536612259610777),
        ("jv", 100.0, 70.0, -5.6107372575808071e-10),
        ("jv", -20.5, 5.0, -3410636791.4178025),
        ("jv", 3.0, 1500.0, -0.025174753722625658),
        ("yv", 0.0, 10.0, 0.38631499542767288),
        ("yv", 2.5, 10000.0, -0.0038332781887306342),
        ("iv", 0.0, 10.0, -1.7780062316167652e-5),
        ("iv", 0.001, 600.0, -1.0252394321455418e253),
        ("iv", 100.0, 3.0, -1.8730679131829533e-140),
        ("iv", -2.5, 3.0, 1.2543984391010701),
        ("kv", 1e-08, 1e-10, 4.1683982175045979e-5),
        ("kv", 40.0, 2.0, 3.6552310852798822e46),
        ("kv", 0.5, 600.0, 1.129152146782256e-265),
        ("jv", -1.5, (-3 + 2j), -0.34659805083223001),
        ("iv", 0.0, (9 + 4j), 2.3707507639501203e-5),
        ("iv", 1e-06, (20 + 3j), 2.0482806716812639),
        ("iv", 2.5, (1 + 2j), 0.27670674317672599),
        ("iv", 0.25, (-4 + 1j), 2.1597250533608687),
        ("kv", 1e-06, (5 + 3j), -4.4698576203217455e-10),
        ("kv", 0.01, 1e-10j, 41.330786815605944),
        ("kv", -3.5, (1 - 2j), -0.69593789656508165),
        ("struve", 0.25, 80.0, 0.27257325801842388),
    ],
)
def test_derivatives_by_the_order_keep_their_digits(name: str, order: float, z: complex, expected: float) -> None:
    v = ag.tensor(order, requires_grad=True)

    (slope,) = sync.grad(getattr(scipy.special, name)(v, z).real, [v])

    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "point", "first", "second"),
    [
        # By mpmath with forty digits.
        (lambda x: scipy.special.ive(1.0, x), 1e-200, 0.5, -1.0),
        (lambda x: scipy.special.ive(2.0, x), 1000000.0, -1.9947001817637085e-10, 2.9920390524102894e-16),
        (scipy.special.i0e, 100000000.0, -1.9947114094873312e-13, 2.9920671217111647e-21),
        (scipy.special.k1e, 100000000.0, -6.2665707570764211e-13, 9.3998562061135512e-21),
        (lambda x: scipy.special.airye(x)[0], 10000.0, -7.0523646520016385e-7, 8.8154481014955654e-11),
        (lambda x: scipy.special.airye(x)[3], 10000.0, 0.00014104749873415177, -1.0578577832166268e-8),
        (lambda x: scipy.special.struve(3.0, x), 200.0, 17.031158780777617, 0.098819734189019312),
        (scipy.special.zetac, 60.0, -6.01209343238152e-19, 4.1672656120232954e-19),
        (special.zeta, 1.0000009536743164, -1099511627775.9272, 2.305843009213694e18),
        (special.zeta, -20.5, 300.57792297065501, -305.98639811732234),
        (lambda s: special.zeta(s, 40.0), 1.0009765625, -1048569.2584874183, 2147483631.4824033),
        (scipy.special.spence, 0.9990234375, -1.0004885993744515, 0.50065175766822071),
        (lambda x: scipy.special.agm(x, 3.0), 1e-08, 1078242.3423917715, -97508883399385.674),
        (lambda x: scipy.special.it2i0k0(x)[0], 0.0009765625, 0.00024414063955191561, 0.25000004470348556),
    ],
)
def test_far_out_and_next_to_poles_no_digits_are_lost(
    call: Callable[[Any], Any], point: float, first: float, second: float
) -> None:
    x = ag.tensor(point, requires_grad=True)

    (slope,) = sync.grad(call(x), [x], create_graph=True)

    np.testing.assert_allclose(slope.numpy(), first, rtol=1e-10)
    np.testing.assert_allclose(sync.grad(slope, [x])[0].numpy(), second, rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "point", "expected"),
    [
        (lambda x: scipy.special.yv(1.0, x), 0.0, np.inf),
        (lambda x: scipy.special.kve(1.0, x), 0.0, -np.inf),
        (lambda x: scipy.special.jve(0.5, x), 0.0, np.inf),
        (lambda x: scipy.special.ive(1.5, x), 0.0, 0.0),
        (lambda v: scipy.special.jv(v, 0.0), 1.0, 0.0),
        (lambda v: scipy.special.iv(v, 0.0), 0.0, -np.inf),
        (lambda v: scipy.special.kv(v, 0.0), 0.0, 0.0),
        (lambda x: scipy.special.struve(-1.0, x), 0.0, 0.0),
        (lambda x: scipy.special.agm(x, 2.0), 0.0, np.inf),
        (scipy.special.wrightomega, np.inf, 1.0),
    ],
)
def test_at_the_ends_the_derivative_is_the_limit(call: Callable[[Any], Any], point: float, expected: float) -> None:
    x = ag.tensor(point, requires_grad=True)

    sync.backward(call(x))

    assert x.grad is not None
    assert x.grad.item() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: scipy.special.modstruve(v, 1.0), "modstruve has no derivative with respect to v: iv, kv and struve"),
        (lambda v: scipy.special.besselpoly(1.0, v, 0.0), "besselpoly has no derivative with respect to lmb"),
        (lambda v: special.jvp(v, 1.0, -1), "n of scipy.special.jvp must be at least 0, not -1"),
        (lambda v: special.kvp(v, 1.0, 0.5), "n of scipy.special.kvp must be a whole number, not float 0.5"),
        (lambda v: special.spherical_jn(0.5, v), "takes whole numbers n, not 0.5"),
    ],
)
def test_errors_say_what_is_wrong(call: Callable[[Any], Any], message: str) -> None:
    v = ag.tensor(0.5, requires_grad=True)

    with pytest.raises((AsyncgradError, ValueError, TypeError), match=message):
        sync.backward(call(v))


def test_derivatives_by_the_order_of_single_precision_are_as_good_as_their_type() -> None:
    v = ag.tensor(np.float32(1.5), requires_grad=True)

    sync.backward(scipy.special.jv(v, np.float32(2.0)))

    assert v.grad is not None
    assert v.grad.dtype == np.float32
    np.testing.assert_allclose(v.grad.numpy(), -0.251833389645, rtol=3e-7)
