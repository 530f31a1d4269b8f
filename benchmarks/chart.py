"""The chart: bars for each case, with the time of each peer relative to PyTorch's.

The axis is logarithmic and the bars begin at PyTorch: to the left what is faster, to the right what is slower, as far
as it is. Half the time and twice the time are bars of one length, and none is cut off.

It is an SVG with a background of its own, which is dark if the reader's browser prefers that.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from .record import UnusableRecordError
from .runner import Result

__all__ = ["CAPTION", "Group", "can_draw", "draw", "groups", "name_of"]

#: The columns, by the last word of the timed phase. Words before it name a variant of asyncgrad, as in "compiled
#: backward".
COLUMNS = {"backward": "backward", "step": "forward and backward"}

#: The alternative text of the chart.
CAPTION = (
    "Bars for each case: the time of asyncgrad, PyTorch, HIPS autograd, MyGrad and NumPy by hand for its backward, and "
    "for its forward and backward, over PyTorch's. The table below has the numbers of asyncgrad."
)

#: The names of bars that differ from the names of the peers.
CALLED = {"torch": "PyTorch", "HIPS": "HIPS autograd", "floor": "NumPy by hand"}

#: The times over PyTorch's at which there may be a line.
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

#: The colours on a light background, and the colour that replaces each on a dark one. asyncgrad's bars are blue.
GROUND, INK, FAINT = "#ffffff", "#1f2328", "#d1d9e0"
OURS, OURS_TOO, PYTORCH, HIPS, MYGRAD, FLOOR = "#0b62c4", "#5b9be6", "#8a5a00", "#8250df", "#bf3989", "#2b7a4b"
OTHERS = "#9aa4af"
DARK = {
    GROUND: "#0d1117",
    INK: "#e6edf3",
    FAINT: "#3d444d",
    OURS: "#4a9eff",
    OURS_TOO: "#1f6fd0",
    PYTORCH: "#d29922",
    HIPS: "#a371f7",
    MYGRAD: "#f778ba",
    OTHERS: "#6e7681",
    FLOOR: "#3fb950",
}


class Group(NamedTuple):
    """The bars of one case in one column: the time over PyTorch's, by name."""

    case: str
    column: str
    bars: dict[str, float]


