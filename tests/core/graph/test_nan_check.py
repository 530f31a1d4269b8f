"""The search for NaN in what a node returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.core.graph.anomaly import check_nan
from asyncgrad.errors import AnomalyError, GraphError
from tests.support.leaves import leaf, leaf_of
from tests.support.nodes import PassingNode
from tests.support.refusals import refused

NAN = float("nan")


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, NAN]),
        np.array([[NAN]], np.float16),
        np.array([1.0, complex(0.0, NAN)]),
        np.float32(NAN),
        ag.tensor([NAN]),
        leaf(NAN),
        NAN,
    ],
    ids=["float64", "float16", "complex", "scalar", "tensor", "recorded", "number"],
)
def test_a_nan_is_found_in_whatever_is_a_gradient(value):
    node = PassingNode()
    with refused(
        AnomalyError,
        RuntimeError,
        f"PassingNode (node #{node.sequence_nr}",
        "returned NaN in gradient 1, of 2",
        "check_nan=False",
    ):
        check_nan(node, (None, value))


@pytest.mark.parametrize(
    "value",
    [np.array([1.0, np.inf]), np.array([1, 2]), np.array([True]), np.zeros(0), ag.tensor([1.0]), 1.0, 3, None],
    ids=["infinite", "integers", "bool", "empty", "tensor", "number", "integer", "undefined"],
)
def test_what_holds_no_nan_passes(value):
    check_nan(PassingNode(), (value,))


def test_the_search_records_nothing():
    seen: list[Any] = []
    g = leaf_of([1.0])
    with ag.graph.node_creation_hook(seen.append):
        check_nan(PassingNode.__new__(PassingNode), (g,))

    assert seen == []


def test_the_error_is_a_graph_error():
    assert issubclass(AnomalyError, GraphError)
