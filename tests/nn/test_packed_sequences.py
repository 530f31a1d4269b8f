"""Sequences of several lengths: packed, padded and run through recurrent layers as by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from asyncgrad.nn.utils import rnn
from tests.core.ops.finite_differences import Case, check_derivatives

LENGTHS = [2, 5, 1, 5, 3]


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_packing_and_padding_are_those_of_pytorch(is_sorted: bool, batch_first: bool) -> None:
    torch = pytest.importorskip("torch")
    lengths = sorted(LENGTHS, reverse=True) if is_sorted else LENGTHS
    x = draw(5, 5, 3)
    theirs = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), torch.tensor(lengths), batch_first, is_sorted)
    expected = torch.nn.utils.rnn.pad_packed_sequence(theirs, batch_first, -1.0, 7)

    ours = rnn.pack_padded_sequence(x, lengths, batch_first, is_sorted)
    np.testing.assert_array_equal(ours.data, theirs.data.numpy())
    np.testing.assert_array_equal(ours.batch_sizes, theirs.batch_sizes.numpy())
    for one, other in zip(rnn.pad_packed_sequence(ours, batch_first, -1.0, 7), expected, strict=True):
        np.testing.assert_array_equal(one, other.numpy())


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_of_a_list_and_back_is_that_of_pytorch(side: str) -> None:
    torch = pytest.importorskip("torch")
    parts = [draw(length, 2) for length in LENGTHS]
    expected = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in parts], True, 9.0, side)

    np.testing.assert_array_equal(rnn.pad_sequence(parts, True, 9.0, side), expected.numpy())
    for one, other in zip(rnn.unpad_sequence(rnn.pad_sequence(parts), LENGTHS), parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_packed_sequences_are_unpacked_in_the_order_in_which_they_were_given() -> None:
    parts = [draw(length, 2) for length in (2, 4, 1)]

    for one, other in zip(rnn.unpack_sequence(rnn.pack_sequence(parts, False)), parts, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ArgumentTypeError, match="unpack_sequence takes a PackedSequence, not list"):
        rnn.unpack_sequence(parts)  # type: ignore[arg-type]  # that is what is refused


LAYERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Callable[[], Any]]] = {
    "RNN": ("RNN", (3, 4), {}, lambda: None),
    "GRU, states": ("GRU", (3, 4, 2), {"bidirectional": True}, lambda: draw(4, 5, 4)),
    "LSTM": ("LSTM", (3, 4, 2), {"bidirectional": True}, lambda: None),
    "LSTM, projection, states": (
        "LSTM",
        (3, 4),
        {"bidirectional": True, "proj_size": 2},
        lambda: (draw(2, 5, 2), draw(2, 5, 4)),
    ),
}


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_over_packed_sequences_are_those_of_pytorch(name: str, is_sorted: bool) -> None:
    torch = pytest.importorskip("torch")
    kind, args, options, states = LAYERS[name]
    peer = getattr(torch.nn, kind)(*args, **options).double()
    layer = getattr(nn, kind)(*args, **options)
    layer.load_state_dict(peer.state_dict())
    parts = [draw(length, 3) for length in (sorted(LENGTHS, reverse=True) if is_sorted else LENGTHS)]
    leaves = [ag.tensor(one, requires_grad=True) for one in parts]
    peers = [torch.tensor(one, requires_grad=True) for one in parts]

    def call(made: Any, module: Any, sequences: Any, convert: Callable[[Any], Any]) -> list[Any]:
        hx = ag.tree.map(convert, states())
        output, ends = made(module.pack_sequence(sequences, is_sorted), hx)
        return [output.data, *(ends if isinstance(ends, tuple) else [ends])]

    ours, theirs = call(layer, rnn, leaves, ag.tensor), call(peer, torch.nn.utils.rnn, peers, torch.tensor)
    grads = sync.grad(sum((one * one).sum() for one in ours), [*leaves, *layer.parameters()])
    peer_grads = torch.autograd.grad(sum((one * one).sum() for one in theirs), [*peers, *peer.parameters()])

    for one, other in zip([*ours, *grads], [*theirs, *peer_grads], strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_derivatives_through_a_packed_sequence_are_those_of_differences() -> None:
    layer = nn.GRU(2, 2, dtype=np.float64).requires_grad_(False)

    def run(x: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False)
        return rnn.pad_packed_sequence(layer(packed)[0])[0]

    check_derivatives(run, Case((draw(3, 2, 2),), {}, (0,)), order=2)


def test_a_packed_sequence_is_a_tree_and_dropout_between_layers_sees_it() -> None:
    packed = rnn.pack_sequence([draw(3, 2), draw(2, 2)])
    layer = nn.LSTM(2, 3, 2, dropout=0.5)

    assert isinstance(ag.tree.map(lambda one: one, packed), rnn.PackedSequence)
    assert (layer(packed)[0].data.numpy() != layer.eval()(packed)[0].data.numpy()).any()


BAD: dict[str, Callable[[], Any]] = {
    "enforce_sorted=False puts the sequences in order": lambda: rnn.pack_padded_sequence(draw(3, 2), [1, 2]),
    "from 1 to 3, the length of the input, not [4, 1]": lambda: rnn.pack_padded_sequence(draw(3, 2), [4, 1]),
    "lengths of shape (1,) do not fit": lambda: rnn.pack_padded_sequence(draw(3, 2), [3]),
    "total_length must be at least 3": lambda: rnn.pad_packed_sequence(rnn.pack_sequence([draw(3, 1)]), total_length=2),
    "differ in their lengths only": lambda: rnn.pad_sequence([draw(3, 1), draw(3, 2)]),
    "'right' or 'left', not 'top'": lambda: rnn.pad_sequence([draw(3, 1)], padding_side="top"),
    "whose data has the shape (numbers, 2), not (3, 1)": lambda: nn.GRU(2, 3)(rnn.pack_sequence([draw(3, 1)])),
    "hx of shape (1, 1, 3) for this x, not (1, 2, 3)": lambda: nn.GRU(2, 3)(
        rnn.pack_sequence([draw(3, 2)]), draw(1, 2, 3)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_use_of_packed_sequences_is_named(message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        BAD[message]()

    assert message in str(caught.value)


def test_what_is_no_packed_sequence_and_lengths_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="takes a PackedSequence"):
        rnn.pad_packed_sequence(draw(3, 2))  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="whole numbers"):
        rnn.pack_padded_sequence(draw(3, 2), [1.5, 1.0])
