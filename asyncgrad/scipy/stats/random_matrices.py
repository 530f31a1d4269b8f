"""Distributions of positive definite matrices: the Wishart distribution and its inverse."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats as scipy_stats

from ...core.arrays.values import raw
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..ufuncs import special
from .gamma_and_beta import chi2
from .multivariate import FrozenMultivariate, Multivariate, squeezed

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["invwishart", "wishart"]

_LOG_2 = math.log(2)


def _log_multigamma(a: Any, size: int) -> Any:
    """Return the logarithm of the gamma function of several variables."""
    return size * (size - 1) / 4 * math.log(math.pi) + np.sum(special.gammaln(a - np.arange(size) / 2))


def _multipsi(a: Any, size: int) -> Any:
    return np.sum(special.psi(a - np.arange(size) / 2))


def _log_determinant(matrices: Any) -> Any:
    return np.linalg.slogdet(matrices)[1]


class _Matrices(Multivariate):
    """Abstract: a distribution of positive definite matrices, with `df` degrees of freedom and a `scale`.

    `df` is a number greater than d - 1, and `scale` a number, the d diagonal elements, or shape (d, d).
    """

    __slots__ = ()

    def __call__(self, df: Any, scale: Any, seed: Any = None) -> FrozenMultivariate:
        """Return the distribution with given parameters."""
        self._parameters(df, scale)
        return FrozenMultivariate(self, (df, scale), {}, seed)

    def _parameters(self, df: Any, scale: Any) -> tuple[Any, Any, int]:
        """Return the degrees of freedom, the scale, shape (d, d), and d.

        Raises:
            ValueError: the degrees of freedom are too few, or the scale is no square.
            LinAlgError: the scale is not positive definite.
        """
        df, scale = floating(df), floating(scale)
        if scale.ndim == 0:
            scale = scale.reshape((1, 1))
        elif scale.ndim == 1:
            scale = scale[:, np.newaxis] * np.eye(scale.shape[0])
        if scale.ndim != 2 or scale.shape[0] != scale.shape[1]:
            raise ValueError(f"scipy.stats.{self.name} takes a scale of shape (d, d), not {scale.shape}")
        size = scale.shape[0]
        if df.ndim or raw(df) <= size - 1:
            raise ValueError(
                f"scipy.stats.{self.name} takes degrees of freedom that are one number greater than {size - 1} for a "
                f"scale of shape {scale.shape}, not {df!r}"
            )
        try:
            np.linalg.cholesky(raw(scale))
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                f"scipy.stats.{self.name} takes a positive definite scale, and one of shape {scale.shape} is not"
            ) from None
        return df, scale, size

    def logpdf(self, x: Any, df: Any, scale: Any) -> Tensor:
        """Return the logarithm of the density at matrices.

        Args:
            x: a number, shape (d, d), or (d, d, n) for n matrices.
            df: see the class.
            scale: see the class.

        Raises:
            ValueError: the shapes do not fit.
        """
        df, scale, size = self._parameters(df, scale)
        x = floating(x)
        if x.ndim < 2 and size == 1:
            x = x.reshape((1, 1, -1)) if x.ndim else x.reshape((1, 1))
        elif x.ndim == 1:
            x = x[:, np.newaxis] * np.eye(x.shape[0])
        if x.ndim not in (2, 3) or x.shape[:2] != (size, size):
            raise ValueError(
                f"scipy.stats.{self.name} takes matrices of shape ({size}, {size}) or ({size}, {size}, n), not "
                f"{x.shape}"
            )
        return squeezed(self._log_density(np.moveaxis(x, -1, 0) if x.ndim == 3 else x, df, scale, size))

    def pdf(self, x: Any, df: Any, scale: Any) -> Tensor:
        """Return the density at matrices; arguments as for `logpdf`."""
        return np.exp(self.logpdf(x, df, scale))

    @abstractmethod
    def _log_density(self, x: Any, df: Any, scale: Any, size: int) -> Any:
        """Return the logarithm of the density at matrices, shape (..., d, d)."""

    def _draws(self, df: Any, scale: Any, size: Any, random_state: Any) -> tuple[Any, Any, Any]:
        """Return SciPy's draws, a root of the scale, and the draws as if the scale were the identity."""
        draws = np.asarray(getattr(scipy_stats, self.name).rvs(raw(df).item(), raw(scale), size, random_state))
        root = np.linalg.cholesky(scale)
        flat = draws.reshape((-1, *scale.shape))
        half = np.linalg.solve(raw(root), flat)
        return draws, root, np.linalg.solve(raw(root), half.swapaxes(-1, -2))

    @staticmethod
    def _follow(draws: Any, root: Any, standard: Any) -> Any:
        found = np.matmul(np.matmul(root, standard), root.T).reshape(draws.shape)
        return found + (draws - raw(found))


