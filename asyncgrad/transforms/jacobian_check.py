"""JacobianCheck: compares the Jacobians that a function's backward gives with those from finite differences.

The function is called with copies of its inputs in which one element is changed, so that the inputs themselves never
change: other tasks may use or check them meanwhile.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.arrays.interception import on_device_of
from ..core.arrays.values import own_copy
from ..core.backward import grad
from ..core.graph.leaf import gradient_edge
from ..core.graph.node import Edge, Node, NodeMeta
from ..core.rows import at_once, graph_waits, run_together
from ..core.settings.arguments import describe
from ..core.settings.awaiting import call
from ..core.settings.context import enable_grad
from ..core.settings.loop_turn import keep_pace
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import LEAF, flatten_each, paths, unflatten_each
from ..core.value import Value
from ..errors import GradcheckError, GradientTypeError, RequiresGradError
from .arguments import gradient_rows, gradients, zeros_like_tensor

__all__ = [
    "JacobianCheck",
    "Tolerance",
    "WatchedFunction",
    "as_tuple",
    "call_for_outputs",
    "copy_entries",
    "flatten_call",
    "indices_requiring_grad",
]


#: What to write, in errors for values.
_CHECK_OF_VALUES = (
    "where a value is made of numbers, check a function that takes and returns tensors, by a Function that makes the "
    "value of them and one that reads it; else compare await ag.grad(...) with the gradients that you expect"
)


class Tolerance(NamedTuple):
    """By how much elements are changed, and which differences are tolerated."""

    eps: float
    atol: float
    rtol: float
    #: Between two backward passes of one graph.
    nondeterminism: float


@final
class WatchedFunction:
    """The user's function, of which is noted whether its calls wait.

    Args:
        fn: the function.
    """

    __slots__ = ("_fn", "_has_been_looked_at", "waits")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._has_been_looked_at = False
        #: Whether it has returned an awaitable, or what it returned has a backward that waits and that a call runs.
        self.waits = False

    def __call__(self, *args: Any) -> Any:
        """Return what the function returns."""
        returned = self._fn(*args)
        self.waits = self.waits or inspect.isawaitable(returned)
        return returned

    async def look_at_backward(self, outputs: Sequence[Tensor]) -> None:
        """Note whether the backward of the first outputs waits."""
        if not self._has_been_looked_at:
            self._has_been_looked_at = True
            edges = [gradient_edge(output) for output in outputs]
            self.waits = self.waits or await graph_waits([None if edge is None else edge.node for edge in edges])


class _Place(NamedTuple):
    """What is changed: which of the inputs that are checked, which element of it, and along which axis."""

    position: int
    element: int
    axis: int


class _Part(NamedTuple):
    """The part of an output that is checked: the gradient that selects it, and how to take it from a difference."""

    name: str
    unit: complex
    of: Callable[[Any], Any]


_REAL = (_Part("", 1, np.real),)
_COMPLEX = (_Part("the real part of ", 1, np.real), _Part("the imaginary part of ", 1j, np.imag))


@final
class _Undefined(Node):
    """An identity whose gradient is undefined."""

    __slots__ = ()

    def __init__(self, output: Tensor) -> None:
        assert output.grad_fn is not None
        self._connect((Edge(output.grad_fn, output.output_nr),))
        self.shape, self.dtype, self.device = output.shape, output.dtype, output.device
        self.meta = NodeMeta()

    def apply(self, grads: tuple[Any, ...]) -> tuple[None]:
        """Return no gradient."""
        return (None,)


@final
class JacobianCheck:
    """One run of gradcheck.

    Args:
        fn: the function to check.
        entries: its arguments.
        tolerance: which differences are tolerated.
        every_output: raise if an output that does not require grad changes with an input. Without it, that is checked
            only if no output requires grad.
        output_names: the names of the outputs in errors.
        input_names: the names of the inputs in errors.
        concurrency: how many backward passes run at once, and how many calls that wait; None for all.
        of: the user's function, whose derivative `fn` is; None where `fn` is the user's.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        entries: tuple[Any, ...],
        tolerance: Tolerance,
        *,
        every_output: bool = False,
        output_names: Sequence[str] | None = None,
        input_names: Sequence[str] | None = None,
        concurrency: int | None = None,
        of: WatchedFunction | None = None,
    ) -> None:
        self._of = WatchedFunction(fn) if of is None else of
        self._fn = self._of if of is None else fn
        self._entries = entries
        self._wanted = indices_requiring_grad(entries)
        self._tolerance = tolerance
        self._every_output = every_output
        self._output_names = output_names
        self._input_names = input_names
        self._concurrency = concurrency

    async def verdict(self, check_undefined_grad: bool, raise_exception: bool) -> bool:
        """Return whether all Jacobians agree; with `raise_exception`, raise if they do not."""
        try:
            with enable_grad():
                await self._run(check_undefined_grad)
        except GradcheckError:
            if raise_exception:
                raise
            return False
        return True

    async def _run(self, check_undefined_grad: bool) -> None:
        arguments = copy_entries(self._entries)
        points = [arguments[index] for index in self._wanted]
        named = await _call_for_named_outputs(self._fn, arguments)
        outputs = [output for _, output in named]
        if self._output_names is None:
            self._output_names = [name for name, _ in named]
        differences = await self._differences(outputs)
        checked = [index for index, output in enumerate(outputs) if output.requires_grad]
        if not checked or self._every_output:
            self._expect_constants(set(range(len(outputs))).difference(checked), differences)
        if not checked:
            return
        await self._expect_no_captured_inputs([outputs[index] for index in checked])
        parts = [(i, part) for i in checked for part in (_COMPLEX if outputs[i].dtype.kind == "c" else _REAL)]
        for (index, part), jacobians in zip(parts, await self._analytical(outputs, parts, points), strict=True):
            for position, analytical in enumerate(jacobians):
                self._compare(index, position, part, analytical, differences[position][index])
        await self._expect_zeros([outputs[index] for index in checked], points)
        if check_undefined_grad:
            await self._expect_undefined_allowed(checked, arguments, points)

    # The two Jacobians, each of shape (output size, input size).

    async def _differences(self, outputs: Sequence[Tensor]) -> list[list[tuple[Any, Any]]]:
        """Return the difference quotients along the real and the imaginary axis, for each input and each output."""
        points = [self._entries[index] for index in self._wanted]
        eps = self._tolerance.eps
        axes = [(0, 1) if point.dtype.kind == "c" else (0,) for point in points]
        places = [
            _Place(position, element, axis)
            for position, point in enumerate(points)
            for element in range(point.size)
            for axis in axes[position]
        ]
        quotients = [
            [[np.zeros((one.size, point.size), np.result_type(one.dtype, np.float64)) for _ in of] for one in outputs]
            for point, of in zip(points, axes, strict=True)
        ]

        def note(place: _Place, above: Sequence[Any], below: Sequence[Any]) -> None:
            for number, (high, low) in enumerate(zip(above, below, strict=True)):
                with np.errstate(invalid="ignore"):
                    quotients[place.position][number][place.axis][:, place.element] = (high - low) / (2 * eps)

        async def call_after_step(number: int) -> list[Any]:
            position, element, axis = places[number // 2]
            step = (eps, eps * 1j)[axis]
            return await self._outputs_after_step(position, element, -step if number % 2 else step, outputs)

        limit = self._calls_at_once(2 * len(places), outputs)
        if limit == 1:
            for number, place in enumerate(places):
                note(place, await call_after_step(2 * number), await call_after_step(2 * number + 1))
                await keep_pace()
        else:
            found = await run_together(call_after_step, 2 * len(places), limit, "call")
            for number, place in enumerate(places):
                note(place, found[2 * number], found[2 * number + 1])
        return [[(both[0], both[1] if len(both) == 2 else None) for both in of_input] for of_input in quotients]

    def _calls_at_once(self, count: int, outputs: Sequence[Tensor]) -> int:
        """Return how many of so many calls run at once: one unless they wait."""
        if not self._of.waits:
            return 1
        tensors = [*outputs, *(entry for entry in self._entries if isinstance(entry, Tensor))]
        return at_once(count, sum([tensor.nbytes for tensor in tensors]), self._concurrency)

    async def _outputs_after_step(
        self, position: int, element: int, step: complex, outputs: Sequence[Tensor]
    ) -> list[Any]:
        """Return the outputs, flat and in double precision, with one element of one input changed."""
        index, arguments = self._wanted[position], copy_entries(self._entries)
        on_device_of(arguments[index]._data, _add_at, element, step)
        moved = await call_for_outputs(self._fn, arguments)
        if [(one.shape, one.dtype) for one in moved] != [(one.shape, one.dtype) for one in outputs]:
            raise GradcheckError(
                f"the function returned {', '.join(map(describe, outputs))}, and after a change of {step} in an "
                f"element of {self._input(index)} {', '.join(map(describe, moved))}: shapes and dtypes must not "
                "depend on the values of the inputs"
            )
        return [_on_host(one).astype(np.result_type(one.dtype, np.float64)).reshape(-1) for one in moved]

    async def _analytical(
        self, outputs: Sequence[Tensor], parts: Sequence[tuple[int, _Part]], points: Sequence[Tensor]
    ) -> list[list[Any]]:
        """Return for each part of an output its Jacobians for each input, from the backward."""
        first = await self._jacobians(outputs, parts, points)
        second = await self._jacobians(outputs, parts, points)
        tolerated = self._tolerance.nondeterminism
        for (index, _), one_run, other_run in zip(parts, first, second, strict=True):
            for position, (one, other) in enumerate(zip(one_run, other_run, strict=True)):
                if not np.allclose(one, other, rtol=0, atol=tolerated, equal_nan=True):
                    raise GradcheckError(
                        f"the backward of {self._output(index)} is not deterministic: run twice, its gradients for "
                        f"{self._input(self._wanted[position])} differ by {np.abs(one - other).max()}, and "
                        f"nondet_tol is {tolerated}"
                    )
        return first

    async def _jacobians(
        self, outputs: Sequence[Tensor], parts: Sequence[tuple[int, _Part]], points: Sequence[Tensor]
    ) -> list[list[Any]]:
        found = await gradient_rows(
            [outputs[index] for index, _ in parts],
            points,
            create_graph=False,
            units=[part.unit for _, part in parts],
            concurrency=self._concurrency,
        )
        return [
            [_matrix([row[position] for row in rows], point) for position, point in enumerate(points)] for rows in found
        ]

    def _compare(self, output: int, position: int, part: _Part, analytical: Any, quotients: tuple[Any, Any]) -> None:
        along_real, along_imaginary = quotients
        numerical = part.of(along_real)
        if along_imaginary is not None:
            numerical = numerical + 1j * part.of(along_imaginary)
        _, atol, rtol, _ = self._tolerance
        if np.allclose(analytical, numerical, rtol, atol):
            return
        with np.errstate(invalid="ignore"):
            excess = np.abs(analytical - numerical) - rtol * np.abs(numerical)
        row, column = np.unravel_index(np.argmax(excess), excess.shape)
        index = self._wanted[position]
        raise GradcheckError(
            f"Jacobian mismatch for {part.name}{self._output(output)} with respect to {self._input(index)}, most at "
            f"output element {row}, input element {column}: the backward gives {analytical[row, column]}, finite "
            f"differences give {numerical[row, column]} (atol={atol}, rtol={rtol})\n"
            f"numerical:\n{numerical}\nanalytical:\n{analytical}{self._hint()}"
        )

    def _hint(self) -> str:
        coarse = [
            f"{self._input(index)} ({self._entries[index].dtype})"
            for index in self._wanted
            if np.finfo(self._entries[index].dtype).eps > np.finfo(np.float64).eps
        ]
        if not coarse:
            return ""
        return (
            f"\nToo coarse for finite differences of {self._tolerance.eps}: {', '.join(coarse)}. Pass float64 or "
            "complex128, for example x.astype(float)."
        )

    # Errors that a Jacobian cannot show.

    def _expect_constants(self, unchecked: set[int], differences: list[list[tuple[Any, Any]]]) -> None:
        """Raise if an output that does not require grad changes with an input."""
        for position, of_outputs in enumerate(differences):
            for output in sorted(unchecked):
                if any(quotients is not None and quotients.any() for quotients in of_outputs[output]):
                    raise GradcheckError(
                        f"{self._output(output)} does not require grad, but changes with "
                        f"{self._input(self._wanted[position])}: its history was lost on the way"
                    )

    async def _expect_no_captured_inputs(self, outputs: Sequence[Tensor]) -> None:
        """Raise if the outputs depend on the inputs themselves, which never change, and not on the copies."""
        captured = await gradients(
            outputs,
            [self._entries[index] for index in self._wanted],
            [zeros_like_tensor(output) for output in outputs],
            create_graph=False,
            retain_graph=True,
        )
        for index, gradient in zip(self._wanted, captured, strict=True):
            if gradient is not None:
                raise GradcheckError(
                    f"the function uses {self._input(index)} from outside: it is called with changed copies of its "
                    "inputs, so let it compute with its arguments alone"
                )

    async def _expect_zeros(self, outputs: Sequence[Tensor], points: Sequence[Tensor]) -> None:
        """Raise unless a backward that starts from zeros gives zeros."""
        starts = [zeros_like_tensor(output) for output in outputs]
        found = await gradients(outputs, points, starts, create_graph=False, retain_graph=True)
        self._require_zeros(found, "all gradients that the backward starts from are zero")

    async def _expect_undefined_allowed(
        self, checked: Sequence[int], arguments: Sequence[Any], points: Sequence[Tensor]
    ) -> None:
        """Raise unless a backward treats undefined gradients as zeros: all of them, and each one alone."""
        undefined = [set(checked)] if len(checked) == 1 else [set(checked), *({index} for index in checked)]
        for chosen in undefined:
            outputs = await call_for_outputs(self._fn, arguments)
            roots = [
                Tensor(outputs[index]._data, _Undefined(outputs[index]), 0, outputs[index].device)
                if index in chosen and outputs[index].grad_fn is not None
                else outputs[index]
                for index in checked
            ]
            what = f"the gradient of {', '.join(map(self._output, sorted(chosen)))} is undefined and no other is set"
            try:
                found = await grad(roots, points, list(map(zeros_like_tensor, roots)), allow_unused=True)
            except Exception as error:
                raise GradcheckError(f"the backward failed where {what}: {error}") from error
            self._require_zeros(found, what)

    def _require_zeros(self, found: Sequence[Tensor | None], when: str) -> None:
        for index, gradient in zip(self._wanted, found, strict=True):
            if gradient is not None and _on_host(gradient).any():
                raise GradcheckError(f"the gradient for {self._input(index)} is not zero where {when}")

    def _output(self, index: int) -> str:
        assert self._output_names is not None
        return self._output_names[index]

    def _input(self, index: int) -> str:
        return f"input {index}" if self._input_names is None else self._input_names[index]


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return a tuple or list as a tuple, and anything else as a tuple of one entry."""
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def indices_requiring_grad(entries: Sequence[Any]) -> list[int]:
    """Return the indices of the tensors that require grad.

    Raises:
        RequiresGradError: none does.
    """
    wanted = [index for index, entry in enumerate(entries) if isinstance(entry, Tensor) and entry.requires_grad]
    value = next((entry for entry in entries if isinstance(entry, Value)), None)
    if not wanted and value is not None:
        raise RequiresGradError(
            f"gradcheck changes the numbers of tensors that require grad, and was given a value of type "
            f"{value.type.name} and no such tensor: {_CHECK_OF_VALUES}"
        )
    if not wanted:
        raise RequiresGradError(
            "gradcheck differentiates with respect to the inputs that require grad, and none does: "
            "make them with requires_grad=True"
        )
    return wanted


def _add_at(data: Any, element: int, step: complex) -> None:
    data[np.unravel_index(element, data.shape)] += step


def copy_entries(entries: Sequence[Any]) -> tuple[Any, ...]:
    """Return leaves on copies of the tensors' arrays with the same memory layout, and other entries unchanged."""
    return tuple(
        asarray(
            own_copy(entry._data),
            device=entry.device,
            requires_grad=entry.requires_grad,
        )
        if isinstance(entry, Tensor)
        else entry
        for entry in entries
    )


def flatten_call(fn: Callable[..., Any], inputs: Any) -> tuple[Callable[..., Any], tuple[Any, ...], list[str]]:
    """Return a function of the leaves of the inputs, which are trees; those leaves, and their names in errors."""
    entries = as_tuple(inputs)
    leaves, trees = flatten_each(entries, _is_tensor)
    if trees is None:
        return fn, entries, [f"input {index}" for index in range(len(entries))]
    structures = trees

    def call_with_trees(*leaves: Any) -> Any:
        return fn(*unflatten_each(structures, leaves))

    names = [path for index, structure in enumerate(structures) for path in paths(structure, f"input {index}")]
    return call_with_trees, tuple(leaves), names


async def call_for_outputs(fn: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    """Call the function, and return its outputs as a tuple: the tensors in the trees that it returns.

    Raises:
        GradientTypeError: an output is not a Tensor, and no tree of tensors and other things.
    """
    return tuple([output for _, output in await _call_for_named_outputs(fn, arguments)])


async def _call_for_named_outputs(fn: Callable[..., Any], arguments: Sequence[Any]) -> list[tuple[str, Tensor]]:
    returned = as_tuple(await call(fn, *arguments))
    leaves, trees = flatten_each(returned, _is_tensor)
    structures = (LEAF,) * len(returned) if trees is None else trees
    names = [path for index, structure in enumerate(structures) for path in paths(structure, f"output {index}")]
    are_alone = [structure is LEAF for structure in structures for _ in range(structure.count)]
    named = []
    for name, leaf, is_alone in zip(names, leaves, are_alone, strict=True):
        if isinstance(leaf, Tensor):
            named.append((name, leaf))
        elif is_alone or isinstance(leaf, (np.ndarray, np.generic)):
            hint = f": {_CHECK_OF_VALUES}" if isinstance(leaf, Value) else ""
            raise GradientTypeError(f"{name} of the function must be a Tensor, not {type(leaf).__name__}{hint}")
    return named


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _on_host(tensor: Tensor) -> Any:
    """Return the elements of a tensor as a NumPy array, which is only read."""
    return tensor.device.to_host(tensor._data)


def _matrix(rows: Sequence[Tensor | None], point: Tensor) -> Any:
    """Return gradients as the rows of a matrix, with zeros for missing ones."""
    matrix = np.zeros((len(rows), point.size), point.dtype)
    for index, row in enumerate(rows):
        if row is not None:
            matrix[index] = _on_host(row).reshape(-1)
    return matrix
