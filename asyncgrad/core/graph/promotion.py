"""The mode that warns where an operation on tensors of few bits gives a result of more: of float32, a float64."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import PromotionWarning
from ..arrays.tensor_base import TensorBase
from ..arrays.values import raw
from ..settings.callers import ROUNDING, WRITING, is_own_file
from ..settings.observers import CREATION_HOOKS, ObserverBlock
from .calls import call_of

if TYPE_CHECKING:
    from .node_like import NodeLike

__all__ = ["warn_on_promotion"]

#: What the file name of the wrapper of a primitive begins with: its arguments are the operands.
_WRAPPER = "<asyncgrad: call of "
#: The node of a conversion, which the user has asked for, or which another operation needs that is looked at itself.
_CONVERSION = "CopyBackwards"


@final
class warn_on_promotion(ObserverBlock):
    """Inside, an operation on a tensor that gives a wider floating dtype warns, at the line that calls it.

    NumPy gives float64 for a float32 array beside a float64 array, or beside a number of NumPy's such as `np.sqrt(d)`.
    A model in float32 becomes one in float64 by one such line, and everything after it takes twice the memory. Numbers
    of Python never do that. The PromotionWarning names the operands and their dtypes, and what to write.

    It looks at operations that are recorded, of NumPy's functions and of `asyncgrad.nn`; an operand that was widened
    unrecorded is named where it meets a recorded one. `np.interp` and `np.cov`, which convert what they are given
    before they compute, `astype`, a dtype that the call names, and writes into a wider tensor do not warn. It is a
    context manager, and a decorator of functions, generators and their async kinds, and holds for the current context
    only. Python shows a warning once for each line, unless filters say otherwise:
    `warnings.simplefilter("error", ag.errors.PromotionWarning)` raises at the first.

    Example:
        >>> import warnings, numpy as np, asyncgrad as ag
        >>> h = ag.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
        >>> with ag.warn_on_promotion(), warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     y = h / np.sqrt(2), h / 2**0.5
        >>> [one.category.__name__ for one in caught], [str(one.dtype) for one in y]
        (['PromotionWarning'], ['float64', 'float32'])
    """

    __slots__ = ()
    _observers = CREATION_HOOKS

    def _value(self) -> Any:
        hooks = CREATION_HOOKS.of_context()
        return hooks if _look_at in hooks else (*hooks, _look_at)


def _look_at(node: NodeLike) -> None:
    """Warn if a node is that of an operation whose result is wider than an operand; a creation hook."""
    if node.name == _CONVERSION or not node.next_nodes:
        return
    result = _widest(node)
    inputs = _inputs(node)
    if result is None or not any(_is_narrower(dtype, result) for dtype in inputs):
        return
    frame: FrameType | None = sys._getframe(1)
    operands: list[Any] = []
    is_asked_for = False
    while frame is not None and _is_library(frame):
        if frame.f_globals.get("__name__") in WRITING or _rounds(frame):
            return
        is_asked_for = is_asked_for or _names_dtype(frame)
        if not operands and frame.f_code.co_filename.startswith(_WRAPPER):
            operands = _operands(frame)
        elif not operands and frame.f_code.co_name == "__array_function__":
            operands = _arrays_in(frame.f_locals["args"])
        frame = frame.f_back
    narrow = next(dtype for dtype in inputs if _is_narrower(dtype, result))
    wide = next((one for one in operands if _widens(_dtype_of(one), narrow)), None)
    # If no operand is wider, the user has named the dtype of the result, or it is that of a Function, or the function
    # gives no narrower one, as np.float_power does.
    is_wide = any(_bits(dtype) == _bits(result) for dtype in inputs) if not operands else not is_asked_for
    is_wide = is_wide or wide is not None
    if frame is not None and is_wide:
        _warn(frame, _text(_name(node, frame), operands, wide, narrow, result))


def _name(node: NodeLike, frame: FrameType) -> str:
    """Return the name of an operation as the user has written it; that of its node where that is not known."""
    call = call_of(frame)
    if call is None:
        return node.name.removesuffix("Backward").lower()
    return call.name if call.name[:1].isalpha() else f"the operator {call.name}"


def _widest(node: NodeLike) -> np.dtype | None:
    """Return the widest floating dtype of the results of a node's operation; None if it has none."""
    found = [slot.dtype for slot in node.input_metadata if slot is not None and _bits(slot.dtype)]
    return max(found, key=_bits, default=None)


def _inputs(node: NodeLike) -> list[np.dtype]:
    """Return the dtypes of the operands that gradients flow to."""
    dtypes = []
    for before, number in zip(node.next_nodes, node.input_nrs, strict=True):
        slot = None if before is None else before.input_metadata[number]
        if slot is not None and slot.dtype is not None:
            dtypes.append(np.dtype(slot.dtype))
    return dtypes


