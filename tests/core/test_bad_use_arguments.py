"""What arguments get that are of another kind than they should be: an error that names them and what to write."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, DeviceError, GradientTypeError
from asyncgrad.extend import primitive
from tests.support.elsewhere import ELSEWHERE
from tests.support.functions import function
from tests.support.leaves import leaf
from tests.support.loops import one_loop
from tests.support.refusals import refused


class Nothing:
    """Neither a number nor a truth value, and with one name in every process."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = Nothing()

# Making tensors.


@pytest.mark.parametrize(
    "make",
    [
        lambda: ag.Tensor([1.0, 2.0]),
        lambda: ag.Tensor(),
        lambda: ag.Tensor(3),
        lambda: ag.Tensor(np.ones(2), requires_grad=True),
        lambda: ag.Tensor(ag.tensor([1.0])),
        lambda: ag.Tensor([1.0], device="cpu", dtype=float),
    ],
)
def test_calling_the_class_makes_no_tensor_and_names_what_does(make):
    with refused(ArgumentTypeError, TypeError, "Tensor(...)", "write ag.tensor(data)", "ag.asarray(data)"):
        make()


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ([[1.0], [1.0, 2.0]], ["data[0] is of shape (1,)", "data[1] is of shape (2,)"]),
        ([1.0, [2.0]], ["data[0] is no sequence", "data[1] is of shape (1,)"]),
        ([[1.0], 2.0], ["data[1] is no sequence"]),
        ([[[1.0], [2.0]], [[1.0], [2.0, 3.0]]], ["data[1][0] is of shape (1,)", "data[1][1] is of shape (2,)"]),
        (([1, 2], (3, 4), [5]), ["data[0] is of shape (2,)", "data[2] is of shape (1,)"]),
        ([np.ones(2), np.ones(3)], ["data[1] is of shape (3,)"]),
        ([ag.tensor([1.0]), ag.tensor([1.0, 2.0])], ["data[1] is of shape (2,)"]),
        ([[], [1.0]], ["data[0] is of shape (0,)"]),
    ],
)
@pytest.mark.parametrize("make", [ag.tensor, ag.asarray])
def test_ragged_sequences_are_called_that_and_the_place_is_named(make, data, parts):
    with refused(ArgumentError, ValueError, "ragged", *parts, "pad the shorter ones"):
        make(data)


def test_a_value_error_of_numpy_that_is_about_something_else_is_left_as_it_is():
    with pytest.raises(ValueError, match="could not convert string to float"):
        ag.tensor(["a", "b"], dtype=float)


@pytest.mark.parametrize(
    "data", [None, NOTHING, {}, {1}, "abc", b"a", [None], float, np.zeros(2, [("a", int)]), (n for n in range(3))]
)
@pytest.mark.parametrize("make", [ag.tensor, ag.asarray])
def test_what_holds_no_numbers_is_no_data_of_a_tensor(make, data):
    with refused(ArgumentTypeError, TypeError, "a tensor holds numbers", "pass numbers"):
        make(data)


# Truth values.


async def sleepy() -> None:
    """Do nothing."""


def run_grad(**options: Any) -> Any:
    x = leaf(1.0, 2.0)
    return sync.grad((x * x).sum(), [x], **options)


def square_sum(x: Any) -> Any:
    return (x * x).sum()


#: By the name of the argument that is a truth value: calls that are given one.


def attended(**flags: Any) -> Any:
    """Return what two places with one head attend to, by weights together and apart."""
    places, weight, bias = np.ones((2, 1, 2)), np.ones((6, 2)), np.ones(2)
    head = (2, 1, weight, None, None, None, False, 0.0, weight[:2], bias)
    apart = dict.fromkeys(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weight[:2])
    return nn.multi_head_attention_forward(places, places, places, *head, **apart, **flags)


