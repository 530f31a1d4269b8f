"""Recurrent layers: Elman networks, GRUs and LSTMs over sequences, and their cells for single steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...core.arrays.values import zeros_like
from ...core.settings.arguments import number, truth, whole_number
from ...core.tensor import Tensor
from ...errors import ArgumentError, ArgumentTypeError
from .. import init
from ..functional.dropout import dropout
from ..functional.recurrent import ELMAN_RELU, ELMAN_TANH, Cell, Weights, recur
from ..functional.recurrent import GRU as GRU_CELL
from ..functional.recurrent import LSTM as LSTM_CELL
from ..shared.arguments import array_of
from ..utils.rnn import PackedSequence
from .module import Module
from .parameters import new_parameter, size

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array_like import TensorLike
    from .parameters import Place


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


def _elman(nonlinearity: str) -> Cell:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
    return ELMAN_RELU if nonlinearity == "relu" else ELMAN_TANH


def _draw(layer: Module, hidden_size: int) -> None:
    """Draw all parameters of a layer uniformly from `±1 / sqrt(hidden_size)`."""
    bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
    for parameter in layer.parameters():
        init.uniform_(parameter, -bound, bound)


def _check_floating(name: str, x: Any) -> Any:
    if not hasattr(x, "shape"):
        raise ArgumentTypeError(
            f"{name} takes a tensor or an array of shape (length, n, input_size), not {type(x).__name__}: pack "
            "sequences of several lengths by nn.utils.rnn.pack_sequence"
        )
    data = array_of(x)
    if data.dtype.kind != "f":
        raise ArgumentTypeError(f"{name} takes floating numbers, and x is of dtype {data.dtype}")
    return data


def _in_one_dtype(x: Any, weights: Weights, state: tuple[Any, ...]) -> tuple[Any, Weights, tuple[Any, ...]]:
    given = (x, *weights, *state)
    dtypes = {array_of(one).dtype for one in given if one is not None}
    if len(dtypes) > 1:
        dtype = np.result_type(*dtypes)
        given = tuple(one if one is None or array_of(one).dtype == dtype else one.astype(dtype) for one in given)
    return given[0], Weights(*given[1:6]), given[6:]


def _run(
    cell: Cell, x: Any, weights: Weights, state: tuple[Any, ...], is_reversed: bool = False
) -> tuple[Any, tuple[Any, ...]]:
    """Return the hidden states of all steps over x, shape (length, n, features), and the last state."""
    if is_reversed:
        x = np.flip(x, 0)
    hidden, *rest = recur(cell, *_in_one_dtype(x, weights, state))
    last = (hidden[-1], *rest)
    return (np.flip(hidden, 0) if is_reversed else hidden), last


def _run_packed(
    cell: Cell, x: PackedSequence, weights: Weights, first: tuple[Any, ...], is_reversed: bool = False
) -> tuple[PackedSequence, tuple[Any, ...]]:
    """Return the hidden states of all steps over sequences, and the last state of each sequence.

    As long as no sequence begins or ends, the steps are those of one recurrence.
    """
    data, weights, first = _in_one_dtype(x.data, weights, first)
    spans = x.spans()
    outputs, ended = [], []
    state = tuple(one[:0] for one in first)
    for start, length, n in reversed(spans) if is_reversed else spans:
        before = array_of(state[0]).shape[0]
        if n < before:
            ended.append(tuple(one[n:] for one in state))
            state = tuple(one[:n] for one in state)
        elif before:
            state = tuple(np.concatenate((one, other[before:n])) for one, other in zip(state, first, strict=True))
        else:
            state = tuple(one[:n] for one in first)
        steps = np.reshape(data[start : start + length * n], (length, n, array_of(data).shape[1]))
        output, state = _run(cell, steps, weights, state, is_reversed)
        outputs.append(np.reshape(output, (length * n, array_of(output).shape[2])))
    last = tuple(np.concatenate(kind) for kind in zip(state, *reversed(ended), strict=True)) if ended else state
    outputs = outputs[::-1] if is_reversed else outputs
    return x._replace(data=np.concatenate(outputs)), last


class RecurrentLayer(Module):
    """Abstract: one or more layers of a recurrence, in one direction or both."""

    @abstractmethod
    def _cell(self) -> Cell:
        """Return what is run."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        input_size, hidden_size = size(input_size, "input_size"), size(hidden_size, "hidden_size")
        num_layers = size(num_layers, "num_layers")
        if not input_size or not hidden_size or not num_layers:
            raise ArgumentError(
                f"{name} takes input_size, hidden_size and num_layers of at least 1, not {input_size}, {hidden_size} "
                f"and {num_layers}"
            )
        if not 0 <= number(dropout, "dropout") <= 1:
            raise ArgumentError(f"{name} takes a probability dropout from 0 to 1, not {dropout}")
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.num_layers: int = num_layers
        self.batch_first: bool = truth(batch_first, "batch_first")
        self.dropout: float = float(dropout)
        self.bidirectional: bool = truth(bidirectional, "bidirectional")
        self.bias: bool = truth(bias, "bias")
        rows = self._cell().gates * hidden_size
        for layer in range(num_layers):
            entering = input_size if layer == 0 else self._hidden_size() * len(self._suffixes())
            for suffix in self._suffixes():
                end = f"l{layer}{suffix}"
                setattr(self, f"weight_ih_{end}", new_parameter((rows, entering), device, dtype))
                setattr(self, f"weight_hh_{end}", new_parameter((rows, self._hidden_size()), device, dtype))
                if self.bias:
                    setattr(self, f"bias_ih_{end}", new_parameter((rows,), device, dtype))
                    setattr(self, f"bias_hh_{end}", new_parameter((rows,), device, dtype))
                if self._hidden_size() != hidden_size:
                    setattr(self, f"weight_hr_{end}", new_parameter((self._hidden_size(), hidden_size), device, dtype))
        self.reset_parameters()

    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from `±1 / sqrt(hidden_size)`."""
        _draw(self, self.hidden_size)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        text = f"{self.input_size}, {self.hidden_size}"
        options = (
            ("proj_size", self._hidden_size(), self.hidden_size),
            ("num_layers", self.num_layers, 1),
            ("bias", self.bias, True),
            ("batch_first", self.batch_first, False),
            ("dropout", self.dropout, 0.0),
            ("bidirectional", self.bidirectional, False),
        )
        return text + "".join(f", {name}={value}" for name, value, usual in options if value != usual)

    def _weights(self, end: str) -> Weights:
        names = ("weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_", "weight_hr_")
        return Weights(*(getattr(self, name + end, None) for name in names))

    def _hidden_size(self) -> int:
        """Return the size of the hidden state."""
        return self.hidden_size

    def _initial_state(self, name: str, given: Any, x: Any, n: int, features: int, is_single: bool) -> Any:
        """Return initial states of all layers and directions, shape (layers * directions, n, features)."""
        shape = (self.num_layers * len(self._suffixes()), n, features)
        if given is None:
            return zeros_like(array_of(x), shape)
        wanted = (shape[0], shape[2]) if is_single else shape
        if array_of(given).shape != wanted:
            raise ArgumentError(
                f"{type(self).__name__} needs {name} of shape {wanted} for this x, not {array_of(given).shape}"
            )
        return np.reshape(given, shape)

    def _states(self, names: Sequence[str], given: Any, x: Any, n: int, is_single: bool = False) -> list[Any]:
        sizes = (self._hidden_size(), self.hidden_size)
        return [
            self._initial_state(name, one, x, n, features, is_single)
            for name, one, features in zip(names, given, sizes, strict=False)
        ]

    def _forward(self, input: Any, names: Sequence[str], given: Any) -> tuple[Any, list[Any]]:
        """Return the hidden states of the last layer over the input, and the last states of all layers, by kind."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, names, given)
        shape = _check_floating(type(self).__name__, input).shape
        if len(shape) not in (2, 3) or shape[-1] != self.input_size:
            order = "n, length" if self.batch_first else "length, n"
            raise ArgumentError(
                f"{type(self).__name__} takes x of shape ({order}, {self.input_size}), or without n, not {shape}"
            )
        is_single = len(shape) == 2
        x = np.expand_dims(input, 1) if is_single else np.swapaxes(input, 0, 1) if self.batch_first else input
        length, n = array_of(x).shape[:2]
        if not length:
            raise ArgumentError(f"{type(self).__name__} takes sequences of at least one element, not of shape {shape}")
        states = self._states(names, given, x, n, is_single)
        outputs, ends = self._through_layers(x, states, _run, np.concatenate, dropout)
        if is_single:
            return outputs[:, 0], [one[:, 0] for one in ends]
        return (np.swapaxes(outputs, 0, 1) if self.batch_first else outputs), ends

    def _forward_packed(self, x: PackedSequence, names: Sequence[str], given: Any) -> tuple[Any, list[Any]]:
        shape = _check_floating(type(self).__name__, x.data).shape
        if len(shape) != 2 or shape[1] != self.input_size:
            raise ArgumentError(
                f"{type(self).__name__} takes packed sequences whose data has the shape (numbers, {self.input_size}), "
                f"not {shape}"
            )
        states = self._states(names, given, x.data, int(x.batch_sizes[0]))
        if x.sorted_indices is not None:
            states = [one[:, x.sorted_indices] for one in states]

        def join(parts: list[PackedSequence], axis: int) -> PackedSequence:
            return x._replace(data=np.concatenate([one.data for one in parts], axis=axis))

        def drop(one: PackedSequence, p: float, training: bool) -> PackedSequence:
            return one._replace(data=dropout(one.data, p, training=training))

        outputs, ends = self._through_layers(x, states, _run_packed, join, drop)
        return outputs, ends if x.unsorted_indices is None else [one[:, x.unsorted_indices] for one in ends]

    def _through_layers(
        self,
        x: Any,
        states: Sequence[Any],
        run: Callable[..., tuple[Any, tuple[Any, ...]]],
        join: Callable[..., Any],
        drop: Callable[..., Any],
    ) -> tuple[Any, list[Any]]:
        """Return the outputs of the last layer, and the last states of all layers and directions, by kind."""
        last: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            outputs = []
            if layer and self.dropout:
                x = drop(x, self.dropout, training=self.training)
            for suffix in self._suffixes():
                state = tuple(one[len(last)] for one in states)
                output, end = run(self._cell(), x, self._weights(f"l{layer}{suffix}"), state, bool(suffix))
                outputs.append(output)
                last.append(end)
            x = outputs[0] if len(outputs) == 1 else join(outputs, axis=-1)
        return x, [np.stack(kind) for kind in zip(*last, strict=True)]


