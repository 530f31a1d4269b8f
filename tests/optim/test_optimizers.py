"""The optimizers take PyTorch's steps, in place, and say what is wrong with what they are given."""

from __future__ import annotations

import copy
import pickle
import re
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ArgumentError, ArgumentTypeError, ChangedTensorError

RECIPES: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "weight_decay": 0.3}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, {}),
    (optim.Adam, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (optim.AdamW, {}),
    (optim.AdamW, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    (optim.Adam, {"lr": 0.1, "weight_decay": 0.3, "decoupled_weight_decay": True}),
    (optim.RMSprop, {}),
    (optim.RMSprop, {"lr": 0.1, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.2, "momentum": 0.7}),
    (optim.RMSprop, {"lr": 0.1, "centered": True, "eps": 1e-3, "maximize": True}),
    (optim.RMSprop, {"lr": 0.1, "centered": True, "eps": 1e-3, "momentum": 0.7}),
    (optim.Adagrad, {"lr": 0.3}),
    (optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.2, "initial_accumulator_value": 0.5, "eps": 1e-3}),
    (optim.Lion, {"lr": 0.1, "weight_decay": 0.3}),
    (optim.NAdam, {}),
    (optim.NAdam, {"lr": 0.1, "betas": (0.4, 0.9), "weight_decay": 0.2, "momentum_decay": 0.1, "maximize": True}),
    (optim.NAdam, {"lr": 0.1, "weight_decay": 0.2, "decoupled_weight_decay": True}),
    (optim.RAdam, {}),
    (optim.RAdam, {"lr": 0.1, "betas": (0.4, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
    (optim.RAdam, {"lr": 0.1, "weight_decay": 0.2, "decoupled_weight_decay": True, "maximize": True}),
    (optim.Adamax, {}),
    (optim.Adamax, {"lr": 0.1, "betas": (0.4, 0.9), "eps": 1e-3, "weight_decay": 0.2, "maximize": True}),
    (optim.Adadelta, {}),
    (optim.Adadelta, {"lr": 0.1, "rho": 0.7, "eps": 1e-3, "weight_decay": 0.2, "maximize": True}),
    (optim.Rprop, {}),
    (optim.Rprop, {"lr": 0.1, "etas": (0.3, 1.7), "step_sizes": (0.05, 0.2), "maximize": True}),
    (optim.ASGD, {}),
    (optim.ASGD, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3, "weight_decay": 0.2, "maximize": True}),
    (optim.Adafactor, {}),
    (optim.Adafactor, {"lr": 0.5, "beta2_decay": -0.3, "eps": (1e-3, 0.1), "weight_decay": 0.2, "maximize": True}),
]
NAMES = [f"{kind.__name__}-{'-'.join(options) or 'defaults'}" for kind, options in RECIPES]
EACH = pytest.mark.parametrize(("kind", "options"), RECIPES, ids=NAMES)


def problem(dtype: Any) -> tuple[list[np.ndarray], Callable[[int], list[np.ndarray]]]:
    """Return first values of three parameters, and a function of the step that makes their gradients."""
    rng = np.random.default_rng(0)
    starts = [np.asarray(rng.standard_normal(shape)).astype(dtype) for shape in ((3, 4), (5,), ())]

    def gradients(step: int) -> list[np.ndarray]:
        draw = np.random.default_rng(step)
        return [np.asarray(draw.standard_normal(start.shape)).astype(dtype) for start in starts]

    return starts, gradients


def train(kind: type[optim.Optimizer], options: dict[str, Any], dtype: Any, steps: range) -> tuple[Any, list[Any]]:
    starts, gradients = problem(dtype)
    params = [ag.tensor(start, requires_grad=True) for start in starts]
    optimizer: Any = kind(params, **options)
    take(optimizer, params, gradients, steps)
    return optimizer, params


def take(optimizer: Any, params: list[Any], gradients: Callable[[int], list[np.ndarray]], steps: range) -> None:
    for step in steps:
        for param, grad in zip(params, gradients(step), strict=True):
            param.grad = ag.tensor(grad)
        optimizer.step()


@pytest.fixture
def double_precision() -> Iterator[Any]:
    """PyTorch, which keeps the numbers of a state in its default dtype, with float64 as that."""
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(before)


@EACH
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 2e-6), (np.complex128, 1e-13)])
def test_twenty_steps_are_those_of_pytorch(
    kind: type[optim.Optimizer], options: dict[str, Any], dtype: Any, tolerance: float, double_precision: Any
) -> None:
    torch = double_precision
    if kind is optim.Adafactor and dtype is np.complex128:
        pytest.skip("Adafactor takes no complex numbers, here and in PyTorch")
    starts, gradients = problem(dtype)
    peers = [torch.tensor(start, requires_grad=True) for start in starts]
    if not hasattr(torch.optim, kind.__name__):
        pytest.skip(f"PyTorch has no {kind.__name__}")
    peer = getattr(torch.optim, kind.__name__)(peers, **options)
    for step in range(20):
        for param, grad in zip(peers, gradients(step), strict=True):
            param.grad = torch.tensor(grad)
        peer.step()

    _, params = train(kind, options, dtype, range(20))
    for param, expected in zip(params, peers, strict=True):
        assert param.dtype == dtype
        np.testing.assert_allclose(param.numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


@EACH
def test_a_run_goes_on_from_a_state_dict_as_if_it_had_never_stopped(
    kind: type[optim.Optimizer], options: dict[str, Any]
) -> None:
    _, expected = train(kind, options, np.float64, range(8))
    optimizer, params = train(kind, options, np.float64, range(5))
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    others = copy.deepcopy(params)
    array_kind: Any = kind
    resumed = array_kind(others, lr=123.0)
    resumed.load_state_dict(saved)
    take(resumed, others, problem(np.float64)[1], range(5, 8))

    assert resumed.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    for other, param in zip(others, expected, strict=True):
        np.testing.assert_array_equal(other.numpy(), param.numpy())


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW])
def test_a_mean_that_forgets_at_once_is_the_gradient_itself(kind: Any) -> None:
    optimizer, _ = train(kind, {"lr": 0.1, "betas": (0.0, 0.5)}, np.float32, range(5))
    last = problem(np.float32)[1](4)

    for state, grad in zip(optimizer.state_dict()["state"].values(), last, strict=True):
        np.testing.assert_array_equal(state["exp_avg"], grad)


