"""Calls that would be right in PyTorch, and that Python refuses before asyncgrad hears of them: what to write instead.

`x.sum(dim=0)` is refused by the method, which has the two words as arguments for that alone. A function of NumPy's
refuses the word itself, and `x.size()` is a call of Python's int: those errors get a note where they pass asyncgrad on
their way, from a module's forward, a derivative or `ag.run`. Nothing of that costs a call that is right.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable
from types import CodeType
from typing import Any, Never, TypeVar

from ...errors import ArgumentTypeError

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
    "is_leaf": "x.is_leaf without parentheses",
}
_UNKNOWN_WORD = re.compile(r"(.*)\(\) got an unexpected keyword argument '(\w+)'.*")
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
    """Add a note to an error of Python's that a word of PyTorch has caused; do nothing with any other."""
    if type(error) is not TypeError:
        return
    text = str(error)
    note = None
    if (found := _UNKNOWN_WORD.fullmatch(text)) is not None:
        if (right := _WORDS.get(found[2])) is not None:
            note = f"{found[2]}= is PyTorch's word; NumPy's functions and asyncgrad's take {right}"
    elif _NO_FUNCTION.fullmatch(text) is not None:
        name = _called_attribute(error)
        if (right := _NO_METHODS.get(name)) is not None:
            note = f"{name} is an attribute, as NumPy has it, and no method: write {right}"
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _called_attribute(error: BaseException) -> str:
    """Return the name of the attribute that was called where an error was raised; "" where it cannot be told."""
    entry = error.__traceback__
    if entry is None:
        return ""
    while entry.tb_next is not None:
        entry = entry.tb_next
    return _attribute_at(entry.tb_frame.f_code, entry.tb_lasti)


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
