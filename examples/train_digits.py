"""Train a small convolutional network on real images, with a backward that is awaited.

    python examples/train_digits.py

The images are scikit-learn's digits: 1,797 scans of 8 x 8 pixels. While the network learns, a second coroutine on the
same event loop asks to be woken every millisecond and records how late it is woken. The other requests of a web server
would be delayed as much: a backward that blocks would hold them up, and this one yields to the loop as it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

# The matrices are small: a second BLAS thread would cost more than it saves, and waiting for it would stall the loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

try:
    import matplotlib
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TARGET = 0.97
TICK = 0.001
LEARNING_RATE = 4e-3
PICTURE = Path(__file__).parent / "output" / "train_digits.png"


class Split(NamedTuple):
    """Images of shape (count, 1, 8, 8) with values from 0 to 1, and the digit that each shows."""

    images: np.ndarray
    labels: np.ndarray


def load(seed: int) -> tuple[Split, Split]:
    """Return the digits for training and, a fifth of each digit, those for testing."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    parts = train_test_split(images, digits.target, test_size=0.2, stratify=digits.target, random_state=seed)
    return Split(parts[0], parts[2]), Split(parts[1], parts[3])


def make_model() -> nn.Sequential:
    """Return two convolutions and two linear layers, which give ten scores for each image."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),  # (count, 32, 4, 4)
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),  # (count, 64, 2, 2)
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64 * 2 * 2, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


@final
@dataclass
class History:
    """Measurements of each step, of each epoch, and of each tick of the loop."""

    losses: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    seconds: float = 0.0


async def train(options: argparse.Namespace, training: Split, testing: Split) -> History:
    """Train on every training image once per epoch, and test after each epoch; watch the loop meanwhile."""
    history = History()
    ag.random.seed(options.seed)
    with ag.default_dtype(np.float32):
        model = make_model()
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = optim.schedule.CosineAnnealingLR(optimizer, options.epochs)
    batches = ag.data.batches(training, options.batch_size, shuffle=True)
    watcher = asyncio.create_task(watch_loop(history.lateness))
    began = time.perf_counter()
    with tqdm(total=options.epochs * len(batches), unit="step", disable=options.quiet) as bar:
        for _ in range(options.epochs):
            right = 0
            async for batch in batches:
                right += await step(model, optimizer, batch, history)
                bar.update()
            schedule.step()
            history.train_accuracy.append(right / len(training.labels))
            history.test_accuracy.append(await accuracy(model, testing))
            loss = np.mean(history.losses[-len(batches) :])
            bar.set_postfix(loss=f"{loss:.4f}", accuracy=f"{history.test_accuracy[-1]:.1%}")
    history.seconds = time.perf_counter() - began
    watcher.cancel()
    return history


async def step(model: nn.Module, optimizer: optim.Adam, batch: Split, history: History) -> int:
    """Train on one batch; return how many of its digits were predicted correctly."""
    scores = model.train()(batch.images)
    loss = nn.cross_entropy(scores, batch.labels)
    await yield_to_loop()
    optimizer.zero_grad()
    await loss.backward()
    optimizer.step()
    await yield_to_loop()
    history.losses.append(loss.item())
    return int((scores.numpy().argmax(axis=1) == batch.labels).sum())


@ag.no_grad()
async def accuracy(model: nn.Module, split: Split) -> float:
    """Return the fraction of images whose digit the model predicts correctly."""
    right = 0
    for images, labels in ag.data.batches(split, 64):
        right += int((model.eval()(images).numpy().argmax(axis=1) == labels).sum())
        await yield_to_loop()
    return right / len(split.labels)


async def yield_to_loop() -> None:
    """Let the loop run other tasks: a timer needs three turns to wake the task that sleeps on it."""
    for _ in range(3):
        await asyncio.sleep(0)


async def watch_loop(lateness: list[float]) -> None:
    """Sleep for a millisecond, again and again, and record by how many seconds each wake-up is late."""
    while True:
        asked = time.perf_counter()
        await asyncio.sleep(TICK)
        lateness.append(time.perf_counter() - asked - TICK)


def percentiles(lateness: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the maximum, in milliseconds."""
    p50, p99, most = np.percentile(np.asarray(lateness) * 1000, [50, 99, 100])
    return float(p50), float(p99), float(most)


BLUE, ORANGE, GREY = "C0", "C1", "C2"
STYLE = Path(__file__).parent / "pictures.mplstyle"


def draw(history: History, path: Path) -> None:
    """Draw the loss, the accuracy and the lateness of the loop into a file."""
    epochs = np.arange(1, len(history.test_accuracy) + 1)
    steps = np.linspace(0, len(epochs), len(history.losses))
    with plt.style.context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
        left.plot(steps, history.losses, color=BLUE, alpha=0.25, linewidth=0.8, label="each step")
        means = np.reshape(history.losses, (len(epochs), -1)).mean(axis=1)
        left.plot(epochs - 0.5, means, color=BLUE, linewidth=2, label="mean of the epoch")
        left.set(title="Loss", xlabel="epoch", ylabel="cross-entropy, nats", yscale="log")
        middle.plot(epochs, 100 * np.array(history.train_accuracy), color=BLUE, label="training images")
        middle.plot(epochs, 100 * np.array(history.test_accuracy), color=ORANGE, linewidth=2, label="test images")
        middle.axhline(100 * TARGET, color=GREY, linestyle="--", linewidth=1, label=f"target, {TARGET:.0%}")
        middle.set(
            title=f"Accuracy: {history.test_accuracy[-1]:.1%} of test images", xlabel="epoch", ylabel="accuracy, %"
        )
        middle.set_ylim(min(90, 100 * min(history.test_accuracy)), 100)
        p50, p99, _ = percentiles(history.lateness)
        lateness = np.maximum(1000 * np.array(history.lateness), 0.01)
        right.hist(lateness, bins=np.geomspace(0.01, lateness.max(), 60), color=BLUE)
        right.axvline(p50, color=ORANGE, linewidth=2, label=f"median, {p50:.2f} ms")
        right.axvline(p99, color=ORANGE, linestyle="--", linewidth=2, label=f"99th percentile, {p99:.2f} ms")
        right.set(title="How late a 1 ms timer woke", xlabel="lateness, ms (0.01 or less at the left)", ylabel="ticks")
        right.set(xscale="log", ylim=(0, 1.3 * right.get_ylim()[1]))
        right.xaxis.set_major_formatter("{x:g}")
        for axes in figure.axes:
            axes.legend()
        figure.savefig(path, dpi=150)
        plt.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a network on scikit-learn's digits with an awaited backward.")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training images (default: 40)")
    parser.add_argument("--batch-size", type=int, default=32, help="images in a step (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order (default: 0)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    for name, least in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, and is {getattr(options, name)}")
    if options.out.suffix not in (".png", ".svg"):
        parser.error(f"--out must name a .png or a .svg file, and is {str(options.out)!r}")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, draw, and print the results; return the exit status."""
    options = parse(arguments)
    history = ag.run(train(options, *load(options.seed)))
    draw(history, options.out)
    p50, p99, most = percentiles(history.lateness)
    reached = history.test_accuracy[-1]
    print(f"test accuracy   {reached:.1%}")
    print(f"speed           {len(history.losses) / history.seconds:.0f} steps per second")
    print(f"loop lateness   p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {most:.2f} ms, over {len(history.lateness)} ticks")
    print(f"curves          {options.out}")
    if reached < TARGET:
        print(f"below the target of {TARGET:.0%}: more epochs help", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
