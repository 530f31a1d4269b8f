"""The benchmarks measure what they say, shown on sizes too small to measure anything."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from benchmarks import (
    branches,
    chain,
    checkpoint,
    command,
    in_place,
    lateness,
    lstm,
    many,
    memory,
    offload,
    overlap,
    runner,
)
from benchmarks.chain import Chain
from benchmarks.peers import PEERS
from benchmarks.runner import Benchmark, Result


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that take no time, one call a sample."""
    for module, name, value in (
        (chain, "ITERATIONS", 5),
        (in_place, "ITERATIONS", 5),
        (lateness, "NODES", 10),
        (lateness, "PRODUCTS", 2),
        (lateness, "SIDE", 8),
        (lateness, "IDLE_SECONDS", 0.003),
        (lateness, "WIDTH", 8),
        (lateness, "PASSES", 20),
        (lateness, "TASKS", 4),
        (lateness, "STEPS", 2),
        (lateness, "STEP_WIDTH", 8),
        (lstm, "STEPS", 3),
        (many, "PASSES", 4),
        (checkpoint, "LAYERS", 3),
        (checkpoint, "BATCH", 6),
        (offload, "LAYERS", 2),
        (offload, "ROWS", 4),
        (offload, "WIDTHS", {"matrix products": 4, "elementwise functions": 4}),
        (branches.Branches, "params", (branches.Branches.params[0], (8,))),
        (runner, "SAMPLE_SECONDS", 0.0),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.slow
@pytest.mark.parametrize("topic", command.TOPICS)
def test_peers_agree_on_every_gradient_and_are_timed_in_every_round(topic: str):
    benchmarks = import_module(f"benchmarks.{topic}").BENCHMARKS

    results = list(runner.run(benchmarks, rounds=2))

    assert len({result.name for result in results}) == len(results) > 0
    for result in results:
        assert {"asyncgrad"} < result.seconds.keys()
        assert all(len(times) == 2 and min(times) > 0 for times in result.seconds.values())


def test_every_topic_is_a_file():
    files = {path.stem for path in Path(command.__file__).parent.glob("*.py")}

    machinery = {"__init__", "__main__", "chart", "command", "machine", "pairs", "peers", "record", "report", "runner"}
    commands_of_their_own = {
        "chaos",
        "chaos_learner",
        "chaos_messages",
        "count",
        "counted",
        "distributed",
        "faulty_transport",
        "followers",
        "following_process",
        "headline",
        "hips",
        "imports",
        "interop",
        "layers",
        "live",
        "live_service",
        "memory",
        "overlap",
        "profiling",
        "serving",
        "soak",
        "training",
        "vmap",
    }
    assert set(command.TOPICS) == files - machinery - commands_of_their_own


@pytest.mark.slow
def test_overlap_is_timed_beside_waiting_without_it():
    pipeline, data_parallel = (ag.run(one(1)) for one in (overlap.measure_pipeline, overlap.measure_data_parallel))

    assert pipeline.keys() == {"pipeline", "bare tasks"}
    assert data_parallel.keys() == {"backward", "async hooks", "blocking"}
    assert min(*pipeline.values(), *data_parallel.values()) > 0


def test_a_peer_that_computes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch):
    def wrong(x: Any) -> Any:
        result, pullback = chain.floor(x)
        return result, lambda g: [gradient * 1.001 for gradient in pullback(g)]

    monkeypatch.setitem(Chain.models, "floor", wrong)

    with pytest.raises(AssertionError, match=r"gradient 0 of asyncgrad, float64\[16\], is not that of floor"):
        list(runner.run([Chain], rounds=1))


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != "floor"])
def test_every_peer_is_held_to_the_floor_before_it_is_timed(peer: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(Chain.models, peer, lambda x: chain.chain(x) * 2.0)

    with pytest.raises(AssertionError, match=rf"gradient 0 of {peer}, float64\[16\], is not that of floor"):
        list(runner.run([Chain], rounds=1))


def test_a_row_says_what_it_is_and_in_which_order_each_round_went():
    result = next(iter(runner.run([in_place.InPlace], rounds=2)))

    assert (result.topic, result.case, result.what) == ("in_place", "4,000 writes into a view of 10,000", "backward")
    assert result.lacks == {"HIPS": "its arrays cannot be written into"}
    first, second = result.order
    assert second == [*first[1:], first[0]]
    assert set(first) == result.seconds.keys()


def test_a_peer_that_computes_nan_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(Chain.models, "floor", lambda x: (x, lambda g: [g * np.nan]))

    with pytest.raises(AssertionError, match="is not that of floor"):
        list(runner.run([Chain], rounds=1))


def test_ratios_are_medians_of_paired_rounds():
    # A machine that slows down threefold in the second round, for both alike.
    result = Result("case", {"asyncgrad": [1.0, 3.0, 1.0], "floor": [2.0, 6.0, 2.0]})

    assert result.ratio("floor") == 0.5
    assert result.ratio("torch") is None
    assert result.microseconds() == 1e6


def test_a_number_that_a_benchmark_returns_is_its_time():
    class Nominal(Benchmark):
        title = "nominal"
        params = (("asyncgrad", "floor"),)

        def setup(self, peer: str) -> None:
            self.seconds = 2.0 if peer == "asyncgrad" else 1.0

        def gradients(self) -> list[Any]:
            return []

        def time_backward(self) -> float:
            return self.seconds

    (result,) = runner.run([Nominal], rounds=1)

    assert result.seconds == {"asyncgrad": [2.0], "floor": [1.0]}
    assert result.ratio("floor") == 2.0


def test_the_table_has_a_row_for_each_case_and_a_column_for_each_peer():
    results = [Result("one", {"asyncgrad": [1e-3], "floor": [5e-4]}), Result("two", {"asyncgrad": [2.0]})]

    header, rule, one, two = runner.table(results).splitlines()

    assert header == "| case | asyncgrad, µs | × floor |"
    assert rule == "| ---- | ------------: | ------: |"
    assert one == "| one  |         1,000 |    2.00 |"
    assert two == "| two  |     2,000,000 |       - |"


def test_the_command_prints_a_table_and_writes_the_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status = command.main(["chain", "--rounds", "1", "--json", str(tmp_path / "raw.json")])

    printed = capsys.readouterr().out
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert status == 0
    assert "× floor" in printed
    assert set(PEERS) == set(raw["rows"][0]["seconds"]) == set(raw["rows"][0]["order"][0])
    assert all(len(times) == 1 for row in raw["rows"] for times in row["seconds"].values())
    assert "numpy" in raw["machine"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["chains"], "no benchmark is called 'chains': there are chain, mlp, transformer, lstm, in_place, many"),
        (["--rounds", "0"], "--rounds must be at least 1, not 0"),
        (["--json", "nowhere/raw.json"], "--json: there is no folder nowhere"),
        (["--from", "raw.json", "chain"], "--from measures nothing: leave out the names, --rounds and --gc"),
        (["--from", "nowhere/raw.json"], "nowhere/raw.json cannot be read: No such file or directory"),
    ],
    ids=["name", "rounds", "json", "from", "record"],
)
def test_the_command_names_what_it_cannot_use(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)

    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("kind", checkpoint.KINDS)
def test_the_stack_holds_within_a_tenth_of_what_the_schedule_needs(kind: str, monkeypatch: pytest.MonkeyPatch):
    """Of this size, states count and nodes do not."""
    monkeypatch.setattr(checkpoint, "LAYERS", 32)
    monkeypatch.setattr(checkpoint, "BATCH", 2048)

    # A worker that the system suspends holds its arrays for longer.
    with ag.workers(0):
        assert memory.allocated("asyncgrad", kind) < 1.1 * memory.allocated("floor", kind)


@pytest.mark.parametrize("arguments", [["nope"], ["deep", "deep"], ["nope", "asyncgrad", "none"], ["--nope"]])
def test_what_the_memory_benchmark_does_not_know_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        memory.main(arguments)

    assert exit_.value.code == 2
    assert "usage: python -m benchmarks.memory" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="counts as Linux does")
def test_the_table_of_memory_has_a_row_for_each_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(memory, "_peak", lambda count, peer, kind: max(1, getattr(memory, count)(peer, kind)))

    assert memory.main([]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[3:]] == list(checkpoint.KINDS)
