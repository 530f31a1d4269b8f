"""The service as a process: under load, killed, started again, told to stop, and asked for what it cannot do."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx
import numpy as np

from benchmarks.serving import Load, check, parse
from examples.serve_and_learn import main as serve
from examples.serve_and_learn import new_learner
from examples.serving.demonstration import server
from tests.support.house import ROOT
from tests.support.loops import run_on
from tests.support.small_disk import run_on_small_disk

SCRIPT = ROOT / "examples" / "serve_and_learn.py"
OPTIONS = ("--hidden", "8", "--checkpoint-every", "7")


def sequence(seed: int) -> dict[str, Any]:
    """Return the JSON object that posts the sequence of that seed."""
    rng = np.random.default_rng(seed)
    return {"inputs": rng.standard_normal((20, 2)).tolist(), "targets": rng.standard_normal((20, 1)).tolist()}


QUESTION = {"inputs": sequence(1000)["inputs"]}
ASK = json.dumps(QUESTION).encode()


def posted(seed: int) -> bytes:
    return json.dumps(sequence(seed)).encode()


async def answer_after(count: int) -> dict[str, Any]:
    """Return what the service answers after so many sequences, of a learner that was never interrupted."""
    async with new_learner(None, 8) as learner:
        for seed in range(count):
            await learner.learn(sequence(seed))
        return {"outputs": (await learner.predict(QUESTION)).tolist()}


def run_with_refused(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script with what it refuses."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_what_was_acknowledged_under_load_is_there_after_kill_9(tmp_path: Path, torn: bool):
    async def main():
        acknowledged, asked = 0, 0

        async with server(SCRIPT, tmp_path, *OPTIONS) as first:
            many = asyncio.Event()

            async def learn():
                nonlocal acknowledged
                while True:
                    try:
                        answer = await first.ask("/learn", posted(acknowledged))
                    except httpx.TransportError:
                        return
                    acknowledged += 1
                    assert answer.json()["learned"] == acknowledged
                    if acknowledged == 17:
                        many.set()

            async def ask():
                nonlocal asked
                while True:
                    try:
                        await first.ask("/predict", ASK)
                    except httpx.TransportError:
                        return
                    asked += 1

            async with asyncio.TaskGroup() as group:
                group.create_task(learn())
                for _ in range(3):
                    group.create_task(ask())
                await many.wait()
                await first.end(signal.SIGKILL)
        if torn:
            with (tmp_path / "journal").open("ab") as file:
                file.write(b'0badcafe {"learned": 99, "shap')
        async with server(SCRIPT, tmp_path, *OPTIONS) as second:
            found = (await second.ask("/predict", ASK)).json()
            return second.ready, acknowledged, asked, found, (await second.metrics())["learned"]

    ready, acknowledged, asked, found, learned = run_on("asyncio", main())

    # One more may have been written whose answer did not arrive.
    assert learned in (acknowledged, acknowledged + 1)
    assert acknowledged >= 17
    assert asked > 0
    assert found == run_on("asyncio", answer_after(learned))
    assert ready.endswith("after a torn line was cut off") is torn
    assert (tmp_path / "journal").read_bytes().count(b"\n") <= 7


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_with_everything_saved(tmp_path: Path, number: signal.Signals):
    async def main():
        async with server(SCRIPT, tmp_path, *OPTIONS) as first:
            await first.ask("/learn", posted(0))
            status = await first.end(number)
        journal = (tmp_path / "journal").read_bytes()
        async with server(SCRIPT, tmp_path, *OPTIONS) as second:
            return status, journal, second.ready, (await second.ask("/predict", ASK)).json()

    status, journal, ready, found = run_on("asyncio", main())

    assert (status, journal) == (0, b"")
    assert ready.endswith(": 1 learned, 0 of them replayed")
    assert found == run_on("asyncio", answer_after(1))


@pytest.mark.slow
def test_a_second_process_cannot_have_the_directory_or_the_port(tmp_path: Path):
    async def main():
        async with server(SCRIPT, tmp_path, *OPTIONS) as first:
            same_directory = await asyncio.to_thread(run_with_refused, "--port", 0, "--directory", tmp_path, *OPTIONS)
            port = first.client.base_url.port
            other = tmp_path / "other"
            same_port = await asyncio.to_thread(run_with_refused, "--port", port, "--directory", other)
            return same_directory, same_port

    same_directory, same_port = run_on("asyncio", main())

    assert (same_directory.returncode, same_port.returncode) == (3, 1)
    assert f"{tmp_path} is in use by another process: give each its own directory" in same_directory.stderr
    assert same_port.stderr.startswith("cannot serve on 127.0.0.1 port ")


@pytest.mark.slow
def test_a_first_start_without_room_names_the_directory_and_leaves_nothing_behind(tmp_path: Path):
    program = """
