"""docs/deployment.md, done as it says: its files are written, its commands run, and its units read."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from asyncgrad.learn import http
from tests.learn.crashing import crash
from tests.learn.making import example, new_learner
from tests.learn.test_followers import follower_of
from tests.support.house import ROOT
from tests.support.listeners import new_listener
from tests.support.loops import one_loop

PAGE = (ROOT / "docs" / "deployment.md").read_text()
#: What the page has somebody save, by the name of the file.
FILES = dict(re.findall(r"^`([\w.@]+)`[^\n]*:\n\n```\w+\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
BODY = {"x": [1, 2, 3, 4], "y": [1]}
QUESTION = [1, 2, 3, 4]


def command(of: str, listener: socket.socket) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the variables of the first command of the page that runs a service, on a socket."""
    line = next(line for block in COMMANDS for line in block.splitlines() if f"{of}:app" in line)
    words = shlex.split(line)
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    rest = words[len(variables) + 1 :]
    at = rest.index("--port")
    rest[at : at + 2] = ["--fd", str(listener.fileno())]
    return [sys.executable, "-m", "uvicorn", *rest, "--log-level", "warning"], variables


@contextlib.asynccontextmanager
async def running(of: str, path: Path, listener: socket.socket, **variables: str) -> AsyncIterator[Process]:
    """Run a service of the page in a folder; kill it at the end of the block if it runs still."""
    given, own = command(of, listener)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **own, **variables}
    process = await asyncio.create_subprocess_exec(
        *given, cwd=path, env=environment, pass_fds=[listener.fileno()], start_new_session=True
    )
    try:
        yield process
    finally:
        # uvicorn's workers, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@contextlib.asynccontextmanager
async def client_of(listener: socket.socket) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False) as client:
        yield client


