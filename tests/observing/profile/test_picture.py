"""The picture in docs/profiling.md, and the benchmark of what a profile costs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import profiling
from examples import async_rule
from tools import timeline


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib: pip install 'asyncgrad[demo]'")
def test_the_picture_has_a_row_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_rule, "LATENCY", 0.001)

    timeline.draw(timeline.profile_of_the_example(), tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()

    assert text.count(">RemoteSineBackward<") == text.count(">AccumulateGrad<") == 8


def test_the_picture_in_the_docs_is_small_and_is_shown() -> None:
    text = timeline.PICTURE.read_text()

    assert text.count(">RemoteSineBackward<") == 8
    assert timeline.PICTURE.stat().st_size < 100_000
    assert f"({timeline.PICTURE.name})" in timeline.PICTURE.with_name("profiling.md").read_text()


def test_the_benchmark_measures_with_a_profile_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "chain", lambda x: x * x + x)

    found = profiling.measure(rounds=2)

    assert list(found) == ["forward", "backward", "both", "tanh"]
    assert all(times.ours > 0 for times in found.values())
