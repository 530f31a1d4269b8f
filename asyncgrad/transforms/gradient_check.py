"""`gradcheck` and `gradgradcheck`: compare the derivatives of a backward with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.rows import check_concurrency
from ..core.settings.arguments import check_function, number, truth
from ..core.settings.context import enable_grad
from ..core.tensor import Tensor, asarray
from ..core.tree.structure import flatten_each
from ..errors import InvalidGradientError
from .arguments import gradients, zeros_like_tensor
from .jacobian_check import (
    JacobianCheck,
    Tolerance,
    WatchedFunction,
    as_tuple,
    call_for_outputs,
    copy_entries,
    flatten_call,
    indices_requiring_grad,
)

__all__ = ["gradcheck", "gradgradcheck"]


async def gradcheck(
    fn: Callable[..., Any],
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    concurrency: int | None = None,
) -> bool:
    """Return True if the gradients of `fn` agree with finite differences, and raise if they do not.

    Every derivative of every output that requires grad is checked, for every input that requires grad. A complex input
    is changed along both axes; both parts of a complex output are checked.

    Args:
        fn: a function or an `async def` of tensors that returns a tensor or a tuple of them. Both may be trees
            (`ag.tree`) of tensors and other things. It is called many times, with copies of the inputs.
        inputs: its arguments, one or a tuple. Tensors that require grad are checked; float64 is needed for the
            default tolerances. Anything else is passed on unchanged, a value (`ag.leaf`) too.
        eps: by how much an element is changed, up and down.
        atol: tolerated difference.
        rtol: tolerated difference, relative to the finite difference.
        raise_exception: raise on disagreement, rather than return False.
        nondet_tol: tolerated difference between two backward passes of one graph.
        check_undefined_grad: also check that undefined gradients are treated as zeros.
        concurrency: how many backward passes through one graph run at once, and how many calls of `fn`; None for all
            where they wait, as `ag.jacobian` has it. What only computes is called one by one.

    Raises:
        GradcheckError: names the output and the input, and shows both Jacobians.
        RequiresGradError: no input requires grad.

    Source: torch.autograd.gradcheck.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.run(ag.gradcheck(lambda x: x ** 3, x))
        True
    """
    check_function(fn, "ag.gradcheck", inputs)
    at_once = check_concurrency(concurrency)
    fn, entries, names = flatten_call(fn, inputs)
    check = JacobianCheck(fn, entries, _tolerance(eps, atol, rtol, nondet_tol), input_names=names, concurrency=at_once)
    return await check.verdict(
        truth(check_undefined_grad, "check_undefined_grad"), truth(raise_exception, "raise_exception")
    )


async def gradgradcheck(
    fn: Callable[..., Any],
    inputs: object,
    grad_outputs: object = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    concurrency: int | None = None,
) -> bool:
    """Return True if the second derivatives of `fn` agree with finite differences of the first; else raise.

    Checks the gradients of `fn` as a function of its inputs and of the gradients that the backward starts from.

    Args:
        fn: as for `gradcheck`; so are all arguments except `grad_outputs`.
        inputs: its arguments.
        grad_outputs: the gradient to start from for each output that requires grad, or its tree; None for random ones.
        eps: by how much an element is changed, up and down.
        atol: tolerated difference.
        rtol: tolerated difference, relative to the finite difference.
        raise_exception: raise on disagreement, rather than return False.
        nondet_tol: tolerated difference between two backward passes of one graph.
        check_undefined_grad: also check that undefined gradients are treated as zeros.
        concurrency: as for `gradcheck`.

    Raises:
        GradcheckError: names the gradient and the input, and shows both Jacobians.
        RequiresGradError: no input requires grad.

    Source: torch.autograd.gradgradcheck.

    Example:
        >>> import asyncgrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.run(ag.gradgradcheck(lambda x: x ** 3, x))
        True
    """
    check_function(fn, "ag.gradgradcheck", inputs)
    at_once, (fn, entries, names) = check_concurrency(concurrency), flatten_call(fn, inputs)
    of, count, wanted = WatchedFunction(fn), len(entries), indices_requiring_grad(entries)
    if grad_outputs is None:
        grad_outputs = await _random_starts(of, entries)
    starts, _ = flatten_each(as_tuple(grad_outputs), _is_tensor)
    check = JacobianCheck(
        _first_gradients(of, count, wanted),
        (*entries, *starts),
        _tolerance(eps, atol, rtol, nondet_tol),
        every_output=True,
        output_names=[f"the gradient for {names[index]}" for index in wanted],
        input_names=[*names, *(f"grad_outputs[{index}]" for index in range(len(starts)))],
        concurrency=at_once,
        of=of,
    )
    return await check.verdict(
        truth(check_undefined_grad, "check_undefined_grad"), truth(raise_exception, "raise_exception")
    )


def _tolerance(eps: float, atol: float, rtol: float, nondet_tol: float) -> Tolerance:
    """Return the options as a Tolerance, checked."""
    tolerated = {"atol": atol, "rtol": rtol, "nondet_tol": nondet_tol}
    return Tolerance(number(eps, "eps"), *(number(value, name, 0) for name, value in tolerated.items()))


def _first_gradients(fn: WatchedFunction, count: int, wanted: Sequence[int]) -> Callable[..., Any]:
    """Return the gradients of `fn` as a function of its `count` inputs and of the gradients that they start from."""

    async def first_gradients(*arguments: Any) -> tuple[Tensor, ...]:
        outputs = await _differentiable_outputs(fn, arguments[:count])
        await fn.look_at_backward(outputs)
        starts = arguments[count:]
        if len(outputs) != len(starts):
            raise InvalidGradientError(
                f"grad_outputs has {len(starts)} gradients, but {len(outputs)} outputs require grad: pass one for each"
            )
        points = [arguments[index] for index in wanted]
        found = await gradients(outputs, points, starts, create_graph=True)
        return tuple(
            zeros_like_tensor(point) if gradient is None else gradient
            for gradient, point in zip(found, points, strict=True)
        )

    return first_gradients


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


async def _differentiable_outputs(fn: Callable[..., Any], arguments: Sequence[Any]) -> list[Tensor]:
    return [output for output in await call_for_outputs(fn, arguments) if output.requires_grad]


async def _random_starts(fn: Callable[..., Any], entries: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return gradients to start from, between -1 and 1, the same on every call."""
    with enable_grad():
        outputs = await _differentiable_outputs(fn, copy_entries(entries))
    rng = np.random.default_rng(0)
    starts = []
    for output in outputs:
        data = rng.uniform(-1, 1, output.shape)
        if output.dtype.kind == "c":
            data = data + 1j * rng.uniform(-1, 1, output.shape)
        starts.append(asarray(np.asarray(data, output.dtype), device=output.device, requires_grad=True))
    return tuple(starts)
