"""Layers of one function of each element, or along an axis."""

from __future__ import annotations

from typing import Any, final

from .activations import elu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from .gaussian_units import gelu
from .module import Module
from .softmaxes import log_softmax, softmax

__all__ = ["ELU", "GELU", "LeakyReLU", "LogSoftmax", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh"]


@final
class ReLU(Module):
    """Computes `nn.relu`. Source: torch.nn.ReLU."""

    def forward(self, input: Any) -> Any:
        """Return `nn.relu(input)`."""
        return relu(input)


@final
class LeakyReLU(Module):
    """Computes `nn.leaky_relu`. Source: torch.nn.LeakyReLU."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Any:
        """Return `nn.leaky_relu(input, negative_slope)`."""
        return leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}"


@final
class ELU(Module):
    """Computes `nn.elu`. Source: torch.nn.ELU."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        """Return `nn.elu(input, alpha)`."""
        return elu(input, self.alpha)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}"


@final
class GELU(Module):
    """Computes `nn.gelu`. Source: torch.nn.GELU."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Return `nn.gelu(input, approximate)`."""
        return gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


@final
class SiLU(Module):
    """Computes `nn.silu`. Source: torch.nn.SiLU."""

    def forward(self, input: Any) -> Any:
        """Return `nn.silu(input)`."""
        return silu(input)


@final
class Sigmoid(Module):
    """Computes `nn.sigmoid`. Source: torch.nn.Sigmoid."""

    def forward(self, input: Any) -> Any:
        """Return `nn.sigmoid(input)`."""
        return sigmoid(input)


@final
class Tanh(Module):
    """Computes `nn.tanh`. Source: torch.nn.Tanh."""

    def forward(self, input: Any) -> Any:
        """Return `nn.tanh(input)`."""
        return tanh(input)


@final
class Softplus(Module):
    """Computes `nn.softplus`. Source: torch.nn.Softplus."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        """Return `nn.softplus(input, beta, threshold)`."""
        return softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta}, threshold={self.threshold}"


@final
class Softmax(Module):
    """Computes `nn.softmax` along the axis `dim`. Source: torch.nn.Softmax."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Return `nn.softmax(input, dim)`."""
        return softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"dim={self.dim}"


@final
class LogSoftmax(Module):
    """Computes `nn.log_softmax` along the axis `dim`. Source: torch.nn.LogSoftmax."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Return `nn.log_softmax(input, dim)`."""
        return log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"dim={self.dim}"
