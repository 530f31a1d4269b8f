"""Decomposition: a differentiable function of one array that returns several arrays, such as `numpy.linalg.eigh`.

A primitive has one result. A decomposition has several, recorded by one node, whose formula takes the gradients of all
of them. So the formula computes shared terms once, and can check the gradients together: for example, a loss may depend
on products of left and right singular vectors in which the phases cancel, but not on the phases of either.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from math import prod
from typing import Any, final

from ..arrays.tensor_base import TensorBase
from ..arrays.values import as_array
from ..graph.cost import MANY_PRODUCTS, estimated_seconds
from ..graph.leaf import gradient_edge
from ..graph.lowering import CompiledArgs
from ..graph.metadata import InputMetadata
from ..graph.node import THREADS, Edge, next_order
from ..graph.packed import Packed, unpack_all
from ..graph.saved import Saved, output_alias, released_error, unpack_saved
from ..graph.wrappers import register_wrapper
from ..settings.context import GRAD_MODE
from .handwritten_node import HandwrittenNode

__all__ = ["Decomposition", "DecompositionNode", "decomposition", "joint_derivative"]

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_grad_mode = GRAD_MODE.get
register_wrapper(globals())

#: The estimated cost of one formula, in matrix products.
_PRODUCTS = 6


@final
class Decomposition:
    """A function of one array that returns a named tuple of arrays, and the formula for the gradient of that array.

    A call with a plain array only calls the function. Use the decorator `decomposition` to make one.
    """

    __slots__ = ("formula", "function", "node_name")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] = function
        self.node_name: str = "".join(part.capitalize() for part in function.__name__.split("_")) + "Backward"
        #: Takes the gradient of each result, None if undefined, and then the results; returns the array's gradient.
        self.formula: Callable[..., Any] = _missing

    def __call__(self, a: Any, *options: Any) -> Any:
        """Call the function; record the call if grad mode is on and the array requires grad."""
        if not isinstance(a, TensorBase):
            return self.function(a, *options)
        found = self.function(a._data, *options)
        cls, device, mode = type(a), a._device, _grad_mode()
        results = [cls(as_array(one), None, 0, device) for one in found]
        edge = gradient_edge(a) if mode else None
        if edge is not None:
            node = DecompositionNode(self, edge, results)
            for index, result in enumerate(results):
                result._grad_fn, result._output_nr = node, index
            if mode is not True:
                mode.created(node)
        elif not mode and mode is not False:
            mode.used(a)
        return type(found)(*results)

    def __repr__(self) -> str:
        return f"<decomposition {self.function.__name__}>"


def _missing(*_: Any) -> Any:
    raise NotImplementedError("the decomposition has no derivative: define one with @joint_derivative(...)")


def decomposition(function: Callable[..., Any]) -> Decomposition:
    """Return the decorated function of an array and options as a Decomposition; `joint_derivative` adds the formula."""
    return Decomposition(function)


def joint_derivative(decomposition: Decomposition) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function the derivative formula of a decomposition, for the gradients of all its results.

    Complex gradients follow PyTorch's convention inside the formula: the node does not conjugate them.
    """

    def decorate(formula: Callable[..., Any]) -> Callable[..., Any]:
        decomposition.formula = formula
        return formula

    return decorate


@final
class DecompositionNode(HandwrittenNode):
    """The node of a Decomposition. It saves the results.

    Args:
        decomposition: the function that was called.
        edge: where the gradient of the array flows.
        results: the tensors that the call returns, before the node becomes their grad_fn.
    """

    __slots__ = ("_decomposition", "_metadata", "_saved", "_work")

    def __init__(self, decomposition: Decomposition, edge: Edge, results: Sequence[TensorBase]) -> None:
        node, input_nr = edge
        self.connect((node,), (input_nr,))
        self.order: int = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        self.shape = self.dtype = self.meta = None
        self.device: Any = results[0]._device
        self._decomposition = decomposition
        self._metadata = tuple([InputMetadata(one._data.shape, one._data.dtype, one._device) for one in results])
        #: The results, None once released.
        self._saved: list[Saved | Packed] | None = [
            Saved(output_alias(one), 0, index) for index, one in enumerate(results)
        ]
        #: The number of multiplications in a product of two matrices as large as the largest result.
        self._work = max([prod(one._data.shape) * one._data.shape[-1] for one in results])

    @property
    def name(self) -> str:
        """The name of the function with the suffix Backward, for example EighBackward."""
        return self._decomposition.node_name

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each result."""
        return self._metadata

    @staticmethod
    def may_be_heavy(node: HandwrittenNode, grad: Any) -> bool:
        """Tell whether a run multiplies large matrices."""
        return node.reads_large()

    def reads_large(self) -> bool:
        """Tell whether a run multiplies large matrices."""
        return bool(self._work >= MANY_PRODUCTS)

    def cost_key(self, grads: Sequence[Any]) -> tuple[Any, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        size = int(self._work ** (2 / 3))
        return super().cost_key(grads)[0], estimated_seconds([size], _PRODUCTS, True)

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect what every node collects, and the decomposition."""
        super().compiled_args(args)
        args.collect_exactly(self._decomposition)

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradient of the array if the running backward needs it, else None, in a tuple.

        If unpacking a saved result has to be awaited, return an awaitable of that tuple.
        """
        if not self.task_should_compute_output(0) or all(grad is None for grad in grads):
            return (None,)
        unpacked = unpack_all(self, self._entries())
        if inspect.isawaitable(unpacked):
            return self._apply_later(grads, unpacked)
        return self.apply_with_saved(grads, unpacked)

    async def _apply_later(self, grads: tuple[Any, ...], unpacked: Awaitable[list[Any]]) -> tuple[Any, ...]:
        return self.apply_with_saved(grads, await unpacked)

    def apply_wanted(self, grads: Sequence[Any] | None, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradient of the array, or None if it is not wanted."""
        return self.apply_generic(grads) if wanted[0] else (None,)

    def apply_generic(self, grad: Sequence[Any] | None) -> tuple[Any, ...]:
        """Return the gradient of the array, from saved results that no hook has packed."""
        if grad is None or all(one is None for one in grad):
            return (None,)
        entries = self._entries()
        return self.apply_with_saved(
            tuple(grad), [unpack_saved(self, entry) for entry in entries if isinstance(entry, Saved)]
        )

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradient of the array, computed from `saved` in place of the saved results."""
        if all(grad is None for grad in grads):
            return (None,)
        if not any(isinstance(grad, TensorBase) for grad in grads):
            saved = [one._data if isinstance(one, TensorBase) else one for one in saved]
        return (self._decomposition.formula(*grads, *saved),)

    def _entries(self) -> list[Saved | Packed]:
        if self._saved is None:
            raise released_error(self)
        return self._saved

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the saved results, or what hooks packed them into; None once released."""
        return self._saved

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Keep `packed` in place of saved result number `index`."""
        self._entries()[index] = packed

    def release_variables(self) -> None:
        """Release the saved results."""
        self._saved = None
