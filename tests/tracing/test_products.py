"""Products of small matrices by tiles: the bits of NumPy's, whatever BLAS it has; what has others is left to NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.tracing import product_tiles
from asyncgrad.tracing.runner import runner
from tests.tracing.running import bits, compiled, grads_of

pytest.importorskip("llvmlite")

SHAPES = [(16, 32, 128), (13, 16, 40), (64, 17, 8), (2, 300, 24)]


def matrix(rng: np.random.Generator, shape: tuple[int, int], kind: str, layout: int) -> np.ndarray:
    """Return a matrix in C order, turned, or a part of a wider one."""
    rows, columns = shape
    if layout == 1:
        return rng.standard_normal((columns, rows)).astype(kind).T
    return rng.standard_normal((rows, columns + 3 * layout)).astype(kind)[:, :columns]


@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_has_the_bits_of_numpys(shape, kind):
    rng = np.random.default_rng(0)
    rows, inner, columns = shape
    for left, right in itertools.product(range(3), range(3)):
        points = [
            (matrix(rng, (rows, inner), kind, left), matrix(rng, (inner, columns), kind, right)) for _ in range(3)
        ]
        points[-1][0][rng.random((rows, inner)) < 0.3] = -0.0
        for function in (np.matmul, np.dot):
            jitted = compiled(lambda a, b, function=function: function(a, b) * 1, *points[0])
            for a, b in points:
                assert bits(jitted(a, b)) == bits(function(a, b))


def test_stacks_have_the_bits_of_numpys():
    rng = np.random.default_rng(0)

    def attend(q, k, v):
        q, k, v = (one.reshape(2, 32, 4, 16).transpose(0, 2, 1, 3) for one in (q, k, v))
        scores = q @ k.swapaxes(-1, -2)
        return (scores @ v).transpose(0, 2, 1, 3) * 1 + (scores.swapaxes(-1, -2) @ q).swapaxes(1, 2)

    points = [[rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3)] for _ in range(3)]
    jitted = compiled(attend, *points[0])
    for point in points:
        assert bits(jitted(*point)) == bits(attend(*point))


def test_a_matrix_that_many_products_read_is_that_of_the_call():
    rng = np.random.default_rng(0)

    def loss(w, x):
        for _ in range(3):
            x = np.tanh(x @ w.T)
        return x.sum()

    jitted = compiled(loss, np.eye(16), np.ones((8, 16)))
    for scale in (0.5, 200.0, 0.25):
        leaves = [scale * rng.standard_normal((16, 16)), rng.standard_normal((8, 16))]
        # Products that overflow are NumPy's, which warns of them.
        with np.errstate(all="ignore"):
            assert grads_of(jitted, leaves) == grads_of(loss, leaves)


def layers(x, w, b):
    for _ in range(3):
        # What is multiplied is read no more, so that the sum may lie there.
        x = (x * 0.5) @ w + b
    return x * 1


def in_place(x, w, b):
    found = x @ w
    found += b
    return (x + found @ w.T) * (x[:1] @ w + b)


def late(x, w, b):
    return (x @ w + np.tanh(x)) * 0.5


def twice(x, w, b):
    found = x @ w
    return (found + b) * found


def doubled(x, w, b):
    found = x @ w
    return (found + found) * 0.5


@pytest.mark.parametrize("function", [layers, in_place, late, twice, doubled])
def test_what_is_added_to_a_product_is_added_to_it_alone(function):
    rng = np.random.default_rng(0)
    for kind in (np.float32, np.float64):
        points = [[rng.standard_normal(shape).astype(kind) for shape in ((16, 32), (32, 32), 32)] for _ in range(3)]
        jitted = compiled(function, *points[0])
        for point in points:
            assert bits(jitted(*point)) == bits(function(*point))


def test_gradients_of_shared_weights_are_added_up_as_they_come():
    rng = np.random.default_rng(0)

    def recurrent(h, w, u):
        for _ in range(4):
            h = np.tanh(h @ w.T + h @ u)
        return h.sum()

    points = [[rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 16), (16, 16))] for _ in "ab"]
    jitted = ag.jit(recurrent, verify=0, backend="fused")
    for point in (points[0], points[0], *points):
        assert grads_of(jitted, point) == grads_of(recurrent, point)
    assert jitted.counts["replayed"]


def test_what_sums_in_another_order_is_found_out():
    own = runner()
    assert own is not None
    if not own.tile_functions:
        pytest.skip("this processor does not multiply and add in one rounding")
    kind, layouts = np.dtype(np.float32), (((8, 64), (256, 4)), ((64, 16), (64, 4)))

    def backwards(a, b):
        return np.ascontiguousarray(a[:, ::-1]) @ np.ascontiguousarray(b[::-1])

    assert product_tiles.tiles_of(backwards, own, kind, *layouts) is None


def test_a_thin_product_that_needs_no_copy_is_done_by_tiles_though_it_is_large():
    own = runner()
    assert own is not None
    if not own.tile_functions:
        pytest.skip("this processor does not multiply and add in one rounding")
    kind, columns = np.dtype(np.float32), 4096
    left, right, turned = ((16, 9), (36, 4)), ((9, columns), (4 * columns, 4)), ((9, columns), (4, 36))

    assert product_tiles.tiles_of(np.matmul, own, kind, left, turned) is None
    found = product_tiles.tiles_of(np.matmul, own, kind, left, right)
    if found is None:
        pytest.skip("BLAS adds up in an order that no tile has")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(one).astype(np.float32) for one, _ in (left, right))
    assert bits(compiled(lambda a, b: (a @ b) * 1, a, b)(a, b)) == bits((a @ b) * 1)


def test_tiles_fill_the_result_once():
    rng = np.random.default_rng(0)
    for rows, panels in itertools.product((2, 5, 6, 7, 16, 23), (1, 2, 5)):
        sums = rng.choice([1, 2], (rows, panels))
        found = np.zeros((rows, panels), int)
        for count, wide, number, panel, row in product_tiles._tiles(sums):
            here = slice(row, row + count), slice(panel, panel + wide)
            assert (sums[here] == number).all()
            found[here] += 1
        assert (found == 1).all()


def test_a_product_of_a_matrix_and_itself_is_numpys():
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    jitted = compiled(lambda x: np.matmul(x[None], x[None].swapaxes(1, 2)) * 1, x)
    assert bits(jitted(x)) == bits(np.matmul(x[None], x[None].swapaxes(1, 2)))


@pytest.mark.parametrize("function", [np.matmul, np.dot], ids=["matmul", "dot"])
def test_a_product_of_two_arrays_in_one_place_is_numpys(function):
    x, other = np.random.default_rng(0).standard_normal((2, 8, 17)).astype(np.float32)
    jitted = compiled(lambda a, b: function(a, b) * 1, x, other.T)
    assert bits(jitted(x, x.T)) == bits(function(x, x.T))


def test_stacks_of_which_one_element_is_multiplied_by_itself_have_the_bits_of_numpys():
    x = np.random.default_rng(0).standard_normal((3, 8, 17)).astype(np.float32)
    jitted = compiled(lambda x: np.matmul(x, x[::-1].swapaxes(1, 2)) * 1, x)
    assert bits(jitted(x)) == bits(np.matmul(x, x[::-1].swapaxes(1, 2)))


def test_a_part_of_a_large_array_is_not_tried():
    own = runner()
    assert own is not None
    layouts = ((8, 16), (1 << 40, 8)), ((16, 8), (64, 8))
    assert product_tiles.tiles_of(np.matmul, own, np.dtype(np.float64), *layouts) is None
