"""`python -m benchmarks.training`: steps of optimizers and of whole trainings beside PyTorch's, in one process.

Each optimizer updates a million parameters in 100 tensors, in float32 and float64, beside PyTorch's `foreach` form on
the CPU. Each training step is that of a model made of modules, from the same weights, in float32. The two take turns,
and their parameters or losses are compared before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim, sync

from .pairs import Times, measure_pair, table

try:
    import torch
except ImportError:
    torch = None

__all__ = [
    "OPTIMIZERS",
    "TRAININGS",
    "main",
    "measure_optimizer",
    "measure_training",
    "optimizer_pair",
    "training_pair",
]

#: By name: the class and its options, which both libraries know.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 1e-3}),
    "SGD, momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    "SGD, Nesterov, weight decay": ("SGD", {"lr": 1e-3, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adam": ("Adam", {"lr": 1e-3}),
    "Adam, weight decay": ("Adam", {"lr": 1e-3, "weight_decay": 0.1}),
    "AdamW": ("AdamW", {"lr": 1e-3}),
    "RMSprop": ("RMSprop", {"lr": 1e-3}),
    "RMSprop, momentum, centered": ("RMSprop", {"lr": 1e-3, "momentum": 0.9, "centered": True}),
    "Adagrad": ("Adagrad", {"lr": 1e-3}),
}

TENSORS, SHAPE = 100, (100, 100)


def optimizer_pair(
    name: str, dtype: Any, tensors: int = TENSORS, shape: tuple[int, ...] = SHAPE
) -> tuple[list[Callable[[], Any]], Callable[[], tuple[Any, Any]]]:
    """Return the steps of an optimizer, ours and PyTorch's, and a function for the parameters of both."""
    kind, options = OPTIMIZERS[name]
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(dtype) for _ in range(tensors)]
    grads = [rng.standard_normal(shape).astype(dtype) for _ in range(tensors)]
    params = [ag.tensor(value, requires_grad=True) for value in values]
    peers = [torch.tensor(value, requires_grad=True) for value in values]
    for param, peer, grad in zip(params, peers, grads, strict=True):
        param.grad, peer.grad = ag.tensor(grad), torch.tensor(grad)
    ours = getattr(optim, kind)(params, **options)
    theirs = getattr(torch.optim, kind)(peers, **options, foreach=True)

    def both() -> tuple[Any, Any]:
        return [param.numpy() for param in params], [peer.detach().numpy() for peer in peers]

    return [ours.step, theirs.step], both


def measure_optimizer(name: str, dtype: Any, rounds: int) -> Times:
    """Return the times of a step, once the parameters have been seen to agree after three."""
    steps, both = optimizer_pair(name, dtype)
    for step in steps:
        for _ in range(3):
            step()
    ours, theirs = both()
    if not all(np.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(ours, theirs, strict=True)):
        raise ValueError(f"{name}: asyncgrad and PyTorch do not agree")
    return measure_pair(steps, rounds)


def classifier(library: Any) -> Any:
    """Return a convolutional classifier of images of 8 x 8, from the module `nn` of either library."""
    return library.Sequential(
        library.Conv2d(1, 16, 3, padding=1),
        library.ReLU(),
        library.MaxPool2d(2),
        library.Conv2d(16, 32, 3, padding=1),
        library.ReLU(),
        library.Flatten(),
        library.Linear(32 * 4 * 4, 10),
    )


def transformer(library: Any) -> Any:
    """Return a model of characters: an embedding, two layers of a transformer, and logits."""
    layers = [library.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True) for _ in range(2)]
    return library.Sequential(library.Embedding(64, 64), *layers, library.Linear(64, 64), library.Flatten(0, 1))


def recurrent(library: Any) -> Any:
    """Return a model of characters: an embedding, an LSTM, and logits."""
    parts = {"table": library.Embedding(64, 32), "lstm": library.LSTM(32, 64, batch_first=True)}
    return library.ModuleDict({**parts, "head": library.Linear(64, 64)})


def _call(model: Any, x: Any) -> Any:
    return model(x)


def _through_lstm(model: Any, x: Any) -> Any:
    states, _ = model["lstm"](model["table"](x))
    return model["head"](states).reshape(-1, 64)


def _images() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((64, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 64)


def _lines() -> tuple[Any, Any]:
    codes = np.random.default_rng(0).integers(0, 64, (16, 33))
    return codes[:, :-1], codes[:, 1:].reshape(-1)


#: By name: makes the model of either library; the inputs and labels; and how the model is called.
TRAININGS: dict[str, tuple[Callable[[Any], Any], Callable[[], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {
    "digits, Adam": (classifier, _images, _call),
    "character transformer, Adam": (transformer, _lines, _call),
    "LSTM, Adam": (recurrent, _lines, _through_lstm),
}


def training_pair(name: str) -> list[Callable[[], float]]:
    """Return the training steps of both libraries, from the same weights; each returns the loss before it."""
    make, data, call = TRAININGS[name]
    x, y = data()
    torch.manual_seed(0)
    peer = make(torch.nn)
    with ag.default_dtype(np.float32):
        model = make(nn)
    model.load_state_dict(peer.state_dict())
    ours, theirs = optim.Adam(model.parameters()), torch.optim.Adam(peer.parameters(), foreach=True)
    peer_x, peer_y = torch.tensor(x), torch.tensor(y)

    def step() -> float:
        ours.zero_grad()
        loss = nn.cross_entropy(call(model, x), y)
        sync.backward(loss)
        ours.step()
        return float(loss.item())

    def peer_step() -> float:
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(peer, peer_x), peer_y)
        loss.backward()
        theirs.step()
        return float(loss.item())

    return [step, peer_step]


def measure_training(name: str, rounds: int) -> Times:
    """Return the times of a training step, once the losses have been seen to agree over three."""
    steps = training_pair(name)
    ours, theirs = ([step() for _ in range(3)] for step in steps)
    if not np.allclose(ours, theirs, rtol=1e-3):
        raise ValueError(f"{name}: asyncgrad and PyTorch do not agree: {ours}, {theirs}")
    return measure_pair(steps, rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each is timed (default: %(default)s)")
    rounds = parser.parse_args(arguments).rounds
    if torch is None:
        print("PyTorch is not installed: pip install -e '.[bench]'")
        return 1
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads\n")
    for dtype in ("float32", "float64"):
        found = {name: measure_optimizer(name, dtype, rounds) for name in OPTIMIZERS}
        print(table(f"optimizer, {dtype}", "PyTorch", found), end="\n\n")
    print(table("training step, float32", "PyTorch", {name: measure_training(name, rounds) for name in TRAININGS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
