"""A line search for the strong Wolfe conditions, as a generator that asks for values of the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Point", "strong_wolfe"]

#: A step is accepted where the function falls by at least this share of what its slope at the start promises,
_DECREASE = 1e-4
#: and where its slope is at most this share of that at the start.
_CURVATURE = 0.9


class Point(NamedTuple):
    """The function on the line."""

    #: The length of the step from the start, in units of the direction.
    step: float
    value: float
    #: The flat gradient.
    grad: Any
    #: The derivative by `step`.
    slope: float


#: Yields the length of a step; is sent the value and the flat gradient there.
Search = Generator[float, tuple[float, Any], Point]


def strong_wolfe(start: Point, direction: Any, step: float, tolerance: float, most: int) -> Search:
    """Find a point along `direction` that satisfies the strong Wolfe conditions.

    Args:
        start: the point with step 0; the function falls along `direction`.
        direction: the flat direction.
        step: the first step to try.
        tolerance: the search ends where no element changes by more than this.
        most: the search ends after as many points beside the first, at the best one.

    Returns:
        The point.

    Source: J. Nocedal and S. Wright, "Numerical optimization", algorithms 3.5 and 3.6 (2006), with the safeguards of
    torch.optim.LBFGS.
    """

    def evaluate(step: float) -> Generator[float, tuple[float, Any], Point]:
        value, grad = yield step
        return Point(step, value, grad, float(np.vdot(grad, direction)))

    scale = float(abs(direction).max())
    bracket, left = yield from _find_bracket(start, step, most, evaluate)
    if len(bracket) > 1 and left:
        yield from _narrow(start, bracket, left, tolerance / scale, evaluate)
    return min(bracket, key=lambda point: point.value)


def _falls_enough(point: Point, start: Point) -> bool:
    return point.value <= start.value + _DECREASE * point.step * start.slope


def _is_flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -_CURVATURE * start.slope


Evaluate = Callable[[float], Generator[float, tuple[float, Any], Point]]


def _find_bracket(
    start: Point, step: float, most: int, evaluate: Evaluate
) -> Generator[float, tuple[float, Any], tuple[list[Point], int]]:
    """Enlarge the step until a minimum lies between two points.

    Return those points, or one that satisfies both conditions, and how many more points may be tried.
    """
    last, point = start, (yield from evaluate(step))
    for count in range(most):
        if not _falls_enough(point, start) or (count > 1 and point.value >= last.value):
            return [last, point], most - count
        if _is_flat(point, start):
            return [point], most - count
        if point.slope >= 0:
            return [last, point], most - count
        bounds = point.step + 0.01 * (point.step - last.step), point.step * 10
        following = _cubic_minimum(last, point, *bounds)
        last, point = point, (yield from evaluate(following))
    return [start, point], 0


def _narrow(
    start: Point, bracket: list[Point], most: int, tolerance: float, evaluate: Evaluate
) -> Generator[float, tuple[float, Any], None]:
    """Narrow a bracket until one of its points satisfies both conditions, or `most` points have been tried."""
    is_stuck = False
    low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
    for _ in range(most):
        least, greatest = sorted(point.step for point in bracket)
        if greatest - least < tolerance:
            return
        step = _cubic_minimum(bracket[0], bracket[1], least, greatest)
        margin = 0.1 * (greatest - least)
        if min(greatest - step, step - least) < margin:
            # A step close to an end makes little progress: allowed once, and not at the end itself.
            if is_stuck or step >= greatest or step <= least:
                step = greatest - margin if abs(step - greatest) < abs(step - least) else least + margin
                is_stuck = False
            else:
                is_stuck = True
        else:
            is_stuck = False
        point = yield from evaluate(step)
        if not _falls_enough(point, start) or point.value >= bracket[low].value:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
            continue
        is_done = _is_flat(point, start)
        if not is_done and point.slope * (bracket[high].step - bracket[low].step) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
        if is_done:
            return


def _cubic_minimum(one: Point, other: Point, least: float, most: float) -> float:
    """Return the step at the minimum of the cubic through two points, within bounds."""
    left, right = (one, other) if one.step <= other.step else (other, one)
    if left.step == right.step:
        return (least + most) / 2
    mean = left.slope + right.slope - 3 * (left.value - right.value) / (left.step - right.step)
    radicand = mean**2 - left.slope * right.slope
    # A NaN, of a function that is infinite at one of the points, fails the comparison too.
    if not radicand >= 0:
        return (least + most) / 2
    root = math.sqrt(radicand)
    share = (right.slope + root - mean) / (right.slope - left.slope + 2 * root)
    return min(max(right.step - (right.step - left.step) * share, least), most)
