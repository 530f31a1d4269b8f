"""Train a recurrent network on characters, and let it write while it learns.

    python examples/character_rnn.py

The network is written with `asyncgrad.numpy` and learns the text of this file. A second coroutine asks it for a line
again and again, from the same event loop and the same weights: it is answered in the midst of training, since the
backward is awaited.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

import asyncgrad as ag
import asyncgrad.numpy as np
from asyncgrad import nn, optim

try:
    import matplotlib
    import numpy
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install 'asyncgrad[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PICTURE = Path(__file__).parent / "output" / "character_rnn.png"
LEARNING_RATE = 5e-3
BATCH = 16
#: The longest line that is written.
WIDTH = 72


@final
class Alphabet:
    """The characters of a text, numbered."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self.numbers = {character: number for number, character in enumerate(self.characters)}

    def encode(self, text: str) -> numpy.ndarray:
        """Return the number of each character: shape (len(text),)."""
        return numpy.array([self.numbers[character] for character in text])


class Batch(NamedTuple):
    """Numbers of characters, and of those that follow them: shapes (steps, BATCH)."""

    characters: numpy.ndarray
    following: numpy.ndarray


def batches(codes: numpy.ndarray, steps: int) -> Iterator[Batch]:
    """Yield the text in pieces, in BATCH columns: each piece goes on where the one before ended."""
    length = (len(codes) - 1) // BATCH
    columns = codes[: BATCH * length].reshape(BATCH, length).T
    following = codes[1 : BATCH * length + 1].reshape(BATCH, length).T
    for begin in range(0, length - steps + 1, steps):
        yield Batch(columns[begin : begin + steps], following[begin : begin + steps])


@final
class CharacterRNN:
    """One recurrent layer, h' = tanh(embedding[character] + h @ recurrent), and a linear one that scores characters."""

    def __init__(self, characters: int, hidden: int, rng: numpy.random.Generator) -> None:
        def weight(*shape: int) -> ag.Tensor:
            scale = 1 / math.sqrt(hidden)
            return ag.tensor(rng.uniform(-scale, scale, shape), requires_grad=True)

        self.embedding = weight(characters, hidden)
        self.recurrent = weight(hidden, hidden)
        self.output = weight(hidden, characters)
        self.bias = weight(characters)
        self.parameters = [self.embedding, self.recurrent, self.output, self.bias]

    def first_state(self, count: int) -> ag.Tensor:
        """Return the state before the first character: shape (count, hidden)."""
        return ag.tensor(numpy.zeros((count, len(self.recurrent))))

    def step(self, characters: numpy.ndarray, state: ag.Tensor) -> ag.Tensor:
        """Return the state after reading one character each: shape (count, hidden)."""
        result: ag.Tensor = np.tanh(self.embedding[characters] + state @ self.recurrent)
        return result

    def scores(self, state: ag.Tensor) -> ag.Tensor:
        """Return the score of each character to come next: shape (..., characters)."""
        result: ag.Tensor = state @ self.output + self.bias
        return result

    def loss(self, batch: Batch, state: ag.Tensor) -> tuple[ag.Tensor, ag.Tensor]:
        """Return the mean cross entropy of the characters that follow, and the state after the last."""
        states = []
        for characters in batch.characters:
            state = self.step(characters, state)
            states.append(state)
        scores = self.scores(np.concatenate(states))
        return nn.cross_entropy(scores, batch.following.reshape(-1)), state


@final
@dataclass
class History:
    """The loss of each step, in bits per character, and what was written after how many steps."""

    losses: list[float] = field(default_factory=list)
    written: list[tuple[int, str]] = field(default_factory=list)


