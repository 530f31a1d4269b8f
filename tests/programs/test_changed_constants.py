"""A tensor that is written into between forward and backward: the gradient is the same, or the backward raises.

That holds for operands, and for what no derivative is with respect to: labels, indices, masks, weights, orders.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, optim, sync
from asyncgrad.errors import ChangedTensorError, InPlaceError
from asyncgrad.extend import derivative, primitive
from asyncgrad.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from asyncgrad.scipy import integrate, optimize, special
from asyncgrad.scipy.sparse import csr_array
from asyncgrad.scipy.sparse.linalg import cg
from tests.core.ops.finite_differences import Case, flat
from tests.core.ops.test_rules import CASES
from tests.nn.cases import CALLS

_SCORES = np.random.default_rng(0).standard_normal((4, 3))
_LABELS = np.array([0, 2, 1, 1])
_MASK = np.array([[True], [False], [True], [False]])
_PLACES = np.array([[[0, 3, 5, 6]]])


def _summed_where(x: Any, mask: Any) -> Any:
    return np.multiply(x, x, out=ag.tensor(np.zeros_like(_SCORES)), where=mask)


@primitive()
def _scaled(x: Any, factors: Any) -> Any:
    return np.asarray(x * factors)


@derivative(_scaled, "x")
def _(g: Any, factors: Any) -> Any:
    return g * factors


def _zero(z: Any, x: Any, t: Any) -> Any:
    return z**3 + t * z - x


_START, _TWO, _OTHER = np.ones(2), np.array([1.0, 2.0]), np.array([1.0, 3.0])

#: By name, a function of a tensor and of a constant, and both; those whose constant is saved as it is.
CHECKED: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray]] = {
    "operand": (lambda x, t: x * t, _SCORES[0], np.array([1.0, 2.0, 3.0])),
    "cross_entropy": (nn.cross_entropy, _SCORES, _LABELS),
    "cross_entropy, smooth": (lambda x, t: nn.cross_entropy(x, t, label_smoothing=0.25), _SCORES, _LABELS),
    "cross_entropy, float16": (nn.cross_entropy, _SCORES.astype(np.float16), _LABELS),
    "nll_loss": (nn.nll_loss, _SCORES, _LABELS),
    "multi_margin_loss": (nn.multi_margin_loss, _SCORES, _LABELS),
    "class weights": (
        lambda x, t: nn.cross_entropy(x, np.abs(_SCORES), t),
        _SCORES,
        np.array([1.0, 2.0, 3.0]),
    ),
    "embedding": (lambda x, t: np.square(nn.embedding(t, x)), _SCORES, _LABELS),
    "max_unpool1d": (lambda x, t: nn.max_unpool1d(x, t, 2) * np.arange(8.0), _SCORES[:, :1].reshape(1, 1, 4), _PLACES),
    "take": (lambda x, t: np.square(np.take(x, t, axis=0)), _SCORES, _LABELS),
    "where": (lambda x, t: np.where(t, x, 0.0), _SCORES, _MASK),
    "where=": (_summed_where, _SCORES, _MASK),
    "where= of a sum": (lambda x, t: np.sum(x, 0, where=t), _SCORES, _MASK),
    "a user's primitive": (lambda x, t: _scaled(x, t), _TWO, _OTHER),
}
#: Those that a solver reads again in the backward.
SOLVERS: dict[str, Callable[..., Any]] = {
    "root": lambda x, t: optimize.root(_zero, _START, (x, t)).x,
    "newton": lambda x, t: optimize.newton(_zero, _START, args=(x, t)),
    "root_scalar": lambda x, t: optimize.root_scalar(lambda z, x, t: z - (x * t)[1], (x, t), bracket=(0, 9)).root,
    "fixed_point": lambda x, t: optimize.fixed_point(lambda z, x, t: np.cos(z * t) * x / 4, _START, (x, t)),
    "func.fixed_point": lambda x, t: sync.func.fixed_point(lambda a, z: np.cos(z * a[1]) * a[0] / 8, (x, t), _START),
    "minimize": lambda x, t: optimize.minimize(lambda z, x, t: np.sum((z - x) ** 4 * t + z**2), _START, (x, t)).x,
    "least_squares": lambda x, t: (
        optimize.least_squares(lambda z, x, t: np.append(z * t - x, z), _START, args=(x, t)).x
    ),
    "quad": lambda x, t: integrate.quad(lambda s, x, t: np.sum(x * np.exp(-t * s * x)), 0, 1, (x, t))[0],
    "nquad": lambda x, t: integrate.nquad(lambda s, x, t: np.sum(x * np.exp(-t * s * x)), [(0, 1)], (x, t))[0],
    "odeint": lambda x, t: integrate.odeint(lambda y, s, t: -t * y, x, [0.0, 1.0], (t,)),
    "solve_ivp": lambda x, t: integrate.solve_ivp(lambda s, y, t: -t * y, (0, 1), x, args=(t,)).y,
    "cg": lambda x, t: cg(lambda z, t, x: z * t * x, np.ones(2), args=(t, x))[0],
}
#: Those whose constant is copied.
COPIED: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray]] = {
    "x[t]": (lambda x, t: np.square(x[t]), _SCORES, _LABELS),
    "x[t, t]": (lambda x, t: x[t, t], _SCORES, np.array([0, 2, 1])),
    "x[mask]": (lambda x, t: x[t[:, 0]], _SCORES, _MASK),
    "scatter_reduce": (lambda x, t: nn.scatter_reduce(np.zeros(3), 0, t, x, "mean"), _SCORES[:, 0], _LABELS),
    "take_along_axis": (lambda x, t: np.take_along_axis(x, t, 0), _SCORES, np.array([[0, 1, 3]])),
    "roll": (lambda x, t: np.roll(x, t, (0, 1)) * _SCORES, _SCORES, np.array([1, 2])),
    "legendre_p": (lambda x, t: special.legendre_p(t, np.tanh(x)), _SCORES, np.array([1, 2, 4])),
    "csr_array": (
        lambda x, t: csr_array((x, t, [0, 2, 3]), shape=(2, 3)) @ np.arange(3.0),
        _SCORES[0],
        np.array([0, 2, 1]),
    ),
    "mathieu_cem": (lambda x, t: special.mathieu_cem(t, 0.5, x)[0], _SCORES, np.array([1, 2, 4])),
}


def reverse(tensor: ag.Tensor) -> None:
    """Write the elements of a tensor into it the other way round, or their opposites for truth values."""
    values = tensor.numpy()
    with ag.no_grad():
        tensor[...] = ~values if values.dtype.kind == "b" else values.reshape(-1)[::-1].reshape(values.shape).copy()


def gradients(results: Sequence[ag.Tensor], leaves: Sequence[ag.Tensor], **options: Any) -> list[Any]:
    """Return the gradients of results, weighted by growing numbers, that are there."""
    grads = [ag.tensor(np.linspace(0.5, 1.5, one.size).reshape(one.shape).astype(one.dtype)) for one in results]
    found = sync.grad(list(results), list(leaves), grads, allow_unused=True, **options)
    return [grad for grad in found if grad is not None]


def outcome(function: Callable[..., Any], x: np.ndarray, constant: np.ndarray, way: str, changes: bool) -> Any:
    """Return the gradient of a function of x and of a constant, which is changed after the forward in the end."""
    leaf, base = ag.tensor(x, requires_grad=True), ag.tensor(np.stack([constant, constant]))
    t = base[0] if way == "view" else ag.tensor(constant)
    if way == "checkpoint":
        result = ag.checkpoint(function, leaf, t, use_reentrant=False)
    elif way == "hooks":
        with saved_tensors_hooks(lambda tensor: tensor.numpy(), lambda array: array):
            result = function(leaf, t)
    else:
        for _ in range(3 if way == "compiled" else 0):
            with ag.compiled_autograd(after=1):
                gradients([function(leaf, t)], [leaf])
        result = function(leaf, t)
    if way == "retain_graph":
        gradients([result], [leaf], retain_graph=True)
    if changes:
        reverse(base[0] if way == "view" else t)
    with ag.compiled_autograd(after=1 if way == "compiled" else 1000):
        return gradients([result], [leaf])[0].tolist()


WAYS = ("plain", "view", "retain_graph", "hooks", "checkpoint", "compiled")


@pytest.mark.parametrize("way", WAYS)
def test_a_constant_that_was_changed_is_noticed_in_every_way_to_run(way: str):
    silent = []
    for name in CHECKED if way == "plain" else ("take", "cross_entropy", "where", "a user's primitive"):
        try:
            outcome(*CHECKED[name], way, changes=True)
        except ChangedTensorError:
            continue
        silent.append(name)

    assert silent == []


@pytest.mark.parametrize("name", SOLVERS)
def test_a_constant_that_a_solver_reads_again_must_not_have_been_changed(name: str):
    outcome(SOLVERS[name], _TWO, _OTHER, "plain", changes=False)

    with pytest.raises(ChangedTensorError, match="a tensor of shape"):
        outcome(SOLVERS[name], _TWO, _OTHER, "plain", changes=True)


def _root(weight: Any, x: Any) -> Any:
    return optimize.root(lambda z, x: z**3 + weight.detach() * z - x, _START, (x,)).x


def _fixed_point(weight: Any, x: Any) -> Any:
    return sync.func.fixed_point(lambda a, z: np.cos(z * weight.detach()) * a / 8, x, _START)


@pytest.mark.parametrize("solve", [_root, _fixed_point])
def test_a_tensor_whose_detached_copy_a_solver_reads_again_must_not_have_been_changed(solve: Callable[..., Any]):
    x, weight = ag.tensor(_TWO, requires_grad=True), ag.tensor(_OTHER, requires_grad=True)
    result = solve(weight, x)
    reverse(weight)

    with pytest.raises(ChangedTensorError, match="a tensor of shape"):
        gradients([result], [x])


#: By name, a function of a tensor, whose backward calls what `counted` returns.
COUNTING: dict[str, Callable[..., Any]] = {
    "root": lambda counted, x: optimize.root(counted(lambda z, x: z**3 + z - x), _START, (x,)).x,
    "quad": lambda counted, x: integrate.quad(counted(lambda s, x: np.sum(np.exp(-s * x))), 0, 1, (x,))[0],
    "func.fixed_point": lambda counted, x: sync.func.fixed_point(counted(lambda a, z: np.cos(z) * a / 8), x, _START),
    "cg": lambda counted, x: cg(counted(lambda z, x: z * x), np.ones(2), args=(x,))[0],
}


@pytest.mark.parametrize("name", COUNTING)
def test_a_function_may_write_into_a_tensor_that_it_refers_to_in_each_call(name: str):
    x, count = ag.tensor(_TWO, requires_grad=True), ag.tensor(0)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any) -> Any:
            count[...] = count + 1
            return function(*args)

        return counting

    call = COUNTING[name]
    expected = gradients([call(lambda function: function, x)], [x])[0].tolist()
    results = [call(counted, x), call(counted, x)]
    found = [gradients([one], [x], retain_graph=True)[0].tolist() for one in (*results, *results)]

    assert found == [expected] * 4
    assert count > 4


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied_may_be_changed(name: str):
    function, x, constant = COPIED[name]

    assert outcome(function, x, constant, "plain", changes=True) == outcome(function, x, constant, "plain", False)


_TIES = np.array([2.0, 1.0, 2.0, 3.0, 1.0])
#: By name, a function of a tensor that returns more than what has a gradient, and the tensor.
RETURNING: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "unique": (lambda x: np.unique(x, return_index=True, return_inverse=True), _TIES),
    "intersect1d": (lambda x: np.intersect1d(x, _TIES + 1, return_indices=True), _TIES),
    "logsumexp": (lambda x: special.logsumexp(x, axis=1, b=np.array([1.0, -2.0, 1.0]), return_sign=True), _SCORES),
    "max_pool1d": (lambda x: nn.max_pool1d(x, 2, return_indices=True), _SCORES[np.newaxis, :, :2]),
    "topk": (lambda x: nn.topk(x, 2), _SCORES),
    "cummax": (lambda x: nn.cummax(x, 1), _SCORES),
}


@pytest.mark.parametrize("name", RETURNING)
def test_what_is_returned_beside_a_result_may_be_changed_or_raises(name: str):
    function, array = RETURNING[name]
    x = ag.tensor(array, requires_grad=True)
    expected = gradients(function(x)[:1], [x])[0].tolist()
    result, *others = function(x)
    for other in others:
        reverse(other)
    try:
        found = gradients([result], [x])[0].tolist()
    except ChangedTensorError:
        found = expected

    assert found == expected


def test_hooks_that_copy_and_a_block_that_allows_writes_keep_the_labels():
    results = []
    for block in (
        saved_tensors_hooks(lambda tensor: tensor.numpy().copy(), ag.tensor),
        allow_mutation_on_saved_tensors(),
    ):
        x, labels = ag.tensor(_SCORES, requires_grad=True), ag.tensor(_LABELS)
        with block:
            loss = nn.cross_entropy(x, labels)
            reverse(labels)
            results.append(gradients([loss], [x])[0].tolist())

    assert results == [outcome(nn.cross_entropy, _SCORES, _LABELS, "plain", changes=False)] * 2


def test_without_a_history_labels_that_are_a_tensor_leave_the_loss_an_array():
    assert type(nn.cross_entropy(_SCORES, ag.tensor(_LABELS))) is type(nn.cross_entropy(_SCORES, _LABELS))


@pytest.mark.parametrize("write", [reverse, lambda t: ag.graph.increment_version(t)], ids=["write", "counted"])
def test_a_checkpointed_function_must_not_read_a_tensor_that_was_changed(write: Callable[[ag.Tensor], None]):
    weight = ag.tensor([1.0, 2.0], requires_grad=True)
    x = ag.tensor([3.0, 4.0], requires_grad=True)
    loss = ag.checkpoint(lambda x: np.sum(np.exp(x * weight)), x, use_reentrant=False)
    write(weight)

    with pytest.raises(ChangedTensorError, match=r"MultiplyBackward .* version 1, .* 0 was saved. Write .* after"):
        sync.backward(loss)


def _checkpoint_of_parts(model: Any, x: ag.Tensor) -> Any:
    first, *others = model

    def run(x: Any) -> Any:
        return first(x)

    return others[0](ag.checkpoint(lambda x: run(x) * 2, x))


#: By name, a checkpoint of a module, in whose attributes the tensors are.
HELD: dict[str, Callable[[Any, ag.Tensor], Any]] = {
    "module": lambda model, x: ag.checkpoint(model, x),
    "closure": lambda model, x: ag.checkpoint(lambda x: model(x) * 2, x),
    "method": lambda model, x: ag.checkpoint(model.forward, x),
    "partial": lambda model, x: ag.checkpoint(functools.partial(lambda model, x: model(x), model), x),
    "function of a function": _checkpoint_of_parts,
    "compiled": lambda model, x: ag.checkpoint(ag.jit(lambda x: model(x)), x),
    "cached": lambda model, x: ag.checkpoint(functools.cache(model), x),
    "inside of another": lambda model, x: ag.checkpoint(lambda x: ag.checkpoint(model, x) * 2, x),
    "third": lambda model, x: ag.checkpoint(lambda x: ag.checkpoint(lambda x: ag.checkpoint(model, x), x), x),
    "chain inside": lambda model, x: ag.checkpoint(lambda x: ag.checkpoint_chain(list(model), x) * 2, x),
    "sequential": lambda model, x: ag.checkpoint_sequential(list(model), 2, x),
    "chain": lambda model, x: ag.checkpoint_chain(list(model), x),
}


@pytest.mark.parametrize("name", HELD)
def test_a_checkpointed_modules_parameters_must_not_have_been_changed(name: str):
    # Running statistics are written in each call.
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    x = ag.tensor(np.array([[1.0, 2.0], [3.0, 5.0]]), requires_grad=True)
    losses = [np.sum(np.square(HELD[name](model, x))) for _ in range(2)]
    sync.backward(losses[0], retain_graph=True)
    optim.SGD([model[0].weight], lr=0.1).step()

    for loss in losses:
        with pytest.raises(ChangedTensorError, match=r"CheckpointBackward .* of shape \(2, 2\)"):
            sync.backward(loss)


@final
class _Frozen(nn.Module):
    """Multiplies by a parameter that does not require grad and by a buffer, and keeps what it has computed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.array([[2.0, 3.0]]), requires_grad=False)
        self.register_buffer("scale", ag.tensor([5.0, 7.0]))
        self.offset, self.last = ag.tensor([1.0, 1.0]), ag.tensor([0.0])

    def forward(self, x: Any) -> Any:
        self.last = (x + self.offset).detach()
        return x * self.weight * self.scale


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("written", ["0.weight", "0.scale"])
def test_what_a_checkpointed_module_reads_without_training_it_must_not_have_been_changed(
    written: str, name: str, is_packed: bool
):
    model = nn.Sequential(_Frozen(), nn.Linear(2, 2))
    x = ag.tensor(np.array([[1.0, 2.0], [3.0, 5.0]]), requires_grad=True)
    with saved_tensors_hooks(lambda t: t, lambda t: t) if is_packed else contextlib.nullcontext():
        losses = [np.sum(np.square(HELD[name](model, x))) for _ in range(2)]
    sync.backward(losses[0], retain_graph=True)
    changed = dict(model.named_parameters()) | dict(model.named_buffers())
    with ag.no_grad():
        changed[written] += 1

    for loss in losses:
        with pytest.raises(ChangedTensorError, match=r"CheckpointBackward .* of shape \("):
            sync.backward(loss)


