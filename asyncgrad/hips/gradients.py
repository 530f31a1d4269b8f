"""Gradients of functions that return one number, by HIPS autograd's names."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.tree.structure import leaves
from ..errors import ArgumentError, GradientTypeError
from ..sync import func
from .calls import Argnum, argnums_of, conjugated, named, recorded, returning_one_number

__all__ = [
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "holomorphic_grad",
    "multigrad_dict",
    "value_and_grad",
]


def grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the gradient of `fun` with respect to an argument.

    Args:
        fun: a function that returns one real number. Its arguments are arrays, numbers, or dicts, lists and tuples.
        argnum: the position of the argument, or a tuple or list of positions; the gradient is then a tuple.

    Returns:
        A function with the arguments of `fun`; the gradient has the structure of the argument.

    Raises:
        GradientTypeError: `fun` returns more than one number, or a complex one. It is a TypeError.

    Source: autograd.grad.

    Example:
        >>> from asyncgrad.hips import grad
        >>> float(grad(grad(lambda x: x**3))(2.0))
        12.0
    """
    gradient = func.grad(returning_one_number(fun, "grad"), argnums_of(argnum))

    @named("grad", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        return conjugated(gradient(*args, **kwargs))

    return of_arguments


def value_and_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., tuple[Any, Any]]:
    """Return a function that returns the value of `fun` and its gradient, as `scipy.optimize.minimize(jac=True)` takes.

    Args:
        fun: as for `grad`.
        argnum: as for `grad`.

    Raises:
        GradientTypeError: as for `grad`.

    Source: autograd.value_and_grad.

    Example:
        >>> from asyncgrad.hips import value_and_grad
        >>> [float(one) for one in value_and_grad(lambda x: x**2)(3.0)]
        [9.0, 6.0]
    """
    with_gradient = func.value_and_grad(returning_one_number(fun, "value_and_grad"), argnums_of(argnum))

    @named("value_and_grad", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, gradient = with_gradient(*args, **kwargs)
        return value, conjugated(gradient)

    return of_arguments


def grad_and_aux(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., tuple[Any, Any]]:
    """Return a function that returns the gradient of the first result of `fun`, and its second result as it is.

    Args:
        fun: returns a pair: one real number, and something else.
        argnum: as for `grad`.

    Raises:
        GradientTypeError: as for `grad`.

    Source: autograd.grad_and_aux.

    Example:
        >>> from asyncgrad.hips import grad_and_aux
        >>> gradient, aux = grad_and_aux(lambda x: (x**2, "square"))(3.0)
        >>> float(gradient), aux
        (6.0, 'square')
    """
    with_aux = func.grad(returning_one_number(fun, "grad_and_aux", has_aux=True), argnums_of(argnum), has_aux=True)

    @named("grad_and_aux", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        gradient, aux = with_aux(*args, **kwargs)
        return conjugated(gradient), aux

    return of_arguments


def elementwise_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the derivative of `fun` at each element: the gradient of the sum of its result.

    Args:
        fun: a function that returns a real array, each element of which depends on the element at the same index.
        argnum: as for `grad`.

    Raises:
        GradientTypeError: `fun` returns complex numbers. It is a TypeError.

    Source: autograd.elementwise_grad.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import elementwise_grad
        >>> elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """
    function = recorded(fun)

    def real(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(result, Tensor) and result.dtype.kind == "c":
            raise GradientTypeError(
                f"elementwise_grad: the function must return real numbers, not {result.dtype}: use holomorphic_grad"
            )
        return result

    derivative = func.elementwise_grad(real, argnums_of(argnum))

    @named("elementwise_grad", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        return conjugated(derivative(*args, **kwargs))

    return of_arguments


def holomorphic_grad(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the complex derivative of a holomorphic function.

    Args:
        fun: returns one complex number.
        argnum: as for `grad`.

    Source: autograd.holomorphic_grad.

    Example:
        >>> from asyncgrad.hips import holomorphic_grad
        >>> complex(holomorphic_grad(lambda z: z**2)(1.0 + 2.0j))
        (2+4j)
    """
    argnums = argnums_of(argnum)
    gradient = grad(lambda *args, **kwargs: np.real(fun(*args, **kwargs)), argnums)

    @named("holomorphic_grad", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        chosen = [args[position] for position in ((argnums,) if isinstance(argnums, int) else argnums)]
        if not all(map(np.iscomplexobj, leaves(chosen))):
            warnings.warn("the argument of holomorphic_grad is not complex", UserWarning, stacklevel=2)
        return gradient(*args, **kwargs)

    return of_arguments


def grad_named(fun: Callable[..., Any], argname: str) -> Callable[..., Any]:
    """Return the gradient function of `fun` with respect to the parameter of a name, which is passed by position.

    Args:
        fun: as for `grad`.
        argname: the name of the parameter.

    Raises:
        ArgumentError: `fun` has no parameter of this name.

    Source: autograd.grad_named.

    Example:
        >>> from asyncgrad.hips import grad_named
        >>> float(grad_named(lambda x, y: x * y, "y")(2.0, 3.0))
        2.0
    """
    names = list(inspect.signature(fun).parameters)
    if argname not in names:
        raise ArgumentError(f"grad_named: the function has no parameter {argname!r}: it takes {', '.join(names)}")
    return grad(fun, names.index(argname))


def multigrad_dict(fun: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return a function that returns the gradients with respect to all arguments, a dict by their names.

    Args:
        fun: as for `grad`.

    Raises:
        GradientTypeError: as for `grad`.

    Source: autograd.multigrad_dict.

    Example:
        >>> from asyncgrad.hips import multigrad_dict
        >>> {name: float(one) for name, one in multigrad_dict(lambda x, y=3.0: x * y)(2.0).items()}
        {'x': 3.0, 'y': 2.0}
    """
    signature = inspect.signature(fun)

    def of_arguments(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_dict(arguments: dict[str, Any]) -> Any:
            given = inspect.BoundArguments(signature, arguments)
            return fun(*given.args, **given.kwargs)

        found: dict[str, Any] = grad(of_dict)(dict(bound.arguments))
        return found

    return of_arguments
