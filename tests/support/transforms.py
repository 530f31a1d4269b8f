"""What the tests of `ag.grad` and of the transforms call."""

from __future__ import annotations

from typing import Any

import asyncgrad as ag

__all__ = ["batched", "cube"]


def cube(x: Any) -> Any:
    return x * x * x


def batched(*args: Any, **kwargs: Any) -> Any:
    """`ag.grad`, given a batch of gradients to start from."""
    return ag.grad(*args, is_grads_batched=True, **kwargs)
