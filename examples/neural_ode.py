"""Learn a differential equation from its trajectories, through a Runge-Kutta method written by hand.

    python examples/neural_ode.py

A small network is the right-hand side of the equation. The loss compares the states that a Runge-Kutta method of
fourth order reaches with observed ones; its gradient goes back through every step of the method. The weights are a
dict, and the gradient that `ag.func.value_and_grad` returns is a dict of the same keys. `ag.checkpoint` keeps one state
per step and computes the rest again during the backward, which is awaited: a second coroutine counts how often the
event loop comes round meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import asyncgrad as ag
import asyncgrad.numpy as np

try:
    import matplotlib
    import numpy
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "neural_ode.png"
STEP = 0.05
START = numpy.array([[2.0, 0.0]])
LEARNING_RATE = 0.01

#: Arrays, or tensors inside a transform, by name.
Weights: TypeAlias = dict[str, Any]


class Segments(NamedTuple):
    """Pieces of a trajectory: their first states, (count, 2), and the states after each step, (steps, count, 2)."""

    first: numpy.ndarray
    later: numpy.ndarray


def spiral(states: Any) -> Any:
    """Return the true velocity at states of shape (count, 2): a spiral into the origin."""
    return states**3 @ numpy.array([[-0.1, -2.0], [2.0, -0.1]])


def network(weights: Weights, states: Any) -> Any:
    """Return the learned velocity at states of shape (count, 2)."""
    hidden = np.tanh(states**3 @ weights["in"] + weights["bias"])
    return hidden @ weights["out"]


def initial_weights(hidden: int, rng: numpy.random.Generator) -> Weights:
    """Return small random weights."""
    return {
        "in": rng.normal(scale=0.5, size=(2, hidden)),
        "bias": numpy.zeros(hidden),
        "out": rng.normal(scale=math.sqrt(1 / hidden), size=(hidden, 2)),
    }


def runge_kutta_step(velocity: Callable[..., Any], states: Any, *arguments: Any) -> Any:
    """Return the states after one step of the classical method of fourth order."""
    first = velocity(*arguments, states)
    second = velocity(*arguments, states + STEP / 2 * first)
    third = velocity(*arguments, states + STEP / 2 * second)
    fourth = velocity(*arguments, states + STEP * third)
    return states + STEP / 6 * (first + 2 * second + 2 * third + fourth)


def trajectory(velocity: Callable[..., Any], states: Any, steps: int, *arguments: Any) -> Any:
    """Return the states after each step: shape (steps, count, 2)."""
    reached = []
    for _ in range(steps):
        states = ag.checkpoint(runge_kutta_step, velocity, states, *arguments, use_reentrant=False)
        reached.append(states)
    return np.stack(reached)


def loss(weights: Weights, segments: Segments) -> ag.Tensor:
    """Return the mean squared distance from the observed states."""
    predicted = trajectory(network, segments.first, len(segments.later), weights)
    result: ag.Tensor = np.mean((predicted - segments.later) ** 2)
    return result


def observe(steps: int) -> numpy.ndarray:
    """Return a trajectory of the true equation: shape (steps + 1, 2)."""
    later = trajectory(spiral, ag.tensor(START), steps).numpy()
    return numpy.concatenate([START, later[:, 0]])


def draw_segments(states: numpy.ndarray, count: int, steps: int, rng: numpy.random.Generator) -> Segments:
    """Choose pieces of the trajectory that begin anywhere on it."""
    begins = rng.integers(len(states) - steps, size=count)
    return Segments(states[begins], numpy.stack([states[begins + step] for step in range(1, steps + 1)]))


@final
class Adam:
    """Adam on a tree of arrays, which it does not change: `step` returns the next one. Its rate falls to zero."""

    def __init__(self, weights: Weights, iterations: int) -> None:
        self.iterations = iterations
        self.mean = ag.tree.map(numpy.zeros_like, weights)
        self.square = ag.tree.map(numpy.zeros_like, weights)
        self.count = 0

    def step(self, weights: Weights, gradient: Weights) -> Weights:
        """Return the weights after a step against the gradient."""
        self.count += 1
        self.mean = ag.tree.map(lambda m, g: 0.9 * m + 0.1 * g, self.mean, gradient)
        self.square = ag.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, self.square, gradient)
        falling = LEARNING_RATE * (1 - (self.count - 1) / self.iterations)
        rate = falling * math.sqrt(1 - 0.99**self.count) / (1 - 0.9**self.count)
        moved: Weights = ag.tree.map(
            lambda w, m, s: w - rate * m / (numpy.sqrt(s) + 1e-8), weights, self.mean, self.square
        )
        return moved


@final
@dataclass
class Result:
    """Learned weights, the loss of each iteration, and how often the loop came round."""

    weights: Weights
    losses: list[float] = field(default_factory=list)
    turns: int = 0


async def learn(options: argparse.Namespace, states: numpy.ndarray) -> Result:
    """Train the network on random pieces of the trajectory."""
    rng = numpy.random.default_rng(options.seed)
    result = Result(initial_weights(options.hidden, rng))
    optimizer = Adam(result.weights, options.iterations)
    value_and_grad = ag.func.value_and_grad(loss)
    counter = asyncio.create_task(count_turns(result))
    for _ in range(options.iterations):
        segments = draw_segments(states, 20, options.steps, rng)
        value, gradient = await value_and_grad(result.weights, segments)
        result.weights = optimizer.step(result.weights, gradient)
        result.losses.append(float(value))
        await asyncio.sleep(0)
    counter.cancel()
    return result


async def count_turns(result: Result) -> None:
    """Count the turns of the event loop: another request would be served in each."""
    for result.turns in itertools.count(1):
        await asyncio.sleep(0)


BLUE, ORANGE, GREY = "C0", "C1", "C2"
STYLE = Path(__file__).parent / "pictures.mplstyle"


def draw(result: Result, observed: numpy.ndarray, predicted: numpy.ndarray, path: Path) -> None:
    """Draw both trajectories, the learned velocities and the loss into a file."""
    side = numpy.linspace(-2.2, 2.2, 25)
    grid = numpy.stack(numpy.meshgrid(side, side), axis=-1).reshape(-1, 2)
    velocities = network(result.weights, grid).numpy().reshape(25, 25, 2)
    times = STEP * numpy.arange(len(observed))
    with plt.style.context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
        for axis, name in enumerate("xy"):
            color = (BLUE, ORANGE)[axis]
            left.plot(times, observed[:, axis], "o", color=color, markersize=2, label=f"{name}, observed")
            left.plot(times, predicted[:, axis], color=color, label=f"{name}, learned")
        left.set(title="From the first state alone", xlabel="time t", ylabel="state x, y")
        middle.streamplot(side, side, velocities[..., 0], velocities[..., 1], color=GREY, linewidth=0.6, arrowsize=0.7)
        middle.plot(*observed.T, "o", color=ORANGE, markersize=2, label="observed")
        middle.plot(*predicted.T, color=BLUE, linewidth=2, label="learned")
        middle.set(title="The learned velocities", xlabel="x", ylabel="y", aspect="equal")
        middle.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2))
        right.plot(result.losses, color=BLUE, linewidth=0.8, label="loss")
        right.set(title="Loss", xlabel="iteration", ylabel="mean squared error", yscale="log")
        for axes in figure.axes:
            axes.legend(loc="lower right")
        figure.savefig(path, dpi=100)
        plt.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn a differential equation through a Runge-Kutta method.")
    parser.add_argument("--iterations", type=int, default=600, help="training steps (default: 600)")
    parser.add_argument("--steps", type=int, default=10, help="steps of the method in a piece (default: 10)")
    parser.add_argument("--hidden", type=int, default=32, help="hidden units (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and pieces (default: 0)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    for name in ("iterations", "steps", "hidden"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, and is {getattr(options, name)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, draw, and print the results; return the exit status."""
    options = parse(arguments)
    observed = observe(200)
    result = ag.run(learn(options, observed))
    later = trajectory(network, ag.tensor(START), len(observed) - 1, result.weights).numpy()
    predicted = numpy.concatenate([START, later[:, 0]])
    draw(result, observed, predicted, options.out)
    last = float(numpy.mean(result.losses[-20:]))
    print(f"loss              {result.losses[0]:.5f} at first, {last:.5f} at last")
    print(f"distance          {numpy.abs(predicted - observed).mean():.4f} on average over {len(later)} steps")
    print(f"turns of the loop {result.turns / options.iterations:.1f} in an iteration")
    print(f"picture           {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
