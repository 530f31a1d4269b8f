"""FunctionContext: the `ctx` of a Function, which carries values from forward to backward."""

from __future__ import annotations

import dataclasses
import re
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ...errors import ArgumentTypeError, GradientTypeError, GraphError, InPlaceError
from ..arrays.tensor_base import CreationMeta, TensorBase
from ..arrays.value_type import VALUES
from ..arrays.values import counted, has_memory, is_device_array, wrap
from ..graph.leaf import gradient_edge
from ..graph.node import Edge, Node
from ..graph.packed import Packed, unpack_all, unpack_now
from ..graph.saved import Saved, output_alias, released_error, version_of
from ..ops.indexing import part
from ..settings.arguments import must_be, takes, truth
from ..settings.awaiting import finish
from ..settings.context import GRAD_MODE
from ..settings.elsewhere import CONTEXT_ATTRIBUTES, hint_at
from ..tree.registry import container_type
from ..tree.structure import TreeStructure, flatten_each, leaves
from ..views.history import base_of, check_write, rebase
from ..views.nodes import CopySlices

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FunctionContext",
    "check_marks",
    "rebase_dirty_output",
    "edges_of",
    "is_dirty",
    "is_non_differentiable",
    "keeps_grad",
    "note_what_is_saved",
    "prepare_output",
    "records",
    "save",
    "node_to_announce",
    "forbid_writes_into_views",
    "wrap_outputs",
]

#: What Python says where a tuple has fewer elements, or more, than are taken from it.
_OTHER_LENGTH = re.compile(r"tuple index out of range|(?:not enough|too many) values to unpack \(expected .*\)")


