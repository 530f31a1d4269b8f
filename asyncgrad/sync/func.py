"""The blocking forms of the transforms of `asyncgrad.func`; the functions that they return block, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from .. import func as _func
from ..core.settings.lazy import name_advisor
from ..transforms.recipes import remember
from .driving import bind, choose_driver, make_blocking, run_blocking

__all__ = [
    "elementwise_grad",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
    "vmap",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
Argnums = int | tuple[int, ...]
Pullback = Callable[[object], tuple[Any, ...]]
Pushforward = Callable[..., Any]
Drive = Callable[[Coroutine[object, None, Any], str], Any]


def _blocking_form_of(
    transform: Callable[..., Any], *, returns_functions: bool = False
) -> Callable[[Callable[Q, T]], Callable[Q, T]]:
    """Make a function without a body the blocking form of a transform; functions that it returns are plain, too.

    Its hints tell type checkers what it takes and returns.

    Args:
        transform: the awaited form.
        returns_functions: the function that it takes may return a function, which may be an `async def`.
    """
    signature = inspect.signature(transform)

    def decorate(stub: Callable[Q, T]) -> Callable[Q, T]:
        name = f"func.{stub.__name__}"

        @functools.wraps(stub)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            bound = bind(signature, name, args, kwargs)
            f = bound.arguments["f"]
            if not callable(f):
                # The transform raises the error.
                return run_blocking(transform(*args, **kwargs), name)
            drive, bound.arguments["f"] = choose_driver(f, name)
            if returns_functions and drive is run_blocking:
                bound.arguments["f"] = _with_blocking_result(bound.arguments["f"], name)
            transformed = transform(*bound.args, **bound.kwargs)
            if callable(transformed):
                plain = _plain(transformed, drive, name)
                remember(plain, f, lambda other: blocking(**{**bound.arguments, "f": other}))
                return plain
            return _plain_parts(drive(transformed, name), drive, name)

        # Otherwise inspect would show the signature of the stub.
        del blocking.__wrapped__
        vars(blocking)["__signature__"] = signature
        return blocking

    return decorate


def _with_blocking_result(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of the user whose result may be a function too, which is then made blocking as well."""

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        return make_blocking(result, name) if callable(result) else result

    return wrapper


def _plain(transformed: Callable[..., Coroutine[object, None, Any]], drive: Drive, name: str) -> Callable[..., Any]:
    @functools.wraps(transformed)
    def blocking(*args: Any, **kwargs: Any) -> Any:
        return drive(transformed(*args, **kwargs), name)

    return blocking


def _plain_parts(result: Any, drive: Drive, name: str) -> Any:
    """Return the result of a transform with its pullback or pushforward, if it has one, as a plain function."""
    if isinstance(result, tuple) and len(result) > 1 and inspect.iscoroutinefunction(result[1]):
        return (result[0], _plain(result[1], drive, name), *result[2:])
    return result


@overload
def grad(
    f: Callable[P, object], argnums: int = 0, has_aux: Literal[False] = False, *, holomorphic: bool = False
) -> Callable[P, Any]: ...


@overload
def grad(
    f: Callable[P, object], argnums: tuple[int, ...], has_aux: Literal[False] = False, *, holomorphic: bool = False
) -> Callable[P, tuple[Any, ...]]: ...


@overload
def grad(
    f: Callable[P, object], argnums: Argnums = 0, *, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, tuple[Any, Any]]: ...


@overload
def grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, Any]: ...


@_blocking_form_of(_func.grad)
def grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, Any]:
    """Return a function that returns the gradient of `f`; the blocking form of `ag.func.grad`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> round(float(ag.sync.func.grad(ag.sync.func.grad(np.sin))(1.0)), 3)
        -0.841
    """


