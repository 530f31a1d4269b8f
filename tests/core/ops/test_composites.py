"""Composites: what is generated from their source gives what the source gives, and so do its derivatives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.ops.composites import Composite, composite
from tests.core.recording.test_formula import own

assert nn

ALL = sorted(
    {
        one
        for name, module in list(sys.modules.items())
        if name.startswith("asyncgrad.")
        for one in vars(module).values()
        if type(one) is Composite
    },
    key=lambda one: one.__name__,
)
FLAGS = {"log_target", "log_input", "full"}
MAY_BE_NONE = {"_huber_losses", "_cross_entropies_of_scores", "_cross_entropies", "_soft_margins_of_labels"}


def arguments_of(one: Composite, flag: bool) -> list[Any]:
    """Return random arrays for the tensors of a composite, numbers for the rest, and for a flag this value."""
    rng = np.random.default_rng(0)
    code = one.function.__code__
    found: list[Any] = []
    for name in code.co_varnames[: code.co_argcount]:
        if name in FLAGS:
            found.append(flag)
        elif "weight" in name and one.__name__ in MAY_BE_NONE and not flag:
            found.append(None)
        elif name in one.differentiable:
            found.append(rng.uniform(0.1, 0.9, (3, 4)))
        else:
            found.append(0.7)
    return found


def results(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    """Return the value of a function of some arrays, the gradients, and the gradients of a function of these."""
    leaves = [ag.tensor(one, requires_grad=True) if isinstance(one, np.ndarray) else one for one in arguments]
    tensors = [one for one in leaves if isinstance(one, ag.Tensor)]
    value = function(*leaves)
    weight = ag.tensor(np.linspace(0.5, 1.5, value.size).reshape(value.shape))
    first = sync.grad((value * weight).sum(), tensors, create_graph=True, allow_unused=True)
    total = sum(((one * one * one).sum() for one in first if one is not None and one.requires_grad), ag.tensor(0.0))
    second = sync.grad(total, tensors, allow_unused=True) if total.requires_grad else []
    return [value.numpy(), *(None if one is None else one.detach().numpy() for one in (*first, *second))]


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    for one, right in zip(found, expected, strict=True):
        # A gradient that is not there is one of zeros.
        if one is None or right is None:
            assert all(other is None or not other.any() for other in (one, right))
        else:
            np.testing.assert_allclose(one, right, rtol=1e-12, atol=1e-14, strict=True)


#: What is never reduced; the derivative by its bias has no array but the gradient.
UNREDUCED = {"_by_given_statistics"}
CASES = [
    pytest.param(one, reduction, id=f"{one.__name__}-{reduction}")
    for one in ALL
    for reduction in ("none", "mean", "sum")
    if reduction == "none" or one.__name__ not in UNREDUCED
]


@pytest.mark.slow
@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize(("one", "reduction"), CASES)
def test_the_primitive_of_a_composite_gives_what_its_source_gives(one: Composite, reduction: str, flag: bool) -> None:
    arguments = arguments_of(one, flag)
    made = one.primitive_for(reduction, arguments)
    numbers = [value for value in arguments if value is not None and type(value) is not bool]
    factor = [1 / 12] if reduction == "mean" else []
    totals: dict[str, Callable[[Any], Any]] = {"none": lambda value: value, "mean": np.mean, "sum": np.sum}
    total = totals[reduction]

    found = results(lambda *given: made.call(*given, *factor), numbers)

    assert_equal(found, results(lambda *given: total(one.function(*given)), arguments))


def test_a_derivative_computes_again_what_it_needs_of_the_forward_and_nothing_else() -> None:
    made = composite("x", "y")(own(lambda x, y: np.exp(x) * np.sin(y) + np.log(x)))
    (formula, needs) = made.primitive_for("none", [np.ones(2), np.ones(2)]).formulas["y"]

    assert needs == ("x", "y")
    assert "log" not in "".join(formula.__code__.co_names)


def test_a_function_of_asyncgrad_within_a_composite_is_written_out() -> None:
    made = composite("x")(own(lambda x: nn.sigmoid(x * 2.0) - 1.0))

    assert_equal(results(made.primitive_for("none", [np.ones(2)]).call, [np.ones(2)]), results(made, [np.ones(2)]))


def test_an_argument_of_comparisons_alone_has_no_gradient() -> None:
    made = composite("x", "t")(own(lambda x, t: np.where(t > 0, x, 0)))
    x, t = (ag.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
    sync.backward(made.primitive_for("none", [x._data, t._data]).call(x, t).sum())

    assert x.grad.tolist() == [1.0, 0.0]
    assert t.grad is None


def test_on_arrays_of_numpy_a_composite_is_its_source() -> None:
    made = composite("x")(own(lambda x: np.exp(x) + 1))
    y = made(ag.tensor([1.0], requires_grad=True))

    assert y.grad_fn.name == "AddBackward"
    assert made.reduced("sum", np.ones(3)) == 3 * (np.e + 1)
