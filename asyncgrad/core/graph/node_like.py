"""NodeLike: the part of `Node` that the modules below it use. `Node` imports them, so they cannot import the class."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["NodeLike"]


class NodeLike(Protocol):
    """A node of a graph, as tensors, saved entries and the checks of gradients see it.

    Every `Node` implements it, and documents each attribute.
    """

    device: Any
    shape: tuple[int, ...] | None
    dtype: Any
    #: A NodeMeta, or None.
    meta: Any
    #: Whether `apply` is an `async def`.
    is_async: bool

    @property
    def name(self) -> str:
        """The name of the node in errors and drawings."""

    @property
    def sequence_nr(self) -> int:
        """The number of the node in the order in which the process made them."""

    @property
    def next_nodes(self) -> tuple[Any, ...]:
        """For each edge, the node that it leads to; None drops the gradient."""

    @property
    def input_nrs(self) -> tuple[int, ...]:
        """For each edge, the number of the input that it leads to."""

    @property
    def input_metadata(self) -> tuple[Any, ...]:
        """For each input an InputMetadata; None accepts anything."""

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the forward inputs, or an awaitable of them."""

    def make_meta(self) -> Any:
        """Return the node's NodeMeta; make it if there is none."""

    def saved_entries(self) -> Any:
        """Return the node's saved entries; None once released."""

    def waits_for_saved(self) -> bool:
        """Tell whether unpacking a saved entry is known to need an event loop."""

    def keep_packed(self, index: int, packed: Any) -> None:
        """Replace saved entry `index` by `packed`."""

    def needed_packed(self) -> Any:
        """Return the packed entries that the node needs in the running backward, in the order of unpacking."""
