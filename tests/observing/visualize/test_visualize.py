"""ag.visualize: what a drawing says, what it leaves out, and what is wrong with an argument."""

from __future__ import annotations

import builtins
import json
import re
import shutil
from random import Random
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, RequiresGradError
from asyncgrad.observing.visualize.colours import contrast, heat, ink_on
from tests.observing.visualize.graphs import Residual, loss_of
from tests.support.leaves import leaf


def data_of(page: str) -> dict[str, Any]:
    """Return the data of a page."""
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page).group(1))


def graphviz_or_skip() -> None:
    pytest.importorskip("graphviz")
    if shutil.which("dot") is None:
        pytest.skip("Graphviz's dot is not on the path: apt install graphviz")


def test_a_drawing_names_nodes_leaves_shapes_saved_bytes_hooks_and_async_rules():
    model = Residual(2)

    boxes = {box["title"]: box for box in data_of(ag.visualize(loss_of(model), format="html", params=model))["boxes"]}

    assert boxes["head.weight"]["lines"] == ["(2, 4) float64"]
    assert boxes["ScaleBackward"]["lines"] == ["(3, 2) float64", "1 tensor hook"]
    assert boxes["ScaleBackward"]["marks"] == ["async", "hook"]
    assert boxes["PowerBackward"]["lines"] == ["(3, 2) float64", "saves 48 B"]
    assert ["saved", "input (3, 2) float64, 48 B"] in boxes["PowerBackward"]["details"]


def test_equal_layers_are_drawn_once_with_their_number():
    model = Residual(48)

    text = ag.visualize(loss_of(model), format="dot", params=model)

    # The first layer made is another: its input requires no grad.
    assert 'label="× 47"' in text
    assert "layers.1–47.0.weight × 47" in text
    assert text.count("[label=") < 30


def test_the_arrow_to_the_next_repeat_is_told_from_the_way_out():
    x = leaf(1.0)
    y = x
    for _ in range(10):
        y = np.tanh(y * 2.0)

    text = ag.visualize(y, format="dot")

    assert re.findall(r"(n\d+ -> n\d+) \[style=dashed", text) == ["n1 -> n0"]
    assert "n1 -> n18;" in text


def test_without_folding_each_node_is_a_box():
    model = Residual(12)
    loss = loss_of(model)
    found = ag.graph.summary(loss)

    page = data_of(ag.visualize(loss, format="html", fold=False))

    assert len(page["boxes"]) == found.nodes + len(found.leaves)
    assert page["frames"] == []
    assert len(page["arrows"]) == found.edges - (found.edges - len({tuple(each) for each in page["arrows"]}))


def test_what_is_beyond_the_limit_is_left_out_and_counted():
    y = leaf(1.0)
    for turn in range(200):
        y = y * 2.0 if turn % 7 in (1, 2, 4) else np.tanh(y) if turn % 3 else y + 1.0

    text = ag.visualize(y, format="dot", fold=False, limit=20)

    assert text.count("Backward\\n") == 20
    assert "20 of 200 nodes and 0 of 1 leaf, shown as 20 boxes" in text
    assert "180 nodes and 1 leaf left out" in text
    assert "-> rest;" in text


def test_a_long_chain_is_drawn_without_recursion_and_folded():
    y = leaf(1.0)
    for _ in range(20_000):
        y = y * 1.0

    text = ag.visualize(y, format="dot")

    assert "20,000 nodes and 1 leaf" in text
    assert len(text) < 3000


def test_a_released_graph_is_drawn_as_released():
    loss = (leaf(2.0) ** 2).sum()
    sync.backward(loss)

    assert "released" in ag.visualize(loss, format="dot")


