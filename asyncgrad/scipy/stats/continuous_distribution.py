"""Distributions with a density: what lies outside of the support or at an end of it, quantiles, and integrals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ..arguments import floating
from ..integrate.quadrature import quad
from ..special.rules import holds_somewhere
from .distances import distance_log_, distance_power_, end_
from .distribution import UnivariateDistribution, check_plain, narrowed
from .integrals import integral_at_points
from .log_tails import log_probability

__all__ = ["ContinuousDistribution"]

#: No value is wider.
_DOUBLE = np.dtype(np.float64)


class ContinuousDistribution(UnivariateDistribution):
    """Abstract: a family of distributions with a density."""

    __slots__ = ()

    _moves = (("loc", 0), ("scale", 1))
    #: A point inside of the support of every standard form, at which all functions have derivatives.
    _inner: float = 0.5
    #: Whether all functions are constant at a finite end of the support, to first order at least.
    _flat_start = _flat_end = False
    #: Whether the density is a power of the distance next to an end of the support: see `_power`.
    _has_powers = False

    def _point_inside(self, *shapes: Any) -> Any:
        """Return a point inside of the support of the standard form: by default one that all supports have."""
        return self._inner

    def _flat_ends(self, *shapes: Any) -> tuple[bool | np.ndarray, bool | np.ndarray]:
        """Return where all functions are constant at the ends of the support: by default whatever the shapes are."""
        return self._flat_start, self._flat_end

    @abstractmethod
    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the density of the standard form, inside of the support."""

    @abstractmethod
    def _ppf(self, q: Any, *shapes: Any) -> Any:
        """Return the quantiles of the standard form, for 0 < q < 1."""

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return self._ppf(1 - q, *shapes)

    def _logcdf(self, y: Any, *shapes: Any) -> Any:
        return log_probability(
            self._cdf(y, *shapes), lambda: self._sf(y, *shapes), lambda mask: self._log_below(mask, y, *shapes)
        )

    def _logsf(self, y: Any, *shapes: Any) -> Any:
        return log_probability(
            self._sf(y, *shapes), lambda: self._cdf(y, *shapes), lambda mask: self._log_above(mask, y, *shapes)
        )

    def _log_below(self, mask: Any, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the distribution function where a mask holds, for it underflows there."""
        return -np.inf

    def _log_above(self, mask: Any, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the probability of greater values where a mask holds, for it underflows there."""
        return -np.inf

    def _integral(
        self, function: Callable[..., Any], first: Any, last: Any, rest: Sequence[Any], *, count: int = 0
    ) -> Any:
        """Return an integral over a part of the support.

        Args:
            function: of the standard variable and `rest`.
            first: where the part begins.
            last: where it ends.
            rest: the shapes, after others of which there are `count`.
            count: of the others.
        """
        if any(np.ndim(one) for one in (first, last, *rest)):
            # One integral for each element.
            size = np.broadcast_shapes(*[np.shape(one) for one in (first, last, *rest)])
            parts = [np.broadcast_to(one, size) for one in (first, last, *rest)]
            found = [
                self._integral(function, low, high, others, count=count)
                for low, high, *others in ([part[index] for part in parts] for index in np.ndindex(size))
            ]
            return np.reshape(np.stack(found), size) if found else np.zeros(size)
        ends = self._parted(first, last, rest[count:])
        parts = [self._part(function, low, high, rest, ends) for low, high in pairwise(ends)]
        return sum(parts[1:], parts[0])

    @staticmethod
    def _part(function: Callable[..., Any], low: Any, high: Any, rest: Sequence[Any], ends: Sequence[Any]) -> Any:
        """Return an integral between two of the ends of parts, by `quad` where points at once lack its digits."""
        first, last = float(raw(low)), float(raw(high))
        moves = any(isinstance(end, Tensor) and end.requires_grad for end in (low, high))
        if not moves and first < last and np.isfinite(first) + np.isfinite(last):
            inner = [end for end in (float(raw(end)) for end in ends) if np.isfinite(end)]
            scale = inner[-1] - inner[0] or 1.0
            found = integral_at_points(function, first, last, scale, rest)
            if found is not None:
                return found
        return quad(lambda y, *rest: function(floating(y), *rest), low, high, tuple(rest))[0]

    def _parted(self, first: Any, last: Any, shapes: Sequence[Any]) -> list[Any]:
        """Return the ends of a part of the support, and between them those of the bulk, which `quad` could miss.

        `test_the_mean_of_a_function_does_not_miss_a_narrow_bulk` in tests/scipy/test_stats.py guards it.
        """
        with np.errstate(all="ignore"):
            bulk = self._bulk(*(asarray(raw(one)) for one in shapes))
        low, high = float(raw(first)), float(raw(last))
        return [first, *(end for end in sorted(set(bulk)) if low < end < high), last]

    def _bulk(self, *shapes: Any) -> list[float]:
        """Return points between which most of the probability lies, without history: by default quantiles."""
        return [float(raw(self._ppf(asarray(q), *shapes))) for q in (0.05, 0.95)]

    def _entropy(self, *shapes: Any) -> Any:
        """Return the entropy of the standard form, by default as an integral."""

        def integrand(y: Any, *shapes: Any) -> Any:
            logarithm = self._logpdf(y, *shapes)
            # Where the density underflows, so does the product.
            return -np.exp(logarithm) * np.maximum(logarithm, -800.0)

        return self._integral(integrand, *self._support(*shapes), shapes)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the mean and the variance of the standard form, by default as integrals."""
        mean = self._moment_about(0.0, 1, shapes)
        return mean, self._moment_about(mean, 2, shapes)

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the skewness and the kurtosis less 3 of the standard form, by default as integrals."""
        mean, variance = self._mean_and_variance(*shapes)
        third, fourth = (self._moment_about(mean, order, shapes) for order in (3, 4))
        return third / variance**1.5, fourth / np.square(variance) - 3

    def _integral_of_power(self, order: int, first: Any, last: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return the integral of the density times a power of the moved and scaled variable."""

        def integrand(y: Any, loc: Any, scale: Any, *shapes: Any) -> Any:
            return self._pdf(y, *shapes) * (y * scale + loc) ** order

        return self._integral(integrand, first, last, (*moves, *shapes), count=2)

    def _mean_of_power(self, order: int, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        shapes, moves = ([np.reshape(one, ()) for one in given] for given in (shapes, moves))
        return self._integral_of_power(order, *self._expected_between(*shapes), shapes, moves)

    def _moment_about(self, middle: Any, order: int, shapes: Sequence[Any]) -> Any:
        def integrand(y: Any, middle: Any, *shapes: Any) -> Any:
            return (y - middle) ** order * self._pdf(y, *shapes)

        return self._integral(integrand, *self._support(*shapes), (middle, *shapes), count=1)

    def _pdf(self, y: Any, *shapes: Any) -> Any:
        logarithm = self._logpdf(y, *shapes)
        is_nothing = raw(logarithm) < -800
        if not np.any(is_nothing):
            return np.exp(logarithm)
        # Where the density underflows so does its derivative, and not to 0 times infinity.
        return np.where(
            is_nothing, 0.0, np.exp(self._logpdf(np.where(is_nothing, self._point_inside(*shapes), y), *shapes))
        )

    def _power(self, at_last: bool, distance: Any, *shapes: Any) -> tuple[Any, Any] | None:
        """Return how the density depends on the distance to an end of the support, next to it, if by a power.

        Args:
            at_last: whether at the greatest number rather than at the least.
            distance: that of the standard variable.
            *shapes: the shape parameters.

        Returns:
            The exponent, and the logarithm of the factor before the power, or None.
        """
        return None

    def _of_standard(self, method: str, y: Any, shapes: Sequence[Any], scale: Any) -> Any:
        """Return a function of this family where it is neither beyond nor at an end of the support."""
        value = getattr(self, f"_{method}")(y, *shapes)
        if y.dtype is not _DOUBLE:
            value = narrowed(value, y)
        if (type(scale) is not Tensor and scale == 1) or method not in ("pdf", "logpdf"):
            return value
        return value / scale if method == "pdf" else value - np.log(scale)

    def _evaluated(self, method: str, x: Any, y: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return a function of this family, with the limits of its derivatives at an end where there is a power.

        There a slope may be infinite, and the standard variable does not depend on `scale`: what is infinite by y may
        have a limit by `scale`.
        """
        if not self._has_powers:
            return self._of_standard(method, y, shapes, moves[1])
        bare = raw(y)
        first, last = (raw(end) for end in self._support(*shapes))
        is_end = (bare == first) | (bare == last)
        if not holds_somewhere(is_end):
            return self._of_standard(method, y, shapes, moves[1])
        point = self._point_inside(*shapes)
        value = self._of_standard(method, np.where(is_end, point, y), shapes, moves[1])
        for at_last, end in ((False, first), (True, last)):
            is_here = bare == end
            if holds_somewhere(is_here):
                found = self._at_end(method, is_here, floating(x), shapes, moves, at_last)
                if found is None:
                    found = self._of_standard(method, np.where(is_here, y, point), shapes, moves[1])
                value = np.where(is_here, found, value)
        return value

    def _probability(self, method: str, x: Any, y: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return a probability of this family, or its logarithm, without a history where it is certain far out.

        There the density underflows, and so would all derivatives, if they were not quotients of what does.
        """
        value = self._evaluated(method, x, y, shapes, moves)
        if not (isinstance(value, Tensor) and value.requires_grad):
            return value
        bare = raw(value)
        is_certain = (bare == 0) if method.startswith("log") else (bare == 0) | (bare == 1)
        if not holds_somewhere(is_certain):
            return value
        plain, constants = asarray(raw(y)), [asarray(raw(one)) for one in shapes]
        with np.errstate(all="ignore"):
            is_certain = is_certain & (raw(self._pdf(plain, *constants)) == 0)
            for other in () if method.startswith("log") else ("_cdf", "_sf"):
                found = raw(getattr(self, other)(plain, *constants))
                is_certain = is_certain & ((found == 0) | (found == 1))
        first, last = (raw(end) for end in self._support(*shapes))
        is_certain = is_certain & (raw(y) != first) & (raw(y) != last)
        if not holds_somewhere(is_certain):
            return value
        # At another point, where no derivative overflows.
        y = np.where(is_certain, self._point_inside(*shapes), y)
        shapes = [np.where(is_certain, raw(one), one) for one in shapes]
        return np.where(is_certain, bare, self._evaluated(method, x, y, shapes, moves))

    def _at_end(
        self, method: str, is_here: Any, x: Any, shapes: Sequence[Any], moves: Sequence[Any], at_last: bool
    ) -> Any:
        """Return a function of this family by the power next to an end of the support, or None if there is none.

        Args:
            method: the function.
            is_here: where the variable is at that end.
            x: the variable.
            shapes: the shape parameters.
            moves: where the distribution is, and its scale.
            at_last: whether at the greatest number rather than at the least.
        """
        loc, scale = moves
        end = self._support(*shapes)[at_last]
        # An end may depend on shapes, of which some are of other elements: those that are infinite have no slope.
        end = self._moved_and_scaled(np.where(is_here, end, 0.0), moves) if np.any(raw(end)) else loc
        distance = np.where(is_here, end - x if at_last else x - end, 1.0)
        # Exactly, whatever the rounding.
        distance = distance - np.where(is_here, raw(distance), 0.0)
        power = self._power(at_last, np.where(is_here, distance, 0.0) / scale, *shapes)
        if power is None:
            return None
        exponent, factor = power
        if method == "pdf":
            # What is infinite is so by the exponent above all.
            is_pole = raw(exponent) < 0
            factor = np.where(is_pole, raw(factor), factor)
            factor = factor - (np.where(is_pole, raw(exponent), exponent) + 1) * np.log(scale)
            return distance_power_.call(distance, exponent) * self._exp_where(is_here, factor)
        factor = factor - (exponent + 1) * np.log(scale)
        if method == "logpdf":
            return distance_log_.call(distance, exponent) + factor
        _, start = self._power(at_last, 0.0, *shapes) or power
        # The integral of a power times an exponential function, next to 0.
        rate = (power[1] - start) * ((exponent + 1) / (exponent + 2)) - np.log(exponent + 1)
        factor = start - (exponent + 1) * np.log(scale) + rate
        is_near = method.endswith("sf") == at_last
        if method.startswith("log") and is_near:
            return distance_log_.call(distance, exponent + 1) + factor
        near = distance_power_.call(distance, exponent + 1) * self._exp_where(is_here, factor)
        if is_near:
            return near
        return np.log1p(-np.where(is_here, near, 0.0)) if method.startswith("log") else 1 - near

    @staticmethod
    def _exp_where(mask: Any, y: Any) -> Any:
        """Return exp(y) where a mask holds, which 0 is multiplied by, and so must be finite."""
        return np.exp(np.minimum(np.where(mask, y, 0.0), 700.0))

    def _valid(self, *shapes: Any) -> Any:
        """Return where shape parameters are allowed: by default where they are positive."""
        result: Any = np.True_
        for shape in shapes:
            result = result & (shape > 0)
        return result

    def _standard(self, x: Any, moves: Sequence[Any]) -> Any:
        loc, scale = moves
        y = floating(x)
        y = y if type(loc) is not Tensor and loc == 0 else y - loc
        return y if type(scale) is not Tensor and scale == 1 else y / scale

    def _inside(
        self, method: str, x: Any, args: Sequence[Any], kwds: Mapping[str, Any]
    ) -> tuple[Any, list[Any], list[Any], Any, Any]:
        """Return the standard variable, safe outside of the support, the parameters, and what lies below and above."""
        shapes, moves = self._split(method, args, kwds)
        y = self._standard(x, moves)
        if y.dtype.char not in "dD" and shapes:
            # As wide as the result, for it has digits that a narrow function of y alone has not.
            y = y.astype(np.result_type(raw(y), *map(raw, shapes)), copy=False)
        first, last = (raw(end) for end in self._support(*shapes))
        bare = raw(y)
        # Infinity, where a density may be a difference of infinities, counts as outside; a finite end excludes it.
        if type(first) is float:
            below = bare == first if first == -np.inf else bare < first
        else:
            below = (bare < first) | (bare == -np.inf)
        if type(last) is float:
            above = bare == last if last == np.inf else bare > last
        else:
            above = (bare > last) | (bare == np.inf)
        flat_start, flat_end = self._flat_ends(*shapes)
        below = below if flat_start is False else below | ((bare == first) & flat_start)
        above = above if flat_end is False else above | ((bare == last) & flat_end)
        outside = below | above
        if holds_somewhere(outside):
            infinite = np.isinf(bare)
            if infinite.any():
                # A gradient of 0 times infinity is no number, and `scale` would get it.
                y = self._standard(np.where(infinite, 0.0, floating(x)), moves)
            y = np.where(outside, self._point_inside(*shapes), y)
        return y, shapes, moves, below, above

    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the density at `x`; -inf outside of the support."""
        y, shapes, moves, below, above = self._inside("logpdf", x, args, kwds)
        value = self._evaluated("logpdf", x, y, shapes, moves)
        return self._filled(value, ((below | above, -np.inf),), shapes, moves)

    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the density at `x`; 0 outside of the support."""
        y, shapes, moves, below, above = self._inside("pdf", x, args, kwds)
        value = self._evaluated("pdf", x, y, shapes, moves)
        return self._filled(value, ((below | above, 0.0),), shapes, moves)

    def cdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values up to `x`."""
        y, shapes, moves, below, above = self._inside("cdf", x, args, kwds)
        value = self._probability("cdf", x, y, shapes, moves)
        return self._filled(value, ((below, 0.0), (above, 1.0)), shapes, moves)

    def sf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values above `x`."""
        y, shapes, moves, below, above = self._inside("sf", x, args, kwds)
        value = self._probability("sf", x, y, shapes, moves)
        return self._filled(value, ((below, 1.0), (above, 0.0)), shapes, moves)

    def logcdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `cdf`."""
        y, shapes, moves, below, above = self._inside("logcdf", x, args, kwds)
        value = self._probability("logcdf", x, y, shapes, moves)
        return self._filled(value, ((below, -np.inf), (above, 0.0)), shapes, moves)

    def logsf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `sf`."""
        y, shapes, moves, below, above = self._inside("logsf", x, args, kwds)
        value = self._probability("logsf", x, y, shapes, moves)
        return self._filled(value, ((below, 0.0), (above, -np.inf)), shapes, moves)

    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value up to which the probability is `q`."""
        return self._quantile("ppf", self._ppf, q, args, kwds, reverse=False)

    def isf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value above which the probability is `q`."""
        return self._quantile("isf", self._isf, q, args, kwds, reverse=True)

    def _quantile(
        self, method: str, function: Any, q: Any, args: Sequence[Any], kwds: Mapping[str, Any], *, reverse: bool
    ) -> Any:
        shapes, moves = self._split(method, args, kwds)
        q = floating(q)
        if q.dtype.char not in "dD" and shapes:
            q = q.astype(np.result_type(raw(q), *map(raw, shapes)), copy=False)
        bare = raw(q)
        is_plain = ((bare > 0) & (bare < 1)).all()
        first, last = self._support(*shapes)[:: -1 if reverse else 1]
        value = function(q if is_plain else np.where((bare > 0) & (bare < 1), q, 0.5), *shapes)
        if isinstance(value, Tensor) and value.requires_grad:
            # Where a quantile underflows to an end at 0, or overflows, it depends on nothing any more.
            is_lost = np.isinf(raw(value)) | ((raw(value) == 0) & ((raw(first) == 0) | (raw(last) == 0)))
            is_lost = is_lost if is_plain else is_lost | (bare <= 0) | (bare >= 1)
            if holds_somewhere(is_lost):
                inside = np.where(is_lost, 0.5, q)
                found = function(inside, *(np.where(is_lost, raw(one), one) for one in shapes))
                value = np.where(is_lost, raw(value), found)
        if not is_plain:
            value = np.where(bare == 0, first, np.where(bare == 1, last, value))
            value = self._following_at_ends(value, q, shapes, -1 if reverse else 1)
            value = np.where((bare >= 0) & (bare <= 1), value, np.nan)
        value = value if q.dtype is _DOUBLE else narrowed(value, q)
        return self._checked(self._moved_and_scaled(value, moves), shapes, moves)

    def _following_at_ends(self, value: Any, q: Any, shapes: Sequence[Any], sign: int) -> Any:
        """Return quantiles that depend on probabilities of 0 and 1, too, by one over the density there."""
        if not isinstance(q, Tensor) or not q.requires_grad:
            return value
        at_end = (raw(q) == 0) | (raw(q) == 1)
        density = raw(self.pdf(np.where(at_end, raw(value), self._inner), *map(raw, shapes)))
        with np.errstate(divide="ignore"):
            slope = np.where(at_end, sign / density, 0.0)
        return end_.call(value, np.broadcast_to(q, slope.shape), slope)

    def median(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the value up to which the probability is one half."""
        return self.ppf(0.5, *args, **kwds)

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws, SciPy's own, which depend on the parameters as quantiles do.

        Args:
            *args: the parameters.
            size: the shape of the result; None for that of the parameters.
            random_state: a seed or a generator of NumPy's, or None.
            **kwds: the parameters by name.
        """
        args, size = self._with_size(args, size)
        shapes, moves = self._split("rvs", args, kwds)
        bare = [np.asarray(raw(one)) for one in (*shapes, *moves)]
        shape = np.broadcast_shapes(*(one.shape for one in bare)) if size is None else size
        family = getattr(scipy_stats, self.name)
        draws = np.asarray(family.rvs(*bare[: len(shapes)], size=shape, random_state=random_state))
        if any(isinstance(shape, Tensor) and shape.requires_grad for shape in shapes):
            draws = self._following(draws, shapes)
        return self._checked(asarray(self._moved_and_scaled(asarray(draws), moves)), shapes, moves)

    def _following(self, draws: Any, shapes: Sequence[Any]) -> Any:
        """Return draws as quantiles of their probabilities, so that they move with the shapes."""
        bare = [raw(shape) for shape in shapes]
        below, above = raw(self._cdf(asarray(draws), *bare)), raw(self._sf(asarray(draws), *bare))
        is_low = below <= 0.5
        quantiles = np.where(
            is_low,
            self._ppf(np.where(is_low, below, 0.5), *shapes),
            self._isf(np.where(is_low, 0.5, above), *shapes),
        )
        return quantiles + (draws - raw(quantiles))

    def _expected_between(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the limits of the mean of a function of the standard variable: by default the ends of the support."""
        return self._support(*shapes)

    def expect(
        self,
        func: Callable[[Any], Any] | None = None,
        args: Sequence[Any] = (),
        loc: Any = 0,
        scale: Any = 1,
        lb: Any = None,
        ub: Any = None,
        conditional: bool = False,
        **kwds: Any,
    ) -> Tensor:
        """Return the mean of a function of the variable, by `integrate.quad`.

        It is differentiable by the parameters and the limits. A tensor that requires grad and that `func` uses gets no
        gradient: it raises.

        Args:
            func: takes a number and returns one; None for the number itself.
            args: the shape parameters.
            loc: as for the density.
            scale: as for the density.
            lb: the limits; None for the ends of the support.
            ub: the limits; None for the ends of the support.
            conditional: whether to divide by the probability between the limits.
            **kwds: passed on to `quad`.
        """
        check_plain(func, self.name)
        shapes, (loc, scale) = self._split("expect", (*args, loc, scale), {})
        first, last = self._expected_between(*shapes)
        # Beyond the support the formula of the density means nothing.
        first, last = (
            end if limit is None else np.clip((floating(limit) - loc) / scale, first, last)
            for end, limit in ((first, lb), (last, ub))
        )

        def integrand(y: Any, shapes: Any, loc: Any, scale: Any) -> Any:
            density = self._pdf(floating(y), *shapes)
            return density * (y * scale + loc if func is None else func(y * scale + loc))

        is_whole = "points" in kwds or "weight" in kwds
        ends = [first, last] if is_whole else self._parted(first, last, shapes)
        if func is None and not kwds and not any(np.ndim(one) for one in (first, last, loc, scale, *shapes)):
            value = self._integral_of_power(1, first, last, shapes, (loc, scale))
        else:
            parts = [quad(integrand, low, high, (shapes, loc, scale), **kwds)[0] for low, high in pairwise(ends)]
            value = sum(parts[1:], parts[0])
        if conditional:
            # The ends of the support are no points inside of it.
            above = 0.0 if ub is None else self.sf(ub, *shapes, loc, scale)
            value = value / (1 - above - (0.0 if lb is None else self.cdf(lb, *shapes, loc, scale)))
        return self._checked(value, shapes, [loc, scale])
