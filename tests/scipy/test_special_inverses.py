"""Parameters that SciPy finds from values of a distribution function, with too few digits for differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import asyncgrad as ag
from asyncgrad import sync

#: dfn, dfd, nc and f of the noncentral F distribution.
_ARGUMENTS = np.array([3.0, 5.0, 1.5, 1.75])


@pytest.mark.parametrize(("name", "position"), [("ncfdtridfn", 0), ("ncfdtridfd", 1), ("ncfdtrinc", 2)])
def test_a_parameter_moves_so_that_the_distribution_function_keeps_its_value(name: str, position: int) -> None:
    arguments = _ARGUMENTS.copy()
    arguments[position] = special.ncfdtr(*_ARGUMENTS)
    tensors = [ag.tensor(value, requires_grad=True) for value in arguments]

    found = getattr(special, name)(*tensors)
    grads = [grad.item() for grad in sync.grad(found, tensors)]

    at = _ARGUMENTS.copy()
    at[position] = found.item()
    steps = 1e-5 * np.eye(4)
    slopes = np.array([(special.ncfdtr(*(at + step)) - special.ncfdtr(*(at - step))) / 2e-5 for step in steps])
    expected = -slopes / slopes[position]
    expected[position] = 1 / slopes[position]
    np.testing.assert_allclose(grads, expected, rtol=1e-7)
