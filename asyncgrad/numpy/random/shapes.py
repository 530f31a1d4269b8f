"""Derivatives of draws with respect to parameters of shape: `-(dF/da) / f` of a draw with distribution F, density f.

F at a draw is a uniform number that does not depend on the parameters; so a draw moves with them by that. Few of these
derivatives have a closed form. Others are integrals of the density times its score, the derivative of its logarithm
with respect to the parameter. The score changes its sign at one point, and its integral over all values is 0. So the
integral runs from the draw away from that point, where all terms have one sign and none cancel. The relative error of
gamma_slope, beta_slope and vonmises_slope is about 1e-12, and below 1e-8 for parameters up to 1e9.

The functions consist of differentiable ones, so that they have derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.arrays.values import as_array, as_like, raw, zeros_like
from ...core.ops.cumulative import forward_recurrence
from ...core.recording.primitive import derivative, primitive

__all__ = [
    "beta_slope",
    "chisquare_peak",
    "f_peak",
    "f_score",
    "f_slope",
    "gamma_slope",
    "logarithm_less",
    "mills_ratio",
    "mixture_numbers",
    "noncentral_chisquare_slope",
    "noncentral_f_slope",
    "polygamma",
    "vonmises_slope",
]

#: The logarithm of what is left out of an integral, relative to the integrand at its start.
_DROP = -40.0

#: The most elements of one block of nodes.
_BLOCK = 1 << 16


def _nodes(count: int) -> tuple[Any, Any]:
    """Return nodes in (0, 1) and weights: Gauss's for an integral over u, of a function of u**2."""
    x, weights = np.polynomial.legendre.leggauss(count)
    u = (x + 1) / 2
    return u * u, weights * u


_NODES, _WEIGHTS = _nodes(40)


