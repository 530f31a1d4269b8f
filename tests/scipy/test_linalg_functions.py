"""asyncgrad.scipy.linalg: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import linalg
from tests.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_RNG = np.random.default_rng(17)
_A = _RNG.normal(size=(3, 3)) / 2
_B = _RNG.normal(size=(3, 2))
_P = _A @ _A.T + np.array([[1.5, 0.25, 0.0], [0.25, 2.0, 0.5], [0.0, 0.5, 3.0]])
#: Of a matrix that is not Hermitian the gradient lies in the triangle that is read.
_HALF = _P + np.triu(np.ones((3, 3)), 1)
_TALL = _RNG.normal(size=(4, 3))
_BANDS = np.array([[0.0, 0.5, -0.25, 0.75], [3.0, 4.0, 3.5, 5.0], [0.5, -1.0, 0.25, 0.0], [0.75, 0.5, 0.0, 0.0]])
_SIDE = np.array([[0.0, 0.5, -0.25, 0.75], [3.0, 4.0, 3.5, 5.0]])
_RIGHT = _RNG.normal(size=(4, 2))
_BOTH = (0, 1)
_COLUMN = np.array([4.0, 1.0, -0.5])

CASES: dict[str, list[Case]] = {
    "expm": [Case((_A,)), Case((np.stack([_A, -_A]),))],
    "expm_frechet": [Case((_A, _P), {}, _BOTH), Case((_A, _P), {"compute_expm": False}, _BOTH)],
    **{name: [Case((_P / 4,))] for name in ("logm", "sqrtm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
    "fractional_matrix_power": [Case((_P, 0.25))],
    "polar": [Case((_TALL,)), Case((_TALL.T.copy(), "left"))],
    "solve": [
        Case((_A, _B), {}, _BOTH),
        Case((_A, _B[:, 0]), {"transposed": True}, _BOTH),
        Case((_P, _B), {"assume_a": "pos"}, _BOTH),
        Case((_P, _B), {"assume_a": "sym", "lower": True}, _BOTH),
        Case((_P, _B), {"assume_a": "upper triangular"}, _BOTH),
        Case((_P, _B), {"assume_a": "diagonal"}, _BOTH),
    ],
    "cholesky": [Case((_P,)), Case((_P, True))],
    "cho_factor": [],
    "cho_solve": [Case(((_P, True), _B), {}, _BOTH), Case(((_P, False), _B[:, 0]), {}, _BOTH)],
    "lu": [Case((_A,), {"permute_l": True}), Case((_A,), {"p_indices": True})],
    "lu_factor": [Case((_A,))],
    "lu_solve": [Case(((_P, np.array([0, 2, 2])), _B, trans), {}, _BOTH) for trans in (0, 1)],
    "solve_banded": [Case(((2, 1), _BANDS, _RIGHT), {}, (1, 2)), Case(((2, 1), _BANDS, _RIGHT[:, 0]), {}, (1, 2))],
    "solveh_banded": [
        Case((_SIDE, _RIGHT), {}, _BOTH),
        Case((_SIDE[::-1].copy(), _RIGHT[:, 0]), {"lower": True}, _BOTH),
    ],
    "solve_toeplitz": [Case((_COLUMN, _B), {}, _BOTH), Case(((_COLUMN, _COLUMN * [1, 2, 3]), _B[:, 0]), {}, _BOTH)],
    "solve_circulant": [Case((_COLUMN, _B), {}, _BOTH)],
    "inv": [Case((_P,))],
    "det": [Case((_P,))],
    "norm": [Case((_A,)), Case((_A, 1))],
    "pinv": [Case((_TALL,))],
    "pinvh": [Case((_P,))],
    "lstsq": [Case((_TALL, _RIGHT), {}, _BOTH)],
    "eigh": [
        Case((_HALF,), {"eigvals_only": True, "subset_by_index": (1, 2)}),
        Case((_P, _P.T @ _P), {"eigvals_only": True}, _BOTH),
        *(Case((_P, _P @ _P), {"type": kind, "eigvals_only": True, "lower": False}, _BOTH) for kind in (2, 3)),
    ],
    "eigvalsh": [Case((_HALF,), {"subset_by_value": (0.0, 3.0)})],
    "eigvals": [],
    "eig": [],
    "eigh_tridiagonal": [Case((_COLUMN, _COLUMN[:2]), {"eigvals_only": True}, _BOTH)],
    "eigvalsh_tridiagonal": [Case((_COLUMN, _COLUMN[:2], "i", (0, 1)), {}, _BOTH)],
    "svd": [Case((_TALL,), {"compute_uv": False})],
    "svdvals": [Case((_TALL,))],
    "qr": [Case((_TALL,), {"mode": "economic"}), Case((_TALL,), {"mode": "r", "pivoting": True})],
    "block_diag": [Case((_A, _B, _COLUMN, np.array(2.0)), {}, (0, 1, 2, 3))],
    "toeplitz": [Case((_COLUMN,)), Case((_COLUMN, _COLUMN[:2]), {}, _BOTH)],
    "hankel": [Case((_COLUMN,)), Case((_COLUMN, _COLUMN[:2]), {}, _BOTH)],
    "circulant": [Case((_COLUMN,))],
    "companion": [Case((_COLUMN,))],
    "khatri_rao": [Case((_A, _P), {}, _BOTH)],
    "solve_triangular": [Case((_P, _B), {"lower": True, "trans": 1}, _BOTH)],
    "solve_sylvester": [Case((_A, _P, _P), {}, (0, 1, 2))],
    "solve_continuous_lyapunov": [Case((_P, _A), {}, _BOTH)],
    "solve_lyapunov": [],
    "solve_discrete_lyapunov": [Case((_A / 2, _P), {}, _BOTH)],
    # Of symmetric matrices alone: others have no such solution, so that single elements cannot be moved.
    "solve_continuous_are": [Case((_A, _B, _P, np.eye(2) * 2), {}, _BOTH)],
    "solve_discrete_are": [Case((_A, _B, _P, np.eye(2) * 2), {}, _BOTH)],
}
CALLS = named_calls(linalg, scipy.linalg, CASES)


def test_every_function_has_a_case() -> None:
    assert set(linalg.__all__) - {"LinAlgError"} == set(CASES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("qr")])
def test_values_are_those_of_scipy(name: str) -> None:
    ours, theirs, case = CALLS[name]

    check_values(ours, theirs, case, tolerance=1e-9)


@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("mode", ["full", "economic"])
def test_the_factors_of_qr_are_those_of_scipy(mode: str, pivoting: bool) -> None:
    found = linalg.qr(_TALL, mode=mode, pivoting=pivoting)

    for one, other in zip(found, scipy.linalg.qr(_TALL, mode=mode, pivoting=pivoting), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["expm", "logm", "sqrtm", "cosm", "inv", "det"])
def test_complex_matrices_have_right_derivatives(name: str) -> None:
    a = ag.tensor(_P / 4 + 0.125j * _A, requires_grad=True)

    assert sync.gradcheck(getattr(linalg, name), (a,))
    assert sync.gradgradcheck(getattr(linalg, name), (a,))


@pytest.mark.parametrize(
    "solved",
    [
        lambda a, b: linalg.solve(a, b, assume_a="her"),
        lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b),
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
        lambda a, b: linalg.solve_triangular(a, b, 2),
    ],
)
def test_complex_systems_have_right_derivatives(solved: Callable[..., Any]) -> None:
    a, b = (ag.tensor(one, requires_grad=True) for one in (_P + 0.25j * (_A - _A.T), _B + 0.5j))

    assert sync.gradcheck(solved, (a, b))


def test_eigenvectors_of_a_generalised_problem_have_derivatives() -> None:
    def projector(a: Any, b: Any) -> Any:
        _, vectors = linalg.eigh(a, b)
        # The sign of a vector is free.
        return vectors[:, :1] * vectors[:, 0]

    check(projector, Case((_P, _P @ _P), {}, _BOTH))


def test_eigenvalues_of_any_matrix_are_complex_and_have_derivatives() -> None:
    a = ag.tensor(_A, requires_grad=True)
    values, _ = linalg.eig(a)

    assert values.dtype == complex
    assert sync.gradcheck(lambda a: np.sum(linalg.eigvals(a) ** 3).real, (a,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.expm(_B), r"scipy\.linalg\.expm takes square matrices, not an array of shape \(3, 2\)"),
        (lambda: linalg.solve(_A, _RIGHT), r"as many rows as a, not shapes \(3, 3\) and \(4, 2\)"),
        (lambda: linalg.solve(_A, _B, assume_a="odd"), "not 'odd'"),
        (lambda: linalg.solve(_A * np.nan, _B), "neither infinity nor NaN"),
        (lambda: linalg.solve_banded((1, 1), _BANDS, _RIGHT), r"bands of shape \(3, n\)"),
        (lambda: linalg.lu(_TALL), r"for a square matrix, not for the shape \(4, 3\)"),
        (lambda: linalg.qr(_A, mode="raw"), "mode 'full', 'economic' or 'r', not 'raw'"),
        (lambda: linalg.cholesky(-_P), "positive definite"),
        (lambda: linalg.solve_continuous_are(_A, _B, _P, np.eye(2), e=_A), "without e and s"),
        (lambda: linalg.companion([1.0]), "at least two coefficients"),
        (lambda: linalg.eig(_A, left=True), "left=False"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError, np.linalg.LinAlgError), match=message):
        call()
