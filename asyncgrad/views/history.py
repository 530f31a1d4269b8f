"""The effect of a write in place on history: the check of the write, the base's new node, and that of a view."""

from __future__ import annotations

from ..context import enable_grad
from ..errors import InPlaceError
from ..graph.creation import announce
from ..graph.leaf import gradient_edge
from ..graph.node import Node
from ..graph.tensor_base import CreationMeta, TensorBase, ViewMeta
from .geometry import Place, ViewReplay, overlaps, place_of
from .nodes import AsStridedNode, CopySlices

__all__ = ["check_write", "rebase", "rebase_view", "regenerate"]

#: A local name, since the lookup in the class would cost as much as a call.
_DEFAULT = CreationMeta.DEFAULT

_MADE = {
    CreationMeta.NO_GRAD: "under no_grad",
    CreationMeta.MULTI_OUTPUT: "by a function of several outputs",
    CreationMeta.IN_CUSTOM_FUNCTION: "in the forward of an ag.Function",
    CreationMeta.IN_TRANSFORM: "as an argument of a transform such as ag.vjp",
}

_ADVICE = {
    CreationMeta.NO_GRAD: (
        "Whether that is to be recorded cannot be told: make the view outside of no_grad and write outside of it, "
        "or do both inside"
    ),
    CreationMeta.MULTI_OUTPUT: (
        "The gradients of all outputs are computed together, and cannot be those of a changed one: compute a new "
        "tensor, view = view + x, or write into view.copy()"
    ),
    CreationMeta.IN_CUSTOM_FUNCTION: (
        "The function's backward stands for the view, and knows of no write: return view.copy() from forward, or "
        "write into a copy"
    ),
    CreationMeta.IN_TRANSFORM: (
        "The derivative is with respect to the value that it had: in the function that is differentiated, write into "
        "a copy, x = x.copy()"
    ),
}


def write_error(view: TensorBase, meta: ViewMeta, happened: str) -> InPlaceError:
    """Return the error for a view whose history cannot follow a write, for how the view was made."""
    node = view._grad_fn
    what = f"a view of shape {view._data.shape}"
    if node is not None and meta.creation is not CreationMeta.NO_GRAD:
        what += f", output {view._output_nr} of {node.name},"
    return InPlaceError(f"{what} was made {_MADE[meta.creation]}, and {happened}. {_ADVICE[meta.creation]}")


def check_write(out: TensorBase) -> None:
    """Raise if a write into `out` cannot be recorded.

    The grad_fn of a view may be out of date afterwards.

    Raises:
        InPlaceError: it is a view made where its history cannot be made anew, a view of a leaf that requires grad, or
            such a leaf itself; or elements of it share memory.
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
        if overlaps(array):
            raise InPlaceError(
                f"{where} is being written into in place, and elements of {'it' if array is out._data else 'its base'} "
                "share memory: one write would change several. Write into a copy, x = x.copy()"
            )
    if meta is not None:
        meta.is_distinct = True


def regenerate(view: TensorBase, meta: ViewMeta) -> None:
    """Make the grad_fn of a view anew, after its memory was written into.

    Raises:
        InPlaceError: the view was made where its history cannot be made anew.

    Source: grad_fn of a view in PyTorch.
    """
    base = meta.base
    if view._grad_fn is None and not base._requires_grad():
        return
    if meta.creation is not _DEFAULT:
        raise write_error(view, meta, "its base, or another view of that, has been written into in place since")
    edge = gradient_edge(base)
    if edge is None:
        # The base was taken out of its graph, and so the view has no history either.
        view._grad_fn, view._output_nr, meta.version = None, 0, view._shared_version().value
        return
    place = place_of(view, meta)
    if isinstance(place, ViewReplay):
        with enable_grad():
            again = place.func(base)
        view._rebase(again._grad_fn, again._output_nr)
    else:
        node = AsStridedNode(edge, view, place)
        view._rebase(node, 0)
        announce(node)


def rebase(out: TensorBase, node: Node, output_nr: int = 0, slot: int = 0, *, is_whole: bool = True) -> None:
    """Give a tensor that was written into its new place in the graph: output `output_nr` of `node`.

    For a view it is its base that gets one, a CopySlices around the node, and the view's own is made anew when it is
    asked for.

    Args:
        out: the tensor, whose memory has its new value already.
        node: of the write.
        output_nr: which output of that.
        slot: which edge of the node leads to the tensor as it was before.
        is_whole: whether the node has saved all that it will, so that a CopySlices around it can be announced.
    """
    meta = out._view_meta()
    out._bump_version()
    if meta is None:
        out._rebase(node, output_nr)
    else:
        rebase_view(meta.base, place_of(out, meta), node, slot, is_whole=is_whole)


def rebase_view(base: TensorBase, place: Place, node: Node, slot: int = 0, *, is_whole: bool = True) -> None:
    """Give a base a CopySlices around the node of a write into a part of it."""
    before = base._grad_fn
    edge = gradient_edge(base) if before is None else (before, base._output_nr)
    slices = CopySlices(edge, base, place, node, slot)
    if base._meta is None:
        base._grad_fn, base._output_nr = slices, 0
    else:
        base._rebase(slices, 0)
    if is_whole:
        announce(slices)
