"""Learn the hyperparameters of a Gaussian process, and how certain they are.

    python examples/gaussian_process.py

The marginal likelihood is written with `asyncgrad.numpy`. Three transforms do the rest: SciPy's L-BFGS follows the
gradient that `value_and_grad` returns as an array, `hessian` at the optimum gives a standard error for each
hyperparameter, and `elementwise_grad` of the learned mean gives the slope of the curve. The hyperparameters are a
dataclass, which the transforms take as they take a tuple or a dict.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import asyncgrad as ag
import asyncgrad.numpy as np
from asyncgrad.sync import func

try:
    import matplotlib
    import numpy
    from scipy.optimize import minimize
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "gaussian_process.png"
NOISE = 0.15
#: The gradient has to be this small where the search ends.
TOLERANCE = 1e-3


class Data(NamedTuple):
    """Points of shape (n,), and a noisy value at each, of shape (n,)."""

    points: numpy.ndarray
    values: numpy.ndarray


@final
@dataclass(frozen=True)
class Hyperparameters:
    """Logarithms of positive numbers, so that a search without bounds may take any value."""

    height: float | ag.Tensor
    length: float | ag.Tensor
    noise: float | ag.Tensor


START = Hyperparameters(height=0.0, length=0.0, noise=math.log(0.5))


def curve(points: numpy.ndarray) -> numpy.ndarray:
    """Return the curve that the data are drawn from."""
    values: numpy.ndarray = numpy.sin(2 * points) + 0.3 * points
    return values


def observe(count: int, seed: int) -> Data:
    """Draw points with a gap in the middle, and the values of the curve there, with noise."""
    rng = numpy.random.default_rng(seed)
    halves = rng.uniform(-4, -1, count // 2), rng.uniform(0.5, 4, count - count // 2)
    points = numpy.sort(numpy.concatenate(halves))
    return Data(points, curve(points) + NOISE * rng.standard_normal(count))


def covariance(hyper: Hyperparameters, left: Any, right: Any) -> ag.Tensor:
    """Return the covariance of the curve at points of shapes (n,) and (m,): shape (n, m)."""
    distances = (left[:, None] - right[None, :]) / np.exp(hyper.length)
    result: ag.Tensor = np.exp(2 * hyper.height - 0.5 * distances**2)
    return result


def data_covariance(hyper: Hyperparameters, data: Data) -> ag.Tensor:
    """Return the covariance of the noisy values: shape (n, n)."""
    noise = np.exp(2 * hyper.noise) * np.eye(len(data.points))
    result: ag.Tensor = covariance(hyper, data.points, data.points) + noise
    return result


def negative_log_likelihood(hyper: Hyperparameters, data: Data) -> ag.Tensor:
    """Return minus the logarithm of the probability density of the values, with the curve integrated out."""
    factor = np.linalg.cholesky(data_covariance(hyper, data))
    whitened = np.linalg.solve(factor, data.values)
    misfit = 0.5 * np.sum(whitened**2)
    volume = np.sum(np.log(np.diagonal(factor)))
    result: ag.Tensor = misfit + volume + 0.5 * len(data.values) * math.log(2 * math.pi)
    return result


@final
@dataclass(frozen=True)
class Fit:
    """Learned hyperparameters, their standard errors, and the value and gradient of the objective there."""

    hyper: Hyperparameters
    errors: numpy.ndarray
    objective: float
    gradient: numpy.ndarray


def learn(data: Data) -> Fit:
    """Minimize the negative log likelihood, and read the standard errors off its Hessian."""
    start, unflatten = ag.tree.ravel(START)

    def objective(vector: Any) -> ag.Tensor:
        return negative_log_likelihood(unflatten(vector), data)

    found = minimize(func.value_and_grad(objective), start, jac=True, method="L-BFGS-B")
    curvature = numpy.asarray(func.hessian(objective)(found.x))
    errors = numpy.sqrt(numpy.diagonal(numpy.linalg.inv(curvature)))
    return Fit(unflatten(found.x), errors, float(found.fun), found.jac)


def posterior_mean(hyper: Hyperparameters, data: Data) -> Callable[[Any], ag.Tensor]:
    """Return the expected curve as a function of points of shape (m,)."""
    weights = np.linalg.solve(data_covariance(hyper, data), data.values)

    def mean(points: Any) -> ag.Tensor:
        result: ag.Tensor = covariance(hyper, points, data.points) @ weights
        return result

    return mean


def posterior_deviation(hyper: Hyperparameters, data: Data, points: numpy.ndarray) -> ag.Tensor:
    """Return the standard deviation of the curve at each point: shape (m,)."""
    across = covariance(hyper, data.points, points)
    explained = np.sum(across * np.linalg.solve(data_covariance(hyper, data), across), axis=0)
    result: ag.Tensor = np.sqrt(np.maximum(np.exp(2 * hyper.height) - explained, 0.0))
    return result


BLUE, ORANGE, GREY = "C0", "C1", "C2"
STYLE = Path(__file__).parent / "pictures.mplstyle"


def draw(fit: Fit, data: Data, path: Path) -> None:
    """Draw the curve before and after learning, and the slope of the learned one, into a file."""
    grid = numpy.linspace(-5, 5, 300)
    stages = {"Before learning": START, "After learning": fit.hyper}
    with plt.style.context(STYLE):
        figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
        for axes, (title, hyper) in zip(panels[:2], stages.items(), strict=True):
            mean = posterior_mean(hyper, data)(grid).numpy()
            deviation = posterior_deviation(hyper, data, grid).numpy()
            axes.fill_between(grid, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.2, linewidth=0)
            axes.plot(grid, mean, color=BLUE, linewidth=2, label="mean ± 2 deviations")
            axes.plot(grid, curve(grid), color=GREY, linestyle="--", label="the curve")
            axes.plot(*data, "o", color=ORANGE, markersize=4, label="data")
            axes.set(title=title, xlabel="x", ylabel="y", ylim=(-4, 4))
        slope = func.elementwise_grad(posterior_mean(fit.hyper, data))(grid)
        panels[2].plot(grid, slope, color=BLUE, linewidth=2, label="slope of the mean")
        panels[2].plot(grid, 2 * numpy.cos(2 * grid) + 0.3, color=GREY, linestyle="--", label="slope of the curve")
        panels[2].set(title="Its slope", xlabel="x", ylabel="dy/dx", ylim=(-4, 3))
        for axes in panels:
            axes.legend(loc="lower right")
        figure.savefig(path, dpi=100)
        plt.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn the hyperparameters of a Gaussian process.")
    parser.add_argument("--count", type=int, default=40, help="data points (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.count < 4:
        parser.error(f"--count must be at least 4, and is {options.count}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, draw, and print the hyperparameters; return the exit status."""
    options = parse(arguments)
    data = observe(options.count, options.seed)
    fit = learn(data)
    draw(fit, data, options.out)
    before = negative_log_likelihood(START, data).item()
    print(f"negative log likelihood   {before:.3f} before, {fit.objective:.3f} after")
    for name, error in zip(("height", "length", "noise"), fit.errors, strict=True):
        logarithm = float(getattr(fit.hyper, name))
        print(f"{name:<25} {math.exp(logarithm):.3f}, times or over {math.exp(error):.2f}")
    print(f"picture                   {options.out}")
    if not numpy.abs(fit.gradient).max() < TOLERANCE:
        print(f"the search ended at a gradient of {fit.gradient}: try another --seed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
