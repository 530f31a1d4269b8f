"""The functions of `scipy.spatial.distance`, with Tensors as results.

A distance has no derivative where two points coincide, but for its square; the gradient there is 0, as in PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import distance as _scipy

from ...core.arrays.values import raw, refuse_complex
from ...core.ops.single_precision import in_single
from ...core.recording.primitive import derivative, primitive
from ...core.settings.context import is_grad_enabled
from ...core.tensor import Tensor, asarray
from ...errors import ArgumentError
from ..arguments import double, floating
from ..error_names import name_errors
from ..roots import root_of_squares
from ..unsupported import refuse

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = [
    "braycurtis",
    "canberra",
    "cdist",
    "chebyshev",
    "cityblock",
    "correlation",
    "cosine",
    "euclidean",
    "jensenshannon",
    "mahalanobis",
    "minkowski",
    "pdist",
    "seuclidean",
    "sqeuclidean",
    "squareform",
]

#: As many differences of coordinates are held at a time.
_CHUNK = 2**20


@primitive(superlinear=True)
def euclidean_distances_(x: Any, y: Any) -> Any:
    """Return the distance of each row of `x` from each row of `y`."""
    return _scipy.cdist(x, y)


@derivative(euclidean_distances_, "x")
def _(g: Array, x: Array, y: Any, out: Array) -> Array:
    return weighted_differences_.call(_slopes(g, out), x, y)


@derivative(euclidean_distances_, "y")
def _(g: Array, x: Any, y: Array, out: Array) -> Array:
    return weighted_differences_.call(_slopes(g, out).T, y, x)


def _slopes(g: Any, distances: Any) -> Any:
    return np.where(raw(distances) == 0, 0.0, g / np.where(raw(distances) == 0, 1.0, distances))


@primitive(superlinear=True)
def squared_distances_(x: Any, y: Any) -> Any:
    """Return the squared distance of each row of `x` from each row of `y`."""
    return _scipy.cdist(x, y, "sqeuclidean")


@derivative(squared_distances_, "x")
def _(g: Array, x: Array, y: Any) -> Array:
    return 2 * weighted_differences_.call(g, x, y)


@derivative(squared_distances_, "y")
def _(g: Array, x: Any, y: Array) -> Array:
    return 2 * weighted_differences_.call(g.T, y, x)


@primitive(superlinear=True)
def weighted_differences_(weights: Any, x: Any, y: Any) -> Array:
    """Return for each row of `x` the sum of its differences from the rows of `y`, each times its weight.

    A product of matrices would lose the digits of points that are close to one another.
    """
    step = max(1, _CHUNK // max(y.size, 1))
    parts = [
        np.einsum("ij,ijk->ik", weights[start : start + step], x[start : start + step, np.newaxis] - y)
        for start in range(0, len(x), step)
    ]
    return np.concatenate(parts) if parts else np.zeros_like(x)


@derivative(weighted_differences_, "weights")
def _(g: Any, x: Any, y: Any) -> Array:
    return np.sum(g * x, 1)[:, np.newaxis] - g @ y.T


@derivative(weighted_differences_, "x")
def _(g: Any, weights: Any) -> Array:
    return g * np.sum(weights, 1)[:, np.newaxis]


@derivative(weighted_differences_, "y")
def _(g: Any, weights: Any) -> Array:
    return -(weights.T @ g)


# Metrics of arrays whose last axis has the coordinates; the others are broadcast.


def _weighted(values: Any, w: Any) -> Any:
    return np.sum(values if w is None else values * w, -1)


def _euclidean(u: Any, v: Any, w: Any = None) -> Any:
    return root_of_squares(_sqeuclidean(u, v, w))


def _sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.square(u - v), w)


def _cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.abs(u - v), w)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    # A weight only says whether a coordinate counts.
    differences = np.abs(u - v)
    return np.max(differences if w is None else differences * (np.asarray(raw(w)) > 0), -1)


def _minkowski(u: Any, v: Any, p: float = 2, w: Any = None) -> Any:
    if p <= 0:
        raise ValueError(f"the Minkowski distance takes p > 0, not {p}")
    if np.isinf(p):
        return _chebyshev(u, v, w)
    if raw(p) is p and p == 2:
        # The second derivative of a square is 2 at 0 too, where that of a power of |x| is left out.
        return _euclidean(u, v, w)
    differences = np.abs(u - v)
    is_zero = raw(differences) == 0
    powers = np.where(is_zero, 0.0, np.where(is_zero, 1.0, differences) ** p)
    sums = _weighted(powers, w)
    is_zero = raw(sums) == 0
    return np.where(is_zero, 0.0, np.where(is_zero, 1.0, sums) ** (1 / p))


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return 1 - _weighted(u * v, w) / np.sqrt(_weighted(u * u, w) * _weighted(v * v, w))


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    if centered:
        total = 1.0 if w is None else np.sum(w)
        u, v = (
            one - (np.mean(one, -1, keepdims=True) if w is None else np.sum(one * w, -1, keepdims=True) / total)
            for one in (u, v)
        )
    return _cosine(u, v, w)


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    sizes = np.abs(u) + np.abs(v)
    is_zero = raw(sizes) == 0
    return _weighted(np.where(is_zero, 0.0, np.abs(u - v) / np.where(is_zero, 1.0, sizes)), w)


def _braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.abs(u - v), w) / _weighted(np.abs(u + v), w)


def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    return root_of_squares(np.sum(np.square(u - v) / V, -1))


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    difference = u - v
    return root_of_squares(np.sum((difference @ VI) * difference, -1))


def _jensenshannon(u: Any, v: Any, base: Any = None) -> Any:
    u, v = (one / np.sum(one, -1, keepdims=True) for one in (u, v))
    middle = (u + v) / 2
    divergence = np.sum(_entropy_terms(u, middle) + _entropy_terms(v, middle), -1) / 2
    divergence = divergence if base is None else divergence / np.log(base)
    # Rounding may leave less than nothing of a distance of 0.
    return root_of_squares(np.where(raw(divergence) > 0, divergence, 0.0))


def _entropy_terms(u: Any, middle: Any) -> Any:
    is_zero = raw(u) == 0
    return u * np.log(np.where(is_zero, 1.0, u) / np.where(raw(middle) == 0, 1.0, middle))


_METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": _euclidean,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}
#: SciPy's other names of some.
_ALIASES = {
    **dict.fromkeys(("cityblock", "cblock", "cb", "c", "manhattan"), "cityblock"),
    **dict.fromkeys(("chebychev", "cheby", "cheb", "ch"), "chebyshev"),
    **dict.fromkeys(("co", "correlation"), "correlation"),
    **dict.fromkeys(("cos", "cosine"), "cosine"),
    **dict.fromkeys(("euclid", "eu", "e"), "euclidean"),
    **dict.fromkeys(("mahal", "mahalanobis", "mi_"), "mahalanobis"),
    **dict.fromkeys(("mi", "m", "pnorm"), "minkowski"),
    **dict.fromkeys(("se", "s"), "seuclidean"),
    **dict.fromkeys(("sqe", "sqeuclid"), "sqeuclidean"),
    **dict.fromkeys(("js", "jensenshannon"), "jensenshannon"),
}
#: What each takes beside two vectors.
_PARAMETERS = {name: tuple(inspect.signature(metric).parameters)[2:] for name, metric in _METRICS.items()}

#: Metrics of vectors that SciPy has of real ones alone.
_OF_REAL_NUMBERS = frozenset(("braycurtis", "canberra", "correlation", "cosine", "sqeuclidean"))


def _metric(name: str, metric: Any, kwargs: dict[str, Any]) -> tuple[str, Callable[..., Any]]:
    """Return a metric's name, empty for a function of the user's, and its function; raise for what it does not take."""
    if callable(metric):
        return "", metric
    known = _without_alias(metric)
    others = set(kwargs) - set(_PARAMETERS[known])
    if others:
        raise TypeError(f"scipy.spatial.distance.{name} with metric={metric!r} takes no {', '.join(sorted(others))}")
    _check_weights(kwargs.get("w"))
    return known, _METRICS[known]


def _check_weights(w: Any) -> None:
    if w is not None and (raw(asarray(w)) < 0).any():
        raise ValueError("the weights w of a distance must not be negative")


def _has_derivative(metric: object) -> bool:
    """Return whether a metric is a function, or one of real numbers: others compare elements, or count them."""
    return callable(metric) or _without_alias(metric) in _METRICS


def _without_alias(metric: object) -> str:
    name = str(metric).lower()
    return _ALIASES.get(name, name)


def _by_scipy(name: str, metric: Any, points: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return SciPy's distances by a metric that has no derivative.

    Raises:
        ArgumentError: the points require grad.
    """
    if is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in (*points, *kwargs.values())):
        raise ArgumentError(
            f"scipy.spatial.distance.{name} has no derivative with metric={metric!r}: there are "
            f"{', '.join(_METRICS)}. For values alone pass t.detach()"
        )
    options = {key: raw(value) for key, value in kwargs.items()}
    return asarray(getattr(_scipy, name)(*map(raw, points), metric, **options))


