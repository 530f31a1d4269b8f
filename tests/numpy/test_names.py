"""asyncgrad.numpy: which names there are, and what they return."""

from __future__ import annotations

import importlib
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
import asyncgrad.numpy as anp
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from tests.core.ops.numpy_rules import rules_of_numpy

#: The functions and constants of the array API standard 2024.12, after its table of contents.
STANDARD = """
e inf nan pi
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu
zeros zeros_like
astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis matmul matrix_transpose tensordot vecdot
concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var
all any diff
linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.matmul
linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr
linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfftn fft.irfftn fft.hfft fft.ihfft fft.fftfreq fft.rfftfreq
fft.fftshift fft.ifftshift
"""


def found(path: str) -> Any:
    value: Any = anp
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_every_name_of_the_standard_is_there() -> None:
    assert [path for path in STANDARD.split() if found(path) is None] == []
    assert anp.newaxis is None


@pytest.mark.parametrize("module", ["numpy", "numpy.linalg", "numpy.fft"])
def test_every_name_of_numpy_is_there(module: str) -> None:
    ours, theirs = importlib.import_module(f"asyncgrad.{module}"), importlib.import_module(module)
    names = [name for name in dir(theirs) if not name.startswith("_")]

    assert [name for name in names if not hasattr(ours, name)] == []
    assert set(names) <= set(dir(ours))
    assert set(ours.__all__) == set(dir(ours))


