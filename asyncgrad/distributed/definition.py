"""Definition: what a stage computes, as it travels to its worker once, and what the worker makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from ..core.settings.arguments import describe, must_be
from ..core.settings.context import GENERATOR, SeededGenerator
from ..core.tensor import Tensor, tensor
from ..core.tree.structure import flatten, unflatten
from ..errors import ArgumentError, ArgumentTypeError
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer

__all__ = ["Definition", "Program"]


@final
@dataclass(frozen=True, slots=True)
class Definition:
    """What a stage computes.

    Example:
        >>> import numpy as np
        >>> from asyncgrad.distributed.definition import Definition
        >>> Definition(lambda w, x: w * x, np.array(2.0)).build().params
        [tensor(2., dtype=float64, device='cpu', requires_grad=True)]
    """

    #: A function of `(params, *inputs)`, or of the inputs alone where there are no parameters; a Module; or its class.
    fn: Callable[..., Any] | str
    #: A tree of arrays; None for none.
    params: object = None
    #: The arguments of a Module's class.
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    #: Makes the optimizer, of the parameters; None for none.
    optimizer: Callable[..., object] | None = None
    #: What the random numbers of a Module's initialisers, and of each call, come from.
    seed: int = 0
    #: Whether the parameters are leaves at home, and come with the calls.
    params_at_home: bool = False

    def build(self) -> Program:
        """Make the parameters, the model and the optimizer; at the worker."""
        if isinstance(self.fn, type) and issubclass(self.fn, Module):
            token = GENERATOR.set(SeededGenerator(self.seed))
            try:
                fn: Any = self.fn(*self.args, **self.kwargs)
            finally:
                GENERATOR.reset(token)
        else:
            fn = self.fn
        if isinstance(fn, Module):
            return Program(fn, fn, list(fn.parameters()), self)
        if not callable(fn):
            raise ArgumentTypeError(must_be("a stage", "a function or a Module", fn))
        if self.params is None or self.params_at_home:
            return Program(fn, None, [], self)
        found, structure = flatten(self.params)
        params = [tensor(leaf, requires_grad=np.asarray(leaf).dtype.kind in "fc") for leaf in found]
        return Program(fn, unflatten(structure, params), params, self)


@final
class Program:
    """A stage as its worker runs it: the function, its parameters, and their optimizer.

    Args:
        fn: what is called.
        tree: the parameters as `fn` takes them; a Module for one, None for none.
        params: its leaves.
        definition: where it comes from.
    """

    __slots__ = ("_optimizer", "_tree", "definition", "fn", "params", "steps")

    def __init__(self, fn: Any, tree: Any, params: list[Tensor], definition: Definition) -> None:
        self.fn = fn
        self._tree = tree
        #: All parameters; those that do not require grad have none.
        self.params: list[Tensor] = params
        self.definition: Definition = definition
        #: How many steps the optimizer has made.
        self.steps = 0
        make = definition.optimizer
        self._optimizer: Any = (
            None if make is None or not params else make(tree if isinstance(tree, Module) else params)
        )
        if self._optimizer is not None and not isinstance(self._optimizer, Optimizer):
            raise ArgumentTypeError(
                f"optimizer must be a function that makes one of ag.optim, and made {describe(self._optimizer)}"
            )

    def call(self, params: list[Any], inputs: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return what the stage computes; an awaitable of it where it is async.

        Args:
            params: those that have come from home; empty where they are here.
            inputs: the inputs.
            keywords: those that are passed by name.
        """
        if self.definition.params_at_home:
            structure = flatten(self.definition.params)[1]
            return self.fn(unflatten(structure, params), *inputs, **keywords)
        if self._tree is None or isinstance(self._tree, Module):
            return self.fn(*inputs, **keywords)
        return self.fn(self._tree, *inputs, **keywords)

    def step(self, options: Mapping[str, Any]) -> None:
        """Make a step of the optimizer.

        Raises:
            ArgumentTypeError: the stage has no optimizer.
        """
        if self._optimizer is None:
            raise ArgumentTypeError(
                "this stage has no optimizer: give it one, as in optimizer=lambda params: ag.optim.SGD(params, lr=0.1)"
            )
        for group in self._optimizer.param_groups:
            if unknown := sorted(set(options) - (set(group) - {"params"})):
                raise ArgumentError(
                    f"{type(self._optimizer).__name__} has no option {', '.join(unknown)}: "
                    f"it has {', '.join(sorted(set(group) - {'params'}))}"
                )
        for group in self._optimizer.param_groups:
            group.update(options)
        self._optimizer.step()
        self.steps += 1

    def state(self) -> dict[str, Any]:
        """Return all that a step changes, and the gradients: what another worker needs to go on."""
        return {
            "params": [param.detach() for param in self.params],
            "grads": [param.grad for param in self.params],
            "buffers": [buffer.detach() for buffer in self._buffers()],
            "optimizer": None if self._optimizer is None else self._optimizer.state_dict(),
            "steps": self.steps,
        }

    def spread(self, grads: list[Any]) -> list[Any]:
        """Return gradients of the parameters that require grad as those of all, None for the others."""
        left = iter(grads)
        return [next(left) if param.requires_grad else None for param in self.params]

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to one that `state` returned, as arrays.

        Raises:
            ArgumentError: it is that of another model.
        """
        for name, mine in (("params", self.params), ("buffers", self._buffers())):
            shapes, found = [one.shape for one in mine], [np.shape(one) for one in state[name]]
            if shapes != found:
                raise ArgumentError(f"this state has {name} of shapes {found}, and the stage has {shapes}")
        for param, value in zip(self.params, state["params"], strict=True):
            param.detach()[...] = value
        for buffer, value in zip(self._buffers(), state["buffers"], strict=True):
            buffer.detach()[...] = value
        for param, grad in zip(self.params, state["grads"], strict=True):
            param.grad = None if grad is None else tensor(grad)
        if self._optimizer is not None and state["optimizer"] is not None:
            self._optimizer.load_state_dict(state["optimizer"])
        self.steps = int(state["steps"])

    def _buffers(self) -> list[Any]:
        return list(self._tree.buffers()) if isinstance(self._tree, Module) else []

    def zero_grad(self) -> None:
        """Drop the gradients of the parameters."""
        for param in self.params:
            param.grad = None