@final
class FunctionContext:
    """Carries saved tensors, marks, and any attribute that a user sets from `forward` to `backward`.

    Example:
        >>> import asyncgrad as ag
        >>> class Scale(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * ctx.factor, None
        >>> Scale.apply(ag.tensor(2.0), 3.0).item()
        6.0
    """

    def __init__(self, node: Node) -> None:
        #: For each argument of forward, whether it needs a gradient. For a tree, a tree of bools.
        self.needs_input_grad: tuple[Any, ...] = ()
        #: Whether undefined gradients reach backward as zeros.
        self.materialize_grads: bool = True
        # Weak, since the node holds the context: without a cycle, both are freed as soon as the graph is.
        self._node = weakref.ref(node)
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[Saved | Packed, ...] | None = ()
        #: The saved tensors unpacked ahead for a plain backward, while it runs; else None.
        self._loaded: tuple[Any, ...] | None = None
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        #: The value that forward gave to `set_records`; None if it was not called.
        self._records: bool | None = None
        #: Set by forward, as in PyTorch: whether the output is a view of the one tensor argument and nothing else, so
        #: that it may be written into, and its history regenerated from its location.
        self._is_pure_view = False

    #: Whether saved tensors can only be read: other runs of a concurrent backward read them at the same time.
    _is_shared = False

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for backward: arguments, outputs or intermediate results of forward; None stays None.

        They are released after the backward, which raises if one was written into after it was saved. An array comes
        back as a tensor.
        """
        self._to_save = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that forward wrote into these arguments in place; forward must return them.

        For a tensor that is no argument of forward, the mark has no effect and gives a warning; if that tensor is a
        view or requires grad, an error.
        """
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that these outputs, or all in these trees of outputs, have no gradient."""
        self._non_differentiable = tuple(leaves(tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether undefined gradients reach backward as zeros (the default) or as None."""
        self.materialize_grads = truth(value, "the value of ctx.set_materialize_grads(value)")

    def set_records(self, value: bool) -> None:
        """Say, in forward, whether backward is called if no argument of forward requires grad.

        This is for a Function whose backward computes the gradients of tensors that are no arguments of it, for example
        by a backward of its own. With True the outputs require grad, if grad mode is on around `apply`; a backward with
        given inputs, such as `ag.grad`, skips the Function unless an input is reached through its arguments. False is
        the default, but without the warning if forward uses or keeps tensors that require grad, and without the error
        if it returns neither a tensor nor an array though an argument requires grad.

        Example:
            >>> import asyncgrad as ag
            >>> w = ag.tensor(3.0, requires_grad=True)
            >>> class Scale(ag.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.set_records(True)
            ...         with ag.enable_grad():
            ...             ctx.y = w * x
            ...         return ctx.y.detach()
            ...     @staticmethod
            ...     async def backward(ctx, grad):
            ...         await ag.backward(ctx.y, grad)
            >>> ag.sync.backward(Scale.apply(ag.tensor(2.0)))
            >>> w.grad.item()
            2.0
        """
        self._records = truth(value, "the value of ctx.set_records(value)")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, in order.

        Raises:
            ReleasedGraphError: an earlier backward ran without `retain_graph`.
            ChangedTensorError: a tensor was written into after it was saved.
            HookError: unpacking must be awaited: write `await ctx.load_saved()` in an async backward.
        """
        if self._loaded is not None:
            return self._loaded
        found = tuple(unpack_now(*_saved_by(self), "await ctx.load_saved() in place of ctx.saved_tensors"))
        return tuple(map(_read_only, found)) if self._is_shared and not GRAD_MODE.get() else found

    async def load_saved(self) -> tuple[Any, ...]:
        """Return `saved_tensors`; suspend if unpacking must be awaited."""
        if self._loaded is not None:
            return self._loaded
        found = tuple(await finish(unpack_all(*_saved_by(self))))
        return tuple(map(_read_only, found)) if self._is_shared and not GRAD_MODE.get() else found


# Function.apply and FunctionNode use a context through the functions below. As methods, they would take names that a
# user may give to attributes.


hint_at(FunctionContext, CONTEXT_ATTRIBUTES)


def _read_only(saved: Any) -> Any:
    """Return a saved tensor that raises at each write, without a history; None stays None.

    An array of a device, which cannot be protected, stays as it is.
    """
    if not isinstance(saved, TensorBase) or not isinstance(saved._data, np.ndarray):
        return saved
    view = saved._data.view()
    view.flags.writeable = False
    return type(saved)(view, None, 0, saved._device)


def _saved_by(ctx: FunctionContext) -> tuple[Node, tuple[Saved | Packed, ...]]:
    node = ctx._node()
    if node is None:
        raise GraphError(
            "the node of this context was freed, and its saved tensors with it: keep an output of the Function"
        )
    if ctx._saved is None:
        raise released_error(node)
    return node, ctx._saved


def records(ctx: FunctionContext) -> bool | None:
    """Return the value that forward gave to `set_records`; None if it was not called."""
    return ctx._records


def note_what_is_saved(error: IndexError | ValueError, ctx: FunctionContext) -> None:
    """Add a note to the error of a backward that takes more, or fewer, saved tensors than there are.

    It does nothing for an error of another kind, or of code that takes none. It is called where the error is caught.
    """
    entry = error.__traceback__
    if entry is None or ctx._saved is None or _OTHER_LENGTH.fullmatch(str(error)) is None:
        return
    while entry.tb_next is not None:
        entry = entry.tb_next
    frame = entry.tb_frame
    # A backward that runs another one passes on the errors of that.
    is_of_this = any(value is ctx for value in frame.f_locals.values())
    if not is_of_this or {"saved_tensors", "load_saved"}.isdisjoint(frame.f_code.co_names):
        return
    saved = counted(len(ctx._saved), "tensor") if ctx._saved else "no tensor"
    error.add_note(f"ctx has saved {saved}: write ctx.save_for_backward(x, y) in forward, with all that backward takes")


def keeps_grad(ctx: FunctionContext) -> bool:
    """Tell whether forward keeps a tensor that requires grad: one to be saved, or one in an attribute."""
    return any(value._requires_grad() for value in _tensors_in([ctx._to_save, _attributes(ctx)]))


def edges_of(ctx: FunctionContext) -> list[Edge | None]:
    """Return the edges of all tensors that a backward may use in addition to the gradients that it takes.

    These are the arguments of forward, the saved tensors, and the tensors in attributes.
    """
    node = ctx._node()
    if node is None:
        return []
    edges: list[Edge | None] = [edge for edge in node.next_edges if edge.node is not None]
    for entry in ctx._saved or ():
        output_nr, producer, accumulator = entry.place
        if accumulator is not None:
            edges.append(Edge(accumulator, 0))
        elif output_nr is not None:
            edges.append(Edge(node if producer is None else producer, output_nr))
    return edges + [gradient_edge(tensor) for tensor in _tensors_in(_attributes(ctx))]


def _attributes(ctx: FunctionContext) -> list[Any]:
    """Return the values of the attributes of a context, without those in `_OWN`."""
    return [value for name, value in vars(ctx).items() if name not in _OWN]


#: The attributes of a context whose tensors the callers of `_attributes` treat separately, or need not see.
_OWN = frozenset({"_to_save", "_saved", "_loaded", "_dirty", "_non_differentiable"})


def _tensors_in(value: Any) -> Iterator[TensorBase]:
    """Yield the tensors in a structure of lists, tuples, sets, dicts, dataclasses and registered containers."""
    stack, seen = [value], set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, TensorBase):
            yield value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            stack += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack += value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            stack += [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        elif (kind := container_type(type(value))) is not None:
            stack += kind.flatten(value)[0]


def is_dirty(ctx: FunctionContext, value: TensorBase) -> bool:
    """Tell whether forward marked `value` as written into."""
    return _among(value, ctx._dirty)


def is_non_differentiable(ctx: FunctionContext, value: TensorBase) -> bool:
    """Tell whether forward marked `value`, or the array that it wraps, as having no gradient."""
    marked = ctx._non_differentiable
    return _among(value, marked) or (value._value_metadata is None and _among(value._data, marked))


def check_marks(ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any], node: Node | None) -> None:
    """Raise if a mark that forward made is invalid; warn if it has no effect.

    Args:
        ctx: the context.
        inputs: the arguments of forward.
        outputs: the values that forward returned.
        node: the node of the Function; None if nothing is recorded.

    Raises:
        GradientTypeError: a value marked as dirty is no tensor.
        InPlaceError: a dirty tensor is not among the outputs, or is a view and not the only output; or it is no
            argument, but a view or requires grad, so that its history would be wrong; or `ctx._is_pure_view` is set
            and forward is no pure view.
        ArgumentTypeError: `ctx._is_pure_view` is no bool.
    """
    _check_dirty(ctx, inputs, outputs, node)
    _check_pure_view(ctx, inputs, outputs)


def _check_dirty(ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any], node: Node | None) -> None:
    """Raise if the history of a dirty tensor cannot follow the write; warn if the tensor is no argument."""
    for dirty in ctx._dirty:
        if not isinstance(dirty, TensorBase):
            raise GradientTypeError(takes("mark_dirty", "the tensors that forward wrote into", dirty))
        if dirty._value_metadata is not None:
            instead = "return a new one, ag.Value(answer, type)"
            raise GradientTypeError(takes("mark_dirty", "tensors, and a value has no memory", dirty, instead))
        where = f"a tensor of shape {dirty._data.shape} is marked dirty, as written into in place"
        if not _among(dirty, outputs):
            raise InPlaceError(f"{where}, and forward does not return it: add it to what forward returns")
        if dirty._view is not None and len(outputs) > 1:
            raise InPlaceError(
                f"{where}, and is a view, which must be the only output of forward: write into a copy, x = x.copy(), "
                "or return the other outputs from another Function"
            )
        if node is None or _among(dirty, inputs):
            continue
        if dirty._view is not None or dirty._requires_grad():
            history = "is a view, whose base" if dirty._view is not None else "requires grad, and its gradient"
            raise InPlaceError(
                f"{where}, is no argument of forward, and {history} would not account for the write: pass it to apply "
                "as an argument"
            )
        warnings.warn(
            f"{where}, and is no argument of forward, so the mark has no effect: mark arguments only",
            stacklevel=6,
        )


def _check_pure_view(ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Raise if forward declares that its output is a view of its one tensor argument, and it cannot be.

    Source: ctx._is_pure_view of PyTorch, which does not look at what the output is a view of.
    """
    declared = ctx._is_pure_view
    if not isinstance(declared, bool):
        raise ArgumentTypeError(must_be("ctx._is_pure_view", "True or False", declared))
    if not declared:
        return
    tensors = [value for value in inputs if isinstance(value, TensorBase)]
    where = "forward set ctx._is_pure_view, for a view of an argument and nothing else"
    if len(tensors) != 1 or len(outputs) != 1:
        raise InPlaceError(
            f"{where}: it must have one tensor argument and one output, and has "
            f"{counted(len(tensors), 'tensor argument')} and {counted(len(outputs), 'output')}. Leave the mark out"
        )
    view = outputs[0]._view_meta() if isinstance(outputs[0], TensorBase) else None
    if view is not None and view.base is not base_of(tensors[0]):
        raise InPlaceError(
            f"{where}, and it returned a view of a tensor of shape {view.base._data.shape} that is not its argument: "
            "leave the mark out"
        )


