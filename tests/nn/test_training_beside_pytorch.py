"""Models written with modules have PyTorch's losses over 100 steps of training, from the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync

STEPS = 100
TEXT = "the quick brown fox jumps over the lazy dog while the loop goes on, and the dog dreams of a quicker fox. "


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread: where others need the cores, its threads wait for each other for seconds."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def classifier(library: Any) -> Any:
    """Return a convolutional classifier of images of 8 x 8, from the module `nn` of either library."""
    return library.Sequential(
        library.Conv2d(1, 8, 3, padding=1),
        library.BatchNorm2d(8),
        library.ReLU(),
        library.MaxPool2d(2),
        library.Flatten(),
        library.Linear(8 * 4 * 4, 10),
    )


def images() -> tuple[Any, Any]:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    return digits.images[:64, None] / 16, digits.target[:64]


def transformer(library: Any) -> Any:
    """Return a model of characters: an embedding, two layers of a transformer, and logits."""
    layers = [library.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)]
    return library.Sequential(library.Embedding(32, 16), *layers, library.Linear(16, 32), library.Flatten(0, 1))


def lines() -> tuple[Any, Any]:
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(letter) for letter in TEXT])
    rows = np.stack([codes[start : start + 17] for start in range(0, 64, 8)])
    return rows[:, :-1], rows[:, 1:].reshape(-1)


def recurrent(library: Any) -> Any:
    return library.ModuleDict(
        {
            "table": library.Embedding(32, 12),
            "lstm": library.LSTM(12, 16, batch_first=True),
            "head": library.Linear(16, 32),
        }
    )


def plain(model: Any, x: Any) -> Any:
    return model(x)


def through_lstm(model: Any, x: Any) -> Any:
    states, _ = model["lstm"](model["table"](x))
    return model["head"](states).reshape(-1, 32)


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], Callable[[Any, Any], Any], str, dict[str, Any]]] = {
    "digits": (classifier, images, plain, "SGD", {"lr": 0.1, "momentum": 0.9}),
    "character transformer": (transformer, lines, plain, "AdamW", {"lr": 1e-2}),
    "LSTM": (recurrent, lines, through_lstm, "Adam", {"lr": 1e-2}),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_has_the_losses_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, data, forward, kind, options = PROGRAMS[name]
    x, y = data()
    torch.manual_seed(0)
    model, peer = make(nn), make(torch.nn).double()
    model.load_state_dict(peer.state_dict())
    optimizer = getattr(optim, kind)(model.parameters(), **options)
    peer_optimizer = getattr(torch.optim, kind)(peer.parameters(), **options)
    peer_x, peer_y = torch.tensor(x), torch.tensor(y)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.cross_entropy(forward(model, x), y)
        sync.backward(loss)
        optimizer.step()
        peer_optimizer.zero_grad()
        peer_loss = torch.nn.functional.cross_entropy(forward(peer, peer_x), peer_y)
        peer_loss.backward()
        peer_optimizer.step()
        losses.append((loss.item(), peer_loss.item()))

    ours, theirs = np.array(losses).T
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert ours[-1] < 0.5 * ours[0]


def train(steps: range, state: Any) -> tuple[list[float], Any]:
    """Train a model with dropout from a state, None for a new one; return the losses and the state at the end."""
    ag.random.seed(1)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    schedule = optim.schedule.CosineAnnealingLR(optimizer, 50)
    if state is not None:
        weights, rest, rates, random = state
        model.load_state_dict(weights)
        optimizer.load_state_dict(rest)
        schedule.load_state_dict(rates)
        ag.random.set_state(random)
    x = np.random.default_rng(0).standard_normal((32, 4))
    losses = []
    for _ in steps:
        loss = ((model(x) - x.sum(1, keepdims=True)) ** 2).mean()
        optimizer.zero_grad()
        sync.backward(loss)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses, (model.state_dict(), optimizer.state_dict(), schedule.state_dict(), ag.random.get_state())


def test_a_training_that_goes_on_has_the_bits_of_one_that_was_not_interrupted() -> None:
    whole, _ = train(range(40), None)
    first, state = train(range(17), None)
    ag.random.seed(99)
    second, _ = train(range(17, 40), state)

    assert first + second == whole
