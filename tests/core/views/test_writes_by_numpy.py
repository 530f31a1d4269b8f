"""Writes that NumPy makes in the tensor's own array: its values and errors exactly, and no second array in between."""

from __future__ import annotations

import operator
import tracemalloc
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError, InPlaceError
from tests.support.leaves import leaf, leaf_of
from tests.support.loops import one_loop

NAMES = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"]
NAMES += ["iand", "ior", "ixor", "ilshift", "irshift"]
DTYPES = ["float64", "float32", "complex128", "int64", "uint8", "bool"]
OTHERS = {
    "2": 2,
    "-1": -1,
    "1.5": 1.5,
    "True": True,
    "single precision": np.float32(1.5),
    "floats": np.full(3, 1.25),
    "complex": np.full(3, 1 + 1j),
    "bools": np.array([True, False, True]),
    "a column": np.full((3, 1), 2),
    "too many axes": np.ones((1, 3, 3)),
    "a list": [1, 2, 3],
    "a matrix": np.arange(9).reshape(3, 3),
    "None": None,
}
PLACES = {
    "whole": lambda a: a,
    "a row": lambda a: a[1],
    "a column": lambda a: a[:, :1],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::2],
    "no axes": lambda a: a[0, :1].reshape(()),
    "empty": lambda a: a[:0],
    "read-only": lambda a: np.broadcast_to(a[0], (3, 3)),
}


def outcome_of_write(base: Any, name: str, place: Any, other: Any) -> tuple[Any, Any]:
    """What a write leaves in the base, and the kind of error that it raised."""
    error = None
    try:
        getattr(operator, name)(place(base), other)
    except (TypeError, ValueError, OverflowError, InPlaceError) as raised:
        error = type(raised)
    return (base.numpy() if isinstance(base, ag.Tensor) else base), error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_an_operator_leaves_what_numpys_leaves_and_is_refused_where_numpys_is(name, dtype, recorded):
    start = (np.arange(9).reshape(3, 3) % 4 + 1).astype(dtype)
    if recorded and start.dtype.kind not in "fc":
        pytest.skip("whole numbers are not recorded")
    for what, place in PLACES.items():
        for called, other in OTHERS.items():
            base = leaf_of(start) * 1 if recorded else ag.tensor(start)
            expected, refusal = outcome_of_write(start.copy(), name, place, other)
            found, error = outcome_of_write(base, name, place, other)

            assert found.dtype == expected.dtype, (what, called)
            assert (error is None) == (refusal is None), (what, called, error, refusal)
            # NumPy leaves anything behind a negative power of whole numbers.
            assert refusal is not None or found.tobytes() == expected.tobytes(), (what, called)


def test_a_product_that_does_not_fit_is_refused_recorded_or_not():
    for x in (ag.tensor(np.ones((3, 3))), leaf_of(np.ones((3, 3))) * 1):
        for y in (np.ones(3), np.ones((3, 1))):
            with pytest.raises(ValueError, match=r"axes|dimension"):
                operator.imatmul(x, y)


def test_a_result_with_more_axes_than_the_target_is_refused_where_somebody_looks_too():
    x = leaf(1.0, 2.0) * 1
    with ag.graph.node_creation_hook(lambda node: None), pytest.raises(ArgumentError, match=r"\(1, 2\).*\(2,\)"):
        x += np.ones((1, 2))


def test_an_operand_that_will_not_be_written_with_is_refused():
    class Own:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> Any:
            return 5

    x = ag.tensor([1.0])
    with pytest.raises(TypeError, match="Own"):
        x += Own()


@pytest.mark.parametrize("recorded", [False, True])
def test_an_error_that_comes_after_the_write_counts_as_a_write(recorded):
    x = leaf(1.0, 1.0)
    y = x * 1e300 if recorded else ag.tensor([1e300, 1.0])
    saved = (y * x).sum()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        y *= 1e300

    with pytest.raises(ChangedTensorError):
        sync.backward(saved)


def test_an_error_that_comes_before_the_write_does_not_count():
    x = leaf(1.0, 2.0)
    y = x * 1.0
    saved = (y * y).sum()
    for bad in (np.ones(3), np.ones((1, 2)), 1j):
        with pytest.raises((TypeError, ValueError)):
            y += bad
    sync.backward(saved)

    assert (y._version, x.grad.tolist()) == (0, [2.0, 4.0])


# Memory.

SIZE = 1_000_000
INDEX = np.arange(0, 1000)


