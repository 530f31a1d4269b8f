"""A compiled function gives the bits of the function, and its results hang on one node of an ordinary graph."""

from __future__ import annotations

import asyncio
import copy
import gc
import io
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.graph.cost import LARGE
from asyncgrad.core.recording import handwritten_node
from asyncgrad.errors import ChangedTensorError, ReleasedGraphError
from asyncgrad.tracing.table import Table
from tests.support.failing import Trouble, raising
from tests.support.leaves import leaf, leaf_of, random_leaf
from tests.support.settings import node_by_node
from tests.tracing.running import bits, compiled, grads_of, same


def loss(w, b, x):
    hidden = np.tanh(x @ w + b)
    return (hidden * hidden).sum()


def arguments(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in ((3, 4), (4,), (5, 3))]


def test_values_and_gradients_have_the_bits_of_the_function_on_other_numbers():
    jitted = compiled(loss, *map(ag.tensor, arguments(0)))

    for seed in range(1, 5):
        assert same(loss, jitted, arguments(seed))


def test_the_first_runs_of_a_program_are_compared_with_the_function():
    jitted = ag.jit(loss)
    for seed in range(6):
        assert same(loss, jitted, arguments(seed))

    assert dict(jitted.counts) == {
        "calls": 6,
        "eager: not traced yet": 2,
        "traces": 1,
        "verified": 2,
        "eager: compared with its program": 2,
        "replayed": 2,
    }


def test_what_a_call_returns_is_its_own():
    jitted = compiled(lambda x: x * 2, leaf(1.0, 2.0))

    first = jitted(leaf(1.0, 2.0))
    second = jitted(leaf(3.0, 4.0))

    assert (first.tolist(), second.tolist()) == ([2.0, 4.0], [6.0, 8.0])


def test_trees_of_results_keep_their_structure_their_constants_and_what_is_an_argument():
    def function(x):
        doubled = x * 2
        return {"twice": doubled, "again": doubled, "given": x, "name": "a", "array": np.ones(2)}

    x = leaf(1.0)
    found = compiled(function, x)(x)

    assert found["twice"] is found["again"]
    assert found["given"] is x
    assert found["name"] == "a"
    assert found["array"].tolist() == [1.0, 1.0]


async def test_its_backward_is_awaited_as_any_other():
    w, b, x = (ag.tensor(array, requires_grad=True) for array in arguments(1))
    jitted = compiled(loss, w, b, x)

    await jitted(w, b, x).backward()

    assert [bits(one.grad) for one in (w, b, x)] == grads_of(loss, arguments(1))[1]


def test_results_hang_on_one_node():
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: np.sin(x * 2).sum(), x)(x)

    assert y.grad_fn.name == "ReplayBackward"
    assert [node and node.name for node in y.grad_fn.next_nodes if node] == ["AccumulateGrad"]


def test_a_graph_that_is_kept_runs_again():
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: np.exp(x).sum(), x)(x)

    sync.backward(y, retain_graph=True)
    sync.backward(y)

    assert np.array_equal(x.grad.numpy(), 2 * np.exp([1.0, 2.0]))
    with pytest.raises(ReleasedGraphError):
        sync.backward(y)


def test_a_backward_whose_program_writes_into_what_the_forward_has_left_runs_again_too():
    def function(x):
        y = x * 1
        y[0] = y[0] * y[1]
        y *= y
        return y.sum()

    x, other = leaf(2.0, 3.0), leaf(2.0, 3.0)
    y, expected = compiled(function, x)(x), function(other)
    for root in (y, expected):
        sync.backward(root, retain_graph=True)
        sync.backward(root)

    assert bits(x.grad) == bits(other.grad)


def test_second_derivatives_are_those_of_the_function():
    jitted = compiled(lambda x: (x**3).sum(), leaf(1.0, 2.0))

    found = sync.func.grad(lambda x: sync.func.grad(jitted)(x).sum())(np.array([1.0, 2.0]))

    assert found.tolist() == [6.0, 12.0]


