"""asyncgrad.func against torch.func."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncgrad.sync import func

torch = pytest.importorskip("torch")

#: Its forward mode compiles its own formulas with what it deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

X = np.array([[0.3, 0.7], [1.1, -0.4]])
W = np.array([0.5, -1.5])


def loss(params: Any, np_like: Any = np) -> Any:
    return (np_like.tanh(params["x"] @ params["w"]) ** 2).sum()


def outputs(params: Any, np_like: Any = np) -> Any:
    return np_like.tanh(params["x"] @ params["w"]), (params["w"] ** 3)


OURS: dict[str, Any] = {"x": X, "w": W}
THEIRS = {name: torch.tensor(array) for name, array in OURS.items()}


def of_torch(fn: Any) -> Any:
    return lambda params: fn(params, torch)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key, entry in theirs.items():
            assert_same(ours[key], entry)
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["grad", "hessian"])
def test_derivatives_of_a_number_are_those_of_torch(name):
    assert_same(getattr(func, name)(loss)(OURS), getattr(torch.func, name)(of_torch(loss))(THEIRS))


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_derivatives_of_a_tree_are_those_of_torch(name):
    assert_same(getattr(func, name)(outputs)(OURS), getattr(torch.func, name)(of_torch(outputs))(THEIRS))


def test_products_are_those_of_torch():
    out, pullback = func.vjp(outputs, OURS)
    their_out, their_pullback = torch.func.vjp(of_torch(outputs), THEIRS)
    cotangents = (np.array([1.0, 2.0]), np.array([3.0, 4.0]))

    assert_same(out, their_out)
    assert_same(pullback(cotangents), their_pullback(tuple(map(torch.tensor, cotangents))))
    assert_same(func.jvp(outputs, (OURS,), (OURS,)), torch.func.jvp(of_torch(outputs), (THEIRS,), (THEIRS,)))
    assert_same(func.linearize(outputs, OURS)[1](OURS), torch.func.jvp(of_torch(outputs), (THEIRS,), (THEIRS,))[1])
