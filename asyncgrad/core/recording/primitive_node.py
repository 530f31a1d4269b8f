"""PrimitiveNode: the node of one recorded call of a primitive."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from ..arrays.tensor_base import TensorBase
from ..graph.cost import size_of
from ..graph.dealloc import DEALLOCATION_INTERVAL, defer_deallocation
from ..graph.node import LEAF_ORDER, TraceableNode
from ..graph.packed import Packed, unpack_all
from ..graph.saved import (
    Saved,
    check_version,
    constants_of,
    detached_error,
    output_alias,
    released_error,
    with_versions,
)
from ..settings.awaiting import finish
from ..settings.context import CURRENT_GRAPH_TASK
from .lowering import lower

if TYPE_CHECKING:
    from ..graph.lowering import BodySource, CompiledArgs
    from .plan import Plan

__all__ = ["PrimitiveNode", "next_class"]


class PrimitiveNode(TraceableNode):
    """Abstract: the backward of one recorded call of a primitive."""

    __slots__ = ("plan", "saved")

    is_users = False

    # The generated wrapper sets all slots itself: a constructor with arguments would cost a call.
    __init__ = object.__init__

    plan: Plan
    #: The values that the plan's formulas need, WithVersions where one had been written into; None once released.
    saved: tuple[Any, ...] | None

    @property
    def versions(self) -> tuple[int, ...] | None:
        """The versions of the saved tensors; None where none of them had been written into."""
        return getattr(self.saved, "versions", None)

    @versions.setter
    def versions(self, versions: tuple[int, ...] | None) -> None:
        if self.saved is not None:
            self.saved = with_versions(self.saved, versions, constants_of(self.saved))

    def connect_input(self, edge: int, input_nr: int) -> None:
        """Let an edge lead to another input of its node than the first."""
        self.input_nrs = (*self.input_nrs[:edge], input_nr, *self.input_nrs[edge + 1 :])

    @property
    def name(self) -> str:
        """The name of the primitive, as in MultiplyBackward."""
        return self.plan.primitive.node_name

    def computes_output(self, index: int) -> bool:
        """Tell whether the call was recorded with a gradient for that argument."""
        return self.plan.calls[index] is not None

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the primitive's tensor arguments that the backward needs, or an awaitable of them.

        It is an awaitable where something saved has to be waited for.
        """
        (grad,) = grads
        wanted = self._wanted()
        if grad is not None and (packed := self._packed(wanted)):
            unpacked = unpack_all(self, packed.values())
            if inspect.isawaitable(unpacked):
                return self._apply_later(grad, wanted, packed, unpacked)
            return self._apply_unpacked(grad, wanted, packed, unpacked)
        if wanted is not None:
            return self.apply_wanted(grad, wanted)
        return self.apply_generic(grad) if isinstance(grad, TensorBase) else self.plan.run_here(self, grad)

    unpacks_apart = True

    async def when_unpacked(self, grads: tuple[Any, ...]) -> Callable[[], Any]:
        """Unpack what the wanted formulas need; return a function that computes the gradients, in any thread."""
        (grad,) = grads
        wanted = self._wanted()
        packed = {} if grad is None else self._packed(wanted)
        unpacked = await finish(unpack_all(self, packed.values()))
        if not packed:
            return partial(self.apply, grads)
        return partial(self._apply_unpacked, grad, wanted, packed, unpacked)

    def _wanted(self) -> Sequence[bool] | None:
        """Tell of each argument whether the backward that runs needs its gradient; None where it needs all."""
        graph_task = CURRENT_GRAPH_TASK.get()
        if graph_task is None or graph_task.limits is None:
            return None
        return [self.task_should_compute_output(edge) for edge in range(self.num_outputs)]

    def needed_packed(self) -> Sequence[Packed]:
        """Return what hooks have packed of what the wanted formulas need, in unpack order."""
        return list(self._packed(self._wanted()).values())

    def _packed(self, wanted: Sequence[bool] | None) -> dict[int, Packed]:
        """Return what has to be unpacked for the wanted formulas, by its index in `saved`."""
        saved, calls = self.saved, self.plan.calls
        if saved is None or Packed not in map(type, saved):
            return {}
        needed = {
            index
            for edge, call in enumerate(calls)
            if call is not None and (wanted is None or wanted[edge])
            for index in call[1]
        }
        return {index: saved[index] for index in sorted(needed) if type(saved[index]) is Packed}

    async def _apply_later(
        self, g: Any, wanted: Sequence[bool] | None, packed: dict[int, Packed], unpacked: Awaitable[list[Any]]
    ) -> tuple[Any, ...]:
        return self._apply_unpacked(g, wanted, packed, await unpacked)

    def _apply_unpacked(
        self, g: Any, wanted: Sequence[bool] | None, packed: dict[int, Packed], unpacked: list[Any]
    ) -> tuple[Any, ...]:
        as_tensors = isinstance(g, TensorBase)
        values = self._values(as_tensors)
        for index, tensor in zip(packed, unpacked, strict=True):
            values[index] = tensor if as_tensors else tensor._data
        return self.plan.compute(g, values, wanted)

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradients of the wanted arguments only; the work for the others is not done."""
        if g is None:
            return self.plan.no_edges
        return self.plan.compute(g, self._values(isinstance(g, TensorBase)), wanted)

    def apply_generic(self, g: Any) -> tuple[Any, ...]:
        """Return the gradients where the generated function cannot: undefined gradients, tensors, released nodes."""
        if g is None:
            return self.plan.no_edges
        return self.plan.compute(g, self._values(isinstance(g, TensorBase)))

    def _values(self, as_tensors: bool) -> list[Any]:
        saved = self.saved
        if saved is None:
            raise released_error(self)
        self.check_versions()
        values = list(saved)
        for index in self.plan.tensor_slots:
            tensor = saved[index]
            if type(tensor) is Packed:
                continue
            if not as_tensors:
                values[index] = tensor._data
            elif self.plan.slots[index].owner == "out":
                values[index] = output_alias(tensor, self)
            elif self._has_lost_history(self.plan.slots[index].owner, tensor):
                raise detached_error(self, tensor)
        return values

    def _has_lost_history(self, owner: str, tensor: TensorBase) -> bool:
        """Tell whether a saved argument has left the graph since, so that using it would not be recorded."""
        names = self.plan.primitive.tensor_names
        producer = self.next_nodes[names.index(owner)] if owner in names else None
        return producer is not None and producer.order != LEAF_ORDER and tensor._grad_fn is not producer

    def cost_key(self, grads: Sequence[Any]) -> tuple[Any, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        saved = self.saved
        return self.plan.cost_key(grads[0], () if saved is None else saved)

    def note_slow(self) -> None:
        """Have runs on as many elements measured from now on."""
        super().note_slow()
        self.plan.note_slow(size_of(self))

    def note_cheap(self) -> None:
        """Stop measuring runs on as many elements."""
        self.plan.note_cheap(size_of(self))

    def check_versions(self) -> None:
        """Raise if a saved tensor was changed in place since."""
        saved = self.saved
        if saved is None:
            raise released_error(self)
        versions = self.versions
        for count, index in enumerate(self.plan.tensor_slots):
            if type(saved[index]) is not Packed:
                check_version(self, saved[index], 0 if versions is None else versions[count])
        if (constants := constants_of(saved)) is not None:
            constants.check(self)

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the tensors that the formulas need, or what hooks have packed; None once released."""
        if self.saved is None:
            return None
        return [self._entry(count, self.saved[index]) for count, index in enumerate(self.plan.tensor_slots)]

    def waits_for_saved(self) -> bool:
        """Tell whether something saved is known to need an event loop to be unpacked."""
        return any(type(value) is Packed and value.may_wait() for value in self.saved or ())

    def _entry(self, count: int, tensor: Any) -> Saved | Packed:
        if type(tensor) is Packed:
            return tensor
        owner = self.plan.slots[self.plan.tensor_slots[count]].owner
        version = 0 if self.versions is None else self.versions[count]
        if owner == "out":
            return Saved(tensor, version, 0)
        producer = self.next_nodes[self.plan.primitive.tensor_names.index(owner)]
        if producer is not None and producer.order == LEAF_ORDER:
            return Saved(tensor, version, accumulator=producer)
        return Saved(tensor, version, producer=producer)

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Keep what a hook has packed instead of the tensor."""
        place = self.plan.tensor_slots[index]
        assert self.saved is not None
        kept = (*self.saved[:place], packed, *self.saved[place + 1 :])
        self.saved = with_versions(kept, self.versions, constants_of(self.saved))

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect the plan, the output's shape and dtype, and what was saved."""
        args.collect_exactly(self.plan, self.input_nrs, self.shape, self.dtype, self.device)
        if self.meta is not None:
            super().compiled_args(args)
        else:
            args.collect_saved(self.saved)

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
        """Return what `apply(grads)` does, with `saved` in place of the tensors that the node has saved."""
        (g,) = grads
        if g is None:
            return self.plan.no_edges
        given = iter(saved)
        as_tensors = isinstance(g, TensorBase)
        values = [
            value if not slot.is_tensor else _as(next(given), as_tensors)
            for slot, value in zip(self.plan.slots, self.saved or (None,) * len(self.plan.slots), strict=True)
        ]
        return self.plan.compute(g, values)

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource | None:
        """Return the formulas of the plan as source, for a compiled backward."""
        return lower(self.plan, self, wanted)

    def release_variables(self) -> None:
        """Let go of saved tensors; a node that saved none can run again."""
        if self.plan.holds_tensors:
            self.saved = None


def _as(value: Any, as_tensor: bool) -> Any:
    return value if as_tensor or not isinstance(value, TensorBase) else value._data


@final
class CallNode(PrimitiveNode):
    """A recorded call of a primitive."""

    __slots__ = ()


@final
class BoundaryNode(PrimitiveNode):
    """A recorded call of a primitive at which the destruction of a deep graph pauses.

    One of DEALLOCATION_INTERVAL nodes is of this class. It differs from a CallNode in nothing else.
    """

    __slots__ = ()

    def __del__(self) -> None:
        defer_deallocation(self)


#: Returns the class of the next node of a call: of DEALLOCATION_INTERVAL in a row, one is a boundary.
next_class = itertools.cycle((*(CallNode,) * (DEALLOCATION_INTERVAL - 1), BoundaryNode)).__next__
