"""L-BFGS."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from operator import methodcaller
from typing import Any, final

import numpy as np

from ..core.arrays.current_devices import several_devices, steps_on_device
from ..core.arrays.current_streams import follow_streams
from ..core.arrays.interception import on_device_of
from ..core.arrays.one_device import check_one_device
from ..core.arrays.values import is_device_array, numbers_of, raw
from ..core.engine.device import moved_to
from ..core.graph.saved_hooks import prepare_write
from ..core.settings.arguments import number, whole_number
from ..core.tensor import Tensor
from ..core.tree.structure import Tree
from ..errors import ArgumentError
from .elementwise import real_view
from .gradients import Evaluation
from .line_search import Point, strong_wolfe
from .optimizer import Group, Optimizer, Steps, check_range
from .options import plain_options

__all__ = ["LBFGS"]

#: Below this, the curvature along a step is no information, and the step is not remembered.
_LEAST_CURVATURE = 1e-10

#: Which entries of the state are whole numbers.
_COUNTS = frozenset({"n_iter", "func_evals"})


@final
class LBFGS(Optimizer):
    """L-BFGS: steps along Newton's direction, as estimated from how the gradient changed over the last steps.

    One call of `step` makes up to `max_iter` iterations, each of which evaluates a closure. All parameters together are
    one vector, so there is one group. If the closure raises, or an awaited step is cancelled, parameters and state are
    as they were. Without a closure, `step()` and `step(grads)` make one iteration with the gradients given, without a
    line search.

    Args:
        params: tensors.
        lr: the length of a step, in units of Newton's; the first that a line search tries.
        max_iter: the most iterations of one call.
        max_eval: the most evaluations of one call; None means 1.25 * max_iter.
        tolerance_grad: the call ends where no element of the gradient is larger.
        tolerance_change: the call ends where neither an element nor the loss changes by more.
        history_size: how many steps are remembered; each takes twice the memory of the parameters.
        line_search_fn: "strong_wolfe", or None for steps of a fixed length.

    Raises:
        ArgumentError: an option or a parameter is invalid; the message names it.

    Source: torch.optim.LBFGS; J. Nocedal, "Updating quasi-Newton matrices with limited storage" (1980).

    Example:
        >>> import asyncgrad as ag
        >>> from asyncgrad import optim, sync
        >>> w = ag.tensor([-1.0, 1.0], requires_grad=True)
        >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=50)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
        ...     sync.backward(loss)
        ...     return loss
        >>> optimizer.step(closure).item()
        4.0
        >>> w.numpy().round(4)
        array([1., 1.])
    """

    def __init__(
        self,
        params: Tree,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": whole_number(max_iter, "max_iter") * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    _evaluates_again = True

    def add_param_group(self, param_group: Group) -> None:
        """Add the only group.

        Raises:
            ArgumentError: there is one already.
        """
        if self.param_groups:
            raise ArgumentError("LBFGS takes all parameters as one vector, so it has one group: pass one list or tree")
        super().add_param_group(param_group)

    @staticmethod
    def _check(group: Group) -> None:
        for name in ("lr", "tolerance_grad", "tolerance_change"):
            check_range(group, name)
        for name in ("max_iter", "max_eval", "history_size"):
            whole_number(group[name], name, 1)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(f"line_search_fn must be 'strong_wolfe' or None, not {group['line_search_fn']!r}")

    def _steps(self, grads: Tree, has_closure: bool, off_loop: int | None) -> Steps:
        (group,) = self.param_groups
        if not has_closure and group["line_search_fn"] is not None:
            raise ArgumentError(
                "a line search evaluates the loss at several points: write optimizer.step(closure), or "
                "await optimizer.step_async(closure)"
            )
        found = None if has_closure else self._gradients(grads)[0]
        iterations = _Iterations(plain_options(group), copy.deepcopy(self.state.get(self._owner(), {})), found)
        check_one_device("LBFGS", params := group["params"])
        steps = iterations.run(has_closure)
        loss = yield from steps_on_device(steps, params[0]._device) if several_devices[0] else steps
        self.state[self._owner()] = iterations.state
        return loss

    def _owner(self) -> Tensor:
        """Return the parameter that has the state of all."""
        owner: Tensor = self.param_groups[0]["params"][0]
        return owner

    def _load_state(self, number: int, param: Tensor, state: Mapping[str, Any]) -> dict[str, Any]:
        arrays = [real_view(one._data) for one in self.param_groups[0]["params"]]
        size, dtype = sum(one.size for one in arrays), np.result_type(*(one.dtype for one in arrays))

        def fitted(name: str, value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [fitted(name, one) for one in value]
            if isinstance(value, Tensor) or (not is_device_array(value) and hasattr(value, "__array__")):
                # Of PyTorch's, whose numbers are tensors too.
                value = raw(value) if isinstance(value, Tensor) else np.asarray(value)
            if not np.shape(value):
                return value if value is None else int(value) if name in _COUNTS else float(value)
            if np.shape(value) != (size,):
                raise ArgumentError(
                    f"{name} in state_dict has shape {np.shape(value)}, but the parameters have {size} numbers"
                )
            return moved_to(on_device_of(value, methodcaller("astype", dtype)), param._device)

        # PyTorch's "al" has what one iteration leaves for no other.
        return {name: fitted(name, value) for name, value in state.items() if name != "al"}


@final
class _Iterations:
    """The iterations of one step."""

    def __init__(self, group: Group, state: dict[str, Any], grads: list[tuple[Tensor, Any]] | None) -> None:
        self._group = group
        self._params: list[Tensor] = group["params"]
        #: The state by PyTorch's names: as of the last iteration that has ended.
        self.state = state
        self._grads = grads
        self._evaluations = 0

    def run(self, has_closure: bool) -> Steps:
        """Iterate until one of the limits is reached; return the first loss."""
        first_loss = self._evaluated((yield None)) if has_closure else None
        self._evaluations = 1
        start = self._values()
        try:
            yield from self._iterate(first_loss, has_closure)
        except BaseException:
            self._assign(start)
            raise
        state = self.state
        state["func_evals"] = state.get("func_evals", 0) + self._evaluations
        return first_loss

    def _iterate(self, first_loss: Any, has_closure: bool) -> Steps:
        group = self._group
        state, limit = self.state, group["max_iter"] if has_closure else 1
        loss, grad = _as_float(first_loss), self._grad()
        if abs(grad).max() <= group["tolerance_grad"]:
            return
        for count in range(1, limit + 1):
            direction = self._direction(grad)
            state["n_iter"] = state.get("n_iter", 0) + 1
            state["prev_flat_grad"], state["prev_loss"], state["d"] = grad, loss, direction
            # The first direction is the gradient, whose length says nothing of how far to go.
            step = group["lr"] * (min(1.0, 1.0 / float(abs(grad).sum())) if state["n_iter"] == 1 else 1.0)
            state["t"] = step
            slope = float(np.vdot(grad, direction))
            if slope > -group["tolerance_change"]:
                return
            start = self._values()
            if group["line_search_fn"] is not None:
                here = Point(0.0, loss, grad, slope)
                point = yield from self._search(here, start, direction, step)
                loss, grad, step = point.value, point.grad, point.step
                state["t"] = step
                self._assign(start + step * direction)
            else:
                self._assign(start + step * direction)
                if count < limit:
                    loss, grad = yield from self._evaluate()
            if count == limit or self._has_ended(loss, grad, step * direction):
                return

    def _has_ended(self, loss: float, grad: Any, change: Any) -> bool:
        group = self._group
        if self._evaluations >= group["max_eval"] or abs(loss - self.state["prev_loss"]) < group["tolerance_change"]:
            return True
        steepest, farthest = numbers_of([abs(grad).max(), abs(change).max()])
        return bool(steepest <= group["tolerance_grad"] or farthest <= group["tolerance_change"])

    def _search(self, here: Point, start: Any, direction: Any, step: float) -> Generator[None, Any, Point]:
        """Run the line search with the parameters moved to each point that it asks for."""
        search = strong_wolfe(here, direction, step, 1e-9, self._group["max_eval"] - self._evaluations)
        try:
            step = next(search)
            while True:
                self._assign(start + step * direction)
                step = search.send((yield from self._evaluate()))
        except StopIteration as end:
            point: Point = end.value
            return point

    def _evaluate(self) -> Generator[None, Any, tuple[float, Any]]:
        loss = self._evaluated((yield))
        self._evaluations += 1
        return _as_float(loss), self._grad()

    def _evaluated(self, found: Any) -> Any:
        """Return the loss that a closure has computed, and take the gradients that came with it."""
        if type(found) is not Evaluation:
            return found
        (self._grads,) = found.gradients.of_groups([self._group])
        return found.loss

    def _direction(self, grad: Any) -> Any:
        """Return the direction of the next step: the gradient times the estimated inverse of the Hessian, negative.

        Source: J. Nocedal and S. Wright, "Numerical optimization", algorithm 7.4 (2006).
        """
        state = self.state
        if not state.get("n_iter"):
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature, square = map(float, numbers_of([np.vdot(change, step), np.vdot(change, change)]))
        if curvature > _LEAST_CURVATURE:
            if len(changes) == self._group["history_size"]:
                for history in (changes, steps, inverses):
                    del history[0]
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / square
        direction, shares = -grad, []
        for change, step, inverse in zip(reversed(changes), reversed(steps), reversed(inverses), strict=True):
            shares.append(_dot(step, direction) * inverse)
            direction = direction - shares[-1] * change
        direction = direction * state["H_diag"]
        for change, step, inverse in zip(changes, steps, inverses, strict=True):
            direction = direction + step * (shares.pop() - _dot(change, direction) * inverse)
        return direction

    def _values(self) -> Any:
        return _flat([param._data for param in self._params])

    def _grad(self) -> Any:
        """Return the gradients of all parameters as one vector; zeros for those that have none."""
        given = None if self._grads is None else {id(param): grad for param, grad in self._grads}
        arrays = []
        for param in self._params:
            if given is not None:
                grad = given.get(id(param))
            else:
                grad = None if param.grad is None else param.grad._data
            arrays.append(np.zeros_like(param._data) if grad is None else grad)
        return _flat(arrays)

    def _assign(self, values: Any) -> None:
        """Write a vector of all values into the parameters."""
        follow_streams()
        offset = 0
        for param in self._params:
            prepare_write(param)
            target = real_view(param._data)
            target[...] = values[offset : offset + target.size].reshape(target.shape)
            param._bump_version()
            offset += target.size


def _dot(x: Any, y: Any) -> Any:
    """Return a product as a number; as an array where the host would have to wait for it."""
    product = np.vdot(x, y)
    return product if is_device_array(product) else float(product)


def _flat(arrays: list[Any]) -> Any:
    return np.concatenate([real_view(array).reshape(-1) for array in arrays])


def _as_float(loss: Any) -> float:
    if loss is None:
        return 0.0
    return float(loss.item()) if isinstance(loss, Tensor) else number(loss, "the loss that the closure returned")
