"""A variant: one program of a compiled function, for calls of one key, with what it returns and its memory."""

from __future__ import annotations

import inspect
import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.graph.cost import LARGE
from ..core.graph.leaf import gradient_edge
from ..core.graph.node import LEAF_ORDER, Node, NodeMeta
from ..core.graph.saved import version_of
from ..core.graph.walk import nodes_below
from ..core.settings.callers import is_own_file
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import LEAF, TreeStructure, flatten, unflatten
from .beginnings import Beginning, ones_lying_as
from .call_key import has_grad, key_of_context
from .captured import names_of
from .draws import traced_generator
from .error_ways import ErrorWays
from .fused_program import FusedProgram
from .guards import Guards, NotedFunctions
from .object_key import is_array, is_immutable
from .outside import refuse_arrays_of_others
from .program import Program, lower
from .replayed_gradients import gradients_of
from .result_node import edges_of
from .runner import Runner
from .shared_copies import share_copies
from .stand_in import stand_in
from .table import Table
from .trace import Refusal, Trace, Untraceable, Value

__all__ = ["Output", "Variant", "refuse_hooks_and_other_leaves", "trace_variant"]

#: What a program may return each time as it was in the traced run.
_IMMUTABLE = (int, float, complex, str, bytes, bool, np.generic, np.dtype, type)
#: How many tables wait for the next call; each call under way has one.
_IDLE_TABLES = 4
#: What tells leaves to whose nodes nobody has added anything, without a function's frame for each of them.
_order_and_meta_of = operator.attrgetter("order", "meta")
_OF_PLAIN_LEAVES = {(LEAF_ORDER, None)}


@final
class Output:
    """A leaf of what a function returns: an argument, a number of its program, or what was there in the traced run.

    Args:
        kind: "argument", "tensor", "array", "number" (of NumPy's) or "constant".
        index: which argument, or which output of the program.
        value: the constant.
        requires_grad: whether the tensor requires grad.
        device: that of the tensor.

    Attributes:
        results_of_it: the numbers of the outputs that are computed from it, with a gradient for it.
    """

    __slots__ = ("device", "index", "kind", "requires_grad", "results_of_it", "value")

    def __init__(
        self, kind: str, index: int = 0, value: Any = None, requires_grad: bool = False, device: Any = None
    ) -> None:
        self.kind = kind
        self.index = index
        self.value = value
        self.requires_grad = requires_grad
        self.device = device
        self.results_of_it: frozenset[int] = frozenset()


class Advancing(Protocol):
    """What may make kernels of a program: a Fusing."""

    def is_compiled(self) -> bool:
        """Tell whether kernels are there, or why there are none: the next step compares them."""

    def advance(self, variant: Variant, arrays: Sequence[np.ndarray]) -> str | None:
        """Take the next step before a call; return what has become of it, or None while that is not decided."""


