"""asyncgrad.scipy.ndimage: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import ndimage
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

_RNG = np.random.default_rng(13)
_IMAGE = _RNG.normal(size=(4, 5))
_WEIGHTS = _RNG.normal(size=(2, 3))
_ROW = _RNG.normal(size=4)
_FILTER_MODES = ("reflect", "mirror", "nearest", "wrap", "constant")
_MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "grid-wrap", "wrap")
_WHERE = _RNG.uniform(-2.0, 5.5, (2, 3, 2))
_BOTH = (0, 1)
_TURN = np.array([[0.875, 0.25], [-0.125, 1.125]])


def _each(name: str, **kwargs: Any) -> list[Case]:
    return [Case((_IMAGE,), {"mode": mode, "cval": 0.5, **kwargs}) for mode in _FILTER_MODES]


_LABELS = np.array([[0, 1, 1, 2, 2], [1, 1, 0, 2, 3], [3, 3, 0, 0, 2], [1, 2, 3, 3, 0]])
_HEIGHTS = _RNG.normal(size=(2, 3))
_CROSS = np.array([[0, 1, 0], [1, 1, 1]])
_LABELLED = [Case((_IMAGE,)), Case((_IMAGE, _LABELS)), Case((_IMAGE, _LABELS, [1, 3, 2])), Case((_IMAGE, _LABELS, 2))]


def _nearby(at: tuple[int, ...], by: Any = 0.25) -> tuple[Any, Any]:
    """Return where an element comes from."""
    return 0.75 * at[0] + by, at[1] - by


CASES: dict[str, list[Case]] = {
    **dict.fromkeys(("sum", "sum_labels", "mean", "variance", "standard_deviation"), _LABELLED),
    **dict.fromkeys(("minimum", "maximum", "median", "center_of_mass"), _LABELLED),
    "grey_erosion": [Case((_IMAGE, 3)), Case((_IMAGE,), {"structure": _HEIGHTS, "origin": (0, 1)}, (0, "structure"))],
    "grey_dilation": [
        Case((_IMAGE, (2, 3)), {"origin": (-1, 0)}),
        Case((_IMAGE,), {"footprint": _CROSS, "structure": _HEIGHTS, "mode": "mirror"}, (0, "structure")),
    ],
    **{
        name: [Case((_IMAGE, (2, 3))), Case((_IMAGE,), {"structure": _HEIGHTS})]
        for name in (
            *("grey_opening", "grey_closing", "morphological_gradient", "morphological_laplace"),
            *("white_tophat", "black_tophat"),
        )
    },
    "rank_filter": [Case((_IMAGE, -2, 3)), Case((_IMAGE, 1), {"footprint": _CROSS})],
    "percentile_filter": [Case((_IMAGE, 40, (2, 3)), {"origin": (-1, 1)}), Case((_IMAGE, -10.0, 3))],
    "maximum_filter1d": [Case((_IMAGE, 4, 0), {"origin": 1})],
    "minimum_filter1d": [Case((_IMAGE, 3), {"mode": "constant", "cval": 0.25})],
    "correlate": [
        *(Case((_IMAGE, _WEIGHTS), {"mode": mode, "cval": 0.5}, _BOTH) for mode in _FILTER_MODES),
        Case((_IMAGE, _RNG.normal(size=(6, 7))), {"origin": (1, -2)}, _BOTH),
    ],
    "convolve": [
        Case((_IMAGE, _WEIGHTS), {}, _BOTH),
        Case((_IMAGE, _WEIGHTS), {"origin": (-1, 1)}, _BOTH),
    ],
    "correlate1d": [Case((_IMAGE, _ROW, 0), {"origin": 1}, _BOTH)],
    "convolve1d": [Case((_IMAGE, _ROW), {"mode": "wrap"}, _BOTH), Case((_IMAGE, _ROW, 0), {"origin": 1}, _BOTH)],
    "gaussian_filter1d": [Case((_IMAGE, 0.75), {"order": order, "axis": 0}) for order in range(4)],
    "gaussian_filter": [
        Case((_IMAGE, (0.5, 1.0)), {"order": (0, 1), "mode": ("wrap", "mirror")}),
        Case((_IMAGE, 0.75), {"axes": 1, "radius": 2}),
    ],
    "uniform_filter1d": [Case((_IMAGE, 4, 0), {"origin": -1})],
    "uniform_filter": [Case((_IMAGE, (1, 4)), {"mode": "nearest"})],
    "sobel": [Case((_IMAGE, 0))],
    "prewitt": [Case((_IMAGE,), {"mode": "constant", "cval": 1.5})],
    "laplace": [Case((_IMAGE,))],
    "gaussian_laplace": [Case((_IMAGE, 0.75))],
    "gaussian_gradient_magnitude": [Case((_IMAGE, 0.75))],
    "spline_filter1d": [Case((_IMAGE, 3, 0), {"output": float, "mode": mode}) for mode in ("mirror", "grid-wrap")],
    "spline_filter": [Case((_IMAGE, 4), {"mode": "reflect"})],
    "geometric_transform": [
        Case((_IMAGE, _nearby, (2, 3)), {"mode": "mirror", "extra_arguments": (np.array(0.3125),)}),
        Case((_IMAGE, _nearby), {"mode": "nearest", "order": 1, "extra_keywords": {"by": 0.4375}}),
    ],
    "map_coordinates": [
        *(Case((_IMAGE, _WHERE), {"mode": mode, "order": 3, "cval": 0.5}, _BOTH) for mode in _MODES),
        *(Case((_IMAGE, _WHERE), {"mode": "mirror", "order": order}, _BOTH) for order in (1, 2, 4, 5)),
        Case((_IMAGE, _WHERE), {"mode": "nearest", "order": 0}),
        Case((_IMAGE, _WHERE), {"mode": "nearest", "order": 5, "prefilter": False}, _BOTH),
    ],
    "shift": [
        Case((_IMAGE, np.array([0.25, -1.5])), {}, _BOTH),
        Case((_IMAGE, np.array([0.25, -1.75])), {"mode": "nearest", "order": 2}, _BOTH),
    ],
    "zoom": [
        Case((_IMAGE, 1.5), {"mode": "grid-constant", "grid_mode": True, "cval": 0.5}),
        Case((_IMAGE, (2.0, 0.5))),
        Case((_IMAGE, 1.75), {"mode": "reflect", "grid_mode": True, "order": 1}),
    ],
    "affine_transform": [
        Case((_IMAGE, _TURN, np.array([0.3125, -0.1875]), (3, 4)), {"mode": "mirror"}, (0, 1, 2)),
        Case((_IMAGE, np.array([0.5, 0.75]), 0.3125), {"order": 2}, _BOTH),
        Case((_IMAGE, np.hstack([_TURN, [[0.3125], [0.0625]]])), {"mode": "wrap"}, _BOTH),
    ],
    "rotate": [
        Case((_IMAGE, 30.0), {"mode": "mirror"}),
        Case((_RNG.normal(size=(2, 3, 3)), -50.0, (2, 0)), {"reshape": False, "order": 1}),
    ],
    **{
        name: [
            Case((_IMAGE, (2, 3)), {"mode": "mirror"}),
            Case((_IMAGE,), {"footprint": [[0, 1, 0], [1, 1, 1], [0, 1, 0]], "origin": (1, -1)}),
        ]
        for name in ("maximum_filter", "minimum_filter", "median_filter")
    },
}
CALLS = named_calls(ndimage, scipy.ndimage, CASES)


def test_every_function_has_a_case() -> None:
    of_others = {"generic_laplace", "generic_gradient_magnitude"}

    assert set(ndimage.__all__) - of_others == set(CASES)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.sampled("dtype")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_dtypes_are_those_of_scipy(name: str, dtype: Any) -> None:
    check_values(*CALLS[name], dtype=dtype)


def test_the_width_of_a_gaussian_and_the_angle_of_a_turn_have_derivatives() -> None:
    check(lambda sigma: ndimage.gaussian_filter(_IMAGE, sigma, radius=2), Case((np.array(0.75),)))
    check(lambda angle: ndimage.rotate(_IMAGE, angle, mode="mirror"), Case((np.array(31.0),)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ndimage.correlate(_IMAGE, _ROW), r"as many axes as the image, not shapes \(4,\) and \(4, 5\)"),
        (lambda: ndimage.correlate(_IMAGE, _WEIGHTS, mode="some"), "scipy.ndimage.correlate takes mode 'reflect', "),
        (lambda: ndimage.correlate(_IMAGE, _WEIGHTS, origin=3), "origin within the weights, not 3 of 2"),
        (lambda: ndimage.map_coordinates(_IMAGE, [[0.0]]), r"coordinates of shape \(2, \.\.\.\).*not \(1, 1\)"),
        (lambda: ndimage.map_coordinates(_IMAGE, _WHERE, order=6), "order of 0 to 5, not 6"),
        (lambda: ndimage.zoom(_IMAGE, 2, mode="some"), "has the modes reflect, "),
        (lambda: ndimage.maximum_filter(_IMAGE), "takes a size or a footprint"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError), match=message):
        call()


def test_filters_of_some_axes_are_those_of_each_part() -> None:
    stack = np.stack([_IMAGE, _IMAGE[::-1], 2 * _IMAGE])

    for name, args in {
        "correlate": (_WEIGHTS,),
        "convolve": (_WEIGHTS,),
        "laplace": (),
        "gaussian_laplace": (0.75,),
        "gaussian_gradient_magnitude": (0.75,),
        "maximum_filter": (3,),
        "median_filter": ((2, 3),),
        "grey_dilation": ((2, 3),),
        "percentile_filter": (30, 3),
    }.items():
        function = getattr(ndimage, name)
        found = function(stack, *args, axes=(1, 2))
        np.testing.assert_allclose(found, np.stack([function(one, *args) for one in stack]), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("convolve", (_WEIGHTS,)),
        ("minimum_filter", ((2, 3),)),
        ("minimum_filter", (None, np.tri(2, 3))),
        ("rank_filter", (1, (2, 3))),
        ("grey_dilation", (None, None, _WEIGHTS)),
    ],
)
def test_axes_out_of_order_are_scipys(name: str, args: Any) -> None:
    stack = np.stack([_IMAGE, _IMAGE[::-1], 2 * _IMAGE])
    options = {"axes": (-1, 1), "origin": (-1, 0)}
    expected = getattr(scipy.ndimage, name)(stack, *args, **options)

    found = getattr(ndimage, name)(ag.tensor(stack, requires_grad=True), *args, **options)

    np.testing.assert_allclose(found.detach(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["correlate", "convolve", "correlate1d", "convolve1d"])
def test_complex_weights_are_conjugated_as_scipys(name: str) -> None:
    shape = _ROW.shape if name.endswith("1d") else _WEIGHTS.shape
    image, weights = _IMAGE + 1j * _IMAGE[::-1], _RNG.normal(size=shape) + 1j * _RNG.normal(size=shape)
    function = getattr(ndimage, name)

    np.testing.assert_allclose(function(image, weights), getattr(scipy.ndimage, name)(image, weights), rtol=1e-12)
    assert sync.gradcheck(function, tuple(ag.tensor(one, requires_grad=True) for one in (image, weights)))


def test_empty_images_stay_empty() -> None:
    empty = ag.tensor(np.zeros((0, 5)), requires_grad=True)

    for found in (ndimage.gaussian_filter(empty, 1.0), ndimage.median_filter(empty, 3), ndimage.grey_opening(empty, 3)):
        assert found.shape == (0, 5)
        sync.backward(found.sum())


_POINTS = np.random.default_rng(3).normal(size=6)
#: The slopes are those of the pieces within the image but for grid-wrap, where the next element is the first one.
_ENDS = ("reflect", "grid-mirror", "mirror", "nearest", "constant", "grid-constant", "wrap")


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("mode", _ENDS)
def test_the_slope_at_the_last_element_is_that_of_the_image_before_it(mode: str, order: int) -> None:
    places, step = np.arange(6.0), 1e-6
    x = ag.tensor(places[np.newaxis], requires_grad=True)

    def at(where: np.ndarray) -> np.ndarray:
        return np.asarray(scipy.ndimage.map_coordinates(_POINTS, where[np.newaxis], order=order, mode=mode))

    (slopes,) = sync.grad(ndimage.map_coordinates(_POINTS, x, order=order, mode=mode).sum(), [x])

    # Into the image at both ends.
    inwards = np.where(places == 5, -step, step)
    np.testing.assert_allclose(slopes.numpy()[0], (at(places + inwards) - at(places)) / inwards, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "move",
    [
        lambda by: ndimage.shift(_POINTS, -by, order=1),
        lambda by: ndimage.affine_transform(_POINTS, np.eye(1), by, order=1),
        lambda by: ndimage.map_coordinates(_POINTS, np.arange(6.0)[np.newaxis] + by, order=1),
    ],
    ids=["shift", "affine_transform", "map_coordinates"],
)
def test_a_warp_that_moves_nothing_has_the_slopes_of_the_image(move: Any) -> None:
    by = ag.tensor(0.0, requires_grad=True)
    weights = np.arange(1.0, 7.0)

    (slope,) = sync.grad((move(by) * weights).sum(), [by])

    slopes = np.append(np.diff(_POINTS), _POINTS[-1] - _POINTS[-2])
    np.testing.assert_allclose(slope.numpy(), slopes @ weights, rtol=1e-12)


def test_a_periodic_image_has_the_slope_towards_its_first_element_at_the_last() -> None:
    x = ag.tensor([[5.0]], requires_grad=True)

    (slope,) = sync.grad(ndimage.map_coordinates(_POINTS, x, order=1, mode="grid-wrap").sum(), [x])

    np.testing.assert_allclose(slope.numpy()[0, 0], _POINTS[0] - _POINTS[-1], rtol=1e-12)


def test_what_a_mapping_is_given_has_derivatives_and_whole_numbers_stay_whole() -> None:
    check(
        lambda by: ndimage.geometric_transform(_IMAGE, _nearby, mode="mirror", extra_arguments=(by,)),
        Case((np.array(0.3125),)),
    )
    assert ndimage.geometric_transform(np.eye(3, dtype=int), _nearby).dtype.kind == "i"
