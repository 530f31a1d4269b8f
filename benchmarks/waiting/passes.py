"""Small backward passes that run at the same time on one loop, beside those of PyTorch, one after another."""

from __future__ import annotations

from typing import final

from ..many import PASSES, Many
from ..peers import PEERS, Array
from .loops import LOOPS, OnEachLoop

__all__ = ["Passes"]


@final
class Passes(OnEachLoop):
    """The backward passes of the benchmark `many`, on each loop, beside PyTorch's and the floor."""

    title = f"{PASSES:,} small backward passes in flight, on {{}}"
    params = (tuple(peer for peer in ("asyncgrad", "torch", "floor") if peer in PEERS), LOOPS)

    def setup(self, peer: str, loop: str) -> None:
        """Create a model for every pass."""
        self.many = Many()
        self.many.setup(peer)

    def gradients(self) -> list[Array]:
        """Return the gradients of all passes."""
        return self.many.gradients()

    def prepare_backward(self) -> None:
        """Run every forward."""
        self.many.prepare_backward()

    async def time_backward(self) -> None:
        """Time all backward passes."""
        await self.many.time_backward()