class _HiddenStateLayer(RecurrentLayer):
    """Abstract: a layer whose state is one vector, the hidden state."""

    def forward(
        self, input: Tensor | np.ndarray | PackedSequence, hx: TensorLike | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states of the last layer, and the last hidden state of each layer and direction.

        Args:
            input: shape `(length, n, input_size)`, or without n; or a PackedSequence, and then the hidden states of the
                last layer are one too.
            hx: the initial hidden states, shape `(num_layers * directions, n, hidden_size)`; None for zeros.
        """
        output, (last,) = self._forward(input, ("hx",), (hx,))
        return output, last


@final
class RNN(_HiddenStateLayer):
    """An Elman network over sequences: `h' = tanh(x W_ih + b_ih + h W_hh + b_hh)`, or relu in the place of tanh.

    Args:
        input_size: features of each element.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each over the hidden states of the one before.
        nonlinearity: "tanh" or "relu".
        bias: add biases.
        batch_first: the input and the output have the shape `(n, length, features)`, not `(length, n, features)`.
        dropout: the probability with which an element between two layers is dropped in training.
        bidirectional: run a second network over each sequence from its end.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.RNN.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> output, last = nn.RNN(3, 4)(np.ones((7, 2, 3)))
        >>> output.shape, last.shape
        ((7, 2, 4), (1, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _cell(self) -> Cell:
        return _elman(self.nonlinearity)


@final
class GRU(_HiddenStateLayer):
    """A gated recurrent unit over sequences, with PyTorch's order of gates: reset, update, new.

    Args:
        input_size: features of each element.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each over the hidden states of the one before.
        bias: add biases.
        batch_first: the input and the output have the shape `(n, length, features)`, not `(length, n, features)`.
        dropout: the probability with which an element between two layers is dropped in training.
        bidirectional: run a second network over each sequence from its end.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.GRU; K. Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> output, last = nn.GRU(3, 4, batch_first=True)(np.ones((2, 7, 3)))
        >>> output.shape, last.shape
        ((2, 7, 4), (1, 2, 4))
    """

    def _cell(self) -> Cell:
        return GRU_CELL


@final
class LSTM(RecurrentLayer):
    """Long short-term memory over sequences, with PyTorch's order of gates: input, forget, cell, output.

    Args:
        input_size: features of each element.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each over the hidden states of the one before.
        bias: add biases.
        batch_first: the input and the output have the shape `(n, length, features)`, not `(length, n, features)`.
        dropout: the probability with which an element between two layers is dropped in training.
        bidirectional: run a second network over each sequence from its end.
        proj_size: multiply each hidden state by a matrix, so that it has so many features, fewer than `hidden_size`; 0
            for no such matrix.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LSTM; S. Hochreiter and J. Schmidhuber, "Long short-term memory" (1997).

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> output, (hidden, cell) = nn.LSTM(3, 4, num_layers=2, bidirectional=True)(np.ones((7, 2, 3)))
        >>> output.shape, hidden.shape, cell.shape
        ((7, 2, 8), (4, 2, 4), (4, 2, 4))
    """

    def _cell(self) -> Cell:
        return LSTM_CELL

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.proj_size: int = size(proj_size, "proj_size")
        if self.proj_size and self.proj_size >= whole_number(hidden_size, "hidden_size"):
            raise ArgumentError(f"LSTM takes a proj_size below hidden_size, {hidden_size}, not {proj_size}")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _hidden_size(self) -> int:
        return self.proj_size or self.hidden_size

    def forward(
        self, input: Tensor | np.ndarray | PackedSequence, hx: TensorLike | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the hidden states of the last layer, and the last hidden and cell states of each layer and direction.

        Args:
            input: shape `(length, n, input_size)`, or without n; or a PackedSequence, and then the hidden states of the
                last layer are one too.
            hx: the initial hidden and cell states, a pair of shape `(num_layers * directions, n, hidden_size)` each
                (`proj_size` in the place of `hidden_size` for the hidden ones, if it is not 0); None for zeros.
        """
        hidden, cell = _pair_of(type(self).__name__, hx)
        output, (hidden, cell) = self._forward(input, ("the hidden states", "the cell states"), (hidden, cell))
        return output, (hidden, cell)


def _pair_of(name: str, hx: Any) -> tuple[Any, Any]:
    if hx is None:
        return None, None
    if isinstance(hx, (tuple, list)) and len(hx) == 2:
        return hx[0], hx[1]
    raise ArgumentError(f"{name} takes the initial states as a pair, (hidden, cell), not {type(hx).__name__}")


class RecurrentCell(Module):
    """Abstract: one step of a recurrence."""

    @abstractmethod
    def _cell(self) -> Cell:
        """Return what is run."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        input_size, hidden_size = size(input_size, "input_size"), size(hidden_size, "hidden_size")
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.bias: bool = truth(bias, "bias")
        rows = self._cell().gates * hidden_size
        self.weight_ih: Tensor = new_parameter((rows, input_size), device, dtype)
        self.weight_hh: Tensor = new_parameter((rows, hidden_size), device, dtype)
        self.bias_ih: Tensor | None = new_parameter((rows,), device, dtype) if self.bias else None
        self.bias_hh: Tensor | None = new_parameter((rows,), device, dtype) if self.bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from `±1 / sqrt(hidden_size)`."""
        _draw(self, self.hidden_size)

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")

    def _step(self, input: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the next state."""
        shape = _check_floating(type(self).__name__, input).shape
        if len(shape) not in (1, 2) or shape[-1] != self.input_size:
            raise ArgumentError(
                f"{type(self).__name__} takes x of shape (n, {self.input_size}), or without n, not {shape}"
            )
        wanted = (*shape[:-1], self.hidden_size)
        states = []
        for one in given:
            state = np.zeros_like(array_of(input), shape=wanted) if one is None else one
            if array_of(state).shape != wanted:
                raise ArgumentError(
                    f"{type(self).__name__} needs a state of shape {wanted} for this x, not {array_of(state).shape}"
                )
            states.append(np.reshape(state, (-1, self.hidden_size)))
        x = np.reshape(input, (1, -1, self.input_size))
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        _, after = _run(self._cell(), x, weights, tuple(states))
        return after if len(shape) == 2 else tuple(one[0] for one in after)


@final
class RNNCell(RecurrentCell):
    """One step of an Elman network: see RNN.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        bias: add biases.
        nonlinearity: "tanh" or "relu".
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.RNNCell.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.RNNCell(3, 4)(np.ones((2, 3))).shape
        (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Place = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor | np.ndarray, hx: TensorLike | None = None) -> Tensor:
        """Return the next hidden state; `hx` is the one before, None for zeros."""
        return self._step(input, (hx,))[0]

    def extra_repr(self) -> str:
        """Return the options that the layer shows in its repr."""
        chosen = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + chosen

    def _cell(self) -> Cell:
        return _elman(self.nonlinearity)


@final
class GRUCell(RecurrentCell):
    """One step of a gated recurrent unit: see GRU.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        bias: add biases.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.GRUCell.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> nn.GRUCell(3, 4)(np.ones((2, 3))).shape
        (2, 4)
    """

    def _cell(self) -> Cell:
        return GRU_CELL

    def forward(self, input: Tensor | np.ndarray, hx: TensorLike | None = None) -> Tensor:
        """Return the next hidden state; `hx` is the one before, None for zeros."""
        return self._step(input, (hx,))[0]


@final
class LSTMCell(RecurrentCell):
    """One step of long short-term memory: see LSTM.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        bias: add biases.
        device: of the parameters.
        dtype: of the parameters.

    Source: torch.nn.LSTMCell.

    Example:
        >>> import numpy as np
        >>> from asyncgrad import nn
        >>> hidden, cell = nn.LSTMCell(3, 4)(np.ones((2, 3)))
        >>> hidden.shape, cell.shape
        ((2, 4), (2, 4))
    """

    def _cell(self) -> Cell:
        return LSTM_CELL

    def forward(self, input: Tensor | np.ndarray, hx: TensorLike | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell states; `hx` is the pair before, None for zeros."""
        hidden, cell = self._step(input, _pair_of(type(self).__name__, hx))
        return hidden, cell
