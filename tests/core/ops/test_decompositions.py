"""Eigenvalues, singular values and triangles: PyTorch's gradients, points without a derivative, what a node saves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.recording.decomposition import DecompositionNode, decomposition
from asyncgrad.errors import ChangedTensorError, GraphError, MissingDerivativeError, ReleasedGraphError
from tests.core.ops.cases_decompositions import SQUARE
from tests.core.ops.finite_differences import Case, check_derivatives

RNG = np.random.default_rng(11)
REAL = RNG.normal(size=(3, 3)) + np.diag([1.0, 3.0, 5.0])
COMPLEX = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
TALL, WIDE = RNG.normal(size=(2, 4, 2)), RNG.normal(size=(2, 2, 4))
SYMMETRIC, HERMITIAN = REAL + REAL.T, COMPLEX + COMPLEX.conj().T
TALL_COMPLEX = TALL + 1j * RNG.normal(size=TALL.shape)


def leaf(data: Any) -> Any:
    return ag.tensor(data, requires_grad=True)


def up_to_phases(parts: Any, side: int) -> list[Any]:
    """Return the parts of a decomposition, vectors by what no phase changes of them."""
    return [part * part[..., :1, :].conj() if part.shape[-2:] == (side, side) else part for part in parts]


#: Each as a function of NumPy's module or PyTorch's, and of a tensor.
CALLS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "eig": (lambda linalg, a: up_to_phases(linalg.eig(a), 3), COMPLEX),
    "eig, real": (lambda linalg, a: up_to_phases(linalg.eig(a), 3), REAL),
    "eigvals": (lambda linalg, a: [linalg.eigvals(a)], COMPLEX),
    "eigh": (lambda linalg, a: up_to_phases(linalg.eigh(a), 3), HERMITIAN),
    "eigh, real": (lambda linalg, a: up_to_phases(linalg.eigh(a), 3), SYMMETRIC),
    "eigvalsh": (lambda linalg, a: [linalg.eigvalsh(a)], HERMITIAN),
    "svd": (lambda linalg, a: up_to_phases(linalg.svd(a)[:2], 3), COMPLEX),
    "svd, tall": (lambda linalg, a: [abs(part) for part in linalg.svd(a, full_matrices=False)], TALL),
    "svd, tall and complex": (
        lambda linalg, a: [abs(part) for part in linalg.svd(a, full_matrices=False)],
        TALL_COMPLEX,
    ),
    "svd, wide": (lambda linalg, a: [abs(part) for part in linalg.svd(a, full_matrices=False)], WIDE),
    "svdvals": (lambda linalg, a: [linalg.svdvals(a)], TALL_COMPLEX),
    "qr": (lambda linalg, a: linalg.qr(a), COMPLEX),
    "qr, tall": (lambda linalg, a: linalg.qr(a), TALL_COMPLEX),
    "qr, wide": (lambda linalg, a: linalg.qr(a), WIDE),
    "pinv": (lambda linalg, a: [linalg.pinv(a)], TALL_COMPLEX),
    "pinv, wide": (lambda linalg, a: [linalg.pinv(a)], WIDE),
    "cond": (lambda linalg, a: [linalg.cond(a), linalg.cond(a, -2)], COMPLEX),
    "matrix_power": (lambda linalg, a: [linalg.matrix_power(a, 5), linalg.matrix_power(a, -2)], COMPLEX),
    "multi_dot": (lambda linalg, a: [linalg.multi_dot([a, a, a, a])], COMPLEX),
    "tensorinv": (lambda linalg, a: [linalg.tensorinv(a, 1)], COMPLEX),
    "tensorsolve": (lambda linalg, a: [linalg.tensorsolve(a, a[0])], COMPLEX),
    **{
        f"norm of order {order}": (lambda linalg, a, order=order: [linalg.matrix_norm(a, ord=order)], COMPLEX)
        for order in (2, -2, "nuc")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_first_and_second_derivatives_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, data = CALLS[name]
    a, peer = leaf(data), torch.tensor(data, requires_grad=True)

    def weighted(results: Any, library: Any) -> Any:
        """Return a real number in which every part of every result has a weight of its own."""
        total = 0
        for result in results:
            total = total + ((result * (1.5 - 0.5j)) * (result * 0.3j + 1)).sum()
        return library.real(total)

    (first,) = sync.grad(weighted(function(np.linalg, a), np), a, create_graph=True)
    (second,) = sync.grad(np.real((first * (0.3 + 1j) * first).sum()), a)
    (expected,) = torch.autograd.grad(weighted(function(torch.linalg, peer), torch), peer, create_graph=True)
    if "eigh" in name or "eigvalsh" in name:
        # PyTorch leaves a part that no Hermitian matrix can move along.
        expected = (expected + expected.mH) / 2
    (expected_second,) = torch.autograd.grad(torch.real((expected * (0.3 + 1j) * expected).sum()), peer)
    if "eigh" in name or "eigvalsh" in name:
        expected_second = (expected_second + expected_second.mH) / 2

    np.testing.assert_allclose(first.numpy(), expected.detach().resolve_conj().numpy(), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(second.numpy(), expected_second.resolve_conj().numpy(), rtol=1e-6, atol=1e-6)


def test_least_squares_have_pytorchs_gradients() -> None:
    torch = pytest.importorskip("torch")
    a, b = leaf(TALL[0]), leaf(REAL[:, :2].repeat(2, 0)[:4])
    peers = [torch.tensor(one.numpy(), requires_grad=True) for one in (a, b)]
    x = np.linalg.lstsq(a, b)[0]
    g = RNG.normal(size=x.shape)

    found = sync.grad(x, [a, b], [g])

    expected = torch.autograd.grad(torch.linalg.lstsq(*peers).solution, peers, [torch.tensor(g)])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rcond", [None, -1, 0, 1, 0.4], ids=str)
def test_least_squares_differentiate_what_their_cutoff_leaves(rcond: float | None) -> None:
    # Singular values of 2, 1, 0.5 and 0: NumPy takes an rcond outside of (0, 1) for its precision.
    left = np.linalg.qr(RNG.normal(size=(5, 3)))[0]
    moved, b, weights = RNG.normal(size=(5, 3)), RNG.normal(size=5), RNG.normal(size=4)

    def matrix(t: Any) -> Any:
        # Its rank is 3 at each t, without a rounding error that might count as a fourth.
        return np.concatenate([(left + t * moved) * [2.0, 1.0, 0.5], np.zeros((5, 1))], 1)

    def shifted(t: Any) -> Any:
        return np.linalg.lstsq(matrix(t), b, rcond)[0] @ weights

    t = leaf(0.0)
    (first,) = sync.grad(shifted(t), t)

    expected = (shifted(1e-6) - shifted(-1e-6)) / 2e-6
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-6)


# Hermitian matrices: a difference in one element alone would leave another matrix.


@pytest.mark.parametrize("UPLO", ["L", "U"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)], ids=str)
def test_derivatives_by_a_symmetric_matrix_are_those_of_differences(shape: tuple[int, ...], UPLO: str) -> None:
    def decomposed(a: Any) -> Any:
        symmetric: Any = a + a.mT
        return (*np.linalg.eigh(symmetric, UPLO), np.linalg.eigvalsh(symmetric, UPLO))  # type: ignore[call-overload]

    check_derivatives(decomposed, Case((RNG.normal(size=shape) + np.diag(np.arange(1.0, shape[-1] + 1)),)))


@pytest.mark.slow
@pytest.mark.parametrize("UPLO", ["L", "U"])
@pytest.mark.parametrize("point", [REAL, COMPLEX, np.stack([REAL, SYMMETRIC])], ids=["real", "complex", "stacked"])
def test_of_a_matrix_that_is_not_symmetric_the_gradient_lies_in_the_triangle_that_is_read(
    point: np.ndarray, UPLO: Any
) -> None:
    def decomposed(a: Any) -> Any:
        w, v = np.linalg.eigh(a, UPLO)
        return w, np.abs(v) ** 4, np.linalg.eigvalsh(a, UPLO)

    a = leaf(point)
    if point is COMPLEX:
        assert sync.gradcheck(decomposed, (a,))
        assert sync.gradgradcheck(decomposed, (a,))
    else:
        check_derivatives(decomposed, Case((point,)))
    (grad,) = sync.grad((np.linalg.eigvalsh(a, UPLO) ** 3).sum(), a)
    unread = np.triu(grad.numpy(), 1) if UPLO == "L" else np.tril(grad.numpy(), -1)
    assert not unread.any()


def test_the_gradient_of_a_hermitian_matrix_is_hermitian() -> None:
    a = leaf(HERMITIAN)
    w, v = np.linalg.eigh(a)

    (grad,) = sync.grad((w**3).sum() + (np.abs(v[0]) ** 4).sum(), a)

    np.testing.assert_allclose(grad.numpy(), grad.numpy().conj().T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", SQUARE)
def test_real_eigenvectors_have_the_derivatives_of_differences(case: Case) -> None:
    # Since NumPy 2.5 they are complex numbers, of which only the real parts are free of an arbitrary phase.
    check_derivatives(lambda a: tuple(np.real(part) for part in np.linalg.eig(a)), case)


@pytest.mark.parametrize("hermitian", [False, True])
def test_a_pseudo_inverse_of_a_symmetric_matrix_has_the_derivative_of_differences(hermitian: bool) -> None:
    check_derivatives(lambda a: np.linalg.pinv(a + a.mT, hermitian=hermitian), Case((REAL,)))


def test_singular_values_of_a_symmetric_matrix_have_the_derivatives_of_differences() -> None:
    symmetric = np.diag([3.0, -2.0, 1.0]) + 0.1 * REAL

    check_derivatives(lambda a: np.linalg.svd(a + a.mT, hermitian=True), Case((symmetric,)))


# No derivative.


def test_vectors_of_equal_eigenvalues_have_no_derivative_and_all_others_do() -> None:
    a = leaf(np.diag([1.0, 2.0, 2.0]))
    w, v = np.linalg.eigh(a)

    (grad,) = sync.grad(w.sum() + v[1, 0], a, retain_graph=True)
    with pytest.raises(
        GraphError, match=r"numpy\.linalg\.eigh: .*single vectors of equal eigenvalues \(numbers . and .\)"
    ):
        sync.grad(v[:, 1].sum(), a)

    np.testing.assert_allclose(grad.numpy(), [[1, -0.5, 0], [-0.5, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("eig: .* equal eigenvalues", lambda a: np.real(np.linalg.eig(a).eigenvectors).sum()),
        ("svd: .* equal singular values", lambda a: np.linalg.svd(a).U.sum()),
        ("svd: .* equal singular values", lambda a: np.linalg.svd(a).Vh.sum()),
    ],
)
def test_vectors_of_equal_values_are_refused_by_name(name: str, loss: Any) -> None:
    with pytest.raises(GraphError, match=rf"numpy\.linalg\.{name}"):
        sync.backward(loss(leaf(np.eye(2))))


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("eigh", lambda a: np.real(np.linalg.eigh(a).eigenvectors[0, 0] * 1j + np.linalg.eigh(a).eigenvectors[1, 0])),
        ("eig", lambda a: np.imag(np.linalg.eig(a).eigenvectors).sum()),
        ("svd", lambda a: np.imag(np.linalg.svd(a).U).sum()),
        ("svd", lambda a: np.imag(np.linalg.svd(a).Vh).sum()),
    ],
)
def test_a_loss_that_depends_on_phases_is_refused_by_name(name: str, loss: Any) -> None:
    with pytest.raises(GraphError, match=rf"numpy\.linalg\.{name}: the loss depends on the phases .* np\.abs"):
        sync.backward(loss(leaf(HERMITIAN + 0.1)))


def test_vectors_without_a_singular_value_are_refused_and_may_be_left_out() -> None:
    a = leaf(TALL[0])
    u, s, vh = np.linalg.svd(a)

    (grad,) = sync.grad((u[:, :2] * s @ vh).sum(), a, retain_graph=True)
    with pytest.raises(GraphError, match=r"svd: the loss depends on vectors beyond the first 2.*full_matrices=False"):
        sync.grad(u.sum(), a)

    np.testing.assert_allclose(grad.numpy(), np.ones((4, 2)), rtol=1e-12)


def test_columns_of_a_complete_q_are_refused_and_may_be_left_out() -> None:
    a = leaf(TALL[0])
    q, r = np.linalg.qr(a, "complete")

    (grad,) = sync.grad((q[:, :2] @ r[:2]).sum(), a, retain_graph=True)
    with pytest.raises(GraphError, match=r"qr: the loss depends on columns of q beyond the first 2"):
        sync.grad(q.sum(), a)

    np.testing.assert_allclose(grad.numpy(), np.ones((4, 2)), rtol=1e-12)


def test_vectors_of_the_singular_value_zero_are_refused() -> None:
    a = leaf(np.outer([1.0, 2.0, 3.0], [1.0, 0.0]))

    with pytest.raises(GraphError, match=r"svd: the loss depends on singular vectors of the singular value 0"):
        sync.backward(np.linalg.svd(a, full_matrices=False).U.sum())


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("matrix", [np.ones((3, 2)), np.ones((2, 3)), np.zeros((2, 2))], ids=["tall", "wide", "zero"])
def test_triangles_of_columns_that_depend_on_each_other_are_refused(matrix: np.ndarray, mode: Any) -> None:
    found: Any = np.linalg.qr(leaf(matrix), mode)

    with pytest.raises(GraphError, match=r"numpy\.linalg\.qr: the leading columns of a matrix are linearly dependent"):
        sync.backward((found if mode == "r" else found.R).sum())


def test_what_lapack_leaves_behind_has_no_derivative() -> None:
    with pytest.raises(MissingDerivativeError, match=r"numpy\.linalg\.qr with mode='raw'"):
        np.linalg.qr(leaf(REAL), "raw")

    h, tau = np.linalg.qr(ag.tensor(REAL), "raw")

    np.testing.assert_array_equal(h.numpy(), np.linalg.qr(REAL, "raw")[0])
    assert isinstance(tau, ag.Tensor)


def test_the_condition_number_of_a_singular_matrix_is_infinite_and_constant() -> None:
    a = leaf(np.stack([REAL, np.ones((3, 3))]))

    result = np.linalg.cond(a, 1)
    (grad,) = sync.grad(result[0], a)

    np.testing.assert_allclose(result.numpy(), [np.linalg.cond(REAL, 1), np.inf])
    assert np.isfinite(grad.numpy()).all()
    assert not grad.numpy()[1].any()


# What a call gives, and what its node saves.


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        (np.linalg.eig, ("eigenvalues", "eigenvectors")),
        (np.linalg.eigh, ("eigenvalues", "eigenvectors")),
        (np.linalg.svd, ("U", "S", "Vh")),
        (np.linalg.qr, ("Q", "R")),
    ],
)
def test_a_decomposition_gives_numpys_named_tuple(function: Any, fields: tuple[str, ...]) -> None:
    found = function(leaf(SYMMETRIC))

    assert type(found) is type(function(SYMMETRIC))
    assert found._fields == fields
    assert len({one.grad_fn for one in found}) == 1
    assert [one.output_nr for one in found] == list(range(len(fields)))


def test_nothing_is_recorded_where_nothing_requires_grad() -> None:
    with ag.no_grad():
        without = np.linalg.eigh(leaf(SYMMETRIC))

    assert [one.requires_grad for one in (*without, *np.linalg.svd(ag.tensor(REAL)))] == [False] * 5


@pytest.mark.parametrize("function", [np.linalg.eig, np.linalg.eigh, np.linalg.svd, np.linalg.qr, np.linalg.pinv])
def test_single_precision_stays_single(function: Any) -> None:
    a = leaf(SYMMETRIC.astype(np.float32))
    found = function(a)
    parts = found if isinstance(found, tuple) else (found,)
    node: Any = parts[0].grad_fn

    (grad,) = node.apply(tuple(one.numpy() for one in parts))

    assert {np.finfo(one.dtype).dtype for one in parts} == {np.dtype(np.float32)}
    assert np.finfo(grad.dtype).dtype == np.float32


def test_a_result_that_was_written_into_is_noticed() -> None:
    a = leaf(SYMMETRIC)
    w, v = np.linalg.eigh(a)
    loss = (w * v).sum()
    v.detach()[0] = 0.0

    with pytest.raises(ChangedTensorError, match=r"EighBackward|MultiplyBackward"):
        sync.backward(loss)


def test_a_second_backward_needs_the_graph_to_be_kept() -> None:
    a = leaf(SYMMETRIC)
    w = np.linalg.eigh(a).eigenvalues

    sync.backward(w[0], retain_graph=True)
    sync.backward(w[0])
    with pytest.raises(ReleasedGraphError, match="retain_graph=True"):
        w.grad_fn.apply((np.ones(3), None))


def test_an_undefined_gradient_stays_undefined() -> None:
    node: Any = np.linalg.svd(leaf(REAL)).S.grad_fn

    assert node.apply((None, None, None)) == (None,)
    assert len(node.saved_tensors) == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_saved_goes_through_hooks(is_async: bool) -> None:
    shapes: list[tuple[int, ...]] = []

    def pack(tensor: ag.Tensor) -> Any:
        shapes.append(tensor.shape)
        return tensor.numpy().copy()

    async def unpack(array: Any) -> Any:
        await asyncio.sleep(0)
        return ag.tensor(array)

    async def gradient() -> Any:
        a = leaf(REAL)
        with ag.graph.saved_tensors_hooks(pack, unpack if is_async else ag.tensor):
            s = np.linalg.svd(a).S
        return (await ag.grad(s.sum(), a))[0]

    a = leaf(REAL)
    expected = sync.grad(np.linalg.svdvals(a).sum(), a)[0]

    np.testing.assert_allclose(ag.run(gradient()).numpy(), expected.numpy(), rtol=1e-12)
    assert shapes == [(3, 3), (3,), (3, 3)]


def test_a_compiled_backward_gives_the_same_gradient() -> None:
    def loss(a: Any) -> Any:
        u, s, _vh = np.linalg.svd(a)
        return (np.exp(s) * np.abs(u)).sum() + np.linalg.eigvalsh(a + a.T).sum()

    expected = sync.grad(loss(a := leaf(REAL)), a)[0].numpy()
    with ag.compiled_autograd(after=1):
        found = [sync.grad(loss(a := leaf(REAL)), a)[0].numpy() for _ in range(4)]

    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_the_work_of_a_large_decomposition_is_told_before_it_is_done() -> None:
    small, large = (np.linalg.eigh(leaf(np.eye(side))).eigenvalues.grad_fn for side in (8, 256))

    assert isinstance(large, DecompositionNode)
    assert [node.may_be_heavy(node, None) for node in (small, large)] == [False, True]  # type: ignore[union-attr, arg-type]


def test_a_decomposition_without_a_formula_says_so() -> None:
    @decomposition
    def halves(a: Any) -> Any:
        return np.linalg.eigh(a)

    with pytest.raises(NotImplementedError, match="joint_derivative"):
        sync.backward(halves(leaf(SYMMETRIC)).eigenvalues.sum())


# Arguments.


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda a: np.linalg.matrix_power(a[:, :2], 2), "square"),
        (lambda a: np.linalg.tensorinv(a, 0), "ind of at least 1, .* not 0"),
        (lambda a: np.linalg.tensorsolve(a[:, :2], a[0]), "elements"),
        (lambda a: np.linalg.multi_dot([a]), "at least two"),
        (lambda a: np.linalg.multi_dot([a, a[0], a]), "a vector first or last"),
        (lambda a: np.linalg.cond(a[:0]), r"not an array of shape \(0, 3\)"),
    ],
)
def test_what_numpy_refuses_is_refused_with_what_was_given(function: Any, error: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        function(REAL)
    with pytest.raises(ValueError, match=error):
        function(ag.tensor(REAL))


def test_a_product_of_several_is_written_where_out_says() -> None:
    out = ag.tensor(np.zeros((3, 3)))

    assert np.linalg.multi_dot([ag.tensor(REAL), SYMMETRIC, REAL], out=out) is out
    np.testing.assert_allclose(out.numpy(), REAL @ SYMMETRIC @ REAL)
    with pytest.raises(TypeError, match="whole number"):
        np.linalg.matrix_power(ag.tensor(REAL), 1.5)
