"""How NumPy's dispatch protocols reach the rules: ufuncs and their methods, functions, and `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import GRAD_MODE
from ..errors import InPlaceError, MissingDerivativeError
from ..graph.tracked import Tracked
from .primitive import RULES

__all__ = ["call_function", "call_ufunc", "refuse_history", "write"]

#: What `ufunc.reduce` and `ufunc.accumulate` are called when they have a name of their own.
_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


def missing(name: str) -> MissingDerivativeError:
    """Return the error for a NumPy function that has no rule."""
    return MissingDerivativeError(
        f"{name} has no derivative rule, so asyncgrad will not run it on a Tensor. Call it on t.numpy() if no "
        "gradient is to flow through it, or write a rule with asyncgrad.extend.primitive or an ag.Function"
    )


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc, or one of its methods, on inputs of which one at least is a Tensor."""
    if method == "__call__":
        rule = RULES.get(ufunc)
        if rule is None:
            raise missing(f"numpy.{ufunc.__name__}")
        if not kwargs:
            return rule(*inputs)
        return _with_keywords(ufunc, rule, inputs, kwargs)
    if method == "outer":
        first, second = inputs
        expanded = np.reshape(first, np.shape(first) + (1,) * np.ndim(second))
        return call_ufunc(ufunc, "__call__", (expanded, second), kwargs)
    table = {"reduce": _REDUCTIONS, "accumulate": _ACCUMULATIONS}.get(method, {})
    function = table.get(ufunc)
    if function is None:
        raise missing(f"numpy.{ufunc.__name__}.{method}")
    axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
    return call_function(function, (inputs[0],), {"axis": axis, **kwargs})


def _with_keywords(ufunc: np.ufunc, rule: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    # Of ufuncs, only those on vectors (vecdot) have an axis.
    axis = {"axis": kwargs.pop("axis")} if ufunc.signature is not None and "axis" in kwargs else {}
    if kwargs:
        raise TypeError(f"numpy.{ufunc.__name__} on a Tensor does not take {', '.join(kwargs)}")
    if where is not True and out is None:
        raise TypeError(f"numpy.{ufunc.__name__} with where= leaves the rest undefined: pass out= as well")
    if dtype is not None:
        inputs = tuple(value.astype(dtype) if hasattr(value, "astype") else value for value in inputs)
    result = rule(*inputs, **axis)
    return _put(out, result, where)


def call_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy function on arguments of which one at least is, or holds, a Tensor."""
    rule = RULES.get(function)
    if rule is None:
        raise missing(f"{getattr(function, '__module__', 'numpy')}.{function.__name__}")
    out = kwargs.pop("out", None)
    result = rule(*args, **kwargs)
    return _put(out, result, True)


def _put(out: Any, result: Any, where: Any) -> Any:
    """Return a result, or several, written where `out=` says; as it is where that says nothing."""
    if out is None:
        return result
    if isinstance(result, tuple):
        places = zip(out, result, strict=True)
        return tuple(part if place is None else write(place, part, where) for place, part in places)
    return write(out[0] if isinstance(out, tuple) else out, result, where)


def refuse_history(out: Any, *sources: Any) -> None:
    """Raise if a write into `out`, from `sources`, would have to be recorded.

    Raises:
        InPlaceError: grad mode is on and one of them requires grad, or `out` is an array and a source does.
    """
    if not GRAD_MODE.get() and isinstance(out, Tracked):
        return
    for value in (out, *sources):
        if isinstance(value, Tracked) and value._requires_grad():
            made_by = "a leaf" if value._grad_fn is None else f"made by {value._grad_fn.name}"
            raise InPlaceError(
                f"writing in place {'into' if value is out else 'from'} a tensor of shape {value._data.shape} that "
                f"requires grad ({made_by}) is not supported yet: compute a new tensor (x = x + y, "
                "np.where(mask, new, old)), or write inside `with ag.no_grad():` if no gradient is to flow"
            )


def write(out: Any, result: Any, where: Any = True) -> Any:
    """Write a result into `out`, in place, with NumPy's casting rule; return `out`.

    Raises:
        InPlaceError: the write would have to be recorded.
    """
    refuse_history(out, result, where)
    tracked = isinstance(out, Tracked)
    raw_result, raw_where = (value._data if isinstance(value, Tracked) else value for value in (result, where))
    np.copyto(out._data if tracked else out, raw_result, where=raw_where)
    if tracked:
        out._bump_version()
    return out
