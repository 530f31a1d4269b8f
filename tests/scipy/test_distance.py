"""asyncgrad.scipy.spatial.distance: SciPy's values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.spatial
import scipy.spatial.distance as scipy_distance

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from asyncgrad.scipy import spatial
from asyncgrad.scipy.spatial import distance
from tests.core.ops.finite_differences import Case
from tests.scipy.functions import check, check_values, named_calls

# SciPy 1.18 advises against names that it still has, and asyncgrad follows it while it has them.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated in favor of .scipy.spatial:DeprecationWarning")

_RNG = np.random.default_rng(7)
_X, _Y, _W = _RNG.uniform(0.5, 2.0, (3, 2)), _RNG.uniform(0.5, 2.0, (4, 2)), np.array([0.5, 2.0])
_MATRIX = np.array([[2.0, 0.5], [0.5, 1.0]])
_METRICS = ("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon")
_POWERS = ("minkowski", "sqeuclidean")
#: Of two coordinates the correlation is 1 or -1.
_WIDE = _RNG.uniform(0.5, 2.0, (4, 3))

CASES: dict[str, list[Case]] = {
    "cdist": [
        *(Case((_WIDE[:2], _WIDE[2:], name), {}, (0, 1)) for name in (*_METRICS, *_POWERS)),
        Case((_WIDE, _WIDE[:3] + 0.25, "seuclidean"), {}, (0, 1)),
        Case((_X, _Y, "mahalanobis"), {}, (0, 1)),
        Case((_X, _Y, "seuclidean"), {"V": _W}, (0, 1, "V")),
        Case((_X, _Y, "mahalanobis"), {"VI": _MATRIX}, (0, 1)),
        *(Case((_X, _Y, name), {"w": _W}, (0, 1, "w")) for name in ("euclidean", "canberra", "cosine")),
        Case((_X, _Y, "minkowski"), {"p": 3.5}, (0, 1)),
        Case((_X, _Y, "minkowski"), {"p": np.inf}, (0, 1)),
        Case((_X, _Y, lambda one, other: ((one - other) ** 3).sum()), {}, (0, 1)),
    ],
    "pdist": [Case((_WIDE, name)) for name in ("euclidean", "seuclidean", "correlation")],
    "squareform": [
        Case((np.array([1.0, 2.0, 3.0]),)),
        Case((scipy.spatial.distance.squareform([1.0, 2.0, 3.0]),), {"checks": False}),
    ],
    **{name: [Case((_WIDE[0], _WIDE[1]), {}, (0, 1))] for name in (*_METRICS, "sqeuclidean")},
    "minkowski": [Case((_WIDE[0], _WIDE[1], 1.5), {}, (0, 1))],
    "mahalanobis": [Case((_X[0], _Y[0], _MATRIX), {}, (0, 1, 2))],
    "seuclidean": [Case((_X[0], _Y[0], _W), {}, (0, 1, 2))],
}
CALLS = named_calls(distance, scipy.spatial.distance, CASES)


def test_every_function_has_a_case() -> None:
    assert set(distance.__all__) == set(CASES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_first_and_second_order_are_those_of_finite_differences(name: str) -> None:
    ours, _, case = CALLS[name]

    check(ours, case)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_scipy(name: str) -> None:
    check_values(*CALLS[name])


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski", "canberra", "jensenshannon"])
def test_the_gradient_of_the_distance_of_points_that_coincide_is_zero(metric: str) -> None:
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)

    sync.backward(distance.cdist(x, [[1.0, 2.0]], metric))

    assert np.array_equal(x.grad.numpy(), [[0.0, 0.0]])


@pytest.mark.parametrize("w", [None, [1.0, 2.0, 0.5]])
def test_minkowskis_distance_of_order_two_is_euclids_to_second_order_where_coordinates_are_the_same(w: Any) -> None:
    x, y = ag.tensor([1.0, 2.0, 3.0]), ag.tensor([1.0, 1.0, 5.0])

    found = sync.hessian(lambda x: distance.minkowski(x, y, 2, w), x)
    assert found[0, 0].item() > 0
    np.testing.assert_allclose(found, sync.hessian(lambda x: distance.euclidean(x, y, w), x))


def test_close_points_far_from_the_origin_keep_their_digits() -> None:
    x = ag.tensor([[1e8, 1e8]], requires_grad=True)

    sync.backward(distance.cdist(x, [[1e8 + 3, 1e8 + 4]]))

    np.testing.assert_allclose(x.grad.numpy(), [[-0.6, -0.8]], rtol=1e-12)


@pytest.mark.parametrize("metric", ["hamming", "jaccard", "yule"])
def test_a_metric_without_derivative_has_scipys_values_and_refuses_points_that_require_grad(metric: str) -> None:
    x, y = _X > 0, ag.tensor(_Y > 0)

    assert np.array_equal(distance.cdist(x, y, metric).numpy(), scipy_distance.cdist(x, y.numpy(), metric))
    assert np.array_equal(distance.pdist(y, metric).numpy(), scipy_distance.pdist(y.numpy(), metric))
    with pytest.raises(ArgumentError, match=f"no derivative with metric='{metric}': there are braycurtis, "):
        distance.cdist(ag.tensor(_X, requires_grad=True), _Y, metric)


def test_distances_are_written_into_out_and_what_a_metric_does_not_take_is_refused() -> None:
    x, out = ag.tensor(_X, requires_grad=True), ag.tensor(np.zeros((len(_X), len(_Y))))

    assert distance.cdist(x, _Y, out=out) is out
    assert np.array_equal(out.detach().numpy(), scipy_distance.cdist(_X, _Y))
    (grad,) = sync.grad(out.sum(), [x])
    assert np.array_equal(grad.numpy(), sync.grad(distance.cdist(x, _Y).sum(), [x])[0].numpy())
    with pytest.raises(ValueError, match=r"out must have the shape \(3,\)"):
        distance.pdist(_X, out=np.zeros(4))
    with pytest.raises(ValueError, match="out must be contiguous"):
        distance.cdist(_X, _Y, out=np.zeros((len(_Y), len(_X))).T)
    with pytest.raises(TypeError, match=r"distance\.cosine takes real vectors"):
        distance.cosine([1.0 + 1j, 2.0], [1.0, 0.5])
    with pytest.raises(TypeError, match="metric='seuclidean' takes no p"):
        distance.cdist(_X, _Y, "seuclidean", p=1.0)
    for refused in (lambda w: distance.cosine(_X[0], _Y[0], w), lambda w: distance.pdist(_X, "cosine", w=w)):
        with pytest.raises(ValueError, match="weights w of a distance must not be negative"):
            refused(np.array([1.0, -1.0]))


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"as many columns.*\(3, 2\) and \(4, 3\)"):
        distance.cdist(_X, _WIDE)


def test_an_arc_between_points_that_are_nearly_opposite_is_scipys() -> None:
    start, end, times = np.array([0.0, -9.59930941e-04, 9.99999539e-01]), [0.0, 0.0, -1.0], np.linspace(0.0, 1.0, 5)

    found = spatial.geometric_slerp(start, end, times)

    np.testing.assert_allclose(found.numpy(), scipy.spatial.geometric_slerp(start, end, times), atol=1e-9)


def _on_sphere(function: Any) -> Any:
    """Return a function of two points with these moved onto the unit sphere."""
    return lambda x, y, *args: function(*(one / np.sqrt(np.sum(one * one)) for one in (x, y)), *args)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("minkowski_distance", (_RNG.normal(size=(3, 2)), _RNG.normal(size=2), p)) for p in (1, 2.0, 3.5, np.inf)),
        ("minkowski_distance_p", (_RNG.normal(size=(3, 2)), _RNG.normal(size=2), 3)),
        *(("distance_matrix", (_RNG.normal(size=(3, 2)), _RNG.normal(size=(4, 2)), p)) for p in (2, 1, 0.5)),
        ("procrustes", (_RNG.normal(size=(4, 2)), _RNG.normal(size=(4, 2)))),
        ("geometric_slerp", (_RNG.normal(size=3), _RNG.normal(size=3), np.array([0.0, 0.25, 1.5]))),
    ],
)
def test_points_have_scipys_values_and_derivatives(name: str, args: tuple[Any, ...]) -> None:
    ours, theirs = getattr(spatial, name), getattr(scipy.spatial, name)
    if name == "geometric_slerp":
        ours, theirs = _on_sphere(ours), _on_sphere(lambda x, y, t: scipy.spatial.geometric_slerp(x, y, t))

    check_values(ours, theirs, Case(args, {}, (0, 1)))
    check(ours, Case(args, {}, (0, 1)))


@pytest.mark.parametrize("name", [name for name in (*_METRICS, *_POWERS) if name != "chebyshev"])
def test_gradients_of_distances_of_float16_are_those_of_float64_rounded(name: str) -> None:
    # More elements than float16 counts, and sums of products beyond its range. (A chebyshev has ties.)
    points = _RNG.uniform(0.1, 1.5, (2, 70_000)).astype(np.float16)

    def gradients(dtype: Any) -> list[Any]:
        leaves = [ag.tensor(one.astype(dtype), requires_grad=True) for one in points]
        result = getattr(distance, name)(*leaves)
        return [one.numpy() for one in (result.detach(), *sync.grad(result, leaves))]

    # As SciPy's, whatever the vectors are.
    wide = {"braycurtis": np.float64, "canberra": np.float64, "jensenshannon": np.float32}
    dtypes = wide.get(name, np.float16), np.float16, np.float16
    for found, exact, dtype in zip(gradients(np.float16), gradients(float), dtypes, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(float), exact, rtol=2e-3, atol=1e-7)


def test_a_matrix_of_truths_is_one_of_truths() -> None:
    found = distance.squareform(np.array([True, False, True]))

    np.testing.assert_array_equal(found, scipy.spatial.distance.squareform(np.array([True, False, True])), strict=True)