def save(ctx: FunctionContext, inputs: Sequence[Any], outputs: dict[int, TensorBase], node: Node | None) -> None:
    """Save what forward asked for, now that its outputs have their history.

    Args:
        ctx: the context.
        inputs: the arguments of forward.
        outputs: the tensors that apply returns, by the `id` of the tensor or array that forward returned.
        node: the node that saves them; None if nothing is recorded.
    """
    to_save, ctx._to_save = ctx._to_save, ()
    dirty, ctx._dirty = ctx._dirty, ()
    ctx._non_differentiable = ()
    if node is None:
        ctx._saved = None if to_save else ()
        return
    saved: list[Saved | Packed] = []
    for value in to_save:
        if not (value is None or isinstance(value, TensorBase) or has_memory(value)):
            raise GradientTypeError(
                takes(
                    "save_for_backward",
                    "tensors, arrays and None",
                    value,
                    "keep other values as attributes, ctx.value = value, and write "
                    "ctx.save_for_backward(*ag.tree.leaves(tree)) for a tree",
                )
            )
        output = outputs.get(id(value))
        if value is None:
            saved.append(Saved(None))
        elif output is not None and _among(value, dirty):
            # A dirty view is the only output of the Function, and its own output_nr is that of its regenerated grad_fn.
            saved.append(
                Saved(output_alias(output), version_of(output), 0 if output._view is not None else output._output_nr)
            )
        elif output is not None and output._grad_fn is node and not _among(value, inputs):
            saved.append(Saved(output_alias(output), version_of(output), output._output_nr))
        else:
            tensor = wrap(value, node.device)
            edge = gradient_edge(tensor) if tensor._grad_fn is None else None
            accumulator = None if edge is None else edge.node
            saved.append(Saved(tensor, version_of(tensor), None, tensor._grad_fn, accumulator))
    ctx._saved = tuple(saved)


