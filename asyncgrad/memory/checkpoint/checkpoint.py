"""`ag.checkpoint` and `ag.checkpoint_sequential`: functions whose intermediate results are computed again, not kept."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.settings.arguments import describe, must_be, takes, truth, whole_number
from ...core.settings.context import IN_TRANSFORM, is_grad_enabled
from ...errors import ArgumentError, ArgumentTypeError
from .call import CheckpointedCall, CheckpointOptions, call_function, is_async
from .recompute import call_recomputed
from .reentrant import call_reentrant
from .rng import check_streams
from .steps import Steps, run_steps, run_steps_async

__all__ = ["check_functions", "checkpoint", "checkpoint_sequential", "compose"]

_RIGHT_CALL = "write ag.checkpoint(fn, x)"


def checkpoint(
    fn: Callable[..., Any] | None = None,
    /,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng: bool = True,
    generators: Iterable[object] = (),
    early_stop: bool = True,
    determinism_check: str = "default",
    context_fn: Callable[[], object] | None = None,
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """Return `fn(*args, **kwargs)`, keeping only the arguments: the backward calls `fn` again for what it needs.

    Gradients are bitwise the same as without a checkpoint. `fn` may be an `async def`; then the result is awaited, and
    in the backward only the nodes that need it wait. Every call of `fn` must do the same; it draws the same random
    numbers and runs in the modes and context variables of the first call. It may not write into its arguments. Tensors
    are found in trees (`ag.tree`), of arguments and of results. docs/memory.md says which kind to use when.

    *Reentrant*: the call is one node. Its backward calls `fn` again and awaits a nested backward, which adds to the
    leaves that `fn` refers to. An argument must require grad. A backward limited to some inputs cannot run it. *Not
    reentrant*: nodes are recorded as usual, without the tensors they save. The first node that needs one has `fn`
    called again, once for each backward, however many nodes ask. It works with `ag.grad` and `inputs=`, and nested
    calls are recomputed once.

    Also a decorator: `@ag.checkpoint`, `@ag.checkpoint(use_reentrant=False)`; so `ag.checkpoint(fn)` alone decorates.

    Args:
        fn: a function, or an `async def`.
        *args: its arguments. Arrays are kept by reference: do not write into them before the backward.
        use_reentrant: which kind; None is reentrant, but not in a function that a transform differentiates.
        preserve_rng: replay NumPy's global stream, `ag.random`'s, Generators among the arguments, and `generators`.
        generators: more streams that `fn` draws from.
        early_stop: end a recomputation when it has what is needed. This and the next three are for use_reentrant=False.
        determinism_check: "default" compares what a recomputation saves with the forward; "none" does not.
        context_fn: returns two context managers, for the forward and for each recomputation.
        debug: list the operations of forward and recomputation where they differ.
        **kwargs: keyword arguments of `fn`.

    Raises:
        ArgumentError: options do not go together. InPlaceError: `fn` wrote into an argument.
        GraphError: in the backward: it cannot run this kind; or (CheckpointError) `fn` did something else.

    Source: torch.utils.checkpoint.checkpoint.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor(0.1, requires_grad=True)
        >>> ag.sync.backward(ag.checkpoint(lambda x: np.tanh(np.exp(x)), x))
    """
    given = CheckpointOptions(preserve_rng, check_streams(generators), early_stop, determinism_check, context_fn, debug)
    use_reentrant, options = _check_options(use_reentrant, given)
    if fn is None and not args and not kwargs:
        return functools.partial(_decorate, use_reentrant=use_reentrant, options=options)
    if not callable(fn):
        raise ArgumentTypeError(takes("ag.checkpoint", "a function first, and then its arguments", fn, _RIGHT_CALL))
    if not args and not kwargs and use_reentrant is not False and options == CheckpointOptions():
        return _decorate(fn, use_reentrant=use_reentrant, options=options)
    return _call(fn, args, kwargs, use_reentrant, options)


def _call(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], use_reentrant: bool | None, options: CheckpointOptions
) -> Any:
    """Call a function, checkpointed if grad mode is on."""
    if not is_grad_enabled():
        return call_function(fn, args, kwargs)
    if use_reentrant is None:
        use_reentrant = not IN_TRANSFORM.get()
    call = CheckpointedCall(fn, args, kwargs, options)
    return call_reentrant(call, args, kwargs) if use_reentrant else call_recomputed(call, args, kwargs)


def _decorate(fn: Any, *, use_reentrant: bool | None, options: CheckpointOptions) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_decorate(fn.__func__, use_reentrant=use_reentrant, options=options))
    if inspect.isclass(fn) or not callable(fn):
        raise ArgumentTypeError(f"ag.checkpoint decorates functions, not {fn!r}: decorate its methods")
    if is_async(fn):

        @functools.wraps(fn)
        async def checkpointed(*args: Any, **kwargs: Any) -> Any:
            return await _call(fn, args, kwargs, use_reentrant, options)

    else:

        @functools.wraps(fn)
        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            return _call(fn, args, kwargs, use_reentrant, options)

    return checkpointed


def _check_options(use_reentrant: bool | None, options: CheckpointOptions) -> tuple[bool | None, CheckpointOptions]:
    """Return the kind and the options, flags as bools, if they go together.

    Raises:
        ArgumentTypeError: an option has the wrong type.
        ArgumentError: an option has an unknown value, or has no effect beside another one.
    """
    if use_reentrant is not None:
        use_reentrant = truth(use_reentrant, "use_reentrant")
    options = options._replace(
        preserve_rng=truth(options.preserve_rng, "preserve_rng"),
        early_stop=truth(options.early_stop, "early_stop"),
        debug=truth(options.debug, "debug"),
    )
    if not (isinstance(options.determinism_check, str) and options.determinism_check in ("default", "none")):
        raise ArgumentError(f"determinism_check is 'default' or 'none', not {options.determinism_check!r}")
    if options.context_fn is not None and not callable(options.context_fn):
        raise ArgumentTypeError(
            must_be("context_fn", "a function that returns two context managers", options.context_fn)
        )
    if use_reentrant is not False:
        for name, is_given in (("context_fn", options.context_fn is not None), ("debug", options.debug)):
            if is_given:
                raise ArgumentError(
                    f"{name} is an option of checkpoints that are not reentrant: write "
                    "ag.checkpoint(..., use_reentrant=False)"
                )
    if options.generators and not options.preserve_rng:
        raise ArgumentError("generators names streams to replay, and preserve_rng=False replays none: leave one out")
    return use_reentrant, options


def checkpoint_sequential(
    functions: Iterable[Callable[..., object]],
    segments: int,
    x: object,
    *,
    use_reentrant: bool | None = None,
    preserve_rng: bool = True,
    **options: object,
) -> Any:
    """Return `functions[-1](...functions[0](x))`, divided into segments of which all but the last are checkpointed.

    Segments have equal lengths, but for the last, which also takes the remainder of the division. It is not
    checkpointed because its backward comes first. What one function returns is the only argument of the next one. The
    result is an awaitable if any function is an `async def`.

    Args:
        functions: a sequence of functions of one argument, each plain or async.
        segments: how many, from 1 up to the number of functions.
        x: the argument of the first function: a tensor, or a tree of tensors.
        use_reentrant: which kind of checkpoint; see `ag.checkpoint`.
        preserve_rng: replay random streams; see `ag.checkpoint`.
        **options: more options of `ag.checkpoint`.

    Raises:
        ArgumentError: `segments` is out of range, or there are no functions.

    Source: torch.utils.checkpoint.checkpoint_sequential.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor([0.1, 0.2], requires_grad=True)
        >>> y = ag.checkpoint_sequential([np.sin, np.exp, np.tanh, np.sin], 2, x)
        >>> ag.sync.backward(y.sum())
        >>> plain = ag.tensor([0.1, 0.2], requires_grad=True)
        >>> ag.sync.backward(np.sin(np.tanh(np.exp(np.sin(plain)))).sum())
        >>> bool((x.grad.numpy() == plain.grad.numpy()).all())
        True
    """
    chain = check_functions(functions, "checkpoint_sequential")
    segments = whole_number(segments, "segments")
    if not 1 <= segments <= len(chain):
        raise ArgumentError(f"segments is from 1 up to the number of functions, {len(chain)}, not {segments}")
    steps = _segments(chain, segments, x, dict(use_reentrant=use_reentrant, preserve_rng=preserve_rng, **options))
    return run_steps_async(steps) if any(map(is_async, chain)) else run_steps(steps)


def _segments(chain: Sequence[Callable[[Any], Any]], segments: int, x: Any, options: dict[str, Any]) -> Steps:
    size = len(chain) // segments
    end = size * (segments - 1)
    for start in range(0, end, size):
        segment = chain[start : start + size]
        run = _run_async if any(map(is_async, segment)) else _run
        x = yield checkpoint(functools.partial(run, segment), x, **options)
    for function in chain[end:]:
        x = yield function(x)
    return x


def _run(segment: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return run_steps(compose(segment, x))


async def _run_async(segment: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    return await run_steps_async(compose(segment, x))


def compose(functions: Sequence[Callable[[Any], Any]], x: Any) -> Steps:
    """Return the result of the last function; each is called with the result of the one before."""
    for function in functions:
        x = yield function(x)
    return x


def check_functions(functions: Any, name: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the functions given to `ag.<name>` as a tuple.

    Raises:
        ArgumentTypeError: they are no sequence, or one of them cannot be called.
        ArgumentError: there are none.
    """
    if isinstance(functions, (str, bytes)) or not isinstance(functions, Iterable):
        raise ArgumentTypeError(takes(f"ag.{name}", "a sequence of functions", functions))
    chain = tuple(functions)
    for index, function in enumerate(chain):
        if not callable(function):
            raise ArgumentTypeError(f"function {index} of ag.{name} cannot be called: it is {describe(function)}")
    if not chain:
        raise ArgumentError(f"ag.{name} was given no functions: pass at least one")
    return chain
