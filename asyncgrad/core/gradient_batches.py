"""Batches of gradients: one backward for each row of a batch, through one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from ..errors import GradientTypeError, GraphError, InvalidGradientError
from .arrays import values
from .arrays.tensor_base import TensorBase
from .engine.engine import Engine
from .engine.joint_commit import JointCommit
from .engine.until_success import UNTIL_SUCCESS
from .function.row_rule import stack_rows
from .graph.leaf import gradient_edge
from .rows import rows_at_once, run_numbered
from .settings.arguments import must_be
from .settings.context import set_grad_enabled

if TYPE_CHECKING:
    from .graph.node import Edge, Node

__all__ = ["execute_batched"]


async def execute_batched(
    roots: Sequence[Any],
    given: Sequence[Any],
    start: Callable[[list[Any]], tuple[list[Edge], list[Any]]],
    find_inputs: Callable[[], Sequence[Edge]],
    *,
    keep_graph: bool | Literal["until_success"],
    create_graph: bool,
    concurrency: int | None,
) -> tuple[int, list[Any]]:
    """Run one backward for each row of a batch; return the number of rows and the stacked gradients of each input.

    Rows that wait run together. Only once all have succeeded the graph is released, so that it is unchanged if one of
    them fails. An empty batch runs nothing and releases nothing. It suspends as the backward passes do, and between two
    of them when the time budget is spent.

    Args:
        roots: the tensors that the backward passes start from.
        given: for each root, a batch of starting gradients: an array or tensor of shape `(rows, *root.shape)`.
        start: checks one row, a gradient for each root; returns the edges and gradients that `Engine.execute` takes.
        find_inputs: returns the edges whose gradients are captured. It is called after `start`, since the edges of the
            roots keep alive the node of a leaf that no other graph holds.
        keep_graph: whether the graph is kept after the last row too, as for `Engine.execute`.
        create_graph: record the backward passes, the selection of the rows and the stacking.
        concurrency: how many rows run at once, as for `run_rows`.

    Returns:
        The number of rows; and for each input an array or tensor of shape `(rows, ...)`, with zeros for a row without
        a gradient, or None if no row has one.

    Raises:
        GraphError: a root is a GradientEdge.
        InvalidGradientError: a batch is missing, does not fit its root, or has not as many rows as the others.
        GradientTypeError: a batch is no array.
    """
    batches = _check_batches(roots, given)
    size = len(batches[0])
    if size == 0:
        edges, _ = start([np.zeros_like(values.raw(batch), shape=batch.shape[1:]) for batch in batches])
        return 0, _capture_empty(edges, find_inputs())
    nodes = [None if (edge := gradient_edge(root)) is None else edge.node for root in roots]
    limit = await rows_at_once(size, nodes, concurrency)
    batch = _Batch(batches, start, find_inputs, create_graph, size if keep_graph == UNTIL_SUCCESS else 0)
    if limit == 1:
        rows = await batch.commit.after(_one_by_one(batch, size, keep_graph))
    else:
        rows = await batch.commit.after(run_numbered(batch.run, size, limit))
        if keep_graph is not True:
            await Engine.release(batch.edges, batch.inputs, until_success=keep_graph == UNTIL_SUCCESS)
    with set_grad_enabled(create_graph):
        return size, [stack_rows(column) for column in zip(*rows, strict=True)]


async def _one_by_one(batch: _Batch, size: int, keep_graph: bool | Literal["until_success"]) -> list[list[Any]]:
    return [await batch.run(index, keep_graph if index == size - 1 else True) for index in range(size)]


@final
class _Batch:
    """The backward passes of a batch.

    Args:
        batches: the gradients that they start from.
        start: as for `execute_batched`.
        find_inputs: as for `execute_batched`.
        create_graph: whether they are recorded.
        most_answers: as for `Engine.execute`.
    """

    __slots__ = ("_batches", "_create_graph", "_find_inputs", "_most_answers", "_start", "commit", "edges", "inputs")

    def __init__(
        self,
        batches: Sequence[Any],
        start: Callable[[list[Any]], tuple[list[Edge], list[Any]]],
        find_inputs: Callable[[], Sequence[Edge]],
        create_graph: bool,
        most_answers: int,
    ) -> None:
        self._batches, self._start, self._find_inputs = batches, start, find_inputs
        self._create_graph, self._most_answers = create_graph, most_answers
        self.commit = JointCommit()
        #: The edges that the rows start from, once one has started. They keep the nodes of leaves alive.
        self.edges: Sequence[Edge] = ()
        self.inputs: Sequence[Edge] = ()

    async def run(self, index: int, keep_graph: bool | Literal["until_success"] = True) -> list[Any]:
        """Run the backward of a row; return the captured gradients."""
        with set_grad_enabled(self._create_graph):
            edges, grads = self._start([batch[index] for batch in self._batches])
        self.edges = edges
        self.inputs = self.inputs or self._find_inputs()
        run = Engine.execute(
            edges,
            grads,
            keep_graph=keep_graph,
            create_graph=self._create_graph,
            accumulate=False,
            inputs=self.inputs,
            most_answers=self._most_answers,
            commit=self.commit,
        )
        # As in `backward`.
        del grads
        return await run


def _check_batches(roots: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Return the batch of each root; raise unless all have the same length."""
    listed = list(given)
    if len(listed) != len(roots):
        raise InvalidGradientError(
            f"is_grads_batched=True takes a batch of gradients for each of {values.counted(len(roots), 'output')}, "
            f"and grad_outputs has {len(listed)}: pass for each an array of shape (rows, *output.shape)"
        )
    for index, (root, batch) in enumerate(zip(roots, listed, strict=True)):
        _check_batch(index, root, batch)
        if len(batch) != len(listed[0]):
            raise InvalidGradientError(
                f"the batches of is_grads_batched=True must be of one length: that of output 0 has "
                f"{values.counted(len(listed[0]), 'row')}, and that of output {index} has {len(batch)}"
            )
    return listed


