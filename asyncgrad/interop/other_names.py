"""What to write for a name of PyTorch, JAX or HIPS autograd that is missing here; imported where one is asked for."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

from .. import (
    data,
    distributed,
    engine,
    extend,
    func,
    functional,
    graph,
    learn,
    nn,
    optim,
    random,
    sync,
    testing,
    tree,
    values,
)
from ..core.graph.naming import close_names
from ..nn import init as init
from ..nn import utils as utils
from ..optim import schedule as schedule
from ..sync import func as blocking

__all__ = ["ANYWHERE", "HERE", "advice_on"]

_LINALG = "asyncgrad.scipy.linalg."
_RNG = "rng = asyncgrad.numpy.random.default_rng(seed), and rng."
_SPECIAL = "asyncgrad.scipy.special."
_ITSELF = "ag.grad, ag.Function and others: asyncgrad itself has them"
_NO_FORWARD = "ag.func.jvp: there is no forward mode, and it takes two backward passes"
_BRANCH = "if and else: Python's own branches are differentiated, and ag.jit compiles them"
_LOOP = "a loop of Python's: it is differentiated, and ag.jit compiles it"
_NO_MODULE = "a function of the tree of parameters, and ag.func.grad of it"
_BATCHES = "ag.data.batches(arrays, batch_size)"
_THREADS = "threadpoolctl.threadpool_limits(n): NumPy's BLAS has the threads"
_PROCESS = "for the current context: a switch for the whole process would affect other tasks"

#: Names of torch, torch.autograd and jax that neither asyncgrad nor NumPy has.
ANYWHERE = {
    # What makes tensors.
    **dict.fromkeys(("from_numpy", "as_tensor", "from_dlpack"), "ag.asarray"),
    **dict.fromkeys(("Variable", "FloatTensor", "DoubleTensor", "LongTensor"), "ag.tensor(data, requires_grad=True)"),
    **dict.fromkeys(("Array", "ndarray", "ArrayImpl"), "ag.Tensor"),
    "is_tensor": "isinstance(x, ag.Tensor)",
    "rand": _RNG + "random(shape)",
    "rand_like": _RNG + "random(x.shape)",
    "randn": _RNG + "standard_normal(shape)",
    "randn_like": _RNG + "standard_normal(x.shape)",
    "randint": _RNG + "integers(low, high, shape)",
    "randperm": _RNG + "permutation(n)",
    "permutation": _RNG + "permutation(n)",
    "multinomial": _RNG + "choice(n, size, p=weights)",
    "categorical": _RNG + "choice(n, p=probabilities)",
    "bernoulli": _RNG + "random(shape) < p",
    "normal": _RNG + "normal(mean, std, shape)",
    "poisson": _RNG + "poisson(rates)",
    "randint_like": _RNG + "integers(low, high, x.shape)",
    "uniform": _RNG + "random(shape)",
    **dict.fromkeys(("manual_seed", "initial_seed"), "ag.random.seed"),
    **dict.fromkeys(("get_rng_state", "set_rng_state"), "rng.bit_generator.state, of a generator of NumPy's"),
    **dict.fromkeys(("PRNGKey", "key", "fold_in"), "ag.random.seed(seed), or a np.random.default_rng(seed)"),
    "Generator": "np.random.Generator",
    "complex": "real + 1j * imag",
    "polar": "r * np.exp(1j * angle)",
    "view_as_complex": "x[..., 0] + 1j * x[..., 1]",
    "view_as_real": "np.stack([x.real, x.imag], axis=-1)",
    "scalar_tensor": "ag.tensor(value)",
    "clone": "x.clone()",
    "detach": "x.detach()",
    "is_nonzero": "bool(x)",
    # dtypes.
    **dict.fromkeys(("float", "FloatType"), "np.float32"),
    "int": "np.int32",
    "bool": "np.bool_",
    "Size": "x.shape, which is a tuple",
    "cfloat": "np.complex64",
    "cdouble": "np.complex128",
    "bfloat16": "np.float32 or np.float16: NumPy has no bfloat16",
    "set_default_dtype": "with ag.default_dtype(np.float32):",
    "get_default_dtype": "with ag.default_dtype(np.float32): to choose it",
    # Mathematics.
    **dict.fromkeys(("bmm", "mm", "mv"), "np.matmul"),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), "b + x @ y"),
    "addbmm": "b + np.sum(x @ y, axis=0)",
    "addr": "b + np.outer(x, y)",
    "addcmul": "x + value * y * z",
    "addcdiv": "x + value * y / z",
    "rsub": "y - x",
    "renorm": "x * np.minimum(1, maxnorm / np.linalg.norm(x, axis=axis, keepdims=True))",
    "cat": "np.concatenate",
    "clamp": "np.clip",
    "clamp_min": "np.maximum",
    "clamp_max": "np.minimum",
    "aminmax": "np.min and np.max",
    "std_mean": "np.std and np.mean",
    "var_mean": "np.var and np.mean",
    "mode": "values, counts = np.unique(x, return_counts=True), and values[np.argmax(counts)]",
    "unique_consecutive": "x[np.concatenate([[True], x[1:] != x[:-1]])]",
    "msort": "np.sort(x, axis=0)",
    "trapz": "np.trapezoid",
    "cumulative_trapezoid": "asyncgrad.scipy.integrate.cumulative_trapezoid",
    "diag_embed": "x[..., np.newaxis] * np.eye(x.shape[-1])",
    "broadcast_tensors": "np.broadcast_arrays",
    "cartesian_prod": 'np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)',
    "combinations": "x[np.stack(np.triu_indices(len(x), 1), axis=-1)]",
    "sum_to_size": "np.sum(x, axis=axes, keepdims=True)",
    "swapdims": "np.swapaxes",
    "tensor_split": "np.array_split",
    "split_with_sizes": "np.split(x, np.cumsum(sizes)[:-1])",
    "as_strided": "x[::step], x.reshape(shape) or np.lib.stride_tricks.sliding_window_view",
    **dict.fromkeys(("index_fill", "index_put", "masked_scatter"), "y = x.copy(), and y[index] = values"),
    **dict.fromkeys(("select_scatter", "slice_scatter", "diagonal_scatter"), "y = x.copy(), and y[index] = values"),
    "index_reduce": "ag.nn.scatter_reduce, or np.maximum.at",
    "unsqueeze": "np.expand_dims, or x[:, None]",
    "permute": "np.transpose",
    "movedim": "np.moveaxis",
    "chunk": "np.array_split",
    "gather": "np.take_along_axis",
    "take_along_dim": "np.take_along_axis",
    "index_select": "np.take",
    **dict.fromkeys(("scatter", "index_copy"), "np.put_along_axis, or x[index] = values"),
    **dict.fromkeys(("scatter_add", "index_add", "segment_sum"), "np.add.at"),
    **dict.fromkeys(("masked_fill", "masked_fill_"), "np.where(mask, value, x)"),
    "masked_select": "x[mask]",
    "narrow": "x[start:start + length]",
    "select": "x[:, index]",
    "unbind": "np.unstack",
    "repeat_interleave": "np.repeat",
    "top_k": "ag.nn.topk",
    "range": "np.arange",
    "div": "np.divide",
    "mul": "np.multiply",
    "sub": "np.subtract",
    "neg": "np.negative",
    "eq": "np.equal",
    "ne": "np.not_equal",
    "lt": "np.less",
    "le": "np.less_equal",
    "gt": "np.greater",
    "ge": "np.greater_equal",
    "rsqrt": "1 / np.sqrt(x)",
    "frac": "x - np.trunc(x)",
    "lerp": "a + weight * (b - a)",
    "sgn": "np.sign",
    "dist": "np.linalg.norm(x - y)",
    "ger": "np.outer",
    "inverse": "np.linalg.inv",
    "pinverse": "np.linalg.pinv",
    "logdet": "np.linalg.slogdet(x)[1]",
    "t": "x.T",
    "adjoint": "np.conj(x.mT)",
    "numel": "x.size",
    "is_complex": "np.iscomplexobj",
    "is_floating_point": "np.issubdtype(x.dtype, np.floating)",
    "bucketize": "np.digitize",
    "histc": "np.histogram",
    "logcumsumexp": "np.logaddexp.accumulate",
    "logsumexp": _SPECIAL + "logsumexp",
    "lgamma": _SPECIAL + "gammaln",
    **{name: _SPECIAL + name for name in ("erf", "erfc", "erfinv", "digamma", "polygamma", "logit", "xlogy", "expit")},
    "igamma": _SPECIAL + "gammainc",
    "igammac": _SPECIAL + "gammaincc",
    "mvlgamma": _SPECIAL + "multigammaln",
    "matrix_exp": _LINALG + "expm",
    **{name: _LINALG + name for name in ("block_diag", "lu", "lu_factor", "lu_solve", "solve_triangular")},
    "lu_unpack": "p, l, u = asyncgrad.scipy.linalg.lu(a)",
    "triangular_solve": _LINALG + "solve_triangular(a, b)",
    "cholesky_solve": _LINALG + "cho_solve((c, lower), b)",
    "cholesky_inverse": _LINALG + "cho_solve((c, lower), np.eye(n))",
    **dict.fromkeys(("pca_lowrank", "svd_lowrank"), "np.linalg.svd, of which the first columns are taken"),
    **{name: "asyncgrad.scipy.signal." + name for name in ("stft", "istft")},
    **{
        f"{name}_window": f"np.{numpys}(n + 1)[:-1]"
        for name, numpys in (("hann", "hanning"), ("hamming", "hamming"), ("blackman", "blackman"))
    },
    "bartlett_window": "np.bartlett(n + 1)[:-1]",
    "kaiser_window": "np.kaiser(n + 1, beta)[:-1]",
    **{name: f"asyncgrad.scipy.spatial.distance.{name}" for name in ("cdist", "pdist")},
    "special": "asyncgrad.scipy.special",
    **dict.fromkeys(("distributions", "stats"), "asyncgrad.scipy.stats"),
    "sparse": "asyncgrad.scipy.sparse",
    **dict.fromkeys(("jnp", "jax"), "asyncgrad.numpy"),
    "lax": "NumPy's functions, and Python's own if, for and while",
    "cond": _BRANCH,
    **dict.fromkeys(("switch", "select_n"), _BRANCH),
    **dict.fromkeys(("scan", "fori_loop", "while_loop", "map_fn"), _LOOP),
    # Derivatives.
    "autograd": _ITSELF,
    "inference_mode": "with ag.no_grad():",
    "set_detect_anomaly": f"with ag.detect_anomaly():, {_PROCESS}",
    **dict.fromkeys(("stop_gradient", "stopgrad"), "x.detach()"),
    **dict.fromkeys(("custom_vjp", "custom_jvp", "custom_gradient"), "ag.Function, or ag.extend.primitive"),
    **dict.fromkeys(("defvjp", "defvjp_argnums"), "ag.extend.derivative"),
    **dict.fromkeys(("defjvp", "forward_ad", "dual_level", "make_dual"), _NO_FORWARD),
    "make_vjp": "ag.func.vjp(f, x)",
    **dict.fromkeys(("make_jvp", "deriv"), "ag.func.jvp(f, (x,), (v,))"),
    **dict.fromkeys(("make_hvp", "hessian_vector_product", "hessian_tensor_product"), "ag.func.hvp(f, (x,), (v,))"),
    **dict.fromkeys(("vector_jacobian_product", "tensor_jacobian_product"), "ag.func.vjp(f, x)"),
    "make_ggnvp": "ag.func.vjp, ag.func.hvp and ag.func.linearize",
    "holomorphic_grad": "ag.func.grad(f, holomorphic=True)",
    "grad_and_aux": "ag.func.grad(f, has_aux=True)",
    "grad_and_value": "ag.func.value_and_grad, which returns the value first",
    "grad_named": "ag.func.grad(f, argnums)",
    "multigrad_dict": "ag.func.grad: the gradient of a dict is a dict",
    **dict.fromkeys(("check_grads", "test_util", "gradient_check"), "ag.gradcheck"),
    **dict.fromkeys(("functional_call", "stack_module_state", "functionalize"), _NO_MODULE),
    **dict.fromkeys(("remat", "checkpoint_wrapper"), "ag.checkpoint"),
    "pmap": "ag.func.vmap, or ag.distributed.DataParallel",
    **dict.fromkeys(("tree_util", "pytree", "tree_utils"), "ag.tree"),
    **dict.fromkeys(("tree_map", "tree_multimap"), "ag.tree.map"),
    "tree_flatten": "ag.tree.flatten",
    "tree_unflatten": "ag.tree.unflatten",
    "tree_leaves": "ag.tree.leaves",
    **dict.fromkeys(("structure", "tree_structure"), "leaves, structure = ag.tree.flatten(tree)"),
    **dict.fromkeys(("ravel_pytree", "flatten_util", "parameters_to_vector"), "ag.tree.ravel"),
    **dict.fromkeys(("register_pytree_node", "register_pytree_node_class", "VSpace", "Box"), "ag.tree.register"),
    **dict.fromkeys(("compile", "script"), "ag.jit"),
    **dict.fromkeys(("make_jaxpr", "make_dot"), "ag.visualize"),
    # Devices and the process.
    **dict.fromkeys(("cuda", "gpu"), 'x.to("cuda:0"), or ag.device("cuda:0")'),
    **dict.fromkeys(("cpu", "mps", "xpu"), 'x.to("cpu"), or x.to("cuda:0") where there is a GPU'),
    "device_put": 'x.to("cuda:0")',
    "device_get": 'x.to("cpu")',
    "set_default_device": "with ag.default_device(device):",
    "block_until_ready": "await device.synchronize()",
    "Stream": "ag.device(name).stream()",
    **dict.fromkeys(("amp", "autocast", "GradScaler"), "x.astype(np.float16): there is no autocast"),
    **dict.fromkeys(("set_num_threads", "get_num_threads"), _THREADS),
    "profiler": "ag.profile",
    # Models, data and files.
    **dict.fromkeys(("save", "savez"), "nn.save_safetensors(model.state_dict(), path), or pickle"),
    "load": "nn.load_safetensors(path), or pickle",
    **{
        f"{name}_": f"ag.nn.{name}(x, inplace=True)"
        for name in ("relu", "elu", "celu", "selu", "leaky_relu", "rrelu", "hardtanh", "threshold")
    },
    "F": "ag.nn, which has the functions beside the modules",
    **dict.fromkeys(("lr_scheduler", "schedulers", "schedules"), "ag.optim.schedule"),
    **dict.fromkeys(("LRScheduler", "_LRScheduler"), "ag.optim.schedule.Schedule"),
    "clip_grad_norm_": "ag.optim.clip_grad_norm",
    "clip_grad_value_": "ag.optim.clip_grad_value",
    **dict.fromkeys(
        ("swa_utils", "AveragedModel", "EMA"), "ag.nn.utils.AveragedModel, or ag.optim.ExponentialMovingAverage"
    ),
    **dict.fromkeys(("DataLoader", "Dataset", "TensorDataset", "dataloader"), _BATCHES),
    **dict.fromkeys(
        ("adam", "adamw", "sgd", "lion", "rmsprop", "lbfgs"), "ag.optim.Adam and others, as in torch.optim"
    ),
    "initializers": "ag.nn.init",
    "swish": "ag.nn.silu",
    "CrossMapLRN2d": "ag.nn.LocalResponseNorm",
    "log_sigmoid": "ag.nn.logsigmoid",
    "hard_tanh": "ag.nn.hardtanh",
    "MLP": "ag.nn.Sequential(ag.nn.Linear(2, 8), ag.nn.ReLU(), ag.nn.Linear(8, 1))",
    "Conv": "ag.nn.Conv2d",
}
#: By a module, what to write for a name that means something else elsewhere.
HERE = {
    "asyncgrad": {
        "utils": "ag.data.batches for utils.data, and ag.checkpoint for utils.checkpoint",
        "linalg": "np.linalg",
        "fft": "np.fft",
        "seed": "ag.random.seed",
        "backends": "np.show_config(), which names the BLAS, and threadpoolctl for its threads",
        **dict.fromkeys(
            ("onnx", "hub"), "nn.save_safetensors(model.state_dict(), path): weights are saved, no programs"
        ),
        "torch": "asyncgrad.interop.torch",
    },
    "asyncgrad.nn": {
        "Dense": "ag.nn.Linear",
        "parallel": "ag.distributed.DataParallel",
        "bce_loss": "ag.nn.binary_cross_entropy",
        "bce_with_logits_loss": "ag.nn.binary_cross_entropy_with_logits",
        "ce_loss": "ag.nn.cross_entropy",
        "mae_loss": "ag.nn.l1_loss",
        "MAELoss": "ag.nn.L1Loss",
        "BCEWithLogits": "ag.nn.BCEWithLogitsLoss",
        "Attention": "ag.nn.MultiheadAttention",
        "upsample": "ag.nn.interpolate",
        "upsample_nearest": 'ag.nn.interpolate(x, size, mode="nearest")',
        "upsample_bilinear": 'ag.nn.interpolate(x, size, mode="bilinear", align_corners=True)',
        "unflatten": "x.reshape(shape), or ag.nn.Unflatten",
        "linear_cross_entropy": "ag.nn.cross_entropy(ag.nn.linear(x, weight), target)",
        "LinearCrossEntropyLoss": "ag.nn.Linear, and ag.nn.CrossEntropyLoss of what it returns",
        "NLLLoss2d": "ag.nn.NLLLoss",
        "SyncBatchNorm": "ag.nn.BatchNorm2d: each process has the statistics of its own part",
        "RNNBase": "ag.nn.RNN, ag.nn.LSTM or ag.nn.GRU",
        "RNNCellBase": "ag.nn.RNNCell, ag.nn.LSTMCell or ag.nn.GRUCell",
        "Buffer": "module.register_buffer(name, tensor)",
        **{
            f"{pooling}_pool{axes}d_with_indices": f"ag.nn.{pooling}_pool{axes}d with return_indices=True"
            for pooling in ("max", "adaptive_max", "fractional_max")
            for axes in (1, 2, 3)
            if (pooling, axes) != ("fractional_max", 1)
        },
    },
    "asyncgrad.numpy.linalg": {
        "lu": _LINALG + "lu",
        "ldl_factor": _LINALG + "ldl",
        "householder_product": "np.linalg.qr, whose q is the product",
        **{f"{name}_ex": f"np.linalg.{name}, which raises where it fails" for name in ("cholesky", "inv", "solve")},
    },
    "asyncgrad.numpy.fft": {name: "asyncgrad.scipy.fft." + name for name in ("hfft2", "hfftn", "ihfft2", "ihfftn")},
    "asyncgrad.func": {"jacobian": "ag.func.jacrev"},
    "asyncgrad.sync.func": {"jacobian": "ag.sync.func.jacrev"},
    "asyncgrad.nn.utils": {
        "data": _BATCHES,
        **{name: f"ag.nn.utils.parametrizations.{name}" for name in ("orthogonal", "spectral_norm", "weight_norm")},
        **dict.fromkeys(
            ("remove_spectral_norm", "remove_weight_norm"),
            'ag.nn.utils.parametrize.remove_parametrizations(module, "weight")',
        ),
        **dict.fromkeys(
            [f"fuse_{kind}" for kind in ("conv_bn_eval", "conv_bn_weights", "linear_bn_eval", "linear_bn_weights")],
            "ag.nn.Sequential(layer, norm), which computes the two one after the other",
        ),
        **dict.fromkeys(("clip_grads_with_norm_", "get_total_norm"), "ag.optim.clip_grad_norm, which returns the norm"),
    },
    "asyncgrad.nn.utils.parametrize": {
        "cached": "weight = module.weight where it is needed several times: each read computes it"
    },
    "asyncgrad.random": {"split": _RNG + "spawn(n)", "random": _RNG + "random(shape)"},
    "asyncgrad.tree": {"reduce": "functools.reduce(function, ag.tree.leaves(tree))"},
    "asyncgrad.optim": {
        "apply_updates": "optimizer.step()",
        "SparseAdam": "ag.optim.Adam: gradients of tensors are dense",
    },
}
#: How users write the facades, those first whose names are to be found first.
_FACADES: dict[str, ModuleType] = {
    "ag.func": func,
    # The package itself, whose facade imports this module.
    "ag": sys.modules[__name__.partition(".")[0]],
    "ag.nn": nn,
    "ag.optim": optim,
    "ag.optim.schedule": schedule,
    "ag.data": data,
    "ag.tree": tree,
    "ag.random": random,
    "ag.functional": functional,
    "ag.graph": graph,
    "ag.engine": engine,
    "ag.extend": extend,
    "ag.testing": testing,
    "ag.values": values,
    "ag.learn": learn,
    "ag.distributed": distributed,
    "ag.nn.init": init,
    "ag.nn.utils": utils,
    "ag.sync.func": blocking,
    "ag.sync": sync,
}


def advice_on(module: str, name: str, names: list[str]) -> str:
    """Return what the error for a name that a module does not have ends with: what to write; "" if nobody knows.

    Args:
        module: as `asyncgrad.nn`.
        name: what was asked for.
        names: what the module has.
    """
    known = HERE.get(module, {}).get(name) or ANYWHERE.get(name)
    known = known or " or ".join((*_of_numpy(name), *_shown_elsewhere(module, name)))
    if known:
        return f": write {known}"
    near = _near(name, names)
    return "" if near is None else f". Did you mean {_spelled(module)}.{near}?"


def _spelled(module: str) -> str:
    if module == "asyncgrad.nn.functional":
        return "ag.nn"
    return "ag" + module.removeprefix("asyncgrad")


def _shown_elsewhere(module: str, name: str) -> list[str]:
    """Return where the package has a public name, in the facade that stands first; [] if nowhere."""
    order = _FACADES
    if module.startswith("asyncgrad.sync"):
        order = {"ag.sync.func": blocking, "ag.sync": sync, **_FACADES}
    return next(([f"{spelled}.{name}"] for spelled, facade in order.items() if name in facade.__all__), [])


def _of_numpy(name: str) -> list[str]:
    """Return where NumPy has a name; [] if nowhere."""
    found = ((np, "np"), (np.linalg, "np.linalg"), (np.fft, "np.fft"))
    return next(([f"{spelled}.{name}"] for module, spelled in found if hasattr(module, name)), [])


def _near(name: str, names: list[str]) -> str | None:
    """Return the name that is most like one of other names, of which letters may be small or large."""
    public = [each for each in names if not each.startswith("_")]
    same = [each for each in public if each.lower() == name.lower()]
    return next(iter(same or close_names(name, public)), None)
