"""Distributions of several variables: the normal distribution, Student's and the Dirichlet distribution."""

from __future__ import annotations

import math
from itertools import product as product_of_choices
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.ops.linear_algebra import product
from ...core.recording.primitive import derivative, primitive
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...numpy.random.rules import dirichlet as dirichlet_draw
from ..arguments import floating
from ..error_names import name_errors_of_methods
from ..special.rules import quotient
from ..ufuncs import special
from ..unsupported import refuse_method
from .covariance import Covariance
from .gamma_and_beta import gamma_entropy, student_entropy
from .normal import norm

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "FrozenMultivariate",
    "Multivariate",
    "dirichlet",
    "multivariate_normal",
    "multivariate_normal_logpdf_",
    "multivariate_t",
    "squeezed",
]

_LOG = math.log(2 * math.pi)


@primitive(superlinear=True)
def multivariate_normal_logpdf_(x: Any, mean: Any, cov: Array) -> Array:
    """Return the logarithm of the density at points of shape (..., d)."""
    deviations = x - mean
    weighted = np.linalg.solve(cov, deviations.reshape(-1, cov.shape[0]).T).T.reshape(deviations.shape)
    squares = np.sum(deviations * weighted, -1)
    return -0.5 * (cov.shape[0] * _LOG + np.linalg.slogdet(cov)[1] + squares)


def _weighted(x: Any, mean: Any, cov: Array) -> Any:
    """Return the deviations from the mean times the inverse of the covariance, shape (..., d)."""
    deviations = x - mean
    rows = deviations.reshape((-1, cov.shape[0]))
    return np.linalg.solve(cov.T, rows.T).T.reshape(deviations.shape)


@derivative(multivariate_normal_logpdf_, "x")
def _(g: Array, x: Array, mean: Any, cov: Any) -> Array:
    return -np.expand_dims(g, -1) * _weighted(x, mean, cov)


@derivative(multivariate_normal_logpdf_, "mean")
def _(g: Array, x: Any, mean: Array, cov: Any) -> Array:
    return np.expand_dims(g, -1) * _weighted(x, mean, cov)


@derivative(multivariate_normal_logpdf_, "cov")
def _(g: Array, x: Array, mean: Any, cov: Array) -> Array:
    rows = _weighted(x, mean, cov).reshape((-1, cov.shape[0]))
    weights = np.broadcast_to(g, np.broadcast_shapes(g.shape, x.shape[:-1])).reshape((-1, 1))
    return 0.5 * (product((rows * weights).T, rows) - np.sum(g) * np.linalg.inv(cov).T)


@primitive(superlinear=True)
def multivariate_normal_cdf_(x: Array, cov: Any, options: Any) -> Array:
    """Return the probability of values up to x, shape (..., d), for the mean 0; `options` are SciPy's."""
    found = scipy_stats.multivariate_normal.cdf(x, np.zeros(cov.shape[0]), (cov + cov.T) / 2, **options)
    return np.asarray(found).reshape(x.shape[:-1]).astype(x.dtype, copy=False)


def _conditional(x: Any, cov: Any, given: list[int], options: Any) -> Any:
    """Return the density of some coordinates, times the probability of values up to the others, given these."""
    others = [index for index in range(cov.shape[0]) if index not in given]
    block = cov[np.ix_(given, given)]
    known = x[..., given]
    density = np.exp(multivariate_normal_logpdf_.call(known, np.zeros(len(given)), block))
    if not others:
        return density
    weights = np.linalg.solve(block, cov[np.ix_(given, others)])
    rest = cov[np.ix_(others, others)] - product(cov[np.ix_(others, given)], weights)
    return density * _probability(x[..., others] - product(known, weights), rest, options)


def _probability(x: Any, cov: Array, options: Any) -> Any:
    if cov.shape[0] == 1:
        return norm.cdf(x[..., 0], 0.0, np.sqrt(cov[0, 0]))
    return multivariate_normal_cdf_.call(x, cov, options)


@derivative(multivariate_normal_cdf_, "x")
def _(g: Array, x: Array, cov: Array, options: Any) -> Array:
    slopes = [_conditional(x, cov, [index], options) for index in range(cov.shape[0])]
    return np.expand_dims(g, -1) * np.stack(slopes, -1)


