"""A masked array never loses its mask in silence, whichever way it comes to a tensor; nor is a matrix taken for one."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentTypeError
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.refusals import refused

MASKED: Any = np.ma.array([3.0, 4.0], mask=[False, True])
CONDITION: Any = np.ma.array([True, False], mask=[False, True])
PLACES: Any = np.ma.array([0, 1], mask=[False, True])

OPERATORS: list[Any] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.matmul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
    *(operator.iadd, operator.imul, operator.ipow, operator.ifloordiv),
]

USES: dict[str, Any] = {
    **{act.__name__: lambda t, act=act: act(t, MASKED) for act in OPERATORS},
    "divmod": lambda t: divmod(t, MASKED),
    "np.add": lambda t: np.add(t, MASKED),
    "np.add, masked first": lambda t: np.add(MASKED, t),
    "np.add.at": lambda t: np.add.at(t, [0, 1], MASKED),
    "np.add, where": lambda t: np.add(t, 1.0, where=CONDITION, out=t),
    "maximum": lambda t: np.maximum(t, MASKED),
    "where, condition": lambda t: np.where(CONDITION, t, 0.0),
    "where": lambda t: np.where([True, False], t, MASKED),
    "concatenate": lambda t: np.concatenate([t, MASKED]),
    "stack": lambda t: np.stack([t, MASKED]),
    "append": lambda t: np.append(t, MASKED),
    "dot": lambda t: np.dot(t, MASKED),
    "t.dot": lambda t: t.dot(MASKED),
    "einsum": lambda t: np.einsum("i,i", t, MASKED),
    "outer": lambda t: np.outer(t, MASKED),
    "clip": lambda t: t.clip(MASKED, None),
    "average": lambda t: np.average(t, weights=MASKED),
    "sum, where": lambda t: t.sum(where=CONDITION),
    "mean, where": lambda t: np.mean(t, where=CONDITION),
    "select": lambda t: np.select([CONDITION], [t]),
    "choose": lambda t: ag.tensor([0, 1]).choose([t, MASKED]),
    "searchsorted": lambda t: t.searchsorted(MASKED),
    "take": lambda t: t.take(PLACES),
    "compress": lambda t: t.compress(CONDITION),
    "repeat": lambda t: t.repeat(PLACES),
    "[condition]": lambda t: t[CONDITION],
    "[places]": lambda t: t[PLACES],
    "[...] =": lambda t: t.__setitem__(..., MASKED),
    "[condition] =": lambda t: t.__setitem__(CONDITION, 0.0),
    "copyto": lambda t: np.copyto(t, MASKED),
    "copyto, where": lambda t: np.copyto(t, 1.0, where=CONDITION),
    "put": lambda t: t.put([0, 1], MASKED),
    "putmask": lambda t: np.putmask(t, CONDITION, 1.0),
    "place": lambda t: np.place(t, [True, True], MASKED),
    "mse_loss": lambda t: nn.mse_loss(t, MASKED),
    "l1_loss": lambda t: nn.l1_loss(t, MASKED),
    "linear": lambda t: nn.linear(t.reshape(1, 2), MASKED.reshape(1, 2)),
    "relu": lambda t: nn.relu(MASKED),
    "cross_entropy": lambda t: nn.cross_entropy(t.reshape(1, 2), np.ma.array([1], mask=[False])),
    "cross_entropy, weight": lambda t: nn.cross_entropy(t.reshape(1, 2), np.array([1]), MASKED),
    "gradient": lambda t: sync.backward(leaf(1.0, 2.0) * 2, MASKED),
    "vjp": lambda t: sync.vjp(lambda x: x * 2, t, MASKED),
    "jacobian": lambda t: sync.jacobian(lambda x: x * 2, MASKED),
    "a Function's forward": lambda t: function(lambda ctx, x: MASKED).apply(leaf(1.0, 2.0)),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_operation_drops_a_mask(use, requires_grad):
    t = ag.tensor([1.0, 2.0], requires_grad=requires_grad) * 1
    before = t.tolist()

    with refused(ArgumentTypeError, TypeError, "masked array of shape", "lose its mask", "m.filled(value)"):
        use(t)
    assert t.tolist() == before


@pytest.mark.parametrize("data", [MASKED, [MASKED, MASKED], [[1.0, 2.0], MASKED], ([MASKED],)], ids=str)
@pytest.mark.parametrize("make", [ag.tensor, ag.asarray, lambda data: ag.tensor(data, device="thread:0")])
def test_no_tensor_is_made_of_a_masked_array(make, data):
    with refused(ArgumentTypeError, TypeError, "masked array of shape (2,)", "m.filled(value)"):
        make(data)


def test_no_backward_takes_a_masked_array_for_a_gradient():
    doubled = function(lambda ctx, x: x * 2, lambda ctx, grad: np.ma.array(grad.numpy(), mask=[False, True]))
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda grad: np.ma.array(grad.numpy(), mask=[False, True]))

    for out in (doubled.apply(x), y):  # type: ignore[attr-defined]
        with refused(ArgumentTypeError, TypeError, "masked array of shape (2,)"):
            sync.backward(out.sum())
    assert x.grad is None


def test_numpys_masked_functions_take_a_tensor_without_grad_and_keep_the_mask():
    t = ag.tensor([1.0, 2.0])

    for result in (MASKED + t, np.ma.add(MASKED, t), MASKED * t):
        assert result.mask.tolist() == [False, True]
    assert np.ma.array(t, mask=[True, False]).mask.tolist() == [True, False]


MATRIX: Any = np.asarray([[1.0, 2.0], [3.0, 4.0]]).view(np.matrix)


@pytest.mark.parametrize("act", [operator.mul, operator.add, operator.sub, operator.truediv])
def test_no_operator_takes_a_matrix_for_an_array(act):
    t = ag.tensor(np.ones((2, 2)), requires_grad=True)

    for use in (lambda: act(t, MATRIX), lambda: act(MATRIX, t)):
        with refused(ArgumentTypeError, TypeError, "np.matrix", "write np.asarray(m)"):
            use()


def test_a_matrix_is_data_like_any_other():
    assert ag.tensor(MATRIX).tolist() == MATRIX.tolist()
