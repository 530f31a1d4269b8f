"""Holds asyncgrad to the oracle: one program, its values, its flags, its memory and its derivatives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError, CheckpointError, InPlaceError
from tests.support.programs.generate import Program
from tests.support.programs.worlds import constant, names_of_asyncgrad

__all__ = ["Outcome", "Wrong", "check"]

RTOL = 1e-6
#: The difference of two gradients is less precise than that of two values.
SECOND_RTOL = 2e-5
NAMES = names_of_asyncgrad()


@final
class Wrong(AssertionError):
    """A program for which asyncgrad and the oracle do not agree."""


class Outcome(NamedTuple):
    """What checking a program came to.

    Args:
        refused: whether a backward raised, since a saved value had been written over.
        second: whether second derivatives were compared.
    """

    refused: bool = False
    second: bool = False


def check(program: Program) -> Outcome:
    """Run a program with asyncgrad in a way that its seed chooses, and compare it with what NumPy gives.

    Raises:
        Wrong: they do not agree, or asyncgrad raises what nothing in the program asks for.
    """
    choices = random.Random(program.seed)
    name = "cpu" if choices.random() < 0.9 else "thread:0"
    try:
        run = Run(program, name)
        _check_values(program, run)
        _check_memory(program, run)
        # A reentrant checkpoint works with a backward to all leaves alone.
        to_leaves = any(step.way == "reentrant" for step in program.steps)
        driver = choices.choice(TO_LEAVES if to_leaves else FIRST)
        second = choices.choice(SECOND) if choices.random() < 0.35 and not to_leaves else None
        if any(leaf.dtype == np.float32 for leaf in program.leaves.values()):
            # Differences say nothing in float32: shapes and dtypes only.
            driver(run)
            return Outcome()
        _compare(f"the derivative, by {driver.__name__}", driver(run), _expected(program), RTOL)
        if second is None or program.oracle.is_cut:
            return Outcome()
        _compare(f"the second derivative, by {second.__name__}", second(run), _differences(program, name), SECOND_RTOL)
        return Outcome(second=True)
    except (ChangedTensorError, CheckpointError) as error:
        if program.oracle.may_refuse:
            return Outcome(refused=True)
        raise Wrong(f"nothing that is saved is written over, and yet: {error!r}") from error
    except InPlaceError as error:
        if program.oracle.writes_leaf and "as an argument of a transform" in str(error):
            return Outcome(refused=True)
        raise Wrong(f"InPlaceError: {error}") from error
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"{type(error).__name__}: {error}") from error


@final
class Run:
    """A program, compiled for asyncgrad, and one run of it.

    Args:
        program: what to run.
        device: where the leaves live.
    """

    def __init__(self, program: Program, device: str) -> None:
        scope = dict(NAMES)
        exec(compile(program.source, f"<program of seed {program.seed}>", "exec"), scope)  # noqa: S102  # it is its source
        # Taken out, so that the function and its globals are no cycle.
        self.function: Callable[..., Any] = scope.pop("program")
        self.device = device
        self.program = program
        self.directions = list(program.directions.values())
        self.leaves = self.new_leaves()
        self.total, self.variables = self.function(*self.leaves)

    def new_leaves(self, move: float = 0.0) -> list[Any]:
        program = self.program
        moved = [program.leaves[name] + move * program.directions[name] for name in program.leaves]
        return [ag.tensor(leaf, device=self.device, requires_grad=True) for leaf in moved]

    def arrays(self) -> list[np.ndarray]:
        """Return the leaves as arrays of their own, since a program may write into what it is given."""
        return [leaf.copy() for leaf in self.program.leaves.values()]

    def value(self, *leaves: Any) -> Any:
        return self.function(*leaves)[0]


def _check_values(program: Program, run: Run) -> None:
    for name, expected in program.oracle.variables.items():
        found = run.variables[name]
        if not isinstance(found, ag.Tensor):
            raise Wrong(f"{name} is {type(found).__name__}, and no Tensor")
        value = found.numpy()
        if value.shape != expected.value.shape or value.dtype != expected.value.dtype:
            raise Wrong(f"{name} is {value.dtype}{value.shape}, not {expected.value.dtype}{expected.value.shape}")
        tolerance = 1e-3 if np.float32 in {leaf.dtype.type for leaf in program.leaves.values()} else 1e-11
        if not np.allclose(value, expected.value, rtol=tolerance, atol=tolerance):
            raise Wrong(f"{name} is\n{value}\nand by NumPy\n{expected.value}")
        if found.requires_grad != expected.history.requires_grad:
            raise Wrong(f"{name}.requires_grad is {found.requires_grad}")


def _check_memory(program: Program, run: Run) -> None:
    arrays = {name: run.variables[name].numpy() for name in program.oracle.variables}
    expected = {name: variable.value for name, variable in program.oracle.variables.items()}
    names = list(arrays)
    for place, one in enumerate(names):
        # Of what has no axes NumPy makes a number, to which there is no writing.
        if arrays[one].ndim and arrays[one].flags.writeable != expected[one].flags.writeable:
            raise Wrong(f"{one} is writeable: {arrays[one].flags.writeable}, unlike NumPy's")
        if _strides(arrays[one]) != _strides(expected[one]):
            raise Wrong(f"{one} has strides {arrays[one].strides}, and NumPy's {expected[one].strides}")
        for other in names[:place]:
            if np.shares_memory(arrays[one], arrays[other]) != np.shares_memory(expected[one], expected[other]):
                raise Wrong(f"{one} and {other} share memory, or do not, unlike NumPy's")


def _strides(array: np.ndarray) -> list[int]:
    """Return the strides, but for those that say nothing: of axes of length 1, and of an array without elements."""
    return [stride for stride, length in zip(array.strides, array.shape, strict=True) if length > 1 and array.size]


def _expected(program: Program) -> float:
    """Return the derivative of the total in the direction that the leaves move in."""
    result = 0.0
    for place, variable in enumerate(program.oracle.variables.values()):
        weights = constant(place, variable.value.shape, variable.value.dtype.kind == "c")
        result += float(np.sum(np.real(variable.slope * weights)))
    return result


def _compare(what: str, found: float, expected: float, tolerance: float) -> None:
    if not abs(found - expected) <= tolerance * max(1.0, abs(found), abs(expected)):
        raise Wrong(f"{what} is {found!r}, and by differences {expected!r}")


def _along(grads: Any, run: Run) -> float:
    """Return the derivative in the direction of the leaves that the gradients say."""
    result = 0.0
    for gradient, leaf, direction in zip(grads, run.leaves, run.directions, strict=True):
        if gradient is None:
            continue
        array = gradient.numpy()
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise Wrong(f"the gradient of a leaf {leaf.dtype}{leaf.shape} is {array.dtype}{array.shape}")
        result += float(np.sum(np.real(np.conj(array) * direction)))
    return result


# Ways to the derivative in the direction.


def backward(run: Run) -> float:
    sync.backward(run.total)
    return _along([leaf.grad for leaf in run.leaves], run)


def awaited_backward(run: Run) -> float:
    asyncio.run(run.total.backward())
    return _along([leaf.grad for leaf in run.leaves], run)


def backward_twice(run: Run) -> float:
    sync.backward(run.total, retain_graph=True)
    first = [None if leaf.grad is None else leaf.grad.numpy().copy() for leaf in run.leaves]
    sync.backward(run.total)
    for leaf, gradient in zip(run.leaves, first, strict=True):
        if gradient is not None and not np.allclose(leaf.grad.numpy(), 2 * gradient, rtol=1e-6, atol=1e-9):
            raise Wrong("a second backward gives other gradients than the first")
    return _along([leaf.grad for leaf in run.leaves], run) / 2


def grad(run: Run) -> float:
    return _along(sync.grad(run.total, run.leaves, allow_unused=True), run)


def grad_at_a_thread(run: Run) -> float:
    with ag.workers(2):
        return _along(sync.grad(run.total, run.leaves, allow_unused=True), run)


def awaited_grad(run: Run) -> float:
    return _along(asyncio.run(ag.grad(run.total, run.leaves, allow_unused=True, materialize_grads=False)), run)


def compiled(run: Run) -> float:
    first = sync.grad(run.total, run.leaves, allow_unused=True)
    with ag.compiled_autograd(after=1):
        for _ in range(2):
            leaves = run.new_leaves()
            again = sync.grad(run.value(*leaves), leaves, allow_unused=True)
            for one, other in zip(first, again, strict=True):
                if (one is None) != (other is None) or (one is not None and not _same_bits(one, other)):
                    raise Wrong("compiled, the gradients are others")
    return _along(first, run)


def _same_bits(one: Any, other: Any) -> bool:
    first, second = one.numpy(), other.numpy()
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


def value_and_grad(run: Run) -> float:
    places = tuple(range(len(run.leaves)))
    return _along(sync.value_and_grad(run.value, places)(*run.arrays())[1], run)


def vjp(run: Run) -> float:
    return _along(sync.vjp(run.value, tuple(run.new_leaves()))[1], run)


def jvp(run: Run) -> float:
    if any(leaf.dtype.kind == "c" for leaf in run.leaves):
        return vjp(run)
    return float(sync.jvp(run.value, tuple(run.new_leaves()), tuple(run.directions))[1].item())


def jacobian(run: Run) -> float:
    return _along(sync.jacobian(run.value, tuple(run.new_leaves())), run)


def without_detours(run: Run) -> float:
    with ag.workers(0), ag.detect_anomaly():
        return value_and_grad(run)


TO_LEAVES = [backward, backward, backward_twice, awaited_backward]
FIRST = [
    *TO_LEAVES, grad, grad, grad_at_a_thread, awaited_grad, compiled, value_and_grad,
    vjp, jvp, jacobian, without_detours,
]  # fmt: skip


# Ways to the derivative, in the same direction, of a number that is made of the gradients.


def _weighted(grads: Any) -> Any:
    """Return one real number that every element of the gradients has a part in."""
    return NAMES["total"](*(gradient for gradient in grads if gradient is not None))


def _differences(program: Program, device: str) -> float:
    """Return the difference of what the gradients give, some way along the direction."""
    move = 1e-5
    run = Run(program, device)
    values = []
    for sign in (1, -1):
        leaves = run.new_leaves(sign * move)
        grads = sync.grad(run.value(*leaves), leaves, materialize_grads=True)
        values.append(float(_weighted([gradient.numpy() for gradient in grads])))
    return (values[0] - values[1]) / (2 * move)


def create_graph(run: Run) -> float:
    leaves = run.new_leaves()
    grads = sync.grad(run.value(*leaves), leaves, create_graph=True, materialize_grads=True)
    weighted = _weighted(grads)
    if not isinstance(weighted, ag.Tensor) or not weighted.requires_grad:
        return 0.0
    return _along(sync.grad(weighted, leaves, allow_unused=True), run)


def awaited_create_graph(run: Run) -> float:
    async def main() -> Any:
        leaves = run.new_leaves()
        grads = await ag.grad(run.value(*leaves), leaves, create_graph=True, materialize_grads=True)
        weighted = _weighted(grads)
        return await ag.grad(weighted, leaves, allow_unused=True) if weighted.requires_grad else [None] * len(leaves)

    return _along(asyncio.run(main()), run)


def value_and_grad_twice(run: Run) -> float:
    places = tuple(range(len(run.leaves)))

    def outer(*leaves: Any) -> Any:
        return _weighted(sync.value_and_grad(run.value, places)(*leaves)[1])

    return _along(sync.value_and_grad(outer, places)(*run.arrays())[1], run)


def vjp_twice(run: Run) -> float:
    leaves = tuple(run.arrays())
    return _along(sync.vjp(lambda *inner: _weighted(sync.vjp(run.value, inner)[1]), leaves)[1], run)


def jacobian_of_vjp(run: Run) -> float:
    leaves = tuple(run.arrays())
    return _along(sync.jacobian(lambda *inner: _weighted(sync.vjp(run.value, inner)[1]), leaves), run)


SECOND = [create_graph, create_graph, awaited_create_graph, value_and_grad_twice, vjp_twice, jacobian_of_vjp]