# Plackett's identity: by a covariance the derivative is that by both coordinates.
@derivative(multivariate_normal_cdf_, "cov")
def _(g: Any, x: Any, cov: Any, options: Any) -> Array:
    size = cov.shape[0]
    second: list[list[Any]] = [[None] * size for _ in range(size)]
    for row in range(size):
        for column in range(row):
            value = 0.5 * np.sum(g * _conditional(x, cov, [column, row], options))
            second[row][column] = second[column][row] = value
    for index in range(size):
        slope = np.sum(g * x[..., index] * _conditional(x, cov, [index], options))
        mixed: Any = 0.0
        for other in range(size):
            if other != index:
                mixed = mixed + (cov[index, other] + cov[other, index]) / 2 * 2 * second[index][other]
        second[index][index] = -0.5 * (slope + mixed) / cov[index, index]
    return np.stack([np.stack(row) for row in second])


def _probability_between(low: Any, high: Any, cov: Any, options: Any) -> Any:
    """Return the probability of a box, a sum over its corners with alternating signs."""
    total: Any = 0.0
    for corner in product_of_choices((False, True), repeat=cov.shape[0]):
        ends = np.where(np.array(corner), low, high)
        # From minus infinity on there is nothing below.
        is_nothing = np.any(np.isneginf(raw(ends)), -1)
        safe = np.where(np.isneginf(raw(ends)), 0.0, ends) if np.any(is_nothing) else ends
        part = np.where(is_nothing, 0.0, _probability(safe, cov, options))
        total = total - part if sum(corner) % 2 else total + part
    return total


def _columns(alpha: Array, x: Array) -> Any:
    return alpha.reshape((-1,) + (1,) * (x.ndim - 1))


@primitive()
def dirichlet_logpdf_(x: Any, alpha: Any) -> Any:
    """Return the logarithm of the density at shares of shape (k, ...)."""
    normalizer = special.gammaln(alpha).sum() - special.gammaln(alpha.sum())
    return special.xlogy(_columns(alpha, x) - 1, x).sum(0) - normalizer


@derivative(dirichlet_logpdf_, "x")
def _(g: Any, x: Array, alpha: Any) -> Array:
    return g * quotient(_columns(alpha, x) - 1, x)


@derivative(dirichlet_logpdf_, "alpha")
def _(g: Any, x: Any, alpha: Array) -> Array:
    logs = g * np.log(x)
    logs = logs if logs.ndim == 1 else logs.reshape((alpha.shape[0], -1)).sum(1)
    return logs - g.sum() * (special.psi(alpha) - special.psi(alpha.sum()))


def squeezed(value: Array) -> Any:
    """Return the function of a batch of points without axes of one, as SciPy does."""
    return np.squeeze(value) if 1 in value.shape else value


class Multivariate:
    """Abstract: a family of distributions of several variables.

    Attributes:
        name: SciPy's.
    """

    __slots__ = ("name",)

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

    def __repr__(self) -> str:
        return f"<asyncgrad.scipy.stats.{self.name}>"


def _points(x: Any, size: int) -> Any:
    """Return points with an axis of their coordinates."""
    if x.ndim == 0:
        x = x[np.newaxis]
    elif x.ndim == 1 and size == 1:
        x = x[:, np.newaxis]
    _check_coordinates(x, size)
    return x


def _check_coordinates(x: Any, size: int) -> None:
    if x.ndim == 0 or x.shape[-1] != size:
        raise ValueError(f"the points must have {size} coordinates along their last axis, not the shape {x.shape}")


def _negligible(values: Any) -> float:
    """Return up to what size SciPy takes an eigenvalue for 0."""
    factor = 1e3 if values.dtype == np.float32 else 1e6
    return float(factor * np.finfo(values.dtype).eps * np.max(np.abs(values)))


