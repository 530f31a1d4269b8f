"""Tensor: its state, its history, and the memory that it shares."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import DeviceError, GradientTypeError, InvalidGradientError, RequiresGradError
from tests.support.elsewhere import ELSEWHERE
from tests.support.leaves import leaf

# State.


def test_a_new_tensor_is_a_leaf_that_requires_no_grad():
    t = ag.tensor([1.0, 2.0])

    assert (t.requires_grad, t.grad, t.grad_fn, t.is_leaf, t.output_nr) == (False, None, None, True, 0)
    assert ag.device("cpu") is t.device


def test_a_result_of_what_requires_grad_requires_grad_and_is_no_leaf():
    y = leaf(1.0, 2.0) * 2

    assert (y.requires_grad, y.is_leaf, y.grad_fn.name) == (True, False, "MultiplyBackward")


def test_a_result_made_under_no_grad_is_a_leaf_that_requires_no_grad():
    x = leaf(1.0)
    with ag.no_grad():
        y = x * 2

    assert (y.requires_grad, y.is_leaf) == (False, True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_floating_and_complex_tensors_can_require_grad(dtype):
    t = ag.tensor([1], dtype=dtype)

    assert t.requires_grad_() is t
    assert t.requires_grad


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, int])
@pytest.mark.parametrize(
    "ask",
    [
        lambda data: ag.tensor(data, requires_grad=True),
        lambda data: ag.asarray(data, requires_grad=True),
        lambda data: ag.asarray(ag.tensor(data), requires_grad=True),
        lambda data: ag.tensor(data).requires_grad_(),
        lambda data: setattr(ag.tensor(data), "requires_grad", True),
    ],
    ids=["tensor", "asarray", "asarray of a tensor", "requires_grad_", "requires_grad ="],
)
def test_other_tensors_cannot_require_grad(ask, dtype):
    data = np.ones(2, dtype)

    with pytest.raises(RequiresGradError, match=f"dtype {data.dtype}.*astype"):
        ask(data)


def test_a_leaf_may_stop_requiring_grad_and_a_backward_then_leaves_it_alone():
    x, w = leaf(1.0), leaf(2.0)
    y = x * w
    x.requires_grad = False
    sync.backward(y)

    assert x.grad is None
    assert w.grad.tolist() == [1.0]


def test_what_was_computed_cannot_stop_requiring_grad():
    y = leaf(1.0) * 2

    with pytest.raises(RequiresGradError, match=r"MultiplyBackward.*t\.detach\(\)"):
        y.requires_grad = False
    assert y.requires_grad_() is y


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.ones(2), GradientTypeError, r"not ndarray of shape \(2,\).*ag\.asarray\(value\)"),
        (1.0, GradientTypeError, "not float 1.0"),
        (ag.tensor(np.ones(3)), InvalidGradientError, r"shape \(3,\).*shape \(2,\)"),
        (ag.tensor(np.ones((2, 1))), InvalidGradientError, r"shape \(2, 1\).*reshape"),
        (ag.tensor(np.ones(2, np.float32)), InvalidGradientError, "dtype float32.*dtype float64.*astype"),
        (ag.tensor(np.ones(2), device=ELSEWHERE), InvalidGradientError, r"'elsewhere'.*'cpu'.*\.to\('cpu'\)"),
    ],
    ids=["ndarray", "float", "length", "shape", "dtype", "device"],
)
def test_grad_refuses_what_does_not_fit_and_keeps_what_it_had(value, error, message):
    x, before = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    x.grad = before

    with pytest.raises(error, match=message):
        x.grad = value
    assert x.grad is before


def test_a_tensor_is_not_its_own_gradient():
    x = leaf(1.0)

    with pytest.raises(InvalidGradientError, match="own gradient"):
        x.grad = x


def test_to_its_own_device_is_the_tensor_itself():
    x = leaf(1.0)

    assert x.to("cpu") is x
    assert x.to(x.device) is x


@pytest.mark.parametrize("make", [lambda name: leaf(1.0).to(name), lambda name: ag.tensor(1.0, device=name), ag.device])
@pytest.mark.parametrize("name", ["moon", "moon:1", "", "cpu:x", "__init__", 3])
def test_an_unknown_device_raises_and_says_what_there_is(make, name):
    with pytest.raises(DeviceError, match=rf"(?=.*{name!r})(?=.*'cpu')"):
        make(name)


def test_to_a_device_that_there_is_not_raises():
    with pytest.raises(DeviceError, match=r"there is no device 'nowhere'; there are .*'cpu'"):
        leaf(1.0).to("nowhere")


# History and memory.


def test_detach_shares_memory_and_versions_and_has_no_history():
    y = leaf(1.0, 2.0) * 2
    z = y.detach()
    z += 1

    assert (z.requires_grad, z.is_leaf) == (False, True)
    assert y.numpy().tolist() == [3.0, 5.0]
    assert (y._version, z._version) == (1, 1)
    assert not z.is_view


def test_detach_in_place_makes_a_leaf_that_no_gradient_reaches():
    x = leaf(1.0, 2.0)
    y = x * 2
    loss = (y * y).sum()

    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf, y.output_nr) == (False, True, 0)
    sync.backward(loss)
    assert x.grad.tolist() == [8.0, 16.0]


def test_detach_in_place_stops_keeping_the_gradient_and_drops_the_hooks():
    x = leaf(1.0)
    seen: list[Any] = []
    y = x * 2
    y.retain_grad()
    y.register_hook(seen.append)
    z = y * 3
    y.detach_().requires_grad_()
    sync.backward(z)
    sync.backward(y * 5)

    assert len(seen) == 1
    assert (y.retains_grad, y.grad.tolist(), x.grad.tolist()) == (False, [5.0], [6.0])


def test_a_second_derivative_through_a_tensor_detached_in_place_raises():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.detach_()

    with pytest.raises(RuntimeError, match=r"MultiplyBackward.*shape \(2,\).*t\.detach\(\)"):
        sync.grad(z, [x], create_graph=True)


@pytest.mark.parametrize(
    "clone",
    [lambda t: t.clone(), lambda t: t.copy(), np.copy, copy.copy],
    ids=["clone", "copy", "np.copy", "copy.copy"],
)
def test_a_copy_of_what_was_computed_is_recorded_and_shares_nothing(clone):
    x = leaf(1.0, 2.0)
    y = clone(x * 2)

    assert y.requires_grad
    assert not y.is_leaf
    y.numpy()[:] = 0
    sync.backward(y.sum())
    assert x.grad.tolist() == [2.0, 2.0]


def test_numpy_is_a_view_of_the_data_even_where_a_gradient_flows():
    y = leaf(1.0, 2.0) * 2
    y.numpy()[0] = 7

    assert isinstance(y.numpy(), np.ndarray)
    assert y.tolist() == [7.0, 4.0]


def test_the_version_counts_writes_in_place_and_cannot_be_set():
    t: Any = ag.tensor([1.0, 2.0])
    versions = [t._version]
    t += 1
    versions.append(t._version)
    t[0] = 5
    versions.append(t._version)
    np.exp(t, out=t)
    versions.append(t._version)
    t.numpy()[0] = 5
    versions.append(t._version)

    assert versions == [0, 1, 2, 3, 3]
    with pytest.raises(AttributeError):
        t._version = 0


VIEWS = {
    "basic index": lambda t: t[0],
    "slice": lambda t: t[:, 1:],
    "reshape": lambda t: t.reshape(-1),
    "transpose": lambda t: t.T,
    "broadcast_to": lambda t: np.broadcast_to(t, (2, 2, 3)),
    "view of a view": lambda t: t[0][1:],
    "real": np.real,
}
COPIES = {
    "advanced index": lambda t: t[:, [0, 1]],
    "mask": lambda t: t[t.numpy() > 1],
    "reshape of a transpose": lambda t: t.T.reshape(-1),
    "arithmetic": lambda t: t * 1,
    "copy": lambda t: t.copy(),
    "roll": lambda t: np.roll(t, 1),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_says_so_and_shares_memory_and_versions(view, recording):
    t = ag.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    with ag.set_grad_enabled(recording):
        v = view(t)
    with ag.no_grad():
        t += 1

    assert v.is_view
    assert not t.is_view
    assert np.shares_memory(v.numpy(), t.numpy())
    assert v._version == 1


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_is_no_view_and_has_versions_of_its_own(make):
    t = ag.tensor(np.arange(6.0).reshape(2, 3))
    c = make(t)
    t += 1

    assert not c.is_view
    assert not np.shares_memory(c.numpy(), t.numpy())
    assert (t._version, c._version) == (1, 0)


def test_tensor_copies_and_asarray_shares():
    data = np.zeros(3)
    copied, shared = ag.tensor(data), ag.asarray(data)
    data[0] = 1

    assert copied.tolist() == [0.0, 0.0, 0.0]
    assert shared.tolist() == [1.0, 0.0, 0.0]


def test_asarray_of_another_dtype_copies():
    data = np.zeros(3)

    assert not np.shares_memory(ag.asarray(data, dtype=np.float32).numpy(), data)


def test_asarray_of_a_tensor_is_that_tensor():
    y = leaf(1.0) * 2

    assert ag.asarray(y) is y
    assert ag.asarray(y, dtype=float, device="cpu", requires_grad=True) is y


def test_asarray_of_a_tensor_in_another_dtype_keeps_its_history():
    x = leaf(1.0)
    sync.backward(ag.asarray(x, dtype=np.float32) * 3)

    assert (np.float64, [3.0]) == (x.grad.dtype, x.grad.tolist())


def test_asarray_does_not_make_another_tensor_require_grad():
    t = ag.tensor([1.0])
    x = ag.asarray(t, requires_grad=True)

    assert (x.requires_grad, t.requires_grad) == (True, False)
    assert np.shares_memory(x.numpy(), t.numpy())


def test_tensor_of_a_tensor_is_a_new_leaf():
    y = leaf(1.0) * 2
    t = ag.tensor(y)

    assert (t.is_leaf, t.requires_grad) == (True, False)
    assert not np.shares_memory(t.numpy(), y.numpy())


@pytest.mark.parametrize("make", [ag.tensor, ag.asarray, np.array, np.asarray])
def test_a_sequence_of_tensors_without_history_makes_one_array(make):
    t = ag.tensor([1, 2])

    assert make([t, (3, 4)]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("make", [ag.tensor, ag.asarray, np.array, np.asarray])
def test_a_sequence_never_drops_the_history_of_its_tensors(make):
    x = leaf(1.0)

    for nested in ([x, x], [[1.0], x * 2], (x[0], 1.0)):
        with pytest.raises(RequiresGradError, match=r"np\.stack"):
            make(nested)


@pytest.mark.parametrize("data", ["abc", {}, None, ["a", 1], object()], ids=lambda data: type(data).__name__)
@pytest.mark.parametrize("make", [ag.tensor, ag.asarray])
def test_a_tensor_holds_numbers_only(make, data):
    with pytest.raises(TypeError, match=r"holds numbers.*dtype"):
        make(data)