@final
class Variant:
    """A program, how its outputs are put together, and tables that run it."""

    __slots__ = (
        "_idle",
        "_is_short",
        "_keeps_specs",
        "backward_guards",
        "begun",
        "context",
        "differentiable",
        "error_ways",
        "fused",
        "fusing",
        "guards",
        "has_graph",
        "is_unguarded",
        "may_be_long",
        "may_begin_otherwise",
        "name",
        "outputs",
        "program",
        "returns_loss",
        "runner",
        "seeded",
        "structure",
        "verified",
        "wanted",
        "watched",
    )

    def __init__(
        self,
        program: Program,
        structure: TreeStructure,
        outputs: list[Output],
        wanted: list[int],
        seeded: list[int],
        has_graph: bool,
    ) -> None:
        self.program = program
        self.structure = structure
        self.outputs = outputs
        #: Which arrays of the arguments have a gradient.
        self.wanted = wanted
        #: Which tensors among the arguments may be written into before a backward that the function has to make.
        self.watched: list[int] = []
        #: The outputs at which its backward begins.
        self.seeded = seeded
        #: Whether a backward may take long: it reads much, or one has kept its thread for long.
        self.may_be_long: bool = program.work >= LARGE
        self._is_short: bool = False
        #: What runs the calls of its tables; None for Python.
        self.runner: Runner | None = None
        #: Which steps are done by kernels; None for none.
        self.fused: FusedProgram | None = None
        #: What may make kernels of it; None where that is decided.
        self.fusing: Advancing | None = None
        #: Whether an output requires grad.
        self.has_graph = has_graph
        #: Whether it returns one tensor that requires grad, and nothing else.
        self.returns_loss: bool = (
            structure is LEAF and len(outputs) == 1 and outputs[0].kind == "tensor" and outputs[0].requires_grad
        )
        #: How floating-point errors are treated around it.
        self.error_ways = ErrorWays(program.errstate)
        #: What else must be as it was, for the forward and for the backward.
        self.guards: Guards
        self.backward_guards: Guards
        #: Whether nothing else is guarded.
        self.is_unguarded: bool = False
        #: That of the compiled function.
        self.name: str = ""
        #: How many runs have been compared with eager ones.
        self.verified: int = 0
        #: The settings of each call that runs it.
        self.context: tuple[Any, ...] = key_of_context()
        #: By which incoming gradients require grad, the gradients that do then, or None where the function computes
        #: other bits with a graph; filled by backward passes.
        self.differentiable: dict[tuple[bool, ...], tuple[bool, ...] | None] = {}
        #: Whether it is to be known where a backward has begun that this program cannot run.
        self.may_begin_otherwise: bool = False
        #: Where that was; None for none.
        self.begun: Beginning | None = None
        #: Whether each gradient has the shape and dtype of its argument.
        self._keeps_specs: bool = all(map(_has_spec_of, program.gradients, [program.arguments[one] for one in wanted]))
        self._idle: deque[Table] = deque(maxlen=_IDLE_TABLES)

    def holds(self) -> bool:
        """Tell whether what the functions read that have run is as it was."""
        return self.is_unguarded or (self.guards.hold() and self.backward_guards.hold())

    def is_ready(self, verify: int) -> bool:
        """Tell whether it has been compared with the function, and what it is and what runs its steps is decided."""
        is_decided = self.fusing is None and self.begun is None
        return self.verified >= verify and is_decided and (self.fused is None or not self.fused.reruns)

    def ones(self) -> list[np.ndarray]:
        """Return gradients of 1 with which its backward can begin."""
        arrays = [value.array for value in self.program.cotangents]
        return [ones_lying_as(array.shape, array.dtype, array.strides) for array in arrays]

    def note_long(self) -> None:
        """Have backward passes measured from now on, unless they have been, and were short."""
        self.may_be_long = not self._is_short

    def note_short(self) -> None:
        """Stop measuring backward passes: those of one program take equally long."""
        self.may_be_long, self._is_short = False, True

    def fills(self, nodes: Sequence[Node | None]) -> bool:
        """Tell whether all gradients of the program may be passed to these nodes as they are: leaves without hooks."""
        return self._keeps_specs and None not in nodes and _OF_PLAIN_LEAVES.issuperset(map(_order_and_meta_of, nodes))

    def take_table(self) -> Table:
        """Return a table that nobody else uses."""
        try:
            table = self._idle.pop()
            while table.fused is not self.fused:
                # It was given back while the kernels came or went.
                table = self._idle.pop()
            return table
        except IndexError:
            return Table(self.program, self.runner, self.fused)

    def use(self, fused: FusedProgram | None, *tables: Table) -> None:
        """Run by kernels from now on, or without."""
        self.fused = fused
        self._idle = deque(tables, maxlen=_IDLE_TABLES)

    def give_back(self, table: Table) -> None:
        """Let another call use a table; may be called by a finalizer."""
        if table.fused is self.fused:
            self._idle.append(table)


def _has_spec_of(gradient: Value | None, argument: Value) -> bool:
    if gradient is None:
        return False
    return gradient.array.shape == argument.array.shape and gradient.array.dtype == argument.array.dtype


