"""A small recurrent network that learns from one sequence at a time: its graph has thousands of cheap nodes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, final

import numpy as np

import asyncgrad as ag
from asyncgrad import optim

#: The time steps between two looks at the clock, and the seconds after which a forward yields to the event loop.
BLOCK, BUDGET = 32, 0.001
#: How many turns the loop then gets: one each to read, parse and answer a request.
TURNS = 3

#: The largest norm of the gradient; a larger one is scaled down, since gradients can explode over many time steps.
LONGEST_GRADIENT = 1.0


@final
@dataclass(frozen=True)
class Settings:
    """The fixed properties of a model: its sizes, its learning rate, and its seed."""

    inputs: int = 2
    outputs: int = 1
    hidden: int = 24
    learning_rate: float = 0.003
    seed: int = 0


class Sequence(NamedTuple):
    """One example to learn from: `inputs` of shape (steps, inputs) and `targets` of shape (steps, outputs)."""

    inputs: np.ndarray
    targets: np.ndarray


class Weights(NamedTuple):
    """All weights: Tensors for learning, plain arrays for predictions."""

    enter: Any  # (inputs, hidden)
    recur: Any  # (hidden, hidden)
    bias: Any  # (hidden,)
    leave: Any  # (hidden, outputs)
    offset: Any  # (outputs,)


class Published(NamedTuple):
    """The weights after `learned` sequences. The arrays are never written into, so a reader may suspend."""

    learned: int
    weights: Weights


async def run(weights: Weights, inputs: np.ndarray) -> list[Any]:
    """Return the outputs of each block of time steps, of shape (BLOCK, outputs); recorded if the weights are Tensors.

    Suspends about every millisecond, since a forward blocks the event loop as much as a backward would.
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
    """The weights and their optimizer. To learn: await `loss`, await its backward, call `step`."""

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
        """Return the mean squared error on a sequence, recorded for a backward."""
        total: Any = 0.0
        for index, block in enumerate(await run(self.weights, sequence.inputs)):
            targets = sequence.targets[index * BLOCK : (index + 1) * BLOCK]
            total = total + np.square(block - targets).sum()
        loss: ag.Tensor = total / sequence.targets.size
        return loss

    def step(self) -> None:
        """Make an optimizer step and publish the weights. It does not suspend, so no prediction sees half a step."""
        gradients = [weight.grad.numpy() for weight in self.weights]
        length = np.sqrt(sum(float(np.sum(gradient**2)) for gradient in gradients))
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = ag.tensor(gradient * min(1.0, LONGEST_GRADIENT / max(length, 1e-12)))
        self.optimizer.step()
        self.forget()
        self.published = self._publish(self.published.learned + 1)

    def forget(self) -> None:
        """Drop the gradients, for a step that is not made."""
        self.optimizer.zero_grad()

    def _publish(self, learned: int) -> Published:
        return Published(learned, Weights(*(weight.numpy().copy() for weight in self.weights)))

    def state(self) -> dict[str, Any]:
        """Return copies of everything that the next step depends on, by name, for `from_state`."""
        state: dict[str, Any] = {f"settings.{name}": value for name, value in asdict(self.settings).items()}
        state["learned"] = self.published.learned
        state |= {f"weights.{name}": array for name, array in self.published.weights._asdict().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"moments.{number}.{name}": value for name, value in moments.items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Network:
        """Return the network with a state that `state` has returned.

        Raises:
            KeyError, ValueError: it is not such a state.
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
