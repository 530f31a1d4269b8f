"""What ag.jit refuses, it refuses by name, and says what to write; what it cannot compile stays eager and says why."""

from __future__ import annotations

import array
import contextlib
import contextvars
import copy
import functools
import itertools
import os
import random
import secrets
import threading
import time
import uuid
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, GraphError
from tests.support.leaves import leaf
from tests.tracing.running import bits, compiled

#: Why a call is eager that may be replayed later.
ONCE = {"eager: not traced yet", "eager: compared with its program"}
TABLE = np.array([1.0, 2.0])
MODEL = ag.tensor([2.0], requires_grad=True)


def helper(x):
    return x * TABLE


def model(x):
    return x * MODEL


def refused(function: Any) -> str:
    """Return what a compiled function raises in its second call, in which it is traced, and in each after it."""
    jitted = ag.jit(function)
    jitted(leaf(1.0))
    messages = []
    for _ in range(2):
        with pytest.raises(GraphError) as caught:
            jitted(leaf(1.0))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]


def eager_reason(function: Any, *args: Any) -> str:
    """Return why the calls of a compiled function stay eager, whose results are those of the function."""
    jitted = ag.jit(function)
    for _ in range(6):
        jitted(*args)
    (reason,) = [name for name in jitted.counts if name.startswith("eager: ") and name not in ONCE]
    assert jitted.counts["replayed"] == 0
    return reason.removeprefix("eager: ")


def test_an_array_that_somebody_else_keeps_is_refused_with_its_owner_and_its_line():
    message = refused(lambda x: helper(x))

    assert "reads an array of shape (2,) that is no argument" in message
    assert f"global TABLE of {__name__}.helper keeps" in message
    assert f"{__file__}:{helper.__code__.co_firstlineno + 1}" in message
    assert message.endswith("pass it as an argument")


def test_an_object_that_keeps_arrays_keeps_it_eager():
    class Owner:
        def __init__(self):
            self.weights = np.ones(1)

    owner = Owner()

    assert eager_reason(lambda x: x * owner.weights, leaf(1.0)) == "an object that keeps arrays and is no tree"


def test_an_array_that_the_function_makes_is_none_of_others():
    jitted = ag.jit(lambda x: (x * np.arange(3.0)).sum())
    for _ in range(5):
        assert jitted(leaf(1.0)).item() == 3.0

    assert jitted.counts["replayed"] == 1


def test_a_leaf_that_is_no_argument_is_refused():
    assert "uses a leaf of shape (1,) that is neither an argument" in refused(lambda x: model(x).sum())


def test_a_hook_on_an_intermediate_result_is_refused():
    def function(x):
        y = x * 2
        y.register_hook(lambda grad: None)
        return y.sum()

    message = refused(function)
    assert "adds a hook, of " in message
    assert f"{__file__}:" in message
    assert "to MultiplyBackward" in message


def test_what_changes_unseen_is_found_out():
    assert eager_reason(lambda x: x * time.perf_counter(), leaf(1.0)) == (
        "its program gives another result: it reads what changes and is no argument"
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.default_rng().random(),
        lambda: random.Random().random(),
        lambda: np.random.RandomState().rand(),
        lambda: uuid.uuid4().int % 7,
        lambda: os.urandom(1)[0],
        lambda: secrets.randbelow(7),
    ],
    ids=range(6),
)
def test_a_stream_that_it_makes_keeps_it_eager(draw):
    def function(x):
        return x * 0 if draw() < 0.15 else x * 2

    assert "makes a stream of random numbers" in eager_reason(function, leaf(1.0))


