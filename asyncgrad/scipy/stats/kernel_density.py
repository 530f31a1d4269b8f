"""Densities that are estimated from points by Gaussian kernels."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ...core.arrays.values import raw
from ...core.ops.linear_algebra import product
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import floating
from ..unsupported import refuse_method
from .multivariate import multivariate_normal_logpdf_
from .normal import norm

__all__ = ["gaussian_kde"]


@final
class gaussian_kde:
    """A density that is the weighted mean of normal densities around points, as `scipy.stats.gaussian_kde`.

    It is differentiable by where it is evaluated, by the data, and by their weights; the bandwidth and the covariance
    of the kernels follow the data.

    Args:
        dataset: the points, shape (n,), or (d, n).
        bw_method: "scott", "silverman", a factor (a number or a 0-d tensor), a function of this object that returns
            one, or None for "scott".
        weights: of the points, shape (n,), or None for equal ones.

    Attributes:
        dataset: a tensor of shape (d, n).
        d: how many coordinates a point has.
        n: how many points there are.
        weights: a tensor that sums to 1.
        neff: how many points of equal weight count as much.
        factor: that of the bandwidth; the covariance of the data is multiplied by its square.
        covariance: of each kernel, shape (d, d).

    Raises:
        ValueError: there are fewer than two points, or the weights do not fit.
        LinAlgError: the points lie in a subspace.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.scipy import stats
        >>> stats.gaussian_kde([0.0, 1.0, 3.0]).evaluate([1.0]).shape
        (1,)
    """

    __slots__ = ("_bw_method", "_data_covariance", "covariance", "d", "dataset", "factor", "n", "neff", "weights")

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset: Any = np.atleast_2d(floating(dataset))
        self.d: int = self.dataset.shape[0]
        self.n: int = self.dataset.shape[1]
        if self.dataset.size < 2:
            raise ValueError(
                f"scipy.stats.gaussian_kde takes at least two points, not a dataset of shape {self.dataset.shape}"
            )
        if weights is None:
            self.weights: Any = asarray(np.full(self.n, 1 / self.n))
        else:
            weights = floating(weights)
            if weights.shape != (self.n,):
                raise ValueError(
                    f"scipy.stats.gaussian_kde takes weights of shape ({self.n},) for a dataset of shape "
                    f"{self.dataset.shape}, not {weights.shape}"
                )
            self.weights = weights / np.sum(weights)
        sum_of_squares = np.sum(self.weights * self.weights)
        self.neff: Any = 1 / sum_of_squares
        deviations = self.dataset - product(self.dataset, self.weights)[:, np.newaxis]
        self._data_covariance = product(deviations * self.weights, deviations.T) / (1 - sum_of_squares)
        self._root(raw(self._data_covariance))
        self.set_bandwidth(bw_method)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Choose the factor of the bandwidth, by one of the ways of the constructor."""
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            self.factor: Any = self.scotts_factor()
        elif isinstance(bw_method, str) and bw_method == "silverman":
            self.factor = self.silverman_factor()
        elif callable(bw_method) and not isinstance(bw_method, Tensor):
            self.factor = bw_method(self)
        elif not isinstance(bw_method, str) and np.ndim(bw_method) == 0:
            self.factor = bw_method
        else:
            raise ValueError(
                "scipy.stats.gaussian_kde takes for bw_method 'scott', 'silverman', a number or a function, not "
                f"{bw_method!r}"
            )
        self.covariance: Any = self._data_covariance * (self.factor * self.factor)

    def scotts_factor(self) -> Any:
        """Return the factor of Scott's rule, neff**(-1 / (d + 4))."""
        return self.neff ** (-1 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Return the factor of Silverman's rule, (neff * (d + 2) / 4)**(-1 / (d + 4))."""
        return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))

    def covariance_factor(self) -> Any:
        """Return the factor of the bandwidth."""
        return self.factor

    def __getattr__(self, name: str) -> Any:
        """Refuse what SciPy's class has beside this; the error names what to write instead."""
        if name in self.__slots__:
            # A copy is asked before it has any.
            raise AttributeError(name)
        raise refuse_method(self, "gaussian_kde", name)

    @property
    def inv_cov(self) -> Any:
        """The inverse of the covariance of each kernel."""
        return np.linalg.inv(self.covariance)

    def _root(self, covariance: Any) -> Any:
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                f"the dataset of shape {self.dataset.shape} of scipy.stats.gaussian_kde lies in a subspace: its "
                "covariance is not positive definite; leave out coordinates that follow from others"
            ) from None

    def _energies(self, points: Any) -> tuple[Any, Any]:
        """Return half the squared distances of points from the data, shape (m, n), and the kernels' normalizer."""
        points = np.atleast_2d(floating(points))
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                raise ValueError(
                    f"scipy.stats.gaussian_kde takes points of shape ({self.d}, m), as its dataset has, not "
                    f"{points.shape}"
                )
            points = points.T
        if self.d == 1:
            variance = self.covariance[0, 0]
            distances = points.T - self.dataset
            return distances * distances / (2 * variance), 0.5 * np.log(2 * math.pi * variance)
        root = self._root(self.covariance)
        here, there = np.linalg.solve(root, points), np.linalg.solve(root, self.dataset)
        distances = here[:, :, np.newaxis] - there[:, np.newaxis]
        size = np.sum(np.log(np.diagonal(root))) + 0.5 * self.d * math.log(2 * math.pi)
        return np.sum(distances * distances, 0) / 2, size

    def evaluate(self, points: Any) -> Tensor:
        """Return the density at points, shape (m,).

        Args:
            points: shape (m,), or (d, m).

        Raises:
            ValueError: the points have other coordinates than the data.
        """
        energies, size = self._energies(points)
        return product(np.exp(-energies), self.weights) * np.exp(-size)

    def __call__(self, points: Any) -> Tensor:
        """Return the density at points: see `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: Any) -> Tensor:
        """Return the density at points: see `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Tensor:
        """Return the logarithm of the density at points, also where the density underflows; see `evaluate`."""
        energies, size = self._energies(x)
        least = raw(energies).min(-1, keepdims=True)
        return np.log(product(np.exp(least - energies), self.weights)) - least[:, 0] - size

    def integrate_box_1d(self, low: Any, high: Any) -> Tensor:
        """Return the probability between two bounds, of data with one coordinate.

        Raises:
            ValueError: the data have more.
        """
        if self.d != 1:
            raise ValueError(f"gaussian_kde.integrate_box_1d takes a dataset of one coordinate, not {self.d}")
        scale = np.sqrt(self.covariance[0, 0])
        inside = norm.cdf(high, self.dataset[0], scale) - norm.cdf(low, self.dataset[0], scale)
        return np.sum(self.weights * inside)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Tensor:
        """Return the integral of the density times a normal one.

        Args:
            mean: shape (d,), or a number for data with one coordinate.
            cov: shape (d, d), or a number.

        Raises:
            ValueError: the shapes do not fit the data.
        """
        mean, cov = np.atleast_1d(floating(mean)), np.atleast_2d(floating(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ValueError(
                f"gaussian_kde.integrate_gaussian takes a mean of shape ({self.d},) and a cov of shape ({self.d}, "
                f"{self.d}), not {mean.shape} and {cov.shape}"
            )
        logarithms = multivariate_normal_logpdf_.call(self.dataset.T, mean, self.covariance + cov)
        return np.sum(self.weights * np.exp(logarithms))

    def integrate_kde(self, other: Any) -> Tensor:
        """Return the integral of the density times that of another `gaussian_kde`.

        Raises:
            ValueError: its points have another number of coordinates.
        """
        if other.d != self.d:
            raise ValueError(
                f"gaussian_kde.integrate_kde takes a density of as many coordinates, not of {other.d} beside {self.d}"
            )
        distances = self.dataset.T[:, np.newaxis] - other.dataset.T
        covariance = self.covariance + other.covariance
        logarithms = multivariate_normal_logpdf_.call(distances, np.zeros(self.d), covariance)
        return np.sum(self.weights[:, np.newaxis] * other.weights * np.exp(logarithms))

    def marginal(self, dimensions: Any) -> gaussian_kde:
        """Return the density of some coordinates.

        Args:
            dimensions: their numbers, or one.

        Raises:
            ValueError: there are no such coordinates, or one is named twice.
        """
        numbers = np.atleast_1d(dimensions)
        is_known = np.issubdtype(numbers.dtype, np.integer) and np.all((numbers >= -self.d) & (numbers < self.d))
        if not is_known or len(set((numbers % self.d).tolist())) != numbers.size:
            raise ValueError(
                f"gaussian_kde.marginal takes distinct numbers of the {self.d} coordinates, not {dimensions!r}"
            )
        return gaussian_kde(self.dataset[numbers], bw_method=self.covariance_factor(), weights=self.weights)

    def resample(self, size: Any = None, seed: Any = None) -> Tensor:
        """Return points that are drawn from the density, shape (d, size); they follow the data as they move.

        Args:
            size: how many, or None for as many as count.
            seed: a seed or a generator of NumPy's, or None.

        Raises:
            ArgumentError: the weights require grad: which point is chosen has no derivative by them.
        """
        if self.weights.requires_grad:
            raise ArgumentError(
                "gaussian_kde.resample chooses among the points by their weights, which has no derivative: pass "
                "weights.detach()"
            )
        size = int(raw(self.neff)) if size is None else size
        # SciPy's generator for a seed, and SciPy's order of draws.
        rng: Any = np.random if seed is None else seed
        rng = np.random.RandomState(rng) if isinstance(rng, int | np.integer) else rng
        covariance = self.covariance
        noise = rng.multivariate_normal(np.zeros(self.d), raw(covariance), size=size).T
        chosen = rng.choice(self.n, size=size, p=raw(self.weights))
        if isinstance(covariance, Tensor) and covariance.requires_grad:
            # For any root of the covariance, expectations have the same derivative.
            root = self._root(covariance)
            noise = product(root, np.linalg.solve(raw(root), noise))
        return self.dataset[:, chosen] + noise
