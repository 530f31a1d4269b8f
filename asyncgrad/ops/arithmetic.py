"""Elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from .primitive import RULES, differentiable

__all__ = ["add", "divide", "multiply", "negative", "power", "subtract"]

add = differentiable(np.add, "x y", x=lambda g: g, y=lambda g: g)
subtract = differentiable(np.subtract, "x y", x=lambda g: g, y=lambda g: -g)
multiply = differentiable(np.multiply, "x y", x=lambda g, y: g * y, y=lambda g, x: g * x)
divide = differentiable(np.divide, "x y", x=lambda g, y: g / y, y=lambda g, x, y: -g * x / (y * y))
negative = differentiable(np.negative, "x", x=lambda g: -g)
positive = differentiable(np.positive, "x", x=lambda g: g)
power = differentiable(np.power, "x y", x=lambda g, x, y: g * y * x ** (y - 1), y=lambda g, x, out: g * out * np.log(x))
