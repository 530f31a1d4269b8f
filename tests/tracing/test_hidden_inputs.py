"""What a function reads besides its arguments may change between calls: the result is that of the function."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import enum
import functools
import importlib
import os
import random
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn
from asyncgrad.tracing.draws import traced_generator
from asyncgrad.tracing.trace import Trace
from tests.support.leaves import leaf
from tests.tracing.running import bits, compiled

RATE = 2.0


class Place:
    """An object with a number."""

    number = 1.0


class Slotted:
    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 1.0


class Scaled(nn.Module):
    """A module whose method reads a global."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * RATE


def results_follow(jitted: Any, function: Any, x: Any, change: Any) -> bool:
    """Tell whether a compiled function has the results of the function before and after a change."""
    found = []
    for call in range(10):
        if call == 6:
            change()
        found.append(np.array_equal(np.asarray(jitted(x).tolist()), np.asarray(function(x).tolist())))
    assert jitted.counts["replayed"] > 0
    return all(found)


def test_a_global_that_a_method_reads_may_change(monkeypatch):
    model = Scaled()

    assert results_follow(
        ag.jit(lambda x: model(x)), model, np.ones(3), lambda: monkeypatch.setitem(globals(), "RATE", 100.0)
    )


def test_what_a_function_in_a_list_reads_may_change():
    factors = [3.0]
    functions = [lambda x: x * factors[0]]

    assert results_follow(
        ag.jit(lambda x: functions[0](x)), functions[0], leaf(1.0), lambda: factors.__setitem__(0, 9.0)
    )


def test_what_another_compiled_function_reads_may_change():
    factors = [2.0]
    inner = ag.jit(lambda x: x * factors[0])

    assert results_follow(
        ag.jit(lambda x: inner(x) + 1), lambda x: x * factors[0] + 1, leaf(1.0), lambda: factors.__setitem__(0, 7.0)
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_attributes_of_objects_in_objects_may_change(depth):
    inner: Any = types.SimpleNamespace(number=2.0)
    outer: Any = inner
    for _ in range(depth):
        outer = types.SimpleNamespace(inside=[outer])

    def function(x):
        found = outer
        for _ in range(depth):
            found = found.inside[0]
        return x * found.number

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: setattr(inner, "number", 5.0))


def test_attributes_of_classes_may_change(monkeypatch):
    place = Place()

    def function(x):
        return x * place.number

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: monkeypatch.setattr(Place, "number", 5.0))


def test_slots_may_change():
    place = Slotted()

    def function(x):
        return x * place.number

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: setattr(place, "number", 5.0))


def test_defaults_may_change():
    factors = [2.0]

    def function(x, given=factors):
        return x * given[0]

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: factors.__setitem__(0, 3.0))


def test_a_set_may_change():
    names = {"a"}

    def function(x):
        return x * len(names)

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: names.add("b"))


def test_a_module_that_is_compiled_itself_and_one_without_parameters():
    model, dropout = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), nn.Dropout(0.5).eval()
    for jitted, switched in ((ag.jit(model), model), (ag.jit(lambda x: dropout(x)), dropout)):
        with ag.no_grad():
            for _ in range(6):
                jitted(np.ones((2, 4)))
            assert jitted.counts["replayed"] == 2
            switched.train()
            found = [np.asarray(jitted(np.ones((2, 4))).tolist()) for _ in range(4)]
            assert any((one == 0.0).any() for one in found)


def test_what_a_bound_method_reads_may_change():
    place = Slotted()

    class Multiplying:
        def __init__(self):
            self.place = place

        def run(self, x):
            return x * self.place.number

    method = Multiplying().run

    assert results_follow(ag.jit(method), method, leaf(1.0), lambda: setattr(place, "number", 5.0))


def test_a_number_of_an_array_that_an_object_keeps():
    place = types.SimpleNamespace(array=np.ones(3))
    jitted = ag.jit(lambda x: x * float(place.array[0]))
    for call in range(8):
        place.array[0] = call
        assert jitted(leaf(1.0)).tolist() == [call]


