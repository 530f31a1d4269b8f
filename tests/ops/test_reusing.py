"""Laws of formulas that reuse arrays: the formula's bits, in memory of their own, or in the gradient's if allowed."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.ops.inlining import inlined
from asyncgrad.ops.primitive import RULES
from asyncgrad.ops.reusing import FUNCTIONS, numbers_only, reused


def formulas_of(function: np.ufunc) -> dict[str, Any]:
    """Return the formulas of an elementwise function by name; none where it has no derivative."""
    x = ag.tensor(np.array([0.5, 0.7]), requires_grad=True)
    with np.errstate(all="ignore"):
        node = function(*[x] * function.nin).grad_fn
    found = {} if node is None else node.plan.primitive.formulas
    return {f"{name} of {function.__name__}": formula.function for name, formula in found.items()}


FORMULAS = {
    name: formula
    for function in RULES
    if isinstance(function, np.ufunc)
    and function.nout == 1
    and function.signature is None
    and {"d->d", "dd->d"} & {*function.types}
    for name, formula in formulas_of(function).items()
}
SHAPES = [(2, 3), (1, 3), (2, 1)]
DTYPES = [np.float64, np.float32]


def parameters_of(formula: Any) -> tuple[str, ...]:
    return formula.__code__.co_varnames[: formula.__code__.co_argcount]


def test_the_formulas_are_found():
    kind = (3,), np.dtype(float)
    found = [
        reused(formula, tuple((name, kind) for name in parameters_of(formula)), False) for formula in FORMULAS.values()
    ]
    assert sum(one is not None for one in found) > 30


def test_a_formula_that_calls_a_function_of_a_module_can_be_written_elsewhere():
    found = inlined(FORMULAS["x of sin"])
    assert ast.unparse(found.expression) == "g * np.cos(x)"
    assert found.constants == {"np": np}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())
@pytest.mark.parametrize("takes_gradient", [False, True])
def test_a_formula_that_reuses_arrays_gives_the_bits_of_the_formula_and_leaves_what_it_reads(formula, takes_gradient):
    names = parameters_of(formula)
    others = itertools.product(itertools.product(SHAPES, DTYPES), repeat=min(len(names) - 1, 2))
    for chosen in others:
        kinds = [((2, 3), np.float32), *chosen, *[((2, 3), np.float32)] * (len(names) - 1 - len(chosen))]
        random = np.random.default_rng(5)
        given = [random.uniform(0.2, 0.9, shape).astype(dtype) for shape, dtype in kinds]
        found = reused(
            formula,
            tuple((name, (one.shape, one.dtype)) for name, one in zip(names, given, strict=True)),
            takes_gradient,
        )
        if found is None:
            return
        expected = formula(*given)
        before = [one.copy() for one in given]
        source = ast.unparse(found.expression).replace("$", "")
        names_in_it = {**formula.__globals__, **FUNCTIONS, **cells(formula)}
        result = eval(source, names_in_it, dict(zip(names, given, strict=True)))  # noqa: S307
        assert (result.dtype, result.shape, result.strides) == (expected.dtype, expected.shape, expected.strides)
        assert result.tobytes() == expected.tobytes()
        kept = list(zip(given, before, strict=True))[takes_gradient:]
        assert all(np.array_equal(one, other) for one, other in kept)
        assert not any(np.shares_memory(result, one) for one, _ in kept)


def cells(formula: Any) -> dict[str, Any]:
    contents = [cell.cell_contents for cell in formula.__closure__ or ()]
    return dict(zip(formula.__code__.co_freevars, contents, strict=True))


def test_what_is_no_number_after_all_is_computed_anew():
    source = numbers_only("'reused'", "value", ["number"]).replace("$", "")
    names = FUNCTIONS
    array = np.ones(2)
    assert eval(source, {**names, "value": array, "number": 2.0}) == "reused"  # noqa: S307
    found = eval(source, {**names, "value": array, "number": np.float64(2.0)})  # noqa: S307
    assert found is not array
    assert np.array_equal(found, array)
