"""What a frame of Python code is calling, told by its bytecode: a function that is written in C has no frame."""

from __future__ import annotations

import functools
import inspect
from importlib import import_module
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

__all__ = ["Call", "call_of"]


class Call(NamedTuple):
    """A call, or an operation, that a frame is in the middle of."""

    #: As it is written: "np.random.normal", "a.clip"; for an operation "%", "[]" or "[]=", say.
    name: str
    #: The function; None where it is not known.
    function: Any
    #: The object that the function is a method of; None where it is a method of none, or that is not known.
    owner: Any


def call_of(frame: FrameType) -> Call | None:
    """Return the call that a frame is making; None if it is none, or if the bytecode does not tell.

    Only names, and attributes of modules and classes, are looked up, so that no code of the user's runs.
    """
    names = _written(frame.f_code, frame.f_lasti)
    if names is None:
        return None
    root, *attributes = names
    if not attributes and not root.isidentifier():
        return Call(root, None, None)
    found: Any = _lookup(frame, root)
    owner = None
    for attribute in attributes:
        if attribute.endswith("()") or found is None:
            owner = found = None
        elif isinstance(found, (ModuleType, type)):
            owner, found = None, inspect.getattr_static(found, attribute, None)
            found = getattr(found, "__func__", found)
        else:
            owner, found = found, getattr(type(found), attribute, None)
    return Call(".".join(names), found, owner)


def _lookup(frame: FrameType, name: str) -> Any:
    for namespace in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in namespace:
            return namespace[name]
    return None


#: The operations that have instructions of their own.
_SUBSCRIPTS = {"BINARY_SUBSCR": "[]", "STORE_SUBSCR": "[]="}


@functools.lru_cache(maxsize=256)
def _written(code: CodeType, offset: int) -> tuple[str, ...] | None:
    """Return the names that the function of a call is written with, or the operator of an operation.

    A name ends in `()` where what was looked up there is the result of a call.

    Args:
        code: the code of a frame.
        offset: of the instruction that the frame is at.
    """
    # Imported here: errors, and numbers that are printed, alone need it.
    instructions = list(import_module("dis").get_instructions(code))
    at = next((index for index, one in enumerate(instructions) if one.offset == offset), None)
    if at is None:
        return None
    current = instructions[at]
    if current.opname in _SUBSCRIPTS:
        return (_SUBSCRIPTS[current.opname],)
    if current.opname == "BINARY_OP":
        return (current.argrepr.removesuffix("="),)
    start = current.positions
    if not current.opname.startswith(("CALL", "PRECALL")) or start is None or start.col_offset is None:
        return None
    names: list[str] = []
    called = False
    # What a call calls begins where the call begins: a name, and the attributes that follow it.
    for one in reversed(instructions[:at]):
        place = one.positions
        if place is None or place[0] != start[0] or place[2] != start[2] or place == start:
            continue
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF") or (
            one.opname.startswith("LOAD_FAST") and isinstance(one.argval, str)
        ):
            names.insert(0, f"{one.argval}()" if called else str(one.argval))
            called = False
            if one.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                return tuple(names)
        elif one.opname.startswith("CALL"):
            called = True
        elif one.opname not in ("PRECALL", "PUSH_NULL", "KW_NAMES", "EXTENDED_ARG", "CACHE", "NOP"):
            return None
    return None
