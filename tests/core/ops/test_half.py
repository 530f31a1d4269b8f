"""float16: the gradient of every function is that of float64, rounded; counts and sums of many are not lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.ops import reductions
from asyncgrad.extend import derivative, primitive
from asyncgrad.scipy import special, stats
from tests.core.ops.finite_differences import Case, call, leaves_of, map_arrays
from tests.core.ops.test_rules import CASES
from tests.nn.cases import CALLS

#: NumPy without its type hints, which know of no Tensor.
numpy: Any = np
#: More elements than float16 has numbers up to infinity.
MANY = 70_000
_RNG = np.random.default_rng(16)


def gradients(
    function: Callable[..., Any], points: list[np.ndarray], dtype: Any, create_graph: bool = False
) -> list[np.ndarray | None]:
    """Return the gradients of the outputs of a function, each weighted by numbers around 1, at points in a dtype."""
    tensors = [ag.tensor(point.astype(np.float16).astype(dtype), requires_grad=True) for point in points]
    found = function(*tensors)
    outputs = [one for one in (found if isinstance(found, (list, tuple)) else [found]) if one.requires_grad]
    if not outputs:
        return []
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 1.5, one.shape).astype(np.float16).astype(one.dtype) for one in outputs]
    grads = sync.grad(outputs, tensors, weights, allow_unused=True, create_graph=create_graph)
    return [None if grad is None else grad.numpy() for grad in grads]


def assert_near(found: list[np.ndarray | None], expected: list[np.ndarray | None], ulps: float) -> None:
    """Assert that gradients are those of float64 rounded to float16, up to a few units in the last place.

    A unit is that of the element, or a thousandth of that of the largest one: where terms cancel, no more is kept.
    """
    assert [one is None for one in found] == [one is None for one in expected]
    for have, want in zip(found, expected, strict=True):
        if have is None or want is None:
            continue
        assert have.dtype == np.float16
        with np.errstate(over="ignore"):
            rounded = want.astype(np.float16)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(have[~finite], rounded[~finite])
        size = np.abs(rounded[finite].astype(float))
        unit = np.maximum(np.maximum(size, np.max(size, initial=0) / 1024) * 2.0**-10, 2.0**-24)
        away = np.abs(have[finite].astype(float) - rounded[finite].astype(float)) / unit
        assert np.max(away, initial=0) <= ulps


def _normal(*shape: int) -> np.ndarray:
    return np.asarray(_RNG.normal(size=shape))


_X, _Y = _normal(MANY), _normal(MANY)
_ROWS = _normal(MANY, 3)
_NANS = np.where(np.arange(MANY) % 50 == 0, np.nan, _X)
_TWICE = np.repeat(np.arange(2) > 0, MANY)
_LABELS = _RNG.integers(0, 3, MANY)
#: A sum of squares of these is infinite in float16, and the sum of them is near it.
_LARGE = _RNG.uniform(200, 400, 150)


def _like(array: np.ndarray, x: Any) -> np.ndarray:
    """Return a constant, a number of float16, in the dtype of a tensor."""
    return array.astype(np.float16).astype(x.dtype)


REDUCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "mean": (np.mean, [_X]),
    "mean of rows": (lambda x: np.mean(x, 0), [_ROWS]),
    "mean where": (lambda x: np.mean(x, where=_TWICE), [np.tile(_X, 2)]),
    "nanmean": (np.nanmean, [_NANS]),
    "average": (np.average, [_X]),
    "weighted average": (lambda x, w: np.average(x, weights=w), [_X, np.abs(_Y) + 0.5]),
    "sum": (np.sum, [_X]),
    "var": (np.var, [_X]),
    "var in float32": (lambda x: np.var(x, dtype=np.float32), [_LARGE]),
    "var of large elements": (np.var, [_LARGE * 10]),
    "var about a mean": (lambda x: np.var(x, mean=np.mean(x, keepdims=True)), [_X]),
    "var where": (lambda x: np.var(x, where=_TWICE), [np.tile(_X, 2)]),
    "std": (np.std, [_X]),
    "std of rows": (lambda x: np.std(x, 0, ddof=1), [_ROWS]),
    "std of large elements": (np.std, [_LARGE * 10]),
    "nanvar": (np.nanvar, [_NANS]),
    "nanstd": (np.nanstd, [_NANS]),
    "prod": (np.prod, [1 + _X / 1024]),
    "ptp": (np.ptp, [np.tile([1.0, 2.0], MANY)]),
    **{
        f"tied {function.__name__}": (function, [np.where(_NANS == _NANS, 2.0, np.nan if "nan" in name else 2.0)])
        for name, function in {one.__name__: one for one in (np.max, np.min, np.nanmax, np.nanmin)}.items()
    },
    "median": (np.median, [_X]),
    "median of large elements": (np.median, [np.array([40000.0, 41000.0, 42000.0, 43000.0])]),
    "nanmedian": (np.nanmedian, [_NANS]),
    "quantile": (lambda x: np.quantile(x, 0.3), [_LARGE]),
    "nanquantile": (lambda x: np.nanquantile(x, 0.3), [_LARGE]),
    "percentile": (lambda x: np.percentile(x, 30), [_LARGE]),
    **{
        f"norm {order} of {name}": (lambda x, order=order: np.linalg.norm(x, order), [points])
        for order in (None, 1, 2, 3, 0.5, np.inf, -np.inf)
        for name, points in (("many", _X), ("large", _LARGE))
    },
    **{
        f"norm {order} of a matrix": (lambda x, order=order: np.linalg.norm(x, order), [_ROWS])
        for order in ("fro", 1, np.inf)
    },
    "vector_norm": (lambda x: np.linalg.vector_norm(x, axis=(0, 1)), [_ROWS]),
    "logsumexp": (special.logsumexp, [_X]),
    **{
        f"stats.{function.__name__}": (function, [np.abs(_X) + 0.5])
        for function in (stats.skew, stats.kurtosis, stats.sem, stats.variation, stats.gmean, stats.hmean, stats.zscore)
    },
    "stats.entropy": (stats.entropy, [np.abs(_X) + 0.5]),
    "stats.entropy beside others": (stats.entropy, [np.abs(_X) + 0.5, np.abs(_Y) + 0.5]),
    "logaddexp.reduce": (np.logaddexp.reduce, [_X[:500]]),
    "maximum.accumulate": (np.maximum.accumulate, [np.ones(500)]),
    "cumsum": (np.cumsum, [_X[:60_000]]),
    "cumsum of rows": (lambda x: np.cumsum(x, 0), [_ROWS[:60_000]]),
    "trapezoid": (lambda y, x: np.trapezoid(y, x), [_X, _Y]),
    "gradient": (lambda y, x: np.gradient(y, x), [_X[:500], np.arange(500) / 4]),
    "cov": (lambda x: np.cov(x.T), [_ROWS]),
    "corrcoef": (lambda x: np.corrcoef(x.T), [_ROWS]),
    "dot": (np.dot, [_X / 16, _Y / 16]),
    "matmul": (lambda x, y: x.T @ y, [_ROWS / 16, _ROWS[::-1] / 16]),
    "einsum": (lambda x, y: np.einsum("ij,ik->jk", x, y), [_ROWS / 16, _ROWS[::-1] / 16]),
    "bincount": (lambda w: np.bincount(_LABELS, w), [_X]),
    "histogram": (lambda w: np.histogram(_X, 3, weights=w)[0], [np.abs(_Y)]),
}

#: Gradients that are sums over many results.
SUMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "addition": (lambda x: x + _like(np.zeros((MANY, 1)), x), [np.ones(3)]),
    "product": (lambda x: x * _like(_ROWS, x), [np.ones(3)]),
    "broadcast_to": (lambda x: np.broadcast_to(x, (MANY, 3)), [np.ones(3)]),
    "where": (lambda x: np.where(_X > 0, x, 0), [np.ones(1)]),
    "repeat": (lambda x: np.repeat(x, MANY // 2), [np.ones(2)]),
    "tile": (lambda x: np.tile(x, MANY // 2), [np.ones(2)]),
    "index": (lambda x: x[_LABELS], [np.ones(3)]),
    "take": (lambda x: np.take(x, _LABELS, 0), [np.ones((3, 2))]),
    "take_along_axis": (lambda x: np.take_along_axis(x, _LABELS, 0), [np.ones(3)]),
    "embedding": (lambda x: nn.embedding(_LABELS, x), [np.ones((3, 2))]),
    "sliding windows": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 5000), [_X[:5003]]),
    "write": (lambda x: _written(x), [np.ones(3)]),
}


def _written(x: Any) -> Any:
    target = ag.tensor(np.zeros((MANY, 3)), dtype=x.dtype)
    target[:] = x
    return target


def _loss(name: str, *args: Any, **options: Any) -> tuple[Callable[..., Any], list[np.ndarray]]:
    return (lambda x: getattr(nn, name)(x, *(_like(one, x) for one in args), **options), [_X])


LAYERS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    **{name: _loss(name, _Y) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss")},
    "weighted mse_loss": (lambda x: nn.mse_loss(x, _like(_Y, x), weight=_like(np.full(MANY, 1.5), x)), [_X]),
    "hinge_embedding_loss": _loss("hinge_embedding_loss", np.sign(_Y)),
    "soft_margin_loss": _loss("soft_margin_loss", np.sign(_Y)),
    "margin_ranking_loss": _loss("margin_ranking_loss", _Y, np.sign(_Y)),
    "binary_cross_entropy_with_logits": _loss("binary_cross_entropy_with_logits", (_Y > 0) * 1.0),
    "gaussian_nll_loss": _loss("gaussian_nll_loss", _Y, np.abs(_Y) + 1),
    "kl_div": (lambda x: nn.kl_div(x, _like(np.abs(_ROWS), x), "batchmean"), [_ROWS]),
    "cosine_embedding_loss": (
        lambda x: nn.cosine_embedding_loss(x, _like(_ROWS[::-1], x), np.sign(_like(_Y, x))),
        [_ROWS],
    ),
    "triplet_margin_loss": (
        lambda x: nn.triplet_margin_loss(x, _like(_ROWS[::-1], x), _like(_ROWS[:, ::-1], x)),
        [_ROWS],
    ),
    "multi_margin_loss": (lambda x: nn.multi_margin_loss(x, _LABELS), [_ROWS]),
    "multilabel_soft_margin_loss": (
        lambda x: nn.multilabel_soft_margin_loss(x, _like((_ROWS > 0) * 1.0, x)),
        [_ROWS],
    ),
    "cross_entropy": (lambda x: nn.cross_entropy(x, _LABELS), [_ROWS]),
    "smoothed cross_entropy": (lambda x: nn.cross_entropy(x, _LABELS, label_smoothing=0.1), [_ROWS]),
    "weighted cross_entropy": (
        lambda x: nn.cross_entropy(x, _LABELS, weight=_like(np.array([0.5, 1.0, 2.0]), x)),
        [_ROWS],
    ),
    "cross_entropy of many classes": (lambda x: nn.cross_entropy(x, np.array(5)), [_X]),
    "nll_loss": (lambda x: nn.nll_loss(x, _LABELS), [_ROWS]),
    "softmax": (lambda x: nn.softmax(x, 0), [_X]),
    "log_softmax": (lambda x: nn.log_softmax(x, 0), [_X]),
    "layer_norm": (lambda x: nn.layer_norm(x, MANY), [_X]),
    "layer_norm of rows": (lambda x, w, b: nn.layer_norm(x, 3, w, b), [_ROWS, np.ones(3), np.ones(3)]),
    "rms_norm": (lambda x, w: nn.rms_norm(x, 3, w, eps=1e-5), [_ROWS, np.ones(3)]),
    "batch_norm": (
        lambda x, w, b: nn.batch_norm(x, None, None, w, b, training=True),
        [_ROWS, np.ones(3), np.ones(3)],
    ),
    "group_norm": (lambda x, w, b: nn.group_norm(x.T[np.newaxis], 1, w, b), [_ROWS, np.ones(3), np.ones(3)]),
    "instance_norm": (lambda x: nn.instance_norm(x.T[np.newaxis]), [_ROWS]),
    "normalize": (lambda x: nn.normalize(x, axis=0), [_X]),
    "cosine_similarity": (lambda x, y: nn.cosine_similarity(x, y, axis=0), [_X, _Y]),
    "pairwise_distance": (lambda x, y: nn.pairwise_distance(x, y), [_X, _Y]),
    "avg_pool1d": (lambda x: nn.avg_pool1d(x.reshape(1, 1, -1), 5000), [_X[:10_000]]),
    "adaptive_avg_pool1d": (lambda x: nn.adaptive_avg_pool1d(x.reshape(1, 1, -1), 1), [_X]),
    "linear": (lambda x, w, b: nn.linear(x, w, b), [_ROWS, np.ones((2, 3)), np.ones(2)]),
    "conv1d": (lambda x, w: nn.conv1d(x.reshape(1, 1, -1), w.reshape(1, 1, -1)), [_X, np.ones(5)]),
    "scaled_dot_product_attention": (
        nn.scaled_dot_product_attention,
        [_ROWS[:50], _ROWS[50:100], _ROWS[100:150]],
    ),
}


@pytest.mark.slow
@pytest.mark.sampled("name")
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")  # NumPy's own values
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", [*REDUCTIONS, *SUMS, *LAYERS])
def test_a_gradient_over_more_elements_than_float16_counts_is_that_of_float64_rounded(
    name: str, create_graph: bool
) -> None:
    function, points = (REDUCTIONS | SUMS | LAYERS)[name]

    found = gradients(function, points, np.float16, create_graph)

    assert_near([one for one in found if one is None or one.dtype == np.float16], gradients(function, points, float), 8)


@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize("name", ["cosine_embedding_loss", "scaled_dot_product_attention"])
def test_a_float16_tensor_beside_an_array_has_the_gradient_of_float64_rounded(name: str, is_second: bool) -> None:
    points = [_normal(1, 70_000), _normal(1, 70_000)]
    calls: dict[str, Callable[..., Any]] = {
        "cosine_embedding_loss": lambda x, y: nn.cosine_embedding_loss(x, y, np.ones(1, int)),
        "scaled_dot_product_attention": lambda x, y: nn.scaled_dot_product_attention(
            *(one.reshape(1, -1, 500) for one in (x, y, _like(points[1], x)))
        ),
    }

    def gradient(dtype: Any) -> list[np.ndarray | None]:
        halves = [one.astype(np.float16).astype(dtype) for one in points]

        def beside(x: Any) -> Any:
            return calls[name](halves[0], x) if is_second else calls[name](x, halves[1])

        return gradients(beside, [halves[is_second]], dtype)

    assert_near(gradient(np.float16), gradient(float), 8)


def _rounded(case: Case, dtype: Any) -> Case:
    """Return a case whose arrays are numbers of float16, in a dtype."""

    def cast(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float16).astype(dtype) if array.dtype == np.float64 else array

    args = tuple(map_arrays(one, cast) for one in case.args)
    return case._replace(args=args, kwargs={name: map_arrays(one, cast) for name, one in case.kwargs.items()})


def _case_gradients(function: Callable[..., Any], case: Case, dtype: Any) -> list[np.ndarray | None]:
    case = _rounded(case, dtype)
    return gradients(lambda *leaves: tuple(call(function, case, leaves)), leaves_of(case), dtype)


#: NumPy puts the rest of a partition in an order that the dtype decides, makes the edges of bins numbers of float16,
#: and leaves out of a remainder what is nearly 0.
DECIDED_BY_DTYPE = {"histogram", "histogram2d", "histogramdd", "partition", "polydiv"}
EVERY = [
    (f"{function.__name__}-{index}", function, one)
    for function, cases in CASES.items()
    for index, one in enumerate(cases)
    if one.smooth and function.__name__ not in DECIDED_BY_DTYPE
] + [
    (f"nn.{one.function.__name__}-{index}", one.function, one.case)
    for index, one in enumerate(CALLS)
    if one.case.smooth
]


@pytest.mark.slow
@pytest.mark.sampled("function")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "case"), [pytest.param(function, case, id=name) for name, function, case in EVERY]
)
def test_every_gradient_of_float16_is_that_of_float64_rounded(function: Callable[..., Any], case: Case) -> None:
    try:
        found = _case_gradients(function, case, np.float16)
    except TypeError:
        pytest.skip("it takes no float16")

    expected = _case_gradients(function, case, float)

    assert_near(found, expected, 8)


@pytest.mark.slow
@pytest.mark.sampled("function")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "case"),
    [
        pytest.param(function, case, id=f"{function.__name__}-{index}")
        for function, cases in CASES.items()
        for index, case in enumerate(cases)
        if function is not np.partition  # which leaves the rest in an order that its dtype decides
    ],
)
def test_values_of_float16_are_numpys_own(function: Callable[..., Any], case: Case) -> None:
    case = _rounded(case, np.float16)
    leaves = leaves_of(case)
    try:
        expected = call(function, case, leaves)
    except TypeError:
        pytest.skip("it takes no float16")

    actual = call(function, case, [ag.tensor(leaf, requires_grad=True) for leaf in leaves])

    for have, want in zip(actual, expected, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(have.numpy(), want)


# The ways of a backward.


def _mean_of_squares(x: Any) -> Any:
    return np.mean(x * x) + np.std(x)


@pytest.mark.filterwarnings("ignore:overflow encountered")  # in NumPy's own value
def test_a_compiled_backward_computes_in_float32_as_the_engine_does() -> None:
    points = np.asarray(_X.astype(np.float16))
    found = []
    with ag.compiled_autograd(after=1):
        for _ in range(4):
            x = ag.tensor(points, requires_grad=True)
            sync.backward(_mean_of_squares(x))
            found.append(x.grad.numpy())
    hits = ag.engine.compiled_stats().hits
    x = ag.tensor(points, requires_grad=True)
    sync.backward(_mean_of_squares(x))

    assert hits
    for grad in found:
        np.testing.assert_array_equal(grad, x.grad.numpy())


def test_a_write_in_place_computes_in_float32() -> None:
    scale = ag.tensor([3.0], dtype=np.float16, requires_grad=True)
    x = ag.tensor(np.ones((MANY, 1)), dtype=np.float16)
    x *= scale

    sync.backward(x, np.full((MANY, 1), 0.5, np.float16))

    assert scale.grad.tolist() == [np.float16(MANY / 2)]


def test_saved_tensors_of_float16_stay_so_while_they_wait() -> None:
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor.dtype)
        return tensor

    x = ag.tensor(np.ones(3), dtype=np.float16, requires_grad=True)
    with ag.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = np.tanh(x) * x
    sync.backward(y.sum())

    assert set(packed) == {np.dtype(np.float16)}
    assert x.grad.dtype == np.float16


def test_a_formula_of_a_user_gets_the_result_that_was_returned() -> None:
    calls = []

    @primitive()
    def noted(x: Any) -> Any:
        calls.append(x)
        return x * 2

    @derivative(noted, "x")
    def _(g: Any, x: Any, out: Any) -> Any:
        return g * (out / x)

    x = ag.tensor([2.0, 4.0], dtype=np.float16, requires_grad=True)
    sync.backward(noted(x).sum())

    assert (len(calls), x.grad.tolist(), x.grad.dtype) == (1, [2.0, 2.0], np.float16)


def test_running_statistics_of_float16_move() -> None:
    x = ag.tensor(_ROWS, dtype=np.float16, requires_grad=True)
    mean, variance = np.zeros(3, np.float16), np.ones(3, np.float16)

    result = nn.batch_norm(x, mean, variance, training=True, momentum=1.0)

    assert result.dtype == np.float16
    np.testing.assert_allclose(mean, _ROWS.mean(0), atol=1e-3)
    np.testing.assert_allclose(variance, _ROWS.var(0), rtol=1e-3)


def test_a_mean_written_into_float16_has_its_gradient() -> None:
    x, out = ag.tensor(np.tile(_X, 2), dtype=np.float16, requires_grad=True), ag.tensor(0.0, dtype=np.float16)

    numpy.mean(x, where=_TWICE, out=out)
    sync.backward(out)

    np.testing.assert_array_equal(x.grad.numpy(), np.where(_TWICE, 1 / MANY, 0).astype(np.float16))


@pytest.mark.parametrize("function", [np.mean, np.max, np.min], ids=lambda function: function.__name__)
def test_a_formula_that_is_given_float16_as_on_a_gpu_counts_further_than_it_does(function: Any) -> None:
    x = ag.tensor(np.ones(MANY), dtype=np.float16, requires_grad=True)
    formula, needs = getattr(reductions, f"{function.__name__}_").formulas["a"]
    known = {"a": x.numpy(), "a_shape": x.shape, "out": np.float16(1), "axis": None, "keepdims": False}

    found = formula(np.ones((), np.float16), *(known[need] for need in needs))

    np.testing.assert_array_equal(np.asarray(found).astype(np.float16), np.full(MANY, 1 / MANY, np.float16))
