"""What SciPy's solvers find with functions of the user, plain or `async def`, as functions of the parameters."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import Any, final

import numpy as np

from ..core.engine.notes import add_note
from ..core.function.function import Function
from ..core.graph.saved import ConstantVersions
from ..core.settings.awaiting import finish
from ..core.settings.context import BLOCKING, is_grad_enabled, is_kind, watched_no_grad
from ..core.settings.loop_turn import keep_pace
from ..core.settings.without_suspending import run_without_suspending
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import leaves
from ..errors import ArgumentTypeError, BlockingError
from ..transforms.arguments import require_tensor
from ..transforms.captured import CapturedTensors

__all__ = [
    "Problem",
    "array_of",
    "call_differentiated",
    "call_solver",
    "call_user",
    "check_history",
    "check_user_function",
    "drive",
    "fit_dtype",
    "real_product",
    "record",
]

Tensors = tuple[Tensor, ...]


class Problem(ABC):
    """Abstract: what a solution is differentiated by; it gives the gradients of the parameters."""

    __slots__ = ()

    #: Whether a function of the user is an `async def`.
    is_async: bool
    #: The function of SciPy, for errors.
    name: str

    @abstractmethod
    async def gradients(self, params: Tensors, solution: Tensors, grads: Tensors) -> Sequence[Tensor | None]:
        """Return the gradients of the parameters, recorded if grad mode is on."""


def check_user_function(function: Any, name: str, parameter: str) -> bool:
    """Return whether a function of the user is an `async def`; raise if it cannot be called."""
    if not callable(function):
        raise ArgumentTypeError(f"{name}: {parameter} must be a function, not {type(function).__name__}")
    return bool(is_kind(inspect.iscoroutinefunction, function))


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function of the user, awaited if it is an awaitable.

    Raises:
        ArgumentTypeError: the function returns nothing.
    """
    is_blocking = BLOCKING.get()
    if not is_blocking:
        await keep_pace()
        result = function(*args)
    else:
        # What the function starts may suspend.
        BLOCKING.set(False)
        try:
            result = function(*args)
        finally:
            BLOCKING.set(True)
    result = await finish(result)
    if result is None:
        raise ArgumentTypeError(
            f"the function {getattr(function, '__qualname__', repr(function))} returned None: return the numbers that "
            "it computes"
        )
    return result


async def call_differentiated(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function of the user that is to be differentiated by its arguments; see `call_user`.

    Raises:
        GradientTypeError: an argument requires grad, and the function returned numbers or arrays without history.
    """
    found = await call_user(function, *args)
    check_history(function, found, args)
    return found


def check_history(function: Callable[..., Any], found: Any, by: Any) -> None:
    """Raise if what a function of the user returned has no history, though it is to be differentiated.

    Its derivative would be zero: a search would end where it begins, and call that a success.

    Args:
        function: the function.
        found: what it returned.
        by: a tree of what it is to be differentiated by; only tensors that require grad count.

    Raises:
        GradientTypeError: there is no tensor in it.
    """
    if isinstance(found, Tensor) or not is_grad_enabled():
        return
    if any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves(by)):
        require_tensor(found, f"the function {getattr(function, '__qualname__', repr(function))}")


def array_of(value: Any) -> Any:
    """Return a tensor, an array or a list as an array."""
    return (
        value.numpy()
        if isinstance(value, Tensor) and not value.requires_grad
        else np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)
    )


def real_product(one: Any, other: Any) -> Any:
    """Return the real part of an inner product."""
    found = np.sum(np.conj(one) * other)
    return np.real(found) if found.dtype.kind == "c" else found


def fit_dtype(gradient: Any, tensor: Tensor) -> Any:
    """Return a gradient as one for a tensor, which may be real where the function's values are complex."""
    if gradient.dtype.kind == "c" and tensor.dtype.kind != "c":
        gradient = np.real(gradient)
    return gradient.astype(tensor.dtype, copy=False)


def drive(coroutine: Coroutine[Any, Any, Any], is_async: bool, name: str) -> Any:
    """Return the coroutine for the caller to await; or, if it never suspends, its result."""
    if is_async:
        return coroutine
    try:
        return run_without_suspending(coroutine, _suspension_error, name)
    except BlockingError as error:
        # A rule of the function waits, say, in a backward for its derivative: the error tells to await the backward.
        advice = _advice(name)
        if advice not in (str(error), *getattr(error, "__notes__", ())):
            add_note(error, advice)
        raise


def _suspension_error(name: str) -> BlockingError:
    return BlockingError(_advice(name))


def _advice(name: str) -> str:
    return (
        f"{name}: a function that was passed suspended in a call that does not await it: write it as an async def, "
        f"and await {name}(...)"
    )


async def call_solver(
    solver: Callable[[Callable[..., Any]], Any],
    evaluate: Callable[..., Coroutine[Any, Any, Any]],
    is_async: bool,
    name: str,
) -> Any:
    """Return `solver(function)`, where the plain function `function` returns what `evaluate` does when awaited.

    If `is_async`, the solver runs in a thread, and the caller's task awaits each evaluation meanwhile, so that the loop
    is not blocked.
    """
    watcher = CapturedTensors(name, "the function", "args")

    async def unrecorded(*args: Any) -> Any:
        with watched_no_grad(watcher):
            return await evaluate(*args)

    if not is_async:
        return solver(lambda *args: drive(unrecorded(*args), False, name))
    return await _call_in_thread(solver, unrecorded)


async def _call_in_thread(solver: Callable[[Callable[..., Any]], Any], evaluate: Callable[..., Any]) -> Any:
    loop = asyncio.get_running_loop()
    message = loop.create_future()
    answers: SimpleQueue[Any] = SimpleQueue()

    def send(*parts: Any) -> None:
        with suppress(RuntimeError):  # The loop has been closed, and nobody waits.
            loop.call_soon_threadsafe(_deliver, message, parts)

    def ask(*args: Any) -> Any:
        send("evaluate", args)
        answer = answers.get()
        if answer is None:
            raise _Abandoned
        return answer[0]

    def work() -> None:
        try:
            result = solver(ask)
        except BaseException as error:  # It is raised where the solver's result is awaited.
            send("error", error)
        else:
            send("result", result)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="asyncgrad solver", daemon=True).start()
    failure: BaseException | None = None
    try:
        while True:
            kind, content = await message
            message = loop.create_future()
            if kind == "evaluate":
                try:
                    answer = (await evaluate(*content),)
                except Exception as error:
                    failure, answer = error, None
                answers.put(answer)
            elif kind == "error":
                raise failure or content
            else:
                return content
    finally:
        answers.put(None)


