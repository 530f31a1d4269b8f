"""Recurrences over whole sequences, each a single node: an Elman network, a GRU and an LSTM.

All elements of a sequence are first multiplied by the input weights, in one product. What remains is the recurrence,
in which each step needs the hidden state of the one before. Its forward runs in place in arrays for all steps, and its
backward goes through them from the last to the first. What does not depend on the gradient is computed for many steps
at a time there, and so are the gradients of the weights.

Arrays of a step are transposed, shape (features, n), so that each gate is one piece of memory, on which NumPy is
several times as fast as on a part of each row. The sigmoid is `1 / (1 + exp(-x))`; the weights of its gates are
negated ahead of the products. In double precision NumPy's tanh takes three times as long as its exp, so there tanh is
`2 / (1 + exp(-2 x)) - 1` if the arrays are large.

A device may register what runs a recurrence on its arrays, under the name "recurrence". Under
`create_graph`, and for arrays of a library that has none, the same steps are recorded operation by operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ...core.arrays.device_functions import own_function
from ...core.arrays.one_device import check_operands_share_device
from ...core.arrays.tensor_base import TensorBase
from ...core.arrays.values import contiguous, is_device_array
from ...core.function.function import Function
from ...core.settings.context import is_grad_enabled
from ..shared.arguments import array_of
from ..shared.rows import leading_sum
from .activations import relu, sigmoid
from .linear import linear, linear_input_grad, linear_weight_grad

if TYPE_CHECKING:
    from ...core.arrays.array import Array


__all__ = ["ELMAN_RELU", "ELMAN_TANH", "GRU", "LSTM", "Cell", "Weights", "recur"]

#: The bytes of gates whose factors are computed at a time, so that they are still in the cache when they are used.
CHUNK = 1 << 18

#: The numbers in an array from which on exp in the place of tanh is worth its additional calls.
_BY_EXP = 512


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

    #: By which a device knows the cell.
    name: str
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

    def prepared(self, weight: Any) -> Any:
        """Return a weight or a bias as `run` takes it."""
        return weight

    @abstractmethod
    def run(self, sums: Any, weight: Any, bias: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps, in transposed arrays.

        Args:
            sums: the products of the inputs with their weights, plus a bias, of all steps; shape
                (length, gates * features, n). It is written into, and may become part of the result.
            weight: of the hidden state, prepared.
            bias: of the hidden state, prepared, shape (gates * features, n); or None.
            state: the initial one.
            projection: see Weights.

        Returns:
            The hidden states of all steps, shape (length, features, n); the rest of the last state, a tuple; and the
            arrays that `run_back` needs.
        """

    @abstractmethod
    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
        """Go back through all steps, in transposed arrays.

        Args:
            hidden: the hidden states of all steps.
            kept: what `run` returned.
            weights: as they are.
            state: the initial one.
            grads: of the hidden states of all steps, an array, and of the rest of the last state; None for zeros.

        Returns:
            The gradients of the input products of all steps, of the hidden products of all steps, and of the initial
            state; and that of the projection, or None.
        """


def _sigmoid_of_negative(x: Any) -> None:
    """Replace -x by the sigmoid of x."""
    np.reciprocal(np.add(np.exp(x, x), np.asarray(1, x.dtype), x), x)


def _tanh_like(x: Array) -> Any:
    """Return the fastest tanh for arrays like x, a function of an array and of one to write into."""
    return _tanh_by_exp if x.dtype == np.float64 and x.size >= _BY_EXP else np.tanh


