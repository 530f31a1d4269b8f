"""State dicts of both libraries, on the layers that both have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'asyncgrad[torch]'")

import torch

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.errors import ArgumentError, DeviceError
from asyncgrad.interop.torch import from_torch_state_dict, to_torch_state_dict

#: Layers of either library, and the shapes of what they take.
LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[tuple[int, ...], ...]]] = {
    "Linear": (lambda library: library.Linear(3, 2), ((4, 3),)),
    "Bilinear": (lambda library: library.Bilinear(3, 3, 2), ((4, 3), (4, 3))),
    "Conv1d": (lambda library: library.Conv1d(4, 6, 3, padding=1, groups=2), ((2, 4, 8),)),
    "Conv2d": (lambda library: library.Conv2d(4, 6, 3, stride=2), ((2, 4, 8, 8),)),
    "ConvTranspose2d": (lambda library: library.ConvTranspose2d(4, 6, 3, stride=2), ((2, 4, 5, 5),)),
    "BatchNorm1d": (lambda library: library.BatchNorm1d(3), ((4, 3),)),
    "BatchNorm2d": (lambda library: library.BatchNorm2d(3), ((4, 3, 2, 2),)),
    "InstanceNorm2d": (
        lambda library: library.InstanceNorm2d(3, affine=True, track_running_stats=True),
        ((4, 3, 2, 2),),
    ),
    "GroupNorm": (lambda library: library.GroupNorm(2, 4), ((3, 4, 5),)),
    "LayerNorm": (lambda library: library.LayerNorm(3), ((4, 3),)),
    "RMSNorm": (lambda library: library.RMSNorm(3), ((4, 3),)),
    "PReLU": (lambda library: library.PReLU(3), ((4, 3),)),
    "RNN": (lambda library: library.RNN(3, 4, num_layers=2, batch_first=True), ((2, 5, 3),)),
    "LSTM": (lambda library: library.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), ((2, 5, 3),)),
    "GRU": (lambda library: library.GRU(3, 4, batch_first=True), ((2, 5, 3),)),
    "LSTMCell": (lambda library: library.LSTMCell(3, 4), ((2, 3),)),
    "GRUCell": (lambda library: library.GRUCell(3, 4), ((2, 3),)),
    "MultiheadAttention": (
        lambda library: library.MultiheadAttention(4, 2, batch_first=True),
        ((2, 5, 4), (2, 5, 4), (2, 5, 4)),
    ),
    "TransformerEncoderLayer": (
        lambda library: library.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        ((2, 5, 4),),
    ),
    "Sequential": (
        lambda library: library.Sequential(library.Linear(3, 4), library.ReLU(), library.Linear(4, 2)),
        ((4, 3),),
    ),
}

PRESENT = [name for name in LAYERS if name == "Sequential" or hasattr(nn, name)]


def pair(name: str) -> tuple[Any, Any, list[Any]]:
    make, shapes = LAYERS[name]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    with ag.default_dtype(np.float32):
        ours = make(nn)
    return ours, make(torch.nn), [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def test_each_layer_of_the_table_is_there() -> None:
    assert len(PRESENT) >= 15


@pytest.mark.parametrize("name", PRESENT)
def test_a_layer_computes_the_same_with_the_state_of_pytorch(name: str) -> None:
    ours, theirs, arrays = pair(name)
    ours.load_state_dict(from_torch_state_dict(theirs))

    np.testing.assert_allclose(
        first(ours(*arrays)).numpy(), first(theirs(*map(torch.tensor, arrays))).detach().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", PRESENT)
def test_a_layer_of_pytorch_computes_the_same_with_our_state(name: str) -> None:
    ours, theirs, arrays = pair(name)
    found = theirs.load_state_dict(to_torch_state_dict(ours))

    assert str(found) == "<All keys matched successfully>"
    np.testing.assert_allclose(
        first(ours(*arrays)).numpy(), first(theirs(*map(torch.tensor, arrays))).detach().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", PRESENT)
def test_both_have_the_same_names_dtypes_and_order(name: str) -> None:
    ours, theirs, _ = pair(name)
    there, back = to_torch_state_dict(ours), from_torch_state_dict(theirs)

    assert next(iter(there.values())).dtype == torch.float32
    assert [(key, one.dtype) for key, one in there.items()] == [
        (key, one.dtype) for key, one in theirs.state_dict().items()
    ]
    assert [(key, one.dtype) for key, one in back.items()] == [
        (key, one.dtype) for key, one in ours.state_dict().items()
    ]


def test_the_state_of_a_module_is_copied_and_that_of_a_dict_is_shared() -> None:
    ours, theirs = nn.Linear(2, 1), torch.nn.Linear(2, 1)
    copied, shared = to_torch_state_dict(ours), to_torch_state_dict(ours.state_dict(keep_vars=True))
    copied_back, shared_back = from_torch_state_dict(theirs), from_torch_state_dict(theirs.state_dict())

    assert copied["weight"].data_ptr() != ours.weight.numpy().ctypes.data == shared["weight"].data_ptr()
    address = theirs.weight.data_ptr()
    assert copied_back["weight"].numpy().ctypes.data != address == shared_back["weight"].numpy().ctypes.data


def test_bfloat16_becomes_float32() -> None:
    found = from_torch_state_dict(torch.nn.Linear(2, 1).bfloat16())

    assert found["weight"].dtype == np.float32


def test_a_tensor_on_another_device_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"weight is on the device meta.*value\.cpu\(\)"):
        from_torch_state_dict(torch.nn.Linear(2, 1, device="meta"))


def test_layers_without_shapes_say_to_call_them_once() -> None:
    with pytest.raises(ArgumentError, match="weight has no shape yet, as in a lazy module: call the module once"):
        from_torch_state_dict(torch.nn.LazyLinear(2).state_dict())
    with pytest.raises(ArgumentError, match="weight has no shape yet, as its layer has not been called"):
        to_torch_state_dict(nn.LazyLinear(2))