@final
class MultivariateNormal(Multivariate):
    """The normal distribution of d variables.

    Its parameters are `mean`, a number or shape (d,), and `cov`, a number, the d variances, or shape (d, d).
    """

    __slots__ = ()

    def __call__(
        self,
        mean: Any = None,
        cov: Any = 1,
        allow_singular: bool = False,
        seed: Any = None,
        *,
        maxpts: int | None = None,
        abseps: float = 1e-5,
        releps: float = 1e-5,
    ) -> FrozenMultivariate:
        """Return the distribution with given parameters.

        Args:
            mean: see the class.
            cov: see the class.
            allow_singular: whether `cov` may be singular.
            seed: of its draws, or a generator of NumPy's.
            maxpts: of the estimates of `cdf`, as SciPy's.
            abseps: of these estimates.
            releps: of these estimates.
        """
        self._parameters(mean, cov)
        estimate = {"maxpts": maxpts, "abseps": abseps, "releps": releps}
        return FrozenMultivariate(self, (mean, cov), {"allow_singular": allow_singular}, seed, estimate)

    @staticmethod
    def _parameters(mean: Any, cov: Any) -> tuple[Any, Any]:
        """Return the mean, shape (d,), and the covariance, shape (d, d), as tensors.

        Raises:
            ValueError: their shapes do not fit.
        """
        if isinstance(cov, Covariance | scipy_stats.Covariance):
            cov = cov.covariance
        cov = floating(cov)
        if mean is None:
            mean = np.zeros(1 if cov.ndim == 0 else cov.shape[0])
        mean = np.atleast_1d(floating(mean))
        size = cov.shape[0] if cov.ndim and mean.size == 1 else mean.size
        mean = np.broadcast_to(mean, (size,))
        if cov.ndim < 2:
            cov = np.broadcast_to(cov, (size,))[:, np.newaxis] * np.eye(size)
        if mean.ndim != 1 or cov.shape != (size, size):
            raise ValueError(
                "scipy.stats.multivariate_normal takes a mean of shape (d,) and a cov of shape (d, d), not "
                f"{mean.shape} and {cov.shape}"
            )
        return mean, cov

    def _checked(self, cov: Any) -> None:
        """Raise if a covariance is not positive definite."""
        try:
            np.linalg.cholesky((raw(cov) + raw(cov).T) / 2)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                f"scipy.stats.multivariate_normal takes a positive definite cov, and one of shape {cov.shape} is "
                "not: write allow_singular=True if it is meant to be singular"
            ) from None

    @staticmethod
    def _is_singular(cov: Any) -> bool:
        """Return whether a covariance has an eigenvalue that SciPy takes for 0.

        Raises:
            ValueError: it has one that is negative.
            ArgumentError: it has, and requires grad.
        """
        values = np.linalg.eigvalsh(raw(cov))
        least = _negligible(values)
        if np.min(values) < -least:
            raise ValueError(
                f"scipy.stats.multivariate_normal takes a cov without negative eigenvalues, and one is {np.min(values)}"
            )
        if np.min(values) > least:
            return False
        if isinstance(cov, Tensor) and cov.requires_grad:
            raise ArgumentError(
                "scipy.stats.multivariate_normal has no derivative by a singular cov: pass cov.detach(), or "
                "cov + 1e-9 * np.eye(d)"
            )
        return True

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """Return the logarithm of the density at points.

        Args:
            x: shape (..., d).
            mean: see the class.
            cov: see the class.
            allow_singular: whether `cov` may be singular; then it must not require grad.

        Raises:
            numpy.linalg.LinAlgError: `cov` is not positive definite.
        """
        # As in SciPy, a Covariance of its own may be singular.
        allow_singular = allow_singular or isinstance(cov, scipy_stats.Covariance)
        mean, cov = self._parameters(mean, cov)
        size = mean.size
        x = _points(floating(x), size)
        if allow_singular and self._is_singular(cov):
            return squeezed(self._singular_logpdf(x, mean, raw(cov)))
        self._checked(cov)
        return squeezed(multivariate_normal_logpdf_.call(x, mean, cov))

    @staticmethod
    def _singular_logpdf(x: Any, mean: Any, cov: Array) -> Any:
        """Return the logarithm of the density on the subspace of a covariance; -inf beside it."""
        values, vectors = np.linalg.eigh(cov)
        least = _negligible(values)
        kept = values > least
        deviations = x - mean
        along = product(deviations, vectors[:, kept] / np.sqrt(values[kept]))
        beside = np.linalg.norm(raw(deviations) @ vectors[:, ~kept], axis=-1)
        density = -0.5 * (kept.sum() * _LOG + np.log(values[kept]).sum() + np.sum(along * along, -1))
        return np.where(beside >= 1e3 * least, -np.inf, density)

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """Return the density at points; arguments as for `logpdf`."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def cdf(
        self,
        x: Any,
        mean: Any = None,
        cov: Any = 1,
        allow_singular: bool = False,
        maxpts: int | None = None,
        abseps: float = 1e-5,
        releps: float = 1e-5,
        *,
        lower_limit: Any = None,
        rng: Any = None,
    ) -> Tensor:
        """Return the probability of values up to those of points in each coordinate.

        Of three variables and more SciPy estimates it, and its derivatives are made of such estimates.

        Args:
            x: shape (..., d).
            mean: see the class.
            cov: see the class.
            allow_singular: whether `cov` may be singular; then nothing must require grad.
            maxpts: of the estimate, as SciPy's.
            abseps: of the estimate, as SciPy's.
            releps: of the estimate, as SciPy's.
            lower_limit: from where on in each coordinate, shape (..., d); None for minus infinity.
            rng: a generator of NumPy's for the estimate, or None.
        """
        mean, cov = self._parameters(mean, cov)
        x = _points(floating(x), mean.size)
        options = {"maxpts": maxpts or 1000000 * mean.size, "abseps": abseps, "releps": releps}
        if rng is not None:
            options["rng"] = rng
        if allow_singular and self._is_singular(cov):
            if any(isinstance(one, Tensor) and one.requires_grad for one in (x, mean, lower_limit)):
                raise ArgumentError(
                    "asyncgrad.scipy.stats.multivariate_normal.cdf has no derivative where cov is singular: pass "
                    "x.detach(), or cov + 1e-9 * np.eye(d)"
                )
            low = None if lower_limit is None else raw(floating(lower_limit))
            arguments = raw(x), raw(mean), raw(cov)
            found = scipy_stats.multivariate_normal.cdf(*arguments, True, **options, lower_limit=low)
            return asarray(found)
        self._checked(cov)
        if lower_limit is None:
            return squeezed(_probability(x - mean, cov, options))
        return squeezed(_probability_between(floating(lower_limit) - mean, x - mean, cov, options))

    def logcdf(self, x: Any, mean: Any = None, cov: Any = 1, **options: Any) -> Tensor:
        """Return the logarithm of `cdf`; arguments as for that."""
        return np.log(self.cdf(x, mean, cov, **options))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Tensor:
        """Return the differential entropy, in nats; of a singular `cov`, on its subspace."""
        mean, cov = self._parameters(mean, cov)
        if self._is_singular(cov):
            values = np.linalg.eigvalsh(raw(cov))
            kept = values[values > _negligible(values)]
            return asarray(0.5 * (kept.size * (_LOG + 1) + np.log(kept).sum()))
        return 0.5 * (mean.size * (_LOG + 1) + np.linalg.slogdet(cov)[1])

    def rvs(self, mean: Any = None, cov: Any = 1, size: Any = 1, random_state: Any = None) -> Tensor:
        """Return draws, the mean plus a factor of the covariance times normal numbers.

        Args:
            mean: see the class.
            cov: see the class.
            size: how many.
            random_state: a seed or a generator of NumPy's, or None.
        """
        root = cov
        mean, cov = self._parameters(mean, cov)
        if isinstance(root, Covariance | scipy_stats.Covariance):
            # As in SciPy, by its own root.
            unit = scipy_stats.Covariance.from_diagonal(np.ones(mean.size))
            noise = scipy_stats.multivariate_normal.rvs(np.zeros(mean.size), unit, size, random_state)
            return asarray(mean + root.colorize(noise))
        draws = np.asarray(scipy_stats.multivariate_normal.rvs(raw(mean), raw(cov), size, random_state))
        if not any(isinstance(one, Tensor) and one.requires_grad for one in (mean, cov)):
            return asarray(draws)
        self._checked(cov)
        # SciPy's draws, as if by the Cholesky factor: for any factor, expectations have the same derivative.
        factor = np.linalg.cholesky(cov)
        noise = np.linalg.solve(raw(factor), (draws - raw(mean)).reshape(-1, mean.size).T).T
        found = product(noise, factor.T).reshape(draws.shape) + mean
        return found + (draws - raw(found))


@final
class MultivariateT(Multivariate):
    """Student's distribution of d variables, with a location, a `shape` matrix, and `df` degrees of freedom.

    `loc` is a number or shape (d,), and `shape` a number, d diagonal elements, or shape (d, d).
    """

    __slots__ = ()

    def __call__(
        self, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False, seed: Any = None
    ) -> FrozenMultivariate:
        """Return the distribution with given parameters; it has no draws, so that a `seed` changes nothing."""
        self._parameters(loc, shape, df, allow_singular)
        return FrozenMultivariate(self, (loc, shape, df), {}, seed)

    @staticmethod
    def _parameters(loc: Any, shape: Any, df: Any, allow_singular: bool = False) -> tuple[Any, Any, Any]:
        if allow_singular:
            raise ArgumentError(
                "asyncgrad.scipy.stats.multivariate_t takes a positive definite shape, not allow_singular=True: add a "
                "small multiple of the identity"
            )
        df = floating(df)
        if df.ndim or not raw(df) > 0:
            raise ValueError(f"scipy.stats.multivariate_t takes a df that is one positive number, not {df!r}")
        loc, shape = multivariate_normal._parameters(loc, shape)
        multivariate_normal._checked(shape)
        return loc, shape, df

    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Tensor:
        """Return the logarithm of the density at points.

        Args:
            x: shape (..., d).
            loc: see the class.
            shape: see the class.
            df: see the class.

        Raises:
            ValueError: the shapes do not fit, or `df` is not positive.
        """
        loc, shape, df = self._parameters(loc, shape, df)
        x, size = floating(x), loc.size
        x = x[..., np.newaxis] if size == 1 and (x.ndim == 0 or x.shape[-1] != 1) else x
        _check_coordinates(x, size)
        if np.isinf(raw(df)):
            return squeezed(multivariate_normal_logpdf_.call(x, loc, shape))
        deviations = x - loc
        squares = np.sum(deviations * _weighted(x, loc, shape), -1)
        normalizer = special.gammaln(df / 2) - special.gammaln((df + size) / 2) + size / 2 * np.log(math.pi * df)
        normalizer = normalizer + 0.5 * np.linalg.slogdet(shape)[1]
        return squeezed(-(df + size) / 2 * np.log1p(squares / df) - normalizer)

    def entropy(self, loc: Any = None, shape: Any = 1, df: Any = 1) -> Tensor:
        """Return the differential entropy, in nats; arguments as for `logpdf`."""
        loc, shape, df = self._parameters(loc, shape, df)
        if np.isinf(raw(df)):
            return multivariate_normal.entropy(loc, shape)
        return student_entropy(df, loc.size) + 0.5 * np.linalg.slogdet(shape)[1]

    def pdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Tensor:
        """Return the density at points; arguments as for `logpdf`."""
        return np.exp(self.logpdf(x, loc, shape, df))


@final
class Dirichlet(Multivariate):
    """The Dirichlet distribution of shares that sum to 1, with the concentrations `alpha`, shape (k,)."""

    __slots__ = ()

    def __call__(self, alpha: Any, seed: Any = None) -> FrozenMultivariate:
        """Return the distribution with given concentrations, whose draws are of a seed or a generator of NumPy's."""
        self._concentrations(alpha)
        return FrozenMultivariate(self, (alpha,), {}, seed)

    @staticmethod
    def _concentrations(alpha: Any) -> Any:
        alpha = floating(alpha)
        if alpha.ndim != 1 or not (raw(alpha) > 0).all():
            raise ValueError(
                "scipy.stats.dirichlet takes positive concentrations of shape (k,), not an alpha of shape "
                f"{alpha.shape}"
            )
        return alpha

    def logpdf(self, x: Any, alpha: Any) -> Tensor:
        """Return the logarithm of the density at points.

        Args:
            x: the shares, shape (k,) or (k, n); the last of them may be left out.
            alpha: see the class.

        Raises:
            ValueError: the shares do not sum to 1, or lie outside of the simplex.
        """
        alpha, x = self._concentrations(alpha), floating(x)
        if not 1 <= x.ndim <= 2:
            raise ValueError(f"scipy.stats.dirichlet takes shares of shape (k,) or (k, n), not {x.shape}")
        if x.shape[0] == alpha.shape[0] - 1:
            x = np.concatenate([x, 1 - np.sum(x, 0, keepdims=True)])
        if x.shape[0] != alpha.shape[0]:
            raise ValueError(
                f"scipy.stats.dirichlet takes as many shares as concentrations, not shapes {x.shape} and {alpha.shape}"
            )
        if (raw(x) < 0).any() or (np.abs(raw(x).sum(0) - 1) > 1e-9).any():
            raise ValueError("scipy.stats.dirichlet takes shares of at least 0 that sum to 1")
        if ((raw(x) == 0) & (raw(alpha) < 1).reshape((-1,) + (1,) * (x.ndim - 1))).any():
            raise ValueError(
                "scipy.stats.dirichlet takes no share of 0 whose concentration is less than 1: the density is infinite"
            )
        return squeezed(dirichlet_logpdf_.call(x, alpha))

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """Return the density at points; arguments as for `logpdf`."""
        return np.exp(self.logpdf(x, alpha))

    def mean(self, alpha: Any) -> Tensor:
        """Return the mean."""
        alpha = self._concentrations(alpha)
        return alpha / np.sum(alpha)

    def var(self, alpha: Any) -> Tensor:
        """Return the variance of each share."""
        alpha = self._concentrations(alpha)
        total = np.sum(alpha)
        return alpha * (total - alpha) / (total * total * (total + 1))

    def cov(self, alpha: Any) -> Tensor:
        """Return the covariance of the shares, shape (k, k)."""
        alpha = self._concentrations(alpha)
        total = np.sum(alpha)
        mean = alpha / total
        return (np.eye(alpha.shape[0]) * mean - mean[:, np.newaxis] * mean) / (total + 1)

    def entropy(self, alpha: Any) -> Tensor:
        """Return the differential entropy, in nats."""
        alpha = self._concentrations(alpha)
        total, count = np.sum(alpha), alpha.shape[0]
        return np.sum(gamma_entropy(alpha)) - gamma_entropy(total) - (count - 1) * special.psi(total)

    def rvs(self, alpha: Any, size: Any = 1, random_state: Any = None) -> Tensor:
        """Return draws, SciPy's own, with their implicit derivative.

        Args:
            alpha: see the class.
            size: how many.
            random_state: a seed or a generator of NumPy's, or None.
        """
        alpha = self._concentrations(alpha)
        draws = np.asarray(scipy_stats.dirichlet.rvs(raw(alpha), size, random_state))
        return dirichlet_draw.call(alpha, draws)


