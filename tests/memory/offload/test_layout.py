"""An array comes back from bytes with the same dtype, shape, strides, flags and bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from asyncgrad.core.arrays.values import memory_owner
from asyncgrad.memory.offload.layout import Layout


def assert_comes_back(array: Any) -> None:
    layout = Layout(array)
    data = layout.read(array)
    assert len(data) == layout.nbytes
    for buffer in (bytes(data), bytearray(data), memoryview(bytearray(data))):
        back = layout.restore(buffer)
        assert (back.dtype, back.shape, back.strides) == (array.dtype, array.shape, array.strides)
        assert back.flags.writeable == array.flags.writeable
        assert back.tobytes() == array.tobytes()


@given(
    npst.arrays(
        st.sampled_from(["?", "i1", "<f4", ">f8", "f2", "c8", "c16", "M8[s]", "S3", "U2", "i4,f8"]),
        npst.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4),
    ),
    st.data(),
)
def test_arrays_of_all_kinds_come_back(array: Any, data: Any):
    assert_comes_back(array)
    assert_comes_back(array.T)
    view = array[data.draw(npst.basic_indices(array.shape, allow_newaxis=True))] if array.ndim else array
    if type(view) is np.ndarray and view.size:
        assert_comes_back(view)


BASE = np.arange(240.0).reshape(10, 24)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(BASE),
        BASE[:, :7],
        BASE[::3, ::-2],
        BASE[::-1],
        BASE[:, 3],
        BASE.reshape(2, 5, 24).transpose(2, 0, 1),
        np.broadcast_to(BASE[0], (1000, 24)),
        np.broadcast_to(np.float32(3), (10, 10)),
        sliding_window_view(BASE[0], 5),
        as_strided(BASE, (3, 4), (8, 8)),
        np.array(5.0),
        np.full((2, 2), np.nan),
        np.array([-0.0, np.inf, 1e-310]),
    ],
    ids=str,
)
def test_arrays_of_all_layouts_come_back(array: Any):
    assert_comes_back(array)


def test_a_read_only_array_comes_back_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False

    assert_comes_back(array)


def test_no_more_is_stored_than_there_is():
    assert Layout(np.broadcast_to(BASE[0], (1000, 24))).nbytes == BASE[0].nbytes
    assert Layout(sliding_window_view(BASE[0], 5)).nbytes == BASE[0].nbytes
    assert Layout(BASE[:, 3]).nbytes == BASE[:, 3].nbytes
    assert Layout(BASE.T).nbytes == BASE.nbytes


def test_what_has_no_gaps_is_not_copied():
    for array in (BASE, BASE.T, BASE[::-1], BASE[2:4]):
        assert np.shares_memory(np.asarray(Layout(array).read(array)), array)


def test_bytes_that_are_too_few_are_refused():
    with pytest.raises(ValueError, match="1919 bytes came back, but 1920 were put"):
        Layout(BASE).restore(bytes(1919))


def test_what_is_more_than_bytes_cannot_be_held():
    held = [
        np.ones(2),
        np.zeros(0),
        np.array([None]),
        np.ma.ones(2),
        np.zeros(2, "f8,i4").view(np.recarray),
        3.0,
        np.zeros(2, "V0"),
    ]

    assert [Layout.can_hold(value) for value in held] == [True] + [False] * 6


def test_the_root_of_a_view_of_a_view_is_the_array_that_owns_the_memory():
    array = np.ones(6)

    assert memory_owner(array.reshape(2, 3).T[1:]) is array
    assert memory_owner(array) is array