import os, subprocess, sys
mounted, script = sys.argv[1:]
with open(os.path.join(mounted, "full"), "wb", buffering=0) as file:
    for _ in range(15):
        file.write(bytes(4096))
for directory in (mounted, os.path.join(mounted, "a", "b")):
    command = [sys.executable, script, "--port", "0", "--directory", directory, "--hidden", "64"]
    finished = subprocess.run(command, stderr=subprocess.PIPE)
    *_, line = [line for line in finished.stderr.decode().splitlines() if "cannot be written to" in line]
    print(finished.returncode, line.partition(": ")[2])
    print(os.listdir(mounted))
"""
    finished = run_on_small_disk(tmp_path, "64k", [sys.executable, "-c", program, tmp_path, SCRIPT])

    assert finished.stderr == ""
    first, second = (f"3 {path} cannot be written to: " for path in (tmp_path, tmp_path / "a" / "b"))
    lines = finished.stdout.splitlines()
    assert [lines[0].startswith(first), lines[2].startswith(second)] == [True, True], finished.stdout
    assert "No space left on device" in lines[0]
    assert lines[1] == lines[3] == "['full']"


def leave_descriptors(process: int, count: int) -> None:
    """Let a process open so many files more, and no more."""
    most = len(list(Path(f"/proc/{process}/fd").iterdir())) + count
    resource.prlimit(process, resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets limits of another process, which Linux allows")
def test_where_descriptors_run_out_nobody_gets_a_500_and_what_was_acknowledged_is_kept(tmp_path: Path):
    async def main():
        statuses: Counter[int] = Counter()
        async with server(SCRIPT, tmp_path, *OPTIONS) as first:
            await first.ask("/learn", posted(0))
            await first.metrics()
            leave_descriptors(first.process.pid, 3)
            idle = [await asyncio.open_connection("127.0.0.1", first.client.base_url.port) for _ in range(20)]
            for seed in range(1, 10):
                answer = await first.ask("/learn", posted(seed))
                statuses[answer.status_code] += 1
                statuses[(await first.ask("/predict", ASK)).status_code] += 1
            metrics = await first.metrics()
            for _, writer in idle:
                writer.close()
            await first.end(signal.SIGKILL)
        async with server(SCRIPT, tmp_path, *OPTIONS) as second:
            return statuses, metrics, (await second.ask("/predict", ASK)).json()

    statuses, metrics, found = run_on("asyncio", main())

    assert set(statuses) <= {200, 503}
    assert metrics["failed_checkpoints"] > 0
    assert found == run_on("asyncio", answer_after(metrics["learned"]))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--hidden", "-1"), "negative"),
        (("--max-connections", "0"), "max_connections must be at least 1, not 0"),
        (("--checkpoint-every", "0"), "checkpoint_every must be at least 1, not 0"),
    ],
)
def test_the_service_names_the_option_it_cannot_use(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
):
    assert serve(arguments) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_under_load_nothing_acknowledged_is_lost_and_nothing_is_learned_twice(tmp_path: Path):
    load = Load(requests=240, connections=24, gone=6, kills=2)

    learned = run_on("uvloop", check(tmp_path, load))

    assert learned >= len(load.acknowledged) > 0
    assert set(load.statuses) <= {200, 429, 503}
    assert load.sent == load.requests


def test_the_whole_load_is_what_the_benchmark_puts_on():
    options = parse([])

    assert (options.requests, options.connections, options.gone, options.kills) == (10_000, 1000, 200, 20)


def test_the_service_says_what_to_install(tmp_path: Path):
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError('no starlette here', name='starlette')\n")

    finished = run_with_refused(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))

    assert finished.returncode == 1
    assert "needs starlette, which is not installed: pip install -e '.[serve]'" in finished.stderr


@pytest.mark.slow
def test_the_demonstration_shows_what_the_head_promises():
    finished = run_with_refused("--demo", "--seconds", "0.3")

    assert finished.returncode == 0, finished.stderr + finished.stdout
    for line in ("idle ", "while learning ", "steps ", "timeout  ", "kill -9 "):
        assert f"\n{line}" in finished.stdout
    assert "504 {'error': 'not learned within " in finished.stdout
    assert finished.stdout.count("same answers as before: True") == 1
    assert finished.stdout.endswith("SIGTERM         ended with status 0\n")
