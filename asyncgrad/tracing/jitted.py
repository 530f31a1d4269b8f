"""A compiled function: it is traced, and then runs as a program, or eagerly where that would not be right."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, final

import numpy as np

from ..core.arrays.tensor_base import TensorBase
from ..core.engine.measured_calls import MeasuredCalls
from ..core.engine.offloading import call_on_worker
from ..core.graph.saved_hooks import prepare_write
from ..core.settings.context import BLOCKING, GENERATOR
from ..core.settings.loop_turn import keep_pace
from ..core.settings.observers import PROGRAMS
from ..core.settings.process import hold_in_forks
from ..core.tensor import Tensor
from ..core.tree.structure import LEAF, TreeStructure, flatten, unflatten
from ..errors import ArgumentError, ChangedTensorError, GraphError
from ..observing.visualize.picture import Picture
from ..random import generator
from ..transforms.recipes import key_of_recipe, made_again
from .beginnings import Beginning
from .blocking_transform import blocking_transform
from .bound import Bound
from .call_key import (
    Static,
    in_context,
    is_profiled,
    key_of_context,
    key_of_leaf,
    key_of_static,
    needs_eager,
    places_of,
    without_mark,
)
from .captured import Captured, CapturedNames, Place
from .draws import TracedGenerator, drawing_from
from .fusing import FUSED, Fusing
from .last_call import LastCall, Parts
from .object_key import is_array, key_of_structure
from .program import CheckFailed
from .program_picture import picture_of, shown_of
from .replay import Lease, ReplayNode
from .replayed_gradients import with_versions
from .runner import runner
from .table import PlaceOf
from .trace import Refusal, Untraceable
from .variant import Output, Variant, trace_variant
from .verifying import IS_COMPARING, computed_by, verify
from .watching import watched

__all__ = ["ALL", "Attempt", "Call", "Computed", "Family", "Jitted", "Transform", "picture_of_functions"]

#: Makes a function of another one.
Transform = Callable[[Callable[..., Any]], Callable[..., Any]]

#: Of how many calls of one key a function is traced in the last.
_CALLS_BEFORE_TRACE = 2
#: How many programs a function may have for calls of one key, and for how many keys it has some.
_MOST_VARIANTS = 8
#: After how many traced runs that raise an error calls of one key are eager for good.
_MOST_FAILURES = 3
#: How many times a function is traced again for backward passes that begin elsewhere than that of its program.
_MOST_BEGINNINGS = 3
#: How many functions are written that compare the calls of one key.
_MOST_LAST_CALLS = 16
#: For how many recipes a function keeps what transforms have made of it.
_MOST_WHOLES = 32
#: Why a call is eager that may be compiled later.
NOT_TRACED = "not traced yet"
COMPARED = "compared with its program"
#: Why a call is eager that would be traced, or compared with its program, if no profile saw that.
_PROFILED = "in a profile, and not yet traced and compared"

#: Held where a function gets calls of another kind.
_ADDING = hold_in_forks(threading.Lock())

#: The compiled functions of this process.
ALL: weakref.WeakSet[Jitted] = weakref.WeakSet()


@final
class Family:
    """What is known of the calls of one key."""

    __slots__ = (
        "beginning",
        "beginnings_left",
        "calls",
        "failures",
        "last_calls",
        "last_calls_made",
        "reason",
        "refusal",
        "variants",
    )

    def __init__(self) -> None:
        #: Where backward passes have begun that its programs could not run; None for none.
        self.beginning: Beginning | None = None
        #: How many times all is traced again for that.
        self.beginnings_left: int = _MOST_BEGINNINGS
        self.calls: int = 0
        #: How many traced runs have raised an error.
        self.failures: int = 0
        #: By program, what the calls are compared with that may run it, and how many were made.
        self.last_calls: dict[Variant, LastCall] = {}
        self.last_calls_made: int = 0
        #: The newest first.
        self.variants: list[Variant] = []
        #: Why these calls are eager for good.
        self.reason: str | None = None
        #: What each of these calls raises: a mistake in the function.
        self.refusal: str | None = None


@final
class Call:
    """One call of a compiled function: its arguments and what the function has captured, as leaves of a tree."""

    __slots__ = (
        "_captured_names",
        "_transform",
        "args",
        "captured",
        "known",
        "known_arrays",
        "kwargs",
        "leaves",
        "numbered",
        "places",
        "structure",
    )

    def __init__(
        self,
        transform: Transform | None,
        captured_names: CapturedNames,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        captured: Captured,
        leaves: list[Any],
        structure: TreeStructure,
    ) -> None:
        self._transform = transform
        self._captured_names = captured_names
        self.args = args
        self.kwargs = kwargs
        self.captured = captured
        self.leaves = leaves
        self.structure = structure
        #: What `state()` returned at the call; None where it was not asked.
        self.known: Hashable = None
        self.places: tuple[int | None, ...] = places_of(leaves)
        #: The arrays and tensors among the leaves, each once.
        self.numbered: list[Any] = list({id(leaf): leaf for leaf in leaves if is_array(leaf)}.values())
        self.known_arrays: list[np.ndarray] | None = None

    @classmethod
    def like(
        cls,
        last: LastCall,
        parts: Parts,
        transform: Transform | None,
        captured_names: CapturedNames,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        captured: Captured,
    ) -> Call:
        """Return a call that is like another one, which has told its parts."""
        call = cls.__new__(cls)
        call._transform = transform
        call._captured_names = captured_names
        call.args = args
        call.kwargs = kwargs
        call.captured = captured
        call.structure, call.places, call.known = last.structure, last.places, last.state
        call.leaves, call.numbered, call.known_arrays = parts
        return call

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays of the arguments, each once."""
        if self.known_arrays is None:
            self.known_arrays = [leaf._data if isinstance(leaf, TensorBase) else leaf for leaf in self.numbered]
        return self.known_arrays

    def key(self) -> Hashable:
        """Return what is equal for calls that may run the same programs."""
        leaves = tuple(map(key_of_leaf, self.leaves))
        models = key_of_structure(self.structure)
        return self.structure, models, self.places, leaves, self.captured.key, key_of_context()

    def state(self) -> Hashable:
        """Return what the function reads now, but for the numbers of arrays and the context."""
        others = tuple([key_of_leaf(leaf) for leaf in self.leaves if not is_array(leaf)])
        return others, key_of_structure(self.structure), self._captured_names.read().key

    def note_state(self) -> Hashable:
        """Return what `state()` returned first."""
        if self.known is None:
            self.known = self.state()
        return self.known

    def run(self) -> Any:
        """Return what the function returns, eagerly."""
        return self._function_with({})(*self.args, **self.kwargs)

    def run_tree(self, args: tuple[Any, ...], kwargs: dict[str, Any], captured: dict[Place, Any]) -> Any:
        """Return what the function returns for other arguments, with others in the place of what it has captured."""
        function = self._function_with(captured)
        return function(*map(without_mark, args), **{name: without_mark(one) for name, one in kwargs.items()})

    def again(self, variant: Variant, drawn: Any, numbered: Sequence[Any]) -> list[Any]:
        """Return what a program has computed of the call, by the function, in a context such as that of the call.

        Args:
            variant: the program.
            drawn: the state of the generator before it ran; None where it has drawn nothing.
            numbered: others in the place of the arrays and tensors among the arguments.

        Raises:
            ChangedTensorError: the function now reads something else.
        """
        if self.state() != self.known or not variant.guards.hold():
            raise ChangedTensorError(
                "the backward of a compiled function runs it again where its gradient is differentiated, or where it "
                "begins otherwise than the traced one, and what the function reads besides its arguments has "
                "changed since the call"
            )
        drawing = nullcontext() if drawn is None else drawing_from(drawn)
        with in_context(variant.context), drawing:
            return computed_by(variant, self.run_with(numbered))

    def _function_with(self, captured: dict[Place, Any]) -> Callable[..., Any]:
        function = self._captured_names.function_with(captured)
        return function if self._transform is None else self._transform(function)

    def run_with(self, numbered: Sequence[Any]) -> Any:
        """Return what the function returns with others in the place of the arrays and tensors among the leaves."""
        pairs = zip(self.leaves, self.places, strict=True)
        return self.run_tree(*unflatten(self.structure, [leaf if nr is None else numbered[nr] for leaf, nr in pairs]))


