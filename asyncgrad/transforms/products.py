"""Products of a vector with a Jacobian or a Hessian, computed without forming the matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.settings.awaiting import call
from ..core.tensor import Tensor
from ..core.tree.structure import Tree
from .arguments import (
    as_outputs,
    as_scalar,
    as_vector,
    check_call,
    fill_missing,
    gradients,
    new_inputs,
    pack_results,
    require_history,
    require_output_history,
    transform_scope,
    zeros_like_tensor,
)

__all__ = ["hvp", "jvp", "vhp", "vjp"]


async def vjp(
    fn: Callable[..., Any], inputs: Tree, v: Tree = None, *, create_graph: bool | None = None, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs of `fn` and the product of `v` with its Jacobian, by one backward pass.

    Args:
        fn: a function or an `async def` of tensors that returns a tensor or a tuple of them.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        v: of the shape of the outputs; may be omitted if `fn` returns one number.
        create_graph: record how the results are computed, to differentiate them again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if the outputs do not depend on an input, rather than return zeros for it.

    Returns:
        `(outputs, product)`; the product has the structure and the shapes of `inputs`.

    Raises:
        InvalidGradientError: `v` does not fit the outputs.
        UnusedInputError: with `strict`, the outputs do not depend on an input.

    Source: torch.autograd.functional.vjp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     _, product = await ag.vjp(lambda x: x * x, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        ...     return product.numpy()
        >>> ag.run(main())
        array([ 2., 40.])
    """
    create_graph, strict = check_call("ag.vjp", fn, inputs, create_graph, strict)
    with transform_scope(create_graph, inputs, v) as keeps_history:
        points, is_tuple = new_inputs(inputs, keeps_history, "ag.vjp")
        outputs, outputs_are_tuple = as_outputs(await call(fn, *points), "ag.vjp")
        if strict:
            require_output_history(outputs, "ag.vjp: output {} of the function")
        vector = _detach_unless_kept(as_vector(v, outputs, "output", "ag.vjp"), keeps_history)
        product = fill_missing(
            await gradients(outputs, points, vector, create_graph=keeps_history),
            points,
            strict=strict,
            create_graph=bool(create_graph),
            missing="ag.vjp: the outputs of the function do not depend on input {}",
            constant="ag.vjp: the outputs of the function have a constant Jacobian with respect to input {}",
        )
        return pack_results(outputs, outputs_are_tuple, keeps_history), pack_results(product, is_tuple, keeps_history)


