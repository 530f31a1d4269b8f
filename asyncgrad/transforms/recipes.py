"""How a function that a transform has made is made again, of another function."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, final

__all__ = ["innermost", "made_again", "remember"]

Function = Callable[..., Any]


@final
class _Recipe(NamedTuple):
    """What a function was made of.

    Attributes:
        function: what was transformed.
        again: returns the same of another function.
    """

    function: Function
    again: Callable[[Function], Function]


_RECIPES: weakref.WeakKeyDictionary[Function, _Recipe] = weakref.WeakKeyDictionary()


def remember(made: Function, function: Function, again: Callable[[Function], Function]) -> None:
    """Remember how a function was made; `again` must not refer to it."""
    _RECIPES[made] = _Recipe(function, again)


def innermost(made: Function) -> Function:
    """Return the function that one or several transforms were given; a function of no transform is its own."""
    recipe = _recipe_of(made)
    return made if recipe is None else innermost(recipe.function)


def made_again(made: Function, function: Function) -> Function:
    """Return what the same transforms make of another function."""
    recipe = _recipe_of(made)
    return function if recipe is None else recipe.again(made_again(recipe.function, function))


def _recipe_of(made: Function) -> _Recipe | None:
    try:
        return _RECIPES.get(made)
    except TypeError:
        # An object that is called, and has no hash or no weak references.
        return None