@final
class FrozenMultivariate:
    """A distribution of several variables with its parameters: the methods of its family, without these.

    Args:
        dist: the family.
        args: the parameters.
        kwds: options of the densities.
        seed: of its draws, or a generator of NumPy's, which they share; None for NumPy's own.
        estimate: options of the probabilities, beside those of the densities.
    """

    __slots__ = ("args", "dist", "estimate", "kwds", "random_state")

    def __init__(
        self,
        dist: Any,
        args: tuple[Any, ...],
        kwds: dict[str, Any],
        seed: Any = None,
        estimate: dict[str, float | None] | None = None,
    ) -> None:
        self.dist: Any = dist
        self.estimate: dict[str, float | None] = estimate or {}
        self.args: tuple[Any, ...] = args
        self.kwds: dict[str, Any] = kwds
        if seed is not None and not isinstance(seed, np.random.RandomState | np.random.Generator):
            # As in SciPy, the draws of a number are those of NumPy's older generator.
            seed = np.random.RandomState(seed)
        self.random_state: Any = seed

    def __getattr__(self, name: str) -> Any:
        """Return a method of the family that takes no parameters."""
        if name.startswith("_") or name in self.__slots__:
            # A copy is asked for them before it has any.
            raise AttributeError(name)
        if not callable(getattr(type(self.dist), name, None)):
            raise refuse_method(self.dist, self.dist.name, name)
        method = getattr(self.dist, name)
        if name == "rvs" and self.random_state is not None:
            return lambda *args, **kwds: method(
                *self.args, *args, **(kwds if len(args) > 1 else {"random_state": self.random_state, **kwds})
            )
        if name in ("cdf", "logcdf", "logpdf", "logpmf", "pdf", "pmf"):
            options = {**self.kwds, **self.estimate} if name.endswith("cdf") else self.kwds
            return lambda x, **kwds: method(x, *self.args, **{**options, **kwds})
        return lambda *args, **kwds: method(*self.args, *args, **kwds)

    def __repr__(self) -> str:
        return f"<{self.dist!r} with parameters>"


dirichlet: Dirichlet = Dirichlet("dirichlet")
multivariate_normal: MultivariateNormal = MultivariateNormal("multivariate_normal")
multivariate_t: MultivariateT = MultivariateT("multivariate_t")
