"""The service on a real socket, asked by a real client on the same event loop, so that the order of events is known."""

from __future__ import annotations

import asyncio
import errno
import json
import os

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'asyncgrad[serve]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'asyncgrad[serve]'")
pytest.importorskip("httpx", reason="needs httpx: pip install 'asyncgrad[serve]'")

import httpx

from examples.serving.checking import Limits
from examples.serving.journal import Directory
from tests.serving.making import (
    LONG,
    QUESTION,
    answers,
    failing_disk,
    fields,
    opened_learner,
    random_sequence,
    turns_until,
)
from tests.serving.real import serving

ASK = {"inputs": QUESTION.tolist()}
LATE = "not done after {} s, and cancelled"


async def predicted(client):
    answer = await client.post("/predict", json=ASK)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_prediction_is_answered_while_a_backward_is_under_way(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, learner, _):
            before = await predicted(client)
            learning = asyncio.create_task(client.post("/learn", json=fields(random_sequence(1, LONG))))
            await turns_until(lambda: learner.stage == "backward")
            during = []
            while True:
                answer = await predicted(client)
                if learner.stage != "backward":
                    break
                during.append(answer)
            assert (await learning).json()["learned"] == 1
            return before, during, await predicted(client)

    before, during, after = run(main())

    assert during
    assert all(answer == before for answer in during)
    assert (before["learned"], after["learned"]) == (0, 1)
    assert after["outputs"] != before["outputs"]


def test_learners_at_once_make_one_model_and_every_prediction_is_of_one_set_of_weights(run, tmp_path):
    sequences = [random_sequence(seed) for seed in range(12)]
    question = random_sequence(1000, LONG).inputs  # so long that steps are made while it is computed

    async def main():
        async with serving(tmp_path) as (client, learner, _):
            seen = []

            async def learn(sequence):
                answer = await client.post("/learn", json=fields(sequence))
                return answer.json()["learned"]

            async def ask():
                while learner.learned < len(sequences):
                    seen.append((await client.post("/predict", json={"inputs": question.tolist()})).json())

            *numbers, _, _ = await asyncio.gather(*map(learn, sequences), ask(), ask())
            return numbers, seen

    numbers, seen = run(main())
    in_order = [sequence for _, sequence in sorted(zip(numbers, sequences, strict=True), key=lambda pair: pair[0])]

    assert sorted(numbers) == list(range(1, 13))
    expected = run(answers(in_order, question))
    assert len({answer["learned"] for answer in seen}) > 1
    assert all(answer["outputs"] == expected[answer["learned"]] for answer in seen)


def test_a_timeout_cancels_the_backward_and_leaves_the_model_as_it_was(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, learner, _):
            await client.post("/learn", json=fields(random_sequence(1)))
            before = await predicted(client)
            weights, had = learner.network.weights, []

            async def forever(weight):
                had.append(weight.grad is not None)
                await asyncio.Event().wait()

            handle = weights.leave.register_post_accumulate_grad_hook(forever)
            answer = await client.post("/learn", json={**fields(random_sequence(2)), "timeout": 0.5})
            handle.remove()
            assert (answer.status_code, answer.json()["error"]) == (504, f"not learned: {LATE.format(0.5)}")
            assert had == [True]
            assert all(weight.grad is None for weight in weights)
            assert (learner.counts["ended_in_backward"], learner.counts["timed_out"]) == (1, 1)
            assert learner.directory.records == 1
            assert await predicted(client) == before
            assert (await client.post("/learn", json=fields(random_sequence(3)))).json()["learned"] == 2
            return await predicted(client)

    # The optimizer's state is as it was, too.
    assert run(main())["outputs"] == run(answers([random_sequence(1), random_sequence(3)]))[-1]


@pytest.mark.parametrize(("steps", "seconds"), [(1, 1e-9), (400, 0.001), (LONG, 0.02)])
def test_a_timeout_holds_however_short_it_is(run, tmp_path, steps, seconds):
    async def main():
        async with serving(tmp_path) as (client, learner, _):
            answer = await client.post("/learn", json={**fields(random_sequence(1, steps)), "timeout": seconds})
            return answer.status_code, learner.learned, learner.directory.records

    assert run(main()) == (504, 0, 0)


def test_the_timeout_holds_while_waiting_for_the_turn(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, learner, _):
            first = asyncio.create_task(client.post("/learn", json=fields(random_sequence(1, LONG))))
            await turns_until(lambda: learner.stage == "forward")
            second = await client.post("/learn", json={**fields(random_sequence(2)), "timeout": 0.001})
            assert second.status_code == 504
            assert not first.done()
            assert (await first).json()["learned"] == 1
            assert learner.waiting == 0
            return await predicted(client)

    assert run(main())["outputs"] == run(answers([random_sequence(1, LONG)]))[-1]


