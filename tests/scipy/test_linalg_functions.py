"""asyncgrad.scipy.linalg: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError, MissingDerivativeError
from asyncgrad.scipy import linalg
from tests.core.ops.finite_differences import Case, call, flat, in_dtype, leaves_of
from tests.scipy.functions import check_along_a_line, check_values, named_calls

_RNG = np.random.default_rng(17)
_A = _RNG.normal(size=(3, 3)) / 2
_B = _RNG.normal(size=(3, 2))
_P = _A @ _A.T + np.array([[1.5, 0.25, 0.0], [0.25, 2.0, 0.5], [0.0, 0.5, 3.0]])
#: Of a matrix that is not Hermitian the gradient lies in the triangle that is read.
_HALF = _P + np.triu(np.ones((3, 3)), 1)
_TALL = _RNG.normal(size=(4, 3))
_BANDS = np.array([[0.0, 0.5, -0.25, 0.75], [3.0, 4.0, 3.5, 5.0], [0.5, -1.0, 0.25, 0.0], [0.75, 0.5, 0.0, 0.0]])
#: With eigenvalues of both signs.
_TURNED = _A @ np.diag([1.5, -0.75, 2.0]) @ np.linalg.inv(_A)
_SIDE = np.array([[0.0, 0.5, -0.25, 0.75], [3.0, 4.0, 3.5, 5.0]])
_RIGHT = _RNG.normal(size=(4, 2))
_BOTH = (0, 1)
#: Of which a factor has blocks of two rows.
_INDEFINITE = np.array([[0.0, 2.0, 0.5], [2.0, 0.25, -1.0], [0.5, -1.0, 0.5]])
_COLUMN = np.array([4.0, 1.0, -0.5])
#: The first column of a circulant matrix of rank 2.
_SINGULAR = np.array([1.0, 2.0, 1.0, 2.0])

CASES: dict[str, list[Case]] = {
    "expm": [Case((_A,)), Case((np.stack([_A, -_A]),))],
    "expm_frechet": [Case((_A, _P), {}, _BOTH), Case((_A, _P), {"compute_expm": False}, _BOTH)],
    **{name: [Case((_P / 4,))] for name in ("logm", "sqrtm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
    "signm": [Case((_TURNED,))],
    "fractional_matrix_power": [Case((_P, 0.25))],
    "polar": [Case((one, side)) for one in (_TALL, _TALL.T.copy()) for side in ("right", "left")],
    "solve": [
        Case((_A, _B), {}, _BOTH),
        Case((_A, _B[:, 0]), {"transposed": True}, _BOTH),
        Case((_P, _B), {"assume_a": "pos"}, _BOTH),
        Case((_P, _B), {"assume_a": "sym", "lower": True}, _BOTH),
        Case((_P, _B), {"assume_a": "upper triangular"}, _BOTH),
        Case((_P, _B), {"assume_a": "diagonal"}, _BOTH),
    ],
    "cholesky": [Case((_P,)), Case((_P, True))],
    "cho_factor": [Case((_HALF, lower)) for lower in (False, True)],
    "cho_solve": [Case(((_P, True), _B), {}, _BOTH), Case(((_P, False), _B[:, 0]), {}, _BOTH)],
    "lu": [
        *(Case((one,), {"permute_l": True}) for one in (_A, _TALL, _TALL.T.copy())),
        Case((_TALL,), {"p_indices": True}),
    ],
    "lu_factor": [Case((_A,)), Case((_TALL,))],
    "lu_solve": [Case(((_P, np.array([0, 2, 2])), _B, trans), {}, _BOTH) for trans in (0, 1)],
    "solve_banded": [Case(((2, 1), _BANDS, _RIGHT), {}, (1, 2)), Case(((2, 1), _BANDS, _RIGHT[:, 0]), {}, (1, 2))],
    "solveh_banded": [
        Case((_SIDE, _RIGHT), {}, _BOTH),
        Case((_SIDE[::-1].copy(), _RIGHT[:, 0]), {"lower": True}, _BOTH),
    ],
    "solve_toeplitz": [Case((_COLUMN, _B), {}, _BOTH), Case(((_COLUMN, _COLUMN * [1, 2, 3]), _B[:, 0]), {}, _BOTH)],
    "solve_circulant": [
        Case((_COLUMN, _B), {}, _BOTH),
        Case((_A, _B.T.copy()[:, np.newaxis]), {"baxis": -1, "outaxis": -1}, _BOTH),
        Case((_SINGULAR, _RIGHT[:, 0].copy()), {"singular": "lstsq"}, (1,)),
    ],
    "inv": [
        Case((_P,)),
        Case((_HALF,), {"assume_a": "pos", "lower": True}),
        Case((_P,), {"assume_a": "upper triangular"}),
    ],
    "det": [Case((_P,))],
    "norm": [Case((_A,)), Case((_A, 1))],
    "pinv": [Case((_TALL,)), Case((_TALL,), {"atol": 2.0}), Case((np.stack([_TALL, 9 * _TALL]),), {"atol": 2.0})],
    "pinvh": [Case((_P,))],
    "lstsq": [Case((_TALL, _RIGHT), {}, _BOTH), Case((_TALL.T.copy(), _B), {"lapack_driver": "gelsy"}, _BOTH)],
    "eigh": [
        Case((_HALF,), {"eigvals_only": True, "subset_by_index": (1, 2)}),
        Case((_P, _P.T @ _P), {"eigvals_only": True}, _BOTH),
        *(Case((_P, _P @ _P), {"type": kind, "eigvals_only": True, "lower": False}, _BOTH) for kind in (2, 3)),
    ],
    "eigvalsh": [Case((_HALF,), {"subset_by_value": (0.0, 3.0)})],
    # Of a matrix that is singular one is infinite.
    "eigvals": [Case((_P, np.diag([1.0, 0.0, 2.0])), {}, _BOTH, smooth=False), Case((_P, _P @ _P), {}, _BOTH)],
    "eig": [],
    "eigh_tridiagonal": [Case((_COLUMN, _COLUMN[:2]), {"eigvals_only": True}, _BOTH)],
    "eigvalsh_tridiagonal": [Case((_COLUMN, _COLUMN[:2], "i", (0, 1)), {}, _BOTH)],
    "svd": [Case((_TALL,), {"compute_uv": False})],
    "svdvals": [Case((_TALL,))],
    "rq": [
        Case((_TALL,)),
        Case((_A[:2],)),
        Case((_A[:1] + 1j * _P[:1],)),
        Case((_TALL.T.copy(),), {"mode": "economic"}),
        Case((_TALL.T.copy(),), {"mode": "r"}),
    ],
    "qr_multiply": [
        Case((_TALL, _RIGHT.T.copy()), {}, _BOTH),
        Case((_TALL, _B, "left"), {"pivoting": True}, _BOTH),
        Case((_TALL, _B[:, 0], "left"), {"conjugate": True}, _BOTH),
    ],
    "ldl": [
        Case((_P,)),
        Case((_P, False)),
        Case((_INDEFINITE,)),
        Case((_INDEFINITE, False)),
        Case((_P + 0.5j * _P @ _P, True, False)),
    ],
    "orth": [Case((_TALL,))],
    "null_space": [Case((_TALL.T.copy(),))],
    "orthogonal_procrustes": [Case((_TALL, _TALL[::-1].copy()), {}, _BOTH)],
    "subspace_angles": [Case((_TALL[:, :1].copy(), _RIGHT), {}, _BOTH)],
    "diagsvd": [Case((_COLUMN, 3, 4)), Case((_COLUMN, 4, 3))],
    "cholesky_banded": [Case((_SIDE,)), Case((_BANDS[1:3],), {"lower": True})],
    "cho_solve_banded": [
        Case(((_SIDE, False), _RIGHT), {}, _BOTH),
        Case(((_SIDE[::-1].copy(), True), _RIGHT[:, 0]), {}, _BOTH),
    ],
    "eig_banded": [Case((_SIDE,), {"eigvals_only": True, "select": "i", "select_range": (0, 1)})],
    "eigvals_banded": [Case((_SIDE[::-1].copy(), True))],
    "convolution_matrix": [Case((_COLUMN, size, mode)) for size in (2, 5) for mode in ("full", "same", "valid")],
    "fiedler": [Case((_COLUMN,))],
    "fiedler_companion": [Case((_RIGHT.ravel(),)), Case((_COLUMN[:2],))],
    "leslie": [Case((_COLUMN, _COLUMN[:2]), {}, _BOTH)],
    "matmul_toeplitz": [
        Case((_COLUMN, _B), {}, _BOTH),
        Case(((_COLUMN, _COLUMN[:2] * 2), _RIGHT[0]), {}, _BOTH),
        Case(((_COLUMN, _COLUMN * 2j), _B), {}, _BOTH),
    ],
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
    "solve_continuous_are": [
        Case((_A, _B, _P, np.eye(2) * 2), {}, _BOTH),
        Case((_A, _B, _P, np.eye(2) * 2, np.eye(3) + _A / 4, _B / 8), {}, (0, 1, 4, 5)),
    ],
    "solve_discrete_are": [
        Case((_A, _B, _P, np.eye(2) * 2), {}, _BOTH),
        Case((_A, _B, _P, np.eye(2) * 2, np.eye(3) + _A / 4, _B / 8), {}, (0, 1, 4, 5)),
    ],
}
CALLS = named_calls(linalg, scipy.linalg, CASES)


def test_every_function_has_a_case() -> None:
    assert set(linalg.__all__) - {"LinAlgError"} == set(CASES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name, (_, _, case) in CALLS.items() if case.smooth])
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    if leaves := leaves_of(case):
        check_along_a_line(lambda *moved: call(ours, case, moved), leaves)
    else:
        # It is complex.
        check_along_a_line(lambda first: ours(first, *case.args[1:], **case.kwargs), case.args[:1])


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("qr")])
def test_values_are_those_of_scipy(name: str) -> None:
    ours, theirs, case = CALLS[name]

    check_values(ours, theirs, case, tolerance=1e-9)


def test_a_singular_circulant_system_is_solved_for_each_column() -> None:
    # SciPy solves it for one alone.
    found = linalg.solve_circulant(_SINGULAR, _RIGHT, "lstsq")

    expected = [scipy.linalg.solve_circulant(_SINGULAR, column, "lstsq") for column in _RIGHT.T]
    np.testing.assert_allclose(np.asarray(found), np.stack(expected, 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("mode", ["full", "economic"])
def test_the_factors_of_qr_are_those_of_scipy(mode: str, pivoting: bool) -> None:
    found = linalg.qr(_TALL, mode=mode, pivoting=pivoting)

    for one, other in zip(found, scipy.linalg.qr(_TALL, mode=mode, pivoting=pivoting), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["expm", "logm", "sqrtm", "cosm", "inv", "det"])
def test_complex_matrices_have_right_derivatives(name: str) -> None:
    check_along_a_line(getattr(linalg, name), (_P / 4 + 0.125j * _A,))


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
    check_along_a_line(solved, (_P + 0.25j * (_A - _A.T), _B + 0.5j))


def test_eigenvectors_of_a_generalised_problem_have_derivatives() -> None:
    def projector(a: Any, b: Any) -> Any:
        _, vectors = linalg.eigh(a, b)
        # The sign of a vector is free.
        return vectors[:, :1] * vectors[:, 0]

    check_along_a_line(projector, (_P, _P @ _P))


def test_eigenvalues_of_any_matrix_are_complex_and_have_derivatives() -> None:
    a = ag.tensor(_A, requires_grad=True)
    values, _ = linalg.eig(a)

    assert values.dtype == complex
    assert sync.gradcheck(lambda a: np.sum(linalg.eigvals(a) ** 3).real, (a,))


@pytest.mark.parametrize("b", [None, _P, np.diag([1.0, 0.0, 2.0])])
def test_eigenvectors_on_both_sides_are_those_of_scipy_and_have_derivatives(b: Any) -> None:
    def projector(a: Any, *others: Any) -> Any:
        values, left, right = linalg.eig(a, *others, left=True)
        # Vectors have any phase.
        return values[:1] ** 2, right[:, :1] * np.conjugate(right[:, 0]), left[:, :1] * np.conjugate(left[:, 0])

    given = (_P @ _A,) if b is None else (_P @ _A, b)
    tensors = [ag.tensor(one, requires_grad=True) for one in given]

    for found, expected in zip(linalg.eig(*tensors, left=True), scipy.linalg.eig(*given, left=True), strict=True):
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
    check_along_a_line(lambda a: projector(a, *given[1:]), given[:1])


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("is_homogeneous", [False, True])
def test_eigenvectors_of_stacks_are_those_of_scipy(needs_grad: bool, is_homogeneous: bool) -> None:
    stack = np.stack([_P @ _A, _A, _P])
    expected = scipy.linalg.eig(stack, left=True, homogeneous_eigvals=is_homogeneous)
    found = linalg.eig(ag.tensor(stack, requires_grad=needs_grad), left=True, homogeneous_eigvals=is_homogeneous)

    assert isinstance(found, tuple)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Calling .* with arguments of dtype")  # from SciPy 1.18 on
@pytest.mark.parametrize("call", [linalg.inv, linalg.svdvals, linalg.eigvals, linalg.qr])
@pytest.mark.parametrize("dtype", ["?", "b", "e", "q", "g", "G"])
def test_matrices_have_a_dtype_of_lapack(call: Any, dtype: str) -> None:
    matrix = np.eye(2).astype(dtype)
    try:
        expected = getattr(scipy.linalg, call.__name__)(matrix)
    except TypeError:
        pytest.skip("SciPy 1.17.0 has no inverse of long doubles")

    for found, one in zip(np.atleast_1d(call(matrix)[0]), np.atleast_1d(expected[0]), strict=True):
        assert found.dtype == one.dtype


@pytest.mark.parametrize("matrix", [_P, _A, np.array([[0.0, 1.0], [-1.0, 0.0]])])
def test_eigenvectors_of_a_real_matrix_are_real_where_scipys_are(matrix: np.ndarray) -> None:
    _, vectors = linalg.eig(ag.tensor(matrix))
    _, expected = scipy.linalg.eig(matrix)

    assert vectors.dtype == expected.dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.expm(_B), r"scipy\.linalg\.expm takes square matrices, not an array of shape \(3, 2\)"),
        (lambda: linalg.solve(_A, _RIGHT), r"as many rows as a, not shapes \(3, 3\) and \(4, 2\)"),
        (lambda: linalg.solve(_A, _B, assume_a="odd"), "not 'odd'"),
        (lambda: linalg.solve(_A * np.nan, _B), "neither infinity nor NaN"),
        (lambda: linalg.solve_banded((1, 1), _BANDS, _RIGHT), r"bands of shape \(3, n\)"),
        (lambda: linalg.toeplitz([[1.0], [2.0]], np.ones((3, 1))), r"stacks that are broadcast, .*\(2, 1\), \(3, 1\)"),
        (lambda: linalg.polar(np.ones((0, 3, 3))), r"stacks of at least one matrix, not .*\(0, 3, 3\)"),
        (lambda: linalg.qr_multiply(_TALL, _B), r"a c that fits q, not shapes \(3, 2\) and \(4, 3\)"),
        (lambda: linalg.qr(_A, mode="odd"), "mode 'full', 'economic' or 'r', not 'odd'"),
        (lambda: linalg.cholesky(-_P), "positive definite"),
        (lambda: linalg.solve(-_P, _B, assume_a="pos"), "positive definite"),
        (lambda: linalg.inv(np.diag([1.0, 0.0]), assume_a="diagonal"), "not singular"),
        (lambda: linalg.solve(_A * 1j, _B, transposed=True), "for real matrices"),
        (lambda: linalg.solve_toeplitz([0.0, 1.0, 2.0], _B), "[Ss]ingular"),
        (lambda: linalg.lstsq(_TALL, _A), r"a vector or matrix of as many rows, not shapes \(4, 3\) and \(3, 3\)"),
        (lambda: linalg.lstsq(_TALL, _RIGHT, lapack_driver="gels"), "'gelsd', 'gelss' or 'gelsy', not 'gels'"),
        (lambda: linalg.eigh(_P, subset_by_index=(1, 3)), "0 <= first <= last < 3"),
        (lambda: linalg.eigh(_P, driver="gvd"), "driver 'ev', 'evd', 'evr', 'evx' here"),
        (lambda: linalg.eigh_tridiagonal(_COLUMN, _COLUMN[:2], lapack_driver="sterf"), "write 'auto'"),
        (lambda: linalg.companion([1.0]), "at least two coefficients"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError, np.linalg.LinAlgError), match=message):
        call()


#: Functions of matrices that are called for each of a stack, by their arguments.
OF_STACKS: dict[str, tuple[Any, ...]] = {
    "polar": (_TALL,),
    "lu": (_TALL,),
    "lu_factor": (_A,),
    "lstsq": (_TALL, _RIGHT),
    "qr": (_TALL,),
    "rq": (_TALL,),
    "ldl": (_P,),
    "eigh_tridiagonal": (_COLUMN, _COLUMN[:2]),
    "toeplitz": (_COLUMN, _COLUMN[:2]),
    "circulant": (_COLUMN,),
    "companion": (_COLUMN,),
    "khatri_rao": (_A, _P),
    "block_diag": (_A, _B),
    "solveh_banded": (_SIDE, _RIGHT),
    "expm_frechet": (_A, _P),
    "cholesky": (_P,),
    "solve": (_A, _B),
    "svd": (_TALL,),
}


@pytest.mark.parametrize("name", OF_STACKS)
def test_stacks_give_stacks_of_what_each_matrix_gives(name: str) -> None:
    function, args = getattr(linalg, name), OF_STACKS[name]
    scales = np.array([[1.0, 1.5, 2.0], [0.5, 0.75, 1.25]])
    first = ag.tensor(scales.reshape(scales.shape + (1,) * args[0].ndim) * args[0], requires_grad=True)

    found = function(first, *args[1:])

    for index in np.ndindex(scales.shape):
        expected = function(first[index], *args[1:])
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for whole, one in pairs:
            np.testing.assert_allclose(ag.asarray(whole).detach().numpy()[index], ag.asarray(one).detach(), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("norm")])
def test_dtypes_are_those_of_scipy(name: str, dtype: Any) -> None:
    ours, theirs, case = CALLS[name]
    if dtype is np.complex64 and ("tridiagonal" in name or case.kwargs.get("transposed")):
        pytest.skip("SciPy takes real numbers here")
    case = in_dtype(case, dtype)

    found, expected = (flat(one(*case.args, **case.kwargs)) for one in (ours, theirs))

    pairs = [pair for pair in zip(found, expected, strict=True) if isinstance(pair[0], ag.Tensor)]
    assert [one.dtype for one, _ in pairs] == [np.asarray(one).dtype for _, one in pairs]


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0, 0)])
@pytest.mark.parametrize("name", ["sqrtm", "expm", "cosm", "signm", "lu", "solve_triangular", "solve_sylvester"])
def test_a_stack_without_elements_has_a_gradient_of_its_shape(name: str, shape: tuple[int, ...]) -> None:
    count = {"solve_triangular": 2, "solve_sylvester": 3}.get(name, 1)
    tensors = [ag.tensor(np.zeros(shape), requires_grad=True) for _ in range(count)]

    results = flat(getattr(linalg, name)(*tensors))
    grads = sync.grad([one.sum() for one in results if one.requires_grad], tensors, create_graph=True)

    # SciPy's permutation of no matrices has no rows, either.
    assert {one.shape for one in results if one.requires_grad} == {shape}
    assert {one.shape for one in grads} == {shape}
    recorded = [one.sum() for one in grads if one.requires_grad]
    assert not recorded or sync.grad(recorded, tensors, allow_unused=True)


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (3, 0), (0, 3)])
def test_the_triangles_of_a_matrix_without_rows_or_columns_have_an_empty_gradient(shape: tuple[int, ...]) -> None:
    a = ag.tensor(np.zeros(shape), requires_grad=True)

    _, lower, upper = linalg.lu(a)

    assert sync.grad([lower.sum(), upper.sum()], [a], allow_unused=True)[0].shape == shape


@pytest.mark.parametrize("name", ["cho_factor", "cholesky", "expm", "ldl"])
def test_a_number_is_a_matrix_of_one_element(name: str) -> None:
    found, expected = getattr(linalg, name)(ag.tensor(4.0, requires_grad=True)), getattr(scipy.linalg, name)(4.0)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.detach().numpy() if isinstance(one, ag.Tensor) else one, other)


def test_matrices_of_narrow_numbers_have_the_dtypes_of_scipy() -> None:
    assert linalg.pinvh(np.array([[2, 1], [1, 3]], np.int8)).dtype == np.float32
    assert linalg.norm(np.eye(2, dtype=np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="neither infinity nor NaN"):
        linalg.pinvh(np.full((2, 2), np.nan))


def test_a_singular_pencil_has_no_eigenvalues_with_a_derivative() -> None:
    a, b = np.diag([1.0, 0.0]), ag.tensor(np.diag([2.0, 0.0]), requires_grad=True)

    with pytest.raises(np.linalg.LinAlgError, match="every number is an eigenvalue"):
        linalg.eigvals(a, b)


def test_a_riccati_equation_may_weigh_no_inputs_beside_mixed_terms() -> None:
    a, b, q = np.array([[0.5, 1.0], [0.2, 0.3]]), np.array([[1.0], [0.5]]), np.eye(2)
    s = np.array([[0.1], [0.2]])

    found = linalg.solve_discrete_are(a, b, q, 0.0, s=ag.tensor(s, requires_grad=True))

    np.testing.assert_allclose(found.detach().numpy(), scipy.linalg.solve_discrete_are(a, b, q, 0.0, s=s))


def test_a_riccati_solution_that_scipy_misses_is_found() -> None:
    rng = np.random.default_rng(3)
    a, b, q = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=(3, 3))
    q, e, s = q @ q.T + np.eye(3), np.eye(3) + 0.2 * rng.normal(size=(3, 3)), 0.1 * rng.normal(size=(3, 2))

    found = linalg.solve_discrete_are(a, b, q, np.zeros((2, 2)), ag.tensor(e, requires_grad=True), s)

    x = found.detach().numpy()
    crossed = a.T @ x @ b + s
    rest = a.T @ x @ a - e.T @ x @ e - crossed @ np.linalg.solve(b.T @ x @ b, crossed.T) + q
    np.testing.assert_allclose(rest, 0, atol=1e-9 * np.abs(x).max())


def test_pairs_of_a_pencil_have_no_derivative() -> None:
    with pytest.raises(MissingDerivativeError, match="homogeneous_eigvals=False"):
        linalg.eigvals(ag.tensor(np.eye(2), requires_grad=True), np.eye(2), homogeneous_eigvals=True)


@pytest.mark.parametrize("name", ["pinv", "orth", "ldl", "logm", "expm_frechet", "orthogonal_procrustes"])
def test_infinity_is_refused_where_scipy_does(name: str) -> None:
    matrix = np.array([[1.0, np.inf], [0.0, 1.0]])
    arguments = [matrix] * (2 if name in ("expm_frechet", "orthogonal_procrustes") else 1)

    with pytest.raises(ValueError, match=rf"scipy.linalg.{name} takes neither infinity nor NaN"):
        getattr(linalg, name)(*arguments)


def test_a_vector_of_one_is_a_matrix_of_one() -> None:
    leaf = ag.tensor([2.0], requires_grad=True)

    assert linalg.cholesky(leaf).tolist() == scipy.linalg.cholesky([2.0]).tolist()
    (slope,) = sync.grad(linalg.expm(leaf).sum(), [leaf])
    np.testing.assert_allclose(slope, [np.exp(2.0)])


def test_factors_of_a_stack_have_a_flag_for_each_and_are_taken_back() -> None:
    stack = np.stack([np.eye(2) * 4, np.eye(2)])

    ours, theirs = linalg.cho_factor(stack, lower=True), scipy.linalg.cho_factor(stack, lower=True)
    assert ours[1].tolist() == theirs[1].tolist()
    for factors in (ours, theirs):
        assert linalg.cho_solve(factors, np.ones((2, 2, 1))).tolist() == [[[0.25], [0.25]], [[1.0], [1.0]]]


def test_a_banded_matrix_that_is_not_positive_definite_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        linalg.solveh_banded(ag.tensor([[0.0, 3.0], [1.0, 1.0]], requires_grad=True), np.ones(2))


def test_some_vectors_have_the_signs_of_scipys() -> None:
    for matrix in ([[2.0, 1.0], [1.0, 3.0]], [[4.0, 1.0], [1.0, 3.0]], [[1.0, -2.0], [-2.0, 5.0]]):
        for subset in ({"subset_by_index": [0, 0]}, {"subset_by_value": [2.5, 9.0]}):
            expected = scipy.linalg.eigh(matrix, **subset)[1]
            np.testing.assert_allclose(linalg.eigh(matrix, **subset)[1].numpy(), expected)


def test_reflections_are_those_of_scipy_without_a_history() -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 3.0], [0.5, 1.0]])

    (form, factors), r, order = linalg.qr(matrix, mode="raw", pivoting=True)
    (theirs, their_factors), their_r, their_order = scipy.linalg.qr(matrix, mode="raw", pivoting=True)
    for ours, expected in ((form, theirs), (factors, their_factors), (r, their_r), (order, their_order)):
        np.testing.assert_array_equal(ours.numpy(), expected)
    with pytest.raises(ag.errors.ArgumentError, match="not 'raw'"):
        linalg.qr(ag.tensor(matrix, requires_grad=True), mode="raw")


def test_an_empty_toeplitz_system_has_an_empty_solution() -> None:
    assert linalg.solve_toeplitz(np.empty(0), np.empty((0, 2))).shape == (0, 2)


def test_numbers_are_taken_as_matrices_by_lyapunovs_equation() -> None:
    expected = scipy.linalg.solve_continuous_lyapunov(2.0, 3.0)

    assert linalg.solve_continuous_lyapunov(2.0, 3.0).tolist() == expected.tolist()


@pytest.mark.parametrize("is_complex", [False, True])
def test_signs_of_matrices_have_derivatives(is_complex: bool) -> None:
    rng = np.random.default_rng(0)
    matrix, weights, direction = (rng.normal(size=(4, 4)) for _ in range(3))
    matrix = matrix + 1j * rng.normal(size=(4, 4)) if is_complex else matrix
    leaf = ag.tensor(matrix, requires_grad=True)

    (slope,) = sync.grad(np.sum(np.real(linalg.signm(leaf)) * weights), [leaf], create_graph=True)
    along = np.sum(np.real(slope) * direction)
    (bend,) = sync.grad(along, [leaf])

    values = [np.sum(scipy.linalg.signm(matrix + step * direction).real * weights) for step in (-1e-4, 0.0, 1e-4)]
    np.testing.assert_allclose(along.item(), (values[2] - values[0]) / 2e-4, rtol=1e-4)
    found = np.sum(bend.numpy().real * direction)
    np.testing.assert_allclose(found, (values[2] - 2 * values[1] + values[0]) / 1e-8, rtol=1e-3)


def test_vectors_of_each_routine_are_scipys() -> None:
    rng = np.random.default_rng(1)
    diagonal, beside, wide = rng.normal(size=6), rng.normal(size=5), rng.normal(size=(2, 4))

    for driver in ("auto", "stebz", "stev"):
        expected = scipy.linalg.eigh_tridiagonal(diagonal, beside, lapack_driver=driver)[1]
        found = linalg.eigh_tridiagonal(diagonal, beside, lapack_driver=driver)[1]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    # Ends of an interval have no derivative.
    ends = [ag.tensor(end, requires_grad=True) for end in (-10.0, 10.0)]
    found = linalg.eigh_tridiagonal(diagonal, beside, select="v", select_range=ends)[1]
    expected = scipy.linalg.eigh_tridiagonal(diagonal, beside, select="v", select_range=(-10.0, 10.0))[1]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    for driver in ("gesdd", "gesvd"):
        expected = scipy.linalg.null_space(wide, lapack_driver=driver)
        np.testing.assert_allclose(linalg.null_space(wide, lapack_driver=driver).numpy(), expected, atol=1e-12)