@_blocking_form_of(_func.value_and_grad)
def value_and_grad(
    f: Callable[P, object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[P, tuple[Any, Any]]:
    """Return a function that returns the value of `f` and its gradient; the blocking form of `ag.func.value_and_grad`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> value, gradient = ag.sync.func.value_and_grad(lambda p: (p["w"] ** 2).sum())({"w": np.array([1.0, 2.0])})
        >>> float(value), gradient
        (5.0, {'w': array([2., 4.])})
    """


@_blocking_form_of(_func.elementwise_grad)
def elementwise_grad(f: Callable[P, object], argnums: Argnums = 0, *, holomorphic: bool = False) -> Callable[P, Any]:
    """Return a function that returns the derivative of `f` at each element; blocking `ag.func.elementwise_grad`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """


@_blocking_form_of(_func.fixed_point, returns_functions=True)
def fixed_point(
    f: Callable[..., Any],
    a: object,
    x0: object,
    distance: Callable[..., object] | None = None,
    tol: float | None = None,
    max_iter: int = 10_000,
) -> Any:
    """Return the `x` with `f(a, x) == x`, differentiable with respect to `a`; blocking `ag.func.fixed_point`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> def sqrt(a):
        ...     return ag.sync.func.fixed_point(lambda a: lambda x: 0.5 * (x + a / x), a, 1.0)
        >>> round(float(ag.sync.func.grad(sqrt)(2.0)), 6)
        0.353553
    """


@overload
def vjp(f: Callable[..., Any], *primals: object, has_aux: Literal[False] = False) -> tuple[Any, Pullback]: ...


@overload
def vjp(f: Callable[..., Any], *primals: object, has_aux: Literal[True]) -> tuple[Any, Pullback, Any]: ...


@overload
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool) -> Any: ...


@_blocking_form_of(_func.vjp)
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """Return the result of `f` and a plain pullback; the blocking form of `ag.func.vjp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> out, pullback = ag.sync.func.vjp(lambda x: x * x, np.array([1.0, 2.0]))
        >>> pullback(np.array([1.0, 10.0]))
        (array([ 2., 40.]),)
    """


@overload
def jvp(
    f: Callable[..., Any], primals: object, tangents: object, has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...


@overload
def jvp(f: Callable[..., Any], primals: object, tangents: object, has_aux: Literal[True]) -> tuple[Any, Any, Any]: ...


@overload
def jvp(f: Callable[..., Any], primals: object, tangents: object, has_aux: bool) -> Any: ...


@_blocking_form_of(_func.jvp)
def jvp(f: Callable[..., Any], primals: object, tangents: object, has_aux: bool = False) -> Any:
    """Return the result of `f` and the product of its Jacobian with `tangents`; the blocking form of `ag.func.jvp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> out, product = ag.sync.func.jvp(np.sin, (np.zeros(2),), (np.array([1.0, 5.0]),))
        >>> product
        array([1., 5.])
    """


@overload
def linearize(f: Callable[..., Any], *primals: object, has_aux: Literal[False] = False) -> tuple[Any, Pushforward]: ...


@overload
def linearize(f: Callable[..., Any], *primals: object, has_aux: Literal[True]) -> tuple[Any, Pushforward, Any]: ...


@overload
def linearize(f: Callable[..., Any], *primals: object, has_aux: bool) -> Any: ...


@_blocking_form_of(_func.linearize)
def linearize(f: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """Return the result of `f` and a plain function for products with its Jacobian; blocking `ag.func.linearize`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> out, pushforward = ag.sync.func.linearize(lambda x: x * x, np.array([1.0, 2.0]))
        >>> pushforward(np.array([1.0, 10.0]))
        array([ 2., 40.])
    """


@overload
def hvp(f: Callable[..., Any], primals: object, tangents: object) -> Any: ...


@overload
def hvp(f: Callable[..., Any]) -> Callable[..., Any]: ...


@_blocking_form_of(_func.hvp)
def hvp(f: Callable[..., Any], primals: object = None, tangents: object = None) -> Any:
    """Return the product of the Hessian of `f` with `tangents`; the blocking form of `ag.func.hvp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
        array([  6., 120.])
    """


@_blocking_form_of(_func.jacrev)
def jacrev(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Any]:
    """Return a function that returns the Jacobian of `f`; the blocking form of `ag.func.jacrev`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """


@_blocking_form_of(_func.jacfwd)
def jacfwd(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Any]:
    """Return a function that returns the Jacobian of `f`, column by column; the blocking form of `ag.func.jacfwd`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.jacfwd(lambda x: x * np.arange(3.0))(2.0)
        array([0., 1., 2.])
    """


@_blocking_form_of(_func.hessian)
def hessian(
    f: Callable[P, object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    concurrency: int | None = None,
) -> Callable[P, Any]:
    """Return a function that returns the Hessian of `f`; the blocking form of `ag.func.hessian`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """


def vmap(
    fn: Callable[P, object], in_axes: object = 0, out_axes: object = 0, *, concurrency: int | None = 1
) -> Callable[P, Any]:
    """Return a function that calls `fn` with each row of a batch, and stacks the results; blocking `ag.func.vmap`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.func.vmap(ag.sync.func.grad(lambda x: (x**2).sum()))(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[2., 4.],
               [6., 8.]])
    """
    return make_blocking(_func.vmap(fn, in_axes, out_axes, concurrency=concurrency), "func.vmap")


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    # A type checker that saw a `__getattr__` would take any name for one of the module.
    __getattr__ = name_advisor(__name__)
