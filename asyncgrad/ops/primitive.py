"""Primitive: a NumPy function with its derivative formulas, and the driver that records calls of it.

A formula is a function of the incoming gradient `g` and of what it needs, named by its parameters: an argument
of the primitive by its name, the result as `out`, a shape or dtype as `x_shape`, `out_dtype`. Only what the
formulas of the arguments that require grad name is saved. Formulas are written with NumPy functions and
operators: they run on arrays in an ordinary backward and on tensors, recorded, under `create_graph=True`.
Broadcasting, dtype and device are no concern of theirs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from ..context import CURRENT_GRAPH_TASK, GRAD_MODE
from ..graph.heavy import size_of
from ..graph.leaf import accumulator
from ..graph.node import LEAF_ORDER, MAIN_THREAD, THREADS, TraceableNode, next_order
from ..graph.one_device import mixed_devices
from ..graph.packed import Packed, unpack_all
from ..graph.saved import Saved, check_version, detached, output_alias, released
from ..graph.tracked import Tracked
from ..graph.values import as_array
from .plan import Plan
from .recording import generate_call

__all__ = ["RULES", "Formula", "Primitive", "PrimitiveNode", "derivative", "differentiable", "primitive"]

F = TypeVar("F", bound=Callable[..., Any])

#: What runs when a NumPy function is called on a Tensor: its primitive, or a function built on others.
RULES: dict[Callable[..., Any], Callable[..., Any]] = {}


class Formula(NamedTuple):
    """One derivative formula and the names of what it needs besides the incoming gradient."""

    function: Callable[..., Any]
    needs: tuple[str, ...]


@final
class PrimitiveNode(TraceableNode):
    """The backward of one recorded call of a primitive."""

    __slots__ = ("plan", "saved", "versions")

    #: Set by the generated driver, which makes the node without a constructor: that would cost a call.
    plan: Plan
    #: What the plan's formulas need; None once released.
    saved: tuple[Any, ...] | None
    #: Of the saved tensors; None where none of them had been written into.
    versions: tuple[int, ...] | None

    def connect_input(self, edge: int, input_nr: int) -> None:
        """Let an edge lead to another input of its node than the first."""
        self.input_nrs = (*self.input_nrs[:edge], input_nr, *self.input_nrs[edge + 1 :])

    @property
    def name(self) -> str:
        """The name of the primitive, as in MultiplyBackward."""
        return self.plan.primitive.node_name

    def computes_output(self, index: int) -> bool:
        """Tell whether the call was recorded with a gradient for that argument."""
        return self.plan.calls[index] is not None

    def apply(self, grads: tuple[Any, ...]) -> Any:
        """Return the gradients of the primitive's tensor arguments, as far as the backward that runs needs them.

        Or an awaitable of them, where something saved has to be waited for.
        """
        (grad,) = grads
        graph_task = CURRENT_GRAPH_TASK.get()
        wanted = None
        if graph_task is not None and graph_task.limits is not None:
            wanted = [self.task_should_compute_output(edge) for edge in range(self.num_outputs)]
        if grad is not None and (packed := self._packed(wanted)):
            unpacked = unpack_all(self, packed.values())
            if inspect.isawaitable(unpacked):
                return self._apply_later(grad, wanted, packed, unpacked)
            return self._apply_unpacked(grad, wanted, packed, unpacked)
        if wanted is not None:
            return self.apply_wanted(grad, wanted)
        return self.apply_carefully(grad) if isinstance(grad, Tracked) else self.plan.run_here(self, grad)

    def _packed(self, wanted: Sequence[bool] | None) -> dict[int, Packed]:
        """Return what has to be unpacked for the wanted formulas, by its index in `saved`."""
        saved, calls = self.saved, self.plan.calls
        if saved is None or Packed not in map(type, saved):
            return {}
        needed = {
            index
            for edge, call in enumerate(calls)
            if call is not None and (wanted is None or wanted[edge])
            for index in call[1]
        }
        return {index: saved[index] for index in sorted(needed) if type(saved[index]) is Packed}

    async def _apply_later(
        self, g: Any, wanted: Sequence[bool] | None, packed: dict[int, Packed], unpacked: Awaitable[list[Any]]
    ) -> tuple[Any, ...]:
        return self._apply_unpacked(g, wanted, packed, await unpacked)

    def _apply_unpacked(
        self, g: Any, wanted: Sequence[bool] | None, packed: dict[int, Packed], unpacked: list[Any]
    ) -> tuple[Any, ...]:
        as_tensors = isinstance(g, Tracked)
        values = self._values(as_tensors)
        for index, tensor in zip(packed, unpacked, strict=True):
            values[index] = tensor if as_tensors else tensor._data
        return self.plan.compute(g, values, wanted)

    def apply_wanted(self, g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """Return the gradients of the wanted arguments only; the work for the others is not done."""
        if g is None:
            return self.plan.no_edges
        return self.plan.compute(g, self._values(isinstance(g, Tracked)), wanted)

    def apply_carefully(self, g: Any) -> tuple[Any, ...]:
        """Do what the generated function leaves out: undefined gradients, tensors, released nodes."""
        if g is None:
            return self.plan.no_edges
        return self.plan.compute(g, self._values(isinstance(g, Tracked)))

    def _values(self, as_tensors: bool) -> list[Any]:
        saved = self.saved
        if saved is None:
            raise released(self)
        self.check_versions()
        values = list(saved)
        for index in self.plan.tensor_slots:
            tensor = saved[index]
            if type(tensor) is Packed:
                continue
            if not as_tensors:
                values[index] = tensor._data
            elif self.plan.slots[index].owner == "out":
                values[index] = output_alias(tensor, self)
            elif self._has_lost_history(self.plan.slots[index].owner, tensor):
                raise detached(self, tensor)
        return values

    def _has_lost_history(self, owner: str, tensor: Tracked) -> bool:
        """Tell whether a saved argument was taken out of the graph since, so that its use would go unrecorded."""
        names = self.plan.primitive.tensor_names
        producer = self.next_nodes[names.index(owner)] if owner in names else None
        return producer is not None and producer.order != LEAF_ORDER and tensor._grad_fn is not producer

    def run_kind(self, grads: Sequence[Any]) -> tuple[Any, float]:
        """Return what runs that take about as long have in common, and an estimate of how long, in seconds."""
        saved = self.saved
        return self.plan.run_kind(grads[0], () if saved is None else saved)

    def has_kept_its_thread(self) -> None:
        """Have such runs measured from now on."""
        self.plan.watch(size_of(self))

    def is_light(self) -> None:
        """Have such runs measured no longer."""
        self.plan.found_light(size_of(self))

    def check_versions(self) -> None:
        """Raise if a saved tensor was changed in place since."""
        saved = self.saved
        if saved is None:
            raise released(self)
        versions = self.versions
        for count, index in enumerate(self.plan.tensor_slots):
            if type(saved[index]) is not Packed:
                check_version(self, saved[index], 0 if versions is None else versions[count])

    def saved_entries(self) -> Sequence[Saved | Packed] | None:
        """Return the tensors that the formulas need, or what hooks have packed; None once released."""
        if self.saved is None:
            return None
        return [self._entry(count, self.saved[index]) for count, index in enumerate(self.plan.tensor_slots)]

    def waits_for_saved(self) -> bool:
        """Tell whether something saved is known to need an event loop to be unpacked."""
        return any(type(value) is Packed and value.may_wait() for value in self.saved or ())

    def _entry(self, count: int, tensor: Any) -> Saved | Packed:
        if type(tensor) is Packed:
            return tensor
        owner = self.plan.slots[self.plan.tensor_slots[count]].owner
        version = 0 if self.versions is None else self.versions[count]
        if owner == "out":
            return Saved(tensor, version, 0)
        producer = self.next_nodes[self.plan.primitive.tensor_names.index(owner)]
        if producer is not None and producer.order == LEAF_ORDER:
            return Saved(tensor, version, accumulator=producer)
        return Saved(tensor, version, producer=producer)

    def keep_packed(self, index: int, packed: Packed) -> None:
        """Keep what a hook has packed in the place of the tensor."""
        place = self.plan.tensor_slots[index]
        assert self.saved is not None
        self.saved = (*self.saved[:place], packed, *self.saved[place + 1 :])

    def release_variables(self) -> None:
        """Let go of saved tensors; a node that saved none can run again."""
        if self.plan.holds_tensors:
            self.saved = None


@final
class Primitive:
    """A function of arrays that records itself when it is called on tensors that require grad.

    Called on bare arrays it is the bare function. Not made directly: see `primitive` and `differentiable`.
    """

    __slots__ = (
        "call",
        "formulas",
        "function",
        "name",
        "node_name",
        "numpy_functions",
        "parameters",
        "plans",
        "signature",
        "superlinear",
        "tensor_names",
        "views",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        signature: inspect.Signature,
        numpy_functions: Sequence[Callable[..., Any]],
        *,
        views: bool,
        superlinear: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.node_name = "".join(part.capitalize() for part in name.split("_")) + "Backward"
        self.signature = signature
        self.parameters = tuple(signature.parameters)
        #: The NumPy functions that it stands for.
        self.numpy_functions = numpy_functions
        self.formulas: dict[str, Formula] = {}
        #: The parameters that may be tensors, in order; each has an edge.
        self.tensor_names: tuple[str, ...] = ()
        #: By which arguments are tensors (low bits), which require grad (the next), whether the result is complex.
        self.plans: dict[int, Plan] = {}
        #: Whether the result may be a view of the first argument's memory.
        self.views = views
        #: Whether the work of a call grows faster than its arrays.
        self.superlinear = superlinear
        #: The generated driver: what a call of the primitive does.
        self.call: Callable[..., Any] = function

    def add_formulas(self, formulas: dict[str, Callable[..., Any]]) -> None:
        """Give the derivative with respect to the named arguments."""
        for name, function in formulas.items():
            if name not in self.parameters:
                raise TypeError(f"{self.name} has no parameter {name!r}: it takes {', '.join(self.parameters)}")
            formula = Formula(function, tuple(inspect.signature(function).parameters)[1:])
            for need in formula.needs:
                self.slot_key(need)
            self.formulas[name] = formula
        self.tensor_names = tuple(name for name in self.parameters if name in self.formulas)
        self.plans.clear()
        namespace = {"_function": self.function, "_plans": self.plans, "_make_plan": self._make_plan, **_DRIVER_NAMES}
        self.call = generate_call(
            self.name,
            self.signature,
            self.tensor_names,
            views=self.views,
            always_floating=isinstance(self.function, np.ufunc),
            namespace=namespace,
        )
        for numpy_function in self.numpy_functions:
            RULES[numpy_function] = self.call

    def _make_plan(self, key: int) -> Plan:
        count = len(self.tensor_names)
        ones = (1 << count) - 1
        plan = self.plans[key] = Plan(self, key >> count & ones, key & ones, bool(key >> 2 * count))
        return plan

    def plan(self, key: int) -> Plan:
        """Return the plan of calls of one kind: see the attribute `plans`."""
        found = self.plans.get(key)
        return self._make_plan(key) if found is None else found

    def slot_key(self, need: str) -> tuple[str, str | None]:
        """Return (argument or `out`, attribute) of what a formula names."""
        if need in self.parameters or need == "out":
            return need, None
        owner, _, attribute = need.rpartition("_")
        if attribute not in ("shape", "dtype") or not (
            owner in self.tensor_names or owner in (*self.parameters, "out")
        ):
            raise TypeError(
                f"a formula of {self.name} asks for {need!r}: there are {', '.join(self.parameters)} and out, "
                "and their shapes and dtypes, such as out_shape"
            )
        return owner, attribute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; record the call if grad mode is on and an argument requires grad."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


#: What the generated drivers refer to.
_DRIVER_NAMES: dict[str, Any] = {
    "_MAIN_THREAD": MAIN_THREAD,
    "_THREADS": THREADS,
    "_Tracked": Tracked,
    "_PrimitiveNode": PrimitiveNode,
    "_NOTHING_SAVED": ((), None),
    "_accumulator": accumulator,
    "_as_array": as_array,
    "_get_ident": threading.get_ident,
    "_grad_mode": GRAD_MODE.get,
    "_mixed_devices": mixed_devices,
    "_next_order": next_order,
}


def primitive(
    *numpy_functions: Callable[..., Any], views: bool = False, superlinear: bool = False
) -> Callable[[Callable[..., Any]], Primitive]:
    """Make the decorated function of arrays a primitive, called for `numpy_functions` on tensors.

    Its parameters take NumPy's names and defaults, so that keyword calls bind. Its derivative follows right
    beneath, by `derivative`.

    Args:
        *numpy_functions: the NumPy functions that it stands for; none for one of asyncgrad's own.
        views: whether the result may share memory with the first argument.
        superlinear: whether the work of a call grows faster than its arrays, as that of a matrix product does.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.extend import primitive, derivative
        >>> @primitive()
        ... def cubed(x):
        ...     return x ** 3
        >>> @derivative(cubed, "x")
        ... def _(g, x):
        ...     return g * 3 * np.square(x)
        >>> float(cubed(2.0))
        8.0
    """

    def decorate(function: Callable[..., Any]) -> Primitive:
        name = function.__name__.rstrip("_")
        signature = inspect.signature(function)
        return Primitive(function, name, signature, numpy_functions, views=views, superlinear=superlinear)

    return decorate


def derivative(made: Primitive, *arguments: str) -> Callable[[F], F]:
    """Give the decorated formula as the derivative of a primitive with respect to the named arguments.

    Args:
        made: the primitive.
        *arguments: names of its parameters; a formula for several may serve symmetric functions.

    Example:
        >>> from asyncgrad.extend import primitive, derivative
        >>> @primitive()
        ... def doubled(x):
        ...     return 2 * x
        >>> @derivative(doubled, "x")
        ... def _(g):
        ...     return 2 * g
    """

    def decorate(formula: F) -> F:
        made.add_formulas(dict.fromkeys(arguments, formula))
        return formula

    return decorate


def differentiable(ufunc: np.ufunc, parameters: str, **formulas: Callable[..., Any]) -> Primitive:
    """Make a NumPy ufunc a primitive: one table row, naming its parameters and a formula for each."""
    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in parameters.split()]
    made = Primitive(ufunc, ufunc.__name__, inspect.Signature(names), (ufunc,), views=False)
    made.add_formulas(formulas)
    return made
