"""Fused programs have the bits, the warnings and the errors of the functions; and when there are such."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError
from asyncgrad.tracing import distances, fusing, kernels, variant
from asyncgrad.tracing.compiling import COMPILER, Compiler
from asyncgrad.tracing.fusion import Fusion
from asyncgrad.tracing.kernel_trials import exponential_agrees
from asyncgrad.tracing.table import Table
from tests.support.sampling import cases, some
from tests.tracing.running import bits, compiled, same

pytest.importorskip("llvmlite")


def variant_of(jitted: Any) -> Any:
    (variant,) = next(iter(jitted._families.values())).variants
    return variant


def fused(function: Callable[..., Any], *args: Any) -> Any:
    """Return the function, compiled, of whose program some steps are fused."""
    jitted = compiled(function, *args, backend="fused")
    assert jitted.counts["fused"] == 1, dict(jitted.counts)
    return jitted


def fusion_of(function: Callable[..., Any], *args: Any) -> Fusion:
    found = variant_of(fused(function, *args)).fused.fusion
    assert isinstance(found, Fusion)
    return found


def names_of(group: Any) -> list[str]:
    return [one.name for one in group.kernel.code]


def reruns(jitted: Any) -> int:
    found = variant_of(jitted).fused.reruns
    assert isinstance(found, int)
    return found


def told(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """Return the bits of what a function returns, or its error, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = bits(function(*args))
        except FloatingPointError as error:
            found = str(error)
    return found, [str(one.message) for one in caught]


def test_neighbours_are_one_kernel_that_stores_what_others_read():
    def function(x, y):
        a = x * y + 1
        return np.exp(a) + np.sqrt(np.abs(a - y))

    first, second = fusion_of(function, np.ones(5), np.arange(5.0)).forward[:2]

    assert names_of(first) == ["load", "load", "multiply", "load", "add", "store"]
    assert names_of(second) == ["load", "load", "subtract", "absolute", "sqrt", "load", "add", "store"]


def test_a_step_whose_loop_would_be_called_for_a_few_elements_at_a_time_is_a_kernel_of_its_own():
    def function(a, b):
        return np.exp(np.exp(a) / b)

    a, b = np.random.default_rng(0).normal(size=(40, 6)), np.full((40, 1), 3.0)
    jitted = fused(function, a, b)

    assert [group.kernel.counts for group in variant_of(jitted).fused.fusion.forward] == [(40, 6)]
    assert bits(jitted(a + 1, b)) == bits(function(a + 1, b))


def test_a_long_chain_is_kernels_of_bounded_length_of_which_most_are_equal():
    def chain(x):
        y = x
        for _ in range(500):
            y = y * x + x
        return y

    groups = fusion_of(chain, np.linspace(0.1, 0.9, 16)).forward

    assert [(one.begin, one.end) for one in groups[:2]] == [(0, 128), (128, 256)]
    assert len({one.kernel for one in groups[1:-1]}) == 1


def test_what_is_read_much_later_is_written_past_the_caches(monkeypatch):
    def chain(x):
        y = x
        for _ in range(40):
            y = y * x + x
        return y.sum()

    def past(function):
        groups = variant_of(function).fused.fusion.forward
        return [one.is_past for group in groups for one in group.kernel.operands]

    x = np.linspace(0.1, 0.9, 1000)
    assert not any(past(fused(chain, ag.tensor(x, requires_grad=True))))
    monkeypatch.setattr(distances, "_FAR", 100_000)
    monkeypatch.setattr(distances, "_LATER", 40)
    jitted = fused(chain, ag.tensor(x, requires_grad=True))
    # What the backward reads at once is in the caches.
    assert past(jitted).count(True) > 0 < past(jitted)[-10:].count(False)
    assert same(chain, jitted, [x])
    assert same(chain, jitted, [x * 0.5])


