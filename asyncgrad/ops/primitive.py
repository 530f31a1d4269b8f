"""Primitive: a NumPy function with its derivative formulas, and the driver that records calls of it.

A formula is a function of the incoming gradient `g` and of what it needs, named by its parameters: an argument
of the primitive by its name, the result as `out`, a shape or dtype as `x_shape`, `out_dtype`. Only what the
formulas of the arguments that require grad name is saved. Formulas are written with NumPy functions and
operators: they run on arrays in an ordinary backward and on tensors, recorded, under `create_graph=True`.
Broadcasting, dtype and device are no concern of theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from ..context import GRAD_MODE
from ..errors import DeviceError
from ..graph.leaf import accumulator
from ..graph.node import Node, Special, next_order
from ..graph.saved import check_version, released, save_output, version_of
from ..graph.tracked import Tracked
from .plan import Plan

__all__ = ["RULES", "Formula", "Primitive", "PrimitiveNode", "derivative", "differentiable", "primitive"]

F = TypeVar("F", bound=Callable[..., Any])

#: What runs when a NumPy function is called on a Tensor: its primitive, or a function built on others.
RULES: dict[Callable[..., Any], Callable[..., Any]] = {}

_grad_mode = GRAD_MODE.get
_ndarray = np.ndarray


class Formula(NamedTuple):
    """One derivative formula and the names of what it needs besides the incoming gradient."""

    function: Callable[..., Any]
    needs: tuple[str, ...]


@final
class PrimitiveNode(Node):
    """The backward of one recorded call of a primitive."""

    __slots__ = ("plan", "saved", "versions")

    def __init__(self, plan: Plan, next_nodes: tuple[Node | None, ...], nrs: tuple[int, ...], out: Any, device: Any):
        self.plan = plan
        self.next_nodes = next_nodes
        self.input_nrs = nrs
        self.order = next_order()
        number = 0
        for node in next_nodes:
            if node is not None and node.topological_nr >= number:
                number = node.topological_nr + 1
        self.topological_nr = number
        self.shape = out.shape
        self.dtype = out.dtype
        self.device = device
        self.special: Special | None = None
        #: What the plan's formulas need; None once released.
        self.saved: tuple[Any, ...] | None = ()
        #: Of the saved tensors; None where none of them had been written into.
        self.versions: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The name of the primitive, as in MultiplyBackward."""
        return self.plan.primitive.node_name

    def apply(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the primitive's tensor arguments."""
        return self.plan.run(self, grads[0])  # type: ignore[no-any-return]

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
            if not as_tensors:
                values[index] = tensor._data
            elif self.plan.slots[index].position is None:
                output = type(tensor)(tensor._data, self, 0, tensor._device)
                values[index] = save_output(output, tensor)
        return values

    def check_versions(self) -> None:
        """Raise if a saved tensor was changed in place since."""
        saved = self.saved
        if saved is None:
            raise released(self)
        versions = self.versions
        for count, index in enumerate(self.plan.tensor_slots):
            check_version(self, saved[index], 0 if versions is None else versions[count])

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
        "_bind",
        "arity",
        "edges",
        "formulas",
        "function",
        "name",
        "node_name",
        "parameters",
        "plans",
        "tensor_positions",
        "views",
    )

    def __init__(self, function: Callable[..., Any], name: str, signature: inspect.Signature, *, views: bool) -> None:
        self.function = function
        self.name = name
        self.node_name = "".join(part.capitalize() for part in name.split("_")) + "Backward"
        self.parameters = tuple(signature.parameters)
        self.arity = len(self.parameters)
        self.formulas: dict[int, Formula] = {}
        #: Positions of the arguments that may be tensors, in order; each has an edge.
        self.tensor_positions: tuple[int, ...] = ()
        #: Those positions, each with its bit.
        self.edges: tuple[tuple[int, int], ...] = ()
        self.plans: dict[int, Plan] = {}
        #: Whether the result may be a view of the first argument's memory.
        self.views = views
        self._bind = _binder(name, signature)

    def add_formulas(self, formulas: dict[str, Callable[..., Any]]) -> None:
        """Give the derivative with respect to the named arguments."""
        for name, function in formulas.items():
            needs = tuple(inspect.signature(function).parameters)[1:]
            self.formulas[self.parameters.index(name)] = Formula(function, needs)
        self.tensor_positions = tuple(sorted(self.formulas))
        self.edges = tuple((position, 1 << edge) for edge, position in enumerate(self.tensor_positions))
        self.plans.clear()

    def slot_key(self, name: str) -> tuple[int | None, str | None]:
        """Return (position, attribute) of what a formula names; position None is the result."""
        attribute = None
        if name not in self.parameters and name != "out":
            name, _, attribute = name.rpartition("_")
            if attribute not in ("shape", "dtype"):
                raise TypeError(f"a formula of {self.name} asks for {name}_{attribute}, which it has not")
        return (None if name == "out" else self.parameters.index(name)), attribute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; record the call if grad mode is on and an argument requires grad."""
        if kwargs or len(args) != self.arity:
            args = self._bind(*args, **kwargs)
        raw = list(args)
        template: Tracked | None = None
        requires = tracked = 0
        for position, bit in self.edges:
            value = args[position]
            if isinstance(value, Tracked):
                if template is None:
                    template = value
                elif value._device is not template._device:
                    raise mixed_devices(self.name, template, value)
                raw[position] = value._data
                tracked |= bit
                if value._grad_fn is not None or (value._meta is not None and value._meta.requires_grad):
                    requires |= bit
        if template is None:
            return self.function(*args)
        data = self.function(*raw)
        if data.__class__ is not _ndarray:
            data = np.asarray(data)
        out = template.__class__(data, None, 0, template._device)
        if self.views and data.base is not None:
            out._version = template._shared_version()
        if requires and _grad_mode() and data.dtype.kind in "fc":
            self._record(out, args, raw, requires, tracked)
        return out

    def _record(self, out: Tracked, args: tuple[Any, ...], raw: list[Any], requires: int, tracked: int) -> None:
        """Give `out` a node that knows how the arguments in `requires` get their gradients."""
        key = requires << len(self.edges) | tracked
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = Plan(self, requires, tracked)
        nodes: list[Node | None] = []
        nrs = plan.zeros
        for edge, (position, bit) in enumerate(self.edges):
            if not requires & bit:
                nodes.append(None)
                continue
            value = args[position]
            node = value._grad_fn
            if node is None:
                node = accumulator(value, value._meta)
            elif value._output_nr:
                nrs = (*nrs[:edge], value._output_nr, *nrs[edge + 1 :])
            nodes.append(node)
        node = PrimitiveNode(plan, tuple(nodes), nrs, out._data, out._device)
        if plan.slots:
            node.saved = saved = plan.gather(args, raw, out, _alias)
            for index in plan.tensor_slots:
                if saved[index]._version is not None:
                    node.versions = tuple(version_of(saved[slot]) for slot in plan.tensor_slots)
                    break
        out._grad_fn = node

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _alias(output: Tracked) -> Any:
    return save_output(type(output)(output._data, None, 0, output._device), output)


def mixed_devices(name: str, first: Tracked, second: Tracked) -> DeviceError:
    """Return the error for operands on two devices."""
    return DeviceError(
        f"{name} got tensors on '{first._device}' and on '{second._device}': "
        f"move one of them first, for example other.to('{first._device}')"
    )


def _binder(name: str, signature: inspect.Signature) -> Callable[..., tuple[Any, ...]]:
    """Return a function of that signature that returns its arguments in order, defaults filled in."""
    defaults = {
        f"default_{index}": parameter.default
        for index, parameter in enumerate(signature.parameters.values())
        if parameter.default is not parameter.empty
    }
    parts = []
    keyword_only = False
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        has_default = parameter.default is not parameter.empty
        parts.append(f"{parameter.name}=default_{index}" if has_default else parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY and not any(
            later.kind is parameter.POSITIONAL_ONLY for later in list(signature.parameters.values())[index + 1 :]
        ):
            parts.append("/")
    values = "".join(f"{parameter}, " for parameter in signature.parameters)
    source = f"def {name}({', '.join(parts)}): return ({values})"
    exec(compile(source, f"<signature of {name}>", "exec"), defaults)  # noqa: S102
    return defaults[name]  # type: ignore[no-any-return]


def primitive(*numpy_functions: Callable[..., Any], views: bool = False) -> Callable[[Callable[..., Any]], Primitive]:
    """Make the decorated function of arrays a primitive, called for `numpy_functions` on tensors.

    Its parameters take NumPy's names and defaults, so that keyword calls bind. Its derivative follows right
    beneath, by `derivative`.

    Args:
        *numpy_functions: the NumPy functions that it stands for; none for one of asyncgrad's own.
        views: whether the result may share memory with the first argument.

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
        made = Primitive(function, function.__name__.rstrip("_"), inspect.signature(function), views=views)
        for numpy_function in numpy_functions:
            RULES[numpy_function] = made
        return made

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
    made = Primitive(ufunc, ufunc.__name__, inspect.Signature(names), views=False)
    made.add_formulas(formulas)
    RULES[ufunc] = made
    return made
