"""What a learner is made of and asked for is checked here; and the errors of one that has ended, or is paused."""

from __future__ import annotations

import inspect
import math
from typing import Any

from ..core.settings.arguments import check_function, must_be, number
from ..core.tensor import Tensor
from ..errors import ArgumentError, ArgumentTypeError, LearnerClosedError, LearningPausedError
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer

__all__ = ["check_functions", "closed_error", "norm_of", "paused_error", "timeout_of", "trained_by"]


def paused_error(reason: str) -> LearningPausedError:
    """Return the error of who would teach a learner that is paused."""
    return LearningPausedError(f"nothing is learned until await learner.resume(): {reason}")


def norm_of(value: Any) -> float:
    """Return `max_grad_norm` as a number; None is no limit."""
    return math.inf if value is None else number(value, "max_grad_norm", 0)


def closed_error() -> LearnerClosedError:
    """Return the error of who waits for a learner that has ended."""
    return LearnerClosedError("the learner was closed before this was done, and nothing has changed")


def check_functions(model: Any, loss: Any, optimizer: Any, evaluate: Any) -> None:
    """Raise unless a learner can be made of these."""
    if evaluate is not None:
        check_function(evaluate, "evaluate")
    if not isinstance(model, Module):
        raise ArgumentTypeError(must_be("model", "an nn.Module", model))
    if not callable(loss):
        raise ArgumentTypeError(must_be("loss", "a function, which is called as loss(model, batch)", loss))
    try:
        inspect.signature(loss).bind(model, None)
    except TypeError as error:
        raise ArgumentTypeError(f"loss is called as loss(model, batch), and cannot be: {error}") from None
    except ValueError:
        pass  # a function written in C, which does not tell what it takes
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(must_be("optimizer", "one of ag.optim", optimizer))
    own = {id(param) for param in model.parameters()}
    others = [param for param in trained_by(optimizer) if id(param) not in own]
    if others:
        raise ArgumentError(
            f"optimizer has {len(others)} parameters that are not of this {type(model).__name__}, the first of "
            f"shape {others[0].shape}: make it with the model, as in optim.Adam(model)"
        )


def trained_by(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters that an optimizer changes."""
    return [param for group in optimizer.param_groups for param in group["params"] if param.requires_grad]


def timeout_of(value: Any) -> float | None:
    """Return a number of seconds above 0, or None."""
    if value is None:
        return None
    seconds: float = number(value, "timeout", 0)
    if not seconds > 0:
        raise ArgumentError(f"timeout must be a number of seconds above 0, not {value!r}")
    return seconds
