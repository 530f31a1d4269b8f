"""What a learner with versions is to hold, as lists: which examples it has learned, in which order, at which rates.

The bits of its model are those of a learner without a directory that learns the same examples in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim
from asyncgrad.learn import Follower, Learner, follow
from asyncgrad.learn.lineage import CHOICES

__all__ = ["Action", "Expected", "act", "bits", "bits_of", "new_follower", "new_learner", "some_actions"]

#: What is done: "learn" with the number of an example, "rate" with a rate, "name", "forget" or "back" with a name (and
#: what becomes of the examples), "kept", or "save".
Action = tuple[Any, ...]


@final
@dataclass
class Expected:
    """What is so after some actions.

    Attributes:
        steps: the examples that the model has learned, in order: the number of the line, of the example, and the rate.
        rate: the rate that holds.
        kept: the numbers of lines and examples that are kept.
        versions: the same of each version.
        count: how many examples were acknowledged; their numbers in order of arrival.
    """

    steps: list[tuple[int, int, float]] = field(default_factory=list)
    rate: float = 0.01
    kept: dict[int, int] = field(default_factory=dict)
    versions: dict[str, tuple[list[tuple[int, int, float]], float]] = field(default_factory=dict)
    count: int = 0

    def copy(self) -> Expected:
        """Return another one that is equal."""
        return replace(self, steps=list(self.steps), kept=dict(self.kept), versions=dict(self.versions))

    def do(self, action: Action) -> None:
        """Take an action that was acknowledged."""
        what, *given = action
        if what == "learn":
            self.steps.append((self.count, given[0], self.rate))
            self.count += 1
        elif what == "rate":
            self.rate = given[0]
        elif what == "name":
            self.versions[given[0]] = (list(self.steps), self.rate)
        elif what == "forget":
            del self.versions[given[0]]
        elif what == "back":
            self._back(*given)
        elif what == "kept":
            kept, self.kept = self.kept, {}
            self.steps += [(line, number, self.rate) for line, number in sorted(kept.items())]

    def _back(self, name: str, examples: str) -> None:
        steps, self.rate = self.versions[name]
        has = {line for line, _, _ in steps}
        since = {line: number for line, number, _ in self.steps if line not in has}
        self.steps = list(steps)
        self.kept = {line: number for line, number in self.kept.items() if line not in has}
        if examples == "keep":
            self.kept.update(since)
        elif examples == "learn":
            self.steps += [(line, number, self.rate) for line, number in sorted(since.items())]


def parts() -> tuple[nn.Module, Callable[[Any, Any], Any], optim.Optimizer]:
    """Return a model, whose every example leaves other bits, in whatever order; its loss draws random numbers."""
    model = nn.Linear(2, 1, dtype=np.float64)
    model.update({"weight": np.zeros((1, 2)), "bias": np.zeros(1)})

    def loss(model: Any, batch: Any) -> Any:
        noise = 0.1 * ag.random.generator().standard_normal(batch.shape) if model.training else 0.0
        return nn.mse_loss(model(batch + noise), np.tanh(batch[:, :1]))

    return model, loss, optim.Adam(model, lr=0.01)


def new_learner(path: Path | None, **options: Any) -> Learner:
    """Return a learner of these parts."""
    model, loss, adam = parts()
    given: dict[str, Any] = {"checkpoint_every": 3, **options}
    optimizer = given.pop("optimizer", None) or adam
    return Learner(model, loss, optimizer, directory=path, **given)


def new_follower(path: Path | str, **options: Any) -> Follower:
    """Return a follower of these parts, which becomes such a learner."""
    given: Any = {"checkpoint_every": 3, "interval": 0.001, **options}
    return follow(path, *parts(), **given)


async def act(learner: Learner, action: Action) -> None:
    """Have a learner do something."""
    what, *given = action
    if what == "learn":
        await learner.learn([float(given[0]), 1.0])
    elif what == "rate":
        await learner.set_options(lr=given[0])
    elif what == "name":
        await learner.checkpoint(given[0])
    elif what == "forget":
        await learner.forget(given[0])
    elif what == "back":
        await learner.rollback(given[0], examples=given[1])
    elif what == "kept":
        await learner.learn_kept()
    else:
        await learner.checkpoint()


def bits(one: Learner | Follower) -> list[Any]:
    """Return all that a later step depends on, to the last bit."""
    learner = one.learner if isinstance(one, Follower) else one
    state = one._replica.state if isinstance(one, Follower) and learner is None else learner._trained
    return [
        state.learned,
        state.steps,
        *map(str, state.model.state_dict().items()),
        str(state.optimizer.state_dict()),
    ]


async def bits_of(expected: Expected) -> list[Any]:
    """Return the bits of a learner that learns what is expected, and nothing else."""
    async with new_learner(None) as learner:
        for _, number, rate in expected.steps:
            await learner.set_options(lr=rate)
            await act(learner, ("learn", number))
        await learner.set_options(lr=expected.rate)
        return bits(learner)


def some_actions(rng: random.Random, count: int) -> list[Action]:
    """Return actions that a learner can do, one after another."""
    found: list[Action] = []
    names: list[str] = []
    for at in range(count):
        what = rng.choices(["learn", "rate", "name", "back", "kept", "forget", "save"], [8, 1, 2, 2, 1, 0.5, 0.5])[0]
        if what in ("back", "forget") and not names:
            what = "name"
        if what == "learn":
            found.append((what, at))
        elif what == "rate":
            found.append((what, rng.choice([0.5, 0.25, 0.125])))
        elif what == "name":
            names.append(f"v{at}")
            found.append((what, names[-1]))
        elif what == "back":
            found.append((what, rng.choice(names), rng.choice(CHOICES)))
        elif what == "forget":
            found.append((what, names.pop(rng.randrange(len(names)))))
        else:
            found.append((what,))
    return found
