"""What errors call a node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncgrad import sync
from asyncgrad.core.engine.node_task import NodeTask
from asyncgrad.core.graph.naming import identify, place_of
from asyncgrad.errors import HookError, HookTypeError
from tests.support.leaves import leaf

NUMBER_OF_LEAVES = str(2**64 - 1)


def test_a_node_is_called_by_its_number_and_a_leaf_by_its_shape():
    y = leaf(1.0, 2.0) * 2.0
    node: Any = y.grad_fn
    accumulator = node.next_edges[0].node

    assert identify(node) == f"MultiplyBackward (node #{node.sequence_nr})"
    assert place_of(node) == f"node #{node.sequence_nr}, device 'cpu'"
    assert identify(accumulator) == "AccumulateGrad (leaf of shape (2,))"
    assert place_of(accumulator) == "leaf of shape (2,), device 'cpu'"
    assert NodeTask.name.fget(SimpleNamespace(node=accumulator)) == identify(accumulator)  # type: ignore[attr-defined]


def test_a_node_of_the_highest_number_that_is_no_leaf_is_said_to_run_first():
    y: Any = leaf(1.0) * 2.0
    y.grad_fn.sequence_nr = 2**64 - 1

    assert identify(y.grad_fn) == "MultiplyBackward (node ahead of all others)"


def raising_body(*_: Any) -> Any:
    raise ValueError("here")


def text_returning_body(*_: Any) -> Any:
    return "text"


@pytest.mark.parametrize("hook", [raising_body, text_returning_body])
@pytest.mark.parametrize("where", ["tensor", "post-accumulate", "pre-hook", "hook"])
def test_no_error_at_a_leaf_gives_the_number_that_all_leaves_share(where, hook):
    x = leaf(1.0, 2.0)
    y = x * 2.0
    node: Any = y.grad_fn.next_edges[0].node
    register = {
        "tensor": x.register_hook,
        "post-accumulate": x.register_post_accumulate_grad_hook,
        "pre-hook": node.register_prehook,
        "hook": node.register_hook,
    }[where]
    register(hook)

    with pytest.raises((ValueError, HookError, HookTypeError)) as raised:
        sync.backward(y, np.ones(2))

    said = "\n".join([str(raised.value), *raised.value.__notes__])
    assert NUMBER_OF_LEAVES not in said
    assert "leaf of shape (2,)" in said


def test_edges_of_a_leaf_are_refused_by_its_shape():
    node: Any = (leaf(1.0) * 2.0).grad_fn.next_edges[0].node
    for wrong_use in (
        lambda: node.set_next_edge(0, None),
        lambda: node.add_next_edge(None),
        lambda: node.add_input_metadata(None),
        lambda: node(),
    ):
        with pytest.raises(Exception, match=r"leaf of shape \(1,\)"):
            wrong_use()
