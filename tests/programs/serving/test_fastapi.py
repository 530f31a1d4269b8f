"""The service with FastAPI, asked by a client in its own process."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

from examples import serve_with_fastapi


async def test_the_service_with_fastapi_predicts_and_learns(tmp_path, monkeypatch):
    learner = serve_with_fastapi.new_learner(tmp_path)
    monkeypatch.setattr(serve_with_fastapi, "learner", learner)
    app = serve_with_fastapi.app

    transport = httpx.ASGITransport(app=app)
    async with learner, httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        inputs = {"inputs": [[0.1, 0.2], [0.3, 0.4]]}
        before = (await client.post("/predict", json=inputs)).json()
        learned = await client.post("/learn", json={**inputs, "targets": [[0.5], [0.6]]})
        after = (await client.post("/predict", json=inputs)).json()
        wrong = await client.post("/learn", json={**inputs, "targets": [[0.5]]})
        found = before, learned.json()["learned"], after, wrong
    before, learned, after, wrong = found

    assert learned == 1
    assert before != after
    assert wrong.status_code == 422
    assert wrong.json() == {"error": "inputs has 2 rows and targets 1: each time step needs both"}
