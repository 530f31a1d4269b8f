"""In-place writes of a result or an array into a tensor, and their history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import setitem
from typing import Any

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, InPlaceError
from ..arrays.interception import add_entry_names, entered, interceptors
from ..arrays.tensor_base import TensorBase
from ..arrays.values import array_interface, as_array, as_like, is_device_array, own_copy, raw
from ..graph.creation import announce, call_unseen, is_watched, show
from ..graph.leaf import gradient_edge
from ..graph.node import Edge, Node
from ..graph.saved import versions_of
from ..graph.saved_hooks import prepare_write
from ..graph.wrappers import register_wrapper
from ..settings.callers import WRITING
from ..settings.context import GRAD_MODE
from .geometry import locate_part
from .history import base_of, check_write, rebase, rebase_view
from .nodes import CopyBackwards

__all__ = [
    "AFTER_WRITING",
    "before_write",
    "cast_for",
    "changes_with",
    "copy_into",
    "copy_into_part",
    "is_recorded",
    "old_value",
    "write_unrecorded",
    "run_writer",
    "write",
    "write_by",
    "write_result",
]

WRITING.add(__name__)

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

_copyto, _setitem = np.copyto, setitem
add_entry_names(globals(), "_copyto", "_setitem")

#: What NumPy raises after it has written, for example for an overflow, if `np.errstate` or a warning filter says so.
AFTER_WRITING = (FloatingPointError, Warning)


def is_recorded(out: Any, *sources: Any) -> bool:
    """Tell whether a write into `out` from `sources` is to be recorded.

    Raises:
        InPlaceError: `out` is an array, which has no history, and a source requires grad.
    """
    mode = _grad_mode()
    if not mode and mode is not False:
        mode.used(out, *sources)
    if not isinstance(out, TensorBase):
        for source in sources:
            if isinstance(source, TensorBase) and source._requires_grad() and mode:
                made_by = "a leaf" if source._grad_fn is None else f"made by {source._grad_fn.name}"
                raise InPlaceError(
                    f"writing into an ndarray from a tensor of shape {source._data.shape} that requires grad "
                    f"({made_by}) would lose its history: write into a tensor, out = ag.asarray(array), or from "
                    "t.detach() if no gradient is to flow"
                )
        return False
    # Now, since the caller writes next.
    prepare_write(out)
    if not mode or out._data.dtype.kind not in "fc":
        return False
    return out._memory_requires_grad() or any(
        isinstance(source, TensorBase) and source._requires_grad() for source in sources
    )


def write_unrecorded(writer: Callable[..., Any], out: Any, *others: Any) -> bool:
    """Write without recording, unless the write must be recorded; tell whether it was done.

    `writer` is called with the array of `out` and those of the others.

    Raises:
        InPlaceError: `out` is an array, which has no history, and one of the others requires grad.
    """
    if is_recorded(out, *others):
        return False
    if not isinstance(out, TensorBase):
        writer(out, *map(raw, others))
        return True
    run_writer(writer, out, *others)
    out._bump_version()
    return True


def run_writer(writer: Callable[..., Any], out: TensorBase, *others: Any) -> None:
    """Call `writer` with the array of `out` and those of the others.

    If NumPy raises after it has written, the write is counted.
    """
    try:
        if interceptors:
            entered(writer)(out._data, *map(raw, others))
        else:
            writer(out._data, *map(raw, others))
    except AFTER_WRITING:
        out._bump_version()
        raise


def write_by(out: Any, function: Callable[..., Any], inputs: Sequence[Any], ufunc: Any = None, **options: Any) -> Any:
    """Write the result of `function` into `out`, in place, with NumPy's casting rule; return `out`.

    Args:
        out: the target, which may be among the inputs.
        function: computes the result, and records itself.
        inputs: the arguments of the function.
        ufunc: the ufunc that computes the same, and writes into the array of `out` without a temporary array.
        **options: further arguments of the function.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    is_tensor = isinstance(out, TensorBase)
    if (
        ufunc is not None
        and is_tensor
        and write_unrecorded(lambda target, *arrays: ufunc(*arrays, out=target), out, *inputs)
    ):
        return out
    inputs = before_write(out, inputs)
    if is_tensor and out._view is not None and is_watched():
        return _write(out, *call_unseen(function, *inputs, **options))
    return _write(out, function(*inputs, **options))


