"""Sparse matrices beside tensors, and with tensors as elements: values as SciPy's, and derivatives."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import RequiresGradError
from tests.support.loops import one_loop

sparse = pytest.importorskip("asyncgrad.scipy.sparse")
scipy_sparse = pytest.importorskip("scipy.sparse")
pytest.importorskip("scipy.sparse.linalg")

RNG = np.random.default_rng(5)
DENSE = RNG.normal(size=(3, 4)) * (RNG.random((3, 4)) < 0.6)
SQUARE = np.diag([4.0, 5.0, 6.0]) + np.diag([1.0, 2.0], 1) + np.diag([1.0, 2.0], -1)
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
KINDS = [f"{name}_{kind}" for name in FORMATS for kind in ("array", "matrix")]


def leaf(*shape: int, dtype: Any = float) -> Any:
    return ag.tensor(RNG.normal(size=shape).astype(dtype), requires_grad=True)


@pytest.mark.parametrize("kind", KINDS)
def test_operators_of_every_format_beside_a_tensor_are_those_of_the_dense_matrix(kind: str) -> None:
    matrix = getattr(scipy_sparse, kind)(DENSE)
    whole, right, columns, left, rows = leaf(3, 4), leaf(4), leaf(4, 2), leaf(3), leaf(2, 3)

    found = [
        *(matrix @ right, matrix @ columns, left @ matrix, rows @ matrix),
        *(matrix + whole, whole + matrix, matrix - whole, whole - matrix),
        *((matrix * right, right * matrix) if kind.endswith("array") else (matrix * right, left * matrix)),
    ]

    expected = [
        *(DENSE @ right, DENSE @ columns, left @ DENSE, rows @ DENSE),
        *(DENSE + whole, whole + DENSE, DENSE - whole, whole - DENSE),
        *((DENSE * right, right * DENSE) if kind.endswith("array") else (DENSE @ right, left @ DENSE)),
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.requires_grad
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_no_operator_of_a_tensor_makes_a_sparse_matrix_of_each_element(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, whole = getattr(scipy_sparse, kind)(SQUARE), leaf(3, 3)

    def refuse(*_: Any) -> None:
        raise AssertionError("SciPy was asked for an element")

    # What float * matrix and float + matrix call.
    monkeypatch.setattr(type(matrix), "_mul_scalar", refuse)
    monkeypatch.setattr(type(matrix), "__radd__", refuse)

    product = SQUARE * whole if kind.endswith("array") else SQUARE @ whole
    np.testing.assert_allclose((matrix * whole).detach().numpy(), product.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose((matrix / whole).detach().numpy(), (SQUARE / whole).detach().numpy(), atol=1e-12)
    np.testing.assert_allclose((whole + matrix).detach().numpy(), (whole + SQUARE).detach().numpy(), atol=1e-12)
    assert (whole * matrix).requires_grad
    for refused in (np.multiply, np.maximum, np.dot, np.divide, np.power):
        with pytest.raises(TypeError, match=rf"{refused.__name__} of a tensor and .*toarray\(\)"):
            refused(whole, matrix)


MATRIX: Any = scipy_sparse.csr_array(DENSE * (1 + 0.5j))
CONSTANT: list[Callable[[Any], Any]] = [lambda t: MATRIX @ t, lambda t: t @ MATRIX.T, lambda t: MATRIX * t]


@pytest.mark.parametrize("function", CONSTANT)
@pytest.mark.parametrize("dtype", [float, complex])
def test_derivatives_beside_a_complex_constant(function: Callable[[Any], Any], dtype: Any) -> None:
    tensor = leaf(4, dtype=dtype)

    assert sync.gradcheck(function, [tensor])
    assert sync.gradgradcheck(function, [tensor])


def test_a_one_dimensional_array_is_multiplied_by_a_vector_and_a_matrix() -> None:
    vector, right, columns = scipy_sparse.coo_array(DENSE[0]), leaf(4), leaf(4, 2)

    assert (vector @ right).detach().numpy() == pytest.approx(DENSE[0] @ right.detach().numpy())
    np.testing.assert_allclose((vector @ columns).detach().numpy(), DENSE[0] @ columns.detach().numpy())
    np.testing.assert_allclose((columns.T @ vector).detach().numpy(), columns.detach().numpy().T @ DENSE[0])


def test_float32_stays() -> None:
    tensor = leaf(4, dtype=np.float32)
    result = scipy_sparse.csr_array(DENSE.astype(np.float32)) @ tensor
    sync.backward(result.sum())

    assert (result.dtype, tensor.grad.dtype) == (np.float32, np.float32)


def test_a_system_of_two_precisions_is_solved_in_the_higher_one() -> None:
    data = leaf(3, dtype=np.float32)
    result = sparse.linalg.spsolve(sparse.diags_array(data), np.ones(3))
    sync.backward(result.sum())

    assert (result.dtype, data.grad.dtype) == (np.float64, np.float32)
    assert sparse.linalg.spsolve(sparse.diags_array(data), np.ones(3, np.float32)).dtype == np.float32


def test_the_method_multiply_names_the_function_to_write() -> None:
    with pytest.raises(RequiresGradError, match=r"asyncgrad\.scipy\.sparse\.multiply"):
        scipy_sparse.csr_array(DENSE).multiply(leaf(4))


def test_the_functions_of_a_constant_are_those_of_the_dense_matrix() -> None:
    constant, tensor = scipy_sparse.csr_array(DENSE), leaf(4)
    plain = tensor.detach().numpy()

    np.testing.assert_array_equal(sparse.multiply(constant, tensor).detach().numpy(), DENSE * plain)
    np.testing.assert_array_equal(sparse.add(tensor, constant).detach().numpy(), DENSE + plain)
    np.testing.assert_array_equal((constant / tensor).detach().numpy(), DENSE / plain)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(3,\)"):
        scipy_sparse.csr_array(DENSE) @ leaf(3)


def array(data: Any, kind: str = "csr") -> Any:
    constant = getattr(scipy_sparse, f"{kind}_array")(SQUARE)
    return getattr(sparse, f"{kind}_array")((data, constant.indices, constant.indptr), (3, 3))


B = RNG.normal(size=(3, 2))
OTHER = scipy_sparse.csr_array([[0.0, 1.5, 0.0], [0.5, 0.0, 0.0], [0.0, -1.0, 2.0]])
OF_DATA: dict[str, Callable[..., Any]] = {
    "matvec": lambda a, b: a @ b[:, 0],
    "matmat": lambda a, b: a @ b,
    "rmatmul": lambda a, b: b.T @ a,
    "multiply": lambda a, b: (a * b[:, :1]).toarray(),
    "sum": lambda a, b: a.sum(0) * a.sum(1) + a.sum(),
    "diagonal": lambda a, b: a.diagonal(),
    "transpose": lambda a, b: a.T.toarray() @ b,
    "product": lambda a, b: (a @ a.T).toarray() @ b,
    "products with constants": lambda a, b: (OTHER @ a @ OTHER).toarray() @ b,
    "sum of two": lambda a, b: (a * 2 + a @ a - a.T).toarray() @ b,
    "sums with constants": lambda a, b: (OTHER - a + OTHER.tocoo()).toarray() @ b,
    "product by elements": lambda a, b: (a * a.T * OTHER).toarray() @ b,
    "sum with a dense one": lambda a, b: (1 - a.toarray() + (a + B @ B.T)) @ b,
    "part": lambda a, b: a[1:, [2, 0]].toarray() * a[0, 1] + a.diagonal(1),
    "stack": lambda a, b: sparse.block_array([[a, None], [OTHER, a.T]]).power(2).sum(0),
    "triangles": lambda a, b: sparse.hstack([sparse.tril(a), sparse.triu(a, 1)]).toarray(),
    "kron": lambda a, b: sparse.kron(a, OTHER).toarray(),
    "spsolve": sparse.linalg.spsolve,
    "spsolve of a vector": lambda a, b: sparse.linalg.spsolve(a, b[:, 0]),
    "cg": lambda a, b: sparse.linalg.cg(a, b[:, 0], rtol=1e-13)[0],
    "gmres": lambda a, b: sparse.linalg.gmres(a, b[:, 0], rtol=1e-13)[0],
    "bicgstab": lambda a, b: sparse.linalg.bicgstab(a, b[:, 0], rtol=1e-13)[0],
    "minres": lambda a, b: sparse.linalg.minres(a, b[:, 0], rtol=1e-13, shift=0.25)[0],
    "splu": lambda a, b: sparse.linalg.splu(a).solve(b, "T"),
    "inv": lambda a, b: sparse.linalg.inv(a).toarray(),
    "norm": lambda a, b: sparse.linalg.norm(a) * sparse.linalg.norm(a, 3, 0),
    "expm_multiply": lambda a, b: sparse.linalg.expm_multiply(a * 0.125, b, -0.5, 1.5, num=3),
    "find": lambda a, b: sparse.find(a)[2],
    "dia_array": lambda a, b: sparse.dia_array((np.reshape(a.data[:6], (2, 3)), [0, -1]), shape=(3, 4)).toarray(),
    "bsr_array": lambda a, b: sparse.bsr_array((np.reshape(a.data[:6], (1, 2, 3)), [1], [0, 1])).toarray(),
}


@pytest.mark.slow
@pytest.mark.sampled("name")
@pytest.mark.parametrize("name", OF_DATA)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_derivatives_with_respect_to_elements(name: str, kind: str) -> None:
    # Conjugate gradients need a symmetric matrix, and finite differences change one element at a time.
    symmetric = scipy_sparse.csr_array(SQUARE).T.tocsr()
    half = ag.tensor(symmetric.data / 2, requires_grad=True)
    dense = ag.tensor(B, requires_grad=True)
    order = np.argsort(np.lexsort((symmetric.tocoo().row, symmetric.tocoo().col)))

    def function(data: Any, b: Any) -> Any:
        return OF_DATA[name](array(data + data[order] if name in ("cg", "minres") else data * 2, kind), b)

    assert sync.gradcheck(function, [half, dense])
    assert sync.gradgradcheck(function, [half, dense])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cg", "gmres", "bicgstab"])
def test_the_solution_of_a_function_has_derivatives_by_what_it_multiplies_with(method: str) -> None:
    matrix = ag.tensor(SQUARE + 0.25 * np.eye(3)[::-1], requires_grad=True)
    right, seen = leaf(3), list[Any]()

    def product(x: Any, matrix: Any) -> Any:
        # Conjugate gradients need a symmetric matrix.
        return (matrix + matrix.T) @ x if method == "cg" else matrix @ x

    def solution(matrix: Any, right: Any) -> Any:
        told = {} if method == "gmres" else {"callback": seen.append}
        found = getattr(sparse.linalg, method)(product, right, rtol=1e-13, args=(matrix,), **told)
        return found[0]

    assert sync.gradcheck(solution, [matrix, right])
    assert sync.gradgradcheck(solution, [matrix, right])
    assert bool(seen) == (method != "gmres")


def test_an_operator_is_a_constant_with_a_preconditioner_for_its_adjoint_too() -> None:
    complex_matrix = SQUARE * (1 + 0.25j) + 0.5 * np.eye(3)[::-1]
    operator, right = scipy_sparse.linalg.aslinearoperator(complex_matrix), leaf(3, dtype=complex)

    def solution(right: Any) -> Any:
        return sparse.linalg.gmres(operator, right, rtol=1e-13, M=np.diag(1 / np.diag(complex_matrix)))[0]

    np.testing.assert_allclose(solution(right).detach().numpy(), np.linalg.solve(complex_matrix, right.detach()))
    assert sync.gradcheck(solution, [right])
    assert sync.gradgradcheck(solution, [right])


@one_loop
async def test_an_async_function_is_awaited_and_its_tensors_are_arguments() -> None:
    scale = ag.tensor([2.0, 4.0], requires_grad=True)

    async def product(x: Any, scale: Any) -> Any:
        await asyncio.sleep(0)
        return scale * x

    async def main() -> None:
        x, code = await sparse.linalg.cg(product, [2.0, 2.0], args=(scale,))
        assert code == 0
        await ag.backward(x.sum())

    await main()
    assert scale.grad.tolist() == pytest.approx([-0.5, -0.125])
    with pytest.raises(RequiresGradError, match="is not in args"):
        sparse.linalg.cg(lambda x: scale * x, [2.0, 2.0])
    with pytest.raises(ag.errors.ArgumentTypeError, match="where A is a function"):
        sparse.linalg.cg(scipy_sparse.eye_array(2), [2.0, 2.0], args=(scale,))


def test_a_complex_system_has_derivatives() -> None:
    data = ag.tensor(scipy_sparse.csr_array(SQUARE).data * (1 + 0.3j), requires_grad=True)

    assert sync.gradcheck(lambda data: sparse.linalg.spsolve(array(data), B), [data])
    assert sync.gradcheck(lambda b: sparse.linalg.spsolve(scipy_sparse.csr_array(SQUARE), b * 1j), [leaf(3)])


def test_repeated_elements_of_coo_are_added_and_each_has_a_gradient() -> None:
    data = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    matrix = sparse.coo_array((data, ([1, 0, 1], [0, 1, 0])), (2, 2))
    sync.backward((matrix @ np.array([1.0, 10.0])).sum())

    assert matrix.toarray().tolist() == [[0.0, 2.0], [4.0, 0.0]]
    assert data.grad.tolist() == [1.0, 10.0, 1.0]


def test_diagonals_are_laid_as_scipys() -> None:
    found = sparse.diags_array([[1.0, 2.0], [3.0, 4.0, 5.0]], offsets=[1, 0]).toarray().tolist()

    assert found == scipy_sparse.diags_array([[1.0, 2.0], [3.0, 4.0, 5.0]], offsets=[1, 0]).toarray().tolist()
    assert sparse.eye_array(2, 3, k=1).toarray().tolist() == np.eye(2, 3, 1).tolist()


def test_arrays_of_arrays_are_those_of_scipy() -> None:
    one, two = scipy_sparse.csr_array(DENSE), scipy_sparse.csc_array(DENSE.T @ DENSE)
    ours, others = sparse.csr_array(one), sparse.csc_array(two)

    pairs: list[tuple[Any, Any]] = [
        (ours @ others, one @ two),
        (others @ ours.T, two @ one.T),
        (ours + one * 2, one * 3),
        (ours - ours, one * 0),
        (ours * one, one * one),
        (ours[[2, 0, 0]], one[[2, 0, 0]]),
        (sparse.vstack([ours, others]), scipy_sparse.vstack([one, two])),
        (sparse.block_diag([ours, others]), scipy_sparse.block_diag([one, two])),
        (sparse.kron(ours, others), scipy_sparse.kron(one, two)),
        (sparse.csr_array(DENSE), one),
        (sparse.csr_array((2, 3)), scipy_sparse.csr_array((2, 3))),
        (sparse.csr_array((2, 3)) @ sparse.csr_array((3, 1)), scipy_sparse.csr_array((2, 1))),
    ]

    for found, expected in pairs:
        np.testing.assert_allclose(found.toarray().numpy(), expected.toarray(), rtol=1e-12, atol=1e-12)


def test_what_sparse_arrays_do_not_do_is_told() -> None:
    matrix = array(leaf(7))

    with pytest.raises(ValueError, match=r"\(3, 3\) and \(3, 4\)|\(3, 3\) is added to .* \(3, 4\)"):
        matrix + scipy_sparse.csr_array(DENSE)
    with pytest.raises(ValueError, match=r"\(3, 3\) and \(4, 3\) have no matrix product"):
        matrix @ scipy_sparse.csr_array(DENSE.T)
    with pytest.raises(ag.errors.ArgumentTypeError, match=r"a matrix or vector, not an array of shape \(2, 2, 2\)"):
        sparse.coo_array(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match=r"diagonal is of a sparse matrix, not of a vector of shape \(3,\)"):
        matrix[0].diagonal()
    with pytest.raises(ValueError, match=r"\(2, 3\) cannot be repeated to shape \(3,\)"):
        matrix[0] + np.ones((2, 3))
    with pytest.raises(ag.errors.ArgumentError, match=r"write matrix\.toarray"):
        scipy_sparse.csr_array(DENSE) + leaf(1)[0]
    with pytest.raises(ag.errors.ArgumentError, match=r"write A\.toarray"):
        matrix + 1.0


def test_a_system_may_be_dense_and_its_right_hand_side_sparse() -> None:
    dense, right = ag.tensor(SQUARE, requires_grad=True), scipy_sparse.csc_array(SQUARE[:, :2])
    expected = np.linalg.solve(SQUARE, SQUARE[:, :2])

    solution = sparse.linalg.spsolve(dense, right)
    (grad,) = sync.grad(solution.toarray()[0, 1] + sparse.linalg.gmres(dense, np.ones(3), rtol=1e-12)[0][0], [dense])

    def value(matrix: Any) -> Any:
        return np.linalg.solve(matrix, SQUARE[:, :2])[0, 1] + np.linalg.solve(matrix, np.ones(3))[0]

    np.testing.assert_allclose(solution.toarray().detach().numpy(), expected, atol=1e-12)
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        slope = (value(SQUARE + step) - value(SQUARE - step)) / 2e-6
        assert grad[place].item() == pytest.approx(slope, abs=1e-8)


def test_the_solution_of_a_singular_system_is_nan_with_a_warning() -> None:
    with pytest.warns(scipy_sparse.linalg.MatrixRankWarning, match="exactly singular"):
        assert np.isnan(sparse.linalg.spsolve(sparse.csr_array(np.ones((2, 2))), np.ones(2)).numpy()).all()


def test_the_elements_are_the_leaf_of_a_tree() -> None:
    data = leaf(7)
    matrix = array(data)

    assert ag.tree.leaves(matrix) == [data]
    assert ag.tree.map(lambda one: one * 2, matrix).toarray().tolist() == (matrix.toarray() * 2).tolist()


def test_no_dense_matrix_is_made() -> None:
    size = 20_000
    data = leaf(size)
    tracemalloc.start()
    try:
        matrix = sparse.csr_array((data, np.arange(size), np.arange(size + 1)), (size, size))
        sync.backward((sparse.linalg.spsolve(matrix, matrix @ np.ones(size)) ** 2).sum())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < size * size / 10


def test_a_product_by_elements_that_is_too_large_names_the_sparse_one() -> None:
    matrix, t = scipy_sparse.csr_array((10**4, 10**10)), leaf(2)[0]

    with pytest.raises(MemoryError, match=r"csr_array\(matrix\) \* t, which is sparse"):
        matrix * t
    assert (sparse.csr_array(matrix) * t).shape == matrix.shape


_OF_SCIPYS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"norm {order}": lambda library, a, order=order: library.linalg.norm(a, order)
        for order in (None, 1, -1, 2, np.inf, "nuc")
    },
    **{
        f"norm {order} along {axis}": lambda library, a, order=order, axis=axis: library.linalg.norm(a, order, axis)
        for order in (None, 3, -2, -np.inf, "nuc")
        for axis in (0, 1, (0, 1), (0, 5))
    },
    "inv": lambda library, a: library.linalg.inv(a).toarray(),
    "inv of a singular one": lambda library, a: library.linalg.inv(a * 0),
    "inv of a dense one": lambda library, a: library.linalg.inv(a.toarray()),
    "expm_multiply": lambda library, a: library.linalg.expm_multiply(a * 9, np.ones(3)),
    "expm_multiply of several": lambda library, a: library.linalg.expm_multiply(-a, np.eye(3)[:, :2], 0.5, 2, num=3),
    "factorized": lambda library, a: library.linalg.factorized(a)(np.arange(3.0)),
    **{
        f"splu, {trans}": lambda library, a, trans=trans: library.linalg.splu(a).solve(np.arange(3.0), trans)
        for trans in "NTHX"
    },
    "splu of a singular one": lambda library, a: library.linalg.splu(a * 0),
    "find": lambda library, a: np.stack([np.asarray(one) for one in library.find(a)]),
    "dia_array": lambda library, a: library.dia_array((SQUARE, [0, -1, 2]), shape=(4, 3)).toarray(),
    "bsr_array": lambda library, a: library.bsr_array((SQUARE.reshape(3, 1, 3), [1, 0, 1], [0, 1, 3])).toarray(),
    "empty dia_array": lambda library, a: library.dia_array((3, 4)).toarray(),
}


@pytest.mark.filterwarnings("ignore:splu converted")
@pytest.mark.parametrize("name", _OF_SCIPYS)
def test_a_function_of_a_sparse_matrix_is_scipys(name: str) -> None:
    matrix = scipy_sparse.csc_array(SQUARE + 0.5 * np.eye(3)[::-1])
    try:
        expected = _OF_SCIPYS[name](scipy_sparse, matrix)
    except (TypeError, ValueError, RuntimeError) as error:
        with pytest.raises(type(error)):
            _OF_SCIPYS[name](sparse, sparse.csc_array(matrix))
        return
    found = _OF_SCIPYS[name](sparse, sparse.csc_array(matrix))

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert found.dtype == np.asarray(expected).dtype
