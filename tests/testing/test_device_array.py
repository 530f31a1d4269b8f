"""Arrays of devices have the functions of CuPy's arrays, and refuse what those refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from asyncgrad.testing.device_array import DeviceArray
from tests.support.device_arrays import DEVICES

HOST = np.arange(1.0, 7.0).reshape(2, 3)
#: What CuPy says: it lacks a function; it lacks a ufunc, or does not take an operand; an operand is NumPy's.
LACKING = "no implementation found for"
NOT_IMPLEMENTED = "all returned NotImplemented"
MIXED = "Unsupported type <class 'numpy.ndarray'>"
KEYWORD = "unexpected keyword argument"


# Without asyncgrad nothing makes `cuda:1` the current GPU.
@pytest.fixture(params=["simulated", "cuda"])
def put(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    """Put a NumPy array on a device, of each type."""
    with DEVICES[request.param]() as device:
        yield device.from_host


def bits(value: Any) -> Any:
    """Return results with NumPy's arrays; every one must have been on the device."""
    if isinstance(value, (tuple, list)):
        return [bits(one) for one in value]
    assert isinstance(value, DeviceArray)
    return value.get().tolist()


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    # Attributes.
    **{
        name: (lambda a, name=name: getattr(a, name), AttributeError, name)
        for name in (
            "__array_interface__", "__array_struct__", "__array_wrap__", "__array_namespace__", "__contains__",
            "__imatmul__", "__index__", "__setstate__", "ctypes", "getfield", "setfield", "resize", "setflags",
            "to_device",
        )
    },
    "flags.writeable": (lambda a: a.flags.writeable, AttributeError, "writeable"),
    "flags.aligned": (lambda a: a.flags.aligned, AttributeError, "aligned"),
    "flags['WRITEABLE']": (lambda a: a.flags["WRITEABLE"], KeyError, "WRITEABLE"),
    # Ufuncs.
    "vecdot": (lambda a: np.vecdot(a, a), TypeError, NOT_IMPLEMENTED),
    "matvec": (lambda a: np.matvec(a, a[0]), TypeError, NOT_IMPLEMENTED),
    "isnat": (np.isnat, TypeError, NOT_IMPLEMENTED),
    "spacing": (np.spacing, TypeError, NOT_IMPLEMENTED),
    "a special function that there is not": (
        lambda a: pytest.importorskip("scipy.special").jv(0, a),
        TypeError,
        NOT_IMPLEMENTED,
    ),
    "logical_and of complex numbers": (lambda a: np.logical_and(a * 1j, a), TypeError, "Wrong type"),
    "logical_not of complex numbers": (lambda a: np.logical_not(a * 1j), TypeError, "Wrong type"),
    "maximum.reduce": (lambda a: np.maximum.reduce(a), NotImplementedError, "`cupy_maximum.reduce` is not supported"),
    "subtract.accumulate": (lambda a: np.subtract.accumulate(a), NotImplementedError, "subtract.accumulate"),
    "add.reduceat": (lambda a: np.add.reduceat(a, [0]), TypeError, NOT_IMPLEMENTED),
    "add.reduceat of host indices": (lambda a: np.add.reduceat(a, np.array([0])), NotImplementedError, "reduceat"),
    "add.reduce(initial=)": (lambda a: np.add.reduce(a, initial=1), TypeError, KEYWORD),
    "maximum.reduce(initial=)": (lambda a: np.maximum.reduce(a, initial=0), TypeError, KEYWORD),
    "multiply.at": (lambda a: np.multiply.at(a, 0, 2), NotImplementedError, "multiply.at"),
    "add.at of indices in a tuple": (lambda a: np.add.at(a, (0, 1), 1), TypeError, NOT_IMPLEMENTED),
    "add.at of complex numbers": (lambda a: np.add.at(a * 1j, 0, 1), TypeError, "cupy.add.at only supports int32"),
    "where=": (lambda a: np.add(a, 1, where=a > 2), TypeError, "Wrong arguments"),
    "two outputs": (lambda a: np.modf(a, out=(a, a)), ValueError, "exactly one array"),
    "where of a bool": (lambda a: np.where(True, a, a), AttributeError, "astype"),
    "windows along one axis twice": (
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (1, 2), (1, -1)),
        ValueError,
        "duplicate value",
    ),
    "a list beside it": (lambda a: np.add(a, [1.0, 2.0, 3.0]), TypeError, NOT_IMPLEMENTED),
    # Functions.
    **{
        name: (call, TypeError, LACKING)
        for name, call in {
            "block": lambda a: np.block([[a]]),
            "einsum_path": lambda a: np.einsum_path("ij->i", a),
            "geomspace": lambda a: np.geomspace(a, 10.0),
            "insert": lambda a: np.insert(a, 0, 1.0),
            "nanpercentile": lambda a: np.nanpercentile(a, 50),
            "polyder": lambda a: np.polyder(a[0]),
            "unstack": lambda a: np.unstack(a),
            "linalg.multi_dot": lambda a: np.linalg.multi_dot([a, a.T]),
            "linalg.trace": np.linalg.trace,
            "linalg.vector_norm": np.linalg.vector_norm,
            "linalg.matrix_norm": np.linalg.matrix_norm,
            "linalg.svdvals": np.linalg.svdvals,
            "linalg.outer": lambda a: np.linalg.outer(a[0], a[0]),
            "linalg.diagonal": np.linalg.diagonal,
            "linalg.tensordot": lambda a: np.linalg.tensordot(a, a),
            "linalg.vecdot": lambda a: np.linalg.vecdot(a, a),
        }.items()
    },
    **{
        name: (call, TypeError, KEYWORD)
        for name, call in {
            "take(mode=)": lambda a: np.take(a, [0], mode="wrap"),
            "argsort(stable=)": lambda a: np.argsort(a, stable=True),
            "clip(dtype=)": lambda a: np.clip(a, 0, 1, dtype=np.float32),
            "max(initial=)": lambda a: np.max(a, initial=0),
            "sum(initial=)": lambda a: np.sum(a, initial=0),
            "sum(where=)": lambda a: np.sum(a, where=True),
            "pinv(rtol=)": lambda a: np.linalg.pinv(a, rtol=0.1),
            "full(like=)": lambda a: np.full(3, 1.0, like=a),
            "ones(like=)": lambda a: np.ones(3, like=a),
            "a.max(initial=)": lambda a: a.max(initial=0),
            "a.take(mode=)": lambda a: a.take([0], mode="wrap"),
            "a.argsort(stable=)": lambda a: a.argsort(stable=True),
        }.items()
    },
    "argpartition(kind, order)": (lambda a: np.argpartition(a, 0, -1, "introselect", None), TypeError, "positional"),
    "astype(casting=)": (lambda a: a.astype("f", casting="same_kind"), TypeError, "casting is not supported yet"),
    "astype(subok=)": (lambda a: a.astype("f", subok=False), TypeError, "subok is not supported yet"),
    "einsum(out=)": (lambda a: np.einsum("ij->i", a, out=a[:, 0]), TypeError, "Did not understand"),
    "sliding_window_view(writeable=True)": (
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 1, writeable=True),
        NotImplementedError,
        "Writeable views are not supported",
    ),
    "choose of a list": (lambda a: np.choose((a > 2).astype(int), [a, a]), AttributeError, "shape"),
    "concatenate of a list": (lambda a: np.concatenate([a, [[1.0, 2.0, 3.0]]]), TypeError, "Only cupy arrays"),
    "solve that broadcasts": (
        lambda a: np.linalg.solve(np.stack([a[:, :2], a[:, :2]]), a[:, :2]),
        ValueError,
        "for multidimensional b",
    ),
    "repeat of counts on the host": (lambda a: np.repeat(a, np.array([1, 2, 0]), 1), TypeError, "numpy.ndarray"),
    "item(0)": (lambda a: a.item(0), TypeError, "positional argument"),
    "item of many": (lambda a: a.item(), ValueError, "array of size 1"),
    # NumPy's arrays.
    "a + ndarray": (lambda a: a + HOST, TypeError, MIXED),
    "ndarray + a": (lambda a: HOST + a, TypeError, MIXED),
    "a + 0-d ndarray": (lambda a: a + np.array(1.0), TypeError, MIXED),
    "a < ndarray": (lambda a: a < HOST, TypeError, MIXED),
    "a + list": (lambda a: a.__add__([1.0, 2.0, 3.0]), TypeError, "Unsupported type <class 'list'>"),
    "a += ndarray": (lambda a: a.__iadd__(HOST), TypeError, MIXED),
    "a @ ndarray": (lambda a: a @ HOST.T, TypeError, "got numpy.ndarray"),
    "out=ndarray": (lambda a: np.add(a, 1, out=HOST.copy()), TypeError, MIXED),
    "where of an ndarray": (lambda a: np.where(HOST > 2, a, 0.0), TypeError, MIXED),
    "concatenate of an ndarray": (lambda a: np.concatenate([a, HOST]), TypeError, MIXED),
    "a[0] = ndarray": (lambda a: a.__setitem__(0, HOST[0]), TypeError, MIXED),
    "a[0] = 0-d ndarray": (lambda a: a.__setitem__(0, np.array(1.0)), TypeError, MIXED),
    "a[0] = list": (lambda a: a.__setitem__(0, [1.0, 2.0, 3.0]), TypeError, "Unsupported type <class 'list'>"),
    "np.asarray": (np.asarray, TypeError, "implicitly|Implicit conversion"),
    "np.array": (np.array, TypeError, "implicitly|Implicit conversion"),
    "np.from_dlpack": (np.from_dlpack, BufferError, "cannot be exported"),
    "as_strided": (
        lambda a: np.lib.stride_tricks.as_strided(a, (2,), (8,)),
        TypeError,
        "implicitly|Implicit conversion",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cupy_refuses_is_refused_by_the_same_type_of_error(put: Callable[[Any], Any], name: str) -> None:
    call, error, words = REFUSED[name]

    with pytest.raises(error, match=words):
        call(put(HOST))


WORKS: dict[str, Callable[[Any], Any]] = {
    "arange(like=)": lambda a: np.arange(3, like=a),
    "zeros(like=)": lambda a: np.zeros(3, like=a),
    "add.reduce": lambda a: np.add.reduce(a, axis=0, keepdims=True),
    "add.accumulate": lambda a: np.add.accumulate(a, axis=1),
    "multiply.reduce": lambda a: np.multiply.reduce(a, axis=None),
    "dtype= and casting=": lambda a: np.add(a, 1, dtype=np.float32, casting="same_kind"),
    "out=": lambda a: np.exp(a, out=a),
    "numbers": lambda a: (2 * a, a + np.float32(1), a**2, 1j * a, True + a),
    "comparison with a 0-d ndarray": lambda a: (np.less(a, np.array(2.0)), a == np.array(2.0)),
    "divmod": lambda a: divmod(a, 4),
    "indices": lambda a: (a[0], a[:, [0, 2]], a[np.array([True, False])], a[..., None], a[np.array([1, 0]), 1]),
    "indices beyond an axis, as where they begin again": lambda a: (
        (a[[1, -1]], a[:, [1, 0]], a[..., np.array([2])], np.take(a, [1], 0))
        if isinstance(a, np.ndarray)
        else (a[[3, -3]], a[:, [4, 6]], a[..., np.array([-1 - 3])], np.take(a, [3], 0))
    ),
    "one element": lambda a: (a[0, 0], a.sum(), np.max(a), np.argmin(a)),
    "views": lambda a: (a.T, a.mT, a.reshape(3, 2), np.broadcast_to(a, (2, 2, 3)), a.real, a.swapaxes(0, 1)),
    "methods": lambda a: (a.astype("f"), a.copy(order="K"), a.argsort(axis=-1, kind="stable"), a.clip(2, 4)),
    "functions": lambda a: (np.where(a > 2, a, 0.0), np.stack([a, a], axis=1), np.pad(a, 1), np.cumsum(a, axis=0)),
    "linear algebra": lambda a: (np.linalg.inv(a[:, :2]), np.linalg.det(a[:, :2]), np.linalg.norm(a, axis=0)),
    "fft": lambda a: np.fft.rfft(a),
    "logical_and": lambda a: np.logical_and(a > 2, a),
    "products": lambda a: (a @ a.T, np.dot(a, a.T), np.einsum("ij,kj->ik", a, a), np.tensordot(a, a)),
    "matmul with out=": lambda a: np.matmul(a[:, :2], a[:, 1:], out=a[:, :2].copy()),
    "sort": lambda a: (a.sort(axis=0), a)[1],
    "copies": lambda a: (copy.copy(a), copy.deepcopy(a)),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_works_has_the_results_of_numpy(put: Callable[[Any], Any], name: str) -> None:
    def numpys(value: Any) -> Any:
        return [numpys(one) for one in value] if isinstance(value, tuple) else np.asarray(value).tolist()

    assert bits(WORKS[name](put(HOST))) == numpys(WORKS[name](HOST.copy()))


@pytest.mark.parametrize("name", ["eigh", "svd", "qr", "slogdet", "eig"])
def test_decompositions_give_plain_tuples(put: Callable[[Any], Any], name: str) -> None:
    assert type(getattr(np.linalg, name)(put(HOST[:, :2]))) is tuple


def test_an_array_goes_to_the_host_and_comes_from_there_by_get_and_set(put: Callable[[Any], Any]) -> None:
    a = put(HOST)
    out = np.zeros_like(HOST)
    a.set(HOST * 2)

    assert a.get(out=out) is out
    assert a.tolist() == out.tolist() == (HOST * 2).tolist()
    with pytest.raises(TypeError, match="float32 array cannot be set to float64 array"):
        a.set(HOST.astype("f"))
    with pytest.raises(ValueError, match="Shape mismatch"):
        a.set(HOST[0])


def test_a_diagonal_can_be_written_into(put: Callable[[Any], Any]) -> None:
    a = put(HOST)
    np.diagonal(a)[...] = 0

    assert a.tolist() == [[0.0, 2.0, 3.0], [4.0, 0.0, 6.0]]


@pytest.mark.parametrize("shape", [(0,), (2, 0), (2, 3)])
def test_a_view_has_a_base_whether_or_not_there_are_elements(put: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    a = put(np.empty(shape))

    for view in (a.reshape(a.shape), a[...], a.T, a[:0], a.reshape(-1).reshape(a.shape)):
        assert view.base is a
    assert (a + a).base is None


def test_a_view_lies_in_the_memory_of_its_base(put: Callable[[Any], Any]) -> None:
    a = put(HOST)
    part = a[1, 1:]

    assert part.base is a
    assert part.T.base is a
    assert part.data.ptr == a.data.ptr + 4 * 8
    assert part.__cuda_array_interface__["data"] == (part.data.ptr, False)
    flags = a.T.flags
    assert (flags.c_contiguous, flags.f_contiguous, flags.forc, flags.fnc, flags.owndata) == (
        False, True, True, True, False,
    )  # fmt: skip
    assert a.flags["OWNDATA"]
    assert repr(a.flags) == "  C_CONTIGUOUS : True\n  F_CONTIGUOUS : False\n  OWNDATA : True"


def test_the_only_element_is_a_number_of_python(put: Callable[[Any], Any]) -> None:
    one = put(np.array([2]))

    assert (int(one), float(one), complex(one), bool(one), one.item()) == (2, 2.0, 2 + 0j, True, 2)
    with pytest.raises(TypeError):
        hash(one)
