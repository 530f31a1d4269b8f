"""Derivatives of special functions beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad import sync

torch: Any = pytest.importorskip("torch")

_REAL = np.array([-30.0, -4.0, -0.5, 0.25, 3.0, 12.0])
_POSITIVE = np.array([1e-3, 0.25, 1.5, 40.0])
_SHARES = np.array([1e-6, 0.125, 0.75])
_ARGUMENTS = {
    "digamma": _POSITIVE,
    "entr": _POSITIVE,
    "erf": _REAL / 8,
    "erfc": _REAL / 8,
    "erfcx": _REAL / 2,
    "erfinv": _SHARES,
    "expit": _REAL,
    "expm1": _REAL,
    "gammaln": _POSITIVE,
    "log_ndtr": _REAL,
    "logit": _SHARES,
    "ndtr": _REAL / 4,
    "ndtri": _SHARES,
}


@pytest.mark.parametrize("name", _ARGUMENTS)
def test_derivatives_are_those_of_pytorch(name: str) -> None:
    theirs = torch.tensor(_ARGUMENTS[name], requires_grad=True)
    getattr(torch.special, name)(theirs).sum().backward()
    ours = ag.tensor(_ARGUMENTS[name], requires_grad=True)

    sync.backward(getattr(scipy.special, name)(ours).sum())

    assert ours.grad is not None
    # That of expm1 is 1 more than its value, in PyTorch: near 0 it has the digits of 1.
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-16)