def test_nodes_are_coloured_by_the_time_that_they_took_in_a_profile():
    x = leaf(2.0)
    y = np.tanh(x * 3.0)
    product, tanh = y.grad_fn.next_edges[0].node, y.grad_fn
    numbers = (tanh.sequence_nr, product.sequence_nr)
    events = [
        SimpleNamespace(kind="backward", sequence_nr=number, began=began, ended=ended, line="model.py:12")
        for number, began, ended in [(numbers[0], 0, 1_000), (numbers[1], 0, 4_000_000), (numbers[1], None, None)]
    ]
    events.append(SimpleNamespace(kind="forward", sequence_nr=numbers[0], began=0, ended=9_000_000, line=None))

    page = data_of(ag.visualize(y, format="html", profile=SimpleNamespace(events=events)))
    boxes = {box["title"]: box for box in page["boxes"]}

    assert page["timed"]
    assert boxes["MultiplyBackward"]["fill"] == heat(1.0)
    assert boxes["TanhBackward"]["fill"] == heat(1 / 4000)
    assert boxes["MultiplyBackward"]["lines"][1].endswith("4.0 ms")
    assert ["called at", "model.py:12"] in boxes["MultiplyBackward"]["details"]


def test_the_text_on_each_colour_of_time_can_be_read():
    fills = [heat(share / 100) for share in range(101)]

    assert min(contrast(fill, ink_on(fill)) for fill in fills) >= 4.5


def test_several_tensors_a_tree_a_node_and_an_edge_can_be_drawn():
    x = leaf(1.0, 2.0)
    a, b = x * 2, x + 1
    edge = ag.graph.get_gradient_edge(a)

    texts = [ag.visualize(t, format="dot") for t in ([a, b], {"a": a, "b": (b,)}, [a.grad_fn, b], [edge, b])]

    assert all("AddBackward" in text and "MultiplyBackward" in text for text in texts)


def test_devices_are_named_where_there_are_several():
    x = leaf(1.0)

    text = ag.visualize(x.to("thread:0") * 2, format="dot")

    assert "on thread:0" in text
    assert "(1,) float64 on cpu" in text


def test_what_a_user_has_named_is_escaped_in_each_format():
    name = '</script><b>"\\'
    y = leaf(1.0) * 2
    x = y.grad_fn.next_edges[0].node.variable

    page, text = (ag.visualize(y, format=each, params={name: x}) for each in ("html", "dot"))

    assert "</script><b>" not in page
    assert name in [box["title"] for box in data_of(page)["boxes"]]
    assert '</script><b>\\"\\\\' in text


@pytest.mark.parametrize(
    "name",
    [
        "</script><script>alert(1)</script>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        '" onload="alert(1)',
        "<![CDATA[",
        "-->",
        "\\N\\G",
    ],
)
def test_what_a_user_has_named_is_text_in_svg(name):
    graphviz_or_skip()
    y = leaf(1.0) * 2
    x = y.grad_fn.next_edges[0].node.variable

    elements = list(ElementTree.fromstring(ag.visualize(y, format="svg", params={name: x})._repr_svg_()).iter())

    assert {each.tag.partition("}")[2] for each in elements} <= {"svg", "g", "title", "polygon", "path", "text", "a"}
    assert not [key for each in elements for key in each.attrib if key.startswith("on") or key.endswith("href")]
    assert name.replace("&lt;", "<").replace("&gt;", ">") in [each.text for each in elements]


def test_a_page_fetches_nothing():
    page = ag.visualize(leaf(1.0) * 2, format="html")

    assert re.findall(r"""(?:src|href)=["']?[^"'#]|@import|url\((?!#)""", page) == []
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_drawing_is_text_that_a_notebook_shows():
    page = ag.visualize(leaf(1.0) * 2, format="html")

    assert isinstance(page, str)
    assert page._repr_html_().startswith("<iframe srcdoc=")
    assert page._repr_svg_() is None
    assert repr(page) == f"<Drawing of a graph: html, {len(page):,} characters>"


def test_svg_is_what_graphviz_makes_of_the_dot_text():
    graphviz_or_skip()
    y = np.tanh(leaf(1.0) * 2)

    drawing = ag.visualize(y)

    assert drawing.format == "svg"
    assert drawing._repr_svg_().startswith("<svg")
    assert "TanhBackward" in drawing


