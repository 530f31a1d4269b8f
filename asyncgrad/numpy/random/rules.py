"""How draws depend on the parameters of their distributions: the derivatives of draws, by the names of NumPy's methods.

A *reparametrised* draw is a function of its parameters and of noise that does not depend on them: the noise is drawn
with standard parameters, from the same stream. Any other draw is NumPy's, and its derivative follows from its
distribution function (`shapes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from ...core.arrays.values import raw
from ...core.recording.primitive import Primitive, derivative, primitive
from ...errors import ArgumentError
from .shapes import (
    beta_slope,
    f_slope,
    gamma_slope,
    mills_ratio,
    noncentral_chisquare_slope,
    noncentral_f_slope,
    vonmises_slope,
)

__all__ = ["IMPLICIT", "REPARAMETRISED", "Reparametrised", "correlate"]


@final
class Reparametrised(NamedTuple):
    """A draw as a function of noise and of the parameters of the distribution."""

    #: The method that draws the noise.
    noise: str
    #: Its arguments.
    standard: tuple[float, ...]
    #: Takes the noise and the parameters.
    transform: Callable[..., Any]


def _shift_and_scale(noise: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * noise


def _scale(noise: Any, scale: Any) -> Any:
    return scale * noise


def _triangular(noise: Any, left: Any, mode: Any, right: Any) -> Any:
    base, lower = right - left, mode - left
    falls = raw(noise) > raw(lower) / raw(base)
    # The noise of the other side is replaced, whose root may be 0, with an infinite derivative.
    rising = left + np.sqrt(np.where(falls, 0.5, noise) * np.where(falls, 1.0, lower * base))
    falling = right - np.sqrt(np.where(falls, 1.0 - noise, 0.5) * np.where(falls, (right - mode) * base, 1.0))
    return np.where(falls, falling, rising)


REPARAMETRISED = {
    "exponential": Reparametrised("exponential", (1.0,), _scale),
    "gumbel": Reparametrised("gumbel", (0.0, 1.0), _shift_and_scale),
    "laplace": Reparametrised("laplace", (0.0, 1.0), _shift_and_scale),
    "logistic": Reparametrised("logistic", (0.0, 1.0), _shift_and_scale),
    "lognormal": Reparametrised("normal", (0.0, 1.0), lambda noise, mean, sigma: np.exp(mean + sigma * noise)),
    "normal": Reparametrised("normal", (0.0, 1.0), _shift_and_scale),
    "rayleigh": Reparametrised("rayleigh", (1.0,), _scale),
    "triangular": Reparametrised("uniform", (0.0, 1.0), _triangular),
    "uniform": Reparametrised("uniform", (0.0, 1.0), lambda noise, low, high: low + (high - low) * noise),
}


# Draws of NumPy's. The derivative of a power of noise follows from the draw itself.


def _times_logarithm(x: Any) -> Any:
    """Return x * log(x), and 0 at 0."""
    return x * np.log(np.where(raw(x) > 0, x, 1.0))


@primitive()
def weibull(a: Any, draw: Any) -> Any:
    """Return a draw, the power 1 / a of exponential noise."""
    return draw


@derivative(weibull, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    return -g * _times_logarithm(out) / a


@primitive()
def power(a: Any, draw: Any) -> Any:
    """Return a draw, the power 1 / a of uniform noise."""
    return draw


derivative(power, "a")(lambda g, a, out: -g * _times_logarithm(out) / a)


@primitive()
def pareto(a: Any, draw: Any) -> Any:
    """Return a draw, `expm1(noise / a)` of exponential noise."""
    return draw


@derivative(pareto, "a")
def _(g: Any, a: Any, out: Any) -> Any:
    return -g * (1 + out) * np.log1p(out) / a


@primitive()
def wald(mean: Any, scale: Any, draw: Any) -> Any:
    """Return a draw of the inverse Gaussian distribution."""
    return draw


def _tail_of_wald(mean: Any, scale: Any, x: Any) -> Any:
    return mills_ratio.call(np.sqrt(scale / x) * (x / mean + 1))


@derivative(wald, "mean")
def _(g: Any, mean: Any, scale: Any, out: Any) -> Any:
    return g * 2 * np.sqrt(scale * out) * out / np.square(mean) * _tail_of_wald(mean, scale, out)


@derivative(wald, "scale")
def _(g: Any, mean: Any, scale: Any, out: Any) -> Any:
    return g * (out / scale - 2 / mean * _tail_of_wald(mean, scale, out) * out * np.sqrt(out / scale))


# Draws that depend on a gamma distribution.


@primitive()
def standard_gamma(shape: Any, draw: Any) -> Any:
    """Return a draw of the gamma distribution with scale 1."""
    return draw


@derivative(standard_gamma, "shape")
def _(g: Any, shape: Any, out: Any) -> Any:
    return g * out * gamma_slope(shape, out)


@primitive()
def chisquare(df: Any, draw: Any) -> Any:
    """Return a draw of the chi-square distribution, twice the gamma distribution of shape df / 2."""
    return draw


@derivative(chisquare, "df")
def _(g: Any, df: Any, out: Any) -> Any:
    return g * out * gamma_slope(df / 2, out / 2) / 2


@primitive()
def noncentral_chisquare(df: Any, nonc: Any, draw: Any) -> Any:
    """Return a draw of the noncentral chi-square distribution."""
    return draw


@derivative(noncentral_chisquare, "df")
def _(g: Any, df: Any, nonc: Any, out: Any) -> Any:
    return g * out * noncentral_chisquare_slope("df", df, nonc, out)


@derivative(noncentral_chisquare, "nonc")
def _(g: Any, df: Any, nonc: Any, out: Any) -> Any:
    return g * out * noncentral_chisquare_slope("nonc", df, nonc, out)


# Draws that depend on a beta distribution.


@primitive()
def beta(a: Any, b: Any, draw: Any) -> Any:
    """Return a draw of the beta distribution."""
    return draw


@derivative(beta, "a")
def _(g: Any, a: Any, b: Any, out: Any) -> Any:
    return g * out * (1 - out) * beta_slope(a, b, out, 1 - out)


@derivative(beta, "b")
def _(g: Any, a: Any, b: Any, out: Any) -> Any:
    return -g * out * (1 - out) * beta_slope(b, a, 1 - out, out)


@primitive()
def dirichlet(alpha: Any, draw: Any) -> Any:
    """Return a draw of the Dirichlet distribution."""
    return draw


@derivative(dirichlet, "alpha")
def _(g: Any, alpha: Any, out: Any) -> Any:
    # A component has a beta distribution, and the proportions of the others do not depend on it.
    rest = np.sum(alpha) - alpha
    alone = raw(alpha).shape[0] == 1
    moved = out * beta_slope(alpha, 1.0 if alone else rest, out, 1 - out)
    return moved * (g - np.sum(g * out, -1, keepdims=True))


@primitive()
def f(dfnum: Any, dfden: Any, draw: Any) -> Any:
    """Return a draw of the F distribution."""
    return draw


@derivative(f, "dfnum")
def _(g: Any, dfnum: Any, dfden: Any, out: Any) -> Any:
    return g * out * f_slope("dfnum", dfnum, dfden, out)


@derivative(f, "dfden")
def _(g: Any, dfnum: Any, dfden: Any, out: Any) -> Any:
    return g * out * f_slope("dfden", dfnum, dfden, out)


@primitive()
def noncentral_f(dfnum: Any, dfden: Any, nonc: Any, draw: Any) -> Any:
    """Return a draw of the noncentral F distribution."""
    return draw


@derivative(noncentral_f, "dfnum")
def _(g: Any, dfnum: Any, dfden: Any, nonc: Any, out: Any) -> Any:
    return g * out * noncentral_f_slope("dfnum", dfnum, dfden, nonc, out)


@derivative(noncentral_f, "dfden")
def _(g: Any, dfnum: Any, dfden: Any, nonc: Any, out: Any) -> Any:
    return g * out * noncentral_f_slope("dfden", dfnum, dfden, nonc, out)


@derivative(noncentral_f, "nonc")
def _(g: Any, dfnum: Any, dfden: Any, nonc: Any, out: Any) -> Any:
    return g * out * noncentral_f_slope("nonc", dfnum, dfden, nonc, out)


@primitive()
def standard_t(df: Any, draw: Any) -> Any:
    """Return a draw of Student's distribution, whose square has the F distribution of 1 and df."""
    return draw


