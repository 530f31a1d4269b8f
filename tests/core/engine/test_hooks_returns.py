"""What each sort of hook may return, and what it may not; the error names hook and node."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import HookError, HookTypeError
from tests.core.engine.hooking import as_kind, backward, both_drives, every_kind, register
from tests.support.elsewhere import ELSEWHERE
from tests.support.functions import split
from tests.support.graphs import node_of
from tests.support.leaves import leaf
from tests.support.refusals import refused

F32 = np.ones(2, np.float32)

#: What stands for one gradient of shape (2,) and may not, whatever sort of hook returns it.
NO_GRADIENTS = [
    ("text", HookTypeError, TypeError, "str 'text'"),
    (1.0, HookTypeError, TypeError, "float 1.0"),
    ([1.0, 1.0], HookTypeError, TypeError, "list [1.0, 1.0]"),
    ((np.ones(2),), HookTypeError, TypeError, "tuple"),
    (np.ones(3), HookError, RuntimeError, "shape (3,) and dtype float64 for a gradient of shape (2,)"),
    (np.ones((1, 2)), HookError, RuntimeError, "shape (1, 2)"),
    (np.float64(1.0), HookError, RuntimeError, "shape () and dtype float64 for a gradient of shape (2,)"),
    (F32, HookError, RuntimeError, "dtype float32 for a gradient of shape (2,) and dtype float64"),
    (np.ones(2, np.int64), HookError, RuntimeError, "dtype int64"),
    (np.ones(2, complex), HookError, RuntimeError, "dtype complex128"),
    (ag.Tensor(np.ones(2), None, 0, ELSEWHERE), HookError, RuntimeError, "on 'elsewhere' for one on 'cpu'"),
]
WRONG = pytest.mark.parametrize(
    ("returned", "error", "built_in", "part"),
    NO_GRADIENTS,
    ids=["str", "float", "list", "tuple", "shape", "axes", "scalar", "float32", "int", "complex", "device"],
)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
@WRONG
async def test_what_a_hook_returns_that_is_no_gradient_is_refused(where, returned, error, built_in, part, create_graph):
    x = leaf(1.0, 2.0)
    middle = np.negative(x)

    def wrong_hook(*args: Any) -> Any:
        return returned if where == "tensor hook" else (returned,)

    register(where, middle, wrong_hook)

    with refused(error, built_in, "hook ", "wrong_hook of NegativeBackward (node #", part):
        await ag.grad(middle, x, np.ones(2), create_graph=create_graph)


@every_kind
@both_drives
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-accumulate hook"])
async def test_errors_name_the_hooks_of_a_leaf_whatever_kind_they_are(where, kind, drive):
    x = leaf(1.0, 2.0)
    accumulator = node_of(x)
    register(where, x, as_kind(kind, lambda arg: "text"))

    named = r"hook .* of AccumulateGrad \(leaf of shape \(2,\)\) .*str 'text'"
    with pytest.raises((HookTypeError, HookError), match=named):
        await backward(drive, np.multiply(x, 3.0), np.ones(2))

    assert x.grad is None
    assert accumulator.variable is x


@every_kind
@both_drives
async def test_a_tensor_hook_may_return_nothing_the_same_gradient_or_another(kind, drive):
    x = leaf(1.0, 2.0)
    x.register_hook(as_kind(kind, lambda grad: None))
    x.register_hook(as_kind(kind, lambda grad: grad))
    x.register_hook(as_kind(kind, lambda grad: grad * 2.0))
    x.register_hook(as_kind(kind, lambda grad: grad.numpy() * 5.0))

    await backward(drive, np.multiply(x, 3.0), np.ones(2))

    assert x.grad.tolist() == [30.0, 30.0]


@every_kind
@both_drives
async def test_a_post_accumulate_hook_may_return_nothing_or_its_tensor(kind, drive):
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(as_kind(kind, seen.append))
    x.register_post_accumulate_grad_hook(as_kind(kind, lambda tensor: tensor))

    await backward(drive, np.multiply(x, 3.0))

    assert seen == [x]
    assert seen[0] is x
    assert x.grad.item() == 3.0


@pytest.mark.parametrize("returned", [np.ones(1), ag.tensor([1.0]), False, 0, (), "text"])
async def test_a_post_accumulate_hook_may_return_nothing_else(returned):
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda tensor: returned)

    with refused(HookError, RuntimeError, "post-accumulate-grad hook", "of AccumulateGrad", "must return None"):
        await ag.backward(np.multiply(x, 3.0))

    assert x.grad is None


@pytest.mark.parametrize("where", ["pre-hook", "post-hook"])
@pytest.mark.parametrize(
    ("returned", "part"),
    [
        (np.ones(2), "ndarray of shape (2,)"),
        (ag.tensor(np.ones(2)), "Tensor of shape (2,)"),
        ([np.ones(2)], "list"),
        ({}, "dict {}"),
        (0, "int 0"),
    ],
    ids=["array", "tensor", "list", "dict", "int"],
)
async def test_a_hook_of_a_node_returns_a_tuple(where, returned, part):
    x = leaf(1.0, 2.0)
    middle = np.negative(x)
    register(where, middle, lambda *args: returned)

    parts = ["of NegativeBackward (node #", "must return None or a tuple of gradients", part, "write a tuple of 1"]
    with refused(HookTypeError, TypeError, *parts):
        await ag.backward(middle, np.ones(2))


@pytest.mark.parametrize("where", ["pre-hook", "post-hook"])
@pytest.mark.parametrize(("count", "said"), [(0, "0 gradients, not 1"), (2, "2 gradients, not 1")])
async def test_a_hook_of_a_node_returns_as_many_as_it_got(where, count, said):
    x = leaf(1.0, 2.0)
    middle = np.negative(x)
    register(where, middle, lambda *args: (np.ones(2),) * count)

    with refused(HookError, RuntimeError, "of NegativeBackward (node #", f"returned {said}"):
        await ag.backward(middle, np.ones(2))


async def test_a_post_hook_of_a_leaf_has_nothing_to_return():
    x = leaf(1.0)
    accumulator = node_of(x)
    accumulator.register_hook(lambda outputs, grads: ())
    await ag.backward(np.multiply(x, 3.0))
    accumulator.register_hook(lambda outputs, grads: grads)

    with refused(HookError, RuntimeError, "of AccumulateGrad (leaf of shape (", "returned 1 gradient, not 0"):
        await ag.backward(np.multiply(x, 3.0))

    assert x.grad.item() == 3.0


@every_kind
@both_drives
async def test_a_pre_hook_may_make_a_gradient_undefined(kind, drive):
    x, seen = leaf(1.0), []
    middle = np.negative(x)
    x.register_hook(seen.append)
    middle.grad_fn.register_prehook(as_kind(kind, lambda grads: (None,)))

    await backward(drive, middle)

    assert seen == [None]
    assert x.grad is None


@every_kind
@both_drives
async def test_a_post_hook_may_make_a_gradient_undefined(kind, drive):
    x, w = leaf(2.0), leaf(5.0)
    middle = np.multiply(x, w)
    middle.grad_fn.register_hook(as_kind(kind, lambda outputs, grads: (None, outputs[1])))

    await backward(drive, middle)

    assert x.grad is None
    assert w.grad.item() == 2.0


def undefined(where: str) -> Any:
    """A hook at a place where the gradient is undefined returns one nevertheless; give what to run backward."""
    x = leaf(1.0, 2.0)
    middle = np.negative(x)
    register(where, middle, lambda *args: np.ones(2) if where == "tensor hook" else (np.ones(2),))
    return split(middle, lambda first, second: None)[0]


@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
async def test_a_hook_cannot_make_a_gradient_where_there_is_none(where):
    with refused(HookError, RuntimeError, "of NegativeBackward (node #", "where there was none: return None for it"):
        await ag.backward(undefined(where), np.ones(2))


@every_kind
@both_drives
@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
async def test_hooks_see_none_where_a_gradient_is_undefined(where, kind, drive):
    seen: list[Any] = []
    x = leaf(1.0, 2.0)
    middle = np.negative(x)
    register(where, middle, as_kind(kind, lambda *args: seen.append(args)))

    await backward(drive, split(middle, lambda first, second: None)[0], np.ones(2))

    assert seen == [{"tensor hook": (None,), "pre-hook": ((None,),), "post-hook": ((None,), (None,))}[where]]
    assert x.grad is None


@pytest.mark.parametrize("where", ["tensor hook", "pre-hook", "post-hook"])
def test_pytorch_refuses_the_same(where):
    """For each wrong return of ours that PyTorch can be given, its error is of the same built-in class."""
    torch = pytest.importorskip("torch")
    for returned, _, built_in, _ in NO_GRADIENTS:
        if isinstance(returned, ag.Tensor):
            continue
        value = torch.tensor(returned) if isinstance(returned, (np.ndarray, np.generic)) else returned
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        middle = -x
        hook = (lambda *args, value=value: value) if where == "tensor hook" else (lambda *args, value=value: (value,))
        if where == "tensor hook":
            middle.register_hook(hook)
        elif where == "pre-hook":
            middle.grad_fn.register_prehook(hook)
        else:
            middle.grad_fn.register_hook(hook)
        with pytest.raises((RuntimeError, TypeError)) as raised:
            middle.sum().backward()
        assert type(raised.value) is built_in, returned


async def test_a_hook_without_a_name_is_named_by_its_class_and_a_partial_by_its_function():
    class Wrong:
        def __call__(self, *args: Any) -> Any:
            return "text"

    def named(extra: Any, grad: Any) -> Any:
        return "text"

    for hook, name in ((Wrong(), "hook Wrong of"), (functools.partial(named, 1), "named of")):
        x = leaf(1.0)
        x.register_hook(hook)
        with pytest.raises(HookTypeError, match=name):
            await ag.backward(np.multiply(x, 3.0))