def trace_variant(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    structure: TreeStructure,
    name: str,
    source: Callable[..., Any] | None = None,
    beginning: Beginning | None = None,
) -> Variant:
    """Run a function over traced arrays, forward and backward, and return its program.

    Args:
        function: of the tree of the leaves.
        leaves: the arguments of a call, and what the function has captured.
        structure: their structure.
        name: that of the function, for errors.
        source: what the user has written, where `function` calls that.
        beginning: where its backward begins, if it can; None for at the loss, or at all outputs.

    Raises:
        Untraceable: something in it cannot be recorded.
        Refusal: it uses a leaf or an array that is no argument, or adds a hook.
    """
    trace = Trace()
    noted, of_backward = NotedFunctions(), NotedFunctions()
    with traced_generator(trace), noted.noting():
        variant = _traced(trace, function, leaves, structure, name, source, of_backward, beginning)
    trace.end()
    if trace.broken is not None:
        raise Untraceable(trace.broken)
    refuse_arrays_of_others(trace, source or function, [leaf for leaf in leaves if not is_array(leaf)], name)
    main = source if isinstance(source, types.FunctionType) else None
    variant.guards, variant.backward_guards = Guards(noted, main), Guards(of_backward, main)
    variant.is_unguarded = variant.guards.are_empty() and variant.backward_guards.are_empty()
    variant.name = name
    return variant


def _traced(
    trace: Trace,
    function: Callable[..., Any],
    leaves: Sequence[Any],
    structure: TreeStructure,
    name: str,
    source: Callable[..., Any] | None,
    of_backward: NotedFunctions,
    beginning: Beginning | None,
) -> Variant:
    once: dict[int, Any] = {}
    for index, leaf in enumerate(leaves):
        if id(leaf) not in once:
            once[id(leaf)] = _lift(trace, leaf, f"{index}")
    lifted = [once[id(leaf)] for leaf in leaves]
    marks = [_marks(leaf) for leaf in once.values() if is_array(leaf)]
    given = unflatten(structure, lifted)
    result = function(*given)
    cut = len(trace.calls)
    if trace.broken is not None:
        raise Untraceable(trace.broken)
    left, left_structure = flatten(given)
    if left_structure != structure or not all(map(operator.is_, left, lifted)):
        raise Untraceable("it changes an argument, such as an attribute of a module or an entry of a list")
    _refuse_objects_of_others(result, given, source)
    found, out_structure = flatten(result)
    numbered, (outputs, values, roots) = list(filter(is_array, once.values())), _outputs(trace, found, lifted)
    _refuse_writes(trace, numbered, cut)
    for leaf, before in zip(numbered, marks, strict=True):
        if _marks(leaf) != before:
            raise Untraceable("it changes the .grad, a hook or a flag of an argument")
    wanted = [index for index, leaf in enumerate(numbered) if isinstance(leaf, TensorBase) and leaf._requires_grad()]
    inputs = [numbered[index] for index in wanted]
    cotangents: list[Value] = []
    gradients: list[Value | None] = []
    begun = _begun(roots, beginning)
    if roots:
        own = {id(one) for one in inputs}
        reached = refuse_hooks_and_other_leaves(roots.values(), lambda leaf: id(leaf) in own, name)
        # What no result depends on has no edge, as in the graph of the function.
        wanted = [index for index in wanted if _node_of(numbered[index]) in reached] or wanted
        inputs = [numbered[index] for index in wanted]
        _mark_intermediate(outputs, roots, reached)
        seeds = []
        for index, strides in begun.items():
            ones = ones_lying_as(roots[index].shape, roots[index].dtype, strides)
            seed: Any = asarray(ones)
            cotangents.append(trace.cotangent(ones))
            seed._data = trace.traced(cotangents[-1])
            seeds.append(seed)
        with of_backward.noting():
            found_grads = gradients_of([roots[index] for index in begun], inputs, seeds, False)
        if trace.broken is not None:
            raise Untraceable(trace.broken)
        gradients = [None if one is None else trace.value_of(one._data) for one in found_grads]
    program = lower(trace, cut, values, cotangents, gradients)
    share_copies(program)
    variant = Variant(program, out_structure, outputs, wanted, list(begun), bool(roots))
    variant.watched = _watched(numbered, program.kept, len(roots) > 1)
    return variant


