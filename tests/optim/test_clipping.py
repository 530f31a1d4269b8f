"""Clipping gives PyTorch's gradients, as new arrays, and refuses NaN."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError, InvalidGradientError

GRADS = [np.array([[3.0, -4.0], [0.5, 1.0]]), np.array(-12.0), np.zeros(0)]


def parameters(grads: list[Any]) -> list[Any]:
    params = [ag.tensor(np.ones_like(grad), requires_grad=True) for grad in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = ag.tensor(grad)
    return params


@pytest.mark.filterwarnings("ignore:Casting complex values")  # PyTorch's, of the norm 0
@pytest.mark.parametrize("norm_type", [0.0, 1.0, 2.0, 3.5, math.inf, -math.inf, -1.5])
@pytest.mark.parametrize("max_norm", [0.0, 2.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_norms_and_gradients_are_those_of_pytorch(norm_type: float, max_norm: float, dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    grads = [np.asarray(grad).astype(dtype) for grad in GRADS[:2]]
    params, peers = parameters(grads), [torch.tensor(np.ones_like(grad), requires_grad=True) for grad in grads]
    for peer, grad in zip(peers, grads, strict=True):
        peer.grad = torch.tensor(grad)
    expected = torch.nn.utils.clip_grad_norm_(peers, max_norm, norm_type)
    tolerance = 1e-6 if dtype is np.float32 else 1e-13

    assert optim.clip_grad_norm(params, max_norm, norm_type) == pytest.approx(expected.item(), rel=tolerance)
    clipped, total = optim.clip_grad_norm(grads, max_norm, norm_type)
    assert total == pytest.approx(expected.item(), rel=tolerance)
    for param, tree_leaf, peer in zip(params, clipped, peers, strict=True):
        assert param.grad.dtype == tree_leaf.dtype == dtype
        np.testing.assert_allclose(param.grad.numpy(), peer.grad.numpy(), rtol=tolerance)
        np.testing.assert_allclose(tree_leaf, peer.grad.numpy(), rtol=tolerance)


def test_the_norm_0_counts_gradients_whatever_their_elements_are() -> None:
    grads = [np.array([np.nan, 3.0]), np.array([0.0]), np.array([np.inf])]
    clipped, total = optim.clip_grad_norm(grads, 0.5, 0.0)

    assert total == 2.0
    np.testing.assert_allclose(clipped[0], [np.nan, 3.0 * 0.5 / (2 + 1e-6)], rtol=1e-12)
    np.testing.assert_array_equal(clipped[2], [np.inf])


def test_norms_of_a_negative_order_are_of_the_smallest_elements() -> None:
    grads = [np.array([-2.0, 4.0]), np.array([8.0])]

    assert optim.clip_grad_norm(grads, 100.0, -math.inf)[1] == 2.0
    assert optim.clip_grad_norm(grads, 100.0, -1.0)[1] == pytest.approx(1 / (1 / 2 + 1 / 4 + 1 / 8))
    assert optim.clip_grad_norm([np.array([0.0, 4.0])], 100.0, -1.0)[1] == 0.0


def test_gradients_that_were_handed_out_do_not_change() -> None:
    params = parameters(GRADS)
    held = [param.grad for param in params]
    optim.clip_grad_norm(params, 1.0)
    optim.clip_grad_value(params, 0.01)

    for one, grad in zip(held, GRADS, strict=True):
        np.testing.assert_array_equal(one.numpy(), grad)
    assert [param.grad is not one for param, one in zip(params, held, strict=True)] == [True] * 3


def test_a_tree_of_gradients_gives_a_tree_of_its_types() -> None:
    grads = {"w": ag.tensor([3.0, 4.0]), "layers": [np.array([0.0, 0.0]), None]}
    clipped, total = optim.clip_grad_norm(grads, 1.0)

    assert total == 5.0
    assert isinstance(clipped["w"], ag.Tensor)
    np.testing.assert_allclose(clipped["w"].numpy(), [0.6, 0.8], rtol=1e-6)
    assert clipped["layers"][1] is None
    assert optim.clip_grad_value(grads, 3.5)["w"].tolist() == [3.0, 3.5]


def test_parameters_without_gradients_have_the_norm_0_and_stay_so() -> None:
    params = {"w": ag.tensor([1.0], requires_grad=True)}

    assert optim.clip_grad_norm(params, 1.0) == 0.0
    assert params["w"].grad is None


@pytest.mark.parametrize("exponent", [-200, 200])
def test_the_norm_of_tiny_and_huge_gradients_is_right(exponent: int) -> None:
    (clipped,), total = optim.clip_grad_norm([np.array([3.0, 4.0]) * 10.0**exponent], 1e300)

    assert total == pytest.approx(5 * 10.0**exponent, rel=1e-12)
    np.testing.assert_array_equal(clipped, np.array([3.0, 4.0]) * 10.0**exponent)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_norm_that_is_not_finite_is_named_and_changes_nothing(bad: float) -> None:
    params = {"w": [ag.tensor([1.0], requires_grad=True), ag.tensor([1.0, 2.0], requires_grad=True)]}
    params["w"][0].grad, params["w"][1].grad = ag.tensor([7.0]), ag.tensor([bad, 1.0])
    with pytest.raises(InvalidGradientError, match=re.escape("the gradient of parameters['w'][1], of shape (2,), has")):
        optim.clip_grad_norm(params, 1.0)
    with pytest.raises(InvalidGradientError, match=re.escape("grads['w'][1], of shape (2,), has")):
        optim.clip_grad_norm({"w": [np.ones(1), np.array([bad, 1.0])]}, 1.0)

    assert params["w"][0].grad.tolist() == [7.0]
    optim.clip_grad_norm(params, 1.0, error_if_nonfinite=False)
    assert params["w"][0].grad.tolist() != [7.0]


def test_a_nan_is_in_no_range_and_an_infinity_is() -> None:
    with pytest.raises(InvalidGradientError, match=re.escape("grads[0], of shape (2,), has NaN")):
        optim.clip_grad_value([np.array([np.nan, 1.0])], 1.0)

    assert optim.clip_grad_value([np.array([-np.inf, 3 - 4j])], 2.0)[0].tolist() == [-2.0, 2 - 2j]


def test_options_and_gradients_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="max_norm must be a finite number of at least 0"):
        optim.clip_grad_norm(GRADS, -1.0)
    with pytest.raises(ArgumentTypeError, match=r"max_norm must be a number, not ndarray of shape \(2,\)"):
        optim.clip_grad_norm(GRADS, np.array([1.0, 2.0]))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="norm_type must be a finite number, not float nan"):
        optim.clip_grad_norm(GRADS, 1.0, math.nan)
    with pytest.raises(ArgumentTypeError, match=re.escape("parameters[0] must be a tensor or an array, not float")):
        optim.clip_grad_norm([1.0], 1.0)
