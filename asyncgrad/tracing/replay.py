"""The node of a compiled call: the tensors that the call returns hang on it, and its body is the program's backward."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from math import prod
from typing import Any, Protocol, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.arrays.values import raw
from ..core.graph.cost import estimated_seconds
from ..core.graph.leaf import gradient_edge, gradient_places
from ..core.graph.lowering import CompiledArgs
from ..core.graph.metadata import InputMetadata
from ..core.graph.node import LEAF_ORDER
from ..core.graph.saved import check_version, released_error
from ..core.recording.handwritten_node import HandwrittenNode
from ..core.settings.context import GRAD_MODE
from ..core.settings.observers import PROGRAMS
from ..errors import ChangedTensorError
from .beginnings import beginning_of
from .error_ways import told_before
from .kept_arguments import KeptArguments
from .program import CheckFailed
from .replayed_gradients import (
    GradientsNode,
    bare_unless,
    gradients_of,
    has_graph,
    own_copy,
    without_graph,
)
from .result_node import ResultNode
from .row_records import Rows
from .stand_in import stand_in
from .table import Table
from .variant import Output, Variant
from .verifying import same_bits
from .watching import watched

__all__ = ["Lease", "ReplayNode"]

#: After how many rows of a Jacobian others may go on.
_ROWS_AT_ONCE = 64


class Repeatable(Protocol):
    """Abstract: a call, which the function itself may make again."""

    #: Its arrays and tensors, each once.
    numbered: list[Any]

    def arrays(self) -> list[np.ndarray]:
        """Return their arrays at the call."""

    def again(self, variant: Variant, drawn: Any, numbered: Sequence[Any]) -> list[Any]:
        """Return what the program computes, for others in the place of these."""


@final
class Lease:
    """A table that a call uses until its graph is gone."""

    __slots__ = ("has_run", "table", "variant")

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.table: Table = variant.take_table()
        #: Whether its backward has run.
        self.has_run: bool = False

    def __del__(self) -> None:
        # A deque's append: it may be called in the midst of anything.
        if hasattr(self, "table"):
            self.variant.give_back(self.table)


@final
class ReplayNode(HandwrittenNode):
    """The node of a compiled call.

    Args:
        lease: the table that has run the forward.
        call: the call, made again by the function for a backward that is recorded or unlike the traced one.
        drawn: the state of the generator before the call; None where it has drawn nothing.
        outputs: what the program has computed.
    """

    __slots__ = ("_call", "_drawn", "_kept", "_lease", "_metadata", "checks_always", "fills_leaves")

    is_users = False

    def __init__(self, lease: Lease, call: Repeatable, drawn: Any, outputs: Sequence[np.ndarray]) -> None:
        variant, arguments = lease.variant, call.numbered
        # By `map`, without a function's frame for each call.
        self._connect_places(*gradient_places(map(arguments.__getitem__, variant.wanted)))
        self.meta = None
        self.checks_always = variant.may_be_long
        self.fills_leaves = False
        self.device: Any = arguments[variant.wanted[0]]._device
        self._metadata: tuple[InputMetadata | None, ...] = ()
        if len(outputs) == 1:
            self.shape, self.dtype = outputs[0].shape, outputs[0].dtype
        else:
            self.shape = self.dtype = None
            self._metadata = tuple([InputMetadata(one.shape, one.dtype, self.device) for one in outputs])
        self._lease = lease
        self._call = call
        self._drawn = drawn
        #: The arguments as they were; None once released.
        self._kept: KeptArguments | None = KeptArguments(arguments, call.arrays(), variant.watched)
        if GRAD_MODE.get() is not True:
            _tell_of(self)

    @property
    def name(self) -> str:
        """The name that errors and drawings show."""
        return "ReplayBackward"

    @property
    def input_metadata(self) -> tuple[InputMetadata | None, ...]:
        """The InputMetadata of each output of the program."""
        if self.shape is None:
            return self._metadata
        return (InputMetadata(self.shape, self.dtype, self.device),)

    def intermediate(self, output: Output, array: np.ndarray) -> ResultNode:
        """Return the node of an output from which another one has been computed."""
        return ResultNode(self, output.index, output.results_of_it, array, self._lease.variant.name)

    @staticmethod
    def may_be_heavy(node: HandwrittenNode, grad: Any) -> bool:
        """Tell whether the backward of the program may be long."""
        return node.reads_large()

    def reads_large(self) -> bool:
        """Tell whether the backward of the program may be long."""
        return self._lease.variant.may_be_long

    def note_slow(self) -> None:
        """Have backward passes of the program measured: it knows better than the shape of a loss how long they are."""
        self._lease.variant.note_long()

    def note_cheap(self) -> None:
        """Stop measuring backward passes of the program."""
        self._lease.variant.note_short()

    def cost_key(self, grads: Sequence[object]) -> tuple[object, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        program = self._lease.variant.program
        return (type(self), id(program)), estimated_seconds([program.work], 1, False)

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect what every node collects, and the program."""
        super().compiled_args(args)
        args.collect_exactly(self._lease.variant)

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the arguments that require grad."""
        return self.apply_generic(grads if self.shape is None else grads[0])

    def apply_generic(self, grad: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments that require grad, given that of the output, or of all outputs."""
        kept = self._kept
        if kept is None:
            raise released_error(self)
        self.fills_leaves = False
        if grad.__class__ is np.ndarray and self.shape is not None and GRAD_MODE.get() is False:
            # Nearly all: the rest is for several outputs, and for gradients that are recorded.
            gradients = self._run_program(kept, (grad,))
            if gradients is None:
                gradients = bare_unless(False, self._differentiated(kept, [grad], False, False)[0])
            elif self.checks_always:
                # The engine asks for it only of a node that may be heavy.
                self.fills_leaves = self._lease.variant.fills(self.next_nodes)
            return tuple(gradients)
        grads: list[Any] = (
            [grad] if self.shape is not None else [None] * len(self._metadata) if grad is None else list(grad)
        )
        lease = self._lease
        if all(one is None for one in grads):
            return (None,) * len(lease.variant.wanted)
        create_graph = GRAD_MODE.get() is not False
        arrays = [_bare(one) for one in grads]
        found = self._run_program(kept, arrays)
        if found is None:
            found, _ = self._differentiated(kept, grads, create_graph, create_graph)
            return bare_unless(create_graph, found)
        if not create_graph:
            return tuple(found)
        differentiable = self._differentiable(kept, grads, found)
        if differentiable is None:
            return tuple(self._differentiated(kept, grads, True, True)[0])
        if not any(differentiable):
            return without_graph(found, self.device)
        node = GradientsNode(
            functools.partial(self._differentiated_again, kept),
            kept.arguments,
            lease.variant.wanted,
            grads,
            found,
            differentiable,
            self.device,
        )
        _tell_of(node)
        return node.gradients(found)

    def _differentiable(
        self, kept: KeptArguments, grads: Sequence[Any], found: Sequence[Any]
    ) -> tuple[bool, ...] | None:
        """Return for each gradient whether it has a graph where it is recorded, as the function has told once.

        Returns:
            None where the function has computed other bits than `found` with a graph, as recurrent layers do.
        """
        known = self._lease.variant.differentiable
        key = tuple(map(has_graph, grads))
        if key not in known:
            try:
                gradients, _ = self._differentiated_again(kept, grads, False)
            except Exception:
                # Such as for a write into what only the forward reads: where it is differentiated, it raises again.
                return (True,) * len(self._lease.variant.wanted)
            is_same = all(map(_has_bits_of, gradients, found))
            known[key] = tuple(map(has_graph, gradients)) if is_same else None
        return known[key]

    def _differentiated_again(
        self, kept: KeptArguments, grads: Sequence[Any], leads_on: bool
    ) -> tuple[Sequence[Any], list[Any]]:
        """Return the gradients that the program has computed, with a graph, and what that leads to."""
        with told_before(self._lease.variant.program.errstate):
            return self._differentiated(kept, grads, True, leads_on)

    def _run_program(self, kept: KeptArguments, grads: Sequence[Any]) -> Sequence[Any] | None:
        """Return the gradients by the program; None where it cannot run."""
        lease = self._lease
        variant = lease.variant
        program = variant.program
        with lease.table.lock:
            begins_alike = fits(variant, grads)
            if not begins_alike and variant.may_begin_otherwise:
                variant.begun = beginning_of(grads, self.input_metadata)
            runs = (program.repeats or not lease.has_run) and begins_alike
            # How a rule treats floating-point errors is known by how that differs from what is around the call.
            runs = runs and variant.error_ways.are_now()
            runs = runs and (variant.is_unguarded or variant.backward_guards.hold())
            if not runs:
                # Whether it reads what was written into is told by the graph of the function.
                return None
            # Without `strict`, which would cost as much as the check of one argument.
            for is_kept, argument, version in zip(program.kept, kept.arguments, kept.versions):  # noqa: B905
                # What the backward does not read may have been written into, as in the graph of the function.
                if is_kept and isinstance(argument, TensorBase):
                    counter = argument._counter
                    if (0 if counter is None else counter.value) != version:
                        check_version(self, argument, version)
            lease.has_run = True
            try:
                run = lease.table.run_backward
                if PROGRAMS.all_put:
                    run = watched(lease.table, variant.name, "backward", run)
                return run(grads if len(grads) == 1 else [grads[index] for index in variant.seeded])
            except CheckFailed:
                # A number on which its way depends is another one.
                return None

    def jacobian(self, inputs: Sequence[Any]) -> Generator[None, None, list[Any] | None]:
        """Return the Jacobian of the output by the backward of the program, with one forward for all rows."""
        lease, program = self._lease, self._lease.variant.program
        places = self._places_of(inputs)
        if places is None or not self._repeats():
            return None
        arguments = [] if self._kept is None else [getattr(one, "_data", one) for one in self._kept.arguments]
        unit = _unit_rows(program.cotangents[0].array)
        found = [
            None if one is None else np.empty((len(unit), *one.array.shape), one.array.dtype)
            for one in program.gradients
        ]
        results = [one for one in found if one is not None]
        rows = Rows([*arguments, unit], [*[False] * len(arguments), True], 0, 0, results)
        while rows.index < len(unit):
            rows.end = min(rows.end + _ROWS_AT_ONCE, len(unit))
            try:
                if not self._repeats():
                    return None
                with lease.table.lock:
                    lease.has_run = True
                    lease.table.run_rows(rows, is_backward=True)
            except Exception:
                # A backward for each row raises it too, or does without the program.
                return None
            yield
        return [None if place is None else found[place] for place in places]

    def _places_of(self, inputs: Sequence[Any]) -> list[int | None] | None:
        """Return which of the gradients is that of each of some leaves; None if they may get some otherwise."""
        if self.shape is None or self.meta is not None or not prod(self.shape) or self.dtype.kind != "f":
            return None
        targets = self.next_nodes
        edges = [gradient_edge(one) for one in inputs]
        nodes = [None if edge is None else edge.node for edge in edges]
        if any(one is None or one.order != LEAF_ORDER for one in (*targets, *nodes)):
            return None
        return [targets.index(one) if one in targets else None for one in nodes]

    def _repeats(self) -> bool:
        """Tell whether the backward of the program may run now, for rows of incoming gradients.

        Raises:
            ChangedTensorError: what it reads was written into.
        """
        variant = self._lease.variant
        program = variant.program
        kept = self._kept
        if kept is None or not program.repeats or variant.seeded != [0]:
            return False
        for is_kept, argument, version in zip(program.kept, kept.arguments, kept.versions, strict=True):
            if is_kept and isinstance(argument, TensorBase):
                check_version(self, argument, version)
        is_plain = program.cotangents[0].array.flags.c_contiguous and variant.error_ways.are_now()
        return is_plain and variant.backward_guards.hold()

    def _differentiated(
        self, kept: KeptArguments, grads: Sequence[Any], create_graph: bool, leads_on: bool
    ) -> tuple[Sequence[Any], list[Any]]:
        """Run the function again; return the gradients of its arguments, and those.

        Args:
            kept: the arguments.
            grads: the incoming gradients.
            create_graph: whether the gradients have a graph.
            leads_on: whether that leads to the arguments themselves, and not to others in their place.

        Raises:
            ChangedTensorError: what this backward reads was written into.
        """
        variant = self._lease.variant
        own = list(kept.arguments)
        changed = [index for index in range(len(own)) if kept.has_changed(index)]
        for index in {*variant.wanted, *changed}:
            # Hooks of the argument are not called here. A leaf stays one, unless a graph is to lead to it.
            array, is_wanted = kept.array(self, index), index in variant.wanted
            if leads_on and is_wanted and has_graph(own[index]):
                own[index] = own_copy(own[index])
                own[index]._data = array
            else:
                own[index] = stand_in(own[index], array)
                if is_wanted:
                    # As at the call: it may have stopped to require grad since then.
                    own[index]._autograd_meta().requires_grad = True
        given = list(own)
        for index, _ in variant.program.commits:
            # What the call has changed is not changed again.
            given[index] = stand_in(given[index], given[index]._data.copy())
        results = self._call.again(variant, self._drawn, given)
        for mine, theirs in zip(self._outputs(), results, strict=True):
            if not same_bits(mine, getattr(theirs, "_data", theirs)):
                raise ChangedTensorError(
                    "the backward of a compiled function runs it again where its gradient is differentiated, or where "
                    "it begins otherwise than the traced one, and it now gives another result: what it reads "
                    "was changed since the call"
                )
        for index in changed:
            # As in the graph of the function: the backward raises where it reads what was written into.
            own[index]._bump_version()
        wanted = [own[index] for index in variant.wanted]
        return gradients_of(results, wanted, grads, create_graph), wanted

    def _outputs(self) -> list[np.ndarray]:
        """Return what the forward has computed, as it lies in the table."""
        with self._lease.table.lock:
            return [array.copy() for array in self._lease.table.outputs()]

    def release_variables(self) -> None:
        """Let go of the arguments; with several outputs, each of which may have a backward of its own, keep them."""
        if self.shape is not None:
            self._kept = None