def test_two_arguments_that_are_one():
    jitted = ag.jit(lambda a, b: "same" if a is b else "others")
    one, other = np.ones(2), np.ones(2)

    assert [jitted(one, one if call % 2 else other) for call in range(10)] == ["others", "same"] * 5


def test_a_grad_may_appear():
    jitted = ag.jit(lambda w: w * 1 if w.grad is None else w * 2)
    w = leaf(3.0)
    found = []
    for call in range(10):
        w.grad = ag.tensor([10.0]) if call > 5 else None
        found.append(jitted(w).item())

    assert found == [3.0] * 6 + [6.0] * 4


class Config(dict[str, float]):
    """A dict of a class of its own."""


class Names(list[str]):
    """A list of a class of its own."""


@pytest.mark.parametrize(
    "kept",
    [
        Config(number=2.0),
        collections.defaultdict(float, number=2.0),
        collections.OrderedDict(number=2.0),
        collections.UserDict(number=2.0),
        collections.ChainMap({"number": 2.0}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_dicts_of_every_class_may_change(kept):
    def change():
        kept["number"] = 3.0

    assert results_follow(ag.jit(lambda x: x * kept["number"]), lambda x: x * kept["number"], leaf(1.0), change)


def test_a_dict_that_is_an_argument_may_change():
    config = Config(number=2.0)
    jitted = ag.jit(lambda x, config: x * config["number"])

    def change():
        config["number"] = 3.0

    assert results_follow(_With(jitted, config), lambda x: x * config["number"], leaf(1.0), change)


class _With:
    """A compiled function with a second argument."""

    def __init__(self, jitted: Any, argument: Any) -> None:
        self.jitted = jitted
        self.argument = argument
        self.counts = jitted.counts

    def __call__(self, x: Any) -> Any:
        return self.jitted(x, self.argument)


def test_a_list_of_a_class_of_its_own_may_change():
    names = Names(["a"])

    assert results_follow(
        ag.jit(lambda x: x * len(names)), lambda x: x * len(names), leaf(1.0), lambda: names.append("b")
    )


def test_a_view_of_a_dict_may_change():
    settings = {"number": 2.0}
    shown, values = types.MappingProxyType(settings), settings.values()

    assert results_follow(
        ag.jit(lambda x: x * shown["number"] * sum(values)),
        lambda x: x * shown["number"] * sum(values),
        leaf(1.0),
        lambda: settings.update(number=3.0),
    )


def test_a_method_that_is_bound_to_a_dict_may_change():
    settings = {"number": 2.0}
    get = settings.get

    assert results_follow(
        ag.jit(lambda x: x * get("number")), lambda x: x * get("number"), leaf(1.0), lambda: settings.update(number=3.0)
    )


def test_what_a_partial_keeps_may_change():
    settings = {"number": 2.0}
    scaled = functools.partial(lambda given, x: x * given["number"], settings)

    assert results_follow(ag.jit(lambda x: scaled(x)), scaled, leaf(1.0), lambda: settings.update(number=3.0))


def test_the_default_of_a_method_may_change():
    settings = {"number": 2.0}

    class Scaling:
        def run(self, x, given=settings):
            return x * given["number"]

    scaling = Scaling()

    assert results_follow(ag.jit(lambda x: scaling.run(x)), scaling.run, leaf(1.0), lambda: settings.update(number=3.0))


PLACE: dict[str, Any] = {"array": np.ones(3), "number": 2.0}


def with_place(x):
    return x * PLACE["number"]


def test_a_number_beside_an_array_may_change(monkeypatch):
    assert results_follow(
        ag.jit(lambda x: with_place(x)), with_place, leaf(1.0), lambda: monkeypatch.setitem(PLACE, "number", 3.0)
    )


def with_array(x):
    return x * float(PLACE["array"].sum())


def test_the_numbers_of_a_small_array_of_a_called_function_may_change(monkeypatch):
    monkeypatch.setitem(PLACE, "array", np.ones(3))

    assert results_follow(
        ag.jit(lambda x: with_array(x)), with_array, leaf(1.0), lambda: PLACE["array"].__setitem__(0, 7.0)
    )


def test_an_object_of_asyncgrad_that_keeps_arrays():
    stats = pytest.importorskip("asyncgrad.scipy.stats")
    density = stats.gaussian_kde(np.array([0.0, 1.0, 3.0]))
    jitted = ag.jit(lambda x: density(x))
    for call in range(10):
        if call == 7:
            density.set_bandwidth(0.1)
        x = np.array([0.5, 1.5 + call])
        assert bits(jitted(x)) == bits(density(x))


def test_an_attribute_of_a_function_may_change():
    def function(x):
        return x * function.number

    function.number = 2.0

    assert results_follow(ag.jit(lambda x: function(x)), function, leaf(1.0), lambda: setattr(function, "number", 3.0))


def test_an_attribute_of_a_compiled_function_may_change():
    def function(x):
        return x * jitted.number

    jitted = ag.jit(function)
    jitted.number = 2.0

    assert results_follow(jitted, function, leaf(1.0), lambda: setattr(jitted, "number", 3.0))


def test_the_environment_may_change(monkeypatch):
    monkeypatch.setenv("NUMBER", "2")

    def function(x):
        return x * float(os.environ["NUMBER"])

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: monkeypatch.setenv("NUMBER", "3"))


def test_a_module_that_is_imported_in_the_function_may_change(monkeypatch):
    module: Any = types.ModuleType("settings_of_a_test")
    module.number = 2.0
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def function(x):
        import settings_of_a_test  # type: ignore[import-not-found]

        return x * settings_of_a_test.number

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: setattr(module, "number", 3.0))


@pytest.mark.parametrize("kind", [np.random.random, random.random])
def test_a_coin_of_another_stream_is_thrown_in_each_call(kind):
    def function(x):
        return x * 0 if kind() < 0.15 else x * 2

    found = []
    for run in (function, ag.jit(function)):
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002  # the stream that `np.random.random` draws from
        found.append([run(leaf(1.0)).item() for _ in range(30)])

    assert found[0] == found[1]


@pytest.mark.parametrize(("seed", "draw"), [(np.random.seed, np.random.random), (random.seed, random.random)])
def test_another_stream_is_seeded_in_each_call(seed, draw):
    def function(x):
        seed(3)
        return x * draw()

    jitted = ag.jit(function)
    for run in (function, jitted):
        for _ in range(8):
            run(leaf(1.0))
            first = draw()
            run(leaf(1.0))
            assert draw() == first


def test_traces_of_several_threads_are_no_draws_to_each_other_and_leave_the_streams_as_they_were():
    begun, ended = threading.Event(), threading.Event()
    traces = [Trace() for _ in range(2)]

    def other():
        with traced_generator(traces[1]):
            begun.set()
            assert ended.wait(20)

    before = [str(np.random.mtrand.get_bit_generator().state), random.getstate()]
    thread = threading.Thread(target=other)
    with traced_generator(traces[0]):
        thread.start()
        assert begun.wait(20)
    ended.set()
    thread.join()

    assert [one.broken for one in traces] == [None, None]
    assert [str(np.random.mtrand.get_bit_generator().state), random.getstate()] == before


def test_whether_an_argument_is_a_leaf():
    jitted = ag.jit(lambda x: x * (2 if x.is_leaf else 3))
    x = leaf(1.0)

    assert [jitted(one).item() for one in [x, x * 1] * 6] == [2.0, 3.0] * 6
    assert jitted.counts["replayed"] > 0


def test_whether_an_argument_is_a_leaf_where_the_function_runs_again():
    jitted = ag.jit(lambda x: (x * (2 if x.is_leaf else 3), (x * x).sum()), verify=0)
    for _ in range(3):
        x = leaf(1.0)
        y, _ = jitted(x)
        ag.sync.backward(y.sum())
        assert x.grad.item() == 2.0

    assert jitted.counts["replayed"] == 1


def test_whether_an_argument_is_a_view():
    jitted = ag.jit(lambda x: x * (2 if x.base is None else 3))
    array = np.ones(3)

    assert [jitted(one).tolist() for one in [array, array[:]] * 6] == [[2.0] * 3, [3.0] * 3] * 6


def test_places_of_views_that_arguments_give():
    jitted = ag.jit(lambda x, at: np.split(x, at)[0].sum() * x)
    x = np.arange(4.0)

    for at in [1, 1, 1, 1, 1, 3, 1, 2]:
        assert jitted(x, np.array([at])).tolist() == (x[:at].sum() * x).tolist()


def test_the_grad_of_an_argument_as_a_number():
    w = leaf(1.0)
    jitted = ag.jit(lambda w: w * 1 - w.grad * 0.5, verify=0)
    found = []
    for call in range(6):
        w.grad = ag.tensor([float(call)])
        found.append(jitted(w).item())

    assert found == [1.0 - 0.5 * call for call in range(6)]


@dataclasses.dataclass
class Held:
    """A tree with a static attribute."""

    x: Any
    kept: Any = dataclasses.field(default=None, metadata={"static": True})


@pytest.mark.parametrize("kept", [{"number": 2.0}, types.SimpleNamespace(number=2.0)], ids=["dict", "object"])
def test_static_attributes_of_an_argument_may_change(kept):
    def read(held):
        return held.x * (held.kept["number"] if isinstance(held.kept, dict) else held.kept.number)

    def change():
        if isinstance(kept, dict):
            kept["number"] = 3.0
        else:
            kept.number = 3.0

    jitted = ag.jit(read)
    called: Any = _Wrapped(jitted, lambda x: jitted(Held(x, kept)))

    assert results_follow(called, lambda x: read(Held(x, kept)), leaf(1.0), change)


class _Wrapped:
    """A compiled function that is called in another way."""

    def __init__(self, jitted: Any, call: Any) -> None:
        self.call = call
        self.counts = jitted.counts

    def __call__(self, x: Any) -> Any:
        return self.call(x)


@pytest.mark.parametrize("values", [(1, 1.0), (0.0, -0.0), (1, True)])
def test_what_is_equal_and_not_the_same(values):
    jitted = ag.jit(lambda held: held.x * held.kept)
    by_key = ag.jit(lambda given: sum(value * key for key, value in given.items()))
    x = np.array([1, 2])
    for _ in range(6):
        jitted(Held(x, values[0]))
        by_key({values[0]: x})

    for found in (jitted(Held(x, values[1])), by_key({values[1]: x})):
        expected = x * values[1]
        assert (found + 0 * x).dtype == (expected + 0 * x).dtype
        assert repr(jitted(Held(x, values[1]))) == repr(expected)


def test_an_attribute_of_the_class_of_an_argument_may_change(monkeypatch):
    monkeypatch.setattr(Held, "number", 2.0, raising=False)
    jitted = ag.jit(lambda held: held.x * held.number)

    assert results_follow(
        _Wrapped(jitted, lambda x: jitted(Held(x))),
        lambda x: x * Held.number,
        leaf(1.0),
        lambda: monkeypatch.setattr(Held, "number", 3.0, raising=False),
    )


class Multiplied:
    def __init__(self) -> None:
        self.number = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.number

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self


class Meta(type):
    number = 2.0


class Nested(metaclass=Meta):
    multiplied = Multiplied()

    class Inner:
        number = 2.0


class Kind(enum.Enum):
    A = 1


@pytest.mark.parametrize(
    ("function", "owner"),
    [
        (lambda x: x * Nested.Inner.number, Nested.Inner),
        (lambda x: Nested.multiplied(x), Nested.multiplied),
        (lambda x: x * Nested.number, Meta),
        (lambda x: x * getattr(Kind.A, "number", 2.0), Kind.A),
    ],
    ids=["nested class", "descriptor", "metaclass", "enum member"],
)
def test_what_lies_in_classes_may_change(function, owner, monkeypatch):
    assert results_follow(
        ag.jit(function), function, leaf(1.0), lambda: monkeypatch.setattr(owner, "number", 3.0, raising=False)
    )


def test_a_module_that_an_object_keeps_and_one_beside_getattr_may_change():
    settings: Any = types.ModuleType("settings_of_an_object")
    settings.number = 2.0
    settings.Config = type("Config", (), {"number": 2.0})
    place = types.SimpleNamespace(settings=settings)

    class Reading:
        def run(self, x):
            return x * place.settings.number

    reading = Reading()

    def by_getattr(x):
        assert getattr(x, "ndim", 1) is not None
        return x * settings.Config.number

    for function, change in (
        (lambda x: reading.run(x), lambda: setattr(settings, "number", 3.0)),
        (by_getattr, lambda: setattr(settings.Config, "number", 3.0)),
    ):
        assert results_follow(ag.jit(function), function, leaf(1.0), change)


def test_another_function_of_the_same_lines_may_take_the_place_of_one():
    def make(given, inner):
        def function(x):
            y = inner(x) if inner else x
            return y * given["number"]

        return function

    outer, kept = {"number": 2.0}, {"number": 2.0}
    function = make(outer, make(kept, None))

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: kept.update(number=3.0))


