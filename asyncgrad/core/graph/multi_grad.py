"""Multi-grad hooks: one hook for the gradients of several tensors, called once in each backward."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, final

from ...errors import ArgumentError, ArgumentTypeError, RequiresGradError
from ..arrays.ownership import private_copy
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import check_callable, must_be, takes
from ..settings.context import CURRENT_GRAPH_TASK, is_kind
from .naming import outline

if TYPE_CHECKING:
    from typing import Literal

    from ..arrays.hooks import RemovableHandle
    from .node import Node

__all__ = ["MultiGradHandle", "register_multi_grad_hook"]


def register_multi_grad_hook(
    tensors: Iterable[TensorBase], fn: Callable[..., object], mode: Literal["all", "any"] = "all"
) -> MultiGradHandle:
    """Call `fn` once in each backward, when it has computed the gradients of `tensors`.

    Each backward collects its own gradients, whether backward passes run one after another, concurrently or nested, and
    a backward that fails leaves none behind. `fn` gets the gradients as earlier tensor hooks have left them. It cannot
    replace them, and its result is ignored, as is what it writes into them. A root of the backward counts like any
    other tensor.

    Args:
        tensors: tensors that require grad. The gradient of a tensor that is listed twice is passed twice.
        fn: a function or an `async def`. While an `async def` is awaited, only the node whose gradient
            triggered it waits, with the nodes that depend on it.
        mode: with "all", `fn(grads)` is called with a list of one gradient for each tensor, as soon as this
            backward has computed the last of them; a gradient that it does not compute is None. With "any",
            `fn(grad)` is called with the first gradient.

    Returns:
        A handle; `remove()` takes the hook off all the tensors.

    Raises:
        ArgumentError: there is no such mode.
        RequiresGradError: a tensor does not require grad, so that no backward ever computes its gradient. With "any"
            such tensors are skipped, and it is an error if none requires grad.

    A backward of `ag.grad`, or one with `inputs=`, computes the gradients of its inputs and of what lies on the way to
    them. The hook is called there too: with the gradients of those of `tensors`, leaves among them, and None for the
    rest.

    Source: torch.autograd.graph.register_multi_grad_hook, which does not wait for a lone root, and makes an `ag.grad`
    that captures a leaf among `tensors` fail.

    Example:
        >>> import asyncgrad as ag
        >>> a = ag.tensor(2.0, requires_grad=True)
        >>> b = ag.tensor(3.0, requires_grad=True)
        >>> unused = ag.tensor(4.0, requires_grad=True)
        >>> def show(grads):
        ...     print([None if grad is None else grad.item() for grad in grads])
        >>> handle = ag.graph.register_multi_grad_hook([a, b, unused], show)
        >>> ag.sync.backward(a * b)
        [3.0, 2.0, None]
    """
    if not (isinstance(mode, str) and mode in ("all", "any")):
        raise ArgumentError(f'the mode of a multi-grad hook is "all" or "any", not {mode!r}')
    check_callable(fn, "a hook")
    observed = _check_tensors(tensors, mode)
    collector = _AllGradients(observed) if mode == "all" else _FirstGradient()
    return MultiGradHandle(
        tensor.register_hook(_tensor_hook(collector, index, fn)) for index, tensor in enumerate(observed)
    )


@final
class MultiGradHandle:
    """Removes a multi-grad hook from all its tensors, by `remove()` or at the end of a `with` block.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> with ag.graph.register_multi_grad_hook([x], print):
        ...     pass
    """

    __slots__ = ("_handles",)

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> MultiGradHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _GradientCollector:
    """Abstract: collects the gradients of each backward.

    The state is keyed weakly by GraphTask, so that it is dropped with the backward, however that ends.
    """

    __slots__ = ("_lock", "_states")

    def __init__(self) -> None:
        self._states: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        # Event loops in several threads may run the same graph.
        self._lock = threading.Lock()

    def add_gradient(self, index: int, grad: Any) -> tuple[Any] | None:
        """Add a gradient of the running backward; return the arguments of the user's function, or None: no call yet.

        Args:
            index: which tensor it belongs to.
            grad: None where it is undefined.
        """
        raise NotImplementedError


@final
class _FirstGradient(_GradientCollector):
    """Passes on the first gradient of each backward."""

    __slots__ = ()

    def add_gradient(self, index: int, grad: Any) -> tuple[Any] | None:
        graph_task = CURRENT_GRAPH_TASK.get()
        with self._lock:
            if graph_task in self._states:
                return None
            self._states[graph_task] = True
        # The hook cannot replace it, so what it writes in place stays its own
        # (test_what_a_multi_grad_hook_writes_is_its_own).
        return (private_copy(grad),)


@final
class _AllGradients(_GradientCollector):
    """Collects the gradients of each backward until none is missing."""

    __slots__ = ("_nodes",)

    def __init__(self, tensors: tuple[TensorBase, ...]) -> None:
        super().__init__()
        self._nodes = tuple(map(_node_finder, tensors))

    def add_gradient(self, index: int, grad: Any) -> tuple[Any] | None:
        graph_task = CURRENT_GRAPH_TASK.get()
        with self._lock:
            state = self._states.get(graph_task)
            if state is None:
                state = self._states[graph_task] = _PendingGradients(self._expected(graph_task), len(self._nodes))
            state.grads[index] = grad
            state.missing -= 1
            if state.missing:
                return None
            # The list is the user's now.
            del self._states[graph_task]
        # As in `_FirstGradient`. The engine goes on with copies of those that have waited here.
        state.grads[index] = private_copy(grad)
        return (state.grads,)

    def _expected(self, graph_task: Any) -> int:
        """Return for how many of the tensors this backward computes a gradient."""
        nodes = [node for find in self._nodes if (node := find()) is not None]
        return sum(map(graph_task.will_reach, nodes))


@final
class _PendingGradients:
    """The gradients that have arrived in one backward, and the number of those that are missing."""

    __slots__ = ("grads", "missing")

    def __init__(self, missing: int, length: int) -> None:
        self.missing = missing
        self.grads: list[Any] = [None] * length


def _check_tensors(tensors: Iterable[TensorBase], mode: str) -> tuple[TensorBase, ...]:
    """Return the tensors to observe; with "any", those that require grad.

    Raises:
        ArgumentTypeError: they are no tensors, or a single one and not a sequence.
        RequiresGradError: one does not require grad; with "any", none does.
    """
    if isinstance(tensors, TensorBase) or not isinstance(tensors, Iterable):
        raise ArgumentTypeError(
            takes("a multi-grad hook", "a sequence of tensors", tensors, "write [t], or t.register_hook(fn)")
        )
    observed = tuple(tensors)
    for index, tensor in enumerate(observed):
        if not isinstance(tensor, TensorBase):
            raise ArgumentTypeError(must_be(f"tensor {index} of a multi-grad hook", "a Tensor", tensor))
        if mode == "all" and not tensor._requires_grad():
            raise RequiresGradError(
                f"tensor {index} of a multi-grad hook (a {outline(tensor)}) does not require grad: "
                "call .requires_grad_() on it before use, or leave it out"
            )
    requiring = tuple(tensor for tensor in observed if tensor._requires_grad())
    if observed and not requiring:
        raise RequiresGradError(
            "none of the tensors of a multi-grad hook requires grad: call .requires_grad_() on them before use"
        )
    return requiring


def _tensor_hook(
    collector: _GradientCollector, index: int, fn: Callable[[Any], Any]
) -> Callable[[Any], Awaitable[None] | None]:
    """Return the tensor hook of one tensor: an `async def` only where `fn` is one."""
    if is_kind(inspect.iscoroutinefunction, fn):

        async def waiting_hook(grad: Any) -> None:
            arguments = collector.add_gradient(index, grad)
            if arguments is not None:
                await fn(*arguments)

        return waiting_hook

    def hook(grad: Any) -> Awaitable[None] | None:
        arguments = collector.add_gradient(index, grad)
        if arguments is None:
            return None
        result = fn(*arguments)
        return _await_and_discard(result) if inspect.isawaitable(result) else None

    return hook


async def _await_and_discard(result: Awaitable[Any]) -> None:
    """Await the result of a hook and return None: the engine would take a result for a new gradient."""
    await result


def _node_finder(tensor: TensorBase) -> Callable[[], Node | None]:
    """Return a function that returns the node at which the gradient of `tensor` arrives, or None if there is none.

    It refers to the node weakly, since the node's hooks refer to the function. A leaf gets a new node if no graph
    holds its old one.
    """
    node = tensor._history()
    if node is not None:
        return weakref.ref(node)
    leaf = weakref.ref(tensor)

    def accumulator() -> Node | None:
        tensor = leaf()
        meta = None if tensor is None else tensor._meta
        return None if meta is None or meta.accumulator is None else meta.accumulator()

    return accumulator
