"""Decomposition: a function of one array with several results, whose gradients become that of the array together.

A primitive has one result. Here one call computes all of them, one node stands for them, and one formula takes all of
their gradients: what several of these share is computed once, and a loss may depend on several of them in a way that
it may not on one alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from math import prod
from typing import Any, final

from ..context import GRAD_MODE
from ..graph.cost import MANY_PRODUCTS, OffloadSignal, estimated_seconds
from ..graph.leaf import gradient_edge
from ..graph.lowering import CompiledArgs
from ..graph.metadata import InputMetadata
from ..graph.node import THREADS, Edge, next_order
from ..graph.packed import Packed, unpack_all
from ..graph.saved import Saved, output_alias, released_error, unpack_saved
from ..graph.tensor_base import TensorBase
from ..graph.values import as_array
from .handwritten_node import HandwrittenNode

__all__ = ["Decomposition", "DecompositionNode", "decomposition", "joint_derivative"]

#: A formula is estimated to take about as long as so many matrix products.
_PRODUCTS = 6


@final
class Decomposition:
    """A function of one array that returns a named tuple of arrays, and the formula of the gradient of that array.

    Called on a bare array it is the bare function. Not made directly: see `decomposition`.
    """

    __slots__ = ("formula", "function", "node_name")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.node_name = "".join(part.capitalize() for part in function.__name__.split("_")) + "Backward"
        #: Takes the gradient of each result, None where it is undefined, and then the results.
        self.formula: Callable[..., Any] = _missing

    def __call__(self, a: Any, *options: Any) -> Any:
        """Call the function; record the call if grad mode is on and the array requires grad."""
        if not isinstance(a, TensorBase):
            return self.function(a, *options)
        found = self.function(a._data, *options)
        make, device, mode = type(a), a._device, GRAD_MODE.get()
        results = [make(as_array(one), None, 0, device) for one in found]
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
    raise NotImplementedError("a decomposition needs a formula: give it one by joint_derivative")


def decomposition(function: Callable[..., Any]) -> Decomposition:
    """Make the decorated function of an array, and of options, a Decomposition; its derivative follows beneath."""
    return Decomposition(function)


def joint_derivative(made: Decomposition) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give the decorated formula as the derivative of all results of a decomposition.

    Its gradients are those of a descent, as PyTorch has them: nothing is conjugated around it.
    """

    def decorate(formula: Callable[..., Any]) -> Callable[..., Any]:
        made.formula = formula
        return formula

    return decorate


@final
class DecompositionNode(HandwrittenNode):
    """The backward of a Decomposition. It saves the results.

    Args:
        made: whose formula it runs.
        edge: where the gradient of the array flows.
        results: the tensors, which are not recorded yet.
    """

    __slots__ = ("_made", "_metadata", "_saved", "_work")

    def __init__(self, made: Decomposition, edge: Edge, results: Sequence[TensorBase]) -> None:
        node, input_nr = edge
        self.connect((node,), (input_nr,))
        self.order = next_order()
        if len(THREADS) > 1:
            self._note_thread()
        self.shape = self.dtype = self.meta = None
        self.device = results[0]._device
        self._made = made
        self._metadata = tuple([InputMetadata(one._data.shape, one._data.dtype, one._device) for one in results])
        #: As they stand: None once released.
        self._saved: list[Saved | Packed] | None = [
            Saved(output_alias(one), 0, index) for index, one in enumerate(results)
        ]
        #: How many multiplications a product of two of the largest result takes.
        self._work = max([prod(one._data.shape) * one._data.shape[-1] for one in results])

    @property
    def name(self) -> str:
        """The name of the function, as in EighBackward."""
        return self._made.node_name

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """For each result, what its gradient must look like."""
        return self._metadata

    @staticmethod
    def run(node: HandwrittenNode, grad: Any, release: bool = False) -> tuple[Any, ...]:
        """Do what every such node does, but look at the sizes of the arrays first: the work grows faster than these."""
        if node.may_be_heavy(node, grad):
            raise OffloadSignal
        grads = node.apply_generic(grad)
        if release:
            node.release_variables()
        return grads

    @staticmethod
    def may_be_heavy(node: HandwrittenNode, grad: Any) -> bool:
        """Tell whether a run makes products of large matrices."""
        return node.reads_large()

    def reads_large(self) -> bool:
        """Tell whether a run makes products of large matrices."""
        return bool(self._work >= MANY_PRODUCTS)

    def cost_key(self, grads: Sequence[Any]) -> tuple[Any, float]:
        """Return what runs that take about as long have in common, and an estimate of how long, in seconds."""
        size = int(self._work ** (2 / 3))
        return super().cost_key(grads)[0], estimated_seconds([size], _PRODUCTS, True)

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect what every node collects, and the function."""
        super().compiled_args(args)
        args.collect_exactly(self._made)

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradient of the array, if the backward that runs needs it.

        Or an awaitable of it, where something saved has to be waited for.
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
        """Return the gradient of the array, if it is wanted."""
        return self.apply_generic(grads) if wanted[0] else (None,)

    def apply_generic(self, grad: Sequence[Any] | None) -> tuple[Any, ...]:
        """Return the gradient of the array, from what was saved and has not been packed."""
        if grad is None or all(one is None for one in grad):
            return (None,)
        entries = self._entries()
        return self.apply_with_saved(
            tuple(grad), [unpack_saved(self, entry) for entry in entries if isinstance(entry, Saved)]
        )

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradient of the array, with `saved` for the results."""
        if all(grad is None for grad in grads):
            return (None,)
        if not any(isinstance(grad, TensorBase) for grad in grads):
            saved = [one._data if isinstance(one, TensorBase) else one for one in saved]
        return (self._made.formula(*grads, *saved),)

    def _entries(self) -> list[Saved | Packed]:
        if self._saved is None:
            raise released_error(self)
        return self._saved

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the results, or what hooks have packed; None once released."""
        return self._saved

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Keep what a hook has packed in the place of a result."""
        self._entries()[index] = packed

    def release_variables(self) -> None:
        """Let go of the results."""
        self._saved = None
