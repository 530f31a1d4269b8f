"""Checks of derivatives against finite differences, by the names of `autograd.test_util`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..core.settings.arguments import must_be
from ..core.tree.structure import leaves
from ..core.tree.structure import map as map_tree
from ..errors import ArgumentError
from .calls import Argnum, conjugated, of_one_argument
from .products import make_jvp, make_vjp

__all__ = ["check_grads", "combo_check"]

#: The step of the central differences, and the absolute and the relative error that is allowed.
_STEP = 1e-6
_TOLERANCE = 1e-6
_MODES = ("fwd", "rev")


def check_grads(
    f: Callable[..., Any], argnum: Argnum = 0, modes: Sequence[str] = _MODES, order: int = 2
) -> Callable[..., None]:
    """Return a function that compares derivatives of `f` at its arguments with finite differences.

    Args:
        f: a function of arrays, numbers, or dicts, lists and tuples of them, which may return such, too.
        argnum: the position of the argument, or a tuple or list of positions.
        modes: `"rev"` checks products of a vector with the Jacobian, `"fwd"` products of the Jacobian with a vector.
        order: how often `f` is differentiated.

    Raises:
        ArgumentError: there is no such mode.
        AssertionError: in a call: a derivative is not what finite differences say.

    Source: autograd.test_util.check_grads.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips.test_util import check_grads
        >>> check_grads(np.multiply, (0, 1))(2.0, np.array([1.0, -3.0]))
    """
    for mode in modes:
        if mode not in _MODES:
            raise ArgumentError(must_be("modes", "'fwd' and 'rev', one or both", modes, 'write modes=["rev"]'))

    def check(*args: Any, **kwargs: Any) -> None:
        function, x = of_one_argument(f, argnum, args, kwargs)
        _check(function, x, modes, order, getattr(f, "__name__", "the function"))

    return check


def combo_check(
    fun: Callable[..., Any], argnum: Argnum = 0, modes: Sequence[str] = _MODES, order: int = 2
) -> Callable[..., None]:
    """Return a function that checks all combinations of arguments, of each of which it takes a list.

    Args:
        fun: as for `check_grads`, as the other arguments are.
        argnum: see there.
        modes: see there.
        order: see there.

    Raises:
        AssertionError: as for `check_grads`.

    Source: autograd.test_util.combo_check.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.hips.test_util import combo_check
        >>> combo_check(np.sum, order=1)([np.ones(2), np.ones((2, 2))], axis=[0, None])
    """
    check = check_grads(fun, argnum, modes, order)

    def check_all(*args: Iterable[Any], **kwargs: Iterable[Any]) -> None:
        named = [[(name, value) for value in values] for name, values in kwargs.items()]
        for chosen, options in itertools.product(itertools.product(*args), list(itertools.product(*named))):
            check(*chosen, **dict(options))

    return check_all


def _check(function: Callable[[Any], Any], x: Any, modes: Sequence[str], order: int, name: str) -> None:
    direction, weights = _random_like(x), _random_like(function(x))
    changes, rest = _differences(function, x, direction), (modes, order - 1)
    if "fwd" in modes:
        _, product = make_jvp(function)(x)(direction)
        _compare(_inner(weights, product), _inner(weights, changes), f"the product of the Jacobian of {name}", x)
        if order > 1:
            _check(lambda both: make_jvp(function)(both[0])(both[1])[1], (x, direction), *rest, f"jvp of {name}")
    if "rev" in modes:
        pulled = conjugated(make_vjp(function)(x)[0](conjugated(weights)))
        _compare(_inner(direction, pulled), _inner(weights, changes), f"the product with the Jacobian of {name}", x)
        if order > 1:
            _check(
                lambda both: make_vjp(function)(both[0])[0](both[1]), (x, weights), modes, order - 1, f"vjp of {name}"
            )


def _compare(computed: float, expected: float, what: str, x: Any) -> None:
    if not abs(computed - expected) <= _TOLERANCE * max(1.0, abs(computed + expected)):
        raise AssertionError(f"{what} at {x} is {computed}, and finite differences are {expected}")


def _differences(function: Callable[[Any], Any], x: Any, direction: Any) -> Any:
    """Return the change of a function along a direction, by a central difference."""
    ahead, behind = (
        function(map_tree(lambda at, along, side=side: at + side * _STEP / 2 * along, x, direction)) for side in (1, -1)
    )
    return map_tree(lambda high, low: (np.asarray(high) - np.asarray(low)) / _STEP, ahead, behind)


def _random_like(tree: Any) -> Any:
    def draw(leaf: Any) -> Any:
        shape = np.shape(leaf)
        drawn = np.random.randn(*shape)  # noqa: NPY002  # as np.random.seed says, as for HIPS autograd
        return drawn + 1j * np.random.randn(*shape) if np.iscomplexobj(leaf) else drawn  # noqa: NPY002

    return map_tree(draw, tree)


def _inner(first: Any, second: Any) -> float:
    pairs = zip(leaves(first), leaves(second), strict=True)
    return float(sum(np.real(np.sum(np.conj(one) * other)) for one, other in pairs))
