"""Copies between the host and a GPU, through page-locked memory, which the GPU reads and writes; and between two GPUs.

A copy of at least LARGE bytes runs on a stream of its own, so that it overlaps computation. What such a stream has
allocated is freed only when all work has ended that may use it: see `_Block`.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from asyncgrad.core.arrays.device_work import record_work
from asyncgrad.errors import DeviceError

from .streams import FROM_GPU, TO_GPU, TO_HOST, CudaEvent, CudaStream, Gpu

__all__ = ["LARGE", "copy_between_gpus", "copy_to_gpu", "copy_to_host", "copy_to_host_later"]

#: From this many bytes on a copy runs beside computation.
LARGE = 1 << 20
#: A copy to the host goes through buffers of this many bytes, one of which is filled while the other is read.
CHUNK = 4 << 20

#: CUDA's numbers of the directions of a copy.
_HOST_TO_GPU, _GPU_TO_HOST = 1, 2


@final
class _Block:
    """Memory that a copy stream has allocated; other streams use it, and CuPy's pool does not know.

    Args:
        device: the GPU.
        memory: CuPy's pointer to it.
    """

    __slots__ = ("_device", "_memory")

    def __init__(self, device: Gpu, memory: Any) -> None:
        self._device = device
        self._memory = memory

    def __del__(self) -> None:
        # The pool may give the memory to the next copy at once, while work on other streams still reads it.
        self._device.hold_until_idle(self._memory)


def copy_to_gpu(device: Gpu, array: Any, may_be_read_later: bool = False, is_ahead: bool = False) -> Any:
    """Return a copy of a NumPy array on a GPU, with the same order of the elements in memory.

    Args:
        device: the GPU.
        array: the NumPy array.
        may_be_read_later: whether the GPU may read the array itself, after this call, if that is in page-locked memory.
        is_ahead: whether the copy stream makes the copy, of any size, and the current stream does not wait for it.
    """
    import cupy

    array, flat = _in_memory_order(_in_native_order(device, array))
    current = device.current_stream().cuda_stream
    is_beside = array.nbytes >= (1 if is_ahead else LARGE)
    copying: CudaStream = device.copy_streams[TO_GPU] if is_beside else device.current_stream()
    stream = copying.cuda_stream
    if is_beside:
        memory = _allocate_on(device, copying, array.nbytes)
    else:
        with stream:
            memory = cupy.cuda.alloc(array.nbytes)
    if array.nbytes:
        pinned = flat if may_be_read_later and _is_pinned(flat) else _pinned_like(flat)
        if pinned is not flat:
            pinned[...] = flat
        with record_work(copying, "copy to the device", "copy", array.nbytes):
            cupy.cuda.runtime.memcpyAsync(memory.ptr, pinned.ctypes.data, array.nbytes, _HOST_TO_GPU, stream.ptr)
        copied = stream.record(cupy.cuda.Event(disable_timing=True))
        if is_beside and not is_ahead:
            current.wait_event(copied)
        device.hold([copied], pinned)
    return cupy.ndarray(array.shape, array.dtype, memory, strides=array.strides)


def copy_between_gpus(source: Gpu, target: Gpu, array: Any, keeps: bool = False) -> Any:
    """Return a copy of an array of one GPU on another one, with the same order of the elements in memory; never waits.

    It begins when the work that is on the current stream of `source` now has ended. Later work on the current stream of
    `target` waits for it, and so does later work on that of `source`, which may write into the array.

    Args:
        source: the GPU of the array.
        target: the GPU of the copy.
        array: the array.
        keeps: whether nobody writes into the array before the copy is made, so that `source` need not wait.
    """
    import cupy

    with source.gpu:
        array, flat = _on_current_stream(source, array)
        ready = source.current_stream().record_event()
    with target.gpu:
        current = target.current_stream()
        # Not on the current stream: the copy need not wait for the work there.
        stream = target.copy_streams[FROM_GPU]
        memory = _allocate_on(target, stream, array.nbytes)
        copy = cupy.ndarray(array.shape, array.dtype, memory, strides=array.strides)
        if array.nbytes:
            stream.wait_event(ready)
            with record_work(stream, "copy between devices", "copy", array.nbytes):
                cupy.cuda.runtime.memcpyPeerAsync(
                    memory.ptr, target.index, flat.data.ptr, source.index, array.nbytes, stream.cuda_stream.ptr
                )
            copied = stream.record_event()
            current.wait_event(copied)
    if array.nbytes:
        if not keeps:
            source.current_stream().wait_event(copied)
        source.hold([copied.cuda_event], array)
    return copy


def _allocate_on(device: Gpu, stream: CudaStream, size: int) -> Any:
    """Return CuPy's pointer to new memory that a copy stream writes first, and other streams use afterwards."""
    import cupy

    with stream.cuda_stream:
        memory = cupy.cuda.alloc(size)
    owner = _Block(device, memory)
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.ptr, size, owner, memory.device_id), 0)


