"""Tensor: what it converts to, how it is copied and pickled, and how it prints."""

from __future__ import annotations

import array
import builtins
import copy
import ctypes
import logging
import math
import operator
import pickle
import statistics

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, RequiresGradError
from tests.support.functions import function
from tests.support.leaves import leaf, leaf_of
from tests.support.refusals import refused

# Conversions.


@pytest.mark.parametrize(
    "convert", [bool, float, int, complex, lambda t: t.item(), lambda t: t.tolist(), np.float64, math.sin]
)
def test_one_element_converts_as_numpys_does(convert):
    array = np.array(2.5)

    assert convert(array) == convert(ag.tensor(array))


@pytest.mark.parametrize("convert", [round, lambda t: round(t, 1), math.floor, math.ceil, math.trunc])
@pytest.mark.parametrize("number", [2.75, 3, True])
def test_one_element_is_rounded_as_a_number_is(convert, number):
    assert convert(number) == convert(ag.tensor(number))
    assert type(convert(number)) is type(convert(ag.tensor(number)))


@pytest.mark.parametrize("convert", [bool, lambda t: t.item(), lambda t: t.tolist()])
def test_what_asks_for_a_number_in_so_many_words_takes_a_tensor_that_requires_grad(convert):
    assert convert(leaf_of(2.5)) == convert(np.array(2.5))


#: What asks for a number in so many words, or shows one.
ASKING = {
    "float": float,
    "int": int,
    "complex": complex,
    "round": round,
    "round to a decimal": lambda t: round(t, 1),
    "%f": lambda t: "%.3f" % t,  # noqa: UP031
    "%d of several": lambda t: "%d of %d" % (t, 3),  # noqa: UP031
    "a call among arguments": lambda t: max(float(t), 1.0),
    "a comprehension": lambda t: [float(one) for one in (t, t)],
    "an f-string": lambda t: f"{float(t):.1f}",
    "arguments of a sequence": lambda t: float(*[t]),
    "an attribute": lambda t: builtins.float(t),
    "a log": lambda t: logging.LogRecord("", 0, "", 0, "%.1f", (t,), None).getMessage(),
}


@pytest.mark.parametrize("computed", [True, False])
@pytest.mark.parametrize("under", [ag.enable_grad, ag.no_grad])
@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_a_number_of_a_tensor_that_requires_grad_is_given_to_who_asks_for_it(ask, under, computed):
    t = leaf_of(2.5) * 1 if computed else leaf_of(2.5)

    with under():
        given = ask(t)

    assert given == ask(2.5)
    assert type(given) is type(ask(2.5))


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_a_function_that_a_transform_differentiates_makes_no_number_of_its_argument(ask):
    def loses(x):
        ask(x)
        return x * x

    with refused(RequiresGradError, RuntimeError, "a function that a transform differentiates", "write t.item()"):
        sync.func.grad(loses)(2.5)
    with refused(RequiresGradError, RuntimeError, "a function that a transform differentiates", "write t.item()"):
        sync.jacobian(loses, ag.tensor(2.5))


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_a_number_is_given_where_a_transform_records_nothing(ask):
    given = []

    def shows(x):
        with ag.no_grad():
            given.append(ask(x))
        return x * x

    assert sync.func.grad(shows)(2.5) == 5.0
    assert given == [ask(2.5)]


def test_the_forward_of_a_function_may_make_a_number_of_its_argument():
    square = function(lambda ctx, x: np.array(float(x) ** 2), lambda ctx, grad: grad * 5.0)

    assert sync.func.grad(square.apply)(2.5) == 5.0


@pytest.mark.parametrize("convert", [float, int, complex])
def test_several_elements_are_no_number_with_grad_either(convert):
    with pytest.raises(TypeError, match=r"takes one number, and this tensor has shape \(2,\): write t\.tolist\(\)"):
        convert(leaf(1.0, 2.0))


