"""The transforms return what torch.autograd.functional returns: values, structures, refusals and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncgrad as ag
from asyncgrad import functional
from asyncgrad.errors import AsyncgradError

torch = pytest.importorskip("torch")
oracle = torch.autograd.functional


class TransformCase(NamedTuple):
    """A function of `m`, the module whose functions it calls (NumPy or PyTorch), and of tensors of these shapes."""

    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


VECTOR = {
    "elementwise": TransformCase(lambda m, x, y: x * x * m.exp(y) - x / y, ((3,), (3,))),
    "one input": TransformCase(lambda m, x: m.sin(x) * x, ((2, 2),)),
    "matmul": TransformCase(lambda m, x, w: m.tanh(m.matmul(x, w)), ((2, 3), (3, 2))),
    "broadcast": TransformCase(lambda m, x, y: x * y**2, ((2, 1), (3,))),
    "tuple": TransformCase(lambda m, x, y: (x * y, m.sum(x * x * y)), ((2,), (2,))),
    "tuple of one": TransformCase(lambda m, x: (x**3,), ((2,),)),
    "unused input": TransformCase(lambda m, x, y: x * x, ((2,), (3,))),
    "input as it is": TransformCase(lambda m, x, y: (x, x * y), ((2,), (2,))),
    "linear": TransformCase(lambda m, x, y: x * 2.0 - y, ((2,), (2,))),
    "scalars": TransformCase(lambda m, x, y: x * y + x, ((), ())),
    "detached output": TransformCase(lambda m, x: (x * x, x.detach() * 2.0), ((2,),)),
    "detached input": TransformCase(lambda m, x, y: x * y.detach(), ((2,), (2,))),
}
SCALAR = {
    "cubes": TransformCase(lambda m, x: m.sum(x**3), ((2, 2),)),
    "two inputs": TransformCase(lambda m, x, y: m.sum(x * x * m.exp(y)), ((3,), (3,))),
    "matmul": TransformCase(lambda m, x, w: m.sum(m.tanh(m.matmul(x, w))), ((2, 3), (3, 2))),
    "quadratic": TransformCase(lambda m, x, y: m.sum(x * x + y * y), ((2,), (2,))),
    "linear": TransformCase(lambda m, x, y: m.sum(x * 2.0 - y), ((2,), (2,))),
    "one linear input": TransformCase(lambda m, x, y: m.sum(x * x - y), ((2,), (2,))),
    "product": TransformCase(lambda m, x, y: m.sum(x * y), ((2,), (2,))),
    "unused input": TransformCase(lambda m, x, y: m.sum(x**3), ((2,), (3,))),
    "one number": TransformCase(lambda m, x: x**4, ((),)),
    "one element": TransformCase(lambda m, x: x**4, ((1,),)),
    "detached": TransformCase(lambda m, x: m.sum(x.detach() * 2.0), ((2,),)),
}
vector = pytest.mark.parametrize("case", VECTOR.values(), ids=VECTOR)
scalar = pytest.mark.parametrize("case", SCALAR.values(), ids=SCALAR)
strictly = pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
recorded = pytest.mark.parametrize("create_graph", [False, True], ids=["detached", "create_graph"])


def shape_of(result: Any) -> Any:
    """The nested structure of a result, with shapes for leaves."""
    if isinstance(result, tuple):
        return tuple(map(shape_of, result))
    return tuple(result.shape), bool(result.requires_grad)


def flat_parts(result: Any) -> list[Any]:
    return [part for entry in result for part in flat_parts(entry)] if isinstance(result, tuple) else [result]


def flat_arrays(result: Any) -> list[Any]:
    return [part.detach().numpy() for part in flat_parts(result)]


def second(results: list[Any], inputs: list[Any], grad: Any, module: Any) -> list[Any]:
    """The gradients of the sum of the squares of all results, for those that have a history."""
    total = sum(module.sum(part * part) for part in results if part.requires_grad)
    if not hasattr(total, "requires_grad"):
        return []
    found = grad(total, inputs, allow_unused=True)
    return [None if gradient is None else gradient.numpy() for gradient in found]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            np.zeros(()) if mine is None else mine, np.zeros(()) if other is None else other, rtol=1e-10, atol=1e-12
        )
    return True


def compare(name: str, case: TransformCase, v_shapes: Any, strict: bool, create_graph: bool) -> None:
    """Hold the results of one transform against the oracle's: refusals, structures, values, second derivatives."""
    rng = np.random.default_rng(7)
    arrays = [rng.uniform(0.5, 1.5, shape) for shape in case.shapes]
    v = None if v_shapes is None else [rng.uniform(-1, 1, shape) for shape in v_shapes]
    options = {"strict": strict, "create_graph": create_graph}

    def arguments(make: Any) -> tuple[list[Any], tuple[Any, ...]]:
        inputs = [make(array) for array in arrays]
        products = () if v is None else (given_as(list(map(make, v))),)
        return inputs, (given_as(inputs), *products)

    our_inputs, ours = arguments(lambda array: ag.tensor(array, requires_grad=True))
    their_inputs, theirs = arguments(lambda array: torch.tensor(array, requires_grad=True))
    try:
        expected = getattr(oracle, name)(lambda *xs: case.fn(torch, *xs), *theirs, **options)
    except RuntimeError:
        with pytest.raises(AsyncgradError):
            ag.run(getattr(functional, name)(lambda *xs: case.fn(np, *xs), *ours, **options))
        return
    results = ag.run(getattr(functional, name)(lambda *xs: case.fn(np, *xs), *ours, **options))

    assert shape_of(results) == shape_of(expected)
    assert same(flat_arrays(results), flat_arrays(expected))
    assert same(
        second(flat_parts(results), our_inputs, lambda *a, **k: ag.run(ag.grad(*a, **k)), np),
        second(flat_parts(expected), their_inputs, torch.autograd.grad, torch),
    )


