"""Recurrences over whole sequences, each a single node: an Elman network, a GRU and an LSTM.

A layer first multiplies all elements of a sequence by its input weights, in one product. What remains is the
recurrence, in which each step needs the hidden state of the one before. Its forward runs in place in arrays for all
steps, and its backward goes through them from the last to the first. What does not depend on the gradient is computed
for many steps at a time there, and so are the gradients of the weights.

The sigmoid is computed as `(tanh(x / 2) + 1) / 2`, so that one call of tanh serves all gates of a step.

Under `create_graph`, and for arrays of another library, the same steps are recorded operation by operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from ..context import is_grad_enabled
from ..function import Function
from ..graph.tensor_base import TensorBase
from ..graph.values import is_foreign
from .activations import relu, sigmoid
from .arguments import array_of
from .linear_maps import linear, linear_input_grad, linear_weight_grad

__all__ = ["ELMAN_RELU", "ELMAN_TANH", "GRU", "LSTM", "Cell", "recur"]

#: The bytes of gates whose factors are computed at a time, so that they are still in the cache when they are used.
CHUNK = 1 << 18


class Cell(ABC):
    """Abstract: one step of a recurrence, and all its steps in NumPy."""

    #: The number of gates: the rows of the weights, in units of the hidden size.
    gates: int
    #: The number of arrays of the state, of which the first is the hidden one.
    states = 1

    @abstractmethod
    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state, and what `step_back` needs.

        Args:
            entering: the product of the input with its weights, plus a bias; shape (n, gates * features).
            hidden: the product of the hidden state with its weights, plus a bias; of the same shape.
            state: a tuple of arrays of shape (n, features).
        """

    @abstractmethod
    def step_back(self, kept: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of `entering` and `hidden`, and of the state except by way of `hidden`."""

    @abstractmethod
    def run(self, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[Any, Any, Any]:
        """Run all steps.

        Args:
            entering: of all steps, shape (length, n, gates * features).
            weight: of the hidden state, shape (gates * features, features).
            bias: of the hidden state, or None.
            state: the initial one.

        Returns:
            The hidden states of all steps, shape (length, n, features); the rest of the last state, a tuple; and the
            arrays that `run_back` needs.
        """

    @abstractmethod
    def run_back(self, hidden: Any, kept: Any, weight: Any, state: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Go back through all steps.

        Args:
            hidden: the hidden states of all steps.
            kept: what `run` returned.
            weight: of the hidden state.
            state: the initial one.
            grads: of the hidden states of all steps, an array, and of the rest of the last state; None for zeros.

        Returns:
            The gradients of `entering` of all steps, of the hidden products of all steps, and of the initial state.
        """


def _steps_at_once(entering: Any) -> int:
    return max(1, CHUNK // max(1, entering[0].nbytes)) if len(entering) else 1


def _chunks_backward(length: int, step: int) -> list[tuple[int, int]]:
    return [(max(0, stop - step), stop) for stop in range(length, 0, -step)]


def _before(hidden: Any, first: Any, start: int, stop: int) -> Any:
    """Return the hidden states before the steps from `start` to `stop`."""
    return hidden[start - 1 : stop - 1] if start else np.concatenate((first[np.newaxis], hidden[: stop - 1]))


@final
class Elman(Cell):
    """`h' = f(x + h W + b)`, where f is tanh or relu."""

    gates = 1

    def __init__(self, *, is_relu: bool) -> None:
        self._is_relu = is_relu

    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state, twice."""
        value = (relu if self._is_relu else np.tanh)(entering + hidden)
        return (value,), value

    def step_back(self, kept: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of a step."""
        slope = (array_of(kept) > 0) if self._is_relu else 1 - kept * kept
        grad = grads[0] * slope
        return grad, grad, (None,)

    def run(self, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[Any, Any, Any]:
        """Run all steps."""
        hidden = entering.copy() if bias is None else entering + bias
        transposed, (h,) = weight.T, state
        product = np.empty_like(h)
        for row in hidden:
            np.dot(h, transposed, out=product)
            np.add(row, product, out=row)
            if self._is_relu:
                np.maximum(row, 0, out=row)
            else:
                np.tanh(row, out=row)
            h = row
        return hidden, (), ()

    def run_back(self, hidden: Any, kept: Any, weight: Any, state: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Go back through all steps."""
        every = np.empty_like(hidden)
        grad = np.zeros_like(state[0])
        given = grads[0]
        for start, stop in _chunks_backward(len(hidden), _steps_at_once(hidden)):
            part = hidden[start:stop]
            slopes = (part > 0).astype(part.dtype) if self._is_relu else 1 - part * part
            for t in range(stop - 1, start - 1, -1):
                grad += given[t]
                np.multiply(grad, slopes[t - start], out=every[t])
                np.dot(every[t], weight, out=grad)
        return every, every, (grad,)


@final
class Gru(Cell):
    """`h' = (1 - z) n + z h` with `n = tanh(x_n + r h_n)`; r and z are the sigmoids of sums of products."""

    gates = 3

    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state."""
        (h,) = state
        features = array_of(h).shape[1]
        both = sigmoid(entering[:, : 2 * features] + hidden[:, : 2 * features])
        r, z = both[:, :features], both[:, features:]
        product = hidden[:, 2 * features :]
        n = np.tanh(entering[:, 2 * features :] + r * product)
        return (n + z * (h - n),), (r, z, n, product, h)

    def step_back(self, kept: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of a step."""
        r, z, n, product, h = kept
        (grad,) = grads
        to_n = grad * (1 - z) * (1 - n * n)
        to_r, to_z = to_n * product * r * (1 - r), grad * (h - n) * z * (1 - z)
        return (
            np.concatenate((to_r, to_z, to_n), axis=1),
            np.concatenate((to_r, to_z, to_n * r), axis=1),
            (grad * z,),
        )

    def run(self, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is r, z and n in one array, and the hidden products of n."""
        (h,) = state
        (length, n), features = entering.shape[:2], h.shape[1]
        halves = np.ones(3 * features, h.dtype)
        halves[: 2 * features] = 0.5
        acts = entering * halves
        scaled = np.ascontiguousarray((weight * halves[:, np.newaxis]).T)
        hidden, products = np.empty((length, n, features), h.dtype), np.empty((length, n, features), h.dtype)
        product = np.empty((n, 3 * features), h.dtype)
        added = None if bias is None else bias * halves
        work = np.empty_like(h)
        for row, out, kept in zip(acts, hidden, products, strict=True):
            np.dot(h, scaled, out=product)
            if added is not None:
                product += added
            both, last = row[:, : 2 * features], row[:, 2 * features :]
            both += product[:, : 2 * features]
            np.tanh(both, out=both)
            both *= halves[0]
            both += halves[0]
            kept[...] = product[:, 2 * features :]
            np.multiply(kept, row[:, :features], out=work)
            last += work
            np.tanh(last, out=last)
            np.subtract(h, last, out=out)
            np.multiply(out, row[:, features : 2 * features], out=out)
            np.add(out, last, out=out)
            h = out
        return hidden, (), (acts, products)

    def run_back(self, hidden: Any, kept: Any, weight: Any, state: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Go back through all steps."""
        (acts, products), given = kept, grads[0]
        every, entered = np.empty_like(acts), np.empty_like(acts)
        features = hidden.shape[2]
        grad, work = np.zeros_like(state[0]), np.empty_like(state[0])
        for start, stop in _chunks_backward(len(hidden), _steps_at_once(acts)):
            r, z, n = (acts[start:stop, :, gate * features : (gate + 1) * features].copy() for gate in range(3))
            factors = np.empty_like(acts[start:stop])
            to_r, to_z, to_n = (factors[:, :, gate * features : (gate + 1) * features] for gate in range(3))
            fresh = (1 - z) * (1 - n * n)
            np.multiply(fresh, r, out=to_n)
            np.multiply(to_n * products[start:stop], 1 - r, out=to_r)
            np.multiply(_before(hidden, state[0], start, stop) - n, z * (1 - z), out=to_z)
            by_gate = factors.reshape(*factors.shape[:2], 3, features)
            for t in range(stop - 1, start - 1, -1):
                grad += given[t]
                row = every[t]
                np.multiply(by_gate[t - start], grad[:, np.newaxis], out=row.reshape(-1, 3, features))
                np.multiply(fresh[t - start], grad, out=entered[t, :, 2 * features :])
                np.dot(row, weight, out=work)
                grad *= z[t - start]
                grad += work
        entered[:, :, : 2 * features] = every[:, :, : 2 * features]
        return entered, every, (grad,)


@final
class Lstm(Cell):
    """`c' = f c + i g` and `h' = o tanh(c')`; i, f and o are sigmoids, and g the tanh, of sums of products."""

    gates = 4
    states = 2

    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state."""
        h, c = state
        features = array_of(h).shape[1]
        sums = entering + hidden
        i, f = sigmoid(sums[:, :features]), sigmoid(sums[:, features : 2 * features])
        g, o = np.tanh(sums[:, 2 * features : 3 * features]), sigmoid(sums[:, 3 * features :])
        cell = f * c + i * g
        squashed = np.tanh(cell)
        return (o * squashed, cell), (i, f, g, o, c, squashed)

    def step_back(self, kept: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of a step."""
        i, f, g, o, c, squashed = kept
        grad, to_cell = grads
        to_cell = to_cell + grad * o * (1 - squashed * squashed)
        sums = np.concatenate(
            (
                to_cell * g * i * (1 - i),
                to_cell * c * f * (1 - f),
                to_cell * i * (1 - g * g),
                grad * squashed * o * (1 - o),
            ),
            axis=1,
        )
        return sums, sums, (None, to_cell * f)

    def run(self, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is i, f, g and o in one array, the cells after all steps, and their tanh.

        The gates of a step lie one after the other, each an array of its own, shape (4, n, features).
        """
        h, c = state
        (length, n), features = entering.shape[:2], h.shape[1]
        # In the shape of a step, since NumPy multiplies arrays of one shape in half the time.
        halves, shifts = np.full((2, 4, n, features), 0.5, h.dtype)
        halves[2], shifts[2] = 1, 0
        sums = entering if bias is None else entering + bias
        acts = np.empty((length, 4, n, features), h.dtype)
        np.multiply(sums.reshape(length, n, 4, features).transpose(0, 2, 1, 3), halves[:, :1, :1], out=acts)
        scaled = np.multiply(weight.reshape(4, features, features).transpose(0, 2, 1), halves[:, :1, :1], order="C")
        hidden, cells, squashed = (np.empty((length, n, features), h.dtype) for _ in range(3))
        product, work = np.empty((4, n, features), h.dtype), np.empty_like(h)
        multiply, add, tanh, matmul = np.multiply, np.add, np.tanh, np.matmul
        for row, out, cell, flat in zip(acts, hidden, cells, squashed, strict=True):
            matmul(h, scaled, product)
            add(row, product, row)
            tanh(row, row)
            multiply(row, halves, row)
            add(row, shifts, row)
            i, f, g, o = row
            multiply(f, c, cell)
            add(cell, multiply(i, g, work), cell)
            multiply(o, tanh(cell, flat), out)
            h, c = out, cell
        return hidden, (c,), (acts, cells, squashed)

    def run_back(self, hidden: Any, kept: Any, weight: Any, state: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Go back through all steps."""
        (acts, cells, squashed), (given, to_last) = kept, grads
        length, n, features = hidden.shape
        every = np.empty((length, n, 4 * features), hidden.dtype)
        by_gate = every.reshape(length, n, 4, features).transpose(0, 2, 1, 3)
        grad, work = np.zeros_like(state[0]), np.empty_like(state[0])
        to_cell = np.zeros_like(state[1]) if to_last is None else to_last.copy()
        multiply, add, dot = np.multiply, np.add, np.dot
        for start, stop in _chunks_backward(length, _steps_at_once(every)):
            i, f, g, o = acts[start:stop].swapaxes(0, 1)
            factors = np.empty((stop - start, 4, n, features), hidden.dtype)
            to_i, to_f, to_g, to_o = factors.swapaxes(0, 1)
            flat = squashed[start:stop]
            through = 1 - flat * flat
            through *= o
            multiply(1 - i, i * g, to_i)
            multiply(1 - f, f, to_f)
            to_f *= _before(cells, state[1], start, stop)
            multiply(1 - g * g, i, to_g)
            multiply(1 - o, o, to_o)
            to_o *= flat
            steps = zip(given[start:stop], factors, through, f, every[start:stop], by_gate[start:stop], strict=True)
            for to_hidden, factor, share, kept_share, row, gates in reversed([*steps]):
                add(grad, to_hidden, grad)
                add(to_cell, multiply(share, grad, work), to_cell)
                multiply(factor[:3], to_cell, gates[:3])
                multiply(factor[3], grad, gates[3])
                multiply(to_cell, kept_share, to_cell)
                dot(row, weight, grad)
        return every, every, (grad, to_cell)


ELMAN_TANH, ELMAN_RELU = Elman(is_relu=False), Elman(is_relu=True)
GRU, LSTM = Gru(), Lstm()


# The same steps, one operation at a time.


def _run_by_steps(cell: Cell, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[list[Any], Any, list[Any]]:
    """Return the states before each step and after the last, those that follow, and what each step kept."""
    states, kept = [tuple(state)], []
    for t in range(array_of(entering).shape[0]):
        after, one = cell.step(entering[t], linear(states[-1][0], weight, bias), states[-1])
        states.append(after)
        kept.append(one)
    return states, states[-1][1:], kept


def _gradients_by_steps(
    cell: Cell, entering: Any, weight: Any, bias: Any, state: Any, given: Any, to_rest: Any
) -> tuple[Any, ...]:
    """Return the gradients of `entering`, the weight, the bias and the initial state, as functions of all of these."""
    states, _, kept = _run_by_steps(cell, entering, weight, bias, state)
    entered: list[Any] = []
    projected: list[Any] = []
    grads: tuple[Any, ...] = tuple(np.zeros_like(array_of(one)) for one in state)
    grads = (grads[0], *(zero if to is None else to for zero, to in zip(grads[1:], to_rest, strict=True)))
    for t in reversed(range(len(kept))):
        hidden = grads[0] if given is None else grads[0] + given[t]
        one, product, before = cell.step_back(kept[t], (hidden, *grads[1:]))
        entered.append(one)
        projected.append(product)
        back = linear_input_grad(product, weight)
        grads = (back if before[0] is None else back + before[0], *before[1:])
    products = np.stack(projected[::-1])
    to_weight = linear_weight_grad(products, np.stack([one[0] for one in states[:-1]]))
    to_bias = None if bias is None else np.sum(products, axis=(0, 1))
    return np.stack(entered[::-1]), to_weight, to_bias, *grads


@final
class Recurrence(Function):
    """All steps of a recurrence."""

    is_traceable = True

    @staticmethod
    def forward(ctx: Any, cell: Cell, entering: Any, weight: Any, bias: Any, *state: Any) -> tuple[Any, ...]:
        """Return the hidden states of all steps, and the rest of the last state."""
        arrays = [None if one is None else array_of(one) for one in (entering, weight, bias, *state)]
        hidden, rest, kept = cell.run(arrays[0], arrays[1], arrays[2], tuple(arrays[3:]))
        ctx.cell, ctx.count, ctx.has_bias = cell, len(state), bias is not None
        ctx.set_materialize_grads(False)
        # A copy, since the last cells are also saved.
        rest = tuple(one.copy() for one in rest)
        ctx.save_for_backward(entering, weight, bias, *state, hidden, *kept)
        return (hidden, *rest)

    @staticmethod
    def backward(ctx: Any, given: Any, *to_rest: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments."""
        cell, saved = ctx.cell, ctx.saved_tensors
        end = 3 + ctx.count
        entering, weight, bias = saved[:3]
        if is_grad_enabled():
            found = None, *_gradients_by_steps(cell, entering, weight, bias, saved[3:end], given, to_rest)
            return tuple(one if needed else None for one, needed in zip(found, ctx.needs_input_grad, strict=True))
        hidden, *kept = (one._data for one in saved[end:])
        state = tuple(one._data for one in saved[3:end])
        grads = (np.zeros_like(hidden) if given is None else array_of(given),)
        grads += tuple(None if to is None else array_of(to) for to in to_rest)
        entered, products, to_state = cell.run_back(hidden, kept, weight._data, state, grads)
        needs = ctx.needs_input_grad
        flat = products.reshape(-1, products.shape[2])
        to_weight = to_bias = None
        if needs[2]:
            before = _before(hidden, state[0], 0, len(hidden))
            to_weight = flat.T.dot(before.reshape(len(flat), -1))
        if needs[3]:
            to_bias = np.ones(len(flat), flat.dtype).dot(flat)
        found = None, entered, to_weight, to_bias, *to_state
        return tuple(one if needed else None for one, needed in zip(found, needs, strict=True))


def recur(cell: Cell, entering: Any, weight: Any, bias: Any, state: Any) -> tuple[Any, ...]:
    """Run a recurrence over a sequence of at least one element.

    Args:
        cell: the kind of step.
        entering: the products of the inputs with their weights, plus a bias; shape (length, n, gates * features).
        weight: of the hidden state, shape (gates * features, features).
        bias: of the hidden state, shape (gates * features,), or None.
        state: the initial state, a tuple of arrays of shape (n, features), all of the dtype of `entering`.

    Returns:
        The hidden states of all steps, shape (length, n, features), and the rest of the last state.
    """
    given = (entering, weight, bias, *state)
    arrays = [None if one is None else array_of(one) for one in given]
    if is_foreign(arrays[0]):
        states, rest, _ = _run_by_steps(cell, entering, weight, bias, state)
        return np.stack([one[0] for one in states[1:]]), *rest
    if not any(isinstance(one, TensorBase) for one in given):
        hidden, rest, _ = cell.run(arrays[0], arrays[1], arrays[2], tuple(arrays[3:]))
        return hidden, *rest
    result: tuple[Any, ...] = Recurrence.apply(cell, entering, weight, bias, *state)
    return result
