"""The names that a function reads from its globals, by its code."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .trace import Untraceable

__all__ = ["check_names", "global_names", "imported_modules", "names_of_attributes"]

#: Functions by which any name may be read.
_ANY_NAME = {"globals", "eval", "exec", "__import__"}
#: Attributes by which any name may be read, or a stream of random numbers is made or found.
_ANY_MODULE = {"import_module"}
_STREAMS = {"default_rng", "RandomState", "Random", "SystemRandom", "SeedSequence", "urandom", "uuid1", "uuid4"}
_STREAMS |= {"secrets", "token_bytes", "token_hex", "randbelow", "randbits", "PCG64", "MT19937", "Philox", "SFC64"}
#: What has a function be told of warnings, or has nobody be.
_WARNINGS = {"catch_warnings"}
#: What a tensor tells of its history, which is not that of the argument in whose place another one stands.
_HISTORY = {"_version", "retains_grad", "is_view", "_is_view", "_base", "grad_fn", "output_nr", "_backward_hooks"}


@functools.lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> frozenset[str]:
    """Return the names of the globals that a function reads, and the functions that are written in it."""
    return frozenset(_loaded(code, ("LOAD_GLOBAL", "LOAD_NAME"))).union(*map(global_names, _inner(code)))


@functools.lru_cache(maxsize=4096)
def check_names(code: types.CodeType) -> None:
    """Raise if it cannot be told by its code what a function reads.

    Raises:
        Untraceable: it may read anything.
    """
    found = global_names(code)
    if found & _ANY_NAME:
        raise Untraceable(f"{code.co_name} calls {min(found & _ANY_NAME)}, by which it may read anything")
    names = {*code.co_names}.union(*[one.co_names for one in _inner(code)])
    for some, what in (
        (_ANY_MODULE, "by which it may read anything"),
        (_STREAMS, "which makes a stream of random numbers: use ag.random"),
        (_WARNINGS, "and a program warns where it runs, not within that"),
        (_HISTORY, "what a tensor tells of its history"),
    ):
        if names & some:
            raise Untraceable(f"{code.co_qualname} reads {min(names & some)}, {what}")
    named = {name for name in code.co_names if _is_of_arrays(vars(np).get(name))}
    if named and "type" in found and _compares_types(code, named):
        raise Untraceable(
            f"{code.co_qualname} compares type(...) with {min(named)}, which a traced array is not: write isinstance"
        )


@functools.lru_cache(maxsize=4096)
def names_of_attributes(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function has for attributes of modules; what it may read by text is among them."""
    found = {*code.co_names, *(one for one in code.co_consts if isinstance(one, str))}
    return frozenset(found).union(*map(names_of_attributes, _inner(code)))


def imported_modules(code: types.CodeType, names: dict[str, Any]) -> Iterator[tuple[str, types.ModuleType]]:
    """Yield the modules that a function with these globals imports in its body, by their names."""
    package = names.get("__package__") or ""
    for level, name in sorted(_imported(code)):
        parts = package.split(".")
        base = ".".join(parts[: len(parts) - level + 1]) if level else ""
        module = sys.modules.get(f"{base}.{name}".strip("."))
        if isinstance(module, types.ModuleType):
            yield module.__name__, module


@functools.lru_cache(maxsize=4096)
def _imported(code: types.CodeType) -> frozenset[tuple[int, str]]:
    """Return the levels and the names of imports, and of what is imported from a package, which may be a module."""
    found: set[tuple[int, str]] = set()
    before: list[Any] = [0, None]
    level, of = 0, ""
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            level, of = before[-2] if isinstance(before[-2], int) else 0, one.argval
            found.add((level, of))
        elif one.opname == "IMPORT_FROM":
            found.add((level, f"{of}.{one.argval}".strip(".")))
        if one.opname.startswith("LOAD"):
            before.append(one.argval)
    return frozenset(found).union(*map(_imported, _inner(code)))


def _compares_types(code: types.CodeType, of_arrays: set[str]) -> bool:
    """Tell whether what `type(...)` returns is compared with a type of arrays, looked up in a dict, or given a name."""
    named: set[str] = set()
    waits = is_last = False
    for one in dis.get_instructions(code):
        if one.opname.startswith("CALL"):
            waits, is_last = False, waits
            continue
        if is_last and one.opname.startswith(("STORE", "BINARY_SUBSCR")):
            return True
        if one.opname.startswith(("IS_OP", "COMPARE_OP", "CONTAINS_OP")) and "type" in named and named & of_arrays:
            return True
        if one.opname.startswith(("STORE", "POP_JUMP", "POP_TOP", "RETURN")):
            named = set()
        elif one.opname.startswith("LOAD") and isinstance(one.argval, str):
            named.add(one.argval)
            waits = waits or one.argval == "type"
        is_last = is_last and one.opname in ("CACHE", "PRECALL")
    return False


def _is_of_arrays(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, (np.ndarray, np.generic))


def _loaded(code: types.CodeType, operations: tuple[str, ...]) -> Iterator[str]:
    return (one.argval for one in dis.get_instructions(code) if one.opname in operations)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (one for one in code.co_consts if isinstance(one, types.CodeType))
