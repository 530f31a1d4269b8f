"""Products of stacks of matrices by cuBLAS give what NumPy gives, wherever the matrices lie in memory."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.engine.device import Device
from asyncgrad.devices.cuda import products
from asyncgrad.devices.cuda.products import product_functions
from tests.devices.host_device import host_device
from tests.devices.host_kernels import GRID_MACROS, GridModule, HostArray, HostCupy, needs_compilers, on_host
from tests.support import fake_cupy

pytestmark = needs_compilers

Product = Callable[..., Any]
TOLERANCE = {"f": 1e-5, "d": 1e-13}


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with pytest.MonkeyPatch.context() as patch:
        for name, module in fake_cupy.modules().items():
            patch.setitem(sys.modules, name, module)
        cupy = SimpleNamespace(ndarray=HostArray, RawModule=GridModule, cuda=HostCupy.cuda)
        yield product_functions(cupy, GRID_MACROS)["batched_product"]


@pytest.fixture
def device(product: Product) -> Iterator[Device]:
    """Return a device whose arrays have the products, none of which has been computed."""
    GridModule.launched.clear()
    with host_device(functions={"batched_product": product}) as made:
        yield made


def drawn(*shape: int, dtype: str = "d") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def laid(array: np.ndarray, order: str) -> HostArray:
    """Return a copy whose axes lie in memory in an order, the slowest first."""
    axes = [int(axis) for axis in order]
    moved = np.ascontiguousarray(array.transpose(axes))
    result = on_host(np.zeros(1))
    result.host = moved.transpose(np.argsort(axes))
    return result


ORDERS = ["0123", "0213", "1203", "0132"]


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("transposed", [*itertools.product((False, True), repeat=2)])
def test_a_product_of_stacks_in_any_order_of_memory_is_that_of_numpy(product, transposed, dtype):
    x, y = drawn(2, 3, 4, 5, dtype=dtype), drawn(2, 3, 5, 6, dtype=dtype)
    right = 0.5 * (x @ y)
    x, y = (
        one.swapaxes(-1, -2).copy() if is_turned else one for one, is_turned in zip((x, y), transposed, strict=True)
    )
    for first, second in itertools.product(ORDERS, repeat=2):
        found = product(laid(x, first), laid(y, second), 0.5, *transposed)

        np.testing.assert_allclose(found.host, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], strict=True)
        if not transposed[1] and second.endswith("3"):
            assert found.host.transpose([int(axis) for axis in second]).flags.c_contiguous, (first, second)
        else:
            assert found.host.flags.c_contiguous, (first, second)


@pytest.mark.parametrize("shape", [(1, 4, 5), (7, 1, 1), (1, 1, 3, 2), (2, 1, 1, 4), (2, 3, 2, 3, 4), (3, 1, 2, 1, 3)])
def test_axes_of_length_one_and_any_number_of_axes(product, shape):
    x, y = drawn(*shape), drawn(*shape[:-2], shape[-1], 2)

    np.testing.assert_allclose(product(on_host(x), on_host(y)).host, x @ y, rtol=1e-13, atol=1e-13, strict=True)


def test_addresses_are_computed_only_for_matrices_that_are_not_equally_far_apart(product):
    GridModule.launched.clear()
    x, y = drawn(2, 3, 4, 5), drawn(2, 3, 5, 6)
    product(on_host(x), on_host(y))
    assert GridModule.launched == []

    product(laid(x, "0213"), on_host(y))
    assert GridModule.launched == ["matrix_addresses"]


@final
class Again:
    """A product of heads that are not equally far apart, each time with arrays at the same places.

    Args:
        product: the function.
        monkeypatch: lets new matrices of one shape share their memory.
    """

    def __init__(self, product: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.products = product.__self__
        self.x, self.y = drawn(2, 2, 2, 2), drawn(2, 2, 2, 3)
        self.left, self.right = laid(self.x, "0213"), on_host(self.y)
        make, memory = HostArray.__init__, {}

        def make_at_the_same_place(array: HostArray, shape: tuple[int, ...], dtype: Any, memptr: Any = None) -> None:
            make(array, shape, dtype, memptr)
            if len(shape) > 1:
                array.host = memory.setdefault(shape, array.host)

        monkeypatch.setattr(HostArray, "__init__", make_at_the_same_place)

    def launches(self) -> int:
        """Compute the product; return how many kernels have been launched for it."""
        GridModule.launched.clear()
        found = self.products.product(self.left, self.right)
        np.testing.assert_allclose(found.host, self.x @ self.y, rtol=1e-13, atol=1e-13)
        return len(GridModule.launched)


def test_addresses_are_computed_once_for_arrays_at_the_same_places(product, monkeypatch):
    again = Again(product, monkeypatch)

    assert [again.launches() for _ in range(3)] == [1, 0, 0]


def test_each_stream_and_each_thread_has_addresses_of_its_own(product, monkeypatch):
    again = Again(product, monkeypatch)
    again.launches()

    with ThreadPoolExecutor(1) as thread:
        assert [thread.submit(again.launches).result() for _ in range(2)] == [1, 0]
    monkeypatch.setattr(again.products, "_current_stream", lambda: SimpleNamespace(ptr=7))
    assert [again.launches() for _ in range(2)] == [1, 0]


def test_addresses_are_forgotten_where_there_are_too_many(product, monkeypatch):
    again = Again(product, monkeypatch)
    again.launches()
    addresses = again.products._addresses
    monkeypatch.setattr(products, "_MOST_KEPT", addresses._length)

    addresses.place(0, 0, 1 << 12)

    assert not addresses.kept
    assert [again.launches() for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (drawn(4, 5), drawn(5, 6)),
        (drawn(2, 4, 5), drawn(5, 6)),
        (drawn(2, 4, 5), drawn(3, 5, 6)),
        (drawn(2, 4, 5), drawn(2, 4, 6)),
        (drawn(2, 4, 5), drawn(2, 5, 6, dtype="f")),
        (drawn(2, 4, 0), drawn(2, 0, 6)),
        (drawn(2, 4, 5).astype(int), drawn(2, 5, 6).astype(int)),
        (drawn(2, 4, 10)[..., ::2], drawn(2, 5, 6)),
    ],
    ids=["matrices", "one matrix", "stacks", "lengths", "dtypes", "empty", "integers", "gaps"],
)
def test_what_it_cannot_multiply_is_left_to_the_caller(product, x, y):
    left = on_host(np.zeros(1))
    left.host = x

    assert product(left, on_host(y)) is None


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_of_heads_that_lie_side_by_side_has_the_gradients_of_the_cpu(device, heads):
    def results(where: Any) -> list[np.ndarray]:
        leaf = ag.tensor(drawn(2, 5, 3 * heads * 4), device=where, requires_grad=True)
        q, k, v = leaf.reshape(2, 5, 3, heads, 4).transpose(2, 0, 3, 1, 4)
        out = nn.scaled_dot_product_attention(q, k, v).transpose(0, 2, 1, 3).reshape(2, 5, heads * 4)
        (grad,) = sync.grad((out * out).sum(), leaf, create_graph=True)
        (second,) = sync.grad((grad * grad * grad).sum(), leaf)
        return [one.to("cpu").numpy() for one in (out.detach(), grad.detach(), second)]

    for found, right in zip(results(device), results("cpu"), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-11, strict=True)
    assert set(GridModule.launched) == ({"matrix_addresses"} if heads > 1 else set())
