"""Node and Edge: the backward functions of a graph and how gradients flow between them.

A node is slim, since a graph holds one for each operation: its edges are two tuples, what only a few
nodes have (hooks, metadata, stacks) hangs on `special`, which is None on all others. A node is linked to
others through slots only, never through closures or frames, so that dropping a deep graph does not recurse.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..context import CURRENT_GRAPH_TASK
from ..errors import ArgumentError, ArgumentTypeError
from .compiled_args import Compilable
from .creation import announce
from .direct_call import call_node
from .edges import Edge, WithEdges, checked_edge, output_indices
from .heavy import MayBeHeavy
from .hooks import HookList, RemovableHandle
from .metadata import InputMetadata
from .naming import HIGHEST_NUMBER
from .on_stream import OnStream
from .packed import Packed
from .saved_tensor import SavedTensor, all_saved_by
from .special import Special
from .values import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

    from .saved import Saved

__all__ = [
    "LEAF_ORDER",
    "MAIN_THREAD",
    "Edge",
    "GradientEdge",
    "Node",
    "THREADS",
    "Special",
    "TraceableNode",
    "became_special",
    "next_order",
]

#: Sequence numbers count up over the whole process; `order` is their negative, so that a heap of orders
#: pops the newest node first.
next_order = itertools.count(0, -1).__next__

#: Order of AccumulateGrad: ahead of every node.
LEAF_ORDER = -HIGHEST_NUMBER

#: Held while a node is given its Special.
_MAKING_SPECIAL = threading.Lock()

#: How many nodes have become special after they were made: where that has changed, a backward that let others run
#: looks again for hooks.
became_special = [0]

#: The thread that made every node without a `foreign_thread`.
MAIN_THREAD = threading.main_thread().ident

#: The threads that `threading` knows, for the drivers of primitives: while there is one alone, they need not ask which
#: it is, which would cost 3 % of a small operation. (A thread that only C code knows is so taken for the main one.)
THREADS: Sized = getattr(threading, "_active", (None, None))


class GradientEdge(NamedTuple):
    """A tensor's place in the graph, without its array: usable as a root or an input of a backward.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0], requires_grad=True)
        >>> ag.graph.get_gradient_edge(x * 2).output_nr
        0
    """

    node: Node
    output_nr: int


class Node(Compilable, OnStream, WithEdges, MayBeHeavy):
    """Abstract: one backward function. It turns the gradients of a forward's outputs into those of its inputs.

    A subclass implements `apply`, as a function or an `async def`. Calling a node, `node(*grads)`, runs that alone,
    without hooks, and records it where grad mode is on. A node equals itself only.

    Args:
        edges: for each forward input, the edge that its gradient flows along (None drops it).
        input_metadata: for each forward output, what its gradient must look like (None accepts anything).

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad.graph import Edge, GradientEdge, Node
        >>> class Negate(Node):
        ...     async def apply(self, grads):
        ...         return (-grads[0],)
        >>> async def main():
        ...     x = ag.tensor([1.0, 2.0], requires_grad=True)
        ...     leaf = ag.graph.get_gradient_edge(x)
        ...     node = Negate([Edge(*leaf)], [leaf.node.input_metadata[0]])
        ...     await ag.backward(GradientEdge(node, 0), np.ones(2))
        ...     return x.grad.tolist()
        >>> ag.run(main())
        [-1.0, -1.0]
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "foreign_thread",
        "order",
        "shape",
        "special",
    )

    #: Whether `apply` is an `async def`.
    is_async = False
    #: Whether `apply` is made of differentiable functions alone, so that it can be traced: see TraceableNode.
    is_traceable = False
    #: Whether what the node keeps for `apply` is nothing but saved tensors and what settles the graph's structure, so
    #: that a trace may pass it in anew. Only a traceable node can say so.
    passes_state_transparently = False

    #: Negative sequence number.
    order: int
    #: The thread that made the node; not there where that was the main one.
    foreign_thread: int
    #: Of the single forward output. A node with any other number of outputs has None and `input_metadata`,
    #: and a Special.
    shape: tuple[int, ...] | None
    dtype: Any
    device: Any
    #: None on a *plain* node: one with a single input, whose body is `node.plan.run(node, grad, release)`, a
    #: synchronous function that no user wrote. The engine calls that directly; every other node runs as a NodeTask.
    special: Special | None

    def __init__(
        self, edges: Sequence[Edge | None] = (), input_metadata: Sequence[InputMetadata | None] = (None,)
    ) -> None:
        if not isinstance(edges, Iterable) or not isinstance(input_metadata, Iterable):
            raise ArgumentTypeError(
                f"a node takes a sequence of edges and one of InputMetadata, not {describe(edges)} and "
                f"{describe(input_metadata)}: write edges=[Edge(node, 0)], or ag.graph.collect_next_edges(t)"
            )
        self._connect([Edge(*checked_edge(edge)) for edge in edges])
        self.shape = None
        self.dtype = None
        self.device = next((metadata.device for metadata in input_metadata if metadata is not None), None)
        self.special = Special(tuple(input_metadata))
        announce(self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "apply" in cls.__dict__ and "is_async" not in cls.__dict__:
            cls.is_async = inspect.iscoroutinefunction(cls.apply)

    def _connect(self, edges: Sequence[Edge | None]) -> None:
        """Set the edges and the numbers that follow from them."""
        self.connect(
            tuple([None if edge is None else edge.node for edge in edges]),
            tuple([0 if edge is None else edge.input_nr for edge in edges]),
        )
        self.order = next_order()
        self._note_thread()

    def _note_thread(self) -> None:
        thread = threading.get_ident()
        if thread != MAIN_THREAD:
            self.foreign_thread = thread

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the forward inputs, one for each edge, or an awaitable of them.

        Args:
            grads: the gradient of each forward output; None where it is undefined. The arrays may be shared:
                do not write into them.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement apply(grads)")

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return type(self).__name__

    @property
    def num_inputs(self) -> int:
        """How many gradients the node takes: the number of forward outputs."""
        return len(self.input_metadata)

    @property
    def num_outputs(self) -> int:
        """How many gradients the node returns: the number of forward inputs."""
        return len(self.next_nodes)

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """For each forward output, what its gradient must look like."""
        special = self.special
        if special is not None and special.input_metadata is not None:
            return special.input_metadata
        return (None if self.shape is None else InputMetadata(self.shape, self.dtype, self.device),)

    @property
    def sequence_nr(self) -> int:
        """When the node was made, counted over the whole process: newer nodes run first.

        Setting it changes the node's priority, and that alone: a node still waits for all its gradients.
        """
        return -self.order

    @sequence_nr.setter
    def sequence_nr(self, number: int) -> None:
        if type(number) is not int:
            raise ArgumentTypeError(f"the sequence number of {self.name} is an int, not {describe(number)}")
        if not 0 <= number <= -LEAF_ORDER:
            raise ArgumentError(
                f"the sequence number of {self.name} is from 0 up to {-LEAF_ORDER}, at which a node runs ahead of "
                f"all others, not {number}"
            )
        # Where the engine meets a Special it counts, and trusts no order any more.
        self.make_special()
        self.order = -number

    @property
    def thread_id(self) -> int:
        """The `threading.get_ident()` of the thread that made the node."""
        return getattr(self, "foreign_thread", MAIN_THREAD or 0)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for users to note things in."""
        special = self.make_special()
        if special.metadata is None:
            special.metadata = {}
        return special.metadata

    def make_special(self) -> Special:
        """Return what few nodes have, made now if this node had none."""
        special = self.special
        if special is None:
            made = Special()
            # Another thread may have come as far: there is one lock, and one place for hooks.
            with _MAKING_SPECIAL:
                special = self.special
                if special is None:
                    special = self.special = made
                    became_special[0] += 1
        return special

    def should_compute_output(self, *outputs: int | tuple[int, int] | Iterable[Any]) -> bool:
        """Tell whether the gradient of a forward input, or of any of several, flows anywhere.

        Args:
            *outputs: which inputs: an index, or `(start, end)` for those from start up to end; or sequences of these.
        """
        return any(self.next_nodes[index] is not None for index in output_indices(self, outputs))

    def task_should_compute_output(self, *outputs: int | tuple[int, int] | Iterable[Any]) -> bool:
        """Tell whether the backward that runs now has a use for the gradient of a forward input, or of any of several.

        Outside of a backward, whether the gradient flows anywhere.

        Args:
            *outputs: which inputs, named as for `should_compute_output`.
        """
        graph_task = CURRENT_GRAPH_TASK.get()
        limits = None if graph_task is None else graph_task.limits
        if limits is None:
            return self.should_compute_output(*outputs)
        targets = [self.next_nodes[index] for index in output_indices(self, outputs)]
        return any(target is not None and limits.executes(target) for target in targets)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grads)` before each run of the body, with the tuple of gradients that it is to take.

        Args:
            hook: a function or an `async def`. It returns None, or a tuple of gradients to take their places.

        Raises:
            HookTypeError: it cannot be called.

        Source: Node.register_prehook of PyTorch.

        Example:
            >>> import asyncgrad as ag
            >>> x = ag.tensor(1.0, requires_grad=True)
            >>> y = x * 3
            >>> with y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,)):
            ...     ag.sync.backward(y)
            >>> x.grad.item()
            6.0
        """
        special = self.make_special()
        if special.pre_hooks is None:
            special.pre_hooks = HookList()
        return special.pre_hooks.add(hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(outputs, grads)` after each run of the body: what it returned, and what it had taken.

        Args:
            hook: a function or an `async def`. It returns None, or a tuple to take the place of `outputs`.

        Raises:
            HookTypeError: it cannot be called.

        Source: Node.register_hook of PyTorch.

        Example:
            >>> import asyncgrad as ag
            >>> x = ag.tensor(1.0, requires_grad=True)
            >>> y = x * 3
            >>> with y.grad_fn.register_hook(lambda outputs, grads: print(outputs[0].item(), grads[0].item())):
            ...     ag.sync.backward(y)
            3.0 1.0
        """
        special = self.make_special()
        if special.post_hooks is None:
            special.post_hooks = HookList()
        return special.post_hooks.add(hook)

    def __call__(self, *grads: Any) -> Any:
        """Run the body on gradients of the forward outputs; return those of the inputs, a tuple unless it is one.

        No hook runs and nothing is accumulated elsewhere. It is recorded where grad mode is on. An awaitable where
        the body is async.

        Args:
            *grads: for each forward output a tensor, an array, or None where it is undefined.

        Raises:
            ArgumentTypeError: too few or too many of them, or something else among them.
            InvalidGradientError: one does not fit the output that it belongs to.
        """
        return call_node(self, grads)

    @property
    def saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The tensors that the node has saved for its backward.

        Raises:
            ReleasedGraphError: a backward has released them.
        """
        return all_saved_by(self)

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return what the node has saved, as it stands: tensors, and what hooks have packed; None once released."""
        return ()

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Keep what a hook has packed in the place of entry `index`."""
        raise NotImplementedError(f"{type(self).__name__} has saved entries, and must implement keep_packed")

    def needed_packed(self) -> Sequence[Packed]:
        """Return what hooks have packed of what the node needs in the backward that runs, in unpack order."""
        return [entry for entry in self.saved_entries() or () if isinstance(entry, Packed)]

    def waits_for_saved(self) -> bool:
        """Tell whether something saved is known to need an event loop to be unpacked."""
        return any(isinstance(entry, Packed) and entry.may_wait() for entry in self.saved_entries() or ())

    def release_variables(self) -> None:
        """Let go of what was saved for the backward."""

    def will_release_variables(self) -> None:
        """Called before a body that runs for the last time."""

    def __repr__(self) -> str:
        return f"<{self.name}>"


class TraceableNode(Node):
    """Abstract: a node whose `apply` is made of differentiable functions alone, so that it can be traced.

    It may be run once on stand-ins for its gradients, and what it did repeated with others. Derive from it only
    if `apply` takes no decision by a gradient's values, and reads no state that changes.

    Source: TraceableFunction of PyTorch.

    Example:
        >>> from asyncgrad.extend import TraceableNode
        >>> class Double(TraceableNode):
        ...     def apply(self, grads):
        ...         return (grads[0] * 2,)
        >>> Double().is_traceable
        True
    """

    __slots__ = ()

    is_traceable = True
