"""Random programs compute what NumPy computes, and have the derivatives that differences of NumPy's values give.

A program is a few lines of NumPy on leaves of several shapes and dtypes: every function that has a rule, operators,
views and writes, modes that change between two lines, Functions, checkpoints, hooks and transforms. The oracle runs
the same lines on arrays, and moves them a little. Many programs more: `make programs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.ops import RULES
from tests.support.programs import worlds
from tests.support.programs.check import Outcome, Wrong, check
from tests.support.programs.generate import Program, draw, smaller
from tests.support.programs.oracle import Step
from tests.support.sampling import cases

#: How many programs are drawn; 50,000 were, once.
PROGRAMS = cases(2000)
#: In so many parts, which several processes may share; each is large enough to count what its programs look at.
PARTS = max(1, min(8, PROGRAMS // 200))


def fails(program: Program) -> bool:
    try:
        check(program)
    except Wrong:
        return True
    return False


def failure(program: Program) -> str | None:
    """Return what is wrong with a program, with the shortest one that is wrong, too; None where nothing is."""
    try:
        check(program)
    except Wrong:
        shortest = smaller(program, fails)
        try:
            check(shortest)
        except Wrong as wrong:
            return f"{shortest}\n{wrong}"
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_program_has_the_values_and_the_derivatives_that_numpy_gives(part: int) -> None:
    seeds = range(part, PROGRAMS, PARTS)
    outcomes: list[Outcome] = []
    lengths = 0

    for seed in seeds:
        program = draw(seed)
        lengths += len(program.steps)
        try:
            outcomes.append(check(program))
        except Wrong:
            pytest.fail(str(failure(program)))

    refused = sum(outcome.refused for outcome in outcomes)
    second = sum(outcome.second for outcome in outcomes)
    assert refused <= 0.1 * len(seeds), "too many programs end in a refusal to say anything"
    assert second >= 0.05 * len(seeds), "too few second derivatives are looked at"
    assert lengths >= 4 * len(seeds), "too few lines make sense to the oracle"


@pytest.mark.slow
def test_programs_are_drawn_with_every_function_that_has_a_derivative() -> None:
    cases = {name.rpartition(".")[2] for name in worlds.CASE_NAMES}
    missing = set(cases)
    for seed in range(10_000):
        if missing:
            missing -= {name for step in draw(seed).steps for name in _names(step.line)}

    assert cases <= {function.__name__ for function in RULES}
    assert missing == set()


def _names(line: str) -> Iterator[str]:
    """Yield the last names of the functions of NumPy that a line calls."""
    for word in line.replace("of_case('", "np.").replace("(", " ").replace("'", " ").split():
        if word.startswith("np."):
            yield word.rpartition(".")[2].rstrip(",")


# The checker itself: shown something wrong, it complains.


def complaint_about(shape: tuple[int, ...], dtype: str, *steps: Step) -> str:
    """Return what the checker has to say about a program of one leaf; fails where it has nothing to say."""
    program = Program(0, {"a": (shape, dtype)})
    for step in steps:
        assert program.add(step), f"the oracle refuses {step.line}: {program.oracle.why}"
    found = failure(program)
    assert found is not None, f"nothing was found wrong with\n{program}"
    return found


def planted(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], rule: Callable[..., Any]) -> None:
    monkeypatch.setitem(RULES, function, rule)


@pytest.fixture
def steps() -> tuple[Step, Step]:
    return Step("x0 = a * 1", ("a",), "x0"), Step("x1 = np.sin(x0)", ("x0",), "x1")


def test_the_checker_finds_a_derivative_that_is_doubled(monkeypatch, steps):
    right = RULES[np.sin]
    # The value of the sine, and its gradient twice.
    planted(monkeypatch, np.sin, lambda x: 2 * right(x) - right(x.detach()))

    assert "the derivative" in complaint_about((3,), "float64", *steps)


def test_the_checker_finds_a_complex_derivative_that_is_not_conjugated(monkeypatch, steps):
    class Unconjugated(ag.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return np.sin(x.numpy())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * np.cos(ctx.saved_tensors[0])

    planted(monkeypatch, np.sin, Unconjugated.apply)

    assert "the derivative" in complaint_about((3,), "complex128", *steps)


def test_the_checker_finds_a_history_that_is_lost(monkeypatch, steps):
    right = RULES[np.sin]
    planted(monkeypatch, np.sin, lambda x: right(x.detach()))

    assert "requires_grad is False" in complaint_about((3,), "float64", *steps)


def test_the_checker_finds_a_value_that_is_not_numpys(monkeypatch, steps):
    right = RULES[np.sin]
    planted(monkeypatch, np.sin, lambda x: right(x) * (1 + 1e-9))

    assert "and by NumPy" in complaint_about((3,), "float64", *steps)


def test_the_checker_finds_a_dtype_that_is_not_numpys(monkeypatch, steps):
    right = RULES[np.sin]
    planted(monkeypatch, np.sin, lambda x: right(x).astype(complex))

    assert "complex128" in complaint_about((3,), "float32", *steps)


def test_the_checker_finds_a_result_that_shares_memory(monkeypatch):
    planted(monkeypatch, np.pad, lambda x, width: x.reshape(x.shape))

    assert "share memory" in complaint_about((3,), "float64", Step("x1 = np.pad(a, 0)", ("a",), "x1"))


def test_the_checker_finds_a_result_that_is_laid_out_otherwise(monkeypatch):
    planted(monkeypatch, np.square, lambda x: (x * x).T.copy().T)

    assert "strides" in complaint_about((2, 3), "float64", Step("x1 = np.square(a)", ("a",), "x1"))


def test_the_checker_finds_a_write_that_is_not_seen(monkeypatch):
    planted(monkeypatch, np.copyto, lambda target, source: None)
    steps = Step("x0 = a * 1", ("a",), "x0"), Step("np.copyto(x0, 2.0)", (), None, "x0")

    assert "and by NumPy" in complaint_about((3,), "float64", *steps)


def test_the_checker_finds_a_write_whose_history_is_not_that_of_its_value(monkeypatch):
    def written_over(target: Any, source: Any) -> None:
        with ag.no_grad():
            target[...] = source

    planted(monkeypatch, np.copyto, written_over)
    steps = Step("x0 = a * 1", ("a",), "x0"), Step("np.copyto(x0, 2.0)", (), None, "x0")

    assert "the derivative" in complaint_about((3,), "float64", *steps)


def test_the_checker_finds_a_second_derivative_that_is_wrong(monkeypatch):
    class Twice(ag.Function):
        """The first derivative of the square is right, and the second is zero."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return np.square(x.numpy())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 * ctx.saved_tensors[0].detach()

    planted(monkeypatch, np.square, Twice.apply)
    step = Step("x1 = np.square(a)", ("a",), "x1")

    def looks_at_second_derivatives(seed: int) -> bool:
        program = Program(seed, {"a": ((3,), "float64")})
        assert program.add(step)
        return fails(program)

    assert any(looks_at_second_derivatives(seed) for seed in range(20))


