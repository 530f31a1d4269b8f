"""Lineage: which lines of the journal a model has learned from, and what rollbacks have left to be learned.

An example is known by the position of the line that acknowledged it. A line that learns it once more, after a rollback,
names that position, so that nothing is learned twice, whatever versions are gone back to, and in which order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Literal, NamedTuple, get_args

from .positions import Positions

__all__ = ["CHOICES", "Choice", "Lineage"]

#: What becomes of the examples that a version has not learned when it is gone back to.
Choice = Literal["skip", "keep", "learn"]
CHOICES: tuple[str, ...] = get_args(Choice)


class Lineage(NamedTuple):
    """Three sets of lines without a common one.

    Example:
        >>> after = Lineage(Positions([(0, 9)])).rolled_back(Positions([(0, 5)]), "keep")
        >>> after.learned, after.kept
        (Positions([(0, 5)]), Positions([(5, 9)]))
    """

    #: Those whose examples the model has learned.
    learned: Positions = Positions()
    #: Those whose examples were learned, are so no more, and can be learned again when somebody asks.
    kept: Positions = Positions()
    #: The same, which are learned again before anything else.
    due: Positions = Positions()

    def after(self, position: int) -> Lineage:
        """Return what is so after a step from the examples of a line, be it for the first time or once more."""
        return Lineage(self.learned.with_one(position), self.kept.without_one(position), self.due.without_one(position))

    def keeping(self, position: int) -> Lineage:
        """Return what is so after a line that was due could not be learned."""
        return self._replace(kept=self.kept.with_one(position), due=self.due.without_one(position))

    def rolled_back(self, to: Positions, examples: str) -> Lineage:
        """Return what is so once a version holds that has learned from `to`."""
        since = (self.learned | self.due) - to
        kept = self.kept - to
        if examples == "keep":
            return Lineage(to, kept | since)
        return Lineage(to, kept, since if examples == "learn" else Positions())

    def needed(self, versions: Sequence[Positions]) -> Positions:
        """Return the lines that may be learned again, given what the versions have learned that may be gone back to."""
        left = self.kept | self.due
        if not versions:
            return left
        return left | (reduce(or_, versions, self.learned) - reduce(and_, versions))

    def as_tree(self) -> dict[str, Any]:
        """Return it as lists of numbers."""
        return {name: [list(each) for each in part.ranges] for name, part in self._asdict().items()}

    @staticmethod
    def of_tree(tree: Mapping[str, Any]) -> Lineage:
        """Return the lineage whose `as_tree` that is."""
        return Lineage(**{name: Positions(ranges) for name, ranges in tree.items()})