def _bits(dtype: Any) -> int:
    """Return how many bits a floating dtype, or each part of a complex one, has; 0 for any other."""
    if dtype is None or dtype.kind not in "fcV":
        return 0
    return int(dtype.itemsize) * (4 if dtype.kind == "c" else 8)


def _is_narrower(dtype: np.dtype, result: np.dtype) -> bool:
    return 0 < _bits(dtype) < _bits(result)


def _is_library(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return is_own_file(frame.f_code.co_filename) or name.partition(".")[0] in ("numpy", "scipy")


def _operands(frame: FrameType) -> list[Any]:
    """Return the arrays, tensors and numbers of NumPy's that a wrapper was given."""
    code = frame.f_code
    return _arrays_in([frame.f_locals[name] for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]])


def _rounds(frame: FrameType) -> bool:
    """Tell whether an operation on float16 alone, whose frame this is, computes in a wider dtype and rounds that."""
    code, names = frame.f_code, frame.f_locals
    if code.co_name != "by_single" or frame.f_globals.get("__name__") not in ROUNDING:
        return False
    half = np.dtype(np.float16)
    given = _arrays_in((*names["args"], *names["kwargs"].values()))
    # Shares of a quantile in a list are an array of float64 to NumPy.
    has_list = any(isinstance(one, (list, tuple)) for one in names["args"][1:2])
    return not (has_list or any(_is_narrower(half, _dtype_of(one)) for one in given))


def _names_dtype(frame: FrameType) -> bool:
    """Tell whether an argument of an operation, whose frame this is, names a dtype."""
    code = frame.f_code
    if code.co_name == "__array_function__":
        named, given = frame.f_locals["kwargs"], frame.f_locals["args"]
    elif code.co_filename.startswith(_WRAPPER):
        named, given = frame.f_locals, ()
    else:
        return False
    return named.get("dtype") is not None or any(map(_is_dtype, given))


def _is_dtype(value: Any) -> bool:
    """Tell whether a value is a dtype or the name of one; letters alone are subscripts or an order."""
    if isinstance(value, str):
        return value in np.sctypeDict and len(value) > 1
    return isinstance(value, (type, np.dtype))


def _arrays_in(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _arrays_in(value)
        elif isinstance(value, (TensorBase, np.ndarray, np.generic)):
            found.append(value)
    return found


def _text(name: str, operands: Sequence[Any], wide: Any, narrow: np.dtype, result: np.dtype) -> str:
    shown = " and ".join(map(_described, operands)) or f"a {narrow} tensor and a wider operand"
    if wide is None:
        instead = f".astype(np.{narrow}) of the {'result' if operands else 'wider operand'}"
    elif isinstance(wide, TensorBase) or wide.ndim:
        kind = "tensor" if isinstance(wide, TensorBase) else "array"
        instead = f".astype(np.{narrow}) of the {_dtype_of(wide)} {kind}"
    else:
        python = {"c": "complex", "f": "float"}.get(wide.dtype.kind, "int")
        instead = f"{python}(...) of the {wide.dtype} number, as a number of Python leaves the dtype as it is"
    return f"{narrow} becomes {result}: {name} of {shown} gives {result}, by NumPy's rule. Write {instead}"


def _widens(dtype: np.dtype, narrow: np.dtype) -> bool:
    """Tell whether an operand of a dtype makes a narrow one wider: whole numbers of many bits do, too."""
    return _is_narrower(narrow, np.result_type(narrow, dtype)) if dtype.kind in "biufc" else False


def _dtype_of(operand: Any) -> np.dtype:
    dtype: np.dtype = raw(operand).dtype
    return dtype


def _described(operand: Any) -> str:
    dtype = _dtype_of(operand)
    article = "an" if dtype.kind == "i" else "a"
    if not isinstance(operand, TensorBase) and not operand.ndim:
        return f"{article} {dtype} number {operand}"
    kind = "tensor" if isinstance(operand, TensorBase) else "array"
    return f"{article} {dtype} {kind} of shape {np.shape(raw(operand))}"


def _warn(frame: FrameType, text: str) -> None:
    """Issue the warning for the line of a frame, as `warnings.warn` there would."""
    namespace: dict[str, Any] = frame.f_globals
    warnings.warn_explicit(
        text,
        PromotionWarning,
        frame.f_code.co_filename,
        frame.f_lineno or 0,
        module=namespace.get("__name__") or "<unknown>",
        registry=namespace.setdefault("__warningregistry__", {}),
    )
