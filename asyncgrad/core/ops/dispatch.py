"""How NumPy's dispatch protocols reach the rules: ufuncs and their methods, functions, and `out=`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, DeviceError, MissingDerivativeError
from ..arrays.axes import laid_by_ufunc
from ..arrays.device_arrays import as_dtype, explain_refusal, name_shapes, rename_refusal
from ..arrays.interception import add_entry_names, entered, interceptors
from ..arrays.one_device import check_one_device, several_met
from ..arrays.tensor_base import TensorBase
from ..arrays.values import is_device_array, raw, refuse_masked
from ..graph.naming import close_names, ufunc_name
from ..recording.primitive import RULES
from ..settings.arguments import must_be
from ..settings.lazy import import_deferred
from ..views.writing import (
    before_write,
    cast_for,
    copy_into,
    is_recorded,
    write,
    write_by,
    write_result,
    write_unrecorded,
)
from .core_axes import along_axes
from .nondifferentiable import NonDifferentiable

__all__ = ["FOLDS", "METHODS", "call_function", "call_ufunc", "write", "write_by", "write_exactly", "write_result"]

T = TypeVar("T")

#: The functions that `ufunc.reduce` and `ufunc.accumulate` stand for.
_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


#: For other methods of ufuncs a function, which takes the ufunc and the arguments of the method.
METHODS: dict[str, Callable[..., Any]] = {}

#: For methods that fold elements, a function that takes a ufunc of two arrays and the arguments of the method.
FOLDS: dict[str, Callable[..., Any]] = {}


#: Libraries with ufuncs for which a module of this package registers rules when it is imported.
_RULES_TO_COME = {"scipy.special"}


def _rule_of_library(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Return the rule of a ufunc that is not NumPy's, if a module of rules that is now imported has it."""
    for library in [library for library in _RULES_TO_COME if library in sys.modules]:
        import_deferred(library)
        # Only then: an import that fails is told again by the next call.
        _RULES_TO_COME.discard(library)
    return RULES.get(ufunc)


def missing(name: str) -> MissingDerivativeError:
    """Return the error for a function that has no rule."""
    near = _near(name) if name.startswith("scipy.") else ""
    return MissingDerivativeError(
        f"{name} has no derivative rule, so asyncgrad will not run it on a Tensor{near}. Call it on t.numpy() if no "
        "gradient is to flow through it, or write a rule with asyncgrad.extend.primitive or an ag.Function"
    )


