"""What the pages say of speed is what was measured: record, tables and chart are one another's."""

from __future__ import annotations

import copy
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import chain, chart, command, machine, report, runner
from benchmarks.record import Record, UnusableRecordError
from benchmarks.runner import Result

ROOT = Path(__file__).parents[2]
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="draws the chart")


def result(name: str, topic: str = "chain", *, section: str = "", **seconds: list[float]) -> Result:
    """A row, its peers taking turns in the same order each time."""
    order = [list(seconds)] * len(seconds["asyncgrad"])
    return Result(name, seconds, order, topic=topic, section=section, measured="2030-01-31")


@pytest.fixture
def record() -> Record:
    """Two cases of one table, a variant of one of them, and a table of its own."""
    lacking = result("small, 16: backward", "mlp", asyncgrad=[0.3, 0.4], torch=[0.1, 0.1], floor=[0.1, 0.1])
    lacking.lacks["HIPS"] = "it has no such thing"
    return Record(
        {"processor": "Abacus 3", "cores": "2", "blas": "OpenBLAS 1, Counting kernels", "numpy": "2.0"},
        [
            result(
                "large, 10,000: backward", asyncgrad=[0.2, 0.1], torch=[0.4, 0.4], HIPS=[1.2, 1.0], floor=[0.1, 0.1]
            ),
            result("large, 10,000: compiled backward", asyncgrad=[0.1, 0.1], torch=[0.4, 0.4]),
            result("large, 10,000: step", asyncgrad=[0.6, 0.6], torch=[0.5, 0.5], floor=[0.3, 0.3]),
            lacking,
            result("timer: backward", "lateness", section="How late.", asyncgrad=[1e-3, 2e-3], idle=[1e-3, 1e-3]),
        ],
    )


def test_the_small_table_has_the_rows_that_say_most():
    shown = report.summary(Record.read(ROOT / command.RAW), command.CHART, command.RAW)

    assert [name for name in report.SUMMARY if f"| {name} " not in shown] == []
    assert shown.count("\n| ") == len(report.SUMMARY) + 2


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the pages that show the record, in place of this one."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    for page in command.PAGES:
        (tmp_path / page).write_text(f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    return tmp_path


def numbers_in(svg: str) -> dict[str, str]:
    """The numbers that a chart shows, by their ids."""
    groups = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")
    texts = {one.get("id", ""): one.findtext("{http://www.w3.org/2000/svg}text") for one in groups}
    return {name: text for name, text in texts.items() if text is not None and not name.startswith("text_")}


def test_pages_and_chart_show_the_record_and_nothing_else():
    record = Record.read(ROOT / command.RAW)

    for name, (shown, up) in command.PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        block = shown(record, up + command.CHART, up + command.RAW)
        assert report.replaced(page, block, ROOT / name) == page
    shown = {
        chart.name_of(group, bar): f"{ratio:.2f}"
        for group in chart.groups(record.results)
        for bar, ratio in group.bars.items()
    }
    drawn = numbers_in((ROOT / command.CHART).read_text(encoding="utf-8"))
    assert drawn == shown


def test_the_chart_s_bars_of_asyncgrad_are_the_table_s_ratios_to_pytorch():
    record = Record.read(ROOT / command.RAW)
    table = report.block(record, command.CHART, command.RAW)
    rows = {
        cells[0].strip(): cells[2].strip()
        for cells in (line[1:].split("|") for line in table.splitlines() if line.startswith("|"))
    }

    for group in chart.groups(record.results):
        assert rows[f"{group.case}: {group.column}"] == f"{group.bars['asyncgrad']:.2f}"


def test_the_table_of_checkpoints_on_the_page_on_memory_has_the_record_s_times():
    steps = {one.name: one for one in Record.read(ROOT / command.RAW).results if one.topic == "checkpoint"}
    page = (ROOT / "docs/memory.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| checkpoints ")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:6]]

    names = [name.replace("none", "no checkpoints") for name, *_ in rows]
    found = [steps[f"64 layers, {name}: step"] for name in names]
    assert [row[1] for row in rows] == [f"{one.microseconds() / found[0].microseconds():.2f}" for one in found]
    # PyTorch has no chain of that kind: in the record it checkpoints each layer instead.
    assert [row[2] for row in rows[:-1]] == [f"{one.ratio('torch'):.2f}" for one in found[:-1]]


