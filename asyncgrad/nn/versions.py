"""Versions of a module: immutable snapshots that share its arrays, and the publication of new arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from ..core.arrays.copy_on_write import share_array
from ..core.arrays.interception import on_device_of_arguments
from ..core.arrays.values import as_like, is_writeable
from ..core.settings.arguments import must_be, takes
from ..core.tensor import Tensor
from ..core.tree.structure import map as map_tree
from ..errors import ArgumentError, ArgumentTypeError

__all__ = ["fitting_arrays", "publish", "take_snapshot"]

M = TypeVar("M")


def take_snapshot(module: M) -> M:
    """Return an immutable module in evaluation mode that shares the arrays of another one."""
    snapshot: Any = map_tree(_shared, module)
    snapshot.eval()
    for part in list(snapshot.modules()):
        part._own_record().is_frozen = True
    return snapshot  # type: ignore[no-any-return]


def _shared(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    return Tensor(share_array(leaf), None, 0, leaf._device)


def publish(module: Any, values: Any) -> None:
    """Put new arrays in place of those of a module's tensors, all or none; `values` are by path."""
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(takes("update", "tensors by path, such as model.state_dict(), or a module", values))
    own = {path: tensor for path, tensor in module._tensors() if isinstance(tensor, Tensor)}
    arrays, problems = fitting_arrays(own, values, "the update")
    problems += [f"{path} is unexpected" for path in values if path not in own]
    found: dict[int, tuple[Tensor, str, Any]] = {}
    for path, array in arrays.items():
        tensor = own[path]
        known = found.setdefault(id(tensor), (tensor, path, array))
        if known[2] is not array and not np.array_equal(known[2], array):
            problems.append(f"{known[1]} and {path} are one tensor, but two values were given")
    if problems:
        shown = "; ".join(problems[:10]) + ("; ..." if len(problems) > 10 else "")
        raise ArgumentError(f"the update does not fit {type(module).__name__}, and nothing was changed: {shown}")
    fitting = [(tensor, _taken(array, tensor)) for tensor, _, array in found.values()]
    for tensor, array in fitting:
        tensor._data = array
        tensor._autograd_meta().has_shared_array = True
        tensor._bump_version()


@on_device_of_arguments
def _taken(array: Any, tensor: Tensor) -> Any:
    array = array.astype(tensor.dtype, copy=False)
    return array if is_writeable(array) else array.copy()


def fitting_arrays(own: Mapping[str, Tensor], given: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """Return the arrays to write into tensors by path, and what is wrong with others.

    Args:
        own: the tensors.
        given: tensors or arrays; those whose path is not in `own` are left out.
        where: the name of `given` in errors.
    """
    arrays, problems = {}, []
    for path, tensor in own.items():
        if path not in given:
            continue
        array = _as_array(path, given[path], tensor, where)
        if array.shape != tensor.shape:
            problems.append(f"{path} has shape {tensor.shape}, but in {where} {array.shape}")
        elif not np.can_cast(array.dtype, tensor.dtype, "same_kind") and array.dtype.kind not in "iu":
            problems.append(f"{path} has dtype {tensor.dtype}, but in {where} {array.dtype}")
        else:
            arrays[path] = as_like(array, tensor._data)
    return arrays, problems


def _as_array(path: str, value: Any, like: Tensor, where: str) -> Any:
    if isinstance(value, Tensor):
        if value._device is like._device:
            return value._data
        return value.detach().to("cpu").numpy()
    if hasattr(value, "detach"):
        # PyTorch's tensors refuse to be arrays while they require grad.
        value = value.detach()
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":
            # NumPy has no bfloat16.
            value = value.float()
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise ArgumentTypeError(must_be(f"{path} in {where}", "a tensor or an array", value))
    return array