async def jvp(
    fn: Callable[..., Any], inputs: Tree, v: Tree = None, *, create_graph: bool | None = None, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs of `fn` and the product of its Jacobian with `v`, by two backward passes.

    The first pass computes `u @ J`, which is linear in `u`. So the second, through the first, computes `J @ v`.

    Args:
        fn: a function or an `async def` of tensors that returns a tensor or a tuple of them.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        v: of the shape of the inputs; may be omitted if that is one number.
        create_graph: record how the results are computed, to differentiate them again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if an output does not depend on the inputs, rather than return zeros for it.

    Returns:
        `(outputs, product)`; the product has the structure and the shapes of the outputs.

    Raises:
        InvalidGradientError: `v` does not fit the inputs.
        UnusedInputError: with `strict`, an output does not depend on the inputs.

    Source: torch.autograd.functional.jvp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     _, product = await ag.jvp(lambda x: x * x, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        ...     return product.numpy()
        >>> ag.run(main())
        array([ 2., 40.])
    """
    create_graph, strict = check_call("ag.jvp", fn, inputs, create_graph, strict)
    with transform_scope(create_graph, inputs, v) as keeps_history:
        points, _ = new_inputs(inputs, keeps_history, "ag.jvp")
        vector = _detach_unless_kept(as_vector(v, points, "input", "ag.jvp"), keeps_history)
        outputs, outputs_are_tuple = as_outputs(await call(fn, *points), "ag.jvp")
        if strict:
            require_output_history(outputs, "ag.jvp: output {} of the function")
        grad_outputs = _new_grad_outputs(outputs)
        grad_inputs = await gradients(outputs, points, grad_outputs, create_graph=True)
        if strict:
            require_history(grad_inputs, "ag.jvp: the outputs of the function do not depend on input {}")
        product = fill_missing(
            await gradients(grad_inputs, grad_outputs, vector, create_graph=keeps_history),
            outputs,
            strict=strict,
            create_graph=bool(create_graph),
            missing="ag.jvp: output {} of the function does not depend on the inputs",
            constant="ag.jvp: output {} of the function has a constant Jacobian",
        )
        return pack_results(outputs, outputs_are_tuple, keeps_history), pack_results(
            product, outputs_are_tuple, keeps_history
        )


async def vhp(
    fn: Callable[..., Any], inputs: Tree, v: Tree = None, *, create_graph: bool | None = None, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of `fn` and the product of `v` with its Hessian, by two backward passes.

    Args:
        fn: a function or an `async def` of tensors that returns one number as a tensor.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        v: of the shape of the inputs; may be omitted if that is one number.
        create_graph: record how the results are computed, to differentiate them again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if the value or its gradient does not depend on an input, rather than return zeros.

    Returns:
        `(value, product)`; the product has the structure and the shapes of `inputs`.

    Raises:
        InvalidGradientError: `v` does not fit the inputs.
        InvalidRootError: `fn` does not return one number.
        UnusedInputError: with `strict`, the value or its gradient does not depend on an input.

    Source: torch.autograd.functional.vhp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     _, product = await ag.vhp(lambda x, y: x * x * y, (np.array(3.0), np.array(5.0)), (1.0, 10.0))
        ...     return [part.item() for part in product]
        >>> ag.run(main())
        [70.0, 6.0]
    """
    create_graph, strict = check_call("ag.vhp", fn, inputs, create_graph, strict)
    with transform_scope(create_graph, inputs, v) as keeps_history:
        points, is_tuple = new_inputs(inputs, keeps_history, "ag.vhp")
        vector = _detach_unless_kept(as_vector(v, points, "input", "ag.vhp"), keeps_history)
        value, gradient = await _record_gradient(fn, points, strict, "ag.vhp")
        product = fill_missing(
            await gradients(gradient, points, vector, create_graph=keeps_history),
            points,
            strict=strict,
            create_graph=bool(create_graph),
            missing="ag.vhp: the gradient of the function does not depend on input {}",
            constant="ag.vhp: the gradient of the function has a constant Jacobian with respect to input {}",
        )
        return pack_results((value,), False, keeps_history), pack_results(product, is_tuple, keeps_history)


async def hvp(
    fn: Callable[..., Any], inputs: Tree, v: Tree = None, *, create_graph: bool | None = None, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of `fn` and the product of its Hessian with `v`, by three backward passes.

    If the Hessian is symmetric, as for a twice continuously differentiable `fn`, `vhp` returns the same by two.

    Args:
        fn: a function or an `async def` of tensors that returns one number as a tensor.
        inputs: its arguments, one or a tuple of them: tensors or arrays.
        v: of the shape of the inputs; may be omitted if that is one number.
        create_graph: record how the results are computed, to differentiate them again. None records inside
            another transform, or if grad mode is on and an argument requires grad.
        strict: raise if the value or its gradient does not depend on an input, rather than return zeros.

    Returns:
        `(value, product)`; the product has the structure and the shapes of `inputs`.

    Raises:
        InvalidGradientError: `v` does not fit the inputs.
        InvalidRootError: `fn` does not return one number.
        UnusedInputError: with `strict`, the value or its gradient does not depend on an input.

    Source: torch.autograd.functional.hvp.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> async def main():
        ...     _, product = await ag.hvp(lambda x: x ** 4, np.array(1.0))
        ...     return product.item()
        >>> ag.run(main())
        12.0
    """
    create_graph, strict = check_call("ag.hvp", fn, inputs, create_graph, strict)
    with transform_scope(create_graph, inputs, v) as keeps_history:
        points, is_tuple = new_inputs(inputs, keeps_history, "ag.hvp")
        vector = _detach_unless_kept(as_vector(v, points, "input", "ag.hvp"), keeps_history)
        value, gradient = await _record_gradient(fn, points, strict, "ag.hvp")
        grad_outputs = _new_grad_outputs(points)
        grad_inputs = await gradients(gradient, points, grad_outputs, create_graph=True)
        product = fill_missing(
            await gradients(grad_inputs, grad_outputs, vector, create_graph=keeps_history),
            points,
            strict=strict,
            create_graph=bool(create_graph),
            missing="ag.hvp: the gradient of the function with respect to input {} does not depend on the inputs",
            constant="ag.hvp: the gradient of the function with respect to input {} has a constant Jacobian",
        )
        return pack_results((value,), False, keeps_history), pack_results(product, is_tuple, keeps_history)


async def _record_gradient(
    fn: Callable[..., Any], points: Sequence[Tensor], strict: bool, where: str
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """Return the value of `fn`, which must be one number, and its gradient with a history."""
    value = as_scalar(await call(fn, *points), where)
    if strict:
        require_output_history((value,), f"{where}: the value of the function")
    gradient = await gradients((value,), points, create_graph=True)
    if strict:
        require_history(gradient, f"{where}: the gradient of the function with respect to input {{}} is constant")
    return value, gradient


def _new_grad_outputs(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return leaves to pass as grad_outputs; a backward is linear in them, so any values give the same derivative."""
    return tuple(zeros_like_tensor(tensor).requires_grad_() for tensor in tensors)


def _detach_unless_kept(vector: tuple[Tensor, ...] | None, keeps_history: bool) -> tuple[Tensor, ...] | None:
    """Return the vector, detached unless the results keep their history."""
    return vector if vector is None or keeps_history else tuple(part.detach() for part in vector)
