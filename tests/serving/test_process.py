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

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

from examples.serving.demonstration import server
from tests.conftest import run_on
from tests.house import ROOT
from tests.serving.making import QUESTION, answers, fields, random_sequence
from tests.small_disk import run_on_small_disk

SCRIPT = ROOT / "examples" / "serve_and_learn.py"
OPTIONS = ("--hidden", "8", "--snapshot-every", "7")
ASK = json.dumps({"inputs": QUESTION.tolist()}).encode()


def posted(seed: int) -> bytes:
    return json.dumps(fields(random_sequence(seed))).encode()


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
            return second.ready, acknowledged, asked, found

    ready, acknowledged, asked, found = run_on("asyncio", main())

    # One more may have been written whose answer did not arrive.
    assert found["learned"] in (acknowledged, acknowledged + 1)
    assert acknowledged >= 17
    assert asked > 0
    expected = run_on("asyncio", answers(map(random_sequence, range(found["learned"]))))
    assert found["outputs"] == expected[-1]
    assert ready.endswith("after a torn line was cut off") is torn
    assert (tmp_path / "journal").read_bytes().count(b"\n") <= 7


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
    assert found == {"outputs": run_on("asyncio", answers([random_sequence(0)]))[-1], "learned": 1}


def test_a_second_process_cannot_have_the_directory_or_the_port(tmp_path: Path):
    async def main():
        async with server(SCRIPT, tmp_path, *OPTIONS) as first:
            same_directory = await asyncio.to_thread(run_with_refused, "--port", 0, "--directory", tmp_path, *OPTIONS)
            port = first.client.base_url.port
            same_port = await asyncio.to_thread(run_with_refused, "--port", port, "--directory", tmp_path / "other")
            return same_directory, same_port

    same_directory, same_port = run_on("asyncio", main())

    assert (same_directory.returncode, same_port.returncode) == (1, 1)
    assert same_directory.stderr == (
        f"--directory: {tmp_path} is in use by another process: give each its own --directory\n"
    )
    assert same_port.stderr.startswith("cannot listen on 127.0.0.1 port ")


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
    print(finished.returncode, finished.stderr.decode().strip())
    print(os.listdir(mounted))
"""
    finished = run_on_small_disk(tmp_path, "64k", [sys.executable, "-c", program, tmp_path, SCRIPT])

    assert finished.stderr == ""
    first, second = (f"1 --directory: {path} cannot be written to: " for path in (tmp_path, tmp_path / "a" / "b"))
    lines = finished.stdout.splitlines()
    assert [lines[0].startswith(first), lines[2].startswith(second)] == [True, True], finished.stdout
    assert "No space left on device" in lines[0]
    assert lines[1] == lines[3] == "['full']"


def leave_descriptors(process: int, count: int) -> None:
    """Let a process open so many files more, and no more."""
    most = len(list(Path(f"/proc/{process}/fd").iterdir())) + count
    resource.prlimit(process, resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets limits of another process, which Linux allows")
def test_where_descriptors_run_out_nobody_gets_a_500_and_what_was_acknowledged_is_kept(tmp_path: Path):
    async def main():
        statuses: Counter[int] = Counter()
        async with server(SCRIPT, tmp_path, *OPTIONS, "--timeout", "2") as first:
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
    assert metrics["failed_snapshots"] > 0
    assert found["learned"] == metrics["learned"]
    assert found["outputs"] == run_on("asyncio", answers(map(random_sequence, range(metrics["learned"]))))[-1]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--timeout", "0"), "--timeout must be above 0, and is 0.0"),
        (("--timeout", "nan"), "--timeout must be above 0, and is nan"),
        (("--port", "65536"), "--port must be at most 65535, and is 65536"),
        (("--max-connections", "0"), "--max-connections must be at least 1, and is 0"),
        (("--max-steps", "0"), "--max-steps must be at least 1, and is 0"),
        (("--hidden", "few"), "--hidden: invalid int value: 'few'"),
    ],
    ids=["timeout", "timeout-nan", "port", "max-connections", "max-steps", "hidden"],
)
def test_the_service_names_the_option_it_cannot_use(arguments: tuple[str, ...], complaint: str):
    finished = run_with_refused(*arguments)

    assert finished.returncode == 2
    assert complaint in finished.stderr


def test_the_service_says_what_to_install(tmp_path: Path):
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError('no starlette here', name='starlette')\n")

    finished = run_with_refused(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))

    assert finished.returncode == 1
    assert "needs starlette, which is not installed: pip install 'asyncgrad[serve]'" in finished.stderr


def test_the_demonstration_shows_what_the_head_promises():
    finished = run_with_refused("--demo", "--seconds", "0.3")

    assert finished.returncode == 0, finished.stderr + finished.stdout
    for line in ("idle ", "while learning ", "steps ", "loop lateness ", "timeout  ", "kill -9 "):
        assert f"\n{line}" in finished.stdout
    assert "504 {'error': 'not learned: not done after " in finished.stdout
    assert finished.stdout.count("same answers as before: True") == 1
    assert finished.stdout.endswith("SIGTERM         ended with status 0\n")
