"""ModelState: a model, its optimizer, and all else that a step depends on or changes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer
from .checks import norm_of
from .settings import Settings, apply_options, changed_groups, options_of

__all__ = ["ModelState", "Published"]


class Published(NamedTuple):
    """What predictions read: the model after so many examples."""

    learned: int
    model: Any


@final
class ModelState:
    """What a checkpoint brings back: the model, the optimizer, the settings, and how far they are.

    Attributes:
        model: the model, into which steps write.
        optimizer: the optimizer of its parameters.
        seed: of the random numbers of each step.
        max_grad_norm: what gradients are clipped to.
        steps: how many steps were made.
        published: what predictions read.
    """

    def __init__(self, model: Module, optimizer: Optimizer, seed: int, max_grad_norm: float) -> None:
        self.model: Module = model
        self.optimizer: Optimizer = optimizer
        self.seed: int = seed
        self.max_grad_norm: float = max_grad_norm
        self.steps: int = 0
        self.published: Published = Published(0, model)

    @property
    def learned(self) -> int:
        """How many examples the model has learned, as far as predictions see it."""
        return self.published.learned

    def publish(self, learned: int) -> None:
        """Have predictions read the model as it is now."""
        self.published = Published(learned, self.model.snapshot())

    def snapshot_of(self, saved: Mapping[str, Any]) -> Any:
        """Return an immutable model with tensors of a version; this one stays as it is.

        Raises:
            ArgumentError: they are of another model.
        """
        self.check_saved(saved)
        # Nobody sees it: there is no await in between, and predictions have snapshots.
        try:
            return self.model.update(saved).snapshot()
        finally:
            self._bring_back_model()

    def _bring_back_model(self) -> None:
        last = self.published.model
        self.model.update({**dict(last.named_parameters()), **dict(last.named_buffers())})

    # --- what a checkpoint has -------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step may change: also buffers that a state dict leaves out."""
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    def params(self) -> list[list[str | None]]:
        """Return the names of the parameters of each group of the optimizer."""
        names = {id(param): name for name, param in self.model.named_parameters()}
        return [[names.get(id(param)) for param in group["params"]] for group in self.optimizer.param_groups]

    def group_sizes(self) -> list[int]:
        """Return how many parameters each group of the optimizer has."""
        return [len(group["params"]) for group in self.optimizer.param_groups]

    def rounding(self) -> float:
        """Return by how much a loss may differ where only rounding does: half of the digits."""
        dtypes = [param.dtype for group in self.optimizer.param_groups for param in group["params"]]
        return math.sqrt(max(float(np.finfo(dtype).eps) for dtype in dtypes))

    def tree(self, settings: Settings) -> dict[str, Any]:
        """Return it as a tree, with these settings; its arrays are those of the model, until the next step."""
        optimizer = self.optimizer.state_dict()
        for group, options in zip(optimizer["param_groups"], settings.groups, strict=True):
            group.update(options)
        return {
            "learned": self.learned,
            "steps": self.steps,
            "model": self.tensors(),
            "optimizer": optimizer,
            "optimizer_type": type(self.optimizer).__name__,
            "params": self.params(),
            "settings": settings.text(),
        }

    def load(self, tree: Any) -> int:
        """Take over what `tree` returned, and return how many examples it has learned, which are not published yet.

        Raises:
            ArgumentError: it is of another model or optimizer.
        """
        learned, steps = tree["learned"], tree["steps"]
        if type(learned) is not int or type(steps) is not int:
            raise ArgumentError(f"it has learned {learned!r} examples in {steps!r} steps")
        if tree["optimizer_type"] != type(self.optimizer).__name__:
            raise ArgumentError(f"it is one of {tree['optimizer_type']}, not {type(self.optimizer).__name__}")
        self.check_saved(tree["model"])
        # The state of an optimizer is by number.
        if (found := tree.get("params", self.params())) != self.params():
            raise ArgumentError(f"its optimizer has the parameters {found}, and this one {self.params()}")
        self.model.update(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])
        self.steps = steps
        if "settings" in tree:
            self.take(tree["settings"])
        return learned

    def check_saved(self, saved: Mapping[str, Any]) -> None:
        """Raise an ArgumentError unless all of the model has been saved, in the same dtypes."""
        own = self.tensors()
        missing = own.keys() - saved.keys()
        if missing:
            raise ArgumentError(f"it lacks {', '.join(sorted(missing))}")
        for name, one in own.items():
            if (dtype := saved[name].dtype) != one.dtype:
                raise ArgumentError(f"{name} has dtype {one.dtype}, and there {dtype}: make the model with that one")

    def remember(self) -> Callable[[], None]:
        """Return what undoes a `load`, before anything is published."""
        steps, seed, norm = self.steps, self.seed, self.max_grad_norm
        # To load makes new ones.
        state, groups = self.optimizer.state, self.optimizer.param_groups

        def bring_back() -> None:
            self._bring_back_model()
            self.optimizer.state, self.optimizer.param_groups = state, groups
            self.steps, self.seed, self.max_grad_norm = steps, seed, norm

        return bring_back

    # --- settings --------------------------------------------------------------------------------

    def settings(self) -> Settings:
        """Return the settings of now."""
        return Settings(self.seed, self.max_grad_norm, options_of(self.optimizer))

    def take(self, text: str) -> None:
        """Have the settings hold whose text that is."""
        self.seed, self.max_grad_norm, groups = Settings.of_text(text)
        apply_options(self.optimizer, groups)

    def settings_with(self, options: Mapping[str, Any], group: int | None) -> Settings:
        """Return the settings with some options changed; nothing is set.

        Raises:
            ArgumentError, ArgumentTypeError: there is no such option or group, or it does not take the value.
        """
        given, norm = dict(options), self.max_grad_norm
        if "max_grad_norm" in given:
            if group is not None:
                raise ArgumentError("max_grad_norm is one for all groups of parameters: set it without group=")
            norm = norm_of(given.pop("max_grad_norm"))
        return Settings(self.seed, norm, changed_groups(self.optimizer, given, group))

    def set_options(self, options: Mapping[str, Any], group: int | None, max_grad_norm: float) -> None:
        """Set options of the optimizer that were checked by `settings_with`, and what that returned for the norm."""
        self.max_grad_norm = max_grad_norm
        own = self.optimizer.param_groups
        for each in own if group is None else [own[group]]:
            each.update({name: value for name, value in options.items() if name != "max_grad_norm"})

    # --- steps -----------------------------------------------------------------------------------

    async def step(self, settings: Settings | None) -> None:
        """Step with settings that were written, also where somebody has set others meanwhile, for the next step."""
        if settings is None:
            await self.optimizer.step_async()
            return
        written, meanwhile = settings.text(), self.settings()
        if meanwhile.text() == written:
            await self.optimizer.step_async()
            return
        apply_options(self.optimizer, settings.groups)
        try:
            await self.optimizer.step_async()
        finally:
            if self.settings().text() == written:
                apply_options(self.optimizer, meanwhile.groups)

    def undo_step(self, is_stepping: bool, optimizer_state: Mapping[Tensor, Any] | None) -> None:
        """Bring back what a step has changed that has failed.

        Args:
            is_stepping: whether it had begun to change parameters.
            optimizer_state: what `foreign_optimizer_state` returned before it.
        """
        self.optimizer.zero_grad()
        last = self.published.model
        changed = {**(dict(last.named_parameters()) if is_stepping else {}), **dict(last.named_buffers())}
        if changed:
            self.model.update(changed)
        if is_stepping and optimizer_state is not None:
            self.optimizer.state.clear()
            self.optimizer.state.update(optimizer_state)

    def foreign_optimizer_state(self) -> dict[Tensor, Any] | None:
        """Return a copy of the optimizer's state, if it may fail after it has changed a part of that; else None.

        Those of this package allocate before they change anything
        (test_a_step_that_an_optimizer_fails_in_the_midst_of_changes_nothing).
        """
        if type(self.optimizer).__module__.startswith(f"{__package__.partition('.')[0]}."):
            return None
        return {param: copy.deepcopy(one) for param, one in self.optimizer.state.items()}
