"""How a function that a transform has made is made again, of another function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, final

__all__ = ["by_program", "innermost", "key_of_recipe", "made_again", "remember"]

Function = Callable[..., Any]


@final
class _Recipe(NamedTuple):
    """What a function was made of.

    Attributes:
        function: what was transformed.
        again: returns the same of another function.
        key: is equal for what does the same to any function; None where that is not known.
    """

    function: Function
    again: Callable[[Function], Function]
    key: Hashable


_RECIPES: weakref.WeakKeyDictionary[Function, _Recipe] = weakref.WeakKeyDictionary()


def remember(made: Function, function: Function, again: Callable[[Function], Function], key: Hashable = None) -> None:
    """Remember how a function was made; `again` must not refer to it."""
    _RECIPES[made] = _Recipe(function, again, key)


def by_program(made: Function) -> Function:
    """Return an async function that a transform has made; of a compiled one, it runs by one program."""
    compiled: Any = innermost(made)
    if not getattr(type(compiled), "is_compiled", False) or key_of_recipe(made) is None:
        return made
    whole: Function = compiled.whole(made)
    _RECIPES[whole] = _RECIPES[made]
    return whole


def key_of_recipe(made: Function) -> Hashable:
    """Return what is equal for functions that the same transforms have made; None where that is not known."""
    recipe = _recipe_of(made)
    if recipe is None:
        return ()
    inner = key_of_recipe(recipe.function)
    return None if inner is None or recipe.key is None else (recipe.key, inner)


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
