"""The wrapper of a primitive: a generated function that unwraps the arguments, calls the function and records the call.

A wrapper is generated for each primitive because no other code runs as often: a wrapper that looped over its arguments
would take twice as long. For `np.multiply` it begins with these lines, without the underscores before names::

    def call(x, y):
        if isinstance(x, TensorBase):
            template, raw_x, key = x, x._data, 2
        else:
            template, raw_x, key = None, x, 0
        if isinstance(y, TensorBase):
            if template is None:
                template = y
            elif y._device is not template._device:
                raise mixed_devices("multiply", template, y)
            raw_y, key = y._data, key + 4
        else:
            raw_y = y
        if template is None:
            return function(x, y)
        data = function(raw_x, raw_y)
        ...

`key` finds the plan. Its lowest bit says whether the arrays are of a type for which there is a KernelCompiler, the next
ones which arguments are tensors, the next which of them require grad, and three more whether the result is complex, is
cast, and is of float16.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import AsyncgradError
from ..arrays.device_arrays import explain_refusal, name_shapes
from ..arrays.interception import add_wrapper
from ..arrays.tensor_base import CreationMeta, VersionCounter
from ..arrays.values import check_numbers, is_labelled, refuse_sparse
from ..graph.wrappers import register_wrapper
from ..settings.arguments import PLAIN_TYPES
from ..settings.callers import show_warnings_at_the_caller
from ..settings.source import make_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["generate_call"]

#: The names that the source of each wrapper uses, besides those in the namespace of its primitive.
_NAMES: dict[str, Any] = {
    # Anomaly mode recognizes the frame of a wrapper as asyncgrad's own by this name.
    "__name__": __name__,
    "_DEFAULT": CreationMeta.DEFAULT,
    "_NO_GRAD": CreationMeta.NO_GRAD,
    "_VersionCounter": VersionCounter,
    "_asarray": np.asarray,
    "_check_numbers": check_numbers,
    "_float32": np.dtype(np.float32),
    "_float64": np.dtype(np.float64),
    "_getframe": sys._getframe,
    "_is_labelled": is_labelled,
    "_may_share_memory": np.may_share_memory,
    "_AsyncgradError": AsyncgradError,
    "_explain_refusal": explain_refusal,
    "_name_shapes": name_shapes,
    "_ndarray": np.ndarray,
    "_plain": PLAIN_TYPES,
    "_refuse_sparse": refuse_sparse,
    "_new": object.__new__,
    "_scalar": np.generic,
}


# What a generated function warns of is the caller's.
show_warnings_at_the_caller()


def generate_call(
    name: str,
    signature: inspect.Signature,
    tensor_names: Sequence[str],
    *,
    views: bool,
    always_floating: bool,
    namespace: dict[str, Any],
    is_operator: bool = False,
    superlinear: bool = False,
) -> FunctionType:
    """Return the wrapper of a primitive.

    Args:
        name: of the primitive, for errors.
        signature: of the wrapper.
        tensor_names: the parameters that may be tensors and have a derivative.
        views: whether the result may share memory with the first tensor.
        always_floating: whether floating arguments always give a floating result.
        namespace: the names that the generated source uses.
        is_operator: whether the wrapper is an operator of tensors. If the function raises an error for the second
            operand, the wrapper returns the result of `_deferred` in `namespace`.
        superlinear: whether the work of a call grows faster than its arrays.
    """
    namespace = {**namespace, **_NAMES}

    def generate() -> None:
        body = [
            *(_unwrap_operands(name, tensor_names) if is_operator else _unwrap(name, tensor_names)),
            *_compute(name, signature, tensor_names, is_operator),
            "_mode = _grad_mode()",
            *(_share_memory(signature, tensor_names) if views else ()),
            *_find_edges(name, signature, tensor_names, always_floating, is_operator),
            *_make_node(name, signature, tensor_names, is_operator),
            # Not around the lines that follow: a jump over so many would cost an instruction more.
            "if _mode is True: return _out",
            *_tell_observer(() if superlinear else tensor_names),
            "return _out",
        ]
        generated = make_function(f"call({_parameters(signature, namespace)})", body, f"call of {name}", namespace)
        # The function that callers already have gets the code, so later calls run it directly.
        call.__defaults__, call.__kwdefaults__ = generated.__defaults__, generated.__kwdefaults__
        call.__code__ = generated.__code__

    call = FunctionType(_generate_first.__code__, namespace, name)
    namespace.update(call=call, _generate=generate)
    add_wrapper(namespace)
    register_wrapper(namespace)
    vars(call)["__signature__"] = signature
    return call


# In the namespace of each wrapper.
_generate: Callable[[], None]
call: Callable[..., Any]


def _generate_first(*args: Any, **kwargs: Any) -> Any:
    """Generate the wrapper at its first call, and call it: compiling all at import would take longer than NumPy's."""
    _generate()  # noqa: F821
    return call(*args, **kwargs)  # noqa: F821


