"""A gradient has the same bits whatever way a backward takes, the signs of its zeros and the order of its bytes too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a leaf": lambda x: x,
    "times -0.0": lambda x: x * -0.0,
    "negated": lambda x: -(x * 0.0),
    "by two paths": lambda x: x * -0.0 + x * -0.0,
    "by two paths of unlike signs": lambda x: x * -0.0 + x * 0.0,
    "by three paths": lambda x: x * -0.0 + x * -0.0 + x * -0.0,
    "twice in one node": lambda x: (x + x) * -0.0,
    "summed": lambda x: (x * -0.0).sum(),
    "averaged": lambda x: (x * -0.0).mean(),
    "broadcast": lambda x: x * -0.0 * np.ones((2, *x.shape)),
    "one number taken twice": lambda x: np.ravel(x)[0] * -0.0 + np.ravel(x)[-1] * -0.0,
    "taken by a list": lambda x: np.ravel(x)[[0]] * -0.0,
    "in another dtype": lambda x: x.astype("c16" if x.dtype.kind == "c" else "f8") * -0.0,
    "split": lambda x: np.split(np.ravel(x), 1)[0] * -0.0,
    "stacked": lambda x: np.stack([x * -0.0, x * -0.0]),
    "saved": lambda x: np.exp(x) * -0.0,
    "written into": lambda x: (x * 1).__imul__(-0.0),
}
#: Two of each: one of as many elements as there are, and the only ones of which NumPy makes Python's numbers.
LEAVES = [(shape, dtype) for shape in ((), (1,), (3,)) for dtype in ("f8", "f4", "f2", "c16", "c8", ">f8", ">c8")]


def _with(prepare: Callable[[Any, Any], Any], **options: Any) -> Callable[[Any, Any], Any]:
    """Return a way to run a backward from `y`, once `prepare(x, y)` has put hooks on either."""

    def run(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
        x = make()
        y = program(x)
        # What it returns, a handle say, lives until the backward has run.
        kept = prepare(x, y)
        sync.backward(y, np.full(y.shape, -0.0 if y is x else 1.0, y.dtype), **options)
        del kept
        return x.grad

    return run


def _on_thread(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
    x = ag.tensor(make().numpy(), device="thread:0", requires_grad=True)
    y = program(x)
    sync.backward(y, np.full(y.shape, -0.0 if y is x else 1.0, y.dtype))
    return x.grad


def _compiled(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
    with ag.compiled_autograd(after=1):
        for _ in range(3):
            x = make()
            y = program(x)
            sync.backward(y, np.full(y.shape, -0.0 if y is x else 1.0, y.dtype))
    return x.grad


def _awaited(workers: int) -> Callable[[Any, Any], Any]:
    def run(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
        x = make()
        y = program(x)
        with ag.workers(workers):
            asyncio.run(ag.backward(y, np.full(y.shape, -0.0 if y is x else 1.0, y.dtype)))
        return x.grad

    return run


def _in_anomaly_mode(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
    with ag.detect_anomaly():
        return _with(lambda x, y: None)(make, program)


def _grad(**options: Any) -> Callable[[Any, Any], Any]:
    def run(make: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
        x = make()
        y = program(x)
        return sync.grad(y, [x], [np.full(y.shape, -0.0 if y is x else 1.0, y.dtype)], **options)[0]

    return run


def _of_node(x: Any, y: Any, register: Callable[[Any], Any]) -> None:
    if y.grad_fn is not None:
        register(y.grad_fn)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor hook": _with(lambda x, y: x.register_hook(lambda grad: None)),
    "a tensor hook that returns": _with(lambda x, y: x.register_hook(lambda grad: grad)),
    "a tensor hook on the root": _with(lambda x, y: y.register_hook(lambda grad: None)),
    "a post-accumulate hook": _with(lambda x, y: x.register_post_accumulate_grad_hook(lambda leaf: None)),
    "retain_grad": _with(lambda x, y: y.retain_grad()),
    "a node prehook": _with(lambda x, y: _of_node(x, y, lambda node: node.register_prehook(lambda grads: None))),
    "a node hook": _with(lambda x, y: _of_node(x, y, lambda node: node.register_hook(lambda out, grads: None))),
    "a multi-grad hook": _with(lambda x, y: ag.graph.register_multi_grad_hook([x], lambda grads: None)),
    "a kept graph": _with(lambda x, y: None, retain_graph=True),
    "create_graph": _with(lambda x, y: None, create_graph=True),
    "anomaly mode": _in_anomaly_mode,
    "thread:0": _on_thread,
    "compiled": _compiled,
    "without workers": _awaited(0),
    "four workers": _awaited(4),
    "grad": _grad(),
    "grad with create_graph": _grad(create_graph=True),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:backward\\(\\) with create_graph")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_signs_of_zeros_and_dtypes_do_not_hang_on_the_way_that_a_backward_takes(program: str, way: str) -> None:
    for shape, dtype in LEAVES:

        def make(shape: Any = shape, dtype: Any = dtype) -> ag.Tensor:
            return ag.asarray(np.full(shape, 1.5, dtype), requires_grad=True)

        plain = _with(lambda x, y: None)(make, PROGRAMS[program])
        other = WAYS[way](make, PROGRAMS[program])

        assert plain.dtype == other.dtype == np.dtype(dtype)
        assert plain.numpy().tobytes() == other.numpy().tobytes(), (shape, dtype)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:backward\\(\\) with create_graph")
def test_the_gradient_of_a_big_endian_leaf_keeps_its_dtype_as_it_grows(shape: Any, create_graph: bool) -> None:
    x = ag.asarray(np.full(shape, 1.5, ">f8"), requires_grad=True)

    for times in (1, 2, 3):
        sync.backward((x * x + x).sum(), create_graph=create_graph)

        assert x.grad is not None
        assert x.grad.dtype == np.dtype(">f8")
        np.testing.assert_array_equal(x.grad.detach(), np.full(shape, 4.0 * times))


def test_the_sign_of_a_zero_that_a_node_returns_as_a_number_is_kept() -> None:
    class Zero(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.numpy() * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return np.float64(-0.0)

    for hooked in (False, True):
        x = ag.tensor(1.0, requires_grad=True)
        if hooked:
            x.register_hook(lambda grad: None)
        sync.backward(Zero.apply(x))

        assert np.signbit(x.grad.numpy())
