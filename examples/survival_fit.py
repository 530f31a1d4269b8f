"""Fit a survival model to data of which some are censored, with standard errors.

    python examples/survival_fit.py

Lifetimes follow Weibull's distribution, whose scale depends on a covariate. Some subjects leave the study alive, and of
these the likelihood knows only that they lived longer. `asyncgrad.scipy.optimize.minimize` finds the most likely
coefficients with gradients by asyncgrad; the inverse of the Hessian there gives their standard errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncgrad as ag
import asyncgrad.numpy as np

try:
    import matplotlib
    import numpy

    from asyncgrad.scipy import optimize
except ImportError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "survival_fit.png"
TRUE = {"shape": 1.5, "intercept": 1.0, "slope": -0.7}


def draw_data(count: int) -> tuple[Any, Any, Any]:
    """Return covariates, times of (count,), and whether each time is a death rather than the end of the study."""
    rng = numpy.random.default_rng(0)
    covariates = rng.normal(size=count)
    lives = numpy.exp(TRUE["intercept"] + TRUE["slope"] * covariates) * rng.weibull(TRUE["shape"], count)
    ends = rng.exponential(6.0, count)
    return covariates, numpy.minimum(lives, ends), lives <= ends


def loss(coefficients: Any, covariates: Any, times: Any, died: Any) -> Any:
    """Return the negative logarithm of the likelihood."""
    log_shape, intercept, slope = coefficients
    shape = np.exp(log_shape)
    logs = np.log(times) - intercept - slope * covariates
    return np.sum(
        np.exp(shape * logs) - np.where(died, log_shape + (shape - 1) * logs - intercept - slope * covariates, 0)
    )


def draw(coefficients: Any, path: Path) -> None:
    """Draw the fitted and the true curves of survival into a file."""
    plt.style.use(Path(__file__).parent / "pictures.mplstyle")
    log_shape, intercept, slope = coefficients
    times = numpy.linspace(0, 12, 200)
    figure, axes = plt.subplots(figsize=(7, 4))
    for covariate, color in ((-1.0, "C0"), (1.0, "C1")):
        fitted = numpy.exp(-((times / numpy.exp(intercept + slope * covariate)) ** numpy.exp(log_shape)))
        true = numpy.exp(-((times / numpy.exp(TRUE["intercept"] + TRUE["slope"] * covariate)) ** TRUE["shape"]))
        axes.plot(times, fitted, color=color, label=f"covariate {covariate:+.0f}, fitted")
        axes.plot(times, true, ":", color=color, label="true")
    axes.set(title="Survival", xlabel="time since entry, unit of the data", ylabel="fraction alive")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, draw, and print the coefficients; return the exit status."""
    parser = argparse.ArgumentParser(description="Fit a Weibull regression with censoring.")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    path = parser.parse_args(arguments).out
    path.parent.mkdir(parents=True, exist_ok=True)
    data = draw_data(400)
    found = optimize.minimize(loss, numpy.zeros(3), data, method="trust-exact")
    coefficients = found.x.numpy()
    hessian = ag.sync.func.hessian(loss)(coefficients, *data)
    errors = numpy.sqrt(numpy.diag(numpy.linalg.inv(hessian)))
    draw(coefficients, path)
    true = (numpy.log(TRUE["shape"]), TRUE["intercept"], TRUE["slope"])
    for name, value, error, exact in zip(("log shape", "intercept", "slope"), coefficients, errors, true, strict=True):
        print(f"{name:<17} {value:.3f} +- {error:.3f}, true {exact:.3f}")
    print(f"censored          {1 - data[2].mean():.2f} of the subjects")
    print(f"picture           {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
