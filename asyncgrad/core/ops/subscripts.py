"""The subscripts of einsum: in a string or in lists, with an ellipsis, with an implicit output."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from ..arrays.axes import array_like

__all__ = ["parse"]


def parse(operands: Sequence[Any]) -> tuple[list[str], str, list[Any]]:
    """Return for each array its letters, one for each axis, then those of the output, and the arrays.

    Args:
        operands: the arguments of einsum: a string and arrays, or arrays each followed by a list of axes.

    Raises:
        ValueError: the subscripts do not fit the arrays.
    """
    if not operands:
        raise ValueError("einsum needs subscripts and at least one array")
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0].replace(" ", ""), [array_like(array) for array in operands[1:]]
    else:
        subscripts, arrays = _from_lists(operands)
    labels, output = _resolved(subscripts, tuple(array.ndim for array in arrays))
    return list(labels), output, arrays


@functools.lru_cache(maxsize=1024)
def _resolved(subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return the letters of each array and of the output, ellipses replaced by letters of their own."""
    left, arrow, output = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ndims):
        raise ValueError(f"einsum subscripts {subscripts!r} describe {len(inputs)} arrays, and {len(ndims)} were given")
    for character in subscripts.replace("->", "").replace("...", "").replace(",", ""):
        if character not in ascii_letters:
            raise ValueError(f"einsum subscripts {subscripts!r} hold {character!r}, which is no letter")
    unused = [letter for letter in ascii_letters if letter not in subscripts]
    extra = [_extra_axes(terms, ndim, subscripts) for terms, ndim in zip(inputs, ndims, strict=True)]
    # The axes behind an ellipsis are aligned at their ends, as in broadcasting.
    broad = "".join(unused[: max(extra, default=0)])
    labels = tuple(
        terms.replace("...", broad[len(broad) - count :]) for terms, count in zip(inputs, extra, strict=True)
    )
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        output = "..." * bool(broad) + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    elif broad and "..." not in output:
        raise ValueError(f"einsum subscripts {subscripts!r} have an ellipsis for some axes and none in the output")
    output = output.replace("...", broad)
    _check_output(output, labels, subscripts)
    return labels, output


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts as a string for the form einsum(array, axes, array, axes, …, output axes)."""
    terms = [_term(axes) for axes in operands[1::2]]
    arrays = [array_like(array) for array in operands[: 2 * len(terms) : 2]]
    output = f"->{_term(operands[-1])}" if len(operands) % 2 else ""
    return ",".join(terms) + output, arrays


def _term(axes: Any) -> str:
    return "".join("..." if axis is Ellipsis else ascii_letters[axis] for axis in axes)


def _extra_axes(terms: str, ndim: int, subscripts: str) -> int:
    """Return how many axes an ellipsis stands for."""
    named = len(terms.replace("...", ""))
    extra = ndim - named
    if extra < 0 or (extra and "..." not in terms):
        raise ValueError(f"einsum subscripts {subscripts!r} name {named} axes ({terms!r}) of an array with {ndim}")
    return extra


def _check_output(output: str, labels: tuple[str, ...], subscripts: str) -> None:
    everywhere = "".join(labels)
    for letter in output:
        if output.count(letter) > 1:
            raise ValueError(f"einsum subscripts {subscripts!r} name {letter!r} twice in the output")
        if letter not in everywhere:
            raise ValueError(f"einsum subscripts {subscripts!r} name {letter!r} in the output and in no array")
