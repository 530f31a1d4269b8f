"""Layers of one function of each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from ...core.settings.arguments import number, truth
from ...core.tensor import Tensor
from ...errors import ArgumentError
from .. import init
from ..functional.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    sigmoid,
    silu,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from ..shared.arguments import refuse_input
from .module import Module
from .parameters import Place, given_number_or_infinity, new_parameter, size

if TYPE_CHECKING:
    import numpy.typing as npt


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Pointwise(Module):
    """Abstract: a function of each element. PyTorch's `inplace` is taken, but no input is ever written into."""

    def __init__(self, inplace: bool = False) -> None:
        if isinstance(inplace, Tensor):
            refuse_input(type(self).__name__, inplace)
        self.inplace: bool = truth(inplace, "inplace")

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return self._with_place("")

    def _with_place(self, options: str) -> str:
        """Return options with `inplace`, if it is true, as PyTorch shows it."""
        return ", ".join(filter(None, (options, "inplace=True" if self.inplace else "")))


@final
class ReLU(_Pointwise):
    """Computes `nn.relu`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.ReLU.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.relu(input)`."""
        return relu(input)


@final
class LeakyReLU(_Pointwise):
    """Computes `nn.leaky_relu`.

    Args:
        negative_slope: the slope for negative numbers.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.LeakyReLU.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.leaky_relu(input, negative_slope)`."""
        return leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope."""
        return self._with_place(f"negative_slope={self.negative_slope}")


@final
class ELU(_Pointwise):
    """Computes `nn.elu`.

    Args:
        alpha: the function tends to `-alpha` at minus infinity.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.ELU.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.elu(input, alpha)`."""
        return elu(input, self.alpha)

    def extra_repr(self) -> str:
        """Return alpha."""
        return self._with_place(f"alpha={self.alpha}")


@final
class GELU(Module):
    """Computes `nn.gelu`.

    Args:
        approximate: "none" for the exact function, "tanh" for `x * (1 + tanh(...)) / 2`.

    Source: torch.nn.GELU.
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.gelu(input, approximate)`."""
        return gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


@final
class SiLU(_Pointwise):
    """Computes `nn.silu`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.SiLU.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.silu(input)`."""
        return silu(input)


@final
class Sigmoid(Module):
    """Computes `nn.sigmoid`. Source: torch.nn.Sigmoid."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.sigmoid(input)`."""
        return sigmoid(input)


@final
class Tanh(Module):
    """Computes `nn.tanh`. Source: torch.nn.Tanh."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.tanh(input)`."""
        return tanh(input)


@final
class Softplus(Module):
    """Computes `nn.softplus`.

    Args:
        beta: how sharply the function bends at 0; not 0.
        threshold: if `beta * x` is above it, the result is x itself.

    Source: torch.nn.Softplus.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta: float = beta
        self.threshold: float = threshold

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.softplus(input, beta, threshold)`."""
        return softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"beta={self.beta}, threshold={self.threshold}"


@final
class ReLU6(_Pointwise):
    """Computes `nn.relu6`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.ReLU6.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.relu6(input)`."""
        return relu6(input)


@final
class Hardtanh(_Pointwise):
    """Computes `nn.hardtanh`.

    Args:
        min_val: the least result.
        max_val: the largest result.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Hardtanh.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val: float = given_number_or_infinity(min_val, "min_val")
        self.max_val: float = given_number_or_infinity(max_val, "max_val")
        if self.max_val <= self.min_val:
            raise ArgumentError(f"Hardtanh needs max_val above min_val, not {max_val} and {min_val}")

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.hardtanh(input, min_val, max_val)`."""
        return hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the options."""
        return self._with_place(f"min_val={self.min_val}, max_val={self.max_val}")


@final
class Hardsigmoid(_Pointwise):
    """Computes `nn.hardsigmoid`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Hardsigmoid.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.hardsigmoid(input)`."""
        return hardsigmoid(input)


@final
class Hardswish(_Pointwise):
    """Computes `nn.hardswish`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Hardswish.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.hardswish(input)`."""
        return hardswish(input)


@final
class Hardshrink(Module):
    """Computes `nn.hardshrink`.

    Args:
        lambd: the least absolute value that is kept.

    Source: torch.nn.Hardshrink.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.hardshrink(input, lambd)`."""
        return hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"{self.lambd}"


@final
class Softshrink(Module):
    """Computes `nn.softshrink`.

    Args:
        lambd: by how much values move towards 0; not negative.

    Source: torch.nn.Softshrink.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.softshrink(input, lambd)`."""
        return softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"{self.lambd}"


@final
class Threshold(_Pointwise):
    """Computes `nn.threshold`.

    Args:
        threshold: what a value must be above to be kept.
        value: what stands in the place of the others.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Threshold.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold: float = threshold
        self.value: float = value

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.threshold(input, threshold, value)`."""
        return threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        """Return the options."""
        return self._with_place(f"threshold={self.threshold}, value={self.value}")


@final
class Mish(_Pointwise):
    """Computes `nn.mish`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.Mish.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.mish(input)`."""
        return mish(input)


@final
class SELU(_Pointwise):
    """Computes `nn.selu`.

    Args:
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.SELU.
    """

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.selu(input)`."""
        return selu(input)


@final
class CELU(_Pointwise):
    """Computes `nn.celu`.

    Args:
        alpha: the function tends to `-alpha` at minus infinity; not 0.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.CELU.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.celu(input, alpha)`."""
        return celu(input, self.alpha)

    def extra_repr(self) -> str:
        """Return the option."""
        return self._with_place(f"alpha={self.alpha}")


@final
class LogSigmoid(Module):
    """Computes `nn.logsigmoid`. Source: torch.nn.LogSigmoid."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.logsigmoid(input)`."""
        return logsigmoid(input)


@final
class Softsign(Module):
    """Computes `nn.softsign`. Source: torch.nn.Softsign."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.softsign(input)`."""
        return softsign(input)


@final
class Tanhshrink(Module):
    """Computes `nn.tanhshrink`. Source: torch.nn.Tanhshrink."""

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.tanhshrink(input)`."""
        return tanhshrink(input)


@final
class GLU(Module):
    """Computes `nn.glu` along the axis `dim`.

    Args:
        dim: the axis to halve, which has an even length.

    Source: torch.nn.GLU.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.glu(input, dim)`."""
        return glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"dim={self.dim}"


@final
class RReLU(_Pointwise):
    """Computes `nn.rrelu`, with random slopes in a training and their mean after `eval()`.

    Args:
        lower: the least slope.
        upper: the largest slope.
        inplace: taken as by PyTorch's layer, and ignored: no input is ever written into.

    Source: torch.nn.RReLU.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower: float = lower
        self.upper: float = upper

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.rrelu(input, lower, upper, training)`."""
        return rrelu(input, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        """Return the options."""
        return self._with_place(f"lower={self.lower}, upper={self.upper}")


@final
class PReLU(Module):
    """Computes `nn.prelu`, the slope of which for negative numbers is learned.

    Args:
        num_parameters: 1, or the number of channels, which are on axis 1 of the input.
        init: the slope at first.
        device: where the slopes live.
        dtype: their dtype; None for the default one.

    Attributes:
        weight: the slopes, shape `(num_parameters,)`.

    Source: torch.nn.PReLU.
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Place = None, dtype: npt.DTypeLike | None = None
    ) -> None:
        self.num_parameters: int = size(num_parameters, "num_parameters")
        self.init: float = number(init, "init")
        self.weight: Tensor = new_parameter((self.num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor | np.ndarray) -> Tensor:
        """Return `nn.prelu(input, weight)`."""
        return prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"
