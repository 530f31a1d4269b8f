"""`as_autograd_function`: a function of asyncgrad in a program of PyTorch, by a `torch.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from ..core.settings.arguments import check_function, describe
from ..core.settings.context import set_grad_enabled
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import TreeStructure, flatten, unflatten
from ..errors import ArgumentTypeError
from ..nn.modules.module import Module
from ..sync.blocking import grad
from ..sync.driving import make_blocking
from .torch_arrays import array_of, check_host, torch, torch_tensor
from .waiting import advising_a_thread

__all__ = ["as_autograd_function"]


def as_autograd_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of asyncgrad's tensors as one of PyTorch's, by a `torch.autograd.Function`.

    It takes and returns trees of tensors on the cpu, in the same memory where both can use it. Its backward runs
    asyncgrad's, and can be differentiated again, to any order. `fn` and the rules in it may be `async def`: the call
    waits for them on an event loop of its own. Where one is running, do it in a thread, as by
    `await asyncio.to_thread(loss.backward)`.

    Args:
        fn: a function or an `async def` of tensors. What requires grad in it besides its arguments gets no gradient.

    Raises:
        ArgumentTypeError: `fn` cannot be called, or is a module with parameters, which would get no gradient.

    Example:
        >>> import numpy as np, torch
        >>> from asyncgrad.interop.torch import as_autograd_function
        >>> sine = as_autograd_function(lambda x: np.sin(x))
        >>> x = torch.zeros(2, requires_grad=True)
        >>> sine(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """
    check_function(fn, "as_autograd_function")
    if isinstance(fn, Module) and any(param.requires_grad for param in fn.parameters()):
        raise ArgumentTypeError(
            f"{type(fn).__name__} has parameters of asyncgrad, which would get no gradient from PyTorch: pass "
            "model.snapshot(), or write a function that takes them as arguments"
        )
    name = str(getattr(fn, "__qualname__", type(fn).__name__))
    blocking = make_blocking(fn, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        call = _FunctionCall(name, blocking, leaves, structure)
        results = _Forward.apply(call, *(leaves[at] for at in call.positions))
        assert call.outputs is not None
        found, of_result = call.outputs
        for at, result in zip(call.numbers, results, strict=True):
            found[at] = result
        return unflatten(of_result, found)

    function.__name__, function.__qualname__ = getattr(fn, "__name__", name), name
    return function


@final
class _FunctionCall:
    """One call of a function of asyncgrad.

    Args:
        name: of the function, for errors.
        function: it, which blocks.
        leaves: the leaves of its arguments.
        structure: their structure.
    """

    __slots__ = ("_function", "_leaves", "_structure", "name", "numbers", "outputs", "positions")

    def __init__(
        self, name: str, function: Callable[..., Any], leaves: Sequence[Any], structure: TreeStructure
    ) -> None:
        self.name, self._function, self._leaves, self._structure = name, function, leaves, structure
        #: Where the tensors are among the leaves.
        self.positions = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for at in self.positions:
            check_host(leaves[at], f"an argument of {name}", "pass x")
        #: The leaves of what was returned, and which of them are tensors.
        self.outputs: tuple[list[Any], TreeStructure] | None = None
        self.numbers: list[int] = []

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors that the function returns for these tensors."""
        leaves = list(self._leaves)
        for at, tensor in zip(self.positions, inputs, strict=True):
            leaves[at] = tensor
        args, kwargs = unflatten(self._structure, leaves)
        records = any(tensor.requires_grad for tensor in inputs)
        instead = f"call it in a thread, await asyncio.to_thread({self.name}, ...)"
        with set_grad_enabled(records), advising_a_thread(self.name, "PyTorch", instead):
            returned = self._function(*args, **kwargs)
        found, structure = flatten(returned)
        self.numbers = [at for at, leaf in enumerate(found) if isinstance(leaf, Tensor)]
        if not self.numbers:
            raise ArgumentTypeError(
                f"{self.name} returned {describe(returned)}, and no tensor of asyncgrad: return a tensor, or a tuple, "
                "list or dict of tensors"
            )
        self.outputs = found, structure
        return [found[at] for at in self.numbers]


@final
class _Graph:
    """What asyncgrad has recorded of one call.

    Args:
        inputs: the tensors of asyncgrad that it took, leaves.
        outputs: those that it returned, None where there is none.
        shown: PyTorch's tensors in the memory of the outputs.
    """

    __slots__ = ("_outputs", "_shown", "_versions", "inputs")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor | None], shown: Sequence[Any]) -> None:
        self.inputs, self._outputs = inputs, outputs
        # Without their history, which would lead back to this graph.
        self._shown = [None if one is None else one.detach() for one in shown]
        self._versions = [0 if one is None else one._version for one in shown]

    def gradients(self, grads: Sequence[Tensor | None], wanted: Sequence[bool], create_graph: bool) -> list[Any]:
        """Return the gradients of the inputs that are wanted, None for the others.

        Raises:
            ChangedTensorError: something that the graph has saved was changed in place.
        """
        for at, (output, shown) in enumerate(zip(self._outputs, self._shown, strict=True)):
            # What PyTorch has written into memory that both have.
            if output is not None and shown is not None and shown._version != self._versions[at]:
                self._versions[at] = shown._version
                output._bump_version()
        pairs = [
            (output, one)
            for output, one in zip(self._outputs, grads, strict=True)
            if one is not None and output is not None and output.requires_grad
        ]
        chosen = [at for at, one in enumerate(self.inputs) if wanted[at] and one.requires_grad]
        found: list[Any] = [None] * len(self.inputs)
        if pairs and chosen:
            instead = "run it in a thread, await asyncio.to_thread(loss.backward)"
            with advising_a_thread("the backward of a function of asyncgrad", "PyTorch", instead):
                results = grad(
                    [output for output, _ in pairs],
                    [self.inputs[at] for at in chosen],
                    [one for _, one in pairs],
                    retain_graph=True,
                    create_graph=create_graph,
                    allow_unused=True,
                )
            for at, result in zip(chosen, results, strict=True):
                found[at] = result
        return found


@final
class _Forward(torch.autograd.Function):
    """A call of a function of asyncgrad: takes tensors of PyTorch, and returns its outputs as such."""

    @staticmethod
    def forward(ctx: Any, call: _FunctionCall, *tensors: Any) -> tuple[Any, ...]:
        """Run the function, on a graph of asyncgrad's own if a gradient is wanted."""
        inputs = _leaves(tensors, ctx.needs_input_grad[1:])
        return _record(ctx, inputs, call.run(inputs), tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Differentiate what asyncgrad has recorded."""
        return (None, *_differentiate(ctx, 1, grads))


@final
class _Derivative(torch.autograd.Function):
    """The rule of a node whose graph is asyncgrad's: of gradients of outputs, and the inputs, makes those of inputs."""

    @staticmethod
    def forward(
        ctx: Any, graph: _Graph, wanted: Sequence[bool], given: Sequence[bool], *tensors: Any
    ) -> tuple[Any, ...]:
        """Have asyncgrad compute the gradients, and record how."""
        count = sum(given)
        grads = _leaves(tensors[:count], ctx.needs_input_grad[3 : 3 + count])
        rest = iter(grads)
        found = graph.gradients([next(rest) if is_given else None for is_given in given], wanted, create_graph=True)
        return _record(ctx, [*grads, *graph.inputs], found, tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Differentiate what asyncgrad has recorded."""
        return (None, None, None, *_differentiate(ctx, 3, grads))


def _leaves(tensors: Sequence[Any], needs: Sequence[bool]) -> list[Tensor]:
    """Return leaves of asyncgrad in the memory of tensors of PyTorch."""
    arrays = [one.detach().resolve_conj().resolve_neg().numpy() for one in tensors]
    return [asarray(array).requires_grad_(bool(need)) for array, need in zip(arrays, needs, strict=True)]


def _record(
    ctx: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor | None], tensors: Sequence[Any]
) -> tuple[Any, ...]:
    """Keep what asyncgrad has recorded for the rule; return the outputs as tensors of PyTorch."""
    taken = {id(one._data) for one in inputs}
    shown: list[Any] = []
    for at, output in enumerate(outputs):
        if output is None:
            shown.append(None)
            continue
        array = array_of(output, f"output {at}")
        # One whose memory another tensor has is copied: PyTorch would not know of writes into both.
        is_alone = array.base is None and id(array) not in taken
        taken.add(id(array))
        shown.append(torch_tensor(array if is_alone else array.copy(), f"output {at}"))
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)
    ctx.mark_non_differentiable(
        *(one for one, output in zip(shown, outputs, strict=True) if output is not None and not output.requires_grad)
    )
    if any(ctx.needs_input_grad):
        ctx.graph = _Graph(inputs, outputs, shown)
    return tuple(shown)


def _differentiate(ctx: Any, leading: int, grads: Sequence[Any]) -> Sequence[Any]:
    """Return the gradients of the tensors that a node took."""
    # Raises if they were written into, or released.
    tensors = ctx.saved_tensors
    graph: _Graph = ctx.graph
    wanted = ctx.needs_input_grad[leading:]
    if torch.is_grad_enabled():
        given = [one is not None for one in grads]
        found: tuple[Any, ...] = _Derivative.apply(
            graph, wanted, given, *(one for one in grads if one is not None), *tensors
        )
        return found
    arrays = [None if one is None else _leaves([one], [False])[0] for one in grads]
    results = graph.gradients(arrays, wanted, create_graph=False)
    return [None if one is None else torch_tensor(array_of(one, "a gradient"), "a gradient") for one in results]
