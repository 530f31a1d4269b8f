"""`ag.checkpoint`: a function whose intermediate results are not kept for the backward, but computed again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..arguments import describe, truth
from ..context import is_grad_enabled
from ..errors import ArgumentError, ArgumentTypeError
from .call import Call, Options, is_async
from .deep_calls import called
from .random_streams import checked_streams
from .recomputed import call_recomputed
from .reentrant import call_reentrant

__all__ = ["checkpoint", "run_checkpointed"]


def checkpoint(
    fn: Callable[..., Any] | None = None,
    /,
    *args: Any,
    use_reentrant: bool = True,
    preserve_rng: bool = True,
    generators: Iterable[Any] = (),
    early_stop: bool = True,
    determinism_check: str = "default",
    context_fn: Callable[[], Any] | None = None,
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """Return `fn(*args, **kwargs)`, of which only the arguments are kept: the backward calls `fn` again for the rest.

    Gradients have the bits that they have without it. `fn` may be an `async def`; then the result is to be awaited, and
    in the backward only the nodes that need it wait. It must do the same each time: it draws the same random numbers,
    and runs in the modes and context variables of the first call. It may not write into its arguments. Lists, tuples
    and dicts of arguments and results are looked into for tensors. See docs/memory.md for what to use when.

    *Reentrant*: one node, whose backward calls `fn` again and awaits a backward of its own, to the leaves that `fn`
    refers to. An argument must require grad. A backward that is limited to some inputs cannot run it. *Not reentrant*:
    recorded as ever, but for what nodes save; the first that needs some of it has `fn` called again, once for each
    backward, however many ask. Works with `ag.grad` and `inputs=`, and may be nested without repeating work.

    A decorator too: `@ag.checkpoint`, `@ag.checkpoint(use_reentrant=False)`. (So `ag.checkpoint(fn)` alone decorates.)

    Args:
        fn: a function, or an `async def`.
        *args: its arguments. Arrays are kept as they are: do not write into them before the backward.
        use_reentrant: which kind.
        preserve_rng: replay NumPy's global stream, Generators among the arguments, and `generators`.
        generators: further streams that `fn` draws from.
        early_stop: end the second call once it has what is needed. This and what follows: not reentrant only.
        determinism_check: "default" compares what is saved with the forward, "none" does not.
        context_fn: returns two context managers, for the forward and for each recomputation.
        debug: note the operations of both calls, and show them where they differ.
        **kwargs: keyword arguments of `fn`.

    Raises:
        ArgumentError: options do not go together. InPlaceError: `fn` wrote into an argument.
        GraphError: in the backward: it cannot run this kind; or (CheckpointError) `fn` has not done the same again.

    Source: torch.utils.checkpoint.checkpoint.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> x = ag.tensor(0.1, requires_grad=True)
        >>> ag.sync.backward(ag.checkpoint(lambda x: np.tanh(np.exp(x)), x))
    """
    streams = checked_streams(generators)
    given = Options(preserve_rng, streams, early_stop, determinism_check, context_fn, debug)
    use_reentrant, options = _checked(use_reentrant, given)
    if fn is None and not args and not kwargs:
        return functools.partial(_decorated, use_reentrant=use_reentrant, options=options)
    if not callable(fn):
        raise ArgumentTypeError(f"ag.checkpoint takes a function first, and then its arguments, not {describe(fn)}")
    if not args and not kwargs and use_reentrant and options == Options():
        return _decorated(fn, use_reentrant=use_reentrant, options=options)
    return run_checkpointed(fn, args, kwargs, use_reentrant=use_reentrant, options=options)


def run_checkpointed(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, use_reentrant: bool, options: Options
) -> Any:
    """Call `fn` checkpointed, with checked options."""
    if not is_grad_enabled():
        return called(fn, args, kwargs)
    call = Call(fn, args, kwargs, options)
    return call_reentrant(call, args, kwargs) if use_reentrant else call_recomputed(call, args, kwargs)


def _decorated(fn: Any, *, use_reentrant: bool, options: Options) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_decorated(fn.__func__, use_reentrant=use_reentrant, options=options))
    if inspect.isclass(fn) or not callable(fn):
        raise ArgumentTypeError(f"ag.checkpoint decorates functions, and not {fn!r}: decorate its methods")
    if is_async(fn):

        @functools.wraps(fn)
        async def checkpointed(*args: Any, **kwargs: Any) -> Any:
            return await run_checkpointed(fn, args, kwargs, use_reentrant=use_reentrant, options=options)

    else:

        @functools.wraps(fn)
        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            return run_checkpointed(fn, args, kwargs, use_reentrant=use_reentrant, options=options)

    return checkpointed


def _checked(use_reentrant: bool, options: Options) -> tuple[bool, Options]:
    """Return the kind and the options, with flags that are bools, if they go together.

    Raises:
        ArgumentTypeError: one is of the wrong type.
        ArgumentError: one has no meaning, or none beside another.
    """
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
            f"context_fn is a function that returns two context managers, not {describe(options.context_fn)}"
        )
    if use_reentrant:
        for name, is_given in (("context_fn", options.context_fn is not None), ("debug", options.debug)):
            if is_given:
                raise ArgumentError(
                    f"{name} is for the kind on saved-tensor hooks: write ag.checkpoint(..., use_reentrant=False)"
                )
    if options.generators and not options.preserve_rng:
        raise ArgumentError("generators names streams to replay, and preserve_rng=False replays none: leave one out")
    return use_reentrant, options
