"""Trees taken apart into a list of leaves and a structure, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from ..arguments import describe
from ..errors import ArgumentError, ArgumentTypeError
from .registry import ContainerType, container_type

__all__ = ["TreeStructure", "flatten", "leaves", "leaves_like", "map", "paths", "unflatten"]


@final
class TreeStructure:
    """A tree without its leaves: what `flatten` returns beside them and `unflatten` fills.

    Two are equal if the containers are of the same classes and sizes, with the same keys and attributes.
    """

    __slots__ = ("accessors", "children", "cls", "count", "kind", "rest")

    def __init__(
        self,
        cls: type | None = None,
        kind: ContainerType | None = None,
        accessors: tuple[str, ...] = (),
        children: tuple[TreeStructure, ...] = (),
        rest: Any = None,
    ) -> None:
        self.cls = cls
        self.kind = kind
        self.accessors = accessors
        self.children = children
        self.rest = rest
        self.count: int = 1 if kind is None else sum(child.count for child in children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeStructure):
            return NotImplemented
        return (
            self.cls is other.cls
            and self.accessors == other.accessors
            and self.rest == other.rest
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.cls, self.accessors, self.children))

    def __repr__(self) -> str:
        if self.cls is None:
            return "*"
        inner = ", ".join(f"{accessor}: {child}" for accessor, child in zip(self.accessors, self.children, strict=True))
        return f"{self.cls.__name__}({inner})"


_LEAF = TreeStructure()


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeStructure]:
    """Return the leaves of a tree, in order, and its structure, which `unflatten` takes.

    Args:
        tree: any object; one that is no container is a tree of one leaf, and None is one of no leaf.
        is_leaf: is asked of each container, from the outside in, whether to take it for a leaf.

    Source: jax.tree.flatten.

    Example:
        >>> import asyncgrad as ag
        >>> leaves, structure = ag.tree.flatten({"w": [1.0, 2.0], "b": None})
        >>> leaves
        [1.0, 2.0]
        >>> ag.tree.unflatten(structure, [3.0, 4.0])
        {'w': [3.0, 4.0], 'b': None}
    """
    found: list[Any] = []
    return found, _flatten(tree, is_leaf, found)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree, in order.

    Args:
        tree: as for `flatten`.
        is_leaf: as for `flatten`.

    Source: jax.tree.leaves.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tree.leaves(({"a": 1}, [2, (3, None)]))
        [1, 2, 3]
    """
    return flatten(tree, is_leaf)[0]


def unflatten(structure: TreeStructure, leaves: Iterable[Any]) -> Any:
    """Return a tree of this structure with these leaves.

    Args:
        structure: of `flatten`.
        leaves: as many as the structure has places.

    Raises:
        ArgumentTypeError: `structure` is none.
        ArgumentError: there are more or fewer leaves.

    Source: jax.tree.unflatten.

    Example:
        >>> import asyncgrad as ag
        >>> _, structure = ag.tree.flatten((1, [2]))
        >>> ag.tree.unflatten(structure, "ab")
        ('a', ['b'])
    """
    if not isinstance(structure, TreeStructure):
        raise ArgumentTypeError(
            f"ag.tree.unflatten takes the structure that ag.tree.flatten returns, and leaves, not {describe(structure)}"
        )
    given = list(leaves)
    if len(given) != structure.count:
        raise ArgumentError(f"ag.tree.unflatten: the structure has {structure.count} leaves, not {len(given)}")
    return _unflatten(structure, iter(given))


def map(  # noqa: A001
    function: Callable[..., Any], tree: Any, *others: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Return a tree of the same structure whose leaves are what `function` returns for the leaves of the given ones.

    Args:
        function: takes one leaf of each tree.
        tree: as for `flatten`.
        *others: trees of the same structure. They may have containers where the first has a leaf.
        is_leaf: as for `flatten`, of the first tree.

    Raises:
        ArgumentError: another tree has a different structure; the message names the place by its path.

    Source: jax.tree.map.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tree.map(lambda w, g: w - g, {"w": [1, 2]}, {"w": [10, 20]})
        {'w': [-9, -18]}
    """
    if not callable(function):
        raise ArgumentTypeError(f"ag.tree.map takes a function as its first argument, not {describe(function)}")
    first, structure = flatten(tree, is_leaf)
    columns = [
        leaves_like(structure, other, f"ag.tree.map: tree {index}", "tree 0") for index, other in enumerate(others, 1)
    ]
    return _unflatten(structure, iter([function(*entries) for entries in zip(first, *columns, strict=True)]))


def paths(structure: TreeStructure, root: str) -> Iterator[str]:
    """Yield how each leaf is reached from the tree that is called `root`: `params['layers'][0].weight`."""
    if structure.kind is None:
        yield root
    for accessor, child in zip(structure.accessors, structure.children, strict=True):
        yield from paths(child, f"{root}{accessor}")


def leaves_like(structure: TreeStructure, tree: Any, what: str, like: str) -> list[Any]:
    """Return what a tree has in the places of the leaves of a structure.

    Args:
        structure: of another tree.
        tree: of the same structure, or with containers where that has leaves.
        what: the tree's name in errors.
        like: the name of the other tree.

    Raises:
        ArgumentError: it has another structure.
    """
    found: list[Any] = []
    _match(structure, tree, what, like, found)
    return found


def _flatten(tree: Any, is_leaf: Callable[[Any], bool] | None, found: list[Any]) -> TreeStructure:
    cls = type(tree)
    kind = container_type(cls)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        found.append(tree)
        return _LEAF
    accessors, children, rest = kind.take_apart(tree)
    return TreeStructure(cls, kind, accessors, tuple([_flatten(child, is_leaf, found) for child in children]), rest)


def _unflatten(structure: TreeStructure, leaves: Iterator[Any]) -> Any:
    kind, cls = structure.kind, structure.cls
    if kind is None or cls is None:
        return next(leaves)
    return kind.put_together(cls, structure.rest, [_unflatten(child, leaves) for child in structure.children])


def _match(structure: TreeStructure, tree: Any, what: str, like: str, found: list[Any]) -> None:
    kind, cls = structure.kind, structure.cls
    if kind is None or cls is None:
        found.append(tree)
        return
    if type(tree) is not cls:
        raise ArgumentError(f"{what} is {_kind(tree)}, but {like} has {_article(cls)} there")
    accessors, children, _ = kind.take_apart(tree)
    by_accessor: dict[str, Any] = dict(zip(accessors, children, strict=True))
    if by_accessor.keys() != set(structure.accessors):
        _refuse_children(structure.accessors, accessors, what, like)
    for accessor, child in zip(structure.accessors, structure.children, strict=True):
        _match(child, by_accessor[accessor], f"{what}{accessor}", like, found)


def _refuse_children(expected: Sequence[str], actual: Sequence[str], what: str, like: str) -> None:
    missing = [accessor for accessor in expected if accessor not in actual]
    if missing:
        raise ArgumentError(f"{what} has no {missing[0]}, which {like} has there")
    extra = [accessor for accessor in actual if accessor not in expected]
    raise ArgumentError(f"{what} has {extra[0]}, which {like} has not")


def _kind(value: Any) -> str:
    return "None" if value is None else _article(type(value))


def _article(cls: type) -> str:
    return "None" if cls is type(None) else f"a {cls.__name__}"
