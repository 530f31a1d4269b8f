"""Whatever is posted, the service answers with a reason, and what it cannot learn changes nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'fastapi'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import asyncio

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.making import QUESTION, new_learner
from tests.learn.real import application
from tests.support.loops import run_on
from tests.support.sampling import cases

numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, 1, -1, 1e6, -1e6, 1e308, 10**400, math.nan, math.inf, True, None, "1", "", [], {}]),
)
#: Anything that JSON can say, and much that looks like an example.
values = st.recursive(numbers, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner))
examples = st.fixed_dictionaries(
    {"x": st.lists(numbers, min_size=2, max_size=2) | values, "y": st.lists(numbers, min_size=1, max_size=1)},
    optional={"z": values},
)
bodies = st.one_of(st.binary(max_size=50), (values | examples).map(lambda value: json.dumps(value).encode()))


@pytest.mark.slow
@settings(max_examples=cases(100))
@given(st.lists(st.tuples(st.sampled_from(["/learn", "/predict"]), bodies), min_size=1, max_size=10))
def test_any_body_gets_an_answer_and_the_model_stays_finite(posts: list[tuple[str, bytes]]) -> None:
    async def main() -> None:
        learner = new_learner()
        app = application(learner, "starlette", asyncio.Event(), max_bytes=2000)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        async with learner, httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            learned = 0
            for path, content in posts:
                answer = await client.post(path, content=content, headers={"content-type": "application/json"})
                found: Any = answer.json()
                assert answer.status_code in (200, 400, 413, 422)
                assert (answer.status_code == 200) is not ("error" in found)
                learned += path == "/learn" and answer.status_code == 200
            assert learner.learned == learned
            assert math.isfinite((await learner.predict(QUESTION)).item())

    run_on("asyncio", main())
