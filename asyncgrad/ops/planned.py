"""PlannedNode: how the node of a primitive describes itself to compiled autograd."""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..graph.cost import size_of
from ..graph.lowering import BodySource, CompiledArgs, Kind
from ..graph.node import TraceableNode
from ..graph.tensor_base import TensorBase
from .inlining import inlined, kind_of_result

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["PlannedNode"]

#: A function of asyncgrad's own on fewer elements cannot take long. A run that seems to was held up by something else,
#: the garbage collector or another process.
SURELY_SHORT = 4096


class PlannedNode(TraceableNode):
    """Abstract base of PrimitiveNode: its cache key, its body on other saved tensors, and its body as source."""

    __slots__ = ()

    plan: Plan
    saved: tuple[Any, ...] | None

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect the plan, the output's shape and dtype, and what was saved."""
        args.collect_exactly(self.plan, self.input_nrs, self.shape, self.dtype, self.device)
        if self.meta is not None:
            super().compiled_args(args)
        else:
            args.collect_saved(self.saved)

    def apply_with_saved(self, grads: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
        """Return what `apply(grads)` does, with `saved` in place of the tensors that the node has saved."""
        (g,) = grads
        if g is None:
            return self.plan.no_edges
        given = iter(saved)
        as_tensors = isinstance(g, TensorBase)
        values = [
            value if not slot.is_tensor else _as(next(given), as_tensors)
            for slot, value in zip(self.plan.slots, self.saved or (None,) * len(self.plan.slots), strict=True)
        ]
        return self.plan.compute(g, values)

    def body_source(self, wanted: Sequence[bool] | None, defined: Sequence[bool]) -> BodySource | None:
        """Return the formulas of the plan, written into one another where they are expressions."""
        plan = self.plan
        if self.meta is not None or self.shape is None:
            return None
        names = [f"$s{index}" for index in range(len(plan.slots))]
        # A holomorphic derivative multiplies by its conjugate.
        grad, wrapped = (f"$s{len(names)}", "$conjugate({})") if plan.conjugates else ("$g", "{}")
        owned_by = re.sub(r"\W", "_", f"plan_of_{plan.primitive.name}")  # the function may be a lambda
        constants = {owned_by: plan, "conjugate": np.conjugate, "size_of": size_of}
        results: list[str | None] = []
        kinds: list[Kind | None] = []
        is_short = True
        for edge, call in enumerate(plan.calls):
            if call is None or (wanted is not None and not wanted[edge]):
                results.append(None)
                kinds.append(None)
                continue
            formula, taken = call
            arguments = {
                name: f"{names[index]}._data" if plan.slots[index].is_tensor else names[index]
                for name, index in zip(_parameters(formula)[1:], taken, strict=True)
            }
            found = inlined(formula)
            if found is None:
                constants[f"f{edge}"] = formula
                results.append(wrapped.format(f"$f{edge}({', '.join([grad, *arguments.values()])})"))
                kinds.append(None)
                is_short = False
                continue
            constants.update((f"c{edge}_{name}", value) for name, value in found.constants.items())
            results.append(wrapped.format(_written(formula, edge, grad, tuple(arguments.items()))))
            saved_kinds, parameters = self._kinds(taken), _parameters(formula)
            known = {name: saved_kinds[index] for name, index in zip(parameters[1:], taken, strict=True)}
            known[parameters[0]] = (self.shape, self.dtype)
            kind = kind_of_result(formula, tuple(known.items()))
            kinds.append(kind)
            is_short = is_short and kind is not None
        elements = prod(self.shape)
        return BodySource(
            tuple(results),
            (f"$node.plan is not ${owned_by}",),
            (f"{''.join(f'{name}, ' for name in names)}= $node.saved",) if names else (),
            self._check(names) + ((f"{grad} = $conjugate($g)",) if plan.conjugates else ()),
            ("$node.saved = None",) if plan.holds_tensors else (),
            constants,
            tuple(kinds),
            len(names) + plan.conjugates,
            True,
            is_short and not plan.conjugates,
            plan.could_be_heavy(elements, self._kinds(range(len(plan.slots)))),
            plan.heavy_where("$g", names, "$size_of"),
            None if elements < SURELY_SHORT and plan.is_ours else plan,
        )

    def _check(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the statement that checks the versions of what was saved."""
        changed = []
        for index in self.plan.tensor_slots:
            counter = f"{names[index]}._counter"
            is_output = self.plan.slots[index].owner == "out"
            changed.append(f"{counter}.value" if is_output else f"{counter} is not None and {counter}.value")
        if not changed:
            return ()
        return (f"if $node.saved.__class__ is not tuple or {' or '.join(changed)}: $node.check_versions()",)

    def _kinds(self, indices: Iterable[int]) -> dict[int, Kind | None]:
        """Return shape and dtype of what was saved, as far as other nodes' shapes and dtypes settle them."""
        found: dict[int, Kind | None] = {}
        for index in indices:
            slot = self.plan.slots[index]
            found[index] = None
            if not slot.is_tensor:
                continue
            assert self.shape is not None
            if slot.owner == "out":
                found[index] = (self.shape, self.dtype)
                continue
            edge = self.plan.primitive.tensor_names.index(slot.owner)
            target = self.next_nodes[edge]
            if target is not None:
                metadata = target.input_metadata[self.input_nrs[edge]]
                if metadata is not None and metadata.dtype is not None:
                    found[index] = (metadata.shape, metadata.dtype)
        return found


def _as(value: Any, as_tensor: bool) -> Any:
    return value if as_tensor or not isinstance(value, TensorBase) else value._data


def _parameters(formula: Any) -> tuple[str, ...]:
    code = formula.__code__
    return code.co_varnames[: code.co_argcount]  # type: ignore[no-any-return]


@functools.lru_cache(4096)
def _written(formula: Any, edge: int, grad: str, arguments: tuple[tuple[str, str], ...]) -> str:
    found = inlined(formula)
    assert found is not None
    names = {name: f"$c{edge}_{name}" for name in found.constants}
    names[_parameters(formula)[0]] = grad
    return ast.unparse(_Renaming({**names, **dict(arguments)}).visit(copy.deepcopy(found.expression)))


@final
class _Renaming(ast.NodeTransformer):
    """Puts other expressions in the places of names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        written = self._names.get(node.id)
        if written is None:
            return node
        head, dot, attribute = written.partition(".")
        name = ast.Name(head, ast.Load())
        return ast.Attribute(name, attribute, ast.Load()) if dot else name
