"""State dicts of asyncgrad as those of PyTorch, and back. Both have the same names, layouts and order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.arrays.uninitialized import UninitializedParameter, uninitialized_error
from ..core.settings.arguments import must_be, takes
from ..core.tensor import Tensor, asarray
from ..errors import ArgumentTypeError
from ..nn.modules.module import Module
from .torch_arrays import array_of, check_host, check_made, torch, torch_tensor

__all__ = ["from_torch_state_dict", "to_torch_state_dict"]


def to_torch_state_dict(state: Module | Mapping[str, object]) -> dict[str, torch.Tensor]:
    """Return a state dict of asyncgrad as one that `load_state_dict` of PyTorch takes, with the same names and dtypes.

    Args:
        state: a module, whose values are copied; or a dict of tensors and arrays by name, whose memory the tensors of
            PyTorch share where they can.

    Raises:
        ArgumentTypeError: an entry is no tensor and no array, or of a dtype that PyTorch has not.
        ArgumentError: an entry has no shape yet, as in a lazy layer.
        DeviceError: an entry is not on the cpu.

    Example:
        >>> import torch
        >>> from asyncgrad import nn
        >>> from asyncgrad.interop.torch import to_torch_state_dict
        >>> torch.nn.Linear(2, 1).load_state_dict(to_torch_state_dict(nn.Linear(2, 1)))
        <All keys matched successfully>
    """
    found = state.state_dict() if isinstance(state, Module) else state
    if not isinstance(found, Mapping):
        raise ArgumentTypeError(takes("to_torch_state_dict", "a module of asyncgrad or a dict of tensors", state))
    result = {}
    for path, value in found.items():
        if isinstance(value, UninitializedParameter):
            raise uninitialized_error(path)
        if isinstance(value, Tensor):
            array = array_of(value, path)
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
        else:
            raise ArgumentTypeError(must_be(path, "a tensor of asyncgrad or an array", value))
        result[path] = torch_tensor(array, path)
    return result


def from_torch_state_dict(state: Mapping[str, object] | torch.nn.Module) -> dict[str, Tensor]:
    """Return a state dict of PyTorch as one of asyncgrad, with the same names; bfloat16 becomes float32.

    `model.load_state_dict` of asyncgrad also takes a state dict of PyTorch as it is, and writes it in the dtypes of
    `model`. This keeps the dtypes of the file.

    Args:
        state: a state dict, whose memory the tensors share where they can; or a module, whose values are copied.

    Raises:
        ArgumentTypeError: an entry is no tensor of PyTorch, such as the "extra state" of a module.
        ArgumentError: an entry has no shape yet, as in a lazy module.
        DeviceError: an entry is not on the cpu.

    Example:
        >>> import torch
        >>> from asyncgrad import nn
        >>> from asyncgrad.interop.torch import from_torch_state_dict
        >>> nn.Linear(2, 1).load_state_dict(from_torch_state_dict(torch.nn.Linear(2, 1)))
        IncompatibleKeys(missing_keys=[], unexpected_keys=[])
    """
    given: Any = state
    is_module = isinstance(given, torch.nn.Module)
    found: Any = given.state_dict() if is_module else given
    if not isinstance(found, Mapping):
        raise ArgumentTypeError(takes("from_torch_state_dict", "a module or a state dict of PyTorch", state))
    result = {}
    for path, value in found.items():
        if not isinstance(value, torch.Tensor):
            raise ArgumentTypeError(must_be(path, "a tensor of PyTorch", value, "take it out of the dict"))
        check_made(value, path)
        tensor = value.detach()
        if tensor.dtype is torch.bfloat16:
            tensor = tensor.float()
        check_host(tensor, path, "write value")
        result[path] = asarray((tensor.clone() if is_module else tensor).resolve_conj().resolve_neg().numpy())
    return result
