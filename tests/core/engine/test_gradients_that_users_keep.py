"""What users' code keeps of a backward is its own: whatever it writes there changes no gradient of the backward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays import ownership
from asyncgrad.core.engine.body import Body
from asyncgrad.extend import Edge, Node, derivative, primitive
from asyncgrad.graph import GradientEdge
from tests.core.engine.hooking import as_kind, backward, both_drives, every_kind, grad, register
from tests.support.functions import awaiting, calling
from tests.support.graphs import edge_to, node_of
from tests.support.leaves import leaf
from tests.support.loops import on_each_loop
from tests.support.settings import compiled_after
from tests.support.turns import one_turn, turns


def by_operator(kept: Any) -> None:
    kept *= 7.0


def by_array(kept: Any) -> None:
    array = kept.numpy()
    array *= 7.0


def by_part(kept: Any) -> None:
    kept[:1] *= 7.0


#: How a user writes into what it has kept.
WRITES: dict[str, Callable[[Any], None]] = {
    "operator": by_operator,
    "array": by_array,
    "part": by_part,
    "item": lambda kept: kept.__setitem__(0, 70.0),
    "asarray": lambda kept: np.copyto(np.asarray(kept), 70.0),
}
each_write = pytest.mark.parametrize("write", WRITES)


def writer(write: str, kept: list[Any], kind: str) -> Callable[[Any], Any]:
    """Return a hook that writes into all that is kept; after those that suspend."""

    def hook(grad: Any) -> None:
        for one in kept:
            WRITES[write](one)

    async def waiting(grad: Any) -> None:
        await turns(5)
        hook(grad)

    return hook if kind in ("function", "async def") else waiting


#: Where a hook may be that keeps a gradient.
PLACES = [
    "tensor hook",
    "pre-hook",
    "post-hook",
    "gradients of a post-hook",
    "all gradients",
    "any gradient",
    "leaf's tensor hook",
    "leaf's pre-hook",
    "leaf's post-hook",
]


def put(where: str, tensor: Any, below: Any, keep: Callable[[Any], None], kind: str) -> Any:
    """Have `keep` called with the gradient of a tensor, or with that of the leaf below it."""
    if where == "all gradients":
        return ag.graph.register_multi_grad_hook([tensor], as_kind(kind, lambda grads: keep(grads[0])))
    if where == "any gradient":
        return ag.graph.register_multi_grad_hook([tensor], as_kind(kind, keep), mode="any")
    if where == "gradients of a post-hook":
        return register("post-hook", tensor, as_kind(kind, lambda outputs, grads: keep(grads[0])))
    if where == "leaf's post-hook":
        return register("post-hook", below, as_kind(kind, lambda outputs, grads: keep(grads[0])))
    place, hooked = (where[7:], below) if where.startswith("leaf's") else (where, tensor)
    return register(
        place, hooked, as_kind(kind, lambda given, *_: keep(given[0] if isinstance(given, tuple) else given))
    )


@every_kind
@both_drives
@each_write
@pytest.mark.sampled("where", "write")
@pytest.mark.parametrize("where", PLACES)
async def test_what_a_hook_keeps_and_another_writes_into_changes_no_gradient(where, write, drive, kind):
    a, b, kept = leaf(1.0, 2.0), leaf(3.0, 4.0), list[Any]()
    node = node_of(a), node_of(b)
    first, second = a * 1.0, b * 1.0
    # Both get one array. The newer node runs first.
    total = (first + second) * 3.0
    put(where, second, b, kept.append, kind)
    first.register_hook(writer(write, kept, kind))

    await backward(drive, total, np.array([6.0, 12.0]))

    assert node
    assert kept
    assert (a.grad.tolist(), b.grad.tolist()) == ([18.0, 36.0], [18.0, 36.0])


@every_kind
@both_drives
@each_write
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
@pytest.mark.sampled("where", "write")
async def test_what_a_hook_writes_at_once_is_as_if_it_returned_it_and_changes_no_other_gradient(
    where, write, drive, kind
):
    async def value_of(hook: Callable[[Any], Any]) -> Any:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        first, second = np.positive(a), np.positive(b)

        def on(given: Any, *_: Any) -> Any:
            result = hook(given[0] if isinstance(given, tuple) else given)
            return (result,) if result is not None and isinstance(given, tuple) else result

        register(where, second, as_kind(kind, on))
        await backward(drive, (first + second) * 3.0, np.array([6.0, 12.0]))
        return a.grad.tolist(), b.grad.tolist()

    def returned(grad: Any) -> Any:
        copy = grad.copy()
        WRITES[write](copy)
        return copy

    found = await value_of(lambda grad: WRITES[write](grad))

    assert found == await value_of(returned)
    assert found[0] == [18.0, 36.0]


class Keeping(Node):
    """A node of the user's, whose body is given to it."""

    def __init__(self, tensor: Any, body: Callable[[Any], Any]) -> None:
        super().__init__([Edge(*edge_to(tensor))], [edge_to(tensor).node.input_metadata[0]])
        self.body = body

    def apply(self, grads: Any) -> Any:
        return (self.body(ag.asarray(grads[0])),)


