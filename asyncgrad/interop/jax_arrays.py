"""Arrays as those of JAX and back, in the same memory where JAX can use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.values import owned
from ..core.settings.arguments import takes, truth
from ..core.settings.extras import missing_extra
from ..core.tensor import Tensor, asarray
from ..errors import ArgumentError, ArgumentTypeError, DeviceError

try:
    import jax
except ImportError as error:
    raise missing_extra("asyncgrad.interop.jax needs JAX", "jax", error=error) from error

__all__ = ["host_array", "jax", "jax_array", "private_gradients", "to_tensors"]

#: Of memory that JAX shares, in bytes.
_ALIGNMENT = 64

#: From how many bytes on to copy an array takes longer than to see that nobody else has it.
_LARGE = 65_536

#: The dtypes of 64 bits, and what JAX has in their places by default.
_NARROW = {
    np.dtype(np.float64): "float32",
    np.dtype(np.complex128): "complex64",
    np.dtype(np.int64): "int32",
    np.dtype(np.uint64): "uint32",
}


def _check_dtype(array: np.ndarray, name: str) -> None:
    """Raise if JAX would give an array another dtype, with other numbers.

    Raises:
        ArgumentTypeError: JAX has no such dtype.
        ArgumentError: it has 64 bits, and JAX is set to 32, which do not hold the numbers.
    """
    dtype = array.dtype
    if dtype.kind not in "biufc" or dtype.char in "gG":
        raise ArgumentTypeError(f"{name} has the dtype {dtype}, which JAX has not: write x.astype(np.float32)")
    narrow = _NARROW.get(dtype)
    if narrow is None or jax.config.jax_enable_x64:
        return
    if dtype.kind in "iu":
        limits = np.iinfo(narrow)
        if not array.size or (array.min() >= limits.min and array.max() <= limits.max):
            return
    raise ArgumentError(
        f"{name} is of {dtype}, and JAX is set to {narrow}: write jax.config.update('jax_enable_x64', True) at the "
        f"start of the program, or x.astype(np.{narrow})"
    )


def jax_array(value: Tensor | np.ndarray, name: str, is_compiled: bool = False) -> Any:
    """Return an array of JAX: of a tensor in the same memory where that can be, of a bare array a copy.

    Who writes into a tensor counts that in its version, and nobody does for an array. For a function that is compiled,
    the array of a tensor is returned as it is: JAX takes it in the same way, in less time.

    Raises:
        DeviceError: it is not in the memory of the host.
        ArgumentTypeError: JAX has no such dtype.
        ArgumentError: JAX is set to narrower numbers.
    """
    if isinstance(value, np.ndarray):
        _check_dtype(value, name)
        return jax.numpy.array(value.astype(value.dtype.newbyteorder("="), copy=False))
    data: Any = value._data
    if not isinstance(data, np.ndarray):
        raise DeviceError(
            f'{name} is on the device {value.device}, and is passed to JAX from the cpu alone: write x.to("cpu")'
        )
    _check_dtype(data, name)
    # JAX shares memory that is aligned to 64 bytes, and copies other memory.
    native = data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
    return native if is_compiled else jax.device_put(native)


def to_tensors(tree: object, *, requires_grad: bool = False) -> Any:
    """Return a pytree of arrays, JAX's or NumPy's, as one of new tensors, in memory that JAX can share.

    JAX shares memory that begins at a multiple of 64 bytes, as that of these tensors does, and copies other memory in
    each call. So this is for the parameters of a model.

    Args:
        tree: arrays of JAX or NumPy in containers of JAX.
        requires_grad: whether those that are floating or complex require grad.

    Raises:
        ArgumentTypeError: one is no array, or NumPy has no such dtype.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.interop.jax import to_tensors
        >>> params = to_tensors({"weight": np.ones((2, 3), np.float32)}, requires_grad=True)
        >>> params["weight"].shape, params["weight"].requires_grad
        ((2, 3), True)
    """
    truth(requires_grad, "requires_grad")

    def to_tensor(leaf: Any) -> Tensor:
        if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, int, float, complex)):
            raise ArgumentTypeError(takes("to_tensors", "a pytree of arrays", leaf, "take it out of the tree"))
        found = host_array(leaf, "an array", "pass x.astype(jnp.float32)")
        memory = np.empty(found.nbytes + _ALIGNMENT, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT
        array = memory[begin : begin + found.nbytes].view(found.dtype).reshape(found.shape)
        array[...] = found
        tensor = asarray(array)
        return tensor.requires_grad_() if requires_grad and found.dtype.kind in "fc" else tensor

    return jax.tree_util.tree_map(to_tensor, tree)


def host_array(array: Any, name: str, instead: str = "return y.astype(jnp.float32)") -> np.ndarray:
    """Return an array of JAX as one of NumPy, which is read-only where both have the same memory; waits for it.

    Raises:
        ArgumentTypeError: NumPy has no such dtype.
    """
    found = np.asarray(array)
    if found.dtype.kind not in "biufc":
        raise ArgumentTypeError(f"{name} is of {array.dtype}, which NumPy has not: {instead}")
    return found


def private_gradients(arrays: Sequence[Any], given: object) -> list[np.ndarray]:
    """Return gradients that a compiled function has returned, large ones as arrays that leaves may take over.

    Their memory is the function's own and nobody else has it, unless it has returned what it was given, or one array
    twice. So it may be written into, though JAX shows it as read-only.

    Args:
        arrays: the gradients.
        given: what the function was given, a pytree.
    """
    found = [host_array(array, "a gradient") for array in arrays]
    large = [at for at, one in enumerate(found) if one.nbytes >= _LARGE and isinstance(arrays[at], jax.Array)]
    taken = {_address(leaf) for leaf in jax.tree_util.tree_leaves(given)} if large else set()
    for at in large:
        address = _address(found[at])
        if address not in taken:
            taken.add(address)
            found[at] = owned(found[at])
    return found


def _address(leaf: Any) -> int:
    found: int
    if isinstance(leaf, np.ndarray):
        found = leaf.__array_interface__["data"][0]
        return found
    try:
        found = leaf.unsafe_buffer_pointer()
    except RuntimeError:
        # It lies on several devices. A key of random numbers is no array of NumPy's, and no gradient lies there.
        found = _address(np.asarray(leaf)) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact) else 0
    return found
