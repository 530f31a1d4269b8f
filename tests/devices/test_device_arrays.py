"""Models, optimizers, checkpoints, offloading and tensors on a device whose arrays are not NumPy's."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.core.arrays.interception import on_device_of
from asyncgrad.core.arrays.values import is_device_array
from asyncgrad.core.engine.device import device_of_array
from asyncgrad.core.graph import cost
from asyncgrad.core.graph.saved import SavedMemory
from asyncgrad.devices import Device
from asyncgrad.errors import ArgumentTypeError, ChangedTensorError, IndexRangeError
from asyncgrad.testing import MemoryStore, SimulatedAccelerator
from tests.core.engine.accelerated import slow_accelerator
from tests.support.arrays import bits
from tests.support.device_arrays import DEVICES
from tests.support.settings import compiled_after

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda params: optim.SGD(params, 0.1),
    "momentum": lambda params: optim.SGD(params, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "dampening": lambda params: optim.SGD(params, 0.1, momentum=0.9, dampening=0.5),
    "Adam": lambda params: optim.Adam(params, 0.1),
    "amsgrad": lambda params: optim.Adam(params, 0.1, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda params: optim.AdamW(params, 0.1),
}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device with arrays of its own, of each type."""
    with DEVICES[request.param]() as opened:
        yield opened


def host(tensor: Any) -> Any:
    """Return the elements of a tensor as a NumPy array, wherever it lives."""
    return tensor.detach().to("cpu").numpy()


class Classifier:
    """Two layers, from one seed, that tell three classes apart; their input, labels and optimizer on a device."""

    def __init__(self, device: Any, optimizer: str = "SGD") -> None:
        rng = np.random.default_rng(3)
        shapes = [(16, 4), (16,), (3, 16), (3,)]
        self.params = [
            ag.tensor(rng.normal(size=shape).astype(np.float32), device=device, requires_grad=True) for shape in shapes
        ]
        self.x = ag.tensor(rng.normal(size=(10, 4)).astype(np.float32), device=device)
        self.labels = ag.tensor(np.arange(10) % 3, device=device)
        self.optimizer = OPTIMIZERS[optimizer](self.params)

    def loss(self) -> Any:
        w1, b1, w2, b2 = self.params
        return nn.cross_entropy(nn.linear(nn.relu(nn.linear(self.x, w1, b1)), w2, b2), self.labels)

    def train(self, steps: int = 4) -> list[bytes]:
        """Take some steps; return the bits of the parameters."""
        for _ in range(steps):
            self.optimizer.zero_grad()
            sync.backward(self.loss())
            self.optimizer.step()
        return [host(param).tobytes() for param in self.params]


# Training.


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("after", [None, 0])
def test_a_training_has_the_bits_of_numpy(device: Any, optimizer: str, after: int | None) -> None:
    expected = Classifier("cpu", optimizer).train()

    with compiled_after(after):
        assert Classifier(device, optimizer).train() == expected


@final
class Prompt(Device):
    """A device of the same arrays, whose work is done when a call returns: its backward may be compiled."""

    has_strides = has_host_arrays = False
    name = "prompt"

    def __init__(self) -> None:
        self._accelerator = SimulatedAccelerator()

    def from_host(self, array: Any) -> Any:
        return self._accelerator.from_host(array)

    def to_host(self, array: Any) -> Any:
        return self._accelerator.to_host(array)


def test_a_compiled_backward_is_called_again_on_arrays_of_a_device() -> None:
    model = Classifier(Prompt())
    with compiled_after(0):
        before = ag.engine.compiled_stats().hits
        found = model.train()

        assert ag.engine.compiled_stats().hits > before
    assert found == Classifier("cpu").train()


