"""A library's functions, objects and classes that call asyncgrad's beside them, and note what differs."""

from __future__ import annotations

import copy
import functools
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncgrad import Tensor
from asyncgrad.errors import InPlaceError

from .arguments import Arguments, as_tensors, copied, described, is_differentiable, jittered, leaves
from .comparison import compared, compared_writes
from .gradients import compared_gradients


@dataclass
class Notes:
    """What has been compared, and what differs."""

    #: By function: how many calls.
    calls: Counter[str] = field(default_factory=Counter)
    #: The same, with those that are too slow or too large to be compared: a search makes 100,000.
    tries: Counter[str] = field(default_factory=Counter)
    #: By function and kind: how many calls.
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By function and kind: some of the calls, as texts.
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    #: The test that runs.
    test: str = ""
    #: Of each function no more calls are compared; and none that take longer than this, in seconds.
    most: int = 1000
    slowest: float = 1.0
    #: Nor of those that are given more numbers than this in one array.
    largest: float = float("inf")
    #: Whether each call is made once more beside its arguments, and whether second derivatives are compared.
    has_jitter: bool = False
    has_second: bool = False
    #: When no more tests are begun, by the monotonic clock.
    deadline: float = float("inf")
    #: Of values, relative, by the beginnings of functions' names.
    tolerances: dict[str, float] = field(default_factory=dict)
    is_within: bool = False

    def add(self, name: str, kind: str, arguments: str, text: str) -> None:
        """Note a difference."""
        self.counts[name, kind] += 1
        examples = self.examples.setdefault((name, kind), [])
        if len(examples) < 6:
            examples.append(f"{arguments}\n        {text}\n        {self.test}")

    def tolerance_of(self, name: str) -> float:
        """Return the tolerance of a function's values."""
        return next((one for start, one in self.tolerances.items() if name.startswith(start)), 1e-8)


def compared_call(notes: Notes, name: str, original: Callable[..., Any], ours: Any, args: Any, kwargs: Any) -> Any:
    """Return what the library's function does, having called asyncgrad's with the same arguments, and compared."""
    if notes.is_within or notes.calls[name] >= notes.most or notes.tries[name] >= 10 * notes.most:
        return original(*args, **kwargs)
    notes.tries[name] += 1
    notes.is_within = True
    try:
        state = np.random.get_state()  # noqa: NPY002
        arguments: Arguments = copied((tuple(args), dict(kwargs)))
        start = time.perf_counter()
        try:
            expected, failure = original(*args, **kwargs), None
        except Exception as error:
            expected, failure = None, error
        sizes = [one.size for one in leaves(arguments) if isinstance(one, np.ndarray)]
        # Whether rounding raises is said by NumPy's state, which is another one below, and so it is with warnings.
        is_raised = isinstance(failure, FloatingPointError | Warning)
        is_compared = not is_raised and time.perf_counter() - start <= notes.slowest
        # SciPy's functions take it of its own tests.
        is_compared &= "_no_deco" not in kwargs
        # Where it is not computed, a result without `out` is what memory held.
        is_compared &= kwargs.get("where") is None or kwargs.get("out") is not None
        if is_compared and max(sizes, default=0) <= notes.largest:
            notes.calls[name] += 1
            after = np.random.get_state()  # noqa: NPY002
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                np.random.set_state(state)  # noqa: NPY002
                _compare(notes, name, original, ours, arguments, expected, failure, (args, kwargs))
                if notes.has_jitter and failure is None:
                    _compare_beside(notes, name, original, ours, arguments, state)
            np.random.set_state(after)  # noqa: NPY002
    finally:
        notes.is_within = False
    if failure is not None:
        raise failure
    return expected


def _compare_beside(notes: Notes, name: str, original: Any, ours: Any, arguments: Arguments, state: Any) -> None:
    """Compare the call beside its arguments, where the library has a value."""
    beside = jittered(arguments)
    if beside is None:
        return
    given = copied(beside)
    np.random.set_state(state)  # noqa: NPY002
    try:
        expected = original(*given[0], **given[1])
    except Exception:
        return
    np.random.set_state(state)  # noqa: NPY002
    _compare(notes, name, original, ours, beside, expected, None, given, prefix="jitter ")