def with_late_name(x):
    try:
        return x * LATE  # type: ignore[name-defined]
    except NameError:
        return x


def with_abs(x):
    return x * abs(-2.0)


@pytest.mark.parametrize(
    ("function", "name", "value"), [(with_late_name, "LATE", 5.0), (with_abs, "abs", lambda number: 7.0)]
)
def test_a_name_may_come_later(function, name, value, monkeypatch):
    for jitted in (ag.jit(function), ag.jit(lambda x: function(x))):
        with monkeypatch.context() as patched:
            patched.delitem(globals(), name, raising=False)
            change = functools.partial(patched.setitem, globals(), name, value)
            assert results_follow(jitted, function, leaf(1.0), change)


def test_an_attribute_may_come_later():
    module: Any = types.ModuleType("late")

    def helper(x):
        return x

    def of_module(x):
        return x * getattr(module, "late", 1.0)

    def of_function(x):
        return x * getattr(helper, "late", 1.0)

    for function, owner in ((of_module, module), (of_function, helper)):
        assert results_follow(ag.jit(function), function, leaf(1.0), functools.partial(setattr, owner, "late", 3.0))


def test_a_function_may_get_other_code():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    def function(x):
        return helper(x)

    assert results_follow(ag.jit(function), function, leaf(1.0), lambda: setattr(helper, "__code__", other.__code__))

    jitted = ag.jit(helper)
    assert results_follow(jitted, helper, leaf(1.0), lambda: setattr(helper, "__code__", (lambda x: x * 5).__code__))


