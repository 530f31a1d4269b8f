"""Each elementwise rule is one kernel: launches are counted on the stand-in for CuPy, whose kernels compute nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.arrays.device_functions import unregister_functions
from asyncgrad.core.recording.primitive import RULES
from asyncgrad.devices.cuda import device as cuda
from asyncgrad.devices.cuda.index_sums import FEW
from asyncgrad.nn.functional import activations, losses
from tests.support import fake_cupy
from tests.support.settings import compiled_after

SHAPE = (8, 16)


class Launches:
    """How many kernels have been launched: asyncgrad's own, and one for each function of CuPy's that computes."""

    def __init__(self) -> None:
        self.count = 0

    def launch(self, *_: Any) -> None:
        """Launch a kernel that does nothing."""
        self.count += 1

    def elementwise(self, *_: Any, **options: Any) -> Any:
        """Return a kernel of arrays of any layout."""

        def launch(*arguments: Any) -> Any:
            self.count += 1
            return fake_cupy.empty(np.broadcast_shapes(*(np.shape(one) for one in arguments)), arguments[0].dtype)

        return launch

    def function(self, name: str) -> Any:
        """Return a kernel of a module, in both forms in which it is launched."""
        kernel = type("Kernel", (), {"__call__": self.launch, "linear_launch": self.launch})()
        return SimpleNamespace(kernel=kernel)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    """Return `cuda:0` on the stand-in, with all of its kernels."""
    launches = Launches()
    compute = fake_cupy.ndarray._compute

    def counted(self: Any, name: str, function: Any, args: Any, kwargs: Any, written: Any) -> Any:
        result = compute(self, name, function, args, kwargs, written)
        # A view is not launched.
        if name != "empty_like" and getattr(result, "base", None) is None and not isinstance(result, (list, tuple)):
            launches.count += 1
        return result

    with fake_cupy.open_gpus(1) as (opened,), pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_cupy.RawModule, "get_function", lambda self, name: launches.function(name))
        patch.setattr(fake_cupy.ndarray, "_compute", counted)
        cupy = sys.modules["cupy"]
        patch.setattr(cupy, "ElementwiseKernel", launches.elementwise, raising=False)
        patch.setattr(opened, "_kernels", cuda.install_functions(cupy))
        yield SimpleNamespace(device=opened, launches=launches)
        unregister_functions(cupy.ndarray)


def counted(gpu: Any, function: Callable[..., Any], shapes: list[tuple[int, ...]]) -> tuple[int, int]:
    """Return how many launches the forward of a function of some arrays takes, and how many its backward."""
    rng = np.random.default_rng(0)
    leaves = [
        ag.tensor((0.1 + 0.8 * rng.random(shape)).astype("f"), device=gpu.device, requires_grad=True)
        for shape in shapes
    ]
    grad: Any = None
    with np.errstate(all="ignore"):
        # The first time, what is asked for once is looked up.
        for _ in range(2):
            begin = gpu.launches.count
            result = function(*leaves)
            forward = gpu.launches.count - begin
            if not result.requires_grad:
                return forward, 0
            if grad is None:
                grad = ag.tensor(np.ones(result.shape, result.dtype), device=gpu.device)
            for leaf in leaves:
                leaf.grad = None
            begin = gpu.launches.count
            sync.backward(result, grad)
    return forward, gpu.launches.count - begin


def on(like: Any, values: Any) -> Any:
    """Return numbers beside a tensor."""
    return ag.tensor(np.asarray(values), device=like.device)


def condition(x: Any) -> Any:
    return on(x, np.arange(x.size).reshape(x.shape) % 3 == 0)


def target(x: Any) -> Any:
    return on(x, np.full(x.shape, 0.3, x.dtype))


def of_float32(ufunc: Any) -> bool:
    """Tell whether a ufunc gives one array of one or two of float32."""
    return (
        isinstance(ufunc, np.ufunc)
        and (ufunc.signature, ufunc.nout) == (None, 1)
        and any(loop.startswith("f" * ufunc.nin + "->") for loop in ufunc.types)
    )


#: Those of NumPy, also where SciPy's have rules already. CuPy lacks `spacing`.
UFUNCS = {
    one.__name__: one
    for one in RULES
    if of_float32(one) and getattr(np, one.__name__, None) is one and one is not np.spacing
}
#: Of numbers beside the array, or of more arrays.
WITH_NUMBERS = {"threshold", "prelu", "glu", "logistic"}
ACTIVATIONS = ({*activations.__all__} & {*nn.__all__}) - WITH_NUMBERS
#: Functions of so many arrays.
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    **{name: (ufunc, ufunc.nin) for name, ufunc in sorted(UFUNCS.items())},
    **{name: (getattr(np, name), 1) for name in ("sinc", "nan_to_num", "i0", "real", "angle")},
    **{f"nn.{name}": (getattr(nn, name), 1) for name in sorted(ACTIVATIONS)},
    **{f"x ** {power}": (lambda x, power=power: x**power, 1) for power in (2, 0.5, -1, 3, 2.5)},
    "2 ** x": (lambda x: 2.0**x, 1),
    "1 / x": (lambda x: 1 / x, 1),
    "ldexp": (lambda x: np.ldexp(x, 3), 1),
    "clip": (lambda x: np.clip(x, 0.25, 0.75), 1),
    "clip to arrays": (np.clip, 3),
    "where": (lambda x, y: np.where(condition(x), x, y), 2),
    "where and a number": (lambda x: np.where(condition(x), x, 0), 1),
    "nn.gelu by tanh": (lambda x: nn.gelu(x, approximate="tanh"), 1),
    "nn.threshold": (lambda x: nn.threshold(x, 0.5, -1.0), 1),
    "nn.prelu": (lambda x: nn.prelu(x, on(x, np.array([0.2], "f"))), 1),
    "nn.prelu of channels": (lambda x: nn.prelu(x, on(x, np.full(SHAPE[1], 0.2, "f"))), 1),
}

#: Losses of rows of scores, or of several arrays.
OF_ROWS = {
    *("multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"),
    *("cosine_embedding_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"),
}
#: Losses of an array and a target.
LOSSES: dict[str, Callable[..., Any]] = {
    **{name: getattr(nn, name) for name in sorted({*losses.__all__} & {*nn.__all__} - OF_ROWS)},
    "kl_div of logarithms": lambda x, t, reduction: nn.kl_div(x, t, reduction, log_target=True),
    "poisson_nll_loss in full": lambda x, t, reduction: nn.poisson_nll_loss(x, t, full=True, reduction=reduction),
    "poisson_nll_loss of counts": lambda x, t, reduction: nn.poisson_nll_loss(x, t, False, reduction=reduction),
    "gaussian_nll_loss": lambda x, t, reduction: nn.gaussian_nll_loss(x, t, target(x), reduction=reduction),
    "margin_ranking_loss": lambda x, t, reduction: nn.margin_ranking_loss(x, target(x), t, reduction=reduction),
    "weighted binary_cross_entropy": lambda x, t, reduction: nn.binary_cross_entropy(x, t, target(x), reduction),
    "weighted scores": lambda x, t, reduction: nn.binary_cross_entropy_with_logits(
        x, t, target(x), reduction, target(x)
    ),
    "weighted huber_loss": lambda x, t, reduction: nn.huber_loss(x, t, reduction, weight=target(x)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_elementwise_function_is_one_kernel_and_so_is_each_of_its_derivatives(gpu: Any, name: str) -> None:
    function, count = FUNCTIONS[name]

    forward, backward = counted(gpu, function, [SHAPE] * count)

    assert forward <= 1
    assert backward <= count


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_one_kernel_and_one_for_its_sum_and_its_backward_is_one(gpu: Any, name: str, reduction: str) -> None:
    forward, backward = counted(gpu, lambda x: LOSSES[name](x, target(x), reduction=reduction), [SHAPE])

    assert (forward, backward) == (1 if reduction == "none" else 2, 1)


#: What takes more, with the launches of its forward and of its backward.
EXCEPTIONS: dict[str, tuple[Callable[..., Any], int, int, int]] = {
    # It gives float64, and the gradients of float32 numbers are cast.
    "float_power": (np.float_power, 2, 1, 4),
    # The halves of a gradient are laid side by side.
    "nn.glu": (nn.glu, 1, 1, 3),
    # The mean over the classes, and then over the samples.
    "nn.multilabel_soft_margin_loss": (lambda x: nn.multilabel_soft_margin_loss(x, target(x)), 1, 3, 3),
    # The sum of the weights, and the quotient of both sums.
    "weighted nn.mse_loss": (lambda x: nn.mse_loss(x, target(x), weight=target(x)), 1, 4, 2),
    "weighted nn.l1_loss": (lambda x: nn.l1_loss(x, target(x), weight=target(x)), 1, 4, 2),
    "nn.kl_div of batches": (lambda x: nn.kl_div(x, target(x), "batchmean"), 1, 3, 2),
}


IMAGES = [(4, 6, 5, 5), (6,), (6,)]


def running(x: Any) -> tuple[Any, Any]:
    return on(x, np.zeros(6, "f")), on(x, np.ones(6, "f"))


#: By name: the norm, the shapes of its arrays, and the launches of both ways. Where x is reshaped, its gradient is a
#: view, which a leaf copies, and a result of a layer before it does not.
NORMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int, int]] = {
    # One moves each of both running statistics.
    "batch_norm": (lambda x, w, b: nn.batch_norm(x, *running(x), w, b, training=True), IMAGES, 3, 4),
    "batch_norm without statistics": (lambda x: nn.batch_norm(x, None, None, training=True), IMAGES[:1], 1, 2),
    # The norm, the scale and shift of channels, and of each running statistic the mean over images and its move.
    "instance_norm": (lambda x, w, b: nn.instance_norm(x, *running(x), w, b), IMAGES, 6, 5),
    "group_norm": (lambda x, w, b: nn.group_norm(x, 2, w, b), IMAGES, 2, 5),
    "group_norm alone": (lambda x: nn.group_norm(x, 2), IMAGES[:1], 1, 2),
    "rms_norm": (lambda x, w: nn.rms_norm(x, 6, w), [(5, 6), (6,)], 1, 2),
    "layer_norm": (lambda x, w, b: nn.layer_norm(x, 6, w, b), [(5, 6), (6,), (6,)], 1, 3),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_one_kernel_and_so_is_each_of_its_gradients(gpu: Any, name: str) -> None:
    function, shapes, *expected = NORMS[name]

    assert counted(gpu, function, shapes) == tuple(expected)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_exceptions_take_no_more_than_they_must(gpu: Any, name: str) -> None:
    function, count, *expected = EXCEPTIONS[name]

    assert counted(gpu, function, [SHAPE] * count) == tuple(expected)


def test_a_compiled_backward_of_composites_launches_what_the_engine_launches(gpu: Any) -> None:
    x = ag.tensor(np.full(SHAPE, 0.4, "f"), device=gpu.device, requires_grad=True)

    def launches() -> int:
        x.grad = None
        loss = nn.binary_cross_entropy_with_logits(nn.softsign(nn.logsigmoid(x)), target(x))
        begin = gpu.launches.count
        sync.backward(loss)
        return int(gpu.launches.count - begin)

    eager = launches()
    with compiled_after(1):
        for _ in range(3):
            compiled = launches()

    assert compiled <= eager == 4


#: What picks rows at indices, and the launches of its backward, beside a fill by zeros.
PICKS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "embedding": (lambda x, index: nn.embedding(index, x), 1),
    # The padding row is set to 0.
    "embedding with padding": (lambda x, index: nn.embedding(index, x, 3), 2),
    "index": (lambda x, index: x[index], 1),
    "take": (lambda x, index: np.take(x, index, axis=1), 1),
    "index after an ellipsis": (lambda x, index: x[..., index], 1),
}


@pytest.mark.parametrize("name", PICKS)
@pytest.mark.parametrize("count", [5, FEW + 1])
def test_a_gradient_at_indices_is_one_kernel_for_few_and_four_for_many_without_a_wait(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    function, launches = PICKS[name]
    index = np.arange(count) % 4
    compute = fake_cupy.ndarray._compute

    def unwaited(self: Any, name: str, *arguments: Any) -> Any:
        assert name not in ("item", "tolist", "truth", "add")
        return compute(self, name, *arguments)

    def picked(x: Any) -> Any:
        given = on(x, index)
        result = function(x, given)
        monkeypatch.setattr(fake_cupy.ndarray, "_compute", unwaited)
        return result

    _, backward = counted(gpu, picked, [SHAPE])

    # The numbers of the rows, their order, the sums of pieces, and of runs that are cut.
    assert backward == launches + (3 if count > FEW else 0)


def test_the_device_counts_all_kernels_and_products(gpu: Any) -> None:
    x = ag.tensor(np.ones((6, 6), "f"), device=gpu.device)
    images = ag.tensor(np.ones((2, 3, 8, 8), "f"), device=gpu.device)
    labels = ag.tensor(np.zeros(6, int), device=gpu.device)
    calls: list[tuple[Callable[[], Any], int]] = [
        (lambda: np.exp(x), 1),
        (lambda: x @ x, 1),
        (lambda: nn.linear(x, x), 1),
        (lambda: x.sum(axis=0), 1),
        (lambda: nn.softmax(x), 1),
        (lambda: nn.layer_norm(x, 6), 1),
        (lambda: nn.rms_norm(x, 6), 1),
        (lambda: nn.group_norm(images, 3), 1),
        (lambda: nn.cross_entropy(x, labels), 2),
        (lambda: nn.max_pool2d(images, 2), 1),
        (lambda: nn.conv2d(images, images[:, :, :3, :3]), 3),
    ]
    found = []
    for call, _ in calls:
        before = gpu.device.kernels_launched()
        call()
        found.append(gpu.device.kernels_launched() - before)

    assert found == [count for _, count in calls]