def _compare(
    notes: Notes,
    name: str,
    original: Any,
    ours: Any,
    arguments: Arguments,
    expected: Any,
    failure: Any,
    after: Arguments,
    prefix: str = "",
) -> None:
    has_leaves = any(map(is_differentiable, leaves(arguments)))
    text = prefix + ", ".join(part for part in (described(arguments[0])[1:-1], described(arguments[1])) if part)
    # What is computed in single precision may be computed in another order.
    narrow = [np.finfo(one.dtype).eps for one in leaves(arguments) if is_differentiable(one)]
    tolerance = max(notes.tolerance_of(name), *(float(one) ** 0.5 for one in narrow if one > 1e-10), 0.0)
    for mode in ("rg", "norg") if has_leaves else ("norg", "plain"):
        given = copied(arguments)
        if mode != "plain":
            given = as_tensors(given, requires_grad=mode == "rg")
        if ours is original and not any(isinstance(one, Tensor) for one in leaves(given)):
            continue
        try:
            found = ours(*given[0], **given[1])
        except InPlaceError:
            # A leaf that requires grad is not written into, where an `out` is given by its place.
            continue
        except Exception as error:
            if failure is None:
                notes.add(name, "raised", f"{mode}: {text}", f"{type(error).__name__}: {error}"[:400])
            continue
        if failure is not None:
            notes.add(name, "not-raised", f"{mode}: {text}", f"expected {type(failure).__name__}: {failure}"[:300])
            continue
        differences = [
            *compared(expected, found, tolerance),
            *compared_writes(expected, arguments, after, given, tolerance),
        ]
        for kind, why in differences:
            notes.add(name, kind, f"{mode}: {text}", why)
        if mode == "rg" and not any(kind in ("shape", "value") for kind, _ in differences):
            for kind, why in compared_gradients(original, arguments, given, found, ours if notes.has_second else None):
                notes.add(name, kind, f"grad: {text}", why)


def compared_function(notes: Notes, name: str, original: Any, ours: Any) -> Any:
    """Return a function like the library's that calls both."""
    if isinstance(original, types.FunctionType):

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return compared_call(notes, name, original, ours, args, kwargs)

        return wrapper
    return ComparedObject(notes, name, original, ours)


class ComparedObject:
    """An object of a library's, such as a ufunc or a distribution, whose calls and methods call both."""

    def __init__(self, notes: Notes, name: str, original: Any, ours: Any) -> None:
        self.__dict__.update(_notes=notes, _name=name, _original=original, _ours=ours)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return compared_call(self._notes, self._name, self._original, self._ours, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if name.startswith("_") or not callable(found) or not callable(getattr(self._ours, name, None)):
            return found
        return ComparedObject(self._notes, f"{self._name}.{name}", found, getattr(self._ours, name))

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker that cannot read its task ends, and whoever has sent it waits for ever: it gets the library's own.
        return copy.copy, (self._original,)


def compared_class(notes: Notes, name: str, original: Any, ours: Any) -> Any:
    """Return a class like the library's, whose objects compare their construction and the calls of their methods."""

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self)["_made_of"] = (copied(args), copied(kwargs))
        original.__init__(self, *args, **kwargs)

    def method(which: str) -> Any:
        plain = getattr(original, which)

        @functools.wraps(plain)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            made_of = vars(self).get("_made_of")
            if made_of is None or notes.is_within:
                return plain(self, *args, **kwargs)
            return compared_call(
                notes,
                f"{name}().{which}",
                lambda made, args, kwargs: getattr(original(*made[0], **made[1]), which)(*args, **kwargs),
                lambda made, args, kwargs: getattr(ours(*made[0], **made[1]), which)(*args, **kwargs),
                (made_of, args, kwargs),
                {},
            )

        return wrapper

    names = [
        one
        for one in ("__call__", *dir(original))
        if (one == "__call__" or not one.startswith("_"))
        and isinstance(getattr(original, one, None), types.FunctionType)
        and hasattr(ours, one)
    ]
    return type(original.__name__, (original,), {"__init__": construct, **{one: method(one) for one in names}})


class ComparedModule(types.ModuleType):
    """A module whose public functions call both."""

    def __init__(self, original: types.ModuleType, replace: Callable[[Any], Any]) -> None:
        super().__init__(original.__name__)
        vars(self).update(_original=original, _replace=replace)

    def __getattr__(self, name: str) -> Any:
        return self._replace(getattr(self._original, name))

    def __dir__(self) -> list[str]:
        return dir(self._original)
