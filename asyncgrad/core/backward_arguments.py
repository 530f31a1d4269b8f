"""What a backward starts from and leads to: roots, starting gradients and inputs, read from arguments and checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..errors import GradientTypeError, GraphError, InvalidGradientError, InvalidRootError, RequiresGradError
from .arrays import values
from .arrays.ownership import private_copy
from .arrays.tensor_base import TensorBase
from .graph.leaf import Identity, gradient_edge, make_edge
from .graph.metadata import InputMetadata, fit
from .graph.node import Edge, GradientEdge, Node
from .graph.value_metadata import ValueMetadata
from .settings.arguments import describe, must_be
from .tree.registry import container_type
from .tree.structure import TreeStructure, flatten, paths, unflatten

__all__ = [
    "Root",
    "as_gradients",
    "as_inputs",
    "as_sequence",
    "as_some_inputs",
    "check_root",
    "start_of_roots",
    "input_edges",
    "input_name",
    "label_of",
    "like_inputs",
    "start_of",
]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray

Root = TensorBase | GradientEdge


def as_sequence(tensors: Any, role: str) -> tuple[Root, ...]:
    """Return one tensor or several as a tuple; `role` names them in errors."""
    if isinstance(tensors, TensorBase):
        return (tensors,)
    alone = isinstance(tensors, (GradientEdge, Edge, np.ndarray, str)) or not isinstance(tensors, Iterable)
    roots = (tensors,) if alone else tuple(tensors)
    for index, root in enumerate(roots):
        if not isinstance(root, TensorBase):
            check_root(f"{role} {index}", root)
    return roots


def check_root(where: str, root: Any) -> None:
    """Raise unless something that is no tensor is a GradientEdge that leads to an input of a node."""
    if not isinstance(root, GradientEdge):
        raise GradientTypeError(must_be(where, "a Tensor or a GradientEdge", root, _tensor_instead(where, root)))
    _check_edge(where, root)


def _tensor_instead(where: str, root: Any) -> str:
    """Return what to write in place of what is no tensor."""
    if inspect.isawaitable(root):
        if inspect.iscoroutine(root):
            # Nobody will await it any more.
            root.close()
        return "await it first"
    if isinstance(root, Node):
        return "write ag.graph.GradientEdge(node, 0)"
    if callable(root) and not where.startswith("input"):
        return "call it, and pass the tensor that it returns; or write ag.func.grad(f) for the gradient of a function"
    return "gradients flow through tensors, made by ag.tensor(..., requires_grad=True)"


def _check_edge(where: str, edge: GradientEdge) -> None:
    """Raise unless an edge leads to an input of a node."""
    node, output_nr = edge
    hint = "take it from ag.graph.get_gradient_edge(t)"
    if node is None:
        raise GraphError(f"{where} is a GradientEdge that leads to no node: {hint}")
    if not isinstance(node, Node):
        raise GradientTypeError(f"{where} is a GradientEdge to {describe(node)}, and not to a Node: {hint}")
    if not hasattr(output_nr, "__index__") or isinstance(output_nr, bool):
        raise GradientTypeError(
            f"{where} is a GradientEdge of {node.name} whose output_nr is {describe(output_nr)}, and not an int: {hint}"
        )
    if not 0 <= output_nr < node.num_inputs:
        raise GraphError(
            f"{where} is edge {output_nr} of {node.name}, which made {values.counted(node.num_inputs, 'output')}: "
            f"{hint}"
        )


def as_inputs(inputs: Any) -> tuple[tuple[Root, ...], TreeStructure | None]:
    """Return the inputs as a tuple, and their structure, if they are a tree and not only a sequence."""
    if isinstance(inputs, (list, tuple)) and not isinstance(inputs, (GradientEdge, Edge)):
        is_tree = hasattr(inputs, "_fields") or any(
            not isinstance(value, TensorBase) and _is_container(value) for value in inputs
        )
    else:
        is_tree = _is_container(inputs)
    if not is_tree:
        if isinstance(inputs, Mapping):
            raise TypeError(
                f"inputs may be a dict, and not another mapping such as {type(inputs).__name__}: write dict(inputs)"
            )
        return as_sequence(inputs, "input"), None
    leaves, structure = flatten(inputs, _is_edge)
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, TensorBase):
            check_root(input_name(index, structure), leaf)
    return tuple(leaves), structure


def as_some_inputs(inputs: Any) -> tuple[tuple[Root, ...], TreeStructure | None]:
    """Return what `as_inputs` does; raise if there is none."""
    wanted, structure = as_inputs(inputs)
    if not wanted:
        raise GraphError("inputs is empty: name the tensors to differentiate with respect to")
    return wanted, structure


def like_inputs(results: tuple[Any, ...], structure: TreeStructure | None) -> Any:
    """Return gradients in the structure of the inputs; for a list of them as a tuple."""
    if structure is None:
        return results
    tree = unflatten(structure, results)
    return tuple(tree) if structure.cls is list else tree


def _is_container(value: Any) -> bool:
    """Tell whether this is a container of inputs."""
    return (
        not isinstance(value, (TensorBase, GradientEdge, Edge))
        and value is not None
        and container_type(type(value)) is not None
    )


def _is_edge(value: Any) -> bool:
    return isinstance(value, (GradientEdge, Edge))


def input_name(index: int, structure: TreeStructure | None) -> str:
    """Return the name of an input in errors."""
    path = "" if structure is None else f", {next(islice(paths(structure, 'inputs'), index, None))}"
    return f"input {index}{path}"


def label_of(root: Root) -> str:
    """Return what an error calls a root or an input by."""
    if isinstance(root, GradientEdge):
        return f"edge {root.output_nr} of {root.node.name}"
    made_by = f", made by {root._grad_fn.name}" if root._grad_fn is not None else ""
    if root._value_metadata is not None:
        return f"value of type {root._value_metadata.type.name}{made_by}"
    return f"tensor of shape {root._data.shape} and dtype {root._data.dtype}{made_by}"


def as_gradients(tensors: Any, roots: Sequence[Root], given: Any) -> Sequence[Any]:
    """Return the starting gradients as a sequence, whose length is yet to be checked.

    Args:
        tensors: the roots as the user wrote them.
        roots: the roots.
        given: the gradients as the user wrote them. A list or a tuple has one for each root, and so has any other
            sequence, except strings and arrays. But for a single root, another sequence that holds no tensor or array
            is the gradient itself; and so is anything for a single value that is no array.
    """
    if given is None:
        return (None,) * len(roots)
    if isinstance(given, (TensorBase, np.ndarray)) or not isinstance(given, Sequence):
        return (given,)
    if isinstance(tensors, TensorBase) and tensors._value_metadata is not None:
        # The gradient of a value may be a list itself.
        return (given,)
    if given.__class__ in (list, tuple):
        return given
    is_one = isinstance(given, (str, bytes, bytearray)) or values.is_device_array(given)
    if not is_one and isinstance(tensors, (TensorBase, GradientEdge)):
        is_one = not any(isinstance(item, (TensorBase, np.ndarray)) or values.is_device_array(item) for item in given)
    return (given,) if is_one else given


def start_of_roots(roots: Sequence[Root], given: Sequence[Any], create_graph: bool) -> tuple[list[Edge], list[Any]]:
    """Return the edges and the gradients that a backward starts from; raise if one of them is invalid."""
    if not roots:
        raise InvalidRootError("there is nothing to run backward from: pass at least one tensor")
    if len(given) != len(roots):
        raise InvalidGradientError(
            f"a backward from {values.counted(len(roots), 'root')} starts from as many gradients, and was given "
            f"{len(given)}: a tensor or an array is one gradient, a list has one for each root"
        )
    if len(roots) == 1 and isinstance(roots[0], TensorBase) and not create_graph:
        plain = _plain_start(roots[0], given[0])
        if plain is not None:
            return plain
    edges: list[Edge] = []
    grads: list[Any] = []
    for index, root in enumerate(roots):
        gradient = given[index]
        edge = Edge(*root) if isinstance(root, GradientEdge) else gradient_edge(root)
        if edge is None or edge.node is None:
            raise InvalidRootError(
                f"root {index} ({label_of(root)}) does not require grad and has no grad_fn: "
                "compute it from a tensor made with requires_grad=True, outside of no_grad()"
            )
        own = None if gradient is None else _own_if_fitting(gradient, edge, create_graph)
        if own is None:
            metadata = edge.node.input_metadata[edge.input_nr]
            own = _make_gradient(index, root, gradient, metadata, edge.node.device, create_graph)
        grads.append(own)
        edges.append(edge)
    return edges, grads


def _make_gradient(
    index: int,
    root: Root,
    gradient: Any,
    metadata: InputMetadata | ValueMetadata | None,
    device: object,
    create_graph: bool,
) -> Any:
    """Return the gradient that a root starts from, after `metadata` of its gradients; raise if there is none."""
    if isinstance(metadata, ValueMetadata):
        return _value_gradient(index, gradient, metadata)
    if metadata is None:
        if gradient is None:
            raise InvalidRootError(f"root {index} ({label_of(root)}) has no known shape: pass a gradient for it")
        return private_copy(gradient if create_graph else values.raw(gradient))
    if metadata.was_default_constructed:
        raise InvalidRootError(f"root {index} ({label_of(root)}) is an output that has no gradient: take another")
    if gradient is None:
        value = _make_implicit_gradient(index, root, metadata)
        return values.wrap(value, device) if create_graph else value
    return _own_gradient(_check_gradient(index, root, gradient, metadata), device, create_graph)


def start_of(tensors: Any, gradients: Any, create_graph: bool) -> tuple[list[Edge], list[Any]]:
    """Return what `start_of_roots` does, of roots and gradients as the user wrote them."""
    if isinstance(tensors, TensorBase) and not create_graph:
        plain = _plain_start(tensors, gradients)
        if plain is not None:
            return plain
    roots = as_sequence(tensors, "root")
    return start_of_roots(roots, as_gradients(tensors, roots, gradients), create_graph)


def _plain_start(root: TensorBase, gradient: Any) -> tuple[list[Edge], list[Any]] | None:
    """Return what `start_of_roots` does for a root that most often is one; None for what it looks at closer.

    That is a result whose node has no hooks, and starts from an array that fits, or from 1 where it is one real number.
    """
    node = root._grad_fn
    # What a Value has is no array: it is asked for none.
    if node is None or root._view is not None or node.meta is not None or root._value_metadata is not None:
        return None
    if root._data.__class__ is not _ndarray:
        return None
    if gradient is None:
        if node.shape != () or node.dtype.kind != "f":
            return None
        # As `values.ones_like`.
        start = np.empty((), node.dtype)
        start.fill(1)
    else:
        array = gradient
        if isinstance(gradient, TensorBase):
            if gradient._device is not node.device:
                return None
            array = gradient._data
        if array.__class__ is not _ndarray or array.shape != node.shape or array.dtype is not node.dtype:
            return None
        # The caller may write into theirs meanwhile.
        start = array.copy("K")
    if node.device is not None and not node.device.has_host_arrays:
        return None
    return [make_edge((node, root._output_nr))], [start]


def _value_gradient(index: int, gradient: Any, metadata: ValueMetadata) -> Any:
    """Return the starting gradient of a root that is no array."""
    given = metadata.type.seed(metadata.description) if gradient is None else gradient
    return metadata.take(given, lambda it: f"the gradient of root {index}, a {metadata.type.name}, is {it}")


def _own_gradient(gradient: Any, device: object, create_graph: bool) -> Any:
    """Return a starting gradient in memory of the engine's own: the caller may write into theirs meanwhile.

    An array of a device is taken as it is: a copy is a launch there, which nearly all would pay for nothing.
    """
    array = gradient._data if isinstance(gradient, TensorBase) else gradient
    if create_graph:
        return values.wrap(private_copy(gradient) if isinstance(array, _ndarray) else gradient, device)
    return private_copy(array) if isinstance(array, _ndarray) else array


def _own_if_fitting(gradient: Any, edge: Edge, create_graph: bool) -> Any:
    """Return what `_own_gradient` does for a gradient that certainly fits, as nearly all do; None for one to check."""
    node: Any = edge.node
    # What a plain node says of itself, a user's says of each of its outputs.
    slot = node if node.meta is None else node.input_metadata[edge.input_nr]
    if slot.__class__ is not InputMetadata and slot is not node:
        return None
    device = slot.device
    if isinstance(gradient, TensorBase):
        array, is_there = gradient._data, device is gradient._device
    else:
        array, is_there = gradient, gradient.__class__ is _ndarray and (device is None or device.has_host_arrays)
    if not is_there or array.shape != slot.shape or array.dtype is not slot.dtype:
        return None
    is_plain = not create_graph and array.__class__ is _ndarray
    return private_copy(array) if is_plain else _own_gradient(gradient, node.device, create_graph)


def _make_implicit_gradient(index: int, root: Root, metadata: InputMetadata) -> Any:
    if math.prod(metadata.shape) != 1:
        raise InvalidRootError(
            f"root {index} ({label_of(root)}) is not a scalar, so there is no one gradient to start from: "
            "pass one of its shape (gradient= or grad_outputs=), or run backward on .sum()"
        )
    if metadata.dtype.kind == "c":
        raise InvalidRootError(
            f"root {index} ({label_of(root)}) is complex: pass a gradient to start from, or take its real part"
        )
    device = metadata.device
    if device is not None and not device.has_host_arrays and isinstance(root, TensorBase):
        return values.ones_like(root._data, metadata.shape)
    # The same as np.ones, in a third of the time.
    ones = np.empty(metadata.shape, metadata.dtype)
    ones.fill(1)
    return values.on_device(ones, device)


def _check_gradient(index: int, root: Root, gradient: Any, metadata: InputMetadata) -> Any:
    if not isinstance(gradient, TensorBase):
        values.refuse_masked(gradient)
        is_device_array = values.is_device_array(gradient)
        if not (is_device_array or isinstance(gradient, (_ndarray, np.generic, int, float, complex))):
            raise GradientTypeError(
                must_be(
                    f"the gradient of root {index} ({label_of(root)})",
                    "a tensor or an array",
                    gradient,
                    "write np.asarray(...)",
                )
            )
        if not is_device_array:
            gradient = values.on_device(np.asarray(gradient), metadata.device)
    elif metadata.device not in (None, gradient._device):
        raise InvalidGradientError(
            f"the gradient of root {index} is on '{gradient._device}', and the root ({label_of(root)}) is on "
            f"'{metadata.device}': write gradient.to('{metadata.device}')"
        )
    if gradient.shape != metadata.shape:
        raise InvalidGradientError(
            f"the gradient of root {index} has shape {gradient.shape}, and the root ({label_of(root)}) has shape "
            f"{metadata.shape}: pass one of that shape"
        )
    if (gradient.dtype.kind == "c") != (metadata.dtype.kind == "c"):
        raise InvalidGradientError(
            f"the gradient of root {index} has dtype {gradient.dtype}, and the root has dtype {metadata.dtype}: "
            "either both are complex or neither is"
        )
    fitted = fit(gradient, metadata)
    if isinstance(fitted, str):
        raise InvalidGradientError(
            f"the gradient of root {index} has dtype {gradient.dtype}, and the root ({label_of(root)}) has dtype "
            f"{metadata.dtype}: pass numbers, for example gradient.astype({metadata.dtype})"
        )
    return fitted


def input_edges(inputs: Sequence[Root], structure: TreeStructure | None) -> list[Edge]:
    """Return the edges whose gradients are those of the inputs; raise if one does not require grad."""
    edges = []
    for index, tensor in enumerate(inputs):
        if isinstance(tensor, GradientEdge):
            edges.append(Edge(*tensor))
            continue
        node = tensor._grad_fn if tensor._view is None else tensor._history()
        if node is not None:
            edges.append(Edge(node, tensor._output_nr))
            continue
        meta = tensor._meta
        if meta is None or not meta.requires_grad:
            raise RequiresGradError(
                f"{input_name(index, structure)} ({label_of(tensor)}) does not require grad: call .requires_grad_() on "
                "it before use"
            )
        accumulate = None if meta.accumulator is None else meta.accumulator()
        # Where no graph holds this leaf, a new accumulator would be freed at once, and a later call would make another.
        edges.append(Edge(Identity() if accumulate is None else accumulate, 0))
    return edges