@pytest.mark.parametrize("module", ["numpy", "numpy.linalg", "numpy.fft"])
def test_a_name_that_numpy_has_not_raises(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'asyncgrad.{module}' has no attribute 'tanhh'"):
        importlib.import_module(f"asyncgrad.{module}").tanhh


def test_what_is_no_function_of_arrays_is_numpys_own() -> None:
    for name in ("float32", "dtype", "errstate", "pi", "newaxis", "testing", "finfo"):
        assert getattr(anp, name) is getattr(np, name)
    assert anp.linalg.LinAlgError is np.linalg.LinAlgError


def test_tensors_and_numpys_arrays_are_arrays_of_the_namespace_and_nothing_else_is() -> None:
    made: Any = anp.ndarray((2, 3), np.float32)

    assert isinstance(made, ag.Tensor)
    assert (made.shape, made.dtype) == ((2, 3), np.float32)
    assert all(isinstance(one, anp.ndarray) for one in (made, np.zeros(2), np.ma.zeros(2)))
    assert not any(isinstance(one, anp.ndarray) for one in (1.0, np.float64(1), [1.0]))
    assert [issubclass(one, anp.ndarray) for one in (ag.Tensor, np.ndarray, anp.ndarray, float)] == [True] * 3 + [False]


def test_wrappers_have_the_signatures_and_names_of_numpys_functions() -> None:
    assert inspect.signature(anp.sum) == inspect.signature(np.sum)
    assert anp.sum.__name__ == "sum"
    assert anp.linalg.norm.__module__ == "asyncgrad.numpy.linalg"
    assert anp.sum is anp.sum
    assert pickle.loads(pickle.dumps(anp.sum)) is anp.sum


FUNCTIONS = {
    "sin": lambda np, x: np.sin(x),
    "add": lambda np, x: np.add(x, 1.0),
    "add reflected": lambda np, x: np.add(1.0, x),
    "of a keyword": lambda np, x: np.sum(a=x),
    "along an axis": lambda np, x: np.sum(x, axis=0),
    "cast": lambda np, x: np.add(x, x, dtype=np.float32),
    "sequence": lambda np, x: np.concatenate([x, x]),
    "several results": lambda np, x: np.split(x, 2),
    "named results": lambda np, x: np.linalg.slogdet(np.outer(x, x) + np.eye(4)),
    "reduce": lambda np, x: np.multiply.reduce(x),
    "accumulate": lambda np, x: np.add.accumulate(x),
    "outer": lambda np, x: np.multiply.outer(x, x),
    "transform": lambda np, x: np.fft.rfft(x),
    "positions": lambda np, x: np.argsort(x),
    "predicate": lambda np, x: np.isfinite(x),
    "truth": lambda np, x: np.allclose(x, x),
    "shape": lambda np, x: np.shape(x),
    "indices": lambda np, x: np.where(x > 2.0),
    "clip": lambda np, x: np.clip(x, 1.5, 3.0),
    "clip by names": lambda np, x: np.clip(x, a_min=1.5, a_max=None),
    "sort": lambda np, x: np.sort(x),
    "like": lambda np, x: np.zeros_like(x),
    "astype": lambda np, x: np.astype(x, np.float32),
    "text": lambda np, x: np.array2string(x),
}


def flattened(value: Any) -> list[Any]:
    return [part for each in value for part in flattened(each)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_doors_lead_to_one_rule(name: str) -> None:
    x = ag.tensor([3.0, 1.0, 2.0, 4.0], requires_grad=True)
    theirs, ours = (flattened(FUNCTIONS[name](module, x)) for module in (np, anp))
    assert len(ours) == len(theirs)

    for one, other in zip(ours, theirs, strict=True):
        assert type(one) is type(other)
        if isinstance(one, ag.Tensor):
            assert one.detach().numpy().tobytes() == other.detach().numpy().tobytes()
            assert (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
            assert (one.grad_fn and one.grad_fn.name) == (other.grad_fn and other.grad_fn.name)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [np.array, ag.tensor, list])
def test_results_are_tensors_where_numpys_are_arrays_and_numbers_of_tensors_are_too(name: str, kind: Any) -> None:
    data = np.array([3.0, 1.0, 2.0, 4.0])
    given: Any = kind(data)
    if kind is list and name in {"indices", "several results", "astype", "text"}:
        pytest.skip("NumPy takes arrays alone here")
    theirs, ours = flattened(FUNCTIONS[name](np, data)), flattened(FUNCTIONS[name](anp, given))

    for one, other in zip(ours, theirs, strict=True):
        # The rules of a few functions of several steps give arrays of no axes where NumPy has numbers.
        if isinstance(other, np.ndarray) or (kind is ag.tensor and isinstance(other, np.generic)):
            assert isinstance(one, ag.Tensor)
        if isinstance(one, ag.Tensor):
            assert not one.requires_grad
            np.testing.assert_array_equal(one.numpy(), other)
            assert one.dtype == other.dtype
        else:
            assert one == other


def test_texts_and_objects_stay_numpys() -> None:
    assert type(anp.char.upper(np.array(["a"]))) is np.ndarray
    assert type(anp.geomspace(1.0, 4.0, 3)) is ag.Tensor
    assert anp.base_repr(5) == "101"


def test_a_number_that_numpy_computes_without_a_tensor_stays_one() -> None:
    total = anp.prod((2, 3))
    before = total
    total += 4
    assert (type(before), before, total) == (np.int64, 6, 10)
    assert [0] * before == [0] * 6
    assert isinstance(anp.exp(0.5), float)
    assert type(anp.sum(np.ones(3))) is np.float64
    assert type(anp.sum(anp.ones(3))) is ag.Tensor


def test_an_output_may_be_given() -> None:
    x = ag.tensor([1.0, 4.0], requires_grad=True)
    out = anp.zeros(2)
    assert anp.sqrt(x, out=out) is out
    assert out.requires_grad

    masked = anp.sqrt(x, out=anp.zeros(2), where=np.array([False, True]))
    assert masked.tolist() == [0.0, 2.0]


def test_index_tricks_give_tensors() -> None:
    assert anp.mgrid[0:3].tolist() == [0, 1, 2]
    assert all(type(part) is ag.Tensor for part in anp.ogrid[0:2, 0:3])
    assert anp.r_[1.0, 2:4].tolist() == [1.0, 2.0, 3.0]
    assert anp.c_[[1, 2], [3, 4]].tolist() == [[1, 3], [2, 4]]
    assert anp.s_[1:2] == slice(1, 2)


JOINED = {
    "one": lambda r_, c_, x, y: r_[x],
    "several": lambda r_, c_, x, y: r_[x, y, x],
    "numbers": lambda r_, c_, x, y: r_[5.0, x[0], 1:4, 7],
    "along another axis": lambda r_, c_, x, y: r_["1", x, y],
    "with more axes": lambda r_, c_, x, y: r_["0,3,0", x, y],
    "columns": lambda r_, c_, x, y: c_[x[:, 0], y[:, 1]],
    "columns of matrices": lambda r_, c_, x, y: c_[x, y, x],
}


@pytest.mark.parametrize("name", JOINED)
def test_joining_with_square_brackets_keeps_the_history(name: str) -> None:
    data, other = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[10, 20], [30, 40]])
    x = ag.tensor(data, requires_grad=True)
    joined, expected = JOINED[name](anp.r_, anp.c_, x, other), JOINED[name](np.r_, np.c_, data, other)

    assert joined.dtype == expected.dtype
    np.testing.assert_array_equal(joined.detach().numpy(), expected)
    (grad,) = sync.grad(joined.sum(), x)
    moved = JOINED[name](np.r_, np.c_, data + 1e3, other) - expected
    assert grad.sum() == (moved / 1e3).sum()


