"""Examples of derivatives for the functions of `asyncgrad.numpy`, with the results of a call when the site is made.

NumPy's own page has examples of the function; what asyncgrad adds is its derivative.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncgrad as ag
from tools.reference import derivative_of, public_names

__all__ = ["example_of"]

#: Arguments to try, as they are written: of functions of one array, of two, of a matrix, of two matrices.
_VECTOR, _OTHER, _MATRIX = "[0.25, 0.5]", "[2.0, 3.0]", "[[2.0, 1.0], [1.0, 3.0]]"
_ARGUMENTS: tuple[tuple[str, ...], ...] = ((_VECTOR,), (_VECTOR, _OTHER), (_OTHER,), (_MATRIX,), (_MATRIX, _OTHER))


@functools.cache
def example_of(name: str) -> tuple[str, ...]:
    """Return the lines of a doctest with the derivative of a function, if one of the arguments fits it."""
    if derivative_of(name) != "Differentiable to any order.":
        return ()
    written = name.replace("asyncgrad.numpy", "np", 1)
    for arguments in _ARGUMENTS:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("error")
            if found := _lines(public_names()[name], written, arguments):
                return found
    return ()


def _lines(function: Any, written: str, arguments: Sequence[str]) -> tuple[str, ...]:
    leaves = [ag.tensor(np.array(eval(one)), requires_grad=True) for one in arguments]  # noqa: S307  # those above
    value = function(*leaves)
    if not isinstance(value, ag.Tensor) or not value.requires_grad or np.iscomplexobj(value):
        return ()
    total = "" if value.ndim == 0 else ".sum()"
    grads = ag.sync.grad(value.sum(), leaves)
    if not all(np.isfinite(one).all() for one in grads):
        return ()
    names = ["x", "y"][: len(arguments)]
    lines = [">>> import asyncgrad as ag, asyncgrad.numpy as np"]
    for name, text in zip(names, arguments, strict=True):
        lines.append(f">>> {name} = ag.tensor({text}, requires_grad=True)")
    lines.append(f">>> gradients = ag.sync.grad({written}({', '.join(names)}){total}, [{', '.join(names)}])")
    lines.append(">>> [g.numpy().round(4).tolist() for g in gradients]")
    return (*lines, repr([one.numpy().round(4).tolist() for one in grads]))
