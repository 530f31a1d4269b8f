"""Products, contractions and norms: values in every shape, subgradients of norms, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.leaves import leaf_of
from tests.support.versions import is_numpy

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np


def small_whole_numbers(*shape: int) -> np.ndarray:
    """Return whole numbers of either sign: sums of their products are the same in any order."""
    return np.arange(np.prod(shape), dtype=float).reshape(shape) % 7 - 3


SHAPES = [(3,), (2, 3), (3, 3), (2, 3, 3), (2, 1, 3, 3), (1, 3), (3, 1), (4, 2, 3), (0, 3), (3, 0), (2, 0, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("function", [np.matmul, np.dot, np.inner, np.vecdot])
@pytest.mark.parametrize("left", SHAPES, ids=str)
def test_a_product_is_numpys_in_every_pair_of_shapes_or_raises_as_numpys_does(
    left: tuple[int, ...], function: Any
) -> None:
    for right in SHAPES:
        check_product(function, small_whole_numbers(*left), small_whole_numbers(*right))


def check_product(function: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Raise unless a product is that of NumPy, with the gradients of what is linear, or raises as NumPy's does."""
    try:
        expected = function(x, y)
    except ValueError:
        with pytest.raises(ValueError, match=r".+"):
            function(ag.tensor(x), ag.tensor(y))
        return

    tensors = [ag.tensor(x, requires_grad=True), ag.tensor(y, requires_grad=True)]
    actual = function(*tensors)

    np.testing.assert_array_equal(actual.numpy(), expected)
    g = small_whole_numbers(*actual.shape)
    grads = sync.grad(actual, tensors, [g])
    # A product is linear in each argument, so each gradient with its argument gives back g with the product.
    for grad, array in zip(grads, (x, y), strict=True):
        assert grad.shape == array.shape
        assert (grad.numpy() * array).sum() == (g * expected).sum()


@pytest.mark.parametrize("kind", [list, np.asarray])
@pytest.mark.parametrize("name", ["matmul", "dot", "inner", "outer", "vdot", "kron", "tensordot", "cross"])
def test_a_product_takes_arrays_and_lists_on_either_side(name: str, kind: Any) -> None:
    function = getattr(np, name)
    x, other = [1.0, 2.0, 3.0], kind([4.0, 5.0, 7.0])
    extra = (1,) if name == "tensordot" else ()

    for args in ((ag.tensor(x, requires_grad=True), other), (other, ag.tensor(x, requires_grad=True))):
        result = function(*args, *extra)
        tensor = next(arg for arg in args if isinstance(arg, ag.Tensor))
        sync.grad(result.sum(), [tensor])

        expected = function(*(arg if arg is other else x for arg in args), *extra)
        np.testing.assert_array_equal(result.numpy(), expected)


def test_a_product_of_a_stack_with_one_matrix_is_one_large_product() -> None:
    x = ag.tensor(small_whole_numbers(2, 4, 3), requires_grad=True)
    weight = ag.tensor(small_whole_numbers(3, 5), requires_grad=True)

    node: Any = (x @ weight).grad_fn
    grads = node.apply((small_whole_numbers(2, 4, 5),))

    assert [grad.shape for grad in grads] == [(2, 4, 3), (3, 5)]


def test_the_axis_of_vecdot_is_taken_from_its_ufunc() -> None:
    x, y = small_whole_numbers(3, 2), small_whole_numbers(3, 1)

    np.testing.assert_array_equal(numpy.vecdot(ag.tensor(x), y, axis=0), numpy.vecdot(x, y, axis=0))


@pytest.mark.parametrize(
    ("function", "shapes", "options"),
    [
        (np.matmul, [(3, 2, 4), (5, 2, 4)], {"axes": [(0, 2), (2, 0), (0, 1)]}),
        (np.matmul, [(3, 2, 4), (4,)], {"axes": [(0, 2), 0, 0]}),
        (np.vecdot, [(3, 2), (3, 2)], {"axes": [0, 0]}),
        (np.vecdot, [(3, 2), (3, 2)], {"axis": 0, "keepdims": True}),
    ],
)
def test_the_axes_of_a_product_are_chosen(function: Any, shapes: list[Any], options: Any) -> None:
    x, y = (small_whole_numbers(*shape) for shape in shapes)

    result = function(ag.tensor(x), y, **options)

    np.testing.assert_array_equal(result, function(x, y, **options), strict=True)
    np.testing.assert_array_equal(
        function(ag.tensor(x), y, out=numpy.zeros_like(result), **options), result, strict=True
    )
    assert sync.gradcheck(lambda *given: function(*given, **options), (leaf_of(x), leaf_of(y)))


