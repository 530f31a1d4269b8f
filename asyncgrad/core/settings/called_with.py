"""Calls that Python refuses before asyncgrad hears of them, as those that are right in PyTorch: what to write instead.

`x.sum(dim=0)` is refused by the method, which has the two words as arguments for that alone. A function of NumPy's
refuses the word itself, and `x.size()` is a call of Python's int: those errors get a note where they pass asyncgrad on
their way, from a module's forward, a derivative or `ag.run`. Nothing of that costs a call that is right.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable
from types import CodeType, CoroutineType, FunctionType, MethodType
from typing import Any, Never, TypeVar

import numpy as np

from ...errors import ArgumentTypeError
from .unawaited import called_for

__all__ = ["note_what_to_write", "refuse_unbiased", "refuse_words_of_torch", "with_words_of_torch"]

F = TypeVar("F", bound=Callable[..., Any])

#: By PyTorch's name of an argument, what NumPy's functions and asyncgrad's have.
_WORDS = {
    "dim": "axis=",
    "dims": "axis=",
    "dim0": "axis1= in swapaxes(axis1, axis2)",
    "keepdim": "keepdims=",
    "unbiased": "ddof=1 for unbiased=True, and ddof=0, which is the default, for unbiased=False",
    "descending": "np.flip of the sorted array",
    "start_dim": "nn.Flatten(start_dim=1), or x.reshape(len(x), -1)",
    "input": "the array as the first argument, without a name",
    "other": "the array as the second argument, without a name",
    "min_value": "min_val=",
    "max_value": "max_val=",
}
#: By the name of an attribute that PyTorch has as a method, what to write instead of its call.
_NO_METHODS = {
    "size": "x.shape for the lengths of all axes, x.shape[0] for one; x.size is the number of elements",
    "shape": "x.shape without parentheses, or x.shape[0]",
    "ndim": "x.ndim without parentheses",
    "dtype": "x.dtype without parentheses, or x.astype(dtype)",
    "device": "x.device without parentheses, or x.to(device)",
    "T": "x.T without parentheses",
    "mT": "x.mT without parentheses",
    "real": "x.real without parentheses",
    "imag": "x.imag without parentheses",
    "grad": "x.grad without parentheses, after await loss.backward()",
    "requires_grad": "x.requires_grad without parentheses, or x.requires_grad_()",
    "name": "node.name without parentheses",
    "is_leaf": "x.is_leaf without parentheses",
}
_UNKNOWN_WORD = re.compile(r"(.*)\(\) got an unexpected keyword argument '(\w+)'.*")
_AWAITED = re.compile(r"(?:object |')(?:\w+\.)*(\w+)(?: can't be used in 'await' expression|' object can't be awaited)")
_ENTERED = re.compile(r"'(\w+)' object does not support the (?:asynchronous )?context manager protocol")
#: By the end of the name of a class whose objects are entered in another way, or not at all.
_ENTERING = {
    "type": "a class is no context: write parentheses, as in with ag.no_grad():",
    "Learner": "write async with in place of with",
    "Follower": "write async with in place of with",
    "limit": "write async with in place of with",
    "LiveServer": "write async with in place of with",
    "grad": "write with in place of async with",
    "Device": "write ag.tensor(data, device=device), x.to(device) or model.to(device): a device is no context",
}
#: How Python refuses a coroutine in place of its result, in an operation, an index or a list of names.
_COROUTINE = re.compile(r".*(?:'coroutine' object is not |non-iterable coroutine object|operand type.*'coroutine').*")
#: What is asked of a loss. NumPy's arrays, and methods that are not called, have none of these.
_OF_LOSSES = ("backward", "grad", "grad_fn", "requires_grad")
#: What Python says where a gradient that is not there yet is computed with, or asked for something.
_WITHOUT_GRADIENT = re.compile(r".*'NoneType'.*")
_GRADIENT = "its grad is None until a backward has reached it: write await loss.backward(), with the await, before this"
#: What Python says where a method that is not called is taken for its result.
_UNCALLED = re.compile(r"'(?:builtin_function_or_method|function|method)' object is not (?:iterable|subscriptable)")
#: What asyncio says where it is given a method that is not called.
_NO_COROUTINE = re.compile(r"a coroutine was expected, got <(?:bound method|function) .*", re.DOTALL)
#: By the name of a class, how what it makes is entered that is awaited in vain.
_ENTERED_AND_NOT_AWAITED = {"LiveServer": "ag.engine.serve_live()", "limit": "ag.limit(...)"}
_NO_FUNCTION = re.compile(r"'[\w.]+' object is not callable")


def with_words_of_torch(function: F) -> F:
    """Leave `dim` and `keepdim` out of the signature that is shown of a function, which has them to refuse them."""
    signature = inspect.signature(function)
    shown = [one for name, one in signature.parameters.items() if name not in ("dim", "keepdim")]
    setattr(function, "__signature__", signature.replace(parameters=shown))  # noqa: B010
    return function


def refuse_words_of_torch(call: str, dim: object, keepdim: object = None) -> Never:
    """Say what to write instead of `dim=` and `keepdim=`.

    Args:
        call: the call up to these arguments, as "x.sum(".
        dim: what was given; None for nothing.
        keepdim: likewise.

    Raises:
        ArgumentTypeError: always.
    """
    wrong = [f"{name}={value!r}" for name, value in (("dim", dim), ("keepdim", keepdim)) if value is not None]
    right = [f"{name}={value!r}" for name, value in (("axis", dim), ("keepdims", keepdim)) if value is not None]
    raise ArgumentTypeError(
        f"{call}{', '.join(wrong)}) has PyTorch's words, and asyncgrad has NumPy's: write {call}{', '.join(right)})"
    )


def refuse_unbiased(call: str, unbiased: object) -> Never:
    """Say what to write instead of `unbiased=`.

    Raises:
        ArgumentTypeError: always.
    """
    raise ArgumentTypeError(
        f"{call}unbiased={unbiased!r}) has a word of PyTorch's, whose default is ddof=1, and NumPy's is ddof=0: write "
        f"{call}ddof={int(bool(unbiased))})"
    )


def note_what_to_write(error: BaseException) -> None:
    """Add a note to an error of Python's whose cause is known: a word of PyTorch, a forgotten or needless `await`.

    It does nothing with any other.
    """
    if error.__traceback__ is None:
        return
    if type(error) is AttributeError:
        note = _note_on_result(error)
    elif type(error) is TypeError:
        note = _note_on_call(error)
    else:
        return
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _note_on_result(error: AttributeError) -> str | None:
    """Return what to write where an attribute of a result was looked for at what holds the result."""
    name = error.name
    if name is None:
        return None
    if error.obj is None and _attribute_where_raised(error) == "grad":
        return _GRADIENT
    if isinstance(error.obj, CoroutineType):
        return f"a coroutine has no result until it is awaited: write (await {called_for(error.obj)}(...)).{name}"
    if name in _OF_LOSSES and isinstance(error.obj, (np.ndarray, np.generic)):
        return (
            f"NumPy's arrays have no {name}: what is computed from tensors that require grad is a tensor, until "
            ".numpy() or .item() takes the numbers out of it"
        )
    if name in _OF_LOSSES and isinstance(error.obj, (MethodType, FunctionType)):
        method = error.obj.__name__
        return f"{method} is not called: write parentheses, as in x.{method}().{name}"
    if isinstance(error.obj, tuple) and error.obj and all(hasattr(type(one), name) for one in error.obj):
        kind = type(error.obj[0]).__name__
        return f"it is a tuple, whose elements of type {kind} have {name}: write one, = ... in place of one = ..."
    return None


def _note_on_call(error: TypeError) -> str | None:
    """Return what to write where a call or an operation was refused."""
    text = str(error)
    if (found := _AWAITED.fullmatch(text)) is not None:
        kind = found[1]
        if kind in _ENTERED_AND_NOT_AWAITED:
            return f"it is entered, and not awaited: write async with {_ENTERED_AND_NOT_AWAITED[kind]}:"
        if kind in ("method", "function"):
            return "a function is called before it is awaited: write parentheses, as in await loss.backward()"
        return f"what is awaited here is there already, and is of type {kind}: write it without await"
    if (found := _ENTERED.match(text)) is not None:
        return next((note for kind, note in _ENTERING.items() if found[1].endswith(kind)), None)
    if text == "An asyncio.Future, a coroutine or an awaitable is required":
        return "a function is called before it is gathered: write parentheses, as in gather(loss.backward())"
    if _COROUTINE.fullmatch(text) is not None:
        return "a coroutine has no result until it is awaited: write await before the call that made it"
    if _UNCALLED.fullmatch(text) is not None:
        return "a method is taken for what it returns: write parentheses, as in model.parameters()"
    if _NO_COROUTINE.fullmatch(text) is not None:
        return "a function is called before it becomes a task: write parentheses, as in create_task(loss.backward())"
    if text == "unhashable type: 'list'" and _innermost(error).co_name == "gather":
        return "asyncio.gather takes each coroutine as an argument: write gather(*coroutines)"
    if _WITHOUT_GRADIENT.fullmatch(text) is not None and _is_of_gradient(error):
        return _GRADIENT
    if text == "Object of type Tensor is not JSON serializable":
        return "JSON has numbers and lists: write t.item() for the one number, or t.tolist()"
    note = None
    if (found := _UNKNOWN_WORD.fullmatch(text)) is not None:
        if (right := _WORDS.get(found[2])) is not None:
            note = f"{found[2]}= is PyTorch's word; NumPy's functions and asyncgrad's take {right}"
    elif _NO_FUNCTION.fullmatch(text) is not None:
        name = _attribute_where_raised(error)
        if (right := _NO_METHODS.get(name)) is not None:
            note = f"{name} is an attribute, as NumPy has it, and no method: write {right}"
    return note


def _innermost(error: BaseException) -> CodeType:
    """Return the code that raised an error."""
    return _place(error)[0]


def _place(error: BaseException) -> tuple[CodeType, int]:
    """Return the code that raised an error which passes through a frame, and the offset of the instruction."""
    entry = error.__traceback__
    assert entry is not None
    while entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame.f_code, entry.tb_lasti


def _attribute_where_raised(error: BaseException) -> str:
    """Return the name of the attribute that was called, or asked for another one, where an error was raised, or ""."""
    return _attribute_at(*_place(error))


def _is_of_gradient(error: BaseException) -> bool:
    """Tell whether an operand of what has failed is written as the grad of something."""
    code, offset = _place(error)
    instructions = list(dis.get_instructions(code))
    failed = next((_extent(one) for one in instructions if one.offset == offset), None)
    gradients = [_extent(one) for one in instructions if one.opname == "LOAD_ATTR" and one.argval == "grad"]
    return failed is not None and any(
        one is not None and failed[0] <= one[0] and one[1] <= failed[1] for one in gradients
    )


def _extent(instruction: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the line and the column where what an instruction does begins in the source, and where it ends."""
    place = instruction.positions
    if place is None or place.lineno is None or place.end_lineno is None:
        return None
    if place.col_offset is None or place.end_col_offset is None:
        return None
    return (place.lineno, place.col_offset), (place.end_lineno, place.end_col_offset)


def _attribute_at(code: CodeType, offset: int) -> str:
    # What is called begins where the call does, and is computed last of all that begins there: arguments begin later.
    names: dict[Any, str] = {}
    for one in dis.get_instructions(code):
        place = None if one.positions is None else (one.positions.lineno, one.positions.col_offset)
        if one.offset == offset:
            return names.get(place, "")
        if place is None or None in place:
            continue
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names[place] = str(one.argval)
        elif one.opname.startswith(("BINARY", "CALL")):
            names[place] = ""
    return ""
