"""CuPy refuses and takes what the stand-in of tests without a GPU refuses and takes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.testing.test_device_array import HOST, REFUSED, WORKS


def on_host(value):
    return [on_host(one) for one in value] if isinstance(value, (tuple, list)) else value.get()


def numpys(value):
    return [numpys(one) for one in value] if isinstance(value, (tuple, list)) else np.asarray(value)


@pytest.mark.parametrize("name", REFUSED)
def test_cupy_refuses_what_the_stand_in_refuses(cupy, name):
    call, error, words = REFUSED[name]

    with pytest.raises(error, match=words):
        call(cupy.asarray(HOST))


@pytest.mark.parametrize("name", WORKS)
def test_cupy_has_the_results_of_numpy_where_the_stand_in_has(cupy, name):
    found, right = on_host(WORKS[name](cupy.asarray(HOST))), numpys(WORKS[name](HOST.copy()))

    for ours, theirs in zip(*((one,) if isinstance(one, np.ndarray) else one for one in (found, right)), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
