"""Attributes that users of PyTorch, JAX and NumPy look for at a tensor or a module, and what to write instead.

They are descriptors, one for each name, since a `__getattr__` would make each access to what there is several times
slower (test_attributes_that_exist_are_found_as_without_hints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

__all__ = [
    "CONTEXT_ATTRIBUTES",
    "JIT_ATTRIBUTES",
    "MODULE_ATTRIBUTES",
    "NODE_ATTRIBUTES",
    "OPTIMIZER_ATTRIBUTES",
    "OPTIMIZER_OPTIONS",
    "PROFILE_ATTRIBUTES",
    "TENSOR_ATTRIBUTES",
    "hint_at",
]

#: Methods of PyTorch that NumPy has as functions of the same name.
_FUNCTIONS = (
    "abs absolute acos acosh add allclose amax amin angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
    "argwhere asin asinh atan atan2 atanh average bincount bitwise_and bitwise_not bitwise_or bitwise_xor "
    "broadcast_to ceil copysign corrcoef cos cosh count_nonzero cov cross cumulative_sum deg2rad diag diff divide "
    "einsum equal exp exp2 expand_dims expm1 flip fliplr flipud floor floor_divide fmax fmin fmod frexp gcd "
    "greater greater_equal heaviside hypot i0 inner isclose isfinite isinf isnan isreal kron lcm ldexp less "
    "less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor matmul "
    "maximum median minimum moveaxis multiply nan_to_num nanmean nanmedian nanquantile nansum negative nextafter "
    "not_equal outer percentile positive pow power quantile rad2deg reciprocal remainder roll rot90 sign signbit "
    "sin sinc sinh split sqrt square subtract tan tanh tile tril triu true_divide trunc unique vdot where"
)
#: Methods that asyncgrad.nn has as functions of the same name.
_OF_NN = "hardshrink log_softmax prelu relu sigmoid softmax"
#: Functions of linear algebra.
_OF_LINALG = "cholesky det eig eigh eigvals inv matrix_power norm pinv qr slogdet solve svd"
#: Functions that write into what is given as out.
_IN_PLACE = "abs ceil cos exp floor log neg round sin sqrt square tanh"
_SPECIAL = "asyncgrad.scipy.special."
_WRITE = "x[...] = {0}, or x = {0} where no memory is to be written into"

#: By name, what to write instead of an attribute of a tensor that is called `x`.
TENSOR_ATTRIBUTES: dict[str, str] = {
    **{name: f"np.{name}(x)" for name in _FUNCTIONS.split()},
    **{name: f"ag.nn.{name}(x)" for name in _OF_NN.split()},
    **{name: f"np.linalg.{name}(x)" for name in _OF_LINALG.split()},
    **{name: f"{_SPECIAL}{name}(x)" for name in ("digamma", "erf", "erfc", "erfinv", "logit", "xlogy", "logsumexp")},
    "lgamma": f"{_SPECIAL}gammaln(x)",
    "add": "x + y",
    "sub": "x - y",
    "subtract": "x - y",
    "mul": "x * y",
    "multiply": "x * y",
    "div": "x / y",
    "divide": "x / y",
    "true_divide": "x / y",
    "pow": "x ** y",
    "neg": "-x",
    "negative": "-x",
    **dict.fromkeys(("matmul", "mm", "bmm", "mv"), "x @ y"),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), "x + y @ z"),
    "addmm_": "x += y @ z",
    "lerp_": "x += weight * (y - x)",
    "addcmul": "x + value * y * z",
    "addcdiv": "x + value * y / z",
    "lerp": "x + weight * (y - x)",
    "float_power": "x.astype(np.float64) ** y",
    "sgn": "np.sign(x)",
    "ger": "np.outer(x, y)",
    "histc": "np.histogram(x, bins)",
    "logcumsumexp": "np.logaddexp.accumulate(x)",
    "polygamma": f"{_SPECIAL}polygamma(n, x)",
    "tensor_split": "np.array_split(x, n)",
    "eq": "x == y",
    "ne": "x != y",
    "lt": "x < y",
    "le": "x <= y",
    "gt": "x > y",
    "ge": "x >= y",
    "where": "np.where(mask, x, y)",
    # In place.
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "pow_": "x **= y",
    "zero_": "x[...] = 0",
    "copy_": "x[...] = y",
    "set_": "x[...] = y",
    "fill_": "x.fill(value), or x[...] = value",
    "masked_fill_": "x[mask] = value",
    "clamp_": "np.clip(x, low, high, out=x)",
    "clip_": "np.clip(x, low, high, out=x)",
    **{f"{name}_": f"np.{name}(x, out=x)" for name in _IN_PLACE.split()},
    "neg_": "np.negative(x, out=x)",
    "relu_": "ag.nn.relu(x, inplace=True)",
    "sigmoid_": _WRITE.format("ag.nn.sigmoid(x)"),
    **dict.fromkeys(("bernoulli", "bernoulli_"), "rng.random(x.shape) < p, of rng = np.random.default_rng(seed)"),
    "exponential_": "x[...] = rng.exponential(scale, x.shape), of rng = np.random.default_rng(seed)",
    "random_": "x[...] = rng.integers(low, high, x.shape), of rng = np.random.default_rng(seed)",
    "apply_": "x[...] = [function(each) for each in x]",
    "normal_": "ag.nn.init.normal_(x)",
    "uniform_": "ag.nn.init.uniform_(x)",
    "t_": "x = x.T",
    "squeeze_": "x = x.squeeze()",
    "unsqueeze_": "x = np.expand_dims(x, axis)",
    # Shapes.
    "view": "x.reshape(shape), which gives a view where it can, or x.astype(dtype)",
    "view_as": "x.reshape(y.shape)",
    "reshape_as": "x.reshape(y.shape)",
    "resize": "x.reshape(shape)",
    "unsqueeze": "np.expand_dims(x, axis), or x[:, None]",
    "permute": "x.transpose(axes)",
    "movedim": "np.moveaxis(x, source, destination)",
    "t": "x.T",
    "mH": "x.conj().mT",
    "H": "x.conj().T",
    "adjoint": "x.conj().mT",
    "expand": "np.broadcast_to(x, shape)",
    "expand_as": "np.broadcast_to(x, y.shape)",
    "unflatten": "x.reshape(shape)",
    "chunk": "np.array_split(x, n)",
    "hsplit": "np.hsplit(x, n)",
    "vsplit": "np.vsplit(x, n)",
    "swapdims": "np.swapaxes(x, first, second)",
    "transpose_": "x = x.swapaxes(first, second)",
    "diag_embed": "x[..., np.newaxis] * np.eye(x.shape[-1])",
    "sum_to_size": "x.sum(axis=axes, keepdims=True)",
    "resize_": "x = np.resize(x, shape)",
    "unbind": "np.unstack(x)",
    "unfold": "np.lib.stride_tricks.sliding_window_view(x, size, axis)",
    "contiguous": "np.ascontiguousarray(x), or x alone: no function needs it",
    "is_contiguous": "x.flags.c_contiguous",
    "stride": "x.strides, which are in bytes",
    "dim": "x.ndim",
    "ndimension": "x.ndim",
    "numel": "x.size",
    "nelement": "x.size",
    "element_size": "x.itemsize",
    "storage": "x.numpy()",
    "data_ptr": "x.numpy().ctypes.data",
    # Selection.
    "at": "x[index] = values, or x[index] += values: tensors are written in place",
    "gather": "np.take_along_axis(x, indices, axis)",
    "index_select": "x.take(indices, axis)",
    "masked_select": "x[mask]",
    "masked_fill": "np.where(mask, value, x)",
    "narrow": "x[start:start + length]",
    "select": "x[:, index]",
    "scatter": "np.put_along_axis(x, indices, values, axis)",
    "scatter_": "np.put_along_axis(x, indices, values, axis)",
    "scatter_add": "np.add.at(x, indices, values)",
    "scatter_add_": "np.add.at(x, indices, values)",
    **dict.fromkeys(("index_fill", "index_put", "masked_scatter"), "y = x.copy(), and y[index] = values"),
    "masked_scatter_": "x[mask] = values",
    "scatter_reduce_": "x[...] = ag.nn.scatter_reduce(x, axis, indices, values, reduce)",
    "index_fill_": "x[index] = value",
    "index_copy_": "x[index] = values",
    "index_put_": "x[index] = values",
    "index_add": "np.add.at(x, indices, values)",
    "index_add_": "np.add.at(x, indices, values)",
    "topk": "ag.nn.topk(x, k)",
    "kthvalue": "ag.nn.kthvalue(x, k)",
    "scatter_reduce": "ag.nn.scatter_reduce(x, axis, indices, values, reduce)",
    "clamp": "x.clip(low, high)",
    "clamp_min": "np.maximum(x, low)",
    "clamp_max": "np.minimum(x, high)",
    "aminmax": "x.min() and x.max()",
    "std_mean": "x.std() and x.mean()",
    "var_mean": "x.var() and x.mean()",
    "mode": "values, counts = np.unique(x, return_counts=True), and values[np.argmax(counts)]",
    "unique_consecutive": "x[np.concatenate([[True], x[1:] != x[:-1]])]",
    "repeat_interleave": "x.repeat(n, axis)",
    "rsqrt": "1 / np.sqrt(x)",
    "frac": "x - np.trunc(x)",
    "dist": "np.linalg.norm(x - y)",
    "inverse": "np.linalg.inv(x)",
    "logdet": "np.linalg.slogdet(x)[1]",
    "pinverse": "np.linalg.pinv(x)",
    "lu": "asyncgrad.scipy.linalg.lu(x)",
    "renorm": "x * np.minimum(1, maxnorm / np.linalg.norm(x, axis=axis, keepdims=True))",
    **{name: f"asyncgrad.scipy.signal.{name}(x)" for name in ("stft", "istft")},
    "cummax": "ag.nn.cummax(x, axis)",
    "cummin": "ag.nn.cummin(x, axis)",
    "ptp": "x.max() - x.min()",
    # Types and devices.
    "type": "x.astype(dtype), or x.dtype",
    "type_as": "x.astype(y.dtype)",
    "float": "x.astype(np.float32)",
    "double": "x.astype(np.float64)",
    "half": "x.astype(np.float16)",
    "bfloat16": "x.astype(np.float32): NumPy has no bfloat16",
    "int": "x.astype(np.int32)",
    "short": "x.astype(np.int16)",
    "char": "x.astype(np.int8)",
    "byte": "x.astype(np.uint8)",
    "long": "x.astype(np.int64)",
    "bool": "x.astype(bool)",
    "is_floating_point": "np.issubdtype(x.dtype, np.floating)",
    "is_complex": "np.iscomplexobj(x)",
    "cpu": 'x.to("cpu")',
    "cuda": 'x.to("cuda:0")',
    "is_cuda": "x.device.name",
    "get_device": "x.device",
    "is_sparse": "False: a tensor is dense, and asyncgrad.scipy.sparse has sparse arrays",
    "to_dense": "x alone: a tensor is dense",
    "to_sparse": "asyncgrad.scipy.sparse.csr_array",
    "is_same_size": "x.shape == y.shape",
    "pin_memory": "x alone: copies to a device need no pinned memory of yours",
    "share_memory_": "multiprocessing.shared_memory, and ag.asarray of an array on it",
    "block_until_ready": "await x.device.synchronize()",
    # State.
    "data": "x.detach() to read without history, and x[...] = values in ag.no_grad() to write",
    "stop_gradient": "x.detach()",
    "zero_grad": "x.grad = None, or optimizer.zero_grad()",
    "new_tensor": "ag.tensor(data, dtype=x.dtype)",
    "new_zeros": "np.zeros(shape, x.dtype)",
    "new_ones": "np.ones(shape, x.dtype)",
    "new_full": "np.full(shape, value, x.dtype)",
    "new_empty": "np.empty(shape, x.dtype)",
    "value": "x.item(), or x.numpy()",
    "values": "x.numpy(); after x.max(axis) or np.sort(x) nothing, since these return values alone",
    "indices": "np.argmax(x, axis), np.argmin(x, axis) or np.argsort(x), in place of np.max, np.min or np.sort",
    "to_numpy": "x.numpy()",
    "aval": "x.shape and x.dtype",
    "append": "np.append(x, values), or np.concatenate([x, values])",
}

#: By name, what to write instead of an attribute of a module that is called `model`.
MODULE_ATTRIBUTES: dict[str, str] = {
    "cuda": 'model.to("cuda:0")',
    "type": "model.to(dtype)",
    "bfloat16": "model.half(), or model.float(): NumPy has no bfloat16",
    "flatten_parameters": "nothing: the parameters of a recurrent layer need not lie together",
    "backward": "await loss.backward(), of a loss computed from the outputs",
    "fit": "a loop: loss = loss_of(model(x), y); await loss.backward(); optimizer.step(); optimizer.zero_grad()",
    "compile": "ag.jit of the function that calls the model",
    "predict": "model(x)",
    "summary": "ag.summary(model, *args)",
    "weights": "dict(model.named_parameters())",
    "params": "model.parameters()",
    "trainable_variables": "model.parameters()",
    "register_backward_hook": "model.register_full_backward_hook(hook)",
    "save": "nn.save_safetensors(model.state_dict(), path)",
    "load": "model.load_state_dict(nn.load_safetensors(path))",
    "init": "model.state_dict(): a module is made with its parameters",
    **{
        name: f"next(iter(model.parameters())).{name}: each parameter has its own"
        for name in ("device", "dtype", "grad", "shape")
    },
    **dict.fromkeys(("requires_grad", "freeze"), "model.requires_grad_(False), or True"),
}

#: By name, what to write instead of an attribute of an optimizer that is called `optimizer`.
OPTIMIZER_ATTRIBUTES: dict[str, str] = {
    "backward": "await loss.backward(), and then optimizer.step()",
    "minimize": "await loss.backward(), and then optimizer.step()",
    "apply_gradients": "optimizer.step(), after await loss.backward()",
    "apply_updates": "optimizer.step(), after await loss.backward()",
    "update": "optimizer.step(), after await loss.backward()",
    "init": "optimizer.state_dict(): it is made with its parameters",
    "zero_grads": "optimizer.zero_grad()",
    "parameters": 'optimizer.param_groups[0]["params"]',
    "params": 'optimizer.param_groups[0]["params"]',
}
#: The same of a node, of the ctx of a Function, of a profile, and of ag.jit.
NODE_ATTRIBUTES: dict[str, str] = {
    "next_functions": "node.next_edges, whose elements are (node, input_nr)",
}
CONTEXT_ATTRIBUTES: dict[str, str] = {
    "saved_variables": "ctx.saved_tensors",
}
PROFILE_ATTRIBUTES: dict[str, str] = {
    "key_averages": "prof.table()",
    "export_stacks": "prof.export_chrome_trace(path)",
    "export": "prof.export_chrome_trace(path)",
    "print_stats": "print(prof.table())",
    "step": "with ag.profile() as prof: around the steps",
    "start": "with ag.profile() as prof:",
    "stop": "with ag.profile() as prof:",
}
JIT_ATTRIBUTES: dict[str, str] = {
    "script": "@ag.jit above the function",
    "trace": "@ag.jit above the function: its first calls are traced",
}
#: The same of options of optimizers, which would be set in vain.
OPTIMIZER_OPTIONS: dict[str, str] = {
    name: f'optimizer.param_groups[0]["{option}"]'
    for name, option in {"lr": "lr", "learning_rate": "lr", "weight_decay": "weight_decay"}.items()
}


@final
class _Elsewhere:
    """An attribute that is not there: `hasattr` is False, and the AttributeError says what to write.

    An object with a dict may be given one of that name.
    """

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, instance: object, owner: type) -> Any:
        raise _missing(owner, self._name, self._instead)


@final
class _ElsewhereAlways:
    """As `_Elsewhere`, and an attribute of that name cannot be set either, as where objects have no dict."""

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, instance: object, owner: type) -> Any:
        raise _missing(owner, self._name, self._instead)

    def __set__(self, instance: object, value: object) -> None:
        raise _missing(type(instance), self._name, self._instead)


def _missing(owner: type, name: str, instead: str) -> AttributeError:
    # With a name and no object, Python adds no guess of its own.
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}: write {instead}", name=name)


def hint_at(cls: type, attributes: Mapping[str, str], *, is_never_set: bool = False) -> None:
    """Let a class say what to write instead of attributes that it does not have, and let `dir` leave them out.

    Args:
        cls: the class.
        attributes: what to write, by their names.
        is_never_set: whether its objects may not have an attribute of such a name either.

    Raises:
        ValueError: it has one of them.
    """
    if found := [name for name in attributes if hasattr(cls, name)]:
        raise ValueError(f"{cls.__name__} has {', '.join(found)}: take that out of the hints")
    kind = _Elsewhere if cls.__dictoffset__ and not is_never_set else _ElsewhereAlways
    for name, instead in attributes.items():
        setattr(cls, name, kind(name, instead))

    def __dir__(self: object) -> list[str]:  # noqa: N807
        return [name for name in object.__dir__(self) if name not in attributes or hasattr(self, name)]

    setattr(cls, "__dir__", __dir__)  # noqa: B010
