"""How a call of a primitive is differentiated: which values to save, and one function that runs its formulas.

There is one `Plan` for each primitive and each combination of arguments that are tensors and arguments that require
grad, made at the first such call. A node has its plan and a tuple of saved values. Its body is a generated function,
for example for `np.multiply` with two tensors::

    def run(node, g, release=False):
        saved = node.saved
        if saved is None or g is None:
            return run_generic(node, g, release)
        s0, s1, = saved
        if not (
            saved.__class__ is tuple
            and (s0._counter is None or not s0._counter.value)
            and (s1._counter is None or not s1._counter.value)
        ):
            node.check_versions()
        grads = ((g * s1._data), (g * s0._data), )
        if release: node.saved = None
        return grads

This is `run_here`. The engine calls `run`: the same function, or, if a run may be heavy, one that first tests the sizes
of the arrays. A device may have functions that add a gradient to an existing sum as they compute it; then there is also
`run_adding`, to which the sums of the executor are passed.

The function is generated because a loop over formulas and their arguments would cost more than the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Signature
from math import prod
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ..arrays.half import recomputing, single
from ..arrays.tensor_base import VersionCounter
from ..graph.body_signals import AddingSignal, OffloadSignal
from ..graph.cost import (
    LARGE,
    array_kind,
    estimated_seconds,
    least_volume,
    size_of,
    watch_changes,
    when_large_arrays_come,
)
from ..graph.saved import version_of, with_constants, with_versions
from ..settings.source import make_functions
from .formula import Expression, as_expression, is_readable, keeps_dtype
from .kernels import FusedFormula, function_of, fused_jointly, is_fusable, kernels_of

__all__ = ["Formula", "Plan", "PrimitiveLike", "SavedSlot"]


class Formula(NamedTuple):
    """A derivative formula, and the names of its arguments besides the incoming gradient."""

    function: Callable[..., Any]
    needs: tuple[str, ...]


class JointFormula(NamedTuple):
    """A formula of the gradients of several edges: the edges, the slots that it takes, and what is called."""

    edges: tuple[int, ...]
    slots: tuple[int, ...]
    formula: FusedFormula


class PrimitiveLike(Protocol):
    """The part of a primitive that a plan uses; `Primitive` documents the attributes."""

    function: Callable[..., Any]
    call: Callable[..., Any]
    name: str
    node_name: str
    parameters: tuple[str, ...]
    signature: Signature
    tensor_names: tuple[str, ...]
    formulas: dict[str, Formula]
    superlinear: bool

    def slot_key(self, need: str) -> tuple[str, str | None]:
        """Return the argument (or `out`) and the attribute that a name in a formula refers to."""


class SavedSlot(NamedTuple):
    """A value to save: the argument `owner` (`out` for the result), or its shape or dtype."""

    owner: str
    attribute: str | None
    is_tensor: bool
    is_array: bool

    def expression(self, tracked: bool) -> str:
        """Return the source that fetches the value."""
        if self.attribute is None:
            return "new(_out.__class__)" if self.owner == "out" else self.owner
        if self.owner == "out":
            return f"_out._data.{self.attribute}"
        return f"{self.owner}._data.{self.attribute}" if tracked else f"getattr({self.owner}, {self.attribute!r}, ())"

    def is_unchanged(self, name: str) -> str:
        """Return the source of a fast test that no in-place write has changed the memory of the tensor `name`."""
        if self.owner == "out":
            return f"not {name}._counter.value"
        # The result of a node that saves it has a counter without any write, so its value is tested, too.
        return f"({name}._counter is None or not {name}._counter.value)"


@final
class Plan:
    """The backward of one kind of call of a primitive: which values its nodes save, and their body."""

    __slots__ = (
        "_cheap_up_to",
        "_is_elementwise",
        "_may_be_watched",
        "_results",
        "_tracked",
        "_watched_from",
        "adders",
        "calls",
        "conjugates",
        "expressions",
        "gather",
        "holds_tensors",
        "is_fused",
        "is_half",
        "joint",
        "keeps_spec",
        "no_edges",
        "primitive",
        "run",
        "run_adding",
        "run_here",
        "shape",
        "slots",
        "tensor_slots",
        "zeros",
    )

    def __init__(
        self,
        primitive: PrimitiveLike,
        requires: int,
        tracked: int,
        conjugates: bool,
        is_cast: bool = False,
        is_fused: bool = False,
        is_half: bool = False,
    ) -> None:
        self.primitive: PrimitiveLike = primitive
        #: Whether the formulas are given float32, since the result is of float16: see half.py.
        self.is_half: bool = is_half and not is_fused
        #: Whether the arrays are of a type that kernels are compiled for: then each formula is one kernel if it can be.
        self.is_fused: bool = is_fused and not conjugates
        #: Whether the result is complex. A formula multiplies by the derivative, and PyTorch's convention (descent
        #: along the gradient) by its conjugate. So the gradient is conjugated before the formulas and after them.
        self.conjugates: bool = conjugates
        names = enumerate(primitive.tensor_names)
        formulas = {name: self._formula(name) for edge, name in names if requires >> edge & 1}
        slots = _slot_keys(primitive, formulas.values())
        #: For each edge, its formula and which saved values it takes; None where no gradient is wanted.
        self.calls = [self._call(formulas.get(name), slots) for name in primitive.tensor_names]
        self._tracked = {name for edge, name in enumerate(primitive.tensor_names) if tracked >> edge & 1}
        self.slots: tuple[SavedSlot, ...] = tuple([self._slot(*key) for key in slots])
        self.tensor_slots: tuple[int, ...] = tuple(index for index, slot in enumerate(self.slots) if slot.is_tensor)
        self.holds_tensors: bool = bool(self.tensor_slots)
        self.zeros: tuple[int, ...] = (0,) * len(self.calls)
        self.no_edges: tuple[None, ...] = (None,) * len(self.calls)
        #: The shape of the last result: nodes of one shape share the tuple.
        self.shape: tuple[int, ...] = ()
        #: For each edge, its formula as an expression; None if it cannot be one, or the edge needs no gradient.
        self.expressions: list[Expression | None] = [
            None if call is None else self._expression(*call) for call in self.calls
        ]
        #: The edges whose gradients one kernel computes, if their arrays have one shape, and what calls it; or None.
        self.joint: JointFormula | None = None
        #: By edge, what adds its gradient into a sum, see `kernel`.
        self.adders: dict[int, Callable[..., Any]] = {}
        self._fuse()
        #: Each gradient as source, for the generated body.
        self._results = self._gradient_sources()
        self._is_elementwise = not is_cast and keeps_dtype(primitive.function)
        #: Whether all gradients have the shape and dtype of the incoming one, so that the engine need not check them.
        self.keeps_spec: bool = self._keeps_spec()
        #: Returns the values to save; None if there are none.
        self.gather: Callable[..., Any] | None
        self.gather, self.run_here = self._generate()
        #: A body that adds gradients into sums, see `_adding_lines`; None if there are no adders.
        self.run_adding: Callable[..., Any] | None = self._generate(adds=True)[1] if self.adders else None
        #: The body that the engine calls: see the docstring of this module. With adders, it raises AddingSignal.
        self.run: Callable[..., Any] = _signal_adding if self.adders else self.run_here
        #: The number of elements from which `run` raises OffloadSignal, or, for a superlinear primitive, the product of
        #: sizes; None if it never does.
        self._watched_from: int | None = None
        #: Up to how many elements calls have been measured and found short.
        self._cheap_up_to = 0
        #: To launch kernels takes as long for arrays of all sizes, so no such body is heavy.
        self._may_be_watched = not is_fused
        self._begin_to_watch()

    def _formula(self, name: str) -> Formula:
        """Return the formula of an argument; one that needs a result of float16 takes the arguments instead."""
        made, formula = self.primitive, self.primitive.formulas[name]
        # A user's function may do more than to return its result.
        if not self.is_half or "out" not in formula.needs or not _is_ours(formula.function, made.function):
            return formula
        return Formula(*recomputing(made.call, made.signature.parameters, formula.function, formula.needs))

    def _call(
        self, formula: Formula | None, slots: Sequence[tuple[str, str | None]]
    ) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
        """Return what computes a formula, and the numbers of the slots that it takes; None without a formula."""
        if formula is None:
            return None
        return formula.function, tuple([slots.index(self.primitive.slot_key(need)) for need in formula.needs])

    def _slot(self, owner: str, attribute: str | None) -> SavedSlot:
        is_tensor = attribute is None and (owner == "out" or owner in self._tracked)
        return SavedSlot(owner, attribute, is_tensor, owner == "out" or owner in self.primitive.tensor_names)

    def _arrays(self) -> list[int]:
        """Return the indices of the saved values that are arrays."""
        return [index for index, slot in enumerate(self.slots) if slot.attribute is None and slot.is_array]

    def _fuse(self) -> None:
        """Let the formulas be kernels, one for several of them where that can be, if the arrays are of such a type."""
        if not self.is_fused:
            return
        self.calls = [
            None if call is None else (self._fused_formula(call[0], expression), call[1])
            for call, expression in zip(self.calls, self.expressions, strict=True)
        ]
        self.joint = self._joint_formula()
        self.adders = {
            edge: adder
            for edge, call in enumerate(self.calls)
            if call is not None
            and isinstance(call[0], FusedFormula)
            and (adder := kernels_of(call[0].formula).adder) is not None
        }

    def _begin_to_watch(self) -> None:
        """Let `run` tell when a body is heavy."""
        if not self._may_be_watched:
            return
        if self.primitive.superlinear:
            # A product of sizes, which no measurement changes.
            self._watch_from(least_volume(1 + len(self._arrays())))
        else:
            when_large_arrays_come(self._watch_large)

    def _watch_large(self) -> None:
        self._watch_from(LARGE)

    def note_slow(self, elements: int) -> None:
        """Have calls on as many elements measured, since one has kept its thread for long.

        It does nothing where such calls have been measured, and where kernels are launched.
        """
        if elements > self._cheap_up_to and self._may_be_watched and not self.primitive.superlinear:
            self._watch_from(elements)
            watch_changes[0] += 1

    def note_cheap(self, elements: int) -> None:
        """Stop measuring calls on so few elements, since they have been measured and are short."""
        limit = self._watched_from
        if elements < LARGE and limit is not None and limit <= elements and not self.primitive.superlinear:
            self._cheap_up_to = elements
            self._watched_from = None
            self._watch_from(LARGE)
            watch_changes[0] += 1

    def _watch_from(self, elements: int) -> None:
        if self._watched_from is None or elements < self._watched_from:
            self._watched_from = elements
            self.run = self._generate(elements)[1]

    def could_be_heavy(self, elements: int, saved: Mapping[int, Any]) -> bool:
        """Tell whether runs on this many elements may raise OffloadSignal, now or later.

        Args:
            elements: the size of the gradient.
            saved: the shape and dtype of each saved value, by index; None if unknown.
        """
        if not self._may_be_watched:
            return False
        if not self.primitive.superlinear:
            return elements >= LARGE
        kinds = [saved[index] for index in self._arrays()]
        return None in kinds or prod([elements, *(prod(kind[0]) for kind in kinds)]) >= least_volume(1 + len(kinds))

    def heavy_where(self, grad: str, names: Sequence[str], size_of: str) -> str:
        """Return the source of a condition that is true for each run that raises OffloadSignal for its sizes.

        It is empty where no run does.

        Args:
            grad: the name of the gradient in the source.
            names: the names of the saved values.
            size_of: the name of the function `size_of`.
        """
        if not self.primitive.superlinear or self._watched_from is None:
            return ""
        return self._size_condition(grad, names, size_of, self._watched_from)

    def _size_condition(self, grad: str, names: Sequence[str], size_of: str, limit: int) -> str:
        sizes = [f"{grad}.size"]
        if self.primitive.superlinear:
            sizes += [
                f"{names[index]}._data.size" if self.slots[index].is_tensor else f"{size_of}({names[index]})"
                for index in self._arrays()
            ]
        return f"{' * '.join(sizes)} >= {limit}"

    @property
    def is_ours(self) -> bool:
        """Whether all formulas are asyncgrad's own."""
        return all(call is None or _is_ours(call[0]) for call in self.calls)

    def watches(self, elements: int) -> bool:
        """Tell whether runs on this many elements are being measured although their arrays are small."""
        limit = self._watched_from
        return limit is not None and limit <= elements < LARGE and not self.primitive.superlinear

    def may_be_heavy(self, node: Any, g: Any) -> bool:
        """Tell whether `run` would raise OffloadSignal."""
        limit = self._watched_from
        if limit is None or g is None or node.saved is None:
            return False
        return prod(self._sizes(g, node.saved)) >= limit

    def cost_key(self, g: Any, saved: Sequence[Any]) -> tuple[Any, float]:
        """Return a key that runs of about the same duration share, and an estimate of that duration in seconds."""
        formulas = sum(call is not None for call in self.calls)
        seconds = estimated_seconds(self._sizes(g, saved), formulas, self.primitive.superlinear)
        return (self, *map(array_kind, (g, *saved))), seconds

    def _sizes(self, g: Any, saved: Sequence[Any]) -> list[int]:
        """Return the sizes whose product is compared with the limit."""
        if not self.primitive.superlinear:
            return [size_of(g)]
        return [size_of(g), *(size_of(saved[index]) for index in self._arrays() if saved)]

    def _keeps_spec(self) -> bool:
        return (
            self._is_elementwise
            and all(slot.is_tensor for slot in self.slots)
            and all(call is None or self.edge_keeps_spec(edge) for edge, call in enumerate(self.calls))
        )

    def edge_keeps_spec(self, edge: int) -> bool:
        """Tell whether the gradient of an edge certainly has the shape and dtype of the incoming gradient."""
        call, expression = self.calls[edge], self.expressions[edge]
        if call is None or expression is None or self.is_half:
            return False
        if expression.is_gradient:
            return True
        slots = [self.slots[index] for index in call[1]]
        # With an argument that is a list or a subclass of ndarray, the result may have another shape or dtype.
        if not self._is_elementwise or not all(slot.is_tensor for slot in slots):
            return False
        # The arguments that require grad are floating, and so is the result.
        names = zip(self.primitive.tensor_names, self.calls, strict=True)
        floating = {"out", *(name for name, other in names if other is not None)}
        return expression.keeps_spec([number for number, slot in enumerate(slots, 1) if slot.owner in floating])

    def _expression(self, formula: Callable[..., Any], taken: tuple[int, ...]) -> Expression | None:
        slots = enumerate((self.slots[index] for index in taken), 1)
        return as_expression(formula, [nr for nr, slot in slots if not slot.is_tensor and slot.attribute is None])

    def _fused_formula(self, formula: Callable[..., Any], expression: Expression | None) -> Callable[..., Any]:
        if expression is not None:
            return formula if expression.is_gradient else FusedFormula(formula)
        # It may decide by dtypes or by the values of numbers, which are known when it is called.
        may_fuse = is_readable(formula) and (
            kernels_of(formula).variant is not None or is_fusable(self.primitive.function)
        )
        return FusedFormula(formula) if may_fuse else formula

    def _joint_formula(self) -> JointFormula | None:
        """Return what computes the gradients of several edges at once, where each of them is elementwise."""
        if not is_fusable(self.primitive.function) or kernels_of(self.primitive.function).variant is not None:
            return None
        formulas, edges, slots = [], [], []
        for edge, (call, expression) in enumerate(zip(self.calls, self.expressions, strict=True)):
            if call is not None and expression is not None and isinstance(call[0], FusedFormula):
                formulas.append(call[0])
                edges.append(edge)
                slots.append(call[1])
        if len(edges) < 2:
            return None
        used = sorted({slot for some in slots for slot in some})
        taken = [tuple([used.index(slot) + 1 for slot in some]) for some in slots]
        return JointFormula(tuple(edges), tuple(used), fused_jointly(formulas, taken))

    def inlines(self, edge: int) -> bool:
        """Tell whether generated source may hold the formula of an edge, if it is an expression, in place of a call."""
        call = self.calls[edge]
        return call is not None and type(call[0]) is not FusedFormula

    def _gradient_sources(self) -> list[str]:
        """Return the source of each gradient: the formula itself where that is arithmetic, or a call of it."""
        values = [f"s{index}._data" if slot.is_tensor else f"s{index}" for index, slot in enumerate(self.slots)]
        if self.is_half:
            values = [f"w{index}" for index in range(len(values))]
        sources = []
        for edge, (call, expression) in enumerate(zip(self.calls, self.expressions, strict=True)):
            arguments = [] if call is None else ["g", *(values[index] for index in call[1])]
            if call is None:
                sources.append("None")
            elif self.joint is not None and edge in self.joint.edges:
                sources.append(f"j{edge}")
            elif expression is not None and expression.is_arithmetic and self.inlines(edge):
                # Its numbers have literals.
                sources.append(expression.source(arguments, str))
            else:
                sources.append(f"f{edge}({', '.join(arguments)})")
        return sources

    def _adding_lines(self, values: Sequence[str], results: list[str]) -> list[str]:
        """Return the lines that add gradients into sums, and put None in their places in `results`.

        Args:
            values: the source of each saved value.
            results: the source of each gradient.
        """
        lines = []
        for edge, call in enumerate(self.calls):
            if edge not in self.adders or call is None:
                continue
            given = ", ".join(["g", *(values[slot] for slot in call[1])])
            lines += [
                f"target = node.next_nodes[{edge}]",
                # Whether the sum is an array that the executor made; a node of several inputs has a list of sums.
                "if (target, 0) in owned and target.shape is not None:",
                f"    buffers[target], j{edge} = a{edge}(buffers[target], {given}), None",
                f"else: j{edge} = {results[edge]}",
            ]
            results[edge] = f"j{edge}"
        return lines

    def _generate(
        self, watched_from: int | None = None, adds: bool = False
    ) -> tuple[Callable[..., Any] | None, Callable[..., Any]]:
        """Generate and compile `gather`, which returns the values to save, and `run`, the body of the node.

        Args:
            watched_from: the number of elements from which `run` raises OffloadSignal; None if it never does.
            adds: whether `run` adds gradients to the sums of an executor. It takes two more arguments then: the sums,
                by node, and the inputs (node, number) whose sums may be written into.
        """
        primitive = self.primitive
        names = [f"s{index}" for index in range(len(self.slots))]
        wrapped = "conjugate({})" if self.conjugates else "{}"
        results = [result if result == "None" else wrapped.format(result) for result in self._results]
        unchanged = [self.slots[index].is_unchanged(names[index]) for index in self.tensor_slots]
        lines = [
            *(["saved = node.saved"] if names else ()),
            # Only saved tensors are released, so without them `saved` is never None.
            f"if {'saved is None or ' if self.holds_tensors else ''}g is None:",
            "    return run_generic(node, g, release)",
        ]
        if names:
            lines.append(f"{_commas(names)} = saved")
        if watched_from is not None:
            lines.append(f"if {self._size_condition('g', names, 'size_of', watched_from)}: raise OffloadSignal")
        if unchanged or self.constants:
            # Both tests are needed, since a version can fall: a failed backward rolls back its writes into a `.grad`
            # that was saved.
            condition = " and ".join(["saved.__class__ is tuple", *unchanged])
            lines += [f"if not ({condition}):", "    node.check_versions()"]
        if self.conjugates:
            lines.append("g = conjugate(g)")
        values = [f"{name}._data" if slot.is_tensor else name for name, slot in zip(names, self.slots, strict=True)]
        if self.is_half:
            lines += ["g = single(g)", *(f"w{index} = single({value})" for index, value in enumerate(values))]
        if adds:
            lines += self._adding_lines(values, results)
        if self.joint is not None:
            given = ", ".join(["g", *(values[slot] for slot in self.joint.slots)])
            lines.append(f"{_commas(f'j{edge}' for edge in self.joint.edges)} = joint({given})")
        if self.holds_tensors:
            lines += [f"grads = ({_commas(results)})", "if release: node.saved = None", "return grads"]
        else:
            lines.append(f"return ({_commas(results)})")
        namespace = self._namespace()
        functions = {
            f"gather({', '.join([*primitive.parameters, '_out'])})": self._gather_lines(names, unchanged),
            f"run(node, g, release=False{', buffers=None, owned=()' * adds})": lines,
        }
        gather, run = make_functions(functions, f"derivative of {primitive.name}", namespace)
        return gather if names else None, run

    def _gather_lines(self, names: Sequence[str], unchanged: Sequence[str]) -> list[str]:
        """Return the body of `gather`.

        Args:
            names: of the saved values.
            unchanged: for each saved tensor, the test that it has not been written into.
        """
        lines = [
            f"{name} = {slot.expression(slot.owner in self._tracked)}"
            for name, slot in zip(names, self.slots, strict=True)
        ]
        for index in self.tensor_slots:
            if self.slots[index].owner == "out":
                lines += _alias_lines(names[index])
        versions = _commas(f"version_of({names[index]})" for index in self.tensor_slots)
        lines.append(f"saved = ({_commas(names)})")
        if unchanged:
            lines.append(f"if not ({' and '.join(unchanged)}): saved = with_versions(saved, ({versions}))")
        constants = _commas(names[index] for index in self.constants)
        return [*lines, *([f"saved = with_constants(saved, ({constants}))"] if constants else []), "return saved"]

    @property
    def constants(self) -> tuple[int, ...]:
        """The numbers of the slots that may be tensors though no derivative is with respect to them."""
        if _is_ours(self.primitive.function):
            return ()
        known = {"out", *self.primitive.tensor_names}
        slots = enumerate(self.slots)
        return tuple([index for index, slot in slots if slot.attribute is None and slot.owner not in known])

    def _namespace(self) -> dict[str, Any]:
        """Return the global names of the generated functions."""
        namespace: dict[str, Any] = {"new": object.__new__, "version_of": version_of, "conjugate": conjugate}
        namespace["with_versions"], namespace["with_constants"] = with_versions, with_constants
        namespace.update(
            OffloadSignal=OffloadSignal,
            VersionCounter=VersionCounter,
            run_generic=run_generic,
            single=single,
            size_of=size_of,
        )
        namespace.update({f"f{edge}": function_of(call[0]) for edge, call in enumerate(self.calls) if call is not None})
        namespace.update({f"a{edge}": adder for edge, adder in self.adders.items()})
        if self.joint is not None:
            namespace["joint"] = self.joint.formula.call
        return namespace

    def compute(self, g: Any, values: Sequence[Any], wanted: Sequence[bool] | None = None) -> tuple[Any, ...]:
        """Run the formulas one by one on `values`, arrays or tensors; with `wanted`, only those of wanted edges."""
        if self.conjugates:
            g = np.conjugate(g)
        if self.is_half:
            g, values = single(g), list(map(single, values))
        results = [
            None
            if call is None or (wanted is not None and not wanted[edge])
            else call[0](g, *[values[index] for index in call[1]])
            for edge, call in enumerate(self.calls)
        ]
        return tuple(map(conjugate, results)) if self.conjugates else tuple(results)


