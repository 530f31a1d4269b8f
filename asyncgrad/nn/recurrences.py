"""Recurrences over whole sequences, each a single node: an Elman network, a GRU and an LSTM.

All elements of a sequence are first multiplied by the input weights, in one product. What remains is the recurrence,
in which each step needs the hidden state of the one before. Its forward runs in place in arrays for all steps, and its
backward goes through them from the last to the first. What does not depend on the gradient is computed for many steps
at a time there, and so are the gradients of the weights.

The sigmoid is computed as `(tanh(x / 2) + 1) / 2`, so that one call of tanh serves all gates of a step. In double
precision NumPy's tanh takes three times as long as its exp, so there the sigmoid is `1 / (1 + exp(-x))` and tanh
`2 / (1 + exp(-2 x)) - 1`. The weights are multiplied by these factors of x, -2 and -1 or 1/2, ahead of the products.

Under `create_graph`, and for arrays of another library, the same steps are recorded operation by operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, final

import numpy as np

from ..context import is_grad_enabled
from ..function import Function
from ..graph.tensor_base import TensorBase
from ..graph.values import is_foreign
from .activations import relu, sigmoid
from .arguments import array_of
from .linear_maps import linear, linear_input_grad, linear_weight_grad

__all__ = ["ELMAN_RELU", "ELMAN_TANH", "GRU", "LSTM", "Cell", "Weights", "recur"]

#: The bytes of gates whose factors are computed at a time, so that they are still in the cache when they are used.
CHUNK = 1 << 18

#: The numbers in the gates of a step from which on exp in the place of tanh is worth its additional calls.
_BY_EXP = 1024


class Weights(NamedTuple):
    """The weights of one layer in one direction."""

    #: Of the input, shape (gates * features, inputs).
    to_input: Any
    #: Of the hidden state, shape (gates * features, size of the hidden state).
    to_hidden: Any
    #: Both of shape (gates * features,), or None.
    input_bias: Any = None
    hidden_bias: Any = None
    #: Of an LSTM whose hidden state is smaller than its cells, shape (size of the hidden state, features); else None.
    projection: Any = None


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

    def scales(self, n: int, features: int, dtype: Any) -> Any:
        """Return what the weights and biases of each gate are multiplied by; None for nothing."""
        return None

    @abstractmethod
    def run(self, sums: Any, weight: Any, bias: Any, scales: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps.

        Args:
            sums: the products of the inputs with their weights, plus a bias, of all steps; shape
                (length, n, gates * features). It is written into, and may become part of the result.
            weight: of the hidden state, transposed: shape (size of the hidden state, gates * features).
            bias: of the hidden state, or None.
            scales: what `scales` returned, by which all of these have been multiplied.
            state: the initial one.
            projection: see Weights.

        Returns:
            The hidden states of all steps, shape (length, n, features); the rest of the last state, a tuple; and the
            arrays that `run_back` needs.
        """

    @abstractmethod
    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
        """Go back through all steps.

        Args:
            hidden: the hidden states of all steps.
            kept: what `run` returned.
            weights: arrays.
            state: the initial one.
            grads: of the hidden states of all steps, an array, and of the rest of the last state; None for zeros.

        Returns:
            The gradients of the input products of all steps, of the hidden products of all steps, and of the initial
            state; and that of the projection, or None.
        """


def _is_by_exp(n: int, rows: int, dtype: Any) -> bool:
    return bool(dtype == np.float64 and n * rows >= _BY_EXP)


def _sigmoid_of_half(x: Any) -> None:
    """Replace x / 2 by the sigmoid of x."""
    half = np.asarray(0.5, x.dtype)
    np.add(np.multiply(np.tanh(x, x), half, x), half, x)


def _sigmoid_of_negative(x: Any) -> None:
    """Replace -x by the sigmoid of x."""
    np.reciprocal(np.add(np.exp(x, x), _ONE, x), x)


