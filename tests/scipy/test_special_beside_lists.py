"""A special function of a tensor and a list has the gradient that it has beside the array of the list."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.recording.primitive import RULES
from asyncgrad.scipy import special

VALUES = [0.5, 0.6]
UFUNCS = sorted(
    name
    for name in special.__all__
    if isinstance(found := getattr(scipy.special, name, None), np.ufunc) and found.nin > 1 and found in RULES
)


def gradient(ufunc, others, place):
    """Return the gradient by one argument, None where the function is not differentiated by it."""
    given = ag.tensor([0.3, 0.4], requires_grad=True)
    arguments = [*others[:place], given, *others[place:]]
    found = ufunc(*arguments)
    first = found[0] if isinstance(found, tuple) else found
    if not isinstance(first, ag.Tensor) or not first.requires_grad or first.dtype.kind == "c":
        return None
    try:
        sync.backward(first.sum())
    except ag.errors.MissingDerivativeError:
        return None
    return None if given.grad is None else given.grad.numpy()


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_gradient_beside_a_list_is_that_beside_its_array(name):
    ufunc = getattr(scipy.special, name)
    for place in range(ufunc.nin):
        try:
            expected = gradient(ufunc, [np.array(VALUES)] * (ufunc.nin - 1), place)
        except TypeError:
            # Of whole numbers, say, which these are not.
            continue
        found = gradient(ufunc, [VALUES] * (ufunc.nin - 1), place)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert np.array_equal(found, expected, equal_nan=True)


def test_there_are_functions_of_several_arguments():
    assert len(UFUNCS) > 80
