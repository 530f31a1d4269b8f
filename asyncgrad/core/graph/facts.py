"""What can be said of a node without running it: what it saves, its hooks, whether it waits; and that as text."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrays.tensor_base import TensorBase
from ..arrays.values import has_memory, memory_owner
from ..settings.context import is_kind
from .html import facts, panel, table
from .naming import HIGHEST_NUMBER, identify, number_of, place_of
from .packed import Packed
from .value_metadata import ValueMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .node_like import NodeLike

__all__ = [
    "SavedArray",
    "awaits_of",
    "byte_text",
    "html_of_node",
    "hooks_of",
    "is_async",
    "joined_counts",
    "leaf_of",
    "number_text",
    "saved_arrays",
    "shape_text",
    "text_of_node",
    "time_text",
]


class SavedArray(NamedTuple):
    """An array that a node keeps for its backward.

    Attributes:
        shape: its shape.
        dtype: its dtype.
        nbytes: its bytes; those of the tensor that a hook has packed.
        key: equal for arrays that share all of their memory, so that it is counted once.
        origin: "leaf" (a parameter), "input", "output", or "packed" by a hook, which may have put it anywhere.
    """

    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    key: Any
    origin: str


def saved_arrays(node: NodeLike) -> list[SavedArray] | None:
    """Return what a node has saved, without unpacking it; None once released."""
    entries = node.saved_entries()
    if entries is None:
        return None
    found = []
    for entry in entries:
        if isinstance(entry, Packed):
            shape, dtype = entry.shape, entry.dtype
            found.append(SavedArray(shape, dtype, _size(shape) * dtype.itemsize, id(entry), "packed"))
        elif entry.tensor is not None and entry.tensor._value_metadata is None:
            data = entry.tensor._data
            origin = "leaf" if entry.accumulator is not None else "input" if entry.output_nr is None else "output"
            nbytes = getattr(data, "nbytes", 0)
            key = (id(memory_owner(data)), nbytes) if has_memory(data) else id(data)
            found.append(SavedArray(data.shape, data.dtype, nbytes, key, origin))
    return found


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def hooks_of(node: NodeLike) -> dict[str, int]:
    """Return how many hooks of each kind a node has; kinds without any are left out."""
    meta = node.meta
    found: dict[str, int] = {}
    if meta is None and node.next_nodes:
        # Most nodes: no leaf, and without a NodeMeta.
        return found
    if meta is not None:
        found["tensor hook"] = sum(len(hooks) for _, hooks in meta.tensor_pre_hooks)
        found["pre-hook"] = 0 if meta.pre_hooks is None else len(meta.pre_hooks)
        found["post-hook"] = 0 if meta.post_hooks is None else len(meta.post_hooks)
        found["retained gradient"] = len(meta.retains_grad_hooks)
    leaf = leaf_of(node)
    if leaf is not None and leaf._meta is not None:
        hooks, after = leaf._meta.hooks, leaf._meta.post_accumulate_hooks
        found["tensor hook"] = 0 if hooks is None else len(hooks)
        found["post-accumulate hook"] = 0 if after is None else len(after)
    return {kind: count for kind, count in found.items() if count}


def leaf_of(node: NodeLike) -> Any:
    """Return the leaf whose gradient a node accumulates; None for any other node."""
    variable = getattr(node, "variable", None) if node.sequence_nr == HIGHEST_NUMBER else None
    return variable if isinstance(variable, TensorBase) else None


def is_async(node: NodeLike) -> bool:
    """Tell whether the body of a node or one of its hooks is an `async def`, or something saved has to be awaited."""
    return bool(awaits_of(node))


def awaits_of(node: NodeLike) -> list[str]:
    """Return what the run of a node may wait for: its rule, hooks, saved tensors; empty where it never waits."""
    found = ["its rule, an async def"] if node.is_async else []
    if node.meta is None and node.next_nodes:
        # Most nodes: no leaf, and without a NodeMeta.
        return found
    waiting = sum(is_kind(inspect.iscoroutinefunction, hook) for hook in _functions_of_hooks(node))
    if waiting:
        found.append(number_text(waiting, "hook") + (", an async def" if waiting == 1 else ", each an async def"))
    if node.meta is not None and node.waits_for_saved():
        found.append("saved tensors that have to be awaited")
    return found


def _functions_of_hooks(node: NodeLike) -> list[Any]:
    meta, leaf = node.meta, leaf_of(node)
    lists: list[Any] = []
    if meta is not None:
        lists += [meta.pre_hooks, meta.post_hooks, *(hooks for _, hooks in meta.tensor_pre_hooks)]
    if leaf is not None and leaf._meta is not None:
        lists += [leaf._meta.hooks, leaf._meta.post_accumulate_hooks]
    return [hook for hooks in lists if hooks is not None for hook in hooks.snapshot()]


def shape_text(node: NodeLike) -> str:
    """Return the shapes and dtypes of the gradients that a node takes, `(2, 3) float64`, or the types of values."""
    texts = []
    for metadata in node.input_metadata:
        if metadata is None:
            texts.append("any gradient")
        elif metadata.was_default_constructed:
            texts.append("no gradient")
        elif isinstance(metadata, ValueMetadata):
            texts.append(metadata.type.name)
        else:
            texts.append(f"{metadata.shape} {metadata.dtype}")
    return ", ".join(texts) if len(texts) <= 3 else f"{', '.join(texts[:3])}, … {len(texts) - 3} more"


def byte_text(count: float) -> str:
    """Return a number of bytes with its unit, in powers of 1000: `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def time_text(nanoseconds: float) -> str:
    """Return a duration with its unit: `1.2 ms`."""
    for unit in ("ns", "µs", "ms"):
        if nanoseconds < 999.5:
            return f"{nanoseconds:.0f} {unit}" if unit == "ns" or nanoseconds >= 99.5 else f"{nanoseconds:.1f} {unit}"
        nanoseconds /= 1000
    return f"{nanoseconds:.2f} s"


def number_text(number: int, what: str, many: str = "") -> str:
    """Return a number with a noun, such as `1,204 nodes`; `many` is an irregular plural."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def joined_counts(counts: Iterable[tuple[str, int]], most: int = 8) -> str:
    """Return `AddBackward × 12, MultiplyBackward × 3`; after `most` kinds how many are left."""
    items = list(counts)
    texts = [f"{name} × {count:,}" for name, count in items[:most]]
    left = items[most:]
    return ", ".join(texts) + (f", … {number_text(len(left), 'other kind')}" if left else "")


def text_of_node(node: NodeLike) -> str:
    """Return what `print` shows of a node: what it takes, what it saves, and where its gradients flow."""
    saved = saved_arrays(node)
    kept = "released" if saved is None else f"saves {byte_text(sum(array.nbytes for array in saved))}" if saved else ""
    hooks = [number_text(count, kind) for kind, count in hooks_of(node).items()]
    said = ", ".join(filter(None, [f"takes {shape_text(node)} on {node.device}", kept, *hooks]))
    flows = [identify(target) for target in node.next_nodes if target is not None]
    shown = ", ".join(flows[:4]) + (f", … {len(flows) - 4} more" if len(flows) > 4 else "")
    return f"{identify(node)}: {said}" + (f"; flows to {shown}" if flows else "")


def html_of_node(node: NodeLike) -> str:
    """Return what a notebook shows of a node: itself, and the nodes that its gradients flow to."""
    saved = saved_arrays(node)
    pairs = [("takes", shape_text(node))]
    if saved is None:
        pairs.append(("saves", "released by a backward"))
    else:
        pairs += [("saves", f"{each.origin} {each.shape} {each.dtype}, {byte_text(each.nbytes)}") for each in saved[:8]]
        if len(saved) > 8:
            pairs.append(("saves", f"… {len(saved) - 8} more"))
    pairs += [("hooks", number_text(count, kind)) for kind, count in hooks_of(node).items()]
    pairs += [("awaits", what) for what in awaits_of(node)]
    rows = [
        (edge, "nothing", "", "", "")
        if target is None
        else (edge, target.name, number_of(target), shape_text(target), input_nr)
        for edge, (target, input_nr) in enumerate(zip(node.next_nodes[:20], node.input_nrs[:20], strict=True))
    ]
    edges = table(("edge", "flows to", "", "which takes", "input"), rows, numbers=(0, 4)) if rows else ""
    more = facts([("edges", f"… {len(node.next_nodes) - 20} more")]) if len(node.next_nodes) > 20 else ""
    return panel(node.name, facts(pairs) + edges + more, place_of(node))