def test_what_changes_the_gradient_alone_is_found_out():
    class Timed(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * time.perf_counter()

    assert eager_reason(lambda x: Timed.apply(x).sum(), leaf(1.0)) == (
        "its program gives another gradient: it reads what changes and is no argument"
    )


def test_a_generator_that_is_not_that_of_the_context_keeps_it_eager():
    assert "a generator of random numbers" in eager_reason(
        lambda x, rng: x * rng.random(), leaf(1.0), np.random.default_rng(0)
    )


def test_a_write_into_an_argument_keeps_it_eager_and_happens_once_in_each_call():
    x = ag.tensor([0.0])

    def function(x):
        x += 1.0
        return x * 2

    line = function.__code__.co_firstlineno + 1
    assert eager_reason(function, x) == (
        f"it writes into argument 0 at {__file__}:{line}: return the new value instead of writing it"
    )
    assert x.tolist() == [6.0]


def test_a_module_that_counts_its_calls_stays_eager_and_counts():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = ag.tensor(0.0)

        def forward(self, x):
            self.total = self.total + 1.0
            return x * 2

    model = Counting()

    assert eager_reason(lambda model, x: model(x), model, leaf(1.0)).startswith("it changes an argument")
    assert model.total.item() == 6.0


def test_an_object_that_is_made_anew_in_each_call_keeps_it_eager():
    def function(x):
        return {"y": x * 2, "names": set()}

    jitted = ag.jit(function)
    sizes = []
    for call in range(6):
        names = jitted(leaf(1.0))["names"]
        names.add(call)
        sizes.append(len(names))

    assert sizes == [1] * 6
    assert jitted.counts["eager: it returns an object of class set"] == 5


def test_a_part_of_an_array_that_lies_spread_out_keeps_it_eager():
    assert "a part of an array" in eager_reason(lambda x: (x * 2)[::2], leaf(1.0, 2.0, 3.0, 4.0))


def test_a_generator_that_is_captured_draws_what_it_would_draw():
    mine, other = np.random.default_rng(0), np.random.default_rng(0)
    jitted = ag.jit(lambda x: x * mine.random(3))

    assert [jitted(np.ones(3)).tolist() for _ in range(6)] == [other.random(3).tolist() for _ in range(6)]


def test_what_leaves_the_trace_keeps_it_eager():
    assert eager_reason(lambda x: x * len(bytes(x.numpy().data)), leaf(1.0)) == "a traced array was asked for its data"


def test_a_rule_that_waits_keeps_it_eager():
    class Waits(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        async def backward(ctx, grad):
            return grad

    assert eager_reason(lambda x: Waits.apply(x).sum(), leaf(1.0)) == "WaitsBackward waits for something"


def test_a_view_of_an_argument_keeps_it_eager():
    assert eager_reason(lambda x: x[:1], leaf(1.0, 2.0)).startswith("it returns a view of an argument")


def test_what_the_function_raises_it_raises_compiled():
    @ag.jit
    def function(x):
        raise KeyError("mine")

    for _ in range(4):
        with pytest.raises(KeyError, match="mine"):
            function(leaf(1.0))


def test_wrong_arguments_of_the_function_raise_as_without():
    jitted = ag.jit(lambda x: x)

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        jitted()


@pytest.mark.parametrize("what", [3, None.__class__, "loss"])
def test_what_is_no_function_is_refused(what):
    with pytest.raises(ArgumentTypeError, match=r"ag\.jit takes a function"):
        ag.jit(what)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "cuda"}, "backend must be 'auto' or 'table'"),
        ({"backend": np.array(["table", "runner"])}, "backend must be 'auto' or 'table'"),
        ({"verify": -1}, "verify must be"),
        ({"verify": True}, "verify must be"),
        ({"static": None}, "static must be the name of an argument"),
        ({"static": ["x", 0]}, "static must be the name of an argument"),
        ({"static": "z"}, r"static has 'z', and .* has the parameters x"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        ag.jit(lambda x: x, **options)


@pytest.mark.parametrize("options", [{"backend": "cuda"}, {"verify": -1}, {"static": None}], ids=str)
def test_wrong_options_of_a_decorator_are_named_before_it_has_a_function(options):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=f"{next(iter(options))} must be"):
        ag.jit(**options)


def test_a_call_that_lacks_a_static_argument_names_the_function():
    jitted = ag.jit(written_by_position, static="into")
    with pytest.raises(TypeError, match=r"written_by_position\(\) missing a required argument: 'into'"):
        jitted(leaf(1.0))


def test_a_function_that_tells_no_parameters_has_no_static_ones():
    with pytest.raises(ArgumentError, match="max does not tell its parameters: write a function that calls it"):
        ag.jit(max, static="key")
    assert ag.jit(max) is not None


