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


@pytest.mark.parametrize(("name", "arguments", "options"), CASES)
def test_values_and_derivatives(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    def function(*tensors: Any) -> Any:
        return getattr(linalg, name)(*tensors, **options)

    expected = getattr(scipy_linalg, name)(*arguments, **options)
    np.testing.assert_allclose(function(*arguments).numpy(), expected, rtol=1e-12)
    tensors = [ag.tensor(argument.copy(), requires_grad=True) for argument in arguments]
    assert sync.gradcheck(function, tensors)
    assert sync.gradgradcheck(function, tensors)


def test_errors_name_function_and_shapes() -> None:
    with pytest.raises(ValueError, match=r"solve_triangular.*\(3, 3\) and \(2, 2\)"):
        linalg.solve_triangular(A, B)
    with pytest.raises(ValueError, match=r"solve_sylvester.*\(3, 3\), \(3, 3\) and \(3, 2\)"):
        linalg.solve_sylvester(A, A, Q)
    with pytest.raises(ValueError, match="not 'X'"):
        linalg.solve_triangular(A, Q, trans="X")
