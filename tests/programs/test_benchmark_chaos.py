"""The chaos of messages, and the soak, complain where they should: shown on workers in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("distributed", reason="needs Dask: pip install 'asyncgrad[dask]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")

from asyncgrad.distributed import Reply, Request, SimulatedTransport
from asyncgrad.distributed.hosted_stage import HostedStage
from asyncgrad.errors import ChangedTensorError, WorkerLostError
from benchmarks import chaos_messages, faulty_transport
from benchmarks.chaos_messages import run_messages
from benchmarks.faulty_transport import FaultyTransport
from benchmarks.soak import Sample, growth
from tests.support.loops import one_loop


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is late by much."""
    for name in ("_DELAY", "_LATENESS"):
        monkeypatch.setattr(faulty_transport, name, 0.001)


@pytest.mark.slow
@one_loop
async def test_trainings_with_faulty_messages_end_right_or_lost_and_meet_the_cases_that_matter():
    counts, runs = Counter[str](), 0
    # What is late depends on the time that messages take: a busy machine meets fewer cases in a run.
    while not all(counts[name] for name in chaos_messages.CASES):
        counts += await run_messages("simulated", 10, seed=runs)
        runs += 10

    assert counts["right"] + counts["lost"] == runs


def test_a_host_that_makes_a_step_twice_is_found(monkeypatch: pytest.MonkeyPatch):
    async def apply(self: HostedStage, fields: dict[str, Any], change: Any) -> Reply:
        self._effects[fields["effect"]] = None
        self.version += 1
        change()
        return await self._report(fields["wants_state"])

    monkeypatch.setattr(HostedStage, "_apply_once", apply)

    # The second one may also come between a forward and its backward.
    with pytest.raises((AssertionError, ChangedTensorError), match=r"in place of|changed in place") as failure:
        run_until_a_step_comes_twice()

    assert failure.value.__notes__[-1].startswith("simulated, seed ")


def run_until_a_step_comes_twice() -> None:
    # Which of them do depends on the time that messages take.
    for seed in range(1000):
        asyncio.run(run_messages("simulated", 10, seed))


def test_a_run_that_meets_no_case_fails(capsys: pytest.CaptureFixture[str]):
    status = chaos_messages.main(["0", "--transport", "simulated"])

    assert status == 1
    assert "not met in 0 runs: late create, step unsure, move during a commit" in capsys.readouterr().out


@one_loop
async def test_when_faults_have_ceased_messages_arrive_once():
    arrived = Counter[str]()

    def note(_: str, message: Request | Reply) -> None:
        arrived["request" if isinstance(message, Request) else "reply"] += 1

    transport = FaultyTransport(SimulatedTransport("a", on_message=note), "0", Counter())
    lost = 0
    for _ in range(100):
        try:
            await transport.call("a", Request("ping", ""))
        except WorkerLostError:
            lost += 1
    await transport.cease()
    assert lost
    assert arrived["request"] > 100
    arrived.clear()
    for _ in range(100):
        await transport.call("a", Request("ping", ""))

    assert arrived == {"request": 100, "reply": 100}


def test_growth_is_what_the_second_half_has_more_and_the_first_tenth_does_not_count():
    warm, first, second = Sample(0, 0, 0), Sample(10, 1, 100), Sample(12, 1, 99)

    assert growth([warm] * 2 + [first] * 9 + [second] * 9) == (2, 0, -1)