class Awaited(Keeping):
    """The same, with a body that waits."""

    async def apply(self, grads: Any) -> Any:
        await one_turn()
        return (self.body(ag.asarray(grads[0])),)


async def waited(body: Callable[[Any], Any], grad: Any) -> Any:
    await one_turn()
    return body(grad)


#: A tensor, or an edge, behind a body of the user's.
BODIES: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "Function": lambda tensor, body: calling(tensor, body),
    "async Function": lambda tensor, body: awaiting(tensor, lambda grad: waited(body, grad)),
    "Node": lambda tensor, body: through(Keeping(tensor, body), tensor),
    "async Node": lambda tensor, body: through(Awaited(tensor, body), tensor),
}
each_body = pytest.mark.parametrize("body", BODIES)


def through(node: Node, tensor: Any) -> Any:
    """A copy of a tensor whose gradient flows through a node."""
    copy = tensor.detach().copy()
    ag.graph.set_gradient_edge(copy, GradientEdge(node, 0))
    return copy


@each_body
@both_drives
@each_write
@pytest.mark.parametrize("gives", ["its own", "another", "a view"])
@pytest.mark.parametrize("compiled", [None, 0], ids=["engine", "compiled"])
@pytest.mark.sampled("body", "gives")
async def test_what_a_body_keeps_and_a_hook_writes_into_changes_no_gradient(body, write, drive, gives, compiled, cache):
    def rule(grad: Any) -> Any:
        result = {"its own": lambda: grad, "another": lambda: grad * 1.0, "a view": lambda: grad[:]}[gives]()
        kept.extend([grad, result])
        return result

    for _ in range(2):
        a, b, kept = leaf(1.0, 2.0), leaf(3.0, 4.0), list[Any]()
        first, second = a * 1.0, BODIES[body](b * 1.0, rule)
        first.register_hook(writer(write, kept, "suspending" if body.startswith("async") else "function"))
        with compiled_after(compiled):
            await backward(drive, (first + second) * 3.0, np.array([6.0, 12.0]))

        assert (a.grad.tolist(), b.grad.tolist()) == ([18.0, 36.0], [18.0, 36.0])


@each_body
@each_write
@pytest.mark.sampled("body")
async def test_a_body_that_writes_into_its_gradient_changes_no_other(body, write):
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = a * 1.0, BODIES[body](b * 1.0, lambda grad: WRITES[write](grad) or grad)

    await ag.backward((first + second) * 3.0, np.array([6.0, 12.0]))

    assert a.grad.tolist() == [18.0, 36.0]


scratch = np.zeros(2)