def _near(name: str) -> str:
    """Return which ufuncs of SciPy with similar names have a rule."""
    module, _, last = name.rpartition(".")
    names = [one.__name__ for one in RULES if isinstance(one, np.ufunc) and getattr(np, one.__name__, None) is not one]
    near = close_names(last, names)
    return f"; {', '.join(f'{module}.{one}' for one in near)} have one" if near else ""


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a ufunc, or one of its methods, on inputs of which at least one is a Tensor."""
    if method == "__call__":
        rule = RULES.get(ufunc) or _rule_of_library(ufunc)
        if rule is None:
            if ufunc.__name__ == "clip" and ufunc.nin == 3:
                # Methods of NumPy's own arrays and numbers call it, a.clip(t, t): it has no public name.
                return call_function(np.clip, inputs, kwargs)
            raise missing(ufunc_name(ufunc))
        try:
            if not kwargs:
                return rule(*inputs)
            if several_met[0]:
                check_one_device(ufunc.__name__, inputs, kwargs)
            return _with_keywords(ufunc, rule, inputs, kwargs)
        except (TypeError, ValueError) as error:
            explain_refusal(ufunc_name(ufunc), inputs, error)
            name_shapes(ufunc_name(ufunc), inputs, error)
            raise
        except DeviceError as error:
            check_one_device(ufunc.__name__, inputs, kwargs)
            rename_refusal(ufunc_name(ufunc), inputs, error)
            raise
    check_one_device(f"{ufunc.__name__}.{method}", inputs, kwargs)
    return _call_method(ufunc, method, inputs, kwargs)


def _call_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if method in METHODS:
        return METHODS[method](ufunc, *inputs)
    if method == "outer":
        first, second = inputs
        expanded = np.reshape(first, np.shape(first) + (1,) * np.ndim(second))
        return call_ufunc(ufunc, "__call__", (expanded, second), kwargs)
    table = {"reduce": _REDUCTIONS, "accumulate": _ACCUMULATIONS}.get(method, {})
    function = table.get(ufunc)
    if function is None:
        if (
            method not in FOLDS
            or (ufunc.nin, ufunc.nout) != (2, 1)
            or (RULES.get(ufunc) or _rule_of_library(ufunc)) is None
        ):
            raise missing(f"{ufunc_name(ufunc)}.{method}")
        return FOLDS[method](ufunc, *inputs, **kwargs)
    axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
    return call_function(function, (inputs[0],), {"axis": axis, **kwargs})


def _with_keywords(ufunc: np.ufunc, rule: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    # Of ufuncs, only those on vectors (vecdot) have an axis.
    axis = {"axis": kwargs.pop("axis")} if ufunc.signature is not None and "axis" in kwargs else {}
    by_axes = ufunc.signature is not None and not {"axes", "keepdims"}.isdisjoint(kwargs)
    if by_axes:
        keepdims = kwargs.pop("keepdims", None)
        # The result has an axis there if it is kept.
        places = [axis.pop("axis")] * (ufunc.nargs if keepdims else ufunc.nin) if axis else None
        rule = along_axes(ufunc, rule, kwargs.pop("axes", places), keepdims)
    casting, order = kwargs.pop("casting", "same_kind"), kwargs.pop("order", "K")
    kwargs.pop("subok", None)
    if kwargs:
        raise TypeError(f"{ufunc_name(ufunc)} on a Tensor does not take {', '.join(kwargs)}")
    if where is not True and out is None:
        raise TypeError(f"{ufunc_name(ufunc)} with where= leaves the rest undefined: pass out= as well")
    if dtype is not None and isinstance(rule, NonDifferentiable):
        # For a comparison, `dtype` is that of the result.
        rule = functools.partial(rule, dtype=dtype)
    elif dtype is not None:
        given = inputs
        inputs = _cast_operands(ufunc, inputs, dtype, casting)
        if out is None and ufunc.signature is None and ufunc.nout == 1:
            # Operands that are cast beforehand may lie in memory otherwise than those that a ufunc casts itself.
            return laid_by_ufunc(rule(*inputs), given, order)
    elif casting != "same_kind":
        # NumPy's error where an operand may not be cast in this way.
        _resolved_dtypes(ufunc, inputs, None, casting)
    if order != "K" and out is None and ufunc.nout == 1:
        return laid_by_ufunc(rule(*inputs, **axis), inputs, order)
    if where is not True:
        refuse_masked(where)
        return _where(ufunc, rule, inputs, out, where)
    if isinstance(out, tuple) and len(out) == 1:
        if ufunc.signature is not None:
            # A rule of several operations: see call_function.
            inputs = tuple(before_write(out[0], inputs, always=True))
        if casting != "same_kind":
            return write(out[0], cast_for(out[0], rule(*inputs, **axis), casting))
        is_plain = not axis and not by_axes and dtype is None
        return write_by(out[0], rule, inputs, ufunc if is_plain else None, **axis)
    for one in out or ():
        # A write into one output may change what is saved for another.
        inputs = tuple(before_write(one, inputs, always=True))
    return _put(out, rule(*inputs, **axis))


def _kind_of_operand(value: Any) -> Any:
    """Return what decides how an operand is cast: its dtype, or the type of a Python number."""
    kind = type(value)
    if kind is int or kind is float or kind is complex:
        return kind
    data = raw(value)
    return np.dtype(data.dtype) if hasattr(data, "dtype") else np.asarray(data).dtype


def _resolved_dtypes(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any, casting: Any) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes that a ufunc computes in, given that of its results.

    Raises:
        TypeError: NumPy's own, where there is no such loop, or an operand may not be cast in this way.
    """
    kinds = (*map(_kind_of_operand, inputs), *[None] * ufunc.nout)
    if dtype is None:
        return ufunc.resolve_dtypes(kinds, casting=casting)
    return ufunc.resolve_dtypes(
        kinds, signature=(*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout), casting=casting
    )


def _cast_operands(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any, casting: Any) -> tuple[Any, ...]:
    """Return the operands in the dtypes that give a result of `dtype`: an order may stay real beside a complex one."""
    resolved = _resolved_dtypes(ufunc, inputs, dtype, casting)
    return tuple(_cast(value, wanted, casting) for value, wanted in zip(inputs, resolved, strict=False))


def _cast(value: Any, wanted: np.dtype[Any], casting: Any) -> Any:
    if is_device_array(value):
        return as_dtype(value, wanted, casting)
    if hasattr(value, "astype"):
        return value.astype(wanted, casting=casting)
    return (
        wanted.type(value)
        if isinstance(value, (int, float, complex))
        else np.asarray(value).astype(wanted, casting=casting)
    )


