"""Train two hundred small models, each with its own data, concurrently on one event loop.

    python examples/many_models.py

Each model belongs to a sensor, and predicts the sensor's curve from the time of day. Measurements come over a link with
a latency of 20 ms; while one model waits for a batch, the others learn from theirs. So the whole takes little longer
than the computation alone, and no model gets far ahead of the others. A progress bar shows the sum of all steps;
`--each` also shows one bar per model.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, final

# The matrices are small: a second BLAS thread would cost more than it saves, and waiting for it would stall the loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

try:
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

LATENCY = 0.020
BATCH = 64
HARMONICS = 3
LEARNING_RATE = 0.02
#: The largest median error of the models at the end, as a fraction of the variance of their curves.
TARGET = 0.1


@final
class Sensor:
    """Simulates a remote sensor, whose curve is a sum of sines and whose measurements are noisy."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.waves = rng.standard_normal((2, HARMONICS)) / np.arange(1, HARMONICS + 1)

    async def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return times of day and values, both of shape (BATCH, 1), after the link's latency."""
        await asyncio.sleep(LATENCY)
        times = self.rng.random((BATCH, 1))
        return times, self.curve(times) + 0.05 * self.rng.standard_normal((BATCH, 1))

    def curve(self, times: np.ndarray) -> np.ndarray:
        """Return the values without noise; times and values have shape (n, 1)."""
        angles = 2 * np.pi * times * np.arange(1, HARMONICS + 1)
        values: np.ndarray = np.sum(self.waves[0] * np.sin(angles) + self.waves[1] * np.cos(angles), axis=1)
        return values[:, None]


@final
class Model:
    """Two layers from times of day, as points on a circle of shape (n, 2), to values of shape (n, 1)."""

    def __init__(self, rng: np.random.Generator) -> None:
        def layer(out: int, into: int) -> list[ag.Tensor]:
            weight = rng.standard_normal((out, into)) * np.sqrt(2 / into)
            return [ag.tensor(weight, requires_grad=True), ag.tensor(np.zeros(out), requires_grad=True)]

        self.first, self.second = layer(32, 2), layer(1, 32)
        self.optimizer = optim.Adam([*self.first, *self.second], lr=LEARNING_RATE)
        self.steps = 0

    def __call__(self, times: np.ndarray) -> ag.Tensor:
        angles = 2 * np.pi * times
        hidden = nn.tanh(nn.linear(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), *self.first))
        values: ag.Tensor = nn.linear(hidden, *self.second)
        return values

    async def train(self, sensor: Sensor, steps: int, bars: Sequence[Any]) -> None:
        """Wait for a batch and learn from it, `steps` times."""
        for _ in range(steps):
            times, values = await sensor.measure()
            self.optimizer.zero_grad()
            await nn.mse_loss(self(times), values).backward()
            self.optimizer.step()
            self.steps += 1
            for bar in bars:
                bar.update()

    @ag.no_grad()
    def error(self, sensor: Sensor) -> float:
        """Return the mean squared error on the curve without noise, as a fraction of its variance."""
        times = np.linspace(0, 1, 200, endpoint=False)[:, None]
        wanted = sensor.curve(times)
        return float(np.square(self(times).numpy() - wanted).mean() / wanted.var())


@final
class Fleet:
    """All models, their sensors, and measurements of their training."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        seeds = np.random.default_rng(options.seed).spawn(options.models)
        self.pairs = [(Model(rng), Sensor(rng)) for rng in seeds]
        self.behind: list[int] = []
        self.seconds = 0.0

    async def train(self) -> None:
        """Train all models concurrently; if one fails, the others are cancelled."""
        began = time.perf_counter()
        with ExitStack() as stack:

            def bar(what: str, models: int, place: int) -> Any:
                total, quiet = models * self.options.steps, self.options.quiet
                return stack.enter_context(tqdm(total=total, unit="step", desc=what, position=place, disable=quiet))

            bars = [bar(f"{len(self.pairs)} models", len(self.pairs), 0)]
            async with asyncio.TaskGroup() as group:
                for number, pair in enumerate(self.pairs):
                    own = [bar(f"model {number}", 1, number + 1)] if self.options.each else []
                    group.create_task(self._train_one(*pair, bars + own))
        self.seconds = time.perf_counter() - began

    async def _train_one(self, model: Model, sensor: Sensor, bars: Sequence[Any]) -> None:
        await model.train(sensor, self.options.steps, bars)
        self.behind.append(min(other.steps for other, _ in self.pairs))

    def report(self) -> float:
        """Print the results; return the median error."""
        errors = [model.error(sensor) for model, sensor in self.pairs]
        steps = sum(model.steps for model, _ in self.pairs)
        print(f"{len(self.pairs)} models, {steps} steps, {steps / self.seconds:.0f} steps per second")
        print(f"waiting one after another {steps * LATENCY:.1f} s, learning at once {self.seconds:.1f} s")
        print(f"when the first model had all its {self.options.steps} steps, the last one had {self.behind[0]}")
        print(f"error, as a share of the curve's variance: median {np.median(errors):.4f}, worst {max(errors):.4f}")
        return float(np.median(errors))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train many small models at once on one event loop.")
    parser.add_argument("--models", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="batches each learns from (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of curves, noise and weights (default: %(default)s)")
    parser.add_argument("--each", action="store_true", help="a progress bar for each model, below the one for the sum")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    for name, least in (("models", 1), ("steps", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, and is {getattr(options, name)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print the results; return the exit status."""
    fleet = Fleet(parse(arguments))
    ag.run(fleet.train())
    if fleet.report() > TARGET:
        print(f"above the target of {TARGET}: more steps help", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