@pytest.mark.parametrize("optimizer", ["momentum", "amsgrad"])
def test_the_state_of_an_optimizer_moves_to_the_device_that_loads_it(device: Any, optimizer: str) -> None:
    there, elsewhere = Classifier(device, optimizer), Classifier(SimulatedAccelerator(), optimizer)
    here, expected = Classifier("cpu", optimizer), Classifier("cpu", optimizer)
    here.train(2)
    expected.train(2)
    there.optimizer.load_state_dict(here.optimizer.state_dict())
    elsewhere.optimizer.load_state_dict(there.optimizer.state_dict())
    here.optimizer.load_state_dict(elsewhere.optimizer.state_dict())

    for model in (there, elsewhere):
        arrays = [
            value for state in model.optimizer.state.values() for value in state.values() if is_device_array(value)
        ]
        assert {device_of_array(array) for array in arrays} == {model.x.device}
    assert here.train(2) == expected.train(2)


def test_a_copy_of_the_state_of_an_optimizer_does_not_change_with_it(device: Any) -> None:
    model = Classifier(device, "Adam")
    model.train(1)
    saved = model.optimizer.state_dict()
    before = saved["state"][0]["exp_avg"].tolist()
    model.train(1)

    assert saved["state"][0]["exp_avg"].tolist() == before


def test_gradients_are_set_to_zeros_on_their_device(device: Any) -> None:
    model = Classifier(device)
    sync.backward(model.loss())
    model.optimizer.zero_grad(set_to_none=False)

    assert model.params[0].grad is not None
    assert model.params[0].grad.device is device
    assert not host(model.params[0].grad).any()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_recomputes_the_same_bits(device: Any, use_reentrant: bool) -> None:
    def gradient(where: Any) -> Any:
        w = ag.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), device=where, requires_grad=True)
        rng = np.random.default_rng(5)
        layer = lambda x: nn.dropout(np.tanh(x @ w.T) @ w, 0.5, rng=rng)
        x = ag.tensor(np.ones((2, 4)), device=where, requires_grad=True)
        sync.backward(ag.checkpoint(layer, x, use_reentrant=use_reentrant).sum())
        return host(w.grad).tobytes(), host(x.grad).tobytes()

    assert gradient(device) == gradient("cpu")


# No function waits for the device.


def unwaited(make: Callable[[Any], Any]) -> Any:
    """Call a function with what puts an array on a device; assert that the host has not waited for that."""
    device = slow_accelerator()
    result = make(lambda array: ag.tensor(array, device=device, requires_grad=np.asarray(array).dtype.kind == "f"))
    if result.requires_grad:
        sync.backward(result.sum())

    assert device.clock.now == 0.0
    return host(result)


