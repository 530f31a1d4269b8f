"""Special: what few nodes have, kept apart so that a node is slim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from .hooks import HookList
    from .metadata import InputMetadata

__all__ = ["Special"]


@final
class Special:
    """What few nodes have. A node with a Special takes the engine's careful path."""

    __slots__ = (
        "contention",
        "holder",
        "input_metadata",
        "metadata",
        "post_hooks",
        "pre_hooks",
        "retains_grad_hooks",
        "stream",
        "tensor_pre_hooks",
    )

    def __init__(self, input_metadata: tuple[InputMetadata | None, ...] | None = None) -> None:
        #: Of a node with several inputs, or one made by `Node.__init__`; None where the node's own slots say it.
        self.input_metadata = input_metadata
        self.metadata: dict[Any, Any] | None = None
        #: Tensor hooks by input, as (input_nr, hooks of that tensor), in order of first registration.
        self.tensor_pre_hooks: list[tuple[int, HookList]] = []
        #: The tensors (weakly) that keep the gradient of an input, by input.
        self.retains_grad_hooks: dict[int, Any] = {}
        self.pre_hooks: HookList | None = None
        self.post_hooks: HookList | None = None
        #: The current stream of the device where the node was made; None where that was the default one.
        self.stream: Any = None
        #: The lock: the GraphTask whose NodeTask is inside, and what there is where several are concerned.
        self.holder: Any = None
        self.contention: Any = None
