"""What stands in a module for a tensor whose shape is not known before the module is called."""

from __future__ import annotations

from typing import NoReturn, final

import numpy as np

from ...errors import ArgumentError

__all__ = ["UninitializedParameter", "uninitialized_error"]


@final
class UninitializedParameter:
    """Stands for a parameter or a buffer of a lazy layer until the layer is called for the first time.

    It has a dtype and a device, and neither a shape nor elements. `model.to(...)` and `model.requires_grad_(...)` hold
    for the tensor that it becomes.

    Args:
        dtype: of that tensor.
        device: where that tensor lives; None for the current default device.
        requires_grad: whether that tensor does.

    Attributes:
        grad: None.

    Source: torch.nn.UninitializedParameter.

    Example:
        >>> from asyncgrad import nn
        >>> layer = nn.LazyLinear(3)
        >>> layer.weight
        UninitializedParameter(dtype=float64)
    """

    __slots__ = ("device", "dtype", "requires_grad")

    def __init__(self, dtype: np.dtype, device: object = None, requires_grad: bool = True) -> None:
        self.dtype, self.device, self.requires_grad = dtype, device, requires_grad

    @property
    def grad(self) -> None:
        """None: there is no gradient before there is a shape."""

    def requires_grad_(self, requires_grad: bool = True) -> UninitializedParameter:
        """Set whether the tensor that this becomes requires grad; return this."""
        self.requires_grad = requires_grad
        return self

    def moved(self, device: object, dtype: np.dtype | None) -> UninitializedParameter:
        """Return what stands for the tensor on another device, or in another dtype; None for those of this one."""
        return UninitializedParameter(
            self.dtype if dtype is None else dtype, self.device if device is None else device, self.requires_grad
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"an UninitializedParameter has no attribute {name!r}: call the model once, with an example, before",
            name=name,
        )

    def __repr__(self) -> str:
        place = "" if str(self.device) in ("None", "cpu") else f", device={str(self.device)!r}"
        frozen = "" if self.requires_grad else ", requires_grad=False"
        return f"UninitializedParameter(dtype={self.dtype}{place}{frozen})"


def uninitialized_error(name: str) -> ArgumentError:
    """Return the error for a parameter that is needed before it has a shape."""
    return ArgumentError(
        f"{name} has no shape yet, as its layer has not been called: call the model once, with an example, before"
    )