FLAGS: dict[str, list[Any]] = {
    "requires_grad": [
        lambda flag: ag.tensor([1.0], requires_grad=flag),
        lambda flag: ag.asarray([1.0], requires_grad=flag),
        lambda flag: ag.asarray(ag.tensor([1.0]), requires_grad=flag),
        lambda flag: ag.tensor([1.0]).requires_grad_(flag),
        lambda flag: setattr(ag.tensor([1.0]), "requires_grad", flag),
    ],
    "retain_graph": [
        lambda flag: sync.backward(square_sum(leaf(1.0)), retain_graph=flag),
        lambda flag: ag.run(square_sum(leaf(1.0)).backward(retain_graph=flag)),
        lambda flag: run_grad(retain_graph=flag),
    ],
    "create_graph": [
        lambda flag: run_grad(create_graph=flag),
        lambda flag: sync.value_and_grad(square_sum, create_graph=flag),
        lambda flag: ag.value_and_grad(square_sum, create_graph=flag),
        *(
            lambda flag, transform=transform: transform(square_sum, leaf(1.0), create_graph=flag)
            for transform in (sync.vjp, sync.jvp, sync.vhp, sync.hvp, sync.jacobian, sync.hessian)
        ),
    ],
    "strict": [
        lambda flag, transform=transform: transform(square_sum, leaf(1.0), strict=flag)
        for transform in (sync.vjp, sync.jvp, sync.vhp, sync.hvp, sync.jacobian, sync.hessian)
    ],
    "allow_unused": [lambda flag: run_grad(allow_unused=flag)],
    "materialize_grads": [lambda flag: run_grad(materialize_grads=flag)],
    "check_nan": [lambda flag: ag.detect_anomaly(flag), lambda flag: ag.detect_anomaly(check_nan=flag)],
    "fold": [lambda flag: ag.visualize(leaf(1.0) * 2.0, format="dot", fold=flag)],
    "whole_process": [lambda flag: ag.profile(whole_process=flag)],
    "mode": [lambda flag: ag.set_grad_enabled(flag).__call__(square_sum)],
    "enabled": [lambda flag: ag.graph.replay_views(flag)],
    "non_blocking": [lambda flag: leaf(1.0).to("thread:0", non_blocking=flag)],
    "overlap": [lambda flag: leaf(1.0).register_post_accumulate_grad_hook(print, overlap=flag)],
    "use_reentrant": [
        lambda flag: ag.checkpoint(np.sin, leaf(1.0), use_reentrant=flag),
        lambda flag: ag.checkpoint(use_reentrant=flag),
        lambda flag: ag.checkpoint_sequential([np.sin, np.cos], 2, leaf(1.0), use_reentrant=flag),
    ],
    "preserve_rng": [
        lambda flag: ag.checkpoint(np.sin, leaf(1.0), preserve_rng=flag),
        lambda flag: ag.checkpoint_sequential([np.sin, np.cos], 2, leaf(1.0), preserve_rng=flag),
        lambda flag: ag.checkpoint_chain([np.sin, np.cos], leaf(1.0), preserve_rng=flag),
    ],
    "debug": [
        lambda flag: ag.testing.explore(sleepy, seeds=1, debug=flag),
        lambda flag: ag.testing.run_with_seed(sleepy, 1, debug=flag),
        lambda flag: ag.run(sleepy(), debug=flag),
        lambda flag: ag.checkpoint(np.sin, leaf(1.0), use_reentrant=False, debug=flag),
    ],
    "early_stop": [lambda flag: ag.checkpoint(np.sin, leaf(1.0), use_reentrant=False, early_stop=flag)],
    "set_materialize_grads": [
        lambda flag: function(lambda ctx, x: (ctx.set_materialize_grads(flag), x * 1)[1]).apply(leaf(1.0))  # type: ignore[attr-defined]
    ],
    "nesterov": [
        lambda flag: optim.SGD([leaf(1.0)], momentum=0.5, nesterov=flag),
        lambda flag: optim.SGD([{"params": [leaf(1.0)], "nesterov": flag}], momentum=0.5),
    ],
    "amsgrad": [
        lambda flag: optim.Adam([leaf(1.0)], amsgrad=flag),
        lambda flag: optim.AdamW([leaf(1.0)], amsgrad=flag),
    ],
    "decoupled_weight_decay": [lambda flag: optim.Adam([leaf(1.0)], decoupled_weight_decay=flag)],
    "centered": [lambda flag: optim.RMSprop([leaf(1.0)], centered=flag)],
    "maximize": [
        lambda flag: optim.SGD([leaf(1.0)], maximize=flag),
        lambda flag: optim.Lion([leaf(1.0)], maximize=flag),
    ],
    "error_if_nonfinite": [lambda flag: optim.clip_grad_norm([leaf(1.0)], 1.0, error_if_nonfinite=flag)],
    "set_to_none": [lambda flag: optim.SGD([leaf(1.0)]).zero_grad(flag)],
    "raise_exception": [
        lambda flag: sync.gradcheck(square_sum, leaf(1.0), raise_exception=flag),
        lambda flag: sync.gradgradcheck(square_sum, leaf(1.0), raise_exception=flag),
    ],
    "check_undefined_grad": [
        lambda flag: sync.gradcheck(square_sum, leaf(1.0), check_undefined_grad=flag),
        lambda flag: sync.gradgradcheck(square_sum, leaf(1.0), check_undefined_grad=flag),
    ],
    "training": [
        lambda flag: nn.dropout(np.ones(2), 0.5, rng=np.random.default_rng(0), training=flag),
        lambda flag: nn.rrelu(np.ones(2), training=flag),
        lambda flag: nn.batch_norm(np.ones((2, 3)), np.ones(3), np.ones(3), training=flag),
    ],
    "use_input_stats": [
        lambda flag: nn.instance_norm(np.ones((2, 3, 4)), np.ones(3), np.ones(3), use_input_stats=flag)
    ],
    "inplace": [
        lambda flag: nn.ReLU(inplace=flag),
        lambda flag: nn.LeakyReLU(inplace=flag),
        lambda flag: nn.Dropout(inplace=flag),
    ],
    "log_target": [
        lambda flag: nn.kl_div(np.ones(2), np.ones(2), log_target=flag),
        lambda flag: nn.KLDivLoss(log_target=flag),
    ],
    "log_input": [
        lambda flag: nn.poisson_nll_loss(np.ones(2), np.ones(2), log_input=flag),
        lambda flag: nn.PoissonNLLLoss(log_input=flag),
    ],
    "full": [
        lambda flag: nn.poisson_nll_loss(np.ones(2), np.ones(2), full=flag),
        lambda flag: nn.gaussian_nll_loss(np.ones(2), np.ones(2), 1.0, full=flag),
        lambda flag: nn.GaussianNLLLoss(full=flag),
    ],
    "swap": [
        lambda flag: nn.triplet_margin_loss(np.ones(2), np.ones(2), np.ones(2), swap=flag),
        lambda flag: nn.TripletMarginLoss(swap=flag),
    ],
    "keepdim": [lambda flag: nn.PairwiseDistance(keepdim=flag)],
    "antialias": [lambda flag: nn.interpolate(np.ones((1, 2, 3, 3)), 2, mode="bilinear", antialias=flag)],
    "recompute_scale_factor": [
        lambda flag: nn.interpolate(np.ones((1, 2, 3)), scale_factor=2.0, mode="linear", recompute_scale_factor=flag)
    ],
    "align_corners": [
        lambda flag: nn.interpolate(np.ones((1, 2, 3)), 2, mode="linear", align_corners=flag),
        lambda flag: nn.affine_grid(np.ones((1, 2, 3)), (1, 1, 2, 2), align_corners=flag),
        lambda flag: nn.grid_sample(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 2)), align_corners=flag),
    ],
    "affine": [lambda flag: nn.BatchNorm1d(2, affine=flag), lambda flag: nn.GroupNorm(1, 2, affine=flag)],
    "track_running_stats": [lambda flag: nn.InstanceNorm1d(2, track_running_stats=flag)],
    "elementwise_affine": [
        lambda flag: nn.LayerNorm(2, elementwise_affine=flag),
        lambda flag: nn.RMSNorm(2, elementwise_affine=flag),
    ],
    "batch_first": [
        lambda flag: nn.GRU(2, 2, batch_first=flag),
        lambda flag: nn.MultiheadAttention(2, 1, batch_first=flag),
    ],
    "bidirectional": [lambda flag: nn.LSTM(2, 2, bidirectional=flag)],
    "norm_first": [lambda flag: nn.TransformerEncoderLayer(2, 1, 2, norm_first=flag)],
    "add_bias_kv": [lambda flag: nn.MultiheadAttention(2, 1, add_bias_kv=flag)],
    "add_zero_attn": [lambda flag: nn.MultiheadAttention(2, 1, add_zero_attn=flag)],
    "is_causal": [lambda flag: nn.scaled_dot_product_attention(*np.ones((3, 2, 2)), is_causal=flag)],  # type: ignore[call-overload]
    "ceil_mode": [
        lambda flag: nn.max_pool2d(np.ones((1, 2, 2)), 1, ceil_mode=flag),
        lambda flag: nn.avg_pool2d(np.ones((1, 2, 2)), 1, ceil_mode=flag),
    ],
    "bias": [
        lambda flag: nn.Linear(2, 2, bias=flag),
        lambda flag: nn.Bilinear(2, 2, 2, bias=flag),
        lambda flag: nn.Conv1d(2, 2, 1, bias=flag),
        lambda flag: nn.BatchNorm1d(2, bias=flag),
        lambda flag: nn.RNN(2, 2, bias=flag),
        lambda flag: nn.LSTMCell(2, 2, bias=flag),
        lambda flag: nn.MultiheadAttention(2, 1, bias=flag),
    ],
    "return_indices": [
        lambda flag: nn.max_pool2d(np.ones((1, 2, 2)), 1, return_indices=flag),
        lambda flag: nn.adaptive_max_pool1d(np.ones((1, 3)), 2, return_indices=flag),
    ],
    "enable_nested_tensor": [lambda flag: nn.TransformerEncoder(nn.Identity(), 1, enable_nested_tensor=flag)],
    "mask_check": [lambda flag: nn.TransformerEncoder(nn.Identity(), 1, mask_check=flag)],
    "use_trivialization": [
        lambda flag: nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), use_trivialization=flag),
    ],
    "scale_grad_by_freq": [
        lambda flag: nn.embedding(np.zeros(1, int), np.ones((1, 1)), scale_grad_by_freq=flag),
        lambda flag: nn.embedding_bag(np.zeros((1, 1), int), np.ones((1, 1)), scale_grad_by_freq=flag),
    ],
    "sparse": [
        lambda flag: nn.embedding(np.zeros(1, int), np.ones((1, 1)), sparse=flag),
        lambda flag: nn.Embedding(2, 2, sparse=flag),
        lambda flag: nn.embedding_bag(np.zeros((1, 1), int), np.ones((1, 1)), sparse=flag),
        lambda flag: nn.embedding_bag(np.zeros((1, 1), int), np.ones((1, 1)), scale_grad_by_freq=True, sparse=flag),
        lambda flag: nn.EmbeddingBag(2, 2, sparse=flag),
    ],
    "include_last_offset": [
        lambda flag: nn.embedding_bag(np.zeros(1, int), np.ones((1, 1)), np.zeros(1, int), include_last_offset=flag),
        lambda flag: nn.EmbeddingBag(2, 2, include_last_offset=flag),
    ],
    "zero_infinity": [
        lambda flag: nn.ctc_loss(np.zeros((1, 2)), np.ones(1, int), [1], [1], zero_infinity=flag),
        lambda flag: nn.CTCLoss(zero_infinity=flag),
    ],
    "hard": [lambda flag: nn.gumbel_softmax(np.ones((1, 2)), hard=flag)],
    "enable_gqa": [
        lambda flag: nn.scaled_dot_product_attention(*np.ones((3, 1, 2, 2)), enable_gqa=flag)  # type: ignore[call-overload]
    ],
    "largest": [lambda flag: nn.topk(np.ones(2), 1, largest=flag)],
    "sorted": [lambda flag: nn.topk(np.ones(2), 1, sorted=flag)],
    "include_self": [
        lambda flag: nn.scatter_reduce(np.ones(2), 0, np.zeros(1, int), np.ones(1), "sum", include_self=flag),
    ],
    "head_bias": [lambda flag: nn.AdaptiveLogSoftmaxWithLoss(4, 4, [2], head_bias=flag)],
    "need_weights": [
        lambda flag: nn.MultiheadAttention(2, 1)(*np.ones((3, 2, 2)), need_weights=flag),
        lambda flag: attended(need_weights=flag),
    ],
    "average_attn_weights": [
        lambda flag: nn.MultiheadAttention(2, 1)(*np.ones((3, 2, 2)), average_attn_weights=flag),
        lambda flag: attended(average_attn_weights=flag),
    ],
    "use_separate_proj_weight": [lambda flag: attended(use_separate_proj_weight=flag)],
    "count_include_pad": [lambda flag: nn.avg_pool2d(np.ones((1, 2, 2)), 1, count_include_pad=flag)],
}
CALLS = [pytest.param(name, call, id=f"{name} {index}") for name in FLAGS for index, call in enumerate(FLAGS[name])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_what_only_has_a_truth_value_is_refused_for_one(name, call):
    for wrong in ("false", "", "no", 2, -1, 1.0, [], [False], NOTHING, np.ones(2)):
        with refused(ArgumentTypeError, TypeError, name, "True or False", type(wrong).__name__):
            call(wrong)


def test_a_batch_of_gradients_is_asked_for_by_a_truth_value():
    with refused(ArgumentTypeError, TypeError, "is_grads_batched", "True or False", "str 'false'"):
        run_grad(grad_outputs=np.ones(3), is_grads_batched="false")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_true_and_false_are_taken_from_numpy_and_as_1_and_0_too(name, call):
    for flag in (True, False, np.True_, np.False_, 1, 0):
        call(flag)


def public_flags() -> set[str]:
    """The names of all parameters of public functions that are annotated as truth values."""
    facades = (ag, ag.graph, ag.engine, ag.testing, nn, optim, ag.Tensor)
    spaces = [{name: getattr(space, name) for name in dir(space) if hasattr(space, name)} for space in facades]
    functions = {
        id(value): value
        for space in spaces
        for name, value in space.items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "").startswith("asyncgrad")
    }
    return {
        name
        for value in functions.values()
        if not (inspect.isclass(value) and issubclass(value, BaseException))
        for name, parameter in _parameters(value).items()
        if parameter.annotation in ("bool", "bool | None")
    }