def write(out: Any, result: Any) -> Any:
    """Write a result into `out`, in place, with NumPy's casting rule; return `out`.

    Only the caller may refer to the result, since its node may become that of `out`.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    return _write(out, result)


def cast_for(out: Any, result: Any, casting: Any) -> Any:
    """Return a result as it can be written into `out`, where a rule of casting other than "same_kind" holds.

    Raises:
        ArgumentTypeError: the rule forbids the cast.
    """
    given, wanted = raw(result).dtype, raw(out).dtype
    if given == wanted:
        return result
    if not np.can_cast(given, wanted, casting):
        raise ArgumentTypeError(
            f"a result of dtype {given} may not be cast to an out of dtype {wanted} by {casting!r}: pass "
            "casting='unsafe'"
        )
    return result.astype(wanted)


def write_result(out: Any, result: Any, casting: str = "same_kind") -> Any:
    """Write a result into `out`, which must have its shape, as that of NumPy's functions that are no ufuncs must.

    Args:
        out: the array or tensor.
        result: what is written.
        casting: NumPy's rule of casting; "unsafe" for reductions, whose results NumPy casts to any dtype.

    Raises:
        ArgumentError: the shapes differ.
        ArgumentTypeError: the rule of casting forbids the dtype of `out`.
        InPlaceError: the write cannot be recorded.
    """
    bare, target = raw(result), raw(out)
    if np.shape(bare) != np.shape(target):
        raise ArgumentError(
            f"out must have the shape of the result, {np.shape(bare)}, not {np.shape(target)}: pass "
            f"out=np.empty({np.shape(bare)})"
        )
    return write(out, result if casting == "same_kind" or is_device_array(target) else cast_for(out, result, casting))


def _write(out: Any, result: Any, unseen: Sequence[Node] = ()) -> Any:
    """Do what `write` does, for a result whose nodes `unseen` have not been shown to creation hooks."""
    shape, whole = np.shape(raw(result)), np.shape(raw(out))
    if len(shape) > len(whole):
        # np.copyto would drop axes of length 1.
        raise ArgumentError(
            f"a result of shape {shape} does not fit into an array of shape {whole}, nor broadcasts to that"
        )
    if write_unrecorded(np.copyto, out, result):
        show(unseen)
        return out
    node = _node_of_write(out, result)
    if isinstance(result, TensorBase):
        _keep_old_values(result._grad_fn, out)
    if out._view is not None and node not in unseen and is_watched():
        # A creation hook has seen the node as part of the graph, so it cannot move into a CopySlices.
        node = None
    show(one for one in unseen if one is not node)
    if node is None:
        return copy_into(out, result)
    _copyto(out._data, result._data)
    rebase(out, node, result._output_nr)
    return out


def _node_of_write(out: TensorBase, result: Any) -> Node | None:
    """Return the node of a result if it can become that of `out`; None if a copy must be recorded."""
    check_write(out)
    node: Node | None = result._grad_fn if isinstance(result, TensorBase) else None
    if (
        node is None
        or node.shape is None
        or result._data.shape != out._data.shape
        or result._data.dtype is not out._data.dtype
    ):
        return None
    if out._view is not None:
        before = out._history()
        if node.next_nodes[0] is not before or (before is not None and node.input_nrs[0] != out._output_nr):
            return None
    return node


def _keep_old_values(node: Any, out: TensorBase) -> None:
    """Replace the saved tensors of a node that a write into `out` changes by copies."""
    saved = getattr(node, "saved", None)
    if not saved:
        return
    slots = node.plan.tensor_slots
    changing = [index for index in slots if changes_with(saved[index], out)]
    if not changing:
        return
    kept = list(saved)
    for index in changing:
        kept[index] = old_value(saved[index])
    node.saved, node.versions = tuple(kept), versions_of(kept[index] for index in slots)


def changes_with(saved: Any, out: TensorBase) -> bool:
    """Tell whether a write into `out` changes a saved value, which must then be copied before the write."""
    if not isinstance(saved, TensorBase) or _is_leaf_requiring_grad(saved):
        return False
    return saved is out or (saved._counter is not None and saved._counter is out._counter)


def before_write(out: Any, inputs: Sequence[Any], *, always: bool = False) -> Sequence[Any]:
    """Return the inputs of an operation whose result is written into `out`; those that the write changes are copied.

    An observer, such as a pack hook, sees what the operation saves before the write, which must not change it then. So
    inputs are copied if there is an observer, or with `always`; in both cases only if an input requires grad.
    """
    mode = _grad_mode()
    if not isinstance(out, TensorBase) or (not always and (mode is True or not mode)):
        return inputs
    if not any(isinstance(value, TensorBase) and value._requires_grad() for value in inputs):
        return inputs
    return [old_value(value) if changes_with(value, out) else value for value in inputs]


def _is_leaf_requiring_grad(tensor: TensorBase) -> bool:
    """Tell whether a tensor is a leaf that requires grad, which a copy cannot replace."""
    return tensor._meta is not None and tensor._meta.requires_grad


def old_value(tensor: TensorBase) -> TensorBase:
    """Return a copy of a tensor in memory of its own, with the tensor's present value and history."""
    return type(tensor)(own_copy(tensor._data), tensor._history(), tensor._output_nr, tensor._device)


