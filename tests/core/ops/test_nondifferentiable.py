"""Functions without a derivative: NumPy's values, as plain tensors without history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops import RULES
from asyncgrad.core.ops.nondifferentiable import NONDIFFERENTIABLE, NonDifferentiable
from asyncgrad.errors import MissingDerivativeError, RequiresGradError

_data = np.array([[1.5, -2.5, 0.0], [3.0, 0.5, -1.0]])
_other = np.array([[1.5, 2.0, -0.5], [2.0, 0.5, -1.0]])
_flags = np.array([True, False, True])
_integers = np.array([12, 7, 30])

#: Arguments for each function that takes others than one array of numbers.
ARGUMENTS: dict[Callable[..., Any], tuple[Any, ...]] = {
    **dict.fromkeys(
        (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal, np.floor_divide),
        (_data, _other),
    ),
    **dict.fromkeys((np.allclose, np.array_equal, np.array_equiv, np.isclose, np.isin), (_data, _other)),
    **dict.fromkeys((np.logical_and, np.logical_or, np.logical_xor), (_data, _other)),
    **dict.fromkeys((np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm), (_integers, np.array([8, 5, 9]))),
    **dict.fromkeys((np.left_shift, np.right_shift), (_integers, np.array([1, 2, 3]))),
    **dict.fromkeys((np.bitwise_count, np.invert), (_integers,)),
    **dict.fromkeys((np.diag_indices_from, np.tril_indices_from, np.triu_indices_from), (np.eye(3),)),
    np.argpartition: (_data, 1),
    np.can_cast: (np.float64, np.float32),
    np.packbits: (_flags,),
    np.unpackbits: (_integers.astype(np.uint8),),
    np.einsum_path: ("ij,ij", _data, _other),
    np.digitize: (_data, np.array([-1.0, 1.0])),
    np.lexsort: ((_data[0], _data[1]),),
    np.may_share_memory: (_data, _other),
    np.ravel_multi_index: ((np.array([0, 1]), np.array([2, 1])), (2, 3)),
    np.searchsorted: (np.array([-1.0, 0.0, 2.0]), _data),
    np.shares_memory: (_data, _other),
    np.unravel_index: (np.array([2, 4]), (2, 3)),
}

each_function = pytest.mark.parametrize("function", NONDIFFERENTIABLE, ids=lambda function: function.__name__)


def in_tensors(value: Any) -> Any:
    """Return arguments with tensors for arrays, which require grad where they can."""
    if isinstance(value, np.ndarray):
        return ag.tensor(value, requires_grad=value.dtype.kind == "f")
    return tuple(map(in_tensors, value)) if isinstance(value, tuple) else value


def as_numpy(value: Any) -> Any:
    """Return a result with arrays for tensors, which have no history."""
    if isinstance(value, ag.Tensor):
        assert not value.requires_grad
        return value.numpy()
    return tuple(map(as_numpy, value)) if isinstance(value, tuple) else value


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
@each_function
def test_the_result_is_numpys_and_has_no_history(function: Callable[..., Any]) -> None:
    args = ARGUMENTS.get(function, (_data,))

    expected = function(*args)
    actual = function(*in_tensors(args))

    if function is np.empty_like:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        return
    assert isinstance(actual, ag.Tensor) == isinstance(expected, (np.ndarray, np.generic))
    assert getattr(actual, "dtype", None) == getattr(expected, "dtype", None)
    np.testing.assert_equal(as_numpy(actual), expected)


@each_function
def test_a_function_without_derivative_is_listed_once_and_registered(function: Callable[..., Any]) -> None:
    assert NONDIFFERENTIABLE.count(function) == 1
    assert isinstance(RULES[function], NonDifferentiable)


def test_the_dtype_that_a_comparison_is_asked_for_is_that_of_its_result() -> None:
    x, y = np.array([2.0, 3.0]), np.array([3.0, 3.0])

    assert np.equal(ag.tensor(x), y, dtype=bool).numpy().tolist() == np.equal(x, y, dtype=bool).tolist()
    with pytest.raises(TypeError):
        np.equal(ag.tensor(x), y, dtype=float)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(np.shape, (2, 3)), (np.ndim, 2), (np.size, 6), (np.result_type, np.dtype(np.float64)), (np.isrealobj, True)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_facts_about_a_tensor_are_plain_values(function: Callable[..., Any], expected: Any) -> None:
    actual = function(ag.tensor(_data, requires_grad=True))

    assert type(actual) is type(expected)
    assert actual == expected


@pytest.mark.parametrize("function", [np.allclose, np.array_equal, np.array_equiv])
def test_whether_two_arrays_are_equal_is_a_plain_bool(function: Callable[..., Any]) -> None:
    assert function(ag.tensor(_data), _data) is True


def test_a_tensor_made_by_asarray_shares_memory_with_its_array() -> None:
    assert np.shares_memory(ag.asarray(_data), _data)
    assert not np.shares_memory(ag.tensor(_data), _data)


def test_arguments_may_be_tensors_in_lists_and_by_keyword() -> None:
    bins = ag.tensor([-1.0, 1.0])

    assert as_numpy(np.lexsort([ag.tensor(_data[0]), ag.tensor(_data[1])])).tolist() == [2, 1, 0]
    assert as_numpy(np.digitize(_data[0], bins=bins)).tolist() == [2, 0, 1]
    assert as_numpy(np.any(ag.tensor(_data), axis=0, where=ag.tensor(_flags))).tolist() == [True, False, True]


def test_the_new_array_of_a_likeness_is_a_leaf_of_any_shape_and_dtype() -> None:
    tensor = ag.tensor(_data, requires_grad=True)
    ones: Any = np.ones_like(tensor, dtype=np.float32, shape=(4,))
    zeros: Any = np.zeros_like(tensor)
    sevens: Any = np.full_like(tensor, 7.0)

    assert (ones.is_leaf, ones.numpy().tolist()) == (True, [1.0] * 4)
    assert (zeros.is_leaf, zeros.numpy().tolist()) == (True, [[0.0] * 3] * 2)
    assert (sevens.is_leaf, sevens.numpy().tolist()) == (True, [[7.0] * 3] * 2)


def test_full_like_does_not_take_the_history_of_its_fill_value_away() -> None:
    value = ag.tensor(2.0, requires_grad=True)
    with pytest.raises(MissingDerivativeError, match="full_like"):
        np.full_like(ag.tensor(_data), value)
    with ag.no_grad():
        filled: Any = np.full_like(ag.tensor(_data), value)

    assert filled.numpy().tolist() == [[2.0] * 3] * 2


def test_a_histogram_is_constant_in_the_elements_and_outside_of_its_bins() -> None:
    elements = ag.tensor([0.5, np.nan, 2.5, 9.0], requires_grad=True)
    weights = ag.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)

    counts, edges = np.histogram(elements, [0.0, 1.0, 3.0], weights=weights)
    ag.sync.backward(counts.sum())

    assert not np.histogram(elements.detach(), [0.0, 1.0])[0].requires_grad
    assert (counts.tolist(), as_numpy(edges).tolist()) == ([1.0, 3.0], [0.0, 1.0, 3.0])
    assert elements.grad is None
    assert weights.grad.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_the_different_elements_have_history_and_their_counts_and_places_have_none() -> None:
    values, *others = np.unique(ag.tensor([2.0, 1.0, 2.0], requires_grad=True), True, True, True)
    values_of_all = np.unique_all(ag.tensor([2.0, 1.0, 2.0], requires_grad=True)).values

    assert (values.requires_grad, values_of_all.requires_grad) == (True, True)
    assert [as_numpy(one).tolist() for one in others] == [[1, 0], [1, 0, 1], [1, 2]]


def test_where_with_a_condition_alone_gives_indices_as_nonzero_does() -> None:
    condition = np.greater(ag.tensor(_data, requires_grad=True), 0)

    for have, want in zip(np.where(condition), np.nonzero(_data > 0), strict=True):
        np.testing.assert_array_equal(as_numpy(have), want)


def test_the_quotient_of_divmod_and_the_integer_of_modf_and_frexp_have_no_history() -> None:
    tensor: Any = ag.tensor([3.7, -5.2], requires_grad=True)
    history = [
        [part.requires_grad for part in parts] for parts in (np.divmod(tensor, 2.0), np.modf(tensor), np.frexp(tensor))
    ]

    assert history == [[False, True], [True, False], [True, False]]


def test_a_function_that_is_neither_listed_nor_has_a_rule_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"numpy\.busday_count"):
        np.busday_count(ag.tensor(_integers), 1)


# Files.


@pytest.mark.parametrize("function", [np.save, np.savez, np.savez_compressed, np.savetxt])
def test_a_tensor_is_saved_as_its_array_unless_it_requires_grad(tmp_path, function):
    path = tmp_path / ("t.txt" if function is np.savetxt else "t.npy" if function is np.save else "t.npz")
    t = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    if function in (np.save, np.savetxt):
        function(path, t)
        loaded = np.loadtxt(path) if function is np.savetxt else np.load(path)
    else:
        function(path, named=t)
        with np.load(path) as file:
            loaded = file["named"]
    np.testing.assert_array_equal(loaded, t.numpy())

    with pytest.raises(RequiresGradError, match=r"t\.detach\(\)"):
        function(path, t.requires_grad_())
