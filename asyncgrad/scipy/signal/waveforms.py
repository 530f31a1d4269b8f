"""Waves whose frequency changes, as functions of time and of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import double, floating

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["chirp", "gausspulse", "sawtooth", "square", "sweep_poly"]


def chirp(
    t: Any,
    f0: Any,
    t1: Any,
    f1: Any,
    method: str = "linear",
    phi: Any = 0,
    vertex_zero: bool = True,
    *,
    complex: bool = False,
) -> Tensor:
    """Return a cosine whose frequency goes from `f0` at time 0 to `f1` at `t1`; differentiable by all numbers.

    Args:
        t: the times.
        f0: the frequency at time 0.
        t1: when the frequency is `f1`.
        f1: that frequency.
        method: how the frequency changes: "linear", "quadratic", "logarithmic" or "hyperbolic".
        phi: the phase at time 0, in degrees.
        vertex_zero: whether the parabola of a quadratic one has its vertex at time 0, rather than at `t1`.
        complex: whether the result is `exp(1j * phase)`.

    Raises:
        ValueError: there is no such method, or the frequencies do not fit it.

    Source: scipy.signal.chirp.

    Example:
        >>> from asyncgrad.scipy import signal
        >>> signal.chirp([0.0, 0.5], 1.0, 1.0, 1.0).round(6).tolist()
        [1.0, -1.0]
    """
    t, f0, t1, f1 = (floating(one) for one in (t, f0, t1, f1))
    phase = _phase_of_chirp(t, f0, t1, f1, method, vertex_zero) + floating(phi) * (np.pi / 180)
    return np.exp(1j * phase) if complex else np.cos(phase)


def _phase_of_chirp(t: Any, f0: Any, t1: Any, f1: Any, method: str, vertex_zero: bool) -> Any:
    """Return 2 pi times the integral of the frequency up to each time."""
    start, end = float(raw(f0)), float(raw(f1))
    if method in ("linear", "lin", "li"):
        return 2 * np.pi * t * (f0 + (f1 - f0) / (2 * t1) * t)
    if method in ("quadratic", "quad", "q"):
        bend = (f1 - f0) / (3 * t1**2)
        if vertex_zero:
            return 2 * np.pi * t * (f0 + bend * t**2)
        return 2 * np.pi * (f1 * t + bend * ((t1 - t) ** 3 - t1**3))
    if method in ("logarithmic", "log", "lo"):
        if start * end <= 0:
            raise ValueError(f"a logarithmic chirp takes f0 and f1 of one sign that are not 0, not {start} and {end}")
        if start == end:
            # The limit, to first order in the quotient of the frequencies.
            return 2 * np.pi * t * (f0 + (f1 - f0) / (2 * t1) * t)
        growth = np.log(f1 / f0)
        return 2 * np.pi * f0 * t1 / growth * np.expm1(growth * t / t1)
    if method in ("hyperbolic", "hyp"):
        if start == 0 or end == 0:
            raise ValueError(f"a hyperbolic chirp takes f0 and f1 that are not 0, not {start} and {end}")
        if start == end:
            return 2 * np.pi * t * (f0 + (f1 - f0) / (2 * t1) * t)
        pole = f1 * t1 / (f1 - f0)
        return -2 * np.pi * pole * f0 * np.log(np.abs(1 - t / pole))
    raise ValueError(f"chirp takes method 'linear', 'quadratic', 'logarithmic' or 'hyperbolic', not {method!r}")


def sweep_poly(t: Any, poly: Any, phi: Any = 0) -> Tensor:
    """Return a cosine whose frequency is a polynomial of time; differentiable by the coefficients, too.

    Args:
        t: the times.
        poly: the coefficients, the highest power first; or a `numpy.poly1d`.
        phi: the phase at time 0, in degrees.

    Source: scipy.signal.sweep_poly.
    """
    t = floating(t)
    coefficients = double(poly.coeffs if isinstance(poly, np.poly1d) else poly)
    count = coefficients.shape[0]
    turns: Any = 0.0
    for index in range(count):
        turns = turns * t + coefficients[index] / (count - index)
    return np.cos(2 * np.pi * turns * t + floating(phi) * (np.pi / 180))


def sawtooth(t: Any, width: Any = 1) -> Tensor:
    """Return a wave of period 2 pi that rises from -1 to 1 during `width` of it, and falls in the rest.

    Args:
        t: the times.
        width: from 0 to 1; others give nan.

    Source: scipy.signal.sawtooth.
    """
    # As SciPy's, in double precision.
    t, width = double(t), double(width)
    share = t / (2 * np.pi) - np.floor(raw(t) / (2 * np.pi))
    rises, never_falls, never_rises = raw(share) < raw(width), raw(width) == 1, raw(width) == 0
    up = 2 * share / np.where(never_rises, 1.0, width) - 1
    down = (1 + width - 2 * share) / np.where(never_falls, 1.0, 1 - width)
    is_valid = (raw(width) >= 0) & (raw(width) <= 1)
    return np.where(is_valid, np.where(rises, up, down), np.nan)


def square(t: Any, duty: Any = 0.5) -> Tensor:
    """Return a wave of period 2 pi that is 1 during `duty` of it, and -1 in the rest; its derivative is 0.

    Args:
        t: the times.
        duty: from 0 to 1; others give nan.

    Source: scipy.signal.square.
    """
    times, share = raw(floating(t)), raw(floating(duty))
    is_up = np.mod(times, 2 * np.pi) < share * 2 * np.pi
    return asarray(np.where((share >= 0) & (share <= 1), np.where(is_up, 1.0, -1.0), np.nan))


def gausspulse(
    t: Any,
    fc: Any = 1000,
    bw: Any = 0.5,
    bwr: Any = -6,
    tpr: Any = -60,
    retquad: bool = False,
    retenv: bool = False,
) -> Any:
    """Return a cosine within a bell curve; with `retquad` the sine in it, and with `retenv` the curve, too.

    Args:
        t: the times, or "cutoff" for the time at which the curve has fallen to `tpr`.
        fc: the frequency.
        bw: the width of the band, relative to it.
        bwr: where the width is measured, in decibels below the top.
        tpr: in decibels.
        retquad: whether to return the sine.
        retenv: whether to return the curve.

    Source: scipy.signal.gausspulse.
    """
    fc, bw, bwr = floating(fc), floating(bw), floating(bwr)
    for name, one, is_wrong in (("fc", fc, raw(fc) < 0), ("bw", bw, raw(bw) <= 0), ("bwr", bwr, raw(bwr) >= 0)):
        if is_wrong:
            raise ValueError(f"gausspulse takes an fc of at least 0, a bw above 0 and a bwr below 0, not {name}={one}")
    decay = -((np.pi * fc * bw) ** 2) / (4 * np.log(10.0 ** (bwr / 20)))
    if isinstance(t, str):
        if t != "cutoff" or raw(floating(tpr)) >= 0:
            raise ValueError(f"gausspulse takes times, or 'cutoff' with a tpr below 0, not {t!r} and {tpr!r}")
        return np.sqrt(-np.log(10.0 ** (floating(tpr) / 20)) / decay)
    t = floating(t)
    envelope = np.exp(-decay * t * t)
    angle = 2 * np.pi * fc * t
    found: list[Array] = [envelope * np.cos(angle)]
    if retquad:
        found.append(envelope * np.sin(angle))
    if retenv:
        found.append(envelope)
    return tuple(found) if len(found) > 1 else found[0]
