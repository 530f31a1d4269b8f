"""`wrap`: a function of JAX as a function of asyncgrad's tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np

from ..core.function.function import Function
from ..core.graph.saved import released_error
from ..core.settings.arguments import check_function, describe, takes, truth
from ..core.settings.context import CURRENT_GRAPH_TASK, CURRENT_NODE, is_grad_enabled
from ..core.tensor import Tensor
from ..errors import ArgumentTypeError
from .jax_arrays import host_array, jax, jax_array, private_gradients

__all__ = ["JaxFunction", "wrap"]


def wrap(fn: Callable[..., Any], *, jit: bool = False) -> JaxFunction:
    """Return a function of JAX as a differentiable function of asyncgrad's tensors.

    It takes and returns pytrees of tensors. The forward calls `jax.vjp`, and a backward what that returned, on a worker
    where it takes long; it can be differentiated again, to any order, where JAX can. A forward runs in this thread, and
    `await ag.forward(wrapped, x)` on a worker.

    Args:
        fn: a function of JAX's arrays, which may call `jax.jit` itself. Arrays of JAX among its arguments, such as
            random keys, are constants.
        jit: whether JAX compiles the forward and the backward, for each set of shapes and of other arguments, which
            must be hashable. Without it, each call has JAX trace the function again, which takes about a millisecond.

    Raises:
        ArgumentTypeError: `fn` cannot be called, or is an `async def`.

    Example:
        >>> import jax.numpy as jnp, numpy as np, asyncgrad as ag
        >>> from asyncgrad.interop.jax import wrap
        >>> cube = wrap(lambda x: x**3)
        >>> x = ag.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)
        >>> async def main():
        ...     (gradient,) = await ag.grad(cube(x).sum(), [x], create_graph=True)
        ...     (second,) = await ag.grad(gradient.sum(), [x])
        ...     return gradient.tolist(), second.tolist()
        >>> ag.run(main())
        ([3.0, 12.0], [6.0, 12.0])
    """
    check_function(fn, "wrap")
    if inspect.iscoroutinefunction(fn):
        raise ArgumentTypeError(
            takes("wrap", "a plain function of JAX", fn, "await outside of it, and wrap what computes")
        )
    return JaxFunction(fn, truth(jit, "jit"))


@final
class JaxFunction:
    """A function of JAX as one of asyncgrad's tensors; `wrap` makes it.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.interop.jax import wrap
        >>> wrap(lambda x: x + 1)(ag.tensor(np.ones(1, np.float32))).tolist()
        [2.0]
    """

    __slots__ = ("_compiled", "_fn", "_jit", "_name")

    def __init__(self, fn: Callable[..., Any], jit: bool) -> None:
        self._fn, self._jit = fn, jit
        self._name = str(getattr(fn, "__qualname__", type(fn).__name__))
        #: By the structure and the shapes of the arguments and by those that are no arrays, what JAX compiles.
        self._compiled: dict[Hashable, _Flat] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns for these arguments, as tensors of asyncgrad."""
        leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        kinds = (Tensor, np.ndarray, jax.Array)
        positions = tuple(at for at, leaf in enumerate(leaves) if isinstance(leaf, kinds))
        arrays = [leaves[at] for at in positions]
        flat = self._flat(leaves, structure, positions)
        names = [f"argument {at} of {self._name}" for at in range(len(arrays))]
        results = Apply.apply(
            flat, names, is_grad_enabled(), *(one if isinstance(one, Tensor) else _Constant(one) for one in arrays)
        )
        return jax.tree_util.tree_unflatten(flat.structure, results)

    def _flat(self, leaves: list[Any], structure: Any, positions: tuple[int, ...]) -> _Flat:
        others = tuple(leaf for leaf in leaves if not isinstance(leaf, (Tensor, np.ndarray, jax.Array)))
        if not self._jit:
            return _Flat(self._name, _flat_function(self._fn, leaves, structure, positions), jit=False)
        # A number of another type, such as True for 1, is another argument; and what is returned may hang on shapes.
        shapes = tuple((leaves[at].shape, leaves[at].dtype) for at in positions)
        key = structure, positions, shapes, others, tuple(map(type, others))
        try:
            found = self._compiled.get(key)
        except TypeError:
            raise ArgumentTypeError(
                f"an argument of {self._name} is no array and cannot be hashed, and with jit=True the function is "
                f"compiled for each value of such arguments: {', '.join(map(describe, others))}"
            ) from None
        if found is None:
            constants = [None if at in positions else leaf for at, leaf in enumerate(leaves)]
            found = _Flat(self._name, _flat_function(self._fn, constants, structure, positions), jit=True)
            self._compiled[key] = found
        return found

    def __repr__(self) -> str:
        return f"<wrapped {self._name} of JAX>"