def _among(value: Any, items: Sequence[Any]) -> bool:
    return any(value is item for item in items)


def rebase_dirty_output(value: TensorBase, node: Node | None, index: int, inputs: Sequence[Any]) -> TensorBase:
    """Set the history of an argument that forward wrote into; return the argument.

    Args:
        value: the argument.
        node: the node of the Function; None if nothing is recorded.
        index: the index of the output that it is.
        inputs: the arguments of forward.

    Raises:
        InPlaceError: the write cannot be recorded.
    """
    if node is None:
        value._bump_version()
        return value
    check_write(value)
    tensors = [argument for argument in inputs if isinstance(argument, TensorBase)]
    # The slot is used only for a view, and a dirty view is always an argument.
    slot = next((edge for edge, argument in enumerate(tensors) if argument is value), 0)
    value._meta = None
    rebase(value, node, index, slot, is_complete=False)
    return value


def prepare_output(ctx: FunctionContext, value: TensorBase, node: Node | None, inputs: Sequence[Any]) -> TensorBase:
    """Return an output whose history may be set: a view of `value` if that is an input or has a history, else itself.

    The history of a view that forward returns comes from the Function, so it cannot be regenerated, unless
    `ctx._is_pure_view` says that the output is only a view.
    """
    if _among(value, inputs) or value._grad_fn is not None or value._meta is not None:
        source, value = value, output_alias(value)
        # Without a node the output must have no history, and a view would have that of its base.
        if node is not None or not source._requires_grad():
            value._view = source._view_record(CreationMeta.IN_CUSTOM_FUNCTION, (part, Ellipsis))
    view = value._view_meta()
    if view is not None:
        view.creation = CreationMeta.IN_CUSTOM_FUNCTION
        if ctx._is_pure_view:
            argument = next(one for one in inputs if isinstance(one, TensorBase))._view_meta()
            view.creation = CreationMeta.DEFAULT if argument is None else argument.creation
        view.version = version_of(value)
    return value


def node_to_announce(node: Node, outputs: Sequence[Any]) -> Node:
    """Return the node that a Function announces: the CopySlices around its node if it wrote into a view, else the node.

    The CopySlices gets the metadata of the node, such as the line of the forward call.
    """
    view = outputs[0]._view_meta() if len(outputs) == 1 and isinstance(outputs[0], TensorBase) else None
    slices = None if view is None else view.base._grad_fn
    if not isinstance(slices, CopySlices) or not slices.is_around(node):
        return node
    slices.metadata.update(node.metadata)
    return slices


def forbid_writes_into_views(outputs: Sequence[Any], node: Node) -> None:
    """Forbid writes into the views among several outputs of one node."""
    made = [value for value in outputs if isinstance(value, TensorBase) and value._grad_fn is node]
    if len({id(value) for value in made}) > 1:
        for value in made:
            view = value._view_meta()
            if view is not None:
                view.creation = CreationMeta.MULTI_OUTPUT


def wrap_outputs(outputs: Sequence[Any], device: Any) -> tuple[tuple[Any, ...], tuple[TreeStructure, ...] | None]:
    """Return the leaves of the outputs of forward, with arrays as tensors, and the structure of each, if any is a tree.

    Inside of a tree, an array that holds no numbers stays as it is.
    """
    leaves, trees = flatten_each(outputs, _is_output)
    return tuple([_wrapped(leaf, device) if trees is None or _is_output(leaf) else leaf for leaf in leaves]), trees


def _wrapped(leaf: Any, device: Any) -> Any:
    make = VALUES.get(type(leaf)) if VALUES else None
    return wrap(leaf, device) if make is None else make(leaf)


def _is_output(leaf: Any) -> bool:
    """Tell whether a leaf of an output is a tensor, or becomes one."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, TensorBase) or type(leaf) in VALUES or is_device_array(leaf)