def test_the_checker_finds_a_write_into_a_leaf_that_is_not_refused(monkeypatch):
    def written_over(target: Any, source: Any) -> None:
        target.numpy()[...] = source

    planted(monkeypatch, np.copyto, written_over)

    assert "was not refused" in complaint_about(
        (3,), "float64", Step("np.copyto(a, 2.0)", (), None, "a", "", "refused")
    )


def test_a_failing_program_is_made_shorter_by_what_does_not_matter(monkeypatch, steps):
    right = RULES[np.sin]
    planted(monkeypatch, np.sin, lambda x: right(x.detach()))
    more = Step("x2 = np.cos(a)", ("a",), "x2"), Step("x3 = x1 + x2", ("x1", "x2"), "x3")

    source = complaint_about((3,), "float64", *steps, *more)

    assert "np.sin" in source
    assert "np.cos" not in source


@pytest.mark.parametrize("line", ["x1 = a + np.ones(2)", "x1 = np.linalg.inv(a)", "x1 = np.sqrt(-abs(a))"])
def test_the_oracle_refuses_what_numpy_cannot_do(line: str) -> None:
    assert not Program(0, {"a": ((3,), "float64")}).add(Step(line, ("a",), "x1"))


def test_the_oracle_refuses_a_step_at_a_kink() -> None:
    program = Program(0, {"a": ((3,), "float64")})
    assert program.add(Step(f"x0 = a - np.array({program.leaves['a'].tolist()})", ("a",), "x0"))

    assert not program.add(Step("x1 = np.abs(x0)", ("x0",), "x1"))
