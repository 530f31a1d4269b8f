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
from ..graph.lowering import BodySource, CompiledArgs, Kind, Reuse, reuses
from ..graph.node import TraceableNode
from ..graph.tensor_base import TensorBase
from .inlining import inlined, kind_of_result
from .reusing import FUNCTIONS, is_number, numbers_only, reused

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
        is_large = reuses(self.shape) and not plan.conjugates
        constants = {owned_by: plan, "conjugate": np.conjugate, "size_of": size_of, **(FUNCTIONS if is_large else {})}
        results: list[str | None] = []
        kinds: list[Kind | None] = []
        reuse: list[Reuse | None] = []
        is_short = True
        for edge, call in enumerate(plan.calls):
            if call is None or (wanted is not None and not wanted[edge]):
                results.append(None)
                kinds.append(None)
                reuse.append(None)
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
                reuse.append(None)
                is_short = False
                continue
            constants.update((f"c{edge}_{name}", value) for name, value in found.constants.items())
            results.append(wrapped.format(_written(formula, edge, grad, tuple(arguments.items()))))
            saved_kinds, parameters = self._kinds(taken), _parameters(formula)
            known = {name: saved_kinds[index] for name, index in zip(parameters[1:], taken, strict=True)}
            known[parameters[0]] = (self.shape, self.dtype)
            kind = kind_of_result(formula, tuple(known.items()))
            kinds.append(kind)
            reuse.append(self._reuse(edge, known, arguments, results[-1]) if is_large else None)
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
            tuple(reuse),
        )

    def _reuse(
        self, edge: int, kinds: Mapping[str, Kind | None], arguments: Mapping[str, str], otherwise: str | None
    ) -> Reuse | None:
        """Return the formula of an edge as one that reuses arrays; None where it is not sure to give a new one.

        Args:
            edge: whose formula.
            kinds: of its parameters.
            arguments: what is written for each of the others.
            otherwise: the formula's source where nothing is reused.
        """
        call, has_host_arrays = self.plan.calls[edge], getattr(self.device, "has_host_arrays", True)
        if call is None or otherwise is None or not has_host_arrays:
            return None
        values = dict(zip(arguments, call[1], strict=True))
        # Of a graph that was released nothing is known, and the function will say so.
        saved = self.saved or (None,) * len(self.plan.slots)
        numbers = [name for name, index in values.items() if kinds[name] is None and is_number(saved[index])]
        known = tuple((name, 1.0 if name in numbers else kind) for name, kind in kinds.items())
        sources: list[str | None] = []
        names = 0
        for takes_gradient in (False, True):
            found = reused(call[0], known, takes_gradient)
            if found is None:
                sources.append(None)
                continue
            source = _written(call[0], edge, "$g", tuple(arguments.items()), (known, takes_gradient))
            checked = [arguments[name] for name in numbers]
            sources.append(numbers_only(source, otherwise, checked) if numbers else source)
            names = max(names, found.names)
        return None if sources[0] is None else Reuse(sources[0], sources[1], names)

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
def _written(
    formula: Any, edge: int, grad: str, arguments: tuple[tuple[str, str], ...], reusing: tuple[Any, bool] | None = None
) -> str:
    """Return a formula that is an expression as source.

    Args:
        formula: the function.
        edge: which it belongs to.
        grad: how its first parameter is written.
        arguments: how the others are.
        reusing: what to give to `reused`, if that is asked for.
    """
    found = inlined(formula)
    assert found is not None
    names = {name: f"$c{edge}_{name}" for name in found.constants}
    names[_parameters(formula)[0]] = grad
    again = None if reusing is None else reused(formula, *reusing)
    expression = found.expression if again is None else again.expression
    return ast.unparse(_Renaming({**names, **dict(arguments)}).visit(copy.deepcopy(expression)))


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
