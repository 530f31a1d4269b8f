"""Arrays that a traced function reads, and that are neither arguments nor made by it.

Its program would not see another one in their place. They are looked for in two ways: from the functions that it calls,
as far as their globals and closures lead, and from the arrays that the trace has met, by what refers to them.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.tree.structure import flatten
from .captured import names_of
from .object_key import has_arrays, is_array, is_of_a_library
from .trace import Refusal, Trace

__all__ = ["refuse_arrays_of_others"]

#: Packages whose own arrays stay as they are, such as the windows that they keep.
_LIBRARIES = {"asyncgrad", "numpy", "scipy"}
#: How many containers may lie one in another.
_DEPTH = 6


def refuse_arrays_of_others(trace: Trace, function: Callable[..., Any], leaves: Iterable[Any], name: str) -> None:
    """Raise if an array of the trace is kept by somebody else; called when the traced run has ended.

    Args:
        trace: the trace.
        function: what was traced.
        leaves: the leaves of its arguments, without the arrays that are arguments of the program.
        name: that of the function.

    Raises:
        Refusal: it is kept by a module, a closure or an object that is no library's.
    """
    kept = dict(_arrays_read_by(function, leaves))
    constants = {id(one.array): one for one in trace.values if one.kind == "constant"}
    views = Counter(id(one.array.base) for one in constants.values() if isinstance(one.array.base, np.ndarray))
    own: set[int] = {id(one) for one in trace.values} | {id(constants)}
    for value in constants.values():
        # Held by the Value, by a name here, and as an argument; a base, by the constants that are views of it.
        array, base = value.array, value.array.base
        owner = kept.get(id(array)) or _owner_by_references(array, 3, own)
        if owner is None and isinstance(base, np.ndarray):
            owner = kept.get(id(base)) or _owner_by_references(base, 3 + views[id(base)] + (id(base) in constants), own)
        if owner is not None:
            where = f" (used first at {value.line})" if value.line else ""
            raise Refusal(
                f"{name}, which ag.jit compiles, reads an array of shape {array.shape} that is no argument, and that "
                f"{owner} keeps{where}: its program would not see it change; pass it as an argument"
            )


def _arrays_read_by(function: Callable[..., Any], leaves: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """Yield the arrays that the functions called by a function can read, and the objects among its arguments."""
    seen: set[int] = set()
    for leaf in leaves:
        yield from _arrays_in(leaf, f"an object of class {type(leaf).__name__}", seen, _DEPTH)
    if isinstance(function, types.FunctionType):
        seen.add(id(function))
        for _, value in names_of(function):
            # What it reads itself is an argument of its program, if it is a tree of arrays.
            if not has_arrays(value):
                yield from _arrays_in(value, f"an object of class {type(value).__name__}", seen, _DEPTH)


def _arrays_in(value: Any, owner: str, seen: set[int], depth: int) -> Iterator[tuple[int, str]]:
    for leaf in flatten(value)[0]:
        if isinstance(leaf, TensorBase):
            yield id(leaf._data), owner
        elif isinstance(leaf, np.ndarray):
            yield id(leaf), owner
        elif depth and id(leaf) not in seen and not is_of_a_library(leaf):
            seen.add(id(leaf))
            yield from _arrays_of(leaf, seen, depth - 1)


def _arrays_of(leaf: Any, seen: set[int], depth: int) -> Iterator[tuple[int, str]]:
    if isinstance(leaf, (types.MethodType, types.BuiltinFunctionType)):
        yield from _arrays_in(leaf.__self__, f"an object of class {type(leaf.__self__).__name__}", seen, depth)
        leaf = getattr(leaf, "__func__", None)
    if isinstance(leaf, functools.partial):
        yield from _arrays_in([leaf.func, list(leaf.args), dict(leaf.keywords)], "a partial", seen, depth)
    if isinstance(leaf, types.FunctionType):
        for (kind, name), value in names_of(leaf):
            owner = f"{kind} {name} of {leaf.__module__}.{leaf.__qualname__}"
            yield from _arrays_in(value, owner, seen, depth)
    elif isinstance(leaf, types.ModuleType):
        for name, value in vars(leaf).items():
            if is_array(value):
                yield from _arrays_in(value, f"{name} of module {leaf.__name__}", seen, 0)
    elif not isinstance(leaf, type) and type(getattr(leaf, "__dict__", None)) is dict:
        for value in list(vars(leaf).values()):
            yield from _arrays_in(value, f"an object of class {type(leaf).__name__}", seen, depth)


def _owner_by_references(array: np.ndarray, held: int, own: set[int]) -> str | None:
    # One more as an argument of this function.
    return _owner(array, own, _DEPTH) if sys.getrefcount(array) > held + 1 else None


def _owner(part: Any, own: set[int], depth: int) -> str | None:
    """Return who keeps an object, in words; None for nobody, for a library, and for objects that gc has frozen."""
    for one in gc.get_referrers(part):
        # Iterators and the like come and go.
        if id(one) in own or isinstance(one, types.FrameType) or type(one).__name__.endswith("iterator"):
            continue
        found: str | None = None
        if isinstance(one, dict) and "__spec__" in one:
            name = str(one.get("__name__"))
            found = None if name.partition(".")[0] in _LIBRARIES else f"module {name}"
        elif isinstance(one, (dict, list, tuple, set, types.CellType, TensorBase)):
            own.add(id(one))
            found = _owner(one, own, depth - 1) if depth else None
        elif isinstance(one, types.FunctionType):
            found = None if is_of_a_library(one) else f"function {one.__qualname__}"
        elif type(one).__module__.partition(".")[0] not in {*_LIBRARIES, "builtins", "functools", "weakref"}:
            found = f"an object of class {type(one).__name__}"
        if found is not None:
            return found
    return None
