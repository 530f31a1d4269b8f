"""`ag.jit`: functions whose forward and backward become one program."""

from __future__ import annotations

import functools
import inspect
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Never, final, overload

from ..core.settings.arguments import check_function, must_be, number, takes, truth, whole_number
from ..core.settings.elsewhere import JIT_ATTRIBUTES, hint_at
from ..errors import ArgumentError, ArgumentTypeError
from ..optim.clipping import largest_norm
from ..optim.optimizer import Optimizer
from ..transforms.recipes import innermost
from ..transforms.vmap import is_map
from .blocking_transform import blocking_transform
from .bound import Bound, unbound
from .explanation import Explanation, explain
from .jitted import ALL, Jitted
from .jitted_coroutine import JittedCoroutine
from .runner import missing_extra
from .train_step import Clipping, TrainStep

__all__ = ["Jit", "jit"]

#: By an option of JAX's jit or of torch.compile, what to write.
_OTHER_OPTIONS = {
    "static_argnums": "write static='name' with the names of the arguments, or static=('one', 'other')",
    "static_argnames": "write static='name', or static=('one', 'other')",
    "donate_argnums": "leave it out, since the memory of a program is used again by itself",
    "fullgraph": "leave it out, and see what ag.jit.explain(fn, *args) says is not compiled",
    "mode": "write backend='fused', or leave it out",
    "dynamic": "leave it out, since each shape has a program of its own",
}
_OPTIONS = {
    "ag.jit": "static, backend and verify",
    "ag.jit.train_step": "clip_grad_norm, clip_grad_value, has_aux, static, backend and verify",
}
_BACKENDS = ("auto", "table", "runner", "fused")


