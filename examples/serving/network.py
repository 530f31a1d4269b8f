"""A small recurrent network that learns from one sequence at a time: thousands of nodes, each of them short."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, final

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

#: Time steps between two looks at the clock, and the seconds after which the event loop is due.
BLOCK, BUDGET = 32, 0.001
#: Turns that the event loop then gets: a request takes one to be read, one to be understood, one to be answered.
TURNS = 3

#: A gradient that is longer is shortened to this: over many time steps one may explode.
LONGEST_GRADIENT = 1.0


@final
@dataclass(frozen=True)
class Settings:
    """What a model is for as long as it lives: its sizes, its seed, and how fast it learns."""

    inputs: int = 2
    outputs: int = 1
    hidden: int = 24
    learning_rate: float = 0.003
    seed: int = 0


class Sequence(NamedTuple):
    """What is learned at once: `inputs` of shape (steps, inputs) and `targets` of shape (steps, outputs)."""

    inputs: np.ndarray
    targets: np.ndarray


class Weights(NamedTuple):
    """All that a prediction depends on: Tensors while learning, plain arrays to predict."""

    enter: Any  # (inputs, hidden)
    recur: Any  # (hidden, hidden)
    bias: Any  # (hidden,)
    leave: Any  # (hidden, outputs)
    offset: Any  # (outputs,)


class Published(NamedTuple):
    """The weights after so many learned sequences. Its arrays are never written to, so whoever holds it may wait."""

    learned: int
    weights: Weights


async def run(weights: Weights, inputs: np.ndarray) -> list[Any]:
    """Return the outputs for each block of time steps, of shape (BLOCK, outputs); recorded if weights are Tensors.

    Suspends whenever a millisecond is over, since a forward holds up the event loop as much as a backward does.
    """
    hidden: Any = np.zeros(len(weights.bias))
    blocks = []
    due = time.perf_counter() + BUDGET
    for begin in range(0, len(inputs), BLOCK):
        states = []
        for row in inputs[begin : begin + BLOCK]:
            hidden = np.tanh(row @ weights.enter + hidden @ weights.recur + weights.bias)
            states.append(hidden)
        blocks.append(np.stack(states) @ weights.leave + weights.offset)
        if time.perf_counter() > due:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            due = time.perf_counter() + BUDGET
    return blocks


@final
class Network:
    """The weights and the optimizer that changes them: `loss`, then its backward, then `step`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        rng = np.random.default_rng(settings.seed)

        def weight(*shape: int) -> ag.Tensor:
            return ag.tensor(rng.standard_normal(shape) / np.sqrt(shape[0]) / 2, requires_grad=True)

        def bias(size: int) -> ag.Tensor:
            return ag.tensor(np.zeros(size), requires_grad=True)

        hidden, outputs = settings.hidden, settings.outputs
        enter, recur = weight(settings.inputs, hidden), weight(hidden, hidden)
        self.weights = Weights(enter, recur, bias(hidden), weight(hidden, outputs), bias(outputs))
        self.optimizer = optim.Adam(self.weights, lr=settings.learning_rate)
        self.published = self._publish(0)

    async def loss(self, sequence: Sequence) -> ag.Tensor:
        """Return the mean squared error on a sequence, recorded, so that its backward can be run."""
        total: Any = 0.0
        for index, block in enumerate(await run(self.weights, sequence.inputs)):
            targets = sequence.targets[index * BLOCK : (index + 1) * BLOCK]
            total = total + np.square(block - targets).sum()
        loss: ag.Tensor = total / sequence.targets.size
        return loss

    def step(self) -> None:
        """Descend along the gradients and publish the weights. Does not suspend, so nobody sees half a step."""
        gradients = [weight.grad.numpy() for weight in self.weights]
        length = np.sqrt(sum(float(np.sum(gradient**2)) for gradient in gradients))
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = ag.tensor(gradient * min(1.0, LONGEST_GRADIENT / max(length, 1e-12)))
        self.optimizer.step()
        self.forget()
        self.published = self._publish(self.published.learned + 1)

    def forget(self) -> None:
        """Drop the gradients of a step that is not to be made."""
        self.optimizer.zero_grad()

    def _publish(self, learned: int) -> Published:
        return Published(learned, Weights(*(weight.numpy().copy() for weight in self.weights)))

    def state(self) -> dict[str, Any]:
        """Return copies of all that the next step depends on, by name, as `from_state` takes it."""
        state: dict[str, Any] = {f"settings.{name}": value for name, value in asdict(self.settings).items()}
        state["learned"] = self.published.learned
        state |= {f"weights.{name}": array for name, array in self.published.weights._asdict().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"moments.{number}.{name}": value for name, value in moments.items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Network:
        """Return the network that `state` was taken of.

        Raises:
            KeyError, ValueError: this is no such state.
        """
        network = cls(Settings(**{name: state[f"settings.{name}"].item() for name in asdict(Settings())}))
        for name, weight in network.weights._asdict().items():
            with ag.no_grad():
                weight[...] = state[f"weights.{name}"]
        moments: dict[int, dict[str, Any]] = {}
        for key, value in state.items():
            if key.startswith("moments."):
                _, number, name = key.split(".")
                moments.setdefault(int(number), {})[name] = value.item() if name == "step" else value
        network.optimizer.load_state_dict({**network.optimizer.state_dict(), "state": moments})
        network.published = network._publish(state["learned"].item())
        return network
