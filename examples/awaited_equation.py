"""Learn a differential equation whose right-hand side is awaited.

    python examples/awaited_equation.py

A layer of a network gives the velocity of a boat in water; the current is asked of a service, which takes its time to
answer. So the right-hand side is an `async def`, and `await integrate.odeint(...)` solves the equation while the event
loop goes on. The backward solves the adjoint equation, and awaits the service again: what is kept does not grow with
the steps.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncgrad as ag
import asyncgrad.numpy as np

try:
    import matplotlib
    import numpy

    from asyncgrad.scipy import integrate
except ImportError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "awaited_equation.png"
TIMES = numpy.linspace(0.0, 2.0, 6)
START = numpy.array([1.0, 0.0])
ITERATIONS = 40


async def current(time: float) -> Any:
    """Return the current at a time, as a service would."""
    await asyncio.sleep(0)
    return 0.3 * numpy.array([numpy.cos(2 * time), numpy.sin(2 * time)])


async def boat(state: Any, time: float, matrix: Any) -> Any:
    """Return the velocity at a state."""
    return np.tanh(matrix @ state) + await current(time)


async def learn() -> tuple[Any, Any, list[float], int]:
    """Return the observed and the learned states, the losses, and how often the loop came round."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count_turns())
    observed = await integrate.odeint(boat, START, TIMES, (numpy.array([[-0.2, -1.5], [1.5, -0.2]]),))

    async def loss(matrix: Any) -> Any:
        states = await integrate.odeint(boat, START, TIMES, (matrix,), rtol=1e-5, atol=1e-5)
        return np.mean((states - observed.numpy()) ** 2)

    matrix, losses = numpy.array([[0.0, -1.0], [1.0, 0.0]]), []
    value_and_grad = ag.func.value_and_grad(loss)
    for _ in range(ITERATIONS):
        value, gradient = await value_and_grad(matrix)
        matrix = matrix - 0.5 * gradient
        losses.append(float(value))
    learned = await integrate.odeint(boat, START, TIMES, (matrix,))
    counter.cancel()
    return observed.numpy(), learned.numpy(), losses, turns


def draw(observed: Any, learned: Any, losses: list[float], path: Path) -> None:
    """Draw the states and the loss into a file."""
    plt.style.use(Path(__file__).parent / "pictures.mplstyle")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.plot(*observed.T, "o", color="C1", label="observed")
    left.plot(*learned.T, color="C0", label="learned")
    left.set(title="The way of the boat", xlabel="x", ylabel="y", aspect="equal")
    left.legend()
    right.plot(losses, color="C0")
    right.set(title="Loss", xlabel="iteration", ylabel="mean squared error", yscale="log")
    figure.savefig(path)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, draw, and print the results; return the exit status."""
    parser = argparse.ArgumentParser(description="Learn an equation whose right-hand side is awaited.")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    path = parser.parse_args(arguments).out
    path.parent.mkdir(parents=True, exist_ok=True)
    observed, learned, losses, turns = ag.run(learn())
    draw(observed, learned, losses, path)
    print(f"loss              {losses[0]:.6f} at first, {losses[-1]:.6f} at last")
    print(f"turns of the loop {turns}")
    print(f"picture           {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
