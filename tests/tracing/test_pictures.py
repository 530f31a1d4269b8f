"""ag.visualize draws the program of a compiled function: steps, kernels, what Python calls, and what repeats once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import optim
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.observing.visualize.test_visualize import data_of
from tests.tracing.running import compiled


def loss(w: Any, x: Any) -> Any:
    return (np.sort(np.tanh(x @ w) * 2 + 1, axis=0) ** 2).mean()


def arguments() -> tuple[ag.Tensor, np.ndarray]:
    return ag.tensor(np.ones((2, 1)), requires_grad=True), np.arange(6.0).reshape(3, 2)


def drawn(what: Any, **options: Any) -> dict[str, Any]:
    return data_of(ag.visualize(what, format="html", **options))


def boxes_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {box["title"]: box for box in data["boxes"]}


def lines_of(data: dict[str, Any]) -> list[str]:
    return [line for box in data["boxes"] for line in box["lines"]]


def test_an_explanation_is_drawn_with_its_kernels_and_what_python_calls():
    pytest.importorskip("llvmlite")

    data = drawn(ag.jit.explain(loss, *arguments()))

    boxes = boxes_of(data)
    assert data["program"] is True
    assert [frame["title"] for frame in data["frames"]] == ["forward", "backward"]
    assert boxes["kernel of 2 steps"]["lines"] == ["(3, 1) float64", "multiply, add"]
    assert [name for name, _ in boxes["kernel of 2 steps"]["details"]] == ["step", "step"]
    assert boxes["argsort"]["marks"] == ["opaque"]
    assert boxes["argsort"]["lines"] == ["(3, 1) int64", "called by Python"]
    assert boxes["argument 0"]["lines"] == ["(2, 1) float64"]
    assert boxes["incoming gradient"]["kind"] == "leaf"
    assert "returned" in lines_of(data)
    assert lines_of(data).count("gradient of argument 0") == 1


def test_arrows_lead_from_what_computes_to_what_reads():
    data = drawn(ag.jit.explain(lambda x: np.exp(x) + np.sort(x), np.ones(3)))

    boxes = boxes_of(data)
    key = {title: box["key"] for title, box in boxes.items()}
    arrows = {(source, target) for source, target, _ in data["arrows"]}
    assert {(key["argument 0"], key["exp"]), (key["argument 0"], key["sort"])} < arrows
    assert {(key["exp"], key["add"]), (key["sort"], key["add"])} < arrows
    assert len(arrows) == 4


def chain(x: Any, w: Any) -> Any:
    y = x
    for _ in range(40):
        y = np.tanh(y @ w)
    return y.sum()


def test_the_steps_of_a_loop_are_drawn_once():
    given = np.ones((3, 3)), ag.tensor(np.eye(3), requires_grad=True)
    jitted = compiled(chain, *given, backend="table")

    data, whole = drawn(jitted), drawn(jitted, fold=False)

    assert {"× 39"} < {frame["title"] for frame in data["frames"]}
    assert boxes_of(data)["tanh"]["count"] == 1
    assert [box["count"] for box in data["boxes"] if box["title"] == "tanh"] == [39, 1]
    assert any(is_next for _, _, is_next in data["arrows"])
    assert [box["title"] for box in whole["boxes"]].count("tanh") == 40
    assert lines_of(data).count("gradient of argument 1") == 1


def test_steps_beyond_the_limit_are_left_out_and_counted():
    jitted = compiled(chain, np.ones((3, 3)), np.eye(3), backend="table")

    text = ag.visualize(jitted, format="dot", fold=False, limit=10)

    assert "81 calls forward and 0 backward, shown as 12 boxes; 71 left out" in text
    assert "71 boxes left out" in text


def test_a_compiled_function_is_drawn_as_it_runs():
    pytest.importorskip("llvmlite")
    w, x = arguments()

    by_kernels, by_runner = (drawn(compiled(loss, w, x, backend=backend)) for backend in ("fused", "runner"))
    by_python = drawn(compiled(loss, w, x, backend="table"))

    assert any(title.startswith("kernel") for title in boxes_of(by_kernels))
    assert not any(title.startswith("kernel") for title in boxes_of(by_runner))
    assert boxes_of(by_runner)["argsort"]["marks"] == ["opaque"]
    assert all(not box["marks"] for box in by_python["boxes"])


def test_a_training_step_is_drawn_with_its_update():
    w, x = arguments()
    step = ag.jit.train_step(lambda x: loss(w, x), optim.SGD([w], lr=0.125))

    async def main() -> None:
        for _ in range(6):
            await step(x)

    ag.run(main())
    text = ag.visualize(step, format="dot")

    assert text.startswith("digraph")
    assert "train_step of " in text
    assert "0 backward" in text


async def service(x: Any) -> Any:
    return x * 3.0


def test_the_segments_of_an_async_def_have_frames_of_their_own():
    @ag.jit
    async def function(w, x):
        h = np.tanh(x @ w)
        y = await service(h)
        return (y**2).mean()

    async def main() -> None:
        for _ in range(6):
            await function(*arguments())

    ag.run(main())
    titles = [frame["title"] for frame in drawn(function)["frames"]]

    assert titles == ["segment 1: forward", "segment 1: backward", "segment 2: forward", "segment 2: backward"]


def test_what_has_no_program_says_so():
    with pytest.raises(ArgumentError, match=r"<lambda> has no program yet: call it three times before"):
        ag.visualize(ag.jit(lambda x: x * 2), format="dot")
    with pytest.raises(ArgumentError, match=r"there is no program to draw: it returns a view of an argument"):
        ag.visualize(ag.jit.explain(lambda x: x[:1], ag.tensor([1.0, 2.0])), format="dot")


@pytest.mark.parametrize("option", ["params", "profile"])
def test_options_of_graphs_are_refused_for_a_program(option):
    explanation = ag.jit.explain(lambda x: x * 2, ag.tensor([1.0]))
    options: dict[str, Any] = {option: {}}

    with pytest.raises(
        ArgumentError, match="no leaves to be named by params=, and no nodes to be coloured by profile="
    ):
        ag.visualize(explanation, format="dot", **options)


def test_where_a_function_is_eager_for_good_the_reason_is_told():
    @ag.jit
    def writing(x):
        x += 1
        return x * 2

    for _ in range(3):
        writing(np.ones(2))

    with pytest.raises(ArgumentError, match="writing has no program: it writes into argument 0"):
        ag.visualize(writing)


def test_a_function_that_is_not_compiled_is_drawn_by_its_explanation():
    with pytest.raises(ArgumentTypeError, match=r"draw ag\.jit\.explain\(fn, \*args\)"):
        ag.visualize(loss)  # type: ignore[call-overload]