def _node_blocks(shape: tuple[int, ...]) -> Iterator[tuple[Any, Any]]:
    """Yield nodes and weights in blocks, with axes of length 1 for those of `shape`."""
    step = max(1, _BLOCK // max(1, math.prod(shape)))
    for start in range(0, len(_NODES), step):
        column = (-1, *[1] * len(shape))
        yield _NODES[start : start + step].reshape(column), _WEIGHTS[start : start + step].reshape(column)


def _integrate(integrand: Callable[[Any], Any], start: Any, end: Any) -> Any:
    """Return the integrals of a function from `start` to `end`."""
    length = end - start
    total: Any = 0.0
    bare = raw(length)
    for nodes, weights in _node_blocks(np.shape(bare)):
        total = total + np.sum(integrand(start + length * as_like(nodes, bare)) * as_like(weights, bare), 0)
    return total * length


def _reach(exponent: Callable[[Any], Any], signs: Any) -> Any:
    """Return the distance from 0 at which a concave exponent has fallen to _DROP, or little more."""
    reach = np.full_like(signs, 64.0)
    while (too_far := exponent(signs * reach / 2) < _DROP).any():
        reach = np.where(too_far, reach / 2, reach)
    for share in (0.75, 0.875):
        reach = np.where(exponent(signs * reach * share) < _DROP, reach * share, reach)
    return reach


def _double(value: Any) -> Any:
    """Return a value in double precision."""
    return value.astype(float, copy=False) if hasattr(value, "astype") else np.asarray(value, float)


# The derivatives of the logarithm of the gamma function.

#: The Bernoulli numbers of even index, from the second.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


@primitive()
def polygamma(order: int, x: Any) -> Any:
    """Return the derivative of order `order + 1` of log(gamma(x)), for x > 0.

    The asymptotic series is summed at x + 12 + order or beyond, and the recurrence leads back.
    """
    count = 12 + order
    shift = x < count
    x = as_array(x).astype(float, copy=False)
    total = zeros_like(x, x.shape)
    high = np.where(shift, x + count, x)
    sign = -((-1.0) ** order)
    if shift.any():
        for step in range(count):
            total = total + np.where(shift, 1.0, 0.0) * math.factorial(order) / (x + step) ** (order + 1)
    if order:
        series = math.factorial(order - 1) / high**order
    else:
        series = -np.log(high)
    series = series + math.factorial(order) / (2 * high ** (order + 1))
    for index, number in enumerate(_BERNOULLI, 1):
        series = series + number * math.factorial(2 * index + order - 1) / (
            math.factorial(2 * index) * high ** (2 * index + order)
        )
    return sign * (series + total)


@derivative(polygamma, "x")
def _(g: Any, order: int, x: Any) -> Any:
    return g * polygamma.call(order + 1, x)


# Gamma.


def gamma_slope(shape: Any, x: Any) -> Any:
    """Return the derivative of log(x) with respect to the shape, for draws `x` of the standard gamma distribution."""
    shape, x = _double(shape), _double(x)
    at_zero = raw(x) <= 0
    x = np.where(at_zero, 1.0, x)
    beyond, logarithm = polygamma.call(0, shape + 1), np.log(x)
    # On the left the integral is that for the shape + 1, to which the recurrence of F adds a term of the same sign.
    left = raw(logarithm) <= raw(beyond)
    signs = np.where(left, -1.0, 1.0)
    used = shape + left
    mean = beyond - np.where(left, 0.0, 1.0) / shape
    x_, used_ = raw(x), raw(used)
    end = signs * _reach(lambda t: used_ * t - x_ * np.expm1(t), signs)
    start = zeros_like(end, end.shape)
    found = _integrate(lambda t: np.exp(used * t - x * np.expm1(t)) * (logarithm - mean + t), start, end)
    slope = np.where(left, (x * found + beyond - logarithm) / shape, found)
    return np.where(at_zero, 0.0, slope)


# Beta.


def _beta_slope(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return what `beta_slope` does, for draws that are neither 0 nor 1."""
    total = a + b
    beyond, logarithm = polygamma.call(0, a + 1), np.log(x)
    total_beyond = polygamma.call(0, total + 1)
    # On the left the integral is that for a + 1, on the right for b + 1; a recurrence leads back.
    left = raw(logarithm) <= raw(beyond) - raw(total_beyond)
    signs = np.where(left, -1.0, 1.0)
    used = a + left
    mean = beyond - np.where(left, 0.0, 1.0) / a - total_beyond
    x_, used_, all_ = raw(x), raw(used), raw(total) + 1
    end = signs * _reach(lambda t: used_ * t - all_ * np.log1p(x_ * np.expm1(t)), signs)

    def integrand(t: Any) -> Any:
        growth = np.log1p(x * np.expm1(t))
        return np.exp(used * t - (total + 1) * growth) * (logarithm + t - growth - mean)

    found = _integrate(integrand, zeros_like(end, end.shape), end)
    rest = logarithm - beyond + total_beyond - 1 / total
    return np.where(left, (total * x * found - rest) / a, (total * y * found + rest + 1 / a) / b)


def beta_slope(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the derivative of log(x / y) with respect to `a`, for draws of the beta distribution.

    That with respect to `b` is `-beta_slope(b, a, y, x)`.

    Args:
        a: the parameter that belongs to x.
        b: the parameter that belongs to y.
        x: the draws.
        y: 1 - x, which the caller may know better than by subtraction.
    """
    a, b, x, y = map(_double, (a, b, x, y))
    outside = (raw(x) <= 0) | (raw(y) <= 0)
    slope = _beta_slope(a, b, np.where(outside, 0.5, x), np.where(outside, 0.5, y))
    return np.where(outside, 0.0, slope)


# F. Its logarithm is that of the odds of a beta variable, and of dfden, whose slopes cancel where dfden is great.


def logarithm_less(x: Any) -> Any:
    """Return log(1 + x) - x, for numbers from -0.5 to 1."""
    half = x / (2 + x)
    square = half * half
    series: Any = 0.0
    for power in range(33, 1, -2):
        series = (series + 1 / power) * square
    return 2 * half * (series - half / (1 - half))


def _digamma_rise(a: Any, b: Any) -> Any:
    """Return digamma(a + b) - digamma(b), less a / b where a is less than b: by the asymptotic series, as above."""
    is_less, shift = raw(a) < raw(b), raw(b) < 12
    great = np.where(shift, b + 12, b)
    ratio = a / great
    near, far = np.where(is_less, ratio, 0.0), np.where(is_less, 0.0, ratio)
    found = np.where(is_less, logarithm_less(near), np.log1p(far)) + ratio / (1 + ratio) / (2 * great)
    for index, number in enumerate(_BERNOULLI, 1):
        power = 2 * index
        found = found - number / power * np.expm1(-power * np.log1p(ratio)) / great**power
    if shift.any():
        for step in range(12):
            low = b + step
            factor = np.where(is_less, (1 - a) / (low + 1), 1.0)
            found = found + np.where(shift, a, 0.0) * factor / (low * (a + low))
    return found


def _digamma_rises(a: Any, b: Any) -> Any:
    """Return `_digamma_rise` of `a` along the first axis, of which each is greater by 1 than the one before."""
    low, next_ = a[:-1], a[1:]
    is_less, is_next_less = raw(low) < raw(b), raw(next_) < raw(b)
    step = np.where(is_next_less, -low / b, 1.0) / (low + b) + np.where(is_less & ~is_next_less, low / b, 0.0)
    return np.cumsum(np.concatenate([_digamma_rise(a[:1], b), step]), 0)


def _digamma_rises_from(a: Any, b: Any) -> Any:
    """Return `_digamma_rise` of `b` along the first axis, of which each is greater by 1 than the one before.

    From the last one on, whose rise is the least.
    """
    low, next_ = b[:-1], b[1:]
    is_less, is_next_less = raw(a) < raw(low), raw(a) < raw(next_)
    step = np.where(is_less, (1 - a) / next_, 1.0) * a / (low * (a + low))
    step = step + np.where(is_next_less & ~is_less, a / next_, 0.0)
    return np.flip(np.cumsum(np.flip(np.concatenate([step, _digamma_rise(a, b[-1:])]), 0), 0), 0)


def _f_score(a: Any, b: Any, odds: Any, rise: Any) -> tuple[Any, Any]:
    """Return the score by dfden, by `_digamma_rise`, and odds / (1 + odds)."""
    share, is_small = odds / (1 + odds), raw(odds) < 1
    near = np.where(is_small, odds, 0.0)
    logarithm = np.where(is_small, logarithm_less(near) + near * share, np.log1p(odds) - share)
    return (rise + a / b * np.where(raw(a) < raw(b), share, -1 / (1 + odds)) - logarithm) / 2, share


def f_score(a: Any, b: Any, odds: Any) -> Any:
    """Return the derivative of the logarithm of the density of the F distribution by dfden.

    Args:
        a: half of dfnum.
        b: half of dfden.
        odds: those of dfnum * x / dfden.
    """
    a, b, odds = map(_double, (a, b, odds))
    return _f_score(a, b, odds, _digamma_rise(a, b))[0]


def _f_slope(a: Any, b: Any, odds: Any) -> Any:
    """Return the derivative of log(x) by dfden, for halves of degrees of freedom, and odds of dfnum * x / dfden."""
    left = raw(odds) * raw(b) <= raw(a)
    # A power that falls slowly to the end is integrated by parts, so that another falls faster by 1.
    by_parts = np.where(left, raw(a), raw(b)) < 2
    rise = _digamma_rise(a, b)
    at_draw, share = _f_score(a, b, odds, rise)
    # By the side on which the odds are small, for the powers of 1 + odds cancel on the other one.
    turned = raw(odds) > 1
    signs = np.where(turned, -1.0, 1.0)
    part, power = np.where(turned, 1 / (1 + odds), share), np.where(turned, b, a)
    more, part_, power_ = by_parts * 1.0, raw(part), raw(power)
    first, total = power_ + more * (left != turned), raw(a) + raw(b) + more
    towards = np.where(left, -1.0, 1.0)
    end = towards * _reach(lambda t: first * signs * t - total * np.log1p(part_ * np.expm1(signs * t)), towards)

    def integrand(t: Any) -> Any:
        weight = np.exp(power * (signs * t) - (a + b) * np.log1p(part * np.expm1(signs * t)))
        score, share = _f_score(a, b, odds * np.exp(t), rise)
        if not by_parts.any():
            return weight * score
        below = a / b * share * (1 - share) / 2 - share * (share / 2 + (a + b) * score)
        above = (1 - share) * ((a + b) * (score - 1 / (2 * b)) + (1 + share + a / b * share) / 2)
        return weight * np.where(by_parts, np.where(left, below, above), score)

    found = _integrate(integrand, zeros_like(end, end.shape), end)
    if not by_parts.any():
        return found
    return np.where(by_parts, np.where(left, -(at_draw + found) / a, (at_draw - 1 / (2 * b) + found) / b), found)


def f_slope(parameter: str, dfnum: Any, dfden: Any, x: Any) -> Any:
    """Return the derivative of log(x) with respect to a parameter, for draws of the F distribution."""
    dfnum, dfden, x = map(_double, (dfnum, dfden, x))
    outside = (raw(x) <= 0) | np.isinf(raw(x))
    a, b = dfnum / 2, dfden / 2
    odds = dfnum * np.where(outside, 1.0, x) / dfden
    # The inverse of a draw has the degrees of freedom the other way round.
    slope = -_f_slope(b, a, 1 / odds) if parameter == "dfnum" else _f_slope(a, b, odds)
    return np.where(outside, 0.0, slope)


# Mixtures over a number with Poisson's distribution: the noncentral distributions.


#: Above this number of the greatest term of a mixture, terms are smooth, and one of many stands for its neighbours.
_SMOOTH = 400.0


def mixture_numbers(peak: Any) -> tuple[Any, Any]:
    """Return the numbers of the terms that matter in a mixture, along a new first axis, and the stride between two.

    There are at most 400, and 70 where the stride is above 1: the trapezoidal rule has an error below 1e-30 there.

    Args:
        peak: about where the terms are greatest, at least 0.
    """
    spread = 9 * np.sqrt(peak + 1) + 12
    stride = np.where(peak > _SMOOTH, np.floor(np.sqrt(peak) / 3), 1.0)
    first = np.floor(np.maximum(peak - spread, 0))
    count = int(np.max((peak + spread - first) / stride, initial=1.0)) + 2
    return first + stride * np.arange(count).reshape(-1, *[1] * np.ndim(first)), stride


def _posterior(peak: Any, ratio: Callable[[Any], Any]) -> tuple[Any, Any, bool]:
    """Return the numbers that matter in a mixture, and their weights given the draw, both along a new first axis.

    And return whether the numbers are dense: each is greater by 1 than the one before.

    Args:
        peak: about where the weights are greatest.
        ratio: the logarithm of the weight of a number's successor, relative to its own.
    """
    numbers, stride = mixture_numbers(np.where(np.isfinite(peak), peak, 0.0))
    dense = bool(np.all(stride == 1))
    if dense:
        steps = ratio(numbers)
    else:
        # The sum of the ratios of a stride, by the polynomial of the fourth degree through five of them.
        first, second, middle, fourth, last = (ratio(numbers + share / 4 * (stride - 1)) for share in range(5))
        size, gap = stride, np.maximum(stride - 1, 1.0)
        bend = (16 * (second + fourth) - first - last - 30 * middle) / 12
        bow = first + last - 4 * (second + fourth) + 6 * middle
        curved = 2 / 3 * size * (size + 1) / gap * bend
        curved = curved + 2 / 45 * size * (size + 1) * (3 * size * size - 7) / gap**3 * bow
        steps = stride * middle + np.where(stride == 1, 0.0, curved)
    logarithms = np.cumsum(steps, 0) - steps
    weights = np.exp(logarithms - raw(logarithms).max(0, initial=0.0))
    return numbers, weights / np.sum(weights, 0), dense


def _apart_by_peak(peak: Any, slope: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of arguments, which is called apart for the mixtures whose terms have strides.

    Args:
        peak: of the mixtures, as for `mixture_numbers`, in the shape of all arguments together.
        slope: the function.
        *arguments: its arguments.
    """
    is_smooth = np.ravel(peak > _SMOOTH)
    if np.all(is_smooth) or not np.any(is_smooth):
        return slope(*arguments)
    lines = [np.ravel(np.broadcast_to(one, peak.shape)) for one in arguments]
    parts = [np.flatnonzero(mask) for mask in (is_smooth, ~is_smooth)]
    found = np.concatenate([slope(*(one[part] for one in lines)) for part in parts])
    return np.reshape(found[np.argsort(np.concatenate(parts))], peak.shape)


def _neighbouring_slopes(shapes: Any, products: Any, rests: Any, ends: Any) -> Any:
    """Return slopes of which products[j] * slopes[j + 1] is shapes[j] * slopes[j] + rests[j].

    No error grows: while a product is the greater, each is computed from the one before, and others from the one after.

    Args:
        shapes: positive numbers along the first axis, each greater by 1 than the one before.
        products: positive numbers, which grow by less.
        rests: numbers.
        ends: the first and the last slope.
    """
    products, shapes = np.broadcast_arrays(products, shapes[:-1])
    rises = np.logical_and.accumulate(raw(products) >= raw(shapes))
    divisors, signs = np.where(rises, products, shapes), np.where(rises, 1.0, -1.0)
    factors, terms = np.where(rises, shapes, products) / divisors, signs * rests / divisors
    none = np.zeros_like(factors[:1])
    upwards = forward_recurrence(
        np.concatenate([ends[:1], np.where(rises, terms, 0.0)]),
        np.concatenate([none, np.where(rises, factors, 0.0)]),
        0,
    )
    downwards = forward_recurrence(
        np.concatenate([ends[1:], np.where(rises, 0.0, terms)[::-1]]),
        np.concatenate([none, np.where(rises, 0.0, factors)[::-1]]),
        0,
    )
    return np.where(np.concatenate([rises[:1] | True, rises]), upwards, downwards[::-1])


def _digammas(shapes: Any) -> Any:
    """Return the digamma function at numbers of which each is greater by 1 than the one before, but for the last."""
    return np.cumsum(np.concatenate([polygamma.call(0, shapes[:1]), 1 / shapes[:-2]]), 0)


#: Takes the place of a noncentrality of 0, so that it has a logarithm.
_TINY = 1e-200


def chisquare_peak(shape: Any, product: Any) -> Any:
    """Return about where the terms of the mixture of a noncentral chi-square variable are greatest."""
    return (np.sqrt(raw(shape) ** 2 + 4 * raw(product)) - raw(shape)) / 2


def _shapes_of_noncentral_chisquare(df: Any, nonc: Any, x: Any) -> tuple[Any, Any, bool]:
    """Return the shapes of the gamma distributions that x / 2 may be drawn from, their weights, and whether dense."""
    shape, product = df / 2, nonc * x / 4 + _TINY
    logarithm = np.log(product)
    peak = chisquare_peak(shape, product)
    numbers, weights, dense = _posterior(peak, lambda j: logarithm - np.log(j + 1) - np.log(shape + j))
    return shape + numbers, weights, dense


def noncentral_chisquare_slope(parameter: str, df: Any, nonc: Any, x: Any) -> Any:
    """Return the derivative of log(x) with respect to a parameter, for draws of the noncentral chi-square."""
    df, nonc, x = map(_double, (df, nonc, x))
    at_zero = raw(x) <= 0
    x = np.where(at_zero, 1.0, x)

    def slope(df: Any, nonc: Any, x: Any) -> Any:
        shapes, weights, dense = _shapes_of_noncentral_chisquare(df, nonc, x)
        slopes = 1 / shapes if parameter == "nonc" else _gamma_slopes(shapes, x / 2, dense)
        return np.sum(weights * slopes, 0) / 2

    return np.where(at_zero, 0.0, _apart_by_peak(chisquare_peak(df / 2, nonc * x / 4), slope, df, nonc, x))


#: Of the slopes of a smooth mixture this many are computed. As functions of the shape they bend over its whole size.
_FEW = 20


def _by_few(slope: Callable[[Any], Any], shapes: Any) -> Any:
    """Return slopes of evenly spaced shapes along the first axis, by a polynomial through those at Chebyshev's points.

    It is the product of shape and slope that the polynomial interpolates, in Lagrange's barycentric form.
    """
    angles = (2 * np.arange(_FEW) + 1) * (math.pi / (2 * _FEW))
    points, factors = (1 - np.cos(angles)) / 2, np.sin(angles) * (-1.0) ** np.arange(_FEW)
    distances = np.linspace(0.0, 1.0, len(shapes))[:, np.newaxis] - points
    terms = factors / np.where(distances == 0, 1e-300, distances)
    parts = as_like(terms / np.sum(terms, 1, keepdims=True), raw(shapes))
    low, high = shapes[0], shapes[-1]
    few = low + (high - low) * as_like(points.reshape(-1, *[1] * np.ndim(low)), raw(shapes))
    return np.tensordot(parts, few * slope(few), 1) / shapes


def _gamma_slopes(shapes: Any, x: Any, dense: bool) -> Any:
    """Return `gamma_slope` of shapes along the first axis; where dense, each is greater by 1 than the one before."""
    if not dense:
        return _by_few(lambda shapes: gamma_slope(shapes, x), shapes)
    rests = np.log(x) - _digammas(shapes + 1)
    return _neighbouring_slopes(shapes, x, rests, gamma_slope(shapes[:: len(shapes) - 1], x))


def _f_slopes(a: Any, b: Any, odds: Any, dense: bool, by_second: bool) -> Any:
    """Return the derivatives of log(x) by a degree of freedom, for first shapes as in `_gamma_slopes`."""

    def direct(a: Any) -> Any:
        return _f_slope(a, b, odds) if by_second else -_f_slope(b, a, 1 / odds)

    if not dense:
        return _by_few(direct, a)
    low = a[:-1]
    if by_second:
        rests, _ = _f_score(low, b, odds, _digamma_rises(low, b))
    else:
        rests, _ = _f_score(b - 1, low + 1, 1 / odds, _digamma_rises_from(b - 1, low + 1))
    return _neighbouring_slopes(a, odds / (1 + odds) * (low + b), rests, direct(a[:: len(a) - 1]))


def noncentral_f_slope(parameter: str, dfnum: Any, dfden: Any, nonc: Any, x: Any) -> Any:
    """Return the derivative of log(x) with respect to a parameter, for draws of the noncentral F."""
    dfnum, dfden, nonc, x = map(_double, (dfnum, dfden, nonc, x))
    at_zero = raw(x) <= 0
    x = np.where(at_zero, 1.0, x)
    peak = f_peak(dfnum / 2, dfden / 2, _f_product(dfnum, dfden, nonc, x))

    def slope(*arguments: Any) -> Any:
        return _slope_of_f_mixture(parameter, *arguments)

    return np.where(at_zero, 0.0, _apart_by_peak(peak, slope, dfnum, dfden, nonc, x))


def _f_product(dfnum: Any, dfden: Any, nonc: Any, x: Any) -> Any:
    odds = dfnum * x / dfden
    return nonc * (odds / (1 + odds)) / 2 + _TINY


def f_peak(a: Any, b: Any, product: Any) -> Any:
    """Return about where the terms of the mixture of a noncentral F variable are greatest."""
    linear = raw(a) - raw(product)
    return (np.sqrt(linear**2 + 4 * raw(product) * (raw(a) + raw(b))) - linear) / 2


def _slope_of_f_mixture(parameter: str, dfnum: Any, dfden: Any, nonc: Any, x: Any) -> Any:
    a, b, odds = dfnum / 2, dfden / 2, dfnum * x / dfden
    product = _f_product(dfnum, dfden, nonc, x)
    logarithm = np.log(product)
    peak = f_peak(a, b, product)
    numbers, weights, dense = _posterior(peak, lambda j: logarithm - np.log(j + 1) + np.log((a + b + j) / (a + j)))
    shapes = a + numbers
    if parameter == "nonc":
        slopes = 1 / (2 * shapes)
    else:
        slopes = _f_slopes(shapes, b, odds, dense, by_second=parameter == "dfden")
        if parameter == "dfnum":
            # By its own numerator, too, which is 2 * shapes there, and dfnum here.
            slopes = slopes - numbers / (2 * a * shapes)
    return np.sum(weights * slopes, 0)


# Von Mises.


def vonmises_slope(kappa: Any, angle: Any) -> Any:
    """Return the derivative of the angle with respect to `kappa`, for draws around 0 of the von Mises distribution."""
    kappa, angle = _double(kappa), _double(angle)
    # Not 0 for the angle 0, where the slope has a derivative.
    signs = np.where(raw(angle) < 0, -1.0, 1.0)
    angle = signs * angle
    # 1 - cos(t), halved, which does not cancel near 0.
    height = np.square(np.sin(angle / 2))
    concentration = np.maximum(raw(kappa), _TINY)
    reach = 2 * np.arcsin(np.sqrt(np.minimum(1.0, 20 / concentration)))
    start = np.zeros(reach.shape)
    mass = _integrate(lambda t: np.exp(-2 * kappa * np.square(np.sin(t / 2))), start, reach)
    moment = _integrate(
        lambda t: np.square(np.sin(t / 2)) * np.exp(-2 * kappa * np.square(np.sin(t / 2))), start, reach
    )
    mean = moment / mass
    # The score is 2 * (mean - height): it is positive between 0 and the draw, or else negative beyond it.
    inner = raw(height) <= raw(mean)
    far = 2 * np.arcsin(np.sqrt(np.minimum(1.0, raw(height) + 20 / concentration)))

    def integrand(t: Any) -> Any:
        heights = np.square(np.sin(t / 2))
        return 2 * (mean - heights) * np.exp(2 * kappa * (height - heights))

    return signs * _integrate(integrand, angle, np.where(inner, 0.0, far))


# The inverse Gaussian distribution (wald).


@primitive()
def mills_ratio(x: Any) -> Any:
    """Return the probability that a standard normal number exceeds x, divided by its density at x, for x >= 0."""
    near = np.minimum(x, 3.0)
    term = near
    series = near
    for index in range(1, 48):
        term = term * near * near / (2 * index + 1)
        series = series + term
    below = math.sqrt(math.pi / 2) * np.exp(near * near / 2) - series
    far = np.maximum(x, 3.0)
    fraction = far
    for index in range(70, 0, -1):
        fraction = far + index / fraction
    return np.where(x < 3, below, 1 / fraction)


@derivative(mills_ratio, "x")
def _(g: Any, x: Any) -> Any:
    return g * (x * mills_ratio.call(x) - 1)