IMAGES = np.linspace(-1.0, 1.0, 72).reshape(2, 1, 6, 6)
SCORES = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "attention": lambda put: nn.scaled_dot_product_attention(put(SCORES), put(SCORES), put(SCORES), is_causal=True),
    "conv2d": lambda put: nn.conv2d(put(IMAGES), put(np.ones((2, 1, 3, 3))), put(np.ones(2)), padding=1),
    "cross_entropy": lambda put: nn.cross_entropy(put(SCORES), put(np.array([0, 1, 2, -100]))),
    "cross_entropy of host labels": lambda put: nn.cross_entropy(put(SCORES), np.array([0, 1, 2, -100])),
    "dropout": lambda put: nn.dropout(put(SCORES), rng=np.random.default_rng(0)),
    "embedding": lambda put: nn.embedding(put(np.array([[0, 3], [1, 1]])), put(SCORES), padding_idx=1),
    "gelu": lambda put: nn.gelu(put(SCORES)),
    "layer_norm": lambda put: nn.layer_norm(put(SCORES), 3, put(np.ones(3)), put(np.zeros(3))),
    "log_softmax": lambda put: nn.log_softmax(put(SCORES)),
    "max_pool2d": lambda put: nn.max_pool2d(put(IMAGES), 2, padding=1),
    "nll_loss": lambda put: nn.nll_loss(put(SCORES), put(np.array([0, 1, 2, 0])), np.arange(3.0)),
    "sigmoid": lambda put: nn.sigmoid(put(SCORES)),
    "softmax": lambda put: nn.softmax(put(SCORES)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_nn_does_not_wait_for_the_device(name: str) -> None:
    expected = FUNCTIONS[name](lambda array: ag.tensor(array))

    np.testing.assert_allclose(unwaited(FUNCTIONS[name]), host(expected), rtol=1e-12)


def test_a_slow_node_of_an_asynchronous_device_lets_no_body_look_for_large_arrays(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "large_arrays_met", [False])
    monkeypatch.setattr(cost, "_on_large_arrays", [])
    y = ag.tensor(np.zeros(cost.LARGE), device=device, requires_grad=True) * 2
    y.grad_fn.note_slow()  # type: ignore[union-attr]

    assert cost.large_arrays_met == [False]
    (ag.tensor(np.zeros(cost.LARGE), requires_grad=True) * 2).grad_fn.note_slow()  # type: ignore[union-attr]
    assert cost.large_arrays_met == [True]


def test_a_label_on_a_device_that_is_no_class_makes_the_loss_nan_unwaited() -> None:
    for wrong in (3, -1):
        loss = unwaited(lambda put, label=wrong: nn.cross_entropy(put(SCORES), put(np.array([0, 1, label, 2]))))
        assert np.isnan(loss)


def test_a_label_on_the_host_that_is_no_class_is_an_error_whatever_the_device(device: Any) -> None:
    with pytest.raises(IndexRangeError, match="got label 3, but there are 3 classes"):
        nn.cross_entropy(ag.tensor(SCORES, device=device), np.array([0, 1, 3, 2]))


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5])])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("is_on_host", [True, False])
def test_the_cross_entropy_of_labels_has_the_bits_of_numpy(
    device: Any, weight: Any, reduction: str, label_smoothing: float, is_on_host: bool
) -> None:
    labels = np.array([0, -100, 2, 1])

    def losses(where: Any) -> list[bytes]:
        scores = ag.tensor(SCORES.astype(np.float32), device=where, requires_grad=True)
        given = labels if is_on_host else ag.tensor(labels, device=where)
        loss = nn.cross_entropy(scores, given, weight, reduction=reduction, label_smoothing=label_smoothing)
        sync.backward(loss.sum())
        return [bits(host(loss)), bits(host(scores.grad))]

    assert losses(device) == losses("cpu")


def test_a_loss_without_a_label_is_nan(device: Any) -> None:
    labels = ag.tensor(np.full(4, -100), device=device)

    assert np.isnan(nn.cross_entropy(ag.tensor(SCORES, device=device), labels).item())


def test_the_row_at_an_index_on_a_device_that_there_is_not_is_nan() -> None:
    rows = unwaited(lambda put: nn.embedding(put(np.array([0, 3])), put(np.ones((4, 2)))))
    assert not np.isnan(rows).any()
    accelerator = slow_accelerator()
    rows = nn.embedding(
        ag.tensor([0, -1], device=accelerator), ag.tensor(np.ones((4, 2), np.float32), device=accelerator)
    )
    assert np.isnan(host(rows)).tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_has_the_bits_of_numpy_in_all_intervals_of_the_error_function(device: Any, dtype: Any) -> None:
    x = np.concatenate([np.linspace(-40.0, 40.0, 401), [np.nan, np.inf, -np.inf]]).astype(dtype)

    with np.errstate(invalid="ignore"):
        assert bits(host(nn.gelu(ag.tensor(x, device=device)))) == bits(host(nn.gelu(ag.tensor(x))))


# Offloading.