def checked(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x * 2


def test_a_call_that_raises_while_it_is_traced_leaves_others_to_be_compiled():
    jitted = ag.jit(checked, verify=0)
    for number in (1.0, -1.0, 1.0, 1.0):
        with contextlib.suppress(ValueError):
            jitted(leaf(number))

    assert jitted.counts["replayed"] == 1


def test_a_function_that_always_raises_is_traced_three_times():
    jitted = ag.jit(checked)
    for _ in range(6):
        with pytest.raises(ValueError, match="negative"):
            jitted(leaf(-1.0))

    assert jitted.counts["traces"] == 3
    assert jitted.counts["eager: ValueError in the traced run: negative"] == 3


@pytest.mark.parametrize("kind", [classmethod, staticmethod, property, functools.cached_property])
def test_a_function_is_compiled_before_it_is_made_a_method_of_a_class(kind):
    with pytest.raises(ArgumentTypeError, match=f"write @{kind.__name__} above @ag.jit"):
        ag.jit(kind(lambda x: x))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], r"must be hashable, not list \[1\]: leave it out of static="),
        (nn.Dropout(), r"must be no array, no model, .*: leave it out of static="),
        ((leaf(1.0),), r"must be no array, no model, .*: leave it out of static="),
    ],
)
def test_a_static_argument_whose_equality_does_not_tell_its_numbers_is_named(value, message):
    jitted = ag.jit(lambda x, sizes: x, static=["sizes"])

    with pytest.raises(ArgumentTypeError, match=message):
        jitted(leaf(1.0), value)


def written_by_position(x, into):
    x.sum(0, None, into)
    return x * 2


def clipped(x):
    y = x * 1
    np.clip(y, -99, 10, y)
    return y


def copied_to(x):
    y = x * 1
    np.nan_to_num(y, copy=False)
    return y


def told_by_warnings(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        y = np.log(x)
    return y * (1 + len(told))


def told_by_numpy(x):
    told: list[str] = []
    with np.errstate(divide="call", call=lambda kind, flag: told.append(kind)):
        y = np.log(x)
    return y * (1 + len(told))


def in_another_shape(x):
    y = x * 1
    try:
        y.shape = (2, 1)
    except AttributeError:
        return y
    return y


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (told_by_warnings, (np.array([1.0, 2.0]),), "told_by_warnings reads catch_warnings"),
        (told_by_numpy, (np.array([1.0, 2.0]),), "it is told of floating-point errors itself"),
        (in_another_shape, (np.array([1.0, 2.0]),), "it sets the shape of an array"),
        (written_by_position, (np.array([1.0, 2.0]), np.array(0.0)), "read-only"),
        (clipped, (np.array([1.0, 12.0]),), "read-only"),
        (copied_to, (np.array([1.0, np.nan]),), "read-only"),
        (lambda x: np.trim_zeros(x * 2) + 1, (np.array([0.0, 1.0]),), "trim_zeros returns a part of an array in it"),
        (
            lambda x: np.real_if_close(x * 1) * 2,
            (np.array([1 + 0j]),),
            "real_if_close returns a part",
        ),
        (lambda x: x if type(x) is np.ndarray else -x, (np.ones(2),), "<lambda> compares type(...) with ndarray"),
        (lambda x: x * globals()["TABLE"], (np.ones(2),), "<lambda> calls globals, by which it may read anything"),
    ],
)
@pytest.mark.filterwarnings("ignore:Setting the shape")  # from NumPy 2.5 on
def test_what_cannot_be_recorded_keeps_it_eager(function, args, reason):
    assert reason in eager_reason(function, *args)


@pytest.mark.parametrize(
    "kept",
    [contextvars.ContextVar("number", default=2.0), itertools.count(), memoryview(b"12"), threading.local()],
    ids=lambda one: type(one).__name__,
)
def test_an_object_that_may_change_unseen_keeps_it_eager(kept):
    assert type(kept).__name__ in eager_reason(lambda x: x * (1 if kept is None else 2), leaf(1.0))


def test_an_error_that_the_function_catches_keeps_it_eager():
    def function(x):
        try:
            is_large = np.asarray(x).max() > 12
        except Exception:
            is_large = False
        return x * 0 if is_large else x * 2

    jitted = ag.jit(function)

    assert [jitted(np.array([float(call)])).item() for call in range(16)] == [
        0.0 if call > 12 else 2.0 * call for call in range(16)
    ]


