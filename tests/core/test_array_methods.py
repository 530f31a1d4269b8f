"""A tensor has the attributes, methods and manners of an ndarray."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import InPlaceError

#: What an ndarray has and a tensor has not: bytes and memory, and what NumPy itself advises against.
ABSENT = {
    *("base", "byteswap", "ctypes", "data", "dump", "dumps", "flat", "getfield", "itemset", "newbyteorder"),
    *("resize", "setfield", "setflags", "tobytes", "tofile", "tostring", "view"),
    "ptp",
}


def unsorted_grid(dtype: Any = float) -> np.ndarray:
    return np.array([[[3, 1, 2], [4, 9, -5]], [[2, 6, -7], [8, 0, 5]]], dtype)


def test_what_an_ndarray_has_a_tensor_has_or_is_known_to_lack() -> None:
    public = {name for name in dir(np.ndarray) if not name.startswith("_")}

    assert {name for name in public if not hasattr(ag.Tensor, name)} <= ABSENT
    assert {name for name in ABSENT if hasattr(ag.Tensor, name)} == set()


ATTRIBUTES = ["shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides"]
PARTS = ["T", "mT", "real", "imag"]


@pytest.mark.parametrize("dtype", [float, np.float32, np.complex64, int])
@pytest.mark.parametrize("name", ATTRIBUTES + PARTS)
def test_an_attribute_is_that_of_the_array(name: str, dtype: Any) -> None:
    actual, expected = getattr(ag.tensor(unsorted_grid(dtype)), name), getattr(unsorted_grid(dtype), name)

    if name in PARTS:
        assert isinstance(actual, ag.Tensor)
        actual = actual.numpy()
    np.testing.assert_array_equal(actual, expected)


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (), {}) for name in ("sum", "mean", "prod", "var", "std", "max", "min", "argmax", "argmin", "any", "all")),
    *((name, (), {"axis": (0, 2), "keepdims": True}) for name in ("sum", "mean", "prod", "var", "std", "max", "min")),
    *((name, (1,), {}) for name in ("argmax", "argmin", "any", "all", "cumsum", "cumprod")),
    *((name, (-1,), {"keepdims": True}) for name in ("argmax", "argmin", "any", "all")),
    *((name, (0,), {"where": unsorted_grid() > 0}) for name in ("sum", "mean", "prod", "var", "std", "any", "all")),
    *((name, (0,), {"where": unsorted_grid() > 0, "initial": 1.0}) for name in ("sum", "prod", "max", "min")),
    *((name, (None, None, None, 1), {}) for name in ("var", "std")),
    *((name, (), {"ddof": 1, "axis": 0}) for name in ("var", "std")),
    ("sum", (0, np.float32), {}),
    ("reshape", (3, 4), {}),
    ("reshape", ((3, -1),), {"order": "F"}),
    ("reshape", (-1,), {}),
    ("ravel", (), {}),
    ("ravel", ("F",), {}),
    ("flatten", (), {}),
    ("flatten", ("K",), {}),
    ("transpose", (), {}),
    ("transpose", (2, 0, 1), {}),
    ("transpose", ((1, 0, 2),), {}),
    ("transpose", (None,), {}),
    ("swapaxes", (0, 2), {}),
    ("squeeze", (), {}),
    ("repeat", (2,), {"axis": 1}),
    ("take", ([0, -1],), {}),
    ("take", ([0, 5],), {"axis": 2, "mode": "clip"}),
    ("compress", ([True, False],), {"axis": 1}),
    ("diagonal", (), {"offset": 1, "axis1": 1, "axis2": 2}),
    ("trace", (0, 1, 2), {}),
    ("dot", (np.arange(3.0),), {}),
    ("clip", (-1.5, 3), {}),
    ("clip", (), {"max": 3}),
    ("round", (1,), {}),
    ("astype", (np.float32,), {}),
    ("astype", (int,), {"casting": "unsafe", "copy": False}),
    ("copy", (), {}),
    ("copy", ("F",), {}),
    ("conj", (), {}),
    ("conjugate", (), {}),
    ("argsort", (), {"kind": "stable"}),
    ("argsort", (0,), {"stable": True}),
    ("nonzero", (), {}),
    ("tolist", (), {}),
    ("item", (3,), {}),
]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_a_method_gives_what_the_arrays_gives(name: str, args: Any, kwargs: Any, requires_grad: bool) -> None:
    actual = getattr(ag.tensor(unsorted_grid(), requires_grad=requires_grad), name)(*args, **kwargs)
    expected = getattr(unsorted_grid(), name)(*args, **kwargs)

    if isinstance(expected, (list, float)) and not isinstance(expected, np.generic):
        assert actual == expected
        return
    parts = zip(actual, expected, strict=True) if isinstance(expected, tuple) else [(actual, expected)]
    for have, want in parts:
        assert isinstance(have, ag.Tensor)
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(have.numpy(), want)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CALLS} | {"fill", "sort", "partition", "searchsorted"}))
def test_a_method_takes_what_the_arrays_takes(name: str) -> None:
    """By name: positions are checked by the calls above."""
    if name in ("reshape", "transpose", "item"):
        pytest.skip("takes any number of arguments")
    documented = (getattr(np.ndarray, name).__doc__ or "").strip().split("\n")[0]
    known = {"dtype", "axis", "out", "keepdims", "where", "initial", "order", "kind", "mode", "ddof", "decimals"}
    named = {word.split("=")[0].strip("()*, /") for word in documented.partition("(")[2].split(",")} & known
    parameters = inspect.signature(getattr(ag.Tensor, name)).parameters

    assert {one for one in named if one not in parameters} <= ({"where", "mean"} if "more" in parameters else set())


def test_other_methods_give_what_the_arrays_give() -> None:
    row = np.array([1.0, 2.0, 4.0])

    assert ag.tensor(row).searchsorted([0.5, 3.0], side="right").tolist() == [0, 2]
    assert ag.tensor([2, 0, 1]).choose([[1, 2, 3], [4, 5, 6], [7, 8, 9]]).tolist() == [7, 2, 6]
    assert sorted(ag.tensor([3, 1, 2]).argpartition(1).tolist()) == [0, 1, 2]


SQUARE = np.array([[1.0, 2.0], [4.0, 3.0]])
WITH_OUT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("sum", "mean", "argmax", "any", "max", "cumsum"), (0,)),
    "round": (1,),
    "clip": (2, 3),
    "trace": (),
    "dot": (SQUARE,),
    "take": ([1],),
    "compress": ([True],),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_a_method_writes_into_out(name: str) -> None:
    array, args = SQUARE, WITH_OUT[name]
    expected = getattr(array, name)(*args)
    out = ag.tensor(np.zeros_like(expected))

    assert getattr(ag.tensor(array), name)(*args, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)


# Gradients.


@pytest.mark.parametrize("name", ["clone", "copy", "flatten", "ravel", "T", "astype"])
def test_gradients_flow_through_what_keeps_the_elements(name: str) -> None:
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = getattr(x, name)
    made = made(np.float32) if name == "astype" else made() if callable(made) else made

    (grad,) = sync.grad((made * made).sum(), [x])

    assert grad.tolist() == [[2, 4], [6, 8]]


def test_a_clone_is_laid_out_in_memory_as_its_original_and_a_copy_in_rows() -> None:
    x = ag.asarray(unsorted_grid().T)

    assert x.clone().strides == x.strides
    assert x.copy().strides == np.ascontiguousarray(unsorted_grid().T).strides


@pytest.mark.parametrize("name", ["argmax", "round", "argsort", "nonzero", "any"])
def test_what_has_no_derivative_gives_plain_tensors(name: str) -> None:
    result = getattr(ag.tensor([1.0, 0.2], requires_grad=True), name)()

    assert not (result[0] if isinstance(result, tuple) else result).requires_grad


# In place.


def test_fill_and_sort_write_in_place() -> None:
    x = ag.tensor([[3.0, 1.0], [0.0, 2.0]])
    x.sort(axis=0)
    assert x.tolist() == [[0, 1], [3, 2]]
    x.partition(0)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.fill(5)

    assert x.tolist() == [[5, 5], [5, 5]]
    assert x._version == 3


@pytest.mark.parametrize("change", [lambda t: t.fill(0), lambda t: t.sort(), lambda t: t.partition(0)])
def test_a_method_in_place_is_refused_on_a_leaf_that_requires_grad(change: Any) -> None:
    x = ag.tensor([2.0, 1.0], requires_grad=True)
    with pytest.raises(InPlaceError, match="is a leaf that requires grad"):
        change(x)

    assert x.tolist() == [2, 1]
    with ag.no_grad():
        change(x)


def test_an_operator_in_place_keeps_shape_and_dtype() -> None:
    number, row = ag.tensor(1.0), ag.tensor(np.ones(2, np.float32))
    number += 1
    row *= np.full(2, 3.0)

    assert (number.shape, number.item()) == ((), 2)
    assert row.dtype == np.float32
    assert row.tolist() == [3, 3]
    with pytest.raises(ValueError, match="broadcast"):
        number += np.ones(2)
    with pytest.raises(TypeError, match="same_kind"):
        row += 1j
    with pytest.raises(ValueError, match="read-only"):
        np.broadcast_to(row, (2, 2))[...] += 1


def test_matmul_in_place_gives_a_matrix_of_the_same_shape() -> None:
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    same = x
    x @= np.array([[0.0, 1.0], [1.0, 0.0]])

    assert same is x
    assert x.tolist() == [[2, 1], [4, 3]]


# As a container, as a number, as text.


def test_membership_is_equality_of_an_element() -> None:
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)

    assert 2 in x
    assert 3 not in x
    assert ag.tensor(1.0) in x


def test_iteration_gives_rows_and_zip_and_unpacking_follow() -> None:
    first, second = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    assert (first * second).tolist() == [3, 8]
    assert len(ag.tensor([[1, 2, 3]])) == 1
    with pytest.raises(TypeError, match="without axes"):
        iter(ag.tensor(1.0))
    with pytest.raises(TypeError, match="unsized"):
        len(ag.tensor(1.0))


@pytest.mark.parametrize("other", ["text", None, object()])
def test_what_cannot_be_compared_is_equal_to_no_element(other: Any) -> None:
    x = ag.tensor([1.0, 2.0])

    assert (x == other).tolist() == [False, False]
    assert (x != other).tolist() == [True, True]


@pytest.mark.parametrize("spec", ["", ".3f", "e", ">8"])
def test_a_single_number_is_formatted_as_one(spec: str) -> None:
    assert format(ag.tensor(1.25, requires_grad=True), spec) == format(1.25, spec)


def test_an_array_is_formatted_as_a_whole() -> None:
    x = ag.tensor([1.0])

    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match="format"):
        format(x, ".3f")


class Aloof:
    """Asks NumPy to leave operations with it alone."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "mine"

    __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = __rdivmod__ = __radd__
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __radd__
    __lt__ = __gt__ = __le__ = __ge__ = __radd__
    __eq__ = __radd__  # type: ignore[assignment]
    __ne__ = __radd__  # type: ignore[assignment]
    __hash__ = object.__hash__


SIGNS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]


@pytest.mark.parametrize("sign", SIGNS)
def test_an_operand_that_asks_to_be_left_alone_decides(sign: str) -> None:
    names = {"x": ag.tensor([1, 2]), "other": Aloof()}

    assert eval(f"x {sign} other", names) == "mine"  # noqa: S307
    assert eval("divmod(x, other)", names) == "mine"  # noqa: S307
    with pytest.raises(TypeError):
        eval(f"other {sign} x", names)  # noqa: S307


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_an_operand_that_asks_to_be_left_alone_decides_in_comparisons_too(sign: str) -> None:
    assert eval(f"x {sign} other", {"x": ag.tensor([1, 2]), "other": Aloof()}) == "mine"  # noqa: S307
