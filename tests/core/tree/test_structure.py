"""Trees: what is a container, the order of leaves, and the way back."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections import OrderedDict, defaultdict
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import tree
from asyncgrad.errors import ArgumentError, ArgumentTypeError


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Layer:
    """A frozen dataclass whose constructor refuses what no user would pass."""

    weight: Any
    bias: Any = None
    name: str = dataclasses.field(default="layer", metadata={"static": True})

    def __post_init__(self) -> None:
        if isinstance(self.weight, str):
            raise TypeError("a weight is a number")


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any


@tree.register
class Plain:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


@tree.register(attributes=["weight"])
class Named:
    __slots__ = ("name", "weight")

    def __init__(self, weight: Any, name: str) -> None:
        self.weight, self.name = weight, name


@tree.register
class Squared:
    def __init__(self, x: Any) -> None:
        self.x = x

    @functools.cached_property
    def square(self) -> Any:
        return self.x**2


class Interval:
    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high


tree.register(Interval, flatten=lambda i: ((i.low, i.high), "kept"), unflatten=lambda rest, ends: Interval(*ends))

TREES = {
    "a leaf": (1, [1]),
    "None": (None, []),
    "list": ([1, [2, 3]], [1, 2, 3]),
    "tuple": ((1, ()), [1]),
    "dict, in its own order": ({"b": 1, "a": {"c": 2}}, [1, 2]),
    "ordered dict": (OrderedDict(b=1, a=2), [1, 2]),
    "default dict": (defaultdict(list, b=1), [1]),
    "named tuple": (Pair(1, Pair(2, None)), [1, 2]),
    "dataclass": (Layer(1, [2]), [1, 2]),
    "slotted dataclass": (Slotted(1, 2), [1, 2]),
    "string": ({"name": "text"}, ["text"]),
}


@pytest.mark.parametrize(("given", "leaves"), TREES.values(), ids=TREES)
def test_a_tree_is_taken_apart_and_put_together_again(given, leaves):
    found, structure = tree.flatten(given)
    made = tree.unflatten(structure, found)

    assert found == leaves == tree.leaves(given)
    assert (made, type(made)) == (given, type(given))


def test_a_default_dict_keeps_its_factory():
    assert tree.map(lambda x: x, defaultdict(list, a=1))["new"] == []


def test_the_array_of_a_tensor_is_no_tree():
    x = ag.tensor([1.0])

    assert tree.leaves([x, x.numpy()])[0] is x


def test_a_registered_class_is_a_tree_of_its_attributes():
    made = tree.map(lambda x: x + 1, Plain(1, [2]))

    assert (type(made), made.x, made.y) == (Plain, 2, [3])


def test_an_instance_is_made_without_constructors_written_in_python():
    @tree.register
    class Space(SimpleNamespace):
        def __new__(cls, x: Any) -> Self:
            raise AssertionError

    given = SimpleNamespace.__new__(Space)
    given.x = 1
    made = tree.map(lambda x: x + 1, given)

    assert (type(made), made.x) == (Space, 2)


def test_a_registered_class_keeps_the_attributes_that_are_no_children():
    made = tree.map(lambda x: x + 1, Named(1, "n"))

    assert (made.weight, made.name) == (2, "n")


def test_a_class_is_registered_by_two_functions():
    made = tree.map(lambda x: x + 1, Interval(1, 2))

    assert (made.low, made.high) == (2, 3)


def test_a_static_field_is_no_leaf_and_stays():
    assert tree.map(str, Layer(1, name="first")) == tree.map(str, Layer(1, name="first"))
    assert tree.map(str, Layer(1, name="first")).name == "first"


def test_a_subclass_of_a_registered_class_is_a_leaf():
    class Derived(Plain):
        pass

    one = Derived(1, 2)

    assert tree.leaves(one) == [one]


def test_is_leaf_keeps_a_container_whole():
    assert tree.leaves([(1, 2), [3]], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]


def test_map_takes_the_entries_of_dicts_by_key():
    assert tree.map(lambda a, b: (a, b), {"x": 1, "y": 2}, {"y": 20, "x": 10}) == {"x": (1, 10), "y": (2, 20)}


def test_map_takes_the_entries_of_dicts_by_key_though_keys_look_alike():
    x, y = ag.tensor(1.0), ag.tensor(1.0)

    assert tree.map(lambda a, b: (a, b), {x: 1, y: 2}, {y: 20, x: 10}) == {x: (1, 10), y: (2, 20)}
    with pytest.raises(ArgumentError, match=r"tree 1 has no \[tensor\(1\., .*\)\], which tree 0 has there"):
        tree.map(lambda a, b: a, {x: 1, y: 2}, {x: 1})


def test_a_named_tuple_is_made_without_a_call_of_its_own_constructor():
    class Checked(Pair):
        def __new__(cls, first: Any, second: Any) -> Self:
            return super().__new__(cls, float(first), second)

    made = tree.map(str, Checked(1.0, 2))

    assert (type(made), made) == (Checked, ("1.0", "2"))


def test_what_a_cached_property_has_computed_of_other_leaves_is_no_part_of_a_tree():
    given = Squared(3)
    squares = (given.square, tree.map(lambda x: x + 1, given).square)

    assert (squares, tree.leaves(given)) == ((9, 16), [3])


def test_structures_with_arrays_beside_the_leaves_are_compared():
    def structure(*beside: float) -> Any:
        return tree.flatten(Layer(1.0, name=np.array(beside)))[1]  # type: ignore[arg-type]

    assert structure(1.0, 2.0) == structure(1.0, 2.0)
    assert structure(1.0, 2.0) != structure(1.0, 3.0)
    assert structure(1.0, 2.0) != structure(1.0)


def test_map_takes_a_container_where_the_first_tree_has_a_leaf():
    assert tree.map(lambda a, b: (a, b), [1, 2], [(10, 11), None]) == [(1, (10, 11)), (2, None)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"layers": [Layer(1), 2]}, r"tree 1\['layers'\]\[0\]\.bias is None, but tree 0 has a list there"),
        ({"layers": [Layer(1, [2])]}, r"tree 1\['layers'\] has no \[1\], which tree 0 has there"),
        ({"layers": [Layer(1, [2]), 2, 3]}, r"tree 1\['layers'\] has \[2\], which tree 0 does not have there"),
        ({"others": 1}, r"tree 1 has no \['layers'\], which tree 0 has there"),
        ([], "tree 1 is a list, but tree 0 has a dict there"),
        (None, "tree 1 is None, but tree 0 has a dict there"),
    ],
)
def test_map_names_the_place_where_trees_differ(other, message):
    with pytest.raises(ArgumentError, match=message):
        tree.map(lambda a, b: a, {"layers": [Layer(1, [2]), 3]}, other)


def test_structures_are_equal_where_the_containers_are():
    def structure(value: Any) -> Any:
        return tree.flatten(value)[1]

    assert structure([1, {"a": 2}]) == structure([3, {"a": 4}])
    assert hash(structure([1, {"a": 2}])) == hash(structure([3, {"a": 4}]))
    assert structure([1]) != structure((1,))
    assert structure({"a": 1}) != structure({"b": 1})
    assert structure([1]) != [1]
    assert repr(structure({"a": [1, None]})) == "dict(['a']: list([0]: *, [1]: NoneType()))"


@pytest.mark.parametrize("leaves", [[], [1, 2, 3]])
def test_unflatten_refuses_another_number_of_leaves(leaves):
    with pytest.raises(ArgumentError, match=f"takes the 2 leaves of the structure, not {len(leaves)}"):
        tree.unflatten(tree.flatten([1, 2])[1], leaves)


def test_bad_use_of_trees_is_told():
    with pytest.raises(ArgumentTypeError, match=r"takes a structure that ag\.tree\.flatten returned"):
        tree.unflatten([1], [1])  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="takes a function as its first argument"):
        tree.map([1], len)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", [list, type(None), ag.Tensor, np.ndarray, np.float64])
def test_a_class_whose_place_is_fixed_is_not_registered(cls):
    with pytest.raises(ArgumentTypeError, match=f"takes a class of your own, not {cls.__name__}"):
        tree.register(cls)


def test_bad_use_of_register_is_told():
    with pytest.raises(ArgumentTypeError, match="takes a class, not int 1"):
        tree.register(1)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="flatten and unflatten together"):
        tree.register(Plain, flatten=lambda p: ((), None))  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="not both"):
        tree.register(Plain, attributes=["x"], flatten=tree.flatten, unflatten=tree.unflatten)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match=r"write \['x'\]"):
        tree.register(Plain, attributes="x")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_structure_is_pickled_and_copied(copied):
    leaves, structure = ag.tree.flatten({"a": [1, (2, None)], "b": 3})
    again = copied(structure)

    assert again == structure
    assert ag.tree.unflatten(again, leaves) == {"a": [1, (2, None)], "b": 3}
    assert copied(ag.tree.flatten(1)[1]) is ag.tree.flatten(2)[1]
