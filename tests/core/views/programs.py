"""Random programs of views, writes in place and reads, run by one interpreter on arrays of three libraries.

A program is a list of steps, and a step is a function of a table of arrays that it adds to or writes into. What a step
does is settled by shapes, which are the same everywhere, and never by values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import asyncgrad as ag


class ArrayLibrary(NamedTuple):
    """What the steps need of a library beside operators and indexing."""

    sin: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    #: `sin` and `tanh` again, their results written into an array.
    sin_into: Callable[[Any, Any], Any]
    #: Copies a source into an array where a mask says so.
    copy_where: Callable[[Any, Any, Any], Any]
    copy: Callable[[Any], Any]
    transpose: Callable[[Any], Any]
    #: Makes an array of a result: NumPy gives a number where there are no axes.
    array: Callable[[Any], Any]
    constant: Callable[[Any], Any]


NUMPY = ArrayLibrary(
    np.sin, np.tanh, lambda x, out: np.sin(x, out=out), lambda out, x, mask: np.copyto(out, x, where=mask),
    np.copy, np.transpose, np.asarray, np.asarray,
)  # fmt: skip
ASYNCGRAD = NUMPY._replace(array=lambda tensor: tensor, constant=ag.tensor)


def torch_library() -> ArrayLibrary:
    """PyTorch's; it has no `out=` on what requires grad, so that its own way to write in place stands for that."""
    import torch

    def masked(out: Any, x: Any, mask: Any) -> None:
        x = x.reshape(x.shape[max(0, x.ndim - out.ndim) :])
        out.copy_(torch.where(torch.from_numpy(np.broadcast_to(mask, out.shape).copy()), x, out))

    return ArrayLibrary(
        torch.sin,
        torch.tanh,
        lambda x, out: out.copy_(torch.sin(x)),
        masked,
        torch.clone,
        lambda x: x.permute(tuple(reversed(range(x.ndim)))),
        lambda tensor: tensor,
        lambda array: torch.from_numpy(np.array(array)),
    )


#: A step: (library, table, kinds) -> None.
Step = Callable[[ArrayLibrary, list[Any]], None]


class ViewProgram:
    """Steps, and what their arrays look like: a table of NumPy arrays that every step is tried on first.

    Args:
        shapes: of the leaves; the table begins with a copy of each, and with a constant array.
    """

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.steps: list[tuple[str, Step]] = []
        self.tried = self.start(NUMPY, self.leaves())

    def leaves(self) -> list[Any]:
        """Numbers between -1 and 1, the same in every run."""
        numbers = np.random.default_rng(len(self.shapes))
        return [numbers.uniform(-1, 1, shape) for shape in self.shapes]

    def start(self, library: ArrayLibrary, leaves: list[Any]) -> list[Any]:
        """The table before the first step."""
        dtype = complex if any(np.iscomplexobj(leaf) for leaf in leaves if isinstance(leaf, np.ndarray)) else float
        fixed = library.constant(np.linspace(-0.5, 1.0, 6).reshape(2, 3).astype(dtype))
        return [*(library.copy(leaf) for leaf in leaves), fixed]

    def add(self, name: str, step: Step) -> bool:
        """Append a step, if NumPy can do it; tell whether it could."""
        try:
            step(NUMPY, self.tried)
        except (ValueError, IndexError):
            return False
        self.steps.append((name, step))
        return True

    def run(self, library: ArrayLibrary, leaves: list[Any]) -> list[Any]:
        """The table after all steps."""
        table = self.start(library, leaves)
        for _, step in self.steps:
            step(library, table)
        return table

    def __repr__(self) -> str:
        return "\n".join([f"leaves of shapes {self.shapes}", *(name for name, _ in self.steps)])


def weighted_total(library: ArrayLibrary, table: list[Any]) -> Any:
    """A number that every element of the table has a part in, each another one."""
    result: Any = 0.0
    for place, array in enumerate(table):
        weights = np.cos(np.arange(array.size if isinstance(array, (np.ndarray, ag.Tensor)) else array.numel()) + place)
        result = result + (array * library.constant(weights.reshape(tuple(array.shape)))).sum()
    return result


def derivative_along(program: ViewProgram, directions: list[Any]) -> float:
    """The derivative of the total in a direction: a finite difference with an imaginary step, which loses no digits."""
    step = 1e-30
    leaves = [leaf + 1j * step * direction for leaf, direction in zip(program.leaves(), directions, strict=True)]
    return float(np.imag(weighted_total(NUMPY, program.run(NUMPY, leaves))) / step)
