"""asyncgrad.scipy.linalg: values as SciPy's, derivatives as finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync

linalg = pytest.importorskip("asyncgrad.scipy.linalg")
scipy_linalg = pytest.importorskip("scipy.linalg")

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 3)) + 4 * np.eye(3)
B = RNG.normal(size=(2, 2)) + 3 * np.eye(2)
Q = RNG.normal(size=(3, 2))
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *[("solve_triangular", (A, Q), {"trans": t, "lower": low}) for t in (0, "T", 2) for low in (False, True)],
    ("solve_triangular", (A, Q[:, 0]), {"unit_diagonal": True}),
    ("solve_triangular", (A * (1 + 0.5j), Q), {"trans": 2}),
    ("solve_sylvester", (A, B, Q), {}),
    ("solve_continuous_lyapunov", (A, A.T @ A), {}),
    ("solve_continuous_lyapunov", (A * (1 + 0.5j), A), {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments", "options"), CASES)
def test_values_are_scipys_and_derivatives_are_right(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    def function(*tensors: Any) -> Any:
        return getattr(linalg, name)(*tensors, **options)

    expected = getattr(scipy_linalg, name)(*arguments, **options)
    np.testing.assert_allclose(function(*arguments).numpy(), expected, rtol=1e-12)
    tensors = [ag.tensor(argument.copy(), requires_grad=True) for argument in arguments]
    assert sync.gradcheck(function, tensors)
    assert sync.gradgradcheck(function, tensors)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_results_have_the_bits_of_those_of_scipy(dtype: str, order: Any) -> None:
    a, b, q = (np.array(one * (1 + 0.5j) if dtype in "FD" else one, dtype, order=order) for one in (A, B, Q))

    for name, arguments in (("solve_sylvester", (a, b, q)), ("solve_triangular", (a, q))):
        expected = getattr(scipy_linalg, name)(*arguments)
        np.testing.assert_array_equal(getattr(linalg, name)(*arguments).numpy(), expected, strict=True)


@pytest.mark.parametrize(("first", "second"), [(1, 1j), (1j, 1)])
def test_sylvester_with_a_real_and_a_complex_matrix_is_solved(first: complex, second: complex) -> None:
    # SciPy takes the real matrix's form for a triangle, though this has blocks of two rows for complex eigenvalues.
    turn = np.array([[1.0, 2.0, 0.0], [-2.0, 1.0, 0.5], [0.0, 0.3, 2.0]])
    a, b = turn * first, turn * second

    found = linalg.solve_sylvester(a, b, A).numpy()

    np.testing.assert_allclose(a @ found + found @ b, A, atol=1e-12)


def test_errors_name_function_and_shapes() -> None:
    with pytest.raises(ValueError, match=r"solve_triangular.*\(3, 3\) and \(2, 2\)"):
        linalg.solve_triangular(A, B)
    with pytest.raises(ValueError, match=r"solve_sylvester.*\(3, 3\), \(3, 3\) and \(3, 2\)"):
        linalg.solve_sylvester(A, A, Q)
    with pytest.raises(ValueError, match="not 'X'"):
        linalg.solve_triangular(A, Q, trans="X")
