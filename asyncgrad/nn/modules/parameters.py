"""How a layer makes its parameters, and checks the sizes of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.engine.device import Device
from ...core.settings.arguments import number, whole_number
from ...core.settings.default_dtype import floating_dtype
from ...core.tensor import Tensor, tensor
from ...errors import ArgumentError
from .. import init

__all__ = ["Place", "draw_by_inputs", "given_number", "given_number_or_infinity", "new_parameter", "size"]


Place = str | Device | None


def new_parameter(shape: tuple[int, ...], device: Place = None, dtype: Any = None) -> Tensor:
    """Return a parameter of arbitrary content, for an initialiser to fill; `dtype` is by default the default dtype."""
    kind = floating_dtype(dtype)
    if kind.kind not in "fc":
        raise ArgumentError(f"the dtype of a parameter is floating or complex, not {kind}")
    return tensor(np.zeros(shape, kind), device=device, requires_grad=True)


def draw_by_inputs(weight: Tensor, bias: Tensor | None, inputs: int) -> None:
    """Draw a weight and a bias uniformly between ±1 / sqrt(inputs), the number of inputs that an output depends on."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


def given_number(value: float, name: str, least: float = -math.inf) -> float:
    """Return an option of a layer that is a finite number: an int as it is, so that the layer shows what was given.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it is not finite, or less than `least`.
    """
    found = number(value, name, least)
    return value if type(value) is int else found


def given_number_or_infinity(value: float, name: str) -> float:
    """Return an option of a layer that is a number, which may be infinite.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it is NaN.
    """
    return value if isinstance(value, float) and math.isinf(value) else given_number(value, name)


def size(value: Any, name: str) -> int:
    """Return a number of features as an int.

    Raises:
        ArgumentError: it is negative.
    """
    found = whole_number(value, name)
    if found < 0:
        raise ArgumentError(f"{name} must not be negative, but is {found}")
    return found
