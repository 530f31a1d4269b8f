"""Matching of gradients to the parameters of an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import methodcaller
from typing import Any, final

import numpy as np

from ..core.arrays.interception import on_device_of
from ..core.arrays.uninitialized import UninitializedParameter
from ..core.arrays.values import is_device_array
from ..core.settings.arguments import must_be
from ..core.tensor import Tensor
from ..core.tree.registry import container_type
from ..core.tree.structure import TreeStructure, in_models, leaves_like, paths
from ..errors import ArgumentError, ArgumentTypeError

__all__ = ["Evaluation", "ParameterGradients", "ParameterTree", "check_array", "gradients_like"]


def check_array(name: str, leaf: Any) -> None:
    """Raise unless a gradient or a parameter is a tensor or an array.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if not isinstance(leaf, (Tensor, np.ndarray, np.generic)) and not is_device_array(leaf):
        raise ArgumentTypeError(must_be(name, "a tensor or an array", leaf))


@final
class ParameterGradients:
    """Gradients of parameters that somebody has computed for an optimizer, in the place of a tree like its parameters.

    Args:
        pairs: parameters, each with the array of its gradient.
    """

    __slots__ = ("_by_param",)

    def __init__(self, pairs: Iterable[tuple[Tensor, Any]]) -> None:
        self._by_param: dict[int, Any] = {id(param): array for param, array in pairs}

    def of_groups(self, groups: Iterable[dict[str, Any]]) -> list[list[tuple[Tensor, Any]]]:
        """Return for each group the parameters that have a gradient, and the array of it."""
        found = self._by_param
        return [[(param, found[id(param)]) for param in group["params"] if id(param) in found] for group in groups]


@final
class Evaluation:
    """What a closure may give an optimizer in the place of the loss: the loss, and gradients that are in no `.grad`."""

    __slots__ = ("gradients", "loss")

    def __init__(self, loss: Any, gradients: ParameterGradients) -> None:
        self.loss = loss
        self.gradients = gradients


@final
class ParameterTree:
    """The tree of parameters that a group was given.

    A module has tensors beside its parameters, and may have one in several places: those that are updated are `kept`.
    """

    __slots__ = ("kept", "structure")

    def __init__(self, structure: TreeStructure, leaves: Sequence[Any]) -> None:
        self.structure: TreeStructure = structure
        flags = in_models(structure)
        #: The numbers of the leaves that are parameters, each where it is first; None for all.
        self.kept: list[int] | None = None
        if flags is not None:
            seen: set[int] = set()
            self.kept = []
            for index, (leaf, is_in_model) in enumerate(zip(leaves, flags, strict=True)):
                if not is_in_model or (isinstance(leaf, (Tensor, UninitializedParameter)) and id(leaf) not in seen):
                    self.kept.append(index)
                seen.add(id(leaf))

    def params(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the leaves that are parameters."""
        return list(leaves) if self.kept is None else [leaves[index] for index in self.kept]

    def names(self, group: int) -> Sequence[str]:
        """Return the names of the parameters in errors: by number in a sequence, by path in a tree."""
        structure = self.structure
        is_nested = any(child.kind is not None for child in structure.children)
        if structure.kind is None or (structure.cls in (list, tuple) and not is_nested):
            return [f"parameter {index} of group {group}" for index in range(structure.count)]
        root = "params" if group == 0 else f"the 'params' of group {group}: params"
        return self.params(list(paths(structure, root)))


def gradients_like(
    tree: ParameterTree, params: Sequence[Tensor], grads: Any, group: int, what: str
) -> list[tuple[Tensor, Any]]:
    """Return the parameters that have a gradient, each with the array of it, in the dtype of the parameter.

    Args:
        tree: the tree of parameters.
        params: the parameters in it.
        grads: a tree like it, or a module of gradients if it is flat, with tensors or arrays, and None where there is
            no gradient.
        group: the number of the group, for errors.
        what: the name of `grads` in errors.

    Raises:
        ArgumentError: the structure or a shape differs, or a gradient is complex and its parameter is real.
        ArgumentTypeError: a gradient is neither a tensor nor an array.
    """
    structure = tree.structure
    given_type = container_type(type(grads))
    names: Sequence[str] | None = None
    if structure.cls in (list, tuple) and given_type is not None and given_type.is_model:
        given = grads._parameter_values()
        names, grads = [f"{what}.{path}" for path, _ in given], [value for _, value in given]
        if len(grads) != structure.count:
            raise ArgumentError(
                f"{what} are those of a model of {len(grads)} parameters, but there are {structure.count} to update: "
                "give the optimizer the model, or the gradients in a list"
            )
    if structure.cls in (list, tuple) and type(grads) in (list, tuple):
        # What ag.grad returns is a tuple, and what model.parameters() gives a list.
        grads = structure.cls(grads)
    if structure.kind is None and type(grads) in (list, tuple) and len(grads) == 1:
        (grads,) = grads
    entries = tree.params(leaves_like(structure, grads, what, "params", allows_none=True))
    places = tree.params(range(structure.count))
    found = []
    for index, (param, grad) in enumerate(zip(params, entries, strict=True)):
        if grad is None:
            continue
        array: Any = grad._data if isinstance(grad, Tensor) else grad
        if isinstance(grad, np.generic):
            array = np.asarray(grad)
        if not isinstance(array, np.ndarray) and not is_device_array(array):
            raise ArgumentTypeError(
                must_be(_nth(names or paths(structure, what), places[index]), "a tensor, an array or None", grad)
            )
        if array.shape != param.shape or array.dtype is not param._data.dtype:
            where = _nth(names or paths(structure, what), places[index]), tree.names(group)[index]
            array = _fit(array, param, *where)
        found.append((param, array))
    return found


def _fit(array: Any, param: Tensor, name: str, param_name: str) -> Any:
    """Return a gradient in the dtype of its parameter."""
    if array.shape != param.shape:
        raise ArgumentError(
            f"{name} has shape {array.shape}, but {param_name} has shape {param.shape}: are these the gradients of "
            "another model?"
        )
    if not np.can_cast(array.dtype, param.dtype, "same_kind"):
        raise ArgumentError(
            f"{name} has dtype {array.dtype}, but {param_name} has dtype {param.dtype}: write "
            f".astype({param.dtype}) if that is meant"
        )
    return on_device_of(array, methodcaller("astype", param.dtype))


def _nth(names: Iterable[str], index: int) -> str:
    return next(islice(names, index, None))