def test_axes_that_a_product_has_not_are_refused() -> None:
    x = ag.tensor(small_whole_numbers(3, 2, 2))

    with pytest.raises(TypeError, match="takes axes as a list, not tuple"):
        numpy.matmul(x, x, axes=((0, 1), (0, 1), (0, 1)))
    with pytest.raises(ValueError, match="its 2 operands and of its result, not 2"):
        numpy.matmul(x, x, axes=[(0, 1), (0, 1)])
    with pytest.raises(ValueError, match="2 axes for number 1, not"):
        numpy.matmul(x, x, axes=[(0, 1), (0,), (0, 1)])
    with pytest.raises(TypeError, match="tuples, not 1 for number 1"):
        numpy.matmul(x, x, axes=[(0, 1), 1, (0, 1)])
    with pytest.raises(TypeError, match="does not support keepdims"):
        numpy.matmul(x, x, keepdims=True)


@pytest.mark.parametrize("shapes", [[(4, 2), (2,)], [(4, 2), (4, 3)], [(3,), (4, 2)]])
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_a_vector_of_two_elements_has_a_third_that_is_0(shapes: list[Any]) -> None:
    x, y = (small_whole_numbers(*shape) for shape in shapes)
    if is_numpy("2.5"):
        with pytest.raises(ValueError, match=r"numpy.cross of arrays of shapes .* 3-dimensional vectors"):
            numpy.cross(ag.tensor(x), y)
        return

    result = numpy.cross(ag.tensor(x), y)

    np.testing.assert_array_equal(result, numpy.cross(x, y), strict=True)
    assert sync.gradcheck(numpy.cross, (leaf_of(x), leaf_of(y)))


