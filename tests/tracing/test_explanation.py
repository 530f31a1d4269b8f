"""`ag.jit.explain` shows the program of a call and its guards, or why there is none."""

from __future__ import annotations

import numpy as np

import asyncgrad as ag
from tests.support.leaves import leaf


def test_a_program_is_shown_call_by_call_with_its_guards():
    explanation = ag.jit.explain(lambda x, y, n: (np.sin(x) * y + n).sum(), leaf(1.0, 2.0), np.ones((2, 2)).T, 3)

    assert explanation.reason is None
    assert explanation.guards == [
        "Tensor of shape (2,) and dtype float64, requires grad",
        "array of shape (2, 2) and dtype float64 and strides (8, 16)",
        "3",
    ]
    assert explanation.forward == [
        "%2 = sin(%0)",
        "%3 = multiply(%2, %1)",
        "%4 = add(%3, 3)",
        "%5 = add.reduce(%4, axis=None, keepdims=False)",
    ]
    assert str(explanation).splitlines()[0].startswith("a program of 4 calls forward and ")


def test_what_makes_arrays_of_its_own_is_named():
    explanation = ag.jit.explain(lambda x: np.where(x > 0, x, 0.0), leaf(1.0, 2.0))

    assert explanation.opaque == ["where"]
    assert "results are copied of where" in str(explanation)


def test_where_there_is_no_program_the_reason_is_told():
    assert str(ag.jit.explain(lambda x: x[:1], leaf(1.0, 2.0))).startswith("eager: it returns a view of an argument")


def test_stats_tell_of_each_compiled_function():
    @ag.jit
    def doubled(x):
        return x * 2

    doubled(leaf(1.0))

    assert ag.jit.stats()[doubled.name] == {"calls": 1, "eager: not traced yet": 1}
    assert repr(doubled) == f"<ag.jit of {doubled.name}: 0 of 1 calls replayed>"
    assert repr(ag.jit) == "ag.jit"
