"""The graph of PyTorch that a node of asyncgrad has recorded, and the Functions whose rules differentiate it.

A rule runs `torch.autograd.grad`. Under `create_graph` it is a Function itself, which has PyTorch record that too, and
whose rule differentiates what was recorded, so that derivatives of any order come of one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, final

import numpy as np

from ..core.function.function import Function
from ..core.graph.saved import output_alias, released_error, version_of
from ..core.settings.context import CURRENT_GRAPH_TASK, CURRENT_NODE, is_grad_enabled
from ..core.tensor import Tensor
from ..errors import ChangedTensorError, GraphError, InPlaceError
from .torch_arrays import (
    array_of,
    check_host,
    gradient_array,
    memory_of,
    outside_inference_mode,
    plain,
    private_gradient,
    torch,
    torch_tensor,
)
from .torch_grads import GradWriter

__all__ = ["Call", "Forward", "TorchGraph", "watch_outputs"]


class Call(Protocol):
    """One call of a function of PyTorch."""

    #: What is called, for errors.
    name: str
    #: Whether operations are recorded where it was called.
    is_recorded: bool
    #: The parameters whose own `.grad` is written, and what writes them; None if those of the module are leaves.
    params: Sequence[Any]
    writer: GradWriter | None

    def name_of(self, at: int) -> str:
        """Return what errors call one of the tensors that it takes."""

    def run(self, inputs: Sequence[Any], records: bool) -> list[Any]:
        """Return the tensors that the function returns for these tensors."""


@final
class TorchGraph:
    """What PyTorch has recorded of one call.

    Args:
        name: of the function, for errors.
        inputs: the tensors that it took, leaves of the graph where they require grad.
        outputs: the tensors that it returned.
        params: further leaves, whose own `.grad` is written.
        writer: writes it.
        is_shared: whether other nodes have recorded parts of this graph too, so that no backward may free it.
    """

    __slots__ = ("inputs", "is_shared", "name", "outputs", "params", "watched", "writer")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        params: Sequence[Any],
        writer: GradWriter | None,
        is_shared: bool = False,
    ) -> None:
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self.params, self.writer, self.is_shared = params, writer, is_shared
        #: For each output, an alias of asyncgrad's tensor in the same memory, and its version when last looked at.
        self.watched: list[tuple[Tensor, int] | None] = []

    def gradients(
        self, grads: Sequence[Any], wanted: Sequence[bool], params: Sequence[Any], *, create_graph: bool, retain: bool
    ) -> tuple[list[Any], list[Any]]:
        """Return the gradients of the inputs that are wanted, None for the others, and those of parameters.

        Args:
            grads: a tensor of PyTorch for each output, or None.
            wanted: for each input.
            params: leaves beside the inputs.
            create_graph: whether PyTorch records it.
            retain: whether the graph is kept.

        Raises:
            ChangedTensorError: something that the graph has saved was changed in place.
        """
        self._note_writes()
        pairs = [
            (output, grad)
            for output, grad in zip(self.outputs, grads, strict=True)
            if grad is not None and output is not None and output.requires_grad
        ]
        chosen = [
            at
            for at, (one, is_wanted) in enumerate(zip(self.inputs, wanted, strict=True))
            if is_wanted and one.requires_grad
        ]
        found: list[Any] = [None] * len(self.inputs)
        if not pairs or not (chosen or params):
            return found, [None] * len(params)
        try:
            with _recording(True):
                results = torch.autograd.grad(
                    [output for output, _ in pairs],
                    [*(self.inputs[at] for at in chosen), *params],
                    [grad for _, grad in pairs],
                    create_graph=create_graph,
                    retain_graph=retain or create_graph or self.is_shared,
                    allow_unused=True,
                )
        except RuntimeError as error:
            if "modified by an inplace operation" in str(error):
                raise ChangedTensorError(
                    f"the graph that PyTorch has recorded of {self.name} needs a tensor that was changed in place "
                    "since the forward call. Write y = y + 1 in place of y += 1, or change y.clone()"
                ) from error
            raise
        for at, result in zip(chosen, results, strict=False):
            found[at] = result
        return found, list(results[len(chosen) :])

    def _note_writes(self) -> None:
        """Count for PyTorch what asyncgrad has written into outputs, whose memory both have."""
        for at, watched in enumerate(self.watched):
            if watched is not None and (version := version_of(watched[0])) != watched[1]:
                self.watched[at] = watched[0], version
                torch.autograd.graph.increment_version(self.outputs[at])


@final
class _recording:
    """Has PyTorch record what is done inside, or not; a context manager."""

    __slots__ = ("_before", "_records")

    def __init__(self, records: bool) -> None:
        self._records = records

    def __enter__(self) -> None:
        self._before = torch.is_grad_enabled()
        self._set(self._records)

    def __exit__(self, *error: object) -> None:
        self._set(self._before)

    def _set(self, records: bool) -> None:
        # To set it takes longer than to ask.
        if torch.is_grad_enabled() is not records:
            torch.set_grad_enabled(records)


def _release(ctx: Any) -> None:
    """Let go of what PyTorch has recorded, which goes with the saved tensors."""
    ctx.graph = None


@final
class Forward(Function):
    """A call of a function of PyTorch: takes tensors, and returns the arrays of its outputs."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor) -> tuple[np.ndarray, ...]:
        """Run the function, on a graph of PyTorch's own if a gradient is wanted."""
        needs = [call.is_recorded and bool(flag) for flag in ctx.needs_input_grad[1:]]
        records = any(needs) or (call.is_recorded and bool(call.params))
        inputs = []
        for at, (tensor, need) in enumerate(zip(tensors, needs, strict=True)):
            name = partial(call.name_of, at)
            inputs.append(torch_tensor(array_of(tensor, name), name, need))
        with _recording(records):
            outputs = call.run(inputs, records)
        for at, (tensor, one) in enumerate(zip(tensors, inputs, strict=True)):
            if one._version:
                tensor._bump_version()
                raise InPlaceError(
                    f"{call.name} has written into {call.name_of(at)} in place, and would have changed the tensor of "
                    "asyncgrad that was passed: write into a copy, x = x.clone()"
                )
        ctx.graph = None
        if not records:
            return _arrays(call.name, outputs, inputs)
        return _record(ctx, TorchGraph(call.name, inputs, outputs, call.params, call.writer), tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """Differentiate what PyTorch has recorded."""
        with outside_inference_mode():
            return (None, *_differentiate(ctx, grads))

    _release = staticmethod(_release)


@final
class Derivative(Function):
    """The rule of a node whose graph is PyTorch's: of gradients of outputs, and the inputs, makes those of inputs."""

    @staticmethod
    def forward(ctx: Any, graph: TorchGraph, wanted: Sequence[bool], given: Sequence[bool], *tensors: Tensor) -> Any:
        """Have PyTorch compute the gradients, and record how.

        Args:
            ctx: the context.
            graph: what is differentiated.
            wanted: for each input, whether its gradient is.
            given: for each output, whether there is a gradient.
            *tensors: those gradients, and the inputs.
        """
        count = sum(given)
        needs = ctx.needs_input_grad[3 : 3 + count]
        arrays = [
            torch_tensor(array_of(one, "a gradient"), "a gradient", bool(need))
            for one, need in zip(tensors[:count], needs, strict=True)
        ]
        rest = iter(arrays)
        found, _ = graph.gradients(
            [next(rest) if is_given else None for is_given in given], wanted, (), create_graph=True, retain=True
        )
        graph.is_shared = True
        inputs = [*arrays, *graph.inputs]
        return _record(ctx, TorchGraph(graph.name, inputs, found, graph.params, graph.writer, is_shared=True), tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """Differentiate what PyTorch has recorded."""
        with outside_inference_mode():
            return (None, None, None, *_differentiate(ctx, grads))

    _release = staticmethod(_release)


def watch_outputs(tensors: Sequence[Any]) -> None:
    """Have the graph of a node look at its outputs for writes, once the node has made tensors of them."""
    for tensor in tensors:
        node: Any = tensor.grad_fn if isinstance(tensor, Tensor) else None
        if node is not None and (graph := getattr(node.ctx, "graph", None)) is not None:
            graph.watched[tensor._output_nr] = output_alias(tensor), version_of(tensor)


def _record(ctx: Any, graph: TorchGraph, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Keep a graph for the rule; return the arrays of its outputs."""
    arrays = _arrays(graph.name, graph.outputs, graph.inputs)
    ctx.set_materialize_grads(False)
    # What PyTorch has saved of them is in their memory; and a rule that is differentiated is one of these.
    ctx.save_for_backward(*tensors)
    graph.watched = [None] * len(arrays)
    ctx.graph = graph
    if graph.params:
        ctx.set_records(True)
    ctx.mark_non_differentiable(
        *(
            array
            for array, output in zip(arrays, graph.outputs, strict=True)
            if output is not None and not output.requires_grad
        )
    )
    return arrays


def _arrays(name: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arrays of outputs, in memory that no input and no other output has."""
    taken = {memory_of(one) for one in inputs}
    arrays: list[Any] = []
    for at, output in enumerate(outputs):
        if output is None:
            arrays.append(None)
            continue
        check_host(output, f"output {at} of {name}", "return y")
        found = plain(output)
        if memory_of(found) in taken or 0 in found.stride():
            found = found.clone(memory_format=torch.contiguous_format)
        taken.add(memory_of(found))
        arrays.append(found.numpy())
    return tuple(arrays)


def _differentiate(ctx: Any, grads: Sequence[Tensor | None]) -> Sequence[Any]:
    """Return the gradients of the tensors that a node took; those of parameters go to their own `.grad`."""
    # Raises if they were written into, or released.
    tensors = ctx.saved_tensors
    node: Any = CURRENT_NODE.get()
    graph: TorchGraph | None = ctx.graph
    if graph is None:
        raise released_error(node)
    task: Any = CURRENT_GRAPH_TASK.get()
    is_whole = task is None or task.limits is None
    wanted = [is_whole or bool(node.task_should_compute_output(index)) for index in range(len(tensors))]
    # A backward with given inputs adds nothing to other leaves.
    params = graph.params if is_whole else ()
    if is_grad_enabled():
        if params:
            raise GraphError(
                f"the backward of {graph.name} writes gradients into PyTorch's own .grad, and with create_graph=True "
                'they would lose their history: write wrap(module), without grads="torch", or '
                "await ag.grad(outputs, inputs, create_graph=True)"
            )
        given = [grad is not None for grad in grads]
        found = Derivative.apply(graph, wanted, given, *(grad for grad in grads if grad is not None), *tensors)
        watch_outputs(found)
        # The first tensors that a node of a derivative took are gradients.
        return found if isinstance(found, tuple) else (found,)
    arrays = [
        None if grad is None else torch_tensor(_dense(array_of(grad, "a gradient")), "a gradient") for grad in grads
    ]
    retain = task is None or task.keep_graph
    found, of_params = graph.gradients(arrays, wanted, params, create_graph=False, retain=retain)
    if not retain:
        _release(ctx)
    taken = {memory_of(one) for one in (*graph.inputs, *(one for one in arrays if one is not None))}
    is_kept = retain or graph.is_shared
    if graph.writer is not None and params:
        private = [None if grad is None else private_gradient(grad, taken, is_kept) for grad in of_params]
        graph.writer.add(params, private)
    return [None if grad is None else gradient_array(grad, taken, is_kept) for grad in found]


def _dense(array: np.ndarray) -> np.ndarray:
    """Return a gradient that PyTorch may write into: that of a sum is a read-only broadcast of one number."""
    return array if array.flags.writeable else np.array(array)
