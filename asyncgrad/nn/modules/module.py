"""Module: a class of one's own whose attributes are tensors and other modules, and which is a tree of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from operator import setitem
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Never, ParamSpec, Protocol, Self, TypeVar, final

import numpy as np

from ...core.arrays.hooks import HookList, RemovableHandle
from ...core.arrays.interception import on_device_of
from ...core.arrays.uninitialized import UninitializedParameter
from ...core.graph.html import panel, table
from ...core.graph.saved_hooks import prepare_write
from ...core.settings.arguments import check_callable, describe, must_be, truth
from ...core.settings.awaiting import run_steps
from ...core.settings.callers import note_refused_call, shorten_traceback
from ...core.settings.elsewhere import MODULE_ATTRIBUTES, hint_at
from ...core.tensor import Tensor, asarray
from ...core.tree.registry import PLAIN, container_type, register_model
from ...core.tree.structure import TreeStructure, are_equal, flatten
from ...core.tree.structure import map as map_tree
from ...errors import ArgumentError, ArgumentTypeError, HookError
from ..versions import fitting_arrays, publish, take_snapshot
from .backward_hooks import Passage

if TYPE_CHECKING:
    import numpy.typing as npt

    from ...core.arrays.array_like import TensorLike
    from ...core.engine.device import Device


__all__ = ["IncompatibleKeys", "Module", "Parameter"]

#: The parameters of a module's forward, and what it returns.
P = ParamSpec("P")
Output_co = TypeVar("Output_co", covariant=True)

#: How many modules a notebook shows of one.
_ROWS = 100

#: The attribute that holds a module's record, which is no part of the tree.
_RECORD = "_record"


def Parameter(data: TensorLike, requires_grad: bool = True) -> Tensor:  # noqa: N802
    """Return a new leaf that is a parameter of the Module to which it is assigned, alone or in a list or a dict.

    Any leaf that requires grad is one.

    Args:
        data: a tensor, an array or numbers. An array is shared, not copied.
        requires_grad: False for a parameter that is frozen.

    Source: torch.nn.Parameter.
    """
    tensor = asarray(data).detach().requires_grad_()
    return tensor if truth(requires_grad, "requires_grad") else tensor.requires_grad_(False)


def _is_parameter(tensor: Tensor) -> bool:
    """Return whether a tensor is a leaf that requires grad, or has required it before it was frozen."""
    return tensor._grad_fn is None and tensor._meta is not None and tensor._meta.has_required_grad and tensor.is_leaf


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found beside the entries that it loaded; both lists are empty if all keys match."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@final
class _Parameters:
    """The iterator that `parameters` returns: whoever takes it for a list is told to make one."""

    __slots__ = ("_left",)

    def __init__(self, left: Iterator[Tensor]) -> None:
        self._left = left

    def __iter__(self) -> Iterator[Tensor]:
        return self._left

    def __next__(self) -> Tensor:
        return next(self._left)

    def __getitem__(self, index: object) -> Never:
        raise ArgumentTypeError(
            f"parameters() yields one parameter after another, and has none at [{index!r}]: write "
            f"list(model.parameters())[{index!r}], or take it by name, as model.weight"
        )


@final
class _ForwardHook(NamedTuple):
    """A hook of calls that was registered with options."""

    hook: Callable[..., object]
    with_kwargs: bool
    always_call: bool

    def __call__(self, *arguments: Any) -> Any:
        """Call the hook."""
        return self.hook(*arguments)


@final
class _Record:
    """What a module knows of its attributes, and its hooks."""

    __slots__ = (
        "backward_hooks",
        "backward_pre_hooks",
        "children",
        "differentiated",
        "forward_hooks",
        "forward_pre_hooks",
        "in_containers",
        "is_frozen",
        "is_shared",
        "origin",
        "parameters",
        "persistent",
        "state_hooks",
    )

    def __init__(self) -> None:
        #: The names of parameters, which they are also when they are frozen or None. A dict keeps their order.
        self.parameters: dict[str, None] = {}
        #: The names of buffers that are in the state dict.
        self.persistent: set[str] = set()
        #: The names of attributes that are children in the tree, whatever they hold.
        self.children: frozenset[str] = frozenset()
        #: The paths of parameters in lists, dicts and the like, which they are also when they are frozen.
        self.in_containers: set[str] = set()
        #: The paths of parameters that transforms differentiate with respect to although they do not require grad: in a
        #: module that a tree function has made, those that are in the place of one that does.
        self.differentiated: frozenset[str] = frozenset()
        #: The module whose structure this one has, if a tree function has made it.
        self.origin: Module | None = None
        #: Whether several modules have this record.
        self.is_shared = False
        #: Whether the module is a snapshot.
        self.is_frozen = False
        self._forget_hooks()

    def _forget_hooks(self) -> None:
        self.forward_pre_hooks: HookList | None = None
        self.forward_hooks: HookList | None = None
        self.backward_pre_hooks: HookList | None = None
        self.backward_hooks: HookList | None = None
        #: The hooks of `state_dict` and `load_state_dict`, by their kind.
        self.state_hooks: dict[str, HookList] = {}

    def has_hooks(self) -> bool:
        """Tell whether calls of the module run hooks."""
        forward = self.forward_pre_hooks is not None or self.forward_hooks is not None
        return forward or self.backward_pre_hooks is not None or self.backward_hooks is not None

    def copy(self) -> _Record:
        """Return a record with the same hooks."""
        record = _Record()
        record.parameters, record.persistent = dict(self.parameters), set(self.persistent)
        record.children, record.in_containers, record.origin = self.children, set(self.in_containers), self.origin
        record.differentiated = self.differentiated
        # What a transform calls is a module like this one, with the hooks that this one has.
        record.forward_pre_hooks, record.forward_hooks = self.forward_pre_hooks, self.forward_hooks
        record.backward_pre_hooks, record.backward_hooks = self.backward_pre_hooks, self.backward_hooks
        record.state_hooks = dict(self.state_hooks)
        return record

    def has_layout(self, children: frozenset[str], parameters: list[str], persistent: set[str]) -> bool:
        """Tell whether a module with this record has these children in a tree, and no hooks of calls."""
        if self.has_hooks() or self.children != children:
            return False
        return [*self.parameters] == parameters and self.persistent == persistent

    # The copies of a module that `copy.deepcopy` and `pickle` make have no hooks.
    def __getstate__(self) -> Any:
        return self.parameters, self.persistent, self.children, self.in_containers, self.differentiated

    def __setstate__(self, state: Any) -> None:
        self.parameters, self.persistent, self.children, self.in_containers, self.differentiated = state
        self.origin = None
        self.is_shared = self.is_frozen = False
        self._forget_hooks()


class _Entry(NamedTuple):
    """A tensor of a module, or what stands in its place in a tree like the module."""

    path: str
    value: Any
    is_parameter: bool
    is_persistent: bool


class _HasForward(Protocol[P, Output_co]):
    """Abstract: what a call of a module needs of it; for type checkers."""

    _record: _Record

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> Output_co:
        """Compute the output."""

    def _hooked_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]: ...


class Module:
    """Abstract base of models and their layers: a plain class whose tensors and modules are attributes.

    A leaf that requires grad when it is assigned, or did before it was frozen, is a parameter, and stays one. Any other
    tensor is a buffer; those made by `register_buffer` are in the state dict. Lists, tuples, dicts and dataclasses of
    tensors and modules are walked, too. A subclass defines `forward`, which may be an `async def`; then its calls are
    awaited.

    A module is a tree (`ag.tree`), whose leaves are its tensors and those of the modules in it; all other attributes
    are part of the structure. So `ag.func.value_and_grad(loss)(model, batch)` gives a module of gradients, in which
    buffers and frozen parameters are None, and `ag.tree.map` gives a new module. Its tensors, such as those that are
    made in `ag.no_grad()`, need not require grad: transforms differentiate with respect to those in the place of
    parameters that do. (An optimizer takes it after `requires_grad_()`.) A tensor that is in two places of a module is
    one parameter: transforms give its gradient at both, and `ag.tree.map` maps it once.

    Attributes:
        training: whether layers such as Dropout behave as in a training; see `train` and `eval`.

    Source: torch.nn.Module.

    Example:
        >>> import numpy as np, asyncgrad as ag
        >>> from asyncgrad import nn
        >>> class Line(nn.Module):
        ...     def __init__(self):
        ...         self.slope = ag.tensor([2.0], requires_grad=True)
        ...         self.offset = ag.tensor([1.0], requires_grad=True)
        ...     def forward(self, x):
        ...         return self.slope * x + self.offset
        >>> model = Line()
        >>> model(np.array([3.0])).item()
        7.0
        >>> [name for name, _ in model.named_parameters()]
        ['slope', 'offset']
        >>> ag.sync.func.grad(lambda model, x: model(x).sum())(model, np.array([3.0])).slope.item()
        3.0
    """

    training: bool

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Return a module without attributes: so a subclass need not call `super().__init__()`.

        Raises:
            ArgumentTypeError: there are arguments, and the class has no constructor to take them.
        """
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise ArgumentTypeError(
                f"{cls.__name__} has no constructor of its own, and takes no arguments: write {cls.__name__}(), or "
                "give it an __init__"
            )
        module = super().__new__(cls)
        object.__setattr__(module, _RECORD, _Record())
        object.__setattr__(module, "training", True)
        return module

    if TYPE_CHECKING:
        # So that a type checker finds an argument that a class without a constructor of its own does not take. There is
        # none at run time: it would end the calls of `super().__init__()` before they reach a class beside this one.
        def __init__(self) -> None: ...

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        register_model(cls, _flatten_module, _unflatten_module, _differentiated)
        _own_constructor(cls)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; called by `module(...)`.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward: write `def forward(self, x): ...` in it")

    # Any would hide from type checkers that a call has the arguments and the result of the subclass's forward.
    # test_a_type_checker_knows_a_module_by_its_class
    def __call__(self: _HasForward[P, Output_co], *args: P.args, **kwargs: P.kwargs) -> Output_co:
        """Return `forward(*args, **kwargs)`, with the forward hooks run; an awaitable if `forward` is async."""
        record: _Record = self._record
        if (
            record.forward_pre_hooks is None
            and record.forward_hooks is None
            and record.backward_hooks is None
            and record.backward_pre_hooks is None
        ):
            try:
                return self.forward(*args, **kwargs)
            except Exception as error:
                if isinstance(error, TypeError):
                    note_refused_call(error, _called_with(self, args, kwargs))
                shorten_traceback(error)
                raise
        result: Any = run_steps(self._hooked_call(args, kwargs))
        return result

    # Attributes.

    _record: _Record

    def __setattr__(self, name: str, value: object) -> None:
        record: _Record = self._record
        if record.is_frozen:
            self._check_not_frozen(name)
        if isinstance(value, Tensor):
            if name in record.parameters:
                if not value.is_leaf:
                    raise ArgumentError(
                        f"{type(self).__name__}.{name} is a parameter, and {describe(value)} was computed by "
                        f"{value.grad_fn.name if value.grad_fn else ''}: assign nn.Parameter(value), or keep what is "
                        "computed in a variable"
                    )
            elif name not in record.persistent and _is_parameter(value):
                self._own_record().parameters[name] = None
        elif value is not None and name in record.parameters:
            raise ArgumentTypeError(
                f"{type(self).__name__}.{name} is a parameter, and cannot become {describe(value)}: assign a Tensor, "
                f"or write `del module.{name}` first"
            )
        object.__setattr__(self, name, value)
        if value is not None and container_type(type(value)) is not None and not isinstance(value, Module):
            # Takes note of the parameters in it.
            list(self._own_parts())

    def __delattr__(self, name: str) -> None:
        self._check_not_frozen(name)
        object.__delattr__(self, name)
        record = self._own_record()
        record.parameters.pop(name, None)
        record.persistent.discard(name)

    def _own_record(self) -> _Record:
        """Return the record, to change it: modules that tree functions have made share theirs."""
        record: _Record = self._record
        self._check_not_frozen("what belongs to")
        if record.is_shared:
            record = record.copy()
            object.__setattr__(self, _RECORD, record)
        return record

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Set a parameter: a leaf, which may be frozen, or None for one that this module does without.

        Raises:
            ArgumentTypeError: `param` is no tensor.
            ArgumentError: `param` is no leaf, or `name` is an attribute of something else.
        """
        _check_attribute(self, name, param)
        self._own_record().parameters[name] = None
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Set a buffer: a tensor that belongs to the module's state and is not trained.

        Args:
            name: the name of the attribute.
            tensor: the tensor, or None for one that this module does without.
            persistent: whether it is in the state dict.

        Raises:
            ArgumentTypeError: `tensor` is no tensor.
            ArgumentError: `name` is an attribute of something else.
        """
        _check_attribute(self, name, tensor)
        if truth(persistent, "persistent"):
            self._own_record().persistent.add(name)
        object.__setattr__(self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set a submodule: the same as `setattr(self, name, module)`.

        Raises:
            ArgumentTypeError: `module` is no Module.
        """
        if module is not None and not isinstance(module, Module):
            raise ArgumentTypeError(must_be("module", "a Module", module))
        setattr(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Do as `add_module`."""
        self.add_module(name, module)

    # What a module consists of.

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the parameters, each once: those of this module first.

        Args:
            recurse: also those of the modules in it.
        """
        return _Parameters(param for _, param in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters with their paths, such as "layers.0.weight".

        Args:
            prefix: the path of this module.
            recurse: also those of the modules in it.
            remove_duplicate: yield a parameter that is in several places once, under its first path.
        """
        for entry in self._entries(prefix, recurse, remove_duplicate):
            if entry.is_parameter and entry.value is not None:
                yield entry.path, entry.value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the tensors that are no parameters, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths; the arguments are those of `named_parameters`."""
        for entry in self._entries(prefix, recurse, remove_duplicate):
            if not entry.is_parameter and entry.value is not None:
                yield entry.path, entry.value

    def children(self) -> Iterator[Module]:
        """Yield the modules that are attributes of this one, or in containers that are, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield those modules with their names."""
        seen: set[int] = set()
        for name, value in self._own_parts():
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all modules in it.

        Args:
            remove_duplicate: yield a module that is in several places once.
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield this module and all modules in it with their paths; that of this module is `prefix`.

        Args:
            prefix: the path of this module.
            remove_duplicate: yield a module that is in several places once.
        """
        yield from self._named_modules(prefix, set() if remove_duplicate else None)

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path, such as "layers.0"; this one for "".

        Raises:
            ArgumentError: there is none.
        """
        return self._at(target, "module", self.named_modules(remove_duplicate=False))

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path, such as "layers.0.linear", in place of the one that is there.

        Args:
            target: the path; what it leads through are attributes.
            module: the new module.
            strict: refuse a path at which there is none yet.

        Raises:
            ArgumentError: the path is empty, its parent is no module, or with `strict` there is none at it.
            ArgumentTypeError: `module` is no Module.
        """
        if not isinstance(module, Module):
            raise ArgumentTypeError(must_be("module", "a Module", module))
        if not target:
            raise ArgumentError("set_submodule needs the path of a module in this one, not an empty one")
        if truth(strict, "strict"):
            self.get_submodule(target)
        path, _, name = target.rpartition(".")
        parent: Any = self.get_submodule(path)
        if name.isdigit() and hasattr(parent, "__setitem__"):
            parent[int(name)] = module
        else:
            setattr(parent, name, module)

    def get_parameter(self, target: str) -> Tensor:
        """Return the parameter at a path, such as "layers.0.weight".

        Raises:
            ArgumentError: there is none.
        """
        return self._at(target, "parameter", self.named_parameters(remove_duplicate=False))

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path, such as "layers.1.running_mean".

        Raises:
            ArgumentError: there is none.
        """
        return self._at(target, "buffer", self.named_buffers(remove_duplicate=False))

    # State.

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return copies of the parameters and persistent buffers by their paths, with PyTorch's names and order.

        Args:
            prefix: what each path begins with.
            keep_vars: return the tensors themselves.
        """
        keep_vars = truth(keep_vars, "keep_vars")
        hooked = self._with_state_hooks()
        for path, module in hooked:
            module._run_state_hooks("before state", prefix + path, keep_vars)
        found: dict[str, Any] = {
            prefix + path: tensor if keep_vars or _is_lazy(tensor) else tensor.detach().copy()
            for path, tensor in self._state().items()
        }
        for path, module in self._extra_states():
            found[prefix + path] = module.get_extra_state()
        for path, module in hooked:
            module._run_state_hooks("after state", found, prefix + path, {})
        return found

    def get_extra_state(self) -> Any:
        """Return what belongs to the state of this module beside its tensors; for subclasses to define.

        It is in the state dict by the path of the module and "_extra_state".
        """
        raise NotImplementedError(f"{type(self).__name__} has no extra state: write `def get_extra_state(self): ...`")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` has returned; for subclasses that define that."""
        raise NotImplementedError(
            f"{type(self).__name__} takes no extra state: write `def set_extra_state(self, state): ...`"
        )

    def load_state_dict(
        self, state_dict: Mapping[str, object], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Write the values of a state dict into the parameters and persistent buffers, all or none of them.

        Args:
            state_dict: tensors or arrays by path; also those of PyTorch. Of a tensor in two places, one path is enough.
                A lazy layer that has not been called becomes one with the shapes that they have.
            strict: whether all keys must match. Otherwise those that do not are left out.
            assign: put new tensors in the place of the module's, which share the arrays of the state dict and have
                their dtypes and devices. So make the optimizer afterwards. What requires grad stays the module's.

        Returns:
            The missing and the unexpected keys.

        Raises:
            ArgumentError: a shape differs, or with `strict` a key is missing or unexpected. The message names each by
                its path, with both shapes, and nothing has changed.
            ArgumentTypeError: `state_dict` is no mapping, or an entry no array.
        """
        self._check_not_frozen("the state")
        is_assigned = truth(assign, "assign")
        if not isinstance(state_dict, Mapping):
            raise ArgumentTypeError(
                must_be(
                    "state_dict",
                    "a dict of tensors, as model.state_dict() returns it",
                    state_dict,
                    _of_path(state_dict),
                )
            )
        hooked = self._with_state_hooks()
        problems: list[str] = []
        named: tuple[list[str], list[str]] = ([], [])
        if hooked:
            # The hooks may change it.
            state_dict = dict(state_dict)
        for path, module in hooked:
            module._run_state_hooks("before load", state_dict, path, {}, strict, *named, problems)
        lazy: list[tuple[Module, type, dict[str, Any]]] = []
        try:
            self._initialize_lazy(state_dict, lazy)
            own, extra, arrays, found = self._matched(state_dict, truth(strict, "strict"), named, problems)
            new = _all_assigned(own, state_dict, arrays) if is_assigned else None
        except BaseException:
            for module, kind, attributes in lazy:
                object.__setattr__(module, "__class__", kind)
                vars(module).clear()
                vars(module).update(attributes)
            raise
        if new is None:
            _write_all(own, arrays)
        else:
            self._map_own_tensors(lambda tensor: new.get(id(tensor), tensor))
        for path, module in extra.items():
            if path in state_dict:
                module.set_extra_state(state_dict[path])
        for _, module in hooked:
            module._run_state_hooks("after load", found)
        return found

    def _initialize_lazy(self, state_dict: Mapping[str, Any], found: list[tuple[Module, type, dict[str, Any]]]) -> None:
        """Give the tensors of lazy layers the shapes in a state dict; append these layers with what they were."""
        for path, module in self.named_modules(remove_duplicate=False):
            if any(map(_is_lazy, vars(module).values())):
                found.append((module, type(module), dict(vars(module))))
                entries = {name: state_dict.get(f"{path}.{name}" if path else name) for name in vars(module)}
                shapes = {name: getattr(entry, "shape", None) for name, entry in entries.items()}
                module._initialize_by({name: tuple(shape) for name, shape in shapes.items() if shape is not None})

    def _map_own_tensors(self, function: Callable[[Any], Any]) -> None:
        """Put what a function returns for each tensor of this module and those in it in the place of that."""
        for module in self.modules():
            for name, value in vars(module).items():
                if name != _RECORD and not isinstance(value, Module) and _holds_parts(value):
                    # A frozen dataclass refuses assignments.
                    object.__setattr__(module, name, map_tree(function, value, is_leaf=_is_module))

    def _initialize_by(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make the tensors of a lazy layer, if those in a state dict tell their shapes; for such layers to define."""

    def _matched(
        self, state_dict: Mapping[str, Any], strict: bool, named: tuple[list[str], list[str]], problems: list[str]
    ) -> tuple[dict[str, Tensor], dict[str, Module], dict[str, Any], IncompatibleKeys]:
        """Return the state, the modules with an extra one, the arrays to load by path, and which keys do not match."""
        own, extra = self._state(), dict(self._extra_states())
        # A tensor in two places is also loaded by one of its paths: files of PyTorch's models have no more.
        loaded = {id(tensor) for path, tensor in own.items() if path in state_dict}
        missing = [path for path, tensor in own.items() if id(tensor) not in loaded]
        missing += [path for path in extra if path not in state_dict] + named[0]
        found = IncompatibleKeys(missing, [*(set(state_dict) - set(own) - set(extra))])
        found.unexpected_keys.sort(key=list(state_dict).index)
        found.unexpected_keys.extend(named[1])
        lazy = {path for path, tensor in own.items() if _is_lazy(tensor)}
        problems += [f"{path} has no shape yet" for path in lazy if not _is_lazy(state_dict.get(path, own[path]))]
        tensors = {path: value for path, value in state_dict.items() if path not in extra}
        shaped = {path: tensor for path, tensor in own.items() if path not in lazy}
        arrays, unfitting = fitting_arrays(shaped, tensors, "the state dict")
        problems += unfitting
        if strict:
            problems += [f"{path} is missing" for path in found.missing_keys]
            problems += [f"{path} is unexpected" for path in found.unexpected_keys]
        if problems:
            shown = "; ".join(problems[:10]) + ("; ..." if len(problems) > 10 else "")
            raise ArgumentError(f"the state dict does not fit {type(self).__name__}, and nothing was loaded: {shown}")
        return own, extra, arrays, found

    def _extra_states(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules with an extra state, by the path of that."""
        for path, module in self.named_modules(remove_duplicate=False):
            if type(module).get_extra_state is not Module.get_extra_state:
                yield f"{path}._extra_state" if path else "_extra_state", module

    def _with_state_hooks(self) -> list[tuple[str, Module]]:
        """Return the modules with hooks of their state, by what the paths of their tensors begin with."""
        named = self.named_modules(remove_duplicate=False)
        return [(f"{path}." if path else "", module) for path, module in named if module._record.state_hooks]

    def _run_state_hooks(self, kind: str, *args: Any) -> None:
        hooks = self._record.state_hooks.get(kind)
        for hook in hooks.snapshot() if hooks else ():
            if hook(self, *args) is not None:
                raise HookError(f"a hook of a state dict changes it in place, and returns None: {hook!r}")

    def snapshot(self) -> Self:
        """Return an immutable version of this module as it is now, in evaluation mode, without a copy of an array.

        Its tensors share the arrays of this module's, read-only, and do not change: whoever writes into this module
        next, an optimizer say, gives it new arrays. What reads a snapshot, also in another thread or over many turns of
        the event loop, so sees one version. `ag.func` differentiates by the parameters of a snapshot as by this
        module's, and an optimizer takes such gradients. Attributes that are no tensors are shared. Does not suspend.

        Raises:
            ArgumentError: on setting an attribute of the snapshot, or loading a state into it.

        Example:
            >>> import numpy as np, asyncgrad as ag
            >>> from asyncgrad import nn
            >>> model = nn.Linear(2, 1, bias=False)
            >>> before = model.snapshot()
            >>> _ = model.update({"weight": np.ones((1, 2))})
            >>> model(np.ones(2)).tolist(), before.weight.tolist() == [[1.0, 1.0]]
            ([2.0], False)
        """
        return take_snapshot(self)

    def update(self, values: Mapping[str, object] | Module) -> Self:
        """Publish new values of parameters and buffers, all at once or none; return this module.

        Arrays are taken over, not copied, and whoever has the old ones keeps them unchanged: snapshots, and views of
        the parameters. Does not suspend, so that no other task of this event loop sees a part of the new values.

        Args:
            values: tensors or arrays by path, for some or all parameters and buffers; or a module of this structure,
                such as `ag.tree.map` returns, in which None leaves a tensor as it is.

        Raises:
            ArgumentError: there is no such path, or a shape or dtype does not fit; the message names each by its path,
                with both shapes, and nothing has changed.
            ArgumentTypeError: a value is no array.
        """
        self._check_not_frozen("the state")
        publish(self, dict(values._tensors()) if isinstance(values, Module) else values)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` in this module and all modules in it; return this one."""
        mode = truth(mode, "mode")
        for module in self.modules():
            if module.training is not mode:
                module._check_not_frozen("training")
            # A frozen dataclass refuses assignments.
            object.__setattr__(module, "training", mode)
        return self

    def eval(self) -> Self:
        """Do as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all parameters, or make them require grad again; return this module."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        for module in self.modules():
            if module._record.differentiated:
                module._own_record().differentiated = frozenset()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: to None, or to zeros."""
        set_to_none = truth(set_to_none, "set_to_none")
        for param in self.parameters():
            if param.grad is not None:
                param.grad = (
                    None if set_to_none else Tensor(on_device_of(param._data, np.zeros_like), None, 0, param._device)
                )

    def to(self, device: str | Device | npt.DTypeLike | None = None, dtype: npt.DTypeLike | None = None) -> Self:
        """Move all tensors to a device, or convert the floating and complex ones to a dtype; return this module.

        The module then has new tensors, and their gradients move along. So make its optimizer afterwards.

        Args:
            device: a device or its name; a dtype, or the name of a floating one, given in its place is one.
            dtype: a floating dtype; complex tensors get the complex one of its precision.

        Raises:
            DeviceError: there is no such device.
            ArgumentError: `dtype` is not floating.
        """
        if dtype is None and device is not None and _is_dtype(device):
            device, dtype = None, device
        kind = None if dtype is None else np.dtype(dtype)
        if kind is not None and kind.kind not in "fc":
            raise ArgumentError(f"a module computes in a floating dtype, not {kind}")
        moved: dict[int, Tensor] = {}

        def move(value: Any) -> Any:
            if isinstance(value, UninitializedParameter):
                return value.moved(device, None if kind is None else _wanted(value.dtype, kind))
            if not isinstance(value, Tensor):
                return value
            if id(value) not in moved:
                moved[id(value)] = _moved(value, device, kind)
            return moved[id(value)]

        self._map_own_tensors(move)
        return self

    def double(self) -> Self:
        """Do as `to(np.float64)`."""
        return self.to(np.dtype(np.float64))

    def half(self) -> Self:
        """Do as `to(np.float16)`."""
        return self.to(np.dtype(np.float16))

    def float(self) -> Self:
        """Do as `to(np.float32)`."""
        return self.to(np.dtype(np.float32))

    def cpu(self) -> Self:
        """Do as `to("cpu")`."""
        return self.to("cpu")

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call a function with each module in this one, and then with this one; return it."""
        check_callable(fn, "fn", "with a module", "pass a function", ArgumentTypeError)
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # Hooks.

    def register_forward_pre_hook(
        self, hook: Callable[..., object], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Have `hook(module, args)` called before `forward`; what it returns, unless None, replaces the arguments.

        With a hook that is an `async def`, calls of the module are awaited.

        Args:
            hook: a function or an `async def`.
            prepend: call it before all others.
            with_kwargs: call `hook(module, args, kwargs)`, which returns None or new args and kwargs.
        """
        record = self._own_record()
        if record.forward_pre_hooks is None:
            record.forward_pre_hooks = HookList()
        return record.forward_pre_hooks.add(_forward_hook(hook, with_kwargs, False), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., object],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Have `hook(module, args, output)` called after `forward`; what it returns, unless None, is the output.

        With a hook that is an `async def`, calls of the module are awaited.

        Args:
            hook: a function or an `async def`.
            prepend: call it before all others.
            with_kwargs: call `hook(module, args, kwargs, output)`.
            always_call: call it also where `forward` or another hook has raised, with the output that there is, or
                None; what it returns then is not used, and what it raises becomes a note of the error.
        """
        record = self._own_record()
        if record.forward_hooks is None:
            record.forward_hooks = HookList()
        return record.forward_hooks.add(_forward_hook(hook, with_kwargs, always_call), prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(module, grad_output)` called when a backward has the gradients of a call's outputs.

        They are in a tuple, one for each tensor of the output; what the hook returns, unless None, replaces them.

        Args:
            hook: a function or an `async def`.
            prepend: call it before all others.
        """
        record = self._own_record()
        if record.backward_pre_hooks is None:
            record.backward_pre_hooks = HookList()
        return record.backward_pre_hooks.add(hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Have `hook(module, grad_input, grad_output)` called when a backward has passed through a call.

        The gradients are in tuples, one for each positional argument and each output, or None; what the hook returns,
        unless None, replaces those of the arguments.

        Args:
            hook: a function or an `async def`.
            prepend: call it before all others.

        Example:
            >>> import numpy as np, asyncgrad as ag
            >>> from asyncgrad import nn
            >>> model = nn.ReLU()
            >>> def show(module, grad_input, grad_output):
            ...     print([grad.tolist() for grad in (*grad_input, *grad_output)])
            >>> handle = model.register_full_backward_hook(show)
            >>> x = ag.tensor([-1.0, 2.0], requires_grad=True)
            >>> ag.sync.backward(model(x).sum())
            [[0.0, 1.0], [1.0, 1.0]]
        """
        record = self._own_record()
        if record.backward_hooks is None:
            record.backward_hooks = HookList()
        return record.backward_hooks.add(hook, prepend=prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have `hook(module, prefix, keep_vars)` called before `state_dict` reads this module."""
        return self._add_state_hook("before state", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have `hook(module, state_dict, prefix, local_metadata)` called with a state dict, which it may change."""
        return self._add_state_hook("after state", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have a hook called before a state is loaded, with a copy of the state dict, which it may change.

        Its arguments are the module, the state dict, the module's prefix, a dict without entries, `strict`, and three
        lists that it may append to: of missing keys, of unexpected ones, and of errors.
        """
        return self._add_state_hook("before load", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Have `hook(module, incompatible_keys)` called after a state has been loaded."""
        return self._add_state_hook("after load", hook)

    def _add_state_hook(self, kind: str, hook: Callable[..., object]) -> RemovableHandle:
        hooks = self._own_record().state_hooks
        return hooks.setdefault(kind, HookList()).add(hook)

    def _hooked_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]:
        """Call hooks and `forward`; a generator that yields each result, and is sent it, awaited if need be."""
        record: _Record = self._record
        waiting: list[Any] = [*record.forward_hooks.snapshot()] if record.forward_hooks else []
        output = None
        try:
            for hook in record.forward_pre_hooks.snapshot() if record.forward_pre_hooks else ():
                args, kwargs = _replaced(hook, args, kwargs, (yield _run_hook(hook, self, args, kwargs)))
            passage = None
            if record.backward_pre_hooks or record.backward_hooks:
                passage = Passage(self, record.backward_pre_hooks, record.backward_hooks)
                args = passage.enter(args)
            output = yield self.forward(*args, **kwargs)
            while waiting:
                changed = yield _run_hook(waiting.pop(0), self, args, kwargs, output)
                output = output if changed is None else changed
            return output if passage is None else passage.leave(output)
        except (Exception, asyncio.CancelledError) as error:
            for hook in waiting:
                if isinstance(hook, _ForwardHook) and hook.always_call:
                    try:
                        yield _run_hook(hook, self, args, kwargs, output)
                    except Exception as other:
                        error.add_note(f"the hook {hook.hook!r}, which is always called, raised {other!r}")
            raise

    # Walks.

    def _at(self, target: str, what: str, named: Iterator[tuple[str, Any]]) -> Any:
        """Return what is called `target` among named parts."""
        found = dict(named)
        if target not in found:
            raise ArgumentError(f"{type(self).__name__} has no {what} {target!r}: {_known(found)}")
        return found[target]

    def _state(self) -> dict[str, Tensor]:
        """Return the parameters and persistent buffers themselves, by their paths."""
        return {
            entry.path: entry.value
            for entry in self._entries("", True, False)
            if entry.value is not None and (entry.is_parameter or entry.is_persistent)
        }

    def _tensors(self) -> Iterator[tuple[str, Any]]:
        """Yield what there is in place of each parameter and buffer, by its paths; None is left out."""
        for entry in self._entries("", True, False):
            if entry.value is not None:
                yield entry.path, entry.value

    def _check_not_frozen(self, what: str) -> None:
        if self._record.is_frozen:
            raise ArgumentError(
                f"{what} of a snapshot of {type(self).__name__} cannot be changed: change the model, and take a new "
                "model.snapshot()"
            )

    def _own_parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the tensors and modules of this module itself, also those in containers, by their paths from it."""
        record = self._record
        for name, value in vars(self).items():
            if isinstance(value, (Tensor, Module)) or name in record.parameters or name in record.persistent:
                yield name, value
            elif name != _RECORD and (name in record.children or _holds_parts(value)):
                leaves, structure = flatten(value, _is_leaf_of_module)
                for path, leaf in zip(_dotted_paths(structure, name), leaves, strict=True):
                    if isinstance(leaf, Tensor) and (leaf.requires_grad or _is_parameter(leaf)):
                        record.in_containers.add(path)
                    if isinstance(leaf, (Tensor, Module)) or name in record.children:
                        yield path, leaf

    def _entries(self, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[_Entry]:
        """Yield the tensors of this module, and of those in it: for each module its parameters, then its buffers."""
        seen: set[int] = set()
        for module_path, module in self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]:
            own = [
                module._entry(module_path, name, value)
                for name, value in module._own_parts()
                if not isinstance(value, Module)
            ]
            for entry in sorted(own, key=lambda entry: not entry.is_parameter):
                if remove_duplicate and entry.value is not None:
                    if id(entry.value) in seen:
                        continue
                    seen.add(id(entry.value))
                yield entry

    def _entry(self, prefix: str, name: str, value: Any) -> _Entry:
        record = self._record
        # In a list or a dict, no name tells a frozen parameter from a buffer; both are state.
        in_container = "." in name
        is_parameter = name in record.parameters or name in record.in_containers
        path = f"{prefix}.{name}" if prefix else name
        return _Entry(path, value, is_parameter, in_container or name in record.persistent)

    def _named_modules(self, path: str, seen: set[int] | None) -> Iterator[tuple[str, Module]]:
        if seen is not None:
            if id(self) in seen:
                return
            seen.add(id(self))
        yield path, self
        for name, value in self._own_parts():
            if isinstance(value, Module):
                yield from value._named_modules(f"{path}.{name}" if path else name, seen)

    def _trained_paths(self) -> frozenset[str]:
        """Return the paths of this module's own parameters that transforms differentiate with respect to."""
        record: _Record = self._record
        own = [(name, vars(self).get(name)) for name in record.parameters]
        if record.in_containers:
            own += [(path, value) for path, value in self._own_parts() if path in record.in_containers]
        return record.differentiated | {
            path for path, value in own if isinstance(value, Tensor) and value.requires_grad
        }

    def _parameter_values(self) -> list[tuple[str, Any]]:
        """Return what stands for each parameter of the model, by path: in a module of gradients, a gradient or None."""
        return [(path, _at_path(self, path)) for path, _ in (self._record.origin or self).named_parameters()]

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        vars(copied)[_RECORD] = self._record.copy()
        return copied

    # Text.

    def extra_repr(self) -> str:
        """Return the options of this module, as `repr` shows them."""
        return ""

    def __repr__(self) -> str:
        count = sum(param.size for param in self.parameters() if hasattr(param, "size"))
        frozen = sum(param.size for param in self.parameters() if not getattr(param, "requires_grad", True))
        counted = f"  # {count:,} parameters" + (f", {frozen:,} of them frozen" if frozen else "")
        return "\n".join(self._lines()) + counted

    def _lines(self) -> list[str]:
        parts = list(self._own_parts())
        shapes = [f"{name} {tuple(value.shape)}" for name, value in parts if hasattr(value, "shape")]
        inner = ", ".join(filter(None, [self.extra_repr(), *shapes]))
        children = [(name, value) for name, value in parts if isinstance(value, Module)]
        if not children:
            return [f"{type(self).__name__}({inner})"]
        lines = [f"{type(self).__name__}({inner}"]
        for name, child in children:
            first, *others = child._lines()
            lines += [f"  ({name}): {first}", *[f"  {line}" for line in others]]
        return [*lines, ")"]

    def _repr_html_(self) -> str:
        rows = [module._row(path) for path, module in self.named_modules()]
        shown = rows if len(rows) <= _ROWS else rows[: _ROWS - 1]
        if len(rows) > len(shown):
            shown = [*shown, (f"… {len(rows) - len(shown):,} more modules", "", "", "", "")]
        count = sum(param.size for param in self.parameters() if hasattr(param, "size"))
        note = f"{count:,} parameters, in {'training' if self.training else 'evaluation'}"
        head = ("path", "module", "tensors", "parameters", "trained")
        return panel(type(self).__name__, table(head, shown, numbers=(3,)), note)

    def _row(self, path: str) -> tuple[str, str, str, str, str]:
        """Return what a notebook shows of this module without those in it."""
        parts = [(name, value) for name, value in self._own_parts() if hasattr(value, "shape")]
        own = [param for param in self.parameters(recurse=False) if hasattr(param, "size")]
        trained = sum(param.size for param in own if getattr(param, "requires_grad", True))
        count = sum(param.size for param in own)
        options = self.extra_repr()
        return (
            path or "(itself)",
            type(self).__name__ + (f"({options})" if options else ""),
            ", ".join(f"{name} {tuple(value.shape)}" for name, value in parts),
            f"{count:,}" if count else "",
            "" if not count else "yes" if trained == count else "frozen" if not trained else f"{trained:,} of them",
        )


hint_at(Module, MODULE_ATTRIBUTES)


def _flatten_module(module: Module) -> tuple[Sequence[Any], Any]:
    record = module._record
    names, static = [], []
    for name, value in vars(module).items():
        if name == _RECORD:
            continue
        if (
            isinstance(value, (Tensor, Module))
            or name in record.children
            or name in record.parameters
            or name in record.persistent
            or _holds_parts(value)
        ):
            names.append(name)
        else:
            static.append((name, value))
    return [vars(module)[name] for name in names], (tuple(names), _Static(static, module, names))


@final
class _Static:
    """The attributes of a module that are no children, with its record: part of the structure of a tree."""

    __slots__ = ("_attributes", "_entries", "_module", "_names", "_origin", "_record")

    def __init__(self, entries: list[tuple[str, Any]], module: Module, names: list[str]) -> None:
        self._entries = entries
        self._names = names
        self._module = module
        self._record = module._record
        self._origin = self._record.origin or module
        self._attributes: dict[str, Any] | None = None

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a new module, without its children."""
        if self._attributes is None:
            record = self._record.copy()
            # A new module may have anything in place of the tensors, and its children are the same nevertheless.
            record.children, record.origin, record.is_shared = frozenset(self._names), self._origin, True
            record.differentiated = self._module._trained_paths()
            self._attributes = {_RECORD: record, **dict(self._entries)}
        return self._attributes

    @property
    def entries(self) -> list[tuple[str, Any]]:
        """The attributes that are no children, as they are in the module, and the hooks of its calls."""
        record = self._record
        if not record.has_hooks():
            return self._entries
        each = (record.forward_pre_hooks, record.forward_hooks, record.backward_pre_hooks, record.backward_hooks)
        names = ("before", "after", "before backward", "after backward")
        hooks = [(name, one.snapshot()) for name, one in zip(names, each, strict=True) if one]
        return [*self._entries, *hooks]

    @property
    def differentiated(self) -> frozenset[str]:
        """The paths of parameters that transforms differentiate with respect to although they do not require grad."""
        return self._record.differentiated

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return NotImplemented
        mine, theirs = dict(self._entries), dict(other._entries)
        return mine.keys() == theirs.keys() and all(are_equal(value, theirs[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return hash(tuple([name for name, _ in self._entries]))


def static_entries(structure: TreeStructure) -> list[tuple[str, Any]]:
    """Return what a module has besides its children: attributes, as they are in the module, and forward hooks."""
    found: list[tuple[str, Any]] = structure.aux_data[1].entries
    return found


class ModuleLayout(NamedTuple):
    """What makes the structure of a module in a tree: one of the same class that has it differs in its parts alone.

    Attributes:
        attributes: the names of its attributes, in order.
        record: which of them is what it knows of itself, an object with a method `has_layout`.
        known: what that method is given.
        parts: which of them are its children in the tree.
        others: the rest, with their values.
    """

    attributes: tuple[str, ...]
    record: str
    known: tuple[frozenset[str], list[str], set[str]]
    parts: tuple[str, ...]
    others: dict[str, Any]


def layout_of(structure: TreeStructure) -> ModuleLayout | None:
    """Return the layout of the module that a structure has just been taken of; None where it has forward hooks."""
    if structure.kind is None or structure.kind.flatten is not _flatten_module:
        return None
    parts, static = structure.aux_data
    record, module = static._record, static._module
    if record.has_hooks():
        return None
    known = record.children, [*record.parameters], {*record.persistent}
    layout = ModuleLayout(tuple(vars(module)), _RECORD, known, parts, dict(static._entries))
    is_whole = {*layout.attributes} == {_RECORD, *parts, *layout.others}
    return layout if is_whole and vars(module)[_RECORD] is record else None


def _unflatten_module(cls: type[Module], aux_data: Any, children: Sequence[Any]) -> Module:
    names, static = aux_data
    module = object.__new__(cls)
    # Not by `__setattr__`, which takes tensors only for parameters: the children may be anything.
    attributes = vars(module)
    attributes.update(static.attributes())
    attributes.update(zip(names, children, strict=True))
    return module


def _differentiated(aux_data: Any) -> frozenset[str]:
    found: frozenset[str] = aux_data[1].differentiated
    return found


register_model(Module, _flatten_module, _unflatten_module, _differentiated)


def _is_leaf_of_module(value: Any) -> bool:
    # None stands for a parameter, in a module of gradients.
    return value is None or isinstance(value, Module)


def _is_lazy(value: Any) -> bool:
    return isinstance(value, UninitializedParameter)


def _is_module(value: Any) -> bool:
    return isinstance(value, Module)


def _holds_parts(value: Any) -> bool:
    """Tell whether an attribute is a tensor, a module, or a container of some."""
    if isinstance(value, (Tensor, Module, UninitializedParameter)):
        return True
    if type(value) in PLAIN or container_type(type(value)) is None:
        return False
    return any(isinstance(leaf, (Tensor, Module)) for leaf in flatten(value, _is_module)[0])


def _at_path(module: Module, path: str) -> Any:
    """Return what is at the path of a parameter; None where there is nothing any more."""
    value: Any = module
    for name in path.split("."):
        if isinstance(value, Module):
            value = vars(value).get(name)
        elif value is not None and (kind := container_type(type(value))) is not None:
            children, aux_data = kind.flatten(value)
            labels = map(str, kind.labels(type(value), aux_data, len(children)))
            value = dict(zip(labels, children, strict=True)).get(name)
    return value


def _dotted_paths(structure: TreeStructure, root: str) -> Iterator[str]:
    if structure.kind is None:
        yield root
    for label, child in zip(structure.labels, structure.children, strict=True):
        yield from _dotted_paths(child, f"{root}.{label}")


def _check_attribute(module: Module, name: str, value: Any) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ArgumentError(f"the name of a tensor in a module is a non-empty string without dots, not {name!r}")
    if value is not None and not isinstance(value, Tensor):
        raise ArgumentTypeError(must_be(name, "a Tensor or None", value, "write ag.tensor(...)"))
    if hasattr(module, name) and not isinstance(getattr(module, name), (Tensor, type(None))):
        raise ArgumentError(f"{type(module).__name__} has an attribute {name!r} already, which is no tensor")


def _moved(tensor: Tensor, device: Any, dtype: np.dtype | None) -> Tensor:
    if tensor._history() is not None:
        raise ArgumentError(
            f"a tensor of shape {tensor.shape} in the module was computed, by {tensor.grad_fn!r}: only leaves move"
        )
    result = tensor.detach()
    if dtype is not None and tensor.dtype.kind in "fc":
        result = result.astype(_wanted(tensor.dtype, dtype))
    if device is not None:
        result = result.to(device)
    if result.dtype == tensor.dtype and result._device is tensor._device:
        return tensor
    if tensor.requires_grad:
        result.requires_grad_()
    if tensor.grad is not None:
        result.grad = _moved(tensor.grad.detach(), device, dtype)
    return result


def _write_all(own: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> None:
    """Write arrays into tensors, by path."""
    for path, array in arrays.items():
        tensor = own[path]
        prepare_write(tensor)
        on_device_of(tensor._data, setitem, ..., array)
        tensor._bump_version()


def _all_assigned(own: Mapping[str, Tensor], given: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[int, Tensor]:
    """Return what stands in the place of each tensor of a module, by its id: the values of a state dict, `given`."""
    return {id(own[path]): _assigned(path, own[path], given[path], array) for path, array in arrays.items()}


def _assigned(path: str, tensor: Tensor, value: Any, array: Any) -> Tensor:
    """Return what stands in the place of a tensor of a module: the value of a state dict, of which `array` is made."""
    new = asarray(value if isinstance(value, Tensor) else array).detach()
    if _is_parameter(tensor) and new.dtype.kind not in "fc":
        raise ArgumentError(
            f"{path} is a parameter, and has dtype {new.dtype} in the state dict: with assign=True it would have no "
            "gradient; write assign=False, which casts it"
        )
    return Parameter(new, tensor.requires_grad) if _is_parameter(tensor) else new


def _wanted(dtype: np.dtype, kind: np.dtype) -> np.dtype:
    """Return what a dtype becomes: of complex numbers, the complex one of the precision that is wanted."""
    return np.result_type(kind, np.complex64) if dtype.kind == "c" and kind.kind == "f" else kind


#: The names of dtypes that no device has.
_DTYPE_NAMES = frozenset({"float16", "float32", "float64", "longdouble", "complex64", "complex128"})


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (np.dtype, type)) or (isinstance(value, str) and value in _DTYPE_NAMES)


def _own_constructor(cls: type[Module]) -> None:
    """Give a layer of asyncgrad's a copy of the constructor that it inherits, which has the name of its class.

    Python says by that name which arguments a call lacks: those of Conv2d, and not of the class that has them for all
    convolutions. Classes of users inherit as always (test_a_missing_argument_is_one_of_the_class_that_is_written).
    """
    inherited: Any = cls.__init__
    if "__init__" in vars(cls) or not isinstance(inherited, FunctionType) or not cls.__module__.startswith(_LAYERS):
        return
    parts = (inherited.__name__, inherited.__defaults__, inherited.__closure__)
    own = FunctionType(inherited.__code__, inherited.__globals__, *parts)
    own.__kwdefaults__, own.__annotations__ = inherited.__kwdefaults__, inherited.__annotations__
    own.__doc__, own.__module__ = inherited.__doc__, inherited.__module__
    own.__qualname__ = f"{cls.__qualname__}.__init__"
    type.__setattr__(cls, "__init__", own)


#: The package of the layers.
_LAYERS = __name__.rpartition(".")[0]


def _called_with(module: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return what `forward` is called with, for one that does not take it."""
    given = ", ".join(["self", *map(describe, args), *(f"{name}={describe(one)}" for name, one in kwargs.items())])
    return f"{type(module).__name__}.forward is called with the arguments of the module's call: {given}"


def _forward_hook(hook: Callable[..., object], with_kwargs: bool, always_call: bool) -> Callable[..., object]:
    """Return a hook of calls with its options; without any, as it is."""
    options = truth(with_kwargs, "with_kwargs"), truth(always_call, "always_call")
    if not any(options):
        return hook
    check_callable(hook, "a hook")
    return _ForwardHook(hook, *options)


def _run_hook(
    hook: Callable[..., Any] | _ForwardHook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], *output: Any
) -> Any:
    """Return what a forward hook returns, which may be an awaitable."""
    given: dict[str, Any] = {"module": module, "args": args}
    if isinstance(hook, _ForwardHook) and hook.with_kwargs:
        given["kwargs"] = kwargs
    if output:
        given["output"] = output[0]
    try:
        return hook(*given.values())
    except TypeError as error:
        shown = hook.hook if isinstance(hook, _ForwardHook) else hook
        note_refused_call(error, f"{shown!r} is called as hook({', '.join(given)})")
        raise


def _replaced(
    hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], changed: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call after a hook before it, which has returned `changed`.

    Raises:
        HookError: the hook takes keyword arguments, and has returned something else than both kinds of arguments.
    """
    if changed is None:
        return args, kwargs
    if not isinstance(hook, _ForwardHook):
        return changed if isinstance(changed, tuple) else (changed,), kwargs
    if not (isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[1], dict)):
        raise HookError(
            f"a forward pre-hook with_kwargs returns None or a tuple of args and a dict, and {hook.hook!r} has "
            f"returned {describe(changed)}"
        )
    return changed[0] if isinstance(changed[0], tuple) else (changed[0],), changed[1]


def _of_path(state_dict: Any) -> str:
    """Return what to write where the path of a file was given for a state dict."""
    is_path = isinstance(state_dict, (str, os.PathLike))
    return "write model.load_state_dict(nn.load_safetensors(path))" if is_path else ""


def _known(paths: Iterable[str]) -> str:
    names = [path for path in paths if path]
    return "there are " + ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "there are none"