@pytest.mark.parametrize(("name", "begins"), [("y.svg", b"<?xml"), ("y.png", b"\x89PNG"), ("y.pdf", b"%PDF")])
def test_a_path_has_the_format_of_its_suffix(tmp_path, name, begins):
    graphviz_or_skip()

    written = ag.visualize(leaf(1.0) * 2, tmp_path / name)

    assert written == tmp_path / name
    assert written.read_bytes().startswith(begins)


@pytest.mark.parametrize(("name", "begins"), [("y.dot", "digraph"), ("y.gv", "digraph"), ("y.html", "<!DOCTYPE html>")])
def test_dot_and_html_need_no_package(tmp_path, monkeypatch, name, begins):
    without_graphviz(monkeypatch)

    assert ag.visualize(leaf(1.0) * 2, str(tmp_path / name)).read_text(encoding="utf-8").startswith(begins)


def without_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name, *args):
        if name == "graphviz":
            raise ModuleNotFoundError("No module named 'graphviz'", name="graphviz")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_without_graphviz_a_drawing_of_no_given_format_is_dot_text(monkeypatch):
    without_graphviz(monkeypatch)

    drawing = ag.visualize(leaf(1.0) * 2)

    assert drawing.format == "dot"
    assert drawing.startswith("digraph")


def tangled(count: int) -> ag.Tensor:
    """The end of a graph whose edges cross each other."""
    random, tensors = Random(0), [leaf(1.0) for _ in range(10)]
    for one in range(count):
        first, second = random.sample(tensors, 2)
        tensors.append(first * second if one % 3 else np.sin(first) + second)
    return sum(tensors[-100:])


def test_a_picture_whose_arrows_cross_shows_so_many_boxes_that_graphviz_takes_seconds():
    graphviz_or_skip()
    y = tangled(300)

    drawing = ag.visualize(y)

    boxes = int(re.search(r"shown as (\d+) boxes", drawing).group(1))
    assert 40 <= boxes < ag.visualize(y, format="dot").count("[label=")
    assert "left out" in drawing


def test_an_async_hook_of_a_node_or_a_leaf_waits():
    async def answers(grad):
        return None

    x, y = leaf(1.0), leaf(2.0)
    z = np.sin(x) * y
    before = ag.graph.summary(z)
    z.grad_fn.next_edges[0].node.register_prehook(answers)
    y.register_hook(answers)
    page = data_of(ag.visualize(z, format="html"))
    summary = ag.graph.summary(z)

    assert dict(before.async_kinds) == {}
    assert dict(summary.async_kinds) == {"SinBackward": 1, "AccumulateGrad": 1}
    assert "no rule and no hook waits" in str(before)
    assert [box["title"] for box in page["boxes"] if "async" in box["marks"]] == ["SinBackward", "leaf"]
    assert ["awaits", "1 hook, an async def"] in page["boxes"][1]["details"]
    assert "1 hook, an async def" in z.grad_fn.next_edges[0].node._repr_html_()


def test_a_plain_and_an_async_hook_are_not_one_repeat():
    async def answers(grad):
        return None

    y = leaf(1.0)
    for turn in range(12):
        y = np.tanh(y * 2.0)
        y.register_hook(answers if turn == 5 else lambda grad: None)
    page = data_of(ag.visualize(y, format="html"))

    assert [box["count"] for box in page["boxes"] if "async" in box["marks"]] == [1]


