"""Formulas that are written into the body of a plan, and what a plan then promises of its gradients."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.ops.arithmetic import add, divide, multiply
from asyncgrad.ops.expressions import as_expression, keeps_dtype


def test_a_formula_of_arithmetic_alone_becomes_source():
    found = as_expression(lambda g, x, out: -g * (x + 2) / out, ["g", "a", "b"], {"x", "out"})

    assert found is not None
    assert found.source == "(((-g) * (a + 2)) / b)"


@pytest.mark.parametrize("formula", [lambda g, x: np.sin(x) * g, lambda g, x: g if x else x, lambda g, x: g @ x])
def test_a_formula_that_does_more_is_called(formula):
    assert as_expression(formula, ["g", "x"], ()) is None


@pytest.mark.parametrize(
    ("formula", "keeps"),
    [
        (lambda g, x: g, True),
        (lambda g, x: g * x, True),
        (lambda g, x: x + x, False),  # not the shape of g
        (lambda g, x: g * (x / x), True),
        (lambda g, y: g * (y / y), False),  # a ratio of integers is a float64
        (lambda g, y: g * (1 - y), False),  # and so may be what a number gives with booleans
    ],
)
def test_a_formula_keeps_the_kind_of_its_gradient_only_where_that_is_certain(formula, keeps):
    found = as_expression(formula, ["g", "s"], {"x"})

    assert found is not None
    assert found.keeps_kind is keeps


def test_functions_that_give_another_dtype_than_they_take_are_told_apart():
    assert [keeps_dtype(one) for one in (np.add, np.tanh, np.divide)] == [True] * 3
    assert [keeps_dtype(one) for one in (np.absolute, np.ldexp, np.matmul, np.sum)] == [False] * 4


@pytest.mark.parametrize("primitive", [add, multiply, divide])
def test_gradients_have_the_dtypes_of_their_tensors_where_these_differ(primitive):
    x = ag.tensor(np.ones((2, 1), np.float32), requires_grad=True)
    y = ag.tensor(np.full(3, 2.0), requires_grad=True)

    ag.sync.backward(primitive(x * 1, y * 1).sum())

    assert x.grad.dtype == np.float32
    assert x.grad.shape == (2, 1)
    assert y.grad.dtype == np.float64
    assert y.grad.shape == (3,)


@pytest.mark.parametrize(("dtype", "keeps"), [(np.float32, True), (np.float64, False)])
def test_a_write_in_place_is_no_promise_where_it_was_cast(dtype, keeps):
    x = ag.tensor(np.ones(3, np.float32), requires_grad=True)
    y = ag.tensor(np.full(3, 2.0, dtype), requires_grad=True)

    z = x + x
    z *= y

    assert z.grad_fn.plan.keeps_kind is keeps


def test_a_list_beside_a_tensor_is_no_promise_of_the_gradients_shape():
    x = ag.tensor(np.ones(2), requires_grad=True)

    assert not (x * [1.0, 2.0]).grad_fn.plan.keeps_kind
    assert (x * x).grad_fn.plan.keeps_kind