def _where(ufunc: np.ufunc, rule: Callable[..., Any], inputs: tuple[Any, ...], out: Any, where: Any) -> Any:
    """Write the result of a ufunc into `out` where a mask holds; elsewhere nothing is computed, and nothing warned of.

    The history is that of a second run on ones where the mask does not hold, so that no derivative is infinite there.
    """
    mask, masked = raw(where), RULES[np.where]
    outs = out if isinstance(out, tuple) else (out,)
    if mask.__class__ is not np.ndarray and is_device_array(mask):
        # A library whose ufuncs take no mask computes everywhere; what is no number there is of the ones.
        found = rule(
            *(masked(mask, one, 1) if isinstance(one, TensorBase) or is_device_array(one) else one for one in inputs)
        )
        for one, part in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
            copy_into(one, part, mask)
        return outs[0] if len(outs) == 1 else outs
    if len(outs) == 1 and write_unrecorded(
        lambda target, *arrays: _run_masked(ufunc, arrays, (target,), mask), outs[0], *inputs
    ):
        return outs[0]
    values = tuple(np.copy(raw(one)) for one in outs)
    _run_masked(ufunc, tuple(map(raw, inputs)), values, mask)
    results: Any = values
    if any(is_recorded(one, *inputs) for one in outs):
        with np.errstate(all="ignore"):
            # The mask as it was given: of a tensor, the version is checked.
            results = rule(*(masked(where, value, 1) if isinstance(value, TensorBase) else value for value in inputs))
        results = results if isinstance(results, tuple) else (results,)
    for one, result, value in zip(outs, results, values, strict=True):
        copy_into(one, result, mask, functools.partial(_copy_known, value))
    return outs[0] if len(outs) == 1 else outs


def _run_masked(ufunc: np.ufunc, arrays: tuple[Any, ...], outs: tuple[Any, ...], mask: Any) -> None:
    """Write the result of a ufunc into arrays where a mask holds.

    Loops of SciPy move NumPy's pointers, and NumPy, which runs a loop once for each stretch of a mask, then reads and
    writes beside the arrays. So its ufuncs are given only the elements where the mask holds.
    """
    if getattr(np, ufunc.__name__, None) is ufunc:
        ufunc(*arrays, out=outs, where=mask)
        return
    shape = np.broadcast_shapes(*map(np.shape, arrays), np.shape(mask), outs[0].shape)
    chosen = np.broadcast_to(mask, shape)
    found = ufunc(*(np.broadcast_to(one, shape)[chosen] if np.ndim(one) else one for one in arrays))
    for target, part in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
        whole = np.zeros(shape, part.dtype)
        whole[chosen] = part
        np.copyto(target, whole, casting="same_kind", where=chosen)


def _copy_known(value: Any, target: Any, _source: Any) -> None:
    np.copyto(target, value)


def call_function(function: Callable[..., Any], args: tuple[T, *tuple[Any, ...]], kwargs: dict[str, Any]) -> T:
    """Run a NumPy function on arguments of which at least one is, or holds, a Tensor.

    Type checkers take the result for one like the first argument, as that of most functions is.
    """
    rule: Callable[..., T] | None = RULES.get(function)
    if rule is None:
        raise missing(_full_name(function))
    if several_met[0]:
        check_one_device(function.__name__, *args, *kwargs.values())
    if "out" in kwargs:
        rule = functools.partial(_call_and_write, function, rule, kwargs.pop("out"))
    if interceptors:
        rule = entered(rule)
    try:
        return rule(*args, **kwargs)
    except (TypeError, ValueError, IndexError, NotImplementedError) as error:
        name = _full_name(function)
        operands = (*args, *kwargs.values())
        explain_refusal(name, operands, error)
        name_shapes(name, operands, error)
        raise
    except DeviceError as error:
        # A function that the rule calls has refused an array of NumPy's: the user knows the one that was called.
        rename_refusal(_full_name(function), (*args, *kwargs.values()), error)
        raise


