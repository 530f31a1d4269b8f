"""Node and Edge: the backward functions of a graph and how gradients flow between them.

A graph holds one node for each operation, so a node is small: two tuples hold its edges, and a NodeMeta holds the state
that few nodes have (hooks, metadata, a stream). All other nodes have None there. Slots alone link a node to others,
never closures or frames, so that dropping a deep graph does not recurse.

The edges of a node are fixed once another node leads to it. So the subgraph below a node and its topological number
never change, every node in that subgraph is older, and a cycle is impossible.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import threading
from collections.abc import Hashable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ...errors import ArgumentError, ArgumentTypeError, GraphError, IndexRangeError
from ..arrays.hooks import HookList, RemovableHandle
from ..arrays.interception import add_entry_methods
from ..arrays.tensor_base import TensorBase
from ..arrays.values import counted
from ..settings.arguments import describe, must_be
from ..settings.context import CURRENT_GRAPH_TASK
from ..settings.elsewhere import NODE_ATTRIBUTES, hint_at
from ..settings.process import hold_in_forks
from .cost import LARGE, array_kind, expect_large_arrays, size_of
from .creation import announce
from .metadata import InputMetadata, call_node, metadata_of
from .naming import HIGHEST_NUMBER, identify
from .packed import Packed, SavedTensor, all_saved_by
from .value_metadata import ValueMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

    from .lowering import BodySource, CompiledArgs
    from .saved import Saved

__all__ = [
    "Edge",
    "GradientEdge",
    "LEAF_ORDER",
    "MAIN_THREAD",
    "Node",
    "NodeMeta",
    "THREADS",
    "TraceableNode",
    "metas_added",
    "checked_edge",
    "next_order",
    "output_indices",
]


#: Sequence numbers count up over the whole process; `order` is their negative, so that a heap of orders
#: pops the newest node first.
next_order: Callable[[], int] = itertools.count(0, -1).__next__

#: Order of AccumulateGrad: ahead of every node.
LEAF_ORDER = -HIGHEST_NUMBER

#: Held while a node gets its NodeMeta.
_META_LOCK = hold_in_forks(threading.Lock())

#: How many nodes have got a NodeMeta after they were made. If the count changes while a backward is suspended, the
#: backward looks for hooks again.
metas_added: list[int] = [0]

#: The thread that made every node without a `foreign_thread`.
MAIN_THREAD = threading.main_thread().ident

#: The threads that `threading` knows. While there is only one, the wrappers of primitives do not ask for its id, which
#: would cost 3 % of a small operation. (So a thread that only C code knows counts as the main one.)
THREADS: Sized = getattr(threading, "_active", (None, None))


@final
class KeptAnswers:
    """What one who was asked has answered, the body of a memoized node, say: see `core/engine/memoized.py`."""

    __slots__ = ("by_question", "most")

    def __init__(self) -> None:
        #: How many a backward needs at most, of those that have asked: a batch needs one for each of its rows.
        self.most: int = 1
        #: The answers, the one that was asked for longest ago first.
        self.by_question: dict[Hashable, tuple[Any, ...]] = {}


@final
class NodeMeta:
    """The state that few nodes need. A node with a NodeMeta takes the engine's slow path."""

    __slots__ = (
        "answers",
        "contention",
        "holder",
        "input_metadata",
        "metadata",
        "post_hooks",
        "pre_hooks",
        "retains_grad_hooks",
        "stream",
        "takes_values",
        "tensor_pre_hooks",
    )

    def __init__(self, input_metadata: tuple[InputMetadata | ValueMetadata | None, ...] | None = None) -> None:
        #: The metadata of a node with several inputs, or of one that `Node.__init__` made; None where the node's own
        #: slots hold it.
        self.input_metadata: tuple[InputMetadata | ValueMetadata | None, ...] | None = input_metadata
        #: Whether gradients that are no arrays arrive at the node, which are merged before it runs.
        self.takes_values: bool = False
        self.metadata: dict[Any, Any] | None = None
        #: Tensor hooks: (input_nr, hooks of that tensor), in the order of the first registration.
        self.tensor_pre_hooks: list[tuple[int, HookList]] = []
        #: For each input whose gradient a tensor retains, a weak reference to that tensor.
        self.retains_grad_hooks: dict[int, Any] = {}
        self.pre_hooks: HookList | None = None
        self.post_hooks: HookList | None = None
        #: The stream of the device that was current when the node was made; None for the default stream.
        self.stream: Any = None
        #: The node's lock: the GraphTask that holds it, and the lock's state under contention.
        self.holder: Any = None
        self.contention: Any = None

    #: What the body of a memoized node, and merges of gradients at its inputs, have answered, by who was asked, and by
    #: what: see `core/engine/memoized.py`. Mostly unset, so that it costs nothing.
    answers: dict[int, KeptAnswers]

    def answers_of(self, asked: int) -> KeptAnswers:
        """Return the answers that are kept of one who was asked."""
        # Another thread may let go of all answers meanwhile.
        kept: dict[int, KeptAnswers] | None = getattr(self, "answers", None)
        if kept is None:
            kept = self.answers = {}
        return kept.setdefault(asked, KeptAnswers())

    def forget_answers(self) -> None:
        """Let go of the kept answers, if there are any."""
        if hasattr(self, "answers"):
            del self.answers