class Chain:
    """A chain of products and tanh on a device, from one seed."""

    def __init__(self, device: Any) -> None:
        rng = np.random.default_rng(0)
        self.weights = [ag.tensor(rng.normal(size=(8, 8)), device=device, requires_grad=True) for _ in range(4)]
        self.x = ag.tensor(rng.normal(size=(8, 8)), device=device)

    def loss(self) -> Any:
        y = self.x
        for weight in self.weights:
            y = np.tanh(y @ weight.T)
        return (y * y).sum()

    def gradients(self) -> list[bytes]:
        found = []
        for weight in self.weights:
            assert weight.grad is not None
            assert weight.grad.device is weight.device
            found.append(host(weight.grad).tobytes())
        return found


def expected_of_chain() -> list[bytes]:
    chain = Chain("cpu")
    sync.backward(chain.loss())
    return chain.gradients()


BLOCKS: dict[str, Callable[[Path], Any]] = {
    "disk": lambda path: ag.graph.save_to_disk(path, min_bytes=1),
    "store": lambda path: ag.graph.save_to_store(MemoryStore(), min_bytes=1),
    "host": lambda path: ag.graph.save_on_cpu(min_bytes=1),
    "little at a time": lambda path: ag.graph.save_on_cpu(min_bytes=1, max_pending_bytes=512),
    "nothing ahead": lambda path: ag.graph.save_on_cpu(min_bytes=1, prefetch=0),
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("on_stream", [False, True])
async def test_saved_tensors_of_a_device_go_by_way_of_the_host_and_come_back(
    tmp_path: Path, block: str, on_stream: bool
) -> None:
    device = SimulatedAccelerator()

    chain = Chain(device)
    default = device.default_stream()
    with device.stream() if on_stream else default as stream:
        stream.wait_stream(default)
        # All is written at the end of the block.
        async with BLOCKS[block](tmp_path):
            loss = chain.loss()
        await loss.backward()
    default.wait_stream(stream)

    assert chain.gradients() == expected_of_chain()
    copies = [operation.name for operation in device.timeline]
    # The input and the result of each layer; and each gradient, to be compared.
    assert copies.count("to_host") == 1 + 4 + 4


@pytest.mark.parametrize("block", BLOCKS)
def test_a_backward_before_the_end_of_the_copies_has_the_same_bits(device: Any, tmp_path: Path, block: str) -> None:
    chain = Chain(device)
    with BLOCKS[block](tmp_path):
        loss = chain.loss()
    sync.backward(loss)

    assert chain.gradients() == expected_of_chain()


async def test_save_on_cpu_leaves_what_the_host_holds_where_it_is() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    async with ag.graph.save_on_cpu(min_bytes=1):
        y = np.exp(x)

    assert y.grad_fn.saved_tensors[0].unpack()._data is y._data


async def test_memory_of_a_device_is_let_go_once_it_is_stored() -> None:
    async def main() -> list[Any]:
        accelerator = SimulatedAccelerator()
        x = ag.tensor(np.ones(4), device=accelerator, requires_grad=True)
        async with ag.graph.save_on_cpu(min_bytes=1):
            loss = (np.tanh(x) * 2).sum()
        gc.collect()
        held = [one for one in gc.get_referrers(accelerator) if is_device_array(one) and one is not x._data]
        del loss
        return held

    # The loss itself: 0 axes.
    assert [one.shape for one in await main()] in ([], [()])


async def test_an_offloaded_tensor_of_a_device_that_is_written_into_is_an_error(device: Any) -> None:
    async def main() -> None:
        x = ag.tensor(np.ones(4), device=device, requires_grad=True)
        async with ag.graph.save_on_cpu(min_bytes=1):
            y = np.tanh(x)
            z = y * 2
        y += 1
        await z.sum().backward()

    with pytest.raises(ChangedTensorError):
        await main()


def test_the_memory_of_a_saved_tensor_is_known_by_its_array_alone(device: Any) -> None:
    whole = ag.tensor(np.arange(12.0).reshape(3, 4), device=device)
    memory = SavedMemory(whole[1:], version=0)
    whole += 1
    alone = ag.asarray(whole._data[2:])
    outside = ag.asarray(whole._data[:1])

    assert memory.version_in(alone) == 1
    assert memory.version_in(outside) == 0
    assert memory.version_in(ag.tensor(np.ones(2), device=device)) == 0


# Indices.


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[[0, 3]],
        lambda x: x[..., np.array([4])],
        lambda x: x[None, [-4]],
        lambda x: x[np.array([True, False, True]), [0, 4]],
        lambda x: np.take(x, [4], axis=-1),
        lambda x: np.take_along_axis(x, np.array([[4], [0], [0]]), axis=1),
        lambda x: x.__setitem__(([0, 1], [0, 4]), 1.0),
        lambda x: np.delete(x, [0, 3], axis=0),
    ],
)
def test_an_index_on_the_host_that_names_no_element_is_refused_whatever_the_device(
    device: Any, use: Callable[[Any], Any]
) -> None:
    array = np.arange(12.0).reshape(3, 4)
    with pytest.raises(IndexError) as known:
        use(ag.tensor(array))

    x = ag.tensor(array, device=device)
    with pytest.raises(IndexError, match=re.escape(str(known.value))):
        use(x)
    assert x.tolist() == array.tolist()


