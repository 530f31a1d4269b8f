"""lsqr and lsmr: SciPy's tuples, and gradients of the pseudoinverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg as scipys

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError
from asyncgrad.scipy import sparse

RNG = np.random.default_rng(3)
TALL = RNG.normal(size=(6, 4)) * (RNG.random((6, 4)) < 0.7) + np.eye(6, 4)
EXACT = {"atol": 1e-15, "btol": 1e-15, "conlim": 0.0}


def _dense(matrix: Any, b: Any, damp: Any, x0: Any) -> Any:
    """Return the solution by a formula of dense matrices."""
    adjoint = np.conj(matrix.T)
    left = adjoint @ (b - matrix @ x0)
    if matrix.shape[0] < matrix.shape[1]:
        # The shortest one by the rows.
        return x0 + adjoint @ np.linalg.solve(matrix @ adjoint + damp**2 * np.eye(matrix.shape[0]), b - matrix @ x0)
    return x0 + np.linalg.solve(adjoint @ matrix + damp**2 * np.eye(matrix.shape[1]), left)


@pytest.mark.parametrize("kind", ["tall", "wide", "complex"])
@pytest.mark.parametrize("damp", [0.0, 0.75])
@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
def test_gradients_are_those_of_the_exact_solution(name: str, damp: float, kind: str) -> None:
    matrix = TALL.T.copy() if kind == "wide" else TALL + 1j * (TALL[::-1] != 0) if kind == "complex" else TALL
    rows, columns = np.nonzero(matrix)
    b = RNG.normal(size=matrix.shape[0]) + (1j if kind == "complex" else 0.0)
    weights = RNG.normal(size=matrix.shape[1])
    start = RNG.normal(size=matrix.shape[1])
    given = (matrix[rows, columns], b, np.array(damp), start.astype(matrix.dtype))
    # Where columns depend on each other, a damping of 0 has no second derivative.
    twice = 2 if kind == "wide" and not damp else 3

    def gradients(is_sparse: bool) -> list[np.ndarray]:
        data, right, weight, x0 = leaves = [ag.tensor(one, requires_grad=True) for one in given]
        if is_sparse:
            array = sparse.coo_array((data, (rows, columns)), shape=matrix.shape)
            x = getattr(sparse.linalg, name)(array, right, weight, **EXACT, x0=x0)[0]
        else:
            places = np.zeros((len(rows), *matrix.shape))
            places[np.arange(len(rows)), rows, columns] = 1.0
            x = _dense(np.tensordot(data, places, 1), right, weight, x0)
        first = sync.grad(np.sum(weights * np.real(x * x)), leaves, create_graph=True)
        second = sync.grad(sum(np.sum(np.real(one * one)) for one in first), leaves[:twice])
        return [one.detach().numpy() for one in (x, *first, *second)]

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
def test_an_operator_is_a_constant_beside_the_right_hand_side_and_the_damping(name: str) -> None:
    b, damp = ag.tensor(np.arange(6.0), requires_grad=True), ag.tensor(0.5, requires_grad=True)
    found, expected = (
        sync.grad(function(a, b, damp, **options)[0].sum(), [b, damp])
        for function, a, options in (
            (getattr(sparse.linalg, name), scipys.aslinearoperator(TALL), EXACT),
            (lambda a, b, damp: (_dense(a, b, damp, np.zeros(4)),), TALL, {}),
        )
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
def test_the_tuple_is_scipys(name: str) -> None:
    ours, theirs = getattr(sparse.linalg, name), getattr(scipys, name)
    for a, options in (
        (TALL, {}),
        (TALL, {"damp": 0.5, "x0": np.ones(4)}),
        (sparse.csr_array(TALL), {"atol": 1e-3, "conlim": 2.0}),
        (TALL.astype("f"), {"calc_var": True} if name == "lsqr" else {"maxiter": 2}),
    ):
        given = a.toscipy() if isinstance(a, sparse.SparseArray) else a
        expected = theirs(given, np.arange(6.0), **options)
        for found, value in zip(ours(a, np.arange(6.0), **options), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-8, atol=1e-10)


def test_what_does_not_fit_is_told() -> None:
    lsqr = sparse.linalg.lsqr
    with pytest.raises(ValueError, match=r"\(6, 4\), \(4,\) and \(\): call it for each column"):
        lsqr(TALL, np.ones(4))
    with pytest.raises(ValueError, match=r"an x0 of shape \(4,\), not \(6,\)"):
        lsqr(TALL, np.ones(6), x0=np.ones(6))
    with pytest.raises(ArgumentTypeError, match=r"not function: write LinearOperator\(shape, matvec=\.\.\., rmatvec"):
        lsqr(lambda x: x, np.ones(6))
    with pytest.raises(ValueError, match=r"of two axes, not of shape \(1, 1, 1\)"):
        lsqr(np.ones((1, 1, 1)), np.ones(1))
    b = ag.tensor(np.arange(6.0), requires_grad=True)
    x = lsqr(TALL, b, iter_lim=1)[0]
    with pytest.raises(RuntimeError, match=r"lsqr has not converged for the gradient after 1 iterations"):
        sync.backward(x.sum())
