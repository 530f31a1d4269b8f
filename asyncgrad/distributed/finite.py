"""NaN and infinity from clients: an owner's parameters that have once become one never learn again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, InvalidGradientError
from .definition import Program
from .payload import arrays_of, pack, unpack

__all__ = ["check_gradients", "check_inputs", "finite_step"]


def check_inputs(arrays: Sequence[Any], what: str) -> None:
    """Raise if an array of a request has NaN or infinity in it.

    Raises:
        ArgumentError: one has.
    """
    for place, array in enumerate(arrays):
        if not _is_finite(array):
            raise ArgumentError(
                f"array {place} of {what} has NaN or infinity in it, which would stay in its owner's parameters for "
                "good: look where it comes from, as with np.isfinite"
            )


def check_gradients(grads: Iterable[Any]) -> None:
    """Raise if a gradient of the owner's parameters has NaN or infinity in it.

    Raises:
        InvalidGradientError: one has.
    """
    for place, grad in enumerate(grads):
        if not _is_finite(grad):
            raise InvalidGradientError(
                f"the gradient of parameter {place} is not finite, and nothing is kept of this backward: "
                "send smaller inputs and gradients"
            )


def finite_step(program: Program, options: Mapping[str, Any]) -> None:
    """Make a step, or none where it fails, or would make the parameters or the optimizer's state NaN or infinite.

    Raises:
        InvalidGradientError: it would.
    """
    skeleton, leaves = pack(program.state(), "the state of a stage")
    before = [array.copy() for array in arrays_of(leaves)]
    try:
        program.step(options)
        now = arrays_of(pack(program.state(), "the state of a stage")[1])
        if not all(map(_is_finite, now)):
            raise InvalidGradientError(
                "this step would make a parameter, or the optimizer's state, NaN or infinite, and has not been made: "
                "call zero_grad(), and send smaller gradients"
            )
    except BaseException:
        # An optimizer of the owner's own may have updated some parameters
        # (test_a_step_that_an_optimizer_fails_in_the_midst_of_is_not_made).
        program.load_state(unpack(skeleton, before))
        raise


def _is_finite(array: Any) -> bool:
    if array is None or array.dtype.kind not in "fc":
        return True
    if 0 in array.strides:
        # A broadcast array of hundreds of megabytes may have come in a hundred bytes
        # (test_what_is_looked_at_for_nan_is_what_was_sent).
        array = array[tuple([slice(None if stride else 1) for stride in array.strides])]
    return bool(np.isfinite(array).all())
