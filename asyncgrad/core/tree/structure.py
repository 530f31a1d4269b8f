"""Flattening of trees to a list of leaves and a structure, and unflattening."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias, final

from ...errors import ArgumentError, ArgumentTypeError
from ..arrays.tensor_base import TensorBase
from ..settings.arguments import takes
from .registry import ContainerType, container_type

__all__ = [
    "LEAF",
    "Tree",
    "TreeStructure",
    "are_equal",
    "differentiated",
    "flatten",
    "first_places",
    "flatten_each",
    "in_models",
    "leaves",
    "leaves_like",
    "map",
    "paths",
    "unflatten",
    "unflatten_each",
]

#: A leaf, or a container of trees. Anything may be a leaf, so that type checkers learn no more of it than this name.
Tree: TypeAlias = object


@final
class TreeStructure:
    """A tree without its leaves: `flatten` returns it with the leaves, and `unflatten` takes it.

    Two structures are equal if their containers have the same classes, sizes, keys and attributes.
    """

    __slots__ = ("aux_data", "children", "cls", "count", "kind")

    def __init__(
        self,
        cls: type | None = None,
        kind: ContainerType | None = None,
        children: tuple[TreeStructure, ...] = (),
        aux_data: Any = None,
        count: int = 1,
    ) -> None:
        self.cls: type | None = cls
        self.kind: ContainerType | None = kind
        self.children: tuple[TreeStructure, ...] = children
        self.aux_data: Any = aux_data
        #: The number of leaves.
        self.count: int = count

    @property
    def accessors(self) -> tuple[str, ...]:
        """The source that accesses each child, after the name of the container: "[0]", "['key']", ".name"."""
        return () if self.kind is None else tuple([self.kind.accessor.format(label) for label in self.labels])

    @property
    def labels(self) -> Sequence[Any]:
        """What tells each child from the others: its index, key or attribute."""
        if self.kind is None or self.cls is None:
            return ()
        return self.kind.labels(self.cls, self.aux_data, len(self.children))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeStructure):
            return NotImplemented
        return self.cls is other.cls and self.children == other.children and are_equal(self.aux_data, other.aux_data)

    def __hash__(self) -> int:
        return hash((self.cls, tuple(self.labels), self.children))

    def __reduce__(self) -> Any:
        # The functions of a ContainerType cannot be pickled, and there is only one LEAF.
        return "LEAF" if self.cls is None else (_restored, (self.cls, self.children, self.aux_data, self.count))

    def __repr__(self) -> str:
        if self.cls is None:
            return "*"
        inner = ", ".join(f"{accessor}: {child}" for accessor, child in zip(self.accessors, self.children, strict=True))
        return f"{self.cls.__name__}({inner})"


def _restored(cls: type, children: tuple[TreeStructure, ...], aux_data: Any, count: int) -> TreeStructure:
    """Return a structure that was pickled."""
    return TreeStructure(cls, container_type(cls), children, aux_data, count)


#: The structure of a tree that is one leaf.
LEAF = TreeStructure()


def flatten(tree: Tree, is_leaf: Callable[..., bool] | None = None) -> tuple[list[Any], TreeStructure]:
    """Return the leaves of a tree, in order, and its structure, which `unflatten` takes.

    Args:
        tree: any object. An object that is not a container is a tree with one leaf; None is a tree without leaves.
        is_leaf: called with each container, the outermost first; returns whether to treat it as a leaf.

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


def leaves(tree: Tree, is_leaf: Callable[..., bool] | None = None) -> list[Any]:
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