LYING: list[Any] = [
    lambda x: np.flip(x) * 1,
    lambda x: np.pad(x, 1),
    lambda x: np.cumsum(x, axis=0),
    lambda x: x.T * 1,
    np.sum,
]


@pytest.mark.parametrize("function", LYING)
def test_a_gradient_lies_in_memory_as_that_of_the_function_does(function):
    def gradients(called: Callable[..., Any]) -> Any:
        leaves = [ag.tensor(np.ones((3, 4)), requires_grad=True) for _ in range(2)]
        value = called(*leaves) * 2
        given = np.arange(value.size, dtype=float).reshape(value.shape)
        found = [*sync.grad(value, leaves, [given], retain_graph=True), *sync.grad(value, leaves[:1], [given])]
        return [(bits(one), one.strides) for one in found]

    jitted = compiled(lambda x, y: function(x + y), *[ag.tensor(np.ones((3, 4)), requires_grad=True) for _ in range(2)])
    assert gradients(jitted) == gradients(lambda x, y: function(x + y))


def test_only_the_gradients_that_are_asked_for_arrive():
    w, b, x = (ag.tensor(array, requires_grad=True) for array in arguments(1))

    (found,) = sync.grad(compiled(loss, w, b, x)(w, b, x), [b])

    assert bits(found) == grads_of(loss, arguments(1))[1][1]
    assert w.grad is b.grad is x.grad is None


def test_hooks_of_arguments_and_results_are_called():
    seen = []
    x = leaf(3.0)
    x.register_hook(lambda g: seen.append(("x", g.item())))
    jitted = compiled(lambda x: x * x, x)
    y = jitted(x)
    y.register_hook(lambda g: seen.append(("y", g.item())))

    sync.backward(y)

    assert seen == [("y", 1.0), ("x", 6.0)]


def test_an_argument_that_was_computed_passes_its_gradient_on():
    x = leaf(2.0)
    jitted = compiled(lambda y: y * y, x * 3)

    sync.backward(jitted(x * 3))

    assert x.grad.item() == 36.0


def test_an_argument_that_the_backward_reads_may_not_be_written_into_before_it():
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: (x * x).sum(), x)(x)
    with ag.no_grad():
        x += 1.0

    with pytest.raises(ChangedTensorError):
        sync.backward(y)


def test_an_argument_that_the_backward_does_not_read_may_be_written_into():
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: (x * 3.0).sum(), x)(x)
    with ag.no_grad():
        x += 1.0

    sync.backward(y)

    assert x.grad.tolist() == [3.0, 3.0]


def test_one_of_several_results_may_be_differentiated():
    def function(x):
        return (x * x).sum(), x * 3.0

    x, other = leaf(1.0, 2.0), leaf(1.0, 2.0)
    jitted = compiled(function, x)
    for index in (0, 1):
        sync.backward(jitted(x)[index], np.ones(jitted(x)[index].shape))
        sync.backward(function(other)[index], np.ones(function(other)[index].shape))

    assert bits(x.grad) == bits(other.grad)


def test_under_no_grad_there_is_no_graph():
    x = leaf(1.0, 2.0)
    with ag.no_grad():
        y = compiled(lambda x: x * 2, x)(x)

    assert not y.requires_grad
    assert y.grad_fn is None


def test_calls_in_flight_have_memory_of_their_own():
    jitted = compiled(lambda x: np.exp(np.sin(x)).sum(), leaf(1.0))
    leaves = [leaf(float(number)) for number in range(20)]
    roots = [jitted(x) for x in leaves]

    for root in reversed(roots):
        sync.backward(root)

    assert [bits(x.grad) for x in leaves] == [
        grads_of(lambda x: np.exp(np.sin(x)).sum(), [np.array([float(number)])])[1][0] for number in range(20)
    ]