def _mark_intermediate(outputs: Sequence[Output], roots: dict[int, Any], reached: set[Any]) -> None:
    """Note of each output which others are computed from it; `reached` are the nodes of the graph of all."""
    edges = edges_of(reached)
    places = {index: (root._grad_fn, root._output_nr) for index, root in roots.items()}
    # Most often it is none, and then no graph is walked through for each result.
    if not edges.isdisjoint(places.values()):
        below = {index: edges_of(nodes_below([root._grad_fn])) for index, root in roots.items()}
        for one in outputs:
            if one.requires_grad:
                found = [index for index, edges in below.items() if places[one.index] in edges]
                one.results_of_it = frozenset(found)


def _watched(numbered: Sequence[Any], kept: Sequence[bool], has_several_roots: bool) -> list[int]:
    """Return which tensors may be written into before a backward that begins elsewhere, by which are kept for it.

    One that begins at some of several outputs need not read what the whole one reads.
    """
    pairs = enumerate(zip(numbered, kept, strict=True))
    return [
        index for index, (leaf, is_kept) in pairs if isinstance(leaf, TensorBase) and (has_several_roots or not is_kept)
    ]


def _marks(leaf: Any) -> Any:
    """Return what a function may do to a tensor besides writing into it."""
    if not isinstance(leaf, TensorBase):
        return None
    meta = leaf._autograd_meta()
    return leaf._requires_grad(), id(meta.grad), meta.hooks, meta.post_accumulate_hooks, meta.retains_grad


def _begun(roots: dict[int, Any], asked: Beginning | None) -> Beginning:
    """Return where a backward of the program begins: where it is asked for, or at the loss, if there is one."""
    if asked and all(index in roots and len(strides) == roots[index].ndim for index, strides in asked.items()):
        return asked
    numbers = [index for index, root in roots.items() if root.shape == ()]
    return {
        index: np.empty(roots[index].shape, roots[index].dtype).strides
        for index in (numbers if len(numbers) == 1 else roots)
    }


def _lift(trace: Trace, leaf: Any, name: str) -> Any:
    if isinstance(leaf, TensorBase):
        new = stand_in(leaf, trace.argument(leaf._data, name))
        if has_grad(leaf):
            kept = leaf._autograd_meta().grad
            new._autograd_meta().grad = Tensor(trace.grad(kept._data), None, 0, kept._device)
        return new
    return trace.argument(leaf, name) if isinstance(leaf, np.ndarray) else leaf


def _outputs(
    trace: Trace, found: Sequence[Any], lifted: Sequence[Any]
) -> tuple[list[Output], list[Value], dict[int, Any]]:
    """Return the outputs, the Values of those that are computed, and the tensors that require grad by their number."""
    outputs: list[Output] = []
    values: list[Value] = []
    roots: dict[int, Any] = {}
    seen: dict[int, Output] = {}
    arguments = {id(leaf): index for index, leaf in enumerate(lifted) if is_array(leaf)}
    for leaf in found:
        if id(leaf) in arguments:
            outputs.append(Output("argument", arguments[id(leaf)]))
            continue
        if id(leaf) in seen:
            outputs.append(seen[id(leaf)])
            continue
        if not is_array(leaf):
            if not isinstance(leaf, _IMMUTABLE):
                raise Untraceable(f"it returns an object of class {type(leaf).__name__}")
            outputs.append(Output("constant", value=leaf))
            continue
        is_tensor = isinstance(leaf, TensorBase)
        value = trace.value_of(leaf._data if is_tensor else leaf)
        if value.root in trace.arguments or value.root in (one.root for one in values):
            raise Untraceable("it returns a view of an argument, or of something else that it returns")
        if np.empty_like(value.array).strides != value.array.strides:
            raise Untraceable("it returns a part of an array, or one that is spread out")
        requires_grad = is_tensor and leaf._requires_grad()
        if requires_grad and leaf._grad_fn is None:
            raise Untraceable("it returns a leaf that requires grad, and that it has made")
        kind = "tensor" if is_tensor else "number" if value.is_scalar else "array"
        device = leaf._device if is_tensor else None
        seen[id(leaf)] = Output(kind, len(values), requires_grad=requires_grad, device=device)
        outputs.append(seen[id(leaf)])
        if requires_grad:
            roots[len(values)] = leaf
        values.append(value)
    return outputs, values, roots


