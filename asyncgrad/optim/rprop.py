"""Rprop."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..core.arrays.values import empty_like, zeros_like
from ..core.settings.arguments import number
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .elementwise import ElementwiseOptimizer, Update, as_scalars, real_view
from .optimizer import Group, check_range

__all__ = ["Rprop"]


@final
class Rprop(ElementwiseOptimizer):
    """Rprop: each element moves by a step of its own, which grows while the gradient keeps its sign, and else shrinks.

    The size of a gradient does not matter, so this is for gradients of all data, not of batches. Where the sign has
    changed, the element stays where it is for one step.

    Args:
        params: tensors, or groups of them.
        lr: the size of the first step.
        etas: what a step is multiplied by where the sign has changed, and where it has not.
        step_sizes: the least and the largest size of a step.
        maximize: go uphill: the gradient is taken with the other sign.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.Rprop; M. Riedmiller and H. Braun, "A direct adaptive method for faster backpropagation
    learning" (1993).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([1.0, -200.0], requires_grad=True)
        >>> optimizer = optim.Rprop([w], lr=0.5)
        >>> sync.backward((w * w).sum())
        >>> optimizer.step()
        >>> w.numpy()
        array([   0.5, -199.5])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize})

    @staticmethod
    def _check(group: Group) -> None:
        check_range(group, "lr")
        for name, example in (("etas", "(0.5, 1.2)"), ("step_sizes", "(1e-6, 50)")):
            if not isinstance(group[name], (tuple, list)) or len(group[name]) != 2:
                raise ArgumentError(f"{name} must be two numbers, such as {example}, not {group[name]!r}")
            for one in group[name]:
                number(one, name)
        if not 0 < group["etas"][0] < 1 < group["etas"][1]:
            raise ArgumentError(f"etas must be a number between 0 and 1 and one above 1, not {group['etas']}")

    def _new_state(self, param: Any, group: Group) -> dict[str, Any]:
        sizes = empty_like(param)
        real_view(sizes).fill(group["lr"])
        return {"step": 0, "prev": zeros_like(param, param.shape), "step_size": sizes}

    def _updater(self, like: Any, group: Group) -> Update:
        is_complex = like.dtype.kind == "c"
        real = like.real if is_complex else like
        scratch, masks = self._scratch(real, 1), self._scratch(empty_like(real, (0,)).astype(bool), 1)
        shrink, grow, least, most = as_scalars(like, *group["etas"], *group["step_sizes"])

        def update(param: Any, grad: Any, state: dict[str, Any]) -> None:
            before, size = state["prev"], state["step_size"]
            if is_complex:
                param, grad, before, size = map(real_view, (param, grad, before, size))
            (buffer,), (mask,) = scratch[param.shape], masks[param.shape]
            state["step"] += 1
            # By what each size is multiplied: NaN where the gradient is.
            np.sign(np.multiply(grad, before, buffer), buffer)
            buffer[np.equal(buffer, 0, mask)] = 1
            # Not by the sign alone, which is 1 now also where there was none.
            np.multiply(grad, before, before)
            buffer[np.greater(before, 0, mask)] = grow
            buffer[np.less(before, 0, mask)] = shrink
            np.multiply(size, buffer, size)
            np.minimum(np.maximum(size, least, out=size), most, out=size)
            before[...] = grad
            before[mask] = 0
            np.subtract(param, np.multiply(np.sign(before, buffer), size, buffer), param)

        return update
