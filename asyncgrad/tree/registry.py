"""What is a container, and how each kind is taken apart and put together again."""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..graph.tensor_base import TensorBase

__all__ = ["ContainerType", "Parts", "container_type", "register"]

T = TypeVar("T", bound=type)


class Parts(NamedTuple):
    """A container that has been taken apart."""

    #: How each child is reached from the container: "[0]", "['key']", ".name".
    accessors: tuple[str, ...]
    children: tuple[Any, ...]
    #: What is needed beside the children to put the container together again.
    rest: Any


class ContainerType(NamedTuple):
    """How one kind of container is taken apart, and put together from its class, its `rest` and new children."""

    take_apart: Callable[[Any], Parts]
    put_together: Callable[[type, Any, Sequence[Any]], Any]


def _take_sequence(value: Sequence[Any]) -> Parts:
    return Parts(tuple(f"[{index}]" for index in range(len(value))), tuple(value), None)


def _take_dict(value: dict[Any, Any]) -> Parts:
    return Parts(tuple(f"[{key!r}]" for key in value), tuple(value.values()), tuple(value))


def _take_defaultdict(value: defaultdict[Any, Any]) -> Parts:
    parts = _take_dict(value)
    return parts._replace(rest=(value.default_factory, parts.rest))


def _take_named_tuple(value: Any) -> Parts:
    return Parts(tuple(f".{name}" for name in value._fields), tuple(value), None)


def _take_dataclass(value: Any) -> Parts:
    names = [field.name for field in dataclasses.fields(value) if not field.metadata.get("static", False)]
    return _take_attributes(value, names)


def _take_attributes(value: Any, names: Iterable[str]) -> Parts:
    names = tuple(name for name in names if hasattr(value, name))
    static = {name: entry for name, entry in _attributes(value).items() if name not in names}
    return Parts(
        tuple(f".{name}" for name in names),
        tuple(getattr(value, name) for name in names),
        (names, tuple(static.items())),
    )


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in _slots(cls) if hasattr(value, name)]
    return {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})


def _slots(cls: type) -> Iterable[str]:
    slots = vars(cls).get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def _put_attributes(cls: type, rest: Any, children: Sequence[Any]) -> Any:
    # Without __init__, which may check or convert what is no number of the user's: a gradient, or a stand-in.
    names, static = rest
    made: Any = object.__new__(cls)
    for name, entry in (*static, *zip(names, children, strict=True)):
        object.__setattr__(made, name, entry)
    return made


_NONE = ContainerType(lambda value: Parts((), (), None), lambda cls, rest, children: None)
_NAMED_TUPLE = ContainerType(_take_named_tuple, lambda cls, rest, children: cls(*children))
_DATACLASS = ContainerType(_take_dataclass, _put_attributes)

_CONTAINER_TYPES: dict[type, ContainerType] = {
    type(None): _NONE,
    list: ContainerType(_take_sequence, lambda cls, rest, children: list(children)),
    tuple: ContainerType(_take_sequence, lambda cls, rest, children: tuple(children)),
    dict: ContainerType(_take_dict, lambda cls, rest, children: dict(zip(rest, children, strict=True))),
    OrderedDict: ContainerType(_take_dict, lambda cls, rest, children: OrderedDict(zip(rest, children, strict=True))),
    defaultdict: ContainerType(
        _take_defaultdict, lambda cls, rest, children: defaultdict(rest[0], zip(rest[1], children, strict=True))
    ),
}
_BUILT_IN = frozenset(_CONTAINER_TYPES)


def container_type(cls: type) -> ContainerType | None:
    """Return how containers of this class are taken apart, or None if its instances are leaves."""
    found = _CONTAINER_TYPES.get(cls)
    if found is not None:
        return found
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED_TUPLE
    return _DATACLASS if dataclasses.is_dataclass(cls) else None


@overload
def register(cls: T, /, *, attributes: Sequence[str] | None = None) -> T: ...
@overload
def register(
    cls: T,
    /,
    *,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], Any],
) -> T: ...
@overload
def register(*, attributes: Sequence[str]) -> Callable[[T], T]: ...
def register(
    cls: Any = None,
    /,
    *,
    attributes: Sequence[str] | None = None,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
    unflatten: Callable[[Any, tuple[Any, ...]], Any] | None = None,
) -> Any:
    """Make the instances of a class trees; to be called, or put above a class. Named tuples and dataclasses are trees.

    A dataclass keeps what is no part of the tree in fields with `metadata={"static": True}`. An instance is put
    together again without a call of `__init__`, unless `unflatten` makes one.

    Args:
        cls: the class; not its subclasses.
        attributes: the names of the attributes that are the children; the others stay as they are. By default all.
        flatten: instead of `attributes`: takes an instance, and returns its children and a thing that `unflatten` needs
            beside them.
        unflatten: takes that thing and a tuple of children, and returns an instance.

    Returns:
        The class.

    Raises:
        ArgumentTypeError: `cls` is no class, or a tensor, an array or a container of Python's.
        ArgumentError: `flatten` is given without `unflatten`, or together with `attributes`.

    Source: jax.tree_util.register_pytree_node.

    Example:
        >>> import asyncgrad as ag
        >>> @ag.tree.register
        ... class Layer:
        ...     def __init__(self, weight, bias):
        ...         self.weight, self.bias = weight, bias
        >>> ag.tree.leaves([Layer(1.0, 2.0), 3.0])
        [1.0, 2.0, 3.0]
        >>> ag.tree.map(lambda leaf: -leaf, Layer(1.0, 2.0)).bias
        -2.0
    """
    if (flatten is None) != (unflatten is None):
        raise ArgumentError("ag.tree.register takes flatten and unflatten together, or neither")
    if flatten is not None and attributes is not None:
        raise ArgumentError("ag.tree.register takes attributes, or flatten and unflatten, not both")
    if cls is None:
        return lambda decorated: register(decorated, attributes=attributes)
    if not inspect.isclass(cls):
        raise ArgumentTypeError(f"ag.tree.register takes a class, not {type(cls).__name__} {cls!r}")
    if cls in _BUILT_IN or issubclass(cls, (TensorBase, np.ndarray, np.generic)):
        raise ArgumentTypeError(f"ag.tree.register: {cls.__name__} cannot be registered: its place in trees is fixed")
    _CONTAINER_TYPES[cls] = (
        _by_attributes(attributes) if flatten is None or unflatten is None else _by_functions(flatten, unflatten)
    )
    return cls


def _by_attributes(names: Sequence[str] | None) -> ContainerType:
    if isinstance(names, str):
        raise ArgumentTypeError(f"attributes is a list of names, not a str: write [{names!r}]")
    return ContainerType(
        lambda value: _take_attributes(value, _attributes(value) if names is None else names), _put_attributes
    )


def _by_functions(flatten: Callable[[Any], Any], unflatten: Callable[[Any, tuple[Any, ...]], Any]) -> ContainerType:
    def take_apart(value: Any) -> Parts:
        children, rest = flatten(value)
        return _take_sequence(tuple(children))._replace(rest=rest)

    return ContainerType(take_apart, lambda cls, rest, children: unflatten(rest, tuple(children)))
