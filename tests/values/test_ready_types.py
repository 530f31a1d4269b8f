"""Text, Tree and SparseRows: what they take, how they add, and what they refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentTypeError, GradientTypeError, InvalidGradientError
from asyncgrad.values import Feedback, SparseRows, Text, Tree

scipy_sparse = pytest.importorskip("scipy.sparse")


class Given(ag.Function):
    """Gives the gradients that it is told to."""

    @staticmethod
    def forward(ctx, value, gradient):
        ctx.gradient = gradient
        return np.ones(())

    @staticmethod
    def backward(ctx, grad):
        return ctx.gradient, None


def gradient_of(value, kind, *gradients):
    """Return the `.grad` of a leaf that several rules give gradients to, in the order of the graph."""
    leaf = ag.leaf(value, type=kind)
    sync.backward(sum(Given.apply(leaf, gradient) for gradient in reversed(gradients)))
    return leaf.grad


@pytest.mark.parametrize(
    "given",
    ["short", Feedback("short"), ["short"], (Feedback("short"),), [Feedback("short")]],
)
def test_feedback_is_taken_in_several_forms_and_kept_in_one(given):
    assert gradient_of("a", Text(), given) == (Feedback("short", ""),)


def test_feedback_that_meets_is_in_the_order_of_the_graph_and_empty_feedback_is_none():
    assert gradient_of("a", Text(), "one", [], ("two", "three")) == tuple(map(Feedback, ("one", "two", "three")))
    leaf = ag.leaf("a", type=Text())
    sync.backward(Given.apply(leaf, []))
    assert leaf.grad is None


def test_a_rule_whose_answer_nobody_has_said_anything_of_gets_no_feedback():
    seen = []

    class Call(ag.Function):
        @staticmethod
        def forward(ctx, name, text):
            ctx.name = name
            return ag.Value(name, text.type)

        @staticmethod
        def backward(ctx, feedback):
            seen.append((ctx.name, feedback))
            return None, [one for one in feedback if ctx.name != "second"]

    leaf = ag.leaf("a", type=Text())
    sync.backward(Call.apply("second", Call.apply("first", leaf)), "short")

    assert seen == [("second", (Feedback("short"),)), ("first", ())]
    assert leaf.grad is None


def test_a_function_that_merges_texts_gets_all_that_has_met():
    seen = []

    async def merge(gradients):
        seen.append(gradients)
        return [Feedback(" and ".join(one.text for each in gradients for one in each), "merge")]

    assert gradient_of("a", Text(merge), "one", "two") == (Feedback("one and two", "merge"),)
    assert seen == [((Feedback("one"),), (Feedback("two"),))]
    assert repr(Text(merge)) == "Text(merge=merge)"
    with pytest.raises(ArgumentTypeError, match="merge"):
        Text("and")


@pytest.mark.parametrize("given", [3.0, {"text": "short"}, [3.0], np.ones(2)])
def test_what_is_no_feedback_is_refused(given):
    with pytest.raises(GradientTypeError, match=r"feedback is a tuple of Feedback|is no Feedback"):
        gradient_of("a", Text(), given)


def test_the_size_of_a_text_is_that_of_its_bytes():
    assert Text().nbytes("é") == 2
    assert Text().nbytes((Feedback("é"), Feedback("a"))) == 3


def test_trees_are_added_leaf_by_leaf_and_tensors_in_them_become_arrays():
    value = {"a": 1.0, "b": [np.zeros(2), None]}
    found = gradient_of(
        value, Tree(), {"a": ag.tensor(1.0), "b": [np.ones(2), None]}, {"a": 2, "b": [ag.tensor([1.0, 2.0]), None]}
    )
    assert float(found["a"]) == 3.0
    assert type(found["b"][0]) is np.ndarray
    assert found["b"][0].tolist() == [2.0, 3.0]
    assert Tree().nbytes(value) == 24


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"a": 1.0}, InvalidGradientError, "its structure is"),
        (
            {"a": np.ones(2), "b": np.ones(2)},
            InvalidGradientError,
            "it['a'] has shape (2,), and in the value it has ()",
        ),
        ({"a": "x", "b": np.ones(2)}, GradientTypeError, "it['a'] is str 'x', and no number or array"),
    ],
)
def test_a_tree_of_another_form_is_refused(given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        gradient_of({"a": 1.0, "b": np.zeros(2)}, Tree(), given)


@pytest.mark.parametrize("leaf", ["x", ag.tensor(1.0), object()])
def test_a_tree_of_what_is_no_number_is_refused(leaf):
    with pytest.raises(ArgumentTypeError, match=re.escape("has numbers and arrays at its leaves, and value['a'] is")):
        ag.leaf({"a": leaf}, type=Tree())


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok"])
def test_sparse_rows_of_any_format_are_summed_and_kept_as_csr(form):
    def rows(number, at):
        made = scipy_sparse.coo_array(([number, number], ([at, at], [0, 0])), shape=(1000, 2))
        return made.asformat(form)

    found = gradient_of(np.zeros((1000, 2)), SparseRows(), rows(1.0, 3), rows(2.0, 3), rows(5.0, 7))
    assert found.format == "csr"
    assert found.nnz == 2
    assert (found[3, 0], found[7, 0]) == (6.0, 10.0)


def test_sparse_rows_accumulate_over_passes_and_have_no_row_where_nothing_was_read():
    table = ag.leaf(np.zeros((4, 2)), type=SparseRows())
    for _ in range(2):
        sync.backward(Given.apply(table, scipy_sparse.coo_array(([1.0], ([1], [1])), shape=(4, 2))))
    assert table.grad.toarray().tolist() == [[0, 0], [0, 2], [0, 0], [0, 0]]
    assert SparseRows().zero(SparseRows().describe(np.zeros((4, 2)))).nnz == 0
    assert SparseRows().nbytes(np.zeros((4, 2))) == 64


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.zeros((4, 2)), GradientTypeError, "is a sparse array, not ndarray of shape (4, 2)"),
        (scipy_sparse.coo_array((3, 2)), InvalidGradientError, "it has shape (3, 2), and the table has (4, 2)"),
    ],
)
def test_what_are_no_sparse_rows_is_refused(given, error, message):
    with pytest.raises(error, match=re.escape(message)):
        gradient_of(np.zeros((4, 2)), SparseRows(), given)


@pytest.mark.parametrize("table", [np.zeros(3), "table", ag.tensor(np.zeros((2, 2)))])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ArgumentTypeError, match=r"SparseRows|has a place in a graph"):
        ag.leaf(table, type=SparseRows())


@pytest.mark.parametrize("feedback", [Feedback(None), Feedback("x", source=3), ["x", Feedback(None)]], ids=repr)
def test_feedback_without_a_text_is_refused_where_it_arrives(feedback):
    with pytest.raises(GradientTypeError, match=r"GivenBackward .* the text and the source of a Feedback are strings"):
        sync.backward(Given.apply(ag.leaf("a", type=Text()), feedback))


def test_sparse_rows_have_each_entry_once_in_whatever_format_they_come():
    numbers, columns, begins = np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 2, 3])
    given = scipy_sparse.csr_array((numbers, columns, begins), shape=(3, 2))
    table = ag.leaf(np.zeros((3, 2)), type=SparseRows())

    sync.backward(Given.apply(table, given))

    assert (table.grad.nnz, table.grad.toarray().tolist()) == (2, [[0.0, 3.0], [0.0, 0.0], [4.0, 0.0]])
    assert given.data.tolist() == [1.0, 2.0, 4.0]