async def train(options: argparse.Namespace, text: str) -> History:
    """Read the text again and again; answer a reader meanwhile."""
    rng = numpy.random.default_rng(options.seed)
    alphabet = Alphabet(text)
    codes = alphabet.encode(text)
    model = CharacterRNN(len(alphabet.characters), options.hidden, rng)
    optimizer = optim.Adam(model.parameters, lr=LEARNING_RATE)
    history = History()
    reader = asyncio.create_task(ask_for_lines(model, alphabet, history))
    for epoch in range(options.epochs):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - epoch / options.epochs)
        state = model.first_state(BATCH)
        for batch in batches(codes, options.steps):
            loss, state = model.loss(batch, state.detach())
            optimizer.zero_grad()
            await loss.backward()
            optimizer.step()
            history.losses.append(loss.item() / math.log(2))
            await asyncio.sleep(0)
    reader.cancel()
    history.written.append((len(history.losses), write_line(model, alphabet, rng)))
    return history


async def ask_for_lines(model: CharacterRNN, alphabet: Alphabet, history: History) -> None:
    """Ask for a line whenever the number of steps has doubled."""
    rng = numpy.random.default_rng(0)
    steps = 1
    while True:
        if len(history.losses) >= steps:
            history.written.append((len(history.losses), write_line(model, alphabet, rng)))
            steps *= 2
        await asyncio.sleep(0)


@ag.no_grad()
def write_line(model: CharacterRNN, alphabet: Alphabet, rng: numpy.random.Generator) -> str:
    """Return a line that the model writes after a line break: each character is drawn by its probability."""
    state = model.first_state(1)
    text = "\n"
    while len(text) < 2 * WIDTH and not (text.endswith("\n") and len(text.strip()) > WIDTH / 4):
        state = model.step(alphabet.encode(text[-1]), state)
        probabilities = nn.softmax(2 * model.scores(state)).numpy()[0]
        text += rng.choice(alphabet.characters, p=probabilities)
    return " ".join(text.split())[:WIDTH]


BLUE, GREY = "#2a6fbb", "#9aa5b1"
STYLE = {"axes.grid": True, "axes.axisbelow": True, "axes.edgecolor": GREY, "grid.color": "#e6eaee"}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
STYLE |= {"axes.titleweight": "bold"}


def draw(history: History, path: Path) -> None:
    """Draw the loss, and beside it what was written, into a file."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4), layout="constrained", width_ratios=[2, 3])
        left.plot(numpy.arange(1, len(history.losses) + 1), history.losses, color=BLUE)
        left.set(title="Loss", xlabel="step", ylabel="bits per character", xscale="log", ylim=(0, None))
        right.set(title="Written after so many steps")
        right.axis("off")
        for row, (steps, line) in enumerate(history.written):
            height = 1 - (row + 1) / (len(history.written) + 1)
            right.text(0.06, height, f"{steps}", ha="right", color=BLUE, transform=right.transAxes)
            right.text(0.08, height, line, family="monospace", fontsize=8, parse_math=False, transform=right.transAxes)
        figure.savefig(path, dpi=100)
        plt.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a recurrent network on the characters of a text.")
    parser.add_argument("--text", type=Path, default=Path(__file__), help="what to learn (default: this file)")
    parser.add_argument("--epochs", type=int, default=60, help="times to read the text (default: 60)")
    parser.add_argument("--steps", type=int, default=25, help="characters that a gradient goes back (default: 25)")
    parser.add_argument("--hidden", type=int, default=128, help="hidden units (default: 128)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    for name in ("epochs", "steps", "hidden"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, and is {getattr(options, name)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, draw, and print the results; return the exit status."""
    options = parse(arguments)
    text = options.text.read_text(encoding="utf-8")
    least = BATCH * options.steps + 1
    if len(text) < least or "\n" not in text:
        print(f"--text needs {least} characters and a line break: {options.text} is too short", file=sys.stderr)
        return 2
    history = ag.run(train(options, text))
    draw(history, options.out)
    for steps, line in history.written:
        print(f"{steps:>6}  {line}")
    print(f"loss     {history.losses[0]:.2f} bits per character at first, {history.losses[-1]:.2f} at last")
    print(f"picture  {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
