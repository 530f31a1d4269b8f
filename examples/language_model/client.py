"""A client of a language model behind an OpenAI-compatible endpoint: limits, retries, kept answers, a budget."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, final

import httpx
import tenacity

import asyncgrad as ag

from .answers import Answer, Answers, key_of

#: What the server says of a request that it may answer later.
LATER = (408, 429, 500, 502, 503, 504)


class BudgetSpentError(RuntimeError):
    """No more requests are sent: the tokens of the budget are spent."""


@final
class Budget:
    """A number of tokens. The last answers may go beyond it, since nobody knows before what an answer takes.

    Args:
        tokens: how many; None for no end.
    """

    def __init__(self, tokens: int | None = None) -> None:
        self.tokens, self.spent = tokens, 0

    def check(self) -> None:
        """Raise BudgetSpentError if nothing is left."""
        if self.tokens is not None and self.spent >= self.tokens:
            raise BudgetSpentError(f"{self.spent} tokens are spent, of {self.tokens}")


@final
class Model:
    """A language model.

    Args:
        client: what sends the requests; its `base_url` is that of the endpoint, up to `/v1`.
        name: the model, as the endpoint calls it.
        answers: where answers are kept.
        budget: the tokens that may be spent.
        limit: how many requests run at once, and start in a time.
        timeout: the seconds of one request.
        attempts: how often a request is sent.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        name: str,
        *,
        answers: Answers,
        budget: Budget,
        limit: ag.limit,
        timeout: float = 60.0,
        attempts: int = 6,
    ) -> None:
        self.client, self.name, self.answers, self.budget, self.timeout = client, name, answers, budget, timeout
        self.sent = 0
        self._asking: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        # The order matters: see docs/remote-steps.md. A try takes a place of the limit, and none while it waits.
        self._answered = tenacity.retry(
            retry=tenacity.retry_if_exception(_may_pass),
            stop=tenacity.stop_after_attempt(attempts),
            wait=pause,
            reraise=True,
        )(limit(self._attempt))

    async def ask(self, instruction: str, text: str) -> str:
        """Return the answer to a text, under an instruction; one that is kept if there is one."""
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        request = {"model": self.name, "temperature": 0.0, "messages": messages}
        # Who asks the same meanwhile waits for this answer, rather than pay for another one.
        async with self._asking.setdefault(key_of(request), asyncio.Lock()):
            answer = self.answers.find(request) or await self._answered(request)
        return answer.text

    async def _attempt(self, request: dict[str, Any]) -> Answer:
        self.budget.check()
        sent = asyncio.ensure_future(self._send(request))
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:
            # What has been sent will be on the bill: let the answer come, and be kept for the next try.
            try:
                await asyncio.wait([sent])
            finally:
                sent.cancel()
            if not sent.cancelled():
                sent.exception()
            raise

    async def _send(self, request: dict[str, Any]) -> Answer:
        self.sent += 1
        async with asyncio.timeout(self.timeout):
            reply = await self.client.post("chat/completions", json=request)
        try:
            reply.raise_for_status()
        except httpx.HTTPStatusError as error:
            error.add_note(reply.text[:500])  # the server says there what it does not like
            raise
        try:
            found = reply.json()
            answer = Answer(found["choices"][0]["message"]["content"] or "", found["usage"]["total_tokens"])
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"the endpoint must answer with a completion and its usage: {reply.text[:500]}") from error
        self.budget.spent += answer.tokens
        self.answers.keep(request, answer)
        return answer


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in LATER
    return isinstance(error, (TimeoutError, httpx.TransportError))


def pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds until the next try: those that the server asks for, or more from try to try."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, httpx.HTTPStatusError):
        asked = error.response.headers.get("retry-after", "")
        if asked.isdecimal():
            return float(asked)
    return _GROWING(state)


_GROWING = tenacity.wait_random_exponential(multiplier=0.1, max=30.0)
