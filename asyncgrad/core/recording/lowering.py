"""The body of a primitive's node as source code, for a compiled backward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.half import single
from ..graph.cost import size_of
from ..graph.lowering import BodySource, Spec
from .kernels import function_of

if TYPE_CHECKING:
    from ..graph.node_like import NodeLike
    from .formula import Expression
    from .plan import Plan

__all__ = ["lower"]

#: asyncgrad's own formulas are short on fewer elements than this. If a run on fewer measures as long, something else
#: delayed it, such as the garbage collector or another process.
SURELY_SHORT = 4096


def lower(plan: Plan, node: NodeLike, wanted: Sequence[bool] | None) -> BodySource | None:
    """Return the body of a node: each formula as an expression if it is one, else as a call.

    Args:
        plan: the plan of the node.
        node: a recorded call of the primitive.
        wanted: for each edge, whether its gradient is wanted; None if those of all edges with a node are.

    Returns:
        The body; None if the engine has to run the node itself.
    """
    shape = node.shape
    if node.meta is not None or shape is None:
        return None
    names = [f"$s{index}" for index in range(len(plan.slots))]
    values = [f"{name}._data" if slot.is_tensor else name for name, slot in zip(names, plan.slots, strict=True)]
    # Complex gradients are conjugated around the formulas: see Plan.conjugates.
    grad, template = (f"$s{len(names)}", "$conjugate({})") if plan.conjugates else ("$g", "{}")
    before = _version_check(plan, names) + ((f"{grad} = $conjugate($g)",) if plan.conjugates else ())
    temporaries = len(names) + plan.conjugates
    if plan.is_half:
        grad, *wide = [f"$s{len(names) + index}" for index in range(1 + len(values))]
        before += tuple(f"{to} = $single({of})" for to, of in zip([grad, *wide], ["$g", *values], strict=True))
        values, temporaries = wide, 2 * len(names) + 1
    plan_name = re.sub(r"\W", "_", f"plan_of_{plan.primitive.name}")  # the function may be a lambda
    constants = {plan_name: plan, "conjugate": np.conjugate, "single": single, "size_of": size_of}
    results: list[str | None] = []
    specs: list[Spec | None] = []
    is_short = not plan.conjugates
    for edge, (call, expression) in enumerate(zip(plan.calls, plan.expressions, strict=True)):
        is_wanted = call is not None and (wanted is None or wanted[edge])
        keeps_spec = is_wanted and plan.edge_keeps_spec(edge)
        specs.append((shape, node.dtype) if keeps_spec else None)
        if call is None or not is_wanted:
            results.append(None)
            continue
        arguments = [grad, *(values[index] for index in call[1])]
        inlined = expression if plan.inlines(edge) else None
        results.append(template.format(_formula_source(call[0], inlined, arguments, constants)))
        is_short = is_short and keeps_spec
    elements = prod(shape)
    return BodySource(
        tuple(results) if None in results else _joint_source(plan, values, constants) or tuple(results),
        (f"$node.plan is not ${plan_name}",),
        (f"{''.join(f'{name}, ' for name in names)}= $node.saved",) if names else (),
        before,
        ("$node.saved = None",) if plan.holds_tensors else (),
        constants,
        tuple(specs),
        temporaries,
        True,
        is_short,
        plan.could_be_heavy(elements, _saved_specs(plan, node)),
        plan.heavy_where("$g", names, "$size_of"),
        None if elements < SURELY_SHORT and plan.is_ours else plan,
        _additions(plan, values, constants),
    )


def _additions(plan: Plan, values: Sequence[str], constants: dict[str, Any]) -> dict[int, str]:
    """Return the source that adds gradients into `$total`, by edge; add the constants that it uses."""
    found = {}
    for edge, adder in plan.adders.items():
        call = plan.calls[edge]
        assert call is not None
        constants[f"adder{edge}"] = adder
        found[edge] = f"$adder{edge}({', '.join(['$total', '$g', *(values[slot] for slot in call[1])])})"
    return found


def _joint_source(plan: Plan, values: Sequence[str], constants: dict[str, Any]) -> str | None:
    """Return the source of all gradients, if one kernel computes them; add the constants that it uses."""
    joint = plan.joint
    if joint is None or len(joint.edges) < len(plan.calls):
        return None
    constants["joint"] = joint.formula.call
    return f"$joint({', '.join(['$g', *(values[slot] for slot in joint.slots)])})"


def _formula_source(
    formula: Any, expression: Expression | None, arguments: Sequence[str], constants: dict[str, Any]
) -> str:
    """Return a formula as source; add the constants that it uses to `constants`."""

    def name(value: Any) -> str:
        # The number keeps apart constants of one name.
        label = re.sub(r"\W", "_", getattr(value, "__name__", type(value).__name__)).rstrip("_")
        key = f"c{len(constants)}_{label}"
        constants[key] = value
        return f"${key}"

    if expression is None:
        return f"{name(function_of(formula))}({', '.join(arguments)})"
    return expression.source(arguments, name)


def _version_check(plan: Plan, names: Sequence[str]) -> tuple[str, ...]:
    """Return the statement that checks the versions of the saved tensors; empty if there are none."""
    changed = []
    for index in plan.tensor_slots:
        counter = f"{names[index]}._counter"
        is_output = plan.slots[index].owner == "out"
        changed.append(f"{counter}.value" if is_output else f"{counter} is not None and {counter}.value")
    if not changed and not plan.constants:
        return ()
    return (f"if {' or '.join(['$node.saved.__class__ is not tuple', *changed])}: $node.check_versions()",)


def _saved_specs(plan: Plan, node: NodeLike) -> dict[int, Spec | None]:
    """Return the shape and dtype of each saved value, by index; None if the metadata of nodes does not tell them."""
    found: dict[int, Spec | None] = {}
    for index, slot in enumerate(plan.slots):
        found[index] = None
        if not slot.is_tensor:
            continue
        if slot.owner == "out":
            assert node.shape is not None
            found[index] = (node.shape, node.dtype)
            continue
        edge = plan.primitive.tensor_names.index(slot.owner)
        target = node.next_nodes[edge]
        if target is not None:
            metadata = target.input_metadata[node.input_nrs[edge]]
            if metadata is not None and metadata.dtype is not None:
                found[index] = (metadata.shape, metadata.dtype)
    return found
