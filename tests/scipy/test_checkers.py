"""The checker that all derivatives along lines rest on finds derivatives that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from tests.scipy.functions import check_along_a_line

_POINTS = (np.array([[0.5, -1.0], [2.0, 0.25]]), 0.75 - 0.5j)


class Product(ag.Function):
    """A product of which one element of one gradient is told wrongly."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any, wrong: float) -> Any:
        ctx.save_for_backward(x, factor)
        ctx.wrong = np.ones(x.shape)
        ctx.wrong[1, 0] = wrong
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, factor = ctx.saved_tensors
        return np.real(grad * np.conj(factor)) * ctx.wrong, np.sum(grad * x), None


def test_derivatives_along_a_line_are_compared_for_each_element() -> None:
    def product(wrong: float) -> Any:
        return lambda x, factor: Product.apply(ag.asarray(x), ag.asarray(factor), wrong)

    check_along_a_line(product(1.0), _POINTS)
    with pytest.raises(AssertionError, match="first order, array 0"):
        check_along_a_line(product(1.001), _POINTS)


def test_second_derivatives_along_a_line_are_compared() -> None:
    def cube(x: Any) -> Any:
        return x * x * x if not isinstance(x, ag.Tensor) else Cube.apply(x)

    with pytest.raises(AssertionError, match="second order, array 0"):
        check_along_a_line(cube, _POINTS[:1])


class Cube(ag.Function):
    """A cube whose gradient is right, and recorded wrongly."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * ag.asarray(x).detach()
