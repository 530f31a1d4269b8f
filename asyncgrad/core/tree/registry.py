"""The types of containers: how to flatten and unflatten each of them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinMethodType
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError
from ..arrays.tensor_base import TensorBase

__all__ = ["PLAIN", "ContainerType", "container_type", "register", "register_model"]

T = TypeVar("T", bound=type)

#: Types that hold nothing: most attributes of a module that are no tensors, and options of an optimizer, have one.
PLAIN = frozenset({bool, int, float, str, type(None)})


class ContainerType(NamedTuple):
    """How to flatten and unflatten containers of one type."""

    #: Takes a container. Returns its children, and the data that `unflatten` needs besides them and the class.
    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    #: Takes the class, the data and the children. Returns a container.
    unflatten: Callable[[type, Any, Sequence[Any]], Any]
    #: Takes the class, the data and the number of children. Returns what tells each child from the others: its index,
    #: key or attribute.
    labels: Callable[[type, Any, int], Sequence[Any]]
    #: The source that accesses a child, after the name of the container, as a format of its label.
    accessor: str
    #: Whether transforms take what is in it and does not require grad as a constant, and a tensor that is in it several
    #: times as one.
    is_model: bool = False
    #: Takes the data of a model. Returns the paths of leaves, such as "weight" and "weights.0", which transforms
    #: differentiate with respect to although they do not require grad.
    differentiated: Callable[[Any], frozenset[str]] = lambda aux_data: frozenset()


_INDEX, _ATTRIBUTE = "[{!r}]", ".{}"


def _indices(cls: type, aux_data: Any, count: int) -> Sequence[int]:
    return range(count)


def _keys(cls: type, aux_data: Sequence[Any], count: int) -> Sequence[Any]:
    return aux_data


def _fields(cls: Any, aux_data: Any, count: int) -> Any:
    return cls._fields


def _attribute_names(cls: type, aux_data: Any, count: int) -> Any:
    return aux_data[0]


def _flatten_dataclass(value: Any) -> tuple[Sequence[Any], Any]:
    # Whoever has made a dataclass has loaded the module, which takes as long to load as this package does.
    fields = sys.modules["dataclasses"].fields(value)
    names = [field.name for field in fields if not field.metadata.get("static", False)]
    return _flatten_attributes(value, names)


def _flatten_attributes(value: Any, names: Iterable[str]) -> tuple[Sequence[Any], Any]:
    names = tuple([name for name in names if hasattr(value, name)])
    static = tuple([(name, entry) for name, entry in _attributes(value).items() if name not in names])
    return [getattr(value, name) for name in names], (names, static)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in _slots(cls) if hasattr(value, name)]
    attributes = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
    # What a cached_property holds was computed from the leaves, and does not fit other ones.
    return {
        name: entry
        for name, entry in attributes.items()
        if not isinstance(getattr(type(value), name, None), functools.cached_property)
    }


def _slots(cls: type) -> Iterable[str]:
    slots = vars(cls).get("__slots__", ())
    return [name for name in ((slots,) if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def _new_instance(cls: type) -> Any:
    # The constructor of the nearest built-in base: Python refuses object.__new__ for, say, a SimpleNamespace.
    constructors = (vars(base).get("__new__") for base in cls.__mro__)
    return next(new for new in constructors if isinstance(new, BuiltinMethodType))(cls)


def _unflatten_attributes(cls: type, aux_data: Any, children: Sequence[Any]) -> Any:
    # Do not call __init__, which may check or convert its arguments: the new leaves may be of any type.
    names, static = aux_data
    instance = _new_instance(cls)
    for name, entry in (*static, *zip(names, children, strict=True)):
        object.__setattr__(instance, name, entry)
    return instance


def _as_it_is(value: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    return value, None


def _unflatten_named_tuple(cls: Any, aux_data: Any, children: Sequence[Any]) -> Any:
    # Not cls(*children): a __new__ of its own may check or convert them.
    return cls._make(children)


def _flatten_dict(value: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
    return tuple(value.values()), tuple(value)


def _flatten_defaultdict(value: defaultdict[Any, Any]) -> tuple[Sequence[Any], Any]:
    return tuple(value.values()), (value.default_factory, tuple(value))


_NONE = ContainerType(lambda value: ((), None), lambda cls, aux_data, children: None, _indices, _INDEX)
_NAMED_TUPLE = ContainerType(_as_it_is, _unflatten_named_tuple, _fields, _ATTRIBUTE)
_DATACLASS = ContainerType(_flatten_dataclass, _unflatten_attributes, _attribute_names, _ATTRIBUTE)

_CONTAINER_TYPES: dict[type, ContainerType] = {
    type(None): _NONE,
    list: ContainerType(_as_it_is, lambda cls, aux_data, children: list(children), _indices, _INDEX),
    tuple: ContainerType(_as_it_is, lambda cls, aux_data, children: tuple(children), _indices, _INDEX),
    dict: ContainerType(
        _flatten_dict, lambda cls, aux_data, children: dict(zip(aux_data, children, strict=True)), _keys, _INDEX
    ),
    OrderedDict: ContainerType(
        _flatten_dict, lambda cls, aux_data, children: OrderedDict(zip(aux_data, children, strict=True)), _keys, _INDEX
    ),
    defaultdict: ContainerType(
        _flatten_defaultdict,
        lambda cls, aux_data, children: defaultdict(aux_data[0], zip(aux_data[1], children, strict=True)),
        lambda cls, aux_data, count: aux_data[1],
        _INDEX,
    ),
}
_BUILT_IN = frozenset(_CONTAINER_TYPES)


@functools.lru_cache(maxsize=1024)
def _find_container_type(cls: type) -> ContainerType | None:
    found = _CONTAINER_TYPES.get(cls)
    if found is not None:
        return found
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED_TUPLE
    return _DATACLASS if hasattr(cls, "__dataclass_fields__") else None


#: Takes a class. Returns how to flatten its instances, or None if they are leaves.
container_type: Callable[[type], ContainerType | None] = _find_container_type


@overload
def register(cls: T, /, *, attributes: Sequence[str] | None = None) -> T: ...
@overload
def register(
    cls: T,
    /,
    *,
    flatten: Callable[..., tuple[Iterable[object], object]],
    unflatten: Callable[..., object],
) -> T: ...
@overload
def register(*, attributes: Sequence[str]) -> Callable[[T], T]: ...
def register(
    cls: Any = None,
    /,
    *,
    attributes: Sequence[str] | None = None,
    flatten: Callable[..., tuple[Iterable[object], object]] | None = None,
    unflatten: Callable[..., object] | None = None,
) -> Any:
    """Make the instances of a class containers; a function or a class decorator.

    Named tuples and dataclasses are containers without registration. A field of a dataclass with
    `metadata={"static": True}` is not a child, but part of the structure. Without `unflatten`, instances are recreated
    without a call of `__init__`.

    Args:
        cls: the class. Its subclasses are not registered.
        attributes: the names of the attributes that are children, by default all; the others are part of the structure.
        flatten: instead of `attributes`: takes an instance, and returns its children and auxiliary data.
        unflatten: takes the auxiliary data and a tuple of children, and returns an instance.

    Returns:
        The class.

    Raises:
        ArgumentTypeError: `cls` is not a class, or is a class of tensors, arrays or Python's containers.
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
        raise ArgumentError("ag.tree.register takes flatten and unflatten together, not one of them")
    if flatten is not None and attributes is not None:
        raise ArgumentError("ag.tree.register takes attributes, or flatten and unflatten, not both")
    if cls is None:
        return lambda decorated: register(decorated, attributes=attributes)
    if not inspect.isclass(cls):
        raise ArgumentTypeError(f"ag.tree.register takes a class, not {type(cls).__name__} {cls!r}")
    if cls in _BUILT_IN or issubclass(cls, (TensorBase, np.ndarray, np.generic)):
        raise ArgumentTypeError(
            f"ag.tree.register takes a class of your own, not {cls.__name__}, whose role in trees is fixed"
        )
    _CONTAINER_TYPES[cls] = (
        _by_attributes(attributes) if flatten is None or unflatten is None else _by_functions(flatten, unflatten)
    )
    _find_container_type.cache_clear()
    return cls


