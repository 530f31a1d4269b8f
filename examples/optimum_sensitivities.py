"""Ask how an optimum moves with what it was computed from.

    python examples/optimum_sensitivities.py

A portfolio of four assets is chosen for the best return less its risk; the weights sum to 1, and none is negative. The
weights that `asyncgrad.scipy.optimize.minimize` finds are differentiable by the expected returns, so one backward for
each weight gives the table of sensitivities. It is checked against solving again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncgrad as ag

try:
    import matplotlib
    import numpy

    from asyncgrad.scipy import optimize
except ImportError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "optimum_sensitivities.png"
RETURNS = numpy.array([0.06, 0.09, 0.12, 0.02])
RISKS = numpy.array([0.10, 0.18, 0.25, 0.20])
SUM = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
NAMES = ("bonds", "mixed", "shares", "cash")


def loss(weights: Any, returns: Any) -> Any:
    """Return the risk less the return."""
    correlation = 0.3 + 0.7 * numpy.eye(4)
    scaled = RISKS * weights
    return 3 * scaled @ correlation @ scaled - returns @ weights


def choose(returns: Any) -> Any:
    """Return the best weights."""
    bounds = [(0, 1)] * 4
    found = optimize.minimize(loss, numpy.full(4, 0.25), (returns,), bounds=bounds, constraints=SUM, tol=1e-14)
    return found.x


def differences() -> Any:
    """Return the table by solving again with other returns."""
    step = 1e-4
    ends = [[choose(RETURNS + sign * step * row).numpy() for row in numpy.eye(4)] for sign in (1, -1)]
    return (numpy.array(ends[0]) - numpy.array(ends[1])).T / (2 * step)


def draw(weights: Any, table: Any, path: Path) -> None:
    """Draw the weights and the table into a file."""
    plt.style.use(Path(__file__).parent / "pictures.mplstyle")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.bar(NAMES, weights, color="C0")
    left.set(title="The best weights", ylabel="weight, fraction of the whole")
    limit = numpy.abs(table).max()
    image = right.imshow(table, cmap="RdBu", vmin=-limit, vmax=limit)
    right.set(title="Change of a weight by a return", xticks=range(4), yticks=range(4))
    right.set(xlabel="return of", ylabel="weight of")
    right.grid(False)
    right.set_xticklabels(NAMES)
    right.set_yticklabels(NAMES)
    figure.colorbar(image, label="weight per unit of return")
    figure.savefig(path)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose, draw, and print the sensitivities; return the exit status."""
    parser = argparse.ArgumentParser(description="Differentiate an optimum by what it was computed from.")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    path = parser.parse_args(arguments).out
    path.parent.mkdir(parents=True, exist_ok=True)
    returns = ag.tensor(RETURNS, requires_grad=True)
    weights = choose(returns)
    table = ag.sync.func.jacrev(choose)(RETURNS)
    draw(weights.detach().numpy(), table, path)
    for name, weight, row in zip(NAMES, weights.tolist(), table, strict=True):
        print(f"{name:<17} {weight:.3f}, by returns {' '.join(f'{one:+.2f}' for one in row)}")
    print(f"differences       agree to {numpy.abs(table - differences()).max():.5f}")
    print(f"picture           {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
