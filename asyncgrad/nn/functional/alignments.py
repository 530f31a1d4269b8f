"""Losses of sequences whose labels are known, but not where in the sequence they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.interception import on_device_of_arguments
from ...core.arrays.values import as_like, on_host
from ...core.ops.single_precision import arrays_in_single
from ...core.recording.primitive import derivative, primitive
from ...core.settings.arguments import truth, whole_number
from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError
from ..shared.arguments import array_of, check_real, check_reduction, constant, is_outside, operand

if TYPE_CHECKING:
    from ...core.arrays.array import Array
    from ...core.tensor import Tensor


__all__ = ["ctc_loss"]

#: The logarithm of the probability of what cannot be: finite, so that differences of two of them are numbers.
_NEVER = -1e30


# A path through the states blank, label, blank, label, ..., blank stays, goes to the next state, or skips a blank
# between two labels that differ. The loss is minus the logarithm of the sum of the probabilities of all paths.


@primitive()
def path_losses_(scores: Any, may_skip: Any, steps: Any, ends: Any) -> Array:
    """Return minus the logarithm of the probability of all paths, shape (n,).

    Args:
        scores: the logarithm of each state's probability at each step, shape (steps, n, states).
        may_skip: 0 where a path may enter a state from the last but one, and else `_NEVER`, shape (n, states).
        steps: the number of steps of each path, shape (n,), at least 1.
        ends: 0 for the states in which a path may end, and else `_NEVER`, shape (n, states).
    """
    at_step = _forward(scores, may_skip)
    last = [at_step[step - 1][sample] for sample, step in enumerate(steps.tolist())]
    found = np.stack(last) + ends
    largest = np.max(found, axis=1)
    total = -(np.log(np.sum(np.exp(found - largest[:, np.newaxis]), axis=1)) + largest)
    return np.where(total > -_NEVER / 2, np.inf, total)


@derivative(path_losses_, "scores")
def _(g: Any, scores: Any, may_skip: Any, steps: Any, ends: Any) -> Any:
    before, after = _forward(scores, may_skip), _backward(scores, may_skip, steps, ends)
    paths = np.stack(before) + np.stack(after)
    # For each step the sum over all states is the same, up to rounding, and minus the loss.
    totals = before[0] + after[0]
    largest = np.max(totals, axis=1)
    total = np.log(np.sum(np.exp(totals - largest[:, np.newaxis]), axis=1)) + largest
    # There is no gradient where there is no path, unless it is multiplied by 0.
    factor = np.where((total > _NEVER / 2) | (g == 0), 1.0, np.nan).astype(total.dtype)
    return -np.exp(paths - total[:, np.newaxis]) * (g * factor)[:, np.newaxis]


path_losses: Callable[..., Any] = path_losses_.call


def _shifted(states: Any, count: int) -> Any:
    """Return states moved by a number of places to the right, or for a negative one to the left."""
    data = array_of(states)
    n, width = data.shape
    count = max(-width, min(count, width))
    filler = as_like(np.full((n, abs(count)), _NEVER, data.dtype), data)
    if count > 0:
        return np.concatenate((filler, states[:, : width - count]), axis=1)
    return np.concatenate((states[:, -count:], filler), axis=1)


def _sum_of(stay: Any, one: Any, two: Any) -> Any:
    return np.logaddexp(np.logaddexp(stay, one), two)


def _forward(scores: Any, may_skip: Any) -> list[Any]:
    """Return for each step the logarithm of the probability of all paths to each state."""
    first = np.where(np.arange(may_skip.shape[1]) < 2, 0.0, _NEVER).astype(may_skip.dtype)
    found = [scores[0] + as_like(first, may_skip)]
    for step in range(1, len(scores)):
        before = found[-1]
        found.append(_sum_of(before, _shifted(before, 1), _shifted(before, 2) + may_skip) + scores[step])
    return found


def _backward(scores: Any, may_skip: Any, steps: Any, ends: Any) -> list[Any]:
    """Return for each step the logarithm of the probability of all paths from each state, without that of the state."""
    count, lengths = len(scores), as_like(np.reshape(steps, (-1, 1)), array_of(ends))
    never = np.full_like(ends, _NEVER)
    found: list[Any] = [never]
    for step in reversed(range(count)):
        if step + 1 < count:
            after = found[-1] + scores[step + 1]
            before = _sum_of(after, _shifted(after, -1), _shifted(after + may_skip, -2))
        else:
            before = never
        found.append(np.where(lengths == step + 1, ends, np.where(lengths <= step, never, before)))
    return found[:0:-1]


@on_device_of_arguments
@arrays_in_single
def ctc_loss(
    log_probs: Tensor | np.ndarray,
    targets: Tensor | np.ndarray,
    input_lengths: Tensor | np.ndarray | Sequence[int],
    target_lengths: Tensor | np.ndarray | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor | np.ndarray:
    """Return the connectionist temporal classification loss of sequences without alignment.

    It is minus the logarithm of the probability of all ways to write the labels in order, each one or more times in a
    row, with blanks between them, and at least one between two equal labels.

    Args:
        log_probs: logarithms of the probabilities of the classes, shape `(steps, n, classes)` or `(steps, classes)`.
        targets: the labels, shape `(n, most labels)`; or those of all sequences, one after the other, in one axis.
        input_lengths: the number of steps of each sequence, shape `(n,)`.
        target_lengths: the number of labels of each sequence, shape `(n,)`.
        blank: the class that stands for no label.
        reduction: "mean" (of the losses, each divided by the number of its labels), "sum" or "none".
        zero_infinity: take 0 for the losses, and the gradients, of sequences that are too short for their labels.

    Returns:
        A scalar; with reduction "none" the losses, shape `(n,)`, or `()` without n.

    Raises:
        ArgumentError: shapes, lengths or options do not fit; the message names them.
        IndexRangeError: a label is not a class.

    Source: torch.nn.functional.ctc_loss; A. Graves et al., "Connectionist temporal classification" (2006).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.ctc_loss(np.log(np.full((2, 3), 1 / 3)), np.array([1]), [2], [1]).round(6)
        np.float64(1.098612)
    """
    check_reduction(reduction)
    check_real("ctc_loss", log_probs=log_probs)
    shape = array_of(log_probs).shape
    if len(shape) not in (2, 3) or not all(shape):
        raise ArgumentError(f"ctc_loss takes log_probs of shape (steps, n, classes), with elements, not {shape}")
    log_probs = operand(log_probs)
    data: Any = log_probs if len(shape) == 3 else np.expand_dims(log_probs, 1)
    steps, n, classes = shape[0], (shape[1] if len(shape) == 3 else 1), shape[-1]
    blank = whole_number(blank, "blank")
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: blank must be one of the {classes} classes, 0 to {classes - 1}, not {blank}")
    durations = _lengths("input_lengths", input_lengths, n, steps)
    counts = _lengths("target_lengths", target_lengths, n, None)
    labels = _labels(targets, counts, n, classes)
    losses = _losses(data, labels, durations, counts, blank)
    if truth(zero_infinity, "zero_infinity"):
        losses = np.where(np.isinf(array_of(losses)), np.zeros_like(array_of(losses)), losses)
    if reduction == "mean":
        return np.mean(losses / as_like(np.maximum(counts, 1).astype(array_of(losses).dtype), array_of(losses)))
    return np.sum(losses) if reduction == "sum" else losses if len(shape) == 3 else losses[0]


def _lengths(name: str, value: Any, n: int, most: int | None) -> Any:
    found = on_host(constant("ctc_loss", name, value))
    if found.dtype.kind not in "iu" and found.size:
        raise ArgumentTypeError(f"ctc_loss takes whole numbers as {name}, not {found.dtype}")
    found = found.reshape(-1).astype(np.int64)
    if len(found) != n:
        raise ArgumentError(f"ctc_loss takes {name} with a number for each of {n} sequences, not {len(found)} of them")
    if (found < 0).any() or (most is not None and (found > most).any()):
        wanted = "at least 0" if most is None else f"from 0 to {most}, the steps of log_probs"
        raise ArgumentError(f"ctc_loss takes {name} {wanted}, not {found.tolist()}")
    return found


def _labels(targets: Any, counts: Any, n: int, classes: int) -> Any:
    """Return the labels, shape (n, most labels); what is behind the last one of a sequence is 0."""
    given = on_host(constant("ctc_loss", "targets", targets))
    if given.dtype.kind not in "iu" and given.size:
        raise ArgumentTypeError(f"ctc_loss takes whole numbers as targets, not {given.dtype}")
    given = given.astype(np.int64)
    most = int(counts.max(initial=0))
    inside = np.arange(most) < counts[:, np.newaxis]
    found = np.zeros((n, most), np.int64)
    if given.ndim == 1:
        if len(given) != counts.sum():
            raise ArgumentError(
                f"ctc_loss takes targets of one axis with as many labels as target_lengths say, {counts.sum()}, not "
                f"{len(given)}"
            )
        found[inside] = given
    else:
        if given.ndim != 2 or len(given) != n or given.shape[1] < most:
            raise ArgumentError(f"ctc_loss takes targets of shape ({n}, {most}) or wider, not {given.shape}")
        found[inside] = given[:, :most][inside]
    if is_outside(found, classes).any():
        worst = found[is_outside(found, classes)][0]
        raise IndexRangeError(f"ctc_loss got label {worst}, but there are {classes} classes: 0 to {classes - 1}")
    return found


def _losses(data: Any, labels: Any, durations: Any, counts: Any, blank: int) -> Any:
    """Return the loss of each sequence."""
    array = array_of(data)
    kind = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    states = np.full((len(labels), 2 * labels.shape[1] + 1), blank)
    states[:, 1::2] = labels
    may_skip = np.full(states.shape, _NEVER, kind)
    may_skip[:, 2:][states[:, 2:] != states[:, :-2]] = 0
    number = np.arange(states.shape[1])
    is_end = (number == 2 * counts[:, np.newaxis]) | (number == 2 * counts[:, np.newaxis] - 1)
    ends = np.where(is_end, 0, _NEVER).astype(kind)
    # Finite, as what cannot be is; a step is no longer than 1e8 of them in single precision.
    scores = np.maximum(np.take_along_axis(data, as_like(states[np.newaxis], array), 2), kind.type(_NEVER))
    losses = path_losses(scores, as_like(may_skip, array), np.maximum(durations, 1), as_like(ends, array))
    if durations.all():
        return losses
    # A sequence without a step has no labels, or no path.
    empty = np.where(counts == 0, 0, np.inf).astype(kind)
    return np.where(as_like(durations == 0, array), as_like(empty, array), losses)
