"""Gradients for PyTorch's own `.grad`, written where the backward of asyncgrad happens, and put back where it fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, final

from ..core.engine.current import queue_callback
from ..core.settings.context import CURRENT_GRAPH_TASK, CURRENT_NODE
from ..core.settings.process import hold_in_forks
from .torch_arrays import torch

__all__ = ["GradWriter"]

#: Held while a `.grad` is replaced: backward passes of several threads may add to that of one parameter.
_WRITING = hold_in_forks(threading.Lock())


@final
class GradWriter:
    """Writes the gradients of the parameters of a module into their `.grad` at the end of each backward.

    Those of several calls in one backward are added in the order of the graph, whatever the order in which workers
    computed them. A `.grad` is replaced and never written into, so that it can be put back.
    """

    __slots__ = ("_lock", "_running")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By the id of a backward, what it is to write.
        self._running: dict[int, _Commit] = {}

    def add(self, params: Sequence[Any], grads: Sequence[Any]) -> None:
        """Note the gradients that a node of the backward that runs here has computed; None for none."""
        task: Any = CURRENT_GRAPH_TASK.get()
        node: Any = CURRENT_NODE.get()
        with self._lock:
            commit = self._running.get(task.id)
            is_new = commit is None
            if commit is None:
                commit = self._running[task.id] = _Commit(self, task.id)
            commit.found.append((node.sequence_nr, params, grads))
        if is_new:
            queue_callback(commit.write, on_failure=commit.put_back)

    def end(self, task_id: int) -> None:
        """Forget a backward."""
        with self._lock:
            self._running.pop(task_id, None)

    def __deepcopy__(self, memo: dict[int, object]) -> GradWriter:
        return GradWriter()


@final
class _Commit:
    """What one backward writes.

    Args:
        writer: knows it until it is written or put back.
        task_id: the id of the backward.
    """

    __slots__ = ("_task_id", "_writer", "_written", "found")

    def __init__(self, writer: GradWriter, task_id: int) -> None:
        self._writer, self._task_id = writer, task_id
        #: The number of a node, parameters, and their gradients.
        self.found: list[tuple[int, Sequence[Any], Sequence[Any]]] = []
        #: Each parameter with its `.grad` before, what was added, and its `.grad` after.
        self._written: list[tuple[Any, Any, Any, Any]] = []

    def write(self) -> None:
        """Add the gradients to `.grad`."""
        self._writer.end(self._task_id)
        sums: dict[int, tuple[Any, Any]] = {}
        for _, params, grads in sorted(self.found, key=lambda one: -one[0]):
            for param, grad in zip(params, grads, strict=True):
                if grad is not None:
                    known = sums.get(id(param))
                    sums[id(param)] = param, grad if known is None else known[1] + grad
        self.found = []
        with _WRITING, torch.no_grad():
            for param, grad in sums.values():
                before = param.grad
                param.grad = grad if before is None else before + grad
                self._written.append((param, before, grad, param.grad))

    def put_back(self) -> None:
        """Undo `write`, if a later callback has failed; what others have added to `.grad` since stays."""
        self._writer.end(self._task_id)
        with _WRITING, torch.no_grad():
            for param, before, grad, after in self._written:
                if param.grad is after:
                    param.grad = before
                elif param.grad is not None:
                    param.grad = param.grad - grad
        self._written = []
