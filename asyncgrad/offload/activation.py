"""Activation: a saved tensor whose array may be elsewhere; and what stands for one that stays."""

from __future__ import annotations

import enum
import weakref
from typing import TYPE_CHECKING, Any, final

from ..errors import ChangedTensorError
from ..graph.saved import output_alias, version_of

if TYPE_CHECKING:
    from ..graph.tensor_base import TensorBase, VersionCounter
    from .layout import Layout
    from .offload import Offload
    from .reading import Reading

__all__ = ["Activation", "Entry", "Place", "Staying", "is_parameter"]


class Place(enum.Enum):
    """Where the array of an entry is."""

    QUEUED = "in memory, and is to be written"
    WRITING = "in memory, and is being written"
    STORED = "in the store"
    KEPT = "in memory, since it could not be written"
    GONE = "nowhere: nobody has queued it yet, or nobody needs it any more"


@final
class Entry:
    """One array under one key; shared by who needs it and by what writes it. Guarded by the lock of its Offload."""

    __slots__ = ("array", "is_put", "is_wanted", "key", "layout", "nbytes", "number", "place", "reading")

    def __init__(self, number: int, key: str, array: Any, layout: Layout) -> None:
        #: Entries of one Offload are numbered in the order in which they were made.
        self.number = number
        self.key = key
        self.layout = layout
        self.nbytes = layout.nbytes
        #: None once it is stored.
        self.array = array
        self.place = Place.GONE
        #: Whether the store has been told to keep it.
        self.is_put = False
        #: Whether a backward has asked for it before it was written.
        self.is_wanted = False
        #: What reads it, or has read it for somebody who has not taken it yet.
        self.reading: weakref.ref[Reading] | None = None

    def under_way(self) -> Reading | None:
        """Return what reads it, or holds it for somebody who has not taken it yet."""
        return None if self.reading is None else self.reading()


@final
class Activation:
    """What nodes keep in place of a tensor. When the last of them lets go of it, it is deleted from the store."""

    __slots__ = ("__weakref__", "_counter", "_version", "entry", "offload", "root")

    def __init__(self, tensor: TensorBase, entry: Entry, offload: Offload, root: weakref.ref[Any]) -> None:
        self.entry = entry
        self.offload = offload
        #: The array that owns the memory, weakly: as long as it lives, its address stands for it alone.
        self.root = root
        self._counter: VersionCounter = tensor._shared_version()
        self._version = self._counter.value

    def check_unchanged(self) -> None:
        """Raise if the tensor was written into since it was saved, wherever its array was by then.

        Raises:
            ChangedTensorError: as without offloading, so that no gradient depends on how fast a disk is.
        """
        if self._counter.value != self._version:
            raise _changed(self.entry.layout.described(), self._version, self._counter.value)

    def __del__(self) -> None:
        self.offload.let_go(self.entry)


@final
class Staying:
    """A saved tensor that stays in memory: a small one, a parameter, or what has no plain array."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: TensorBase) -> None:
        # Detached, so that it keeps no graph alive: the node has the tensor's place.
        self._tensor = output_alias(tensor)
        self._version = version_of(tensor)

    def value(self) -> TensorBase:
        """Return the tensor.

        Raises:
            ChangedTensorError: it was written into since it was saved.
        """
        tensor, version = self._tensor, version_of(self._tensor)
        if version != self._version:
            described = f"shape {tensor._data.shape} and dtype {tensor._data.dtype}"
            raise _changed(described, self._version, version)
        return tensor


def _changed(described: str, saved: int, now: int) -> ChangedTensorError:
    return ChangedTensorError(
        f"a saved tensor of {described} was changed in place since the forward call: it is at version {now}, and "
        f"version {saved} was saved. Change a copy instead: t = t.copy(); t += ..."
    )


def is_parameter(tensor: TensorBase) -> bool:
    """Tell whether a tensor is a leaf that requires grad, or a view of one: who holds it holds its memory anyway."""
    view = tensor._view_meta()
    base = tensor if view is None else view.base
    return base._grad_fn is None and base._meta is not None and base._meta.requires_grad
