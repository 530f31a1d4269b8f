"""Calls with `where=` in a program: the loop of the ufunc runs where the mask is true, with NumPy's bits and flags."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.tracing import masked_calls
from asyncgrad.tracing.inner_loops import inner_loop
from asyncgrad.tracing.runner import runner
from tests.support.sampling import SHARE, some
from tests.tracing.running import bits, compiled, grads_of, same_in_one_program

pytest.importorskip("llvmlite")

UFUNCS: list[np.ufunc] = [
    *(np.add, np.multiply, np.divide, np.maximum, np.greater, np.logical_and, np.arctan2),
    *(np.exp, np.log, np.sqrt, np.negative, np.reciprocal, np.isnan, np.positive),
]
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "columns": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1],
    "one": lambda a: a[:1],
}
MASKS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "none": lambda rng, shape: np.zeros(shape, bool),
    "all": lambda rng, shape: np.ones(shape, bool),
    "few": lambda rng, shape: rng.random(shape) < 0.05,
    "half": lambda rng, shape: rng.random(shape) < 0.5,
    "row": lambda rng, shape: rng.random(shape[-1:]) < 0.5,
    "true": lambda rng, shape: np.array(True),
    "false": lambda rng, shape: np.array(False),
}


BACKENDS = ["table", "runner", "fused"]


def masked(ufunc: np.ufunc, kind: str) -> Callable[..., Any]:
    def function(mask: Any, out: Any, *operands: Any) -> Any:
        result = out.copy()
        ufunc(*operands, out=result, where=mask)
        return result * 1 if kind != "?" else result

    return function


def variants_of(jitted: Any) -> list[Any]:
    return [one for family in jitted._families.values() for one in family.variants]


def opaque(jitted: Any) -> set[str]:
    """Return the names of the functions that are called by Python."""
    (variant,) = variants_of(jitted)
    return {getattr(step.function, "__name__", "") for step in variant.take_table()._records.opaque()}


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    found = (rng.standard_normal(shape) * 3).astype(kind)
    for special in (np.nan, np.inf, 0.0, -0.0):
        found[rng.random(shape) < 0.05] = special
    return found


@pytest.mark.parametrize("ufunc", UFUNCS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_with_a_mask_has_the_bits_of_numpy(ufunc, backend):
    every = list(itertools.product("fd", [(4, 33), (2, 3, 5), (200,), (0,)], LAYOUTS, LAYOUTS))
    # Each kind of arguments comes once, by one ufunc and backend; half of them by each where all cases are run.
    own = every[UFUNCS.index(ufunc) + len(UFUNCS) * BACKENDS.index(backend) :: len(UFUNCS) * len(BACKENDS)]
    chosen = own if SHARE < 1 else some(every, SHARE / 2, of=f"{ufunc.__name__} {backend}")
    for kind, shape, layout, of_mask in chosen:
        rng = np.random.default_rng(0)
        dtype = ufunc.resolve_dtypes((np.dtype(kind),) * ufunc.nin + (None,))[-1]
        function = masked(ufunc, dtype.char)

        with np.errstate(all="ignore"):
            jitted = ag.jit(function, verify=0, backend=backend)
            for mask in (*MASKS, "half"):
                operands = [LAYOUTS[layout](numbers(rng, kind, shape)) for _ in range(ufunc.nin)]
                wanted = MASKS[mask](rng, operands[0].shape)
                wanted = LAYOUTS[of_mask](wanted) if wanted.ndim == len(shape) else wanted
                given = [wanted, np.zeros(np.broadcast_shapes(operands[0].shape, wanted.shape), dtype), *operands]
                for _ in range(2):
                    jitted(*given)
                before = jitted.counts["replayed"]
                assert bits(jitted(*given)) == bits(function(*given)), (kind, shape, layout, of_mask, mask)
                assert jitted.counts["replayed"] == before + 1


@pytest.mark.parametrize("shape", [(7, 9), (64,), (3, 1)])
def test_the_runner_makes_the_call(shape):
    given = np.ones(shape, bool), np.zeros(shape, "f"), np.ones(shape, "f"), np.ones(shape, "f")

    assert opaque(compiled(masked(np.arctan2, "f"), *given, backend="runner")) == set()
    jitted = compiled(masked(np.divide, "f"), *given, backend="fused")
    assert opaque(jitted) == set()
    (variant,) = variants_of(jitted)
    assert "where" in [one.name for group in variant.fused.fusion.forward for one in group.kernel.code]


def test_a_loop_whose_bits_differ_by_the_layout_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr(masked_calls, "_agrees", lambda *args: False)
    given = np.ones(5, bool), np.zeros(5), np.ones(5)

    assert opaque(compiled(masked(np.exp, "d"), *given, backend="runner")) == {"exp"}


def test_a_trial_finds_a_loop_with_other_bits():
    layouts = (("?", (50,), (1,)), ("d", (50,), (8,)), ("d", (50,), (8,)))
    own = runner()
    exp, log = inner_loop(np.exp, "d->d"), inner_loop(np.log, "d->d")

    assert masked_calls._agrees(np.exp, exp, own, layouts)
    assert not masked_calls._agrees(np.exp, log, own, layouts)


def quotient(a: Any, b: Any) -> Any:
    result = np.zeros_like(a)
    np.divide(a, b, out=result, where=b != 0)
    return np.sqrt(result * 2)


@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
def test_elements_that_are_not_wanted_raise_no_flag(backend):
    a, b = np.arange(40.0), np.arange(40.0) % 3
    jitted = compiled(quotient, a, b, backend=backend)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(jitted(a, b)) == bits(quotient(a, b))

    if backend == "fused":
        (variant,) = variants_of(jitted)
        assert variant.fused.reruns == 0


@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
def test_elements_that_are_wanted_warn_as_in_numpy(backend):
    a, b = np.ones(40), np.full(40, 2.0)
    jitted = compiled(quotient, a, b, backend=backend)
    b[17] = 1e-320

    with pytest.warns(RuntimeWarning, match="overflow encountered in divide"):
        found = jitted(a, b)

    with np.errstate(all="ignore"):
        assert bits(found) == bits(quotient(a, b))


def test_a_mask_that_is_the_result_is_left_to_numpy():
    def function(a):
        mask = a > 0
        np.logical_not(mask, out=mask, where=mask)
        return mask

    a = np.array([1.0, -1.0, 2.0])
    jitted = compiled(function, a, backend="runner")

    assert bits(jitted(-a)) == bits(function(-a))
    assert opaque(jitted) == {"logical_not"}


def gates(kind: str, shape: tuple[int, ...], scale: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = np.asarray(rng.standard_normal(shape) * scale).astype(kind)
    if seed % 2 and found.size > 3:
        found.flat[:3] = np.nan, np.inf, -np.inf
    return found


def of_part(x: Any) -> Any:
    """Return the sum of a sigmoid of a part that does not lie together."""
    return np.sum(nn.sigmoid(x[..., : (x.shape[-1] + 1) // 2]) ** 2)


@pytest.mark.parametrize("kind", "efd")
@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
def test_saturated_gates_take_the_program_of_others_with_the_bits_of_eager_gradients(kind, backend):
    def whole(x):
        return np.sum(nn.sigmoid(x) * np.asarray(1.5, kind))

    for shape, function in ((), whole), ((0,), whole), ((5,), whole), ((6, 70), whole), ((6, 70), of_part):
        scales = [0.1, 3.0, 30.0, 300.0, 3000.0]
        runs = [[gates(kind, shape, scales[seed % 5], seed)] for seed in range(16)]
        name = f"{function.__qualname__} of {kind} by {backend}, {shape}"
        with np.errstate(all="ignore"):
            counts = same_in_one_program(function, name, runs, backend=backend)
        assert (counts["replayed"], counts["traces"]) == (14, 1), dict(counts)


def test_a_gate_far_out_warns_as_little_as_eager():
    jitted = ag.jit(lambda x: np.sum(nn.sigmoid(x)), verify=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1.0, 1.0, 1.0, 1000.0, 1e30):
            grads_of(jitted, [np.linspace(-scale, scale, 30)])

    assert jitted.counts["replayed"] == 3


def test_a_trained_lstm_has_one_program_when_its_gates_saturate():
    rng = np.random.default_rng(0)
    w = ag.tensor(rng.standard_normal((6, 16)).astype("f"), requires_grad=True)
    head = ag.tensor(rng.standard_normal((4, 1)).astype("f"), requires_grad=True)
    xs = rng.standard_normal((5, 3, 2)).astype("f")
    target = np.sign(xs.sum((0, 2)))[:, None] * np.float32(20)

    def loss(xs, target):
        h, c = np.zeros((3, 4), "f"), np.zeros((3, 4), "f")
        for x in xs:
            f, i, o, g = np.split(np.concatenate([x, h], 1) @ w, 4, axis=1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
            h = nn.sigmoid(o) * np.tanh(c)
        return ((h @ head - target) ** 2).mean()

    step = ag.jit.train_step(loss, optim.Adam([w, head], lr=0.3))

    async def main():
        for _ in range(300):
            await step(xs, target)

    ag.run(main())
    counts = step._jitted.counts
    gate = np.abs(np.concatenate([xs[0], np.zeros((3, 4))], 1) @ w.numpy())
    assert gate.max() > 8, "no gate saturates"
    assert (counts["traces"], counts["failed checks"]) == (1, 0), dict(counts)
    assert counts["replayed"] > 280


def largest(flag: Any, x: Any) -> Any:
    return np.maximum.reduce(x, axis=-1, keepdims=True, initial=-5.0, where=flag) * 1


@pytest.mark.parametrize("backend", ["table", "runner", "fused"])
@pytest.mark.parametrize("kind", "fd?")
def test_a_reduction_with_one_flag_is_done_or_not(backend, kind):
    rng = np.random.default_rng(0)

    def reduced(flag, x):
        if kind == "?":
            return np.logical_or.reduce(x, axis=0, initial=False, where=flag)
        return largest(flag, x)

    jitted = compiled(reduced, np.array(True), np.ones((7, 33), kind), backend=backend)
    for number in range(6):
        x = rng.random((7, 33)) < 0.1 if kind == "?" else numbers(rng, kind, (7, 33))
        flag = np.array(number % 2 == 0)
        assert bits(jitted(flag, x)) == bits(reduced(flag, x))
    assert not jitted.counts["failed checks"]
    if backend != "table":
        assert opaque(jitted) == set()


def test_a_reduction_with_a_mask_of_many_elements_is_left_to_numpy():
    mask, x = np.arange(20).reshape(4, 5) % 3 > 0, np.arange(20.0).reshape(4, 5)
    jitted = compiled(largest, mask, x, backend="runner")

    assert bits(jitted(~mask, x)) == bits(largest(~mask, x))
    assert opaque(jitted) == {"reduce"}
