"""A stand-in for a language model: a server that needs no network, with latency, limits and errors.

It obeys a few words in an instruction, and knows what to say of one that lacks them. That is enough for prompts to get
better by its critiques. It sees the texts of requests, and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

#: Answers an instruction and a text.
Mind = Callable[[str, str], str]


@final
class StandIn:
    """The server, an application of ASGI under `app`. Which requests fail depends on their texts, and not on the time.

    Args:
        mind: what answers.
        latency: the seconds that an answer takes.
        at_once: how many requests it answers at a time; it refuses more.
        per_second: how many it answers in any second; it refuses more.
        is_faulty: whether one request of five is refused, lost or fails when it comes first.
        retry_after: the seconds that it tells whom it refuses.
        clock: tells the seconds.
    """

    def __init__(
        self,
        mind: Mind,
        *,
        latency: float = 0.0,
        at_once: int = 1000,
        per_second: int = 1000,
        is_faulty: bool = False,
        retry_after: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mind, self.latency, self.at_once, self.is_faulty = mind, latency, at_once, is_faulty
        self.retry_after, self.clock = retry_after, clock
        self._starts: deque[float] = deque(maxlen=per_second)
        #: How many requests it answers now, and how often it has said what.
        self.open = 0
        self.said: Counter[int] = Counter()
        self._came: Counter[bytes] = Counter()
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._respond, methods=["POST"])])

    async def _respond(self, request: Request) -> Response:
        body = await request.body()
        status = 429 if self._is_too_much() else self._fault(body)
        self.said[status] += 1
        if status == 200:
            self._starts.append(self.clock())
            self.open += 1
            try:
                await asyncio.sleep(self.latency)
            finally:
                self.open -= 1
        elif status == 408:  # there is no answer, until the client goes
            while (await request.receive())["type"] != "http.disconnect":
                pass
        if status != 200:
            headers = {"Retry-After": str(self.retry_after)} if status == 429 else {}
            return JSONResponse({"error": {"message": f"try again: {status}"}}, status, headers)
        return JSONResponse(self._completion(json.loads(body)["messages"]))

    def _is_too_much(self) -> bool:
        is_full = len(self._starts) == self._starts.maxlen
        return self.open >= self.at_once or (is_full and self.clock() < self._starts[0] + 1.0)

    def _fault(self, body: bytes) -> int:
        digest = hashlib.sha256(body).digest()
        self._came[digest] += 1
        faults = {0: 429, 1: 500, 2: 408}
        return faults.get(digest[0] % 16, 200) if self.is_faulty and self._came[digest] == 1 else 200

    def _completion(self, messages: list[dict[str, str]]) -> dict[str, object]:
        instruction, text = (message["content"] for message in messages)
        answer = self.mind(instruction, text)
        prompt, completion = (len(re.findall(r"\w+|[^\w\s]", one)) for one in (instruction + text, answer))
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        }


@contextmanager
def serve(app: Starlette) -> Iterator[str]:
    """Serve on a free port from a thread; the value is the base URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    # Head and body of an answer are two writes: without this, asyncio sends the second 40 ms later.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