async def predictions_after(client: httpx.AsyncClient, *before: Any) -> Any:
    """Return what is predicted once that is none of what was before.

    Each of the predictors reads what is new in its own time: one that answers has said nothing of the others.
    """
    while True:
        # A connection of its own each time: any of the predictors.
        answer = (await client.post("/predict", json=QUESTION, headers={"connection": "close"})).json()
        if answer not in before:
            return answer


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """Return a folder with the files of the page."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
@one_loop
async def test_the_services_of_the_page_learn_predict_and_lose_nothing(service):
    learners, predictors = new_listener(), new_listener()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(learners)
        stack.enter_context(predictors)
        teach, ask = [await stack.enter_async_context(client_of(one)) for one in (learners, predictors)]
        learner = await stack.enter_async_context(running("learner_service", service, learners))
        assert (await teach.get("/health/ready")).json() == {"ready": True, "learned": 0}
        predictor = await stack.enter_async_context(running("predictor", service, predictors))
        before = (await ask.post("/predict", json=QUESTION)).json()
        assert (await teach.post("/learn", json=BODY)).json()[1] == 1
        after = await predictions_after(ask, before)
        assert (await ask.get("/health/ready")).json()["ready"]
        learner.kill()
        await learner.wait()
        alone = await predictions_after(ask, before)
        # The socket is there still, so a client waits for the next learner.
        waiting = asyncio.create_task(teach.post("/learn", json=BODY))
        again = await stack.enter_async_context(running("learner_service", service, learners))
        assert (await waiting).json()[1] == 2
        last = await predictions_after(ask, before, after)
        under_way = [asyncio.create_task(teach.post("/learn", json=BODY)) for _ in range(20)]
        await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        for process in (again, predictor):
            process.terminate()
            # Once it has ended what it must, uvicorn raises the signal again, but where it runs workers.
            assert await process.wait() in (0, -signal.SIGTERM)
        in_order = (service / "model" / "journal").stat().st_size
        await stack.enter_async_context(running("learner_service", service, learners))
        answers = await asyncio.gather(*under_way, return_exceptions=True)
        learned = [answer.json()[1] for answer in answers if isinstance(answer, httpx.Response)]
        found = (await teach.get("/health/ready")).json()["learned"]

    assert before != after == alone != last
    assert in_order == 0
    assert all(isinstance(answer, (httpx.Response, httpx.TransportError)) for answer in answers)
    assert learned
    assert len(learned) == len(set(learned))
    assert max(learned) <= found <= 2 + len(under_way)


@pytest.mark.slow
@one_loop
async def test_predictors_of_the_page_follow_a_url_with_the_key(service):
    learners, predictors = new_listener(), new_listener()
    key = "a key of the followers"
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(learners)
        stack.enter_context(predictors)
        teach, ask = [await stack.enter_async_context(client_of(one)) for one in (learners, predictors)]
        await stack.enter_async_context(running("learner_service", service, learners, JOURNAL_KEY=key))
        assert (await teach.get("/journal/lines")).status_code == 401
        url = f"{teach.base_url}/journal"
        await stack.enter_async_context(running("predictor", service, predictors, JOURNAL_KEY=key, MODEL=url))
        before = (await ask.post("/predict", json=QUESTION)).json()
        assert (await teach.post("/learn", json=BODY)).json()[1] == 1
        after = await predictions_after(ask, before)

    assert before != after


@pytest.mark.slow
@one_loop
async def test_the_backup_of_the_page_is_whole_while_examples_are_learned(service):
    listener = new_listener()
    (service / "backup").mkdir()
    backup = next(block for block in COMMANDS if "backup" in block)
    with listener:
        async with client_of(listener) as client:
            async with running("learner_service", service, listener):
                for _ in range(5):
                    known = (await client.post("/learn", json=BODY)).json()[1]
                teaching = [asyncio.create_task(client.post("/learn", json=BODY)) for _ in range(20)]
                copying = await asyncio.create_subprocess_shell(backup, cwd=service)
                assert await copying.wait() == 0
                await asyncio.gather(*teaching)
            async with running("learner_service", service, listener, MODEL="backup"):
                found = (await client.get("/health/ready")).json()

    assert found["ready"]
    assert known <= found["learned"] <= 25


async def test_a_follower_is_promoted_by_the_route_of_the_page(tmp_path):
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "async def promote" in one]
    learner = new_learner(tmp_path)
    await learner.__aenter__()
    await learner.learn(example(0))
    follower = follower_of(tmp_path)
    names: dict[str, Any] = {"follower": follower, "http": http, "JSONResponse": JSONResponse}
    exec(block, names)  # noqa: S102  # the page's own code
    routes = [Route(f"/{name}", names[name], methods=["POST"]) for name in ("promote", "learn_one")]
    app = Starlette(routes=routes, exception_handlers=http.exception_handlers())
    body = {name: each.tolist() for name, each in example(1).items()}
    async with follower, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        before = (await client.post("/learn_one", json=body)).status_code
        await crash(learner)
        promoted = (await client.post("/promote")).json()
        after = (await client.post("/learn_one", json=body)).json()

    assert before == 503
    assert promoted == {"learned": 1}
    assert after[1] == 2


def test_units_and_probes_of_the_page_name_what_is_there(service):
    units = {name: configparser.ConfigParser(strict=False) for name in FILES if name.endswith((".service", ".socket"))}
    for name, unit in units.items():
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(FILES[name])
    started = {name: unit["Service"]["ExecStart"] for name, unit in units.items() if name.endswith(".service")}
    learner = re.search(r"uvicorn (\w+):app .* --http (\w+):connections", started["learner.service"])
    probes = set(re.findall(r"Probe: \{httpGet: \{path: (\S+),", FILES["probes.yaml"]))

    assert set(units) == {"learner.socket", "learner.service", "predictor@.service"}
    assert learner is not None
    assert learner.groups() == ("learner_service", "learner_service")
    assert started["predictor@.service"].endswith("/python predictor.py")
    assert {"learner_service.py", "predictor.py", "parts.py"} <= set(FILES)
    assert probes == {"/health/live", "/health/ready"}
    assert "health_app" in http.__all__
    copied = re.search(r"COPY (.*) \./", FILES["Dockerfile"])
    assert copied is not None
    assert all((service / name).exists() for name in copied[1].split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, which is not installed")
def test_systemd_understands_the_units_of_the_page(service):
    for name in ("learner.service", "predictor@.service"):
        # What the page's user installs is not here.
        text = re.sub(r"/opt/service/.venv/bin/\w+", sys.executable, (service / name).read_text())
        (service / name).write_text(text.replace("User=model", "User=root"))
    (service / "predictor@.service").rename(service / "predictor@1.service")
    names = ["learner.socket", "learner.service", "predictor@1.service"]
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        cwd=service,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{service}:"},
        capture_output=True,
        text=True,
        check=False,
    )

    own = [line for line in found.stderr.splitlines() if any(name in line for name in names)]
    assert own == []
