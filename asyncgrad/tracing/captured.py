"""What a function reads besides its arguments: closures and globals, its own and those of the functions that it calls.

Tensors, arrays and modules that the function itself reads there are arguments of its program. What else there is must
be the same for a program to be right: numbers, settings in a dict or an object, and other functions.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, final

from ..core.settings.closures import MISSING, content_of, contents_of_cells
from .object_key import has_arrays, is_fixed, key_of
from .reads import check_names, global_names, imported_modules, names_of_attributes
from .trace import Untraceable

__all__ = [
    "Captured",
    "CapturedNames",
    "Place",
    "names_of",
    "own_values_of",
]

#: Where something is read: "closure", "global", "import", "code", "default" or "attribute", and the name there.
Place = tuple[str, str]


@final
class Captured:
    """What a function has captured at a call.

    Args:
        values: what has numbers, by the place where it was found.
        key: what else there is; two calls with equal keys read the same.
    """

    __slots__ = ("key", "values")

    def __init__(self, values: dict[Place, Any], key: Hashable) -> None:
        self.values = values
        self.key = key


@final
class _Objects(NamedTuple):
    """What was read of a function, and where; each call compares it."""

    code: types.CodeType
    defaults: tuple[Any, ...] | None
    names: list[tuple[str, Any]]
    modules: list[tuple[str, Any]]
    cells: list[tuple[types.CellType, Any]]
    attributes: list[tuple[str, Any]]


@final
class CapturedNames:
    """Where a function reads what it has captured.

    Args:
        function: a function; of another callable nothing is known.
    """

    __slots__ = ("_attribute_names", "_changing", "_code", "_function", "_imports", "_last", "_last_objects", "_names")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._last_objects: _Objects | None = None
        #: What may change without being another object, such as an attribute of a function, and its key.
        self._changing: list[tuple[Any, Hashable]] = []
        self._last: Captured = Captured({}, ())
        self._code: types.CodeType | None = None

    def read(self) -> Captured:
        """Return what is there now.

        Raises:
            Untraceable: it is too much to compare in each call.
        """
        function = self._function
        if not isinstance(function, types.FunctionType) or (self._is_as_it_was(function) and self._has_not_changed()):
            return self._last
        code = function.__code__
        if code is not self._code:
            check_names(code)
            self._code = code
            self._names = sorted(global_names(code))
            self._imports = [name for name, _ in imported_modules(code, function.__globals__)]
            self._attribute_names = names_of_attributes(code)
        found = list(names_of(function))
        values = {place: one for place, one in found if place[0] in ("closure", "global") and has_arrays(one)}
        keys = [(place, key_of(one, self._attribute_names)) for place, one in found if place not in values]
        self._last = Captured(values, tuple(keys))
        # What has numbers is looked at by who has these.
        objects = dict(found)
        self._changing = [(objects[place], key) for place, key in keys if not is_fixed(key)]
        self._last_objects = self._objects(function)
        return self._last

    def _objects(self, function: types.FunctionType) -> _Objects:
        names = function.__globals__
        return _Objects(
            function.__code__,
            function.__defaults__,
            [(name, names.get(name, MISSING)) for name in self._names],
            [(name, sys.modules.get(name)) for name in self._imports],
            [(cell, content_of(cell)) for cell in function.__closure__ or ()],
            _attributes_of(function),
        )

    def _is_as_it_was(self, function: types.FunctionType) -> bool:
        """Tell whether all that was read last is the same object."""
        # Each call asks, and a whole call of a small function takes some 30 us.
        last = self._last_objects
        if last is None:
            return False
        code, defaults, found, modules, cells, attributes = last
        if function.__code__ is not code or function.__defaults__ is not defaults:
            return False
        if (function.__kwdefaults__ or function.__dict__ or attributes) and not _are_same(
            _attributes_of(function), attributes
        ):
            return False
        names = function.__globals__
        for name, one in found:
            if names.get(name, MISSING) is not one:
                return False
        for cell, one in cells:
            if content_of(cell) is not one:
                return False
        return not modules or all(sys.modules.get(name) is one for name, one in modules)

    def _has_not_changed(self) -> bool:
        """Tell whether what was read last, and is the same object, still has the same key."""
        try:
            return all(key_of(one, self._attribute_names) == key for one, key in self._changing)
        except Untraceable:
            # It has got an array, say, and may be an argument now.
            return False

    def function_with(self, values: dict[Place, Any]) -> Callable[..., Any]:
        """Return the function with other values where those with numbers were found."""
        function = self._function
        if not values:
            return function
        assert isinstance(function, types.FunctionType)
        names = dict(function.__globals__)
        names.update({place[1]: one for place, one in values.items() if place[0] == "global"})
        cells = tuple(
            types.CellType(values["closure", name]) if ("closure", name) in values else cell
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        return made


def _attributes_of(function: types.FunctionType) -> list[tuple[str, Any]]:
    return [*(function.__kwdefaults__ or {}).items(), *vars(function).items()]


def _are_same(some: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> bool:
    return len(some) == len(others) and all(
        name == other_name and one is other for (name, one), (other_name, other) in zip(some, others, strict=True)
    )


def names_of(function: types.FunctionType) -> Iterator[tuple[Place, Any]]:
    """Yield each place at which a function reads what is not its own, and what is there."""
    code, names = function.__code__, function.__globals__
    for name, content in zip(code.co_freevars, contents_of_cells(function), strict=True):
        yield ("closure", name), content
    for name in sorted(global_names(code)):
        yield ("global", name), names.get(name, MISSING)
    for name, module in imported_modules(code, names):
        yield ("import", name), module
    yield from own_values_of(function)


def own_values_of(function: types.FunctionType) -> Iterator[tuple[Place, Any]]:
    """Yield the code of a function, its defaults and its attributes, each with its place."""
    yield ("code", ""), function.__code__
    for index, default in enumerate(function.__defaults__ or ()):
        yield ("default", f"{index}"), default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield ("default", name), default
    for name, value in vars(function).items():
        yield ("attribute", name), value