def _check_batch(index: int, root: Any, batch: Any) -> None:
    if not isinstance(root, TensorBase):
        raise GraphError(
            f"output {index} is edge {root.output_nr} of {root.node.name}, and is_grads_batched=True takes tensors "
            "alone: pass the tensor itself, or call ag.grad once for each row"
        )
    if root._value_metadata is not None:
        raise GraphError(
            f"output {index} is a value of type {root._value_metadata.type.name}, and is_grads_batched=True takes "
            "tensors alone: call ag.grad once for each row, with retain_graph=True"
        )
    wanted = f"pass an array of shape (rows{''.join(f', {length}' for length in root._data.shape)})"
    if batch is None:
        raise InvalidGradientError(f"is_grads_batched=True needs a batch of gradients for output {index}: {wanted}")
    if not isinstance(batch, (TensorBase, np.ndarray, np.generic, int, float, complex)):
        raise GradientTypeError(
            must_be(f"the batch of gradients of output {index}", "a tensor or an array", batch, wanted)
        )
    shape = np.shape(values.raw(batch))
    if not shape or shape[1:] != root._data.shape:
        raise InvalidGradientError(
            f"the batch of gradients of output {index} has shape {shape}; its first dimension is the batch, and the "
            f"rest must be the shape of the output, {root._data.shape}: {wanted}"
        )


def _capture_empty(roots: Sequence[Edge], inputs: Sequence[Edge]) -> list[Any]:
    """Return the gradients of an empty batch for each input; None for an input that the roots do not lead to."""
    arrived = set(roots)
    nodes: list[Node] = [node for node, _ in roots if node is not None]
    seen = set(nodes)
    while nodes:
        for edge in nodes.pop().next_edges:
            arrived.add(edge)
            if edge.node is not None and edge.node not in seen:
                seen.add(edge.node)
                nodes.append(edge.node)
    return [_empty_rows(edge) if edge in arrived else None for edge in inputs]


def _empty_rows(edge: Edge) -> Any:
    assert edge.node is not None
    metadata = edge.node.input_metadata[edge.input_nr]
    if metadata is None:
        raise GraphError(
            f"{edge.node.name} does not say what shape its gradients have, so an empty batch gives none: pass one row"
        )
    return values.zeros((0, *metadata.shape), metadata.dtype, metadata.device)
