"""Binomial coefficients, factorials and rising factorials, as functions of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive
from ...core.tensor import asarray
from ...errors import ArgumentTypeError
from ..arguments import floating
from ..ufuncs import special
from .gamma_functions import psi_difference, rgamma_slope
from .rules import differentiable

__all__ = ["binom", "comb", "factorial", "perm", "poch"]


def _cosine(x: Any) -> Any:
    """Return cos(pi * x), exact for whole numbers."""
    whole = np.rint(raw(x))
    return np.cos(np.pi * (x - whole)) * np.cos(np.pi * (whole % 2))


def _cotangent(x: Any) -> Any:
    """Return 1 / tan(pi * x), with period 1."""
    return 1 / np.tan(np.pi * (x - np.rint(raw(x))))


def _binom_by_first(n: Any, k: Any, out: Any) -> Any:
    """Return the derivative of binom by n, also where k - n > 0 is whole and binom is 0."""
    below = n - k + 1
    is_low = raw(below) < 0.5
    safe_n, safe_k = np.where(is_low, 1.0, n), np.where(is_low, 0.5, k)
    regular = -out * psi_difference(safe_n - safe_k + 1, safe_k)
    if not np.any(is_low):
        return regular
    # There psi(below) is psi(1 - below) - pi / tan(pi * below), and the tangent's zero is that of binom.
    n, k = np.where(is_low, n, 1.0), np.where(is_low, k, 2.0)
    reflected = out * (special.psi(n + 1) - special.psi(k - n)) + special.beta(n + 1, k - n) * _cosine(n - k + 1)
    return np.where(is_low, reflected, regular)


def _times_psi(out: Any, x: Any, factor: Any) -> Any:
    """Return out * psi(x), where out is factor(x) * sin(pi * x) / pi for x < 0.5: it is finite at the poles of psi."""
    is_low = raw(x) < 0.5
    regular = out * special.psi(np.where(is_low, 1.0, x))
    if not np.any(is_low):
        return regular
    reflected = out * special.psi(1 - np.where(is_low, x, 0.0)) - factor(is_low) * _cosine(x)
    return np.where(is_low, reflected, regular)


def _binom_by_second(n: Any, k: Any, out: Any) -> Any:
    above = _times_psi(
        out, n - k + 1, lambda is_low: special.beta(np.where(is_low, n + 1, 1.0), np.where(is_low, k - n, 1.0))
    )
    below = _times_psi(out, k + 1, lambda is_low: special.beta(np.where(is_low, n + 1, 1.0), np.where(is_low, -k, 1.0)))
    return above - below


binom: Primitive = differentiable(
    special.binom,
    "n k",
    n=lambda g, n, k, out: g * _binom_by_first(n, k, out),
    k=lambda g, n, k, out: g * _binom_by_second(n, k, out),
)


def _poch_by_first(z: Any, m: Any, out: Any) -> Any:
    """Return the derivative of poch by z, also where z is one of the poles of the gamma function."""
    is_low = raw(z) < 0.5
    safe_z, safe_m = np.where(is_low, 1.0, z), np.where(is_low, 1.0, m)
    regular = -out * psi_difference(safe_z, safe_m)
    if not np.any(is_low):
        return regular
    return np.where(is_low, _poch_by_low_first(z, m, out, is_low), regular)


def _poch_by_low_first(z: Any, m: Any, out: Any, is_low: Any) -> Any:
    crosses = raw(z + m) >= 0.5
    crossing_z, crossing_m = (np.where(is_low & crosses, one, safe) for one, safe in ((z, 0.0), (m, 1.0)))
    factor = special.beta(crossing_z + crossing_m, 1 - crossing_z) * special.gamma(crossing_m + 1)
    crossing = out * (special.psi(crossing_z + crossing_m) - special.psi(1 - crossing_z)) + factor * _cosine(z)
    staying_z, staying_m = (np.where(is_low & ~crosses, one, safe) for one, safe in ((z, -3.5), (m, 1.0)))
    slope = special.psi(1 - staying_z - staying_m) - special.psi(1 - staying_z)
    # From pole to pole, by a whole number of steps, both cotangents are the same.
    at_pole = raw(staying_z) == np.floor(raw(staying_z))
    other_z, other_m = np.where(at_pole, -3.25, staying_z), np.where(at_pole, 0.5, staying_m)
    slope = slope - np.where(at_pole, 0.0, np.pi * (_cotangent(other_z + other_m) - _cotangent(other_z)))
    staying = out * slope
    at_zero = at_pole & (raw(staying_z + staying_m) != np.floor(raw(staying_z + staying_m)))
    if np.any(at_zero):
        # The quotient is 0 there, with a slope.
        top, bottom = np.where(at_zero, staying_z + staying_m, 1.5), np.where(at_zero, staying_z, 0.5)
        staying = np.where(at_zero, special.gamma(top) * rgamma_slope(bottom), staying)
    return np.where(crosses, crossing, staying)


poch: Primitive = differentiable(
    special.poch,
    "z m",
    z=lambda g, z, m, out: g * _poch_by_first(z, m, out),
    m=lambda g, z, m, out: g * (out * special.psi(z + m)),
)


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return the number of combinations of N things taken k at a time, of real numbers by the gamma function.

    Args:
        N: the number of things.
        k: how many are taken; where it is less than 0 or more than `N`, the result is 0.
        exact: only False: whole numbers without bound are `math.comb`.
        repetition: whether a thing may be taken again.

    Raises:
        ArgumentTypeError: `exact` is true.

    Source: scipy.special.comb.

    Example:
        >>> from asyncgrad.scipy import special
        >>> special.comb([4.0, 5.0], 2).sum().item()
        16.0
    """
    _refuse_exact("comb", exact, "math.comb(N, k)")
    N, k = asarray(N), asarray(k)
    if repetition:
        # SciPy takes one thing less of nothing for none.
        return np.where((raw(k) == 0) & (raw(N) == 0), 1.0, comb(N + k - 1, k))
    return _where_taken(N, k, special.binom)