def peak(write: Any, *args: Any) -> int:
    tracemalloc.start()
    try:
        write(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


#: Writes of few elements, or of all by what is there.
FRUGAL = {
    "[indices] =": lambda t, v: t.__setitem__(INDEX, v),
    "put": lambda t, v: np.put(t, INDEX - 500, v),
    "put_along_axis": lambda t, v: np.put_along_axis(t, INDEX, v, 0),
    "put_along_axis None": lambda t, v: np.put_along_axis(t, INDEX, v, None),
    "fill_diagonal": lambda t, v: np.fill_diagonal(t.reshape(1000, 1000), v),
    "add.at": lambda t, v: np.add.at(t, INDEX, v),
    "subtract.at": lambda t, v: np.subtract.at(t, INDEX, v),
    "copyto unsafe": lambda t, v: np.copyto(t, v[0], casting="unsafe"),
}


@pytest.mark.parametrize("write", FRUGAL.values(), ids=FRUGAL)
def test_a_recorded_write_makes_no_array_of_the_targets_size(write):
    values = leaf_of(np.ones(1000)) * 1
    t = leaf_of(np.zeros(SIZE)) * 1

    assert peak(write, t, values) < SIZE


@pytest.mark.parametrize("name", ["iadd", "imul", "ipow", "ifloordiv", "itruediv"])
def test_an_operator_that_is_not_recorded_makes_no_array(name):
    t = ag.tensor(np.ones(SIZE))

    assert peak(getattr(operator, name), t, 2.0) < SIZE
    assert t._version == 1


def test_out_that_is_not_recorded_makes_no_array():
    t: Any = ag.tensor(np.ones(SIZE))
    other = ag.tensor(np.ones(SIZE))

    assert peak(lambda: np.add(t, other, out=t)) < SIZE
    assert peak(lambda: np.add(t, other, out=t, where=np.array(True))) < SIZE
    assert (t._version, t.tolist()[:2]) == (2, [3.0, 3.0])


# Parts of complex tensors.


def test_real_and_imaginary_parts_are_written_like_numpys():
    def written(z: Any) -> Any:
        z.real *= 2
        z.imag = z.real + 1
        z.imag[:1] -= 3
        z[1:].real = 7
        return z

    x = leaf_of([1 + 2j, 3 + 4j])
    z = written(x * 1)
    sync.backward(z.real.sum() + 10 * z.imag.sum())

    assert z.tolist() == written(np.array([1 + 2j, 3 + 4j])).tolist()
    assert x.grad.tolist() == [22, 20]
    assert (z * 1).real.tolist() == z.real.tolist()


def test_the_real_part_of_a_real_tensor_is_itself_and_it_has_no_imaginary_part_to_write():
    t = ag.tensor([1.0, 2.0])
    t.real = 5

    assert t.tolist() == [5.0, 5.0]
    with pytest.raises(ArgumentTypeError, match=r"float64.*astype\(complex\)"):
        t.imag = 1


# A result that goes where its own operands are.

OVERLAPS = {
    "clip": lambda t, v: np.clip(t[:2], 0.65, v[:2], out=t[1:]),
    "cumprod": lambda t, v: np.cumprod(t, axis=0, out=t),
    "accumulate": lambda t, v: np.multiply.accumulate(t, axis=1, out=t),
    "var": lambda t, v: np.var(t, axis=1, out=t[:, 0]),
    "vecdot": lambda t, v: np.vecdot(t, v, out=t[0]) if hasattr(np, "vecdot") else None,
    "matmul": lambda t, v: np.matmul(t[:2], v, out=t[1:]),
    "@=": lambda t, v: t.__imatmul__(v),
    "@= of one too many axes": lambda t, v: t.__imatmul__(v[None]),
    "divmod": lambda t, v: np.divmod(t, v, out=(v * 1, t)),
    "modf": lambda t, v: np.modf(t, out=(t, v * 1)),
    "hypot": lambda t, v: np.hypot(t.T, t, out=t),
    "shifted product": lambda t, v: t[1:].__imul__(t[:-1]),
    "itself": lambda t, v: t.__iadd__(t),
}
START = np.array([[0.5, 1.25, 0.75], [1.5, 0.9, 0.6], [1.1, 0.8, 1.3]])


@one_loop
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("write", OVERLAPS.values(), ids=OVERLAPS)
async def test_a_result_may_go_where_its_operands_are(write, hooked):
    values = START[::-1] + 0.1

    def written(x: Any, v: Any) -> Any:
        t = x * 1
        if hooked:
            with ag.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                write(t, v * 1)
        else:
            write(t, v * 1)
        return (t * t).sum()

    array = START.copy()
    write(array, values)
    t = leaf_of(START) * 1
    write(t, leaf_of(values) * 1)

    assert t.tolist() == array.tolist()
    assert await ag.gradcheck(written, [leaf_of(START), leaf_of(values)])