def test_programs_that_differ_in_numbers_share_their_kernels(monkeypatch):
    made = []
    compile_ = kernels._compile
    monkeypatch.setattr(kernels, "_kept", type(kernels._kept)())
    monkeypatch.setattr(kernels, "_compile", lambda source: made.append(source) or compile_(source))

    for number in (2.0, 3.0):
        jitted = fused(lambda x, number=number: x * number + 1 / number, np.ones(7))
        assert bits(jitted(np.arange(7.0))) == bits(np.arange(7.0) * number + 1 / number)

    assert len(made) == 1


def test_steps_under_another_errstate_are_kernels_of_their_own():
    def function(x):
        with np.errstate(divide="ignore"):
            y = np.sqrt(1 / (x * 1))
        return np.abs(y - 1) * 2

    groups = fusion_of(function, np.ones(3)).forward

    assert [names_of(one).count("load") for one in groups] == [2, 3]
    assert groups[0].ignored != groups[1].ignored


def test_steps_that_may_overflow_in_silence_are_fused_with_others_that_tell_of_it():
    def scaled(x, factor):
        y = x + 1.0
        with np.errstate(over="ignore"):
            y = y * y
        return y * factor

    x, factor = np.array([1e100, 2.0]), np.array([1e10, 1.0])
    jitted = fused(scaled, x, factor)
    huge, large = np.array([1e200, 2.0]), np.array([1e300, 1.0])
    runs = [(x, factor), (huge, factor), (x, large), (huge, large)]
    found, expected = ([told(function, *one) for one in runs] for function in (jitted, scaled))

    (group,) = variant_of(jitted).fused.fusion.forward
    assert names_of(group).count("multiply") == 2
    assert found == expected
    assert [len(warned) for _, warned in expected] == [0, 0, 1, 0]
    assert reruns(jitted) > 0


@pytest.mark.skipif(not exponential_agrees(), reason="NumPy computes this exponential otherwise than kernels")
def test_an_exponential_of_float32_is_fused_with_what_is_before_and_after_it():
    def shares(scores, mask):
        scores = scores + mask
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.exp(scores)
        return scores * 2

    rng = np.random.default_rng(0)
    mask = np.where(np.tri(9, dtype=bool), 0, -np.inf).astype(np.float32)
    scores = rng.standard_normal((9, 9)).astype(np.float32)
    jitted = fused(shares, scores, mask)
    large = scores.copy()
    large[4, 4], large[8, 0], large[8, 1], large[8, 2] = 1e3, -90, -1e3, np.nan
    runs = [(one, mask) for one in (scores, scores * 50, large, scores)]
    found, expected = ([told(function, *one) for one in runs] for function in (jitted, shares))

    (group,) = variant_of(jitted).fused.fusion.forward
    assert names_of(group) == ["load", "load", "add", "exp", "load", "multiply", "store"]
    assert found == expected