#: What makes Python numbers, bytes or arrays of another library of a tensor to compute with: none has a history.
DROPPING = {
    "index": operator.index,
    "a function that calls float": lambda t: list(map(float, [t])),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "sin": math.sin,
    "fsum": lambda t: math.fsum([t, t]),
    "fmean": lambda t: statistics.fmean([t, t]),
    "range": range,
    "slice": lambda t: "abc"[t:],
    "hex": hex,
    "bytes": bytes,
    "bytearray": bytearray,
    "array": lambda t: array.array("d", [t]),
    "c_double": ctypes.c_double,
    "np.float64": np.float64,
    "np.float32": np.float32,
    "np.complex128": np.complex128,
    "np.array of a list": lambda t: np.array([1.0, t]),
    "np.arange": np.arange,
    "np.full": lambda t: np.full(3, t),
    "array[...] =": lambda t: np.zeros(3).__setitem__(..., t),
    "integers[0] =": lambda t: np.zeros(3, int).__setitem__(0, t),
    "fill_diagonal": lambda t: np.fill_diagonal(np.zeros((2, 2)), t),
    "ndarray.put": lambda t: np.zeros(3).put([0], t),
    "from_dlpack": np.from_dlpack,
    "np.ma.array": np.ma.array,
    "masked + t": lambda t: np.ma.array([1.0, 2.0], mask=[True, False]) + t,
    "masked - t": lambda t: np.ma.array([1.0, 2.0], mask=[True, False]) - t,
    "masked == t": lambda t: np.ma.array([1.0, 2.0], mask=[True, False]) == t,
    "masked[...] =": lambda t: np.ma.array([1.0, 2.0], mask=[True, False]).__setitem__(..., t),
    "np.ma.add": lambda t: np.ma.add(t, 1.0),
    "np.ma.sqrt": np.ma.sqrt,
}


@pytest.mark.parametrize("convert", DROPPING.values(), ids=DROPPING)
def test_no_conversion_drops_a_history_in_silence(convert):
    for t in (leaf_of(2.5) * 1, leaf_of(2.5)):
        for under in (ag.enable_grad, ag.no_grad):
            said = pytest.raises(RequiresGradError, match=r"shape \(\) .*in silence: write t\.(item|numpy)\(\)")
            with under(), said:
                convert(t)


@pytest.mark.parametrize(
    "write",
    [lambda t: np.zeros(3).__setitem__(0, t), lambda t: np.zeros(3).fill(t), lambda t: np.fromiter([t], float)],
    ids=["array[0] =", "fill", "fromiter"],
)
def test_where_numpy_names_an_error_of_its_own_that_of_the_history_is_its_cause(write):
    with pytest.raises(ValueError, match="sequence") as raised:
        write(leaf_of(2.5))
    assert isinstance(raised.value.__cause__, RequiresGradError)


@pytest.mark.parametrize("data", [2.5, [1.0, 2.0]])
def test_bytes_are_those_of_the_ndarray(data):
    assert bytes(ag.tensor(data)) == bytes(np.array(data))


def test_an_array_library_shares_the_memory_of_a_tensor_without_grad():
    torch = pytest.importorskip("torch")
    t = ag.tensor([1.0, 2.0])
    taken = [torch.as_tensor(t), torch.from_dlpack(t), torch.asarray(t)]
    t += 1

    assert [one.tolist() for one in taken] == [[2.0, 3.0]] * 3
    assert torch.tensor(t.sum()).item() == 5.0
    assert np.shares_memory(np.from_dlpack(t), t.numpy())


@pytest.mark.parametrize("take", ["tensor", "as_tensor", "asarray", "from_dlpack"])
def test_an_array_library_is_refused_a_tensor_that_requires_grad(take):
    torch = pytest.importorskip("torch")

    with pytest.raises(RequiresGradError, match=r"array of another library.*t\.numpy\(\) or t\.detach\(\)"):
        getattr(torch, take)(leaf(1.0, 2.0))


# Formatting.


@pytest.mark.parametrize("requires_grad", [True, False])
def test_one_element_is_formatted_as_a_number_is(requires_grad):
    t = ag.tensor(2.5, requires_grad=requires_grad)

    assert (f"{t:.2f}", f"{t}", f"{t:>8.1e}") == ("2.50", "2.5", " 2.5e+00")


def test_several_elements_have_no_format_for_one():
    x = leaf(1.0, 2.0)

    assert f"{x}" == str(x)
    with refused(ArgumentTypeError, TypeError, "'.2f'", "shape (2,)", "t.ravel().tolist()"):
        format(x, ".2f")


def test_what_has_no_axes_has_no_length():
    with pytest.raises(TypeError, match=r"t\.item\(\)"):
        len(leaf_of(1.0))


def test_item_takes_an_index_and_refuses_several_elements():
    t = ag.tensor([[1.0, 2.0], [3.0, 4.0]])

    assert t.item(1, 0) == 3.0
    with refused(ArgumentError, ValueError, "this tensor has shape (2, 2)", "t.item(index)", "t.tolist()"):
        t.item()


@pytest.mark.parametrize("convert", [bool, operator.index, len, iter, float])
@pytest.mark.parametrize("data", [np.array(2), np.array(2.5), np.ones(3)], ids=["integer", "float", "three"])
def test_a_conversion_fails_where_numpys_does(convert, data):
    t = ag.tensor(data)
    try:
        convert(data)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            convert(t)
    else:
        convert(t)


