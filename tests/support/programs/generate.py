"""Programs drawn from a seed, their source, and smaller ones that fail alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import final

import numpy as np

from tests.core.ops.finite_differences import call, leaves_of
from tests.support.programs.lines import INDICES, KINDS, Kind
from tests.support.programs.oracle import Oracle, Step
from tests.support.programs.worlds import CASE_NAMES, FIELDS

__all__ = ["Program", "draw", "smaller"]

SHAPES: list[tuple[int, ...]] = [
    (), (1,), (2,), (3,), (3,), (2, 3), (2, 3), (2, 2), (3, 3), (1, 3), (2, 1), (0,), (2, 0), (1, 2, 2),
]  # fmt: skip
DTYPES = ["float64"] * 5 + ["complex128"] * 4 + ["float32"]
#: How many steps a program has, and how many are tried at most.
LENGTHS, TRIES = (2, 7), 60
WAYS = [""] * 12 + ["checkpoint", "reentrant", "packed", "packed", "observed", "observed"]
MODES = [""] * 14 + ["no_grad", "no_grad", "no_grad", "enable_grad"]


@final
class Program:
    """Leaves and steps, and what they give by NumPy.

    Args:
        seed: of what drew it.
        leaves: the shape and the dtype of each.
    """

    def __init__(self, seed: int, leaves: dict[str, tuple[tuple[int, ...], str]]) -> None:
        self.seed = seed
        self.shapes = leaves
        self.steps: list[Step] = []
        self.leaves = {name: _numbers(place, *leaf) for place, (name, leaf) in enumerate(leaves.items())}
        self.directions = {name: _numbers(place + 10, *leaf) for place, (name, leaf) in enumerate(leaves.items())}
        self.oracle = Oracle(self.leaves, self.directions)

    def add(self, step: Step) -> bool:
        """Append a step where the oracle can follow it; tell whether it could."""
        done = self.oracle.apply(step)
        if done:
            self.steps.append(step)
        return done

    def only(self, steps: list[Step]) -> Program | None:
        """Return the program with these steps alone; None where they make no sense without the others."""
        other = Program(self.seed, self.shapes)
        return other if all(other.add(step) for step in steps) else None

    @property
    def source(self) -> str:
        """The program as Python: a function of the leaves that returns a number and the variables."""
        names = ", ".join(self.oracle.variables)
        pairs = ", ".join(f"{name!r}: {name}" for name in self.oracle.variables)
        lines = [line for step in self.steps for line in _lines(step)]
        result = f"return total({names}), {{{pairs}}}"
        return "\n    ".join([f"def program({', '.join(self.leaves)}):", *lines, result])

    def __str__(self) -> str:
        leaves = [f"# {name}: {dtype}{shape}" for name, (shape, dtype) in self.shapes.items()]
        return "\n".join([f"# seed {self.seed}", *leaves, self.source])


def _numbers(place: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return numbers between -1.3 and 1.3 of which none is near 0."""
    generator = np.random.default_rng(place)
    drawn = generator.uniform(0.2, 1.3, shape) * generator.choice([-1.0, 1.0], shape)
    if dtype == "complex128":
        drawn = drawn + 1j * generator.uniform(-1.0, 1.0, shape)
    return np.asarray(drawn, dtype)


def _lines(step: Step) -> Iterator[str]:
    """Yield the lines of a step, as asyncgrad runs it."""
    indent, line = "", step.line
    if step.mode:
        yield "with ag.no_grad():" if step.mode == "no_grad" else "with ag.no_grad(), ag.enable_grad():"
        indent = "    "
    if step.way in ("checkpoint", "reentrant"):
        expression = line.partition(" = ")[2]
        names = ", ".join(step.reads)
        reentrant = step.way == "reentrant"
        line = f"{step.makes} = ag.checkpoint(lambda {names}: {expression}, {names}, use_reentrant={reentrant})"
    elif step.way in ("packed", "refused"):
        yield f"{indent}with {step.way}():"
        indent += "    "
    yield f"{indent}{line}"
    if step.way == "observed":
        yield f"observe({step.makes or step.writes})"


def draw(seed: int) -> Program:
    """Return the program of a seed."""
    choices = random.Random(seed)
    leaves = {
        name: (choices.choice(SHAPES), choices.choice(DTYPES))
        for name in ("a", "b", "c")[: choices.choice([1, 2, 2, 3])]
    }
    program = Program(seed, leaves)
    length = choices.randint(*LENGTHS)
    # Most writes are into what is no leaf.
    program.add(Step("x0 = a * 1", ("a",), "x0"))
    for _ in range(TRIES):
        if len(program.steps) > length:
            break
        program.add(_step(choices, program))
    return program


def _step(choices: random.Random, program: Program) -> Step:
    kind: Kind = choices.choices(KINDS, [kind.weight for kind in KINDS])[0]
    names = list(program.oracle.variables)
    # What was made last is used most.
    x, y = (choices.choice(names[-choices.choice([1, 2, 3, 9]) :]) for _ in "xy")
    case, (function, cases) = choices.choice(list(CASE_NAMES.items()))
    index = choices.randrange(len(cases))
    template = choices.choice(kind.lines)
    points = leaves_of(cases[index])
    if "{case}" in template and len(points) > 1 and len(call(function, cases[index], points)) == 1:
        template = template.replace("{x}", "{x}, {y}")
    line = template.format(
        x=x, y=y, i=choices.choice(INDICES), k=choices.choice([0, 1, 2]), axis=choices.choice([0, -1, 1, None]),
        c=choices.choice([0.5, -1.25, 2.0, 1.0]), field=choices.randrange(len(FIELDS)),
        case=f"{case!r}, {index}, {choices.randrange(3)}",
    )  # fmt: skip
    mode = choices.choice(MODES)
    reads = tuple(dict.fromkeys((x, y) if "{y}" in template else (x,)))
    if kind.writes:
        way = choices.choice(["", "", "", "packed", "observed"])
        history = program.oracle.variables[x].history
        if history.is_leaf and mode != "no_grad" and "increase" not in line:
            way = "refused"
        return Step(line, tuple(name for name in reads if name != x), None, x, mode, way)
    makes = f"x{len(program.steps)}"
    way = choices.choice(WAYS) if mode != "no_grad" and kind.smooth else ""
    return Step(f"{makes} = {line}", reads, makes, None, mode, way, kind.kind, kind.smooth)


def smaller(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a program with as few of the steps as still fail: each turn drops one, and what needs it."""
    found = True
    while found:
        found = False
        for place in range(len(program.steps)):
            candidate = program.only(_without(program.steps, place))
            if candidate is not None and fails(candidate):
                program, found = candidate, True
                break
    return program


def _without(steps: list[Step], place: int) -> list[Step]:
    """Return the steps without one, and without those that need what it makes."""
    gone = {steps[place].makes} - {None}
    left = steps[:place]
    for step in steps[place + 1 :]:
        if gone & {*step.reads, step.writes}:
            gone |= {step.makes} - {None}
        else:
            gone -= {step.makes}
            left.append(step)
    return left
