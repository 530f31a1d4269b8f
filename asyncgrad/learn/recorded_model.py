"""RecordedModel: a model and the directory that has it: what its checkpoints and the lines of its journal say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from ..errors import ArgumentError, ArgumentTypeError, JournalError, ModelDirectoryError
from .activity import Activity
from .directory import ModelDirectory
from .drift import DriftMonitors
from .lineage import Lineage
from .lines import Record
from .model_state import ModelState
from .settings import Settings, apply_options, check_options, differences, edits, options_of
from .versions import Version

__all__ = ["RecordedModel"]

log: logging.Logger = logging.getLogger("asyncgrad.learn")


@final
class RecordedModel:
    """Writes what becomes of a model into its directory, if it has one, and takes over what the directory has.

    Only one task at a time may await its methods: the one that starts the learner, then the one that learns.

    Attributes:
        state: the model.
        directory: its directory; None without one, and before `open`.
        lineage: which lines it has learned from, and what rollbacks have left.
        paused: why nothing is learned; empty if it is.
        drift: what is watched, whose values a checkpoint has.
        code_text: the text of the settings that the code gives.
        code_recorded: that of those which it gave when that was last written down; None if it never was.

    Args:
        state: the model.
        drift: what is watched.
        activity: has the stage and the counts.
    """

    def __init__(self, state: ModelState, drift: DriftMonitors, activity: Activity) -> None:
        self.state: ModelState = state
        self.drift: DriftMonitors = drift
        self._activity = activity
        self.directory: ModelDirectory | None = None
        self.lineage: Lineage = Lineage()
        self.paused: str = ""
        self.code_text: str = ""
        self.code_recorded: str | None = None
        #: The text of the settings that the directory has.
        self._text: str | None = None
        #: How many parameters the groups of the optimizer have in the directory.
        self._sizes: list[int] = []
        self._is_closed = False

    def on_disk(self) -> ModelDirectory:
        """Return the directory.

        Raises:
            ArgumentError: there is none.
        """
        if self.directory is None:
            raise ArgumentError("this learner has no directory for a checkpoint: make it with directory=...")
        return self.directory

    # --- the start, and the end ------------------------------------------------------------------

    async def open(self, path: Path, *, takes_over: bool) -> Settings | None:
        """Open the directory, and load its checkpoint, or begin it.

        Args:
            path: the directory.
            takes_over: as for a ModelDirectory.

        Returns:
            The settings that the code gives, for `go_on`, once the journal was replayed; None if the directory is new.

        Raises:
            ModelDirectoryError: it is in use, damaged, or has another model.
        """
        directory = await asyncio.to_thread(self._open_directory, path, takes_over)
        tree = await asyncio.to_thread(directory.checkpoint)
        code = self.state.settings()
        self.code_text = code.text()
        self._sizes = self.state.group_sizes()
        if tree is None:
            # Of a model that was removed, versions may be left.
            await asyncio.to_thread(directory.skip_taken)
            await asyncio.to_thread(directory.begin, self._tree(code))
            self._text = self.code_recorded = self.code_text
            return None
        try:
            self.state.published = self.state.published._replace(learned=self.load(tree))
            self.take_rest(tree)
            self.drift.load(tree.get("drift", []))
        except Exception as error:
            raise ModelDirectoryError(
                f"the checkpoint in {path} does not fit this model or optimizer: {error}"
            ) from error
        return code

    def _open_directory(self, path: Path, takes_over: bool) -> ModelDirectory:
        self.directory = ModelDirectory(path, takes_over=takes_over)
        if self._is_closed:
            # The start was cancelled while this thread ran, and saw nothing to close.
            self.directory.close()
        return self.directory

    async def go_on(self, code: Settings) -> None:
        """Have hold what was edited in the code since the last start, after the journal was replayed.

        Raises:
            ModelDirectoryError: the directory cannot be written to, and must be.
        """
        directory = self.on_disk()
        self._go_on_with(code, directory.path)
        if await asyncio.to_thread(directory.skip_taken):
            text = "%s has versions of a later time than its journal, whose examples are not there any more"
            log.warning(text, directory.path)
            if (refused := await self.save()) is not None:
                raise ModelDirectoryError(f"{directory.path} cannot be written to: {refused}") from refused

    def _go_on_with(self, code: Settings, path: Path) -> None:
        """Have hold what was edited in the code since the last start; all else goes on as it was."""
        state, optimizer = self.state, self.state.optimizer
        now = state.settings()
        if self.code_recorded is None:
            # An older version has not written it down: options go on, and the rest is the code's.
            before = now._replace(groups=code.groups)
        else:
            before = Settings.of_text(self.code_recorded)
        groups = options_of(optimizer)
        changed: dict[str, Any] = {"seed": now.seed, "max_grad_norm": now.max_grad_norm}
        for name, group, value in edits(code, before):
            options = changed if group is None else groups[group]
            # Of an array, equality is one of its elements.
            if repr(was := options.get(name)) != repr(value):
                where = "" if group is None or len(groups) == 1 else f" of group {group}"
                text = "%s: %s%s was %r there, and is %r from here on, as in the code"
                log.warning(text, path, name, where, was, value)
            options[name] = value
        check_options(optimizer, groups)
        apply_options(optimizer, groups)
        state.seed, state.max_grad_norm = changed["seed"], changed["max_grad_norm"]
        for name, record, given in differences(groups, code.groups):
            text = (
                "%s: %s is %r, as in the directory, and not %r, as in the code: await learner.set_options() changes it"
            )
            log.warning(text, path, name, record, given)

    def close(self) -> None:
        """Release the directory."""
        self._is_closed = True
        if self.directory is not None:
            self.directory.close()

    async def finish(self) -> None:
        """Write a checkpoint, unless the last one and an empty journal say all; release the directory."""
        directory = self.directory
        try:
            if directory is not None and (directory.records or directory.broken or self._has_other_settings()):
                await self.save()
        finally:
            self.close()

    # --- what the directory has ------------------------------------------------------------------

    def load(self, tree: Any) -> int:
        """Load the model of a checkpoint or a version; return how many examples it has learned: not published yet."""
        learned = self.state.load(tree)
        if "settings" in tree:
            self._text = tree["settings"]
        return learned

    def take_rest(self, tree: Mapping[str, Any]) -> None:
        """Take over what a checkpoint has beside the model, and a version does not bring back."""
        self.lineage = Lineage.of_tree(tree.get("lineage", {}))
        self.paused, self.code_recorded = tree.get("paused", ""), tree.get("code")

    def take_over(self, record: Record, version: Any) -> None:
        """Have hold what a line of the journal says beside its examples.

        Args:
            record: the line.
            version: the state of the version that it goes back to.
        """
        if record.settings is not None:
            self.state.take(record.settings)
            self._text = record.settings
        if record.code is not None:
            self.code_recorded = record.code
        if record.keep is not None:
            self.lineage = self.lineage.keeping(record.keep)
        if record.paused is not None:
            self.paused = record.paused
        if record.rollback is not None:
            self._go_back(version, self.load(version), record.rollback["examples"])

    def _tree(self, settings: Settings) -> dict[str, Any]:
        return {
            **self.state.tree(settings),
            "code": self.code_text,
            "lineage": self.lineage.as_tree(),
            "paused": self.paused,
            "drift": self.drift.tree(),
        }

    def tree_elsewhere(self) -> dict[str, Any]:
        """Return the first checkpoint of another directory, where what tells of the lines of this one means nothing.

        What the code gives is that of the learner that was followed: who starts there compares its own with it.
        """
        return {**self.state.tree(self.state.settings()), "code": self.code_recorded, "paused": self.paused}

    # --- lines of the journal --------------------------------------------------------------------

    async def write_step(self, examples: list[Any], loss: float, source: int | None) -> Settings | None:
        """Write the line of a step, and return the settings with which it is made; None without a directory.

        Args:
            examples: those of the step.
            loss: the loss before it.
            source: the position of the line that has acknowledged them, if they are learned once more.

        Raises:
            JournalError: it could not be written.
        """
        if self.directory is None:
            return None
        if self.has_other_groups():
            raise JournalError("the optimizer has another group since, and no checkpoint with it could be written yet")
        settings = self.state.settings()
        text = settings.text()
        if text != self._text:
            # Somebody has set them by hand, which checks nothing; and no checkpoint with them could be loaded.
            check_options(self.state.optimizer, settings.groups)
        self._activity.stage = "journal"
        more = {**self._unrecorded(text), "loss": loss, "again": source}
        await asyncio.to_thread(self.directory.append, self.state.learned, examples, more)
        return settings

    def has_written(self, settings: Settings) -> None:
        """Note that the directory has these settings, by the line of a step that was made."""
        self._text, self.code_recorded = settings.text(), self.code_text

    def has_learned(self, source: int | None) -> None:
        """Note the line from which a step has learned; None is the last one of the directory, if there is one."""
        if source is None and self.directory is not None:
            source = self.directory.position - 1
        if source is not None:
            self.lineage = self.lineage.after(source)

    def has_other_groups(self) -> bool:
        """Whether the optimizer has other groups of parameters than the checkpoint, so that no line can be replayed."""
        return self.directory is not None and self._sizes != self.state.group_sizes()

    def confirm(self) -> None:
        """Note that what all lines say has been done."""
        if self.directory is not None:
            self.directory.confirm()

    async def take_back(self) -> None:
        """Remove the line of a step that has failed."""
        if self.directory is not None:
            await asyncio.to_thread(self.directory.take_back)

    async def append(self, **more: Any) -> None:
        """Write a line without examples, if there is a directory.

        Raises:
            JournalError: it could not be written.
        """
        self._activity.stage = "journal"
        if self.directory is not None:
            await asyncio.to_thread(self.directory.append, self.state.learned, [], more)

    async def set_options(self, options: Mapping[str, Any], group: int | None) -> None:
        """Write a change of options to the journal, and make it."""
        settings = self.state.settings_with(options, group)
        text = settings.text()
        await self.append(**{"settings": text, **self._unrecorded(text)})
        if self.directory is not None:
            self.has_written(settings)
        self.state.set_options(options, group, settings.max_grad_norm)

    async def pause(self, reason: str) -> None:
        """Have nothing be learned, or with an empty reason again, once that is on the disk."""
        await self.append(paused=reason)
        self.paused = reason

    async def keep(self, source: int) -> None:
        """Have a line that could not be learned again be kept, once that is on the disk."""
        await self.append(keep=source)
        self.lineage = self.lineage.keeping(source)

    async def roll_back(self, name: str, examples: str) -> None:
        """Have a version hold, once that is on the disk; or change nothing."""
        directory = self.on_disk()
        version = directory.versions.find(name)
        self._activity.stage = "rollback"
        tree = await asyncio.to_thread(directory.versions.read, name)
        text, bring_back = self._text, self.state.remember()
        try:
            learned = self.load(tree)
            rollback = {"to": name, "id": version.id, "learned": learned, "examples": examples}
            await self.append(rollback=rollback)
        except BaseException as error:
            bring_back()
            self._text = text
            if isinstance(error, KeyError):
                raise ModelDirectoryError(f"the version {name!r} lacks {error}: restore it from a copy") from error
            raise
        self._activity.counts["rollbacks"] += 1
        self._go_back(tree, learned, examples)

    def _go_back(self, tree: Any, learned: int, examples: str) -> None:
        """Publish a version that was loaded, after its line."""
        self.lineage = self.lineage.rolled_back(Lineage.of_tree(tree["lineage"]).learned, examples)
        self.drift.forget_losses()
        self.state.publish(learned)

    def _unrecorded(self, text: str) -> dict[str, str]:
        """Return what a line says of the settings with this text, and of those of the code: what has changed."""
        if self.code_text != self.code_recorded:
            return {"settings": text, "code": self.code_text}
        return {} if text == self._text else {"settings": text}

    # --- checkpoints and versions ----------------------------------------------------------------

    async def save(self) -> OSError | None:
        """Write a checkpoint; return and log what kept it from being written, after which a later step tries again."""
        directory = self.on_disk()
        self._activity.stage = "checkpoint"
        settings, sizes = self._settings_to_save(), self.state.group_sizes()
        try:
            await asyncio.to_thread(self._save_now, directory, settings)
        except OSError as error:
            self._activity.counts["failed_checkpoints"] += 1
            log.error("no checkpoint could be written, and the journal goes on: %s", error)
            return error
        finally:
            self._activity.stage = None
        self.has_written(settings)
        self._sizes = sizes
        self._activity.counts["checkpoints"] += 1
        return None

    def _save_now(self, directory: ModelDirectory, settings: Settings) -> None:
        # Nobody writes into the model meanwhile: the task that learns waits for this.
        directory.save_checkpoint(self._tree(settings), self.lineage.needed(directory.versions.learned()))

    async def save_version(self, name: str) -> Version:
        """Write a version of the model as it is now."""
        self._activity.stage = "checkpoint"
        tree = self._tree(self._settings_to_save())
        return await asyncio.to_thread(self.on_disk().save_version, name, tree)

    async def forget(self, name: str) -> None:
        """Remove a version."""
        directory = self.on_disk()
        directory.versions.find(name)
        # A start must not need it: a line may say that it was gone back to.
        if directory.records and (error := await self.save()) is not None:
            raise error
        await asyncio.to_thread(directory.remove_version, name)

    def _settings_to_save(self) -> Settings:
        """Return the settings of now; or, if the optimizer could not be loaded with them, those that held last."""
        settings = self.state.settings()
        try:
            check_options(self.state.optimizer, settings.groups)
            settings.text()
        except (ArgumentError, ArgumentTypeError) as error:
            if self._text is None:
                raise
            log.error("options of the optimizer are not saved, since it would not take them: %s", error)
            last = Settings.of_text(self._text)
            groups = [*last.groups, *settings.groups[len(last.groups) :]]
            return last._replace(groups=groups[: len(settings.groups)])
        return settings

    def _has_other_settings(self) -> bool:
        return self._settings_to_save().text() != self._text or self.code_text != self.code_recorded
