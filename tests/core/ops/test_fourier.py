"""Fourier transforms: PyTorch's gradients, `out=`, what is linear in them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError

RNG = np.random.default_rng(7)
REAL = RNG.normal(size=(3, 4, 5))
COMPLEX = RNG.normal(size=(3, 4, 5)) + 1j * RNG.normal(size=(3, 4, 5))

ONE_AXIS = [{}, {"n": 3}, {"n": 8, "axis": 0}]
SEVERAL_AXES = [{}, {"s": (5, 2), "axes": (0, 2)}]
CALLS = [
    *[("fft", COMPLEX, call) for call in ONE_AXIS],
    *[("ifft", COMPLEX, call) for call in ONE_AXIS],
    *[("fft", REAL, call) for call in ONE_AXIS],
    *[("rfft", REAL, call) for call in ONE_AXIS],
    *[("irfft", COMPLEX, call) for call in ONE_AXIS],
    *[("hfft", COMPLEX, call) for call in ONE_AXIS],
    *[("ihfft", REAL, call) for call in ONE_AXIS],
    *[("fft2", COMPLEX, call) for call in SEVERAL_AXES],
    *[("ifftn", COMPLEX, call) for call in SEVERAL_AXES],
    *[("rfft2", REAL, call) for call in SEVERAL_AXES],
    *[("rfftn", REAL, call) for call in SEVERAL_AXES],
    *[("irfft2", COMPLEX, call) for call in SEVERAL_AXES],
    *[("irfftn", COMPLEX, call) for call in SEVERAL_AXES],
]
#: What PyTorch calls NumPy's arguments.
TORCHS = {"axis": "dim", "axes": "dim"}


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize(("name", "data", "call"), CALLS)
def test_a_transform_has_pytorchs_gradient(name: str, data: np.ndarray, call: dict[str, Any], norm: Any) -> None:
    torch = pytest.importorskip("torch")
    x, peer = ag.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    out = getattr(np.fft, name)(x, norm=norm, **call)
    theirs = getattr(torch.fft, name)(peer, norm=norm, **{TORCHS.get(key, key): call[key] for key in call})
    g = RNG.normal(size=out.shape) + (1j * RNG.normal(size=out.shape) if out.dtype.kind == "c" else 0)

    (grad,) = sync.grad(out, [x], [g])

    (expected,) = torch.autograd.grad(theirs, [peer], [torch.tensor(g)])
    np.testing.assert_allclose(grad.numpy(), expected.resolve_conj().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["fft", "ifft2", "rfft", "irfft", "irfftn", "hfft", "ihfft"])
def test_a_gradient_in_single_precision_is_computed_in_single_precision(name: str, dtype: Any) -> None:
    if dtype is np.complex64 and name in ("rfft", "ihfft"):
        dtype = np.float32
    x = ag.tensor(REAL.astype(dtype), requires_grad=True)
    out = getattr(np.fft, name)(x)

    node: Any = out.grad_fn if out.grad_fn.name != "ConjugateBackward" else out.grad_fn.next_edges[0].node
    (grad,) = node.apply((np.ones(out.shape, node.dtype),))

    assert grad.dtype in (np.float32, np.complex64)


def test_a_transform_is_written_where_out_says() -> None:
    x, out = ag.tensor(COMPLEX, requires_grad=True), ag.tensor(np.zeros_like(COMPLEX))
    positional = ag.tensor(np.zeros_like(COMPLEX))

    found = np.fft.fft(x, out=out)
    np.fft.fft(x, None, -1, None, positional)

    assert found is out
    np.testing.assert_array_equal(out.numpy(), np.fft.fft(COMPLEX))
    np.testing.assert_array_equal(positional.numpy(), out.numpy())
    np.testing.assert_allclose(
        sync.grad(np.abs(out).sum(), [x])[0].numpy(), sync.grad(np.abs(np.fft.fft(x)).sum(), [x])[0].numpy()
    )


def test_the_energy_of_a_spectrum_is_that_of_its_signal_and_so_is_its_gradient() -> None:
    x = ag.tensor(REAL, requires_grad=True)

    (grad,) = sync.grad((np.abs(np.fft.fftn(x, norm="ortho")) ** 2).sum(), [x])

    np.testing.assert_allclose(grad.numpy(), 2 * REAL, rtol=1e-12)


def test_a_spacing_of_samples_may_be_a_tensor_that_requires_grad() -> None:
    spacing = ag.tensor(0.5, requires_grad=True)

    (grad,) = sync.grad(np.fft.rfftfreq(4, spacing)[1], [spacing])

    assert grad.item() == -1 / (4 * 0.5**2)


def test_an_axis_that_is_named_twice_is_refused_where_its_length_changes() -> None:
    x = ag.tensor(REAL)

    np.testing.assert_array_equal(np.fft.fftn(x, axes=(1, -2)).numpy(), np.fft.fftn(REAL, axes=(1, -2)))
    with pytest.raises(ArgumentError, match=r"numpy\.fft\.fftn .* each axis once .* one axis after another"):
        np.fft.fftn(x, s=(2, 3), axes=(1, -2))
    with pytest.raises(ArgumentError, match=r"numpy\.fft\.rfftn .* each axis once"):
        np.fft.rfftn(x, axes=(1, 1))


@pytest.mark.parametrize("name", ["fft2", "rfft2", "irfft2"])
def test_an_axis_that_there_is_not_is_refused_by_numpy(name: str) -> None:
    with pytest.raises(IndexError, match="axis 0 with size 1"):
        getattr(np.fft, name)(ag.tensor([1.0], requires_grad=True))