def given_as(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def output_shapes(case: TransformCase) -> list[tuple[int, ...]]:
    outputs = case.fn(np, *(ag.tensor(np.ones(shape)) for shape in case.shapes))
    return [output.shape for output in (outputs if isinstance(outputs, tuple) else (outputs,))]


@vector
@strictly
@recorded
def test_vjp_is_that_of_pytorch(case, strict, create_graph):
    compare("vjp", case, output_shapes(case), strict, create_graph)


@vector
@strictly
@recorded
def test_jvp_is_that_of_pytorch(case, strict, create_graph):
    compare("jvp", case, case.shapes, strict, create_graph)


@vector
@strictly
@recorded
def test_jacobian_is_that_of_pytorch(case, strict, create_graph):
    compare("jacobian", case, None, strict, create_graph)


@scalar
@strictly
@recorded
@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_products_with_the_hessian_are_those_of_pytorch(name, case, strict, create_graph):
    compare(name, case, case.shapes, strict, create_graph)


@scalar
@strictly
@recorded
def test_hessian_is_that_of_pytorch(case, strict, create_graph):
    compare("hessian", case, None, strict, create_graph)


STEPS = {
    "+": lambda m, x, y: x + y,
    "*": lambda m, x, y: x * y,
    "-": lambda m, x, y: x - 0.5 * y,
    "/": lambda m, x, y: x / (y * y + 1.0),
    "tanh": lambda m, x, y: m.tanh(x),
    "sum": lambda m, x, y: x * m.sum(y),
}
programs = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), max_size=6)


@given(program=programs, name=st.sampled_from(["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"]), twice=st.booleans())
def test_random_programs_have_the_derivatives_of_pytorch(program, name, twice):
    def fn(m, *inputs):
        values = list(inputs)
        for step, first, second_ in program:
            values.append(STEPS[step](m, values[first % len(values)], values[second_ % len(values)]))
        return m.sum(values[-1]) if name in ("vhp", "hvp", "hessian") else values[-1]

    shapes = ((2,), (2,))
    v_shapes = {"vjp": ((2,),), "jvp": shapes, "vhp": shapes, "hvp": shapes}.get(name)

    compare(name, TransformCase(fn, shapes), v_shapes, strict=False, create_graph=twice)