def test_a_mean_of_centered_gradients_that_forgets_at_once_is_the_gradient_itself() -> None:
    optimizer, _ = train(optim.RMSprop, {"lr": 0.1, "alpha": 0.0, "centered": True, "eps": 1.0}, np.float32, range(5))
    last = problem(np.float32)[1](4)

    for state, grad in zip(optimizer.state_dict()["state"].values(), last, strict=True):
        np.testing.assert_array_equal(state["grad_avg"], grad)


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize(
    ("kind", "option"),
    [(optim.Adam, {"amsgrad": True}), (optim.RMSprop, {"momentum": 0.5}), (optim.RMSprop, {"centered": True})],
)
def test_an_option_that_needs_more_state_may_be_set_between_two_steps(
    kind: Any, option: dict[str, Any], is_saved: bool
) -> None:
    optimizer, params = train(kind, {}, np.float64, range(2))
    others = copy.deepcopy(params)
    other = kind(others, **option)
    optimizer.param_groups[0].update(option)
    other.load_state_dict(optimizer.state_dict())
    if is_saved:
        optimizer.load_state_dict(optimizer.state_dict())
    for each, given in ((optimizer, params), (other, others)):
        take(each, given, problem(np.float64)[1], range(2, 5))

    for one, param in zip(others, params, strict=True):
        np.testing.assert_array_equal(one.numpy(), param.numpy())


