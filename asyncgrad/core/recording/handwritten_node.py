"""HandwrittenNode: the base of plain nodes that belong to no primitive."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from ..graph.body_signals import OffloadSignal
from ..graph.cost import LARGE, estimated_seconds, large_arrays_met, size_of
from ..graph.lowering import BodySource
from ..graph.node import Node, TraceableNode

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


__all__ = ["HandwrittenNode"]


class HandwrittenNode(TraceableNode):
    """Abstract: a plain node whose body is written by hand; its class stands in the place of a plan."""

    __slots__ = ()

    is_users = False
    #: The engine runs a plain node by its plan: here, the class itself.
    plan: ClassVar[type[HandwrittenNode]]
    #: Whether all gradients are certain to have the shape and dtype of the incoming one.
    keeps_spec = False
    #: Whether a run is asked whether it may be heavy before this process has met large arrays.
    checks_always: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.plan = cls

    @staticmethod
    def run(node: HandwrittenNode, grad: Any, release: bool = False) -> tuple[Any, ...]:
        """Return what `apply_generic` does, and release saved tensors where `release` says so.

        Raises:
            OffloadSignal: it may take long.
        """
        if (large_arrays_met[0] or node.checks_always) and node.may_be_heavy(node, grad):
            raise OffloadSignal
        grads = node.apply_generic(grad)
        if release:
            node.release_variables()
        return grads

    @staticmethod
    def run_here(node: HandwrittenNode, grad: Any) -> tuple[Any, ...]:
        """Return what `apply_generic` does, however long that takes."""
        return node.apply_generic(grad)

    @staticmethod
    def may_be_heavy(node: HandwrittenNode, grad: Any) -> bool:
        """Tell whether a run reads large arrays."""
        elements = sum(map(size_of, grad or ())) if node.shape is None else prod(node.shape)
        return elements >= LARGE

    def jacobian(self, inputs: Sequence[Any]) -> Generator[None, None, list[Any] | None]:
        """Return the Jacobian of the node's only output for each of some leaves, the rows along axis 0; None for most.

        A node that returns more has a way of its own to compute it, with the bits of one backward for each row. It
        yields where others may go on, and returns None in place of a leaf that the output does not depend on.
        """
        return None
        yield

    def reads_large(self) -> bool:
        """Tell whether a run reads large arrays where all gradients are defined."""
        return sum(prod(metadata.shape) for metadata in self.input_metadata if metadata is not None) >= LARGE

    def cost_key(self, grads: Sequence[Any]) -> tuple[object, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        return super().cost_key(grads)[0], estimated_seconds([sum(map(size_of, grads))], 1, False)

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradient of each array, given that of the result, or a list of those of several results."""
        raise NotImplementedError(f"{type(self).__name__} must implement apply_generic(grad)")

    def apply_wanted(self, grad: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return what `apply_generic` does, with None for each gradient that is not wanted."""
        found = self.apply_generic(grad)
        return tuple([one if is_wanted else None for one, is_wanted in zip(found, wanted, strict=True)])

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource | None:
        """Return a call of the body."""
        if self.meta is not None:
            return None
        given = "$g" if self.shape is not None else "$grads"
        releases = type(self).release_variables is not Node.release_variables
        return BodySource(
            f"$node.apply_generic({given})" if wanted is None else f"$node.apply_wanted({given}, $wanted)",
            release=("$node.release_variables()",) if releases else (),
            constants={} if wanted is None else {"wanted": tuple(wanted)},
            may_be_heavy=self.reads_large(),
        )
