"""PyTorch's own samples of its functions and modules: values, dtypes and gradients are its, but for what is listed.

They are part of PyTorch's wheel, which makes them from a seed. A sample that differs for a reason that is given in
docs/pytorch-names.md is left out by `REASONS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from tests.support.pytorch_samples import MODULES as _MODULES
from tests.support.pytorch_samples import OPERATIONS as _FUNCTIONS
from tests.support.pytorch_samples import converted, databases, leaf_of, mapped, outputs_of

#: PyTorch's functions by our names.
FUNCTIONS = [
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "avg_pool1d"),
    *("avg_pool2d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "conv1d"),
    *("conv2d", "conv_transpose1d", "conv_transpose2d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy"),
    *("elu", "embedding", "gaussian_nll_loss", "gelu", "glu", "group_norm", "hardshrink", "hardsigmoid", "hardswish"),
    *("hardtanh", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss"),
    *("layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d"),
    *("max_pool2d", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"),
    *("nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "poisson_nll_loss", "prelu", "relu", "relu6"),
    *("rms_norm", "scaled_dot_product_attention", "selu", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax"),
    *("softmin", "softplus", "softshrink", "softsign", "tanhshrink", "threshold", "triplet_margin_loss"),
    *("adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "channel_shuffle", "conv3d", "conv_transpose3d"),
    *("fractional_max_pool2d", "fractional_max_pool3d", "local_response_norm", "max_pool3d", "max_unpool1d"),
    *("max_unpool2d", "max_unpool3d", "pixel_shuffle", "pixel_unshuffle", "unfold", "fold", "lp_pool1d"),
    *("embedding_bag", "grid_sample", "bilinear", "topk", "kthvalue", "cummax", "cummin", "scatter_reduce"),
    "multi_head_attention_forward",
]
MODULES = [
    *("AvgPool1d", "BCELoss", "BatchNorm1d", "BatchNorm2d", "Bilinear", "Conv1d", "Conv2d", "ConvTranspose1d"),
    *("CrossEntropyLoss", "Embedding", "GRU", "GRUCell", "GaussianNLLLoss", "GroupNorm", "InstanceNorm1d", "LSTM"),
    *("LayerNorm", "Linear", "MaxPool2d", "MultiLabelSoftMarginLoss", "MultiheadAttention", "NLLLoss", "PReLU", "RNN"),
    *("RNNCell", "SmoothL1Loss", "Softmax", "TransformerDecoderLayer", "TransformerEncoderLayer"),
    *("AdaptiveAvgPool3d", "AdaptiveMaxPool3d", "AvgPool3d", "BatchNorm3d", "CircularPad1d", "CircularPad2d"),
    *("CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Conv3d", "ConvTranspose3d"),
    *("FractionalMaxPool2d", "FractionalMaxPool3d", "InstanceNorm3d", "LPPool1d", "LPPool2d", "LPPool3d"),
    *("LocalResponseNorm", "MaxPool3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d"),
    *("ReplicationPad2d", "ReplicationPad3d", "Transformer", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"),
]
#: What is left out of a function's samples, by what a sample is called with.
REASONS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], bool]] = {
    # Without an axis of channels PyTorch reads a length beyond the end of the shape.
    "batch_norm": lambda args, options: args[0].ndim < 2,
    # Dropout draws its own numbers.
    "scaled_dot_product_attention": lambda args, options: bool(options.get("dropout_p")),
    "multi_head_attention_forward": lambda args, options: bool(args[10]) and options.get("training", True),
    # Its exponential overflows in float16.
    "soft_margin_loss": lambda args, options: args[0].element_size() == 2,
    # Its gradient of float16 is rounded where that of a norm of order 1/2 or -1 has no digits.
    "normalize": lambda args, options: args[0].element_size() == 2,
    "poisson_nll_loss": lambda args, options: args[0].element_size() == 2,
    # It computes between points in float16.
    "grid_sample": lambda args, options: args[0].element_size() == 2,
    # They draw where their windows are.
    "fractional_max_pool2d": lambda args, options: options.get("_random_samples") is None,
    "fractional_max_pool3d": lambda args, options: options.get("_random_samples") is None,
}
#: That of float64 is for the sixth that is hardsigmoid's slope, which has single precision in PyTorch.
TOLERANCES = {np.dtype(np.float16): 5e-3, np.dtype(np.float32): 3e-5, np.dtype(np.float64): 3e-8}


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    with databases() as found:
        yield found


def close(ours: Any, theirs: Any) -> None:
    """Assert that two tensors have one dtype and nearly the same elements."""
    array, expected = ours.detach().numpy(), theirs.detach().numpy()
    assert array.dtype == expected.dtype
    tolerance = TOLERANCES.get(expected.dtype, 0.0)
    finite = expected[np.isfinite(expected)].astype(np.float64)
    size = max(1.0, float(abs(finite).max(initial=0)))
    np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance * size)


def check(torch: Any, ours: Any, theirs: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Assert that two functions, or modules, have the same results and gradients."""
    args, options = mapped((args, options), leaf_of)
    leaves: list[tuple[Any, Any]] = []
    found = outputs_of(ours(*converted(args, leaves), **converted(options, leaves)))
    expected = outputs_of(theirs(*args, **options))
    assert len(found) == len(expected)
    for result, other in zip(found, expected, strict=True):
        close(result, other)
    pairs = [(result, other) for result, other in zip(found, expected, strict=True) if other.requires_grad]
    if not pairs:
        return
    rng = np.random.default_rng(0)
    cotangents = [np.asarray(rng.standard_normal(one.shape)).astype(one.dtype) for one, _ in pairs]
    torch.autograd.backward([one for _, one in pairs], [torch.tensor(one) for one in cotangents])
    sync.backward([one for one, _ in pairs], [ag.tensor(one) for one in cotangents])
    for peer, leaf in leaves:
        if peer.requires_grad and (peer.grad is not None or leaf.grad is not None):
            close(
                ag.tensor(np.zeros(leaf.shape, leaf.dtype)) if leaf.grad is None else leaf.grad,
                torch.zeros_like(peer) if peer.grad is None else peer.grad,
            )