# Complex numbers.

COMPLEX: dict[str, Callable[[Any], Any]] = {
    "indices": lambda z: z[[0, 2, 0]],
    "indices of a transposed array": lambda z: z.T[[1, 1], [0, 2]],
    "take": lambda z: np.take(z, [1, 1, 0], axis=1),
    "power": lambda z: z ** (z * 0.5),
    "power of a number": lambda z: z**3,
    "repeat": lambda z: np.repeat(z, 2, axis=0),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_the_gradient_of_complex_numbers_has_the_bits_of_numpy(device: Any, name: str) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))

    def gradient(z: Any) -> bytes:
        out = COMPLEX[name](z)
        sync.backward((out * out.conj()).real.sum())
        return host(z.grad).tobytes()  # type: ignore[no-any-return]

    there = ag.tensor(array, device=device, requires_grad=True)
    assert gradient(there) == gradient(ag.tensor(array, requires_grad=True))


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", np.dtype("f4").newbyteorder()])
def test_a_dtype_that_a_device_lacks_is_refused_by_name(device: Any, dtype: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"has no dtype {re.escape(str(np.dtype(dtype)))} .*\.to\('cpu'\)"):
        ag.tensor([1.0], device=device).astype(dtype)


@pytest.mark.parametrize(
    ("name", "call"),
    [("packbits", lambda x: np.packbits(x, axis=0)), ("lexsort", lambda x: np.lexsort(x[None, None]))],
)
def test_what_a_library_does_not_implement_is_refused_by_name(device: Any, name: str, call: Any) -> None:
    x = ag.tensor([1, 0, 1], device=device).astype(np.uint8)

    with pytest.raises(ArgumentTypeError, match=rf"numpy\.{name} is not available on {device} .*\.to\('cpu'\)"):
        call(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c, u: np.logical_and(x, c),
        lambda x, c, u: np.logical_xor(c, 1j),
        lambda x, c, u: np.logical_not(c),
        lambda x, c, u: np.count_nonzero(c, axis=0, keepdims=True),
        lambda x, c, u: np.lexsort((u, x)),
        lambda x, c, u: np.clip(u, -1, 300),
        lambda x, c, u: np.digitize(x, [0.0, 1.0]),
        lambda x, c, u: x * np.array_equal(x, [3, 0, 0]),
        lambda x, c, u: x * np.array_equal(2, x),
        lambda x, c, u: np.searchsorted(np.sort(x), [1.0, 4.0]),
    ],
)
def test_what_a_function_of_a_library_does_not_take_is_computed_by_others(device: Any, call: Any) -> None:
    arrays = [np.array([3.0, 0.0, 0.0]), np.array([1j, 0, 2]), np.array([250, 2, 1], np.uint8)]

    found, expected = (call(*(ag.tensor(array, device=place) for array in arrays)) for place in (device, "cpu"))

    assert found.device is device
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