def _parameters(value: Any) -> Any:
    try:
        return inspect.signature(value).parameters
    except ValueError:
        return {}


def test_every_truth_value_of_a_public_function_is_tested_or_is_numpys_or_the_engines():
    of_numpy = {"copy", "keepdims", "stable", "subok"}
    of_the_engine = {"accumulate", "exit_on_error", "is_value", "is_volatile", "keep_graph"}

    assert public_flags() - set(FLAGS) - of_numpy - of_the_engine == {"is_grads_batched", "needed"}


# Functions.

TRANSFORMS = ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian", "gradcheck", "gradgradcheck"]


@one_loop
@pytest.mark.parametrize(
    "wrong", [1, None, "a", [], np.ones(2), ag.tensor([1.0])], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.parametrize("name", [*TRANSFORMS, "value_and_grad"])
async def test_a_transform_of_what_cannot_be_called_says_so(name, wrong):
    parts = [f"{name} takes a function as its first argument", type(wrong).__name__, "(fn, ...)"]
    arguments = () if name == "value_and_grad" else (leaf(1.0),)

    with refused(ArgumentTypeError, TypeError, *parts):
        getattr(sync, name)(wrong, *arguments)
    if name == "value_and_grad":
        with refused(ArgumentTypeError, TypeError, *parts):
            ag.value_and_grad(wrong)
    else:
        with refused(ArgumentTypeError, TypeError, *parts):
            await getattr(ag, name)(wrong, leaf(1.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: ag.grad(f),  # type: ignore[call-arg]
        lambda f, x: ag.grad(f)(x),  # type: ignore[call-arg, operator]
        lambda f, x: ag.grad(outputs=f, inputs=x),
        lambda f, x: sync.grad(f),  # type: ignore[call-arg]
        lambda f, x: sync.grad(f, x),
        lambda f, x: sync.grad([f], x),
        lambda f, x: sync.backward(f),
        lambda f, x: ag.run(ag.backward(f)),
    ],
)
def test_a_function_in_place_of_a_tensor_says_how_to_differentiate_it(call):
    with refused(GradientTypeError, TypeError, "not the function square_sum", "call it", "ag.func.grad(f)"):
        call(square_sum, leaf(1.0))


def test_an_awaitable_in_place_of_a_tensor_is_to_be_awaited_first():
    async def loss(x):
        return square_sum(x)

    with refused(GradientTypeError, TypeError, "not coroutine", "await it first"):
        sync.backward(loss(leaf(1.0)))


def test_a_node_in_place_of_a_tensor_is_to_be_an_edge():
    with refused(GradientTypeError, TypeError, "root 0", "ag.graph.GradientEdge(node, 0)"):
        sync.backward(square_sum(leaf(1.0)).grad_fn)


@pytest.mark.parametrize("name", [*TRANSFORMS, "value_and_grad"])
def test_a_transform_of_a_tensor_that_has_been_computed_says_what_its_gradients_are(name):
    x = leaf(1.0)
    arguments = () if name == "value_and_grad" else (x,)

    with refused(ArgumentTypeError, TypeError, "ag.grad(outputs, inputs)"):
        getattr(sync, name)(square_sum(x), *arguments)


@pytest.mark.parametrize("transform", [sync.func.grad, sync.func.jacrev, sync.func.hessian, sync.value_and_grad])
@pytest.mark.parametrize("given", [leaf(1.0), np.ones(2), 1.5], ids=["tensor", "array", "number"])
def test_a_transform_that_is_given_the_arguments_of_the_function_says_where_they_belong(transform, given):
    with refused(ArgumentTypeError, TypeError, "argnums", "ag.func.grad(f)(x)"):
        transform(square_sum, given)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_whose_arguments_have_changed_places_says_so(name):
    with refused(ArgumentTypeError, TypeError, f"{name} takes a function", "arguments are swapped", f"{name}(fn, ...)"):
        getattr(sync, name)(leaf(1.0), square_sum)


@pytest.mark.parametrize("name", [*TRANSFORMS, "value_and_grad"])
def test_a_transform_of_a_function_that_was_called_already_says_so(name):
    async def loss(x: Any) -> Any:
        return square_sum(x)

    arguments = () if name == "value_and_grad" else (leaf(1.0),)
    with refused(ArgumentTypeError, TypeError, "coroutine", "the function itself, without calling it"):
        getattr(sync, name)(loss(leaf(1.0)), *arguments)


# Numbers.


@pytest.mark.parametrize("setting", [ag.workers, ag.loop_budget, ag.offload_threshold])
@pytest.mark.parametrize("wrong", ["1", "a", b"1", True, np.True_, None, -1, math.nan, [], NOTHING, 1j], ids=repr)
def test_a_setting_takes_a_number_only(setting, wrong):
    with refused(ArgumentError, ValueError, f"ag.{setting.__name__}(", "give a"):
        setting(wrong)


OPTIMIZERS = {
    optim.SGD: ["lr", "momentum", "dampening", "weight_decay"],
    optim.Adam: ["lr", "eps", "weight_decay"],
    optim.AdamW: ["lr", "eps", "weight_decay"],
}
OPTIONS = [(kind, name) for kind, names in OPTIMIZERS.items() for name in names]


@pytest.mark.parametrize("wrong", ["a", "0.1", None, [], [0.1, 0.2], NOTHING, True, 1j, np.ones(2)], ids=repr)
@pytest.mark.parametrize(("kind", "name"), OPTIONS)
def test_an_option_of_an_optimizer_that_is_no_number_is_named(kind, name, wrong):
    parts = [f"{name} must be a number", type(wrong).__name__]

    with refused(ArgumentTypeError, TypeError, *parts):
        kind([leaf(1.0)], **{name: wrong})
    with refused(ArgumentTypeError, TypeError, *parts):
        kind([{"params": leaf(1.0), name: wrong}])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 10**400], ids=["nan", "inf", "-inf", "large"])
