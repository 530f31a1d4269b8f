"""Distributions of whole numbers: probabilities, sums over the support, and SciPy's own quantiles and draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..special.rules import holds_somewhere
from .distribution import UnivariateDistribution, check_plain
from .log_tails import log_probability

__all__ = ["DiscreteDistribution"]

#: The most numbers that a sum over the support is over.
_MOST = 10_000_000


class DiscreteDistribution(UnivariateDistribution):
    """Abstract: a family of distributions of whole numbers, which have no derivative; its parameters have."""

    __slots__ = ()

    _log_density = "logpmf"

    @abstractmethod
    def _logpmf(self, k: Any, *shapes: Any) -> Any:
        """Return the logarithm of the probability of whole numbers in the support, an array."""

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
        count = self._count(first, last)
        numbers = first + np.arange(count).reshape(-1, *(1,) * first.ndim)
        logarithm = self._logpmf(np.minimum(numbers, last), *shapes)
        is_counted = (numbers <= last) & (raw(logarithm) > -np.inf)
        logarithm = np.where(is_counted, logarithm, 0.0)
        return 0.0 - np.sum(np.exp(logarithm) * logarithm, axis=0)

    def _count(self, first: Any, last: Any) -> int:
        """Return how many whole numbers there are, at most, from one to another.

        Raises:
            ArgumentError: there are too many to sum over.
        """
        width = np.max(last - first, initial=-1.0)
        if width >= _MOST:
            raise ArgumentError(
                f"scipy.stats.{self.name} with these parameters has a tail of which more than {_MOST:,} numbers have a "
                "part in a sum: call SciPy on arrays"
            )
        return int(width) + 1

    def _numbers(
        self, method: str, k: Any, args: Sequence[Any], kwds: Mapping[str, Any]
    ) -> tuple[Any, list[Any], list[Any], Any, Any, Any]:
        """Return whole numbers, safe outside of the support, the parameters, and what lies below, above and nowhere."""
        shapes, moves = self._split(method, args, kwds)
        numbers = raw(floating(k))
        if type(moves[0]) is Tensor or moves[0] != 0:
            numbers = numbers - raw(moves[0])
        first, last = (raw(end) for end in self._support(*shapes))
        # Infinity, which is in no support, is beyond each.
        below, above = (numbers < first) | (numbers == -np.inf), (numbers > last) | (numbers == np.inf)
        missing = np.isnan(numbers)
        if holds_somewhere(below | above | missing):
            # What is masked must be a number all the same, for gradients of 0 times it are nan otherwise.
            start, end = (np.where(np.isfinite(one), one, np.nan) for one in (first, last))
            start = np.where(np.isnan(start), np.where(np.isnan(end), 0.0, end), start)
            numbers = np.where(above & ~np.isnan(end), end, np.where(below | above | missing, start, numbers))
        return numbers, shapes, moves, below, above, missing

    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the logarithm of the probability of `k`; -inf outside of the support and between whole numbers."""
        numbers, shapes, moves, below, above, missing = self._numbers("logpmf", k, args, kwds)
        whole = np.floor(numbers)
        value = self._logpmf(whole, *shapes)
        return self._filled(value, ((below | above | (whole != numbers), -np.inf), (missing, np.nan)), shapes, moves)

    def _pmf(self, k: Any, *shapes: Any) -> Any:
        """Return the probability of whole numbers in the support."""
        return np.exp(self._logpmf(k, *shapes))

    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the probability of `k`."""
        numbers, shapes, moves, below, above, missing = self._numbers("pmf", k, args, kwds)
        whole = np.floor(numbers)
        value = self._pmf(whole, *shapes)
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
        """Return the least number up to which the probability is at least `q`; it has a derivative by `loc` alone."""
        return self._of_scipy("ppf", q, args, kwds)

    def isf(self, q: Any, *args: Any, **kwds: Any) -> Tensor:
        """Return the least number above which the probability is at most `q`; it has a derivative by `loc` alone."""
        return self._of_scipy("isf", q, args, kwds)

    def median(self, *args: Any, **kwds: Any) -> Tensor:
        """Return the least number up to which the probability is one half; it has a derivative by `loc` alone."""
        return self.ppf(0.5, *args, **kwds)

    def expect(
        self,
        func: Callable[[Any], Any] | None = None,
        args: Sequence[Any] = (),
        loc: Any = 0,
        lb: Any = None,
        ub: Any = None,
        conditional: bool = False,
        maxcount: int | None = None,
        tolerance: float | None = None,
        chunksize: int | None = None,
    ) -> Tensor:
        """Return the mean of a function of the variable: the sum over all numbers but those of a tail below 1e-20.

        Args:
            func: takes an array of whole numbers and returns one of its shape; None for the numbers themselves.
            args: the shape parameters.
            loc: as for the probabilities.
            lb: the least number; None for that of the support.
            ub: the greatest number; None for that of the support.
            conditional: whether to divide by the probability between these.
            maxcount: taken as SciPy takes it, and not needed: nothing is left out of the sum.
            tolerance: as `maxcount`.
            chunksize: as `maxcount`.

        Raises:
            ArgumentError: a parameter is no single number.
        """
        check_plain(func, self.name)
        numbers, probabilities = self._outcomes(self._parameters("expect", (*args, loc), {}), lb, ub)
        value = np.sum(probabilities * (numbers if func is None else func(numbers)))
        return asarray(value / np.sum(probabilities) if conditional else value)

    def _outcomes(self, parameters: Sequence[Any], lb: float | None, ub: float | None) -> tuple[Any, Any]:
        """Return the whole numbers between two bounds, each None for that of the support, and their probabilities."""
        bare = [np.asarray(raw(one)) for one in parameters]
        if any(one.size != 1 for one in bare):
            raise ArgumentError(f"scipy.stats.{self.name}.expect takes parameters that are single numbers")
        family = getattr(scipy_stats, self.name)(*(one.item() for one in bare))
        first, last = family.support()[0], _greatest(family)
        first = first if lb is None else max(first, float(raw(asarray(lb))))
        last = last if ub is None else min(last, float(raw(asarray(ub))))
        numbers = np.ceil(first) + np.arange(self._count(np.ceil(first), np.floor(last)))
        return numbers, self.pmf(numbers, *parameters)

    def _of_scipy(self, method: str, q: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        shapes, moves = self._split(method, args, kwds)
        found = getattr(getattr(scipy_stats, self.name), method)(raw(floating(q)), *map(raw, shapes))
        return self._checked(self._moved_and_scaled(asarray(found), moves), shapes, moves)

    def support(self, *args: Any, **kwds: Any) -> tuple[Any, Any]:
        """Return the ends of the support, whole numbers where SciPy's are."""
        parameters = self._parameters("support", args, kwds)
        if isinstance(parameters[-1], Tensor) and parameters[-1].requires_grad:
            return UnivariateDistribution.support(self, *args, **kwds)
        bare = [_exact(one) for one in (*args, *kwds.values())]
        ends = getattr(scipy_stats, self.name).support(
            *bare[: len(args)], **dict(zip(kwds, bare[len(args) :], strict=True))
        )
        first, last = (asarray(end) for end in ends)
        return first, last

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws of SciPy's, whole numbers, which have no derivative.

        Raises:
            ArgumentError: a parameter requires grad: pass its values.
        """
        args, size = self._with_size(args, size)
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


def _exact(value: Any) -> Any:
    return raw(value) if isinstance(value, Tensor) else value


def _whole(array: Any) -> Any:
    return array.astype(int) if (np.floor(array) == array).all() else array