class Edge(NamedTuple):
    """Where a gradient flows: to input `input_nr` of `node`. Where the node is None, the gradient is dropped.

    Example:
        >>> from asyncgrad.graph import Edge
        >>> Edge(None, 0).node is None
        True
    """

    node: Node | None
    input_nr: int


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


class Node:
    """Abstract: one backward function. It turns the gradients of a forward's outputs into those of its inputs.

    A subclass implements `apply`, as a function or an `async def`. Calling a node, `node(*grads)`, runs `apply` alone,
    without hooks, and records it where grad mode is on. A node equals only itself.

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
        "has_parent",
        "input_nrs",
        "meta",
        "next_nodes",
        "order",
        "shape",
    )

    #: Whether `apply` is an `async def`.
    is_async: bool = False
    #: Whether `apply` uses only differentiable functions, so that it can be traced: see TraceableNode.
    is_traceable = False
    #: Whether `apply` reads only saved tensors and values that the structure of the graph fixes, so that a trace may
    #: pass in other saved tensors. Only a traceable node may set it.
    passes_state_transparently = False
    #: Whether `apply` must run in the thread of the event loop that awaits the backward, however long it takes, since
    #: it may use that loop or objects that only that thread may touch. Otherwise a worker thread may run it.
    stays_on_loop = False
    #: Whether what `apply` returns is kept under `retain_graph="until_success"`, so that the next try does not call it
    #: again: see `Function.is_memoized`.
    is_memoized = False

    #: Whether `apply` may run several times at once, for several backward passes through one graph that is kept, as for
    #: the rows of a Jacobian: see `Function.concurrent`.
    concurrent: bool = False

    #: Whether `apply` is a user's function, which may keep gradients and write into them: see `ownership.py`.
    is_users = True
    #: Whether another node may keep a part of the gradient of its output to itself: see `check_input`.
    tells_part = False
    #: Whether each edge leads to a leaf without a NodeMeta, and with the shape and dtype of the gradient that has just
    #: been computed.
    fills_leaves: bool = False
    #: Whether `when_unpacked` awaits the saved tensors apart from the computation. Otherwise `apply` does both.
    unpacks_apart = False

    #: For each edge, the node it leads to (None drops the gradient) and which of its inputs.
    next_nodes: tuple[Node | None, ...]
    input_nrs: tuple[int, ...]
    #: True once another node leads here; unset before that, so that it costs nothing.
    has_parent: bool
    #: Negative sequence number.
    order: int
    #: The id of the thread that made the node; unset where that was the main thread.
    foreign_thread: int
    #: Of the single forward output. A node with another number of outputs has None here, and `input_metadata` in its
    #: NodeMeta.
    shape: tuple[int, ...] | None
    dtype: Any
    device: Any
    #: None on a *plain* node, which has a single input and whose body is `node.plan.run(node, grad, release)`, a
    #: synchronous function of the library. The engine calls it directly, and heeds the signals that it may raise
    #: (`body_signals.py`); every other node runs as a NodeTask.
    meta: NodeMeta | None

    def __init__(
        self,
        edges: Sequence[Edge | None] = (),
        input_metadata: Sequence[InputMetadata | ValueMetadata | None] = (None,),
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
        self.meta = NodeMeta(tuple(input_metadata))
        self.meta.takes_values = any(isinstance(metadata, ValueMetadata) for metadata in input_metadata)
        announce(self)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "apply" in cls.__dict__ and "is_async" not in cls.__dict__:
            cls.is_async = inspect.iscoroutinefunction(cls.apply)

    def _connect(self, edges: Sequence[Edge | None]) -> None:
        """Set the edges, the sequence number and the thread of a new node."""
        self._connect_places(
            [None if edge is None else edge.node for edge in edges],
            [0 if edge is None else edge.input_nr for edge in edges],
        )

    def _connect_places(self, nodes: Iterable[Node | None], input_nrs: Iterable[int]) -> None:
        """Do the same where nodes and inputs come apart."""
        self.next_nodes, self.input_nrs = tuple(nodes), tuple(input_nrs)
        for node in self.next_nodes:
            if node is not None:
                node.has_parent = True
        self.order = next_order()
        if len(THREADS) > 1:
            self._note_thread()

    def _note_thread(self) -> None:
        thread = threading.get_ident()
        if thread != MAIN_THREAD:
            self.foreign_thread = thread

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the forward inputs, one for each edge, or an awaitable of them.

        Args:
            grads: the gradient of each forward output; None where it is undefined. They are the body's own, which may
                write into them and keep them. What it returns and keeps is copied.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement apply(grads)")

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return type(self).__name__

    @property
    def takes_rows(self) -> bool:
        """Whether the body can answer for several rows in one call: see `Function.backward_batch`."""
        return False

    @property
    def num_inputs(self) -> int:
        """How many gradients the node takes: the number of forward outputs."""
        return len(self.input_metadata)

    @property
    def num_outputs(self) -> int:
        """How many gradients the node returns: the number of forward inputs."""
        return len(self.next_nodes)

    @property
    def input_metadata(self) -> tuple[InputMetadata | ValueMetadata | None, ...]:
        """For each forward output, what its gradient must look like."""
        meta = self.meta
        if meta is not None and meta.input_metadata is not None:
            return meta.input_metadata
        return (None if self.shape is None else InputMetadata(self.shape, self.dtype, self.device),)

    @property
    def sequence_nr(self) -> int:
        """The number of the node in the order in which the process made them; newer nodes run first.

        Setting it changes only the node's priority: a node still waits for all its gradients.
        """
        return -self.order

    @sequence_nr.setter
    def sequence_nr(self, number: int) -> None:
        if type(number) is not int:
            raise ArgumentTypeError(must_be(f"the sequence number of {self.name}", "an int", number))
        if not 0 <= number <= -LEAF_ORDER:
            raise ArgumentError(
                f"the sequence number of {self.name} is from 0 up to {-LEAF_ORDER}, at which a node runs ahead of "
                f"all others, not {number}"
            )
        # At a NodeMeta the engine leaves the fast path, which trusts the order of nodes, and counts dependencies.
        self.make_meta()
        self.order = -number

    @property
    def thread_id(self) -> int:
        """The `threading.get_ident()` of the thread that made the node."""
        return getattr(self, "foreign_thread", MAIN_THREAD or 0)

    @property
    def metadata(self) -> dict[object, object]:
        """A dictionary for the user's own data."""
        meta = self.make_meta()
        if meta.metadata is None:
            meta.metadata = {}
        return meta.metadata

    def make_meta(self) -> NodeMeta:
        """Return the node's NodeMeta; make it if there is none."""
        meta = self.meta
        if meta is None:
            made = NodeMeta()
            # Another thread may make one at the same time, and a node must have only one lock and one set of hooks.
            with _META_LOCK:
                meta = self.meta
                if meta is None:
                    meta = self.meta = made
                    metas_added[0] += 1
        return meta

    @property
    def next_edges(self) -> tuple[Edge, ...]:
        """For each forward input, the edge along which its gradient flows."""
        return tuple(map(Edge, self.next_nodes, self.input_nrs))

    @property
    def topological_nr(self) -> int:
        """The length of the longest path from here: each node on a path has a lower number than the one before.

        Each read counts anew, in time that grows with the graph.
        """
        numbers: dict[Any, int] = {}
        stack: list[Any] = [self]
        while stack:
            node = stack[-1]
            targets = [target for target in node.next_nodes if target is not None]
            missing = [target for target in targets if target not in numbers]
            if missing:
                stack += missing
            else:
                numbers[stack.pop()] = max((numbers[target] + 1 for target in targets), default=0)
        return numbers[self]

    def is_held(self) -> bool:
        """Tell whether another node leads or has led to this one, so that its edges are fixed."""
        return getattr(self, "has_parent", False)

    def set_next_edge(self, index: int, edge: Edge | None) -> None:
        """Let the gradient of forward input `index` flow along another edge.

        Args:
            index: which forward input.
            edge: an Edge or a GradientEdge; None drops the gradient.

        Raises:
            GraphError: the node has a parent already, or does not compute a gradient for that input.

        Source: Node::set_next_edge of PyTorch.
        """
        index = _index(self, index)
        self._set_edges({index: edge}, len(self.next_nodes))

    def set_next_edges(self, edges: Iterable[Edge | None]) -> None:
        """Replace all edges: one for each forward input.

        Args:
            edges: one Edge or GradientEdge for each gradient that the body returns; None drops a gradient. Only a
                node of your own may get another number of edges.

        Raises:
            GraphError: the node has a parent already, or cannot have these edges.

        Source: Node::set_next_edges of PyTorch.
        """
        given = dict(enumerate(edges))
        if len(given) != len(self.next_nodes):
            self._must_be_own(f"get {counted(len(given), 'edge')} in place of {len(self.next_nodes)}")
        self._set_edges(given, len(given))

    def add_next_edge(self, edge: Edge | None) -> None:
        """Append an edge to a node of a class of your own, whose body returns one more gradient for it.

        Raises:
            GraphError: the node has a parent already, or an operation made it.

        Source: Node::add_next_edge of PyTorch.
        """
        self._must_be_own("get one more edge")
        count = len(self.next_nodes)
        self._set_edges({count: edge}, count + 1)

    def add_input_metadata(self, metadata: InputMetadata | ValueMetadata | TensorBase | None) -> int:
        """Add an input to a node of your own, for one more forward output; return which input it is.

        Args:
            metadata: what its gradient must look like: an InputMetadata, or a tensor whose shape, dtype and
                device it must have. None accepts anything; `InputMetadata()` stands for an output that has no
                gradient, and accepts nothing.

        Raises:
            GraphError: an operation made the node.

        Source: Node::add_input_metadata of PyTorch.
        """
        self._must_be_own("get one more input")
        if isinstance(metadata, TensorBase):
            metadata = metadata_of(metadata)
        elif metadata is not None and not isinstance(metadata, (InputMetadata, ValueMetadata)):
            raise ArgumentTypeError(
                f"an input is described by an InputMetadata or a tensor, not {describe(metadata)}: "
                "write InputMetadata(shape, dtype, device), or None for an input that accepts anything"
            )
        meta = self.meta
        assert meta is not None
        inputs = meta.input_metadata
        assert inputs is not None
        meta.input_metadata = (*inputs, metadata)
        meta.takes_values = meta.takes_values or isinstance(metadata, ValueMetadata)
        if self.device is None and metadata is not None:
            self.device = metadata.device
        return len(inputs)

    def computes_output(self, index: int) -> bool:
        """Tell whether the body can compute a gradient for forward input `index`, if that input gets an edge."""
        return True

    def _must_be_own(self, change: str) -> None:
        if self.meta is None or self.meta.input_metadata is None:
            raise GraphError(
                f"{identify(self)} cannot {change}: the operation that made it fixes its inputs and edges. "
                "Put a node of your own, a subclass of ag.extend.Node, before or behind it"
            )

    def _set_edges(self, changed: dict[int, Edge | None], count: int) -> None:
        """Replace the edges in `changed`; the node then has `count` edges."""
        if self.is_held():
            raise GraphError(
                f"the edges of {identify(self)} are fixed: a node leads to it, and relies on them. "
                "Set edges before any node leads here"
            )
        nodes, input_nrs = list(self.next_nodes[:count]), list(self.input_nrs[:count])
        nodes += [None] * (count - len(nodes))
        input_nrs += [0] * (count - len(input_nrs))
        for index, edge in changed.items():
            nodes[index], input_nrs[index] = checked_edge(edge)
            if nodes[index] is self:
                raise GraphError(f"an edge of {identify(self)} cannot lead to the node itself")
            if nodes[index] is not None and not self.computes_output(index):
                raise GraphError(
                    f"{identify(self)} computes no gradient for input {index}, which did not require grad: "
                    "let that input require grad when you call the operation"
                )
        # An edge to a newer node breaks the order that the engine's fast path trusts. The NodeMeta makes the engine
        # leave that path here. That is in time: no node leads here yet, and those that will are newer still, so the
        # fast path reaches this node before it runs any node below.
        self.make_meta()
        self.connect(tuple(nodes), tuple(input_nrs))

    def connect(self, nodes: tuple[Node | None, ...], input_nrs: tuple[int, ...]) -> None:
        """Set the edges without any check."""
        self.next_nodes, self.input_nrs = nodes, input_nrs
        for node in nodes:
            if node is not None:
                node.has_parent = True

    def should_compute_output(self, *outputs: int | tuple[int, int] | Iterable[int | tuple[int, int]]) -> bool:
        """Tell whether the gradient of any of these forward inputs flows anywhere.

        Args:
            *outputs: which inputs: an index, a pair `(start, end)` for those from start up to end, or a sequence of
                these.
        """
        return any(self.next_nodes[index] is not None for index in output_indices(self, outputs))

    def task_should_compute_output(self, *outputs: int | tuple[int, int] | Iterable[int | tuple[int, int]]) -> bool:
        """Tell whether the running backward needs the gradient of any of these forward inputs.

        Outside of a backward, tell whether one of the gradients flows anywhere.

        Args:
            *outputs: which inputs, named as for `should_compute_output`.
        """
        graph_task = CURRENT_GRAPH_TASK.get()
        limits = None if graph_task is None else graph_task.limits
        if limits is None:
            return self.should_compute_output(*outputs)
        targets = [self.next_nodes[index] for index in output_indices(self, outputs)]
        return any(target is not None and limits.executes(target) for target in targets)

    def register_prehook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(grads)` before each run of the body, with the tuple of gradients that the body takes.

        Args:
            hook: a function or an `async def`. It returns None, or a tuple of gradients that replaces `grads`. What it
                writes and keeps counts as for `Tensor.register_hook`.

        Raises:
            HookTypeError: the hook cannot be called.

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
        meta = self.make_meta()
        if meta.pre_hooks is None:
            meta.pre_hooks = HookList()
        return meta.pre_hooks.add(hook)

    def register_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call `hook(outputs, grads)` after each run of the body, with the gradients that it returned and took.

        Args:
            hook: a function or an `async def`. It returns None, or a tuple that replaces `outputs`. What it writes into
                `outputs` and keeps counts as for `Tensor.register_hook`; a write into `grads` changes nothing.

        Raises:
            HookTypeError: the hook cannot be called.

        Source: Node.register_hook of PyTorch.

        Example:
            >>> import asyncgrad as ag
            >>> x = ag.tensor(1.0, requires_grad=True)
            >>> y = x * 3
            >>> with y.grad_fn.register_hook(lambda outputs, grads: print(outputs[0].item(), grads[0].item())):
            ...     ag.sync.backward(y)
            3.0 1.0
        """
        meta = self.make_meta()
        if meta.post_hooks is None:
            meta.post_hooks = HookList()
        return meta.post_hooks.add(hook)

    def __call__(self, *grads: Any) -> Any:
        """Run the body on gradients of the forward outputs; return those of the inputs, a tuple unless there is one.

        No hook runs, and no gradient flows on to other nodes. The run is recorded where grad mode is on. Where the
        body is async, return an awaitable.

        Args:
            *grads: for each forward output a tensor, an array, or None where the gradient is undefined.

        Raises:
            ArgumentTypeError: there are too few or too many gradients, or something else is among them.
            InvalidGradientError: a gradient does not fit its output.
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
        """Return the node's saved entries: a Saved, or a Packed where a hook has packed it; None once released."""
        return ()

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Replace saved entry `index` by `packed`."""
        raise NotImplementedError(f"{type(self).__name__} has saved entries, and must implement keep_packed")

    def needed_packed(self) -> Sequence[Packed]:
        """Return the packed entries that the node needs in the running backward, in the order of unpacking."""
        return [entry for entry in self.saved_entries() or () if isinstance(entry, Packed)]

    def waits_for_saved(self) -> bool:
        """Tell whether unpacking a saved entry is known to need an event loop."""
        return any(isinstance(entry, Packed) and entry.may_wait() for entry in self.saved_entries() or ())

    def check_input(self, root: Node, output_nr: int) -> None:
        """Raise if a backward from an output of `root` has a part of the gradient here that does not arrive here.

        Called where that gradient is wanted, by `inputs`, of a node that sets `tells_part`.
        """

    def release_variables(self) -> None:
        """Release the values that the node has saved for the backward."""

    def will_release_variables(self) -> None:
        """Prepare for the last run of the body, which follows.

        Not called under `retain_graph="until_success"`, where no run is known to be the last.
        """

    @property
    def stream(self) -> Any:
        """The stream that the body runs on: the one that was current on the node's device when the node was made.

        None where that was the default stream of a device that finishes its work before a call returns, or where the
        node has no device. A leaf has the stream of the operation that used it first.

        Source: the stream in the first InputMetadata of a node in PyTorch.
        """
        meta, device = self.meta, self.device
        if meta is not None and meta.stream is not None:
            return meta.stream
        return device.default_stream() if device is not None and device.is_asynchronous else None

    async def when_unpacked(self, grads: tuple[Any, ...]) -> Callable[[], Any]:
        """Await all saved tensors; return a function that does the rest of `apply(grads)`, in any thread."""
        raise NotImplementedError(f"{type(self).__name__} unpacks_apart, and must implement when_unpacked")

    def cost_key(self, grads: Sequence[Any]) -> tuple[object, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        return (self.name, type(self), *map(array_kind, grads)), 1e-4

    def note_slow(self) -> None:
        """Note that a backward ran out of its time budget in, or just before, a run of this plain node.

        If the node's arrays are large, every body checks the sizes of its arrays from now on. A device whose functions
        return before their work is done says nothing about that.
        """
        device = self.device
        if size_of(self) >= LARGE and (device is None or not device.is_asynchronous):
            expect_large_arrays()

    def note_cheap(self) -> None:
        """Note that measured runs of this kind were short."""

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect into `args` everything that a run of this node depends on, except the values in its arrays.

        A graph whose nodes collect the same reuses a compiled backward. If the body reads other state, for example a
        factor, override this method, call `super()`, and collect that state: `args.collect(self.factor)`.

        Source: Node::compiled_args of PyTorch.
        """
        meta = self.meta
        args.collect((type(self), self.is_async, self.is_traceable, self.num_outputs))
        args.collect_metadata(self.input_metadata)
        args.collect(self.device)
        args.collect_saved(
            None
            if (saved := self.saved_entries()) is None
            else [entry if isinstance(entry, Packed) else entry.tensor for entry in saved]
        )
        if meta is not None:
            args.collect_hooks(meta.pre_hooks)
            args.collect_hooks(meta.post_hooks)
            for input_nr, hooks in meta.tensor_pre_hooks:
                args.collect(input_nr)
                args.collect_hooks(hooks)
            args.collect(tuple(meta.retains_grad_hooks))

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        """Return what `apply(grads)` returns, with `saved` in place of the tensors that the node has saved.

        Args:
            grads: as for `apply`.
            saved: a tensor or array for each entry of `saved_tensors`, in order.

        Raises:
            NotImplementedError: the node saves tensors, and its class does not override this method.

        Source: Node::apply_with_saved of PyTorch.
        """
        if saved or self.saved_entries():
            raise NotImplementedError(
                f"{type(self).__name__} saves tensors, and must implement apply_with_saved(grads, saved)"
            )
        return self.apply(grads)

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource | None:
        """Return the source of this plain node's body; None if there is none, so that the engine runs the node.

        Args:
            wanted: for each edge, whether its gradient is wanted; None where that holds for each edge with a node.
            defined: for each input, whether a gradient arrives there.
        """
        return None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __str__(self) -> str:
        # Imported here: only what is shown needs it.
        text: str = import_module(".facts", __package__).text_of_node(self)
        return text

    def _repr_html_(self) -> str:
        html: str = import_module(".facts", __package__).html_of_node(self)
        return html


class TraceableNode(Node):
    """Abstract: a node whose `apply` uses only differentiable functions, so that it can be traced.

    The engine may run it once on placeholders for its gradients, and repeat the recorded operations with others. Derive
    from it only if `apply` has no branch that depends on a gradient's values, and reads no state that changes.

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


def checked_edge(edge: Any) -> tuple[Node | None, int]:
    """Return the node that an edge leads to, and which of its inputs.

    Raises:
        ArgumentTypeError: `edge` is no edge.
        IndexRangeError: the node of the edge has no such input.
    """
    if edge is None:
        return None, 0
    if not isinstance(edge, tuple) or len(edge) != 2 or not isinstance(edge[0], Node | None):
        raise ArgumentTypeError(
            must_be(
                "an edge",
                "an Edge, a GradientEdge or None",
                edge,
                "write Edge(node, input_nr), or ag.graph.get_gradient_edge(tensor)",
            )
        )
    node, input_nr = edge
    if type(input_nr) is not int:
        raise ArgumentTypeError(must_be("the input_nr of an edge", "an int", input_nr, "write Edge(node, 0)"))
    if node is not None and not 0 <= input_nr < node.num_inputs:
        raise IndexRangeError(
            f"an edge leads to input {input_nr} of {identify(node)}, which has {counted(node.num_inputs, 'input')}"
        )
    return node, input_nr


def output_indices(node: Node, given: Iterable[Any]) -> Iterator[int]:
    """Yield the indices of edges that ints, pairs `(start, end)` and sequences of these name.

    Raises:
        IndexRangeError: the node has no such edge.
        ArgumentTypeError: something else is among `given`.
    """
    count = len(node.next_nodes)
    for item in given:
        if hasattr(item, "__index__"):
            yield _index(node, item)
        elif not isinstance(item, Iterable) or isinstance(item, str):
            raise ArgumentTypeError(
                f"forward inputs are named by an index or a pair (start, end), not {describe(item)}: "
                "write should_compute_output(0) or should_compute_output((0, 2))"
            )
        elif isinstance(item, tuple) and len(item) == 2 and all(hasattr(bound, "__index__") for bound in item):
            start, end = map(operator.index, item)
            if not 0 <= start <= end <= count:
                raise IndexRangeError(
                    f"({start}, {end}) is not a range of the {counted(count, 'edge')} of {identify(node)}"
                )
            yield from range(start, end)
        else:
            yield from output_indices(node, item)


def _index(node: Node, index: Any) -> int:
    if not hasattr(index, "__index__") or isinstance(index, bool):
        raise ArgumentTypeError(f"an edge is named by an int, not {describe(index)}: write node.set_next_edge(0, edge)")
    count = len(node.next_nodes)
    if not 0 <= (number := operator.index(index)) < count:
        raise IndexRangeError(f"{identify(node)} has {counted(count, 'edge')}, and none has the index {number}")
    return number


# It runs the body where no backward does.
add_entry_methods(Node, "__call__")
hint_at(Node, NODE_ATTRIBUTES)