def test_an_integer_tensor_is_an_index():
    assert "abcd"[ag.tensor(2)] == "c"


def test_iteration_gives_differentiable_rows():
    x = leaf_of([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    sync.backward((first * second).sum())

    assert len(x) == 2
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_tensors_are_hashed_by_identity():
    x, y = leaf(1.0), leaf(1.0)

    assert {x: 1, y: 2}[y] == 2


def test_an_ndarray_of_a_tensor_without_grad_shares_its_memory():
    t = ag.tensor([1.0, 2.0])

    assert np.shares_memory(np.asarray(t), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.float32 == np.asarray(t, dtype=np.float32).dtype
    assert np.shares_memory(np.asarray(t, copy=False), t.numpy())
    assert not np.shares_memory(np.asarray(t, copy=True), t.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda t: np.asarray(t, dtype=np.float32)])
@pytest.mark.parametrize("computed", [True, False])
def test_an_ndarray_of_a_tensor_that_requires_grad_raises(convert, computed):
    x = leaf(1.0, 2.0)

    with pytest.raises(RequiresGradError, match=r"shape \(2,\).*t\.numpy\(\)"):
        convert(x * 2 if computed else x)


@pytest.mark.parametrize("convert", [np.int64, np.int32, np.uint8, np.bool_, lambda t: np.asarray(t, dtype=np.int64)])
@pytest.mark.parametrize("values", [(2.7, 0.4), 2.7])
def test_whole_numbers_of_a_tensor_that_requires_grad_are_an_ndarray(convert, values):
    t = ag.tensor(values, requires_grad=True) * 1

    found = convert(t)

    expected = convert(t.numpy())
    np.testing.assert_array_equal(found, expected)
    assert not isinstance(found, ag.Tensor)
    assert found.dtype == expected.dtype


# Copies.


COPIES = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_leaf_is_a_leaf_with_its_data_and_its_requires_grad(duplicate, requires_grad):
    t = ag.tensor(np.asfortranarray([[1.0, 2.0], [3.0, 4.0]], np.float32), requires_grad=requires_grad)
    copied = duplicate(t)

    assert copied is not t
    assert (True, requires_grad, t.device) == (copied.is_leaf, copied.requires_grad, copied.device)
    assert (t.dtype, t.tolist(), t.numpy().strides) == (copied.dtype, copied.tolist(), copied.numpy().strides)
    assert not np.shares_memory(t.numpy(), copied.numpy())


def test_a_deep_copy_has_a_copy_of_the_gradient_and_the_others_have_none():
    x = leaf(1.0, 2.0)
    x.grad = ag.tensor([3.0, 4.0])
    deep = copy.deepcopy(x)

    assert deep.grad.tolist() == [3.0, 4.0]
    assert deep.grad is not x.grad
    assert COPIES["pickle"](x).grad is None
    assert copy.copy(x).grad is None


def test_a_deep_copy_keeps_a_tensor_that_is_held_twice_one():
    x = leaf(1.0)
    parameters, same = copy.deepcopy(([x, x], x))

    assert parameters[0] is parameters[1] is same


@pytest.mark.parametrize(("duplicate", "done"), [(copy.deepcopy, "deep-copied"), (pickle.dumps, "pickled")])
def test_what_was_computed_is_not_copied_with_its_graph(duplicate, done):
    with pytest.raises(RequiresGradError, match=rf"{done}.*shape \(2,\).*MultiplyBackward.*t\.detach\(\)"):
        duplicate(leaf(1.0, 2.0) * 2)


# How it prints.


@pytest.mark.parametrize(
    ("made", "printed"),
    [
        (lambda: ag.tensor([1.0, 2.0]), "tensor([1., 2.], dtype=float64, device='cpu')"),
        (lambda: ag.tensor(3), "tensor(3, dtype=int64, device='cpu')"),
        (lambda: leaf(1.5), "tensor([1.5], dtype=float64, device='cpu', requires_grad=True)"),
        (lambda: leaf(1.5) * 2, "tensor([3.], dtype=float64, device='cpu', grad_fn=<MultiplyBackward>)"),
        (lambda: ag.tensor([[True], [False]]), "tensor([[ True],\n        [False]], dtype=bool, device='cpu')"),
        (lambda: ag.tensor(np.zeros((0, 3), np.float32)), "tensor([], shape=(0, 3), dtype=float32, device='cpu')"),
        (lambda: ag.tensor(np.arange(2000)), "tensor([   0,    1,    2, ..., 1997, 1998, 1999], shape=(2000,), ...)"),
    ],
)
def test_repr_shows_data_dtype_device_and_history(made, printed):
    assert printed.removesuffix("...)") == repr(made())[: len(printed.removesuffix("...)"))]
