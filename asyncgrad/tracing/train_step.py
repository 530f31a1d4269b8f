"""A compiled training step: loss, gradients, clipping and the update of an optimizer, by one program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..core.arrays.values import is_recorder, recorded_whole
from ..core.backward import grad
from ..core.engine.measured_calls import MeasuredCalls
from ..core.settings.context import enable_grad
from ..core.settings.loop_turn import keep_pace
from ..core.tensor import Tensor
from ..core.tree import structure as tree
from ..errors import ArgumentTypeError, GraphError
from ..observing.visualize.picture import Picture
from ..optim.clipping import clip_grad_norm, clip_grad_value, clipped_array, norm_and_scale
from ..optim.elementwise import NewValues
from ..optim.gradients import Evaluation, ParameterGradients
from ..optim.optimizer import Optimizer
from ..sync import grad as blocking_grad
from ..transforms.arguments import as_scalar
from .bound import Bound
from .call_key import Static, without_mark
from .jitted import Computed, Jitted, StaticArguments, picture_of_functions
from .table import PlaceOf
from .trace import Untraceable
from .updates import Formula, Places, Update, has_hooks, memory_of, parameters_of, update_of
from .variant import Variant, refuse_hooks_and_other_leaves

__all__ = ["Clipping", "TrainStep"]


@final
class _NormAndScale:
    """The norm of gradients and what they are multiplied by, as one call of a program.

    Args:
        most: the largest norm.
    """

    __slots__ = ("_most",)

    __name__ = "norm_and_scale"

    def __init__(self, most: float) -> None:
        self._most = most

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return them as arrays without axes."""
        total, scale = norm_and_scale(arrays, self._most)
        return np.array(total), np.array(scale)


