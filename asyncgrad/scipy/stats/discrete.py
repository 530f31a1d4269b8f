"""Families of distributions of whole numbers: see `distribution.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats
from scipy.special import _ufuncs

from ...core.arrays.values import raw
from ...core.recording.primitive import derivative, primitive
from ..special.log_densities import GREAT, is_between, log_beta_, log_beta_mass, log_gamma_mass, psi_fall, where_great
from ..special.rules import quotient
from ..ufuncs import special
from .discrete_distribution import DiscreteDistribution
from .log_tails import log_beta_below, log_gamma_above, log_gamma_below

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "bernoulli",
    "betabinom",
    "betanbinom",
    "binom",
    "geom",
    "hypergeom",
    "nbinom",
    "poisson",
]


def _log_choices(n: Any, k: Any) -> Any:
    """Return the logarithm of the number of ways to choose k of n."""
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _summed_up_to(logpmf: Callable[..., Any], k: Any, *shapes: Any) -> Any:
    """Return the probability of k or less, the sum of those of all whole numbers from 0 on."""
    shape = np.broadcast_shapes(*(np.shape(raw(one)) for one in (k, *shapes)))
    numbers = np.arange(float(np.max(k, initial=0.0)) + 1)
    if np.size(k) > 1 and all(np.size(raw(one)) == 1 for one in shapes):
        # One sum has all of them on its way.
        totals = np.cumsum(np.exp(logpmf(numbers, *(np.reshape(one, ()) for one in shapes))))
        return np.reshape(totals[np.maximum(k, 0.0).astype(int)], shape)
    numbers = numbers.reshape((-1,) + (1,) * len(shape))
    mask = np.broadcast_to(numbers <= k, (numbers.size, *shape))
    return np.sum(np.where(mask, np.exp(logpmf(np.where(mask, numbers, 0.0), *shapes)), 0.0), 0)


def _is_share(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _poisson_logarithm(k: Any, mu: Any) -> Any:
    return where_great(
        k > GREAT,
        lambda k, mu: (k < np.inf) & is_between(mu, np.inf),
        lambda k, mu: log_gamma_mass(k, mu) - np.log(k),
        lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
        (k, 100.0),
        (mu, 100.0),
    )


@primitive()
def poisson_logpmf_(k: Any, mu: Any) -> Any:
    """Return the logarithm of the probability of k, which has no derivative."""
    return _poisson_logarithm(k, mu)


@derivative(poisson_logpmf_, "mu")
def _(g: Any, k: Any, mu: Array) -> Array:
    return g * (quotient(k, mu) - 1)


# Derivatives of probabilities are those of their logarithms, times them. For parameters that make a result sure this
# would be infinity times 0: there they are differences of other probabilities of the family, 0 for what cannot be.


def _slope(is_sure: Any, usual: Callable[[], Any], difference: Callable[[], Any]) -> Any:
    """Return the usual derivative of a probability, and a difference where a result is sure."""
    if not np.any(is_sure):
        return usual()
    return np.where(is_sure, difference(), 0.0 if np.all(is_sure) else usual())


@primitive()
def poisson_pmf_(k: Any, mu: Any) -> Any:
    """Return the probability of k, which has no derivative."""
    return np.exp(_poisson_logarithm(k, mu))


@derivative(poisson_pmf_, "mu")
def _(g: Any, k: Any, mu: Any) -> Array:
    is_sure = raw(mu) == 0
    safe = np.where(is_sure, 1.0, mu) if np.any(is_sure) else mu

    def difference() -> Any:
        return np.where(k >= 1, poisson_pmf_.call(np.maximum(k - 1, 0.0), mu), 0.0) - poisson_pmf_.call(k, mu)

    return g * _slope(is_sure, lambda: poisson_pmf_.call(k, safe) * (k / safe - 1), difference)


@final
class Poisson(DiscreteDistribution):
    """The Poisson distribution of mean `mu`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("mu",)

    def _valid(self, mu: Any) -> Any:
        return mu >= 0

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpmf(self, k: Any, mu: Any) -> Any:
        return poisson_logpmf_.call(k, mu)

    def _pmf(self, k: Any, mu: Any) -> Any:
        return poisson_pmf_.call(k, mu)

    def _cdf(self, k: Any, mu: Any) -> Any:
        return special.pdtr(k, mu)

    def _sf(self, k: Any, mu: Any) -> Any:
        return special.pdtrc(k, mu)

    def _log_below(self, mask: Any, k: Any, mu: Any) -> Any:
        return log_gamma_above(k + 1, mu, mask)

    def _log_above(self, mask: Any, k: Any, mu: Any) -> Any:
        return log_gamma_below(k + 1, mu, mask)

    def _mean_and_variance(self, mu: Any) -> tuple[Any, Any]:
        return mu * 1.0, mu * 1.0

    def _skewness_and_kurtosis(self, mu: Any) -> tuple[Any, Any]:
        return 1 / np.sqrt(mu), 1 / mu


