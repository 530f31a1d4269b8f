"""Function: operations whose forward and backward the user writes, each as a function or an `async def`."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from contextvars import copy_context
from copy import copy
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, GradientTypeError, GraphError, InvalidGradientError
from ..arrays import values
from ..arrays.tensor_base import TensorBase
from ..arrays.values import check_numbers
from ..graph.leaf import gradient_edge
from ..graph.lowering import CompiledArgs
from ..graph.metadata import InputMetadata
from ..graph.naming import number_of
from ..graph.node import Edge, Node, NodeMeta
from ..graph.value_metadata import ValueMetadata
from ..graph.wrappers import register_wrapper
from ..settings.arguments import describe
from ..settings.awaiting import call
from ..settings.callers import note_refused_call
from ..settings.context import (
    GRAD_MODE,
    RECORDING,
    ROW,
    UNRECORDED,
    Mode,
    Watcher,
    is_grad_enabled,
    no_grad,
    switch_back,
    watched_no_grad,
)
from ..settings.loop_turn import keep_pace
from ..tree.structure import TreeStructure, flatten_each, leaves_like, paths, unflatten_each
from ..tree.structure import leaves as tree_leaves
from .function_context import (
    FunctionContext,
    check_marks,
    edges_of,
    forbid_writes_into_views,
    is_dirty,
    is_non_differentiable,
    keeps_grad,
    node_to_announce,
    note_what_is_saved,
    prepare_output,
    rebase_dirty_output,
    records,
    save,
    wrap_outputs,
)
from .once_differentiable import forbid_derivative
from .row_rule import answer_rows
from .saving_node import SavingNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from types import FrameType, FunctionType

__all__ = ["Function", "FunctionNode"]

#: Named here, since an attribute of a module takes twice as long to look up.
_ndarray = np.ndarray
#: Bound once: a method of an imported name is looked up and bound anew at each call.
_grad_mode, _row = GRAD_MODE.get, ROW.get

#: A profile of the whole process replaces it: see core/graph/wrappers.py.
_recording = RECORDING.get
register_wrapper(globals())


class Function:
    """Abstract: subclass it with static `forward` and `backward`, and call `apply`.

    `forward(ctx, *args)` runs with recording off and returns tensors or arrays. Other things beside them are passed
    through; where an argument requires grad and there is no tensor or array among the outputs, `apply` raises.
    `backward(ctx, *grads)` takes a gradient for each output and returns one for each argument of `forward`, None
    where there is none. Arguments and outputs may be trees (`ag.tree`) of tensors and other things. The gradient of a
    tree is a tree of the same structure, with None for a leaf that is no tensor; `backward` may return None for any
    part of it. Each may be an `async def`: with an async forward `apply` returns an awaitable, and an async backward
    suspends only its own node. In the newer form `forward(*args)` takes no `ctx`, and
    `setup_context(ctx, inputs, output)` follows it.

    Where several backward passes run together through one graph, as the rows of a Jacobian do, `concurrent = True` says
    that `backward` may run for all of them at once. Or `backward_batch(ctx, *grads)` answers for all that are ready in
    one call: each gradient has a leading axis with the rows, and so have those that it returns. Under `create_graph`
    its operations are recorded, as those of `backward` are. Defined without `backward`, it gets a single row as a batch
    of one.

    The gradients that `backward` takes are its own: it may write into them and keep them. An array that it has returned
    it may fill anew in the next call.

    Nothing is recorded if no argument requires grad; if forward then uses or keeps other tensors that require grad, it
    warns. A Function whose backward computes the gradients of such tensors itself calls `ctx.set_records(True)`. An
    array that `backward` returns under `create_graph` has no history: differentiating it raises, rather than give zero.

    Source: torch.autograd.Function.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> class Exponential(ag.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         y = np.exp(x)
        ...         ctx.save_for_backward(y)
        ...         return y
        ...     @staticmethod
        ...     async def backward(ctx, grad):
        ...         (y,) = ctx.saved_tensors
        ...         return grad * y
        >>> async def main():
        ...     x = ag.tensor(0.0, requires_grad=True)
        ...     await Exponential.apply(x).backward()
        ...     return x.grad.item()
        >>> ag.run(main())
        1.0
    """

    #: Whether a plain `backward` must run in the thread of the event loop that waits for it: see `Node.stays_on_loop`.
    stays_on_loop = False
    #: Whether `backward` consists of differentiable functions only, does not branch on the values of gradients, and
    #: reads no state that changes. A compiled backward then calls it directly.
    is_traceable = False
    #: Whether what `backward` returns is kept under `retain_graph="until_success"`, since a call is dear: it asks a
    #: service, say. After a failure or a cancellation the next try calls it only where it has not returned, or gets
    #: another gradient. It may depend only on its gradients and on what `forward` has saved, and do nothing else.
    is_memoized = False
    #: Whether `backward` may run several times at once for one call of `forward`: for the rows of a Jacobian, say, or
    #: for several backward passes through one graph that is kept. Its hooks may then overlap, too, and what `ctx` has
    #: saved comes back as tensors without a history, which cannot be written into. Attributes of `ctx` are not
    #: protected: it must not write into what they hold.
    concurrent = False

    #: Releases what `ctx` holds besides saved tensors, when these are released; None where there is nothing.
    _release: Callable[[FunctionContext], None] | None = None
    #: Whether `backward` may be a user's, which keeps and writes into gradients: see `Node.is_users`.
    _is_users = True
    #: The error message if a method of this class is wrong, else None.
    _mistake: str | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls._mistake = next(filter(None, (_find_mistake(cls, name) for name in _METHODS)), None)

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Raise: a Function is applied, not instantiated."""
        raise ArgumentTypeError(f"{cls.__name__} is not instantiated, it is applied: write {cls.__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; the subclass defines this."""
        raise NotImplementedError("define a static forward(ctx, *args) in the subclass")

    @staticmethod
    def setup_context(ctx: FunctionContext, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, if `forward` takes no `ctx`."""
        raise NotImplementedError("define a static setup_context(ctx, inputs, output), or let forward take ctx")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the arguments; the subclass defines this."""
        raise NotImplementedError("define a static backward(ctx, *grads) in the subclass")

    @staticmethod
    def vjp(*args: Any, **kwargs: Any) -> Any:
        """Compute what `backward` does, under another name; define one of the two."""
        raise NotImplementedError("define a static backward(ctx, *grads) in the subclass")

    @staticmethod
    def backward_batch(*args: Any, **kwargs: Any) -> Any:
        """Compute what `backward` does for several rows in one call; beside `backward`, or in its place."""
        raise NotImplementedError("define a static backward_batch(ctx, *grads) in the subclass")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and record it; return its outputs, or an awaitable of them if it is async.

        Keyword arguments are bound by the signature of `forward`.
        """
        if cls._mistake is not None:
            raise ArgumentTypeError(cls._mistake)
        two_part = cls.setup_context is not Function.setup_context
        if kwargs or two_part:
            args = _bind_arguments(cls.forward, args, kwargs, two_part)
        if cls.forward is Function.forward:
            raise NotImplementedError(f"{cls.__name__} has nothing to apply: give it a static forward(ctx, *args)")
        mode = GRAD_MODE.get()
        inputs = _Inputs(args)
        executable = bool(mode) and True in inputs.needs_grad
        watcher: _LostGradientWatcher | bool = UNRECORDED.get()
        if mode:
            watcher = _LostGradientWatcher(sys._getframe(1)) if _has_backward(cls) and not executable else False
        elif mode is not False:
            mode.used(*inputs.leaves)
        before = copy_context()
        try:
            return cls._applied(inputs, executable, two_part, watcher)
        except BaseException:
            switch_back(before)
            raise

    @classmethod
    def _applied(cls, inputs: _Inputs, executable: bool, two_part: bool, watcher: _LostGradientWatcher | bool) -> Any:
        call = _FunctionCall(cls, inputs, executable, two_part, watcher)
        if inspect.iscoroutinefunction(cls.forward) or inspect.iscoroutinefunction(cls.setup_context):
            return _named_after(cls, call.run_async())
        return call.run()


#: What a Function has that does not define them. Named here, since an attribute of a class takes long to look up.
_NO_VJP, _NO_BACKWARD, _NO_BACKWARD_BATCH = Function.vjp, Function.backward, Function.backward_batch


def _named_after(function: type[Function], coroutine: Coroutine[object, None, object]) -> object:
    """Return a coroutine with the name that Python says of it if nobody awaits it."""
    setattr(coroutine, "__qualname__", f"{function.__qualname__}.apply")  # noqa: B010  # no attribute for mypy
    return coroutine


def _bind_arguments(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], two_part: bool
) -> tuple[Any, ...]:
    """Return the arguments of `forward` in order.

    The defaults before the last given argument are filled in; with setup_context, all defaults are.
    """
    bound = inspect.signature(forward).bind(*(() if two_part else (None,)), *args, **kwargs)
    given = list(bound.arguments)
    bound.apply_defaults()
    if not two_part:
        order = list(bound.arguments)
        for name in order[order.index(given[-1]) + 1 :]:
            del bound.arguments[name]
    if bound.kwargs:
        raise TypeError(
            f"{forward.__qualname__} takes {', '.join(bound.kwargs)} by keyword only, and a Function has a gradient "
            "for each argument in order: let forward take it by position"
        )
    return bound.args if two_part else bound.args[1:]


#: The methods that a subclass may define.
_METHODS = ("forward", "setup_context", "backward", "vjp", "backward_batch")


def _find_mistake(function: type[Function], name: str) -> str | None:
    """Return the error message if a method cannot be called without an instance; None if it can."""
    method = inspect.getattr_static(function, name)
    if isinstance(method, (classmethod, property)):
        kind = f"a {type(method).__name__}"
    elif inspect.isfunction(method) and not _is_of_another_class(method, function):
        kind = "a method of instances"
    elif callable(method):
        return None
    else:
        return f"{function.__name__}.{name} is {describe(method)}, and not a function"
    first = "ctx, " if name != "forward" or function.setup_context is Function.setup_context else ""
    return (
        f"{function.__name__}.{name} is {kind}, and a Function has no instances: write @staticmethod above "
        f"def {name}({first}...)"
    )


def _is_of_another_class(method: FunctionType, function: type[Function]) -> bool:
    """Tell whether a method was defined in another class, as in `forward = Other.forward`."""
    owner = method.__qualname__.rpartition(".")[0]
    return owner not in ("", function.__qualname__) and not owner.endswith("<locals>")


@final
class _LostGradientWatcher(Watcher):
    """Notes whether an unrecorded forward uses a tensor that requires grad, whose gradient would be lost.

    Args:
        frame: the frame that applies the Function.
    """

    __slots__ = ("_call_site", "is_lost")

    def __init__(self, frame: FrameType) -> None:
        #: The line to warn about: the caller may have left the stack when an async forward ends.
        self._call_site = (frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        #: Whether a gradient would be lost.
        self.is_lost = False

    def used(self, *values: Any) -> None:
        """Check the arguments of an operation."""
        if not self.is_lost:
            self.is_lost = any(isinstance(value, TensorBase) and value._requires_grad() for value in values)

    def warn(self, message: str) -> None:
        """Issue a warning at the line that applies the Function."""
        filename, line, names = self._call_site
        registry = names.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, UserWarning, filename, line, names.get("__name__"), registry)


@final
class _Inputs:
    """The arguments of forward.

    Args:
        args: the arguments as given.
    """

    __slots__ = ("args", "leaves", "needs_grad", "trees")

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.args = args
        #: The leaves of all arguments; and the structure of each argument, None if none holds tensors in containers.
        self.leaves, self.trees = flatten_each(args, _is_tensor)
        #: For each leaf, whether it needs a gradient.
        self.needs_grad = tuple([isinstance(leaf, TensorBase) and leaf._requires_grad() for leaf in self.leaves])

    def needs_input_grad(self) -> tuple[Any, ...]:
        """Return what `ctx.needs_input_grad` is: `needs_grad` in the trees of the arguments."""
        return self.needs_grad if self.trees is None else tuple(unflatten_each(self.trees, self.needs_grad))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


@final
class _Outputs:
    """The outputs of forward, with tensors in place of arrays.

    Args:
        returned: what forward returned.
        device: the device of arrays.
    """

    __slots__ = ("_container", "leaves", "trees")

    def __init__(self, returned: Any, device: Any) -> None:
        #: The class of a tuple or list of outputs; None for one output.
        self._container: Any = type(returned) if isinstance(returned, (tuple, list)) else None
        self.leaves, self.trees = wrap_outputs((returned,) if self._container is None else returned, device)

    def with_leaves(self, leaves: Sequence[Any]) -> Any:
        """Return the outputs as forward did, with other leaves."""
        outputs = leaves if self.trees is None else unflatten_each(self.trees, leaves)
        if self._container is None:
            return outputs[0]
        if hasattr(self._container, "_fields"):
            return self._container._make(outputs)
        return list(outputs) if issubclass(self._container, list) else tuple(outputs)


@final
class _FunctionCall:
    """One application of a Function."""

    __slots__ = ("_ctx", "_executable", "_function", "_inputs", "_is_recording", "_node", "_two_part", "_watcher")

    def __init__(
        self,
        function: type[Function],
        inputs: _Inputs,
        executable: bool,
        two_part: bool,
        watcher: _LostGradientWatcher | bool,
    ) -> None:
        self._function = function
        self._inputs = inputs
        #: Whether a node is recorded: an argument requires grad, or forward asks for it.
        self._executable = executable
        self._is_recording = is_grad_enabled()
        self._two_part = two_part
        #: The watcher of the operations in forward, which are not recorded; False for none.
        self._watcher = watcher
        # The node takes its sequence number before forward runs, so that it is older than the nodes that forward makes.
        edges = [gradient_edge(leaf) if executable and isinstance(leaf, TensorBase) else None for leaf in inputs.leaves]
        self._node = FunctionNode(function, len(inputs.args), inputs.leaves, edges, inputs.trees)
        self._ctx = self._node.ctx
        observer = _recording()
        if self._is_recording and observer is not True:
            # Now, since the caller may have left the stack when an async forward ends.
            observer.note(self._node)
        self._ctx.needs_input_grad = inputs.needs_input_grad()

    def run(self) -> Any:
        with self._disable_recording():
            output = self._call_forward()
            if inspect.isawaitable(output):
                return _named_after(self._function, self._finish_async(output))
            outputs = self._outputs(output)
            if self._two_part:
                self._function.setup_context(self._ctx, self._inputs.args, outputs.with_leaves(outputs.leaves))
        return self._record(outputs)

    async def run_async(self) -> Any:
        with self._disable_recording():
            output = self._call_forward()
            return await self._finish_async(output)

    async def _finish_async(self, output: Any) -> Any:
        with self._disable_recording():
            if inspect.isawaitable(output):
                output = await output
                # Not before: a coroutine that is cancelled there would never have been awaited.
                await keep_pace()
            outputs = self._outputs(output)
            if self._two_part:
                all_outputs = outputs.with_leaves(outputs.leaves)
                await call(self._function.setup_context, self._ctx, self._inputs.args, all_outputs)
        return self._record(outputs)

    def _call_forward(self) -> Any:
        given = self._inputs.args if self._two_part else (self._ctx, *self._inputs.args)
        try:
            return self._function.forward(*given)
        except TypeError as error:
            name, count = self._function.__name__, values.counted(len(self._inputs.args), "argument")
            of_apply = f"the {count} of apply"
            note_refused_call(
                error,
                f"{name}.forward is called with {of_apply}, and without ctx, which setup_context gets"
                if self._two_part
                else f"{name}.forward is called with ctx and {of_apply}: write def forward(ctx, ...), or define "
                "setup_context(ctx, inputs, output) too",
            )
            raise

    def _disable_recording(self) -> Mode:
        return no_grad() if self._watcher is UNRECORDED.get() else watched_no_grad(self._watcher)

    def _outputs(self, returned: Any) -> _Outputs:
        """Return what forward returned, as outputs."""
        if returned is None:
            raise ArgumentTypeError(
                f"{self._function.__name__}.forward returned None: return the outputs, as in return y, or one that "
                "it wrote into"
            )
        return _Outputs(returned, self._node.device)

    def _decide_recording(self, outputs: Sequence[Any]) -> None:
        """Decide, after forward, whether a node is recorded; warn if gradients of tensors that it uses are lost."""
        asked = records(self._ctx)
        if asked and self._is_recording:
            self._executable = True
        watcher = self._watcher
        if (
            self._executable
            or asked is not None
            or not isinstance(watcher, _LostGradientWatcher)
            or not self._is_recording
        ):
            return
        watcher.used(*outputs)
        if watcher.is_lost or keeps_grad(self._ctx):
            name = self._function.__name__
            watcher.warn(
                f"no argument of {name}.apply requires grad, so {name}.backward is never called; but its forward uses "
                "or keeps tensors that require grad, which get no gradient from it. Pass them as arguments, or call "
                "ctx.set_records(True) in forward to have backward called, or ctx.set_records(False) if no gradient is "
                "to flow"
            )

    def _require_tensor(self, outputs: _Outputs) -> None:
        """Raise if there is to be a node and no output that a gradient could come from.

        Raises:
            ArgumentTypeError: forward returned numbers of Python, say, which have no place for a grad_fn.
        """
        if any(isinstance(value, TensorBase) for value in outputs.leaves):
            return
        name = self._function.__name__
        why = "it called ctx.set_records(True)" if records(self._ctx) else "an argument requires grad"
        raise ArgumentTypeError(
            f"{name}.forward returned {describe(outputs.with_leaves(outputs.leaves))}, and no tensor or array, though "
            f"{why}: no gradient could flow back to {name}.backward. Return numbers as an array, as in return "
            "np.array(y), and what is no array as a value, return ag.Value(answer, type); or, if no gradient is to "
            f"flow, pass t.detach(), write with ag.no_grad(): {name}.apply(...), or call ctx.set_records(False) in "
            "forward"
        )

    def _record(self, outputs: _Outputs) -> Any:
        """Return the outputs as tensors whose grad_fn is the node, and save what forward asked for."""
        node, ctx, inputs = self._node, self._ctx, self._inputs.leaves
        self._decide_recording(outputs.leaves)
        if self._executable and records(ctx) is not False:
            self._require_tensor(outputs)
        seen: dict[int, Any] = {}
        metadata: list[InputMetadata | ValueMetadata] = []
        results: list[Any] = []
        check_marks(ctx, inputs, outputs.leaves, node if self._executable else None)
        for index, value in enumerate(outputs.leaves):
            if not isinstance(value, TensorBase):
                results.append(value)
                metadata.append(InputMetadata())
                continue
            if value._value_metadata is not None:
                if id(value) not in seen:
                    seen[id(value)] = self._value_output(value, index, not is_non_differentiable(ctx, value))
                results.append(seen[id(value)])
                metadata.append(value._value_metadata)
                continue
            check_numbers(f"{self._function.__name__}.forward", value._data.dtype, instead="return arrays of numbers")
            differentiable = value._data.dtype.kind in "fc" and not is_non_differentiable(ctx, value)
            if id(value) not in seen:
                result = self._output(value, node if differentiable and self._executable else None, index)
                seen[id(value)] = seen[id(value._data)] = result
            results.append(seen[id(value)])
            metadata.append(InputMetadata(value._data.shape, value._data.dtype, value._device))
        node.set_outputs(tuple(metadata), outputs.trees)
        forbid_writes_into_views(results, node)
        save(ctx, inputs, seen, node if self._executable else None)
        observer = _recording()
        if self._executable and observer is not True:
            observer.announce(node_to_announce(node, results))
        return outputs.with_leaves(results)

    def _value_output(self, value: TensorBase, index: int, is_differentiable: bool) -> TensorBase:
        """Return a value among the outputs; another one of the same object if it has a place in a graph already."""
        if value._grad_fn is not None or value._meta is not None or any(value is one for one in self._inputs.leaves):
            value = copy(value.detach())
        if self._executable and is_differentiable:
            value._grad_fn, value._output_nr = self._node, index
        return value

    def _output(self, value: TensorBase, node: Node | None, index: int) -> TensorBase:
        ctx, inputs = self._ctx, self._inputs.leaves
        if is_dirty(ctx, value):
            return rebase_dirty_output(value, node, index, inputs)
        value = prepare_output(ctx, value, node, inputs)
        value._grad_fn, value._output_nr = node, index if node is not None else 0
        return value


@final
class FunctionNode(SavingNode):
    """The backward of one application of a Function."""

    __slots__ = (
        "_argument_edges",
        "_argument_trees",
        "_arguments",
        "_output_trees",
        "_values",
        "function",
        "input_metadata",
        "is_async",
        "is_memoized",
        "is_users",
        "stays_on_loop",
    )

    def __init__(
        self,
        function: type[Function],
        arguments: int,
        leaves: Sequence[Any],
        edges: Sequence[Edge | None],
        trees: tuple[TreeStructure, ...] | None,
    ) -> None:
        self.function: type[Function] = function
        #: The number of arguments of forward.
        self._arguments = arguments
        #: The structure of each argument, and of each output: None if none of them is a tree.
        self._argument_trees = trees
        self._output_trees: tuple[TreeStructure, ...] | None = None
        #: The positions of the tensors among the leaves of the arguments, each of which has an edge.
        self._argument_edges = tuple([index for index, leaf in enumerate(leaves) if isinstance(leaf, TensorBase)])
        #: Those of them that are no arrays.
        self._values = tuple([index for index in self._argument_edges if leaves[index]._value_metadata is not None])
        self._connect([edges[index] for index in self._argument_edges])
        self.shape = None
        self.dtype: Any = None
        self.device = next((leaf._device for leaf in leaves if isinstance(leaf, TensorBase)), None)
        self.meta = NodeMeta()
        #: The metadata of the gradient of each output of forward; without shape for an output that is no tensor.
        self.input_metadata: tuple[InputMetadata | ValueMetadata, ...] = ()
        self.ctx = FunctionContext(self)
        # Now: a method may have been set on the class since that was made.
        takes_rows = function.backward_batch is not _NO_BACKWARD_BATCH
        self.is_async: bool = (takes_rows and not _has_backward(function)) or inspect.iscoroutinefunction(
            _backward_of(function, checked=False)
        )
        self.is_memoized: bool = function.is_memoized
        self.is_users: bool = function._is_users
        self.stays_on_loop: bool = function.stays_on_loop or takes_rows
        if function.concurrent:
            self.ctx._is_shared = True

    @property
    def name(self) -> str:
        """The name of the Function, as in ExponentialBackward."""
        return self.function.__name__ + "Backward"

    @property
    def is_traceable(self) -> bool:  # type: ignore[override]
        """The `is_traceable` of the Function."""
        return self.function.is_traceable

    @property
    def concurrent(self) -> bool:  # type: ignore[override]
        """The `concurrent` that the Function had when it was applied: what is saved is shared, or is not."""
        return self.ctx._is_shared

    @property
    def takes_rows(self) -> bool:
        """Whether the Function has a `backward_batch`."""
        return self.function.backward_batch is not _NO_BACKWARD_BATCH

    def set_outputs(
        self, metadata: tuple[InputMetadata | ValueMetadata, ...], trees: tuple[TreeStructure, ...] | None
    ) -> None:
        """Set the metadata of the leaves of the outputs, and the structure of each, once forward has returned them."""
        self.input_metadata = metadata
        self._output_trees = trees
        meta = self.meta
        assert meta is not None
        meta.takes_values = any(isinstance(slot, ValueMetadata) for slot in metadata)
        # The device of the gradients that backward takes; the arguments may be on another one.
        self.device: Any = next((slot.device for slot in metadata if slot.device is not None), self.device)

    def release_variables(self) -> None:
        """Release the saved tensors, and what the Function releases itself."""
        # As the method of SavingNode.
        if self.ctx._saved:
            self.ctx._saved = None
        if self.function._release is not None:
            self.function._release(self.ctx)

    def compiled_args(self, args: CompiledArgs) -> None:
        """Collect what every node collects, the Function, and the settings of its context."""
        super().compiled_args(args)
        needs_grad = self.ctx.needs_input_grad
        if self._argument_trees is not None:
            needs_grad = tuple(tree_leaves(needs_grad))
        args.collect_exactly(self.function, needs_grad, self.ctx.materialize_grads)

    def apply(self, grads: tuple[Any, ...], keep: Callable[[Any], object] | None = None) -> Any:
        """Return the gradients of the tensor arguments, or an awaitable of them where backward is async.

        Args:
            grads: the gradients of the outputs.
            keep: of one of several rows that are answered together, takes the answer where the row has been cancelled.
        """
        ctx, recorded = self.ctx, _grad_mode()
        tensors: list[Any] = []
        # Without `strict`, as in `NodeTask`, which gives one for each.
        for grad, slot in zip(grads, self.input_metadata):  # noqa: B905
            if isinstance(slot, ValueMetadata):
                tensors.append(slot.zero() if grad is None and ctx.materialize_grads else grad)
                continue
            if grad is None and ctx.materialize_grads and slot.dtype is not None:
                grad = values.zeros(*slot)  # noqa: PLW2901
            tensors.append(values.wrap(grad, slot.device or self.device))
        function = self.function
        if (row := _row()) is not None and self.takes_rows and row.is_here():
            return row.ask(self, tensors, functools.partial(answer_rows, self), keep)
        # Nearly all define this alone.
        backward = function.backward
        if function.vjp is not _NO_VJP or backward is _NO_BACKWARD:
            if self.takes_rows and not _has_backward(function):
                return self._answer_one_row(tensors)
            backward = _backward_of(function, checked=True)
        gradients = tensors if self._output_trees is None else self._like_outputs(tensors)
        try:
            if self.is_async:
                # An async backward awaits its saved tensors itself.
                result = backward(ctx, *gradients)
            else:
                result = self.run_backward(functools.partial(backward, ctx, *gradients))
        except TypeError as error:
            name, count = backward.__qualname__, values.counted(len(gradients), "gradient")
            note_refused_call(error, f"{name} is called with ctx and {count}, one for each output of forward")
            raise
        except (IndexError, ValueError) as error:
            note_what_is_saved(error, ctx)
            raise
        # Backward may have dropped its gradients: keep them only under `create_graph`, where a history does anyway.
        given = tensors if recorded else ()
        # Nearly all rules return a tuple, and it takes long to ask whether that is awaitable.
        if result.__class__ is CoroutineType or (result.__class__ is not tuple and inspect.isawaitable(result)):
            return self._await_result(result, given)
        return self._check_result(result, given)

    async def _await_result(self, result: Awaitable[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        try:
            returned = await result
        except (IndexError, ValueError) as error:
            note_what_is_saved(error, self.ctx)
            raise
        return self._check_result(returned, given)

    def _like_outputs(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Return gradients of the leaves of the outputs in the trees of the outputs."""
        return tensors if self._output_trees is None else unflatten_each(self._output_trees, tensors)

    async def _answer_one_row(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the tensor arguments of a Function that has a rule for several rows alone."""
        (answer,) = await answer_rows(self, [tensors])
        return answer

    def answer_batch(self, tensors: Sequence[Any]) -> Any:
        """Return what `backward_batch` does for gradients of the leaves of the outputs, with a leading axis."""
        rule = functools.partial(self.function.backward_batch, self.ctx, *self._like_outputs(tensors))
        # As in `apply`.
        return rule() if inspect.iscoroutinefunction(self.function.backward_batch) else self.run_backward(rule)

    def check_batch(self, result: Any, given: Sequence[Any]) -> tuple[Any, ...]:
        """Check what `backward_batch` returned, but its rows; return the gradients of the tensor arguments."""
        return self._check_result(result, given, "backward_batch")

    def _check_result(self, result: Any, given: Sequence[Any], rule: str = "backward") -> tuple[Any, ...]:
        """Check what backward returned, given the gradients `given`; return the gradients of the tensor arguments."""
        if result.__class__ is tuple and self._argument_trees is None and len(result) == self._arguments:
            # As nearly all rules do.
            grads = result
        elif self._arguments == 1 and self._argument_trees is None and isinstance(result, (_ndarray, TensorBase)):
            grads = (result,)
        else:
            grads = self._one_for_each_argument(result, rule)
        edges = self._argument_edges
        are_all_tensors = len(edges) == len(grads)
        for index, grad in enumerate(grads):
            if grad is None:
                continue
            if not are_all_tensors and index not in edges:
                raise InvalidGradientError(
                    f"{self._subject(rule)} {describe(grad)} for {self._argument_name(index)} of forward, "
                    "which was no tensor: return None there"
                )
            if grad.__class__ is _ndarray or isinstance(grad, TensorBase) or index in self._values:
                continue
            if not (isinstance(grad, (_ndarray, np.generic)) or values.is_device_array(grad)):
                raise GradientTypeError(
                    f"{self._subject(rule)} {describe(grad)} for {self._argument_name(index)} of forward: "
                    "return a tensor, an array or None"
                )
        if not are_all_tensors:
            grads = tuple(map(grads.__getitem__, edges))
        is_on_host, is_recorded = self.device is None or self.device.has_host_arrays, _grad_mode()
        if is_on_host and not is_recorded:
            return grads
        # Nothing of arrays is done to what is none.
        arrays = [place for place, index in enumerate(edges) if index not in self._values]
        if not is_on_host:
            grads = tuple(
                [values.given_on_device(grad, self.device) if at in arrays else grad for at, grad in enumerate(grads)]
            )
        return self._guard_arrays(grads, given, arrays, rule) if is_recorded else grads

    def _one_for_each_argument(self, result: Any, rule: str) -> tuple[Any, ...]:
        """Return the gradients that backward has returned, one for each leaf of the arguments; raise if it has not."""
        grads = tuple(result) if self._is_for_each_argument(result) else (result,)
        if len(grads) > self._arguments and all(grad is None for grad in grads[self._arguments :]):
            grads = grads[: self._arguments]
        if len(grads) != self._arguments:
            raise self._count_error(len(grads), rule)
        return grads if self._argument_trees is None else self._leaves_like_arguments(grads, rule)

    def _is_for_each_argument(self, result: Any) -> bool:
        """Tell whether backward returned a sequence with a gradient for each argument, and not one gradient.

        The gradient of the only argument, if that is a tuple or list of tensors, is such a sequence itself.
        """
        if not isinstance(result, (tuple, list)):
            return False
        if self._argument_trees is None or self._arguments != 1:
            return True
        cls = self._argument_trees[0].cls
        return type(result) is not cls or (len(result) == 1 and (result[0] is None or type(result[0]) is cls))

    def _count_error(self, count: int, rule: str) -> InvalidGradientError:
        trees = self._argument_trees
        cls = None if trees is None or self._arguments != 1 else trees[0].cls
        of_tree = "" if cls is None else f"; the gradient of the argument is a {cls.__name__}, as the argument is"
        return InvalidGradientError(
            f"{self._subject(rule)} {values.counted(count, 'gradient')}, and forward took "
            f"{values.counted(self._arguments, 'argument')}: return one for each, None where there is none{of_tree}"
            f"{', with the rows along axis 0' if rule == 'backward_batch' else ''}"
        )

    def _leaves_like_arguments(self, grads: Sequence[Any], rule: str) -> tuple[Any, ...]:
        """Return the gradients of the leaves of the arguments, given those of the arguments.

        Raises:
            InvalidGradientError: a gradient is no tree like its argument.
        """
        assert self._argument_trees is not None
        found: list[Any] = []
        for index, (grad, structure) in enumerate(zip(grads, self._argument_trees, strict=True), 1):
            what = f"the gradient that {self._subject(rule)} for argument {index}"
            try:
                found += leaves_like(structure, grad, what, "the argument", allows_none=True)
            except ArgumentError as error:
                raise InvalidGradientError(
                    f"{error}: return a tree like the argument, for example by ag.tree.map, or None where there is no "
                    "gradient"
                ) from None
        return tuple(found)

    def _argument_name(self, index: int) -> str:
        """Return the name in errors of a leaf of the arguments."""
        if self._argument_trees is None:
            return f"argument {index + 1}"
        names = [path for at, one in enumerate(self._argument_trees, 1) for path in paths(one, f"argument {at}")]
        return names[index]

    def _guard_arrays(
        self, grads: tuple[Any, ...], given: Sequence[Any], places: Sequence[int], rule: str
    ) -> tuple[Any, ...]:
        """Return gradients under `create_graph`; differentiating an array among them, which has no history, raises.

        A tensor without history counts as a constant.
        """
        arrays = [index for index in places if grads[index] is not None and not isinstance(grads[index], TensorBase)]
        if not arrays:
            return grads
        edges = [gradient_edge(grad) for grad in given if isinstance(grad, TensorBase)] + edges_of(self.ctx)
        found = forbid_derivative(
            [grads[index] for index in arrays],
            edges,
            self.device,
            f"{self._subject(rule)} an array, which has no history, and it was to be differentiated: compute with "
            "NumPy's functions on the tensors that backward takes; or return ag.asarray(array) for a constant",
        )
        results = list(grads)
        for index, grad in zip(arrays, found, strict=True):
            results[index] = grad
        return tuple(results)

    def _subject(self, rule: str = "backward") -> str:
        return f"{self.function.__name__}.{rule} ({number_of(self)}) returned"


def _has_backward(function: type[Function]) -> bool:
    """Tell whether a Function has a rule for a single row."""
    return function.backward is not _NO_BACKWARD or function.vjp is not _NO_VJP


def _backward_of(function: type[Function], *, checked: bool) -> Callable[..., Any]:
    has_vjp = function.vjp is not Function.vjp
    has_backward = function.backward is not Function.backward
    if checked and has_vjp and has_backward:
        raise GraphError(f"{function.__name__} defines both backward and vjp, which mean the same: keep one")
    if checked and not has_vjp and not has_backward:
        raise NotImplementedError(f"{function.__name__} has no derivative: give it a static backward(ctx, *grads)")
    return function.vjp if has_vjp else function.backward
