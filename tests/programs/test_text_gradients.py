"""examples/text_gradients.py and its parts, against its stand-in for a language model, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("tenacity", reason="needs tenacity: pip install tenacity")

import httpx
import tenacity

import asyncgrad as ag
from asyncgrad.values import Feedback
from examples import text_gradients
from examples.language_model import client as clients
from examples.language_model.answers import Answer, Answers
from examples.language_model.client import Budget, BudgetSpentError, Model
from examples.language_model.mind import desk
from examples.language_model.stand_in import StandIn
from examples.language_model.together import together
from tests.support.loops import one_loop


@contextlib.asynccontextmanager
async def model_of(transport: Any, *, answers=None, patience=5.0):
    if isinstance(transport, StandIn):
        transport = httpx.ASGITransport(app=transport.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://stand-in/v1", timeout=None) as client:
        yield Model(
            client,
            "stand-in",
            answers=Answers() if answers is None else answers,
            budget=Budget(),
            limit=ag.limit(requests=8),
            timeout=patience,
        )


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Tries follow each other at once where the server does not say otherwise."""
    monkeypatch.setattr(clients, "_GROWING", lambda state: 0.0)


async def never_answered(*arguments: object) -> None:
    """What `Model.ask` raises in the end."""
    raise TimeoutError


def completion(text: str) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"content": text}}], "usage": {"total_tokens": 10}})


def no_network(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"a request was sent: {request.content!r}")


@one_loop
async def test_prompts_get_better_and_a_rewriting_that_makes_them_worse_is_not_kept(capsys):
    async with model_of(StandIn(desk)) as model:
        learned = await text_gradients.optimise(model, 6, 0)
        score = await learned.score()

    shown = capsys.readouterr().out
    assert shown.startswith("before   0.25\n")
    assert "step 2   0.00, which is worse: the prompts stay\n" in shown
    assert "after    1.00\n" in shown
    assert score == 1.0
    assert learned.file.value.startswith(text_gradients.FILE)


@one_loop
async def test_a_server_that_refuses_fails_and_loses_requests_changes_no_result(capsys):
    faulty = StandIn(desk, is_faulty=True, at_once=5)
    async with model_of(StandIn(desk)) as model:
        await text_gradients.optimise(model, 2, 0)
    expected = capsys.readouterr().out

    async with model_of(faulty, patience=0.2) as model:
        await text_gradients.optimise(model, 2, 0)

    assert capsys.readouterr().out == expected
    assert sum(faulty.said[status] for status in (408, 429, 500)) > 3


@one_loop
async def test_a_budget_that_ends_in_the_midst_of_a_backward_leaves_no_gradient_and_loses_no_answer():
    stand_in = StandIn(desk)
    async with model_of(stand_in) as model:
        learned = text_gradients.Desk(model)
        roots, feedback = await learned.critiques()
        model.budget.tokens = model.budget.spent + 1000
        with pytest.raises(BudgetSpentError):
            await ag.backward(roots, feedback, retain_graph="until_success")
        left, asked = [learned.read.grad, learned.file.grad], stand_in.said[200]
        model.budget.tokens = None
        await ag.backward(roots, feedback, retain_graph="until_success")
        grads = [learned.read.grad, learned.file.grad]

    assert left == [None, None]
    assert all(grads)
    assert 0 < asked < stand_in.said[200]
    # Nothing was asked twice: each answer is among those that are kept.
    assert stand_in.said[200] == len(model.answers) == model.sent


@one_loop
async def test_a_run_is_replayed_from_its_file_without_a_network(tmp_path, capsys):
    file = tmp_path / "run.jsonl"
    async with model_of(StandIn(desk, is_faulty=True), answers=Answers(file), patience=0.2) as model:
        await text_gradients.optimise(model, 3, 0)
    recorded = capsys.readouterr().out

    async with model_of(httpx.MockTransport(no_network), answers=Answers(file, replay=True)) as model:
        await text_gradients.optimise(model, 3, 0)

    assert capsys.readouterr().out == recorded
    assert model.sent == 0


async def test_a_request_that_is_not_in_the_file_fails_a_replay(tmp_path):
    file = tmp_path / "run.jsonl"
    Answers(file).keep({"a": 1}, Answer("yes", 3))

    async with model_of(httpx.MockTransport(no_network), answers=Answers(file, replay=True)) as model:
        with pytest.raises(LookupError, match=r"run\.jsonl has no answer to this request: .*why"):
            await model.ask("be brief", "why")


def test_half_a_line_that_a_killed_process_has_left_is_dropped(tmp_path):
    file = tmp_path / "run.jsonl"
    Answers(file).keep({"a": 1}, Answer("yes", 3))
    file.write_text(file.read_text() + '{"request": {"b"')

    Answers(file).keep({"c": 1}, Answer("no", 4))

    found = Answers(file)
    assert len(found) == 2
    assert found.find({"a": 1}) == Answer("yes", 3)
    assert found.find({"c": 1}) == Answer("no", 4)
    assert found.find({"b": 1}) is None