@pytest.mark.parametrize(("kind", "name"), OPTIONS)
def test_an_option_of_an_optimizer_is_finite(kind, name, wrong):
    with refused(ArgumentError, ValueError, f"{name} must be a finite number"):
        kind([leaf(1.0)], **{name: wrong})


@pytest.mark.parametrize("number", [np.float32(0.5), np.array(0.5), ag.tensor(0.5), 1], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize(("kind", "name"), OPTIONS)
def test_an_option_of_an_optimizer_may_be_any_number(kind, name, number):
    kind([leaf(1.0)], **{name: number})


@pytest.mark.parametrize("wrong", [0.9, "ab", None, (0.9,), (0.9, 0.9, 0.9), {0.5, 0.9}], ids=repr)
def test_betas_are_two_numbers(wrong):
    with refused(ArgumentError, ValueError, "betas must be two numbers", "(0.9, 0.999)"):
        optim.Adam([leaf(1.0)], betas=wrong)


@pytest.mark.parametrize("wrong", [("a", 0.9), (None, 0.9), (0.9, [])], ids=repr)
def test_each_beta_is_a_number(wrong):
    with refused(ArgumentTypeError, TypeError, "betas must be a number"):
        optim.Adam([leaf(1.0)], betas=wrong)


@pytest.mark.parametrize("wrong", [3, None, "ab", leaf(1.0)], ids=lambda wrong: type(wrong).__name__)
def test_the_parameters_of_an_optimizer_are_a_sequence_or_a_tree_of_tensors(wrong):
    with refused(ArgumentTypeError, TypeError, "param"):
        optim.SGD(wrong)


@pytest.mark.parametrize("wrong", [3, None, "ab"], ids=lambda wrong: type(wrong).__name__)
def test_the_parameters_of_a_group_are_tensors(wrong):
    with refused(ArgumentTypeError, TypeError, "'params'", type(wrong).__name__):
        optim.SGD([{"params": wrong}])


@pytest.mark.parametrize("wrong", [1.0, None, np.ones(2), NOTHING], ids=lambda wrong: type(wrong).__name__)
def test_a_parameter_that_is_no_tensor_is_named_by_its_place(wrong):
    with refused(ArgumentTypeError, TypeError, "parameter 1 of group 0", type(wrong).__name__):
        optim.SGD([leaf(1.0), wrong])
    with refused(ArgumentTypeError, TypeError, "params['w'][1] must be a Tensor, not float"):
        optim.SGD({"w": [leaf(1.0), 1.0]})


def test_an_optimizer_needs_a_parameter_that_requires_grad_and_takes_frozen_ones_beside_it():
    frozen = ag.tensor([1.0])

    optim.SGD([frozen, leaf(1.0)])
    with refused(ArgumentError, ValueError, "no parameter of this SGD requires grad", "requires_grad=True"):
        optim.SGD([frozen])


@pytest.mark.parametrize("wrong", [None, "a", {}, [], {"state": {}}], ids=repr)
def test_the_state_of_an_optimizer_is_what_state_dict_returns(wrong):
    with refused(ArgumentTypeError, TypeError, "state_dict()"):
        optim.SGD([leaf(1.0)]).load_state_dict(wrong)


def test_a_device_of_ones_own_is_one_for_the_class_too():
    assert ag.Tensor(np.ones(2), None, 0, ELSEWHERE).device is ELSEWHERE


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"state": None, "param_groups": []}, "'state' must be a dict, not"),
        ({"state": {}, "param_groups": 3}, "'param_groups' must be a list, not"),
    ],
)
def test_the_parts_of_a_state_are_what_state_dict_returns(wrong, words):
    with refused(ArgumentTypeError, TypeError, words):
        optim.SGD([leaf(1.0)]).load_state_dict(wrong)