@final
class Wishart(_Matrices):
    """The Wishart distribution, of the sum of `df` squares of normal vectors with the covariance `scale`."""

    __slots__ = ()

    def _log_density(self, x: Any, df: Any, scale: Any, size: int) -> Any:
        trace = np.trace(np.linalg.solve(scale, x), axis1=-2, axis2=-1)
        normalizer = 0.5 * df * (size * _LOG_2 + _log_determinant(scale)) + _log_multigamma(df / 2, size)
        return 0.5 * (df - size - 1) * _log_determinant(x) - 0.5 * trace - normalizer

    def mean(self, df: Any, scale: Any) -> Tensor:
        """Return the mean."""
        df, scale, _ = self._parameters(df, scale)
        return _squeezed(df * scale)

    def var(self, df: Any, scale: Any) -> Tensor:
        """Return the variance of each element."""
        df, scale, _ = self._parameters(df, scale)
        diagonal = np.diagonal(scale)
        return _squeezed(df * (scale * scale + diagonal[:, np.newaxis] * diagonal))

    def mode(self, df: Any, scale: Any) -> Any:
        """Return the mode, or None where there is none."""
        df, scale, size = self._parameters(df, scale)
        return _squeezed((df - size - 1) * scale) if raw(df) >= size + 1 else None

    def entropy(self, df: Any, scale: Any) -> Tensor:
        """Return the differential entropy, in nats."""
        df, scale, size = self._parameters(df, scale)
        return (
            0.5 * (size + 1) * (_log_determinant(scale) + size * _LOG_2)
            + _log_multigamma(df / 2, size)
            - 0.5 * (df - size - 1) * _multipsi(df / 2, size)
            + 0.5 * df * size
        )

    def rvs(self, df: Any, scale: Any, size: Any = 1, random_state: Any = None) -> Tensor:
        """Return draws, SciPy's own, that follow the parameters as Bartlett's decomposition does.

        Args:
            df: see the class.
            scale: see the class.
            size: how many.
            random_state: a seed or a generator of NumPy's, or None.
        """
        df, scale, dimension = self._parameters(df, scale)
        draws, root, standard = self._draws(df, scale, size, random_state)
        if not (df.requires_grad or scale.requires_grad):
            return asarray(draws)
        factor = np.linalg.cholesky(standard)
        if df.requires_grad:
            # The squares on the diagonal have a chi-squared distribution with ever fewer degrees of freedom.
            freedom = df - np.arange(dimension)
            squares = np.square(np.diagonal(factor, axis1=-2, axis2=-1))
            moved = np.sqrt(chi2.ppf(scipy_stats.chi2.cdf(squares, raw(freedom)), freedom))
            factor = np.tril(factor, -1) + moved[..., np.newaxis] * np.eye(dimension)
        return self._follow(draws, root, np.matmul(factor, np.swapaxes(factor, -1, -2)))


@final
class InverseWishart(_Matrices):
    """The inverse Wishart distribution, of the inverse of a matrix with `df` and the inverse of `scale`."""

    __slots__ = ()

    def _log_density(self, x: Array, df: Any, scale: Any, size: int) -> Any:
        trace = np.trace(np.linalg.solve(x, np.broadcast_to(scale, x.shape)), axis1=-2, axis2=-1)
        normalizer = 0.5 * df * (size * _LOG_2 - _log_determinant(scale)) + _log_multigamma(df / 2, size)
        return -0.5 * (df + size + 1) * _log_determinant(x) - 0.5 * trace - normalizer

    def mean(self, df: Any, scale: Any) -> Any:
        """Return the mean, or None where there is none."""
        df, scale, size = self._parameters(df, scale)
        return _squeezed(scale / (df - size - 1)) if raw(df) > size + 1 else None

    def mode(self, df: Any, scale: Any) -> Tensor:
        """Return the mode."""
        df, scale, size = self._parameters(df, scale)
        return _squeezed(scale / (df + size + 1))

    def entropy(self, df: Any, scale: Any) -> Tensor:
        """Return the differential entropy, in nats."""
        df, scale, size = self._parameters(df, scale)
        return (
            _log_multigamma(df / 2, size)
            + 0.5 * size * df
            + 0.5 * (size + 1) * (_log_determinant(scale) - _LOG_2)
            - 0.5 * (df + size + 1) * _multipsi(df / 2, size)
        )

    def rvs(self, df: Any, scale: Any, size: Any = 1, random_state: Any = None) -> Tensor:
        """Return draws, SciPy's own, that follow the scale.

        Args:
            df: see the class.
            scale: see the class.
            size: how many.
            random_state: a seed or a generator of NumPy's, or None.

        Raises:
            ArgumentError: `df` requires grad, which draws have no derivative by here.
        """
        df, scale, _ = self._parameters(df, scale)
        if df.requires_grad:
            raise ArgumentError(
                "scipy.stats.invwishart.rvs has no derivative by df: pass df.detach(), or invert draws of "
                "stats.wishart.rvs(df, np.linalg.inv(scale))"
            )
        draws, root, standard = self._draws(df, scale, size, random_state)
        return self._follow(draws, root, standard) if scale.requires_grad else asarray(draws)


def _squeezed(matrix: Array) -> Any:
    """Return a matrix, or the number that a matrix of one element holds, as SciPy does."""
    return matrix[0, 0] if matrix.shape == (1, 1) else matrix


invwishart: InverseWishart = InverseWishart("invwishart")
wishart: Wishart = Wishart("wishart")
