"""Arrays as tensors of PyTorch and back, in the same memory where both libraries can use it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..core.arrays.values import owned
from ..core.settings.arguments import describe
from ..core.settings.extras import missing_extra
from ..core.tensor import Tensor
from ..core.tree.registry import register
from ..errors import ArgumentError, ArgumentTypeError, DeviceError

try:
    import torch
except ImportError as error:
    raise missing_extra("asyncgrad.interop.torch needs PyTorch", "torch", error=error) from error

__all__ = [
    "array_of",
    "check_host",
    "check_made",
    "gradient_array",
    "memory_of",
    "outside_inference_mode",
    "plain",
    "private_gradient",
    "tensor_argument",
    "torch",
    "torch_tensor",
]

#: The name of an argument in an error, or what returns it.
Name: TypeAlias = str | Callable[[], str]

#: What dtype to write instead of one that NumPy has not, for the error.
_INSTEAD = {torch.bfloat16: ".float()", torch.complex32: ".to(torch.complex64)"}


def _unflatten(kind: Any, data: None, children: tuple[Any, ...]) -> Any:
    return kind(children)


# What functions with several results return, such as `torch.max(x, 0)`: tuples with names, to Python no named tuples.
for _kind in torch.return_types.all_return_types:
    register(_kind, flatten=lambda value: (value, None), unflatten=partial(_unflatten, _kind))


def array_of(tensor: Tensor, name: Name) -> np.ndarray:
    """Return the array of a tensor of asyncgrad.

    Raises:
        DeviceError: it is not in the memory of the host.
    """
    data = tensor._data
    if not isinstance(data, np.ndarray):
        raise DeviceError(
            f"{_text(name)} is on the device {tensor.device}, and PyTorch shares the memory of the cpu alone: "
            'write x.to("cpu")'
        )
    return data


def torch_tensor(array: np.ndarray, name: Name, requires_grad: bool = False) -> Any:
    """Return a tensor of PyTorch with the memory of an array, or a copy where PyTorch cannot use that memory.

    It cannot use memory that is read-only, not aligned, in another byte order, or that is walked backwards.

    Raises:
        ArgumentTypeError: PyTorch has no such dtype.
    """
    flags, dtype = array.flags, array.dtype
    if not (flags.behaved and dtype.isnative and (flags.c_contiguous or _has_plain_strides(array))):
        array = np.array(array, dtype.newbyteorder("="), order="C")
    try:
        found = torch.from_numpy(array)
    except TypeError as error:
        raise ArgumentTypeError(
            f"{_text(name)} has the dtype {dtype}, which PyTorch has not: write x.astype(np.float64)"
        ) from error
    return found.requires_grad_() if requires_grad else found


def _has_plain_strides(array: np.ndarray) -> bool:
    return all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name()


def outside_inference_mode() -> contextlib.AbstractContextManager[object]:
    """Return a context manager that leaves PyTorch's inference mode, in which nothing is recorded and no write counted.

    Whether to record is asked of asyncgrad.
    """
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext()


def check_made(tensor: Any, name: str) -> None:
    """Raise if a tensor of PyTorch has no shape and no elements yet.

    Raises:
        ArgumentError: it has none.
    """
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise ArgumentError(f"{name} has no shape yet, as in a lazy module: call the module once in PyTorch first")


def check_host(tensor: Any, name: str, instead: str) -> None:
    """Raise unless NumPy can read the memory of a tensor of PyTorch.

    Raises:
        DeviceError: it is on another device than the cpu.
        ArgumentTypeError: it has a dtype that NumPy has not.
        ArgumentError: it is sparse, quantized or not made yet.
    """
    check_made(tensor, name)
    if tensor.device.type != "cpu":
        raise DeviceError(f"{name} is on the device {tensor.device}, and must be on the cpu: {instead}.cpu()")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise ArgumentError(f"{name} is of the layout {tensor.layout}, and must be dense: {instead}.to_dense()")
    if tensor.dtype in _INSTEAD:
        raise ArgumentTypeError(f"{name} is of {tensor.dtype}, which NumPy has not: {instead}{_INSTEAD[tensor.dtype]}")


def memory_of(tensor: Any) -> int:
    """Return the address of the memory that a tensor and all views of it share."""
    address: int = tensor.untyped_storage().data_ptr()
    return address


def plain(tensor: Any) -> Any:
    """Return a tensor without its history, and without a conjugation or a negation that is still to be done."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() or tensor.is_neg() else tensor


def private_gradient(tensor: Any, taken: set[int], is_kept: bool) -> Any:
    """Return a gradient that PyTorch has computed, in memory that nobody else has.

    Args:
        tensor: the gradient.
        taken: the addresses of memory that others have, to which that of the gradient is added.
        is_kept: whether the graph is kept, of which a rule may have returned what it has saved.
    """
    tensor = plain(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    address = memory_of(tensor)
    if is_kept or address in taken or 0 in tensor.stride():
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        address = memory_of(tensor)
    taken.add(address)
    return tensor


def gradient_array(tensor: Any, taken: set[int], is_kept: bool) -> np.ndarray:
    """Return a gradient that PyTorch has computed, as an array that a leaf may take over; see `private_gradient`."""
    return owned(private_gradient(tensor, taken, is_kept).numpy())


def tensor_argument(value: Any, name: str) -> Any:
    """Return an argument that is a tensor of PyTorch itself, a constant.

    Raises:
        ArgumentTypeError: it requires grad, which asyncgrad could not give it.
    """
    if value.requires_grad:
        raise ArgumentTypeError(
            f"{name} is {describe(value)} of PyTorch that requires grad, and gets none from asyncgrad: "
            "pass value.detach(), or ag.tensor(value.detach().numpy(), requires_grad=True)"
        )
    return value