def _tanh_by_exp(x: Any, out: Any) -> Any:
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
        self.name = "relu" if is_relu else "tanh"

    def step(self, entering: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        """Return the next state, twice."""
        value = (relu if self._is_relu else np.tanh)(entering + hidden)
        return (value,), value

    def step_back(self, kept: Any, grads: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of a step."""
        # Of NaN it is 1, as that of nn.relu.
        slope = np.logical_not(array_of(kept) <= 0) if self._is_relu else 1 - kept * kept
        grad = grads[0] * slope
        return grad, grad, (None,)

    def run(self, sums: Any, weight: Any, bias: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps."""
        (h,) = state
        # NumPy uses vector instructions for a maximum with an array of zeros, but not with the number 0.
        product, zeros = np.empty_like(h), np.zeros_like(h)
        add, dot, tanh, maximum = np.add, weight.dot, _tanh_like(h), np.maximum
        for row in sums:
            add(row, dot(h, product), row)
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
        given, add, multiply, dot = grads[0], np.add, np.multiply, contiguous(weights.to_hidden.T).dot
        for start, stop in _chunks_backward(len(hidden), _steps_at_once(hidden)):
            part = hidden[start:stop]
            slopes = (~(part <= 0)).astype(part.dtype) if self._is_relu else 1 - part * part
            for t in range(stop - 1, start - 1, -1):
                add(grad, given[t], grad)
                dot(multiply(grad, slopes[t - start], every[t]), grad)
        return every, every, (grad,), None


@final
class Gru(Cell):
    """`h' = (1 - z) n + z h` with `n = tanh(x_n + r h_n)`; r and z are the sigmoids of sums of products."""

    name = "gru"
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

    def prepared(self, weight: Any) -> Any:
        """Return a weight or a bias, negative for r and z."""
        last = len(weight) // 3 * 2
        return np.concatenate((-weight[:last], weight[last:]))

    def run(self, sums: Any, weight: Any, bias: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is r, z and n in one array, and the hidden products of n."""
        (h,) = state
        features, last = len(h), 2 * len(h)
        hidden, products = (np.empty_like(h, order="C", shape=(len(sums), *h.shape)) for _ in range(2))
        product, work = np.empty_like(sums[0]), np.empty_like(h)
        to_both, to_fresh = product[:last], product[last:]
        parts = sums[:, :last], sums[:, :features], sums[:, features:last], sums[:, last:]
        add, subtract, multiply, dot, tanh = np.add, np.subtract, np.multiply, weight.dot, _tanh_like(h)
        for both, r, z, fresh, out, kept in zip(*parts, hidden, products, strict=True):
            dot(h, product)
            if bias is not None:
                add(product, bias, product)
            add(both, to_both, both)
            _sigmoid_of_negative(both)
            kept[...] = to_fresh
            add(fresh, multiply(kept, r, work), fresh)
            tanh(fresh, fresh)
            subtract(h, fresh, out)
            add(multiply(out, z, out), fresh, out)
            h = out
        return hidden, (), (sums, products)

    def run_back(self, hidden: Array, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
        """Go back through all steps."""
        (acts, products), given = kept, grads[0]
        every, entered = np.empty_like(acts), np.empty_like(acts)
        length, features, n = hidden.shape
        by_gate = every.reshape(length, 3, features, n)
        grad, work = np.zeros_like(state[0]), np.empty_like(state[0])
        add, multiply, dot = np.add, np.multiply, contiguous(weights.to_hidden.T).dot
        for start, stop in _chunks_backward(length, _steps_at_once(acts)):
            r, z, new = acts[start:stop].reshape(stop - start, 3, features, n).swapaxes(0, 1)
            factors = np.empty_like(acts, order="C", shape=(stop - start, 3, features, n))
            to_r, to_z, to_n = factors.swapaxes(0, 1)
            fresh = (1 - z) * (1 - new * new)
            multiply(fresh, r, to_n)
            multiply(to_n * products[start:stop], 1 - r, to_r)
            multiply(_before(hidden, state[0], start, stop) - new, z * (1 - z), to_z)
            for t in range(stop - 1, start - 1, -1):
                add(grad, given[t], grad)
                multiply(factors[t - start], grad, by_gate[t])
                multiply(fresh[t - start], grad, entered[t, 2 * features :])
                dot(every[t], work)
                multiply(grad, z[t - start], grad)
                add(grad, work, grad)
        entered[:, : 2 * features] = every[:, : 2 * features]
        return entered, every, (grad,), None


@final
class Lstm(Cell):
    """`c' = f c + i g` and `h' = o tanh(c')`; i, f and o are sigmoids, and g the tanh, of sums of products."""

    name = "lstm"
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

    def prepared(self, weight: Any) -> Any:
        """Return a weight or a bias with the gates in the order i, f, o and g, the first three negative."""
        features = len(weight) // 4
        g = weight[2 * features : 3 * features]
        return np.concatenate((-weight[: 2 * features], -weight[3 * features :], g))

    def run(self, sums: Any, weight: Any, bias: Any, state: Any, projection: Any) -> tuple[Any, Any, Any]:
        """Run all steps; what is kept is i, f, o and g in one array, the cells after all steps, and their tanh."""
        h, c = state
        length, features = len(sums), len(c)
        hidden = np.empty_like(h, order="C", shape=(length, *h.shape))
        cells = np.empty_like(h, order="C", shape=(length, *c.shape))
        squashed = np.empty_like(cells)
        product, work, raw = np.empty_like(sums[0]), np.empty_like(c), np.empty_like(c)
        i, f, o, g = (sums[:, gate * features : (gate + 1) * features] for gate in range(4))
        multiply, add, dot, tanh = np.multiply, np.add, weight.dot, _tanh_like(c)
        exp, reciprocal, one = np.exp, np.reciprocal, np.asarray(1, h.dtype)
        steps = zip(sums, sums[:, : 3 * features], i, f, o, g, hidden, cells, squashed, strict=True)
        for row, three, to_i, to_f, to_o, to_g, out, cell, flat in steps:
            add(row, dot(h, product), row)
            reciprocal(add(exp(three, three), one, three), three)
            tanh(to_g, to_g)
            multiply(to_f, c, cell)
            add(cell, multiply(to_i, to_g, work), cell)
            if projection is None:
                multiply(to_o, tanh(cell, flat), out)
            else:
                projection.dot(multiply(to_o, tanh(cell, flat), raw), out)
            h, c = out, cell
        return hidden, (c,), (sums, cells, squashed)

    def run_back(self, hidden: Any, kept: Any, weights: Weights, state: Any, grads: Any) -> tuple[Any, ...]:
        """Go back through all steps."""
        (acts, cells, squashed), (given, to_last) = kept, grads
        length, features, n = cells.shape
        every = np.empty_like(acts)
        by_gate = every.reshape(length, 4, features, n)
        grad, work = np.zeros_like(state[0]), np.empty_like(state[1])
        to_cell = np.zeros_like(state[1]) if to_last is None else to_last.copy()
        # The gradients of the hidden states before and after the projection, of which the latter are kept.
        raw = grad
        to_hiddens: Any = None
        onto: Any = None
        if weights.projection is not None:
            raw, to_hiddens = np.empty_like(to_cell), np.empty_like(hidden)
            onto = contiguous(weights.projection.T)
        multiply, add, dot = np.multiply, np.add, contiguous(weights.to_hidden.T).dot
        for start, stop in _chunks_backward(length, _steps_at_once(every)):
            factors, through, f = self._factors(acts, cells, squashed, state[1], start, stop)
            rows, inner, outer = every[start:stop], by_gate[start:stop, :3], by_gate[start:stop, 3]
            parts = range(start, stop), given[start:stop], factors[:, :3], factors[:, 3], through, f, rows, inner, outer
            steps = zip(*parts, strict=True)
            for t, to_hidden, factor, last, share, kept_share, row, to_inner, to_outer in reversed([*steps]):
                add(grad, to_hidden, grad)
                if onto is not None:
                    to_hiddens[t] = grad
                    onto.dot(grad, raw)
                add(to_cell, multiply(share, raw, work), to_cell)
                # The first three gates lead to the cell, and the last to the hidden state.
                multiply(factor, to_cell, to_inner)
                multiply(last, raw, to_outer)
                multiply(to_cell, kept_share, to_cell)
                dot(row, grad)
        to_projection = None
        if to_hiddens is not None:
            raws = acts[:, 2 * features : 3 * features] * squashed
            to_projection = _side_by_side(to_hiddens).dot(_side_by_side(raws).T)
        return every, every, (grad, to_cell), to_projection

    @staticmethod
    def _factors(acts: Any, cells: Any, squashed: Any, first: Any, start: int, stop: int) -> tuple[Any, Any, Any]:
        """Return what gradients are multiplied by: for the gates, from hidden states to cells, and along the cells.

        The first has the shape (steps, 4, features, n), with the gates in PyTorch's order.
        """
        shape = stop - start, 4, *first.shape
        i, f, o, g = acts[start:stop].reshape(shape).swapaxes(0, 1)
        factors = np.empty_like(acts, order="C", shape=shape)
        to_i, to_f, to_g, to_o = factors.swapaxes(0, 1)
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


def _transposed(array: Any) -> Any:
    # A copy in any case: what is saved must not change when the result is written into.
    return np.swapaxes(array, -1, -2).copy()


def _side_by_side(steps: Array) -> Any:
    """Return arrays of all steps, shape (length, rows, n), as one of shape (rows, length * n)."""
    length, rows, n = steps.shape
    return steps.transpose(1, 0, 2).reshape(rows, length * n)


def _run_in_arrays(cell: Cell, x: Any, weights: Weights, state: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return what `cell.run` returns for an input, shape (length, n, inputs)."""
    length, n, inputs = x.shape
    to_input, to_hidden, bias, added, projection = weights
    if bias is not None and cell.gates != 3:
        # The candidate of a GRU alone has the biases in different places.
        bias, added = bias + added, None
    to_input, to_hidden = cell.prepared(to_input), cell.prepared(to_hidden)
    bias, added = (None if one is None else np.repeat(cell.prepared(one)[:, None], n, 1) for one in (bias, added))
    if n == 1:
        sums = x.reshape(length, inputs).dot(to_input.T)[:, :, np.newaxis]
    else:
        sums = np.matmul(to_input, x.transpose(0, 2, 1))
    if bias is not None:
        sums += bias
    with np.errstate(over="ignore", under="ignore"):
        return cell.run(sums, to_hidden, added, tuple(_transposed(one) for one in state), projection)


def _gradients_in_arrays(
    cell: Cell, x: Any, weights: Weights, state: Any, hidden: Any, kept: Any, grads: Any, needs: Any
) -> tuple[Any, ...]:
    """Return the gradients of x, the weights and the initial state, as far as they are needed."""
    state = tuple(_transposed(one) for one in state)
    given = np.zeros_like(hidden) if grads[0] is None else _transposed(grads[0])
    grads = given, *(None if one is None else _transposed(one) for one in grads[1:])
    entered, products, to_state, to_projection = cell.run_back(hidden, kept, weights, state, grads)
    n, flat = hidden.shape[2], _side_by_side(entered)
    flat_hidden = flat if products is entered else _side_by_side(products)
    found: list[Any] = [None] * 5
    if needs[0]:
        found[0] = flat.T.dot(weights.to_input).reshape(x.shape)
    if needs[1]:
        found[1] = flat.dot(x.reshape(flat.shape[1], x.shape[2]))
    if needs[2]:
        found[2] = flat_hidden[:, n:].dot(_side_by_side(hidden[:-1]).T)
        found[2] += flat_hidden[:, :n].dot(state[0].T)
    ones = np.ones(flat.shape[1], flat.dtype)
    for number, one in ((3, flat), (4, flat_hidden)):
        if needs[number]:
            found[number] = one.dot(ones)
    return *found, to_projection, *(_transposed(one) for one in to_state)


# On a device that runs recurrences.


def _runner_for(cell: Cell, arrays: Sequence[Any]) -> Any:
    """Return what runs a cell on the device of the arguments of `recur`, bare arrays; None if that has nothing."""
    x, _, to_hidden, _, added, projection, *state = arrays
    return own_function("recurrence", x)(x, cell.name, (to_hidden, added, projection), state)


def _run_on_device(cell: Cell, runner: Any, x: Any, weights: Weights, state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the hidden states with the initial one, the rest of the last state, and what the backward needs."""
    to_input, to_hidden, bias, added, projection = weights
    if bias is not None and cell.gates != 3:
        bias, added = bias + added, None
    result: tuple[Any, ...] = runner.run(linear(x, to_input, bias), (to_hidden, added, projection), state)
    return result


def _gradients_on_device(
    runner: Any, x: Any, weights: Weights, hidden: Any, kept: Any, grads: Any, needs: Any
) -> tuple[Any, ...]:
    """Return the gradients of x, the weights and the initial state, as far as they are needed."""
    to_input, to_hidden, _, added, projection = weights
    given, *to_rest = grads
    entered, products, to_states, to_state = runner.run_back(
        hidden, kept, (to_hidden, added, projection), given, to_rest
    )
    bias_shape = entered.shape[2:]
    return (
        linear_input_grad(entered, to_input) if needs[0] else None,
        linear_weight_grad(entered, x) if needs[1] else None,
        linear_weight_grad(products, hidden[:-1]) if needs[2] else None,
        leading_sum(entered, bias_shape) if needs[3] else None,
        leading_sum(products, bias_shape) if needs[4] else None,
        linear_weight_grad(to_states[1:], kept[-1]) if needs[5] else None,
        to_states[0].copy(),
        *to_state,
    )


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
    _is_users = False

    @staticmethod
    def forward(ctx: Any, cell: Cell, x: Any, *rest: Any) -> tuple[Any, ...]:
        """Return the hidden states of all steps, and the rest of the last state."""
        arrays = [None if one is None else array_of(one) for one in (x, *rest)]
        ctx.cell, ctx.runner = cell, _runner_for(cell, arrays)
        given = arrays[0], Weights(*arrays[1:6]), tuple(arrays[6:])
        ctx.set_materialize_grads(False)
        if ctx.runner is not None:
            hidden, last, kept = _run_on_device(cell, ctx.runner, *given)
            ctx.save_for_backward(x, *rest, hidden, *kept)
            # A copy: what is saved must not change when the result is written into.
            return hidden[1:].copy(), *last
        hidden, last, kept = _run_in_arrays(cell, *given)
        ctx.save_for_backward(x, *rest, hidden, *kept)
        return (_transposed(hidden), *(_transposed(one) for one in last))

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
            grads = [None if to is None else array_of(to) for to in (given, *to_rest)]
            weights, state = Weights(*arrays[1:6]), tuple(arrays[6:end])
            if ctx.runner is not None:
                found = _gradients_on_device(ctx.runner, arrays[0], weights, hidden, kept, grads, needs)
            else:
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
    given = (x, *weights, *state)
    runner = None
    if is_device_array(array_of(x)):
        runner = _runner_for(cell, [None if one is None else array_of(one) for one in given])
        if runner is None:
            states = _Steps(cell, x, weights, state).states
            return np.stack([one[0] for one in states[1:]]), *states[-1][1:]
    check_operands_share_device("a recurrent layer", *given)
    if not any(isinstance(one, TensorBase) for one in given):
        if runner is not None:
            hidden, rest, _ = _run_on_device(cell, runner, x, weights, state)
            return hidden[1:], *rest
        hidden, rest, _ = _run_in_arrays(cell, x, weights, state)
        return _transposed(hidden), *(_transposed(one) for one in rest)
    result: tuple[Any, ...] = Recurrence.apply(cell, *given)
    return result
