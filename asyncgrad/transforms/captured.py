"""Tensors that a function of the user takes from around it, where they would get no gradient."""

from __future__ import annotations

from typing import Any, final

from ..core.settings.context import Watcher
from ..core.tensor import Tensor
from ..errors import RequiresGradError

__all__ = ["CapturedTensors"]


@final
class CapturedTensors(Watcher):
    """Raises when an operation that is not recorded takes a tensor that requires grad."""

    __slots__ = ("_arguments", "_function", "_where")

    def __init__(self, where: str, function: str, arguments: str) -> None:
        self._where, self._function, self._arguments = where, function, arguments

    def used(self, *values: Any) -> None:
        """Check the arguments of an operation."""
        for value in values:
            if isinstance(value, Tensor) and value.requires_grad:
                raise RequiresGradError(
                    f"{self._where}: {self._function} uses a tensor of shape {value.shape} that requires grad and is "
                    f"not in {self._arguments}, and that would get no gradient: make it a leaf of {self._arguments}, "
                    "or detach it"
                )
