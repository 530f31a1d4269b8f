"""save_to_disk, save_on_cpu and save_to_store: blocks inside which saved tensors are offloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from ...core.graph.packed import PackHooks
from ...core.graph.saved_hooks import SavedTensorsMode
from ...core.settings.arguments import describe, whole_number
from ...errors import ArgumentTypeError
from .checksum import CheckedStore
from .disk import DiskStore, check_directory
from .host_memory import HostMemory
from .offload import Offload
from .store import Store

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from ...core.settings.context import Mode

__all__ = ["save_on_cpu", "save_to_disk", "save_to_store"]

MIN_BYTES = 64 * 1024
PREFETCH = 4
MAX_PENDING_BYTES = 256 * 2**20


class OffloadingMode(SavedTensorsMode):
    """Abstract base of the blocks whose saved tensors go through an Offload, shared by all uses of one manager."""

    __slots__ = ("_arguments", "_offload", "_prefetch")

    def _set_up(self, arguments: tuple[Any, ...], offload: Offload, prefetch: int) -> None:
        self._arguments = arguments
        self._offload = offload
        self._prefetch = prefetch

    def _before(self) -> Any:
        self._check_allowed()
        return self._get()

    def _value(self) -> Any:
        offload = self._offload
        return PackHooks(
            offload.pack, offload.unpack, prefetch=offload.prefetch, ahead=self._prefetch, waits=offload.waits
        )

    def _clone(self) -> Mode:
        clone = object.__new__(type(self))
        clone._set_up(self._arguments, self._offload, self._prefetch)
        return clone

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._offload.raise_failure()

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unless the block has failed, wait until everything is written, and raise if a write failed."""
        if error is None:
            try:
                await self._offload.flush()
            except BaseException as raised:
                self.__exit__(type(raised), raised, raised.__traceback__)
                raise
        self.__exit__(kind, error, trace)


@final
class save_to_store(OffloadingMode):
    """Put the tensors that nodes save inside this block into `store`, and fetch them before the backward needs them.

    Tensors are put into the store in the background while the forward goes on. If more than `max_pending_bytes` are
    waiting, the forward waits. A backward requests the tensors of nodes that are not ready yet, in the order in which
    nodes run, `prefetch` of them at a time, and at most so many that `max_pending_bytes` wait to be used (but at least
    one tensor). A tensor that is requested before it was put stays in memory until it has been used; it is put into the
    store only if a forward waits for room, or `async with` waits for all puts. Gradients have the same bits as without
    this block, since arrays come back with their original strides.

    A tensor that is saved twice is put once. These are not put: tensors smaller than `min_bytes`; leaves that require
    grad, and views of them, since they stay in memory anyway; arrays of objects, and of subclasses of ndarray. For a
    view, only its own elements are put, and its base is freed when nothing else needs it. A tensor on a device with
    arrays of its own is copied to the host first; it comes back to the same device, in the same order of its axes. As
    without this block, the backward raises if a saved tensor was changed in place. A tensor is deleted from the store
    when the graph no longer needs it: after its node has run, or with `retain_graph` when the graph is dropped.

    If a put fails, the tensor stays in memory, so that nothing is lost. The error is raised once: by the next operation
    that would save a tensor, or on leaving the block. `async with` waits for all puts to end, and so raises every such
    error; `with` does not wait, and a put that fails after it is reported by a `StoreWarning` of the backward. If a get
    fails, or returns other bytes than were put (a checksum in memory detects that), the backward raises, and every
    `.grad` stays as it was.

    This is a context manager, and a decorator of functions, generators and async ones. It applies to the current
    context only; of nested saved-tensor hooks, only the innermost are used. One manager may be used any number of
    times, also concurrently: all uses share the limits. It works with and without an event loop; a blocking backward
    waits in its thread.

    Args:
        store: see `ag.graph.Store`.
        min_bytes: the smallest size of a tensor that is put.
        prefetch: how many tensors are requested ahead; with 0, each is requested when its node runs.
        max_pending_bytes: how many bytes may wait to be put, and how many may have come back but not been used yet.

    Raises:
        HookError: on entering, if `disable_saved_tensors_hooks` forbids it, with the message given there.
        StoreError: the store failed.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> store = ag.testing.MemoryStore()
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     async with ag.graph.save_to_store(store, min_bytes=1):
        ...         loss = np.exp(x).sum()
        ...     stored = len(store)
        ...     await loss.backward()
        ...     return stored, x.grad
        >>> ag.run(main())
        (1, tensor([2.71828183, 7.3890561 ], dtype=float64, device='cpu'))
    """

    __slots__ = ()

    def __init__(
        self,
        store: Store,
        *,
        min_bytes: int = MIN_BYTES,
        prefetch: int = PREFETCH,
        max_pending_bytes: int = MAX_PENDING_BYTES,
    ) -> None:
        # A class also has attributes with these names.
        if not isinstance(store, Store) or isinstance(store, type):
            raise ArgumentTypeError(
                f"store of save_to_store must have the async methods put, get and delete, unlike {describe(store)}: "
                "see ag.graph.Store, or write save_to_disk(directory)"
            )
        _check("save_to_store", min_bytes, prefetch, max_pending_bytes)
        checked = store if isinstance(store, DiskStore) else CheckedStore(store)
        self._set_up((), Offload(checked, min_bytes, max_pending_bytes), prefetch)


