"""Steps of a compiled function that may take long: a worker may have to run them, and those that stay are measured."""

from __future__ import annotations

from typing import Any

from ..body import prefers_worker, run_here

__all__ = ["is_for_a_worker", "run_measured"]


def is_for_a_worker(node: Any, grad: Any) -> bool:
    """Tell whether a worker is to run a plain node; `grad` is its gradient, or the list of them."""
    return node.plan.may_be_heavy(node, grad) and prefers_worker(node, grad)


def run_measured(node: Any, grad: Any) -> Any:
    """Run a plain node here, as its device has it run where it may take long."""
    return run_here(node, grad) if node.plan.may_be_heavy(node, grad) else node.plan.run_here(node, grad)
