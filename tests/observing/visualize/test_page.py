"""The page in a real browser: it lays out, folds, searches and chooses, in light and dark."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import asyncgrad as ag
from tests.observing.visualize.graphs import Residual, loss_of
from tests.support.browser import browser, pixels, run_page, said, with_script

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    browser()
    model = Residual(48)
    return ag.visualize(loss_of(model), tmp_path_factory.mktemp("page") / "graph.html", params=model)


def boxes(dom: str) -> dict[str, tuple[float, float, float, float]]:
    """Return the corners of each box by its key."""
    number = r'"(-?[\d.]+)"'
    found = {}
    for key, inside in re.findall(r'<g class="box[^"]*" data-key="(\w+)"[^>]*>(.*?)</g>', dom, re.DOTALL):
        x, y, w, h = re.findall(rf"<rect x={number} y={number} width={number} height={number}", inside)[-1]
        found[key] = (float(x), float(y), float(x) + float(w), float(y) + float(h))
    return found


@pytest.mark.slow
def test_boxes_do_not_overlap_and_each_edge_is_drawn(page, tmp_path):
    dom = run_page(page, tmp_path, "--dump-dom")
    corners = list(boxes(dom).values())

    assert 'data-ready="yes"' in dom
    assert len(corners) > 15
    assert dom.count('class="edge') > 15
    assert "NaN" not in dom
    for index, (left, top, right, bottom) in enumerate(corners):
        for other in corners[index + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def lines(path: str) -> list[tuple[float, float, float, float]]:
    """Return the corners of each straight line of a path of horizontal and vertical ones."""
    steps = re.findall(r"([MHV])(-?[\d.]+) ?(-?[\d.]+)?", path)
    x, y = float(steps[0][1]), float(steps[0][2])
    found = []
    for name, number, _ in steps[1:]:
        there = (float(number), y) if name == "H" else (x, float(number))
        found.append((min(x, there[0]), min(y, there[1]), max(x, there[0]), max(y, there[1])))
        x, y = there
    return found


@pytest.mark.slow
def test_dashed_edges_run_behind_no_box(page, tmp_path):
    nested = ag.tensor(1.0, requires_grad=True)
    y: ag.Tensor = nested
    for _ in range(8):
        for _ in range(5):
            y = np.tanh(y * nested) + np.sin(y)
        y = np.exp(y) * y
    for one in (page, ag.visualize(y, tmp_path / "nested.html")):
        dom = run_page(one, tmp_path / "profile", "--dump-dom", fragment="#unfold")
        dashed = re.findall(r'<path class="edge next" d="([^"]+)"', dom)

        assert dashed
        for left, top, right, bottom in boxes(dom).values():
            inside = [
                line
                for line in (each for path in dashed for each in lines(path))
                if line[0] < right - 2 and left + 2 < line[2] and line[1] < bottom - 2 and top + 2 < line[3]
            ]
            assert inside == []


@pytest.mark.slow
def test_folding_searching_and_choosing_do_what_they_say(page, tmp_path):
    script = """
    const say = [];
    const count = () => document.querySelectorAll(".box").length;
    const before = count();
    document.querySelector(".handle").dispatchEvent(new MouseEvent("click", {bubbles: true}));
    say.push(count() < before, document.querySelectorAll(".box.folded").length);
    document.querySelector(".box.folded").dispatchEvent(new MouseEvent("click", {bubbles: true}));
    say.push(count() === before);
    const search = document.getElementById("search");
    search.value = "relu"; search.dispatchEvent(new Event("input"));
    say.push(document.getElementById("hits").textContent, document.querySelectorAll(".box.found").length);
    search.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
    say.push(document.querySelector("#details h2").textContent, document.querySelectorAll(".edge.lit").length > 0);
    document.body.dataset.said = JSON.stringify(say);
    """
    dom = run_page(with_script(page, script, tmp_path / "driven.html"), tmp_path / "profile", "--dump-dom")

    assert said(dom) == '[true,1,true,"2 found",2,"ReluBackward × 47",true]'


@pytest.mark.slow
def test_a_screenshot_shows_the_page_in_dark(page, tmp_path):
    picture = tmp_path / "page.png"
    run_page(page, tmp_path / "profile", f"--screenshot={picture}", fragment="#dark&q=linear")

    assert pixels(picture.read_bytes()) == (1400, 900)
    assert picture.stat().st_size > 20_000