@final
class save_to_disk(OffloadingMode):
    """Write the tensors that nodes save inside this block to disk, and read them before the backward needs them.

    The same as `ag.graph.save_to_store` with a `DiskStore`; everything said there applies here. Each tensor is a file
    that only its owner can read; it is removed after its node has run, and at the latest when the process exits. The
    files of a crashed process are removed when the next process enters such a block with the same directory.

    Args:
        directory: created if it does not exist. None is a folder of this user in `tempfile.gettempdir()`.
        min_bytes: the smallest size of a tensor that is written.
        prefetch: how many tensors are read ahead; with 0, each is read when its node runs.
        max_pending_bytes: how many bytes may wait to be written, and how many may be read but not used yet.

    Raises:
        HookError: on entering, if `disable_saved_tensors_hooks` forbids it, with the message given there.
        StoreError: on entering, if no file can be created there; later, if the disk is full or fails.

    Example:
        >>> import tempfile
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor(np.linspace(0.0, 1.0, 10_000), requires_grad=True)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     with ag.graph.save_to_disk(directory):
        ...         loss = np.exp(np.sin(x)).sum()
        ...     ag.sync.backward(loss)
        >>> bool(np.allclose(x.grad, np.exp(np.sin(x.numpy())) * np.cos(x.numpy())))
        True
    """

    __slots__ = ()

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        min_bytes: int = MIN_BYTES,
        prefetch: int = PREFETCH,
        max_pending_bytes: int = MAX_PENDING_BYTES,
    ) -> None:
        _check("save_to_disk", min_bytes, prefetch, max_pending_bytes)
        check_directory("save_to_disk", directory)
        disk = DiskStore(directory)
        self._set_up((disk,), Offload(disk, min_bytes, max_pending_bytes, disk.release), prefetch)

    def __enter__(self) -> None:
        self._check_allowed()
        (disk,) = self._arguments
        disk.open_folder()
        super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (disk,) = self._arguments
        disk.leave_folder()
        super().__exit__(kind, error, trace)


@final
class save_on_cpu(OffloadingMode):
    """Keep the tensors that nodes save inside this block in the host's memory, and copy them back before the backward.

    For tensors on a device whose memory is scarce. Everything said of `ag.graph.save_to_store` applies here, with the
    host's memory as the store. A device that copies by itself does so while it computes, both ways. Tensors on a device
    whose arrays are NumPy's are in the host's memory already, and stay as they are.

    Args:
        min_bytes: the smallest size of a tensor that is copied.
        prefetch: how many tensors are copied back ahead; with 0, each is copied when its node runs.
        max_pending_bytes: how many bytes may be on their way to the host, and how many may have been copied back but
            not used yet.

    Raises:
        HookError: on entering, if `disable_saved_tensors_hooks` forbids it, with the message given there.

    Source: torch.autograd.graph.save_on_cpu.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> accelerator = ag.testing.SimulatedAccelerator()
        >>> x = ag.tensor([1.0, 2.0], device=accelerator, requires_grad=True)
        >>> with ag.graph.save_on_cpu(min_bytes=1):
        ...     loss = np.exp(x).sum()
        >>> ag.sync.backward(loss)
        >>> x.grad.to("cpu").numpy()
        array([2.71828183, 7.3890561 ])
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        min_bytes: int = MIN_BYTES,
        prefetch: int = PREFETCH,
        max_pending_bytes: int = MAX_PENDING_BYTES,
    ) -> None:
        _check("save_on_cpu", min_bytes, prefetch, max_pending_bytes)
        memory = HostMemory()
        offload = Offload(memory, min_bytes, max_pending_bytes, memory.release, only_from_devices=True)
        self._set_up((), offload, prefetch)


def _check(name: str, min_bytes: int, prefetch: int, max_pending_bytes: int) -> None:
    for argument, value, least in (
        ("min_bytes", min_bytes, 0),
        ("prefetch", prefetch, 0),
        ("max_pending_bytes", max_pending_bytes, 1),
    ):
        whole_number(value, f"{argument} of {name}", least)