def test_threads_may_call_it_at_once(threads_switch_often):
    jitted = compiled(loss, *map(ag.tensor, arguments(0)))
    wrong = []

    def work(first):
        wrong.extend(seed for seed in range(first, first + 10) if not same(loss, jitted, arguments(seed)))

    threads = [threading.Thread(target=work, args=(10 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


@pytest.fixture
def threads(monkeypatch) -> list[int]:
    """Which thread has run each backward by a program, in a process that has met no large arrays."""
    found: list[int] = []
    run = Table.run_backward
    monkeypatch.setattr(handwritten_node, "large_arrays_met", [False])
    monkeypatch.setattr(Table, "run_backward", lambda *args: found.append(threading.get_ident()) or run(*args))
    return found


@pytest.mark.parametrize(("seconds", "is_elsewhere"), [(0.0, True), (10.0, False)])
async def test_a_worker_runs_a_backward_that_is_expected_to_be_long(threads, seconds, is_elsewhere):
    x = leaf_of(np.ones(LARGE))
    jitted = compiled(lambda x: (x * x).sum(), x)

    with ag.offload_threshold(seconds):
        await jitted(x).backward()

    assert [one != threading.get_ident() for one in threads] == [is_elsewhere]


async def test_a_worker_runs_a_backward_of_little_that_has_kept_its_thread_for_long(threads):
    jitted = compiled(lambda x: (x * x).sum(), leaf(1.0))

    with ag.offload_threshold(0.0), ag.loop_budget(0.0), node_by_node():
        for _ in range(2):
            await jitted(leaf(1.0)).backward()

    assert [one != threading.get_ident() for one in threads] == [False, True]


async def test_tasks_may_call_it_at_once():
    jitted = compiled(loss, *map(ag.tensor, arguments(0)))

    async def gradients(seed):
        tensors = [ag.tensor(array, requires_grad=True) for array in arguments(seed)]
        return [bits(one) for one in await ag.grad(jitted(*tensors), tensors)]

    found = await asyncio.gather(*map(gradients, range(10)))

    assert found == [grads_of(loss, arguments(seed))[1] for seed in range(10)]


def test_a_cancelled_or_failed_backward_leaves_no_gradient():
    x, z = leaf(1.0), leaf(1.0)

    def fail(grad):
        raise ValueError("no")

    z.register_hook(fail)
    root = compiled(lambda x: x * x, x)(x) + z

    with pytest.raises(ValueError, match="no"):
        sync.backward(root)
    assert x.grad is None


def test_value_and_grad_of_it_is_that_of_the_function():
    jitted = compiled(loss, *[ag.tensor(array, requires_grad=index == 0) for index, array in enumerate(arguments(0))])
    found = [sync.value_and_grad(one)(*arguments(1)) for one in (jitted, jitted, jitted, loss)]

    assert all((bits(value), bits(gradient)) == tuple(map(bits, found[-1])) for value, gradient in found)


def test_a_module_is_an_argument_whose_parameters_get_their_gradients():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = np.random.default_rng(0).standard_normal((5, 3))

    def function(model, x):
        return (model(x) ** 2).mean()

    jitted = compiled(function, model, x)
    sync.backward(jitted(model, x))
    found = [bits(one.grad) for one in model.parameters()]
    for one in model.parameters():
        one.grad = None
    sync.backward(function(model, x))

    assert found == [bits(one.grad) for one in model.parameters()]


def test_a_method_is_compiled_for_its_instance():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        @ag.jit
        def apply(self, x):
            return x * self.factor

    two, three = Scaled(2.0), Scaled(3.0)
    for _ in range(5):
        assert (two.apply(leaf(1.0)).tolist(), three.apply(leaf(1.0)).tolist()) == ([2.0], [3.0])
    two.factor = 5.0

    assert two.apply(leaf(1.0)).tolist() == [5.0]


def test_one_compiled_function_is_part_of_another():
    inner = ag.jit(lambda x: np.sin(x) * 2, verify=0)
    outer = compiled(lambda x: inner(x).sum(), leaf(1.0, 2.0))

    assert same(lambda x: (np.sin(x) * 2).sum(), outer, [np.array([0.5, 0.25])])


def test_one_tensor_in_two_places_gets_the_sum_that_the_function_gives_it():
    def function(a, b):
        return (a * 1.1 + np.exp(b) * 0.7 + a * 0.3).sum()

    jitted = ag.jit(function)
    for seed in range(6):
        x, other = (ag.tensor(np.random.default_rng(seed).standard_normal(50), requires_grad=True) for _ in range(2))
        sync.backward(jitted(x, x))
        sync.backward(function(other, other))
        assert bits(x.grad) == bits(other.grad)
    assert jitted.counts["replayed"] == 2


def test_a_module_with_a_layer_in_two_places_gets_the_gradients_that_the_function_gives_it():
    layer = nn.Linear(3, 3)
    model = nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer)
    x = np.linspace(0, 1, 6).reshape(2, 3)
    jitted = compiled(lambda model, x: model(x).sum(), model, x)
    found = []
    for function in (jitted, jitted.function):
        for one in model.parameters():
            one.grad = None
        sync.backward(function(model, x))
        found.append([bits(one.grad) for one in model.parameters()])

    assert found[0] == found[1]


def test_a_backward_that_runs_the_function_again_finds_out_that_it_reads_something_else():
    factors = [2.0]
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: (x**3 * factors[0]).sum(), x)(x)
    (grad,) = sync.grad(y, [x], create_graph=True)
    factors[0] = 5.0

    with pytest.raises(ChangedTensorError, match="besides its arguments has changed since the call"):
        sync.grad(grad.sum(), [x])


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: (np.tanh(x @ w) ** 3).sum(),
        lambda w, x: np.exp(w * x[0, 0]).mean() * x.sum(),
        lambda w, x: (x @ w, (w * w).sum()),
        lambda w, x: np.where(w > 0, w**3, np.sin(w)).sum() + 0 * x.sum(),
        lambda w, x: x @ w,
    ],
    ids=range(5),
)
def test_derivatives_of_any_order_are_those_of_the_function(function):
    def orders(run):
        w, x = leaf(*np.linspace(-1, 1, 6)), leaf(*np.linspace(0.5, 1, 6))
        given = w.reshape(3, 2), x.reshape(2, 3)
        results = run(*given)
        results = results if isinstance(results, tuple) else (results,)
        seed = [ag.tensor(np.full(one.shape, 0.5), requires_grad=True) for one in results]
        found = []
        values, inputs = list(results), [w, x, *seed]
        grads = seed
        for _ in range(3):
            first = sync.grad(values, inputs, grads, create_graph=True, allow_unused=True)
            found += [None if one is None else one.tolist() for one in first]
            values = [(one * (index + 1.5)).sum() for index, one in enumerate(first) if one is not None]
            values, grads = [one for one in values if one.requires_grad], None
        return found

    given = [ag.tensor(np.ones(6), requires_grad=True).reshape(shape) for shape in ((3, 2), (2, 3))]
    jitted = compiled(function, *given)

    for mine, theirs in zip(orders(jitted), orders(function), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-13)
    assert jitted.counts["replayed"] > 1