@pytest.mark.parametrize("name", ["eps", "atol", "rtol", "nondet_tol"])
@pytest.mark.parametrize("check", [sync.gradcheck, sync.gradgradcheck])
@pytest.mark.parametrize(
    ("wrong", "error", "built_in"),
    [
        ("a", ArgumentTypeError, TypeError),
        (None, ArgumentTypeError, TypeError),
        (np.ones(3), ArgumentTypeError, TypeError),
        (math.nan, ArgumentError, ValueError),
    ],
    ids=["str", "None", "three", "nan"],
)
def test_a_tolerance_is_a_number(check, name, wrong, error, built_in):
    with refused(error, built_in, f"{name} must be a"):
        check(square_sum, leaf(1.0), **{name: wrong})


# Whatever else has a kind of its own.

OTHERS: dict[str, Any] = {
    "a tensor": ag.graph.get_gradient_edge,
    "marks a backward": ag.once_differentiable,
    "takes a primitive": lambda wrong: ag.extend.derivative(wrong, "x"),
    "a sequence of edges": ag.graph.Node,
    "one of InputMetadata": lambda wrong: ag.graph.Node([], wrong),
    "ahead of saved_tensors_hooks must be an int": lambda wrong: ag.graph.saved_tensors_hooks(id, id, ahead=wrong),
    "seeds must be an int": lambda wrong: ag.testing.explore(sleepy, seeds=wrong),
    "first_seed must be an int": lambda wrong: ag.testing.explore(sleepy, seeds=1, first_seed=wrong),
    "seed must be an int": lambda wrong: ag.testing.run_with_seed(sleepy, wrong),
}