def register_model(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten: Callable[[Any, Any, Sequence[Any]], Any],
    differentiated: Callable[[Any], frozenset[str]],
) -> None:
    """Make the instances of a class containers that transforms take as models: see `ContainerType.is_model`.

    Args:
        cls: the class.
        flatten: takes an instance. Returns its children, and a tuple whose first entry has their attribute names.
        unflatten: takes the class, such a tuple and the children. Returns an instance.
        differentiated: takes such a tuple; see `ContainerType.differentiated`.
    """
    _CONTAINER_TYPES[cls] = ContainerType(flatten, unflatten, _attribute_names, _ATTRIBUTE, True, differentiated)
    _find_container_type.cache_clear()


def _by_attributes(names: Sequence[str] | None) -> ContainerType:
    if isinstance(names, str):
        raise ArgumentTypeError(f"ag.tree.register: attributes must be a list of names, not a str: write [{names!r}]")
    return ContainerType(
        lambda value: _flatten_attributes(value, _attributes(value) if names is None else names),
        _unflatten_attributes,
        _attribute_names,
        _ATTRIBUTE,
    )


def _by_functions(flatten: Callable[[Any], Any], unflatten: Callable[[Any, tuple[Any, ...]], Any]) -> ContainerType:
    def flatten_container(value: Any) -> tuple[Sequence[Any], Any]:
        children, aux_data = flatten(value)
        return tuple(children), aux_data

    return ContainerType(
        flatten_container, lambda cls, aux_data, children: unflatten(aux_data, tuple(children)), _indices, _INDEX
    )
