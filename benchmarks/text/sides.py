"""Who runs a backward over texts: asyncgrad, and other libraries for that, each if it is installed.

In each, a node asks the model for its answer, and in a backward for one critique for each of its inputs. Critiques that
meet are put together as the library does it without a request.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, final

import asyncgrad as ag
from asyncgrad.values import Feedback, Text
from examples.language_model.together import together

from .graphs import PROMPT, Graph
from .line import Line

__all__ = ["PROMPT_TEXT", "SIDES", "Side"]

PROMPT_TEXT, SEED = "Write a summary.", "the summary is too long"


class Side(ABC):
    """Abstract: a library with a graph.

    Args:
        graph: the graph.
        line: how the model is asked.
    """

    #: Its name, and the package of the registry that it is in.
    name: ClassVar[str]
    package: ClassVar[str]
    #: The module that must be there.
    module: ClassVar[str]
    #: Whether forward and backward are two calls, which can be timed apart.
    is_split: ClassVar[bool] = True

    def __init__(self, graph: Graph, line: Line) -> None:
        self.graph, self.line = graph, line

    @abstractmethod
    async def forward(self) -> None:
        """Ask for the answers of all nodes."""

    @abstractmethod
    async def backward(self) -> None:
        """Ask for all critiques; may be called again after it has failed."""

    @abstractmethod
    def gradient(self) -> list[str]:
        """Return the critiques that the prompt has, in the order in which an optimizer would see them."""


@final
class Node(ag.Function):
    """A call of the model."""

    is_memoized = True

    @staticmethod
    async def forward(ctx: Any, line: Line, number: int, *texts: ag.Value) -> ag.Value:
        ctx.line, ctx.number, ctx.texts = line, number, [text.value for text in texts]
        return ag.Value(await line.ask(question(number, ctx.texts)), texts[0].type)

    @staticmethod
    async def backward(ctx: Any, feedback: tuple[Feedback, ...]) -> Any:
        said = "\n".join(one.text for one in feedback)
        critiques = (ctx.line.ask(critique(ctx.number, text, said)) for text in ctx.texts)
        return None, None, *(Feedback(one) for one in await together(critiques))


def question(number: int, texts: list[str]) -> str:
    """Return what a node asks the model in a forward."""
    return "\n".join([f"Node {number}: compare", *texts])


def critique(number: int, text: str, feedback: str) -> str:
    """Return what a node asks the model in a backward, for one of its inputs."""
    return f"Node {number}: what is wrong with {text}, since:\n{feedback}"


@final
class Asyncgrad(Side):
    """asyncgrad."""

    name = "asyncgrad"
    package = module = "asyncgrad"

    async def forward(self) -> None:
        """Ask for the answers of one layer after the other."""
        # Nodes are as old as their calls. Those that begin as answers come would have another order in each run.
        self.prompt = ag.leaf(PROMPT_TEXT, type=Text())
        made = {PROMPT: self.prompt}
        for layer in self.graph.layers:
            inputs = [[made[index] for index in self.graph.nodes[number]] for number in layer]
            calls = (Node.apply(self.line, number, *texts) for number, texts in zip(layer, inputs, strict=True))
            made.update(zip(layer, await together(calls), strict=True))
        self.output = made[len(self.graph.nodes) - 1]

    async def backward(self) -> None:
        """Run it."""
        feedback: Any = Feedback(SEED)
        await self.output.backward(feedback, retain_graph="until_success")

    def gradient(self) -> list[str]:
        """Return the feedback."""
        return [one.text for one in self.prompt.grad or ()]


@final
class TextGrad(Side):
    """TextGrad, whose calls block."""

    name = "TextGrad"
    package = module = "textgrad"

    def __init__(self, graph: Graph, line: Line) -> None:
        super().__init__(graph, line)
        textgrad: Any = import_module("textgrad")
        base: Any = textgrad.engine.EngineLM

        class Engine(base):  # type: ignore[misc]
            model_string = "stand-in"

            def generate(self, prompt: str, system_prompt: str | None = None, **options: Any) -> str:
                return line.ask_now(prompt)

            def __call__(self, prompt: str, system_prompt: str | None = None, **options: Any) -> str:
                return line.ask_now(prompt)

        self.textgrad, self.engine = textgrad, Engine()

    async def forward(self) -> None:
        """Ask for one answer after the other."""
        textgrad = self.textgrad
        self.prompt = textgrad.Variable(PROMPT_TEXT, role_description="the prompt")
        made: list[Any] = []
        for number, inputs in enumerate(self.graph.nodes):
            texts = {
                f"text{place}": self.prompt if index == PROMPT else made[index] for place, index in enumerate(inputs)
            }
            call = textgrad.autograd.FormattedLLMCall(
                self.engine, question(number, [f"{{{name}}}" for name in texts]), dict.fromkeys(texts)
            )
            made.append(call(texts, f"the answer of node {number}"))
        self.output = made[-1]

    async def backward(self) -> None:
        """Run it, which blocks. It starts without feedback on the output, and asks for critiques all the same."""
        self.output.backward(self.engine)

    def gradient(self) -> list[str]:
        """Return the feedback, whose order is that of a set."""
        return [one.value for one in self.prompt.gradients]


@final
class Plait(Side):
    """plait, with modules whose forward and backward ask the model."""

    name = "plait"
    package, module = "pyplait", "plait"

    async def forward(self) -> None:
        """Trace the graph, and have plait's scheduler run it."""
        plait: Any = import_module("plait")
        base: Any = plait.Module
        backward, feedback = import_module("plait.optimization.backward"), import_module("plait.optimization.feedback")
        line, nodes = self.line, self.graph.nodes
        prompt = plait.Parameter(PROMPT_TEXT, description="the prompt")

        class Call(base):  # type: ignore[misc]
            def __init__(self, number: int) -> None:
                super().__init__()
                self.number, self.takes_prompt = number, nodes[number] == (PROMPT,)

            async def forward(self, **texts: str) -> str:
                return await line.ask(question(self.number, list(texts.values())))

            async def backward(self, said: Any, ctx: Any) -> Any:
                result = backward.BackwardResult()
                asked = (line.ask(critique(self.number, text, said.content)) for text in ctx.inputs.values())
                found = await together(asked)
                if self.takes_prompt:
                    prompt.accumulate_feedback(found[0])
                else:
                    result.input_feedback = {
                        name: feedback.Feedback(one) for name, one in zip(ctx.inputs, found, strict=True)
                    }
                return result

        class Net(base):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                for number in range(len(nodes)):
                    setattr(self, f"call{number}", Call(number))

            def forward(self, text: str) -> Any:
                made: list[Any] = []
                for number, inputs in enumerate(nodes):
                    # By name: what was passed by position gets its feedback where there is but one.
                    texts = {
                        f"text{place}": text if index == PROMPT else made[index] for place, index in enumerate(inputs)
                    }
                    made.append(getattr(self, f"call{number}")(**texts))
                return made[-1]

        run = import_module("plait.execution.executor").run
        _, record = await run(Net(), PROMPT_TEXT, record=True)
        self.prompt = prompt
        # As its losses do.
        self.feedback = feedback.Feedback(SEED, _records=[record])

    async def backward(self) -> None:
        """Run it."""
        await self.feedback.backward()

    def gradient(self) -> list[str]:
        """Return the feedback."""
        return list(self.prompt.get_accumulated_feedback())