def copy_into(out: Any, source: Any, where: Any = True, copy: Callable[[Any, Any], Any] | None = None) -> Any:
    """Copy any array or tensor into `out`, in place; return `out`.

    Args:
        out: the target.
        source: the array or tensor to copy.
        where: a mask of the elements to copy.
        copy: writes into its first argument, an array, from the second; np.copyto if it is None.

    Raises:
        InPlaceError: the write cannot be recorded.
    """

    def masked_copy(target: Any, source: Any) -> None:
        if where is True:
            np.copyto(target, source)
        else:
            np.copyto(target, source, where=raw(where))

    copy = copy or masked_copy
    if write_unrecorded(copy, out, source):
        return out
    check_write(out)
    mask = None if where is True else as_like(as_array(raw(where)), out._data).astype(bool)
    run_writer(copy, out, source)
    node = CopyBackwards(gradient_edge(out), _edge_of(source, out._data.ndim), out, mask)
    if out._view is None:
        announce(node)
    rebase(out, node)
    return out


def copy_into_part(out: TensorBase, index: Any, step: Any, source: Any) -> None:
    """Copy any array or tensor into the part of `out` that a basic index selects, and record the copy.

    Args:
        out: the tensor.
        index: a basic index that gives an array, not a scalar, if need be by an Ellipsis at its end.
        step: the view function that makes the part, with its arguments.
        source: the array or tensor, which broadcasts to the part.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    check_write(out)
    array = out._data[index]
    meta = out._view_meta()
    base = out if meta is None else meta.base
    is_there = (
        isinstance(source, TensorBase) and source._counter is out._counter and _is_same_memory(source._data, array)
    )
    if is_there and base_of(source) is base and source._requires_grad():
        # `t[index] += x` ends with this assignment, after the view has been written into. A tensor on the same memory
        # that is not such a view, from t.detach() or made under no_grad, has another history.
        out._bump_version()
        return
    location = locate_part(out, meta, array, step)
    edge, source_edge = gradient_edge(base), _edge_of(source, array.ndim)
    try:
        _setitem(array, ..., source._data if isinstance(source, TensorBase) else source)
    except AFTER_WRITING:
        out._bump_version()
        raise
    out._bump_version()
    # The old value of the part gets no gradient, so it needs no node.
    rebase_view(base, location, CopyBackwards(edge, source_edge, type(out)(array, None, 0, out._device)))


def _is_same_memory(array: Any, other: Any) -> bool:
    """Tell whether two arrays are the same elements in the same memory."""
    first, second = array_interface(array), array_interface(other)
    return all(first[key] == second[key] for key in ("data", "shape", "typestr")) and array.strides == other.strides


def _edge_of(source: Any, ndim: int) -> Edge | None:
    """Return the edge of the source of a copy into an array of `ndim` axes.

    As in NumPy, leading axes of length 1 beyond these are dropped.
    """
    if not isinstance(source, TensorBase):
        return None
    if source._data.ndim > ndim and source._requires_grad():
        whole: Any = source
        whole = np.reshape(whole, source._data.shape[source._data.ndim - ndim :])
        return gradient_edge(whole)
    return gradient_edge(source)