def _written(distances: Tensor, out: Any) -> Tensor:
    """Return distances, written into `out` if there is one."""
    if out is None:
        return distances
    if out.shape != distances.shape or out.dtype != distances.dtype:
        raise ValueError(
            f"out must have the shape {distances.shape} and the dtype {distances.dtype}, not {out.shape} and "
            f"{out.dtype}"
        )
    if isinstance(raw(out), np.ndarray) and not raw(out).flags.c_contiguous:
        raise ValueError("out must be contiguous, with its rows one after the other: write np.ascontiguousarray")
    out[...] = distances
    written: Tensor = out
    return written


def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Tensor:
    """Return the distance of each row of one matrix from each row of another.

    Args:
        XA: shape (m, k).
        XB: shape (n, k).
        metric: the name of a metric, or a function of two vectors. Those that compare elements, or count them, have no
            derivative, and take no points that require grad.
        out: where the distances are written, of double precision; None for a new Tensor.
        **kwargs: what the metric takes: `p`, `w`, `V`, `VI`, `base`.

    Returns:
        A Tensor of shape (m, n).

    Source: scipy.spatial.distance.cdist.

    Example:
        >>> from asyncgrad.scipy.spatial import distance
        >>> distance.cdist([[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0]]).tolist()
        [[0.0], [5.0]]
    """
    if not _has_derivative(metric):
        return _written(_by_scipy("cdist", metric, (XA, XB), kwargs), out)
    x, y = _points("XA", XA), _points("XB", XB)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"XA and XB must have as many columns, but have the shapes {x.shape} and {y.shape}")
    name, function = _metric("cdist", metric, kwargs)
    if name == "seuclidean" and kwargs.get("V") is None:
        kwargs["V"] = np.var(np.concatenate([x, y]), 0, ddof=1)
    if name == "mahalanobis" and kwargs.get("VI") is None:
        kwargs["VI"] = np.linalg.inv(np.cov(np.concatenate([x, y]).T)).T
    return _written(_pairs(name, function, x, y, kwargs), out)


