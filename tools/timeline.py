"""Draws docs/async_rule.svg, the timeline of the backward of examples/async_rule.py: `python -m tools.timeline`."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncgrad as ag
from examples import async_rule

if TYPE_CHECKING:
    from asyncgrad.observing.profile import ProfileEvent

__all__ = ["PICTURE", "draw", "main", "profile_of_the_example"]

PICTURE = Path(__file__).parent.parent / "docs" / "async_rule.svg"

WORK, WAIT, INK = "#0b62c4", "#b9d4f3", "#1f2328"


def profile_of_the_example() -> ag.profile:
    """Return a profile of the example."""
    with ag.profile() as prof, contextlib.redirect_stdout(io.StringIO()):
        ag.run(async_rule.main())
    return prof


def draw(prof: ag.profile, path: Path) -> None:
    """Draw one bar for each run of a node: dark where it works, light where it waits."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    events = [event for event in prof.events if event.kind == "backward" and event.duration is not None]
    events.sort(key=lambda event: event.began or 0)
    start = min(event.began or 0 for event in events)
    options: dict[str, Any] = {"svg.hashsalt": "asyncgrad", "svg.fonttype": "none", "text.color": INK}
    with plt.rc_context(options):
        figure, axes = plt.subplots(figsize=(8, 0.19 * len(events) + 0.8), layout="constrained")
        for row, event in enumerate(events):
            axes.broken_barh(_bars(event, start), (row - 0.35, 0.7), color=WAIT)
            axes.broken_barh(_work(event, start), (row - 0.35, 0.7), color=WORK)
        axes.set_yticks(range(len(events)), [event.name for event in events], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds; light: waiting, dark: working")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def _bars(event: ProfileEvent, start: int) -> list[tuple[float, float]]:
    assert event.began is not None
    return [((event.began - start) / 1e6, (event.duration or 0) / 1e6)]


def _work(event: ProfileEvent, start: int) -> list[tuple[float, float]]:
    assert event.began is not None
    assert event.ended is not None
    parts = zip((event.began, *event.resumed), (*event.suspended, event.ended), strict=True)
    # At least as long as can be seen.
    return [((began - start) / 1e6, max((ended - began) / 1e6, 0.15)) for began, ended in parts]


def main() -> int:
    """Draw the picture; return the exit status."""
    draw(profile_of_the_example(), PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
