"""Operators that write their result into their first operand: NumPy computes there, and no second array is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import GRAD_MODE
from ..graph.leaf import gradient_edge
from ..graph.node import THREADS, Edge, Node, next_order
from ..graph.saved import versions_of
from ..graph.tracked import Tracked
from ..views.history import check_write, rebase
from ..views.writing import before_write, changes_with, old_value, write
from .primitive import Primitive, PrimitiveNode, mixed_devices

__all__ = ["in_place", "written_by"]


def written_by(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return the operator that has a function make a new array, and writes that into the tensor on the left."""

    def operator(out: Any, other: Any) -> Any:
        return write(out, function(*before_write(out, (out, other))))

    return operator


def in_place(primitive: Primitive) -> Callable[[Any, Any], Any]:
    """Return the operator that writes what a ufunc of two arrays gives into the tensor on the left."""
    ufunc: Any = primitive.function
    carefully = written_by(primitive.call)
    first, second = primitive.tensor_names

    def operator(out: Any, other: Any) -> Any:
        data = out._data
        if GRAD_MODE.get() is not True or data.dtype.kind not in "fc" or not isinstance(other, _KNOWN):
            return carefully(out, other)
        beside = other if isinstance(other, Tracked) else None
        if not (out._requires_grad() or (beside is not None and beside._requires_grad())):
            return carefully(out, other)
        check_write(out)
        view, edge, value = out._view, None, other
        # A leaf that requires grad has been refused.
        key = 5 if out._requires_grad() else 1
        if beside is not None:
            if beside._device is not out._device:
                raise mixed_devices(primitive.name, out, beside)
            edge, value = gradient_edge(beside), beside._data
            key |= 2 if edge is None else 10
        if data.dtype.kind == "c":
            key |= 16
        plan = primitive.plan(key)
        kept: list[Any] = []
        for owner, attribute, is_tensor in plan.slots:
            argument: Any = out if owner == first else other if owner == second else None
            if argument is None:
                return carefully(out, other)
            if attribute is not None:
                argument = getattr(argument, attribute, ())
            elif is_tensor and changes_with(argument, out):
                argument = old_value(argument)
            kept.append(argument)
        ufunc(data, value, out=data)
        # What a view was before is not asked for: the node of its base leads past that.
        made = _node(plan, None if view is not None else out._grad_fn, edge, out)
        made.saved, made.versions = tuple(kept), None
        if plan.tensor_slots:
            made.versions = versions_of(kept[index] for index in plan.tensor_slots)
        rebase(out, made)
        return out

    return operator


#: Operands that NumPy takes without asking them first.
_KNOWN = (Tracked, float, int, np.ndarray, np.generic, complex)


def _node(plan: Any, before: Node | None, beside: Edge | None, out: Tracked) -> PrimitiveNode:
    """Return the node of a write into `out`, whose grad_fn was `before`; its other operand has the edge `beside`."""
    node = object.__new__(PrimitiveNode)
    second, input_nr = (None, 0) if beside is None else beside
    node.connect((before, second), (out._output_nr if before is not None else 0, input_nr))
    node.order = next_order()
    if len(THREADS) > 1:
        node._note_thread()
    data = out._data
    node.plan = plan
    node.shape, node.dtype, node.device = data.shape, data.dtype, out._device
    node.special = None
    return node
