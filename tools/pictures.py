"""Draws the pictures of docs/ that show the library at work: `python -m tools.pictures`.

docs/graph.svg and docs/graph-page.png show the graph with which docs/visualizing.md begins; the page itself is on the
site in place of its picture. docs/pictures/waiting.svg is measured: six rules of one backward, and another task.
Graphviz and Chromium have to be installed.
"""

from __future__ import annotations

import asyncio
import doctest
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, final

import asyncgrad as ag

__all__ = ["DOCS", "draw_waiting", "graph_of_the_guide", "main", "measure_waiting"]

DOCS = Path(__file__).resolve().parent.parent / "docs"
#: The rules of the picture, with the milliseconds that each waits.
WAITS = {"a": 100, "b": 80, "c": 50, "d": 120, "e": 60, "f": 150}
#: How often it is measured.
RUNS = 40
#: How often the other task wakes, in milliseconds.
PERIOD = 10

INK, FAINT, LINE = "#1a1a2e", "#5b6070", "#e3e5ec"
ON_PATH, BESIDE, DOT, END = "#3f51b5", "#9fa8da", "#e8710a", "#c62828"


def graph_of_the_guide() -> tuple[Any, Any]:
    """Return the loss and the model with which docs/visualizing.md begins."""
    text = (DOCS / "visualizing.md").read_text().partition("```pycon\n")[2].partition("```")[0]
    names: dict[str, Any] = {"__name__": "visualizing"}
    for example in doctest.DocTestParser().get_examples(text):
        exec(compile(example.source, "docs/visualizing.md", "exec"), names)  # noqa: S102  # what the guide says to run
    return names["loss"], names["model"]


class Waited(NamedTuple):
    """What a run has shown, in milliseconds since the backward began."""

    spans: dict[str, tuple[float, float]]
    ticks: list[float]
    took: float


@final
class _Rule(ag.Function):
    """The sum of its arguments, whose rule waits."""

    @staticmethod
    def forward(ctx: Any, name: str, spans: dict[str, tuple[float, float]], *inputs: Any) -> Any:
        """Add up the inputs."""
        ctx.name, ctx.spans, ctx.count = name, spans, len(inputs)
        return sum(inputs)

    @staticmethod
    async def backward(ctx: Any, grad: Any) -> Any:
        """Wait, and note from when to when."""
        began = perf_counter()
        await asyncio.sleep(WAITS[ctx.name] / 1000)
        ctx.spans[ctx.name] = (began, perf_counter())
        return (None, None, *[grad] * ctx.count)


async def measure_waiting() -> Waited:
    """Run one backward of six rules that wait: a after b, d after e, c and f beside them."""
    spans: dict[str, tuple[float, float]] = {}
    ticks: list[float] = []
    x = ag.tensor(1.0, requires_grad=True)

    async def tick() -> None:
        while True:
            await asyncio.sleep(PERIOD / 1000)
            ticks.append(perf_counter())

    first = _Rule.apply("b", spans, _Rule.apply("a", spans, x))
    second = _Rule.apply("e", spans, _Rule.apply("d", spans, x))
    loss = first + second + _Rule.apply("c", spans, x) + _Rule.apply("f", spans, x)
    other = asyncio.create_task(tick())
    began = perf_counter()
    await loss.backward()
    ended = perf_counter()
    other.cancel()
    shown = {name: (1000 * (one - began), 1000 * (two - began)) for name, (one, two) in spans.items()}
    return Waited(shown, [1000 * (one - began) for one in ticks if began < one < ended], 1000 * (ended - began))


def draw_waiting(waited: Waited) -> str:
    """Return the time line as SVG: a bar for each rule, a dot for each time that the other task woke."""
    last = 50 * (int(waited.took) // 50 + 1)

    def place(milliseconds: float) -> float:
        return 150 + 560 * milliseconds / last

    order = sorted(waited.spans, key=lambda name: waited.spans[name][0])
    bottom = 62 + 26 * (len(order) + 1)
    height = bottom + 50
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13" role="img">'
        ),
        (
            "<title>Six derivative rules that wait in one backward: they wait together, and another task of the event "
            "loop goes on</title>"
        ),
        f'<rect width="760" height="{height}" rx="8" fill="#ffffff"/>',
        (
            f'<text x="20" y="26" font-size="15" font-weight="600" fill="{INK}">One backward, six rules that each wait '
            "for a service</text>"
        ),
        (
            f'<text x="20" y="44" fill="{FAINT}">{sum(WAITS.values())} ms of waiting in {waited.took:.0f} ms: the '
            "longest path, a after b, or d after e</text>"
        ),
    ]
    for tick in range(0, last + 1, 50):
        x = place(tick)
        parts.append(f'<line x1="{x:.0f}" y1="58" x2="{x:.0f}" y2="{bottom}" stroke="{LINE}"/>')
        parts.append(f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle" fill="{FAINT}">{tick} ms</text>')
    for number, name in enumerate(order):
        y, (began, ended) = 62 + 26 * number, waited.spans[name]
        parts.append(f'<text x="20" y="{y + 14}" fill="{INK}">rule {name}, {WAITS[name]} ms</text>')
        parts.append(
            f'<rect x="{place(began):.1f}" y="{y}" width="{place(ended) - place(began):.1f}" height="18" rx="4" '
            f'fill="{BESIDE if name in "cf" else ON_PATH}"/>'
        )
    parts.append(f'<text x="20" y="{bottom - 12}" fill="{INK}">another task</text>')
    parts += [f'<circle cx="{place(tick):.1f}" cy="{bottom - 17}" r="4" fill="{DOT}"/>' for tick in waited.ticks]
    end = place(waited.took)
    parts.append(f'<line x1="{end:.1f}" y1="54" x2="{end:.1f}" y2="{bottom}" stroke="{END}" stroke-dasharray="4 3"/>')
    parts.append(
        f'<text x="20" y="{height - 12}" font-size="11.5" fill="{FAINT}">Measured. A dot is another task of the loop, '
        f"which wakes every {PERIOD} ms. The dashed line is the end of the backward.</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _photograph(page: Path, fragment: str, picture: Path) -> None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise FileNotFoundError("no Chromium or Chrome is on the path: apt install chromium")
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,900"]
        command = [program, *options, "--virtual-time-budget=2000", f"--user-data-dir={folder}"]
        command += [f"--screenshot={picture}", f"{page.as_uri()}#{fragment}"]
        subprocess.run(command, check=True, capture_output=True)


def main() -> int:
    """Draw all; return the exit status."""
    loss, model = graph_of_the_guide()
    ag.visualize(loss, DOCS / "graph.svg", params=model)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "graph.html"
        ag.visualize(loss, page, params=model)
        _photograph(page, "light&fold&node=n2", DOCS / "graph-page.png")
    # The quickest of several: what another program of the machine holds up is not asyncgrad's.
    waited = min((ag.run(measure_waiting()) for _ in range(RUNS)), key=lambda one: one.took)
    (DOCS / "pictures" / "waiting.svg").write_text(draw_waiting(waited))
    return 0


if __name__ == "__main__":
    sys.exit(main())
