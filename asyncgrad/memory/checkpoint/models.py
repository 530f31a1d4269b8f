"""The modules that a checkpointed function refers to, and whether what it reads of them has been written into since."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from types import FunctionType, MethodType
from typing import Any, final

from ...core.arrays.tensor_base import TensorBase
from ...core.graph.leaf import gradient_edge
from ...core.graph.node import Edge, Node
from ...core.graph.packed import saved_in_memory_of
from ...core.graph.saved import ConstantVersions, check_version, version_of
from ...core.settings.closures import contents_of_cells
from ...core.settings.context import current_node
from ...core.tree.registry import PLAIN, container_type

__all__ = ["ModelVersions", "tensors_of"]

#: Tensors, each with its version.
_Versions = list[tuple[TensorBase, int]]


@final
class ModelVersions:
    """The versions of the tensors of all modules that functions refer to.

    A parameter is read by a call that makes a node which leads to it. A buffer, or a parameter that does not require
    grad, is read by one that makes a node which saves it: what no node saves, such as running statistics of a layer
    that trains, may be written into.

    Args:
        functions: those that a checkpoint calls, before it calls them.
    """

    __slots__ = ("_others", "_parameters")

    def __init__(self, functions: Iterable[Any]) -> None:
        parameters: list[TensorBase] = []
        others: list[TensorBase] = []
        for one in tensors_of(functions):
            (parameters if one._requires_grad() else others).append(one)
        self._parameters = ConstantVersions(parameters)
        # Weak, since a module may hold what it has computed, such as its last state, which is not to live on.
        self._others = [(weakref.ref(one), version_of(one)) for one in others]

    def end_forward(self) -> None:
        """Leave out what the forward has written into, such as a count of calls."""
        self._parameters.end_forward()
        self._others = [pair for pair in self._others if not _is_changed(*pair)]

    def check(self, edges: Sequence[Edge]) -> None:
        """Raise if a tensor that a recomputation has read has been written into since the forward.

        Others may have been: a model may have parts that the function does not use. A checkpoint inside of the
        recomputation checks what it reads by itself, and is told the versions in the forward.

        Args:
            edges: the edges that lead into the recomputation.

        Raises:
            ChangedTensorError: one has.
        """
        parameters, others = self._parameters.changed(), self._changed_others()
        if not parameters and not others:
            return
        read: set[Node | None] = {None}
        for node in _nodes_from(edges):
            read.add(node)
            inner = _versions_of(node)
            if inner is not None:
                inner._go_back(parameters, others)
            for tensor, version in saved_in_memory_of(node, others):
                check_version(current_node(), tensor, version)
        for tensor, version in parameters:
            edge = gradient_edge(tensor)
            if edge is not None and edge.node in read:
                check_version(current_node(), tensor, version)

    def _changed_others(self) -> _Versions:
        found = ((reference(), version) for reference, version in self._others)
        return [(one, version) for one, version in found if one is not None and version_of(one) != version]

    def _go_back(self, parameters: _Versions, others: _Versions) -> None:
        """Take the versions of an earlier call of the function for those of the tensors."""
        self._parameters.go_back(parameters)
        earlier = {id(tensor): version for tensor, version in others}
        self._others = [(one, earlier.get(id(one()), version)) for one, version in self._others]


def _is_changed(reference: weakref.ref[TensorBase], version: int) -> bool:
    tensor = reference()
    return tensor is None or version_of(tensor) != version


def _nodes_from(edges: Sequence[Edge]) -> Iterator[Node]:
    """Yield each node that edges lead to, at once or by other nodes."""
    seen: set[Node | None] = {None}
    waiting: list[Node | None] = [edge.node for edge in edges]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += node.next_nodes
            yield node


def _versions_of(node: Node) -> ModelVersions | None:
    """Return what a node checks if it stands for a reentrant checkpoint."""
    ctx = getattr(node, "ctx", None)
    computation = None if ctx is None else vars(ctx).get("computation")
    found = getattr(computation, "models", None)
    return found if isinstance(found, ModelVersions) else None


# --- the walk ----------------------------------------------------------------------------------------


def tensors_of(functions: Iterable[Any]) -> list[TensorBase]:
    """Return the tensors without history of the modules that functions are, or refer to.

    They refer to what is called by names of the functions around them, to the object of a method, to the arguments of a
    `partial`, to what is wrapped, as by `ag.jit`, and to what functions and lists of functions refer to that they find
    there.
    """
    found: list[TensorBase] = []
    seen: set[int] = set()
    waiting: list[Any] = [*functions]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = container_type(type(value))
        if kind is not None and kind.is_model:
            found += _tensors_in(value)
        else:
            waiting += _held_by(value)
    return found


def _tensors_in(model: Any) -> list[TensorBase]:
    """Return the tensors without history in a model; what it has computed, such as its last result, is none.

    It is walked at each call of a checkpoint, hence without the structure of a tree, by its attributes, which are its
    children, and with one look at the class of each. A list or dict that begins with a number or a text, such as a
    vocabulary, is taken to hold no parameters.
    """
    found: dict[int, TensorBase] = {}
    # With the containers, since the identity of one that is made for this walk could be another's later.
    containers: dict[int, Any] = {id(model): model}
    waiting: list[Any] = [model]
    roles: dict[type, _Role] = {}
    while waiting:
        container = waiting.pop()
        for value in _children_of(container):
            # Not `value.__class__`: a weak proxy, or a mock, gives that of another object.
            cls = type(value)
            if cls in PLAIN:
                continue
            role = roles.get(cls)
            if role is None:
                role = roles[cls] = _role_of(cls)
            if role is _TENSOR:
                if value._grad_fn is None:
                    found[id(value)] = value
            elif role is not _OTHER and id(value) not in containers and (role is _MODEL or _may_hold_parameters(value)):
                containers[id(value)] = value
                waiting.append(value)
    return [*found.values()]


class _Role(Enum):
    """What an attribute of a class is to the walk."""

    TENSOR = auto()
    MODEL = auto()
    CONTAINER = auto()
    OTHER = auto()


# Names of their own, which the walk reads faster.
_TENSOR, _MODEL, _OTHER = _Role.TENSOR, _Role.MODEL, _Role.OTHER


def _role_of(cls: type) -> _Role:
    if issubclass(cls, TensorBase):
        return _Role.TENSOR
    kind = container_type(cls)
    if kind is None:
        return _Role.OTHER
    return _Role.MODEL if kind.is_model else _Role.CONTAINER


def _children_of(container: Any) -> Iterable[Any]:
    kind = container_type(type(container))
    assert kind is not None
    return vars(container).values() if kind.is_model else kind.flatten(container)[0]


def _may_hold_parameters(container: Any) -> bool:
    if not isinstance(container, (dict, list, tuple)):
        return True
    first = next(iter(container.values() if isinstance(container, dict) else container), None)
    return first is None or isinstance(first, TensorBase) or container_type(type(first)) is not None


def _held_by(value: Any) -> Sequence[Any]:
    """Return what a function, or a list of them, refers to."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        return contents_of_cells(value)
    if isinstance(value, (list, tuple)) and value and callable(value[0]):
        return value
    if callable(value) and type(value) not in weakref.ProxyTypes:
        # A function behind an object that calls it, such as that of `ag.jit` or of `functools.cache`.
        return [getattr(value, "__wrapped__", None)]
    return ()
