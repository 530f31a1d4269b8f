"""Prompts that a language model improves: gradients are critiques, and a backward awaits those who write them.

    python examples/text_gradients.py --stand-in                      # without a network: a server of this program
    export OPENAI_API_KEY=... ; python examples/text_gradients.py --model gpt-4.1-mini --answers run.jsonl
    python examples/text_gradients.py --model gpt-4.1-mini --answers run.jsonl --replay   # the same, without a network

A program reads letters of customers by two calls of a model, each under a prompt: the first says what a letter wants,
the second makes a line of it. Its answers are compared with what they should be. A backward asks the model, for all
letters at once, what has to change in which prompt; critiques that meet at a prompt are merged by another call. A
Rewriter makes better prompts, and keeps them where letters that were set aside are read no worse. Requests are limited,
tried again where that helps, and paid only once: answers are kept in a file, from which a run can be replayed bit for
bit. Where the budget of tokens ends in the midst of a backward, no gradient has changed, and the next try asks only
what is missing.

Any endpoint that speaks OpenAI's protocol will do (`--base-url`, or OPENAI_BASE_URL). docs/text-gradients.md explains
the parts. Needs `pip install -e '.[serve]' tenacity`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

# When this file is run as a script, Python does not search the parent of `examples` for modules.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncgrad as ag
from asyncgrad.values import Feedback, Text

try:
    import httpx

    from examples.language_model.answers import Answers, AnswersError
    from examples.language_model.client import Budget, BudgetSpentError, Model
    from examples.language_model.mind import desk
    from examples.language_model.stand_in import StandIn, serve
    from examples.language_model.together import together
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[serve]' tenacity")

T = TypeVar("T")

READ, FILE = "Say what the customer wants.", "Write a line for the list of cases."
CRITIC = (
    "A program calls a language model with an instruction and an input. You get both, the answer, and feedback on the "
    "answer. Say what has to change in the part of the call that is named, so that the answer will be as the feedback "
    "wants it, for other inputs too: one short sentence on a line for each change. Where nothing has to change in this "
    "part, say NOTHING."
)
MERGER = "Merge these critiques of one text: each point once, on a line of its own, the most important first."
REWRITER = (
    "Rewrite an instruction to a language model, so that it does what the feedback asks for. Keep what is good. Do not "
    "write what has been rejected. Say the new instruction, and nothing else."
)


class Letter(NamedTuple):
    """What a customer has written, and the line that it should become."""

    text: str
    line: str


LETTERS = [
    Letter("The lamp of 4 March 2026 is dark. It was 120 euros. I want my money back.", "refund; 2026-03-04; 120 EUR"),
    Letter("Can you repair the radio? I paid 80 euros on 11 May 2026.", "repair; 2026-05-11; 80 EUR"),
    Letter(
        "I would like another one of the cups that came on 2 June 2026, for 9 euros.", "exchange; 2026-06-02; 9 EUR"
    ),
    Letter("My money back, please: 35 euros, for the kettle of 30 January 2026.", "refund; 2026-01-30; 35 EUR"),
    Letter("Since 7 July 2026 the clock stands still. A repair must not cost 45 euros.", "repair; 2026-07-07; 45 EUR"),
    Letter("On 19 April 2026 I got a broken vase for 60 euros. Send another one.", "exchange; 2026-04-19; 60 EUR"),
]
SET_ASIDE = [
    Letter("The chair of 1 August 2026 creaks. I want my money back, 210 euros.", "refund; 2026-08-01; 210 EUR"),
    Letter("Is there a repair for a bell of 15 euros? I have it since 23 May 2026.", "repair; 2026-05-23; 15 EUR"),
    Letter("I bought shoes on 8 December 2025. For 75 euros I want another one.", "exchange; 2025-12-08; 75 EUR"),
]


@final
class Call(ag.Function):
    """The answer of a model to a text under a prompt. The rule asks what has to change in either."""

    is_memoized = True  # after a failure, what has been answered is not asked again

    @staticmethod
    async def forward(ctx: Any, model: Model, prompt: ag.Value, text: ag.Value) -> ag.Value:
        ctx.save_for_backward(prompt, text)
        ctx.model = model
        ctx.answer = await model.ask(prompt.value, text.value)
        return ag.Value(ctx.answer, prompt.type)

    @staticmethod
    async def backward(ctx: Any, feedback: tuple[Feedback, ...]) -> Any:
        if not feedback:  # the calls that got this answer say that nothing is wrong with it
            return None, None, None
        prompt, text = ctx.saved_tensors
        parts = tagged(instruction=prompt.value, input=text.value, answer=ctx.answer, feedback=lines_of(feedback))

        async def critique(part: str) -> list[Feedback]:
            said = await ctx.model.ask(CRITIC, f"{parts}\n<part>{part}</part>")
            return [
                Feedback(line, feedback[0].source) for line in said.splitlines() if line.strip() not in ("", "NOTHING")
            ]

        named = [
            part
            for part, is_needed in zip(("instruction", "input"), ctx.needs_input_grad[1:], strict=True)
            if is_needed
        ]
        found = dict(zip(named, await together(critique(part) for part in named), strict=True))
        return None, found.get("instruction"), found.get("input")


@final
class Rewriter:
    """Gives prompts better texts: all of them or none, and none that make a score worse.

    Args:
        model: what rewrites.
        prompts: leaves of graphs.
        score: how good the prompts are now, the higher the better.
    """

    def __init__(self, model: Model, prompts: Sequence[ag.Value], score: Callable[[], Awaitable[float]]) -> None:
        self.model, self.prompts, self.score = model, prompts, score
        self.best = -float("inf")
        self.rejected: dict[ag.Value, list[str]] = {prompt: [] for prompt in prompts}

    async def step(self) -> float:
        """Rewrite the prompts that have a gradient, which becomes None; return the score of the new ones.

        If it fails or is cancelled, every prompt is as before.
        """
        asked = [prompt for prompt in self.prompts if prompt.grad is not None]
        before = {prompt: prompt.value for prompt in asked}
        better = await together(self._rewritten(prompt) for prompt in asked)
        is_better = False
        try:
            for prompt, text in zip(asked, better, strict=True):
                prompt.value = text
            score = await self.score()
            is_better = score >= self.best
        finally:
            if not is_better:
                for prompt, text in before.items():
                    prompt.value = text
        for prompt, text in zip(asked, better, strict=True):
            prompt.grad = None
            self.rejected[prompt] = [] if is_better else [*self.rejected[prompt], text]
        self.best = max(self.best, score)
        return score

    async def _rewritten(self, prompt: ag.Value) -> str:
        rejected = "\n".join(self.rejected[prompt])
        parts = tagged(instruction=prompt.value, feedback=lines_of(prompt.grad), rejected=rejected)
        return (await self.model.ask(REWRITER, parts)).strip()


def tagged(**parts: str) -> str:
    """Return texts, each within tags that say what it is."""
    return "\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in parts.items())


def lines_of(feedback: Iterable[Feedback]) -> str:
    """Return feedback, one on a line."""
    return "\n".join(one.text for one in feedback)


def lines_in(text: str) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def text_type(model: Model) -> Text:
    """Return the type of texts whose critiques the model merges."""

    async def merge(gradients: Sequence[tuple[Feedback, ...]]) -> tuple[Feedback, ...]:
        # Calls of a forward that wait become nodes as they come. So that a run can be replayed, the order is that of
        # the letters, which are the sources of the feedback.
        critiques = sorted({one for each in gradients for one in each}, key=lambda one: (one.source, one.text))
        if len({one.text for one in critiques}) == 1:
            return (critiques[0],)
        merged = await model.ask(MERGER, tagged(critiques=lines_of(critiques)))
        return tuple(Feedback(line, "merged") for line in lines_in(merged))

    return Text(merge=merge)


def rating(answer: str, letter: Letter) -> float:
    """Return how good an answer is, from 0 to 1: which facts it has, and whether it is just the line."""
    facts = letter.line.split("; ")
    return (sum(fact in answer for fact in facts) + (answer == letter.line)) / (len(facts) + 1)


@final
class Desk:
    """The program whose prompts are learned."""

    def __init__(self, model: Model) -> None:
        self.model, self.type = model, text_type(model)
        self.read, self.file = (ag.leaf(prompt, type=self.type) for prompt in (READ, FILE))

    async def line(self, letter: Letter) -> ag.Value:
        """Return the line that it makes of a letter."""
        text = ag.leaf(letter.text, type=self.type, requires_grad=False)
        wish = await Call.apply(self.model, self.read, text)
        line: ag.Value = await Call.apply(self.model, self.file, wish)
        return line

    async def score(self) -> float:
        """Return how well it reads the letters that were set aside."""
        with ag.no_grad():
            lines = await together(self.line(letter) for letter in SET_ASIDE)
        return sum(rating(line.value, letter) for line, letter in zip(lines, SET_ASIDE, strict=True)) / len(SET_ASIDE)

    async def critiques(self) -> tuple[list[ag.Value], list[Any]]:
        """Return the lines that are not as they should be, and what is wrong with each."""
        lines = await together(self.line(letter) for letter in LETTERS)
        wrong = [
            (line, Feedback(f"The answer should have been: {letter.line}", f"letter {number}"))
            for number, (line, letter) in enumerate(zip(lines, LETTERS, strict=True))
            if line.value != letter.line
        ]
        return [line for line, _ in wrong], [feedback for _, feedback in wrong]


async def optimise(model: Model, steps: int, top_up: int) -> Desk:
    """Improve the prompts, and print how well they do. Where the budget is spent, it gets `top_up` tokens more."""
    desk = Desk(model)
    rewriter = Rewriter(model, [desk.read, desk.file], desk.score)

    async def paid(part: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await part()
            except BudgetSpentError as error:
                left = [prompt.grad for prompt in rewriter.prompts if prompt.grad is not None]
                note(f"{error}; gradients {len(left)}, answers that are kept {len(model.answers)}")
                if not top_up:
                    raise
                model.budget.tokens = model.budget.spent + top_up

    rewriter.best = await paid(desk.score)
    print(f"before   {rewriter.best:.2f}")
    for step in range(1, steps + 1):
        roots, feedback = await paid(desk.critiques)
        if not roots:
            break
        await paid(lambda: ag.backward(roots, feedback, retain_graph="until_success"))  # noqa: B023 - awaited at once
        score = await paid(rewriter.step)
        print(f"step {step}   {score:.2f}" + ("" if score == rewriter.best else ", which is worse: the prompts stay"))
    print(f"after    {rewriter.best:.2f}\nread     {desk.read.value}\nfile     {desk.file.value}")
    return desk


def note(text: str) -> None:
    """Say what differs from run to run, where it is not among the results."""
    print(text, file=sys.stderr)


async def run(options: argparse.Namespace, base_url: str) -> None:
    """Optimise with the model at an endpoint."""
    headers = {"Authorization": f"Bearer {key}"} if (key := os.environ.get("OPENAI_API_KEY")) else {}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=None) as client:
        model = Model(
            client,
            options.model,
            answers=Answers(options.answers, replay=options.replay),
            budget=Budget(options.budget),
            limit=ag.limit(requests=options.at_once, rate=options.rate, per=60.0, name="model"),
            timeout=options.timeout,
        )
        await optimise(model, options.steps, options.top_up)
        note(f"requests {model.sent}, tokens {model.budget.spent}, answers that are kept {len(model.answers)}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, checked."""
    parser = argparse.ArgumentParser(description="Improve two prompts by the critiques of a language model.")
    parser.add_argument("--stand-in", action="store_true", help="ask a server that this program starts, not a real one")
    parser.add_argument("--base-url", help="the endpoint (default: OPENAI_BASE_URL, or that of OpenAI)")
    parser.add_argument("--model", help="the model's name, which the endpoint knows")
    parser.add_argument("--steps", type=int, default=6, help="how often the prompts are rewritten at most")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="keep answers there, and ask none of these again")
    parser.add_argument("--replay", action="store_true", help="take all answers from --answers, and use no network")
    parser.add_argument("--budget", type=int, metavar="TOKENS", help="how many tokens may be spent")
    parser.add_argument(
        "--top-up", type=int, default=0, metavar="TOKENS", help="how many more, whenever they are spent"
    )
    parser.add_argument("--at-once", type=int, default=8, help="how many requests run at a time")
    parser.add_argument("--rate", type=int, default=500, help="how many requests start in a minute")
    parser.add_argument(
        "--timeout", type=float, help="the seconds that an answer may take (default: 60; 0.3 of --stand-in)"
    )
    options = parser.parse_args(arguments)
    if options.replay and options.answers is None:
        parser.error("--replay takes all answers from a file: name it by --answers FILE")
    if options.replay and not options.answers.is_file():
        parser.error(f"--replay finds no file {options.answers}: run the same without --replay first, which writes it")
    for name, least in (("steps", 0), ("budget", 0), ("top_up", 0), ("at_once", 1), ("rate", 1)):
        number = getattr(options, name)
        if number is not None and number < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, not {number}")
    if options.timeout is not None and not 0 < options.timeout < math.inf:
        parser.error(f"--timeout must be more than 0 seconds, not {options.timeout:g}")
    if options.answers is not None and (options.answers.is_dir() or not options.answers.parent.is_dir()):
        parser.error(f"--answers must be a file in a folder that is there, not {options.answers}")
    if options.stand_in and options.base_url is not None:
        parser.error("--stand-in starts a server of its own: leave out --base-url, or --stand-in")
    if options.base_url is None:
        options.base_url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    if options.timeout is None:
        options.timeout = 0.3 if options.stand_in else 60.0
    if options.stand_in:
        options.model = options.model or "stand-in"
    elif options.model is None:
        parser.error("--model must name a model of the endpoint; or try --stand-in, which needs none")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Optimise; return 3 if the budget is spent before the end, and 1 if the endpoint or the answers fail for good."""
    options = parse(arguments)
    stand_in = StandIn(desk, latency=0.02, at_once=options.at_once, is_faulty=True)
    serving = options.stand_in and not options.replay
    with serve(stand_in.app) if serving else contextlib.nullcontext(options.base_url) as base_url:
        try:
            ag.run(run(options, base_url))
        except BudgetSpentError:
            note(
                "the same command with more tokens goes on: what has been paid is in --answers"
                if options.answers
                else ""
            )
            return 3
        except AnswersError as error:
            note(str(error))
            return 1
        except (httpx.HTTPError, TimeoutError) as error:
            what = str(error) or f"no answer in {options.timeout:g} s, each time: see --timeout"
            note("\n".join([f"{base_url}: {what}", *getattr(error, "__notes__", ())]))
            return 1
    if serving:
        note(f"the server said {dict(sorted(stand_in.said.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