def filled_anew(grad: Any) -> Any:
    """The double of a gradient, in one array for all calls."""
    np.multiply(np.asarray(grad), 2.0, out=scratch)
    return scratch


@primitive()
def doubled(x: Any) -> Any:
    return x * 2.0


@derivative(doubled, "x")
def _(g: Any) -> Any:
    return filled_anew(g)


def hooked(tensor: Any, where: str) -> Any:
    """A copy of a tensor, with a hook that returns an array which it fills anew."""
    made = np.positive(tensor)
    register(where, made, lambda grads, *_: filled_anew(grads) if where == "tensor hook" else (filled_anew(grads[0]),))
    return made


@both_drives
@pytest.mark.sampled("rule")
@pytest.mark.parametrize("rule", [*BODIES, "primitive", "tensor hook", "pre-hook", "post-hook"])
@pytest.mark.parametrize("compiled", [None, 0], ids=["engine", "compiled"])
async def test_an_array_that_a_rule_fills_anew_keeps_its_value_where_it_was_returned(rule, drive, compiled, cache):
    def behind(tensor: Any) -> Any:
        if rule == "primitive":
            return doubled(tensor)
        return BODIES[rule](tensor, filled_anew) if rule in BODIES else hooked(tensor, rule)

    for _ in range(2):
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        # Both rules run before either of the nodes below them.
        early, late = np.negative(a), np.negative(b)
        first, second = behind(early), behind(late)
        with compiled_after(compiled):
            await backward(drive, first * 3.0 + second * 5.0, np.ones(2))

        assert (a.grad.tolist(), b.grad.tolist()) == ([-6.0, -6.0], [-10.0, -10.0])


@pytest.mark.parametrize("kind", ["function", "async def"])
async def test_an_array_that_an_unpack_hook_fills_anew_keeps_its_value_where_it_was_returned(kind):
    stored: list[Any] = []

    def pack(tensor: Any) -> int:
        stored.append(tensor.numpy().copy())
        return len(stored) - 1

    def unpack(number: int) -> Any:
        scratch[...] = stored[number]
        return scratch

    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with ag.graph.saved_tensors_hooks(pack, as_kind(kind, unpack)):
        product = a * b
    await ag.backward(product, np.ones(2))

    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])


@each_write
@pytest.mark.parametrize("roots", [1, 2])
async def test_what_the_caller_writes_into_a_starting_gradient_changes_no_result(roots, write):
    a, b, start = leaf(1.0, 2.0), leaf(3.0, 4.0), ag.tensor([1.0, 1.0])
    first = a * 1.0
    second = awaiting(b * 1.0, one_turn)
    second.register_hook(lambda grad: WRITES[write](start))

    await ag.backward([first + second, second * 0.0][:roots], [start] * roots)

    assert (a.grad.tolist(), b.grad.tolist()) == ([1.0, 1.0], [1.0, 1.0])


@on_each_loop
@both_drives
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradients_that_grad_returns_are_the_callers(run, drive, create_graph):
    a, b, start = leaf(1.0, 2.0), leaf(3.0, 4.0), np.ones(2)
    middle = a + b
    asked = [a, b, middle]
    out = (middle + 0.0, start) if not create_graph else (middle, start)
    found = (
        run(ag.grad(out[0], asked, out[1], create_graph=create_graph))
        if drive == "awaited"
        else sync.grad(out[0], asked, out[1], create_graph=create_graph)
    )
    (of_sum,) = run(ag.grad(a.sum(), [a]))
    arrays = [one.numpy() for one in (*found, of_sum)]

    for number, array in enumerate(arrays):
        array[...] = float(number)

    assert [array.tolist() for array in arrays] == [[float(number)] * 2 for number in range(4)]
    assert start.tolist() == [1.0, 1.0]