def _has_bits_of(gradient: Any, array: Any) -> bool:
    if gradient is None or array is None:
        return gradient is array
    return same_bits(getattr(gradient, "_data", gradient), array)


def _bare(grad: Any) -> Any:
    """Return the array of a gradient; NumPy's operations on arrays without axes give numbers."""
    bare = raw(grad)
    return np.asarray(bare) if isinstance(bare, np.generic) else bare


def _unit_rows(like: np.ndarray) -> np.ndarray:
    """Return, for each element of an array, an array that is 1 there and 0 elsewhere, all in memory for two."""
    numbers = np.zeros(2 * like.size - 1, like.dtype)
    numbers[like.size - 1] = 1
    strides = (-like.itemsize, *like.strides)
    return np.lib.stride_tricks.as_strided(numbers[like.size - 1 :], (like.size, *like.shape), strides)


def fits(variant: Variant, grads: Sequence[object]) -> bool:
    """Tell whether gradients are those with which the backward was traced, and lie in memory as they did."""
    cotangents = variant.program.cotangents
    if len(grads) == 1 and variant.seeded:
        # Nearly all.
        return _lies_as(grads[0], cotangents[0].array)
    defined = [index for index, one in enumerate(grads) if one is not None]
    return defined == variant.seeded and all(
        _lies_as(grads[index], value.array) for index, value in zip(defined, cotangents, strict=True)
    )


def _lies_as(array: object, expected: np.ndarray) -> bool:
    if type(array) is not np.ndarray or array.strides != expected.strides or not array.flags.aligned:
        return False
    return array.dtype is expected.dtype or array.dtype == expected.dtype


def _tell_of(node: HandwrittenNode) -> None:
    """Tell those who look at what is recorded of a new node."""
    mode = GRAD_MODE.get()
    if mode is not True and mode is not False:
        mode.created(node)
