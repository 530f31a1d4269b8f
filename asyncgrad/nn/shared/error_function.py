"""The complementary error function and the normal distribution, which NumPy does not have.

Double precision uses the rational approximations of W. J. Cody, "Rational Chebyshev approximations for the error
function", Mathematics of Computation 23 (1969), 631-637, in three intervals; their error is about 1e-16.

Single precision uses `erf(x / sqrt(2)) = tanh(x P(x**2))` with a polynomial P of degree 6, fitted by weighted least
squares to an error of 6e-8. It is fast: NumPy's tanh is, and no intervals are needed, since P grows and so the tanh
is 1 for x above 6. Below -4, where that is an error of more than the function's last digits, it is the density over -x
times a polynomial in 1 / x**2, fitted by weighted least squares to a relative error of 5e-8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.values import as_array, empty_like, is_recorder, recorded_whole
from ...core.recording.kernels import FusedFormula, kernel

__all__ = ["erfc", "normal_cdf", "normal_pdf_into"]


#: erf(x) = x R(x**2) up to this |x|; numerator and denominator, highest power first.
CENTRE = 0.46875
CENTRE_NUMERATOR = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
CENTRE_DENOMINATOR = (
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
)

#: erfc(x) = exp(-x**2) R(x) up to this x.
FLANK = 4.0
FLANK_NUMERATOR = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
FLANK_DENOMINATOR = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)

#: erfc(x) = exp(-x**2) / x (1 / sqrt(pi) - R(1 / x**2) / x**2) beyond.
TAIL_NUMERATOR = (
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
TAIL_DENOMINATOR = (
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)

#: P, highest power first.
SINGLE = (
    1.75617041e-9,
    -1.32263329e-7,
    3.96474430e-6,
    -5.53061931e-5,
    -3.25949767e-5,
    3.63330846e-2,
    7.97884941e-1,
)

#: Below this x, the polynomial of the tail in single precision, highest power first.
SINGLE_TAIL = -4.0
SINGLE_TAIL_FACTORS = (-86.2538323, 28.2296257, -5.62095347, 1.19206475, -0.398918429, 0.398942261)

ROOT_HALF = math.sqrt(0.5)

#: From here on exp(-x**2) is 0 in the formula of the tail.
VANISHING = 28.0


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return the polynomial at x, by Horner's rule in one array of its own."""
    value = np.multiply(x, coefficients[0], out=empty_like(x))
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


def _centre(x: Any) -> Any:
    """Return erf(x) next to 0."""
    square = x * x
    return x * _polynomial(square, CENTRE_NUMERATOR) / _polynomial(square, CENTRE_DENOMINATOR)


def _flank(size: Any) -> Any:
    """Return erfc(size) from CENTRE to FLANK."""
    return np.exp(-size * size) * (_polynomial(size, FLANK_NUMERATOR) / _polynomial(size, FLANK_DENOMINATOR))


def _tail(size: Any) -> Any:
    """Return erfc(size) from FLANK on."""
    inverse = 1 / (size * size)
    ratio = _polynomial(inverse, TAIL_NUMERATOR) / _polynomial(inverse, TAIL_DENOMINATOR)
    return np.exp(-size * size) / size * (1 / math.sqrt(math.pi) - inverse * ratio)


@kernel(c_name="erfc")
def erfc(x: Any) -> Any:
    """Return 1 - erf(x) of a float64 array, with about 15 digits of however small a result.

    Example:
        >>> import numpy as np
        >>> erfc(np.array([0.0, 1.0, np.inf]))
        array([1.        , 0.15729921, 0.        ])
    """
    if x.__class__ is not np.ndarray:
        return _erfc_everywhere(x)
    if is_recorder(x):
        return recorded_whole(erfc, x)
    size = np.abs(x)
    result = np.empty_like(size)
    near = size <= CENTRE
    result[near] = 1 - _centre(x[near])
    # Not `size > CENTRE`: a NaN must be in one of the intervals to stay a NaN.
    flank = ~near & ~(size > FLANK)
    result[flank] = _flank(size[flank])
    tail = size > FLANK
    result[tail] = _tail(np.minimum(size[tail], VANISHING))
    left = x < -CENTRE
    result[left] = 2 - result[left]
    return result


def _erfc_everywhere(x: Any) -> Any:
    """Return the same for an array of another library, by all three formulas at each element.

    How many elements lie in an interval is known only after a wait for the device that holds them.
    """
    size = np.abs(x)
    far = np.where(size > FLANK, _tail(np.clip(size, FLANK, VANISHING)), _flank(np.clip(size, CENTRE, FLANK)))
    # A NaN is in none of the intervals, and stays one in each formula.
    centre = 1 - _centre(np.clip(x, -CENTRE, CENTRE))
    return np.where(size <= CENTRE, centre, np.where(x < -CENTRE, 2 - far, far))


@np.errstate(over="ignore")
def _single_erf_of_scaled(x: Any) -> Any:
    """Return erf(x / sqrt(2)) of a float32 array."""
    value = _polynomial(x * x, SINGLE)
    value *= x
    return np.tanh(value, out=value)


@np.errstate(over="ignore")
def _single_tail(x: Any) -> Any:
    """Return the normal distribution function of a float32 array of numbers below SINGLE_TAIL."""
    square = x * x
    return np.exp(square * -0.5) / -x * _polynomial(1 / square, SINGLE_TAIL_FACTORS)


def _single_normal_cdf(x: Any) -> Any:
    if is_recorder(x):
        return recorded_whole(_single_normal_cdf, x)
    value = _single_erf_of_scaled(x)
    value *= 0.5
    value += 0.5
    if x.__class__ is not np.ndarray:
        return np.where(x < SINGLE_TAIL, _single_tail(np.minimum(x, SINGLE_TAIL)), value)
    flat = x.ravel("K")
    if flat.size and not flat.item(flat.argmin()) >= SINGLE_TAIL:
        is_tail = x < SINGLE_TAIL
        value[is_tail] = _single_tail(x[is_tail])
    return value


@kernel(expression=lambda x: erfc(x * -ROOT_HALF) * 0.5)
def _normal_cdf(x: Any) -> Any:
    """Return the normal distribution function at each x: half of `erfc(-x / sqrt(2))`.

    Example:
        >>> import numpy as np
        >>> normal_cdf(np.array([0.0, 1.0]))
        array([0.5       , 0.84134475])
    """
    if x.dtype.itemsize <= 4:
        value = _single_normal_cdf(x.astype(np.float32, copy=False))
    else:
        value = erfc(as_array(x * -ROOT_HALF).astype(np.float64, copy=False))
        value *= 0.5
    return value.astype(x.dtype, copy=False)


normal_cdf: FusedFormula = FusedFormula(_normal_cdf)


@np.errstate(over="ignore")
def normal_pdf_into(x: Any) -> Any:
    """Return the density of the normal distribution at each x, in a new array."""
    value = np.square(x, out=empty_like(x))
    value *= -0.5
    np.exp(value, out=value)
    value *= 1 / math.sqrt(2 * math.pi)
    return value