def _unwrap(name: str, tensor_names: Sequence[str]) -> list[str]:
    """Take the arrays out of the tensors; `_template` is the first, low bits of `_key` say which arguments are.

    A sparse matrix of SciPy's is refused at once: NumPy would make another of each element.
    """
    lines = ["_template, _key = None, 0"]
    for index, tensor in enumerate(tensor_names):
        lines.append(f"if isinstance({tensor}, _TensorBase):")
        if index == 0:
            lines.append(f"    _template, _key, _device = {tensor}, 2, {tensor}._device")
        else:
            lines += [
                f"    if _template is None: _template, _device = {tensor}, {tensor}._device",
                f"    elif {tensor}._device is not _device:",
                f"        raise _mixed_devices({name!r}, _template, {tensor})",
                f"    _key += {2 << index}",
            ]
        lines += [f"    _raw_{tensor} = {tensor}._data", "else:", f"    _raw_{tensor} = {tensor}"]
        if len(tensor_names) > 1:
            lines.append(f"    if type({tensor}) not in _plain: _refuse_sparse({name!r}, ({tensor},))")
    return [*lines, "if _template is not None: _type = type(_template)"]


def _unwrap_operands(name: str, tensor_names: Sequence[str]) -> list[str]:
    """Unwrap the operands of an operator: the first is always a tensor, the second usually."""
    x, y = tensor_names
    unwrap = [
        f"    if {y}._device is not _device:",
        f"        raise _mixed_devices({name!r}, {x}, {y})",
        f"    _raw_{y}, _key = {y}._data, 6",
    ]
    return [
        f"_template, _type, _device, _raw_{x} = {x}, type({x}), {x}._device, {x}._data",
        # The first two tests are there for speed.
        f"if type({y}) is _type:",
        *unwrap,
        f"elif type({y}) in _plain:",
        f"    _raw_{y}, _key = {y}, 2",
        f"elif isinstance({y}, _TensorBase):",
        *unwrap,
        "else:",
        f"    _raw_{y}, _key = {y}, 2",
        # A ufunc would make another sparse matrix of each element.
        f"    try: _refuse_sparse({name!r}, ({y},))",
        f"    except TypeError as error: return _deferred({y}, error, {name!r}, {x})",
    ]


def _compute(name: str, signature: inspect.Signature, tensor_names: Sequence[str], is_operator: bool) -> list[str]:
    """Call the function, and make a tensor of its result without the cost of calling the constructor."""
    plain = _arguments(signature, lambda parameter: parameter)
    raw = _arguments(signature, lambda parameter: f"_raw_{parameter}" if parameter in tensor_names else parameter)
    if is_operator:
        lines = [
            f"try: _data = _function({raw})",
            f"except Exception as error: return _deferred({tensor_names[1]}, error, {name!r}, {tensor_names[0]})",
        ]
    else:
        tensors = "".join(f"{parameter}, " for parameter in tensor_names)
        shown = f"numpy.{name}" if hasattr(np, name) else name
        # A library for another device says little of an array of NumPy's beside its own, and NumPy of what is no
        # array.
        explain = f"_explain_refusal({shown!r}, ({tensors}), error, {(*tensor_names,)!r})"
        lines = [
            "if _template is None:",
            f"    try: return _function({plain})",
            # Where no argument is a tensor, what the function says itself names more.
            "    except _AsyncgradError: raise",
            f"    except (TypeError, AttributeError, ValueError) as error: {explain}; raise",
            f"try: _data = _function({raw})",
            f"except ValueError as error: {explain}; _name_shapes({shown!r}, ({tensors}), error); raise",
            f"except (TypeError, AttributeError) as error: {explain}; raise",
        ]
    # The operator of an xarray object then computes with the tensor, and keeps its labels and the history.
    labelled = [f"    elif _is_labelled({tensor_names[1]}): return NotImplemented"] if is_operator else []
    return [
        *lines,
        "if type(_data) is not _ndarray:",
        "    if isinstance(_data, _scalar): _data = _asarray(_data)",
        "    elif type(_data) in _compiled: _key += 1",
        *labelled,
        "    else: _data = _as_array(_data)",
        "_out = _new(_type)",
        "_out._data, _out._output_nr, _out._device = _data, 0, _device",
        "_out._meta = _out._counter = _out._grad_fn = _out._view = None",
    ]


