"""The node of a result from which a compiled function has computed another result.

The program goes from the gradients of all results to those of the arguments at once. So the gradient that comes to such
a result from the other one within the function is not there for a hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Never, final

from ..core.arrays.hooks import HookList
from ..core.graph.metadata import InputMetadata
from ..core.graph.node import NodeMeta
from ..core.graph.walk import nodes_below
from ..core.recording.handwritten_node import HandwrittenNode
from ..errors import GraphError

__all__ = ["ResultNode", "edges_of"]


@final
class ResultNode(HandwrittenNode):
    """Passes on the gradient of a result; refuses hooks, and to tell a gradient that is not the whole one.

    Args:
        node: that of the call.
        output_nr: the number of the result among its outputs.
        results_of_it: the numbers of the results that are computed from it.
        like: the array of the result.
        function: the name of the compiled function.
    """

    __slots__ = ("_function", "_results_of_it")

    is_users = False
    keeps_spec = True
    tells_part = True

    def __init__(self, node: Any, output_nr: int, results_of_it: frozenset[int], like: Any, function: str) -> None:
        self._connect_places((node,), (output_nr,))
        self.meta = None
        self.device: Any = node.device
        self.shape, self.dtype = like.shape, like.dtype
        self._function = function
        self._results_of_it = results_of_it

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ResultBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of the result."""
        return (InputMetadata(self.shape or (), self.dtype, self.device),)

    def make_meta(self) -> NodeMeta:
        """Return the node's NodeMeta, whose lists of hooks take none."""
        is_new = self.meta is None
        meta: NodeMeta = super().make_meta()
        if is_new:
            meta.tensor_pre_hooks = _NoHooks(self._function)
            meta.retains_grad_hooks = _NoRetainedGradients(self._function)
        return meta

    def register_prehook(self, hook: Callable[..., object]) -> Never:
        """Refuse a hook.

        Raises:
            GraphError: always.
        """
        raise _refusal(self._function)

    def register_hook(self, hook: Callable[..., object]) -> Never:
        """Refuse a hook.

        Raises:
            GraphError: always.
        """
        raise _refusal(self._function)

    def check_input(self, root: Any, output_nr: int) -> None:
        """Refuse a backward that begins at, or leads to, a result that is computed from this one.

        Raises:
            GraphError: a part of the gradient of this one comes from there.
        """
        call = self.next_nodes[0]
        edges = edges_of(nodes_below([root])) | {(root, output_nr)}
        if any((call, index) in edges for index in self._results_of_it):
            raise _refusal(self._function)

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of the result."""
        return grads

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradient of the result."""
        return (grad,)


@final
class _NoHooks(list[tuple[int, HookList]]):
    """The hooks of tensors of a node that takes none."""

    __slots__ = ("_function",)

    def __init__(self, function: str) -> None:
        super().__init__()
        self._function = function

    def append(self, hook: tuple[int, HookList]) -> Never:
        """Refuse a hook.

        Raises:
            GraphError: always.
        """
        raise _refusal(self._function)


@final
class _NoRetainedGradients(dict[int, Any]):
    """The gradients that are kept of a node that tells none."""

    __slots__ = ("_function",)

    def __init__(self, function: str) -> None:
        super().__init__()
        self._function = function

    def __setitem__(self, output_nr: int, keeper: Any) -> Never:
        """Refuse to keep a gradient.

        Raises:
            GraphError: always.
        """
        raise _refusal(self._function)


def edges_of(nodes: Iterable[Any]) -> set[tuple[Any, int]]:
    """Return where the edges of some nodes lead: the nodes, and the numbers of their outputs."""
    return {edge for node in nodes for edge in zip(node.next_nodes, node.input_nrs, strict=True)}


def _refusal(function: str) -> GraphError:
    return GraphError(
        f"{function}, which ag.jit compiles, computes another result from this one, which takes no hook, no "
        "retain_grad() and no inputs= therefore: its program does not tell the gradient in between. Compute the other "
        "result outside of the compiled function, or call the function without ag.jit"
    )
