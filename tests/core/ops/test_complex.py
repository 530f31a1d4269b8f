"""Complex gradients follow PyTorch's convention: `z -= rate * z.grad` descends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgrad import sync
from tests.support.leaves import leaf_of

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
W = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
R = RNG.normal(size=(3, 3))

UNARY = [
    *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.square, np.reciprocal),
    *(np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsin, np.arccos, np.arctan),
    *(np.arcsinh, np.arccosh, np.arctanh, np.negative, np.conj, np.real, np.imag, np.abs),
]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power]
OTHERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda z: z.sum(axis=0),
    "mean": lambda z: z.mean(),
    "prod": lambda z: z.prod(axis=1),
    "cumprod": lambda z: np.cumprod(z, 0),
    "var": lambda z: np.var(z),
    "norm": lambda z: np.linalg.norm(z),
    "matmul": lambda z: z @ z,
    "einsum": lambda z: np.einsum("ij,kj->ik", z, z),
    "vdot": lambda z: np.vdot(z, z * W),
    "inv": lambda z: np.linalg.inv(z),
    "index": lambda z: z[[0, 0, 1]] * z[1:2].T,
    "concatenate": lambda z: np.concatenate([z, z * 1j])[2:5],
    "split": lambda z: np.split(z, 3)[1] * 1j,
    "where": lambda z: np.where(R > 0, z, z.conj()),
    "power of a real": lambda z: R**z,
}


@pytest.mark.slow
@pytest.mark.parametrize("function", UNARY, ids=lambda function: function.__name__)
def test_elementwise_functions_have_complex_derivatives_to_second_order(function: Any) -> None:
    assert sync.gradcheck(function, leaf_of(Z))
    assert sync.gradgradcheck(function, leaf_of(Z))


@pytest.mark.slow
@pytest.mark.parametrize("function", BINARY, ids=lambda function: function.__name__)
@pytest.mark.parametrize(("first", "second"), [(Z, W), (Z, R), (abs(R), W)], ids=["both", "first", "second"])
def test_functions_of_two_have_complex_derivatives_to_second_order(
    function: Any, first: np.ndarray, second: np.ndarray
) -> None:
    assert sync.gradcheck(function, (leaf_of(first), leaf_of(second)))
    assert sync.gradgradcheck(function, (leaf_of(first), leaf_of(second)))


@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_arrays_have_complex_derivatives_to_second_order(name: str) -> None:
    assert sync.gradcheck(OTHERS[name], leaf_of(Z))
    assert sync.gradgradcheck(OTHERS[name], leaf_of(Z))


ON_REAL_AXIS = [complex(x, y) for x in (2.0, -2.0, 0.5) for y in (0.0, -0.0)]
ON_IMAGINARY_AXIS = [complex(x, y) for y in (2.0, -2.0, 0.5) for x in (0.0, -0.0)]


@pytest.mark.parametrize(
    ("function", "points", "step"),
    [
        *[
            (function, ON_REAL_AXIS, 1e-6)
            for function in (np.arcsin, np.arccos, np.arccosh, np.arctanh, np.sqrt, np.log, np.log2, np.log10)
        ],
        *[(function, ON_IMAGINARY_AXIS, 1e-6j) for function in (np.arcsinh, np.arctan)],
    ],
)
def test_on_a_branch_cut_the_derivative_is_that_of_the_side_that_numpys_value_lies_on(
    function: Any, points: Any, step: complex
) -> None:
    z = np.array(points)
    # Python adds -0 and 0 to 0, which lies on the other side.
    ahead, behind = z.copy(), z.copy()
    part = "real" if np.real(step) else "imag"
    getattr(ahead, part)[:] += abs(step)
    getattr(behind, part)[:] -= abs(step)

    first = sync.func.elementwise_grad(function, holomorphic=True)

    np.testing.assert_allclose(first(z), (function(ahead) - function(behind)) / (2 * step), rtol=1e-8)
    second = sync.func.elementwise_grad(first, holomorphic=True)(z)
    np.testing.assert_allclose(second, (first(ahead) - first(behind)) / (2 * step), rtol=1e-8)


def test_the_derivative_of_arccosh_is_0_where_the_real_part_is_infinite() -> None:
    z = np.array([complex(np.inf, 0.0), complex(-np.inf, 2.0)])

    np.testing.assert_array_equal(sync.func.elementwise_grad(np.arccosh, holomorphic=True)(z), 0)


def test_a_step_against_a_complex_gradient_descends() -> None:
    z = leaf_of(Z)

    def loss(z: Any) -> Any:
        return (np.abs(z * z - W) ** 2).sum()

    (gradient,) = sync.grad(loss(z), z)

    assert loss(Z - 1e-4 * gradient.numpy()) < loss(Z)
