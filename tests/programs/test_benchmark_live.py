"""The benchmark of the live page runs, and measures a service with pages open and without."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")

from benchmarks import live
from tests.support.loops import one_loop


@pytest.mark.slow
@one_loop
@pytest.mark.timeout(120)
async def test_a_service_is_measured_with_pages_and_without():
    found = await live.measure(rounds=2, seconds=0.2, pages=1, rate=20.0)

    assert min(found.microseconds) > 0
    assert min(found.requests) > 0
    # Two rounds are too few for a claim, but a page that nobody looks at, and one that somebody does, both take time.
    assert min(found.idle[:2]) > 0


def test_the_table_says_what_the_pages_cost(monkeypatch, capsys):
    async def measured(*given):
        return live.Costs((103.0, 100.0, 1.03), (990.0, 1000.0, 0.99), (9.0, 2.0, 4.5), given[-1])

    monkeypatch.setattr(live, "measure", measured)
    monkeypatch.setattr("sys.argv", ["live"])
    live.main()

    assert capsys.readouterr().out.splitlines()[2:] == [
        "| processor time of a request, 1,000 a second, µs | 103 | 100 | 1.030 |",
        "| processor time of an idle second, ms | 9.0 | 2.0 | 0.7% of a core more |",
        "| requests a second, at most | 990 | 1,000 | 0.990 |",
    ]
