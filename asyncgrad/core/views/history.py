"""The history of an in-place write: the check of the write, and the new grad_fn of the base and of its views."""

from __future__ import annotations

from ...errors import InPlaceError
from ..arrays.tensor_base import CreationMeta, TensorBase, ViewMeta
from ..graph.creation import announce
from ..graph.leaf import gradient_edge
from ..graph.node import Node
from ..settings.context import enable_grad
from .geometry import ViewLocation, ViewReplay, has_internal_overlap, locate_view
from .nodes import AsStridedNode, CopySlices

__all__ = ["base_of", "check_write", "rebase", "rebase_view", "regenerate"]

#: A name of its own, since the lookup in the class would cost as much as a call.
_DEFAULT = CreationMeta.DEFAULT

_HOW_MADE = {
    CreationMeta.NO_GRAD: "under no_grad",
    CreationMeta.MULTI_OUTPUT: "by a function of several outputs",
    CreationMeta.IN_CUSTOM_FUNCTION: "in the forward of an ag.Function",
    CreationMeta.IN_TRANSFORM: "as an argument of a transform such as ag.vjp",
}

_ADVICE = {
    CreationMeta.NO_GRAD: (
        "It is unclear whether the write is to be recorded: make the view and write into it outside of no_grad, or do "
        "both inside"
    ),
    CreationMeta.MULTI_OUTPUT: (
        "One node computes the gradients of all outputs together, and cannot account for a write into one of them: "
        "compute a new tensor, view = view + x, or write into view.copy()"
    ),
    CreationMeta.IN_CUSTOM_FUNCTION: (
        "The function's backward computes the gradient of the view, and cannot account for the write: return "
        "view.copy() from forward, or write into a copy"
    ),
    CreationMeta.IN_TRANSFORM: (
        "The derivative is taken at the value from before the write: in the function that is differentiated, write "
        "into a copy, x = x.copy()"
    ),
}


def write_error(view: TensorBase, meta: ViewMeta, happened: str) -> InPlaceError:
    """Return the error for a write that the history of a view cannot follow because of how the view was made."""
    node = view._grad_fn
    what = f"a view of shape {view._data.shape}"
    if node is not None and meta.creation is not CreationMeta.NO_GRAD:
        what += f", output {view._output_nr} of {node.name},"
    return InPlaceError(f"{what} was made {_HOW_MADE[meta.creation]}, and {happened}. {_ADVICE[meta.creation]}")


def check_write(out: TensorBase) -> None:
    """Raise if a write into `out` cannot be recorded.

    This does not bring the grad_fn of a view up to date.

    Raises:
        InPlaceError: `out` is a leaf that requires grad, a view of one, or a view whose history cannot be regenerated;
            or some of its elements share memory.
    """
    meta = out._view_meta()
    # The most frequent case, a repeated write in a loop, comes first.
    if meta is not None and meta.is_distinct and meta.creation is _DEFAULT and meta.base._grad_fn is not None:
        return
    where = f"a tensor of shape {out._data.shape}"
    whole = out if meta is None else meta.base
    if meta is not None:
        if meta.creation is not _DEFAULT:
            raise write_error(out, meta, "is being written into in place")
        base = meta.base
        if base._grad_fn is None and out._memory_requires_grad():
            raise InPlaceError(
                f"{where} is a view of a leaf that requires grad, of shape {base._data.shape}, and is being written "
                "into in place: the gradient of the leaf belongs to its old value. Write into a copy, x = x.copy(), "
                "or inside `with ag.no_grad():` if no gradient is to flow"
            )
    if out._history() is None and out._memory_requires_grad():
        raise InPlaceError(
            f"{where} is a leaf that requires grad, and is being written into in place: its gradient belongs to its "
            "old value. Compute a new tensor (x = x + y, np.where(mask, new, old)), write into a copy, x = x.copy(), "
            "or inside `with ag.no_grad():` if no gradient is to flow"
        )
    for array in {id(out._data): out._data, id(whole._data): whole._data}.values():
        if has_internal_overlap(array):
            raise InPlaceError(
                f"{where} is being written into in place, and elements of {'it' if array is out._data else 'its base'} "
                "share memory: one write would change several. Write into a copy, x = x.copy()"
            )
    if meta is not None:
        meta.is_distinct = True


def regenerate(view: TensorBase, meta: ViewMeta) -> None:
    """Regenerate the grad_fn of a view after a write into its memory.

    Raises:
        InPlaceError: the way in which the view was made does not allow it.

    Source: grad_fn of a view in PyTorch.
    """
    base = meta.base
    if view._grad_fn is None and not base._requires_grad():
        return
    if meta.creation is not _DEFAULT:
        raise write_error(view, meta, "its base, or another view of that, has been written into in place since")
    edge = gradient_edge(base)
    if edge is None:
        # The base was detached from its graph, so the view has no history either.
        view._grad_fn, view._output_nr, meta.version = None, 0, view._shared_version().value
        return
    location = locate_view(view, meta)
    if isinstance(location, ViewReplay):
        with enable_grad():
            again = location.func(base)
        view._rebase(again._grad_fn, again._output_nr)
    else:
        node = AsStridedNode(edge, view, location)
        view._rebase(node, 0)
        announce(node)


def rebase(out: TensorBase, node: Node, output_nr: int = 0, slot: int = 0, *, is_complete: bool = True) -> None:
    """Set the history of a tensor after a write: it becomes output `output_nr` of `node`.

    If the tensor is a view, its base gets a CopySlices around the node instead, and the view's own grad_fn is
    regenerated when it is next needed.

    Args:
        out: the tensor, whose memory already has the new value.
        node: the node of the write.
        output_nr: the index of the output of that node.
        slot: the index of the node's edge that leads to the tensor from before the write.
        is_complete: whether the node has saved all that it will save, so that a CopySlices around it can be announced.
    """
    meta = out._view_meta()
    out._bump_version()
    if meta is None:
        out._rebase(node, output_nr)
    else:
        rebase_view(meta.base, locate_view(out, meta), node, slot, is_complete=is_complete)


def rebase_view(
    base: TensorBase, location: ViewLocation, node: Node, slot: int = 0, *, is_complete: bool = True
) -> None:
    """Set the grad_fn of a base to a CopySlices around the node of a write into a part of the base."""
    before = base._grad_fn
    edge = gradient_edge(base) if before is None else (before, base._output_nr)
    slices = CopySlices(edge, base, location, node, slot)
    if base._meta is None:
        base._grad_fn, base._output_nr = slices, 0
    else:
        base._rebase(slices, 0)
    if is_complete:
        announce(slices)


def base_of(tensor: TensorBase) -> TensorBase:
    """Return the base of a view; any other tensor as it is."""
    meta = tensor._view_meta()
    return tensor if meta is None else meta.base