#: A way in which a call may run: what it is, None where that cannot be told; the program that may suit it, or None
#: where it is eager; what is known of calls like it, None where one was replayed just before; and why it is eager.
Attempt = tuple[Call | None, Variant | None, Family | None, str]


@final
class StaticArguments:
    """Which arguments of a function are static.

    Args:
        function: the function.
        names: their names.
    """

    __slots__ = ("_function_name", "_names", "_signature")

    def __init__(self, function: Callable[..., Any], names: Sequence[str]) -> None:
        self._signature = inspect.signature(function)
        self._function_name: str = getattr(function, "__qualname__", repr(function))
        self._names = names

    def marked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with each static one marked.

        Raises:
            TypeError: the function does not take them.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._function_name}() {error}") from None
        for name in self._names:
            if name in bound.arguments:
                value = bound.arguments[name]
                bound.arguments[name] = Static(value, key_of_static(value))
        return bound.args, bound.kwargs


@final
class Jitted:
    """What `ag.jit` returns: a function that runs as a program once it has been traced.

    Args:
        function: the function.
        static: the names of the arguments that are no trees of arrays, each of whose values has a program of its own.
        backend: as for `ag.jit`.
        verify: how many runs of a program are compared with the function.
        bound: the arguments that it is bound to: the object of a method, those of a partial.
        transform: what makes of the function the one that is run and compiled, such as its gradient; None for itself.
        name: what `stats` and errors call it; None for the name of the function.
    """

    #: Tells those below who may not import this class.
    is_compiled = True

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str] = (),
        backend: str = "auto",
        verify: int = 2,
        bound: Bound | None = None,
        transform: Transform | None = None,
        name: str | None = None,
    ) -> None:
        self._backend = backend
        self._transform = transform
        self._static_names = tuple(static)
        functools.update_wrapper(self, function)
        self.bound = bound
        self.function = function
        self._name: str = getattr(function, "__qualname__", repr(function)) if name is None else name
        self._static = StaticArguments(function, static) if static else None
        self.verify = verify
        self._captured_names = CapturedNames(function)
        self._families: dict[Hashable, Family] = {}
        #: Calls of more keys than are kept.
        self._others = Family()
        self._others.reason = f"more than {_MOST_VARIANTS} kinds of arguments"
        self._last_call: LastCall | None = None
        #: By recipe, what transforms have made of it that runs by one program.
        self._wholes: dict[Hashable, _Whole] = {}
        #: How many calls there were, and what became of them.
        self.counts: Counter[str] = Counter()
        self._own_names: frozenset[str] = frozenset()
        self._own_names = frozenset(vars(self))
        ALL.add(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the function as a method of an instance."""
        return self if instance is None or self.bound is not None else types.MethodType(self, instance)

    def __copy__(self) -> Jitted:
        return self

    def __deepcopy__(self, memo: object) -> Jitted:
        return self

    def __reduce__(self) -> str:
        # As a function: by its name.
        return self.name

    def __repr__(self) -> str:
        done = f"{self.counts['replayed']} of {self.counts['calls']} calls replayed"
        return f"<ag.jit of {self.name}: {done}>"

    def _picture(self, *, folded: bool, most: int) -> Picture:
        """Return the picture of the program that has run last.

        Raises:
            ArgumentError: it has none yet.
        """
        return picture_of_functions([self], self.name, folded, most)

    def last_variant(self) -> Variant | None:
        """Return the program that has run last, or one that has not run; None where there is none."""
        if self._last_call is not None:
            return self._last_call.variant
        return next((one for family in self._families.values() for one in family.variants), None)

    def reasons_for_good(self) -> list[str]:
        """Return why calls are eager for good, of each key for which they are."""
        return [reason for one in self._families.values() if (reason := one.reason or one.refusal) is not None]

    def attributes_of_users(self) -> dict[str, Any]:
        """Return the attributes that are not its own."""
        return {name: value for name, value in vars(self).items() if name not in self._own_names}

    @property
    def name(self) -> str:
        """The name of the function, by which `stats` and errors call it."""
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns.

        Raises:
            GraphError: the function cannot be compiled, and its program would be wrong without a sign of it.
        """
        if self.bound is not None:
            args, kwargs = self.bound.with_others(args, kwargs)
        last, is_tried = self._last_call, False
        if last is not None and last.variant.is_ready(self.verify):
            # Most calls are like the one before them.
            is_tried = True
            try:
                call = self.call_like(last, args, kwargs)
                if call is not None and (last.variant.is_unguarded or last.variant.holds()):
                    result = Computed(last.variant, call).finish()
                    self.counts["calls"] += 1
                    self.counts["replayed"] += 1
                    return result
            except Untraceable:
                # Found again below.
                pass
            except CheckFailed:
                self.counts["failed checks"] += 1
            except Exception as error:
                self.counts["calls"] += 1
                return self._eagerly_after(error, args, kwargs)
        if isinstance(GENERATOR.get(), TracedGenerator) or IS_COMPARING.get():
            # Within another compiled function, which is traced or compared: a part of that program.
            return self.function(*args, **kwargs)
        reason = NOT_TRACED
        for call, variant, family, why in self.attempts(args, kwargs, is_tried):
            if call is None or variant is None:
                reason = why
                if call is not None and family is not None and self._is_due(family):
                    self.trace(family, call)
                    reason = _why_eager(family)
                break
            why_not = self._fuse(variant, call)
            if why_not:
                reason = why_not
                break
            if not self._may_run(variant, family, why_not):
                continue
            try:
                return self._run(variant, call) if family is None else self._replay(variant, family, call)
            except CheckFailed:
                self.counts["failed checks"] += 1
            except Exception as error:
                return self._eagerly_after(error, args, kwargs)
        return self._eagerly(reason, functools.partial(self.function, *args, **kwargs))

    def with_bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with those that the function is bound to."""
        return (args, kwargs) if self.bound is None else self.bound.with_others(args, kwargs)

    def plain(self) -> Callable[..., Any]:
        """Return the function as it was before it was compiled, with what it is bound to now."""
        return self.function if self.bound is None else self.bound.partial(self.function)

    def _eagerly_after(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the function returns after an error in its program, which it raises too, or catches."""
        reason = f"{type(error).__name__} in its program"
        return self._eagerly(reason, functools.partial(self.function, *args, **kwargs))

    def attempts(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_tried: bool = False) -> Iterator[Attempt]:
        """Yield the programs that may suit a call, to be tried one after the other; at last why it is eager.

        Where none suits, the function may be due to be traced.

        Args:
            args: the arguments.
            kwargs: the keyword arguments.
            is_tried: whether the program that has run last does not suit.

        Raises:
            GraphError: the function cannot be compiled, and its program would be wrong without a sign of it.
        """
        self.counts["calls"] += 1
        try:
            last = None if is_tried else self._last_call
            call = None if last is None else self.call_like(last, args, kwargs)
            if last is not None and call is not None and last.variant.begun is None and last.variant.holds():
                yield (call, last.variant, None, "")
            # Other programs of the same key may do.
            call = self.new_call(args, kwargs)
            reason = needs_eager(call.leaves, is_told=True)
            family = self._others if reason is not None else self.family_of(call)
        except Untraceable as error:
            yield (None, None, None, f"{error}")
            return
        if reason is not None:
            yield (call, None, None, reason)
            return
        is_seen = is_profiled()
        if not is_seen:
            self._begin_otherwise(family)
        for variant in tuple(family.variants):
            if not variant.holds() or (is_seen and variant.verified < self.verify):
                continue
            yield (call, variant, family, "")
        if is_seen and family.reason is family.refusal is None:
            yield (call, None, None, _PROFILED)
            return
        family.calls += 1
        yield (call, None, family, _why_eager(family))

    def new_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call with these arguments.

        Raises:
            Untraceable: the function reads too much besides its arguments.
        """
        captured = self._captured_names.read()
        given = (args, kwargs) if self._static is None else self._static.marked(args, kwargs)
        leaves, structure = flatten((*given, captured.values))
        return Call(self._transform, self._captured_names, args, kwargs, captured, leaves, structure)

    def _eagerly(self, reason: str, run: Callable[[], Any]) -> Any:
        self.count_eager(reason)
        return run()

    def count_eager(self, reason: str) -> None:
        """Count a call that is eager, and why."""
        self.counts[f"eager: {reason}"] += 1

    def family_of(self, call: Call) -> Family:
        """Return what is known of calls like this one."""
        key = call.key()
        family = self._families.get(key)
        if family is None:
            with _ADDING:
                if len(self._families) >= _MOST_VARIANTS:
                    return self._others
                family = self._families.setdefault(key, Family())
        return family

    def _may_run(self, variant: Variant, family: Family | None, why_not: str | None) -> bool:
        """Tell whether a program may run or be compared; without its family it is known, and has been compared."""
        return why_not is None and (family is not None or variant.verified >= self.verify)

    @staticmethod
    def _is_due(family: Family) -> bool:
        """Tell whether the function is to be traced for calls of a family, none of whose programs has suited."""
        return family.calls >= _CALLS_BEFORE_TRACE and family.reason is family.refusal is None

    def trace(self, family: Family, call: Call) -> None:
        """Trace the function for calls of a family, or note why that cannot be."""
        self.counts["traces"] += 1
        try:
            tree = call.run_tree, call.leaves, call.structure
            variant = trace_variant(*tree, self.name, self.function, family.beginning)
            variant.may_begin_otherwise = family.beginnings_left > 0
            variant.runner = runner() if self._backend != "table" else None
            if variant.runner is not None and self._backend in ("auto", "fused"):
                variant.fusing = Fusing(variant.program, variant.runner, self._backend == "fused")
        except Untraceable as error:
            family.reason = str(error)
        except Refusal as error:
            family.refusal = str(error)
        except Exception as error:
            # What it raises eagerly, it raises then; and other numbers may raise nothing.
            family.failures += 1
            if family.failures == _MOST_FAILURES:
                family.reason = f"{type(error).__name__} in the traced run: {error}"
        else:
            family.variants.insert(0, variant)
            if len(family.variants) > _MOST_VARIANTS:
                family.reason = f"more than {_MOST_VARIANTS} programs, by the numbers on which its way depends"
                family.variants.clear()
                family.last_calls.clear()

    async def _trace_awaited(self, family: Family, call: Call) -> None:
        """Do what `trace` does, with the machine code that all programs share made by a worker."""
        if self._backend == "table" or runner.cache_info().currsize:
            self.trace(family, call)
            return
        known = list(family.variants)
        await call_on_worker(runner)
        # Another task may have traced it meanwhile, or have changed what it reads.
        with suppress(Untraceable):
            again = self.new_call(call.args, call.kwargs)
            if family.variants == known and self._is_due(family) and self.family_of(again) is family:
                self.trace(family, again)

    def _begin_otherwise(self, family: Family) -> None:
        """Forget the programs of a family where a backward has begun otherwise, so that they are traced for that."""
        begun = next((one.begun for one in family.variants if one.begun is not None), None)
        if begun is None:
            return
        family.beginning = begun
        family.beginnings_left -= 1
        family.variants.clear()
        family.last_calls.clear()
        self._last_call = None
        self.counts["traced again for another backward"] += 1

    def _replay(self, variant: Variant, family: Family, call: Call) -> Any:
        if self.is_compared(variant, family, call):
            return self._eagerly(COMPARED, call.run)
        result = self._run(variant, call)
        self.keep_last(variant, family, call)
        return result

    def is_compared(self, variant: Variant, family: Family, call: Call) -> bool:
        """Compare a program with the function in a call, unless that has been done as often as it is to be.

        Returns:
            Whether it was done now, so that the call is to be eager.

        Raises:
            CheckFailed: a number on which its way depends is another one.
        """
        if variant.verified >= self.verify:
            return False
        before = with_versions(call.numbered)
        difference = verify(variant, call.numbered, call.run_with)
        if difference is not None and with_versions(call.numbered) != before:
            # A worker has compared them, and meanwhile another task has written into what both read.
            self.counts["compared in vain"] += 1
            return True
        variant.verified += 1
        self.counts["verified"] += 1
        if difference is not None and variant.fused is not None:
            self._retire(variant, difference)
            difference = verify(variant, call.numbered, call.run_with)
        if difference is not None:
            family.variants = [one for one in family.variants if one is not variant]
            family.last_calls.pop(variant, None)
            family.reason = difference
        return True

    def keep_last(self, variant: Variant, family: Family, call: Call) -> None:
        """Keep what a call was like that has been replayed: the next one is most often like it."""
        self._last_call = self.last_call(variant, family, call)

    def last_call(self, variant: Variant, family: Family, call: Call) -> LastCall | None:
        """Return what the next call is compared with after one that was replayed; None if it is to be by its key.

        That is so where static arguments are compared, and where calls of one key differ in what only this compares.
        """
        if self._static is not None:
            return None
        last = family.last_calls.get(variant)
        if last is None or last.match(call.args, call.kwargs, call.captured) is None:
            if family.last_calls_made >= _MOST_LAST_CALLS:
                return None
            last = LastCall(variant, call.leaves, call.structure, call.captured, call.note_state())
            family.last_calls[variant] = last
            family.last_calls_made += 1
        return last

    def call_like(self, last: LastCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """Return a call with these arguments that may run the same program as another one; None if that is not known.

        Raises:
            Untraceable: the function reads too much besides its arguments.
        """
        names = self._captured_names
        captured = names.read()
        parts = last.match(args, kwargs, captured)
        return None if parts is None else Call.like(last, parts, self._transform, names, args, kwargs, captured)

    async def computed(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        calls: MeasuredCalls,
        place_of: Callable[[Variant], PlaceOf | None] | None = None,
        comparisons: MeasuredCalls | None = None,
    ) -> Computed | str:
        """Return what a program has computed of an awaited call; where there is none, why the call is eager.

        Args:
            args: the arguments.
            kwargs: the keyword arguments.
            calls: how long such calls have taken, so that a worker makes the long ones.
            place_of: returns, for a program, what tells where an output is put, as for Computed.
            comparisons: the same for comparisons of programs, which call the function; None for all of them here.

        Raises:
            GraphError: the function cannot be compiled, and its program would be wrong without a sign of it.
        """
        reason = NOT_TRACED
        for call, variant, family, why in self.attempts(args, kwargs):
            if call is None or variant is None:
                reason = why
                if call is not None and family is not None and self._is_due(family):
                    await self._trace_awaited(family, call)
                    reason = _why_eager(family)
                break
            # What it computes with is known before this suspends: another task may give an argument another array.
            call.arrays()
            why_not = await self._fuse_awaited(variant, call)
            if why_not:
                reason = why_not
                break
            if not self._may_run(variant, family, why_not):
                continue
            try:
                is_new = family is not None and variant.verified < self.verify
                if is_new and await _made(comparisons, self.is_compared, variant, family, call):
                    reason = COMPARED
                    break
                place = None if place_of is None else place_of(variant)
                computed: Computed = await _made(calls, Computed, variant, call, place)
            except CheckFailed:
                self.counts["failed checks"] += 1
            except Exception as error:
                # It is raised by the eager call too, and told there what it is of.
                reason = f"{type(error).__name__} in its program"
                break
            else:
                self.counts["replayed"] += 1
                if family is not None:
                    self.keep_last(variant, family, call)
                return computed
        self.count_eager(reason)
        return reason

    def whole(self, made: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return what transforms have made of this function, run by one program wherever there is one.

        Args:
            made: an async function with a recipe that has a key.
        """
        key = key_of_recipe(made)
        whole = self._wholes.get(key)
        if whole is None:
            whole = _Whole(self, made)
            if len(self._wholes) < _MOST_WHOLES:
                self._wholes[key] = whole

        @functools.wraps(made)
        async def by_program(*args: Any, **kwargs: Any) -> Any:
            if isinstance(GENERATOR.get(), TracedGenerator):
                # Within another compiled function, which is traced.
                return await made(*args, **kwargs)
            computed = await whole.computed(args, kwargs)
            if isinstance(computed, str):
                # What is to have a program of its own soon needs none of its inner function.
                return await (whole.plain() if computed in (NOT_TRACED, COMPARED) else made)(*args, **kwargs)
            result = computed.finish()
            await keep_pace()
            return result

        return by_program

    def transformed(self, transform: Transform | None, name: str) -> Jitted:
        """Return what a transform makes of the function, compiled in the same way; None is for the function itself."""
        return Jitted(self.function, self._static_names, self._backend, self.verify, self.bound, transform, name)

    def _fuse(self, variant: Variant, call: Call) -> str | None:
        """Go on with the kernels of a program, or do without them.

        Returns:
            None where the program may run; else why the call is eager, or "" where a number is not that of the trace.
        """
        if is_profiled():
            return None
        if variant.fused is not None and variant.fused.is_in_vain():
            self._retire(variant, "in many of its runs there is an error or a NaN")
        fusing = variant.fusing
        if fusing is None:
            return None
        try:
            found = fusing.advance(variant, call.arrays())
        except CheckFailed:
            self.counts["failed checks"] += 1
            return ""
        except Exception as error:
            return f"{type(error).__name__} in its program"
        if found is not None:
            variant.fusing = None
            self.counts[found] += 1
            if found == FUSED:
                # Compared with the function as the program was without kernels.
                variant.verified = 0
        return None

    async def _fuse_awaited(self, variant: Variant, call: Call) -> str | None:
        """Do what `_fuse` does; kernels that are compiled are compared with the program by a worker."""
        if variant.fusing is not None and variant.fusing.is_compiled():
            return await call_on_worker(functools.partial(self._fuse, variant, call))
        return self._fuse(variant, call)

    def _retire(self, variant: Variant, reason: str) -> None:
        """Run a program without kernels from now on."""
        variant.use(None)
        self.counts[f"not fused: {reason}"] += 1

    def _run(self, variant: Variant, call: Call) -> Any:
        """Return what a call returns, by a program.

        Raises:
            CheckFailed: a number on which its way depends is another one.
        """
        computed = Computed(variant, call)
        result = computed.finish()
        self.counts["replayed"] += 1
        return result


def _why_eager(family: Family) -> str:
    """Return why a call is eager that no program of its family suits.

    Raises:
        GraphError: the function cannot be compiled, and its program would be wrong without a sign of it.
    """
    if family.refusal is not None:
        raise GraphError(family.refusal)
    return family.reason or NOT_TRACED


async def _made(calls: MeasuredCalls | None, function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call, which a worker makes where such ones are long and this one may suspend."""
    return function(*args) if calls is None or BLOCKING.get() else await calls.call(function, *args)


def picture_of_functions(functions: Sequence[Jitted], title: str, folded: bool, most: int) -> Picture:
    """Return the picture of the programs of compiled functions, those of segments one after the other.

    Raises:
        ArgumentError: none has a program yet.
    """
    numbered = [(number, one.last_variant()) for number, one in enumerate(functions, 1)]
    found = [
        shown_of(variant, f"segment {number}" if len(functions) > 1 else "")
        for number, variant in numbered
        if variant is not None
    ]
    if not found:
        reasons = [reason for one in functions for reason in one.reasons_for_good()]
        raise ArgumentError(
            f"{title} has no program: {'; '.join(reasons)}"
            if reasons
            else f"{title} has no program yet: call it three times before, or draw what ag.jit.explain returns for it "
            "and some arguments"
        )
    return picture_of(found, title, folded, most)


@final
class _Whole:
    """What transforms have made of a compiled function, compiled as one.

    Args:
        compiled: the function.
        made: what they have made.
    """

    __slots__ = ("_calls", "_jitted", "_made")

    def __init__(self, compiled: Jitted, made: Callable[..., Any]) -> None:
        name = str(made.__qualname__)
        self._jitted = compiled.transformed(blocking_transform(made, compiled.bound, name), name)
        self._calls = MeasuredCalls()
        self._made = made

    def plain(self) -> Callable[..., Any]:
        """Return the same of the function as it was before it was compiled, with what it is bound to now."""
        return made_again(self._made, self._jitted.plain())

    async def computed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Computed | str:
        """Return what the program has computed of a call; where there is none, why."""
        try:
            return await self._jitted.computed(*self._jitted.with_bound(args, kwargs), self._calls)
        except GraphError as error:
            # The function itself raises it, or does not where it is not compiled whole.
            return f"{error}"


@final
class Computed:
    """What a program has computed of a call; what that changes is changed by `commit`.

    Args:
        variant: the program.
        call: the call.
        place: returns the arrays into which outputs are put, by their numbers and arrays like them; None for new ones.

    Raises:
        CheckFailed: a number on which the way of the program depends is another one.
    """

    __slots__ = ("_call", "lease", "outputs", "state")

    def __init__(self, variant: Variant, call: Call, place: PlaceOf | None = None) -> None:
        self._call = call
        self.lease = Lease(variant)
        #: Of the generator before the run; None where nothing is drawn.
        self.state: Any = generator().bit_generator.state if variant.program.is_random else None
        try:
            run = self.lease.table.run_forward
            if PROGRAMS.all_put:
                run = watched(self.lease.table, variant.name, "forward", run)
            arrays = call.known_arrays
            self.outputs: list[np.ndarray] = run(call.arrays() if arrays is None else arrays, place)
        except BaseException:
            if self.state is not None:
                # What it has drawn is drawn again, by another program or by the function.
                generator().bit_generator.state = self.state
            raise

    def commit(self) -> None:
        """Write into the arguments that the function changes, such as running statistics."""
        for index, array in self.lease.table.commits():
            prepare_write(self._call.numbered[index])
            np.copyto(self._call.numbered[index]._data, array)

    def finish(self) -> Any:
        """Change what the call changes; return what the function returns, with its history."""
        variant, call, lease = self.lease.variant, self._call, self.lease
        if variant.program.commits:
            self.commit()
        if not (variant.wanted and variant.has_graph):
            return self.result()
        if call.known is None:
            call.note_state()
        node = ReplayNode(lease, call, self.state, self.outputs)
        if variant.returns_loss:
            # Most functions: without a list of what they return.
            return Tensor(self.outputs[0], node, 0, node.device)
        return self.result(node)

    def result(self, node: ReplayNode | None = None) -> Any:
        """Return what the function returns, with `node` as its history."""
        variant = self.lease.variant
        found: dict[int, Any] = {}
        arrays, leaves = self.outputs, self._call.leaves
        # Without a call for most outputs of a training step.
        results = [
            arrays[one.index] if one.kind == "array" else _result(one, node, arrays, leaves, found)
            for one in variant.outputs
        ]
        return results[0] if variant.structure is LEAF else unflatten(variant.structure, results)


def _result(
    output: Output,
    node: ReplayNode | None,
    arrays: Sequence[Any],
    leaves: Sequence[Any],
    found: dict[int, Any],
) -> Any:
    """Return a leaf of a result, no array; `found` has the tensors that were made before, by their numbers."""
    if output.kind == "argument":
        return leaves[output.index]
    if output.kind == "constant":
        return output.value
    index = output.index
    if output.kind == "number":
        return arrays[index][()]
    if index not in found:
        if node is not None and output.results_of_it:
            found[index] = Tensor(arrays[index], node.intermediate(output, arrays[index]), 0, node.device)
        elif node is not None and output.requires_grad:
            found[index] = Tensor(arrays[index], node, index, node.device)
        else:
            found[index] = Tensor(arrays[index], None, 0, output.device)
    return found[index]
