"""What all distributions of one variable share: their arguments, what lies outside of the support, and quantiles.

A family of distributions is known by its standard form, which its subclass gives as functions of a standard variable
and of shape parameters. Here these are moved by `loc` and scaled by `scale`; outside of the support, and for parameters
that are none, the gradient is 0.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...context import is_kind
from ...errors import ArgumentError
from ...graph.values import raw
from ...tensor import Tensor, asarray
from ..arguments import floating
from ..error_names import name_errors_of_methods
from ..integrate.quadrature import quad
from ..left_out import refuse_method
from .distances import distance_log_, distance_power_
from .log_tails import log_probability

__all__ = ["ContinuousDistribution", "DiscreteDistribution", "Frozen", "UnivariateDistribution"]


@name_errors_of_methods
class UnivariateDistribution(ABC):
    """Abstract: a family of distributions of one variable.

    Attributes:
        name: SciPy's.
        shapes: the names of the shape parameters, in order.
    """

    __slots__ = ("name",)

    shapes: tuple[str, ...] = ()
    #: The parameters after the shapes, with their defaults.
    _moves: tuple[tuple[str, float], ...] = (("loc", 0),)

    def __init_subclass__(cls) -> None:
        """Have the methods name themselves in errors."""
        name_errors_of_methods(cls)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __getattr__(self, name: str) -> Any:
        """Refuse what SciPy's distribution has beside this; the error names what to write instead."""
        if name == "name":
            # A copy is asked before it has one.
            raise AttributeError(name)
        raise refuse_method(self, self.name, name)

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with given parameters."""
        self._parameters("", args, kwds)
        return Frozen(self, args, kwds)

    def freeze(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with given parameters."""
        return self(*args, **kwds)

    def __repr__(self) -> str:
        return f"<asyncgrad.scipy.stats.{self.name}>"

    def _parameters(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> list[Any]:
        """Return the shapes, and then loc and scale, as tensors, or as the numbers 0 and 1 where these are meant.

        Raises:
            TypeError: one is missing, given twice, or not known.
        """
        names = [*self.shapes, *(name for name, _ in self._moves)]
        where = f"scipy.stats.{self.name}" + (f".{method}" if method else "")
        if len(args) > len(names):
            raise TypeError(f"{where} takes the parameters {', '.join(names)}, not {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwds.items():
            if name not in names:
                raise TypeError(f"{where} has no parameter {name!r}: it takes {', '.join(names)}")
            if name in given:
                raise TypeError(f"{where} got {name!r} twice")
            given[name] = value
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise TypeError(f"{where} needs {', '.join(missing)}")
        found = [floating(given[name]) for name in self.shapes]
        for name, default in self._moves:
            value = given.get(name, default)
            is_default = type(value) in (int, float) and value == default
            found.append(default if is_default else floating(value))
        return found

    @abstractmethod
    def _valid(self, *shapes: Any) -> Any:
        """Return where shape parameters are allowed, for arrays."""

    @abstractmethod
    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the ends of the support of the standard form."""

    @abstractmethod
    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the mean and the variance of the standard form."""

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        """Return the skewness and the kurtosis less that of the normal distribution."""
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{self.name} has no moments of third and fourth order: call SciPy on arrays, or "
            f"integrate with {self.name}.expect"
        )

    def _entropy(self, *shapes: Any) -> Any:
        raise ArgumentError(f"scipy.stats.{self.name}.entropy has no derivative rule: call SciPy on arrays")

    @staticmethod
    def _shifted(value: Any, loc: Any) -> Any:
        return value if type(loc) is not Tensor and loc == 0 else value + loc

    @staticmethod
    def _scaled(value: Any, scale: Any) -> Any:
        return value if type(scale) is not Tensor and scale == 1 else value * scale

    def _moved_and_scaled(self, value: Any, moves: Sequence[Any]) -> Any:
        loc, *scales = moves
        for scale in scales:
            value = self._scaled(value, scale)
        return self._shifted(value, loc)

    def _checked(self, value: Any, shapes: Sequence[Any], moves: Sequence[Any]) -> Any:
        """Return a value, with nan where the parameters are none."""
        valid = np.asarray(self._valid(*map(raw, shapes)))
        if type(moves[0]) is Tensor or moves[0] != 0:
            valid = valid & ~np.isnan(raw(moves[0]))
        for scale in moves[1:]:
            if type(scale) is Tensor or scale != 1:
                valid = valid & np.asarray(raw(scale) > 0)
        is_valid = bool(valid) if valid.ndim == 0 else valid.all()
        return asarray(value) if is_valid else np.where(valid, value, np.nan)

    def mean(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the mean."""
        shapes, moves = self._split("mean", args, kwds)
        mean, _ = self._mean_and_variance(*shapes)
        return self._checked(self._moved_and_scaled(floating(mean), moves), shapes, moves)

    def var(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the variance."""
        shapes, moves = self._split("var", args, kwds)
        _, variance = self._mean_and_variance(*shapes)
        variance = floating(variance)
        for scale in moves[1:]:
            variance = self._scaled(self._scaled(variance, scale), scale)
        return self._checked(variance, shapes, moves)

    def std(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the standard deviation."""
        return np.sqrt(self.var(*args, **kwds))

    def _shape_moment(self, method: str, which: int, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        shapes, moves = self._split(method, args, kwds)
        return self._checked(floating(self._skewness_and_kurtosis(*shapes)[which]), shapes, moves)

    def stats(self, *args: Any, moments: str = "mv", **kwds: Any) -> Any:
        """Return moments, of one letter each.

        Args:
            *args: the parameters.
            moments: letters of "m", the mean, "v", the variance, "s", the skewness, and "k", the kurtosis, which is 0
                for the normal distribution.
            **kwds: the parameters by name.

        Returns:
            One Tensor, or a tuple of them in the order of the letters above.
        """
        if not moments or any(letter not in "mvsk" for letter in moments):
            raise ArgumentError(f"scipy.stats.{self.name}.stats has the moments 'm', 'v', 's' and 'k', not {moments!r}")
        known: dict[str, Callable[[], Any]] = {
            "m": lambda: self.mean(*args, **kwds),
            "v": lambda: self.var(*args, **kwds),
            "s": lambda: self._shape_moment("stats", 0, args, kwds),
            "k": lambda: self._shape_moment("stats", 1, args, kwds),
        }
        found = tuple(known[letter]() for letter in "mvsk" if letter in moments)
        return found if len(found) > 1 else found[0]

    def moment(self, order: int, *args: Any, **kwds: Any) -> Tensor:
        """Return the mean of a power of the variable, up to the fourth.

        Args:
            order: the power.
            *args: the parameters.
            **kwds: the parameters by name.

        Raises:
            ArgumentError: the order is no whole number from 0 to 4.
        """
        if not isinstance(order, int | np.integer) or not 0 <= order <= 4:
            raise ArgumentError(
                f"asyncgrad.scipy.stats.{self.name}.moment takes an order from 0 to 4, not {order!r}: write "
                f"{self.name}.expect(lambda x: x**{order})"
            )
        mean = self.mean(*args, **kwds)
        if order <= 1:
            return mean if order else mean * 0 + 1
        variance = self.var(*args, **kwds)
        value = variance + mean * mean
        if order >= 3:
            third = self._shape_moment("moment", 0, args, kwds) * variance**1.5
            value = third + mean * (3 * variance + mean * mean)
        if order == 4:
            fourth = (self._shape_moment("moment", 1, args, kwds) + 3) * (variance * variance)
            value = fourth + mean * (4 * third + mean * (6 * variance + mean * mean))
        return asarray(value)

    def support(self, *args: Any, **kwds: Any) -> tuple[Any, Any]:
        """Return the ends of the support."""
        shapes, moves = self._split("support", args, kwds)
        first, last = (self._moved_and_scaled(floating(end), moves) for end in self._support(*shapes))
        size = np.broadcast_shapes(*(np.shape(one) for one in (first, last, *shapes, *moves)))
        return asarray(np.broadcast_to(first, size)), asarray(np.broadcast_to(last, size))

    @abstractmethod
    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the value up to which the probability is `q`."""

    def interval(self, confidence: Any, *args: Any, **kwds: Any) -> tuple[Tensor, Tensor]:
        """Return the ends of the interval of a probability, with equal probabilities beyond both.

        Raises:
            ValueError: it is no probability.
        """
        confidence = floating(confidence)
        if np.any((raw(confidence) < 0) | (raw(confidence) > 1)):
            raise ValueError(f"scipy.stats.{self.name}.interval takes a confidence from 0 to 1, not {confidence}")
        # As SciPy has it: a quantile of whole numbers jumps where its probability differs by a rounding.
        return self.ppf((1.0 - confidence) / 2, *args, **kwds), self.ppf((1.0 + confidence) / 2, *args, **kwds)

    def entropy(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the entropy, differential for continuous distributions, in nats."""
        shapes, moves = self._split("entropy", args, kwds)
        value = floating(self._entropy(*shapes))
        for scale in moves[1:]:
            value = value if type(scale) is not Tensor and scale == 1 else value + np.log(scale)
        return self._checked(value, shapes, moves)

    def fit(self, *args: Any, **kwds: Any) -> Any:
        """Refuse: parameters are fitted by minimizing a loss.

        Raises:
            ArgumentError: always.
        """
        density = "logpdf" if isinstance(self, ContinuousDistribution) else "logpmf"
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{self.name} has no fit: minimize -np.sum(stats.{self.name}.{density}(data, ...)) "
            "by the parameters, or call SciPy's fit on arrays"
        )

    def _split(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        found = self._parameters(method, args, kwds)
        loc, *scales = found[len(self.shapes) :]
        return found[: len(self.shapes)], [loc, *map(_positive, scales)]


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

    @abstractmethod
    def _logpdf(self, y: Any, *shapes: Any) -> Any:
        """Return the logarithm of the density of the standard form, inside of the support."""

    @abstractmethod
    def _cdf(self, y: Any, *shapes: Any) -> Any:
        """Return the distribution function of the standard form, inside of the support."""

    @abstractmethod
    def _ppf(self, q: Any, *shapes: Any) -> Any:
        """Return the quantiles of the standard form, for 0 < q < 1."""

    def _sf(self, y: Any, *shapes: Any) -> Any:
        return 1 - self._cdf(y, *shapes)

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

    def _integral(self, function: Callable[..., Any], first: Any, last: Any, shapes: Sequence[Any]) -> Any:
        if any(np.ndim(one) for one in (first, last, *shapes)):
            # One integral for each element.
            size = np.broadcast_shapes(*[np.shape(one) for one in (first, last, *shapes)])
            parts = [np.broadcast_to(one, size) for one in (first, last, *shapes)]
            found = [
                self._integral(function, low, high, rest)
                for low, high, *rest in ([part[index] for part in parts] for index in np.ndindex(size))
            ]
            return np.reshape(np.stack(found), size) if found else np.zeros(size)
        return quad(lambda y, *shapes: function(floating(y), *shapes), first, last, tuple(shapes))[0]

    def _entropy(self, *shapes: Any) -> Any:
        """Return the entropy of the standard form, by default as an integral."""

        def integrand(y: Any, *shapes: Any) -> Any:
            logarithm = self._logpdf(y, *shapes)
            # Where the density underflows, so does the product.
            return -np.exp(logarithm) * np.maximum(logarithm, -800.0)

        return self._integral(integrand, *self._support(*shapes), shapes)

    def _pdf(self, y: Any, *shapes: Any) -> Any:
        logarithm = self._logpdf(y, *shapes)
        is_nothing = raw(logarithm) < -800
        if not np.any(is_nothing):
            return np.exp(logarithm)
        # Where the density underflows so does its derivative, and not to 0 times infinity.
        return np.where(is_nothing, 0.0, np.exp(self._logpdf(np.where(is_nothing, self._inner, y), *shapes)))

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
        if not _holds_somewhere(is_end):
            return self._of_standard(method, y, shapes, moves[1])
        value = self._of_standard(method, np.where(is_end, self._inner, y), shapes, moves[1])
        for at_last, end in ((False, first), (True, last)):
            is_here = bare == end
            if _holds_somewhere(is_here):
                found = self._at_end(method, is_here, floating(x), shapes, moves, at_last)
                if found is None:
                    found = self._of_standard(method, np.where(is_here, y, self._inner), shapes, moves[1])
                value = np.where(is_here, found, value)
        return value

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
        end = self._moved_and_scaled(end, moves) if end else loc
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
        below = below | (bare == first) if self._flat_start else below
        above = above | (bare == last) if self._flat_end else above
        outside = below | above
        if _holds_somewhere(outside):
            infinite = np.isinf(bare)
            if infinite.any():
                # A gradient of 0 times infinity is no number, and `scale` would get it.
                y = self._standard(np.where(infinite, 0.0, floating(x)), moves)
            y = np.where(outside, self._inner, y)
        return y, shapes, moves, below, above

    def _filled(
        self, value: Any, parts: Sequence[tuple[Any, float]], shapes: Sequence[Any], moves: Sequence[Any]
    ) -> Any:
        for mask, outside in parts:
            if _holds_somewhere(mask):
                value = np.where(mask, outside, value)
        return self._checked(value, shapes, moves)

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
        return self._filled(self._evaluated("cdf", x, y, shapes, moves), ((below, 0.0), (above, 1.0)), shapes, moves)

    def sf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values above `x`."""
        y, shapes, moves, below, above = self._inside("sf", x, args, kwds)
        return self._filled(self._evaluated("sf", x, y, shapes, moves), ((below, 1.0), (above, 0.0)), shapes, moves)

    def logcdf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `cdf`."""
        y, shapes, moves, below, above = self._inside("logcdf", x, args, kwds)
        value = self._evaluated("logcdf", x, y, shapes, moves)
        return self._filled(value, ((below, -np.inf), (above, 0.0)), shapes, moves)

    def logsf(self, x: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `sf`."""
        y, shapes, moves, below, above = self._inside("logsf", x, args, kwds)
        value = self._evaluated("logsf", x, y, shapes, moves)
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
        bare = raw(q)
        is_plain = ((bare > 0) & (bare < 1)).all()
        value = function(q if is_plain else np.where((bare > 0) & (bare < 1), q, 0.5), *shapes)
        if not is_plain:
            first, last = self._support(*shapes)[:: -1 if reverse else 1]
            value = np.where(bare == 0, first, np.where(bare == 1, last, value))
            value = np.where((bare >= 0) & (bare <= 1), value, np.nan)
        return self._checked(self._moved_and_scaled(value, moves), shapes, moves)

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
        _check_plain(func, self.name)
        shapes, (loc, scale) = self._split("expect", (*args, loc, scale), {})
        first, last = self._support(*shapes)
        # Beyond the support the formula of the density means nothing.
        first, last = (
            end if limit is None else np.clip((floating(limit) - loc) / scale, first, last)
            for end, limit in ((first, lb), (last, ub))
        )

        def integrand(y: Any, shapes: Any, loc: Any, scale: Any) -> Any:
            density = self._pdf(floating(y), *shapes)
            return density * (y * scale + loc if func is None else func(y * scale + loc))

        value = quad(integrand, first, last, (shapes, loc, scale), **kwds)[0]
        if conditional:
            # The ends of the support are no points inside of it.
            above = 0.0 if ub is None else self.sf(ub, *shapes, loc, scale)
            value = value / (1 - above - (0.0 if lb is None else self.cdf(lb, *shapes, loc, scale)))
        return self._checked(value, shapes, [loc, scale])


class DiscreteDistribution(UnivariateDistribution):
    """Abstract: a family of distributions of whole numbers, which have no derivative; its parameters have."""

    __slots__ = ()

    @abstractmethod
    def _logpmf(self, k: Any, *shapes: Any) -> Any:
        """Return the logarithm of the probability of whole numbers in the support, an array."""

    @abstractmethod
    def _cdf(self, k: Any, *shapes: Any) -> Any:
        """Return the probability of values up to whole numbers in the support."""

    def _sf(self, k: Any, *shapes: Any) -> Any:
        return 1 - self._cdf(k, *shapes)

    def _log_below(self, mask: Any, k: Any, *shapes: Any) -> Any:
        """Return the logarithm of the probability of values up to k where a mask holds, for it underflows there."""
        return -np.inf

    def _log_above(self, mask: Any, k: Any, *shapes: Any) -> Any:
        """Return the logarithm of the probability of values above k where a mask holds, for it underflows there."""
        return -np.inf

    def _entropy(self, *shapes: Any) -> Any:
        """Return the entropy, by default as the sum over all numbers but those of two tails below 1e-20."""
        family = getattr(scipy_stats, self.name)(*map(raw, shapes))
        # Those of invalid parameters are nan, and so is their entropy, later.
        first, last = np.broadcast_arrays(*(np.nan_to_num(end) for end in (family.ppf(1e-20), _greatest(family))))
        count = int(np.max(last - first, initial=0.0)) + 1
        numbers = first + np.arange(count).reshape(-1, *(1,) * first.ndim)
        logarithm = self._logpmf(np.minimum(numbers, last), *shapes)
        is_counted = (numbers <= last) & (raw(logarithm) > -np.inf)
        logarithm = np.where(is_counted, logarithm, 0.0)
        return 0.0 - np.sum(np.exp(logarithm) * logarithm, axis=0)

    def _numbers(
        self, method: str, k: Any, args: Sequence[Any], kwds: Mapping[str, Any]
    ) -> tuple[Any, list[Any], list[Any], Any, Any, Any]:
        """Return whole numbers, safe outside of the support, the parameters, and what lies below, above and nowhere."""
        shapes, moves = self._split(method, args, kwds)
        numbers = raw(floating(k))
        if type(moves[0]) is Tensor or moves[0] != 0:
            numbers = numbers - raw(moves[0])
        first, last = (raw(end) for end in self._support(*shapes))
        below, above = numbers < first, numbers > last
        if _holds_somewhere(below | above):
            numbers = np.where(below, first, np.where(above, np.where(np.isfinite(last), last, first), numbers))
        missing = np.isnan(numbers)
        if _holds_somewhere(missing):
            # What is masked must be a number all the same, for gradients of 0 times it are nan otherwise.
            numbers = np.where(missing, 0.0, numbers)
        return numbers, shapes, moves, below, above, missing

    def _filled(self, value: Any, parts: Sequence[tuple[Any, float]], shapes: Any, moves: Any) -> Any:
        """Return a value, with others where a mask says so, and nan where the parameters are none."""
        for mask, outside in parts:
            if _holds_somewhere(mask):
                value = np.where(mask, outside, value)
        return self._checked(value, shapes, moves)

    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the probability of `k`; -inf outside of the support and between whole numbers."""
        numbers, shapes, moves, below, above, missing = self._numbers("logpmf", k, args, kwds)
        whole = np.floor(numbers)
        value = self._logpmf(whole, *shapes)
        return self._filled(value, ((below | above | (whole != numbers), -np.inf), (missing, np.nan)), shapes, moves)

    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of `k`."""
        numbers, shapes, moves, below, above, missing = self._numbers("pmf", k, args, kwds)
        whole = np.floor(numbers)
        value = np.exp(self._logpmf(whole, *shapes))
        return self._filled(value, ((below | above | (whole != numbers), 0.0), (missing, np.nan)), shapes, moves)

    def cdf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values up to `k`."""
        numbers, shapes, moves, below, above, missing = self._numbers("cdf", k, args, kwds)
        value = self._cdf(np.floor(numbers), *shapes)
        return self._filled(value, ((below, 0.0), (above, 1.0), (missing, np.nan)), shapes, moves)

    def sf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of values above `k`."""
        numbers, shapes, moves, below, above, missing = self._numbers("sf", k, args, kwds)
        value = self._sf(np.floor(numbers), *shapes)
        return self._filled(value, ((below, 1.0), (above, 0.0), (missing, np.nan)), shapes, moves)

    def logcdf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `cdf`."""
        numbers, shapes, moves, below, above, missing = self._numbers("logcdf", k, args, kwds)
        whole = np.floor(numbers)
        value = log_probability(
            self._cdf(whole, *shapes),
            lambda: self._sf(whole, *shapes),
            lambda mask: self._log_below(mask, whole, *shapes),
        )
        return self._filled(value, ((below, -np.inf), (above, 0.0), (missing, np.nan)), shapes, moves)

    def logsf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of `sf`."""
        numbers, shapes, moves, below, above, missing = self._numbers("logsf", k, args, kwds)
        inside = ~(below | above) & (numbers < np.asarray(raw(self._support(*shapes)[1])))
        whole = np.floor(numbers)
        value = log_probability(
            np.where(inside, self._sf(whole, *shapes), 0.5),
            lambda: self._cdf(whole, *shapes),
            lambda mask: self._log_above(mask, whole, *shapes),
        )
        return self._filled(value, ((~inside, -np.inf), (below, 0.0), (missing, np.nan)), shapes, moves)

    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the least number up to which the probability is at least `q`; it has no derivative."""
        return self._of_scipy("ppf", q, args, kwds)

    def isf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the least number above which the probability is at most `q`; it has no derivative."""
        return self._of_scipy("isf", q, args, kwds)

    def median(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the least number up to which the probability is one half; it has no derivative."""
        return self.ppf(0.5, *args, **kwds)

    def expect(
        self,
        func: Callable[[Any], Any] | None = None,
        args: Sequence[Any] = (),
        loc: Any = 0,
        lb: Any = None,
        ub: Any = None,
        conditional: bool = False,
    ) -> Tensor:
        """Return the mean of a function of the variable: the sum over all numbers but those of a tail below 1e-20.

        Args:
            func: takes an array of whole numbers and returns one of its shape; None for the numbers themselves.
            args: the shape parameters.
            loc: as for the probabilities.
            lb: the least number; None for that of the support.
            ub: the greatest number; None for that of the support.
            conditional: whether to divide by the probability between these.

        Raises:
            ArgumentError: a parameter is no single number.
        """
        _check_plain(func, self.name)
        parameters = self._parameters("expect", (*args, loc), {})
        bare = [np.asarray(raw(one)) for one in parameters]
        if any(one.size != 1 for one in bare):
            raise ArgumentError(f"scipy.stats.{self.name}.expect takes parameters that are single numbers")
        family = getattr(scipy_stats, self.name)(*(one.item() for one in bare))
        first, last = family.support()[0], _greatest(family)
        first = first if lb is None else max(first, float(raw(asarray(lb))))
        last = last if ub is None else min(last, float(raw(asarray(ub))))
        numbers = np.arange(np.ceil(first), np.floor(last) + 1)
        probabilities = self.pmf(numbers, *parameters)
        value = np.sum(probabilities * (numbers if func is None else func(numbers)))
        return asarray(value / np.sum(probabilities) if conditional else value)

    def _of_scipy(self, method: str, q: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        bare = [raw(one) for one in self._parameters(method, args, kwds)]
        return asarray(getattr(getattr(scipy_stats, self.name), method)(raw(floating(q)), *bare))

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws of SciPy's, whole numbers, which have no derivative.

        Raises:
            ArgumentError: a parameter requires grad: pass its values.
        """
        parameters = self._parameters("rvs", args, kwds)
        if any(isinstance(one, Tensor) and one.requires_grad for one in parameters):
            raise ArgumentError(
                f"scipy.stats.{self.name}.rvs gives whole numbers, which have no derivative: pass parameter.detach(), "
                "and weight a loss by logpmf of the draws"
            )
        # SciPy takes the number of trials as an int only.
        bare = [_whole(np.asarray(raw(one))) for one in parameters]
        return asarray(np.asarray(getattr(scipy_stats, self.name).rvs(*bare, size=size, random_state=random_state)))


def _greatest(family: Any) -> Any:
    """Return the greatest whole number of a frozen distribution of SciPy's, without a tail below 1e-20."""
    last = family.support()[1]
    # Its isf is nan for a probability so small.
    greatest = np.floor(family.mean() + family.std() + 10)
    while np.any(is_less := (greatest < last) & (family.sf(greatest) > 1e-20)):
        greatest = np.where(is_less, np.floor(1.5 * greatest), greatest)
    return np.minimum(last, greatest)


def _check_plain(func: Any, name: str) -> None:
    if is_kind(inspect.iscoroutinefunction, func):
        raise ArgumentError(
            f"asyncgrad.scipy.stats.{name}.expect takes a plain function: await integrate.quad of an async def that "
            "multiplies by the density"
        )


def _holds_somewhere(mask: Any) -> bool:
    # A mask of one element is a bool of NumPy's, whose method takes as long as the functions themselves.
    return bool(mask) if mask.ndim == 0 else bool(mask.any())


def _detached(shape: Any) -> Any:
    return asarray(raw(shape))


def _positive(scale: Any) -> Any:
    """Return a scale, with nan where it is not positive: no function warns of nan."""
    is_positive = raw(scale) > 0
    return scale if is_positive is True or np.all(is_positive) else np.where(is_positive, scale, np.nan)


def _whole(array: Any) -> Any:
    return array.astype(int) if (np.floor(array) == array).all() else array


#: Methods whose first argument is no parameter, and what others take beside the parameters.
_OF_VARIABLE = frozenset(
    ("cdf", "interval", "isf", "logcdf", "logpdf", "logpmf", "logsf", "moment", "pdf", "pmf", "ppf", "sf")
)
_OPTIONS = {"rvs": ("size", "random_state"), "stats": ("moments",)}


@final
class Frozen:
    """A distribution with its parameters: the methods of its family, without these.

    Args:
        dist: the family.
        args: the parameters.
        kwds: the parameters by name.
    """

    __slots__ = ("args", "dist", "kwds")

    def __init__(self, dist: UnivariateDistribution, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self.dist: UnivariateDistribution = dist
        self.args: tuple[Any, ...] = args
        self.kwds: dict[str, Any] = kwds

    def __getattr__(self, name: str) -> Any:
        """Return a method of the family that takes no parameters."""
        if name.startswith("_") or name in self.__slots__:
            # A copy is asked for them before it has any.
            raise AttributeError(name)
        method = getattr(type(self.dist), name, None)
        if method is None or name in ("fit", "freeze", "name", "shapes"):
            raise refuse_method(self.dist, self.dist.name, name)
        bound = getattr(self.dist, name)
        options = _OPTIONS.get(name, ())

        def call(*args: Any, **kwds: Any) -> Any:
            if name in _OF_VARIABLE:
                # What a method calls its first argument: x, k, q, confidence or order.
                return bound(*args, *kwds.values(), *self.args, **self.kwds)
            if len(args) > len(options):
                raise TypeError(
                    f"{name} of a distribution with its parameters takes {', '.join(options) or 'no arguments'}, not "
                    f"{len(args)} arguments"
                )
            return bound(*self.args, **self.kwds, **dict(zip(options, args, strict=False)), **kwds)

        return call

    def expect(
        self, func: Any = None, lb: Any = None, ub: Any = None, conditional: bool = False, **kwds: Any
    ) -> Tensor:
        """Return the mean of a function of the variable: see the family's method."""
        parameters = self.dist._parameters("expect", self.args, self.kwds)
        names = ("loc", "scale")[: len(parameters) - len(self.dist.shapes)]
        moves = dict(zip(names, parameters[len(self.dist.shapes) :], strict=True))
        shapes = parameters[: len(self.dist.shapes)]
        family: Any = self.dist
        found: Tensor = family.expect(func, shapes, lb=lb, ub=ub, conditional=conditional, **moves, **kwds)
        return found

    def __repr__(self) -> str:
        return f"<{self.dist!r} with parameters>"
