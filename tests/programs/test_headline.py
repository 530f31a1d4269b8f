"""The numbers of the first pages, and the picture of lateness, are those of the records; so is the time line's text."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import asyncgrad as ag
from benchmarks import headline
from benchmarks.record import Record, UnusableRecordError
from tools import pictures

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "docs" / "index.md").read_text()
#: The examples of the first page, each with what stands beneath it.
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", INDEX, re.DOTALL)


def test_pages_and_picture_show_the_records_and_nothing_else() -> None:
    records = headline.read()

    for name, docs in headline.PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        assert headline.replaced(page, headline.block(records, docs), name) == page, "python -m benchmarks.headline"
    assert (ROOT / headline.PICTURE).read_text(encoding="utf-8") == headline.draw(records.results)


def test_a_number_is_the_median_of_the_rounds_and_a_ratio_that_of_the_table() -> None:
    records = headline.read()
    step = next(row for row in records.results.results if row.name == headline.STEP)
    text = headline.block(records, "")

    assert f"- **{step.ratio('torch'):.2f} ×** the time of PyTorch's" in text
    assert headline._time(0.0000881) == "88 µs"
    assert headline._time(0.294) == "294 ms"
    assert headline._time(1.62) == "1.6 s"
    assert headline._time(10.0) == "10 s"
    assert headline._time(5000.0) == "5000 s"


def test_a_record_without_the_row_is_refused() -> None:
    records = headline.read()

    with pytest.raises(UnusableRecordError, match="no row of the record is called"):
        headline.block(records._replace(waiting=Record({}, [])), "")
    with pytest.raises(UnusableRecordError, match="has no lateness beside PyTorch's"):
        headline.draw(Record({}, []))


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(UnusableRecordError, match=r"page\.md must have the lines"):
        headline.replaced("no markers", "new", "page.md")


def test_the_picture_has_a_dot_for_each_peer_left_where_it_is_sooner() -> None:
    record = headline.read().results
    rows = [row for row in record.results if row.topic == "lateness" and "torch" in row.seconds]
    picture = ElementTree.fromstring(headline.draw(record))
    dots = [one for one in picture.iter("{http://www.w3.org/2000/svg}circle") if one.get("r") == "6"]
    places = {(round(float(one.get("cy", "nan"))), one.get("fill")): float(one.get("cx", "nan")) for one in dots}

    assert len(dots) == 3 * len(rows)
    for number, row in enumerate(rows):
        ours, theirs = (places[84 + 46 * number, headline.PEERS[peer][1]] for peer in headline.PEERS)
        assert (ours < theirs) == (headline._median(row) < headline._median(row, "torch"))
        assert 270 <= min(ours, theirs) <= max(ours, theirs) <= 700


@pytest.mark.parametrize(
    ("example", "printed"),
    re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", INDEX, re.DOTALL),
    ids=["first", "waits"],
)
def test_an_example_of_the_first_page_prints_what_stands_beneath_it(example: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, "docs/index.md", "exec"), {"__name__": "__main__"})  # noqa: S102  # what the page shows

    assert output.getvalue() == printed


def test_the_time_line_shows_rules_that_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # What waits is ordered by the graph: a begins when b has ended, d when e has.
    monkeypatch.setattr(pictures, "WAITS", dict.fromkeys("abcdef", 1))

    waited = ag.run(pictures.measure_waiting())
    drawn = ElementTree.fromstring(pictures.draw_waiting(waited))

    assert waited.spans["b"][1] <= waited.spans["a"][0]
    assert waited.spans["e"][1] <= waited.spans["d"][0]
    bars = [one for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if one.get("height") == "18"]
    assert len(bars) == 6


def test_the_time_line_of_the_docs_says_how_long_its_rules_wait() -> None:
    text = (pictures.DOCS / "pictures" / "waiting.svg").read_text()

    assert [int(one) for one in re.findall(r"rule \w, (\d+) ms", text)] == [
        pictures.WAITS[name] for name in re.findall(r"rule (\w),", text)
    ]
    assert f"{sum(pictures.WAITS.values())} ms of waiting in" in text


def test_the_graph_of_the_guide_is_that_of_its_picture() -> None:
    loss, model = pictures.graph_of_the_guide()
    dot = ag.visualize(loss, format="dot", params=model)
    drawn = (pictures.DOCS / "graph.svg").read_text()
    names = set(re.findall(r">([\w.–]*(?:Backward|weight|bias)[\w.]*)(?: × \d+)?</text>", drawn))

    assert len(names) >= 8
    assert [name for name in names if name not in dot] == []
