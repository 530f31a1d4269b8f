"""The nested backward of a reentrant checkpoint: through a recomputation, to its inputs and to all leaves it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ...core.engine.engine import Engine
from ...core.graph.grad_journal import Change, change_grad, continue_sum, drop_changes, merge_changes, sum_so_far
from ...core.graph.leaf import gradient_edge
from ...core.graph.node import LEAF_ORDER, Edge, Node
from ...core.graph.value_metadata import held
from ...core.settings.context import BLOCKING, CURRENT_GRAPH_TASK
from .steps import Steps, run_nested

__all__ = ["NestedBackward", "detach_as_leaves"]


def detach_as_leaves(tensors: Sequence[Any], requires: Sequence[bool]) -> list[Any]:
    """Return leaves that share the memory of tensors, and that require grad where `requires` says so."""
    leaves = [tensor.detach() for tensor in tensors]
    return [leaf.requires_grad_() if wanted else leaf for leaf, wanted in zip(leaves, requires, strict=True)]


@final
class NestedBackward:
    """A backward through a recomputation.

    A leaf that several checkpointed calls share gets a gradient from each. Where one call uses it several times, the
    gradients of these uses are added one by one to the sum left by the calls after it, and not first to each other. So
    the sum is bitwise that of a run without checkpoints, if the leaf had no gradient before.

    Args:
        edges: the edges it starts at.
        grads: a gradient for each of them: tensors.
        begin: `next_order()` as it was right before the recomputation: its nodes have smaller orders.
        inputs: the leaves that stand for the arguments of the computation.
        arguments: the arguments themselves; None if no leaf of the user's can be among them.
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
        #: Whether an edge leads to a node older than the recomputation. That is part of another graph, whose saved
        #: tensors must be kept.
        self._leads_out = False
        self._traverse(begin)

    def _traverse(self, begin: int) -> None:
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
        """Run it; return the gradients of the arguments, None where a leaf has been given its gradient already."""
        outer = CURRENT_GRAPH_TASK.get()
        if outer is not None and not outer.is_running:
            outer = None
        sums, direct = ({}, {}) if outer is None else self._sums_to_continue()
        nested = Engine.execute(
            self._edges,
            [held(edge, grad) for edge, grad in zip(self._edges, self._grads, strict=True)],
            keep_graph=self._leads_out,
            create_graph=False,
            accumulate=True,
            sums=sums,
        )
        self._edges = self._grads = ()
        yield run_nested(nested) if BLOCKING.get() else nested
        grads = [tensor.grad for tensor in self._inputs]
        if outer is None:
            return grads
        # The outer backward keeps its changes to its end, to roll them back if it fails. Nobody else knows these
        # leaves, and their gradients must not live that long.
        drop_changes(outer.changes, [tensor for tensor in self._inputs if tensor.grad is not None])
        self._accumulate_directly(direct, grads, outer.changes)
        return grads

    def _accumulate_directly(self, direct: dict[int, Any], grads: list[Any], changes: list[Change]) -> None:
        """Give arguments that are leaves their gradients, and put None for them into `grads`."""
        made: list[Change] = []
        try:
            for index, (argument, before) in direct.items():
                if grads[index] is None:
                    continue
                total = grads[index]._data
                grads[index] = self._inputs[index].grad = None
                if before is None:
                    change_grad(argument, total, made, sole=True, listed=True)
                else:
                    continue_sum(argument, total, before, made)
        finally:
            merge_changes(made, changes)

    def _sums_to_continue(self) -> tuple[dict[Node, tuple[Any, bool]], dict[int, Any]]:
        """Return the sums that the nested backward starts from, and the arguments that get their gradients directly.

        The sums are by node of the leaf, as `Engine.execute` takes them. The arguments are by index, each with the sum
        it had.
        """
        sums: dict[Node, tuple[Any, bool]] = {}
        direct: dict[int, Any] = {}
        index_of = {id(tensor): index for index, tensor in enumerate(self._inputs)}
        for node, uses in self._uses.items():
            leaf: Any = node
            variable: Any = leaf.variable
            if variable._value_metadata is not None:
                # Its gradients are merged, and not added one by one.
                continue
            index = index_of.get(id(variable))
            if index is None:
                total = sum_so_far(variable) if uses > 1 else None
                if total is not None:
                    sums[node] = total, True
                continue
            if self._arguments is None:
                continue
            argument = _leaf_of(self._arguments[index])
            if argument is None:
                continue
            total, meta = sum_so_far(argument), argument._meta
            if total is not None:
                sums[node], direct[index] = (total, False), (argument, total)
            elif uses > 1 and meta.grad is None and meta.hooks is None and meta.post_accumulate_hooks is None:
                direct[index] = argument, None
        return sums, direct


def _leaf_of(argument: Any) -> Any:
    """Return the leaf that an argument is, or that it is an alias of after saved-tensor hooks; None if it is none."""
    edge = None if argument._grad_fn is not None or argument._view is not None else gradient_edge(argument)
    leaf: Any = None if edge is None else edge.node
    return None if leaf is None else leaf.variable
