"""A profile that is used wrongly says so, and loses nothing of what it or another has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ProfileError, ReleasedGraphError


def run(x: ag.Tensor | None = None) -> None:
    ag.sync.backward(np.tanh(ag.tensor([1.0, 2.0], requires_grad=True)).sum())


READERS: dict[str, Any] = {
    "events": lambda prof, path: prof.events,
    "table()": lambda prof, path: prof.table(),
    "export_chrome_trace()": lambda prof, path: prof.export_chrome_trace(path / "trace.json"),
    "critical_path()": lambda prof, path: prof.critical_path(),
}


@pytest.mark.parametrize("what", READERS)
def test_a_profile_is_read_after_its_block(what: str, tmp_path: Path) -> None:
    prof = ag.profile()

    with pytest.raises(ProfileError, match="has recorded nothing"):
        READERS[what](prof, tmp_path)
    with prof:
        run()
        with pytest.raises(ProfileError, match="still recording"):
            READERS[what](prof, tmp_path)
    assert len(prof.events) == 5


def test_a_profile_is_entered_once() -> None:
    with ag.profile() as prof:
        run()
    with pytest.raises(ProfileError, match="has been used"), prof:
        pass

    assert len(prof.events) == 5


@pytest.mark.parametrize("path", ["missing/trace.json", "."])
def test_a_path_that_cannot_be_written_leaves_the_profile_as_it_was(path: str, tmp_path: Path) -> None:
    with ag.profile() as prof:
        run()

    with pytest.raises(OSError, match=r"trace\.json|directory"):
        prof.export_chrome_trace(tmp_path / path)
    prof.export_chrome_trace(tmp_path / "trace.json")

    assert (tmp_path / "trace.json").stat().st_size > 100


def test_a_path_is_a_path() -> None:
    with ag.profile() as prof:
        run()

    with pytest.raises(ArgumentTypeError, match="path of a file"):
        prof.export_chrome_trace(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("sort_by", ["times", "", None, ["total"]])
def test_an_unknown_column_is_refused_with_those_that_there_are(sort_by: Any) -> None:
    with ag.profile() as prof:
        run()

    with pytest.raises(ArgumentError, match="'total', 'mean'"):
        prof.table(sort_by=sort_by)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_number_of_lines(limit: Any) -> None:
    with ag.profile() as prof:
        run()

    with pytest.raises(ArgumentError, match="how many lines"):
        prof.table(limit=limit)


@pytest.mark.parametrize(
    "column", ["name", "kind", "count", "total", "mean", "longest", "waited", "share", "flops", "bytes"]
)
def test_a_table_is_sorted_by_any_column(column: str) -> None:
    with ag.profile() as prof:
        run()
    lines = prof.table(column).splitlines()

    assert len(lines) == 2 + 5
    assert lines[0].startswith("name")
    assert len(prof.table(column, limit=2).splitlines()) == 2 + 2 + 1


def test_a_profile_without_a_backward_has_no_critical_path() -> None:
    with ag.profile() as empty:
        pass
    with ag.profile() as prof:
        run()

    with pytest.raises(ProfileError, match="no backward"):
        empty.critical_path()
    with pytest.raises(ProfileError, match="no backward -5"):
        prof.critical_path(-5)
    assert empty.events == ()
    assert empty.table().startswith("name")


def test_a_released_graph_fails_as_ever_and_other_events_stay() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = np.tanh(x).sum()

    with ag.profile() as prof:
        ag.sync.backward(y)
        with pytest.raises(ReleasedGraphError):
            ag.sync.backward(y)

    assert [event.status for event in prof.events] == ["done", "done", "done", "done", "failed"]


@pytest.mark.parametrize(("options", "words"), [({"whole_process": "yes"}, "whole_process"), ({"clock": 3.0}, "clock")])
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentTypeError, match=words):
        ag.profile(**options)


def test_a_block_ends_once_and_not_before_it_has_begun() -> None:
    for whole_process in (False, True):
        prof = ag.profile(whole_process=whole_process)
        with pytest.raises(ProfileError, match="has not begun"):
            prof.__exit__(None, None, None)
        with prof:
            run()
        with pytest.raises(ProfileError, match="has ended"):
            prof.__exit__(None, None, None)

        assert len(prof.events) == 5
