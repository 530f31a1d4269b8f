"""The softmax of clusters of rare classes: its values and gradients are PyTorch's, and its probabilities sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, IndexRangeError, MissingDerivativeError

_rng = np.random.default_rng(0)
INPUT = _rng.standard_normal((6, 16))
#: Of the frequent classes and of each cluster, and the ends of all.
TARGETS = [np.array([0, 4, 5, 19, 20, 29]), np.array([1, 2, 3, 0, 4, 4]), np.array([25, 25, 24, 23, 22, 21])]


@pytest.mark.parametrize("head_bias", [False, True])
@pytest.mark.parametrize("target", [*TARGETS, np.array(7), np.array(2)], ids=lambda target: str(target.tolist()))
def test_results_and_gradients_are_those_of_pytorch(target: np.ndarray, head_bias: bool) -> None:
    torch = pytest.importorskip("torch")
    peer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 20], 2.0, head_bias).double()
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 20], 2.0, head_bias)
    assert list(layer.state_dict()) == list(peer.state_dict())
    layer.load_state_dict(peer.state_dict())
    data = INPUT if target.ndim else INPUT[0]
    x, other = ag.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    found, expected = layer(x, target), peer(other, torch.tensor(target))
    sync.backward(found.loss + (found.output * found.output).sum())
    (expected.loss + (expected.output * expected.output).sum()).backward()

    np.testing.assert_allclose(found.output.numpy(), expected.output.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(found.loss.item(), expected.loss.item(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=1e-10, atol=1e-14)
    for one, theirs in zip(layer.parameters(), peer.parameters(), strict=True):
        if theirs.grad is None:
            assert one.grad is None
        else:
            np.testing.assert_allclose(one.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-14)
    if target.ndim:
        np.testing.assert_allclose(layer.log_prob(x).numpy(), peer.log_prob(other).detach().numpy(), rtol=1e-12)
        assert layer.predict(x).tolist() == peer.predict(other).tolist()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.tolist()))
def test_the_output_is_what_all_probabilities_have_at_the_targets(target: np.ndarray) -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 20])
    logarithms = layer.log_prob(INPUT).numpy()

    np.testing.assert_allclose(np.exp(logarithms).sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(layer(INPUT, target).output.numpy(), logarithms[np.arange(6), target], rtol=1e-12)
    assert layer.predict(INPUT).tolist() == logarithms.argmax(1).tolist()


def test_a_cluster_without_targets_is_not_computed() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 20])
    called: list[int] = []
    for index, cluster in enumerate(layer.tail):
        cluster.register_forward_hook(lambda module, args, output, index=index: called.append(index))
    layer(INPUT, np.full(6, 22))

    assert called == [1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, [20, 5]), ArgumentError, r"ascending cutoffs from 1 to 29, not"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 5]), ArgumentError, "ascending cutoffs"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, [0, 5]), ArgumentError, "ascending cutoffs"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, [30]), ArgumentError, "ascending cutoffs"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, []), ArgumentError, "ascending cutoffs"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 30, [2.5]), ArgumentTypeError, "cutoffs must be an int"),  # type: ignore[list-item]
        (lambda: _called(INPUT, np.array([0, 1, 2, 3, 4, 30])), IndexRangeError, "got target 30, but there are 30"),
        (lambda: _called(INPUT, np.array([0, 1, 2, 3, 4, -1])), IndexRangeError, "got target -1"),
        (lambda: _called(INPUT, np.zeros(6)), ArgumentError, "takes integers as target, not float64"),
        (lambda: _called(INPUT, np.array([0, 1])), ArgumentError, r"not \(6, 16\) and \(2,\)"),
        (lambda: _called(INPUT[:, :3], np.arange(6)), ArgumentError, r"shape \(n, 16\)"),
        (lambda: _called(INPUT, ag.tensor(np.zeros(6), requires_grad=True)), MissingDerivativeError, "target"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def _called(*args: Any) -> Any:
    return nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 20])(*args)
