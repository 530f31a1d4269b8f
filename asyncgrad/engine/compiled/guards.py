"""What a compiled function looks at when an edge first leads to a node: expressions that are true of a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .description import LeafPlace, Step
    from .text import Text

__all__ = ["FEW_LEAVES", "leaf_guards", "limits_guards", "node_guards"]

#: Up to as many leaves are compared one by one; more are kept in a set.
FEW_LEAVES = 8


def node_guards(text: Text, name: str, step: Step, before: str, after: str | None) -> list[str]:
    """Return what is true of a node that is not the expected one.

    Args:
        text: for the names of constants.
        name: of the node.
        step: what it is to be.
        before: the node that runs before it, of those that have been reached.
        after: the one that runs after it.
    """
    guards = []
    body = step.body
    if step.is_careful:
        guards.append(f"{name}.special is None")
        guards.append(f"{name}.special.stream is not None")
        if step.runs_body:
            guards += _class_guards(text, name, step)
    elif body is not None:
        guards += [text.filled(guard, {"node": name}, body.constants) for guard in body.guards]
        if not body.fixes_edges:
            guards += _class_guards(text, name, step)
    if not step.is_special:
        guards.append(f"{name}.special is not None")
    if step.shape is None:
        metadata = text.constant("metadata", step.metadata)
        guards += [f"{name}.shape is not None", f"{name}.input_metadata != {metadata}"]
    else:
        guards += [f"{name}.shape != {step.shape}", f"{name}.dtype is not {text.dtype(step.metadata[0].dtype)}"]  # type: ignore[union-attr]
    guards.append(f"{name}.order <= {before}.order")
    if after is not None:
        guards.append(f"{name}.order >= {after}.order")
    return guards + limits_guards(text, name, step.limits)


def _class_guards(text: Text, name: str, step: Step) -> list[str]:
    # Nodes of one plan may be of several classes.
    kind = step.token[0]
    if kind is step.node_class:
        guard = f"{name}.__class__ is not {text.constant(kind.__name__, kind)}"
    else:
        guard = f"{name}.plan is not {text.constant(f'plan_of_{step.name}', kind)}"
    return [guard, f"len({name}.next_nodes) != {len(step.targets)}"]


def leaf_guards(text: Text, name: str, leaf: LeafPlace, others: list[str] | None, may_move: bool) -> list[str]:
    """Return what is true of a node that is not the expected leaf's.

    Args:
        text: for the names of constants.
        name: of the node.
        leaf: what it is to be.
        others: leaves that have been met before, and are not in the set; None where all edges to leaves have been
            counted.
        may_move: whether it may be on another device than what comes before.
    """
    guards = [
        f"{name}.__class__ is not AccumulateGrad",
        f"{name}.special is {'' if leaf.is_careful else 'not '}None",
        f"{name}.shape != {leaf.shape}",
        f"{name}.dtype is not {text.dtype(leaf.dtype)}",
    ]
    if leaf.is_careful:
        guards.append(f"{name}.special.stream is not None")
    if leaf.is_careful or may_move:
        guards.append(f"needs_care({name}.device)")
    if others is None:
        # One that has been met is not there any more.
        guards.append(f"left.pop({name}, 0) != {leaf.edges}")
    else:
        guards += [f"{name} is {other}" for other in others]
    return guards + limits_guards(text, name, leaf.limits)


def limits_guards(text: Text, name: str, limits: Any) -> list[str]:
    """Return what is true of a node that a backward with given inputs treats in another way than expected."""
    if limits is None:
        return []
    needed, captures = limits
    if needed and not captures:
        return [f"{name} not in whole and not limits.only_runs({name})"]
    return [
        f"{name} not in limits",
        f"limits[{name}].needed is not {needed}",
        f"limits[{name}].captures != {text.constant('captures', list(captures))}",
    ]
