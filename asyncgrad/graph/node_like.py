"""NodeLike: what the modules below `Node` may ask of a node. `Node` is built on them, so they cannot know the class."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["NodeLike"]


class NodeLike(Protocol):
    """A node of a graph, as tensors, saved entries and the checks of gradients see it.

    Every `Node` is one; see there for what each attribute is.
    """

    device: Any
    shape: tuple[int, ...] | None
    dtype: Any
    #: A NodeMeta, or None.
    meta: Any

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""

    @property
    def sequence_nr(self) -> int:
        """When the node was made, counted over the whole process."""

    @property
    def next_nodes(self) -> tuple[Any, ...]:
        """For each edge, the node that it leads to; None drops the gradient."""

    @property
    def input_nrs(self) -> tuple[int, ...]:
        """For each edge, which input of the node that it leads to."""

    @property
    def input_metadata(self) -> tuple[Any, ...]:
        """For each input an InputMetadata; None accepts anything."""

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the forward inputs, or an awaitable of them."""

    def make_meta(self) -> Any:
        """Return the node's NodeMeta, made now if there was none."""

    def saved_entries(self) -> Any:
        """Return what the node has saved; None once released."""

    def keep_packed(self, index: int, packed: Any) -> None:
        """Keep what a hook has packed in the place of saved entry `index`."""

    def needed_packed(self) -> Any:
        """Return what hooks have packed of what the node needs in the backward that runs."""
