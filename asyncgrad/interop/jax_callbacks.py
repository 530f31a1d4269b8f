"""`as_custom_vjp`: a function of asyncgrad in a program of JAX, by `jax.custom_vjp` and `jax.pure_callback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..core.settings.arguments import check_function, describe
from ..core.settings.context import enable_grad, is_grad_enabled, no_grad
from ..core.tensor import Tensor, asarray
from ..errors import ArgumentError, ArgumentTypeError
from ..nn.modules.module import Module
from ..sync.blocking import grad
from ..sync.driving import make_blocking
from .jax_arrays import jax
from .waiting import advising_a_thread

__all__ = ["as_custom_vjp"]

_IN_A_THREAD = "call what JAX computes in a thread, await asyncio.to_thread(function, ...)"


def as_custom_vjp(
    fn: Callable[..., Any], *, result_shape_dtypes: object = None, vmap_method: str = "sequential"
) -> Callable[..., Any]:
    """Return a function of asyncgrad's tensors as one of JAX's arrays, by `jax.custom_vjp` and `jax.pure_callback`.

    It takes and returns pytrees of arrays, also inside of `jax.jit`, `jax.grad` and `jax.vmap`, and can be
    differentiated in reverse mode, to any order. JAX may call `fn` as often as it likes, or not at all, so it must do
    nothing besides computing; a gradient calls it again. `fn` and the rules in it may be `async def`: a call waits for
    them on an event loop of its own. JAX calls on a thread of its own, where the settings of your context do not hold.

    Args:
        fn: a function or an `async def` of tensors. What requires grad in it besides its arguments gets no gradient.
        result_shape_dtypes: what it returns, a pytree of `jax.ShapeDtypeStruct`; or a function of the arguments, which
            have `shape` and `dtype`, that returns it. By default `fn` is called once with zeros for each set of shapes.
        vmap_method: that of `jax.pure_callback`.

    Raises:
        ArgumentTypeError: `fn` cannot be called, or is a module with parameters, which would get no gradient.

    Example:
        >>> import jax, numpy as np
        >>> from asyncgrad.interop.jax import as_custom_vjp
        >>> sine = as_custom_vjp(lambda x: np.sin(x))
        >>> float(jax.grad(jax.jit(sine))(0.0)), float(jax.grad(jax.grad(sine))(np.pi / 2))
        (1.0, -1.0)
    """
    check_function(fn, "as_custom_vjp")
    if isinstance(fn, Module) and any(param.requires_grad for param in fn.parameters()):
        raise ArgumentTypeError(
            f"{type(fn).__name__} has parameters of asyncgrad, which would get no gradient from JAX: pass "
            "model.snapshot(), or write a function that takes them as arguments"
        )
    name = str(getattr(fn, "__qualname__", type(fn).__name__))
    blocking = make_blocking(fn, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        arrays = [jax.numpy.asarray(leaf) for leaf in leaves]
        for at, array in enumerate(arrays):
            _check_dtype(array.dtype, f"argument {at} of {name}")
        host = _Function(name, blocking, structure)
        shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        if result_shape_dtypes is None:
            found, of_result = host.shapes_by_zeros(shapes), host.structure
        else:
            given = result_shape_dtypes(*args, **kwargs) if callable(result_shape_dtypes) else result_shape_dtypes
            found, of_result = jax.tree_util.tree_flatten(given)
        results = _custom_vjp(name, host.run, found, vmap_method)(*arrays)
        return jax.tree_util.tree_unflatten(of_result, results)

    function.__name__, function.__qualname__ = getattr(fn, "__name__", name), name
    return function


@final
class _Function:
    """A function of asyncgrad, as one that takes and returns lists of tensors.

    Args:
        name: of the function, for errors.
        function: it, which blocks.
        structure: that of its arguments.
    """

    __slots__ = ("_arguments", "_function", "_name", "structure")

    def __init__(self, name: str, function: Callable[..., Any], structure: Any) -> None:
        self._name, self._function, self._arguments = name, function, structure
        #: That of what it has returned.
        self.structure: Any = None

    def run(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Return the leaves of what it returns."""
        args, kwargs = jax.tree_util.tree_unflatten(self._arguments, tensors)
        found: list[Any]
        with advising_a_thread(self._name, "JAX", _IN_A_THREAD):
            found, self.structure = jax.tree_util.tree_flatten(self._function(*args, **kwargs))
        for one in found:
            if not isinstance(one, (Tensor, np.ndarray, np.generic)):
                raise ArgumentTypeError(
                    f"{self._name} returned {describe(one)}, and JAX takes arrays alone: return a tensor, or a pytree "
                    "of tensors"
                )
        return found

    def shapes_by_zeros(self, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes and dtypes of what it returns for zeros."""
        # JAX may be tracing what calls this, and would trace what `fn` computes by JAX of zeros, too.
        with jax.ensure_compile_time_eval(), no_grad(), np.errstate(all="ignore"):
            found = self.run([asarray(np.zeros(one.shape, one.dtype)) for one in shapes])
        canonical = jax.dtypes.canonicalize_dtype
        return [jax.ShapeDtypeStruct(one.shape, canonical(one.dtype)) for one in found]


def _custom_vjp(
    name: str, run: Callable[[Sequence[Tensor]], list[Any]], results: Sequence[Any], vmap_method: str
) -> Callable[..., Any]:
    """Return a function of JAX's arrays that calls one of lists of tensors; its derivative is another such one."""

    def on_host(*arrays: Any) -> tuple[np.ndarray, ...]:
        with no_grad():
            found = run([asarray(np.array(array)) for array in arrays])
        return tuple(
            _checked(name, at, np.asarray(one), expected)
            for at, (one, expected) in enumerate(zip(found, results, strict=True))
        )

    @jax.custom_vjp
    def function(*arrays: Any) -> Any:
        return jax.pure_callback(on_host, tuple(results), *arrays, vmap_method=vmap_method)

    def forward(*arrays: Any) -> Any:
        return function(*arrays), arrays

    def backward(arrays: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        smooth = [at for at, one in enumerate(arrays) if _is_smooth(one)]
        given = [at for at, one in enumerate(results) if _is_smooth(one)]
        derivative = _derivative(run, smooth, given)
        shapes = [jax.ShapeDtypeStruct(arrays[at].shape, arrays[at].dtype) for at in smooth]
        found = _custom_vjp(f"the derivative of {name}", derivative, shapes, vmap_method)(
            *(grads[at].conj() for at in given), *arrays
        )
        # JAX has a dtype of its own for the gradients of integers; its complex ones are the conjugates of asyncgrad's.
        whole: list[Any] = [np.zeros(one.shape, jax.dtypes.float0) for one in arrays]
        for at, one in zip(smooth, found, strict=True):
            whole[at] = one.conj()
        return tuple(whole)

    function.defvjp(forward, backward)
    typed: Callable[..., Any] = function
    return typed


def _derivative(
    run: Callable[[Sequence[Tensor]], list[Any]], smooth: Sequence[int], given: Sequence[int]
) -> Callable[[Sequence[Tensor]], list[Any]]:
    """Return the function of gradients of outputs and the inputs that returns the gradients of the inputs `smooth`."""

    def derivative(tensors: Sequence[Tensor]) -> list[Any]:
        is_recorded = is_grad_enabled()
        grads, inputs = tensors[: len(given)], list(tensors[len(given) :])
        for at in smooth:
            if not inputs[at].requires_grad:
                inputs[at] = inputs[at].detach().requires_grad_()
        with enable_grad():
            outputs = run(inputs)
        pairs = [
            (outputs[at], one)
            for at, one in zip(given, grads, strict=True)
            if isinstance(outputs[at], Tensor) and outputs[at].requires_grad
        ]
        if not pairs:
            return [asarray(np.zeros_like(inputs[at].numpy())) for at in smooth]
        with advising_a_thread("the backward of a function of asyncgrad", "JAX", _IN_A_THREAD):
            return list(
                grad(
                    [output for output, _ in pairs],
                    [inputs[at] for at in smooth],
                    [one for _, one in pairs],
                    create_graph=is_recorded,
                    materialize_grads=True,
                )
            )

    return derivative


def _check_dtype(dtype: Any, what: str) -> None:
    """Raise where JAX differentiates with respect to a dtype, and NumPy has none such.

    Raises:
        ArgumentTypeError: it is bfloat16 or another one of JAX's own.
    """
    if jax.numpy.issubdtype(dtype, jax.numpy.inexact) and dtype.kind not in "fc":
        raise ArgumentTypeError(f"{what} is of {dtype}, which NumPy has not: pass x.astype(jnp.float32)")


def _is_smooth(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact))


def _checked(name: str, at: int, array: np.ndarray, expected: Any) -> np.ndarray:
    """Return an output in the dtype that JAX expects.

    Raises:
        ArgumentError: it has another shape.
    """
    if array.shape != tuple(expected.shape):
        raise ArgumentError(
            f"{name} returned an array of shape {array.shape} as output {at}, and JAX was told "
            f"{tuple(expected.shape)}: give as_custom_vjp(..., result_shape_dtypes=...) the shapes that it returns"
        )
    return array.astype(expected.dtype, copy=False)
