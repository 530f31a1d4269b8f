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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.tree.structure import flatten
from .captured import names_of
from .object_key import has_arrays, is_array, is_of_a_library
from .trace import Refusal, Trace, Value

__all__ = ["refuse_arrays_of_others"]

#: Packages whose own arrays stay as they are, such as the windows that they keep.
_LIBRARIES = {"asyncgrad", "numpy", "scipy"}
#: How many containers may lie one in another.
_DEPTH = 6
#: How many containers are looked at at a depth: who refers to which is told in a time that grows with their number.
_MOST_PARTS = 64


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
    referred: dict[int, tuple[np.ndarray, Value]] = {}
    for value in constants.values():
        # Held by the Value, by a name here, and as an argument; a base, by the constants that are views of it.
        array, base = value.array, value.array.base
        owner = kept.get(id(array))
        if owner is None and isinstance(base, np.ndarray):
            owner = kept.get(id(base))
        if owner is not None:
            raise _refusal(value, owner, name)
        if _is_held(array, 3):
            referred[id(array)] = array, value
        if isinstance(base, np.ndarray) and _is_held(base, 3 + views[id(base)] + (id(base) in constants)):
            referred[id(base)] = base, value
    own |= {id(referred), *map(id, referred.values())}
    found = _owner_among_referrers([array for array, _ in referred.values()], own)
    if found is not None:
        raise _refusal(referred[id(found[0])][1], found[1], name)


def _refusal(value: Value, owner: str, name: str) -> Refusal:
    """Return the error for an array that somebody keeps."""
    where = f" (used first at {value.line})" if value.line else ""
    return Refusal(
        f"{name}, which ag.jit compiles, reads an array of shape {value.array.shape} that is no argument, and that "
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


def _is_held(array: np.ndarray, held: int) -> bool:
    """Tell whether more refer to an array than the `held` that are known."""
    # One more as an argument of this function, and one of its caller's.
    return sys.getrefcount(array) > held + 1


def _owner_among_referrers(arrays: Sequence[np.ndarray], own: set[int]) -> tuple[np.ndarray, str] | None:
    """Return one of several arrays that somebody keeps, with who does, in words; None if nobody but libraries does.

    Objects that gc has frozen keep nothing. Each look at who refers to something reads the whole heap, so there is one
    for all that is found at a depth (test_what_keeps_arrays_is_found_by_few_looks_at_the_heap).

    Args:
        arrays: the arrays.
        own: the ids of objects that do not count; more are added.
    """
    roots: dict[int, np.ndarray] = {id(array): array for array in arrays}
    parts: list[Any] = list(arrays)
    for _ in range(_DEPTH + 1):
        if not parts:
            return None
        if len(parts) > _MOST_PARTS:
            # Constants of a library, which many programs keep, cannot be written into, and do not change:
            # test_a_constant_that_many_programs_keep_is_no_reason_to_refuse_another.
            parts = [part for part in parts if roots[id(part)].flags.writeable]
        if len(parts) > _MOST_PARTS:
            return roots[id(parts[0])], "more than can be looked at"
        if not parts:
            return None
        referrers = gc.get_referrers(*parts)
        own |= {id(parts), id(referrers), id(roots), id(arrays)}
        containers: list[Any] = []
        for one in referrers:
            # Iterators and the like come and go.
            if id(one) in own or isinstance(one, types.FrameType) or type(one).__name__.endswith("iterator"):
                continue
            root = next((roots[id(part)] for part in gc.get_referents(one) if id(part) in roots), None)
            if root is None:
                # Another thread has changed it meanwhile.
                continue
            if isinstance(one, dict) and "__spec__" in one:
                owner = _owner_by_name(str(one.get("__name__")))
            elif isinstance(one, (dict, list, tuple, set, types.CellType, TensorBase)):
                own.add(id(one))
                roots[id(one)] = root
                containers.append(one)
                continue
            else:
                owner = _owner_by_class(one)
            if owner is not None:
                return root, owner
        parts = containers
    return None


def _owner_by_name(module: str) -> str | None:
    return None if module.partition(".")[0] in _LIBRARIES else f"module {module}"


def _owner_by_class(one: object) -> str | None:
    if isinstance(one, types.FunctionType):
        return None if is_of_a_library(one) else f"function {one.__qualname__}"
    package = type(one).__module__.partition(".")[0]
    return (
        None
        if package in {*_LIBRARIES, "builtins", "functools", "weakref"}
        else f"an object of class {type(one).__name__}"
    )