def test_a_client_that_hangs_up_cancels_its_backward(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, learner, _):
            async with httpx.AsyncClient(base_url=client.base_url, trust_env=False) as other:
                learning = asyncio.create_task(other.post("/learn", json=fields(random_sequence(1, LONG))))
                await turns_until(lambda: learner.stage == "backward")
                learning.cancel()
                await asyncio.wait([learning])
            await turns_until(lambda: learner.counts["abandoned"] == 1)
            assert (learner.counts["ended_in_backward"], learner.waiting, learner.learned) == (1, 0, 0)
            await client.post("/learn", json=fields(random_sequence(2)))
            return await predicted(client)

    assert run(main())["outputs"] == run(answers([random_sequence(2)]))[-1]


def test_no_more_wait_than_may(run, tmp_path):
    async def main():
        async with serving(tmp_path, most_waiting=1) as (client, learner, _):
            first = asyncio.create_task(client.post("/learn", json=fields(random_sequence(1, LONG))))
            await turns_until(lambda: learner.waiting == 1)
            second = await client.post("/learn", json=fields(random_sequence(2)))
            assert (await first).status_code == 200
            return second, learner.learned

    second, learned = run(main())

    assert (second.status_code, second.headers["retry-after"], learned) == (429, "1", 1)
    assert second.json() == {"error": "not learned: 1 sequences wait to be learned already, and no more may"}


def test_a_journal_that_fails_is_told_and_the_rest_goes_on(run, tmp_path, monkeypatch):
    async def main():
        async with serving(tmp_path) as (client, _, _):
            with monkeypatch.context() as patch:
                failing_disk(patch, times=2)
                refused = await client.post("/learn", json=fields(random_sequence(1)))
            assert refused.status_code == 503
            assert "the disk is out of order" in refused.json()["error"]
            assert (await predicted(client))["learned"] == 0
            health = await client.get("/health")
            assert health.status_code == 503
            assert health.json()["status"].startswith("only predicts, for the journal failed")
            assert (await client.get("/metrics")).json()["unwritten"] == 1

    run(main())


def test_what_is_under_way_at_the_end_is_still_answered_and_saved(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, learner, server):
            learning = asyncio.create_task(client.post("/learn", json=fields(random_sequence(1, LONG))))
            await turns_until(lambda: learner.stage == "backward")
            server.should_exit = True
            assert (await learning).json()["learned"] == 1
        assert (tmp_path / "journal").read_bytes() == b""
        Directory(tmp_path).close()  # nobody holds it any more
        learner = await opened_learner(tmp_path)
        learner.directory.close()
        return learner.learned, learner.replayed

    assert run(main()) == (1, 0)


def test_metrics_count_what_happened(run, tmp_path):
    async def main():
        async with serving(tmp_path, snapshot_every=2) as (client, learner, _):
            for seed in range(3):
                await client.post("/learn", json=fields(random_sequence(seed)))
            await learner._snapshot
            await predicted(client)
            await client.post("/predict", content=b"{")
            assert (await client.get("/health")).json() == {"status": "ok", "learned": 3}
            return (await client.get("/metrics")).json()

    metrics = run(main())
    late = metrics.pop("loop_lateness_ms")

    assert late["p50"] <= late["p99"] <= late["max"]
    assert metrics == {
        **dict.fromkeys(("replayed", "torn_bytes", "timed_out", "abandoned", "turned_away", "unwritten", "waiting"), 0),
        **dict.fromkeys(("predicted", "refused", "snapshots"), 1),
        **dict.fromkeys(("learned", "learned_since_start"), 3),
        "failed_snapshots": 0,
        "journal_records": metrics["journal_records"],
        "stage": None,
        "ended_in": {"forward": 0, "backward": 0},
    }
    assert metrics["journal_records"] in (0, 1)  # the third came before the snapshot or after it


