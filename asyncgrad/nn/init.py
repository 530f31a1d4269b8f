"""Initialisation of parameters, by the names, arguments and distributions of torch.nn.init.

Each function writes into a tensor, in place and unrecorded, and returns it. Numbers are drawn from `rng`, or else from
the generator of the context (`ag.random.seed`), on the host.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays.interception import on_device_of_arguments
from ..core.arrays.values import as_like
from ..core.graph.saved_hooks import prepare_write
from ..core.settings.arguments import describe, number
from ..core.settings.lazy import name_advisor
from ..core.tensor import Tensor
from ..errors import ArgumentError, ArgumentTypeError
from ..random import generator

__all__ = [
    "calculate_fan_in_and_fan_out",
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

Rng = np.random.Generator | None

_GAINS = {
    **dict.fromkeys(
        ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "sigmoid", "identity"), 1.0
    ),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance of a layer's outputs before a nonlinearity.

    Args:
        nonlinearity: the name of the function, such as "relu", "tanh", "leaky_relu" or "linear".
        param: the negative slope of "leaky_relu", 0.01 by default.

    Raises:
        ArgumentError: there is no such nonlinearity.

    Example:
        >>> from asyncgrad import nn
        >>> round(nn.init.calculate_gain("relu"), 3)
        1.414
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else number(param, "the negative slope")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(
            f"there is no gain for the nonlinearity {nonlinearity!r}, but for {', '.join(_GAINS)} and leaky_relu"
        )
    return _GAINS[nonlinearity]


def calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs each output of a weight has, and how many outputs each input.

    Args:
        tensor: shape `(out, in, kernel...)`.

    Raises:
        ArgumentError: it has fewer than two axes.
    """
    _check(tensor)
    if tensor.ndim < 2:
        raise ArgumentError(
            f"fan in and fan out are those of a weight of two or more axes, not of shape {tensor.shape}"
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, rng: Rng = None) -> Tensor:
    """Draw from the uniform distribution on `[a, b)`."""
    return _write(tensor, _rng(rng).uniform(a, b, _check(tensor).shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, rng: Rng = None) -> Tensor:
    """Draw from the normal distribution."""
    return _write(tensor, _rng(rng).normal(mean, number(std, "the std of normal_", 0), _check(tensor).shape))


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, rng: Rng = None
) -> Tensor:
    """Draw from the normal distribution, again where a number is not in `[a, b]`.

    Raises:
        ArgumentError: almost no number would be in `[a, b]`.
    """
    if not a < b or a > mean + 6 * std or b < mean - 6 * std:
        raise ArgumentError(f"almost no number of mean {mean} and standard deviation {std} is between {a} and {b}")
    found, draw = np.empty(_check(tensor).size), _rng(rng)
    missing = np.arange(found.size)
    while missing.size:
        found[missing] = draw.normal(mean, std, missing.size)
        missing = missing[(found[missing] < a) | (found[missing] > b)]
    return _write(tensor, found.reshape(tensor.shape))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a number."""
    return _write(_check(tensor), np.full(tensor.shape, val))


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill with the identity matrix.

    Raises:
        ArgumentError: the tensor is no matrix.
    """
    if _check(tensor).ndim != 2:
        raise ArgumentError(f"eye_ takes a matrix, not a tensor of shape {tensor.shape}")
    rows, columns = tensor.shape
    return _write(tensor, np.eye(rows, columns))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes its input on, as far as it has channels.

    Raises:
        ArgumentError: the tensor has not three to five axes, or its outputs cannot be divided into `groups`.
    """
    if _check(tensor).ndim not in (3, 4, 5):
        raise ArgumentError(f"dirac_ takes a weight of three to five axes, not of shape {tensor.shape}")
    outputs, inputs = tensor.shape[:2]
    if groups < 1 or outputs % groups:
        raise ArgumentError(f"{outputs} output channels cannot be divided into {groups} groups")
    values, per_group = np.zeros(tensor.shape), outputs // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            values[(group * per_group + channel, channel, *middle)] = 1.0
    return _write(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, rng: Rng = None) -> Tensor:
    """Draw uniformly, with variance `2 * gain² / (fan in + fan out)`.

    Source: X. Glorot and Y. Bengio, "Understanding the difficulty of training deep feedforward networks" (2010).
    """
    bound = gain * math.sqrt(6.0 / sum(calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, rng)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, rng: Rng = None) -> Tensor:
    """Draw from the normal distribution, with variance `2 * gain² / (fan in + fan out)`.

    Source: as of `xavier_uniform_`.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(calculate_fan_in_and_fan_out(tensor))), rng)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", rng: Rng = None
) -> Tensor:
    """Draw uniformly, with variance `gain² / fan`.

    Args:
        tensor: a weight.
        a: the negative slope of the nonlinearity "leaky_relu".
        mode: "fan_in" or "fan_out".
        nonlinearity: as for `calculate_gain`.
        rng: what draws.

    Source: K. He et al., "Delving deep into rectifiers" (2015).
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, rng)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", rng: Rng = None
) -> Tensor:
    """Draw from the normal distribution, with variance `gain² / fan`; the arguments are those of `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), rng)


def orthogonal_(tensor: Tensor, gain: float = 1.0, rng: Rng = None) -> Tensor:
    """Fill with a random orthogonal matrix times `gain`; further axes are taken together with the second.

    Raises:
        ArgumentError: the tensor has fewer than two axes.

    Source: A. Saxe, J. McClelland and S. Ganguli, "Exact solutions to the nonlinear dynamics of learning" (2013).
    """
    if _check(tensor).ndim < 2:
        raise ArgumentError(f"orthogonal_ takes a tensor of two or more axes, not of shape {tensor.shape}")
    rows = tensor.shape[0]
    columns = tensor.size // max(rows, 1)
    drawn = _rng(rng).normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    # Without the signs the distribution would not be uniform.
    q = q * np.sign(np.diag(r))
    return _write(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, rng: Rng = None) -> Tensor:
    """Draw a matrix from the normal distribution, and set a share of the elements of each column to 0.

    Raises:
        ArgumentError: the tensor is no matrix.
    """
    if _check(tensor).ndim != 2:
        raise ArgumentError(f"sparse_ takes a matrix, not a tensor of shape {tensor.shape}")
    draw, (rows, columns) = _rng(rng), tensor.shape
    values = draw.normal(0.0, std, tensor.shape)
    for column in range(columns):
        values[draw.permutation(rows)[: math.ceil(sparsity * rows)], column] = 0.0
    return _write(tensor, values)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _rng(rng: Rng) -> np.random.Generator:
    return generator() if rng is None else rng


def _check(tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(f"an initialiser takes a Tensor, as module.weight is, not {describe(tensor)}")
    return tensor


@on_device_of_arguments
def _write(tensor: Tensor, values: Any) -> Tensor:
    prepare_write(tensor)
    tensor._data[...] = as_like(values.astype(tensor.dtype), tensor._data)
    tensor._bump_version()
    return tensor


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
