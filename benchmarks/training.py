"""`python -m benchmarks.training`: steps of optimizers beside PyTorch's, in one process.

Each optimizer updates a million parameters in 100 tensors, in float32 and float64, beside PyTorch's `foreach` form on
the CPU. The two take turns, and their parameters are compared before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

from .pairs import Times, measure_pair, table

try:
    import torch
except ImportError:
    torch = None

__all__ = ["OPTIMIZERS", "main", "measure_optimizer", "optimizer_pair"]

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
    return 0


if __name__ == "__main__":
    sys.exit(main())
