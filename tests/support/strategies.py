"""Random forward programs, as data that the oracle and asyncgrad both evaluate.

All data are small whole numbers in float64, so that every sum is exact in any order and results compare for
equality. A program says which bodies are awaited, and for how many turns of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import asyncgrad as ag
from tests.support import oracle

#: Any two of them broadcast together.
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 1), (1, 3), (2, 3)]

#: Beyond this the strategy adds where it would have multiplied.
LARGEST = 50


class GraphStep(NamedTuple):
    """One operation on values computed before."""

    operation: str
    operands: tuple[int, ...]
    #: How many turns of the loop the backward of a custom Function waits; None makes it a plain function.
    turns: int | None
    #: Whether a hook that changes nothing looks at the first output's gradient.
    hooked: bool


class GraphProgram(NamedTuple):
    """Leaves, steps, and where the backward starts."""

    leaves: tuple[tuple[np.ndarray, bool], ...]
    steps: tuple[GraphStep, ...]
    roots: tuple[int, ...]
    root_grads: tuple[np.ndarray, ...]
    #: The values that require grad.
    tracked: tuple[int, ...]

    def tensors(self, leaves: list[ag.Tensor] | None = None) -> list[ag.Tensor]:
        """Evaluate with asyncgrad, on leaves of its own or on the given ones."""
        values = [ag.tensor(data, requires_grad=needs) for data, needs in self.leaves] if leaves is None else leaves[:]
        for step in self.steps:
            results = _apply(step, [values[operand] for operand in step.operands])
            if step.hooked and results[0].requires_grad:
                results[0].register_hook(lambda grad: None)
            values.extend(results)
        return values

    def with_fractions(self) -> GraphProgram:
        """Return the program on numbers whose sums depend on their order."""
        leaves = tuple((data * 0.7 + 0.1, needs) for data, needs in self.leaves)
        return self._replace(leaves=leaves, root_grads=tuple(grad * 0.3 + 0.7 for grad in self.root_grads))

    def variables(self) -> list[oracle.Var]:
        """Evaluate with the oracle."""
        values = [oracle.Var(data) for data, _ in self.leaves]
        for step in self.steps:
            values.extend(ORACLE[step.operation](*[values[operand] for operand in step.operands]))
        return values


def _apply(step: GraphStep, operands: list[ag.Tensor]) -> list[Any]:
    if step.operation in UFUNCS:
        return [UFUNCS[step.operation](*operands)]
    if step.operation == "halves":
        return list(np.split(operands[0], 2))
    if step.operation == "stack":
        return [np.stack(operands)]
    function = FUNCTIONS[step.operation]
    if step.turns is not None:
        outputs = _awaited(function).apply(*operands, step.turns)
    else:
        outputs = function.apply(*operands, 0)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


# The operations, first as asyncgrad has them. The last argument of each Function is the number of turns.


class ProductAndFirst(ag.Function):
    """x * y + x."""

    @staticmethod
    def forward(ctx, x, y, turns):
        ctx.turns = turns
        ctx.save_for_backward(x, y)
        return np.add(np.multiply(x, y), x)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        # The gradients have the shape of the output: the engine sums them to those of the inputs.
        return np.add(np.multiply(grad, y), grad), np.multiply(grad, x), None


class SumAndProduct(ag.Function):
    """x + y and x * y; undefined gradients reach it as zeros."""

    @staticmethod
    def forward(ctx, x, y, turns):
        ctx.turns = turns
        ctx.save_for_backward(x, y)
        return np.add(x, y), np.multiply(x, y)

    @staticmethod
    def backward(ctx, grad_of_sum, grad_of_product):
        x, y = ctx.saved_tensors
        return (
            np.add(grad_of_sum, np.multiply(grad_of_product, y)),
            np.add(grad_of_sum, np.multiply(grad_of_product, x)),
            None,
        )


class SumAndDouble(ag.Function):
    """x + y and 2 x; undefined gradients reach it as None, and it hands them on."""

    @staticmethod
    def forward(ctx, x, y, turns):
        ctx.turns = turns
        ctx.set_materialize_grads(False)
        return np.add(x, y), np.multiply(x, 2.0)

    @staticmethod
    def backward(ctx, grad_of_sum, grad_of_double):
        if grad_of_double is None:
            return grad_of_sum, grad_of_sum, None
        double = np.multiply(grad_of_double, 2.0)
        if grad_of_sum is None:
            return double, None, None
        # Returned twice, and the second time as it came: nobody may write into it.
        return np.add(double, grad_of_sum), grad_of_sum, None


class ProductBlindToSecond(ag.Function):
    """x * y, with no gradient for y."""

    @staticmethod
    def forward(ctx, x, y, turns):
        ctx.turns = turns
        ctx.save_for_backward(y)
        return np.multiply(x, y)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return np.multiply(grad, y), None, None


class Blind(ag.Function):
    """3 x, with no gradient."""

    @staticmethod
    def forward(ctx, x, turns):
        ctx.turns = turns
        return np.multiply(x, 3.0)

    @staticmethod
    def backward(ctx, grad):
        return None, None


_AWAITED: dict[type[ag.Function], type[ag.Function]] = {}


def _awaited(function: type[ag.Function]) -> type[ag.Function]:
    """Return the Function with a backward that waits for `ctx.turns` turns of the loop first."""
    if function not in _AWAITED:

        async def backward(ctx, *grads):
            for _ in range(ctx.turns):
                await asyncio.sleep(0)
            return function.backward(ctx, *grads)

        members = {"forward": staticmethod(function.forward), "backward": staticmethod(backward)}
        _AWAITED[function] = type(f"Awaited{function.__name__}", (ag.Function,), members)
    return _AWAITED[function]


UFUNCS: dict[str, np.ufunc] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
FUNCTIONS: dict[str, type[ag.Function]] = {
    "product_and_first": ProductAndFirst,
    "sum_and_product": SumAndProduct,
    "sum_and_double": SumAndDouble,
    "product_blind_to_second": ProductBlindToSecond,
    "blind": Blind,
}

# And as the oracle has them.


def _product_and_first(x: oracle.Var, y: oracle.Var) -> list[oracle.Var]:
    def rule(grads: list[Any]) -> list[Any]:
        return [oracle.add(oracle.multiply(grads[0], y), grads[0]), oracle.multiply(grads[0], x)]

    return oracle.apply([x, y], rule, x.value * y.value + x.value, zeros_for_none=True)


def _sum_and_product(x: oracle.Var, y: oracle.Var) -> list[oracle.Var]:
    def rule(grads: list[Any]) -> list[Any]:
        return [oracle.add(grads[0], oracle.multiply(grads[1], other)) for other in (y, x)]

    return oracle.apply([x, y], rule, x.value + y.value, x.value * y.value, zeros_for_none=True)


def _sum_and_double(x: oracle.Var, y: oracle.Var) -> list[oracle.Var]:
    def rule(grads: list[Any]) -> list[Any]:
        of_sum, of_double = grads
        if of_double is None:
            return [of_sum, of_sum]
        double = oracle.multiply(of_double, oracle.Var(2.0))
        return [double if of_sum is None else oracle.add(double, of_sum), of_sum]

    return oracle.apply([x, y], rule, x.value + y.value, x.value * 2)


def _product_blind_to_second(x: oracle.Var, y: oracle.Var) -> list[oracle.Var]:
    return oracle.apply([x, y], lambda g: [oracle.multiply(g[0], y), None], x.value * y.value, zeros_for_none=True)


def _halves(x: oracle.Var) -> list[oracle.Var]:
    middle = x.value.shape[0] // 2
    pieces = [x.value[:middle], x.value[middle:]]

    def rule(grads: list[Any]) -> list[Any]:
        defined = [
            oracle.Var(np.zeros_like(piece)) if grad is None else grad
            for piece, grad in zip(pieces, grads, strict=True)
        ]
        return oracle.apply(defined, lambda g: _halves(g[0]), np.concatenate([grad.value for grad in defined]))

    return oracle.apply([x], rule, *pieces)


def _stack(x: oracle.Var, y: oracle.Var) -> list[oracle.Var]:
    return oracle.apply([x, y], lambda g: _unstack(g[0]), np.stack([x.value, y.value]))


def _unstack(x: oracle.Var) -> list[Any]:
    def rule(grads: list[Any]) -> list[Any]:
        defined = [oracle.Var(np.zeros(x.value.shape[1:])) if grad is None else grad for grad in grads]
        return _stack(*defined)

    return oracle.apply([x], rule, *x.value)


def _blind(x: oracle.Var) -> list[oracle.Var]:
    return oracle.apply([x], lambda g: [None], x.value * 3)


ORACLE: dict[str, Callable[..., list[oracle.Var]]] = {
    "add": lambda x, y: [oracle.add(x, y)],
    "subtract": lambda x, y: [oracle.subtract(x, y)],
    "multiply": lambda x, y: [oracle.multiply(x, y)],
    "product_and_first": _product_and_first,
    "sum_and_product": _sum_and_product,
    "sum_and_double": _sum_and_double,
    "product_blind_to_second": _product_blind_to_second,
    "blind": _blind,
    "halves": _halves,
    "stack": _stack,
}

_PLAIN = ["add", "subtract", "multiply", "halves", "stack"]
#: Plain operations come up more often than each Function: they make the chains that Functions interrupt.
_OPERATIONS = _PLAIN * 3 + list(FUNCTIONS)
_MULTIPLYING = {"multiply", "product_and_first", "sum_and_product", "product_blind_to_second"}


_ARITY = {"blind": 1, "halves": 1}


def _candidates(operation: str, shapes: list[tuple[int, ...]]) -> list[int]:
    """Return the values that may be operands, so that all shapes stay those that broadcast."""
    if operation == "halves":
        return [index for index, shape in enumerate(shapes) if shape in ((2, 1), (2, 3))]
    if operation == "stack":
        return [index for index, shape in enumerate(shapes) if shape == (3,)]
    return list(range(len(shapes)))


def whole_numbers(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Small whole numbers, as float64 arrays."""
    size = int(np.prod(shape))
    numbers = st.lists(st.integers(-3, 3), min_size=size, max_size=size)
    return numbers.map(lambda values: np.array(values, dtype=np.float64).reshape(shape))


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    functions: bool = True,
    max_steps: int = 12,
    leaves: tuple[tuple[np.ndarray, bool], ...] | None = None,
) -> GraphProgram:
    """Random programs: shared sub-graphs, unused outputs, broadcasting, several roots, roots within roots.

    Args:
        draw: hypothesis's.
        functions: whether there are custom Functions besides plain operations.
        max_steps: how many operations there are at most.
        leaves: what it starts from; None draws that too.
    """
    if leaves is None:
        shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
        # The first leaf requires grad, and most others do.
        leaves = tuple(
            (draw(whole_numbers(shape)), not index or draw(st.integers(0, 4)) > 0) for index, shape in enumerate(shapes)
        )
    values = [oracle.Var(data) for data, _ in leaves]
    needs = [needed for _, needed in leaves]
    steps = []
    for _ in range(draw(st.integers(2, max_steps))):
        operation = draw(st.sampled_from(_OPERATIONS if functions else _PLAIN))
        candidates = _candidates(operation, [value.value.shape for value in values])
        if not candidates:
            operation, candidates = "add", list(range(len(values)))
        operands = tuple(draw(st.sampled_from(candidates)) for _ in range(_ARITY.get(operation, 2)))
        largest = np.prod([np.max(np.abs(values[operand].value)) for operand in operands])
        if operation in _MULTIPLYING and largest > LARGEST:
            operation = "add"
        turns = draw(st.sampled_from([None, 0, 1, 2, 3])) if operation in FUNCTIONS else None
        steps.append(GraphStep(operation, operands, turns, draw(st.integers(0, 7)) == 0))
        results = ORACLE[operation](*[values[operand] for operand in operands])
        values += results
        needs += [any(needs[operand] for operand in operands)] * len(results)
    tracked = tuple(index for index, needed in enumerate(needs) if needed)
    # Late values first, so that shrinking keeps a root with something beneath it.
    roots = tuple(draw(st.lists(st.sampled_from(tracked[::-1]), min_size=1, max_size=3)))
    grads = tuple(draw(whole_numbers(values[root].value.shape)) for root in roots)
    return GraphProgram(leaves, tuple(steps), roots, grads, tracked)
