"""What the functions read that run while a function is traced: it must be the same when its program runs.

The arguments, and what the function itself reads, are part of the key of a call. The functions that it calls, methods
and decorated ones among them, are known only when they run: an observer of the traced run notes them.
"""

from __future__ import annotations

import functools
import gc
import inspect
import operator
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, final

from ..core.settings.callers import is_own_file
from ..core.settings.closures import MISSING, content_of, contents_of_cells
from ..core.settings.process import set_trace_function
from .captured import own_values_of
from .object_key import is_array, is_fixed, is_library_name, key_of
from .reads import check_names, global_names, imported_modules, names_of_attributes
from .trace import Untraceable

__all__ = ["Guards", "NotedFunctions"]

#: How many bytes an array has at most that is no argument, and whose numbers are compared in each call.
_LARGEST = 10_000
#: How many objects are looked at for functions that `gc.freeze` hides, and how many entries a container has at most.
_MOST_REACHED, _MOST_ENTRIES = 5_000, 100
#: What leads from one function to another.
_LEADS_ON = (
    *(dict, list, tuple, types.CellType, types.MethodType),
    *(property, staticmethod, classmethod, functools.partial),
)
#: How many decorators of a function are looked into.
_MOST_WRAPPERS = 10
#: Reads something again.
_Read = Callable[[], Any]