def test_what_stays_eager_because_what_it_reads_is_not_known():
    @functools.lru_cache
    def settings():
        return types.SimpleNamespace(number=2.0)

    def in_thread(x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: x * RATE).result()

    polynomial = np.poly1d([1.0, 2.0])
    for function in (
        lambda x: x * settings().number,
        in_thread,
        lambda x: x * polynomial(1.0),
        lambda x: x * importlib.import_module("math").pi,
        lambda x: x * (x._version + 1),
    ):
        jitted = ag.jit(function)
        for _ in range(6):
            jitted(leaf(1.0))
        assert jitted.counts["replayed"] == 0


def test_floating_point_errors_of_the_caller():
    def function(x):
        with np.errstate(divide="raise"):
            try:
                return 1 / x
            except FloatingPointError:
                return x * 0

    jitted = ag.jit(function)
    with np.errstate(divide="raise"):
        for _ in range(6):
            jitted(np.ones(2))

    assert jitted(np.array([0.0, 1.0])).tolist() == [0.0, 0.0]


def test_a_global_that_the_backward_alone_reads():
    factors = [2.0]

    class Scaled(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * factors[0]

    jitted = ag.jit(lambda x: Scaled.apply(x).sum())
    for call in range(8):
        x = leaf(1.0)
        value = jitted(x)
        factors[0] = float(call)
        ag.sync.backward(value)
        assert x.grad.item() == call


def test_zeros_whose_shape_is_an_argument():
    jitted = ag.jit(lambda x, sizes: np.zeros_like(x, shape=(sizes.max(),)))

    for size in (2, 2, 2, 2, 2, 2, 4, 2):
        assert jitted(np.ones(3), np.array([size, 1])).shape == (size,)


@pytest.mark.parametrize("other", [[1.0, 2.0], (1.0, 2.0), None, "a"])
def test_a_comparison_with_what_is_no_array(other):
    jitted = ag.jit(lambda x: x == other)

    for _ in range(6):
        assert repr(jitted(np.array([1.0, 3.0]))) == repr(np.array([1.0, 3.0]) == other)


def test_a_power_of_numbers_of_numpys():
    number = np.float64(3.1)
    jitted = ag.jit(lambda x: number ** x.sum())

    for value in np.linspace(0.0, 9.0, 20):
        assert jitted(np.array([value])) == number**value


def test_a_leaf_that_it_makes_and_a_hook_that_it_adds():
    def makes(x):
        made = (x * 2).detach()
        made.requires_grad_()
        return made

    jitted = ag.jit(makes)
    for _ in range(6):
        made = jitted(leaf(1.0))
        ag.sync.backward(made.sum())
        assert made.grad.item() == 1.0

    def hooks(x):
        x.register_hook(lambda grad: grad * 2)
        return (x * 3).sum()

    jitted, found = ag.jit(hooks), []
    for function in (hooks, jitted):
        x = leaf(1.0)
        for _ in range(6):
            x.grad = None
            ag.sync.backward(function(x))
            found.append(x.grad.item())
    assert found[:6] == found[6:]


def test_containers_that_are_returned_are_those_of_the_function():
    given, log = {"x": np.ones(2)}, ["a"]
    for function in (lambda d: d, lambda d: (d["x"] * 2, log)):
        jitted = ag.jit(function)
        for _ in range(6):
            found = jitted(given)
        assert found is given or found[1] is log

    @ag.jit
    def twice(x):
        both = [x * 2]
        return both, both

    for _ in range(6):
        one, other = twice(np.ones(2))
        assert one is other


def test_static_attributes_of_a_result_are_made_anew():
    jitted = ag.jit(lambda x: Held(x * 2, []))
    for call in range(6):
        found = jitted(np.ones(2))
        found.kept.append(call)
        assert found.kept == [call]


def test_a_recomputation_finds_out_that_a_global_has_changed():
    factors = [2.0]
    jitted = ag.jit(lambda x: (x * x * factors[0]).sum(), verify=0)
    for _ in range(3):
        x = leaf(0.0)
        value = jitted(x)
    (grad,) = ag.sync.grad(value, [x], create_graph=True)
    factors[0] = 3.0

    with pytest.raises(ag.errors.ChangedTensorError, match="besides its arguments has changed since the call"):
        ag.sync.grad(grad.sum(), [x])


def test_long_doubles_are_compared_by_their_values():
    x = ag.tensor(np.array([1.1, np.nan], np.longdouble), requires_grad=True)
    jitted = ag.jit(lambda x: x * x)
    for _ in range(6):
        value = jitted(x)
    (grad,) = ag.sync.grad(value.sum(), [x], create_graph=True)

    assert jitted.counts["replayed"] == 2
    assert grad.dtype == np.longdouble


def test_a_constant_that_many_programs_keep_is_no_reason_to_refuse_another(monkeypatch):
    monkeypatch.setattr("asyncgrad.tracing.outside._MOST_PARTS", 2)

    kept = [
        compiled(lambda x, number=number: np.sum(nn.sigmoid(x) * number), leaf(-1.0, 0.5, 2.0), backend="table")
        for number in range(4)
    ]

    assert [jitted.counts["replayed"] for jitted in kept] == [1] * 4