def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Tensor:
    """Return the distances of the rows of a matrix from one another, each pair once.

    Args:
        X: shape (m, k).
        metric: as for `cdist`.
        out: as for `cdist`.
        **kwargs: what the metric takes.

    Returns:
        A Tensor of shape (m * (m - 1) / 2,); `squareform` makes a matrix of it.

    Source: scipy.spatial.distance.pdist.
    """
    if not _has_derivative(metric):
        return _written(_by_scipy("pdist", metric, (X,), kwargs), out)
    x = _points("X", X)
    name, function = _metric("pdist", metric, kwargs)
    if name == "seuclidean" and kwargs.get("V") is None:
        kwargs["V"] = np.var(x, 0, ddof=1)
    if name == "mahalanobis" and kwargs.get("VI") is None:
        kwargs["VI"] = np.linalg.inv(np.cov(x.T)).T
    rows, columns = np.triu_indices(len(x), 1)
    return _written(_pairs(name, function, x, x, kwargs)[rows, columns], out)


def _points(name: str, value: Any) -> Any:
    points = floating(value)
    if points.ndim != 2:
        raise ValueError(f"{name} must be a matrix of points, one in each row, but has the shape {points.shape}")
    return points.astype(float, copy=False)


def _pairs(name: str, function: Callable[..., Any], x: Any, y: Any, kwargs: dict[str, Any]) -> Any:
    if not name:
        return _called_on_pairs(function, x, y, kwargs)
    kwargs = {
        key: asarray(value) if key in ("w", "V", "VI") and value is not None else value for key, value in kwargs.items()
    }
    if name == "euclidean" and kwargs.get("w") is None:
        return euclidean_distances_.call(x, y)
    if name == "sqeuclidean" and kwargs.get("w") is None:
        return squared_distances_.call(x, y)
    if name == "seuclidean":
        scale = 1 / np.sqrt(kwargs["V"])
        return euclidean_distances_.call(x * scale, y * scale)
    if name in ("cosine", "correlation") and kwargs.get("w") is None:
        if name == "correlation":
            x, y = (one - np.mean(one, 1, keepdims=True) for one in (x, y))
        return 1 - (x / _norms(x)) @ (y / _norms(y)).T
    return function(x[:, np.newaxis], y, **kwargs)


def _norms(x: Any) -> Any:
    return np.sqrt(np.sum(x * x, 1, keepdims=True))


def _called_on_pairs(function: Callable[..., Any], x: Any, y: Any, kwargs: dict[str, Any]) -> Any:
    if not len(x) or not len(y):
        return asarray(np.zeros((len(x), len(y))))
    return np.stack([np.stack([asarray(function(one, other, **kwargs)) for other in y]) for one in x])