def test_the_diagonal_of_nothing_has_a_gradient(device: Any) -> None:
    x = ag.tensor(np.ones((0, 2)), device=device, requires_grad=True)
    sync.backward(np.diagonal(x).sum())

    assert x.grad is not None
    assert x.grad.shape == (0, 2)


# Views, and writes in place.


def test_the_second_derivative_of_a_write_into_a_view_has_the_bits_of_numpy(device: Any) -> None:
    def curvature(where: Any) -> bytes:
        x = ag.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), device=where, requires_grad=True)
        y = x * x
        y[1:].T[::2] *= x[:2].T[::2]
        np.copyto(y[0], x[2] * x[2], where=ag.tensor([True, False, True, True], device=where))
        (first,) = sync.grad((y * y).sum(), [x], create_graph=True)
        (second,) = sync.grad((first * first).sum(), [x])
        return host(second).tobytes()

    assert curvature(device) == curvature("cpu")


def test_a_view_in_another_order_of_axes_is_copied_in_that_order(device: Any) -> None:
    def gradient(where: Any) -> bytes:
        x = ag.tensor(np.arange(24.0).reshape(2, 3, 4), device=where, requires_grad=True)
        base = (x * 1).transpose(2, 0, 1).copy("K")
        base[1] *= base[2]
        sync.backward((base * base).sum())
        return host(x.grad).tobytes()

    assert gradient(device) == gradient("cpu")


# Tensors.


def test_a_tensor_of_a_device_is_not_made_an_ndarray_unseen(device: Any) -> None:
    t = ag.tensor([[1.0, 2.0]], device=device)
    advice = rf"of shape \(1, 2\) is on '{device}', .* write t\.to\('cpu'\)\.numpy\(\)"

    for convert in (t.numpy, lambda: np.asarray(t), lambda: np.array(t)):
        with pytest.raises(ArgumentTypeError, match=advice):
            convert()


def test_a_tensor_of_a_device_can_be_read(device: Any) -> None:
    t = ag.tensor([[1.0, 2.0]], device=device)
    three = ag.tensor(3, device=device)

    assert repr(t) == f"tensor([[1., 2.]], dtype=float64, device='{device}')"
    assert (t.tolist(), t[0, 1].item(), float(t[0, 0]), int(three)) == ([[1.0, 2.0]], 2.0, 1.0, 3)
    assert [10, 20, 30, 40][three] == 40
    assert bytes(t) == np.array([[1.0, 2.0]]).tobytes()
    assert f"{t[0, 1]:.2f}" == "2.00"
    assert 2.0 in t
    with pytest.raises(TypeError):
        [10, 20][t[0, 0]]  # type: ignore[index]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_copy_of_a_tensor_is_on_the_same_device(device: Any, duplicate: Callable[[Any], Any]) -> None:
    t = ag.tensor(np.arange(6.0).reshape(2, 3), device=device, requires_grad=True)
    made = duplicate(t)
    with ag.no_grad():
        t += 1

    assert made.device is device
    assert made.requires_grad
    assert host(made).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_a_tensor_of_an_array_of_a_device_lives_there(device: Any) -> None:
    array = device.from_host(np.arange(4.0))
    copied, shared = ag.tensor(array), ag.asarray(array)
    on_device_of(array, operator.setitem, 0, 7.0)

    assert copied.device is shared.device is device
    assert shared._data is array
    assert (copied.tolist()[0], shared.tolist()[0]) == (0.0, 7.0)
    assert ag.tensor(array, dtype=np.float32).dtype == np.float32
    assert ag.tensor(array, device="cpu").numpy().tolist() == [7.0, 1.0, 2.0, 3.0]


