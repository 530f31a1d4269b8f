"""Zeros of functions of one number by the names of SciPy's methods; see `root_scalar`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ...transforms.parameters import Parameters
from ..arguments import floating
from ..solutions import (
    array_of,
    call_differentiated,
    call_user,
    check_user_function,
    drive,
    record,
)
from .forwards import Forwards
from .implicit import ElementwiseZero
from .roots import root_scalar

__all__ = ["bisect", "brenth", "brentq", "newton", "ridder", "toms748"]

_XTOL, _RTOL, _MAXITER = 2e-12, 4 * float(np.finfo(float).eps), 100


def _bracketing(name: str) -> Callable[..., Any]:
    def find(
        f: Callable[..., Any],
        a: Any,
        b: Any,
        args: Any = (),
        xtol: float = _XTOL,
        rtol: float = _RTOL,
        maxiter: int = _MAXITER,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
        return _root(name, f, args, full_output, disp, method=name, bracket=(a, b), **options)

    find.__name__ = find.__qualname__ = name
    find.__doc__ = f"""Return a zero of `f` between `a` and `b`, differentiable by the tensors in `args`.

    Args:
        f: takes a number and `args`; it may be an `async def`, and then the result is to be awaited.
        a: where `f` has one sign.
        b: where `f` has the other sign.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        xtol: as SciPy's.
        rtol: as SciPy's.
        maxiter: as SciPy's.
        full_output: return SciPy's result, too.
        disp: raise if the method does not converge.

    Raises:
        RuntimeError: the method does not converge, and `disp` is true.

    Source: scipy.optimize.{name}.
    """
    return find


bisect: Callable[..., Any] = _bracketing("bisect")
brenth: Callable[..., Any] = _bracketing("brenth")
brentq: Callable[..., Any] = _bracketing("brentq")
ridder: Callable[..., Any] = _bracketing("ridder")


def toms748(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    k: int = 1,
    xtol: float = _XTOL,
    rtol: float = _RTOL,
    maxiter: int = _MAXITER,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Return a zero of `f` between `a` and `b`, differentiable by the tensors in `args`; see `brentq`.

    Args:
        f: takes a number and `args`; it may be an `async def`, and then the result is to be awaited.
        a: where `f` has one sign.
        b: where `f` has the other sign.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        k: as SciPy's.
        xtol: as SciPy's.
        rtol: as SciPy's.
        maxiter: as SciPy's.
        full_output: return SciPy's result, too.
        disp: raise if the method does not converge.

    Raises:
        RuntimeError: the method does not converge, and `disp` is true.

    Source: scipy.optimize.toms748.
    """
    options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "options": {"k": k}}
    return _root("toms748", f, args, full_output, disp, method="toms748", bracket=(a, b), **options)


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Return a zero of `func` near `x0`, differentiable by the tensors in `args`.

    The method is Newton's with asyncgrad's derivative; Halley's if `fprime2` is given; the secant's if `x1` is. For an
    array `x0` the result is an array of zeros, and each element of `func(x)` depends on the same element of x alone.

    Args:
        func: takes a number, or an array like `x0`, and `args`, and returns the like; it may be an `async def`, and
            then the result is to be awaited.
        x0: a number or an array to start from; from a complex one, a zero of an analytic function is sought.
        fprime: a function like `func` that returns the derivative; None for asyncgrad's.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        tol: as SciPy's.
        maxiter: as SciPy's.
        fprime2: a function like `func` that returns the second derivative.
        x1: as SciPy's.
        rtol: as SciPy's.
        full_output: return SciPy's result, too; for an array which elements have converged, and which derivatives
            are 0.
        disp: raise if the method does not converge; for an array, if no element does.

    Raises:
        ArgumentError: `x0` is an array, and `x1` or `rtol` is given; or in the backward, the derivative is zero.
        RuntimeError: the method does not converge, and `disp` is true.

    Source: scipy.optimize.newton.
    """
    start = floating(x0)
    if start.ndim or start.dtype.kind == "c":
        if start.ndim and (x1 is not None or rtol):
            raise ArgumentError(
                f"scipy.optimize.newton: x1 and rtol hold for a number x0, not for an array of shape {np.shape(x0)}: "
                "leave them out"
            )
        kept: dict[str, Any] = {"tol": tol, "maxiter": maxiter, "full_output": full_output, "disp": disp, "rtol": rtol}
        kept["x1"] = None if x1 is None else array_of(floating(x1))[()]
        return _newton_of_array(func, start, fprime, fprime2, args, kept)
    method = "secant" if fprime is None and x1 is not None else "newton" if fprime2 is None else "halley"
    starts = {"x0": x0, "x1": x1, "fprime": fprime, "fprime2": fprime2}
    options = {"xtol": tol, "rtol": rtol or None, "maxiter": maxiter}
    return _root("newton", func, args, full_output, disp, method=method, **starts, **options)


def _newton_of_array(func: Any, x0: Tensor, fprime: Any, fprime2: Any, args: Any, options: dict[str, Any]) -> Any:
    name = "scipy.optimize.newton"
    is_async = check_user_function(func, name, "func")
    params = Parameters(args if isinstance(args, tuple) else (args,), func)
    constants = [tensor.detach() for tensor in params.tensors]
    # A number as SciPy has it, which steps from one to the next, and not an array of none.
    start = array_of(x0)[()]

    async def values(x: Any, *tensors: Tensor) -> Tensor:
        found = floating(await call_differentiated(func, x, *params.fill(tensors)))
        if found.shape != start.shape:
            raise ArgumentError(f"{name}: func must return an array of x0's shape {start.shape}, not {found.shape}")
        return found

    forwards = Forwards(values, constants, name)

    async def evaluate(function: Any, x: Any) -> Any:
        given = asarray(np.array(x))
        if function is None:
            return await forwards.value(given) if fprime is None else array_of(await values(given, *constants))
        if function == "slope":
            # Each element depends on the same element of x alone: the gradient of their sum has the derivative of each.
            return await forwards.gradient(given)
        return array_of(floating(await call_user(function, given, *params.fill(constants))))

    def solve(ask: Any) -> Any:
        is_secant = fprime is None and options["x1"] is not None
        slope = "slope" if fprime is None else fprime
        asked = None if is_secant else lambda x: ask(slope, x)
        curvature = None if fprime2 is None else lambda x: ask(fprime2, x)
        return optimize.newton(lambda x: ask(None, x), start, asked, fprime2=curvature, **options)

    async def run() -> Any:
        found = await forwards.call_solver(solve, evaluate, is_async)
        x = found[0] if options["full_output"] else found
        (zeros,) = record(ElementwiseZero(values, is_async, name), params.tensors, (x,), params.constants)
        if not options["full_output"]:
            return zeros
        return found._replace(root=zeros) if hasattr(found, "_replace") else (zeros, *found[1:])

    return drive(run(), is_async, name)


def _root(name: str, f: Any, args: Any, full_output: bool, disp: bool, **options: Any) -> Any:
    def unpack(found: Any) -> Any:
        if disp and not found.converged:
            raise RuntimeError(f"scipy.optimize.{name} did not converge: {found.flag}")
        return (found.root, found) if full_output else found.root

    async def awaited(result: Any) -> Any:
        return unpack(await result)

    found = root_scalar(f, args, **options)
    return unpack(found) if hasattr(found, "converged") else awaited(found)