def test_every_topic_has_been_recorded():
    assert {one.topic for one in Record.read(ROOT / command.RAW).results} == set(command.TOPICS)


def test_a_record_that_is_read_back_is_the_record(record: Record, tmp_path: Path):
    (tmp_path / "raw.json").write_text(record.text(), encoding="utf-8")

    again = Record.read(tmp_path / "raw.json")

    assert again == record
    assert report.block(again, "c", "r") == report.block(record, "c", "r")


def test_the_block_has_a_table_for_each_section_and_says_who_lacks_what(record: Record):
    block = report.block(record, "chart.svg", "raw.json")

    tables = [part for part in block.split("\n\n") if part.startswith("|")]
    assert tables == [runner.table(record.results[:4]), runner.table(record.results[4:])]
    assert "HIPS does not take part in “small, 16”: it has no such thing." in block
    assert block.index("How late.") < block.index(tables[1])
    assert f"![{chart.CAPTION}](chart.svg)" in block
    assert "Medians of 2 rounds, measured 2030-01-31 on Abacus 3, 2 cores" in block
    assert (
        "BLAS: OpenBLAS 1, Counting kernels; NumPy 2.0. The seconds of every round are in [raw.json](raw.json)."
        in block
    )


def test_a_case_is_a_group_of_bars_with_pytorch_as_one(record: Record):
    large, step, small = chart.groups(record.results)

    assert large.case == step.case == "large, 10,000"
    assert large.bars == {
        "asyncgrad": 0.375,
        "asyncgrad, compiled": 0.25,
        "PyTorch": 1.0,
        "HIPS autograd": pytest.approx(2.75),
        "NumPy by hand": 0.25,
    }
    assert (step.column, step.bars["asyncgrad"]) == ("step", pytest.approx(1.2))
    assert small.case == "small, 16"


@pytest.mark.slow
@needs_matplotlib
def test_the_chart_is_the_same_each_time(record: Record):
    drawn = chart.draw(record.results)

    assert chart.draw(record.results) == drawn
    assert numbers_in(drawn)["large-10-000-backward-HIPS-autograd"] == "2.75"
    assert numbers_in(drawn)["large-10-000-backward-asyncgrad-compiled"] == "0.25"
    assert "prefers-color-scheme: dark" in drawn


SVG = "{http://www.w3.org/2000/svg}"


