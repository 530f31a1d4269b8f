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

    # Two rounds are too few for a claim, but a page that nobody looks at, and one that somebody does, both take time.
    for each in (found.microseconds, found.requests, found.idle):
        assert min(each.opened, each.closed, each.ratios[0]) > 0
        assert list(each.ratios) == sorted(each.ratios)
    assert 0 <= found.share[0] <= found.share[1] <= found.share[2] < 1


def costs(share: float = 0.002, idle: float = 9.0, rate: float = 1000.0) -> live.Costs:
    """Return what a measurement might have found: events take a share, and an idle second so many milliseconds."""
    asked, most = live.Compared(103.0, 100.0, (1.01, 1.03, 1.04)), live.Compared(990.0, 1000.0, (0.98, 0.99, 1.01))
    return live.Costs(asked, (share / 2, share, 2 * share), most, live.Compared(idle, 7.0, (4.0, 4.5, 5.0)), rate)


def said_of(
    found: live.Costs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Return the exit code, what is printed, and what is complained of."""

    async def measured(*_: object) -> live.Costs:
        return found

    monkeypatch.setattr(live, "measure", measured)
    monkeypatch.setattr("sys.argv", ["live"])
    code = live.main()
    return (code, *capsys.readouterr())


def test_the_table_says_what_the_pages_cost(monkeypatch, capsys):
    code, out, err = said_of(costs(), monkeypatch, capsys)

    assert (code, err) == (0, "")
    assert out.splitlines()[2:] == [
        "| processor time of a request, 1,000 a second, µs | 103 | 100 | 1.030 | 1.010 to 1.040 |",
        "| of it for events of pages | 0.20% | | | 0.10% to 0.40% |",
        "| processor time of an idle second, ms | 9.0 | 7.0 | 0.2% of a core more | |",
        "| requests a second, at most | 990 | 1,000 | 0.990 | 0.980 to 1.010 |",
    ]


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (costs(share=0.04), "pages take 4.0% of the processor time, more than 3%\n"),
        (costs(idle=13.0), "pages take 6.0% of the processor time, more than 3%\n"),
        (costs(rate=800.0), "only 800 requests a second were asked for: this machine is busy\n"),
    ],
)
def test_it_fails_where_pages_cost_more_than_they_may(found, complaint, monkeypatch, capsys):
    code, _, err = said_of(found, monkeypatch, capsys)

    assert (code, err) == (1, complaint)