def _in_trials(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of k successes among n trials, 0 for a k that cannot be."""
    inside = (k >= 0) & (k <= n)
    return np.where(inside, trials_pmf_.call(np.where(inside, k, 0.0), np.maximum(n, 0.0), p), 0.0)


# SciPy's own functions, which keep their digits for any number of trials; those that it names publicly do not.


def _formula_pmf(k: Any, n: Any, p: Any) -> Any:
    return np.exp(_log_choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p))


def _formula_cdf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 1.0, special.betaincc(k + 1, np.maximum(n - k, 1.0), p))


def _formula_sf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 0.0, special.betainc(k + 1, np.maximum(n - k, 1.0), p))


_trials_pmf: Callable[..., Any] = getattr(_ufuncs, "_binom_pmf", _formula_pmf)
_trials_cdf: Callable[..., Any] = getattr(_ufuncs, "_binom_cdf", _formula_cdf)
_trials_sf: Callable[..., Any] = getattr(_ufuncs, "_binom_sf", _formula_sf)


def _as_wide(value: Any, *others: Any) -> Any:
    """Return a value in the dtype that a formula of others would have."""
    return np.asarray(value).astype(np.result_type(*others, np.float32), copy=False)


@primitive()
def trials_pmf_(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of k successes among n trials of probability p."""
    return _as_wide(_trials_pmf(k, n, p), n, p)


@derivative(trials_pmf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    is_sure = (raw(p) == 0) | (raw(p) == 1)
    safe = np.where(is_sure, 0.5, p) if np.any(is_sure) else p

    def difference() -> Any:
        # By the last trial, which is a success or not.
        return n * (_in_trials(k - 1, n - 1, p) - _in_trials(k, n - 1, p))

    return g * _slope(is_sure, lambda: trials_pmf_.call(k, n, safe) * (k / safe - (n - k) / (1 - safe)), difference)


@primitive()
def trials_cdf_(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of up to k successes among n trials of probability p."""
    return _as_wide(_trials_cdf(k, n, p), n, p)


@derivative(trials_cdf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    return -g * (n * _in_trials(k, n - 1, p))


@primitive()
def trials_sf_(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of more than k successes among n trials of probability p."""
    return _as_wide(_trials_sf(k, n, p), n, p)


@derivative(trials_sf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    return g * (n * _in_trials(k, n - 1, p))


@primitive()
def trials_logpmf_(k: Any, n: Any, p: Any) -> Any:
    """Return the logarithm of that probability."""
    return where_great(
        n > GREAT,
        lambda k, n, p: (n < np.inf) & (k > 0) & (k < n) & is_between(p, 1.0),
        lambda k, n, p: log_beta_mass(k, n - k, p, 1 - p) + np.log(n) - np.log(k) - np.log(n - k),
        lambda k, n, p: _log_choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
        (k, 50.0),
        (n, 100.0),
        (p, 0.5),
    )


@derivative(trials_logpmf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    # Infinite for what cannot be: where nothing comes in, any other number does.
    is_sure = (raw(p) == 0) | (raw(p) == 1)
    p = np.where(is_sure & (raw(g) == 0), 0.5, p)
    return g * (quotient(k, p) - quotient(n - k, 1 - p))


@final
class Binomial(DiscreteDistribution):
    """The number of successes among `n` trials of probability `p`; `n` has no derivative."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n", "p")

    def _valid(self, n: Any, p: Any) -> Any:
        return (n >= 0) & (np.floor(n) == n) & _is_share(p)

    def _support(self, n: Any, p: Any) -> tuple[Any, Any]:
        return 0.0, np.asarray(raw(n))

    def _logpmf(self, k: Any, n: Any, p: Any) -> Any:
        return trials_logpmf_.call(k, raw(n), p)

    def _pmf(self, k: Any, n: Any, p: Any) -> Any:
        return trials_pmf_.call(k, raw(n), p)

    def _cdf(self, k: Any, n: Any, p: Any) -> Any:
        return trials_cdf_.call(k, raw(n), p)

    def _sf(self, k: Any, n: Any, p: Any) -> Any:
        return trials_sf_.call(k, raw(n), p)

    def _log_below(self, mask: Any, k: Any, n: Any, p: Any) -> Any:
        return log_beta_below(raw(n) - k, k + 1, 1 - p, mask)

    def _log_above(self, mask: Any, k: Any, n: Any, p: Any) -> Any:
        return log_beta_below(k + 1, raw(n) - k, p, mask)

    def _mean_and_variance(self, n: Any, p: Any) -> tuple[Any, Any]:
        return raw(n) * p, raw(n) * p * (1 - p)

    def _skewness_and_kurtosis(self, n: Any, p: Any) -> tuple[Any, Any]:
        spread = p * (1 - p)
        return (1 - 2 * p) / np.sqrt(raw(n) * spread), (1 - 6 * spread) / (raw(n) * spread)


@final
class Bernoulli(DiscreteDistribution):
    """One trial of probability `p`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p",)

    def _valid(self, p: Any) -> Any:
        return _is_share(p)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _logpmf(self, k: Any, p: Any) -> Any:
        return trials_logpmf_.call(k, 1.0, p)

    def _pmf(self, k: Any, p: Any) -> Any:
        return trials_pmf_.call(k, 1.0, p)

    def _cdf(self, k: Any, p: Any) -> Any:
        return np.where(k >= 1, 1.0, 1 - p)

    def _sf(self, k: Any, p: Any) -> Any:
        return np.where(k >= 1, 0.0, p)

    def _mean_and_variance(self, p: Any) -> tuple[Any, Any]:
        return p * 1.0, p * (1 - p)

    def _skewness_and_kurtosis(self, p: Any) -> tuple[Any, Any]:
        spread = p * (1 - p)
        return (1 - 2 * p) / np.sqrt(spread), 1 / spread - 6

    def _entropy(self, p: Any) -> Any:
        return special.entr(p) + special.entr(1 - p)


def _failures_logarithm(k: Any, n: Any, p: Any) -> Any:
    def usual(k: Any, n: Any, p: Any) -> Any:
        ways = special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n)
        return ways + n * np.log(p) + special.xlog1py(k, -p)

    return where_great(
        n + k > GREAT,
        lambda k, n, p: (n + k < np.inf) & (k > 0) & (n > 0) & is_between(p, 1.0),
        lambda k, n, p: log_beta_mass(n, k, p, 1 - p) - np.log(k),
        usual,
        (k, 100.0),
        (n, 100.0),
        (p, 0.5),
    )


@primitive()
def failures_logpmf_(k: Any, n: Any, p: Any) -> Any:
    """Return the logarithm of the probability of k failures before n successes; k has no derivative."""
    return _failures_logarithm(k, n, p)


@derivative(failures_logpmf_, "n")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    return g * (np.log(p) - psi_fall(n, k))


@derivative(failures_logpmf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    return g * (n / p - quotient(k, 1 - p))


@primitive()
def failures_pmf_(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of k failures before n successes of probability p; k has no derivative."""
    return np.exp(_failures_logarithm(k, n, p))


@derivative(failures_pmf_, "n")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    return g * (failures_pmf_.call(k, n, p) * (np.log(p) - psi_fall(n, k)))


@derivative(failures_pmf_, "p")
def _(g: Any, k: Any, n: Any, p: Any) -> Array:
    is_sure = raw(p) == 1
    safe = np.where(is_sure, 0.5, p) if np.any(is_sure) else p

    def difference() -> Any:
        before = np.where(k >= 1, failures_pmf_.call(np.maximum(k - 1, 0.0), n + 1, p), 0.0)
        return n / p * (failures_pmf_.call(k, n, p) - before)

    return g * _slope(is_sure, lambda: failures_pmf_.call(k, n, safe) * (n / safe - k / (1 - safe)), difference)


@final
class NegativeBinomial(DiscreteDistribution):
    """The number of failures before `n` successes of probability `p`; `n` may be any positive number."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n", "p")

    def _valid(self, n: Any, p: Any) -> Any:
        return (n > 0) & (p > 0) & (p <= 1)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpmf(self, k: Any, n: Any, p: Any) -> Any:
        return failures_logpmf_.call(k, n, p)

    def _pmf(self, k: Any, n: Any, p: Any) -> Any:
        return failures_pmf_.call(k, n, p)

    def _cdf(self, k: Any, n: Any, p: Any) -> Any:
        return special.betainc(n, k + 1, p)

    def _sf(self, k: Any, n: Any, p: Any) -> Any:
        return special.betaincc(n, k + 1, p)

    def _log_below(self, mask: Any, k: Any, n: Any, p: Any) -> Any:
        return log_beta_below(n, k + 1, p, mask)

    def _log_above(self, mask: Any, k: Any, n: Any, p: Any) -> Any:
        return log_beta_below(k + 1, n, 1 - p, mask)

    def _mean_and_variance(self, n: Any, p: Any) -> tuple[Any, Any]:
        return n * (1 - p) / p, n * (1 - p) / np.square(p)

    def _skewness_and_kurtosis(self, n: Any, p: Any) -> tuple[Any, Any]:
        return (2 - p) / np.sqrt(n * (1 - p)), (6 + np.square(p) / (1 - p)) / n


@final
class Geometric(DiscreteDistribution):
    """The number of trials of probability `p` up to the first success."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("p",)

    def _valid(self, p: Any) -> Any:
        return (p > 0) & (p <= 1)

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 1.0, np.inf

    def _logpmf(self, k: Any, p: Any) -> Any:
        return special.xlog1py(k - 1, -p) + np.log(p)

    def _pmf(self, k: Any, p: Any) -> Any:
        return failures_pmf_.call(k - 1, 1.0, p)

    def _cdf(self, k: Any, p: Any) -> Any:
        return -np.expm1(special.xlog1py(k, -p))

    def _sf(self, k: Any, p: Any) -> Any:
        return np.exp(special.xlog1py(k, -p))

    def _log_above(self, mask: Any, k: Any, p: Any) -> Any:
        return special.xlog1py(k, -p)

    def _mean_and_variance(self, p: Any) -> tuple[Any, Any]:
        return 1 / p, (1 - p) / np.square(p)

    def _skewness_and_kurtosis(self, p: Any) -> tuple[Any, Any]:
        return (2 - p) / np.sqrt(1 - p), 6 + np.square(p) / (1 - p)

    def _entropy(self, p: Any) -> Any:
        return (special.entr(p) + special.entr(1 - p)) / p


@final
class BetaBinomial(DiscreteDistribution):
    """The number of successes among `n` trials, whose probability has the beta distribution of shapes `a` and `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n", "a", "b")

    def _valid(self, n: Any, a: Any, b: Any) -> Any:
        return (n >= 0) & (np.floor(n) == n) & (a > 0) & (b > 0)

    def _support(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return 0.0, np.asarray(raw(n))

    def _logpmf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        n = raw(n)
        return _log_choices(n, k) + log_beta_.call(k + a, n - k + b) - log_beta_.call(a, b)

    def _cdf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        return _summed_up_to(self._logpmf, k, n, a, b)

    def _sf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        # As many failures or fewer, with the roles changed.
        return self._cdf(np.maximum(np.nan_to_num(raw(n)) - k - 1, 0.0), n, b, a) * (k < raw(n))

    def _mean_and_variance(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        n, total = raw(n), a + b
        return n * a / total, n * (total + n) * a * b / (np.square(total) * (total + 1))

    def _skewness_and_kurtosis(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        n, total, product = raw(n), a + b, a * b
        skewness = (total + 2 * n) * (b - a) / (total + 2) * np.sqrt((1 + total) / (n * product * (n + total)))
        kurtosis = total * (total - 1 + 6 * n) + 3 * product * (n - 2) + 6 * n * n
        kurtosis = kurtosis - 3 * product * n * (6 - n) / total - 18 * product * n * n / np.square(total)
        kurtosis = kurtosis * np.square(total) * (1 + total)
        return skewness, kurtosis / (n * product * (total + 2) * (total + 3) * (total + n)) - 3


@final
class Hypergeometric(DiscreteDistribution):
    """The number of successes in `N` draws without replacement from `M` things, of which `n` are successes.

    Its parameters are whole numbers, which have no derivative.
    """

    __slots__ = ()

    shapes: tuple[str, ...] = ("M", "n", "N")

    def _valid(self, M: Any, n: Any, N: Any) -> Any:
        is_whole = (np.floor(M) == M) & (np.floor(n) == n) & (np.floor(N) == N)
        return (M > 0) & (n >= 0) & (N >= 0) & (n <= M) & (N <= M) & is_whole

    def _support(self, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
        M, n, N = map(raw, (M, n, N))
        return np.maximum(N - (M - n), 0), np.minimum(n, N)

    def _logpmf(self, k: Any, M: Any, n: Any, N: Any) -> Any:
        return scipy_stats.hypergeom.logpmf(k, *map(raw, (M, n, N)))

    def _cdf(self, k: Any, M: Any, n: Any, N: Any) -> Any:
        return scipy_stats.hypergeom.cdf(k, *map(raw, (M, n, N)))

    def _sf(self, k: Any, M: Any, n: Any, N: Any) -> Any:
        return scipy_stats.hypergeom.sf(k, *map(raw, (M, n, N)))

    def _log_below(self, mask: Any, k: Any, M: Any, n: Any, N: Any) -> Any:
        return scipy_stats.hypergeom.logcdf(k, *map(raw, (M, n, N)))

    def _log_above(self, mask: Any, k: Any, M: Any, n: Any, N: Any) -> Any:
        return scipy_stats.hypergeom.logsf(k, *map(raw, (M, n, N)))

    def _mean_and_variance(self, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
        return tuple(map(np.asarray, scipy_stats.hypergeom.stats(*map(raw, (M, n, N)))))

    def _skewness_and_kurtosis(self, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
        found = scipy_stats.hypergeom.stats(*map(raw, (M, n, N)), moments="sk")
        return tuple(map(np.asarray, found))


@final
class BetaNegativeBinomial(DiscreteDistribution):
    """The number of failures before `n` successes, whose probability has the beta distribution of `a` and `b`."""

    __slots__ = ()

    shapes: tuple[str, ...] = ("n", "a", "b")

    def _valid(self, n: Any, a: Any, b: Any) -> Any:
        return (n >= 0) & (np.floor(n) == n) & (a > 0) & (b > 0)

    def _support(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _logpmf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        n = raw(n)
        ways = -np.log(n + k) - log_beta_.call(n, k + 1)
        return ways + log_beta_.call(a + n, b + k) - log_beta_.call(a, b)

    def _cdf(self, k: Any, n: Any, a: Any, b: Any) -> Any:
        return _summed_up_to(self._logpmf, k, n, a, b)

    def _mean_and_variance(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        n = raw(n)
        first, second = (np.where(raw(a) > order, a, order + 1.0) for order in (1, 2))
        variance = n * b * (n + second - 1) * (second + b - 1) / ((second - 2) * (second - 1) ** 2)
        return np.where(raw(a) > 1, n * b / (first - 1), np.inf), np.where(raw(a) > 2, variance, np.inf)

    def _skewness_and_kurtosis(self, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
        n = raw(n)
        third, fourth = (np.where(raw(a) > order, a, order + 1.0) for order in (3, 4))
        c = third - 1
        skewness = (2 * n + c) * (2 * b + c) / (third - 3) / np.sqrt(n * b * (n + c) * (b + c) / (third - 2))
        c = fourth - 1
        part = (fourth + 5) * b * b + (fourth + 5) * c * b + 2 * c * c
        top = c * c * (fourth * fourth + fourth * (6 * b - 1) + 6 * (b - 1) * b) + 3 * n * (n + c) * part
        kurtosis = (fourth - 2) * top / ((fourth - 4) * (fourth - 3) * b * n * (fourth + b - 1) * (fourth + n - 1)) - 3
        return np.where(raw(a) > 3, skewness, np.inf), np.where(raw(a) > 4, kurtosis, np.inf)


bernoulli: Bernoulli = Bernoulli("bernoulli")
betabinom: BetaBinomial = BetaBinomial("betabinom")
betanbinom: BetaNegativeBinomial = BetaNegativeBinomial("betanbinom")
binom: Binomial = Binomial("binom")
geom: Geometric = Geometric("geom")
hypergeom: Hypergeometric = Hypergeometric("hypergeom")
nbinom: NegativeBinomial = NegativeBinomial("nbinom")
poisson: Poisson = Poisson("poisson")