def _full_name(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', 'numpy')}.{function.__name__}"


def _call_and_write(
    function: Callable[..., Any], rule: Callable[..., Any], out: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """Run a function's rule, and write what it returns into `out` if that is given."""
    if out is None:
        return rule(*args, **kwargs)
    # Of functions that are no ufuncs, clip alone takes a mask of the results; that of a reduction is one of elements.
    mask = kwargs.pop("where", True) if function is np.clip else True
    for one in out if isinstance(out, tuple) else (out,):
        # A rule may be made of several operations, each of which saves what it needs.
        args = tuple(before_write(one, args, always=True))
    if function is np.einsum:
        # It casts to the dtype of `out` by its own rule.
        return rule(*args, out=out, **kwargs)
    result = rule(*args, **kwargs)
    if mask is not True:
        return copy_into(out[0] if isinstance(out, tuple) else out, result, raw(mask))
    if isinstance(result, tuple):
        return _put(out, result)
    place = out[0] if isinstance(out, tuple) else out
    if function in _BROADCASTING:
        return write(place, cast_for(place, result, "unsafe") if function in _CASTING else result)
    _check_place(function, place, result, args, kwargs)
    if function in (np.dot, np.linalg.multi_dot):
        return write_exactly(place, result)
    is_free = function in _CASTING or (function in (np.std, np.nanstd) and raw(place).dtype.kind in "fc")
    return write_result(place, result, kwargs.get("casting", "unsafe" if is_free else "same_kind"))


def write_exactly(out: Any, result: Any) -> Any:
    """Write a product into `out`, which must have its dtype and lie in C order, as NumPy's BLAS asks.

    Raises:
        ArgumentError: it does not.
    """
    target, bare = raw(out), raw(result)
    if not is_device_array(target) and (target.dtype != bare.dtype or not target.flags.c_contiguous):
        raise ArgumentError(
            f"a product takes for out an array of its dtype, {bare.dtype}, in C order, not one of dtype {target.dtype} "
            f"with strides {target.strides}: pass out=np.empty({np.shape(bare)}, {bare.dtype.name!r})"
        )
    return write_result(out, result)


#: Functions whose results may be broadcast to `out`, as those of ufuncs may.
_BROADCASTING = {
    np.clip,
    np.fix,
    np.isneginf,
    np.isposinf,
    np.outer,
    np.percentile,
    np.quantile,
    *(np.nanmedian, np.nanpercentile, np.nanquantile),
}
_POSITIONS = {np.argmax, np.argmin, np.nanargmax, np.nanargmin}
_SPREADS = {np.nanmean, np.nanstd, np.nanvar}
#: Functions whose results NumPy casts to any dtype of `out`.
_CASTING = {
    *(np.all, np.any, np.cumprod, np.cumsum, np.cumulative_prod, np.cumulative_sum),
    *(np.max, np.mean, np.median, np.min, np.nancumprod, np.nancumsum),
    *(np.nanmax, np.nanmin, np.nanprod, np.nansum, np.prod, np.sum, np.trace, np.var),
    *(np.nanmedian, np.nanpercentile, np.nanquantile, np.nanmean, np.nanvar, np.choose, np.compress, np.take),
    *_POSITIONS,
}


def _check_place(
    function: Callable[..., Any], out: Any, result: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise as NumPy does for an `out` of a dtype or an order in memory that a function does not take."""
    if is_device_array(raw(out)):
        return
    if not isinstance(raw(out), np.ndarray):
        raise ArgumentTypeError(must_be(f"out of numpy.{function.__name__}", "an array or a tensor", out))
    dtype = raw(out).dtype
    if function in (np.compress, np.take) and not np.can_cast(dtype, result.dtype):
        raise ArgumentTypeError(f"numpy.{function.__name__} of dtype {result.dtype} takes no out of dtype {dtype}")
    if function in _POSITIONS and not np.can_cast(dtype, np.intp):
        raise ArgumentTypeError(f"numpy.{function.__name__} takes for out whole numbers of dtype intp, not {dtype}")
    if function in _SPREADS and dtype.kind not in "fc" and raw(args[0] if args else options["a"]).dtype.kind in "fc":
        raise ArgumentTypeError(f"numpy.{function.__name__} of floating-point numbers takes no out of dtype {dtype}")
    if function in (np.stack, np.concatenate) and options.get("dtype") is not None:
        raise ArgumentTypeError(f"numpy.{function.__name__} takes out or dtype, not both")


def _put(out: Any, result: Any) -> Any:
    """Return one or several results, written into `out` where that is given."""
    if out is None:
        return result
    if isinstance(result, tuple):
        places = zip(out, result, strict=True)
        return tuple(part if place is None else write(place, part) for place, part in places)
    return write(out[0] if isinstance(out, tuple) else out, result)


# Both may compute with bare arrays.
add_entry_names(globals(), "_call_method", "_with_keywords")
