"""The services of docs/serving.md, run as they are printed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install 'asyncgrad[metrics]'")

import httpx
import prometheus_client
import uvicorn

from asyncgrad.learn import LatencyHistogram, prometheus_collector
from asyncgrad.learn.http import connections
from tests.learn.making import example, new_learner
from tests.support.house import ROOT

STARLETTE, FASTAPI, HOSTS, METRICS, LIVE = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "serving.md").read_text(), flags=re.DOTALL
)


SERVICES = pytest.mark.parametrize("blocks", [[STARLETTE], [STARLETTE, FASTAPI]], ids=["starlette", "fastapi"])


def names_of(*blocks: str) -> dict[str, Any]:
    """Return what is there after the blocks have run, as a module that is imported."""
    names: dict[str, Any] = {"__name__": "service"}
    for block in blocks:
        exec(compile(block, "service.py", "exec", dont_inherit=True), names)  # noqa: S102  # the page's own code
    return names


@SERVICES
async def test_a_service_of_the_page_learns_predicts_and_tells_its_metrics(tmp_path, monkeypatch, blocks):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prometheus_client, "REGISTRY", prometheus_client.CollectorRegistry())
    monkeypatch.setattr(
        prometheus_client.exposition, "REGISTRY", prometheus_client.REGISTRY, raising=True
    )  # the default of make_asgi_app
    names = names_of(*blocks, METRICS)

    app, learner = names["app"], names["learner"]
    transport = httpx.ASGITransport(app=app)
    async with learner, httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        before = (await client.post("/predict", json=[1, 2, 3, 4])).json()
        learned = await client.post("/learn", json={"x": [1, 2, 3, 4], "y": [1]})
        after = (await client.post("/predict", json=[1, 2, 3, 4])).json()
        wrong = await client.post("/learn", json={"x": [1, 2, 3], "y": [1]})
        found = np.shape(before), learned.json()[1], before != after, wrong.status_code, wrong.json()

    assert found == ((1,), 1, True, 422, {"error": "example.x must have shape (4,), and has (3,)"})
    assert (tmp_path / "model" / "checkpoint.npz").exists()
    text = prometheus_client.generate_latest(prometheus_client.REGISTRY).decode()
    assert "asyncgrad_learner_learned_total 1.0" in text


@SERVICES
async def test_a_service_of_the_page_answers_to_the_names_that_it_is_given_alone(tmp_path, monkeypatch, blocks):
    monkeypatch.chdir(tmp_path)
    names = names_of(*blocks, HOSTS)

    transport = httpx.ASGITransport(app=names["app"])
    async with names["learner"], httpx.AsyncClient(transport=transport) as client:
        hosts = ["localhost", "localhost:8000", "127.0.0.1:8000", "rebound.example:8000", "localhost.example"]
        asked = [client.post(f"http://{host}/predict", json=[1, 2, 3, 4]) for host in hosts]
        found = [(await one).status_code for one in asked]

    assert found == [200, 200, 200, 400, 400]


@pytest.mark.parametrize("block", [STARLETTE, FASTAPI], ids=["starlette", "fastapi"])
def test_a_service_of_the_page_is_served_with_limits_on_slow_clients(tmp_path, monkeypatch, block):
    monkeypatch.chdir(tmp_path)
    served = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: served.append((app, options["http"].__name__)))
    names = names_of(STARLETTE)
    names["__name__"] = "__main__"

    exec(compile(block, "service.py", "exec", dont_inherit=True), names)  # noqa: S102  # the page's own code

    assert served == [(names["app"], connections().__name__)]


def test_the_first_service_of_the_page_has_as_many_lines_as_it_says():
    lines = [line for line in STARLETTE.splitlines() if line.strip()]

    assert len(lines) <= 20


@SERVICES
async def test_a_service_of_the_page_shows_its_live_page_to_this_machine(tmp_path, monkeypatch, blocks):
    monkeypatch.chdir(tmp_path)
    names = names_of(*blocks, LIVE)

    found = []
    for client in ("127.0.0.1", "10.0.0.7"):
        transport = httpx.ASGITransport(app=names["app"], client=(client, 123))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as asking:
            answer = await asking.get("/live/")
            found.append((answer.status_code, answer.headers["content-type"].partition(";")[0]))

    assert found == [(200, "text/html"), (403, "text/plain")]


async def test_a_collector_has_each_number_of_the_statistics():
    registry = prometheus_client.CollectorRegistry()
    async with new_learner() as learner:
        registry.register(prometheus_collector(learner, prefix="mine"))
        await learner.learn(example(1))
        value = registry.get_sample_value
        found = [value(f"mine_{name}") for name in ("learned_total", "pending", "journal_records", "can_learn")]

    assert found == [1.0, 0.0, 0.0, 1.0]


async def test_each_metric_says_what_it_is_and_latencies_are_histograms():
    registry = prometheus_client.CollectorRegistry()
    async with new_learner() as learner:
        registry.register(prometheus_collector(learner))
        for number in range(3):
            await learner.learn(example(number))
        await learner.predict(example(1)["x"])
    texts = {metric.name: metric.documentation for metric in registry.collect()}
    value: Any = registry.get_sample_value

    assert all(text.endswith(".") and len(text.split()) >= 4 for text in texts.values())
    assert len(set(texts.values())) == len(texts) >= 25
    for name, count in (("learn", 3.0), ("predict", 1.0), ("step", 3.0)):
        metric = f"asyncgrad_learner_{name}_seconds"
        assert value(f"{metric}_count") == value(f"{metric}_bucket", {"le": "+Inf"}) == count
        assert value(f"{metric}_bucket", {"le": "0.001"}) <= value(f"{metric}_bucket", {"le": "60.0"}) == count
        assert 0 < value(f"{metric}_sum") < 60


def test_a_histogram_counts_each_duration_in_its_range():
    histogram = LatencyHistogram()
    assert np.isnan(histogram.quantile(0.5))
    for seconds in (0.0, 0.001, 0.0011, 0.07, 100.0):
        histogram.add(seconds)

    counts = dict(histogram.cumulative())
    assert (counts[0.001], counts[0.0025], counts[0.1], counts[60.0], counts[float("inf")]) == (2, 3, 4, 4, 5)
    assert (histogram.quantile(0.2), histogram.quantile(0.5), histogram.quantile(1.0)) == (0.001, 0.0025, float("inf"))
