"""Train a small transformer on the characters of a text, with early stopping and the weights that were best.

    python examples/character_transformer.py

The text is docs/engine.md; its last tenth is kept aside, and says when to stop. The model looks at up to 48
characters and scores those that follow each of them.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

# The matrices are small: a second BLAS thread would cost more than it saves.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim

try:
    import matplotlib
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[demo]'")

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TEXT = Path(__file__).parent.parent / "docs" / "engine.md"
PICTURE = Path(__file__).parent / "output" / "character_transformer.png"
BATCH = 16


@final
class CharacterTransformer(nn.Module):
    """Embeddings of characters and positions, two layers that look back, and scores of the characters to follow."""

    def __init__(self, characters: int, width: int, context: int) -> None:
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True) for _ in range(2)]
        )
        self.scores = nn.Linear(width, characters)

    def forward(self, characters: np.ndarray) -> ag.Tensor:
        """Return the scores, (count, length, characters), for numbers of characters, (count, length)."""
        length = characters.shape[1]
        x = self.characters(characters) + self.positions(np.arange(length))
        future = np.triu(np.ones((length, length), bool), 1)
        for layer in self.layers:
            x = layer(x, src_mask=future)
        scores: ag.Tensor = self.scores(x)
        return scores


class History(NamedTuple):
    """The mean loss of each epoch in bits per character: of the text that is learned, and of that kept aside."""

    training: list[float]
    validation: list[float]


def windows(codes: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pieces of the text, half of each again in the next, and the characters that follow: (count, context)."""
    starts = np.arange(0, len(codes) - context, context // 2)[:, None] + np.arange(context)
    return codes[starts], codes[starts + 1]


def bits(model: CharacterTransformer, characters: np.ndarray, following: np.ndarray) -> ag.Tensor:
    """Return the mean cross entropy in bits per character."""
    scores = model(characters)
    loss = nn.cross_entropy(scores.reshape(-1, scores.shape[-1]), following.reshape(-1))
    result: ag.Tensor = loss / math.log(2)
    return result


@ag.no_grad()
def evaluate(model: CharacterTransformer, data: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the mean loss over a text, without dropout."""
    model.eval()
    losses = [bits(model, *batch).item() for batch in ag.data.batches(data, BATCH)]
    model.train()
    return float(np.mean(losses))


async def train(options: argparse.Namespace, model: CharacterTransformer, codes: np.ndarray) -> History:
    """Train until the loss of the text kept aside has not fallen for as long as `--patience`; keep the best weights."""
    kept = len(codes) // 10
    validation = windows(codes[-kept:], options.context)
    batches = ag.data.batches(windows(codes[:-kept], options.context), BATCH, shuffle=True)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.schedule.CosineAnnealingLR(optimizer, options.epochs)
    history = History([], [])
    best, since = {}, 0
    for _ in (bar := tqdm(range(options.epochs), unit="epoch", disable=options.quiet)):
        losses = []
        async for characters, following in batches:
            optimizer.zero_grad()
            loss = bits(model, characters, following)
            await loss.backward()
            optim.clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        history.training.append(float(np.mean(losses)))
        history.validation.append(evaluate(model, validation))
        bar.set_postfix(training=f"{history.training[-1]:.2f}", validation=f"{history.validation[-1]:.2f}")
        if history.validation[-1] == min(history.validation):
            best, since = {name: value.numpy().copy() for name, value in model.state_dict().items()}, 0
        elif (since := since + 1) == options.patience:
            break
    model.load_state_dict(best)
    return history


@ag.no_grad()
def write(model: CharacterTransformer, alphabet: str, begin: str, length: int, context: int, seed: int) -> str:
    """Return the text that goes on from its beginning: each character is drawn by its probability."""
    rng = np.random.default_rng(seed)
    model.eval()
    codes = [alphabet.index(character) for character in begin]
    for _ in range(length):
        scores = model(np.array([codes[-context:]]))[0, -1]
        probabilities = nn.softmax(1.5 * scores).numpy().astype(float)
        codes.append(int(rng.choice(len(alphabet), p=probabilities / probabilities.sum())))
    return "".join(alphabet[code] for code in codes)


def draw(history: History, path: Path) -> None:
    """Draw the losses into a file."""
    plt.style.use(Path(__file__).parent / "pictures.mplstyle")
    figure, axes = plt.subplots(figsize=(7, 4))
    epochs = np.arange(1, len(history.training) + 1)
    axes.plot(epochs, history.training, color="C0", label="text that is learned")
    axes.plot(epochs, history.validation, color="C1", label="text kept aside")
    axes.axvline(1 + int(np.argmin(history.validation)), color="C2", linestyle="--", label="weights that are kept")
    axes.set(title="Loss", xlabel="epoch", ylabel="bits per character")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a transformer on the characters of a text.")
    parser.add_argument("--text", type=Path, default=TEXT, help="what to learn (default: docs/engine.md)")
    parser.add_argument("--epochs", type=int, default=15, help="times to read the text at most (default: 15)")
    parser.add_argument("--patience", type=int, default=3, help="epochs without a lower loss to stop at (default: 3)")
    parser.add_argument("--context", type=int, default=48, help="characters that the model looks at (default: 48)")
    parser.add_argument("--width", type=int, default=64, help="features of a character, of 4 heads (default: 64)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the order (default: 0)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    for name, least in (("epochs", 1), ("patience", 1), ("context", 2), ("width", 4), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, and is {getattr(options, name)}")
    if options.width % 4:
        parser.error(f"--width must be a multiple of 4, and is {options.width}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, draw, and print the results; return the exit status."""
    options = parse(arguments)
    text = options.text.read_text(encoding="utf-8")
    least = 10 * (options.context + 1)
    if len(text) < least:
        print(f"--text needs {least} characters: {options.text} has {len(text)}", file=sys.stderr)
        return 2
    alphabet = "".join(sorted(set(text)))
    ag.random.seed(options.seed)
    with ag.default_dtype(np.float32):
        model = CharacterTransformer(len(alphabet), options.width, options.context)
    history = ag.run(train(options, model, np.array([alphabet.index(character) for character in text])))
    draw(history, options.out)
    print(write(model, alphabet, text[: options.context], 200, options.context, options.seed))
    print(f"learned  {history.training[0]:.2f} bits per character at first, {history.training[-1]:.2f} at last")
    print(f"aside    {history.validation[0]:.2f} bits per character at first, {min(history.validation):.2f} at best")
    print(f"picture  {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