def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """Return the number of sequences of k of N things, of real numbers by the gamma function.

    Args:
        N: the number of things.
        k: how many are taken; where it is less than 0 or more than `N`, the result is 0.
        exact: only False: whole numbers without bound are `math.perm`.

    Raises:
        ArgumentTypeError: `exact` is true.

    Source: scipy.special.perm.
    """
    _refuse_exact("perm", exact, "math.perm(N, k)")
    return _where_taken(asarray(N), asarray(k), lambda N, k: special.poch(N - k + 1, k))


def _where_taken(N: Any, k: Any, function: Any) -> Any:
    taken = (raw(k) <= raw(N)) & (raw(N) >= 0) & (raw(k) >= 0)
    if np.all(taken):
        return function(N, k)
    return np.where(taken, function(np.where(taken, N, 1), np.where(taken, k, 1)), 0.0)


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Return n!, of real numbers by the gamma function.

    Args:
        n: whole or real numbers.
        exact: only False: whole numbers without bound are `math.factorial`.
        extend: what is returned for n < 0: "zero", or with "complex" the gamma function of n + 1.

    Raises:
        ArgumentTypeError: `exact` is true, or `n` is complex and `extend` is "zero".
        ValueError: `extend` is another word.

    Source: scipy.special.factorial.
    """
    _refuse_exact("factorial", exact, "math.factorial(n)")
    if extend not in ("zero", "complex"):
        raise ValueError(f'scipy.special.factorial takes extend="zero" or "complex", not {extend!r}')
    n = floating(n)
    if extend == "complex":
        # Of both signs of 0 the gamma function has different poles, and n + 1 is the one of the wrong sign.
        is_pole = raw(n) == -1
        if not is_pole.any():
            return special.gamma(n + 1)
        nothing = complex(np.nan, np.nan) if n.dtype.kind == "c" else np.nan
        return np.where(is_pole, nothing, special.gamma(np.where(is_pole, 0, n) + 1))
    if n.dtype.kind == "c":
        raise ArgumentTypeError('scipy.special.factorial of complex numbers needs extend="complex"')
    is_below = raw(n) < 0
    return (
        np.where(is_below, 0, special.gamma(np.where(is_below, 0, n) + 1)) if is_below.any() else special.gamma(n + 1)
    )


def _refuse_exact(name: str, exact: bool, instead: str) -> None:
    if exact:
        raise ArgumentTypeError(
            f"asyncgrad.scipy.special.{name} takes only exact=False: write {instead} for whole numbers without bound"
        )