def test_a_gradient_that_is_recorded_and_not_differentiated_runs_the_function_again_once_for_all():
    ran = io.StringIO()

    def function(x):
        ran.write("x")
        return (x**3).sum()

    x = leaf(1.0, 2.0)
    jitted = compiled(function, x)
    # It tells which gradients require grad.
    sync.grad(jitted(x), [x], create_graph=True)
    before = ran.tell()
    (grad,) = sync.grad(jitted(x), [x], create_graph=True)

    assert grad.tolist() == [3.0, 12.0]
    assert ran.tell() == before
    assert sync.grad(grad.sum(), [x])[0].tolist() == [6.0, 12.0]
    assert ran.tell() == before + 1


def test_gradcheck_and_gradgradcheck_of_a_compiled_function_pass():
    x = leaf(0.3, 0.7, -0.2)
    jitted = compiled(lambda x: np.exp(x) * np.tanh(x), x)

    assert sync.gradcheck(jitted, [x])
    assert sync.gradgradcheck(jitted, [x])


def test_results_of_one_call_have_backwards_of_their_own():
    x = leaf(1.0, 2.0)
    y, z = compiled(lambda x: ((x * x).sum(), np.tanh(x) * 3), x)(x)

    sync.backward(y)
    sync.backward(z.sum())

    assert np.allclose(x.grad.numpy(), 2 * np.array([1.0, 2.0]) + 3 / np.cosh([1.0, 2.0]) ** 2)