def copy_to_host(device: Gpu, array: Any) -> np.ndarray:
    """Return a copy of an array of a GPU as a NumPy array; blocks until it is there."""
    array, flat = _on_current_stream(device, array)
    host = np.empty(flat.shape, array.dtype)
    if array.nbytes:
        stream = _stream_to_host(device, array)
        with record_work(stream, "copy to the host", "copy", array.nbytes):
            _copy_by_chunks(flat.data.ptr, host.reshape(-1).view(np.uint8), stream.cuda_stream)
    return _with_axes_of(array, host)


def copy_to_host_later(device: Gpu, array: Any) -> tuple[np.ndarray, CudaEvent]:
    """Return a NumPy array in page-locked memory, and the event after which it holds a copy of an array of a GPU."""
    import cupy

    array, flat = _on_current_stream(device, array)
    stream = _stream_to_host(device, array)
    host = _pinned_like(flat)
    if array.nbytes:
        source, pointer = flat.data.ptr, stream.cuda_stream.ptr
        with record_work(stream, "copy to the host", "copy", array.nbytes):
            cupy.cuda.runtime.memcpyAsync(host.ctypes.data, source, array.nbytes, _GPU_TO_HOST, pointer)
    copied = stream.record_event()
    # Until then neither may be freed: CuPy's pools would hand the memory to others.
    device.hold([copied.cuda_event], (array, host))
    return _with_axes_of(array, host), copied


def _on_current_stream(device: Gpu, array: Any) -> tuple[Any, Any]:
    with device.current_stream().cuda_stream:
        return _in_memory_order(array)


def _stream_to_host(device: Gpu, array: Any) -> CudaStream:
    """Return the stream for a copy to the host; it waits for the work that is on the current stream now."""
    current: CudaStream = device.current_stream()
    if array.nbytes < LARGE:
        return current
    stream: CudaStream = device.copy_streams[TO_HOST]
    stream.wait_event(current.record_event())
    return stream


def _with_axes_of(array: Any, host: np.ndarray) -> np.ndarray:
    """Return a C-contiguous array with its axes in the order in which those of `array` lie in memory, in its order."""
    return host.transpose(np.argsort(_axes(array), kind="stable"))


def _pinned_like(array: Any) -> np.ndarray:
    """Return an uninitialised C-contiguous NumPy array in page-locked memory."""
    import cupy

    # CuPy's pool has no memory of zero bytes.
    memory = cupy.cuda.alloc_pinned_memory(max(1, array.nbytes))
    return np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)


def _is_pinned(array: Any) -> bool:
    """Tell whether a NumPy array lies in page-locked memory that CuPy has allocated."""
    import cupy

    while isinstance(array, np.ndarray):
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return isinstance(owner, cupy.cuda.PinnedMemoryPointer)


def _copy_by_chunks(source: int, host: np.ndarray, stream: Any) -> None:
    """Copy bytes to the host; while one chunk is on its way, the one before is copied out of page-locked memory."""
    import cupy

    buffers = [cupy.cuda.alloc_pinned_memory(min(CHUNK, host.size)) for _ in range(2 if host.size > CHUNK else 1)]
    before: tuple[int, Any, Any] | None = None
    for number, start in enumerate(range(0, host.size, CHUNK)):
        buffer = buffers[number % 2]
        size = min(CHUNK, host.size - start)
        cupy.cuda.runtime.memcpyAsync(buffer.ptr, source + start, size, _GPU_TO_HOST, stream.ptr)
        copied = stream.record(cupy.cuda.Event(disable_timing=True))
        if before is not None:
            _take_out(host, *before)
        before = start, copied, buffer
    assert before is not None
    _take_out(host, *before)


def _take_out(host: np.ndarray, start: int, copied: Any, buffer: Any) -> None:
    copied.synchronize()
    size = min(CHUNK, host.size - start)
    host[start : start + size] = np.frombuffer(buffer, np.uint8, size)


def _axes(array: Any) -> list[int]:
    """Return the axes of an array in the order of their strides, the longest first."""
    return sorted(range(array.ndim), key=lambda axis: -array.strides[axis])


def _in_memory_order(array: Any) -> tuple[Any, Any]:
    """Return an array without gaps in its memory, and the C-contiguous view of all that memory."""
    flat = array.transpose(_axes(array))
    if not flat.flags.c_contiguous:
        array = array.copy(order="K")
        flat = array.transpose(_axes(array))
    if not flat.flags.c_contiguous:
        # A library may know no other orders than these two.
        array = flat = array.copy(order="C")
    return array, flat


def _in_native_order(device: Gpu, array: Any) -> np.ndarray:
    """Return an array in this machine's byte order, which is a GPU's, too.

    Raises:
        DeviceError: no array on a GPU has that dtype.
    """
    # The one object that NumPy has for the dtype: arrays of one dtype are told by it.
    dtype = np.dtype(array.dtype.char) if array.dtype.kind in "biufc" else array.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise DeviceError(
            f"'{device}' has no arrays of dtype {array.dtype}: cast it first, for example by "
            f"t.astype({'np.complex128' if dtype.kind == 'c' else 'np.float64'})"
        )
    return np.asarray(array, dtype)
