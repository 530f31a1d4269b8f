"""Train an LSTM on characters, and let it write while it learns.

    python examples/character_rnn.py

The network is an LSTM between an embedding and a linear layer, and learns the text of this file. A second coroutine
asks it for a line again and again, from the same event loop and the same weights: it is answered in the midst of
training, since the backward is awaited.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

# The matrices are small: a second BLAS thread would cost more than it saves.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import asyncgrad as ag
from asyncgrad import nn, optim

try:
    import matplotlib
    import numpy
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

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


#: The two arrays that an LSTM carries from one character to the next.
State = tuple[ag.Tensor, ag.Tensor]


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
class CharacterRNN(nn.Module):
    """An embedding, an LSTM, and a linear layer that scores the characters to come next."""

    def __init__(self, characters: int, hidden: int) -> None:
        self.embedding = nn.Embedding(characters, hidden)
        self.lstm = nn.LSTM(hidden, hidden)
        self.scores = nn.Linear(hidden, characters)

    def forward(self, characters: numpy.ndarray, state: State | None) -> tuple[ag.Tensor, State]:
        """Return the scores after each character, (steps, count, characters), and the state after the last."""
        hidden, state = self.lstm(self.embedding(characters), state)
        return self.scores(hidden), state


@final
@dataclass
class History:
    """The loss of each step, in bits per character, and what was written after how many steps."""

    losses: list[float] = field(default_factory=list)
    written: list[tuple[int, str]] = field(default_factory=list)


async def train(options: argparse.Namespace, text: str) -> History:
    """Read the text again and again; answer a reader meanwhile."""
    ag.random.seed(options.seed)
    rng = numpy.random.default_rng(options.seed)
    alphabet = Alphabet(text)
    codes = alphabet.encode(text)
    with ag.default_dtype(numpy.float32):
        model = CharacterRNN(len(alphabet.characters), options.hidden)
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = optim.schedule.LinearLR(optimizer, 1.0, 0.05, options.epochs)
    history = History()
    reader = asyncio.create_task(ask_for_lines(model, alphabet, history))
    for _ in range(options.epochs):
        state = None
        for batch in batches(codes, options.steps):
            scores, state = model(batch.characters, state)
            loss = nn.cross_entropy(scores.reshape(-1, len(alphabet.characters)), batch.following.reshape(-1))
            state = ag.tree.map(ag.Tensor.detach, state)
            optimizer.zero_grad()
            await loss.backward()
            optimizer.step()
            history.losses.append(loss.item() / math.log(2))
            await asyncio.sleep(0)
        schedule.step()
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
    text, state = "\n", None
    while len(text) < 2 * WIDTH and not (text.endswith("\n") and len(text.strip()) > WIDTH / 4):
        scores, state = model(alphabet.encode(text[-1])[None], state)
        probabilities = nn.softmax(2 * scores[0, 0]).numpy().astype(float)
        text += rng.choice(alphabet.characters, p=probabilities / probabilities.sum())
    return " ".join(text.split())[:WIDTH]


BLUE, GREY = "C0", "C2"
STYLE = Path(__file__).parent / "pictures.mplstyle"


def draw(history: History, path: Path) -> None:
    """Draw the loss, and beside it what was written, into a file."""
    with plt.style.context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4), layout="constrained", width_ratios=[2, 3])
        left.plot(numpy.arange(1, len(history.losses) + 1), history.losses, color=BLUE)
        left.set(title="Loss", xlabel="training step", ylabel="bits per character", xscale="log", ylim=(0, None))
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
    parser.add_argument("--epochs", type=int, default=30, help="times to read the text (default: 30)")
    parser.add_argument("--steps", type=int, default=25, help="characters that a gradient goes back (default: 25)")
    parser.add_argument("--hidden", type=int, default=96, help="hidden units (default: 96)")
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