@final
class _Constant:
    """An array that is no tensor of asyncgrad, so that a Function passes it through."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _flat_function(
    fn: Callable[..., Any], leaves: list[Any], structure: Any, positions: Sequence[int]
) -> Callable[..., Any]:
    def flat(*arrays: Any) -> Any:
        found = list(leaves)
        for at, array in zip(positions, arrays, strict=True):
            found[at] = array
        args, kwargs = jax.tree_util.tree_unflatten(structure, found)
        return fn(*args, **kwargs)

    return flat


@final
class _Flat:
    """A function of arrays of JAX alone, and its derivatives, compiled or not.

    Args:
        name: of the function, for errors.
        function: it; it returns a pytree of arrays.
        jit: whether JAX compiles it.
    """

    __slots__ = ("_derivatives", "_function", "_pullback", "_values", "_vjps", "is_compiled", "name", "structure")

    def __init__(self, name: str, function: Callable[..., Any], jit: bool) -> None:
        self.name, self.is_compiled = name, jit
        #: The structure of what it returned last; in a compiled function always the same.
        self.structure: Any = None

        def flat(*arrays: Any) -> list[Any]:
            found: list[Any]
            found, self.structure = jax.tree_util.tree_flatten(function(*arrays))
            for at, one in enumerate(found):
                if not isinstance(one, jax.Array):
                    raise ArgumentTypeError(
                        f"{name} returned {describe(one)} as output {at}, and no array of JAX: return jnp.asarray(y)"
                    )
            if not found:
                raise ArgumentTypeError(f"{name} returned no array of JAX: return an array, or a pytree of arrays")
            return found

        self._function = flat
        self._values = jax.jit(flat) if jit else flat
        #: By the positions of the inputs to differentiate with respect to.
        self._vjps: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._pullback: Callable[..., Any] = jax.jit(_pull_back) if jit else _pull_back
        self._derivatives: dict[Hashable, _Flat] = {}

    def values(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs."""
        found: list[Any] = self._values(*arrays)
        return found

    def vjp(self, arrays: Sequence[Any], positions: tuple[int, ...]) -> tuple[list[Any], Any]:
        """Return the outputs, and a function of their gradients that returns those of the inputs at `positions`."""
        found = self._vjps.get(positions)
        if found is None:
            found = self._vjp_at(positions)
            self._vjps[positions] = found = jax.jit(found) if self.is_compiled else found
        outputs, pullback = found(*arrays)
        return outputs, pullback

    def pull_back(self, pullback: Any, grads: Sequence[Any]) -> Sequence[Any]:
        """Call what `vjp` returned."""
        found: Sequence[Any] = self._pullback(pullback, list(grads))
        return found

    def _vjp_at(self, positions: tuple[int, ...]) -> Callable[..., Any]:
        def vjp(*arrays: Any) -> Any:
            def of_some(*some: Any) -> list[Any]:
                every = list(arrays)
                for at, one in zip(positions, some, strict=True):
                    every[at] = one
                return self._function(*every)

            return jax.vjp(of_some, *(arrays[at] for at in positions))

        return vjp

    def derivative(self, positions: tuple[int, ...], given: tuple[bool, ...], wanted: tuple[int, ...]) -> _Flat:
        """Return the function of gradients of outputs and the inputs that returns gradients of inputs.

        Args:
            positions: of the inputs that can be differentiated with respect to.
            given: for each output, whether it has a gradient.
            wanted: the inputs, among `positions`, whose gradients are returned.
        """
        key = positions, given, wanted
        if key not in self._derivatives:
            vjp, count = self._vjp_at(positions), sum(given)

            def function(*arrays: Any) -> tuple[Any, ...]:
                outputs, pullback = vjp(*arrays[count:])
                rest = iter(arrays[:count])
                grads = [next(rest) if is_given else _zeros(one) for one, is_given in zip(outputs, given, strict=True)]
                found = dict(zip(positions, _pull_back(pullback, grads), strict=True))
                return tuple(found[at] for at in wanted)

            self._derivatives[key] = _Flat(f"the derivative of {self.name}", function, self.is_compiled)
        return self._derivatives[key]


