"""Sequences of several lengths: padded to one length, or packed into one array without padding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...core.settings.arguments import must_be, takes, truth, whole_number
from ...errors import ArgumentError, ArgumentTypeError
from ..shared.arguments import array_of

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences of several lengths in one array: the first elements of all of them, then all second ones, and so on.

    The sequences are in order of length, the longest first. Made by `pack_padded_sequence` and `pack_sequence`, and
    taken by `nn.RNN`, `nn.GRU` and `nn.LSTM`.

    Source: torch.nn.utils.rnn.PackedSequence.
    """

    #: The elements, shape `(elements, ...)`.
    data: Any
    #: How many sequences are longer than 0, 1, 2, ... elements.
    batch_sizes: Any
    #: Where each sequence was before they were put in order; None if they were given so.
    sorted_indices: Any = None
    #: Where each sequence that was given is now; None likewise.
    unsorted_indices: Any = None

    def spans(self) -> list[tuple[int, int, int]]:
        """Return the parts of `data` in which no sequence ends: where each begins, its steps, and its sequences."""
        sizes = np.asarray(self.batch_sizes)
        first = np.flatnonzero(np.diff(sizes, prepend=0))
        starts = np.cumsum(sizes) - sizes
        steps = np.diff(first, append=len(sizes))
        return [(int(starts[at]), int(count), int(sizes[at])) for at, count in zip(first, steps, strict=True)]

    def places(self) -> tuple[Any, Any]:
        """Return for each element the number of its step, and that of its sequence as it was given."""
        sizes = np.asarray(self.batch_sizes)
        steps = np.repeat(np.arange(len(sizes)), sizes)
        sequences = np.arange(len(steps)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return steps, sequences if self.sorted_indices is None else np.asarray(self.sorted_indices)[sequences]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return the sequences in a padded array as a PackedSequence.

    Args:
        input: shape `(length, n, ...)`, or `(n, length, ...)` with `batch_first`.
        lengths: of the n sequences, at least 1 each.
        batch_first: see `input`.
        enforce_sorted: the longest sequence is the first, and so on; without it, they are put in that order.

    Raises:
        ArgumentError: the lengths do not fit the input, or are not in order.

    Source: torch.nn.utils.rnn.pack_padded_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> rnn.pack_padded_sequence(np.array([[1, 2, 3], [4, 5, 0], [6, 0, 0]]), [3, 2, 1], batch_first=True).data
        array([1, 4, 6, 2, 5, 3])
    """
    is_batch_first, must_be_sorted = truth(batch_first, "batch_first"), truth(enforce_sorted, "enforce_sorted")
    x = np.swapaxes(input, 0, 1) if is_batch_first else input
    shape = array_of(x).shape
    counts = _lengths(lengths, shape[:2])
    order = None
    if not must_be_sorted:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
    elif np.any(np.diff(counts) > 0):
        raise ArgumentError(
            f"lengths must not rise, and are {counts.tolist()}: enforce_sorted=False puts the sequences in order"
        )
    sizes = np.count_nonzero(counts > np.arange(counts[0])[:, np.newaxis], axis=1)
    packed = PackedSequence(None, sizes, order, None if order is None else np.argsort(order))
    return packed._replace(data=x[packed.places()])


def _lengths(lengths: Any, shape: tuple[int, ...]) -> Any:
    counts = np.asarray(array_of(lengths) if hasattr(lengths, "shape") else lengths)
    if counts.dtype.kind not in "iu":
        raise ArgumentTypeError(must_be("lengths", "whole numbers", lengths))
    if len(shape) != 2 or counts.shape != shape[1:]:
        raise ArgumentError(
            f"lengths of shape {counts.shape} do not fit sequences in an input whose length and number are {shape}"
        )
    if not counts.size or counts.min() < 1 or counts.max() > shape[0]:
        raise ArgumentError(f"lengths must be from 1 to {shape[0]}, the length of the input, not {counts.tolist()}")
    return counts.astype(np.int64)


def _gather(parts: list[Any], places: Any, padding_value: float) -> Any:
    """Return elements of joined arrays by their numbers, with padding for -1."""
    first = array_of(parts[0])
    padding = np.full_like(first, padding_value, shape=(1, *first.shape[1:]))
    return np.concatenate((*parts, padding))[places]


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Return the sequences of a PackedSequence in a padded array, as they were given, and their lengths.

    Args:
        sequence: a PackedSequence.
        batch_first: return the shape `(n, length, ...)`, not `(length, n, ...)`.
        padding_value: what stands behind the end of a sequence.
        total_length: the length of the result; None for that of the longest sequence.

    Raises:
        ArgumentError: a sequence is longer than `total_length`.
        ArgumentTypeError: `sequence` is not a PackedSequence.

    Source: torch.nn.utils.rnn.pad_packed_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> packed = rnn.pack_sequence([np.array([1.0]), np.array([2.0, 3.0])], enforce_sorted=False)
        >>> padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
        >>> padded.tolist(), lengths.tolist()
        ([[1.0, 0.0], [2.0, 3.0]], [1, 2])
    """
    if not isinstance(sequence, PackedSequence):
        raise ArgumentTypeError(takes("pad_packed_sequence", "a PackedSequence", sequence))
    is_batch_first = truth(batch_first, "batch_first")
    sizes = np.asarray(sequence.batch_sizes)
    length = len(sizes) if total_length is None else whole_number(total_length, "total_length")
    if length < len(sizes):
        raise ArgumentError(f"total_length must be at least {len(sizes)}, the length of a sequence, not {length}")
    steps, sequences = sequence.places()
    places = np.full((length, sizes[0]), -1)
    places[steps, sequences] = np.arange(len(steps))
    padded = _gather([sequence.data], places.T if is_batch_first else places, padding_value)
    return padded, np.count_nonzero(places >= 0, axis=0)


def pad_sequence(
    sequences: Iterable[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Return sequences of several lengths in one array.

    Args:
        sequences: each of shape `(length, ...)`.
        batch_first: return the shape `(n, length, ...)`, not `(length, n, ...)`.
        padding_value: what stands where a sequence has no element.
        padding_side: "right", behind its end, or "left", ahead of it.

    Raises:
        ArgumentError: there is no sequence, or they differ in more than their lengths.

    Source: torch.nn.utils.rnn.pad_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> rnn.pad_sequence([np.array([1.0, 2.0]), np.array([3.0])], batch_first=True)
        array([[1., 2.],
               [3., 0.]])
    """
    parts = list(sequences)
    is_batch_first = truth(batch_first, "batch_first")
    if padding_side not in ("right", "left"):
        raise ArgumentError(f"padding_side must be 'right' or 'left', not {padding_side!r}")
    shapes = [array_of(one).shape for one in parts]
    if not shapes or any(not shape or shape[1:] != shapes[0][1:] for shape in shapes):
        raise ArgumentError(f"sequences must have shapes that differ in their lengths only, not {shapes}")
    counts = np.array([shape[0] for shape in shapes])
    numbers = np.arange(counts.max())
    if padding_side == "left":
        numbers = numbers - (counts.max() - counts)[:, np.newaxis]
    places = numbers + (np.cumsum(counts) - counts)[:, np.newaxis]
    places[(numbers < 0) | (numbers >= counts[:, np.newaxis])] = -1
    return _gather(parts, places if is_batch_first else places.T, padding_value)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Return the sequences in a padded array, without the padding behind them.

    Args:
        padded_sequences: shape `(length, n, ...)`, or `(n, length, ...)` with `batch_first`.
        lengths: of the n sequences.
        batch_first: see above.

    Raises:
        ArgumentError: the lengths do not fit.

    Source: torch.nn.utils.rnn.unpad_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> [one.tolist() for one in rnn.unpad_sequence(np.array([[1.0, 2.0], [3.0, 0.0]]), [2, 1], batch_first=True)]
        [[1.0, 2.0], [3.0]]
    """
    x = padded_sequences if truth(batch_first, "batch_first") else np.swapaxes(padded_sequences, 0, 1)
    counts = _lengths(lengths, array_of(x).shape[1::-1])
    return [x[number, :count] for number, count in enumerate(counts.tolist())]


def pack_sequence(sequences: Iterable[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences as a PackedSequence.

    Args:
        sequences: each of shape `(length, ...)`.
        enforce_sorted: the longest sequence is the first, and so on; without it, they are put in that order.

    Raises:
        ArgumentError: there is no sequence, they differ in more than their lengths, or they are not in order.

    Source: torch.nn.utils.rnn.pack_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> rnn.pack_sequence([np.array([1.0, 2.0, 3.0]), np.array([4.0])]).batch_sizes
        array([2, 1, 1])
    """
    parts = list(sequences)
    return pack_padded_sequence(pad_sequence(parts), [len(one) for one in parts], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Return the sequences of a PackedSequence, in the order in which they were given.

    Args:
        packed_sequences: made by `pack_sequence` or `pack_padded_sequence`.

    Raises:
        ArgumentTypeError: it is no PackedSequence.

    Source: torch.nn.utils.rnn.unpack_sequence.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.nn.utils import rnn
        >>> packed = rnn.pack_sequence([np.array([1.0]), np.array([2.0, 3.0])], enforce_sorted=False)
        >>> [one.tolist() for one in rnn.unpack_sequence(packed)]
        [[1.0], [2.0, 3.0]]
    """
    if not isinstance(packed_sequences, PackedSequence):
        raise ArgumentTypeError(takes("unpack_sequence", "a PackedSequence", packed_sequences))
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
