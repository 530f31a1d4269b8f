"""The report of a record for the pages, where it stands between two markers, which are comments in Markdown."""

from __future__ import annotations

from pathlib import Path

from .chart import CAPTION
from .record import Record, UnusableRecordError
from .runner import Result, table

__all__ = ["BEGIN", "END", "block", "marked", "measured_on", "printed", "replaced", "sections", "summary", "write"]

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"

#: The names under which the report shows the packages of a machine.
CALLED = {
    "asyncgrad": "asyncgrad",
    "autograd": "HIPS autograd",
    "jax": "JAX",
    "mygrad": "MyGrad",
    "numpy": "NumPy",
    "pytensor": "PyTensor",
    "python": "Python",
    "torch": "PyTorch",
}


#: The rows of the small table: the cost of a node, a step of each model, and many models.
SUMMARY = (
    "chain of 4,000 nodes, size 16: backward",
    "MLP, batch 64, 4 layers of 128: step",
    "transformer block, d 64, T 32, batch 8, 4 heads: step",
    "LSTM, 100 steps, hidden 32, batch 16: step",
    "1,000 small models: backward",
)


def sections(results: list[Result]) -> dict[str, list[Result]]:
    """Return the results by the heading of their table, in the order in which the headings first appear."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.section, []).append(result)
    return found


def summary(record: Record, chart: str, raw: str) -> str:
    """Return the chart and the most important rows as Markdown between the markers.

    Args:
        record: the measurements.
        chart: the path of the chart, as the page links to it.
        raw: the path of the record, as the page links to it.
    """
    rows = [result for result in record.results if result.name in SUMMARY] or record.results[:5]
    return marked("make bench", raw, f"![{CAPTION}]({chart})", table(rows))


def block(record: Record, chart: str, raw: str) -> str:
    """Return the chart, all tables and the machine as Markdown between the markers.

    Args:
        record: the measurements.
        chart: the path of the chart, as the page links to it.
        raw: the path of the record, as the page links to it.
    """
    picture = f"![{CAPTION}]({chart})"
    return marked("make bench", raw, picture, *_tables(record), measured_on(record, raw))


def marked(command: str, raw: str, *paragraphs: str) -> str:
    """Return paragraphs of a page between the markers, which `replaced` finds.

    Args:
        command: what writes them, as it is typed.
        raw: the path of the record that they are made from, as the page links to it.
        *paragraphs: in their order.
    """
    begin = f"{BEGIN}\n<!-- Written by `{command}` from {raw}: change nothing here by hand. -->"
    return "\n\n".join([begin, *paragraphs, END])


def printed(record: Record) -> str:
    """Return the tables and the machine as text for a terminal."""
    return "\n\n".join([*_tables(record), measured_on(record, "")])


def _tables(record: Record) -> list[str]:
    """Return for each section its heading, its table, and notes on the peers that cannot run some rows."""
    found = []
    for heading, results in sections(record.results).items():
        found += [heading] if heading else []
        found += [table(results), *_lacks(results)]
    return found


def _lacks(results: list[Result]) -> list[str]:
    """Return a line for each peer that cannot run some of the rows, with the reason."""
    cases: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for peer, why in result.lacks.items():
            names = cases.setdefault((peer, why), [])
            if result.case not in names:
                names.append(result.case)
    return [f"{peer} does not take part in “{'”, “'.join(names)}”: {why}." for (peer, why), names in cases.items()]


def measured_on(record: Record, raw: str) -> str:
    """Return a line that says how often, when and on which machine the record was measured."""
    rounds = sorted({len(result.seconds["asyncgrad"]) for result in record.results})
    days = sorted({result.measured for result in record.results})
    machine = dict(record.machine)
    known = [
        f"{machine.pop('processor', 'unknown processor')}, {machine.pop('cores', '?')} cores",
        machine.pop("platform", "unknown system"),
        f"BLAS: {machine.pop('blas', 'unknown')}",
    ]
    versions = [f"{CALLED.get(name, name)} {version}" for name, version in machine.items()]
    where = f" The seconds of every round are in [{raw}]({raw})." if raw else ""
    return (
        f"Medians of {_range(rounds)} {'round' if rounds == [1] else 'rounds'}, measured {_range(days)} on {known[0]} "
        f"({known[1]}), one thread each; {known[2]}; {', '.join(versions)}.{where}"
    )


def _range(values: list[int] | list[str]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def replaced(text: str, new: str, path: Path) -> str:
    """Return a text with the part between the markers replaced, markers included.

    Raises:
        UnusableRecordError: the text does not have each marker once, in this order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before or END in after:
        raise UnusableRecordError(
            f"{path} must have the lines {BEGIN} and {END}, once each and in this order: the tables go between them"
        )
    return before + new + after


def write(raw: Path, record: str, page: Path, tables: str) -> None:
    """Write a record, and its tables into a page; write nothing if the page has no markers for them.

    Args:
        raw: the file of the record.
        record: its text.
        page: the page.
        tables: what is between the markers, markers included.

    Raises:
        UnusableRecordError: the page does not have each marker once, in this order.
    """
    text = replaced(page.read_text(encoding="utf-8"), tables, page)
    raw.write_text(record, encoding="utf-8")
    page.write_text(text, encoding="utf-8")