@EACH
def test_an_update_reads_all_of_its_state_before_it_writes(
    kind: type[optim.Optimizer], options: dict[str, Any]
) -> None:
    optimizer, params = train(kind, options, np.float64, range(2))
    for param in params:
        update = optimizer._updater(param.numpy(), optimizer.param_groups[0])
        for name in optimizer._new_state(param.numpy(), optimizer.param_groups[0]):
            data, state = param.numpy().copy(), copy.deepcopy(optimizer.state[param])
            del state[name]
            before = copy.deepcopy(state)
            with pytest.raises(KeyError, match=name):
                update(data, np.ones_like(data), state)

            np.testing.assert_array_equal(data, param.numpy())
            np.testing.assert_equal(state, before)


def test_an_error_of_an_update_that_is_no_lack_of_state_is_raised_without_a_second_update() -> None:
    class Faulty(optim.ElementwiseOptimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        @staticmethod
        def _check(group: Any) -> None:
            pass

        def _new_state(self, param: Any, group: Any) -> dict[str, Any]:
            return {"mean": 0} if group.get("has_mean") else {}

        def _updater(self, like: Any, group: Any) -> Any:
            def update(param: Any, grad: Any, state: Any) -> None:
                param += 1
                if group.get("has_mean"):
                    raise KeyError("other")

            return update

    param = ag.tensor([0.0], requires_grad=True)
    optimizer = Faulty([param])
    param.grad = ag.tensor([1.0])
    optimizer.step()
    optimizer.param_groups[0]["has_mean"] = True
    with pytest.raises(KeyError, match="other"):
        optimizer.step()

    assert param.tolist() == [2.0]


def test_a_state_dict_does_not_change_with_later_steps() -> None:
    optimizer, params = train(optim.SGD, {"lr": 0.1, "momentum": 0.9}, np.float64, range(2))
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    take(optimizer, params, problem(np.float64)[1], range(2, 4))

    np.testing.assert_array_equal(saved["state"][0]["momentum_buffer"], before["state"][0]["momentum_buffer"])


@pytest.mark.parametrize("holds_arrays", [True, False])
def test_a_state_dict_of_pytorch_can_be_loaded(holds_arrays: bool) -> None:
    torch = pytest.importorskip("torch")
    starts, gradients = problem(np.float32)
    peers = [torch.tensor(start, requires_grad=True) for start in starts]
    peer = torch.optim.Adam(peers)
    for param, grad in zip(peers, gradients(0), strict=True):
        param.grad = torch.tensor(grad)
    peer.step()
    saved = peer.state_dict()
    if holds_arrays:
        saved["state"] = {
            key: {name: one.numpy() for name, one in state.items()} for key, state in saved["state"].items()
        }
    params = [ag.tensor(param.detach().numpy(), requires_grad=True) for param in peers]
    optimizer = optim.Adam(params)
    optimizer.load_state_dict(saved)
    take(optimizer, params, gradients, range(1, 2))
    _, expected = train(optim.Adam, {}, np.float32, range(2))

    for mine, theirs in zip(params, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


@EACH
def test_states_are_exchanged_with_pytorch_both_ways(
    kind: type[optim.Optimizer], options: dict[str, Any], double_precision: Any
) -> None:
    torch = double_precision
    if not hasattr(torch.optim, kind.__name__):
        pytest.skip(f"PyTorch has no {kind.__name__}")
    optimizer, params = train(kind, options, np.float64, range(3))
    gradients = problem(np.float64)[1]
    peers = [torch.tensor(param.detach().numpy(), requires_grad=True) for param in params]
    peer = getattr(torch.optim, kind.__name__)(peers, **options)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state.update({name: torch.tensor(one) for name, one in state.items()})
    defaults = peer.state_dict()["param_groups"][0]
    peer.load_state_dict({"state": saved["state"], "param_groups": [{**defaults, **saved["param_groups"][0]}]})
    for param, grad in zip(peers, gradients(3), strict=True):
        param.grad = torch.tensor(grad)
    peer.step()

    back = [ag.tensor(param.detach().numpy(), requires_grad=True) for param in peers]
    array_kind: Any = kind
    resumed = array_kind(back, **options)
    resumed.load_state_dict(peer.state_dict())
    take(resumed, back, gradients, range(4, 6))
    for mine, theirs in zip(back, train(kind, options, np.float64, range(6))[1], strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12)


def by_definition(param: np.ndarray, grads: list[np.ndarray], nesterov: bool, factor: float) -> np.ndarray:
    """Return a matrix after steps of Muon with a rate of 0.1 and a weight decay of 0.5, by singular values."""
    mean = np.zeros_like(param)
    for grad in grads:
        mean = 0.95 * mean + 0.05 * grad
        left, values, right = np.linalg.svd(0.05 * grad + 0.95 * mean if nesterov else mean, full_matrices=False)
        values /= np.sqrt(np.sum(values**2))
        for _ in range(5):
            values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
        param = param * 0.95 - 0.1 * factor * (left * values) @ right
    return param


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
@pytest.mark.parametrize(
    ("options", "factor"), [({}, None), ({"nesterov": False}, None), ({"adjust_lr_fn": "match_rms_adamw"}, 0.2)]
)
def test_muon_moves_by_the_singular_vectors_of_the_mean_gradient(
    shape: tuple[int, int], options: dict[str, Any], factor: float | None
) -> None:
    rng = np.random.default_rng(0)
    start, *grads = rng.standard_normal((4, *shape))
    param = ag.tensor(start, requires_grad=True)
    optimizer = optim.Muon([param], lr=0.1, weight_decay=0.5, **options)
    for grad in grads:
        optimizer.step([grad])

    factor = np.sqrt(max(1, shape[0] / shape[1])) if factor is None else factor * np.sqrt(max(shape))
    expected = by_definition(start, grads, options.get("nesterov", True), factor)
    np.testing.assert_allclose(param.numpy(), expected, rtol=1e-12)


def test_muon_is_pytorchs_but_for_its_precision() -> None:
    torch = pytest.importorskip("torch")
    param, peer = ag.tensor(matrix().numpy(), requires_grad=True), torch.tensor(matrix().numpy(), requires_grad=True)
    optimizer, other = optim.Muon([param], lr=0.1), torch.optim.Muon([peer], lr=0.1)
    for step in range(3):
        grad = np.random.default_rng(step).standard_normal(param.shape)
        peer.grad = torch.tensor(grad)
        optimizer.step([grad])
        other.step()

    np.testing.assert_allclose(param.numpy(), peer.detach().numpy(), atol=0.02)


def test_adafactor_keeps_mean_squares_of_rows_and_columns_alone() -> None:
    param = ag.tensor(np.ones((2, 3, 4)), requires_grad=True)
    optimizer = optim.Adafactor([param])
    optimizer.step([np.ones((2, 3, 4))])

    assert optimizer.state[param]["row_var"].shape == (2, 3, 1)
    assert optimizer.state[param]["col_var"].shape == (2, 1, 4)
    saved = optimizer.state_dict()
    saved["state"][0]["row_var"] = np.ones((2, 3, 4))
    with pytest.raises(ArgumentError, match=re.escape("has shape (2, 3, 4), but it needs (2, 3, 1)")):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("size", [1e-4, 300.0])
def test_adafactor_of_float16_neither_overflows_nor_vanishes(size: float) -> None:
    found = []
    for dtype in (np.float16, np.float64):
        param = ag.tensor(np.full((2, 2), size, dtype), requires_grad=True)
        optim.Adafactor([param], eps=(1e-3, 1e-3)).step([np.full((2, 2), 1.0, dtype)])
        found.append(param.numpy())

    np.testing.assert_allclose(found[0], found[1], rtol=2e-2)


def test_each_group_has_its_own_options() -> None:
    first, second, third = (ag.tensor([1.0], requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([{"params": [first]}, {"params": second, "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": [third], "lr": 1.0})
    for param in (first, second, third):
        param.grad = ag.tensor([1.0])
    optimizer.step()

    assert [param.item() for param in (first, second, third)] == [0.75, 0.5, 0.0]


def test_a_schedule_changes_the_rate_of_a_group() -> None:
    param = ag.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([param], lr=0.25)
    optimizer.param_groups[0]["lr"] = 1.0
    param.grad = ag.tensor([1.0])
    optimizer.step()

    assert param.item() == 0.0


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    param = ag.tensor([1.0], requires_grad=True)
    optimizer = optim.Adam([param], weight_decay=0.1)
    optimizer.step()

    assert param.item() == 1.0
    assert optimizer.state == {}


@EACH
def test_a_step_writes_into_the_array_of_the_parameter_and_not_into_its_gradient(
    kind: type[optim.Optimizer], options: dict[str, Any]
) -> None:
    optimizer, params = train(kind, options, np.float32, range(2))
    arrays = [param.numpy() for param in params]
    before = [array.copy() for array in arrays]
    grads = [param.grad.numpy() for param in params]
    unchanged = [grad.copy() for grad in grads]
    optimizer.step()

    for array, old, grad, same in zip(arrays, before, grads, unchanged, strict=True):
        assert np.all(array != old)
        np.testing.assert_array_equal(grad, same)
    assert all(param.is_leaf and param.requires_grad for param in params)


def test_a_gradient_with_a_history_is_used_without_it() -> None:
    param = ag.tensor([1.0], requires_grad=True)
    param.grad = ag.tensor([1.0], requires_grad=True) * 2
    optim.SGD([param], lr=0.5).step()

    assert param.item() == 0.0
    assert param.grad_fn is None


def test_a_step_between_forward_and_backward_is_noticed() -> None:
    param = ag.tensor([1.0], requires_grad=True)
    loss = (param * param).sum()
    param.grad = ag.tensor([1.0])
    optim.SGD([param], lr=0.5).step()

    with pytest.raises(ChangedTensorError):
        sync.backward(loss)


@EACH
def test_steps_allocate_no_arrays_once_they_are_under_way(kind: type[optim.Optimizer], options: dict[str, Any]) -> None:
    param = ag.tensor(np.ones(100_000), requires_grad=True)
    param.grad = ag.tensor(np.ones(100_000))
    optimizer: Any = kind([param], **options)
    optimizer.step()
    optimizer.step()
    tracemalloc.start()
    try:
        optimizer.step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    # An array of the parameter has 800,000 bytes; what a thread of another test does meanwhile is counted too.
    assert peak < 400_000


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_forgets_gradients_and_leaves_those_handed_out_alone(set_to_none: bool) -> None:
    param, other = ag.tensor([1.0], requires_grad=True), ag.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([param, other], lr=0.5)
    param.grad = ag.tensor([3.0])
    handed_out = param.grad.numpy()
    optimizer.zero_grad(set_to_none=set_to_none)

    assert handed_out.tolist() == [3.0]
    assert other.grad is None
    if set_to_none:
        assert param.grad is None
    else:
        assert param.grad is not None
        assert param.grad.numpy().tolist() == [0.0]


def test_adam_of_a_transposed_parameter_is_that_of_its_copy() -> None:
    data, grad = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    transposed, straight = ag.asarray(data.T, requires_grad=True), ag.tensor(data.T.copy(), requires_grad=True)
    for param in (transposed, straight):
        param.grad = ag.tensor(grad)
        optim.Adam([param]).step()

    np.testing.assert_array_equal(transposed.numpy(), straight.numpy())


def parameter() -> Any:
    return ag.tensor([1.0, 2.0], requires_grad=True)


def matrix() -> Any:
    return ag.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], requires_grad=True)


def generator() -> Iterator[Any]:
    yield from ()


def read_only_parameter() -> Any:
    data = np.ones(2)
    data.flags.writeable = False
    return ag.asarray(data, requires_grad=True)


shared = parameter()
BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: optim.SGD([parameter()], lr=-0.1), ArgumentError, "lr must be at least 0, not -0.1"),
    (lambda: optim.Adam([parameter()], lr=(0.1, 0.2)), ArgumentTypeError, "lr must be a number, not tuple (0.1, 0.2)"),
    (lambda: optim.LBFGS([parameter()], max_iter=2.5), ArgumentTypeError, "max_iter must be an int, not float 2.5"),
    (lambda: optim.SGD([parameter()], lr=float("nan")), ArgumentError, "lr must be a finite number, not float nan"),
    (lambda: optim.SGD([parameter()], momentum=-1), ArgumentError, "momentum must be at least 0, not -1"),
    (lambda: optim.SGD([parameter()], weight_decay=-1), ArgumentError, "weight_decay must be at least 0, not -1"),
    (lambda: optim.SGD([parameter()], nesterov=True), ArgumentError, "nesterov=True needs a momentum and no dampening"),
    (
        lambda: optim.Adam([parameter()], betas=(0.9, 1.0)),
        ArgumentError,
        "betas must be at least 0 and below 1, not (0.9,",
    ),
    (lambda: optim.Adam([parameter()], betas=(0.9,)), ArgumentError, "betas must be two numbers"),  # type: ignore[arg-type]
    (lambda: optim.Adam([parameter()], eps=-1.0), ArgumentError, "eps must be at least 0"),
    (lambda: optim.AdamW([{"params": [parameter()], "lr": -1.0}]), ArgumentError, "lr must be at least 0, not -1.0"),
    (lambda: optim.Adam([{"params": [parameter()], "momentum": 1}]), ArgumentError, "Adam has no option 'momentum'"),
    (lambda: optim.SGD([parameter() * 2]), ArgumentError, "was computed by MultiplyBackward, but only leaves"),
    (lambda: optim.NAdam([parameter()], momentum_decay=-1), ArgumentError, "momentum_decay must be at least 0, not -1"),
    (lambda: optim.RAdam([parameter()], betas=(1.0, 0.9)), ArgumentError, "betas must be at least 0 and below 1"),
    (lambda: optim.Adamax([parameter()], eps=-1.0), ArgumentError, "eps must be at least 0, not -1"),
    (lambda: optim.Adadelta([parameter()], rho=1.5), ArgumentError, "rho must be at least 0 and at most 1, not 1.5"),
    (lambda: optim.Rprop([parameter()], etas=(1.5, 2)), ArgumentError, "etas must be a number between 0 and 1 and one"),
    (lambda: optim.Rprop([parameter()], etas=(0.5,)), ArgumentError, "etas must be two numbers, such as (0.5, 1.2)"),  # type: ignore[arg-type]
    (lambda: optim.ASGD([parameter()], weight_decay=-1), ArgumentError, "weight_decay must be at least 0, not -1"),
    (lambda: optim.Adafactor([parameter()], beta2_decay=1), ArgumentError, "beta2_decay must be at most 0, not 1"),
    (lambda: optim.Adafactor([parameter()], d=0.5), ArgumentError, "d must be at least 1, not 0.5"),
    (lambda: optim.Adafactor([parameter()], eps=(None, -1)), ArgumentError, "eps must be at least 0"),
    (
        lambda: optim.Adafactor([ag.tensor([1j], requires_grad=True)]),
        ArgumentError,
        "parameter 0 of group 0 has complex numbers, which Adafactor does not take",
    ),
    (lambda: optim.Muon([parameter()]), ArgumentError, "has shape (2,), but Muon takes matrices of real numbers alone"),
    (lambda: optim.Muon([matrix()], ns_steps=100), ArgumentError, "ns_steps must be below 100, not 100"),
    (lambda: optim.Muon([matrix()], adjust_lr_fn="adam"), ArgumentError, "adjust_lr_fn must be 'original', 'match_rms"),
    (lambda: optim.Muon([matrix()], ns_coefficients=(1, 2)), ArgumentError, "ns_coefficients must be three numbers"),  # type: ignore[arg-type]
    (lambda: optim.SGD([read_only_parameter()]), ArgumentError, "has a read-only array"),
    (lambda: optim.SGD([]), ArgumentError, "SGD got no parameters"),
    (lambda: optim.SGD(nn.ReLU().parameters()), ArgumentError, "such as nn.Parameter(array)"),
    (lambda: optim.SGD(generator()), ArgumentError, "is a generator used up?"),
    (lambda: optim.SGD([shared, shared]), ArgumentError, "parameter 1 of group 0 is given twice"),
    (
        lambda: optim.SGD([{"params": [shared]}, {"params": [shared]}]),
        ArgumentError,
        "parameter 0 of group 1 is given twice",
    ),
    (lambda: optim.SGD(parameter()), ArgumentTypeError, "params must be a sequence of tensors, or of dicts"),
    (lambda: optim.SGD(parameter()), ArgumentTypeError, ": pass [t]"),
    (lambda: optim.SGD(nn.Linear(1, 1).parameters), ArgumentTypeError, ": call it"),
    (lambda: optim.SGD({"w": [np.ones(2)]}), ArgumentTypeError, "params['w'][0] must be a Tensor, not ndarray"),
    (lambda: optim.SGD({"w": shared, "v": [shared]}), ArgumentError, "params['v'][0] is given twice"),
    (lambda: optim.SGD([np.ones(2)]), ArgumentTypeError, "parameter 0 of group 0 must be a Tensor, not ndarray"),
    (lambda: optim.SGD([{"weights": []}]), ArgumentTypeError, "a group must be a dict with tensors under 'params'"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for _, _, message in BAD])
def test_what_cannot_be_optimized_is_named(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.parametrize("in_group", [False, True])
def test_parameters_may_be_a_tree(in_group: bool) -> None:
    tree = {"w": parameter(), "layers": [(parameter(), None), {"b": parameter()}]}

    optimizer = optim.SGD([{"params": tree}] if in_group else tree, lr=0.5)
    for param in ag.tree.leaves(tree):
        param.grad = ag.tensor([2.0, 4.0])
    optimizer.step()

    assert [param.tolist() for param in ag.tree.leaves(tree)] == [[0.0, 0.0]] * 3


def test_a_state_of_other_parameters_is_refused_and_changes_nothing() -> None:
    optimizer, _ = train(optim.SGD, {"lr": 0.1, "momentum": 0.9}, np.float64, range(1))
    other = optim.SGD([parameter()], lr=0.3)
    with pytest.raises(ArgumentError, match=re.escape("groups of [3] parameters, but this optimizer has [1]")):
        other.load_state_dict(optimizer.state_dict())
    three = optim.SGD([parameter(), parameter(), parameter()], lr=0.3)
    with pytest.raises(ArgumentError, match=re.escape("momentum_buffer of parameter 0 in state_dict has shape (3, 4)")):
        three.load_state_dict(optimizer.state_dict())

    assert three.param_groups[0]["lr"] == other.param_groups[0]["lr"] == 0.3


def test_an_optimizer_shows_its_options() -> None:
    assert repr(optim.SGD([parameter()], lr=0.5)).startswith("SGD(1 parameters, lr=0.5, momentum=0.0")


def test_a_state_of_another_optimizer_or_of_no_parameter_is_refused_and_changes_nothing() -> None:
    params = [ag.tensor([1.0], requires_grad=True)]
    other, optimizer = optim.SGD(params, lr=0.1, momentum=0.9), optim.Adam(params)
    for one in (other, optimizer):
        one.step([np.ones(1)])
    before = optimizer.state_dict()
    with pytest.raises(ArgumentError, match=re.escape("has 'momentum_buffer', but no 'step', which Adam needs")):
        optimizer.load_state_dict(other.state_dict())
    with pytest.raises(ArgumentError, match="the state of a parameter 7, which is in none of its groups"):
        optimizer.load_state_dict({**before, "state": {7: before["state"][0]}})

    assert str(optimizer.state_dict()) == str(before)
