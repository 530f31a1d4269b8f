"""The nodes of in-place writes: CopyBackwards, CopySlices, and the AsStridedNode of a regenerated view."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, final

import numpy as np

from ...errors import InvalidGradientError
from ..arrays import values
from ..arrays.tensor_base import TensorBase
from ..graph.metadata import InputMetadata, fit
from ..graph.naming import identify
from ..graph.node import THREADS, Edge, Node, NodeMeta, next_order
from ..graph.packed import Packed
from ..graph.saved import Saved, released_error
from ..recording.handwritten_node import HandwrittenNode
from ..settings.context import CURRENT_GRAPH_TASK
from .geometry import Slice, ViewLocation
from .strided import part_at, put_at, replace_at

__all__ = ["AsStridedNode", "CopyBackwards", "CopySlices", "copy_of"]

_new = object.__new__


@final
class AsStridedNode(HandwrittenNode):
    """The backward of a view whose history was regenerated: zeros like the base, with the gradient in the view.

    Args:
        edge: the edge of the base.
        view: the view.
        location: the location of the view in the base.
    """

    __slots__ = ("_location",)

    def __init__(self, edge: Edge, view: TensorBase, location: Slice) -> None:
        # Inlined for speed: in a chain of writes into a view, each write makes such a node.
        node, input_nr = edge
        assert node is not None
        node.has_parent = True
        self.next_nodes, self.input_nrs = (node,), (input_nr,)
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        data = view._data
        self.shape, self.dtype, self.device = data.shape, data.dtype, view._device
        self.meta = None
        self._location = location

    @property
    def name(self) -> str:
        """The name of the node."""
        return "AsStridedBackward"

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of the base, if the running backward needs it."""
        return self.apply_wanted(grads[0], [self.task_should_compute_output(0)])

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradient of the base, if it is wanted."""
        return self.apply_generic(g) if wanted[0] else (None,)

    def apply_generic(self, g: Any) -> tuple[Any, ...]:
        """Return zeros like the base, with the gradient added in the view."""
        return (None if g is None else put_at(g, self._location),)


@final
class CopyBackwards(HandwrittenNode):
    """The backward of a copy into a tensor: the source gets the gradient of what was copied, the old value the rest.

    The first edge leads to the tensor before the copy, the second to the source. As after any node, the gradient of
    the source is then fitted to the shape, dtype and device of the source. So this node is also the backward of a
    conversion to another dtype or device, whose first edge leads nowhere.

    Args:
        edge: the edge of the tensor before the copy.
        source: the edge of the source.
        out: the tensor.
        where: a mask of the copied elements; None if all were copied.

    Source: CopyBackwards of PyTorch.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x, y = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([3.0, 4.0])
        >>> np.copyto(y, x)
        >>> y.grad_fn.name
        'CopyBackwards'
    """

    __slots__ = ("_source_device", "_where")

    #: The device of the source if it is not that of the copy, else None.
    _source_device: Any

    def __init__(self, edge: Edge | None, source: Edge | None, out: TensorBase, where: Any = None) -> None:
        self._connect((edge, source))
        self.shape, self.dtype, self.device = out._data.shape, out._data.dtype, out._device
        self.meta = self._source_device = None
        self._where = where

    def set_source_device(self, device: Any) -> None:
        """Set the device of the source, which is not that of the copy.

        The node then has a NodeMeta, since the next node may have to run in another thread.
        """
        self._source_device = device
        self.make_meta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the old value and of the source, as far as the running backward needs them."""
        old, new = self.apply_wanted(grads[0], [self.task_should_compute_output(edge) for edge in (0, 1)])
        return old, new if new is None or self._source_device is None else values.move(
            new, self.device, self._source_device
        )

    def apply_generic(self, g: Any) -> tuple[Any, ...]:
        """Return the gradients of the old value and of the source, as far as they require grad."""
        if self._where is None and self.next_nodes[0] is None:
            # A new tensor has no old value.
            return None, g
        return self.apply_wanted(g, [node is not None for node in self.next_nodes])

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradients of the old value and of the source, as far as they are wanted."""
        if g is None:
            return None, None
        where = self._where
        if where is None:
            return np.zeros_like(g) if wanted[0] else None, g if wanted[1] else None
        return np.where(where, 0, g) if wanted[0] else None, np.where(where, g, 0) if wanted[1] else None


def copy_of(source: Node, input_nr: int, data: Any, device: Any) -> CopyBackwards:
    """Return the node of a new tensor that is a copy of another tensor, in another dtype or on another device.

    Args:
        source: the node of the tensor that was copied.
        input_nr: the index of the input of that node.
        data: the array of the copy.
        device: the device of the copy.
    """
    # Inlined for speed: making the node takes as long as the rest of a cast.
    node = _new(CopyBackwards)
    source.has_parent = True
    node.next_nodes, node.input_nrs = (None, source), (0, input_nr)
    node.order = next_order()
    if len(THREADS) > 1:
        node._note_thread()
    node.shape, node.dtype, node.device = data.shape, data.dtype, device
    node.meta = node._source_device = node._where = None
    return node


@final
class CopySlices(HandwrittenNode):
    """The backward of a write into a view: the grad_fn of the view's base after the write.

    It takes the gradient of the base. The node of the write turns the view's part of this gradient into the gradient of
    the view's old value; the rest passes unchanged. The first edge leads to the base before the write. The other edges
    are those of the write's node, without the edge of the view.

    Args:
        edge: the edge of the base before the write; None if the base did not require grad.
        base: the base.
        location: the location of the view in the base.
        fn: the node of the write.
        slot: the index of the view's edge among those of `fn`.

    Source: CopySlices of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * 1
        >>> y[:1] *= 3
        >>> y.grad_fn.name
        'CopySlices'
    """

    __slots__ = ("_fn", "_location", "_slot", "is_async", "is_memoized")

    def __init__(
        self, edge: tuple[Node | None, int] | None, base: TensorBase, location: ViewLocation, fn: Node, slot: int = 0
    ) -> None:
        node, input_nr = (None, 0) if edge is None else edge
        nodes, input_nrs = fn.next_nodes, fn.input_nrs
        self.connect((node, *nodes[:slot], *nodes[slot + 1 :]), (input_nr, *input_nrs[:slot], *input_nrs[slot + 1 :]))
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        data = base._data
        self.shape, self.dtype, self.device = data.shape, data.dtype, base._device
        self.meta = None if _runs_by_plan(fn) else NodeMeta()
        self.is_async: bool = fn.is_async
        self.is_memoized: bool = fn.is_memoized
        self._fn: Any = fn
        self._slot = slot
        self._location = location

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the base and of what was written, or an awaitable of them."""
        (g,) = grads
        graph_task = CURRENT_GRAPH_TASK.get()
        wanted = None
        if graph_task is not None and graph_task.limits is not None:
            wanted = [self.task_should_compute_output(edge) for edge in range(self.num_outputs)]
            self._mark_view_needed(graph_task.limits, wanted[0])
        fn = self._require_fn()
        if g is None or _runs_by_plan(fn):
            return self._run(g, wanted)
        part = part_at(g, self._location)
        results = fn.apply((part,))
        return (
            self._await_results(g, part, results)
            if inspect.isawaitable(results)
            else self._replace_view_gradient(g, part, results)
        )

    async def _await_results(self, g: Any, part: Any, results: Awaitable[Any]) -> tuple[Any, ...]:
        return self._replace_view_gradient(g, part, await results)

    def apply_generic(self, g: Any) -> tuple[Any, ...]:
        """Return the gradients of the base and of what was written, as far as they require grad."""
        return self._run(g, None)

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradients of the base and of what was written, as far as they are wanted."""
        return self._run(g, wanted)

    def _run(self, g: Any, wanted: Sequence[bool] | None) -> tuple[Any, ...]:
        fn = self._require_fn()
        if g is None:
            return (None,) * len(self.next_nodes)
        part = part_at(g, self._location)
        if wanted is not None:
            results = fn.apply_wanted(part, wanted)
        elif isinstance(part, TensorBase):
            results = fn.apply_generic(part)
        else:
            results = fn.plan.run_here(fn, part)
        if self.next_nodes[0] is None or (wanted is not None and not wanted[0]):
            return (None, *results[1:])
        return self._replace_view_gradient(g, part, results)

    def _replace_view_gradient(self, g: Any, part: Any, results: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of all edges, given the results of the write's node."""
        slot = self._slot
        first, others = results[slot], (*results[:slot], *results[slot + 1 :])
        if first is None:
            return (None, *others)
        if first is part:
            return (g, *others)
        view = self._location.view
        if first.shape != view.shape or first.dtype is not view.dtype:
            first = self._fit_to_view(first)
        if isinstance(g, TensorBase):
            return (replace_at(g, first, self._location), *others)
        return (self._location.replace_part(g, values.raw(first)), *others)

    def _fit_to_view(self, grad: Any) -> Any:
        view = self._location.view
        fitted = fit(grad, InputMetadata(view.shape, view.dtype, self.device))
        if isinstance(fitted, str):
            raise InvalidGradientError(
                f"{identify(self._fn)} returned {fitted} for the view that it wrote into, "
                f"which has shape {view.shape} and dtype {view.dtype}"
            )
        return fitted

    def is_around(self, fn: Node) -> bool:
        """Tell whether `fn` is the node of the write."""
        return self._fn is fn

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the saved entries of the write's node; None once released."""
        return None if self._fn is None else self._fn.saved_entries()

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Replace a saved entry of the write's node by what a hook has packed."""
        self._fn.make_meta()
        self._fn.keep_packed(index, packed)

    def _mark_view_needed(self, exec_info: Any, wants_base: bool) -> None:
        """Mark the node of the view before the write as needed if the base's gradient is wanted.

        A backward with given inputs does not reach that node, since this node's edges bypass it. The write's node asks
        whether it is needed, and would otherwise skip the gradient of the view's old value.

        Source: the fix-up of exec_info in CopySlices of PyTorch.
        """
        view = None if self._fn is None else self._fn.next_nodes[self._slot]
        if view is not None and wants_base:
            exec_info[view].needed = True

    def _require_fn(self) -> Any:
        fn = self._fn
        if fn is None:
            raise released_error(self)
        return fn

    def release_variables(self) -> None:
        """Release the write's node, so that another backward raises, whether that node saved anything or not."""
        self._fn = None


def _runs_by_plan(fn: Node) -> bool:
    """Tell whether a plan can run this node: a Function has no plan, and one with packed tensors needs the engine."""
    return fn.meta is None and hasattr(fn, "plan")