# einsum.


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl", [(2, 3), (3, 2), (2, 2)]),
        ("ij, jk -> ik", [(2, 3), (3, 2)]),
        ("bA,ABc->cb", [(2, 3), (3, 4, 2)]),
        ("...,...", [(2, 3), (3,)]),
        ("i...j->j...", [(2, 3, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("i,i,i->i", [(3,), (1,), (3,)]),
        ("ab,cd,ab,cd", [(2, 2), (3, 1), (2, 2), (3, 1)]),
        ("aab,b->a", [(2, 2, 3), (3,)]),
        ("ij,jk->ik", [(0, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        ("i->", [(0,)]),
        (",->", [(), ()]),
    ],
)
def test_einsum_understands_what_numpys_does(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [small_whole_numbers(*shape) for shape in shapes]
    tensors = [ag.tensor(array, requires_grad=True) for array in arrays]

    for optimize in (False, True, "optimal"):
        actual = np.einsum(subscripts, *tensors, optimize=optimize)
        expected = np.einsum(subscripts, *arrays, optimize=optimize)

        np.testing.assert_array_equal(actual.numpy(), expected)
        g = small_whole_numbers(*expected.shape)
        for grad, array in zip(sync.grad(actual, tensors, [g]), arrays, strict=True):
            assert (grad.numpy() * array).sum() == (g * expected).sum()


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("ij,jk->iz", "'z'"),
        ("ij,jk->ii", "twice"),
        ("ij,jk,kl->il", "3 arrays"),
        ("i,jk->ik", "axes"),
        ("ijk,jk->ik", "axes"),
        ("i$,jk->ik", "letter"),
        ("...ij,jk->ik", None),
        ("ij,ik->ik", ".+"),
    ],
)
def test_einsum_says_what_is_wrong_with_its_subscripts(subscripts: str, message: str | None) -> None:
    x, y = ag.tensor(small_whole_numbers(2, 3)), ag.tensor(small_whole_numbers(3, 4))
    if message is None:
        numpy.einsum(subscripts, x, y)
        return
    with pytest.raises(ValueError, match=message):
        numpy.einsum(subscripts, x, y)


def test_einsum_drops_no_axes_behind_an_ellipsis() -> None:
    with pytest.raises(ValueError, match="ellipsis"):
        np.einsum("...i->i", ag.tensor(small_whole_numbers(2, 3)))


def test_einsum_needs_arrays_and_takes_dtype_and_out() -> None:
    x = ag.tensor(np.ones((2, 2), np.float32), requires_grad=True)
    out = ag.tensor(np.zeros(2))

    assert np.einsum("ij->i", x, dtype=np.float64).dtype == np.float64
    assert numpy.einsum("ij->i", x.detach(), out=out) is out
    assert out.tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"numpy.einsum on a Tensor does not take subok"):
        numpy.einsum("ij->i", x, subok=True)


@pytest.mark.parametrize("order", "KACF")
@pytest.mark.parametrize("subscripts", ["ij->ji", "ij,jk->ik", "ij,jk->ki", "ijk->ki"])
def test_einsum_lays_its_result_out_in_the_order_asked_for(subscripts: str, order: Any) -> None:
    labels = subscripts.split("->")[0].split(",")
    arrays = [small_whole_numbers(*range(2, 2 + len(one))).copy("F") for one in labels]
    if len(labels) == 2:
        arrays[1] = small_whole_numbers(3, 4)

    actual = np.einsum(subscripts, *map(ag.asarray, arrays), order=order)
    expected = np.einsum(subscripts, *arrays, order=order)

    assert np.array_equal(actual, expected)
    assert actual.strides == expected.strides


def test_einsum_casts_as_it_is_told() -> None:
    x, y = ag.tensor([1.5, 2.0], requires_grad=True), ag.tensor(np.ones(2, np.float32))

    ag.sync.backward(np.einsum("i,i", x, y, dtype=np.float32, casting="same_kind"))

    assert x.grad is not None
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(TypeError, match="according to the rule 'no'"):
        np.einsum("i,i", x, y, casting="no")


def test_a_contraction_of_many_is_differentiated_pair_by_pair() -> None:
    tensors = [ag.tensor(small_whole_numbers(3, 3), requires_grad=True) for _ in range(4)]
    result = np.einsum("ab,bc,cd,de->ae", *tensors)

    names = []
    node = result.grad_fn
    while node is not None:
        names.append(node.name)
        node = next((edge.node for edge in node.next_edges if edge.node.name != "AccumulateGrad"), None)

    assert set(names) == {"ContractTwoBackward"}


# Norms.


def torch_gradient(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    point = torch.tensor(x, requires_grad=True)
    out = function(torch, point)
    (grad,) = torch.autograd.grad(out.sum(), [point])
    return grad.numpy()


POINTS = {
    "zeros": np.zeros((2, 3)),
    "a zero": np.array([[0.0, 1.0, -2.0], [3.0, 0.0, 0.0]]),
    "ties": np.array([[1.0, -1.0, 1.0], [2.0, 2.0, -2.0]]),
    "a row of zeros": np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 2.0]]),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", [None, 2, 1, 0, 3, 1.5, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("point", POINTS)
def test_norms_of_vectors_have_pytorchs_subgradients(point: str, order: Any, axis: int, keepdims: bool) -> None:
    x = ag.tensor(POINTS[point], requires_grad=True)
    out = np.linalg.norm(x, order, axis, keepdims)
    if order == 0:
        assert out.is_leaf
        return

    (grad,) = sync.grad(out.sum(), [x])

    np.testing.assert_allclose(out.numpy(), np.linalg.norm(POINTS[point], order, axis, keepdims), rtol=1e-14)
    expected = torch_gradient(
        lambda torch, t: torch.linalg.vector_norm(t, 2 if order is None else order, axis, keepdim=keepdims),
        POINTS[point],
    )
    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [None, "fro"])
