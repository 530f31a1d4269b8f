"""By what an object that a function reads is compared from call to call: by all of it that may change.

An object of which that is not known, such as one of a class that is written in C, keeps a function eager.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import io
import logging
import operator
import pathlib
import random
import re
import sys
import threading
import types
import uuid
from collections import deque
from collections.abc import Hashable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.engine.device import Device
from ..core.tree.registry import container_type
from ..core.tree.structure import TreeStructure, flatten
from ..nn.modules.module import Module, static_entries
from .trace import Untraceable

__all__ = [
    "Same",
    "has_arrays",
    "is_array",
    "is_fixed",
    "is_immutable",
    "is_library_name",
    "is_of_a_library",
    "is_unchanging_class",
    "key_of",
    "key_of_class",
    "key_of_structure",
]


#: Packages of which nothing is looked at: what their functions read does not change.
_LIBRARIES = {"asyncgrad", "numpy", "scipy"} | set(sys.stdlib_module_names) - {"__main__"}
#: How many objects may lie one in another.
_DEPTH = 5

#: Numbers and text: compared by value.
_PLAIN = frozenset({type(None), bool, int, str, bytes})
_NUMBERS_AND_TEXT = _PLAIN | {float, complex}
#: What cannot change, or only in what it does besides computing, such as where a log goes.
_UNCHANGING = (
    types.CodeType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.EllipsisType,
    types.NotImplementedType,
    types.GenericAlias,
    types.UnionType,
    np.ufunc,
    type(np.concatenate),
    np.dtype,
    np.finfo,
    np.iinfo,
    operator.attrgetter,
    operator.itemgetter,
    range,
    re.Pattern,
    pathlib.PurePath,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    io.IOBase,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    Device,
)


@final
class Same:
    """A key that equals only that of the same object, which it keeps."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_array(leaf: object) -> bool:
    """Tell whether a leaf has numbers that change from call to call."""
    return isinstance(leaf, (TensorBase, np.ndarray))


def has_arrays(value: object) -> bool:
    """Tell whether something is an array, a model, or a tree with an array."""
    if is_array(value):
        return True
    container = container_type(type(value))
    # A model is an argument also where it has none: to look for them takes as long as to take it apart.
    return container is not None and (container.is_model or any(map(is_array, flatten(value)[0])))


def is_of_a_library(value: object) -> bool:
    """Tell whether a function, a class or a module belongs to a library, whose own state does not change."""
    if isinstance(value, types.ModuleType):
        return is_library_name(value.__name__)
    if isinstance(value, (type, types.FunctionType)):
        return is_library_name(value.__module__)
    if isinstance(value, types.BuiltinFunctionType):
        # Such as the method `get` of a dict, which is bound to it; `__self__` of others is their module, or None.
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    # An object of asyncgrad that is called, as a function is; one that keeps arrays, such as a spline, is the user's.
    is_called = callable(value) and type(value).__module__.partition(".")[0] == "asyncgrad"
    return (
        is_called and container_type(type(value)) is None and not any(is_array(one) for _, one in _attributes_of(value))
    )


def is_library_name(name: object) -> bool:
    """Tell whether a module of this name belongs to a library."""
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES


def key_of(value: Any, names: frozenset[str] | None = None, largest: int = -1) -> Hashable:
    """Return what must be equal for what is read of a value to be the same.

    Args:
        value: any object.
        names: the names that the reader has for attributes of modules; None for any.
        largest: how many bytes an array has at most that is compared by its numbers.

    Raises:
        Untraceable: it has arrays, or gives another number each time, or is not known to stay as it is.
    """
    try:
        walk = _Walk(largest)
        if isinstance(value, types.ModuleType):
            return walk.of_module(value, names, _DEPTH)
        return walk.part(value, _DEPTH)
    except RecursionError:
        raise Untraceable("it reads objects that contain themselves") from None


def is_fixed(key: Hashable) -> bool:
    """Tell whether what has this key is the same as long as it is the same object."""
    return type(key) is Same or (type(key) is tuple and len(key) == 2 and key[0] in _NUMBERS_AND_TEXT)


