"""Value and leaf: what they are, what they refuse, and how the tools show them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.arrays.value_type import VALUES
from asyncgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChangedTensorError,
    GradientTypeError,
    GraphError,
    InPlaceError,
    InvalidGradientError,
    InvalidRootError,
    RequiresGradError,
)
from asyncgrad.extend import ValueType, register_value
from asyncgrad.graph import Edge, GradientEdge, Node, get_gradient_edge, summary
from asyncgrad.values import Feedback, Text, Tree


class Notes(ValueType):
    def add(self, first, second):
        return first + second


class Upper(ag.Function):
    @staticmethod
    def forward(ctx, text):
        ctx.save_for_backward(text)
        return ag.Value(text.value.upper(), text.type)

    @staticmethod
    def backward(ctx, feedback):
        (text,) = ctx.saved_tensors
        return (tuple(Feedback(f"{one.text} ({text.value})") for one in feedback),)


def text(value="a", **options):
    return ag.leaf(value, type=Text(), **options)


def test_a_leaf_has_its_object_its_type_and_no_gradient():
    leaf = text("Be brief.")
    assert (leaf.value, leaf.requires_grad, leaf.is_leaf, leaf.grad, leaf.grad_fn) == (
        "Be brief.",
        True,
        True,
        None,
        None,
    )
    assert repr(leaf) == "Value('Be brief.', Text(), requires_grad=True)"
    assert repr(text("x" * 100).detach()) == f"Value('{'x' * 59}…, Text())"
    assert not text(requires_grad=False).requires_grad


def test_what_is_computed_has_a_history_and_can_be_saved():
    leaf = text("a")
    made = Upper.apply(leaf)
    assert (made.value, made.grad_fn.name, made.output_nr) == ("A", "UpperBackward", 0)
    sync.backward(made, Feedback("short"))
    assert leaf.grad == (Feedback("short (a)"),)
    assert repr(made) == "Value('A', Text(), grad_fn=<UpperBackward>)"
    with ag.no_grad():
        assert not Upper.apply(leaf).requires_grad
    with pytest.raises(InvalidRootError, match="does not require grad"):
        sync.backward(Upper.apply(leaf.detach()), Feedback("short"))


def test_a_function_that_returns_an_argument_returns_another_value_of_its_object():
    class Same(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return value

        @staticmethod
        def backward(ctx, feedback):
            return (feedback,)

    leaf = text()
    same = Same.apply(leaf)
    assert same is not leaf
    assert same.value is leaf.value
    assert leaf.is_leaf
    sync.backward(same, Feedback("x"))
    assert leaf.grad == (Feedback("x"),)


def test_a_missing_gradient_is_the_zero_of_the_type_unless_that_is_declined():
    seen = []

    class Two(ag.Function):
        @staticmethod
        def forward(ctx, tree, materializes):
            ctx.set_materialize_grads(materializes)
            return tree.value["a"] * np.ones(()), ag.Value(tree.value, tree.type)

        @staticmethod
        def backward(ctx, by_number, by_tree):
            seen.append(by_tree)
            return {"a": by_number}, None

    for materializes in (True, False):
        leaf = ag.leaf({"a": 2.0}, type=Tree())
        sync.backward(Two.apply(leaf, materializes)[0])
        assert leaf.grad == {"a": 1.0}
    assert seen == [{"a": 0.0}, None]


@pytest.mark.parametrize(
    "use",
    [
        np.sin,
        np.asarray,
        ag.asarray,
        ag.tensor,
        lambda value: ag.tensor([1.0]) + value,
        lambda value: np.stack([ag.tensor([1.0]), value]),
        lambda value: ag.tensor([1.0, 2.0])[value],
    ],
)
def test_a_value_is_no_array_and_says_what_to_write(use):
    with pytest.raises(ArgumentTypeError, match=re.escape("a value of type Text is no array")):
        use(text())


def test_bad_leaves_are_refused_with_what_to_write():
    with pytest.raises(ArgumentTypeError, match=re.escape("write Text(), and not Text")):
        ag.leaf("a", type=Text)
    with pytest.raises(ArgumentTypeError, match=re.escape("write ag.tensor(data, requires_grad=True)")):
        ag.leaf(np.ones(2))
    with pytest.raises(ArgumentTypeError, match="no ValueType is registered for str 'a'"):
        ag.leaf("a")
    with pytest.raises(ArgumentTypeError, match="has a place in a graph already"):
        ag.leaf(ag.tensor(1.0), type=Notes())
    with pytest.raises(ArgumentTypeError, match="a value of type Text is a str, not int 3"):
        ag.leaf(3, type=Text())
    with pytest.raises(RequiresGradError, match="cannot stop requiring grad"):
        Upper.apply(text()).requires_grad_(False)
    with pytest.raises(ArgumentTypeError, match="requires_grad"):
        text(requires_grad="yes")


def test_a_class_can_be_registered_and_is_a_value_wherever_it_is_returned():
    @dataclasses.dataclass(frozen=True)
    class Prompt:
        text: str

    notes = Notes()
    try:
        assert register_value(Prompt, notes) is Prompt

        class Shout(ag.Function):
            @staticmethod
            def forward(ctx, prompt):
                return Prompt(prompt.value.text.upper()), "beside it"

            @staticmethod
            def backward(ctx, gradient, beside):
                assert beside is None
                return (gradient,)

        leaf = ag.leaf(Prompt("a"))
        shouted, beside = Shout.apply(leaf)
        assert (shouted.value, shouted.type, beside) == (Prompt("A"), notes, "beside it")
        sync.backward(shouted, ("n",))
        assert leaf.grad == ("n",)
        with pytest.raises(ArgumentError, match="registered for another ValueType"):
            register_value(Prompt, Notes())
    finally:
        del VALUES[Prompt]


@pytest.mark.parametrize("cls", [str, tuple, dict, np.ndarray, np.float64, ag.Tensor, "Prompt"])
def test_classes_of_python_and_numpy_cannot_be_registered(cls):
    with pytest.raises(ArgumentTypeError):
        register_value(cls, Notes())


def test_a_function_that_returns_no_value_says_what_to_return():
    class Plain(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return value.value

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with pytest.raises(ArgumentTypeError, match=re.escape("return ag.Value(answer, type)")):
        Plain.apply(text())


def test_copies_and_pickles_are_of_leaves():
    leaf = ag.leaf({"a": 1.0}, type=Tree())
    leaf.grad = {"a": 2.0}
    shallow, deep, pickled = copy.copy(leaf), copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))
    assert shallow.value is leaf.value
    assert deep.value == leaf.value
    assert deep.value is not leaf.value
    assert deep.grad == {"a": 2.0}
    assert (pickled.value, pickled.requires_grad, type(pickled.type)) == ({"a": 1.0}, True, Tree)
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RequiresGradError, match="only a leaf can be"):
            copied(Upper.apply(text()))


def test_a_leaf_may_get_another_object_which_graphs_that_have_saved_it_tell():
    leaf = text("a")
    kept, made = leaf.detach(), Upper.apply(leaf)
    leaf.value = "longer"
    assert leaf.value == "longer"
    assert leaf.requires_grad
    with pytest.raises(ChangedTensorError, match=r"UpperBackward .* needs a value of type Text that was changed"):
        sync.backward(made, Feedback("x"))
    sync.backward(Upper.apply(leaf), Feedback("x"))
    assert leaf.grad == (Feedback("x (longer)"),)
    assert kept.value == "a"
    with pytest.raises(InPlaceError, match="that UpperBackward has made cannot get another object"):
        Upper.apply(leaf).value = "b"
    with pytest.raises(ArgumentTypeError, match="a value of type Text is a str"):
        leaf.value = 3
    assert leaf.value == "longer"


def test_graphs_made_before_a_leaf_got_another_object_lead_to_it():
    class Shout(ag.Function):
        @staticmethod
        def forward(ctx, text):
            return ag.Value(text.value.upper(), text.type)

        @staticmethod
        def backward(ctx, feedback):
            return (feedback,)

    leaf, seen = text("a"), []
    leaf.register_hook(seen.append)
    made, node = Shout.apply(leaf), get_gradient_edge(leaf).node
    leaf.value = "longer"
    assert get_gradient_edge(leaf).node is node
    (found,) = sync.grad(made, [leaf], Feedback("x"), retain_graph=True)
    assert found == (Feedback("x"),)
    sync.backward(made, Feedback("y"), inputs=[leaf])
    assert (leaf.grad, seen) == ((Feedback("y"),), [(Feedback("x"),), (Feedback("y"),)])


def test_gradients_are_checked_against_the_object_that_a_leaf_has():
    class Sum(ag.Function):
        @staticmethod
        def forward(ctx, tree):
            ctx.keys = list(tree.value)
            return np.asarray(sum(tree.value.values()))

        @staticmethod
        def backward(ctx, grad):
            return dict.fromkeys(ctx.keys, grad)

    leaf = ag.leaf({"a": 1.0}, type=Tree())
    before = Sum.apply(leaf)
    sync.backward(before, retain_graph=True)
    leaf.value = {"b": 1.0}
    now = Sum.apply(leaf)
    with pytest.raises(
        InvalidGradientError, match=r"its structure is .* has got another object, .* = other: set v\.grad"
    ):
        sync.backward(before)
    with pytest.raises(InvalidGradientError, match=r"the \.grad to which .* is dict .* set v\.grad = None then"):
        sync.backward(now, retain_graph=True)
    assert leaf.grad.keys() == {"a"}
    leaf.grad = None
    sync.backward(now, retain_graph=True)
    assert leaf.grad == {"b": 1.0}

    def replace(gradient):
        leaf.grad, leaf.value = None, {"c": 1.0}

    leaf.register_hook(replace)
    with pytest.raises(
        InvalidGradientError, match=r"the gradient that is to be added to \.grad is dict .* set v\.grad"
    ):
        sync.backward(now)
    assert leaf.grad is None


def test_rows_of_gradients_are_for_tensors():
    with pytest.raises(GraphError, match="a value of type Text, and is_grads_batched=True takes tensors alone"):
        sync.grad(Upper.apply(text()), [text()], [[1]], is_grads_batched=True)


def test_a_node_of_the_users_own_takes_values_by_its_metadata():
    class Passing(Node):
        def apply(self, gradients):
            return (tuple(Feedback(one.text + "!") for one in gradients[0]),)

    leaf = text()
    edge = get_gradient_edge(leaf)
    node = Passing([Edge(*edge)], [edge.node.input_metadata[0]])
    sync.backward(GradientEdge(node, 0), "say")
    assert leaf.grad == (Feedback("say!"),)
    other = Passing([Edge(*edge)], [])
    assert other.add_input_metadata(leaf) == 0
    sync.backward(GradientEdge(other, 0), "more")
    assert leaf.grad == (Feedback("say!"), Feedback("more!"))
    assert node((Feedback("direct"),)) == (Feedback("direct!"),)


def test_summary_picture_and_profile_show_values():
    leaf = text("four")
    made = Upper.apply(Upper.apply(leaf))
    assert "Text" in str(summary(made))
    assert summary(made).leaves[0].nbytes == 4
    assert "Text" in str(ag.visualize(made))
    with ag.profile() as profile:
        sync.backward(made, Feedback("x"))
    assert {event.name for event in profile.events} >= {"UpperBackward", "AccumulateValue"}


def test_a_compiled_function_takes_values_and_is_eager():
    jitted = ag.jit(Upper.apply)
    for _ in range(4):
        leaf = text("a")
        sync.backward(jitted(leaf), Feedback("x"))
        assert leaf.grad == (Feedback("x (a)"),)


def test_saved_tensor_hooks_have_nothing_to_do_with_values():
    seen = []
    with ag.graph.saved_tensors_hooks(lambda tensor: seen.append(tensor) or tensor, lambda kept: kept):
        leaf = text()
        made = Upper.apply(leaf)
    sync.backward(made, Feedback("x"))
    assert seen == []
    assert leaf.grad == (Feedback("x (a)"),)


def test_a_value_among_the_outputs_may_be_marked_as_not_differentiable():
    class Two(ag.Function):
        @staticmethod
        def forward(ctx, text):
            plan, answer = ag.Value("plan", text.type), ag.Value("answer", text.type)
            ctx.mark_non_differentiable(plan)
            return plan, answer

        @staticmethod
        def backward(ctx, of_plan, of_answer):
            return (of_plan + of_answer,)

    leaf = text()
    plan, answer = Two.apply(leaf)

    assert (plan.requires_grad, answer.requires_grad) == (False, True)
    sync.backward(answer, Feedback("x"))
    assert leaf.grad == (Feedback("x"),)


def test_a_value_cannot_be_marked_as_written_into():
    class Dirty(ag.Function):
        @staticmethod
        def forward(ctx, text):
            ctx.mark_dirty(text)
            return text

        @staticmethod
        def backward(ctx, feedback):
            return (feedback,)

    with pytest.raises(GradientTypeError, match=r"mark_dirty takes tensors, .*return a new one, ag\.Value"):
        Dirty.apply(text())


@pytest.mark.parametrize("nothing", [(), [], ("answer", None), {}], ids=repr)
def test_a_forward_that_returns_nothing_that_a_gradient_comes_from_raises(nothing):
    class Nothing(ag.Function):
        @staticmethod
        def forward(ctx, value):
            return nothing

        @staticmethod
        def backward(ctx, *grads):
            return None

    for leaf in (text(), ag.tensor(1.0, requires_grad=True)):
        with pytest.raises(ArgumentTypeError, match="and no tensor or array, though an argument requires grad"):
            Nothing.apply(leaf)
    assert Nothing.apply(text().detach()) == nothing


def test_pictures_summaries_and_nodes_show_the_type_in_the_place_of_shape_and_dtype():
    answer = Upper.apply(text())
    shown = {
        "node": str(answer.grad_fn),
        "summary": str(summary(answer)),
        "picture": ag.visualize(answer, format="dot"),
    }

    for where, found in shown.items():
        assert "Text" in found, where
        assert "() " not in found, where
        assert "object" not in found, where


@pytest.mark.parametrize("name", ["describe", "seed", "zero", "add", "convert", "is_missing", "nbytes", "check"])
def test_a_type_whose_methods_would_have_to_be_awaited_is_refused_where_it_is_defined(name):
    async def waits(self, *arguments):
        return "a"

    with pytest.raises(ArgumentTypeError, match=rf"Waiting\.{name} is an async def, and nothing waits for it"):
        type("Waiting", (Notes,), {name: waits})
    assert type("Waiting", (Notes,), {"merge": waits}).merge is waits
