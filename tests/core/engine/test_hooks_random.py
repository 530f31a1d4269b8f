"""On random graphs, with hooks of every sort, the same hooks run in the same order as PyTorch's and see the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.core.engine.hooking import Journal, Ours, Torchs, number


def doubled_first(*args: Any) -> Any:
    """What a changing hook returns: twice its first argument."""
    value = args[0]
    if isinstance(value, tuple):
        return tuple(None if each is None else each * 2 for each in value)
    return None if value is None else value * 2


def emptied(*args: Any) -> Any:
    """No gradients at all, which hooks of nodes may return."""
    return (None,) * len(args[0])


def results_of(library: Any, operation: str, left: Any, right: Any) -> list[Any]:
    """What an operation gives."""
    if operation == "split":
        return library.split(left) if left.shape == (2,) else [left * 1.0]
    return [left + right if operation == "add" else left * right if operation == "multiply" else left * 3.0]


def tell(library: Any, seed: int, kind: str) -> Any:
    """Build a graph with hooks, run it backwards, and tell all that can be seen."""
    randomness = random.Random(seed)
    leaves = [library.leaf(float(randomness.randint(-3, 3)), 2.0) for _ in range(3)]
    tensors = list(leaves)
    for _ in range(randomness.randint(2, 8)):
        left, right = randomness.choices(tensors, k=2)
        tensors += results_of(library, randomness.choice(["add", "multiply", "scale", "split"]), left, right)
    journal = Journal(library)
    for _ in range(randomness.randint(3, 15)):
        place = randomness.randrange(len(tensors))
        where = randomness.choice(["tensor hook", "pre-hook", "post-hook", "retain", "post-accumulate hook"])
        change = randomness.choice([None, None, doubled_first, emptied])
        if where == "retain":
            tensors[place].retain_grad()
        elif where != "post-accumulate hook":
            if where == "tensor hook" and change is emptied:
                change = None
            journal.watch(f"t{place}", tensors[place], where, kind, change)
        elif tensors[place].is_leaf:
            journal.watch(f"t{place}", tensors[place], where, kind)
    roots = [tensors[-1], *randomness.sample(tensors, randomness.randint(0, 1))]
    start = [library.leaf(*[3.0, 5.0][: root.shape[0]]).detach() for root in roots]
    targets = randomness.sample(tensors, randomness.randint(1, 3))
    found: Any = None
    limits = randomness.choice(["none", "inputs", "grad"])
    if limits == "grad":
        found = number(library.grad(roots, targets, start, allow_unused=True))
    else:
        library.backward(roots, start, inputs=targets if limits == "inputs" else None)
    kept = [number(tensor.grad) if tensor.is_leaf or tensor.retains_grad else None for tensor in tensors]
    return journal.entries, found, kept


@pytest.mark.parametrize("seed", range(150))
def test_hooks_run_and_see_what_those_of_pytorch_do(seed):
    kind = "function" if seed % 2 else "async def"
    assert tell(Ours(), seed, kind) == tell(Torchs(), seed, "function")
