"""Zeros of functions of one number by the names of SciPy's methods; see `root_scalar`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError
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


bisect = _bracketing("bisect")
brenth = _bracketing("brenth")
brentq = _bracketing("brentq")
ridder = _bracketing("ridder")


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

    The method is Newton's with asyncgrad's derivative; Halley's if `fprime2` is given; the secant's if `x1` is.

    Args:
        func: takes a number and `args`; it may be an `async def`, and then the result is to be awaited.
        x0: a number to start from.
        fprime: a function like `func` that returns the derivative; None for asyncgrad's.
        args: trees of anything. The tensors that gradients are to flow to are leaves of it.
        tol: as SciPy's.
        maxiter: as SciPy's.
        fprime2: a function like `func` that returns the second derivative.
        x1: as SciPy's.
        rtol: as SciPy's.
        full_output: return SciPy's result, too.
        disp: raise if the method does not converge.

    Raises:
        ArgumentError: `x0` is an array.
        RuntimeError: the method does not converge, and `disp` is true.

    Source: scipy.optimize.newton.
    """
    if np.ndim(x0):
        raise ArgumentError(
            f"scipy.optimize.newton: x0 must be a number, not an array of shape {np.shape(x0)}: use root"
        )
    method = "secant" if fprime is None and x1 is not None else "newton" if fprime2 is None else "halley"
    starts = {"x0": x0, "x1": x1, "fprime": fprime, "fprime2": fprime2}
    options = {"xtol": tol, "rtol": rtol or None, "maxiter": maxiter}
    return _root("newton", func, args, full_output, disp, method=method, **starts, **options)


def _root(name: str, f: Any, args: Any, full_output: bool, disp: bool, **options: Any) -> Any:
    def unpack(found: Any) -> Any:
        if disp and not found.converged:
            raise RuntimeError(f"scipy.optimize.{name} did not converge: {found.flag}")
        return (found.root, found) if full_output else found.root

    async def awaited(result: Any) -> Any:
        return unpack(await result)

    found = root_scalar(f, args, **options)
    return unpack(found) if hasattr(found, "converged") else awaited(found)