@final
class Jit:
    """Compile functions: `ag.jit(fn)` does what `fn` does, bit for bit, by one program for forward and backward.

    The first call is eager. The second one runs `fn` over arrays that record NumPy's calls, forward and backward;
    from then on these calls run by themselves, on memory that is there before. What `fn` does besides, such as to
    print, happens only where it runs.

    Args:
        fn: a function of trees of tensors, arrays, modules and what else is the same in many calls.
        static: the names of arguments that are compared by their own `==`; each value has a program.
        backend: "table", NumPy's functions called by Python; "runner", machine code that calls NumPy's inner loops, of
            the extra `jit`; "fused", the same with loops in the place of neighbouring elementwise steps, compiled
            before the first run; "auto", what is installed, with such loops after some calls.
        verify: how many runs of each program are compared with `fn`; one that differs in a bit is not used.

    Returns:
        A function with the arguments of `fn`; without `fn`, a decorator.

    Raises:
        ArgumentTypeError: `fn` is no function, or a generator.
        ArgumentError: an option is invalid.

    Of an `async def`, the statements between its awaits are compiled, each run of them as a function.

    Source: jax.jit.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> @ag.jit
        ... def loss(w, x):
        ...     return (np.tanh(x @ w) ** 2).sum()
        >>> w = ag.tensor([[1.0], [2.0]], requires_grad=True)
        >>> for _ in range(5):
        ...     value = loss(w, np.ones((3, 2)))
        >>> ag.sync.backward(value)
        >>> loss
        <ag.jit of loss: 1 of 5 calls replayed>
    """

    __slots__ = ()

    @overload
    def __call__(
        self, fn: None = None, *, static: str | Iterable[str] = (), backend: str = "auto", verify: int = 2
    ) -> Callable[[Callable[..., Any]], Jitted]: ...

    @overload
    def __call__(
        self,
        fn: Callable[..., Coroutine[Any, Any, Any]],
        *,
        static: str | Iterable[str] = (),
        backend: str = "auto",
        verify: int = 2,
    ) -> JittedCoroutine: ...

    @overload
    def __call__(
        self, fn: Callable[..., Any], *, static: str | Iterable[str] = (), backend: str = "auto", verify: int = 2
    ) -> Jitted: ...

    def __call__(
        self,
        fn: Any = None,
        *,
        static: str | Iterable[str] = (),
        backend: str = "auto",
        verify: int = 2,
        **others: Never,
    ) -> Any:
        """Return the function, compiled; a decorator where no function is given."""
        _check_options("ag.jit", others, static, backend, verify)
        if fn is None:
            return functools.partial(self, static=static, backend=backend, verify=verify)
        function, bound = _unbound(fn, "ag.jit")
        if inspect.iscoroutinefunction(function):
            if static:
                raise ArgumentError(f"{function.__qualname__} is an async def, whose segments take no static arguments")
            return JittedCoroutine(function, backend, verify, bound)
        return Jitted(function, _static_names(function, static), backend, verify, bound)

    def train_step(
        self,
        loss_fn: Callable[..., Any],
        optimizer: Optimizer,
        *,
        clip_grad_norm: float | None = None,
        clip_grad_value: float | None = None,
        has_aux: bool = False,
        static: str | Iterable[str] = (),
        backend: str = "auto",
        verify: int = 2,
        **others: Never,
    ) -> TrainStep:
        """Return a training step: `await step(*args)` computes the loss, its gradients and the update by one program.

        A step does what these lines do, bit for bit: `loss = loss_fn(*args)`, the gradients of the parameters of the
        optimizer, clipped if asked for, and `await optimizer.step_async(gradients)`. No `.grad` is read or changed. A
        step that takes longer than `ag.loop_budget` runs on a worker. Parameters get their new values at the end, all
        at once, in new arrays; a step that fails or is cancelled changes none.

        Args:
            loss_fn: a function that returns the loss, a tensor of one number. Its model is an argument, or read from
                its closure or globals.
            optimizer: what updates the parameters; a schedule goes on setting its options. What cannot be a part of the
                program, as the steps of LBFGS, it does by itself.
            clip_grad_norm: the largest norm, as for `optim.clip_grad_norm`; `math.inf` to know the norm alone.
            clip_grad_value: the largest absolute value, as for `optim.clip_grad_value`.
            has_aux: whether `loss_fn` returns a pair of the loss and something else, which the step then returns too.
            static: as for `ag.jit`.
            backend: as for `ag.jit`.
            verify: as for `ag.jit`.
            others: options of other libraries; each is refused, by what to write for it.

        Returns:
            An object that is called with the arguments of `loss_fn`, and awaited; `grad_norm` is the norm last clipped.

        Raises:
            ArgumentTypeError: `loss_fn` is no function, or an `async def`; `optimizer` is no Optimizer.
            ArgumentError: an option is invalid.

        Example:
            >>> import numpy as np, asyncgrad as ag
            >>> from asyncgrad import optim
            >>> w = ag.tensor([2.0, 1.0], requires_grad=True)
            >>> def loss_fn(x, y):
            ...     return ((x @ w - y) ** 2).mean()
            >>> step = ag.jit.train_step(loss_fn, optim.Adam([w], lr=0.5))
            >>> async def main():
            ...     for _ in range(8):
            ...         loss = await step(np.eye(2), np.array([1.0, -1.0]))
            ...     return loss.item() < 0.5
            >>> ag.run(main())
            True
            >>> step
            <ag.jit.train_step of loss_fn, by Adam: 3 of 8 steps by a program>
        """
        _check_options("ag.jit.train_step", others, static, backend, verify)
        function, bound = _loss_function(loss_fn, optimizer)
        clipping, names = _clipping(clip_grad_norm, clip_grad_value), _static_names(function, static)
        return TrainStep(function, optimizer, clipping, truth(has_aux, "has_aux"), names, backend, verify, bound)

    def stats(self) -> dict[str, dict[str, int]]:
        """Return, by the name of each compiled function, how many calls were replayed, and why others were eager.

        Functions of one name are counted together; `fn.counts` are those of one.

        Example:
            >>> import asyncgrad as ag
            >>> @ag.jit
            ... def double(x):
            ...     return x * 2
            >>> double(ag.tensor(1.0)).item()
            2.0
            >>> ag.jit.stats()["double"]
            {'calls': 1, 'eager: not traced yet': 1}
        """
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for one in list(ALL):
            found[one.name] += one.counts
        return {name: dict(counts) for name, counts in found.items()}

    def explain(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
        """Return the program that a call of a function has, and its guards; where it has none, why.

        Args:
            fn: a function, compiled or not, its gradient by a transform, or a training step; it is traced with these
                arguments, and changes nothing.
            args: arguments for it.
            kwargs: keyword arguments for it.

        Example:
            >>> import asyncgrad as ag
            >>> print(ag.jit.explain(lambda x: x * x, ag.tensor([3.0], requires_grad=True)))
            a program of 1 call forward and 4 backward, for arguments
              Tensor of shape (1,) and dtype float64, requires grad
            forward
              %1 = multiply(%0, %0)
            backward
              %3 = copyto(%2)
              %4 = multiply(%3, %0)
              %5 = multiply(%3, %0)
              %6 = add(%4, %5)
        """
        if isinstance(fn, TrainStep):
            return explain(*fn.compiled(args, kwargs))
        if isinstance(fn, types.MethodType) and isinstance(fn.__func__, Jitted):
            return explain(fn.__func__, (fn.__self__, *args), kwargs)
        inner: Callable[..., Any] = innermost(fn)
        is_cut = inspect.iscoroutinefunction(_unbound(inner, "ag.jit.explain")[0])
        if is_cut or is_map(fn):
            instead = (
                "one of the segments of ag.jit(fn).segments" if is_cut else "the function that it maps, with one row"
            )
            raise ArgumentTypeError(takes("ag.jit.explain", "a plain function", fn, f"pass {instead}"))
        compiled = inner if isinstance(inner, Jitted) else self(inner)
        if inner is not fn:
            name = str(fn.__qualname__)
            compiled = compiled.transformed(blocking_transform(fn, compiled.bound, name), name)
        return explain(compiled, args, kwargs)

    def __repr__(self) -> str:
        return "ag.jit"


def _check_options(name: str, others: dict[str, Never], static: Any, backend: Any, verify: Any) -> None:
    if others:
        other = next(iter(others))
        raise ArgumentTypeError(
            f"{name} has no option {other!r}: {_OTHER_OPTIONS.get(other, f'it has {_OPTIONS[name]}')}"
        )
    if not isinstance(static, (str, Iterable)):
        raise ArgumentTypeError(must_be("static", "the name of an argument, or several", static))
    if not isinstance(backend, str) or backend not in _BACKENDS:
        raise ArgumentError(must_be("backend", " or ".join(map(repr, _BACKENDS)), backend))
    if backend in ("runner", "fused") and missing_extra() is not None:
        raise ArgumentError(f"there is no backend {backend!r}: {missing_extra()}")
    whole_number(verify, "verify", 0)


def _unbound(fn: Any, name: str) -> tuple[Callable[..., Any], Bound | None]:
    """Return a plain function or an `async def`, and what it is bound to.

    Raises:
        ArgumentTypeError: `fn` is neither.
    """
    if isinstance(fn, (classmethod, staticmethod, property, functools.cached_property)):
        hint = f"write @{type(fn).__name__} above @ag.jit"
        raise ArgumentTypeError(takes(name, "a function", fn, hint))
    if isinstance(fn, functools.partialmethod):
        shown = getattr(fn.func, "__name__", "fn")
        hint = f"write functools.partialmethod(ag.jit({shown}), ...)"
        raise ArgumentTypeError(takes(name, "a function", fn, hint))
    if not callable(fn) or isinstance(fn, type):
        raise ArgumentTypeError(takes(name, "a function", fn))
    function, bound = unbound(fn)
    # Not of `fn`, which may be an object whose `__call__` is one.
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ArgumentTypeError(takes(name, "a function", fn, "a generator keeps its variables between two values"))
    return function, bound


def _loss_function(loss_fn: Any, optimizer: Any) -> tuple[Callable[..., Any], Bound | None]:
    """Return the function of a training step, and what it is bound to.

    Raises:
        ArgumentTypeError: it is no plain function, or `optimizer` is no Optimizer.
    """
    check_function(loss_fn, "ag.jit.train_step", optimizer, kinds="a plain function")
    function, bound = _unbound(loss_fn, "ag.jit.train_step")
    if inspect.iscoroutinefunction(function):
        hint = "compile the async def by ag.jit, and await loss.backward() and optimizer.step_async()"
        raise ArgumentTypeError(takes("ag.jit.train_step", "a plain function", loss_fn, hint))
    if not isinstance(optimizer, Optimizer):
        hint = "write ag.jit.train_step(loss_fn, optim.Adam(params))"
        raise ArgumentTypeError(takes("ag.jit.train_step", "an Optimizer as its second argument", optimizer, hint))
    return function, bound


def _clipping(norm: float | None, value: float | None) -> Clipping:
    if norm is not None and value is not None:
        raise ArgumentError("gradients are clipped by clip_grad_norm or by clip_grad_value: give one of the two")
    return Clipping(
        None if norm is None else largest_norm(norm, "clip_grad_norm"),
        None if value is None else number(value, "clip_grad_value", 0),
    )


def _static_names(fn: Callable[..., Any], static: str | Iterable[str]) -> list[str]:
    names = [static] if isinstance(static, str) else list(static)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(must_be("static", "the name of an argument, or several", static))
    if not names:
        return names
    try:
        parameters = inspect.signature(fn).parameters
    except ValueError as error:
        # Some functions in C tell none, and before NumPy 2.4 no ufunc does.
        shown = getattr(fn, "__name__", fn)
        raise ArgumentError(
            f"static={names}, and {shown} does not tell its parameters: write a function that calls it"
        ) from error
    for name in names:
        kind = getattr(parameters.get(name), "kind", None)
        if kind in (None, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ArgumentError(
                f"static has {name!r}, and {getattr(fn, '__qualname__', fn)} has the parameters {', '.join(parameters)}"
            )
    return names


hint_at(Jit, JIT_ATTRIBUTES)
jit = Jit()
