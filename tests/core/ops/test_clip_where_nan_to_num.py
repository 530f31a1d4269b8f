"""How clip, where and nan_to_num take their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import InPlaceError


@pytest.mark.parametrize("bound", ["min", "max"])
def test_clip_refuses_a_bound_that_is_given_twice(bound: str) -> None:
    tensor = ag.tensor([1.0, 2.0])

    with pytest.raises(ValueError, match="not both ways"):
        np.clip(tensor, 0.0, 1.0, **{bound: 0.5})  # type: ignore[call-overload]


def test_clip_writes_into_out_by_position_as_by_name() -> None:
    tensor, out = ag.tensor([1.0, 5.0]), ag.tensor([0.0, 0.0])

    assert np.clip(tensor, 0.0, 3.0, out) is out  # type: ignore[call-overload]
    assert out.numpy().tolist() == [1.0, 3.0]


def test_clip_of_an_array_between_tensors_has_their_history() -> None:
    low = ag.tensor([1.0, 2.0], requires_grad=True)
    clipped: Any = np.clip(np.array([0.0, 5.0]), low, None)

    assert clipped.requires_grad
    assert clipped.numpy().tolist() == [1.0, 5.0]


def test_where_takes_a_tensor_condition_between_numbers() -> None:
    condition = ag.tensor([True, False])
    chosen: Any = np.where(condition, 1.0, 2.0)

    assert isinstance(chosen, ag.Tensor)
    assert chosen.numpy().tolist() == [1.0, 2.0]


def test_nan_to_num_does_not_write_into_its_argument() -> None:
    tensor = ag.tensor([np.nan, 1.0])

    with pytest.raises(InPlaceError, match="copy=False"):
        np.nan_to_num(tensor, copy=False)
    assert np.isnan(tensor.numpy()[0])


def test_clip_leaves_out_as_it_is_where_its_mask_does_not_hold() -> None:
    x = ag.tensor([-1.0, 0.5, 5.0], requires_grad=True)
    out = ag.tensor([7.0, 8.0, 9.0], requires_grad=True)
    mask = np.array([True, True, False])

    written = out.clone()
    result: ag.Tensor = np.clip(x, 0.0, 1.0, out=written, where=mask)  # type: ignore[call-overload]
    ag.sync.backward(result.sum())

    assert result is written
    assert result.tolist() == np.clip(x.detach().numpy(), 0, 1, out=np.array([7.0, 8.0, 9.0]), where=mask).tolist()
    assert x.grad is not None
    assert out.grad is not None
    assert x.grad.tolist() == [0, 1, 0]
    assert out.grad.tolist() == [0, 0, 1]


def test_clip_with_a_mask_needs_out_and_names_what_it_does_not_take() -> None:
    x = ag.tensor([1.0])

    with pytest.raises(TypeError, match=r"numpy.clip with where= leaves the rest undefined: pass out= as well"):
        np.clip(x, 0.0, 1.0, where=np.array([True]))
    with pytest.raises(TypeError, match=r"numpy.clip on a Tensor does not take casting"):
        np.clip(x, 0.0, 1.0, casting="unsafe")
