"""Functions that read and set the gradient edges of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ArgumentTypeError, GraphError, RequiresGradError
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import describe
from .leaf import check_has_edge, gradient_edge
from .metadata import metadata_of
from .naming import identify, outline
from .node import Edge, GradientEdge, Node, checked_edge
from .value_metadata import ValueMetadata

__all__ = ["any_requires_grad", "collect_next_edges", "create_gradient_edge", "set_gradient_edge"]


def collect_next_edges(*tensors: object) -> tuple[Edge, ...]:
    """Return, for each tensor, the edge that its gradient flows along: the `edges` of a node computed from them.

    Args:
        *tensors: tensors, None, and lists, tuples and dicts of these, which are flattened. A value that does not
            require grad, such as an array, gets an edge that leads nowhere.

    Source: collect_next_edges of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> [edge.node and edge.node.name for edge in ag.graph.collect_next_edges(x * 2, None, x)]
        ['MultiplyBackward', None, 'AccumulateGrad']
    """
    return tuple(
        (gradient_edge(value) if isinstance(value, TensorBase) else None) or Edge(None, 0) for value in _leaves(tensors)
    )


def any_requires_grad(*tensors: object) -> bool:
    """Tell whether any tensor requires grad, regardless of grad mode.

    Args:
        *tensors: as for `collect_next_edges`.

    Source: any_variable_requires_grad of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.any_requires_grad(ag.tensor([1.0]), x), ag.graph.any_requires_grad(None)
        (True, False)
    """
    return any(isinstance(value, TensorBase) and value._requires_grad() for value in _leaves(tensors))


def set_gradient_edge(tensor: TensorBase, edge: Edge | GradientEdge) -> None:
    """Make the gradient of a tensor flow along `edge` from now on.

    The node that made the tensor keeps its hooks, and still receives the gradients of everything that was computed
    from the tensor before this call. Nothing else is moved.

    Args:
        tensor: any tensor but a leaf that requires grad, whose gradient would no longer reach its `.grad`.
        edge: an edge to the input of a node that stands for this tensor.

    Raises:
        GraphError: the edge leads nowhere, or to an input that the tensor's gradient does not fit.
        RequiresGradError: the tensor is a leaf that requires grad, or its dtype has no gradients.

    Source: set_gradient_edge of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> y = ag.tensor([5.0])
        >>> ag.graph.set_gradient_edge(y, ag.graph.get_gradient_edge(x * 2))
        >>> y.requires_grad, y.grad_fn.name
        (True, 'MultiplyBackward')
    """
    _check_tensor(tensor)
    node, input_nr = checked_edge(edge)
    if node is None:
        raise GraphError(
            f"the gradient edge of a {outline(tensor)} cannot lead nowhere: t.detach_() takes it out of its graph"
        )
    metadata = node.input_metadata[input_nr]
    own = metadata_of(tensor)
    if isinstance(own, ValueMetadata):
        if metadata is not None and getattr(metadata, "type", None) is not own.type:
            raise GraphError(
                f"input {input_nr} of {identify(node)} takes no gradients of a {outline(tensor)}: "
                "create_gradient_edge(value, node) adds an input for it to a node of your own"
            )
    elif metadata is not None and metadata != own:
        takes = (
            "stands for an output that has no gradient"
            if metadata.was_default_constructed
            else f"takes gradients of shape {metadata.shape}, dtype {metadata.dtype} and device '{metadata.device}'"
        )
        raise GraphError(
            f"input {input_nr} of {identify(node)} {takes}, and the tensor has shape "
            f"{tensor._data.shape}, dtype {tensor._data.dtype} and device '{tensor._device}': "
            "create_gradient_edge(tensor, node) adds an input for it to a node of your own"
        )
    _set(tensor, node, input_nr)


def create_gradient_edge(tensor: TensorBase, node: Node) -> None:
    """Make a tensor the next output of a node: add an input to the node, to which the tensor's gradient flows.

    Args:
        tensor: as for `set_gradient_edge`.
        node: a node of a class of your own. Make it without inputs, `super().__init__(edges, ())`, so that the first
            tensor gets input 0.

    Raises:
        GraphError: an operation made the node, so its inputs are fixed.
        RequiresGradError: the tensor is a leaf that requires grad, or its dtype has no gradients.

    Source: create_gradient_edge of PyTorch.

    Example:
        >>> import asyncgrad as ag
        >>> class Double(ag.graph.Node):
        ...     def apply(self, grads):
        ...         return (grads[0] * 2,)
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> y = ag.tensor(2 * x.numpy())
        >>> ag.graph.create_gradient_edge(y, Double(ag.graph.collect_next_edges(x), ()))
        >>> ag.sync.backward(y)
        >>> x.grad.item()
        2.0
    """
    _check_tensor(tensor)
    if not isinstance(node, Node):
        raise ArgumentTypeError(
            f"a gradient edge leads to a Node, not {describe(node)}: make one of a subclass of ag.extend.Node"
        )
    _set(tensor, node, node.add_input_metadata(tensor))


def _check_tensor(tensor: Any) -> None:
    check_has_edge(tensor)
    what = f"a {outline(tensor)}"
    if tensor._value_metadata is None:
        what += f" and dtype {tensor._data.dtype}"
    if tensor._value_metadata is None and tensor._data.dtype.kind not in "fc":
        raise RequiresGradError(f"{what} has no gradient, only floating and complex ones do: write t.astype(float)")
    if tensor._history() is None and tensor._requires_grad():
        raise RequiresGradError(
            f"{what} is a leaf that requires grad, and its gradient would no longer reach its .grad: "
            "give the edge to another tensor, such as t.detach()"
        )


def _set(tensor: TensorBase, node: Node, input_nr: int) -> None:
    meta, before = tensor._meta, tensor._grad_fn
    if meta is not None and meta.retains_grad:
        if before is not None and before.meta is not None:
            before.meta.retains_grad_hooks.pop(tensor._output_nr, None)
        meta.retains_grad = False
    tensor._rebase(node, input_nr)


def _leaves(tensors: Iterable[Any]) -> Iterable[Any]:
    for value in tensors:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        elif isinstance(value, dict):
            yield from _leaves(value.values())
        else:
            yield value