def _share_memory(signature: inspect.Signature, tensor_names: Sequence[str]) -> list[str]:
    """Make the result a view of the first argument if they share memory.

    A base is not enough: the result of reshape, or of indexing with arrays, may have one and still be a copy.
    """
    first, *others = signature.parameters
    raw = f"_raw_{tensor_names[0]}"
    # Only a function of one tensor can be replayed on another base.
    step = ", ".join(("call", *others)) if [first] == [*tensor_names] else "None"
    is_tensor = "" if len(tensor_names) == 1 else "_key & 2 and "
    return [
        "_root = _data.base",
        f"if {is_tensor}(_root is {raw} or _data is {raw}",
        f"        or _root is not None and (_root is {raw}.base or _may_share_memory(_data, {raw}))):",
        "    _counter = _template._counter",
        "    if _counter is None: _counter = _template._counter = _VersionCounter()",
        "    _out._counter = _counter",
        "    _record = _template._view",
        # Inlined from TensorBase._view_record: a call would cost as much as the other lines together.
        "    if _record is None:",
        f"        _out._view = _template, None, _counter.value, _DEFAULT if _mode else _NO_GRAD, {step}",
        "    elif _record.__class__ is tuple:",
        f"        _out._view = _record[0], _record, _counter.value, _record[3] if _mode else _NO_GRAD, {step}",
        "    else:",
        f"        _out._view = _template._view_record(_DEFAULT if _mode else _NO_GRAD, ({step},))",
    ]


def _find_edges(
    name: str, signature: inspect.Signature, tensor_names: Sequence[str], always_floating: bool, is_operator: bool
) -> list[str]:
    """Find the nodes that gradients flow to; the high bits of `_key` tell which tensors require grad."""
    floating = "" if always_floating else " and _data.dtype.kind in 'fc'"
    check = _check_unrecorded(name, signature, tensor_names, always_floating, is_operator)
    lines = [
        f"if not (_mode{floating}):",
        *check,
        # The mode is False or a Watcher, which is false, too: see GRAD_MODE.
        f"    if not _mode and _mode is not False: _mode.used({', '.join(tensor_names)})",
        "    return _out",
        "_is_plain = True",
    ]
    count = len(tensor_names)
    for index, tensor in enumerate(tensor_names):
        node = f"_node_{tensor}"
        lines += [
            f"{node} = None",
            "if True:" if is_operator and index == 0 else f"if _raw_{tensor} is not {tensor}:",
            # A view may need a new grad_fn if its memory was written into: see TensorBase._history.
            f"    if {tensor}._view is not None and {tensor}._counter.value: {tensor}._refresh()",
            f"    {node} = {tensor}._grad_fn",
            f"    if {node} is not None:",
            f"        _key += {2 << index + count}",
            f"        {node}.has_parent = True",
            f"        if {tensor}._output_nr: _is_plain = False",
            "    else:",
            f"        _meta = {tensor}._meta",
            "        if _meta is not None and _meta.requires_grad:",
            # Inlined from the first lines of `_accumulator`.
            "            _reference = _meta.accumulator",
            f"            if _reference is not None: {node} = _reference()",
            f"            if {node} is None: {node} = _accumulator({tensor}, _meta)",
            # A leaf needs no mark of a parent: it has no edges that could change.
            f"            _key += {2 << index + count}",
        ]
    # What is not always floating has been found to be so.
    return [*lines, f"if _key < {2 << count}:", *(check if always_floating else ()), "    return _out"]


def _check_unrecorded(
    name: str, signature: inspect.Signature, tensor_names: Sequence[str], is_ufunc: bool, is_operator: bool
) -> list[str]:
    """Raise if an unrecorded result does not contain numbers; a ufunc of tensors only always returns numbers."""
    every = (1 << len(tensor_names)) - 1
    if is_ufunc and every == 1:
        return []
    others = f"_key != {every << 1} and " if is_ufunc else ""
    return [
        f"    if {others}_data.dtype.kind not in 'biufc':",
        *_call_check_numbers(name, signature, is_operator),
    ]


def _call_check_numbers(name: str, signature: inspect.Signature, is_operator: bool) -> list[str]:
    """Raise for a result without numbers; an operator may still be computed for the operand that is the cause."""
    parameters = list(signature.parameters)
    call = f"_check_numbers({name!r}, _data.dtype, ({''.join(f'{parameter}, ' for parameter in parameters)}))"
    if not is_operator:
        return [f"        {call}"]
    return [
        f"        try: {call}",
        f"        except Exception as error: return _deferred({parameters[1]}, error, {name!r}, {parameters[0]})",
    ]