async def test_an_answer_to_a_request_that_was_sent_is_kept_though_its_caller_is_cancelled():
    sent, answers = asyncio.Event(), asyncio.Event()

    async def respond(request: httpx.Request) -> httpx.Response:
        sent.set()
        await answers.wait()
        return completion("late")

    async with model_of(httpx.MockTransport(respond)) as model:
        asked = asyncio.ensure_future(model.ask("be brief", "why"))
        await sent.wait()
        asked.cancel()
        await asyncio.sleep(0)
        answers.set()
        with pytest.raises(asyncio.CancelledError):
            await asked
        again = await model.ask("be brief", "why")

    assert (again, model.sent, model.budget.spent) == ("late", 1, 10)


async def test_a_caller_that_is_cancelled_twice_does_not_wait_for_the_answer():
    sent = asyncio.Event()

    async def respond(request: httpx.Request) -> httpx.Response:
        sent.set()
        return await asyncio.get_running_loop().create_future()

    async with model_of(httpx.MockTransport(respond)) as model:
        asked = asyncio.ensure_future(model.ask("be brief", "why"))
        await sent.wait()
        for _ in range(2):
            asked.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await asked

    assert len(model.answers) == 0


async def test_a_request_that_is_lost_is_sent_again():
    async def respond(request: httpx.Request) -> httpx.Response:
        if model.sent == 1:
            await asyncio.get_running_loop().create_future()
        return completion("found")

    async with model_of(httpx.MockTransport(respond), patience=0.05) as model:
        assert await model.ask("be brief", "why") == "found"
    assert model.sent > 1


async def test_what_two_ask_at_the_same_time_is_sent_once():
    replies = [completion("one"), completion("another")]

    async with model_of(httpx.MockTransport(lambda request: replies.pop())) as model:
        said = await asyncio.gather(*(model.ask("be brief", question) for question in ("why", "why", "how")))

    assert said[0] == said[1] != said[2]
    assert model.sent == 2


@pytest.mark.parametrize(("status", "tries"), [(429, 6), (503, 6), (400, 1), (401, 1)])
async def test_what_may_pass_is_tried_again_and_what_will_not_is_raised_at_once(status, tries):
    asked = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["messages"][1]["content"])
        return httpx.Response(status)

    async with model_of(httpx.MockTransport(respond)) as model:
        with pytest.raises(httpx.HTTPStatusError, match=str(status)):
            await model.ask("be brief", "why")

    assert asked == ["why"] * tries


async def test_the_error_has_what_the_server_says():
    async with model_of(httpx.MockTransport(lambda request: httpx.Response(404, text="no model stand-in"))) as model:
        with pytest.raises(httpx.HTTPStatusError) as raised:
            await model.ask("be brief", "why")

    assert raised.value.__notes__ == ["no model stand-in"]


@pytest.mark.parametrize(
    "body",
    ["<html>", "[]", '{"choices": []}', '{"choices": [{"message": {"content": "yes"}}]}'],
    ids=["no-json", "a-list", "no-choice", "no-usage"],
)
async def test_what_is_no_completion_is_shown(body):
    async with model_of(httpx.MockTransport(lambda request: httpx.Response(200, text=body))) as model:
        with pytest.raises(ValueError, match="must answer with a completion and its usage: ") as raised:
            await model.ask("be brief", "why")

    assert body in str(raised.value)
    assert (model.sent, len(model.answers)) == (1, 0)


def test_an_endpoint_that_refuses_ends_the_program_with_what_it_says(monkeypatch, capsys):
    async def refuse(options, base_url):
        error = httpx.ConnectError("nobody listens")
        error.add_note("in CallBackward")
        raise error

    monkeypatch.setattr(text_gradients, "run", refuse)

    assert text_gradients.main(["--model", "m", "--base-url", "http://localhost:1/v1"]) == 1
    assert capsys.readouterr().err == "http://localhost:1/v1: nobody listens\nin CallBackward\n"


async def test_calls_that_wait_together_are_cancelled_and_have_ended_if_one_fails():
    ended = []

    async def wait():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("wait")

    async def fail():
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError, match="no answer"):
        await together([wait(), fail()])

    assert ended == ["wait"]


@pytest.mark.parametrize(
    ("header", "seconds"), [({"Retry-After": "7"}, 7.0), ({"Retry-After": "soon"}, 0.0), ({}, 0.0)]
)
def test_the_next_try_is_when_the_server_says(header, seconds):
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    response = httpx.Response(429, headers=header)
    error = httpx.HTTPStatusError("refused", request=httpx.Request("POST", "http://x"), response=response)
    state.set_exception((type(error), error, None))

    assert clients.pause(state) == seconds


