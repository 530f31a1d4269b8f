"""Saved-tensor hooks against PyTorch's: how often they are called, in which order, and what gradients come out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from tests.support.leaves import leaf_of

torch = pytest.importorskip("torch")

VALUES = np.array([0.3, 0.7, 1.1])


class HookLibrary(NamedTuple):
    """The names that a program needs, of one library."""

    exp: Any
    tanh: Any
    hooks: Any
    disabled: Any


OURS = HookLibrary(np.exp, np.tanh, ag.graph.saved_tensors_hooks, ag.graph.disable_saved_tensors_hooks)
THEIRS = HookLibrary(
    torch.exp,
    torch.tanh,
    torch.autograd.graph.saved_tensors_hooks,
    torch.autograd.graph.disable_saved_tensors_hooks,
)


class CallLog:
    """Hooks that keep copies, and write down what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[float]]] = []

    def pack(self, tensor: Any) -> Any:
        self.calls.append(("pack", tensor.tolist()))
        return tensor.detach().clone()

    def unpack(self, tensor: Any) -> Any:
        self.calls.append(("unpack", tensor.tolist()))
        return tensor


def leaf_of_each_library() -> tuple[Any, Any]:
    return leaf_of(VALUES), torch.tensor(VALUES, requires_grad=True)


def in_both_libraries(program: Any) -> tuple[Any, Any]:
    """What `program(library, x, log)` computes, in each library, and the calls that its hooks saw, rounded."""
    found = []
    for library, x in zip((OURS, THEIRS), leaf_of_each_library(), strict=True):
        log = CallLog()
        result = program(library, x, log)
        calls = [(kind, np.round(value, 10).tolist()) for kind, value in log.calls]
        found.append((result, calls))
    return found[0], found[1]


PROGRAMS = {
    "one input twice": lambda library, x: x * x,
    "an output": lambda library, x: library.exp(x),
    "a constant beside an input": lambda library, x: (x * 2.0) * x.detach(),
    "outputs in a row": lambda library, x: library.tanh(library.exp(library.tanh(x))),
    "a chain": lambda library, x: library.tanh(library.exp(x) * x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_tensors_are_packed_and_unpacked_in_the_same_order(name: str):
    def program(library: HookLibrary, x: Any, log: CallLog) -> Any:
        with library.hooks(log.pack, log.unpack):
            y = PROGRAMS[name](library, x)
        g = y.detach() * 0 + 1
        if library is OURS:
            sync.backward(y, g)
        else:
            y.backward(g)
        return x.grad.tolist()

    (ours, our_calls), (theirs, their_calls) = in_both_libraries(program)
    np.testing.assert_allclose(ours, theirs)
    # Of one node, theirs go by the names of the parameters in C++.
    assert (our_calls if name.startswith("outputs") else sorted(our_calls)) == (
        their_calls if name.startswith("outputs") else sorted(their_calls)
    )


@pytest.mark.parametrize("times", [1, 2, 3])
def test_each_backward_under_retain_graph_unpacks_again(times: int):
    def program(library: HookLibrary, x: Any, log: CallLog) -> Any:
        with library.hooks(log.pack, log.unpack):
            y = library.tanh(x * x).sum()
        for _ in range(times):
            if library is OURS:
                sync.backward(y, retain_graph=True)
            else:
                y.backward(retain_graph=True)
        return x.grad.tolist()

    (ours, our_calls), (theirs, their_calls) = in_both_libraries(program)
    np.testing.assert_allclose(ours, theirs)
    assert our_calls == their_calls


def test_second_derivatives_through_packed_tensors_are_pytorchs():
    def program(library: HookLibrary, x: Any, log: CallLog) -> Any:
        with library.hooks(log.pack, log.unpack):
            y = (library.tanh(library.exp(x) * x) * x).sum()
        if library is OURS:
            (g,) = sync.grad(y, [x], create_graph=True)
            sync.backward((g * g).sum())
        else:
            (g,) = torch.autograd.grad(y, [x], create_graph=True)
            (g * g).sum().backward()
        return x.grad.tolist()

    (ours, _), (theirs, _) = in_both_libraries(program)
    np.testing.assert_allclose(ours, theirs)


def test_a_write_after_packing_changes_nothing_here_or_there():
    def program(library: HookLibrary, x: Any, log: CallLog) -> Any:
        with library.hooks(log.pack, log.unpack):
            y = (x * x).sum()
        x.detach()[...] = 100.0
        if library is OURS:
            sync.backward(y)
        else:
            y.backward()
        return x.grad.tolist()

    (ours, _), (theirs, _) = in_both_libraries(program)
    assert ours == theirs == (2 * VALUES).tolist()


def _enter(manager: Any) -> None:
    with manager:
        pass


@pytest.mark.parametrize("outer", ["hooks", "disabled"])
@pytest.mark.parametrize("inner", ["hooks", "disabled"])
def test_which_block_of_hooks_may_be_entered_inside_of_which_is_pytorchs_rule(outer: str, inner: str):
    def outcome(library: HookLibrary) -> str:
        made = {
            "hooks": lambda name: library.hooks(lambda t: t, lambda t: t),
            "disabled": lambda name: library.disabled(name),
        }
        with made[outer]("outer message"):
            try:
                _enter(made[inner]("inner message"))
            except RuntimeError as error:
                return str(error)
        return "entered"

    assert outcome(OURS) == outcome(THEIRS)


def test_what_one_raw_saved_tensor_refuses_is_what_pytorchs_refuses():
    ours, theirs = leaf_of_each_library()
    y, z = ours * ours, theirs * theirs
    saved = y.grad_fn.saved_tensors[0], z.grad_fn._raw_saved_self
    for one in saved:
        one.register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(RuntimeError):
            one.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError):
        y.grad_fn.saved_tensors[1].register_hooks(1, 2)
    with pytest.raises(TypeError):
        z.grad_fn._raw_saved_other.register_hooks(1, 2)
    saved = y.grad_fn.saved_tensors[1], z.grad_fn._raw_saved_other
    sync.backward(y.sum())
    z.sum().backward()
    for one in saved:
        with pytest.raises(RuntimeError):
            one.register_hooks(lambda t: t, lambda t: t)