def test_what_a_checkpointed_module_has_computed_does_not_live_on() -> None:
    model, x = _Frozen(), ag.tensor([1.0, 2.0], requires_grad=True)
    results, states = [], []
    for _ in range(2):
        results.append(ag.checkpoint(lambda x: model(x), x))
        states.append(weakref.ref(model.last))

    assert [one() is not None for one in states] == [False, True]


def test_parameters_that_a_checkpointed_function_does_not_read_may_be_changed():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    results = [ag.checkpoint(lambda x: model[0](x), x), ag.checkpoint_chain([lambda x: model[0](x)], x)]
    with ag.no_grad():
        model[1].weight *= 2
    for result in results:
        sync.backward(result.sum())

    assert np.array_equal(x.grad, 2 * model[0].weight.numpy().sum(axis=0))


@final
class _Clipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.array([[3.0, -0.5], [0.25, -4.0]]))

    def forward(self, x: Any) -> Any:
        with ag.no_grad():
            self.weight[...] = np.clip(self.weight, -1, 1)
        return x @ self.weight


@pytest.mark.parametrize("name", ["module", "closure", "chain"])
def test_a_checkpointed_module_may_write_into_its_own_parameters(name: str):
    model = nn.Sequential(_Clipped())
    x = ag.tensor(np.array([[1.0, 2.0]]), requires_grad=True)
    loss = HELD[name](model, x).sum()
    for _ in range(2):
        sync.backward(loss, retain_graph=True)

    scale = 4 if name == "closure" else 2
    assert np.array_equal(x.grad, scale * model[0].weight.numpy().sum(axis=1)[None])