async def test_if_one_rewriting_fails_every_prompt_stays_and_so_do_the_gradients():
    def respond(request: httpx.Request) -> httpx.Response:
        text = json.loads(request.content)["messages"][1]["content"]
        return httpx.Response(400) if "wrong" in text else completion("better")

    async with model_of(httpx.MockTransport(respond)) as model:
        type_ = text_gradients.text_type(model)
        prompts = [ag.leaf(text, type=type_) for text in ("good", "wrong")]
        for prompt in prompts:
            prompt.grad = (Feedback("be brief"),)
        rewriter = text_gradients.Rewriter(model, prompts, score=lambda: pytest.fail("there is nothing to score"))
        with pytest.raises(httpx.HTTPStatusError):
            await rewriter.step()

    assert [prompt.value for prompt in prompts] == ["good", "wrong"]
    assert all(prompt.grad for prompt in prompts)


async def test_a_score_that_fails_puts_every_prompt_back():
    async def score() -> float:
        assert prompt.value == "better"
        raise ConnectionError("no score")

    async with model_of(httpx.MockTransport(lambda request: completion("better"))) as model:
        prompt = ag.leaf("good", type=text_gradients.text_type(model))
        prompt.grad = (Feedback("be brief"),)
        with pytest.raises(ConnectionError):
            await text_gradients.Rewriter(model, [prompt], score).step()

    assert (prompt.value, prompt.grad) == ("good", (Feedback("be brief"),))


async def test_critiques_are_merged_in_the_order_of_their_sources_whichever_comes_first():
    asked = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["messages"][1]["content"])
        return completion("both\n\n of them\n")

    async with model_of(httpx.MockTransport(respond)) as model:
        critiques = [(Feedback("be brief", "a"),), (Feedback("be kind", "b"), Feedback("be brief", "a"))]
        merge = text_gradients.text_type(model).merge
        merged = [await merge(critiques), await merge(critiques[::-1])]
        alone = await merge([critiques[0], critiques[0]])

    assert asked == ["<critiques>\nbe brief\nbe kind\n</critiques>"]
    assert merged == [(Feedback("both", "merged"), Feedback("of them", "merged"))] * 2
    assert alone == (Feedback("be brief", "a"),)


async def test_the_stand_in_refuses_more_requests_than_it_takes_in_a_second():
    now = [0.0]
    stand_in = StandIn(desk, per_second=2, retry_after=3, clock=lambda: now[0])
    message = {"messages": [{"content": "Say what the customer wants."}, {"content": "Can you repair it?"}]}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=stand_in.app), base_url="http://x/v1") as client:
        replies = [await client.post("chat/completions", json=message) for _ in range(3)]
        now[0] = 1.0
        replies.append(await client.post("chat/completions", json=message))

    assert [reply.status_code for reply in replies] == [200, 200, 429, 200]
    assert replies[2].headers["Retry-After"] == "3"
    assert replies[0].json()["choices"][0]["message"]["content"] == "repair"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "--model must name"),
        ("--stand-in --replay", "--replay takes all answers"),
        ("--stand-in --replay --answers nowhere.jsonl", "--replay finds no file nowhere.jsonl"),
        ("--stand-in --budget 9 --top-up -9", "--top-up must be at least 0, not -9"),
        ("--stand-in --at-once 0", "--at-once must be at least 1, not 0"),
        ("--stand-in --timeout 0", "--timeout must be more than 0 seconds, not 0"),
        ("--stand-in --timeout nan", "--timeout must be more than 0 seconds, not nan"),
        ("--stand-in --answers nowhere/run.jsonl", "--answers must be a file in a folder that is there, not nowhere"),
        ("--stand-in --base-url http://x", "--stand-in starts a server of its own: leave out --base-url"),
    ],
)
def test_the_program_names_the_option_that_is_wrong(arguments, said, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        text_gradients.main(arguments.split())

    assert raised.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "said"),
    [("{bad\n", "line 1 of run.jsonl is no answer"), ("", "Replay with the model and the options with which")],
)
def test_the_program_says_what_is_wrong_with_the_file_of_answers(lines, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.jsonl").write_text(lines)

    assert text_gradients.main(["--model", "x", "--replay", "--answers", "run.jsonl"]) == 1
    assert said in capsys.readouterr().err


def test_the_program_says_of_an_endpoint_that_never_answers_how_long_it_has_waited(capsys, monkeypatch):
    monkeypatch.setattr(text_gradients, "optimise", never_answered)

    assert text_gradients.main(["--model", "x", "--base-url", "http://x", "--timeout", "2"]) == 1
    assert "http://x: no answer in 2 s, each time: see --timeout" in capsys.readouterr().err
