"""asyncgrad.numpy: Tensors made of other things."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.numpy as anp
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.versions import is_numpy

CREATED = {
    "zeros": lambda np, **where: np.zeros((2, 3), **where),
    "ones": lambda np, **where: np.ones(2, dtype=np.float32, **where),
    "full": lambda np, **where: np.full((2,), 7.0, **where),
    "arange": lambda np, **where: np.arange(0.0, 3.0, 0.5, **where),
    "linspace": lambda np, **where: np.linspace(0.0, 1.0, 5, **where),
    "eye": lambda np, **where: np.eye(2, 3, k=1, **where),
    "array": lambda np, **where: np.array([[1.0, 2.0], [3.0, 4.0]], **where),
    "asarray": lambda np, **where: np.asarray([1.0, 2.0], **where),
    "tri": lambda np, **where: np.tri(3, **where),
    "fftfreq": lambda np, **where: np.fft.fftfreq(5, 0.1, **where),
}


@pytest.mark.parametrize("name", CREATED)
def test_a_new_tensor_holds_what_numpy_makes(name: str) -> None:
    ours, theirs = CREATED[name](anp), CREATED[name](np)
    assert type(ours) is ag.Tensor
    assert not ours.requires_grad
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("name", CREATED)
def test_a_new_tensor_lives_where_it_is_wanted(name: str) -> None:
    assert CREATED[name](anp, device="thread:0").device is ag.device("thread:0")
    with ag.default_device("thread:0"):
        assert CREATED[name](anp).device is ag.device("thread:0")
        assert CREATED[name](anp, device="cpu").device is ag.device("cpu")


@pytest.mark.parametrize("name", sorted(set(CREATED) - {"fftfreq"}))
def test_a_new_tensor_may_require_grad(name: str) -> None:
    made = CREATED[name](anp, requires_grad=True)
    assert made.requires_grad
    assert made.is_leaf


def test_an_array_of_tensors_keeps_their_history() -> None:
    x, y = ag.tensor(2.0, requires_grad=True), ag.tensor([1.0, 2.0], requires_grad=True)
    made = anp.array([[x * x, 1.0], y])

    assert made.tolist() == [[4.0, 1.0], [1.0, 2.0]]
    sync.backward(made, np.array([[1.0, 1.0], [10.0, 100.0]]))
    assert x.grad is not None
    assert x.grad.tolist() == 4.0
    assert y.grad is not None
    assert y.grad.tolist() == [10.0, 100.0]
    assert anp.asarray((x, x), dtype=np.float32).dtype == np.float32


def test_an_array_is_a_copy_and_asarray_is_not() -> None:
    data, x = np.ones(3), ag.tensor([1.0, 2.0], requires_grad=True)
    anp.asarray(data)[0] = 5.0
    assert data[0] == 5.0
    anp.array(data)[0] = 6.0
    assert data[0] == 5.0

    assert anp.asarray(x) is x
    copied = anp.array(x)
    assert copied is not x
    assert copied.grad_fn is not None
    assert anp.array(x, ndmin=3).shape == (1, 1, 2)
    assert anp.asfortranarray(anp.ones((2, 3))).numpy().flags.f_contiguous
    assert anp.ascontiguousarray(anp.ones((2, 3)).T).numpy().flags.c_contiguous
    assert anp.ascontiguousarray(x) is x


@pytest.mark.parametrize("given", [ag.tensor([1.0]), np.array([1.0])], ids=["tensor", "array"])
def test_a_copy_that_is_forbidden_and_needed_raises(given: Any) -> None:
    anp.asarray(given, copy=False)
    with pytest.raises(ValueError, match="copy"):
        anp.asarray(given, dtype=np.float32, copy=False)


def test_full_takes_the_elements_of_a_tensor() -> None:
    x = ag.tensor(3.0, requires_grad=True)
    made = anp.full((2, 2), x)
    sync.backward(made.sum())

    assert made.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert x.grad is not None
    assert x.grad.tolist() == 4.0


def test_memory_comes_by_dlpack() -> None:
    data, x = np.ones(2), ag.tensor([1.0, 2.0])
    assert np.shares_memory(anp.from_dlpack(data).numpy(), data)
    if is_numpy("2.3"):  # before, an array of NumPy's from_dlpack cannot be written into
        anp.from_dlpack(data)[0] = 9.0
        assert data[0] == 9.0
    assert anp.from_dlpack(x) is x
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]
    with pytest.raises(ag.errors.RequiresGradError):
        ag.tensor(1.0, requires_grad=True).__dlpack__()


def test_the_standards_parameters_beyond_numpys() -> None:
    x = ag.tensor([2.0, 3.0, 1.0, 3.0], requires_grad=True)
    assert anp.sort(x, descending=True).tolist() == [3.0, 3.0, 2.0, 1.0]
    assert anp.argsort(x, descending=True, stable=True).tolist() == [1, 3, 0, 2]
    assert anp.argsort(x.reshape(2, 2), axis=None, descending=True, stable=True).tolist() == [1, 3, 0, 2]
    sync.backward(anp.sort(x, descending=True), np.array([4.0, 3.0, 2.0, 1.0]))
    assert x.grad is not None
    assert sorted(x.grad.tolist()) == [1.0, 2.0, 3.0, 4.0]
    assert anp.fft.rfftfreq(4, dtype=np.float32).dtype == np.float32
    assert x.detach().to_device("thread:0").device is ag.device("thread:0")
    with pytest.raises(ag.errors.ArgumentError, match="takes no stream"):
        x.to_device("cpu", stream=3)
    with pytest.raises(ag.errors.ArgumentError, match="both min and a_min"):
        anp.clip(x, 1.0, a_min=2.0)


def test_what_no_array_can_be_made_of_is_told():
    with pytest.raises(ArgumentError, match=r"ragged: data\[0\] is of shape \(2,\), and data\[1\] is of shape \(1,\)"):
        anp.array([[1.0, 2.0], [3.0]])
    with pytest.raises(ArgumentTypeError, match=r"has __dlpack__, not list.*: write asarray\(x\)"):
        anp.from_dlpack([1.0])
