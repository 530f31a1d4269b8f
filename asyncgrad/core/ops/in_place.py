"""Recorded writes of NumPy into a tensor's array: operators such as +=, and writes at an index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..arrays.device_arrays import explain_refusal, name_shapes
from ..arrays.interception import add_entry
from ..arrays.one_device import mixed_devices
from ..arrays.tensor_base import TensorBase
from ..arrays.values import is_device_array, refuse_masked, refuse_sparse
from ..graph.creation import announce
from ..graph.leaf import gradient_edge
from ..graph.node import THREADS, Edge, Node, next_order
from ..graph.saved import versions_of
from ..graph.saved_hooks import prepare_write
from ..graph.wrappers import register_wrapper
from ..recording.primitive import Primitive
from ..recording.primitive_node import PrimitiveNode, next_class
from ..settings.callers import WRITING
from ..settings.context import GRAD_MODE
from ..views.history import check_write, rebase
from ..views.writing import AFTER_WRITING, changes_with, old_value, run_writer, write_by, write_unrecorded

__all__ = ["in_place", "write_at_index", "written_by"]

WRITING.add(__name__)

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

T = TypeVar("T", bound=TensorBase)


def written_by(function: Callable[..., Any], bare: Callable[[Any, Any], Any]) -> Callable[[T, Any], T]:
    """Return the operator that writes the result of a function, a new array, into the tensor on the left.

    Args:
        function: a function of two arrays or tensors that records itself.
        bare: Python's operator, which makes no new array, for writes that are not recorded.
    """

    def writer(target: Any, other: Any) -> None:
        result = bare(target, other)
        if result is target:
            return
        # CuPy has no @= and makes a new array.
        if not is_device_array(target) or np.shape(result) != target.shape:
            raise TypeError(f"an array of shape {target.shape} cannot be written into by {type(other).__name__}")
        np.copyto(target, result)

    def operator(out: Any, other: Any) -> Any:
        if not isinstance(other, TensorBase):
            refuse_masked(other)
        elif other._device is not out._device:
            raise mixed_devices(bare.__name__, out, other)
        try:
            return out if write_unrecorded(writer, out, other) else write_by(out, function, (out, other))
        except Exception as error:
            refuse_sparse(bare.__name__, (other,), error)
            explain_refusal(bare.__name__, (out, other), error)
            name_shapes(bare.__name__, (out, other), error)
            raise

    return operator


def _note_failure(name: str, out: Any, other: Any, error: Exception) -> None:
    """Count a write that NumPy made before it raised, or add to its error which shapes do not fit."""
    if isinstance(error, AFTER_WRITING):
        out._bump_version()
    else:
        explain_refusal(name, (out, other), error)
        name_shapes(name, (out, other), error)


def _entry_of(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a list of what is to be called in the place of a function: see core/arrays/interception.py."""
    found = [function]
    add_entry(function, partial(found.__setitem__, 0))
    return found


def in_place(primitive: Primitive, bare: Callable[[Any, Any], Any]) -> Callable[[T, Any], T]:
    """Return the operator that writes the result of a ufunc of two arrays into the tensor on the left.

    Args:
        primitive: the primitive of the ufunc.
        bare: Python's operator.
    """
    ufunc = _entry_of(primitive.function)
    write_generic = written_by(primitive.call, bare)
    first, second = primitive.tensor_names

    def operator(out: Any, other: Any) -> Any:
        data = out._data
        if _grad_mode() is not True or data.dtype.kind not in "fc" or not isinstance(other, _KNOWN):
            return write_generic(out, other)
        beside = other if isinstance(other, TensorBase) else None
        if beside is None and isinstance(other, np.ndarray):
            refuse_masked(other)
        requires = out._memory_requires_grad()
        if not (requires or (beside is not None and beside._requires_grad())):
            return write_generic(out, other)
        check_write(out)
        view, edge, value, counter = out._view, None, other, out._counter
        if view is not None or out._meta is not None or (counter is not None and counter.readers is not None):
            # Called for those alone whose memory somebody else may still read.
            prepare_write(out)
            data = out._data
        # A leaf that requires grad has been refused.
        key = 10 if requires else 2
        if beside is not None:
            if beside._device is not out._device:
                raise mixed_devices(primitive.name, out, beside)
            edge, value = gradient_edge(beside), beside._data
            key |= 4 if edge is None else 20
            if value.dtype is not data.dtype:
                key |= 64
        plan = primitive.plan(key | _BITS.get(data.dtype.char, 0))
        kept: list[Any] = []
        for owner, attribute, is_tensor, _ in plan.slots:
            argument: Any = out if owner == first else other if owner == second else None
            if argument is None:
                return write_generic(out, other)
            if attribute is not None:
                argument = getattr(argument, attribute, ())
            elif is_tensor and changes_with(argument, out):
                argument = old_value(argument)
            kept.append(argument)
        try:
            ufunc[0](data, value, out=data)
        except Exception as error:
            _note_failure(bare.__name__, out, other, error)
            raise
        # The former history of a view does not matter: the node of its base leads past that.
        made = _node(plan, None if view is not None else out._grad_fn, edge, out)
        made.saved = tuple(kept)
        made.versions = versions_of([kept[index] for index in plan.tensor_slots]) if plan.tensor_slots else None
        rebase(out, made)
        return out

    return operator


#: By the type of the result, the bit that tells of it in the key of a plan.
_BITS = {"F": 32, "D": 32, "G": 32, "e": 128}

#: Operands that NumPy takes without asking them first.
_KNOWN = (TensorBase, float, int, np.ndarray, np.generic, complex)


def write_at_index(primitive: Primitive, writer: Callable[..., Any], out: TensorBase, index: Any, value: Any) -> None:
    """Have `writer(array, index, value)` write into the array of `out`, recorded as a call of a primitive.

    Args:
        primitive: a function of `out`, an index and a value, whose result is what `out` becomes; its formulas need
            nothing but the index.
        writer: a function that does the same in place.
        out: the tensor.
        index: an index that nobody changes later.
        value: an array or a tensor.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    check_write(out)
    edge, key = None, 10 if out._memory_requires_grad() else 2
    if isinstance(value, TensorBase):
        if value._device is not out._device:
            raise mixed_devices(primitive.name, out, value)
        edge = gradient_edge(value)
        key |= 4 if edge is None else 20
    plan = primitive.plan(key | _BITS.get(out._data.dtype.char, 0))
    run_writer(writer, out, index, value)
    node = _node(plan, None if out._view is not None else out._grad_fn, edge, out)
    node.saved, node.versions = (index,) * len(plan.slots), None
    if out._view is None:
        announce(node)
    rebase(out, node)


def _node(plan: Any, before: Node | None, beside: Edge | None, out: TensorBase) -> PrimitiveNode:
    """Return the node of a write into `out`, given its former grad_fn and the edge of the other operand."""
    node: PrimitiveNode = next_class()()
    second, input_nr = (None, 0) if beside is None else beside
    node.connect((before, second), (out._output_nr if before is not None else 0, input_nr))
    node.order = next_order()
    if len(THREADS) > 1:
        node._note_thread()
    data = out._data
    node.plan = plan
    node.shape, node.dtype, node.device = data.shape, data.dtype, out._device
    node.meta = None
    return node