def test_a_compiled_function_is_copied_and_pickled_as_a_function_is():
    jitted = ag.jit(loss)

    assert copy.deepcopy({"loss": jitted})["loss"] is copy.copy(jitted) is jitted


def test_numpys_warnings_are_those_of_the_function():
    jitted = compiled(lambda x: np.log(x).sum(), leaf(1.0))

    with pytest.warns(RuntimeWarning, match="divide by zero"):
        jitted(leaf(0.0))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        jitted(leaf(0.0))


def _under_its_own_errstate(x):
    with np.errstate(all="warn"):
        y = 1.0 / x
    return (y * 2.0 + 1.0).sum()


@pytest.mark.parametrize("function", [lambda x: np.log(x).sum(), _under_its_own_errstate])
def test_a_call_that_is_traced_or_compared_warns_as_often_as_the_function(function):
    def warned(fn: Any) -> list[str]:
        with pytest.warns(RuntimeWarning) as found:
            ag.sync.backward(fn(leaf(0.0)))
        return [str(one.message) for one in found]

    filters = warnings.filters[:]
    jitted = ag.jit(function)
    expected = warned(function)

    assert [warned(jitted) for _ in range(5)] == 5 * [expected]
    assert jitted.counts["replayed"] == 1
    assert warnings.filters == filters


def test_a_compiled_function_within_another_has_no_program_for_the_runs_that_compare_that():
    inner = ag.jit(np.sin)
    outer: Any = ag.jit(lambda x: inner(x).sum())
    for _ in range(6):
        outer(leaf(1.0))

    assert inner.counts["traces"] == 1
    assert outer.counts["replayed"] == 2


def _under_two_errstates(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        quiet = np.log(x) * np.sqrt(x)
    loud = np.reciprocal(x)
    with np.errstate(divide="raise"):
        return (quiet + loud).sum() + np.log(x + 1).sum()


@pytest.mark.parametrize("backend", ["table", "auto"])
def test_each_step_runs_under_the_errstate_that_the_function_gives_it(backend):
    jitted = compiled(_under_two_errstates, leaf(1.0), backend=backend)

    with pytest.warns(RuntimeWarning) as told:
        jitted(leaf(0.0))
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError):
        jitted(leaf(-1.0))

    assert [str(one.message) for one in told] == ["divide by zero encountered in reciprocal"]
    assert jitted.counts["replayed"] > 1


def test_a_graph_that_is_dropped_gives_its_memory_back(no_collector):
    jitted = compiled(lambda x: np.exp(x).sum(), leaf(1.0))
    y = jitted(leaf(1.0))
    node = weakref.ref(y.grad_fn)

    del y

    assert node() is None


def test_many_calls_take_no_more_memory_than_one():
    # Not by "auto", whose kernels may come meanwhile, and stay.
    jitted = compiled(lambda x: np.exp(x).sum(), leaf(1.0), backend="table")

    def objects_after(calls: int) -> int:
        for _ in range(calls):
            sync.backward(jitted(leaf(1.0)))
        gc.collect()
        return len(gc.get_objects())

    # The first ones make what is made once, as for a backward that is compiled.
    before = objects_after(5)

    assert objects_after(200) <= before + 20


