"""The few numbers that the first pages show, and the picture of lateness, made from the records alone.

python -m benchmarks.headline     write them into README.md and docs/index.md, and draw docs/pictures/lateness.svg

`make bench`, `make bench-jit` and `make bench-waiting` do so when they have written a record; a test checks that the
pages, the picture and the records agree.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import NamedTuple

from .record import Record, UnusableRecordError
from .runner import Result

__all__ = ["BEGIN", "END", "PAGES", "PICTURE", "Records", "block", "draw", "main", "read", "replaced"]

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"
#: The pages that show the numbers, each with the path from it to docs/.
PAGES = {"README.md": "docs/", "docs/index.md": ""}
PICTURE = "docs/pictures/lateness.svg"

#: The row that stands for a training step: of all models that are measured, the one that most readers train.
STEP = "transformer block, d 64, T 32, batch 8, 4 heads: step"
#: A graph of rules that wait.
WAITING = re.compile(r"([\d,]+) nodes of (\d+) ms in a random graph of depth (\d+), on uvloop: backward")
#: A backward of many small nodes, beside a timer.
BUSY = re.compile(r"lateness of a 1 ms timer, ([\d,]+) small nodes: backward")

#: The peers of the picture, with their names and colours.
PEERS = {"asyncgrad": ("asyncgrad, awaited", "#0b62c4"), "torch": ("PyTorch, in a thread", "#e8710a")}
IDLE = ("nothing but the timer", "#8a949e")
INK, FAINT, LINE = "#1a1a2e", "#5b6070", "#e3e5ec"


class Records(NamedTuple):
    """The records that the numbers are of."""

    results: Record
    jit: Record
    waiting: Record


def read(root: Path = ROOT) -> Records:
    """Return the records of the benchmarks."""
    return Records(*(Record.read(root / "benchmarks" / f"{name}.json") for name in Records._fields))


def block(records: Records, docs: str) -> str:
    """Return the numbers as Markdown between markers.

    Args:
        records: the measurements.
        docs: the path from the page to docs/.
    """
    step, compiled = _row(records.results, re.compile(re.escape(STEP))), _row(records.jit, re.compile(re.escape(STEP)))
    waits, busy = _row(records.waiting, WAITING), _row(records.results, BUSY)
    count, each, depth = (int(part.replace(",", "")) for part in _parts(WAITING, waits))
    (nodes,) = _parts(BUSY, busy)
    lines = [
        (
            f"- **{_ratio(step, 'torch')} ×** the time of PyTorch's eager engine: a training step of a transformer "
            f"block on a CPU. [Speed]({docs}performance.md#beside-other-libraries)"
        ),
        (
            f"- **{_ratio(compiled, 'torch')} ×** PyTorch's, by `@ag.jit`, and {_ratio(compiled, 'JAX')} × that of "
            f"JAX's `jit`: the same step, compiled. [Compiled functions]({docs}jit.md)"
        ),
        (
            f"- **{_time(_median(waits))}** for a backward through {count:,} rules that wait {each} ms each, {depth} "
            f"deep; one after the other they would take {_time(count * each / 1000)}. "
            f"[Rules that wait]({docs}batching-and-limits.md)"
        ),
        (
            f"- **{_time(_median(busy))}** late is a timer of 1 ms, at the 99th percentile, beside a backward of "
            f"{nodes} nodes; beside PyTorch's in a thread, {_time(_median(busy, 'torch'))}. "
            f"[The event loop]({docs}engine.md)"
        ),
    ]
    about = "<!-- Written by `python -m benchmarks.headline`: change nothing here by hand. -->"
    days = sorted({row.measured for row in (step, compiled, waits, busy)})
    when = " and ".join(dict.fromkeys((days[0], days[-1])))
    processors = " and ".join(
        dict.fromkeys(f"{one.machine['processor']}, {one.machine['cores']} cores" for one in records)
    )
    note = f"Measured {when} on {processors}; the links lead to all rows, those where asyncgrad is slower among them."
    return "\n\n".join([f"{BEGIN}\n{about}", '<div class="numbers">', "\n".join(lines), "</div>", note, END])


def _row(record: Record, pattern: re.Pattern[str]) -> Result:
    found = next((one for one in record.results if pattern.fullmatch(one.name)), None)
    if found is None:
        raise UnusableRecordError(
            f"no row of the record is called as {pattern.pattern!r} says: measure it, or name another"
        )
    return found


def _parts(pattern: re.Pattern[str], row: Result) -> tuple[str, ...]:
    found = pattern.fullmatch(row.name)
    return () if found is None else found.groups()


def _ratio(row: Result, peer: str) -> str:
    ratio = row.ratio(peer)
    if ratio is None:
        raise UnusableRecordError(f"{row.name} has not been measured with {peer}")
    return f"{ratio:.2f}"


def _median(row: Result, peer: str = "asyncgrad") -> float:
    return statistics.median(row.seconds[peer])


def _time(seconds: float) -> str:
    """Return a time with two digits, in the unit that suits it."""
    units = (("µs", 1e6), ("ms", 1e3), ("s", 1.0))
    unit, factor = next((one for one in units if seconds * one[1] < 1000), units[-1])
    value = seconds * factor
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}".replace(".0 ", " ")


def replaced(text: str, new: str, page: str) -> str:
    """Return the text of a page with the part between the markers replaced, markers included.

    Raises:
        UnusableRecordError: the page does not have each marker once, in this order.
    """
    parts = re.split(f"{BEGIN}.*?{END}", text, flags=re.DOTALL)
    if len(parts) != 2:
        raise UnusableRecordError(f"{page} must have the lines {BEGIN} and {END}, once each and in this order")
    return new.join(parts)


def draw(record: Record) -> str:
    """Return the picture of how late a timer fires, as SVG: a row for each benchmark, a dot for each peer."""
    rows = [row for row in record.results if row.topic == "lateness" and {"torch", "idle"} <= row.seconds.keys()]
    if not rows:
        raise UnusableRecordError("the record has no lateness beside PyTorch's: python -m benchmarks lateness --write")
    times = [_median(row, peer) * 1e6 for row in rows for peer in (*PEERS, "idle")]
    low, high = (next(d for d in _DECADES if d > min(times)) / 10, next(d for d in _DECADES if d > max(times)))
    height = 84 + 46 * len(rows) + 34
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13" role="img">'
        ),
        "<title>How late a timer of 1 ms fires beside a backward, in microseconds</title>",
        f'<rect width="760" height="{height}" rx="8" fill="#ffffff"/>',
        (
            f'<text x="20" y="26" font-size="15" font-weight="600" fill="{INK}">How late a timer of 1 ms fires on the '
            "event loop, beside</text>"
        ),
        *_legend(),
    ]
    for decade in (d for d in _DECADES if low <= d <= high):
        x = _place(decade, low, high)
        parts.append(f'<line x1="{x:.1f}" y1="66" x2="{x:.1f}" y2="{height - 42}" stroke="{LINE}"/>')
        label = f"{decade / 1000:g} ms" if decade >= 1000 else f"{decade:g} µs"
        parts.append(f'<text x="{x:.1f}" y="{height - 24}" text-anchor="middle" fill="{FAINT}">{label}</text>')
    for number, row in enumerate(rows):
        parts += _row_of(row, 84 + 46 * number, low, high)
    parts.append(
        f'<text x="20" y="{height - 6}" font-size="11.5" fill="{FAINT}">Measured {rows[0].measured}: the 99th '
        "percentile, on a logarithmic axis; to the left is better.</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


_DECADES = [10.0**power for power in range(8)]


def _place(value: float, low: float, high: float) -> float:
    """Return where a time stands, from 270 to 700."""
    return 270 + 430 * (log10(max(value, low)) - log10(low)) / (log10(high) - log10(low))


def _legend() -> list[str]:
    parts, x = [], 26
    for name, colour in (*PEERS.values(), IDLE):
        parts.append(
            f'<circle cx="{x}" cy="46" r="5" fill="{colour}"/><text x="{x + 11}" y="50" fill="{FAINT}">{name}</text>'
        )
        x += 40 + 7 * len(name)
    return parts


def _row_of(row: Result, y: int, low: float, high: float) -> list[str]:
    name = escape(row.case.removeprefix("lateness of a 1 ms timer, "))
    parts = [
        f'<text x="20" y="{y + 4}" fill="{INK}">{name}</text>',
        f'<line x1="270" y1="{y}" x2="700" y2="{y}" stroke="{LINE}"/>',
    ]
    shown = {**PEERS, "idle": IDLE}
    placed = sorted((_place(_median(row, peer) * 1e6, low, high), peer) for peer in shown)
    for number, (x, peer) in enumerate(placed):
        colour = shown[peer][1]
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{colour}"/>')
        if peer in PEERS:
            # Beneath the line and above it in turn: dots may stand close to each other.
            at = y + 20 if number % 2 else y - 10
            parts.append(
                f'<text x="{x:.1f}" y="{at}" text-anchor="middle" font-size="11.5" fill="{colour}">'
                f"{_time(_median(row, peer))}</text>"
            )
    return parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the numbers into the pages, and draw the picture; return the exit status."""
    if arguments:
        sys.exit("python -m benchmarks.headline takes no arguments")
    records = read()
    texts = {
        name: replaced((ROOT / name).read_text(encoding="utf-8"), block(records, docs), name)
        for name, docs in PAGES.items()
    }
    drawn = draw(records.results)
    for name, text in texts.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    (ROOT / PICTURE).write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