def _tanh_by_exp(x: Any, out: Any) -> Any:
    """Write tanh(x) into an array, which may be x."""
    np.exp(np.multiply(x, _MINUS_TWO, out), out)
    return np.subtract(np.divide(_TWO, np.add(out, _ONE, out), out), _ONE, out)


_ONE, _TWO, _MINUS_TWO = (np.asarray(number) for number in (1.0, 2.0, -2.0))


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

    def run(self, sums: Any, weight: Any, bias: Any, scales: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps."""
        (h,) = state
        zeros = np.zeros_like(h)
        # NumPy uses vector instructions for a maximum with an array of zeros, but not with the number 0.
        product, by_exp = np.empty_like(h), _is_by_exp(*h.shape, h.dtype)
        add, dot, tanh, maximum = np.add, np.dot, _tanh_by_exp if by_exp else np.tanh, np.maximum
        for row in sums:
            add(row, dot(h, weight, product), row)
            if self._is_relu:
                maximum(row, zeros, out=row)
            else:
                tanh(row, row)
            h = row
        return sums, (), ()

    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
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
                np.dot(every[t], weights.to_hidden, out=grad)
        return every, every, (grad,), None


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

    def scales(self, n: int, features: int, dtype: Any) -> Any:
        """Return -1 or 1/2 for r and z, and 1 for n."""
        scales = np.ones(3 * features, dtype)
        scales[: 2 * features] = -1 if _is_by_exp(n, 3 * features, dtype) else 0.5
        return scales

    def run(self, sums: Any, weight: Any, bias: Any, scales: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is r, z and n in one array, and the hidden products of n."""
        (h,) = state
        (length, n), features = sums.shape[:2], h.shape[1]
        by_exp = scales[0] < 0
        sigmoid_of, tanh = (_sigmoid_of_negative, _tanh_by_exp) if by_exp else (_sigmoid_of_half, np.tanh)
        hidden, products = np.empty((length, n, features), h.dtype), np.empty((length, n, features), h.dtype)
        product, work = np.empty((n, 3 * features), h.dtype), np.empty_like(h)
        to_both, to_last = product[:, : 2 * features], product[:, 2 * features :]
        r, z, last = (sums[:, :, gate * features : (gate + 1) * features] for gate in range(3))
        add, subtract, multiply, dot = np.add, np.subtract, np.multiply, np.dot
        for both, reset, update, fresh, out, kept in zip(
            sums[:, :, : 2 * features], r, z, last, hidden, products, strict=True
        ):
            dot(h, weight, product)
            if bias is not None:
                add(product, bias, product)
            add(both, to_both, both)
            sigmoid_of(both)
            kept[...] = to_last
            add(fresh, multiply(kept, reset, work), fresh)
            tanh(fresh, fresh)
            subtract(h, fresh, out)
            add(multiply(out, update, out), fresh, out)
            h = out
        return hidden, (), (sums, products)

    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
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
                np.dot(row, weights.to_hidden, out=work)
                grad *= z[t - start]
                grad += work
        entered[:, :, : 2 * features] = every[:, :, : 2 * features]
        return entered, every, (grad,), None


@final
class Lstm(Cell):
    """`c' = f c + i g` and `h' = o tanh(c')`; i, f and o are sigmoids, and g the tanh, of sums of products."""

    gates = 4
    states = 2

    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state."""
        _, c = state
        features = array_of(c).shape[1]
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

    def scales(self, n: int, features: int, dtype: Any) -> Any:
        """Return -1 or 1/2 for i, f and o, and -2 or 1 for g."""
        by_exp = _is_by_exp(n, 4 * features, dtype)
        scales = np.full(4 * features, -1 if by_exp else 0.5, dtype)
        scales[2 * features : 3 * features] = -2 if by_exp else 1
        return scales

    def run(self, sums: Any, weight: Any, bias: Any, scales: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is i, f, g and o in one array, the cells after all steps, and their tanh."""
        h, c = state
        (length, n), features = sums.shape[:2], c.shape[1]
        hidden, cells = np.empty((length, *h.shape), h.dtype), np.empty((length, *c.shape), h.dtype)
        squashed = np.empty_like(cells)
        product, work, raw = np.empty((n, 4 * features), h.dtype), np.empty_like(c), np.empty_like(c)
        # In the shape of a step, since NumPy multiplies arrays of one shape in half the time.
        halves, shifts = np.full((2, n, 4 * features), 0.5, h.dtype)
        halves[:, 2 * features : 3 * features], shifts[:, 2 * features : 3 * features] = 1, 0
        gates = (sums[:, :, gate * features : (gate + 1) * features] for gate in range(4))
        by_exp, onto = scales[0] < 0, None if projection is None else projection.T
        multiply, add, subtract, dot = np.multiply, np.add, np.subtract, np.dot
        tanh = _tanh_by_exp if by_exp else np.tanh
        for row, i, f, g, o, out, cell, flat in zip(sums, *gates, hidden, cells, squashed, strict=True):
            add(row, dot(h, weight, product), row)
            if by_exp:
                _sigmoid_of_negative(row)
                subtract(multiply(g, _TWO, g), _ONE, g)
            else:
                tanh(row, row)
                multiply(row, halves, row)
                add(row, shifts, row)
            multiply(f, c, cell)
            add(cell, multiply(i, g, work), cell)
            if onto is None:
                multiply(o, tanh(cell, flat), out)
            else:
                dot(multiply(o, tanh(cell, flat), raw), onto, out)
            h, c = out, cell
        return hidden, (c,), (sums, cells, squashed)

    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
        """Go back through all steps."""
        (acts, cells, squashed), (given, to_last) = kept, grads
        length, n, features = cells.shape
        weight, projection = weights.to_hidden, weights.projection
        every = np.empty((length, n, 4 * features), hidden.dtype)
        grad, work = np.zeros_like(state[0]), np.empty_like(state[1])
        to_cell = np.zeros_like(state[1]) if to_last is None else to_last.copy()
        # The gradients of the hidden states before and after the projection, of which the latter are kept.
        raw, to_hiddens = (grad, None) if projection is None else (np.empty_like(to_cell), np.empty_like(hidden))
        multiply, add, dot, to_gates = np.multiply, np.add, np.dot, to_cell[:, np.newaxis]
        for start, stop in _chunks_backward(length, _steps_at_once(every)):
            factors, through, f = self._factors(acts, cells, squashed, state[1], start, stop)
            # The first three gates lead to the cell, and the last to the hidden state.
            by_gate = every[start:stop].reshape(stop - start, n, 4, features)
            inner, outer = by_gate[:, :, :3], by_gate[:, :, 3]
            steps = zip(
                given[start:stop], factors[:, :, :3], factors[:, :, 3], through, f, every[start:stop], inner, outer,
                range(start, stop), strict=True,
            )  # fmt: skip
            for to_hidden, factor, last, share, kept_share, row, to_inner, to_outer, t in reversed([*steps]):
                add(grad, to_hidden, grad)
                if to_hiddens is not None:
                    to_hiddens[t] = grad
                    dot(grad, projection, raw)
                add(to_cell, multiply(share, raw, work), to_cell)
                multiply(factor, to_gates, to_inner)
                multiply(last, raw, to_outer)
                multiply(to_cell, kept_share, to_cell)
                dot(row, weight, grad)
        to_projection = None
        if to_hiddens is not None:
            raws = acts[:, :, 3 * features :] * squashed
            to_projection = to_hiddens.reshape(length * n, len(projection)).T.dot(raws.reshape(length * n, features))
        return every, every, (grad, to_cell), to_projection

    @staticmethod
    def _factors(acts: Any, cells: Any, squashed: Any, first: Any, start: int, stop: int) -> tuple[Any, Any, Any]:
        """Return what gradients are multiplied by: for the gates, from hidden states to cells, and along the cells.

        The first has the shape (steps, n, 4, features).
        """
        n, features = first.shape
        gates = acts[start:stop].reshape(stop - start, n, 4, features)
        i, f, g, o = (gates[:, :, gate] for gate in range(4))
        factors = np.empty_like(gates)
        to_i, to_f, to_g, to_o = (factors[:, :, gate] for gate in range(4))
        flat = squashed[start:stop]
        through = 1 - flat * flat
        through *= o
        np.multiply(1 - i, i * g, to_i)
        np.multiply(1 - f, f, to_f)
        to_f *= _before(cells, first, start, stop)
        np.multiply(1 - g * g, i, to_g)
        np.multiply(1 - o, o, to_o)
        to_o *= flat
        return factors, through, f


ELMAN_TANH, ELMAN_RELU = Elman(is_relu=False), Elman(is_relu=True)
GRU, LSTM = Gru(), Lstm()


def _run_in_arrays(cell: Cell, x: Any, weights: Weights, state: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return what `cell.run` returns for an input, shape (length, n, inputs)."""
    length, n, inputs = x.shape
    to_input, to_hidden, bias, added, projection = weights
    features = len(to_hidden) // cell.gates
    if bias is not None and cell.gates != 3:
        # The candidate of a GRU alone has the biases in different places.
        bias, added = bias + added, None
    scales = cell.scales(n, features, x.dtype)
    if scales is not None:
        to_input, to_hidden = to_input * scales[:, np.newaxis], to_hidden * scales[:, np.newaxis]
        bias, added = (None if one is None else one * scales for one in (bias, added))
    sums = x.reshape(length * n, inputs).dot(to_input.T)
    if bias is not None:
        sums += bias
    sums = sums.reshape(length, n, len(to_hidden))
    with np.errstate(over="ignore", under="ignore"):
        return cell.run(sums, np.ascontiguousarray(to_hidden.T), added, scales, state, projection)


def _gradients_in_arrays(
    cell: Cell, x: Any, weights: Weights, state: Any, hidden: Any, kept: Any, grads: Any, needs: Any
) -> tuple[Any, ...]:
    """Return the gradients of x, the weights and the initial state, as far as they are needed."""
    entered, products, to_state, to_projection = cell.run_back(hidden, kept, weights, state, grads)
    length, n, rows = entered.shape
    flat, flat_hidden = (one.reshape(length * n, rows) for one in (entered, products))
    found: list[Any] = [None] * 5
    if needs[0]:
        found[0] = flat.dot(weights.to_input).reshape(x.shape)
    if needs[1]:
        found[1] = flat.T.dot(x.reshape(length * n, x.shape[2]))
    if needs[2]:
        before = hidden[:-1].reshape(length * n - n, hidden.shape[2])
        found[2] = flat_hidden[n:].T.dot(before)
        found[2] += flat_hidden[:n].T.dot(state[0])
    ones = np.ones(length * n, flat.dtype)
    for number, one in ((3, flat), (4, flat_hidden)):
        if needs[number]:
            found[number] = ones.dot(one)
    return *found, to_projection, *to_state


# The same steps, one operation at a time.


@final
class _Steps:
    """A recurrence as recorded operations: what each step found."""

    __slots__ = ("kept", "raws", "states")

    def __init__(self, cell: Cell, x: Any, weights: Weights, state: tuple[Any, ...]) -> None:
        to_input, to_hidden, bias, added, projection = weights
        entering = linear(x, to_input, bias)
        #: The states before each step and after the last.
        self.states = [state]
        #: What `cell.step_back` needs.
        self.kept: list[Any] = []
        #: The hidden states before their projection.
        self.raws: list[Any] = []
        for t in range(array_of(x).shape[0]):
            after, kept = cell.step(entering[t], linear(self.states[-1][0], to_hidden, added), self.states[-1])
            self.kept.append(kept)
            if projection is not None:
                self.raws.append(after[0])
                after = linear(after[0], projection, None), *after[1:]
            self.states.append(after)


def _gradients_by_steps(cell: Cell, x: Any, weights: Weights, state: Any, given: Any, to_rest: Any) -> tuple[Any, ...]:
    """Return the gradients of x, the weights and the initial state, as functions of all of these."""
    steps = _Steps(cell, x, weights, state)
    to_input, to_hidden, bias, added, projection = weights
    entered, projected, to_hiddens = [], [], []
    grads: tuple[Any, ...] = tuple(np.zeros_like(array_of(one)) for one in state)
    grads = (grads[0], *(zero if to is None else to for zero, to in zip(grads[1:], to_rest, strict=True)))
    for t in reversed(range(len(steps.kept))):
        hidden = grads[0] if given is None else grads[0] + given[t]
        if projection is not None:
            to_hiddens.append(hidden)
            hidden = linear_input_grad(hidden, projection)
        one, product, before = cell.step_back(steps.kept[t], (hidden, *grads[1:]))
        entered.append(one)
        projected.append(product)
        back = linear_input_grad(product, to_hidden)
        grads = (back if before[0] is None else back + before[0], *before[1:])
    sums, products = np.stack(entered[::-1]), np.stack(projected[::-1])
    return (
        linear_input_grad(sums, to_input),
        linear_weight_grad(sums, x),
        linear_weight_grad(products, np.stack([one[0] for one in steps.states[:-1]])),
        None if bias is None else np.sum(sums, axis=(0, 1)),
        None if added is None else np.sum(products, axis=(0, 1)),
        None if projection is None else linear_weight_grad(np.stack(to_hiddens[::-1]), np.stack(steps.raws)),
        *grads,
    )


@final
class Recurrence(Function):
    """All steps of a recurrence."""

    is_traceable = True

    @staticmethod
    def forward(ctx: Any, cell: Cell, x: Any, *rest: Any) -> tuple[Any, ...]:
        """Return the hidden states of all steps, and the rest of the last state."""
        arrays = [None if one is None else array_of(one) for one in (x, *rest)]
        hidden, last, kept = _run_in_arrays(cell, arrays[0], Weights(*arrays[1:6]), tuple(arrays[6:]))
        ctx.cell = cell
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, *rest, hidden, *kept)
        # A copy, since the last cells are also saved.
        return (hidden, *(one.copy() for one in last))

    @staticmethod
    def backward(ctx: Any, given: Any, *to_rest: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments."""
        cell, saved, needs = ctx.cell, ctx.saved_tensors, ctx.needs_input_grad[1:]
        end = 6 + cell.states
        if is_grad_enabled():
            found = _gradients_by_steps(cell, saved[0], Weights(*saved[1:6]), saved[6:end], given, to_rest)
        else:
            arrays = [None if one is None else one._data for one in saved]
            hidden, *kept = arrays[end:]
            grads = (np.zeros_like(hidden) if given is None else array_of(given),)
            grads += tuple(None if to is None else array_of(to) for to in to_rest)
            weights, state = Weights(*arrays[1:6]), tuple(arrays[6:end])
            found = _gradients_in_arrays(cell, arrays[0], weights, state, hidden, kept, grads, needs)
        return None, *(one if needed else None for one, needed in zip(found, needs, strict=True))


def recur(cell: Cell, x: Any, weights: Weights, state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run a recurrence over a sequence of at least one element.

    Args:
        cell: the kind of step.
        x: the inputs, shape (length, n, inputs).
        weights: both biases, or none.
        state: the initial state, arrays of shape (n, features).

    All have one dtype.

    Returns:
        The hidden states of all steps, shape (length, n, features), and the rest of the last state.
    """
    if is_foreign(array_of(x)):
        states = _Steps(cell, x, weights, state).states
        return np.stack([one[0] for one in states[1:]]), *states[-1][1:]
    given = (x, *weights, *state)
    if not any(isinstance(one, TensorBase) for one in given):
        hidden, rest, _ = _run_in_arrays(cell, x, weights, state)
        return hidden, *rest
    result: tuple[Any, ...] = Recurrence.apply(cell, *given)
    return result