def test_a_hook_that_writes_into_captured_gradients_changes_no_result():
    a = leaf(1.0, 2.0)
    middle = a * 3.0

    def write(grad: Any) -> None:
        for one in ag.engine.current_graph_task().captured_grads:
            if one is not None:
                by_operator(one)

    out = middle * 1.0
    middle.register_hook(write)

    assert [one.tolist() for one in sync.grad(out, [out, a], np.ones(2))] == [[1.0, 1.0], [3.0, 3.0]]


@pytest.mark.parametrize("mode", ["all", "any"])
@each_write
def test_what_a_multi_grad_hook_writes_is_its_own(mode, write):
    a = leaf(1.0, 2.0)
    middle = a * 3.0

    def hook(given: Any) -> None:
        WRITES[write](given[0] if mode == "all" else given)

    ag.graph.register_multi_grad_hook([middle], hook, mode=mode)
    sync.backward(middle, np.ones(2))

    assert a.grad.tolist() == [3.0, 3.0]


@each_write
def test_a_retained_gradient_with_a_history_may_be_written_into(write):
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = a * 1.0, b * 1.0
    second.retain_grad()

    def hook(grad: Any) -> None:
        with ag.no_grad():
            WRITES[write](second.grad)

    first.register_hook(hook)
    with pytest.warns(UserWarning, match="garbage"):
        sync.backward((first + second) * 3.0, np.ones(2), create_graph=True)

    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0, 3.0], [3.0, 3.0])


def test_a_gradient_that_a_hook_kept_with_a_history_can_still_be_differentiated():
    a, kept = leaf(1.0, 2.0), list[Any]()
    middle = a * a
    middle.register_hook(kept.append)
    (found,) = sync.grad(middle * middle, [a], np.ones(2), create_graph=True)

    # d(a^4) = 4 a^3; and what the hook kept is 2 a^2.
    assert sync.grad(found, [a], np.ones(2), retain_graph=True)[0].tolist() == [12.0, 48.0]
    assert sync.grad(kept[0], [a], np.ones(2))[0].tolist() == [4.0, 8.0]


def test_a_gradient_may_be_written_into_after_the_backward_by_an_optimizer_and_by_a_post_accumulate_hook():
    a = leaf(1.0, 2.0)
    a.register_post_accumulate_grad_hook(lambda one: by_operator(one.grad))
    sync.backward(a * 3.0, np.ones(2))
    a.grad *= 2.0

    assert a.grad.tolist() == [42.0, 42.0]


@each_write
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "Function", "Node"])
def test_the_gradient_of_a_sum_may_be_written_into(write, where):
    """It is a broadcast of one number."""
    x = leaf(1.0, 2.0)
    middle = x * 1.0
    if where in BODIES:
        middle = BODIES[where](middle, lambda grad: WRITES[write](grad) or grad)
    else:
        register(where, middle, lambda given: WRITES[write](given[0] if isinstance(given, tuple) else given))
    expected = ag.tensor([1.0, 1.0])
    WRITES[write](expected)

    sync.backward(middle.sum())

    assert x.grad.tolist() == expected.tolist()


