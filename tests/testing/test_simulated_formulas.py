"""Any array type that speaks NumPy's protocols works in the same formulas, and gives the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import DeviceError
from asyncgrad.testing.device_array import DeviceArray
from tests.core.ops.finite_differences import Case, flat
from tests.core.ops.test_rules import EACH_CASE
from tests.nn.cases import CALLS
from tests.support.device_arrays import DEVICES

EVERY_CASE = [
    *EACH_CASE,
    *(pytest.param(one.function, one.case, id=f"nn.{one.function.__name__}-{n}") for n, one in enumerate(CALLS)),
]
#: Of these one case has a list of numbers, or an array of NumPy's, beside the array: it stays where it is, and that is
#: refused, as two devices are.
MIXED = {"matmul", "var"}
REFUSED_BESIDE = "and a NumPy array of shape|and a list"
#: These shift the exponents of an ndarray only where they are large, and those of other arrays always: to ask whether
#: they are large would be to wait for the device.
SHIFTED = {"multi_head_attention_forward", "scaled_dot_product_attention", "softmax", "softmin"}
#: These add up products of an ndarray as a dot product, which rounds otherwise than the sum of them.
ADDED_AS_PRODUCTS = {"batch_norm", "conv1d", "conv2d", "group_norm", "instance_norm", "rms_norm"}
#: The gradient of a product divides it by each element only on the host, where it can be asked whether one is 0. For
#: uneven bins NumPy takes the weights of a histogram as differences of running sums; a device adds up each bin. That of
#: an angle is divided by a sum of squares where the host finds none of them too large or small, else by lengths. Where
#: all pixels are finite, which the host can ask, weighted means of them are a product with a matrix, else sums.
ROUNDED_OTHERWISE = {
    *("prod", "histogram", "angle", "arctan2"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "interpolate"),
}


def outputs_and_grads(function: Callable[..., Any], case: Case, put: Callable[[np.ndarray], ag.Tensor]) -> list[Any]:
    """Return the outputs of a call on tensors and the gradients of its leaves."""
    leaves: list[ag.Tensor] = []

    def on_device(value: Any, is_leaf: bool) -> Any:
        if isinstance(value, np.ndarray):
            tensor = put(value)
            if is_leaf and value.dtype.kind in "fc":
                leaves.append(tensor.requires_grad_())
            return tensor
        if isinstance(value, (list, tuple)) and any(isinstance(one, np.ndarray) for one in value):
            return type(value)(on_device(one, is_leaf) for one in value)
        return value

    args = [on_device(value, index in case.differentiate) for index, value in enumerate(case.args)]
    kwargs = {name: on_device(value, name in case.differentiate) for name, value in case.kwargs.items()}
    outputs = [one for one in flat(function(*args, **kwargs)) if isinstance(one, ag.Tensor)]
    roots = [one for one in outputs if one.requires_grad]
    if roots:
        ag.sync.backward(roots, [one.detach() * 0 + 1 for one in roots])
    return [*outputs, *(leaf.grad for leaf in leaves)]


#: On a machine with two GPUs, the second one refuses all that the only one refuses.
@pytest.fixture(params=["simulated", "cuda:1"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device of each type of array."""
    with DEVICES[request.param]() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.sampled("device", "function")
@pytest.mark.parametrize(("function", "case"), EVERY_CASE)
def test_a_formula_gives_the_same_bits_on_another_type_of_array(
    device: Any, function: Callable[..., Any], case: Case
) -> None:
    expected = outputs_and_grads(function, case, ag.tensor)
    try:
        results = outputs_and_grads(function, case, lambda leaf: ag.tensor(leaf, device=device))
    except DeviceError as error:
        if function.__name__ in MIXED and re.search(REFUSED_BESIDE, str(error)):
            return
        raise
    for result, known in zip(results, expected, strict=True):
        if known is None:
            assert result is None
            continue
        assert result.device is device
        assert isinstance(result._data, DeviceArray)
        array = device.to_host(result._data)
        assert array.dtype == known.dtype
        if function.__name__ in SHIFTED | ADDED_AS_PRODUCTS | ROUNDED_OTHERWISE:
            np.testing.assert_allclose(array, known.numpy(), rtol=1e-12, atol=1e-15, strict=True)
        else:
            np.testing.assert_array_equal(array, known.numpy(), strict=True)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "max"},
        {"mode": "max", "padding_idx": 1},
        {"mode": "sum", "max_norm": 1.0},
        {"mode": "mean", "padding_idx": 3, "scale_grad_by_freq": True},
    ],
)
def test_bags_of_uneven_sizes_are_the_same_on_another_type_of_array(device: Any, options: dict[str, Any]) -> None:
    indices, offsets = np.array([3, 1, 3, 0, 2, 1, 1]), np.array([0, 3, 3, 4])
    table = np.random.default_rng(0).normal(size=(4, 3))
    table[0, 1] = np.nan

    def bags(place: Any) -> list[np.ndarray]:
        weight = ag.tensor(table.copy(), device=place).requires_grad_("max_norm" not in options)
        found = nn.embedding_bag(ag.tensor(indices, device=place), weight, ag.tensor(offsets, device=place), **options)
        if found.requires_grad:
            ag.sync.backward(found, found.detach() * 0 + 1)
        results = (found, weight, weight.grad)
        return [one.detach().to("cpu").numpy() for one in results if one is not None]

    for there, here in zip(bags(device), bags("cpu"), strict=True):
        np.testing.assert_array_equal(there, here)


def test_a_second_derivative_is_recorded_on_another_type_of_array(device: Any) -> None:

    def curvature(x: ag.Tensor) -> Any:
        (first,) = ag.sync.grad((np.tanh(x) * np.exp(x)).sum(), [x], create_graph=True)
        return ag.sync.grad((first * first).sum(), [x])[0]

    points = np.linspace(-1.0, 1.0, 7)
    there = curvature(ag.tensor(points, device=device).requires_grad_())
    here = curvature(ag.tensor(points, requires_grad=True))
    assert device.to_host(there._data).tobytes() == here.numpy().tobytes()


def test_writes_in_place_and_into_views_work_on_another_type_of_array(device: Any) -> None:

    def written(x: ag.Tensor) -> ag.Tensor:
        y = x * 1
        y[1:3] *= 3
        y.T[:, 0] = y[2] + y[3]
        part = y[2:]
        part += 1
        part[0] = part[1] * 2
        return (y * y).sum()

    points = np.linspace(-1.0, 1.0, 20).reshape(5, 4)
    leaves = [ag.tensor(points), ag.tensor(points, device=device)]
    for leaf in leaves:
        ag.sync.backward(written(leaf.requires_grad_()))
    assert leaves[0].grad is not None
    assert leaves[1].grad is not None
    assert device.to_host(leaves[1].grad._data).tobytes() == leaves[0].grad.numpy().tobytes()