def _refuse_objects_of_others(result: Any, given: Any, source: Callable[..., Any] | None) -> None:
    """Raise if a container of a result is one that the caller has, or is there twice, or has attributes of its own.

    Raises:
        Untraceable: a program makes each container anew.
    """
    captured = [one for _, one in names_of(source)] if isinstance(source, types.FunctionType) else []
    others = {id(one) for one in _containers([given, captured])}
    seen: set[int] = set()
    for one in _containers(result):
        if id(one) in others or id(one) in seen:
            raise Untraceable(f"it returns an object of class {type(one).__name__} that is there before, or twice")
        seen.add(id(one))
        structure = flatten(one)[1]
        if structure.cls not in (tuple, list, dict) and not is_immutable(structure.aux_data):
            raise Untraceable(f"it returns an object of class {type(one).__name__} with attributes of its own")


def _containers(tree: Any) -> list[Any]:
    found: list[Any] = []

    def note(container: Any) -> bool:
        if container:
            # An empty tuple is there once.
            found.append(container)
        return False

    flatten(tree, note)
    return [one for one in found if type(one) is not tuple]


def _refuse_writes(trace: Trace, numbered: Sequence[Any], cut: int) -> None:
    """Raise if a write into an argument is more than one into its array alone, as of running statistics.

    Raises:
        Untraceable: it is an array, or a tensor that requires grad, or the write raises its version.
    """
    by_value = dict(zip(trace.arguments, numbered, strict=True))
    for position, call in enumerate(trace.calls):
        for value in call.writes:
            leaf = by_value.get(value.root)
            if leaf is None:
                continue
            is_plain = isinstance(leaf, TensorBase) and leaf._grad_fn is None and not leaf._requires_grad()
            if position >= cut or not is_plain or version_of(leaf) or not leaf._data.flags.c_contiguous:
                where = f" at {call.line}" if call.line else ""
                raise Untraceable(
                    f"it writes into argument {value.root.name}{where}: return the new value instead of writing it"
                )


def _node_of(tensor: Any) -> Any:
    edge = gradient_edge(tensor)
    return None if edge is None else edge.node


def refuse_hooks_and_other_leaves(roots: Iterable[Any], is_own: Callable[[Any], bool], name: str) -> set[Any]:
    """Raise if a node of the traced graph has a hook or waits, or if a leaf is none of the arguments.

    Returns:
        The nodes of that graph.

    Raises:
        Refusal: the program would not call the hook, or not give the leaf its gradient.
        Untraceable: a node is an `async def`.
    """
    waiting: list[Any] = [root._grad_fn for root in roots]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.order == LEAF_ORDER:
            if not is_own(node.variable):
                raise Refusal(
                    f"{name}, which ag.jit compiles, uses a leaf of shape {node.variable.shape} that is neither an "
                    "argument nor read from its own closure or globals, and its program would give it no gradient: "
                    "pass it as an argument"
                )
            continue
        if node.is_async:
            raise Untraceable(f"{node.name} waits for something")
        meta = node.meta
        if meta is not None and (meta.tensor_pre_hooks or meta.pre_hooks or meta.post_hooks or meta.retains_grad_hooks):
            raise Refusal(
                f"{name}, which ag.jit compiles, adds a hook{_line_of_a_hook(meta)} to {node.name}, which its program "
                "would not call: add hooks to its arguments or results"
            )
        waiting.extend(node.next_nodes)
    return seen


def _line_of_a_hook(meta: NodeMeta) -> str:
    """Return where the first hook of a node is written; nothing where it is no function of Python."""
    lists = [*(hooks for _, hooks in meta.tensor_pre_hooks), meta.pre_hooks, meta.post_hooks]
    for hook in (hook for hooks in lists if hooks is not None for hook in hooks.snapshot()):
        code = getattr(inspect.unwrap(hook), "__code__", None)
        if isinstance(code, types.CodeType) and not is_own_file(code.co_filename):
            return f", of {code.co_filename}:{code.co_firstlineno},"
    return ""
