"""asyncgrad.scipy.interpolate: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse.linalg

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import AsyncgradError
from asyncgrad.scipy import interpolate
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values

_RNG = np.random.default_rng(11)
_X = np.array([0.0, 0.75, 1.25, 2.5, 3.0])
#: It rises, turns, and is flat: what a monotonic interpolant tells apart.
_Y = np.array([1.0, 2.5, 2.25, 2.0, 3.5])
_CLOSED = np.array([1.0, 2.5, 2.25, 2.0, 1.0])
_MANY = _RNG.normal(size=(2, 5, 2))
_AT = np.array([0.25, 1.0, 2.0, 2.75])
_BEYOND = np.array([-0.25, 0.5, 3.5])
_GRID = (np.array([0.0, 1.0, 3.0]), np.array([2.0, 1.0, 0.0, -1.0]))
_VALUES = _RNG.normal(size=(3, 4, 2))
_POINTS = np.array([[[0.25, 1.5], [2.5, -0.5]], [[1.5, 0.25], [0.5, 0.75]]])

_KNOTS = np.array([-1.0, -0.75, -0.5, 0.0, 1.5, 3.0, 3.25, 4.0, 5.0])
_LONG = np.linspace(0.0, 3.0, 12)
_NOISY = np.sin(_LONG) + 0.125 * _RNG.normal(size=12)
#: Knots of a spline of degree 2, both ends three times.
_ENDS = np.array([-0.25, -0.25, -0.25, 1.0625, 1.75, 3.25, 3.25, 3.25])
_SOME = _RNG.normal(size=(9, 2))
#: A grid with points enough for splines of degree 5.
_WIDE = (
    np.array([0.0, 0.5, 1.0, 2.0, 2.25, 3.0]),
    np.array([2.0, 1.5, 1.0, 0.25, 0.0, -0.5, -1.0]),
    _RNG.normal(size=(6, 7, 2)),
)

#: Points, values at them, and weights.
_SCATTERED = (*_RNG.uniform(size=(2, 40)), _RNG.normal(size=40), _RNG.uniform(0.5, 1.0, 40))

#: Functions of a module, ours or SciPy's, and of arrays.
Call = Callable[..., Any]


def _of_class(name: str, *args: Any, **kwargs: Any) -> Call:
    def call(module: Any, x: Any, y: Any, at: Any, **options: Any) -> Any:
        return getattr(module, name)(x, y, *args, **kwargs)(at, **options)

    return call


def _grid(module: Any, first: Any, second: Any, values: Any, at: Any, **kwargs: Any) -> Any:
    return module.RegularGridInterpolator((first, second), values, **kwargs)(at)


_ALL = (0, 1, 2)
CALLS: dict[str, tuple[Call, Case]] = {
    **{
        f"CubicSpline-{index}": (_of_class("CubicSpline", bc_type=bc), Case((_X, _Y, _AT), {}, _ALL))
        for index, bc in enumerate(("not-a-knot", "natural", ((1, 0.5), (2, -0.25)), ((2, 0.5), "not-a-knot")))
    },
    "CubicSpline of three": (_of_class("CubicSpline"), Case((_X[:3], _Y[:3], _AT), {}, _ALL)),
    "CubicSpline of two": (_of_class("CubicSpline", bc_type="clamped"), Case((_X[:2], _Y[:2], _AT), {}, _ALL)),
    "CubicSpline of many": (_of_class("CubicSpline", axis=1), Case((_X, _MANY, _AT.reshape(2, 2)), {"nu": 1}, _ALL)),
    "CubicSpline periodic": (
        _of_class("CubicSpline", bc_type="periodic"),
        Case((_X, np.array([1.0, 2.5, 2.25, 2.0, 1.0]), _BEYOND), {}, (0, 2)),
    ),
    "CubicSpline integrated": (
        lambda module, x, y, at: module.CubicSpline(x, y).integrate(at[0], at[1]),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "CubicSpline antiderivative": (
        lambda module, x, y, at: module.CubicSpline(x, y).antiderivative(2)(at),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "CubicSpline roots": (
        lambda module, x, y, level: module.CubicSpline(x, y).solve(level, extrapolate=False),
        Case((_X, _Y, np.array(2.375)), {}, _ALL),
    ),
    "PPoly with a jump": (
        lambda module, c, x: module.PPoly(c, x).roots(),
        Case((np.array([[1.0, 2.0], [-1.5, 1.0]]), np.array([0.0, 1.0, 2.0])), {}, (0, 1), smooth=False),
    ),
    "PPoly over periods": (
        lambda module, c, x, ends: module.PPoly(c, x, "periodic").integrate(*ends),
        Case((_RNG.normal(size=(3, 4)), _X, np.array([-4.25, 7.5])), {}, _ALL),
    ),
    "BSpline over periods": (
        lambda module, t, c, ends: module.BSpline(t, c, 3, "periodic").integrate(*ends),
        Case((_KNOTS, _MANY[0, :, 0], np.array([8.5, -2.25])), {}, _ALL),
    ),
    **{
        f"UnivariateSpline of degree {k}": (
            lambda module, x, y, w, at, k=k, s=s: module.UnivariateSpline(x, y, w, k=k, s=s)(at),
            Case((_LONG, _NOISY, 1 + 0.25 * np.cos(_LONG), _AT), {}, (0, 1, 2, 3)),
        )
        for k, s in ((2, 0.0), (3, 0.0))
    },
    "LSQUnivariateSpline": (
        lambda module, x, y, t, at: module.LSQUnivariateSpline(x, y, t)(at, 1),
        Case((_LONG, _NOISY, np.array([1.0625, 1.75]), _AT), {}, (0, 1, 2, 3)),
    ),
    "InterpolatedUnivariateSpline": (
        lambda module, x, y, at: module.InterpolatedUnivariateSpline(x, y, ext="const").antiderivative()(at),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "splint": (
        lambda module, x, y, ends: module.splint(ends[0], ends[1], module.splrep(x, y)),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "splder": (lambda module, x, y: module.splder(module.splrep(x, y), 2)[:2], Case((_X, _Y), {}, (0, 1))),
    "splantider": (lambda module, x, y: module.splantider(module.splrep(x, y), 2)[:2], Case((_X, _Y), {}, (0, 1))),
    "sproot": (lambda module, x, y: module.sproot(module.splrep(x, y - 2.375)), Case((_X, _Y), {}, (0, 1))),
    "splprep": (
        lambda module, x, y, at: np.stack(module.splev(at, module.splprep([x, y], s=0)[0])),
        Case((_X, _Y, _AT / 4), {}, _ALL),
    ),
    "RectBivariateSpline": (
        lambda module, x, y, z, at: module.RectBivariateSpline(x, y, z, kx=2).ev(at + 0.0625, at[::-1] / 4, 1, 0),
        Case((_X, _WIDE[0], _RNG.normal(size=(5, 6)), _AT), {}, (0, 1, 2, 3)),
    ),
    **{
        f"RBFInterpolator {kernel}": (
            lambda module, y, d, x, kernel=kernel, options=options: module.RBFInterpolator(
                y, d, kernel=kernel, epsilon=0.75, **options
            )(x),
            Case((_SOME, _SOME[:, 0] ** 2, _SOME[:3] + 0.375), {}, _ALL),
        )
        for kernel, options in (
            *((one, {}) for one in ("thin_plate_spline", "cubic", "quintic", "multiquadric", "gaussian")),
            ("linear", {"smoothing": 0.5, "degree": 1}),
            ("inverse_quadratic", {"neighbors": 6}),
            ("inverse_multiquadric", {"degree": 0}),
        )
    },
    **{
        f"griddata {method}": (
            lambda module, points, values, at, method=method: module.griddata(points, values, at, method),
            Case((_SOME, _SOME[:, 0] ** 2, _SOME[:3] / 2), {}, moved),
        )
        for method, moved in (("linear", _ALL), ("nearest", (1,)))
    },
    "LinearNDInterpolator": (
        lambda module, points, values, at: module.LinearNDInterpolator(points, values, rescale=True)(at),
        Case((_SOME, _SOME**2, _SOME[:3] / 2), {}, _ALL),
    ),
    "CloughTocher2DInterpolator": (
        lambda module, x, values, at: module.CloughTocher2DInterpolator(x, values, tol=1e-12, rescale=True)(at),
        Case((_SOME, np.sin(_SOME), _SOME[:3] / 2), {}, _ALL),
    ),
    "NearestNDInterpolator": (
        lambda module, points, values, at: module.NearestNDInterpolator(points, values)(at),
        Case((_SOME, _SOME**2, _SOME[:3] / 2), {}, (1,)),
    ),
    "PchipInterpolator": (_of_class("PchipInterpolator"), Case((_X, _Y, _AT), {}, _ALL)),
    "PchipInterpolator of many": (_of_class("PchipInterpolator", axis=1), Case((_X, _MANY, _BEYOND), {}, _ALL)),
    "pchip_interpolate": (
        lambda module, x, y, at: module.pchip_interpolate(x, y, at, [0, 1]),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "Akima1DInterpolator": (_of_class("Akima1DInterpolator"), Case((_X, _Y, _AT), {}, _ALL)),
    "Akima1DInterpolator modified": (
        _of_class("Akima1DInterpolator", method="makima"),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    "Akima1DInterpolator beyond": (_of_class("Akima1DInterpolator"), Case((_X, _Y, _BEYOND), {}, _ALL, smooth=False)),
    "CubicHermiteSpline": (
        lambda module, x, y, slopes, at: module.CubicHermiteSpline(x, y, slopes)(at),
        Case((_X, _Y, _Y[::-1].copy(), _AT), {}, (0, 1, 2, 3)),
    ),
    "PPoly of decreasing points": (
        lambda module, c, x, at: module.PPoly(c, x).antiderivative()(at) + module.PPoly(c, x).integrate(0.25, 1.5),
        Case((_RNG.normal(size=(3, 4)), _X[::-1].copy(), _BEYOND), {}, _ALL),
    ),
    "RectBivariateSpline-smooth": (
        lambda module, x, y, z, at: module.RectBivariateSpline(x, y, z, kx=2, s=0.25)(at, at / 4, 1, 2),
        Case((_X, _WIDE[0], _WIDE[2][1:, :6, 0], _AT), {}, smooth=False),
    ),
    "SmoothBivariateSpline": (
        lambda module, x, y, z, w, at: module.SmoothBivariateSpline(x, y, z, w, kx=2, ky=1, s=1.0).ev(at, at / 4),
        Case((*_SCATTERED, _AT / 8), {}, smooth=False),
    ),
    "LSQBivariateSpline": (
        lambda module, x, y, z, t, w, at: module.LSQBivariateSpline(
            x, y, z, t, t[:1], w, (-0.25, 1.25, -0.5, 1.5), 2, 1
        ).ev(at, at / 4),
        Case((*_SCATTERED[:3], np.array([0.5, 0.75]), _SCATTERED[3], _AT / 8), {}, (0, 1, 2, 3, 4, 5)),
    ),
    "bisplrep": (
        lambda module, x, y, z, w: module.bisplrep(x, y, z, w, kx=2, ky=1, s=15.0)[:3],
        Case(_SCATTERED, {}, smooth=False),
    ),
    "bisplev": (
        lambda module, x, y, z, t, at: module.bisplev(
            at, at / 4, module.bisplrep(x, y, z, kx=2, ky=2, task=-1, tx=t, ty=t, nxest=7, nyest=7), 1
        ),
        Case((*_SCATTERED[:3], np.array([-0.25, -0.25, -0.25, 0.5, 1.25, 1.25, 1.25]), _AT / 8), {}, (2, 4)),
    ),
    "RectBivariateSpline-derivative": (
        lambda module, x, y, z, at: module.RectBivariateSpline(x, y, z).partial_derivative(1, 2)(
            at, at[::-1] / 4, grid=False
        ),
        Case((_X, _WIDE[0], _RNG.normal(size=(5, 6)), _AT), {}, (2, 3)),
    ),
    "PPoly": (
        lambda module, c, x, at: module.PPoly(c, x)(at, 1),
        Case((_RNG.normal(size=(3, 4, 2)), _X, _AT), {}, _ALL),
    ),
    **{
        f"interp1d {kind}": (_of_class("interp1d", kind, fill_value="extrapolate"), Case((_X, _Y, _AT), {}, (1,)))
        for kind in ("nearest", "nearest-up", "previous", "next", "zero")
    },
    "interp1d linear": (
        _of_class("interp1d", fill_value="extrapolate", axis=1),
        Case((_X, _MANY, _BEYOND), {}, _ALL),
    ),
    "interp1d unsorted": (
        _of_class("interp1d", "cubic", bounds_error=False, fill_value=(1.0, 2.0)),
        Case((_X[::-1].copy(), _Y, np.array([-1.0, 0.5, 4.0])), {}, _ALL),
    ),
    "RegularGridInterpolator": (_grid, Case((*_GRID, _VALUES, _POINTS), {}, (0, 1, 2, 3))),
    "RegularGridInterpolator nearest": (_grid, Case((*_GRID, _VALUES, _POINTS), {"method": "nearest"}, (2,))),
    "RegularGridInterpolator beyond": (
        _grid,
        Case((*_GRID, _VALUES, _POINTS * 1.9), {"bounds_error": False, "fill_value": None}, (2, 3)),
    ),
    "RegularGridInterpolator filled": (
        _grid,
        Case((*_GRID, _VALUES, _POINTS * 1.9), {"bounds_error": False, "fill_value": 0.5}, (2, 3)),
    ),
    **{
        f"RegularGridInterpolator {method}": (
            _grid,
            Case((*_WIDE, at), {"method": method, "bounds_error": False, "fill_value": None, **options}, (0, 1, 2, 3)),
        )
        for method, at, options in (
            # SciPy's own solver stops at an error of 1e-6.
            ("cubic", _POINTS[0] * 1.125, {"solver": scipy.sparse.linalg.spsolve}),
            ("slinear", _POINTS[:1] * 1.125, {"solver": scipy.sparse.linalg.spsolve}),
            ("quintic", _POINTS[0] * 1.75, {"solver": scipy.sparse.linalg.spsolve}),
            ("pchip", _POINTS[0] * 1.125, {}),
        )
    },
    "BSpline": (
        lambda module, t, c, at: module.BSpline(t, c, 3, axis=1)(at),
        Case((_KNOTS, _MANY, _AT), {}, _ALL),
    ),
    "BSpline derivative": (
        lambda module, t, c, at: module.BSpline(t, c, 3)(at, 2, extrapolate=False),
        Case((_KNOTS, _MANY[0], _BEYOND[1:2]), {}, _ALL),
    ),
    "BSpline integrated": (
        lambda module, t, c, at: module.BSpline(t, c, 2).integrate(at[0], at[1]),
        Case((_KNOTS[:-1], _MANY[0], _AT), {}, _ALL),
    ),
    "BSpline antiderivative": (
        lambda module, t, c, at: module.BSpline(t, c, 1).antiderivative(2)(at),
        Case((np.linspace(0.0, 4.0, 7), _Y, _AT), {}, _ALL),
    ),
    "BSpline periodic": (
        lambda module, t, c, at: module.BSpline(t, c, 3, extrapolate="periodic")(at),
        Case((_KNOTS, _Y, _BEYOND), {}, (1, 2)),
    ),
    **{
        f"make_interp_spline {k}": (
            _of_class("make_interp_spline", k=k),
            Case((_X, _Y, _AT + 0.125), {}, _ALL if k else (1,)),
        )
        for k in (0, 1, 2)
    },
    "make_interp_spline of many": (_of_class("make_interp_spline", axis=1), Case((_X, _MANY, _AT), {"nu": 1}, _ALL)),
    "make_interp_spline natural": (
        _of_class("make_interp_spline", bc_type=("natural", [(1, 0.5)])),
        Case((_X, _Y, _AT), {}, _ALL),
    ),
    **{
        f"make_interp_spline periodic {k}": (
            _of_class("make_interp_spline", k=k, bc_type="periodic"),
            Case((_X, _CLOSED, _BEYOND), {}, (0, 2)),
        )
        for k in (2, 3)
    },
    "make_lsq_spline": (
        lambda module, x, y, t, w, at: module.make_lsq_spline(x, y, t, 2, w)(at, 1),
        Case((_LONG, _NOISY, _ENDS, 1 + 0.25 * np.cos(_LONG), _AT), {}, (0, 1, 3, 4)),
    ),
    "make_smoothing_spline": (
        lambda module, x, y, w, lam, at: module.make_smoothing_spline(x, y, w, lam)(at),
        Case((_X, _Y, 1 + 0.25 * np.cos(_X), np.array(0.0625), _AT), {}, (0, 1, 2, 3, 4)),
    ),
    **{
        f"splrep periodic {s}": (
            lambda module, x, y, at, s=s: module.splev(at, module.splrep(x, y, s=s, per=1), 1),
            Case((_LONG, _NOISY, _AT), {}, _ALL, smooth=not s),
        )
        for s in (0.0, 0.5)
    },
    "splprep closed": (
        lambda module, x, y, at: np.stack(module.splev(at, module.splprep([x, y], k=2, s=0, per=True)[0])),
        Case((np.array([1.0, 0.25, -1.25, 0.0, 1.0]), _CLOSED, _AT / 4), {}, _ALL),
    ),
    "splprep of given knots": (
        lambda module, x, y, at: np.stack(
            module.splev(at, module.splprep([x, y], k=2, task=-1, t=np.clip(_ENDS / 3, 0, 1))[0])
        ),
        Case((_LONG, _NOISY, _AT / 4), {}, _ALL),
    ),
    "splrep": (lambda module, x, y: module.splrep(x, y)[:2], Case((_X, _Y), {}, (0, 1))),
    **{
        f"splev {ext}": (
            lambda module, x, y, at, ext=ext: module.splev(at, module.splrep(x, y), ext=ext),
            Case((_X, _Y, _BEYOND), {}, (1, 2)),
        )
        for ext in (0, 1, 3)
    },
    "interp1d quadratic": (_of_class("interp1d", "quadratic"), Case((_X, _Y, _AT + 0.125), {}, _ALL)),
    "interp1d 2": (_of_class("interp1d", 2), Case((_X, _Y, _AT + 0.125), {}, _ALL)),
    "interpn": (
        lambda module, values, at: module.interpn(_GRID, values, at),
        Case((_VALUES, _POINTS[0]), {}, (0, 1)),
    ),
}


def test_every_function_has_a_case() -> None:
    assert set(interpolate.__all__) == {name.partition("-")[0].partition(" ")[0] for name in CALLS}


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name, (_, case) in CALLS.items() if case.smooth])
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    call, case = CALLS[name]

    # Least squares on a surface lose digits, of which a step of ten times the length leaves as many more.
    step = 1e-4 if name == "LSQBivariateSpline" else 1e-5
    check(lambda *args, **kwargs: call(interpolate, *args, **kwargs), case, step=step)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_scipy(name: str) -> None:
    call, case = CALLS[name]

    check_values(
        lambda *args, **kwargs: call(interpolate, *args, **kwargs),
        lambda *args, **kwargs: call(scipy.interpolate, *args, **kwargs),
        case,
    )


@pytest.mark.parametrize("k", [3, 4])
def test_a_smoothing_spline_is_that_of_scipy_and_keeps_its_residual(k: int) -> None:
    x, y, w = (ag.tensor(one, requires_grad=True) for one in (_LONG, _NOISY, 1 + 0.25 * np.cos(_LONG)))
    spline = interpolate.UnivariateSpline(x, y, w, k=k, s=0.03)
    expected = scipy.interpolate.UnivariateSpline(_LONG, _NOISY, w.numpy(), k=k, s=0.03)
    residual = np.sum((w * (spline(x) - y)) ** 2)

    np.testing.assert_allclose(np.asarray(spline(_AT).detach()), expected(_AT), rtol=1e-6)
    assert len(expected.get_knots()) > 2
    assert residual.item() == pytest.approx(expected.get_residual(), rel=1e-6)
    for grad in sync.grad(residual, (x, y, w), retain_graph=True):
        np.testing.assert_allclose(grad.numpy(), 0.0, atol=1e-9)
    # The values follow the data nevertheless.
    (grad,) = sync.grad(np.sum(spline(_AT)), (y,))
    assert np.sum(grad.numpy()) == pytest.approx(_AT.size)


def test_a_spline_that_is_fitted_again_is_that_of_the_new_smoothing_factor() -> None:
    spline, expected = (one.UnivariateSpline(_LONG, _NOISY, s=0.03) for one in (interpolate, scipy.interpolate))

    for fitted in (spline, expected):
        fitted.set_smoothing_factor(0.3)

    np.testing.assert_allclose(np.asarray(spline(_AT)), expected(_AT), rtol=1e-6)


@pytest.mark.parametrize("name", ["RectBivariateSpline", "SmoothBivariateSpline"])
def test_a_smoothing_surface_keeps_its_residual_and_follows_the_data(name: str) -> None:
    is_grid = name == "RectBivariateSpline"
    x, y, z = (
        ag.tensor(one, requires_grad=True)
        for one in ((_X, _WIDE[0], _WIDE[2][1:, :6, 0]) if is_grid else _SCATTERED[:3])
    )
    surface = getattr(interpolate, name)(x, y, z, kx=2, ky=1, s=8.0 if is_grid else 25.0)
    residual = np.sum(((surface(x, y) if is_grid else surface.ev(x, y)) - z) ** 2)

    assert residual.item() == pytest.approx(surface.get_residual())
    for grad in sync.grad(residual, (x, y, z), retain_graph=True):
        np.testing.assert_allclose(grad.numpy(), 0.0, atol=1e-8)
    (grad,) = sync.grad(np.sum(surface.ev(_AT / 8, _AT / 4)), (z,))
    assert np.sum(grad.numpy()) == pytest.approx(_AT.size)


@pytest.mark.parametrize("module", [interpolate, scipy.interpolate])
def test_fitpack_warns_of_too_small_a_residual_unless_asked_for_its_words(module: Any) -> None:
    with pytest.warns(RuntimeWarning, match="too small"):
        module.bisplrep(*_SCATTERED, s=0.01)
    with pytest.warns(RuntimeWarning, match="too small"):
        module.splprep([_LONG, _NOISY], s=1e-9, nest=9)
    assert module.bisplrep(*_SCATTERED, s=0.01, full_output=1)[2] > 0


def test_the_integrals_of_the_b_splines_make_that_of_the_spline() -> None:
    tck = interpolate.splrep(_X, ag.tensor(_Y, requires_grad=True))
    area, areas = interpolate.splint(0.5, 2.0, tck, full_output=1)

    assert np.sum(areas * tck[1]).item() == pytest.approx(area.item())


@pytest.mark.parametrize(("k", "s"), [(2, 0.5), (3, 0.03), (3, 0.5), (3, 9.0)])
def test_a_periodic_smoothing_spline_keeps_its_residual(k: int, s: float) -> None:
    x, y = (ag.tensor(one, requires_grad=True) for one in (_LONG, _NOISY))
    spline, given, _, _ = interpolate.splrep(x, y, k=k, s=s, per=1, full_output=1)
    residual = np.sum((interpolate.splev(x[:-1], spline) - y[:-1]) ** 2)

    assert residual.item() == pytest.approx(given)
    if given > 0.9 * s:
        for grad in sync.grad(residual, (x, y), retain_graph=True):
            np.testing.assert_allclose(grad.numpy(), 0.0, atol=1e-8)
    (grad,) = sync.grad(np.sum(interpolate.splev(_AT, spline)), (y,))
    assert np.sum(grad.numpy()) == pytest.approx(_AT.size)


def test_a_smoothing_spline_of_least_error_is_that_of_scipy_and_follows_the_data() -> None:
    x, y, w = _LONG, np.stack([_NOISY, np.cos(3 * _LONG)], 1), 1 + 0.25 * np.cos(_LONG)
    expected = scipy.interpolate.make_smoothing_spline(x, y, w)(_AT)

    # SciPy's search for the least error ends near it.
    np.testing.assert_allclose(interpolate.make_smoothing_spline(x, y, w)(_AT).numpy(), expected, rtol=1e-4)
    check(
        lambda x, y, w: interpolate.make_smoothing_spline(x, y, w)(_AT),
        Case((x, y[:, 0], w), {}, _ALL),
    )


def test_a_smoothing_spline_near_a_line_is_the_line() -> None:
    x, y = ag.tensor(_X, requires_grad=True), ag.tensor(2 * _X + 1, requires_grad=True)
    value = interpolate.make_smoothing_spline(x, y)(1.125)

    assert interpolate.make_smoothing_spline(_X, 0 * _Y)(1.125).item() == 0.0
    assert value.item() == pytest.approx(3.25)
    assert np.sum(sync.grad(value, (y,))[0].numpy()) == pytest.approx(1.0)


def test_a_point_that_is_no_number_has_no_value() -> None:
    line, grid = interpolate.interp1d, interpolate.RegularGridInterpolator
    for kind in ("linear", "zero", "cubic"):
        assert np.isnan(line(_X, _Y, kind, bounds_error=False, fill_value=2.0)(np.nan).numpy())
    for method in ("linear", "nearest"):
        found = grid(_GRID, _VALUES, method, bounds_error=False, fill_value=2.0)([[np.nan, 0.0], [99.0, 0.0]]).numpy()
        assert np.isnan(found[0]).all()
        assert (found[1] == 2.0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interpolate.CubicSpline([0.0, 0.0], [1.0, 2.0]), "increase strictly"),
        (lambda: interpolate.CubicSpline(_X, _Y[:3]), r"as many values along axis 0.*\(5,\) and \(3,\)"),
        (lambda: interpolate.CubicSpline(_X, _Y, bc_type="free"), "'periodic', not 'free'"),
        (lambda: interpolate.CubicSpline(_X, _Y, bc_type="periodic"), "first and last are the same"),
        (lambda: interpolate.PPoly([[1.0, 2.0]], [0.0, 1.0]), r"shape \(k, 1, \.\.\.\) for 2 breakpoints"),
        (lambda: interpolate.interp1d(_X, _Y)(5.0), r"interp1d: 5.0 lies beyond the points, 0.0 to 3.0"),
        (lambda: interpolate.interp1d(_X, _Y, fill_value=(1.0, 2.0))(5.0), "bounds_error=False, and a fill_value"),
        (lambda: interpolate.interp1d(_X, _Y, "septic"), "has the kinds linear, "),
        (lambda: interpolate.BSpline([0.0, 1.0], [1.0], 1), r"n > 1, and n coefficients along axis 0"),
        (lambda: interpolate.BSpline([0.0, 1.0, 0.5, 2.0], [1.0, 2.0], 1), "do not decrease"),
        (lambda: interpolate.make_interp_spline(_X, _Y, bc_type="free"), "or lists of derivatives, not 'free'"),
        (lambda: interpolate.make_interp_spline(_X, _Y, bc_type="periodic"), "first and last are the same"),
        (lambda: interpolate.make_interp_spline(_X, _CLOSED, t=_X, bc_type="periodic"), "write t=None"),
        (lambda: interpolate.make_smoothing_spline(_X[:4], _Y[:4]), r"at least 5 points x.*\(4,\)"),
        (lambda: interpolate.make_smoothing_spline(_X, _Y, 0 * _X), "a weight w above 0"),
        (lambda: interpolate.make_smoothing_spline(_X, _Y, lam=-1.0), "at least 0, not -1.0"),
        (lambda: interpolate.make_smoothing_spline(_X, _Y * np.nan), "takes finite numbers"),
        (lambda: interpolate.make_lsq_spline(_X + 5, _Y, _ENDS, 2), r"points from -0.25 to 3.25"),
        (lambda: interpolate.make_lsq_spline(_X, _Y, _X, 2), r"and 6 knots t, not shapes \(5,\) and \(5,\)"),
        (lambda: interpolate.make_interp_spline(_X, _Y, t=_X), "needs 1 points and conditions"),
        (lambda: interpolate.splrep(_X, _Y, task=1), "write task=0"),
        (lambda: interpolate.splder((_KNOTS, _Y, 3), 4), "up to the degree, 3, not 4"),
        (lambda: interpolate.sproot((_KNOTS, np.ones(6), 2)), "of degree 3, not 2"),
        (lambda: interpolate.bisplrep(*_SCATTERED, task=1), "write task=0"),
        (lambda: interpolate.bisplev(0.5, 0.5, (_KNOTS, _KNOTS, _MANY, 3, 3), 3), "order dx below the degree, 3"),
        (lambda: interpolate.SmoothBivariateSpline(_X, _X, _X[:4]), r"one shape \(m,\), not \(5,\), \(5,\), \(4,\)"),
        (
            lambda: interpolate.griddata(np.eye(3), _X[:3], np.eye(3), "cubic"),
            r"points of shape \(n, 2\), not \(3, 3\)",
        ),
        (lambda: interpolate.RBFInterpolator(_X[:, None], _Y, kernel="gaussian"), "takes an epsilon"),
        (lambda: interpolate.splev(9.0, interpolate.splrep(_X, _Y), ext=2), "9.0 lies beyond the ends"),
        (lambda: interpolate.RegularGridInterpolator(_GRID, _VALUES)([[9.0, 0.0]]), "beyond the grid along axis 0"),
        (lambda: interpolate.RegularGridInterpolator(_GRID, _VALUES)([1.0]), "must have 2 coordinates"),
        (lambda: interpolate.RegularGridInterpolator(_GRID, _VALUES, "septic"), "here, not 'septic'"),
        (lambda: interpolate.RegularGridInterpolator(_GRID, _VALUES, "cubic"), "at least 4 points along each axis"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises((AsyncgradError, ValueError), match=message):
        call()


def test_curves_are_integrated_and_their_derivatives_go_on_beyond_the_ends() -> None:
    angles = np.linspace(0.0, 3.0, 20)
    curve, _ = scipy.interpolate.splprep([np.sin(angles), np.cos(angles)], s=0)
    beyond = np.array([-1.0, 0.5, 2.0])

    areas = [one.item() for one in interpolate.splint(0.1, 0.7, curve)]
    slopes = [one.numpy() for one in interpolate.splev(beyond, curve, der=1, ext=3)]

    np.testing.assert_allclose(areas, scipy.interpolate.splint(0.1, 0.7, curve))
    np.testing.assert_allclose(slopes, scipy.interpolate.splev(beyond, curve, der=1, ext=3), atol=1e-9)
    with pytest.raises(ValueError, match="from 0 to the degree, 3, not 4"):
        interpolate.splev(0.5, curve, der=4)


def test_interpolants_are_of_double_precision_as_scipys() -> None:
    x, y, at = (one.astype(np.float32) for one in (_X, _Y, _AT[:2]))
    for name in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "make_interp_spline"):
        assert getattr(interpolate, name)(x, y)(at).dtype == getattr(scipy.interpolate, name)(x, y)(at).dtype, name


def test_slopes_by_signs_and_sizes_are_of_real_values() -> None:
    for name in ("PchipInterpolator", "Akima1DInterpolator"):
        with pytest.raises(ValueError, match="takes real values"):
            getattr(interpolate, name)(_X, _Y + 1j)


def test_derivatives_of_splines_on_a_grid_are_asked_for_by_coordinate() -> None:
    grid = (*_WIDE[:2],), _WIDE[2], "cubic"
    at = np.stack([np.full(2, 0.625), np.array([0.375, 0.5])], -1)
    ours, theirs = (one.RegularGridInterpolator(*grid) for one in (interpolate, scipy.interpolate))

    np.testing.assert_allclose(ours(at, nu=(1, 0)), theirs(at, nu=(1, 0)), rtol=1e-4)
    for orders in ((1,), (0, -1)):
        with pytest.raises(ValueError, match="takes 2 orders"):
            ours(at, nu=orders)


def test_a_surface_takes_the_points_of_an_open_grid() -> None:
    x, y = np.linspace(0, 1, 5), np.linspace(0, 2, 6)
    values = np.sin(x)[:, None] * np.cos(y)
    ours, theirs = (module.RectBivariateSpline(x, y, values) for module in (interpolate, scipy.interpolate))

    for points in (np.ix_(x[:3], y[1:]), (x[None, :3], y[1:, None])):
        np.testing.assert_allclose(ours(*points).numpy(), theirs(*points), atol=1e-13)
    with pytest.raises(ValueError, match="do not decrease"):
        ours(*np.meshgrid(x[:3], y[:3]))


@pytest.mark.parametrize("kind", ["quadratic", "cubic", 5])
@pytest.mark.parametrize("argument", [0, 1])
def test_a_spline_through_nan_is_nan_everywhere(kind: str | int, argument: int) -> None:
    arguments = [np.arange(8.0), np.arange(24.0).reshape(8, 3)]
    arguments[argument][3] = np.nan

    ours, theirs = (one.interp1d(*arguments, kind=kind, axis=0) for one in (interpolate, scipy.interpolate))

    points = np.array([[1.5, 2.0]])
    np.testing.assert_array_equal(ours(points).numpy(), theirs(points))


def test_no_derivative_of_a_spline_is_the_spline_with_what_lies_beyond_its_coefficients() -> None:
    t, c, k = scipy.interpolate.splrep(np.arange(8.0), np.arange(8.0) ** 2)
    c[-k:] = 0.5
    tck = (t, ag.tensor(c, requires_grad=True), k)

    for derive in (interpolate.splder, interpolate.splantider):
        found = derive(tck, 0)
        np.testing.assert_array_equal(found[1].detach().numpy(), c)
        (grad,) = sync.grad(found[1].sum(), [tck[1]])
        np.testing.assert_array_equal(grad.numpy(), 1.0)


@pytest.mark.parametrize("options", [{}, {"kind": 1}, {"bounds_error": False, "fill_value": "extrapolate"}])
@pytest.mark.parametrize("shape", [(5,), (5, 2)])
def test_lines_between_points_are_nan_where_those_of_scipy_are(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    x, y = np.arange(5.0), np.arange(float(np.prod(shape))).reshape(shape)
    y[2] = np.nan
    at = np.arange(9) / 2

    found = interpolate.interp1d(x, y, axis=0, **options)(at)

    np.testing.assert_array_equal(found.numpy(), scipy.interpolate.interp1d(x, y, axis=0, **options)(at))


def test_a_spline_of_lines_is_nan_where_that_of_scipy_is() -> None:
    x, y = np.arange(10.0), np.arange(10.0)
    y[6] = np.nan
    points = [0.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 9.0]

    ours, theirs = (one.interp1d(x, y, kind="slinear")(points) for one in (interpolate, scipy.interpolate))

    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_the_integral_of_a_spline_of_several_numbers_is_its_own() -> None:
    spline = interpolate.make_interp_spline(np.arange(6.0), np.ones((6, 2)))

    with pytest.raises(ValueError, match=r"write spline\.integrate"):
        interpolate.splint(0, 1, spline)
