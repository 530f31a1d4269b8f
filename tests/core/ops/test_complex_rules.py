"""Every rule is right for complex numbers, to second order, or refuses them by name; and a test of the checker."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import asyncgrad as ag
from asyncgrad import nn, sync
from asyncgrad.core.ops.nondifferentiable import NONDIFFERENTIABLE, SAVING
from asyncgrad.core.recording.primitive import Primitive, derivative, primitive
from asyncgrad.errors import ArgumentTypeError, GradcheckError
from tests.core.ops import cases_complex
from tests.core.ops.cases_complex import ComplexCall
from tests.core.ops.finite_differences import Case, call, leaves_of
from tests.core.ops.numpy_rules import rules_of_numpy
from tests.core.ops.test_nondifferentiable import ARGUMENTS
from tests.core.ops.test_rules import CASES
from tests.nn.cases import CALLS as NN_CALLS
from tests.support.complex_rules import (
    Verdict,
    all_primitives,
    complex_points,
    in_complex_dtypes,
    primitives_in,
    verdict,
)

#: Those that refuse complex arguments in every place. What NumPy refuses is NumPy's error.
REFUSING = {
    "bincount",
    *("arctan2", "cbrt", "copysign", "deg2rad", "degrees", "divmod", "fabs", "fmod", "frexp", "hypot", "ldexp"),
    "heaviside",
    *(
        "i0",
        "ihfft",
        "logaddexp",
        "logaddexp2",
        "modf",
        "nanpercentile",
        "nanquantile",
        "nextafter",
        "percentile",
        "quantile",
        "rad2deg",
        "radians",
    ),
    *("remainder", "rfft", "rfft2", "rfftn", "unwrap"),
    *("nn.binary_cross_entropy_with_logits", "nn.cross_entropy", "nn.elu", "nn.gelu", "nn.layer_norm"),
    *("nn.leaky_relu", "nn.max_pool2d", "nn.mse_loss", "nn.nll_loss", "nn.relu", "nn.softplus"),
    *("nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.batch_norm", "nn.group_norm", "nn.instance_norm"),
    *("nn.max_pool1d", "nn.rms_norm", "nn.topk", "nn.kthvalue", "nn.cummax", "nn.cummin"),
    *("nn.relu6", "nn.hardtanh", "nn.hardsigmoid", "nn.hardswish", "nn.hardshrink", "nn.softshrink", "nn.threshold"),
    *("nn.prelu", "nn.rrelu", "nn.mish", "nn.selu", "nn.celu", "nn.logsigmoid", "nn.softsign"),
    *("nn.huber_loss", "nn.smooth_l1_loss", "nn.binary_cross_entropy", "nn.soft_margin_loss", "nn.kl_div"),
    *("nn.poisson_nll_loss", "nn.gaussian_nll_loss", "nn.hinge_embedding_loss", "nn.margin_ranking_loss"),
    *("nn.cosine_embedding_loss", "nn.triplet_margin_loss", "nn.multi_margin_loss", "nn.multilabel_margin_loss"),
    *("nn.multilabel_soft_margin_loss", "nn.cosine_similarity"),
    *("nn.max_pool3d", "nn.adaptive_max_pool3d", "nn.fractional_max_pool2d", "nn.fractional_max_pool3d"),
    *("nn.local_response_norm", "nn.ctc_loss", "nn.affine_grid", "nn.grid_sample"),
}
#: Those that refuse them in some places only: coordinates, weights, what is put into real numbers.
#: Of complex elements NumPy makes no automatic choice of bins, and takes their weights along one axis alone.
PARTLY_REFUSING = {"cov", "ediff1d", "gradient", "insert", "interp", "polyfit"}
PARTLY_REFUSING |= {"histogram", "histogram2d", "histogram_bin_edges", "histogramdd"}
#: There are no extremes of complex numbers.
PARTLY_REFUSING |= {"nn.scatter_reduce"}
#: Those whose results are known up to phases, and those of Hermitian matrices: their calls are complex from the start.
UP_TO_PHASES = {"eig", "eigh", "eigvalsh", "svd"}


def _by_leaves(function: Callable[..., Any], case: Case) -> ComplexCall:
    """Return a case as a function of the arrays that it is differentiated by."""
    case = in_complex_dtypes(case)
    return ComplexCall(lambda *leaves: call(function, case, leaves), tuple(leaves_of(case)))


def _named(functions: Iterable[Any], prefix: str = "") -> dict[str, Any]:
    return {prefix + function.__name__: function for function in functions}


def _each_function() -> dict[str, list[ComplexCall]]:
    """Return the calls of every function that has any, with points to which imaginary parts may be added."""
    found: dict[str, list[ComplexCall]] = {}
    for function, cases in CASES.items():
        if function.__name__ in UP_TO_PHASES:
            continue
        found.setdefault(function.__name__, []).extend(_by_leaves(function, case) for case in cases if case.smooth)
    for function, case in [(one.function, one.case) for one in NN_CALLS if one.case.smooth]:
        found.setdefault(f"nn.{function.__name__}", []).append(_by_leaves(function, case))
    found["nn.dropout"] = [ComplexCall(lambda x: nn.dropout(x, rng=np.random.default_rng(0)), (np.ones((2, 3)),))]
    return found


def _each_step() -> dict[str, ComplexCall]:
    """Return calls of the functions without a derivative, between their steps; those of no array have none."""
    rng = np.random.default_rng(1)
    found: dict[str, ComplexCall] = {}
    # What empty_like gives is anything.
    for function in set(NONDIFFERENTIABLE) - {np.empty_like}:
        args = ARGUMENTS.get(function, (np.array([[1.6, -2.4, 0.3], [3.1, 0.6, -1.2]]),))
        args = tuple(arg.astype(float) if isinstance(arg, np.ndarray) else arg for arg in args)
        one = _by_leaves(function, Case(args, differentiate=tuple(range(len(args)))))
        points = tuple(point + rng.uniform(0.01, 0.09, point.shape) for point in one.points)
        found[function.__name__] = one._replace(points=points)
    return {name: found[name] for name in sorted(found) if found[name].points}


FUNCTIONS = {name: calls for name, calls in _each_function().items() if calls}
STEPS = _each_step()
#: Calls that are complex from the start.
COMPLEX_CALLS = {
    **cases_complex.CALLS,
    **{
        f"{function.__name__}-{index}": one
        for function, calls in cases_complex.WRITES.items()
        for index, one in enumerate(calls)
    },
}
#: Functions whose calls are among those, and not among the tables.
IN_COMPLEX_CALLS = {"sign", "cholesky", *UP_TO_PHASES, *(function.__name__ for function in cases_complex.WRITES)}
#: Primitives of kernels of a device, of functions that refuse complex numbers.
ON_DEVICES = {"rms_norm"}
#: Primitives of calls that refuse complex numbers, of functions that take them in others.
OF_REAL_NUMBERS = {"extremes_of_groups"}
#: They have no derivative by the array, and refuse a value that requires grad.
WITHOUT_COMPLEX_CASE = {"full_like", "nn.one_hot", *(function.__name__ for function in SAVING)}


def _uncovered(functions: Iterable[str], covered: Mapping[str, list[ComplexCall]]) -> set[str]:
    """Return the functions that no call shows with complex arguments."""
    with_calls = {name for name, calls in covered.items() if any(one.points for one in calls)}
    return set(functions) - with_calls - IN_COMPLEX_CALLS - WITHOUT_COMPLEX_CASE - set(_named(NONDIFFERENTIABLE))


def _unseen(primitives: Iterable[Primitive], seen: set[Primitive]) -> list[str]:
    return sorted(one.name for one in primitives if one not in seen)


# The law.


@pytest.mark.slow
@pytest.mark.sampled("name")
@pytest.mark.filterwarnings("ignore:invalid value encountered")  # a power of 0 and of infinity, in NumPy itself
@pytest.mark.filterwarnings("ignore:Casting complex values")  # the widths of complex bins, in NumPy itself
@pytest.mark.parametrize(
    ("name", "one"),
    [
        pytest.param(name, one, id=f"{name}-{index}")
        for name, calls in FUNCTIONS.items()
        for index, one in enumerate(calls)
    ],
)
def test_every_function_is_right_for_complex_arguments_or_refuses_them(name: str, one: ComplexCall) -> None:
    found = {verdict(name, one.function, points) for points in complex_points(one.points)}

    if name in REFUSING:
        assert found == {Verdict.REFUSES}
    elif name not in PARTLY_REFUSING:
        assert found == {Verdict.RIGHT}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPLEX_CALLS)
def test_calls_with_complex_arguments_are_right(name: str) -> None:
    one = COMPLEX_CALLS[name]

    assert verdict(name, one.function, one.points) is Verdict.RIGHT


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
@pytest.mark.parametrize("name", STEPS)
def test_a_function_without_derivative_is_constant_for_complex_numbers_too(name: str) -> None:
    one = STEPS[name]

    assert Verdict.RIGHT not in {verdict(name, one.function, points) for points in complex_points(one.points)}


def test_every_function_has_a_call_with_complex_arguments() -> None:
    # Those that return no Any make parameters, labels or files.
    of_nn = [name for name in nn.__all__ if getattr(nn, name).__annotations__.get("return") == "Any"]
    functions = {*_named(rules_of_numpy()), *(f"nn.{name}" for name in of_nn)}

    assert _uncovered(functions, FUNCTIONS) == set()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_primitive_is_part_of_a_complex_call_or_only_of_functions_that_refuse_them() -> None:
    seen: set[Primitive] = set()
    for name, calls in FUNCTIONS.items():
        for one in calls:
            if name in REFUSING:
                seen |= primitives_in(one.function, one.points, "fc")
            elif name not in PARTLY_REFUSING:
                seen |= primitives_in(one.function, next(complex_points(one.points)), "c")
    for one in COMPLEX_CALLS.values():
        seen |= primitives_in(one.function, one.points, "c")
    # NumPy's generators refuse complex parameters before a draw is made (tests/numpy/test_random.py).
    primitives = [
        one
        for one in all_primitives()
        if one.name not in ON_DEVICES | OF_REAL_NUMBERS and not one.function.__module__.startswith("asyncgrad.numpy.")
    ]

    assert _unseen(primitives, seen) == []


# What is refused.


@pytest.mark.parametrize("name", sorted(name for name in REFUSING if name.startswith("nn.")))
def test_a_function_of_real_numbers_refuses_complex_arrays_as_it_does_tensors(name: str) -> None:
    one = FUNCTIONS[name][0]
    points = next(complex_points(one.points))

    for arguments in (points, [ag.tensor(point) for point in points]):
        with pytest.raises(ArgumentTypeError, match=f"{name} is a function of real numbers"):
            one.function(*arguments)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_refuses_complex_numbers_in_both_forms(approximate: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"nn\.gelu is a function of real numbers, and x is of dtype complex64"):
        nn.gelu(np.ones(2, np.complex64), approximate)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.multiply(z, z, dtype=float),
        lambda z: np.einsum("i,i", z, z, dtype=float),
        lambda z: np.concatenate([z, z], dtype=float),
    ],
    ids=["ufunc", "einsum", "concatenate"],
)
def test_complex_numbers_are_refused_in_a_real_dtype_where_numpy_does(function: Any) -> None:
    z = ag.tensor([1 + 1j], requires_grad=True)

    for given in (z, z.numpy()):
        with pytest.raises(TypeError, match="complex128"):
            function(given)


@pytest.mark.parametrize("point", [1.0, 1j])
def test_the_jacobian_of_a_complex_output_is_refused_since_a_row_would_be_half_of_it(point: complex) -> None:
    with pytest.raises(ArgumentTypeError, match="jacobian: output 1 of the function is complex"):
        sync.jacobian(lambda z: (np.abs(z), np.exp(1j * z)), point)


def test_the_hessian_by_a_complex_number_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="hessian: the gradient of the function with respect to input 0 is"):
        sync.hessian(np.abs, 1 + 1j)


# Real dtypes of complex elements: NumPy warns that it drops the imaginary parts, and so do we, of the same ones.


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("function", [np.sum, np.mean, np.prod, np.cumsum, np.cumprod, np.var, np.std])
def test_a_reduction_of_complex_elements_in_a_real_dtype_has_the_derivative_of_what_it_computes(function: Any) -> None:
    z = np.array([1 + 2j, 0.5 - 1j, -2 + 0.3j, 1.5j + 0.7])

    assert verdict(function.__name__, lambda z: function(z, dtype=float), [z]) is Verdict.RIGHT


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    "write",
    [
        lambda x, z: x.__setitem__(slice(1, None), z),
        lambda x, z: x.__setitem__([2, 0], z),
        lambda x, z: np.copyto(x[1:], z, casting="unsafe"),
        lambda x, z: np.add.at(x, [0, 0], z),
    ],
    ids=["slice", "indices", "copyto", "add.at"],
)
def test_a_complex_value_written_into_a_real_tensor_gets_the_gradient_of_its_real_part(write: Any) -> None:
    points = [np.array([1.0, 2.0, 3.0]), np.array([1 + 2j, 3 - 1j])]

    assert verdict("write", cases_complex.after(write), points) is Verdict.RIGHT


@pytest.mark.parametrize(
    "write",
    [
        lambda x, z: x.__iadd__(z),
        lambda x, z: x.__imul__(1j),
        np.copyto,
        lambda x, z: np.exp(z, out=x),
        lambda x, z: x.__setitem__(0, 1j),
        lambda x, z: np.put(x, [0], 1j),
        lambda x, z: np.putmask(x, [True, False], z),
        lambda x, z: np.place(x, [True, False], z),
        lambda x, z: np.fill_diagonal(x.reshape(1, 2), 1j),
    ],
    ids=["+=", "a number *=", "copyto", "out=", "a number", "put", "putmask", "place", "fill_diagonal"],
)
def test_what_numpy_refuses_to_write_into_a_real_array_is_refused_and_changes_nothing(write: Any) -> None:
    x, z = ag.tensor([1.0, 2.0], requires_grad=True) * 1, ag.tensor([1 + 2j, 3j], requires_grad=True)

    with pytest.raises(TypeError):
        write(x, z)
    with pytest.raises(TypeError):
        write(x.numpy().copy(), z.numpy())
    assert x.numpy().tolist() == [1.0, 2.0]
    assert sync.grad(x.sum(), x)[0].numpy().tolist() == [1.0, 1.0]


# Points without a derivative, and other dtypes.


@pytest.mark.parametrize(
    "function",
    [
        np.abs,
        np.sign,
        *(lambda z, order=order: np.linalg.norm(z, order) for order in (None, 1, 3, 1.5, np.inf)),
        np.std,
    ],
)
def test_the_subgradient_at_a_complex_zero_is_zero(function: Any) -> None:
    z = ag.tensor(np.zeros(3, complex), requires_grad=True)

    (gradient,) = sync.grad(function(z), z, np.ones_like(function(z.numpy())), create_graph=True)

    assert not gradient.numpy().any()


def test_each_part_that_nan_to_num_keeps_has_its_gradient() -> None:
    z = ag.tensor([complex(np.nan, 1), complex(2, np.inf), 1 + 2j], requires_grad=True)

    (gradient,) = sync.grad(np.nan_to_num(z), z, np.full(3, 3 + 4j))

    assert gradient.numpy().tolist() == [4j, 3, 3 + 4j]


@pytest.mark.parametrize(
    "name", ["sign", "slogdet", "inv of no matrix", "det, singular", "norm of order 3", "vdot, the second"]
)
def test_rules_of_complex64_give_complex64(name: str) -> None:
    one = COMPLEX_CALLS[name]
    leaves = [
        ag.tensor(point.astype(np.complex64 if point.dtype.kind == "c" else np.float32), requires_grad=True)
        for point in one.points
    ]
    results = one.function(*leaves)
    results = results if isinstance(results, tuple) else (results,)

    grads = sync.grad(results, leaves, [np.ones(one.shape, one.dtype) for one in results], create_graph=True)
    second = sync.grad(grads, leaves, [np.ones(one.shape, one.dtype) for one in grads], allow_unused=True)

    assert {one.dtype.itemsize for one in results} <= {4, 8}
    assert [one.dtype for one in (*grads, *second)] == 2 * [leaf.dtype for leaf in leaves]


def test_the_sign_of_a_real_number_and_of_a_real_determinant_have_no_history() -> None:
    x = ag.tensor([[1.5, 0.5], [0.0, -2.0]], requires_grad=True)

    assert np.sign(x).numpy().tolist() == [[1, 1], [0, -1]]
    assert not np.sign(x).requires_grad
    assert not np.linalg.slogdet(x).sign.requires_grad
    assert np.linalg.slogdet(x).logabsdet.requires_grad


# PyTorch as another oracle.

TORCH: dict[str, tuple[Callable[..., Any], Callable[[Any], Callable[..., Any]]]] = {
    "abs": (np.abs, lambda torch: torch.abs),
    "sign": (np.sign, lambda torch: torch.sgn),
    "slogdet": (np.linalg.slogdet, lambda torch: torch.linalg.slogdet),
    "det": (np.linalg.det, lambda torch: torch.linalg.det),
    "inv": (np.linalg.inv, lambda torch: torch.linalg.inv),
    "cholesky": (
        lambda z: np.linalg.cholesky(cases_complex.hermitian(z)),
        lambda torch: lambda z: torch.linalg.cholesky(z @ z.mH + torch.eye(3)),
    ),
    "cholesky, upper": (
        lambda z: np.linalg.cholesky(cases_complex.hermitian(z), upper=True),
        lambda torch: lambda z: torch.linalg.cholesky(z @ z.mH + torch.eye(3), upper=True),
    ),
    **{
        f"norm of order {order}": (
            lambda z, order=order: np.linalg.norm(z, order, -1),
            lambda torch, order=order: lambda z: torch.linalg.vector_norm(z, order, -1),
        )
        for order in (0.5, 1, 1.5, 2, 3, np.inf)
    },
    "prod": (np.prod, lambda torch: torch.prod),
    "cumprod": (lambda z: np.cumprod(z, 0), lambda torch: lambda z: torch.cumprod(z, 0)),
    "var": (np.var, lambda torch: lambda z: torch.var(z, correction=0)),
    "std": (np.std, lambda torch: lambda z: torch.std(z, correction=0)),
    "sigmoid": (nn.sigmoid, lambda torch: torch.sigmoid),
    "power": (lambda z: z ** (0.5 + 1j), lambda torch: lambda z: z ** (0.5 + 1j)),
}


@pytest.mark.parametrize("name", TORCH)
def test_complex_gradients_of_first_and_second_order_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = TORCH[name]
    data = cases_complex.COMPLEX_MATRIX
    z, peer = ag.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)

    def weighted(results: Any, library: Any) -> Any:
        """Return a real number in which every part of every result has a weight of its own."""
        total = 0
        for result in results if isinstance(results, tuple) else (results,):
            total = total + ((result * (1.5 - 0.5j)) * (result * 0.3j + 1)).sum()
        return library.real(total)

    def penalty(gradient: Any, library: Any) -> Any:
        return library.real((gradient * (0.3 + 1j) * gradient).sum())

    (first,) = sync.grad(weighted(ours(z), np), z, create_graph=True)
    (second,) = sync.grad(penalty(first, np), z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = theirs(torch)(peer)
        (expected,) = torch.autograd.grad(
            weighted(tuple(outputs) if isinstance(outputs, tuple) else outputs, torch), peer, create_graph=True
        )
        (expected_second,) = torch.autograd.grad(penalty(expected, torch), peer)

    np.testing.assert_allclose(first.numpy(), expected.detach().numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(second.numpy(), expected_second.numpy(), rtol=1e-7, atol=1e-8)


def test_the_gradient_of_a_cholesky_factor_is_that_by_a_hermitian_matrix() -> None:
    torch = pytest.importorskip("torch")
    data = cases_complex.hermitian(cases_complex.COMPLEX_MATRIX)
    weights = cases_complex.COMPLEX_MATRIX.T.copy()
    a, peer = ag.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)

    (gradient,) = sync.grad(np.real(np.vdot(weights, np.linalg.cholesky(a))), a)
    (expected,) = torch.autograd.grad((torch.tensor(weights).conj() * torch.linalg.cholesky(peer)).sum().real, peer)

    np.testing.assert_array_equal(gradient.numpy(), gradient.numpy().conj().T)
    # PyTorch leaves an imaginary part on the diagonal, along which no Hermitian matrix can move.
    np.testing.assert_allclose(gradient.numpy(), (expected + expected.mH).numpy() / 2, rtol=1e-10, atol=1e-12)


# The checker itself.


@primitive()
def length_and_no_more(z: Any) -> Any:
    return np.abs(z)


@derivative(length_and_no_more, "z")
def _(g: Any, z: Any, out: Any) -> Any:
    return g * np.conjugate(z) / out


@primitive()
def rightly_squared(z: Any) -> Any:
    return z * z


@derivative(rightly_squared, "z")
def _(g: Any, z: Any) -> Any:
    return g * 2 * z


@primitive()
def twice_conjugated(z: Any) -> Any:
    return z * z


@derivative(twice_conjugated, "z")
def _(g: Any, z: Any) -> Any:
    return g * 2 * np.conjugate(z)


@primitive()
def wrong_in_the_second(z: Any) -> Any:
    return np.abs(z)


@derivative(wrong_in_the_second, "z")
def _(g: Any, z: Any, out: Any) -> Any:
    return g * z / getattr(out, "_data", out)


@primitive()
def half_refused(z: Any) -> Any:
    if z.dtype.kind == "c":
        raise TypeError("no complex numbers here")
    return z


@derivative(half_refused, "z")
def _(g: Any) -> Any:
    return g


_POINTS = [np.array([1 + 2j, 0.5 - 1j])]


@pytest.mark.parametrize(
    "function",
    [length_and_no_more, twice_conjugated, wrong_in_the_second],
    ids=["conjugate wrong", "conjugated twice", "second order"],
)
def test_the_checker_finds_a_wrong_rule(function: Primitive) -> None:
    with pytest.raises((GradcheckError, AssertionError)):
        verdict(function.name, function, _POINTS)


def test_the_checker_passes_a_right_rule() -> None:
    assert verdict("rightly_squared", rightly_squared, _POINTS) is Verdict.RIGHT


def test_the_checker_finds_one_output_that_has_lost_its_history() -> None:
    with pytest.raises(GradcheckError, match="its history was lost"):
        verdict("polar", lambda z: (np.abs(z), np.exp(z).detach() if isinstance(z, ag.Tensor) else np.exp(z)), _POINTS)


def test_the_checker_finds_a_result_without_any_history_that_is_not_constant() -> None:
    with pytest.raises(GradcheckError, match="its history was lost"):
        verdict("detached", lambda z: z.detach() if isinstance(z, ag.Tensor) else z, _POINTS)


def test_the_checker_finds_a_refusal_that_does_not_say_whose_it_is() -> None:
    def refuses_tensors(z: Any) -> Any:
        if isinstance(z, ag.Tensor):
            raise ArgumentTypeError("no complex numbers here")
        return z

    with pytest.raises(AssertionError, match="unclearly"):
        verdict("refuses_tensors", refuses_tensors, _POINTS)


def test_the_checker_finds_a_refusal_of_tensors_that_numpy_does_not_share() -> None:
    with pytest.raises(AssertionError, match="unclearly"):
        verdict("half_refused", lambda z: half_refused(z) if isinstance(z, ag.Tensor) else z, _POINTS)


def test_the_checker_finds_a_function_without_a_complex_call_and_a_primitive_that_no_call_meets() -> None:
    assert _uncovered({"sin", "made_up", "nn.made_up"}, FUNCTIONS) == {"made_up", "nn.made_up"}
    assert _unseen({rightly_squared}, primitives_in(rightly_squared, [np.ones(2)], "c")) == ["rightly_squared"]
    assert _unseen({rightly_squared}, primitives_in(rightly_squared, _POINTS, "c")) == []
