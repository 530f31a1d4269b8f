"""One call of a transformed function: flattens its arguments to tensors, and unflattens its results to trees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast, final

import numpy as np

from ..core.arrays.value_type import VALUES
from ..core.arrays.values import is_device_array
from ..core.settings.arguments import describe, must_be
from ..core.settings.awaiting import call
from ..core.settings.context import GRAD_MODE, IN_TRANSFORM
from ..core.tensor import Tensor, asarray, leaf_on
from ..core.tree.structure import (
    LEAF,
    TreeStructure,
    differentiated,
    flatten,
    in_models,
    leaves,
    leaves_like,
    paths,
    unflatten,
)
from ..core.value import Value
from ..core.value import leaf as new_value
from ..errors import ArgumentTypeError, GradientTypeError, InvalidGradientError
from .arguments import FOR_VALUES, new_input, require_tensor, transform_scope
from .recipes import by_program, remember

__all__ = ["TransformCall", "argument_name", "named_after"]

Tensors = tuple[Tensor, ...]
F = TypeVar("F", bound=Callable[..., Any])

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray

#: Arguments of these types are leaves that are constants; with tensors, the commonest leaves.
_CONSTANTS = frozenset({np.ndarray, float})
_LEAVES = _CONSTANTS | {Tensor}


@final
class TransformCall:
    """A function of trees and its arguments, as a function of the tensors to differentiate with respect to.

    Args:
        where: the name of the transform, for errors.
        function: a function or an `async def`.
        args: its positional arguments.
        kwargs: its keyword arguments.
        positions: the positions of the arguments to differentiate with respect to.
        has_aux: the function returns a pair, its result and something else.
        takes_values: leaves of arguments and results may be values that are no arrays.

    Raises:
        GradientTypeError: a leaf of an argument at `positions` is not a number; the message names it by its path.
    """

    __slots__ = (
        "_args",
        "_aux",
        "_expected",
        "_function",
        "_given",
        "_has_aux",
        "_is_flat",
        "_kwargs",
        "_model_leaves",
        "_output_structure",
        "_positions",
        "_returns_tensors",
        "_structures",
        "_takes_values",
        "_where",
        "points",
    )

    def __init__(
        self,
        where: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        positions: Sequence[int],
        has_aux: bool = False,
        *,
        takes_values: bool = False,
    ) -> None:
        self._where = where
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._positions = positions
        self._has_aux = has_aux
        self._takes_values = takes_values
        self._given: list[Any] = []
        self._structures: list[TreeStructure] = []
        self._model_leaves: _ModelLeaves | None = None
        self._returns_tensors = False
        #: Whether each argument to differentiate with respect to is a leaf.
        self._is_flat = True
        for position in positions:
            tree = args[position]
            if type(tree) in _LEAVES:
                self._given.append(tree)
                self._structures.append(LEAF)
                self._returns_tensors |= type(tree) is Tensor
                continue
            self._is_flat = False
            found, structure = flatten(tree, _is_registered if takes_values and VALUES else None)
            self._given += found
            self._structures.append(structure)
        if not self._is_flat:
            flags = [in_models(structure) for structure in self._structures]
            if any(flags):
                self._model_leaves = _ModelLeaves(self._structures, flags, self._given)
                self._given = self._model_leaves.points(self._given)
            self._returns_tensors = any(isinstance(leaf, (Tensor, Value)) for leaf in self._given)
        self._output_structure: TreeStructure | None = None
        self._aux: Any = None
        #: What the function must return, for errors.
        self._expected = "Tensors"
        #: The leaves of the arguments to differentiate with respect to: tensors, and values where they are taken.
        self.points: tuple[Any, ...] = tuple(
            [
                leaf_on(leaf) if type(leaf) is _ndarray and leaf.dtype.kind in "fc" else self._as_point(index, leaf)
                for index, leaf in enumerate(self._given)
            ]
        )

    def recording(self, *vectors: Any) -> transform_scope:
        """Return the scope in which the transform runs; `vectors` are trees that the transform has been given too."""
        if not GRAD_MODE.get():
            return transform_scope(False)
        if IN_TRANSFORM.get():
            return transform_scope(True)
        for tree in (*self._args, *self._kwargs.values(), *vectors):
            if type(tree) in _CONSTANTS:
                continue
            for leaf in leaves(tree):
                if isinstance(leaf, Tensor) and leaf.requires_grad:
                    return transform_scope(True)
        return transform_scope(False)

    def new_points(self, create_graph: bool) -> tuple[Any, ...]:
        """Return a new tensor for each of `points` that shares its array and requires grad."""
        # A point that was made of an array or a number is new already.
        if not self._returns_tensors:
            return self.points
        return tuple(
            [
                new_input(point, create_graph, self._where) if isinstance(given, (Tensor, Value)) else point
                for point, given in zip(self.points, self._given, strict=True)
            ]
        )

    async def __call__(self, *points: Tensor) -> tuple[Tensor, ...]:
        """Return the leaves of the function's result for new `points`."""
        arguments = list(self._args)
        trees = points if self._is_flat else self.arguments_of_points(points)
        for position, tree in zip(self._positions, trees, strict=True):
            arguments[position] = tree
        result = await call(self._function, *arguments, **self._kwargs)
        if self._has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise ArgumentTypeError(
                    f"{self._where}: with has_aux=True the function must return a pair (result, aux), "
                    f"not {describe(result)}"
                )
            result, self._aux = result
        if isinstance(result, Tensor):
            self._output_structure = LEAF
            return (result,)
        if result is None:
            raise GradientTypeError(
                f"{self._where}: the function must return {self._expected}, not NoneType None: let it end with return"
            )
        found, structure = flatten(result)
        self._output_structure = structure
        if self.points and found and all(map(_is_number, found)):
            require_tensor(result, f"{self._where}: the function")
        return tuple([self._as_output(index, leaf) for index, leaf in enumerate(found)])

    async def one_output(self, *points: Tensor) -> Tensor:
        """Return the function's result for new `points`, which must be one tensor.

        Raises:
            GradientTypeError: the result is a container.
        """
        self._expected = "one Tensor"
        outputs = await self(*points)
        if self._output_structure is LEAF:
            return outputs[0]
        if self._output_structure is None or self._output_structure.kind is not None:
            found = self.result(outputs, True)
            raise GradientTypeError(
                f"{self._where}: the function must return one Tensor, not {describe(found)}: return other things "
                "beside, with has_aux=True"
            )
        return outputs[0]

    def iteration(
        self, function: Callable[[Any], Any], name: str, needs_history: bool
    ) -> Callable[..., Coroutine[object, None, Tensors]]:
        """Return a function from the leaves of the only argument, a tree, to those of the next one.

        Args:
            function: takes the tree, and returns one of the same structure, or an awaitable of it.
            name: the name of the argument in errors.
            needs_history: whether the function is to be differentiated, so that it must return a tensor.
        """
        (structure,) = self._structures

        async def next_leaves(*points: Tensor) -> Tensors:
            result = await call(function, points[0] if structure.kind is None else unflatten(structure, points))
            if structure.kind is None and isinstance(result, Tensor):
                return (result,)
            found, self._output_structure = flatten(result)
            if self._output_structure != structure:
                # A dict may come with its keys in another order.
                found = leaves_like(structure, result, f"{self._where}: the result of the function", name)
                self._output_structure = structure
            if needs_history and found and all(map(_is_number, found)):
                require_tensor(result, f"{self._where}: the function")
            return tuple([self._as_output(index, leaf) for index, leaf in enumerate(found)])

        return next_leaves

    def vector_like_points(self, trees: Any, what: str, keeps_history: bool) -> tuple[Tensor, ...]:
        """Return the leaves of a tuple of trees with the structures and shapes of the arguments at `positions`.

        Raises:
            ArgumentError: a structure differs; the message names the place by its path.
            InvalidGradientError: a leaf has another shape, or is not a number; the message names it by its path.
        """
        if not isinstance(trees, (tuple, list)):
            raise ArgumentTypeError(
                must_be(f"{self._where}: {what}", "a tuple with one tree for each primal", trees, "write (v,)")
            )
        _, structure = flatten(tuple([self._args[position] for position in self._positions]))
        kept = None if self._model_leaves is None else self._model_leaves.kept
        return self._vector(structure, tuple(trees), self.points, (what, "the tuple of primals"), keeps_history, kept)

    def vector_like_outputs(
        self, outputs: Sequence[Tensor], tree: Any, what: str, keeps_history: bool
    ) -> tuple[Tensor, ...]:
        """Return the leaves of a tree with the structure and the shapes of the result; raise as above."""
        assert self._output_structure is not None
        return self._vector(self._output_structure, tree, outputs, (what, "the output"), keeps_history)

    def like_points(self, tensors: Iterable[Tensor], keeps_history: bool) -> tuple[Any, ...]:
        """Return a tree for each argument at `positions`, with `tensors` as results in place of `points`."""
        if not keeps_history:
            tensors = [
                one if isinstance(point, Value) else _as_result(one, given)
                for one, given, point in zip(tensors, self._given, self.points, strict=True)
            ]
        if self._is_flat:
            return tuple(tensors)
        is_distinct = not keeps_history or self._model_leaves is None
        return self.containers_like_points(tensors if is_distinct else _distinct(tensors))

    def arguments_of_points(self, points: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments at `positions` with others in place of `points`."""
        entries = points if self._model_leaves is None else self._model_leaves.arguments(points)
        return self._unflatten(entries)

    def containers_like_points(self, entries: Iterable[Any]) -> tuple[Any, ...]:
        """Return a tree for each argument at `positions`, with any `entries` in place of `points`.

        What is constant in a model is None there.
        """
        return self._unflatten(entries if self._model_leaves is None else self._model_leaves.results(entries))

    def _unflatten(self, entries: Iterable[Any]) -> tuple[Any, ...]:
        following = iter(entries)
        return tuple(
            [
                next(following) if structure.kind is None else unflatten(structure, islice(following, structure.count))
                for structure in self._structures
            ]
        )

    def like_outputs(self, entries: Iterable[Any]) -> Any:
        """Return a tree with the structure of the function's result and `entries` as leaves."""
        assert self._output_structure is not None
        return unflatten(self._output_structure, entries)

    def result(self, outputs: Iterable[Tensor], keeps_history: bool) -> Any:
        """Return the tree of the function's result, in the types that the caller of the transform gets."""
        found = [self._result_leaf(output, keeps_history) for output in outputs]
        return found[0] if self._output_structure is LEAF else self.like_outputs(found)

    def aux(self, keeps_history: bool) -> Any:
        """Return the second value that the function returned, with its tensors in the types that the caller gets."""
        if not self._has_aux:
            return None
        found, structure = flatten(self._aux)
        return unflatten(
            structure,
            [self._result_leaf(leaf, keeps_history) if isinstance(leaf, (Tensor, Value)) else leaf for leaf in found],
        )

    def _result_leaf(self, tensor: Any, keeps_history: bool) -> Any:
        if isinstance(tensor, Value):
            return tensor if keeps_history else tensor.detach()
        return tensor if keeps_history else _as_result(tensor, tensor if self._returns_tensors else 0.0)

    def _as_point(self, index: int, leaf: Any) -> Any:
        """Return a leaf as a tensor, or as a value: itself, or a new one that requires grad."""
        kind = type(leaf)
        if kind is float or kind is int:
            return leaf_on(np.array(leaf, np.float64))
        if self._takes_values and (kind is Value or kind in VALUES):
            return leaf if kind is Value else new_value(leaf)
        is_array = isinstance(leaf, (Tensor, np.ndarray, np.generic)) or is_device_array(leaf)
        if leaf.dtype.kind not in "iufc" if is_array else not isinstance(leaf, (float, complex)):
            raise self._leaf_error(index, leaf)
        tensor = leaf if isinstance(leaf, Tensor) else asarray(leaf)
        if tensor.dtype.kind in "iu":
            tensor = tensor.astype(np.float64)
        return tensor if isinstance(leaf, Tensor) else tensor.requires_grad_()

    def _leaf_error(self, index: int, leaf: Any) -> GradientTypeError:
        if self._model_leaves is not None:
            index = self._model_leaves.kept[index]
        names = [
            path
            for position, child in zip(self._positions, self._structures, strict=True)
            for path in paths(child, argument_name(self._function, position))
        ]
        return GradientTypeError(
            must_be(
                f"{self._where}: {names[index]}",
                "a tensor, an array or a number",
                leaf,
                _hint(names[index], leaf, self._takes_values),
            )
        )

    def _as_output(self, index: int, leaf: Any) -> Any:
        if isinstance(leaf, Tensor) or (self._takes_values and isinstance(leaf, Value)):
            return leaf
        # Beside tensors, a Python number is a constant; an array is most likely a tensor that lost its history.
        if _is_number(leaf):
            return asarray(np.float64(leaf))
        assert self._output_structure is not None
        name = list(paths(self._output_structure, "its result"))[index]
        hint = "compute it from the arguments" if hasattr(leaf, "dtype") else "return it beside, with has_aux=True"
        raise GradientTypeError(
            f"{self._where}: the function must return Tensors, but {name} is {describe(leaf)}: {hint}"
        )

    def _vector(
        self,
        structure: TreeStructure,
        tree: Any,
        like: Sequence[Any],
        names: tuple[str, str],
        keeps_history: bool,
        kept: Sequence[int] | None = None,
    ) -> tuple[Any, ...]:
        what, other = names
        entries = leaves_like(structure, tree, f"{self._where}: {what}", other)
        vector: list[Any] = []
        for index, tensor in zip(range(len(entries)) if kept is None else kept, like, strict=True):
            entry = entries[index]
            if isinstance(tensor, Value):
                vector.append(entry)
                continue
            part = _as_vector(entry, tensor)
            if part is None or part.shape != tensor.shape:
                name = list(paths(structure, what))[index]
                raise InvalidGradientError(
                    f"{self._where}: {name} must have the shape {tensor.shape}, but is {describe(entry)}"
                )
            if part.dtype.kind == "c" and tensor.dtype.kind != "c":
                name = list(paths(structure, what))[index]
                raise InvalidGradientError(
                    f"{self._where}: {name} must be real, as what it multiplies is, but is {describe(entry)}: "
                    "take its .real"
                )
            vector.append(part if keeps_history else part.detach())
        return tuple(vector)


@final
class _ModelLeaves:
    """Which leaves of arguments that are models, or have some in them, a transform differentiates with respect to.

    In a model, what does not require grad is a constant, unless a tree function has put it in the place of a parameter
    that does; and a tensor that is in several places is one.

    Args:
        structures: the structures of the arguments.
        in_model: for each argument, whether each of its leaves is in a model; None where none is.
        leaves: their leaves.
    """

    __slots__ = ("_differentiated", "_leaves", "_numbers", "kept")

    def __init__(
        self, structures: Sequence[TreeStructure], in_model: Sequence[list[bool] | None], leaves: Sequence[Any]
    ) -> None:
        self._leaves = leaves
        #: For each leaf, whether it is differentiated although it does not require grad; None until that matters.
        self._differentiated: list[bool] | None = None
        flags = [
            flag
            for structure, each in zip(structures, in_model, strict=True)
            for flag in each or [False] * structure.count
        ]
        #: For each leaf the number of its point; None for a constant.
        self._numbers: list[int | None] = []
        #: The leaves that are points.
        self.kept: list[int] = []
        known: dict[int, int] = {}
        for index, (leaf, is_in_model) in enumerate(zip(leaves, flags, strict=True)):
            if is_in_model:
                if not (isinstance(leaf, Tensor) and leaf.requires_grad) and not self._is_point(index, structures):
                    self._numbers.append(None)
                    continue
                if id(leaf) in known and hasattr(leaf, "dtype"):
                    self._numbers.append(known[id(leaf)])
                    continue
                known[id(leaf)] = len(self.kept)
            self._numbers.append(len(self.kept))
            self.kept.append(index)

    def _is_point(self, index: int, structures: Sequence[TreeStructure]) -> bool:
        """Return whether a leaf of a model that does not require grad is a point nevertheless."""
        if self._differentiated is None:
            self._differentiated = [flag for structure in structures for flag in differentiated(structure)]
        leaf = self._leaves[index]
        # Tree functions may turn numbers into truth values, say.
        return self._differentiated[index] and not (isinstance(leaf, Tensor) and leaf.dtype.kind not in "fc")

    def points(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the leaves that are points."""
        return [leaves[index] for index in self.kept]

    def arguments(self, points: Sequence[Any]) -> list[Any]:
        """Return all leaves, with others in place of the points."""
        return [
            leaf if number is None else points[number] for leaf, number in zip(self._leaves, self._numbers, strict=True)
        ]

    def results(self, entries: Iterable[Any]) -> list[Any]:
        """Return all leaves of a result, of which there is one for each point; None for constants."""
        found = list(entries)
        return [None if number is None else found[number] for number in self._numbers]


def _as_vector(entry: Any, like: Tensor) -> Tensor | None:
    """Return a part of a vector as a tensor on the device of `like`, or None if it is not a number."""
    if isinstance(entry, Tensor):
        return entry.astype(np.float64) if entry.dtype.kind in "iu" else entry
    array = np.asarray(entry)
    if array.dtype.kind not in "iufc":
        return None
    is_complex = array.dtype.kind == "c" and like.dtype.kind != "c"
    return asarray(array if is_complex else array.astype(like.dtype), device=like.device)


def _is_number(leaf: Any) -> bool:
    """Tell whether a leaf of a result is a number of Python's, which has no history."""
    return type(leaf) in (int, float)


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return tensors with an alias in place of each that was there before.

    In a model, one tensor in two places would be the gradient of one parameter that is in both.
    """
    seen: set[int] = set()
    found = []
    for tensor in tensors:
        found.append(tensor.reshape(tensor.shape) if id(tensor) in seen else tensor)
        seen.add(id(tensor))
    return found


def _as_result(tensor: Tensor, given: Any) -> Any:
    """Return a result without history, in the type that the caller gets: a tensor, an array or a number as `given`."""
    if isinstance(given, Tensor):
        return tensor.detach()
    array: Any = tensor._data
    if type(array) is not np.ndarray:
        if is_device_array(array):
            return array
        array = tensor.numpy()
    # A gradient may be a read-only broadcast of one number.
    array = array if array.flags.writeable else array.copy()
    return array.view() if isinstance(given, np.ndarray) else array[()]


def _is_registered(leaf: Any) -> bool:
    """Tell whether an object is a value of a type that is known by its class, though it may be a container."""
    return type(leaf) in VALUES


def _hint(name: str, leaf: Any, takes_values: bool) -> str:
    """Return what to write in place of a leaf that is not a number."""
    if isinstance(leaf, Value):
        return FOR_VALUES
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)) or is_device_array(leaf):
        return f"write {name}.astype(float)"
    if hasattr(leaf, "__array__"):
        return f"write np.asarray({name})"
    if hasattr(leaf, "__float__"):
        return f"write float({name})"
    cls = type(leaf)
    if cls.__module__ == "builtins" or callable(leaf):
        constant = "pass it in an argument that argnums does not name, or in a static field of a dataclass"
        return (
            f"{constant}; or write ag.leaf({name}, type=...) for a gradient that is no array"
            if takes_values
            else constant
        )
    return f"if it is a container, register its class, ag.tree.register({cls.__name__})"


def named_after(
    f: Callable[..., Any],
    transform: str,
    what: str,
    argnums: int | tuple[int, ...] | None = None,
    again: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    key: Hashable = None,
) -> Callable[[F], F]:
    """Give the decorated function the name and the signature of `f`, and a docstring that says what it returns.

    Where there is a key, and `f` is a compiled function, what is returned runs by one program.

    Args:
        f: the function that was transformed.
        transform: the name of the transform.
        what: what the decorated function returns.
        argnums: with respect to which arguments; None where nothing is differentiated.
        again: returns the same of another function.
        key: is equal for what does the same to any function.
    """

    def decorate(made: F) -> F:
        functools.update_wrapper(made, f)
        named: Any = f
        while isinstance(named, functools.partial) or hasattr(named, "__wrapped__"):
            named = named.func if isinstance(named, functools.partial) else named.__wrapped__
        name = getattr(named, "__name__", type(named).__name__)
        made.__name__ = name
        # What Python says of a coroutine that nobody awaits: `f` itself may be none that is awaited.
        made.__qualname__ = f"{transform}({name})"
        positions = (argnums,) if not isinstance(argnums, tuple) else argnums
        which = f"argument {positions[0]}" if len(positions) == 1 else f"arguments {', '.join(map(str, positions))}"
        of = f"`{name}`" if argnums is None else f"`{name}` with respect to {which}"
        made.__doc__ = f"Return the {what} of {of}; it takes the arguments of `{name}`."
        if again is not None:
            remember(made, f, again, key)
        return cast(F, by_program(made))

    return decorate


def argument_name(function: Callable[..., Any], position: int) -> str:
    """Return the name of a positional argument of a function, for errors."""
    try:
        return list(inspect.signature(function).parameters)[position]
    except (TypeError, ValueError, IndexError):
        return f"argument {position}"