def test_a_choice_and_a_conversion_are_fused_though_numpy_has_no_loop_of_them():
    def function(x, y):
        return np.where(x > y, x, 0.5).astype(np.float32)

    jitted = fused(function, np.ones(5), np.arange(5.0))

    assert variant_of(jitted).take_table()._records.opaque() == set()
    x = np.array([1.0, -0.0, np.nan, 1e300, 3.0])
    assert told(jitted, x, np.zeros(5)) == told(function, x, np.zeros(5))


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "columns": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
}
FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b * 2 - b / 3,
    lambda a, b: (a[0] + b) * a,
    lambda a, b: np.sqrt(np.abs(a)) * b[:, :1] - b[:, 1:2],
    lambda a, b: np.where(a > b, a, -b) * (b != 0),
    lambda a, b: (np.maximum(a, b) - np.minimum(a * 2, 0)) ** 2,
    lambda a, b: (a > 0) & (b > 0) | ~(a == b) ^ (a < 1),
    lambda a, b: (a * (b > 0)).sum(0) + np.reciprocal(b * b + 1).sum(0),
    lambda a, b: (a.T * 2).reshape(-1) + (b * 1).ravel() * 3,
    lambda a, b: a.astype(np.float32) * b.astype(np.float32) + 1,
    lambda a, b: ((a * 100).astype(np.int64) * 2**62 + 1) - (b > 0),
    lambda a, b: np.isnan(a * b) | np.logical_not(a) | np.logical_xor(a, b),
    lambda a, b: np.concatenate([a * 2 + 1, b * 3 - 1]) * 2 + 1,
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_a_fused_program_has_the_bits_of_the_function(function, layout):
    rng = np.random.default_rng(1)
    kinds = itertools.product([(5, 7), (1, 4), (33, 3), (2, 129)], [np.float64, np.float32])
    for shape, kind in some(kinds, of=f"{FUNCTIONS.index(function)} {layout}"):
        points = [[LAYOUTS[layout](rng.standard_normal(shape).astype(kind)) for _ in range(2)] for _ in range(3)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jitted = compiled(function, *points[0], backend="fused")
            for point in points:
                assert bits(jitted(*point)) == bits(function(*point))
                assert jitted.counts["fused"], dict(jitted.counts)


@pytest.mark.parametrize("seed", range(cases(20)))
def test_gradients_have_the_bits_of_the_function(seed):
    rng = np.random.default_rng(seed)
    w, x = rng.standard_normal((4, 4)), rng.standard_normal((6, 4))

    def function(w, x):
        h = np.tanh(x @ w)
        h = np.maximum(h @ w, 0) * x - x / 3
        return (np.exp(-h) / (1 + h * h)).mean()

    jitted = fused(function, ag.tensor(w, requires_grad=True), ag.tensor(x, requires_grad=True))

    assert same(function, jitted, [w * 1.5, x + 1])
    assert jitted.counts["replayed"] == 2


def in_place(x):
    y = x * 1
    y += x
    y *= y
    np.negative(y, out=y)
    return y + 1


def onto_the_next(x):
    y = x * 1
    np.multiply(y[:-1], 2, out=y[1:])
    y[:-1] += y[1:]
    return y * 3 + 1


def onto_the_transposed(x):
    y = (x[:4] * 1).reshape(2, 2)
    y += y.T
    y *= y[:1]
    return y * 2 + y[:, :1]


def in_parts(x):
    y = np.concatenate([x, x])
    np.multiply(x, 2, out=y[::2])
    np.multiply(x, 3, out=y[1::2])
    y[: len(x)] -= x
    y[1:] *= 2
    return y * 2 + 1


@pytest.mark.parametrize("function", [in_place, onto_the_next, onto_the_transposed, in_parts])
def test_what_overlaps_is_computed_as_by_numpy(function):
    for length in (4, 5, 16, 37):
        jitted = fused(function, np.ones(length))
        x = np.random.default_rng(length).standard_normal(length)
        assert bits(jitted(x)) == bits(function(x))


def test_arguments_that_share_memory():
    def function(x, y):
        return (x * 2 + y) * x - y

    memory = np.arange(40.0)
    jitted = fused(function, memory[:20].copy(), memory[20:].copy())

    for x, y in ((memory[:20], memory[1:21]), (memory[3:23], memory[:20]), (memory[::2], memory[1::2])):
        assert bits(jitted(x, y)) == bits(function(x, y))


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (lambda x: np.sqrt(1 / (x * 1)) + 1, np.ones(5), np.zeros(5)),
        (lambda x: (x * 1e300) * 1e10 - 1, np.ones(17), np.full(17, 2.0)),
        (lambda x: np.abs(np.sqrt(x - 5)) > 1, np.full(3, 9.0), np.zeros(3)),
        (lambda x: (1 / x) > 2, np.ones(3), np.zeros(3)),
        (lambda x: np.where(x > 0, 1 / x, 0) * 2, np.ones(3), np.zeros(3)),
        (lambda x: (x * 1 - x / 2, 1 / (x + 0))[0], np.ones(6), np.zeros(6)),
        (lambda x: (x * 1 + 1).astype(np.float32) * 1, np.ones(6), np.full(6, 1e200)),
        (lambda x: (x - np.inf) * 0 + 1, np.array([1.0, -np.inf]), np.array([np.inf, 1.0])),
    ],
    ids=range(8),
)
def test_warnings_and_errors_are_those_of_the_function(function, good, bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jitted = compiled(function, good, backend="fused")

    assert told(jitted, bad) == told(function, bad)
    assert told(function, bad)[1] != []
    for way in ("raise", "ignore"):
        with np.errstate(all=way):
            for _ in range(5):
                assert told(jitted, bad) == told(function, bad)


def test_kernels_that_are_compared_warn_of_nothing():
    def function(x):
        with np.errstate(divide="warn"):
            return 1 / x * 2 + 1

    jitted: Any = ag.jit(function, backend="fused")

    with np.errstate(divide="ignore"):
        assert [told(jitted, np.zeros(3)) for _ in range(6)] == 6 * [told(function, np.zeros(3))]


def test_a_backward_warns_as_that_of_the_function():
    jitted = fused(lambda x: np.sqrt(x * 2).sum(), ag.tensor([1.0, 2.0], requires_grad=True))
    x = ag.tensor([0.0, 2.0], requires_grad=True)
    value = jitted(x)

    with pytest.warns(RuntimeWarning, match="divide by zero"):
        sync.backward(value)
    assert x.grad.tolist() == [np.inf, 0.5]


def test_two_nan_that_meet_are_numpys():
    def function(x, y):
        return (x + y) * 2 - (y * x)

    jitted = fused(function, np.ones(21), np.ones(21))
    x, y = np.full(21, np.nan), np.full(21, -np.nan)

    assert bits(jitted(x, y)) == bits(function(x, y))
    assert reruns(jitted) > 0


def test_a_program_that_often_meets_nan_goes_back_to_the_runner():
    def function(x, y):
        return (x + y) * 2 - y

    jitted = fused(function, np.ones(4), np.ones(4))
    x = np.array([1.0, np.nan, 2.0, 3.0])

    for _ in range(20):
        assert bits(jitted(x, x + 1)) == bits(function(x, x + 1))
    assert variant_of(jitted).fused is None
    assert jitted.counts["not fused: in many of its runs there is an error or a NaN"] == 1
    assert jitted.counts["replayed"] == 21


def test_few_runs_that_meet_nan_among_others_do_not_matter():
    jitted = fused(lambda x, y: (x + y) * 2 - y, np.ones(4), np.ones(4))

    for number in [1.0, 2.0, 3.0, 4.0, np.nan] * 20:
        jitted(np.full(4, number), np.ones(4))
    assert variant_of(jitted).fused is not None


def held_back(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold back the compilation; return what tells that it has begun, and what lets it go on."""
    begun, goes_on = threading.Event(), threading.Event()
    compile_ = fusing.compiled_kernel

    def wait(kernel: Any) -> Any:
        begun.set()
        assert goes_on.wait(60)
        return compile_(kernel)

    monkeypatch.setattr(fusing, "compiled_kernel", wait)
    return begun, goes_on


def function_of_others(x: Any) -> Any:
    return (x * 2 + 1) / (x * x + 1)


def test_kernels_are_compiled_in_a_thread_while_calls_go_on(monkeypatch):
    begun, goes_on = held_back(monkeypatch)
    jitted = ag.jit(function_of_others, verify=1)
    x = np.arange(5.0)

    for _ in range(20):
        assert bits(jitted(x)) == bits(function_of_others(x))
    assert begun.wait(60)
    assert jitted.counts["replayed"] == 17
    assert variant_of(jitted).fused is None
    goes_on.set()
    COMPILER.join()
    for _ in range(3):
        assert bits(jitted(x + 1)) == bits(function_of_others(x + 1))

    assert jitted.counts["fused"] == 1
    assert variant_of(jitted).fused is not None
    # It is compared with the function before it is used, as any other.
    assert jitted.counts["verified"] == 2
    assert not [one for one in threading.enumerate() if one.name == "asyncgrad compiler"]


def test_kernels_that_cannot_be_compared_cost_no_tables_and_are_given_up(monkeypatch):
    """Where no program suits, each is tried in each call. A table is dear: its records are written anew."""

    def function(x):
        return (x * int(x.sum()) - 1) * x

    jitted = ag.jit(function, verify=0)
    begun, goes_on = held_back(monkeypatch)
    for number in range(8):
        for _ in range(12):
            jitted(np.full(2, number / 2))
    assert begun.wait(60)
    made = []
    monkeypatch.setattr(variant, "Table", lambda *args: made.append(args) or Table(*args))
    goes_on.set()
    COMPILER.join()

    for _ in range(20):
        assert bits(jitted(np.full(2, 4.0))) == bits(function(np.full(2, 4.0)))

    assert len(made) <= 8
    assert jitted.counts["not fused: in each of its first runs a number is not that of the traced run"] >= 1


def test_a_function_that_is_gone_is_not_compiled(monkeypatch):
    begun, goes_on = held_back(monkeypatch)
    first, second = ag.jit(function_of_others, verify=0), ag.jit(lambda x: x * 3 - 1, verify=0)
    for _ in range(12):
        first(np.ones(3))
    assert begun.wait(60)
    for _ in range(12):
        second(np.ones(4))
    made: list[Any] = []
    monkeypatch.setattr(fusing, "_made", lambda *args: made.append(args))
    del second
    goes_on.set()
    COMPILER.join()

    assert made == []


def test_a_failure_of_the_compiler_leaves_the_runner(monkeypatch):
    def fail(kernel: Any) -> Any:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(fusing, "compiled_kernel", fail)
    for backend, verify in (("fused", 2), ("auto", 0)):
        jitted = ag.jit(function_of_others, backend=backend, verify=verify)
        for number in range(15):
            x = np.arange(5.0) + number
            assert bits(jitted(x)) == bits(function_of_others(x))
            COMPILER.join()

        assert jitted.counts["not fused: RuntimeError while it was compiled: no such instruction"] == 1
        assert jitted.counts["replayed"] == 13 - verify


def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels subtract where they are to add."""
    compile_ = kernels._compile
    monkeypatch.setattr(kernels, "_kept", type(kernels._kept)())
    monkeypatch.setattr(kernels, "_compile", lambda source: compile_(source.replace("fadd", "fsub")))


@pytest.mark.parametrize("verify", [0, 2])
def test_kernels_with_other_bits_are_not_used(monkeypatch, verify):
    wrong(monkeypatch)
    jitted = ag.jit(function_of_others, backend="fused", verify=verify)

    for number in range(8):
        x = np.arange(5.0) + number
        assert bits(jitted(x)) == bits(function_of_others(x))

    assert jitted.counts["not fused: its kernels give another result"] == 1
    assert jitted.counts["replayed"] == 6 - verify


def test_a_gradient_with_other_bits_retires_the_kernels(monkeypatch):
    wrong(monkeypatch)

    def function(x):
        return np.tanh(x).sum()

    jitted = ag.jit(function, backend="fused", verify=0)
    for number in range(6):
        assert same(lambda x: function(x) * 1, lambda x: jitted(x) * 1, [np.arange(5.0) + number])


def test_a_difference_from_the_function_retires_the_kernels(monkeypatch):
    wrong(monkeypatch)
    monkeypatch.setattr(fusing, "_difference", lambda *_: None)
    jitted = ag.jit(function_of_others, backend="fused", verify=2)

    for number in range(8):
        x = np.arange(5.0) + number
        assert bits(jitted(x)) == bits(function_of_others(x))

    assert [one for one in jitted.counts if one.startswith("not fused: its program gives another result")]
    assert jitted.counts["replayed"] == 4


def test_a_call_under_way_keeps_its_table():
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    jitted = ag.jit(lambda x: (x * x + 1) / x, verify=0)
    kept = []
    for _ in range(12):
        kept.append(jitted(x))
        COMPILER.join()

    assert jitted.counts["fused"] == 1
    expected = sync.grad((x * x + 1) / x, [x], [np.ones(3)])[0].tolist()
    for value in kept[2:]:
        assert sync.grad(value, [x], [np.ones(3)])[0].tolist() == expected
    del kept, value
    variant = variant_of(jitted)
    assert {table.fused for table in variant._idle} == {variant.fused}


def test_a_program_with_nothing_to_fuse():
    jitted = compiled(lambda x: np.exp(x), np.ones(3), backend="fused")

    assert jitted.counts["not fused: nothing in it can be"] == 1


def test_random_numbers_are_drawn_as_by_the_function():
    def function(x):
        return ag.random.generator().standard_normal(x.shape) * x + x

    jitted = ag.jit(function, backend="fused", verify=1)
    found, expected = [], []
    for results, one in ((found, jitted), (expected, function)):
        ag.random.seed(3)
        results += [bits(one(np.arange(4.0))) for _ in range(6)]

    assert found == expected


def test_what_is_changed_in_place_of_an_argument_is_changed_once():
    mean = ag.tensor(np.zeros(3))

    def function(x, mean):
        with ag.no_grad():
            mean._data *= 0.9
            mean._data += 0.1 * x
        return x - mean._data * 2 + 1

    jitted = ag.jit(function, backend="fused", verify=1)
    other = np.zeros(3)
    for number in range(6):
        x = np.full(3, float(number))
        other = other * 0.9 + 0.1 * x
        assert bits(jitted(x, mean)) == bits(x - other * 2 + 1)
        assert mean.tolist() == other.tolist()


def test_without_llvmlite_there_is_no_backend(monkeypatch):
    monkeypatch.setattr("asyncgrad.tracing.jit.missing_extra", lambda: "llvmlite is not installed")

    with pytest.raises(ArgumentError, match="no backend 'fused': llvmlite is not installed"):
        ag.jit(lambda x: x, backend="fused")


def test_the_exit_of_the_interpreter_waits_for_one_kernel_alone():
    code = """
import threading, asyncgrad as ag
from asyncgrad.tracing.compiling import COMPILER
begun = threading.Event()
def job():
    begun.set()
    while not COMPILER.is_ending():
        pass
    print("ended")
for _ in range(3):
    COMPILER.submit(job)
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "ended\n"


def test_a_forked_child_has_a_thread_of_its_own():
    compiler = Compiler()
    done = threading.Event()
    compiler.reset()
    compiler.submit(done.set)

    assert done.wait(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_compiles_that_is_forked_while_another_thread_does():
    from llvmlite import binding

    def function(x: Any) -> Any:
        return (np.tanh(x * 0.5) * x + x).sum()

    def run(function: Any, calls: int) -> Any:
        leaf = ag.tensor([0.5, 0.25], requires_grad=True)
        for _ in range(calls):
            sync.backward(function(leaf))
        return leaf.grad.tolist()

    def as_child() -> int:
        for _ in range(3):
            run(half, 20)
            COMPILER.join()
        fresh = ag.jit(function, backend="fused")
        same_bits = run(fresh, 20) == run(function, 20) == run(half, 20)
        return 0 if same_bits and half.counts["fused"] == fresh.counts["fused"] == 1 else 9

    def compile_slowly() -> None:
        with binding.ffi.lib._lock:
            held.set()
            forks.wait(0.1)

    half, held, forks = ag.jit(function), threading.Event(), threading.Event()
    begun, goes_on = threading.Event(), threading.Event()
    # What is compiled in the parent after that is compiled in the child anew.
    COMPILER.submit(lambda: begun.set() or goes_on.wait(60))
    assert begun.wait(60)
    run(half, 15)
    thread = threading.Thread(target=compile_slowly)
    thread.start()
    assert held.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)
        with contextlib.suppress(BaseException):
            os._exit(as_child())
        os._exit(8)
    forks.set()
    goes_on.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
