"""The backward inside of a backward: through what was recomputed, to its inputs and to all leaves that it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from ..context import BLOCKING, CURRENT_GRAPH_TASK
from ..engine.engine import Engine
from ..graph.grad_journal import change_grad, continue_sum, drop_changes, merge_changes, sum_so_far
from ..graph.leaf import gradient_edge
from ..graph.node import LEAF_ORDER, Edge
from .driving import Steps, blocked

if TYPE_CHECKING:
    from ..graph.grad_journal import Change
    from ..graph.node import Node

__all__ = ["Nested", "detached"]


def detached(tensors: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    """Return leaves on the memory of tensors, which require grad where that is wanted."""
    aliases = [tensor.detach() for tensor in tensors]
    return [alias.requires_grad_() if wants else alias for alias, wants in zip(aliases, wanted, strict=True)]


@final
class Nested:
    """A backward through a recomputation.

    A leaf that a chain of checkpointed calls shares gets one gradient from each. Where a call uses it more than once,
    its gradients are added, one by one, to the sum that the calls after it have left, and not first to one another: so
    the sum has the bits that it has without checkpoints, provided that the leaf had no gradient before.

    Args:
        edges: where it starts.
        grads: with which gradients: tensors.
        begin: the order of what was made right before the recomputation.
        inputs: the leaves that stand for the arguments.
        arguments: the arguments themselves; None where they are nobody's but the caller's.
    """

    __slots__ = ("_arguments", "_edges", "_grads", "_inputs", "_leads_out", "_uses")

    def __init__(
        self,
        edges: Sequence[Edge],
        grads: Sequence[Any],
        begin: int,
        inputs: Sequence[Any],
        arguments: Sequence[Any] | None = None,
    ) -> None:
        self._edges = edges
        self._grads = grads
        self._inputs = inputs
        self._arguments = arguments
        #: How many edges lead to each leaf.
        self._uses: dict[Node, int] = {}
        #: Whether an edge leads to a node that is older than the recomputation, and so belongs to another graph, which
        #: is not to be released.
        self._leads_out = False
        self._look(begin)

    def _look(self, begin: int) -> None:
        uses = self._uses
        stack = [edge.node for edge in self._edges]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node is None:
                continue
            if node.order > begin:
                self._leads_out = True
                continue
            for following in node.next_nodes:
                if following is None:
                    continue
                if following.order == LEAF_ORDER:
                    uses[following] = uses.get(following, 0) + 1
                elif following not in seen:
                    seen.add(following)
                    stack.append(following)

    def run(self) -> Steps:
        """Run it; return the gradients of the arguments."""
        outer = CURRENT_GRAPH_TASK.get()
        if outer is not None and not outer.is_running:
            outer = None
        sums, direct = ({}, {}) if outer is None else self._sums()
        nested = Engine.execute(
            self._edges,
            [grad._data for grad in self._grads],
            keep_graph=self._leads_out,
            create_graph=False,
            accumulate=True,
            sums=sums,
        )
        self._edges = self._grads = ()
        yield blocked(nested) if BLOCKING.get() else nested
        found = [tensor.grad for tensor in self._inputs]
        if outer is None:
            return found
        # The backward around would keep them to its end, to take them back where it fails.
        drop_changes(outer.changes, [tensor for tensor in self._inputs if tensor.grad is not None])
        self._give(direct, found, outer.changes)
        return found

    def _give(self, direct: dict[int, Any], found: list[Any], changes: list[Change]) -> None:
        """Give arguments that are leaves their gradients now, in place of handing those on."""
        given: list[Change] = []
        try:
            for index, (argument, before) in direct.items():
                if found[index] is None:
                    continue
                total = found[index]._data
                found[index] = self._inputs[index].grad = None
                if before is None:
                    change_grad(argument, total, given, sole=True, listed=True)
                else:
                    continue_sum(argument, total, before, given)
        finally:
            merge_changes(given, changes)

    def _sums(self) -> tuple[dict[Node, tuple[Any, bool]], dict[int, Any]]:
        """Return the sums that go on, and the arguments that are leaves and get their gradients at once."""
        sums: dict[Node, tuple[Any, bool]] = {}
        direct: dict[int, Any] = {}
        own = {id(tensor): index for index, tensor in enumerate(self._inputs)}
        for leaf, uses in self._uses.items():
            variable: Any = leaf.variable  # type: ignore[attr-defined]
            index = own.get(id(variable))
            if index is None:
                total = sum_so_far(variable) if uses > 1 else None
                if total is not None:
                    sums[leaf] = total, True
                continue
            if self._arguments is None:
                continue
            argument = _leaf_of(self._arguments[index])
            if argument is None:
                continue
            total, meta = sum_so_far(argument), argument._meta
            if total is not None:
                sums[leaf], direct[index] = (total, False), (argument, total)
            elif uses > 1 and meta.grad is None and meta.hooks is None and meta.post_accumulate_hooks is None:
                direct[index] = argument, None
        return sums, direct


def _leaf_of(argument: Any) -> Any:
    """Return the leaf that an argument is, or is an alias of where hooks have kept it; None where it is no leaf."""
    edge = None if argument._grad_fn is not None or argument._view is not None else gradient_edge(argument)
    return None if edge is None else edge.node.variable  # type: ignore[union-attr]