ROWS = "an array of rows of 2 numbers, one for each time step"
BAD = {
    "no JSON": (b"{", 400, "the body is not JSON: Expecting property name"),
    "nothing": (b"", 400, "the body is not JSON: Expecting value"),
    "no text": (b"\xff\xfe\xfa", 400, "the body is not JSON: "),
    "deep": (b"[" * 100_000, 400, "the body is not JSON: it is nested too deeply"),
    "digits": (b'{"inputs": [[1, %s]]}' % (b"1" * 5000), 400, "the body is not JSON: "),
    "an array": (b"[]", 422, "the body must be a JSON object with inputs and targets, and is an array"),
    "null": (b"null", 422, "the body must be a JSON object with inputs and targets, and is null"),
    "no targets": ({"inputs": [[1, 2]]}, 422, "targets is missing: "),
    "unknown": ({"inputs": [[1, 2]], "targets": [[1]], "lr": 1}, 422, "there is no field 'lr', only inputs, targets, "),
    "a string": ({"inputs": "12", "targets": [[1]]}, 422, f"inputs must be {ROWS}, and is a string"),
    "empty": ({"inputs": [], "targets": []}, 422, f"inputs must be {ROWS}, and is an empty array"),
    "flat": ({"inputs": [1, 2], "targets": [[1]]}, 422, "inputs[0] must be an array of 2 numbers, and is a number"),
    "wide": ({"inputs": [[1, 2, 3]], "targets": [[1]]}, 422, "inputs[0] must be an array of 2 numbers, and is an arr"),
    "ragged": ({"inputs": [[1, 2], [1]], "targets": [[1], [1]]}, 422, "inputs[1] must be an array of 2 numbers, and "),
    "digits in a string": ({"inputs": [[1, "2"]], "targets": [[1]]}, 422, "inputs[0][1] must be a number, and is a s"),
    "true": ({"inputs": [[1, True]], "targets": [[1]]}, 422, "inputs[0][1] must be a number, and is true"),
    "null in a row": ({"inputs": [[1, None]], "targets": [[1]]}, 422, "inputs[0][1] must be a number, and is null"),
    "NaN": (b'{"inputs": [[1, NaN]], "targets": [[1]]}', 422, "inputs[0][1] must lie within ±1e+06, and is NaN"),
    "infinite": (b'{"inputs": [[1, 1e999]], "targets": [[1]]}', 422, "inputs[0][1] must lie within ±1e+06, and is Inf"),
    "huge": ({"inputs": [[1, 2]], "targets": [[10**400]]}, 422, "targets[0][0] must lie within ±1e+06, and is an int"),
    "lengths": ({"inputs": [[1, 2]] * 2, "targets": [[1]]}, 422, "inputs has 2 rows and targets 1: each time step nee"),
    "too many": ({"inputs": [[1, 2]] * 6, "targets": [[1]] * 6}, 422, "inputs has 6 rows, and at most 5 are taken at"),
    "too long": (b" " * 200_001, 413, "the body is longer than 200000 bytes"),
    "no timeout": ({"inputs": [[1, 2]], "targets": [[1]], "timeout": 0}, 422, "timeout must be a number of seconds ab"),
    "long timeout": ({"inputs": [[1, 2]], "targets": [[1]], "timeout": 31}, 422, "timeout must be a number of seconds"),
    "soon": ({"inputs": [[1, 2]], "targets": [[1]], "timeout": "soon"}, 422, "timeout must be a number of seconds abo"),
}


def test_what_is_wrong_with_a_body_is_told_and_changes_nothing(run, tmp_path):
    async def main():
        async with serving(tmp_path, Limits(200_000, 5, 30.0)) as (client, learner, _):
            for which, (body, status, text) in BAD.items():
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await client.post("/learn", content=content)
                assert (answer.status_code, which) == (status, which), answer.text
                assert text in answer.json()["error"], which
            assert (learner.learned, learner.directory.records) == (0, 0)
            assert (await client.get("/metrics")).json()["refused"] == len(BAD)

    run(main())


def test_other_paths_and_methods_are_told_in_json_too(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, _, _):
            found = [await client.get("/nothing"), await client.get("/learn"), await client.post("/health")]
            return [(answer.status_code, answer.json()) for answer in found]

    assert run(main()) == [
        (404, {"error": "Not Found"}),
        (405, {"error": "Method Not Allowed"}),
        (405, {"error": "Method Not Allowed"}),
    ]


def test_a_body_that_does_not_arrive_is_not_waited_for(run, tmp_path):
    async def main():
        async with serving(tmp_path, Limits(1000, 5, 0.05)) as (client, _, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            writer.write(b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert run(main()).startswith(b"HTTP/1.1 408 ")


def test_a_body_in_chunks_is_held_to_the_limit_too(run, tmp_path):
    async def chunks():
        for _ in range(30):
            yield b" " * 100

    async def main():
        async with serving(tmp_path, Limits(1000, 5, 30.0)) as (client, _, _):
            return (await client.post("/predict", content=chunks())).status_code

    assert run(main()) == 413


def test_predictions_are_numbers_for_each_time_step(run, tmp_path):
    async def main():
        async with serving(tmp_path) as (client, _, _):
            return await predicted(client)

    assert np.shape(run(main())["outputs"]) == (len(QUESTION), 1)


@pytest.mark.parametrize(("number", "status"), [(errno.EMFILE, 503), (errno.ENFILE, 503), (errno.EIO, 500)])
def test_a_want_of_descriptors_is_told_and_other_errors_are_the_services_own(run, tmp_path, caplog, number, status):
    async def main():
        async with serving(tmp_path) as (client, learner, _):

            async def fails(inputs):
                raise OSError(number, os.strerror(number))

            learner.predict = fails
            return await client.post("/predict", json=ASK)

    answer = run(main())

    assert answer.status_code == status
    assert ("short of descriptors" in answer.json()["error"]) is (status == 503)
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
