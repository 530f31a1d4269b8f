"""The number of successes in trials that have a probability each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from .discrete_distribution import DiscreteDistribution

__all__ = ["poisson_binom"]


@final
class PoissonBinomial(DiscreteDistribution):
    """The number of successes in n trials of the probabilities `p`, shape (..., n)."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p",)

    def _parameters(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> list[Any]:
        """Return the probabilities one by one, as if they were n shapes, and then loc."""
        p, loc = DiscreteDistribution._parameters(self, method, args, kwds)
        if p.ndim == 0:
            raise ValueError(f"scipy.stats.{self.name} takes p of shape (..., n), not one number")
        return [*(p[..., index] for index in range(p.shape[-1])), loc]

    def _split(self, method: str, args: Sequence[Any], kwds: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        *shapes, loc = self._parameters(method, args, kwds)
        return shapes, [loc]

    def _valid(self, *shapes: Any) -> Any:
        result: Any = np.True_
        for p in shapes:
            result = result & (p >= 0) & (p <= 1)
        return result

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, float(len(shapes))

    @staticmethod
    def _probabilities(shapes: Sequence[Any]) -> Any:
        """Return the probabilities of 0 to n successes, along a first axis."""
        size = np.broadcast_shapes(*(np.shape(one) for one in shapes))
        found: Any = np.ones((1, *size))
        nothing = np.zeros((1, *size))
        for p in shapes:
            found = np.concatenate([found * (1 - p), nothing]) + np.concatenate([nothing, found * p])
        return found

    def _sum(self, is_counted: Any, k: Any, shapes: Sequence[Any]) -> Any:
        """Return the sum of the probabilities of the numbers that a function says count."""
        found = self._probabilities(shapes)
        count, size = found.shape[0], found.shape[1:]
        found = found.reshape((count, *[1] * max(np.ndim(k) - len(size), 0), *size))
        numbers = np.arange(count).reshape(-1, *[1] * (found.ndim - 1))
        return np.sum(np.where(is_counted(numbers, k), found, 0.0), 0)

    def _pmf(self, k: Any, *shapes: Any) -> Any:
        return self._sum(np.equal, k, shapes)

    def _logpmf(self, k: Any, *shapes: Any) -> Any:
        probability = self._pmf(k, *shapes)
        is_nothing = raw(probability) == 0
        return np.where(is_nothing, -np.inf, np.log(np.where(is_nothing, 1.0, probability)))

    def _cdf(self, k: Any, *shapes: Any) -> Any:
        return self._sum(np.less_equal, k, shapes)

    def _sf(self, k: Any, *shapes: Any) -> Any:
        return self._sum(np.greater, k, shapes)

    def _mean_and_variance(self, *shapes: Any) -> tuple[Any, Any]:
        return sum(shapes[1:], shapes[0]), sum((p * (1 - p) for p in shapes[1:]), shapes[0] * (1 - shapes[0]))

    def _skewness_and_kurtosis(self, *shapes: Any) -> tuple[Any, Any]:
        _, variance = self._mean_and_variance(*shapes)
        third: Any = 0.0
        fourth: Any = 0.0
        for p in shapes:
            share = p * (1 - p)
            third, fourth = third + share * (1 - 2 * p), fourth + share * (1 - 6 * share)
        return third / variance**1.5, fourth / np.square(variance)

    def _entropy(self, *shapes: Any) -> Any:
        found = self._probabilities(shapes)
        is_nothing = raw(found) == 0
        return -np.sum(found * np.log(np.where(is_nothing, 1.0, found)), 0)

    def _of_scipy(self, method: str, q: Any, args: Sequence[Any], kwds: Mapping[str, Any]) -> Any:
        shapes, moves = self._split(method, args, kwds)
        found = getattr(scipy_stats.poisson_binom, method)(raw(floating(q)), np.stack([raw(p) for p in shapes], -1))
        return self._checked(self._moved_and_scaled(asarray(found), moves), shapes, moves)

    def _outcomes(self, parameters: Sequence[Any], lb: float | None, ub: float | None) -> tuple[Any, Any]:
        *shapes, loc = parameters
        if any(np.ndim(one) for one in shapes):
            raise ArgumentError(f"scipy.stats.{self.name}.expect takes p of shape (n,)")
        numbers = np.arange(len(shapes) + 1.0) + raw(loc)
        is_counted = (numbers >= (-np.inf if lb is None else lb)) & (numbers <= (np.inf if ub is None else ub))
        return numbers[is_counted], self._probabilities(shapes)[is_counted]

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwds: Any) -> Tensor:
        """Return draws of SciPy's, whole numbers, which have no derivative.

        Args:
            *args: the parameters.
            size: the shape of the result; None for that of the parameters.
            random_state: a seed or a generator of NumPy's, or None.
            **kwds: the parameters by name.

        Raises:
            ArgumentError: a parameter requires grad: pass its values.
        """
        args, size = self._with_size(args, size)
        p, loc = DiscreteDistribution._parameters(self, "rvs", args, kwds)
        if any(isinstance(one, Tensor) and one.requires_grad for one in (p, loc)):
            raise ArgumentError(
                "scipy.stats.poisson_binom.rvs gives whole numbers, which have no derivative: pass p.detach(), and "
                "weight a loss by logpmf of the draws"
            )
        family: Any = scipy_stats.poisson_binom
        return asarray(np.asarray(family.rvs(np.asarray(raw(p)), raw(loc), size=size, random_state=random_state)))


poisson_binom: PoissonBinomial = PoissonBinomial("poisson_binom")
