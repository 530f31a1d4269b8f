"""Weights of a given norm: parametrizations of the tensors of a module."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ...core.settings.arguments import number, whole_number
from ...core.settings.context import no_grad
from ...core.tensor import Tensor, asarray, tensor
from ...errors import ArgumentError, IndexRangeError
from ...random import generator
from ..functional.distances import normalize
from ..modules.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..shared.arguments import array_of
from .parametrize import register_parametrization, write_values

__all__ = ["spectral_norm", "weight_norm"]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Have a weight computed from its direction and its norm, which are trained apart; return the module.

    They are `parametrizations.NAME.original1` and `original0`.

    Args:
        module: the module.
        name: the name of the weight.
        dim: the axis of which each element has a norm of its own; None, or -1, for one norm.

    Source: torch.nn.utils.parametrizations.weight_norm; T. Salimans and D. Kingma, "Weight normalization" (2016).

    Example:
        >>> from asyncgrad import nn
        >>> model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> [(name, tensor.shape) for name, tensor in model.named_parameters()][1:]
        [('parametrizations.weight.original0', (3, 1)), ('parametrizations.weight.original1', (3, 2))]
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


@final
class _WeightNorm(Module):
    """Computes a weight from its norm and its direction."""

    def __init__(self, dim: int | None) -> None:
        self.dim: int = -1 if dim is None else whole_number(dim, "dim")

    def _norm(self, weight: Any) -> Any:
        count = array_of(weight).ndim
        if self.dim == -1:
            return np.sqrt(np.sum(weight * weight))
        if not -count <= self.dim < count:
            raise IndexRangeError(f"dim must be an axis of a weight of {count} axes, not {self.dim}")
        axes = tuple([axis for axis in range(count) if axis != self.dim % count])
        return np.sqrt(np.sum(weight * weight, axis=axes, keepdims=True))

    def forward(self, norm: Any, direction: Any) -> Any:
        """Return the weight."""
        return direction * (norm / self._norm(direction))

    def right_inverse(self, weight: Any) -> Any:
        """Return its norm and its direction, which is the weight itself."""
        return self._norm(weight), weight


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Have a weight divided by its largest singular value, so that the layer does not stretch; return the module.

    That value is estimated by the power method, which goes on whenever the weight is read in training.

    Args:
        module: the module.
        name: the name of the weight.
        n_power_iterations: how many iterations there are each time.
        eps: the least norm of a vector that is divided by it.
        dim: the axis of the outputs; None for 1 of transposed convolutions and 0 of others.

    Raises:
        ArgumentError: there is no such weight, or no iteration.

    Source: torch.nn.utils.parametrizations.spectral_norm; T. Miyato et al., "Spectral normalization" (2018).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> model = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval()
        >>> bool(abs(np.linalg.norm(model.weight.numpy(), 2) - 1) < 0.1)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"{type(module).__name__} has no parameter or buffer {name!r}")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


@final
class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, or a vector by its norm."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        if not -weight.ndim <= whole_number(dim, "dim") < weight.ndim:
            raise IndexRangeError(f"dim must be an axis of a weight of {weight.ndim} axes, not {dim}")
        if whole_number(n_power_iterations, "n_power_iterations") < 1:
            raise ArgumentError(
                f"spectral_norm needs at least one iteration, not n_power_iterations={n_power_iterations}"
            )
        self.dim: int = dim % weight.ndim
        self.eps: float = number(eps, "eps")
        self.n_power_iterations: int = n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for one, length in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = tensor(generator().standard_normal(length).astype(weight.dtype), device=weight.device)
                self.register_buffer(one, asarray(normalize(drawn, axis=0, eps=self.eps)))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        first = np.moveaxis(weight, self.dim, 0)
        return np.reshape(first, (array_of(first).shape[0], -1))

    def _iterate(self, matrix: Any, count: int) -> None:
        with no_grad():
            for _ in range(count):
                write_values(self._u, normalize(matrix @ self._v, axis=0, eps=self.eps))
                write_values(self._v, normalize(matrix.T @ self._u, axis=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """Return the weight, divided."""
        if array_of(weight).ndim == 1:
            return normalize(weight, axis=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies, since a second call writes into these before the backward of the first.
        u, v = self._u.detach().copy(), self._v.detach().copy()
        return weight / (u @ (matrix @ v))

    def right_inverse(self, weight: Any) -> Any:
        """Return the weight."""
        return weight
