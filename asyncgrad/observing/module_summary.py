"""`ag.summary`: the modules of a model as a table of text: shapes, parameters, and the products that a call takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np

from ..core.graph.creation import node_creation_hook
from ..core.graph.facts import byte_text, number_text
from ..core.graph.html import panel, table
from ..core.settings.arguments import must_be
from ..core.settings.context import enable_grad
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import leaves
from ..errors import ArgumentTypeError
from .profile.columns import columns_of_text
from .profile.costs import forward_flops, operand_specs, products_of
from .profile.recording import facts_of

if TYPE_CHECKING:
    from .profile.recording import Spec

__all__ = ["ModuleRow", "ModuleSummary", "summary"]

_HEADS = ("module", "input", "output", "parameters", "products")
#: How many shapes of one call are shown.
_SHAPES = 3


@runtime_checkable
class HasModules(Protocol):
    """Abstract: what a Module has, whose class is of a layer above."""

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """Yield the model and the modules in it, with their paths."""


@final
@dataclass(slots=True)
class ModuleRow:
    """One module of a model.

    Attributes:
        path: its path in the model, such as `layers.0`; "" for the model.
        type: the name of its class.
        calls: how often it was called.
        inputs: the shapes of the arrays among the arguments of its last call.
        outputs: the shapes of those in its last result.
        parameters: how many numbers its parameters have, with those of the modules in it, each once.
        trained: how many of them require grad.
        products: how many multiplications its calls took in products of matrices and convolutions.
    """

    path: str
    type: str
    parameters: int
    trained: int
    calls: int = 0
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    products: int = 0

    def cells(self) -> tuple[str, ...]:
        """Return what a table shows."""
        depth = self.path.count(".") + 1 if self.path else 0
        name = f"{'  ' * depth}{self.path.rpartition('.')[2]}: {self.type}" if self.path else self.type
        shapes = (_shapes_text(self.inputs), _shapes_text(self.outputs)) if self.calls else ("not called", "")
        times = f" × {self.calls}" if self.calls > 1 else ""
        return (name + times, *shapes, f"{self.parameters:,}" if self.parameters else "", self._products())

    def _products(self) -> str:
        return f"{self.products:,}" if self.products else ""


@final
@dataclass(frozen=True, slots=True, repr=False)
class ModuleSummary:
    """What `ag.summary` found: a terminal shows it as a table of text, a notebook as one of its own.

    Attributes:
        rows: the modules, each before those in it.
        nbytes: the bytes of all parameters.
    """

    rows: tuple[ModuleRow, ...]
    nbytes: int

    @property
    def _totals(self) -> ModuleRow:
        return self.rows[0]

    @property
    def parameters(self) -> int:
        """How many numbers all parameters have."""
        return self._totals.parameters

    @property
    def products(self) -> int:
        """How many multiplications a call takes in products of matrices and convolutions."""
        return self._totals.products

    def _footer(self) -> str:
        total = self._totals
        frozen = total.parameters - total.trained
        kinds = f" ({total.trained:,} trained, {frozen:,} frozen)" if frozen else ""
        return f"{number_text(total.parameters, 'parameter')}{kinds}, {byte_text(self.nbytes)}; " + number_text(
            total.products, "product"
        )

    def __repr__(self) -> str:
        return "\n".join([*columns_of_text([_HEADS, *(row.cells() for row in self.rows)], {3, 4}), self._footer()])

    def _repr_html_(self) -> str:
        return panel(self._totals.type, table(_HEADS, [row.cells() for row in self.rows], (3, 4)), self._footer())


def summary(model: HasModules, *args: object, **kwargs: object) -> Any:
    """Return a table of the modules of a model: the shapes of a call, parameters, and how many products it computes.

    The model is called once with the arguments, as in an evaluation (`model.eval()`), and is as it was afterwards.
    Products are the multiplications of matmul, dot, linear, conv1d to conv3d and attention, in what is recorded: what
    is computed of frozen parameters and whole numbers alone, and einsum, are not counted.

    Args:
        model: a Module.
        args: what the model is called with.
        kwargs: the same, by name.

    Returns:
        A ModuleSummary; an awaitable of one if the call of the model is awaited.

    Raises:
        ArgumentTypeError: `model` is no Module, or an argument is a shape.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> print(ag.summary(model, np.ones((3, 4))))
        module       input   output  parameters  products
        -----------  ------  ------  ----------  --------
        Sequential   (3, 4)  (3, 2)          58       144
          0: Linear  (3, 4)  (3, 8)          40        96
          1: ReLU    (3, 8)  (3, 8)
          2: Linear  (3, 8)  (3, 2)          18        48
        58 parameters, 464 B; 144 products
    """
    if not isinstance(model, HasModules):
        raise ArgumentTypeError(must_be("model", "a Module", model, "write ag.summary(model, x)"))
    # Tuples are arrays to some layers, and torchinfo's summary takes shapes.
    for shape in filter(_is_shape, args):
        raise ArgumentTypeError(must_be("what the model is called with", "an array", shape, _arrays_instead(args, {})))
    watching = _Watching(model)
    given: Any = [_followed(each) for each in args], {name: _followed(each) for name, each in kwargs.items()}
    with ExitStack() as stack:
        stack.enter_context(watching.on())
        try:
            result = watching.model(*given[0], **given[1])
        except TypeError as error:
            # Or nothing; here the model is called with what follows it.
            if not any(hasattr(one, "shape") for one in (*args, *kwargs.values())):
                instead = _arrays_instead(args, kwargs)
                error.add_note(f"ag.summary calls the model with the arguments behind it: {instead}")
            raise
        if isawaitable(result):
            return _awaited(result, watching, stack.pop_all())
    return watching.summary()


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(type(n) is int for n in value)


def _arrays_instead(args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """Return what to write in place of the first shape among arguments, or of none."""
    shape = next(filter(_is_shape, (*args, *kwargs.values())), "shape")
    return f"write their arrays, as in ag.summary(model, np.ones({shape}))"


async def _awaited(result: Any, watching: _Watching, stack: ExitStack) -> ModuleSummary:
    with stack:
        await result
    return watching.summary()


def _followed(value: Any) -> Any:
    """Return an argument so that what is computed of it is recorded; one that is no array of floats as it is."""
    if isinstance(value, (np.ndarray, Tensor)) and np.dtype(value.dtype).kind in "fc":
        return asarray(value).detach().requires_grad_()
    return value


@final
class _Watching:
    """Watches the calls of the modules of one model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._rows = {id(module): _row(path, module) for path, module in model.named_modules()}
        #: The rows of the modules that are being called in a context, outermost first.
        self._around: ContextVar[tuple[ModuleRow, ...]] = ContextVar("asyncgrad_modules_around", default=())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch inside of the block, in which the model evaluates."""
        modules = list(self.model.modules())
        modes = [module.training for module in modules]
        with ExitStack() as stack:
            for module in modules:
                stack.callback(module.register_forward_pre_hook(self._begins).remove)
                stack.callback(module.register_forward_hook(self._ends).remove)
            self.model.eval()
            try:
                with enable_grad(), node_creation_hook(self._made):
                    yield
            finally:
                for module, mode in zip(modules, modes, strict=True):
                    module.training = mode

    def _begins(self, module: Any, args: tuple[Any, ...]) -> None:
        row = self._rows[id(module)]
        row.calls += 1
        row.inputs = _shapes_of(args)
        self._around.set((*self._around.get(), row))

    def _ends(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        self._rows[id(module)].outputs = _shapes_of(output)
        self._around.set(self._around.get()[:-1])

    def _made(self, node: Any) -> None:
        facts = facts_of(node)
        if facts.plan is None or not products_of(facts.plan):
            return
        inputs: list[Spec] = [
            None if target is None or target.shape is None else (target.shape, target.dtype)
            for target in node.next_nodes
        ]
        flops = forward_flops(facts.plan, operand_specs(facts.plan, inputs, facts.saved), facts.outputs[0])
        # A module that calls itself is one row.
        for row in {id(row): row for row in self._around.get()}.values():
            row.products += (flops or 0) // 2

    def summary(self) -> ModuleSummary:
        """Return what has been seen."""
        nbytes = sum(parameter.nbytes for parameter in self.model.parameters())
        return ModuleSummary(tuple(self._rows.values()), nbytes)


def _row(path: str, module: Any) -> ModuleRow:
    parameters = list(module.parameters())
    return ModuleRow(
        path,
        type(module).__name__,
        sum(parameter.size for parameter in parameters),
        sum(parameter.size for parameter in parameters if parameter.requires_grad),
    )


def _shapes_of(tree: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(leaf.shape) for leaf in leaves(tree) if hasattr(leaf, "shape"))


def _shapes_text(shapes: tuple[tuple[int, ...], ...]) -> str:
    more = f", … {len(shapes) - _SHAPES} more" if len(shapes) > _SHAPES else ""
    return ", ".join(map(str, shapes[:_SHAPES])) + more