def _deliver(message: asyncio.Future[Any], content: Any) -> None:
    if not message.done():
        message.set_result(content)


@final
class _Abandoned(Exception):
    """Ends a solver whose caller was cancelled or whose function has failed."""


def record(
    problem: Problem, params: Sequence[Tensor], solution: Sequence[Any], constants: ConstantVersions | None = None
) -> Tensors:
    """Return the arrays of a solution as tensors, with a history that leads to the parameters.

    Args:
        problem: what the solution is differentiated by.
        params: the parameters.
        solution: the arrays.
        constants: other tensors that the backward reads; it raises if they have been written into by then, unless the
            functions of the problem have done so.
    """
    if not (is_grad_enabled() and any(param.requires_grad for param in params)):
        return tuple([asarray(part) for part in solution])
    kind = AsyncSolution if problem.is_async else Solution
    constants = ConstantVersions(()) if constants is None else constants
    constants.end_forward()
    found: Tensors = kind.apply(problem, tuple(solution), constants, *params)
    return found


@final
class Solution(Function):
    """The solution of a problem, as a function of the parameters."""

    stays_on_loop = True

    @staticmethod
    def forward(
        ctx: Any, problem: Problem, solution: tuple[Any, ...], constants: ConstantVersions, *params: Tensor
    ) -> Tensors:
        """Return the solution."""
        ctx.problem, ctx.constants, ctx.count = problem, constants, len(params)
        outputs = tuple([asarray(part) for part in solution])
        ctx.save_for_backward(*params, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of the parameters."""
        return drive(_gradients(ctx, ctx.saved_tensors, grads), False, ctx.problem.name)


@final
class AsyncSolution(Function):
    """The same, for a function that may suspend."""

    stays_on_loop = True
    forward = staticmethod(Solution.forward)

    @staticmethod
    async def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of the parameters."""
        return await _gradients(ctx, await ctx.load_saved(), grads)


async def _gradients(ctx: Any, saved: Tensors, grads: Tensors) -> tuple[Any, ...]:
    params, solution = saved[: ctx.count], saved[ctx.count :]
    ctx.constants.check(ctx._node())
    # A solver around this one must not take the saved tensors for ones that its function uses.
    with nullcontext() if is_grad_enabled() else watched_no_grad(False):
        found = await ctx.problem.gradients(params, solution, grads)
    # While an async function waits, others may write.
    if not ctx.problem.is_async:
        ctx.constants.leave_out_written()
    return None, None, None, *found