def unflatten(structure: TreeStructure, leaves: Iterable[object]) -> Any:
    """Return a tree with the given structure and leaves.

    Args:
        structure: a structure that `flatten` returned.
        leaves: as many leaves as the structure has.

    Raises:
        ArgumentTypeError: `structure` is not a structure.
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
            takes("ag.tree.unflatten", "a structure that ag.tree.flatten returned as its first argument", structure)
        )
    given = list(leaves)
    if len(given) != structure.count:
        raise ArgumentError(f"ag.tree.unflatten takes the {structure.count} leaves of the structure, not {len(given)}")
    return _unflatten(structure, iter(given))


def map(  # noqa: A001
    function: Callable[..., Any], tree: Tree, *others: Tree, is_leaf: Callable[..., bool] | None = None
) -> Any:
    """Return a tree with the structure of `tree` and the results of `function` for the leaves as its leaves.

    Args:
        function: takes one leaf of each tree.
        tree: as for `flatten`.
        *others: trees of the same structure; they may have containers in place of leaves of `tree`.
        is_leaf: as for `flatten`, for `tree`.

    Raises:
        ArgumentError: another tree has a different structure; the message names the place by its path.

    Source: jax.tree.map.

    Example:
        >>> import asyncgrad as ag
        >>> ag.tree.map(lambda w, g: w - g, {"w": [1, 2]}, {"w": [10, 20]})
        {'w': [-9, -18]}
    """
    if not callable(function):
        raise ArgumentTypeError(takes("ag.tree.map", "a function as its first argument", function))
    first, structure = flatten(tree, is_leaf)
    columns = [
        leaves_like(structure, other, f"ag.tree.map: tree {index}", "tree 0") for index, other in enumerate(others, 1)
    ]
    rows = zip(first, *columns, strict=True)
    if structure.kind is None or in_models(structure) is None:
        return _unflatten(structure, iter([function(*entries) for entries in rows]))
    # A parameter that is in several places of a model stays one.
    results: dict[int, Any] = {}
    for entries in rows:
        if id(entries[0]) not in results:
            results[id(entries[0])] = function(*entries)
    return _unflatten(structure, iter([results[id(leaf)] for leaf in first]))


def paths(structure: TreeStructure, root: str) -> Iterator[str]:
    """Yield the source that accesses each leaf from a tree named `root`, such as `params['layers'][0].weight`."""
    if structure.kind is None:
        yield root
    for accessor, child in zip(structure.accessors, structure.children, strict=True):
        yield from paths(child, f"{root}{accessor}")


def in_models(structure: TreeStructure) -> list[bool] | None:
    """Return for each leaf whether it is in a container that `is_model`; None if there is no such container."""
    kind = structure.kind
    if kind is None:
        return None
    if kind.is_model:
        return [True] * structure.count
    found = [in_models(child) for child in structure.children]
    if all(each is None for each in found):
        return None
    return [
        is_in_model
        for child, each in zip(structure.children, found, strict=True)
        for is_in_model in ([False] * child.count if each is None else each)
    ]


def first_places(structure: TreeStructure, leaves: Sequence[Any]) -> list[int]:
    """Return for each leaf its number, or that of the leaf before that is the same object, if both are in models."""
    places = list(range(len(leaves)))
    flags = in_models(structure)
    if flags is not None:
        known: dict[int, int] = {}
        for index, (leaf, is_in_model) in enumerate(zip(leaves, flags, strict=True)):
            if is_in_model:
                places[index] = known.setdefault(id(leaf), index)
    return places


def differentiated(structure: TreeStructure, paths: frozenset[str] = frozenset(), path: str = "") -> Iterator[bool]:
    """Yield for each leaf whether the model that it is in has it differentiated although it does not require grad.

    Args:
        structure: the structure of a tree.
        paths: the paths of such leaves from the innermost model that the tree is in.
        path: the path of the tree from that model.
    """
    kind = structure.kind
    if kind is None:
        yield path in paths
        return
    if kind.is_model:
        paths, path = kind.differentiated(structure.aux_data), ""
    for label, child in zip(structure.labels, structure.children, strict=True):
        yield from differentiated(child, paths, f"{path}.{label}" if path else str(label))


def flatten_each(
    values: Sequence[Any], is_wanted: Callable[[Any], bool]
) -> tuple[Sequence[Any], tuple[TreeStructure, ...] | None]:
    """Return the leaves of several values, and the structure of each; `values` and None if none of them is a tree.

    A container without a wanted leaf is one leaf itself, and so is None.

    Args:
        values: any objects.
        is_wanted: takes a leaf.
    """
    for value in values:
        if not _is_leaf(value):
            break
    else:
        return values, None
    found: list[Any] = []
    structures = []
    for value in values:
        inner, structure = ([value], LEAF) if value is None else flatten(value)
        if structure is not LEAF and not any(is_wanted(leaf) for leaf in inner):
            inner, structure = [value], LEAF
        found += inner
        structures.append(structure)
    if all(structure is LEAF for structure in structures):
        return values, None
    return found, tuple(structures)


def unflatten_each(structures: Iterable[TreeStructure], leaves: Iterable[Any]) -> list[Any]:
    """Return a value for each structure, with the given leaves: the inverse of `flatten_each`."""
    following = iter(leaves)
    return [_unflatten(structure, following) for structure in structures]


def leaves_like(structure: TreeStructure, tree: Tree, what: str, like: str, *, allows_none: bool = False) -> list[Any]:
    """Return the entries of a tree in place of the leaves of a structure.

    Args:
        structure: the structure of another tree.
        tree: a tree of this structure, or with containers in place of leaves.
        what: the name of `tree` in errors.
        like: the name of the other tree.
        allows_none: None may stand for a container whose leaves are all None.

    Raises:
        ArgumentError: the structure of `tree` differs.
    """
    found: list[Any] = []
    _match(structure, tree, (what, like, allows_none), found)
    return found


def _is_leaf(value: Any) -> bool:
    return isinstance(value, TensorBase) or value is None or container_type(type(value)) is None


def _flatten(tree: Tree, is_leaf: Callable[[Any], bool] | None, found: list[Any]) -> TreeStructure:
    cls = type(tree)
    kind = None if isinstance(tree, TensorBase) else container_type(cls)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        found.append(tree)
        return LEAF
    before = len(found)
    children, aux_data = kind.flatten(tree)
    structures = tuple([_flatten(child, is_leaf, found) for child in children])
    return TreeStructure(cls, kind, structures, aux_data, len(found) - before)


def _unflatten(structure: TreeStructure, leaves: Iterator[Any]) -> Any:
    kind, cls = structure.kind, structure.cls
    if kind is None or cls is None:
        return next(leaves)
    return kind.unflatten(cls, structure.aux_data, [_unflatten(child, leaves) for child in structure.children])


def _match(structure: TreeStructure, tree: Tree, names: tuple[str, str, bool], found: list[Any]) -> None:
    kind, cls = structure.kind, structure.cls
    if kind is None or cls is None:
        found.append(tree)
        return
    what, like, allows_none = names
    if tree is None and allows_none:
        found += [None] * structure.count
        return
    if type(tree) is not cls:
        raise ArgumentError(f"{what} is {_kind(tree)}, but {like} has {_article(cls)} there")
    children, aux_data = kind.flatten(tree)
    labels = kind.labels(cls, aux_data, len(children))
    by_label: dict[Any, Any] = dict(zip(labels, children, strict=True))
    expected = structure.labels
    if len(by_label) != len(expected) or not all(label in by_label for label in expected):
        _raise_for_children(kind.accessor, expected, labels, what, like)
    for label, child in zip(expected, structure.children, strict=True):
        _match(child, by_label[label], (f"{what}{kind.accessor.format(label)}", like, allows_none), found)


def _raise_for_children(
    accessor: str, expected: Sequence[Any], actual: Sequence[Any], what: str, like: str
) -> NoReturn:
    # Keys may be tensors, which `in` would compare in a sequence.
    missing = [label for label in expected if label not in set(actual)]
    if missing:
        raise ArgumentError(f"{what} has no {accessor.format(missing[0])}, which {like} has there")
    extra = [label for label in actual if label not in set(expected)]
    raise ArgumentError(f"{what} has {accessor.format(extra[0])}, which {like} does not have there")


def are_equal(one: Any, other: Any) -> bool:
    """Compare the data of two containers, which may hold arrays."""
    if one is other:
        return True
    if type(one) is tuple and type(other) is tuple:
        return len(one) == len(other) and all(are_equal(*pair) for pair in zip(one, other, strict=True))
    if getattr(one, "shape", None) != getattr(other, "shape", None):
        return False
    same: Any = one == other
    return bool(same.all() if hasattr(same, "all") else same)


def _kind(value: Any) -> str:
    return "None" if value is None else _article(type(value))


def _article(cls: type) -> str:
    name = cls.__name__
    return "None" if cls is type(None) else f"{'an' if name[0] in 'AEIOUaeiou' or name == 'ndarray' else 'a'} {name}"
