"""increment_version, which counts a write that asyncgrad could not see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ArgumentTypeError
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import describe

__all__ = ["increment_version"]


def increment_version(tensors: TensorBase | Iterable[TensorBase]) -> None:
    """Count a write into a tensor's memory that asyncgrad could not see, for example through an ndarray.

    A backward that needs the tensor, its base or a view of it, saved before the write, then raises.

    Args:
        tensors: a tensor, or an iterable of tensors.

    Raises:
        ArgumentTypeError: one of `tensors` is no tensor.

    Source: torch.autograd.graph.increment_version.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0])
        >>> x.numpy()[0] = 2.0
        >>> ag.graph.increment_version(x)
        >>> x._version
        1
    """
    found: list[Any] = [tensors] if isinstance(tensors, TensorBase) or not isinstance(tensors, Iterable) else [*tensors]
    for tensor in found:
        if not isinstance(tensor, TensorBase):
            raise ArgumentTypeError(
                f"only a tensor has a version, not {describe(tensor)}: write increment_version(t), or "
                "increment_version([t, u])"
            )
    for tensor in found:
        tensor._bump_version()
