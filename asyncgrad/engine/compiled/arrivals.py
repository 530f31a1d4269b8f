"""Where a compiled backward keeps the gradients on their way: which name, since when, and whether it owns the array."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from .buffers import Buffer
from .program import Place, Slot

if TYPE_CHECKING:
    from .names import Names

__all__ = ["CARRIED", "Arrivals"]

#: When something has arrived that arrived before the piece that is being written.
CARRIED: Place = (-1, 0)


@final
class Arrivals:
    """The gradients that arrive at the inputs of one node."""

    __slots__ = ("_first", "_owned", "buffers", "letter", "names")

    def __init__(self, inputs: int, letter: str) -> None:
        self.letter = letter
        #: By input; None where nothing has arrived.
        self.names: list[str | None] = [None] * inputs
        self.buffers: list[Buffer | None] = [None] * inputs
        self._first: list[Place | None] = [None] * inputs
        self._owned: list[Place | None] = [None] * inputs

    def expect(self, input_nr: int, names: Names) -> str | None:
        """Return a name for the first gradient to arrive at an input; None where one has arrived."""
        if self.names[input_nr] is not None:
            return None
        name = self.names[input_nr] = names.take(self.letter)
        return name

    def arrive(self, input_nr: int, value: str, place: Place, buffer: Buffer, is_large: bool = False) -> str | None:
        """Let the gradient named `value` arrive, in `buffer`; return the line that does it, if it takes one."""
        name, held = self.names[input_nr], self.buffers[input_nr]
        assert name is not None
        if held is None:
            self._first[input_nr] = place
            self.buffers[input_nr] = buffer
            buffer.holders += 1
            return None if value == name else f"{name} = {value}"
        if self._owned[input_nr] is not None:
            return f"{name} += {value}"
        self._owned[input_nr] = place
        self.buffers[input_nr] = total = Buffer(True)
        total.holders = 1
        held.holders -= 1
        if is_large and held.is_new and not held.holders:
            return f"{name} = sum_into({name}, {value}, out={name})"
        if is_large and buffer.is_new and not buffer.holders:
            return f"{name} = sum_into({name}, {value}, out={value})"
        return f"{name} = {name} + {value}"

    def let_go(self) -> None:
        """Note that the node has run."""
        for buffer in self.buffers:
            if buffer is not None:
                buffer.holders -= 1

    def show(self) -> None:
        """Note that others get to see what has arrived."""
        for buffer in self.buffers:
            if buffer is not None:
                buffer.show()

    def name_of_first(self, input_nr: int) -> str | None:
        """Return the name that waits for the first gradient of an input; None where that has arrived."""
        return self.names[input_nr] if self._first[input_nr] is None else None

    def arrived(self) -> list[str]:
        """Return the names of what has arrived."""
        pairs = zip(self.names, self._first, strict=True)
        return [name for name, first in pairs if name is not None and first is not None]

    def rename(self, names: Names) -> None:
        """Give new names to what has arrived, which is carried into another piece."""
        for input_nr, first in enumerate(self._first):
            if first is not None:
                self.names[input_nr] = names.take(self.letter)
                self._first[input_nr] = CARRIED
                self._owned[input_nr] = None if self._owned[input_nr] is None else CARRIED

    def slots(self) -> tuple[Slot | None, ...]:
        """Return where all that was kept."""
        return tuple(
            None if name is None or first is None else Slot(name, first, owned)
            for name, first, owned in zip(self.names, self._first, self._owned, strict=True)
        )