def _cases() -> dict[str, list[tuple[Callable[..., Any], Case]]]:
    """Return by function the calls of at least two arrays."""
    found: dict[str, list[tuple[Callable[..., Any], Case]]] = {}
    calls = [(function, case) for function, cases in CASES.items() for case in cases]
    for function, case in [*calls, *((call.function, call.case) for call in CALLS)]:
        if len(_arguments(case)[2]) > 1:
            module = "nn" if function.__module__.startswith("asyncgrad.nn") else "numpy"
            found.setdefault(f"{module}.{function.__name__}", []).append((function, case))
    return found


def _as_tensors(value: Any, requires_grad: bool, made: list[ag.Tensor]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        made.append(ag.tensor(value, requires_grad=requires_grad and value.dtype.kind == "f"))
        return made[-1]
    if type(value) in (list, tuple):
        return type(value)(_as_tensors(one, requires_grad, made) for one in value)
    return value


def _arguments(case: Case) -> tuple[list[Any], dict[str, Any], list[ag.Tensor]]:
    """Return the arguments of a case with tensors in place of arrays, and these tensors."""
    made: list[ag.Tensor] = []
    args = [_as_tensors(one, place in case.differentiate, made) for place, one in enumerate(case.args)]
    named = {name: _as_tensors(one, name in case.differentiate, made) for name, one in case.kwargs.items()}
    return args, named, made


EACH = _cases()


def _derivative(function: Callable[..., Any], case: Case, order: int, changed: int | None) -> list[np.ndarray]:
    """Return first or second derivatives, before which the tensor of that number is changed."""
    ag.random.seed(0)
    args, named, tensors = _arguments(case)
    leaves = [one for one in tensors if one.requires_grad]
    results = [one for one in flat(function(*args, **named)) if isinstance(one, ag.Tensor) and one.requires_grad]
    if order == 2:
        results = [one for one in gradients(results, leaves, create_graph=True) if one.requires_grad]
    if changed is not None:
        reverse(tensors[changed])
    return [grad.numpy() for grad in gradients(results, leaves)] if results else []


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EACH)
def test_a_tensor_that_was_changed_changes_no_derivative_without_an_error(name: str):
    wrong = []
    for number, (function, case) in enumerate(EACH[name]):
        for order in (1, 2):
            expected = _derivative(function, case, order, None)
            for changed in range(len(_arguments(case)[2])):
                try:
                    found = _derivative(function, case, order, changed)
                except (ChangedTensorError, InPlaceError):
                    continue
                if not all(np.allclose(*pair, rtol=1e-9, equal_nan=True) for pair in zip(found, expected, strict=True)):
                    wrong.append((number, order, changed))

    assert wrong == []
