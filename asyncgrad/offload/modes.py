"""save_to_disk and save_to_store: blocks in which saved tensors go elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError
from ..graph.packed import PackHooks
from ..graph.saved_hooks import SavedTensorsMode
from .checksum import CheckedStore
from .disk import DiskStore, check_directory
from .offload import Offload
from .store import Store

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from ..context import Mode

__all__ = ["save_to_disk", "save_to_store"]

MIN_BYTES = 64 * 1024
PREFETCH = 4
MAX_PENDING_BYTES = 256 * 2**20


class OffloadingMode(SavedTensorsMode):
    """Abstract base of the blocks whose saved tensors go through an Offload, which all uses of one manager share."""

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
        """Wait until all is written, and raise if something could not be; unless the block has failed."""
        if error is None:
            try:
                await self._offload.settle()
            except BaseException as raised:
                self.__exit__(type(raised), raised, raised.__traceback__)
                raise
        self.__exit__(kind, error, trace)


@final
class save_to_store(OffloadingMode):
    """Inside, tensors that nodes save for their backward are put into `store`, and come back ahead of need.

    They are put there in the background while the forward goes on; where more than `max_pending_bytes` wait for that,
    the forward waits. A backward asks for the tensors of nodes that are not ready yet, in the order in which nodes
    run, `prefetch` of them at a time, and never for so many that more than `max_pending_bytes` wait to be used (one at
    least). What it asks for before it was put there stays in memory until it has been used, and is put there only where
    a forward waits for room, or `async with` for the end of all puts. Gradients have the bits that they have without
    it, since arrays come back with the strides that they had.

    A tensor saved twice is put there once. What is not put there: tensors of less than `min_bytes`; leaves that
    require grad, and views of them, since they stay in memory anyway; arrays of objects, and of subclasses of ndarray.
    Of a view its own elements are put there, and its base is freed when nobody else needs that. That no tensor was
    written into since it was saved is checked as ever. It is deleted from the store when the graph has let go of it:
    at the end of its node's turn, and with `retain_graph` when the graph is dropped.

    What could not be put stays in memory, so that nothing is lost. The error is raised by the next operation that
    would save something, or by leaving the block, and then not again. `async with` waits for all puts to end, so it
    raises whatever error there is; `with` does not wait, and what goes wrong after it is told by a `StoreWarning` of
    the backward. What cannot be got raises in the backward, which leaves every `.grad` as it was; and so do other bytes
    than were put, which a checksum tells that stays in memory.

    A context manager, and a decorator of functions, generators and their async kinds; it holds for the current context
    only, and of nested hooks the innermost alone are used. One manager may be used any number of times, also at the
    same time: all share the bounds. It works with and without an event loop; a blocking backward waits in its thread.

    Args:
        store: see `ag.graph.Store`.
        min_bytes: the least size of a tensor that is put there.
        prefetch: how many tensors are asked for ahead; 0 asks for each when its node runs.
        max_pending_bytes: how much may wait to be put, and how much may have come back without having been used.

    Raises:
        HookError: on entering, where `disable_saved_tensors_hooks` forbids it, with the message given there.
        StoreError: the store has failed.

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
        # A class has methods of these names as well.
        if not isinstance(store, Store) or isinstance(store, type):
            raise ArgumentTypeError(
                f"save_to_store takes a store with async methods put, get and delete, not {describe(store)}: "
                "see ag.graph.Store, or write save_to_disk(directory)"
            )
        _check("save_to_store", min_bytes, prefetch, max_pending_bytes)
        checked = store if isinstance(store, DiskStore) else CheckedStore(store)
        self._set_up((), Offload(checked, min_bytes, max_pending_bytes), prefetch)


@final
class save_to_disk(OffloadingMode):
    """Inside, tensors that nodes save for their backward are written to disk, and read back ahead of need.

    As `ag.graph.save_to_store` with a `DiskStore`; all that stands there holds here. Each tensor is a file, which only
    its owner can read and which is removed once its node has run, and at the latest when the process exits. What a
    crashed process has left is removed when the next one enters such a block with the same directory.

    Args:
        directory: made if it is not there. None is a folder of this user in `tempfile.gettempdir()`.
        min_bytes: the least size of a tensor that is written.
        prefetch: how many tensors are read ahead; 0 reads each when its node runs.
        max_pending_bytes: how much may wait to be written, and how much may have been read without having been used.

    Raises:
        HookError: on entering, where `disable_saved_tensors_hooks` forbids it, with the message given there.
        StoreError: on entering, where no file can be made there; later, where the disk is full or fails.

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


def _check(name: str, min_bytes: int, prefetch: int, max_pending_bytes: int) -> None:
    for argument, value, least in (
        ("min_bytes", min_bytes, 0),
        ("prefetch", prefetch, 0),
        ("max_pending_bytes", max_pending_bytes, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentTypeError(f"{argument} of {name} is an int, not {describe(value)}")
        if value < least:
            raise ArgumentError(f"{argument} of {name} is at least {least}, not {value}")