def _alias_lines(name: str) -> list[str]:
    """Return the lines that do what `output_alias` does; a call would cost as much as the rest of `gather`."""
    return [
        "counter = _out._counter",
        "if counter is None: counter = _out._counter = VersionCounter()",
        f"{name}._data, {name}._output_nr, {name}._device, {name}._counter = _out._data, 0, _out._device, counter",
        f"{name}._meta = {name}._grad_fn = {name}._view = None",
    ]


def _slot_keys(primitive: PrimitiveLike, formulas: Iterable[Formula]) -> list[tuple[str, str | None]]:
    """Return what some formulas need, in the order of the parameters, the result last."""
    places = {name: place for place, name in enumerate((*primitive.parameters, "out"))}
    keys = {primitive.slot_key(need) for formula in formulas for need in formula.needs}
    return sorted(keys, key=lambda key: (places[key[0]], key[1] or ""))


def _is_ours(*functions: Callable[..., Any]) -> bool:
    """Tell whether functions are asyncgrad's own, or ufuncs."""
    # Of what `exec` has made without a name, the module is None.
    return all(isinstance(one, np.ufunc) or (one.__module__ or "").startswith("asyncgrad.") for one in functions)


def run_generic(node: Any, g: Any, release: bool) -> Any:
    """Run a node whose incoming gradient is undefined, or that has been released."""
    grads = node.apply_generic(g)
    if release:
        node.release_variables()
    return grads


def _signal_adding(node: Any, g: Any, release: bool = False) -> Any:
    """Have the executor call `run_adding`, or `run_here` if it has no sums."""
    raise AddingSignal


def conjugate(value: Any) -> Any:
    """Return the complex conjugate of a gradient; None stays None."""
    return None if value is None else np.conjugate(value)


def _commas(items: Any) -> str:
    return "".join(f"{item}, " for item in items)
