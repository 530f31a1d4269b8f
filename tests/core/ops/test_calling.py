"""Functions that call functions, and covariances: what they call with, what they warn of and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np


def test_a_piece_is_computed_of_its_own_elements_only() -> None:
    x = ag.tensor([-1.0, 0.0, 4.0], requires_grad=True)

    result = numpy.piecewise(x, [x > 0, x <= 0], [np.sqrt, 0.0])

    assert sync.grad(result.sum(), [x])[0].tolist() == [0, 0, 0.25]


def test_a_function_along_an_axis_may_close_over_a_tensor_that_requires_grad() -> None:
    weight = ag.tensor(2.0, requires_grad=True)

    result = numpy.apply_along_axis(lambda row: (weight * row).sum(), 1, ag.tensor([[1.0, 2.0], [3.0, 4.0]]))

    assert result.tolist() == [6, 14]
    assert sync.grad(result.sum(), [weight])[0].tolist() == 10


def test_the_derivative_of_a_covariance_without_degrees_of_freedom_is_warned_of_at_the_line_of_the_caller() -> None:
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom") as caught:
        np.cov(ag.tensor([[1.0], [2.0]]))

    assert caught[0].filename == __file__


def test_a_polynomial_that_points_do_not_determine_is_warned_of_at_the_line_of_the_caller() -> None:
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned") as caught:
        np.polyfit(ag.tensor([1.0, 1.0, 1.0]), [1.0, 2.0, 3.0], 1)

    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ({"aweights": [1.0, -1.0]}, ValueError),
        ({"fweights": [0.5, 1.0]}, TypeError),
        ({"aweights": [1.0]}, RuntimeError),
        ({"aweights": [1j, 1.0]}, ArgumentTypeError),
        ({"ddof": 0.5}, ValueError),
    ],
)
def test_weights_that_are_none_are_refused(weights: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r".+"):
        np.cov(ag.tensor([[1.0, 2.0], [3.0, 5.0]]), **weights)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.vander(t[np.newaxis]),
        lambda t: np.polyder(t, -1),
        lambda t: np.polyint(t, -1),
        lambda t: np.polyint(t, 3, [1.0, 2.0]),
        lambda t: np.poly(t[np.newaxis]),
        lambda t: np.roots(t[np.newaxis]),
        lambda t: np.polyfit(t, t, -1),
        lambda t: np.polyfit(t, t[:1], 1),
        lambda t: np.polyfit(t, t, 1, w=t[:1]),
        lambda t: np.polyfit(t, t, 2, cov=True),
        lambda t: np.cov(t[np.newaxis, np.newaxis]),
        lambda t: np.apply_along_axis(np.sum, 0, t[:, np.newaxis][:, :0]),
        lambda t: numpy.apply_over_axes(lambda a, axis: a.sum(), t[np.newaxis], [0]),
        lambda t: np.piecewise(t, [t > 1], [1.0, 2.0, 3.0]),
    ],
)
def test_what_numpy_refuses_is_refused(call: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r".+"):
        call(np.arange(3.0))
    with pytest.raises((ValueError, TypeError), match=r".+"):
        call(ag.tensor(np.arange(3.0)))


def test_the_median_of_nothing_but_nans_is_nan_and_warned_of_at_the_line_of_the_caller() -> None:
    x = ag.tensor([[np.nan, np.nan], [1.0, np.nan]], requires_grad=True)

    with pytest.warns(RuntimeWarning, match="All-NaN") as caught:
        medians = numpy.nanmedian(x, 1)

    assert caught[0].filename == __file__
    assert np.isnan(medians.numpy()).tolist() == [True, False]
    assert sync.grad(medians[1], [x])[0].tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("name", ["max", "std", "sinc", "nancumsum", "cumulative_sum", "fft.fft", "fft.fftn"])
def test_an_argument_that_there_is_not_is_refused_in_the_name_of_the_function(name: str) -> None:
    *modules, last = name.split(".")
    function = getattr(numpy.fft if modules else numpy, last)

    with pytest.raises(TypeError, match=rf"^{last}\(\) got an unexpected keyword argument 'dim'"):
        function(ag.tensor([1.0, 2.0]), dim=0)
