"""What nodes save for their backward: version checks and the errors for what is gone or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from ..context import GRAD_MODE
from ..errors import ChangedTensorError, ReleasedGraphError
from .naming import identify
from .tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .node import Node

__all__ = [
    "Saved",
    "changed",
    "check_version",
    "detached",
    "output_alias",
    "released",
    "unpacked",
    "version_of",
    "versions_of",
    "with_versions",
]


class Saved(NamedTuple):
    """A saved tensor: an input itself, or a detached alias of output `output_nr` (no cycle through the node)."""

    tensor: Tracked | None
    version: int = 0
    output_nr: int | None = None
    #: What had made the tensor, where it is no output.
    producer: Node | None = None
    #: Where it is a leaf that requires grad.
    accumulator: Node | None = None

    @property
    def place(self) -> tuple[int | None, Node | None, Node | None]:
        """Which output of the node that saved it the tensor is, or of its producer; its producer; its accumulator."""
        output_nr = self.output_nr
        if output_nr is None and self.tensor is not None and self.producer is not None:
            output_nr = self.tensor._output_nr
        return output_nr, self.producer, self.accumulator


def version_of(tensor: Tracked) -> int:
    """Return how many in-place writes the tensor's memory has seen."""
    return 0 if tensor._counter is None else tensor._counter.value


def versions_of(saved: Iterable[Any]) -> tuple[int, ...] | None:
    """Return the version of each thing saved, that of what is no tensor being 0; None where all are 0."""
    versions = tuple([version_of(value) if isinstance(value, Tracked) else 0 for value in saved])
    return versions if any(versions) else None


@final
class WithVersions(tuple[Any, ...]):  # noqa: SLOT001  # a tuple with slots there is none
    """What a node has saved, where a tensor among it had been written into before: few nodes save such."""

    #: One for each saved tensor.
    versions: tuple[int, ...]


def with_versions(saved: tuple[Any, ...], versions: tuple[int, ...] | None) -> tuple[Any, ...]:
    """Return what a node has saved, with the versions of the tensors among it; None stands for all 0."""
    if versions is None:
        return saved if saved.__class__ is tuple else tuple(saved)
    kept = WithVersions(saved)
    kept.versions = versions
    return kept


def check_version(node: Node, tensor: Tracked, saved_version: int) -> None:
    """Raise unless the memory of a saved tensor is as it was when `node` saved it.

    Raises:
        ChangedTensorError: names the node, the tensor, both versions.
    """
    version = version_of(tensor)
    if version != saved_version:
        hint = "Change a copy instead: t = t.copy(); t += ..."
        raise changed(node, tensor, (tensor._grad_fn, tensor._output_nr), version, saved_version, hint)


def changed(
    node: Node, tensor: Tracked, place: tuple[Node | None, int], version: int, saved_version: int, hint: str
) -> ChangedTensorError:
    """Return the error for a saved tensor that was written into since.

    Args:
        node: what saved it.
        tensor: as it is now.
        place: what made it, and as which output; None where nothing did.
        version: that of its memory now.
        saved_version: what that was when it was saved.
        hint: what to write instead.
    """
    producer, output_nr = place
    origin = "" if producer is None else f", output {output_nr} of {producer.name},"
    return ChangedTensorError(
        f"{identify(node)} needs a tensor of shape {tensor._data.shape} and dtype "
        f"{tensor._data.dtype}{origin} that was changed in place since the forward call: it is at version "
        f"{version}, and version {saved_version} was saved. {hint}"
    )


def detached(node: Node, tensor: Tracked) -> ChangedTensorError:
    """Return the error for a saved tensor that has another history since, where that of the forward call is needed."""
    now = tensor._grad_fn
    happened = (
        "detach_() has cut it since the forward call: use t.detach(), which leaves t alone"
        if now is None
        else f"it has got another one since the forward call, with {identify(now)}, by set_gradient_edge() say: give "
        "that edge to t.detach(), which leaves t alone"
    )
    return ChangedTensorError(
        f"{identify(node)} needs the history of a tensor of shape {tensor._data.shape} and dtype "
        f"{tensor._data.dtype}, and {happened}"
    )


def released(node: Node) -> ReleasedGraphError:
    """Return the error for a backward through a node that has let go of its saved tensors."""
    return ReleasedGraphError(
        f"{identify(node)} has released its saved tensors: a backward has run through it "
        "before. To run backward through a graph twice, keep it the first time: "
        "await loss.backward(retain_graph=True)"
    )


def output_alias(output: Tracked, grad_fn: Node | None = None, output_nr: int = 0) -> Tracked:
    """Return a tensor on the memory of `output`, version counter shared, with another place in the graph.

    A node saves its own output through a detached alias, since the output itself refers to the node.
    """
    alias = type(output)(output._data, grad_fn, output_nr, output._device)
    alias._counter = output._shared_version()
    return alias


def unpacked(node: Node, saved: Saved) -> Any:
    """Return a saved tensor, an output of the node with its place in the graph.

    Raises:
        ChangedTensorError: it was written into since, or its history is needed and was cut off.
    """
    tensor = saved.tensor
    if tensor is None:
        return None
    check_version(node, tensor, saved.version)
    if saved.output_nr is not None:
        return output_alias(tensor, node, saved.output_nr)
    if tensor._grad_fn is not saved.producer and GRAD_MODE.get():
        raise detached(node, tensor)
    return tensor
