"""The call that was replayed last: another one like it is known by a comparison, without a key.

What compares is a function that is written for that call. It takes the arguments apart and looks at one after the
other, which takes a third of the time of a loop over them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.graph.creation import RecordingOnly
from ..core.settings.context import GENERATOR, GRAD_MODE
from ..core.settings.source import SourceWriter
from ..core.tensor import Tensor
from ..core.tree.structure import TreeStructure, flatten
from ..nn.modules.module import Module, ModuleLayout, layout_of
from .call_key import CONTEXT, Static, has_grad, key_of_leaf, places_of, whole_context
from .captured import Captured
from .draws import TracedGenerator
from .error_ways import ErrorWays
from .object_key import is_fixed, is_unchanging_class, key_of_class, key_of_structure
from .variant import Variant

__all__ = ["LastCall", "Parts"]

#: The leaves of a call, the arrays and tensors among them, each once, and the arrays of these.
Parts = tuple[list[Any], list[Any], list[np.ndarray]]

#: What the functions that compare use besides the constants of a call.
_NAMES: dict[str, Any] = {
    "RecordingOnly": RecordingOnly,
    "Tensor": Tensor,
    "TracedGenerator": TracedGenerator,
    "flatten": flatten,
    "has_grad": has_grad,
    "key_of_class": key_of_class,
    "key_of_leaf": key_of_leaf,
    "key_of_structure": key_of_structure,
    "ndarray": np.ndarray,
}


@final
class LastCall:
    """What a call must be like for a program that has been compared to run again.

    Args:
        variant: the program.
        leaves: the leaves of the call.
        structure: their structure.
        captured: what the function had captured.
        state: what it had read, but for the numbers of arrays and the context.
    """

    __slots__ = ("_captured", "_parts_of", "places", "state", "structure", "variant")

    def __init__(
        self, variant: Variant, leaves: Sequence[Any], structure: TreeStructure, captured: Captured, state: Hashable
    ) -> None:
        self.variant = variant
        self.state = state
        self.structure = structure
        self.places = places_of(leaves)
        self._captured = captured
        self._parts_of = _function_for(structure, leaves, self.places)

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any], captured: Captured) -> Parts | None:
        """Return the parts of a call that is like this one; None for one that is not."""
        if captured is not self._captured and captured.key != self._captured.key:
            return None
        return self._parts_of(args, kwargs, captured.values)


def _function_for(
    structure: TreeStructure, leaves: Sequence[Any], places: Sequence[int | None]
) -> Callable[[tuple[Any, ...], dict[str, Any], dict[Any, Any]], Parts | None]:
    """Return the function that compares calls with one of these leaves.

    Args:
        structure: that of the arguments, the keyword arguments and what was captured.
        leaves: the leaves.
        places: which of the arrays and tensors each leaf is.
    """
    writer = _Writer(leaves, places)
    writer.compare_context()
    roots = "args", "kwargs", "values"
    for name, child in zip(roots, structure.children, strict=True):
        writer.take_apart(name, child)
    return writer.function()


@final
class _Writer:
    """Writes the function that compares.

    Args:
        leaves: the leaves of a call.
        places: which of the arrays and tensors each leaf is.
    """

    __slots__ = ("_classes", "_found", "_index", "_leaves", "_names", "_places", "_source")

    def __init__(self, leaves: Sequence[Any], places: Sequence[int | None]) -> None:
        self._leaves = leaves
        self._places = places
        #: How many leaves have been reached.
        self._index = 0
        #: The classes of modules that have been compared.
        self._classes: set[type] = set()
        #: The names of the arrays and tensors, by their numbers, and of the arrays of these.
        self._found: dict[int, tuple[str, str]] = {}
        self._names = 0
        self._source = SourceWriter(dict(_NAMES))
        self._source.begin("def parts_of(args, kwargs, values)")

    def function(self) -> Callable[[tuple[Any, ...], dict[str, Any], dict[Any, Any]], Parts | None]:
        """Return the function."""
        leaves = [f"leaf_{index}" for index in range(self._index)]
        numbered = [name for name, _ in self._found.values()]
        if len(numbered) > 1:
            self._refuse(f"len({{{', '.join([f'id({name})' for name in numbered])}}}) != {len(numbered)}")
        arrays = [array for _, array in self._found.values()]
        self._source.write(f"return [{', '.join(leaves)}], [{', '.join(numbered)}], [{', '.join(arrays)}]")
        return self._source.run("comparison of calls")[0]

    def compare_context(self) -> None:
        """Compare the settings of the context with what they are now.

        Within another function that is traced, a call is a part of the program of that one.
        """
        *values, ways = whole_context()
        for variable, value in zip(CONTEXT, values, strict=True):
            now, name = self._new("setting"), self._constant("setting", value)
            self._source.write(f"{now} = {self._constant('setting_of', variable.get)}()")
            # A profile of the programs that run changes nothing else.
            known = f" and {now}.__class__ is not RecordingOnly" if variable is GRAD_MODE and value is True else ""
            self._refuse(f"{now} is not {name}{known} and {now} != {name}")
        self._refuse(f"not {self._constant('ways', ErrorWays(ways).are_now)}()")
        self._refuse(f"{self._constant('generator', GENERATOR.get)}().__class__ is TracedGenerator")

    def take_apart(self, name: str, structure: TreeStructure) -> None:
        """Compare a tree that has a name with what it was, and give its leaves names."""
        cls, children = structure.cls, structure.children
        if cls is None:
            self._compare_leaf(name)
            return
        if cls is type(None):
            self._refuse(f"{name} is not None")
            return
        if issubclass(cls, Module) and (layout := layout_of(structure)) is not None:
            self._compare_module(name, cls, structure.children, layout)
            return
        if cls not in (tuple, list, dict) or (cls is dict and not all(map(_is_text, structure.labels))):
            self._compare_by_structure(name, structure)
            return
        if cls is dict:
            keys = self._constant("keys", tuple(structure.labels))
            self._refuse(f"type({name}) is not dict or tuple({name}) != {keys}" if children else f"{name} != {{}}")
        else:
            self._refuse(f"type({name}) is not {cls.__name__} or len({name}) != {len(children)}")
        parts = self._names_of_parts(children)
        if children:
            self._source.write(f"{', '.join(parts)}, = {name}{'.values()' if cls is dict else ''}")
        for part, child in zip(parts, children, strict=True):
            self.take_apart(part, child)

    def _names_of_parts(self, children: Sequence[TreeStructure]) -> list[str]:
        return [self._new("part") if child.cls is not None else self._leaf_name(k) for k, child in _placed(children)]

    def _compare_module(self, name: str, cls: type, children: Sequence[TreeStructure], layout: ModuleLayout) -> None:
        """Compare a model with what it was, attribute by attribute."""
        constant = self._constant("class", cls)
        self._refuse(f"type({name}) is not {constant}")
        if cls not in self._classes and not is_unchanging_class(cls):
            self._refuse(f"key_of_class({constant}) != {self._constant('key', key_of_class(cls))}")
        self._classes.add(cls)
        attributes = self._new("attributes")
        self._source.write(f"{attributes} = {name}.__dict__")
        self._refuse(f"tuple({attributes}) != {self._constant('names', layout.attributes)}")
        parts = dict(zip(layout.parts, self._names_of_parts(children), strict=True))
        named = {one: parts.get(one) or self._new("attribute") for one in layout.attributes}
        self._source.write(f"{', '.join(named.values())}, = {attributes}.values()")
        known = ", ".join([self._constant("known", one) for one in layout.known])
        self._refuse(f"not {named[layout.record]}.has_layout({known})")
        for attribute, value in layout.others.items():
            self._compare_other(named[attribute], value)
        for part, child in zip(layout.parts, children, strict=True):
            self.take_apart(parts[part], child)

    def _compare_by_structure(self, name: str, structure: TreeStructure) -> None:
        """Compare a container that Python does not have built in, such as a model."""
        found, now = self._new("found"), self._new("now")
        self._source.write(f"{found}, {now} = flatten({name})")
        before, key = self._constant("structure", structure), self._constant("key", key_of_structure(structure))
        self._refuse(f"{now} != {before} or key_of_structure({now}) != {key}")
        names = [self._leaf_name(index) for index in range(structure.count)]
        if names:
            self._source.write(f"{', '.join(names)}, = {found}")
        for one in names:
            self._compare_leaf(one)

    def _compare_leaf(self, name: str) -> None:
        leaf, place = self._leaves[self._index], self._places[self._index]
        self._index += 1
        if place is None:
            self._compare_other(name, leaf)
        elif place in self._found:
            self._refuse(f"{name} is not {self._found[place][0]}")
        else:
            array = name
            if isinstance(leaf, TensorBase):
                array = self._new("array")
                self._compare_tensor(name, leaf)
                self._source.write(f"{array} = {name}._data")
            self._compare_array(array, leaf._data if isinstance(leaf, TensorBase) else leaf)
            self._found[place] = name, array

    def _compare_other(self, name: str, leaf: object) -> None:
        if type(leaf) in (int, bool, str, bytes):
            kind, value = type(leaf).__name__, self._constant("value", leaf)
            self._refuse(f"type({name}) is not {kind} or {name} != {value}")
            return
        key = key_of_leaf(leaf)
        # What cannot change is most often the same object.
        is_same = f"{name} is not {self._constant('value', leaf)} and " if _cannot_change(leaf, key) else ""
        self._refuse(f"{is_same}key_of_leaf({name}) != {self._constant('key', key)}")

    def _compare_tensor(self, name: str, tensor: TensorBase) -> None:
        meta, has_history = tensor._meta, tensor._grad_fn is not None
        device = self._constant("device", tensor._device)
        self._refuse(
            f"type({name}) is not Tensor or {name}._device is not {device} "
            f"or {name}._grad_fn is {'' if has_history else 'not '}None"
        )
        if meta is None and tensor._view is None and not has_history:
            self._refuse(f"{name}._meta is not None or {name}._view is not None")
            return
        if not has_history and meta is not None and meta.requires_grad:
            own = self._new("meta")
            self._source.write(f"{own} = {name}._meta")
            other = "" if has_grad(tensor) else "not "
            self._refuse(f"{own} is None or not {own}.requires_grad or {own}.grad is {other}None")
            return
        requires_grad = "not " if tensor._requires_grad() else ""
        self._refuse(f"{requires_grad}{name}._requires_grad() or has_grad({name}) is not {has_grad(tensor)}")

    def _compare_array(self, name: str, array: np.ndarray) -> None:
        shape, dtype = self._constant("shape", array.shape), self._constant("dtype", array.dtype)
        # In C order, of which the flags tell, they follow from the shape, but for those of axes of one element.
        told = array.flags.c_contiguous and min(array.shape, default=2) > 1
        strides = "" if told else f"or {name}.strides != {self._constant('strides', array.strides)} "
        self._refuse(
            f"type({name}) is not ndarray or {name}.shape != {shape} {strides}"
            f"or ({name}.dtype is not {dtype} and {name}.dtype != {dtype}) "
            f"or {name}.flags.num != {array.flags.num} or {name}.base is {'not ' if array.base is None else ''}None"
        )

    def _refuse(self, condition: str) -> None:
        self._source.write(f"if {condition}: return None")

    def _constant(self, name: str, value: object) -> str:
        return self._source.constant(f"{name}_of_call", value)

    def _new(self, name: str) -> str:
        self._names += 1
        return f"{name}_{self._names}"

    def _leaf_name(self, ahead: int) -> str:
        """Return the name of the leaf that comes after so many others from here."""
        return f"leaf_{self._index + ahead}"


def _is_text(key: object) -> bool:
    """Tell whether a key is a string, or a place at which a function reads: equal ones are the same."""
    return type(key) is str or (type(key) is tuple and all(type(one) is str for one in key))


def _cannot_change(leaf: object, key: Hashable) -> bool:
    """Tell whether a leaf is the same as long as it is the same object, which may be kept.

    A mark is made for each call, but for that of the plan of an update, which is of constants.
    """
    return (
        type(leaf) is Static
        or is_fixed(key)
        or (type(leaf) is tuple and all(type(one) in (int, bool, float, str) for one in leaf))
    )


def _placed(children: Sequence[TreeStructure]) -> list[tuple[int, TreeStructure]]:
    """Return each child with the number of leaves before it."""
    found, before = [], 0
    for child in children:
        found.append((before, child))
        before += child.count
    return found
