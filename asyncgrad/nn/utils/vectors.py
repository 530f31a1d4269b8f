"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from operator import setitem
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays.interception import on_device_of
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.arguments import must_be
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from ...core.arrays.array_like import TensorLike


__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after the other, with a history.

    Args:
        parameters: as `model.parameters()` yields them.

    Source: torch.nn.utils.parameters_to_vector.

    Example:
        >>> from asyncgrad import nn
        >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
        (9,)
    """
    flat = [np.reshape(one, (-1,)) for one in parameters]
    if not flat:
        raise ArgumentError("parameters_to_vector needs at least one parameter")
    return asarray(np.concatenate(flat))


def vector_to_parameters(vec: TensorLike, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector into parameters, in their order, all or none of them.

    Args:
        vec: what `parameters_to_vector` has returned, or other values in its place.
        parameters: those to write into.

    Raises:
        ArgumentError: the vector has not as many elements as the parameters.

    Source: torch.nn.utils.vector_to_parameters.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> model = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(np.arange(3.0), model.parameters())
        >>> model.weight.tolist(), model.bias.tolist()
        ([[0.0, 1.0]], [2.0])
    """
    values, each = asarray(vec).detach(), list(parameters)
    for one in each:
        if not isinstance(one, Tensor):
            raise ArgumentTypeError(must_be("each parameter", "a Tensor", one))
    count = sum(one.size for one in each)
    if values.shape != (count,):
        raise ArgumentError(f"vector_to_parameters needs a vector of {count} elements, not of shape {values.shape}")
    first = 0
    for one in each:
        part = values[first : first + one.size].reshape(one.shape).to(one.device)
        first += one.size
        prepare_write(one)
        on_device_of(one._data, setitem, ..., part._data)
        one._bump_version()