@final
class Clipping:
    """How gradients are clipped before a step.

    Args:
        norm: the largest norm of all together; None for any.
        value: the largest absolute value of an element; None for any.
    """

    __slots__ = ("norm", "value")

    def __init__(self, norm: float | None, value: float | None) -> None:
        self.norm = norm
        self.value = value

    def clip(self, arrays: Sequence[Any]) -> tuple[list[Any], float | None]:
        """Return gradients clipped, and their norm before, where that is limited.

        Raises:
            InvalidGradientError: one is not finite; the message names it.
        """
        if self.norm is not None:
            clipped, norm = clip_grad_norm(list(arrays), self.norm)
            return clipped, norm
        return list(arrays) if self.value is None else clip_grad_value(list(arrays), self.value), None

    def clip_recorded(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return what `clip` does, by calls that do not depend on numbers; the norm is an array.

        Raises:
            InvalidGradientError: one is not finite.
        """
        defined = [one for one in arrays if one is not None]
        if self.value is not None:
            return [None if one is None else _whole(clipped_array, one, self.value) for one in arrays], None
        if self.norm is None or not defined:
            return list(arrays), None if self.norm is None else np.zeros(())
        norm, scale = _whole(_NormAndScale(self.norm), *defined)
        return [None if one is None else one * scale.astype(one.real.dtype) for one in arrays], norm


def _whole(function: Callable[..., Any], array: Any, *others: Any) -> Any:
    return recorded_whole(function, array, *others) if is_recorder(array) else function(array, *others)


@final
class _Body:
    """What is compiled: a function of a step's arguments, of the parameters and of what the optimizer has.

    Args:
        name: that of the step.
        clipping: how gradients are clipped.
        has_aux: whether the function of the user returns something beside the loss.
    """

    __slots__ = ("_clipping", "_has_aux", "name")

    def __init__(self, name: str, clipping: Clipping, has_aux: bool) -> None:
        self.name: str = name
        self._clipping = clipping
        self._has_aux = has_aux

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is compiled of a function: what computes its loss and what follows."""
        return functools.partial(self._run, function)

    def _run(
        self,
        function: Callable[..., Any],
        plan: tuple[Formula, ...] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        params: list[Tensor],
        others: list[Any],
    ) -> Any:
        """Return the loss, what came with it, for each parameter its gradient or new values, and the norm."""
        given = [without_mark(one) for one in args]
        with enable_grad():
            returned = function(*given, **{name: without_mark(one) for name, one in kwargs.items()})
        loss, aux = self.split(returned)
        if is_recorder(loss._data):
            # What stands for an argument in the traced run records what is done to it.
            refuse_hooks_and_other_leaves([loss], lambda leaf: is_recorder(leaf._data), self.name)
        found = blocking_grad(loss, params, allow_unused=True)
        arrays, norm = self._clipping.clip_recorded([None if one is None else one._data for one in found])
        if plan is None:
            return loss.detach(), aux, arrays, norm
        values: list[Any] = []
        for formula, param, array in zip(plan, params, arrays, strict=True):
            values += formula.new_values(param._data, array, others)
        return loss.detach(), aux, values, norm

    def split(self, returned: Any) -> tuple[Tensor, Any]:
        """Return the loss, and what came with it without a history.

        Raises:
            ArgumentTypeError: there is something beside the loss, or nothing where there should be.
            GradientTypeError, InvalidRootError: the loss is no tensor of one real number.
        """
        if self._has_aux:
            if type(returned) is not tuple or len(returned) != 2:
                raise ArgumentTypeError(
                    f"{self.name} has has_aux=True, so its function must return a pair (loss, aux), not "
                    f"{type(returned).__name__}: write return loss, {{'accuracy': accuracy}}"
                )
            loss, aux = returned
            return as_scalar(loss, self.name), tree.map(_without_history, aux)
        if type(returned) is tuple:
            raise ArgumentTypeError(
                f"{self.name}: the function returns a tuple of {len(returned)}, and must return the loss alone: "
                "write ag.jit.train_step(loss_fn, optimizer, has_aux=True) for a pair (loss, aux)"
            )
        return as_scalar(returned, self.name), None


def _without_history(leaf: object) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


@final
class TrainStep:
    """What `ag.jit.train_step` returns: `await step(*args)` is one step of training.

    Args:
        loss_fn: the function of the user.
        optimizer: what updates the parameters.
        clipping: how gradients are clipped.
        has_aux: whether `loss_fn` returns a pair of the loss and something else.
        static: as for `ag.jit`.
        backend: as for `ag.jit`.
        verify: as for `ag.jit`.
        bound: the arguments that `loss_fn` is bound to: the object of a method, those of a partial.

    Attributes:
        grad_norm: the norm of all gradients in the last step before they were clipped; None where no norm is limited.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_bound",
        "_calls",
        "_clipping",
        "_comparisons",
        "_has_aux",
        "_jitted",
        "_loss_calls",
        "_optimizer",
        "_places",
        "_static",
        "_update",
        "grad_norm",
    )

    def __init__(
        self,
        loss_fn: Callable[..., Any],
        optimizer: Optimizer,
        clipping: Clipping,
        has_aux: bool,
        static: Sequence[str],
        backend: str,
        verify: int,
        bound: Bound | None,
    ) -> None:
        name = f"train_step of {getattr(loss_fn, '__qualname__', repr(loss_fn))}"
        self._body = _Body(name, clipping, has_aux)
        self._jitted = Jitted(loss_fn, (), backend, verify, None, self._body.of, name)
        self._static = StaticArguments(loss_fn, static) if static else None
        self._bound = bound
        self._optimizer = optimizer
        self._has_aux = has_aux
        self._calls, self._loss_calls, self._comparisons = MeasuredCalls(), MeasuredCalls(), MeasuredCalls()
        self._clipping = clipping
        #: The program that has run last, for which update, and where the new values are among its outputs.
        self._places: tuple[tuple[Update, Variant] | None, Places] = None, {}
        #: What the last step has read; None where its update was no part of a program.
        self._update: Update | None = None
        self.grad_norm: float | None = None

    def __repr__(self) -> str:
        counts = self._jitted.counts
        done = f"{counts['replayed']} of {counts['calls']} steps by a program"
        return f"<ag.jit.{self._body.name}, by {type(self._optimizer).__name__}: {done}>"

    def _picture(self, *, folded: bool, most: int) -> Picture:
        """Return the picture of the program of a step."""
        return picture_of_functions([self._jitted], self._body.name, folded, most)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss, and change the parameters; suspends, and takes turns with other steps of the optimizer.

        Returns:
            The loss before the update, a Tensor without a history; with `has_aux` a pair of it and what came with it.

        Raises:
            GradientTypeError, InvalidRootError: the loss is no tensor of one real number.
            InvalidGradientError: gradients are to be clipped, and one is not finite. Nothing has changed.
            OverlappingStepsError: something else has written into the parameters meanwhile.
        """
        await keep_pace()
        optimizer = self._optimizer
        if self._bound is not None:
            args, kwargs = self._bound.with_others(args, kwargs)
        async with optimizer._tracker.turn():
            if optimizer._evaluates_again:
                return await self._step_by_evaluations(args, kwargs)
            update = self._update_of_now()
            if update is not None:
                done = await self._step_by_program(update, args, kwargs)
                if done is not None:
                    return self._result(*done)
            loss, aux, gradients = await self._gradients(args, kwargs, update is None)
            await optimizer._step_in_turn(gradients, None)
            return self._result(loss, aux)

    def compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Jitted, tuple[Any, ...], dict[str, Any]]:
        """Return what is compiled of a step, and its arguments."""
        if self._bound is not None:
            args, kwargs = self._bound.with_others(args, kwargs)
        return self._jitted, self._given(update_of(self._optimizer), args, kwargs), {}

    def _update_of_now(self) -> Update | None:
        """Return what the next step of the optimizer reads; None where its update is no part of a program."""
        if self._update is None or not self._update.renew():
            self._update = update_of(self._optimizer)
        return self._update

    def _result(self, loss: Tensor, aux: Any) -> Any:
        return (loss, aux) if self._has_aux else loss

    async def _step_by_evaluations(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Step by an optimizer that asks for the loss at several points."""
        first: list[Any] = []

        async def closure() -> Evaluation:
            loss, aux, gradients = await self._gradients(args, kwargs, True)
            first.append(self._result(loss, aux))
            return Evaluation(loss, gradients)

        await self._optimizer._step_in_turn(None, closure)
        return first[0]

    async def _step_by_program(
        self, update: Update, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tensor, Any] | None:
        """Make a step by a program; return the loss and what came with it, or None where there is no program."""
        values = update.new_values()
        found = await self._computed(update, args, kwargs, values)
        if found is None:
            return None
        loss, aux, arrays, norm = found.result()
        update.publish(values, arrays)
        self._commit(found, norm)
        return loss, aux

    def _commit(self, computed: Computed, norm: Any) -> None:
        """Change what a program changes besides parameters, and keep the norm of the gradients."""
        computed.commit()
        self.grad_norm = None if norm is None else float(norm)

    async def _gradients(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], may_replay: bool
    ) -> tuple[Tensor, Any, ParameterGradients]:
        """Return the loss, what came with it, and clipped gradients."""
        params = parameters_of(self._optimizer)
        found = await self._computed(None, args, kwargs, None) if may_replay else None
        if found is not None:
            loss, aux, arrays, norm = found.result()
            self._commit(found, norm)
        else:
            with enable_grad():
                returned = await self._loss_calls.call(functools.partial(self._jitted.function, *args, **kwargs))
            loss, aux = self._body.split(returned)
            grads = await grad(loss, params, allow_unused=True)
            arrays, self.grad_norm = self._clipping.clip([None if one is None else one._data for one in grads])
            loss = loss.detach()
        pairs = [(param, array) for param, array in zip(params, arrays, strict=True) if array is not None]
        return loss, aux, ParameterGradients(pairs)

    async def _computed(
        self, update: Update | None, args: tuple[Any, ...], kwargs: dict[str, Any], values: NewValues | None
    ) -> Computed | None:
        """Return what a program has computed of a step; None where there is none, and the step is eager."""

        def place_of(variant: Variant) -> PlaceOf | None:
            if update is None or values is None:
                return None
            return memory_of(self._places_of(update, variant), values)

        try:
            given = self._given(update, args, kwargs)
            found = await self._jitted.computed(given, {}, self._calls, place_of, self._comparisons)
            return None if isinstance(found, str) else found
        except (Untraceable, GraphError) as error:
            # What `ag.jit` refuses is no mistake here: a step does what its lines do.
            self._jitted.count_eager(f"{error}")
            return None

    def _places_of(self, update: Update, variant: Variant) -> Places:
        """Return which output of a program is which new value of a parameter or its state."""
        last, places = self._places
        if last != (update, variant):
            places = update.places_of(tree.unflatten(variant.structure, variant.outputs)[2])
            self._places = (update, variant), places
        return places

    def _given(self, update: Update | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of what is compiled.

        Raises:
            Untraceable: a parameter has a hook, which is called eagerly.
        """
        if self._static is not None:
            args, kwargs = self._static.marked(args, kwargs)
        if update is not None:
            return update.plan, args, kwargs, update.params, update.others
        params = parameters_of(self._optimizer)
        if any(map(has_hooks, params)):
            raise Untraceable("a parameter has a hook")
        return Static(None), args, kwargs, params, []