def groups(results: Sequence[Result]) -> list[Group]:
    """Return the bars of every case that PyTorch was measured on, for phases that have a column."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        variant, _, column = result.what.rpartition(" ")
        if column not in COLUMNS or "torch" not in result.seconds or result.section:
            continue
        bars = found.setdefault((result.case, column), {})
        for peer in result.seconds:
            ratio = result.ratio("torch", of=peer)
            if ratio is not None and not variant:
                bars[CALLED.get(peer, peer)] = ratio
        if variant:
            bars[f"asyncgrad, {variant}"] = result.ratio("torch") or 0.0
    return [Group(case, column, _ordered(bars)) for (case, column), bars in found.items() if "asyncgrad" in bars]


def _ordered(bars: dict[str, float]) -> dict[str, float]:
    """Return the bars with those of asyncgrad first, otherwise in the same order."""
    return {name: bars[name] for name in sorted(bars, key=lambda name: not name.startswith("asyncgrad"))}


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(results: Sequence[Result]) -> str:
    """Return the chart as SVG, which is the same for the same results; the id of each number is given by `name_of`.

    Raises:
        UnusableRecordError: there is nothing to draw.
    """
    from matplotlib import pyplot

    found = groups(results)
    if not found:
        raise UnusableRecordError(
            "no row of the record has PyTorch's time of a backward or a step, which the chart compares with"
        )
    cases = list(dict.fromkeys(one.case for one in found))
    columns = [column for column in COLUMNS if any(one.column == column for one in found)]
    heights = [max(len(one.bars) for one in found if one.case == case) + 1.6 for case in cases]
    # Text is kept as text, and there are no dates or random ids.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "asyncgrad", "font.size": 8.5, "font.family": "sans-serif"}
    with pyplot.rc_context(settings):
        figure, panels = pyplot.subplots(
            len(cases),
            len(columns),
            figsize=(5.2 * len(columns), 0.175 * sum(heights) + 1.1),
            gridspec_kw={"height_ratios": heights, "hspace": 0.0, "wspace": 0.42},
            squeeze=False,
            facecolor=GROUND,
        )
        # The names are right of the edge in a font that is wider than matplotlib's, too.
        figure.subplots_adjust(left=0.34 / len(columns), right=0.985, top=0.925, bottom=0.01)
        limits = _limits(found)
        begun: set[str] = set()
        for row, case in enumerate(cases):
            for place, column in enumerate(columns):
                one = next((one for one in found if (one.case, one.column) == (case, column)), None)
                _panel(panels[row][place], one, heights[row], limits, is_first=column not in begun)
                begun |= {column} if one else set()
        about = "Time over PyTorch's, on a logarithmic scale: left of 1 is faster, right of it slower"
        figure.text(0.08 / len(columns), 0.985, about, color=INK, va="top")
        written = io.StringIO()
        figure.savefig(written, format="svg", facecolor=GROUND, metadata={"Date": None, "Title": CAPTION})
        pyplot.close(figure)
    return _with_dark_mode(written.getvalue())


def _limits(found: Sequence[Group]) -> tuple[float, float]:
    """Return the ends of the axis, which all panels share, with room for the numbers beside the bars."""
    ratios = [ratio for one in found for ratio in one.bars.values()] + [1.0]
    return min(ratios) / 1.9, max(ratios) * 1.9


def _panel(axes: Any, group: Group | None, height: float, limits: tuple[float, float], is_first: bool) -> None:
    """Draw one group: a bar for each name, from PyTorch's time to its own, with its number at the end."""
    axes.set_axis_off()
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    axes.set_ylim(height, 0)
    if group is None:
        return
    if is_first:
        axes.set_title(COLUMNS[group.column], color=INK, loc="left", weight="bold", pad=18)
    for tick in TICKS:
        if limits[0] < tick < limits[1]:
            axes.axvline(tick, 0, 1, color=INK if tick == 1 else FAINT, linewidth=0.8, zorder=0)
            if is_first:
                axes.text(tick, -0.25, f"{tick:g}", color=INK, ha="center", va="bottom", fontsize=7.5)
    # On the ground's colour, so that no line crosses it.
    ground = {"facecolor": GROUND, "edgecolor": "none", "pad": 1.0}
    axes.text(limits[0], 0.85, group.case, color=INK, weight="bold", va="center", bbox=ground, zorder=2)
    for place, (name, ratio) in enumerate(group.bars.items()):
        y = place + 1.8
        ends = sorted((1.0, ratio)) if ratio != 1.0 else [1 / 1.02, 1.02]
        (bar,) = axes.barh(y, ends[1] - ends[0], left=ends[0], height=0.8, color=_colour(name))
        bar.set_gid(f"bar-{name_of(group, name)}")
        axes.text(limits[0] / 1.06, y, name, color=INK, ha="right", va="center")
        is_slower = ratio >= 1.0
        at = ends[1] * 1.05 if is_slower else ends[0] / 1.05
        number = axes.text(at, y, f"{ratio:.2f}", color=INK, ha="left" if is_slower else "right", va="center")
        number.set_gid(name_of(group, name))


def name_of(group: Group, bar: str) -> str:
    """Return the id of the number of a bar in the SVG, made of words and hyphens; the bar's has "bar-" before it."""
    return re.sub(r"\W+", "-", f"{group.case} {group.column} {bar}")


def _colour(name: str) -> str:
    if name.startswith("asyncgrad"):
        return OURS if name == "asyncgrad" else OURS_TOO
    colours = {"PyTorch": PYTORCH, "HIPS autograd": HIPS, "MyGrad": MYGRAD, "mygrad": MYGRAD, "NumPy by hand": FLOOR}
    return colours.get(name, OTHERS)


def _with_dark_mode(svg: str) -> str:
    """Return the SVG with a style sheet that replaces its colours if the browser prefers a dark scheme."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    return re.sub(r"(<svg\b[^>]*>)", lambda found: found[1] + "\n " + style, svg, count=1)
