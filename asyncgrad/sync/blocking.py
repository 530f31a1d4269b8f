"""The blocking forms of asyncgrad's awaitable functions.

Nothing is computed here. Each function below is a name and a docstring; its decorator gives it the signature of
the awaitable function and a body that steps that function's coroutine.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from .. import functional as _functional
from ..core.backward import backward as _backward
from ..core.backward import grad as _grad
from ..core.settings.arguments import check_function
from ..core.settings.context import is_kind
from ..core.tensor import Tensor
from ..transforms.gradient_check import gradcheck as _gradcheck
from ..transforms.gradient_check import gradgradcheck as _gradgradcheck
from .driving import bind, choose_driver, make_blocking, run_blocking, run_on_own_loop

if TYPE_CHECKING:
    from ..core.arrays.array_like import TensorLike
    from ..core.arrays.tensor_base import TensorBase
    from ..core.backward import BackwardOptions, GradOptions, ValueRoot
    from ..core.backward_arguments import Root
    from ..core.graph.node import GradientEdge
    from ..core.tree.structure import Tree

__all__ = [
    "backward",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "value_and_grad",
    "vhp",
    "vjp",
]

P = ParamSpec("P")
T = TypeVar("T")


def _blocking_form_of(
    awaitable: Callable[P, Coroutine[object, None, T]],
) -> Callable[[Callable[[], None]], Callable[P, T]]:
    """Make a bodiless function the blocking form of `awaitable`."""
    signature = inspect.signature(awaitable)
    takes_function = "fn" in signature.parameters

    def decorate(stub: Callable[[], None]) -> Callable[P, T]:
        name = stub.__name__

        @functools.wraps(stub)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
            if not takes_function:
                return run_blocking(awaitable(*args, **kwargs), name)
            fn = args[0] if args else kwargs.get("fn")
            if is_kind(inspect.iscoroutinefunction, fn):
                return run_on_own_loop(awaitable(*args, **kwargs), name)
            if not callable(fn):
                # The awaitable function raises the error.
                return run_blocking(awaitable(*args, **kwargs), name)
            bound = bind(signature, name, args, kwargs)
            bound.arguments["fn"] = make_blocking(fn, name)
            return run_blocking(awaitable(*bound.args, **bound.kwargs), name)

        # Otherwise inspect would show the signature of the stub.
        del blocking.__wrapped__
        vars(blocking)["__signature__"] = signature
        blocking.__annotations__ = dict(awaitable.__annotations__)
        return blocking

    return decorate


def _untyped(awaitable: Callable[..., Coroutine[object, None, T]]) -> Callable[..., Coroutine[object, None, T]]:
    """Return a function with overloads for the decorator, which would give its blocking form the first of them."""
    return awaitable


@overload
def backward(
    tensors: ValueRoot | GradientEdge, grad_tensors: object = None, **options: Unpack[BackwardOptions]
) -> None: ...


@overload
def backward(
    tensors: Sequence[Root],
    grad_tensors: TensorLike | Sequence[object] | None = None,
    **options: Unpack[BackwardOptions],
) -> None: ...


@overload
def backward(
    tensors: TensorBase,
    grad_tensors: TensorLike | Sequence[TensorLike | None] | None = None,
    **options: Unpack[BackwardOptions],
) -> None: ...


@_blocking_form_of(_untyped(_backward))
def backward() -> None:
    """Add the gradients of `tensors` to the leaves' `.grad`; the blocking form of `ag.backward`.

    Raises:
        BlockingError: a node would have to suspend, and an event loop is running in this thread.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor(3.0, requires_grad=True)
        >>> ag.sync.backward(x * x)
        >>> x.grad.item()
        6.0
    """


@overload
def grad(
    outputs: ValueRoot | GradientEdge, inputs: Tree, grad_outputs: object = None, **options: Unpack[GradOptions]
) -> Any: ...


@overload
def grad(
    outputs: Sequence[Root],
    inputs: Tree,
    grad_outputs: TensorLike | Sequence[object] | None = None,
    **options: Unpack[GradOptions],
) -> Any: ...


@overload
def grad(
    outputs: TensorBase,
    inputs: Tree,
    grad_outputs: TensorLike | Sequence[TensorLike | None] | None = None,
    **options: Unpack[GradOptions],
) -> Any: ...


@_blocking_form_of(_untyped(_grad))
def grad() -> None:
    """Return the gradients of `outputs` with respect to `inputs`; the blocking form of `ag.grad`.

    Raises:
        BlockingError: a node would have to suspend, and an event loop is running in this thread.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor(3.0, requires_grad=True)
        >>> (g,) = ag.sync.grad(x * x, [x])
        >>> g.item()
        6.0
    """


def value_and_grad(
    fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, create_graph: bool | None = None
) -> Callable[..., tuple[Tensor, Any]]:
    """Return a function that gives the value of `fn` and its gradient; the blocking form of `ag.value_and_grad`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> value, gradient = ag.sync.value_and_grad(lambda x: x * x)(np.array(3.0))
        >>> gradient.item()
        6.0
    """
    name = "value_and_grad"
    check_function(fn, "sync.value_and_grad", argnums)
    drive, wrapped = choose_driver(fn, name)
    awaitable = _functional.value_and_grad(wrapped, argnums, create_graph=create_graph)

    @functools.wraps(fn)
    def with_gradient(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        found: tuple[Tensor, Any] = drive(awaitable(*args, **kwargs), name)
        return found

    return with_gradient


@_blocking_form_of(_functional.vjp)
def vjp() -> None:
    """Return the outputs of `fn` and the product of `v` with its Jacobian; the blocking form of `ag.vjp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> _, product = ag.sync.vjp(lambda x: x * x, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        >>> product.numpy()
        array([ 2., 40.])
    """


@_blocking_form_of(_functional.jvp)
def jvp() -> None:
    """Return the outputs of `fn` and the product of its Jacobian with `v`; the blocking form of `ag.jvp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> _, product = ag.sync.jvp(lambda x: x * x, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        >>> product.numpy()
        array([ 2., 40.])
    """


@_blocking_form_of(_functional.vhp)
def vhp() -> None:
    """Return the value of `fn` and the product of `v` with its Hessian; the blocking form of `ag.vhp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> _, product = ag.sync.vhp(lambda x: x ** 3, np.array(2.0))
        >>> product.item()
        12.0
    """


@_blocking_form_of(_functional.hvp)
def hvp() -> None:
    """Return the value of `fn` and the product of its Hessian with `v`; the blocking form of `ag.hvp`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> _, product = ag.sync.hvp(lambda x: x ** 3, np.array(2.0))
        >>> product.item()
        12.0
    """


@_blocking_form_of(_functional.jacobian)
def jacobian() -> None:
    """Return the Jacobian of `fn`; the blocking form of `ag.jacobian`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.jacobian(lambda x: x * x, np.array([1.0, 2.0])).numpy()
        array([[2., 0.],
               [0., 4.]])
    """


@_blocking_form_of(_functional.hessian)
def hessian() -> None:
    """Return the Hessian of `fn`; the blocking form of `ag.hessian`.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> ag.sync.hessian(lambda x: x ** 3, np.array(2.0)).item()
        12.0
    """


@_blocking_form_of(_gradcheck)
def gradcheck() -> None:
    """Return True if the gradients of `fn` agree with finite differences; the blocking form of `ag.gradcheck`.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.sync.gradcheck(lambda x: x ** 3, x)
        True
    """


@_blocking_form_of(_gradgradcheck)
def gradgradcheck() -> None:
    """Return True if the second derivatives of `fn` agree with finite differences; blocking `ag.gradgradcheck`.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.sync.gradgradcheck(lambda x: x ** 3, x)
        True
    """
