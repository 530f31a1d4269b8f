"""What the tests of multi-grad hooks watch them with."""

from __future__ import annotations

from typing import Any

from asyncgrad.graph import register_multi_grad_hook

__all__ = ["Calls", "observed"]


class Calls:
    """A hook that writes down what it is called with, as lists of numbers."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, grads: Any) -> None:
        if isinstance(grads, list):
            self.seen.append([None if grad is None else grad.tolist() for grad in grads])
        else:
            self.seen.append(None if grads is None else grads.tolist())


def observed(*tensors: Any, mode: str = "all") -> Calls:
    calls = Calls()
    register_multi_grad_hook(tensors, calls, mode)
    return calls
