"""Shapes, orders of axes, joins and cuts: what is a view, what is read-only, where gradients go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.ops.casting import astype
from asyncgrad.errors import DeviceError, MissingDerivativeError
from tests.support.versions import needs_numpy

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np


def grid() -> np.ndarray:
    return np.arange(24.0).reshape(2, 3, 4)


VIEWS: dict[str, Any] = {
    "reshape": lambda t: np.reshape(t, (4, 6)),
    "ravel": np.ravel,
    "transpose": np.transpose,
    "swapaxes": lambda t: np.swapaxes(t, 0, 2),
    "moveaxis": lambda t: np.moveaxis(t, 0, -1),
    "rollaxis": lambda t: np.rollaxis(t, 2),
    "expand_dims": lambda t: np.expand_dims(t, (0, 2)),
    "squeeze": np.squeeze,
    "broadcast_to": lambda t: np.broadcast_to(t, (2, 2, 3, 4)),
    "broadcast_arrays": lambda t: np.broadcast_arrays(t, np.zeros((5, 1, 1, 1)))[0],
    "atleast_3d": np.atleast_3d,
    "flip": lambda t: np.flip(t, 1),
    "rot90": np.rot90,
    "diagonal": np.diagonal,
    "split": lambda t: np.split(t, 3, 1)[1],
    "matrix_transpose": np.matrix_transpose,
    "astype without copy": lambda t: t.astype(float, copy=False),
    "meshgrid without copy": lambda t: np.meshgrid(t[0, 0], [1.0, 2.0], copy=False)[0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_a_view_in_numpy_is_a_view_of_the_same_memory_and_versions(name: str) -> None:
    x = ag.tensor(grid())
    view = VIEWS[name](x)
    expected = VIEWS[name](grid())

    assert np.shares_memory(view.numpy(), x.numpy())
    assert view.numpy().strides == expected.strides
    with ag.no_grad():
        x[...] = 0.0
    assert view._version == x._version == 1
    assert not view.numpy().any()


@pytest.mark.parametrize("name", ["broadcast_to", "diagonal"])
def test_a_view_that_is_read_only_in_numpy_is_read_only(name: str) -> None:
    view = VIEWS[name](ag.tensor(grid()))

    with pytest.raises(ValueError, match="read-only"):
        view[...] = 1.0


def test_a_write_into_what_broadcast_arrays_gives_is_warned_of_as_in_numpy() -> None:
    view = VIEWS["broadcast_arrays"](ag.tensor(grid()))

    with pytest.warns(DeprecationWarning, match="broadcast_arrays"):
        view[...] = 1.0


COPIES: dict[str, Any] = {
    "copy": np.copy,
    "astype": lambda t: t.astype(float),
    "flatten": lambda t: t.flatten(),
    "tile": lambda t: np.tile(t, 1),
    "repeat": lambda t: np.repeat(t, 1, 0),
    "roll": lambda t: np.roll(t, 0),
    "pad": lambda t: np.pad(t, 0),
    "concatenate": lambda t: np.concatenate([t]),
    "reshape": lambda t: t.reshape((4, 6), copy=True),
    "take": lambda t: np.take(t, [0, 1], 0),
    "sort": np.sort,
    "meshgrid": lambda t: np.meshgrid(t[0, 0])[0],
}


@pytest.mark.parametrize("name", COPIES)
def test_what_is_a_copy_in_numpy_shares_nothing(name: str) -> None:
    x = ag.tensor(grid())

    assert not np.shares_memory(COPIES[name](x).numpy(), x.numpy())


LAYOUTS = {
    "C": grid(),
    "F": np.asfortranarray(grid()),
    "mixed": np.moveaxis(grid(), 1, 0),
    "reversed": grid()[:, ::-1],
    "strided": np.arange(96.0).reshape(4, 3, 8)[::2, :, ::2],
}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ravel_and_reshape_read_in_the_order_that_numpy_reads_in(layout: str, order: Any) -> None:
    array = LAYOUTS[layout]
    x = ag.asarray(array, requires_grad=True)
    g = np.arange(24.0) ** 2

    (grad,) = sync.grad(np.ravel(x, order), [x], [g])

    np.testing.assert_array_equal(np.ravel(x.detach(), order), np.ravel(array, order))
    place = {value: index for index, value in enumerate(np.ravel(array, order))}
    np.testing.assert_array_equal(grad.numpy(), np.vectorize(lambda value: g[place[value]])(array))
    if order != "K":
        np.testing.assert_array_equal(np.reshape(x.detach(), (6, 4), order), np.reshape(array, (6, 4), order))


def test_reshape_that_must_not_copy_raises_where_it_would() -> None:
    x = ag.tensor(grid())

    assert x.reshape(-1, copy=False).is_view
    with pytest.raises(ValueError, match="copy=False"):
        x.T.reshape(-1, copy=False)


REFUSED: list[Any] = [
    lambda t: np.reshape(t, (5, 5)),
    lambda t: np.transpose(t, (0, 0, 1)),
    lambda t: np.squeeze(t, 0),
    lambda t: np.expand_dims(t, (0, 0)),
    lambda t: np.broadcast_to(t, (3, 4, 2)),
    lambda t: np.moveaxis(t, (0, 1), 0),
    lambda t: np.moveaxis(t, 3, 0),
    lambda t: np.rollaxis(t, 0, 5),
    lambda t: np.swapaxes(t, 0, 3),
    lambda t: np.concatenate([t, t[0]]),
    lambda t: np.concatenate([t, t], 3),
    lambda t: np.stack([t, t[0]]),
    lambda t: np.stack([]),
    lambda t: np.split(t, 2, 1),
    lambda t: np.split(t, np.int64(2), 1),
    lambda t: np.split(t, np.array(2), 1),
    lambda t: np.array_split(t, -1),
    lambda t: np.hsplit(t[0, 0, 0], 1),
    lambda t: np.vsplit(t[0, 0], 1),
    lambda t: np.dsplit(t[0], 1),
    lambda t: np.flip(t, 3),
    lambda t: np.fliplr(t[0, 0]),
    lambda t: np.flipud(t[0, 0, 0]),
    lambda t: np.rot90(t, axes=(0, 0)),
    lambda t: np.roll(t, 1, 5),
    lambda t: np.repeat(t, [1, 2], 1),
    lambda t: np.repeat(t, -1),
    lambda t: np.pad(t, -1),
    lambda t: np.pad(t, np.array(1.5)),
    lambda t: np.pad(t, ((1, 2), (3, 4))),
    lambda t: np.pad(t, 1, "edge", constant_values=3),
    lambda t: np.diagonal(t[0, 0]),
    lambda t: np.diag(t),
    lambda t: numpy.meshgrid(t, indexing="yx"),
    lambda t: np.block([t, [t]]),
    lambda t: np.matrix_transpose(t[0, 0]),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_numpy_refuses_raises_an_error_of_the_same_kind(call: Any) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)) as expected:
        call(grid())
    with pytest.raises((ValueError, TypeError, IndexError)) as actual:
        call(ag.tensor(grid()))

    kinds = (ValueError, TypeError, IndexError)
    assert [issubclass(expected.type, kind) for kind in kinds] == [issubclass(actual.type, kind) for kind in kinds]


# Broadcasting.


def test_the_gradient_of_a_broadcast_is_summed_back() -> None:
    x = ag.tensor([[1.0], [2.0]], requires_grad=True)

    (grad,) = sync.grad(np.broadcast_to(x, (4, 2, 3)), [x], [np.ones((4, 2, 3))])

    assert grad.tolist() == [[12], [12]]


# Joins and cuts.


def test_only_the_tensors_of_a_join_that_require_grad_get_gradients() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    y = ag.tensor([2.0], requires_grad=True)
    joined: Any = np.concatenate([x, [7.0], ag.tensor([5.0]), x, y])

    assert joined.tolist() == [1, 7, 5, 1, 2]
    assert [edge.node is not None for edge in joined.grad_fn.next_edges] == [True, False, False, True, True]
    grads = sync.grad(joined, [x, y], [np.arange(5.0)])
    assert [grad.tolist() for grad in grads] == [[3], [4]]


def test_a_join_of_plain_tensors_or_without_grad_mode_is_not_recorded() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    with ag.no_grad():
        assert numpy.concatenate([x, x]).is_leaf
    assert numpy.stack([x.detach(), x.detach()]).is_leaf
    assert numpy.concatenate([x, x], dtype=int, casting="unsafe").is_leaf


def test_a_join_saves_nothing_and_can_be_run_again() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    joined = np.stack([x, x], axis=1)

    for _ in range(2):
        (grad,) = sync.grad(joined, [x], [np.array([[1.0, 2.0], [3.0, 4.0]])])
        assert grad.tolist() == [3, 7]


def test_the_gradients_of_a_join_keep_the_dtypes_of_its_parts() -> None:
    x = ag.tensor(np.ones(2, np.float32), requires_grad=True)
    y = ag.tensor(np.ones(1), requires_grad=True)
    joined = np.concatenate([x, y])

    grads = sync.grad(joined.sum(), [x, y])

    assert joined.dtype == np.float64
    assert [grad.dtype for grad in grads] == [np.float32, np.float64]


def test_a_long_list_of_arrays_is_joined_by_one_node() -> None:
    steps = [ag.tensor([float(step)], requires_grad=True) for step in range(2000)]
    joined: Any = np.stack(steps)

    grads = sync.grad((joined * joined).sum(), steps)

    assert len(joined.grad_fn.next_edges) == 2000
    assert [grad.item() for grad in grads] == [2.0 * step for step in range(2000)]


def test_join_nodes_are_named_after_what_was_done() -> None:
    x = ag.tensor([1.0], requires_grad=True)

    assert numpy.stack([x]).grad_fn.name == "StackBackward"
    assert numpy.hstack([x]).grad_fn.name == "ConcatenateBackward"


def test_tensors_of_two_devices_are_not_joined() -> None:
    x, y = ag.tensor([1.0]), ag.tensor([1.0])
    y._device = "elsewhere"

    with pytest.raises(DeviceError, match="elsewhere"):
        np.concatenate([x, y])


def test_a_join_writes_into_out() -> None:
    out: Any = ag.tensor(np.zeros((2, 1)))

    assert np.stack([ag.tensor([1.0]), [2.0]], out=out) is out
    assert out.tolist() == [[1], [2]]


@pytest.mark.parametrize("function", [np.broadcast_arrays, np.meshgrid, np.atleast_1d])
def test_several_results_come_as_a_tuple_of_tensors(function: Any) -> None:
    results = function(ag.tensor([1.0]), [1.0, 2.0])

    assert type(results) is type(function([1.0], [1.0]))
    assert all(isinstance(result, ag.Tensor) for result in results)


# Padding.


def test_padding_tells_what_it_cannot_do() -> None:
    t = ag.tensor([1.0, 2.0])
    with pytest.raises(MissingDerivativeError, match="a function as mode"):
        numpy.pad(t, 1, len)
    with pytest.raises(ValueError, match="has no mode 'odd': there are 'constant'"):
        numpy.pad(t, 1, "odd")
    with pytest.raises(ValueError, match="mode='mean' does not take end_values"):
        numpy.pad(t, 1, "mean", end_values=1.0)
    with pytest.raises(ValueError, match="stat_length=0 has nothing to take the maximum of"):
        np.pad(t, 1, "maximum", stat_length=0)
    with pytest.raises(ValueError, match="a stat_length of at least 0, not -1"):
        np.pad(t, 0, "mean", stat_length=-1)
    with pytest.raises(ValueError, match="which is empty"):
        np.pad(t[:0], 1, "edge")


def test_padding_never_loses_the_history_of_its_constants() -> None:
    end = ag.tensor(3.0, requires_grad=True)
    with pytest.raises(MissingDerivativeError, match="constant_values"):
        np.pad(ag.tensor([1.0]), 1, constant_values=end)
    sync.backward(numpy.pad(ag.tensor([1.0]), 2, "linear_ramp", end_values=end).sum())
    assert end.grad.item() == 3.0


@pytest.mark.parametrize("mode", ["linear_ramp", "maximum", "mean", "median", "reflect"])
def test_padding_of_whole_numbers_is_numpys(mode: Any) -> None:
    x = np.array([[1, 5, 4], [7, 2, 0]])
    options = {"reflect_type": "odd"} if mode == "reflect" else {}

    found = np.pad(ag.tensor(x), 2, mode, **options)

    expected = np.pad(x, 2, mode, **options)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)
    assert np.pad(ag.tensor(x), 1, "empty").shape == (4, 5)


_BY_AXIS = pytest.param({0: 1, -1: (2, 0)}, marks=needs_numpy("2.3", "whose pad takes a dict"))


@pytest.mark.parametrize("width", [2, (1, 2), [(1, 2)], ((1, 0), (0, 2), (3, 3)), _BY_AXIS])
@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
def test_widths_of_padding_are_spelled_as_numpys(width: Any, mode: Any) -> None:
    np.testing.assert_array_equal(np.pad(ag.tensor(grid()), width, mode), np.pad(grid(), width, mode))


# Dtypes.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex128])
def test_astype_gives_the_gradient_back_in_the_old_dtype(dtype: Any) -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    cast = x.astype(dtype)

    (grad,) = sync.grad(cast, [x], [np.array([3, 4], dtype)])

    assert (cast.dtype, grad.dtype) == (dtype, np.float64)
    assert grad.tolist() == [3, 4]


def test_astype_to_whole_numbers_ends_the_history() -> None:
    assert ag.tensor([1.5], requires_grad=True).astype(int).is_leaf


def test_astype_keeps_to_the_casting_it_is_given() -> None:
    with pytest.raises(TypeError, match="safe"):
        ag.tensor([1.5]).astype(int, casting="safe")


def test_astype_moves_nothing_to_another_device() -> None:
    with pytest.raises(DeviceError, match="elsewhere"):
        astype(ag.tensor([1.0]), float, device="elsewhere")


def test_an_open_mesh_of_indices_is_numpys() -> None:
    x = np.arange(12.0).reshape(3, 4)
    rows, columns = np.array([2, 0]), np.array([True, False, False, True])

    mesh = np.ix_(ag.tensor(rows), ag.tensor(columns))

    expected = np.ix_(rows, columns)
    assert [(one.shape, one.dtype, one.tolist()) for one in mesh] == [
        (one.shape, one.dtype, one.tolist()) for one in expected
    ]
    assert np.shares_memory(np.ix_(t := ag.tensor(rows), [1])[0].numpy(), t.numpy())
    assert ag.tensor(x)[mesh].tolist() == x[expected].tolist()
    with pytest.raises(ValueError, match=r"numpy\.ix_ takes sequences with one axis, not of shape \(3, 4\)"):
        np.ix_(ag.tensor(x))