def test_nodes_say_the_module_that_they_are_of():
    class Block(ag.nn.Module):
        def __init__(self):
            self.first, self.second = ag.nn.Linear(4, 8), ag.nn.Linear(8, 4)

        def __call__(self, x):
            return x + self.second(np.tanh(self.first(x)))

    class Model(ag.nn.Module):
        def __init__(self):
            self.blocks, self.head = [Block(), Block()], ag.nn.Linear(4, 2)

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return np.exp(self.head(np.sin(x))).sum()

    model = Model()
    page = data_of(ag.visualize(model(np.ones((3, 4))), format="html", params=model, fold=False))
    found = [(box["title"], dict(box["details"]).get("module", "")) for box in page["boxes"] if box["kind"] == "node"]

    assert found == [
        ("SumBackward", ""),
        ("ExpBackward", ""),
        ("LinearBackward", "head"),
        ("SinBackward", ""),
        ("AddBackward", ""),
        ("LinearBackward", "blocks.1.second"),
        ("TanhBackward", "blocks.1"),
        ("LinearBackward", "blocks.1.first"),
        ("AddBackward", ""),
        ("LinearBackward", "blocks.0.second"),
        ("TanhBackward", "blocks.0"),
        ("LinearBackward", "blocks.0.first"),
    ]
    assert "in blocks.1.first" in ag.visualize(model(np.ones((3, 4))), format="dot", params=model, fold=False)


def test_few_arrows_lead_to_what_is_left_out():
    assert 0 < ag.visualize(tangled(300), format="dot", limit=100).count("-> rest;") <= 12


# Bad use.


def test_svg_without_the_package_names_the_extra_and_what_needs_none(monkeypatch):
    without_graphviz(monkeypatch)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'asyncgrad\[visualize\]'.*format='html'"):
        ag.visualize(leaf(1.0) * 2, format="svg")


def test_svg_without_graphviz_itself_names_the_package_of_the_system(monkeypatch, tmp_path):
    pytest.importorskip("graphviz")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FileNotFoundError, match=r"apt install graphviz.*brew install graphviz"):
        ag.visualize(leaf(1.0) * 2, format="svg")


def test_a_tensor_without_a_graph_is_named_by_its_place():
    with pytest.raises(RequiresGradError, match=r"t\['b'\]\[1\], a tensor of shape \(2,\), has no graph.*no_grad"):
        ag.visualize({"b": [leaf(1.0), ag.tensor([1.0, 2.0])]}, format="dot")


@pytest.mark.parametrize("t", [1.0, "loss", np.ones(2), [], None])
def test_what_is_no_tensor_is_refused(t):
    with pytest.raises(ArgumentTypeError, match=r"ag\.visualize takes a tensor, a Node"):
        ag.visualize(t, format="dot")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"format": "SVG"}, ArgumentError, "no format 'SVG', did you mean 'svg'?"),
        ({"format": "bogus"}, ArgumentError, "there are svg, dot, html"),
        ({"format": 3}, ArgumentTypeError, "format must be a str"),
        ({"format": "png"}, ArgumentError, "pass a path that ends in .png"),
        ({"path": "y.svg", "format": "html"}, ArgumentError, "has the suffix of svg, and format='html'"),
        ({"path": "y.txt"}, ArgumentError, "the suffix of 'y.txt' is that of no format"),
        ({"path": 3}, ArgumentTypeError, "path must be a str or a Path"),
        ({"path": "no/such/folder/y.dot"}, FileNotFoundError, "no such folder"),
        ({"path": "/", "format": "dot"}, IsADirectoryError, "this is a folder"),
        ({"format": "dot", "limit": 0}, ArgumentError, "limit must be at least 1"),
        ({"format": "dot", "fold": "no"}, ArgumentTypeError, "fold must be True or False"),
        ({"format": "dot", "params": {"w": 3}}, ArgumentTypeError, r"params\['w'\] is int 3"),
        ({"format": "dot", "profile": 3}, ArgumentTypeError, "write profile=prof"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_to_write(arguments, error, message):
    with pytest.raises(error, match=message.replace("?", r"\?")):
        ag.visualize(leaf(1.0) * 2, **arguments)


def test_a_path_that_cannot_be_written_is_pythons_error(tmp_path):
    (tmp_path / "y.dot").symlink_to(tmp_path / "no" / "such")

    with pytest.raises(OSError, match=r"y\.dot"):
        ag.visualize(leaf(1.0) * 2, tmp_path / "y.dot")