def is_immutable(value: object) -> bool:
    """Tell whether nothing in a value can be changed: numbers, text, types, and tuples of them."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_immutable, value))
    return type(value) in _NUMBERS_AND_TEXT or isinstance(value, (type, *_UNCHANGING))


def key_of_class(cls: type) -> Hashable:
    """Return what must be equal of a class: what is in it, and in those that it derives from."""
    try:
        return _Walk(-1).of_class(cls, _DEPTH)
    except RecursionError:
        raise Untraceable("it reads objects that contain themselves") from None


def is_unchanging_class(cls: type) -> bool:
    """Tell whether a class belongs to a library, as all do that it derives from."""
    return all(is_library_name(one.__module__) for one in (*cls.__mro__, type(cls)))


def key_of_structure(structure: TreeStructure) -> Hashable:
    """Return what must be equal of a tree besides what its structure compares: attributes, keys and classes."""
    try:
        return _Walk(-1).of_structure(structure, _DEPTH)
    except RecursionError:
        raise Untraceable("it reads objects that contain themselves") from None


@final
class _Walk:
    """A walk through an object and those that it refers to.

    Args:
        largest: as for `key_of`.
    """

    __slots__ = ("_classes", "_largest", "_seen")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        #: What has been met, which is kept so that nothing else gets its id.
        self._seen: dict[int, Any] = {}
        self._classes: set[type] = set()

    def part(self, value: Any, depth: int) -> Hashable:
        """Return the key of a value, which may be a tree."""
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if container_type(kind) is None:
            return self._leaf(value, depth)
        leaves, structure = flatten(value)
        return structure, self.of_structure(structure, depth), *[self._leaf(one, depth) for one in leaves]

    def _parts(self, values: Any, depth: int) -> Hashable:
        return tuple([self.part(one, depth) for one in values])

    def _leaf(self, value: Any, depth: int) -> Hashable:
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if kind is float or kind is complex or (isinstance(value, np.generic) and not isinstance(value, np.void)):
            # 0.0 and -0.0 are equal, and no NaN is.
            return kind, repr(value)
        if is_array(value):
            if kind is np.ndarray and value.nbytes <= self._largest and value.dtype.kind in "biufc":
                return value.shape, value.dtype, value.strides, value.tobytes()
            raise Untraceable(
                "it may read an array that is no argument, and that is too large to be compared"
                if self._largest >= 0
                else "an object that keeps arrays and is no tree"
            )
        if isinstance(value, _UNCHANGING) or id(value) in self._seen:
            return Same(value)
        self._seen[id(value)] = value
        if isinstance(value, (type, types.FunctionType)) and is_of_a_library(value):
            return Same(value)
        if isinstance(value, types.FunctionType):
            return self._of_user_function(value, value, vars(value), depth)
        if hasattr(kind, "attributes_of_users"):
            # A compiled function.
            return self._of_user_function(value, value.function, value.attributes_of_users(), depth)
        if isinstance(value, type):
            return self.of_class(value, depth)
        if isinstance(value, types.ModuleType):
            return self.of_module(value, None, depth)
        if is_of_a_library(value):
            return Same(value)
        if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            raise Untraceable("a generator of random numbers that is not that of ag.random")
        if hasattr(kind, "__next__"):
            raise Untraceable(f"an iterator, {kind.__name__}")
        return self._of_callable(value, depth) or self._of_object(value, depth)

    def _of_callable(self, value: Any, depth: int) -> Hashable:
        """Return the key of a method or of a partial; None for what is neither."""
        if isinstance(value, types.MethodType):
            return Same(value.__func__), self.part(value.__self__, depth)
        if isinstance(value, types.BuiltinFunctionType):
            return value.__name__, self.part(value.__self__, depth)
        if isinstance(value, functools.partial):
            return Same(value), self._parts([value.func, list(value.args), dict(value.keywords)], depth)
        if isinstance(value, functools._lru_cache_wrapper):
            # What it returns next may be what it has returned before, changed since.
            raise Untraceable(f"a function with a cache, {getattr(value, '__name__', 'without a name')}")
        return None

    def _of_user_function(self, value: Any, function: Any, attributes: dict[str, Any], depth: int) -> Hashable:
        # What it reads is compared where it runs.
        code = getattr(function, "__code__", None)
        return Same(value), Same(code), tuple(attributes), self._parts(attributes.values(), depth - 1)

    def of_module(self, module: types.ModuleType, names: frozenset[str] | None, depth: int) -> Hashable:
        """Return the key of a module: of what the reader has a name for, of a library of what can change at all.

        Args:
            module: the module.
            names: as for `key_of`.
            depth: how many objects may lie in it, one in another.
        """
        found = vars(module)
        is_library = is_of_a_library(module)
        if is_library and names is None:
            return Same(module)
        keys: list[Hashable] = []
        for name in sorted(found.keys() if names is None else names & found.keys()):
            one = found[name]
            if name.startswith("__") or (names is None and isinstance(one, types.ModuleType)):
                continue
            if is_library and (type(one) in _PLAIN or callable(one) or isinstance(one, (float, types.ModuleType))):
                continue
            key = self.of_module(one, names, depth) if isinstance(one, types.ModuleType) else self.part(one, depth)
            keys.append((name, key))
        if is_library and not keys:
            return Same(module)
        return Same(module), "module", *keys

    def of_structure(self, structure: TreeStructure, depth: int) -> Hashable:
        """Return what must be equal of the containers of a tree, which are compared by `==` otherwise."""
        cls, found = structure.cls, [self.of_structure(one, depth) for one in structure.children if one.cls is not None]
        if cls is None:
            return ()
        own: tuple[Hashable, ...] = ()
        if issubclass(cls, Module):
            entries = static_entries(structure)
            own = self.of_class(cls, depth), tuple([(name, self.part(one, depth)) for name, one in entries])
        elif cls is dict:
            if not all(type(key) is str for key in structure.labels):
                own = (self._parts(structure.labels, depth),)
        elif cls not in (tuple, list):
            own = self.of_class(cls, depth), self.part(structure.aux_data, depth)
        return (own, *found) if own or any(found) else ()

    def _of_object(self, value: Any, depth: int) -> Hashable:
        kind = type(value)
        contents = self._contents(value, depth)
        if contents is None and not _has_only_attributes(kind):
            # With its module: other libraries have a Tensor too.
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            raise Untraceable(f"an object of class {name}, of which nobody can tell whether it has changed")
        found = dict(_attributes_of(value))
        if not depth and found:
            raise Untraceable(f"an object of class {kind.__name__} lies too deep in others to be compared in each call")
        key = self.of_class(kind, depth - 1), contents, tuple(found), self._parts(found.values(), depth - 1)
        # What has contents has no other state: another one with equal contents does as well.
        return key if contents is not None else (Same(value), *key)

    def _contents(self, value: Any, depth: int) -> Hashable:
        """Return the key of what a container or a number of Python has besides attributes; None for other objects."""
        if isinstance(value, (dict, types.MappingProxyType)):
            factory = getattr(value, "default_factory", None)
            return self._parts([factory, *value.keys(), *value.values()], depth)
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            return self._parts(value, depth)
        if isinstance(value, slice):
            return self._parts([value.start, value.stop, value.step], depth)
        if isinstance(value, (KeysView, ValuesView, ItemsView)) and hasattr(value, "mapping"):
            return self.part(dict(value.mapping), depth)
        if isinstance(value, (int, float, complex, str, bytes, bytearray)):
            base = next(one for one in (int, float, complex, str, bytes, bytearray) if isinstance(value, one))
            return base, base.__repr__(value)
        return None

    def of_class(self, cls: type, depth: int) -> Hashable:
        """Return what must be equal of a class and of those that it derives from: what is in them."""
        if cls in self._classes:
            return Same(cls)
        self._classes.add(cls)
        found: list[Hashable] = [Same(cls)]
        if not is_library_name(type(cls).__module__):
            found.append(self.of_class(type(cls), depth))
        for one in cls.__mro__:
            if is_library_name(one.__module__):
                continue
            for name, value in list(vars(one).items()):
                # Other names of two underlines are made with the class, and the memory of instance checks changes.
                if name == "_abc_impl" or (name.startswith("__") and not isinstance(value, types.FunctionType)):
                    continue
                one_value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
                found.append((name, Same(value) if _is_descriptor(value) else self.part(one_value, depth)))
        return tuple(found)


#: Bits of `__flags__`: of classes that are made at run time, and of those whose attributes cannot be set.
_MADE, _FIXED = 1 << 9, 1 << 8


def _is_descriptor(value: object) -> bool:
    """Tell whether a class attribute is a property, or one by code in C, such as a slot or a field of a named tuple."""
    kind = type(value)
    is_of_python = kind.__flags__ & _MADE and not kind.__flags__ & _FIXED
    is_known = isinstance(value, (types.FunctionType, staticmethod, classmethod, type))
    return isinstance(value, property) or (hasattr(kind, "__get__") and not is_of_python and not is_known)


def _has_only_attributes(cls: type) -> bool:
    """Tell whether objects of a class have nothing besides Python's attributes: no state that code in C keeps."""
    if cls.__itemsize__:
        return False
    words = sum(1 for one in cls.__mro__ for name in _slots(one) if name not in ("__dict__", "__weakref__"))
    words += (cls.__dictoffset__ != 0) + (cls.__weakrefoffset__ != 0)
    return cls.__basicsize__ <= object.__basicsize__ + 8 * words


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, by their names."""
    attributes = getattr(value, "__dict__", {})
    if type(attributes) is not dict:
        raise Untraceable(f"an object of class {type(value).__name__}, whose __dict__ is no dict")
    yield from attributes.items()
    for cls in type(value).__mro__:
        for name in _slots(cls):
            is_private = name.startswith("__") and not name.endswith("__")
            full = f"_{cls.__name__.lstrip('_')}{name}" if is_private else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, full):
                yield full, getattr(value, full)
