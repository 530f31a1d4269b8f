"""Parabolic cylinder, Mathieu and spheroidal wave functions, which SciPy gives with their slopes.

Each solves a linear differential equation of the second order. So its value and its slope have derivatives by the
argument. By a parameter only `pbdv` has one: of the others no formula is known that is accurate everywhere.
Characteristic values have a derivative by their parameter: the mean of a function, weighted by the square of the
solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...core.arrays.values import constant_copy, raw
from ...core.recording.primitive import RULES, Primitive, derivative, primitive
from ...errors import MissingDerivativeError
from ..ufuncs import special
from .cylinder import cylinder_by_order
from .error_functions import wofz_slope
from .rules import differentiable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...core.arrays.array import Array

    _Floats = NDArray[np.float64]


__all__ = ["mathieu_a", "mathieu_b", "modfresnelm", "modfresnelp", "obl_cv", "pro_cv"]

_DEGREE = math.pi / 180


@primitive()
def solution_value(x: Any, parameter: Any, second: Any, whole: tuple[Any, ...], ufunc: np.ufunc) -> Any:
    """Return the first result of a ufunc of whole numbers, a parameter, a second one unless it is None, and x."""
    return _call(x, parameter, second, whole, ufunc)[0]


@primitive()
def solution_slope(x: Any, parameter: Any, second: Any, whole: tuple[Any, ...], ufunc: np.ufunc) -> Any:
    """Return the second result of a ufunc, the derivative of the first."""
    return _call(x, parameter, second, whole, ufunc)[1]


def _call(x: Any, parameter: Any, second: Any, whole: tuple[Any, ...], ufunc: np.ufunc) -> Any:
    return ufunc(*whole, parameter, *([] if second is None else [second]), x)


@derivative(solution_value, "x")
def _(g: Any, x: Array, parameter: Any, second: Any, whole: tuple[Any, ...], ufunc: np.ufunc) -> Array:
    return g * (_EQUATIONS[ufunc][1] * solution_slope.call(x, parameter, second, whole, ufunc))


@derivative(solution_slope, "x")
def _(g: Any, x: Array, parameter: Any, second: Any, whole: tuple[Any, ...], ufunc: np.ufunc, out: Array) -> Array:
    equation, scale = _EQUATIONS[ufunc]
    value = solution_value.call(x, parameter, second, whole, ufunc)
    return g * (scale * equation(x, value, out, whole, parameter, second))


@derivative(solution_value, "parameter")
def _(g: Any, x: Any, parameter: Array, ufunc: np.ufunc, out: Array) -> Array:
    if ufunc is not special.pbdv:
        raise _missing(ufunc)
    return g * cylinder_by_order(parameter, x, out)


@derivative(solution_slope, "parameter")
def _(g: Any, x: Any, parameter: Any, ufunc: np.ufunc) -> Array:
    if ufunc is not special.pbdv:
        raise _missing(ufunc)
    # On the right the slope is v * D(v - 1) - x / 2 * D(v), on the left x / 2 * D(v) - D(v + 1).
    sign = np.where(raw(x) > 0, -1.0, 1.0)
    value = solution_value.call(x, parameter, None, (), ufunc)
    other = solution_value.call(x, parameter + sign, None, (), ufunc)
    factor = np.where(sign < 0, parameter, -1.0)
    slope = sign * x / 2 * cylinder_by_order(parameter, x, value)
    return g * (slope + factor * cylinder_by_order(parameter + sign, x, other) + np.where(sign < 0, other, 0.0))


@derivative(solution_value, "second")
@derivative(solution_slope, "second")
def _(g: Array, ufunc: np.ufunc) -> Any:
    raise _missing(ufunc)


def _missing(ufunc: np.ufunc) -> MissingDerivativeError:
    return MissingDerivativeError(
        f"scipy.special.{ufunc.__name__} has a derivative with respect to its last argument only: no formula for the "
        "others is accurate everywhere. Where no gradient is to flow to them, detach them"
    )


# The equations: second derivatives by x, value, slope, whole numbers and parameters.


def _cylinder(x: Any, value: Any, slope: Any, whole: Any, v: Any, second: Any) -> Any:
    return (x * x / 4 - v - 0.5) * value


def _cylinder_of_waves(x: Any, value: Any, slope: Any, whole: Any, a: Any, second: Any) -> Any:
    return (a - x * x / 4) * value


def _mathieu(characteristic: np.ufunc) -> Callable[..., Any]:
    def equation(x: Any, value: Any, slope: Any, whole: Any, q: Any, second: Any) -> Any:
        return (2 * q * np.cos(2 * _DEGREE * x) - characteristic(*whole, q)) * value

    return equation


def _modified_mathieu(characteristic: np.ufunc) -> Callable[..., Any]:
    def equation(x: Any, value: Any, slope: Any, whole: Any, q: Any, second: Any) -> Any:
        return (characteristic(*whole, q) - 2 * q * np.cosh(2 * x)) * value

    return equation


def _spheroidal(characteristic: np.ufunc, wave: float, centre: float) -> Callable[..., Any]:
    """Return the equation of (x**2 - centre) * slope, with wave * (c * x)**2."""

    def equation(x: Any, value: Any, slope: Any, whole: Any, c: Any, second: Any) -> Any:
        constant = characteristic(*whole, c) if second is None else second
        square, order = x * x - centre, np.asarray(whole[0], float)
        total = constant - wave * np.square(c * x) + centre * np.square(order) / square
        return (total * value - 2 * x * slope) / square

    return equation


#: By ufunc, the equation, and how fast the argument of the equation moves with that of the ufunc.
_EQUATIONS: dict[np.ufunc, tuple[Callable[..., Any], float]] = {
    special.pbdv: (_cylinder, 1.0),
    special.pbvv: (_cylinder, 1.0),
    special.pbwa: (_cylinder_of_waves, 1.0),
    special.mathieu_cem: (_mathieu(special.mathieu_a), _DEGREE),
    special.mathieu_sem: (_mathieu(special.mathieu_b), _DEGREE),
    special.mathieu_modcem1: (_modified_mathieu(special.mathieu_a), 1.0),
    special.mathieu_modcem2: (_modified_mathieu(special.mathieu_a), 1.0),
    special.mathieu_modsem1: (_modified_mathieu(special.mathieu_b), 1.0),
    special.mathieu_modsem2: (_modified_mathieu(special.mathieu_b), 1.0),
}
for _kind in ("ang1", "rad1", "rad2"):
    for _suffix in ("", "_cv"):
        _EQUATIONS[getattr(special, f"pro_{_kind}{_suffix}")] = _spheroidal(special.pro_cv, 1.0, 1.0), 1.0
        _oblate = _spheroidal(special.obl_cv, *((-1.0, 1.0) if _kind == "ang1" else (1.0, -1.0)))
        _EQUATIONS[getattr(special, f"obl_{_kind}{_suffix}")] = _oblate, 1.0


def _rule(ufunc: np.ufunc) -> Callable[..., Any]:
    has_second = ufunc.__name__.endswith("_cv")

    def both(*arguments: Any) -> tuple[Any, Any]:
        *parameters, x = (np.asarray(one) if isinstance(one, (list, tuple)) else one for one in arguments)
        second = parameters.pop() if has_second else None
        *whole, parameter = parameters
        given = x, parameter, second, tuple(constant_copy(number) for number in whole), ufunc
        return solution_value(*given), solution_slope(*given)

    both.__name__ = both.__qualname__ = ufunc.__name__
    both.__doc__ = f"Return what scipy.special.{ufunc.__name__} does: a function and its derivative."
    return both


for _ufunc in _EQUATIONS:
    RULES[_ufunc] = _rule(_ufunc)


# Characteristic values. With the normalized solution y(x; q) of an equation whose operator has the derivative w(x) by
# q, the derivative of the value is the mean of w, weighted by y**2.


def _no_second_derivative(name: str) -> Callable[[object], NoReturn]:
    def formula(g: object) -> NoReturn:
        raise MissingDerivativeError(
            f"scipy.special.{name} has no second derivative: it asks for that of its solution by the parameter"
        )

    return formula


# Mathieu's are eigenvalues of a tridiagonal matrix, whose vectors hold the coefficients of the solution's waves. With s
# of 0, 1 or 2 the diagonal is (2 * k + s)**2, to whose first element q is added for odd cosines and from which it is
# taken for odd sines; beside the diagonal is q, times sqrt(2) at the first place for even cosines.


@primitive()
def mathieu_slope(q: Array, m: Any, value: Array, is_sine: bool) -> Array:
    """Return the derivative of a characteristic value by q, the mean of the matrix's, weighted by its vector."""
    q, m, value = (np.array(one, float) for one in np.broadcast_arrays(q, m, value))
    is_valid = np.isfinite(q) & np.isfinite(value) & (m == np.rint(m)) & (m >= is_sine) & (m <= _MOST_WAVES)
    q, m, value = (np.where(is_valid, one, safe) for one, safe in ((q, 0.0), (m, 1.0), (value, 1.0)))
    is_odd = m % 2 == 1
    smallest = np.where(is_odd, 1, 2 if is_sine else 0)
    by_first = np.where(is_odd, -1.0 if is_sine else 1.0, 0.0)
    root = np.where(is_odd | is_sine, 1.0, math.sqrt(2))
    middle = ((m - smallest) // 2).astype(int)
    # Beyond the wave whose square is value + 2 * |q| coefficients fall as those of Bessel functions do.
    reach = np.maximum(np.sqrt(np.maximum(value + 2 * np.abs(q), 0.0)), m)
    count = int(np.max(reach / 2 + 6 * np.cbrt(reach), initial=1.0)) + 20

    def rest(k: int) -> _Floats:
        return value - (2 * k + smallest) ** 2 - (by_first * q if k == 0 else 0.0)

    # Coefficients over their neighbours nearer to the wave of number m, from both ends, which is stable.
    ratios = [np.zeros(q.shape)] * count
    above = below = np.zeros(q.shape)
    for k in range(count - 1, 0, -1):
        beside = q * root if k == 1 else q
        above = beside / _not_zero(rest(k) - q * above)
        ratios[k] = np.where(k > middle, above, ratios[k])
    for k in range(int(np.max(middle, initial=0))):
        beside, before = (q * root if k == 0 else q), (q * root if k == 1 else q)
        below = beside / _not_zero(rest(k) - before * below)
        ratios[k] = np.where(k < middle, below, ratios[k])
    return np.where(is_valid, _mean_of_slope(ratios, middle, root, by_first), np.nan)


#: The largest number of waves, beyond which a vector would take minutes.
_MOST_WAVES = 10_000


def _not_zero(value: _Floats) -> _Floats:
    return np.where(value == 0, 1e-300, value)


def _mean_of_slope(ratios: list[_Floats], middle: NDArray[np.int64], root: _Floats, by_first: _Floats) -> _Floats:
    """Return the mean of the derivative of the matrix, given the quotients of coefficients of its vector."""
    vector = [np.where(k == middle, 1.0, 0.0) for k in range(len(ratios))]
    for k in range(1, len(ratios)):
        vector[k] = np.where(k > middle, vector[k - 1] * ratios[k], vector[k])
    for k in range(int(np.max(middle, initial=0)) - 1, -1, -1):
        vector[k] = np.where(k < middle, vector[k + 1] * ratios[k], vector[k])
    total, mean = sum(one * one for one in vector), by_first * vector[0] * vector[0]
    for k in range(1, len(vector)):
        mean = mean + 2 * (root if k == 1 else 1.0) * vector[k - 1] * vector[k]
    return mean / total


derivative(mathieu_slope, "q")(_no_second_derivative("mathieu_a or mathieu_b"))

mathieu_a: Primitive = differentiable(
    special.mathieu_a,
    "m q",
    m=lambda g: None,
    q=lambda g, m, q, out: g * mathieu_slope.call(q, raw(m), raw(out), False),
)
mathieu_b: Primitive = differentiable(
    special.mathieu_b,
    "m q",
    m=lambda g: None,
    q=lambda g, m, q, out: g * mathieu_slope.call(q, raw(m), raw(out), True),
)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)