@pytest.mark.parametrize("wrong", [None, 1.5, NOTHING], ids=repr)
@pytest.mark.parametrize(("said", "call"), OTHERS.items(), ids=OTHERS)
def test_an_argument_of_another_kind_is_described(call, said, wrong):
    with refused(ArgumentTypeError, TypeError, said, type(wrong).__name__):
        call(wrong)


@pytest.mark.parametrize(
    "choose",
    [
        lambda wrong: ag.graph.register_multi_grad_hook([leaf(1.0)], print, mode=wrong),
        lambda wrong: ag.checkpoint(np.sin, leaf(1.0), use_reentrant=False, determinism_check=wrong),
        lambda wrong: ag.testing.run_with_seed(sleepy, 1, order=wrong),
    ],
)
@pytest.mark.parametrize("wrong", [None, "neither", 3, np.ones(2), [], ag.tensor([1.0, 2.0])], ids=repr)
def test_a_choice_is_one_of_those_that_are_named(choose, wrong):
    with refused(ArgumentError, ValueError, " or "):
        choose(wrong)


# What users of PyTorch write.


@pytest.mark.parametrize(
    ("name", "instead"),
    [("zeros", "write np.zeros"), ("cat", "write np.concatenate"), ("no_such_thing", "'no_such_thing'")],
)
def test_a_name_of_torch_that_the_package_has_not_is_told_with_what_to_write(name, instead):
    with pytest.raises(AttributeError, match=re.escape(instead) + "$"):
        getattr(ag, name)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("f4")])