def _make_node(name: str, signature: inspect.Signature, tensor_names: Sequence[str], is_operator: bool) -> list[str]:
    """Make the node and save the values that its plan lists."""
    count = len(tensor_names)
    nodes = "".join(f"_node_{tensor}, " for tensor in tensor_names)
    values = "".join(f"{parameter}, " for parameter in signature.parameters)
    return [
        "_dtype = _data.dtype",
        # For speed only: most results are of one of these.
        "if _dtype is not _float64 and _dtype is not _float32:",
        "    if _dtype.kind == 'f':",
        f"        if _dtype.itemsize == 2: _key += {8 << 2 * count}",
        "    else:",
        "        if _dtype.kind != 'c':",
        *(f"    {line}" for line in _call_check_numbers(name, signature, is_operator)),
        f"        _key += {2 << 2 * count}",
        "try:",
        "    _plan = _plans[_key]",
        "except KeyError:",
        "    _plan = _make_plan(_key)",
        "_node = _next_class()()",
        "_node.plan = _plan",
        f"_node.next_nodes = ({nodes})",
        "_node.input_nrs = _plan.zeros",
        "if not _is_plain:",
        *(
            f"    if _node_{tensor} is not None and {tensor}._output_nr: "
            f"_node.connect_input({index}, {tensor}._output_nr)"
            for index, tensor in enumerate(tensor_names)
        ),
        "_node.order = _next_order()",
        # `_is_plain` is not needed any more: a profile finds the thread there, and True or False is the main thread.
        "if len(_THREADS) > 1 and _get_ident() != _MAIN_THREAD: _is_plain = _node.foreign_thread = _get_ident()",
        # Consecutive results of one plan and one shape share the tuple.
        "_shape, _known = _data.shape, _plan.shape",
        "if _shape == _known: _shape = _known",
        "else: _plan.shape = _shape",
        "_node.shape, _node.dtype, _node.device = _shape, _dtype, _device",
        "_node.meta = None",
        # In two steps: calling the slot directly would look up a method first.
        "_gather = _plan.gather",
        f"_node.saved = () if _gather is None else _gather({values}_out)",
        "_out._grad_fn = _node",
    ]


def _tell_observer(tensor_names: Sequence[str]) -> list[str]:
    """Tell the observer of the new node; the mode is True or an observer, see GRAD_MODE.

    If a profile is all that observes, its entry is made here: a call would cost as much as all the rest of it. See
    NodeRecorder for what it holds. The profile looks for the caller where that is not the function of the last time,
    and makes the entry itself if it needs to know more: what a function of the superlinear ones has saved.
    """
    if not tensor_names:
        return ["_mode.created(_node)"]
    nodes = "".join(f", id(_node_{tensor})" for tensor in tensor_names)
    return [
        # In locals that are not needed any more: two more would cost each call a dozen instructions.
        "_key = _getframe(1)",
        "_data = _key.f_code",
        "if _data is not _mode.last_code[0]:",
        "    _key = _mode.caller(_key, _data)",
        "    if _key is None:",
        "        _mode.created(_node)",
        "        return _out",
        "    _data = _key.f_code",
        # Bound first, then called: calling a slot directly would look up a method first.
        "_known, _gather = _mode.clock, _mode.plain_calls",
        "_gather += (_plan, _node.order, id(_node), _shape, _dtype, _device, _data, _key.f_lasti, _is_plain,",
        f"    _known(){nodes})",
    ]


def _arguments(signature: inspect.Signature, spelled: Callable[[str], str]) -> str:
    """Return the source of the arguments of a call that passes on each parameter."""
    parts = []
    for parameter in signature.parameters.values():
        value = spelled(parameter.name)
        parts.append(f"{parameter.name}={value}" if parameter.kind is parameter.KEYWORD_ONLY else value)
    return ", ".join(parts)


def _parameters(signature: inspect.Signature, namespace: dict[str, Any]) -> str:
    """Return the source of the parameter list; defaults go into `namespace`."""
    parts: list[str] = []
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.KEYWORD_ONLY not in kinds[:index]:
            parts.append("*")
        if parameter.default is parameter.empty:
            parts.append(parameter.name)
        else:
            namespace[f"_default_{parameter.name}"] = parameter.default
            parts.append(f"{parameter.name}=_default_{parameter.name}")
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.POSITIONAL_ONLY not in kinds[index + 1 :]:
            parts.append("/")
    return ", ".join(parts)