def test_a_compiled_call_whose_backward_failed_is_tried_again_with_the_bits_of_a_clean_run():
    jitted = compiled(loss, *map(ag.tensor, arguments(0)))
    clean, again = ([leaf_of(one) for one in arguments(1)] for _ in range(2))
    sync.backward(loss(*clean))
    result = jitted(*again)
    with again[1].register_hook(raising(Trouble("once"))):
        for _ in range(3):
            with pytest.raises(Trouble):
                sync.backward(result, retain_graph="until_success")
    sync.backward(result, retain_graph="until_success")

    assert [bits(one.grad) for one in again] == [bits(one.grad) for one in clean]
    with pytest.raises(ReleasedGraphError):
        sync.backward(result)


def test_an_argument_on_which_no_result_depends_has_no_edge():
    def function(w: Any, unused: Any) -> Any:
        return (w * w).sum()

    def seen_by_hook(function: Any) -> list[Any]:
        w, unused = (ag.tensor([0.5, -0.25], requires_grad=True) for _ in range(2))
        found: list[Any] = []
        loss = function(w, unused)
        loss.register_hook(found.append)
        sync.backward(loss, inputs=[unused])
        return [len(found), unused.grad, w.grad]

    jitted = ag.jit(function)

    assert [seen_by_hook(jitted) for _ in range(6)] == [seen_by_hook(function)] * 6
    assert jitted.counts["replayed"] == 2


def test_the_graph_behind_an_argument_is_let_go_with_that_of_the_call(no_collector):
    x = leaf(3.0)
    jitted = compiled(lambda y: np.exp(y).sum(), x * 2)
    y = x * 2
    node = weakref.ref(y.grad_fn)
    sync.backward(jitted(y))

    del y

    assert node() is None


def test_a_hook_of_the_node_of_a_leaf_goes_with_the_graph():
    seen = []
    x = leaf(3.0)
    jitted = compiled(lambda x: (x * x).sum(), x)
    y = jitted(x)
    y.grad_fn.next_nodes[0].register_prehook(lambda grads: seen.append(grads[0].item()))

    sync.backward(y)
    del y
    sync.backward((x * 5.0).sum())
    sync.backward(jitted(x))

    assert seen == [6.0]


@pytest.mark.parametrize("inputs", [None, [0, 1], [1]], ids=["all", "two", "one"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["once", "twice"])
def test_gradients_that_are_passed_on_together_have_the_bits_of_those_passed_on_one_by_one(inputs, is_kept):
    # Two leaves with one gradient, one whose gradient is a view, and one that has none.
    def function(a, b, c, unused):
        return ((a + b) * c.reshape(2, 3).T).sum()

    shapes = (3, 2), (3, 2), (6,), (2,)

    def grads_by(call, is_long):
        leaves = [random_leaf(*shape, seed=number) for number, shape in enumerate(shapes)]
        y = call(*leaves)
        if is_long:
            y.grad_fn.checks_always = y.grad_fn._lease.variant.may_be_long = True
        wanted = None if inputs is None else [leaves[one] for one in inputs]
        for _ in range(1 + is_kept):
            sync.backward(y, retain_graph=is_kept, inputs=wanted)
        found = [one.grad for one in leaves if one.grad is not None]
        assert len({one.numpy().ctypes.data for one in found}) == len(found)
        return [bits(one.grad) for one in leaves]

    jitted = compiled(function, *[random_leaf(*shape) for shape in shapes])

    assert grads_by(jitted, True) == grads_by(function, False)


def test_a_hook_that_a_leaf_gets_before_a_long_backward_is_called():
    seen = []
    w, x = leaf(2.0), leaf(3.0)
    y = compiled(lambda w, x: (w * x).sum(), w, x)(w, x)
    y.grad_fn.checks_always = y.grad_fn._lease.variant.may_be_long = True
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.item()))

    sync.backward(y)

    assert (seen, w.grad.item()) == ([2.0], 3.0)
