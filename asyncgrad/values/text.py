"""Text: a prompt, an answer or a program as a value, whose gradient is a list of what is wrong with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

from ..core.arrays.value_type import ValueType
from ..core.settings.arguments import check_callable, describe
from ..errors import ArgumentTypeError

__all__ = ["Feedback", "Text"]

#: What a text in place of a merge was meant for.
_WRITE_LEAF = "leave it out; a text is no argument of its type: write ag.leaf(text)"


class Feedback(NamedTuple):
    """What somebody says of a text.

    Example:
        >>> from asyncgrad.values import Feedback
        >>> Feedback("too long", source="the reader").text
        'too long'
    """

    #: What is to be changed, and how.
    text: str
    #: Who says so: the name of a step, of a test, of a person.
    source: str = ""


#: What a rule or a merge may return as feedback: see `Text.convert`.
FeedbackLike: TypeAlias = str | Feedback | Sequence[str | Feedback]
#: Makes one gradient of the tuples of feedback that have met.
Merge: TypeAlias = Callable[[Sequence[tuple[Feedback, ...]]], FeedbackLike | Awaitable[FeedbackLike]]


@final
class Text(ValueType):
    """A text. A gradient is a tuple of `Feedback`, in the order of the graph; an empty one counts as missing.

    A backward that starts at a text takes the feedback that it starts with: `await answer.backward(feedback)`.

    Args:
        merge: makes one gradient of two or more that have met at a text, a function or an `async def` of a sequence of
            tuples of Feedback: a call of a language model, say. None puts them one after the other. What it has
            returned is kept for another try under `retain_graph="until_success"`.

    Raises:
        ArgumentTypeError: `merge` is not callable.

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad.values import Feedback, Text
        >>> class Ask(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, prompt, question):
        ...         return ag.Value(f"{prompt.value} {question}", prompt.type)
        ...     @staticmethod
        ...     async def backward(ctx, feedback):
        ...         return tuple(Feedback(f"the answer was {one.text}", "Ask") for one in feedback), None
        >>> prompt = ag.leaf("Be brief.", type=Text())
        >>> answer = Ask.apply(prompt, "Why?")
        >>> ag.sync.backward(answer, (Feedback("too long"),))
        >>> prompt.grad
        (Feedback(text='the answer was too long', source='Ask'),)
    """

    __slots__ = ("_merge",)

    is_memoized = True

    def __init__(self, merge: Merge | None = None) -> None:
        if merge is not None:
            check_callable(merge, "merge", "with a sequence of tuples of Feedback", _WRITE_LEAF, ArgumentTypeError)
        self._merge = merge

    def describe(self, value: Any) -> int:
        """Return the number of characters."""
        if not isinstance(value, str):
            raise ArgumentTypeError(f"a value of type Text is a str, not {describe(value)}: write str(value)")
        return len(value)

    def zero(self, description: Any) -> tuple[Feedback, ...]:
        """Return no feedback, what a rule gets whose output nobody has said anything of."""
        return ()

    def add(self, first: tuple[Feedback, ...], second: tuple[Feedback, ...]) -> tuple[Feedback, ...]:
        """Return all feedback, the first first."""
        return (*first, *second)

    def merge(self, gradients: Sequence[tuple[Feedback, ...]]) -> FeedbackLike | Awaitable[FeedbackLike]:
        """Return what the function that was given makes of them; without one, all feedback."""
        return super().merge(gradients) if self._merge is None else self._merge(gradients)

    def convert(self, gradient: Any) -> tuple[Feedback, ...]:
        """Return a tuple of Feedback for one, or for a sequence of them; a str is feedback without a source."""
        one_by_one = [gradient] if isinstance(gradient, (str, Feedback)) else gradient
        if not isinstance(one_by_one, (list, tuple)):
            raise TypeError('feedback is a tuple of Feedback: write (Feedback("too long", source="..."),)')
        return tuple(Feedback(one) if isinstance(one, str) else one for one in one_by_one)

    def is_missing(self, gradient: Any) -> bool:
        """Tell whether nobody has said anything."""
        return not gradient

    def nbytes(self, value: Any) -> int:
        """Return the bytes of a text in UTF-8, or of the texts of feedback."""
        texts = [value] if isinstance(value, str) else [one.text for one in value]
        return sum(len(text.encode(errors="surrogatepass")) for text in texts)

    def check(self, gradient: Any, description: Any) -> None:
        """Raise TypeError unless each is a Feedback, whose text and source are strings.

        A language model may answer with nothing, which is None in its JSON.
        """
        for one in gradient:
            if not isinstance(one, Feedback):
                raise TypeError(f'{describe(one)} is no Feedback: write Feedback("too long", source="...")')
            if not (isinstance(one.text, str) and isinstance(one.source, str)):
                raise TypeError(f"the text and the source of a Feedback are strings, and not as in {one!r}")

    def __repr__(self) -> str:
        return "Text()" if self._merge is None else f"Text(merge={getattr(self._merge, '__name__', self._merge)})"