def test_a_list_of_tensors_stands_for_an_array_of_them() -> None:
    x = ag.tensor(2.0, requires_grad=True)
    for function in (anp.mean, anp.var, anp.sum, anp.linalg.norm, anp.sort):
        found = function([x, 3.0 * x, 1.0])
        assert found.requires_grad
        np.testing.assert_allclose(found.detach().numpy(), np.asarray(function(np.array([2.0, 6.0, 1.0]))))
    assert anp.append([x, x], 1.0).tolist() == [2.0, 2.0, 1.0]


def test_a_tensor_where_numpy_takes_none_raises() -> None:
    x = ag.tensor([2.0], requires_grad=True)
    with pytest.raises(ag.errors.RequiresGradError):
        anp.float64(x)


def test_a_tensor_names_its_namespace() -> None:
    x = ag.tensor(1.0)
    assert x.__array_namespace__() is anp
    assert x.__array_namespace__(api_version="2024.12") is anp
    assert anp.__array_api_version__ == "2024.12"
    with pytest.raises(ag.errors.ArgumentError, match=r"follows the array API standard 2024\.12, and not '2099.12'"):
        x.__array_namespace__(api_version="2099.12")


def test_the_namespace_says_what_it_can() -> None:
    about = anp.__array_namespace_info__()
    assert about.default_device() is ag.device("cpu")
    with ag.default_device("thread:0"):
        assert about.devices() == [ag.device("cpu"), ag.device("thread:0")]
        assert about.default_device() is ag.device("thread:0")
    assert about.devices() == [ag.device("cpu")]
    assert about.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    assert about.default_dtypes(device="cpu")["integral"] == np.dtype(np.intp)
    assert about.capabilities()["boolean indexing"] is True
    with pytest.raises(ag.errors.DeviceError):
        about.dtypes(device="nowhere")


def test_every_rule_has_a_name_in_the_namespace() -> None:
    """A rule under no name of NumPy would be reached by one door alone."""
    named = {
        id(getattr(module, name))
        for module in (np, np.linalg, np.fft, np.emath, np.lib.stride_tricks, np.polynomial.polynomial)
        for name in dir(module)
    }
    assert [function for function in rules_of_numpy() if id(function) not in named] == []


def test_where_takes_keywords_and_both_or_neither():
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    assert anp.where(condition=[True, False], x=x, y=0.0).tolist() == [1.0, 0.0]
    assert anp.where([False, True])[0].tolist() == [1]
    with pytest.raises(ArgumentError, match=r"write np\.where\(condition, x, y\)"):
        anp.where([True, False], x)  # type: ignore[call-overload]