def renamed(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a function of PyTorch's by our names."""
    ours = {"dim": "axis", "keepdim": "keepdims"}
    left_out = {"sparse"} if name == "embedding" else {"_stacklevel"}
    found = {ours.get(one, one): value for one, value in options.items() if one not in left_out}
    if "dtype" in found:
        found["dtype"] = np.dtype(str(found["dtype"]).removeprefix("torch."))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples_of_a_function_have_pytorchs_results_and_gradients(torch: Any, name: str, kind: str) -> None:
    ours, dtype = getattr(nn, name), getattr(torch, kind)

    def call(*args: Any, **options: Any) -> Any:
        args = (args[1], args[0], *args[2:]) if name.startswith("embedding") else args
        return ours(*args, **renamed(name, options))

    # Tensor.unfold is another function.
    names = (f"nn.functional.{name}", *(() if name == "unfold" else (name,)))
    entries = [one for one in sys.modules[_FUNCTIONS].op_db if one.name in names and one.supports_dtype(dtype, "cpu")]
    torch.manual_seed(0)
    # Making them takes most of the time: of narrow numbers there are the first ones alone.
    end, step = (None, 1) if kind == "float64" else (30, 3)
    for entry in entries:
        given = entry.sample_inputs("cpu", dtype, requires_grad=entry.supports_autograd)
        samples = list(islice(given, 0, end, step))
        for sample in samples[:: 1 + len(samples) // 40]:
            args, options = (sample.input, *sample.args), dict(sample.kwargs)
            if name not in REASONS or not REASONS[name](args, options):
                check(torch, call, entry.op, args, options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # roots and powers of negative numbers, in LPPool
@pytest.mark.parametrize("name", MODULES)
def test_samples_of_a_module_have_pytorchs_results_gradients_and_state(torch: Any, name: str) -> None:
    (entry,) = [one for one in sys.modules[_MODULES].module_db if one.module_cls.__name__ == name]
    torch.manual_seed(0)
    for training in (True, False):
        options = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": training}
        samples = list(entry.module_inputs_func(entry, **options))
        for sample in samples[:: 1 + len(samples) // 8]:
            given, called = sample.constructor_input, sample.forward_input
            made = {one: value for one, value in given.kwargs.items() if one not in ("device", "dtype")}
            if called is None or any(callable(one) for one in (*given.args, *made.values())):
                continue
            theirs = entry.module_cls(*given.args, **made).double().train(training)
            ours = getattr(nn, name)(*converted(given.args, []), **converted(made, [])).train(training)
            ours.load_state_dict({one: value.numpy().copy() for one, value in theirs.state_dict().items()})
            check(torch, ours, theirs, called.args, called.kwargs)
            for one, value in theirs.state_dict().items():
                np.testing.assert_allclose(ours.state_dict()[one].numpy(), value.numpy(), rtol=1e-9, atol=1e-12)
            for (_, parameter), (_, peer) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
                if parameter.grad is not None and peer.grad is not None:
                    close(parameter.grad, peer.grad)
