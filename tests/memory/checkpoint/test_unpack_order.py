"""Saved tensors are unpacked in the order in which nodes run, and within a node in the order in which it saved them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.leaves import leaf


def noted(unpacked, is_async=False):
    """Hooks that name each tensor that they pack by the node that saves it, and note what they unpack."""
    made: list[str] = []

    def pack(tensor):
        made.append("")
        return len(made) - 1, tensor

    def unpack(kept):
        unpacked.append(kept[0])
        return kept[1]

    async def unpack_later(kept):
        unpacked.append(kept[0])
        await asyncio.sleep(0)
        return kept[1]

    return ag.graph.saved_tensors_hooks(pack, unpack_later if is_async else unpack)


@pytest.mark.parametrize("is_async", [False, True])
async def test_nodes_unpack_in_the_order_in_which_they_run(is_async):
    unpacked = []

    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with noted(unpacked, is_async):
        y = np.exp(x * w)
        z = np.sin(x) * y + np.tanh(w)
        loss = (z * y).sum()
    await ag.backward(loss)
    # Packed in the order of the forward: multiply's two, exp's result, sin's input, ...
    assert sorted(unpacked) == list(range(len(unpacked)))
    # Newest node first; the two tensors of one node in the order in which it saved them.
    assert unpacked == [7, 8, 6, 4, 5, 3, 2, 0, 1]


def test_what_no_wanted_gradient_needs_is_not_unpacked():
    unpacked = []
    x, w = leaf(1.0), leaf(2.0)
    with noted(unpacked):
        y = (x * w).sum()
    sync.grad(y, [x])
    assert unpacked == [1]


def test_a_checkpointed_call_unpacks_its_inputs_when_its_turn_comes():
    unpacked = []
    x = leaf(1.0)
    with noted(unpacked):
        y = np.sin(x)
        y = ag.checkpoint(lambda y: np.exp(np.tanh(y)), y, use_reentrant=False)
        y = np.cos(y)
    sync.backward(y.sum())
    assert unpacked == [2, 1, 0]
