"""Find how the heat in a rod was distributed at first, from a measurement made later: a backward through slice writes.

The rod is an array that a loop updates in place by slices, as in NumPy. A backward through all those writes gives the
gradient of the final temperatures with respect to the initial ones. Gradient descent then finds the initial ones.

    python examples/inplace_and_views.py [--picture rod.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

POINTS, STEPS, RATE = 64, 20, 0.4


def cooled(start: Any) -> Any:
    """Return the rod after STEPS steps of the heat equation; its ends stay at 0."""
    rod = start.copy()
    rod[[0, -1]] = 0.0
    for _ in range(STEPS):
        rod[1:-1] += RATE * (rod[2:] - 2 * rod[1:-1] + rod[:-2])
    return rod


def true_start() -> np.ndarray:
    """Return a rod with two hot places, one narrow and one wide."""
    place = np.linspace(0, 1, POINTS)
    start: np.ndarray = np.exp(-(((place - 0.3) / 0.08) ** 2)) + 0.6 * np.exp(-(((place - 0.7) / 0.12) ** 2))
    return start


async def sensitivity(start: np.ndarray, point: int) -> np.ndarray:
    """Return the gradient of the final temperature of one point with respect to the initial rod."""
    rod = ag.tensor(start, requires_grad=True)
    (found,) = await ag.grad(cooled(rod)[point : point + 1], [rod])
    gradient: np.ndarray = found.numpy()
    return gradient


async def find_start(measured: np.ndarray, rounds: int) -> tuple[ag.Tensor, list[float]]:
    """Return an initial rod that cools to the measured one, and the loss of each round."""
    guess = ag.tensor(np.zeros(POINTS), requires_grad=True)
    optimizer = optim.Adam([guess], lr=0.05)
    losses = []
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = np.square(cooled(guess) - measured).mean()
        await loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return guess, losses


def draw(path: str, measured: np.ndarray, guess: ag.Tensor, gradient: np.ndarray) -> None:
    """Draw the initial rod, the measured one and the one that was found, and the gradient of one point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.style.use(Path(__file__).parent / "pictures.mplstyle")
    figure, (axes, below) = pyplot.subplots(2, 1, figsize=(7, 6), sharex=True)
    axes.plot(true_start(), color="C2", linewidth=5, label="how it began")
    axes.plot(measured, color="C0", label=f"measured {STEPS} steps later")
    axes.plot(guess.detach().numpy(), "--", color="C1", label="found again, from the measurement")
    axes.set(title="The rod", ylabel="temperature above its ends")
    axes.legend()
    below.bar(np.arange(POINTS), gradient)
    below.set(title="The middle at the end, by the start", xlabel="point of the rod", ylabel="gradient")
    figure.savefig(path)
    pyplot.close(figure)


async def main(rounds: int = 300, picture: str | None = None) -> tuple[float, float]:
    """Find the initial rod, and print the error; return the first and the last loss."""
    measured = cooled(true_start())
    guess, losses = await find_start(measured, rounds)
    gradient = await sensitivity(true_start(), POINTS // 2)
    error = np.abs(guess.numpy() - true_start())[1:-1].max()
    print(f"the middle of the rod at its end depends on {np.count_nonzero(gradient)} points of its start")
    print(f"loss {losses[0]:.2e} -> {losses[-1]:.2e}; the start is found to within {error:.3f}")
    if picture is not None:
        draw(picture, measured, guess, gradient)
        print(f"drawn in {picture}")
    return losses[0], losses[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--picture", help="where to draw the rod (needs matplotlib)")
    options = parser.parse_args()
    ag.run(main(options.rounds, options.picture))