@pytest.mark.parametrize("point", POINTS)
def test_the_frobenius_norm_has_pytorchs_subgradient(point: str, order: Any) -> None:
    x = ag.tensor(POINTS[point], requires_grad=True)

    (grad,) = sync.grad(np.linalg.norm(x, order), [x])

    expected = torch_gradient(lambda torch, t: torch.linalg.norm(t), POINTS[point])
    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-12)


def test_the_second_derivative_of_a_norm_at_zero_is_zero() -> None:
    x = ag.tensor(np.zeros(3), requires_grad=True)
    (grad,) = sync.grad(np.linalg.norm(x), [x], create_graph=True)

    (second,) = sync.grad(grad.sum(), [x])

    assert second.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "order", "axis"),
    [
        ((2, 2), 3, None),
        ((2, 2), "what", None),
        ((2,), "fro", None),
        ((2, 2, 2), 1, None),
        ((2, 2, 2), None, (0, 1, 2)),
        ((2, 2), None, (0, 0)),
        ((2, 2), 1, 5),
    ],
)
def test_a_norm_that_there_is_not_raises_as_numpys_does(shape: Any, order: Any, axis: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        np.linalg.norm(np.ones(shape), order, axis)
    with pytest.raises(ValueError, match=r".+"):
        np.linalg.norm(ag.tensor(np.ones(shape)), order, axis)


# Systems.


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_determinant_of_a_singular_matrix_has_its_gradient(rank: int) -> None:
    x = sum((np.outer([1.0, 2.0, row], [row, 1.0, 3.0]) for row in range(rank)), np.zeros((3, 3)))

    matrix = ag.tensor(x, requires_grad=True)
    (grad,) = sync.grad(np.linalg.det(matrix) * 2, [matrix])

    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)] for i in range(3)
    ]
    np.testing.assert_allclose(grad.numpy(), 2 * np.array(cofactors), atol=1e-12)


def test_cholesky_factors_have_pytorchs_gradient_in_both_forms() -> None:
    torch = pytest.importorskip("torch")
    factor = np.tril(small_whole_numbers(3, 3)) + 4 * np.eye(3)
    x = np.stack([factor @ factor.T, np.eye(3)])
    g = small_whole_numbers(2, 3, 3) ** 3

    for upper in (False, True):
        matrix = ag.tensor(x, requires_grad=True)
        out: Any = np.linalg.cholesky(matrix, upper=upper)
        (grad,) = sync.grad(out, [matrix], [g])

        point = torch.tensor(x, requires_grad=True)
        expected = torch.linalg.cholesky(point, upper=upper)
        np.testing.assert_allclose(out.detach(), expected.detach(), rtol=1e-12)
        (gradient,) = torch.autograd.grad(expected, [point], [torch.tensor(g)])
        np.testing.assert_allclose(grad.numpy(), gradient.numpy(), rtol=1e-9)


def test_cholesky_factors_give_the_second_derivative_of_a_determinant() -> None:
    factor = np.tril(small_whole_numbers(3, 3)) + 4 * np.eye(3)
    matrix = ag.tensor(factor @ factor.T, requires_grad=True)

    results = []
    for logdet in (
        2 * np.log(np.diagonal(np.linalg.cholesky(matrix))).sum(),
        np.linalg.slogdet(matrix).logabsdet,
    ):
        (grad,) = sync.grad(logdet, [matrix], create_graph=True)
        (second,) = sync.grad((grad * small_whole_numbers(3, 3)).sum(), [matrix])
        # A factor depends on the matrix as a symmetric one: compare what is symmetric.
        results.append((grad.numpy(), second.numpy() + second.numpy().T))

    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-9)


def test_the_sign_of_a_determinant_has_no_history() -> None:
    x = ag.tensor(-np.eye(3), requires_grad=True)
    result = np.linalg.slogdet(x)

    assert (result.sign.item(), result.sign.is_leaf, result.logabsdet.requires_grad) == (-1, True, True)


def test_cross_of_linalg_takes_vectors_of_three_elements_alone() -> None:
    with pytest.raises(ValueError, match=r"numpy\.linalg\.cross takes vectors of three elements"):
        np.linalg.cross(ag.tensor([1.0, 2.0]), np.array([3.0, 4.0]))