@derivative(standard_t, "df")
def _(g: Any, df: Any, out: Any) -> Any:
    return g * out * f_slope("dfden", 1.0, df, np.square(out)) / 2


# Angles.


@primitive()
def vonmises(mu: Any, kappa: Any, draw: Any) -> Any:
    """Return a draw of the von Mises distribution."""
    return draw


derivative(vonmises, "mu")(lambda g: g)


@derivative(vonmises, "kappa")
def _(g: Any, mu: Any, kappa: Any, out: Any) -> Any:
    turns = np.round((raw(out) - raw(mu)) / (2 * np.pi))
    return g * vonmises_slope(kappa, out - mu - 2 * np.pi * turns)


IMPLICIT: dict[str, Primitive] = {
    made.name: made
    for made in (
        beta,
        chisquare,
        dirichlet,
        f,
        noncentral_chisquare,
        noncentral_f,
        pareto,
        power,
        standard_gamma,
        standard_t,
        vonmises,
        wald,
        weibull,
    )
}


# Rows of normal numbers.


def _factor(cov: Any, method: str) -> Any:
    """Return the matrix by which NumPy multiplies standard normal numbers; its columns may be eigenvectors."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.abs(values))
    left, values, right = np.linalg.svd(cov)
    return (left if method == "svd" else right.mT) * np.sqrt(values)


#: The least distance of eigenvalues from each other and from 0, relative to the largest, at which their eigenvectors
#: are differentiated. The derivative grows as the distance shrinks, and so does its error.
_LEAST_GAP = 1e-6


def _has_factor_derivative(cov: Any, method: str) -> bool:
    """Tell whether the factor has a derivative: eigenvectors have none where eigenvalues are equal."""
    if method == "cholesky" or not cov.size:
        return True
    values = np.linalg.svd(cov, compute_uv=False)
    return bool((values - np.append(values[1:], 0.0) > _LEAST_GAP * values[0]).all())


def correlate(rows: Any, cov: Any, method: str) -> Any:
    """Return rows of standard normal numbers multiplied by the factor of a covariance.

    Where NumPy's factor has no derivative, or nearly so, that of the Cholesky factor is taken: for any factor, the
    expectation has the same derivative.

    Args:
        rows: the numbers.
        cov: the covariance, an array or a tensor.
        method: "cholesky", "eigh" or "svd", as Generator takes it; "svd of rows" is what RandomState does.

    Raises:
        ArgumentError: the covariance requires grad and is singular.
    """
    bare = raw(cov)
    if bare is cov or _has_factor_derivative(bare, method):
        return rows @ _factor(cov, method).mT
    try:
        factor = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        raise ArgumentError(
            f"multivariate_normal: a covariance of shape {bare.shape} that requires grad is not positive definite, so "
            "that its factor has no derivative: add a small multiple of the identity, as in cov + 1e-9 * np.eye(n)"
        ) from None
    found = rows @ _factor(bare, method).T
    same = np.linalg.solve(raw(factor), found.T).T @ factor.mT
    return found + (same - raw(same))