def test_a_dtype_that_is_given_for_a_device_is_told_what_converts(dtype):
    with refused(DeviceError, RuntimeError, "To convert to a dtype, write t.astype(np.float32)"):
        ag.tensor([1.0]).to(dtype)


@pytest.mark.parametrize("wrong", ["nowhere", None, 0])
def test_what_is_neither_a_device_nor_a_dtype_is_no_device(wrong):
    with pytest.raises(DeviceError, match=r"there is no device|must be a Device"):
        ag.tensor([1.0]).to(wrong)


def test_a_blocking_form_is_named_where_its_arguments_do_not_fit():
    with pytest.raises(
        TypeError, match=r"asyncgrad\.sync\.jacobian\(\) got an unexpected keyword argument 'vectorize'"
    ):
        sync.jacobian(np.sin, ag.tensor([1.0]), vectorize=True)  # type: ignore[call-arg]


def test_a_tensordot_of_more_axes_than_there_are_says_how_many():
    with pytest.raises(ValueError, match=r"sums over 2 axes of arrays of shapes \(2,\) and \(2, 2\)"):
        np.tensordot(ag.tensor([1.0, 2.0]), np.ones((2, 2)))


def test_a_linspace_on_another_device_than_its_ends_says_where_to_move_them():
    with refused(DeviceError, RuntimeError, "linspace", "write start.to('thread:0') first"):
        np.linspace(ag.tensor(0.0), 1.0, 3, device="thread:0")  # type: ignore[call-overload]

    there = ag.tensor(0.0, device="thread:0")
    assert np.linspace(there, 1.0, 3, device=there.device).device is there.device  # type: ignore[call-overload]


def test_a_primitive_without_parentheses_says_to_write_them():
    with refused(ArgumentTypeError, TypeError, "write @primitive() above def cubed"):

        @primitive  # type: ignore[arg-type]
        def cubed(x):
            return x**3


def test_grad_is_a_coroutine_function_though_it_refuses_functions_at_once():
    assert asyncio.iscoroutinefunction(ag.grad)
    with pytest.raises(GradientTypeError, match=r"func\.grad"):
        ag.grad(np.sum)  # type: ignore[call-arg, unused-coroutine]  # that is the mistake