@primitive()
def spheroidal_mean(c: Any, m: Any, n: Any, ufunc: np.ufunc) -> Array:
    """Return the mean of 2 * c * x**2, weighted by the square of a spheroidal wave function of an angle."""
    shape = -1, *[1] * np.broadcast(c, m, n).ndim
    x, weights = _NODES[60:].reshape(shape), _WEIGHTS[60:].reshape(shape)
    squares = weights * np.square(ufunc(m, n, c, x)[0])
    return 2 * c * (np.sum(x * x * squares, 0) / np.sum(squares, 0))


derivative(spheroidal_mean, "c")(_no_second_derivative("pro_cv or obl_cv"))

pro_cv: Primitive = differentiable(
    special.pro_cv,
    "m n c",
    m=lambda g: None,
    n=lambda g: None,
    c=lambda g, m, n, c: g * spheroidal_mean.call(c, raw(m), raw(n), special.pro_ang1),
)
obl_cv: Primitive = differentiable(
    special.obl_cv,
    "m n c",
    m=lambda g: None,
    n=lambda g: None,
    c=lambda g, m, n, c: -g * spheroidal_mean.call(c, raw(m), raw(n), special.obl_ang1),
)


# The modified Fresnel integrals: the integral of exp(i t**2) from x on, and what is left when that is divided by
# sqrt(pi) * exp(i (x**2 + pi / 4)), half of w(x * exp(i pi / 4)). Those of the sign -1 are conjugate to them.