@pytest.mark.parametrize(("keeps", "copies"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
def test_a_gradient_is_copied_only_if_a_hook_keeps_it(monkeypatch, where, keeps, copies):
    copied, kept = list[Any](), list[Any]()
    own_copy = ownership.own_copy
    monkeypatch.setattr(ownership, "own_copy", lambda array: copied.append(array.shape) or own_copy(array))
    a = leaf(*range(40))
    middle = np.sin(a)
    register(where, middle, lambda *given: kept.append(given) if keeps else None)
    sync.backward(np.cos(middle).sum())

    assert len(copied) == copies


@each_body
async def test_a_body_that_keeps_nothing_costs_no_copy(monkeypatch, body):
    copied = list[Any]()
    own_copy = ownership.own_copy
    monkeypatch.setattr(ownership, "own_copy", lambda array: copied.append(array.shape) or own_copy(array))
    behind = BODIES[body](np.sin(leaf(*range(40))), lambda grad: grad * 2.0)
    await ag.backward(np.cos(behind).sum())

    assert copied == []


async def test_a_task_that_a_hook_has_started_writes_into_what_is_its_own():
    a, tasks = leaf(1.0, 2.0), list[Any]()

    async def write(grad: Any) -> None:
        # An eager task begins within the hook, whose own writes count.
        await asyncio.sleep(0)
        grad *= 7.0

    async def hook(grad: Any) -> None:
        tasks.append(asyncio.ensure_future(write(grad)))

    middle = awaiting(a * 3.0, one_turn)
    middle.register_hook(hook)
    await ag.backward(middle * 1.0, np.ones(2))
    await asyncio.gather(*tasks)

    assert a.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("make", "expected"),
    {
        "its own": (lambda array: array.copy(), True),
        "a view of its own": (lambda array: array.copy()[1:], True),
        "a view of a view of its own": (lambda array: array.copy().reshape(2, 2)[1:].T, True),
        "a number": (lambda array: 3.0, True),
        "none": (lambda array: None, True),
        "read-only memory of another kind": (lambda array: np.frombuffer(b"12345678"), True),
        "another's": (lambda array: array, False),
        "a view of another's": (lambda array: array[1:], False),
        "memory of another kind": (lambda array: np.frombuffer(bytearray(8)), False),
        "a tensor of its own": (lambda array: ag.tensor(array), True),
        "a tensor on another's": (lambda array: ag.asarray(array), False),
    }.values(),
)
def test_a_gradient_is_private_if_nothing_else_refers_to_its_memory(make, expected):
    array = np.arange(4.0)

    assert ownership.is_private([make(array)], 0) is expected


@both_drives
async def test_a_gradient_that_grad_returns_is_copied_only_if_it_is_shared(monkeypatch, drive):
    copied = list[Any]()
    own_copy = ownership.own_copy
    monkeypatch.setattr(ownership, "own_copy", lambda array: copied.append(array.shape) or own_copy(array))
    x, y = leaf(*range(40)), leaf(*range(40))
    await grad(drive, np.sin(x * y).sum(), [x, y])
    assert copied == []
    await grad(drive, (np.sin(x) + np.sin(y) * 1.0).sum(), [x, y])
    assert copied == []
    await grad(drive, np.add(np.positive(x), y) * 2.0, [x, y], np.ones(40))
    # One of the two. What the caller gave is copied as the backward starts.
    assert len(copied) == 1


@both_drives
@pytest.mark.parametrize("count", [1, 3])
async def test_the_gradient_that_a_root_starts_from_is_copied_once(monkeypatch, drive, count):
    copied = list[Any]()
    own_copy = ownership.own_copy
    monkeypatch.setattr(ownership, "own_copy", lambda array: copied.append(array.shape) or own_copy(array))
    roots = [calling(leaf(*range(40)), lambda grad: grad * 2.0) for _ in range(count)]

    await backward(drive, roots, [np.ones(40)] * count)

    # What the caller gave, who may write into it; the rules get these copies.
    assert len(copied) == count


def test_what_a_body_on_a_worker_has_returned_is_private_when_it_ends():
    """Until the loop takes it, hooks run there that may write into what the body has kept."""
    kept: list[Any] = []
    made = calling(leaf(1.0, 2.0), lambda grad: kept.append(grad * 2.0) or kept[0])

    (found,) = Body(made.grad_fn, (np.ones(2),))()

    assert found.tolist() == [2.0, 2.0]
    assert not np.shares_memory(found.numpy(), kept[0].numpy())


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_are_views_of_each_other_are_told_apart(create_graph):
    x = leaf(1.0, 2.0)
    shaped = x.reshape(1, 2).reshape(2)
    of_x, of_shaped = sync.grad(shaped, [x, shaped], np.ones(2), create_graph=create_graph)

    assert not np.shares_memory(of_x.numpy(), of_shaped.numpy())
