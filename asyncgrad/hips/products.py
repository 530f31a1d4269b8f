"""Jacobians, Hessians and products with them, by HIPS autograd's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tree.structure import map as map_tree
from ..sync import func
from .calls import Argnum, argnums_of, conjugated, named, of_one_argument, recorded
from .gradients import grad

__all__ = [
    "deriv",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_vjp",
    "tensor_jacobian_product",
    "vector_jacobian_product",
]


def make_vjp(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., tuple[Callable[[Any], Any], Any]]:
    """Return a function that returns a pullback and the value of `fun`, a pair.

    Args:
        fun: a function of arrays, numbers, or dicts, lists and tuples of them, which may return such, too.
        argnum: as for `grad`.

    Returns:
        A function with the arguments of `fun`. The pullback takes what looks like the value of `fun`, and returns what
        looks like the argument; it may be called any number of times.

    Source: autograd.make_vjp.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import make_vjp
        >>> vjp, value = make_vjp(lambda x: x * x)(np.array([1.0, 2.0]))
        >>> value, vjp(np.array([1.0, 10.0]))
        (array([1., 4.]), array([ 2., 40.]))
    """

    @named("make_vjp", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> tuple[Callable[[Any], Any], Any]:
        function, x = of_one_argument(fun, argnum, args, kwargs)
        value, pullback = func.vjp(recorded(function), x)

        def vjp(g: Any) -> Any:
            return conjugated(pullback(conjugated(g))[0])

        return vjp, value

    return of_arguments


def make_jvp(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Callable[[Any], tuple[Any, Any]]]:
    """Return a function that returns a pushforward, whose result is the value of `fun` and its change along a vector.

    It is computed by two backward passes, so a primitive needs a derivative by `defvjp`, not by `defjvp`.

    Args:
        fun: as for `make_vjp`.
        argnum: as for `grad`.

    Source: autograd.make_jvp.

    Example:
        >>> from asyncgrad.hips import make_jvp
        >>> [float(one) for one in make_jvp(lambda x: x * x)(3.0)(10.0)]
        [9.0, 60.0]
    """

    @named("make_jvp", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Callable[[Any], tuple[Any, Any]]:
        function, x = of_one_argument(fun, argnum, args, kwargs)
        value, pushforward = func.linearize(recorded(function), x)
        return lambda v: (value, pushforward(v))

    return of_arguments


def deriv(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the change of `fun` where each element of the argument grows alike.

    Args:
        fun: as for `make_vjp`.
        argnum: as for `grad`.

    Source: autograd.deriv, which takes 1 + 1j as the growth of a complex argument; here it is 1.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import deriv
        >>> float(deriv(np.sin)(0.0))
        1.0
    """

    @named("deriv", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        function, x = of_one_argument(fun, argnum, args, kwargs)
        ones = map_tree(lambda leaf: np.ones(np.shape(leaf), _dtype_of(leaf)), x)
        return make_jvp(function)(x)(ones)[1]

    return of_arguments


def _dtype_of(leaf: Any) -> np.dtype[Any]:
    return np.result_type(getattr(leaf, "dtype", leaf), np.float16)


def jacobian(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fun`, by one backward for each element of its result.

    Args:
        fun: a function that returns an array of real numbers.
        argnum: as for `grad`.

    Returns:
        A function with the arguments of `fun`. The Jacobian has the shape of the result, then that of the argument.

    Raises:
        ArgumentTypeError: `fun` returns complex numbers.

    Source: autograd.jacobian.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import jacobian
        >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    of_rows = func.jacrev(recorded(fun), argnums_of(argnum))

    @named("jacobian", fun, argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        return conjugated(of_rows(*args, **kwargs))

    return of_arguments


def hessian(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., Any]:
    """Return a function that returns the Hessian of `fun`, the Jacobian of its Jacobian.

    Args:
        fun: a function that returns real numbers.
        argnum: as for `grad`.

    Source: autograd.hessian.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import hessian
        >>> hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    return named("hessian", fun, argnum)(jacobian(jacobian(fun, argnum), argnum))


def make_hvp(fun: Callable[..., Any], argnum: Argnum = 0) -> Callable[..., tuple[Callable[[Any], Any], Any]]:
    """Return a function that returns a product with the Hessian of `fun`, and the gradient of `fun`, a pair.

    Args:
        fun: as for `grad`.
        argnum: as for `grad`.

    Source: autograd.make_hvp.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import make_hvp
        >>> hvp, gradient = make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        >>> hvp(np.array([1.0, 1.0]))
        array([ 6., 12.])
    """
    return named("make_hvp", fun, argnum)(make_vjp(grad(fun, argnum), argnum))


def hessian_tensor_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return a function of the arguments of `fun` and a tensor, which returns the product of the Hessian with it.

    Args:
        fun: as for `grad`.
        argnum: the position of the argument.

    Source: autograd.hessian_tensor_product.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import hessian_tensor_product
        >>> hessian_tensor_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
        array([ 6., 12.])
    """
    gradient = grad(fun, argnum)

    def along(*args_and_tensor: Any, **kwargs: Any) -> Any:
        *args, tensor = args_and_tensor
        return np.sum(gradient(*args, **kwargs) * tensor)

    return grad(along, argnum)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """Return a function of the arguments of `fun` and a tensor, which returns the product of it with the Jacobian.

    Args:
        fun: as for `jacobian`.
        argnum: the position of the argument.

    Source: autograd.tensor_jacobian_product.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import tensor_jacobian_product
        >>> tensor_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        array([ 2., 40.])
    """

    def contracted(*args_and_tensor: Any, **kwargs: Any) -> Any:
        *args, tensor = args_and_tensor
        return np.tensordot(tensor, fun(*args, **kwargs), axes=np.ndim(tensor))

    return jacobian(contracted, argnum)


vector_jacobian_product = tensor_jacobian_product


def _half_square(x: Any) -> Any:
    return np.sum(x**2, axis=-1) / 2


def make_ggnvp(
    f: Callable[..., Any], g: Callable[[Any], Any] = _half_square, f_argnum: int = 0
) -> Callable[..., Callable[[Any], Any]]:
    """Return a function that returns a product with the generalized Gauss-Newton matrix of `g(f(x))`.

    Args:
        f: a function that returns an array.
        g: a convex function of that array, which returns one number; half the sum of the squares unless given.
        f_argnum: the position of the argument of `f`.

    Source: autograd.make_ggnvp.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips import make_ggnvp
        >>> make_ggnvp(np.sin)(np.array([0.0, 1.0]))(np.array([1.0, 1.0])).round(4)
        array([1.    , 0.2919])
    """

    @named("make_ggnvp", f, f_argnum)
    def of_arguments(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        function, x = of_one_argument(f, f_argnum, args, kwargs)
        vjp, value = make_vjp(function)(x)
        pushforward = make_jvp(function)(x)
        hvp, _ = make_hvp(g)(value)
        return lambda v: vjp(hvp(pushforward(v)[1]))

    return of_arguments