@final
class Autoform(Side):
    """autoform, whose pullback is a program that runs forward and backward."""

    name = "autoform"
    package = module = "autoform"
    is_split = False

    async def forward(self) -> None:
        """Make the program; nothing is asked."""
        autoform = import_module("autoform")
        nodes = self.graph.nodes

        def program(prompt: str, model: str) -> str:
            made: list[Any] = []
            for number, inputs in enumerate(nodes):
                texts = [prompt if index == PROMPT else made[index] for index in inputs]
                named = [autoform.format(f"Node {number}: compare {{}}", text) for text in texts]
                made.append(autoform.lm_call([{"role": "user", "content": text} for text in named], model=model))
            last: str = made[-1]
            return last

        self.autoform = autoform
        # `sched` has independent steps wait at the same time. A model that is no argument is refused by it.
        self.program = autoform.sched(autoform.pullback(autoform.trace(program)(PROMPT_TEXT, "stand-in")))
        self.found: list[str] = []

    async def backward(self) -> None:
        """Run the program, forward and backward."""
        with self.autoform.lm_client(_Client(self.line)):
            _, (critiques, _) = await self.program.acall((PROMPT_TEXT, "stand-in"), SEED)
        self.found = [critiques]

    def gradient(self) -> list[str]:
        """Return the feedback, which is one text."""
        return self.found


@final
class _Client:
    """What autoform asks the model by, in the shape of LiteLLM's answers."""

    def __init__(self, line: Line) -> None:
        self.line = line

    async def acompletion(self, *, messages: list[dict[str, str]], model: str, **options: Any) -> Any:
        return _answer(await self.line.ask("\n".join(message["content"] for message in messages)))

    def completion(self, *, messages: list[dict[str, str]], model: str, **options: Any) -> Any:
        return _answer(self.line.ask_now("\n".join(message["content"] for message in messages)))


class _answer:
    """An answer as LiteLLM returns it: `answer.choices[0].message.content`."""

    def __init__(self, text: str) -> None:
        self.content = text
        self.message = self
        self.choices = [self]


# LiteLLM, which two of them load, would ask the network for prices, and TextGrad leave a folder of logs here.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("TEXTGRAD_LOG_DIR", str(Path(tempfile.gettempdir()) / "textgrad-logs"))
#: The libraries that can take part, and those of them that are here.
ALL: tuple[type[Side], ...] = (Asyncgrad, TextGrad, Plait, Autoform)
SIDES = {side.name: side for side in ALL if find_spec(side.module) is not None}
