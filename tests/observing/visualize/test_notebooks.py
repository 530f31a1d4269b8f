"""What notebooks and shells show of a tensor, a node, a module and a running backward."""

from __future__ import annotations

import html.parser
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.core.graph.html import facts, panel, pre, table
from tests.observing.visualize.graphs import Residual, loss_of
from tests.support.leaves import leaf


class Text(html.parser.HTMLParser):
    """Collects the text of HTML, and complains about tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def cells(text: str) -> list[str]:
    """Return the pieces of text that HTML shows."""
    parser = Text()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.cells


def running_task() -> list[Any]:
    """Return what a GraphTask showed while it ran, and the task."""
    x = leaf(2.0)
    seen: list[Any] = []
    x.register_hook(lambda grad: seen.extend([repr(ag.engine.current_graph_task()), ag.engine.current_graph_task()]))
    sync.backward((x * 3).sum())
    return seen


def test_a_tensor_shows_its_values_and_what_it_is():
    x = leaf(1.0, 2.0)
    y = x * 2

    assert cells(x._repr_html_())[:2] == ["Tensor", "[1., 2.]"]
    assert "a leaf that requires grad" in cells(x._repr_html_())
    assert {"(2,)", "float64", "cpu", f"MultiplyBackward (node #{y.grad_fn.sequence_nr})"} <= set(
        cells(y._repr_html_())
    )


def test_a_large_tensor_is_cut():
    shown = ag.tensor(np.ones((1000, 1000)))._repr_html_()

    assert "..." in shown
    assert len(shown) < 4000


def test_a_tensor_shows_that_it_has_a_gradient_and_is_a_view():
    x = leaf(1.0, 2.0)
    sync.backward(x.sum())

    assert "accumulated, of shape (2,)" in cells(x._repr_html_())
    assert "of a tensor of shape (2,)" in cells(x[:1]._repr_html_())


def test_a_view_whose_history_a_write_has_made_invalid_says_so():
    base = leaf(1.0, 2.0) * 1
    view, _ = np.split(base, 2)
    base *= 2

    assert "invalid: a write into the memory of this view has no history" in cells(view._repr_html_())


def test_a_node_shows_what_it_takes_and_saves_and_where_its_gradients_flow():
    x = leaf(1.0, 2.0)
    y = np.tanh(x * ag.tensor([3.0, 4.0]))
    product = y.grad_fn.next_edges[0].node

    shown = cells(product._repr_html_())

    assert shown[0] == "MultiplyBackward"
    assert "input (2,) float64, 16 B" in shown
    assert shown[shown.index("AccumulateGrad") :][:2] == ["AccumulateGrad", "leaf of shape (2,)"]
    assert "nothing" in shown


def test_a_printed_node_says_as_much_in_text():
    y = np.tanh(leaf(1.0, 2.0) * 3)
    y.register_hook(lambda grad: None)
    number = y.grad_fn.sequence_nr

    assert str(y.grad_fn) == (
        f"TanhBackward (node #{number}): takes (2,) float64 on cpu, saves 16 B, 1 tensor hook; "
        f"flows to MultiplyBackward (node #{number - 1})"
    )
    assert repr(y.grad_fn) == "<TanhBackward>"


def test_a_released_node_says_so():
    y = np.tanh(leaf(1.0))
    sync.backward(y.sum())

    assert "released" in str(y.grad_fn)
    assert "released by a backward" in cells(y.grad_fn._repr_html_())


def test_a_module_shows_a_table_of_its_modules():
    model = Residual(2)
    model.head.weight.requires_grad_(False)

    shown = cells(model._repr_html_())

    assert shown[:2] == ["Residual", "50 parameters, in training"]
    assert shown[shown.index("layers.0.0") :][:5] == [
        "layers.0.0",
        "Linear(in_features=4, out_features=4, bias=True)",
        "weight (4, 4), bias (4,)",
        "20",
        "yes",
    ]
    assert shown[shown.index("head") :][-1] == "2 of them"


def test_a_module_of_many_modules_is_cut():
    assert "… 902 more modules" in cells(ag.nn.Sequential(*[ag.nn.ReLU() for _ in range(1000)])._repr_html_())


def test_a_running_backward_shows_its_state_and_one_that_ended_too():
    text, task = running_task()

    assert re.fullmatch(r"<GraphTask \d+: running, from SumBackward \(node #\d+\), depth 0, outstanding 1>", text)
    assert repr(task).startswith(f"<GraphTask {task.id}: ended, from ")
    assert {"GraphTask", "ended", "all nodes"} <= set(cells(task._repr_html_()))


def test_what_is_shown_is_escaped():
    bad = "<script>alert(1)</script>\"'&"

    shown = panel(bad, facts([(bad, bad)]) + table([bad], [[bad]]) + pre(bad), bad)

    assert "<script" not in shown
    assert cells(shown).count(bad) == 7


@pytest.mark.parametrize(
    "make",
    [lambda: leaf(1.0), lambda: Residual(1), lambda: loss_of(Residual(1)).grad_fn, lambda: ag.graph.summary(leaf(1.0))],
    ids=["tensor", "module", "node", "summary"],
)
def test_what_is_shown_takes_its_colours_from_the_page_and_fetches_nothing(make):
    text = make()._repr_html_()
    # A node's number, as in `node #123`, looks like a colour.
    styles = " ".join(re.findall(r'style="([^"]*)"', text))

    assert re.findall(r"#[0-9a-f]{3,6}\b|\brgb|url\(", styles) == []
    assert re.findall(r"src=|href=|<style|<script|class=\"(?!asyncgrad)", text) == []


def test_a_profile_shows_a_table_of_what_took_longest():
    prof = ag.profile()
    names = [f"<b>{number}</b>" for number in range(30)]
    assert cells(prof._repr_html_()) == ["profile", "not begun"]
    with prof:
        assert cells(prof._repr_html_()) == ["profile", "recording"]
        for name in names:
            double = staticmethod(lambda ctx, x: x * 2)
            type(name, (ag.Function,), {"forward": double, "backward": double}).apply(leaf(1.0))
        sync.backward(np.tanh(leaf(1.0)))
    shown = prof._repr_html_()

    assert cells(shown)[:3] == ["profile", "33 events, 1 backward pass", "name"]
    assert {"and 13 more", "total, µs", "forward"} <= set(cells(shown))
    assert "<b>" not in shown
    assert repr(prof) == "<profile, 33 events, 1 backward pass>"