def test_a_copy_of_an_array_is_one():
    def function(x):
        z = x * 1
        y = copy.copy(z)
        y[y > 12] = 0
        return z + y

    jitted = ag.jit(function)

    assert [jitted(np.array([float(call)])).item() for call in range(16)] == [
        float(call if call > 12 else 2 * call) for call in range(16)
    ]
    assert jitted.counts["replayed"] > 0


def test_a_number_is_an_instance_of_float_and_its_size_decides():
    def function(x):
        mean = x.mean()
        return x * 0 if isinstance(mean, float) and mean > 10 else x * 2

    jitted = ag.jit(function)

    assert [jitted(np.array([float(call)])).item() for call in range(16)] == [
        0.0 if call > 10 else 2.0 * call for call in range(16)
    ]
    assert jitted.counts["replayed"] > 0


def test_a_flag_that_it_sets_is_set_in_each_call():
    jitted = ag.jit(lambda x: x.requires_grad_(True) * 2)
    given = [ag.tensor([1.0]) for _ in range(8)]
    for x in given:
        ag.sync.backward(jitted(x).sum())

    assert [x.grad.item() for x in given] == [2.0] * 8
    assert jitted.counts["eager: it changes the .grad, a hook or a flag of an argument"] == 7


def test_the_gradient_of_a_result_is_refused_where_a_part_of_it_comes_from_another_result():
    def function(x: Any) -> Any:
        hidden = np.tanh(x)
        return (hidden * hidden).sum(), hidden, (hidden * 2.0).sum(), (x * x).sum()

    jitted = compiled(function, ag.tensor([0.5, -0.25], requires_grad=True))

    def grads_of_hidden(function: Any, of_roots: Any) -> list[Any]:
        x = ag.tensor([0.5, -0.25], requires_grad=True)
        results = function(x)
        found = sync.grad(of_roots(*results), [results[1], x], retain_graph=True, allow_unused=True)
        return [bits(one) for one in found]

    parts: list[Any] = [
        lambda loss, hidden, *_: loss,
        lambda loss, hidden, *_: loss + (hidden * 3.0).sum(),
        lambda loss, hidden, *_: [hidden.sum(), loss * 2.0],
        lambda loss, hidden, twice, other: twice + other,
    ]
    for one in parts:
        with pytest.raises(GraphError, match="computes another result from this one"):
            grads_of_hidden(jitted, one)
    wholes: list[Any] = [
        lambda loss, hidden, *_: (hidden * hidden).sum(),
        lambda loss, hidden, twice, other: other,
        lambda loss, hidden, twice, other: other * hidden.sum(),
    ]
    for one in wholes:
        assert grads_of_hidden(jitted, one) == grads_of_hidden(function, one)


def test_a_hook_is_refused_of_a_result_from_which_another_result_is_computed():
    @ag.jit
    def function(w: Any, x: Any) -> Any:
        hidden = np.tanh(w * x)
        return (hidden * hidden).sum(), hidden, hidden * 2.0

    leaf, seen = ag.tensor([0.5, -0.25], requires_grad=True), []
    for _ in range(5):
        loss, hidden, last = function(leaf, np.ones(2))
    assert function.counts["replayed"]

    for refused in (
        lambda: hidden.register_hook(seen.append),
        hidden.retain_grad,
        lambda: hidden.grad_fn.register_hook(lambda *_: None),
        lambda: hidden.grad_fn.register_prehook(lambda *_: None),
    ):
        # Also where it is tried again.
        for _ in range(2):
            with pytest.raises(GraphError, match="computes another result from this one"):
                refused()
    assert not hidden.retains_grad
    # Of the others it is as elsewhere, and so is a backward that begins at it.
    last.register_hook(seen.append)
    sync.backward(loss + (hidden * 3.0).sum() + last.sum())
    found = leaf.grad.tolist()
    plain = ag.tensor([0.5, -0.25], requires_grad=True)
    loss, hidden, last = function.function(plain, np.ones(2))
    sync.backward(loss + (hidden * 3.0).sum() + last.sum())
    assert found == plain.grad.tolist()
    assert len(seen) == 1


def test_an_object_that_cannot_be_compared_is_named_with_its_module():
    jitted = ag.jit(lambda x, numbers: x * 2)
    for _ in range(3):
        jitted(leaf(1.0), array.array("d", [1.0]))
    assert jitted.counts["eager: an object of class array.array, of which nobody can tell whether it has changed"] == 3
