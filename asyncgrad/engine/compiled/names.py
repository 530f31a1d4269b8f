"""Local names for a compiled function: few, and used again as soon as what they held is not needed."""

from __future__ import annotations

from typing import final

__all__ = ["Names"]


@final
class Names:
    """Gives out names that begin with a letter; a name given back is the next to be given out."""

    __slots__ = ("_free", "_made", "in_use")

    def __init__(self) -> None:
        self._free: dict[str, list[str]] = {}
        self._made: dict[str, int] = {}
        #: What holds something now, in the order in which it was given out.
        self.in_use: dict[str, None] = {}

    def take(self, letter: str) -> str:
        """Return a name that holds nothing."""
        free = self._free.setdefault(letter, [])
        if free:
            name = free.pop()
        else:
            number = self._made.get(letter, 0)
            self._made[letter] = number + 1
            name = f"{letter}{number}"
        self.in_use[name] = None
        return name

    def free(self) -> list[str]:
        """Return the names that hold nothing that is needed, and may still hold what they held last."""
        return sorted(name for free in self._free.values() for name in free)

    def give_back(self, name: str) -> None:
        """Take a name whose value is not needed any more."""
        del self.in_use[name]
        self._free[name[0]].append(name)
