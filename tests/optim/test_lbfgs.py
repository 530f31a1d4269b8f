"""LBFGS takes PyTorch's steps, evaluates as often, and takes a step back that does not end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim, sync
from asyncgrad.errors import ArgumentError

INPUTS = np.random.default_rng(0).standard_normal((30, 6))
TARGETS = np.random.default_rng(1).standard_normal(30)

OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.3, "max_iter": 5},
    {"line_search_fn": "strong_wolfe", "max_iter": 6},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "lr": 5.0, "max_eval": 30},
]


def fit(x: Any, xp: Any, inputs: Any, targets: Any) -> Any:
    return ((xp.tanh(inputs @ x) - targets) ** 2).sum()


def valley(x: Any, xp: Any, inputs: Any, targets: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("loss", [fit, valley])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_and_evaluations_are_those_of_pytorch(options: dict[str, Any], loss: Any) -> None:
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(2).standard_normal(6)
    params = [ag.tensor(start[:2], requires_grad=True), ag.tensor(start[2:], requires_grad=True)]
    peers = [torch.tensor(start[:2], requires_grad=True), torch.tensor(start[2:], requires_grad=True)]
    optimizer, peer = optim.LBFGS(params, **options), torch.optim.LBFGS(peers, **options)
    counts = [0, 0]

    def closure() -> Any:
        counts[0] += 1
        optimizer.zero_grad()
        value = loss(np.concatenate(params), np, INPUTS, TARGETS)
        sync.backward(value)
        return value

    def peer_closure() -> Any:
        counts[1] += 1
        peer.zero_grad()
        value = loss(torch.cat(peers), torch, torch.tensor(INPUTS), torch.tensor(TARGETS))
        value.backward()
        return value

    # The second call goes on from the state of the first.
    for _ in range(2):
        optimizer.step(closure)
        peer.step(peer_closure)

    assert counts[0] == counts[1]
    for param, expected in zip(params, peers, strict=True):
        np.testing.assert_allclose(param.numpy(), expected.detach().numpy(), rtol=1e-7, atol=1e-9)


def test_a_run_goes_on_from_a_state_dict_as_if_it_had_never_stopped() -> None:
    def optimizer_of(param: Any) -> optim.LBFGS:
        return optim.LBFGS([param], line_search_fn="strong_wolfe", max_iter=3)

    def step(optimizer: optim.LBFGS, param: Any) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = valley(param, np, None, None)
            sync.backward(loss)
            return loss

        optimizer.step(closure)

    param = ag.tensor([-1.0, 2.0, 0.5], requires_grad=True)
    optimizer = optimizer_of(param)
    step(optimizer, param)
    other = ag.tensor(param.numpy(), requires_grad=True)
    resumed = optimizer_of(other)
    resumed.load_state_dict(optimizer.state_dict())
    step(optimizer, param)
    step(resumed, other)

    np.testing.assert_array_equal(param.numpy(), other.numpy())


def test_steps_go_on_from_a_state_of_pytorchs_and_lead_to_one() -> None:
    torch = pytest.importorskip("torch")
    peer = torch.tensor([-1.0, 2.0, 0.5], dtype=torch.float64, requires_grad=True)
    param = ag.tensor(np.array([-1.0, 2.0, 0.5]), requires_grad=True)

    def theirs(optimizer: Any) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = valley(peer, torch, None, None)
            loss.backward()
            return loss

        optimizer.step(closure)

    def ours(optimizer: optim.LBFGS) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = valley(param, np, None, None)
            sync.backward(loss)
            return loss

        optimizer.step(closure)

    first, resumed = torch.optim.LBFGS([peer], max_iter=3), optim.LBFGS([param], max_iter=3)
    theirs(first)
    with ag.no_grad():
        param[...] = peer.detach().numpy()
    resumed.load_state_dict(first.state_dict())
    theirs(first)
    ours(resumed)

    np.testing.assert_allclose(param.numpy(), peer.detach().numpy(), rtol=1e-12)
    state, expected = resumed.state_dict()["state"][0], first.state_dict()["state"][0]
    assert {name: state[name] for name in ("n_iter", "func_evals")} == {
        name: expected[name] for name in ("n_iter", "func_evals")
    }
    wrong = first.state_dict()
    wrong["state"][0]["old_dirs"] = [torch.zeros(2)]
    with pytest.raises(ArgumentError, match=r"old_dirs in state_dict has shape \(2,\), but the parameters have 3 n"):
        optim.LBFGS([param]).load_state_dict(wrong)


def test_a_closure_that_raises_leaves_parameters_and_state_as_they_were() -> None:
    param = ag.tensor([-1.0, 2.0], requires_grad=True)
    optimizer = optim.LBFGS([param])
    count = 0

    def closure() -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise ZeroDivisionError
        optimizer.zero_grad()
        loss = (param**4).sum()
        sync.backward(loss)
        return loss

    with pytest.raises(ZeroDivisionError):
        optimizer.step(closure)

    assert param.tolist() == [-1.0, 2.0]
    assert optimizer.state == {}


def test_gradients_without_a_closure_make_one_iteration() -> None:
    param, peer = (ag.tensor([3.0, -4.0], requires_grad=True) for _ in range(2))
    given, own = optim.LBFGS([param], lr=0.5), optim.LBFGS([peer], lr=0.5)
    for _ in range(3):
        given.step([2 * param.numpy()])
        peer.grad = ag.tensor(2 * peer.numpy())
        own.step()

    np.testing.assert_array_equal(param.numpy(), peer.numpy())
    assert abs(param.numpy()).max() < 3.0


def test_a_line_search_needs_a_closure_and_there_is_one_group() -> None:
    param = ag.tensor([3.0, -4.0], requires_grad=True)
    with pytest.raises(ArgumentError, match=r"write optimizer.step\(closure\)"):
        optim.LBFGS([param], line_search_fn="strong_wolfe").step([np.ones(2)])
    with pytest.raises(ArgumentError, match="LBFGS takes all parameters as one vector"):
        optim.LBFGS([{"params": [param]}, {"params": [ag.tensor([1.0], requires_grad=True)]}])


@pytest.mark.parametrize("options", [{"max_iter": 0}, {"history_size": 0}, {"line_search_fn": "wolfe"}, {"lr": -1.0}])
def test_an_option_out_of_range_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        optim.LBFGS([ag.tensor([3.0], requires_grad=True)], **options)
