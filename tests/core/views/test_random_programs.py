"""A random program of views, writes and reads computes what NumPy does, and its gradient is right or it raises."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ChangedTensorError
from tests.core.views.programs import (
    ASYNCGRAD,
    ArrayLibrary,
    ViewProgram,
    derivative_along,
    torch_library,
    weighted_total,
)
from tests.support.sampling import cases

#: How many programs are run; 20,000 were, once.
PROGRAMS = cases(300)

PLACES = st.integers(0, 30)
SHAPES = st.sampled_from([(2, 3), (3,), (4,), (2, 2), (1, 3)])
NUMBERS = st.sampled_from([0.5, -1.25, 1.0, 0.0])

INDICES: list[Any] = [
    0, -1, slice(1, None), slice(None, -1), slice(None, None, 2), slice(None), None, Ellipsis,
    (Ellipsis, 0), (Ellipsis, slice(1, None)), (0, slice(None, 2)), (slice(None), 1), (None, 0), (1, 1),
]  # fmt: skip
ADVANCED: list[Any] = [[0, 1], [1, 0], [-1], (slice(None), [0, 1]), ([0, 1], [1, 0]), (Ellipsis, [1])]
#: Where an element is named twice PyTorch leaves open which value it gets.
REPEATED: list[Any] = [[0, 0, 1], ([0, 1, 0], [1, 1, 1])]

#: PyTorch is stricter about what shares memory with what is written. It also takes a view of a base that came to
#: require grad for a leaf, until somebody asks for its grad_fn.
THEIR_REASONS = ["modified by an inplace operation", "refer to a single memory location", "a leaf Variable"]

try:
    TORCH: ArrayLibrary | None = torch_library()
except ImportError:
    TORCH = None


def add_to(x: Any, y: Any) -> Any:
    x += y


def subtract_from(x: Any, y: Any) -> Any:
    x -= y


def multiply_by(x: Any, y: Any) -> Any:
    x *= y


WRITES = {"+=": add_to, "-=": subtract_from, "*=": multiply_by}


class Programs(RuleBasedStateMachine):
    """Builds a program step by step; it is run, on everything, at the end."""

    @initialize(shapes=st.lists(SHAPES, min_size=1, max_size=2))
    def begin(self, shapes: list[tuple[int, ...]]) -> None:
        self.program = ViewProgram(shapes)
        self.compares = TORCH is not None

    def at(self, place: int) -> int:
        return place % len(self.program.tried)

    @rule(of=PLACES, index=st.sampled_from(INDICES))
    def view_by_index(self, of: int, index: Any) -> None:
        i = self.at(of)
        items = index if isinstance(index, tuple) else (index,)
        # NumPy gives a number, and no view, where all axes have an int and there is no Ellipsis.
        items = items if Ellipsis in items else (*items, Ellipsis)
        self.program.add(f"t.append(t[{i}][{items}])", lambda lib, t: t.append(t[i][items]))

    @rule(of=PLACES, kind=st.sampled_from(["T", "reshape", "expand", "squeeze"]))
    def view_of_other_shape(self, of: int, kind: str) -> None:
        i = self.at(of)

        def step(lib: ArrayLibrary, t: list[Any]) -> None:
            x = t[i]
            if kind == "T":
                t.append(lib.transpose(x))
            elif kind == "reshape":
                t.append(x.reshape(-1))
            elif kind == "expand":
                t.append(x[..., None])
            else:
                t.append(x.squeeze(0))

        self.program.add(f"t.append({kind} of t[{i}])", step)

    @rule(of=PLACES, other=PLACES, kind=st.sampled_from(["sin", "tanh", "*", "+", "copy"]))
    def read(self, of: int, other: int, kind: str) -> None:
        i, j = self.at(of), self.at(other)

        def step(lib: ArrayLibrary, t: list[Any]) -> None:
            x, y = t[i], t[j]
            if kind == "*":
                t.append(lib.array(x * y))
            elif kind == "+":
                t.append(lib.array(x + y))
            else:
                t.append(lib.array(getattr(lib, kind)(x)))

        self.program.add(f"t.append({kind} of t[{i}], t[{j}])", step)

    @rule(into=PLACES, value=PLACES, kind=st.sampled_from([*WRITES]))
    def write(self, into: int, value: int, kind: str) -> None:
        i, j = self.at(into), self.at(value)
        self.program.add(f"t[{i}] {kind} t[{j}]", lambda lib, t: WRITES[kind](t[i], t[j]))

    @rule(into=PLACES, number=NUMBERS, kind=st.sampled_from([*WRITES]))
    def write_number(self, into: int, number: float, kind: str) -> None:
        i = self.at(into)
        self.program.add(f"t[{i}] {kind} {number}", lambda lib, t: WRITES[kind](t[i], number))

    @rule(into=PLACES, value=PLACES, index=st.sampled_from(INDICES + ADVANCED))
    def assign(self, into: int, value: int, index: Any) -> None:
        i, j = self.at(into), self.at(value)

        def step(lib: ArrayLibrary, t: list[Any]) -> None:
            t[i][index] = t[j]

        self.program.add(f"t[{i}][{index}] = t[{j}]", step)

    @rule(into=PLACES, value=PLACES, index=st.sampled_from(REPEATED))
    def assign_repeatedly(self, into: int, value: int, index: Any) -> None:
        i, j = self.at(into), self.at(value)

        def step(lib: ArrayLibrary, t: list[Any]) -> None:
            t[i][index] = t[j]

        if self.program.add(f"t[{i}][{index}] = t[{j}]", step):
            self.compares = False

    @rule(into=PLACES, number=NUMBERS, index=st.sampled_from(INDICES + ADVANCED))
    def assign_number(self, into: int, number: float, index: Any) -> None:
        i = self.at(into)

        def step(lib: ArrayLibrary, t: list[Any]) -> None:
            t[i][index] = number

        self.program.add(f"t[{i}][{index}] = {number}", step)

    @rule(into=PLACES, value=PLACES, turn=st.integers(2, 3))
    def copy_where(self, into: int, value: int, turn: int) -> None:
        i, j = self.at(into), self.at(value)
        mask = np.arange(self.program.tried[i].size).reshape(self.program.tried[i].shape) % turn == 0
        self.program.add(f"copyto(t[{i}], t[{j}], where={mask})", lambda lib, t: lib.copy_where(t[i], t[j], mask))

    @rule(into=PLACES, value=PLACES)
    def sin_into(self, into: int, value: int) -> None:
        i, j = self.at(into), self.at(value)
        if self.program.tried[i].shape == self.program.tried[j].shape:
            self.program.add(f"sin(t[{j}], out=t[{i}])", lambda lib, t: lib.sin_into(t[j], t[i]))

    def teardown(self) -> None:
        if not hasattr(self, "program"):
            return
        by_strides = checked_gradients(self.program)
        with ag.graph.replay_views():
            replayed = checked_gradients(self.program)
        assert (by_strides is None) == (replayed is None)
        if by_strides is not None and replayed is not None:
            for one, other in zip(by_strides, replayed, strict=True):
                np.testing.assert_array_equal(one, other)
        check_derivative(self.program, by_strides)
        if self.compares:
            check_against_torch(self.program, by_strides)


def checked_gradients(program: ViewProgram) -> list[np.ndarray] | None:
    """The gradients of the leaves, or None where a saved tensor was changed; values are compared with NumPy's."""
    leaves: list[Any] = [ag.tensor(leaf, requires_grad=True) for leaf in program.leaves()]
    table = program.run(ASYNCGRAD, leaves)
    for ours, array in zip(table, program.tried, strict=True):
        np.testing.assert_array_equal(ours.numpy(), array)
    try:
        sync.backward(weighted_total(ASYNCGRAD, table))
    except ChangedTensorError:
        return None
    # Nothing leads to a leaf any more whose copy has been written over.
    return [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def check_derivative(program: ViewProgram, grads: list[np.ndarray] | None) -> None:
    """Hold the gradients to a finite difference."""
    if grads is None:
        return
    directions = [np.sin(np.arange(leaf.size) + 1.0).reshape(leaf.shape) for leaf in program.leaves()]
    expected = derivative_along(program, directions)
    found = sum(float((grad * direction).sum()) for grad, direction in zip(grads, directions, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, *(abs(g).max() for g in grads)))


def check_against_torch(program: ViewProgram, grads: list[np.ndarray] | None) -> None:
    """Hold the gradients to PyTorch's; where PyTorch has some, so do we."""
    assert TORCH is not None
    leaves = [TORCH.constant(leaf).requires_grad_() for leaf in program.leaves()]
    refusal = None
    try:
        weighted_total(TORCH, program.run(TORCH, leaves)).backward()
    except RuntimeError as error:
        refusal = str(error)
    if refusal is not None:
        assert any(reason in refusal for reason in THEIR_REASONS), refusal
        return
    assert grads is not None, "PyTorch has a gradient here"
    for ours, theirs in zip(grads, leaves, strict=True):
        expected = 0.0 if theirs.grad is None else theirs.grad.numpy()
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


TestPrograms: Any = Programs.TestCase
TestPrograms.settings = settings(max_examples=PROGRAMS, stateful_step_count=12)
