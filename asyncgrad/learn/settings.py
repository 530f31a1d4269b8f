"""What a step depends on beside the model and the examples: the optimizer's options, the seed and the clipping.

A journal has them wherever they change, so that a replay learns each example as it was learned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..core.settings.arguments import whole_number
from ..errors import ArgumentError
from ..optim.optimizer import Group, Optimizer
from .encoding import array_as_text, array_of_text, decode, encode

__all__ = ["Edit", "Settings", "apply_options", "changed_groups", "check_options", "differences", "edits", "options_of"]


class Settings(NamedTuple):
    """What held for a step."""

    seed: int
    max_grad_norm: float
    #: The options of each group of the optimizer's, without its parameters.
    groups: list[Group]

    def text(self) -> str:
        """Return it as JSON, which is equal for equal settings; floats keep every bit."""
        norm = None if self.max_grad_norm == math.inf else self.max_grad_norm
        groups = encode([dict(sorted(group.items())) for group in self.groups], array_as_text, "optimizer.param_groups")
        return json.dumps({"seed": self.seed, "max_grad_norm": norm, "groups": groups})

    @staticmethod
    def of_text(text: str) -> Settings:
        """Return the settings whose text that is."""
        found = json.loads(text)
        norm = found["max_grad_norm"]
        return Settings(found["seed"], math.inf if norm is None else norm, decode(found["groups"], array_of_text))


def options_of(optimizer: Optimizer) -> list[Group]:
    """Return a copy of the options of each group."""
    return [
        {name: _copy(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups
    ]


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list) else value


def check_options(optimizer: Optimizer, groups: list[Group]) -> None:
    """Raise unless the optimizer takes the options of each group.

    Raises:
        ArgumentError, ArgumentTypeError: it does not; the message names the option.
    """
    for group, options in zip(optimizer.param_groups, groups, strict=True):
        optimizer._check_options({"params": group["params"], **options})


def apply_options(optimizer: Optimizer, groups: list[Group]) -> None:
    """Set the options of each group.

    Raises:
        ArgumentError: the optimizer has more or fewer groups.
    """
    own = optimizer.param_groups
    if len(own) != len(groups):
        raise ArgumentError(
            f"the optimizer has {len(own)} groups of parameters, and there are options for {len(groups)}: give it its "
            "groups before the learner begins"
        )
    for group, options in zip(own, groups, strict=True):
        group.update({name: _copy(value) for name, value in options.items()})


def changed_groups(optimizer: Optimizer, options: Group, group: int | None) -> list[Group]:
    """Return the options of each group with some of them changed; the optimizer stays as it is.

    Args:
        optimizer: the optimizer.
        options: the new values, by name.
        group: the number of the group; None for all.

    Raises:
        ArgumentError, ArgumentTypeError: there is no such option or group, or the optimizer does not take the value.
    """
    found = options_of(optimizer)
    if group is not None and not 0 <= whole_number(group, "group") < len(found):
        raise ArgumentError(f"the optimizer has {len(found)} groups of parameters, from 0, and no group {group}")
    for number in range(len(found)) if group is None else [group]:
        if unknown := sorted(set(options) - set(found[number])):
            known = ", ".join(found[number])
            raise ArgumentError(f"{type(optimizer).__name__} has no option {unknown[0]!r}: there are {known}")
        found[number].update(options)
    check_options(optimizer, found)
    return found


def differences(record: list[Group], code: list[Group]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each option that differs between two lists of groups: its name with its group, and both values."""
    for number, (one, other) in enumerate(zip(record, code, strict=True)):
        where = "" if len(record) == 1 else f" of group {number}"
        for name in one:
            if name in other and _text(one[name]) != _text(other[name]):
                yield f"{name}{where}", one[name], other[name]


class Edit(NamedTuple):
    """A value that the code gives, and gave otherwise at the start before."""

    name: str
    #: The number of the group of parameters; None for what is not an option of the optimizer.
    group: int | None
    value: Any


def edits(code: Settings, before: Settings) -> Iterator[Edit]:
    """Yield what somebody has changed in the code between two starts, which holds whatever was set at run time.

    Args:
        code: what it gives now, before anything was loaded.
        before: what it gave at the start before.
    """
    for number, (now, then) in enumerate(zip(code.groups, before.groups, strict=False)):
        for name in now:
            if name in then and _text(now[name]) != _text(then[name]):
                yield Edit(name, number, now[name])
    for name in ("seed", "max_grad_norm"):
        if getattr(code, name) != getattr(before, name):
            yield Edit(name, None, getattr(code, name))


def _text(value: Any) -> str:
    return json.dumps(encode(value, array_as_text, "option"))