def lengths_in(svg: str) -> dict[str, float]:
    """The lengths of the bars of a chart, by the ids of their numbers."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        name, path = group.get("id", ""), group.find(f"{SVG}path")
        if name.startswith("bar-") and path is not None:
            ends = [float(x) for x in re.findall(r"[ML] (\S+) ", path.get("d", ""))]
            found[name.removeprefix("bar-")] = max(ends) - min(ends)
    return found


def test_a_bar_of_the_chart_is_as_long_as_the_logarithm_of_its_number_and_each_library_has_a_colour():
    groups = chart.groups(Record.read(ROOT / command.RAW).results)
    ratios = {chart.name_of(group, bar): ratio for group in groups for bar, ratio in group.bars.items()}
    drawn = lengths_in((ROOT / command.CHART).read_text(encoding="utf-8"))
    names = {bar for group in groups for bar in group.bars}
    scales = [drawn[name] / abs(math.log(ratio)) for name, ratio in ratios.items() if ratio != 1.0]

    assert drawn.keys() == ratios.keys()
    assert scales == pytest.approx([scales[0]] * len(scales), rel=0.01)
    assert len({chart._colour(name) for name in names}) == len(names)


def test_no_name_of_the_chart_is_cut_off_in_a_wide_font():
    picture = ElementTree.fromstring((ROOT / command.CHART).read_text(encoding="utf-8"))
    width = float((picture.get("viewBox") or "").split()[2])
    widest = 0.65 * 8.5  # of a letter in the mean, in points: more than in any common font
    for text in picture.iter(f"{SVG}text"):
        style, place = text.get("style", ""), re.search(r"translate\((\S+) ", text.get("transform", ""))
        x = float(place[1] if place else text.get("x", "nan"))
        room = {"end": x, "start": width - x, "middle": 2 * min(x, width - x)}
        anchor = next((one for one in ("end", "middle") if f"text-anchor: {one}" in style), "start")

        assert len(text.text or "") * widest <= room[anchor] * 1.02, text.text


@needs_matplotlib
def test_every_colour_of_the_chart_turns_with_its_ground(record: Record):
    drawn = chart.draw(record.results)

    _, _, body = drawn.partition("</style>")
    assert set(re.findall(r"(?:fill|stroke): (#\w+)", body)) <= chart.DARK.keys()


@needs_matplotlib
def test_a_chart_needs_a_row_with_pytorch(root: Path, record: Record, capsys: pytest.CaptureFixture[str]):
    (root / "raw.json").write_text(Record(record.machine, record.results[4:]).text(), encoding="utf-8")

    with pytest.raises(SystemExit):
        command.main(["--from", str(root / "raw.json"), "--write"])

    assert "no row of the record has PyTorch's time of a backward or a step" in capsys.readouterr().err
    assert "old" in (root / "README.md").read_text()


def test_a_record_says_that_the_garbage_collector_was_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "run", lambda *arguments, **options: [])

    assert command.measured(["chain"], 1, collect=True).machine["garbage collector"] == "on"
    assert "garbage collector" not in command.measured(["chain"], 1, collect=False).machine


@needs_matplotlib
def test_write_measures_and_fills_pages_record_and_chart(root: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")  # what the chart compares with
    monkeypatch.setattr(chain, "ITERATIONS", 2)
    monkeypatch.setattr(runner, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(command, "TOPICS", ("chain",))
    monkeypatch.setattr(command, "_missing", lambda measuring: [])

    assert command.main(["--write", "--rounds", "2"]) == 0

    record = Record.read(root / command.RAW)
    assert [len(one.seconds["asyncgrad"]) for one in record.results] == [2] * 6
    for name, (shown, up) in command.PAGES.items():
        block = shown(record, up + command.CHART, up + command.RAW)
        assert (root / name).read_text() == f"before\n\n{block}\n\nafter\n"
    assert len(numbers_in((root / command.CHART).read_text())) == sum(
        len(group.bars) for group in chart.groups(record.results)
    )


@needs_matplotlib
def test_write_from_a_record_measures_nothing(
    root: Path, record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(command, "run", None)
    (root / "raw.json").write_text(record.text(), encoding="utf-8")

    assert command.main(["--from", str(root / "raw.json"), "--write"]) == 0

    assert capsys.readouterr().out.startswith(runner.table(record.results[:4]))
    assert report.summary(record, command.CHART, command.RAW) in (root / "README.md").read_text()
    assert (root / command.RAW).read_text(encoding="utf-8") == record.text()


@needs_matplotlib
def test_writing_one_topic_leaves_the_rows_of_the_others(root: Path, record: Record, monkeypatch: pytest.MonkeyPatch):
    (root / command.RAW).write_text(record.text(), encoding="utf-8")
    anew = result("small, 16: step", "mlp", asyncgrad=[0.5], torch=[1.0])
    monkeypatch.setattr(command, "describe", lambda: dict(record.machine))
    monkeypatch.setattr(command, "run", lambda *arguments, **options: [anew])
    monkeypatch.setattr(command, "_missing", lambda measuring: [])

    command.main(["mlp", "--write"])

    results = Record.read(root / command.RAW).results
    assert results == [*record.results[:3], anew, record.results[4]]
    assert "Medians of 1 to 2 rounds" in (root / "docs/performance.md").read_text()


@pytest.mark.parametrize("options", [["--write", "mlp"], ["--write"]], ids=["other machine", "no markers"])
def test_what_cannot_be_written_is_found_out_before_anything_is_measured(
    options: list[str], root: Path, record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (root / command.RAW).write_text(record.text(), encoding="utf-8")
    if "mlp" not in options:
        (root / "README.md").write_text("nothing here")
    monkeypatch.setattr(command, "describe", lambda: {**record.machine, "numpy": "3.0"})
    monkeypatch.setattr(command, "_missing", lambda measuring: [])
    monkeypatch.setattr(command, "measured", None)

    with pytest.raises(SystemExit):
        command.main(options)

    complaint = (
        "numpy is 3.0 here, and the record was made with 2.0"
        if "mlp" in options
        else f"must have the lines {report.BEGIN}"
    )
    assert complaint in capsys.readouterr().err


def test_write_names_what_is_missing_and_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(command, "torch", object())
    monkeypatch.setattr(command, "hips_numpy", object())
    monkeypatch.setattr(command, "mygrad", None)
    monkeypatch.setattr(chart, "can_draw", lambda: False)

    with pytest.raises(SystemExit):
        command.main(["--write"])

    assert "--write needs MyGrad, matplotlib: pip install -e '.[bench]'" in capsys.readouterr().err


ROW: dict[str, Any] = {
    "topic": "chain",
    "name": "one: backward",
    "section": "",
    "lacks": {},
    "measured": "2030-01-31",
    "order": [["asyncgrad", "floor"]],
    "seconds": {"asyncgrad": [1.0], "floor": [2.0]},
}


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        (["format"], 2, 'it does not say "format": 1'),
        (["machine"], {"cores": 2}, '"machine" must be an object of strings'),
        (["rows"], [], '"rows" must be a list that is not empty'),
        (["rows"], [3], "row 0 must be an object"),
        (["rows"], [ROW, ROW], "row 'one: backward' is there twice"),
        (["rows", 0, "name"], None, 'row 0 needs a string "name"'),
        (["rows", 0, "section"], None, "row 'one: backward' needs a string \"section\""),
        (["rows", 0, "lacks"], {"HIPS": 1}, 'needs an object of strings "lacks"'),
        (["rows", 0, "seconds"], {"floor": [1.0]}, 'needs "seconds" with those of asyncgrad'),
        (["rows", 0, "seconds", "floor"], [0.0], "the seconds of floor must be numbers above 0"),
        (["rows", 0, "seconds", "floor"], [float("nan")], "the seconds of floor must be numbers above 0"),
        (["rows", 0, "seconds", "floor"], ["1"], "the seconds of floor must be numbers above 0"),
        (["rows", 0, "seconds", "floor"], [], "the seconds of floor must be numbers above 0"),
        (["rows", 0, "seconds", "floor"], [1.0, 2.0], "floor was measured 2 times, asyncgrad 1 times"),
        (["rows", 0, "order"], [], '"order" must name every peer once for each of its 1 rounds'),
        (["rows", 0, "order"], [["floor"] * 2], '"order" must name every peer once for each of its 1 rounds'),
    ],
)
def test_a_record_with_something_wrong_is_refused_by_what_is_wrong(
    where: list[Any], value: Any, complaint: str, tmp_path: Path
):
    raw: Any = copy.deepcopy({"format": 1, "machine": {"numpy": "2.0"}, "rows": [ROW]})
    place = raw
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(raw))

    with pytest.raises(UnusableRecordError, match=re.escape(complaint)) as error:
        Record.read(path)

    assert str(error.value).startswith(f"{path} is no record of benchmarks: ")


@pytest.mark.parametrize("content", [b'{"format": 1,', b"\xff\xfe"], ids=["cut short", "no text"])
def test_what_is_no_json_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "raw.json").write_bytes(content)

    with pytest.raises(SystemExit) as exit_:
        command.main(["--from", str(tmp_path / "raw.json")])

    assert exit_.value.code == 2
    assert "raw.json is not JSON: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        report.BEGIN,
        report.END + report.BEGIN,
        report.BEGIN + report.BEGIN + report.END,
        (report.BEGIN + report.END) * 2,
    ],
)
def test_markers_are_there_once_and_in_order(text: str):
    with pytest.raises(UnusableRecordError, match="once each and in this order"):
        report.replaced(text, "new", Path("README.md"))


def test_a_topic_measured_anew_takes_the_place_of_its_rows_and_a_new_one_comes_last(record: Record):
    more = [result("a: step", "lstm", asyncgrad=[1.0]), result("b: step", asyncgrad=[1.0])]

    merged = record.merged(Record(record.machine, more))

    assert merged.results == [more[1], record.results[3], record.results[4], more[0]]


def test_the_machine_names_processor_blas_and_versions():
    found = machine.describe()

    assert found["numpy"].startswith("2.")
    assert found["processor"]
    assert found["blas"]
    assert int(found["cores"]) >= 1
