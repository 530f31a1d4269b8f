"""Assigning `.grad`: what fits, what is refused, who owns the array, and what a backward makes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import GradientTypeError, InvalidGradientError
from tests.support.arrays import address
from tests.support.elsewhere import ELSEWHERE
from tests.support.failing import Trouble
from tests.support.functions import awaiting, calling
from tests.support.leaves import leaf
from tests.support.turns import Held, settle

# What fits.


def test_a_tensor_that_fits_is_shared_and_none_takes_it_away():
    x, gradient = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])

    x.grad = gradient

    assert x.grad is gradient
    x.grad = None
    assert x.grad is None


def test_to_delete_it_is_to_take_it_away():
    x = leaf(1.0)
    x.grad = ag.tensor([1.0])

    del x.grad

    assert x.grad is None
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_a_gradient_of_the_same_shape_and_dtype_fits_whether_or_not_one_is_asked_for(shape, dtype):
    x = ag.tensor(np.zeros(shape, dtype))
    gradient = ag.tensor(np.ones(shape, dtype))

    x.grad = gradient

    assert x.grad is gradient


def test_one_tensor_may_be_the_gradient_of_several():
    gradient = ag.tensor([3.0])
    x, y = leaf(1.0), leaf(2.0)
    x.grad = y.grad = gradient

    sync.backward(np.multiply(x, 2.0))

    assert x.grad is y.grad is gradient
    assert gradient.tolist() == [5.0]


def test_a_gradient_in_another_layout_or_that_is_a_view_fits():
    x = leaf(1.0, 2.0)
    x.grad = ag.asarray(np.arange(4.0)[::2])

    assert x.grad.tolist() == [0.0, 2.0]
    x.grad = x.detach()
    assert x.grad.tolist() == [1.0, 2.0]


def test_a_gradient_may_have_a_history_and_may_require_grad():
    x, w = leaf(1.0), leaf(2.0)
    x.grad = np.multiply(w, w)

    assert x.grad.requires_grad
    sync.backward(x.grad)
    assert w.grad.item() == 4.0


def test_what_is_no_leaf_takes_a_gradient_too():
    y = np.multiply(leaf(1.0), 2.0)
    y.grad = gradient = ag.tensor([3.0])

    assert y.grad is gradient


# What is refused.


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.0, GradientTypeError, "must be a Tensor or None, not float 1.0: write t.grad = ag.asarray"),
        (0, GradientTypeError, "not int 0"),
        (False, GradientTypeError, "not bool"),
        ([1.0, 2.0], GradientTypeError, "not list"),
        ("none", GradientTypeError, "not str"),
        (np.ones(2), GradientTypeError, r"not ndarray of shape \(2,\)"),
        (np.float64(1.0), GradientTypeError, "must be a Tensor"),
        (ag.Tensor, GradientTypeError, "must be a Tensor"),
        (ag.tensor(1.0), InvalidGradientError, r"shape \(\) .*shape \(2,\)"),
        (ag.tensor([1.0]), InvalidGradientError, r"shape \(1,\) .*shape \(2,\)"),
        (ag.tensor([1.0, 2.0, 3.0]), InvalidGradientError, r"shape \(3,\)"),
        (ag.tensor([[1.0, 2.0]]), InvalidGradientError, r"shape \(1, 2\).*reshape"),
        (ag.tensor([1, 2]), InvalidGradientError, "dtype int64.*dtype float64.*astype"),
        (ag.tensor([1.0, 2.0], dtype=np.float32), InvalidGradientError, "dtype float32"),
        (ag.tensor([1j, 2.0]), InvalidGradientError, "dtype complex128"),
        (ag.Tensor(np.ones(2), None, 0, ELSEWHERE), InvalidGradientError, r"on 'elsewhere'.*\.to\('cpu'\)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("had", [False, True])
def test_what_does_not_fit_is_refused_and_what_was_there_stays(value, error, message, had):
    x = leaf(1.0, 2.0)
    x.grad = before = ag.tensor([5.0, 6.0]) if had else None

    with pytest.raises(error, match=message):
        x.grad = value

    assert x.grad is before


def test_a_tensor_is_not_its_own_gradient():
    x = leaf(1.0)

    with pytest.raises(InvalidGradientError, match=r"its own gradient: write t\.grad = t\.detach\(\)\.copy\(\)"):
        x.grad = x
    assert x.grad is None


def test_the_errors_are_those_that_torch_raises():
    torch = pytest.importorskip("torch")
    x, theirs = leaf(1.0, 2.0), torch.ones(2, dtype=torch.double, requires_grad=True)
    pairs: list[tuple[Any, Any]] = [
        (1, 1),
        ([1.0], [1.0]),
        (ag.tensor([1.0]), torch.ones(1, dtype=torch.double)),
        (ag.tensor([1.0, 2.0], dtype=np.float32), torch.ones(2)),
        (x, theirs),
    ]
    for mine, yours in pairs:
        with pytest.raises((TypeError, RuntimeError)) as ours:
            x.grad = mine
        with pytest.raises((TypeError, RuntimeError)) as torchs:
            theirs.grad = yours
        assert isinstance(ours.value, type(torchs.value))


# What a backward makes of it.


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "counted"])
async def test_a_backward_adds_to_what_was_assigned_the_same_object_and_leaves_its_old_array_alone(watched):
    array = np.array([3.0, 4.0])
    x = leaf(1.0, 2.0)
    x.grad = gradient = ag.asarray(array)
    y = calling(x, lambda grad: None) if watched else np.multiply(x, 1.0)

    await ag.backward(y, np.ones(2))

    assert x.grad is gradient
    assert gradient.tolist() == [4.0, 5.0]
    assert array.tolist() == [3.0, 4.0]
    assert gradient._version == 1


async def test_a_body_may_set_the_gradient_of_a_leaf_that_has_its_own_still_to_come():
    x, y = leaf(1.0), leaf(2.0)

    def set_it(grad):
        x.grad = ag.tensor([100.0])

    await ag.backward(np.add(np.multiply(x, 2.0), calling(calling(y, set_it), lambda grad: None)))

    assert x.grad.tolist() == [102.0]


@pytest.mark.parametrize("value", [None, "another", "changed"])
async def test_what_is_assigned_while_a_backward_runs_stays_if_that_fails(value):
    """It is the assigner's, and no part of what the backward has done."""
    held = Held()
    x = leaf(1.0)

    async def fail(grad):
        await held(grad)
        raise Trouble

    x.grad = ag.tensor([5.0])
    # x gets its gradient at once; the other branch waits, and fails.
    out = np.add(calling(x, lambda grad: None), awaiting(leaf(2.0), fail))
    backward = asyncio.ensure_future(ag.backward(out))
    await held.begun.wait()
    await settle()
    assert x.grad.item() == 6.0
    assigned: Any = None if value is None else ag.tensor([50.0])
    x.grad = assigned
    if value == "changed":
        assigned += 1.0
    held.let_go.set()
    with pytest.raises(Trouble):
        await backward
    assert x.grad is assigned

    assert x.grad is None if value is None else x.grad.item() == {"another": 50.0, "changed": 51.0}[value]


async def test_zeroing_the_gradients_between_two_backward_passes_starts_anew():
    x = leaf(1.0)

    for _ in range(2):
        x.grad = None
        await ag.backward(np.multiply(x, 3.0))

    assert x.grad.item() == 3.0


def test_an_assigned_gradient_shares_its_memory_with_what_was_assigned():
    x, gradient = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    x.grad = gradient

    assert address(x.grad) == address(gradient)
    gradient *= 2.0
    assert x.grad.tolist() == [6.0, 8.0]
