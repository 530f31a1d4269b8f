"""Distributions of choices among k classes: one choice, and how often each class is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..ufuncs import special
from .discrete import binom
from .multivariate import FrozenMultivariate, Multivariate
from .shares import entropy_of_shares

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["categorical", "multinomial"]


class _Choices(Multivariate):
    """Abstract: a distribution of choices, whose draws have no derivative."""

    __slots__ = ()

    def _values_for_draws(self, p: Any) -> Any:
        p = floating(p)
        if p.requires_grad:
            raise ArgumentError(
                f"scipy.stats.{self.name}.rvs gives whole numbers, which have no derivative: pass p.detach(), and "
                "weight a loss by logpmf of the draws"
            )
        return raw(p)


@final
class Multinomial(_Choices):
    """How often each of k classes is chosen in `n` trials, with the probabilities `p`, shape (..., k).

    The last probability is what the others leave of 1, as in SciPy; so the derivative by it is that by the others.
    """

    __slots__ = ()

    def __call__(self, n: Any, p: Any, seed: Any = None) -> FrozenMultivariate:
        """Return the distribution with given parameters."""
        self._parameters(n, p)
        return FrozenMultivariate(self, (n, p), {}, seed)

    @staticmethod
    def _parameters(n: Any, p: Any) -> tuple[Any, Any, Any]:
        """Return the number of trials, the probabilities, and where they are none."""
        p, n = floating(p), np.asarray(raw(asarray(n))).astype(int)
        tolerance = 10 * np.finfo(np.result_type(raw(p), np.float32)).eps
        p = p.astype(float, copy=False)
        first = p[..., :-1]
        last = 1 - np.sum(first, -1, keepdims=True)
        # As in SciPy the last one has the value that is given where this makes no difference but of rounding.
        rest = raw(p)[..., -1:] - raw(last)
        p = np.concatenate([first, last + np.where(np.abs(rest) <= tolerance, rest, 0.0)], -1)
        bad = (n < 0) | ((raw(p) < -1e-15) | (raw(p) > 1)).any(-1)
        return n, np.where(np.expand_dims(bad, -1) | (raw(p) < 0), 0.0, p), bad

    def logpmf(self, x: Any, n: Any, p: Any) -> Tensor:
        """Return the logarithm of the probability of counts; -inf where they do not sum to `n`.

        Args:
            x: shape (..., k).
            n: see the class.
            p: see the class.

        Raises:
            ValueError: the shapes do not fit.
        """
        n, p, bad = self._parameters(n, p)
        x = np.asarray(raw(floating(x)))
        if x.ndim == 0 or x.shape[-1] != p.shape[-1]:
            raise ValueError(
                f"scipy.stats.multinomial takes counts of shape (..., {p.shape[-1]}) for a p of shape {p.shape}, not "
                f"{x.shape}"
            )
        outside = (np.floor(x) != x).any(-1) | (x < 0).any(-1) | (x.sum(-1) != n)
        x = np.where(np.expand_dims(outside, -1), 0.0, x)
        value = special.gammaln(n + 1) + np.sum(special.xlogy(x, p) - special.gammaln(x + 1), -1)
        value = np.where(outside, -np.inf, value) if outside.any() else value
        return np.where(bad, np.nan, value) if bad.any() else value

    def pmf(self, x: Any, n: Any, p: Any) -> Tensor:
        """Return the probability of counts; arguments as for `logpmf`."""
        return np.exp(self.logpmf(x, n, p))

    def mean(self, n: Any, p: Any) -> Tensor:
        """Return the means of the counts."""
        n, p, bad = self._parameters(n, p)
        mean = np.expand_dims(n, -1) * p
        return np.where(np.expand_dims(bad, -1), np.nan, mean) if bad.any() else mean

    def cov(self, n: Any, p: Any) -> Tensor:
        """Return the covariance of the counts, shape (..., k, k)."""
        n, p, bad = self._parameters(n, p)
        outer = p[..., np.newaxis] * np.eye(p.shape[-1]) - p[..., np.newaxis] * p[..., np.newaxis, :]
        cov = np.expand_dims(n, (-1, -2)) * outer
        return np.where(np.expand_dims(bad, (-1, -2)), np.nan, cov) if bad.any() else cov

    def entropy(self, n: Any, p: Any) -> Tensor:
        """Return the entropy of the counts, in nats."""
        n, p, bad = self._parameters(n, p)
        trials = n * np.sum(special.entr(p), -1) - special.gammaln(n + 1)
        never = np.expand_dims(raw(p) == 0, -1)
        # The order of the choices counts as nothing: each count has a binomial distribution.
        k = np.arange(2, int(np.max(n, initial=1)) + 1)
        trials_of_all, p = np.expand_dims(np.maximum(n, 0), (-1, -2)), np.where(never, 0.5, p[..., np.newaxis])
        chances: Any = np.where(never, 0.0, binom.pmf(k, trials_of_all, p))
        value = trials + np.sum(chances * special.gammaln(k + 1), (-1, -2))
        return np.where(bad, np.nan, value) if bad.any() else value

    def rvs(self, n: Any, p: Any, size: Any = None, random_state: Any = None) -> Tensor:
        """Return draws of SciPy's, whole numbers, which have no derivative.

        Raises:
            ArgumentError: `p` requires grad.
        """
        return asarray(scipy_stats.multinomial.rvs(raw(asarray(n)), self._values_for_draws(p), size, random_state))


@final
class Categorical(_Choices):
    """One of k classes, numbered from 0, with probabilities in proportion to `p`, shape (..., k).

    SciPy has no such distribution; `p` is divided by its sum.
    """

    __slots__ = ()

    def __call__(self, p: Any) -> FrozenMultivariate:
        """Return the distribution with given probabilities."""
        self._probabilities(p)
        return FrozenMultivariate(self, (p,), {})

    @staticmethod
    def _probabilities(p: Any) -> Any:
        p = floating(p)
        if p.ndim == 0 or (raw(p) < 0).any() or not (raw(p).sum(-1) > 0).all():
            raise ValueError(
                "asyncgrad.scipy.stats.categorical takes probabilities of shape (..., k), none of them negative, not a "
                f"p of shape {p.shape}"
            )
        return p / np.sum(p, -1, keepdims=True)

    def pmf(self, x: Any, p: Any) -> Tensor:
        """Return the probability of classes; 0 for numbers that are none.

        Args:
            x: whole numbers; their shape and that of p without its last axis broadcast.
            p: see the class.
        """
        return self._chosen(x, self._probabilities(p), 0.0)

    def logpmf(self, x: Any, p: Any) -> Tensor:
        """Return the logarithm of the probability of classes; -inf for numbers that are none; see `pmf`."""
        p = self._probabilities(p)
        return self._chosen(x, np.log(np.where(raw(p) > 0, p, 1.0)), -np.inf, raw(p) > 0)

    @staticmethod
    def _chosen(x: Any, values: Array, outside: float, possible: Any = None) -> Any:
        x = np.asarray(raw(asarray(x)))
        shape, count = np.broadcast_shapes(x.shape, values.shape[:-1]), values.shape[-1]
        x = np.broadcast_to(x, shape)[..., np.newaxis]
        known = (x >= 0) & (x < count) & (np.floor(x) == x)
        index = np.where(known, x, 0).astype(int)
        whole = (*shape, count)
        if possible is not None:
            known = known & np.take_along_axis(np.broadcast_to(possible, whole), index, -1)
        found = np.take_along_axis(np.broadcast_to(values, whole), index, -1)
        return (found if known.all() else np.where(known, found, outside))[..., 0]

    def entropy(self, p: Any) -> Tensor:
        """Return the entropy, in nats."""
        self._probabilities(p)
        return entropy_of_shares(floating(p), -1)

    def mean(self, p: Any) -> Tensor:
        """Return the mean of the numbers of the classes."""
        p = self._probabilities(p)
        return np.sum(p * np.arange(p.shape[-1]), -1)

    def rvs(self, p: Any, size: Any = None, random_state: Any = None) -> Tensor:
        """Return draws, whole numbers, which have no derivative.

        Args:
            p: shape (k,).
            size: their shape, or None for one.
            random_state: a seed or a generator of NumPy's, or None.

        Raises:
            ArgumentError: `p` requires grad.
        """
        p = self._probabilities(self._values_for_draws(p))
        rng = np.random if random_state is None else random_state
        rng = np.random.RandomState(rng) if isinstance(rng, int | np.integer) else rng
        return asarray(np.asarray(rng.choice(p.shape[-1], size=size, p=raw(p))))


categorical: Categorical = Categorical("categorical")
multinomial: Multinomial = Multinomial("multinomial")