@final
class NotedFunctions:
    """The functions of users that have run in a block, each by its code, its globals and what was in its closure."""

    __slots__ = ("_seen", "found")

    def __init__(self) -> None:
        self.found: list[tuple[types.CodeType, dict[str, Any], tuple[Any, ...]]] = []
        self._seen: set[Hashable] = set()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the functions that run in the block; a debugger sees nothing of the block."""
        before = sys.gettrace()
        # It is called at the begin of each function, and asks for no more of any.
        if not set_trace_function(self._note):
            raise Untraceable("ASYNCGRAD_WITHOUT has calls: what the functions that it calls read is not known")
        try:
            yield
        finally:
            set_trace_function(before)

    def _note(self, frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        values: tuple[Any, ...] = ()
        if code.co_freevars:
            found = frame.f_locals
            values = tuple([found.get(name, MISSING) for name in code.co_freevars])
        key = code, *map(id, values)
        if key in self._seen:
            return
        self._seen.add(key)
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith("namedtuple_"):
            # The constructor of a named tuple, which is made of text.
            return
        if not is_library_name(name) and not is_own_file(code.co_filename) and not _is_collecting(frame):
            self.found.append((code, frame.f_globals, values))


@final
class Guards:
    """What was read in a traced run, and how to read it again.

    Args:
        noted: the functions that ran.
        main: the traced function, whose own names are part of the key.

    Raises:
        Untraceable: a function reads what cannot be compared.
    """

    __slots__ = ("_reads",)

    def __init__(self, noted: NotedFunctions, main: types.FunctionType | None) -> None:
        #: How to read something, what it was, its key unless it cannot change, and what is read of modules.
        self._reads: list[tuple[_Read, Any, Hashable, frozenset[str]]] = []
        codes = {code for code, _, _ in noted.found}
        inner = {one for code in codes for one in code.co_consts if isinstance(one, types.CodeType)}
        functions = _functions_of(codes)
        reached = functools.cache(lambda: _reached_from(noted))
        done: set[Hashable] = set()
        for code, names, values in noted.found:
            check_names(code)
            attributes = names_of_attributes(code)
            is_main = main is not None and code is main.__code__
            if not is_main and (code, id(names)) not in done:
                done.add((code, id(names)))
                self._add_globals(code, names, attributes)
            candidates = functions[code] or _by_name(code, names) or reached()[code]
            ran = [one for one in candidates if one is not main and _closure_of(one, values)]
            if is_main:
                # Its own are part of the key; those of another one that is made by the same lines are not.
                ran = [one for one in ran if not any(map(is_array, contents_of_cells(one)))]
            elif not ran and code not in inner and (code.co_freevars or code.co_argcount or code.co_kwonlyargcount):
                # It may have a closure, or defaults.
                raise Untraceable(f"it calls {code.co_qualname}, which is not found again")
            for function in ran:
                self._add_function(function, attributes, code in inner)

    def _add_globals(self, code: types.CodeType, names: dict[str, Any], attributes: frozenset[str]) -> None:
        for name in sorted(global_names(code)):
            self._add(_reader(names, name), attributes, f"global {name} of {code.co_name}")
        for name, _ in imported_modules(code, names):
            self._add(_reader(sys.modules, name), attributes, f"module {name}")

    def _add_function(self, function: types.FunctionType, attributes: frozenset[str], is_inner: bool) -> None:
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            try:
                self._add(functools.partial(content_of, cell), attributes, f"closure {name} of {function.__qualname__}")
            except Untraceable:
                # Of a function that was made in the run, so is what it closes over, or it was read before.
                if not is_inner:
                    raise
        for place, _ in own_values_of(function):
            self._add(_own_reader(function, place), attributes, f"{place[0]} {place[1]} of {function.__qualname__}")

    def _add(self, read: _Read, attributes: frozenset[str], what: str) -> None:
        value = read()
        try:
            key = key_of(value, attributes, _LARGEST)
        except Untraceable as error:
            raise Untraceable(f"{error}: {what}") from None
        self._reads.append((read, value, None if is_fixed(key) else key, attributes))

    def are_empty(self) -> bool:
        """Tell whether nothing was read that could change."""
        return not self._reads

    def hold(self) -> bool:
        """Tell whether all is as it was."""
        for read, value, key, attributes in self._reads:
            now = read()
            if now is not value or (key is not None and key_of(now, attributes, _LARGEST) != key):
                return False
        return True


def _is_collecting(frame: types.FrameType | None) -> bool:
    """Tell whether a function runs for the garbage collector, in the midst of another one."""
    codes = {getattr(one, "__code__", None) for one in gc.callbacks}
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


def _functions_of(codes: set[types.CodeType]) -> dict[types.CodeType, list[types.FunctionType]]:
    """Return the functions with each code, but for those that `gc.freeze` hides."""
    found: dict[types.CodeType, list[types.FunctionType]] = defaultdict(list)
    for one in gc.get_referrers(*codes) if codes else ():
        if isinstance(one, types.FunctionType):
            found[one.__code__].append(one)
    return found


def _by_name(code: types.CodeType, names: dict[str, Any]) -> list[types.FunctionType]:
    """Return the function with a code that a module has by its name, within a class or a decorator."""
    found: Any = None
    for part in code.co_qualname.split("."):
        found = names.get(part) if found is None else inspect.getattr_static(found, part, None)
        if found is None:
            return []
    for _ in range(_MOST_WRAPPERS):
        if isinstance(found, types.FunctionType) and found.__code__ is code:
            return [found]
        names_within = ("__wrapped__", "__func__", "fget", "func")
        inner = [getattr(found, name) for name in names_within if inspect.getattr_static(found, name, None)]
        if not inner:
            break
        found = inner[0]
    return []


def _reached_from(noted: NotedFunctions) -> dict[types.CodeType, list[types.FunctionType]]:
    """Return the functions, by their code, to which those lead that have run: by globals, closures and defaults."""
    waiting: list[Any] = []
    for other, names, values in noted.found:
        waiting += [*values, *[names.get(name) for name in global_names(other)]]
    seen: dict[int, Any] = {}
    found: dict[types.CodeType, list[types.FunctionType]] = defaultdict(list)
    while waiting and len(seen) < _MOST_REACHED:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, types.FunctionType):
            found[one.__code__].append(one)
            # Of its globals what it reads, and not all of a module.
            names = one.__globals__
            waiting += [*(one.__closure__ or ()), *(one.__defaults__ or ()), *vars(one).values()]
            waiting += [names.get(name) for name in global_names(one.__code__)]
        elif isinstance(one, _LEADS_ON) and not (isinstance(one, (dict, list, tuple)) and len(one) > _MOST_ENTRIES):
            waiting += gc.get_referents(one)
    return found


def _closure_of(function: types.FunctionType, values: tuple[Any, ...]) -> bool:
    contents = contents_of_cells(function)
    return len(contents) == len(values) and all(map(operator.is_, contents, values))


def _reader(names: dict[str, Any], name: str) -> _Read:
    return lambda: names.get(name, MISSING)


def _own_reader(function: types.FunctionType, place: tuple[str, str]) -> _Read:
    return lambda: dict(own_values_of(function)).get(place, MISSING)