_TURN = complex(math.sqrt(0.5), math.sqrt(0.5))


@primitive()
def fresnel_tail(x: Any, sign: int) -> Any:
    """Return the integral of exp(sign * i * t**2) from x to infinity."""
    return _modified_fresnel(sign)(x)[0]


@derivative(fresnel_tail, "x")
def _(g: Any, x: Array, sign: int) -> Array:
    return np.real(-g * np.exp(1j * sign * np.square(x)))


@primitive()
def fresnel_ratio(x: Any, sign: int) -> Any:
    """Return half of w(x * exp(i * pi / 4)), or its conjugate."""
    return _modified_fresnel(sign)(x)[1]


@derivative(fresnel_ratio, "x")
def _(g: Any, x: Any, sign: int) -> Array:
    slope = 0.5 * _TURN * wofz_slope(_TURN * x)
    return np.real(g * (slope if sign > 0 else np.conjugate(slope)))


def _modified_fresnel(sign: int) -> np.ufunc:
    return special.modfresnelp if sign > 0 else special.modfresnelm


def modfresnelp(x: Any, /) -> tuple[Any, Any]:
    """Return the modified Fresnel integrals of exp(i * t**2)."""
    return fresnel_tail(x, 1), fresnel_ratio(x, 1)


def modfresnelm(x: Any, /) -> tuple[Any, Any]:
    """Return the modified Fresnel integrals of exp(-i * t**2)."""
    return fresnel_tail(x, -1), fresnel_ratio(x, -1)


RULES[special.modfresnelp] = modfresnelp
RULES[special.modfresnelm] = modfresnelm