def test_an_array_that_does_not_say_where_it_is_needs_the_name_of_its_device(device: Any) -> None:
    @final
    class Homeless:
        dtype, shape, ndim, size = np.dtype(np.float64), (2,), 1, 2
        __cuda_array_interface__ = None
        __array_function__ = None

    array = Homeless()
    with pytest.raises(ArgumentTypeError, match=r"does not say by __dlpack_device__ .*device='cuda:0'"):
        ag.asarray(array)

    assert ag.asarray(array, device=device)._data is array


def test_a_tensor_of_a_tensor_of_a_device_is_copied_there() -> None:
    device, other = SimulatedAccelerator(), SimulatedAccelerator()
    t = ag.tensor([1.0, 2.0], device=device)
    operations = len(device.timeline)
    copied, moved = ag.tensor(t), ag.tensor(t, device=other)

    assert [operation.name for operation in device.timeline[operations:]] == ["copy", "to_host"]
    assert (copied.device, moved.device) == (device, other)
    assert moved.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("non_blocking", [False, True])
def test_a_move_keeps_dtype_order_and_history(device: Any, non_blocking: bool) -> None:
    data = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    x = ag.tensor(data, requires_grad=True)
    there = x.to(device, non_blocking=non_blocking)
    back = there.to("cpu", non_blocking=non_blocking)
    sync.backward((back * 3).sum())

    assert (there.dtype, back.dtype) == (np.float32, np.float32)
    assert there.flags.f_contiguous
    assert back.flags.f_contiguous
    assert [one.grad_fn.name for one in (there, back)] == ["CopyBackwards", "CopyBackwards"]  # type: ignore[union-attr]
    assert back.detach().numpy().tolist() == data.tolist()
    assert x.grad is not None
    assert x.grad.device is ag.device("cpu")
    assert x.grad.tolist() == [[3.0] * 3] * 2


def test_a_non_blocking_move_does_not_wait_and_the_current_stream_does() -> None:
    accelerator = slow_accelerator()
    x = ag.tensor([1.0, 2.0]).to(accelerator, non_blocking=True)
    y = (x * 2).to("cpu", non_blocking=True)
    assert accelerator.clock.now == 0.0
    _ = accelerator.current_stream().synchronize()

    assert accelerator.clock.now == 3.0
    assert y.tolist() == [2.0, 4.0]
    (x * 3).to("cpu")
    assert accelerator.clock.now == 5.0


def test_non_blocking_is_a_truth_value(device: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="non_blocking"):
        ag.tensor(1.0).to(device, non_blocking="yes")  # type: ignore[arg-type]


def test_an_element_of_a_device_s_array_is_found_by_its_indices_and_by_its_place(device):
    x = ag.tensor(np.arange(6.0).reshape(2, 3), device=device)

    assert [x.item(4), x.item(1, 2), x.item((0, 1)), x[0, 0].item()] == [4.0, 5.0, 1.0, 0.0]


@final
class _OnTheHost(ag.Function):
    """Doubles, by NumPy in the memory of the host."""

    @staticmethod
    def forward(ctx: Any, x: ag.Tensor) -> Any:
        return x.to("cpu").numpy() * 2

    @staticmethod
    def backward(ctx: Any, grad: ag.Tensor) -> Any:
        return grad.to("cpu").numpy() * 2


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_array_of_the_host_that_a_function_or_a_hook_returns_goes_to_the_device(
    device: Device, create_graph: bool
) -> None:
    x = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
    y = _OnTheHost.apply(x)
    y.register_hook(lambda grad: grad.to("cpu").detach().numpy() * 3)

    (grad,) = sync.grad(y.sum(), x, create_graph=create_graph)

    assert y.tolist() == [2.0, 4.0]
    assert grad.tolist() == [6.0, 6.0]
    assert is_device_array(y._data)
    assert is_device_array(grad._data)
