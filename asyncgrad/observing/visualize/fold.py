"""Folding: parts of a graph that repeat, such as the layers of a model or the steps of a loop, are shown once.

The nodes stand in the order of a backward. A part repeats where the nodes that follow it are the same once more, with
the same edges: each edge leads as far down the list as in the part before, or all lead to one and the same node. So a
part that is shown once, with its number of repeats, says all that there is to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Group", "fold"]

#: For each node, how many later nodes of its kind are tried as the beginning of the next repeat.
_TRIES = 24
#: How many pairs of nodes are compared for each node of the graph, on average, before the rest is left as it is.
_BUDGET = 60


@final
class Group:
    """A part that repeats.

    Attributes:
        first: the index of its first node.
        period: how many nodes one repeat has.
        repeats: how many times it is there, in a row.
        items: what the first repeat consists of: nodes by their index, and groups.
    """

    __slots__ = ("first", "items", "period", "repeats")

    def __init__(self, first: int, period: int, repeats: int, items: list[int | Group]) -> None:
        self.first: int = first
        self.period: int = period
        self.repeats: int = repeats
        self.items: list[int | Group] = items

    def repeat_of(self, index: int) -> int:
        """Return which repeat a node is in, given its index, or that of its place in the first of an outer group."""
        return (index - self.first) // self.period


def fold(kinds: Sequence[int], targets: Sequence[Sequence[int]]) -> list[int | Group]:
    """Return the nodes `0, 1, …` with each part that repeats as a Group.

    Args:
        kinds: a number for each node; nodes with the same number look the same, up to where their edges lead.
        targets: for each node, the indices of the nodes that its edges lead to, all higher than its own.
    """
    return _Folder(kinds, targets).items(0, len(kinds))


@final
class _Folder:
    def __init__(self, kinds: Sequence[int], targets: Sequence[Sequence[int]]) -> None:
        self.kinds = kinds
        self.targets = targets
        self.budget = _BUDGET * len(kinds) + 1000
        #: For each node, the next one of its kind; the number of nodes where there is none.
        self.following = [0] * len(kinds)
        latest: dict[int, int] = {}
        for index in range(len(kinds) - 1, -1, -1):
            self.following[index] = latest.get(kinds[index], len(kinds))
            latest[kinds[index]] = index

    def items(self, first: int, end: int) -> list[int | Group]:
        """Return what the nodes from `first` up to `end` consist of."""
        found: list[int | Group] = []
        index = first
        while index < end:
            period, repeats = self._best(index, end)
            if repeats == 1:
                found.append(index)
            else:
                found.append(Group(index, period, repeats, self.items(index, index + period)))
            index += period * repeats
        return found

    def _best(self, first: int, end: int) -> tuple[int, int]:
        """Return the period and the number of repeats that cover the most nodes from `first` on; (1, 1) for none."""
        best = (1, 1)
        for start in self._starts(first, end):
            period = start - first
            repeats = 1 + self._matches(first, period, end) // period
            if _is_worth_it(period, repeats) and period * repeats > best[0] * best[1]:
                best = period, repeats
            if best[0] * best[1] > (end - first) // 2:
                break
        return best

    def _starts(self, first: int, end: int) -> Iterator[int]:
        start = first
        for _ in range(_TRIES):
            start = self.following[start]
            if start > (first + end) // 2 or self.budget <= 0:
                return
            yield start

    def _matches(self, first: int, period: int, end: int) -> int:
        """Return how many nodes from `first` on are the same as the node one period later."""
        #: For each place in a period, whether each edge leads as far as the one a period later, or to the same node.
        # An edge that does now the one and now the other is no repeat.
        modes: dict[int, list[bool]] = {}
        index = first
        while index + period < end:
            mode = self._mode(index, index + period)
            if mode is None or modes.setdefault((index - first) % period, mode) != mode:
                break
            index += 1
        self.budget -= index - first + 1
        return index - first

    def _mode(self, one: int, other: int) -> list[bool] | None:
        if self.kinds[one] != self.kinds[other] or len(self.targets[one]) != len(self.targets[other]):
            return None
        shift = other - one
        mode = []
        for near, far in zip(self.targets[one], self.targets[other], strict=True):
            if far - near == shift:
                mode.append(True)
            elif far == near:
                mode.append(False)
            else:
                return None
        return mode


def _is_worth_it(period: int, repeats: int) -> bool:
    return (repeats >= 3 and period * repeats >= 6) or (repeats == 2 and period >= 8)