def _pull_back(pullback: Any, grads: list[Any]) -> list[Any]:
    """Call what `jax.vjp` returned; complex gradients of asyncgrad are the conjugates of JAX's."""
    return [_conjugate(one) for one in pullback([_conjugate(one) for one in grads])]


def _conjugate(array: Any) -> Any:
    return array.conj() if array.dtype.kind == "c" else array


def _zeros(output: Any) -> Any:
    """Return the gradient of an output that has none: JAX has a dtype of its own for that of integers."""
    if jax.numpy.issubdtype(output.dtype, jax.numpy.inexact):
        return jax.numpy.zeros_like(output)
    return np.zeros(output.shape, jax.dtypes.float0)


@final
class Apply(Function):
    """A call of a function of JAX: takes tensors, and returns the arrays of its outputs."""

    @staticmethod
    def forward(ctx: Any, flat: _Flat, names: Sequence[str], is_recorded: bool, *inputs: Any) -> tuple[np.ndarray, ...]:
        """Call it, by `jax.vjp` if a gradient is wanted."""
        arrays = [_as_input(one, name, flat.is_compiled) for one, name in zip(inputs, names, strict=True)]
        needs = ctx.needs_input_grad[3:]
        positions = tuple(at for at, need in enumerate(needs) if need and is_recorded)
        ctx.recorded = pullback = None
        if positions:
            outputs, pullback = flat.vjp(arrays, positions)
        else:
            outputs = flat.values(arrays)
        # In memory of their own, which may be written into.
        results = tuple(np.array(host_array(one, f"output {at} of {flat.name}")) for at, one in enumerate(outputs))
        if pullback is not None:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*(one for one in inputs if isinstance(one, Tensor)))
            shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in outputs]
            others = [None if isinstance(one, Tensor) else one for one in inputs]
            ctx.recorded = flat, pullback, positions, shapes, others
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """Call what `jax.vjp` returned; under `create_graph`, differentiate the whole function again."""
        # Raises if they were written into, or released.
        tensors = iter(ctx.saved_tensors)
        node: Any = CURRENT_NODE.get()
        if ctx.recorded is None:
            raise released_error(node)
        flat, pullback, positions, shapes, others = ctx.recorded
        inputs = [next(tensors) if one is None else one for one in others]
        edges = {at: edge for edge, at in enumerate(at for at, one in enumerate(others) if one is None)}
        found: list[Any] = [None] * len(inputs)
        wanted = tuple(at for at in positions if node.task_should_compute_output(edges[at]))
        given = tuple(grad is not None for grad in grads)
        if not wanted or not any(given):
            return None, None, None, *found
        if is_grad_enabled():
            present = [grad for grad in grads if grad is not None]
            derivative = flat.derivative(positions, given, wanted)
            names = [f"an argument of {derivative.name}"] * (len(present) + len(inputs))
            results = Apply.apply(derivative, names, True, *present, *inputs)
        else:
            arrays = [
                _zeros(shape) if grad is None else jax_array(grad, "a gradient", flat.is_compiled)
                for grad, shape in zip(grads, shapes, strict=True)
            ]
            by_position = dict(zip(positions, flat.pull_back(pullback, arrays), strict=True))
            if flat.is_compiled:
                results = private_gradients([by_position[at] for at in wanted], (pullback, arrays))
            else:
                results = [_gradient(by_position[at], grads) for at in wanted]
            task: Any = CURRENT_GRAPH_TASK.get()
            if task is not None and not task.keep_graph:
                Apply._release(ctx)
        for at, result in zip(wanted, results, strict=True):
            found[at] = result
        return None, None, None, *found

    @staticmethod
    def _release(ctx: Any) -> None:
        """Let go of what JAX has recorded, which goes with the saved tensors."""
        ctx.recorded = None


def _as_input(value: Any, name: str, is_compiled: bool) -> Any:
    if isinstance(value, _Constant):
        return jax_array(value.value, name) if isinstance(value.value, np.ndarray) else value.value
    return jax_array(value, name, is_compiled)


def _gradient(array: Any, grads: Sequence[Tensor | None]) -> np.ndarray:
    """Return a gradient that JAX has computed, in memory that no gradient has that it was computed from."""
    found = host_array(array, "a gradient")
    shares = any(grad is not None and np.may_share_memory(found, grad._data) for grad in grads)
    return found.copy() if shares else found
