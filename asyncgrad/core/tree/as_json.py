"""Trees as JSON: a journal, a checkpoint and a message between machines hold dicts, lists and tuples alike.

Nothing of it is code, so what reads it runs none. A list, a tuple and a dict say what they are, `{"tuple": [1, 2]}` and
`{"dict": [["a", 1]]}`, for JSON has neither tuples nor keys that are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["CONTAINER", "from_json", "to_json"]

#: What a function of `to_json` returns for a list, a tuple or a dict whose parts are to be written.
CONTAINER: Final = object()


def to_json(value: Any, leaf: Callable[[Any, str], Any], path: str) -> Any:
    """Return a tree as what JSON can hold.

    Args:
        value: the tree.
        leaf: called with each part and its path. It returns CONTAINER for a container, and for a leaf a number, a
            string or None, or `{kind: content}` for what JSON does not have. It raises for what may not be there.
        path: that of `value`, for errors.

    Example:
        >>> from asyncgrad.core.tree.as_json import CONTAINER, from_json, to_json
        >>> written = to_json({"a": (1, 2)}, lambda part, path: part if type(part) is int else CONTAINER, "state")
        >>> written
        {'dict': [['a', {'tuple': [1, 2]}]]}
        >>> from_json(written, lambda kind, content: content)
        {'a': (1, 2)}
    """
    written = leaf(value, path)
    if written is not CONTAINER:
        return written
    if isinstance(value, (list, tuple)):
        parts = [to_json(part, leaf, f"{path}[{index}]") for index, part in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": parts}
    return {"dict": [[key, to_json(part, leaf, f"{path}[{key!r}]")] for key, part in value.items()]}


def from_json(value: Any, leaf: Callable[[str, Any], Any]) -> Any:
    """Return the tree that `to_json` was given.

    Args:
        value: what it returned.
        leaf: returns the leaf of a kind and its content, and raises for a kind that there is not.
    """
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "list":
        return [from_json(part, leaf) for part in content]
    if kind == "tuple":
        return tuple([from_json(part, leaf) for part in content])
    if kind == "dict":
        return {key: from_json(part, leaf) for key, part in content}
    return leaf(kind, content)