def squareform(X: Any, force: str = "no", checks: bool = True) -> Tensor:
    """Return the matrix of the distances of pairs, or the distances of pairs from their matrix.

    Args:
        X: shape (n * (n - 1) / 2,), or (n, n), symmetric with zeros on the diagonal.
        force: "tovector" or "tomatrix" say which one is meant.
        checks: whether to check that a matrix is symmetric.

    Source: scipy.spatial.distance.squareform.
    """
    x = asarray(X)
    # SciPy raises the errors.
    shape = _scipy.squareform(np.asarray(raw(x)), force, checks).shape
    if len(shape) == 1:
        return x[np.triu_indices(x.shape[0], 1)]
    rows, columns = np.triu_indices(shape[0], 1)
    places = np.zeros(shape, int)
    places[rows, columns] = places[columns, rows] = np.arange(x.size)
    if not x.size:
        return asarray(np.zeros(shape, x.dtype))
    return np.where(np.eye(shape[0], dtype=bool), x.dtype.type(0), x[places])


#: Metrics whose distances are float64 whatever the vectors are, as SciPy's.
_IN_DOUBLE = {"braycurtis", "canberra"}
#: Metrics whose distances of whole numbers are whole.
_OF_WHOLE_NUMBERS = {"chebyshev", "cityblock"}


def _distance(name: str, parameters: str = "") -> Callable[..., Tensor]:
    """Return the function of two vectors that a metric is."""
    # A sum of thousands of products of float16 stops growing or overflows:
    # test_gradients_of_distances_of_float16_are_those_of_float64_rounded in tests/scipy/test_distance.py.
    metric = in_single(_METRICS[name])
    place = _PARAMETERS[name].index("w") if "w" in _PARAMETERS[name] else None

    def distance(u: Any, v: Any, *args: Any, **kwargs: Any) -> Tensor:
        is_whole = name in _OF_WHOLE_NUMBERS and all(asarray(one).dtype.kind == "i" for one in (u, v))
        u, v = floating(u), (double if name in _IN_DOUBLE else floating)(v)
        if u.ndim != 1 or v.ndim != 1:
            raise ValueError(f"scipy.spatial.distance.{name} takes two vectors, not shapes {u.shape} and {v.shape}")
        if name in _OF_REAL_NUMBERS:
            for one in (u, v):
                refuse_complex(f"scipy.spatial.distance.{name}", "real vectors", one)
        weights = None if place is None else args[place] if len(args) > place else kwargs.get("w")
        if weights is not None:
            _check_weights(weights)
            # Weights are float64 for SciPy; those of the greatest difference only choose.
            is_whole = is_whole and name == "chebyshev"
            u = u if name == "chebyshev" else double(u)
        found = metric(u, v, *args, **kwargs)
        return found.astype(np.int64) if is_whole else found

    distance.__name__ = distance.__qualname__ = name
    distance.__doc__ = f"Return the {name} distance of two vectors, as `scipy.spatial.distance.{name}`.{parameters}"
    return distance


braycurtis: Callable[..., Tensor] = _distance("braycurtis")
canberra: Callable[..., Tensor] = _distance("canberra")
chebyshev: Callable[..., Tensor] = _distance("chebyshev")
cityblock: Callable[..., Tensor] = _distance("cityblock")
correlation: Callable[..., Tensor] = _distance("correlation")
cosine: Callable[..., Tensor] = _distance("cosine")
euclidean: Callable[..., Tensor] = _distance("euclidean")
mahalanobis: Callable[..., Tensor] = _distance("mahalanobis")
minkowski: Callable[..., Tensor] = _distance("minkowski")
seuclidean: Callable[..., Tensor] = _distance("seuclidean")
sqeuclidean: Callable[..., Tensor] = _distance("sqeuclidean")


def jensenshannon(p: Any, q: Any, base: float | None = None, *, axis: int = 0, keepdims: bool = False) -> Tensor:
    """Return the Jensen-Shannon distance of two distributions, whose weights are divided by their sums.

    Args:
        p: weights, not negative.
        q: weights, not negative; they are broadcast.
        base: of the logarithm; None for e.
        axis: along which the weights of one distribution lie.
        keepdims: whether to keep the axis, with length 1.

    Source: scipy.spatial.distance.jensenshannon.
    """
    p, q = (np.moveaxis(floating(one), axis, -1) for one in (p, q))
    # As SciPy: the logarithms of float16 are float32.
    p, q = (one.astype(np.result_type(one.dtype, np.float32), copy=False) for one in (p, q))
    result = _jensenshannon(p, q, base)
    return np.expand_dims(result, axis) if keepdims else result


__getattr__ = refuse("spatial.distance")
name_errors(__name__)
